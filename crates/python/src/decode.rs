//! HOT: bytes back to Python objects. Large arrays and buffers stay where they are: Python gets read-only views that pin them.

use std::mem::MaybeUninit;
use std::sync::Arc;

use model::ObjectId;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};
use store::View;
use wire::Reader;
use wire::value::{
    HAS_REFS, INLINE_ALIGNMENT, OF_LIST, OF_TUPLE, PICKLE, PLAIN, PLAIN_COPY, REF_BYTES, REFS, STORED_ALIGNMENT,
};

use crate::buffer::{Buffer, Memory};
use crate::ending::Inside;
use crate::plain::{self, Source};

static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static LOADS_PLAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A value in the arena: arrays are views of it.
pub(crate) struct Stored<'a>(pub(crate) &'a View);

impl Source for Stored<'_> {
    fn memory(&self, at: usize, _length: usize) -> (Memory, usize) {
        (Memory::Stored(self.0.clone()), at)
    }

    fn alignment(&self) -> usize {
        STORED_ALIGNMENT
    }
}

/// A value that its owner keeps: arrays share its bytes where those happen to be aligned as in the arena.
pub(crate) struct Shared<'a>(pub(crate) &'a Arc<[u8]>);

impl Source for Shared<'_> {
    fn memory(&self, at: usize, length: usize) -> (Memory, usize) {
        if self.0[at..].as_ptr().align_offset(STORED_ALIGNMENT) == 0 {
            return (Memory::Inline(self.0.clone()), at);
        }
        aligned_copy(&self.0[at..at + length])
    }

    fn alignment(&self) -> usize {
        INLINE_ALIGNMENT
    }
}

/// A value in a frame: the frame's memory is used again, so arrays get a copy.
pub(crate) struct Passing<'a>(pub(crate) &'a [u8]);

impl Source for Passing<'_> {
    fn memory(&self, at: usize, length: usize) -> (Memory, usize) {
        aligned_copy(&self.0[at..at + length])
    }

    fn alignment(&self) -> usize {
        INLINE_ALIGNMENT
    }
}

/// A value that was copied out of an arena, and is laid out as there.
struct Copied<'a>(&'a dyn Source);

impl Source for Copied<'_> {
    fn memory(&self, at: usize, length: usize) -> (Memory, usize) {
        self.0.memory(at, length)
    }

    fn alignment(&self) -> usize {
        STORED_ALIGNMENT
    }
}

/// A copy of these bytes and where in it they begin, which is aligned as in the arena: libraries compute faster there.
fn aligned_copy(bytes: &[u8]) -> (Memory, usize) {
    let mut room = Arc::<[u8]>::new_uninit_slice(bytes.len() + STORED_ALIGNMENT - 1);
    let to = Arc::get_mut(&mut room).expect("nobody else has it yet");
    let start = to.as_ptr().align_offset(STORED_ALIGNMENT);
    let end = start + bytes.len();
    to[..start].fill(MaybeUninit::new(0));
    to[end..].fill(MaybeUninit::new(0));
    // SAFETY: `start..end` lies in `room` (the slice checks it), which nobody else has.
    unsafe { to[start..end].as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    // SAFETY: the three parts together are all of it.
    (Memory::Inline(unsafe { room.assume_init() }), start)
}

fn bad(error: wire::Malformed) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Decodes one whole value.
pub(crate) fn value<'py>(py: Python<'py>, bytes: &[u8], source: &dyn Source) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = Reader::new(bytes);
    let kind = reader.u8().map_err(bad)?;
    let mut refs: &[u8] = &[];
    if kind & HAS_REFS != 0 {
        let count = reader.u32().map_err(bad)? as usize;
        refs = reader.bytes(count * REF_BYTES).map_err(bad)?;
    }
    match kind & !HAS_REFS {
        REFS => list_of_refs(py, refs, reader.u8().map_err(bad)?),
        PLAIN => plain::read(py, bytes, &mut reader, source),
        PLAIN_COPY => plain::read(py, bytes, &mut reader, &Copied(source)),
        PICKLE => pickled(py, bytes, &mut reader, source),
        _ => Err(PyValueError::new_err("malformed value")),
    }
}

fn list_of_refs<'py>(py: Python<'py>, bytes: &[u8], kind: u8) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = Reader::new(bytes);
    let mut refs = Vec::with_capacity(bytes.len() / REF_BYTES);
    while !reader.rest().is_empty() {
        refs.push((ObjectId(reader.array().map_err(bad)?), reader.process().map_err(bad)?));
    }
    let refs = crate::object_ref::rebuild_all(&refs);
    match kind {
        OF_LIST => Ok(PyList::new(py, refs)?.into_any()),
        OF_TUPLE => Ok(PyTuple::new(py, refs)?.into_any()),
        _ => Err(bad(wire::Malformed("references"))),
    }
}

/// Decodes what `Pickled::write` wrote. `whole` is the value's first byte: positions count from there.
pub(crate) fn pickled<'py>(
    py: Python<'py>,
    whole: &[u8],
    reader: &mut Reader<'_>,
    source: &dyn Source,
) -> PyResult<Bound<'py, PyAny>> {
    let count = reader.u32().map_err(bad)?;
    let length = reader.u64().map_err(bad)? as usize;
    let buffers = PyList::empty(py);
    let mut end = 0;
    for _ in 0..count {
        let (at, size) = (reader.u64().map_err(bad)? as usize, reader.u64().map_err(bad)? as usize);
        let past =
            at.checked_add(size).filter(|past| *past <= whole.len()).ok_or_else(|| bad(wire::Malformed("buffer")))?;
        end = end.max(past);
        let (memory, start) = source.memory(at, size);
        buffers.append(Bound::new(py, Buffer::new(memory, start, size))?)?;
    }
    let pickle = reader.bytes(length).map_err(bad)?;
    let at = whole.len() - reader.rest().len();
    if end > at {
        reader.bytes(end - at).map_err(bad)?;
    }
    let pickle = pyo3::types::PyBytes::new(py, pickle);
    let _inside = Inside::new(py);
    if count == 0 {
        let loads =
            LOADS_PLAIN.get_or_try_init(py, || Ok::<_, PyErr>(py.import("pickle")?.getattr("loads")?.unbind()))?;
        return loads.bind(py).call1((pickle,));
    }
    let loads = LOADS
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("eagleray._values.pickling")?.getattr("loads")?.unbind()))?;
    loads.bind(py).call1((pickle, buffers))
}

/// Decodes an error that travelled as a value.
pub(crate) fn error_value<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    value(py, bytes, &Passing(bytes))
}
