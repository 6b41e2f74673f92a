//! What environments did under a policy, as columns.

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::env::{Stepped, Vector};
use crate::model::{Model, ModelTape};

/// Steps of environments side by side. Columns have a row per step and environment, by step first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// Steps of each environment.
    pub steps: usize,
    /// Environments.
    pub envs: usize,
    /// What was seen before each step.
    pub observed: Vec<f32>,
    /// What was done.
    pub actions: Vec<f32>,
    /// What that was chosen from.
    pub inputs: Vec<f32>,
    /// The logarithm of its probability.
    pub logp: Vec<f32>,
    /// What the state was thought to be worth.
    pub values: Vec<f32>,
    /// What it brought.
    pub rewards: Vec<f32>,
    /// The episode came to its end.
    pub terminated: Vec<bool>,
    /// The episode was cut off.
    pub truncated: Vec<bool>,
    /// Of steps that no other of this rollout follows: what the state behind is worth. Zero behind an episode's own end.
    pub following: Vec<f32>,
}

/// An episode that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Episode {
    /// All its rewards together.
    pub reward: f64,
    /// Its steps.
    pub length: u32,
}

/// How actions are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// By chance, as likely as the policy says.
    Drawn,
    /// The likeliest.
    Best,
}

/// Drives environments by a policy and keeps what happens.
pub struct Runner {
    model: Model,
    parameters: Vec<f32>,
    chance: Chance,
    tape: ModelTape<f32>,
    rollout: Rollout,
    observed: Vec<f32>,
    /// Cut-off episodes of this rollout: which row, and where their last observations begin in `last`.
    cut: Vec<usize>,
    last: Vec<f32>,
    /// Of each environment: what its episode has brought so far.
    running: Vec<Episode>,
    ended: Vec<Episode>,
}

impl Runner {
    /// For so many environments.
    #[must_use]
    pub fn new(model: Model, envs: usize, seed: u64) -> Self {
        let mut chance = Chance::seeded(seed);
        let parameters = model.init(&mut chance);
        let rollout = Rollout { envs, ..Rollout::default() };
        Self {
            model,
            parameters,
            chance,
            tape: ModelTape::default(),
            rollout,
            observed: Vec::new(),
            cut: Vec::new(),
            last: Vec::new(),
            running: vec![Episode { reward: 0.0, length: 0 }; envs],
            ended: Vec::new(),
        }
    }

    /// Episodes that have ended since this was last asked.
    pub fn take_episodes(&mut self) -> Vec<Episode> {
        std::mem::take(&mut self.ended)
    }

    /// How many environments there are.
    #[must_use]
    pub fn envs(&self) -> usize {
        self.rollout.envs
    }

    /// Numbers that all observations of one step have together.
    #[must_use]
    pub fn observed_len(&self) -> usize {
        self.rollout.envs * self.model.spec().observed
    }

    /// The policy that it acts by.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The parameters that it acts by.
    pub fn parameters_mut(&mut self) -> &mut Vec<f32> {
        &mut self.parameters
    }

    /// What is seen now, in all environments.
    pub fn see(&mut self, observed: &[f32]) {
        self.observed.clear();
        self.observed.extend_from_slice(observed);
    }

    /// Chooses an action for each environment, by what was seen last.
    pub fn act(&mut self, choice: Choice) -> &[f32] {
        let Self { model, parameters, chance, tape, rollout, observed, .. } = self;
        let dist = model.dist();
        let (width, size) = (dist.inputs(), dist.actions());
        rollout.observed.extend_from_slice(observed);
        let inputs = model.choose(parameters, observed, tape);
        rollout.inputs.extend_from_slice(inputs);
        let begin = rollout.actions.len();
        rollout.actions.resize(begin + rollout.envs * size, 0.0);
        for (row, action) in inputs.chunks_exact(width).zip(rollout.actions[begin..].chunks_exact_mut(size)) {
            rollout.logp.push(match choice {
                Choice::Drawn => dist.sample(row, chance, action),
                Choice::Best => dist.best(row, action),
            });
        }
        rollout.values.extend_from_slice(model.value(parameters, observed, tape));
        &self.rollout.actions[begin..]
    }

    /// What the actions brought.
    pub fn observe(&mut self, stepped: &Stepped) {
        let rollout = &mut self.rollout;
        let begin = rollout.rewards.len();
        rollout.rewards.extend_from_slice(&stepped.rewards);
        rollout.terminated.extend_from_slice(&stepped.terminated);
        rollout.truncated.extend_from_slice(&stepped.truncated);
        rollout.following.resize(begin + rollout.envs, 0.0);
        rollout.steps += 1;
        let size = stepped.observed.len() / rollout.envs;
        for env in 0..rollout.envs {
            let running = &mut self.running[env];
            running.reward += f64::from(stepped.rewards[env]);
            running.length += 1;
            if stepped.truncated[env] || stepped.terminated[env] {
                self.ended.push(std::mem::replace(running, Episode { reward: 0.0, length: 0 }));
            }
            if stepped.truncated[env] && !stepped.terminated[env] {
                self.cut.push(begin + env);
                self.last.extend_from_slice(&stepped.last[env * size..(env + 1) * size]);
            }
        }
        self.observed.clear();
        self.observed.extend_from_slice(&stepped.observed);
    }

    /// So many steps of native environments.
    pub fn run(&mut self, vector: &mut dyn Vector, steps: usize, stepped: &mut Stepped) {
        for _ in 0..steps {
            let begin = self.rollout.actions.len();
            self.act(Choice::Drawn);
            vector.step(&self.rollout.actions[begin..], stepped);
            self.observe(stepped);
        }
    }

    /// Ends the rollout and gives it away; the next begins where this ends.
    pub fn take(&mut self) -> Rollout {
        let envs = self.rollout.envs;
        let mut rollout = std::mem::replace(&mut self.rollout, Rollout { envs, ..Rollout::default() });
        let cut = std::mem::take(&mut self.cut);
        let mut rows = std::mem::take(&mut self.last);
        rows.extend_from_slice(&self.observed);
        let values = self.model.value_only(&self.parameters, &rows, &mut self.tape);
        let (of_cut, of_open) = values.split_at(cut.len());
        for (at, value) in cut.into_iter().zip(of_cut) {
            rollout.following[at] = *value;
        }
        let last = rollout.rewards.len().saturating_sub(envs);
        for (at, value) in (last..rollout.rewards.len()).zip(of_open) {
            if !rollout.terminated[at] && !rollout.truncated[at] {
                rollout.following[at] = *value;
            }
        }
        rollout
    }
}
