//! A Parzen estimator: one kernel around each observation, and a broad one for what was never tried.
//!
//! HOT: at a thousand trials, most of a suggestion's time. Kernels lie dimension by dimension, so that inner loops run over plain slices.

use rustc_hash::FxHashMap;

use crate::normal;
use crate::rng::Rng;
use crate::space::Domain;

/// How far, in deviations, a bound must be to cut nothing off.
const FAR: f64 = 8.5;
/// Up to this many deviations wide, a cell's probability is its width times the density in its middle.
const NARROW: f64 = 0.15;

/// How many times narrower than evenly spread kernels a kernel may be. Measured from 150 seeds with 100 trials: at 1, the best value on
/// Branin is half as good; at 3, that on ten dimensions gets worse.
const NARROWEST: f64 = 1.5;

/// A mixture of kernels over some parameters.
pub(crate) struct Parzen<'a> {
    axes: Vec<Axis<'a>>,
    weights: Vec<f64>,
    weight_sum: f64,
    /// ln of weight over sum and all that does not depend on the point.
    constants: Vec<f64>,
}

/// Room to work in, and the probabilities of cells, which are costly and come up again and again.
#[derive(Default)]
pub(crate) struct Desk {
    terms: Vec<f64>,
    cells: FxHashMap<(usize, u64), Vec<f64>>,
}

enum Axis<'a> {
    Numeric {
        domain: &'a Domain,
        low: f64,
        high: f64,
        means: Vec<f64>,
        inverse_deviations: Vec<f64>,
        is_discrete: bool,
    },
    Choice {
        count: f64,
        observed: Vec<f64>,
    },
}

impl<'a> Parzen<'a> {
    /// Observations lie one after the other, the oldest first, each with one coordinate per domain.
    pub(crate) fn new(domains: &[&'a Domain], observations: &[&[f64]], columns: &[usize], prior_weight: f64) -> Self {
        let mut weights = age_weights(observations.len());
        weights.push(if observations.is_empty() { 1.0 } else { prior_weight });
        let weight_sum: f64 = weights.iter().sum();
        let mut constants: Vec<f64> = weights.iter().map(|weight| (weight / weight_sum).ln()).collect();
        let axes = domains
            .iter()
            .zip(columns)
            .map(|(domain, &column)| {
                let observed = observations.iter().map(|at| at[column]).collect();
                if let Domain::Choice { count } = domain {
                    Axis::Choice { count: f64::from(*count), observed }
                } else {
                    Axis::numeric(domain, observed, &mut constants)
                }
            })
            .collect();
        Self { axes, weights, weight_sum, constants }
    }

    /// A random point.
    pub(crate) fn sample(&self, rng: &mut Rng) -> Vec<f64> {
        let kernel = rng.pick(&self.weights, self.weight_sum);
        self.axes.iter().map(|axis| axis.sample(kernel, self.weights.len(), rng)).collect()
    }

    /// The logarithm of the density at a point. `desk` is this estimator's own room to work in.
    pub(crate) fn log_density(&self, point: &[f64], desk: &mut Desk) -> f64 {
        let Desk { terms, cells } = desk;
        terms.clear();
        terms.extend_from_slice(&self.constants);
        for (at, (axis, &x)) in self.axes.iter().zip(point).enumerate() {
            if matches!(axis, Axis::Numeric { is_discrete: true, .. }) {
                let known = cells.entry((at, x.to_bits())).or_insert_with(|| {
                    let mut own = vec![0.0; self.constants.len()];
                    axis.add_log_densities(x, &mut own);
                    own
                });
                terms.iter_mut().zip(known).for_each(|(term, own)| *term += *own);
            } else {
                axis.add_log_densities(x, terms);
            }
        }
        let greatest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if greatest == f64::NEG_INFINITY {
            return greatest;
        }
        // What is e^-40 of the greatest adds nothing that a double could show.
        let sum: f64 = terms.iter().map(|term| term - greatest).filter(|term| *term > -40.0).map(f64::exp).sum();
        greatest + sum.ln()
    }
}

impl<'a> Axis<'a> {
    fn numeric(domain: &'a Domain, observed: Vec<f64>, constants: &mut [f64]) -> Self {
        let (low, high) = domain.bounds();
        let mut means = observed;
        let mut deviations = spreads(&means, low, high);
        means.push(f64::midpoint(low, high));
        deviations.push(high - low);
        let is_discrete = domain.count().is_some();
        let kernels = means.iter().zip(&deviations).zip(constants);
        for ((mean, deviation), constant) in kernels {
            let (a, b) = ((low - mean) / deviation, (high - mean) / deviation);
            if a > -FAR || b < FAR {
                *constant -= normal::log_mass(a, b);
            }
            if !is_discrete {
                *constant -= deviation.ln() + normal::LOG_SQRT_2PI;
            }
        }
        let inverse_deviations = deviations.iter().map(|deviation| 1.0 / deviation).collect();
        Self::Numeric { domain, low, high, means, inverse_deviations, is_discrete }
    }

    fn sample(&self, kernel: usize, kernels: usize, rng: &mut Rng) -> f64 {
        match self {
            Self::Numeric { domain, low, high, means, inverse_deviations, .. } => {
                let (mean, inverse) = (means[kernel], inverse_deviations[kernel]);
                let z = normal::truncated((low - mean) * inverse, (high - mean) * inverse, rng.unit());
                domain.encode(domain.decode(mean + z / inverse))
            }
            Self::Choice { count, observed } => {
                let other = 1.0 / kernels as f64;
                match observed.get(kernel) {
                    Some(&own) if rng.unit() < 1.0 / (1.0 + count * other) => own,
                    _ => rng.below(*count as u64) as f64,
                }
            }
        }
    }

    fn add_log_densities(&self, x: f64, terms: &mut [f64]) {
        match self {
            Self::Numeric { means, inverse_deviations, is_discrete: false, .. } => {
                for ((term, mean), inverse) in terms.iter_mut().zip(means).zip(inverse_deviations) {
                    let z = (x - mean) * inverse;
                    *term -= 0.5 * z * z;
                }
            }
            Self::Numeric { domain, means, inverse_deviations, low, high, .. } => {
                let (from, to) = cell(domain, x, *low, *high);
                let (middle, width) = (f64::midpoint(from, to), to - from);
                for ((term, mean), inverse) in terms.iter_mut().zip(means).zip(inverse_deviations) {
                    *term += if width * inverse < NARROW {
                        normal::log_pdf((middle - mean) * inverse) + (width * inverse).ln()
                    } else {
                        normal::log_mass((from - mean) * inverse, (to - mean) * inverse)
                    };
                }
            }
            Self::Choice { count, observed } => {
                let other = 1.0 / terms.len() as f64;
                let sum = 1.0 + count * other;
                let (hit, miss) = (((1.0 + other) / sum).ln(), (other / sum).ln());
                for (term, own) in terms.iter_mut().zip(observed) {
                    *term += if *own == x { hit } else { miss };
                }
                if let Some(prior) = terms.last_mut() {
                    *prior -= count.ln();
                }
            }
        }
    }
}

/// Between which coordinates a discrete number's own cell lies.
fn cell(domain: &Domain, x: f64, low: f64, high: f64) -> (f64, f64) {
    let (step, log) = match *domain {
        Domain::Int { step, log, .. } => (step as f64, log),
        Domain::Float { step, log, .. } => (step.unwrap_or(0.0), log),
        Domain::Normal { .. } | Domain::Choice { .. } => (0.0, false),
    };
    let half = step / 2.0;
    if log {
        let value = x.exp();
        ((value - half).max(low.exp()).ln(), (value + half).ln().min(high))
    } else {
        (x - half, x + half)
    }
}

/// The older of more than 25 observations count less.
fn age_weights(count: usize) -> Vec<f64> {
    const FULL: usize = 25;
    if count <= FULL {
        return vec![1.0; count];
    }
    let ramp = count - FULL;
    let least = 1.0 / count as f64;
    let slope = if ramp > 1 { (1.0 - least) / (ramp - 1) as f64 } else { 0.0 };
    (0..count).map(|at| if at < ramp { least + slope * at as f64 } else { 1.0 }).collect()
}

/// A kernel is as wide as the farther of its two neighbours is away, but never so narrow that it sees nothing but itself.
fn spreads(means: &[f64], low: f64, high: f64) -> Vec<f64> {
    let count = means.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_unstable_by(|&a, &b| means[a].total_cmp(&means[b]));
    let widest = high - low;
    let narrowest = widest / (NARROWEST * (count as f64 + 2.0)).min(100.0);
    let mut spreads = vec![widest; count];
    for (place, &at) in order.iter().enumerate() {
        let left = if place > 0 { means[at] - means[order[place - 1]] } else { means[at] - low };
        let right = if place + 1 < count { means[order[place + 1]] - means[at] } else { high - means[at] };
        // The first and the last look inwards only: the bounds are no observations.
        let spread = match (count > 1, place) {
            (true, 0) => right,
            (true, last) if last + 1 == count => left,
            _ => left.max(right),
        };
        spreads[at] = spread.clamp(narrowest, widest);
    }
    spreads
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(domain: &Domain, observed: &[f64]) -> f64 {
        let rows: Vec<[f64; 1]> = observed.iter().map(|x| [*x]).collect();
        let rows: Vec<&[f64]> = rows.iter().map(|row| row.as_slice()).collect();
        let parzen = Parzen::new(&[domain], &rows, &[0], 1.0);
        let mut desk = Desk::default();
        match domain.count() {
            Some(count) => {
                let values = (0..count).map(|at| match *domain {
                    Domain::Choice { .. } => at as f64,
                    Domain::Int { low, step, log, .. } => {
                        let value = (low + at as i64 * step) as f64;
                        if log { value.ln() } else { value }
                    }
                    _ => unreachable!("no other domain is counted here"),
                });
                values.map(|x| parzen.log_density(&[x], &mut desk).exp()).sum()
            }
            None => {
                let (low, high) = domain.bounds();
                let width = (high - low) / 20_000.0;
                (0..20_000)
                    .map(|at| low + (f64::from(at) + 0.5) * width)
                    .map(|x| parzen.log_density(&[x], &mut desk).exp() * width)
                    .sum()
            }
        }
    }

    #[test]
    fn densities_add_up_to_one() {
        let float = Domain::Float { low: -1.0, high: 3.0, log: false, step: None };
        let log = Domain::Float { low: 1e-4, high: 1.0, log: true, step: None };
        let int = Domain::Int { low: 1, high: 20, log: false, step: 1 };
        let log_int = Domain::Int { low: 1, high: 64, log: true, step: 1 };
        let choice = Domain::Choice { count: 4 };
        for observed in [vec![], vec![0.0], vec![0.0, 1.0, 3.0], (0..60).map(|at| f64::from(at % 3)).collect()] {
            for domain in [&float, &int, &log_int, &choice] {
                let sum = total(domain, &observed);
                assert!((sum - 1.0).abs() < 0.01, "{domain:?} {observed:?}: {sum}");
            }
            let sum = total(&log, &observed.iter().map(|x| -x - 0.1).collect::<Vec<_>>());
            assert!((sum - 1.0).abs() < 0.01, "{sum}");
        }
    }

    #[test]
    fn samples_come_from_where_observations_are() {
        let domain = Domain::Float { low: 0.0, high: 1.0, log: false, step: None };
        let rows: Vec<[f64; 1]> = (0..20).map(|at| [0.8 + f64::from(at) * 0.001]).collect();
        let rows: Vec<&[f64]> = rows.iter().map(|row| row.as_slice()).collect();
        let parzen = Parzen::new(&[&domain], &rows, &[0], 1.0);
        let mut rng = Rng::seeded(5);
        let near = (0..1000).filter(|_| (parzen.sample(&mut rng)[0] - 0.81).abs() < 0.15).count();
        assert!(near > 900, "{near}");
    }
}
