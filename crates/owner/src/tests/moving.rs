//! Large values that leave the arena while others know where they lay.

use model::{Bulk, FileId, Filed, ObjectId, Place};

use super::story::{Process, W1, W2, push, resolved, task, value};
use crate::{Effect, Movable, Value};

const PLACE: Place = Place { offset: 64, length: 8, serial: 1 };

fn filed(number: u32) -> Filed {
    Filed { file: FileId { by: W1, number, folder: 0 }, offset: 0, length: 8, check: 0 }
}

fn put(process: &mut Process, serial: u64) -> u32 {
    let id = ObjectId::of(process.next_id(), 1);
    process.owner.on_put(id, Value::bulk(Bulk::Stored(Place { serial, ..PLACE })), &[])
}

fn moves(process: &mut Process, movable: Movable, to: u32) -> Vec<Effect> {
    process.when(|owner, _, out| {
        owner.on_moved(&[(movable, filed(to))], out);
    })
}

fn stale(process: &mut Process, slot: u32, bulk: Bulk) -> bool {
    let mut is_news = false;
    process.when(|owner, _, out| is_news = owner.on_stale(slot, bulk, out));
    is_news
}

/// A borrowed value in the arena that names another of the same owner.
fn borrowed(process: &mut Process) -> (u32, ObjectId, ObjectId) {
    let (id, inner) = (ObjectId::of(process.next_id(), 1), ObjectId::of(process.next_id(), 1));
    let slot = process.owner.on_borrowed(id, Some(W2), 1);
    process.when(|owner, _, out| owner.on_needed(slot, out));
    has(process, id, inner, Bulk::Stored(PLACE));
    (slot, id, inner)
}

fn has(process: &mut Process, id: ObjectId, inner: ObjectId, bulk: Bulk) -> Vec<Effect> {
    let contains = smallvec::smallvec![process.owner.on_contained(inner, Some(W2), 1)];
    process.when(|owner, _, out| owner.on_have(&id, Value::bulk(bulk), contains, out))
}

#[test]
fn the_longest_unused_is_moved_first() {
    let mut process = Process::new();
    let slots: Vec<u32> = (1..=3).map(|serial| put(&mut process, serial)).collect();
    process.owner.on_touched(slots[0]);
    let order: Vec<u32> = process.owner.movable().iter().map(|movable| movable.slot).collect();
    assert_eq!((order.len(), order[2]), (3, slots[0]));
}

#[test]
fn a_moved_value_is_known_by_its_file_and_its_bytes_are_free() {
    let mut process = Process::new();
    let slot = put(&mut process, 1);
    let movable = process.owner.movable()[0];
    assert_eq!(moves(&mut process, movable, 7), [Effect::Discarded(Bulk::Stored(PLACE))]);
    assert_eq!(process.value_of(slot), Some(Value::bulk(Bulk::Filed(filed(7)))));
    assert_eq!(process.owner.movable(), []);
    assert_eq!(process.dropped(slot), [Effect::Freed { slot, bulk: Some(Bulk::Filed(filed(7))) }]);
}

#[test]
fn a_copy_of_a_value_that_is_gone_or_moved_already_is_not_needed() {
    let mut process = Process::new();
    let slot = put(&mut process, 1);
    let movable = process.owner.movable()[0];
    moves(&mut process, movable, 7);
    assert_eq!(moves(&mut process, movable, 8), [Effect::Discarded(Bulk::Filed(filed(8)))]);
    process.dropped(slot);
    assert_eq!(moves(&mut process, movable, 9), [Effect::Discarded(Bulk::Filed(filed(9)))]);
    let again = put(&mut process, 2);
    assert_eq!((again, moves(&mut process, movable, 10)), (slot, vec![Effect::Discarded(Bulk::Filed(filed(10)))]));
}

// A worker that had been sent the place of an argument found other bytes there.
#[test]
fn an_argument_of_a_call_on_its_way_stays_where_the_call_says() {
    let mut process = Process::leased();
    let slot = put(&mut process, 1);
    let movable = process.owner.movable()[0];
    let a = process.submit(task().needs(slot));
    assert_eq!(process.owner.movable(), []);
    assert_eq!(moves(&mut process, movable, 7), [Effect::Discarded(Bulk::Filed(filed(7)))], "it was named meanwhile");
    process.replied(&a, W1, value(1));
    assert_eq!(process.owner.movable(), [movable]);
}

#[test]
fn a_borrowed_place_that_is_stale_is_forgotten_until_the_owner_says_where() {
    let mut process = Process::new();
    let id = ObjectId::of(process.next_id(), 1);
    let slot = process.owner.on_borrowed(id, Some(W1), 1);
    let want = [Effect::Want { owner: W1, object: id }];
    assert_eq!(process.when(|owner, _, out| owner.on_needed(slot, out)), want);
    let bulk = Bulk::Stored(PLACE);
    process.when(|owner, _, out| owner.on_have(&id, Value::bulk(bulk), Default::default(), out));
    assert!(!stale(&mut process, slot, Bulk::Filed(filed(1))), "that is not what we were told");
    assert!(stale(&mut process, slot, bulk) && !stale(&mut process, slot, bulk));
    assert_eq!(process.when(|owner, _, out| owner.on_needed(slot, out)), [], "the owner was told already");
    let bulk = Bulk::Filed(filed(2));
    process.when(|owner, _, out| owner.on_have(&id, Value::bulk(bulk), Default::default(), out));
    assert_eq!(process.value_of(slot), Some(Value::bulk(bulk)));
    assert_eq!(process.owner.movable(), [], "it is not ours to move");
}

// Seed 2 of the simulator with large values: what a borrowed value named was held for ever once the value had moved, and once its owner
// was dead a failure held it.
#[test]
fn own_2_what_a_stale_value_names_is_let_go_of_and_comes_again_with_the_answer() {
    let mut process = Process::new();
    let (slot, id, inner) = borrowed(&mut process);
    let given_back = Effect::Borrowed { owner: W2, object: inner, borrower: W2, count: -1 };
    let effects = process.when(|owner, _, out| _ = owner.on_stale(slot, Bulk::Stored(PLACE), out));
    assert_eq!(effects[..1], [given_back]);
    has(&mut process, id, inner, Bulk::Filed(filed(2)));
    assert!(process.owner.slot_of(&inner).is_some());
    process.died(W2, &[]);
    assert!(process.owner.slot_of(&inner).is_none(), "a failure names nothing");
    process.dropped(slot);
    assert_eq!(process.owner.objects_kept(), 0);
}

// Seed 56 of the simulator with large values: a task whose borrowed argument had moved to a file failed as if it were lost.
#[test]
fn lin_1_a_call_whose_borrowed_argument_has_moved_waits_for_where_it_is() {
    let mut process = Process::leased();
    let (slot, id, inner) = borrowed(&mut process);
    let (sent, queued) = (process.submit(task().needs(slot)), process.submit(task().cpus(2).needs(slot)));
    assert!(stale(&mut process, slot, Bulk::Stored(PLACE)));
    process.missed(&sent, W1, "it has moved");
    assert_eq!((process.value_of(&sent), process.value_of(&queued)), (None, None));
    let effects = has(&mut process, id, inner, Bulk::Filed(filed(2)));
    assert_eq!(effects[..2], [resolved(slot), push(&sent, W1)]);
    assert!(process.owner.task(queued.key).is_some_and(|task| task.stage == crate::Stage::Queued));
}
