//! Where the time of a call goes. Each stage sums up nanoseconds while the clockwork is on; off, it costs one load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The stages of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// `.remote()`: bind, serialise, record.
    Submit,
    /// Frame into the ring.
    Ring,
    /// From published to read by the other side.
    Wake,
    /// Arguments to Python objects.
    Deserialise,
    /// The user's code.
    Run,
    /// Result to bytes, frame into the ring.
    Reply,
    /// `get`: bytes to a Python object.
    Get,
}

/// All of them, by name, in the order of a call.
pub const STAGES: [(&str, Stage); 7] = [
    ("submit", Stage::Submit),
    ("ring", Stage::Ring),
    ("wake", Stage::Wake),
    ("deserialise", Stage::Deserialise),
    ("run", Stage::Run),
    ("reply", Stage::Reply),
    ("get", Stage::Get),
];

static IS_ON: AtomicBool = AtomicBool::new(false);
static NANOS: [AtomicU64; 7] = [const { AtomicU64::new(0) }; 7];
static COUNTS: [AtomicU64; 7] = [const { AtomicU64::new(0) }; 7];

impl Stage {
    /// Starts measuring, from zero.
    pub fn start_all() {
        NANOS.iter().chain(&COUNTS).for_each(|sum| sum.store(0, Ordering::Relaxed));
        IS_ON.store(true, Ordering::Relaxed);
    }

    /// Stops measuring.
    pub fn stop_all() {
        IS_ON.store(false, Ordering::Relaxed);
    }

    /// The time, if anyone wants to know.
    #[must_use]
    #[inline]
    pub fn clock() -> Option<u64> {
        IS_ON.load(Ordering::Relaxed).then(net::clock::now_ns)
    }

    /// The stage lasted from `since` until now.
    #[inline]
    pub fn add(self, since: Option<u64>) {
        if let Some(since) = since {
            self.add_ns(net::clock::now_ns().saturating_sub(since));
        }
    }

    /// The stage lasted this long.
    pub fn add_ns(self, nanos: u64) {
        NANOS[self as usize].fetch_add(nanos, Ordering::Relaxed);
        COUNTS[self as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Mean nanoseconds and how often.
    #[must_use]
    pub fn mean_ns(self) -> (f64, u64) {
        let count = COUNTS[self as usize].load(Ordering::Relaxed);
        let nanos = NANOS[self as usize].load(Ordering::Relaxed);
        (nanos as f64 / count.max(1) as f64, count)
    }
}
