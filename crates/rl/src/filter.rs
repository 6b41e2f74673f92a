//! Running means and deviations, to bring what environments give to one scale.
//!
//! Several runners each see a part. What each has seen since it last told is its delta; merging deltas in any order gives the moments of
//! all together, as if one had seen everything.

use serde::{Deserialize, Serialize};

/// Added to variances, so that what never changes stays finite.
const EPSILON: f64 = 1e-8;

/// How many rows were seen, their means, and the sums of squares around those.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// Rows.
    pub count: f64,
    /// Mean of each column.
    pub means: Vec<f64>,
    /// Sum of squares around the mean of each column.
    pub squares: Vec<f64>,
}

impl Moments {
    /// Of nothing yet, with so many columns.
    #[must_use]
    pub fn new(columns: usize) -> Self {
        Self { count: 0.0, means: vec![0.0; columns], squares: vec![0.0; columns] }
    }

    /// Columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.means.len()
    }

    /// Whether its columns are of one length, and that is this.
    #[must_use]
    pub fn fits(&self, columns: usize) -> bool {
        self.means.len() == columns && self.squares.len() == columns
    }

    /// Counts one more row (Welford's way).
    pub fn see(&mut self, row: impl IntoIterator<Item = f64>) {
        self.count += 1.0;
        for ((value, mean), square) in row.into_iter().zip(&mut self.means).zip(&mut self.squares) {
            let away = value - *mean;
            *mean += away / self.count;
            *square += away * (value - *mean);
        }
    }

    /// Counts all that the other has (Chan's way).
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.columns(), other.columns(), "moments of the same columns");
        if other.count == 0.0 {
            return;
        }
        let count = self.count + other.count;
        for column in 0..self.columns() {
            let apart = other.means[column] - self.means[column];
            self.means[column] += apart * other.count / count;
            self.squares[column] += other.squares[column] + apart * apart * self.count * other.count / count;
        }
        self.count = count;
    }

    /// The variance of a column. One before two rows were seen.
    #[must_use]
    pub fn variance(&self, column: usize) -> f64 {
        if self.count < 2.0 { 1.0 } else { self.squares[column] / self.count }
    }
}

/// Moments of all, and of what was seen here since it was last told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Running {
    all: Moments,
    delta: Moments,
}

impl Running {
    fn new(columns: usize) -> Self {
        Self { all: Moments::new(columns), delta: Moments::new(columns) }
    }

    fn see(&mut self, row: impl Iterator<Item = f64> + Clone) {
        self.all.see(row.clone());
        self.delta.see(row);
    }

    /// Gives away what was seen here since this was last asked.
    fn take(&mut self) -> Moments {
        let columns = self.all.columns();
        std::mem::replace(&mut self.delta, Moments::new(columns))
    }

    /// These are the moments of all, beside what was seen here and not told yet. False if they are of other columns.
    fn set(&mut self, all: &Moments) -> bool {
        if !all.fits(self.all.columns()) {
            return false;
        }
        self.all.clone_from(all);
        self.all.merge(&self.delta);
        true
    }
}

/// What is done to what a runner sees.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilterSpec {
    /// Whether observations are brought to mean zero and deviation one.
    pub observes: bool,
    /// Whether rewards are brought to where discounted returns have a deviation of one. Their mean stays: it says what is good.
    pub rewards: bool,
    /// The most that an observation may be after that, to both sides.
    pub observed_max: f32,
    /// The most that a reward may be after that, to both sides.
    pub reward_max: f32,
    /// Worth of the next step's rewards.
    pub gamma: f64,
}

/// The moments of both filters, as they travel between runners.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FilterMoments {
    /// Of observations.
    pub observed: Moments,
    /// Of discounted returns.
    pub returns: Moments,
}

impl FilterMoments {
    /// Of nothing yet.
    #[must_use]
    pub fn new(observed: usize) -> Self {
        Self { observed: Moments::new(observed), returns: Moments::new(1) }
    }

    /// Counts all that the other has.
    pub fn merge(&mut self, other: &Self) {
        self.observed.merge(&other.observed);
        self.returns.merge(&other.returns);
    }

    /// Whether they are of so many numbers per observation.
    #[must_use]
    pub fn fits(&self, observed: usize) -> bool {
        self.observed.fits(observed) && self.returns.fits(1)
    }
}

/// Brings what environments give to one scale, and learns that scale on the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    spec: FilterSpec,
    observed: Running,
    returns: Running,
    /// The discounted rewards of each environment's episode so far.
    running: Vec<f64>,
    /// Not while a policy is only tried out.
    is_learning: bool,
}

impl Filter {
    /// For so many numbers per observation and so many environments.
    #[must_use]
    pub fn new(spec: FilterSpec, observed: usize, envs: usize) -> Self {
        Self {
            spec,
            observed: Running::new(observed),
            returns: Running::new(1),
            running: vec![0.0; envs],
            is_learning: true,
        }
    }

    /// Whether it is for so many numbers per observation and so many environments.
    #[must_use]
    pub fn fits(&self, observed: usize, envs: usize) -> bool {
        let all = [(&self.observed, observed), (&self.returns, 1)];
        all.iter().all(|(running, columns)| running.all.fits(*columns) && running.delta.fits(*columns))
            && self.running.len() == envs
    }

    /// Whether what it sees from now on counts.
    pub fn set_learning(&mut self, is_learning: bool) {
        self.is_learning = is_learning;
    }

    /// Counts these rows and brings them to scale.
    pub fn observe(&mut self, rows: &mut [f32]) {
        if self.is_learning && self.spec.observes {
            for row in rows.chunks_exact(self.observed.all.columns().max(1)) {
                self.observed.see(row.iter().map(|value| f64::from(*value)));
            }
        }
        self.scale(rows);
    }

    /// Brings these rows to scale.
    pub fn scale(&self, rows: &mut [f32]) {
        if !self.spec.observes {
            return;
        }
        let (all, most) = (&self.observed.all, self.spec.observed_max);
        let columns = all.columns();
        let factors: Vec<f64> = (0..columns).map(|column| 1.0 / (all.variance(column) + EPSILON).sqrt()).collect();
        for row in rows.chunks_exact_mut(columns.max(1)) {
            for (column, value) in row.iter_mut().enumerate() {
                *value = ((f64::from(*value) - all.means[column]) * factors[column]) as f32;
                *value = value.clamp(-most, most);
            }
        }
    }

    /// Counts a step's rewards, one per environment, and brings them to scale. `ends`: whose episode has ended.
    pub fn reward(&mut self, rewards: &mut [f32], ends: impl IntoIterator<Item = bool>) {
        if !self.spec.rewards {
            return;
        }
        if self.is_learning {
            for ((running, reward), has_ended) in self.running.iter_mut().zip(&*rewards).zip(ends) {
                *running = *running * self.spec.gamma + f64::from(*reward);
                self.returns.see(std::iter::once(*running));
                if has_ended {
                    *running = 0.0;
                }
            }
        }
        let factor = 1.0 / (self.returns.all.variance(0) + EPSILON).sqrt();
        let most = self.spec.reward_max;
        rewards.iter_mut().for_each(|reward| *reward = ((f64::from(*reward) * factor) as f32).clamp(-most, most));
    }

    /// The moments of all.
    #[must_use]
    pub fn moments(&self) -> FilterMoments {
        FilterMoments { observed: self.observed.all.clone(), returns: self.returns.all.clone() }
    }

    /// Gives away what was seen here since this was last asked.
    pub fn take_delta(&mut self) -> FilterMoments {
        FilterMoments { observed: self.observed.take(), returns: self.returns.take() }
    }

    /// Counts what another has seen. False if that is of other columns: then nothing has changed.
    pub fn merge(&mut self, delta: &FilterMoments) -> bool {
        let fits = delta.fits(self.observed.all.columns());
        if fits {
            self.observed.all.merge(&delta.observed);
            self.returns.all.merge(&delta.returns);
        }
        fits
    }

    /// These are the moments of all, beside what was seen here and not told yet. False if they are of other columns: then nothing has changed.
    pub fn set_moments(&mut self, moments: &FilterMoments) -> bool {
        moments.fits(self.observed.all.columns())
            && self.observed.set(&moments.observed)
            && self.returns.set(&moments.returns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Filter, FilterMoments, FilterSpec, Moments};

    fn spec() -> FilterSpec {
        FilterSpec { observes: true, rewards: true, observed_max: 5.0, reward_max: 10.0, gamma: 0.5 }
    }

    fn of(rows: &[[f64; 2]]) -> Moments {
        let mut moments = Moments::new(2);
        rows.iter().for_each(|row| moments.see(*row));
        moments
    }

    fn is_near(found: &Moments, rows: &[[f64; 2]]) -> bool {
        let count = rows.len() as f64;
        found.count == count
            && (0..2).all(|column| {
                let mean = rows.iter().map(|row| row[column]).sum::<f64>() / count.max(1.0);
                let square: f64 = rows.iter().map(|row| (row[column] - mean).powi(2)).sum();
                (found.means[column] - mean).abs() < 1e-9 * (1.0 + mean.abs())
                    && (found.squares[column] - square).abs() < 1e-9 * (1.0 + square)
            })
    }

    fn row() -> impl Strategy<Value = [f64; 2]> {
        [-100.0..100.0_f64, 900.0..1000.0_f64]
    }

    proptest! {
        #[test]
        fn moments_are_those_of_the_definition(rows in prop::collection::vec(row(), 0..60)) {
            prop_assert!(is_near(&of(&rows), &rows));
        }

        #[test]
        fn parts_merged_in_any_order_are_the_whole(
            parts in prop::collection::vec(prop::collection::vec(row(), 0..20), 0..6).prop_shuffle(),
        ) {
            let mut merged = Moments::new(2);
            parts.iter().for_each(|part| merged.merge(&of(part)));
            prop_assert!(is_near(&merged, &parts.concat()));
        }

        /// Runners tell in turn, some of them late, and get what is known then.
        #[test]
        fn all_runners_that_have_told_know_what_all_have_seen(
            seen in prop::collection::vec((0..3_usize, row(), any::<bool>()), 1..60),
        ) {
            let mut runners = vec![Filter::new(spec(), 2, 1); 3];
            let mut known = FilterMoments::new(2);
            let mut rows = Vec::new();
            for (runner, row, tells) in seen {
                let row = row.map(|value| f64::from(value as f32));
                rows.push(row);
                runners[runner].observe(&mut row.map(|value| value as f32));
                if tells {
                    known.merge(&runners[runner].take_delta());
                    prop_assert!(runners[runner].set_moments(&known));
                }
            }
            runners.iter_mut().for_each(|runner| known.merge(&runner.take_delta()));
            for runner in &mut runners {
                prop_assert!(runner.set_moments(&known));
                prop_assert!(is_near(&runner.moments().observed, &rows));
            }
        }
    }

    #[test]
    fn rows_are_brought_to_scale_and_held_within_bounds() {
        let mut filter = Filter::new(spec(), 1, 1);
        filter.observe(&mut [1.0, 3.0, 1.0, 3.0]);
        let mut rows = [1.0, 2.0, 3.0, 100.0, -100.0];
        filter.scale(&mut rows);
        for (found, expected) in rows.into_iter().zip([-1.0, 0.0, 1.0, 5.0, -5.0]) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        let before = filter.moments();
        filter.set_learning(false);
        filter.observe(&mut [50.0]);
        filter.reward(&mut [50.0], [false]);
        assert_eq!(filter.moments(), before, "only tried out");
    }

    #[test]
    fn rewards_are_scaled_by_the_deviation_of_discounted_returns() {
        let mut filter = Filter::new(spec(), 1, 1);
        let (rewards, ends) = ([1.0_f32, 2.0, -1.0, 4.0], [false, true, false, false]);
        let mut scaled = [0.0];
        for (reward, has_ended) in rewards.into_iter().zip(ends) {
            scaled = [reward];
            filter.reward(&mut scaled, [has_ended]);
        }
        // 1, 0.5 + 2, then a new episode.
        let returns = [1.0, 2.5, -1.0, 3.5_f64];
        let mean = returns.iter().sum::<f64>() / 4.0;
        let variance = returns.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 4.0;
        assert!((f64::from(scaled[0]) - 4.0 / variance.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn moments_of_other_columns_are_refused() {
        let mut filter = Filter::new(spec(), 2, 1);
        filter.observe(&mut [1.0, 2.0]);
        let before = filter.clone();
        assert!(!filter.set_moments(&FilterMoments::new(3)) && !filter.merge(&FilterMoments::new(3)));
        assert!(!filter.set_moments(&FilterMoments { returns: Moments::new(2), ..FilterMoments::new(2) }));
        assert_eq!(filter, before);
    }
}
