//! Questions to a node, and its answers. Also visitors, which are no part of the session, may ask.

use model::{ActorDeath, ActorId, Bulk, FunctionId, GroupId, GroupOptions, ProcId};
use serde::{Deserialize, Serialize};

use crate::groups::{GroupMade, GroupStatus, WhichGroups};
use crate::members::ClusterStatus;
use crate::status::{ClusterInventory, Status};
use crate::waits::Waits;

/// Questions to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// A function's body.
    Function(FunctionId),
    /// An actor by name.
    ActorByName {
        /// Empty: the asker's own.
        namespace: Box<str>,
        /// The name.
        name: Box<str>,
    },
    /// Names of live actors.
    ActorNames {
        /// Empty and `all`: of every namespace.
        namespace: Box<str>,
        /// Of every namespace.
        all: bool,
    },
    /// Makes a placement group, owned by the asker's job or lasting actor; answered once it is registered. Repeating it changes nothing.
    CreateGroup {
        /// Chosen by the creator.
        group: GroupId,
        /// What it asks for.
        options: GroupOptions,
    },
    /// Removes a placement group. Repeating it changes nothing.
    RemoveGroup(GroupId),
    /// What is known of placement groups.
    Groups(WhichGroups),
    /// Resources in total and free.
    Resources,
    /// All there is to know, for `status`.
    Status,
    /// The nodes of the cluster: what they have, what is free, what waits.
    Cluster,
    /// End the daemon.
    Stop,
    /// Which objects there are in the cluster and who holds them: so many of each process, the largest first.
    Inventory {
        /// How many.
        limit: u32,
    },
    /// What waits: answered at once, and again whenever that has changed, until the asker leaves.
    WatchWaits,
    /// Answered once everything sent before was handled.
    Sync,
    /// A large value of another node, or one of this node that does not lie where it was first. Answered by `Fetched`, once it is here.
    Fetch {
        /// Its name: where it was first.
        bulk: Bulk,
        /// Only whether it is still somewhere.
        is_probe: bool,
    },
}

/// Why a large value of another node is not here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotFetched {
    /// It has moved, or was freed: its owner knows.
    Moved,
    /// Nobody has it any more.
    Lost(Box<str>),
    /// Neither the store nor a disk of this node has room for it.
    Full(Box<str>),
    /// It cannot be had now, which may change.
    Later(Box<str>),
}

/// The answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The body, or none after waiting for it in vain.
    Function(#[serde(with = "serde_bytes")] Option<Vec<u8>>),
    /// The actor, and its class's spec for making a handle.
    Actor(Option<NamedActor>),
    /// (namespace, name).
    ActorNames(Vec<(Box<str>, Box<str>)>),
    /// What became of a group that was to be made.
    GroupMade(GroupMade),
    /// The groups that were asked for.
    Groups(Vec<GroupStatus>),
    /// By public name, in ten-thousandths.
    Resources {
        /// What the node has.
        total: Vec<(Box<str>, i64)>,
        /// What is free.
        free: Vec<(Box<str>, i64)>,
    },
    /// See `Status`.
    Status(Box<Status>),
    /// The number of the node that was asked, and all nodes.
    Cluster(Box<ClusterStatus>),
    /// See `ClusterInventory`.
    Inventory(Box<ClusterInventory>),
    /// See `Waits`.
    Waits(Box<Waits>),
    /// Done.
    Done,
    /// Where a copy of the value lies on this node, for a while at least. Who does not find it there asks again.
    Fetched(Result<Bulk, NotFetched>),
}

/// What `get_actor` needs to make a handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedActor {
    /// The actor.
    pub actor: ActorId,
    /// As it was created with.
    pub spec: Vec<u8>,
}

/// What came of an actor's registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ActorRegistration {
    /// It is new.
    Created,
    /// That one had the name.
    Existing(NamedActor),
    /// Another one has the name.
    NameTaken,
}

/// Where an actor is, as a caller needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ActorPlace {
    /// Not there yet.
    Pending,
    /// There.
    Alive {
        /// The worker.
        worker: ProcId,
        /// Its pid, for errors.
        pid: i32,
    },
    /// On its way back.
    Restarting,
    /// Gone.
    Dead(ActorDeath),
}
