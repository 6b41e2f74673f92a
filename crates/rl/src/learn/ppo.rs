//! Proximal policy optimisation.

use serde::{Deserialize, Serialize};

use super::descent::{Columns, Descent, Passes, Scaling, explained};
use super::loss::{Loss, Weights};
use crate::advantage::generalised;
use crate::chance::Chance;
use crate::model::Model;
use crate::nn::{Layout, Optimiser, OptimiserSpec, Real};
use crate::rollout::Rollout;

/// How it learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PpoSettings {
    /// Worth of the next step's rewards.
    pub gamma: f32,
    /// How far advantages look ahead.
    pub lambda: f32,
    /// Step size.
    pub rate: f32,
    /// Passes over the batch.
    pub epochs: usize,
    /// Rows per step of the optimiser.
    pub minibatch: usize,
    /// How far the ratio of probabilities counts.
    pub clip: f32,
    /// Weight of the values' error.
    pub value_weight: f32,
    /// The most that a row's squared error of the value counts; infinite: as it is.
    pub value_clip: f32,
    /// Weight of the entropy.
    pub entropy_weight: f32,
    /// Whether the distance to the older policy is held down as well.
    pub uses_kl: bool,
    /// The distance that is aimed at.
    pub kl_target: f32,
    /// The most that the gradient may be long.
    pub gradient_max: Option<f32>,
    /// Whether advantages are scaled per minibatch instead of over the whole batch.
    pub scales_minibatches: bool,
    /// Threads that share the rows of each minibatch.
    pub threads: usize,
}

/// What an update found. Means over the last epoch's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PpoStats {
    /// The whole loss.
    pub loss: f64,
    /// Its part for the choice of actions.
    pub policy_loss: f64,
    /// Its part for the values, unweighted.
    pub value_loss: f64,
    /// How undecided the policy is.
    pub entropy: f64,
    /// The distance to the older policy.
    pub kl: f64,
    /// The weight of that distance, for the next update.
    pub kl_weight: f64,
    /// How much of the targets' variance the values explain.
    pub explained: f64,
    /// Length of the gradient.
    pub gradient: f64,
    /// Rows of the batch.
    pub rows: usize,
}

/// Learns from rollouts.
pub struct Ppo {
    descent: Descent,
    kl_weight: f32,
}

impl Ppo {
    /// A learner whose parameters begin as the seed says.
    #[must_use]
    pub fn new(model: Model, kl_weight: f32, adam_epsilon: f32, seed: u64) -> Self {
        Self { descent: Descent::new(model, &OptimiserSpec::Adam { epsilon: adam_epsilon }, seed), kl_weight }
    }

    /// The parameters as they are.
    #[must_use]
    pub fn parameters(&self) -> &[f32] {
        &self.descent.parameters
    }

    /// All that its next updates depend on beside the parameters.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let Descent { optimiser, chance, .. } = &self.descent;
        postcard::to_stdvec(&(optimiser, self.kl_weight, chance)).expect("plain data")
    }

    /// Goes on from what was saved. False if that is of another learner: then nothing has changed.
    pub fn restore(&mut self, saved: &[u8]) -> bool {
        let Ok((optimiser, kl_weight, chance)) = postcard::from_bytes::<(Optimiser, f32, Chance)>(saved) else {
            return false;
        };
        let fits = self.descent.resume(optimiser, chance);
        if fits {
            self.kl_weight = kl_weight;
        }
        fits
    }

    /// Where the parameters lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        self.descent.model.layout()
    }

    /// The parameters, to be set.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.descent.parameters
    }

    /// Learns from these rollouts.
    pub fn update(&mut self, rollouts: &[&Rollout], settings: &PpoSettings) -> PpoStats {
        let mut columns = Columns::default();
        let mut values = Vec::new();
        for rollout in rollouts {
            columns.extend(rollout, generalised(rollout, settings.gamma, settings.lambda), self.descent.model.dist());
            values.extend_from_slice(&rollout.values);
        }
        let rows = columns.logp.len();
        let explained = explained(&values, &columns.targets);
        if rows == 0 {
            return PpoStats { explained, ..PpoStats::default() };
        }
        let passes = Passes {
            epochs: settings.epochs,
            minibatch: settings.minibatch,
            rate: settings.rate,
            gradient_max: settings.gradient_max,
            scaling: if settings.scales_minibatches { Scaling::Minibatch } else { Scaling::Batch },
            threads: settings.threads,
        };
        let kl_weight = if settings.uses_kl { self.kl_weight } else { 0.0 };
        let means = self.descent.run(&columns, &Clipped { settings, kl_weight }, &passes);
        if settings.uses_kl {
            self.kl_weight *= match means.kl as f32 {
                kl if kl > 2.0 * settings.kl_target => 1.5,
                kl if kl < 0.5 * settings.kl_target => 0.5,
                _ => 1.0,
            };
        }
        PpoStats {
            loss: means.loss,
            policy_loss: means.policy_loss,
            value_loss: means.value_loss,
            entropy: means.entropy,
            kl: means.kl,
            kl_weight: f64::from(self.kl_weight),
            explained,
            gradient: means.gradient,
            rows,
        }
    }
}

/// What is lost where the ratio of probabilities counts only so far.
pub(super) struct Clipped<'a> {
    pub(super) settings: &'a PpoSettings,
    pub(super) kl_weight: f32,
}

impl Loss for Clipped<'_> {
    #[inline]
    fn choice<T: Real>(&self, logp: T, older: T, advantage: T) -> (T, T) {
        let (ratio, clip) = ((logp - older).exp(), T::from_f32(self.settings.clip));
        let clipped = ratio.at_least(T::ONE - clip).at_most(T::ONE + clip);
        let (plain, bounded) = (advantage * ratio, advantage * clipped);
        // The bound has no slope of its own.
        if plain <= bounded { (-plain, -plain) } else { (-bounded, T::ZERO) }
    }

    #[inline]
    fn value<T: Real>(&self, error: T) -> (T, T) {
        let (square, most) = (error * error, T::from_f32(self.settings.value_clip));
        if square <= most { (square, error + error) } else { (most, T::ZERO) }
    }

    fn weights(&self) -> Weights {
        let PpoSettings { value_weight, entropy_weight, .. } = *self.settings;
        Weights { value: value_weight, entropy: entropy_weight, kl: self.kl_weight }
    }
}

#[cfg(test)]
mod tests {
    use super::{Clipped, PpoSettings};
    use crate::learn::differences;

    #[test]
    fn gradients_are_those_of_differences() {
        let settings = PpoSettings {
            gamma: 0.99,
            lambda: 0.95,
            rate: 1e-3,
            epochs: 1,
            minibatch: 16,
            clip: 0.2,
            value_weight: 0.7,
            value_clip: 4.0,
            entropy_weight: 0.01,
            uses_kl: true,
            kl_target: 0.01,
            gradient_max: None,
            scales_minibatches: false,
            threads: 1,
        };
        differences::hold(&Clipped { settings: &settings, kl_weight: 0.3 });
    }
}
