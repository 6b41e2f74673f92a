//! What fits is placed, in a fair order, on the right devices.

mod story;

use model::{Need, Quantity, Resources, Tick};
use scheduler::{Effect, Event, Grant, LeaseKind, WaitReason};
use story::{A, B, Node, actor, cpus, granted, lease, options, tasks, with, worker};

#[test]
fn sched_1_what_is_taken_is_free_again_after_the_return() {
    let mut node = Node::new(options(with(cpus(2), "licence", 10_000)));
    let need = with(cpus(1), "licence", 3_333);
    for round in 0..1_000 {
        assert_eq!(node.given([tasks(lease(A, round), need.clone())]), [granted(lease(A, round), 1)]);
        assert_eq!(node.scheduler.available().amount("licence"), Quantity(6_667));
        node.given([Event::LeaseReturned(lease(A, round))]);
    }
    assert_eq!(node.scheduler.available(), node.scheduler.total());
}

#[test]
fn a_blocked_shape_does_not_hide_another() {
    let mut node = Node::cpus(2);
    node.given([tasks(lease(A, 1), cpus(1))]);
    assert_eq!(node.when(tasks(lease(A, 2), cpus(2))), [Effect::Revoke(lease(A, 1))]);
    assert_eq!(node.given([tasks(lease(A, 3), cpus(1))])[0], granted(lease(A, 3), 2));
    assert_eq!(node.reasons(), [(lease(A, 2), WaitReason::NoResources)]);
}

#[test]
fn leases_of_one_owner_and_shape_are_served_in_order() {
    let mut node = Node::cpus(1);
    node.given((1..=4).map(|number| tasks(lease(A, number), cpus(1))));
    for number in 1..=3 {
        let effects = node.when(Event::LeaseReturned(lease(A, number)));
        assert_eq!(effects, [granted(lease(A, number + 1), 1)]);
    }
}

#[test]
fn an_owner_that_holds_fewer_goes_first() {
    let mut node = Node::cpus(2);
    node.given((1..=5).map(|number| tasks(lease(A, number), cpus(1))));
    node.given([tasks(lease(B, 1), cpus(1)), tasks(lease(B, 2), cpus(1))]);
    assert_eq!(node.when(Event::LeaseReturned(lease(A, 1))), [granted(lease(B, 1), 1)], "B holds none");
    assert_eq!(node.when(Event::LeaseReturned(lease(B, 1))), [granted(lease(B, 2), 1)], "B holds none again");
    assert_eq!(node.when(Event::LeaseReturned(lease(A, 2))), [granted(lease(A, 3), 2)]);
}

#[test]
fn shapes_take_turns() {
    let mut node = Node::new(options(with(cpus(1), "memory", 100)));
    let small = with(cpus(1), "memory", 1);
    node.given([tasks(lease(A, 0), cpus(1))]);
    node.given((1..=2).map(|number| tasks(lease(A, number), cpus(1))));
    node.given((11..=12).map(|number| tasks(lease(A, number), small.clone())));
    let mut order = vec![0];
    while let Some(last) = order.last().copied().filter(|_| order.len() < 5) {
        for effect in node.when(Event::LeaseReturned(lease(A, last))) {
            if let Effect::Granted { lease, .. } = effect {
                order.push(lease.number);
            }
        }
    }
    assert_eq!(order, [0, 1, 11, 2, 12]);
}

#[test]
fn an_actor_needs_a_core_to_be_placed_and_none_to_live() {
    let mut node = Node::cpus(1);
    assert_eq!(node.given([actor(lease(A, 1)), actor(lease(A, 2))]).len(), 2);
    assert_eq!(node.free_cpus(), 1.0);
    let mut no_cores = Node::cpus(0);
    assert_eq!(no_cores.when(actor(lease(A, 1))), [Effect::Infeasible(lease(A, 1))]);
}

#[test]
fn infeasible_is_said_once_and_the_lease_waits_on() {
    let mut node = Node::new(options(with(cpus(1), "GPU", 80_000)));
    let never = [cpus(2), with(cpus(1), "unicorn", 1), with(cpus(0), "GPU", 90_000), with(cpus(0), "GPU", 15_000)];
    for (number, need) in (1..).zip(never) {
        assert_eq!(node.when(tasks(lease(A, number), need.clone())), [Effect::Infeasible(lease(A, number))]);
        assert_eq!(node.when(tasks(lease(A, number), need)), [], "a repeat");
    }
    assert_eq!(node.after_ms(60_000), []);
    assert_eq!(node.scheduler.next_tick(node.now), None);
    assert!(
        node.scheduler.waiting().all(|wait| wait.reason == WaitReason::Infeasible && wait.since == Tick(1_000_000))
    );
    assert_eq!(node.given([tasks(lease(B, 1), cpus(1))]), [granted(lease(B, 1), 1)], "others run");
}

#[test]
fn sched_3_whole_gpus_are_distinct_and_shares_lie_on_one_device() {
    let mut total = options(with(cpus(8), "GPU", 30_000));
    total.gpu_names = ["GPU-a", "GPU-b"].map(Into::into).to_vec();
    let mut node = Node::new(total);
    let mut gpus_of = |number: u64, parts: i64| -> Vec<Box<str>> {
        match &node.given([tasks(lease(A, number), with(cpus(0), "GPU", parts))])[..] {
            [Effect::Granted { grant: Grant { gpus }, .. }] => gpus.clone(),
            _ => Vec::new(),
        }
    };
    assert_eq!(gpus_of(1, 4_000), ["GPU-a".into()]);
    assert_eq!(gpus_of(2, 10_000), ["GPU-b".into()]);
    assert_eq!(gpus_of(3, 5_000), ["GPU-a".into()]);
    assert_eq!(gpus_of(4, 2_000), ["2".into()], "0.1 are left on the first; one without a name has a number");
    assert_eq!(gpus_of(5, 10_000), [] as [Box<str>; 0], "0.9 are free, but no whole device");
}

#[test]
fn a_blocked_worker_lends_its_cores_and_nothing_else() {
    let mut total = options(with(with(cpus(1), "GPU", 10_000), "memory", 50));
    total.gpu_names = vec!["0".into()];
    let mut node = Node::new(total);
    let all = with(with(cpus(1), "GPU", 10_000), "memory", 50);
    node.given([tasks(lease(A, 1), all.clone())]);
    node.given([Event::WorkerBlocked(worker(1)), Event::WorkerBlocked(worker(1))]);
    assert_eq!(node.scheduler.available(), cpus(1));
    assert_eq!(node.given([tasks(lease(B, 1), cpus(1))]), [granted(lease(B, 1), 2)]);
    node.given([Event::WorkerUnblocked(worker(1))]);
    assert_eq!(node.free_cpus(), -1.0);
    node.given([tasks(lease(B, 2), with(cpus(0), "CPU", 1))]);
    assert_eq!(node.reasons(), [(lease(B, 2), WaitReason::NoResources)], "nothing is placed below zero");
    node.given([Event::LeaseReturned(lease(B, 1))]);
    assert_eq!(node.free_cpus(), 0.0);
}

#[test]
fn a_blocked_worker_that_ends_gives_back_only_what_it_still_holds() {
    for end in [Event::LeaseReturned(lease(A, 1)), Event::WorkerDied(worker(1))] {
        let mut node = Node::cpus(1);
        node.given([tasks(lease(A, 1), cpus(1)), Event::WorkerBlocked(worker(1)), end]);
        assert_eq!(node.free_cpus(), 1.0);
    }
}

#[test]
fn workers_of_a_shape_are_capped_and_let_through_with_back_off() {
    let mut node = Node::cpus(1);
    node.given([tasks(lease(A, 1), cpus(1))]);
    for blocked in 1..=5_u16 {
        let wait_ms = [1_000, 2_000, 4_000, 8_000, 10_000][usize::from(blocked) - 1];
        let next = lease(A, u64::from(blocked) + 1);
        assert_eq!(node.given([Event::WorkerBlocked(worker(blocked)), tasks(next, cpus(1))]), []);
        assert_eq!(node.reasons(), [(next, WaitReason::Capped)]);
        assert_eq!(node.scheduler.next_tick(node.now), Some(node.now.plus_ms(wait_ms)));
        assert_eq!(node.after_ms(wait_ms - 1), []);
        node.now = node.now.plus_ms(1);
        assert_eq!(node.given([Event::Tick]), [granted(next, blocked + 1)]);
    }
    let free = Need::same(Resources::default());
    let request = |number| Event::LeaseRequested {
        lease: lease(B, number),
        job: model::JobId([0; 4]),
        kind: LeaseKind::Tasks,
        need: free.clone(),
    };
    assert_eq!(node.given((0..20).map(request)).len(), 20, "what needs no core is not capped");
}

#[test]
fn what_a_blocked_worker_waits_for_is_not_held_up_by_the_cap_it_counts_for() {
    let mut node = Node::cpus(1);
    node.given([tasks(lease(A, 1), cpus(1)), Event::WorkerBlocked(worker(1)), tasks(lease(A, 2), cpus(1))]);
    for nested in 1..=4_u16 {
        let child = lease(worker(nested), 1);
        let effects = node.given([Event::WorkerBlocked(worker(nested)), tasks(child, cpus(1))]);
        assert_eq!(effects, [granted(child, nested + 1)]);
    }
    let second = lease(worker(1), 2);
    assert_eq!(node.given([Event::WorkerBlocked(worker(5)), tasks(second, cpus(1))]), []);
    assert_eq!(node.reasons(), [(lease(A, 2), WaitReason::Capped), (second, WaitReason::Capped)]);
}

#[test]
fn a_retired_worker_gives_back_its_lease_and_goes_on_asking() {
    let mut node = Node::cpus(1);
    node.given([tasks(lease(A, 1), cpus(1)), Event::WorkerRetired(worker(1))]);
    assert_eq!(node.free_cpus(), 1.0);
    assert_eq!(node.given([tasks(lease(worker(1), 1), cpus(1))]), [granted(lease(worker(1), 1), 2)]);
    node.given([Event::WorkerDied(worker(1)), Event::OwnerDied(worker(1))]);
    assert_eq!(node.given([tasks(lease(worker(1), 2), cpus(1))]), [], "now it is gone");
}

#[test]
fn a_cap_does_not_hold_up_other_shapes() {
    let mut node = Node::cpus(1);
    node.given([tasks(lease(A, 1), cpus(1)), Event::WorkerBlocked(worker(1)), tasks(lease(A, 2), cpus(1))]);
    assert_eq!(node.given([tasks(lease(A, 3), with(cpus(0), "CPU", 5_000))]), [granted(lease(A, 3), 2)]);
}

/// A worker that still answers calls of its dead owner's waited for a task that needed its core. That was taken back from it when it was told
/// to end, and both waited for ever.
#[test]
fn a_worker_that_was_told_to_end_lends_its_core_while_it_is_blocked() {
    let mut node = Node::cpus(1);
    node.given([tasks(lease(A, 1), cpus(1)), Event::WorkerBlocked(worker(1))]);
    assert_eq!(node.when(Event::OwnerDied(A)), [Effect::EndWorker(worker(1))]);
    assert_eq!(node.free_cpus(), 1.0);
    let half = with(cpus(0), "CPU", 5_000);
    assert_eq!(node.given([tasks(lease(B, 1), half)]), [granted(lease(B, 1), 2)]);
    node.given([Event::WorkerUnblocked(worker(1)), Event::LeaseReturned(lease(B, 1))]);
    assert_eq!(node.free_cpus(), 0.0);
    node.given([Event::WorkerBlocked(worker(1))]);
    assert_eq!(node.free_cpus(), 1.0);
    node.given([Event::WorkerDied(worker(1))]);
    assert_eq!(node.free_cpus(), 1.0, "lent and given back, not twice");
}
