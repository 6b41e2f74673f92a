use std::sync::Arc;

use model::{ActorDeath, Failure, Yields};
use smallvec::smallvec;

use super::objects::unread;
use super::story::*;
use crate::{ActorNews, Effect, Next, Value};

const STREAM: Yields = Yields::Stream { ahead_max: 0 };
const BOUNDED: Yields = Yields::Stream { ahead_max: 2 };

fn generator() -> Call {
    task().yields(STREAM)
}

fn consumed(task: &Made, count: u32) -> Effect {
    Effect::Consumed { task: task.key, worker: W1, count }
}

fn crashed_worker() -> Value {
    failed(Failure::WorkerDied(exit()))
}

const PLACE: model::Bulk = model::Bulk::Stored(model::Place { offset: 64, length: 8, serial: 1 });

#[test]
fn stream_1_values_are_read_in_order_as_they_come() {
    let mut process = Process::leased();
    let made = process.submit(generator());
    let stream = made.stream();
    let next = process.owner.stream_front(stream).expect("it is read");
    assert_eq!(process.next(stream), None);
    assert_eq!(process.yielded(&made, W1, value(1)), [resolved(next)]);
    process.yielded(&made, W1, value(2));
    assert_eq!(process.read_all(stream), (vec![value(1), value(2)], false));
    process.yielded(&made, W1, value(3));
    process.replied(&made, W1, value(0));
    assert_eq!(process.read_all(stream), (vec![value(3)], true));
    assert_eq!(process.next(stream), Some(Next::End));
    assert_eq!(process.value_of(&made), Some(value(0)));
}

#[test]
fn each_item_has_an_id_of_its_own_behind_the_task_s_end() {
    let mut process = Process::leased();
    let made = process.submit(generator());
    let stream = made.stream();
    let id = process.owner.object(made.slot()).expect("held").id;
    for index in 0..3 {
        process.yielded(&made, W1, value(index));
        let Some(Next::Item { id: item, .. }) = process.next(stream) else { panic!("it has come") };
        assert_eq!((item.task(), item.index()), (id.task(), u32::from(index) + 2));
    }
}

#[test]
fn whoever_waits_for_the_next_value_hears_of_the_end() {
    let mut process = Process::leased();
    let made = process.submit(generator());
    let next = process.owner.stream_front(made.stream()).expect("it is read");
    let effects = process.replied(&made, W1, value(0));
    assert!(effects.contains(&resolved(next)), "{effects:?}");
}

#[test]
fn stream_2_one_failure_follows_the_values_and_then_the_end() {
    let mut process = Process::leased();
    let made = process.submit(generator());
    let stream = made.stream();
    process.yielded(&made, W1, value(1));
    process.replied(&made, W1, failed(raised()));
    assert_eq!(process.read_all(stream), (vec![value(1), failed(raised())], true));
    assert_eq!(process.value_of(&made), Some(failed(raised())));
    assert_eq!(process.next(stream), Some(Next::End));
}

#[test]
fn a_worker_that_dies_without_a_retry_left_is_one_failure_behind_what_came() {
    let mut process = Process::leased();
    let made = process.submit(generator());
    let stream = made.stream();
    process.yielded(&made, W1, value(1));
    process.died(W1, &[&made]);
    assert_eq!(process.read_all(stream), (vec![value(1), crashed_worker()], true));
}

#[test]
fn stream_1_a_generator_that_runs_again_gives_only_what_has_not_come() {
    let mut process = Process::leased();
    let made = process.submit(generator().retries(1));
    let stream = made.stream();
    process.yielded(&made, W1, value(1));
    process.yielded(&made, W1, value(2));
    assert!(matches!(process.next(stream), Some(Next::Item { .. })));
    process.died(W1, &[&made]);
    process.granted(1, W2);
    for number in 11..14 {
        process.yielded(&made, W2, value(number));
    }
    process.replied(&made, W2, value(0));
    assert_eq!(process.read_all(stream), (vec![value(2), value(13)], true));
}

#[test]
fn values_of_an_earlier_run_that_come_late_are_let_go() {
    let mut process = Process::leased();
    let made = process.submit(generator().retries(1));
    let stream = made.stream();
    process.died(W1, &[&made]);
    process.granted(1, W2);
    let stored = Value::bulk(PLACE);
    assert_eq!(process.yielded(&made, W1, stored), [Effect::Discarded(PLACE)]);
    assert_eq!(process.read_all(stream), (vec![], false));
}

#[test]
fn an_exception_that_is_worth_it_runs_the_generator_again() {
    let mut process = Process::leased();
    let made = process.submit(generator().retries(1));
    let stream = made.stream();
    process.yielded(&made, W1, value(1));
    assert_eq!(process.replied(&made, W1, retryable()), [push(&made, W1)]);
    assert_eq!(process.read_all(stream), (vec![value(1)], false));
    process.yielded(&made, W1, value(1));
    process.yielded(&made, W1, value(2));
    process.replied(&made, W1, retryable());
    assert_eq!(process.read_all(stream), (vec![value(2), retryable()], true));
}

#[test]
fn a_run_that_gives_less_than_one_before_is_no_success() {
    let mut process = Process::leased();
    let made = process.submit(generator().retries(1));
    let stream = made.stream();
    (1..4).for_each(|number| _ = process.yielded(&made, W1, value(number)));
    process.died(W1, &[&made]);
    process.granted(1, W2);
    process.yielded(&made, W2, value(1));
    process.replied(&made, W2, value(0));
    let replay = failed(Failure::Replay { produced: 1, expected: 3 });
    assert_eq!(process.read_all(stream), (vec![value(1), value(2), value(3), replay.clone()], true));
    assert_eq!(process.value_of(&made), Some(replay));
}

#[test]
fn the_worker_of_a_bounded_generator_hears_of_every_value_read() {
    let mut process = Process::leased();
    let made = process.submit(task().yields(BOUNDED));
    let stream = made.stream();
    process.yielded(&made, W1, value(1));
    process.yielded(&made, W1, value(2));
    for count in 1..3 {
        let effects = process.when(|owner, _, out| _ = owner.on_next(stream, out));
        assert_eq!(effects, [consumed(&made, count)]);
    }
    assert_eq!(process.owner.consumed(made.key), Some(2));
}

#[test]
fn nobody_is_told_of_a_generator_without_a_bound() {
    let mut process = Process::leased();
    let made = process.submit(generator());
    let stream = made.stream();
    process.yielded(&made, W1, value(1));
    assert_eq!(process.when(|owner, _, out| _ = owner.on_next(stream, out)), []);
    assert_eq!(process.owner.consumed(made.key), None);
}

#[test]
fn a_bounded_generator_that_runs_again_may_go_as_far_as_its_reader_was() {
    let mut process = Process::leased();
    let made = process.submit(task().yields(BOUNDED).retries(1));
    let stream = made.stream();
    process.yielded(&made, W1, value(1));
    process.next(stream);
    process.died(W1, &[&made]);
    process.granted(1, W2);
    assert_eq!(process.owner.consumed(made.key), Some(1));
}

#[test]
fn a_stream_that_nobody_reads_keeps_nothing_and_its_task_runs_on() {
    let mut process = Process::leased();
    let made = process.submit(task().yields(BOUNDED));
    let stream = made.stream();
    process.yielded(&made, W1, value(1));
    let before = process.owner.objects_kept();
    let effects = process.when(|owner, _, out| owner.on_stream_dropped(stream, out));
    assert_eq!(effects.last(), Some(&consumed(&made, u32::MAX)));
    assert_eq!(process.owner.objects_kept(), before - 2);
    let stored = Value::bulk(PLACE);
    assert_eq!(process.yielded(&made, W1, stored), [Effect::Discarded(PLACE)]);
    process.replied(&made, W1, value(0));
    process.dropped(made.slot());
    assert_eq!((process.owner.objects_kept(), process.owner.tasks_pending()), (0, 0));
}

#[test]
fn items_outlive_the_stream_and_are_freed_with_their_last_handle() {
    let mut process = Process::leased();
    let made = process.submit(generator());
    let stream = made.stream();
    process.yielded(&made, W1, value(1));
    let Some(Next::Item { slot, .. }) = process.next(stream) else { panic!("it has come") };
    process.replied(&made, W1, value(0));
    process.when(|owner, _, out| owner.on_stream_dropped(stream, out));
    assert_eq!(process.value_of(slot), Some(value(1)));
    assert_eq!(process.dropped(slot), [freed(slot)]);
    process.dropped(made.slot());
    assert_eq!(process.owner.objects_kept(), 0);
}

#[test]
fn what_came_before_a_cancel_is_not_read_and_what_comes_after_is_let_go() {
    let mut process = Process::leased();
    let made = process.submit(generator().retries(3));
    let stream = made.stream();
    process.yielded(&made, W1, value(1));
    let effects = process.cancelled(made.slot());
    assert!(effects.contains(&interrupt(&made, W1)), "{effects:?}");
    assert_eq!(process.read_all(stream), (vec![], false));
    process.yielded(&made, W1, value(2));
    process.replied(&made, W1, value(0));
    assert_eq!(process.read_all(stream), (vec![failed(Failure::Cancelled)], true));
}

#[test]
fn a_generator_cancelled_before_it_started_ends_at_once() {
    let mut process = Process::new();
    let made = process.submit(generator());
    let stream = made.stream();
    process.cancelled(made.slot());
    assert_eq!(process.read_all(stream), (vec![failed(Failure::Cancelled)], true));
}

#[test]
fn a_dead_actor_s_generator_ends_with_its_death() {
    let mut process = Process::calling();
    let made = process.submit(call().yields(STREAM));
    let stream = made.stream();
    process.yielded(&made, W1, value(1));
    process.news(0, ActorNews::Dead(ActorDeath::Killed));
    process.died(W1, &[&made]);
    assert_eq!(process.read_all(stream), (vec![value(1), failed(Failure::ActorDied(ACTOR, ActorDeath::Killed))], true));
}

#[test]
fn a_restarted_actor_s_generator_yields_from_its_beginning_and_is_read_on() {
    let mut process = Process::calling();
    let made = process.submit(call().yields(STREAM).retries(1));
    let stream = made.stream();
    process.yielded(&made, W1, value(1));
    process.died(W1, &[&made]);
    process.news(1, ActorNews::Restarting);
    process.news(1, ActorNews::Alive(W2));
    process.yielded(&made, W2, value(1));
    process.yielded(&made, W2, value(2));
    process.replied(&made, W2, value(0));
    assert_eq!(process.read_all(stream), (vec![value(1), value(2)], true));
}

/// The task had ended before its stream could be asked for: the caller got none, and it was kept for ever.
#[test]
fn a_dead_actor_s_generator_has_a_stream_to_read_the_failure_from() {
    let mut process = Process::calling();
    process.news(0, ActorNews::Dead(ActorDeath::Killed));
    let made = process.submit(call().yields(STREAM));
    let stream = made.stream();
    assert_eq!(process.read_all(stream), (vec![failed(Failure::ActorDied(ACTOR, ActorDeath::Killed))], true));
    process.dropped(made.slot());
    process.when(|owner, _, out| owner.on_stream_dropped(stream, out));
    assert_eq!(process.owner.objects_kept(), 0);
}

#[test]
fn a_list_s_items_live_as_long_as_the_value_that_names_them() {
    let mut process = Process::leased();
    let made = process.submit(task().yields(Yields::List));
    process.yielded(&made, W1, value(1));
    let id = process.owner.object(made.slot()).expect("held").id;
    let item = process.owner.slot_of(&model::ObjectId::of(id.task(), 2)).expect("it can be named");
    let contained = process.owner.on_contained(model::ObjectId::of(id.task(), 2), None, 0);
    assert_eq!(contained, item);
    process.when(|owner, now, out| {
        owner.on_replied(now, made.key, W1, smallvec![(value(9), smallvec![item])], out);
    });
    assert_eq!(process.value_of(item), Some(value(1)));
    let effects = process.dropped(made.slot());
    assert_eq!(effects, [freed(made.slot()), freed(item)]);
}

#[test]
fn a_list_whose_last_item_wants_a_retry_begins_anew() {
    let mut process = Process::leased();
    let made = process.submit(task().yields(Yields::List).retries(1));
    process.yielded(&made, W1, value(1));
    process.yielded(&made, W1, retryable());
    let effects = process.replied(&made, W1, value(9));
    assert_eq!(effects.last(), Some(&push(&made, W1)));
    assert_eq!(process.owner.objects_kept(), 1);
    process.yielded(&made, W1, retryable());
    process.replied(&made, W1, value(9));
    assert_eq!(process.value_of(&made), Some(value(9)));
}

#[test]
fn the_end_of_the_node_ends_every_stream() {
    let mut process = Process::leased();
    let made = process.submit(generator());
    let stream = made.stream();
    let mut out = Vec::new();
    process.owner.on_node_gone(&mut out);
    let Next::Item { slot, .. } = process.owner.on_next(stream, &mut out) else { panic!("it has failed") };
    assert_eq!(process.value_of(slot), Some(Value::Failed(Arc::new(Failure::NodeDied))));
    assert_eq!(process.owner.on_next(stream, &mut out), Next::End);
}

#[test]
fn some_returns_of_a_generator_may_fail_beside_others_that_do_not() {
    let mut process = Process::leased();
    let made = process.submit(task().returns(2).retries(1));
    let reply = || smallvec![(value(1), smallvec![]), (retryable(), smallvec![])];
    let effects = process.when(|owner, now, out| owner.on_replied(now, made.key, W1, reply(), out));
    assert_eq!(effects, [push(&made, W1)]);
    process.when(|owner, now, out| owner.on_replied(now, made.key, W1, reply(), out));
    assert_eq!((process.value_of(made.slots[0]), process.value_of(made.slots[1])), (Some(value(1)), Some(retryable())));
}

/// The worker names what it has yielded in its list, and word of the shares overtakes the values: they were forgotten, and the values kept for
/// ever.
#[test]
fn own_2_shares_of_a_lists_values_count_although_they_come_before_the_values() {
    let mut process = Process::leased();
    let made = process.submit(task().yields(Yields::List));
    let item = model::ObjectId::of(process.owner.task(made.key).unwrap().spec.id, 2);
    let shares = |process: &mut Process, count| process.when(|owner, _, out| owner.on_shares(&item, W1, count, out));
    shares(&mut process, -1);
    process.yielded(&made, W1, value(1));
    shares(&mut process, 1);
    process.replied(&made, W1, value(2));
    process.dropped(made.slot());
    assert_eq!(process.owner.objects_kept(), 0);
}

/// It was told of although the loop over the generator had raised it: the call's own end held the same error, which nobody read.
#[test]
fn an_error_that_the_stream_or_the_end_gave_is_not_told_of() {
    for reads_end in [false, true] {
        let mut process = Process::leased();
        let made = process.submit(generator());
        process.replied(&made, W1, failed(raised()));
        if reads_end {
            process.owner.on_failure_read(made.slot());
        } else {
            let Some(Next::Item { slot, .. }) = process.next(made.stream()) else { panic!("it has failed") };
            process.owner.on_failure_read(slot);
            assert_eq!(unread(&process.dropped(slot)), 0);
        }
        let told = process.when(|owner, _, out| owner.on_stream_dropped(made.stream(), out));
        assert_eq!(unread(&told), 0, "reads_end: {reads_end}");
        assert_eq!(unread(&process.dropped(&made)), 0, "reads_end: {reads_end}");
    }
}

#[test]
fn an_error_of_a_generator_that_nobody_read_is_told_of_once() {
    for is_early in [false, true] {
        let mut process = Process::leased();
        let made = process.submit(generator());
        let mut told = 0;
        if is_early {
            told += unread(&process.when(|owner, _, out| owner.on_stream_dropped(made.stream(), out)));
        }
        told += unread(&process.replied(&made, W1, failed(raised())));
        if !is_early {
            told += unread(&process.when(|owner, _, out| owner.on_stream_dropped(made.stream(), out)));
        }
        told += unread(&process.dropped(&made));
        assert_eq!(told, 1, "is_early: {is_early}");
    }
}
