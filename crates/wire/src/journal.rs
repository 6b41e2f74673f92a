//! Records in a process's journal: what whoever takes over from it must know of the objects that it gave away.

use model::{ActorId, Filed, ObjectId, ProcId, TaskId, Template};
use serde::{Deserialize, Serialize};

use crate::peer::Content;

/// A reference: which object, and who owns it.
pub type Ref = (ObjectId, ProcId);

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// An object that others may ask for, or that a recorded task needs.
    Object {
        /// The object.
        id: ObjectId,
        /// Its value; none while its task has not ended.
        content: Option<Content>,
    },
    /// A task that makes recorded objects, or has made large ones and can do so again.
    Task(Box<TaskRecord>),
}

/// Where a task's arguments are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    /// Here.
    Inline(Vec<u8>),
    /// In a file, which stays as long as the record.
    Filed(Filed),
}

/// A task, as far as it takes to run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// What replies call it; none of one that has ended.
    pub request: Option<u64>,
    /// The task.
    pub id: TaskId,
    /// What it shares with other calls.
    pub template: Template,
    /// The actor that it calls.
    pub actor: Option<ActorId>,
    /// Whether calls on that actor keep their order.
    pub is_ordered: bool,
    /// Arguments, encoded.
    pub payload: Payload,
    /// Arguments that are references.
    pub deps: Vec<Ref>,
    /// References inside arguments.
    pub contains: Vec<Ref>,
    /// The objects that it makes; none for those that nobody holds any more.
    pub returns: Vec<Option<ObjectId>>,
    /// Its number among the tasks of its owner.
    pub number: u64,
}
