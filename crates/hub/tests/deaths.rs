//! What becomes of a process's place, words and estate when it dies.

mod bench;

use bench::{FromNode, GRACE_MS, Node, ToNode, is_death_of, killed};
use model::{ProcId, WorkerExit};

fn inherited(of: ProcId) -> ToNode {
    ToNode::Inherited { of }
}

#[test]
fn node_1_a_dead_process_is_buried_when_the_last_peer_has_let_go() {
    let mut node = Node::with_cpus(2);
    let (a, _) = node.driver();
    let worker = node.lease(a, 1);
    node.dies(worker);
    assert_eq!(node.count(a, |message| is_death_of(message, worker)), 1);
    assert!(node.body.buried.is_empty() && node.body.reset.is_empty(), "its caller may still read what it wrote");
    let (next, _) = node.driver();
    assert_ne!(next.slot(), worker.slot());
    node.says(a, ToNode::LinkClosed { peer: worker });
    assert_eq!((&node.body.buried[..], node.body.reset.len()), (&[worker][..], 2));
    let (again, _) = node.driver();
    assert_eq!((again.slot(), again.epoch()), (worker.slot(), worker.epoch() + 1));
}

#[test]
fn node_1_what_a_dead_process_left_is_kept_until_the_keeper_has_read_it() {
    let mut node = Node::with_cpus(2);
    let (a, _) = node.driver();
    let worker = node.lease(a, 1);
    node.body.with_records.insert(worker);
    node.dies(worker);
    let (keeper, past) = node.body.keepers[0].clone();
    assert!(past.heirs.is_empty(), "it is the first");
    let is_told = |message: &FromNode| matches!(message, FromNode::PeerDied { peer, heir, .. } if *peer == worker && *heir == Some(keeper));
    assert_eq!(node.count(a, is_told), 1);
    let witnesses = node.heard(keeper).into_iter().find_map(|message| match message {
        FromNode::Inherit { of, witnesses } if *of == worker => Some(witnesses.clone()),
        _ => None,
    });
    assert!(witnesses.is_some_and(|witnesses| witnesses.contains(&a)));
    node.says(a, ToNode::LinkClosed { peer: worker });
    assert!(node.body.buried.is_empty());
    node.says(keeper, inherited(worker));
    assert_eq!(node.body.buried, [worker]);
    assert_eq!((node.hub.past().heirs, node.hub.past().estates), (vec![(worker, keeper)], 1));
}

/// One that has left nothing may have answered calls of the dead to the keeper, which reads that first.
#[test]
fn node_1_once_there_is_a_keeper_it_reads_the_last_words_of_everyone() {
    let mut node = Node::with_cpus(2);
    let (a, b) = (node.driver().0, node.driver().0);
    node.body.with_records.insert(a);
    node.dies(a);
    let keeper = node.body.keepers[0].0;
    node.says(keeper, inherited(a));
    node.dies(b);
    assert_eq!(node.body.buried, [a]);
    node.says(keeper, inherited(b));
    assert_eq!(node.body.buried, [a, b]);
}

#[test]
fn a_keeper_that_says_nothing_is_not_waited_for_for_ever() {
    let mut node = Node::with_cpus(2);
    let (a, _) = node.driver();
    node.body.with_records.insert(a);
    node.dies(a);
    node.wait_ms(19_000);
    assert!(node.body.buried.is_empty());
    node.wait_ms(2_000);
    assert_eq!(node.body.buried, [a]);
    assert_eq!(node.hub.left(), ["processes"], "the keeper is there still");
}

#[test]
fn workers_of_a_dead_process_go_on_until_it_is_settled_and_those_that_serve_until_they_have() {
    let mut node = Node::with_cpus(2);
    let (a, b) = (node.driver().0, node.driver().0);
    let (idle, busy) = (node.lease(a, 1), node.lease(a, 2));
    node.request_lease(b, 1);
    node.body.with_records.insert(a);
    node.dies(a);
    let keeper = node.body.keepers[0].0;
    let is_retired = |node: &Node, worker| node.count(worker, |message| matches!(message, FromNode::Retire)) == 1;
    assert!(!is_retired(&node, idle) && !is_retired(&node, busy));
    node.says(keeper, ToNode::Settled { of: a, serving: vec![busy] });
    assert!(is_retired(&node, idle) && !is_retired(&node, busy));
    node.says(keeper, ToNode::Served { worker: busy });
    assert!(is_retired(&node, busy));
    assert!(!node.body.starting.is_empty(), "what the leases held is free for others");
}

/// A worker that owned what others held was told to end when the process that had leased it died, and lived on for them. It kept the cores of
/// the lease; whoever held its values waited for those cores for ever.
#[test]
fn cores_leased_by_a_dead_process_are_free_although_the_worker_lives_on() {
    let mut node = Node::with_cpus(1);
    let (a, b) = (node.driver().0, node.driver().0);
    let worker = node.lease(a, 1);
    node.dies(a);
    assert_eq!(node.count(worker, |message| matches!(message, FromNode::Retire)), 1);
    assert!(node.hub.proc(worker).is_some() && node.body.killed.is_empty(), "it may run its exit handlers");
    let other = node.lease(b, 1);
    assert_ne!(other, worker);
}

#[test]
fn letters_to_one_that_has_hung_up_wait_for_its_death_and_go_back_behind_it() {
    let mut node = Node::with_cpus(2);
    let (a, _) = node.driver();
    let worker = node.lease(a, 1);
    node.step(|hub, step| hub.connection_lost(step, worker));
    assert_eq!(node.body.killed, [worker], "a worker that closes its socket is ended");
    node.says(a, ToNode::Relay { to: worker, message: 7 });
    let is_back = |message: &FromNode| matches!(message, FromNode::Undeliverable { message: 7, .. });
    assert_eq!(node.count(a, is_back), 0);
    node.dies(worker);
    let heard = node.heard(a);
    let death = heard.iter().position(|message| is_death_of(message, worker));
    let back = heard.iter().position(|message| is_back(message));
    assert!(death.is_some() && death < back, "{heard:?}");
    node.says(a, ToNode::RelayAll(vec![(worker, 7)]));
    assert_eq!(node.count(a, is_back), 2, "the dead get nothing");
}

#[test]
fn letters_are_carried_in_order() {
    let mut node = Node::with_cpus(2);
    let (a, b) = (node.driver().0, node.driver().0);
    for message in 0..3 {
        node.says(a, ToNode::Relay { to: b, message });
    }
    let letters: Vec<u32> = node
        .heard(b)
        .into_iter()
        .filter_map(|message| match message {
            FromNode::Relay { sender, message } if *sender == a => Some(*message),
            _ => None,
        })
        .collect();
    assert_eq!(letters, [0, 1, 2]);
}

#[test]
fn a_worker_that_left_by_itself_or_was_condemned_is_told_as_that() {
    let mut node = Node::with_cpus(2);
    let (a, _) = node.driver();
    let (leaves, starves) = (node.lease(a, 1), node.lease(a, 2));
    node.says(leaves, ToNode::Leaving);
    node.dies(leaves);
    let verdict = WorkerExit::OutOfMemory { report: "all of it".into(), is_alone: false };
    node.step(|hub, step| hub.kill_worker(step, starves, verdict.clone()));
    assert_eq!(node.body.killed, [starves]);
    node.dies(starves);
    let exits: Vec<WorkerExit> = node
        .heard(a)
        .into_iter()
        .filter_map(|message| match message {
            FromNode::PeerDied { exit, .. } => Some(exit.clone()),
            _ => None,
        })
        .collect();
    assert!(matches!(exits[0], WorkerExit::Intended(_)), "{exits:?}");
    assert_eq!(exits[1], verdict);
}

#[test]
fn an_actor_that_takes_too_long_to_end_is_killed() {
    let mut node = Node::with_cpus(2);
    let (a, job) = node.driver();
    node.says(a, bench::create(1, job, model::Lifetime::Owned, ""));
    let worker = node.worker_joins();
    node.says(worker, ToNode::ActorBuilt { actor: model::ActorId([1; 16]), shown_as: "A".into() });
    node.says(a, ToNode::ActorOutOfScope { actor: model::ActorId([1; 16]) });
    assert_eq!(node.count(worker, |message| matches!(message, FromNode::Exit { gracefully: true })), 1);
    node.wait_ms(GRACE_MS - 1);
    assert!(node.body.killed.is_empty());
    node.wait_ms(2);
    assert_eq!(node.body.killed, [worker]);
}

#[test]
fn a_worker_that_is_forked_when_nobody_needs_it_is_killed() {
    let mut node = Node::with_cpus(2);
    let (a, _) = node.driver();
    node.request_lease(a, 1);
    let worker = node.body.starting.remove(0);
    node.step(|hub, step| hub.process_died(step, worker, killed()));
    assert!(!node.step(|hub, step| hub.worker_forked(step, worker, 77)));
    assert_eq!(node.body.killed, [worker]);
}

#[test]
fn nothing_is_left_of_processes_that_are_gone() {
    let mut node = Node::with_cpus(2);
    let (a, job) = node.driver();
    let worker = node.lease(a, 1);
    node.says(a, bench::create(1, job, model::Lifetime::Owned, "bob"));
    node.says(a, ToNode::WatchActor { actor: model::ActorId([1; 16]) });
    node.says(a, ToNode::WantExtent { length: 10 });
    node.dies(a);
    node.says(worker, ToNode::LinkClosed { peer: a });
    let all: Vec<ProcId> = node.hub.procs().map(hub::Proc::id).collect();
    all.into_iter().for_each(|who| node.dies(who));
    assert_eq!(node.hub.left(), [""; 0]);
}
