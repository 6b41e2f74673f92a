//! Random search: every point as likely as any other.

use super::{Outcome, Search};
use crate::rng::Rng;
use crate::space::{Point, Space};

/// Learns nothing, and is hard to beat in many dimensions with few trials.
pub struct Random {
    space: Space,
    rng: Rng,
}

impl Random {
    /// A searcher for a space.
    #[must_use]
    pub fn new(space: Space, seed: u64) -> Self {
        Self { space, rng: Rng::seeded(seed) }
    }
}

impl Search for Random {
    fn ask(&mut self, _trial: u64) -> Option<Point> {
        Some(self.space.sample(&mut self.rng))
    }

    fn tell(&mut self, _trial: u64, _outcome: Outcome) {}

    fn adopt(&mut self, _trial: u64, _point: Point) {}

    fn retrace(&mut self, trial: u64, _point: Point, _residue: &[f64]) {
        self.ask(trial);
    }
}
