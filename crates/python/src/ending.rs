//! The end of the program while threads of it are still in the API.
//!
//! Up to 3.13 Python ends a thread that wants the interpreter's lock behind the end of the program by `pthread_exit`, which unwinds the thread's
//! stack by force. Rust code that looks out for panics lies on that stack while Python code runs on a call's behalf (pickle, for one), and
//! makes an abort of it. Hence END-1: when the interpreter goes, no thread runs Python code on our behalf. A thread that merely waits without
//! the lock is pyo3's: it never comes back.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// The thread that ends the program; zero before.
static ENDS: AtomicU64 = AtomicU64::new(0);
/// Threads that run Python code on our behalf.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// The program's end waits so long for them.
const INSIDE_MAX: Duration = Duration::from_secs(5);
/// A thread that comes while the program ends goes no further for so long, unless the interpreter goes before. It is not for ever: an exit
/// handler of the program's may wait for that thread.
const LATE: Duration = Duration::from_secs(2);

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, this thread may run Python code below a call of ours.
pub(crate) struct Inside(());

impl Inside {
    #[inline]
    pub(crate) fn new(py: Python<'_>) -> Self {
        if DEPTH.get() == 0 && ENDS.load(Ordering::Relaxed) != 0 {
            come_late(py);
        }
        Self::never_late(py)
    }

    /// As `new`, on a thread of our own that the end of the session waits for.
    #[inline]
    pub(crate) fn never_late(_py: Python<'_>) -> Self {
        if DEPTH.get() == 0 {
            INSIDE.fetch_add(1, Ordering::Relaxed);
        }
        DEPTH.set(DEPTH.get() + 1);
        Self(())
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            INSIDE.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn this_thread() -> u64 {
    // SAFETY: it only reads the thread's own handle.
    unsafe { libc::pthread_self() as u64 }
}

#[cold]
fn come_late(py: Python<'_>) {
    if ENDS.load(Ordering::Relaxed) != this_thread() {
        crate::door::enter(py, || std::thread::sleep(LATE));
    }
}

/// The program ends on this thread: from now on other threads that come to us stay, and those that run Python code on our behalf are waited for.
#[pyfunction]
fn program_ends(py: Python<'_>) {
    // Both sides hold the interpreter's lock: whoever has not seen this is counted.
    ENDS.store(this_thread(), Ordering::Relaxed);
    let own = u32::from(DEPTH.get() > 0);
    let until = Instant::now() + INSIDE_MAX;
    while INSIDE.load(Ordering::Relaxed) > own && Instant::now() < until {
        crate::door::enter(py, || std::thread::sleep(Duration::from_millis(1)));
    }
}

/// This process was forked: the parent's other threads are not here.
pub(crate) fn forked() {
    ENDS.store(0, Ordering::Relaxed);
    INSIDE.store(u32::from(DEPTH.get() > 0), Ordering::Relaxed);
}

/// Where the program ends on another thread, this one goes no further for a while: most likely for ever.
#[pyfunction]
fn come_late_if_program_ends(py: Python<'_>) {
    drop(Inside::new(py));
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(program_ends, module)?)?;
    module.add_function(wrap_pyfunction!(come_late_if_program_ends, module)?)
}
