//! The zygote's loop, as Python sees it. Python forks; everything else is native.

use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::path::PathBuf;

use node::launcher::{self, Next};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// Waits for fork requests.
#[pyclass(frozen, module = "eagleray._native")]
pub(crate) struct Launcher {
    inner: launcher::Launcher,
}

fn os(errno: rustix::io::Errno) -> PyErr {
    PyOSError::new_err((errno.raw_os_error(), errno.to_string()))
}

#[pymethods]
impl Launcher {
    /// `children_fd` becomes readable when a child ends.
    #[new]
    fn new(node_pid: i32, children_fd: i32, session_dir: PathBuf, keep_session: bool) -> PyResult<Self> {
        let socket = launcher::socket_from_stdin()?;
        // SAFETY: Python made the descriptor for this and keeps it open.
        let children = unsafe { BorrowedFd::borrow_raw(children_fd) }.try_clone_to_owned()?;
        let inner = launcher::Launcher::new(socket, node_pid, children, session_dir, keep_session).map_err(os)?;
        Ok(Self { inner })
    }

    /// (slot, epoch, descriptor of the worker's socket), or nothing: everything is over.
    fn next(&self) -> Option<(u16, u32, i32)> {
        match self.inner.next() {
            Next::Fork { slot, epoch, socket } => Some((slot, epoch, socket.into_raw_fd())),
            Next::Exit => None,
        }
    }

    fn forked(&self, slot: u16, epoch: u32, pid: i32) {
        self.inner.forked(slot, epoch, pid);
    }

    fn fork_failed(&self, slot: u16, errno: i32) {
        self.inner.fork_failed(slot, errno);
    }
}

/// In the child, right after the fork: it dies with the zygote.
#[pyfunction]
fn die_with_parent() {
    launcher::die_with_parent();
}

/// How many threads this process has: the zygote must have one.
#[pyfunction]
fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// An eventfd for `watch_loop`.
#[pyfunction]
fn event_fd() -> PyResult<i32> {
    use rustix::event::{EventfdFlags, eventfd};
    let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(os)?;
    let _ = fd.as_raw_fd();
    Ok(fd.into_raw_fd())
}

/// Removes what a dead session has left: its folder, and those that it had elsewhere.
#[pyfunction]
fn remove_session(py: Python<'_>, session_dir: PathBuf) {
    crate::door::enter(py, || node::remove_session(&session_dir));
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(die_with_parent, module)?)?;
    module.add_function(wrap_pyfunction!(thread_count, module)?)?;
    module.add_function(wrap_pyfunction!(remove_session, module)?)?;
    module.add_function(wrap_pyfunction!(event_fd, module)?)
}
