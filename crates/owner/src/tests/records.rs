//! What is written down for whoever takes over, and when.

use super::story::{Process, W1, freed, give_lease_back, push, resolved, stored, task, value};
use crate::{Effect, Recorded, Slot};

fn mortal() -> Process {
    let mut process = Process::leased();
    process.owner.set_mortal();
    process
}

fn given_away(process: &mut Process, slot: impl Into<Slot>) -> Vec<Effect> {
    process.when(|owner, _, out| owner.on_given_away(slot.into(), out))
}

fn object(slot: impl Into<Slot>) -> Effect {
    Effect::Record(Recorded::Object(slot.into()))
}

#[test]
fn what_stays_here_is_not_recorded_and_what_leaves_is_once() {
    let mut process = mortal();
    let slot = process.put(&[]);
    assert_eq!(given_away(&mut process, slot), [object(slot)]);
    assert_eq!(process.owner.cell(Recorded::Object(slot)), Some(None), "wanted, and not written yet");
    process.owner.on_recorded(Recorded::Object(slot), Some(7));
    assert_eq!(given_away(&mut process, slot), []);
    assert_eq!(process.dropped(slot), [Effect::Erase(7), freed(slot)]);
    let other = process.put(&[]);
    assert_eq!(process.dropped(other), [freed(other)]);
}

#[test]
fn a_process_that_takes_its_node_down_records_nothing() {
    let mut process = Process::leased();
    let slot = process.put(&[]);
    assert_eq!(given_away(&mut process, slot), []);
    assert!(process.owner.slot_of(&process.owner.object(slot).unwrap().id).is_some());
}

#[test]
fn a_task_is_recorded_with_all_that_it_needs() {
    let mut process = mortal();
    let argument = process.put(&[]);
    let named = process.put(&[]);
    let first = process.submit(task().needs(argument));
    let second = process.submit(task().needs(&first).names(named));
    let effects = given_away(&mut process, &second);
    for what in [
        Recorded::Object(second.slot()),
        Recorded::Task(second.key),
        Recorded::Object(named),
        Recorded::Object(first.slot()),
        Recorded::Task(first.key),
        Recorded::Object(argument),
    ] {
        assert!(effects.contains(&Effect::Record(what)), "{what:?} is missing in {effects:?}");
    }
    assert_eq!(effects.len(), 6);
}

#[test]
fn the_value_is_recorded_before_the_task_is_forgotten() {
    let mut process = mortal();
    let a = process.submit(task());
    given_away(&mut process, &a);
    process.owner.on_recorded(Recorded::Task(a.key), Some(3));
    assert!(process.owner.is_recorded(a.key));
    let effects = process.replied(&a, W1, value(1));
    let at = |wanted: &Effect| effects.iter().position(|effect| effect == wanted).unwrap();
    assert!(at(&object(&a)) < at(&resolved(&a)), "it is recorded before anybody hears of it");
    assert!(at(&object(&a)) < at(&Effect::Erase(3)));
}

#[test]
fn a_task_that_waits_for_a_worker_again_says_so() {
    let mut process = mortal();
    let a = process.submit(task());
    assert_eq!(a.effects, [push(&a, W1)]);
    given_away(&mut process, &a);
    assert!(process.owner.task_facts(Recorded::Task(a.key)).unwrap().worker == Some(W1));
    let effects = process.given_back(&a, W1);
    assert!(effects.contains(&Effect::Note(a.key)), "{effects:?}");
    assert!(process.owner.task_facts(Recorded::Task(a.key)).unwrap().worker.is_none());
}

#[test]
fn how_a_large_value_was_made_is_recorded_as_long_as_the_value() {
    let mut process = mortal();
    let a = process.submit(task().retries(3));
    process.replied(&a, W1, stored(0, 8));
    let effects = given_away(&mut process, &a);
    let [Effect::Record(Recorded::Object(_)), Effect::Record(made @ Recorded::Made(_))] = effects[..] else {
        panic!("{effects:?}")
    };
    process.owner.on_recorded(Recorded::Object(a.slot()), Some(1));
    process.owner.on_recorded(made, Some(2));
    let effects = process.dropped(a.slot());
    assert!(effects.contains(&Effect::Erase(1)) && effects.contains(&Effect::Erase(2)), "{effects:?}");
    assert_eq!(process.after_ms(10_000), [give_lease_back(0)]);
}
