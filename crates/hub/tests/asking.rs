//! NODE-4: whoever asks is answered once, or is dead: functions, room, inventories, what waits.

mod bench;

use bench::{FromNode, Node, ROOM, ToNode, door_of, killed};
use model::{FunctionId, ProcId};
use wire::abroad::Between;
use wire::control::{Answer, Question};
use wire::status::{ClusterInventory, Holdings, Inventory, ProcessState};

const F: FunctionId = FunctionId([1; 16]);

fn export(function: FunctionId) -> ToNode {
    ToNode::Export { function, body: vec![1, 2, 3] }
}

fn bodies(node: &Node, who: ProcId) -> Vec<Option<Vec<u8>>> {
    let body = |message: &FromNode| match message {
        FromNode::Answer { answer: Answer::Function(body), .. } => Some(body.clone()),
        _ => None,
    };
    node.heard(who).into_iter().filter_map(body).collect()
}

fn grants(node: &Node, who: ProcId) -> Vec<bool> {
    let granted = |message: &FromNode| match message {
        FromNode::Extent { granted, .. } => Some(granted.is_ok()),
        _ => None,
    };
    node.heard(who).into_iter().filter_map(granted).collect()
}

fn rounds(node: &Node, who: ProcId) -> Vec<u64> {
    let round = |message: &FromNode| match message {
        FromNode::GiveBackRoom { round, .. } => Some(*round),
        _ => None,
    };
    node.heard(who).into_iter().filter_map(round).collect()
}

fn holdings(process: ProcId) -> Holdings {
    Holdings {
        process,
        pid: i32::from(process.slot()),
        state: ProcessState::Starting,
        objects: Vec::new(),
        objects_count: 3,
        tasks: 0,
        pins: 0,
        store_bytes: 0,
        files: 0,
    }
}

fn inventory_of_all(answers: &[&Answer]) -> ClusterInventory {
    match answers {
        [Answer::Inventory(inventory)] => (**inventory).clone(),
        other => panic!("one answer: {other:?}"),
    }
}

fn inventory(answers: &[&Answer]) -> Inventory {
    inventory_of_all(answers).own.inventory
}

/// What another node answers to the first question.
fn from_there(leases_waiting: u64) -> Between<u32> {
    let inventory = Inventory { leases_waiting, ..Inventory::default() };
    Between::Inventory { number: 1, inventory: Box::new(inventory) }
}

fn is_lost(node: &mut Node, other: u32) {
    node.step(|hub, step| hub.node_lost(step, other, "no answer"));
    node.step(|hub, step| hub.parted(step, other, vec![]));
}

#[test]
fn a_body_that_comes_late_is_passed_on_to_who_asked() {
    let mut node = Node::with_cpus(1);
    let (a, b) = (node.driver().0, node.driver().0);
    node.asks(b, 1, Question::Function(F));
    assert!(bodies(&node, b).is_empty());
    node.says(a, export(F));
    node.says(a, export(F));
    assert_eq!(bodies(&node, b), [Some(vec![1, 2, 3])]);
}

#[test]
fn who_asks_for_a_body_that_never_comes_is_told_so_once() {
    let mut node = Node::with_cpus(1);
    let (a, b) = (node.driver().0, node.driver().0);
    node.asks(b, 1, Question::Function(F));
    node.wait_ms(9_000);
    assert!(bodies(&node, b).is_empty());
    node.wait_ms(2_000);
    assert_eq!(bodies(&node, b), [None]);
    node.says(a, export(F));
    assert_eq!(bodies(&node, b).len(), 1);
}

/// A daemon kept every body that any job had ever sent.
#[test]
fn a_jobs_functions_end_with_it_unless_another_has_them_too() {
    let mut node = Node::with_cpus(1);
    let (a, b) = (node.driver().0, node.driver().0);
    let only_a = FunctionId([2; 16]);
    node.says(a, export(F));
    node.says(b, export(F));
    node.says(a, export(only_a));
    node.dies(a);
    let (c, _) = node.driver();
    node.asks(c, 1, Question::Function(only_a));
    node.asks(c, 2, Question::Function(F));
    assert_eq!(bodies(&node, c), [Some(vec![1, 2, 3])]);
    node.dies(b);
    node.dies(c);
    assert!(!node.hub.left().contains(&"functions"));
}

#[test]
fn bodies_beyond_a_bound_are_filed_and_found_there() {
    let mut node = Node::with_cpus(1);
    let (a, _) = node.driver();
    let id = |number: u8| FunctionId([number; 16]);
    for number in 0..12 {
        node.says(a, ToNode::Export { function: id(number), body: vec![number; 1 << 20] });
    }
    assert_eq!(node.body.files.len(), 4, "eight are in memory");
    for number in 0..12 {
        node.asks(a, u64::from(number), Question::Function(id(number)));
    }
    assert!(bodies(&node, a).iter().zip(0..).all(|(body, number)| *body == Some(vec![number; 1 << 20])));
    node.dies(a);
    assert!(node.body.files.is_empty() && !node.hub.left().contains(&"functions"));
}

#[test]
fn room_is_asked_for_in_rounds_and_given_as_soon_as_there_is_some() {
    let mut node = Node::with_cpus(1);
    let (full, waits) = (node.driver().0, node.driver().0);
    node.says(full, ToNode::WantExtent { length: ROOM });
    node.says(waits, ToNode::WantExtent { length: 10 });
    assert!(grants(&node, waits).is_empty());
    let round = rounds(&node, full)[0];
    node.says(full, ToNode::ReturnExtent { offset: 0, length: 500 });
    node.says(full, ToNode::GaveBack { round, bytes: 500 });
    node.says(waits, ToNode::GaveBack { round, bytes: 0 });
    assert_eq!(grants(&node, waits), [true]);
}

#[test]
fn who_waits_for_room_in_vain_is_told_so_once() {
    let mut node = Node::with_cpus(1);
    let (full, waits) = (node.driver().0, node.driver().0);
    node.says(full, ToNode::WantExtent { length: ROOM });
    node.says(waits, ToNode::WantExtent { length: 10 });
    node.wait_ms(60_000);
    assert_eq!(grants(&node, waits), [false], "nobody answers in any round");
    node.says(full, ToNode::WantExtent { length: ROOM + 1 });
    assert_eq!(grants(&node, full), [true, false], "as much as that there never will be");
}

/// It was granted to the slot of the dead process, which nobody emptied any more.
#[test]
fn room_that_a_dead_process_waited_for_stays_free() {
    let mut node = Node::with_cpus(1);
    let (full, waits) = (node.driver().0, node.driver().0);
    node.says(full, ToNode::WantExtent { length: ROOM });
    node.says(waits, ToNode::WantExtent { length: 10 });
    node.dies(waits);
    node.says(full, ToNode::ReturnExtent { offset: 0, length: ROOM });
    assert_eq!(node.body.extents[&full], 0);
    assert!(!node.body.extents.contains_key(&waits));
}

#[test]
fn an_inventory_is_complete_when_everyone_has_answered_or_is_dead() {
    let mut node = Node::with_cpus(1);
    let (a, b) = (node.driver().0, node.driver().0);
    let worker = node.lease(a, 1);
    node.visitor_asks(50, 9, Question::Inventory { limit: 1 });
    node.says(a, ToNode::Holdings { number: 1, holdings: holdings(a) });
    node.says(a, ToNode::Holdings { number: 1, holdings: holdings(a) });
    node.says(worker, ToNode::Holdings { number: 1, holdings: holdings(worker) });
    assert!(node.body.answers.is_empty());
    node.dies(b);
    let answers: Vec<&Answer> = node.body.answers.iter().map(|(_, _, answer)| answer).collect();
    let inventory = inventory(&answers);
    assert_eq!((inventory.processes.len(), inventory.silent.len()), (2, 0));
    assert_eq!(node.sent(), [], "a node that is alone asks nobody else");
}

#[test]
fn an_inventory_names_those_that_say_nothing() {
    let mut node = Node::with_cpus(1);
    let (a, b) = (node.driver().0, node.driver().0);
    node.asks(a, 1, Question::Inventory { limit: 1 });
    node.says(a, ToNode::Holdings { number: 1, holdings: holdings(a) });
    node.wait_ms(4_000);
    assert_eq!(inventory(&node.answers_to(a, 1)).silent, [100]);
    node.says(b, ToNode::Holdings { number: 1, holdings: holdings(b) });
    assert_eq!(node.answers_to(a, 1).len(), 1);
}

/// `eagleray memory` at the head said nothing of what was held on other nodes, and its audit found nothing there.
#[test]
fn an_inventory_has_those_of_other_nodes_which_ask_their_own_processes() {
    let mut node = Node::head(1, &[(2, 2), (3, 0)]);
    let (a, _) = node.driver();
    node.visitor_asks(50, 9, Question::Inventory { limit: 4 });
    let wanted = |other| (other, Between::WantsInventory { number: 1, limit: 4 });
    assert_eq!(node.sent(), [wanted(2), wanted(3)], "guests as well");
    node.hears(3, from_there(30));
    node.says(a, ToNode::Holdings { number: 1, holdings: holdings(a) });
    node.hears(3, from_there(31));
    assert!(node.body.answers.is_empty());
    node.hears(2, from_there(20));
    let [(50, 9, answer)] = &node.body.answers[..] else { panic!("one answer: {:?}", node.body.answers) };
    let found = inventory_of_all(&[answer]);
    assert_eq!((found.own.node, &*found.own.name, found.own.inventory.processes.len()), (1, "host1", 1));
    let others = found.others.iter().map(|other| (other.node, &*other.name, other.inventory.leases_waiting));
    assert_eq!(others.collect::<Vec<_>>(), [(2, "host2", 20), (3, "host3", 30)]);
    assert!(found.silent.is_empty());
    assert!(!node.hub.left().contains(&"inventories"));
}

#[test]
fn a_node_that_another_one_asks_answers_for_itself_alone() {
    let mut node = Node::member(2, 1, &[3]);
    let (a, b) = (node.driver().0, node.driver().0);
    node.hears(1, Between::WantsInventory { number: 7, limit: 4 });
    for who in [a, b] {
        assert_eq!(node.count(who, |message| matches!(message, FromNode::TellHoldings { number: 1, limit: 4 })), 1);
    }
    node.says(a, ToNode::Holdings { number: 1, holdings: holdings(a) });
    assert_eq!(node.sent(), []);
    node.wait_ms(3_500);
    let sent = node.sent();
    let answers = sent.iter().filter_map(|(to, message)| match message {
        Between::Inventory { number, inventory } => {
            Some((*to, *number, inventory.processes.len(), inventory.silent.len()))
        }
        _ => None,
    });
    assert_eq!(answers.collect::<Vec<_>>(), [(1, 7, 1, 1)], "{sent:?}");
    assert!(!sent.iter().any(|(_, message)| matches!(message, Between::WantsInventory { .. })));
}

#[test]
fn node_4_an_inventory_does_not_wait_for_a_node_that_is_dead() {
    let mut node = Node::head(1, &[(2, 2), (3, 2)]);
    node.visitor_asks(50, 9, Question::Inventory { limit: 1 });
    node.hears(3, from_there(30));
    is_lost(&mut node, 3);
    assert!(node.body.answers.is_empty(), "one is awaited");
    is_lost(&mut node, 2);
    let found = inventory_of_all(&[&node.body.answers[0].2]);
    assert_eq!((found.others, found.silent), (vec![], vec![]), "the dead hold nothing");
    node.hears(2, from_there(20));
    assert_eq!(node.body.answers.len(), 1);
}

#[test]
fn an_inventory_names_nodes_that_say_nothing() {
    let mut node = Node::head(1, &[(2, 2), (3, 2)]);
    let (a, _) = node.driver();
    node.asks(a, 1, Question::Inventory { limit: 1 });
    node.hears(2, from_there(20));
    node.wait_ms(3_900);
    assert!(node.answers_to(a, 1).is_empty(), "a node waits as long for processes of its own");
    node.wait_ms(200);
    let found = inventory_of_all(&node.answers_to(a, 1));
    assert_eq!((found.others.len(), found.silent), (1, vec![3]));
    assert_eq!(found.own.inventory.silent, [100]);
    node.hears(3, from_there(30));
    assert_eq!(node.answers_to(a, 1).len(), 1);
}

/// Time for processes is up before that for nodes.
#[test]
fn processes_that_say_nothing_are_waited_for_no_longer_than_nodes_are() {
    let mut node = Node::head(1, &[(2, 2)]);
    let (a, _) = node.driver();
    node.asks(a, 1, Question::Inventory { limit: 1 });
    node.wait_ms(3_500);
    assert!(node.answers_to(a, 1).is_empty());
    node.hears(2, from_there(20));
    assert_eq!(inventory(&node.answers_to(a, 1)).silent, [100]);
}

#[test]
fn nothing_is_kept_of_what_a_dead_node_has_asked() {
    let mut node = Node::head(1, &[(2, 2)]);
    node.driver();
    node.hears(2, Between::WantsInventory { number: 7, limit: 4 });
    assert!(node.hub.left().contains(&"inventories"));
    is_lost(&mut node, 2);
    assert!(!node.hub.left().contains(&"inventories"));
    node.sent();
    node.wait_ms(5_000);
    assert!(!node.sent().iter().any(|(_, message)| matches!(message, Between::Inventory { .. })));
}

/// Answers went to the connection from which a question had come, whoever had it by then.
#[test]
fn nobody_hears_an_answer_to_a_question_of_the_dead() {
    let mut node = Node::with_cpus(1);
    let (a, b) = (node.driver().0, node.driver().0);
    node.asks(a, 1, Question::Inventory { limit: 1 });
    node.asks(a, 2, Question::WatchWaits);
    let told = node.body.answers.len();
    node.dies(a);
    node.says(b, ToNode::Holdings { number: 1, holdings: holdings(b) });
    node.request_lease(b, 1);
    node.wait_ms(5_000);
    assert_eq!(node.body.answers.len(), told, "the door of {a} may be another's by now");
    node.visitor_asks(door_of(a), 3, Question::Inventory { limit: 1 });
    node.step(|hub, _| hub.door_closed(door_of(a)));
    node.wait_ms(5_000);
    assert_eq!(node.body.answers.len(), told);
}

#[test]
fn a_subscriber_is_told_what_waits_when_that_has_changed_and_it_reads() {
    let mut node = Node::with_cpus(1);
    let (a, _) = node.driver();
    node.visitor_asks(50, 1, Question::WatchWaits);
    assert_eq!(node.body.answers.len(), 1, "at once");
    node.wait_ms(1_000);
    assert_eq!(node.body.answers.len(), 1, "nothing has changed");
    node.body.is_behind.insert(50);
    node.request_lease(a, 1);
    node.wait_ms(1_000);
    assert_eq!(node.body.answers.len(), 1, "it has not read the last one");
    node.body.is_behind.clear();
    node.wait_ms(1_000);
    assert_eq!(node.body.answers.len(), 2);
}

#[test]
fn the_oldest_of_too_many_subscribers_is_cut_off() {
    let mut node = Node::with_cpus(1);
    for door in 0..17 {
        node.visitor_asks(door, 1, Question::WatchWaits);
    }
    assert_eq!(node.body.hung_up, [0]);
    assert_eq!(node.body.answers.len(), 17);
}

#[test]
fn what_several_workers_notice_alike_is_told_once() {
    let mut node = Node::with_cpus(2);
    let (a, _) = node.driver();
    let (one, other) = (node.lease(a, 1), node.lease(a, 2));
    for who in [one, other, one] {
        node.says(who, ToNode::Notice { kind: "odd".into(), text: "it is odd".into() });
    }
    assert_eq!(node.count(a, |message| matches!(message, FromNode::Notice { .. })), 1);
    node.step(|hub, step| hub.process_died(step, one, killed()));
}
