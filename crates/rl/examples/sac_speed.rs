//! How fast soft actor-critic trains Pendulum, and how well: `cargo run --release -p eagleray-rl --example sac_speed [steps] [seed] [threads]`.

use std::time::Instant;

use rl::env::{Stepped, make};
use rl::learn::sac::{Sac, SacSettings};
use rl::nn::{Activation, Start};
use rl::policy::Choice;
use rl::replay::Replay;
use rl::rollout::Runner;
use rl::soft::{Actor, SoftPolicy, SoftSpec};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let (steps, seed) = (arguments.next().unwrap_or(5_000), arguments.next().unwrap_or(1));
    let spec = SoftSpec {
        observed: 3,
        low: vec![-2.0],
        high: vec![2.0],
        hiddens: vec![256, 256],
        critic_hiddens: vec![256, 256],
        activation: Activation::Relu,
        is_twin: true,
        image: None,
        sde: None,
        start: Start::Uniform,
    };
    let settings = SacSettings {
        actor_rate: 1e-3,
        critic_rate: 1e-3,
        temperature_rate: 1e-3,
        batch: 256,
        tau: 0.005,
        temperature: None,
        target_entropy: None,
        gradient_max: None,
        alpha: 0.0,
        beta: 0.0,
        threads: arguments.next().unwrap_or(2) as usize,
    };
    let mut learner = Sac::new(&spec, 1.0, 1e-8, seed);
    let mut runner = Runner::new(Box::new(SoftPolicy::new(Actor::new(&spec))), 1, seed + 1);
    let mut replay = Replay::new(1_000_000, 3, 1, false);
    let mut vector = make("Pendulum-v1", 1, &Default::default()).expect("it is known");
    let (mut observed, mut stepped) = (vec![0.0; 3], Stepped::default());
    vector.reset(Some(seed + 2), &mut observed);
    runner.see(&observed);
    runner.run(&mut *vector, 100, Choice::Astray(1.0), &mut stepped);
    replay.add(&runner.take(), 1, 0.99);
    let begun = Instant::now();
    for step in 1..=steps {
        runner.parameters_mut().copy_from_slice(learner.parameters());
        runner.run(&mut *vector, 1, Choice::Drawn, &mut stepped);
        replay.add(&runner.take(), 1, 0.99);
        let stats = learner.update(&mut replay, &settings);
        if step % 1_000 == 0 {
            let episodes = runner.take_episodes();
            let mean = episodes.iter().map(|episode| episode.reward).sum::<f64>() / episodes.len().max(1) as f64;
            let speed = step as f64 / begun.elapsed().as_secs_f64();
            let temperature = stats.temperature;
            println!("{step} steps, {speed:.0} steps/s, mean {mean:.0}, temperature {temperature:.3}");
        }
    }
}
