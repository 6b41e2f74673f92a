//! Numbers around a mean: the first half of a row are the means, the second the logarithms of the deviations.

use super::Terms;
use crate::chance::Chance;
use crate::nn::Real;

/// ln(2 pi) / 2.
pub(super) const HALF_LN_TAU: f64 = 0.918_938_533_204_672_7;

pub(super) fn sample(inputs: &[f32], chance: &mut Chance, action: &mut [f32]) -> f32 {
    let (means, logs) = inputs.split_at(inputs.len() / 2);
    let mut logp = 0.0;
    for ((action, mean), log) in action.iter_mut().zip(means).zip(logs) {
        let drawn = chance.normal() as f32;
        *action = mean + drawn * log.exp();
        logp -= 0.5 * drawn * drawn + log + HALF_LN_TAU as f32;
    }
    logp
}

pub(super) fn terms<T: Real>(inputs: &[T], action: &[f32], older: &[T]) -> Terms<T> {
    let size = inputs.len() / 2;
    let (half, half_ln_tau) = (T::of(0.5), T::of(HALF_LN_TAU));
    let mut terms = Terms::default();
    for (index, action) in action.iter().enumerate() {
        let (mean, log, mean_older, log_older) =
            (inputs[index], inputs[size + index], older[index], older[size + index]);
        let away = (T::from_f32(*action) - mean) * (-log).exp();
        terms.logp -= half * away * away + log + half_ln_tau;
        terms.entropy += log + half + half_ln_tau;
        let (ratio, apart) = ((log_older - log).exp(), (mean_older - mean) * (-log).exp());
        terms.kl += log - log_older + half * (ratio * ratio + apart * apart) - half;
    }
    terms
}

pub(super) fn gradient<T: Real>(inputs: &[T], action: &[f32], older: &[T], by: Terms<T>, into: &mut [T]) {
    let size = inputs.len() / 2;
    for (index, action) in action.iter().enumerate() {
        let (mean, log, mean_older, log_older) =
            (inputs[index], inputs[size + index], older[index], older[size + index]);
        let inverse = (-log).exp();
        let away = (T::from_f32(*action) - mean) * inverse;
        let (ratio, apart) = ((log_older - log).exp(), (mean_older - mean) * inverse);
        into[index] = by.logp * away * inverse - by.kl * apart * inverse;
        into[size + index] =
            by.logp * (away * away - T::ONE) + by.entropy + by.kl * (T::ONE - ratio * ratio - apart * apart);
    }
}
