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
        self.step_by(parameters, gradients, 1.0, rate);
    }

    /// The same by so many times the gradients.
    pub fn step_by(&mut self, parameters: &mut [f32], gradients: &[f32], factor: f32, rate: f32) {
        self.steps += 1;
        let steps = self.steps.min(i32::MAX as u64) as i32;
        let (unbias1, unbias2) = (1.0 - self.beta1.powi(steps), 1.0 - self.beta2.powi(steps));
        pulp::Arch::new().dispatch(AdamStep {
            rate: rate / unbias1,
            unbias: 1.0 / unbias2.sqrt(),
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            factor,
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
    factor: f32,
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
            let gradient = self.factor * gradient;
            *first = self.beta1 * *first + (1.0 - self.beta1) * gradient;
            *second = self.beta2 * *second + (1.0 - self.beta2) * gradient * gradient;
            *parameter -= self.rate * *first / (second.sqrt() * self.unbias + self.epsilon);
        }
    }
}

/// RMSprop, over flat vectors: gradients in units of their own usual size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RmsProp {
    /// How much of the running mean stays.
    pub decay: f32,
    /// How much of the last movement goes on.
    pub momentum: f32,
    /// Keeps the step finite where gradients are small.
    pub epsilon: f32,
    /// Whether epsilon is added below the root instead of behind it.
    pub is_tf_like: bool,
    /// Running means of the gradients' squares.
    pub squares: Vec<f32>,
    /// What goes on by momentum; empty without.
    pub moving: Vec<f32>,
}

impl RmsProp {
    /// For so many parameters. As torch has it; or as TensorFlow's first had it and Stable-Baselines3 kept it: then running means begin at one.
    #[must_use]
    pub fn new(len: usize, decay: f32, momentum: f32, epsilon: f32, is_tf_like: bool) -> Self {
        let squares = vec![if is_tf_like { 1.0 } else { 0.0 }; len];
        let moving = vec![0.0; if momentum > 0.0 { len } else { 0 }];
        Self { decay, momentum, epsilon, is_tf_like, squares, moving }
    }

    /// Moves the parameters against the gradients.
    pub fn step(&mut self, parameters: &mut [f32], gradients: &[f32], rate: f32) {
        self.step_by(parameters, gradients, 1.0, rate);
    }

    /// The same by so many times the gradients.
    pub fn step_by(&mut self, parameters: &mut [f32], gradients: &[f32], factor: f32, rate: f32) {
        pulp::Arch::new().dispatch(RmsPropStep { rate, factor, of: self, parameters, gradients });
    }
}

struct RmsPropStep<'a> {
    rate: f32,
    factor: f32,
    of: &'a mut RmsProp,
    parameters: &'a mut [f32],
    gradients: &'a [f32],
}

impl pulp::NullaryFnOnce for RmsPropStep<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let RmsProp { decay, momentum, epsilon, is_tf_like, squares, moving } = self.of;
        let (decay, momentum, rate, factor) = (*decay, *momentum, self.rate, self.factor);
        // One of the two is zero.
        let (below, behind) = if *is_tf_like { (*epsilon, 0.0) } else { (0.0, *epsilon) };
        let rows = self.parameters.iter_mut().zip(self.gradients).zip(squares);
        let step = |gradient: f32, square: &mut f32| {
            let gradient = factor * gradient;
            *square = decay * *square + (1.0 - decay) * gradient * gradient;
            gradient / ((*square + below).sqrt() + behind)
        };
        if moving.is_empty() {
            rows.for_each(|((parameter, gradient), square)| *parameter -= rate * step(*gradient, square));
            return;
        }
        for (((parameter, gradient), square), moving) in rows.zip(moving) {
            *moving = momentum * *moving + step(*gradient, square);
            *parameter -= rate * *moving;
        }
    }
}

/// Which optimiser, before it knows its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimiserSpec {
    /// Adam.
    Adam {
        /// Keeps the step finite where gradients are small.
        epsilon: f32,
    },
    /// RMSprop; its fields are those of [`RmsProp`].
    RmsProp {
        /// How much of the running mean stays.
        decay: f32,
        /// How much of the last movement goes on.
        momentum: f32,
        /// Keeps the step finite where gradients are small.
        epsilon: f32,
        /// Whether epsilon is added below the root instead of behind it.
        is_tf_like: bool,
    },
}

/// One of the optimisers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Optimiser {
    /// Adam.
    Adam(Adam),
    /// RMSprop.
    RmsProp(RmsProp),
}

impl Optimiser {
    /// The one that is specified, for so many parameters.
    #[must_use]
    pub fn new(spec: &OptimiserSpec, len: usize) -> Self {
        match *spec {
            OptimiserSpec::Adam { epsilon } => Self::Adam(Adam::new(len, epsilon)),
            OptimiserSpec::RmsProp { decay, momentum, epsilon, is_tf_like } => {
                Self::RmsProp(RmsProp::new(len, decay, momentum, epsilon, is_tf_like))
            }
        }
    }

    /// Whether it can go on where the other is: the same kind, for as many parameters.
    #[must_use]
    pub fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Adam(adam), Self::Adam(other)) => adam.fits(other.first.len()),
            (Self::RmsProp(this), Self::RmsProp(other)) => {
                this.is_tf_like == other.is_tf_like
                    && this.squares.len() == other.squares.len()
                    && this.moving.len() == other.moving.len()
            }
            _ => false,
        }
    }

    /// Moves the parameters against so many times the gradients.
    pub fn step_by(&mut self, parameters: &mut [f32], gradients: &[f32], factor: f32, rate: f32) {
        match self {
            Self::Adam(adam) => adam.step_by(parameters, gradients, factor, rate),
            Self::RmsProp(rms_prop) => rms_prop.step_by(parameters, gradients, factor, rate),
        }
    }

    /// Gives away what it knows of the parameters from this one on.
    #[must_use]
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::Adam(adam) => {
                let (first, second) = (adam.first.split_off(at), adam.second.split_off(at));
                Self::Adam(Adam { first, second, ..*adam })
            }
            Self::RmsProp(rms_prop) => {
                let squares = rms_prop.squares.split_off(at);
                let moving = rms_prop.moving.split_off(at.min(rms_prop.moving.len()));
                Self::RmsProp(RmsProp { squares, moving, ..*rms_prop })
            }
        }
    }

    /// Takes that back.
    pub(crate) fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::Adam(adam), Self::Adam(mut other)) => {
                adam.first.append(&mut other.first);
                adam.second.append(&mut other.second);
            }
            (Self::RmsProp(rms_prop), Self::RmsProp(mut other)) => {
                rms_prop.squares.append(&mut other.squares);
                rms_prop.moving.append(&mut other.moving);
            }
            _ => unreachable!("it was split off from this one"),
        }
    }
}

/// The length of a flat vector.
#[must_use]
pub fn norm(values: &[f32]) -> f32 {
    sum_of_squares(values).sqrt()
}

/// The squared length of a flat vector.
pub(crate) fn sum_of_squares(values: &[f32]) -> f32 {
    pulp::Arch::new().dispatch(SumOfSquares(values))
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

/// What to multiply a vector of this length with to make it no longer than the most.
pub(crate) fn clip_factor(length: f32, max: Option<f32>) -> f32 {
    max.filter(|max| length > *max).map_or(1.0, |max| max / (length + 1e-6))
}

/// Shortens the vector to this length if it is longer, and returns how long it was.
pub fn clip_by_norm(values: &mut [f32], max: Option<f32>) -> f32 {
    let length = norm(values);
    let factor = clip_factor(length, max);
    if factor < 1.0 {
        values.iter_mut().for_each(|value| *value *= factor);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::{Adam, Optimiser, OptimiserSpec, RmsProp, clip_by_norm, norm};

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

    /// The definition in double precision, one parameter after the other.
    #[test]
    fn rms_prop_moves_as_it_is_defined() {
        for (momentum, is_tf_like) in [(0.0, false), (0.9, false), (0.0, true), (0.5, true)] {
            let (decay, epsilon, rate) = (0.9, 0.05, 0.1);
            let mut rms_prop = RmsProp::new(37, decay, momentum, epsilon, is_tf_like);
            let mut parameters: Vec<f32> = (0..37).map(|at| at as f32 / 10.0).collect();
            let mut expected: Vec<(f64, f64, f64)> = Vec::new();
            let start = if is_tf_like { 1.0 } else { 0.0 };
            expected.extend(parameters.iter().map(|parameter| (f64::from(*parameter), start, 0.0)));
            for round in 0..4 {
                let gradients: Vec<f32> = (0..37).map(|at| ((at * 7 + round * 5) % 11) as f32 / 5.0 - 1.0).collect();
                rms_prop.step(&mut parameters, &gradients, rate);
                for (at, (value, square, moving)) in expected.iter_mut().enumerate() {
                    let (gradient, decay) = (f64::from(gradients[at]), f64::from(decay));
                    *square = decay * *square + (1.0 - decay) * gradient * gradient;
                    let epsilon = f64::from(epsilon);
                    let size = if is_tf_like { (*square + epsilon).sqrt() } else { square.sqrt() + epsilon };
                    *moving = f64::from(momentum) * *moving + gradient / size;
                    *value -= f64::from(rate) * *moving;
                    assert!((f64::from(parameters[at]) - *value).abs() < 1e-5, "{at}: {} {value}", parameters[at]);
                }
            }
        }
    }

    #[test]
    fn parts_of_an_optimiser_move_as_the_whole() {
        let rms = |momentum| OptimiserSpec::RmsProp { decay: 0.9, momentum, epsilon: 0.1, is_tf_like: true };
        for spec in [OptimiserSpec::Adam { epsilon: 1e-8 }, rms(0.0), rms(0.9)] {
            let (mut whole, mut parted) = (Optimiser::new(&spec, 5), Optimiser::new(&spec, 5));
            let (mut one, mut other) = ([1.0; 5], [1.0; 5]);
            for round in 0..3 {
                let gradients = [0, 1, 2, 3, 4].map(|at| at as f32 - 1.5 * round as f32);
                whole.step_by(&mut one, &gradients, 0.5, 0.1);
                let mut behind = parted.split_off(2);
                parted.step_by(&mut other[..2], &gradients[..2], 0.5, 0.1);
                behind.step_by(&mut other[2..], &gradients[2..], 0.5, 0.1);
                parted.append(behind);
                assert_eq!((&one, &whole), (&other, &parted));
            }
        }
    }

    #[test]
    fn an_optimiser_goes_on_only_from_its_own_kind() {
        let rms = |momentum, is_tf_like| OptimiserSpec::RmsProp { decay: 0.9, momentum, epsilon: 0.1, is_tf_like };
        let specs = [OptimiserSpec::Adam { epsilon: 1e-8 }, rms(0.0, false), rms(0.9, false), rms(0.0, true)];
        for (at, one) in specs.iter().enumerate() {
            for (other_at, other) in specs.iter().enumerate() {
                assert_eq!(Optimiser::new(one, 3).fits(&Optimiser::new(other, 3)), at == other_at);
                assert!(!Optimiser::new(one, 3).fits(&Optimiser::new(other, 4)));
            }
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
