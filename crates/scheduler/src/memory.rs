//! What is over but may still be heard of: leases given back.
//!
//! They are bounded. A lease that was forgotten and is asked for again is granted again; its owner,
//! who does not know it any more, gives it back.

use model::LeaseId;

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
    // Owners differ in the middle bits of their names, and numbers in their low ones.
    let owner = lease.owner.to_u64().wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mixed = (lease.number ^ owner).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % LEASES_MAX
}
