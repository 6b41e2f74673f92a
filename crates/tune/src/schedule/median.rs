//! The median stopping rule: a trial whose best value is worse than the median of the others' running means is stopped.
//!
//! - **MED-1** a trial is stopped only if enough others have come at least as far, and only after the grace period.
//! - **MED-2** a trial is judged only by what the others had reported up to its own time.

use serde::{Deserialize, Serialize};

use super::{Decision, Mode, Trial};

/// How to judge.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// Which values are good.
    pub mode: Mode,
    /// Before this time nobody is judged, and nothing counts for the means.
    pub grace_period: f64,
    /// How many others must have come as far.
    pub min_samples_required: usize,
    /// How long a trial runs at least before it makes room for others.
    pub min_time_slice: f64,
    /// Whether bad trials are stopped for good, or only paused until nothing else is left.
    pub hard_stop: bool,
}

/// The scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Median {
    options: Options,
    trials: Vec<History>,
}

/// What a result means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The trial does this.
    Decided(Decision),
    /// Too few have come as far. It trains on, unless others wait: see `Median::make_room`.
    TooFew,
}

/// What a trial has reported, in a form that gives the mean over any stretch of time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct History {
    times: Vec<f64>,
    /// Up to and with each time: the sum of finite scores, how many were not finite, the best.
    sums: Vec<(f64, u32, f64)>,
    last_pause: Option<f64>,
    is_judged: bool,
}

impl Median {
    /// A scheduler that has seen nothing.
    pub fn new(options: Options) -> Self {
        Self { options, trials: Vec::new() }
    }

    /// A new trial.
    pub fn add(&mut self) -> Trial {
        self.trials.push(History::default());
        (self.trials.len() - 1) as Trial
    }

    /// What a trial does after it reported this.
    pub fn result(&mut self, trial: Trial, t: f64, value: f64) -> Verdict {
        let own = trial as usize;
        if self.trials[own].is_judged {
            return Verdict::Decided(Decision::Continue); // it was paused for good reason, and runs since nothing else is left
        }
        self.trials[own].push(t, self.options.mode.score(value));
        if t.is_nan() || t < self.options.grace_period {
            return Verdict::Decided(Decision::Continue); // MED-1
        }
        let others = self.trials.iter().enumerate().filter(|(number, _)| *number != own);
        let mut means: Vec<f64> =
            others.filter_map(|(_, history)| history.mean(self.options.grace_period, t)).collect();
        if means.len() < self.options.min_samples_required || means.is_empty() {
            return Verdict::TooFew;
        }
        if self.trials[own].best() >= median(&mut means) {
            return Verdict::Decided(Decision::Continue);
        }
        self.trials[own].is_judged = true;
        Verdict::Decided(if self.options.hard_stop { Decision::Stop } else { Decision::Pause })
    }

    /// After `TooFew`: a trial that has had its time slice makes room for others that wait, so that there is something to compare with.
    pub fn make_room(&mut self, trial: Trial, t: f64) -> Decision {
        let history = &mut self.trials[trial as usize];
        if history.last_pause.is_some_and(|last| t - last <= self.options.min_time_slice) {
            return Decision::Continue;
        }
        history.last_pause = Some(t);
        Decision::Pause
    }

    /// The last result of a trial that has ended on its own.
    pub fn complete(&mut self, trial: Trial, t: f64, value: f64) {
        let history = &mut self.trials[trial as usize];
        if history.times.last().is_none_or(|last| *last < t) {
            history.push(t, self.options.mode.score(value));
        }
    }

    /// How many trials were found too bad.
    pub fn stopped(&self) -> usize {
        self.trials.iter().filter(|history| history.is_judged).count()
    }

    /// Whether this one was found too bad; then everybody else runs before it.
    pub fn is_judged(&self, trial: Trial) -> bool {
        self.trials[trial as usize].is_judged
    }
}

impl History {
    fn push(&mut self, t: f64, score: f64) {
        // A trial that went back in time tells a new story from there.
        let kept = self.times.partition_point(|time| *time < t);
        self.times.truncate(kept);
        self.sums.truncate(kept);
        let (sum, bad, best) = self.upto(kept);
        self.times.push(t);
        self.sums.push(match score.is_finite() {
            true => (sum + score, bad, best.max(score)),
            false => (sum, bad + 1, best),
        });
    }

    fn upto(&self, count: usize) -> (f64, u32, f64) {
        count.checked_sub(1).map_or((0.0, 0, f64::NEG_INFINITY), |last| self.sums[last])
    }

    fn best(&self) -> f64 {
        self.upto(self.sums.len()).2
    }

    /// The mean of what it reported from `from` to `to` (MED-2), if it has come that far.
    fn mean(&self, from: f64, to: f64) -> Option<f64> {
        if self.times.last().is_none_or(|last| *last < to) {
            return None;
        }
        let first = self.times.partition_point(|time| *time < from);
        let end = self.times.partition_point(|time| *time <= to);
        let ((low, bad_before, _), (high, bad, _)) = (self.upto(first), self.upto(end));
        let count = end.checked_sub(first).filter(|count| *count > 0)?;
        Some(if bad > bad_before { f64::NEG_INFINITY } else { (high - low) / count as f64 })
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GO_ON: Verdict = Verdict::Decided(Decision::Continue);
    const STOP: Verdict = Verdict::Decided(Decision::Stop);

    fn options() -> Options {
        Options { mode: Mode::Max, grace_period: 0.0, min_samples_required: 1, min_time_slice: 0.0, hard_stop: true }
    }

    /// One trial with 100 at each of ten steps, one with 450 less 50 for each step.
    fn two(options: Options) -> (Median, Trial, Trial) {
        let mut rule = Median::new(options);
        let (flat, falling) = (rule.add(), rule.add());
        for t in 0..10 {
            rule.trials[flat as usize].push(f64::from(t), rule.options.mode.score(100.0));
            rule.trials[falling as usize].push(f64::from(t), rule.options.mode.score(450.0 - 50.0 * f64::from(t)));
        }
        (rule, flat, falling)
    }

    #[test]
    fn who_is_worse_than_the_median_of_the_means_is_stopped() {
        let (mut rule, ..) = two(options());
        let third = rule.add();
        for t in 0..10 {
            // The means are 100 and 450 - 25 t; their median falls from 275 to 212.5 - 50 / 2.
            assert_eq!(rule.result(third, f64::from(t), 275.0), GO_ON);
        }
        let fourth = rule.add();
        assert_eq!(rule.result(fourth, 0.0, 200.0), STOP);
        assert_eq!(rule.stopped(), 1);
    }

    #[test]
    fn med_1_in_the_grace_period_nobody_is_stopped() {
        let (mut rule, ..) = two(Options { grace_period: 3.0, ..options() });
        let third = rule.add();
        for t in 0..3 {
            assert_eq!(rule.result(third, f64::from(t), 10.0), GO_ON);
        }
        assert_eq!(rule.result(third, 3.0, 10.0), STOP);
    }

    #[test]
    fn med_1_with_too_few_to_compare_with_nobody_is_stopped() {
        let (mut rule, ..) = two(Options { min_samples_required: 3, ..options() });
        let third = rule.add();
        assert_eq!(rule.result(third, 1.0, -1e9), Verdict::TooFew);
        let (mut rule, ..) = two(options());
        let ahead = rule.add();
        assert_eq!(rule.result(ahead, 50.0, -1e9), Verdict::TooFew); // nobody has come as far
    }

    #[test]
    fn med_2_what_others_reported_later_does_not_count() {
        let mut rule = Median::new(options());
        let (early, late) = (rule.add(), rule.add());
        for t in 1..=10 {
            rule.result(early, f64::from(t), if t < 5 { 0.0 } else { 1e6 });
        }
        assert_eq!(rule.result(late, 4.0, 1.0), GO_ON);
        assert_eq!(rule.result(late, 9.0, 1.0), STOP);
    }

    #[test]
    fn small_values_win_when_they_are_to() {
        let (mut rule, ..) = two(Options { mode: Mode::Min, ..options() });
        let third = rule.add();
        assert_eq!(rule.result(third, 0.0, 200.0), GO_ON);
        let fourth = rule.add();
        assert_eq!(rule.result(fourth, 0.0, 300.0), STOP);
    }

    #[test]
    fn a_soft_stop_pauses_once_and_then_lets_it_run() {
        let (mut rule, ..) = two(Options { hard_stop: false, ..options() });
        let third = rule.add();
        assert_eq!(rule.result(third, 0.0, 0.0), Verdict::Decided(Decision::Pause));
        assert!(rule.is_judged(third));
        assert_eq!(rule.result(third, 1.0, 0.0), GO_ON);
    }

    #[test]
    fn with_too_few_samples_a_trial_makes_room_after_its_time_slice() {
        let slice = Options { min_samples_required: 5, min_time_slice: 2.0, ..options() };
        let mut rule = Median::new(slice);
        let trial = rule.add();
        let mut at = |t| {
            assert_eq!(rule.result(trial, t, 0.0), Verdict::TooFew);
            rule.make_room(trial, t)
        };
        assert_eq!(
            [at(1.0), at(3.0), at(3.5), at(5.5)],
            [Decision::Pause, Decision::Continue, Decision::Pause, Decision::Continue]
        );
    }

    #[test]
    fn sched_t1_nan_stops_itself_and_no_other() {
        let (mut rule, ..) = two(options());
        let nan = rule.add();
        assert_eq!(rule.result(nan, 0.0, f64::NAN), STOP);
        let mut rule = Median::new(options());
        let (nan, good) = (rule.add(), rule.add());
        rule.result(nan, 1.0, f64::NAN);
        assert_eq!(rule.result(good, 1.0, -1e9), GO_ON);
    }

    #[test]
    fn a_trial_that_starts_again_is_judged_by_its_new_story() {
        let mut rule = Median::new(options());
        let (again, other) = (rule.add(), rule.add());
        rule.result(again, 1.0, 100.0);
        rule.result(again, 2.0, 100.0);
        rule.result(again, 1.0, 0.0);
        assert_eq!(rule.result(other, 1.0, 1.0), GO_ON);
    }

    proptest! {
        /// The prefix sums say what adding up says.
        #[test]
        fn the_mean_is_the_mean(values in prop::collection::vec(-100_i32..100, 1..40), from in 0_usize..40, to in 0_usize..40) {
            let mut history = History::default();
            for (t, value) in values.iter().enumerate() {
                history.push(t as f64, f64::from(*value));
            }
            let scoped: Vec<f64> = values.iter().enumerate().filter(|(t, _)| (from..=to).contains(t)).map(|(_, v)| f64::from(*v)).collect();
            let expected = (values.len() > to && !scoped.is_empty()).then(|| scoped.iter().sum::<f64>() / scoped.len() as f64);
            match (history.mean(from as f64, to as f64), expected) {
                (Some(got), Some(expected)) => prop_assert!((got - expected).abs() < 1e-9),
                (got, expected) => prop_assert_eq!(got, expected),
            }
        }
    }
}
