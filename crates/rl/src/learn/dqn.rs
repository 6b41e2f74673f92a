//! Q-learning with replay: double, dueling, several steps, the surprising more often.

#[cfg(test)]
mod fixtures;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};

use serde::{Deserialize, Serialize};

use super::team::{with_team, worth_it};
use crate::chance::Chance;
use crate::nn::{Adam, Layout, Real, clip_factor, norm};
use crate::q::{QModel, QTape, best};
use crate::replay::{Drawn, Replay, Row};

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
    /// Threads: a second one values what follows while the first learns. More would not help: parameters that one core has moved
    /// reach the others too slowly.
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
    slots: [Slot; 2],
    rows: Rows<f32>,
    room: Room<f32>,
    gradients: Vec<f32>,
}

/// What one batch is made of, and what is known of what follows it.
#[derive(Default)]
struct Slot {
    drawn: Drawn,
    behind: Behind<f32>,
}

/// The rows of a batch, together.
#[derive(Clone, Debug, Default)]
struct Rows<T> {
    observed: Vec<T>,
    actions: Vec<usize>,
    rewards: Vec<T>,
    discounts: Vec<T>,
    weights: Vec<T>,
}

/// What follows those rows, and what its actions are worth to the older networks.
#[derive(Clone, Debug, Default)]
struct Behind<T> {
    observed: Vec<T>,
    tape: QTape<T>,
}

#[derive(Clone, Debug, Default)]
struct Room<T> {
    tape: QTape<T>,
    /// Which action the learning networks would choose behind each row.
    chosen: Vec<usize>,
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
            slots: Default::default(),
            rows: Rows::default(),
            room: Room::default(),
            gradients: Vec::new(),
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
        let threads = worth_it(settings.threads.min(2), work);
        // Where what is drawn does not depend on what was learned, the second thread is a batch ahead and is never waited for.
        let is_ahead = threads == 2 && !replay.is_prioritised();
        let Self { model, older, adam, chance, rows, room, gradients, .. } = self;
        gradients.resize(self.parameters.len(), 0.0);
        let learning = Mutex::new((rows, room, gradients, adam, DqnStats::default()));
        let parameters = RwLock::new(std::mem::take(&mut self.parameters));
        let replay = RwLock::new(replay);
        let slots = self.slots.each_mut().map(|slot| (RwLock::new(&mut slot.drawn), Mutex::new(&mut slot.behind)));
        let (turn, has_next) = (AtomicUsize::new(0), AtomicBool::new(true));
        let value = |at: usize| {
            let (drawn, behind) = &slots[at];
            let (replay, drawn) = (replay.read().expect("nobody writes"), drawn.read().expect("nobody writes"));
            behind.lock().expect("its own").value(model, older, &replay, &drawn);
        };
        let forward = |at: usize| {
            let (rows, room, ..) = &mut *learning.lock().expect("its own");
            let (replay, drawn) = (replay.read().expect("nobody writes"), slots[at].0.read().expect("nobody writes"));
            let parameters = parameters.read().expect("nobody writes");
            room.forward(model, &parameters, rows, (&replay, &drawn), settings.is_double);
        };
        let descend = |at: usize| {
            let (rows, room, gradients, adam, stats) = &mut *learning.lock().expect("its own");
            let parameters = &mut *parameters.write().expect("nobody reads");
            let behind = slots[at].1.lock().expect("it is done");
            *stats = room.gradient(model, parameters, rows, model.worth(&behind.tape), gradients);
            let length = norm(gradients);
            adam.step_by(parameters, gradients, clip_factor(length, settings.gradient_max), settings.rate);
            stats.gradient = f64::from(length);
        };
        let work = |number: usize| {
            let at = turn.load(Ordering::Relaxed);
            match (number, is_ahead) {
                (0, true) => {
                    forward(at);
                    descend(at);
                }
                (0, false) => forward(at),
                (_, true) if has_next.load(Ordering::Relaxed) => value(1 - at),
                (_, true) => {}
                (_, false) => value(at),
            }
        };
        let mut draw = |at: usize| {
            let drawn = &mut *slots[at].0.write().expect("nobody reads");
            replay.read().expect("nobody writes").draw(settings.batch, settings.beta, chance, drawn);
        };
        with_team(threads, work, |go| {
            if is_ahead && times > 0 {
                draw(0);
                value(0);
            }
            for left in (0..times).rev() {
                let at = turn.load(Ordering::Relaxed);
                if is_ahead {
                    has_next.store(left > 0, Ordering::Relaxed);
                    if left > 0 {
                        draw(1 - at);
                    }
                    go();
                    turn.store(1 - at, Ordering::Relaxed);
                    continue;
                }
                draw(at);
                go();
                if threads == 1 {
                    value(at);
                }
                descend(at);
                let drawn = slots[at].0.read().expect("nobody writes");
                let (_, room, ..) = &*learning.lock().expect("it waits");
                replay.write().expect("nobody reads").set_priorities(&drawn.rows, &room.surprises, settings.alpha);
            }
        });
        let (.., stats) = learning.into_inner().expect("no thread has failed");
        self.parameters = parameters.into_inner().expect("no thread has failed");
        stats
    }
}

/// Takes one column of what was drawn.
fn gather<T: Real>(into: &mut Vec<T>, replay: &Replay, drawn: &Drawn, column: impl Fn(Row<'_>) -> &[f32]) {
    into.clear();
    for row in &drawn.rows {
        into.extend(column(replay.row(*row)).iter().map(|value| T::from_f32(*value)));
    }
}

impl<T: Real> Rows<T> {
    /// Takes what was drawn.
    fn gather(&mut self, replay: &Replay, drawn: &Drawn) {
        gather(&mut self.observed, replay, drawn, |row| row.observed);
        let Self { actions, rewards, discounts, weights, .. } = self;
        [&mut *rewards, discounts, weights].into_iter().for_each(Vec::clear);
        actions.clear();
        for (row, weight) in drawn.rows.iter().zip(&drawn.weights) {
            let row = replay.row(*row);
            actions.push(row.action[0] as usize);
            rewards.push(T::from_f32(row.reward));
            discounts.push(T::from_f32(row.discount));
            weights.push(T::from_f32(*weight));
        }
    }
}

impl<T: Real> Behind<T> {
    /// What the older networks think of what follows the drawn rows.
    fn value(&mut self, model: &QModel, older: &[T], replay: &Replay, drawn: &Drawn) {
        gather(&mut self.observed, replay, drawn, |row| row.following);
        model.forward(older, &self.observed, &mut self.tape);
    }
}

impl<T: Real> Room<T> {
    /// The way forward of the drawn rows and, where the learning networks choose what the older ones value, what they choose behind them.
    fn forward(
        &mut self,
        model: &QModel,
        parameters: &[T],
        rows: &mut Rows<T>,
        (replay, drawn): (&Replay, &Drawn),
        is_double: bool,
    ) {
        self.chosen.clear();
        if is_double {
            gather(&mut self.of_worth, replay, drawn, |row| row.following);
            let worth = model.forward(parameters, &self.of_worth, &mut self.tape);
            self.chosen.extend(worth.chunks_exact(model.spec().actions).map(best));
        }
        rows.gather(replay, drawn);
        model.forward(parameters, &rows.observed, &mut self.tape);
    }

    /// Writes the gradient of the weighted mean of Huber's loss, given what the older networks think of what follows, for the rows of the last way
    /// forward.
    fn gradient(
        &mut self,
        model: &QModel,
        parameters: &[T],
        rows: &Rows<T>,
        valued: &[T],
        gradients: &mut [T],
    ) -> DqnStats {
        let count = model.spec().actions;
        let Self { tape, chosen, of_worth, surprises } = self;
        let mean = T::of(1.0 / rows.actions.len() as f64);
        let mut stats = DqnStats { max_q: f64::NEG_INFINITY, min_q: f64::INFINITY, ..DqnStats::default() };
        let worth = model.worth(tape);
        of_worth.clear();
        of_worth.resize(worth.len(), T::ZERO);
        surprises.clear();
        for (row, action) in rows.actions.iter().enumerate() {
            let valued = &valued[row * count..(row + 1) * count];
            let next = valued[chosen.get(row).copied().unwrap_or_else(|| best(valued))];
            let at = row * count + action;
            let error = worth[at] - (rows.rewards[row] + rows.discounts[row] * next);
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
}

#[cfg(test)]
mod tests {
    use super::{Behind, Dqn, DqnSettings, Room, Rows};
    use crate::chance::Chance;
    use crate::nn::{Activation, ImageSpec};
    use crate::q::{QModel, QSpec, QTape, best};
    use crate::replay::Replay;
    use crate::rollout::Rollout;

    fn rows(chance: &mut Chance, count: usize, observed: usize) -> (Rows<f64>, Behind<f64>) {
        let mut normal = |count: usize, by: f64| -> Vec<f64> { (0..count).map(|_| by * chance.normal()).collect() };
        let rows = Rows {
            observed: normal(count * observed, 1.0),
            actions: (0..count).map(|at| at % 3).collect(),
            rewards: normal(count, 2.0),
            discounts: (0..count).map(|at| if at % 4 == 0 { 0.0 } else { 0.9 }).collect(),
            weights: normal(count, 1.0).into_iter().map(f64::abs).collect(),
        };
        (rows, Behind { observed: normal(count * observed, 1.0), tape: QTape::default() })
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
            let (rows, mut behind) = rows(&mut chance, 20, observed);
            let mut room = Room::default();
            let worth = model.forward(&parameters, &behind.observed, &mut room.tape);
            room.chosen = worth.chunks_exact(3).map(best).collect();
            model.forward(&older, &behind.observed, &mut behind.tape);
            let valued = model.worth(&behind.tape);
            let mut gradients = vec![0.0; parameters.len()];
            model.forward(&parameters, &rows.observed, &mut room.tape);
            room.gradient(&model, &parameters, &rows, valued, &mut gradients);
            for at in 0..parameters.len() {
                let before = parameters[at];
                let mut loss = |moved: f64| {
                    parameters[at] = moved;
                    model.forward(&parameters, &rows.observed, &mut room.tape);
                    room.gradient(&model, &parameters, &rows, valued, &mut vec![0.0; gradients.len()]).loss
                };
                let difference = (loss(before + 1e-6) - loss(before - 1e-6)) / 2e-6;
                parameters[at] = before;
                let found = gradients[at];
                assert!((found - difference).abs() < 1e-6 * (1.0 + difference.abs()), "{at}: {found} {difference}");
            }
        }
    }

    #[test]
    fn targets_are_what_the_older_networks_value() {
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
        let (learning, older) = (vec![0.0_f32, 0.0, 5.0, 1.0], vec![0.0, 0.0, 2.0, 9.0]);
        let rows = Rows {
            observed: vec![0.0],
            actions: vec![0],
            rewards: vec![1.0],
            discounts: vec![0.5],
            weights: vec![1.0],
        };
        let mut room = Room::default();
        let mut aimed = |chosen: Vec<usize>| {
            room.chosen = chosen;
            model.forward(&learning, &rows.observed, &mut room.tape);
            let mut behind = QTape::default();
            let valued = model.forward(&older, &rows.observed, &mut behind);
            room.gradient(&model, &learning, &rows, valued, &mut [0.0; 4]);
            5.0 - room.surprises[0]
        };
        assert_eq!(aimed(vec![0]), 1.0 + 0.5 * 2.0, "the first, which is worth 5 to the learning networks");
        assert_eq!(aimed(vec![]), 1.0 + 0.5 * 9.0, "the second, which is worth 9 to the older ones");
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
        let learned = |threads: usize, is_prioritised: bool, times: &[usize]| {
            let spec = QSpec { observed: 2, actions: 3, hiddens: vec![8], is_dueling: true, ..QSpec::default() };
            let mut learner = Dqn::new(QModel::new(spec), 1e-8, 5);
            let mut replay = Replay::new(100, 2, 1, is_prioritised);
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
            let mut found = Vec::new();
            for times in times {
                found.push(learner.update(&mut replay, &settings, *times));
                learner.follow(0.5);
            }
            (found, learner.parameters().to_vec(), learner.save())
        };
        for is_prioritised in [false, true] {
            for times in [&[5, 4][..], &[1, 2], &[0, 1]] {
                assert_eq!(learned(1, is_prioritised, times), learned(3, is_prioritised, times), "{times:?}");
            }
        }
    }
}
