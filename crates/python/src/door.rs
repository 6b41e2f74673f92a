//! The one door between Python and everything that may wait: it lets the interpreter's lock go, and looks for Ctrl-C while it waits.

use pyo3::prelude::*;
use runtime::Interrupts;

/// Runs `work` without the interpreter's lock.
pub(crate) fn enter<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    py.detach(work)
}

/// Runs `work` with the interpreter's lock, on a thread that Python does not know.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub(crate) fn attach<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    Python::attach(|py| {
        let _inside = crate::ending::Inside::never_late(py);
        work(py)
    })
}

/// Looks for signals, as Python does between two instructions. What the handler raised is kept for `raise`.
#[derive(Default)]
pub(crate) struct Signals {
    raised: Option<PyErr>,
}

impl Interrupts for Signals {
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn is_interrupted(&mut self) -> bool {
        Python::attach(|py| match py.check_signals() {
            Ok(()) => false,
            Err(error) => {
                self.raised = Some(error);
                true
            }
        })
    }
}

impl Signals {
    /// What the signal handler raised, or the error for `error` itself.
    pub(crate) fn raise(self, error: &runtime::Error) -> PyErr {
        self.raised.unwrap_or_else(|| crate::errors::from_runtime(error))
    }
}
