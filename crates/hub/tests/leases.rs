//! Who gets which worker, and what is kept of it; actors and groups with those who wait for them.

mod bench;

use bench::{FromNode, Node, ToNode, create, is_grant, one_cpu};
use model::{ActorId, GroupId, GroupOptions, JobId, Lifetime, Need, Resources, Strategy};
use wire::control::{ActorPlace, ActorRegistration, Answer, Question};

const X: ActorId = ActorId([1; 16]);
const G: GroupId = GroupId([3; 18]);

fn places(node: &Node, who: model::ProcId) -> Vec<ActorPlace> {
    let place = |message: &FromNode| match message {
        FromNode::Actor { state, .. } => Some(state.clone()),
        _ => None,
    };
    node.heard(who).into_iter().filter_map(place).collect()
}

fn group(name: &str, cpus: i64) -> Question {
    let options = GroupOptions {
        name: name.into(),
        namespace: "".into(),
        lifetime: Lifetime::Owned,
        strategy: Strategy::Pack,
        bundles: vec![Resources::cpus(cpus)],
        labels: Vec::new(),
    };
    Question::CreateGroup { group: G, options }
}

#[test]
fn a_worker_is_told_for_whom_it_works_and_linked_before_its_owner_hears_of_it() {
    let mut node = Node::with_cpus(1);
    let (a, job) = node.driver();
    let worker = node.lease(a, 1);
    let told =
        node.body.told.iter().position(|(to, message)| {
            *to == worker && matches!(message, FromNode::Assigned { job: of, .. } if *of == job)
        });
    let linked =
        |of| node.body.told.iter().position(|(to, message)| *to == of && matches!(message, FromNode::Linked { .. }));
    let granted = node.body.told.iter().position(|(to, message)| *to == a && is_grant(message, 1));
    assert!(told < linked(worker) && linked(worker) < linked(a) && linked(a) < granted && told.is_some());
}

#[test]
fn a_worker_that_has_served_another_job_is_passed_over() {
    let mut node = Node::with_cpus(1);
    let (a, b) = (node.driver().0, node.driver().0);
    let worker = node.lease(a, 1);
    node.says(a, ToNode::ReturnLease { number: 1 });
    assert_ne!(node.lease(b, 1), worker);
    assert_eq!(node.count(worker, |message| matches!(message, FromNode::Retire)), 1);
}

#[test]
fn an_actor_is_not_put_into_a_worker_that_owns_what_others_hold() {
    let mut node = Node::with_cpus(1);
    let (a, job) = node.driver();
    let worker = node.lease(a, 1);
    node.says(a, ToNode::ReturnLease { number: 1 });
    node.body.needed.insert(worker);
    node.says(a, create(1, job, Lifetime::Owned, ""));
    let other = node.worker_joins();
    assert_eq!(node.count(other, |message| matches!(message, FromNode::BuildActor { .. })), 1);
    assert_eq!(node.count(worker, |message| matches!(message, FromNode::BuildActor { .. })), 0);
}

/// The lease goes with its worker; its owner never gives it back.
#[test]
fn nothing_is_kept_of_a_lease_whose_worker_died() {
    let mut node = Node::with_cpus(1);
    let (a, _) = node.driver();
    let worker = node.lease(a, 1);
    assert!(node.hub.left().contains(&"leases"));
    node.dies(worker);
    assert!(!node.hub.left().contains(&"leases"));
}

#[test]
fn nothing_is_kept_of_a_request_that_comes_behind_its_own_return() {
    let mut node = Node::with_cpus(1);
    let (a, _) = node.driver();
    node.says(a, ToNode::ReturnLease { number: 1 });
    node.request_lease(a, 1);
    assert!(!node.hub.left().contains(&"leases"));
}

/// A worker that the keeper had leased died, and the job that the lease was for was kept as one that is not over.
#[test]
fn a_job_is_over_when_the_last_worker_that_the_keeper_had_for_it_died() {
    let mut node = Node::with_cpus(1);
    let (a, job) = node.driver();
    node.body.with_records.insert(a);
    node.dies(a);
    let keeper = node.body.keepers[0].0;
    node.says(keeper, ToNode::Inherited { of: a });
    node.says(keeper, ToNode::RequestLease { number: 1, job, need: one_cpu(), name: "f".into() });
    let worker = node.worker_joins();
    assert_eq!(node.hub.proc(worker).unwrap().job(), job, "it works for the job of who is dead");
    node.says(keeper, ToNode::Settled { of: a, serving: Vec::new() });
    assert!(node.hub.left().contains(&"jobs"));
    node.dies(worker);
    node.says(keeper, ToNode::LinkClosed { peer: worker });
    node.says(keeper, ToNode::Inherited { of: worker });
    assert_eq!(node.hub.left(), ["processes"], "only the keeper is there");
}

#[test]
fn a_node_that_can_fork_nothing_says_so_once_in_a_while() {
    let mut node = Node::with_cpus(1);
    let (a, _) = node.driver();
    node.body.cannot_fork = true;
    node.request_lease(a, 1);
    node.wait_ms(10_000);
    let told = |message: &FromNode| matches!(message, FromNode::Notice { kind, .. } if &**kind == "worker_not_started");
    assert_eq!(node.count(a, told), 1);
    node.body.cannot_fork = false;
    node.wait_ms(20_000);
    assert!(!node.body.starting.is_empty(), "it is tried again");
}

#[test]
fn what_can_never_run_is_told_once_for_each_need() {
    let mut node = Node::with_cpus(1);
    let (a, job) = node.driver();
    for number in 1..4 {
        let need = Need::same(Resources::cpus(5));
        node.says(a, ToNode::RequestLease { number, job, need, name: "f".into() });
    }
    let told = |message: &FromNode| matches!(message, FromNode::Notice { kind, .. } if &**kind == "infeasible");
    assert_eq!(node.count(a, told), 1);
}

#[test]
fn who_makes_an_actor_is_answered_once_also_if_it_asks_again() {
    let mut node = Node::with_cpus(1);
    let (a, job) = node.driver();
    let answers = |node: &Node| {
        node.count(a, |message| {
            matches!(message, FromNode::ActorAnswer { request: X, answer: ActorRegistration::Created })
        })
    };
    node.says(a, create(1, job, Lifetime::Owned, "bob"));
    assert_eq!(answers(&node), 1);
    node.says(a, create(1, job, Lifetime::Owned, "bob"));
    assert_eq!(answers(&node), 2, "the first answer again");
    let (b, other) = node.driver();
    node.says(b, create(2, other, Lifetime::Owned, "bob"));
    let taken =
        |message: &FromNode| matches!(message, FromNode::ActorAnswer { answer: ActorRegistration::NameTaken, .. });
    assert_eq!(node.count(b, taken), 1);
    assert!(places(&node, b).is_empty(), "it does not hear of the actor that it has not got");
}

#[test]
fn whoever_watches_an_actor_hears_where_it_is_until_it_is_dead() {
    let mut node = Node::with_cpus(1);
    let (a, job) = node.driver();
    let (b, _) = node.driver();
    node.says(a, create(1, job, Lifetime::Owned, ""));
    node.says(b, ToNode::WatchActor { actor: X });
    node.says(b, ToNode::WatchActor { actor: X });
    let worker = node.worker_joins();
    node.says(worker, ToNode::ActorBuilt { actor: X, shown_as: "A".into() });
    node.dies(worker);
    let places = places(&node, b);
    let pid = 1_000 + i32::from(worker.slot());
    assert!(
        matches!(&places[..], [
        ActorPlace::Pending, ActorPlace::Pending, ActorPlace::Alive { worker: at, pid: of }, ActorPlace::Dead(_)
    ] if *at == worker && *of == pid),
        "{places:?}"
    );
    node.says(a, create(1, job, Lifetime::Owned, ""));
    node.dies(a);
    node.dies(b);
    assert!(!node.hub.left().contains(&"actors"), "a request for it that came late is not kept either");
}

/// What workers need of a driver was kept, when the last actor of its job died after it had left, until another driver left.
#[test]
fn a_job_is_forgotten_with_the_last_actor_that_outlived_its_driver() {
    let mut node = Node::with_cpus(1);
    let (a, job) = node.driver();
    node.says(a, create(1, job, Lifetime::Detached, "lasts"));
    let worker = node.worker_joins();
    node.says(worker, ToNode::ActorBuilt { actor: X, shown_as: "A".into() });
    node.dies(a);
    assert!(node.hub.left().contains(&"jobs"));
    node.dies(worker);
    assert!(!node.hub.left().contains(&"jobs"));
}

#[test]
fn who_waits_for_a_group_hears_once_that_it_is_there() {
    let mut node = Node::with_cpus(2);
    let (a, _) = node.driver();
    let worker = node.lease(a, 1);
    node.asks(a, 1, group("", 2));
    assert!(matches!(node.answers_to(a, 1)[..], [Answer::GroupMade(made)] if made.is_registered && !made.is_there));
    node.says(a, ToNode::WatchGroup { group: G });
    node.says(worker, ToNode::WatchGroup { group: G });
    let is_there = |message: &FromNode| matches!(message, FromNode::Group { group: G, is_there: true });
    assert_eq!((node.count(a, is_there), node.count(worker, is_there)), (0, 0));
    node.says(a, ToNode::ReturnLease { number: 1 });
    assert_eq!((node.count(a, is_there), node.count(worker, is_there)), (1, 1));
    node.says(worker, ToNode::WatchGroup { group: G });
    assert_eq!(node.count(worker, is_there), 2, "one that asks later is told at once");
}

/// A task that was still running when its driver left made a group. Its job did not end again, and what the group had set aside stayed so
/// for ever.
#[test]
fn nothing_is_set_aside_for_a_job_that_is_over() {
    let mut node = Node::with_cpus(2);
    let (a, _) = node.driver();
    let worker = node.lease(a, 1);
    node.dies(a);
    node.asks(worker, 1, group("", 1));
    assert!(matches!(node.answers_to(worker, 1)[..], [Answer::GroupMade(made)] if !made.is_registered));
    assert!(!node.hub.left().contains(&"groups"));
}

#[test]
fn what_waits_in_a_group_that_is_removed_is_refused() {
    let mut node = Node::with_cpus(1);
    let (a, job) = node.driver();
    node.asks(a, 1, group("", 1));
    let at = model::Where::Bundle(model::Seat { group: G, bundle: None, captures: false });
    node.says(a, ToNode::RequestLease { number: 1, job, need: Need { at, ..one_cpu() }, name: "f".into() });
    node.says(a, ToNode::RemoveGroup(G));
    assert_eq!(node.count(a, |message| matches!(message, FromNode::LeaseRefused { number: 1, .. })), 1);
    assert!(!node.hub.left().contains(&"groups") && !node.hub.left().contains(&"leases"));
}

#[test]
fn a_lease_on_a_node_that_is_not_here_is_refused() {
    let mut node = Node::with_cpus(1);
    let (a, _) = node.driver();
    let at = model::Where::Node(model::NodeId([9; 28]));
    node.says(
        a,
        ToNode::RequestLease { number: 1, job: JobId([0; 4]), need: Need { at, ..one_cpu() }, name: "f".into() },
    );
    assert_eq!(node.count(a, |message| matches!(message, FromNode::LeaseRefused { number: 1, .. })), 1);
}
