//! One task's way: its arguments, its worker, its retries, its end.

use std::sync::Arc;

use model::Failure;
use smallvec::smallvec;

use super::story::{Made, Process, W1, W2, argument, exit, failed, freed, push, raised, request};
use super::story::{resolved, retryable, task, value};
use crate::{Stage, Value};

#[test]
fn a_task_waits_for_a_worker_runs_and_ends() {
    let mut process = Process::new();
    let a = process.submit(task());
    assert_eq!(a.effects, [request(0)]);
    assert_eq!(process.granted(0, W1), [push(&a, W1)]);
    assert_eq!(process.replied(&a, W1, value(5)), [resolved(&a)]);
    assert_eq!(process.value_of(&a), Some(value(5)));
    assert_eq!(process.owner.tasks_pending(), 0);
}

#[test]
fn a_task_waits_for_its_arguments() {
    let mut process = Process::leased();
    let a = process.submit(task());
    let b = process.submit(task().needs(&a).needs(&a));
    assert_eq!(b.effects, []);
    assert_eq!(process.owner.task(b.key).unwrap().stage, Stage::Waiting(2));
    let effects = process.replied(&a, W1, value(5));
    assert!(effects.contains(&resolved(&a)) && effects.contains(&push(&b, W1)), "{effects:?}");
}

#[test]
fn a_task_whose_arguments_are_there_waits_for_none() {
    let mut process = Process::leased();
    let argument = process.put(&[]);
    let a = process.submit(task().needs(argument));
    assert_eq!(a.effects, [push(&a, W1)]);
}

#[test]
fn a_task_whose_argument_fails_does_not_run() {
    let mut process = Process::leased();
    let a = process.submit(task());
    let b = process.submit(task().needs(&a));
    let effects = process.replied(&a, W1, failed(raised()));
    assert_eq!(effects, [resolved(&a), resolved(&b)]);
    assert_eq!(process.value_of(&b), Some(argument(raised())));
    let late = process.submit(task().needs(&a));
    assert_eq!(late.effects, [resolved(&late)]);
    assert_eq!(process.value_of(&late), Some(argument(raised())));
}

/// The owner used to call itself once per link: a chain of 20,000 tasks whose first one failed overran the stack.
#[test]
fn a_failure_runs_down_a_chain_of_any_length() {
    let mut process = Process::leased();
    let first = process.submit(task());
    let mut last = first.clone();
    for _ in 0..20_000 {
        last = process.submit_unchecked(task().needs(&last));
    }
    let effects = process.replied(&first, W1, failed(raised()));
    assert_eq!(effects.len(), 20_001);
    let mut hops = 0;
    let Some(Value::Failed(mut failure)) = process.value_of(&last) else { panic!("it failed") };
    while let Failure::Argument { cause, .. } = &*failure.clone() {
        failure = Arc::clone(cause);
        hops += 1;
    }
    assert_eq!(*failure, raised(), "the first cause is told");
    assert!((2..=64).contains(&hops), "{hops} hops are told");
}

#[test]
fn one_failure_is_the_value_of_every_return() {
    let mut process = Process::leased();
    let a = process.submit(task().returns(3));
    process.replied(&a, W1, failed(raised()));
    for slot in &a.slots {
        assert_eq!(process.value_of(*slot), Some(failed(raised())));
    }
}

#[test]
fn every_return_gets_its_own_value() {
    let mut process = Process::leased();
    let a = process.submit(task().returns(2));
    let reply = smallvec![(value(1), smallvec![]), (value(2), smallvec![])];
    let effects = process.when(|owner, now, out| owner.on_replied(now, a.key, W1, reply, out));
    assert_eq!(effects, [resolved(a.slots[0]), resolved(a.slots[1])]);
    assert_eq!(process.value_of(a.slots[1]), Some(value(2)));
}

#[test]
fn a_reply_of_the_wrong_length_keeps_nothing_alive() {
    let mut process = Process::leased();
    let (a, inner) = (process.submit(task().returns(3)), process.put(&[]));
    let reply = smallvec![(value(1), smallvec![inner]), (value(2), smallvec![])];
    process.owner.hold(inner);
    process.when(|owner, now, out| owner.on_replied(now, a.key, W1, reply, out));
    assert_eq!(process.dropped(inner), [freed(inner)]);
}

#[test]
fn own_1_a_second_answer_is_ignored() {
    let mut process = Process::leased();
    let a = process.submit(task());
    process.replied(&a, W1, value(1));
    assert_eq!(process.replied(&a, W1, value(2)), []);
    assert_eq!(process.value_of(&a), Some(value(1)));
}

#[test]
fn own_1_an_answer_from_a_worker_that_has_not_got_the_task_is_ignored() {
    let mut process = Process::leased();
    let a = process.submit(task());
    assert_eq!(process.replied(&a, W2, value(1)), []);
    assert_eq!(process.value_of(&a), None);
}

#[test]
fn own_1_an_answer_to_a_task_whose_place_was_given_to_another_is_ignored() {
    let mut process = Process::leased();
    let old = process.submit(task());
    process.replied(&old, W1, value(1));
    let new = process.submit(task());
    assert_eq!(new.key.slot(), old.key.slot());
    assert_eq!(process.replied(&old, W1, value(2)), []);
    assert_eq!(process.value_of(&new), None);
}

#[test]
fn own_4_a_run_that_ended_with_its_worker_costs_a_retry() {
    let mut process = Process::leased();
    let a = process.submit(task().retries(1));
    assert_eq!(process.died(W1, &[&a]), [request(1)]);
    assert_eq!(process.granted(1, W2), [push(&a, W2)]);
    assert_eq!(process.died(W2, &[&a]), [resolved(&a)]);
    assert_eq!(process.value_of(&a), Some(failed(Failure::WorkerDied(exit()))));
}

#[test]
fn own_4_a_run_that_never_began_costs_nothing() {
    let mut process = Process::leased();
    let (running, queued) = (process.submit(task()), process.submit(task()));
    let effects = process.died(W1, &[&running]);
    assert!(effects.contains(&resolved(&running)) && !effects.contains(&resolved(&queued)), "{effects:?}");
    assert_eq!(process.granted(1, W2), [push(&queued, W2)]);
}

#[test]
fn own_4_retries_below_zero_have_no_end() {
    let mut process = Process::new();
    let a = process.submit(task().retries(-1));
    for number in 0..10 {
        assert_eq!(process.granted(number, W1), [push(&a, W1)]);
        assert_eq!(process.died(W1, &[&a]), [request(number + 1)]);
    }
}

#[test]
fn a_retryable_exception_costs_a_retry_and_is_the_answer_once_none_is_left() {
    let mut process = Process::leased();
    let a = process.submit(task().retries(1));
    assert_eq!(process.replied(&a, W1, retryable()), [push(&a, W1)]);
    assert_eq!(process.replied(&a, W1, retryable()), [resolved(&a)]);
    assert_eq!(process.value_of(&a), Some(retryable()));
}

#[test]
fn own_4_exceptions_and_crashes_draw_from_one_budget() {
    let mut process = Process::leased();
    let a = process.submit(task().retries(1));
    process.replied(&a, W1, retryable());
    assert_eq!(process.died(W1, &[&a]), [resolved(&a)]);
}

#[test]
fn arguments_are_held_until_the_task_ends_and_not_longer() {
    let mut process = Process::leased();
    let (argument, inner) = (process.put(&[]), process.put(&[]));
    let a = process.submit(task().needs(argument).names(inner));
    assert_eq!(process.dropped(argument), []);
    assert_eq!(process.dropped(inner), []);
    let effects = process.replied(&a, W1, value(1));
    assert_eq!(effects, [resolved(&a), freed(argument), freed(inner)]);
}

#[test]
fn a_task_that_cannot_be_sent_ends_and_leaves_its_worker_to_others() {
    let mut process = Process::leased();
    let a = process.submit(task());
    // It waits for room in the arena.
    process.owner.on_pushed(a.key, 0);
    let full = || Failure::StoreFull("no room".into());
    let effects = process.when(|owner, now, out| owner.on_cannot_send(now, a.key, full(), out));
    assert_eq!(effects, [resolved(&a)]);
    assert_eq!(process.value_of(&a), Some(failed(full())));
    // The worker was taken for idle since the machine had started, and given back at once.
    assert_eq!(process.after_ms(1), []);
    let Made { effects, key, .. } = process.submit(task());
    assert_eq!(effects, [push(key, W1)]);
}

/// Its first worker died while it waited for room, and the answer that there is none came when it ran on the second.
#[test]
fn a_task_that_was_sent_elsewhere_meanwhile_runs_on() {
    let mut process = Process::leased();
    let a = process.submit(task());
    process.owner.on_pushed(a.key, 0);
    process.died(W1, &[]);
    assert_eq!(process.granted(1, W2), [push(&a, W2)]);
    let full = Failure::StoreFull("no room".into());
    assert_eq!(process.when(|owner, now, out| owner.on_cannot_send(now, a.key, full, out)), []);
    assert_eq!(process.replied(&a, W2, value(1)), [resolved(&a)]);
}

#[test]
fn when_the_node_is_gone_everything_that_waits_fails() {
    let mut process = Process::leased();
    let a = process.submit(task());
    let b = process.submit(task().needs(&a));
    let other = process.submit(task().cpus(2));
    let effects = process.when(|owner, _, out| owner.on_node_gone(out));
    assert_eq!(effects.len(), 3, "nothing is pushed or asked for: {effects:?}");
    assert_eq!(process.value_of(&a), Some(failed(Failure::NodeDied)));
    assert!(process.value_of(&b).is_some() && process.value_of(&other).is_some());
    assert_eq!((process.owner.tasks_pending(), process.owner.needs_tick()), (0, false));
}
