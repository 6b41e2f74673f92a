//! How much memory kept tasks may take. Beyond that the arguments of the oldest go to files, where they stay as long as the task; what is left
//! of such a task in memory is as small as an object. Where there is no folder, or it is full, the oldest task is forgotten instead.
//!
//! - **LIN-3** the arguments of a task that can run again are in memory or in a file that is kept for them.
//! - **LIN-4** a value whose task was forgotten says so when it is lost.

use std::collections::VecDeque;

use model::{Bulk, Failure, Filed, TaskKey};
use rustc_hash::FxHashMap;

use crate::lineage::{Made, lost};
use crate::tasks::{Stage, Task};
use crate::{Effect, Owner, Slot};

/// Stands for the key of a kept task that was forgotten.
pub(crate) const EVICTED: u32 = u32::MAX;

/// What a later loss of its value says.
pub(crate) const WHY_EVICTED: &str = "LINEAGE_EVICTED: the task that made it was forgotten, since more than max_lineage_bytes were to be kept \
     and no folder had room for them";

/// A kept task is counted as so many bytes, beside its arguments.
const TASK_BYTES: u64 = 512;

/// Arguments are written side by side until a file is this long, or an eighth of what may be kept.
const FILE_BYTES: u64 = 8 << 20;

/// Entries of tasks that have left are removed from the queue when there are this many more of them than of others.
const STALE_MAX: usize = 64;

pub(crate) struct Shelf {
    bytes_max: u64,
    /// There are folders.
    can_move: bool,
    /// The body was asked to move something, and has not answered.
    is_moving: bool,
    /// Kept tasks, and their arguments as far as they are in memory.
    bytes: u64,
    /// The arguments alone.
    payload_bytes: u64,
    /// Kept tasks whose arguments are in memory, the oldest first: slot and generation. Some have left.
    oldest: VecDeque<(u32, u32)>,
    /// Tasks that run again, and where their arguments lie as well.
    again: FxHashMap<TaskKey, Filed>,
}

impl Default for Shelf {
    fn default() -> Self {
        Self {
            bytes_max: u64::MAX,
            can_move: false,
            is_moving: false,
            bytes: 0,
            payload_bytes: 0,
            oldest: VecDeque::new(),
            again: FxHashMap::default(),
        }
    }
}

impl Shelf {
    fn batch_bytes(&self) -> u64 {
        (self.bytes_max / 8).clamp(1, FILE_BYTES)
    }
}

/// Arguments of kept tasks that are to be written to a file.
#[derive(Debug, Default)]
pub struct Leaving {
    tasks: Vec<(u32, u32)>,
    /// How long those of each task are.
    pub lengths: Vec<usize>,
    /// All of them, one behind the other.
    pub bytes: Vec<u8>,
}

impl Owner {
    /// How many bytes of kept tasks may be in memory, and whether there are folders for more.
    pub fn set_lineage_max(&mut self, bytes_max: u64, can_move: bool) {
        (self.shelf.bytes_max, self.shelf.can_move) = (bytes_max, can_move);
    }

    /// Adds a task that has ended. One whose arguments are in a file needs them in memory no longer.
    pub(crate) fn shelve(&mut self, mut made: Made) -> u32 {
        if made.filed.is_some() {
            made.spec.payload = Vec::new();
        }
        let payload_bytes = made.spec.payload.len() as u64;
        self.shelf.bytes += TASK_BYTES + payload_bytes;
        self.shelf.payload_bytes += payload_bytes;
        let is_here = made.filed.is_none();
        let (key, generation) = self.made.insert(made);
        if is_here {
            if self.shelf.oldest.len() > 2 * self.made.len() + STALE_MAX {
                let made = &self.made;
                self.shelf.oldest.retain(|(key, generation)| is_in_memory(made, *key, *generation));
            }
            self.shelf.oldest.push_back((key, generation));
        }
        key
    }

    /// Takes a kept task away, to run again or to be forgotten. Its file is the caller's now.
    pub(crate) fn unshelve(&mut self, key: u32) -> Option<Made> {
        let made = self.made.remove(key)?;
        let payload_bytes = made.spec.payload.len() as u64;
        self.shelf.bytes -= TASK_BYTES + payload_bytes;
        self.shelf.payload_bytes -= payload_bytes;
        Some(made)
    }

    /// Moves or forgets what is too much.
    pub(crate) fn bound_lineage(&mut self, out: &mut Vec<Effect>) {
        let shelf = &mut self.shelf;
        if shelf.bytes <= shelf.bytes_max {
            return;
        }
        if !shelf.can_move {
            self.forget_oldest(out);
        } else if !shelf.is_moving && shelf.payload_bytes >= shelf.batch_bytes() {
            shelf.is_moving = true;
            out.push(Effect::MoveLineage);
        }
    }

    /// The arguments of the oldest kept tasks: as much as goes into one file. To be answered by `on_lineage_moved` or `on_lineage_stays`.
    #[must_use]
    pub fn lineage_to_move(&self) -> Leaving {
        let mut leaving = Leaving::default();
        for (key, generation) in &self.shelf.oldest {
            if !is_in_memory(&self.made, *key, *generation) {
                continue;
            }
            let payload = self.made.get(*key).map_or(&[][..], |made| &made.spec.payload[..]);
            leaving.tasks.push((*key, *generation));
            leaving.lengths.push(payload.len());
            leaving.bytes.extend_from_slice(payload);
            if leaving.bytes.len() as u64 >= self.shelf.batch_bytes() {
                break;
            }
        }
        leaving
    }

    /// They were written, and lie there. Those of tasks that have left meanwhile nobody needs.
    pub fn on_lineage_moved(&mut self, leaving: &Leaving, filed: &[Filed], out: &mut Vec<Effect>) {
        self.shelf.is_moving = false;
        for ((key, generation), filed) in leaving.tasks.iter().zip(filed) {
            if is_in_memory(&self.made, *key, *generation)
                && let Some(made) = self.made.get_mut(*key)
            {
                let payload_bytes = std::mem::take(&mut made.spec.payload).len() as u64;
                made.filed = Some(*filed);
                self.shelf.bytes -= payload_bytes;
                self.shelf.payload_bytes -= payload_bytes;
            } else {
                out.push(Effect::Discarded(Bulk::Filed(*filed)));
            }
        }
        while let Some((key, generation)) = self.shelf.oldest.front()
            && !is_in_memory(&self.made, *key, *generation)
        {
            self.shelf.oldest.pop_front();
        }
        self.bound_lineage(out);
    }

    /// They could not be written: what is too much is forgotten.
    pub fn on_lineage_stays(&mut self, out: &mut Vec<Effect>) {
        self.shelf.is_moving = false;
        self.forget_oldest(out);
    }

    /// Forgets the oldest kept tasks until the others are not too much.
    fn forget_oldest(&mut self, out: &mut Vec<Effect>) {
        while self.shelf.bytes > self.shelf.bytes_max
            && let Some((key, generation)) = self.shelf.oldest.pop_front()
        {
            if !is_in_memory(&self.made, key, generation) {
                continue;
            }
            self.abandon(key, Some(EVICTED), WHY_EVICTED, out);
        }
    }

    /// Forgets a kept task though its values are held; those have `instead` for a lineage.
    pub(crate) fn abandon(&mut self, key: u32, instead: Option<u32>, why: &str, out: &mut Vec<Effect>) {
        let slots = self.made.get(key).map(Made::slots).unwrap_or_default();
        for slot in slots {
            let Some(object) = self.objects.get_mut(slot) else { continue };
            object.lineage = instead;
            if object.value.is_none() {
                // Its bytes were let go of, in the belief that it could be made again.
                self.set_value(slot, lost(why), Default::default(), out);
            }
        }
        let mut unheld = Vec::new();
        self.forget(key, &mut unheld, out);
        unheld.into_iter().for_each(|slot: Slot| self.free_if_unheld(slot, out));
    }

    /// The task runs again, and its arguments lie in this file.
    pub(crate) fn arguments_lie_in(&mut self, key: TaskKey, filed: Option<Filed>) {
        if let Some(filed) = filed {
            self.shelf.again.insert(key, filed);
        }
    }

    /// The file that the task's arguments lie in.
    #[must_use]
    pub(crate) fn arguments_filed(&self, key: TaskKey) -> Option<Filed> {
        self.shelf.again.get(&key).copied()
    }

    /// The task has ended: its file, if it has one, is the caller's now.
    #[inline]
    pub(crate) fn take_arguments_filed(&mut self, key: TaskKey) -> Option<Filed> {
        if self.shelf.again.is_empty() { None } else { self.shelf.again.remove(&key) }
    }

    /// Asks for the task's arguments, if they are in a file only. True if so: it waits for them.
    pub(crate) fn read_arguments(&mut self, key: TaskKey, out: &mut Vec<Effect>) -> bool {
        let Some(filed) = self.arguments_filed(key) else { return false };
        let is_away = |task: &&mut Task| (task.spec.payload.len() as u64) < filed.length;
        let Some(task) = self.task_mut(key).filter(is_away) else { return false };
        task.stage = Stage::Reading;
        out.push(Effect::ReadArguments { task: key, filed });
        true
    }

    /// The task's arguments were read from their file, or why they could not be.
    pub fn on_arguments_read(&mut self, key: TaskKey, read: Result<Vec<u8>, String>, out: &mut Vec<Effect>) {
        let Some(task) = self.task_mut(key).filter(|task| task.stage == Stage::Reading) else { return };
        match read {
            Ok(payload) => {
                task.spec.payload = payload;
                self.enter_again(key, out);
            }
            Err(why) => {
                let why = format!("the arguments of the task that made it are lost: {why}");
                self.finish_failed(key, Failure::Lost(why.into()), out);
            }
        }
    }

    /// LIN-3, and everything is counted.
    pub(crate) fn check_shelf(&self) {
        let (mut bytes, mut payload_bytes) = (0, 0);
        for (key, generation, made) in self.made.iter() {
            let length = made.spec.payload.len() as u64;
            (bytes, payload_bytes) = (bytes + TASK_BYTES + length, payload_bytes + length);
            assert!(made.filed.is_none() || length == 0, "LIN-3: arguments in memory and in a file");
            let is_queued = self.shelf.oldest.contains(&(key, generation));
            assert_eq!(is_queued, made.filed.is_none(), "LIN-3: {:?} never leaves, or twice", made.spec.id);
        }
        assert_eq!((self.shelf.bytes, self.shelf.payload_bytes), (bytes, payload_bytes), "LIN-3: miscounted");
        for (key, filed) in &self.shelf.again {
            let task = self.task(*key).unwrap_or_else(|| panic!("LIN-3: {filed:?} is kept for nothing"));
            let is_there = task.spec.payload.len() as u64 == filed.length;
            assert!(is_there || matches!(task.stage, Stage::Reading | Stage::Orphan), "LIN-3: no arguments");
        }
        for (key, task) in self.tasks().filter(|(_, task)| task.stage == Stage::Reading) {
            assert!(self.arguments_filed(key).is_some(), "LIN-3: {:?} waits for nothing", task.spec.id);
        }
    }
}

fn is_in_memory(made: &crate::table::Table<Made>, key: u32, generation: u32) -> bool {
    made.generation(key) == generation && made.get(key).is_some_and(|made| made.filed.is_none())
}
