//! What learners by policy gradients lose per row, and the gradient of that.

use super::descent::Columns;
use crate::dist::Rows;
use crate::model::{Model, ModelTape};
use crate::nn::Real;

/// What an algorithm loses by one row.
pub(super) trait Loss: Sync {
    /// By the choice of its action, and the slope of that by the logarithm of the action's probability; `older` is that logarithm when it was
    /// chosen.
    fn choice<T: Real>(&self, logp: T, older: T, advantage: T) -> (T, T);

    /// By the error of its value, and the slope of that, both unweighted.
    fn value<T: Real>(&self, error: T) -> (T, T);

    /// How much the parts count beside the choice.
    fn weights(&self) -> Weights;
}

/// How much parts of a loss count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weights {
    pub(super) value: f32,
    pub(super) entropy: f32,
    pub(super) kl: f32,
}

/// The plain loss of actors and critics: what is better than expected becomes likelier, by as much as it is better; half the square of a value's
/// error.
pub(super) struct Plain {
    pub(super) value_weight: f32,
    pub(super) entropy_weight: f32,
}

impl Loss for Plain {
    #[inline]
    fn choice<T: Real>(&self, logp: T, _: T, advantage: T) -> (T, T) {
        (-advantage * logp, -advantage)
    }

    #[inline]
    fn value<T: Real>(&self, error: T) -> (T, T) {
        (T::of(0.5) * error * error, error)
    }

    fn weights(&self) -> Weights {
        Weights { value: self.value_weight, entropy: self.entropy_weight, kl: 0.0 }
    }
}

/// Sums over rows; of a whole run, means over the last epoch's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) loss: f64,
    pub(super) policy_loss: f64,
    pub(super) value_loss: f64,
    pub(super) entropy: f64,
    pub(super) kl: f64,
    /// Length of the gradient.
    pub(super) gradient: f64,
}

impl Sums {
    pub(super) fn add(&mut self, other: &Self, weight: f64) {
        self.loss += weight * other.loss;
        self.policy_loss += weight * other.policy_loss;
        self.value_loss += weight * other.value_loss;
        self.entropy += weight * other.entropy;
        self.kl += weight * other.kl;
        self.gradient += weight * other.gradient;
    }
}

/// Room for the way forward and back.
#[derive(Clone, Debug, Default)]
pub(super) struct Room<T> {
    tape: ModelTape<T>,
    of_inputs: Vec<T>,
    of_values: Vec<T>,
}

/// Which of the networks a gradient is of: where they share no layer, each can go its own way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Side {
    Choices,
    Values,
    Both,
}

/// Writes the gradient of the rows' loss, each row by its weight, and returns the sums over its rows.
pub(super) fn gradient<T: Real, L: Loss>(
    (model, side): (&Model, Side),
    parameters: &[T],
    columns: &Columns<T>,
    (loss, weight): (&L, f64),
    room: &mut Room<T>,
    gradients: &mut [T],
) -> Sums {
    let mean = T::of(weight);
    let Weights { value, entropy, kl } = loss.weights();
    let mut sums = Sums::default();
    let Room { tape, of_inputs, of_values } = room;
    if side != Side::Values {
        let inputs = model.choose(parameters, &columns.observed, tape);
        let rows = Rows { inputs, actions: &columns.actions, older: &columns.inputs };
        of_inputs.resize(inputs.len(), T::ZERO);
        let by = (-T::from_f32(entropy) * mean, T::from_f32(kl) * mean);
        let slope = |row: usize, logp: T| {
            let (lost, slope) = loss.choice(logp, columns.logp[row], columns.advantages[row]);
            sums.policy_loss += lost.wide();
            slope * mean
        };
        let (undecided, apart) = model.dist().gradients(rows, by, slope, of_inputs);
        (sums.entropy, sums.kl) = (undecided.wide(), apart.wide());
    }
    if side != Side::Choices {
        let values = model.value(parameters, &columns.observed, tape);
        let by = T::from_f32(value) * mean;
        of_values.clear();
        for (value, target) in values.iter().zip(&columns.targets) {
            let (lost, slope) = loss.value(*value - *target);
            of_values.push(by * slope);
            sums.value_loss += lost.wide();
        }
    }
    match side {
        Side::Choices => model.backward_choices(parameters, &columns.observed, tape, of_inputs, gradients),
        Side::Values => model.backward_values(parameters, &columns.observed, tape, of_values, gradients),
        Side::Both => model.backward(parameters, &columns.observed, tape, (of_inputs, of_values), gradients),
    }
    sums.loss = sums.policy_loss + f64::from(value) * sums.value_loss - f64::from(entropy) * sums.entropy
        + f64::from(kl) * sums.kl;
    sums
}
