//! Chance from a seed: PCG XSL RR 128/64 (O'Neill 2014). Its whole state is two numbers, so it can be saved and replayed.

use serde::{Deserialize, Serialize};

use crate::normal;

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// A random source. The same seed gives the same numbers on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rng {
    state: u128,
    increment: u128,
}

impl Rng {
    /// A source for a seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        // Seeds that differ in one bit must not give streams that are alike, so both halves are mixed from the seed.
        let mut mixed = seed;
        let mut next = || u128::from(split_mix(&mut mixed));
        let state = next() << 64 | next();
        let increment = (next() << 64 | next()) | 1;
        let mut rng = Self { state, increment };
        rng.bits();
        rng
    }

    /// The source of one of many drawings with the same seed: each can be made without those before it.
    #[must_use]
    pub(crate) fn keyed(seed: u64, index: u64) -> Self {
        let (mut seed, mut index) = (seed, index);
        // Both are mixed first: neighbours of one seed must not be the sources of the next.
        Self::seeded(split_mix(&mut seed).rotate_left(32) ^ split_mix(&mut index))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// An integer in [0, count); `count` is not zero.
    pub fn below(&mut self, count: u64) -> u64 {
        // The bias of one multiplication is below 2^-64 times the count.
        ((u128::from(self.bits()) * u128::from(count)) >> 64) as u64
    }

    /// A standard normal number.
    pub fn normal(&mut self) -> f64 {
        // Half a step up, so that neither end is met.
        normal::quantile(self.unit() + 0.5 / (1_u64 << 53) as f64)
    }

    /// An index with a probability in proportion to its weight; the weights' sum is given.
    pub fn pick(&mut self, weights: &[f64], sum: f64) -> usize {
        let mut left = self.unit() * sum;
        for (index, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return index;
            }
        }
        weights.len() - 1
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fill_their_ranges_evenly() {
        let mut rng = Rng::seeded(7);
        let units: Vec<f64> = (0..10_000).map(|_| rng.unit()).collect();
        let mean = units.iter().sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02 && units.iter().all(|u| (0.0..1.0).contains(u)));
        let mut counts = [0; 5];
        (0..10_000).for_each(|_| counts[rng.below(5) as usize] += 1);
        assert!(counts.iter().all(|count| (1_800..2_200).contains(count)), "{counts:?}");
        let normals: Vec<f64> = (0..10_000).map(|_| rng.normal()).collect();
        let variance = normals.iter().map(|n| n * n).sum::<f64>() / 10_000.0;
        assert!((variance - 1.0).abs() < 0.06, "{variance}");
    }

    #[test]
    fn seeds_decide() {
        assert_eq!(Rng::seeded(3).bits(), Rng::seeded(3).bits());
        assert_ne!(Rng::seeded(3).bits(), Rng::seeded(4).bits());
    }

    #[test]
    fn drawings_of_near_seeds_and_indices_have_nothing_in_common() {
        let keys = (0..50).flat_map(|seed| (0..50).map(move |index| (seed, index)));
        let mut firsts: Vec<u64> = keys.map(|(seed, index)| Rng::keyed(seed, index).bits()).collect();
        let mean = firsts.iter().map(|bits| *bits as f64 / 2.0_f64.powi(64)).sum::<f64>() / 2_500.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), 2_500);
    }
}
