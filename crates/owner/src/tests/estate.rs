//! A process dies: what its heir and those who borrowed from it do.

use model::{Failure, ObjectId, ProcId, TaskId};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::story::{ACTOR, Process, W1, W2, exit, failed, freed, push, resolved, value, worker};
use crate::{ActorNews, Effect, Heirloom, Legacy, Slot, Spec, Stage, Target};

const GONE: ProcId = worker(8);
const HEIR: ProcId = worker(9);

fn replaced(process: &mut Process, counted: &[(ObjectId, i32)]) -> (Legacy, Vec<Effect>) {
    let counted: FxHashMap<ObjectId, i32> = counted.iter().copied().collect();
    let mut legacy = Legacy::default();
    let effects = process.when(|owner, _, out| legacy = owner.on_owner_replaced(GONE, HEIR, counted, out));
    (legacy, effects)
}

fn borrowed(process: &mut Process, shares: i32) -> (Slot, ObjectId) {
    let id = ObjectId::of(process.next_id(), 1);
    (process.owner.on_borrowed(id, Some(GONE), shares), id)
}

fn let_go(object: ObjectId, count: i32) -> Effect {
    Effect::Borrowed { owner: HEIR, object, borrower: HEIR, count }
}

/// A task of the dead process's, as it was submitted there; and what it makes.
fn inherited(process: &mut Process, target: Target, retries: i32, deps: &[Slot]) -> (model::TaskKey, Slot) {
    let id: TaskId = process.next_id();
    let made = process.owner.on_inherited(ObjectId::of(id, 1));
    let template = super::story::template(target, retries);
    let spec = Spec { id, template, target, payload: Vec::new(), deps: deps.into(), contains: SmallVec::new() };
    let returns = smallvec![made];
    let heirloom = Heirloom { spec, filed: None, returns, retries_left: retries, oom_retries_left: 0 };
    let key = process.owner.on_task_inherited(heirloom);
    (key, made)
}

#[test]
fn whoever_borrowed_turns_to_the_heir_with_one_share() {
    let mut process = Process::new();
    let (slot, id) = borrowed(&mut process, 5);
    let (legacy, effects) = replaced(&mut process, &[]);
    assert_eq!((legacy.held, legacy.lent, effects), (vec![id], vec![], vec![]));
    assert_eq!(process.dropped(slot), [let_go(id, -1), freed(slot)]);
}

#[test]
fn what_was_asked_for_is_asked_for_again() {
    let mut process = Process::new();
    let (slot, id) = borrowed(&mut process, 1);
    process.when(|owner, _, out| owner.on_needed(slot, out));
    let (_, effects) = replaced(&mut process, &[]);
    assert_eq!(effects, [Effect::Want { owner: HEIR, object: id }]);
}

/// A share that the heir has counted before the death was known here is neither told of again nor forgotten.
#[test]
fn what_the_heir_has_counted_already_is_not_told_again() {
    let mut process = Process::new();
    let (slot, id) = borrowed(&mut process, 2);
    let dropped = ObjectId::of(process.next_id(), 1);
    let (legacy, effects) = replaced(&mut process, &[(id, 2), (dropped, 1)]);
    assert_eq!(legacy.held, []);
    assert_eq!(effects, [let_go(dropped, -1)], "it was let go of by a word to the dead");
    assert_eq!(process.dropped(slot), [let_go(id, -2), freed(slot)]);
}

#[test]
fn what_the_dead_had_borrowed_from_us_the_heir_has() {
    let mut process = Process::new();
    let slot = process.put(&[]);
    process.owner.on_escape(slot);
    let id = process.owner.object(slot).unwrap().id;
    process.when(|owner, _, out| owner.on_shares(&id, GONE, 3, out));
    let (legacy, _) = replaced(&mut process, &[]);
    assert_eq!(legacy.lent, [(id, 3)]);
    assert_eq!(process.dropped(slot), []);
    assert_eq!(process.when(|owner, _, out| owner.on_shares(&id, HEIR, -3, out)), [freed(slot)]);
}

#[test]
fn the_heir_gives_back_what_nothing_of_its_needs() {
    let mut process = Process::new();
    let id = ObjectId::of(process.next_id(), 1);
    let effects = process.when(|owner, _, out| owner.on_lent(id, W1, 2, out));
    assert_eq!(effects[0], Effect::Borrowed { owner: W1, object: id, borrower: W1, count: -2 });
    let slot = process.owner.on_borrowed(id, Some(W1), 0);
    assert_eq!(process.when(|owner, _, out| owner.on_lent(id, W1, 2, out)), []);
    assert_eq!(process.dropped(slot).len(), 2, "its owner is told, and it is freed");
}

#[test]
fn a_value_that_the_heir_had_borrowed_becomes_its_own() {
    let mut process = Process::new();
    let id = ObjectId::of(process.next_id(), 1);
    let slot = process.owner.on_borrowed(id, Some(GONE), 1);
    assert_eq!(process.owner.on_inherited(id), slot);
    let effects = process.when(|owner, _, out| owner.on_value_inherited(slot, value(4), SmallVec::new(), out));
    assert_eq!(effects, [resolved(slot)]);
    assert_eq!(process.dropped(slot), []);
    assert_eq!(process.dropped(slot), [freed(slot)], "nobody is told: it is our own");
}

#[test]
fn a_task_that_somebody_runs_is_answered_to_the_heir() {
    let mut process = Process::new();
    let (key, made) = inherited(&mut process, Target::Pool, 0, &[]);
    assert!(process.owner.is_orphan_idle(key));
    process.owner.on_orphan_runs(key, W1, &mut Vec::new());
    assert_eq!(process.owner.adopted_by(key), Some(W1));
    assert_eq!(process.replied(key, W1, value(3)), [resolved(made)]);
    assert_eq!(process.owner.tasks_pending(), 0);
}

#[test]
fn own_4_a_task_that_runs_counts_as_started_when_its_worker_dies() {
    let mut process = Process::new();
    let (never, made) = inherited(&mut process, Target::Pool, 0, &[]);
    let (again, _) = inherited(&mut process, Target::Pool, 1, &[]);
    process.owner.on_orphan_runs(never, W1, &mut Vec::new());
    process.owner.on_orphan_runs(again, W1, &mut Vec::new());
    process.died(W1, &[]);
    assert_eq!(process.value_of(made), Some(failed(Failure::WorkerDied(exit()))));
    let task = process.owner.task(again).unwrap();
    assert_eq!((task.stage, task.retries_left), (Stage::Queued, 0));
}

#[test]
fn own_4_a_task_that_nobody_runs_costs_a_retry_only_if_it_was_sent() {
    let mut process = Process::leased();
    let (unsent, _) = inherited(&mut process, Target::Pool, 0, &[]);
    let effects = process.when(|owner, _, out| owner.on_orphan_idle(unsent, false, out));
    assert_eq!(effects, [push(unsent, W1)]);
    let (sent, made) = inherited(&mut process, Target::Pool, 0, &[]);
    process.when(|owner, _, out| owner.on_orphan_idle(sent, true, out));
    assert_eq!(process.value_of(made), Some(failed(Failure::OwnerDied)));
    let (again, _) = inherited(&mut process, Target::Pool, 2, &[]);
    process.when(|owner, _, out| owner.on_orphan_idle(again, true, out));
    assert_eq!(process.owner.task(again).unwrap().retries_left, 1);
}

#[test]
fn a_task_whose_values_nobody_holds_ends() {
    let mut process = Process::new();
    let (key, made) = inherited(&mut process, Target::Pool, 0, &[]);
    assert!(!process.owner.on_orphan_unwanted(key, &mut Vec::new()), "the estate still holds it");
    process.dropped(made);
    let mut is_over = false;
    process.when(|owner, _, out| is_over = owner.on_orphan_unwanted(key, out));
    assert!(is_over && process.owner.tasks_pending() == 0 && process.owner.objects_kept() == 0);
}

#[test]
fn what_an_inherited_task_needs_is_held_until_it_ends() {
    let mut process = Process::new();
    let id = ObjectId::of(process.next_id(), 1);
    let argument = process.owner.on_inherited(id);
    process.owner.on_value_inherited(argument, value(1), SmallVec::new(), &mut Vec::new());
    let (key, _) = inherited(&mut process, Target::Pool, 0, &[argument]);
    process.dropped(argument);
    assert!(process.owner.object(argument).is_some());
    process.owner.on_orphan_runs(key, W2, &mut Vec::new());
    process.replied(key, W2, value(1));
    assert!(process.owner.object(argument).is_none());
}

#[test]
fn a_call_on_an_actor_fails_with_it_if_it_may_not_run_again() {
    let mut process = Process::calling();
    let (key, made) = inherited(&mut process, Target::Actor(ACTOR), 0, &[]);
    process.owner.on_orphan_runs(key, W1, &mut Vec::new());
    process.when(|owner, _, out| {
        owner.on_worker_died(W1, &exit(), |ticket| ticket == crate::ADOPTED, out);
    });
    process.news(1, ActorNews::Restarting);
    let unavailable = Failure::ActorUnavailable { actor: ACTOR, may_have_run: true };
    assert_eq!(process.value_of(made), Some(failed(unavailable)));
}

#[test]
fn an_object_that_nothing_makes_fails() {
    let mut process = Process::new();
    let id = ObjectId::of(process.next_id(), 1);
    let slot = process.owner.on_inherited(id);
    process.when(|owner, _, out| owner.on_nothing_makes(slot, out));
    assert_eq!(process.value_of(slot), Some(failed(Failure::OwnerDied)));
}

/// The heir runs a task again whose worker died before all had testified. Then nobody wanted what it makes, and it ended though it was with a
/// worker of the heir's own, whose place it kept.
#[test]
fn own_3_a_task_that_the_heir_runs_by_now_is_not_ended_as_an_orphan() {
    let mut process = Process::leased();
    let (key, made) = inherited(&mut process, Target::Pool, 1, &[]);
    process.owner.on_orphan_runs(key, W2, &mut Vec::new());
    assert_eq!(process.died(W2, &[]), [push(key, W1)]);
    process.dropped(made);
    let mut is_over = true;
    process.when(|owner, _, out| is_over = owner.on_orphan_unwanted(key, out));
    assert!(!is_over && process.owner.is_under(key, W1));
}

/// The actor was dead, and its worker not yet: the call was noted with an actor that never answers.
#[test]
fn own_1_a_call_that_is_with_a_dead_actor_fails() {
    let mut process = Process::calling();
    let (key, made) = inherited(&mut process, Target::Actor(ACTOR), 0, &[]);
    process.news(0, super::story::crashed());
    process.when(|owner, _, out| owner.on_orphan_runs(key, W1, out));
    assert!(matches!(process.value_of(made), Some(crate::Value::Failed(_))));
}

/// A task that has ended holds what others own and traces what is its owner's: an argument that changes its owner changes what it counts as.
#[test]
fn lin_2_an_argument_that_is_inherited_later_is_traced() {
    let mut process = Process::new();
    let argument = ObjectId::of(process.next_id(), 1);
    let named = process.owner.on_named(argument, Some(GONE), 0);
    let id = process.next_id();
    let made = process.owner.on_inherited(ObjectId::of(id, 1));
    let large = super::story::stored(0, 1 << 20);
    process.owner.on_value_inherited(made, large, SmallVec::new(), &mut Vec::new());
    let template = super::story::template(Target::Pool, 1);
    let (payload, contains) = (Vec::new(), SmallVec::new());
    let spec = Spec { id, template, target: Target::Pool, payload, deps: smallvec![named], contains };
    let heirloom = Heirloom { spec, filed: None, returns: smallvec![made], retries_left: 1, oom_retries_left: 0 };
    process.when(|owner, _, out| owner.on_made_inherited(heirloom, out));
    process.when(|owner, _, out| {
        owner.on_inherited(argument);
        owner.on_value_inherited(named, value(1), SmallVec::new(), out);
    });
    process.dropped(named);
    process.dropped(made);
    assert_eq!(process.owner.objects_kept(), 0);
}

/// The heir gives files that it inherits its own name, so that a call which was sent before may not find its argument there.
#[test]
fn a_call_that_does_not_find_an_argument_where_its_dead_owner_said_runs_again() {
    let mut process = Process::leased();
    let argument = ObjectId::of(process.next_id(), 1);
    let slot = process.owner.on_inherited(argument);
    process.owner.on_value_inherited(slot, super::story::stored(0, 1 << 20), SmallVec::new(), &mut Vec::new());
    let (key, _) = inherited(&mut process, Target::Pool, 0, &[slot]);
    process.owner.on_orphan_runs(key, W2, &mut Vec::new());
    let effects = process.missed(key, W2, "gone");
    assert_eq!(effects, [push(key, W1)]);
}
