//! A node among others: what it says of deaths, to whom, and when it takes all to be heard.

mod bench;

use bench::{FromNode, Node, ToNode, info, is_death_of, killed, one_cpu};
use model::{JobId, LeaseId, Need, ProcId, Where};
use wire::abroad::{Between, Death};

const THERE: ProcId = ProcId::new(2, 4, 1);
const HEIR: ProcId = ProcId::new(2, 9, 1);

/// Node 1 of three.
fn node() -> Node {
    let mut node = Node::with_cpus(2);
    [2, 3].into_iter().for_each(|other| node.hub.node_joined(other));
    node
}

fn death(peer: ProcId, heir: Option<ProcId>) -> Between<u32> {
    Between::Died(Death { peer, exit: killed(), heir, job: None, calls: Vec::new(), is_old: false })
}

#[test]
fn meet_1_a_node_asks_once_for_a_name_and_all_here_who_know_it_hear_of_that_death() {
    let mut node = node();
    let (a, b, c) = (node.driver().0, node.driver().0, node.driver().0);
    for who in [a, b, a] {
        node.says(who, ToNode::Met { name: THERE });
    }
    assert_eq!(node.sent(), [(2, Between::Met { name: THERE })]);
    node.hears(2, death(THERE, None));
    for (who, times) in [(a, 1), (b, 1), (c, 0)] {
        assert_eq!(node.count(who, |message| is_death_of(message, THERE)), times);
    }
    node.says(c, ToNode::Met { name: THERE });
    assert_eq!(node.count(c, |message| is_death_of(message, THERE)), 1, "it is known by now");
    assert_eq!(node.sent(), []);
}

#[test]
fn meet_1_a_letter_makes_both_ends_hear_of_each_other_without_a_word_more() {
    let mut node = node();
    let (a, _) = node.driver();
    node.says(a, ToNode::Relay { to: THERE, message: 7 });
    assert_eq!(node.sent(), [(2, Between::Letter { sender: a, to: THERE, message: 7 })]);
    node.hears(2, death(THERE, None));
    assert_eq!(node.count(a, |message| is_death_of(message, THERE)), 1);
    node.says(a, ToNode::Relay { to: THERE, message: 8 });
    assert_eq!(node.count(a, |message| matches!(message, FromNode::Undeliverable { message: 8, .. })), 1);
    node.dies(a);
    assert_eq!(node.body.deaths_sent, [(a, vec![2, 3])], "a driver's death is told to all nodes");
}

/// A node wrote for one of another's processes, or for one that is dead: that one's own node need not know who got the letter.
#[test]
fn meet_1_a_letter_by_another_hand_is_no_introduction() {
    let mut node = node();
    let (a, _) = node.driver();
    node.hears(3, Between::Letter { sender: THERE, to: a, message: 1 });
    assert_eq!(node.sent(), [(2, Between::Met { name: THERE })]);
    node.hears(2, death(THERE, None));
    node.hears(3, Between::Letter { sender: THERE, to: a, message: 2 });
    assert_eq!(node.count(a, |message| is_death_of(message, THERE)), 2, "it met it again, and hears of it again");
}

#[test]
fn a_letter_to_the_dead_comes_back_behind_the_death() {
    let mut node = node();
    let (a, _) = node.driver();
    let worker = node.lease(a, 1);
    node.hears(2, Between::Letter { sender: THERE, to: worker, message: 5 });
    node.dies(worker);
    assert_eq!(node.body.deaths_sent, [(worker, vec![2])]);
    node.hears(3, Between::Letter { sender: ProcId::new(3, 1, 1), to: worker, message: 6 });
    let sent = node.sent();
    let [(3, Between::Died(death)), (3, Between::Returned { to, message: 6, .. })] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!((death.peer, *to), (worker, worker));
}

/// Node 2 of a cluster with a third, which has a worker.
fn member() -> (Node, Where) {
    (Node::member(2, 2, &[3]), Where::Node(info(3, 2).id))
}

const WORKER: ProcId = ProcId::new(3, 4, 1);

fn granted(to: ProcId, number: u64) -> Between<u32> {
    Between::Told { to, message: Box::new(FromNode::Granted { number, worker: WORKER, pid: 8, gpus: vec![] }) }
}

fn is_request(message: &Between<u32>, number: u64) -> bool {
    matches!(message, Between::Request { lease, .. } if lease.number == number)
}

fn returned(by: ProcId, number: u64) -> (u32, Between<u32>) {
    (3, Between::Said { by, message: Box::new(ToNode::ReturnLease { number }), home: None })
}

#[test]
fn a_lease_of_another_node_is_asked_for_there_and_its_worker_is_linked_here() {
    let (mut node, there) = member();
    let (a, _) = node.driver();
    node.request_lease_at(a, 1, there);
    let sent = node.sent();
    assert!(matches!(&sent[..], [(3, message)] if is_request(message, 1)), "{sent:?}");
    node.hears(3, granted(a, 1));
    assert_eq!(node.granted(a, 1), Some(WORKER));
    assert_eq!(node.body.carrier_links, [(a, WORKER)]);
    node.says(a, ToNode::ReturnLease { number: 1 });
    assert_eq!(node.sent(), [returned(a, 1)]);
    node.dies(a);
    assert_eq!(node.body.deaths_sent, [(a, vec![1, 3])]);
}

/// The death came by another way, and first.
#[test]
fn a_worker_that_is_dead_is_not_granted() {
    let (mut node, there) = member();
    let (a, _) = node.driver();
    node.request_lease_at(a, 1, there);
    node.hears(3, death(WORKER, None));
    node.sent();
    node.hears(3, granted(a, 1));
    assert_eq!(node.granted(a, 1), None);
    assert_eq!(node.count(a, |message| matches!(message, FromNode::Revoke { number: 1 })), 1);
    assert_eq!(node.sent(), [returned(a, 1)]);
}

/// Its request came twice, and a second time behind the death of its first worker: its owner would give it back, and nobody would say so there.
#[test]
fn a_lease_that_is_granted_again_goes_back() {
    let (mut node, there) = member();
    let (a, _) = node.driver();
    node.request_lease_at(a, 1, there);
    node.hears(3, granted(a, 1));
    node.request_lease_at(a, 1, there);
    node.hears(3, death(WORKER, None));
    node.sent();
    let worker = ProcId::new(3, 5, 1);
    let again = FromNode::Granted { number: 1, worker, pid: 9, gpus: vec![] };
    node.hears(3, Between::Told { to: a, message: Box::new(again) });
    assert_eq!(node.sent(), [returned(a, 1)]);
    assert_eq!(node.granted(a, 1), Some(WORKER));
}

/// What it asks for can be had nowhere else: it would go to and fro.
#[test]
fn a_lease_that_asks_for_this_node_waits_here_and_any_other_goes_back() {
    let mut node = Node::head(1, &[(2, 2)]);
    let there = ProcId::new(2, 4, 1);
    for (number, at, goes_back) in
        [(1, Where::Anywhere, false), (2, Where::Anywhere, true), (3, Where::Node(info(1, 1).id), false)]
    {
        let need = Need { at, ..one_cpu() };
        let lease = LeaseId { owner: there, number };
        node.hears(2, Between::Request { lease, job: JobId([9; 4]), need, name: "f".into(), waits: false, home: None });
        let lease = LeaseId { owner: there, number };
        assert_eq!(node.sent().contains(&(2, Between::Bounced { lease, to: None })), goes_back, "{number}");
    }
}

/// A request that comes behind its lease's return is none, wherever it went.
#[test]
fn sched_2_a_lease_that_was_given_back_is_not_asked_for_again() {
    let (mut node, there) = member();
    let (a, _) = node.driver();
    node.request_lease_at(a, 1, there);
    node.says(a, ToNode::ReturnLease { number: 1 });
    node.request_lease_at(a, 2, there);
    let refused = FromNode::LeaseRefused { number: 2, why: model::Failure::GroupRemoved };
    node.hears(3, Between::Told { to: a, message: Box::new(refused) });
    node.sent();
    node.request_lease_at(a, 1, there);
    node.request_lease_at(a, 2, there);
    assert_eq!(node.sent(), []);
    node.says(a, ToNode::Bye);
    assert_eq!(node.hub.left(), Vec::<&str>::new());
}

/// CUT-1, at a node that has to do with a dead process of another one.
#[test]
fn cut_1_stories_settling_waits_for_what_was_under_way() {
    let mut node = node();
    let (a, b) = (node.driver().0, node.driver().0);
    node.hears(2, death(THERE, Some(HEIR)));
    let is_told = |message: &FromNode| matches!(message, FromNode::PeerDied { heir: Some(HEIR), .. });
    assert_eq!((node.count(a, is_told), node.count(b, is_told)), (1, 1), "all count it");
    let (late, _) = node.driver();
    node.step(|hub, step| hub.tell_of_open_cuts(step, late));
    let is_asked = |message: &FromNode| matches!(message, FromNode::Testify { of: THERE, heir: HEIR });
    assert_eq!((node.count(late, is_asked), node.count(a, is_asked)), (1, 0), "who comes later says that it is new");

    node.says(a, ToNode::Testified { of: THERE });
    assert!(node.body.flushes.is_empty(), "one has not testified");
    node.dies(b);
    let [ticket] = node.body.flushes[..] else { panic!("nobody else is awaited") };
    assert_eq!(node.sent(), [], "what lies in rings is sent first");
    let sent = vec![(2, 70), (3, 90)];
    node.step(|hub, step| hub.flushed(step, ticket, sent.clone()));
    assert_eq!(node.sent(), [(2, Between::Testified { of: THERE, sent })]);

    node.hears(2, Between::Settle { of: THERE, reach: vec![(2, 11), (3, 12)] });
    let (ticket, positions) = node.body.reaches[0].clone();
    assert_eq!(positions, [(2, 11), (3, 12)]);
    let is_settling = |message: &FromNode| matches!(message, FromNode::Settle { of: THERE });
    assert_eq!(node.count(a, is_settling), 0, "it has not come");
    node.step(|hub, step| hub.reached(step, ticket));
    assert_eq!((node.count(a, is_settling), node.count(late, is_settling)), (1, 1));
    for who in [a, late] {
        node.says(who, ToNode::HasSettled { of: THERE });
    }
    let ticket = node.body.flushes[1];
    node.step(|hub, step| hub.flushed(step, ticket, vec![(2, 77), (3, 99)]));
    assert_eq!(node.sent(), [(2, Between::HasSettled { of: THERE, sent: 77 })]);
    node.hears(2, Between::Settled { of: THERE, serving: vec![] });
    for who in [a, late] {
        node.dies(who);
    }
    assert_eq!(node.hub.left(), Vec::<&str>::new());
}

/// CUT-1, at the node of the dead.
#[test]
fn cut_1_the_keeper_hears_of_a_node_when_all_that_it_said_has_come() {
    let mut node = node();
    let (a, _) = node.driver();
    let worker = node.lease(a, 1);
    node.body.with_records.insert(worker);
    node.dies(worker);
    let keeper = node.body.keepers[0].0;
    assert_eq!(node.body.deaths_sent, [(worker, vec![2, 3])]);
    let witnesses = node.heard(keeper).into_iter().find_map(|message| match message {
        FromNode::Inherit { witnesses, .. } => Some(witnesses.clone()),
        _ => None,
    });
    let nodes = [ProcId::of_node(2), ProcId::of_node(3)];
    assert!(witnesses.is_some_and(|witnesses| nodes.iter().all(|node| witnesses.contains(node))));

    for (from, sent) in [(2, vec![(1, 20), (3, 23)]), (3, vec![(1, 30), (2, 32)])] {
        node.hears(from, Between::Testified { of: worker, sent });
    }
    let is_heard = |message: &FromNode| matches!(message, FromNode::NodeTestified { .. });
    assert_eq!(node.count(keeper, is_heard), 0, "their words are still on their way");
    let reaches = std::mem::take(&mut node.body.reaches);
    assert_eq!(reaches.iter().map(|(_, positions)| &positions[..]).collect::<Vec<_>>(), [[(2, 20)], [(3, 30)]]);
    for (ticket, _) in reaches {
        node.step(|hub, step| hub.reached(step, ticket));
    }
    assert_eq!(node.count(keeper, is_heard), 2);

    node.says(keeper, ToNode::SettleAbroad { of: worker, nodes: vec![2, 3] });
    node.sent();
    let ticket = node.body.flushes[0];
    node.step(|hub, step| hub.flushed(step, ticket, vec![(2, 12), (3, 13)]));
    let settle = |reach: [(u32, u64); 2]| Between::Settle { of: worker, reach: reach.to_vec() };
    assert_eq!(node.sent(), [(2, settle([(1, 12), (3, 32)])), (3, settle([(1, 13), (2, 23)]))]);

    for from in [2, 3] {
        node.hears(from, Between::HasSettled { of: worker, sent: 50 });
        let (ticket, positions) = node.body.reaches.remove(0);
        assert_eq!(positions, [(from, 50)]);
        node.step(|hub, step| hub.reached(step, ticket));
    }
    assert_eq!(node.count(keeper, |message| matches!(message, FromNode::NodeSettled { .. })), 2);
    node.says(keeper, ToNode::Settled { of: worker, serving: vec![THERE] });
    let settled = |to| (to, Between::Settled { of: worker, serving: vec![THERE] });
    assert_eq!(node.sent(), [settled(2), settled(3)]);
    assert_eq!((&node.body.deaths[..], &node.body.settled[..]), (&[(worker, Some(keeper))][..], &[worker][..]));
}
