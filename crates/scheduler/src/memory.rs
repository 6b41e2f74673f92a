//! What is over but may still be heard of: leases given back.
//!
//! They are bounded. A lease that was forgotten and is asked for again is granted again; its owner,
//! who does not know it any more, gives it back.

use std::collections::VecDeque;

use model::LeaseId;
use rustc_hash::FxHashSet;

const LEASES_MAX: usize = 2_048;

/// The last 2,048 leases that their owners have given back or no longer want.
///
/// HOT: once per lease.
pub(crate) struct Ended {
    known: FxHashSet<LeaseId>,
    /// The oldest first.
    order: VecDeque<LeaseId>,
}

impl Ended {
    pub(crate) fn new() -> Self {
        Self { known: FxHashSet::default(), order: VecDeque::new() }
    }

    pub(crate) fn note(&mut self, lease: LeaseId) {
        if !self.known.insert(lease) {
            return;
        }
        if self.order.len() == LEASES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(lease);
    }

    pub(crate) fn has(&self, lease: LeaseId) -> bool {
        self.known.contains(&lease)
    }
}

#[cfg(test)]
mod tests {
    use model::ProcId;

    use super::*;

    fn lease(number: u64) -> LeaseId {
        LeaseId { owner: ProcId::new(1, 1 + (number % 7) as u16, 0), number }
    }

    #[test]
    fn the_last_2048_are_known_and_none_before_them() {
        let mut ended = Ended::new();
        for number in 0..5_000 {
            ended.note(lease(number));
            ended.note(lease(number));
        }
        assert!((0..2_952).all(|number| !ended.has(lease(number))));
        assert!((2_952..5_000).all(|number| ended.has(lease(number))));
        assert_eq!((ended.known.len(), ended.order.len()), (LEASES_MAX, LEASES_MAX));
    }
}
