//! How a thread waits: it drains the rings itself, spins while that pays off, then sleeps on the process's doorbell.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use net::clock::now_ns;
use net::{News, Wants};
use owner::Slot;
use wire::control::ToNode;
use wire::waits::{Awaited, Verb};

use crate::waits::NOTED_AFTER_MS;
use crate::{Error, Runtime};

/// Looked at when a signal ends a thread's sleep, and at least every tenth of a second.
pub trait Interrupts {
    /// Whether the wait must end now (Ctrl-C, a cancelled task).
    fn is_interrupted(&mut self) -> bool;
}

/// For threads that nobody interrupts.
pub struct NoInterrupts;

impl Interrupts for NoInterrupts {
    fn is_interrupted(&mut self) -> bool {
        false
    }
}

/// How a thread waits.
#[derive(Clone, Copy, Default)]
pub struct Wait<'a> {
    /// When it gives up.
    pub deadline_ns: Option<u64>,
    /// The thread runs a task on a worker, which lends its CPU out and gives back what waits behind it.
    pub in_task: bool,
    /// Who waits, and what says on what: told to the node after a while. None: nobody's business.
    pub explain: Option<(Verb, &'a (dyn Fn() -> Awaited + Sync))>,
    /// An object without which the wait goes on, unless something fails. None: any news may end it.
    pub needs: Option<&'a (dyn Fn() -> Option<Slot> + Sync)>,
    /// It serves calls: what it takes now. Each call wakes one such thread.
    pub serves: Option<Wants>,
}

impl Wait<'_> {
    fn wants(&self) -> Wants {
        self.serves.unwrap_or_else(|| self.needs.and_then(|needs| needs()).map_or(Wants::Anything, Wants::Object))
    }
}

/// Whether a driver's calls are so quick that a nap sees their end.
#[derive(Default)]
pub(crate) struct Naps {
    /// How many waits in a row were quick.
    quick: AtomicU32,
}

impl Naps {
    fn are_worth_it(&self) -> bool {
        self.quick.load(Ordering::Relaxed) >= NAP_AFTER
    }

    /// A thread has waited without the interpreter's lock: beside others, so that it is quick if it took no longer than some calls do.
    fn waited(&self, ns: u64) {
        self.learn(ns < QUICK_BESIDE_OTHERS_NS);
    }

    fn napped(&self, ns: u64) {
        self.learn(ns < QUICK_NS);
    }

    /// One slow call ends naps: whoever naps keeps the interpreter from threads that might have calls to make meanwhile.
    fn learn(&self, is_quick: bool) {
        let quick = self.quick.load(Ordering::Relaxed);
        self.quick.store(if is_quick { (quick + 1).min(NAP_AFTER) } else { 0 }, Ordering::Relaxed);
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// What was waited for is there.
    Done,
    /// The time is up.
    TimedOut,
}

/// A sleeper looks up at least this often.
const LOOK_UP: Duration = Duration::from_millis(100);
/// As `LOOK_UP`, while calls wait for room in a ring.
const LOOK_UP_STALLED: Duration = Duration::from_millis(2);
/// How long a thread sleeps with the interpreter's lock held at most: as long as Python lets a thread compute before another one may. A
/// shorter limit would have the kernel set its timer anew at each call, which costs as much as the call.
const NAP: Duration = Duration::from_millis(5);
/// Waits in a row that were quick before naps begin.
const NAP_AFTER: u32 = 64;
/// A quick call: some times what it takes to wake a worker and to be woken.
const QUICK_NS: u64 = 100_000;
const QUICK_BESIDE_OTHERS_NS: u64 = 500_000;
/// Interrupts are looked at so often while news come in all the time.
const INTERRUPTS_NS: u64 = 20_000_000;
/// A worker with nothing to do has nothing to look up for: calls ring, and signals end its sleep.
const LOOK_UP_IDLE: Duration = Duration::from_secs(2);
/// A worker that waits longer than this lends its CPU out.
const LEND_AFTER_NS: u64 = 1_000_000;
/// With the interpreter's lock held nobody spins longer than this.
pub(crate) const SPIN_LOCKED_NS: u64 = 20_000;

impl Runtime {
    /// Drains what is there and spins for a moment. Cheap enough to be called with the interpreter's lock held.
    #[inline]
    pub fn poll(&self, is_done: impl Fn() -> bool) -> bool {
        if is_done() {
            return true;
        }
        self.enter();
        if is_done() {
            return true;
        }
        let start = now_ns();
        loop {
            let left = SPIN_LOCKED_NS.saturating_sub(now_ns() - start);
            if left == 0 || !self.spin(left) {
                return false;
            }
            self.enter();
            if is_done() {
                return true;
            }
        }
    }

    /// Sleeps with the interpreter's lock held, if the last calls were quick and no core is idle. A driver's threads have one interpreter:
    /// while each of them calls, waits and calls again, it is quickest to let one go on for its whole time slice. To hand the interpreter
    /// over at every call wakes two threads, mostly on another core, which costs more than the call.
    pub fn nap(&self, wait: &Wait<'_>, is_done: impl Fn() -> bool) -> bool {
        if self.is_worker || !self.naps.are_worth_it() || !self.segment.spin().is_crowded() || self.is_closed() {
            return false;
        }
        let start = now_ns();
        let end = start + NAP.as_nanos() as u64;
        if wait.deadline_ns.is_some_and(|deadline| deadline < end) {
            return false;
        }
        self.choose_core(wait.in_task);
        loop {
            self.waiters.sleep(&self.bell, wait.wants(), NAP, &is_done);
            self.enter();
            let is_there = is_done();
            let now = now_ns();
            if is_there || now >= end {
                self.naps.napped(now - start);
                if is_there {
                    self.waiters.pass_on();
                }
                return is_there;
            }
        }
    }

    /// Takes up what came in and what Python dropped.
    pub fn take_up(&self) {
        self.enter();
    }

    /// How long one may sleep with work under way.
    pub(crate) fn look_up(&self) -> Duration {
        if self.has_stalled.load(Ordering::Relaxed) { LOOK_UP_STALLED } else { LOOK_UP }
    }

    /// Takes up what came in.
    #[inline]
    pub(crate) fn enter(&self) {
        let mut state = self.state.lock().expect("never poisoned");
        self.drain(&mut state);
    }

    #[inline]
    fn spin(&self, limit_ns: u64) -> bool {
        match self.spinner.try_lock() {
            Ok(mut spinner) => {
                let (is_announced, is_ready) = (|| self.bell.is_announced(), || self.bell.is_ready());
                spinner.spin(self.segment.spin(), limit_ns, is_announced, is_ready)
            }
            Err(_) => false,
        }
    }

    /// Waits until `is_done`.
    ///
    /// # Errors
    /// If it was interrupted or the node is gone.
    pub fn wait_until(
        &self,
        wait: &Wait<'_>,
        interrupts: &mut dyn Interrupts,
        is_done: impl Fn() -> bool,
    ) -> Result<Waited, Error> {
        let Wait { deadline_ns, in_task, explain, .. } = *wait;
        let mut noted = None;
        let start = now_ns();
        let mut looked_up = start;
        let mut stood_aside = false;
        let mut lent = false;
        let result = loop {
            self.enter();
            if is_done() {
                break Ok(Waited::Done);
            }
            if self.is_closed() {
                // What was under way failed before that was said, perhaps since the look above.
                break if is_done() { Ok(Waited::Done) } else { Err(Error::Closed) };
            }
            let now = now_ns();
            if deadline_ns.is_some_and(|deadline| now >= deadline) {
                break Ok(Waited::TimedOut);
            }
            let waits_for_worker = in_task && self.has_held_back();
            if !waits_for_worker && self.spin(u64::MAX) {
                continue;
            }
            if in_task && !stood_aside {
                stood_aside = true;
                self.stand_aside();
            }
            if waits_for_worker {
                // What it waits for has no worker yet: it gets this one's CPU.
                if !lent {
                    lent = true;
                    self.send(&ToNode::Blocked { blocked: true });
                }
                self.send_held_back();
            }
            let is_idle = self.is_worker && !in_task && deadline_ns.is_none();
            let mut limit = if is_idle { LOOK_UP_IDLE } else { self.look_up() };
            if let Some(deadline) = deadline_ns {
                limit = limit.min(Duration::from_nanos(deadline.saturating_sub(now)));
            }
            if in_task && !lent {
                if now - start > LEND_AFTER_NS {
                    lent = true;
                    self.send(&ToNode::Blocked { blocked: true });
                } else {
                    limit = limit.min(Duration::from_nanos(LEND_AFTER_NS));
                }
            }
            if let Some((who, what)) = explain
                && noted.is_none()
                && now - start > NOTED_AFTER_MS * 1_000_000
            {
                noted = Some(self.note_wait(model::Tick(start / 1_000), who, what()));
            }
            let is_crowded = self.segment.spin().is_crowded();
            if is_crowded {
                self.choose_core(in_task);
            } else if is_idle && let Ok(mut berth) = self.berth.try_lock() {
                berth.leave();
            }
            let is_woken = self.waiters.sleep(&self.bell, wait.wants(), limit, &is_done);
            if is_crowded && let Ok(mut berth) = self.berth.try_lock() {
                berth.wake();
            }
            let woke = now_ns();
            // To look costs a turn with the interpreter's lock.
            if !is_woken || woke - looked_up > INTERRUPTS_NS {
                looked_up = woke;
                if interrupts.is_interrupted() {
                    break Err(Error::Interrupted);
                }
            }
        };
        self.waiters.pass_on();
        if !self.is_worker {
            self.naps.waited(now_ns() - start);
        }
        if let Some(number) = noted {
            self.forget_wait(number);
        }
        if lent {
            self.send(&ToNode::Blocked { blocked: false });
        }
        if stood_aside {
            self.state.lock().expect("never poisoned").blocked -= 1;
        }
        if self.pump.is_awaited() {
            // This thread may have stood at the doorbell for event loops too.
            self.pump.send_to_bell();
        }
        result
    }

    /// This thread is about to sleep, and no core is idle: a caller says where, a worker with nothing to do goes to who called it last.
    #[cold]
    fn choose_core(&self, in_task: bool) {
        if in_task || !self.is_worker {
            return self.segment.proc(self.me.slot()).say_where();
        }
        let state = self.state.lock().expect("never poisoned");
        if let Some(caller) = state.last_caller.filter(|_| state.serving.runs_nothing()) {
            drop(state);
            if let Ok(mut berth) = self.berth.try_lock() {
                berth.settle(self.segment.proc(caller.slot()));
            }
        }
    }

    /// This worker is about to wait: what it has not started goes back to who sent it, now and while it waits.
    pub(crate) fn stand_aside(&self) {
        let mut state = self.state.lock().expect("never poisoned");
        state.blocked += 1;
        if !state.is_actor {
            for incoming in state.serving.take_incoming() {
                self.give_back(&mut state, &incoming);
            }
            self.apply(&mut state);
        }
    }

    /// Whoever waits must look, whatever it waits for.
    pub(crate) fn tell_all(&self) {
        self.waiters.tell(&self.bell, News { objects: &[], calls: &[], has_failed: true, is_for_all: true });
    }
}

#[cfg(test)]
mod tests {
    use super::{NAP_AFTER, Naps, QUICK_BESIDE_OTHERS_NS, QUICK_NS};

    #[test]
    fn naps_begin_when_many_waits_in_a_row_were_quick() {
        let naps = Naps::default();
        for _ in 0..NAP_AFTER {
            assert!(!naps.are_worth_it());
            naps.waited(QUICK_BESIDE_OTHERS_NS - 1);
        }
        assert!(naps.are_worth_it());
        naps.napped(QUICK_NS - 1);
        assert!(naps.are_worth_it());
    }

    /// A thread that naps keeps the interpreter from others: those that wait for slow calls would no longer do so side by side.
    #[test]
    fn one_slow_call_ends_naps_for_many_calls() {
        for learn_of_a_slow_one in [Naps::waited, Naps::napped] {
            let naps = Naps::default();
            (0..2 * NAP_AFTER).for_each(|_| naps.waited(0));
            learn_of_a_slow_one(&naps, QUICK_BESIDE_OTHERS_NS);
            (1..NAP_AFTER).for_each(|_| naps.waited(0));
            assert!(!naps.are_worth_it());
        }
    }
}
