//! Random events, with repeats and late ones: the invariants hold after each, what is said fits a model that counts for itself, and
//! once faults stop everything ends and nothing is kept.

mod model;
mod plays;
mod world;

use proptest::prelude::*;

use world::World;

/// Something that happens. Picks choose among what is there, whatever that is.
#[derive(Clone, Debug)]
pub(super) enum Move {
    Submit {
        target: usize,
        deps: Vec<usize>,
        names: Vec<usize>,
        retries: i32,
        returns: u32,
        holds_life: bool,
    },
    Put {
        names: Vec<usize>,
    },
    AddHandle(usize),
    DropHandle(usize),
    Grant(usize),
    GrantAgain(usize),
    Revoke(usize),
    CannotSendNext,
    Start(usize),
    Reply(usize, Answer),
    ReplyAgain(usize),
    GiveBack(usize),
    Die(usize),
    DieAgain(usize),
    PlaceActor(usize),
    /// Its node ends the actor's life, or the actor; its worker ends later.
    KillActor {
        actor: usize,
        for_good: bool,
    },
    NewsAgain(usize),
    Cancel(usize),
    Free(usize),
    Lend {
        object: usize,
        to: usize,
        count: i32,
    },
    BorrowerGone(usize),
    Wanted {
        object: usize,
        by: usize,
    },
    Borrow {
        owner: usize,
        shares: i32,
    },
    BorrowAgain(usize),
    Keep(usize),
    CallBegins(usize),
    CallEnds(usize),
    KeptBy {
        object: usize,
        by: usize,
    },
    Need(usize),
    Have {
        object: usize,
        names: Vec<usize>,
        is_large: bool,
    },
    /// What a call lacks that came back without having run was looked for.
    Looked {
        call: usize,
        has_changed: bool,
    },
    OwnerGone(usize),
    Wait(u64),
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Value,
    Names(usize),
    Raised,
    Retryable,
    /// It does not run: an argument was not there.
    Missed,
}

const PICK: std::ops::Range<usize> = 0..1_000;

fn answers() -> impl Strategy<Value = Answer> {
    prop_oneof![
        5 => Just(Answer::Value),
        2 => PICK.prop_map(Answer::Names),
        1 => Just(Answer::Raised),
        2 => Just(Answer::Retryable),
        2 => Just(Answer::Missed),
    ]
}

fn picks() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![3 => Just(Vec::new()), 2 => prop::collection::vec(PICK, 1..3)]
}

fn moves() -> impl Strategy<Value = Move> {
    let submit = (0..5_usize, picks(), picks(), -1..3_i32, 1..3_u32, any::<bool>()).prop_map(
        |(target, deps, names, retries, returns, holds_life)| Move::Submit {
            target,
            deps,
            names,
            retries,
            returns,
            holds_life,
        },
    );
    let references = prop_oneof![
        3 => picks().prop_map(|names| Move::Put { names }),
        2 => PICK.prop_map(Move::AddHandle),
        6 => PICK.prop_map(Move::DropHandle),
        4 => (PICK, PICK, prop_oneof![Just(1), Just(-1)])
            .prop_map(|(object, to, count)| Move::Lend { object, to, count }),
        1 => PICK.prop_map(Move::BorrowerGone),
        2 => (PICK, PICK).prop_map(|(object, by)| Move::Wanted { object, by }),
        3 => (PICK, 0..2_i32).prop_map(|(owner, shares)| Move::Borrow { owner, shares }),
        1 => PICK.prop_map(Move::BorrowAgain),
        1 => PICK.prop_map(Move::Keep),
        3 => PICK.prop_map(Move::CallBegins),
        3 => PICK.prop_map(Move::CallEnds),
        2 => (PICK, PICK).prop_map(|(object, by)| Move::KeptBy { object, by }),
        2 => PICK.prop_map(Move::Need),
        4 => (PICK, picks(), any::<bool>())
            .prop_map(|(object, names, is_large)| Move::Have { object, names, is_large }),
        1 => PICK.prop_map(Move::OwnerGone),
    ];
    let workers = prop_oneof![
        8 => PICK.prop_map(Move::Grant),
        1 => PICK.prop_map(Move::GrantAgain),
        2 => PICK.prop_map(Move::Revoke),
        1 => Just(Move::CannotSendNext),
        8 => PICK.prop_map(Move::Start),
        10 => (PICK, answers()).prop_map(|(worker, answer)| Move::Reply(worker, answer)),
        2 => PICK.prop_map(Move::ReplyAgain),
        3 => PICK.prop_map(Move::GiveBack),
        3 => PICK.prop_map(Move::Die),
        1 => PICK.prop_map(Move::DieAgain),
        2 => (PICK, any::<bool>()).prop_map(|(call, has_changed)| Move::Looked { call, has_changed }),
        4 => PICK.prop_map(Move::PlaceActor),
        2 => (PICK, prop::bool::weighted(0.2)).prop_map(|(actor, for_good)| Move::KillActor { actor, for_good }),
        2 => PICK.prop_map(Move::NewsAgain),
        3 => PICK.prop_map(Move::Cancel),
        2 => PICK.prop_map(Move::Free),
        4 => prop_oneof![0..200_u64, 0..2_000_u64].prop_map(Move::Wait),
    ];
    prop_oneof![3 => submit, 3 => references, 6 => workers]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn own_1_to_5_hold_and_nothing_is_left(plays in prop::collection::vec(moves(), 1..250)) {
        let mut world = World::new();
        for play in plays {
            world.play(play);
        }
        world.settle();
    }
}
