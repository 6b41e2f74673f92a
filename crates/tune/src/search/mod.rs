//! Who proposes: `ask` for a point, `tell` what became of it. Pure: what is asked next follows from the seed and from what was told before.
//!
//! - **SEARCH-1** every point lies in its space, honours its steps, and has exactly the parameters that count.
//! - **SEARCH-2** the same seed and the same calls give the same points.
//! - **SEARCH-3** nothing that is told, not a number included, keeps the next point from coming.
//! - **SEARCH-4** points that are retraced instead of asked for change nothing about those that come after them.
//!
//! Less is better; whoever maximises turns the sign.

mod cma;
mod eigen;
mod gp;
mod gp_acquire;
mod gp_model;
mod lbfgs;
mod parzen;
mod random;
mod sobol;
mod sobol_net;
mod tpe;

#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;

pub use cma::{Cma, CmaOptions};
pub use gp::{Gp, GpOptions};
pub use random::Random;
pub use sobol::Sobol;
pub use tpe::{Tpe, TpeOptions};

use crate::space::{Point, Space};

/// What became of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It ended with this value. What is no finite number counts as a failure.
    Value(f64),
    /// It ended without one.
    Failed,
    /// It was stopped early; what it reported last counts, behind everything that ended.
    Pruned,
}

/// Something that proposes points.
pub trait Search: Send {
    /// The next point, for a trial that was not asked for before. None: never again.
    fn ask(&mut self, trial: u64) -> Option<Point>;

    /// A trial's end. One that is unknown, or has ended before, is passed over.
    fn tell(&mut self, trial: u64, outcome: Outcome);

    /// What a trial that goes on has reached at a step. Most wait for the end.
    fn report(&mut self, _trial: u64, _step: f64, _value: f64) {}

    /// A point that another one chose, as if it had been asked for. It must lie in the space.
    fn adopt(&mut self, trial: u64, point: Point);

    /// What the latest `ask` has left behind beside its point and cannot be had again without thinking. Most leave nothing.
    fn residue(&self) -> Vec<f64> {
        Vec::new()
    }

    /// As `ask`, whose answer is known from an earlier run, with the residue that it left there. Quick, however long that took.
    fn retrace(&mut self, trial: u64, point: Point, residue: &[f64]);
}

/// How good a finished trial is: first what ended, then what was stopped, the latest first, then what failed.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) enum Rank {
    Value(f64),
    Pruned { steps_left: f64, value: f64 },
    Failed,
}

impl Rank {
    pub(crate) fn order(&self, other: &Self) -> std::cmp::Ordering {
        // Numbers in it are finite.
        self.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal)
    }
}

/// One trial: where it is and, once it has ended, how good.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) at: Vec<f64>,
    pub(crate) rank: Option<Rank>,
    last_report: Option<(f64, f64)>,
}

/// All trials that a searcher knows, in the order in which they were asked for.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) space: Space,
    pub(crate) records: Vec<Record>,
    index: FxHashMap<u64, usize>,
    /// Finished records, the best first; of equals the earlier.
    pub(crate) ranked: Vec<usize>,
}

impl History {
    pub(crate) fn new(space: Space) -> Self {
        Self { space, records: Vec::new(), index: FxHashMap::default(), ranked: Vec::new() }
    }

    pub(crate) fn begin(&mut self, trial: u64, point: &Point) {
        self.index.insert(trial, self.records.len());
        self.records.push(Record { at: self.space.encode(point), rank: None, last_report: None });
    }

    pub(crate) fn report(&mut self, trial: u64, step: f64, value: f64) {
        if let Some(&at) = self.index.get(&trial)
            && value.is_finite()
            && step.is_finite()
        {
            self.records[at].last_report = Some((step, value));
        }
    }

    /// Notes the end; returns which record it is, unless it was over before.
    pub(crate) fn end(&mut self, trial: u64, outcome: Outcome) -> Option<usize> {
        let &at = self.index.get(&trial)?;
        let record = &mut self.records[at];
        if record.rank.is_some() {
            return None;
        }
        let rank = match (outcome, record.last_report) {
            (Outcome::Value(value), _) if value.is_finite() => Rank::Value(value),
            (Outcome::Pruned, Some((step, value))) => Rank::Pruned { steps_left: -step, value },
            _ => Rank::Failed,
        };
        record.rank = Some(rank);
        let place = self.ranked.partition_point(|&other| {
            let other_rank = self.records[other].rank.expect("only finished records are ranked");
            other_rank.order(&rank).then(other.cmp(&at)).is_lt()
        });
        self.ranked.insert(place, at);
        Some(at)
    }

    pub(crate) fn finished(&self) -> usize {
        self.ranked.len()
    }

    pub(crate) fn pending(&self) -> impl Iterator<Item = usize> {
        self.records.iter().enumerate().filter(|(_, record)| record.rank.is_none()).map(|(at, _)| at)
    }
}
