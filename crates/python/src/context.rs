//! What this thread is doing: which task it runs, which references the value it encodes or decodes has named.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use model::{ProcId, Seat, TaskId, Template, Where};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use runtime::ObjectSlot as Slot;

thread_local! {
    /// The task that this thread runs, and the number of the last thing that it made.
    static TASK: Cell<Option<(TaskId, u64)>> = const { Cell::new(None) };
    static NESTING: Cell<u16> = const { Cell::new(0) };
    static ENCODED: RefCell<Option<Vec<Slot>>> = const { RefCell::new(None) };
    static DECODED: RefCell<Option<Vec<Slot>>> = const { RefCell::new(None) };
    static NAME: RefCell<Option<Arc<Template>>> = const { RefCell::new(None) };
    static IS_EXITING: Cell<bool> = const { Cell::new(false) };
}

/// Children of the process's root task.
static ROOT_CHILDREN: AtomicU64 = AtomicU64::new(1);

/// Where the next run of a task begins to number what it makes. A task that runs again makes other things, which must have other names: those
/// of its first run may be held by somebody.
static NEXT_RUN: AtomicU64 = AtomicU64::new(0);
/// Things that one run numbers before it would meet the next one's.
const RUN_THINGS_MAX: u64 = 1 << 24;

/// This process joins a node under this name, which no other process has.
pub(crate) fn joined(me: ProcId) {
    NEXT_RUN.store(me.first_child(), Ordering::Relaxed);
}

/// Where what runs in this process was placed, if that is a placement group. One process runs in one group at a time.
static SEAT: Mutex<Option<Seat>> = Mutex::new(None);
/// Whether there is one: asked at every call.
static HAS_SEAT: AtomicBool = AtomicBool::new(false);

/// In an async actor: the context variable that says which call a coroutine serves.
static COROUTINES_TASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Coroutines run here, and this variable says for which call.
#[pyfunction]
fn serve_coroutines(py: Python<'_>, variable: Py<PyAny>) {
    let _ = COROUTINES_TASK.set(py, variable);
}

/// The id of the next thing that the current task makes, and that task if it runs on this thread.
#[inline]
pub(crate) fn next_child(root: &TaskId) -> (TaskId, Option<TaskId>) {
    TASK.with(|task| match task.get() {
        Some((id, made)) => {
            let next = made.wrapping_add(1);
            task.set(Some((id, next)));
            (id.child(next), Some(id))
        }
        None => (root.child(ROOT_CHILDREN.fetch_add(1, Ordering::Relaxed)), None),
    })
}

/// The call that the running coroutine serves.
pub(crate) fn coroutines_task(py: Python<'_>) -> Option<TaskId> {
    let variable = COROUTINES_TASK.get(py)?;
    let id: Option<String> = variable.call_method0(py, pyo3::intern!(py, "get")).ok()?.extract(py).ok()?;
    TaskId::from_hex(&id?)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(current_names, module)?)?;
    module.add_function(wrap_pyfunction!(serve_coroutines, module)?)
}

/// The task that runs on this thread.
pub(crate) fn current_task() -> Option<TaskId> {
    TASK.with(|task| task.get().map(|(id, _)| id))
}

/// This thread starts a task, or goes back to one.
pub(crate) fn set_task(id: Option<TaskId>) -> Option<TaskId> {
    let begin = |id| (id, NEXT_RUN.fetch_add(RUN_THINGS_MAX, Ordering::Relaxed));
    TASK.with(|task| task.replace(id.map(begin)).map(|(id, _)| id))
}

/// This thread runs a call of this template.
pub(crate) fn set_name(template: &Arc<Template>) {
    NAME.with_borrow_mut(|known| {
        if !known.as_ref().is_some_and(|known| Arc::ptr_eq(known, template)) {
            *known = Some(template.clone());
        }
    });
}

/// The name of the task that runs on this thread; its method, or "" for a function; and the id of its function or class.
#[pyfunction]
fn current_names(py: Python<'_>) -> Option<(String, String, Py<PyBytes>)> {
    current_task()?;
    NAME.with(|known| {
        let known = known.borrow();
        let template = known.as_ref()?;
        let function = PyBytes::new(py, &template.function.0).unbind();
        Some((template.name.to_string(), template.method.to_string(), function))
    })
}

/// How deep in a nest of tasks what this thread submits stands; zero in a driver.
#[inline]
pub(crate) fn nesting() -> u16 {
    NESTING.with(Cell::get)
}

/// This thread runs a task that stands so deep.
pub(crate) fn enter_nest(nesting: u16) {
    NESTING.with(|known| known.set(nesting.saturating_add(1)));
}

/// What runs in this process from now on was placed there.
#[inline]
pub(crate) fn enter_place(at: &Where) {
    let seat = match at {
        Where::Bundle(seat) => Some(*seat),
        Where::Anywhere | Where::Node(_) => None,
    };
    if seat.is_some() || HAS_SEAT.load(Ordering::Relaxed) {
        *SEAT.lock().expect("never poisoned") = seat;
        HAS_SEAT.store(seat.is_some(), Ordering::Relaxed);
    }
}

/// The placement group that this process runs in.
pub(crate) fn seat() -> Option<Seat> {
    if HAS_SEAT.load(Ordering::Relaxed) { *SEAT.lock().expect("never poisoned") } else { None }
}

/// Where what is started here goes if it does not say: into the group it is started from, if that captures its children.
#[inline]
pub(crate) fn inherited() -> Where {
    match seat() {
        Some(seat) if seat.captures => Where::Bundle(Seat { bundle: None, ..seat }),
        _ => Where::Anywhere,
    }
}

/// Whether the call that runs on this thread asked its actor to end; asking lowers the flag.
pub(crate) fn take_exiting() -> bool {
    IS_EXITING.with(|exiting| exiting.replace(false))
}

/// The call that runs on this thread asks its actor to end.
pub(crate) fn set_exiting() {
    IS_EXITING.with(|exiting| exiting.set(true));
}

/// Whether a value is being encoded on this thread, so that references in it are counted.
pub(crate) fn is_encoding() -> bool {
    ENCODED.with(|refs| refs.borrow().is_some())
}

/// Collects the references that `encode` names.
pub(crate) fn encoding<T>(encode: impl FnOnce() -> T) -> (T, Vec<Slot>) {
    let outer = ENCODED.with(|refs| refs.replace(Some(Vec::new())));
    let result = encode();
    let refs = ENCODED.with(|refs| refs.replace(outer)).unwrap_or_default();
    (result, refs)
}

/// A reference was named in a value. False: nobody collects; it leaves by plain pickle.
pub(crate) fn named(slot: Slot) -> bool {
    ENCODED.with(|refs| match &mut *refs.borrow_mut() {
        Some(refs) => {
            refs.push(slot);
            true
        }
        None => false,
    })
}

/// Collects the references that `decode` makes.
pub(crate) fn decoding<T>(decode: impl FnOnce() -> T) -> (T, Vec<Slot>) {
    let outer = DECODED.with(|refs| refs.replace(Some(Vec::new())));
    let result = decode();
    let refs = DECODED.with(|refs| refs.replace(outer)).unwrap_or_default();
    (result, refs)
}

/// A reference came out of a value. False: it came by plain pickle.
pub(crate) fn made(slot: Slot) -> bool {
    DECODED.with(|refs| match &mut *refs.borrow_mut() {
        Some(refs) => {
            refs.push(slot);
            true
        }
        None => false,
    })
}
