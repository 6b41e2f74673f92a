//! Objects that cross processes: who counts whom, and what a death changes.

use model::{Failure, ObjectId, ProcId};
use smallvec::{SmallVec, smallvec};

use super::story::{Process, W1, W2, failed, freed, give_lease_back, push, request, resolved, task, value, worker};
use crate::{Effect, Kept, Slot, Value};

const OTHER: ProcId = worker(9);

fn escaped(process: &mut Process) -> (Slot, ObjectId) {
    let slot = process.put(&[]);
    process.owner.on_escape(slot);
    (slot, process.owner.object(slot).unwrap().id)
}

fn shares(process: &mut Process, id: ObjectId, borrower: ProcId, count: i32) -> Vec<Effect> {
    process.when(|owner, _, out| owner.on_shares(&id, borrower, count, out))
}

fn wanted(process: &mut Process, id: ObjectId, by: ProcId) -> Vec<Effect> {
    process.when(|owner, _, out| owner.on_wanted(&id, by, out))
}

fn have(process: &mut Process, id: ObjectId, value: Value) -> Vec<Effect> {
    process.when(|owner, _, out| owner.on_have(&id, value, SmallVec::new(), out))
}

fn gone(process: &mut Process, who: ProcId) -> Vec<Effect> {
    process.when(|owner, _, out| owner.on_process_gone(who, out))
}

fn borrowed(process: &mut Process, shares: i32) -> (Slot, ObjectId) {
    let id = ObjectId::of(process.next_id(), 1);
    (process.owner.on_borrowed(id, Some(OTHER), shares), id)
}

/// We let go of as many shares as the owner has counted for us; the body fills in who we are.
fn let_go(object: ObjectId, count: i32) -> Effect {
    Effect::Borrowed { owner: OTHER, object, borrower: OTHER, count }
}

#[test]
fn own_2_a_borrowed_object_outlives_its_owners_handle() {
    let mut process = Process::new();
    let (slot, id) = escaped(&mut process);
    shares(&mut process, id, W1, 1);
    shares(&mut process, id, W2, 1);
    assert_eq!(process.dropped(slot), []);
    assert_eq!(shares(&mut process, id, W1, -1), []);
    assert_eq!(shares(&mut process, id, W2, -1), [freed(slot)]);
    assert_eq!(process.owner.slot_of(&id), None);
}

#[test]
fn own_2_a_share_given_back_before_it_was_counted_frees_nothing_early() {
    let mut process = Process::new();
    let (slot, id) = escaped(&mut process);
    shares(&mut process, id, W1, 1);
    process.dropped(slot);
    // W1 handed it on to W2, which was quicker to let go than W1's word of it was to arrive.
    assert_eq!(shares(&mut process, id, W2, -1), []);
    assert_eq!(shares(&mut process, id, W2, 1), []);
    assert_eq!(shares(&mut process, id, W1, -1), [freed(slot)]);
}

/// They were waited for, in vain if whoever was to tell of them had died: the object was kept as long as its borrower lived.
#[test]
fn shares_below_zero_hold_nothing() {
    let mut process = Process::new();
    let (slot, id) = escaped(&mut process);
    shares(&mut process, id, W1, -1);
    assert_eq!(process.dropped(slot), [freed(slot)]);
    assert_eq!(shares(&mut process, id, W1, 1), [], "of what is gone");
    assert_eq!(process.owner.objects_kept(), 0);
}

#[test]
fn a_dead_borrower_holds_nothing() {
    let mut process = Process::new();
    let (slot, id) = escaped(&mut process);
    shares(&mut process, id, W1, 3);
    process.dropped(slot);
    assert_eq!(gone(&mut process, W1), [freed(slot)]);
    assert_eq!(gone(&mut process, W1), []);
}

#[test]
fn the_worker_that_keeps_an_argument_is_counted_before_the_call_lets_go() {
    let mut process = Process::leased();
    let (slot, id) = escaped(&mut process);
    let a = process.submit(task().names(slot));
    process.dropped(slot);
    assert_eq!(process.when(|owner, _, out| owner.on_kept_by(&id, None, W1, out)), []);
    assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a)]);
    assert_eq!(shares(&mut process, id, W1, -1), [freed(slot)]);
}

#[test]
fn the_owner_is_told_of_a_worker_that_keeps_what_we_borrowed() {
    let mut process = Process::new();
    let (_, id) = borrowed(&mut process, 1);
    let effects = process.when(|owner, _, out| owner.on_kept_by(&id, Some(OTHER), W1, out));
    assert_eq!(effects, [Effect::Borrowed { owner: OTHER, object: id, borrower: W1, count: 1 }]);
}

/// The caller lets go when it has the reply, which is quicker than word to the owner by way of the node: the object was gone.
#[test]
fn own_2_who_keeps_what_a_running_call_passed_on_is_told_of_by_its_reply() {
    let mut process = Process::new();
    let (slot, id) = borrowed(&mut process, 0);
    process.owner.on_call_begins(slot);
    let passed_on = process.submit(task().names(slot));
    process.granted(0, W1);
    assert_eq!(process.when(|owner, _, out| owner.on_kept_by(&id, Some(OTHER), W1, out)), [], "not now");
    process.replied(&passed_on, W1, value(1));
    assert_eq!(process.dropped(slot), [], "the call still runs");
    let mut kept = SmallVec::new();
    let effects = process.when(|owner, _, out| kept = owner.on_call_ends(slot, W2, out));
    assert_eq!(kept[..], [Kept { id, owner: OTHER, borrower: W1 }]);
    assert_eq!(effects, [freed(slot)], "we do not keep it");
}

#[test]
fn what_is_used_beyond_its_call_is_kept() {
    let mut process = Process::new();
    let (slot, id) = borrowed(&mut process, 0);
    process.owner.on_call_begins(slot);
    let passed_on = process.submit(task().names(slot));
    process.dropped(slot);
    let mut kept = SmallVec::new();
    process.when(|owner, _, out| kept = owner.on_call_ends(slot, W2, out));
    assert_eq!(kept[..], [Kept { id, owner: OTHER, borrower: W2 }], "a task of ours uses it");
    process.granted(0, W1);
    let told = process.when(|owner, _, out| owner.on_kept_by(&id, Some(OTHER), W1, out));
    assert_eq!(told, [Effect::Borrowed { owner: OTHER, object: id, borrower: W1, count: 1 }], "before we let go");
    assert_eq!(process.replied(&passed_on, W1, value(1)), [resolved(&passed_on), let_go(id, -1), freed(slot)]);
}

#[test]
fn a_borrower_gives_back_all_its_shares_at_once() {
    let mut process = Process::new();
    let (slot, id) = borrowed(&mut process, 1);
    assert_eq!(process.owner.on_borrowed(id, Some(OTHER), 1), slot);
    assert_eq!(process.owner.on_keep(slot), Some((id, OTHER)));
    assert_eq!(process.dropped(slot), []);
    assert_eq!(process.dropped(slot), [let_go(id, -3), freed(slot)]);
}

#[test]
fn an_argument_that_is_not_kept_costs_no_message() {
    let mut process = Process::new();
    let (slot, _) = borrowed(&mut process, 0);
    assert_eq!(process.dropped(slot), [freed(slot)]);
    assert_eq!(process.owner.on_keep(slot), None);
}

#[test]
fn a_borrowed_value_is_asked_for_once() {
    let mut process = Process::new();
    let (slot, id) = borrowed(&mut process, 1);
    let want = Effect::Want { owner: OTHER, object: id };
    let a = process.submit(task().needs(slot));
    assert_eq!(a.effects, [want]);
    assert_eq!(process.when(|owner, _, out| owner.on_needed(slot, out)), []);
    assert_eq!(have(&mut process, id, value(3)), [resolved(slot), request(0)]);
    assert_eq!(have(&mut process, id, value(4)), [], "it came twice");
    assert_eq!(process.value_of(slot), Some(value(3)));
}

#[test]
fn what_an_answer_that_comes_too_late_names_is_let_go() {
    let mut process = Process::new();
    let (slot, id) = borrowed(&mut process, 0);
    process.dropped(slot);
    let inner = ObjectId::of(process.next_id(), 1);
    let inner = process.owner.on_contained(inner, Some(OTHER), 1);
    let effects = process.when(|owner, _, out| owner.on_have(&id, value(1), smallvec![inner], out));
    assert!(effects.contains(&freed(inner)), "{effects:?}");
    assert_eq!(process.owner.objects_kept(), 0);
}

#[test]
fn whoever_wants_a_value_gets_it_once_it_is_there() {
    let mut process = Process::leased();
    let a = process.submit(task());
    process.owner.on_escape(a.slot());
    let object = process.owner.object(a.slot()).unwrap().id;
    assert_eq!(wanted(&mut process, object, W2), []);
    assert_eq!(wanted(&mut process, object, W2), [], "asked twice");
    let answer = Effect::Have { to: W2, object, value: value(5) };
    assert_eq!(process.replied(&a, W1, value(5)), [resolved(&a), answer.clone()]);
    assert_eq!(wanted(&mut process, object, W2), [answer]);
}

#[test]
fn whoever_wants_what_is_gone_is_told_so() {
    let mut process = Process::new();
    let object = ObjectId::of(process.next_id(), 1);
    let value = failed(Failure::Freed);
    assert_eq!(wanted(&mut process, object, W1), [Effect::Have { to: W1, object, value }]);
}

#[test]
fn when_the_owner_dies_what_waits_for_its_object_fails() {
    let mut process = Process::leased();
    let (slot, _) = borrowed(&mut process, 1);
    let (there, id) = borrowed(&mut process, 1);
    have(&mut process, id, value(1));
    let a = process.submit(task().needs(slot));
    assert_eq!(gone(&mut process, OTHER), [resolved(slot), resolved(&a)]);
    assert_eq!(process.value_of(slot), Some(failed(Failure::OwnerDied)));
    assert_eq!(process.value_of(there), Some(value(1)), "what is here stays");
    assert_eq!(process.dropped(there), [freed(there)], "there is nobody to be told");
}

#[test]
fn a_value_of_ours_that_comes_home_is_the_same_object() {
    let mut process = Process::new();
    let (slot, id) = escaped(&mut process);
    assert_eq!(process.owner.on_borrowed(id, None, 0), slot);
    assert_eq!(process.dropped(slot), []);
    assert_eq!(process.dropped(slot), [freed(slot)]);
    let late = process.owner.on_borrowed(id, None, 0);
    assert_eq!(process.value_of(late), Some(failed(Failure::Freed)), "nobody held it on the way");
    assert_eq!(process.dropped(late), [freed(late)]);
}

#[test]
fn a_reference_inside_a_value_is_held_by_the_value() {
    let mut process = Process::leased();
    let a = process.submit(task());
    let id = ObjectId::of(process.next_id(), 1);
    let inner = process.owner.on_contained(id, Some(OTHER), 1);
    let reply = smallvec![(value(1), smallvec![inner])];
    assert_eq!(process.when(|owner, now, out| owner.on_replied(now, a.key, W1, reply, out)), [resolved(&a)]);
    assert_eq!(process.dropped(&a), [freed(&a), let_go(id, -1), freed(inner)]);
}

#[test]
fn a_borrowed_argument_reaches_the_task_that_waits_for_it() {
    let mut process = Process::leased();
    let (slot, id) = borrowed(&mut process, 0);
    let a = process.submit(task().needs(slot));
    assert_eq!(process.dropped(slot), []);
    assert_eq!(have(&mut process, id, value(2)), [resolved(slot), push(&a, W1)]);
    assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a), freed(slot)]);
    assert_eq!(process.after_ms(600), [give_lease_back(0)]);
}
