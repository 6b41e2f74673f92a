//! Noise that depends on the state (generalised state-dependent exploration, Raffin 2020): a matrix is drawn and kept for some steps, and what a
//! network has made of the state, times that matrix, is the noise. The same state then gets the same noise, so that actions are smooth.
//!
//! The matrix has a row per feature and a column per number of an action; each number has its own deviation. Over all matrices the noise in
//! a state is Gaussian; rows of what actions are drawn from hold the logarithm of its deviation there.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::nn::Real;

/// Keeps variances above zero where all features are zero.
const EPSILON: f64 = 1e-6;

/// How noise depends on the state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SdeSpec {
    /// Steps after which another matrix is drawn; nothing: with each rollout only.
    pub every: Option<usize>,
    /// Logarithm of the deviations before training.
    pub log_std: f64,
}

/// The logarithms of the matrix's deviations, as parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sde {
    pub(crate) spec: SdeSpec,
    pub(crate) range: Range<usize>,
    pub(crate) features: usize,
    pub(crate) actions: usize,
}

impl Sde {
    pub(crate) fn init<T: Real>(&self, parameters: &mut [T]) {
        parameters[self.range.clone()].fill(T::of(self.spec.log_std));
    }

    /// Adds rows of means and then the logarithms of deviations, given the means and the features.
    pub(crate) fn rows<T: Real>(&self, parameters: &[T], means: &[T], features: &[T], into: &mut Vec<T>) {
        let squares = self.squares(parameters);
        for (means, features) in means.chunks_exact(self.actions).zip(features.chunks_exact(self.features)) {
            into.extend_from_slice(means);
            for action in 0..self.actions {
                let parts = features.iter().zip(squares.iter().skip(action).step_by(self.actions));
                let variance = parts.map(|(feature, square)| *feature * *feature * *square).sum::<T>();
                into.push(T::of(0.5) * (variance + T::of(EPSILON)).ln());
            }
        }
    }

    /// Adds to `gradients` those of the logarithms, and to `of_features`, if given, those of the features, given rows and their gradients. Puts
    /// those of the means together.
    pub(crate) fn gradient<T: Real>(
        &self,
        parameters: &[T],
        (rows, of_rows): (&[T], &[T]),
        features: &[T],
        (gradients, of_means): (&mut [T], &mut Vec<T>),
        mut of_features: Option<&mut [T]>,
    ) {
        let (size, squares) = (self.actions, self.squares(parameters));
        let gradients = &mut gradients[self.range.clone()];
        of_means.clear();
        for (index, (row, of_row)) in rows.chunks_exact(2 * size).zip(of_rows.chunks_exact(2 * size)).enumerate() {
            of_means.extend_from_slice(&of_row[..size]);
            let begin = index * self.features;
            for action in 0..size {
                // By the variance, of half of its logarithm: twice that, and half of it.
                let of_variance = of_row[size + action] * (T::of(-2.0) * row[size + action]).exp();
                for at in 0..self.features {
                    let feature = features[begin + at];
                    let part = of_variance * feature * squares[at * size + action];
                    gradients[at * size + action] += part * feature;
                    if let Some(of_features) = of_features.as_deref_mut() {
                        of_features[begin + at] += part;
                    }
                }
            }
        }
    }

    fn squares<T: Real>(&self, parameters: &[T]) -> Vec<T> {
        parameters[self.range.clone()].iter().map(|log| (*log + *log).exp()).collect()
    }
}

/// The matrices that are kept, one per environment, before their deviations.
#[derive(Clone, Debug, Default)]
pub(crate) struct SdeNoise {
    matrices: Vec<f32>,
    steps: usize,
}

impl SdeNoise {
    /// Other matrices are drawn with the next step.
    pub(crate) fn forget(&mut self) {
        self.matrices.clear();
    }

    /// The noise of one step in units of its deviation, which the rows hold: normal numbers, each standard by itself.
    pub(crate) fn draw(
        &mut self,
        sde: &Sde,
        parameters: &[f32],
        (rows, features): (&[f32], &[f32]),
        chance: &mut Chance,
        into: &mut Vec<f32>,
    ) {
        let (size, deviations) = (sde.actions, &parameters[sde.range.clone()]);
        let matrix = sde.features * size;
        let count = features.len() / sde.features;
        if self.matrices.len() != count * matrix || sde.spec.every.is_some_and(|every| self.steps >= every) {
            self.matrices.clear();
            self.matrices.extend((0..count * matrix).map(|_| chance.normal() as f32));
            self.steps = 0;
        }
        self.steps += 1;
        into.clear();
        let envs = self.matrices.chunks_exact(matrix).zip(features.chunks_exact(sde.features));
        for ((matrix, features), row) in envs.zip(rows.chunks_exact(2 * size)) {
            for action in 0..size {
                let column = |numbers: &[f32], at: usize| numbers[at * size + action];
                let sum: f32 =
                    (0..sde.features).map(|at| features[at] * column(matrix, at) * column(deviations, at).exp()).sum();
                into.push(sum * (-row[size + action]).exp());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Sde, SdeNoise, SdeSpec};
    use crate::chance::Chance;

    fn sde(every: Option<usize>) -> Sde {
        Sde { spec: SdeSpec { every, log_std: -1.0 }, range: 1..7, features: 3, actions: 2 }
    }

    proptest! {
        #[test]
        fn gradients_are_those_of_differences(
            parameters in prop::collection::vec(-2.0..1.0_f64, 7),
            features in prop::collection::vec(-2.0..2.0_f64, 6),
            means in prop::collection::vec(-2.0..2.0_f64, 4),
            by in prop::collection::vec(-1.0..1.0_f64, 8),
        ) {
            let sde = sde(None);
            let rows = |numbers: &[f64]| {
                let mut rows = Vec::new();
                sde.rows(&numbers[..7], &means, &numbers[7..], &mut rows);
                rows
            };
            let mut numbers: Vec<f64> = parameters.iter().chain(&features).copied().collect();
            let mut gradients = vec![0.0; numbers.len()];
            let (of_parameters, of_features) = gradients.split_at_mut(7);
            let mut of_means = Vec::new();
            let found = rows(&numbers);
            sde.gradient(&parameters, (&found, &by), &features, (of_parameters, &mut of_means), Some(of_features));
            prop_assert_eq!(of_means, [by[0], by[1], by[4], by[5]]);
            for at in 0..numbers.len() {
                let before = numbers[at];
                let mut moved = |away: f64| -> f64 {
                    numbers[at] = before + away;
                    rows(&numbers).iter().zip(&by).map(|(row, by)| row * by).sum()
                };
                let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                numbers[at] = before;
                let found = gradients[at];
                prop_assert!((found - difference).abs() < 1e-5 * (1.0 + difference.abs()), "{at}: {found} {difference}");
            }
        }
    }

    #[test]
    fn noise_has_the_deviation_that_rows_say_and_stays_for_as_long_as_it_should() {
        let (sde, mut chance) = (sde(Some(3)), Chance::seeded(4));
        let parameters = [9.0, -1.0, 0.3, 0.1, -0.5, -2.0, 0.0_f32];
        let features = [0.5, -1.0, 2.0, 1.0, 0.2, -0.3_f32];
        let mut rows = Vec::new();
        sde.rows(&parameters, &[0.0; 4], &features, &mut rows);
        let (mut noise, mut drawn) = (SdeNoise::default(), Vec::new());
        let mut seen: Vec<Vec<f32>> = Vec::new();
        const ROUNDS: usize = 20_000;
        for _ in 0..ROUNDS {
            let mut three = Vec::new();
            for _ in 0..3 {
                noise.draw(&sde, &parameters, (&rows, &features), &mut chance, &mut drawn);
                three.push(drawn.clone());
            }
            assert!(three[0] == three[1] && three[1] == three[2]);
            assert!(seen.last().is_none_or(|last| *last != three[0]));
            seen.push(three.remove(0));
        }
        for at in 0..4 {
            let square = seen.iter().map(|row| f64::from(row[at]).powi(2)).sum::<f64>() / ROUNDS as f64;
            assert!((square - 1.0).abs() < 0.05, "{square}");
        }
        noise.forget();
        noise.draw(&sde, &parameters, (&rows, &features), &mut chance, &mut drawn);
        assert_ne!(Some(&drawn), seen.last());
    }
}
