//! What is known of actors that are dead.

use model::{ActorDeath, ActorId, Failure, ObjectId, TaskId};

use super::story::{Process, W2, call, failed, resolved, task, value};
use crate::past::DEAD_KEPT_MAX;
use crate::{ActorNews, Effect};

fn actor(number: usize) -> ActorId {
    let mut id = [1; 16];
    id[..8].copy_from_slice(&number.to_le_bytes());
    ActorId(id)
}

fn life(number: usize) -> ObjectId {
    let mut id = [2; TaskId::LENGTH];
    id[..8].copy_from_slice(&number.to_le_bytes());
    ObjectId::of(TaskId(id), u32::MAX)
}

fn killed(process: &mut Process, which: ActorId) -> Vec<Effect> {
    let mut effects = Vec::new();
    process.owner.on_actor_news(which, 0, ActorNews::Dead(ActorDeath::Killed), &mut effects);
    effects
}

/// Makes so many actors, none of which anything refers to, and kills them.
fn come_and_go(process: &mut Process, numbers: std::ops::Range<usize>) {
    for number in numbers {
        process.owner.on_handle_made(actor(number), true);
        killed(process, actor(number));
    }
}

fn known(process: &Process) -> usize {
    process.owner.callees().count()
}

/// Every actor ever called was known for ever: 1.2 KB each, which a program that makes one per job never got back.
#[test]
fn own_6_of_very_many_dead_actors_the_latest_are_known() {
    let mut process = Process::new();
    come_and_go(&mut process, 0..20_000);
    assert!(known(&process) <= 2 * DEAD_KEPT_MAX, "{} are known", known(&process));
    assert!(process.owner.callee(&actor(19_999 - DEAD_KEPT_MAX + 1)).is_some());
}

#[test]
fn own_6_a_dead_actor_is_known_while_its_handle_is_here() {
    let mut process = Process::new();
    let mut slots = Vec::new();
    for number in 0..2_000 {
        slots.push(process.owner.on_actor_made(life(number), actor(number)));
        process.owner.on_handle_made(actor(number), true);
        process.owner.on_life_known(actor(number), slots[number]);
    }
    (0..2_000).for_each(|number| drop(killed(&mut process, actor(number))));
    come_and_go(&mut process, 2_000..10_000);
    assert!((0..2_000).all(|number| process.owner.callee(&actor(number)).is_some()));
    let mut effects = Vec::new();
    slots.into_iter().for_each(|slot| process.owner.on_handle_dropped(slot, &mut effects));
    come_and_go(&mut process, 10_000..20_000);
    assert!(known(&process) <= 2 * DEAD_KEPT_MAX, "{} are known", known(&process));
}

#[test]
fn own_6_a_dead_actor_is_known_while_a_call_on_it_waits_for_an_argument() {
    let mut process = Process::new();
    process.owner.on_handle_made(actor(0), false);
    let argument = process.submit(task());
    let waiting = process.submit(call().on(actor(0)).needs(&argument));
    killed(&mut process, actor(0));
    come_and_go(&mut process, 1..5_000);
    process.granted(0, W2);
    assert_eq!(process.replied(&argument, W2, value(1)), [resolved(&argument), resolved(&waiting)]);
    assert_eq!(process.value_of(&waiting), Some(failed(Failure::ActorDied(actor(0), ActorDeath::Killed))));
}

#[test]
fn own_6_a_call_on_a_forgotten_actor_fails_as_the_node_says() {
    let mut process = Process::new();
    come_and_go(&mut process, 0..5_000);
    assert_eq!(killed(&mut process, actor(0)), [], "news that nobody waits for");
    assert!(process.owner.callee(&actor(0)).is_none());
    let late = process.submit(call().on(actor(0)));
    assert_eq!(late.effects, [Effect::AskActor(actor(0))]);
    assert_eq!(killed(&mut process, actor(0)), [resolved(&late)]);
    assert_eq!(process.value_of(&late), Some(failed(Failure::ActorDied(actor(0), ActorDeath::Killed))));
}
