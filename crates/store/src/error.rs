//! What can go wrong, as far as a caller can act on it.

use crate::{Extent, Place};

/// Why the store refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No free range is long enough now. Retry after memory has been given back, evicted or spilled.
    #[error("store full: need {need} bytes, {free} of {capacity} free")]
    Full {
        /// Bytes asked for.
        need: u64,
        /// Bytes free in all, perhaps not side by side.
        free: u64,
        /// Bytes in the arena.
        capacity: u64,
    },
    /// It would not even fit into an empty arena. Do not retry.
    #[error("object too large for the store: need {need} bytes, the store has {capacity}")]
    TooLarge {
        /// Bytes asked for.
        need: u64,
        /// Bytes in the arena.
        capacity: u64,
    },
    /// The place is outside the arena, was not sealed by this process, or was freed before. Do not retry.
    #[error("no object of this process at {} of {} bytes", .0.offset, .0.length)]
    BadPlace(Place),
    /// It lies in the arena of another node. Do not retry here.
    #[error("the object lies on node {node}")]
    Elsewhere {
        /// Its number.
        node: u32,
    },
    /// The extent is not a lease of this process, or overlaps one that it holds. Do not retry.
    #[error("not an extent of this process: {} of {} bytes", .0.offset, .0.length)]
    BadExtent(Extent),
    /// The slot is beyond the table. Do not retry.
    #[error("process slot {slot} of {procs_max}")]
    BadSlot {
        /// The slot asked for.
        slot: u16,
        /// Slots in the table.
        procs_max: u16,
    },
    /// A process is attached to this slot. Retry after `Host::process_gone`.
    #[error("process slot {0} is taken")]
    SlotTaken(u16),
    /// This process looks at too many different objects. Retry after views have been dropped.
    #[error(
        "this process holds {max} objects in the store, which is the limit: drop references, or return fewer and larger values"
    )]
    PinsFull {
        /// The limit.
        max: u32,
    },
    /// The object does not lie there any more: its owner has moved or freed it, and says where it is.
    #[error("the object has moved")]
    Moved,
    /// No folder takes a value that the arena has no room for. Retry after some have been freed.
    #[error("no room for {need} bytes in files: {why}")]
    DiskFull {
        /// Bytes.
        need: u64,
        /// What the last folder said.
        why: String,
    },
    /// A value is not in its file any more. Do not retry.
    #[error("lost with file {file}: {why}")]
    Lost {
        /// The file.
        file: model::FileId,
        /// What was found.
        why: String,
    },
    /// A value that lay on another node is not there any more, nor anywhere else. Do not retry.
    #[error("{0}")]
    LostThere(Box<str>),
    /// A value of another node takes longer to come than whoever asks wants to wait. Retry at will.
    #[error("it does not come from node {node}{why}")]
    NotComing {
        /// Its number.
        node: u32,
        /// What is known of the reason, behind a colon.
        why: String,
    },
    /// An object store takes longer to give a value than whoever asks wants to wait. Retry at will.
    #[error("file {0} takes too long to come")]
    GivenUp(model::FileId),
    /// The descriptors do not name an arena of this version. Do not retry.
    #[error("not an arena: {0}")]
    BadArena(&'static str),
    /// This is a forked child of the process that attached; it must not touch its parent's store. Do not retry.
    #[error("the store cannot be used in a forked child")]
    Forked,
    /// The kernel refused.
    #[error("{call}: {source}")]
    Os {
        /// The system call.
        call: &'static str,
        /// What it said.
        source: std::io::Error,
    },
}

impl Error {
    /// True if the same request can succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Full { .. }
                | Self::DiskFull { .. }
                | Self::SlotTaken(_)
                | Self::PinsFull { .. }
                | Self::GivenUp(_)
                | Self::NotComing { .. }
        )
    }

    /// For `map_err`: names the call that failed.
    pub(crate) fn os<E: Into<std::io::Error>>(call: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Os { call, source: source.into() }
    }
}
