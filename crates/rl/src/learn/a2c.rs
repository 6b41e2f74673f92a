//! Advantage actor-critic: one step per batch, of actors that all act by the newest policy.

use serde::{Deserialize, Serialize};

use super::descent::{Columns, Descent, Passes, Scaling, explained};
use super::loss::Plain;
use crate::advantage::generalised;
use crate::chance::Chance;
use crate::model::Model;
use crate::nn::{Layout, Optimiser, OptimiserSpec};
use crate::rollout::Rollout;

/// How it learns. What is left out is as RLlib has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct A2cSettings {
    /// Worth of the next step's rewards.
    pub gamma: f32,
    /// How far advantages look ahead.
    pub lambda: f32,
    /// Step size.
    pub rate: f32,
    /// Rows per step of the optimiser; none: the whole batch.
    pub minibatch: Option<usize>,
    /// Weight of half the square of the values' error.
    pub value_weight: f32,
    /// Weight of the entropy.
    pub entropy_weight: f32,
    /// The most that the gradient may be long.
    pub gradient_max: Option<f32>,
    /// Whether advantages are scaled over the batch.
    pub scales_advantages: bool,
    /// Threads that share the rows of each step.
    pub threads: usize,
}

impl Default for A2cSettings {
    fn default() -> Self {
        Self {
            gamma: 0.99,
            lambda: 1.0,
            rate: 1e-4,
            minibatch: None,
            value_weight: 0.5,
            entropy_weight: 0.01,
            gradient_max: Some(40.0),
            scales_advantages: false,
            threads: 1,
        }
    }
}

/// What an update found. Means over its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct A2cStats {
    /// The whole loss.
    pub loss: f64,
    /// Its part for the choice of actions.
    pub policy_loss: f64,
    /// Its part for the values, unweighted.
    pub value_loss: f64,
    /// How undecided the policy is.
    pub entropy: f64,
    /// How much of the targets' variance the values explain.
    pub explained: f64,
    /// Length of the gradient.
    pub gradient: f64,
    /// Rows of the batch.
    pub rows: usize,
}

/// Learns from rollouts.
pub struct A2c {
    descent: Descent,
}

impl A2c {
    /// A learner whose parameters begin as the seed says.
    #[must_use]
    pub fn new(model: Model, optimiser: &OptimiserSpec, seed: u64) -> Self {
        Self { descent: Descent::new(model, optimiser, seed) }
    }

    /// The parameters as they are.
    #[must_use]
    pub fn parameters(&self) -> &[f32] {
        &self.descent.parameters
    }

    /// The parameters, to be set.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.descent.parameters
    }

    /// Where the parameters lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        self.descent.model.layout()
    }

    /// All that its next updates depend on beside the parameters.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let Descent { optimiser, chance, .. } = &self.descent;
        postcard::to_stdvec(&(optimiser, chance)).expect("plain data")
    }

    /// Goes on from what was saved. False if that is of another learner: then nothing has changed.
    pub fn restore(&mut self, saved: &[u8]) -> bool {
        postcard::from_bytes::<(Optimiser, Chance)>(saved)
            .is_ok_and(|(optimiser, chance)| self.descent.resume(optimiser, chance))
    }

    /// Learns from these rollouts.
    pub fn update(&mut self, rollouts: &[&Rollout], settings: &A2cSettings) -> A2cStats {
        let mut columns = Columns::default();
        let mut values = Vec::new();
        for rollout in rollouts {
            columns.extend(rollout, generalised(rollout, settings.gamma, settings.lambda), self.descent.model.dist());
            values.extend_from_slice(&rollout.values);
        }
        let passes = Passes {
            epochs: 1,
            minibatch: settings.minibatch.unwrap_or(usize::MAX),
            rate: settings.rate,
            gradient_max: settings.gradient_max,
            scaling: if settings.scales_advantages { Scaling::Batch } else { Scaling::None },
            threads: settings.threads,
        };
        let loss = Plain { value_weight: settings.value_weight, entropy_weight: settings.entropy_weight };
        let means = self.descent.run(&columns, &loss, &passes);
        A2cStats {
            loss: means.loss,
            policy_loss: means.policy_loss,
            value_loss: means.value_loss,
            entropy: means.entropy,
            explained: explained(&values, &columns.targets),
            gradient: means.gradient,
            rows: columns.logp.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{A2c, A2cSettings};
    use crate::learn::differences;
    use crate::learn::loss::Plain;
    use crate::model::{Model, ModelSpec};
    use crate::nn::{Activation, OptimiserSpec};
    use crate::rollout::Rollout;
    use crate::space::Acted;

    #[test]
    fn gradients_are_those_of_differences() {
        differences::hold(&Plain { value_weight: 0.7, entropy_weight: 0.05 });
    }

    fn learner(seed: u64) -> A2c {
        let spec = ModelSpec {
            observed: 1,
            acted: Acted::Discrete(2),
            hiddens: vec![3],
            activation: Activation::Tanh,
            is_shared: false,
            free_log_std: false,
            ..ModelSpec::default()
        };
        let rms_prop = OptimiserSpec::RmsProp { decay: 0.99, momentum: 0.0, epsilon: 1e-5, is_tf_like: true };
        A2c::new(Model::new(spec), &rms_prop, seed)
    }

    /// Six steps of one environment, whose fourth ends an episode.
    fn rollout() -> Rollout {
        Rollout {
            steps: 6,
            envs: 1,
            observed: vec![0.1, 0.2, -0.3, 0.4, 0.5, -0.6],
            actions: vec![0.0, 1.0, 1.0, 0.0, 1.0, 0.0],
            inputs: vec![0.0; 12],
            logp: vec![-0.7; 6],
            values: vec![0.1, -0.2, 0.3, 0.0, 0.2, 0.1],
            rewards: vec![1.0, -1.0, 0.5, 2.0, 0.0, 1.0],
            terminated: vec![false, false, false, true, false, false],
            truncated: vec![false; 6],
            following: vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.7],
            cut: Vec::new(),
            last: Vec::new(),
            open: vec![0.9],
            states: Vec::new(),
            ..Rollout::default()
        }
    }

    #[test]
    fn what_was_saved_goes_on_as_it_would_have() {
        let settings = A2cSettings { minibatch: Some(2), rate: 0.01, ..A2cSettings::default() };
        let mut first = learner(1);
        first.update(&[&rollout()], &settings);
        let mut second = learner(2);
        second.parameters_mut().copy_from_slice(first.parameters());
        assert!(second.restore(&first.save()));
        for learner in [&mut first, &mut second] {
            learner.update(&[&rollout()], &settings);
        }
        assert_eq!(first.parameters(), second.parameters());
        assert!(!second.restore(&first.save()[1..]));
    }

    #[test]
    fn an_empty_batch_changes_nothing() {
        let mut learner = learner(1);
        let before = learner.parameters().to_vec();
        assert_eq!(learner.update(&[], &A2cSettings::default()).rows, 0);
        assert_eq!(learner.parameters(), before);
    }

    /// One small step of plain descent lowers the very loss that is told.
    #[test]
    fn a_step_lowers_the_loss() {
        let mut learner = learner(3);
        let settings = A2cSettings { rate: 1e-3, entropy_weight: 0.0, ..A2cSettings::default() };
        let before = learner.update(&[&rollout()], &settings).loss;
        assert!(learner.update(&[&rollout()], &settings).loss < before);
    }
}
