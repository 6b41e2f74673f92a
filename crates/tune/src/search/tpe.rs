//! Tree-structured Parzen estimators (Bergstra 2011): where good trials are dense and others are not, there it looks next.
//!
//! Parameters that count under the same conditions are drawn together (or, on request, each for itself), from the trials in which they
//! counted. Trials under way are counted among the bad ones, so that those who ask at the same time are sent elsewhere.

use super::parzen::{Desk, Parzen};
use super::sobol_net::Net;
use super::{History, Outcome, Search};
use crate::rng::Rng;
use crate::space::{Domain, Point, Space, Value};

/// How it is set. The defaults are those that are known to work.
#[derive(Clone, Debug)]
pub struct TpeOptions {
    /// Whether parameters are drawn together.
    pub multivariate: bool,
    /// How many trials, spread evenly, come first.
    pub startup_trials: usize,
    /// How many points are compared for one suggestion: as many for each number that is drawn together, up to four.
    pub candidates: usize,
    /// How much the assumption counts that any value may be good, in observations.
    pub prior_weight: f64,
}

impl Default for TpeOptions {
    fn default() -> Self {
        Self { multivariate: true, startup_trials: 10, candidates: 24, prior_weight: 1.0 }
    }
}

/// See the module.
pub struct Tpe {
    history: History,
    /// Parameters that are drawn together, with more than one value each.
    groups: Vec<Vec<usize>>,
    options: TpeOptions,
    seed: u64,
    /// How many points it has proposed; with the seed, the chance of the next one.
    asked: u64,
    /// Where the first trials come from.
    net: Net,
}

impl Tpe {
    /// A searcher for a space.
    #[must_use]
    pub fn new(space: Space, seed: u64, options: TpeOptions) -> Self {
        let groups = groups(&space, options.multivariate);
        let net = Net::new(space.len(), &mut Rng::seeded(seed));
        Self { history: History::new(space), groups, options, seed, asked: 0, net }
    }

    fn is_early(&self) -> bool {
        self.history.finished() < self.options.startup_trials
    }

    fn suggest(&self) -> Point {
        let mut rng = Rng::keyed(self.seed, self.asked);
        let (good, bad) = self.split();
        let mut coordinates = vec![f64::NAN; self.history.space.len()];
        let mut chosen: Point = vec![None; self.history.space.len()];
        for group in &self.groups {
            if !self.history.space.is_active(group[0], &chosen) {
                continue;
            }
            let drawn = draw(&self.history, group, &good, &bad, &self.options, &mut rng);
            for (&at, &x) in group.iter().zip(&drawn) {
                coordinates[at] = x;
                if let domain @ Domain::Choice { .. } = &self.history.space.params()[at].domain {
                    chosen[at] = Some(domain.decode(x));
                }
            }
            fix(&self.history.space, &mut chosen);
        }
        self.history.space.build(|at, domain| if domain.is_fixed() { domain.place(0.5) } else { coordinates[at] })
    }

    /// Records with good values and all others, each in the order of trials.
    fn split(&self) -> (Vec<usize>, Vec<usize>) {
        let finished = self.history.finished();
        let count = finished.div_ceil(10).min(25);
        let mut good = self.history.ranked[..count].to_vec();
        let mut bad = self.history.ranked[count..].to_vec();
        bad.extend(self.history.pending());
        good.sort_unstable();
        bad.sort_unstable();
        (good, bad)
    }
}

impl Search for Tpe {
    fn ask(&mut self, trial: u64) -> Option<Point> {
        let point = if self.is_early() {
            let units = self.net.next_point();
            self.history.space.build(|at, domain| domain.place(units[at]))
        } else {
            self.suggest()
        };
        self.asked += 1;
        self.history.begin(trial, &point);
        Some(point)
    }

    fn tell(&mut self, trial: u64, outcome: Outcome) {
        self.history.end(trial, outcome);
    }

    fn report(&mut self, trial: u64, step: f64, value: f64) {
        self.history.report(trial, step, value);
    }

    fn adopt(&mut self, trial: u64, point: Point) {
        self.history.begin(trial, &point);
    }

    fn retrace(&mut self, trial: u64, point: Point, _residue: &[f64]) {
        if self.is_early() {
            self.net.next_point();
        }
        self.asked += 1;
        self.history.begin(trial, &point);
    }
}

/// The best of some candidates, one coordinate for each parameter of the group.
fn draw(
    history: &History,
    group: &[usize],
    good: &[usize],
    bad: &[usize],
    options: &TpeOptions,
    rng: &mut Rng,
) -> Vec<f64> {
    let domains: Vec<&Domain> = group.iter().map(|&at| &history.space.params()[at].domain).collect();
    let observed = |records: &[usize]| -> Vec<&[f64]> {
        let rows = records.iter().map(|&at| history.records[at].at.as_slice());
        rows.filter(|row| !row[group[0]].is_nan()).collect()
    };
    let good = Parzen::new(&domains, &observed(good), group, options.prior_weight);
    let bad = Parzen::new(&domains, &observed(bad), group, options.prior_weight);
    let (mut good_desk, mut bad_desk) = (Desk::default(), Desk::default());
    let mut best = (f64::NEG_INFINITY, good.sample(rng));
    // One more number leaves more room between as many points.
    let numbers = domains.iter().filter(|domain| !domain.is_choice()).count();
    for _ in 0..options.candidates * numbers.clamp(1, 4) {
        let candidate = good.sample(rng);
        let score = good.log_density(&candidate, &mut good_desk) - bad.log_density(&candidate, &mut bad_desk);
        if score > best.0 {
            best = (score, candidate);
        }
    }
    best.1
}

/// Choices with one value are taken as they are, so that what depends on them counts.
fn fix(space: &Space, chosen: &mut Point) {
    for (at, param) in space.params().iter().enumerate() {
        if param.domain == (Domain::Choice { count: 1 }) && chosen[at].is_none() && space.is_active(at, chosen) {
            chosen[at] = Some(Value::Choice(0));
        }
    }
}

/// Parameters with the same conditions, in the order of the first of each group.
fn groups(space: &Space, multivariate: bool) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, param) in space.params().iter().enumerate().filter(|(_, param)| !param.domain.is_fixed()) {
        let same = groups.iter_mut().find(|group| multivariate && space.params()[group[0]].when == param.when);
        match same {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    groups
}
