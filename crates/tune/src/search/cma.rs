//! CMA-ES (Hansen 2016): a cloud of points that moves to where it is better, and takes the shape of the valley that it is in.
//!
//! It lives in the unit cube of all numeric parameters. Cells of discrete numbers keep a chance to be left however small the cloud is
//! (Hamano 2022), and each choice has probabilities of its own that follow the best of every generation. A cloud that has come to rest
//! is given up for a new one with twice as many points.

use super::eigen::{Square, decompose};
use super::{History, Outcome, Rank, Search};
use crate::rng::Rng;
use crate::space::{Domain, Point, Space};

/// How it is set.
#[derive(Clone, Debug, Default)]
pub struct CmaOptions {
    /// How many points make a generation; by default, 4 + 3 ln(dimensions).
    pub population: Option<usize>,
    /// The first cloud's deviation, as a share of each range; by default, a sixth.
    pub deviation: Option<f64>,
}

/// How often a point outside of the cube is drawn anew before it is moved to the wall.
const REDRAWS_MAX: usize = 100;

/// See the module.
pub struct Cma {
    history: History,
    numeric: Vec<usize>,
    choices: Vec<usize>,
    options: CmaOptions,
    rng: Rng,
    cloud: Cloud,
    /// By record: what was drawn, of which generation.
    drawn: Vec<Drawn>,
    told: Vec<usize>,
    generation: usize,
    restarts: u32,
}

/// What a record was before it became a point.
struct Drawn {
    generation: usize,
    units: Vec<f64>,
    choices: Vec<usize>,
}

struct Cloud {
    population: usize,
    mean: Vec<f64>,
    deviation: f64,
    covariance: Square,
    /// Eigenvectors as columns, and roots of eigenvalues.
    axes: Square,
    lengths: Vec<f64>,
    path: Vec<f64>,
    deviation_path: Vec<f64>,
    /// For each choice, the probability of each of its values.
    odds: Vec<Vec<f64>>,
    updates: usize,
    bests: Vec<f64>,
}

impl Cma {
    /// A searcher for a space.
    #[must_use]
    pub fn new(space: Space, seed: u64, options: CmaOptions) -> Self {
        let varied = |at: &usize| !space.params()[*at].domain.is_fixed();
        let (choices, numeric): (Vec<usize>, Vec<usize>) =
            (0..space.len()).filter(varied).partition(|&at| space.params()[at].domain.is_choice());
        let population = options
            .population
            .unwrap_or_else(|| 4 + (3.0 * ((numeric.len() + choices.len()).max(1) as f64).ln()) as usize);
        let mut cma = Self {
            cloud: Cloud::new(numeric.len(), population.max(4), vec![0.5; numeric.len()], options.deviation),
            history: History::new(space),
            numeric,
            choices,
            options,
            rng: Rng::seeded(seed),
            drawn: Vec::new(),
            told: Vec::new(),
            generation: 0,
            restarts: 0,
        };
        cma.cloud.odds = cma.even_odds();
        cma
    }

    fn even_odds(&self) -> Vec<Vec<f64>> {
        let count = |&at: &usize| self.domain(at).count().unwrap_or(1) as usize;
        self.choices.iter().map(count).map(|count| vec![1.0 / count as f64; count]).collect()
    }

    fn domain(&self, at: usize) -> &Domain {
        &self.history.space.params()[at].domain
    }

    fn draw(&mut self) -> Drawn {
        let mut units = self.cloud.draw(&mut self.rng);
        for (at, unit) in units.iter_mut().enumerate() {
            if let Some(count) = self.history.space.params()[self.numeric[at]].domain.count() {
                *unit = self.cloud.leave_cell(at, *unit, count as f64, &mut self.rng);
            }
        }
        let rng = &mut self.rng;
        let choices = self.cloud.odds.iter().map(|odds| rng.pick(odds, odds.iter().sum())).collect();
        Drawn { generation: self.generation, units, choices }
    }

    fn point(&self, drawn: &Drawn) -> Point {
        self.history.space.build(|at, domain| {
            if let Ok(place) = self.numeric.binary_search(&at) {
                domain.place(drawn.units[place])
            } else if let Ok(place) = self.choices.binary_search(&at) {
                drawn.choices[place] as f64
            } else {
                domain.place(0.5)
            }
        })
    }

    fn rank(&self, record: usize) -> Rank {
        self.history.records[record].rank.unwrap_or(Rank::Failed)
    }

    fn advance(&mut self) {
        let mut told = std::mem::take(&mut self.told);
        told.sort_by(|&a, &b| self.rank(a).order(&self.rank(b)).then(a.cmp(&b)));
        let population: Vec<(&Drawn, bool)> =
            told.iter().map(|&at| (&self.drawn[at], self.drawn[at].generation == self.generation)).collect();
        self.cloud.update(&population);
        if let Rank::Value(value) = self.rank(told[0]) {
            self.cloud.bests.push(value);
        }
        self.generation += 1;
        if self.cloud.is_at_rest() {
            self.restart();
        }
    }

    /// A larger cloud somewhere else.
    fn restart(&mut self) {
        self.restarts += 1;
        let population = (self.cloud.population * 2).min(512);
        let mean = self.numeric.iter().map(|_| self.rng.unit()).collect();
        self.cloud = Cloud::new(self.numeric.len(), population, mean, self.options.deviation);
        self.cloud.odds = self.even_odds();
    }
}

impl Search for Cma {
    fn ask(&mut self, trial: u64) -> Option<Point> {
        let drawn = self.draw();
        let point = self.point(&drawn);
        self.history.begin(trial, &point);
        self.drawn.push(drawn);
        Some(point)
    }

    fn tell(&mut self, trial: u64, outcome: Outcome) {
        let Some(at) = self.history.end(trial, outcome) else { return };
        self.told.push(at);
        if self.told.len() >= self.cloud.population {
            self.advance();
        }
    }

    fn report(&mut self, trial: u64, step: f64, value: f64) {
        self.history.report(trial, step, value);
    }

    fn adopt(&mut self, trial: u64, point: Point) {
        let at = self.history.space.encode(&point);
        let units =
            self.numeric.iter().map(|&param| if at[param].is_nan() { 0.5 } else { self.domain(param).unit(at[param]) });
        let choices = self.choices.iter().map(|&param| if at[param].is_nan() { 0 } else { at[param] as usize });
        // Of no generation: it does not come from the cloud.
        let drawn = Drawn { generation: usize::MAX, units: units.collect(), choices: choices.collect() };
        self.history.begin(trial, &point);
        self.drawn.push(drawn);
    }

    fn retrace(&mut self, trial: u64, _point: Point, _residue: &[f64]) {
        // It thinks when it is told. What was drawn is more than the point says, and quickly drawn again.
        self.ask(trial);
    }
}

impl Cloud {
    fn new(size: usize, population: usize, mean: Vec<f64>, deviation: Option<f64>) -> Self {
        let unit: Square = (0..size).map(|i| (0..size).map(|j| f64::from(u8::from(i == j))).collect()).collect();
        Self {
            population,
            mean,
            deviation: deviation.unwrap_or(1.0 / 6.0),
            covariance: unit.clone(),
            axes: unit,
            lengths: vec![1.0; size],
            path: vec![0.0; size],
            deviation_path: vec![0.0; size],
            odds: Vec::new(),
            updates: 0,
            bests: Vec::new(),
        }
    }

    fn draw(&self, rng: &mut Rng) -> Vec<f64> {
        let mut point = Vec::new();
        for _ in 0..REDRAWS_MAX {
            let scaled: Vec<f64> = self.lengths.iter().map(|length| length * rng.normal()).collect();
            point =
                (0..self.mean.len()).map(|i| self.mean[i] + self.deviation * inner(&self.axes[i], &scaled)).collect();
            if point.iter().all(|x| (0.0..=1.0).contains(x)) {
                return point;
            }
        }
        point.iter_mut().for_each(|x| *x = x.clamp(0.0, 1.0));
        point
    }

    /// Moves a discrete coordinate to the next cell as often as needed for its cell to be left once per generation and dimension.
    fn leave_cell(&self, at: usize, unit: f64, count: f64, rng: &mut Rng) -> f64 {
        let cell = |x: f64| (x * count).floor().min(count - 1.0);
        let (mean, own) = (self.mean[at].clamp(0.0, 1.0), cell(self.mean[at]));
        let spread = self.deviation * self.covariance[at][at].sqrt();
        let wanted = 1.0 / (self.mean.len() * self.population) as f64;
        let stay = crate::normal::cdf(((own + 1.0) / count - mean) / spread)
            - crate::normal::cdf((own / count - mean) / spread);
        let leaves = 1.0 - stay;
        if leaves >= wanted || cell(unit) != own || rng.unit() >= wanted - leaves {
            return unit;
        }
        let is_up = own == 0.0 || own < count - 1.0 && rng.unit() < 0.5;
        (unit + if is_up { 1.0 / count } else { -1.0 / count }).clamp(0.0, 1.0)
    }

    /// One generation, the best first; the flag says whether a point was drawn from this very cloud.
    fn update(&mut self, population: &[(&Drawn, bool)]) {
        self.follow_choices(population);
        let size = self.mean.len();
        if size == 0 {
            return;
        }
        let rates = Rates::new(size, population.len());
        let steps: Vec<Vec<f64>> = population.iter().map(|(drawn, is_own)| self.step(&drawn.units, *is_own)).collect();
        let pull: Vec<f64> =
            (0..size).map(|i| steps.iter().zip(&rates.weights).map(|(y, w)| w.max(0.0) * y[i]).sum()).collect();
        for (mean, pull) in self.mean.iter_mut().zip(&pull) {
            *mean = (*mean + self.deviation * pull).clamp(0.0, 1.0);
        }
        self.updates += 1;
        let white = self.whiten(&pull);
        let keep = (rates.deviation * (2.0 - rates.deviation) * rates.effective).sqrt();
        self.deviation_path
            .iter_mut()
            .zip(&white)
            .for_each(|(path, w)| *path = (1.0 - rates.deviation) * *path + keep * w);
        let expected = (size as f64).sqrt() * (1.0 - 1.0 / (4.0 * size as f64) + 1.0 / (21.0 * (size * size) as f64));
        let length = inner(&self.deviation_path, &self.deviation_path).sqrt();
        let faded = (1.0 - (1.0 - rates.deviation).powi(2 * self.updates as i32)).sqrt();
        let is_steady = length / faded < (1.4 + 2.0 / (size as f64 + 1.0)) * expected;
        let keep = if is_steady { (rates.path * (2.0 - rates.path) * rates.effective).sqrt() } else { 0.0 };
        self.path.iter_mut().zip(&pull).for_each(|(path, y)| *path = (1.0 - rates.path) * *path + keep * y);
        self.reshape(&rates, &steps, is_steady);
        self.deviation *= ((rates.deviation / rates.damping) * (length / expected - 1.0)).min(1.0).exp();
        self.deviation = self.deviation.clamp(1e-16, 1.0);
        let (values, axes) = decompose(&self.covariance);
        self.lengths = values.iter().map(|value| value.max(1e-20).sqrt()).collect();
        self.axes = axes;
    }

    fn reshape(&mut self, rates: &Rates, steps: &[Vec<f64>], is_steady: bool) {
        let size = self.mean.len();
        let lost = if is_steady { 0.0 } else { rates.one * rates.path * (2.0 - rates.path) };
        // Bad steps count by their direction alone, so that the matrix stays positive.
        let weights: Vec<f64> =
            rates
                .weights
                .iter()
                .zip(steps)
                .map(|(&weight, step)| {
                    if weight >= 0.0 {
                        weight
                    } else {
                        weight * size as f64 / (inner_square(&self.whiten(step)) + 1e-8)
                    }
                })
                .collect();
        let sum: f64 = rates.weights.iter().sum();
        let keep = 1.0 + lost - rates.one - rates.rank * sum;
        for i in 0..size {
            for j in 0..=i {
                let rank: f64 = weights.iter().zip(steps).map(|(w, y)| w * y[i] * y[j]).sum();
                let new = keep * self.covariance[i][j] + rates.one * self.path[i] * self.path[j] + rates.rank * rank;
                self.covariance[i][j] = new;
                self.covariance[j][i] = new;
            }
        }
    }

    /// From the mean to a point, in deviations. What another cloud drew is not let too far.
    fn step(&self, units: &[f64], is_own: bool) -> Vec<f64> {
        let mut step: Vec<f64> = units.iter().zip(&self.mean).map(|(x, mean)| (x - mean) / self.deviation).collect();
        if !is_own {
            let size = step.len() as f64;
            let length = inner_square(&self.whiten(&step)).sqrt();
            let limit = size.sqrt() + 2.0 * size / (size + 2.0);
            if length > limit {
                step.iter_mut().for_each(|x| *x *= limit / length);
            }
        }
        step
    }

    /// A step as it would be if the cloud were round.
    fn whiten(&self, step: &[f64]) -> Vec<f64> {
        let size = step.len();
        let turned: Vec<f64> =
            (0..size).map(|k| (0..size).map(|i| self.axes[i][k] * step[i]).sum::<f64>() / self.lengths[k]).collect();
        (0..size).map(|i| inner(&self.axes[i], &turned)).collect()
    }

    fn follow_choices(&mut self, population: &[(&Drawn, bool)]) {
        let best = population.len().div_ceil(2);
        let weights: Vec<f64> = (0..best).map(|at| ((best as f64 + 0.5) / (at as f64 + 1.0)).ln()).collect();
        let sum: f64 = weights.iter().sum();
        for (which, odds) in self.odds.iter_mut().enumerate() {
            let rate = 0.3;
            odds.iter_mut().for_each(|p| *p *= 1.0 - rate);
            for (weight, (drawn, _)) in weights.iter().zip(population) {
                odds[drawn.choices[which]] += rate * weight / sum;
            }
            // Nothing is given up for good.
            let least = 0.2 / (odds.len() as f64 * self.population as f64).sqrt() / odds.len() as f64;
            odds.iter_mut().for_each(|p| *p = p.max(least));
            let sum: f64 = odds.iter().sum();
            odds.iter_mut().for_each(|p| *p /= sum);
        }
    }

    fn is_at_rest(&self) -> bool {
        if self.mean.is_empty() {
            return false;
        }
        let longest = self.lengths.iter().copied().fold(0.0, f64::max);
        let shortest = self.lengths.iter().copied().fold(f64::INFINITY, f64::min);
        let window = 10 + (30 * self.mean.len()).div_ceil(self.population);
        let latest = &self.bests[self.bests.len().saturating_sub(window)..];
        let least = latest.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = latest.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_flat = latest.len() == window && greatest - least <= 1e-12 * (1.0 + least.abs());
        self.deviation * longest < 1e-12 || longest > 1e7 * shortest || is_flat
    }
}

/// How fast everything follows, from the numbers of dimensions and points (Hansen 2016, table 1).
struct Rates {
    weights: Vec<f64>,
    effective: f64,
    deviation: f64,
    damping: f64,
    path: f64,
    one: f64,
    rank: f64,
}

impl Rates {
    fn new(size: usize, population: usize) -> Self {
        let (n, count) = (size as f64, population as f64);
        let raw: Vec<f64> = (1..=population).map(|at| f64::midpoint(count, 1.0).ln() - (at as f64).ln()).collect();
        let effective_of = |weights: &[f64]| weights.iter().sum::<f64>().powi(2) / inner_square(weights);
        let good: Vec<f64> = raw.iter().copied().filter(|w| *w >= 0.0).collect();
        let bad: Vec<f64> = raw.iter().copied().filter(|w| *w < 0.0).collect();
        let effective = effective_of(&good);
        let one = 2.0 / ((n + 1.3).powi(2) + effective);
        let rank = (2.0 * (effective - 2.0 + 1.0 / effective) / ((n + 2.0).powi(2) + effective)).min(1.0 - one);
        let path = (4.0 + effective / n) / (n + 4.0 + 2.0 * effective / n);
        let deviation = (effective + 2.0) / (n + effective + 5.0);
        let damping = 1.0 + 2.0 * (((effective - 1.0) / (n + 1.0)).sqrt() - 1.0).max(0.0) + deviation;
        let good_sum: f64 = good.iter().sum();
        let bad_sum: f64 = -bad.iter().sum::<f64>();
        let bad_effective = if bad.is_empty() { 0.0 } else { effective_of(&bad) };
        let limit = (1.0 + one / rank.max(1e-12))
            .min(1.0 + 2.0 * bad_effective / (effective + 2.0))
            .min((1.0 - one - rank) / (n * rank.max(1e-12)));
        let weights = raw.iter().map(|w| if *w >= 0.0 { w / good_sum } else { w * limit.max(0.0) / bad_sum }).collect();
        Self { weights, effective, deviation, damping, path, one, rank }
    }
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn inner_square(a: &[f64]) -> f64 {
    inner(a, a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{Param, Value};

    fn bowl_space(count: usize) -> Space {
        let domain = Domain::Float { low: -5.0, high: 5.0, log: false, step: None };
        let param = |at| Param { name: format!("x{at}"), domain: domain.clone(), when: Vec::new() };
        Space::new((0..count).map(param).collect()).unwrap()
    }

    fn run(cma: &mut Cma, trials: u64, objective: impl Fn(&[f64]) -> f64) -> f64 {
        (0..trials).fold(f64::INFINITY, |best, trial| {
            let point = cma.ask(trial).unwrap();
            let x: Vec<f64> =
                point.iter().map(|value| if let Some(Value::Float(x)) = value { *x } else { 0.0 }).collect();
            let value = objective(&x);
            cma.tell(trial, Outcome::Value(value));
            best.min(value)
        })
    }

    #[test]
    fn the_cloud_takes_the_shape_of_the_valley() {
        // Axes of lengths 1 and 1,000, turned by 45 degrees.
        let valley = |x: &[f64]| (x[0] + x[1] - 1.0).powi(2) + 1e6 * (x[0] - x[1]).powi(2);
        let mut cma = Cma::new(bowl_space(2), 1, CmaOptions::default());
        assert!(run(&mut cma, 900, valley) < 1e-9);
    }

    #[test]
    fn a_cloud_at_rest_is_given_up_for_a_larger_one() {
        let mut cma = Cma::new(bowl_space(3), 1, CmaOptions::default());
        let first = cma.cloud.population;
        run(&mut cma, 600, |_| 1.0);
        assert!(cma.restarts > 0 && cma.cloud.population > first, "{} restarts", cma.restarts);
    }
}
