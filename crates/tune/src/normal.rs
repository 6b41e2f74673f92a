//! The standard normal distribution, exact also far out in its tails.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// ln(sqrt(2 pi))
pub const LOG_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

/// The probability of less than `x`.
#[must_use]
pub fn cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// The density's logarithm.
#[must_use]
pub fn log_pdf(x: f64) -> f64 {
    -0.5 * x * x - LOG_SQRT_2PI
}

/// The logarithm of the probability between two numbers, `a` below `b`.
#[must_use]
pub fn log_mass(a: f64, b: f64) -> f64 {
    // Both in one tail: the tail is turned to the left, where the numbers are small and exact.
    let (a, b) = if a > 0.0 { (-b, -a) } else { (a, b) };
    let mass = cdf(b) - cdf(a);
    if mass > 1e-290 {
        return mass.ln();
    }
    // Beyond what a double holds: the tail's leading term.
    let b = b.min(-1.0);
    log_pdf(b) - (-b).ln() + (1.0 - (0.5 * (b - a) * (b + a)).exp()).max(1e-300).ln()
}

/// A number from the distribution between `a` and `b`, for a uniform number in [0, 1).
#[must_use]
pub fn truncated(a: f64, b: f64, unit: f64) -> f64 {
    if a > 0.0 {
        return -truncated(-b, -a, 1.0 - unit);
    }
    let (low, high) = (cdf(a), cdf(b));
    let p = low + unit * (high - low);
    if p <= 0.0 { b.min(a.max(-38.0)) } else { quantile(p).clamp(a, b) }
}

/// ln E[max(0, z + n)] for a standard normal n: the improvement that is expected, in units of the deviation.
#[must_use]
pub fn log_improvement(z: f64) -> f64 {
    if z > -5.0 {
        return (z * cdf(z) + log_pdf(z).exp()).ln();
    }
    // pdf(z) (1 - |z| R(z)), R the tail's ratio: its asymptotic series, where the difference of the plain formula drowns.
    let inverse = 1.0 / (z * z);
    let series = 1.0 - inverse * (3.0 - inverse * (15.0 - inverse * (105.0 - inverse * 945.0)));
    let ratio = if z > -12.0 { 1.0 - -z * mills(-z) } else { inverse * series };
    log_pdf(z) + ratio.ln()
}

/// d/dz of `log_improvement`.
#[must_use]
pub fn log_improvement_slope(z: f64) -> f64 {
    let log_cdf = if z > -30.0 { cdf(z).ln() } else { log_pdf(z) - (-z).ln() };
    (log_cdf - log_improvement(z)).exp()
}

/// The tail beyond `x` over the density at `x`, for x >= 5: a continued fraction.
fn mills(x: f64) -> f64 {
    let mut fraction = x;
    for k in (1..=60).rev() {
        fraction = x + f64::from(k) / fraction;
    }
    1.0 / fraction
}

/// The number below which a probability lies: Wichura's AS 241, good to sixteen digits.
#[must_use]
pub fn quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * ratio(r, &CENTRE);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    if tail <= 0.0 {
        return if q < 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    let r = (-tail.ln()).sqrt();
    let x = if r <= 5.0 { ratio(r - 1.6, &MIDDLE) } else { ratio(r - 5.0, &FAR) };
    if q < 0.0 { -x } else { x }
}

fn ratio(r: f64, terms: &[[f64; 8]; 2]) -> f64 {
    let horner = |terms: &[f64; 8]| terms.iter().rev().fold(0.0, |sum, term| sum * r + term);
    horner(&terms[0]) / horner(&terms[1])
}

const CENTRE: [[f64; 8]; 2] = [
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
];
const MIDDLE: [[f64; 8]; 2] = [
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
];
const FAR: [[f64; 8]; 2] = [
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        1.242_660_947_388_078_4e-3,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    [
        1.0,
        0.599_832_206_555_888,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
];

/// The density.
#[must_use]
pub fn pdf(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * PI).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_inverts_the_distribution() {
        for step in -80..=80 {
            let x = f64::from(step) * 0.1;
            let back = if x <= 0.0 { quantile(cdf(x)) } else { -quantile(cdf(-x)) };
            assert!((back - x).abs() < 1e-12 * (1.0 + x * x), "{x}: {back}");
        }
    }

    #[test]
    fn improvement_is_smooth_where_the_formulas_meet() {
        for at in [-5.0_f64, -12.0] {
            let (left, right) = (log_improvement(at - 1e-9), log_improvement(at + 1e-9));
            assert!((left - right).abs() < 1e-6, "{at}: {left} {right}");
        }
        // By numerical integration: E[max(0, n - 3)].
        let by_sum: f64 =
            (0..200_000).map(|step| f64::from(step) * 1e-4).map(|gain| gain * pdf(3.0 + gain) * 1e-4).sum();
        assert!((log_improvement(-3.0) - by_sum.ln()).abs() < 1e-6);
        for z in [-40.0, -20.0, -7.0, -1.0, 0.0, 2.0] {
            let numeric = (log_improvement(z + 1e-5) - log_improvement(z - 1e-5)) / 2e-5;
            assert!((numeric / log_improvement_slope(z) - 1.0).abs() < 1e-3, "{z}: {numeric}");
        }
    }

    #[test]
    fn truncated_numbers_stay_between() {
        for (a, b) in [(-1.0, 1.0), (5.0, 6.0), (-9.0, -8.0), (30.0, 31.0), (-60.0, -50.0)] {
            for unit in [0.0, 0.3, 0.999_999] {
                let x = truncated(a, b, unit);
                assert!((a..=b).contains(&x), "{a} {b} {unit}: {x}");
            }
            assert!(log_mass(a, b) <= 0.0 && log_mass(a, b).is_finite(), "{a} {b}: {}", log_mass(a, b));
        }
    }
}
