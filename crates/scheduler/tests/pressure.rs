//! Low memory as stories: given looks, when another one, then this verdict.

mod story;

use model::ProcId;
use scheduler::{Busy, Event, Look, Relief, Verdict, Watch, Work};
use story::{A, B, Node, cpus, granted, lease, tasks, worker};

fn busy(slot: u16, work: Work, number: u32) -> Busy {
    Busy { worker: worker(slot), work, number }
}

fn look(watch: &mut Watch, used: u64, busy: &[Busy]) -> Verdict {
    watch.look(&Look { used, total: 100, stalled_percent: None, busy })
}

fn kill(slot: u16) -> Verdict {
    Verdict { is_low: true, relief: Relief::Kill { worker: worker(slot), is_alone: false } }
}

const FINE: Verdict = Verdict { is_low: false, relief: Relief::Nothing };
const MAKE_ROOM: Verdict = Verdict { is_low: true, relief: Relief::MakeRoom };
const WAIT: Verdict = Verdict { is_low: true, relief: Relief::Nothing };

#[test]
fn mem_1_room_is_made_before_anyone_is_killed() {
    let mut watch = Watch::new(0.95);
    let two = [busy(1, Work::Retriable, 1), busy(2, Work::Retriable, 1)];
    assert_eq!(look(&mut watch, 94, &two), FINE);
    assert_eq!(look(&mut watch, 95, &two), MAKE_ROOM);
    assert_eq!(look(&mut watch, 90, &two), FINE, "that was enough");
    assert_eq!(look(&mut watch, 95, &two), MAKE_ROOM);
    assert_eq!(look(&mut watch, 95, &two), kill(2));
}

#[test]
fn mem_2_the_next_one_is_killed_when_the_last_one_is_gone() {
    let mut watch = Watch::new(0.5);
    let all = [busy(1, Work::Retriable, 1), busy(2, Work::Retriable, 1), busy(3, Work::Retriable, 1)];
    look(&mut watch, 60, &all);
    assert_eq!(look(&mut watch, 60, &all), kill(3));
    assert_eq!(look(&mut watch, 60, &all), WAIT, "it is still there");
    assert_eq!(look(&mut watch, 60, &all[..2]), kill(2));
}

#[test]
fn mem_3_retriable_tasks_go_before_others_and_tasks_before_actors() {
    let mut watch = Watch::new(0.5);
    let mut all = vec![busy(1, Work::Retriable, 1), busy(2, Work::Final, 1), busy(3, Work::Actor, 1)];
    all.push(busy(4, Work::Actor, 1));
    look(&mut watch, 60, &all);
    for (slot, left) in [(1, 3), (2, 2), (4, 1)] {
        assert_eq!(look(&mut watch, 60, &all), kill(slot));
        all.retain(|one| one.worker != worker(slot));
        assert_eq!(all.len(), left);
    }
    let last = Relief::Kill { worker: worker(3), is_alone: true };
    assert_eq!(look(&mut watch, 60, &all), Verdict { is_low: true, relief: last });
    assert_eq!(look(&mut watch, 60, &[]), WAIT, "nobody is left");
}

#[test]
fn mem_3_the_newest_is_what_began_last_and_not_who_was_leased_last() {
    let mut watch = Watch::new(0.5);
    look(&mut watch, 10, &[busy(1, Work::Retriable, 1), busy(2, Work::Retriable, 1)]);
    let later = [busy(1, Work::Retriable, 2), busy(2, Work::Retriable, 1)];
    look(&mut watch, 60, &later);
    assert_eq!(look(&mut watch, 60, &later), kill(1));
}

#[test]
fn mem_4_what_has_just_begun_is_spared() {
    let mut watch = Watch::new(0.5);
    let one = [busy(1, Work::Final, 1)];
    look(&mut watch, 60, &one);
    let both = [busy(1, Work::Final, 1), busy(2, Work::Retriable, 1)];
    assert_eq!(look(&mut watch, 60, &both), kill(1));
    assert_eq!(look(&mut watch, 60, &both[1..]).relief, Relief::Kill { worker: worker(2), is_alone: true });
    let next = [busy(3, Work::Retriable, 1)];
    assert_eq!(look(&mut watch, 60, &next), WAIT);
}

#[test]
fn programs_that_stand_still_make_memory_low_earlier() {
    let mut watch = Watch::new(0.9);
    let stalled = |percent| Look { used: 87, total: 100, stalled_percent: Some(percent), busy: &[] };
    assert_eq!(watch.look(&stalled(5.0)), FINE);
    assert_eq!(watch.look(&stalled(50.0)), MAKE_ROOM);
    let roomy = Look { used: 60, total: 100, stalled_percent: Some(99.0), busy: &[] };
    assert_eq!(watch.look(&roomy), FINE, "a stall with much memory left has another cause");
}

#[test]
fn while_memory_is_low_nothing_starts_beside_what_runs() {
    let mut node = Node::cpus(3);
    node.given([tasks(lease(A, 1), cpus(1))]);
    assert_eq!(node.when(Event::Pressure { is_low: true }), []);
    assert_eq!(node.given([tasks(lease(B, 1), cpus(1))]), []);
    assert_eq!(node.given([Event::Pressure { is_low: false }]), [granted(lease(B, 1), 2)]);
}

#[test]
fn while_memory_is_low_one_may_run_that_is_alone() {
    let mut node = Node::cpus(3);
    node.when(Event::Pressure { is_low: true });
    assert_eq!(node.given([tasks(lease(A, 1), cpus(1))]), [granted(lease(A, 1), 1)]);
    assert_eq!(node.given([tasks(lease(A, 2), cpus(1))]), []);
    assert_eq!(node.given([Event::LeaseReturned(lease(A, 1))]), [granted(lease(A, 2), 1)]);
    let child = lease(ProcId::new(1, 1, 0), 1);
    assert_eq!(node.given([tasks(child, cpus(1))]), []);
    assert_eq!(node.given([Event::WorkerBlocked(worker(1))]), [granted(child, 2)], "who waits does not run");
}
