//! Soft actor-critic: learns from replay to choose what is worth most while staying as undecided as it is told.

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::{Mutex, RwLock};

use serde::{Deserialize, Serialize};

use super::team::{with_team, worth_it};
use crate::chance::Chance;
use crate::nn::{Adam, Layout, Real, clip_by_norm};
use crate::replay::{Drawn, Replay};
use crate::soft::{Actor, ActorTape, CriticTape, Critics, SoftSpec};

/// How it learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SacSettings {
    /// Step size of what chooses.
    pub actor_rate: f32,
    /// Step size of what values.
    pub critic_rate: f32,
    /// Step size of the temperature's logarithm.
    pub temperature_rate: f32,
    /// Rows per step of the optimisers.
    pub batch: usize,
    /// How far the older critics move towards the learning ones with each step.
    pub tau: f32,
    /// What being undecided is worth. Nothing: it is learned.
    pub temperature: Option<f32>,
    /// How undecided the policy should be if the temperature is learned. Nothing: -1 for each number of an action.
    pub target_entropy: Option<f32>,
    /// The most that each gradient may be long.
    pub gradient_max: Option<f32>,
    /// How much surprise counts when rows are drawn.
    pub alpha: f64,
    /// How far that is made up for.
    pub beta: f64,
    /// Threads that share the rows.
    #[serde(default = "one")]
    pub threads: usize,
}

fn one() -> usize {
    1
}

/// What an update found. Means over its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SacStats {
    /// The loss of what chooses.
    pub actor_loss: f64,
    /// The losses of what values, together.
    pub critic_loss: f64,
    /// The loss of the temperature.
    pub temperature_loss: f64,
    /// The temperature that was used.
    pub temperature: f64,
    /// How undecided the policy is.
    pub entropy: f64,
    /// What the actions taken are thought to be worth.
    pub mean_q: f64,
    /// The most of that.
    pub max_q: f64,
    /// The least of that.
    pub min_q: f64,
    /// How far off they were.
    pub surprise: f64,
    /// Length of the gradient of what chooses.
    pub actor_gradient: f64,
    /// Length of the gradient of what values.
    pub critic_gradient: f64,
}

/// Learns from replayed steps.
pub struct Sac {
    actor: Actor,
    critics: Critics,
    /// Of what chooses: all that is needed to act.
    parameters: Vec<f32>,
    actor_adam: Adam,
    kept: Kept,
    drawn: Drawn,
    shares: Vec<Share>,
}

/// Fewer rows than this are not worth another thread.
const ROWS_MIN: usize = 32;

/// What one thread needs for its rows, and what it found.
#[derive(Default)]
struct Share {
    rows: Rows<f32>,
    room: Room<f32>,
    gradients: Vec<f32>,
    stats: SacStats,
}

/// What all threads read of one step.
struct Current {
    parameters: Vec<f32>,
    critics: Vec<f32>,
    older: Vec<f32>,
    /// What values comes first, as what chooses goes by it.
    is_actor_s_turn: bool,
}

/// What the next updates depend on besides what chooses.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    critics: Vec<f32>,
    older: Vec<f32>,
    critic_adam: Adam,
    log_temperature: f32,
    temperature_adam: Adam,
    chance: Chance,
}

/// The rows of a batch, together.
#[derive(Clone, Debug, Default)]
struct Rows<T> {
    observed: Vec<T>,
    following: Vec<T>,
    units: Vec<T>,
    rewards: Vec<T>,
    discounts: Vec<T>,
    weights: Vec<T>,
    /// How much each counts: one by the rows of all threads.
    mean: T,
    /// For what is chosen where the rows begin, and where they end.
    noise: [Vec<T>; 2],
}

#[derive(Clone, Debug, Default)]
struct Room<T> {
    actor: ActorTape<T>,
    critics: [CriticTape<T>; 2],
    pairs: Vec<T>,
    units: Vec<T>,
    logp: Vec<T>,
    targets: Vec<T>,
    of_worth: Vec<T>,
    of_pairs: Vec<T>,
    of_units: Vec<T>,
    of_logp: Vec<T>,
    of_inputs: Vec<T>,
    surprises: Vec<f32>,
}

impl Sac {
    /// A learner whose parameters begin as the seed says. `temperature`: what it is before it is learned.
    #[must_use]
    pub fn new(spec: &SoftSpec, temperature: f32, adam_epsilon: f32, seed: u64) -> Self {
        let mut chance = Chance::seeded(seed);
        let (actor, critics) = (Actor::new(spec), Critics::new(spec));
        let (parameters, values): (Vec<f32>, Vec<f32>) = (actor.init(&mut chance), critics.init(&mut chance));
        Self {
            actor_adam: Adam::new(parameters.len(), adam_epsilon),
            kept: Kept {
                older: values.clone(),
                critic_adam: Adam::new(values.len(), adam_epsilon),
                critics: values,
                log_temperature: temperature.ln(),
                temperature_adam: Adam::new(1, adam_epsilon),
                chance,
            },
            actor,
            critics,
            parameters,
            drawn: Drawn::default(),
            shares: Vec::new(),
        }
    }

    /// The parameters of what chooses as they are.
    #[must_use]
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// Those parameters, to be set.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }

    /// Where those parameters lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        self.actor.layout()
    }

    /// The parameters of what values, and where they lie.
    #[must_use]
    pub fn critics(&self) -> (&[f32], &Layout) {
        (&self.kept.critics, self.critics.layout())
    }

    /// All that its next updates depend on beside the parameters and the buffer: what values choices as well.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        postcard::to_stdvec(&(&self.actor_adam, &self.kept)).expect("plain data")
    }

    /// Goes on from what was saved. False if that is of another learner: then nothing has changed.
    pub fn restore(&mut self, saved: &[u8]) -> bool {
        let Ok((actor_adam, kept)) = postcard::from_bytes::<(Adam, Kept)>(saved) else { return false };
        let values = self.critics.layout().len();
        let fits = actor_adam.fits(self.parameters.len())
            && kept.critics.len() == values
            && kept.older.len() == values
            && kept.critic_adam.fits(values)
            && kept.temperature_adam.fits(1);
        if fits {
            (self.actor_adam, self.kept) = (actor_adam, kept);
        }
        fits
    }

    /// Learns from as many drawn rows as the settings say, and tells the buffer how surprising they were.
    pub fn update(&mut self, replay: &mut Replay, settings: &SacSettings) -> SacStats {
        let Self { actor, critics, kept, drawn, shares, .. } = self;
        replay.draw(settings.batch, settings.beta, &mut kept.chance, drawn);
        let count = drawn.rows.len();
        let work = count * (self.parameters.len() + 2 * kept.critics.len());
        let threads = worth_it(settings.threads, work).min(count.div_ceil(ROWS_MIN)).max(1);
        shares.resize_with(threads, Share::default);
        for (number, share) in shares.iter_mut().enumerate() {
            let part = count * number / threads..count * (number + 1) / threads;
            share.rows.gather(replay, drawn, part, actor, &mut kept.chance);
        }
        let temperature = settings.temperature.unwrap_or_else(|| kept.log_temperature.exp());
        let shares: Vec<Mutex<&mut Share>> = shares.iter_mut().map(Mutex::new).collect();
        let current = RwLock::new(Current {
            parameters: std::mem::take(&mut self.parameters),
            critics: std::mem::take(&mut kept.critics),
            older: std::mem::take(&mut kept.older),
            is_actor_s_turn: false,
        });
        let networks = (&*actor, &*critics);
        let work = |number: usize| {
            let (mut share, current) = (shares[number].lock().expect("its own"), current.read().expect("read only"));
            share.compute(networks, &current, temperature);
        };
        let stats = with_team(threads, work, |go| {
            go();
            let mut first = shares[0].lock().expect("its own");
            shares[1..].iter().for_each(|share| first.add(&share.lock().expect("its own")));
            let mut writing = current.write().expect("no thread has failed");
            first.stats.critic_gradient = f64::from(clip_by_norm(&mut first.gradients, settings.gradient_max));
            kept.critic_adam.step(&mut writing.critics, &first.gradients, settings.critic_rate);
            writing.is_actor_s_turn = true;
            let of_critics = first.stats;
            drop((writing, first));
            go();
            let mut first = shares[0].lock().expect("its own");
            shares[1..].iter().for_each(|share| first.add(&share.lock().expect("its own")));
            let mut writing = current.write().expect("no thread has failed");
            first.stats.actor_gradient = f64::from(clip_by_norm(&mut first.gradients, settings.gradient_max));
            self.actor_adam.step(&mut writing.parameters, &first.gradients, settings.actor_rate);
            let Current { critics, older, .. } = &mut *writing;
            for (older, parameter) in older.iter_mut().zip(critics) {
                *older += settings.tau * (*parameter - *older);
            }
            let SacStats { actor_loss, entropy, actor_gradient, .. } = first.stats;
            SacStats { actor_loss, entropy, actor_gradient, ..of_critics }
        });
        let current = current.into_inner().expect("no thread has failed");
        (self.parameters, kept.critics, kept.older) = (current.parameters, current.critics, current.older);
        let surprises: Vec<f32> = self.shares.iter().flat_map(|share| share.room.surprises.iter().copied()).collect();
        replay.set_priorities(&self.drawn.rows, &surprises, settings.alpha);
        self.warm(stats, temperature, settings)
    }

    /// Moves the temperature, if it is learned, to where the policy is as undecided as it should be.
    fn warm(&mut self, mut stats: SacStats, temperature: f32, settings: &SacSettings) -> SacStats {
        stats.temperature = f64::from(temperature);
        if settings.temperature.is_none() {
            let target = settings.target_entropy.unwrap_or_else(|| -(self.actor.squashed().actions() as f32));
            // More undecided than it should be: colder.
            let above = stats.entropy as f32 - target;
            stats.temperature_loss = f64::from(self.kept.log_temperature * above);
            let logarithm = std::slice::from_mut(&mut self.kept.log_temperature);
            self.kept.temperature_adam.step(logarithm, &[above], settings.temperature_rate);
        }
        stats
    }
}

impl Share {
    /// The gradient of these rows and what was found, for whose turn it is.
    fn compute(&mut self, (actor, critics): (&Actor, &Critics), current: &Current, temperature: f32) {
        let Self { rows, room, gradients, stats } = self;
        gradients.clear();
        if current.is_actor_s_turn {
            gradients.resize(current.parameters.len(), 0.0);
            let parameters = (&current.parameters[..], &current.critics[..]);
            let found = actor_gradient((actor, critics), parameters, rows, temperature, room, gradients);
            *stats = SacStats { actor_loss: found.0, entropy: found.1, ..SacStats::default() };
        } else {
            gradients.resize(current.critics.len(), 0.0);
            room.aim(actor, critics, (&current.parameters, &current.older), rows, temperature);
            *stats = critic_gradient(critics, &current.critics, rows, room, gradients);
        }
    }

    /// Adds another thread's part.
    fn add(&mut self, other: &Self) {
        self.gradients.iter_mut().zip(&other.gradients).for_each(|(sum, part)| *sum += part);
        let (stats, other) = (&mut self.stats, &other.stats);
        stats.actor_loss += other.actor_loss;
        stats.critic_loss += other.critic_loss;
        stats.entropy += other.entropy;
        stats.mean_q += other.mean_q;
        stats.surprise += other.surprise;
        stats.max_q = stats.max_q.max(other.max_q);
        stats.min_q = stats.min_q.min(other.min_q);
    }
}

impl<T: Real> Rows<T> {
    /// Takes a part of what was drawn.
    fn gather(&mut self, replay: &Replay, drawn: &Drawn, part: Range<usize>, actor: &Actor, chance: &mut Chance) {
        let Self { observed, following, units, rewards, discounts, weights, mean, noise } = self;
        *mean = T::of(1.0 / drawn.rows.len() as f64);
        [&mut *observed, following, units, rewards, discounts, weights].into_iter().for_each(Vec::clear);
        for (row, weight) in drawn.rows[part.clone()].iter().zip(&drawn.weights[part]) {
            let row = replay.row(*row);
            observed.extend(row.observed.iter().map(|value| T::from_f32(*value)));
            following.extend(row.following.iter().map(|value| T::from_f32(*value)));
            actor.squashed().shrink(row.action, units);
            rewards.push(T::from_f32(row.reward));
            discounts.push(T::from_f32(row.discount));
            weights.push(T::from_f32(*weight));
        }
        for noise in noise {
            noise.clear();
            noise.extend((0..units.len()).map(|_| T::of(chance.normal())));
        }
    }

    fn count(&self) -> usize {
        self.rewards.len()
    }
}

/// Puts what is seen and what is chosen side by side.
fn pair<T: Real>(observed: &[T], units: &[T], count: usize, pairs: &mut Vec<T>) {
    pairs.clear();
    let (seen, chosen) = (observed.len() / count.max(1), units.len() / count.max(1));
    for row in 0..count {
        pairs.extend_from_slice(&observed[row * seen..(row + 1) * seen]);
        pairs.extend_from_slice(&units[row * chosen..(row + 1) * chosen]);
    }
}

impl<T: Real> Room<T> {
    /// What the choices should have been worth.
    fn aim(
        &mut self,
        actor: &Actor,
        critics: &Critics,
        (parameters, older): (&[T], &[T]),
        rows: &Rows<T>,
        temperature: f32,
    ) {
        let inputs = actor.forward(parameters, &rows.following, &mut self.actor);
        actor.squashed().squash(inputs, &rows.noise[1], &mut self.units, &mut self.logp);
        pair(&rows.following, &self.units, rows.count(), &mut self.pairs);
        let [first, second] = &mut self.critics;
        self.targets.clear();
        self.targets.extend_from_slice(critics.forward(0, older, &self.pairs, first));
        if critics.count() > 1 {
            let others = critics.forward(1, older, &self.pairs, second);
            self.targets.iter_mut().zip(others).for_each(|(worth, other)| *worth = worth.at_most(*other));
        }
        for (row, worth) in self.targets.iter_mut().enumerate() {
            let soft = *worth - T::from_f32(temperature) * self.logp[row];
            *worth = rows.rewards[row] + rows.discounts[row] * soft;
        }
    }
}

/// Adds the gradient of half the weighted mean square by which the critics miss the targets.
fn critic_gradient<T: Real>(
    critics: &Critics,
    parameters: &[T],
    rows: &Rows<T>,
    room: &mut Room<T>,
    gradients: &mut [T],
) -> SacStats {
    let Room { critics: tapes, pairs, targets, of_worth, surprises, .. } = room;
    pair(&rows.observed, &rows.units, rows.count(), pairs);
    let mean = rows.mean;
    let mut stats = SacStats { max_q: f64::NEG_INFINITY, min_q: f64::INFINITY, ..SacStats::default() };
    let share = 1.0 / critics.count() as f64;
    surprises.clear();
    surprises.resize(rows.count(), 0.0);
    for (index, tape) in tapes.iter_mut().enumerate().take(critics.count()) {
        let worth = critics.forward(index, parameters, pairs, tape);
        of_worth.clear();
        for (row, worth) in worth.iter().enumerate() {
            let error = *worth - targets[row];
            of_worth.push(rows.weights[row] * error * mean);
            stats.critic_loss += (T::of(0.5) * rows.weights[row] * error * error * mean).wide();
            stats.mean_q += share * (*worth * mean).wide();
            stats.surprise += share * error.wide().abs() * mean.wide();
            stats.max_q = stats.max_q.max(worth.wide());
            stats.min_q = stats.min_q.min(worth.wide());
            surprises[row] += (share * error.wide().abs()) as f32;
        }
        critics.backward(index, (parameters, pairs), tape, of_worth, gradients);
    }
    stats
}

/// Adds the gradient of the mean of what being decided costs less what the choice is worth. Returns that and how undecided the policy is.
fn actor_gradient<T: Real>(
    (actor, critics): (&Actor, &Critics),
    (parameters, values): (&[T], &[T]),
    rows: &Rows<T>,
    temperature: f32,
    room: &mut Room<T>,
    gradients: &mut [T],
) -> (f64, f64) {
    let count = rows.count();
    let Room { actor: tape, critics: tapes, pairs, units, logp, .. } = room;
    let inputs = actor.forward(parameters, &rows.observed, tape);
    actor.squashed().squash(inputs, &rows.noise[0], units, logp);
    pair(&rows.observed, units, count, pairs);
    let [first, second] = tapes;
    let worth = critics.forward(0, values, pairs, first);
    let others = if critics.count() > 1 { critics.forward(1, values, pairs, second) } else { worth };
    let (mean, temperature) = (rows.mean, T::from_f32(temperature));
    let (mut loss, mut entropy) = (T::ZERO, T::ZERO);
    // Of each row only the critic that says less has a slope.
    let mut of_each = [vec![T::ZERO; count], vec![T::ZERO; count]];
    for row in 0..count {
        let is_first = worth[row] <= others[row];
        of_each[usize::from(!is_first)][row] = -mean;
        loss += mean * (temperature * logp[row] - worth[row].at_most(others[row]));
        entropy -= mean * logp[row];
    }
    let Room { of_pairs, of_units, of_logp, of_inputs, .. } = room;
    of_pairs.clear();
    of_pairs.resize(pairs.len(), T::ZERO);
    for (index, (tape, of_worth)) in tapes.iter_mut().zip(&of_each).enumerate().take(critics.count()) {
        critics.backward_choices(index, (values, pairs), tape, of_worth, of_pairs);
    }
    of_units.clear();
    let (width, chosen) = (pairs.len() / count.max(1), actor.squashed().actions());
    of_pairs.chunks_exact(width).for_each(|row| of_units.extend_from_slice(&row[width - chosen..]));
    of_logp.clear();
    of_logp.resize(count, temperature * mean);
    let inputs = actor.outputs_of(tape);
    actor.squashed().gradient(inputs, &rows.noise[0], units, (of_logp, of_units), of_inputs);
    actor.backward(parameters, &rows.observed, tape, of_inputs, gradients);
    (loss.wide(), entropy.wide())
}
