//! `TrialLogs`: a trial's progress.csv, result.json and TensorBoard events from one look at each result.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tune::logs::{Constant, Error, Options, TrialLogs as Files};

use super::value;
use crate::door;

#[pyclass(frozen, module = "eagleray._native.tune")]
pub(super) struct TrialLogs {
    state: Mutex<State>,
}

struct State {
    /// `None` once closed.
    files: Option<Files>,
    /// What was last given as the constant part of results, and the same, encoded.
    given: Option<Py<PyDict>>,
    constant: Constant,
    line: Vec<u8>,
}

impl TrialLogs {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl TrialLogs {
    #[new]
    #[pyo3(signature = (folder, *, csv, json, tensorboard, fresh = false))]
    fn new(folder: PathBuf, csv: bool, json: bool, tensorboard: bool, fresh: bool) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().replace('/', "_");
        let options = Options { csv, json, tensorboard, is_fresh: fresh, host };
        let files = Some(Files::new(&folder, &options));
        Self { state: Mutex::new(State { files, given: None, constant: Constant::default(), line: Vec::new() }) }
    }

    /// Takes a result; `static` is what is the same in all of them, and must not change while the same dict is given.
    #[pyo3(signature = (result, r#static = None))]
    fn result<'py>(
        &self,
        py: Python<'py>,
        result: &Bound<'py, PyDict>,
        r#static: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let fields = value::dict(result)?;
        let renewed = match r#static {
            Some(given) if !self.lock().given.as_ref().is_some_and(|known| known.is(given)) => {
                Some((given.clone().unbind(), Constant::new(&value::dict(given)?)))
            }
            _ => None,
        };
        let mut state = self.lock();
        let State { files, given, constant, line } = &mut *state;
        if let Some((dict, encoded)) = renewed {
            *given = Some(dict);
            *constant = encoded;
        }
        let none = Constant::default();
        let constant = if r#static.is_some() { &*constant } else { &none };
        if let Some(files) = files {
            line.clear();
            // The result is in memory even if an early flush failed: the next flush tries again, and tells.
            match files.result(&fields, constant, now()) {
                Ok(text) => line.extend_from_slice(text),
                Err(error) => return Err(raised(&error)),
            }
            return Ok(PyBytes::new(py, line));
        }
        Err(pyo3::exceptions::PyValueError::new_err("the trial's log files are closed"))
    }

    /// Notes the trial's parameters for TensorBoard.
    fn hparams(&self, params: &Bound<'_, PyDict>) -> PyResult<()> {
        let params = value::dict(params)?;
        if let Some(files) = &mut self.lock().files {
            files.hparams(&params, now());
        }
        Ok(())
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        door::enter(py, || self.lock().files.as_mut().map_or(Ok(()), Files::flush)).map_err(|error| raised(&error))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let flushed = self.flush(py);
        let files = self.lock().files.take();
        door::enter(py, || drop(files));
        flushed
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn raised(error: &Error) -> PyErr {
    // Python picks the subclass by the number.
    PyOSError::new_err((error.source.raw_os_error(), error.to_string(), error.path.clone()))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TrialLogs>()
}
