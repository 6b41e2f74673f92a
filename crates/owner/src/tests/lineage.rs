//! Large values that are lost are made again.

use model::{Bulk, Failure, Place, TaskKey};

use super::story::{ACTOR, Made, Process, W1, W2, call, push, resolved, task, value};
use crate::{ActorNews, Effect, Slot, Value};

fn large(serial: u64) -> Value {
    Value::bulk(bulk(serial))
}

fn bulk(serial: u64) -> Bulk {
    Bulk::Stored(Place { offset: 64 * serial, length: 8, serial })
}

fn lost(process: &mut Process, slot: impl Into<Slot>, serial: u64) -> Vec<Effect> {
    let slot = slot.into();
    process.when(|owner, _, out| assert!(owner.on_lost(&[(slot, bulk(serial))], "the disk broke", out)))
}

/// The task that is under way to make the object.
fn maker(process: &Process, slot: impl Into<Slot>) -> TaskKey {
    process.owner.object(slot.into()).unwrap().maker().unwrap()
}

fn is_lost(process: &Process, slot: impl Into<Slot>, text: &str) -> bool {
    match process.value_of(slot) {
        Some(Value::Failed(failure)) => matches!(&*failure, Failure::Lost(why) if why.contains(text)),
        _ => false,
    }
}

/// A chain of tasks of which each needs the one before. The n-th has made the value with serial n, from one.
fn chain(process: &mut Process, count: u64) -> Vec<Made> {
    let mut made: Vec<Made> = Vec::new();
    for serial in 1..=count {
        let next = made.last().map_or_else(task, |before| task().needs(before)).retries(3);
        let next = process.submit(next);
        process.replied(&next, W1, large(serial));
        made.push(next);
    }
    made
}

#[test]
fn lin_1_a_lost_value_is_made_again() {
    let mut process = Process::leased();
    let a = &chain(&mut process, 1)[0];
    let effects = lost(&mut process, a, 1);
    let again = maker(&process, a);
    assert_eq!(effects[..2], [Effect::Unresolved(a.slot()), Effect::Discarded(bulk(1))]);
    assert_eq!(effects[2..], [push(again, W1)]);
    assert_eq!(process.replied(again, W1, large(2)), [resolved(a)]);
    assert_eq!(process.value_of(a), Some(large(2)));
    assert!(!process.owner.on_lost(&[(a.slot(), bulk(1))], "", &mut Vec::new()), "that was long ago");
}

#[test]
fn lin_1_retries_are_spent_and_then_it_is_lost_for_good() {
    let mut process = Process::leased();
    let a = process.submit(task().retries(1));
    process.replied(&a, W1, large(1));
    lost(&mut process, &a, 1);
    process.replied(maker(&process, &a), W1, large(2));
    let effects = lost(&mut process, &a, 2);
    assert_eq!(effects.last(), Some(&resolved(&a)));
    assert!(is_lost(&process, &a, "no retries left") && is_lost(&process, &a, "the disk broke"));
    let never = process.submit(task().retries(0));
    process.replied(&never, W1, large(3));
    lost(&mut process, &never, 3);
    assert!(is_lost(&process, &never, "no task can make it again"), "it may not run again");
}

#[test]
fn lin_1_what_was_put_cannot_be_made_again() {
    let mut process = Process::leased();
    let id = model::ObjectId::of(process.next_id(), 1);
    let slot = process.owner.on_put(id, large(1), &[]);
    lost(&mut process, slot, 1);
    assert!(is_lost(&process, slot, "no task can make it again"));
}

#[test]
fn lin_2_arguments_that_were_let_go_of_are_made_again_first() {
    let mut process = Process::leased();
    let made = chain(&mut process, 4);
    for (at, before) in made[..3].iter().enumerate() {
        let effects = process.dropped(before);
        assert_eq!(effects, [Effect::Discarded(bulk(at as u64 + 1)), Effect::Unresolved(before.slot())], "bytes only");
    }
    assert_eq!(process.owner.objects_kept(), 4);
    lost(&mut process, &made[3], 4);
    for (at, each) in made.iter().enumerate() {
        assert_eq!(process.owner.tasks_pending(), 4 - at, "one after the other");
        process.replied(maker(&process, each), W1, large(10 + at as u64));
    }
    assert_eq!(process.value_of(&made[3]), Some(large(13)));
    assert_eq!(process.value_of(&made[0]), None, "it is thin again");
    process.dropped(&made[3]);
    assert_eq!((process.owner.objects_kept(), process.owner.tasks_pending()), (0, 0));
}

#[test]
fn lin_2_a_small_argument_keeps_its_value() {
    let mut process = Process::leased();
    let small = process.submit(task());
    process.replied(&small, W1, value(7));
    let a = process.submit(task().needs(&small).retries(3));
    process.replied(&a, W1, large(1));
    assert_eq!(process.dropped(&small), []);
    lost(&mut process, &a, 1);
    assert_eq!(process.owner.tasks_pending(), 1, "only the one that made it runs again");
    process.replied(maker(&process, &a), W1, large(2));
    process.dropped(&a);
    assert_eq!(process.owner.objects_kept(), 0);
}

#[test]
fn lin_1_a_value_that_needs_something_put_and_let_go_of_is_lost() {
    let mut process = Process::leased();
    let id = model::ObjectId::of(process.next_id(), 1);
    let put = process.owner.on_put(id, large(1), &[]);
    let a = process.submit(task().needs(put).retries(3));
    process.replied(&a, W1, large(2));
    process.dropped(put);
    lost(&mut process, &a, 2);
    let Some(Value::Failed(failure)) = process.value_of(&a) else { panic!("it is not lost") };
    assert!(matches!(&*failure, Failure::Argument { cause, .. } if matches!(&**cause, Failure::Lost(_))));
}

/// The lost value let go of what it named first, and that was what its task needed.
#[test]
fn lin_1_what_only_a_lost_value_holds_is_there_to_make_it_again() {
    let mut process = Process::leased();
    let put = process.put_value(large(1), &[]);
    let a = process.submit(task().needs(put).retries(-1));
    process.when(|owner, now, out| {
        owner.on_escape(put);
        let inner = owner.on_contained(owner.object(put).unwrap().id, None, 0);
        let reply = smallvec::smallvec![(large(2), smallvec::smallvec![inner])];
        owner.on_replied(now, a.key, W1, reply, out);
    });
    process.dropped(put);
    lost(&mut process, &a, 2);
    let again = maker(&process, &a);
    process.replied(again, W1, large(3));
    assert_eq!(process.value_of(&a), Some(large(3)));
}

/// Who waited for the value that was made again failed at once for want of another, and let go of it before it had a lineage.
#[test]
fn lin_1_what_a_failing_task_lets_go_of_at_once_can_be_made_again() {
    let mut process = Process::leased();
    let again_and_again = process.submit(task().retries(-1));
    process.replied(&again_and_again, W1, large(1));
    let once = process.submit(task().retries(0));
    process.replied(&once, W1, large(2));
    let user = process.submit(task().needs(&again_and_again).needs(&once).returns(2).retries(-1));
    let reply = (3..5).map(|serial| (large(serial), Default::default())).collect();
    process.when(|owner, now, out| owner.on_replied(now, user.key, W1, reply, out));
    process.dropped(&again_and_again);
    process.dropped(&once);
    lost(&mut process, user.slots[0], 3);
    let again = maker(&process, &again_and_again);
    process.replied(again, W1, large(5));
    assert!(matches!(process.value_of(user.slots[0]), Some(Value::Failed(_))));
    assert_eq!(process.value_of(&again_and_again), None, "thin, and not lost");
}

#[test]
fn shared_upstream_runs_once() {
    let mut process = Process::leased();
    let root = &chain(&mut process, 1)[0];
    let leaves: Vec<Made> = (2..5)
        .map(|serial| {
            let leaf = process.submit(task().needs(root).retries(3));
            process.replied(&leaf, W1, large(serial));
            leaf
        })
        .collect();
    process.dropped(root);
    let lost: Vec<(Slot, Bulk)> = leaves.iter().zip(2..).map(|(leaf, serial)| (leaf.slot(), bulk(serial))).collect();
    process.when(|owner, _, out| assert!(owner.on_lost(&lost, "", out)));
    assert_eq!(process.owner.tasks_pending(), 4);
    process.replied(maker(&process, root), W1, large(9));
    for leaf in &leaves {
        process.replied(maker(&process, leaf), W1, large(20));
    }
    assert_eq!(process.owner.tasks_pending(), 0);
}

#[test]
fn of_several_values_only_the_lost_one_is_replaced() {
    let mut process = Process::leased();
    let a = process.submit(task().returns(3).retries(3));
    let reply = |first: u64| (first..first + 3).map(|serial| (large(serial), Default::default())).collect();
    process.when(|owner, now, out| owner.on_replied(now, a.key, W1, reply(1), out));
    process.dropped(a.slots[2]);
    lost(&mut process, a.slots[0], 1);
    let again = maker(&process, a.slots[0]);
    let effects = process.when(|owner, now, out| owner.on_replied(now, again, W1, reply(11), out));
    let unneeded = [Effect::Discarded(bulk(12)), Effect::Discarded(bulk(13))];
    assert!(unneeded.iter().all(|effect| effects.contains(effect)), "{effects:?}");
    assert_eq!((process.value_of(a.slots[0]), process.value_of(a.slots[1])), (Some(large(11)), Some(large(2))));
}

#[test]
fn whoever_was_ready_to_use_it_waits_again() {
    let mut process = Process::leased();
    let a = &chain(&mut process, 1)[0];
    // Twice as much as one core can do: it waits for a lease of its own.
    let user = process.submit(task().cpus(2).needs(a).needs(a));
    lost(&mut process, a, 1);
    process.replied(maker(&process, a), W1, large(2));
    assert_eq!(process.granted(1, super::story::worker(9)), [push(&user, super::story::worker(9))]);
}

/// The one that nobody looked at was lost for good: its new value was let go of before its task was kept again.
#[test]
fn lin_2_a_sibling_that_only_a_kept_task_needs_can_be_made_again_after_its_task_ran_again() {
    let mut process = Process::leased();
    let a = process.submit(task().returns(2).retries(3));
    let reply = |first: u64| (first..first + 2).map(|serial| (large(serial), Default::default())).collect();
    process.when(|owner, now, out| owner.on_replied(now, a.key, W1, reply(1), out));
    let user = process.submit(task().needs(a.slots[1]).retries(3));
    process.replied(&user, W1, large(5));
    process.dropped(a.slots[1]);
    lost(&mut process, a.slots[0], 1);
    let again = maker(&process, a.slots[0]);
    process.when(|owner, now, out| owner.on_replied(now, again, W1, reply(11), out));
    assert_eq!(process.value_of(a.slots[1]), None, "thin, and not lost");
    lost(&mut process, &user, 5);
    let again = maker(&process, a.slots[1]);
    process.when(|owner, now, out| owner.on_replied(now, again, W1, reply(21), out));
    process.replied(maker(&process, &user), W1, large(6));
    assert_eq!(process.value_of(&user), Some(large(6)));
}

/// It was sent as it was, with an argument that says it was freed.
#[test]
fn whoever_is_tried_again_waits_for_an_argument_that_was_lost_meanwhile() {
    let mut process = Process::leased();
    let a = &chain(&mut process, 1)[0];
    let user = process.submit(task().needs(a).retries(1));
    lost(&mut process, a, 1);
    assert_eq!(process.replied(&user, W1, super::story::retryable()), []);
    assert_eq!(process.replied(maker(&process, a), W1, large(2)), [resolved(a), push(&user, W1)]);
}

#[test]
fn a_call_on_an_actor_is_made_again_only_if_it_may_be_tried_again() {
    let mut process = Process::calling();
    let (may, must_not) = (process.submit(call().retries(1)), process.submit(call()));
    process.replied(&may, W1, large(1));
    process.replied(&must_not, W1, large(2));
    lost(&mut process, &must_not, 2);
    assert!(is_lost(&process, &must_not, "no task can make it again"));
    let effects = lost(&mut process, &may, 1);
    assert_eq!(effects.last(), Some(&push(maker(&process, &may), W1)));
    process.replied(maker(&process, &may), W1, large(3));
    process.news(0, ActorNews::Dead(model::ActorDeath::Killed));
    lost(&mut process, &may, 3);
    assert!(matches!(process.value_of(&may), Some(Value::Failed(_))), "{ACTOR:?} is gone");
}

#[test]
fn a_borrower_is_told_when_it_is_there_again() {
    let mut process = Process::leased();
    let a = &chain(&mut process, 1)[0];
    process.owner.on_escape(a.slot());
    let id = process.owner.object(a.slot()).unwrap().id;
    let b = super::story::worker(5);
    lost(&mut process, a, 1);
    assert_eq!(process.when(|owner, _, out| owner.on_wanted(&id, b, out)), []);
    let effects = process.replied(maker(&process, a), W1, large(2));
    assert_eq!(effects, [resolved(a), Effect::Have { to: b, object: id, value: large(2) }]);
}

// Seed 124 of the simulator: a task whose worker died after its argument was lost was sent again without it.
#[test]
fn own_1_a_task_that_comes_back_waits_for_what_was_lost_meanwhile() {
    let mut process = Process::leased();
    let a = &chain(&mut process, 1)[0];
    let given_back = process.submit(task().needs(a));
    let lost_run = process.submit(task().needs(a).retries(1));
    lost(&mut process, a, 1);
    assert_eq!(process.given_back(&given_back, W1), []);
    process.died(W1, &[&lost_run]);
    process.granted(1, W2);
    let again = maker(&process, a);
    assert_eq!(process.replied(again, W2, large(2))[..1], [resolved(a)]);
    assert!(process.owner.is_under(given_back.key, W2) && process.owner.is_under(lost_run.key, W2));
}

#[test]
fn own_5_a_call_on_an_actor_that_comes_back_waits_in_its_turn_for_what_was_lost_meanwhile() {
    let mut process = Process::calling();
    let a = process.submit(call().retries(-1));
    process.replied(&a, W1, large(1));
    let (first, second) = (process.submit(call().needs(&a).retries(1)), process.submit(call().retries(1)));
    lost(&mut process, &a, 1);
    process.died(W1, &[&first]);
    let again = maker(&process, &a);
    assert_eq!(process.news(1, ActorNews::Alive(W2)), [push(again, W2)]);
    let effects = process.replied(again, W2, large(2));
    assert_eq!(effects, [resolved(&a), push(&first, W2), push(&second, W2)]);
}

// Seed 152 of the simulator: a value that nobody held when it came, and that a kept task names, counted as lost for good.
#[test]
fn lin_2_what_only_a_kept_task_needs_can_be_made_again() {
    let mut process = Process::leased();
    let named = process.submit(task().retries(2));
    let user = process.submit(task().names(&named).retries(1));
    process.replied(&user, W1, large(1));
    process.dropped(&named);
    process.replied(&named, W1, large(2));
    assert_eq!(process.value_of(&named), None, "bytes only");
    lost(&mut process, &user, 1);
    process.replied(maker(&process, &named), W1, large(3));
    process.replied(maker(&process, &user), W1, large(4));
    assert_eq!(process.value_of(&user), Some(large(4)));
    process.dropped(&user);
    assert_eq!((process.owner.objects_kept(), process.owner.tasks_pending()), (0, 0));
}

// Seed 353 of the simulator: a value in a file that vanished before its owner took it over was not made again.
#[test]
fn lin_1_a_value_that_is_lost_on_its_way_costs_a_retry() {
    let mut process = Process::leased();
    let a = process.submit(task().retries(1));
    let gone = || super::story::failed(Failure::Lost("no such file".into()));
    assert_eq!(process.replied(&a, W1, gone()), [push(&a, W1)]);
    process.replied(&a, W1, gone());
    assert!(is_lost(&process, &a, "no such file"));
}

// Seed 2903 of the simulator: the argument had been made again before its owner heard that a worker had missed it.
#[test]
fn lin_1_a_call_whose_argument_is_elsewhere_by_now_is_sent_again() {
    let mut process = Process::leased();
    let a = &chain(&mut process, 1)[0];
    let user = process.submit(task().needs(a));
    lost(&mut process, a, 1);
    process.replied(maker(&process, a), W1, large(2));
    assert_eq!(process.missed(&user, W1, "moved"), [push(&user, W1)]);
    // It lies where the call says, and yet cannot be had: nothing would be gained by sending it for ever.
    process.missed(&user, W1, "moved");
    assert!(is_lost(&process, &user, "moved"));
}

/// With a lease on the first worker and an actor on the second.
fn leased_and_calling(is_ordered: bool) -> Process {
    let mut process = Process::leased();
    process.owner.on_handle_made(ACTOR, is_ordered);
    process.news(0, ActorNews::Alive(W2));
    process
}

fn missed(process: &mut Process, call: &Made) -> Vec<Effect> {
    process.missed(call, W2, "gone")
}

// A call on an actor failed at once where a task would have waited.
#[test]
fn lin_1_a_call_on_an_actor_that_misses_its_argument_waits_for_it_and_goes_first() {
    let mut process = leased_and_calling(true);
    let a = &chain(&mut process, 1)[0];
    let user = process.submit(call().needs(a));
    lost(&mut process, a, 1);
    assert_eq!(missed(&mut process, &user), []);
    let later = process.submit(call());
    let again = maker(&process, a);
    assert_eq!(process.replied(again, W1, large(2)), [resolved(a), push(&user, W2), push(&later, W2)]);
}

#[test]
fn lin_1_a_call_on_an_actor_whose_argument_lies_where_it_says_is_not_sent_for_ever() {
    let mut process = leased_and_calling(true);
    let a = &chain(&mut process, 1)[0];
    let user = process.submit(call().needs(a).retries(-1));
    missed(&mut process, &user);
    assert!(is_lost(&process, &user, "gone"));
}

#[test]
fn own_5_a_call_that_misses_its_argument_is_not_run_behind_later_ones_unless_it_may_be_tried_again() {
    let mut process = leased_and_calling(true);
    let a = &chain(&mut process, 1)[0];
    let (never, again) = (process.submit(call().needs(a)), process.submit(call().needs(a).retries(1)));
    process.submit(call());
    lost(&mut process, a, 1);
    missed(&mut process, &never);
    assert!(is_lost(&process, &never, "gone"), "the last one may have run");
    missed(&mut process, &again);
    let made = maker(&process, a);
    assert_eq!(process.replied(made, W1, large(2)), [resolved(a), push(&again, W2)]);
    assert_eq!(process.owner.task(again.key).unwrap().retries_left, 1, "OWN-4: it did not run");
}

#[test]
fn lin_1_where_order_does_not_matter_a_call_that_misses_its_argument_is_sent_again_in_any_case() {
    let mut process = leased_and_calling(false);
    let a = &chain(&mut process, 1)[0];
    let user = process.submit(call().needs(a));
    process.submit(call());
    lost(&mut process, a, 1);
    missed(&mut process, &user);
    let made = maker(&process, a);
    assert_eq!(process.replied(made, W1, large(2)), [resolved(a), push(&user, W2)]);
}

#[test]
fn lin_1_a_call_that_waits_for_its_argument_again_ends_with_its_actor() {
    let mut process = leased_and_calling(true);
    let a = &chain(&mut process, 1)[0];
    let user = process.submit(call().needs(a));
    lost(&mut process, a, 1);
    missed(&mut process, &user);
    process.news(0, ActorNews::Dead(model::ActorDeath::Killed));
    assert!(matches!(process.value_of(&user), Some(Value::Failed(_))));
}

// Seed 3927 of the simulator: the call that made the value was queued behind the call that waited for it.
#[test]
fn lin_1_a_call_that_is_made_again_goes_before_those_that_wait_for_it() {
    let mut process = Process::calling();
    let a = process.submit(call().retries(1));
    process.replied(&a, W1, large(1));
    process.news(1, ActorNews::Restarting);
    let user = process.submit(call().needs(&a).retries(1));
    lost(&mut process, &a, 1);
    let again = maker(&process, &a);
    assert_eq!(process.news(1, ActorNews::Alive(W2)), [push(again, W2)]);
    assert_eq!(process.replied(again, W2, large(2)), [resolved(&a), push(&user, W2)]);
}

// Found by the property of random lineage: what was cancelled while it missed an argument was sent once more.
#[test]
fn own_1_a_cancelled_call_that_misses_its_argument_is_not_sent_again() {
    let mut process = Process::leased();
    let a = &chain(&mut process, 1)[0];
    let user = process.submit(task().needs(a).retries(3));
    lost(&mut process, a, 1);
    process.cancelled(&user);
    process.missed(&user, W1, "");
    assert_eq!(process.value_of(&user), Some(super::story::failed(Failure::Cancelled)));
}

/// A worker reads a reference out of an argument, which its owner then loses: the call still names what it read of.
#[test]
fn own_2_what_a_lost_argument_named_is_held_for_calls_that_have_read_it() {
    let mut process = Process::leased();
    let inner = process.put(&[]);
    let outer = process.put_value(large(1), &[inner]);
    let a = process.submit(task().needs(outer));
    process.dropped(inner);
    process.dropped(outer);
    lost(&mut process, outer, 1);
    assert!(process.owner.object(inner).is_some(), "the call may ask for it");
    process.replied(&a, W1, value(1));
    assert!(process.owner.object(inner).is_none() && process.owner.object(outer).is_none());
}

/// The call is back, and what it lacked is being looked for.
fn looking(process: &mut Process, call: &Made, by: model::ProcId) -> Vec<Effect> {
    let effects = process.when(|owner, now, out| owner.on_argument_lost(now, call.key, by, "gone", out));
    let look = Effect::LookForArguments { task: call.key, why: "gone".into() };
    assert!(effects.contains(&look), "{effects:?}");
    effects.into_iter().filter(|effect| *effect != look).collect()
}

// The argument was looked at in the middle of the event, for as long as an object store took: nothing else was served meanwhile.
#[test]
fn lin_1_a_worker_serves_others_while_a_lost_argument_is_looked_for() {
    let mut process = Process::leased();
    let a = &chain(&mut process, 1)[0];
    let user = process.submit(task().needs(a));
    assert_eq!(looking(&mut process, &user, W1), []);
    assert_eq!(process.owner.arguments_to_look_at(user.key), [(a.slot(), bulk(1))]);
    let other = process.submit(task());
    assert_eq!(other.effects, [push(&other, W1)]);
    process.replied(&other, W1, value(1));
    lost(&mut process, a, 1);
    assert_eq!(process.looked(&user, false, "gone"), [], "it waits for what is made again");
    let again = maker(&process, a);
    assert_eq!(process.replied(again, W1, large(2)), [resolved(a), push(&user, W1)]);
    assert_eq!(process.looked(&user, true, "gone"), [], "it is under way");
}

#[test]
fn lin_1_an_argument_that_is_made_again_or_moves_while_it_is_looked_for_is_not_given_up() {
    let mut process = Process::leased();
    let a = &chain(&mut process, 1)[0];
    let user = process.submit(task().needs(a));
    looking(&mut process, &user, W1);
    lost(&mut process, a, 1);
    process.replied(maker(&process, a), W1, large(2));
    assert_eq!(process.looked(&user, false, "gone"), [push(&user, W1)], "somebody else has found it to be lost");
    looking(&mut process, &user, W1);
    assert_eq!(process.looked(&user, true, "gone"), [push(&user, W1)], "it lies elsewhere");
}

#[test]
fn own_1_a_call_that_is_cancelled_while_its_argument_is_looked_for_ends_at_once() {
    for is_ordered in [true, false] {
        let mut process = leased_and_calling(is_ordered);
        let a = &chain(&mut process, 1)[0];
        let (user, called) = (process.submit(task().needs(a)), process.submit(call().needs(a)));
        looking(&mut process, &user, W1);
        looking(&mut process, &called, W2);
        let behind = process.submit(call());
        assert_eq!(behind.effects.contains(&push(&behind, W2)), !is_ordered);
        process.cancelled(&user);
        assert_eq!(process.cancelled(&called).contains(&push(&behind, W2)), is_ordered, "its way is free");
        for ended in [&user, &called] {
            assert_eq!(process.value_of(ended), Some(super::story::failed(Failure::Cancelled)));
            assert_eq!(process.looked(ended, true, "gone"), []);
        }
    }
}

#[test]
fn own_5_later_calls_on_an_actor_wait_while_an_argument_is_looked_for() {
    let mut process = leased_and_calling(true);
    let a = &chain(&mut process, 1)[0];
    let user = process.submit(call().needs(a));
    assert_eq!(looking(&mut process, &user, W2), []);
    let later = process.submit(call());
    assert_eq!(later.effects, []);
    assert_eq!(process.looked(&user, true, "gone"), [push(&user, W2), push(&later, W2)]);
    // Nothing is found: it ends, and those behind it go.
    process.replied(&later, W2, value(1));
    looking(&mut process, &user, W2);
    let last = process.submit(call());
    assert!(process.looked(&user, false, "gone").contains(&push(&last, W2)));
    assert!(is_lost(&process, &user, "gone"));
}

#[test]
fn own_4_an_actor_that_dies_while_an_argument_is_looked_for_costs_the_call_no_retry() {
    for is_ordered in [true, false] {
        let mut process = leased_and_calling(is_ordered);
        let a = &chain(&mut process, 1)[0];
        let (once, again) = (process.submit(call().needs(a)), process.submit(call().needs(a).retries(1)));
        looking(&mut process, &again, W2);
        looking(&mut process, &once, W2);
        process.died(W2, &[&once, &again]);
        process.news(1, ActorNews::Restarting);
        process.looked(&once, true, "gone");
        let failure = Failure::ActorUnavailable { actor: ACTOR, may_have_run: false };
        assert_eq!(process.value_of(&once), Some(super::story::failed(failure)));
        assert_eq!(process.looked(&again, true, "gone"), []);
        assert_eq!(process.news(1, ActorNews::Alive(super::story::W3)), [push(&again, super::story::W3)]);
        assert_eq!(process.owner.task(again.key).unwrap().retries_left, 1);
        // The actor is gone for good.
        process.when(|owner, now, out| owner.on_argument_lost(now, again.key, super::story::W3, "gone", out));
        process.news(1, ActorNews::Dead(model::ActorDeath::Killed));
        process.looked(&again, true, "gone");
        let value = process.value_of(&again);
        assert!(
            matches!(&value, Some(Value::Failed(failure)) if matches!(**failure, Failure::ActorDied(..))),
            "{value:?}"
        );
    }
}

// Its record still named the worker: whoever inherited the call took it for one that may have run.
#[test]
fn keep_3_a_call_whose_argument_is_looked_for_is_recorded_as_with_nobody() {
    let mut process = Process::leased();
    process.owner.set_mortal();
    let a = &chain(&mut process, 1)[0];
    let user = process.submit(task().needs(a));
    process.when(|owner, _, out| owner.on_given_away(user.slot(), out));
    let recorded = crate::Recorded::Task(user.key);
    process.owner.on_recorded(recorded, Some(7));
    assert_eq!(process.owner.task_facts(recorded).unwrap().worker, Some(W1));
    assert_eq!(looking(&mut process, &user, W1), [Effect::Note(user.key)]);
    assert_eq!(process.owner.task_facts(recorded).unwrap().worker, None);
}
