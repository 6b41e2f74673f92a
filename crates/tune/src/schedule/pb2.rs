//! Population based bandits: which parameters a trial goes on with, within bounds, by what has raised scores fastest so far.
//!
//! The model is a Gaussian process over (time, score before, parameters) that predicts the gain per unit of time; the point with the highest upper
//! confidence bound is taken. Points that were proposed but have not reported yet make their neighbourhood look known, so that several trials
//! that go on at once spread out.
//!
//! - **PB2-1** what is proposed lies within the bounds.
//! - **PB2-2** it depends on what was observed, on the seed and on the exploit's number alone.

use serde::{Deserialize, Serialize};

use super::Trial;
use super::chance::Chance;
use super::gp::{Gp, Kernel};

/// More points than this make the model slow and hardly better: the newest count.
const SAMPLES_MAX: usize = 200;
/// Fewer points than this say nothing.
const SAMPLES_MIN: usize = 2;

/// The model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pb2 {
    bounds: Vec<(f64, f64)>,
    seed: u64,
    samples: Vec<Sample>,
    /// The last that is known of each trial.
    trials: Vec<Option<Point>>,
    /// Proposed since the newest time was observed.
    pending: Vec<Vec<f64>>,
    newest: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Point {
    t: f64,
    score: f64,
    /// Within the bounds, each as 0 to 1.
    at: Vec<f64>,
}

/// What a stretch of training with some parameters gained.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sample {
    t: f64,
    before: f64,
    at: Vec<f64>,
    gain: f64,
}

impl Pb2 {
    /// A model that has seen nothing. Bounds are (low, high), in the order of the parameters.
    pub fn new(bounds: Vec<(f64, f64)>, seed: u64) -> Self {
        let samples = Vec::new();
        Self { bounds, seed, samples, trials: Vec::new(), pending: Vec::new(), newest: f64::NEG_INFINITY }
    }

    /// A trial with these parameters has this score, of which more is better, at this time.
    pub fn observe(&mut self, trial: Trial, t: f64, values: &[f64], score: f64) {
        let at = self.normalised(values);
        let number = trial as usize;
        if self.trials.len() <= number {
            self.trials.resize(number + 1, None);
        }
        if t > self.newest {
            self.newest = t;
            self.pending.clear();
        }
        let is_usable = score.is_finite() && at.iter().all(|value| value.is_finite());
        let point = is_usable.then_some(Point { t, score, at });
        let last = std::mem::replace(&mut self.trials[number], point);
        let (Some(last), Some(now)) = (last, &self.trials[number]) else { return };
        let is_same = last.at.iter().zip(&now.at).all(|(a, b)| (a - b).abs() < 1e-9);
        if is_same && t > last.t {
            let gain = (score - last.score) / (t - last.t);
            self.samples.push(Sample { t, before: last.score, at: last.at, gain });
            let surplus = self.samples.len().saturating_sub(SAMPLES_MAX);
            self.samples.drain(..surplus);
        }
    }

    /// New parameters for a trial that goes on from `donor`. What becomes of them is said by `accepted`.
    pub fn propose(&self, donor: Trial, draw: u64) -> Vec<f64> {
        let mut chance = Chance::keyed(self.seed, draw);
        let at = match self.trials.get(donor as usize).and_then(Option::as_ref) {
            Some(from) if self.samples.len() >= SAMPLES_MIN => self.best(from, &mut chance),
            _ => self.bounds.iter().map(|_| chance.unit()).collect(),
        };
        at.iter().zip(&self.bounds).map(|(unit, bounds)| from_unit(*unit, *bounds)).collect()
    }

    /// A trial goes on from `donor` with these parameters: as proposed, rounded, or changed by the user.
    pub fn accepted(&mut self, trial: Trial, donor: Trial, values: &[f64]) {
        let at = self.normalised(values);
        let from = self.trials.get(donor as usize).cloned().flatten();
        if let Some(slot) = self.trials.get_mut(trial as usize) {
            *slot = from.map(|from| Point { at: at.clone(), ..from });
        }
        if at.iter().all(|value| value.is_finite()) {
            self.pending.push(at);
        }
    }

    fn normalised(&self, values: &[f64]) -> Vec<f64> {
        values.iter().zip(&self.bounds).map(|(value, bounds)| to_unit(*value, *bounds)).collect()
    }

    fn best(&self, from: &Point, chance: &mut Chance) -> Vec<f64> {
        const DRAWS: usize = 160;
        const CLIMBS: usize = 3;
        const STEPS: usize = 60;
        let span = |pick: fn(&Sample) -> f64| {
            let low = self.samples.iter().map(pick).fold(f64::INFINITY, f64::min);
            let high = self.samples.iter().map(pick).fold(f64::NEG_INFINITY, f64::max);
            (low, high)
        };
        let (times, befores) = (span(|sample| sample.t), span(|sample| sample.before));
        let point = |t: f64, before: f64, at: &[f64]| {
            let mut all = vec![to_unit(t, times), to_unit(before, befores)];
            all.extend_from_slice(at);
            all
        };
        let points: Vec<Vec<f64>> =
            self.samples.iter().map(|sample| point(sample.t, sample.before, &sample.at)).collect();
        let gains = standardised(self.samples.iter().map(|sample| sample.gain).collect());
        let kernel = Kernel::fitted(&points, &gains, chance);
        let mut crowded = points.clone();
        crowded.extend(self.pending.iter().map(|at| point(from.t, from.score, at)));
        let padded: Vec<f64> = gains.iter().copied().chain(self.pending.iter().map(|_| 0.0)).collect();
        let models = Gp::new(kernel, points, &gains).zip(Gp::new(kernel, crowded, &padded));
        let random = |chance: &mut Chance| self.bounds.iter().map(|_| chance.unit()).collect::<Vec<f64>>();
        let Some((seen, crowd)) = models else { return random(chance) };
        let boldness = (0.2 * (0.4 * gains.len() as f64).ln().max(0.0)).sqrt().max(0.3);
        let bound = |at: &[f64]| {
            let point = point(from.t, from.score, at);
            seen.mean(&point) + boldness * crowd.deviation(&point)
        };
        let mut tried: Vec<(f64, Vec<f64>)> = (0..DRAWS)
            .map(|_| random(chance))
            .chain(std::iter::once(from.at.clone()))
            .map(|at| (bound(&at), at))
            .collect();
        tried.sort_by(|a, b| b.0.total_cmp(&a.0));
        tried.truncate(CLIMBS);
        for (value, at) in &mut tried {
            let mut width = 0.1;
            for _ in 0..STEPS {
                let step: Vec<f64> = at.iter().map(|x| (x + width * chance.normal()).clamp(0.0, 1.0)).collect();
                let there = bound(&step);
                if there > *value {
                    (*value, *at) = (there, step);
                } else {
                    width *= 0.93;
                }
            }
        }
        tried.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or_else(|| random(chance), |(_, at)| at)
    }
}

fn to_unit(value: f64, (low, high): (f64, f64)) -> f64 {
    if high > low { (value - low) / (high - low) } else { 0.0 }
}

/// PB2-1: the last digit must not leave the bounds.
fn from_unit(unit: f64, (low, high): (f64, f64)) -> f64 {
    (low + (high - low) * unit).clamp(low, high)
}

/// With mean 0 and deviation 1; outliers are cut, so that one lucky stretch does not hide the rest.
fn standardised(mut values: Vec<f64>) -> Vec<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt() + 1e-12;
    values.iter_mut().for_each(|value| *value = ((*value - mean) / deviation).clamp(-2.0, 2.0));
    values
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Trials whose scores rise fastest with a parameter near 0.7 of its bounds.
    fn trained(bounds: (f64, f64), seed: u64) -> Pb2 {
        let mut pb2 = Pb2::new(vec![bounds], seed);
        let mut chance = Chance::seeded(seed);
        for trial in 0..12 {
            let unit = (f64::from(trial) + chance.unit()) / 12.0;
            let value = bounds.0 + (bounds.1 - bounds.0) * unit;
            let speed = 1.0 - 4.0 * (unit - 0.7).powi(2);
            for t in 0..4 {
                pb2.observe(trial, f64::from(t), &[value], speed * f64::from(t));
            }
        }
        pb2
    }

    #[test]
    fn it_proposes_what_has_paid() {
        for seed in 0..10 {
            let value = trained((0.0, 1.0), seed).propose(8, 1)[0];
            assert!((0.45..=0.95).contains(&value), "{value} with seed {seed}");
        }
    }

    #[test]
    fn pb2_1_rounding_does_not_leave_the_bounds() {
        assert_eq!(from_unit(1.0, (-0.95, -0.41)), -0.41); // plain arithmetic makes it more
    }

    #[test]
    fn where_somebody_is_already_it_proposes_something_else() {
        let mut pb2 = trained((0.0, 1.0), 1);
        let first = pb2.propose(8, 1);
        assert_eq!(pb2.propose(8, 1), first);
        (0..3).for_each(|trial| pb2.accepted(trial, 8, &first));
        assert!((pb2.propose(8, 1)[0] - first[0]).abs() > 1e-3);
    }

    #[test]
    fn proposals_of_one_moment_spread_out() {
        let mut pb2 = trained((0.0, 1.0), 1);
        let values: Vec<f64> = (0..4)
            .map(|trial| {
                let values = pb2.propose(8, u64::from(trial));
                pb2.accepted(trial, 8, &values);
                values[0]
            })
            .collect();
        let spread = values.iter().fold(0.0_f64, |wide, a| values.iter().fold(wide, |wide, b| wide.max((a - b).abs())));
        assert!(spread > 1e-3, "{values:?}");
        assert_eq!(pb2.pending.len(), 4);
        pb2.observe(0, 99.0, &[0.5], 1.0);
        assert!(pb2.pending.is_empty());
    }

    #[test]
    fn pb2_1_with_nothing_seen_it_draws_within_the_bounds() {
        let pb2 = Pb2::new(vec![(1e-5, 1e-3), (-4.0, -2.0)], 1);
        for draw in 0..100 {
            let values = pb2.propose(1, draw);
            assert!((1e-5..=1e-3).contains(&values[0]) && (-4.0..=-2.0).contains(&values[1]), "{values:?}");
        }
    }

    #[test]
    fn pb2_2_the_same_story_gives_the_same_proposal() {
        assert_eq!(trained((0.0, 1.0), 5).propose(8, 3), trained((0.0, 1.0), 5).propose(8, 3));
    }

    #[test]
    fn a_stretch_with_other_parameters_or_a_nan_is_no_sample() {
        let mut pb2 = Pb2::new(vec![(0.0, 1.0)], 1);
        pb2.observe(0, 1.0, &[0.1], 1.0);
        pb2.observe(0, 2.0, &[0.2], 2.0); // changed by somebody
        pb2.observe(0, 3.0, &[0.2], f64::NEG_INFINITY);
        pb2.observe(0, 4.0, &[0.2], 4.0);
        assert_eq!(pb2.samples.len(), 0);
        pb2.observe(0, 5.0, &[0.2], 6.0);
        assert_eq!((pb2.samples[0].gain, pb2.samples[0].before), (2.0, 4.0));
    }

    #[test]
    fn after_a_proposal_gains_count_from_the_donor_also_when_it_was_changed() {
        let mut pb2 = trained((0.0, 1.0), 1);
        let value = vec![pb2.propose(8, 1)[0].round()];
        pb2.accepted(0, 8, &value);
        let before = pb2.samples.len();
        pb2.observe(0, 4.0, &value, 10.0);
        assert_eq!(pb2.samples.len(), before + 1);
        assert_eq!(pb2.samples.last().unwrap().before, pb2.trials[8].as_ref().unwrap().score);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// PB2-1, also with constant scores, doubled points and bounds that are one point.
        #[test]
        fn pb2_1_proposals_stay_within_the_bounds(
            low in -10.0_f64..10.0, width in prop_oneof![Just(0.0), 1e-6_f64..100.0], seed: u64,
            story in prop::collection::vec((0_u32..4, -3_i32..3), 0..40),
        ) {
            let mut pb2 = Pb2::new(vec![(low, low + width)], seed);
            for (t, (trial, score)) in story.iter().enumerate() {
                pb2.observe(*trial, t as f64, &[low + width / 2.0], f64::from(*score));
            }
            for draw in 0..3 {
                let value = pb2.propose(1, draw)[0];
                prop_assert!((low..=low + width).contains(&value), "{value}");
            }
        }
    }
}
