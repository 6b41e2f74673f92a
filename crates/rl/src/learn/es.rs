//! Evolution strategies (Salimans and others, 2017): parameters are moved towards what has done well around them. It needs no gradient of
//! anything, only what whole episodes brought.
//!
//! What is tried is named by a seed: whoever has the parameters makes it for themselves, so that a trial travels as one number.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::model::Model;
use crate::nn::{Adam, Layout, norm};

/// How it learns. What is left out is as RLlib has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EsSettings {
    /// Step size.
    pub rate: f32,
    /// How far from the parameters is tried: the deviation of each.
    pub noise: f32,
    /// How much parameters are drawn towards zero.
    pub decay: f32,
}

impl Default for EsSettings {
    fn default() -> Self {
        Self { rate: 0.01, noise: 0.02, decay: 0.005 }
    }
}

/// What became of a pair: noise added to the parameters, and the same noise taken off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// What the noise was made from.
    pub seed: u64,
    /// All rewards of an episode, of the one and of the other.
    pub returns: [f64; 2],
    /// Steps of those episodes.
    pub lengths: [u32; 2],
}

/// What an update found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EsStats {
    /// Mean of all returns.
    pub mean: f64,
    /// The most.
    pub max: f64,
    /// The least.
    pub min: f64,
    /// Mean length of the episodes.
    pub length: f64,
    /// Steps of all episodes.
    pub steps: u64,
    /// Episodes.
    pub episodes: usize,
    /// Length of the gradient.
    pub gradient: f64,
    /// Length of the parameters that are learned.
    pub weights: f64,
    /// How far they were moved, as a share of that.
    pub moved: f64,
}

/// Learns from returns.
pub struct Es {
    model: Model,
    parameters: Vec<f32>,
    adam: Adam,
    chance: Chance,
}

impl Es {
    /// A learner whose parameters begin as the seed says.
    #[must_use]
    pub fn new(model: Model, seed: u64) -> Self {
        let mut chance = Chance::seeded(seed);
        let parameters: Vec<f32> = model.init(&mut chance);
        Self { adam: Adam::new(parameters.len(), 1e-8), model, parameters, chance }
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
        self.model.layout()
    }

    /// All that its next updates depend on beside the parameters.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        postcard::to_stdvec(&(&self.adam, &self.chance)).expect("plain data")
    }

    /// Goes on from what was saved. False if that is of another learner: then nothing has changed.
    pub fn restore(&mut self, saved: &[u8]) -> bool {
        let Ok((adam, chance)) = postcard::from_bytes::<(Adam, Chance)>(saved) else { return false };
        let fits = adam.fits(self.parameters.len());
        if fits {
            (self.adam, self.chance) = (adam, chance);
        }
        fits
    }

    /// Seeds of so many pairs to try.
    pub fn ask(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.chance.bits()).collect()
    }

    /// One of a pair: the parameters with the noise of this seed added, or, as the other, taken off.
    #[must_use]
    pub fn candidate(&self, seed: u64, is_other: bool, settings: &EsSettings) -> Vec<f32> {
        let mut parameters = self.parameters.clone();
        perturb(self.layout(), &mut parameters, seed, if is_other { -settings.noise } else { settings.noise });
        parameters
    }

    /// Learns what became of pairs. They need not be all that were asked for, but must have been tried around the parameters as they are.
    pub fn tell(&mut self, trials: &[Trial], settings: &EsSettings) -> EsStats {
        let returns: Vec<f64> = trials.iter().flat_map(|trial| trial.returns).collect();
        let episodes = returns.len();
        if episodes == 0 {
            return EsStats::default();
        }
        let steps = trials.iter().flat_map(|trial| trial.lengths).map(u64::from).sum();
        let mut gradients = vec![0.0; self.parameters.len()];
        for (trial, ranks) in trials.iter().zip(centred_ranks(&returns).as_chunks::<2>().0) {
            // What was better is moved to, and a gradient is moved against.
            let weight = (ranks[1] - ranks[0]) / episodes as f64;
            perturb(self.model.layout(), &mut gradients, trial.seed, weight as f32);
        }
        for range in learned(self.model.layout()) {
            for (gradient, parameter) in gradients[range.clone()].iter_mut().zip(&self.parameters[range]) {
                *gradient += settings.decay * parameter;
            }
        }
        let before = self.parameters.clone();
        self.adam.step(&mut self.parameters, &gradients, settings.rate);
        let moved: Vec<f32> = self.parameters.iter().zip(&before).map(|(now, before)| now - before).collect();
        let weights: Vec<f32> = learned(self.model.layout()).flat_map(|range| before[range].to_vec()).collect();
        EsStats {
            mean: returns.iter().sum::<f64>() / episodes as f64,
            max: returns.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            min: returns.iter().copied().fold(f64::INFINITY, f64::min),
            length: steps as f64 / episodes as f64,
            steps,
            episodes,
            gradient: f64::from(norm(&gradients)),
            weights: f64::from(norm(&weights)),
            moved: f64::from(norm(&moved) / norm(&weights).max(f32::MIN_POSITIVE)),
        }
    }
}

/// The parameters that decide what is done. What values states takes no part.
fn learned(layout: &Layout) -> impl Iterator<Item = Range<usize>> {
    layout.tensors().iter().filter(|tensor| !tensor.name.starts_with("vf.")).map(crate::nn::Tensor::range)
}

/// Adds so many times the noise of a seed to the parameters that are learned.
pub fn perturb(layout: &Layout, parameters: &mut [f32], seed: u64, times: f32) {
    let mut chance = Chance::seeded(seed);
    for range in learned(layout) {
        parameters[range].iter_mut().for_each(|parameter| *parameter += times * chance.normal() as f32);
    }
}

/// Places in order, from -0.5 for the least to 0.5 for the most. Equals share their places, so that no order among them is learned.
fn centred_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let mut ranks = vec![0.0; values.len()];
    let last = (values.len() - 1).max(1) as f64;
    let mut place = 0;
    for equals in order.chunk_by(|one, other| values[*one] == values[*other]) {
        let middle = place as f64 + (equals.len() - 1) as f64 / 2.0;
        equals.iter().for_each(|at| ranks[*at] = middle / last - 0.5);
        place += equals.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::{Es, EsSettings, Trial, centred_ranks, learned};
    use crate::model::{Model, ModelSpec};
    use crate::nn::Activation;
    use crate::space::Acted;

    fn learner(hiddens: Vec<usize>, seed: u64) -> Es {
        let acted = Acted::Box { low: vec![-1.0; 2], high: vec![1.0; 2] };
        let spec = ModelSpec {
            observed: 3,
            acted,
            hiddens,
            activation: Activation::Tanh,
            is_shared: false,
            free_log_std: true,
            ..ModelSpec::default()
        };
        Es::new(Model::new(spec), seed)
    }

    fn tried(es: &mut Es, count: usize, settings: &EsSettings, worth: impl Fn(&[f32]) -> f64) -> Vec<Trial> {
        let seeds = es.ask(count);
        let trial = |seed: u64| {
            let returns = [false, true].map(|is_other| worth(&es.candidate(seed, is_other, settings)));
            Trial { seed, returns, lengths: [2, 4] }
        };
        seeds.into_iter().map(trial).collect()
    }

    #[test]
    fn ranks_are_centred_and_equals_share_theirs() {
        assert_eq!(centred_ranks(&[3.0, -1.0, 10.0]), [0.0, -0.5, 0.5]);
        assert_eq!(centred_ranks(&[2.0, 7.0, 2.0, 1.0, 7.0]), [-0.125, 0.375, -0.125, -0.5, 0.375]);
        assert_eq!(centred_ranks(&[4.0; 4]), [0.0; 4]);
        assert_eq!(centred_ranks(&[1.0]), [-0.5]);
    }

    #[test]
    fn pairs_are_mirrored_and_leave_values_alone() {
        let mut es = learner(vec![4], 1);
        let settings = EsSettings { noise: 0.5, ..EsSettings::default() };
        let seeds = es.ask(20);
        let learned: Vec<usize> = learned(es.layout()).flatten().collect();
        assert!(learned.len() < es.parameters().len());
        let (mut sum, mut squares) = (0.0, 0.0);
        for seed in &seeds {
            let pair = [false, true].map(|is_other| es.candidate(*seed, is_other, &settings));
            for (at, parameter) in es.parameters().iter().enumerate() {
                let noise = pair[0][at] - parameter;
                assert!((noise + pair[1][at] - parameter).abs() < 1e-6);
                assert_eq!(noise != 0.0, learned.contains(&at), "{at}");
                sum += f64::from(noise);
                squares += f64::from(noise * noise);
            }
        }
        let count = (seeds.len() * learned.len()) as f64;
        assert!((sum / count).abs() < 0.06 && ((squares / count).sqrt() - 0.5).abs() < 0.06, "{sum} {squares} {count}");
    }

    /// The gradient by its definition, for one pair: Adam's first step goes against its signs.
    #[test]
    fn the_better_of_a_pair_is_moved_towards() {
        for better in [0, 1] {
            let mut es = learner(vec![], 3);
            let settings = EsSettings { rate: 0.01, noise: 0.1, decay: 0.0 };
            let seed = es.ask(1)[0];
            let (before, candidate) = (es.parameters().to_vec(), es.candidate(seed, better == 1, &settings));
            let returns = if better == 0 { [5.0, 1.0] } else { [1.0, 5.0] };
            es.tell(&[Trial { seed, returns, lengths: [1, 1] }], &settings);
            for at in learned(es.layout()).flatten() {
                let (moved, towards) = (es.parameters()[at] - before[at], candidate[at] - before[at]);
                assert!(moved * towards > 0.0 && (moved.abs() - 0.01).abs() < 1e-3, "{at}: {moved} {towards}");
            }
        }
    }

    #[test]
    fn equal_returns_move_nothing_and_decay_draws_towards_zero() {
        let mut es = learner(vec![4], 3);
        let before = es.parameters().to_vec();
        let plain = EsSettings { decay: 0.0, ..EsSettings::default() };
        let trials = tried(&mut es, 8, &plain, |_| 1.0);
        es.tell(&trials, &plain);
        assert_eq!(es.parameters(), before);
        let stats = es.tell(&trials, &EsSettings { rate: 1e-4, decay: 0.5, ..EsSettings::default() });
        assert_eq!((stats.steps, stats.length, stats.episodes, stats.mean), (48, 3.0, 16, 1.0));
        let learned: Vec<usize> = learned(es.layout()).flatten().collect();
        for (at, (now, before)) in es.parameters().iter().zip(&before).enumerate() {
            let is_drawn = learned.contains(&at) && *before != 0.0;
            assert_eq!(now.abs() < before.abs(), is_drawn, "{at}: {now} {before}");
        }
    }

    #[test]
    fn a_hill_is_climbed() {
        let settings = EsSettings { rate: 0.02, noise: 0.05, decay: 0.0 };
        let mut es = learner(vec![], 5);
        let learned: Vec<usize> = learned(es.layout()).flatten().collect();
        let depth = |parameters: &[f32]| -> f64 {
            learned.iter().map(|at| (f64::from(parameters[*at]) - (at % 3) as f64 * 0.2).powi(2)).sum()
        };
        let before = depth(es.parameters());
        for _ in 0..150 {
            let trials = tried(&mut es, 20, &settings, |parameters| -depth(parameters));
            es.tell(&trials, &settings);
        }
        let after = depth(es.parameters());
        assert!(after < 0.05 * before, "{before} {after}");
    }

    #[test]
    fn what_was_saved_goes_on_as_it_would_have() {
        let settings = EsSettings::default();
        let worth = |parameters: &[f32]| f64::from(parameters[0]);
        let step = |es: &mut Es| {
            let trials = tried(es, 4, &settings, worth);
            es.tell(&trials, &settings);
        };
        let mut first = learner(vec![4], 1);
        step(&mut first);
        let mut second = learner(vec![4], 2);
        second.parameters_mut().copy_from_slice(first.parameters());
        assert!(second.restore(&first.save()));
        step(&mut first);
        step(&mut second);
        assert_eq!(first.parameters(), second.parameters());
        assert!(!learner(vec![5], 1).restore(&first.save()));
    }
}
