//! The shared-memory arena of one node: lease, reserve, seal, pin, free.
//!
//! A node makes one arena, a memfd ([`Host`]), which each of its processes maps once ([`Client`]). A process leases
//! *extents* from the node and places objects inside them with an allocator of its own, so that a put asks nobody. An
//! object is written through a [`Reservation`], sealed into a [`Place`], and never changes afterwards; whoever learns
//! the place by a message pins it and reads it in situ through a [`View`].
//!
//! Wake-ups are none of this crate's business, page faults are: freed memory stays in the arena and is used again, the
//! most recently freed first, and memory that another process has warmed is mapped sixteen pages at a time.
//!
//! | file | decides |
//! |---|---|
//! | `host.rs`, `ranges.rs` | which process holds which extent; what a dead one leaves behind |
//! | `client.rs`, `blocks.rs` | where in its extents a process puts an object |
//! | `pins.rs`, `view.rs` | which bytes a process is looking at |
//! | `table.rs` | the layout of the memory that all processes write: pins and warm chunks |
//! | `draft.rs` | what is being written, in the arena or in a file |
//! | `files.rs` | values in files, when the arena is full |
//! | `folder.rs`, `remote.rs` | where such a file is: in a local folder, or in an object store behind a URL |
//! | `journal.rs` | what a process leaves behind for who takes over when it dies |
//! | `mapping.rs`, `copy.rs` | protection, first touch, the copy itself |
//!
//! Every test is named by the invariant that it defends:
//!
//! - **STORE-1** two blocks in use never overlap, and none leaves its extent.
//! - **STORE-2** every byte of the arena is free, leased to one process, or orphaned: never two of them, never none.
//! - **STORE-3** pinned bytes are neither reused nor granted, whoever frees them and whoever dies.
//! - **STORE-4** a dead process leaves nothing behind except what others pin.
//! - **STORE-5** a process can write to its own extents only; a stray write faults in the process that strayed.
//! - **STORE-6** a place or extent that is not what it claims to be is refused, and nothing changes.
//! - **STORE-7** a forked child changes neither the blocks nor the pins of its parent.
//! - **STORE-9** whoever pins a place finds the object that was sealed there under that serial, or learns that it has moved.
//! - **STORE-8** freed memory is used again before memory that nobody has touched.
//!
//! A pin is visible to every later [`Client::free`] before [`Client::pin`] returns. A free first takes the object's serial
//! away and then looks for pins; a reader first pins and then looks for the serial: they cannot miss each other. So the owner of an
//! object may move it elsewhere while others know its place. Objects of a chunk or less have no serial: those must be
//! kept alive by something else until they are pinned.

mod blocks;
mod client;
mod copy;
mod draft;
mod error;
mod files;
mod folder;
mod host;
mod journal;
mod mapping;
mod pins;
mod ranges;
mod remote;
mod table;
mod view;

pub use client::{Client, NeedExtent, Reservation};
pub use copy::copy_into;
pub use draft::Draft;
pub use error::Error;
pub(crate) use files::padding_after;
pub use files::{FileReservation, Files};
pub use folder::{Folder, Folders, HeadBytes, files_in, remove_files_of};
pub use host::Host;
pub use journal::{Cell, Journal, Journals, Left, Progress};
pub use model::Place;
pub use remote::{Remote, Spawn};
pub use view::View;

/// A part of the arena that the node leases to one process. Both numbers are multiples of [`CHUNK_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Bytes from the start of the arena.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Every object starts at a multiple of this, so that any vector type can be read in situ.
pub const ALIGN_BYTES: u64 = 64;
/// Objects of at least this size start at a page and fill whole pages.
pub const LARGE_BYTES: u64 = 1 << 20;
/// The unit in which the node leases memory and remembers what has been touched. It is the largest page size that
/// Linux has on our machines, and what the kernel maps at once when a warm page is first read.
pub const CHUNK_BYTES: u64 = 64 << 10;
/// The lease for a small request, before the process has shown that it asks often.
pub const EXTENT_BYTES: u64 = 8 << 20;
/// The largest lease for a small request.
pub const EXTENT_BYTES_MAX: u64 = 32 << 20;
/// Different places that one process may pin at a time.
pub const PINS_MAX: u32 = 65_536;
/// Those that it may pin for as long as it likes; the rest is for whoever looks for a moment.
pub const PINS_KEPT_MAX: u32 = PINS_MAX - 4_096;

impl Extent {
    pub(crate) fn end(self) -> u64 {
        self.offset + self.length
    }

    /// True if this can be a lease in an arena of `capacity` bytes at all.
    pub(crate) fn is_sound(self, capacity: u64) -> bool {
        let end = self.offset.checked_add(self.length);
        self.length > 0
            && self.offset.is_multiple_of(CHUNK_BYTES)
            && self.length.is_multiple_of(CHUNK_BYTES)
            && end.is_some_and(|end| end <= capacity)
    }
}

pub(crate) fn is_inside(place: Place, capacity: u64) -> bool {
    place.offset.checked_add(place.length).is_some_and(|end| end <= capacity)
}
