//! A minimiser of smooth functions in a box: steps of L-BFGS along the coordinates that are free, cut off at the walls.

/// How many steps' curvature is remembered.
const MEMORY: usize = 8;
/// A step must win at least this share of what its slope promises.
const ARMIJO: f64 = 1e-4;

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) evaluations: usize,
    /// No coordinate's slope exceeds this.
    pub(crate) slope: f64,
}

/// Where it ended.
#[derive(Clone, Debug)]
pub(crate) struct Minimum {
    pub(crate) at: Vec<f64>,
    pub(crate) value: f64,
}

/// Minimises `function`, which returns its value and writes its gradient, from a point in the box.
///
/// A value that is not finite is a wall: shorter steps are tried.
pub(crate) fn minimise(
    start: Vec<f64>,
    bounds: &[(f64, f64)],
    limits: Limits,
    mut function: impl FnMut(&[f64], &mut [f64]) -> f64,
) -> Minimum {
    let size = start.len();
    let mut at = start;
    let mut slope = vec![0.0; size];
    let mut value = function(&at, &mut slope);
    let mut evaluations = 1;
    let mut pairs: Vec<Pair> = Vec::new();
    let mut next = vec![0.0; size];
    let mut next_slope = vec![0.0; size];
    while evaluations < limits.evaluations && value.is_finite() {
        let is_free: Vec<bool> = (0..size)
            .map(|i| !(at[i] <= bounds[i].0 && slope[i] > 0.0 || at[i] >= bounds[i].1 && slope[i] < 0.0))
            .collect();
        let steepest = (0..size).filter(|&i| is_free[i]).map(|i| slope[i].abs()).fold(0.0, f64::max);
        if steepest <= limits.slope {
            break;
        }
        let mut direction = newton_direction(&slope, &is_free, &pairs);
        let mut descent = inner(&direction, &slope);
        if descent >= 0.0 {
            pairs.clear();
            direction = slope.iter().zip(&is_free).map(|(s, free)| if *free { -s } else { 0.0 }).collect();
            descent = inner(&direction, &slope);
        }
        // Without memory the slope's length says nothing about the distance.
        let length = direction.iter().map(|d| d.abs()).fold(0.0, f64::max);
        let mut step = if pairs.is_empty() { (0.1 / length).min(1.0) } else { 1.0 };
        let mut is_better = false;
        while evaluations < limits.evaluations && step * length > 1e-12 {
            for i in 0..size {
                next[i] = (at[i] + step * direction[i]).clamp(bounds[i].0, bounds[i].1);
            }
            let next_value = function(&next, &mut next_slope);
            evaluations += 1;
            let moved: f64 = (0..size).map(|i| slope[i] * (next[i] - at[i])).sum();
            if next_value.is_finite() && next_value <= value + ARMIJO * moved.min(0.0) && next_value < value {
                remember(&mut pairs, &at, &next, &slope, &next_slope);
                let gain = value - next_value;
                value = next_value;
                std::mem::swap(&mut at, &mut next);
                std::mem::swap(&mut slope, &mut next_slope);
                is_better = gain > 1e-11 * (1.0 + value.abs());
                break;
            }
            // The parabola through what is known, within reason.
            let guess = -0.5 * descent * step * step / (next_value - value - descent * step);
            step = if guess.is_finite() { guess.clamp(0.1 * step, 0.5 * step) } else { 0.2 * step };
        }
        if !is_better {
            break;
        }
    }
    Minimum { at, value }
}

struct Pair {
    moved: Vec<f64>,
    bent: Vec<f64>,
    scale: f64,
}

fn remember(pairs: &mut Vec<Pair>, at: &[f64], next: &[f64], slope: &[f64], next_slope: &[f64]) {
    let moved: Vec<f64> = next.iter().zip(at).map(|(a, b)| a - b).collect();
    let bent: Vec<f64> = next_slope.iter().zip(slope).map(|(a, b)| a - b).collect();
    let curvature = inner(&moved, &bent);
    if curvature > 1e-10 * inner(&bent, &bent).sqrt() * inner(&moved, &moved).sqrt() {
        if pairs.len() == MEMORY {
            pairs.remove(0);
        }
        pairs.push(Pair { moved, bent, scale: 1.0 / curvature });
    }
}

/// The two loops of L-BFGS, on what is free.
fn newton_direction(slope: &[f64], is_free: &[bool], pairs: &[Pair]) -> Vec<f64> {
    let mask = |vector: &mut Vec<f64>| {
        vector.iter_mut().zip(is_free).filter(|(_, free)| !**free).for_each(|(number, _)| *number = 0.0);
    };
    let mut direction: Vec<f64> = slope.iter().map(|s| -s).collect();
    mask(&mut direction);
    let mut shares = Vec::with_capacity(pairs.len());
    for pair in pairs.iter().rev() {
        let share = pair.scale * inner(&pair.moved, &direction);
        direction.iter_mut().zip(&pair.bent).for_each(|(d, bent)| *d -= share * bent);
        shares.push(share);
    }
    if let Some(last) = pairs.last() {
        let scale = 1.0 / (last.scale * inner(&last.bent, &last.bent));
        direction.iter_mut().for_each(|d| *d *= scale);
    }
    for (pair, share) in pairs.iter().zip(shares.iter().rev()) {
        let back = pair.scale * inner(&pair.bent, &direction);
        direction.iter_mut().zip(&pair.moved).for_each(|(d, moved)| *d += (share - back) * moved);
    }
    mask(&mut direction);
    direction
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rosenbrock(x: &[f64], slope: &mut [f64]) -> f64 {
        let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
        slope[0] = -2.0 * a - 400.0 * x[0] * b;
        slope[1] = 200.0 * b;
        a * a + 100.0 * b * b
    }

    const LIMITS: Limits = Limits { evaluations: 200, slope: 1e-8 };

    #[test]
    fn finds_the_bottom_of_a_bent_valley() {
        let found = minimise(vec![-1.2, 1.0], &[(-5.0, 5.0), (-5.0, 5.0)], LIMITS, rosenbrock);
        assert!(found.value < 1e-12, "{found:?}");
    }

    #[test]
    fn stops_at_the_wall_where_the_wall_is_lowest() {
        let found = minimise(vec![-1.2, 1.0], &[(-5.0, 0.5), (-5.0, 5.0)], LIMITS, rosenbrock);
        assert!((found.at[0] - 0.5).abs() < 1e-9 && (found.at[1] - 0.25).abs() < 1e-5, "{found:?}");
    }

    #[test]
    fn a_function_that_is_not_a_number_ends_it() {
        let found = minimise(vec![0.5], &[(0.0, 1.0)], LIMITS, |_, _| f64::NAN);
        assert_eq!(found.at, [0.5]);
    }
}
