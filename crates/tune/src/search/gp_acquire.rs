//! Where a Gaussian process promises the most: the greatest logarithm of the expected improvement (Ament 2023).
//!
//! Many points are looked at, the best of them climb: by slopes in what is continuous, by trying values in what is not.

use super::gp_model::Model;
use super::lbfgs::{Limits, minimise};
use crate::normal;
use crate::rng::Rng;
use crate::space::{Domain, Point, Space, Value};

/// Up to this many values of a number are all tried.
const TRIED_MAX: u64 = 16;

/// The place of a point for the model: shares of the way between bounds, indices of choices, and something that never changes where a
/// parameter does not count.
pub(crate) struct Frame {
    pub(crate) space: Space,
    /// Parameters with more than one value.
    pub(crate) params: Vec<usize>,
    pub(crate) is_choice: Vec<bool>,
    continuous: Vec<usize>,
    discrete: Vec<usize>,
}

impl Frame {
    pub(crate) fn new(space: Space) -> Self {
        let params: Vec<usize> = (0..space.len()).filter(|&at| !space.params()[at].domain.is_fixed()).collect();
        let domain = |&dimension: &usize| &space.params()[params[dimension]].domain;
        let is_choice = (0..params.len()).map(|dimension| domain(&dimension).is_choice()).collect();
        let is_continuous = |dimension: &usize| domain(dimension).count().is_none();
        let (continuous, discrete) = (0..params.len()).partition(is_continuous);
        Self { params: params.clone(), is_choice, continuous, discrete, space: space.clone() }
    }

    fn domain(&self, dimension: usize) -> &Domain {
        &self.space.params()[self.params[dimension]].domain
    }

    /// The row of coordinates (of all parameters, not a number where one does not count).
    pub(crate) fn row(&self, coordinates: &[f64]) -> Vec<f64> {
        self.params
            .iter()
            .map(|&at| {
                let (x, domain) = (coordinates[at], &self.space.params()[at].domain);
                match (x.is_nan(), domain.is_choice()) {
                    (true, true) => -1.0,
                    (true, false) => 0.5,
                    (false, true) => x,
                    (false, false) => domain.unit(x),
                }
            })
            .collect()
    }

    /// The point of a row.
    pub(crate) fn point(&self, row: &[f64]) -> Point {
        let mut dimension = 0;
        let mut places = vec![f64::NAN; self.space.len()];
        for (at, place) in places.iter_mut().enumerate() {
            let domain = &self.space.params()[at].domain;
            if domain.is_fixed() {
                *place = domain.place(0.5);
                continue;
            }
            let x = row[dimension];
            *place = if domain.is_choice() { x.max(0.0) } else { domain.place(x) };
            dimension += 1;
        }
        self.space.build(|at, _| places[at])
    }

    /// Makes a row one that a point of the space has.
    fn settle(&self, row: &mut Vec<f64>) {
        if !self.discrete.is_empty() {
            *row = self.row(&self.space.encode(&self.point(row)));
        }
    }

    fn random_row(&self, rng: &mut Rng) -> Vec<f64> {
        self.row(&self.space.encode(&self.space.sample(rng)))
    }

    /// A row like another one, with one or some dimensions a little or entirely different.
    fn neighbour(&self, row: &[f64], reach: f64, rng: &mut Rng) -> Vec<f64> {
        let mut new = row.to_vec();
        let share = (2.0 / row.len() as f64).min(1.0);
        let always = rng.below(row.len() as u64) as usize;
        for (dimension, x) in new.iter_mut().enumerate() {
            if dimension != always && rng.unit() >= share {
                continue;
            }
            if let Domain::Choice { count } = self.domain(dimension) {
                *x = rng.below(u64::from(*count)) as f64;
            } else {
                *x = (*x + reach * rng.normal()).clamp(0.0, 1.0);
            }
        }
        self.settle(&mut new);
        new
    }

    /// Whether a dimension counts at a row.
    fn is_active(&self, dimension: usize, row: &[f64]) -> bool {
        let conditions = &self.space.params()[self.params[dimension]].when;
        conditions.is_empty() || {
            let mut choices: Vec<Option<Value>> = vec![None; self.space.len()];
            for (at, choice) in choices.iter_mut().enumerate() {
                match self.params.binary_search(&at) {
                    Ok(own) if self.is_choice[own] && row[own] >= 0.0 => *choice = Some(Value::Choice(row[own] as u32)),
                    Err(_) if self.space.params()[at].domain.is_choice() => *choice = Some(Value::Choice(0)),
                    _ => {}
                }
            }
            self.space.is_active(self.params[dimension], &choices)
        }
    }
}

/// How much is spent on one suggestion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Points that are looked at.
    pub(crate) looks: usize,
    /// Points that climb.
    pub(crate) climbs: usize,
    /// Evaluations of each climb's slopes.
    pub(crate) steps: usize,
}

/// The greatest promise, and the row that has it. `best` is the least value so far, `rows` are some of the best rows.
pub(crate) fn most_promising(
    frame: &Frame,
    model: &Model,
    best: f64,
    rows: &[Vec<f64>],
    effort: Effort,
    rng: &mut Rng,
) -> (f64, Vec<f64>) {
    let promise = Promise { model, best };
    let near = if rows.is_empty() { 0 } else { effort.looks / 4 };
    let mut looks: Vec<(f64, Vec<f64>)> = Vec::with_capacity(effort.looks);
    for at in 0..effort.looks {
        let row = if at < near {
            // From a tenth down to a thousandth of the range.
            let reach = 0.1 * 0.01_f64.powf(rng.unit());
            frame.neighbour(&rows[at % rows.len()], reach, rng)
        } else {
            frame.random_row(rng)
        };
        looks.push((promise.at(&row), row));
    }
    looks.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut starts: Vec<Vec<f64>> = rows.first().cloned().into_iter().collect();
    starts.extend(spread_out(&looks, effort.climbs.saturating_sub(starts.len()).max(1), rng));
    let climbed = starts.into_iter().map(|start| climb(frame, &promise, start, effort.steps));
    let found = climbed.max_by(|a, b| a.0.total_cmp(&b.0)).expect("there is a start");
    if found.0 >= looks[0].0 { found } else { looks.swap_remove(0) }
}

/// The best look, and others by chance, in proportion to their promise.
fn spread_out(looks: &[(f64, Vec<f64>)], count: usize, rng: &mut Rng) -> Vec<Vec<f64>> {
    let mut weights: Vec<f64> = looks.iter().map(|(promise, _)| (promise - looks[0].0).exp()).collect();
    let mut chosen = vec![looks[0].1.clone()];
    weights[0] = 0.0;
    while chosen.len() < count {
        let sum: f64 = weights.iter().sum();
        if sum.is_nan() || sum <= 1e-12 {
            break;
        }
        let at = rng.pick(&weights, sum);
        weights[at] = 0.0;
        chosen.push(looks[at].1.clone());
    }
    chosen
}

/// Goes up from a row until nothing is better.
fn climb(frame: &Frame, promise: &Promise<'_>, start: Vec<f64>, steps: usize) -> (f64, Vec<f64>) {
    let mut row = start;
    let mut height = promise.at(&row);
    for _ in 0..4 {
        let before = height;
        (height, row) = climb_slopes(frame, promise, (height, row), steps);
        if frame.discrete.is_empty() {
            break;
        }
        for &dimension in &frame.discrete {
            (height, row) = try_values(frame, promise, (height, row), dimension);
        }
        if height <= before + 1e-6 {
            break;
        }
    }
    (height, row)
}

fn climb_slopes(frame: &Frame, promise: &Promise<'_>, from: (f64, Vec<f64>), steps: usize) -> (f64, Vec<f64>) {
    let free: Vec<usize> = frame.continuous.iter().copied().filter(|&d| frame.is_active(d, &from.1)).collect();
    if free.is_empty() {
        return from;
    }
    // In units of lengths, all dimensions are alike.
    let lengths: Vec<f64> = free.iter().map(|&d| promise.model.length(d)).collect();
    let bounds: Vec<(f64, f64)> = lengths.iter().map(|length| (0.0, 1.0 / length)).collect();
    let start = free.iter().zip(&lengths).map(|(&d, length)| from.1[d] / length).collect();
    let mut row = from.1.clone();
    let mut slopes = vec![0.0; row.len()];
    let limits = Limits { evaluations: steps, slope: 1e-5 };
    let found = minimise(start, &bounds, limits, |scaled, slope| {
        free.iter().zip(scaled).zip(&lengths).for_each(|((&d, x), length)| row[d] = (x * length).min(1.0));
        let height = promise.at_with_slopes(&row, &mut slopes);
        free.iter().zip(slope).zip(&lengths).for_each(|((&d, s), length)| *s = -slopes[d] * length);
        -height
    });
    if -found.value <= from.0 {
        return from;
    }
    let mut row = from.1;
    free.iter().zip(&found.at).zip(&lengths).for_each(|((&d, x), length)| row[d] = (x * length).min(1.0));
    (-found.value, row)
}

/// Other values of what is not continuous: all if they are few, else those near and some far.
fn try_values(frame: &Frame, promise: &Promise<'_>, from: (f64, Vec<f64>), dimension: usize) -> (f64, Vec<f64>) {
    if !frame.is_active(dimension, &from.1) {
        return from;
    }
    let domain = frame.domain(dimension);
    let count = domain.count().expect("a discrete domain is counted");
    let own = from.1[dimension];
    let values: Vec<f64> = if domain.is_choice() {
        (0..count).map(|at| at as f64).collect()
    } else if count <= TRIED_MAX {
        (0..count).map(|at| (at as f64 + 0.5) / count as f64).collect()
    } else {
        let cell = 1.0 / count as f64;
        [1.0, 2.0, 4.0, 16.0, 64.0].iter().flat_map(|far| [own - far * cell, own + far * cell]).collect()
    };
    let mut best = from;
    for value in values.into_iter().filter(|value| (0.0..=1.0).contains(value) || domain.is_choice()) {
        let mut row = best.1.clone();
        row[dimension] = value;
        frame.settle(&mut row);
        let height = promise.at(&row);
        if height > best.0 {
            best = (height, row);
        }
    }
    best
}

struct Promise<'a> {
    model: &'a Model,
    best: f64,
}

impl Promise<'_> {
    fn at(&self, row: &[f64]) -> f64 {
        let (mean, variance) = self.model.predict(row);
        let deviation = variance.sqrt();
        deviation.ln() + normal::log_improvement((self.best - mean) / deviation)
    }

    fn at_with_slopes(&self, row: &[f64], slopes: &mut [f64]) -> f64 {
        let mut by_mean = vec![0.0; row.len()];
        let (mean, variance) = self.model.predict_with_slopes(row, &mut by_mean, slopes);
        let deviation = variance.sqrt();
        let z = (self.best - mean) / deviation;
        let steepness = normal::log_improvement_slope(z);
        for (slope, by_mean) in slopes.iter_mut().zip(&by_mean) {
            let by_deviation = *slope / (2.0 * deviation);
            *slope = by_deviation / deviation + steepness * (-by_mean - z * by_deviation) / deviation;
        }
        deviation.ln() + normal::log_improvement(z)
    }
}
