//! Where a large value lies: in the node's shared memory, or in a file.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ProcId;

/// One sealed object in the arena of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Bytes from the start of the arena.
    pub offset: u64,
    /// Bytes, as they were asked for.
    pub length: u64,
    /// Tells it from what lay there before and what will lie there later. Zero: nobody asks.
    pub serial: u64,
}

/// A file with values in it. Its name says who wrote it; whoever owns the values in it removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// Who wrote it.
    pub by: ProcId,
    /// Counts the files of this process.
    pub number: u32,
    /// In which of the node's folders.
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

impl Bulk {
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
