//! Placement groups: amounts that are set aside together, and where a lease wants to be.

use serde::{Deserialize, Serialize};

use crate::{GroupId, Labels, Lifetime, NodeId, Resources};

/// Where a lease may be placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Where {
    /// Wherever there is room.
    #[default]
    Anywhere,
    /// On this node and on no other.
    Node(NodeId),
    /// In a bundle of a placement group.
    Bundle(Seat),
}

/// A place in a placement group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seat {
    /// Which group.
    pub group: GroupId,
    /// Which of its bundles; none: any that has room.
    pub bundle: Option<u16>,
    /// What is started from there goes into the same group, unless it says otherwise.
    pub captures: bool,
}

/// How the bundles of a group lie on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Strategy {
    /// On as few nodes as possible.
    Pack,
    /// On as many as possible.
    Spread,
    /// All on one.
    StrictPack,
    /// Each on another one.
    StrictSpread,
}

impl Strategy {
    /// As users write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pack => "PACK",
            Self::Spread => "SPREAD",
            Self::StrictPack => "STRICT_PACK",
            Self::StrictSpread => "STRICT_SPREAD",
        }
    }

    /// The inverse of `as_str`.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        [Self::Pack, Self::Spread, Self::StrictPack, Self::StrictSpread].into_iter().find(|one| one.as_str() == text)
    }
}

/// What a placement group's creation says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupOptions {
    /// Registered name; empty for none.
    pub name: Box<str>,
    /// Where the name is unique.
    pub namespace: Box<str>,
    /// A detached one lives until it is removed.
    pub lifetime: Lifetime,
    /// How bundles lie on nodes.
    pub strategy: Strategy,
    /// What is set aside. At least one.
    pub bundles: Vec<Resources>,
    /// What must hold of the labels of each bundle's node; none at all: nothing.
    pub labels: Vec<Labels>,
}
