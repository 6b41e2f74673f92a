//! HOT: the threads of one process that wait. One of them, the listener, sleeps on the process's doorbell and drains its rings for all.
//! Each other one has a seat of its own, and is woken when the object that it waits for is there: waking all of them at every reply costs
//! each a context switch, and a turn with the interpreter's lock.
//!
//! - **SEAT-1** whoever looked and found nothing is woken by what concerns it and came after its look.
//! - **SEAT-2** while somebody sleeps on a seat, another thread sleeps on the doorbell, or is awake and will: it listens next, or passes
//!   that on before it leaves.

use std::sync::Arc;
use std::time::Duration;

use crate::bell::{Bell, futex_wait, futex_wake};
use crate::segment::ProcEntry;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, fence, fence_for_loom};

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Any news may be what it waits for.
    Anything,
    /// It waits at least for the object in this slot, and for failures.
    Object(u32),
}

/// What came in.
#[derive(Clone, Copy, Debug)]
pub struct News<'a> {
    /// Slots of objects that are ready.
    pub objects: &'a [u32],
    /// Something failed or ended, which everybody must see.
    pub is_for_all: bool,
}

impl News<'_> {
    fn concern(&self, wants: Wants) -> bool {
        match wants {
            Wants::Anything => true,
            Wants::Object(slot) => self.is_for_all || self.objects.contains(&slot),
        }
    }
}

/// Nobody sleeps on the doorbell.
const NOBODY: u64 = 0;
const ANYTHING: u64 = 1;
const FIRST_OBJECT: u64 = 2;

struct Seat {
    wants: Wants,
    /// One: woken.
    word: AtomicU32,
}

impl Seat {
    fn wake(&self) -> bool {
        let is_first = self.word.swap(1, Ordering::Release) == 0;
        if is_first {
            futex_wake(&self.word);
        }
        is_first
    }
}

/// Where the threads of a process wait.
#[derive(Default)]
pub struct Waiters {
    /// What the listener waits for.
    listener: AtomicU64,
    /// How many seats are taken.
    taken: AtomicU32,
    seats: Mutex<Vec<Arc<Seat>>>,
}

impl Waiters {
    /// Sleeps until something may have changed, at most `limit`, unless `is_done`. Returns false if the time was up or a signal came.
    pub fn sleep(&self, bell: &Bell, wants: Wants, limit: Duration, is_done: impl Fn() -> bool) -> bool {
        self.sleep_at(bell.entry(), wants, Some(limit), is_done)
    }

    pub(crate) fn sleep_at(
        &self,
        entry: &ProcEntry,
        wants: Wants,
        limit: Option<Duration>,
        is_done: impl Fn() -> bool,
    ) -> bool {
        let listens_for = match wants {
            Wants::Anything => ANYTHING,
            Wants::Object(slot) => FIRST_OBJECT + u64::from(slot),
        };
        if self.listener.compare_exchange(NOBODY, listens_for, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            let count = entry.count();
            // As in `tell`.
            fence(Ordering::SeqCst);
            let is_woken = is_done() || entry.sleep(count, limit);
            self.listener.store(NOBODY, Ordering::SeqCst);
            return is_woken;
        }
        let seat = Arc::new(Seat { wants, word: AtomicU32::new(0) });
        self.seats.lock().expect("never poisoned").push(seat.clone());
        self.taken.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // A listener that has left looks for seats after it said so (SEAT-2).
        let is_woken = is_done() || !self.has_listener() || futex_wait(&seat.word, 0, limit);
        self.seats.lock().expect("never poisoned").retain(|other| !Arc::ptr_eq(other, &seat));
        self.taken.fetch_sub(1, Ordering::SeqCst);
        is_woken
    }

    /// Whether a thread sleeps on the doorbell.
    #[must_use]
    pub fn has_listener(&self) -> bool {
        self.listener.load(Ordering::SeqCst) != NOBODY
    }

    /// Wakes those whom this concerns. What it tells of must be visible by now.
    #[inline]
    pub fn tell(&self, bell: &Bell, news: News<'_>) {
        self.tell_at(bell.entry(), news);
    }

    #[inline]
    pub(crate) fn tell_at(&self, entry: &ProcEntry, news: News<'_>) {
        // What is told of was shown before this, and whoever waits says so before it looks: between two fences, one sees the other (SEAT-1).
        fence(Ordering::SeqCst);
        let wants = match self.listener.load(Ordering::SeqCst) {
            NOBODY => None,
            ANYTHING => Some(Wants::Anything),
            object => Some(Wants::Object((object - FIRST_OBJECT) as u32)),
        };
        if wants.is_some_and(|wants| news.concern(wants)) {
            entry.wake();
        }
        if self.taken.load(Ordering::SeqCst) > 0 {
            self.wake_seats(news);
        }
    }

    #[cold]
    fn wake_seats(&self, news: News<'_>) {
        let seats = self.seats.lock().expect("never poisoned");
        seats.iter().filter(|seat| news.concern(seat.wants)).for_each(|seat| {
            seat.wake();
        });
    }

    /// This thread does not wait any more: if nobody listens, one of those that still wait does so from now on.
    #[inline]
    pub fn pass_on(&self) {
        // All `SeqCst`: either this sees the seat, or whoever took it sees that nobody listens (SEAT-2).
        fence_for_loom();
        if self.taken.load(Ordering::SeqCst) > 0 && !self.has_listener() {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        // One that was woken before is awake, and passes on in its turn.
        let _ = self.seats.lock().expect("never poisoned").iter().any(|seat| seat.wake());
    }
}
