//! Sobol's sequence of points that fill a cube evenly, in as many dimensions as wanted.
//!
//! Each dimension follows from a primitive polynomial over the field of two elements, which are found by trying, and from some odd
//! numbers to begin with, which may be any. They are chosen here such that pairs of dimensions leave few gaps among the first points.
//! Then the bits are scrambled at random (Matousek 1998) and shifted, which keeps the evenness.

use crate::rng::Rng;

const BITS: usize = 32;
/// How many choices of first numbers are tried for each dimension.
const TRIES: usize = 24;
/// Against how many dimensions before it a dimension is tried.
const NEIGHBOURS: usize = 12;

/// The directions of one dimension: `directions[k]` is what bit k of a point's number adds.
type Directions = [u32; BITS];

/// A sequence.
#[derive(Clone, Debug)]
pub(crate) struct Net {
    directions: Vec<Directions>,
    at: Vec<u32>,
    count: u32,
}

impl Net {
    /// A sequence in so many dimensions, scrambled.
    pub(crate) fn new(dimensions: usize, rng: &mut Rng) -> Self {
        let mut directions = plain_directions(dimensions);
        for each in &mut directions {
            scramble(each, rng);
        }
        let at = directions.iter().map(|_| rng.bits() as u32).collect();
        Self { directions, at, count: 0 }
    }

    /// The next point, every number in [0, 1).
    pub(crate) fn next_point(&mut self) -> Vec<f64> {
        // The middle of the cell, so that 0 itself is not met.
        let point = self.at.iter().map(|&bits| (f64::from(bits) + 0.5) / 4_294_967_296.0).collect();
        // Gray code: one bit of the number changes from point to point. After 2^32 points it begins anew.
        self.count = self.count.wrapping_add(1);
        if self.count != 0 {
            let changed = self.count.trailing_zeros() as usize;
            self.at.iter_mut().zip(&self.directions).for_each(|(at, directions)| *at ^= directions[changed]);
        }
        point
    }
}

/// Directions before scrambling; always the same.
fn plain_directions(dimensions: usize) -> Vec<Directions> {
    // Any fixed seed would do: it decides which first numbers are tried.
    let mut rng = Rng::seeded(0x50b0);
    let mut found: Vec<Directions> = Vec::with_capacity(dimensions);
    let mut polynomials = primitive_polynomials();
    for dimension in 0..dimensions {
        if dimension == 0 {
            found.push(std::array::from_fn(|bit| 1 << (BITS - 1 - bit)));
            continue;
        }
        let polynomial = polynomials.next().expect("there is no end of primitive polynomials");
        let tries = (0..TRIES).map(|_| extend(polynomial, &mut rng));
        let before = &found[dimension.saturating_sub(NEIGHBOURS)..];
        let best = tries.min_by_key(|directions| gaps(directions, before)).expect("there are tries");
        found.push(best);
    }
    found
}

/// Directions from a polynomial and random odd first numbers.
fn extend(polynomial: u32, rng: &mut Rng) -> Directions {
    let degree = polynomial.ilog2() as usize;
    let mut directions = [0_u32; BITS];
    for bit in 0..BITS {
        directions[bit] = if bit < degree {
            let odd = (rng.below(1 << bit) as u32) << 1 | 1;
            odd << (BITS - 1 - bit)
        } else {
            let mut next = directions[bit - degree] ^ (directions[bit - degree] >> degree);
            for k in 1..degree {
                if polynomial >> (degree - k) & 1 == 1 {
                    next ^= directions[bit - k];
                }
            }
            next
        };
    }
    directions
}

/// How many cells of square grids stay empty that as many points could fill, over all pairs with earlier dimensions.
fn gaps(directions: &Directions, before: &[Directions]) -> u32 {
    let mut empty = 0;
    for other in before {
        for half in [2_u32, 3, 4] {
            let points = 1_u32 << (2 * half);
            let mut is_hit = vec![false; points as usize];
            let (mut x, mut y) = (0_u32, 0_u32);
            for number in 1..=points {
                let cell = (x >> (32 - half)) << half | y >> (32 - half);
                is_hit[cell as usize] = true;
                let changed = number.trailing_zeros() as usize;
                x ^= directions[changed];
                y ^= other[changed];
            }
            empty += is_hit.iter().filter(|hit| !**hit).count() as u32 * (256 / points);
        }
    }
    empty
}

/// Mixes each bit with random higher ones.
fn scramble(directions: &mut Directions, rng: &mut Rng) {
    let mut rows = [0_u32; BITS];
    for (bit, row) in rows.iter_mut().enumerate() {
        // Bit 31 is the highest; row `bit` may use itself, always, and what is above it.
        let place = BITS - 1 - bit;
        let above = if place == BITS - 1 { 0 } else { rng.bits() as u32 & (u32::MAX << (place + 1)) };
        *row = above | 1 << place;
    }
    for direction in directions.iter_mut() {
        let old = *direction;
        *direction =
            rows.iter().enumerate().fold(0, |new, (bit, row)| new | ((old & row).count_ones() & 1) << (BITS - 1 - bit));
    }
}

/// Polynomials over the field of two elements whose root generates all, by degree; bit k stands for x^k.
fn primitive_polynomials() -> impl Iterator<Item = u32> {
    (1_u32..).flat_map(|degree| (1 << degree..1 << (degree + 1)).filter(move |&each| is_primitive(each, degree)))
}

fn is_primitive(polynomial: u32, degree: u32) -> bool {
    // x must take exactly 2^degree - 1 steps to come back to 1.
    if polynomial & 1 == 0 {
        return false;
    }
    let full = (1_u32 << degree) - 1;
    let mut power = 1_u32;
    for step in 1..=full {
        power <<= 1;
        if power >> degree & 1 == 1 {
            power ^= polynomial;
        }
        if power == 1 {
            return step == full;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primitive_polynomials_are_as_many_as_algebra_says() {
        let by_degree = |degree: u32| primitive_polynomials().take(100).filter(|p| p.ilog2() == degree).count();
        assert_eq!((1..=8).map(by_degree).collect::<Vec<_>>(), [1, 1, 2, 2, 6, 6, 18, 16]);
    }

    #[test]
    fn every_dimension_hits_every_interval_once() {
        for seed in 0..3 {
            let mut net = Net::new(80, &mut Rng::seeded(seed));
            let points: Vec<Vec<f64>> = (0..64).map(|_| net.next_point()).collect();
            for dimension in 0..80 {
                let mut cells: Vec<usize> = points.iter().map(|point| (point[dimension] * 64.0) as usize).collect();
                cells.sort_unstable();
                assert_eq!(cells, (0..64).collect::<Vec<_>>(), "dimension {dimension}");
            }
        }
    }

    #[test]
    fn the_first_two_dimensions_hit_every_rectangle_once() {
        let mut net = Net::new(2, &mut Rng::seeded(1));
        let points: Vec<Vec<f64>> = (0..64).map(|_| net.next_point()).collect();
        for split in 0..=6 {
            let (columns, rows) = (f64::from(1 << split), f64::from(1 << (6 - split)));
            let mut cells: Vec<(usize, usize)> =
                points.iter().map(|point| ((point[0] * columns) as usize, (point[1] * rows) as usize)).collect();
            cells.sort_unstable();
            cells.dedup();
            assert_eq!(cells.len(), 64, "split {split}");
        }
    }

    #[test]
    fn integrals_are_better_than_by_chance() {
        // The product of 2 x over six dimensions has the integral 1; chance is off by 7 % with 1,024 points.
        let error = |values: Vec<f64>| (values.iter().sum::<f64>() / values.len() as f64 - 1.0).abs();
        let product = |point: &[f64]| point.iter().map(|x| 2.0 * x).product::<f64>();
        let errors: Vec<f64> = (0..10)
            .map(|seed| {
                let mut net = Net::new(6, &mut Rng::seeded(seed));
                error((0..1024).map(|_| product(&net.next_point())).collect())
            })
            .collect();
        assert!(errors.iter().sum::<f64>() / 10.0 < 0.02, "{errors:?}");
    }
}
