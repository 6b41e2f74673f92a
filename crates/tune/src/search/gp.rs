//! Bayesian optimisation with a Gaussian process: few trials, each worth the thinking.
//!
//! Trials under way are taken for what the process expects of them. Failed ones count as the worst that was seen.

use super::gp_acquire::{Effort, Frame, most_promising};
use super::gp_model::{Kernel, Model, Rows};
use super::sobol_net::Net;
use super::{History, Outcome, Rank, Search};
use crate::rng::Rng;
use crate::space::{Point, Space};

/// How it is set.
#[derive(Clone, Debug)]
pub struct GpOptions {
    /// How many trials, spread evenly, come first.
    pub startup_trials: usize,
    /// With more trials than this, the best half and the latest half are what it learns from.
    pub trials_max: usize,
}

impl Default for GpOptions {
    fn default() -> Self {
        Self { startup_trials: 10, trials_max: 400 }
    }
}

/// With less improvement than this to expect, in deviations of all values, it may be in a hole that is not the deepest.
const LITTLE: f64 = 0.003;
/// Then every other point must promise to be so much better, which only points far away do.
const MARGIN: f64 = 0.1;

/// See the module.
pub struct Gp {
    history: History,
    frame: Frame,
    options: GpOptions,
    seed: u64,
    /// How many points it has proposed; with the seed, the chance of the next one.
    asked: u64,
    /// Where the first trials come from.
    net: Net,
    kernel: Kernel,
    /// How many trials the kernel was fitted to.
    fitted: usize,
    /// Whether the latest point came from the net.
    is_from_net: bool,
}

impl Gp {
    /// A searcher for a space.
    #[must_use]
    pub fn new(space: Space, seed: u64, options: GpOptions) -> Self {
        let frame = Frame::new(space.clone());
        let kernel = Kernel::broad(frame.params.len());
        let net = Net::new(space.len(), &mut Rng::seeded(seed));
        let history = History::new(space);
        Self { history, frame, options, seed, asked: 0, net, kernel, fitted: 0, is_from_net: true }
    }

    fn suggest(&mut self) -> Option<Point> {
        let records = self.learned_from();
        let values = standardised(straightened(&standardised(self.values(&records)?)));
        let mut rows = Rows::new(self.frame.is_choice.clone());
        for &at in &records {
            rows.push(&self.frame.row(&self.history.records[at].at));
        }
        let count = records.len();
        // Thorough while that is quick; later, the kernel changes little from trial to trial.
        if self.fitted == 0 || self.fitted > count || count - self.fitted > count.saturating_sub(60) / 16 {
            self.kernel = fit(&rows, &values, &self.kernel);
            self.fitted = count;
        }
        let mut model = Model::new(rows, values.clone(), &self.kernel)?;
        for at in self.history.pending() {
            model.imagine(&self.frame.row(&self.history.records[at].at));
        }
        let best = values.iter().copied().fold(f64::INFINITY, f64::min);
        let best_rows: Vec<Vec<f64>> =
            self.history.ranked.iter().take(5).map(|&at| self.frame.row(&self.history.records[at].at)).collect();
        let looked =
            |target: f64, rng: &mut Rng| most_promising(&self.frame, &model, target, &best_rows, effort(count), rng);
        let mut rng = Rng::keyed(self.seed, self.asked);
        let (mut promise, mut row) = looked(best, &mut rng);
        if promise < LITTLE.ln() && count.is_multiple_of(2) {
            (promise, row) = looked(best - MARGIN, &mut rng);
        }
        debug_assert!(!promise.is_nan(), "SEARCH-3: a promise that is not a number");
        Some(self.frame.point(&row))
    }

    /// Finished records, in the order of trials.
    fn learned_from(&self) -> Vec<usize> {
        let ranked = &self.history.ranked;
        let mut records = ranked.clone();
        if ranked.len() > self.options.trials_max {
            let half = self.options.trials_max / 2;
            let mut latest = ranked[half..].to_vec();
            latest.sort_unstable();
            records = ranked[..half].to_vec();
            records.extend(&latest[latest.len() - (self.options.trials_max - half)..]);
        }
        records.sort_unstable();
        records
    }

    /// Values of records; what failed or was stopped before its time is taken for the worst. None if nothing has a value.
    fn values(&self, records: &[usize]) -> Option<Vec<f64>> {
        let value = |at: usize| match self.history.records[at].rank {
            Some(Rank::Value(value)) => Some(value),
            _ => None,
        };
        let worst = records.iter().filter_map(|&at| value(at)).reduce(f64::max)?;
        Some(records.iter().map(|&at| value(at).unwrap_or(worst)).collect())
    }
}

impl Search for Gp {
    fn ask(&mut self, trial: u64) -> Option<Point> {
        let is_early = self.history.finished() < self.options.startup_trials || self.frame.params.is_empty();
        let suggested = if is_early { None } else { self.suggest() };
        self.is_from_net = suggested.is_none();
        self.asked += 1;
        let point = suggested.unwrap_or_else(|| {
            let units = self.net.next_point();
            self.history.space.build(|at, domain| domain.place(units[at]))
        });
        self.history.begin(trial, &point);
        Some(point)
    }

    fn tell(&mut self, trial: u64, outcome: Outcome) {
        self.history.end(trial, outcome);
    }

    fn adopt(&mut self, trial: u64, point: Point) {
        self.history.begin(trial, &point);
    }

    fn residue(&self) -> Vec<f64> {
        // The kernel is fitted from the one before it, so it depends on all that came before.
        let mut residue = vec![f64::from(u8::from(self.is_from_net)), self.fitted as f64];
        residue.extend(self.kernel.numbers());
        residue
    }

    fn retrace(&mut self, trial: u64, point: Point, residue: &[f64]) {
        if let [is_from_net, fitted, kernel @ ..] = residue
            && kernel.len() == self.kernel.numbers().len()
        {
            self.is_from_net = *is_from_net != 0.0;
            self.fitted = *fitted as usize;
            self.kernel = Kernel::from_numbers(kernel);
        }
        if self.is_from_net {
            self.net.next_point();
        }
        self.asked += 1;
        self.history.begin(trial, &point);
    }
}

/// The better of two fits: from the last kernel, and, while that is quick, from a broad one.
fn fit(rows: &Rows, values: &[f64], last: &Kernel) -> Kernel {
    let count = values.len();
    let evaluations = if count <= 120 { 60 } else { 20 };
    let warm = Kernel::fit(rows, values, last, evaluations);
    if count > 80 {
        return warm;
    }
    let cold = Kernel::fit(rows, values, &Kernel::broad(rows.is_choice.len()), evaluations);
    if cold.loss(rows, values) < warm.loss(rows, values) { cold } else { warm }
}

/// The more trials, the more a look costs, and the less is to be gained by looking everywhere.
fn effort(count: usize) -> Effort {
    match count {
        0..=60 => Effort { looks: 2000, climbs: 10, steps: 100 },
        61..=120 => Effort { looks: 1500, climbs: 8, steps: 80 },
        121..=200 => Effort { looks: 600, climbs: 5, steps: 50 },
        _ => Effort { looks: 300, climbs: 3, steps: 40 },
    }
}

/// Values of mean 0 and variance 1.
fn standardised(values: Vec<f64>) -> Vec<f64> {
    let count = values.len() as f64;
    // Scaled to at most 1 first, so that the greatest doubles do not add up to infinity.
    let scale = values.iter().map(|value| value.abs()).fold(f64::MIN_POSITIVE, f64::max);
    let shrunk: Vec<f64> = values.iter().map(|value| value / scale).collect();
    let mean = shrunk.iter().sum::<f64>() / count;
    let variance = shrunk.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    let deviation = if variance > 1e-24 { variance.sqrt() } else { 1.0 };
    shrunk.iter().map(|value| (value - mean) / deviation).collect()
}

/// Values with a long tail of bad ones pulled in: the power of Yeo and Johnson (2000) that makes them most like normal ones.
///
/// Only bad ones are pulled in: where it is good, every difference counts.
fn straightened(values: &[f64]) -> Vec<f64> {
    let bend = |power: f64| values.iter().map(|&value| bent(value, power)).collect::<Vec<f64>>();
    let count = values.len() as f64;
    let log_slopes: f64 = values.iter().map(|value| value.signum() * value.abs().ln_1p()).sum();
    let likelihood = |power: f64| {
        let bent = bend(power);
        let mean = bent.iter().sum::<f64>() / count;
        let variance = bent.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        (power - 1.0) * log_slopes - 0.5 * count * variance.max(1e-300).ln()
    };
    let powers = (0..=20).map(|step| 1.0 - 0.2 * f64::from(step));
    let best = powers.max_by(|a, b| likelihood(*a).total_cmp(&likelihood(*b))).expect("there are powers");
    bend(best)
}

fn bent(value: f64, power: f64) -> f64 {
    let (size, power) = if value >= 0.0 { (value, power) } else { (-value, 2.0 - power) };
    let bent = if power.abs() < 1e-9 { size.ln_1p() } else { ((1.0 + size).powf(power) - 1.0) / power };
    if value >= 0.0 { bent } else { -bent }
}
