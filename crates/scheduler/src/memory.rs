//! What is over but may still be heard of: leases given back, processes gone.
//!
//! Both are bounded. A lease that was forgotten and is asked for again is granted again; its owner,
//! who does not know it any more, gives it back.

use model::{LeaseId, ProcId};

const LEASES_MAX: usize = 2_048;

/// Leases that their owners have given back or no longer want, about the last 2,048 of them.
///
/// HOT: once per lease. One slot per hash value; a newer one takes the slot of an older.
pub(crate) struct Ended(Box<[Option<LeaseId>]>);

impl Ended {
    pub(crate) fn new() -> Self {
        Self(vec![None; LEASES_MAX].into())
    }

    pub(crate) fn note(&mut self, lease: LeaseId) {
        self.0[slot(lease)] = Some(lease);
    }

    pub(crate) fn has(&self, lease: LeaseId) -> bool {
        self.0[slot(lease)] == Some(lease)
    }
}

fn slot(lease: LeaseId) -> usize {
    let mixed = (lease.number ^ lease.owner.to_u64().rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % LEASES_MAX
}

/// Processes that are gone. A slot's epoch only grows, so one number per slot tells all its past users.
#[derive(Default)]
pub(crate) struct Gone(Vec<u32>);

impl Gone {
    pub(crate) fn note(&mut self, process: ProcId) {
        let slot = usize::from(process.slot);
        if self.0.len() <= slot {
            self.0.resize(slot + 1, 0);
        }
        self.0[slot] = self.0[slot].max(process.epoch.saturating_add(1));
    }

    pub(crate) fn has(&self, process: ProcId) -> bool {
        self.0.get(usize::from(process.slot)).is_some_and(|epochs| process.epoch < *epochs)
    }
}
