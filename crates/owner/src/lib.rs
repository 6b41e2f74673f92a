//! The brain of a process that submits work: which task may run, where it is pushed, what becomes of it when something dies, and how
//! long each value is kept.
//!
//! Pure: every `on_...` method is an event; what shall be done comes out as `Effect`s. No clock, thread, socket or random source. The
//! hot path calls these very methods, and so does the simulator.
//!
//! - **OWN-1** every submitted task ends exactly once: all its objects get a value or a failure, and never another one.
//! - **OWN-2** an object is freed only when no handle, no pending task, no container and no borrower holds it.
//! - **OWN-3** a task is under way on at most one worker.
//! - **OWN-4** a task that may have run is run again only if its retries allow; one that certainly did not start costs no retry.
//! - **KEEP-1..3** see `keeping.rs`.
//! - **LIN-1..4** see `lineage.rs` and `shelf.rs`.
//! - **OWN-5** calls of one caller on an ordered group of an actor's methods are pushed in the order of submission.
//! - **OWN-6** see `past.rs`.
//! - **GIFT-1** see `gifts.rs`.
//! - **STREAM-1** the reader of a stream gets each value of its generator once and in order, over all runs of the generator.
//! - **STREAM-2** behind the values comes at most one failure, then the end, and nothing after that.

mod actors;
mod borrow;
mod cancel;
mod effect;
mod estate;
mod free;
mod gifts;
mod heirs;
mod invariants;
mod keeping;
mod lineage;
mod moving;
mod objects;
mod packed;
mod past;
mod pool;
mod promises;
mod records;
mod replay;
mod shelf;
mod stream;
mod table;
mod tasks;
mod will;

use std::collections::VecDeque;

use model::{ActorId, ObjectId, ProcId, TaskId, TaskKey};
use rustc_hash::{FxHashMap, FxHashSet};

pub use actors::{ActorNews, Callee, CalleeState, GroupFacts, Hold};
pub use borrow::Kept;
pub use effect::{Effect, Slot, Value};
pub use estate::{ADOPTED, Heirloom, Legacy};
pub use gifts::{Gift, Gifts};
pub use heirs::{Heard, Heirs, Knew, Known, Late};
pub use keeping::{Chore, Claim, Counts, Keeping, Words};
pub use moving::Movable;
pub use objects::Object;
pub use packed::Packed;
pub use pool::{LEASE_IDLE_MS, PIPELINE_MAX};
pub use records::{Recorded, TaskFacts};
pub use shelf::Leaving;
pub use stream::{Next, StreamKey};
pub use tasks::{Spec, Stage, Submitted, Target, Task};
pub use will::{Bequest, Estate, Left, Ref, Will};

use crate::lineage::Made;
use crate::past::Past;
use crate::pool::Pool;
use crate::shelf::Shelf;
use crate::stream::Stream;
use crate::table::Table;

/// Everything one process owns or borrows.
#[derive(Default)]
pub struct Owner {
    pub(crate) tasks: Table<Task>,
    pub(crate) objects: Table<Object>,
    /// Tasks that have ended and whose large values can be made again.
    pub(crate) made: Table<Made>,
    /// How much memory they take.
    pub(crate) shelf: Shelf,
    pub(crate) streams: Table<Stream>,
    /// Shares of values that are still to come; see `stream.rs`.
    pub(crate) early_shares: FxHashMap<ObjectId, Vec<(ProcId, i32)>>,
    /// Objects that somebody else may name to us, or that somebody else owns.
    pub(crate) by_id: FxHashMap<ObjectId, Slot>,
    pub(crate) pools: Vec<Pool>,
    pub(crate) pool_of: FxHashMap<model::Need, usize>,
    /// Pools of placement groups that nothing uses any more.
    pub(crate) vacant_pools: Vec<usize>,
    pub(crate) leases: FxHashMap<u64, usize>,
    pub(crate) lease_of_worker: FxHashMap<ProcId, u64>,
    pub(crate) lease_next: u64,
    pub(crate) callees: FxHashMap<ActorId, Callee>,
    pub(crate) actor_of_worker: FxHashMap<ProcId, ActorId>,
    pub(crate) past: Past,
    /// Objects that get their value from the node.
    pub(crate) promised: FxHashSet<Slot>,
    pub(crate) freeing: Vec<Slot>,
    /// Tasks of whose failure the user was told, while others of their values have it.
    pub(crate) told_of: FxHashSet<TaskId>,
    /// Tasks that an argument of theirs has come for, to be told one after the other.
    pub(crate) readied: VecDeque<TaskKey>,
    pub(crate) is_telling: bool,
    pub(crate) submitted: u64,
    /// Counts looks at large values.
    pub(crate) touches: u64,
    /// How often a task that may be tried again is run again after its worker was killed for want of memory.
    pub(crate) oom_retries_max: i32,
    /// Others live on when this process dies: what it gives away is recorded.
    pub(crate) is_mortal: bool,
    /// Tasks of dead processes that run where those had sent them, on workers that we have no lease on.
    pub(crate) orphans: Vec<TaskKey>,
}

impl Owner {
    /// Owns nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { oom_retries_max: -1, ..Self::default() }
    }

    /// How often a task that may be tried again is run again after its worker was killed for want of memory; below zero: any
    /// number of times. Holds for what is submitted from now on.
    pub fn set_oom_retries(&mut self, most: i32) {
        self.oom_retries_max = most;
    }

    /// Tasks that have not ended.
    #[must_use]
    pub fn tasks_pending(&self) -> usize {
        self.tasks.len()
    }

    /// Objects that are kept.
    #[must_use]
    pub fn objects_kept(&self) -> usize {
        self.objects.len()
    }
}

#[cfg(test)]
mod tests;
