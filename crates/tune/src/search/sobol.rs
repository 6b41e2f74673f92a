//! Points of a scrambled Sobol sequence: random to look at, but without gaps and clusters.

use super::sobol_net::Net;
use super::{Outcome, Search};
use crate::rng::Rng;
use crate::space::{Point, Space};

/// Spreads points evenly over the space; learns nothing.
pub struct Sobol {
    space: Space,
    net: Net,
}

impl Sobol {
    /// A searcher for a space. Every seed scrambles differently.
    #[must_use]
    pub fn new(space: Space, seed: u64) -> Self {
        let net = Net::new(space.len(), &mut Rng::seeded(seed));
        Self { space, net }
    }
}

impl Search for Sobol {
    fn ask(&mut self, _trial: u64) -> Option<Point> {
        let units = self.net.next_point();
        Some(self.space.build(|at, domain| domain.place(units[at])))
    }

    fn tell(&mut self, _trial: u64, _outcome: Outcome) {}

    fn adopt(&mut self, _trial: u64, _point: Point) {}

    fn retrace(&mut self, trial: u64, _point: Point, _residue: &[f64]) {
        self.ask(trial);
    }
}
