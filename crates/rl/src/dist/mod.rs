//! How a network's numbers choose actions, and the gradients of that.

mod categorical;
mod gaussian;
mod sde;
mod squashed;
#[cfg(test)]
mod tests;

pub use sde::SdeSpec;
pub(crate) use sde::{Sde, SdeNoise};
pub use squashed::Squashed;

use crate::chance::Chance;
use crate::nn::Real;
use crate::space::Acted;

/// What chooses actions from a row of a network's outputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Dist {
    /// One choice of so many each, from a score per choice.
    Categorical(Vec<usize>),
    /// So many numbers, from a mean of each and then the logarithm of each deviation.
    Gaussian(usize),
    /// Both at once, drawn apart from each other: scores, means, logarithms of deviations; choices, and then numbers.
    Mixed {
        /// Of how many each choice is.
        counts: Vec<usize>,
        /// How many numbers.
        numbers: usize,
    },
}

/// Of one row: what losses are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms<T> {
    /// The logarithm of the action's probability or density.
    pub logp: T,
    /// How undecided the row is.
    pub entropy: T,
    /// How far an older row is from it: KL(older || this).
    pub kl: T,
}

/// Rows side by side: what actions were chosen from, the actions, and what they were once chosen from, normalised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a, T> {
    pub(crate) inputs: &'a [T],
    pub(crate) actions: &'a [f32],
    pub(crate) older: &'a [T],
}

impl Dist {
    /// The one for these actions.
    #[must_use]
    pub fn of(acted: &Acted) -> Self {
        match acted {
            Acted::Discrete(count) => Self::Categorical(vec![*count]),
            Acted::MultiDiscrete(counts) => Self::Categorical(counts.clone()),
            Acted::Box { low, .. } => Self::Gaussian(low.len()),
            Acted::Mixed { counts, low, .. } => Self::Mixed { counts: counts.clone(), numbers: low.len() },
        }
    }

    /// Numbers that a network gives it per row.
    #[must_use]
    pub fn inputs(&self) -> usize {
        match self {
            Self::Categorical(counts) => counts.iter().sum(),
            Self::Gaussian(size) => 2 * size,
            Self::Mixed { counts, numbers } => counts.iter().sum::<usize>() + 2 * numbers,
        }
    }

    /// How many of an action's numbers are drawn around a mean. A row of inputs ends with so many logarithms of deviations.
    #[must_use]
    pub fn deviations(&self) -> usize {
        match self {
            Self::Categorical(_) => 0,
            Self::Gaussian(numbers) | Self::Mixed { numbers, .. } => *numbers,
        }
    }

    /// Numbers per action.
    #[must_use]
    pub fn actions(&self) -> usize {
        match self {
            Self::Categorical(counts) => counts.len(),
            Self::Gaussian(size) => *size,
            Self::Mixed { counts, numbers } => counts.len() + numbers,
        }
    }

    /// Draws an action, and returns the logarithm of its probability or density.
    pub fn sample(&self, inputs: &[f32], chance: &mut Chance, action: &mut [f32]) -> f32 {
        match self {
            Self::Categorical(counts) => categorical::sample(counts, inputs, chance, action),
            Self::Gaussian(_) => gaussian::sample(inputs, chance, action),
            Self::Mixed { counts, numbers } => {
                let (scores, around) = inputs.split_at(inputs.len() - 2 * numbers);
                let (choices, drawn) = action.split_at_mut(counts.len());
                categorical::sample(counts, scores, chance, choices) + gaussian::sample(around, chance, drawn)
            }
        }
    }

    /// The action that noise in units of the deviations makes of a row of numbers' means, and the logarithm of its density.
    pub(crate) fn moved(&self, inputs: &[f32], noise: &[f32], action: &mut [f32]) -> f32 {
        let (means, logs) = inputs.split_at(self.actions());
        for (index, action) in action.iter_mut().enumerate() {
            *action = means[index] + noise[index] * logs[index].exp();
        }
        self.terms(inputs, action, inputs).logp
    }

    /// The likeliest action, and the logarithm of its probability or density.
    pub fn best(&self, inputs: &[f32], action: &mut [f32]) -> f32 {
        match self {
            Self::Categorical(counts) => categorical::best(counts, inputs, action),
            Self::Gaussian(size) => action.copy_from_slice(&inputs[..*size]),
            Self::Mixed { counts, numbers } => {
                let (scores, around) = inputs.split_at(inputs.len() - 2 * numbers);
                let (choices, drawn) = action.split_at_mut(counts.len());
                categorical::best(counts, scores, choices);
                drawn.copy_from_slice(&around[..*numbers]);
            }
        }
        self.terms(inputs, action, inputs).logp
    }

    /// What losses are made of.
    pub fn terms<T: Real>(&self, inputs: &[T], action: &[f32], older: &[T]) -> Terms<T> {
        match self {
            Self::Categorical(counts) => categorical::terms(counts, inputs, action, older),
            Self::Gaussian(_) => gaussian::terms(inputs, action, older),
            Self::Mixed { counts, numbers } => {
                let at = inputs.len() - 2 * numbers;
                let (choices, drawn) = action.split_at(counts.len());
                let of_choices = categorical::terms(counts, &inputs[..at], choices, &older[..at]);
                let of_numbers = gaussian::terms(&inputs[at..], drawn, &older[at..]);
                Terms {
                    logp: of_choices.logp + of_numbers.logp,
                    entropy: of_choices.entropy + of_numbers.entropy,
                    kl: of_choices.kl + of_numbers.kl,
                }
            }
        }
    }

    /// Makes rows of scores logarithms of probabilities; numbers stay as they are.
    pub(crate) fn normalise<T: Real>(&self, inputs: &mut [T]) {
        if let Self::Categorical(counts) | Self::Mixed { counts, .. } = self {
            inputs.chunks_exact_mut(self.inputs()).for_each(|row| categorical::normalise(counts, row));
        }
    }

    /// Of each row: asks for the slope of a loss by the logarithm of the action's probability, given the row's number and that logarithm, and
    /// writes the gradient of that and of `of_entropy * entropy + of_kl * kl` by the inputs. Returns the sums of all entropies and of all
    /// distances to the older rows.
    pub(crate) fn gradients<T: Real>(
        &self,
        rows: Rows<'_, T>,
        (of_entropy, of_kl): (T, T),
        mut slope: impl FnMut(usize, T) -> T,
        into: &mut [T],
    ) -> (T, T) {
        if let Self::Categorical(counts) = self
            && let [count] = counts[..]
        {
            return categorical::gradients(count, rows, (of_entropy, of_kl), slope, into);
        }
        let (mut entropy, mut kl) = (T::ZERO, T::ZERO);
        let (width, acted) = (self.inputs(), self.actions());
        let inputs = rows.inputs.chunks_exact(width).zip(rows.older.chunks_exact(width));
        let each = inputs.zip(rows.actions.chunks_exact(acted)).zip(into.chunks_exact_mut(width)).enumerate();
        for (row, (((inputs, older), action), into)) in each {
            let terms = self.terms(inputs, action, older);
            let by = Terms { logp: slope(row, terms.logp), entropy: of_entropy, kl: of_kl };
            self.gradient(inputs, action, older, by, into);
            entropy += terms.entropy;
            kl += terms.kl;
        }
        (entropy, kl)
    }

    /// Writes the gradient of `by.logp * logp + by.entropy * entropy + by.kl * kl` by the inputs.
    pub fn gradient<T: Real>(&self, inputs: &[T], action: &[f32], older: &[T], by: Terms<T>, into: &mut [T]) {
        match self {
            Self::Categorical(counts) => categorical::gradient(counts, inputs, action, older, by, into),
            Self::Gaussian(_) => gaussian::gradient(inputs, action, older, by, into),
            Self::Mixed { counts, numbers } => {
                let at = inputs.len() - 2 * numbers;
                let (choices, drawn) = action.split_at(counts.len());
                let (of_scores, of_rest) = into.split_at_mut(at);
                categorical::gradient(counts, &inputs[..at], choices, &older[..at], by, of_scores);
                gaussian::gradient(&inputs[at..], drawn, &older[at..], by, of_rest);
            }
        }
    }
}
