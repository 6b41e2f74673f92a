//! Large values that leave the arena while others know where they lay.

use model::{Bulk, FileId, Filed, ObjectId, Place};

use super::story::{Process, W1, task, value};
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
    assert!(!process.owner.on_stale(slot, Bulk::Filed(filed(1))), "that is not what we were told");
    assert!(process.owner.on_stale(slot, bulk) && !process.owner.on_stale(slot, bulk));
    assert_eq!(process.when(|owner, _, out| owner.on_needed(slot, out)), [], "the owner was told already");
    let bulk = Bulk::Filed(filed(2));
    process.when(|owner, _, out| owner.on_have(&id, Value::bulk(bulk), Default::default(), out));
    assert_eq!(process.value_of(slot), Some(Value::bulk(bulk)));
    assert_eq!(process.owner.movable(), [], "it is not ours to move");
}
