//! HOT: which objects are ready, readable without a lock: `wait` over a thousand refs looks here a thousand times.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Cells in the first chunk; each further one has twice as many.
const FIRST: usize = 4096;
/// Enough for every slot that there can be.
const CHUNKS: usize = 21;

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
    chunks: [AtomicPtr<Cell>; CHUNKS],
}

/// In which chunk a slot lies, and where in it.
#[inline]
fn place(slot: u32) -> (usize, usize) {
    let chunk = (slot as usize / FIRST + 1).ilog2() as usize;
    (chunk, slot as usize - FIRST * ((1 << chunk) - 1))
}

fn layout(chunk: usize) -> Layout {
    Layout::array::<Cell>(FIRST << chunk).expect("fewer bytes than there are addresses")
}

impl Cells {
    /// Nothing is ready.
    #[must_use]
    pub fn new() -> Self {
        Self { chunks: Default::default() }
    }

    #[inline]
    fn cell(&self, slot: u32) -> &Cell {
        let (number, at) = place(slot);
        let mut chunk = self.chunks[number].load(Ordering::Acquire);
        if chunk.is_null() {
            chunk = self.grow(number);
        }
        // SAFETY: a chunk holds FIRST << number cells, which `at` is below; it is never moved and lives as long as the table.
        unsafe { &*chunk.add(at) }
    }

    #[cold]
    fn grow(&self, number: usize) -> *mut Cell {
        let layout = layout(number);
        // SAFETY: it has a size; zeroes are what a fresh cell is. Pages that no slot lies in are never touched.
        let fresh = unsafe { alloc_zeroed(layout) }.cast::<Cell>();
        if fresh.is_null() {
            handle_alloc_error(layout);
        }
        match self.chunks[number].compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(other) => {
                // SAFETY: made above and not published.
                unsafe { dealloc(fresh.cast(), layout) };
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
        for (number, entry) in self.chunks.iter().enumerate() {
            let chunk = entry.load(Ordering::Acquire);
            if !chunk.is_null() {
                // SAFETY: made by `grow` with that layout; nobody reads any more, and a cell has nothing to drop.
                unsafe { dealloc(chunk.cast(), layout(number)) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNKS, Cells, FIRST, Readiness, place};

    #[test]
    fn every_slot_has_a_place_of_its_own() {
        let mut next = 0_u64;
        for chunk in 0..CHUNKS {
            for at in [0, 1, (FIRST << chunk) - 1] {
                let slot = next + at as u64;
                if let Ok(slot) = u32::try_from(slot) {
                    assert_eq!(place(slot), (chunk, at));
                }
            }
            next += (FIRST << chunk) as u64;
        }
        assert!(next > u64::from(u32::MAX));
    }

    /// The table had an end that a program with enough memory could reach: the object behind it was a panic under the process's lock.
    #[test]
    fn more_objects_than_sixty_seven_million_can_be_ready() {
        let cells = Cells::new();
        let slot = 16 * 1024 * 4096;
        cells.set(slot, Readiness::Value);
        assert!(cells.is_ready(slot) && !cells.is_ready(slot - 1) && !cells.is_ready(slot + 1));
    }
}
