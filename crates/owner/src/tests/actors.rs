//! Calls on actors: their order, and what becomes of them when the actor dies or starts again.

use model::{ActorDeath, Failure};

use super::story::{ACTOR, Made, Process, W1, W2, argument, call, crashed, exit, failed, push, raised, resolved};
use super::story::{retryable, task, value};
use crate::{ActorNews, CalleeState, GroupFacts};

fn unavailable(may_have_run: bool) -> Option<crate::Value> {
    Some(failed(Failure::ActorUnavailable { actor: ACTOR, may_have_run }))
}

fn dead() -> Option<crate::Value> {
    Some(failed(Failure::ActorDied(ACTOR, ActorDeath::Crashed(exit()))))
}

#[test]
fn calls_wait_until_the_actor_is_there() {
    let mut process = Process::new();
    let (a, b) = (process.submit(call()), process.submit(call()));
    assert_eq!(process.news(0, ActorNews::Pending), []);
    assert_eq!(process.news(0, ActorNews::Alive(W1)), [push(&a, W1), push(&b, W1)]);
    assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a)]);
    assert_eq!(process.owner.callee(&ACTOR).unwrap().calls_pending(), 1);
}

#[test]
fn own_5_a_call_whose_argument_is_missing_holds_back_those_behind_it() {
    let mut process = Process::calling();
    let argument = process.submit(task());
    let (a, b) = (process.submit(call().needs(&argument)), process.submit(call()));
    assert_eq!((a.effects.len(), b.effects.len()), (0, 0));
    process.granted(0, W2);
    assert_eq!(process.replied(&argument, W2, value(1)), [resolved(&argument), push(&a, W1), push(&b, W1)]);
}

#[test]
fn calls_on_an_unordered_actor_overtake_one_that_waits() {
    let mut process = Process::new();
    process.owner.on_handle_made(ACTOR, false);
    process.news(0, ActorNews::Alive(W1));
    let argument = process.submit(task());
    let (a, b) = (process.submit(call().needs(&argument)), process.submit(call()));
    assert_eq!(b.effects, [push(&b, W1)]);
    process.granted(0, W2);
    assert_eq!(process.replied(&argument, W2, value(1)), [resolved(&argument), push(&a, W1)]);
}

#[test]
fn as_many_calls_are_sent_as_the_actor_runs_at_once_and_some_ahead() {
    let sent = |concurrency: usize| {
        let mut process = Process::new();
        process.owner.on_handle_made(ACTOR, concurrency == 1);
        process.owner.on_concurrency_known(ACTOR, concurrency);
        process.news(0, ActorNews::Alive(W1));
        (0..600).filter(|_| !process.submit(call()).effects.is_empty()).count()
    };
    let ahead = sent(1) - 1;
    assert!(ahead < 500, "the rest is kept here, where it can be taken back");
    assert_eq!(sent(300), 300 + ahead);
}

#[test]
fn a_call_whose_argument_fails_ends_and_lets_the_next_pass() {
    let mut process = Process::calling();
    let made = process.submit(task());
    let (a, b) = (process.submit(call().needs(&made)), process.submit(call()));
    process.granted(0, W2);
    let effects = process.replied(&made, W2, failed(raised()));
    assert_eq!(effects, [resolved(&made), resolved(&a), push(&b, W1)]);
    assert_eq!(process.value_of(&a), Some(argument(raised())));
}

#[test]
fn no_more_calls_are_sent_ahead_than_the_ring_has_claims_for() {
    let mut process = Process::calling();
    let made: Vec<Made> = (0..193).map(|_| process.submit(call())).collect();
    assert_eq!(made[191].effects, [push(&made[191], W1)]);
    assert_eq!(made[192].effects, []);
    assert_eq!(process.replied(&made[0], W1, value(1)), [push(&made[192], W1), resolved(&made[0])]);
}

#[test]
fn a_full_group_of_methods_holds_up_no_other() {
    let mut process = Process::calling();
    let group = |is_ordered, concurrency| GroupFacts { is_ordered, concurrency };
    process.owner.on_groups_known(ACTOR, &[group(false, 2), group(true, 1)]);
    let full: Vec<Made> = (0..195).map(|_| process.submit(call().group(1))).collect();
    assert_eq!((full[193].effects.len(), full[194].effects.len()), (1, 0), "two run, and 192 are sent ahead");
    let other = process.submit(call().group(2));
    assert_eq!(other.effects, [push(&other, W1)]);
    let default = process.submit(call());
    assert_eq!(default.effects, [push(&default, W1)]);
    assert_eq!(process.replied(&other, W1, value(1)), [resolved(&other)], "room in one group is no room in another");
    assert_eq!(process.replied(&full[5], W1, value(1)), [push(&full[194], W1), resolved(&full[5])]);
}

#[test]
fn own_5_a_call_whose_argument_is_missing_holds_back_its_own_group_only() {
    let mut process = Process::calling();
    let group = GroupFacts { is_ordered: true, concurrency: 1 };
    process.owner.on_groups_known(ACTOR, &[group, group]);
    let argument = process.submit(task());
    let a = process.submit(call().group(1).needs(&argument));
    let (b, c) = (process.submit(call().group(1)), process.submit(call().group(2)));
    assert_eq!((a.effects.len(), b.effects.len()), (0, 0));
    assert_eq!(c.effects, [push(&c, W1)]);
    process.granted(0, W2);
    assert_eq!(process.replied(&argument, W2, value(1)), [resolved(&argument), push(&a, W1), push(&b, W1)]);
}

#[test]
fn calls_of_all_groups_are_tried_again_or_fail_with_their_actor() {
    let mut process = Process::calling();
    process.owner.on_groups_known(ACTOR, &[GroupFacts { is_ordered: true, concurrency: 1 }]);
    let (a, b) = (process.submit(call().group(1).retries(1)), process.submit(call().group(1)));
    process.died(W1, &[&a]);
    assert_eq!(process.news(1, ActorNews::Restarting), [resolved(&b)]);
    assert_eq!(process.news(1, ActorNews::Alive(W2)), [push(&a, W2)]);
    process.died(W2, &[&a]);
    assert_eq!(process.news(2, ActorNews::Dead(ActorDeath::Crashed(exit()))), [resolved(&a)]);
    assert_eq!(process.value_of(&a), dead());
}

/// An actor of another node had ended by itself: the head said so before its last answers had come, which were large, and these were lost.
#[test]
fn a_dead_actor_s_last_answers_come_behind_the_news_of_its_death() {
    let mut process = Process::calling();
    let (a, b) = (process.submit(call()), process.submit(call()));
    assert_eq!(
        process.news(0, ActorNews::Dead(ActorDeath::Crashed(exit()))),
        [],
        "its worker has not been seen to end"
    );
    let c = process.submit(call());
    assert_eq!(c.effects, [resolved(&c)], "nothing more is sent there");
    assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a)]);
    assert_eq!(process.died(W1, &[&a, &b]), [resolved(&b)]);
    assert_eq!((process.value_of(&a), process.value_of(&b)), (Some(value(1)), dead()));
}

#[test]
fn calls_without_retries_fail_when_the_actor_starts_again() {
    let mut process = Process::calling();
    let (a, b) = (process.submit(call()), process.submit(call()));
    assert_eq!(process.died(W1, &[&a]), [], "what becomes of them depends on the actor");
    assert_eq!(process.news(1, ActorNews::Restarting), [resolved(&a), resolved(&b)]);
    assert_eq!((process.value_of(&a), process.value_of(&b)), (unavailable(true), unavailable(false)));
    let c = process.submit(call());
    assert_eq!(c.effects, [resolved(&c)]);
    assert_eq!(process.value_of(&c), unavailable(false));
}

#[test]
fn calls_with_retries_are_sent_again_in_their_order() {
    let mut process = Process::calling();
    let (a, b) = (process.submit(call().retries(1)), process.submit(call().retries(1)));
    process.died(W1, &[&a]);
    let c = process.submit(call().retries(1));
    assert_eq!(process.news(1, ActorNews::Restarting), []);
    assert_eq!(process.news(1, ActorNews::Alive(W2)), [push(&a, W2), push(&b, W2), push(&c, W2)]);
}

#[test]
fn own_4_only_the_call_that_had_started_pays_for_a_restart() {
    let mut process = Process::calling();
    let (a, b) = (process.submit(call().retries(1)), process.submit(call().retries(1)));
    process.died(W1, &[&a]);
    process.news(1, ActorNews::Alive(W2));
    process.died(W2, &[&a, &b]);
    assert_eq!(process.news(2, ActorNews::Restarting), [resolved(&a)]);
    assert_eq!(process.value_of(&a), unavailable(true));
    assert_eq!(process.news(2, ActorNews::Alive(W1)), [push(&b, W1)]);
}

#[test]
fn a_dead_actor_fails_every_call_and_later_ones_at_once() {
    let mut process = Process::calling();
    let argument = process.submit(task());
    let (a, b) = (process.submit(call().retries(5)), process.submit(call().needs(&argument)));
    process.died(W1, &[&a]);
    assert_eq!(process.news(0, crashed()), [resolved(&a), resolved(&b)]);
    assert_eq!((process.value_of(&a), process.value_of(&b)), (dead(), dead()));
    let c = process.submit(call().retries(5));
    assert_eq!(c.effects, [resolved(&c)]);
    assert_eq!(process.value_of(&c), dead());
    let d = process.submit(call().needs(&argument));
    process.granted(0, W2);
    assert_eq!(process.replied(&argument, W2, value(1)), [resolved(&argument), resolved(&d)]);
}

#[test]
fn news_of_an_earlier_life_are_ignored() {
    let mut process = Process::calling();
    process.died(W1, &[]);
    process.news(1, ActorNews::Alive(W2));
    assert_eq!(process.news(0, ActorNews::Alive(W1)), []);
    assert_eq!(process.owner.callee(&ACTOR).unwrap().state, CalleeState::Alive(W2));
    process.news(1, crashed());
    assert_eq!(process.news(2, ActorNews::Alive(W1)), [], "the dead stay dead");
}

/// What the node says of one life has an order: nobody is called on a worker that was seen to end.
#[test]
fn news_that_come_again_late_are_ignored() {
    let mut process = Process::calling();
    process.died(W1, &[]);
    let a = process.submit(call().retries(1));
    assert_eq!(process.news(0, ActorNews::Alive(W1)), [], "its worker is dead");
    process.news(1, ActorNews::Restarting);
    assert_eq!(process.news(1, ActorNews::Alive(W2)), [push(&a, W2)]);
    assert_eq!(process.news(1, ActorNews::Restarting), [], "it is there already");
    assert_eq!(process.owner.callee(&ACTOR).unwrap().state, CalleeState::Alive(W2));
}

#[test]
fn own_5_the_next_life_waits_for_the_end_of_the_last() {
    let mut process = Process::calling();
    let (a, b) = (process.submit(call().retries(1)), process.submit(call().retries(1)));
    assert_eq!(process.news(1, ActorNews::Alive(W2)), [], "its first worker has not been seen to end");
    let c = process.submit(call().retries(1));
    assert_eq!(c.effects, []);
    assert_eq!(process.replied(&a, W1, value(1)), [resolved(&a)]);
    assert_eq!(process.died(W1, &[]), [push(&b, W2), push(&c, W2)]);
}

/// Each call that is tried again went before all others, also before an older one that waited to be tried again.
#[test]
fn own_5_calls_that_are_tried_again_keep_their_order() {
    let mut process = Process::calling();
    let made: Vec<Made> = (0..3).map(|_| process.submit(call().retries(1))).collect();
    process.news(1, ActorNews::Alive(W2));
    assert_eq!(process.replied(&made[0], W1, retryable()), []);
    assert_eq!(process.replied(&made[1], W1, retryable()), []);
    let effects = process.died(W1, &[]);
    assert_eq!(effects, [push(&made[0], W2), push(&made[1], W2), push(&made[2], W2)]);
}

#[test]
fn a_retryable_exception_is_tried_again_at_once() {
    let mut process = Process::calling();
    let a = process.submit(call().retries(1));
    assert_eq!(process.replied(&a, W1, retryable()), [push(&a, W1)]);
    assert_eq!(process.replied(&a, W1, retryable()), [resolved(&a)]);
}

#[test]
fn a_call_that_an_actor_gives_back_is_sent_again() {
    let mut process = Process::calling();
    let (a, b) = (process.submit(call()), process.submit(call()));
    assert_eq!(process.given_back(&b, W1), [push(&b, W1)]);
    process.replied(&a, W1, value(1));
    assert_eq!(process.replied(&b, W1, value(1)), [resolved(&b)]);
    assert_eq!(process.owner.callee(&ACTOR).unwrap().calls_pending(), 0);
}

#[test]
fn an_answer_that_was_published_before_the_death_counts() {
    let mut process = Process::calling();
    let (a, b) = (process.submit(call()), process.submit(call()));
    process.replied(&a, W1, value(1));
    process.died(W1, &[&b]);
    assert_eq!(process.news(0, crashed()), [resolved(&b)]);
    assert_eq!(process.value_of(&a), Some(value(1)));
}

/// Each of them was looked for in the whole queue: tens of thousands took seconds, with the process's lock held.
#[test]
fn very_many_waiting_calls_fail_and_are_cancelled_in_time_by_their_number() {
    let mut process = Process::calling();
    let made: Vec<Made> = (0..100_000).map(|_| process.submit_unchecked(call())).collect();
    let mut effects = Vec::new();
    for call in &made[1_000..51_000] {
        process.owner.on_cancel(call.slot(), false, false, &mut effects);
    }
    assert_eq!(effects.len(), 50_000);
    assert_eq!(process.owner.callee(&ACTOR).unwrap().calls_pending(), 50_000, "what is cancelled does not wait");
    process.died(W1, &[]);
    assert_eq!(process.news(1, ActorNews::Restarting).len(), 50_000);
    assert_eq!(process.owner.callee(&ACTOR).unwrap().calls_pending(), 0);
}

#[test]
fn cancelled_calls_among_others_that_wait_do_not_count() {
    let mut process = Process::new();
    let made: Vec<Made> = (0..6).map(|_| process.submit(call())).collect();
    let pending = |process: &Process| process.owner.callee(&ACTOR).unwrap().calls_pending();
    for (at, left) in [(1, 5), (0, 4), (2, 3), (5, 2), (4, 1)] {
        assert_eq!(process.cancelled(&made[at]), [resolved(&made[at])]);
        assert_eq!(pending(&process), left);
    }
    assert_eq!(process.news(0, ActorNews::Alive(W1)), [push(&made[3], W1)]);
}
