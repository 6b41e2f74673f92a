//! Successive halving without waiting (ASHA): who reaches a rung goes on if it is among the best that have reached it so far.
//!
//! - **ASHA-1** at a rung, a trial is stopped exactly if its score is below the (1 - 1/reduction) quantile of those recorded there before it.
//! - **ASHA-2** a trial is recorded once at a rung, and only at the highest rung that it has reached; rungs that it jumped over do not see it.
//! - **ASHA-3** a trial in the grace period is never stopped.

use serde::{Deserialize, Serialize};

use super::chance::Chance;
use super::{Decision, Mode, Trial};

/// Rungs are compared with times that programs add up, so the last one may be a rounding error away.
const ROUNDING: f64 = 1e-9;

/// How to halve.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// Which values are good.
    pub mode: Mode,
    /// Where trials are stopped at the latest.
    pub max_t: f64,
    /// Where the first rung is.
    pub grace_period: f64,
    /// One of how many goes on, and how much longer.
    pub reduction_factor: f64,
    /// How many ladders there are, each starting one rung higher.
    pub brackets: usize,
    /// Whether trials are stopped at `max_t`.
    pub stop_last_trials: bool,
    /// Which ladder a trial gets is drawn from this.
    pub seed: u64,
}

/// The scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Asha {
    options: Options,
    ladders: Vec<Vec<Rung>>,
    trials: Vec<Place>,
    chance: Chance,
    stopped: u64,
}

/// One height, and the scores of those who were there, sorted.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rung {
    milestone: f64,
    scores: Vec<f64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Place {
    ladder: usize,
    /// How many rungs, from below, are behind it.
    passed: usize,
}

/// A rung as people see it: its milestone, and the score that is needed there by now.
pub type Cutoff = (f64, Option<f64>);

impl Asha {
    /// A scheduler that has seen nothing.
    pub fn new(options: Options) -> Self {
        let ladders = (0..options.brackets).map(|lowest| ladder(&options, lowest)).collect();
        Self { ladders, trials: Vec::new(), chance: Chance::seeded(options.seed), stopped: 0, options }
    }

    /// A new trial. Its ladder is drawn: longer ladders are more likely, by the softmax of their lengths.
    pub fn add(&mut self) -> Trial {
        let longest = self.ladders.iter().map(Vec::len).max().unwrap_or(0);
        let weights: Vec<f64> =
            self.ladders.iter().map(|ladder| (ladder.len() as f64 - longest as f64).exp()).collect();
        let mut left = self.chance.unit() * weights.iter().sum::<f64>();
        let drawn = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        self.trials.push(Place { ladder: drawn.unwrap_or(0), passed: 0 });
        (self.trials.len() - 1) as Trial
    }

    /// What a trial does after it reported this.
    pub fn result(&mut self, trial: Trial, t: f64, value: f64) -> Decision {
        let mut decision = self.record(trial, t, value);
        if self.options.stop_last_trials && t >= self.options.max_t {
            decision = Decision::Stop;
        }
        if decision == Decision::Stop {
            self.stopped += 1;
        }
        decision
    }

    /// The last result of a trial that has ended on its own.
    pub fn complete(&mut self, trial: Trial, t: f64, value: f64) {
        self.record(trial, t, value);
    }

    /// How many trials were stopped.
    pub fn stopped(&self) -> u64 {
        self.stopped
    }

    /// Which ladder a trial is on.
    pub fn bracket(&self, trial: Trial) -> usize {
        self.trials[trial as usize].ladder
    }

    /// For each ladder its rungs, highest first.
    pub fn cutoffs(&self) -> Vec<Vec<Cutoff>> {
        let show = |rung: &Rung| (rung.milestone, quantile(&rung.scores, self.options.reduction_factor));
        self.ladders.iter().map(|ladder| ladder.iter().rev().map(show).collect()).collect()
    }

    fn record(&mut self, trial: Trial, t: f64, value: f64) -> Decision {
        let score = self.options.mode.score(value);
        let place = &mut self.trials[trial as usize];
        let rungs = &mut self.ladders[place.ladder];
        let reached = rungs.partition_point(|rung| rung.milestone <= t + ROUNDING * t.abs());
        if reached <= place.passed {
            return Decision::Continue; // ASHA-2, ASHA-3
        }
        place.passed = reached;
        let rung = &mut rungs[reached - 1];
        let cutoff = quantile(&rung.scores, self.options.reduction_factor);
        // Against others that are no better, what is not finite is stopped as soon as anybody has shown a number.
        let is_hopeless = score == f64::NEG_INFINITY && rung.scores.last().is_some_and(|best| best.is_finite());
        rung.scores.insert(rung.scores.partition_point(|other| *other < score), score);
        if is_hopeless || cutoff.is_some_and(|cutoff| score < cutoff) { Decision::Stop } else { Decision::Continue }
    }
}

/// The rungs from `grace_period * reduction^lowest` up to `max_t`.
fn ladder(options: &Options, lowest: usize) -> Vec<Rung> {
    let heights = (lowest as i32..).map(|k| options.grace_period * options.reduction_factor.powi(k));
    let within = heights.take_while(|height| *height <= options.max_t * (1.0 + ROUNDING));
    within.map(|milestone| Rung { milestone, scores: Vec::new() }).collect()
}

/// The score that the best 1/reduction of `sorted` have, interpolated between two of them.
fn quantile(sorted: &[f64], reduction: f64) -> Option<f64> {
    let position = (1.0 - 1.0 / reduction) * (sorted.len().checked_sub(1)?) as f64;
    let (below, part) = (sorted[position.floor() as usize], position.fract());
    // Between nothing finite and a number there is nothing to interpolate.
    if part == 0.0 || below == f64::NEG_INFINITY {
        return Some(below);
    }
    Some(below + (sorted[position.ceil() as usize] - below) * part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options() -> Options {
        Options {
            mode: Mode::Max,
            max_t: 100.0,
            grace_period: 1.0,
            reduction_factor: 4.0,
            brackets: 1,
            stop_last_trials: true,
            seed: 1,
        }
    }

    #[test]
    fn rungs_rise_by_the_reduction_factor_from_the_grace_period_to_max_t() {
        let milestones = |options: Options| -> Vec<Vec<f64>> {
            let asha = Asha::new(options);
            asha.cutoffs().iter().map(|ladder| ladder.iter().map(|rung| rung.0).collect()).collect()
        };
        assert_eq!(milestones(options()), [[64.0, 16.0, 4.0, 1.0]]);
        let three = Options { max_t: 243.0, reduction_factor: 3.0, brackets: 3, ..options() };
        assert_eq!(
            milestones(three),
            [vec![243.0, 81.0, 27.0, 9.0, 3.0, 1.0], vec![243.0, 81.0, 27.0, 9.0, 3.0], vec![243.0, 81.0, 27.0, 9.0]]
        );
    }

    #[test]
    fn asha_1_who_is_below_the_quantile_of_those_before_is_stopped() {
        let mut asha = Asha::new(Options { reduction_factor: 2.0, ..options() });
        let (a, b, c, d) = (asha.add(), asha.add(), asha.add(), asha.add());
        assert_eq!(asha.result(a, 1.0, 2.0), Decision::Continue); // the first has nobody to lose against
        assert_eq!(asha.result(b, 1.0, 4.0), Decision::Continue);
        assert_eq!(asha.result(c, 1.0, 1.0), Decision::Stop); // below the median of 2 and 4
        assert_eq!(asha.result(d, 1.0, 2.5), Decision::Continue); // above the median of 1, 2 and 4
        assert_eq!(asha.stopped(), 1);
    }

    #[test]
    fn asha_1_small_values_win_when_they_are_to() {
        let mut asha = Asha::new(Options { mode: Mode::Min, reduction_factor: 2.0, ..options() });
        let (a, b) = (asha.add(), asha.add());
        assert_eq!(asha.result(a, 1.0, 1.0), Decision::Continue);
        assert_eq!(asha.result(b, 1.0, 2.0), Decision::Stop);
    }

    #[test]
    fn asha_2_a_jump_is_recorded_at_the_highest_rung_and_never_below_it() {
        let mut asha = Asha::new(options());
        let (jumper, walker) = (asha.add(), asha.add());
        assert_eq!(asha.result(jumper, 20.0, 9.0), Decision::Continue);
        assert_eq!(asha.result(jumper, 21.0, -9.0), Decision::Continue); // between two rungs nothing is decided
        let recorded: Vec<bool> = asha.cutoffs()[0].iter().map(|rung| rung.1.is_some()).collect();
        assert_eq!(recorded, [false, true, false, false]);
        assert_eq!(asha.result(walker, 1.0, 0.0), Decision::Continue);
    }

    #[test]
    fn asha_3_in_the_grace_period_nobody_is_stopped() {
        let mut asha = Asha::new(Options { grace_period: 10.0, ..options() });
        let (good, bad) = (asha.add(), asha.add());
        for t in 1..10 {
            assert_eq!(asha.result(good, f64::from(t), 100.0), Decision::Continue);
            assert_eq!(asha.result(bad, f64::from(t), 0.0), Decision::Continue);
        }
        assert_eq!(asha.result(good, 10.0, 100.0), Decision::Continue);
        assert_eq!(asha.result(bad, 10.0, 0.0), Decision::Stop);
    }

    #[test]
    fn the_last_trials_stop_at_max_t_or_run_on() {
        let mut asha = Asha::new(options());
        let trial = asha.add();
        assert_eq!(asha.result(trial, 99.0, 1.0), Decision::Continue);
        assert_eq!(asha.result(trial, 100.0, 1.0), Decision::Stop);
        let mut asha = Asha::new(Options { stop_last_trials: false, ..options() });
        let trial = asha.add();
        assert_eq!(asha.result(trial, 1e6, 1.0), Decision::Continue);
    }

    #[test]
    fn a_trial_that_ended_is_a_mark_for_those_behind_it() {
        let mut asha = Asha::new(options());
        let (done, late) = (asha.add(), asha.add());
        asha.complete(done, 1.0, 5.0);
        assert_eq!(asha.result(late, 1.0, 4.0), Decision::Stop);
    }

    #[test]
    fn sched_t1_nan_goes_first_and_never_stops_a_number() {
        let mut asha = Asha::new(options());
        let trials: Vec<Trial> = (0..6).map(|_| asha.add()).collect();
        assert_eq!(asha.result(trials[0], 1.0, f64::NAN), Decision::Continue); // nobody has shown better
        assert_eq!(asha.result(trials[1], 1.0, f64::INFINITY), Decision::Continue);
        assert_eq!(asha.result(trials[2], 1.0, -1e300), Decision::Continue);
        assert_eq!(asha.result(trials[3], 1.0, f64::NAN), Decision::Stop);
        assert_eq!(asha.result(trials[4], 1.0, f64::NEG_INFINITY), Decision::Stop);
    }

    #[test]
    fn longer_ladders_are_drawn_more_often_by_their_softmax() {
        let mut asha = Asha::new(Options { brackets: 3, ..options() });
        let mut counts = [0_f64; 3];
        for _ in 0..20_000 {
            let trial = asha.add();
            counts[asha.bracket(trial)] += 1.0;
        }
        let expected = [0.6652, 0.2447, 0.0900];
        for (count, share) in counts.iter().zip(expected) {
            assert!((count / 2e4 - share).abs() < 0.015, "{counts:?}");
        }
    }

    proptest! {
        /// ASHA-1, by counting: who goes on is beaten by at most 1/reduction of those before it, who is stopped by at least that many.
        #[test]
        fn asha_1_those_who_go_on_are_in_the_top_share(
            values in prop::collection::vec(prop_oneof![9 => -100_i32..100, 1 => Just(i32::MAX)], 1..120),
            reduction in 2_u32..6,
        ) {
            let mut asha = Asha::new(Options { reduction_factor: f64::from(reduction), ..options() });
            let mut before: Vec<f64> = Vec::new();
            for value in values {
                let value = if value == i32::MAX { f64::NAN } else { f64::from(value) };
                let score = Mode::Max.score(value);
                let trial = asha.add();
                let decision = asha.result(trial, 1.0, value);
                let better = before.iter().filter(|other| **other > score).count() as f64;
                let room = (before.len().saturating_sub(1)) as f64 / f64::from(reduction) + 1.0;
                match decision {
                    Decision::Continue => prop_assert!(better <= room, "{better} better ones of {}", before.len()),
                    Decision::Stop => prop_assert!(better >= 1.0 && (better >= room - 1.0 || !value.is_finite())),
                    Decision::Pause => prop_assert!(false, "ASHA never waits"),
                }
                before.push(score);
            }
        }

        /// The same events give the same decisions.
        #[test]
        fn replay_decides_the_same(events in prop::collection::vec((0_u32..20, 1_u32..100, -5_i32..5), 1..200), seed: u64) {
            let run = || {
                let mut asha = Asha::new(Options { brackets: 3, seed, ..options() });
                (0..20).for_each(|_| { asha.add(); });
                events.iter().map(|&(trial, t, value)| asha.result(trial, f64::from(t), f64::from(value))).collect::<Vec<_>>()
            };
            prop_assert_eq!(run(), run());
        }
    }
}
