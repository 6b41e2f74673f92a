//! Workers leased for tasks of one shape: asked for, filled, emptied, given back.

use super::story::{Made, Process, W1, W2, W3, failed, give_lease_back, push, raised, request, resolved, take_back};
use super::story::{task, value};
use crate::pool::TURN_MS;
use crate::{Effect, LEASE_IDLE_MS, PIPELINE_MAX};

#[test]
fn calls_are_pushed_ahead_and_two_more_workers_are_asked_for() {
    let mut process = Process::leased();
    let made: Vec<Made> = (0..PIPELINE_MAX + 1).map(|_| process.submit(task())).collect();
    assert_eq!(made[0].effects, [push(&made[0], W1)]);
    assert_eq!(made[1].effects, [push(&made[1], W1), request(1)]);
    assert_eq!(made[2].effects, [push(&made[2], W1), request(2)]);
    assert_eq!(made[3].effects, [push(&made[3], W1)]);
    assert_eq!(made[PIPELINE_MAX].effects, [], "its worker has enough");
}

#[test]
fn tasks_of_another_shape_ask_for_their_own_worker() {
    let mut process = Process::leased();
    let a = process.submit(task().cpus(3));
    assert!(matches!(a.effects[..], [Effect::RequestLease { number: 1, .. }]), "{:?}", a.effects);
    assert_eq!(process.granted(1, W2), [push(&a, W2)]);
}

#[test]
fn a_grant_that_comes_twice_is_one_lease() {
    let mut process = Process::new();
    let a = process.submit(task());
    process.granted(0, W1);
    assert_eq!(process.granted(0, W1), []);
    assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a)]);
}

#[test]
fn a_grant_that_nobody_waits_for_any_more_goes_back() {
    let mut process = Process::new();
    let a = process.submit(task());
    process.cancelled(&a);
    assert_eq!(process.after_ms(1), [give_lease_back(0)]);
    assert_eq!(process.granted(0, W1), [give_lease_back(0)]);
    assert!(!process.owner.needs_tick());
}

#[test]
fn a_new_worker_takes_half_of_what_waits_behind_a_slow_call() {
    let mut process = Process::leased();
    let made: Vec<Made> = (0..5).map(|_| process.submit(task())).collect();
    let effects = process.granted(1, W2);
    assert_eq!(effects, [request(3), take_back(&made[4], W1), take_back(&made[3], W1)]);
    assert_eq!(process.took_back(&made[4], W1), [push(&made[4], W2)]);
    assert_eq!(process.took_back(&made[3], W1), [push(&made[3], W2)]);
    assert_eq!(process.replied(&made[4], W1, value(9)), [], "it is elsewhere now");
}

#[test]
fn a_worker_that_runs_dry_takes_from_the_busiest() {
    let mut process = Process::leased();
    let made: Vec<Made> = (0..3).map(|_| process.submit(task())).collect();
    process.granted(1, W2);
    process.took_back(&made[2], W1);
    let effects = process.replied(&made[2], W2, value(1));
    assert_eq!(effects, [take_back(&made[1], W1), resolved(&made[2])]);
    assert_eq!(process.took_back(&made[1], W1), [push(&made[1], W2)]);
}

#[test]
fn what_a_waiting_worker_gives_back_runs_elsewhere() {
    let mut process = Process::leased();
    let (a, b) = (process.submit(task()), process.submit(task()));
    assert_eq!(process.given_back(&b, W1), []);
    let c = process.submit(task());
    assert_eq!(c.effects, [request(2)], "nothing is pushed behind a call that waits");
    assert_eq!(process.granted(1, W2), [push(&b, W2), push(&c, W2)]);
    assert_eq!(process.replied(&a, W1, value(1)), [take_back(&c, W2), resolved(&a)]);
    assert_eq!(process.given_back(&b, W1), [], "it is elsewhere now");
}

/// On another node calls that are taken back come later than the next worker: both idle workers asked for the same one, and the second had
/// nothing to do for ever.
#[test]
fn what_comes_back_late_is_not_all_that_the_next_idle_worker_gets() {
    let mut process = Process::leased();
    let made: Vec<Made> = (0..4).map(|_| process.submit(task())).collect();
    assert_eq!(process.granted(1, W2), [request(3), take_back(&made[3], W1), take_back(&made[2], W1)]);
    assert_eq!(process.granted(2, W3), [take_back(&made[3], W1), take_back(&made[2], W1)]);
    assert_eq!(process.took_back(&made[3], W1), [push(&made[3], W2), take_back(&made[2], W1)], "W3 has nothing");
    assert_eq!(process.took_back(&made[2], W1), [push(&made[2], W3)]);
}

/// A thread that a finished call left behind waits, so the worker gives back whatever comes: the call went to and fro
/// between the two, and for ever if it was what the thread waited for.
#[test]
fn a_call_given_back_by_a_worker_that_runs_nothing_is_not_sent_there_again() {
    let mut process = Process::leased();
    let a = process.submit(task());
    assert_eq!(process.given_back(&a, W1), [request(1)]);
    assert_eq!(process.granted(1, W2), [push(&a, W2)]);
    assert_eq!(process.after_ms(LEASE_IDLE_MS), [give_lease_back(0)]);
}

#[test]
fn own_4_a_call_given_back_costs_no_retry() {
    let mut process = Process::leased();
    let (_running, b) = (process.submit(task()), process.submit(task()));
    process.given_back(&b, W1);
    process.granted(1, W2);
    assert_eq!(process.died(W2, &[]), [request(2)]);
    assert_eq!(process.granted(2, W3), [push(&b, W3)]);
}

#[test]
fn a_revoked_lease_takes_nothing_new_and_goes_back_once_it_is_empty() {
    let mut process = Process::leased();
    let (a, b) = (process.submit(task()), process.submit(task()));
    process.after_ms(TURN_MS);
    assert_eq!(process.revoked(0), [take_back(&b, W1)]);
    assert_eq!(process.took_back(&b, W1), []);
    let c = process.submit(task());
    assert_eq!(c.effects, [request(2)]);
    assert_eq!(process.replied(&a, W1, value(1)), [give_lease_back(0), resolved(&a)]);
    assert_eq!(process.granted(1, W2), [push(&b, W2), push(&c, W2)]);
}

/// More owners than workers took turns call by call: each hand-over cost as much as the calls of a whole batch.
#[test]
fn a_lease_asked_back_soon_after_its_grant_is_used_until_its_turn_is_over() {
    let mut process = Process::leased();
    let (a, b) = (process.submit(task()), process.submit(task()));
    assert_eq!(process.revoked(0), []);
    assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a)]);
    let (c, d) = (process.submit(task()), process.submit(task()));
    assert_eq!(c.effects, [push(&c, W1)]);
    process.now = process.now.plus_ms(TURN_MS);
    assert_eq!(process.replied(&b, W1, value(1)), [take_back(&d, W1), resolved(&b)]);
    assert_eq!(process.replied(&c, W1, value(1)), [resolved(&c)]);
}

#[test]
fn a_lease_asked_back_during_its_turn_goes_back_with_its_last_call() {
    let mut process = Process::leased();
    let a = process.submit(task());
    assert_eq!(process.revoked(0), []);
    assert_eq!(process.replied(&a, W1, value(1)), [give_lease_back(0), resolved(&a)]);
}

#[test]
fn a_lease_asked_back_goes_back_after_a_long_call_and_takes_no_second_one_along() {
    let mut process = Process::leased();
    let (a, b) = (process.submit(task()), process.submit(task()));
    assert_eq!(process.revoked(0), []);
    assert_eq!(process.after_ms(100), [take_back(&b, W1)]);
    assert_eq!(process.took_back(&b, W1), []);
    assert_eq!(process.replied(&a, W1, value(1)), [give_lease_back(0), resolved(&a)]);
}

#[test]
fn a_revoked_lease_that_is_empty_goes_back_at_once() {
    let mut process = Process::leased();
    assert_eq!(process.revoked(0), [give_lease_back(0)]);
    assert_eq!(process.revoked(0), [], "the node said it twice");
}

/// The node has no rings left: it revokes what it never granted. The request was forgotten, and its task waited for ever.
#[test]
fn a_request_that_the_node_refuses_is_made_again_a_little_later() {
    let mut process = Process::new();
    let a = process.submit(task());
    assert_eq!(process.revoked(0), [], "at once would be a loop");
    assert!(process.owner.needs_tick());
    assert_eq!(process.after_ms(100), [request(1)]);
    assert_eq!(process.granted(1, W1), [push(&a, W1)]);
}

#[test]
fn an_idle_lease_is_kept_for_a_while_and_then_given_back() {
    let mut process = Process::leased();
    assert_eq!(process.after_ms(LEASE_IDLE_MS - 1), []);
    assert_eq!(process.after_ms(1), [give_lease_back(0)]);
    assert!(!process.owner.needs_tick());
    assert_eq!(process.after_ms(LEASE_IDLE_MS), []);
}

#[test]
fn a_lease_that_works_is_kept_however_long_that_takes() {
    let mut process = Process::leased();
    let a = process.submit(task());
    assert_eq!(process.after_ms(100 * LEASE_IDLE_MS), []);
    assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a)]);
    assert_eq!(process.after_ms(LEASE_IDLE_MS - 1), []);
}

#[test]
fn requests_that_nothing_waits_for_are_taken_back() {
    let mut process = Process::leased();
    let (a, b) = (process.submit(task()), process.submit(task()));
    assert_eq!(b.effects[1], request(1));
    process.replied(&a, W1, value(1));
    assert_eq!(process.after_ms(1), [give_lease_back(1)]);
    assert_eq!(process.replied(&b, W1, value(1)), [resolved(&b)]);
}

/// The calls that filled a worker were cancelled before it started one: nobody looked at what waited behind them.
#[test]
fn room_that_cancelled_calls_leave_is_used() {
    let mut process = Process::leased();
    let made: Vec<Made> = (0..PIPELINE_MAX + 1).map(|_| process.submit(task())).collect();
    let last = &made[PIPELINE_MAX];
    process.cancelled(&made[0]);
    assert_eq!(process.took_back(&made[0], W1), [resolved(&made[0]), push(last, W1)]);
}

#[test]
fn a_dead_worker_leaves_its_calls_to_another_in_their_order() {
    let mut process = Process::leased();
    let made: Vec<Made> = (0..3).map(|_| process.submit(task())).collect();
    process.died(W1, &[]);
    let effects = process.granted(1, W2);
    assert_eq!(effects[..3], [push(&made[0], W2), push(&made[1], W2), push(&made[2], W2)]);
    assert_eq!(process.died(W1, &[&made[0]]), [], "the node said it twice");
}

#[test]
fn a_failed_call_frees_its_worker_like_any_other() {
    let mut process = Process::leased();
    let made: Vec<Made> = (0..PIPELINE_MAX + 1).map(|_| process.submit(task())).collect();
    let effects = process.replied(&made[0], W1, failed(raised()));
    assert_eq!(effects, [push(&made[PIPELINE_MAX], W1), resolved(&made[0])]);
}
