//! Cancelling: what has not started never does; what runs is interrupted and never tried again.

use model::Failure;

use super::story::{Process, W1, W2, argument, call, failed, give_lease_back, interrupt, push, request, resolved};
use super::story::{retryable, take_back, task, value};
use crate::ActorNews;

#[test]
fn a_task_that_waits_for_an_argument_never_runs() {
    let mut process = Process::leased();
    let a = process.submit(task());
    let b = process.submit(task().needs(&a));
    assert_eq!(process.cancelled(&b), [resolved(&b)]);
    assert_eq!(process.value_of(&b), Some(failed(Failure::Cancelled)));
    assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a)]);
}

#[test]
fn what_needs_a_cancelled_task_does_not_run() {
    let mut process = Process::new();
    let a = process.submit(task());
    let b = process.submit(task().needs(&a));
    assert_eq!(process.cancelled(&a), [resolved(&a), resolved(&b)]);
    assert_eq!(process.value_of(&b), Some(argument(Failure::Cancelled)));
}

/// Its key stayed in the queue, so the request for a worker stayed open, for ever if no worker could be had.
#[test]
fn the_request_for_a_cancelled_task_is_taken_back() {
    let mut process = Process::new();
    let a = process.submit(task());
    assert_eq!(process.cancelled(&a), [resolved(&a)]);
    assert_eq!(process.after_ms(1), [give_lease_back(0)]);
    assert!(!process.owner.needs_tick());
}

#[test]
fn a_task_that_was_sent_is_taken_back() {
    let mut process = Process::leased();
    let a = process.submit(task());
    assert_eq!(process.cancelled(&a), [take_back(&a, W1), interrupt(&a, W1)]);
    assert_eq!(process.took_back(&a, W1), [resolved(&a)]);
    assert_eq!(process.value_of(&a), Some(failed(Failure::Cancelled)));
    assert!(!process.owner.is_under(a.key, W1), "there is nothing to interrupt");
}

#[test]
fn a_task_that_runs_answers_for_itself() {
    let mut process = Process::leased();
    let a = process.submit(task());
    process.cancelled(&a);
    assert!(process.owner.is_under(a.key, W1));
    assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a)]);
    assert_eq!(process.value_of(&a), Some(value(1)), "it was faster");
}

#[test]
fn a_cancelled_task_is_not_tried_again() {
    let mut process = Process::leased();
    let (a, b) = (process.submit(task().retries(3)), process.submit(task().retries(3)));
    process.cancelled(&a);
    process.cancelled(&b);
    assert_eq!(process.replied(&a, W1, retryable()), [resolved(&a)]);
    assert_eq!(process.died(W1, &[&b]), [resolved(&b)]);
    assert_eq!(process.value_of(&b), Some(failed(Failure::Cancelled)));
}

#[test]
fn a_cancelled_task_given_back_ends() {
    let mut process = Process::leased();
    let (_running, b) = (process.submit(task()), process.submit(task()));
    process.cancelled(&b);
    assert_eq!(process.given_back(&b, W1), [resolved(&b)]);
}

#[test]
fn what_has_ended_cannot_be_cancelled() {
    let mut process = Process::leased();
    let a = process.submit(task());
    process.replied(&a, W1, value(1));
    assert_eq!(process.cancelled(&a), []);
    let put = process.put(&[]);
    assert!(!process.owner.on_cancel(put, true, true, &mut Vec::new()));
}

#[test]
fn cancelling_twice_is_cancelling_once() {
    let mut process = Process::leased();
    let a = process.submit(task());
    assert_eq!(process.cancelled(&a), process.cancelled(&a));
    assert_eq!(process.took_back(&a, W1), [resolved(&a)]);
    assert_eq!(process.took_back(&a, W1), []);
}

#[test]
fn a_cancelled_call_lets_those_behind_it_pass() {
    let mut process = Process::calling();
    let argument = process.submit(task());
    assert_eq!(argument.effects, [request(0)]);
    let (a, b) = (process.submit(call().needs(&argument)), process.submit(call()));
    assert_eq!(b.effects, [], "it waits behind a");
    assert_eq!(process.cancelled(&a), [resolved(&a), push(&b, W1)]);
}

/// Those behind it waited for the end of a life that had nothing of theirs any more.
#[test]
fn a_call_taken_back_from_an_ending_life_lets_the_next_life_begin() {
    let mut process = Process::calling();
    let a = process.submit(call().retries(1));
    process.news(1, ActorNews::Alive(W2));
    let b = process.submit(call().retries(1));
    process.cancelled(&a);
    assert_eq!(process.took_back(&a, W1), [resolved(&a), push(&b, W2)]);
}

#[test]
fn a_call_cancelled_while_its_actor_is_in_limbo_ends_cancelled() {
    let mut process = Process::calling();
    let a = process.submit(call().retries(-1));
    process.died(W1, &[&a]);
    assert_eq!(process.cancelled(&a), []);
    assert_eq!(process.news(1, ActorNews::Restarting), [resolved(&a)]);
    assert_eq!(process.value_of(&a), Some(failed(Failure::Cancelled)));
    assert_eq!(process.news(1, ActorNews::Alive(W2)), []);
}

#[test]
fn a_cancelled_call_of_a_dead_actor_ends_cancelled() {
    let mut process = Process::calling();
    let a = process.submit(call());
    process.cancelled(&a);
    assert_eq!(process.news(0, super::story::crashed()), [resolved(&a)]);
    assert_eq!(process.value_of(&a), Some(failed(Failure::Cancelled)));
}
