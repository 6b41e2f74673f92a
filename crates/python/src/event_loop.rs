//! Calls in the hands of an event loop: an async actor takes them, runs coroutines, and answers when they end.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use model::{Template, Yields};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use runtime::{CallHandle, Demand, EventLoop, Runtime, Work};

use crate::door::Signals;
use crate::execute::{callable, cancelled_body, reply_body, send_reply, write_raised};
use crate::generating::{self, Generating};
use crate::{arguments, context, door, errors, session, title};

/// A call in the hands of an event loop.
#[pyclass(frozen, module = "eagleray._native")]
pub(crate) struct Call {
    handle: CallHandle,
    template: Arc<Template>,
    came_with: Mutex<Vec<u32>>,
    /// Of a generator: how many values it has yielded.
    yielded: AtomicU32,
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

    #[getter]
    fn method(&self) -> &str {
        &self.template.method
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
    fn finish<'py>(&self, py: Python<'py>, worker: &Bound<'py, PyAny>, value: Bound<'py, PyAny>) -> PyResult<()> {
        self.answer(py, worker, Ok(value))
    }

    /// Answers with an exception.
    fn fail<'py>(&self, py: Python<'py>, worker: &Bound<'py, PyAny>, error: Bound<'py, PyAny>) -> PyResult<()> {
        self.answer(py, worker, Err(PyErr::from_value(error)))
    }

    /// Answers that it was cancelled before it began.
    fn cancelled(&self, py: Python<'_>) -> PyResult<()> {
        let runtime = session::current_or_start(py)?;
        send_reply(py, &runtime, self.handle, cancelled_body(), &self.came_with());
        Ok(())
    }

    /// Answers that it was cancelled while it ran, whatever its coroutine made of that. Its caller may take that for an error of the call.
    fn interrupted<'py>(&self, py: Python<'py>, worker: &Bound<'py, PyAny>) -> PyResult<()> {
        if self.template.yields != Yields::Nothing {
            return self.cancelled(py);
        }
        let runtime = session::current_or_start(py)?;
        let error = errors::named(py, "TaskCancelledError", self.handle.task.to_string());
        let mut body = 1_u32.to_le_bytes().to_vec();
        write_raised(&runtime, worker, &self.template, error, &mut body)?;
        send_reply(py, &runtime, self.handle, body, &self.came_with());
        Ok(())
    }

    /// How its values go out: "" all with its end, "streaming" or "dynamic" one by one.
    #[getter]
    fn yields(&self) -> &'static str {
        match self.template.yields {
            Yields::Nothing => "",
            Yields::Stream { .. } => "streaming",
            Yields::List => "dynamic",
        }
    }

    /// How many values it returns.
    #[getter]
    fn returns(&self) -> u32 {
        self.template.returns
    }

    /// Sends one value that it yields. Returns whether it may go on.
    fn send_item(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let runtime = session::current_or_start(py)?;
        self.generating(&runtime).send(value, &mut Vec::new())?;
        self.yielded.fetch_add(1, Ordering::Relaxed);
        self.may_go_on(py)
    }

    /// Whether it may go on, or its reader is too far behind. Raises if it has to end.
    fn may_go_on(&self, py: Python<'_>) -> PyResult<bool> {
        let runtime = session::current_or_start(py)?;
        match self.generating(&runtime).demand() {
            Demand::Wanted => Ok(true),
            Demand::Full => Ok(false),
            ended => Err(generating::ending(ended)),
        }
    }

    /// Whether its reader is too far behind.
    fn must_wait(&self) -> bool {
        session::current().is_some_and(|runtime| self.generating(&runtime).demand() == Demand::Full)
    }

    /// Makes what a "dynamic" call returns: it names everything that was sent, and last what was raised.
    fn list<'py>(
        &self,
        py: Python<'py>,
        worker: &Bound<'py, PyAny>,
        error: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let runtime = session::current_or_start(py)?;
        let mut came_with = self.came_with.lock().expect("never poisoned");
        self.generating(&runtime).list(worker, error.map(PyErr::from_value), &mut came_with)
    }
}

impl Call {
    fn answer<'py>(
        &self,
        py: Python<'py>,
        worker: &Bound<'py, PyAny>,
        result: PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let runtime = session::current_or_start(py)?;
        // Lives until the reply has registered the caller's shares of the references in it.
        let mut returned: Vec<_> = result.as_ref().ok().cloned().into_iter().collect();
        let Some(body) = reply_body(&runtime, worker, &self.template, self.handle.task, result, &mut returned)? else {
            return self.interrupted(py, worker);
        };
        send_reply(py, &runtime, self.handle, body, &self.came_with());
        drop(returned);
        Ok(())
    }

    fn came_with(&self) -> Vec<u32> {
        self.came_with.lock().expect("never poisoned").clone()
    }

    fn generating<'a>(&'a self, runtime: &'a Arc<Runtime>) -> Generating<'a> {
        let yielded = self.yielded.load(Ordering::Relaxed);
        Generating { runtime, handle: self.handle, template: &self.template, yielded }
    }
}

/// What one event loop of this process waits for.
#[pyclass(frozen, module = "eagleray._native")]
pub(crate) struct LoopCore {
    inner: EventLoop,
}

#[pymethods]
impl LoopCore {
    /// `group`: of the actor's methods, whose calls the loop runs.
    #[new]
    fn new(group: u16) -> Self {
        Self { inner: EventLoop::new(group) }
    }

    /// A `Call`, "exit", "abort", or nothing if there is none right now.
    fn try_call<'py>(&self, py: Python<'py>, worker: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let runtime = session::current_or_start(py)?;
        let call = match runtime.try_next_work(self.inner.group, true) {
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
            let (args, kwargs) = arguments::of_call(py, &runtime, &call)?;
            Ok::<_, PyErr>((function, args, kwargs))
        });
        runtime.came_with(&came_with);
        match decoded {
            Ok((function, args, kwargs)) => {
                let bound =
                    Invocation { function: function.unbind(), args: args.unbind(), kwargs: kwargs.map(Bound::unbind) };
                let bound = Mutex::new(Some(bound));
                let came_with = Mutex::new(came_with);
                let call =
                    Call { handle: call.handle, template: call.template, came_with, yielded: AtomicU32::new(0), bound };
                Ok(Some(Bound::new(py, call)?.into_any()))
            }
            Err(error) => {
                let mut held = Vec::new();
                let body = reply_body(&runtime, worker, &call.template, call.handle.task, Err(error), &mut held)?
                    .unwrap_or_else(cancelled_body);
                send_reply(py, &runtime, call.handle, body, &came_with);
                Ok(None)
            }
        }
    }

    /// Whether there is something to do, after a short spin: a call (if the loop `takes` calls now), an object that the loop watches
    /// under this number, a nudge.
    fn poll(&self, py: Python<'_>, number: u64, takes: bool) -> PyResult<bool> {
        let runtime = session::current_or_start(py)?;
        self.inner.watch.store(number, Ordering::Relaxed);
        self.inner.takes.store(takes, Ordering::SeqCst);
        let is_due = runtime.poll(|| runtime.is_loop_due(&self.inner));
        if is_due {
            self.inner.take_nudge(&runtime);
        }
        Ok(is_due)
    }

    /// Waits for what `poll` was last asked for, or until `seconds` pass.
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<()> {
        let runtime = session::current_or_start(py)?;
        let deadline = seconds.map(|seconds| net::clock::now_ns() + (seconds.clamp(0.0, 1e6) * 1e9) as u64);
        if runtime.runs_nothing() {
            title::set_idle();
        }
        let mut signals = Signals::default();
        let waited = door::enter(py, || runtime.wait_loop(&self.inner, deadline, &mut signals));
        waited.map_err(|error| signals.raise(&error))
    }

    /// Wakes the loop out of `wait`.
    fn nudge(&self) {
        if let Some(runtime) = session::current() {
            runtime.nudge(&self.inner);
        }
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
    module.add_class::<LoopCore>()?;
    module.add_function(wrap_pyfunction!(has_interrupts, module)?)
}
