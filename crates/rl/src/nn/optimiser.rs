//! How gradients move parameters.

use serde::{Deserialize, Serialize};

/// Adam, over flat vectors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    /// Of the first moment.
    pub beta1: f32,
    /// Of the second moment.
    pub beta2: f32,
    /// Keeps the step finite where gradients are small.
    pub epsilon: f32,
    /// Steps that were taken.
    pub steps: u64,
    /// Running means of the gradients.
    pub first: Vec<f32>,
    /// Running means of their squares.
    pub second: Vec<f32>,
}

impl Adam {
    /// For so many parameters.
    #[must_use]
    pub fn new(len: usize, epsilon: f32) -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon, steps: 0, first: vec![0.0; len], second: vec![0.0; len] }
    }

    /// Whether it is for so many parameters.
    #[must_use]
    pub fn fits(&self, len: usize) -> bool {
        self.first.len() == len && self.second.len() == len
    }

    /// Moves the parameters against the gradients.
    pub fn step(&mut self, parameters: &mut [f32], gradients: &[f32], rate: f32) {
        self.steps += 1;
        let steps = self.steps.min(i32::MAX as u64) as i32;
        let (unbias1, unbias2) = (1.0 - self.beta1.powi(steps), 1.0 - self.beta2.powi(steps));
        pulp::Arch::new().dispatch(AdamStep {
            rate: rate / unbias1,
            unbias: 1.0 / unbias2.sqrt(),
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            parameters,
            gradients,
            first: &mut self.first,
            second: &mut self.second,
        });
    }
}

struct AdamStep<'a> {
    rate: f32,
    unbias: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    parameters: &'a mut [f32],
    gradients: &'a [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
}

impl pulp::NullaryFnOnce for AdamStep<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let moments = self.first.iter_mut().zip(self.second);
        for ((parameter, gradient), (first, second)) in self.parameters.iter_mut().zip(self.gradients).zip(moments) {
            *first = self.beta1 * *first + (1.0 - self.beta1) * gradient;
            *second = self.beta2 * *second + (1.0 - self.beta2) * gradient * gradient;
            *parameter -= self.rate * *first / (second.sqrt() * self.unbias + self.epsilon);
        }
    }
}

/// The length of a flat vector.
#[must_use]
pub fn norm(values: &[f32]) -> f32 {
    pulp::Arch::new().dispatch(SumOfSquares(values)).sqrt()
}

struct SumOfSquares<'a>(&'a [f32]);

impl pulp::NullaryFnOnce for SumOfSquares<'_> {
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        // Sixteen sums side by side, as floats may not be added in another order than written.
        let (chunks, rest) = self.0.as_chunks::<16>();
        let mut sums = [0.0_f32; 16];
        for chunk in chunks {
            sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum += value * value);
        }
        sums.iter().sum::<f32>() + rest.iter().map(|value| value * value).sum::<f32>()
    }
}

/// Shortens the vector to this length if it is longer, and returns how long it was.
pub fn clip_by_norm(values: &mut [f32], max: Option<f32>) -> f32 {
    let length = norm(values);
    if let Some(max) = max.filter(|max| length > *max) {
        let factor = max / (length + 1e-6);
        values.iter_mut().for_each(|value| *value *= factor);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::{Adam, clip_by_norm, norm};

    /// As torch.optim.Adam moves 1.0 by gradients 0.5, -0.2, 0.1 with lr 0.1.
    #[test]
    fn adam_moves_as_torch_s() {
        let mut adam = Adam::new(1, 1e-8);
        let mut parameters = [1.0_f32];
        let mut seen = Vec::new();
        for gradient in [0.5, -0.2, 0.1] {
            adam.step(&mut parameters, &[gradient], 0.1);
            seen.push(parameters[0]);
        }
        // m and v by hand in double precision.
        let (mut m, mut v, mut p) = (0.0_f64, 0.0_f64, 1.0_f64);
        for (step, gradient) in [0.5_f64, -0.2, 0.1].into_iter().enumerate() {
            m = 0.9 * m + 0.1 * gradient;
            v = 0.999 * v + 0.001 * gradient * gradient;
            let step = step as i32 + 1;
            p -= 0.1 * (m / (1.0 - 0.9_f64.powi(step))) / ((v / (1.0 - 0.999_f64.powi(step))).sqrt() + 1e-8);
            assert!((f64::from(seen[step as usize - 1]) - p).abs() < 1e-5, "{seen:?} {p}");
        }
    }

    #[test]
    fn long_gradients_are_shortened_and_others_left() {
        let mut values: Vec<f32> = (0..37).map(|at| at as f32).collect();
        let length = norm(&values);
        assert!((length - values.iter().map(|value| value * value).sum::<f32>().sqrt()).abs() < 1e-3);
        assert_eq!(clip_by_norm(&mut values, Some(1e9)), length);
        assert_eq!(values[36], 36.0);
        assert_eq!(clip_by_norm(&mut values, Some(0.5)), length);
        assert!((norm(&values) - 0.5).abs() < 1e-4);
    }
}
