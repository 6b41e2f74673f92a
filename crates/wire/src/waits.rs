//! What is not going on, as data: who waits, on what, for how long, and what would end it. `words` makes sentences of it, for people.
//!
//! Ages travel, not times: the clocks of two machines need not agree.

use model::{ActorId, GroupId, ObjectId, Resources};
use serde::{Deserialize, Serialize};

/// Something that is not going on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitRecord {
    /// Who waits.
    pub who: Waiter,
    /// On what.
    pub on: Awaited,
    /// For how long when it was said.
    pub waited_ms: u64,
}

/// All that waits on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// What processes said, by pid.
    pub processes: Vec<(i32, Vec<WaitRecord>)>,
    /// What the node has not given yet: leases, actors, placement groups.
    pub node: Vec<WaitRecord>,
}

impl Waits {
    /// The same without ages: equal as long as the same waits for the same.
    #[must_use]
    pub fn ageless(&self) -> Self {
        let without = |records: &[WaitRecord]| -> Vec<WaitRecord> {
            records.iter().map(|record| WaitRecord { waited_ms: 0, ..record.clone() }).collect()
        };
        Self {
            processes: self.processes.iter().map(|(pid, records)| (*pid, without(records))).collect(),
            node: without(&self.node),
        }
    }
}

/// Who waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waiter {
    /// A thread of the process that says so, in this call.
    Thread(Verb),
    /// Tasks of one function that the process submitted and that wait for the same.
    Tasks {
        /// The function.
        name: Box<str>,
        /// How many.
        count: u32,
    },
    /// A request for a worker, at the node.
    Lease {
        /// The function that it is for.
        name: Box<str>,
        /// The process that asked.
        pid: i32,
    },
    /// An actor that has no process.
    Actor(ActorId),
    /// A placement group that has no bundles.
    Group(GroupId),
}

/// A call that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// `get`.
    Get,
    /// `wait`.
    Wait,
    /// The next value of a generator.
    Next,
    /// `put`.
    Put,
    /// A generator that may not go on.
    Yield,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Awaited {
    /// Objects that have no value yet.
    Objects {
        /// How many have none.
        missing: u32,
        /// Of how many.
        of: u32,
        /// The first of them, each with what the task that makes it waits for, if that is known here.
        first: Vec<(ObjectName, Option<Awaited>)>,
    },
    /// An argument of the task.
    Argument(Option<ObjectName>),
    /// Any worker.
    Worker,
    /// An actor that is not there yet, or busy.
    Actor(ActorId),
    /// A process that has the call.
    Process {
        /// The process.
        pid: i32,
        /// It serves this actor.
        actor: Option<ActorId>,
        /// The call runs there. Else others come before it.
        has_started: bool,
    },
    /// An actor whose process died: it is started again, or not.
    Restart,
    /// A look for an argument that the worker did not find.
    Look,
    /// Arguments that are read from a file.
    Arguments,
    /// Word of what became of a task whose submitter died.
    Testimony,
    /// So many bytes of room in the object store.
    Room(u64),
    /// Whoever reads the values of a generator, which has given so many.
    Reader(u32),
    /// Resources of a node.
    Resources {
        /// Why they are not given.
        why: LeaseReason,
        /// What is asked for.
        need: Resources,
    },
    /// All bundles of a placement group at one time.
    Bundles(Vec<Resources>),
}

/// Why a request for a worker waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseReason {
    /// Others have the resources.
    InUse,
    /// The resources are there, a process is not yet.
    Starting,
    /// No node has as much.
    Infeasible,
    /// Nothing new starts while memory is low.
    LowMemory,
    /// As many as may be are blocked in tasks of its kind.
    Capped,
    /// There are as many workers as the node can have.
    NoMoreWorkers,
}

/// What would end a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ender<'a> {
    /// This process, by going on.
    Process(i32),
    /// The end of this task.
    Task(&'a str),
    /// This actor, by being there or done with what comes before.
    Actor(ActorId),
    /// Somebody who gives resources or room back.
    Release,
    /// A machine that has what is asked for.
    Machine,
    /// The engine, by itself.
    Engine,
}

/// An object, as far as it is known where it is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectName {
    /// The object; none if it is gone.
    pub object: Option<ObjectId>,
    /// The function whose task makes it, if that was submitted here.
    pub task: Option<Box<str>>,
    /// The process that owns it, if that is another.
    pub owner_pid: Option<i32>,
}

impl ObjectName {
    fn ender(&self) -> Ender<'_> {
        match (&self.task, self.owner_pid) {
            (Some(task), _) => Ender::Task(task),
            (None, Some(pid)) => Ender::Process(pid),
            (None, None) => Ender::Engine,
        }
    }
}

impl Awaited {
    /// What would end the wait, as far as one thing would.
    #[must_use]
    pub fn ender(&self) -> Ender<'_> {
        match self {
            // What its maker waits for is nearer to the cause than the maker is.
            Self::Objects { first, .. } => match first.first() {
                Some((_, Some(on))) => on.ender(),
                Some((name, None)) => name.ender(),
                None => Ender::Engine,
            },
            Self::Argument(name) => name.as_ref().map_or(Ender::Engine, ObjectName::ender),
            Self::Actor(actor) => Ender::Actor(*actor),
            Self::Process { pid, .. } => Ender::Process(*pid),
            Self::Worker | Self::Room(_) | Self::Bundles(_) => Ender::Release,
            Self::Restart | Self::Look | Self::Arguments | Self::Testimony | Self::Reader(_) => Ender::Engine,
            Self::Resources { why, .. } => match why {
                LeaseReason::InUse | LeaseReason::LowMemory | LeaseReason::Capped | LeaseReason::NoMoreWorkers => {
                    Ender::Release
                }
                LeaseReason::Infeasible => Ender::Machine,
                LeaseReason::Starting => Ender::Engine,
            },
        }
    }
}
