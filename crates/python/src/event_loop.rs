//! Calls in the hands of an event loop: an async actor takes them, runs coroutines, and answers when they end.

use std::sync::{Arc, Mutex};

use model::{Failure, Template};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use runtime::{CallHandle, Work};
use wire::frame::Value;

use crate::door::Signals;
use crate::execute::{call_args, callable, reply_body, send_reply};
use crate::{context, door, session, title};

/// A call in the hands of an event loop.
#[pyclass(frozen, module = "eagleray._native")]
pub(crate) struct Call {
    handle: CallHandle,
    template: Arc<Template>,
    came_with: Vec<u32>,
    /// The bound method and its arguments, until it is called: a reference in them that is let go by the time of the answer is not kept.
    bound: Mutex<Option<Invocation>>,
}

struct Invocation {
    function: Py<PyAny>,
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
}

#[pymethods]
impl Call {
    #[getter]
    fn task_id(&self) -> String {
        self.handle.task.to_string()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.template.name
    }

    /// Calls the method; what a coroutine method returns is its coroutine.
    fn invoke<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bound = self.bound.lock().expect("never poisoned").take();
        let Invocation { function, args, kwargs } =
            bound.ok_or_else(|| PyRuntimeError::new_err("this call was made already"))?;
        function.bind(py).call(args.into_bound(py), kwargs.map(|kwargs| kwargs.into_bound(py)).as_ref())
    }

    /// Whether the caller cancelled it.
    fn is_cancelled(&self) -> bool {
        session::current().is_some_and(|runtime| runtime.is_interrupted(&self.handle.task))
    }

    /// Answers with a value.
    fn finish(&self, py: Python<'_>, worker: &Bound<'_, PyAny>, value: Bound<'_, PyAny>) -> PyResult<()> {
        self.answer(py, worker, Ok(value))
    }

    /// Answers with an exception.
    fn fail(&self, py: Python<'_>, worker: &Bound<'_, PyAny>, error: Bound<'_, PyAny>) -> PyResult<()> {
        self.answer(py, worker, Err(PyErr::from_value(error)))
    }

    /// Answers that it was cancelled.
    fn cancelled(&self, py: Python<'_>) -> PyResult<()> {
        let runtime = session::current_or_start(py)?;
        let mut body = 1_u32.to_le_bytes().to_vec();
        Value::write_failure(&Failure::Cancelled, &mut body);
        send_reply(py, &runtime, self.handle, body, &self.came_with);
        Ok(())
    }
}

impl Call {
    fn answer(&self, py: Python<'_>, worker: &Bound<'_, PyAny>, result: PyResult<Bound<'_, PyAny>>) -> PyResult<()> {
        let runtime = session::current_or_start(py)?;
        // Lives until the reply has registered the caller's shares of the references in it.
        let returned = result.as_ref().ok().cloned();
        let body = reply_body(py, &runtime, worker, &self.template, self.handle.task, result)?;
        send_reply(py, &runtime, self.handle, body, &self.came_with);
        drop(returned);
        Ok(())
    }
}

/// For event loops: a `Call`, "exit", "abort", or nothing if there is none right now.
#[pyfunction]
fn try_call<'py>(py: Python<'py>, worker: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let runtime = session::current_or_start(py)?;
    let call = match runtime.try_next_work() {
        None | Some(Work::Build(_)) => return Ok(None),
        Some(Work::Exit(gracefully)) => {
            return Ok(Some(PyString::new(py, if gracefully { "exit" } else { "abort" }).into_any()));
        }
        Some(Work::Call(call)) => call,
    };
    runtime.set_label(&call.template.name);
    title::set(&call.template.name);
    let (decoded, came_with) = context::decoding(|| {
        let function = callable(py, worker, &call.template)?;
        let (args, kwargs) = call_args(py, &runtime, &call)?;
        Ok::<_, PyErr>((function, args, kwargs))
    });
    runtime.came_with(&came_with);
    match decoded {
        Ok((function, args, kwargs)) => {
            let bound =
                Invocation { function: function.unbind(), args: args.unbind(), kwargs: kwargs.map(Bound::unbind) };
            let bound = Mutex::new(Some(bound));
            let call = Call { handle: call.handle, template: call.template, came_with, bound };
            Ok(Some(Bound::new(py, call)?.into_any()))
        }
        Err(error) => {
            let body = reply_body(py, &runtime, worker, &call.template, call.handle.task, Err(error))?;
            send_reply(py, &runtime, call.handle, body, &came_with);
            Ok(None)
        }
    }
}

/// For event loops: waits until a call has come (if it `takes` calls now), an object that loop `number` watches is ready, somebody nudges, or `seconds` pass.
#[pyfunction]
fn wait_loop(py: Python<'_>, number: u64, seconds: Option<f64>, takes: bool) -> PyResult<()> {
    let runtime = session::current_or_start(py)?;
    let deadline = seconds.map(|seconds| net::clock::now_ns() + (seconds.clamp(0.0, 1e6) * 1e9) as u64);
    if runtime.runs_nothing() {
        title::set_idle();
    }
    let mut signals = Signals::default();
    let waited = door::enter(py, || runtime.wait_loop(number, deadline, takes, &mut signals));
    waited.map_err(|error| signals.raise(&error))
}

/// For event loops: whether there is something to do, after a short spin.
#[pyfunction]
fn poll_loop(py: Python<'_>, number: u64, takes: bool) -> PyResult<bool> {
    let runtime = session::current_or_start(py)?;
    let is_due = runtime.poll(|| runtime.is_loop_due(number, takes));
    if is_due {
        runtime.take_nudge();
    }
    Ok(is_due)
}

/// Wakes an event loop that waits in `wait_loop`.
#[pyfunction]
fn nudge() {
    if let Some(runtime) = session::current() {
        runtime.nudge();
    }
}

/// Whether somebody asked for an interrupt since this was last asked.
#[pyfunction]
fn has_interrupts() -> bool {
    session::current().is_some_and(|runtime| {
        let has = runtime.has_interrupts();
        if has {
            runtime.take_interrupts();
        }
        has
    })
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Call>()?;
    module.add_function(wrap_pyfunction!(try_call, module)?)?;
    module.add_function(wrap_pyfunction!(wait_loop, module)?)?;
    module.add_function(wrap_pyfunction!(poll_loop, module)?)?;
    module.add_function(wrap_pyfunction!(nudge, module)?)?;
    module.add_function(wrap_pyfunction!(has_interrupts, module)?)
}
