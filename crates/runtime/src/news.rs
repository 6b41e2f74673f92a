//! What threads that wait have not been told yet.

use owner::Slot;

/// Since they were last told.
#[derive(Default)]
pub(crate) struct News {
    /// Something that is neither object nor call; and whether it is for all of them.
    has_other: bool,
    is_for_all: bool,
    /// Groups of methods that calls came for, one entry a call.
    calls: Vec<u16>,
    /// Objects that were resolved, and whether one of them failed.
    objects: Vec<Slot>,
    has_failed: bool,
}

impl News {
    /// Every thread that waits must look.
    pub(crate) fn note_for_all(&mut self) {
        (self.has_other, self.is_for_all) = (true, true);
    }

    /// Something that is neither object nor call.
    pub(crate) fn note(&mut self) {
        self.has_other = true;
    }

    #[inline]
    pub(crate) fn note_call(&mut self, group: u16) {
        self.calls.push(group);
    }

    #[inline]
    pub(crate) fn note_resolved(&mut self, slot: Slot, has_failed: bool) {
        self.has_failed |= has_failed;
        self.objects.push(slot);
    }

    /// Tells, if there is something to tell, and begins anew.
    #[inline]
    pub(crate) fn tell(&mut self, tell: impl FnOnce(net::News<'_>)) {
        if self.has_other || !self.objects.is_empty() || !self.calls.is_empty() {
            let Self { objects, calls, has_failed, is_for_all, .. } = &*self;
            tell(net::News { objects, calls, has_failed: *has_failed, is_for_all: *is_for_all });
            self.objects.clear();
            self.calls.clear();
            (self.has_other, self.has_failed, self.is_for_all) = (false, false, false);
        }
    }
}
