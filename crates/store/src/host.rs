//! The arena as its node sees it: which process holds which extent, and what a dead one leaves behind.
//!
//! The host maps no data; it knows ranges only. Memory that comes back passes through one gate, whether it was given
//! back or its holder died: what others pin of it stays behind as an *orphan* until nobody looks at it, and the rest is
//! free at once.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::fs::FallocateFlags;

use crate::mapping;
use crate::ranges::Ranges;
use crate::table::Table;
use crate::{CHUNK_BYTES, EXTENT_BYTES, EXTENT_BYTES_MAX, Error, Extent};

/// Leases of a standard size after which a process gets twice as much at a time.
const LEASES_PER_DOUBLING: u32 = 4;
/// A small request takes at most this part of an arena, or of what is free in it.
const SHARE_OF_ARENA: u64 = 16;
/// Warm runs of one free range that are considered for a lease.
const WARM_RUNS_MAX: usize = 32;

/// The node's side of the arena. One per node; the arena lives as long as anybody has it mapped.
pub struct Host {
    data: OwnedFd,
    table_fd: OwnedFd,
    table: Table,
    free: Ranges,
    /// Leases by offset.
    held: BTreeMap<u64, Lease>,
    /// What has come back but cannot be used yet.
    orphans: Ranges,
}

struct Lease {
    length: u64,
    slot: u16,
}

impl Host {
    /// As [`create_on`](Self::create_on), of a node alone.
    pub fn create(capacity: u64, procs_max: u16) -> Result<Self, Error> {
        Self::create_on(1, capacity, procs_max)
    }

    /// Makes the arena of the node with this number: of `capacity` bytes, rounded up to 64 KiB, for up to `procs_max` processes. Neither takes
    /// memory before it is used.
    pub fn create_on(node: u32, capacity: u64, procs_max: u16) -> Result<Self, Error> {
        let rounded = capacity.max(1).checked_next_multiple_of(CHUNK_BYTES).filter(|&bytes| bytes <= i64::MAX as u64);
        let capacity = rounded.ok_or(Error::TooLarge { need: capacity, capacity: i64::MAX as u64 })?;
        let data = mapping::memfd("eagleray-arena", capacity)?;
        let (table, table_fd) = Table::create(node, capacity, procs_max)?;
        let mut free = Ranges::default();
        free.insert(0, capacity);
        Ok(Self { data, table_fd, table, free, held: BTreeMap::new(), orphans: Ranges::default() })
    }

    /// The memory of the arena, for `Client::attach`.
    pub fn data_fd(&self) -> BorrowedFd<'_> {
        self.data.as_fd()
    }

    /// The table of pins, for `Client::attach`.
    pub fn table_fd(&self) -> BorrowedFd<'_> {
        self.table_fd.as_fd()
    }

    /// Leases at least `length_min` bytes to a process. A small request gets a standard extent, or less when memory is
    /// short; a process that holds several of them gets larger ones. Memory that has been touched is preferred.
    pub fn grant(&mut self, proc_slot: u16, length_min: u64) -> Result<Extent, Error> {
        self.table.check_slot(proc_slot)?;
        let capacity = self.capacity();
        if length_min > capacity {
            return Err(Error::TooLarge { need: length_min, capacity });
        }
        let need = length_min.max(1).next_multiple_of(CHUNK_BYTES);
        let mut length = need.max(self.standard_bytes(proc_slot, need));
        let offset = loop {
            match self.best_fit(length) {
                Some(offset) => break offset,
                None if length > need => length = (length / 2).next_multiple_of(CHUNK_BYTES).max(need),
                None => return Err(Error::Full { need, free: self.free(), capacity }),
            }
        };
        self.free.remove(offset, offset + length);
        self.held.insert(offset, Lease { length, slot: proc_slot });
        Ok(Extent { offset, length })
    }

    /// Takes back a whole extent that its process has closed.
    pub fn take_back(&mut self, proc_slot: u16, extent: Extent) -> Result<(), Error> {
        let lease = self.held.get(&extent.offset);
        if lease.is_none_or(|lease| lease.slot != proc_slot || lease.length != extent.length) {
            return Err(Error::BadExtent(extent));
        }
        self.held.remove(&extent.offset);
        self.orphans.insert(extent.offset, extent.end());
        self.free_unneeded(extent.offset, extent.end());
        Ok(())
    }

    /// Clears up behind a dead process: its pins go, and so do its extents, except for what others look at. Nobody
    /// may pin any other place of it afterwards.
    pub fn process_gone(&mut self, proc_slot: u16) {
        assert!(self.table.check_slot(proc_slot).is_ok(), "no process slot {proc_slot}");
        self.table.clear_slot(proc_slot);
        let gone: Vec<(u64, u64)> = self
            .held
            .extract_if(.., |_, lease| lease.slot == proc_slot)
            .map(|(offset, lease)| (offset, offset + lease.length))
            .collect();
        for (start, end) in gone {
            self.orphans.insert(start, end);
        }
        self.sweep();
    }

    /// Looks again at orphans. Cheap when there are none; once a second is often enough.
    pub fn sweep(&mut self) {
        self.free_unneeded(0, self.capacity());
    }

    /// Gives the memory behind what nobody holds back to the system. Whoever is granted it later finds it cold. Returns how much.
    pub fn cool(&mut self) -> u64 {
        let mut cooled = 0;
        for (start, end) in self.free.iter() {
            let warm = self.warm_bytes(start, end);
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            if warm > 0 && rustix::fs::fallocate(&self.data, flags, start, end - start).is_ok() {
                mapping::clear_run(self.table.warm(), start / CHUNK_BYTES, end / CHUNK_BYTES);
                cooled += warm;
            }
        }
        cooled
    }

    /// Bytes that are leased or orphaned.
    pub fn used(&self) -> u64 {
        self.capacity() - self.free()
    }

    /// Bytes in the arena.
    pub fn capacity(&self) -> u64 {
        self.table.capacity()
    }

    /// Bytes that can be leased, perhaps not side by side.
    pub fn free(&self) -> u64 {
        self.free.bytes()
    }

    /// Bytes that can be leased and have been touched before, so that writing there costs no zeroing.
    pub fn warm(&self) -> u64 {
        self.free.iter().map(|(start, end)| self.warm_bytes(start, end)).sum()
    }

    /// Bytes that were left behind by a process and wait for a reader.
    pub fn orphaned(&self) -> u64 {
        self.orphans.bytes()
    }

    /// Bytes of real memory behind the arena.
    pub fn resident(&self) -> Result<u64, Error> {
        let stat = rustix::fs::fstat(&self.data).map_err(Error::os("fstat"))?;
        Ok(stat.st_blocks as u64 * 512)
    }

    /// How much to lease for a small request; 0 for one that gets exactly what it asks for.
    fn standard_bytes(&self, slot: u16, need: u64) -> u64 {
        if need > EXTENT_BYTES / 2 {
            return 0;
        }
        let standard = |lease: &&Lease| lease.slot == slot && lease.length <= EXTENT_BYTES_MAX;
        let doublings = self.held.values().filter(standard).count() as u32 / LEASES_PER_DOUBLING;
        let wanted = (EXTENT_BYTES << doublings.min(8)).min(EXTENT_BYTES_MAX);
        let share = (self.capacity() / SHARE_OF_ARENA).min(self.free() / 4);
        wanted.min(share.next_multiple_of(CHUNK_BYTES))
    }

    /// Where to lease `length` bytes: where the fewest untouched chunks are, then in the tightest free range.
    fn best_fit(&self, length: u64) -> Option<u64> {
        let mut best: Option<(u64, u64, u64)> = None;
        for (start, end) in self.free.iter().filter(|&(start, end)| end - start >= length) {
            let mut consider = |offset: u64| {
                let cold_bytes = length - self.warm_bytes(offset, offset + length);
                let rank = (cold_bytes, end - start, offset);
                best = Some(best.map_or(rank, |best| best.min(rank)));
            };
            consider(start);
            let (mut chunk, chunk_end) = (start / CHUNK_BYTES, end / CHUNK_BYTES);
            for _ in 0..WARM_RUNS_MAX {
                let Some((first, run_end)) = mapping::next_run(self.table.warm(), chunk, chunk_end, true) else {
                    break;
                };
                consider((first * CHUNK_BYTES).min(end - length));
                consider((run_end * CHUNK_BYTES).saturating_sub(length).max(start));
                chunk = run_end;
            }
        }
        best.map(|(_, _, offset)| offset)
    }

    fn warm_bytes(&self, start: u64, end: u64) -> u64 {
        mapping::count_run(self.table.warm(), start / CHUNK_BYTES, end / CHUNK_BYTES) * CHUNK_BYTES
    }

    /// Frees the orphans within `start..end` that nobody pins.
    fn free_unneeded(&mut self, start: u64, end: u64) {
        let within = self.orphans.iter().map(|(first, last)| (first.max(start), last.min(end)));
        let within: Vec<(u64, u64)> = within.filter(|(first, last)| first < last).collect();
        if within.is_empty() {
            return;
        }
        // STORE-9: nobody finds an object there from here on, except who had pinned it.
        self.take_serials(&within);
        let needed = self.table.pin_ranges().into_iter();
        let mut needed: Vec<(u64, u64)> = needed.map(|(start, end)| chunks_around(start, end)).collect();
        needed.sort_unstable();
        for (first, last) in within {
            let mut from = first;
            for &(need_start, need_end) in &needed {
                if need_start >= last {
                    break;
                }
                if need_end > from {
                    self.unorphan(from, need_start.max(from));
                    from = need_end.min(last);
                }
            }
            self.unorphan(from, last);
        }
    }

    /// Takes the serials of objects away that nobody pins.
    fn take_serials(&self, ranges: &[(u64, u64)]) {
        let mut pinned = Vec::new();
        self.table.pin_starts(&mut pinned);
        for &(start, end) in ranges {
            let chunks = (start / CHUNK_BYTES) as usize..(end / CHUNK_BYTES) as usize;
            for (at, serial) in self.table.chunk_serials()[chunks.clone()].iter().enumerate() {
                let chunk = (chunks.start + at) as u64 * CHUNK_BYTES;
                let next = pinned.partition_point(|place| *place < chunk);
                let is_pinned = pinned.get(next).is_some_and(|place| *place < chunk + CHUNK_BYTES);
                if serial.load(Ordering::Relaxed) != 0 && !is_pinned {
                    serial.store(0, Ordering::SeqCst);
                }
            }
        }
    }

    fn unorphan(&mut self, start: u64, end: u64) {
        if start < end {
            self.orphans.remove(start, end);
            self.free.insert(start, end);
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("capacity", &self.capacity())
            .field("free", &self.free())
            .field("leases", &self.held.len())
            .finish_non_exhaustive()
    }
}

fn chunks_around(start: u64, end: u64) -> (u64, u64) {
    (start / CHUNK_BYTES * CHUNK_BYTES, end.next_multiple_of(CHUNK_BYTES))
}
