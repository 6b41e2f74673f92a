//! HOT: Python objects to bytes, as `wire::value` lays them out. Whoever reads buffers outside the arena copies them to a place that is aligned
//! as there.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyTuple};
use runtime::{Content, Runtime};
use wire::value::{self, INLINE_ALIGNMENT, OF_LIST, OF_TUPLE, PICKLE, PLAIN, REFS, STORED_ALIGNMENT};

use crate::buffer::Bytes;
use crate::ending::Inside;
use crate::object_ref::ObjectRef;
use crate::{context, door, errors, plain};

static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// An object that pickle has taken apart.
pub(crate) struct Pickled<'py> {
    pickle: Bound<'py, PyBytes>,
    buffers: Vec<Bytes>,
    /// Slots of the references in it.
    pub(crate) refs: Vec<u32>,
}

/// Pickles an object, large buffers apart.
pub(crate) fn pickle<'py>(object: &Bound<'py, PyAny>) -> PyResult<Pickled<'py>> {
    let py = object.py();
    let _inside = Inside::new(py);
    let dumps = DUMPS
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("eagleray._values.pickling")?.getattr("dumps")?.unbind()))?;
    let (result, refs) = context::encoding(|| dumps.bind(py).call1((object,)));
    let (pickle, buffers): (Bound<'py, PyBytes>, Bound<'py, PyList>) = result?.extract()?;
    let buffers = buffers.iter().map(|buffer| Bytes::of(&buffer)).collect::<PyResult<Vec<_>>>()?;
    Ok(Pickled { pickle, buffers, refs })
}

impl<'py> Pickled<'py> {
    /// Of an object that was pickled with nothing apart and has no references in it.
    pub(crate) fn plain(pickle: Bound<'py, PyBytes>) -> Self {
        Self { pickle, buffers: Vec::new(), refs: Vec::new() }
    }

    /// Bytes it takes, give or take the padding.
    pub(crate) fn size(&self) -> usize {
        self.pickle.as_bytes().len()
            + self.buffers.iter().map(|buffer| buffer.as_slice().len() + 64).sum::<usize>()
            + 64
    }

    /// Everything before the buffers; `start` is how many bytes of the value stand before it. Returns the buffers' positions.
    fn head(&self, to: &mut Vec<u8>, start: usize, alignment: usize) -> Vec<usize> {
        let pickle = self.pickle.as_bytes();
        to.extend_from_slice(&(self.buffers.len() as u32).to_le_bytes());
        to.extend_from_slice(&(pickle.len() as u64).to_le_bytes());
        let mut at = to.len() - start + 16 * self.buffers.len() + pickle.len();
        let mut positions = Vec::with_capacity(self.buffers.len());
        for buffer in &self.buffers {
            at = at.next_multiple_of(alignment);
            positions.push(at);
            to.extend_from_slice(&(at as u64).to_le_bytes());
            to.extend_from_slice(&(buffer.as_slice().len() as u64).to_le_bytes());
            at += buffer.as_slice().len();
        }
        to.extend_from_slice(pickle);
        positions
    }

    /// As one run of bytes behind `to`; positions count from `start`.
    pub(crate) fn write(&self, to: &mut Vec<u8>, start: usize) {
        let positions = self.head(to, start, INLINE_ALIGNMENT);
        for (buffer, at) in self.buffers.iter().zip(positions) {
            to.resize(start + at, 0);
            to.extend_from_slice(buffer.as_slice());
        }
    }
}

/// The first bytes of a value: kind and references.
pub(crate) fn write_refs(runtime: &Runtime, to: &mut Vec<u8>, kind: u8, refs: &[u32]) {
    if refs.is_empty() {
        to.push(kind);
        return;
    }
    to.push(kind | value::HAS_REFS);
    to.extend_from_slice(&(refs.len() as u32).to_le_bytes());
    to.reserve(refs.len() * value::REF_BYTES);
    for (id, owner) in runtime.identities(refs) {
        value::write_ref(to, &id, owner);
    }
}

/// The slots of a list or tuple of references and of nothing else.
fn list_of_refs(runtime: &Runtime, object: &Bound<'_, PyAny>) -> Option<(u8, Vec<u32>)> {
    let slot_of = |item: Bound<'_, PyAny>| {
        let item = item.cast_exact::<ObjectRef>().ok()?;
        let (held, slot) = item.get().held.as_ref()?;
        std::ptr::eq(&raw const **held, runtime).then_some(*slot)
    };
    let (kind, slots) = if let Ok(list) = object.cast_exact::<PyList>() {
        (OF_LIST, list.iter().map(slot_of).collect::<Option<Vec<u32>>>()?)
    } else {
        (OF_TUPLE, object.cast_exact::<PyTuple>().ok()?.iter().map(slot_of).collect::<Option<Vec<u32>>>()?)
    };
    (!slots.is_empty()).then_some((kind, slots))
}

/// Tells the receiver of a large value that it will be there in a moment.
pub(crate) type Tell<'a> = &'a (dyn Fn() + Sync);

/// So much is left to copy of a large value when its receiver is told: that takes as long as waking up does, and some more.
const TELL_BYTES: usize = 1 << 20;

/// An encoded value and the slots of the references in it.
pub(crate) struct Encoded {
    pub(crate) content: Content,
    pub(crate) refs: Vec<u32>,
}

/// Encodes one value: small ones into bytes, large ones straight into the arena.
pub(crate) fn encode(runtime: &Runtime, object: &Bound<'_, PyAny>) -> PyResult<Encoded> {
    encode_for(runtime, object, &|| ())
}

/// As `encode`, for a receiver that is told shortly before a large value is there.
pub(crate) fn encode_for(runtime: &Runtime, object: &Bound<'_, PyAny>, tell: Tell<'_>) -> PyResult<Encoded> {
    if let Some(array) = plain::simple_array(object) {
        if array.bytes.as_slice().len() > wire::INLINE_BYTES_MAX / 2 {
            return store_array(object.py(), runtime, &array, tell);
        }
        let mut to = Vec::with_capacity(64 + array.bytes.as_slice().len());
        to.push(PLAIN);
        array.write(&mut to);
        return Ok(Encoded { content: Content::Inline(to), refs: Vec::new() });
    }
    if let Some((kind, refs)) = list_of_refs(runtime, object) {
        runtime.escape_all(&refs);
        let mut to = Vec::new();
        write_refs(runtime, &mut to, REFS, &refs);
        to.push(kind);
        if to.len() <= wire::INLINE_BYTES_MAX {
            return Ok(Encoded { content: Content::Inline(to), refs });
        }
        return store_parts(object.py(), runtime, to, &[], refs, tell);
    }
    let mut to = Vec::with_capacity(64);
    to.push(PLAIN);
    if plain::write(object, &mut to) {
        if to.len() <= wire::INLINE_BYTES_MAX {
            return Ok(Encoded { content: Content::Inline(to), refs: Vec::new() });
        }
        // A plain value that large has no arrays in it that would need another alignment, unless it is a tuple of arrays.
        if to.get(1) != Some(&value::plain::TUPLE) {
            return store_parts(object.py(), runtime, to, &[], Vec::new(), tell);
        }
    }
    keep(object.py(), runtime, pickle(object)?, tell)
}

/// Writes a large array straight into the arena.
pub(crate) fn store_array(
    py: Python<'_>,
    runtime: &Runtime,
    array: &plain::SimpleArray,
    tell: Tell<'_>,
) -> PyResult<Encoded> {
    let mut head = vec![PLAIN];
    array.write_head(&mut head);
    store_parts(py, runtime, head, &[array.bytes.as_slice()], Vec::new(), tell)
}

/// Keeps a pickled value: a small one in bytes, a large one in the arena.
pub(crate) fn keep(py: Python<'_>, runtime: &Runtime, pickled: Pickled<'_>, tell: Tell<'_>) -> PyResult<Encoded> {
    let mut to = Vec::new();
    write_refs(runtime, &mut to, PICKLE, &pickled.refs);
    if pickled.size() <= wire::INLINE_BYTES_MAX {
        pickled.write(&mut to, 0);
        return Ok(Encoded { content: Content::Inline(to), refs: pickled.refs });
    }
    pickled.head(&mut to, 0, STORED_ALIGNMENT);
    let buffers: Vec<&[u8]> = pickled.buffers.iter().map(Bytes::as_slice).collect();
    store_parts(py, runtime, to, &buffers, pickled.refs.clone(), tell)
}

/// Writes `head` and then each part, aligned, into a fresh block of the arena. The one copy that a large value costs.
///
/// tour(object) 1: a large value is written straight into the arena: the one copy that it costs.
fn store_parts(
    py: Python<'_>,
    runtime: &Runtime,
    head: Vec<u8>,
    parts: &[&[u8]],
    refs: Vec<u32>,
    tell: Tell<'_>,
) -> PyResult<Encoded> {
    let length = parts.iter().fold(head.len(), |at, part| at.next_multiple_of(STORED_ALIGNMENT) + part.len());
    let reserved = match runtime.try_reserve(length as u64) {
        Some(reservation) => Ok(reservation),
        None => door::enter(py, || runtime.reserve(length as u64)),
    };
    let refuse = |error: runtime::Error| match error {
        runtime::Error::StoreFull(why) => {
            errors::named(py, "ObjectStoreFullError", format!("cannot store {length} bytes: {why}"))
        }
        runtime::Error::DiskFull(why) => errors::named(
            py,
            "OutOfDiskError",
            format!("the object store is full, and cannot move {length} bytes to disk: {why}"),
        ),
        other => errors::from_runtime(&other),
    };
    let mut block = reserved.map_err(refuse)?;
    // No earlier than so much is left to copy: whoever is told too early falls asleep again.
    let tell_from = if length < 2 * TELL_BYTES { 0 } else { length - TELL_BYTES };
    let bulk = door::enter(py, || {
        let room = block.as_mut_slice();
        let mut is_told = false;
        room[..head.len()].copy_from_slice(&head);
        let mut at = head.len();
        for part in parts {
            let aligned = at.next_multiple_of(STORED_ALIGNMENT);
            let end = aligned + part.len();
            room[at..aligned].fill(0);
            let (early, late) = part.split_at(tell_from.clamp(aligned, end) - aligned);
            let (to_early, to_late) = room[aligned..end].split_at_mut(early.len());
            store::copy_into(to_early, early);
            if !is_told && end > tell_from {
                is_told = true;
                tell();
            }
            store::copy_into(to_late, late);
            at = end;
        }
        block.seal().map_err(|error| runtime::Error::DiskFull(error.to_string()))
    });
    let bulk = bulk.map_err(refuse)?;
    Ok(Encoded { content: Content::Bulk(bulk), refs })
}
