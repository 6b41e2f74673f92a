//! What a node says about placement groups when it is asked.

use model::{GroupId, NodeId};
use serde::{Deserialize, Serialize};

/// Which groups a question is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhichGroups {
    /// Every one that is known, removed ones too.
    All,
    /// This one.
    One(GroupId),
    /// The one that has the name.
    Named {
        /// Where the name is unique.
        namespace: Box<str>,
        /// The name.
        name: Box<str>,
    },
}

/// What became of a group that was to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupMade {
    /// The group.
    pub group: GroupId,
    /// False: another one has its name.
    pub is_registered: bool,
    /// It has its bundles by now, and no name by which others find it. Its maker is told when it is no more.
    pub is_there: bool,
}

/// One placement group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// The placement group.
    pub group: GroupId,
    /// Its name, if it has one.
    pub name: Box<str>,
    /// As users write it.
    pub strategy: Box<str>,
    /// `PENDING`, `CREATED`, `RESCHEDULING` or `REMOVED`.
    pub state: Box<str>,
    /// Of each bundle, by public name, in ten-thousandths.
    pub bundles: Vec<Vec<(Box<str>, i64)>>,
    /// On which node each bundle is; none: on none.
    pub nodes: Vec<Option<NodeId>>,
    /// How long it took until it had its bundles, in microseconds.
    pub created_after_us: Option<u64>,
}
