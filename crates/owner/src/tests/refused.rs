//! What the node takes away or refuses: memory, places, groups.

use model::{Failure, GroupId, Seat, Where, WorkerExit};

use super::story::{Process, W1, W2, failed, push, request, resolved, task, value};
use crate::Effect;

fn out_of_memory(is_alone: bool) -> WorkerExit {
    WorkerExit::OutOfMemory { report: "full".into(), is_alone }
}

#[test]
fn own_4_a_run_that_was_killed_for_memory_beside_others_spends_no_retry() {
    let mut process = Process::leased();
    let a = process.submit(task().retries(1));
    for number in 1..5 {
        assert_eq!(process.died_of(W1, &out_of_memory(false), &[&a]), [request(number)]);
        assert_eq!(process.granted(number, W1), [push(&a, W1)]);
    }
    assert_eq!(process.owner.task(a.key).unwrap().retries_left, 1);
}

#[test]
fn own_4_a_run_that_was_killed_for_memory_alone_spends_a_retry() {
    let mut process = Process::leased();
    let a = process.submit(task().retries(1));
    assert_eq!(process.died_of(W1, &out_of_memory(true), &[&a]), [request(1)]);
    process.granted(1, W2);
    assert_eq!(process.died_of(W2, &out_of_memory(true), &[&a]), [resolved(&a)]);
    assert_eq!(process.value_of(&a), Some(failed(Failure::WorkerDied(out_of_memory(true)))));
}

#[test]
fn own_4_kills_for_memory_have_a_budget_of_their_own_and_none_without_retries() {
    let mut process = Process::leased();
    process.owner.set_oom_retries(1);
    let a = process.submit(task().retries(5));
    assert_eq!(process.died_of(W1, &out_of_memory(false), &[&a]), [request(1)]);
    process.granted(1, W1);
    assert_eq!(process.died_of(W1, &out_of_memory(false), &[&a]), [resolved(&a)]);
    process.owner.set_oom_retries(-1);
    let b = process.submit(task());
    process.granted(2, W2);
    assert_eq!(process.died_of(W2, &out_of_memory(false), &[&b]), [resolved(&b)]);
}

#[test]
fn tasks_whose_lease_is_refused_fail_and_others_go_on() {
    let mut process = Process::new();
    let (a, b) = (process.submit(task()), process.submit(task()));
    let other = process.submit(task().cpus(2));
    let number = match &other.effects[..] {
        [Effect::RequestLease { number, .. }] => *number,
        effects => panic!("{effects:?}"),
    };
    let effects = process.when(|owner, _, out| owner.on_lease_refused(0, &Failure::GroupRemoved, out));
    assert_eq!(effects, [resolved(&a), resolved(&b)]);
    assert_eq!(process.value_of(&a), Some(failed(Failure::GroupRemoved)));
    assert_eq!(process.when(|owner, _, out| owner.on_lease_refused(0, &Failure::GroupRemoved, out)), []);
    assert_eq!(process.granted(number, W1), [push(&other, W1)]);
}

/// Each group has needs of its own: the pool of every one that had ever been was kept.
#[test]
fn a_thousand_groups_leave_one_pool() {
    let mut process = Process::new();
    for round in 0..1_000_u16 {
        let mut id = [0; 18];
        id[..2].copy_from_slice(&round.to_le_bytes());
        let at = Where::Bundle(Seat { group: GroupId(id), bundle: None, captures: false });
        let a = process.submit(task().at(at));
        let [Effect::RequestLease { number, .. }] = a.effects[..] else { panic!("{:?}", a.effects) };
        if round % 2 == 0 {
            process.granted(number, W1);
            assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a)]);
            process.after_ms(10_000);
        } else {
            process.when(|owner, _, out| owner.on_lease_refused(number, &Failure::GroupRemoved, out));
        }
        process.dropped(&a);
    }
    assert_eq!((process.owner.pools.len(), process.owner.pool_of.len()), (1, 0));
}

#[test]
fn a_promise_is_kept_alive_until_it_is_kept() {
    let mut process = Process::new();
    let id = model::ObjectId([1; 28]);
    let slot = process.owner.on_promised(id);
    assert_eq!(process.dropped(slot), [], "somebody will still want to say what it is");
    let effects = process.when(|owner, _, out| owner.on_promise_kept(slot, value(1), out));
    assert_eq!(effects, [Effect::Resolved(slot), Effect::Freed { slot, bulk: None }]);
    let slot = process.owner.on_promised(id);
    process.when(|owner, _, out| owner.on_promise_kept(slot, value(1), out));
    assert_eq!(process.dropped(slot), [Effect::Freed { slot, bulk: None }]);
}
