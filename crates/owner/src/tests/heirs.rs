//! Who stands for whom, and what comes from those who had heard of a death sooner or later.

use model::{JobId, ObjectId, ProcId, TaskId};

use super::story::{W1, W2, worker};
use crate::{Heirs, Kept};

const GONE: ProcId = worker(8);
const OTHER: ProcId = worker(7);
const HEIR: ProcId = worker(9);

fn id(number: u64) -> ObjectId {
    ObjectId::of(TaskId::root(JobId([1; 4]), [1; 16]).child(number), 1)
}

fn kept(owner: ProcId) -> Kept {
    Kept { id: id(1), owner, borrower: W1 }
}

#[test]
fn everyone_stands_for_itself_until_it_is_dead() {
    let mut heirs = Heirs::default();
    assert_eq!((heirs.living(GONE), heirs.get(GONE)), (GONE, None));
    heirs.on_death(GONE, HEIR);
    assert_eq!((heirs.living(GONE), heirs.get(GONE)), (HEIR, Some(HEIR)));
    assert_eq!((heirs.living(OTHER), heirs.known()), (OTHER, 1));
}

#[test]
fn a_newcomer_is_told_of_earlier_deaths() {
    let heirs = Heirs::new([(GONE, HEIR)], 5);
    assert_eq!((heirs.living(GONE), heirs.known()), (HEIR, 5));
    assert!(heirs.is_outdated(GONE, 4) && !heirs.is_outdated(GONE, 5));
}

#[test]
fn a_share_from_somebody_who_had_not_heard_is_claimed_from_the_heir() {
    let mut heirs = Heirs::default();
    assert_eq!(heirs.on_share(id(1), GONE, 0), None);
    heirs.on_death(GONE, HEIR);
    assert_eq!(heirs.on_share(id(1), GONE, 0), Some(HEIR));
    assert_eq!(heirs.on_share(id(1), GONE, 1), None, "it was registered with the heir");
    assert_eq!(heirs.on_share(id(1), OTHER, 0), None, "its owner lives");
}

#[test]
fn a_share_from_somebody_who_had_heard_before_us_counts_already() {
    let mut heirs = Heirs::default();
    heirs.on_share(id(1), GONE, 1);
    heirs.on_share(id(1), GONE, 1);
    heirs.on_share(id(2), GONE, 0);
    heirs.on_share(id(3), OTHER, 1);
    let counted = heirs.on_death(GONE, HEIR);
    assert_eq!(counted.into_iter().collect::<Vec<_>>(), [(id(1), 2)]);
    assert!(heirs.on_death(OTHER, HEIR).is_empty(), "whoever knew of one death took this one to be alive");
}

/// Whoever has heard of two deaths when we have heard of none may speak of either.
#[test]
fn a_share_that_is_two_deaths_ahead_waits_for_its_own() {
    let mut heirs = Heirs::default();
    heirs.on_share(id(1), GONE, 2);
    assert!(heirs.on_death(OTHER, HEIR).is_empty());
    assert_eq!(heirs.on_death(GONE, HEIR).get(&id(1)), Some(&1));
}

#[test]
fn a_kept_reference_is_counted_by_its_owner_or_by_who_testified() {
    let mut heirs = Heirs::default();
    assert_eq!(heirs.on_kept(0, kept(GONE)), Some(kept(GONE)));
    heirs.on_death(GONE, HEIR);
    assert_eq!(heirs.on_kept(0, kept(GONE)), None, "whoever keeps it has testified");
    assert_eq!(heirs.on_kept(1, kept(GONE)), Some(kept(HEIR)));
    assert_eq!(heirs.on_kept(0, kept(OTHER)), Some(kept(OTHER)));
}

#[test]
fn a_kept_reference_of_which_more_is_known_than_we_know_waits() {
    let mut heirs = Heirs::default();
    assert_eq!(heirs.on_kept(1, kept(GONE)), None);
    heirs.on_death(GONE, HEIR);
    let late = heirs.take_late();
    assert_eq!(late, [(1, kept(GONE))]);
    assert_eq!(heirs.on_kept(1, kept(GONE)), Some(kept(HEIR)), "it was kept after the death");
    assert!(heirs.take_late().is_empty());
}

#[test]
fn counts_of_deaths_wrap_round() {
    let mut heirs = Heirs::new([], u16::MAX);
    heirs.on_death(GONE, HEIR);
    assert_eq!(heirs.known(), 0);
    assert!(heirs.is_outdated(GONE, u16::MAX) && !heirs.is_outdated(GONE, 0));
}

#[test]
fn replies_that_wait_for_room_are_known_by_their_caller() {
    let mut heirs = Heirs::default();
    heirs.reply_waits(W1, 3, vec![64]);
    heirs.reply_waits(W2, 4, Vec::new());
    assert_eq!(heirs.replies_waiting(W1).collect::<Vec<_>>(), [(3, &[64][..])]);
    heirs.reply_went(W1, 3);
    assert_eq!(heirs.replies_waiting(W1).count(), 0);
}
