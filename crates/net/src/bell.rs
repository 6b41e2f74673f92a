//! HOT: how a process sleeps and is woken. One doorbell for all its rings: senders set a bit in the receiver's ready map and make
//! the wake-up system call only if the receiver says that it sleeps.
//!
//! - **BELL-1** a frame published before or while the receiver falls asleep wakes it: the receiver says that it sleeps, then looks once
//!   more; the sender sets the bit, then looks whether the receiver sleeps.
//!
//! A sender that is about to copy a large argument announces its frame: a receiver that sleeps wakes up meanwhile, and one that spins goes on
//! for a moment. An announcement is a hint that ends by itself: who misses one is woken by the frame, and what dies after one owes nothing.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::now_ns;
use crate::segment::{Further, ProcEntry, Segment};
#[cfg(not(loom))]
use crate::sync::AtomicU32;
use crate::sync::{Ordering, fence, fence_for_loom};

/// How long an announcement holds: some times what the last part of a large argument takes to copy.
const ANNOUNCED_US: u32 = 200;

/// One process's doorbell, in its own hands or in a peer's.
#[derive(Clone)]
pub struct Bell {
    segment: Arc<Segment>,
    slot: u16,
    /// Of who sleeps at descriptors, a node's carrier: what wakes it.
    event: Option<Arc<OwnedFd>>,
}

impl Bell {
    /// The bell of the process in `slot`.
    #[must_use]
    pub fn new(segment: Arc<Segment>, slot: u16) -> Self {
        Self { segment, slot, event: None }
    }

    /// The same of one that sleeps at this eventfd, and does so alone.
    #[must_use]
    pub fn at_event(segment: Arc<Segment>, slot: u16, event: Arc<OwnedFd>) -> Self {
        Self { segment, slot, event: Some(event) }
    }

    #[inline]
    pub(crate) fn entry(&self) -> &ProcEntry {
        self.segment.proc(self.slot)
    }

    #[inline]
    fn further(&self) -> &Further {
        self.segment.further(self.slot)
    }

    /// Sender: ring `bit` has a frame. Wakes the receiver if it sleeps.
    #[inline]
    pub fn ring(&self, bit: u16) {
        if self.entry().mark(self.further(), bit) {
            self.wake();
        }
    }

    /// Wakes whoever sleeps, frame or not.
    #[cold]
    pub fn wake(&self) {
        let Some(event) = &self.event else { return self.entry().wake() };
        // One sender of many makes the call: who sleeps there says so anew each time.
        if self.entry().asleep.swap(0, Ordering::SeqCst) != 0 {
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }

    /// Receiver: sleeps at its eventfd and other descriptors next, and is woken there. False: a frame waits.
    #[must_use]
    pub fn doze(&self) -> bool {
        self.entry().asleep.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let may_sleep = !self.is_ready();
        if !may_sleep {
            self.rouse();
        }
        may_sleep
    }

    /// Receiver: does not sleep any more.
    pub fn rouse(&self) {
        self.entry().asleep.store(0, Ordering::Relaxed);
    }

    /// Whether its owner sleeps at descriptors.
    #[must_use]
    pub fn is_at_event(&self) -> bool {
        self.event.is_some()
    }

    /// Sender: a frame will come in a moment. Worth it only while the receiver may spin.
    pub fn announce(&self) {
        self.entry().announce(now_us());
    }

    /// Receiver: whether a frame is announced that may still come in time.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        self.entry().is_announced(now_us())
    }

    /// Receiver: whether any ring has a frame.
    #[must_use]
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.entry().is_ready()
    }

    /// Receiver: calls `each` for every ring that has a frame, and clears the map.
    #[inline]
    pub fn take_ready(&self, each: impl FnMut(u16)) {
        self.entry().take_ready(self.further(), each);
    }

    /// Receiver: the doorbell's count, to be read before the last look that precedes `sleep`.
    #[must_use]
    #[inline]
    pub fn count(&self) -> u32 {
        self.entry().count()
    }

    /// Receiver: sleeps until somebody rings, `limit` passes or a signal comes. Returns at once if a frame waits or the bell
    /// rang since `count` was read. Returns false if the time was up or a signal came.
    pub fn sleep(&self, count: u32, limit: Option<Duration>) -> bool {
        self.entry().sleep(count, limit)
    }

    /// Whether the process behind the bell is alive, as far as the node knows.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.entry().state.load(Ordering::Acquire) == 1
    }
}

/// The protocol, wherever the entry lies. No ordering here is stronger than it must be: with any weaker one a test in `loom_tests`
/// fails.
impl ProcEntry {
    #[cfg_attr(not(test), expect(dead_code, reason = "bells mark and wake themselves"))]
    pub(crate) fn ring(&self, further: &Further, bit: u16) {
        if self.mark(further, bit) {
            self.wake();
        }
    }

    /// True: the receiver sleeps, and is to be woken.
    #[inline]
    pub(crate) fn mark(&self, further: &Further, bit: u16) -> bool {
        // Both `SeqCst`, as is the fence in `sleep`: either this load sees the sleeper, or its last look sees the bit (BELL-1).
        if bit < 64 {
            self.ready.fetch_or(1 << bit, Ordering::SeqCst);
        } else {
            // The summary comes last: whoever sees it finds the bit.
            let word = usize::from(bit) / 64 - 1;
            further.words[word].fetch_or(1 << (bit % 64), Ordering::Release);
            self.further.fetch_or(1 << word, Ordering::SeqCst);
        }
        fence_for_loom();
        self.asleep.load(Ordering::SeqCst) != 0
    }

    pub(crate) fn announce(&self, now_us: u32) {
        self.announced.store(now_us.wrapping_add(ANNOUNCED_US), Ordering::Relaxed);
        if self.asleep.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }

    pub(crate) fn is_announced(&self, now_us: u32) -> bool {
        // What is long over looks like the far future, which nobody announces.
        (1..=ANNOUNCED_US).contains(&self.announced.load(Ordering::Relaxed).wrapping_sub(now_us))
    }

    #[cold]
    pub(crate) fn wake(&self) {
        // Whoever reads the new count sees what was done before; whoever read the old one does not fall asleep.
        self.bell.fetch_add(1, Ordering::Release);
        let _ = futex_wake(&self.bell);
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        (self.ready.load(Ordering::Relaxed) | self.further.load(Ordering::Relaxed)) != 0
    }

    #[inline]
    pub(crate) fn take_ready(&self, further: &Further, mut each: impl FnMut(u16)) {
        if self.ready.load(Ordering::Relaxed) != 0 {
            ones(self.ready.swap(0, Ordering::Acquire)).for_each(&mut each);
        }
        if self.further.load(Ordering::Relaxed) != 0 {
            // The summary goes first: a bit that comes later brings its own.
            for word in ones(self.further.swap(0, Ordering::Acquire)) {
                let bits = further.words.get(usize::from(word)).map_or(0, |bits| bits.swap(0, Ordering::Acquire));
                ones(bits).for_each(|bit| each((word + 1) * 64 + bit));
            }
        }
    }

    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.bell.load(Ordering::Acquire)
    }

    pub(crate) fn sleep(&self, count: u32, limit: Option<Duration>) -> bool {
        self.asleep.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_woken = self.is_ready() || futex_wait(&self.bell, count, limit);
        self.asleep.fetch_sub(1, Ordering::Relaxed);
        is_woken
    }
}

/// The numbers of the bits that are set.
#[inline]
fn ones(mut bits: u64) -> impl Iterator<Item = u16> {
    std::iter::from_fn(move || {
        let first = (bits != 0).then(|| bits.trailing_zeros() as u16);
        bits &= bits.wrapping_sub(1);
        first
    })
}

/// The low bits: they go round in an hour.
fn now_us() -> u32 {
    (now_ns() / 1_000) as u32
}

/// Sleeps while `word` is `value`, at most `limit`. Returns false if the time was up or a signal came.
#[cfg(not(loom))]
pub fn futex_wait(word: &AtomicU32, value: u32, limit: Option<Duration>) -> bool {
    use rustix::thread::futex;
    let limit = limit
        .map(|limit| rustix::time::Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() });
    matches!(futex::wait(word, futex::Flags::empty(), value, limit.as_ref()), Ok(()) | Err(rustix::io::Errno::AGAIN))
}

/// Wakes everyone who sleeps on `word`.
#[cfg(not(loom))]
pub fn futex_wake(word: &AtomicU32) -> usize {
    use rustix::thread::futex;
    futex::wake(word, futex::Flags::empty(), i32::MAX as u32).unwrap_or(0)
}

#[cfg(loom)]
pub use crate::loom_futex::{futex_wait, futex_wake};

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn entry_of(segment: &Segment) -> &ProcEntry {
        segment.reset_proc(3);
        segment.proc(3)
    }

    #[test]
    fn an_announcement_ends_by_itself() {
        let segment = Segment::create().unwrap();
        let entry = entry_of(&segment);
        for now in [1_000, 70_000, u32::MAX - ANNOUNCED_US / 2] {
            assert!(!entry.is_announced(now), "nobody has announced anything");
            entry.announce(now);
            assert!(entry.is_announced(now));
            assert!(entry.is_announced(now.wrapping_add(ANNOUNCED_US - 1)));
            assert!(!entry.is_announced(now.wrapping_add(ANNOUNCED_US)));
            assert!(!entry.is_announced(now.wrapping_add(u32::MAX / 2)), "nor does it come again");
        }
    }

    #[test]
    fn who_takes_over_a_slot_has_nothing_announced() {
        let segment = Segment::create().unwrap();
        entry_of(&segment).announce(1_000);
        assert!(!entry_of(&segment).is_announced(1_000));
    }

    /// The sleeper has a minute; only the announcement can end its sleep as a ring would.
    #[test]
    fn an_announcement_wakes_who_sleeps_without_a_frame() {
        let segment = Arc::new(Segment::create().unwrap());
        segment.reset_proc(3);
        let bell = Bell::new(segment.clone(), 3);
        let sleeper = std::thread::spawn({
            let bell = bell.clone();
            move || bell.sleep(bell.count(), Some(Duration::from_secs(60)))
        });
        while segment.proc(3).asleep.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        bell.announce();
        assert!(sleeper.join().unwrap(), "it slept until its time was up");
        assert!(!bell.is_ready());
    }
}
