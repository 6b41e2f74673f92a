//! Q-learning with replay: double, dueling, several steps, the surprising more often.

use std::ops::Range;
use std::sync::{Mutex, RwLock};

use serde::{Deserialize, Serialize};

use super::team::{with_team, worth_it};
use crate::chance::Chance;
use crate::nn::{Adam, Layout, Real, clip_factor, norm};
use crate::q::{QModel, QTape, best};
use crate::replay::{Drawn, Replay};

/// How it learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DqnSettings {
    /// Step size.
    pub rate: f32,
    /// Rows per step of the optimiser.
    pub batch: usize,
    /// Whether the learning networks choose the action that the older ones value.
    pub is_double: bool,
    /// The most that the gradient may be long.
    pub gradient_max: Option<f32>,
    /// How much surprise counts when rows are drawn.
    pub alpha: f64,
    /// How far that is made up for.
    pub beta: f64,
    /// Threads that share the rows of each step.
    #[serde(default)]
    pub threads: usize,
}

/// What a step found. Means over its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DqnStats {
    /// The loss.
    pub loss: f64,
    /// What the actions taken are thought to be worth.
    pub mean_q: f64,
    /// The most of that.
    pub max_q: f64,
    /// The least of that.
    pub min_q: f64,
    /// How far off they were.
    pub surprise: f64,
    /// Length of the gradient.
    pub gradient: f64,
}

/// Learns from replayed steps.
pub struct Dqn {
    model: QModel,
    parameters: Vec<f32>,
    older: Vec<f32>,
    adam: Adam,
    chance: Chance,
    drawn: Drawn,
    shares: Vec<Share>,
}

/// What one thread needs for its rows.
#[derive(Default)]
struct Share {
    rows: Rows<f32>,
    room: Room<f32>,
    gradients: Vec<f32>,
    stats: DqnStats,
}

/// What all threads read of one step.
struct Current<'a> {
    replay: &'a mut Replay,
    drawn: &'a mut Drawn,
    parameters: Vec<f32>,
    older: &'a [f32],
}

/// The rows of a batch, together.
#[derive(Clone, Debug, Default)]
struct Rows<T> {
    observed: Vec<T>,
    following: Vec<T>,
    actions: Vec<usize>,
    rewards: Vec<T>,
    discounts: Vec<T>,
    weights: Vec<T>,
    /// One over the rows of all threads together.
    mean: f64,
}

#[derive(Clone, Debug, Default)]
struct Room<T> {
    tape: QTape<T>,
    other: QTape<T>,
    targets: Vec<T>,
    of_worth: Vec<T>,
    surprises: Vec<f32>,
}

impl Dqn {
    /// A learner whose parameters begin as the seed says.
    #[must_use]
    pub fn new(model: QModel, adam_epsilon: f32, seed: u64) -> Self {
        let mut chance = Chance::seeded(seed);
        let parameters: Vec<f32> = model.init(&mut chance);
        Self {
            older: parameters.clone(),
            adam: Adam::new(parameters.len(), adam_epsilon),
            model,
            parameters,
            chance,
            drawn: Drawn::default(),
            shares: Vec::new(),
        }
    }

    /// The parameters as they are.
    #[must_use]
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// All that its next updates depend on beside the parameters and the buffer.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        postcard::to_stdvec(&(&self.adam, &self.older, &self.chance)).expect("plain data")
    }

    /// Goes on from what was saved. False if that is of another learner: then nothing has changed.
    pub fn restore(&mut self, saved: &[u8]) -> bool {
        let Ok((adam, older, chance)) = postcard::from_bytes::<(Adam, Vec<f32>, Chance)>(saved) else { return false };
        if !adam.fits(self.parameters.len()) || older.len() != self.parameters.len() {
            return false;
        }
        (self.adam, self.older, self.chance) = (adam, older, chance);
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

    /// The older networks move this far towards the learning ones; at one they become them.
    pub fn follow(&mut self, share: f32) {
        for (older, parameter) in self.older.iter_mut().zip(&self.parameters) {
            *older += share * (parameter - *older);
        }
    }

    /// So many steps of the optimiser, each from as many drawn rows as the settings say; tells the buffer how surprising they were, and returns what
    /// the last step found.
    pub fn update(&mut self, replay: &mut Replay, settings: &DqnSettings, times: usize) -> DqnStats {
        if replay.is_empty() {
            return DqnStats::default();
        }
        let work = settings.batch.saturating_mul(times).saturating_mul(self.parameters.len());
        let threads = worth_it(settings.threads, settings.batch, work);
        let Self { model, parameters, older, adam, chance, drawn, shares } = self;
        shares.resize_with(threads, Share::default);
        let shares: Vec<Mutex<&mut Share>> = shares.iter_mut().map(Mutex::new).collect();
        let current = RwLock::new(Current { replay, drawn, parameters: std::mem::take(parameters), older });
        let work = |number: usize| {
            let (mut share, current) = (shares[number].lock().expect("its own"), current.read().expect("read only"));
            let count = current.drawn.rows.len();
            let part = count * number / threads..count * (number + 1) / threads;
            share.compute(model, &current, part, settings.is_double);
        };
        let stats = with_team(threads, work, |go| {
            let mut stats = DqnStats::default();
            for _ in 0..times {
                let mut writing = current.write().expect("no thread has failed");
                let Current { replay, drawn, .. } = &mut *writing;
                replay.draw(settings.batch, settings.beta, chance, drawn);
                drop(writing);
                go();
                let mut first = shares[0].lock().expect("its own");
                shares[1..].iter().for_each(|share| first.add(&share.lock().expect("it waits")));
                let Current { replay, drawn, parameters, .. } = &mut *current.write().expect("no thread has failed");
                let length = norm(&first.gradients);
                let factor = clip_factor(length, settings.gradient_max);
                adam.step_by(parameters, &first.gradients, factor, settings.rate);
                replay.set_priorities(&drawn.rows, &first.room.surprises, settings.alpha);
                stats = DqnStats { gradient: f64::from(length), ..first.stats };
            }
            stats
        });
        self.parameters = current.into_inner().expect("no thread has failed").parameters;
        stats
    }
}

impl Share {
    /// The gradient of these of the drawn rows, and what was found.
    fn compute(&mut self, model: &QModel, current: &Current<'_>, part: Range<usize>, is_double: bool) {
        let Self { rows, room, gradients, stats } = self;
        rows.gather(current.replay, current.drawn, part);
        room.aim(model, (&current.parameters, current.older), rows, is_double);
        gradients.clear();
        gradients.resize(current.parameters.len(), 0.0);
        *stats = gradient(model, &current.parameters, rows, room, gradients);
    }

    /// Adds another thread's part.
    fn add(&mut self, other: &Self) {
        self.gradients.iter_mut().zip(&other.gradients).for_each(|(sum, part)| *sum += part);
        self.room.surprises.extend_from_slice(&other.room.surprises);
        let (stats, other) = (&mut self.stats, &other.stats);
        stats.loss += other.loss;
        stats.mean_q += other.mean_q;
        stats.surprise += other.surprise;
        stats.max_q = stats.max_q.max(other.max_q);
        stats.min_q = stats.min_q.min(other.min_q);
    }
}

impl<T: Real> Rows<T> {
    /// Takes a part of what was drawn.
    fn gather(&mut self, replay: &Replay, drawn: &Drawn, part: Range<usize>) {
        let Self { observed, following, actions, rewards, discounts, weights, mean } = self;
        *mean = 1.0 / drawn.rows.len() as f64;
        [&mut *observed, following, rewards, discounts, weights].into_iter().for_each(Vec::clear);
        actions.clear();
        for (row, weight) in drawn.rows[part.clone()].iter().zip(&drawn.weights[part]) {
            let row = replay.row(*row);
            observed.extend(row.observed.iter().map(|value| T::from_f32(*value)));
            following.extend(row.following.iter().map(|value| T::from_f32(*value)));
            actions.push(row.action[0] as usize);
            rewards.push(T::from_f32(row.reward));
            discounts.push(T::from_f32(row.discount));
            weights.push(T::from_f32(*weight));
        }
    }
}

impl<T: Real> Room<T> {
    /// What the actions should have been worth.
    fn aim(&mut self, model: &QModel, (parameters, older): (&[T], &[T]), rows: &Rows<T>, is_double: bool) {
        let count = model.spec().actions;
        let valued = model.forward(older, &rows.following, &mut self.other);
        let chosen = if is_double { model.forward(parameters, &rows.following, &mut self.tape) } else { valued };
        self.targets.clear();
        let pairs = chosen.chunks_exact(count).zip(valued.chunks_exact(count));
        for ((chosen, valued), (reward, discount)) in pairs.zip(rows.rewards.iter().zip(&rows.discounts)) {
            self.targets.push(*reward + *discount * valued[best(chosen)]);
        }
    }
}

/// Adds the gradient of Huber's loss: the weighted mean, or this part of it.
fn gradient<T: Real>(
    model: &QModel,
    parameters: &[T],
    rows: &Rows<T>,
    room: &mut Room<T>,
    gradients: &mut [T],
) -> DqnStats {
    let count = model.spec().actions;
    let Room { tape, targets, of_worth, surprises, .. } = room;
    let mean = T::of(rows.mean);
    let mut stats = DqnStats { max_q: f64::NEG_INFINITY, min_q: f64::INFINITY, ..DqnStats::default() };
    let worth = model.forward(parameters, &rows.observed, tape);
    of_worth.clear();
    of_worth.resize(worth.len(), T::ZERO);
    surprises.clear();
    for (row, action) in rows.actions.iter().enumerate() {
        let at = row * count + action;
        let error = worth[at] - targets[row];
        let bounded = error.at_least(-T::ONE).at_most(T::ONE);
        // Half the square up to one, and straight on from there.
        let loss = bounded * (error - T::of(0.5) * bounded);
        of_worth[at] = rows.weights[row] * bounded * mean;
        surprises.push(error.wide() as f32);
        stats.loss += (rows.weights[row] * loss * mean).wide();
        stats.mean_q += (worth[at] * mean).wide();
        stats.surprise += error.wide().abs() * mean.wide();
        stats.max_q = stats.max_q.max(worth[at].wide());
        stats.min_q = stats.min_q.min(worth[at].wide());
    }
    model.backward(parameters, &rows.observed, tape, of_worth, gradients);
    stats
}

#[cfg(test)]
mod tests {
    use super::{Dqn, DqnSettings, Room, Rows, gradient};
    use crate::chance::Chance;
    use crate::nn::{Activation, ImageSpec};
    use crate::q::{QModel, QSpec, QTape};
    use crate::replay::Replay;
    use crate::rollout::Rollout;

    fn rows(chance: &mut Chance, count: usize, observed: usize) -> Rows<f64> {
        let mut normal = |count: usize, by: f64| -> Vec<f64> { (0..count).map(|_| by * chance.normal()).collect() };
        Rows {
            observed: normal(count * observed, 1.0),
            following: normal(count * observed, 1.0),
            actions: (0..count).map(|at| at % 3).collect(),
            rewards: normal(count, 2.0),
            discounts: (0..count).map(|at| if at % 4 == 0 { 0.0 } else { 0.9 }).collect(),
            weights: normal(count, 1.0).into_iter().map(f64::abs).collect(),
            mean: 1.0 / count as f64,
        }
    }

    #[test]
    fn gradients_are_those_of_differences() {
        let picture =
            |filters: &[[usize; 3]], is_padded| ImageSpec::new([4, 3, 2], filters.to_vec(), is_padded).unwrap();
        for (image, hiddens, heads, is_dueling) in [
            (None, vec![5, 4], vec![], false),
            (None, vec![5], vec![4], true),
            (None, vec![], vec![6], true),
            (None, vec![], vec![], true),
            (Some(picture(&[[3, 2, 1], [4, 2, 2]], false)), vec![5], vec![], true),
            (Some(picture(&[[3, 3, 2], [2, 2, 1]], true)), vec![], vec![3], false),
        ] {
            let observed = image.as_ref().map_or(3, ImageSpec::size);
            let spec = QSpec {
                observed,
                actions: 3,
                hiddens,
                activation: Activation::Tanh,
                heads,
                is_dueling,
                image,
                ..QSpec::default()
            };
            let model = QModel::new(spec);
            let mut chance = Chance::seeded(5);
            let mut parameters: Vec<f64> = model.init(&mut chance);
            parameters.iter_mut().for_each(|value| *value += 0.1 * chance.normal());
            let older: Vec<f64> = parameters.iter().map(|value| value + 0.1).collect();
            let rows = rows(&mut chance, 20, observed);
            let mut room = Room::default();
            room.aim(&model, (&parameters, &older), &rows, true);
            let mut gradients = vec![0.0; parameters.len()];
            gradient(&model, &parameters, &rows, &mut room, &mut gradients);
            for at in 0..parameters.len() {
                let before = parameters[at];
                let mut loss = |moved: f64| {
                    parameters[at] = moved;
                    gradient(&model, &parameters, &rows, &mut room, &mut vec![0.0; gradients.len()]).loss
                };
                let difference = (loss(before + 1e-6) - loss(before - 1e-6)) / 2e-6;
                parameters[at] = before;
                let found = gradients[at];
                assert!((found - difference).abs() < 1e-6 * (1.0 + difference.abs()), "{at}: {found} {difference}");
            }
        }
    }

    #[test]
    fn the_learning_networks_choose_and_the_older_ones_value() {
        let spec = QSpec {
            observed: 1,
            actions: 2,
            hiddens: vec![],
            activation: Activation::Linear,
            heads: vec![],
            is_dueling: false,
            ..QSpec::default()
        };
        let model = QModel::new(spec);
        // Worth: weight * observed + bias, two weights and then two biases.
        let (learning, older) = (vec![0.0, 0.0, 5.0, 1.0], vec![0.0, 0.0, 2.0, 9.0]);
        let rows = Rows {
            observed: vec![0.0],
            following: vec![0.0],
            actions: vec![0],
            rewards: vec![1.0],
            discounts: vec![0.5],
            weights: vec![1.0],
            mean: 1.0,
        };
        let mut room = Room { tape: QTape::default(), ..Room::default() };
        room.aim(&model, (&learning, &older), &rows, true);
        assert_eq!(room.targets, [1.0 + 0.5 * 2.0]);
        room.aim(&model, (&learning, &older), &rows, false);
        assert_eq!(room.targets, [1.0 + 0.5 * 9.0]);
    }

    #[test]
    fn threads_find_together_what_one_finds_alone() {
        let mut chance = Chance::seeded(2);
        let mut normal = |count: usize| -> Vec<f32> { (0..count).map(|_| chance.normal() as f32).collect() };
        let rollout = Rollout {
            steps: 100,
            envs: 1,
            observed: normal(200),
            actions: (0..100).map(|at| (at % 3) as f32).collect(),
            rewards: normal(100),
            terminated: (0..100).map(|at| at % 10 == 9).collect(),
            truncated: vec![false; 100],
            open: vec![0.0; 2],
            ..Rollout::default()
        };
        let learned = |threads: usize| {
            let spec = QSpec { observed: 2, actions: 3, hiddens: vec![8], is_dueling: true, ..QSpec::default() };
            let mut learner = Dqn::new(QModel::new(spec), 1e-8, 5);
            let mut replay = Replay::new(100, 2, 1, true);
            replay.add(&rollout, 1, 0.9);
            let settings = DqnSettings {
                rate: 1e-2,
                batch: 96,
                is_double: true,
                gradient_max: Some(1.0),
                alpha: 0.6,
                beta: 0.4,
                threads,
            };
            (learner.update(&mut replay, &settings, 5), learner.parameters().to_vec())
        };
        let (stats, parameters) = learned(1);
        let (shared_stats, shared) = learned(3);
        assert!((stats.loss - shared_stats.loss).abs() < 1e-5 && (stats.gradient - shared_stats.gradient).abs() < 1e-4);
        assert!(parameters.iter().zip(&shared).all(|(one, other)| (one - other).abs() < 1e-4));
    }
}
