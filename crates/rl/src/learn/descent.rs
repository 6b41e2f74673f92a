//! What learners by policy gradients share: the batch as columns, minibatches shared out among threads, steps of the optimiser. An algorithm adds
//! its advantages and what it loses per row.

use std::ops::Range;
use std::sync::{Mutex, RwLock};

use super::loss::{Loss, Room, Side, Sums, gradient};
use super::team::{with_team, worth_it};
use crate::advantage::Advantages;
use crate::chance::Chance;
use crate::dist::Dist;
use crate::model::{Model, ModelTape};
use crate::nn::{Optimiser, OptimiserSpec, Real, clip_factor, sum_of_squares};
use crate::rollout::Rollout;

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
    /// As many as there are parameters; of other groups' it knows nothing.
    gradients: Vec<f32>,
    /// The squared length of its gradient.
    squares: f32,
    sums: Sums,
}

/// Threads that move the same parameters. Networks that share no layer are moved by a group each: nothing of one has to reach the other's
/// core but the length of its gradient.
struct Group {
    side: Side,
    range: Range<usize>,
    moving: RwLock<Moving>,
}

/// Parameters, of which a group knows and moves its own range, and what moves them.
struct Moving {
    parameters: Vec<f32>,
    optimiser: Optimiser,
}

/// What all threads read of one round.
struct Current {
    rows: Vec<u32>,
    /// What is taken off advantages, and what they are then multiplied with.
    scale: (f32, f32),
    /// What the last gradient is multiplied with before parameters move by it.
    factor: f32,
    rate: f32,
    round: Round,
}

/// What a round of the threads is for.
#[derive(Clone, Copy, PartialEq)]
enum Round {
    /// Gradients of rows.
    Compute,
    /// Each group's gradients become one.
    Join,
    /// Parameters move.
    Move,
    /// Both, where no group has more than one thread.
    MoveAndCompute,
}

/// Rows that one thread computes with its parameters while they would come from another core (about a gigabyte in a second, as measured where cores
/// share no cache); tests share out fewer.
const ROWS_SHARED: usize = if cfg!(test) { 4 } else { 256 };

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
        let threads = self.threads(rows, size, passes);
        self.shares.resize_with(threads, Share::default);
        let groups = self.part(threads > 1);
        let shares: Vec<Mutex<&mut Share>> = self.shares.iter_mut().map(Mutex::new).collect();
        let (model, chance) = (&self.model, &mut self.chance);
        let current = Current { rows: Vec::new(), scale: whole, factor: 1.0, rate: passes.rate, round: Round::Compute };
        let current = RwLock::new(current);
        let work = |number: usize| {
            let current = current.read().expect("read only");
            let group = &groups[number % groups.len()];
            let others = || (number + groups.len()..threads).step_by(groups.len());
            let mut share = shares[number].lock().expect("its own");
            if matches!(current.round, Round::Move | Round::MoveAndCompute) && number < groups.len() {
                group.step(&share.gradients, &current);
            }
            if matches!(current.round, Round::Compute | Round::MoveAndCompute) {
                let (number, count) =
                    (number / groups.len(), (number % groups.len()..threads).step_by(groups.len()).len());
                let rows = part(&current.rows, number, count);
                share.compute((model, loss), columns, &current, rows, group);
            }
            if current.round == Round::Join && number < groups.len() {
                others().for_each(|other| share.add(&shares[other].lock().expect("it waits"), group));
            }
        };
        let are_alone = threads == groups.len();
        with_team(threads, work, |go| {
            let round = |round: Round| {
                current.write().expect("no thread has failed").round = round;
                go();
            };
            let mut order: Vec<u32> = (0..rows as u32).collect();
            for epoch in 0..passes.epochs {
                // Where all rows are one minibatch their order is nothing to learn from.
                if size < rows {
                    shuffle(&mut order, chance);
                }
                for (index, chosen) in order.chunks(size).enumerate() {
                    let mut writing = current.write().expect("no thread has failed");
                    writing.rows.clear();
                    writing.rows.extend_from_slice(chosen);
                    if passes.scaling == Scaling::Minibatch {
                        let advantages: Vec<f32> = chosen.iter().map(|row| columns.advantages[*row as usize]).collect();
                        writing.scale = scale(&advantages);
                    }
                    drop(writing);
                    let is_first = epoch == 0 && index == 0;
                    round(if is_first || !are_alone { Round::Compute } else { Round::MoveAndCompute });
                    if !are_alone {
                        round(Round::Join);
                    }
                    let mut sums = Sums::default();
                    let mut squares = 0.0;
                    for share in &shares[..groups.len()] {
                        let share = share.lock().expect("it waits");
                        squares += share.squares;
                        sums.add(&share.sums, 1.0);
                    }
                    let length = squares.sqrt();
                    current.write().expect("no thread has failed").factor = clip_factor(length, passes.gradient_max);
                    if !are_alone {
                        round(Round::Move);
                    }
                    if epoch + 1 == passes.epochs {
                        sums.gradient = f64::from(length) * chosen.len() as f64;
                        means.add(&sums, 1.0 / rows as f64);
                    }
                }
            }
            if are_alone && passes.epochs > 0 {
                round(Round::Move);
            }
        });
        self.join(groups);
        means
    }

    /// How many threads are worth it: one for each network, and more where so much is computed per row that it takes longer than to bring
    /// parameters and gradients from core to core.
    fn threads(&self, rows: usize, size: usize, passes: &Passes) -> usize {
        let parameters = self.parameters.len().max(1);
        let work = rows.saturating_mul(passes.epochs).saturating_mul(parameters);
        let sides = if self.model.values_begin().is_some() { 2 } else { 1 };
        // Pictures use a parameter many times per row.
        let uses = self.model.work() as f64 / parameters as f64;
        let shared = (uses * size as f64 / ROWS_SHARED as f64) as usize;
        worth_it(passes.threads, work).min(sides * shared.max(1))
    }

    /// Gives parameters and optimiser to groups of threads, one for each network if they share no layer.
    fn part(&mut self, can_be_two: bool) -> Vec<Group> {
        let parameters = std::mem::take(&mut self.parameters);
        let len = parameters.len();
        let group = |side, range, parameters, optimiser| Group {
            side,
            range,
            moving: RwLock::new(Moving { parameters, optimiser }),
        };
        match self.model.values_begin().filter(|_| can_be_two) {
            Some(at) => {
                let of_values = self.optimiser.split_off(at);
                let of_choices = std::mem::replace(&mut self.optimiser, of_values.clone());
                vec![
                    group(Side::Choices, 0..at, parameters.clone(), of_choices),
                    group(Side::Values, at..len, parameters, of_values),
                ]
            }
            None => vec![group(Side::Both, 0..len, parameters, self.optimiser.clone())],
        }
    }

    /// Takes back what was given to groups.
    fn join(&mut self, groups: Vec<Group>) {
        let parts =
            groups.into_iter().map(|group| (group.range, group.moving.into_inner().expect("no thread has failed")));
        for (range, Moving { parameters, optimiser }) in parts {
            if range.start == 0 {
                (self.parameters, self.optimiser) = (parameters, optimiser);
            } else {
                self.parameters[range.clone()].copy_from_slice(&parameters[range]);
                self.optimiser.append(optimiser);
            }
        }
    }
}

impl Group {
    /// Moves its parameters by its gradient.
    fn step(&self, gradients: &[f32], current: &Current) {
        let Moving { parameters, optimiser } = &mut *self.moving.write().expect("no thread has failed");
        let range = self.range.clone();
        optimiser.step_by(&mut parameters[range.clone()], &gradients[range], current.factor, current.rate);
    }
}

impl Share {
    /// The gradient and sums of these rows.
    fn compute(
        &mut self,
        (model, loss): (&Model, &impl Loss),
        columns: &Columns<f32>,
        current: &Current,
        rows: &[u32],
        group: &Group,
    ) {
        let parameters = &group.moving.read().expect("no thread has failed").parameters;
        self.gradients.resize(parameters.len(), 0.0);
        self.columns.gather(columns, rows, model, group.side);
        let (mean, factor) = current.scale;
        self.columns.advantages.iter_mut().for_each(|advantage| *advantage = (*advantage - mean) * factor);
        let (columns, room, gradients) = (&self.columns, &mut self.room, &mut self.gradients);
        let weight = 1.0 / current.rows.len() as f64;
        self.sums = gradient((model, group.side), parameters, columns, (loss, weight), room, gradients);
        self.squares = sum_of_squares(&self.gradients[group.range.clone()]);
    }

    /// Adds another thread's part.
    fn add(&mut self, other: &Self, group: &Group) {
        let range = group.range.clone();
        let parts = self.gradients[range.clone()].iter_mut().zip(&other.gradients[range.clone()]);
        parts.for_each(|(sum, part)| *sum += part);
        self.squares = sum_of_squares(&self.gradients[range]);
        self.sums.add(&other.sums, 1.0);
    }
}

impl Columns<f32> {
    /// Adds a rollout with its advantages.
    pub(super) fn extend(&mut self, rollout: &Rollout, found: Advantages, dist: &Dist) {
        self.observed.extend_from_slice(&rollout.observed);
        self.actions.extend_from_slice(&rollout.actions);
        let begin = self.inputs.len();
        self.inputs.extend_from_slice(&rollout.inputs);
        dist.normalise(&mut self.inputs[begin..]);
        self.logp.extend_from_slice(&rollout.logp);
        self.advantages.extend(found.advantages);
        self.targets.extend(found.targets);
    }
}

impl<T: Real> Columns<T> {
    /// Takes these rows of the batch, as far as a side needs them.
    fn gather(&mut self, columns: &Columns<f32>, rows: &[u32], model: &Model, side: Side) {
        let dist = model.dist();
        take(&mut self.observed, &columns.observed, rows, model.spec().observed, T::from_f32);
        if side != Side::Values {
            take(&mut self.actions, &columns.actions, rows, dist.actions(), |value| value);
            take(&mut self.inputs, &columns.inputs, rows, dist.inputs(), T::from_f32);
            take(&mut self.logp, &columns.logp, rows, 1, T::from_f32);
            take(&mut self.advantages, &columns.advantages, rows, 1, T::from_f32);
        }
        if side != Side::Choices {
            take(&mut self.targets, &columns.targets, rows, 1, T::from_f32);
        }
    }
}

/// Takes these rows of a column.
fn take<T: Copy>(into: &mut Vec<T>, from: &[f32], rows: &[u32], width: usize, of: impl Fn(f32) -> T) {
    into.clear();
    if width == 1 {
        into.extend(rows.iter().map(|row| of(from[*row as usize])));
        return;
    }
    into.reserve(rows.len() * width);
    for row in rows {
        let begin = *row as usize * width;
        into.extend(from[begin..begin + width].iter().map(|value| of(*value)));
    }
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

#[cfg(test)]
mod tests {
    use super::{Columns, Descent, Passes, Scaling};
    use crate::chance::Chance;
    use crate::learn::loss::Plain;
    use crate::model::{Model, ModelSpec};
    use crate::nn::OptimiserSpec;
    use crate::space::Acted;

    /// Whether networks share layers or not, one thread for each of them or several.
    #[test]
    fn threads_learn_together_what_one_learns_alone() {
        const ROWS: usize = 90;
        let mut chance = Chance::seeded(3);
        let mut normal = |count: usize| -> Vec<f32> { (0..count).map(|_| chance.normal() as f32).collect() };
        let columns = Columns {
            observed: normal(3 * ROWS),
            actions: normal(2 * ROWS),
            inputs: normal(4 * ROWS),
            logp: normal(ROWS),
            advantages: normal(ROWS),
            targets: normal(ROWS),
        };
        for (is_shared, free_log_std) in [(false, false), (false, true), (true, false), (true, true)] {
            let learned = |threads: usize| {
                let acted = Acted::Box { low: vec![-1.0; 2], high: vec![1.0; 2] };
                let hiddens = vec![7];
                let spec = ModelSpec { observed: 3, acted, hiddens, is_shared, free_log_std, ..ModelSpec::default() };
                let mut descent = Descent::new(Model::new(spec), &OptimiserSpec::Adam { epsilon: 1e-5 }, 1);
                let passes = Passes {
                    epochs: 3,
                    minibatch: 40,
                    rate: 1e-2,
                    gradient_max: Some(0.5),
                    scaling: Scaling::Minibatch,
                    threads,
                };
                let sums = descent.run(&columns, &Plain { value_weight: 0.5, entropy_weight: 0.01 }, &passes);
                assert_eq!(descent.shares.len(), threads, "all of them had something to do");
                (descent.parameters, sums, descent.optimiser)
            };
            let (alone, sums, optimiser) = learned(1);
            for threads in 2..=5 {
                let (together, other, other_optimiser) = learned(threads);
                let apart = alone.iter().zip(&together).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
                assert!(apart < 1e-4, "{threads} threads: {apart}");
                assert!((sums.loss - other.loss).abs() < 1e-3 && (sums.gradient - other.gradient).abs() < 1e-3);
                assert!(optimiser.fits(&other_optimiser));
            }
        }
    }
}
