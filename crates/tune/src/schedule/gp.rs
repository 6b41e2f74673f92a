//! A small Gaussian process whose truth drifts with time: what PB2 predicts gains with.
//!
//! The first input is the time. Two points covary by the squared distance of their other inputs, and the less the more time lies between them:
//! `variance * exp(-d^2 / length) * (1 - drift)^(dt / 2)`.

use super::chance::Chance;
use crate::triangle::{Triangle, dot};

/// What the kernel is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    variance: f64,
    length: f64,
    drift: f64,
    noise: f64,
}

/// A model of some points.
pub(super) struct Gp {
    kernel: Kernel,
    points: Vec<Vec<f64>>,
    /// The root of the covariances.
    root: Triangle,
    weights: Vec<f64>,
}

impl Kernel {
    /// The one under which these values are likeliest, of some that are tried.
    pub(super) fn fitted(points: &[Vec<f64>], values: &[f64], chance: &mut Chance) -> Self {
        const DRAWS: usize = 24;
        const STEPS: usize = 36;
        let start = Self { variance: 1.0, length: 1.0, drift: 0.1, noise: 0.1 };
        let likelihood = |kernel: &Self| Gp::new(*kernel, points.to_vec(), values).map(|gp| gp.likelihood(values));
        let mut best = (likelihood(&start).unwrap_or(f64::NEG_INFINITY), start);
        for attempt in 0..DRAWS + STEPS {
            let kernel = if attempt < DRAWS { Self::drawn(chance) } else { best.1.near(chance) };
            if let Some(value) = likelihood(&kernel).filter(|value| *value > best.0) {
                best = (value, kernel);
            }
        }
        best.1
    }

    fn drawn(chance: &mut Chance) -> Self {
        let mut between = |low: f64, high: f64| (low.ln() + (high / low).ln() * chance.unit()).exp();
        Self {
            variance: between(0.1, 5.0),
            length: between(0.02, 2.0),
            drift: between(1e-3, 0.5),
            noise: between(1e-3, 1.0),
        }
    }

    fn near(&self, chance: &mut Chance) -> Self {
        let mut step = |value: f64, low: f64, high: f64| (value * (0.3 * chance.normal()).exp()).clamp(low, high);
        Self {
            variance: step(self.variance, 0.05, 10.0),
            length: step(self.length, 0.01, 4.0),
            drift: step(self.drift, 1e-4, 0.5),
            noise: step(self.noise, 1e-4, 2.0),
        }
    }

    fn between(&self, a: &[f64], b: &[f64]) -> f64 {
        let distance: f64 = a[1..].iter().zip(&b[1..]).map(|(x, y)| (x - y) * (x - y)).sum();
        self.variance * (0.5 * (1.0 - self.drift).ln() * (a[0] - b[0]).abs() - distance / self.length).exp()
    }
}

impl Gp {
    /// None if the points' covariances cannot be taken apart, which noise makes rare.
    pub(super) fn new(kernel: Kernel, points: Vec<Vec<f64>>, values: &[f64]) -> Option<Self> {
        let mut root = Triangle::default();
        for (i, point) in points.iter().enumerate() {
            let mut row: Vec<f64> = points[..=i].iter().map(|other| kernel.between(point, other)).collect();
            row[i] += kernel.noise + 1e-9;
            if !root.extend_factor(row) {
                return None;
            }
        }
        let weights = root.solve_transposed(&root.solve(values));
        Some(Self { kernel, points, root, weights })
    }

    /// The logarithm of how likely the values are, less a constant.
    fn likelihood(&self, values: &[f64]) -> f64 {
        let spread: f64 = self.root.diagonal().map(f64::ln).sum();
        -0.5 * dot(values, &self.weights) - spread
    }

    /// What is expected at a point.
    pub(super) fn mean(&self, point: &[f64]) -> f64 {
        let kernel = &self.kernel;
        self.points.iter().zip(&self.weights).map(|(other, weight)| weight * kernel.between(point, other)).sum()
    }

    /// How unsure that is, as a standard deviation.
    pub(super) fn deviation(&self, point: &[f64]) -> f64 {
        let shared: Vec<f64> = self.points.iter().map(|other| self.kernel.between(point, other)).collect();
        let half = self.root.solve(&shared);
        (self.kernel.variance - dot(&half, &half)).max(0.0).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARP: Kernel = Kernel { variance: 1.0, length: 0.1, drift: 0.01, noise: 1e-6 };

    #[test]
    fn it_passes_through_what_it_has_seen_and_knows_nothing_far_away() {
        let points = vec![vec![0.0, 0.0], vec![0.0, 0.5], vec![0.0, 1.0]];
        let gp = Gp::new(SHARP, points.clone(), &[1.0, -1.0, 2.0]).unwrap();
        for (point, value) in points.iter().zip([1.0, -1.0, 2.0]) {
            assert!((gp.mean(point) - value).abs() < 1e-3 && gp.deviation(point) < 0.01);
        }
        assert!(gp.mean(&[0.0, 9.0]).abs() < 1e-6 && (gp.deviation(&[0.0, 9.0]) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_long_ago_counts_less() {
        let forgetful = Kernel { drift: 0.5, ..SHARP };
        let gp = Gp::new(forgetful, vec![vec![0.0, 0.5]], &[1.0]).unwrap();
        assert!(gp.mean(&[0.0, 0.5]) > gp.mean(&[1.0, 0.5]));
        assert!(gp.deviation(&[0.0, 0.5]) < gp.deviation(&[1.0, 0.5]));
    }

    #[test]
    fn the_root_of_the_covariances_gives_them_back() {
        let points: Vec<Vec<f64>> = (0..6).map(|i| vec![f64::from(i) / 6.0, f64::from(i * i % 7) / 7.0]).collect();
        let gp = Gp::new(Kernel { noise: 0.1, ..SHARP }, points.clone(), &[0.0; 6]).unwrap();
        for i in 0..6 {
            for j in 0..=i {
                let covariance = SHARP.between(&points[i], &points[j]) + if i == j { 0.1 } else { 0.0 };
                assert!((dot(gp.root.row(j), gp.root.row(i)) - covariance).abs() < 1e-6, "{i} {j}");
            }
        }
    }

    #[test]
    fn fitting_tells_a_smooth_truth_from_noise() {
        let mut chance = Chance::seeded(1);
        let points: Vec<Vec<f64>> = (0..40).map(|_| vec![0.0, chance.unit()]).collect();
        let smooth: Vec<f64> = points.iter().map(|point| (6.0 * point[1]).sin()).collect();
        let noisy: Vec<f64> = points.iter().map(|_| chance.normal()).collect();
        let (smooth, noisy) =
            (Kernel::fitted(&points, &smooth, &mut chance), Kernel::fitted(&points, &noisy, &mut chance));
        assert!(smooth.noise < 0.1 && noisy.noise > 0.3, "{smooth:?} {noisy:?}");
    }
}
