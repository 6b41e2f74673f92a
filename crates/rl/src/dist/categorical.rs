//! Choices from a score each.

use super::{Rows, Terms};
use crate::chance::Chance;
use crate::nn::Real;

/// The logarithm of the sum of all e^score.
fn log_sum<T: Real>(scores: &[T]) -> T {
    let most = scores.iter().copied().fold(scores[0], Real::at_least);
    most + scores.iter().map(|score| (*score - most).exp()).sum::<T>().ln()
}

/// The part of a row that belongs to each choice.
fn parts<'a, T>(counts: &'a [usize], row: &'a [T]) -> impl Iterator<Item = &'a [T]> {
    counts.iter().scan(row, |rest, count| {
        let (part, behind) = rest.split_at(*count);
        *rest = behind;
        Some(part)
    })
}

pub(super) fn sample(counts: &[usize], inputs: &[f32], chance: &mut Chance, action: &mut [f32]) -> f32 {
    let mut logp = 0.0;
    for (scores, action) in parts(counts, inputs).zip(action) {
        let all = log_sum(scores);
        let mut left = chance.random() as f32;
        // Rounding may leave a little at the end: that goes to the last one.
        let mut chosen = scores.len() - 1;
        for (index, score) in scores.iter().enumerate() {
            left -= (score - all).exp();
            if left < 0.0 {
                chosen = index;
                break;
            }
        }
        logp += scores[chosen] - all;
        *action = chosen as f32;
    }
    logp
}

pub(super) fn best(counts: &[usize], inputs: &[f32], action: &mut [f32]) {
    for (scores, action) in parts(counts, inputs).zip(action) {
        let first = (0..scores.len()).reduce(|best, index| if scores[index] > scores[best] { index } else { best });
        *action = first.unwrap_or(0) as f32;
    }
}

pub(super) fn terms<T: Real>(counts: &[usize], inputs: &[T], action: &[f32], older: &[T]) -> Terms<T> {
    let mut terms = Terms::default();
    for ((scores, older), action) in parts(counts, inputs).zip(parts(counts, older)).zip(action) {
        let (all, all_older) = (log_sum(scores), log_sum(older));
        terms.logp += scores[*action as usize] - all;
        for (score, older) in scores.iter().zip(older) {
            let (logp, logp_older) = (*score - all, *older - all_older);
            terms.entropy -= logp.exp() * logp;
            terms.kl += logp_older.exp() * (logp_older - logp);
        }
    }
    terms
}

pub(super) fn gradient<T: Real>(
    counts: &[usize],
    inputs: &[T],
    action: &[f32],
    older: &[T],
    by: Terms<T>,
    mut into: &mut [T],
) {
    for ((scores, older), action) in parts(counts, inputs).zip(parts(counts, older)).zip(action) {
        let (all, all_older) = (log_sum(scores), log_sum(older));
        let entropy = -scores.iter().map(|score| (*score - all).exp() * (*score - all)).sum::<T>();
        let (part, behind) = into.split_at_mut(scores.len());
        into = behind;
        for (index, ((gradient, score), older)) in part.iter_mut().zip(scores).zip(older).enumerate() {
            let logp = *score - all;
            let (p, p_older) = (logp.exp(), (*older - all_older).exp());
            let is_chosen = if index == *action as usize { T::ONE } else { T::ZERO };
            *gradient = by.logp * (is_chosen - p) - by.entropy * p * (logp + entropy) + by.kl * (p - p_older);
        }
    }
}

/// Makes scores logarithms of probabilities.
pub(super) fn normalise<T: Real>(counts: &[usize], mut row: &mut [T]) {
    for count in counts {
        let (scores, behind) = row.split_at_mut(*count);
        row = behind;
        let all = log_sum(scores);
        scores.iter_mut().for_each(|score| *score -= all);
    }
}

/// Many rows of one choice: each power is taken once.
pub(super) fn gradients<T: Real>(
    count: usize,
    rows: Rows<'_, T>,
    (of_entropy, of_kl): (T, T),
    mut slope: impl FnMut(usize, T) -> T,
    into: &mut [T],
) -> (T, T) {
    let (mut entropies, mut kls) = (T::ZERO, T::ZERO);
    let inputs = rows.inputs.chunks_exact(count).zip(rows.older.chunks_exact(count));
    let each = inputs.zip(rows.actions).zip(into.chunks_exact_mut(count)).enumerate();
    for (row, (((scores, older), action), into)) in each {
        let most = scores.iter().copied().fold(scores[0], Real::at_least);
        let mut sum = T::ZERO;
        for (power, score) in into.iter_mut().zip(scores) {
            *power = (*score - most).exp();
            sum += *power;
        }
        let (all, share) = (most + sum.ln(), T::ONE / sum);
        let (mut entropy, mut kl) = (T::ZERO, T::ZERO);
        for ((p, score), older) in into.iter_mut().zip(scores).zip(older) {
            *p *= share;
            entropy -= *p * (*score - all);
            kl += older.exp() * (*older - (*score - all));
        }
        let chosen = *action as usize;
        let of_logp = slope(row, scores[chosen] - all);
        for ((p, score), older) in into.iter_mut().zip(scores).zip(older) {
            let of_p = of_kl * (*p - older.exp());
            *p = of_p - *p * (of_logp + of_entropy * (*score - all + entropy));
        }
        into[chosen] += of_logp;
        entropies += entropy;
        kls += kl;
    }
    (entropies, kls)
}
