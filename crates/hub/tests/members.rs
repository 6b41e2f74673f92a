//! Who belongs to a cluster: how a node comes in, and what is done when one is dead.

mod bench;

use bench::{FromNode, Node, ToNode, info, is_death_of};
use model::{ProcId, WorkerExit};
use wire::abroad::{Between, Death, Membership};
use wire::control::{Answer, Question};

const THERE: ProcId = ProcId::new(3, 4, 1);

fn old_death() -> Death {
    let exit = WorkerExit::Unknown;
    Death { peer: THERE, exit, heir: None, job: None, calls: Vec::new(), is_old: true }
}

fn lost(node: u32) -> Between<u32> {
    Between::Lost { node, why: "no answer".into() }
}

#[test]
fn a_newcomer_belongs_to_the_cluster_when_all_know_it() {
    let mut head = Node::head(2, &[(2, 2), (3, 2)]);
    head.hears(4, Between::Enters(Box::new(info(4, 2))));
    let joined = || Between::Joined(Box::new(info(4, 2)));
    let known = |number| (4, Between::Joined(Box::new(info(number, 2))));
    assert_eq!(head.sent(), [(2, joined()), (3, joined()), known(2), known(3)], "lines may begin");
    head.hears(2, Between::Knows { node: 4, heirs: vec![] });
    assert_eq!(head.sent(), [], "one does not know it");
    let heirs = vec![(THERE, ProcId::new(3, 9, 1))];
    head.hears(3, Between::Knows { node: 4, heirs: heirs.clone() });
    let nodes = vec![info(1, 2), info(2, 2), info(3, 2)];
    assert_eq!(head.sent(), [(4, Between::Members(Box::new(Membership { nodes, heirs, jobs_above: 3_000 })))]);
    assert_eq!(head.hub.left(), Vec::<&str>::new());
}

#[test]
fn a_node_meets_those_that_it_hears_of_and_knows_what_was_left_before() {
    let mut node = Node::numbered(4, 2);
    node.step(|hub, step| hub.enter(step, info(4, 2), info(1, 2)));
    assert_eq!(node.sent(), [(1, Between::Enters(Box::new(info(4, 2))))]);
    node.hears(1, Between::Joined(Box::new(info(5, 2))));
    assert_eq!(node.sent(), [(1, Between::Knows { node: 5, heirs: vec![] })]);
    assert!(!node.hub.is_member());
    let nodes = vec![info(1, 2), info(3, 2), info(5, 2)];
    let heirs = vec![(THERE, ProcId::new(3, 9, 1))];
    node.hears(1, Between::Members(Box::new(Membership { nodes, heirs: heirs.clone(), jobs_above: 3_000 })));
    assert!(node.hub.is_member());
    assert_eq!(node.body.met, [5, 3], "the body had met the head before");
    // The head, too, and at once: values that lie there were taken for lost.
    assert_eq!(node.body.known, [1, 5, 1, 3, 5]);
    assert_eq!(node.hub.past().heirs, heirs);
    assert_eq!(node.driver().1.0, 3_001_u32.to_le_bytes());
}

/// It is not asked for what it knows of an estate that was begun without it.
#[test]
fn a_newcomer_waits_for_estates_that_were_begun_without_it() {
    let mut node = Node::member(2, 2, &[]);
    let (a, _) = node.driver();
    let worker = node.lease(a, 1);
    node.body.with_records.insert(worker);
    node.dies(worker);
    node.sent();
    node.hears(1, Between::Joined(Box::new(info(3, 2))));
    assert_eq!(node.sent(), []);
    let keeper = node.body.keepers[0].0;
    node.says(keeper, ToNode::Settled { of: worker, serving: vec![] });
    let sent = node.sent();
    assert!(sent.contains(&(1, Between::Knows { node: 3, heirs: vec![(worker, keeper)] })), "{sent:?}");
}

#[test]
fn a_newcomer_does_not_wait_for_one_that_dies() {
    let mut head = Node::head(2, &[(2, 2), (3, 2)]);
    head.hears(4, Between::Enters(Box::new(info(4, 2))));
    head.hears(2, Between::Knows { node: 4, heirs: vec![] });
    head.sent();
    head.step(|hub, step| hub.node_lost(step, 3, "no answer"));
    let sent = head.sent();
    let members = |message: &Between<u32>| match message {
        Between::Members(membership) => membership.nodes.iter().map(|info| info.number).collect(),
        _ => Vec::new(),
    };
    assert_eq!(&sent[..3], [(2, lost(3)), (3, lost(3)), (4, lost(3))], "it may hear it itself");
    assert_eq!((sent[3].0, members(&sent[3].1)), (4, vec![1, 2]));
}

/// A program that asked another one's guest for a value waited for ever: there is no line between two that only dial.
#[test]
fn what_another_guest_owns_counts_as_lost_and_that_is_told_once() {
    let mut node = Node::member(4, 0, &[]);
    node.hears(1, Between::Joined(Box::new(info(5, 0))));
    let (a, _) = node.driver();
    node.sent();
    let of_guest = ProcId::new(5, 3, 1);
    node.says(a, ToNode::Met { name: of_guest });
    node.says(a, ToNode::Met { name: ProcId::new(5, 3, 2) });
    let is_told =
        |message: &FromNode| matches!(message, FromNode::Notice { kind, .. } if &**kind == "node_out_of_reach");
    let heard = node.heard(a);
    assert_eq!(heard.iter().filter(|message| is_told(message)).count(), 1, "{heard:?}");
    assert_eq!(heard.iter().filter(|message| is_death_of(message, of_guest)).count(), 1, "{heard:?}");
    assert!(node.sent().iter().all(|(to, _)| *to != 5));
}

#[test]
fn processes_of_a_dead_node_are_dead_for_all_who_know_them() {
    let mut node = Node::member(2, 2, &[3]);
    let (a, b) = (node.driver().0, node.driver().0);
    node.says(a, ToNode::Met { name: THERE });
    node.hears(1, lost(3));
    assert_eq!(node.body.parted, [3]);
    assert_eq!(node.count(a, |message| is_death_of(message, THERE)), 0, "what it had said is read first");
    let frames = vec![(a, Vec::new())];
    node.step(|hub, step| hub.parted(step, 3, vec![(THERE, frames)]));
    let heard = node.heard(a);
    let [.., FromNode::LastFrames { peer: THERE, .. }, FromNode::PeerDied { peer: THERE, exit, heir: None }] =
        &heard[..]
    else {
        panic!("{heard:?}")
    };
    assert_eq!(exit.to_string(), "node 3 (host3) is gone: no answer");
    node.says(b, ToNode::Met { name: ProcId::new(3, 5, 1) });
    assert_eq!(node.count(b, |message| is_death_of(message, ProcId::new(3, 5, 1))), 1, "all are");
    for who in [a, b] {
        node.says(who, ToNode::Bye);
    }
    assert_eq!(node.hub.left(), Vec::<&str>::new());
}

/// Nobody else would say it for the one.
#[test]
fn a_dead_node_is_no_witness() {
    let mut node = Node::member(2, 2, &[3]);
    let (a, _) = node.driver();
    let worker = node.lease(a, 1);
    node.body.with_records.insert(worker);
    node.dies(worker);
    let keeper = node.body.keepers[0].0;
    node.hears(1, lost(3));
    node.step(|hub, step| hub.parted(step, 3, vec![]));
    assert_eq!(node.count(keeper, |message| matches!(message, FromNode::NodeTestified { node: 3, .. })), 1);
    node.says(keeper, ToNode::SettleAbroad { of: worker, nodes: vec![1, 3] });
    assert_eq!(node.count(keeper, |message| matches!(message, FromNode::NodeSettled { node: 3, .. })), 2);
}

#[test]
fn what_a_dead_node_was_to_hear_is_not_waited_for() {
    let mut node = Node::member(2, 2, &[3]);
    let (a, _) = node.driver();
    let death = Death {
        peer: THERE,
        exit: WorkerExit::Unknown,
        heir: Some(ProcId::new(3, 9, 1)),
        job: None,
        calls: vec![],
        is_old: false,
    };
    node.hears(3, Between::Died(death));
    node.hears(1, lost(3));
    node.step(|hub, step| hub.parted(step, 3, vec![]));
    assert_eq!(node.count(a, |message| is_death_of(message, ProcId::new(3, 9, 1))), 1, "its heir is dead, too");
    node.says(a, ToNode::Bye);
    assert_eq!(node.hub.left(), Vec::<&str>::new());
}

#[test]
fn a_node_ends_when_it_hears_that_it_is_dead_or_that_the_head_is() {
    for gone in [2, 1] {
        let mut node = Node::member(2, 2, &[3]);
        node.hears(1, lost(gone));
        assert_eq!(node.body.left.as_deref(), Some("no answer"));
    }
}

#[test]
fn a_node_that_leaves_says_so_to_the_head_and_the_head_to_all() {
    let mut node = Node::member(2, 2, &[3]);
    node.step(|hub, step| hub.leave(step, "its program ended"));
    assert_eq!(node.sent(), [(1, Between::Leaves { why: "its program ended".into() })]);
    let mut head = Node::head(2, &[(2, 2), (3, 2)]);
    head.hears(2, Between::Leaves { why: "its program ended".into() });
    let left = |to| (to, Between::Lost { node: 2, why: "its program ended".into() });
    assert_eq!(head.sent(), [left(2), left(3)]);
    assert_eq!(head.body.parted, [2]);
    head.step(|hub, step| hub.parted(step, 2, vec![]));
    head.step(|hub, step| hub.leave(step, "it was stopped"));
    assert_eq!(head.sent(), [(3, Between::Lost { node: 1, why: "it was stopped".into() })]);
}

#[test]
fn more_numbers_for_jobs_are_asked_for_in_good_time() {
    let mut node = Node::member(2, 2, &[]);
    let mut jobs = std::collections::BTreeSet::new();
    for _ in 0..1_500 {
        let (driver, job) = node.driver();
        jobs.insert(job);
        node.says(driver, ToNode::Bye);
        if node.sent().contains(&(1, Between::WantsJobNumbers)) {
            node.hears(1, Between::JobNumbers { above: 5_000 });
        }
    }
    assert_eq!(jobs.len(), 1_500);
}

/// Its node is a witness of an estate that was begun when it was known, and hears of that death. If it had heard of it before, it would not testify.
#[test]
fn cut_1_a_newcomer_is_told_of_estates_that_wait_for_it_by_their_deaths_alone() {
    let mut node = Node::member(2, 2, &[]);
    let (a, _) = node.driver();
    let (first, second) = (node.lease(a, 1), node.lease(a, 2));
    node.body.with_records.extend([first, second]);
    node.dies(first);
    node.hears(1, Between::Joined(Box::new(info(3, 2))));
    node.dies(second);
    node.sent();
    let keeper = node.body.keepers[0].0;
    node.says(keeper, ToNode::Settled { of: first, serving: vec![] });
    let sent = node.sent();
    assert!(sent.contains(&(1, Between::Knows { node: 3, heirs: vec![(first, keeper)] })), "{sent:?}");
}

/// Workers say how many deaths they know of with all that gives references away. Those that were started ahead count these.
#[test]
fn who_is_here_before_its_node_is_a_member_counts_the_deaths_from_before() {
    let mut node = Node::numbered(4, 2);
    let (a, _) = node.driver();
    node.step(|hub, step| hub.enter(step, info(4, 2), info(1, 2)));
    let heirs = vec![(THERE, ProcId::new(3, 9, 1))];
    let nodes = vec![info(1, 2), info(3, 2)];
    node.hears(1, Between::Members(Box::new(Membership { nodes, heirs, jobs_above: 3_000 })));
    let is_told = |message: &FromNode| matches!(message, FromNode::PeerDied { peer: THERE, heir: Some(_), .. });
    assert_eq!(node.count(a, is_told), 1);
    node.hears(3, Between::Died(Death { peer: THERE, heir: Some(ProcId::new(3, 9, 1)), ..old_death() }));
    assert_eq!(node.count(a, is_told), 1, "once");
}

/// A node that comes in hears of deaths before it is a member. One that has died since in the same slot does not hide who has what the first had.
#[test]
fn a_newcomer_knows_who_has_what_was_left_by_the_first_in_a_slot_whose_second_died_meanwhile() {
    let mut node = Node::numbered(4, 2);
    node.step(|hub, step| hub.enter(step, info(4, 2), info(1, 2)));
    node.hears(1, Between::Joined(Box::new(info(3, 2))));
    let (second, heir) = (ProcId::new(3, 4, 2), ProcId::new(3, 9, 1));
    node.hears(3, Between::Died(Death { peer: second, is_old: false, ..old_death() }));
    let nodes = vec![info(1, 2), info(3, 2)];
    node.hears(1, Between::Members(Box::new(Membership { nodes, heirs: vec![(THERE, heir)], jobs_above: 3_000 })));
    assert_eq!(node.hub.past().heirs, [(THERE, heir)]);
}

/// What a process says and what it asks is one channel: a name is looked up behind the kill, a group is waited for when it is made.
#[test]
fn questions_to_the_head_keep_their_place_among_what_a_process_says() {
    let by = ProcId::new(2, 4, 1);
    let said: Between<u32> = Between::Said { by, message: Box::new(ToNode::Leaving), home: None };
    let asks = Between::<u32>::Asks { ticket: 1, by: Some(by), home: None, question: Question::Sync };
    assert_eq!(said.way(), asks.way());
    let told: Between<u32> = Between::Told { to: by, message: Box::new(FromNode::CollectGarbage) };
    let answers = Between::<u32>::Answers { ticket: 1, to: Some(by), answer: Box::new(Answer::Done) };
    assert_eq!(told.way(), answers.way());
}
