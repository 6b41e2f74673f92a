//! Placement groups: all bundles or none, and leases inside them.

mod story;

use model::{GroupId, JobId, LeaseId, Need, Quantity, Resources, Seat, Where};
use scheduler::{Effect, Event, Grant, LeaseKind, WaitReason};
use story::{A, B, Node, cpus, granted, lease, options, tasks, with, worker};

const G: GroupId = GroupId([1; 18]);
const H: GroupId = GroupId([2; 18]);

fn group(group: GroupId, bundles: &[Resources]) -> Event {
    Event::GroupRequested { group, bundles: bundles.to_vec(), is_apart: false }
}

fn seated(lease: LeaseId, resources: Resources, bundle: Option<u16>) -> Event {
    let at = Where::Bundle(Seat { group: G, bundle, captures: false });
    let need = Need { at, ..Need::same(resources) };
    Event::LeaseRequested { lease, job: JobId([1; 4]), kind: LeaseKind::Tasks, need }
}

#[test]
fn sched_8_a_group_takes_all_its_bundles_or_none() {
    let mut node = Node::cpus(3);
    assert_eq!(node.when(group(G, &[cpus(1), cpus(1)])), [Effect::GroupPlaced(G)]);
    assert_eq!(node.free_cpus(), 1.0);
    assert_eq!(node.when(group(H, &[cpus(1), cpus(1)])), []);
    assert_eq!(node.free_cpus(), 1.0, "one bundle would fit, and is not taken");
    assert_eq!(node.when(Event::GroupRemoved(G)), [Effect::GroupPlaced(H)]);
    assert_eq!(node.when(Event::GroupRemoved(H)), []);
    assert_eq!(node.scheduler.available(), node.scheduler.total());
}

#[test]
fn a_request_repeated_gets_the_first_answer_and_takes_nothing_more() {
    let mut node = Node::cpus(3);
    node.when(group(G, &[cpus(1)]));
    assert_eq!(node.when(group(G, &[cpus(1)])), [Effect::GroupPlaced(G)]);
    assert_eq!(node.free_cpus(), 2.0);
}

#[test]
fn what_can_never_fit_is_said_once_and_holds_nobody_up() {
    let mut node = Node::cpus(2);
    assert_eq!(node.when(group(G, &[cpus(2), cpus(1)])), [Effect::GroupInfeasible(G)]);
    let apart = Event::GroupRequested { group: H, bundles: vec![cpus(1), cpus(1)], is_apart: true };
    assert_eq!(node.when(apart), [Effect::GroupInfeasible(H)]);
    assert_eq!(node.given([tasks(lease(A, 1), cpus(2))]), [granted(lease(A, 1), 1)]);
}

#[test]
fn a_lease_waits_for_its_group_and_then_takes_of_its_bundle_only() {
    let mut node = Node::cpus(2);
    node.given([tasks(lease(A, 1), cpus(1)), group(G, &[cpus(2)])]);
    assert_eq!(node.when(seated(lease(B, 1), cpus(1), Some(0))), []);
    assert_eq!(node.reasons(), [(lease(B, 1), WaitReason::NoResources)]);
    let effects = node.given([Event::LeaseReturned(lease(A, 1))]);
    assert_eq!(effects, [Effect::GroupPlaced(G), granted(lease(B, 1), 1)]);
    assert_eq!(node.free_cpus(), 0.0, "the group's other core is not the node's");
    assert_eq!(node.given([seated(lease(B, 2), cpus(1), Some(0))]), [granted(lease(B, 2), 2)]);
}

#[test]
fn any_bundle_means_the_first_that_has_room() {
    let mut node = Node::cpus(3);
    node.when(group(G, &[cpus(1), cpus(2)]));
    assert_eq!(node.given([seated(lease(A, 1), cpus(2), None)]), [granted(lease(A, 1), 1)]);
    assert_eq!(node.given([seated(lease(A, 2), cpus(1), None)]), [granted(lease(A, 2), 2)]);
    assert_eq!(node.when(seated(lease(A, 3), cpus(1), None))[..], []);
    assert_eq!(node.given([Event::LeaseReturned(lease(A, 1))]), [granted(lease(A, 3), 1)]);
}

#[test]
fn what_no_bundle_holds_is_infeasible() {
    let mut node = Node::cpus(4);
    node.when(group(G, &[cpus(1), cpus(1)]));
    assert_eq!(node.when(seated(lease(A, 1), cpus(2), None)), [Effect::Infeasible(lease(A, 1))]);
    assert_eq!(node.when(seated(lease(A, 2), cpus(1), Some(7))), [Effect::Infeasible(lease(A, 2))]);
}

#[test]
fn a_blocked_task_lends_its_core_inside_its_bundle() {
    let mut node = Node::cpus(2);
    node.when(group(G, &[cpus(1)]));
    node.given([seated(lease(A, 1), cpus(1), Some(0))]);
    assert_eq!(node.when(seated(lease(worker(1), 1), cpus(1), Some(0))), [Effect::Revoke(lease(A, 1))]);
    let effects = node.given([Event::WorkerBlocked(worker(1))]);
    assert_eq!(effects, [granted(lease(worker(1), 1), 2)]);
    assert_eq!(node.free_cpus(), 1.0, "the node's own core is nobody's");
    node.given([Event::LeaseReturned(lease(worker(1), 1)), Event::WorkerUnblocked(worker(1))]);
    assert_eq!(node.free_cpus(), 1.0);
}

#[test]
fn removal_kills_what_runs_refuses_what_waits_and_frees_all_when_the_last_is_gone() {
    let mut node = Node::cpus(2);
    node.when(group(G, &[cpus(1)]));
    node.given([seated(lease(A, 1), cpus(1), None)]);
    node.when(seated(lease(B, 1), cpus(1), None));
    let effects = node.when(Event::GroupRemoved(G));
    assert_eq!(effects.len(), 2);
    assert!(effects.contains(&Effect::KillWorker(worker(1))) && effects.contains(&Effect::Refused(lease(B, 1))));
    assert_eq!(node.free_cpus(), 1.0, "the process may still use what it has");
    assert_eq!(node.when(seated(lease(B, 2), cpus(1), None)), [Effect::Refused(lease(B, 2))]);
    node.when(Event::WorkerDied(worker(1)));
    assert_eq!(node.scheduler.available(), node.scheduler.total());
    assert_eq!(node.when(Event::GroupRemoved(G)), []);
}

#[test]
fn sched_3_a_bundles_gpus_are_the_nodes_and_nobody_elses() {
    let mut node = Node::new(options(with(cpus(4), "GPU", 20_000)));
    let gpu = with(cpus(1), "GPU", 10_000);
    node.when(group(G, std::slice::from_ref(&gpu)));
    let plain = node.given([tasks(lease(A, 1), gpu.clone())]);
    let grant = |name: &str| Grant { gpus: vec![name.into()] };
    assert_eq!(plain, [Effect::Granted { lease: lease(A, 1), worker: worker(1), grant: grant("1") }]);
    assert_eq!(node.when(tasks(lease(A, 2), gpu.clone())), []);
    let half = with(cpus(0), "GPU", 5_000);
    let inside = node.given([seated(lease(B, 1), half.clone(), None)]);
    assert_eq!(inside, [Effect::Granted { lease: lease(B, 1), worker: worker(2), grant: grant("0") }]);
    let inside = node.given([seated(lease(B, 2), half.clone(), None)]);
    assert_eq!(inside, [Effect::Granted { lease: lease(B, 2), worker: worker(3), grant: grant("0") }]);
    assert_eq!(node.when(seated(lease(B, 3), half, None)), []);
    assert_eq!(node.scheduler.available().amount("GPU"), Quantity(0));
}

#[test]
fn leases_are_asked_back_for_a_group_and_what_drivers_ask_for_stands_back_a_moment() {
    let mut node = Node::cpus(2);
    node.given([tasks(lease(A, 1), cpus(1)), tasks(lease(B, 1), cpus(1))]);
    let mut asked = node.when(group(G, &[cpus(2)]));
    asked.sort_by_key(|effect| format!("{effect:?}"));
    assert_eq!(asked, [Effect::Revoke(lease(A, 1)), Effect::Revoke(lease(B, 1))]);
    node.when(tasks(lease(A, 2), cpus(1)));
    assert_eq!(node.given([Event::LeaseReturned(lease(A, 1))]), [], "it is kept for the group");
    assert_eq!(node.given([Event::LeaseReturned(lease(B, 1))]), [Effect::GroupPlaced(G)]);
    assert_eq!(node.given([Event::GroupRemoved(G)]), [granted(lease(A, 2), 2)]);
}

#[test]
fn standing_back_ends_by_itself_and_nested_tasks_never_do() {
    let mut node = Node::cpus(2);
    node.given([tasks(lease(A, 1), cpus(1)), tasks(lease(B, 1), cpus(1))]);
    node.when(group(G, &[cpus(2)]));
    node.when(tasks(lease(A, 2), cpus(1)));
    node.given([Event::LeaseReturned(lease(A, 1))]);
    let nested = node.given([tasks(lease(worker(2), 1), cpus(1))]);
    assert_eq!(nested[0], granted(lease(worker(2), 1), 1));
    node.given([Event::LeaseReturned(lease(worker(2), 1))]);
    assert_eq!(node.scheduler.granted().count(), 1);
    node.after_ms(60);
    assert_eq!(node.scheduler.granted().count(), 2, "the driver's next lease runs, and the group waits on");
}

#[test]
fn a_thousand_groups_one_after_the_other_leave_nothing() {
    let mut node = Node::new(options(with(cpus(2), "GPU", 10_000)));
    for round in 0..1_000_u16 {
        let mut id = [0; 18];
        id[..2].copy_from_slice(&round.to_le_bytes());
        assert_eq!(
            node.when(group(GroupId(id), &[cpus(1), with(cpus(1), "GPU", 10_000)])),
            [Effect::GroupPlaced(GroupId(id))]
        );
        node.when(Event::GroupRemoved(GroupId(id)));
    }
    assert_eq!(node.scheduler.available(), node.scheduler.total());
}
