//! Random graphs of tasks with large values, of which some are lost, moved, freed or let go of while workers answer and die, against a
//! model that counts runs, bytes and looks for itself.
//!
//! What it holds the owner to: LIN-1 and LIN-2, OWN-1 and OWN-2, and retries to the number.

mod world;

use proptest::prelude::*;

use world::World;

/// Something that happens. Picks choose among what is there, whatever that is.
#[derive(Clone, Debug)]
pub(super) enum Move {
    Submit {
        deps: Vec<usize>,
        names: Vec<usize>,
        retries: i32,
        returns: u32,
    },
    Put {
        is_large: bool,
        names: Vec<usize>,
    },
    Drop(usize),
    /// The first call of a worker ends.
    Reply(usize, Answer),
    /// The first call of a worker finds an argument missing, if one has moved or is lost.
    MissArgument(usize),
    /// What such a call lacks was looked for; so many of its arguments are not there.
    Looked(usize, usize),
    GiveBack(usize),
    Die(usize),
    /// These values are found to be lost, all at once.
    Lose(Vec<usize>),
    Touch(usize),
    /// The longest unused values are copied, so many; the copies are there later.
    Copy(usize),
    Copied,
    Cancel(usize),
    Free(usize),
    Wait(u64),
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// Large where the bit of the return value is set. It may name an object.
    Values {
        large: u8,
        names: Option<usize>,
    },
    Retryable,
    Raised,
}

const PICK: std::ops::Range<usize> = 0..1_000;

fn picks() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![2 => Just(Vec::new()), 3 => prop::collection::vec(PICK, 1..4)]
}

fn answers() -> impl Strategy<Value = Answer> {
    prop_oneof![
        8 => (any::<u8>(), prop::option::weighted(0.2, PICK)).prop_map(|(large, names)| Answer::Values { large, names }),
        1 => Just(Answer::Retryable),
        1 => Just(Answer::Raised),
    ]
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        10 => (picks(), picks(), -1..4_i32, 1..3_u32)
            .prop_map(|(deps, names, retries, returns)| Move::Submit { deps, names, retries, returns }),
        2 => (any::<bool>(), picks()).prop_map(|(is_large, names)| Move::Put { is_large, names }),
        6 => PICK.prop_map(Move::Drop),
        14 => (PICK, answers()).prop_map(|(worker, answer)| Move::Reply(worker, answer)),
        3 => PICK.prop_map(Move::MissArgument),
        4 => (PICK, 0..3_usize).prop_map(|(at, count)| Move::Looked(at, count)),
        2 => PICK.prop_map(Move::GiveBack),
        2 => PICK.prop_map(Move::Die),
        6 => prop::collection::vec(PICK, 1..4).prop_map(Move::Lose),
        2 => PICK.prop_map(Move::Touch),
        3 => (1..4_usize).prop_map(Move::Copy),
        3 => Just(Move::Copied),
        1 => PICK.prop_map(Move::Cancel),
        1 => PICK.prop_map(Move::Free),
        1 => (0..1_000_u64).prop_map(Move::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lin_1_lin_2_hold_and_no_retry_is_spent_twice(plays in prop::collection::vec(moves(), 1..200)) {
        let mut world = World::new();
        for play in plays {
            world.play(play);
        }
        world.settle();
    }
}
