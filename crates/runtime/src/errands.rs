//! What only the interpreter can do, and nobody waits for: collecting garbage, telling of errors that nobody read. The native threads
//! never take the interpreter's lock, so they hand it to whoever may (`set_errands`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::{Failure, ObjectId};
use wire::control::ToNode;

use crate::Runtime;

/// One thing to be done in Python, soon.
#[derive(Clone, Debug)]
pub enum Errand {
    /// Run the cycle collector: what holds references only by cycles lets them go.
    CollectGarbage {
        /// First, so that collections do not take all the time.
        wait: Duration,
    },
    /// The last reference to this error went, and nobody had read it.
    Unread {
        /// Which object.
        object: ObjectId,
        /// The error.
        failure: Arc<Failure>,
    },
}

type Runner = Box<dyn Fn(Errand) + Send + Sync>;

/// The pause between two collections because room is short: so many times as long as the last one took, within these bounds. Whoever
/// needs the room is refused after 300 ms, so a longer pause would be none at all.
const PAUSE_SHARE: u64 = 10;
const PAUSE_NS_MIN: u64 = 20_000_000;
const PAUSE_NS_MAX: u64 = 150_000_000;

#[derive(Default)]
pub(crate) struct Errands {
    runner: OnceLock<Runner>,
    /// When collecting for room is next worth its time.
    collect_from: AtomicU64,
    /// A collection was asked for, and has not ended.
    is_collecting: AtomicBool,
}

impl Runtime {
    /// `run` has errands done in Python. It must not wait: it is called by native threads, and under the lock.
    pub fn set_errands(&self, run: Runner) {
        let _ = self.errands.runner.set(run);
    }

    pub(crate) fn run_errand(&self, errand: Errand) {
        if let Some(run) = self.errands.runner.get() {
            run(errand);
        }
    }

    /// Makes every process of the node collect its garbage.
    pub fn collect_everywhere(&self) {
        self.send(&ToNode::CollectGarbage);
    }

    /// The node needs room: what hangs in cycles comes free with a collection.
    pub(crate) fn collect_for_room(&self) {
        let now = net::clock::now_ns();
        if !self.errands.is_collecting.swap(true, Ordering::SeqCst) {
            let wait = self.errands.collect_from.load(Ordering::Relaxed).saturating_sub(now);
            self.run_errand(Errand::CollectGarbage { wait: Duration::from_nanos(wait) });
        }
    }

    /// A collection has ended, which took so long: what it freed goes back to the node.
    pub fn collected(&self, took_ns: u64) {
        let pause = (took_ns * PAUSE_SHARE).clamp(PAUSE_NS_MIN, PAUSE_NS_MAX);
        self.errands.collect_from.store(net::clock::now_ns() + pause, Ordering::Relaxed);
        self.errands.is_collecting.store(false, Ordering::SeqCst);
        if self.is_short() {
            self.give_back_room(0);
        }
    }
}
