//! The store as one process sees it: reserve, seal, free; pin.
//!
//! Two locks, both private to the process, never held together nor across anything that waits for somebody else: one
//! around the allocator, one around the book of pins. Reading and writing objects takes none.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::blocks::{BlockId, Blocks, Shape};
use crate::mapping::{self, ChunkBits, Home, Mapping};
use crate::pins::Pins;
use crate::table::Table;
use crate::view::{Pin, View};
use crate::{CHUNK_BYTES, Error, Extent, Place};

/// Up to this many kept blocks are looked at one by one; more are compared with a sorted list of all pins.
const KEPT_ONE_BY_ONE_MAX: usize = 4;

/// A process's door to the arena of its node. Clones are the same client.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

/// No extent of this process has room: ask the node for one of `length` bytes, add it, and reserve again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no extent has room for {length} bytes")]
pub struct NeedExtent {
    /// Bytes to ask for; a little more than was reserved, as large objects fill whole pages.
    pub length: u64,
}

pub(crate) struct Inner {
    pub(crate) data: Mapping,
    table: Table,
    slot: u16,
    home: Home,
    /// Chunks that this process has in its page table.
    mapped: ChunkBits,
    heap: Mutex<Heap>,
    pins: Mutex<Pins>,
}

struct Heap {
    blocks: Blocks,
    /// Freed while pinned.
    kept: Vec<BlockId>,
    /// Calls until `kept` is looked at again.
    kept_due: usize,
    pin_starts: Vec<u64>,
}

impl Client {
    /// Maps the arena. All of it can be read, nothing written until an extent is added. The descriptors are closed.
    pub fn attach(data: OwnedFd, table: OwnedFd, proc_slot: u16) -> Result<Self, Error> {
        let table = Table::attach(&table, proc_slot)?;
        let length = mapping::sealed_length(&data)?;
        if length != table.capacity() {
            return Err(Error::BadArena("the data and the pin table differ in size"));
        }
        let data = Mapping::read_only(&data, length)?;
        let home = Home::new()?;
        let heap = Heap { blocks: Blocks::new(), kept: Vec::new(), kept_due: 0, pin_starts: Vec::new() };
        // Last of what can fail, for it is undone by dropping `Inner`.
        table.take_slot(proc_slot)?;
        let inner = Inner {
            data,
            table,
            slot: proc_slot,
            home,
            mapped: ChunkBits::new(length),
            heap: Mutex::new(heap),
            pins: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Bytes in the arena.
    pub fn capacity(&self) -> u64 {
        self.inner.table.capacity()
    }

    /// Takes over an extent that the node has leased to this process, and opens it for writing.
    pub fn add_extent(&self, extent: Extent) -> Result<(), Error> {
        self.inner.check_home()?;
        if !extent.is_sound(self.capacity()) {
            return Err(Error::BadExtent(extent));
        }
        let mut heap = self.inner.heap();
        if !heap.blocks.has_room_for(extent) {
            return Err(Error::BadExtent(extent));
        }
        self.inner.data.open(extent)?;
        heap.blocks.add(extent);
        Ok(())
    }

    /// Reserves room for an object of `length` bytes, 64-byte aligned, and by pages from 1 MiB on. Its pages are mapped
    /// when this returns, so that writing does not fault; where nobody has touched them before, that is most of the
    /// cost of a put, so a caller should hold no lock of its own here.
    ///
    /// On [`NeedExtent`]: give [`idle_extents`](Self::idle_extents) beyond some 64 MiB back to the node, so that it can
    /// merge them, ask it for `length` bytes, [`add_extent`](Self::add_extent), and reserve again.
    pub fn reserve(&self, length: u64) -> Result<Reservation, NeedExtent> {
        let inner = &self.inner;
        let shape = Shape::of(length).ok_or(NeedExtent { length })?;
        if inner.check_home().is_err() {
            return Err(NeedExtent { length: shape.size });
        }
        let mut heap = inner.heap();
        heap.recheck_kept_if_due(&inner.table);
        let found = heap
            .blocks
            .reserve(length, shape)
            .or_else(|| heap.recheck_kept(&inner.table).then(|| heap.blocks.reserve(length, shape)).flatten());
        drop(heap);
        let (block, offset) = found.ok_or(NeedExtent { length: shape.size })?;
        inner.map_chunks(offset, offset + shape.size);
        Ok(Reservation {
            inner: inner.clone(),
            block: Some(block),
            place: Place { offset, length, serial: inner.table.serials() },
        })
    }

    /// Whether [`reserve`](Self::reserve) would find room for so much now.
    pub fn has_room(&self, length: u64) -> bool {
        let inner = &self.inner;
        let Some(shape) = Shape::of(length).filter(|_| inner.check_home().is_ok()) else { return false };
        let mut heap = inner.heap();
        heap.recheck_kept(&inner.table);
        heap.blocks.has_room(shape)
    }

    /// Frees an object that this process has sealed. If anybody looks at it, its bytes are set aside until nobody does.
    /// A place that is not such an object, or not any more, is refused and nothing changes.
    pub fn free(&self, place: Place) -> Result<(), Error> {
        let inner = &self.inner;
        inner.check_home()?;
        inner.table.check_node(place)?;
        let mut heap = inner.heap();
        heap.recheck_kept_if_due(&inner.table);
        let (block, start, end) = heap.blocks.find(place)?;
        if place.is_unique() {
            // STORE-9: whoever pins from here on is told that it has moved.
            inner.table.serial(place.offset).store(0, Ordering::SeqCst);
        }
        if inner.table.is_pinned(start, end) {
            heap.blocks.keep(block);
            heap.kept.push(block);
        } else {
            heap.blocks.release(block);
        }
        Ok(())
    }

    /// Looks at an object of any process, and keeps its bytes where they are. An object without a serial must be kept alive
    /// by something else until this returns.
    ///
    /// # Errors
    /// `Moved` if the object does not lie there any more, `Elsewhere` if it never did: it is another node's.
    pub fn pin(&self, place: Place) -> Result<View, Error> {
        let inner = &self.inner;
        inner.check_home()?;
        if !crate::is_inside(place, self.capacity()) {
            return Err(Error::BadPlace(place));
        }
        inner.table.check_node(place)?;
        let key = inner.pins().pin(&inner.table, inner.slot, place)?;
        let view = View::new(Pin { inner: inner.clone(), key, place });
        if place.is_unique() && inner.table.serial(place.offset).load(Ordering::SeqCst) != place.serial {
            return Err(Error::Moved);
        }
        Ok(view)
    }

    /// As `pin`, for long: some pins are left for those who look for a moment.
    pub fn pin_to_keep(&self, place: Place) -> Result<View, Error> {
        if self.inner.pins().len() >= crate::PINS_KEPT_MAX as usize {
            return Err(Error::PinsFull { max: crate::PINS_KEPT_MAX });
        }
        self.pin(place)
    }

    /// Whether anybody but the caller, who has `own` views of it, looks at the object.
    pub fn is_looked_at(&self, place: Place, own: u32) -> bool {
        let inner = &self.inner;
        let here = inner.pins().views(place);
        here > own || inner.table.is_pinned_elsewhere(inner.slot, place.offset)
    }

    /// Gives up extents in which nothing is left, the longest unused first, except for up to `keep_bytes` of them.
    /// They are closed for writing, and the caller gives them back to the node.
    pub fn idle_extents(&self, keep_bytes: u64) -> Vec<Extent> {
        let inner = &self.inner;
        if inner.check_home().is_err() {
            return Vec::new();
        }
        let mut heap = inner.heap();
        heap.recheck_kept(&inner.table);
        let mut given = heap.blocks.give_up_idle(keep_bytes);
        // Closing splits a mapping and can run into the kernel's limit. Such an extent stays with us (STORE-5).
        given.retain(|&extent| {
            inner.data.close(extent).is_ok() || {
                heap.blocks.add(extent);
                false
            }
        });
        given
    }

    /// Looks again at what was freed while pinned.
    pub fn sweep(&self) {
        if self.inner.check_home().is_ok() {
            self.inner.heap().recheck_kept(&self.inner.table);
        }
    }

    /// Whether something was freed that somebody still looks at, as far as was looked.
    pub fn keeps_freed(&self) -> bool {
        self.inner.check_home().is_ok() && !self.inner.heap().kept.is_empty()
    }

    /// Bytes in blocks that are reserved, sealed, or freed while pinned.
    pub fn used_bytes(&self) -> u64 {
        if self.inner.check_home().is_err() { 0 } else { self.inner.heap().blocks.used_bytes() }
    }

    /// Different places that this process looks at.
    pub fn pins_count(&self) -> usize {
        if self.inner.check_home().is_err() { 0 } else { self.inner.pins().len() }
    }

    /// Bytes in the extents of this process.
    pub fn held_bytes(&self) -> u64 {
        if self.inner.check_home().is_err() { 0 } else { self.inner.heap().blocks.held_bytes() }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("slot", &self.inner.slot).finish_non_exhaustive()
    }
}

impl Inner {
    /// Before every lock: in a forked child another thread may have held it (STORE-7).
    fn check_home(&self) -> Result<(), Error> {
        if self.home.is_here() { Ok(()) } else { Err(Error::Forked) }
    }

    /// A panic in the allocator is a broken invariant; whoever comes next must not build on it.
    fn heap(&self) -> MutexGuard<'_, Heap> {
        self.heap.lock().expect("STORE-1: the allocator has panicked before")
    }

    fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn unpin(&self, key: u64) {
        if self.home.is_here() {
            self.pins().unpin(&self.table, self.slot, key);
        }
    }

    /// Maps what is not mapped of the chunks around `start..end`, which lie in an extent of this process.
    fn map_chunks(&self, start: u64, end: u64) {
        let (mut chunk, chunk_end) = (start / CHUNK_BYTES, end.div_ceil(CHUNK_BYTES));
        while let Some((first, run_end)) = mapping::next_run(self.mapped.words(), chunk, chunk_end, false) {
            self.populate(first, run_end);
            chunk = run_end;
        }
    }

    fn populate(&self, first: u64, end: u64) -> bool {
        let extent = Extent { offset: first * CHUNK_BYTES, length: (end - first) * CHUNK_BYTES };
        let done = self.data.populate(extent);
        if done {
            mapping::set_run(self.mapped.words(), first, end);
            mapping::set_run(self.table.warm(), first, end);
        }
        done
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.home.is_here() {
            self.table.leave_slot(self.slot);
        }
    }
}

impl Heap {
    /// Looks at the kept blocks about once per as many calls as there are of them, so that each call pays for one.
    fn recheck_kept_if_due(&mut self, table: &Table) {
        if self.kept.is_empty() {
            return;
        }
        if self.kept_due == 0 {
            self.recheck_kept(table);
        } else {
            self.kept_due -= 1;
        }
    }

    /// Frees the kept blocks that nobody looks at any more. True if there were any.
    fn recheck_kept(&mut self, table: &Table) -> bool {
        let kept_before = self.kept.len();
        let Self { blocks, kept, pin_starts, .. } = self;
        let one_by_one = kept_before <= KEPT_ONE_BY_ONE_MAX;
        if !one_by_one {
            table.pin_starts(pin_starts);
        }
        kept.retain(|&block| {
            let (start, end) = blocks.span(block);
            let pinned = if one_by_one {
                table.is_pinned(start, end)
            } else {
                let next = pin_starts.partition_point(|&pin| pin < start);
                pin_starts.get(next).is_some_and(|&pin| pin < end)
            };
            if !pinned {
                blocks.release(block);
            }
            pinned
        });
        self.kept_due = self.kept.len();
        self.kept.len() < kept_before
    }
}

/// Room for one object that is being written. Sealing makes it an object; dropping it gives the room back.
pub struct Reservation {
    inner: Arc<Inner>,
    /// `None` once sealed.
    block: Option<BlockId>,
    place: Place,
}

impl Reservation {
    /// The bytes to write. They hold whatever was there before.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let start = self.inner.data.at(self.place.offset);
        // SAFETY: the block lies in an extent of this process, which is open for writing while it has blocks in use;
        // no other block overlaps it (STORE-1) and nobody reads it before it is sealed. The lifetime is bound to
        // `&mut self`. A page of a memfd is never uninitialised.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.place.length as usize) }
    }

    /// Bytes, as they were asked for.
    pub fn len(&self) -> usize {
        self.place.length as usize
    }

    /// True for an object of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the writing. The place can be sent to others; the message that carries it orders the bytes before it.
    pub fn seal(mut self) -> Place {
        self.block = None;
        if self.place.length > CHUNK_BYTES {
            let table = &self.inner.table;
            self.place.serial = table.new_serial();
            table.serial(self.place.offset).store(self.place.serial, Ordering::SeqCst);
        }
        self.place
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reservation").field(&self.place).finish()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(block) = self.block else { return };
        // After a panic in the allocator the room is lost, which is better than a panic in a drop.
        if self.inner.home.is_here()
            && let Ok(mut heap) = self.inner.heap.lock()
        {
            heap.blocks.release(block);
        }
    }
}
