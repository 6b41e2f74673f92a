//! Between two processes of which one holds a value, a task or a reference that the other one owns. Carried by the node, so that
//! it works between any two processes, with or without a ring.

use model::{Bulk, Failure, ObjectId, Place, ProcId, TaskId};
use serde::{Deserialize, Serialize};

use crate::journal::Ref;

/// A value as it travels in cold messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// The value itself, encoded. As a block: byte by byte a large one would hold its node up.
    Inline(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Where it lies.
    Bulk(Bulk),
    /// Where it lies on another node, and the references in it. In journals: who takes over cannot look.
    Away(Bulk, Vec<Ref>),
    /// There is none.
    Failed(Failure),
}

/// A process holds more or fewer shares of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// The object.
    pub object: ObjectId,
    /// The process that holds them.
    pub borrower: ProcId,
    /// How many more; below zero: fewer.
    pub count: i32,
}

/// What the sender of a message knew of the deaths of those that left something, when it registered what the message gives away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Knew {
    /// To a process of its own node, where all hear of such deaths in one order: how many.
    Count(u16),
    /// To a process of another node: which of the owners that the message names, and of the others.
    Dead(Vec<ProcId>),
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Peer {
    /// To an owner: tell me when this object has a value. Repeating it gives the same answer again.
    Want {
        /// The object.
        object: ObjectId,
    },
    /// To an owner: the object is not where you said. Then as `Want`.
    Missing {
        /// The object.
        object: ObjectId,
        /// What was said.
        bulk: Bulk,
    },
    /// From an owner: here it is. The owner keeps it while the borrower holds shares of it.
    Have {
        /// The object.
        object: ObjectId,
        /// Its value.
        content: Content,
        /// Of a large one: the references in it, of which shares were counted. It may not lie there any more when this is read.
        refs: Vec<Ref>,
        /// What the sender knew when it registered what the value gives away.
        knew: Knew,
    },
    /// To an owner: processes hold more (or fewer) shares of your objects. In this order: whoever passes a share on is counted after who
    /// gets it.
    Borrowed(Vec<Shares>),
    /// To an owner: the next thing that the sender puts into its ring to `to` names these objects, and gives it a share of each. The sender
    /// may die before it has done so: then `to` knows fewer gifts than this number.
    Given {
        /// Who gets them.
        to: ProcId,
        /// Counts the gifts of this sender to that receiver.
        number: u64,
        /// The objects that are given.
        objects: Vec<ObjectId>,
    },
    /// How many gifts of this process, which is dead, have come?
    CountGifts {
        /// Who gave.
        from: ProcId,
    },
    /// Answers `CountGifts`.
    GiftsCounted {
        /// Who gave.
        from: ProcId,
        /// How many have come.
        count: u64,
    },
    /// To an owner: cancel the task that makes this object.
    CancelObject {
        /// The object.
        object: ObjectId,
        /// Kill the worker if it runs.
        force: bool,
        /// Cancel what it started, too.
        recursive: bool,
    },
    /// To an owner: nobody shall read this object any more.
    Free {
        /// The object.
        object: ObjectId,
    },
    /// From an owner, to whoever has a copy or knows where it lies: nobody reads this object any more.
    Unreadable {
        /// The object.
        object: ObjectId,
        /// Stands for its bytes; the receiver holds one share of it, and gives that back once it reads them no more.
        bytes: ObjectId,
    },
    /// To whoever allocated it: the value that lay there is gone.
    FreePlace(Place),
    /// To whoever allocated it, from its own node: the value that lies there is kept for a process of another node, which does not answer for
    /// it. `FreePlace` follows, whoever dies.
    KeepPlace(Place),
    /// To a worker: interrupt this task if it runs there; nothing happens if it does not.
    Interrupt {
        /// The task.
        task: TaskId,
        /// Cancel what it started, too.
        recursive: bool,
    },
    /// To the heir of a dead process: what came of a call of its. As a reply in a ring.
    Reply {
        /// Who called.
        caller: ProcId,
        /// What the caller called it.
        request: u64,
        /// As in the frame's header.
        flags: u8,
        /// What the sender knew when it registered what the reply gives away.
        knew: Knew,
        /// As in the frame.
        #[serde(with = "serde_bytes")]
        body: Vec<u8>,
    },
    /// To the heir of a dead process: what the sender had to do with it. In several parts if it is much.
    Testimony(Testimony),
    /// From the heir, once everyone has testified: take up all that has come in, and say `Settled`.
    Settle {
        /// Who is dead.
        of: ProcId,
    },
    /// Answers `Settle`.
    Settled {
        /// Who is dead.
        of: ProcId,
    },
}

/// What a process had to do with one that is dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Testimony {
    /// Who is dead.
    pub of: ProcId,
    /// Objects of the dead that the sender holds. One share of each counts for it from now on, whatever counted before.
    pub held: Vec<ObjectId>,
    /// Shares of the sender's objects that counted for the dead, and count for the heir now.
    pub lent: Vec<(ObjectId, i32)>,
    /// Calls of the dead that the sender will answer.
    pub serving: Vec<u64>,
    /// Values in the sender's extents that belonged to the dead.
    pub given: Vec<Place>,
    /// Nothing comes behind this.
    pub is_last: bool,
}
