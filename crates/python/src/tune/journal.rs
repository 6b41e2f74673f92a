//! `Journal`, `read_journal` and `repair_journal`: the file that an experiment is resumed from.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};
use tune::journal::{self, Contents, Error, Frame, Writer, kind};

use super::value;
use crate::door;

/// A byte holds the length.
const NAME_BYTES_MAX: usize = 255;

#[pyclass(frozen, module = "eagleray._native.tune")]
pub(super) struct Journal {
    writer: Mutex<Writer>,
}

impl Journal {
    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files may be slow: others run meanwhile.
    fn at_the_file(&self, py: Python<'_>, work: impl FnOnce(&mut Writer) -> Result<(), Error> + Send) -> PyResult<()> {
        door::enter(py, || work(&mut self.lock())).map_err(|error| raised(py, error))
    }
}

#[pymethods]
impl Journal {
    #[new]
    #[pyo3(signature = (path, *, create = true))]
    fn new(py: Python<'_>, path: PathBuf, create: bool) -> PyResult<Self> {
        let writer = door::enter(py, || Writer::open(&path, create)).map_err(|error| raised(py, error))?;
        Ok(Self { writer: Mutex::new(writer) })
    }

    fn append(&self, py: Python<'_>, kind: &Bound<'_, PyAny>, fields: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut json = Vec::new();
        tune::logs::json::write_dict(&value::dict(fields)?, &mut json);
        let appended = if let Ok(number) = kind.cast::<PyInt>() {
            let number: u8 = number.extract()?;
            if number < kind::OWN {
                return Err(PyValueError::new_err(format!("kinds below {} have names; give the name", kind::OWN)));
            }
            self.lock().append(number, &json)
        } else {
            let name: &Bound<'_, PyString> = kind.cast()?;
            if name == kind::name(kind::RESULT).unwrap_or_default() {
                return Err(PyValueError::new_err("a result is appended by append_result(trial, json)"));
            }
            let name = name.to_str()?;
            if name.len() > NAME_BYTES_MAX {
                return Err(PyValueError::new_err(format!("the name of a kind has at most {NAME_BYTES_MAX} bytes")));
            }
            self.lock().append_named(name, &json)
        };
        appended.map_err(|error| raised(py, error))
    }

    fn append_result(&self, py: Python<'_>, trial: u32, json: &[u8]) -> PyResult<()> {
        self.lock().append_result(trial, json).map_err(|error| raised(py, error))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.at_the_file(py, Writer::flush)
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.at_the_file(py, Writer::sync)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.at_the_file(py, Writer::close)
    }

    /// What is in the file, for the one who has just opened it.
    fn events(&self, py: Python<'_>) -> PyResult<JournalReader> {
        let contents = door::enter(py, || self.lock().read()).map_err(|error| raised(py, error))?;
        Ok(JournalReader { contents, next: Mutex::new(0) })
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.lock().path().to_path_buf()
    }

    #[getter]
    fn torn_bytes(&self) -> u64 {
        self.lock().torn_bytes()
    }

    #[getter]
    fn size(&self) -> u64 {
        self.lock().size()
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

/// The events of a journal, one after the other.
#[pyclass(frozen, module = "eagleray._native.tune")]
pub(super) struct JournalReader {
    contents: Contents,
    next: Mutex<usize>,
}

#[pymethods]
impl JournalReader {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let index = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next - 1
        };
        self.contents.get(index).map(|frame| event(py, &frame)).transpose()
    }

    fn __len__(&self) -> usize {
        self.contents.len()
    }

    #[getter]
    fn torn_bytes(&self) -> u64 {
        self.contents.torn_bytes
    }

    #[getter]
    fn writer_pid(&self) -> Option<u32> {
        self.contents.writer()
    }

    #[getter]
    fn damaged_at(&self) -> Option<u64> {
        self.contents.damage
    }
}

#[pyfunction]
#[pyo3(signature = (path, *, until_damage = false))]
fn read_journal(py: Python<'_>, path: PathBuf, until_damage: bool) -> PyResult<JournalReader> {
    let read = if until_damage { journal::read_until_damage } else { journal::read };
    let contents = door::enter(py, || read(&path)).map_err(|error| raised(py, error))?;
    Ok(JournalReader { contents, next: Mutex::new(0) })
}

/// Where the journal was cut, how many events are left, how many went, how many bytes, and the copy's path.
type Repaired = (u64, usize, usize, u64, PathBuf);

/// Cuts a damaged journal at the damage; None if there is none.
#[pyfunction]
fn repair_journal(py: Python<'_>, path: PathBuf) -> PyResult<Option<Repaired>> {
    let repair = door::enter(py, || journal::repair(&path)).map_err(|error| raised(py, error))?;
    Ok(repair.map(|done| (done.offset, done.kept, done.dropped, done.bytes, done.backup)))
}

/// `(kind, fields)`, or `(kind, trial, fields)` of a result.
fn event<'py>(py: Python<'py>, frame: &Frame<'_>) -> PyResult<Bound<'py, PyTuple>> {
    if let Some((trial, json)) = frame.result() {
        return (kind::name(kind::RESULT), trial, parsed(py, json)?).into_pyobject(py);
    }
    if let Some((name, json)) = frame.named() {
        return (name, parsed(py, json)?).into_pyobject(py);
    }
    let fields = parsed(py, frame.payload)?;
    match kind::name(frame.kind) {
        Some(name) => (name, fields).into_pyobject(py),
        None => (frame.kind, fields).into_pyobject(py),
    }
}

fn parsed<'py>(py: Python<'py>, json: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let loads = LOADS.get_or_try_init(py, || PyResult::Ok(py.import("json")?.getattr("loads")?.unbind()))?;
    loads.bind(py).call1((PyString::from_bytes(py, json)?,))
}

/// The classes are Python's; a file that is not there is told as everywhere in Python.
fn raised(py: Python<'_>, error: Error) -> PyErr {
    let text = error.to_string();
    let made = match error {
        Error::Os { source, path, .. } if source.kind() == io::ErrorKind::NotFound => {
            return PyFileNotFoundError::new_err((source.raw_os_error(), "no journal of an experiment", path));
        }
        Error::Locked { path, pid } => class(py, "JournalLocked").and_then(|class| class.call1((text, path, pid))),
        Error::Damaged { path, offset, .. } => {
            class(py, "JournalDamaged").and_then(|class| class.call1((text, path, offset)))
        }
        Error::Os { source, path, .. } => {
            let told = class(py, "JournalError").and_then(|class| class.call1((text, path)));
            return told.map_or_else(
                |failed| failed,
                |told| {
                    let told = PyErr::from_value(told);
                    told.set_cause(py, Some(PyOSError::new_err((source.raw_os_error(), source.to_string()))));
                    told
                },
            );
        }
        Error::NotAJournal(path) | Error::Version { path, .. } | Error::Closed(path) => {
            class(py, "JournalError").and_then(|class| class.call1((text, path)))
        }
        Error::TooLarge { .. } => class(py, "JournalError").and_then(|class| class.call1((text,))),
    };
    made.map_or_else(|failed| failed, PyErr::from_value)
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("eagleray.tune.error")?.getattr(name)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Journal>()?;
    module.add_class::<JournalReader>()?;
    module.add_function(wrap_pyfunction!(read_journal, module)?)?;
    module.add_function(wrap_pyfunction!(repair_journal, module)?)
}
