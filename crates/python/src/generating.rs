//! HOT: runs a generator in a worker. Each value goes to the caller as it is yielded; then the generator goes on, or waits for its reader.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::{ObjectId, Template, Yields};
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use runtime::{CallHandle, Content, Demand, IncomingCall, Runtime};
use wire::frame::Value;

use crate::door::Signals;
use crate::emitting::Current;
use crate::execute::{self, IS_RUNNING};
use crate::object_ref::ObjectRef;
use crate::{door, encode, errors};

/// A task's first object is its end; what it yields are the following ones.
const FIRST_INDEX: u32 = 2;

/// The user's code runs on this thread while this lives.
pub(crate) struct Running;

impl Running {
    #[inline]
    pub(crate) fn start() -> Self {
        IS_RUNNING.store(true, Ordering::SeqCst);
        Self
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        IS_RUNNING.store(false, Ordering::SeqCst);
    }
}

/// The call that a generator answers.
pub(crate) struct Generating<'a> {
    pub(crate) runtime: &'a Arc<Runtime>,
    pub(crate) handle: CallHandle,
    pub(crate) template: &'a Template,
    /// How many values it has yielded.
    pub(crate) yielded: u32,
}

impl Generating<'_> {
    /// Runs the generator to its end. What it raises comes back as an error, after everything that it yielded before.
    pub(crate) fn run(&mut self, generator: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = generator.py();
        if !generator.hasattr(pyo3::intern!(py, "__next__"))? {
            let name = &self.template.name;
            let kind = if self.template.yields == Yields::List { "dynamic" } else { "streaming" };
            let text = format!("num_returns='{kind}' needs a generator, but {name} returned {generator}");
            return Err(PyValueError::new_err(text));
        }
        let mut body = Vec::with_capacity(256);
        let mut values = generator.try_iter()?;
        loop {
            let running = Running::start();
            let next = values.next();
            drop(running);
            let Some(value) = next else { return Ok(()) };
            self.send(&value?, &mut body)?;
            self.go_on(py)?;
        }
    }

    /// Sends one value. `body` is room to work in.
    pub(crate) fn send(&mut self, value: &Bound<'_, PyAny>, body: &mut Vec<u8>) -> PyResult<()> {
        let encoded = encode::encode(self.runtime, value)
            .map_err(|error| errors::unserializable(value, error, "yielded value", &self.template.name))?;
        body.clear();
        match encoded.content {
            Content::Inline(bytes) => Value::Inline(&bytes).write(body),
            Content::Bulk(bulk) => Value::Bulk(bulk).write(body),
        }
        self.send_body(value.py(), body)
    }

    fn send_body(&mut self, py: Python<'_>, body: &[u8]) -> PyResult<()> {
        // References in the value are held by the value itself, until the caller's shares are registered.
        if let Err(unsent) = self.runtime.item(self.handle, body) {
            door::enter(py, || self.runtime.item_slowly(self.handle, body, unsent))
                .map_err(|error| errors::from_runtime(&error))?;
        }
        self.yielded += 1;
        Ok(())
    }

    /// Whether the generator goes on now.
    pub(crate) fn demand(&self) -> Demand {
        self.runtime.demand(&self.handle, self.template.yields, self.yielded)
    }

    /// Waits until the generator may go on.
    #[inline]
    pub(crate) fn go_on(&self, py: Python<'_>) -> PyResult<()> {
        match self.demand() {
            Demand::Wanted => Ok(()),
            Demand::Full => self.wait(py),
            ended => Err(ending(ended)),
        }
    }

    #[cold]
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        if self.runtime.poll(|| self.demand() != Demand::Full) {
            return self.go_on(py);
        }
        let mut signals = Signals::default();
        let (handle, yields) = (&self.handle, self.template.yields);
        let demand = door::enter(py, || self.runtime.await_demand(handle, yields, self.yielded, &mut signals));
        match demand.map_err(|error| signals.raise(&error))? {
            Demand::Wanted | Demand::Full => Ok(()),
            ended => Err(ending(ended)),
        }
    }

    /// What a call returns whose return value names everything that it has yielded. `error`: what it raised, which is the last of them.
    pub(crate) fn list<'py>(
        &mut self,
        worker: &Bound<'py, PyAny>,
        error: Option<PyErr>,
        came_with: &mut Vec<u32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = worker.py();
        if let Some(error) = error {
            if error.is_instance_of::<PySystemExit>(py) || error.is_instance_of::<PyKeyboardInterrupt>(py) {
                return Err(error);
            }
            let mut body = Vec::new();
            let held = execute::write_raised(self.runtime, worker, self.template, error, &mut body)?;
            self.send_body(py, &body)?;
            drop(held);
        }
        let refs = PyList::empty(py);
        let mut slots = Vec::with_capacity(self.yielded as usize);
        for index in 0..self.yielded {
            let id = ObjectId::of(self.handle.task, FIRST_INDEX + index);
            let slot = self.runtime.borrow_item(id, self.handle.peer);
            slots.push(slot);
            refs.append(Bound::new(py, ObjectRef::holding(self.runtime, slot, id))?)?;
        }
        // The caller holds them until the reply, as it does what came with the call.
        self.runtime.came_with(&slots);
        came_with.extend(slots);
        py.import("eagleray._values.generators")?.getattr("DynamicObjectRefGenerator")?.call1((refs,))
    }
}

/// Runs a generator to its end. Returns what the call returns beside the values that went out.
pub(crate) fn generate<'py>(
    runtime: &Arc<Runtime>,
    worker: &Bound<'py, PyAny>,
    call: &IncomingCall,
    generator: Bound<'py, PyAny>,
    came_with: &mut Vec<u32>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = worker.py();
    let _current = Current::set(call.handle, &call.template);
    let mut generating = Generating { runtime, handle: call.handle, template: &call.template, yielded: 0 };
    let ended = generating.run(&generator);
    match call.template.yields {
        Yields::List => generating.list(worker, ended.err(), came_with),
        _ => ended.map(|()| py.None().into_bound(py)),
    }
}

/// What ends a generator from outside. It is closed when it is let go.
pub(crate) fn ending(demand: Demand) -> PyErr {
    match demand {
        Demand::Orphaned => {
            PyValueError::new_err("nobody reads what this generator yields: the process that called it is dead")
        }
        _ => PyKeyboardInterrupt::new_err(()),
    }
}

/// The first values of a generator, one for each return. Fewer than that, or an error, fail only those that are missing.
pub(crate) fn encode_first<'py>(
    runtime: &Arc<Runtime>,
    worker: &Bound<'py, PyAny>,
    template: &Template,
    generator: &Bound<'py, PyAny>,
    body: &mut Vec<u8>,
    held: &mut Vec<Bound<'py, PyAny>>,
) -> PyResult<()> {
    let py = generator.py();
    let count = template.returns;
    body.extend_from_slice(&count.to_le_bytes());
    let mut values = generator.try_iter()?;
    for index in 0..count {
        let running = Running::start();
        let next = values.next();
        drop(running);
        let error = match next {
            Some(Ok(value)) => {
                let encoded = execute::encode_return(runtime, template, &value, body);
                held.push(value);
                match encoded {
                    Ok(()) => continue,
                    Err(error) => error,
                }
            }
            Some(Err(error)) => error,
            None => PyValueError::new_err(format!("Task returned {index} objects, but num_returns={count}.")),
        };
        if error.is_instance_of::<PySystemExit>(py) || error.is_instance_of::<PyKeyboardInterrupt>(py) {
            return Err(error);
        }
        let mut raised = Vec::new();
        held.extend(execute::write_raised(runtime, worker, template, error, &mut raised)?);
        (index..count).for_each(|_| body.extend_from_slice(&raised));
        break;
    }
    Ok(())
}

/// Whether what a function returned is to be taken apart: a generator, of a call that wants a number of its values.
pub(crate) fn is_taken_apart(template: &Template, value: &Bound<'_, PyAny>) -> bool {
    template.returns > 0 && template.yields == Yields::Nothing && is_generator(value)
}

fn is_generator(value: &Bound<'_, PyAny>) -> bool {
    // SAFETY: looks at the object's type only.
    unsafe { pyo3::ffi::PyGen_CheckExact(value.as_ptr()) != 0 }
}
