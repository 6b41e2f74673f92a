//! Values that a generator's call sends from inside of whatever it calls, instead of yielding them. `tune.report` is this.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use model::Template;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use runtime::{CallHandle, Runtime};

use crate::generating::Generating;
use crate::session;

thread_local! {
    /// The generator's call that runs on this thread.
    static CURRENT: RefCell<Option<(CallHandle, Arc<Template>)>> = const { RefCell::new(None) };
}

/// A generator's call runs on this thread while this lives.
pub(crate) struct Current;

impl Current {
    pub(crate) fn set(handle: CallHandle, template: &Arc<Template>) -> Self {
        CURRENT.set(Some((handle, template.clone())));
        Self
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// Sends values to who reads a generator's call, from any thread while the call runs.
#[pyclass(frozen, module = "eagleray._native")]
pub(crate) struct Emitter {
    runtime: Arc<Runtime>,
    handle: CallHandle,
    template: Arc<Template>,
    sent: AtomicU32,
}

#[pymethods]
impl Emitter {
    /// Sends one value and waits as the generator's options say. False: nobody reads any more.
    fn send(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let yielded = self.sent.fetch_add(1, Ordering::Relaxed);
        let (runtime, handle) = (&self.runtime, self.handle);
        let mut generating = Generating { runtime, handle, template: &self.template, yielded };
        generating.send(value, &mut Vec::with_capacity(512))?;
        generating.go_on(value.py())?;
        Ok(self.is_read())
    }

    /// Whether somebody reads what is sent.
    fn is_read(&self) -> bool {
        self.runtime.is_read(&self.handle)
    }
}

/// The emitter of the generator's call that runs on this thread.
#[pyfunction]
fn emitter(py: Python<'_>) -> PyResult<Emitter> {
    let runtime = session::current_or_start(py)?;
    let Some((handle, template)) = CURRENT.with_borrow(Clone::clone) else {
        return Err(PyRuntimeError::new_err("no generator's call runs on this thread"));
    };
    Ok(Emitter { runtime, handle, template, sent: AtomicU32::new(0) })
}

/// All generators of this actor together may be so many values ahead of who reads them; zero: any number.
#[pyfunction]
fn bound_generators(py: Python<'_>, most: u32) -> PyResult<()> {
    crate::session::current_or_start(py)?.set_actor_ahead_max(most);
    Ok(())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Emitter>()?;
    module.add_function(wrap_pyfunction!(bound_generators, module)?)?;
    module.add_function(wrap_pyfunction!(emitter, module)?)
}
