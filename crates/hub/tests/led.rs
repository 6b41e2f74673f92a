//! Leases that other nodes give and actors that live there: what goes where, and what is done when such a node is dead.

mod bench;

use bench::{FromNode, Node, ToNode, create, info, one_cpu};
use model::{JobId, LeaseId, Lifetime, Need, ProcId, Where};
use wire::abroad::Between;

const THERE: ProcId = ProcId::new(2, 4, 1);

fn asked(number: u64) -> Between<u32> {
    let lease = LeaseId { owner: THERE, number };
    Between::Request { lease, job: JobId([9; 4]), need: one_cpu(), name: "f".into(), waits: false, home: None }
}

fn bounced(number: u64) -> (u32, Between<u32>) {
    (2, Between::Bounced { lease: LeaseId { owner: THERE, number }, to: None })
}

fn is_request(message: &Between<u32>) -> bool {
    matches!(message, Between::Request { .. })
}

/// A worker that waits lends its core, but each that waits is a process: the next of its kind is let through after a while. If it went back, the
/// head would see a free core and offer it again, and so on for ever.
#[test]
fn a_lease_for_which_there_is_room_waits_for_its_turn_where_that_is() {
    let mut node = Node::head(1, &[(2, 2)]);
    let (a, _) = node.driver();
    let worker = node.lease(a, 1);
    node.hears(2, asked(1));
    assert!(node.sent().contains(&bounced(1)), "there is no room");
    node.says(worker, ToNode::Blocked { blocked: true });
    node.hears(2, asked(2));
    assert!(!node.sent().contains(&bounced(2)), "there is");
    node.wait_ms(20_000);
    node.worker_joins();
    let is_granted = |message: &Between<u32>| matches!(message, Between::Told { message, .. } if matches!(**message, FromNode::Granted { number: 2, .. }));
    assert!(node.sent().iter().any(|(_, message)| is_granted(message)));
}

#[test]
fn a_worker_that_was_started_ahead_may_ask_for_other_nodes() {
    let mut node = Node::numbered(2, 2);
    node.step(|hub, step| hub.enter(step, info(2, 2), info(1, 2)));
    let (a, _) = node.driver();
    node.sent();
    node.request_lease_at(a, 1, Where::Node(info(1, 2).id));
    let sent = node.sent();
    assert!(matches!(&sent[..], [(1, message)] if is_request(message)), "{sent:?}");
    assert_eq!(node.count(a, |message| matches!(message, FromNode::LeaseRefused { .. })), 0);
}

#[test]
fn what_a_dead_node_had_not_granted_is_asked_for_again() {
    let mut node = Node::member(2, 1, &[3]);
    let (a, _) = node.driver();
    node.lease(a, 1);
    node.request_lease(a, 2);
    node.sent();
    node.hears(1, Between::Offer { need: one_cpu(), to: 3, count: 1, waits: false });
    let sent = node.sent();
    assert!(matches!(&sent[..], [(3, message)] if is_request(message)), "{sent:?}");
    assert_eq!(node.hub.scheduler().waiting().count(), 0);
    node.hears(1, Between::Lost { node: 3, why: "no answer".into() });
    node.step(|hub, step| hub.parted(step, 3, vec![]));
    assert_eq!(node.hub.scheduler().waiting().count(), 1);
}

#[test]
fn an_actor_that_was_to_live_on_a_dead_node_begins_elsewhere() {
    let mut node = Node::head(1, &[(2, 2), (3, 2)]);
    let (a, job) = node.driver();
    node.lease(a, 1);
    node.sent();
    node.says(a, create(5, job, Lifetime::Owned, ""));
    let lodged = |sent: &[(u32, Between<u32>)]| match sent {
        [.., (node, Between::Lodge { .. })] => Some(*node),
        _ => None,
    };
    let first = lodged(&node.sent()).expect("here is no room");
    node.step(|hub, step| hub.node_lost(step, first, "no answer"));
    node.step(|hub, step| hub.parted(step, first, vec![]));
    assert_eq!(lodged(&node.sent()), Some(5 - first));
}

/// Its owner would hear nothing of a lease that waits for a node that nobody will ever be again.
#[test]
fn what_asks_for_a_dead_node_is_refused() {
    let mut node = Node::member(2, 1, &[3]);
    let (a, _) = node.driver();
    node.request_lease_at(a, 1, Where::Node(info(3, 2).id));
    node.hears(1, Between::Lost { node: 3, why: "no answer".into() });
    node.step(|hub, step| hub.parted(step, 3, vec![]));
    assert_eq!(node.count(a, |message| matches!(message, FromNode::LeaseRefused { number: 1, .. })), 1);
    node.says(a, ToNode::Bye);
    assert_eq!(node.hub.left(), Vec::<&str>::new());
}

/// The keeper asks in the name of jobs that are over, which are kept as long.
#[test]
fn a_lease_of_the_keepers_is_over_when_its_worker_elsewhere_is_dead() {
    let mut node = Node::member(2, 1, &[3]);
    let (a, job) = node.driver();
    let worker = node.lease(a, 1);
    node.body.with_records.insert(worker);
    node.dies(worker);
    let keeper = node.body.keepers[0].0;
    let need = Need { at: Where::Node(info(3, 2).id), ..one_cpu() };
    node.says(keeper, ToNode::RequestLease { number: 1, job, need, name: "f".into() });
    let there = ProcId::new(3, 4, 1);
    let granted = FromNode::Granted { number: 1, worker: there, pid: 8, gpus: vec![] };
    node.hears(3, Between::Told { to: keeper, message: Box::new(granted) });
    node.says(keeper, ToNode::Settled { of: worker, serving: vec![] });
    node.says(keeper, ToNode::Inherited { of: worker });
    assert!(node.hub.left().contains(&"estates"));
    node.hears(1, Between::Lost { node: 3, why: "no answer".into() });
    node.step(|hub, step| hub.parted(step, 3, vec![]));
    assert!(!node.hub.left().contains(&"estates"), "{:?}", node.hub.left());
}

/// Its rings are the carrier's as well, also when no other node is left: nobody else says that nobody reads them.
#[test]
fn node_1_the_carrier_hears_of_deaths_when_all_other_nodes_are_dead() {
    let mut node = Node::head(1, &[(2, 2)]);
    let (a, _) = node.driver();
    node.request_lease_at(a, 1, Where::Node(info(2, 2).id));
    let granted = FromNode::Granted { number: 1, worker: THERE, pid: 8, gpus: vec![] };
    node.hears(2, Between::Told { to: a, message: Box::new(granted) });
    node.step(|hub, step| hub.node_lost(step, 2, "no answer"));
    node.step(|hub, step| hub.parted(step, 2, vec![]));
    node.dies(a);
    assert_eq!(node.body.deaths_sent, [(a, vec![])]);
    node.step(|hub, step| hub.carrier_let_go(step, a, THERE));
    assert_eq!(node.hub.left(), Vec::<&str>::new());
}
