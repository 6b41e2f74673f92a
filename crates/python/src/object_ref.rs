//! `ObjectRef`: what user code holds of a value.

use std::sync::Arc;

use model::{ObjectId, ProcId};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple, PyType};
use runtime::Runtime;

use crate::ending::Inside;
use crate::{context, session};

static REBUILD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A reference to a value that a task will make, or that was put.
#[pyclass(frozen, freelist = 4096, weakref, generic, module = "eagleray")]
pub(crate) struct ObjectRef {
    pub(crate) id: ObjectId,
    /// The slot it holds, and in which runtime; none for refs that were made from bytes.
    pub(crate) held: Option<(Arc<Runtime>, u32)>,
}

impl ObjectRef {
    #[inline]
    pub(crate) fn holding(runtime: &Arc<Runtime>, slot: u32, id: ObjectId) -> Self {
        Self { id, held: Some((runtime.clone(), slot)) }
    }

    /// A name only: nobody knows who owns what it names.
    fn from_bytes(id: &[u8]) -> PyResult<Self> {
        let id = ObjectId::from_slice(id).map_err(|error| {
            PyValueError::new_err(format!("ID string needs to have length {}, got {}", error.need, error.got))
        })?;
        Ok(Self { id, held: None })
    }

    /// What it holds, in a process that counts it: a forked child has a name only.
    fn counted(&self) -> Option<&(Arc<Runtime>, u32)> {
        self.held.as_ref().filter(|_| !session::is_forked())
    }

    /// The slot, if the ref belongs to the session that is running.
    #[inline]
    pub(crate) fn slot_in(&self, runtime: &Arc<Runtime>) -> Option<u32> {
        match &self.held {
            Some((held, slot)) if Arc::ptr_eq(held, runtime) => Some(*slot),
            _ => None,
        }
    }
}

impl Drop for ObjectRef {
    #[inline]
    fn drop(&mut self) {
        if let Some((runtime, slot)) = &self.held {
            runtime.drop_handle(*slot);
        }
    }
}

#[pymethods]
impl ObjectRef {
    #[new]
    #[pyo3(signature = (id, *_owner))]
    fn new(id: &[u8], _owner: &Bound<'_, PyTuple>) -> PyResult<Self> {
        Self::from_bytes(id)
    }

    #[classmethod]
    fn nil(_class: &Bound<'_, PyType>) -> Self {
        Self { id: ObjectId::NIL, held: None }
    }

    #[classmethod]
    fn from_random(_class: &Bound<'_, PyType>) -> PyResult<Self> {
        let mut id = [0; 28];
        session::random(&mut id)?;
        Ok(Self { id: ObjectId(id), held: None })
    }

    #[classmethod]
    fn from_binary(_class: &Bound<'_, PyType>, id: &[u8]) -> PyResult<Self> {
        Self::from_bytes(id)
    }

    #[classmethod]
    fn from_hex(_class: &Bound<'_, PyType>, hex: &str) -> PyResult<Self> {
        let bytes: Option<Vec<u8>> =
            (0..hex.len() / 2).map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()).collect();
        Self::from_bytes(&bytes.ok_or_else(|| PyValueError::new_err("an id in hex has digits and the letters a to f"))?)
    }

    #[staticmethod]
    fn size() -> usize {
        ObjectId::LENGTH
    }

    fn binary<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.id.0)
    }

    fn hex(&self) -> String {
        self.id.to_string()
    }

    fn is_nil(&self) -> bool {
        self.id.is_nil()
    }

    /// Refuses: there is none.
    fn owner_address(&self) -> PyResult<()> {
        Err(pyo3::exceptions::PyNotImplementedError::new_err(
            "owners have no address that could be sent; pass the ref itself, which finds its owner everywhere in the session",
        ))
    }

    /// Refuses: it is recorded on demand, and elsewhere.
    fn call_site(&self) -> PyResult<String> {
        Err(pyo3::exceptions::PyNotImplementedError::new_err(
            "refs do not carry the line that made them; run with RAY_record_ref_creation_sites=1 and look at `eagleray memory`",
        ))
    }

    fn task_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("eagleray._values.ids")?.getattr("TaskID")?.call1((PyBytes::new(py, &self.id.task().0),))
    }

    fn job_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("eagleray._values.ids")?.getattr("JobID")?.call1((PyBytes::new(py, &self.id.task().job().0),))
    }

    fn __hash__(&self) -> isize {
        let raw = i64::from_le_bytes(self.id.0[0..8].try_into().expect("eight bytes"))
            ^ i64::from(self.id.index()).wrapping_mul(0x9e37_79b9);
        // -1 means an error to Python.
        if raw == -1 { -2 } else { raw as isize }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().id == self.id)
    }

    fn __ne__(&self, other: &Bound<'_, PyAny>) -> bool {
        !self.__eq__(other)
    }

    fn __lt__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.id < other.cast::<Self>().map_err(|_| PyTypeError::new_err("refs compare with refs"))?.get().id)
    }

    fn __repr__(&self) -> String {
        format!("ObjectRef({})", self.id)
    }

    fn __copy__(&self) -> Self {
        let held = self.counted().cloned();
        if let Some((runtime, slot)) = &held {
            runtime.add_handle(*slot);
        }
        Self { id: self.id, held }
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.__copy__()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        let rebuild = REBUILD
            .get_or_try_init(py, || Ok::<_, PyErr>(py.import("eagleray._native")?.getattr("rebuild_ref")?.unbind()))?;
        // A ref of an earlier session means nothing to anyone but itself: only its name goes on.
        let id = PyBytes::new(py, &this.id.0);
        let Some((runtime, slot)) = this.held.as_ref().filter(|(runtime, _)| session::is_current(runtime)) else {
            return (rebuild, (id, u64::MAX)).into_pyobject(py).map(Bound::into_any);
        };
        let owner = runtime.escape(*slot).to_u64();
        if context::named(*slot) {
            return (rebuild, (id, owner)).into_pyobject(py).map(Bound::into_any);
        }
        // Left by plain pickle: nobody can say when the copy goes, so it counts for ever. Nor where it goes: owners are numbered anew in
        // every cluster, and by every node that is alone, so that is named too.
        session::check_out_of_band(py)?;
        runtime.add_handle(*slot);
        (rebuild, (id, owner, PyBytes::new(py, &runtime.realm))).into_pyobject(py).map(Bound::into_any)
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let _inside = Inside::new(slf.py());
        slf.py().import("eagleray._values.awaiting")?.getattr("await_ref")?.call1((slf,))
    }

    /// A `concurrent.futures.Future` that gets this object's value or error.
    fn future<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let _inside = Inside::new(slf.py());
        slf.py().import("eagleray._values.awaiting")?.getattr("future_of")?.call1((slf,))
    }

    fn as_future<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let _inside = Inside::new(slf.py());
        slf.py().import("eagleray._values.awaiting")?.getattr("as_future")?.call1((slf,))
    }

    /// Calls `callback` with this object's value or error as soon as there is one, on another thread.
    fn _on_completed<'py>(slf: &Bound<'py, Self>, callback: Bound<'py, PyAny>) -> PyResult<()> {
        let _inside = Inside::new(slf.py());
        slf.py().import("eagleray._values.awaiting")?.getattr("on_completed")?.call1((slf, callback)).map(drop)
    }

    /// Handles in this process, and pending tasks and containers that use it.
    fn _counts(&self) -> (u32, u32) {
        self.counted().map_or((0, 0), |(runtime, slot)| runtime.counts(*slot))
    }

    #[getter]
    fn _slot(&self) -> Option<u32> {
        self.held.as_ref().map(|(_, slot)| *slot)
    }
}

/// Makes a ref from its pickled form. What plain pickle took from another cluster is a name only.
#[pyfunction]
#[pyo3(signature = (id, owner, realm=None))]
fn rebuild_ref(id: &[u8], owner: u64, realm: Option<&[u8]>) -> PyResult<ObjectRef> {
    let id = ObjectId::from_slice(id).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let is_known = |runtime: &Arc<Runtime>| owner != u64::MAX && realm.is_none_or(|realm| realm == runtime.realm);
    let Some(runtime) = session::current().filter(is_known) else {
        return Ok(ObjectRef { id, held: None });
    };
    let owner = ProcId::from_u64(owner).ok_or_else(|| PyValueError::new_err("a ref without an owner"))?;
    let slot = runtime.borrow_ref(id, owner, 0);
    if !context::made(slot) {
        runtime.claim_share(slot);
    }
    Ok(ObjectRef::holding(&runtime, slot, id))
}

/// Makes refs of what a value lists.
pub(crate) fn rebuild_all(refs: &[(ObjectId, ProcId)]) -> Vec<ObjectRef> {
    let Some(runtime) = session::current() else {
        return refs.iter().map(|(id, _)| ObjectRef { id: *id, held: None }).collect();
    };
    let slots = runtime.borrow_all(refs);
    let held = refs.iter().zip(slots).map(|((id, _), slot)| {
        if !context::made(slot) {
            runtime.claim_share(slot);
        }
        ObjectRef::holding(&runtime, slot, *id)
    });
    held.collect()
}

/// Every object that this process knows: (id in hex, value, bytes, handles, uses, borrowers, whether it is borrowed, whether it stands
/// for an actor). The value is `pending`, `inline`, `stored`, `filed` or `failed`.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a row of a table for one Python caller")]
fn object_table(py: Python<'_>) -> PyResult<Vec<(String, &'static str, u64, u32, u32, u32, bool, bool, Vec<u32>)>> {
    let runtime = session::current_or_start(py)?;
    let me = runtime.me;
    let row = |row: wire::status::ObjectRow| {
        let state = row.state.as_str();
        let is_borrowed = row.owner != me;
        let counts = (row.handles, row.uses, row.borrowers);
        let (id, bytes) = (row.object.to_string(), row.bytes);
        (id, state, bytes, counts.0, counts.1, counts.2, is_borrowed, row.is_actor, row.nodes)
    };
    Ok(runtime.objects().into_iter().map(row).collect())
}

/// Nobody reads the values of these refs from now on.
#[pyfunction]
fn free(py: Python<'_>, refs: Vec<Py<ObjectRef>>) -> PyResult<()> {
    let runtime = session::current_or_start(py)?;
    let slots: Vec<u32> = refs.iter().filter_map(|object| object.get().slot_in(&runtime)).collect();
    runtime.free(&slots);
    Ok(())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(free, module)?)?;
    module.add_function(wrap_pyfunction!(object_table, module)?)?;
    module.add_function(wrap_pyfunction!(rebuild_ref, module)?)
}
