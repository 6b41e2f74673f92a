//! What a node says about itself to people: who is there, who waits, which objects there are.

use model::{ActorId, ObjectId, ProcId};
use serde::{Deserialize, Serialize};

use crate::waits::WaitRecord;

/// A node at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// By public name, in ten-thousandths.
    pub total: Vec<(Box<str>, i64)>,
    /// What is free.
    pub free: Vec<(Box<str>, i64)>,
    /// Bytes of the arena in use, and in all.
    pub store: (u64, u64),
    /// Large values of other nodes that have a copy here, and values that are kept here for processes of other nodes.
    pub values: (u64, u64),
    /// Pid of the process that hosts the node.
    pub pid: i32,
    /// Every process but the node.
    pub processes: Vec<ProcessStatus>,
    /// Every actor that is not dead.
    pub actors: Vec<ActorStatus>,
    /// Leases that wait: function, what for, how long.
    pub waiting: Vec<WaitRecord>,
}

/// What a process is and does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessState {
    /// It has not joined yet.
    #[default]
    Starting,
    /// A program.
    Driver,
    /// The part of the node that takes over from processes that die.
    Keeper,
    /// A worker without a task or actor.
    Idle,
    /// A worker: the function that it runs, or the class of its actor.
    Busy(Box<str>),
}

/// How far an actor that is not dead is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ActorPhase {
    /// It has no process yet.
    Pending,
    /// It answers.
    Alive,
    /// Its process died, another one is to come.
    Restarting,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Its pid.
    pub pid: i32,
    /// What it is and does.
    pub state: ProcessState,
    /// Memory that it shares with nobody; zero if it cannot be measured.
    pub own_bytes: u64,
    /// What it says it waits for.
    pub waits: Vec<WaitRecord>,
}

/// One actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorStatus {
    /// The actor.
    pub actor: ActorId,
    /// Its class.
    pub class_name: Box<str>,
    /// Its name, if it has one.
    pub name: Box<str>,
    /// How far it is.
    pub phase: ActorPhase,
    /// Of its worker; zero if it has none.
    pub pid: i32,
}

/// Which objects there are in the cluster, as the node that was asked has heard it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterInventory {
    /// Of the node that was asked.
    pub own: NodeInventory,
    /// Of the others, by number.
    pub others: Vec<NodeInventory>,
    /// Numbers of the nodes that did not answer in time.
    pub silent: Vec<u32>,
}

/// What one node of the cluster said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInventory {
    /// Its number.
    pub node: u32,
    /// Its host; empty if it belongs to no cluster.
    pub name: Box<str>,
    /// What it said.
    pub inventory: Inventory,
}

/// Which objects there are on a node, who holds them, and what else is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// What each process said.
    pub processes: Vec<Holdings>,
    /// Pids of those that did not answer in time.
    pub silent: Vec<i32>,
    /// Bytes of the arena in use, and in all.
    pub store: (u64, u64),
    /// Of those in use: left behind by processes that are gone.
    pub orphaned: u64,
    /// Files with values, and their bytes.
    pub files: (u64, u64),
    /// Resources by public name, in ten-thousandths: what there is and what is free.
    pub resources: Vec<(Box<str>, i64, i64)>,
    /// Leases that wait.
    pub leases_waiting: u64,
}

/// What one process holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holdings {
    /// The process.
    pub process: ProcId,
    /// Its pid.
    pub pid: i32,
    /// What it is and does; filled in by the node.
    pub state: ProcessState,
    /// The largest.
    pub objects: Vec<ObjectRow>,
    /// How many there are in all.
    pub objects_count: u64,
    /// Tasks that it submitted and that have not ended.
    pub tasks: u64,
    /// Objects in the arena that it looks at.
    pub pins: u64,
    /// Bytes in blocks of its in the arena.
    pub store_bytes: u64,
    /// Files with values of its.
    pub files: u64,
}

/// One object, as one process sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRow {
    /// The object.
    pub object: ObjectId,
    /// The owner of the object.
    pub owner: ProcId,
    /// Where its value is.
    pub state: Whereabouts,
    /// Of the encoded value, as far as it is known.
    pub bytes: u64,
    /// Nodes on which its value lies, as far as the process knows.
    pub nodes: Vec<u32>,
    /// Handles in the process.
    pub handles: u32,
    /// Pending tasks and containers that use it.
    pub uses: u32,
    /// Other processes that borrow it.
    pub borrowers: u32,
    /// It stands for an actor.
    pub is_actor: bool,
    /// Where in the program its ref was made, if that is recorded.
    pub site: Box<str>,
}

/// Where an object's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whereabouts {
    /// Not there yet, or not known here.
    Pending,
    /// With its owner.
    Inline,
    /// In the arena.
    Stored,
    /// In a file.
    Filed,
    /// There is none: it failed.
    Failed,
}

impl Whereabouts {
    /// As people read it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Inline => "inline",
            Self::Stored => "stored",
            Self::Filed => "filed",
            Self::Failed => "failed",
        }
    }
}
