//! Soft actor-critic: learns from replay to choose what is worth most while staying as undecided as it is told.

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::nn::{Adam, Layout, Real, Tape, clip_by_norm};
use crate::replay::{Drawn, Replay};
use crate::soft::{Actor, ActorTape, Critics, SoftSpec};

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
    actor_gradients: Vec<f32>,
    critic_gradients: Vec<f32>,
    kept: Kept,
    drawn: Drawn,
    rows: Rows<f32>,
    room: Room<f32>,
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
    /// For what is chosen where the rows begin, and where they end.
    noise: [Vec<T>; 2],
}

#[derive(Clone, Debug, Default)]
struct Room<T> {
    actor: ActorTape<T>,
    critics: [Tape<T>; 2],
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
            actor_gradients: vec![0.0; parameters.len()],
            critic_gradients: vec![0.0; values.len()],
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
            rows: Rows::default(),
            room: Room::default(),
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
        let Self { actor, critics, kept, rows, room, .. } = self;
        replay.draw(settings.batch, settings.beta, &mut kept.chance, &mut self.drawn);
        rows.gather(replay, &self.drawn, actor, &mut kept.chance);
        let temperature = settings.temperature.unwrap_or_else(|| kept.log_temperature.exp());

        room.aim(actor, critics, (&self.parameters, &kept.older), rows, temperature);
        self.critic_gradients.fill(0.0);
        let mut stats = critic_gradient(critics, &kept.critics, rows, room, &mut self.critic_gradients);
        stats.critic_gradient = f64::from(clip_by_norm(&mut self.critic_gradients, settings.gradient_max));
        kept.critic_adam.step(&mut kept.critics, &self.critic_gradients, settings.critic_rate);

        self.actor_gradients.fill(0.0);
        let networks = (actor as &Actor, critics as &Critics);
        let parameters = (&self.parameters[..], &kept.critics[..]);
        let found = actor_gradient(networks, parameters, rows, temperature, room, &mut self.actor_gradients);
        (stats.actor_loss, stats.entropy) = found;
        stats.actor_gradient = f64::from(clip_by_norm(&mut self.actor_gradients, settings.gradient_max));
        self.actor_adam.step(&mut self.parameters, &self.actor_gradients, settings.actor_rate);

        stats.temperature = f64::from(temperature);
        if settings.temperature.is_none() {
            let target = settings.target_entropy.unwrap_or_else(|| -(actor.squashed().actions() as f32));
            // More undecided than it should be: colder.
            let above = stats.entropy as f32 - target;
            stats.temperature_loss = f64::from(kept.log_temperature * above);
            let mut logarithm = [kept.log_temperature];
            kept.temperature_adam.step(&mut logarithm, &[above], settings.temperature_rate);
            [kept.log_temperature] = logarithm;
        }
        for (older, parameter) in kept.older.iter_mut().zip(&kept.critics) {
            *older += settings.tau * (parameter - *older);
        }
        replay.set_priorities(&self.drawn.rows, &room.surprises, settings.alpha);
        stats
    }
}

impl<T: Real> Rows<T> {
    fn gather(&mut self, replay: &Replay, drawn: &Drawn, actor: &Actor, chance: &mut Chance) {
        let Self { observed, following, units, rewards, discounts, weights, noise } = self;
        [&mut *observed, following, units, rewards, discounts, weights].into_iter().for_each(Vec::clear);
        for (row, weight) in drawn.rows.iter().zip(&drawn.weights) {
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
    let mean = T::of(1.0 / rows.count() as f64);
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
    let (mean, temperature) = (T::of(1.0 / count as f64), T::from_f32(temperature));
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
        critics.backward_rows(index, (values, pairs), tape, of_worth, of_pairs);
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

#[cfg(test)]
mod tests {
    use super::{Room, Rows, Sac, SacSettings, actor_gradient, critic_gradient};
    use crate::chance::Chance;
    use crate::dist::SdeSpec;
    use crate::nn::Activation;
    use crate::replay::Replay;
    use crate::rollout::Rollout;
    use crate::soft::{Actor, Critics, SoftSpec};

    fn spec(is_twin: bool) -> SoftSpec {
        SoftSpec {
            observed: 3,
            low: vec![-2.0, 0.0],
            high: vec![2.0, 1.0],
            hiddens: vec![5, 4],
            critic_hiddens: vec![6],
            activation: Activation::Tanh,
            is_twin,
            sde: None,
        }
    }

    fn rows(chance: &mut Chance, count: usize) -> Rows<f64> {
        let mut normal = |count: usize, by: f64| -> Vec<f64> { (0..count).map(|_| by * chance.normal()).collect() };
        Rows {
            observed: normal(count * 3, 1.0),
            following: normal(count * 3, 1.0),
            units: normal(count * 2, 1.0).into_iter().map(f64::tanh).collect(),
            rewards: normal(count, 2.0),
            discounts: (0..count).map(|at| if at % 4 == 0 { 0.0 } else { 0.9 }).collect(),
            weights: normal(count, 1.0).into_iter().map(f64::abs).collect(),
            noise: [normal(count * 2, 1.0), normal(count * 2, 1.0)],
        }
    }

    /// Holds gradients to what the loss changes by.
    fn compare(parameters: &mut [f64], gradients: &[f64], mut loss: impl FnMut(&[f64]) -> f64) {
        for at in 0..parameters.len() {
            let before = parameters[at];
            let mut moved = |by: f64| {
                parameters[at] = before + by;
                loss(parameters)
            };
            let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            parameters[at] = before;
            let found = gradients[at];
            assert!((found - difference).abs() < 1e-6 * (1.0 + difference.abs()), "{at}: {found} {difference}");
        }
        assert!(gradients.iter().any(|gradient| gradient.abs() > 1e-3));
    }

    #[test]
    fn gradients_are_those_of_differences() {
        let of_state = Some(SdeSpec { every: None, log_std: -0.5 });
        for (is_twin, sde, hiddens) in [
            (false, None, vec![5, 4]),
            (true, None, vec![5, 4]),
            (true, of_state, vec![5, 4]),
            (true, of_state, vec![]),
        ] {
            let spec = SoftSpec { sde, hiddens, ..spec(is_twin) };
            let (actor, critics) = (Actor::new(&spec), Critics::new(&spec));
            let mut chance = Chance::seeded(5);
            let (mut chooses, mut values): (Vec<f64>, Vec<f64>) = (actor.init(&mut chance), critics.init(&mut chance));
            for value in chooses.iter_mut().chain(&mut values) {
                *value += 0.3 * chance.normal();
            }
            let older: Vec<f64> = values.iter().map(|value| value + 0.1).collect();
            let (rows, mut room) = (rows(&mut chance, 20), Room::default());
            room.aim(&actor, &critics, (&chooses, &older), &rows, 0.3);

            let mut gradients = vec![0.0; values.len()];
            critic_gradient(&critics, &values, &rows, &mut room, &mut gradients);
            compare(&mut values, &gradients, |values| {
                critic_gradient(&critics, values, &rows, &mut room, &mut vec![0.0; values.len()]).critic_loss
            });

            let networks = (&actor, &critics);
            let mut gradients = vec![0.0; chooses.len()];
            actor_gradient(networks, (&chooses, &values), &rows, 0.3, &mut room, &mut gradients);
            compare(&mut chooses, &gradients, |chooses| {
                let mut ignored = vec![0.0; chooses.len()];
                actor_gradient(networks, (chooses, &values), &rows, 0.3, &mut room, &mut ignored).0
            });
        }
    }

    #[test]
    fn targets_are_the_lower_word_less_what_being_decided_costs() {
        let spec = SoftSpec { observed: 1, low: vec![-1.0], high: vec![1.0], hiddens: vec![], ..spec(true) };
        let spec = SoftSpec { critic_hiddens: vec![], ..spec };
        let (actor, critics) = (Actor::new(&spec), Critics::new(&spec));
        // Weights and biases: a mean of 0 and a deviation of 1; critics that say 7 and 5.
        let (chooses, older) = ([0.0_f64; 4], [0.0, 0.0, 7.0, 0.0, 0.0, 5.0]);
        let rows = Rows {
            observed: vec![0.0; 2],
            following: vec![0.0; 2],
            units: vec![0.0; 2],
            rewards: vec![1.0, 2.0],
            discounts: vec![0.5, 0.0],
            weights: vec![1.0; 2],
            noise: [vec![0.0; 2], vec![0.0; 2]],
        };
        let mut room = Room::<f64>::default();
        room.aim(&actor, &critics, (&chooses, &older), &rows, 0.25);
        let logp = -0.918_938_533_204_672_7_f64;
        assert!((room.targets[0] - (1.0 + 0.5 * (5.0 - 0.25 * logp))).abs() < 1e-12);
        assert_eq!(room.targets[1], 2.0, "nothing follows an end");
    }

    fn settings() -> SacSettings {
        SacSettings {
            actor_rate: 1e-3,
            critic_rate: 1e-3,
            temperature_rate: 1e-2,
            batch: 16,
            tau: 0.005,
            temperature: None,
            target_entropy: None,
            gradient_max: None,
            alpha: 0.0,
            beta: 0.0,
        }
    }

    fn replay() -> Replay {
        let mut chance = Chance::seeded(9);
        let mut numbers = |count: usize| -> Vec<f32> { (0..count).map(|_| chance.normal() as f32).collect() };
        let rollout = Rollout {
            steps: 20,
            envs: 1,
            observed: numbers(60),
            actions: numbers(40),
            rewards: numbers(20),
            terminated: vec![false; 20],
            truncated: vec![false; 20],
            open: numbers(3),
            ..Rollout::default()
        };
        let mut replay = Replay::new(100, 3, 2, false);
        replay.add(&rollout, 1, 0.9);
        replay
    }

    #[test]
    fn the_temperature_goes_to_where_the_policy_is_as_undecided_as_it_should_be() {
        for (target, is_colder) in [(-30.0, true), (30.0, false)] {
            let mut sac = Sac::new(&spec(true), 0.5, 1e-8, 1);
            let settings = SacSettings { target_entropy: Some(target), ..settings() };
            let mut replay = replay();
            let begun = sac.update(&mut replay, &settings).temperature;
            let ended = (0..20).map(|_| sac.update(&mut replay, &settings).temperature).last().unwrap();
            assert!((begun - 0.5).abs() < 1e-6);
            assert_eq!(ended < begun, is_colder, "{begun} {ended}");
        }
        let mut sac = Sac::new(&spec(true), 0.5, 1e-8, 1);
        let settings = SacSettings { temperature: Some(0.2), ..settings() };
        let mut replay = replay();
        assert!((0..5).all(|_| sac.update(&mut replay, &settings).temperature == f64::from(0.2_f32)));
    }

    #[test]
    fn what_was_saved_goes_on_bit_for_bit_and_only_where_it_fits() {
        let (mut replay, mut other_replay) = (replay(), replay());
        let mut sac = Sac::new(&spec(true), 1.0, 1e-8, 1);
        (0..3).for_each(|_| _ = sac.update(&mut replay, &settings()));
        let saved = sac.save();
        let mut other = Sac::new(&spec(true), 0.1, 1e-8, 2);
        other.parameters_mut().copy_from_slice(sac.parameters());
        assert!(other.restore(&saved));
        for _ in 0..3 {
            assert_eq!(sac.update(&mut replay, &settings()), other.update(&mut other_replay, &settings()));
        }
        assert_eq!(sac.parameters(), other.parameters());
        let mut unlike = Sac::new(&spec(false), 1.0, 1e-8, 1);
        let before = unlike.save();
        assert!(!unlike.restore(&saved) && !unlike.restore(&saved[..20]));
        assert_eq!(unlike.save(), before);
    }
}
