//! Numbers between bounds: the hyperbolic tangent of a Gaussian, stretched to the bounds.
//!
//! A row is the means of the Gaussian and then the logarithms of its deviations. Before it is stretched an action is a *unit*: it lies between -1
//! and 1. Densities are those of units, so that how undecided a policy is does not depend on the environment's scale.

use super::gaussian::HALF_LN_TAU;
use crate::nn::Real;

/// Logarithms of deviations beyond these count as these.
const LOG_BOUNDS: (f64, f64) = (-20.0, 2.0);

/// The bounds, as their middles and how far they reach to each side.
#[derive(Clone, Debug, PartialEq)]
pub struct Squashed {
    middle: Vec<f32>,
    reach: Vec<f32>,
}

impl Squashed {
    /// Between these bounds. Where one is infinite, between -1 and 1.
    #[must_use]
    pub fn new(low: &[f32], high: &[f32]) -> Self {
        assert_eq!(low.len(), high.len(), "a lower and an upper bound for each");
        let bounds = low.iter().zip(high).map(|(low, high)| {
            let is_bounded = low.is_finite() && high.is_finite();
            if is_bounded { (0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low) } else { (0.0, 1.0) }
        });
        let (middle, reach) = bounds.unzip();
        Self { middle, reach }
    }

    /// Numbers per action.
    #[must_use]
    pub fn actions(&self) -> usize {
        self.middle.len()
    }

    /// Numbers that a network gives it per row.
    #[must_use]
    pub fn inputs(&self) -> usize {
        2 * self.middle.len()
    }

    /// The units that these rows become by this noise (standard normal numbers), and the logarithms of their densities.
    pub fn squash<T: Real>(&self, inputs: &[T], noise: &[T], units: &mut Vec<T>, logp: &mut Vec<T>) {
        let size = self.actions();
        units.clear();
        logp.clear();
        for (row, noise) in inputs.chunks_exact(2 * size).zip(noise.chunks_exact(size)) {
            let (means, logs) = row.split_at(size);
            let mut sum = T::ZERO;
            for ((mean, log), noise) in means.iter().zip(logs).zip(noise) {
                let (log, _) = bounded(*log);
                let before = *mean + log.exp() * *noise;
                sum -= T::of(0.5) * *noise * *noise + log + T::of(HALF_LN_TAU) + log_slope(before);
                units.push(before);
            }
            logp.push(sum);
        }
        T::tanh_all(units);
    }

    /// Writes the gradient by the rows' numbers of a loss, given its gradients by the logarithms of the densities and by the units that these rows
    /// became by this noise.
    pub fn gradient<T: Real>(
        &self,
        inputs: &[T],
        noise: &[T],
        units: &[T],
        (of_logp, of_units): (&[T], &[T]),
        into: &mut Vec<T>,
    ) {
        let size = self.actions();
        into.clear();
        into.resize(inputs.len(), T::ZERO);
        for (row, of_logp) in of_logp.iter().enumerate() {
            for index in 0..size {
                let (at, begin) = (row * size + index, row * 2 * size);
                let (log, slope) = bounded(inputs[begin + size + index]);
                let unit = units[at];
                // By the number before it was squashed: the density falls as the tangent's slope rises.
                let of_before = *of_logp * (unit + unit) + of_units[at] * (T::ONE - unit * unit);
                into[begin + index] = of_before;
                into[begin + size + index] = slope * (of_before * log.exp() * noise[at] - *of_logp);
            }
        }
    }

    /// Units as actions.
    pub fn stretch(&self, units: &[f32], actions: &mut [f32]) {
        for (index, (unit, action)) in units.iter().zip(actions).enumerate() {
            let index = index % self.actions();
            *action = self.middle[index] + self.reach[index] * unit;
        }
    }

    /// Actions as units; what is beyond the bounds as the bounds.
    pub fn shrink<T: Real>(&self, action: &[f32], units: &mut Vec<T>) {
        for (action, (middle, reach)) in action.iter().zip(self.middle.iter().zip(&self.reach)) {
            let unit = if *reach > 0.0 { (action - middle) / reach } else { 0.0 };
            units.push(T::from_f32(unit.clamp(-1.0, 1.0)));
        }
    }
}

/// The logarithm of a deviation within its bounds, and the slope of that.
fn bounded<T: Real>(log: T) -> (T, T) {
    let (low, high) = (T::of(LOG_BOUNDS.0), T::of(LOG_BOUNDS.1));
    let slope = if log < low || log > high { T::ZERO } else { T::ONE };
    (log.at_least(low).at_most(high), slope)
}

/// The logarithm of the tangent's slope, ln(1 - tanh(x)^2), also where the tangent is one to the last digit.
fn log_slope<T: Real>(x: T) -> T {
    let size = x.at_least(-x);
    let two = T::of(2.0);
    two * (T::of(std::f64::consts::LN_2) - size - (T::ONE + (-two * size).exp()).ln())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Squashed, log_slope};
    use crate::chance::Chance;

    proptest! {
        #[test]
        fn gradients_are_those_of_differences(
            inputs in prop::collection::vec(-2.5..2.5_f64, 8),
            noise in prop::collection::vec(-2.0..2.0_f64, 4),
            of_logp in prop::collection::vec(-1.0..1.0_f64, 2),
            of_units in prop::collection::vec(-1.0..1.0_f64, 4),
        ) {
            // At the bound itself there is no slope.
            prop_assume!(inputs.iter().all(|input| (input - 2.0).abs() > 1e-4));
            let squashed = Squashed::new(&[-1.0, 0.0], &[1.0, 3.0]);
            let (mut units, mut logp) = (Vec::new(), Vec::new());
            let mut loss = |inputs: &[f64]| -> f64 {
                squashed.squash(inputs, &noise, &mut units, &mut logp);
                let of = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                of(&logp, &of_logp) + of(&units, &of_units)
            };
            let differences: Vec<f64> = (0..inputs.len())
                .map(|index| {
                    let mut moved = |by: f64| {
                        let mut moved = inputs.clone();
                        moved[index] += by;
                        loss(&moved)
                    };
                    (moved(1e-5) - moved(-1e-5)) / 2e-5
                })
                .collect();
            loss(&inputs);
            let mut gradient = Vec::new();
            squashed.gradient(&inputs, &noise, &units, (&of_logp, &of_units), &mut gradient);
            for (found, difference) in gradient.into_iter().zip(differences) {
                prop_assert!((found - difference).abs() < 1e-6 * (1.0 + difference.abs()), "{found} {difference}");
            }
        }

        #[test]
        fn the_slope_s_logarithm_is_finite_and_right(x in -200.0..200.0_f64) {
            let found = log_slope(x);
            prop_assert!((found - 2.0 * (std::f64::consts::LN_2 - x.abs())).abs() < 1e-9 || x.abs() < 12.0);
            prop_assert!(x.abs() > 4.0 || (found - (1.0 - x.tanh().powi(2)).ln()).abs() < 1e-9);
            prop_assert!(log_slope(x as f32).is_finite());
        }
    }

    #[test]
    fn densities_add_up_to_one() {
        let squashed = Squashed::new(&[-1.0], &[1.0]);
        let (mean, log) = (0.4_f64, -0.6_f64);
        let (mut units, mut logp, mut sum) = (Vec::new(), Vec::new(), 0.0);
        const PARTS: usize = 200_000;
        for part in 0..PARTS {
            let unit = -1.0 + (2 * part + 1) as f64 / PARTS as f64;
            let noise = (unit.atanh() - mean) * (-log).exp();
            squashed.squash(&[mean, log], &[noise], &mut units, &mut logp);
            sum += logp[0].exp() * 2.0 / PARTS as f64;
        }
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn units_are_stretched_to_the_bounds_and_shrunk_again() {
        let squashed = Squashed::new(&[-2.0, 0.0, f32::NEG_INFINITY], &[2.0, 1.0, 5.0]);
        let mut chance = Chance::seeded(3);
        let units: Vec<f32> = (0..3).map(|_| chance.uniform(-1.0, 1.0) as f32).collect();
        let (mut actions, mut again) = (vec![0.0; 3], Vec::<f32>::new());
        squashed.stretch(&units, &mut actions);
        squashed.shrink(&actions, &mut again);
        assert!(units.iter().zip(&again).all(|(unit, again)| (unit - again).abs() < 1e-6));
        squashed.stretch(&[1.0, -1.0, -1.0], &mut actions);
        assert_eq!(actions, [2.0, 0.0, -1.0]);
        again.clear();
        squashed.shrink(&[-9.0, 9.0, 0.5], &mut again);
        assert_eq!(again, [-1.0, 1.0, 0.5]);
    }
}
