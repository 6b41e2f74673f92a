//! How a thread waits: it drains the rings itself, spins while that pays off, then sleeps on the process's doorbell.

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use net::bell::{futex_wait, futex_wake};
use net::clock::now_ns;
use wire::control::ToNode;

use crate::waits::NOTED_AFTER_MS;
use crate::{Error, Runtime};

/// Looked at while a thread waits, at least every tenth of a second.
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
    pub explain: Option<(&'static str, &'a (dyn Fn() -> String + Sync))>,
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
            Ok(mut spinner) => spinner.spin(self.segment.spin(), limit_ns, || self.bell.is_ready()),
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
        let Wait { deadline_ns, in_task, explain } = *wait;
        let mut noted = None;
        let start = now_ns();
        let mut stood_aside = false;
        let mut lent = false;
        let result = loop {
            self.enter();
            if is_done() {
                break Ok(Waited::Done);
            }
            if self.closed.load(Ordering::Acquire) {
                break Err(Error::Closed);
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
            self.sleep(limit, &is_done);
            if is_crowded && let Ok(mut berth) = self.berth.try_lock() {
                berth.wake();
            }
            if interrupts.is_interrupted() {
                break Err(Error::Interrupted);
            }
        };
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
            return self.segment.proc(self.me.slot).say_where();
        }
        let state = self.state.lock().expect("never poisoned");
        if let Some(caller) = state.last_caller.filter(|_| state.running.is_empty()) {
            drop(state);
            if let Ok(mut berth) = self.berth.try_lock() {
                berth.settle(self.segment.proc(caller.slot));
            }
        }
    }

    /// This worker is about to wait: what it has not started goes back to who sent it, now and while it waits.
    pub(crate) fn stand_aside(&self) {
        let mut state = self.state.lock().expect("never poisoned");
        state.blocked += 1;
        if !state.is_actor {
            for incoming in state.incoming.take() {
                self.give_back(&mut state, &incoming);
            }
            self.apply(&mut state);
        }
    }

    /// Sleeps until something may have changed (RUN-3).
    fn sleep(&self, limit: Duration, is_done: &impl Fn() -> bool) {
        if self.listening.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            let count = self.bell.count();
            // As in `tell_followers`.
            fence(Ordering::SeqCst);
            if !is_done() {
                self.bell.sleep(count, Some(limit));
            }
            self.listening.store(false, Ordering::SeqCst);
            if self.followers.load(Ordering::SeqCst) > 0 {
                self.wake_followers();
            }
        } else {
            let seen = self.resolved.load(Ordering::SeqCst);
            self.followers.fetch_add(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if !is_done() && self.listening.load(Ordering::SeqCst) {
                futex_wait(&self.resolved, seen, Some(limit));
            }
            self.followers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Something was resolved: whoever waits for it must look.
    #[inline]
    pub(crate) fn tell_followers(&self) {
        // What was resolved is shown before this, and whoever waits says so before it looks: between two fences, one sees the other.
        fence(Ordering::SeqCst);
        if self.followers.load(Ordering::SeqCst) > 0 {
            self.wake_followers();
        }
        if self.listening.load(Ordering::SeqCst) {
            self.bell.wake();
        }
    }

    #[cold]
    fn wake_followers(&self) {
        self.resolved.fetch_add(1, Ordering::SeqCst);
        futex_wake(&self.resolved);
    }
}
