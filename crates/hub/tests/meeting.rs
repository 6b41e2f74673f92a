//! Who is told of whose death.

mod bench;

use bench::{FromNode, Node, ToNode, is_death_of};
use model::ProcId;

/// How often each of these has heard of the death.
fn told(node: &Node, of: ProcId, processes: &[ProcId]) -> Vec<usize> {
    processes.iter().map(|process| node.count(*process, |message| is_death_of(message, of))).collect()
}

/// Workers that have never had to do with each other.
fn strangers(node: &mut Node, driver: ProcId, count: u64) -> Vec<ProcId> {
    (1..=count).map(|number| node.lease(driver, number)).collect()
}

#[test]
fn a_death_is_told_to_those_who_had_to_do_with_the_dead_and_to_nobody_else() {
    let mut node = Node::with_cpus(8);
    let (driver, _) = node.driver();
    let workers = strangers(&mut node, driver, 5);
    let [caller, told_it, namer, stranger, dead] = workers[..] else { panic!("five workers") };
    node.says(caller, ToNode::WantLink { peer: dead });
    node.says(told_it, ToNode::Relay { to: dead, message: 1 });
    node.says(namer, ToNode::Met { name: dead });
    node.says(namer, ToNode::Met { name: dead });
    node.dies(dead);
    assert_eq!(told(&node, dead, &[driver, caller, told_it, namer, stranger]), [1, 1, 1, 1, 0]);
}

#[test]
fn meet_1_a_name_that_is_met_after_its_death_is_answered_at_once() {
    let mut node = Node::with_cpus(8);
    let (driver, _) = node.driver();
    let workers = strangers(&mut node, driver, 3);
    let [late, other, dead] = workers[..] else { panic!("three workers") };
    node.dies(dead);
    node.says(driver, ToNode::LinkClosed { peer: dead });
    assert_eq!(told(&node, dead, &[late, other]), [0, 0]);
    node.says(late, ToNode::Met { name: dead });
    assert_eq!(told(&node, dead, &[late, other]), [1, 0]);
    // Its slot has another user by now.
    let next = node.driver().0;
    assert_eq!(next.slot(), dead.slot());
    node.says(late, ToNode::Met { name: dead });
    node.says(other, ToNode::WantLink { peer: dead });
    assert_eq!(told(&node, dead, &[late, other, next]), [2, 1, 0]);
}

#[test]
fn everyone_hears_of_a_drivers_death() {
    let mut node = Node::with_cpus(8);
    let (driver, _) = node.driver();
    let stranger = node.lease(driver, 1);
    let (leaving, _) = node.driver();
    node.says(leaving, ToNode::Bye);
    assert_eq!(told(&node, leaving, &[driver, stranger]), [1, 1]);
}

/// All knew of all: 1,500 actors that end were two million messages.
#[test]
fn many_that_die_cost_as_many_messages_as_they_had_peers() {
    let mut node = Node::with_cpus(30);
    let (driver, _) = node.driver();
    let workers = strangers(&mut node, driver, 30);
    for worker in &workers {
        node.dies(*worker);
    }
    let deaths = node.body.told.iter().filter(|(_, message)| matches!(message, FromNode::PeerDied { .. })).count();
    assert_eq!(deaths, 30, "only their driver had to do with them");
}
