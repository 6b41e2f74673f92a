//! Workers are started when needed, reused, and ended when idle for long.

mod story;

use model::{JobId, Need, Tick};
use scheduler::{Effect, Event, LeaseKind, Options, WaitReason};
use story::{A, B, Node, actor, cpus, granted, lease, options, tasks, worker};

fn stocked(prestart: u32) -> Options {
    Options { prestart, ..options(cpus(4)) }
}

#[test]
fn the_first_tick_starts_the_stock_of_idle_workers() {
    let mut node = Node::new(stocked(2));
    assert_eq!(node.scheduler.next_tick(node.now), Some(node.now));
    assert_eq!(node.when(Event::Tick), [Effect::StartWorker, Effect::StartWorker]);
    assert_eq!(node.when(Event::Tick), [], "they are on their way");
    assert_eq!(node.scheduler.next_tick(node.now), None, "nothing is polled while idle");
}

#[test]
fn the_stock_is_refilled_when_taken_and_trimmed_when_too_large() {
    let mut node = Node::new(stocked(1));
    node.given([Event::Tick]);
    let effects = node.when(tasks(lease(A, 1), cpus(1)));
    assert_eq!(effects, [granted(lease(A, 1), 1), Effect::StartWorker]);
    node.when(Event::WorkerReady(worker(2)));
    node.given([Event::LeaseReturned(lease(A, 1))]);
    assert_eq!(node.scheduler.idle_count(), 2);
    assert_eq!(node.scheduler.next_tick(node.now), Some(node.now.plus_ms(1_000)));
    assert_eq!(node.after_ms(999), []);
    assert_eq!(node.after_ms(1), [Effect::EndWorker(worker(2))], "the least recently used");
    assert_eq!(node.after_ms(60_000), [], "the stock is kept");
}

#[test]
fn the_most_recently_used_worker_is_taken_first() {
    let mut node = Node::cpus(2);
    node.given([tasks(lease(A, 1), cpus(1)), tasks(lease(A, 2), cpus(1))]);
    node.given([Event::LeaseReturned(lease(A, 2)), Event::LeaseReturned(lease(A, 1))]);
    assert_eq!(node.when(tasks(lease(A, 3), cpus(1))), [granted(lease(A, 3), 1)]);
}

#[test]
fn a_lease_gets_a_worker_that_has_seen_its_variables_or_none_before_any_other() {
    let under = |number, value: &str| {
        let need = Need { env: [("A".into(), value.into())].into(), ..Need::same(cpus(1)) };
        Event::LeaseRequested { lease: lease(A, number), job: JobId([1; 4]), kind: LeaseKind::Tasks, need }
    };
    let back = |number| Event::LeaseReturned(lease(A, number));
    let mut node = Node::cpus(3);
    node.given([under(1, "1"), under(2, "2"), tasks(lease(A, 3), cpus(1))]);
    node.given([back(1), back(2), back(3)]);
    // Not the one that worked last, which has seen no variables.
    assert_eq!(node.when(under(4, "1")), [granted(lease(A, 4), 1)]);
    assert_eq!(node.when(tasks(lease(A, 5), cpus(1))), [granted(lease(A, 5), 3)]);
    node.given([back(4), back(5)]);
    node.given([Event::WorkerReady(worker(4))]);
    assert_eq!(node.when(under(6, "3")), [granted(lease(A, 6), 4)], "one that has seen nothing");
    // Rather a wrong one than none: whoever starts processes replaces it.
    assert_eq!(node.when(under(7, "A=4")), [granted(lease(A, 7), 3)]);
}

#[test]
fn sched_6_no_more_workers_are_started_than_placed_leases_lack() {
    let mut node = Node::cpus(2);
    assert_eq!(node.when(tasks(lease(A, 1), cpus(1))), [Effect::StartWorker]);
    assert_eq!(node.when(tasks(lease(A, 2), cpus(1))), [Effect::StartWorker]);
    assert_eq!(node.when(tasks(lease(A, 3), cpus(1))), [], "it could not be placed");
    assert_eq!(node.when(Event::LeaseCancelled(lease(A, 1))), [], "one that waited takes its place");
    assert!(node.scheduler.waiting().all(|wait| wait.reason == WaitReason::NoWorker));
    assert_eq!(node.when(Event::WorkerReady(worker(1))), [granted(lease(A, 2), 1)]);
    assert_eq!(node.when(Event::WorkerReady(worker(2))), [granted(lease(A, 3), 2)]);
}

#[test]
fn sched_6_processes_stay_within_their_bound_and_are_shared() {
    let mut node = Node::new(Options { workers_max: 2, prestart: 5, ..options(cpus(8)) });
    assert_eq!(node.when(Event::Tick).len(), 2);
    node.given([Event::WorkerReady(worker(1)), Event::WorkerReady(worker(2))]);
    node.given([tasks(lease(A, 1), cpus(1))]);
    assert!(!node.scheduler.has_all_workers());
    node.given([tasks(lease(A, 2), cpus(1))]);
    assert!(node.scheduler.has_all_workers());
    assert_eq!(node.when(tasks(lease(A, 3), cpus(1))), [], "it would only take from itself");
    assert_eq!(node.reasons(), [(lease(A, 3), WaitReason::NoMoreWorkers)]);
    assert_eq!(node.when(tasks(lease(B, 1), cpus(1))), [Effect::Revoke(lease(A, 2))]);
    assert_eq!(node.when(Event::LeaseReturned(lease(A, 2))), [granted(lease(B, 1), 1)]);
    assert_eq!(node.when(Event::WorkerReady(worker(3))), [Effect::EndWorker(worker(3))], "nobody asked for it");
}

#[test]
fn a_failed_start_is_tried_again_with_back_off() {
    let mut node = Node::cpus(2);
    node.when(tasks(lease(A, 1), cpus(1)));
    node.when(tasks(lease(A, 2), cpus(1)));
    assert_eq!(node.when(Event::WorkerNotStarted), []);
    assert_eq!(node.when(Event::WorkerNotStarted), []);
    assert_eq!(node.when(Event::WorkerNotStarted), [], "none was on its way");
    assert_eq!(node.scheduler.next_tick(node.now), Some(node.now.plus_ms(200)));
    assert_eq!(node.after_ms(199), []);
    assert_eq!(node.after_ms(1), [Effect::StartWorker], "one probe, not two");
    assert_eq!(node.scheduler.next_tick(node.now), None);
    let effects = node.when(Event::WorkerReady(worker(1)));
    assert_eq!(effects, [granted(lease(A, 1), 1), Effect::StartWorker]);
}

#[test]
fn workers_that_die_before_they_serve_count_as_failed_starts() {
    let mut node = Node::new(stocked(1));
    node.when(Event::Tick);
    node.when(Event::WorkerReady(worker(1)));
    assert_eq!(node.when(Event::WorkerDied(worker(1))), [], "not at once: it may be a crash loop");
    assert_eq!(node.after_ms(100), [Effect::StartWorker]);
    node.when(Event::WorkerReady(worker(2)));
    assert_eq!(node.when(Event::WorkerDied(worker(2))), []);
    assert_eq!(node.scheduler.next_tick(Tick(0)), Some(node.now.plus_ms(200)));
}

#[test]
fn a_worker_that_served_an_actor_is_never_idle_again() {
    for end in [Event::LeaseReturned(lease(A, 1)), Event::LeaseCancelled(lease(A, 1))] {
        let mut node = Node::cpus(1);
        node.given([actor(lease(A, 1))]);
        assert_eq!(node.when(end), [Effect::EndWorker(worker(1))]);
        assert_eq!(node.when(tasks(lease(A, 2), cpus(1))), [Effect::StartWorker]);
    }
}

#[test]
fn a_lease_ends_with_its_worker_and_what_it_held_goes_to_the_next() {
    let mut node = Node::cpus(1);
    node.given([tasks(lease(A, 1), cpus(1)), tasks(lease(A, 2), cpus(1))]);
    assert_eq!(node.given([Event::WorkerDied(worker(1))]), [granted(lease(A, 2), 2)]);
    assert_eq!(node.when(Event::LeaseReturned(lease(A, 1))), [], "too late, and harmless");
}

#[test]
fn an_owner_that_dies_loses_its_requests_and_its_workers_but_not_its_actors() {
    let mut node = Node::cpus(1);
    node.given([actor(lease(A, 9)), tasks(lease(A, 1), cpus(1)), tasks(lease(A, 2), cpus(1))]);
    node.given([tasks(lease(B, 1), cpus(1))]);
    assert_eq!(node.when(Event::OwnerDied(A)), [Effect::EndWorker(worker(2))]);
    assert_eq!(node.reasons(), [(lease(B, 1), WaitReason::NoResources)], "until the process is gone");
    assert_eq!(node.when(Event::OwnerDied(A)), []);
    assert_eq!(node.given([Event::WorkerDied(worker(2))]), [granted(lease(B, 1), 3)]);
    assert_eq!(node.scheduler.lease_of(worker(1)), Some(lease(A, 9)));
    assert_eq!(node.when(tasks(lease(A, 3), cpus(1))), [], "a request that was under way");
    assert_eq!(node.scheduler.waiting().count(), 0);
}

/// Five hundred actors at once took every file descriptor that the node may have.
#[test]
fn sched_6_only_so_many_processes_start_at_once() {
    let mut node = Node::new(Options { starts_max: 2, ..options(cpus(8)) });
    assert_eq!(node.when(tasks(lease(A, 1), cpus(1))), [Effect::StartWorker]);
    assert_eq!(node.when(tasks(lease(A, 2), cpus(1))), [Effect::StartWorker]);
    assert_eq!(node.when(tasks(lease(A, 3), cpus(1))), []);
    assert_eq!(node.scheduler.next_tick(node.now), None);
    let up = node.when(Event::WorkerReady(worker(1)));
    assert_eq!(up, [granted(lease(A, 1), 1), Effect::StartWorker]);
}
