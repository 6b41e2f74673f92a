//! Where a large value lies: in the node's shared memory, or in a file.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ProcId;

const COUNT_BITS: u32 = 40;

/// One sealed object in the arena of a node.
///
/// Its node's number stands in the upper 24 bits of the serial, so that a place that names its node travels in as many bytes as one that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Bytes from the start of its node's arena.
    pub offset: u64,
    /// Bytes, as they were asked for.
    pub length: u64,
    /// The node; and what tells the object from what lay there before and what will lie there later, or zero if nobody asks.
    pub serial: u64,
}

impl Place {
    /// What the serials of a node's arena begin with.
    #[must_use]
    #[inline]
    pub const fn serials_of(node: u32) -> u64 {
        (node as u64) << COUNT_BITS
    }

    /// In whose arena it lies.
    #[must_use]
    #[inline]
    pub const fn node(&self) -> u32 {
        (self.serial >> COUNT_BITS) as u32
    }

    /// Whether it is told from others that lie there at other times.
    #[must_use]
    #[inline]
    pub const fn is_unique(&self) -> bool {
        self.serial << (64 - COUNT_BITS) != 0
    }
}

/// A file with values in it. Its name says who wrote it; whoever owns the values in it removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// Who wrote it.
    pub by: ProcId,
    /// Counts the files of this process.
    pub number: u32,
    /// In which of its node's folders.
    pub folder: u16,
}

/// One value in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Filed {
    /// The file.
    pub file: FileId,
    /// Bytes from its start.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// CRC-32C of them.
    pub check: u32,
}

/// Where a large value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Bulk {
    /// In the arena.
    Stored(Place),
    /// In a file.
    Filed(Filed),
}

impl FileId {
    /// Which node has the folder that it is in, unless that is a bucket.
    #[must_use]
    pub const fn node(&self) -> u32 {
        self.by.node()
    }
}

impl Bulk {
    /// The node on which it was written.
    #[must_use]
    pub const fn node(&self) -> u32 {
        match self {
            Self::Stored(place) => place.node(),
            Self::Filed(filed) => filed.file.node(),
        }
    }

    /// Whether nothing else in the cluster ever has this name, so that it can be asked for by it from anywhere.
    #[must_use]
    pub const fn is_name(&self) -> bool {
        match self {
            Self::Stored(place) => place.is_unique() && place.node() != 0,
            Self::Filed(_) => true,
        }
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Stored(place) => place.length,
            Self::Filed(filed) => filed.length,
        }
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.by, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bulk_value_names_its_node_wherever_it_lies() {
        let place = |serial| Place { offset: 64, length: 8, serial };
        for node in [1, 7, ProcId::NODE_MAX] {
            let first = Place::serials_of(node);
            for count in [0, 1, (1 << COUNT_BITS) - 1] {
                assert_eq!(place(first | count).node(), node);
                assert_eq!(place(first | count).is_unique(), count != 0);
            }
            assert_eq!(Bulk::Stored(place(first)).node(), node);
            let file = FileId { by: ProcId::new(node, 3, 7), number: 5, folder: 0 };
            assert_eq!(Bulk::Filed(Filed { file, offset: 0, length: 8, check: 0 }).node(), node);
            assert_eq!(file.to_string(), format!("p{node}.3.7-5"), "nodes may share a bucket");
        }
    }
}
