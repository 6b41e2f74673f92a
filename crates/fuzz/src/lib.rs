//! Every decoder of bytes from outside as a function that takes any bytes: it must return, soon, and without much memory.
//!
//! `make fuzz` lets libFuzzer look for bytes that it does not take, a minute for each target; what it found worth keeping lies in `corpus/` and
//! is played again by the tests. A target that panics on some bytes has found a bug: they go into `corpus/` with the change that mends it.
//!
//! - `door`: what is said to a head's door and by it, certificates, stored secrets and texts.
//! - `lines`: hellos, envelopes and what a carrier makes of them.
//! - `messages`: what nodes and processes say to each other; `frames`: what lies in rings. `seeds`: where to begin.

mod door;
mod frames;
mod lines;
mod messages;
mod seeds;

/// A decoder, or several that read the same bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Names its folder in `corpus/`.
    pub name: &'static str,
    /// Takes anything.
    pub run: fn(&[u8]),
    /// Bytes that it understands.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: [Target; 14] = [
    Target { name: "door", run: door::door, seeds: seeds::door },
    Target { name: "door_welcomed", run: door::welcomed, seeds: seeds::nothing },
    Target { name: "joiner", run: door::joiner, seeds: seeds::nothing },
    Target { name: "certificates", run: door::certificates, seeds: seeds::certificates },
    Target { name: "stored", run: door::stored, seeds: seeds::stored },
    Target { name: "texts", run: door::texts, seeds: seeds::texts },
    Target { name: "hellos", run: lines::hellos, seeds: seeds::hellos },
    Target { name: "carrier", run: lines::carrier, seeds: seeds::envelopes },
    Target { name: "between", run: messages::between, seeds: seeds::between },
    Target { name: "values", run: messages::values, seeds: seeds::values },
    Target { name: "control", run: messages::control, seeds: seeds::control },
    Target { name: "journal", run: messages::journal, seeds: seeds::nothing },
    Target { name: "frames", run: frames::frames, seeds: seeds::frames },
    Target { name: "arguments", run: frames::arguments, seeds: seeds::frames },
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::TARGETS;

    /// Changed in one byte, cut, and doubled: what a line or a ring may do to bytes.
    fn spoilt(seed: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        let changed = (0..seed.len()).flat_map(move |at| {
            [0x01, 0x80, 0xff].map(|bits| {
                let mut bytes = seed.to_vec();
                bytes[at] ^= bits;
                bytes
            })
        });
        let cut = (0..seed.len()).map(move |length| seed[..length].to_vec());
        changed.chain(cut).chain([[seed, seed].concat()])
    }

    #[test]
    fn what_was_found_before_is_taken_by_every_decoder() {
        for target in TARGETS {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
            let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            let mut count = 0;
            for file in files {
                (target.run)(&std::fs::read(file.unwrap().path()).unwrap());
                count += 1;
            }
            assert!(count > 0, "nothing in {}", folder.display());
        }
    }

    #[test]
    fn what_is_right_and_then_spoilt_in_one_place_is_taken_by_every_decoder() {
        for target in TARGETS {
            for seed in (target.seeds)() {
                (target.run)(&seed);
                spoilt(&seed[..seed.len().min(400)]).for_each(|bytes| (target.run)(&bytes));
            }
        }
    }
}
