//! Which node gets what, as hubs say it to each other: leases for which the head finds a node, and groups that lie on several.

mod bench;

use bench::{FromNode, Node, ToNode, create, one_cpu};
use model::{GroupId, GroupOptions, JobId, LeaseId, Lifetime, Need, ProcId, Resources, Seat, Strategy, Where, Wish};
use wire::abroad::Between;
use wire::control::{Answer, Question};
use wire::groups::WhichGroups;
use wire::members::{Load, Waiting};

const G: GroupId = GroupId([7; 18]);
const THERE: ProcId = ProcId::new(2, 4, 1);

fn spread() -> Need {
    Need { wish: Some(Box::new(Wish { spread: true, ..Wish::default() })), ..one_cpu() }
}

fn seated(bundle: Option<u16>) -> Need {
    Need { at: Where::Bundle(Seat { group: G, bundle, captures: false }), ..one_cpu() }
}

fn asks(node: &mut Node, who: ProcId, number: u64, need: Need) {
    let job = node.hub.proc(who).expect("it lives").job();
    node.says(who, ToNode::RequestLease { number, job, need, name: "f".into() });
}

fn requests(sent: &[(u32, Between<u32>)]) -> Vec<(u32, u64, bool)> {
    let request = |(node, message): &(u32, Between<u32>)| match message {
        Between::Request { lease, waits, .. } => Some((*node, lease.number, *waits)),
        _ => None,
    };
    sent.iter().filter_map(request).collect()
}

fn demands(sent: &[(u32, Between<u32>)]) -> Vec<&Waiting> {
    let loads = sent.iter().filter_map(|(_, message)| match message {
        Between::Load(load) => Some(&load.demands),
        _ => None,
    });
    loads.rev().take(1).flatten().collect()
}

/// A group of one core on each of so many nodes.
fn group_apart(node: &mut Node, who: ProcId, count: usize) {
    let options = GroupOptions {
        name: "".into(),
        namespace: "".into(),
        lifetime: Lifetime::Owned,
        strategy: Strategy::StrictSpread,
        bundles: vec![Resources::cpus(1); count],
        labels: Vec::new(),
    };
    node.asks(who, 1, Question::CreateGroup { group: G, options });
}

fn orders(sent: &[(u32, Between<u32>)]) -> Vec<(u32, &'static str)> {
    let order = |(node, message): &(u32, Between<u32>)| {
        let order = match message {
            Between::Prepare { .. } => "prepare",
            Between::Commit(_) => "commit",
            Between::Abort(_) => "abort",
            Between::Dissolve(_) => "dissolve",
            _ => return None,
        };
        Some((*node, order))
    };
    sent.iter().filter_map(order).collect()
}

fn prepared(node: &mut Node, by: u32, is_held: bool) {
    let attempts = node.body.sent.iter().rev().filter_map(|(to, message)| match message {
        Between::Prepare { attempt, .. } if *to == by => Some(*attempt),
        _ => None,
    });
    let attempt = attempts.max().expect("it was asked");
    node.hears(by, Between::Prepared { group: G, attempt, is_held });
}

fn state(node: &mut Node, who: ProcId) -> (String, Vec<bool>) {
    node.asks(who, 99, Question::Groups(WhichGroups::One(G)));
    let Some(Answer::Groups(found)) = node.answers_to(who, 99).last().copied() else { panic!("no answer") };
    (found[0].state.to_string(), found[0].nodes.iter().map(Option::is_some).collect())
}

#[test]
fn what_is_to_be_on_many_nodes_waits_for_a_word_of_the_head() {
    let mut node = Node::member(2, 2, &[3]);
    let (a, _) = node.driver();
    for number in 1..=3 {
        asks(&mut node, a, number, spread());
    }
    node.wait_ms(20);
    let sent = node.sent();
    let said = demands(&sent);
    assert!(matches!(&said[..], [one] if one.count == 3 && one.seeks && one.need == spread()), "{said:?}");
    assert_eq!(node.granted(a, 1), None, "there is room here");
    node.hears(1, Between::Offer { need: spread(), to: 3, count: 1, waits: false });
    node.hears(1, Between::Offer { need: spread(), to: 2, count: 1, waits: false });
    assert_eq!(requests(&node.sent()), [(3, 1, false)]);
    node.worker_joins();
    assert!(node.granted(a, 2).is_some());
    node.says(a, ToNode::ReturnLease { number: 3 });
    node.wait_ms(20);
    assert_eq!(demands(&node.sent()), Vec::<&Waiting>::new());
}

#[test]
fn what_comes_back_with_another_node_goes_there_at_once() {
    let mut node = Node::member(2, 1, &[3, 4]);
    let (a, _) = node.driver();
    asks(&mut node, a, 1, spread());
    node.hears(1, Between::Offer { need: spread(), to: 3, count: 1, waits: true });
    assert_eq!(requests(&node.sent()), [(3, 1, true)]);
    let lease = LeaseId { owner: a, number: 1 };
    node.hears(3, Between::Bounced { lease, to: Some(4) });
    assert_eq!(requests(&node.sent()), [(4, 1, false)]);
    node.hears(4, Between::Bounced { lease, to: None });
    assert_eq!(requests(&node.sent()), [], "the head is asked again");
    node.wait_ms(20);
    assert_eq!(demands(&node.sent()).len(), 1);
    node.says(a, ToNode::Bye);
    assert_eq!(node.hub.left(), Vec::<&str>::new());
}

/// A node that can never give it asks nobody for leases back: so it waits where it can be had.
#[test]
fn what_no_node_has_room_for_is_sent_to_wait() {
    let mut node = Node::head(1, &[(2, 2), (3, 0)]);
    let busy = Load { free: Resources::cpus(0), demands: Vec::new(), bundles: Vec::new() };
    node.hears(2, Between::Load(busy));
    let need = Need::same(Resources::cpus(2));
    let demand = Waiting { need: need.clone(), count: 1, is_actor: false, seeks: true };
    let load = Load { free: Resources::cpus(0), demands: vec![demand], bundles: Vec::new() };
    node.hears(3, Between::Load(load));
    assert!(node.sent().contains(&(3, Between::Offer { need, to: 2, count: 1, waits: true })));
}

#[test]
fn res_1_a_group_is_there_when_all_nodes_have_prepared_it() {
    let mut node = Node::head(1, &[(2, 1), (3, 1)]);
    let (a, _) = node.driver();
    group_apart(&mut node, a, 3);
    node.says(a, ToNode::WatchGroup { group: G });
    assert_eq!(orders(&node.body.sent), [(2, "prepare"), (3, "prepare")]);
    prepared(&mut node, 2, true);
    assert_eq!(state(&mut node, a), ("PENDING".into(), vec![false; 3]));
    prepared(&mut node, 3, true);
    assert_eq!(orders(&node.sent())[2..], [(2, "commit"), (3, "commit")]);
    assert_eq!(state(&mut node, a), ("CREATED".into(), vec![true; 3]));
    let is_there = |message: &FromNode| matches!(message, FromNode::Group { is_there: true, .. });
    assert_eq!(node.count(a, is_there), 1);
    assert_eq!(node.hub.scheduler().available(), Resources::cpus(0));
    node.says(a, ToNode::RemoveGroup(G));
    assert_eq!(orders(&node.sent()), [(2, "dissolve"), (3, "dissolve")]);
    assert_eq!(node.hub.scheduler().available(), Resources::cpus(1));
}

#[test]
fn res_1_what_was_prepared_is_given_back_if_another_node_has_no_room_or_dies() {
    let mut node = Node::head(1, &[(2, 1), (3, 1)]);
    let (a, _) = node.driver();
    group_apart(&mut node, a, 3);
    prepared(&mut node, 2, true);
    prepared(&mut node, 3, false);
    let again = [(2, "abort"), (2, "prepare"), (3, "prepare")];
    assert_eq!(orders(&node.body.sent)[2..], again, "now leases are asked back for it");
    prepared(&mut node, 3, false);
    assert_eq!(orders(&node.sent())[5..], [(2, "abort")]);
    assert_eq!(node.hub.scheduler().available(), Resources::cpus(1), "here, too");
    node.wait_ms(100);
    assert_eq!(orders(&node.body.sent)[..2], [(2, "prepare"), (3, "prepare")], "and after a while once more");
    node.body.sent.truncate(2);
    prepared(&mut node, 2, true);
    node.step(|hub, step| hub.node_lost(step, 3, "no answer"));
    node.step(|hub, step| hub.parted(step, 3, vec![]));
    assert_eq!(orders(&node.sent())[2..], [(2, "abort")]);
    assert_eq!(state(&mut node, a), ("PENDING".into(), vec![false; 3]));
    node.says(a, ToNode::Bye);
    assert_eq!(node.hub.scheduler().available(), Resources::cpus(1));
}

#[test]
fn res_3_a_group_is_not_whole_without_the_node_of_a_bundle() {
    let mut node = Node::head(1, &[(2, 1), (3, 1)]);
    let (a, _) = node.driver();
    group_apart(&mut node, a, 2);
    let of = if orders(&node.body.sent)[0].0 == 2 { (2, 3) } else { (3, 2) };
    prepared(&mut node, of.0, true);
    node.sent();
    node.step(|hub, step| hub.node_lost(step, of.0, "no answer"));
    node.step(|hub, step| hub.parted(step, of.0, vec![]));
    assert_eq!(state(&mut node, a).0, "RESCHEDULING");
    assert_eq!(orders(&node.body.sent), [(of.1, "prepare")]);
    prepared(&mut node, of.1, true);
    assert_eq!(state(&mut node, a), ("CREATED".into(), vec![true; 2]));
}

#[test]
fn leases_and_actors_go_where_their_bundle_is() {
    let mut node = Node::head(1, &[(2, 1)]);
    let (a, job) = node.driver();
    group_apart(&mut node, a, 2);
    asks(&mut node, a, 1, seated(Some(0)));
    asks(&mut node, a, 2, seated(Some(1)));
    assert_eq!(requests(&node.body.sent), [], "it is not there yet");
    prepared(&mut node, 2, true);
    node.wait_ms(20);
    assert_eq!(requests(&node.sent()).len(), 1);
    node.worker_joins();
    assert_eq!([1, 2].into_iter().filter(|number| node.granted(a, *number).is_some()).count(), 1);
    let mut actor = create(5, job, Lifetime::Owned, "");
    if let ToNode::CreateActor { options, .. } = &mut actor {
        options.need = seated(None);
    }
    node.says(a, actor);
    node.wait_ms(20);
    node.says(a, ToNode::RemoveGroup(G));
    assert_eq!(orders(&node.sent()), [(2, "dissolve")]);
    assert!(node.hub.actor_table().iter().all(|record| record.death().is_some()));
    asks(&mut node, a, 3, seated(None));
    assert_eq!(node.count(a, |message| matches!(message, FromNode::LeaseRefused { number: 3, .. })), 1);
}

#[test]
fn whoever_seeks_a_place_in_a_group_that_is_no_more_is_told() {
    let mut node = Node::head(1, &[(2, 1)]);
    let demand = Waiting { need: seated(None), count: 1, is_actor: false, seeks: true };
    let load = Load { free: Resources::cpus(1), demands: vec![demand], bundles: Vec::new() };
    node.hears(2, Between::Load(load));
    assert!(node.sent().contains(&(2, Between::Dissolve(G))));

    let mut node = Node::member(2, 1, &[]);
    let (a, _) = node.driver();
    asks(&mut node, a, 1, seated(Some(0)));
    node.hears(1, Between::Dissolve(G));
    assert_eq!(node.count(a, |message| matches!(message, FromNode::LeaseRefused { number: 1, .. })), 1);
}

#[test]
fn a_node_prepares_within_the_time_or_not_at_all() {
    let mut node = Node::member(2, 1, &[]);
    let (a, _) = node.driver();
    node.lease(a, 1);
    node.sent();
    let bundles = vec![(3, Resources::cpus(1))];
    node.hears(1, Between::Prepare { group: G, attempt: 1, bundles: bundles.clone(), within_ms: 0 });
    assert!(node.sent().contains(&(1, Between::Prepared { group: G, attempt: 1, is_held: false })));
    node.hears(1, Between::Prepare { group: G, attempt: 2, bundles, within_ms: 50 });
    assert_eq!(node.count(a, |message| matches!(message, FromNode::Revoke { number: 1 })), 1);
    node.says(a, ToNode::ReturnLease { number: 1 });
    assert!(node.sent().contains(&(1, Between::Prepared { group: G, attempt: 2, is_held: true })));
    // Its lease may come before the head's word.
    let lease = LeaseId { owner: THERE, number: 4 };
    let job = JobId([9; 4]);
    let request = Between::Request { lease, job, need: seated(Some(3)), name: "f".into(), waits: true, home: None };
    node.step(|hub, _| hub.node_joined(2));
    node.hears(1, request);
    node.hears(1, Between::Commit(G));
    node.hears(1, Between::Dissolve(G));
    assert_eq!(node.hub.scheduler().available(), Resources::cpus(1));
}
