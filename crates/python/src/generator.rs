//! HOT: `ObjectRefGenerator`: what user code holds of a generator that runs elsewhere.

use std::sync::Arc;

use model::ObjectId;
use pyo3::exceptions::{PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use runtime::{Next, Runtime, StreamKey, Waited};

use crate::ending::Inside;
use crate::object_ref::ObjectRef;
use crate::{getting, session};

/// The refs of what a generator yields, in order, each as soon as there is its value.
#[pyclass(frozen, weakref, generic, module = "eagleray")]
pub(crate) struct ObjectRefGenerator {
    runtime: Arc<Runtime>,
    stream: StreamKey,
    /// Has a value, or the error, once the generator has ended.
    end: Py<ObjectRef>,
}

impl ObjectRefGenerator {
    pub(crate) fn new(runtime: &Arc<Runtime>, stream: StreamKey, end: Py<ObjectRef>) -> Self {
        Self { runtime: runtime.clone(), stream, end }
    }

    /// The task that it stands for is cancelled by this ref.
    pub(crate) fn end(&self) -> &Py<ObjectRef> {
        &self.end
    }

    /// A ref on the object that has a value as soon as there is something to read, or the end.
    pub(crate) fn front(&self) -> Option<ObjectRef> {
        let slot = self.runtime.hold_front(self.stream)?;
        Some(ObjectRef::holding(&self.runtime, slot, ObjectId::NIL))
    }

    fn is_current(&self) -> bool {
        session::is_current(&self.runtime)
    }

    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Taken> {
        loop {
            if !self.is_current() {
                return Ok(Taken::End);
            }
            let slot = match self.runtime.next_item(self.stream) {
                Next::Item { slot, id } => return Ok(Taken::Item(ObjectRef::holding(&self.runtime, slot, id))),
                Next::End => return Ok(Taken::End),
                Next::Pending(slot) => slot,
            };
            // Another thread may read it meanwhile, and let it go.
            self.runtime.add_handle(slot);
            let waited = getting::wait_for_one(py, &self.runtime, slot, timeout);
            self.runtime.drop_handle(slot);
            if waited? == Waited::TimedOut {
                return Ok(Taken::Nothing);
            }
        }
    }
}

/// What the next value is.
enum Taken {
    Item(ObjectRef),
    /// The time is up.
    Nothing,
    End,
}

impl Drop for ObjectRefGenerator {
    fn drop(&mut self) {
        self.runtime.drop_stream(self.stream);
    }
}

fn checked_count(num_refs: i64) -> PyResult<usize> {
    usize::try_from(num_refs)
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| PyValueError::new_err("num_refs must be positive"))
}

fn unsupported<T>(name: &str) -> PyResult<T> {
    Err(PyNotImplementedError::new_err(format!("`gen.{name}` is not supported.")))
}

#[pymethods]
impl ObjectRefGenerator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ObjectRef>> {
        match self.next(py, None)? {
            Taken::Item(object) => Ok(Some(object)),
            Taken::Nothing | Taken::End => Ok(None),
        }
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let _inside = Inside::new(slf.py());
        slf.py().import("eagleray._values.generators")?.getattr("next_async")?.call1((slf,))
    }

    /// As `next`, for at most `timeout_s` seconds; then a nil ref.
    #[pyo3(signature = (timeout_s=None))]
    fn _next_sync(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<ObjectRef> {
        match self.next(py, timeout_s)? {
            Taken::Item(object) => Ok(object),
            Taken::Nothing => Ok(ObjectRef { id: ObjectId::NIL, held: None }),
            Taken::End => Err(pyo3::exceptions::PyStopIteration::new_err(())),
        }
    }

    /// As `_next_sync`, for event loops.
    #[pyo3(signature = (timeout_s=None))]
    fn _next_async<'py>(slf: &Bound<'py, Self>, timeout_s: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let _inside = Inside::new(slf.py());
        slf.py().import("eagleray._values.generators")?.getattr("next_within")?.call1((slf, timeout_s))
    }

    /// The next refs, which stay the next ones until they are taken. Waits until there are so many; gives fewer if the generator ends before.
    fn _get_next_ref_n(&self, py: Python<'_>, num_refs: i64) -> PyResult<Vec<ObjectRef>> {
        let most = checked_count(num_refs)?;
        loop {
            if !self.is_current() {
                return Ok(Vec::new());
            }
            let (items, next) = self.runtime.hold_items(self.stream, most);
            let refs: Vec<_> =
                items.into_iter().map(|(slot, id)| ObjectRef::holding(&self.runtime, slot, id)).collect();
            match next {
                Some(next) if refs.len() < most => {
                    self.runtime.add_handle(next);
                    let waited = getting::wait_for_one(py, &self.runtime, next, None);
                    self.runtime.drop_handle(next);
                    waited?;
                }
                _ => return Ok(refs),
            }
        }
    }

    /// Takes what `_get_next_ref_n` gave.
    fn _consume_next_ref_n(&self, py: Python<'_>, num_refs: i64) -> PyResult<()> {
        for _ in 0..checked_count(num_refs)? {
            match self.next(py, Some(0.0))? {
                Taken::Item(_) => {}
                Taken::End => break,
                Taken::Nothing => return Err(PyValueError::new_err("the refs to consume are not there yet")),
            }
        }
        Ok(())
    }

    /// Whether `next` raises StopIteration.
    fn _stream_exhausted(&self) -> bool {
        self.is_finished()
    }

    /// The next ref if it is there; None if the stream is over; else a ref that is ready when there is more to know.
    fn _next_or_wait(&self) -> (Option<ObjectRef>, bool) {
        if !self.is_current() {
            return (None, true);
        }
        match self.runtime.next_item(self.stream) {
            Next::Item { slot, id } => (Some(ObjectRef::holding(&self.runtime, slot, id)), true),
            Next::End => (None, true),
            Next::Pending(_) => (self.front(), false),
        }
    }

    /// A ref on what comes next, which stays the next one until it is taken: the value, what was raised, or (nil once it is known) the end.
    fn _front(&self) -> Option<ObjectRef> {
        self.front()
    }

    /// A ref that is ready once the generator has ended: its value is None, or what the generator raised.
    fn completed(&self, py: Python<'_>) -> Py<ObjectRef> {
        self.end.clone_ref(py)
    }

    #[getter]
    fn _generator_ref(&self, py: Python<'_>) -> Py<ObjectRef> {
        self.end.clone_ref(py)
    }

    /// Whether `next` gives a ref without waiting.
    fn next_ready(&self) -> bool {
        if !self.is_current() || self.runtime.is_stream_over(self.stream) {
            return false;
        }
        let front = self.front().and_then(|front| front.slot_in(&self.runtime));
        front.is_some_and(|slot| self.runtime.is_ready(slot))
    }

    /// Whether `next` raises StopIteration.
    fn is_finished(&self) -> bool {
        !self.is_current() || self.runtime.is_stream_over(self.stream)
    }

    #[pyo3(signature = (*_args))]
    fn send(&self, _args: &Bound<'_, PyTuple>) -> PyResult<()> {
        unsupported("send")
    }

    #[pyo3(signature = (*_args))]
    fn throw(&self, _args: &Bound<'_, PyTuple>) -> PyResult<()> {
        unsupported("throw")
    }

    fn close(&self) -> PyResult<()> {
        unsupported("close")
    }

    #[pyo3(signature = (*_args))]
    fn asend(&self, _args: &Bound<'_, PyTuple>) -> PyResult<()> {
        unsupported("asend")
    }

    #[pyo3(signature = (*_args))]
    fn athrow(&self, _args: &Bound<'_, PyTuple>) -> PyResult<()> {
        unsupported("athrow")
    }

    fn aclose(&self) -> PyResult<()> {
        unsupported("aclose")
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "You cannot return or pass a generator to other task. Serializing a ObjectRefGenerator is not allowed.",
        ))
    }

    fn __repr__(&self) -> String {
        format!("ObjectRefGenerator({})", self.end.get().id)
    }
}
