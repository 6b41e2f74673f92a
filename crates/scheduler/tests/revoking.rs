//! Leases are asked back when somebody else waits, and only as many as are fair and help.

mod story;

use scheduler::{Effect, Event};
use story::{A, B, Node, actor, cpus, granted, lease, options, tasks, with, worker};

const C: model::ProcId = model::ProcId::new(1, 102, 0);

fn ask(owner: model::ProcId, count: u64) -> impl Iterator<Item = Event> {
    (1..=count).map(move |number| tasks(lease(owner, number), cpus(1)))
}

#[test]
fn owners_come_to_hold_about_the_same() {
    let mut node = Node::cpus(4);
    node.given(ask(A, 10));
    assert_eq!(node.given(ask(B, 10)), [Effect::Revoke(lease(A, 4)), Effect::Revoke(lease(A, 3))]);
    assert_eq!(node.when(Event::LeaseReturned(lease(A, 3))), [granted(lease(B, 1), 3)]);
    assert_eq!(node.when(Event::LeaseReturned(lease(A, 4))), [granted(lease(B, 2), 4)]);
    assert_eq!(node.after_ms(60_000), [], "two and two");
}

#[test]
fn the_owner_that_holds_most_is_asked() {
    let mut node = Node::cpus(5);
    node.given(ask(A, 2));
    node.given(ask(B, 3));
    assert_eq!(node.given(ask(C, 1)), [Effect::Revoke(lease(B, 3))]);
    assert_eq!(node.given([tasks(lease(C, 2), cpus(1))]), [], "C will have one, nobody has three then");
}

#[test]
fn the_only_lease_of_an_owner_is_asked_for_only_by_one_that_holds_none() {
    let mut node = Node::cpus(2);
    node.given(ask(A, 1));
    node.given(ask(B, 2));
    assert_eq!(node.after_ms(60_000), [], "one each");
    assert_eq!(node.given(ask(C, 1)).len(), 1, "C holds none: they take turns");
}

#[test]
fn a_lease_is_asked_for_once() {
    let mut node = Node::cpus(1);
    node.given(ask(A, 1));
    assert_eq!(node.given(ask(B, 1)), [Effect::Revoke(lease(A, 1))]);
    assert_eq!(node.given(ask(B, 1)), [], "a repeat");
    assert_eq!(node.given([tasks(lease(B, 2), cpus(1)), Event::Tick]), []);
    assert_eq!(node.given([tasks(lease(A, 1), cpus(1))]), [granted(lease(A, 1), 1)], "a repeat of the other side");
    assert_eq!(node.after_ms(60_000), []);
}

#[test]
fn an_owner_gives_up_what_it_holds_of_one_shape_for_another() {
    let mut node = Node::cpus(2);
    node.given(ask(A, 2));
    let both = [Effect::Revoke(lease(A, 2)), Effect::Revoke(lease(A, 1))];
    assert_eq!(node.when(tasks(lease(A, 3), cpus(2))), both, "one is not enough");
    node.given([Event::LeaseReturned(lease(A, 1))]);
    assert_eq!(node.when(Event::LeaseReturned(lease(A, 2))), [granted(lease(A, 3), 2)]);
}

#[test]
fn several_are_asked_for_at_most_every_ten_milliseconds() {
    let mut node = Node::cpus(2);
    node.given(ask(A, 4));
    assert_eq!(node.when(tasks(lease(B, 1), cpus(2))).len(), 2);
    for number in [1, 2] {
        let effects = node.when(Event::LeaseReturned(lease(A, number)));
        assert_eq!(effects, [granted(lease(A, number + 2), number as u16)], "the smaller goes first again");
    }
    assert_eq!(node.scheduler.next_tick(node.now), Some(node.now.plus_ms(10)));
    assert_eq!(node.after_ms(10).len(), 2);
}

#[test]
fn nothing_is_asked_for_that_would_not_help() {
    let mut node = Node::new(options(with(cpus(2), "GPU", 10_000)));
    let gpu = with(cpus(0), "GPU", 10_000);
    let mut actor_with_gpu = tasks(lease(A, 1), gpu.clone());
    if let Event::LeaseRequested { kind, .. } = &mut actor_with_gpu {
        *kind = scheduler::LeaseKind::Actor;
    }
    node.given([actor_with_gpu, tasks(lease(A, 2), cpus(1))]);
    assert_eq!(node.given([tasks(lease(B, 1), gpu)]), [], "the actor keeps its GPU for life");
}

#[test]
fn an_actor_that_waits_gets_a_place_from_idle_leases() {
    let mut node = Node::cpus(2);
    node.given(ask(A, 2));
    assert_eq!(node.when(actor(lease(A, 8))), [Effect::Revoke(lease(A, 2))]);
    let effects = node.given([Event::LeaseReturned(lease(A, 2)), actor(lease(A, 9))]);
    assert_eq!(effects, [granted(lease(A, 8), 2), granted(lease(A, 9), 3)], "it needs its core only to be placed");
}

#[test]
fn a_blocked_worker_is_not_asked_for() {
    let mut node = Node::new(options(with(cpus(1), "licence", 10_000)));
    let need = with(cpus(1), "licence", 10_000);
    node.given([tasks(lease(A, 1), need.clone()), Event::WorkerBlocked(worker(1))]);
    assert_eq!(node.given([tasks(lease(B, 1), need)]), []);
    assert_eq!(node.when(Event::WorkerUnblocked(worker(1))), [Effect::Revoke(lease(A, 1))]);
}

#[test]
fn a_shape_that_was_capped_asks_again_as_soon_as_it_is_not_full() {
    let mut node = Node::cpus(1);
    node.given([tasks(lease(A, 1), cpus(1)), Event::WorkerBlocked(worker(1))]);
    node.given([tasks(lease(A, 2), cpus(1)), tasks(lease(worker(1), 1), cpus(1)), Event::WorkerUnblocked(worker(1))]);
    let effects = node.given([Event::LeaseReturned(lease(A, 1))]);
    assert_eq!(effects, [Effect::Revoke(lease(worker(1), 1))], "what the first one left idle is in the way");
}

/// Four of four cores are lent by a worker that waits and used by three others; then it runs again.
fn overdrawn() -> Node {
    let mut node = Node::cpus(4);
    node.given([tasks(lease(A, 1), cpus(4)), Event::WorkerBlocked(worker(1))]);
    node.given([tasks(lease(B, 1), cpus(1)), tasks(lease(C, 1), cpus(1)), tasks(lease(A, 2), cpus(2))]);
    assert_eq!(node.given([Event::WorkerUnblocked(worker(1))]), []);
    assert_eq!(node.free_cpus(), -4.0);
    node
}

#[test]
fn while_more_is_held_than_there_is_one_that_holds_as_many_may_ask_too() {
    let mut node = overdrawn();
    let asked = [Effect::Revoke(lease(C, 1)), Effect::Revoke(lease(A, 1))];
    assert_eq!(node.when(tasks(lease(B, 2), cpus(1))), asked, "one each would be fair, but nobody can be served");
}

#[test]
fn while_more_is_held_than_there_is_what_comes_back_helps_even_if_it_is_not_enough() {
    let holds_a_core = Event::LeaseRequested {
        lease: lease(A, 9),
        job: model::JobId([1; 4]),
        kind: scheduler::LeaseKind::Actor,
        need: model::Need::same(cpus(1)),
    };
    for is_overdrawn in [false, true] {
        let mut node = Node::cpus(2);
        node.given([holds_a_core.clone(), tasks(lease(A, 1), with(cpus(1), "CPU", 9_000))]);
        if is_overdrawn {
            node.given([
                Event::WorkerBlocked(worker(2)),
                tasks(lease(B, 1), cpus(1)),
                Event::WorkerUnblocked(worker(2)),
            ]);
        }
        let asked = node.when(tasks(lease(C, 1), cpus(2)));
        assert_eq!(asked.len(), if is_overdrawn { 2 } else { 0 }, "the actor's core never comes back");
    }
}
