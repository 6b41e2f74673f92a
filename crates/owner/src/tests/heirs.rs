//! Who stands for whom, and what comes from those who had heard of a death sooner or later.

use model::{JobId, ObjectId, ProcId, TaskId};

use super::story::{Process, W1, W2, freed, worker};
use crate::{Heirs, Kept, Knew, Known, Late, Owner};

const GONE: ProcId = worker(8);
const OTHER: ProcId = worker(7);
const HEIR: ProcId = worker(9);

fn id(number: u64) -> ObjectId {
    ObjectId::of(TaskId::root(JobId([1; 4]), [1; 16]).child(number), 1)
}

/// What somebody of our node knows who has heard of so many deaths.
fn after(count: u16) -> Known {
    Knew::Count(count).of(GONE)
}

/// What somebody of another node knows who says this of the dead.
fn heard(of: &[ProcId]) -> Known {
    Knew::Dead(of).of(GONE)
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
    assert!(heirs.is_outdated(GONE, after(4)) && !heirs.is_outdated(GONE, after(5)));
}

#[test]
fn a_share_from_somebody_who_had_not_heard_is_claimed_from_the_heir() {
    let mut heirs = Heirs::default();
    assert_eq!(heirs.on_share((id(1), GONE), GONE, after(0)), None);
    heirs.on_death(GONE, HEIR);
    assert_eq!(heirs.on_share((id(1), GONE), GONE, after(0)), Some(HEIR));
    assert_eq!(heirs.on_share((id(1), GONE), GONE, after(1)), None, "it was registered with the heir");
    assert_eq!(heirs.on_share((id(1), OTHER), OTHER, after(0)), None, "its owner lives");
}

#[test]
fn a_share_from_somebody_who_had_heard_before_us_counts_already() {
    let mut heirs = Heirs::default();
    heirs.on_share((id(1), GONE), GONE, after(1));
    heirs.on_share((id(1), GONE), GONE, after(1));
    heirs.on_share((id(2), GONE), GONE, after(0));
    heirs.on_share((id(3), OTHER), OTHER, after(1));
    let counted = heirs.on_death(GONE, HEIR).counted;
    assert_eq!(counted.into_iter().collect::<Vec<_>>(), [(id(1), 2)]);
    assert!(heirs.on_death(OTHER, HEIR).counted.is_empty(), "whoever knew of one death took this one to be alive");
}

/// Whoever has heard of two deaths when we have heard of none may speak of either.
#[test]
fn a_share_that_is_two_deaths_ahead_waits_for_its_own() {
    let mut heirs = Heirs::default();
    heirs.on_share((id(1), GONE), GONE, after(2));
    assert!(heirs.on_death(OTHER, HEIR).counted.is_empty());
    assert_eq!(heirs.on_death(GONE, HEIR).counted.get(&id(1)), Some(&1));
}

/// We know it by the heir's name, from one who had heard; another one, who had not, gave us a share and registered that with the dead.
#[test]
fn a_share_that_comes_under_the_dead_ones_name_is_told_of_when_we_hear_of_the_death() {
    let mut heirs = Heirs::default();
    assert_eq!(heirs.on_share((id(1), HEIR), GONE, after(0)), None);
    assert_eq!(heirs.on_death(GONE, HEIR).astray, [id(1)]);
    assert!(heirs.on_death(OTHER, HEIR).astray.is_empty());
}

#[test]
fn a_kept_reference_is_counted_by_its_owner_or_by_who_testified() {
    let (mut heirs, owner) = (Heirs::default(), &mut Owner::new());
    assert_eq!(heirs.on_kept(after(0), kept(GONE), owner), Some(kept(GONE)));
    heirs.on_death(GONE, HEIR);
    assert_eq!(heirs.on_kept(after(0), kept(GONE), owner), None, "whoever keeps it has testified");
    assert_eq!(heirs.on_kept(after(1), kept(GONE), owner), Some(kept(HEIR)));
    assert_eq!(heirs.on_kept(after(0), kept(OTHER), owner), Some(kept(OTHER)));
}

#[test]
fn a_kept_reference_of_which_more_is_known_than_we_know_waits() {
    let (mut heirs, owner) = (Heirs::default(), &mut Owner::new());
    assert_eq!(heirs.on_kept(after(1), kept(GONE), owner), None);
    heirs.on_death(GONE, HEIR);
    assert_eq!(heirs.take_late(), [Late { known: after(1), kept: kept(GONE), slot: None }]);
    assert_eq!(heirs.on_kept(after(1), kept(GONE), owner), Some(kept(HEIR)), "it was kept after the death");
    assert!(heirs.take_late().is_empty());
}

/// A worker that kept our object answered after it had heard of a death that we had not. That it keeps it was to be counted later, the hold of
/// its call ended at once, and the object was freed.
#[test]
fn what_waits_to_be_counted_is_held() {
    let (mut heirs, mut process) = (Heirs::default(), Process::new());
    let slot = process.put(&[]);
    process.owner.on_escape(slot);
    let id = process.owner.object(slot).unwrap().id;
    assert_eq!(heirs.on_kept(after(1), Kept { id, owner: HEIR, borrower: W1 }, &mut process.owner), None);
    assert_eq!(process.dropped(slot), []);
    heirs.on_death(GONE, HEIR);
    assert_eq!(heirs.take_late()[0].slot, Some(slot));
    assert_eq!(process.dropped(slot), [freed(slot)]);
}

#[test]
fn counts_of_deaths_wrap_round() {
    let mut heirs = Heirs::new([], u16::MAX);
    heirs.on_death(GONE, HEIR);
    assert_eq!(heirs.known(), 0);
    assert!(heirs.is_outdated(GONE, after(u16::MAX)) && !heirs.is_outdated(GONE, after(0)));
}

#[test]
fn replies_that_wait_for_room_are_known_by_their_caller() {
    let mut heirs = Heirs::default();
    heirs.reply_waits(W1, 3);
    heirs.reply_waits(W2, 4);
    assert_eq!(heirs.replies_waiting(W1).collect::<Vec<_>>(), [3]);
    heirs.reply_went(W1, 3);
    assert_eq!(heirs.replies_waiting(W1).count(), 0);
}

/// From another node comes a list instead of a count: of this one death it is told whether it was known.
#[test]
fn a_share_from_another_node_is_claimed_or_counted_by_what_its_sender_says_of_that_death() {
    let mut heirs = Heirs::default();
    assert_eq!(heirs.on_share((id(1), GONE), GONE, heard(&[GONE, OTHER])), None, "it was registered with the heir");
    assert_eq!(heirs.on_share((id(2), GONE), GONE, heard(&[OTHER])), None, "nobody has heard of a death");
    assert_eq!(heirs.on_share((id(3), GONE), HEIR, heard(&[])), None, "it came under the heir's own name");
    heirs.on_death(OTHER, HEIR);
    let mut counted: Vec<_> = heirs.on_death(GONE, HEIR).counted.into_iter().collect();
    counted.sort_unstable();
    assert_eq!(counted, [(id(1), 1), (id(3), 1)]);
    assert_eq!(heirs.on_share((id(1), HEIR), GONE, heard(&[])), Some(HEIR), "it was registered with the dead");
    assert_eq!(heirs.on_share((id(1), HEIR), GONE, heard(&[GONE])), None);
}

#[test]
fn a_kept_reference_from_another_node_waits_for_the_death_that_its_sender_knew_of() {
    let (mut heirs, owner) = (Heirs::default(), &mut Owner::new());
    assert_eq!(heirs.on_kept(heard(&[GONE]), kept(GONE), owner), None);
    assert_eq!(heirs.on_kept(heard(&[]), kept(GONE), owner), Some(kept(GONE)));
    heirs.on_death(GONE, HEIR);
    assert_eq!(heirs.take_late().len(), 1);
    assert_eq!(heirs.on_kept(heard(&[GONE]), kept(GONE), owner), Some(kept(HEIR)));
    assert_eq!(heirs.on_kept(heard(&[]), kept(GONE), owner), None, "whoever keeps it has testified");
}
