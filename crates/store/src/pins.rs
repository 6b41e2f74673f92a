//! The pins of this process: which entry of its slot stands for which place, and for how many views.
//!
//! Several views of one place share one entry, so that reading one object a million times does not fill the table. The
//! lowest free entry is taken first and the high mark follows it down, so that every process's frees scan few entries.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::table::Table;
use crate::{ALIGN_BYTES, Error, PINS_MAX, Place};

/// The high mark moves in steps of one cache line of entries.
const HIGH_STEP: u32 = 8;

#[derive(Default)]
pub(crate) struct Pins {
    held: HashMap<u64, Held, OffsetHash>,
    /// One bit per entry in use.
    used: Vec<u64>,
    /// All words of `used` before this one are full.
    full_words: usize,
    high: u32,
}

struct Held {
    index: u32,
    views: u32,
    length: u64,
}

impl Pins {
    /// Pins `place` once more, and returns the key to unpin it by.
    pub(crate) fn pin(&mut self, table: &Table, slot: u16, place: Place) -> Result<u64, Error> {
        let granule = place.offset / ALIGN_BYTES;
        let length = place.length + place.offset % ALIGN_BYTES;
        if let Some(held) = self.held.get_mut(&granule) {
            held.views = held.views.checked_add(1).ok_or(Error::PinsFull { max: u32::MAX })?;
            if held.length < length {
                held.length = length;
                table.pin(slot, held.index, granule, length);
            }
            return Ok(granule);
        }
        let index = self.take_index().ok_or(Error::PinsFull { max: PINS_MAX })?;
        if index >= self.high {
            self.high = (index + 1).next_multiple_of(HIGH_STEP);
            table.set_high(slot, self.high);
        }
        table.pin(slot, index, granule, length);
        self.held.insert(granule, Held { index, views: 1, length });
        Ok(granule)
    }

    /// Views of this place.
    pub(crate) fn views(&self, place: Place) -> u32 {
        self.held.get(&(place.offset / ALIGN_BYTES)).map_or(0, |held| held.views)
    }

    /// Different places that are pinned.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Takes back one pin.
    pub(crate) fn unpin(&mut self, table: &Table, slot: u16, granule: u64) {
        let held = self.held.get_mut(&granule).expect("STORE-3: unpinned a place that is not pinned");
        held.views -= 1;
        if held.views > 0 {
            return;
        }
        let index = held.index;
        self.held.remove(&granule);
        table.unpin(slot, index);
        self.give_index(index);
        // One spare step is left, so that a reader that pins and unpins does not write the mark every time.
        if index + 2 * HIGH_STEP >= self.high {
            let high = self.used_end().next_multiple_of(HIGH_STEP) + HIGH_STEP;
            if high < self.high {
                self.high = high;
                table.set_high(slot, high);
            }
        }
    }

    /// The lowest free entry.
    fn take_index(&mut self) -> Option<u32> {
        while self.used.get(self.full_words).is_some_and(|&word| word == u64::MAX) {
            self.full_words += 1;
        }
        if self.full_words == self.used.len() {
            if self.full_words as u32 * 64 >= PINS_MAX {
                return None;
            }
            self.used.push(0);
        }
        let bit = self.used[self.full_words].trailing_ones();
        self.used[self.full_words] |= 1 << bit;
        Some(self.full_words as u32 * 64 + bit)
    }

    fn give_index(&mut self, index: u32) {
        let word = index as usize / 64;
        self.used[word] &= !(1 << (index % 64));
        self.full_words = self.full_words.min(word);
    }

    /// One more than the highest entry in use.
    fn used_end(&self) -> u32 {
        let below = self.used.len().min(self.high.div_ceil(64) as usize);
        match self.used[..below].iter().rposition(|&word| word != 0) {
            Some(word) => (word as u32 + 1) * 64 - self.used[word].leading_zeros(),
            None => 0,
        }
    }
}

/// For keys that are offsets or granules: a multiplication instead of SipHash's twenty nanoseconds. The keys come from
/// our own allocator, so nobody can choose them to collide.
#[derive(Default)]
pub(crate) struct OffsetHasher(u64);

pub(crate) type OffsetHash = BuildHasherDefault<OffsetHasher>;

impl Hasher for OffsetHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only u64 keys are hashed");
    }

    fn write_u64(&mut self, key: u64) {
        let mixed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64) -> Place {
        Place { offset: number * ALIGN_BYTES, length: ALIGN_BYTES, serial: 0 }
    }

    #[test]
    fn store_3_views_of_one_place_share_an_entry() {
        let (table, _fd) = Table::create(1, 1 << 20, 2).unwrap();
        table.take_slot(1).unwrap();
        let mut pins = Pins::default();
        for _ in 0..100_000 {
            pins.pin(&table, 1, place(7)).unwrap();
        }
        for _ in 0..99_999 {
            pins.unpin(&table, 1, 7);
        }
        assert!(table.is_pinned(7 * 64, 8 * 64));
        pins.unpin(&table, 1, 7);
        assert!(!table.is_pinned(0, 1 << 20));
    }

    #[test]
    fn store_3_a_full_table_is_an_answer_and_empties_again() {
        let (table, _fd) = Table::create(1, 8 << 20, 1).unwrap();
        table.take_slot(0).unwrap();
        let mut pins = Pins::default();
        for number in 0..u64::from(PINS_MAX) {
            pins.pin(&table, 0, place(number)).unwrap();
        }
        assert!(matches!(pins.pin(&table, 0, place(100_000)), Err(Error::PinsFull { .. })));
        pins.unpin(&table, 0, 4_711);
        pins.pin(&table, 0, place(100_000)).unwrap();
        pins.unpin(&table, 0, 100_000);
        for number in (0..u64::from(PINS_MAX)).filter(|&number| number != 4_711) {
            assert!(number % 997 != 0 || table.is_pinned(number * 64, number * 64 + 64));
            pins.unpin(&table, 0, number);
        }
        assert!(!table.is_pinned(0, 8 << 20));
        assert!(pins.high <= 2 * HIGH_STEP, "a burst of pins does not slow every later free");
    }
}
