//! What the owner wants done, and the values it keeps.

use std::sync::Arc;

use model::{ActorId, Bulk, Failure, Filed, Need, ObjectId, ProcId, TaskKey};

use crate::Packed;
use crate::records::Recorded;

/// An object's place in the owner's table. Valid while somebody holds the object.
pub type Slot = u32;

/// What an object turned out to be. Programs hold millions: `owner/src/objects.rs` counts the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Small: the encoded bytes.
    Inline(Packed),
    /// Large: where it lies.
    Bulk(Box<Bulk>),
    /// None; why.
    Failed(Arc<Failure>),
}

impl Value {
    /// A large one.
    #[must_use]
    pub fn bulk(bulk: Bulk) -> Self {
        Self::Bulk(Box::new(bulk))
    }

    /// Where it lies, if it is large.
    #[must_use]
    pub fn as_bulk(&self) -> Option<Bulk> {
        match self {
            Self::Bulk(bulk) => Some(**bulk),
            Self::Inline(_) | Self::Failed(_) => None,
        }
    }
}

/// What shall be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send the task to the worker.
    Push {
        /// The task.
        task: TaskKey,
        /// The worker.
        worker: ProcId,
    },
    /// Try to take the task back before it starts; if that works, say `on_took_back`, else nothing: it will answer.
    TakeBack {
        /// The task.
        task: TaskKey,
        /// From whom.
        worker: ProcId,
    },
    /// Ask the node for a worker.
    RequestLease {
        /// Ours.
        number: u64,
        /// For what.
        need: Need,
        /// Which function waits, for people.
        name: Box<str>,
    },
    /// Give a lease back, or take the request back.
    ReturnLease {
        /// Ours.
        number: u64,
    },
    /// The object has its value or failure: tell whoever waits.
    Resolved(Slot),
    /// The object has no value any more: it is lost, or was let go of.
    Unresolved(Slot),
    /// The object is gone: its slot may be given out again; its bytes, if it was large and ours, are free.
    Freed {
        /// The slot of the object.
        slot: Slot,
        /// Where its value lay.
        bulk: Option<Bulk>,
    },
    /// A large value came for nobody, or lies elsewhere now: its bytes are free.
    Discarded(Bulk),
    /// Ask the owner of a borrowed object for its value.
    Want {
        /// The owner of the object.
        owner: ProcId,
        /// The object.
        object: ObjectId,
    },
    /// Answer somebody who wanted one of our objects.
    Have {
        /// The process that is told.
        to: ProcId,
        /// The object.
        object: ObjectId,
        /// Its value.
        value: Value,
    },
    /// Tell an owner that `borrower` holds `count` more (or, below zero, fewer) shares of its object.
    Borrowed {
        /// The owner of the object.
        owner: ProcId,
        /// The object.
        object: ObjectId,
        /// Who holds it.
        borrower: ProcId,
        /// How many more.
        count: i32,
    },
    /// Tell the worker how many of the task's items were read: it may go on by as many.
    Consumed {
        /// The task.
        task: TaskKey,
        /// The worker.
        worker: ProcId,
        /// So many; `u32::MAX`: nobody reads any more.
        count: u32,
    },
    /// Ask the owner of a borrowed object to free it.
    AskFree {
        /// The owner of the object.
        owner: ProcId,
        /// The object.
        object: ObjectId,
    },
    /// Tell somebody who has a copy of our value, or knows where it lies, that it was freed.
    Unreadable {
        /// The process that is told.
        to: ProcId,
        /// The object.
        object: ObjectId,
        /// Stands for its bytes: a share of this was counted for them.
        bytes: ObjectId,
    },
    /// The last reference to an error of a task of ours went, and nobody had read it.
    Unread {
        /// The object.
        object: ObjectId,
        /// The error.
        failure: Arc<Failure>,
    },
    /// Interrupt the task if it runs; `force`: end the worker.
    Interrupt {
        /// The task.
        task: TaskKey,
        /// The worker.
        worker: ProcId,
        /// End the worker.
        force: bool,
        /// And what it started.
        recursive: bool,
    },
    /// Write the arguments of the oldest kept tasks to a file, see `lineage_to_move`.
    MoveLineage,
    /// Read the arguments of a task that runs again, and say `on_arguments_read`.
    ReadArguments {
        /// The task.
        task: TaskKey,
        /// Where they lie.
        filed: Filed,
    },
    /// Look at the large arguments of a task whose worker says that one is not there. Say `on_lost` and `on_stale` of those that are not, and
    /// then `on_arguments_looked`.
    LookForArguments {
        /// The task.
        task: TaskKey,
        /// What the worker said.
        why: Box<str>,
    },
    /// Write this into the journal, in place of what stood there before of it.
    Record(Recorded),
    /// This record is not needed any more.
    Erase(u32),
    /// A recorded task is with no worker any more.
    Note(TaskKey),
    /// Ask the node where this actor is: a call on it was made, and nothing is known of it here.
    AskActor(ActorId),
    /// The last handle of an actor that we made is gone, and its calls are done.
    ActorUnreachable(ActorId),
}
