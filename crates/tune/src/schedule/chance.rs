//! Chance from a seed, for schedulers: one word of state, saved with whatever draws from it.

use seeded::SplitMix64;
use serde::{Deserialize, Serialize};

/// A stream of random numbers that its seed decides.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Chance(SplitMix64);

impl Chance {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(SplitMix64::seeded(seed))
    }

    /// The stream of one purpose: draws from it move no other stream.
    pub(super) fn keyed(seed: u64, key: u64) -> Self {
        let mut mixed = Self::seeded(seed ^ key.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Self::seeded(mixed.next())
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// Evenly in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        seeded::unit(self.next())
    }

    /// Evenly among 0 .. count, which is not 0.
    pub(super) fn below(&mut self, count: usize) -> usize {
        seeded::below(self.next(), count as u64) as usize
    }

    /// A standard normal number, by Box and Muller.
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::Chance;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_does_not() {
        let draw = |seed, key| {
            let mut chance = Chance::keyed(seed, key);
            (0..8).map(|_| chance.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
        assert_ne!(draw(1, 2), draw(2, 1));
    }

    #[test]
    fn numbers_are_even_and_normal_ones_are_normal() {
        let mut chance = Chance::seeded(7);
        let mut counts = [0_u32; 5];
        for _ in 0..50_000 {
            counts[chance.below(5)] += 1;
        }
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
        let normals: Vec<f64> = (0..50_000).map(|_| chance.normal()).collect();
        let mean = normals.iter().sum::<f64>() / 5e4;
        let variance = normals.iter().map(|x| x * x).sum::<f64>() / 5e4;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }
}
