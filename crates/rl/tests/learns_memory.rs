//! What was shown at an episode's beginning is told at its end: possible only for who remembers.

use rl::chance::Chance;
use rl::env::{Environment, Outcome, Stepped, Vector, Vectored};
use rl::learn::ppo::PpoSettings;
use rl::learn::recurrent::RecurrentPpo;
use rl::nn::Activation;
use rl::policy::Choice;
use rl::recurrent::{RecurrentNet, RecurrentPolicy, RecurrentSpec};
use rl::rollout::Runner;
use rl::space::{Acted, Observed, Spaces};

const STEPS: usize = 5;
const ENVS: usize = 16;

/// One of two signs in the first step, none later; 1 for telling the right one in the last, -1 for the wrong one.
struct Recall;

impl Environment for Recall {
    /// The sign, and steps that were taken.
    type State = (usize, usize);

    fn spaces(&self) -> Spaces {
        let observed = Observed::Box { shape: vec![2], low: vec![-1.0; 2], high: vec![1.0; 2] };
        Spaces { observed, acted: Acted::Discrete(2) }
    }

    fn reset(&self, chance: &mut Chance) -> Self::State {
        (chance.integers(2) as usize, 0)
    }

    fn step(&self, state: &mut Self::State, action: &[f32], _: &mut Chance) -> Outcome {
        state.1 += 1;
        let terminated = state.1 == STEPS;
        let reward = match (terminated, action[0] as usize == state.0) {
            (false, _) => 0.0,
            (true, true) => 1.0,
            (true, false) => -1.0,
        };
        Outcome { reward, terminated }
    }

    fn observe(&self, state: &Self::State, into: &mut [f32]) {
        into[0] = if state.1 == 0 { 2.0 * state.0 as f32 - 1.0 } else { 0.0 };
        into[1] = state.1 as f32 / STEPS as f32;
    }

    fn numbers(&self, state: &Self::State) -> Vec<f64> {
        vec![state.0 as f64, state.1 as f64]
    }

    fn state(&self, numbers: &[f64]) -> Option<Self::State> {
        Some((*numbers.first()? as usize, *numbers.get(1)? as usize))
    }
}

/// Mean reward of the best actions after learning.
fn learned(rate: f32, rounds: usize) -> f64 {
    let net = RecurrentNet::new(RecurrentSpec {
        observed: 2,
        acted: Acted::Discrete(2),
        hiddens: vec![],
        activation: Activation::Tanh,
        cells: 16,
        // Neither the episodes' length nor a part of the rollouts': sequences begin and end within episodes.
        steps_max: 12,
        free_log_std: false,
        image: None,
    });
    let settings = PpoSettings {
        gamma: 0.99,
        lambda: 0.95,
        rate,
        epochs: 4,
        minibatch: 128,
        clip: 0.2,
        value_weight: 0.5,
        value_clip: f32::INFINITY,
        entropy_weight: 0.01,
        uses_kl: false,
        kl_target: 0.01,
        gradient_max: Some(0.5),
        scales_minibatches: false,
        threads: 1,
    };
    let mut learner = RecurrentPpo::new(net.clone(), 0.0, 1e-8, 1);
    let mut runner = Runner::new(Box::new(RecurrentPolicy::new(net)), ENVS, 2);
    let mut vector = Vectored::new(Recall, ENVS, None);
    let (mut observed, mut stepped) = (vec![0.0; 2 * ENVS], Stepped::default());
    vector.reset(Some(3), &mut observed);
    runner.see(&observed);
    for _ in 0..rounds {
        runner.parameters_mut().copy_from_slice(learner.parameters());
        runner.run(&mut vector, 32, Choice::Drawn, &mut stepped);
        learner.update(&[&runner.take()], &settings);
    }
    runner.take_episodes();
    runner.run(&mut vector, 20 * STEPS, Choice::Best, &mut stepped);
    let episodes = runner.take_episodes();
    episodes.iter().map(|episode| episode.reward).sum::<f64>() / episodes.len() as f64
}

#[test]
fn a_sign_is_remembered() {
    let mean = learned(5e-3, 60);
    assert!(mean > 0.9, "{mean}");
}

#[test]
fn nothing_is_remembered_without_steps_of_the_optimiser() {
    let mean = learned(0.0, 2);
    assert!(mean < 0.5, "{mean}");
}
