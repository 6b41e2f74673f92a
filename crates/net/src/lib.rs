//! How bytes get from one process to another: rings in shared memory with doorbells, and Unix sockets.
//!
//! - `segment`: the shared memory of one node: process table, rings, spin page.
//! - `ring`: one single-producer single-consumer ring of frames, with its crash rules.
//! - `claim`: who may run a queued call: the worker that starts it or the caller that takes it back.
//! - `bell`: how a process sleeps and is woken, one doorbell for all its rings.
//! - `spin`: whether a waiter may spin instead of sleeping.
//! - `berth`: on which core a worker sleeps.
//! - `cells`: which objects are ready, for readers without a lock.
//! - `unix`: length-prefixed messages and descriptors over a Unix socket.
//!
//! Peers are processes of the same machine: `runtime` reads claim words and cursors of a peer's ring in place, and arenas are shared.

pub mod bell;
mod berth;
mod cells;
pub mod claim;
pub mod clock;
pub mod ring;
pub mod segment;
pub mod spin;
mod sync;
pub mod unix;
pub mod waiters;

#[cfg(loom)]
mod loom_futex;
#[cfg(all(test, loom))]
mod loom_tests;

pub use bell::Bell;
pub use berth::Berth;
pub use cells::{Cells, Readiness};
pub use claim::{Claims, TheirClaims, UNCLAIMED, Word};
pub use ring::{Broken, Full, RingReader, RingWriter};
pub use segment::{Duplex, Duty, ProcEntry, Segment};
pub use spin::Spinner;
pub use sync::Byte;
pub use waiters::{News, Waiters, Wants};

/// Starts the native thread on which a process waits for an object store.
///
/// # Errors
/// If the system has no thread left.
pub fn spawn_far(run: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    without_signals(|| std::thread::Builder::new().name("eagleray-far".into()).spawn(run)).map(drop)
}

/// Runs `start` with all signals blocked in this thread: what it spawns inherits that, and signals go to the user's threads.
pub fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: plain signal sets on the stack; the old mask is put back.
    unsafe {
        let mut all = std::mem::zeroed::<libc::sigset_t>();
        let mut old = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        let result = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut());
        result
    }
}
