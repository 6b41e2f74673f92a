//! On which core a worker sleeps.
//!
//! While no core is idle, a caller and workers that do next to nothing per call are best off on one core: handing over is a context switch
//! there, while waking a sleeper on the other core, which a stranger uses, takes four times as long. So a caller says where it waits, and a
//! worker that has been awake for a moment only moves there before it falls asleep. It is not pinned: the kernel may move it away, and
//! does as soon as a core is idle. Whoever works for longer stays where the kernel put it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::clock::now_ns;
use crate::segment::ProcEntry;
use crate::sync::Ordering;

/// Between two moves, so that they never cost much even where the kernel undoes each at once.
const PAUSE_NS: u64 = 1_000_000;

/// A worker that was awake for longer has work of its own, for which another core may be better.
const AWAKE_NS_MAX: u64 = 100_000;

/// One worker's memory of its moves.
#[derive(Default)]
pub struct Berth {
    woke_ns: u64,
    moved_ns: u64,
    settled_on: Option<usize>,
}

impl Berth {
    /// The thread has slept.
    pub fn wake(&mut self) {
        self.woke_ns = now_ns();
    }

    /// The calling thread is about to sleep and `caller` was the last to call: moves to the core on which that one waits.
    pub fn settle(&mut self, caller: &ProcEntry) {
        let now = now_ns();
        if now.saturating_sub(self.woke_ns) > AWAKE_NS_MAX || now.saturating_sub(self.moved_ns) < PAUSE_NS {
            return;
        }
        let Some(core) = caller.waits_on.load(Ordering::Relaxed).checked_sub(1) else { return };
        self.settled_on = Some(core as usize);
        if core as usize != sched_getcpu() {
            move_to(|each| each == core as usize);
            self.moved_ns = now;
        }
    }

    /// The calling thread is about to sleep while there is an idle core: if it is still where it settled, it moves off. The kernel would
    /// do that too, but only after milliseconds in which caller and worker spin in each other's way.
    pub fn leave(&mut self) {
        if let Some(core) = self.settled_on.take()
            && core == sched_getcpu()
        {
            move_to(|each| each != core);
        }
    }
}

impl ProcEntry {
    /// A thread of this process is about to wait for calls: here.
    pub fn say_where(&self) {
        self.waits_on.store(sched_getcpu() as u32 + 1, Ordering::Relaxed);
    }
}

/// Moves the calling thread to one of the cores that `is_there` names and it may run on. What the user allowed is the same afterwards.
fn move_to(is_there: impl Fn(usize) -> bool) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut there = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core) && is_there(*core)).for_each(|core| there.set(core));
    if there.count() > 0 && sched_setaffinity(None, &there).is_ok() {
        let _ = sched_setaffinity(None, &allowed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_move_leaves_the_allowed_cores_as_they_were() {
        let before = sched_getaffinity(None).unwrap();
        let last = (0..CpuSet::MAX_CPU).rev().find(|core| before.is_set(*core)).unwrap();
        move_to(|core| core == last);
        assert_eq!(sched_getcpu(), last);
        move_to(|_| false);
        assert_eq!(before, sched_getaffinity(None).unwrap());
    }
}
