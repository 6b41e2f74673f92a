//! The nodes of a cluster: what they know of each other, and what a node must know of a job whose driver is elsewhere.

use model::{ActorId, GroupId, JobId, LeaseId, Need, NodeId, ProcId, Resources};
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

/// Names and addresses of a node, at most.
const NAME_BYTES_MAX: usize = 256;
const VALUE_BYTES_MAX: usize = 1_024;
const ADDRESSES_MAX: usize = 16;
const NAMES_MAX: usize = 1_024;
/// More of anything than a machine has: sums over all nodes stay far below where numbers end.
const AMOUNT_MAX: i64 = 1 << 53;

impl NodeInfo {
    /// Whether a node may be like this. What it says of itself ends on terminals, in sums and in lookups of all others.
    ///
    /// # Errors
    /// With what is wrong, for its user.
    pub fn check(&self) -> Result<(), String> {
        let is_text = |text: &str, bytes_max: usize| text.len() <= bytes_max && !text.chars().any(char::is_control);
        let is_name = |text: &str| !text.is_empty() && is_text(text, NAME_BYTES_MAX);
        if !is_name(&self.name) {
            return Err(format!("its name has control characters, or not between 1 and {NAME_BYTES_MAX} bytes"));
        }
        let is_address = |text: &str| {
            let parsed = text.parse::<std::net::SocketAddr>();
            parsed.is_ok_and(|address| address.port() != 0 && !address.ip().is_unspecified())
        };
        if self.addresses.len() > ADDRESSES_MAX || !self.addresses.iter().all(|address| is_address(address)) {
            return Err("an address of it is none that others can reach".into());
        }
        let is_label = |(key, value): &(Box<str>, Box<str>)| is_name(key) && is_text(value, VALUE_BYTES_MAX);
        if self.labels.len() > NAMES_MAX || !self.labels.iter().all(is_label) {
            return Err(format!(
                "its labels are too many or too long, or have control characters: at most {NAMES_MAX}"
            ));
        }
        if self.total.nesting != 0 || !self.total.is_sorted() || self.total.iter().count() > NAMES_MAX {
            return Err("its resources are in no order, or too many".into());
        }
        match self.total.iter().find(|(name, amount)| !is_name(name) || !(0..=AMOUNT_MAX).contains(&amount.0)) {
            Some((name, amount)) => Err(format!("it says that it has {} of {name:.64?}", amount.as_f64())),
            None => Ok(()),
        }
    }
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

/// The cluster, as people are told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// The node that was asked.
    pub asked: u32,
    /// All nodes, those that are gone behind the others.
    pub nodes: Vec<NodeStatus>,
    /// What waits and can be had nowhere, and what is missing where least is: one line for each.
    pub infeasible: Vec<Box<str>>,
    /// What went where lately and why there, the oldest first.
    pub decisions: Vec<Decided>,
}

/// One decision of the head's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// How long ago.
    pub ago_ms: u64,
    /// On what.
    pub what: Box<str>,
    /// How many of it.
    pub count: u32,
    /// The node where it waited.
    pub from: u32,
    /// The node where it went.
    pub to: u32,
    /// Why there.
    pub why: Box<str>,
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
    /// What waits and may be had on other nodes, of each need so much.
    pub demands: Vec<Waiting>,
    /// What is free of bundles of groups, where that has changed.
    pub bundles: Vec<(GroupId, u16, Resources)>,
}

/// Leases that wait on a node and ask for the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// What each asks for.
    pub need: Need,
    /// How many.
    pub count: u32,
    /// They are for actors, and not for tasks.
    pub is_actor: bool,
    /// They are not to be had there, or only if the head says so.
    pub seeks: bool,
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

#[cfg(test)]
mod tests {
    use super::NodeInfo;
    use model::{NodeId, Quantity, Resources};

    fn info() -> NodeInfo {
        let mut total = Resources::cpus(4);
        total.set("memory", Quantity(64 << 30));
        total.set("node:10.0.0.7", Quantity::whole(1));
        NodeInfo {
            number: 2,
            life: 3,
            id: NodeId([1; 28]),
            addresses: vec!["10.0.0.7:6379".into(), "[fe80::1]:6379".into()],
            name: "größe-7".into(),
            pid: 9,
            is_guest: false,
            total,
            labels: vec![("ray.io/zone".into(), "".into())],
        }
    }

    #[test]
    fn a_node_as_they_are_may_come_in() {
        assert_eq!(info().check(), Ok(()));
    }

    #[test]
    fn one_that_talks_nonsense_is_told_what_is_wrong() {
        type Spoil = fn(&mut NodeInfo);
        let cases: [(&str, Spoil); 10] = [
            ("name", |info| info.name = "".into()),
            ("name", |info| info.name = "a\u{1b}[2J".into()),
            ("name", |info| info.name = "a".repeat(257).into()),
            ("address", |info| info.addresses = vec!["0.0.0.0:1".into()]),
            ("address", |info| info.addresses = vec!["head".into()]),
            ("address", |info| info.addresses = vec!["10.0.0.7:6379".into(); 17]),
            ("labels", |info| info.labels = vec![("a".into(), "b".into()); 1_025]),
            ("labels", |info| info.labels = vec![("a".into(), "\n".into())]),
            ("-1 of \"CPU\"", |info| info.total.set("CPU", Quantity::whole(-1))),
            ("of \"x\"", |info| info.total.set("x", Quantity(i64::MAX))),
        ];
        for (what, spoil) in cases {
            let mut info = info();
            spoil(&mut info);
            let error = info.check().unwrap_err();
            assert!(error.contains(what), "{what}: {error}");
        }
    }
}
