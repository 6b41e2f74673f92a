//! Freed values: unreadable at once, their bytes kept for whoever reads them already.

use model::{Failure, ObjectId};

use super::story::{ACTOR, Process, W1, W2, argument, call, failed, push, resolved, stored, task};
use crate::{ActorNews, Effect};

fn freed() -> crate::Value {
    failed(Failure::Freed)
}

const PLACE: model::Bulk = model::Bulk::Stored(model::Place { offset: 64, length: 8, serial: 1 });

#[test]
fn a_freed_value_is_gone_and_so_are_its_bytes() {
    let mut process = Process::new();
    let slot = process.put_value(stored(64, 8), &[]);
    let effects = process.when(|owner, _, out| owner.on_free(slot, out));
    assert_eq!(effects[0], Effect::Resolved(slot));
    assert!(matches!(effects[1..], [Effect::Freed { bulk: Some(PLACE), .. }]), "{effects:?}");
    assert_eq!(process.value_of(slot), Some(freed()));
    assert_eq!(
        process.when(|owner, _, out| owner.on_free(slot, out)),
        [Effect::Resolved(slot)],
        "a repeat frees nothing"
    );
}

#[test]
fn what_a_freed_value_names_is_let_go() {
    let mut process = Process::new();
    let inner = process.put(&[]);
    let outer = process.put(&[inner]);
    process.when(|owner, _, out| owner.on_handle_dropped(inner, out));
    let effects = process.when(|owner, _, out| owner.on_free(outer, out));
    assert_eq!(effects, [Effect::Resolved(outer), Effect::Freed { slot: inner, bulk: None }]);
}

#[test]
fn a_value_that_is_still_to_come_never_does() {
    let mut process = Process::new();
    let made = process.submit(task());
    process.granted(0, W1);
    let slot = made.slots[0];
    assert_eq!(process.when(|owner, _, out| owner.on_free(slot, out)), [resolved(&made)]);
    let effects = process.replied(&made, W1, stored(64, 8));
    assert_eq!(effects, [Effect::Discarded(PLACE)]);
    assert_eq!(process.value_of(slot), Some(freed()));
}

#[test]
fn bytes_that_a_call_is_on_its_way_with_stay_until_its_end() {
    let mut process = Process::calling();
    let slot = process.put_value(stored(64, 8), &[]);
    let made = process.submit(call().needs(slot));
    assert_eq!(made.effects, [push(&made, W1)]);
    assert_eq!(process.when(|owner, _, out| owner.on_free(slot, out)), [Effect::Resolved(slot)]);
    let effects = process.replied(&made, W1, super::story::value(1));
    assert_eq!(effects[0], resolved(&made));
    assert!(matches!(effects[1..], [Effect::Freed { bulk: Some(PLACE), .. }]), "{effects:?}");
}

#[test]
fn a_call_that_waits_for_its_actor_ends_with_its_argument() {
    let mut process = Process::new();
    let slot = process.put(&[]);
    let (a, b) = (process.submit(call().needs(slot)), process.submit(call()));
    let effects = process.when(|owner, _, out| owner.on_free(slot, out));
    assert_eq!(effects, [Effect::Resolved(slot), resolved(&a)]);
    assert_eq!(process.value_of(&a), Some(argument(Failure::Freed)));
    assert_eq!(process.news(0, ActorNews::Alive(W1)), [push(&b, W1)]);
    assert_eq!(process.owner.callee(&ACTOR).unwrap().calls_pending(), 1);
}

#[test]
fn a_task_that_waits_for_a_worker_ends_with_its_argument() {
    let mut process = Process::new();
    let slot = process.put(&[]);
    let made = process.submit(task().needs(slot));
    let effects = process.when(|owner, _, out| owner.on_free(slot, out));
    assert!(effects.contains(&resolved(&made)), "{effects:?}");
    assert_eq!(process.value_of(&made), Some(argument(Failure::Freed)));
}

#[test]
fn bytes_that_others_know_of_stay_until_each_has_let_go_or_died() {
    let mut process = Process::new();
    let slot = process.put_value(stored(64, 8), &[]);
    let id = process.owner.object(slot).unwrap().id;
    process.owner.on_escape(slot);
    // One borrows it, the other was told where it lies while its call ran.
    process.when(|owner, _, out| owner.on_shares(&id, W1, 1, out));
    process.when(|owner, _, out| owner.on_wanted(&id, W2, out));
    let effects = process.when(|owner, _, out| owner.on_free(slot, out));
    let [Effect::Resolved(_), Effect::Unreadable { to: W1, bytes, .. }, Effect::Unreadable { to: W2, .. }] =
        &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!(process.when(|owner, _, out| owner.on_shares(bytes, W1, -1, out)), []);
    let effects = process.when(|owner, _, out| owner.on_process_gone(W2, out));
    assert!(matches!(effects[..], [Effect::Freed { bulk: Some(PLACE), .. }]), "{effects:?}");
}

#[test]
fn a_borrower_asks_the_owner_and_reads_no_more() {
    let mut process = Process::new();
    let (id, bytes) = (ObjectId([7; 28]), ObjectId([8; 28]));
    let slot = process.owner.on_borrowed(id, Some(W2), 1);
    process.when(|owner, _, out| owner.on_have(&id, stored(64, 8), smallvec::SmallVec::new(), out));
    let effects = process.when(|owner, _, out| owner.on_free(slot, out));
    assert_eq!(effects, [Effect::AskFree { owner: W2, object: id }, Effect::Resolved(slot)]);
    assert_eq!(process.value_of(slot), Some(freed()));
    let effects = process.when(|owner, _, out| owner.on_unreadable(&id, W2, bytes, out));
    assert_eq!(effects[0], Effect::Resolved(slot));
    assert!(
        matches!(effects[1], Effect::Borrowed { owner: W2, object, count: -1, .. } if object == bytes),
        "{effects:?}"
    );
}

#[test]
fn a_borrower_lets_go_of_the_bytes_when_its_calls_have_ended() {
    let mut process = Process::calling();
    let (id, bytes) = (ObjectId([7; 28]), ObjectId([8; 28]));
    let slot = process.owner.on_borrowed(id, Some(W2), 1);
    process.when(|owner, _, out| owner.on_have(&id, stored(64, 8), smallvec::SmallVec::new(), out));
    let made = process.submit(call().needs(slot));
    let effects = process.when(|owner, _, out| owner.on_unreadable(&id, W2, bytes, out));
    assert_eq!(effects, [Effect::Resolved(slot)]);
    let effects = process.replied(&made, W1, super::story::value(1));
    let is_told = |effect: &Effect| matches!(effect, Effect::Borrowed { object, count: -1, .. } if *object == bytes);
    assert!(effects.iter().any(is_told), "{effects:?}");
}
