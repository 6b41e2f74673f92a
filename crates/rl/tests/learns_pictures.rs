//! Catch is learned from its pictures through layers of filters, and is not without steps of the optimiser.

use rl::env::{Stepped, make};
use rl::learn::dqn::{Dqn, DqnSettings};
use rl::nn::{Activation, ImageSpec};
use rl::policy::Choice;
use rl::q::{QModel, QPolicy, QSpec};
use rl::replay::Replay;
use rl::rollout::Runner;

const ENVS: usize = 8;
const PIXELS: usize = 50;

/// Mean reward of the best actions after learning: 1 if every ball is caught, -1 if none is.
fn learned(rate: f32, rounds: usize) -> f64 {
    let spec = QSpec {
        observed: PIXELS,
        actions: 3,
        hiddens: vec![32],
        activation: Activation::Relu,
        image: Some(ImageSpec::new([10, 5, 1], vec![[8, 3, 1], [8, 3, 2]], true).expect("it fits")),
        ..QSpec::default()
    };
    let settings =
        DqnSettings { rate, batch: 64, is_double: true, gradient_max: Some(10.0), alpha: 0.0, beta: 0.0, threads: 1 };
    let model = QModel::new(spec);
    let mut learner = Dqn::new(model.clone(), 1e-8, 1);
    let mut runner = Runner::new(Box::new(QPolicy::new(model.clone())), ENVS, 2);
    let mut replay = Replay::new(20_000, PIXELS, 1, false);
    let mut vector = make("Catch-v0", ENVS, &Default::default()).expect("it is known");
    let (mut observed, mut stepped) = (vec![0.0; ENVS * PIXELS], Stepped::default());
    vector.reset(Some(3), &mut observed);
    runner.see(&observed);
    for round in 0..rounds {
        let share = (1.0 - round as f32 / (0.5 * rounds as f32)).max(0.05);
        runner.parameters_mut().copy_from_slice(learner.parameters());
        runner.run(&mut *vector, 4, Choice::Astray(share), &mut stepped);
        replay.add(&runner.take(), 1, 0.95);
        learner.update(&mut replay, &settings, 2);
        learner.follow(0.02);
    }
    let mut runner = Runner::new(Box::new(QPolicy::new(model)), ENVS, 4);
    runner.parameters_mut().copy_from_slice(learner.parameters());
    vector.reset(Some(100), &mut observed);
    runner.see(&observed);
    runner.run(&mut *vector, 9 * 10, Choice::Best, &mut stepped);
    let episodes = runner.take_episodes();
    assert_eq!(episodes.len(), 10 * ENVS);
    episodes.iter().map(|episode| episode.reward).sum::<f64>() / episodes.len() as f64
}

#[test]
fn balls_are_caught_by_their_pictures() {
    let mean = learned(1e-3, 1_000);
    assert!(mean > 0.9, "{mean}");
}

#[test]
fn nothing_is_learned_without_steps_of_the_optimiser() {
    let mean = learned(0.0, 50);
    assert!(mean < 0.0, "{mean}");
}
