//! A worker's standard output and error, on their way into the files that the node reads.
//!
//! Whole lines go out at once, each in one piece with its end. What has no line's end yet is held back for a moment, since `print` says a
//! line in several words; then a native thread writes it, whatever Python does meanwhile. Among what is printed stand marks that say whose
//! output follows: by the time the node reads a line the worker may run something else.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::io::Errno;

use crate::{door, session};

/// The node takes what stands between these two for a name: `crates/node/src/lines.rs`.
const SPEAKER: (u8, u8) = (0x1e, 0x1f);
/// Without a line's end so much is held back,
const HELD_BYTES_MAX: usize = 1024 * 1024;
/// and for so long.
const MOMENT: Duration = Duration::from_millis(100);
/// The thread that writes it ends when it has found nothing to write so often.
const VAIN_LOOKS_MAX: u32 = 10;

/// Standard output and error.
static STREAMS: [Stream; 2] = [Stream::new(1), Stream::new(2)];
/// Whether a thread looks after what is held back.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

struct Stream {
    number: RawFd,
    /// As in `Inner`, to be seen without its lock.
    held_bytes: AtomicUsize,
    inner: Mutex<Inner>,
}

struct Inner {
    held: Vec<u8>,
    /// Since when, if there is something.
    since: Option<Instant>,
    /// Who was said to speak.
    speaker: String,
    /// Another descriptor of the file below, for the day that a task closes the one that everybody knows.
    log: Option<OwnedFd>,
}

impl Stream {
    const fn new(number: RawFd) -> Self {
        let inner = Inner { held: Vec::new(), since: None, speaker: String::new(), log: None };
        Self { number, held_bytes: AtomicUsize::new(0), inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("never poisoned")
    }

    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: whether it is open is for the system call to say.
        unsafe { BorrowedFd::borrow_raw(self.number) }
    }

    /// Takes what is written; what ends with a line's end goes out.
    fn take(&self, inner: &mut Inner, data: &[u8]) -> Result<(), Errno> {
        let whole = data.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let (whole, rest) = data.split_at(whole);
        if !whole.is_empty() {
            inner.held.extend_from_slice(whole);
            self.write_held(inner)?;
        }
        inner.held.extend_from_slice(rest);
        if inner.held.len() > HELD_BYTES_MAX {
            self.write_held(inner)?;
        }
        if !inner.held.is_empty() {
            inner.since.get_or_insert_with(Instant::now);
        }
        self.held_bytes.store(inner.held.len(), Ordering::Release);
        Ok(())
    }

    fn write_held(&self, inner: &mut Inner) -> Result<(), Errno> {
        let mut data = std::mem::take(&mut inner.held);
        inner.since = None;
        self.held_bytes.store(0, Ordering::Release);
        if data.is_empty() {
            return Ok(());
        }
        // Not joined yet: nobody speaks.
        if let Some(speaker) = session::current().map(|runtime| runtime.label())
            && speaker != inner.speaker
        {
            let mark = [&[SPEAKER.0], speaker.as_bytes(), &[SPEAKER.1]].concat();
            data.splice(0..0, mark);
            inner.speaker = speaker;
        }
        let result = self.write_out(inner, &data);
        data.clear();
        if data.capacity() <= HELD_BYTES_MAX {
            inner.held = data;
        }
        result
    }

    fn write_out(&self, inner: &Inner, mut data: &[u8]) -> Result<(), Errno> {
        while !data.is_empty() {
            match (rustix::io::write(self.fd(), data), &inner.log) {
                (Ok(count), _) => data = &data[count..],
                (Err(Errno::INTR), _) => {}
                // A task has closed the descriptor below us. That is no reason for others to be silent.
                (Err(Errno::BADF), Some(log)) => self.open_again(log.as_fd())?,
                (Err(error), _) => return Err(error),
            }
        }
        Ok(())
    }

    fn open_again(&self, log: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.number == 1 { rustix::stdio::dup2_stdout(log) } else { rustix::stdio::dup2_stderr(log) }
    }
}

/// What lies below `sys.stdout`, or `sys.stderr`.
#[pyclass(frozen, module = "eagleray._native")]
pub(crate) struct Output {
    stream: &'static Stream,
}

#[pymethods]
impl Output {
    /// `number`: 1 or 2; `log`: a descriptor of the same file, which is now ours.
    #[new]
    fn new(number: i32, log: Option<i32>) -> PyResult<Self> {
        let stream = STREAMS.iter().find(|stream| stream.number == number);
        let stream = stream.ok_or_else(|| PyValueError::new_err("standard output is 1, standard error 2"))?;
        if let Some(log) = log {
            // SAFETY: the caller opened it for us.
            stream.lock().log = Some(unsafe { OwnedFd::from_raw_fd(log) });
        }
        Ok(Self { stream })
    }

    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let copied;
        let bytes = if let Ok(bytes) = data.cast::<PyBytes>() {
            bytes.as_bytes()
        } else {
            copied = PyBuffer::<u8>::get(data)?.to_vec(py)?;
            &copied
        };
        let stream = self.stream;
        if session::is_forked() {
            // A lock that a thread of the parent held is held here for ever; and nobody would write what is held back.
            door::enter(py, || write_plainly(stream, bytes)).map_err(raised)?;
            return Ok(bytes.len());
        }
        let is_short = bytes.len() < HELD_BYTES_MAX && !bytes.contains(&b'\n');
        if is_short && let Ok(mut inner) = stream.inner.try_lock() {
            stream.take(&mut inner, bytes).map_err(raised)?;
        } else {
            door::enter(py, || stream.take(&mut stream.lock(), bytes)).map_err(raised)?;
        }
        if stream.held_bytes.load(Ordering::Acquire) > 0 {
            watch();
        }
        Ok(bytes.len())
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        if session::is_forked() || self.stream.held_bytes.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        door::enter(py, || self.stream.write_held(&mut self.stream.lock())).map_err(raised)
    }

    /// Opens the descriptor that everybody knows again.
    fn mend(&self) -> PyResult<()> {
        match &self.stream.lock().log {
            Some(log) => self.stream.open_again(log.as_fd()).map_err(raised),
            None => Ok(()),
        }
    }
}

fn raised(error: Errno) -> PyErr {
    PyOSError::new_err((error.raw_os_error(), std::io::Error::from(error).to_string()))
}

fn write_plainly(stream: &Stream, mut data: &[u8]) -> Result<(), Errno> {
    while !data.is_empty() {
        match rustix::io::write(stream.fd(), data) {
            Ok(count) => data = &data[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes out what is held back: a caller must not hear of a result before the output that came before it.
#[inline]
pub(crate) fn flush_all(py: Python<'_>) {
    for stream in STREAMS.iter().filter(|stream| stream.held_bytes.load(Ordering::Acquire) > 0) {
        // A full disk is for whoever prints to hear of.
        let _ = door::enter(py, || stream.write_held(&mut stream.lock()));
    }
}

/// Sees to it that what is held back goes out in a moment.
fn watch() {
    if IS_WATCHED.swap(true, Ordering::SeqCst) {
        return;
    }
    let thread = std::thread::Builder::new().name("eagleray-output".into()).stack_size(128 * 1024);
    if net::without_signals(|| thread.spawn(look_after)).is_err() {
        // No thread is to be had: it goes out at the line's end, or with the call's.
        IS_WATCHED.store(false, Ordering::SeqCst);
    }
}

fn look_after() {
    let mut vain = 0;
    loop {
        std::thread::sleep(MOMENT);
        vain = if write_overdue() { 0 } else { vain + 1 };
        if vain > VAIN_LOOKS_MAX {
            IS_WATCHED.store(false, Ordering::SeqCst);
            let is_needed = STREAMS.iter().any(|stream| stream.held_bytes.load(Ordering::SeqCst) > 0);
            if !is_needed || IS_WATCHED.swap(true, Ordering::SeqCst) {
                return;
            }
            vain = 0;
        }
    }
}

/// Whether something is held back, to be written now or soon.
fn write_overdue() -> bool {
    let mut has_some = false;
    for stream in STREAMS.iter().filter(|stream| stream.held_bytes.load(Ordering::SeqCst) > 0) {
        has_some = true;
        let mut inner = stream.lock();
        if inner.since.is_some_and(|since| since.elapsed() >= MOMENT) {
            let _ = stream.write_held(&mut inner);
        }
    }
    has_some
}
