//! Soft actor-critic learns to swing a pendulum up, and nothing without steps of its optimisers.

use rl::dist::SdeSpec;
use rl::env::{Stepped, make};
use rl::learn::sac::{Sac, SacSettings};
use rl::nn::{Activation, Start};
use rl::policy::Choice;
use rl::replay::Replay;
use rl::rollout::Runner;
use rl::soft::{Actor, SoftPolicy, SoftSpec};

/// Mean reward of the last episodes' best actions after learning for so many steps.
fn learned(rate: f32, steps: usize, sde: Option<SdeSpec>) -> f64 {
    let spec = SoftSpec {
        observed: 3,
        low: vec![-2.0],
        high: vec![2.0],
        hiddens: vec![64, 64],
        critic_hiddens: vec![64, 64],
        activation: Activation::Relu,
        is_twin: true,
        image: None,
        sde,
        start: Start::Uniform,
    };
    let settings = SacSettings {
        actor_rate: rate,
        critic_rate: rate,
        temperature_rate: rate,
        batch: 64,
        tau: 0.01,
        temperature: None,
        target_entropy: None,
        gradient_max: None,
        alpha: 0.0,
        beta: 0.0,
        threads: 1,
    };
    let mut learner = Sac::new(&spec, 1.0, 1e-8, 1);
    let policy = || Box::new(SoftPolicy::new(Actor::new(&spec)));
    let mut runner = Runner::new(policy(), 1, 2);
    let mut replay = Replay::new(100_000, 3, 1, false);
    let mut vector = make("Pendulum-v1", 1, &Default::default()).expect("it is known");
    let (mut observed, mut stepped) = (vec![0.0; 3], Stepped::default());
    vector.reset(Some(3), &mut observed);
    runner.see(&observed);
    runner.run(&mut *vector, 400, Choice::Astray(1.0), &mut stepped);
    replay.add(&runner.take(), 1, 0.95);
    // Noise that depends on the state is drawn anew with each rollout.
    let length = if sde.is_some() { 8 } else { 1 };
    for _ in 0..steps / length {
        runner.parameters_mut().copy_from_slice(learner.parameters());
        runner.run(&mut *vector, length, Choice::Drawn, &mut stepped);
        replay.add(&runner.take(), 1, 0.95);
        (0..length).for_each(|_| _ = learner.update(&mut replay, &settings));
    }

    const EPISODES: usize = 20;
    let mut vector = make("Pendulum-v1", EPISODES, &Default::default()).expect("it is known");
    let mut runner = Runner::new(policy(), EPISODES, 4);
    runner.parameters_mut().copy_from_slice(learner.parameters());
    let mut observed = vec![0.0; 3 * EPISODES];
    vector.reset(Some(100), &mut observed);
    runner.see(&observed);
    runner.run(&mut *vector, 200, Choice::Best, &mut stepped);
    let episodes = runner.take_episodes();
    assert_eq!(episodes.len(), EPISODES);
    episodes.iter().map(|episode| episode.reward).sum::<f64>() / EPISODES as f64
}

#[test]
fn a_pendulum_is_swung_up() {
    let mean = learned(2e-3, 5_000, None);
    assert!(mean > -250.0, "{mean}");
}

#[test]
fn a_pendulum_is_swung_up_with_noise_that_depends_on_the_state() {
    let mean = learned(2e-3, 5_000, Some(SdeSpec { every: None, log_std: -2.0 }));
    assert!(mean > -250.0, "{mean}");
}

#[test]
fn nothing_is_learned_without_steps_of_the_optimisers() {
    let mean = learned(0.0, 200, None);
    assert!(mean < -800.0, "{mean}");
}
