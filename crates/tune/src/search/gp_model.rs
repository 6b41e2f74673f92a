//! A Gaussian process with a Matern 5/2 kernel that has a length for each dimension.
//!
//! Numbers lie in [0, 1]; of choices it matters only whether they are the same. Lengths, signal and noise are those that are most
//! probable after the data, under priors that expect lengths of about the whole range, and little noise.

use super::lbfgs::{Limits, minimise};
use crate::triangle::{Triangle, dot};

/// Noise that is always there, so that equal points do no harm. In units of the values' variance.
const NOISE_MIN: f64 = 1e-7;
const SQRT_5: f64 = 2.236_067_977_499_79;

/// What the kernel depends on, as logarithms.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kernel {
    /// One over the squared length of each dimension.
    pub(crate) tightness: Vec<f64>,
    signal: f64,
    noise: f64,
}

/// Rows of coordinates, one after the other; which dimensions are choices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    pub(crate) numbers: Vec<f64>,
    pub(crate) is_choice: Vec<bool>,
}

impl Rows {
    pub(crate) fn new(is_choice: Vec<bool>) -> Self {
        Self { numbers: Vec::new(), is_choice }
    }

    pub(crate) fn push(&mut self, row: &[f64]) {
        self.numbers.extend_from_slice(row);
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len() / self.is_choice.len()
    }

    pub(crate) fn row(&self, at: usize) -> &[f64] {
        let width = self.is_choice.len();
        &self.numbers[at * width..(at + 1) * width]
    }

    /// The squared difference in one dimension.
    fn square(&self, dimension: usize, a: f64, b: f64) -> f64 {
        if self.is_choice[dimension] { f64::from(u8::from(a != b)) } else { (a - b) * (a - b) }
    }
}

impl Kernel {
    /// Where a fit begins if nothing better is known.
    pub(crate) fn broad(dimensions: usize) -> Self {
        Self { tightness: vec![0.0; dimensions], signal: 0.0, noise: (1e-4_f64).ln() }
    }

    /// All that it is.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        let mut numbers = self.tightness.clone();
        numbers.extend([self.signal, self.noise]);
        numbers
    }

    pub(crate) fn from_numbers(numbers: &[f64]) -> Self {
        let dimensions = numbers.len() - 2;
        Self { tightness: numbers[..dimensions].to_vec(), signal: numbers[dimensions], noise: numbers[dimensions + 1] }
    }

    fn noise_variance(&self) -> f64 {
        self.noise.exp() + NOISE_MIN
    }

    /// The most probable kernel for values of mean 0 and variance 1.
    pub(crate) fn fit(rows: &Rows, values: &[f64], start: &Self, evaluations: usize) -> Self {
        let dimensions = rows.is_choice.len();
        let mut bounds = vec![(-12.0, 10.0); dimensions];
        bounds.extend([(-7.0, 7.0), (-20.0, 0.0)]);
        let mut first = start.numbers();
        first.iter_mut().zip(&bounds).for_each(|(x, (low, high))| *x = x.clamp(*low, *high));
        let limits = Limits { evaluations, slope: 1e-2 };
        let found = minimise(first, &bounds, limits, |numbers, slope| loss(rows, values, numbers, slope));
        Self::from_numbers(&found.at)
    }

    /// How improbable the data are with it, up to a constant.
    pub(crate) fn loss(&self, rows: &Rows, values: &[f64]) -> f64 {
        let mut numbers = self.tightness.clone();
        numbers.extend([self.signal, self.noise]);
        let mut slope = vec![0.0; numbers.len()];
        loss(rows, values, &numbers, &mut slope)
    }
}

/// The negative logarithm of the probability of the data and of the kernel, and its slope.
fn loss(rows: &Rows, values: &[f64], numbers: &[f64], slope: &mut [f64]) -> f64 {
    let dimensions = rows.is_choice.len();
    let count = values.len();
    let kernel = Kernel::from_numbers(numbers);
    let weights: Vec<f64> = kernel.tightness.iter().map(|t| t.exp()).collect();
    let signal = kernel.signal.exp();
    let mut factor = Triangle::zeros(count);
    // What a change of the squared distance does to each entry.
    let mut bend = Triangle::zeros(count);
    for i in 0..count {
        let row = rows.row(i);
        for j in 0..i {
            let other = rows.row(j);
            let squared: f64 = (0..dimensions).map(|d| weights[d] * rows.square(d, row[d], other[d])).sum();
            let (value, change) = matern(squared);
            factor.row_mut(i)[j] = signal * value;
            bend.row_mut(i)[j] = signal * change;
        }
        factor.row_mut(i)[i] = signal + kernel.noise_variance();
    }
    if !factor.factor() {
        return f64::INFINITY;
    }
    let inverse = factor.inverse();
    let half = inverse.times(values);
    let alpha = inverse.transposed_times(&half);
    let fit = 0.5 * dot(&half, &half) + factor.diagonal().map(f64::ln).sum::<f64>();
    let precision = inverse.gram();
    slope.fill(0.0);
    // The slope of an entry is half of (inverse - alpha alpha'); off the diagonal, each counts twice.
    let mut trace = 0.0;
    for i in 0..count {
        let row = rows.row(i);
        let (precisions, bends) = (precision.row(i), bend.row(i));
        for j in 0..i {
            let pull = (precisions[j] - alpha[i] * alpha[j]) * bends[j];
            let other = rows.row(j);
            for d in 0..dimensions {
                slope[d] += pull * rows.square(d, row[d], other[d]);
            }
        }
        trace += precisions[i] - alpha[i] * alpha[i];
    }
    slope[..dimensions].iter_mut().zip(&weights).for_each(|(s, w)| *s *= w);
    // tr((inverse - alpha alpha') K) is known without a loop: K is the signal's part and the noise's.
    let noise = kernel.noise_variance();
    slope[dimensions] = 0.5 * (count as f64 - dot(values, &alpha) - noise * trace);
    slope[dimensions + 1] = 0.5 * trace * kernel.noise.exp();
    fit + priors(&kernel, slope)
}

/// The kernel's own improbability, added to the slope.
fn priors(kernel: &Kernel, slope: &mut [f64]) -> f64 {
    let dimensions = kernel.tightness.len();
    let mut sum = 0.0;
    for (d, tightness) in kernel.tightness.iter().enumerate() {
        let off = tightness / 1.6;
        sum += 0.5 * off * off;
        slope[d] += off / 1.6;
    }
    // The values have variance 1, so the signal's cannot be far from it, except for functions with few high peaks.
    let off = kernel.signal / 1.5;
    sum += 0.5 * off * off;
    slope[dimensions] += off / 1.5;
    // Flat for noise that does not matter, steep for noise that would explain everything.
    let noise = kernel.noise.exp();
    sum += 30.0 * noise - 0.1 * kernel.noise;
    slope[dimensions + 1] += 30.0 * noise - 0.1;
    sum
}

/// The kernel over its signal, and its change with the squared distance.
fn matern(squared: f64) -> (f64, f64) {
    let far = SQRT_5 * squared.sqrt();
    let decay = (-far).exp();
    ((1.0 + far + far * far / 3.0) * decay, -(5.0 / 6.0) * (1.0 + far) * decay)
}

/// A process that has seen data.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) rows: Rows,
    weights: Vec<f64>,
    signal: f64,
    noise: f64,
    factor: Triangle,
    inverse: Triangle,
    alpha: Vec<f64>,
    values: Vec<f64>,
}

impl Model {
    /// None if the kernel does not fit the data at all.
    pub(crate) fn new(rows: Rows, values: Vec<f64>, kernel: &Kernel) -> Option<Self> {
        let is_choice = rows.is_choice.clone();
        let mut model = Self {
            rows: Rows::new(is_choice),
            weights: kernel.tightness.iter().map(|t| t.exp()).collect(),
            signal: kernel.signal.exp(),
            noise: kernel.noise_variance(),
            factor: Triangle::default(),
            inverse: Triangle::default(),
            alpha: Vec::new(),
            values: Vec::new(),
        };
        for at in 0..rows.len() {
            if !model.learn(rows.row(at)) {
                return None;
            }
        }
        model.set_values(values);
        Some(model)
    }

    pub(crate) fn len(&self) -> usize {
        self.factor.size()
    }

    /// Over which distance values have to do with each other, in one dimension.
    pub(crate) fn length(&self, dimension: usize) -> f64 {
        self.weights[dimension].sqrt().recip()
    }

    /// Takes up one more point, whose value comes with `set_values`.
    pub(crate) fn learn(&mut self, row: &[f64]) -> bool {
        let mut covariances = self.covariances(row);
        covariances.push(self.signal + self.noise);
        if !self.factor.extend_factor(covariances) {
            return false;
        }
        self.inverse.extend_inverse(self.factor.row(self.factor.size() - 1));
        self.rows.push(row);
        true
    }

    /// Takes up a point as if its value were the one that is expected.
    pub(crate) fn imagine(&mut self, row: &[f64]) {
        let (mean, _) = self.predict(row);
        if self.learn(row) {
            let mut values = std::mem::take(&mut self.values);
            values.push(mean);
            self.set_values(values);
        }
    }

    /// All values, of mean 0 and variance 1.
    pub(crate) fn set_values(&mut self, values: Vec<f64>) {
        self.alpha = self.inverse.transposed_times(&self.inverse.times(&values));
        self.values = values;
    }

    fn covariances(&self, row: &[f64]) -> Vec<f64> {
        (0..self.len())
            .map(|at| {
                let other = self.rows.row(at);
                let squared: f64 =
                    (0..row.len()).map(|d| self.weights[d] * self.rows.square(d, row[d], other[d])).sum();
                self.signal * matern(squared).0
            })
            .collect()
    }

    /// The mean and the variance at a point.
    pub(crate) fn predict(&self, row: &[f64]) -> (f64, f64) {
        let covariances = self.covariances(row);
        let variance = self.signal - self.inverse.squared_norm_of(&covariances);
        (dot(&self.alpha, &covariances), variance.max(1e-14 * self.signal))
    }

    /// The mean and the variance at a point, and the slopes of both.
    pub(crate) fn predict_with_slopes(
        &self,
        row: &[f64],
        mean_slope: &mut [f64],
        variance_slope: &mut [f64],
    ) -> (f64, f64) {
        let count = self.len();
        let mut covariances = Vec::with_capacity(count);
        let mut bends = Vec::with_capacity(count);
        for at in 0..count {
            let other = self.rows.row(at);
            let squared: f64 = (0..row.len()).map(|d| self.weights[d] * self.rows.square(d, row[d], other[d])).sum();
            let (value, change) = matern(squared);
            covariances.push(self.signal * value);
            bends.push(self.signal * change);
        }
        let half = self.inverse.times(&covariances);
        let pulls = self.inverse.transposed_times(&half);
        mean_slope.fill(0.0);
        variance_slope.fill(0.0);
        for at in 0..count {
            let other = self.rows.row(at);
            let (by_mean, by_variance) = (self.alpha[at] * bends[at], pulls[at] * bends[at]);
            for d in 0..row.len() {
                let off = row[d] - other[d];
                mean_slope[d] += by_mean * off;
                variance_slope[d] += by_variance * off;
            }
        }
        for d in 0..row.len() {
            mean_slope[d] *= 2.0 * self.weights[d];
            variance_slope[d] *= -4.0 * self.weights[d];
        }
        let variance = self.signal - dot(&half, &half);
        (dot(&self.alpha, &covariances), variance.max(1e-14 * self.signal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn data(count: usize) -> (Rows, Vec<f64>) {
        let mut rng = Rng::seeded(2);
        let mut rows = Rows::new(vec![false, false, true]);
        let mut values = Vec::new();
        for _ in 0..count {
            let row = [rng.unit(), rng.unit(), rng.below(3) as f64];
            values.push((3.0 * row[0]).sin() + row[1] * row[1] + 0.3 * row[2] - 1.0);
            rows.push(&row);
        }
        (rows, values)
    }

    #[test]
    fn slopes_are_those_of_the_functions() {
        let (rows, values) = data(25);
        let numbers = [0.3, -0.2, 0.1, 0.2, -6.0];
        let mut slope = vec![0.0; 5];
        loss(&rows, &values, &numbers, &mut slope);
        for at in 0..5 {
            let moved = |by: f64| {
                let mut other = numbers;
                other[at] += by;
                loss(&rows, &values, &other, &mut [0.0; 5])
            };
            let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((numeric - slope[at]).abs() < 1e-4 * (1.0 + numeric.abs()), "{at}: {numeric} {}", slope[at]);
        }
        let model = Model::new(rows, values, &Kernel::from_numbers(&numbers)).unwrap();
        let row = [0.4, 0.7, 1.0];
        let (mut by_mean, mut by_variance) = (vec![0.0; 3], vec![0.0; 3]);
        let both = model.predict_with_slopes(&row, &mut by_mean, &mut by_variance);
        let plain = model.predict(&row);
        assert!((both.0 - plain.0).abs() + (both.1 - plain.1).abs() < 1e-12);
        for at in 0..2 {
            let moved = |by: f64| {
                let mut other = row;
                other[at] += by;
                model.predict(&other)
            };
            let (up, down) = (moved(1e-5), moved(-1e-5));
            assert!(((up.0 - down.0) / 2e-5 - by_mean[at]).abs() < 1e-5);
            assert!(((up.1 - down.1) / 2e-5 - by_variance[at]).abs() < 1e-5);
        }
    }

    #[test]
    fn it_learns_a_function() {
        let (rows, values) = data(60);
        let kernel = Kernel::fit(&rows, &values, &Kernel::broad(3), 100);
        assert!(kernel.loss(&rows, &values) < Kernel::broad(3).loss(&rows, &values));
        let model = Model::new(rows, values, &kernel).unwrap();
        for row in [[0.2, 0.3, 0.0], [0.8, 0.5, 1.0], [0.5, 0.9, 2.0]] {
            let truth: f64 = (3.0_f64 * row[0]).sin() + row[1] * row[1] + 0.3 * row[2] - 1.0;
            let (mean, variance) = model.predict(&row);
            assert!((mean - truth).abs() < 0.05, "{mean} {truth}");
            assert!(variance < 0.05);
        }
    }
}
