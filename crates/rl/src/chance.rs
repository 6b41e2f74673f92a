//! Chance from a seed: the numbers that `numpy.random.default_rng(seed)` gives, in the same order.
//!
//! Environments of gymnasium draw from that generator, so a native one starts and slips as its model does. It is seeded through numpy's
//! `SeedSequence`. Only what is drawn through [`Chance::normal`] is our own.

use seeded::Pcg64;
use serde::{Deserialize, Serialize};

/// A random source. The same seed gives the same numbers on every machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Words", into = "Words")]
pub struct Chance {
    source: Pcg64,
    /// The upper half of the last 64 bits, when only the lower was asked for.
    half: Option<u32>,
    /// The second of a pair of normal numbers.
    spare: Option<f64>,
}

/// How chance is written down: whole numbers of 64 bits, which any format keeps exactly.
#[derive(Serialize, Deserialize)]
struct Words {
    state: [u64; 2],
    increment: [u64; 2],
    half: Option<u32>,
    spare: Option<u64>,
}

impl Chance {
    /// The source that `default_rng(seed)` is.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        let [state, increment] = seeds(seed);
        let mut source = Pcg64::at(0, increment << 1 | 1);
        source.advance(state);
        source.advance(0);
        Self { source, half: None, spare: None }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.source.bits()
    }

    /// A number in [0, 1): `Generator.random()`.
    #[inline]
    pub fn random(&mut self) -> f64 {
        seeded::unit(self.bits())
    }

    /// A number in [low, high): `Generator.uniform(low, high)`.
    #[inline]
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random()
    }

    /// An integer in [0, count): `Generator.integers(0, count)`. `count` is not zero.
    #[inline]
    pub fn integers(&mut self, count: u64) -> u64 {
        assert!(count > 0, "an integer below zero");
        match count {
            // Nothing is drawn where there is nothing to choose.
            1 => 0,
            0x1_0000_0000 => u64::from(self.half_bits()),
            2..0x1_0000_0000 => self.integers_short(count as u32),
            _ => self.integers_long(count),
        }
    }

    /// An index with the probability that is given for it, as gymnasium draws it: the first whose sum of probabilities passes a random number, or
    /// the first of all when rounding keeps the whole sum below that number.
    pub fn choice(&mut self, probabilities: impl IntoIterator<Item = f64>) -> usize {
        let drawn = self.random();
        let sums = probabilities.into_iter().scan(0.0, |sum, probability| {
            *sum += probability;
            Some(*sum)
        });
        sums.into_iter().position(|sum| sum > drawn).unwrap_or(0)
    }

    /// A standard normal number, by Marsaglia's polar method. Not numpy's stream, which comes from a table.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (self.uniform(-1.0, 1.0), self.uniform(-1.0, 1.0));
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = libm::sqrt(-2.0 * libm::log(square) / square);
                self.spare = Some(y * scale);
                return x * scale;
            }
        }
    }

    /// 32 random bits: the lower half of 64 first, the upper kept for the next time.
    fn half_bits(&mut self) -> u32 {
        self.half.take().unwrap_or_else(|| {
            let bits = self.bits();
            self.half = Some((bits >> 32) as u32);
            bits as u32
        })
    }

    /// Lemire's multiplication: the high half of the product is the number; the few low halves that would favour some are drawn again.
    fn integers_short(&mut self, count: u32) -> u64 {
        let mut product = u64::from(self.half_bits()) * u64::from(count);
        if (product as u32) < count {
            let unfair = count.wrapping_neg() % count;
            while (product as u32) < unfair {
                product = u64::from(self.half_bits()) * u64::from(count);
            }
        }
        product >> 32
    }

    fn integers_long(&mut self, count: u64) -> u64 {
        let mut product = u128::from(self.bits()) * u128::from(count);
        if (product as u64) < count {
            let unfair = count.wrapping_neg() % count;
            while (product as u64) < unfair {
                product = u128::from(self.bits()) * u128::from(count);
            }
        }
        (product >> 64) as u64
    }
}

impl From<Words> for Chance {
    fn from(words: Words) -> Self {
        let join = |[high, low]: [u64; 2]| u128::from(high) << 64 | u128::from(low);
        Self {
            // An even increment would halve the stream; no source has one.
            source: Pcg64::at(join(words.state), join(words.increment) | 1),
            half: words.half,
            spare: words.spare.map(f64::from_bits),
        }
    }
}

impl From<Chance> for Words {
    fn from(chance: Chance) -> Self {
        let split = |wide: u128| [(wide >> 64) as u64, wide as u64];
        let (state, increment) = chance.source.place();
        Self {
            state: split(state),
            increment: split(increment),
            half: chance.half,
            spare: chance.spare.map(f64::to_bits),
        }
    }
}

/// What numpy's `SeedSequence(seed)` makes of a seed: the first state of the generator, and its stream.
fn seeds(seed: u64) -> [u128; 2] {
    const POOL: usize = 4;
    // Each word is stirred with a multiplier that changes from word to word.
    fn stir(word: u32, multiplier: &mut u32, step: u32) -> u32 {
        let word = word ^ *multiplier;
        *multiplier = multiplier.wrapping_mul(step);
        let word = word.wrapping_mul(*multiplier);
        word ^ word >> 16
    }
    fn mix(into: u32, word: u32) -> u32 {
        let mixed = into.wrapping_mul(0xca01_f9dd).wrapping_sub(word.wrapping_mul(0x4973_f715));
        mixed ^ mixed >> 16
    }
    let mut multiplier = 0x43b0_d7e5;
    let mut stirred = |word| stir(word, &mut multiplier, 0x931e_8875);
    // A word that the seed has not is stirred as zero.
    let mut pool: [u32; POOL] = [seed as u32, (seed >> 32) as u32, 0, 0].map(&mut stirred);
    for from in 0..POOL {
        for into in (0..POOL).filter(|&into| into != from) {
            pool[into] = mix(pool[into], stirred(pool[from]));
        }
    }
    let mut multiplier = 0x8b51_f9dd;
    let words: [u32; 2 * POOL] = std::array::from_fn(|index| stir(pool[index % POOL], &mut multiplier, 0x58f3_8ded));
    // Pairs of words are numbers of 64 bits, the low word first; pairs of those are numbers of 128, the high one first.
    let wide = |at: usize| {
        let long = |at: usize| u128::from(words[at]) | u128::from(words[at + 1]) << 32;
        long(at) << 64 | long(at + 2)
    };
    [wide(0), wide(4)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What numpy 2.4 draws for a seed.
    struct Drawn {
        seed: u64,
        random: [f64; 3],
        uniform: [f64; 3],
        integers: [u64; 14],
        then: f64,
        threes: [u64; 5],
    }

    const COUNTS: [u64; 14] = [
        1,
        2,
        3,
        5,
        7,
        100,
        3,
        (1 << 31) + 5,
        (1 << 32) - 1,
        1 << 32,
        (1 << 32) + 1,
        1_000_000_000_000_000,
        6,
        (1 << 63) - 1,
    ];

    // g = numpy.random.default_rng(seed); g.random(3), g.uniform(-.05, .05, 3), [g.integers(0, n) for n in COUNTS], g.random(),
    // [g.integers(0, 3) for _ in range(5)]
    const DRAWN: [Drawn; 7] = [
        Drawn {
            seed: 0,
            random: [0.6369616873214543, 0.2697867137638703, 0.04097352393619469],
            uniform: [-0.04834723644714709, 0.031327023920027244, 0.04127555772777218],
            integers: [
                0,
                1,
                1,
                4,
                5,
                63,
                1,
                1_752_032_170,
                2_881_392_815,
                11_761_768,
                3_682_523_328,
                33_585_575_305_464,
                4,
                1_620_137_139_182_015_442,
            ],
            then: 0.8631789223498866,
            threes: [2, 0, 1, 0, 0],
        },
        Drawn {
            seed: 1,
            random: [0.5118216247002567, 0.9504636963259353, 0.14415961271963373],
            uniform: [0.04486494471372439, -0.018816854798951455, -0.007667355102742433],
            integers: [
                0,
                0,
                2,
                1,
                2,
                64,
                1,
                1_858_836_766,
                3_236_314_157,
                3_598_687_396,
                1_416_186_939,
                788_428_703_428_404,
                3,
                2_796_478_710_207_515_810,
            ],
            then: 0.4534978894806515,
            threes: [2, 0, 1, 1, 2],
        },
        Drawn {
            seed: 42,
            random: [0.7739560485559633, 0.4388784397520523, 0.8585979199113825],
            uniform: [0.019736802905936393, -0.04058226521123505, 0.047562235163675595],
            integers: [
                0,
                1,
                2,
                3,
                5,
                51,
                0,
                967_196_438,
                2_148_995_112,
                1_592_565_387,
                3_980_425_319,
                643_865_120_080_664,
                2,
                4_089_774_122_208_370_449,
            ],
            then: 0.2272387217847769,
            threes: [2, 0, 1, 2, 0],
        },
        Drawn {
            seed: 4_294_967_295,
            random: [0.2519435680449965, 0.21906579628685663, 0.28728472043517017],
            uniform: [0.011898130253268316, 0.04350122911173898, -0.020403332027332823],
            integers: [
                0,
                1,
                1,
                2,
                1,
                43,
                2,
                1_668_494_453,
                2_255_534_546,
                3_090_906_336,
                3_735_979_718,
                46_128_173_658_553,
                3,
                8_804_810_148_496_449_676,
            ],
            then: 0.4862814440532708,
            threes: [0, 0, 1, 0, 0],
        },
        Drawn {
            seed: 4_294_967_296,
            random: [0.8897387912781343, 0.5571380502062263, 0.8009080868919721],
            uniform: [0.04565138174753386, -0.044138483985064564, -0.026359930470041915],
            integers: [
                0,
                0,
                2,
                1,
                0,
                3,
                2,
                2_055_323_749,
                2_657_582_572,
                2_126_811_150,
                465_168_117,
                130_504_711_776_148,
                0,
                7_025_463_510_484_022_635,
            ],
            then: 0.9587716588308863,
            threes: [0, 0, 1, 1, 2],
        },
        Drawn {
            seed: 1_099_511_640_121,
            random: [0.19012355322595598, 0.8023024059745182, 0.1490840082435223],
            uniform: [-0.04935997569494728, -0.009783301134571501, -0.03779255190210256],
            integers: [
                0,
                0,
                1,
                0,
                5,
                27,
                1,
                1_895_719_187,
                816_869_452,
                2_221_526_325,
                1_194_034_242,
                18_350_838_592_339,
                2,
                7_160_986_720_303_886_265,
            ],
            then: 0.2056834225873041,
            threes: [1, 1, 1, 0, 1],
        },
        Drawn {
            seed: 18_446_744_073_709_551_615,
            random: [0.6800266789616931, 0.8453117585624743, 0.007403081599260064],
            uniform: [0.039456812643914735, -0.03710347654752584, -0.01811614897327126],
            integers: [
                0,
                1,
                1,
                0,
                1,
                25,
                2,
                163_157_634,
                2_973_527_319,
                956_255_507,
                4_292_472_829,
                578_194_351_562_349,
                1,
                7_335_701_981_236_029_527,
            ],
            then: 0.35727776230897335,
            threes: [0, 1, 0, 1, 0],
        },
    ];

    #[test]
    fn numbers_come_as_numpy_draws_them() {
        for drawn in &DRAWN {
            let mut chance = Chance::seeded(drawn.seed);
            assert_eq!([(); 3].map(|()| chance.random()), drawn.random, "seed {}", drawn.seed);
            assert_eq!([(); 3].map(|()| chance.uniform(-0.05, 0.05)), drawn.uniform, "seed {}", drawn.seed);
            assert_eq!(COUNTS.map(|count| chance.integers(count)), drawn.integers, "seed {}", drawn.seed);
            assert_eq!(chance.random(), drawn.then, "seed {}", drawn.seed);
            assert_eq!([(); 5].map(|()| chance.integers(3)), drawn.threes, "seed {}", drawn.seed);
        }
    }

    #[test]
    fn a_choice_is_the_first_whose_sum_passes_the_number() {
        let mut chance = Chance::seeded(7);
        let mut same = chance.clone();
        for _ in 0..1000 {
            let drawn = same.random();
            let expected = usize::from(drawn >= 0.2) + usize::from(drawn >= 0.7);
            assert_eq!(chance.choice([0.2, 0.5, 0.3]), expected);
        }
        assert_eq!(chance.choice([0.0, 0.0]), 0);
        assert_eq!(chance.choice([0.0, 1.0]), 1);
    }

    #[test]
    fn normal_numbers_have_the_moments_of_the_normal_distribution() {
        let mut chance = Chance::seeded(3);
        let count = 200_000;
        let mut moments = [0.0; 4];
        for _ in 0..count {
            let drawn = chance.normal();
            for (power, moment) in moments.iter_mut().enumerate() {
                *moment += drawn.powi(power as i32 + 1) / f64::from(count);
            }
        }
        // Four standard errors each.
        for ((moment, expected), error) in moments.into_iter().zip([0.0, 1.0, 0.0, 3.0]).zip([0.01, 0.013, 0.035, 0.09])
        {
            assert!((moment - expected).abs() < error, "{moments:?}");
        }
    }

    #[test]
    fn what_was_written_down_goes_on_as_if_nothing_had_happened() {
        let mut chance = Chance::seeded(11);
        // An odd number of each: a half of 32 bits and a spare normal number are left over.
        chance.integers(9);
        chance.normal();
        let bytes = postcard::to_stdvec(&chance).unwrap();
        let mut again: Chance = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(again, chance);
        for _ in 0..10 {
            assert_eq!(again.normal(), chance.normal());
            assert_eq!(again.integers(9), chance.integers(9));
        }
    }
}
