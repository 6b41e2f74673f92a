//! Errors of the engine as the exceptions that users know. The classes are Python's; they are looked up when first needed.

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::ending::Inside;

static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
static TRANSLATE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn exceptions(py: Python<'_>) -> PyResult<&Py<PyModule>> {
    CLASSES.get_or_try_init(py, || Ok(py.import("eagleray.exceptions")?.unbind()))
}

/// An exception of `eagleray.exceptions` by name.
pub(crate) fn named(py: Python<'_>, class: &str, text: impl AsRef<str>) -> PyErr {
    let _inside = Inside::new(py);
    let made = exceptions(py).and_then(|module| module.bind(py).getattr(class)?.call1((text.as_ref(),)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

#[expect(clippy::disallowed_methods, reason = "errors are made where the lock may not be held")]
pub(crate) fn from_runtime(error: &runtime::Error) -> PyErr {
    Python::attach(|py| match error {
        runtime::Error::Refused(why) => PyRuntimeError::new_err(why.clone()),
        runtime::Error::Closed => closed(py),
        runtime::Error::StoreFull(why) => named(py, "ObjectStoreFullError", why),
        runtime::Error::DiskFull(why) => named(py, "OutOfDiskError", why),
        runtime::Error::TimedOut(what) => named(py, "GetTimeoutError", what),
        runtime::Error::Interrupted => pyo3::exceptions::PyKeyboardInterrupt::new_err(()),
        runtime::Error::NameTaken { name, namespace } => named(
            py,
            "ActorAlreadyExistsError",
            format!(
                "The name {name} (namespace={namespace}) is already taken by another actor. Please use a different name or get the \
                 existing actor using ray.get_actor('{name}', namespace='{namespace}')"
            ),
        ),
        runtime::Error::TooManyPending { actor, call, pending, limit } => named(
            py,
            "PendingCallsLimitExceeded",
            format!(
                "{call} was not called: the actor {actor} has {pending} pending calls of this process, and its option \
                 max_pending_calls={limit} allows no more. Wait for some of them first, or raise the option."
            ),
        ),
        runtime::Error::Os { .. } => PyRuntimeError::new_err(error.to_string()),
    })
}

fn closed(py: Python<'_>) -> PyErr {
    let _inside = Inside::new(py);
    match py.import("eagleray._errors.failures").and_then(|module| module.getattr("closed")?.call0()) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Python's `eagleray._errors.failures.to_exception` turns a failure into what `get` raises.
pub(crate) fn from_failure(py: Python<'_>, failure: &model::Failure, object: &model::ObjectId) -> PyErr {
    let _inside = Inside::new(py);
    let made = TRANSLATE
        .get_or_try_init(py, || Ok(py.import("eagleray._errors.failures")?.getattr("to_exception")?.unbind()))
        .and_then(|translate: &Py<PyAny>| {
            let described = describe(py, failure)?;
            described.set_item("task_id", object.task().to_string())?;
            described.set_item("object_id", object.to_string())?;
            translate.bind(py).call1((described,))
        });
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// The error for a value that cannot be pickled: names it, whose it is, and which part of it is the culprit. An error that is not
/// about pickling stays as it is.
#[cold]
pub(crate) fn unserializable(value: &Bound<'_, PyAny>, error: PyErr, what: &str, whose: &str) -> PyErr {
    let py = value.py();
    let _inside = Inside::new(py);
    // References that the search meets go nowhere.
    let (explained, _) = crate::context::encoding(|| {
        let module = py.import("eagleray._errors.serialization_trace")?;
        module.getattr("explained")?.call1((what, whose, value, error.value(py)))
    });
    explained.map_or_else(|failed| failed, PyErr::from_value)
}

/// The error for a value of which no object can be made here: its class is missing, or its own code raised.
#[cold]
pub(crate) fn undecodable(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyException>(py) {
        // Ctrl-C, or an exit.
        return error;
    }
    let _inside = Inside::new(py);
    let made = py
        .import("eagleray._errors.failures")
        .and_then(|module| module.call_method1("undecodable", (error.into_value(py),)));
    made.map_or_else(|failed| failed, PyErr::from_value)
}

/// How a process ended, what is left of it and its Python stack, for `eagleray._errors.failures`.
fn describe_exit(dict: &Bound<'_, PyDict>, exit: &model::WorkerExit) -> PyResult<()> {
    dict.set_item("text", exit.to_string())?;
    let Some(remains) = exit.remains() else { return Ok(()) };
    dict.set_item("pid", remains.pid)?;
    dict.set_item("has_output", remains.has_output)?;
    dict.set_item("stack", &*remains.stack)
}

/// A failure as a dict: `kind` and what belongs to it.
fn describe<'py>(py: Python<'py>, failure: &model::Failure) -> PyResult<Bound<'py, PyDict>> {
    use model::{ActorDeath, Failure, WorkerExit};
    let dict = PyDict::new(py);
    let error_value = |bytes: &[u8]| crate::decode::error_value(py, bytes);
    match failure {
        Failure::Raised(error) | Failure::Retryable(error) => {
            dict.set_item("kind", "raised")?;
            dict.set_item("error", error_value(error)?)?;
        }
        Failure::Argument { task, cause } => {
            dict.set_item("kind", "argument")?;
            dict.set_item("task", &**task)?;
            dict.set_item("cause", describe(py, cause)?)?;
        }
        Failure::WorkerDied(WorkerExit::OutOfMemory { report, .. }) => {
            dict.set_item("kind", "out_of_memory")?;
            dict.set_item("text", &**report)?;
        }
        Failure::WorkerDied(WorkerExit::NodeDied(which)) => {
            dict.set_item("kind", "its_node_died")?;
            dict.set_item("text", &**which)?;
        }
        Failure::WorkerDied(exit) => {
            dict.set_item("kind", "worker_died")?;
            describe_exit(&dict, exit)?;
        }
        Failure::Cancelled => dict.set_item("kind", "cancelled")?,
        Failure::ActorDied(actor, death) => {
            dict.set_item("kind", "actor_died")?;
            dict.set_item("actor_id", actor.to_string())?;
            match death {
                ActorDeath::Killed => dict.set_item("death", "killed")?,
                ActorDeath::Exited => dict.set_item("death", "exited")?,
                ActorDeath::Crashed(WorkerExit::OutOfMemory { report, .. }) => {
                    dict.set_item("death", "out_of_memory")?;
                    dict.set_item("text", &**report)?;
                }
                ActorDeath::Crashed(WorkerExit::NodeDied(which)) => {
                    dict.set_item("death", "its_node_died")?;
                    dict.set_item("text", &**which)?;
                }
                ActorDeath::Crashed(exit) => {
                    dict.set_item("death", "crashed")?;
                    describe_exit(&dict, exit)?;
                }
                ActorDeath::InitFailed(error) => {
                    dict.set_item("death", "init_failed")?;
                    dict.set_item("error", error_value(error)?)?;
                }
                ActorDeath::OwnerDied => dict.set_item("death", "owner_died")?,
                ActorDeath::OutOfScope => dict.set_item("death", "out_of_scope")?,
                ActorDeath::NeverExisted => dict.set_item("death", "never_existed")?,
                ActorDeath::NodeDied => dict.set_item("death", "node_died")?,
                ActorDeath::GroupRemoved { was_placed: true } => dict.set_item("death", "group_removed")?,
                ActorDeath::GroupRemoved { was_placed: false } => dict.set_item("death", "group_removed_early")?,
                ActorDeath::Unschedulable(why) => {
                    dict.set_item("death", "unschedulable")?;
                    dict.set_item("text", &**why)?;
                }
            }
        }
        Failure::ActorUnavailable { actor, may_have_run } => {
            dict.set_item("kind", "actor_unavailable")?;
            dict.set_item("actor_id", actor.to_string())?;
            dict.set_item("may_have_run", may_have_run)?;
        }
        Failure::OwnerDied => dict.set_item("kind", "owner_died")?,
        Failure::Freed => dict.set_item("kind", "freed")?,
        Failure::NodeDied => dict.set_item("kind", "node_died")?,
        Failure::Replay { produced, expected } => {
            dict.set_item("kind", "replay")?;
            dict.set_item("produced", produced)?;
            dict.set_item("expected", expected)?;
        }
        Failure::GroupRemoved => dict.set_item("kind", "group_removed")?,
        Failure::Unschedulable(why) => {
            dict.set_item("kind", "unschedulable")?;
            dict.set_item("text", &**why)?;
        }
        Failure::StoreFull(why) => {
            dict.set_item("kind", "store_full")?;
            dict.set_item("text", &**why)?;
        }
        Failure::Lost(why) | Failure::ArgumentLost(why) => {
            dict.set_item("kind", "lost")?;
            dict.set_item("text", &**why)?;
        }
    }
    Ok(dict)
}

pub(crate) fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
