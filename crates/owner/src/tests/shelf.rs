//! Kept tasks that are too much for memory: their arguments go to files and come back, or they are forgotten.

use model::{Bulk, Failure, FileId, Filed, Place, TaskKey};
use smallvec::smallvec;

use super::story::{Made, Process, W1, failed, freed, push, resolved, task};
use crate::{Effect, Heirloom, Leaving, Recorded, Slot, Spec, Target, Value};

/// More than one kept task counts as, beside its arguments.
const SOME: u64 = 1_000;

fn bulk(serial: u64) -> Bulk {
    Bulk::Stored(Place { offset: 64 * serial, length: 8, serial })
}

fn filed(number: u32, length: u64) -> Filed {
    Filed { file: FileId { by: W1, number, folder: 0 }, offset: 0, length, check: 0 }
}

fn with_cap(bytes_max: u64, can_move: bool) -> Process {
    let mut process = Process::leased();
    process.owner.set_lineage_max(bytes_max, can_move);
    process
}

/// A task with so many bytes of arguments has made the large value with this serial.
fn made(process: &mut Process, bytes: usize, serial: u64) -> (Made, Vec<Effect>) {
    let made = process.submit(task().given(bytes).retries(3));
    let effects = process.replied(&made, W1, Value::bulk(bulk(serial)));
    (made, effects)
}

fn lost(process: &mut Process, slot: impl Into<Slot>, serial: u64) -> Vec<Effect> {
    let slot = slot.into();
    process.when(|owner, _, out| assert!(owner.on_lost(&[(slot, bulk(serial))], "the disk broke", out)))
}

fn maker(process: &Process, slot: impl Into<Slot>) -> TaskKey {
    process.owner.object(slot.into()).unwrap().maker().unwrap()
}

fn moved(process: &mut Process, leaving: &Leaving, files: &[Filed]) -> Vec<Effect> {
    process.when(|owner, _, out| owner.on_lineage_moved(leaving, files, out))
}

fn says(process: &Process, slot: impl Into<Slot>, text: &str) -> bool {
    match process.value_of(slot) {
        Some(Value::Failed(failure)) => matches!(&*failure, Failure::Lost(why) if why.contains(text)),
        _ => false,
    }
}

/// One task whose arguments were moved to `filed(1, 5)`.
fn one_moved() -> (Process, Made) {
    let mut process = with_cap(1, true);
    let (a, effects) = made(&mut process, 5, 1);
    assert_eq!(effects, [resolved(&a), Effect::MoveLineage]);
    let leaving = process.owner.lineage_to_move();
    assert_eq!((&leaving.lengths[..], &leaving.bytes[..]), (&[5][..], &[7; 5][..]));
    assert_eq!(moved(&mut process, &leaving, &[filed(1, 5)]), []);
    (process, a)
}

#[test]
fn lin_3_arguments_that_are_too_much_go_to_a_file_and_are_read_when_they_are_needed() {
    let (mut process, a) = one_moved();
    let effects = lost(&mut process, &a, 1);
    let again = maker(&process, &a);
    assert_eq!(effects[2..], [Effect::ReadArguments { task: again, filed: filed(1, 5) }]);
    let effects = process.when(|owner, _, out| owner.on_arguments_read(again, Ok(vec![7; 5]), out));
    assert_eq!(effects, [push(again, W1)]);
    assert_eq!(process.owner.task(again).unwrap().spec.payload, [7; 5]);
    assert_eq!(process.replied(again, W1, Value::bulk(bulk(2))), [resolved(&a)], "they lie in their file still");
    let lost = lost(&mut process, &a, 2);
    assert!(lost.contains(&Effect::ReadArguments { task: maker(&process, &a), filed: filed(1, 5) }));
}

#[test]
fn lin_3_a_file_goes_with_its_task() {
    let (mut process, a) = one_moved();
    let gone = Effect::Discarded(Bulk::Filed(filed(1, 5)));
    assert_eq!(process.dropped(&a), [gone.clone(), Effect::Freed { slot: a.slot(), bulk: Some(bulk(1)) }]);
    let (mut process, a) = one_moved();
    lost(&mut process, &a, 1);
    assert!(process.cancelled(&a).contains(&gone), "it is cancelled while they are read");
    assert_eq!(process.value_of(&a), Some(failed(Failure::Cancelled)));
}

#[test]
fn lin_3_arguments_that_cannot_be_read_are_a_loss() {
    let (mut process, a) = one_moved();
    lost(&mut process, &a, 1);
    let again = maker(&process, &a);
    let effects = process.when(|owner, _, out| owner.on_arguments_read(again, Err("no such file".into()), out));
    assert_eq!(effects, [resolved(&a), Effect::Discarded(Bulk::Filed(filed(1, 5)))]);
    assert!(says(&process, &a, "no such file"));
    assert_eq!(process.when(|owner, _, out| owner.on_arguments_read(again, Ok(vec![7; 5]), out)), [], "it has ended");
}

#[test]
fn the_oldest_leave_first_and_only_once_there_is_a_file_full_of_them() {
    let mut process = with_cap(8 * SOME, true);
    let mut effects = Vec::new();
    let mut all = Vec::new();
    for serial in 1..=12 {
        let (a, news) = made(&mut process, 400, serial);
        all.push(a);
        effects.extend(news.into_iter().filter(|effect| *effect == Effect::MoveLineage));
    }
    assert_eq!(effects, [Effect::MoveLineage], "once, until it is answered");
    let leaving = process.owner.lineage_to_move();
    assert_eq!(leaving.lengths, [400; 3], "as much as an eighth");
    process.dropped(&all[1]);
    let files = [filed(1, 400), filed(2, 400), filed(3, 400)];
    let effects = moved(&mut process, &leaving, &files);
    assert_eq!(effects, [Effect::Discarded(Bulk::Filed(files[1])), Effect::MoveLineage], "one has left meanwhile");
    let effects = lost(&mut process, &all[0], 1);
    assert!(effects.contains(&Effect::ReadArguments { task: maker(&process, &all[0]), filed: files[0] }));
    let effects = lost(&mut process, &all[5], 6);
    assert!(effects.contains(&push(maker(&process, &all[5]), W1)), "it is in memory");
}

#[test]
fn lin_4_without_a_folder_the_oldest_is_forgotten_and_says_so() {
    let mut process = with_cap(2 * SOME, false);
    let [a, b, c] = [1, 2, 3].map(|serial| made(&mut process, 400, serial).0);
    lost(&mut process, &a, 1);
    assert!(says(&process, &a, "LINEAGE_EVICTED") && says(&process, &a, "the disk broke"));
    for (each, serial) in [(&b, 2), (&c, 3)] {
        lost(&mut process, each, serial);
        process.replied(maker(&process, each), W1, Value::bulk(bulk(10 + serial)));
    }
    [a, b, c].iter().for_each(|each| drop(process.dropped(each)));
    assert_eq!(process.owner.objects_kept(), 0);
}

#[test]
fn lin_4_a_full_disk_is_as_no_folder() {
    let mut process = with_cap(SOME, true);
    let (a, _) = made(&mut process, 400, 1);
    let (_b, effects) = made(&mut process, 400, 2);
    assert!(effects.contains(&Effect::MoveLineage));
    let _leaving = process.owner.lineage_to_move();
    assert_eq!(process.when(|owner, _, out| owner.on_lineage_stays(out)), []);
    lost(&mut process, &a, 1);
    assert!(says(&process, &a, "LINEAGE_EVICTED"));
}

#[test]
fn lin_4_what_only_the_forgotten_task_needed_goes() {
    let mut process = with_cap(3 * SOME, false);
    let (a, _) = made(&mut process, 0, 1);
    let b = process.submit(task().needs(&a).given(900).retries(3));
    process.replied(&b, W1, Value::bulk(bulk(2)));
    // Its bytes go, since it can be made again; then what made it is forgotten, and the value is lost for good.
    assert_eq!(process.dropped(&a), [Effect::Discarded(bulk(1)), Effect::Unresolved(a.slot())]);
    let (_c, effects) = made(&mut process, 600, 3);
    assert!(effects.contains(&resolved(&a)) && says(&process, &a, "LINEAGE_EVICTED"), "{effects:?}");
    let (_d, effects) = made(&mut process, 600, 4);
    assert!(effects.contains(&freed(&a)), "nobody needs it any more: {effects:?}");
}

#[test]
fn lin_4_a_value_that_is_let_go_of_after_its_task_was_forgotten_is_lost() {
    let mut process = with_cap(2 * SOME, false);
    let (a, _) = made(&mut process, 1_200, 1);
    let b = process.submit(task().needs(&a).retries(3));
    process.replied(&b, W1, Value::bulk(bulk(2)));
    process.dropped(&a);
    assert!(says(&process, &a, "LINEAGE_EVICTED"));
    lost(&mut process, &b, 2);
    assert!(
        matches!(process.value_of(&b), Some(Value::Failed(failure)) if matches!(*failure, Failure::Argument { .. }))
    );
}

#[test]
fn what_is_recorded_names_the_file_as_long_as_there_is_one() {
    let (mut process, a) = one_moved();
    process.owner.set_mortal();
    let effects = process.when(|owner, _, out| owner.on_given_away(a.slot(), out));
    let [_, Effect::Record(kept)] = effects[..] else { panic!("{effects:?}") };
    assert!(matches!(kept, Recorded::Made(_)));
    assert_eq!(process.owner.task_facts(kept).unwrap().filed, Some(filed(1, 5)));
    lost(&mut process, &a, 1);
    let again = maker(&process, &a);
    process.when(|owner, _, out| owner.on_arguments_read(again, Ok(vec![7; 5]), out));
    assert_eq!(process.owner.task_facts(Recorded::Task(again)).unwrap().filed, Some(filed(1, 5)));
}

#[test]
fn an_heir_reads_what_the_dead_had_in_a_file() {
    let mut process = Process::leased();
    let mut inherited = |filed: Option<Filed>, slot: &mut Option<Slot>| {
        let id = process.next_id();
        let made = process.owner.on_inherited(model::ObjectId::of(id, 1));
        *slot = Some(made);
        let (template, target) = (super::story::template(Target::Pool, 3), Target::Pool);
        let spec = Spec { id, template, target, payload: Vec::new(), deps: smallvec![], contains: smallvec![] };
        Heirloom { spec, filed, returns: smallvec![made], retries_left: 3, oom_retries_left: -1 }
    };
    let (mut pending, mut kept) = (None, None);
    let task = inherited(Some(filed(1, 5)), &mut pending);
    let ended = inherited(Some(filed(2, 6)), &mut kept);
    let key = process.owner.on_task_inherited(task);
    let kept = kept.unwrap();
    let effects = process.when(|owner, _, out| {
        owner.on_value_inherited(kept, Value::bulk(bulk(1)), smallvec![], out);
        owner.on_made_inherited(ended, out);
        owner.on_orphan_idle(key, false, out);
    });
    assert!(effects.contains(&Effect::ReadArguments { task: key, filed: filed(1, 5) }));
    let effects = process.when(|owner, _, out| owner.on_arguments_read(key, Ok(vec![1; 5]), out));
    assert_eq!(effects, [push(key, W1)]);
    let effects = lost(&mut process, kept, 1);
    assert!(effects.contains(&Effect::ReadArguments { task: maker(&process, kept), filed: filed(2, 6) }));
    assert_eq!(process.value_of(pending.unwrap()), None);
}
