//! Event loops and other threads that sleep at a descriptor of their own and want to be told when objects are ready.
//!
//! Nobody rings at such a descriptor but a thread of this process that has drained the rings. While one of them waits, the pump stands at the
//! doorbell; see `pump.rs`.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use owner::Slot;
use rustc_hash::FxHashSet;

use crate::Runtime;

/// One event loop that wants to be told when objects are ready.
pub(crate) struct LoopWatch {
    id: u64,
    event: OwnedFd,
    /// It sleeps at `event`. Others stand at the doorbell themselves.
    is_remote: bool,
    watched: FxHashSet<Slot>,
    ready: Vec<Slot>,
    /// It looks, or was told to: it need not be told again.
    is_signalled: bool,
    /// There is a count to read at `event`.
    is_written: bool,
}

impl LoopWatch {
    fn take(&mut self) -> Vec<Slot> {
        self.is_signalled = false;
        if std::mem::take(&mut self.is_written) {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.event, &mut count);
        }
        std::mem::take(&mut self.ready)
    }
}

impl Runtime {
    /// An event loop wants to be told of ready objects through `event`, where it sleeps if it `is_remote`.
    pub fn watch_loop(&self, id: u64, event: OwnedFd, is_remote: bool) {
        self.with_loops(|loops| {
            loops.retain(|watch| watch.id != id);
            loops.push(LoopWatch {
                id,
                event,
                is_remote,
                watched: FxHashSet::default(),
                ready: Vec::new(),
                is_signalled: false,
                is_written: false,
            });
            self.loops_count.store(loops.len(), Ordering::Relaxed);
        });
    }

    /// The event loop is gone.
    pub fn unwatch_loop(&self, id: u64) {
        self.with_loops(|loops| {
            loops.retain(|watch| watch.id != id);
            self.loops_count.store(loops.len(), Ordering::Relaxed);
        });
    }

    fn with_loops<R>(&self, change: impl FnOnce(&mut Vec<LoopWatch>) -> R) -> R {
        let mut loops = self.loops.lock().expect("never poisoned");
        let result = change(&mut loops);
        let remote = loops.iter().filter(|watch| watch.is_remote);
        self.pump.set_awaited(remote.map(|watch| watch.watched.len()).sum());
        result
    }

    fn with_loop<R: Default>(&self, id: u64, change: impl FnOnce(&mut LoopWatch) -> R) -> R {
        self.with_loops(|loops| loops.iter_mut().find(|watch| watch.id == id).map(change).unwrap_or_default())
    }

    /// Tell loop `id` when the object is ready. True: it is already, and nothing will be told.
    pub fn watch(&self, id: u64, slot: Slot) -> bool {
        self.with_loop(id, |watch| {
            watch.watched.insert(slot);
        });
        // Looked at after it was watched, so that a reply in between is seen by one of the two.
        self.is_ready(slot) && self.is_near(slot) && !self.with_loop(id, |watch| !watch.watched.remove(&slot))
    }

    /// Loop `id` does not wait for the object any more.
    pub fn unwatch(&self, id: u64, slot: Slot) {
        self.with_loop(id, |watch| {
            watch.watched.remove(&slot);
        });
    }

    /// What became ready for loop `id` since the last time.
    #[must_use]
    pub fn take_ready(&self, id: u64) -> Vec<Slot> {
        self.enter();
        self.with_loop(id, LoopWatch::take)
    }

    /// Loop `id` has nothing else to do: what becomes ready for it within a moment. Nothing: it may sleep at its descriptor, and will be told.
    #[must_use]
    pub fn look_for(&self, id: u64) -> Vec<Slot> {
        self.with_loop(id, |watch| watch.is_signalled = true);
        self.poll(|| self.has_ready(id));
        let ready = self.with_loop(id, LoopWatch::take);
        if ready.is_empty() {
            self.pump.send_to_bell();
        }
        ready
    }

    /// Somebody sleeps at a descriptor from now on.
    pub fn stand_in(&self) {
        self.pump.send_to_bell();
    }

    /// Whether anything became ready for loop `id`.
    #[must_use]
    pub fn has_ready(&self, id: u64) -> bool {
        self.loops_count.load(Ordering::Relaxed) > 0
            && self.loops.lock().expect("never poisoned").iter().any(|watch| watch.id == id && !watch.ready.is_empty())
    }

    /// Whether a loop is to be told of the object.
    #[inline]
    pub(crate) fn is_watched(&self, slot: Slot) -> bool {
        self.loops_count.load(Ordering::Relaxed) > 0
            && self.loops.lock().expect("never poisoned").iter().any(|watch| watch.watched.contains(&slot))
    }

    pub(crate) fn tell_loops(&self, slot: Slot) {
        if self.loops_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.with_loops(|loops| {
            for watch in loops {
                if watch.watched.remove(&slot) {
                    watch.ready.push(slot);
                    if !std::mem::replace(&mut watch.is_signalled, true) {
                        watch.is_written = true;
                        let _ = rustix::io::write(&watch.event, &1_u64.to_ne_bytes());
                    }
                }
            }
        });
    }
}
