//! The nodes of a cluster: what they know of each other, and what a node must know of a job whose driver is elsewhere.

use model::{ActorId, JobId, LeaseId, Need, NodeId, ProcId, Resources};
use serde::{Deserialize, Serialize};

use crate::surroundings::Surroundings;

/// A node, as it presents itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Its number; the head has the first.
    pub number: u32,
    /// Tells it from one that had its number by mistake: see `session`.
    pub life: u64,
    /// Its id.
    pub id: NodeId,
    /// Where it listens, as host and port; none: it only dials.
    pub addresses: Vec<Box<str>>,
    /// Its host.
    pub name: Box<str>,
    /// Of the process that hosts it.
    pub pid: i32,
    /// It is a driver's own, without resources.
    pub is_guest: bool,
    /// What it has.
    pub total: Resources,
    /// What else is said of it.
    pub labels: Vec<(Box<str>, Box<str>)>,
}

/// A node, as people are told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// What it is.
    pub info: NodeInfo,
    /// What was free when it last said so.
    pub free: Resources,
    /// What waited there then: what each lease asks for, and how many.
    pub waiting: Vec<(Need, u32)>,
    /// Why it is gone; none: it belongs to the cluster.
    pub gone: Option<Box<str>>,
}

/// What a node is told of a job whose driver is elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobHome {
    /// The job.
    pub job: JobId,
    /// Namespace of its actors' names.
    pub namespace: Box<str>,
    /// For its workers.
    pub surroundings: Surroundings,
    /// Its driver.
    pub driver: ProcId,
    /// Whether workers' output is sent to that.
    pub logs: bool,
}

/// What a node tells the head of its work, whenever that has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// What is free.
    pub free: Resources,
    /// What waits and may run on any node: so many leases for tasks of each need.
    pub demands: Vec<(Need, u32)>,
}

/// An actor's life that is to begin on the receiving node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lodging {
    /// Names the request.
    pub lease: LeaseId,
    /// The actor.
    pub actor: ActorId,
    /// Counts its lives.
    pub incarnation: u32,
    /// What it asks for.
    pub need: Need,
    /// Its job.
    pub job: JobId,
}
