//! The nodes of a cluster: what they know of each other, and what a node must know of a job whose driver is elsewhere.

use model::{JobId, NodeId, ProcId, Resources};
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
    /// How many leases waited there then.
    pub waiting: u32,
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
