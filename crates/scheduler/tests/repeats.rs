//! Every request may arrive twice, and late.

mod story;

use scheduler::{Effect, Event};
use story::{A, Node, cpus, granted, lease, tasks, worker};

#[test]
fn a_repeat_of_a_waiting_request_leaves_it_waiting() {
    let mut node = Node::cpus(1);
    assert_eq!(node.when(tasks(lease(A, 1), cpus(1))), [Effect::StartWorker]);
    assert_eq!(node.when(tasks(lease(A, 1), cpus(1))), []);
    assert_eq!(node.scheduler.waiting().count(), 1);
}

#[test]
fn sched_2_a_repeat_of_a_granted_request_gets_the_first_answer_again() {
    let mut node = Node::cpus(2);
    node.given([tasks(lease(A, 1), cpus(1))]);
    assert_eq!(node.when(tasks(lease(A, 1), cpus(1))), [granted(lease(A, 1), 1)]);
    assert_eq!(node.free_cpus(), 1.0);
}

#[test]
fn sched_2_a_lease_that_was_given_back_is_not_granted_again() {
    for end in [Event::LeaseReturned(lease(A, 1)), Event::LeaseCancelled(lease(A, 1))] {
        let mut node = Node::cpus(1);
        node.given([tasks(lease(A, 1), cpus(1)), end.clone()]);
        assert_eq!(node.when(tasks(lease(A, 1), cpus(1))), [], "the request came late");
        assert_eq!(node.when(end), []);
        assert_eq!(node.scheduler.idle_count(), 1);
    }
}

#[test]
fn a_request_that_its_own_cancellation_overtook_is_not_served() {
    let mut node = Node::cpus(1);
    assert_eq!(node.when(Event::LeaseCancelled(lease(A, 1))), []);
    assert_eq!(node.when(tasks(lease(A, 1), cpus(1))), []);
}

#[test]
fn a_request_repeated_after_its_worker_died_is_served_by_another() {
    let mut node = Node::cpus(1);
    node.given([tasks(lease(A, 1), cpus(1)), Event::WorkerDied(worker(1))]);
    assert_eq!(node.given([tasks(lease(A, 1), cpus(1))]), [granted(lease(A, 1), 2)]);
}

#[test]
fn news_of_unknown_and_dead_workers_change_nothing() {
    let mut node = Node::cpus(1);
    node.given([tasks(lease(A, 1), cpus(1))]);
    let stranger = worker(77);
    for event in [
        Event::WorkerDied(stranger),
        Event::WorkerBlocked(stranger),
        Event::WorkerUnblocked(stranger),
        Event::WorkerUnblocked(worker(1)),
        Event::WorkerReady(worker(1)),
        Event::LeaseReturned(lease(A, 5)),
        Event::OwnerDied(stranger),
    ] {
        assert_eq!(node.when(event), []);
        assert_eq!(node.free_cpus(), 0.0);
    }
    node.given([Event::WorkerDied(worker(1))]);
    assert_eq!(node.when(Event::WorkerDied(worker(1))), []);
    node.when(tasks(lease(A, 2), cpus(1)));
    assert_eq!(node.when(Event::WorkerReady(worker(1))), [], "it was dead before it was ready");
    assert_eq!(node.after_ms(100), [Effect::StartWorker]);
}
