//! What parameters are before training.

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::nn::Real;

/// How parameters are drawn before training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Weights of a layer are at right angles to each other, as long as its gain says; biases are zero.
    #[default]
    Orthogonal,
    /// Weights and biases lie evenly between plus and minus one by the root of how many numbers go in: torch's default. Q-learning that
    /// follows its targets closely needs these smaller beginnings.
    Uniform,
}

impl Start {
    /// Sets the weights, which lie with a row per input, and the biases of one layer.
    pub(crate) fn layer<T: Real>(self, gain: Gain, weight: &mut [T], bias: &mut [T], chance: &mut Chance) {
        let (rows, columns) = (bias.len(), weight.len() / bias.len().max(1));
        match self {
            Self::Orthogonal => {
                gain.orthogonal(weight, rows, columns, chance);
                bias.fill(T::ZERO);
            }
            Self::Uniform => {
                uniform(weight, columns, chance);
                uniform(bias, columns, chance);
            }
        }
    }
}

fn uniform<T: Real>(into: &mut [T], inputs: usize, chance: &mut Chance) {
    let most = 1.0 / (inputs.max(1) as f64).sqrt();
    into.iter_mut().for_each(|value| *value = T::of(chance.uniform(-most, most)));
}

/// How large the weights of a layer are to begin with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gain(pub(crate) f64);

impl Gain {
    /// Of layers with others behind them.
    pub(crate) const HIDDEN: Self = Self(std::f64::consts::SQRT_2);
    /// Of what chooses actions: all are about as likely at first.
    pub(crate) const POLICY: Self = Self(0.01);
    /// Of what values states.
    pub(crate) const VALUE: Self = Self(1.0);

    /// Fills a matrix, which lies column by column, with rows (or columns, if there are fewer) of this length that are at right angles to each
    /// other.
    pub(crate) fn orthogonal<T: Real>(self, into: &mut [T], rows: usize, columns: usize, chance: &mut Chance) {
        let (count, length) = (rows.min(columns), rows.max(columns));
        let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(count);
        while vectors.len() < count {
            let mut vector: Vec<f64> = (0..length).map(|_| chance.normal()).collect();
            let (mut size, mut before) = (dot(&vector, &vector).sqrt(), f64::INFINITY);
            // Once more where little is left: that is largely what rounding brought.
            while size > 1e-6 && size < 0.7 * before {
                before = size;
                for other in &vectors {
                    let along = dot(&vector, other);
                    vector.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
                }
                size = dot(&vector, &vector).sqrt();
            }
            if size > 1e-6 {
                vector.iter_mut().for_each(|a| *a /= size);
                vectors.push(vector);
            }
        }
        for (at, value) in into.iter_mut().enumerate() {
            let (row, column) = (at % rows, at / rows);
            let (vector, place) = if rows <= columns { (row, column) } else { (column, row) };
            *value = T::of(self.0 * vectors[vector][place]);
        }
    }
}

/// Sixteen sums side by side, as floats may not be added in another order than written: pictures have rows of many thousands.
fn dot(one: &[f64], other: &[f64]) -> f64 {
    let ((ones, rest), (others, other_rest)) = (one.as_chunks::<16>(), other.as_chunks::<16>());
    let mut sums = [0.0; 16];
    for (one, other) in ones.iter().zip(others) {
        sums.iter_mut().zip(one.iter().zip(other)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum::<f64>() + rest.iter().zip(other_rest).map(|(a, b)| a * b).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::{Gain, Start};
    use crate::chance::Chance;

    #[test]
    fn even_ones_reach_one_by_the_root_of_the_inputs_and_no_further() {
        let (mut weight, mut bias) = (vec![9.0_f64; 400 * 16], vec![9.0_f64; 400]);
        Start::Uniform.layer(Gain::HIDDEN, &mut weight, &mut bias, &mut Chance::seeded(2));
        for values in [weight, bias] {
            let most = values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            assert!(most <= 0.25 && most > 0.24 && mean.abs() < 0.03, "{most} {mean}");
        }
    }

    #[test]
    fn rows_or_columns_are_at_right_angles_and_of_the_gain_s_length() {
        for (rows, columns) in [(4, 9), (9, 4), (5, 5), (1, 3)] {
            let mut values = vec![0.0_f64; rows * columns];
            Gain(2.0).orthogonal(&mut values, rows, columns, &mut Chance::seeded(7));
            let at = |vector: usize, place: usize| {
                if rows <= columns { values[place * rows + vector] } else { values[vector * rows + place] }
            };
            for a in 0..rows.min(columns) {
                for b in 0..rows.min(columns) {
                    let product: f64 = (0..rows.max(columns)).map(|place| at(a, place) * at(b, place)).sum();
                    assert!((product - if a == b { 4.0 } else { 0.0 }).abs() < 1e-12);
                }
            }
        }
    }
}
