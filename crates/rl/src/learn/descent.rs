//! What learners by policy gradients share: the batch as columns, minibatches shared out among threads, steps of the optimiser. An algorithm adds
//! its advantages and what it loses per row.

use std::sync::{Mutex, RwLock};

use super::team::with_team;
use crate::advantage::Advantages;
use crate::chance::Chance;
use crate::dist::Terms;
use crate::model::{Model, ModelTape};
use crate::nn::{Optimiser, OptimiserSpec, Real, clip_by_norm};
use crate::rollout::Rollout;

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

/// How a batch is gone through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passes {
    pub(super) epochs: usize,
    /// Rows per step of the optimiser.
    pub(super) minibatch: usize,
    pub(super) rate: f32,
    pub(super) gradient_max: Option<f32>,
    pub(super) scaling: Scaling,
    pub(super) threads: usize,
}

/// Over which rows advantages are brought to mean zero and deviation one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scaling {
    None,
    Batch,
    Minibatch,
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

/// Rows of a batch, together.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns<T> {
    pub(super) observed: Vec<T>,
    pub(super) actions: Vec<f32>,
    pub(super) inputs: Vec<T>,
    pub(super) logp: Vec<T>,
    pub(super) advantages: Vec<T>,
    pub(super) targets: Vec<T>,
}

/// Room for the way forward and back.
#[derive(Clone, Debug, Default)]
pub(super) struct Room<T> {
    tape: ModelTape<T>,
    of_inputs: Vec<T>,
    of_values: Vec<T>,
}

/// Networks, and what moves them.
pub(super) struct Descent {
    pub(super) model: Model,
    pub(super) parameters: Vec<f32>,
    pub(super) optimiser: Optimiser,
    pub(super) chance: Chance,
    shares: Vec<Share>,
}

/// What one thread needs for its rows.
#[derive(Default)]
struct Share {
    columns: Columns<f32>,
    room: Room<f32>,
    gradients: Vec<f32>,
    sums: Sums,
}

/// What all threads read of one step.
#[derive(Default)]
struct Current {
    parameters: Vec<f32>,
    rows: Vec<u32>,
    /// What is taken off advantages, and what they are then multiplied with.
    scale: (f32, f32),
}

/// Fewer rows than this are not worth another thread.
const ROWS_MIN: usize = 32;

/// So many are judged at once: what comes out of each layer stays near, and fewer are not worth another thread.
const ROWS_JUDGED: usize = 256;

impl Descent {
    /// Parameters begin as the seed says.
    pub(super) fn new(model: Model, optimiser: &OptimiserSpec, seed: u64) -> Self {
        let mut chance = Chance::seeded(seed);
        let parameters: Vec<f32> = model.init(&mut chance);
        let optimiser = Optimiser::new(optimiser, parameters.len());
        Self { model, parameters, optimiser, chance, shares: Vec::new() }
    }

    /// Goes on with these. False if they are of another learner: then nothing has changed.
    pub(super) fn resume(&mut self, optimiser: Optimiser, chance: Chance) -> bool {
        let fits = self.optimiser.fits(&optimiser);
        if fits {
            (self.optimiser, self.chance) = (optimiser, chance);
        }
        fits
    }

    /// What the networks say now of a rollout's rows: the logarithms of its actions' probabilities, and values.
    pub(super) fn judge(&self, rollout: &Rollout, threads: usize) -> (Vec<f32>, Vec<f32>) {
        let rows = rollout.logp.len();
        let (mut logp, mut values) = (vec![0.0; rows], vec![0.0; rows]);
        let (size, acted) = (self.model.spec().observed, self.model.dist().actions());
        let part = rows.div_ceil(ROWS_JUDGED).div_ceil(threads.max(1)).max(1) * ROWS_JUDGED;
        let seen = rollout.observed.chunks(part * size).zip(rollout.actions.chunks(part * acted));
        let mut parts = seen.zip(logp.chunks_mut(part).zip(values.chunks_mut(part)));
        std::thread::scope(|scope| {
            let first = parts.next();
            for ((observed, actions), (logp, values)) in parts {
                scope.spawn(|| self.judge_part(observed, actions, logp, values));
            }
            if let Some(((observed, actions), (logp, values))) = first {
                self.judge_part(observed, actions, logp, values);
            }
        });
        (logp, values)
    }

    /// One thread's part of that.
    fn judge_part(&self, observed: &[f32], actions: &[f32], logp: &mut [f32], values: &mut [f32]) {
        let (model, dist) = (&self.model, self.model.dist());
        let (size, acted) = (model.spec().observed, dist.actions());
        let mut tape = ModelTape::default();
        let seen = observed.chunks(ROWS_JUDGED * size).zip(actions.chunks(ROWS_JUDGED * acted));
        let into = logp.chunks_mut(ROWS_JUDGED).zip(values.chunks_mut(ROWS_JUDGED));
        for ((observed, actions), (logp, values)) in seen.zip(into) {
            let inputs = model.choose(&self.parameters, observed, &mut tape).chunks_exact(dist.inputs());
            for ((logp, inputs), action) in logp.iter_mut().zip(inputs).zip(actions.chunks_exact(acted)) {
                *logp = dist.terms(inputs, action, inputs).logp;
            }
            values.copy_from_slice(model.value(&self.parameters, observed, &mut tape));
        }
    }

    /// Goes through the batch, step by step of the optimiser.
    pub(super) fn run(&mut self, columns: &Columns<f32>, loss: &impl Loss, passes: &Passes) -> Sums {
        let rows = columns.logp.len();
        let mut means = Sums::default();
        if rows == 0 {
            return means;
        }
        let whole = if passes.scaling == Scaling::Batch { scale(&columns.advantages) } else { (0.0, 1.0) };
        let size = passes.minibatch.clamp(1, rows);
        let threads = passes.threads.clamp(1, size.div_ceil(ROWS_MIN));
        self.shares.resize_with(threads, Share::default);
        let shares: Vec<Mutex<&mut Share>> = self.shares.iter_mut().map(Mutex::new).collect();
        let parameters = std::mem::take(&mut self.parameters);
        let current = RwLock::new(Current { parameters, ..Current::default() });
        let (model, optimiser, chance) = (&self.model, &mut self.optimiser, &mut self.chance);
        let work = |number: usize| {
            let (mut share, current) = (shares[number].lock().expect("its own"), current.read().expect("read only"));
            share.compute(model, columns, &current, part(&current.rows, number, threads), loss);
        };
        with_team(threads, work, |go| {
            let mut order: Vec<u32> = (0..rows as u32).collect();
            for epoch in 0..passes.epochs {
                // Where all rows are one minibatch their order is nothing to learn from.
                if size < rows {
                    shuffle(&mut order, chance);
                }
                for chosen in order.chunks(size) {
                    let mut writing = current.write().expect("no thread has failed");
                    writing.rows.clear();
                    writing.rows.extend_from_slice(chosen);
                    writing.scale = whole;
                    if passes.scaling == Scaling::Minibatch {
                        let advantages: Vec<f32> = chosen.iter().map(|row| columns.advantages[*row as usize]).collect();
                        writing.scale = scale(&advantages);
                    }
                    drop(writing);
                    go();
                    let mut first = shares[0].lock().expect("its own");
                    for share in &shares[1..] {
                        first.add(&share.lock().expect("its own"));
                    }
                    let length = clip_by_norm(&mut first.gradients, passes.gradient_max);
                    let mut writing = current.write().expect("no thread has failed");
                    optimiser.step(&mut writing.parameters, &first.gradients, passes.rate);
                    if epoch + 1 == passes.epochs {
                        first.sums.gradient = f64::from(length) * chosen.len() as f64;
                        means.add(&first.sums, 1.0 / rows as f64);
                    }
                }
            }
        });
        self.parameters = current.into_inner().expect("no thread has failed").parameters;
        means
    }
}

impl Share {
    /// The gradient and sums of these rows.
    fn compute(&mut self, model: &Model, columns: &Columns<f32>, current: &Current, rows: &[u32], loss: &impl Loss) {
        self.gradients.clear();
        self.gradients.resize(current.parameters.len(), 0.0);
        self.columns.gather(columns, rows, model);
        let (mean, factor) = current.scale;
        self.columns.advantages.iter_mut().for_each(|advantage| *advantage = (*advantage - mean) * factor);
        let (columns, room, gradients) = (&self.columns, &mut self.room, &mut self.gradients);
        let weight = 1.0 / current.rows.len() as f64;
        self.sums = gradient(model, &current.parameters, columns, (loss, weight), room, gradients);
    }

    /// Adds another thread's part.
    fn add(&mut self, other: &Self) {
        self.gradients.iter_mut().zip(&other.gradients).for_each(|(sum, part)| *sum += part);
        self.sums.add(&other.sums, 1.0);
    }
}

impl Sums {
    fn add(&mut self, other: &Self, weight: f64) {
        self.loss += weight * other.loss;
        self.policy_loss += weight * other.policy_loss;
        self.value_loss += weight * other.value_loss;
        self.entropy += weight * other.entropy;
        self.kl += weight * other.kl;
        self.gradient += weight * other.gradient;
    }
}

impl Columns<f32> {
    /// Adds a rollout with its advantages.
    pub(super) fn extend(&mut self, rollout: &Rollout, found: Advantages) {
        self.observed.extend_from_slice(&rollout.observed);
        self.actions.extend_from_slice(&rollout.actions);
        self.inputs.extend_from_slice(&rollout.inputs);
        self.logp.extend_from_slice(&rollout.logp);
        self.advantages.extend(found.advantages);
        self.targets.extend(found.targets);
    }
}

impl<T: Real> Columns<T> {
    /// Takes these rows of the batch.
    fn gather(&mut self, columns: &Columns<f32>, rows: &[u32], model: &Model) {
        let Self { observed, actions, inputs, logp, advantages, targets } = self;
        [observed, inputs, logp, advantages, targets].into_iter().for_each(Vec::clear);
        actions.clear();
        let (size, dist) = (model.spec().observed, model.dist());
        let (width, acted) = (dist.inputs(), dist.actions());
        for row in rows {
            let row = *row as usize;
            self.observed
                .extend(columns.observed[row * size..(row + 1) * size].iter().map(|value| T::from_f32(*value)));
            self.actions.extend_from_slice(&columns.actions[row * acted..(row + 1) * acted]);
            self.inputs.extend(columns.inputs[row * width..(row + 1) * width].iter().map(|value| T::from_f32(*value)));
            self.logp.push(T::from_f32(columns.logp[row]));
            self.advantages.push(T::from_f32(columns.advantages[row]));
            self.targets.push(T::from_f32(columns.targets[row]));
        }
    }
}

/// Adds the gradient of the rows' loss, each row by its weight, and returns the sums over its rows.
pub(super) fn gradient<T: Real, L: Loss>(
    model: &Model,
    parameters: &[T],
    columns: &Columns<T>,
    (loss, weight): (&L, f64),
    room: &mut Room<T>,
    gradients: &mut [T],
) -> Sums {
    let (dist, rows) = (model.dist(), columns.logp.len());
    let (width, acted) = (dist.inputs(), dist.actions());
    let mean = T::of(weight);
    let weights = loss.weights();
    let [value_weight, entropy_weight, kl_weight] = [weights.value, weights.entropy, weights.kl].map(T::from_f32);
    let mut sums = Sums::default();
    let Room { tape, of_inputs, of_values } = room;
    of_inputs.resize(rows * width, T::ZERO);
    of_values.clear();
    let inputs = model.choose(parameters, &columns.observed, tape);
    for row in 0..rows {
        let span = row * width..(row + 1) * width;
        let (inputs, older) = (&inputs[span.clone()], &columns.inputs[span.clone()]);
        let action = &columns.actions[row * acted..(row + 1) * acted];
        let terms = dist.terms(inputs, action, older);
        let (lost, slope) = loss.choice(terms.logp, columns.logp[row], columns.advantages[row]);
        let by = Terms { logp: slope * mean, entropy: -entropy_weight * mean, kl: kl_weight * mean };
        dist.gradient(inputs, action, older, by, &mut of_inputs[span]);
        sums.policy_loss += lost.wide();
        sums.entropy += terms.entropy.wide();
        sums.kl += terms.kl.wide();
    }
    let values = model.value(parameters, &columns.observed, tape);
    for (value, target) in values.iter().zip(&columns.targets) {
        let (lost, slope) = loss.value(*value - *target);
        of_values.push(value_weight * slope * mean);
        sums.value_loss += lost.wide();
    }
    model.backward(parameters, &columns.observed, tape, (of_inputs, of_values), gradients);
    sums.loss = sums.policy_loss + value_weight.wide() * sums.value_loss - entropy_weight.wide() * sums.entropy
        + kl_weight.wide() * sums.kl;
    sums
}

/// What to take off and then multiply with to make the mean zero and the deviation one.
fn scale(values: &[f32]) -> (f32, f32) {
    let count = values.len() as f64;
    let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
    let variance = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>() / count;
    (mean as f32, (1.0 / (variance.sqrt() + 1e-8)) as f32)
}

/// How much of the targets' variance the values explain.
pub(super) fn explained(values: &[f32], targets: &[f32]) -> f64 {
    let variance = |numbers: &mut dyn Iterator<Item = f64>| {
        let numbers: Vec<f64> = numbers.collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len().max(1) as f64;
        numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>()
    };
    let all = variance(&mut targets.iter().map(|target| f64::from(*target)));
    let rest = variance(&mut values.iter().zip(targets).map(|(value, target)| f64::from(target - value)));
    if all > 0.0 { (1.0 - rest / all).max(-1.0) } else { -1.0 }
}

/// One thread's part of the rows.
fn part(rows: &[u32], number: usize, threads: usize) -> &[u32] {
    &rows[rows.len() * number / threads..rows.len() * (number + 1) / threads]
}

pub(super) fn shuffle<S>(order: &mut [S], chance: &mut Chance) {
    for last in (1..order.len()).rev() {
        order.swap(last, chance.integers(last as u64 + 1) as usize);
    }
}
