//! Every learner learns: it gets far beyond what it does when its steps have no size.
//!
//! Machines round products of matrices differently, and a policy goes its own way from the first bit that differs: so goals and budgets leave room, and
//! hold for other seeds too.

use rl::env::{Config, Stepped, Vector, make};
use rl::learn::a2c::{A2c, A2cSettings};
use rl::learn::dqn::{Dqn, DqnSettings};
use rl::learn::es::{Es, EsSettings, Trial};
use rl::learn::impala::{Impala, ImpalaSettings};
use rl::learn::ppo::{Ppo, PpoSettings};
use rl::model::{ActorCritic, Model, ModelSpec};
use rl::nn::{Activation, OptimiserSpec};
use rl::policy::{Choice, Policy};
use rl::q::{QModel, QPolicy, QSpec};
use rl::replay::Replay;
use rl::rollout::{Rollout, Runner};
use rl::space::Acted;

const SEED: u64 = 1;

/// `CartPole` under a policy: 500 at best, about 20 by chance.
struct Practice {
    runner: Runner,
    vector: Box<dyn Vector>,
    stepped: Stepped,
    /// What episodes brought.
    returns: Vec<f64>,
    /// The best mean of 20 of them that came one behind the other.
    best: f64,
}

impl Practice {
    fn new(policy: Box<dyn Policy>, envs: usize, seed: u64) -> Self {
        let mut vector = make("CartPole-v1", envs, &Config::new()).expect("it is known");
        let mut runner = Runner::new(policy, envs, seed);
        let mut observed = vec![0.0; 4 * envs];
        vector.reset(Some(seed), &mut observed);
        runner.see(&observed);
        Self { runner, vector, stepped: Stepped::default(), returns: Vec::new(), best: 0.0 }
    }

    fn rollout(&mut self, parameters: &[f32], steps: usize, choice: Choice) -> Rollout {
        self.runner.parameters_mut().copy_from_slice(parameters);
        self.runner.run(&mut *self.vector, steps, choice, &mut self.stepped);
        for episode in self.runner.take_episodes() {
            self.returns.push(episode.reward);
            let last = self.returns.last_chunk::<20>();
            self.best = last.map_or(0.0, |last| last.iter().sum::<f64>() / 20.0).max(self.best);
        }
        self.runner.take()
    }

    /// What one whole episode brings, of the only environment.
    fn episode(&mut self, parameters: &[f32], choice: Choice) -> f64 {
        let before = self.returns.len();
        while self.returns.len() == before {
            self.rollout(parameters, 1, choice);
        }
        self.returns[before]
    }
}

fn model(hiddens: Vec<usize>) -> Model {
    Model::new(ModelSpec {
        observed: 4,
        acted: Acted::Discrete(2),
        hiddens,
        activation: Activation::Tanh,
        is_shared: false,
        free_log_std: false,
        ..ModelSpec::default()
    })
}

/// With a step size it reaches the goal, and without it stays far below.
fn learns(best: impl Fn(f32, u64) -> f64, rate: f32, goal: f64) {
    let (with, without) = (best(rate, SEED), best(0.0, SEED));
    assert!(with >= goal, "{with} instead of at least {goal}");
    assert!(without < goal / 2.0, "{without} without learning, where {goal} is the goal");
}

#[test]
fn ppo_learns() {
    let best = |rate: f32, seed: u64| {
        let settings = PpoSettings {
            gamma: 0.98,
            lambda: 0.8,
            rate,
            epochs: 20,
            minibatch: 256,
            clip: 0.2,
            value_weight: 0.5,
            value_clip: f32::INFINITY,
            entropy_weight: 0.0,
            uses_kl: false,
            kl_target: 0.01,
            gradient_max: Some(0.5),
            scales_minibatches: true,
            threads: 1,
        };
        let mut learner = Ppo::new(model(vec![32, 32]), 0.2, 1e-5, seed);
        let mut practice = Practice::new(Box::new(ActorCritic::new(model(vec![32, 32]))), 8, seed);
        for _ in 0..200 {
            if practice.best >= 300.0 {
                break;
            }
            let rollout = practice.rollout(learner.parameters(), 32, Choice::Drawn);
            learner.update(&[&rollout], &settings);
        }
        practice.best
    };
    learns(best, 1e-3, 300.0);
}

#[test]
fn a2c_learns() {
    let best = |rate: f32, seed: u64| {
        let settings = A2cSettings {
            rate,
            entropy_weight: 0.0,
            value_weight: 1.0,
            gradient_max: Some(0.5),
            ..A2cSettings::default()
        };
        let rms_prop = OptimiserSpec::RmsProp { decay: 0.99, momentum: 0.0, epsilon: 1e-5, is_tf_like: false };
        let mut learner = A2c::new(model(vec![32, 32]), &rms_prop, seed);
        let mut practice = Practice::new(Box::new(ActorCritic::new(model(vec![32, 32]))), 8, seed);
        for _ in 0..3_000 {
            if practice.best >= 300.0 {
                break;
            }
            let rollout = practice.rollout(learner.parameters(), 8, Choice::Drawn);
            learner.update(&[&rollout], &settings);
        }
        practice.best
    };
    learns(best, 1e-3, 300.0);
}

/// Actors act by parameters that are some updates old.
#[test]
fn impala_learns_from_older_policies() {
    let best = |rate: f32, seed: u64| {
        let settings = ImpalaSettings { rate, entropy_weight: 0.001, ..ImpalaSettings::default() };
        let mut learner = Impala::new(model(vec![32, 32]), &OptimiserSpec::Adam { epsilon: 1e-8 }, seed);
        let mut practice = Practice::new(Box::new(ActorCritic::new(model(vec![32, 32]))), 8, seed);
        let mut older = std::collections::VecDeque::from([learner.parameters().to_vec()]);
        for _ in 0..600 {
            if practice.best >= 300.0 {
                break;
            }
            if older.len() > 3 {
                older.pop_front();
            }
            let rollout = practice.rollout(&older[0], 50, Choice::Drawn);
            learner.update(&[&rollout], &settings);
            older.push_back(learner.parameters().to_vec());
        }
        practice.best
    };
    learns(best, 3e-3, 300.0);
}

#[test]
fn dqn_learns() {
    let best = |rate: f32, seed: u64| {
        let model = QModel::new(QSpec {
            observed: 4,
            actions: 2,
            hiddens: vec![64, 64],
            activation: Activation::Relu,
            heads: Vec::new(),
            is_dueling: true,
            ..QSpec::default()
        });
        let settings = DqnSettings {
            rate,
            batch: 64,
            is_double: true,
            gradient_max: Some(10.0),
            alpha: 0.6,
            beta: 0.4,
            threads: 1,
        };
        let mut learner = Dqn::new(model.clone(), 1e-8, seed);
        let mut replay = Replay::new(50_000, 4, 1, true);
        let mut practice = Practice::new(Box::new(QPolicy::new(model)), 4, seed);
        for round in 0..3_000 {
            if practice.best >= 150.0 {
                break;
            }
            let astray = (1.0 - round as f32 / 600.0).max(0.04);
            let rollout = practice.rollout(learner.parameters(), 4, Choice::Astray(astray));
            replay.add(&rollout, 1, 0.99);
            if replay.len() >= 500 {
                learner.update(&mut replay, &settings, 2);
            }
            if round % 25 == 0 {
                learner.follow(1.0);
            }
        }
        practice.best
    };
    learns(best, 1e-3, 150.0);
}

#[test]
fn es_learns() {
    let best = |rate: f32, seed: u64| {
        let settings = EsSettings { rate, noise: 0.2, decay: 0.0005 };
        let mut learner = Es::new(model(vec![8]), seed);
        let mut practice = Practice::new(Box::new(ActorCritic::new(model(vec![8]))), 1, seed);
        for _ in 0..40 {
            let seeds = learner.ask(20);
            let mut trial = |seed: u64| {
                let returns = [false, true]
                    .map(|is_other| practice.episode(&learner.candidate(seed, is_other, &settings), Choice::Drawn));
                Trial { seed, returns, lengths: returns.map(|steps| steps as u32) }
            };
            let trials: Vec<Trial> = seeds.into_iter().map(&mut trial).collect();
            learner.tell(&trials, &settings);
        }
        (0..20).map(|_| practice.episode(learner.parameters(), Choice::Drawn)).sum::<f64>() / 20.0
    };
    learns(best, 0.1, 300.0);
}
