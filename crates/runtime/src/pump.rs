//! The thread that drains the rings when nobody else does: the user's program computes while replies come in and queued tasks want to go
//! out. It looks every two milliseconds while anything is under way, takes over if nobody drained meanwhile, and is parked otherwise.
//!
//! An event loop that sleeps at a descriptor cannot drain: whoever is about to sleep so sends the pump to the doorbell at once.
//!
//! It also jolts the main thread of a task that was cancelled: the signal that told it may have come just before a system call, which it did
//! not end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use model::Tick;
use net::bell::{futex_wait, futex_wake};

use crate::Runtime;
use crate::state::State;
use party::Party;

const LOOK: Duration = Duration::from_millis(2);
/// The same while event loops sleep, and others who drain keep the pump from the doorbell: when those stop, the loops wait no longer than this.
const LOOK_FOR_LOOPS: Duration = Duration::from_micros(250);
const LEASE_LOOK: Duration = Duration::from_millis(250);
/// Jolts after a task was cancelled, one a tick.
const JOLTS: u32 = 10;
/// Parks after this many looks with nothing under way.
const QUIET_LOOKS: u32 = 50;

#[derive(Default)]
pub(crate) struct Pump {
    word: AtomicU32,
    parked: AtomicU32,
    /// Tasks under way.
    outstanding: AtomicUsize,
    /// Some were under way since the pump last looked.
    was_active: AtomicBool,
    /// Objects that sleeping event loops wait for.
    awaited: AtomicUsize,
    /// It shall go to the doorbell at once.
    is_sent: AtomicBool,
    is_at_bell: AtomicBool,
    /// Left to be given to the main thread.
    jolts: AtomicU32,
}

impl Pump {
    /// A task that runs on the main thread was cancelled, and has been sent a signal.
    pub(crate) fn jolt(&self) {
        self.jolts.store(JOLTS, Ordering::SeqCst);
        self.kick();
    }

    #[inline]
    pub(crate) fn set_outstanding(&self, count: usize) {
        self.outstanding.store(count, Ordering::Relaxed);
        if count > 0 {
            self.was_active.store(true, Ordering::Relaxed);
            self.unpark();
        }
    }

    /// Makes a parked pump look around for a while.
    #[inline]
    pub(crate) fn unpark(&self) {
        if self.parked.load(Ordering::SeqCst) != 0 {
            self.kick();
        }
    }

    #[cold]
    pub(crate) fn kick(&self) {
        self.parked.store(0, Ordering::SeqCst);
        self.word.fetch_add(1, Ordering::SeqCst);
        futex_wake(&self.word);
    }

    fn is_busy(&self) -> bool {
        self.outstanding.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn set_awaited(&self, count: usize) {
        self.awaited.store(count, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0
    }

    /// Somebody waits whom nobody but the pump can wake.
    pub(crate) fn send_to_bell(&self) {
        if !self.is_at_bell.load(Ordering::SeqCst) && !self.is_sent.swap(true, Ordering::SeqCst) {
            self.kick();
        }
    }
}

impl Runtime {
    pub(crate) fn run_pump(self: &Arc<Self>) {
        let mut quiet = 0;
        let mut ticked = net::clock::now();
        while !self.is_closed() {
            let word = self.pump.word.load(Ordering::SeqCst);
            if quiet > QUIET_LOOKS && !self.pump.is_busy() {
                if self.has_said_waits() {
                    self.say_waits();
                }
                self.pump.parked.store(1, Ordering::SeqCst);
                // Under the lock, after the word: whoever submits before this is seen by `is_busy`, whoever submits after it sees
                // that the pump is parked.
                let needs_tick = {
                    let state = self.state.lock().expect("never poisoned");
                    let is_tick_due = state.party.owner.needs_tick() || state.is_retired || state.has_served_all;
                    is_tick_due || self.pump.jolts.load(Ordering::SeqCst) > 0
                };
                if !self.dropped.is_empty() || !self.dropped_streams.is_empty() {
                    // Dropped since the last look: whoever did so saw a pump that was not parked.
                    self.enter();
                } else if !self.pump.is_busy() {
                    futex_wait(&self.pump.word, word, needs_tick.then_some(LEASE_LOOK));
                }
                self.pump.parked.store(0, Ordering::SeqCst);
                if self.pump.word.load(Ordering::SeqCst) != word {
                    quiet = 0;
                }
            } else {
                let drains = self.drains.load(Ordering::Relaxed);
                if !self.pump.is_sent.load(Ordering::SeqCst) {
                    let is_short = self.pump.is_awaited() && !self.waiters.has_listener();
                    futex_wait(&self.pump.word, word, Some(if is_short { LOOK_FOR_LOOPS } else { LOOK }));
                }
                if self.has_held_back() {
                    self.send_held_back();
                }
                let now_drains = self.drains.load(Ordering::Relaxed);
                quiet = if self.pump.was_active.swap(self.pump.is_busy(), Ordering::Relaxed) { 0 } else { quiet + 1 };
                let is_sent = self.pump.is_sent.swap(false, Ordering::SeqCst);
                if (is_sent || now_drains == drains) && self.pump.is_busy() {
                    self.pump.is_at_bell.store(true, Ordering::SeqCst);
                    self.take_over(&mut ticked);
                    self.pump.is_at_bell.store(false, Ordering::SeqCst);
                }
            }
            self.tick_if_due(&mut ticked);
        }
    }

    /// What is due every tenth of a second: leases without work go back, dropped handles are taken up.
    fn tick_if_due(&self, ticked: &mut Tick) {
        let now = net::clock::now();
        if now.ms_since(*ticked) < 100 {
            return;
        }
        *ticked = now;
        let mut state = self.state.lock().expect("never poisoned");
        let Party { owner, effects, .. } = &mut state.party;
        owner.on_tick(now, effects);
        self.take_dropped(&mut state);
        self.apply(&mut state);
        self.exit_if_retired(&mut state);
        self.warn_of_long_queues(&mut state);
        self.ring_bells(&mut state);
        self.jolt_if_due(&state);
        drop(state);
        self.say_waits_if_due(now);
    }

    /// Python hears of a signal between two of its steps. The main thread may have been about to enter a system call by then, and sleep in
    /// there for long: a second signal, which means nothing, ends the call, and Python finds the first.
    fn jolt_if_due(&self, state: &State) {
        let left = self.pump.jolts.load(Ordering::SeqCst);
        if left == 0 {
            return;
        }
        let is_due = state.serving.has_interrupted();
        self.pump.jolts.store(if is_due { left - 1 } else { 0 }, Ordering::SeqCst);
        if is_due {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::URG);
        }
    }

    /// Drains and sleeps on the doorbell until somebody else drains again or nothing is under way.
    ///
    /// While event loops sleep, others may have drained before they fell asleep: the pump stays, unless it wakes and they have done its work.
    fn take_over(&self, ticked: &mut Tick) {
        loop {
            self.tick_if_due(ticked);
            let before = self.drains.load(Ordering::Relaxed);
            self.enter();
            let count = self.bell.count();
            let is_awaited = self.pump.is_awaited();
            if (self.drains.load(Ordering::Relaxed) != before + 1 && !is_awaited)
                || self.waiters.has_listener()
                || !self.pump.is_busy()
                || self.is_closed()
            {
                return;
            }
            self.bell.sleep(count, Some(self.look_up()));
            if self.drains.load(Ordering::Relaxed) != before + 1 && !(is_awaited && self.bell.is_ready()) {
                return;
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}
