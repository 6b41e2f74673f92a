//! Memory as the kernel sees it: memfds, mappings, protection, first touch.
//!
//! The costs that this file is about, on the 2-core KVM machine of the design brief:
//!
//! | 100 MiB of the arena, as this process finds it | write by faults | populate, then write |
//! |---|--:|--:|
//! | never touched by anybody (the kernel zeroes pages) | 1.4 GiB/s | 1.5 GiB/s |
//! | touched by another process, not mapped here | 3.1 GiB/s | **7 to 8 GiB/s** |
//! | mapped here | 19 GiB/s | |
//!
//! `MADV_POPULATE_READ` and not `_WRITE` (3.6 GiB/s): a read fault maps sixteen warm pages at a time, and in a shared
//! writable mapping of a memfd those are writable at once.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MprotectFlags};

use crate::{CHUNK_BYTES, Error, Extent};

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// An anonymous file of a size that nobody can change: a shorter file would kill its readers with SIGBUS.
pub(crate) fn memfd(name: &str, length: u64) -> Result<OwnedFd, Error> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags), // before Linux 6.3
        other => other,
    };
    let fd = fd.map_err(Error::os("memfd_create"))?;
    rustix::fs::ftruncate(&fd, length).map_err(Error::os("ftruncate"))?;
    rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(Error::os("fcntl(F_ADD_SEALS)"))?;
    Ok(fd)
}

/// The size of a memfd that [`memfd`] made; anything else is refused.
pub(crate) fn sealed_length(fd: impl AsFd) -> Result<u64, Error> {
    let seals = rustix::fs::fcntl_get_seals(&fd).map_err(|_| Error::BadArena("the descriptor is not a memfd"))?;
    if !seals.contains(SEALS) {
        return Err(Error::BadArena("the memfd can still be resized"));
    }
    let length = rustix::fs::fstat(&fd).map_err(Error::os("fstat"))?.st_size;
    u64::try_from(length).map_err(|_| Error::BadArena("the memfd has no size"))
}

/// A shared mapping of a whole memfd, read-only until parts of it are opened for writing.
pub(crate) struct Mapping {
    map: MmapRaw,
}

impl Mapping {
    pub(crate) fn read_only(fd: &OwnedFd, length: u64) -> Result<Self, Error> {
        let length = usize::try_from(length).map_err(|_| Error::BadArena("larger than the address space"))?;
        let map = MmapOptions::new().len(length).map_raw_read_only(fd).map_err(Error::os("mmap"))?;
        // A core file of a worker must not carry the objects of the whole node. It is only a wish.
        let _ = map.advise(memmap2::Advice::DontDump);
        Ok(Self { map })
    }

    pub(crate) fn length(&self) -> u64 {
        self.map.len() as u64
    }

    /// The address of the byte at `offset`, which may also be the end of the mapping.
    pub(crate) fn at(&self, offset: u64) -> NonNull<u8> {
        assert!(offset <= self.length(), "STORE-1: {offset} is outside the mapping");
        // SAFETY: `offset` is inside the mapping or at its end, and a mapping is one allocation below isize::MAX.
        let address = unsafe { self.map.as_mut_ptr().add(offset as usize) };
        NonNull::new(address).expect("a mapping never starts at address 0")
    }

    /// Opens `extent` for writing by this process.
    pub(crate) fn open(&self, extent: Extent) -> Result<(), Error> {
        self.protect(extent, MprotectFlags::READ | MprotectFlags::WRITE)
    }

    /// Closes `extent` for writing. Nobody in this process may still write there.
    pub(crate) fn close(&self, extent: Extent) -> Result<(), Error> {
        self.protect(extent, MprotectFlags::READ)
    }

    fn protect(&self, extent: Extent, flags: MprotectFlags) -> Result<(), Error> {
        let (start, end) = (self.at(extent.offset), self.at(extent.end()));
        let length = end.as_ptr() as usize - start.as_ptr() as usize;
        // SAFETY: the range lies in our own mapping, and readability, which is all that Rust references to it rely on
        // besides the callers' own extents, is never taken away.
        unsafe { rustix::mm::mprotect(start.as_ptr().cast(), length, flags) }.map_err(Error::os("mprotect"))
    }

    /// Maps the pages of `extent` into this process, and makes those that do not exist yet. Contents do not change.
    /// False if the kernel would not; a later write then faults as usual.
    pub(crate) fn populate(&self, extent: Extent) -> bool {
        let (start, end) = (self.at(extent.offset), self.at(extent.end()));
        let length = end.as_ptr() as usize - start.as_ptr() as usize;
        // SAFETY: the range lies in our own mapping; populating for reading changes no byte of it.
        let done = unsafe { rustix::mm::madvise(start.as_ptr().cast(), length, Advice::LinuxPopulateRead) };
        // Linux before 5.14 does not know the advice: count the pages as mapped, for asking again is no use.
        matches!(done, Ok(()) | Err(Errno::INVAL))
    }
}

/// Which chunks of the arena this process has mapped. Only a hint: two threads may both populate a chunk.
pub(crate) struct ChunkBits {
    words: Box<[AtomicU64]>,
}

impl ChunkBits {
    pub(crate) fn new(capacity: u64) -> Self {
        let words = (capacity / CHUNK_BYTES).div_ceil(64);
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.words
    }
}

/// The first run of chunks within `first..end` whose bit is `set`, as `(first, end)`.
pub(crate) fn next_run(bits: &[AtomicU64], first: u64, end: u64, set: bool) -> Option<(u64, u64)> {
    let start = next_bit(bits, first, end, set)?;
    Some((start, next_bit(bits, start, end, !set).unwrap_or(end)))
}

fn next_bit(bits: &[AtomicU64], first: u64, end: u64, set: bool) -> Option<u64> {
    let mut chunk = first;
    while chunk < end {
        let word = bits[(chunk / 64) as usize].load(Ordering::Relaxed);
        let wanted = if set { word } else { !word } & (u64::MAX << (chunk % 64));
        if wanted != 0 {
            let found = chunk / 64 * 64 + u64::from(wanted.trailing_zeros());
            return (found < end).then_some(found);
        }
        chunk = (chunk / 64 + 1) * 64;
    }
    None
}

/// Sets the bits of the chunks `first..end`.
pub(crate) fn set_run(bits: &[AtomicU64], first: u64, end: u64) {
    for word in first / 64..end.div_ceil(64) {
        let mask = word_mask(word, first, end);
        if bits[word as usize].load(Ordering::Relaxed) & mask != mask {
            bits[word as usize].fetch_or(mask, Ordering::Relaxed);
        }
    }
}

/// Clears the bits of the chunks `first..end`.
pub(crate) fn clear_run(bits: &[AtomicU64], first: u64, end: u64) {
    for word in first / 64..end.div_ceil(64) {
        bits[word as usize].fetch_and(!word_mask(word, first, end), Ordering::Relaxed);
    }
}

/// How many of the chunks `first..end` have their bit set.
pub(crate) fn count_run(bits: &[AtomicU64], first: u64, end: u64) -> u64 {
    (first / 64..end.div_ceil(64))
        .map(|word| u64::from((bits[word as usize].load(Ordering::Relaxed) & word_mask(word, first, end)).count_ones()))
        .sum()
}

fn word_mask(word: u64, first: u64, end: u64) -> u64 {
    let low = u64::MAX << first.saturating_sub(word * 64).min(63);
    let high = u64::MAX >> (64 - (end - word * 64).min(64));
    low & high
}

/// Tells the process that made it from a forked child, for the price of one load.
///
/// Both share the pin table, but only the parent may write to it (STORE-7): the kernel clears this page in a child.
pub(crate) struct Home {
    page: MmapMut,
}

impl Home {
    pub(crate) fn new() -> Result<Self, Error> {
        let mut page = MmapMut::map_anon(4096).map_err(Error::os("mmap"))?;
        page[0] = 1;
        // SAFETY: a private anonymous mapping of our own, which is what this advice is for.
        unsafe { rustix::mm::madvise(page.as_mut_ptr().cast(), page.len(), Advice::LinuxWipeOnFork) }
            .map_err(Error::os("madvise(MADV_WIPEONFORK)"))?;
        Ok(Self { page })
    }

    pub(crate) fn is_here(&self) -> bool {
        // SAFETY: the page lives as long as `self`, and nobody writes to it after `new`; the kernel clears it in a
        // child before the child runs. Atomic, so that the compiler reads it again after a fork.
        let word = unsafe { AtomicU8::from_ptr(self.page.as_ptr().cast_mut()) };
        word.load(Ordering::Relaxed) == 1
    }
}
