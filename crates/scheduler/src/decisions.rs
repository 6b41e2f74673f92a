//! What was decided lately, for whoever asks why something runs where it does.

use std::collections::VecDeque;
use std::fmt;

use model::{GroupId, Need, Tick};

use crate::{Demand, LeaseKind};

/// So many are remembered.
const KEPT_MAX: usize = 256;

/// Why something went to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It had the most idle cores, in parts of all.
    MostIdle,
    /// There was room where it was asked for.
    RoomAtHome,
    /// It had the fewest actors for each core.
    FewestActors,
    /// No other node could ever hold it.
    Only,
    /// It had the labels.
    Labels,
    /// Its turn.
    Spread,
    /// That node was asked for.
    Affinity,
    /// The bundle is there.
    Bundle,
    /// No node had room; there the fewest waited.
    FewestWait,
    /// The plan of a placement group.
    Planned,
}

/// What was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Leases that ask for this.
    Leases(LeaseKind, Box<Need>),
    /// Bundles of a group.
    Bundles(GroupId),
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When it was decided.
    pub at: Tick,
    /// On what.
    pub what: Subject,
    /// How many.
    pub count: u32,
    /// Where they waited.
    pub from: u32,
    /// Where they went.
    pub to: u32,
    /// And why there.
    pub why: Why,
}

impl Decision {
    pub(crate) fn of(at: Tick, demand: &Demand, from: u32, to: u32, why: Why) -> Self {
        let what = Subject::Leases(demand.kind, Box::new(demand.need.clone()));
        Self { at, what, count: demand.count, from, to, why }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MostIdle => "had the most idle cores",
            Self::RoomAtHome => "had room, and it was asked for there",
            Self::FewestActors => "had the fewest actors for each core",
            Self::Only => "the only node that can ever hold it",
            Self::Labels => "had the labels",
            Self::Spread => "spread: it was that node's turn",
            Self::Affinity => "that node was asked for",
            Self::Bundle => "has the bundle",
            Self::FewestWait => "no node had room; waits where the fewest wait",
            Self::Planned => "plan of the placement group",
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leases(LeaseKind::Tasks, need) => write!(f, "task {}", need.to_place),
            Self::Leases(LeaseKind::Actor, need) => write!(f, "actor {}", need.to_place),
            Self::Bundles(group) => write!(f, "bundles of {group}"),
        }
    }
}

/// The latest ones.
#[derive(Default)]
pub(crate) struct Decisions(VecDeque<Decision>);

impl Decisions {
    pub(crate) fn push(&mut self, decision: Decision) {
        if self.0.len() == KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(decision);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Decision> {
        self.0.iter()
    }
}
