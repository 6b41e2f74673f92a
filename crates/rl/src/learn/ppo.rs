//! Proximal policy optimisation.

use std::sync::{Mutex, RwLock};

use serde::{Deserialize, Serialize};

use super::team::with_team;
use crate::advantage::generalised;
use crate::chance::Chance;
use crate::dist::Terms;
use crate::model::{Model, ModelTape};
use crate::nn::{Adam, Layout, Real, clip_by_norm};
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

/// What one minibatch gives.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    loss: f64,
    policy_loss: f64,
    value_loss: f64,
    entropy: f64,
    kl: f64,
}

/// The rows of a minibatch, together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Minibatch<T> {
    observed: Vec<T>,
    actions: Vec<f32>,
    inputs: Vec<T>,
    logp: Vec<T>,
    advantages: Vec<T>,
    targets: Vec<T>,
}

/// Room for the way forward and back.
#[derive(Clone, Debug, Default)]
struct Room<T> {
    tape: ModelTape<T>,
    of_inputs: Vec<T>,
    of_values: Vec<T>,
}

/// Learns from rollouts.
pub struct Ppo {
    model: Model,
    parameters: Vec<f32>,
    adam: Adam,
    kl_weight: f32,
    chance: Chance,
    shares: Vec<Share>,
}

/// What one thread needs for its rows.
#[derive(Default)]
struct Share {
    minibatch: Minibatch<f32>,
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

impl Ppo {
    /// A learner whose parameters begin as the seed says.
    #[must_use]
    pub fn new(model: Model, kl_weight: f32, adam_epsilon: f32, seed: u64) -> Self {
        let mut chance = Chance::seeded(seed);
        let parameters: Vec<f32> = model.init(&mut chance);
        Self {
            adam: Adam::new(parameters.len(), adam_epsilon),
            model,
            parameters,
            kl_weight,
            chance,
            shares: Vec::new(),
        }
    }

    /// The parameters as they are.
    #[must_use]
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// All that its next updates depend on beside the parameters.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        postcard::to_stdvec(&(&self.adam, self.kl_weight, &self.chance)).expect("plain data")
    }

    /// Goes on from what was saved. False if that is of another learner: then nothing has changed.
    pub fn restore(&mut self, saved: &[u8]) -> bool {
        let Ok((adam, kl_weight, chance)) = postcard::from_bytes::<(Adam, f32, Chance)>(saved) else { return false };
        if !adam.fits(self.parameters.len()) {
            return false;
        }
        (self.adam, self.kl_weight, self.chance) = (adam, kl_weight, chance);
        true
    }

    /// Where the parameters lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        self.model.layout()
    }

    /// The parameters, to be set.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }

    /// Learns from these rollouts.
    pub fn update(&mut self, rollouts: &[&Rollout], settings: &PpoSettings) -> PpoStats {
        let mut columns = Minibatch::<f32>::default();
        let mut values = Vec::new();
        for rollout in rollouts {
            let found = generalised(rollout, settings.gamma, settings.lambda);
            columns.observed.extend_from_slice(&rollout.observed);
            columns.actions.extend_from_slice(&rollout.actions);
            columns.inputs.extend_from_slice(&rollout.inputs);
            columns.logp.extend_from_slice(&rollout.logp);
            columns.advantages.extend(found.advantages);
            columns.targets.extend(found.targets);
            values.extend_from_slice(&rollout.values);
        }
        let rows = columns.logp.len();
        let mut stats = PpoStats { rows, explained: explained(&values, &columns.targets), ..PpoStats::default() };
        if rows == 0 {
            return stats;
        }
        let whole = scale(&columns.advantages);
        let size = settings.minibatch.clamp(1, rows);
        let kl_weight = if settings.uses_kl { self.kl_weight } else { 0.0 };
        let threads = settings.threads.clamp(1, size.div_ceil(ROWS_MIN));
        self.shares.resize_with(threads, Share::default);
        let shares: Vec<Mutex<&mut Share>> = self.shares.iter_mut().map(Mutex::new).collect();
        let parameters = std::mem::take(&mut self.parameters);
        let current = RwLock::new(Current { parameters, ..Current::default() });
        let (model, columns) = (&self.model, &columns);
        let work = |number: usize| {
            let (mut share, current) = (shares[number].lock().expect("its own"), current.read().expect("read only"));
            let count = current.rows.len();
            let rows = &current.rows[count * number / threads..count * (number + 1) / threads];
            share.compute(model, columns, &current, rows, settings, kl_weight);
        };
        with_team(threads, work, |go| {
            let mut order: Vec<u32> = (0..rows as u32).collect();
            for epoch in 0..settings.epochs {
                shuffle(&mut order, &mut self.chance);
                for chosen in order.chunks(size) {
                    let mut writing = current.write().expect("no thread has failed");
                    writing.rows.clear();
                    writing.rows.extend_from_slice(chosen);
                    writing.scale = whole;
                    if settings.scales_minibatches {
                        let advantages: Vec<f32> = chosen.iter().map(|row| columns.advantages[*row as usize]).collect();
                        writing.scale = scale(&advantages);
                    }
                    drop(writing);
                    go();
                    let mut first = shares[0].lock().expect("its own");
                    for share in &shares[1..] {
                        first.add(&share.lock().expect("its own"));
                    }
                    let length = clip_by_norm(&mut first.gradients, settings.gradient_max);
                    let mut writing = current.write().expect("no thread has failed");
                    self.adam.step(&mut writing.parameters, &first.gradients, settings.rate);
                    if epoch + 1 == settings.epochs {
                        let share = chosen.len() as f64 / rows as f64;
                        stats.loss += first.sums.loss / rows as f64;
                        stats.policy_loss += first.sums.policy_loss / rows as f64;
                        stats.value_loss += first.sums.value_loss / rows as f64;
                        stats.entropy += first.sums.entropy / rows as f64;
                        stats.kl += first.sums.kl / rows as f64;
                        stats.gradient += share * f64::from(length);
                    }
                }
            }
        });
        self.parameters = current.into_inner().expect("no thread has failed").parameters;
        if settings.uses_kl {
            self.kl_weight *= match stats.kl as f32 {
                kl if kl > 2.0 * settings.kl_target => 1.5,
                kl if kl < 0.5 * settings.kl_target => 0.5,
                _ => 1.0,
            };
        }
        stats.kl_weight = f64::from(self.kl_weight);
        stats
    }
}

impl Share {
    /// The gradient and sums of these rows.
    fn compute(
        &mut self,
        model: &Model,
        columns: &Minibatch<f32>,
        current: &Current,
        rows: &[u32],
        settings: &PpoSettings,
        kl_weight: f32,
    ) {
        self.gradients.clear();
        self.gradients.resize(current.parameters.len(), 0.0);
        self.minibatch.gather(columns, rows, model);
        let (mean, factor) = current.scale;
        self.minibatch.advantages.iter_mut().for_each(|advantage| *advantage = (*advantage - mean) * factor);
        let (minibatch, room, gradients) = (&self.minibatch, &mut self.room, &mut self.gradients);
        let weight = 1.0 / current.rows.len() as f64;
        self.sums = gradient(model, &current.parameters, minibatch, settings, (kl_weight, weight), room, gradients);
    }

    /// Adds another thread's part.
    fn add(&mut self, other: &Self) {
        self.gradients.iter_mut().zip(&other.gradients).for_each(|(sum, part)| *sum += part);
        self.sums.loss += other.sums.loss;
        self.sums.policy_loss += other.sums.policy_loss;
        self.sums.value_loss += other.sums.value_loss;
        self.sums.entropy += other.sums.entropy;
        self.sums.kl += other.sums.kl;
    }
}

impl<T: Real> Minibatch<T> {
    /// Takes these rows of the batch.
    fn gather(&mut self, columns: &Minibatch<f32>, rows: &[u32], model: &Model) {
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

/// Adds the gradient of the minibatch's loss, each row by its weight, and returns the sums over its rows.
fn gradient<T: Real>(
    model: &Model,
    parameters: &[T],
    minibatch: &Minibatch<T>,
    settings: &PpoSettings,
    (kl_weight, weight): (f32, f64),
    room: &mut Room<T>,
    gradients: &mut [T],
) -> Sums {
    let (dist, rows) = (model.dist(), minibatch.logp.len());
    let (width, acted) = (dist.inputs(), dist.actions());
    let mean = T::of(weight);
    let clip = T::from_f32(settings.clip);
    let (value_weight, value_clip) = (T::from_f32(settings.value_weight), T::from_f32(settings.value_clip));
    let (entropy_weight, kl_weight) = (T::from_f32(settings.entropy_weight), T::from_f32(kl_weight));
    let mut sums = Sums::default();
    let Room { tape, of_inputs, of_values } = room;
    of_inputs.resize(rows * width, T::ZERO);
    of_values.clear();
    let inputs = model.choose(parameters, &minibatch.observed, tape);
    for row in 0..rows {
        let span = row * width..(row + 1) * width;
        let (inputs, older) = (&inputs[span.clone()], &minibatch.inputs[span.clone()]);
        let action = &minibatch.actions[row * acted..(row + 1) * acted];
        let terms = dist.terms(inputs, action, older);
        let (advantage, ratio) = (minibatch.advantages[row], (terms.logp - minibatch.logp[row]).exp());
        let clipped = ratio.at_least(T::ONE - clip).at_most(T::ONE + clip);
        let (plain, bounded) = (advantage * ratio, advantage * clipped);
        // The bound has no slope of its own.
        let (surrogate, slope) = if plain <= bounded { (plain, plain) } else { (bounded, T::ZERO) };
        let by = Terms { logp: -slope * mean, entropy: -entropy_weight * mean, kl: kl_weight * mean };
        dist.gradient(inputs, action, older, by, &mut of_inputs[span]);
        sums.policy_loss -= surrogate.wide();
        sums.entropy += terms.entropy.wide();
        sums.kl += terms.kl.wide();
    }
    let values = model.value(parameters, &minibatch.observed, tape);
    for (value, target) in values.iter().zip(&minibatch.targets) {
        let error = *value - *target;
        let (square, slope) =
            if error * error <= value_clip { (error * error, error + error) } else { (value_clip, T::ZERO) };
        of_values.push(value_weight * slope * mean);
        sums.value_loss += square.wide();
    }
    model.backward(parameters, &minibatch.observed, tape, (of_inputs, of_values), gradients);
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
fn explained(values: &[f32], targets: &[f32]) -> f64 {
    let variance = |numbers: &mut dyn Iterator<Item = f64>| {
        let numbers: Vec<f64> = numbers.collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len().max(1) as f64;
        numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>()
    };
    let all = variance(&mut targets.iter().map(|target| f64::from(*target)));
    let rest = variance(&mut values.iter().zip(targets).map(|(value, target)| f64::from(target - value)));
    if all > 0.0 { (1.0 - rest / all).max(-1.0) } else { -1.0 }
}

fn shuffle(order: &mut [u32], chance: &mut Chance) {
    for last in (1..order.len()).rev() {
        order.swap(last, chance.integers(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::{Minibatch, PpoSettings, Room, gradient};
    use crate::chance::Chance;
    use crate::model::{Model, ModelSpec};
    use crate::nn::Activation;
    use crate::space::Acted;

    fn settings() -> PpoSettings {
        PpoSettings {
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
        }
    }

    fn minibatch(model: &Model, rows: usize, chance: &mut Chance) -> Minibatch<f64> {
        let mut normal = |count: usize, by: f64| -> Vec<f64> { (0..count).map(|_| by * chance.normal()).collect() };
        let inputs: Vec<f64> = normal(rows * model.dist().inputs(), 0.3);
        let (observed, targets) = (normal(rows * model.spec().observed, 1.0), normal(rows, 1.5));
        let (advantages, logp) = (normal(rows, 1.0), normal(rows, 0.2));
        let actions = match &model.spec().acted {
            Acted::Box { .. } => {
                normal(rows * model.dist().actions(), 1.0).into_iter().map(|value| value as f32).collect()
            }
            _ => (0..rows * model.dist().actions()).map(|at| (at % 2) as f32).collect(),
        };
        let mut minibatch = Minibatch { observed, actions, inputs, logp, advantages, targets };
        // Near the older policy, so that some ratios are bounded and some are not.
        for row in 0..rows {
            let width = model.dist().inputs();
            let acted = model.dist().actions();
            let older = &minibatch.inputs[row * width..(row + 1) * width];
            let action = &minibatch.actions[row * acted..(row + 1) * acted];
            minibatch.logp[row] += model.dist().terms(older, action, older).logp;
        }
        minibatch
    }

    #[test]
    fn gradients_are_those_of_differences() {
        let bounds = || (vec![-1.0; 2], vec![1.0; 2]);
        let (low, high) = bounds();
        let spaces = [Acted::Discrete(3), Acted::MultiDiscrete(vec![2, 3]), Acted::Box { low, high }];
        for (index, acted) in spaces.into_iter().enumerate() {
            for (is_shared, free_log_std, activation) in [
                (false, false, Activation::Tanh),
                (true, false, Activation::Tanh),
                (false, true, Activation::Relu),
                (true, true, Activation::Relu),
            ] {
                let spec = ModelSpec {
                    observed: 3,
                    acted: acted.clone(),
                    hiddens: vec![5, 4],
                    activation,
                    is_shared,
                    free_log_std,
                };
                let model = Model::new(spec);
                let mut chance = Chance::seeded(index as u64);
                let mut parameters: Vec<f64> = model.init(&mut chance);
                parameters.iter_mut().for_each(|value| *value += 0.2 * chance.normal());
                let minibatch = minibatch(&model, 24, &mut chance);
                let mut room = Room::default();
                let mut loss = |parameters: &[f64]| {
                    let mut ignored = vec![0.0; parameters.len()];
                    gradient(&model, parameters, &minibatch, &settings(), (0.3, 1.0 / 24.0), &mut room, &mut ignored)
                        .loss
                        / 24.0
                };
                let mut gradients = vec![0.0; parameters.len()];
                gradient(
                    &model,
                    &parameters,
                    &minibatch,
                    &settings(),
                    (0.3, 1.0 / 24.0),
                    &mut Room::default(),
                    &mut gradients,
                );
                for at in 0..parameters.len() {
                    let before = parameters[at];
                    parameters[at] = before + 1e-6;
                    let more = loss(&parameters);
                    parameters[at] = before - 1e-6;
                    let less = loss(&parameters);
                    parameters[at] = before;
                    let difference = (more - less) / 2e-6;
                    let found = gradients[at];
                    assert!((found - difference).abs() < 1e-6 * (1.0 + difference.abs()), "{at}: {found} {difference}");
                }
            }
        }
    }
}
