//! Chance from a seed, for searchers. Its whole state is two numbers, so it can be saved and replayed.

use seeded::{Pcg64, SplitMix64};
use serde::{Deserialize, Serialize};

use crate::normal;

/// A random source. The same seed gives the same numbers on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rng(Pcg64);

impl Rng {
    /// A source for a seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        // Seeds that differ in one bit must not give streams that are alike, so both halves are mixed from the seed.
        let mut mixed = SplitMix64::seeded(seed);
        let mut next = || u128::from(mixed.bits());
        let state = next() << 64 | next();
        let increment = (next() << 64 | next()) | 1;
        let mut rng = Self(Pcg64::at(state, increment));
        rng.bits();
        rng
    }

    /// The source of one of many drawings with the same seed: each can be made without those before it.
    #[must_use]
    pub(crate) fn keyed(seed: u64, index: u64) -> Self {
        // Both are mixed first: neighbours of one seed must not be the sources of the next.
        Self::seeded(SplitMix64::seeded(seed).bits().rotate_left(32) ^ SplitMix64::seeded(index).bits())
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        seeded::unit(self.bits())
    }

    /// An integer in [0, count); `count` is not zero.
    pub fn below(&mut self, count: u64) -> u64 {
        seeded::below(self.bits(), count)
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
