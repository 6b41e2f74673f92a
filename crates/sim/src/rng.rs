//! Chance, from a seed.

use seeded::SplitMix64;
pub(crate) use seeded::mix;

pub(crate) struct Rng(SplitMix64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seeded(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// Below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True `parts` times in a thousand.
    pub(crate) fn chance(&mut self, parts: u64) -> bool {
        self.below(1_000) < parts
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        (!of.is_empty()).then(|| &of[self.below(of.len() as u64) as usize])
    }
}
