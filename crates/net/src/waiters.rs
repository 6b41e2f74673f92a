//! HOT: the threads of one process that wait. One of them, the listener, sleeps on the process's doorbell and drains its rings for all.
//! Each other one has a seat of its own, and is woken when the object that it waits for is there: waking all of them at every reply costs
//! each a context switch, and a turn with the interpreter's lock. Threads that serve calls wait for any call of their group: each call wakes
//! one of them, the one that sat down last, since its memory is warm.
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
    /// It takes one call on this group of methods: a call is for one such thread. It always looks once more before it waits again.
    Call(u16),
    /// It takes nothing now, and waits for what is for all.
    Nothing,
}

/// What came in.
#[derive(Clone, Copy, Debug)]
pub struct News<'a> {
    /// Slots of objects that are ready.
    pub objects: &'a [u32],
    /// Groups of methods that calls came for, one entry a call.
    pub calls: &'a [u16],
    /// An object failed, which everybody must see who waits for objects.
    pub has_failed: bool,
    /// Something ended, or is about to, which everybody must see.
    pub is_for_all: bool,
}

impl News<'_> {
    /// Whether everybody who waits so must look. Calls are no such news for those that take them.
    fn concern(&self, wants: Wants) -> bool {
        match wants {
            Wants::Anything => true,
            Wants::Object(slot) => self.is_for_all || self.has_failed || self.objects.contains(&slot),
            Wants::Call(_) | Wants::Nothing => self.is_for_all,
        }
    }
}

/// Nobody sleeps on the doorbell.
const NOBODY: u64 = 0;
const ANYTHING: u64 = 1;
const NOTHING: u64 = 2;
const FIRST_OBJECT: u64 = 3;
const FIRST_CALL: u64 = 1 << 40;

struct Seat {
    wants: Wants,
    /// One: woken.
    word: AtomicU32,
}

impl Seat {
    fn is_woken(&self) -> bool {
        self.word.load(Ordering::Acquire) == 1
    }

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
            Wants::Nothing => NOTHING,
            Wants::Object(slot) => FIRST_OBJECT + u64::from(slot),
            Wants::Call(group) => FIRST_CALL + u64::from(group),
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
            NOTHING => Some(Wants::Nothing),
            call if call >= FIRST_CALL => Some(Wants::Call((call - FIRST_CALL) as u16)),
            object => Some(Wants::Object((object - FIRST_OBJECT) as u32)),
        };
        let mut must_wake = wants.is_some_and(|wants| news.concern(wants));
        if self.taken.load(Ordering::SeqCst) > 0 {
            must_wake |= self.wake_seats(news, wants);
        } else if let Some(Wants::Call(group)) = wants {
            must_wake |= news.calls.contains(&group);
        }
        if must_wake {
            entry.wake();
        }
    }

    /// True: a call is left for the listener, who waits for one as well. It is the last one to get any, because another thread has to listen
    /// in its place then.
    #[cold]
    fn wake_seats(&self, news: News<'_>, listener: Option<Wants>) -> bool {
        let seats = self.seats.lock().expect("never poisoned");
        seats.iter().filter(|seat| news.concern(seat.wants)).for_each(|seat| {
            seat.wake();
        });
        let mut is_left = false;
        for group in news.calls {
            let wants = Wants::Call(*group);
            // One that was woken before has a call to look for already.
            let is_taken = seats.iter().rev().any(|seat| seat.wants == wants && seat.wake());
            is_left |= !is_taken && listener == Some(wants);
        }
        is_left
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
        let seats = self.seats.lock().expect("never poisoned");
        // One that was woken before listens next, or passes on in its turn.
        if !seats.iter().any(|seat| seat.is_woken())
            && let Some(seat) = seats.last()
        {
            seat.wake();
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{ANYTHING, FIRST_CALL, FIRST_OBJECT, NOTHING, News, Seat, Waiters, Wants};
    use crate::segment::Segment;

    const NONE: News<'static> = News { objects: &[], calls: &[], has_failed: false, is_for_all: false };

    /// Which of those that sit here are woken by what came, and whether the listener is.
    fn woken_by(listener: u64, seated: &[Wants], news: News<'_>) -> (Vec<bool>, bool) {
        let segment = Segment::create().expect("there is memory");
        let seats = seated.iter().map(|wants| Arc::new(Seat { wants: *wants, word: AtomicU32::new(0) }));
        let waiters = Waiters {
            listener: listener.into(),
            taken: (seated.len() as u32).into(),
            seats: seats.collect::<Vec<_>>().into(),
        };
        let count = segment.proc(0).count();
        waiters.tell_at(segment.proc(0), news);
        let is_woken = |seat: &Arc<Seat>| seat.word.load(Ordering::SeqCst) == 1;
        (waiters.seats.lock().expect("never poisoned").iter().map(is_woken).collect(), segment.proc(0).count() != count)
    }

    const SERVERS: [Wants; 4] = [Wants::Call(0), Wants::Call(1), Wants::Call(0), Wants::Nothing];

    #[test]
    fn seat_1_a_call_wakes_the_last_one_that_sat_down_to_serve_its_group() {
        let calls = |calls| News { calls, ..NONE };
        assert_eq!(woken_by(FIRST_OBJECT, &SERVERS, calls(&[0])), (vec![false, false, true, false], false));
        assert_eq!(woken_by(FIRST_OBJECT, &SERVERS, calls(&[1, 0, 0])), (vec![true, true, true, false], false));
        assert_eq!(woken_by(FIRST_OBJECT, &SERVERS, calls(&[1, 1])), (vec![false, true, false, false], false));
        assert_eq!(woken_by(ANYTHING, &SERVERS, calls(&[0])), (vec![false, false, true, false], true));
    }

    #[test]
    fn seat_1_who_listens_gets_a_call_when_nobody_else_is_left_for_it() {
        let calls = |calls| News { calls, ..NONE };
        assert_eq!(woken_by(FIRST_CALL, &[], calls(&[0])), (vec![], true));
        assert_eq!(woken_by(FIRST_CALL, &[], calls(&[1])), (vec![], false));
        assert_eq!(woken_by(FIRST_CALL, &[Wants::Call(0)], calls(&[0])), (vec![true], false));
        assert_eq!(woken_by(FIRST_CALL, &[Wants::Call(0)], calls(&[0, 0])), (vec![true], true));
        assert_eq!(woken_by(NOTHING, &[], calls(&[0])), (vec![], false));
    }

    #[test]
    fn seat_1_replies_and_failures_wake_nobody_who_serves_and_an_end_wakes_all() {
        for listener in [FIRST_CALL, NOTHING] {
            assert_eq!(woken_by(listener, &SERVERS, News { objects: &[0, 1], ..NONE }), (vec![false; 4], false));
            assert_eq!(woken_by(listener, &SERVERS, News { has_failed: true, ..NONE }), (vec![false; 4], false));
            assert_eq!(woken_by(listener, &SERVERS, News { is_for_all: true, ..NONE }), (vec![true; 4], true));
        }
        assert_eq!(woken_by(FIRST_OBJECT, &[Wants::Object(3)], News { has_failed: true, ..NONE }), (vec![true], true));
    }
}
