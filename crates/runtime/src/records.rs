//! Where what this process gives away is recorded, and where the heir finds what others have recorded.

use model::ProcId;
use party::Progress;
use store::{Cell, Journal, Journals};
use wire::journal::Record;

/// Our own journal, or everyone's.
#[derive(Default)]
pub(crate) struct Records {
    /// None if our death is our node's.
    ours: Option<Journal>,
    /// None if we are no heir.
    everyones: Option<Journals>,
}

impl Records {
    /// Of a process that others outlive.
    pub(crate) fn of_mortal(journal: Journal) -> Self {
        Self { ours: Some(journal), everyones: None }
    }

    /// Of the heir.
    pub(crate) fn of_heir(journals: Journals) -> Self {
        Self { ours: None, everyones: Some(journals) }
    }

    /// What a process has recorded, the later of two records of one thing behind the other.
    pub(crate) fn read(&self, of: ProcId) -> Option<Vec<(Record, Progress)>> {
        let left = self.everyones.as_ref()?.read(of.slot()).unwrap_or_default().into_iter();
        let read = left.filter_map(|left| {
            let store::Progress { worker, retries, oom_retries } = left.progress;
            let worker = ProcId::from_u64(worker);
            Some((wire::decode(&left.body).ok()?, Progress { worker, retries, oom_retries }))
        });
        Some(read.collect())
    }

    pub(crate) fn are_kept(&self) -> bool {
        self.ours.is_some()
    }

    pub(crate) fn write(&mut self, body: &[u8], progress: store::Progress) -> Option<u32> {
        self.ours.as_mut()?.write(body, progress).map(Cell::to_u32)
    }

    pub(crate) fn erase(&mut self, cell: u32) {
        if let (Some(journal), Some(cell)) = (self.ours.as_mut(), Cell::from_u32(cell)) {
            journal.erase(cell);
        }
    }

    pub(crate) fn note(&mut self, cell: u32, progress: store::Progress) {
        if let (Some(journal), Some(cell)) = (self.ours.as_mut(), Cell::from_u32(cell)) {
            journal.note(cell, progress);
        }
    }
}
