//! HOT: which objects are ready, readable without a lock: `wait` over a thousand refs looks here a thousand times.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

const CHUNK: usize = 4096;
const CHUNKS: usize = 16 * 1024;

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Readiness {
    /// Nothing yet.
    Pending = 0,
    /// It has a value.
    Value = 1,
    /// It never will.
    Failed = 2,
}

#[derive(Default)]
struct Cell {
    /// 0: pending, 1: has a value, 2: failed.
    state: AtomicU32,
    /// The last `wait` call that saw this object: a second sight in the same call is a duplicate.
    mark: AtomicU32,
}

/// A growing table that never moves, so that readers need no lock.
pub struct Cells {
    chunks: Box<[AtomicPtr<Cell>]>,
}

impl Cells {
    /// Nothing is ready.
    #[must_use]
    pub fn new() -> Self {
        Self { chunks: (0..CHUNKS).map(|_| AtomicPtr::default()).collect() }
    }

    #[inline]
    fn cell(&self, slot: u32) -> &Cell {
        let entry = &self.chunks[slot as usize / CHUNK];
        let mut chunk = entry.load(Ordering::Acquire);
        if chunk.is_null() {
            chunk = Self::grow(entry);
        }
        // SAFETY: a chunk holds CHUNK cells, is never moved and lives as long as the table.
        unsafe { &*chunk.add(slot as usize % CHUNK) }
    }

    #[cold]
    fn grow(entry: &AtomicPtr<Cell>) -> *mut Cell {
        let fresh: Box<[Cell]> = (0..CHUNK).map(|_| Cell::default()).collect();
        let fresh = Box::into_raw(fresh).cast::<Cell>();
        match entry.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(other) => {
                // SAFETY: made above and not published.
                drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(fresh, CHUNK)) });
                other
            }
        }
    }

    /// Says what became of the object.
    #[inline]
    pub fn set(&self, slot: u32, readiness: Readiness) {
        self.cell(slot).state.store(readiness as u32, Ordering::Release);
    }

    /// Whether it has failed.
    #[must_use]
    #[inline]
    pub fn is_failed(&self, slot: u32) -> bool {
        self.cell(slot).state.load(Ordering::Acquire) == Readiness::Failed as u32
    }

    /// Whether it has a value or has failed.
    #[must_use]
    #[inline]
    pub fn is_ready(&self, slot: u32) -> bool {
        self.cell(slot).state.load(Ordering::Acquire) != 0
    }

    /// Marks the object as seen by `wait` call number `call`; false if that call has seen it before.
    #[must_use]
    #[inline]
    pub fn mark(&self, slot: u32, call: u32) -> bool {
        self.cell(slot).mark.swap(call, Ordering::Relaxed) != call
    }
}

impl Default for Cells {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        for entry in &self.chunks {
            let chunk = entry.load(Ordering::Acquire);
            if !chunk.is_null() {
                // SAFETY: made by `grow` with that length; nobody reads any more.
                drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(chunk, CHUNK)) });
            }
        }
    }
}
