//! Large values of a generator that are lost come from a second run of it.

use model::{Bulk, Failure, Place, TaskKey, Yields};

use super::story::{Made, Process, W1, W2, failed, freed, push, raised, resolved, retryable, task, value};
use crate::{Effect, Next, Slot, Value};

const STREAM: Yields = Yields::Stream { ahead_max: 0 };

fn bulk(serial: u64) -> Bulk {
    Bulk::Stored(Place { offset: 64 * serial, length: 8, serial })
}

fn large(serial: u64) -> Value {
    Value::bulk(bulk(serial))
}

fn gone(serial: u64) -> Effect {
    Effect::Discarded(bulk(serial))
}

fn lost(process: &mut Process, lost: &[(Slot, u64)]) -> Vec<Effect> {
    let lost: Vec<(Slot, Bulk)> = lost.iter().map(|(slot, serial)| (*slot, bulk(*serial))).collect();
    process.when(|owner, _, out| assert!(owner.on_lost(&lost, "the disk broke", out)))
}

fn maker(process: &Process, slot: Slot) -> TaskKey {
    process.owner.object(slot).unwrap().maker().unwrap()
}

fn says(process: &Process, slot: Slot, text: &str) -> bool {
    match process.value_of(slot) {
        Some(Value::Failed(failure)) => matches!(&*failure, Failure::Lost(why) if why.contains(text)),
        _ => false,
    }
}

fn next(process: &mut Process, made: &Made) -> Slot {
    match process.next(made.stream()) {
        Some(Next::Item { slot, .. }) => slot,
        other => panic!("{other:?}"),
    }
}

/// A generator that has yielded large values with the serials one to `count`, all of which are read and held.
fn running(process: &mut Process, count: u64, retries: i32, yields: Yields) -> (Made, Vec<Slot>) {
    let made = process.submit(task().yields(yields).retries(retries));
    let read = |serial| {
        process.yielded(&made, W1, large(serial));
        next(process, &made)
    };
    let slots = (1..=count).map(read).collect();
    (made, slots)
}

fn ended(process: &mut Process, count: u64, retries: i32) -> Vec<Slot> {
    let (made, slots) = running(process, count, retries, STREAM);
    process.replied(&made, W1, value(0));
    process.when(|owner, _, out| owner.on_stream_dropped(made.stream(), out));
    process.dropped(made.slot());
    slots
}

#[test]
fn lin_1_the_lost_value_comes_from_a_second_run_and_the_others_stay() {
    let mut process = Process::leased();
    let slots = ended(&mut process, 3, 3);
    let effects = lost(&mut process, &[(slots[1], 2)]);
    let again = maker(&process, slots[1]);
    assert_eq!(effects, [Effect::Unresolved(slots[1]), gone(2), push(again, W1)]);
    assert_eq!(process.yielded(again, W1, large(11)), [gone(11)]);
    assert_eq!(process.yielded(again, W1, large(12)), [resolved(slots[1])], "it is there before the run is over");
    assert_eq!(process.yielded(again, W1, large(13)), [gone(13)]);
    assert_eq!(process.yielded(again, W1, large(14)), [gone(14)], "more than before");
    assert_eq!(process.replied(again, W1, value(0)), []);
    assert_eq!(
        slots.iter().map(|slot| process.value_of(*slot)).collect::<Vec<_>>(),
        [1, 12, 3].map(|n| Some(large(n)))
    );
    slots.into_iter().for_each(|slot| drop(process.dropped(slot)));
    assert_eq!((process.owner.objects_kept(), process.owner.tasks_pending()), (0, 0));
}

#[test]
fn lin_1_it_is_made_again_while_the_generator_runs_and_its_reader_sees_nothing_of_it() {
    let mut process = Process::leased();
    let (first, slots) = running(&mut process, 2, 3, Yields::Stream { ahead_max: 2 });
    let effects = lost(&mut process, &[(slots[0], 1)]);
    let again = maker(&process, slots[0]);
    assert!(effects.contains(&push(again, W1)));
    assert_eq!(process.owner.consumed(again), Some(u32::MAX), "nobody reads it, so that it waits for nobody");
    process.yielded(&first, W1, large(3));
    assert_eq!(process.yielded(again, W1, large(11)), [resolved(slots[0])]);
    process.replied(again, W1, value(0));
    let third = next(&mut process, &first);
    assert_eq!((process.value_of(slots[0]), process.value_of(third)), (Some(large(11)), Some(large(3))));
    process.replied(&first, W1, value(0));
    assert_eq!(process.next(first.stream()), Some(Next::End));
    // What came after the second run had begun is kept as well.
    lost(&mut process, &[(third, 3)]);
    let again = maker(&process, third);
    (21..23).for_each(|serial| assert_eq!(process.yielded(again, W1, large(serial)), [gone(serial)]));
    assert_eq!(process.yielded(again, W1, large(23)), [resolved(third)]);
}

#[test]
fn lin_1_what_does_not_come_again_fails() {
    let mut process = Process::leased();
    let slots = ended(&mut process, 3, 3);
    lost(&mut process, &[(slots[0], 1), (slots[2], 3)]);
    let again = maker(&process, slots[0]);
    assert_eq!(maker(&process, slots[2]), again, "one run for both");
    process.yielded(again, W1, large(11));
    assert_eq!(process.replied(again, W1, value(0)), [resolved(slots[2])]);
    assert!(says(&process, slots[2], "1 values only"));
    assert_eq!((process.value_of(slots[0]), process.value_of(slots[1])), (Some(large(11)), Some(large(2))));
}

#[test]
fn lin_1_a_second_run_that_raises_is_the_value() {
    let mut process = Process::leased();
    let slots = ended(&mut process, 2, 3);
    lost(&mut process, &[(slots[0], 1), (slots[1], 2)]);
    let again = maker(&process, slots[0]);
    process.yielded(again, W1, large(11));
    assert_eq!(process.replied(again, W1, failed(raised())), [resolved(slots[1])]);
    assert_eq!((process.value_of(slots[0]), process.value_of(slots[1])), (Some(large(11)), Some(failed(raised()))));
}

#[test]
fn lin_1_retries_are_spent_by_second_runs_and_their_faults() {
    let mut process = Process::leased();
    let slots = ended(&mut process, 1, 2);
    lost(&mut process, &[(slots[0], 1)]);
    let again = maker(&process, slots[0]);
    process.yielded(again, W1, large(11));
    assert_eq!(process.replied(again, W1, retryable()), [push(again, W1)], "it is tried again");
    assert_eq!(process.yielded(again, W1, large(12)), [gone(12)], "it has come already");
    process.replied(again, W1, value(0));
    lost(&mut process, &[(slots[0], 11)]);
    assert!(says(&process, slots[0], "no retries left"));
    let never = ended(&mut process, 1, 0);
    lost(&mut process, &[(never[0], 1)]);
    assert!(says(&process, never[0], "no task can make it again"));
}

#[test]
fn lin_1_what_is_lost_behind_the_second_run_is_made_by_a_third() {
    let mut process = Process::leased();
    let slots = ended(&mut process, 2, 3);
    lost(&mut process, &[(slots[1], 2)]);
    let second = maker(&process, slots[1]);
    process.yielded(second, W1, large(11));
    lost(&mut process, &[(slots[0], 1)]);
    assert_eq!(maker(&process, slots[0]), second);
    process.yielded(second, W1, large(12));
    process.replied(second, W1, value(0));
    let third = maker(&process, slots[0]);
    assert_ne!(second, third);
    assert_eq!(process.yielded(third, W1, large(21)), [resolved(slots[0])]);
}

#[test]
fn lin_1_a_second_run_whose_worker_dies_begins_again() {
    let mut process = Process::leased();
    let slots = ended(&mut process, 2, 3);
    lost(&mut process, &[(slots[0], 1), (slots[1], 2)]);
    let again = maker(&process, slots[0]);
    process.yielded(again, W1, large(11));
    process.when(|owner, _, out| owner.on_worker_died(W1, &super::story::exit(), |_| true, out));
    process.granted(1, W2);
    assert_eq!(process.yielded(again, W2, large(21)), [gone(21)]);
    assert_eq!(process.yielded(again, W2, large(22)), [resolved(slots[1])]);
}

#[test]
fn lin_2_a_generator_is_kept_as_long_as_a_large_value_of_it_and_its_arguments_too() {
    let mut process = Process::leased();
    let argument = process.put(&[]);
    let made = process.submit(task().yields(STREAM).needs(argument).retries(3));
    process.dropped(argument);
    process.yielded(&made, W1, large(1));
    process.yielded(&made, W1, value(2));
    let (first, second) = (next(&mut process, &made), next(&mut process, &made));
    process.replied(&made, W1, value(0));
    process.when(|owner, _, out| owner.on_stream_dropped(made.stream(), out));
    process.dropped(made.slot());
    assert_eq!(process.dropped(second), [freed(second)]);
    assert_eq!(process.owner.objects_kept(), 2);
    assert!(process.dropped(first).contains(&freed(argument)));
    assert_eq!(process.owner.objects_kept(), 0);
}

#[test]
fn lin_2_a_value_that_only_a_kept_task_needs_is_made_again_with_it() {
    let mut process = Process::leased();
    let slots = ended(&mut process, 2, 3);
    let user = process.submit(task().needs(slots[1]).retries(3));
    process.replied(&user, W1, large(9));
    assert_eq!(process.dropped(slots[1]), [gone(2), Effect::Unresolved(slots[1])]);
    lost(&mut process, &[(user.slot(), 9)]);
    let again = maker(&process, slots[1]);
    process.yielded(again, W1, large(11));
    process.yielded(again, W1, large(12));
    process.replied(maker(&process, user.slot()), W1, large(19));
    process.replied(again, W1, value(0));
    assert_eq!((process.value_of(&user), process.value_of(slots[1])), (Some(large(19)), None), "it is thin again");
    lost(&mut process, &[(slots[0], 1)]);
    let again = maker(&process, slots[0]);
    process.yielded(again, W1, large(21));
    process.yielded(again, W1, large(22));
    process.replied(again, W1, value(0));
    assert_eq!(process.value_of(slots[1]), None, "thin, and not lost");
}

#[test]
fn a_cancelled_generator_never_runs_again() {
    let mut process = Process::leased();
    let (made, slots) = running(&mut process, 1, 3, STREAM);
    process.cancelled(&made);
    lost(&mut process, &[(slots[0], 1)]);
    assert!(says(&process, slots[0], "no task can make it again"));
    process.replied(&made, W1, failed(Failure::Cancelled));
    assert_eq!(process.owner.tasks_pending(), 0);
}

#[test]
fn a_second_run_that_is_cancelled_is_the_value() {
    let mut process = Process::leased();
    let slots = ended(&mut process, 2, 3);
    lost(&mut process, &[(slots[0], 1)]);
    let again = maker(&process, slots[0]);
    process.cancelled(slots[0]);
    process.replied(again, W1, failed(Failure::Cancelled));
    assert_eq!(
        (process.value_of(slots[0]), process.value_of(slots[1])),
        (Some(failed(Failure::Cancelled)), Some(large(2)))
    );
}

#[test]
fn lin_4_a_generator_that_was_forgotten_says_so() {
    let mut process = Process::leased();
    process.owner.set_lineage_max(1, false);
    let (_made, slots) = running(&mut process, 2, 3, STREAM);
    lost(&mut process, &[(slots[0], 1), (slots[1], 2)]);
    assert!(slots.iter().all(|slot| says(&process, *slot, "LINEAGE_EVICTED")));
}

#[test]
fn values_that_a_list_names_are_made_again_too() {
    let mut process = Process::leased();
    let made = process.submit(task().yields(Yields::List).retries(3));
    process.yielded(&made, W1, large(1));
    let id = model::ObjectId::of(process.owner.task(made.key).unwrap().spec.id, 2);
    let slot = process.owner.slot_of(&id).unwrap();
    process.owner.on_handle_added(slot);
    process.replied(&made, W1, value(0));
    lost(&mut process, &[(slot, 1)]);
    assert_eq!(process.yielded(maker(&process, slot), W1, large(11)), [resolved(slot)]);
}
