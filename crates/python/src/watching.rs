//! What `eagleray._values.awaiting` needs: event loops that are told when objects are ready.

use std::os::fd::BorrowedFd;

use pyo3::prelude::*;

use crate::object_ref::ObjectRef;
use crate::session::{current, need_current};

/// Begins to watch objects for an event loop. `is_remote`: it sleeps at the descriptor.
#[pyfunction]
fn watch_loop(py: Python<'_>, id: u64, event_fd: i32, is_remote: bool) -> PyResult<()> {
    // SAFETY: Python made the descriptor for this and keeps its own.
    let event = unsafe { BorrowedFd::borrow_raw(event_fd) };
    need_current(py)?.watch_loop(id, event.try_clone_to_owned()?, is_remote);
    Ok(())
}

#[pyfunction]
fn unwatch_loop(id: u64) {
    if let Some(runtime) = current() {
        runtime.unwatch_loop(id);
    }
}

/// True: the object is ready already.
#[pyfunction]
fn watch(py: Python<'_>, id: u64, object: &Bound<'_, ObjectRef>) -> PyResult<bool> {
    let runtime = need_current(py)?;
    let Some(slot) = object.get().slot_in(&runtime) else { return Ok(true) };
    runtime.need(std::iter::once(slot));
    Ok(runtime.watch(id, slot))
}

/// The loop does not wait for the object any more.
#[pyfunction]
fn unwatch(id: u64, object: &Bound<'_, ObjectRef>) {
    if let Some(runtime) = current()
        && let Some(slot) = object.get().slot_in(&runtime)
    {
        runtime.unwatch(id, slot);
    }
}

/// What became ready since the last time.
#[pyfunction]
fn take_ready(id: u64) -> Vec<u32> {
    current().map_or_else(Vec::new, |runtime| runtime.take_ready(id))
}

/// What becomes ready within a moment, before the loop sleeps.
#[pyfunction]
fn look(id: u64) -> Vec<u32> {
    current().map_or_else(Vec::new, |runtime| runtime.look_for(id))
}

/// Somebody sleeps at a descriptor from now on.
#[pyfunction]
fn stand_in() {
    if let Some(runtime) = current() {
        runtime.stand_in();
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(watch_loop, module)?)?;
    module.add_function(wrap_pyfunction!(unwatch_loop, module)?)?;
    module.add_function(wrap_pyfunction!(watch, module)?)?;
    module.add_function(wrap_pyfunction!(unwatch, module)?)?;
    module.add_function(wrap_pyfunction!(take_ready, module)?)?;
    module.add_function(wrap_pyfunction!(look, module)?)?;
    module.add_function(wrap_pyfunction!(stand_in, module)?)
}
