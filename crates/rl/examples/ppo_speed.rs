//! How fast PPO trains CartPole: `cargo run --release -p eagleray-rl --example ppo_speed [THREADS] [PART_OF_A_NAME]`.

use std::time::Instant;

use rl::env::{Stepped, make};
use rl::learn::ppo::{Ppo, PpoSettings};
use rl::model::{ActorCritic, Model, ModelSpec};
use rl::nn::Activation;
use rl::policy::Choice;
use rl::rollout::Runner;
use rl::space::Acted;

fn main() {
    for (name, hiddens, envs, steps, epochs, minibatch, rate, clip, gamma, lambda) in [
        ("RLlib's batch, 64x64", vec![64, 64], 8, 500, 10, 128, 3e-4, 0.3, 0.99, 0.95),
        ("RLlib's batch, 256x256", vec![256, 256], 8, 500, 10, 128, 3e-4, 0.3, 0.99, 0.95),
        ("zoo", vec![64, 64], 8, 32, 20, 256, 1e-3, 0.2, 0.98, 0.8),
    ] {
        if std::env::args().nth(2).is_some_and(|part| !name.contains(&part)) {
            continue;
        }
        let spec = ModelSpec {
            observed: 4,
            acted: Acted::Discrete(2),
            hiddens,
            activation: Activation::Tanh,
            is_shared: false,
            free_log_std: false,
            ..ModelSpec::default()
        };
        let settings = PpoSettings {
            gamma,
            lambda,
            rate,
            epochs,
            minibatch,
            clip,
            value_weight: 0.5,
            value_clip: f32::INFINITY,
            entropy_weight: 0.0,
            uses_kl: false,
            kl_target: 0.01,
            gradient_max: Some(0.5),
            scales_minibatches: true,
            threads: std::env::args().nth(1).map_or(2, |count| count.parse().expect("a number of threads")),
        };
        let model = Model::new(spec);
        let mut learner = Ppo::new(model.clone(), 0.2, 1e-5, 1);
        let mut runner = Runner::new(Box::new(ActorCritic::new(model)), envs, 2);
        let mut vector = make("CartPole-v1", envs, &Default::default()).expect("it is known");
        let mut observed = vec![0.0; envs * 4];
        vector.reset(Some(3), &mut observed);
        runner.see(&observed);
        let (mut sampling, mut done, begun) = (0.0, 0, Instant::now());
        let mut stepped = Stepped::default();
        let mut recent = std::collections::VecDeque::new();
        let mut solved = None;
        while done < 100_000 {
            runner.parameters_mut().copy_from_slice(learner.parameters());
            let begun_sampling = Instant::now();
            runner.run(&mut *vector, steps, Choice::Drawn, &mut stepped);
            let rollout = runner.take();
            sampling += begun_sampling.elapsed().as_secs_f64();
            done += steps * envs;
            learner.update(&[&rollout], &settings);
            for episode in runner.take_episodes() {
                recent.push_back(episode.reward);
                if recent.len() > 100 {
                    recent.pop_front();
                }
            }
            let mean = recent.iter().sum::<f64>() / recent.len() as f64;
            if mean >= 475.0 && recent.len() == 100 && solved.is_none() {
                solved = Some((begun.elapsed().as_secs_f64(), done));
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        let mean = recent.iter().sum::<f64>() / recent.len() as f64;
        println!(
            "{name}: {:.0} steps/s ({:.0} % sampling), mean {mean:.0}, 475 after {solved:?}",
            done as f64 / seconds,
            100.0 * sampling / seconds
        );
    }
}
