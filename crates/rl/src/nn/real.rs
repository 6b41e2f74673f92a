//! The two float types that networks are computed in: `f32` to train, `f64` to check gradients by.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

/// A float that networks are computed in.
pub trait Real:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + Sum
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + super::product::Product
    + 'static
{
    /// Nothing.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// The nearest there is.
    fn of(value: f64) -> Self;
    /// As a number of the larger type.
    fn wide(self) -> f64;
    /// From a column.
    fn from_f32(value: f32) -> Self;
    /// e to this.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// Of each.
    fn tanh_all(values: &mut [Self]);
    /// Of each behind what is added to each row.
    fn tanh_rows(rows: &mut [Self], added: &[Self]);

    /// The larger one.
    #[inline]
    fn at_least(self, other: Self) -> Self {
        if self < other { other } else { self }
    }

    /// The smaller one.
    #[inline]
    fn at_most(self, other: Self) -> Self {
        if self > other { other } else { self }
    }
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[inline]
    fn of(value: f64) -> Self {
        value as Self
    }

    #[inline]
    fn wide(self) -> f64 {
        f64::from(self)
    }

    #[inline]
    fn from_f32(value: f32) -> Self {
        value
    }

    #[inline]
    fn exp(self) -> Self {
        f32::exp(self)
    }

    #[inline]
    fn ln(self) -> Self {
        f32::ln(self)
    }

    #[inline]
    fn sqrt(self) -> Self {
        f32::sqrt(self)
    }

    fn tanh_all(values: &mut [Self]) {
        pulp::Arch::new().dispatch(TanhAll(values));
    }

    fn tanh_rows(rows: &mut [Self], added: &[Self]) {
        pulp::Arch::new().dispatch(TanhRows(rows, added));
    }
}

struct TanhRows<'a>(&'a mut [f32], &'a [f32]);

impl pulp::NullaryFnOnce for TanhRows<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for row in self.0.chunks_exact_mut(self.1.len()) {
            for (value, added) in row.iter_mut().zip(self.1) {
                *value = tanh(*value + *added);
            }
        }
    }
}

struct TanhAll<'a>(&'a mut [f32]);

impl pulp::NullaryFnOnce for TanhAll<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for value in self.0 {
            *value = tanh(*value);
        }
    }
}

/// Without branches, so that the compiler makes many at once of it: 1 - 2 / (e^2x + 1), off by less than 2e-7.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    /// 1.5 * 2^23: what is added to it is rounded to a whole number, which then lies in the lowest bits.
    const ROUNDS: f32 = 12_582_912.0;
    const DOUBLINGS: f32 = 2.0 * std::f32::consts::LOG2_E;
    // Beyond that it is one to the last digit. Written so that what is no number stays that.
    let x = if x < -9.0 { -9.0 } else { x };
    let x = if x > 9.0 { 9.0 } else { x };
    let shifted = x.mul_add(DOUBLINGS, ROUNDS);
    let part = x.mul_add(DOUBLINGS, ROUNDS - shifted) * std::f32::consts::LN_2;
    // e^part for |part| <= ln(2) / 2 by its series.
    let series = part.mul_add(1.0 / 720.0, 1.0 / 120.0);
    let series = series.mul_add(part, 1.0 / 24.0);
    let series = series.mul_add(part, 1.0 / 6.0);
    let series = series.mul_add(part, 0.5);
    let series = series.mul_add(part, 1.0);
    let series = series.mul_add(part, 1.0);
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    1.0 - 2.0 / series.mul_add(power, 1.0)
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[inline]
    fn of(value: f64) -> Self {
        value
    }

    #[inline]
    fn wide(self) -> f64 {
        self
    }

    #[inline]
    fn from_f32(value: f32) -> Self {
        Self::from(value)
    }

    #[inline]
    fn exp(self) -> Self {
        Self::exp(self)
    }

    #[inline]
    fn ln(self) -> Self {
        Self::ln(self)
    }

    #[inline]
    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }

    fn tanh_all(values: &mut [Self]) {
        values.iter_mut().for_each(|value| *value = value.tanh());
    }

    fn tanh_rows(rows: &mut [Self], added: &[Self]) {
        for row in rows.chunks_exact_mut(added.len()) {
            row.iter_mut().zip(added).for_each(|(value, added)| *value = (*value + added).tanh());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Real;

    #[test]
    fn tanh_is_as_the_system_s() {
        let mut values: Vec<f32> = (-40_000..=40_000).map(|at| at as f32 / 2_000.0).collect();
        values.extend([f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-20]);
        let expected: Vec<f64> = values.iter().map(|value| f64::from(*value).tanh()).collect();
        f32::tanh_all(&mut values);
        for (value, expected) in values.into_iter().zip(expected) {
            assert!((f64::from(value) - expected).abs() < 2e-7, "{value} {expected}");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn many_numbers_at_once_are_computed_wherever_the_processor_can() {
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
            assert!(!matches!(pulp::Arch::new(), pulp::Arch::Scalar));
        }
    }

    #[test]
    fn tanh_of_what_is_no_number_is_none() {
        let mut values = [f32::NAN];
        f32::tanh_all(&mut values);
        assert!(values[0].is_nan());
    }
}
