//! Proximal policy optimisation for networks that remember: minibatches of sequences instead of rows.
//!
//! A rollout is cut into sequences of as many steps as gradients flow back over. Each begins with what the policy remembered there; where an episode
//! begins within a sequence the memory is empty again, so that sequences need no padding.

#[cfg(test)]
mod fixtures;

use std::collections::BTreeMap;

use super::descent::{explained, shuffle};
use super::loss::Loss;
use super::ppo::{Clipped, PpoSettings, PpoStats};
use crate::advantage::generalised;
use crate::chance::Chance;
use crate::dist::Terms;
use crate::nn::{Adam, Layout, Real, clip_by_norm};
use crate::recurrent::{RecurrentNet, RecurrentTape, Steps};
use crate::rollout::Rollout;

/// Learns from rollouts of a policy that remembers.
pub struct RecurrentPpo {
    net: RecurrentNet,
    parameters: Vec<f32>,
    adam: Adam,
    kl_weight: f32,
    chance: Chance,
    gradients: Vec<f32>,
    batch: Batch<f32>,
    room: Room<f32>,
}

/// Where a sequence lies: which rollout, which part of it, which environment.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    rollout: usize,
    part: usize,
    env: usize,
}

/// Sequences of one length side by side, by step first.
#[derive(Clone, Debug, Default)]
struct Batch<T> {
    states: Vec<T>,
    begins: Vec<bool>,
    observed: Vec<T>,
    actions: Vec<f32>,
    inputs: Vec<T>,
    logp: Vec<T>,
    advantages: Vec<T>,
    targets: Vec<T>,
}

#[derive(Clone, Debug, Default)]
struct Room<T> {
    tape: RecurrentTape<T>,
    of_inputs: Vec<T>,
    of_values: Vec<T>,
}

/// Advantages and targets of a rollout's rows.
struct Found {
    advantages: Vec<f32>,
    targets: Vec<f32>,
}

impl RecurrentPpo {
    /// A learner whose parameters begin as the seed says.
    #[must_use]
    pub fn new(net: RecurrentNet, kl_weight: f32, adam_epsilon: f32, seed: u64) -> Self {
        let mut chance = Chance::seeded(seed);
        let parameters: Vec<f32> = net.init(&mut chance);
        Self {
            adam: Adam::new(parameters.len(), adam_epsilon),
            gradients: vec![0.0; parameters.len()],
            net,
            parameters,
            kl_weight,
            chance,
            batch: Batch::default(),
            room: Room::default(),
        }
    }

    /// The parameters as they are.
    #[must_use]
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// The parameters, to be set.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }

    /// Where the parameters lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        self.net.layout()
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

    /// Learns from these rollouts. A minibatch is as many whole sequences as have about as many rows as the settings say; the settings' threads do
    /// not count, and advantages are scaled over the whole batch.
    pub fn update(&mut self, rollouts: &[&Rollout], settings: &PpoSettings) -> PpoStats {
        let length = self.net.spec().steps_max.max(1);
        let mut found: Vec<Found> = rollouts
            .iter()
            .map(|rollout| {
                let found = generalised(rollout, settings.gamma, settings.lambda);
                Found { advantages: found.advantages, targets: found.targets }
            })
            .collect();
        let rows: usize = found.iter().map(|found| found.advantages.len()).sum();
        let values: Vec<f32> = rollouts.iter().flat_map(|rollout| rollout.values.iter().copied()).collect();
        let targets: Vec<f32> = found.iter().flat_map(|found| found.targets.iter().copied()).collect();
        let mut stats = PpoStats { rows, explained: explained(&values, &targets), ..PpoStats::default() };
        if rows == 0 {
            return stats;
        }
        scale(&mut found);
        let mut by_length: BTreeMap<usize, Vec<Sequence>> = BTreeMap::new();
        for (index, rollout) in rollouts.iter().enumerate() {
            for part in 0..rollout.steps.div_ceil(length) {
                let steps = length.min(rollout.steps - part * length);
                let sequences = (0..rollout.envs).map(|env| Sequence { rollout: index, part, env });
                by_length.entry(steps).or_default().extend(sequences);
            }
        }
        let kl_weight = if settings.uses_kl { self.kl_weight } else { 0.0 };
        let loss = Clipped { settings, kl_weight };
        for epoch in 0..settings.epochs {
            let mut batches: Vec<(usize, Vec<Sequence>)> = Vec::new();
            for (steps, sequences) in &mut by_length {
                shuffle(sequences, &mut self.chance);
                let together = (settings.minibatch / steps).max(1);
                batches.extend(sequences.chunks(together).map(|sequences| (*steps, sequences.to_vec())));
            }
            shuffle(&mut batches, &mut self.chance);
            for (steps, sequences) in &batches {
                self.batch.gather(&self.net, rollouts, &found, *steps, sequences);
                self.gradients.fill(0.0);
                let (net, batch, room) = (&self.net, &self.batch, &mut self.room);
                let sums = gradient(net, &self.parameters, batch, &loss, room, &mut self.gradients);
                let norm = clip_by_norm(&mut self.gradients, settings.gradient_max);
                self.adam.step(&mut self.parameters, &self.gradients, settings.rate);
                if epoch + 1 == settings.epochs {
                    let share = (steps * sequences.len()) as f64 / rows as f64;
                    stats.loss += share * sums.loss;
                    stats.policy_loss += share * sums.policy_loss;
                    stats.value_loss += share * sums.value_loss;
                    stats.entropy += share * sums.entropy;
                    stats.kl += share * sums.kl;
                    stats.gradient += share * f64::from(norm);
                }
            }
        }
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

impl<T: Real> Batch<T> {
    fn gather(
        &mut self,
        net: &RecurrentNet,
        rollouts: &[&Rollout],
        found: &[Found],
        steps: usize,
        sequences: &[Sequence],
    ) {
        let (size, state, length) = (net.spec().observed, net.state(), net.spec().steps_max.max(1));
        let (width, acted) = (net.dist().inputs(), net.dist().actions());
        let Self { states, begins, observed, actions, inputs, logp, advantages, targets } = self;
        [&mut *states, observed, inputs, logp, advantages, targets].into_iter().for_each(Vec::clear);
        begins.clear();
        actions.clear();
        let put = |into: &mut Vec<T>, from: &[f32], row: usize, size: usize| {
            into.extend(from[row * size..(row + 1) * size].iter().map(|value| T::from_f32(*value)));
        };
        for Sequence { rollout, part, env } in sequences {
            let rollout = rollouts[*rollout];
            put(states, &rollout.states, part * rollout.envs + env, state);
        }
        for step in 0..steps {
            for Sequence { rollout: index, part, env } in sequences {
                let (rollout, found) = (rollouts[*index], &found[*index]);
                let row = (part * length + step) * rollout.envs + env;
                let before = row.checked_sub(rollout.envs);
                begins.push(before.is_some_and(|before| rollout.terminated[before] || rollout.truncated[before]));
                put(observed, &rollout.observed, row, size);
                actions.extend_from_slice(&rollout.actions[row * acted..(row + 1) * acted]);
                put(inputs, &rollout.inputs, row, width);
                put(logp, &rollout.logp, row, 1);
                put(advantages, &found.advantages, row, 1);
                put(targets, &found.targets, row, 1);
            }
        }
    }
}

/// Adds the gradient of the mean of PPO's loss over the batch's rows, and returns the means.
fn gradient<T: Real>(
    net: &RecurrentNet,
    parameters: &[T],
    batch: &Batch<T>,
    loss: &Clipped<'_>,
    room: &mut Room<T>,
    gradients: &mut [T],
) -> PpoStats {
    let (dist, rows) = (net.dist(), batch.logp.len());
    let (width, acted) = (dist.inputs(), dist.actions());
    let (mean, weights) = (T::of(1.0 / rows as f64), loss.weights());
    let (entropy_weight, kl_weight) = (T::from_f32(weights.entropy), T::from_f32(weights.kl));
    let value_weight = T::from_f32(weights.value);
    let steps = Steps { observed: &batch.observed, states: &batch.states, begins: &batch.begins };
    let Room { tape, of_inputs, of_values } = room;
    net.forward(parameters, steps, tape);
    of_inputs.resize(rows * width, T::ZERO);
    of_values.clear();
    let mut stats = PpoStats::default();
    for row in 0..rows {
        let span = row * width..(row + 1) * width;
        let (inputs, older) = (&net.inputs_of(tape)[span.clone()], &batch.inputs[span.clone()]);
        let action = &batch.actions[row * acted..(row + 1) * acted];
        let terms = dist.terms(inputs, action, older);
        let (lost, slope) = loss.choice(terms.logp, batch.logp[row], batch.advantages[row]);
        let by = Terms { logp: slope * mean, entropy: -entropy_weight * mean, kl: kl_weight * mean };
        dist.gradient(inputs, action, older, by, &mut of_inputs[span]);
        let error = net.values_of(tape)[row] - batch.targets[row];
        let (square, slope) = loss.value(error);
        of_values.push(value_weight * slope * mean);
        stats.policy_loss += (mean * lost).wide();
        stats.entropy += (mean * terms.entropy).wide();
        stats.kl += (mean * terms.kl).wide();
        stats.value_loss += (mean * square).wide();
    }
    net.backward(parameters, steps, tape, (of_inputs, of_values), gradients);
    stats.loss = stats.policy_loss + value_weight.wide() * stats.value_loss - entropy_weight.wide() * stats.entropy
        + kl_weight.wide() * stats.kl;
    stats
}

/// Brings advantages to mean zero and deviation one, over all rows.
fn scale(found: &mut [Found]) {
    let count = found.iter().map(|found| found.advantages.len()).sum::<usize>() as f64;
    let sum = |of: &dyn Fn(f64) -> f64| {
        found.iter().flat_map(|found| &found.advantages).map(|value| of(f64::from(*value))).sum::<f64>()
    };
    let mean = sum(&|value| value) / count;
    let deviation = (sum(&|value| (value - mean).powi(2)) / count).sqrt();
    for value in found.iter_mut().flat_map(|found| &mut found.advantages) {
        *value = ((f64::from(*value) - mean) / (deviation + 1e-8)) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Clipped, Found, RecurrentPpo, Room, Sequence, gradient};
    use crate::chance::Chance;
    use crate::env::{Config, Setting, Stepped, Vector, make};
    use crate::learn::ppo::PpoSettings;
    use crate::nn::Activation;
    use crate::policy::{Choice, Policy};
    use crate::recurrent::{RecurrentNet, RecurrentPolicy, RecurrentSpec};
    use crate::rollout::{Rollout, Runner};
    use crate::space::Acted;

    const ENVS: usize = 3;
    const LENGTH: usize = 4;

    fn settings() -> PpoSettings {
        PpoSettings {
            gamma: 0.9,
            lambda: 0.95,
            rate: 1e-3,
            epochs: 2,
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

    fn net() -> RecurrentNet {
        RecurrentNet::new(RecurrentSpec {
            observed: 3,
            acted: Acted::Box { low: vec![-2.0], high: vec![2.0] },
            hiddens: vec![4],
            activation: Activation::Tanh,
            cells: 3,
            steps_max: LENGTH,
            free_log_std: true,
            image: None,
        })
    }

    fn runner() -> (Runner, Box<dyn Vector>) {
        // Episodes end within sequences.
        let config: Config = [("max_episode_steps".to_owned(), Setting::Whole(7))].into();
        let mut vector = make("Pendulum-v1", ENVS, &config).expect("it is known");
        let mut observed = vec![0.0; 3 * ENVS];
        vector.reset(Some(3), &mut observed);
        let mut runner = Runner::new(Box::new(RecurrentPolicy::new(net())), ENVS, 2);
        runner.see(&observed);
        (runner, vector)
    }

    fn run(runner: &mut Runner, vector: &mut dyn Vector, steps: usize) -> Rollout {
        runner.run(vector, steps, Choice::Drawn, &mut Stepped::default());
        runner.take()
    }

    /// All sequences of this length of the rollout.
    fn batch(rollout: &Rollout, steps: usize) -> (Batch<f64>, Vec<usize>) {
        let parts =
            (0..rollout.steps.div_ceil(LENGTH)).filter(|part| LENGTH.min(rollout.steps - part * LENGTH) == steps);
        let sequences: Vec<Sequence> =
            parts.flat_map(|part| (0..ENVS).map(move |env| Sequence { rollout: 0, part, env })).collect();
        let rows = rollout.rewards.len();
        let mut chance = Chance::seeded(5);
        let mut normal = || (0..rows).map(|_| chance.normal() as f32).collect();
        let found = [Found { advantages: normal(), targets: normal() }];
        let mut batch = Batch::default();
        batch.gather(&net(), &[rollout], &found, steps, &sequences);
        let rows = (0..steps).flat_map(|step| {
            sequences.iter().map(move |sequence| (sequence.part * LENGTH + step) * ENVS + sequence.env)
        });
        (batch, rows.collect())
    }

    /// Second rollouts begin in the middle of episodes.
    #[test]
    fn a_learner_computes_from_sequences_what_the_runner_did_step_by_step() {
        let (mut runner, mut vector) = runner();
        for steps in [11, 10] {
            let rollout = run(&mut runner, &mut *vector, steps);
            assert_eq!(rollout.states.len(), rollout.steps.div_ceil(LENGTH) * ENVS * net().state());
            let parameters: Vec<f64> = runner.parameters_mut().iter().map(|value| f64::from(*value)).collect();
            for length in [LENGTH, steps % LENGTH] {
                let ((batch, rows), mut room) = (batch(&rollout, length), Room::default());
                assert_eq!(rows.len(), batch.logp.len());
                let mut ignored = vec![0.0; parameters.len()];
                gradient(
                    &net(),
                    &parameters,
                    &batch,
                    &Clipped { settings: &settings(), kl_weight: 0.0 },
                    &mut room,
                    &mut ignored,
                );
                for (at, row) in rows.into_iter().enumerate() {
                    let (inputs, values) = (net().inputs_of(&room.tape)[2 * at], net().values_of(&room.tape)[at]);
                    assert!((inputs - f64::from(rollout.inputs[2 * row])).abs() < 1e-5);
                    assert!((values - f64::from(rollout.values[row])).abs() < 1e-5);
                }
            }
        }
    }

    /// What is behind a cut episode, or the rollout, is valued by what was remembered there: as the next step would have been.
    #[test]
    fn what_follows_is_valued_with_the_memory_of_its_episode() {
        let (mut runner, mut vector) = runner();
        run(&mut runner, &mut *vector, 5);
        let saved = (runner.save(), vector.save());
        let short = run(&mut runner, &mut *vector, 1);
        assert!(runner.restore(&saved.0));
        vector.restore(&saved.1).expect("its own");
        let long = run(&mut runner, &mut *vector, 2);
        assert_eq!(short.following, long.values[ENVS..], "no episode has ended");
        // The seventh step ends all episodes.
        assert_eq!(long.cut.len(), ENVS);
        let mut policy = RecurrentPolicy::new(net());
        let parameters = runner.parameters_mut().to_vec();
        let empty = policy.values(&parameters, &long.last).expect("it knows");
        assert!(empty.iter().zip(&long.following[ENVS..]).all(|(empty, found)| empty != found));
    }

    #[test]
    fn gradients_are_those_of_differences() {
        let (mut runner, mut vector) = runner();
        let rollout = run(&mut runner, &mut *vector, 2 * LENGTH);
        let mut chance = Chance::seeded(1);
        let mut parameters: Vec<f64> =
            runner.parameters_mut().iter().map(|value| f64::from(*value) + 0.1 * chance.normal()).collect();
        let ((batch, _), mut room) = (batch(&rollout, LENGTH), Room::default());
        let mut loss = |parameters: &[f64], into: &mut [f64]| {
            gradient(&net(), parameters, &batch, &Clipped { settings: &settings(), kl_weight: 0.3 }, &mut room, into)
                .loss
        };
        let mut gradients = vec![0.0; parameters.len()];
        loss(&parameters, &mut gradients);
        for at in 0..parameters.len() {
            let before = parameters[at];
            let mut moved = |by: f64| {
                parameters[at] = before + by;
                loss(&parameters, &mut vec![0.0; gradients.len()])
            };
            let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            parameters[at] = before;
            let found = gradients[at];
            assert!((found - difference).abs() < 1e-6 * (1.0 + difference.abs()), "{at}: {found} {difference}");
        }
    }

    #[test]
    fn what_was_saved_goes_on_bit_for_bit() {
        let (mut runner, mut vector) = runner();
        let rollout = run(&mut runner, &mut *vector, 10);
        let mut learner = RecurrentPpo::new(net(), 0.2, 1e-8, 1);
        learner.update(&[&rollout], &settings());
        let mut other = RecurrentPpo::new(net(), 0.7, 1e-8, 2);
        other.parameters_mut().copy_from_slice(learner.parameters());
        assert!(other.restore(&learner.save()) && !other.restore(&learner.save()[..9]));
        assert_eq!(learner.update(&[&rollout], &settings()), other.update(&[&rollout], &settings()));
        assert_eq!(learner.parameters(), other.parameters());
    }
}
