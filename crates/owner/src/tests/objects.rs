//! How long a value is kept: handles, uses, containers, and the object that stands for an actor.

use model::{Bulk, ObjectId, Place};
use smallvec::smallvec;

use super::story::{ACTOR, Made, Process, W1, W2, call, failed, freed, push, raised, resolved, retryable, task, value};
use crate::{ActorNews, Effect, Hold, Value};

#[test]
fn a_value_lives_as_long_as_its_last_handle() {
    let mut process = Process::new();
    let slot = process.put(&[]);
    process.owner.on_handle_added(slot);
    assert_eq!(process.dropped(slot), []);
    assert_eq!(process.dropped(slot), [freed(slot)]);
    assert_eq!(process.dropped(slot), [], "one handle was dropped twice");
    assert_eq!(process.owner.objects_kept(), 0);
}

#[test]
fn what_is_borrowed_is_not_owned_and_what_is_pending_is() {
    let mut process = Process::leased();
    let id = ObjectId::of(process.next_id(), 1);
    let theirs = process.owner.on_borrowed(id, Some(W2), 0);
    assert!(!process.owner.may_own_something());
    let ours = process.put(&[]);
    assert!(process.owner.may_own_something());
    process.dropped(ours);
    assert!(!process.owner.may_own_something());
    let a = process.submit(task());
    process.dropped(&a);
    assert!(process.owner.may_own_something(), "its task has not ended");
    process.replied(&a, W1, value(1));
    assert!(!process.owner.may_own_something());
    let many: Vec<_> = (0..100).map(|_| process.put(&[])).collect();
    many.into_iter().for_each(|slot| drop(process.dropped(slot)));
    assert!(process.owner.may_own_something(), "too many slots to look at while something is borrowed");
    assert!(!process.owner.owns_something());
    process.dropped(theirs);
    assert!(!process.owner.may_own_something());
}

#[test]
fn own_2_a_value_that_a_pending_task_uses_is_kept() {
    let mut process = Process::leased();
    let slot = process.put(&[]);
    let (a, b) = (process.submit(task().needs(slot)), process.submit(task().names(slot)));
    assert_eq!(process.dropped(slot), []);
    assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a)]);
    assert_eq!(process.replied(&b, W1, value(1)), [resolved(&b), freed(slot)]);
}

#[test]
fn a_result_that_nobody_holds_is_made_and_freed() {
    let mut process = Process::leased();
    let a = process.submit(task());
    assert_eq!(process.dropped(&a), [], "its task makes it");
    assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a), freed(&a)]);
}

#[test]
fn own_2_what_a_value_names_lives_as_long_as_the_value() {
    let mut process = Process::new();
    let inner = process.put(&[]);
    let middle = process.put(&[inner]);
    let outer = process.put(&[middle, inner]);
    for slot in [inner, middle] {
        assert_eq!(process.dropped(slot), []);
    }
    assert_eq!(process.dropped(outer), [freed(outer), freed(middle), freed(inner)]);
}

/// What an exception named was held by nobody, unless its process counted it for ever.
#[test]
fn own_2_what_an_error_names_lives_as_long_as_the_error_and_those_that_it_caused() {
    let mut process = Process::leased();
    let a = process.submit(task().returns(2));
    let b = process.submit(task().needs(a.slots[0]));
    let inner = process.put(&[]);
    let reply = smallvec![(failed(raised()), smallvec![inner])];
    process.when(|owner, now, out| {
        owner.hold(inner); // it came with the reply
        owner.on_replied(now, a.key, W1, reply, out);
    });
    process.dropped(inner);
    for slot in [a.slots[0], a.slots[1]] {
        process.dropped(slot);
        assert!(process.owner.object(inner).is_some(), "others hold it");
    }
    assert_eq!(process.dropped(&b), [freed(&b), freed(inner)]);
}

#[test]
fn what_an_error_names_that_is_tried_again_is_let_go() {
    let mut process = Process::leased();
    let a = process.submit(task().retries(1));
    let inner = process.put(&[]);
    let reply = smallvec![(retryable(), smallvec![inner])];
    process.when(|owner, now, out| {
        owner.hold(inner);
        owner.on_replied(now, a.key, W1, reply, out);
    });
    assert_eq!(process.dropped(inner), [freed(inner)]);
}

#[test]
fn a_long_chain_of_containers_is_freed_without_recursion() {
    let mut process = Process::new();
    let mut last = process.put(&[]);
    for _ in 0..50_000 {
        let id = ObjectId::of(process.next_id(), 1);
        let outer = process.owner.on_put(id, value(1), &[last]);
        process.owner.on_handle_dropped(last, &mut Vec::new());
        last = outer;
    }
    assert_eq!(process.dropped(last).len(), 50_001);
}

#[test]
fn what_a_returned_value_names_is_held_by_it() {
    let mut process = Process::leased();
    let (a, inner) = (process.submit(task()), process.put(&[]));
    process.owner.hold(inner);
    let reply = smallvec![(value(1), smallvec![inner])];
    process.when(|owner, now, out| owner.on_replied(now, a.key, W1, reply, out));
    assert_eq!(process.dropped(inner), []);
    assert_eq!(process.dropped(&a), [freed(&a), freed(inner)]);
}

#[test]
fn what_a_late_answer_names_is_let_go() {
    let mut process = Process::leased();
    let (a, inner) = (process.submit(task()), process.put(&[]));
    process.replied(&a, W1, value(1));
    process.owner.hold(inner);
    let reply = smallvec![(value(1), smallvec![inner])];
    process.when(|owner, now, out| owner.on_replied(now, a.key, W1, reply, out));
    assert_eq!(process.dropped(inner), [freed(inner)]);
}

const PLACE: Bulk = Bulk::Stored(Place { offset: 64, length: 8, serial: 1 });

#[test]
fn freeing_a_value_in_the_arena_tells_where_it_lay() {
    let mut process = Process::new();
    let id = ObjectId::of(process.next_id(), 1);
    let slot = process.owner.on_put(id, Value::bulk(PLACE), &[]);
    assert_eq!(process.dropped(slot), [Effect::Freed { slot, bulk: Some(PLACE) }]);
}

#[test]
fn an_actor_lives_as_long_as_a_handle_or_a_call_on_it() {
    let mut process = Process::new();
    let id = ObjectId::of(process.next_id(), 0);
    let life = process.owner.on_actor_made(id, ACTOR);
    process.news(0, ActorNews::Alive(W1));
    let a = process.submit(call().names(life));
    assert_eq!(a.effects, [push(&a, W1)]);
    assert_eq!(process.dropped(life), []);
    let effects = process.replied(&a, W1, value(1));
    assert_eq!(effects, [resolved(&a), Effect::ActorUnreachable(ACTOR), freed(life)]);
}

#[test]
fn a_call_through_a_counted_handle_keeps_its_actor_until_it_ends() {
    let mut process = Process::new();
    let id = ObjectId::of(process.next_id(), 0);
    let life = process.owner.on_actor_made(id, ACTOR);
    let a = process.submit(call());
    process.owner.on_call_holds(a.key, life);
    assert_eq!(process.dropped(life), [], "the handle is gone before the actor is there");
    assert_eq!(process.news(0, ActorNews::Alive(W1)), [push(&a, W1)]);
    let effects = process.replied(&a, W1, value(1));
    assert_eq!(effects, [resolved(&a), Effect::ActorUnreachable(ACTOR), freed(life)]);
    process.owner.on_call_holds(a.key, life);
    process.owner.check_invariants();
}

/// A call through a handle that `get_actor` gave ended with the actor when the creator's handle went.
#[test]
fn a_call_through_a_weak_handle_keeps_the_actor_where_a_counted_one_is_held() {
    let mut process = Process::new();
    let id = ObjectId::of(process.next_id(), 0);
    let life = process.owner.on_actor_made(id, ACTOR);
    process.owner.on_handle_made(ACTOR, true);
    process.owner.on_life_known(ACTOR, life);
    process.news(0, ActorNews::Alive(W1));
    let a = process.submit(call());
    process.owner.on_weak_call(a.key, ACTOR);
    assert_eq!(process.dropped(life), []);
    assert_eq!(process.owner.hold_on(&ACTOR), Hold::Here(life));
    let effects = process.replied(&a, W1, value(1));
    assert_eq!(effects, [resolved(&a), Effect::ActorUnreachable(ACTOR), freed(life)]);
    assert_eq!(process.owner.hold_on(&ACTOR), Hold::Over, "it was ours");
}

#[test]
fn a_weak_call_holds_nothing_else_once_the_actor_is_out_of_scope() {
    let mut process = Process::new();
    let id = ObjectId::of(process.next_id(), 0);
    let life = process.owner.on_actor_made(id, ACTOR);
    process.owner.on_handle_made(ACTOR, true);
    process.owner.on_life_known(ACTOR, life);
    process.dropped(life);
    let other = process.put(&[]);
    assert_eq!(other, life, "the slot is used again");
    let a = process.submit(call());
    process.owner.on_weak_call(a.key, ACTOR);
    assert_eq!(process.dropped(other), [freed(other)]);
}

#[test]
fn a_handle_that_was_given_counts_for_weak_calls_and_no_longer_than_it_is_held() {
    let mut process = Process::new();
    let id = ObjectId::of(process.next_id(), 0);
    assert_eq!(process.owner.hold_on(&ACTOR), Hold::Elsewhere, "never heard of");
    process.owner.on_handle_made(ACTOR, true);
    let life = process.owner.on_borrowed(id, Some(W2), 1);
    process.owner.on_life_known(ACTOR, life);
    process.news(0, ActorNews::Alive(W1));
    let a = process.submit(call());
    process.owner.on_weak_call(a.key, ACTOR);
    assert_eq!(process.dropped(life), []);
    let back = Effect::Borrowed { owner: W2, object: id, borrower: W2, count: -1 };
    assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a), back, freed(life)]);
    assert_eq!(process.owner.hold_on(&ACTOR), Hold::Elsewhere, "whoever made it may hold it still");
}

#[test]
fn an_actor_keeps_what_its_constructor_was_given() {
    let mut process = Process::new();
    let (id, argument) = (ObjectId::of(process.next_id(), 0), process.put(&[]));
    let life = process.owner.on_actor_made(id, ACTOR);
    process.owner.on_contains_set(life, &[argument]);
    assert_eq!(process.dropped(argument), []);
    assert_eq!(process.dropped(life), [Effect::ActorUnreachable(ACTOR), freed(life), freed(argument)]);
}

#[test]
fn nobody_is_told_of_an_actor_that_was_never_made() {
    let mut process = Process::new();
    let id = ObjectId::of(process.next_id(), 0);
    let life = process.owner.on_actor_made(id, ACTOR);
    process.owner.on_actor_not_made(life);
    assert_eq!(process.dropped(life), [freed(life)]);
}

pub(super) fn unread(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Unread { .. })).count()
}

#[test]
fn an_error_whose_last_ref_goes_unread_is_told_of_once() {
    let mut process = Process::leased();
    let (a, b) = (process.submit(task()), process.submit(task()));
    process.replied(&a, W1, failed(raised()));
    assert_eq!(unread(&process.dropped(&a)), 1);
    // The ref goes before the error comes.
    assert_eq!(process.dropped(&b), []);
    assert_eq!(unread(&process.replied(&b, W1, failed(raised()))), 1);
}

/// A task with thousands of values said thousands of times that it had failed.
#[test]
fn an_error_of_a_task_with_many_values_is_told_of_once() {
    let mut process = Process::leased();
    let (a, b) = (process.submit(task().returns(50)), process.submit(task().returns(50)));
    process.replied(&a, W1, failed(raised()));
    let told: usize = a.slots.iter().map(|slot| unread(&process.dropped(*slot))).sum();
    assert_eq!(told, 1);
    // The refs go before the error comes.
    b.slots.iter().for_each(|slot| assert_eq!(process.dropped(*slot), []));
    assert_eq!(unread(&process.replied(&b, W1, failed(raised()))), 1);
}

#[test]
fn an_error_that_was_read_used_or_asked_for_is_not_told_of() {
    let mut process = Process::leased();
    let made: Vec<Made> = (0..3).map(|_| process.submit(task())).collect();
    for made in &made {
        process.replied(made, W1, failed(raised()));
    }
    process.owner.on_failure_read(made[0].slot());
    let user = process.submit(task().needs(&made[1]));
    process.owner.on_escape(made[2].slot());
    let id = process.owner.object(made[2].slot()).unwrap().id;
    process.when(|owner, _, out| owner.on_wanted(&id, W2, out));
    let told: usize = made.iter().map(|made| unread(&process.dropped(made))).sum();
    assert_eq!(told, 0);
    assert_eq!(unread(&process.dropped(&user)), 0, "a failed argument is no error of the task's own");
}

#[test]
fn cancelled_tasks_and_dead_actors_leave_no_unread_error() {
    let mut process = Process::leased();
    let made = process.submit(task());
    process.replied(&made, W1, failed(model::Failure::Cancelled));
    assert_eq!(unread(&process.dropped(&made)), 0);
}
