//! What a simulated process has recorded, for whoever takes over from it.

use std::collections::BTreeMap;

use party::Progress;
use wire::journal::Record;

/// The records of one process, by cell. The later of two has the higher one.
#[derive(Default)]
pub(crate) struct Journal {
    cells: BTreeMap<u32, (Record, Progress)>,
    written: u32,
}

impl Journal {
    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    pub(crate) fn erase(&mut self, cell: u32) {
        self.cells.remove(&cell);
    }

    pub(crate) fn write(&mut self, record: Record, progress: Progress) -> u32 {
        self.written += 1;
        self.cells.insert(self.written, (record, progress));
        self.written
    }

    /// The task in this cell has got so far.
    pub(crate) fn note(&mut self, cell: u32, progress: Progress) {
        if let Some((_, known)) = self.cells.get_mut(&cell) {
            *known = progress;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Record, Progress)> {
        self.cells.values()
    }

    pub(crate) fn read(self) -> Vec<(Record, Progress)> {
        self.cells.into_values().collect()
    }
}
