//! Names of processes, which hold in a whole cluster, and who of them is dead.
//!
//! - **NAME-1** no two processes of a cluster ever have one name: nodes' numbers are never used again, and a slot that has had all its
//!   epochs retires.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

const SLOT_BITS: u32 = 14;
const EPOCH_BITS: u32 = 26;

/// A process: the number of its node, its slot in the segment of that node, and how often that slot was given out.
///
/// In one word, which is never zero, so that frames, references inside values, tables and journals carry all three in eight bytes:
///
/// ```text
/// 63          40 39      26 25           0
/// | node (24)   | slot (14) | epoch (26) |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcId(NonZeroU64);

impl ProcId {
    /// Nodes have numbers from one up to this.
    pub const NODE_MAX: u32 = (1 << (64 - SLOT_BITS - EPOCH_BITS)) - 1;
    /// The highest slot that a name has room for.
    pub const SLOT_MAX: u16 = (1 << SLOT_BITS) - 1;
    /// After this many users a slot retires.
    pub const EPOCH_MAX: u32 = (1 << EPOCH_BITS) - 1;

    /// The process of that node in that slot.
    ///
    /// # Panics
    /// If one of the three is out of bounds.
    #[must_use]
    pub const fn new(node: u32, slot: u16, epoch: u32) -> Self {
        match Self::checked(node, slot, epoch) {
            Some(id) => id,
            None => panic!("NAME-1: no process has such a name"),
        }
    }

    /// The same, of numbers that come from elsewhere.
    #[must_use]
    pub const fn checked(node: u32, slot: u16, epoch: u32) -> Option<Self> {
        if node == 0 || node > Self::NODE_MAX || slot > Self::SLOT_MAX || epoch > Self::EPOCH_MAX {
            return None;
        }
        Self::from_u64(((node as u64) << (SLOT_BITS + EPOCH_BITS)) | ((slot as u64) << EPOCH_BITS) | epoch as u64)
    }

    /// Stands for all processes of a node together, and for the node itself. No process has its slot.
    #[must_use]
    pub const fn of_node(node: u32) -> Self {
        Self::new(node, Self::SLOT_MAX, 0)
    }

    /// Whether this is no process, but stands for a node.
    #[must_use]
    pub const fn is_node(self) -> bool {
        self.slot() == Self::SLOT_MAX
    }

    /// Where it runs.
    #[must_use]
    #[inline]
    pub const fn node(self) -> u32 {
        (self.0.get() >> (SLOT_BITS + EPOCH_BITS)) as u32
    }

    /// Index into the process table of its node's segment.
    #[must_use]
    #[inline]
    pub const fn slot(self) -> u16 {
        (self.0.get() >> EPOCH_BITS) as u16 & Self::SLOT_MAX
    }

    /// Tells one user of the slot from the next.
    #[must_use]
    #[inline]
    pub const fn epoch(self) -> u32 {
        self.0.get() as u32 & Self::EPOCH_MAX
    }

    /// As one number, for frames and tables. Never zero.
    #[must_use]
    #[inline]
    pub const fn to_u64(self) -> u64 {
        self.0.get()
    }

    /// The inverse of `to_u64`.
    #[must_use]
    #[inline]
    pub const fn from_u64(raw: u64) -> Option<Self> {
        match NonZeroU64::new(raw) {
            Some(raw) => Some(Self(raw)),
            None => None,
        }
    }

    /// Where this process begins to number what its runs make: far from where any other process begins, on any node. So a task that runs again
    /// elsewhere never reuses the names of what its first run made.
    #[must_use]
    pub const fn first_child(self) -> u64 {
        let mut start = self.to_u64().wrapping_add(0x9e37_79b9_7f4a_7c15);
        start = (start ^ (start >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        start = (start ^ (start >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        start ^ (start >> 31)
    }
}

impl fmt::Display for ProcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}.{}.{}", self.node(), self.slot(), self.epoch())
    }
}

impl fmt::Debug for ProcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Processes known to be dead: one number for each slot, since a slot is given out again only when its last user is dead, and one mark for each
/// node that is dead as a whole.
///
/// HOT: `has` is asked once per lease. That of a node's own processes is a comparison and an index.
#[derive(Clone, Debug, Default)]
pub struct Dead {
    /// The node whose processes were first heard of, which is nearly always the asker's own; zero: none yet.
    home: u32,
    /// Its slots.
    slots: Slots,
    others: BTreeMap<u32, Slots>,
    nodes: BTreeSet<u32>,
}

/// For each slot: the epoch below which all its users are dead.
#[derive(Clone, Debug, Default)]
struct Slots(Vec<u32>);

impl Dead {
    /// This process is dead, and so are all that had its slot before.
    pub fn note(&mut self, process: ProcId) {
        let node = process.node();
        if self.nodes.contains(&node) {
            return;
        }
        if self.home == 0 {
            (self.home, self.slots) = (node, self.others.remove(&node).unwrap_or_default());
        }
        let slots = if node == self.home { &mut self.slots } else { self.others.entry(node).or_default() };
        slots.note(process);
    }

    /// All processes of this node are dead, also those that nobody has heard of.
    pub fn note_node(&mut self, node: u32) {
        self.nodes.insert(node);
        self.others.remove(&node);
        if node == self.home {
            (self.home, self.slots) = (0, Slots::default());
        }
    }

    /// Whether this process is known to be dead.
    #[must_use]
    #[inline]
    pub fn has(&self, process: ProcId) -> bool {
        if process.node() == self.home { self.slots.has(process) } else { self.has_elsewhere(process) }
    }

    #[cold]
    fn has_elsewhere(&self, process: ProcId) -> bool {
        let node = process.node();
        self.nodes.contains(&node) || self.others.get(&node).is_some_and(|slots| slots.has(process))
    }
}

impl Slots {
    fn note(&mut self, process: ProcId) {
        let slot = usize::from(process.slot());
        if self.0.len() <= slot {
            self.0.resize(slot + 1, 0);
        }
        self.0[slot] = self.0[slot].max(process.epoch() + 1);
    }

    #[inline]
    fn has(&self, process: ProcId) -> bool {
        self.0.get(usize::from(process.slot())).is_some_and(|epochs| process.epoch() < *epochs)
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
