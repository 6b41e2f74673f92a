//! HOT: how a process sleeps and is woken. One doorbell for all its rings: senders set a bit in the receiver's ready map and make
//! the wake-up system call only if the receiver says that it sleeps.
//!
//! - **BELL-1** a frame published before or while the receiver falls asleep wakes it: the receiver says that it sleeps, then looks once
//!   more; the sender sets the bit, then looks whether the receiver sleeps.

use std::sync::Arc;
use std::time::Duration;

use rustix::thread::futex;
use rustix::time::Timespec;

use crate::segment::{ProcEntry, RINGS_PER_PROC, Segment};
use crate::sync::{AtomicU32, Ordering, fence};

/// One process's doorbell, in its own hands or in a peer's.
#[derive(Clone)]
pub struct Bell {
    segment: Arc<Segment>,
    slot: u16,
}

impl Bell {
    /// The bell of the process in `slot`.
    #[must_use]
    pub fn new(segment: Arc<Segment>, slot: u16) -> Self {
        Self { segment, slot }
    }

    #[inline]
    fn entry(&self) -> &ProcEntry {
        self.segment.proc(self.slot)
    }

    /// Sender: ring `bit` has a frame. Wakes the receiver if it sleeps.
    #[inline]
    pub fn ring(&self, bit: u16) {
        let entry = self.entry();
        entry.ready[usize::from(bit) / 64].fetch_or(1 << (bit % 64), Ordering::SeqCst);
        if entry.asleep.load(Ordering::SeqCst) != 0 {
            self.wake();
        }
    }

    /// Wakes whoever sleeps, frame or not.
    #[cold]
    pub fn wake(&self) {
        let entry = self.entry();
        entry.bell.fetch_add(1, Ordering::SeqCst);
        let _ = futex_wake(&entry.bell);
    }

    /// Receiver: whether any ring has a frame.
    #[must_use]
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.entry().ready.iter().any(|word| word.load(Ordering::Acquire) != 0)
    }

    /// Receiver: calls `each` for every ring that has a frame, and clears the map.
    #[inline]
    pub fn take_ready(&self, mut each: impl FnMut(u16)) {
        for (index, word) in self.entry().ready.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::SeqCst);
            while bits != 0 {
                each((index * 64) as u16 + bits.trailing_zeros() as u16);
                bits &= bits - 1;
            }
        }
        debug_assert!(RINGS_PER_PROC as usize == self.entry().ready.len() * 64);
    }

    /// Receiver: the doorbell's count, to be read before the last look that precedes `sleep`.
    #[must_use]
    #[inline]
    pub fn count(&self) -> u32 {
        self.entry().bell.load(Ordering::SeqCst)
    }

    /// Receiver: sleeps until somebody rings, `limit` passes or a signal comes. Returns at once if a frame waits or the bell
    /// rang since `count` was read.
    pub fn sleep(&self, count: u32, limit: Option<Duration>) {
        let entry = self.entry();
        entry.asleep.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !self.is_ready() {
            futex_wait(&entry.bell, count, limit);
        }
        entry.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether the process behind the bell is alive, as far as the node knows.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.entry().state.load(Ordering::Acquire) == 1
    }
}

/// Sleeps while `word` is `value`, at most `limit`. Wakes for signals, too.
pub fn futex_wait(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let limit =
        limit.map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) });
    #[cfg(not(loom))]
    let _ = futex::wait(word, futex::Flags::empty(), value, limit.as_ref());
    #[cfg(loom)]
    let _ = (word, value, limit);
}

/// Wakes everyone who sleeps on `word`.
pub fn futex_wake(word: &AtomicU32) -> usize {
    #[cfg(not(loom))]
    return futex::wake(word, futex::Flags::empty(), i32::MAX as u32).unwrap_or(0);
    #[cfg(loom)]
    {
        let _ = word;
        0
    }
}
