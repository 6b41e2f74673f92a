//! The one clock: monotonic, in microseconds or nanoseconds.

use model::Tick;
use rustix::time::{ClockId, clock_gettime};

/// Now.
#[must_use]
pub fn now() -> Tick {
    Tick(now_ns() / 1_000)
}

/// Now, finer.
#[must_use]
#[inline]
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
