//! Random numbers that a seed decides: the same ones on every machine and in ten years. What is drawn from them is each user's own.
//!
//! Both generators are small enough to be saved with whatever uses them, and their serialised form is part of files on disk.

use serde::{Deserialize, Serialize};

/// SplitMix64 (Steele, Lea, Flood 2014): one word of state, any seed is as good as any other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A source for a seed.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 random bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }
}

/// A number that depends on every bit of another.
#[must_use]
#[inline]
pub const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// PCG XSL RR 128/64 (O'Neill 2014), which numpy's `default_rng` is too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
}

impl Pcg64 {
    /// A source at this state, on the stream of this odd increment.
    #[must_use]
    pub const fn at(state: u128, increment: u128) -> Self {
        Self { state, increment }
    }

    /// Where it is, and on which stream.
    #[must_use]
    pub const fn place(&self) -> (u128, u128) {
        (self.state, self.increment)
    }

    /// Moves on without a look at the numbers; adds to the state.
    #[inline]
    pub const fn advance(&mut self, add: u128) {
        const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment).wrapping_add(add);
    }

    /// 64 random bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.advance(0);
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }
}

/// A number in [0, 1) from 64 random bits.
#[must_use]
#[inline]
pub const fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// An integer in [0, count) from 64 random bits; `count` is not zero. Its bias is below 2^-64 times the count.
#[must_use]
#[inline]
pub const fn below(bits: u64, count: u64) -> u64 {
    ((bits as u128 * count as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the algorithms' published test vectors.
    #[test]
    fn numbers_are_those_of_the_published_algorithms() {
        let mut split = SplitMix64::seeded(1_234_567);
        assert_eq!([split.bits(), split.bits()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn numbers_fill_their_ranges() {
        let mut source = SplitMix64::seeded(3);
        let mut counts = [0; 5];
        for _ in 0..10_000 {
            let bits = source.bits();
            assert!((0.0..1.0).contains(&unit(bits)));
            counts[below(bits, 5) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (1_800..2_200).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_source_goes_on_where_it_was() {
        let mut source = Pcg64::at(1, 3);
        source.bits();
        let (state, increment) = source.place();
        assert_eq!(Pcg64::at(state, increment).bits(), source.bits());
    }
}
