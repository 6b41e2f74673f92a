//! What may be chosen: domains of parameters, and which of them matter when.
//!
//! Searchers do not work on values but on coordinates: a number's place on an axis on which it is spread evenly (its logarithm, its
//! probability), or the index of a choice. A coordinate of a discrete number stands for the cell around it, half a step to each side.

use crate::normal;
use crate::rng::Rng;

/// Why a space is none.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// No value lies in the domain.
    #[error("parameter {0}: lower bound {1} and upper bound {2} contradict each other")]
    Bounds(String, f64, f64),
    /// Logarithms need positive numbers.
    #[error("parameter {0}: a logarithmic scale needs a lower bound above 0, not {1}")]
    Log(String, f64),
    /// A step or deviation is not positive.
    #[error("parameter {0}: {1} is no step or deviation")]
    Step(String, f64),
    /// There is nothing to choose from.
    #[error("parameter {0}: there is nothing to choose from")]
    Empty(String),
    /// A condition is on what is no choice, or comes later.
    #[error("parameter {0}: its condition is not on a choice that comes before it")]
    Condition(String),
}

/// The values that one parameter may take.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Floating point numbers, both ends included; with a step, `low`, `low + step`, and so on.
    Float {
        /// The least.
        low: f64,
        /// The greatest.
        high: f64,
        /// Whether orders of magnitude matter rather than distances.
        log: bool,
        /// The distance between two values, if there are not all.
        step: Option<f64>,
    },
    /// Integers, both ends included.
    Int {
        /// The least.
        low: i64,
        /// The greatest.
        high: i64,
        /// Whether orders of magnitude matter rather than distances.
        log: bool,
        /// The distance between two values.
        step: i64,
    },
    /// Numbers around a mean, without ends.
    Normal {
        /// Their mean.
        mean: f64,
        /// Their standard deviation.
        deviation: f64,
        /// They are multiples of this.
        step: Option<f64>,
    },
    /// One of so many.
    Choice {
        /// How many.
        count: u32,
    },
}

/// A value of a domain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Of `Domain::Float` and `Domain::Normal`.
    Float(f64),
    /// Of `Domain::Int`.
    Int(i64),
    /// Of `Domain::Choice`.
    Choice(u32),
}

/// A parameter counts only if that choice took one of those values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The choice's index in the space; less than that of the parameter itself.
    pub param: usize,
    /// Which choices.
    pub values: Vec<u32>,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// What messages call it.
    pub name: String,
    /// Its values.
    pub domain: Domain,
    /// It counts if all of these hold.
    pub when: Vec<Condition>,
}

/// One value per parameter, none where the parameter does not count.
pub type Point = Vec<Option<Value>>;

/// All parameters, each after those that it depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    params: Vec<Param>,
}

impl Space {
    /// Checks every domain and condition.
    pub fn new(params: Vec<Param>) -> Result<Self, Error> {
        for (at, param) in params.iter().enumerate() {
            param.domain.check(&param.name)?;
            for condition in &param.when {
                let is_choice = condition.param < at && matches!(params[condition.param].domain, Domain::Choice { .. });
                if !is_choice {
                    return Err(Error::Condition(param.name.clone()));
                }
            }
        }
        Ok(Self { params })
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.params.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.params.is_empty()
    }

    /// Whether a parameter counts, given those before it.
    #[must_use]
    pub fn is_active(&self, param: usize, before: &[Option<Value>]) -> bool {
        self.params[param].when.iter().all(|condition| match before[condition.param] {
            Some(Value::Choice(chosen)) => condition.values.contains(&chosen),
            _ => false,
        })
    }

    /// Whether a point has exactly the parameters that count, each with a value of its domain.
    #[must_use]
    pub fn contains(&self, point: &[Option<Value>]) -> bool {
        point.len() == self.len()
            && self.params.iter().enumerate().all(|(at, param)| match point[at] {
                Some(value) => self.is_active(at, point) && param.domain.contains(value),
                None => !self.is_active(at, point),
            })
    }

    /// A point whose coordinates `draw` gives, asked in order for the parameters that count.
    pub fn build(&self, mut draw: impl FnMut(usize, &Domain) -> f64) -> Point {
        let mut point = Point::with_capacity(self.len());
        for (at, param) in self.params.iter().enumerate() {
            let value = self.is_active(at, &point).then(|| param.domain.decode(draw(at, &param.domain)));
            point.push(value);
        }
        point
    }

    /// A random point.
    pub fn sample(&self, rng: &mut Rng) -> Point {
        self.build(|_, domain| domain.place(rng.unit()))
    }

    /// The coordinates of a point; not a number where a parameter does not count.
    #[must_use]
    pub fn encode(&self, point: &[Option<Value>]) -> Vec<f64> {
        self.params.iter().zip(point).map(|(param, value)| value.map_or(f64::NAN, |v| param.domain.encode(v))).collect()
    }
}

impl Domain {
    fn check(&self, name: &str) -> Result<(), Error> {
        let bounds = |low: f64, high: f64, log: bool| {
            if !(low.is_finite() && high.is_finite() && low <= high) {
                return Err(Error::Bounds(name.into(), low, high));
            }
            if log && low <= 0.0 { Err(Error::Log(name.into(), low)) } else { Ok(()) }
        };
        let positive = |step: f64| {
            if step > 0.0 && step.is_finite() { Ok(()) } else { Err(Error::Step(name.into(), step)) }
        };
        match *self {
            Self::Float { low, high, log, step } => bounds(low, high, log).and_then(|()| step.map_or(Ok(()), positive)),
            Self::Int { low, high, log, step } => {
                bounds(low as f64, high as f64, log).and_then(|()| positive(step as f64))
            }
            Self::Normal { mean, deviation, step } => bounds(mean, mean, false)
                .and_then(|()| positive(deviation))
                .and_then(|()| step.map_or(Ok(()), positive)),
            Self::Choice { count } => {
                if count == 0 {
                    Err(Error::Empty(name.into()))
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Whether a value is one of its own.
    #[must_use]
    pub fn contains(&self, value: Value) -> bool {
        match (self, value) {
            (Self::Float { low, high, step, .. }, Value::Float(x)) => {
                let is_on_step = step.is_none_or(|step| {
                    let steps = (x - low) / step;
                    (steps - steps.round()).abs() < 1e-6
                });
                *low <= x && x <= *high && is_on_step
            }
            (Self::Int { low, high, step, .. }, Value::Int(x)) => *low <= x && x <= *high && (x - low) % step == 0,
            (Self::Normal { step, .. }, Value::Float(x)) => {
                x.is_finite() && step.is_none_or(|step| ((x / step) - (x / step).round()).abs() < 1e-6)
            }
            (Self::Choice { count }, Value::Choice(x)) => x < *count,
            _ => false,
        }
    }

    /// How many values there are, if they can be counted.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        match *self {
            Self::Float { low, high, step: Some(step), .. } => Some(((high - low) / step + 1e-9) as u64 + 1),
            Self::Float { low, high, step: None, .. } => (low == high).then_some(1),
            Self::Int { low, high, step, .. } => Some(high.abs_diff(low) / step.unsigned_abs() + 1),
            Self::Normal { .. } => None,
            Self::Choice { count } => Some(u64::from(count)),
        }
    }

    /// Whether there is only one value.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        self.count() == Some(1)
    }

    /// Whether its coordinates are indices, without an order.
    #[must_use]
    pub fn is_choice(&self) -> bool {
        matches!(self, Self::Choice { .. })
    }

    /// Between which coordinates it lies.
    #[must_use]
    pub fn bounds(&self) -> (f64, f64) {
        match *self {
            Self::Float { low, high, log, step } => {
                let half = step.map_or(0.0, |step| step / 2.0);
                // Half a step below the least may be no logarithm.
                if log { ((low - half).max(low / 2.0).ln(), (high + half).ln()) } else { (low - half, high + half) }
            }
            Self::Int { low, high, log, step } => {
                let (low, high, half) = (low as f64, high as f64, step as f64 / 2.0);
                if log { ((low - half).max(low / 2.0).ln(), (high + half).ln()) } else { (low - half, high + half) }
            }
            Self::Normal { .. } => (0.0, 1.0),
            Self::Choice { count } => (0.0, f64::from(count)),
        }
    }

    /// The coordinate of a value.
    #[must_use]
    pub fn encode(&self, value: Value) -> f64 {
        match (self, value) {
            (Self::Float { log: true, .. }, Value::Float(x)) => x.ln(),
            (Self::Float { .. }, Value::Float(x)) => x,
            (Self::Int { log: true, .. }, Value::Int(x)) => (x as f64).ln(),
            (Self::Normal { mean, deviation, .. }, Value::Float(x)) => normal::cdf((x - mean) / deviation),
            (_, Value::Int(x)) => x as f64,
            (_, Value::Choice(x)) => f64::from(x),
            (_, Value::Float(x)) => x,
        }
    }

    /// The value nearest to a coordinate, whatever that is.
    #[must_use]
    pub fn decode(&self, coordinate: f64) -> Value {
        let (from, to) = self.bounds();
        let at = if coordinate.is_nan() { f64::midpoint(from, to) } else { coordinate.clamp(from, to) };
        match *self {
            Self::Float { low, high, log, step } => {
                let x = if log { at.exp() } else { at };
                let x = step.map_or(x, |step| {
                    let last = ((high - low) / step + 1e-9).floor();
                    low + ((x - low) / step).round().clamp(0.0, last) * step
                });
                Value::Float(x.clamp(low, high))
            }
            Self::Int { low, high, log, step } => {
                let x = if log { at.exp() } else { at };
                let last = (high - low) / step;
                let steps = ((x - low as f64) / step as f64).round() as i64;
                Value::Int(low + steps.clamp(0, last) * step)
            }
            Self::Normal { mean, deviation, step } => {
                let x = mean + deviation * normal::quantile(at.clamp(1e-12, 1.0 - 1e-12));
                Value::Float(step.map_or(x, |step| (x / step).round() * step))
            }
            Self::Choice { count } => Value::Choice((at as u32).min(count - 1)),
        }
    }

    /// The coordinate that lies at a share of the way between the bounds.
    #[must_use]
    pub fn place(&self, unit: f64) -> f64 {
        let (low, high) = self.bounds();
        low + unit * (high - low)
    }

    /// At which share of the way between the bounds a coordinate lies.
    #[must_use]
    pub fn unit(&self, coordinate: f64) -> f64 {
        let (low, high) = self.bounds();
        if high > low { ((coordinate - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
    }
}
