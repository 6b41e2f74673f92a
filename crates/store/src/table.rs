//! The memory that all processes of a node write: who pins what, and which chunks have been touched.
//!
//! HOT: `pin` and `is_pinned` run once per get and once per free. Budget 50 ns with a few pins: `--example put`.
//!
//! ```text
//! 0       Header                     never written after `create`; read-only in clients
//! 64 KiB  Commons, SlotHead[procs]   slots in use; how many pin entries of each slot are in use
//!         warm bits                  one per chunk of the arena: touched by anybody, ever
//!         serials                    one word per chunk: of the object that begins in it, if that is longer than a chunk
//! ...     slot 0: starts[], lengths[]   the pins of one process; writable by that process and the host only
//! ...     slot 1: ...
//! ```
//!
//! Pins are hazard pointers. A process announces a pin in its own slot, without a shared count, so nothing is left
//! uncertain when it dies in between: the host clears the slot. A free reads the slots of all processes. `starts[i]` is
//! the granule of the pinned place + 1, or 0; `lengths[i]`, which only the host reads, says how far it reaches.
//!
//! The file is sparse: a slot takes 1 MiB of address space and as many pages as it has used.

use std::mem::{offset_of, size_of};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::mapping::{self, Mapping};
use crate::{ALIGN_BYTES, CHUNK_BYTES, Error, Extent, PINS_MAX, Place};

const MAGIC: u64 = u64::from_le_bytes(*b"eaglepin");
const VERSION: u32 = 3;
const HEADER_AT: u64 = 0;
const COMMONS_AT: u64 = CHUNK_BYTES;
const HEADS_AT: u64 = COMMONS_AT + ALIGN_BYTES;
const STARTS_BYTES: u64 = PINS_MAX as u64 * 8;
const SLOT_BYTES: u64 = 2 * STARTS_BYTES;

#[repr(C)]
struct Header {
    magic: u64,
    version: u32,
    procs_max: u32,
    capacity: u64,
    /// The number of the node.
    node: u32,
    _unused: u32,
}
const _: () = assert!(size_of::<Header>() == 32 && offset_of!(Header, capacity) == 16);

#[repr(C)]
struct Commons {
    /// One more than the highest slot that ever had a process.
    slots_used: AtomicU32,
    /// The last serial that was given out.
    serial: AtomicU64,
}
const _: () = assert!(size_of::<Commons>() as u64 <= ALIGN_BYTES);

#[repr(C)]
struct SlotHead {
    /// Entries at and beyond this are 0. Raised before an entry beyond it is written, so that what a dead process
    /// leaves is always below it.
    high: AtomicU32,
    /// 1 while a client is attached.
    taken: AtomicU32,
}
const _: () = assert!(size_of::<SlotHead>() == 8 && SLOT_BYTES.is_multiple_of(CHUNK_BYTES));

pub(crate) struct Table {
    map: Mapping,
    capacity: u64,
    procs_max: u16,
    node: u32,
}

impl Table {
    /// A table with no pins, for an arena of `capacity` bytes, and the descriptor by which others attach to it.
    pub(crate) fn create(node: u32, capacity: u64, procs_max: u16) -> Result<(Self, OwnedFd), Error> {
        let fd = mapping::memfd("eagleray-pins", total_bytes(capacity, procs_max))?;
        let map = Mapping::read_only(&fd, total_bytes(capacity, procs_max))?;
        map.open(Extent { offset: 0, length: map.length() })?;
        let header = Header { magic: MAGIC, version: VERSION, procs_max: procs_max.into(), capacity, node, _unused: 0 };
        // SAFETY: the header lies at the start of a writable mapping, page aligned, and nobody else has it yet.
        unsafe { map.at(HEADER_AT).cast::<Header>().write(header) };
        Ok((Self { map, capacity, procs_max, node }, fd))
    }

    /// Maps a table that [`create`](Self::create) made, after checking that it is one. Writable are the commons and
    /// the pins of `slot`.
    pub(crate) fn attach(fd: &OwnedFd, slot: u16) -> Result<Self, Error> {
        let length = mapping::sealed_length(fd)?;
        if length < COMMONS_AT {
            return Err(Error::BadArena("the pin table is too short"));
        }
        let map = Mapping::read_only(fd, length)?;
        // SAFETY: the file is longer than a header, cannot shrink, and the header was written before the descriptor
        // was handed out and is never written again.
        let header = unsafe { map.at(HEADER_AT).cast::<Header>().as_ref() };
        if header.magic != MAGIC || header.version != VERSION {
            return Err(Error::BadArena("the pin table is of another version"));
        }
        let capacity = header.capacity;
        let procs_max = u16::try_from(header.procs_max).map_err(|_| Error::BadArena("the pin table has a bad size"))?;
        if !capacity.is_multiple_of(CHUNK_BYTES) || total_bytes(capacity, procs_max) != length {
            return Err(Error::BadArena("the pin table has a bad size"));
        }
        let table = Self { map, capacity, procs_max, node: header.node };
        table.check_slot(slot)?;
        let commons_end = slots_at(capacity, procs_max);
        table.map.open(Extent { offset: COMMONS_AT, length: commons_end - COMMONS_AT })?;
        table.map.open(Extent { offset: commons_end + u64::from(slot) * SLOT_BYTES, length: SLOT_BYTES })?;
        Ok(table)
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// What the serials of all objects of this arena begin with.
    pub(crate) fn serials(&self) -> u64 {
        Place::serials_of(self.node)
    }

    /// Refuses a place in the arena of another node.
    #[inline]
    pub(crate) fn check_node(&self, place: Place) -> Result<(), Error> {
        if place.node() == self.node { Ok(()) } else { Err(Error::Elsewhere { node: place.node() }) }
    }

    pub(crate) fn check_slot(&self, slot: u16) -> Result<(), Error> {
        if slot < self.procs_max { Ok(()) } else { Err(Error::BadSlot { slot, procs_max: self.procs_max }) }
    }

    /// Marks `slot` as having a process, which must be the only one.
    pub(crate) fn take_slot(&self, slot: u16) -> Result<(), Error> {
        if self.head(slot).taken.swap(1, Ordering::AcqRel) != 0 {
            return Err(Error::SlotTaken(slot));
        }
        self.commons().slots_used.fetch_max(u32::from(slot) + 1, Ordering::AcqRel);
        Ok(())
    }

    pub(crate) fn leave_slot(&self, slot: u16) {
        self.head(slot).taken.store(0, Ordering::Release);
    }

    /// Says that entries of `slot` below `high` may be in use. Only by the process of that slot, and before [`pin`].
    ///
    /// [`pin`]: Self::pin
    pub(crate) fn set_high(&self, slot: u16, high: u32) {
        self.head(slot).high.store(high.min(PINS_MAX), Ordering::Release);
    }

    /// Announces a pin of `length` bytes from `granule` on. Only by the process of that slot. When this returns, every
    /// free that begins later sees the pin.
    pub(crate) fn pin(&self, slot: u16, index: u32, granule: u64, length: u64) {
        self.lengths(slot)[index as usize].store(length, Ordering::Relaxed);
        self.starts(slot)[index as usize].store(granule + 1, Ordering::Release);
        // Pairs with the fence in `is_pinned`: either that scan sees the entry, or this process sees whatever the
        // owner of the object wrote before it scanned.
        fence(Ordering::SeqCst);
    }

    /// Takes a pin back. All reads of the object come before it.
    pub(crate) fn unpin(&self, slot: u16, index: u32) {
        self.starts(slot)[index as usize].store(0, Ordering::Release);
    }

    /// True if any process pins a place that starts in the bytes `start..end`.
    pub(crate) fn is_pinned(&self, start: u64, end: u64) -> bool {
        fence(Ordering::SeqCst);
        let (first, count) = (start / ALIGN_BYTES + 1, (end - start).div_ceil(ALIGN_BYTES));
        let found = self.slots().any(|slot| any_in(self.entries(slot), first, count));
        // Pairs with the store in `unpin`: whoever reused the bytes does so after the last look at them.
        fence(Ordering::Acquire);
        found
    }

    /// True if a process other than that of `slot` pins a place that starts at this byte.
    pub(crate) fn is_pinned_elsewhere(&self, slot: u16, start: u64) -> bool {
        fence(Ordering::SeqCst);
        self.slots().filter(|other| *other != slot).any(|other| any_in(self.entries(other), start / ALIGN_BYTES + 1, 1))
    }

    /// The start of every pinned place, in bytes, sorted, into `out`.
    pub(crate) fn pin_starts(&self, out: &mut Vec<u64>) {
        fence(Ordering::SeqCst);
        out.clear();
        for slot in self.slots() {
            let words = self.entries(slot).iter().map(|entry| entry.load(Ordering::Relaxed));
            out.extend(words.filter(|&word| word != 0).map(|word| (word - 1) * ALIGN_BYTES));
        }
        fence(Ordering::Acquire);
        out.sort_unstable();
    }

    /// Every pinned range as `(start, end)` in bytes, cut off at the end of the arena.
    pub(crate) fn pin_ranges(&self) -> Vec<(u64, u64)> {
        fence(Ordering::SeqCst);
        let mut ranges = Vec::new();
        for slot in self.slots() {
            for (entry, length) in self.entries(slot).iter().zip(self.lengths(slot)) {
                let (word, length) = read_entry(entry, length);
                let start = word.wrapping_sub(1).saturating_mul(ALIGN_BYTES);
                if word != 0 && start < self.capacity {
                    ranges.push((start, start.saturating_add(length.max(1)).min(self.capacity)));
                }
            }
        }
        fence(Ordering::Acquire);
        ranges
    }

    /// Drops all pins of a process that is dead. Only by the host.
    pub(crate) fn clear_slot(&self, slot: u16) {
        self.entries(slot).iter().for_each(|entry| entry.store(0, Ordering::Release));
        self.set_high(slot, 0);
        self.leave_slot(slot);
    }

    /// One bit per chunk of the arena that anybody has touched. A hint, so never a reason to trust bytes.
    pub(crate) fn warm(&self) -> &[AtomicU64] {
        let words = (self.capacity / CHUNK_BYTES).div_ceil(64);
        // SAFETY: `total_bytes` counts this array; it is 64-byte aligned, lives as long as the mapping, and every
        // process accesses it atomically.
        unsafe { self.array(warm_at(self.procs_max), words) }
    }

    /// A number that no object of any arena has had before.
    pub(crate) fn new_serial(&self) -> u64 {
        self.serials() | (self.commons().serial.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The serial of the object that begins in the chunk around `offset`. An object longer than a chunk has that to itself.
    pub(crate) fn serial(&self, offset: u64) -> &AtomicU64 {
        &self.chunk_serials()[(offset / CHUNK_BYTES) as usize]
    }

    /// The serials of all chunks.
    pub(crate) fn chunk_serials(&self) -> &[AtomicU64] {
        // SAFETY: as `warm`.
        unsafe { self.array(serials_at(self.capacity, self.procs_max), self.capacity / CHUNK_BYTES) }
    }

    /// Slots that may have pins.
    fn slots(&self) -> impl Iterator<Item = u16> {
        let used = self.commons().slots_used.load(Ordering::Acquire).min(self.procs_max.into());
        0..used as u16
    }

    /// The entries of `slot` that may be in use.
    fn entries(&self, slot: u16) -> &[AtomicU64] {
        let high = self.head(slot).high.load(Ordering::Acquire).min(PINS_MAX);
        &self.starts(slot)[..high as usize]
    }

    fn commons(&self) -> &Commons {
        // SAFETY: aligned, inside the mapping, and all fields are atomic.
        unsafe { self.map.at(COMMONS_AT).cast().as_ref() }
    }

    fn head(&self, slot: u16) -> &SlotHead {
        // SAFETY: `total_bytes` counts this array, and all fields are atomic.
        unsafe { &self.array::<SlotHead>(HEADS_AT, self.procs_max.into())[usize::from(slot)] }
    }

    fn starts(&self, slot: u16) -> &[AtomicU64] {
        self.slot_array(slot, 0)
    }

    fn lengths(&self, slot: u16) -> &[AtomicU64] {
        self.slot_array(slot, STARTS_BYTES)
    }

    fn slot_array(&self, slot: u16, within: u64) -> &[AtomicU64] {
        assert!(slot < self.procs_max, "slot {slot} of {}", self.procs_max);
        let offset = slots_at(self.capacity, self.procs_max) + u64::from(slot) * SLOT_BYTES + within;
        // SAFETY: `total_bytes` counts both arrays of each slot; they are page aligned and only accessed atomically.
        unsafe { self.array(offset, PINS_MAX.into()) }
    }

    /// # Safety
    /// `count` values of `T` lie at `offset`, which is aligned for them, and no process accesses them other than
    /// through the atomics that `T` consists of.
    unsafe fn array<T>(&self, offset: u64, count: u64) -> &[T] {
        debug_assert!(offset + count * size_of::<T>() as u64 <= self.map.length());
        // SAFETY: by the caller's word; the mapping lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.map.at(offset).cast().as_ptr(), count as usize) }
    }
}

/// The inner loop of every free.
fn any_in(entries: &[AtomicU64], first: u64, count: u64) -> bool {
    entries.iter().any(|entry| entry.load(Ordering::Relaxed).wrapping_sub(first) < count)
}

/// An entry and its length, both of the same pin.
fn read_entry(entry: &AtomicU64, length: &AtomicU64) -> (u64, u64) {
    loop {
        let word = entry.load(Ordering::Acquire);
        let bytes = length.load(Ordering::Acquire);
        if word == entry.load(Ordering::Relaxed) {
            return (word, bytes);
        }
    }
}

fn warm_at(procs_max: u16) -> u64 {
    (HEADS_AT + u64::from(procs_max) * size_of::<SlotHead>() as u64).next_multiple_of(ALIGN_BYTES)
}

fn serials_at(capacity: u64, procs_max: u16) -> u64 {
    let warm_bytes = (capacity / CHUNK_BYTES).div_ceil(64) * 8;
    (warm_at(procs_max) + warm_bytes).next_multiple_of(ALIGN_BYTES)
}

fn slots_at(capacity: u64, procs_max: u16) -> u64 {
    (serials_at(capacity, procs_max) + capacity / CHUNK_BYTES * 8).next_multiple_of(CHUNK_BYTES)
}

fn total_bytes(capacity: u64, procs_max: u16) -> u64 {
    slots_at(capacity, procs_max) + u64::from(procs_max) * SLOT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `/proc/self/maps` says of an address: "rw-s" or "r--s".
    fn access(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let covers = |line: &&str| {
            let (start, end) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            (number(start)..number(end)).contains(&address)
        };
        maps.lines().find(covers).unwrap().split_whitespace().nth(1).unwrap().to_owned()
    }

    #[test]
    fn store_5_a_process_writes_to_its_own_pins_only() {
        let (_host, fd) = Table::create(1, 1 << 30, 4).unwrap();
        let table = Table::attach(&fd, 2).unwrap();
        assert_eq!(access(table.map.at(0).as_ptr() as usize), "r--s", "the header");
        for slot in 0..4 {
            let expected = if slot == 2 { "rw-s" } else { "r--s" };
            for array in [table.starts(slot), table.lengths(slot)] {
                assert_eq!(access(array.first().unwrap().as_ptr() as usize), expected, "slot {slot}");
                assert_eq!(access(array.last().unwrap().as_ptr() as usize), expected, "slot {slot}");
            }
        }
        assert_eq!(access(table.warm().last().unwrap().as_ptr() as usize), "rw-s");
    }

    #[test]
    fn store_3_a_pin_is_found_by_any_byte_of_the_block_around_it() {
        let (table, _fd) = Table::create(1, 1 << 20, 2).unwrap();
        table.take_slot(1).unwrap();
        table.set_high(1, 8);
        table.pin(1, 5, 10, 200);
        assert!(table.is_pinned(640, 704) && table.is_pinned(0, 1 << 20) && table.is_pinned(576, 704));
        assert!(!table.is_pinned(0, 640) && !table.is_pinned(704, 1 << 20));
        assert_eq!(table.pin_ranges(), [(640, 840)]);
        table.clear_slot(1);
        assert!(!table.is_pinned(0, 1 << 20));
        table.set_high(1, PINS_MAX);
        assert!(!table.is_pinned(0, 1 << 20), "STORE-4: nothing was left beyond the mark");
    }
}
