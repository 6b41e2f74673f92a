//! `Summary`: what is kept of a trial's metrics, so that no result costs Python a loop.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use tune::summary::Stat;

/// Numbers of a result that are no metrics.
const COUNTERS: [&str; 3] = ["timestamp", "pid", "done"];
/// Results nest no deeper than this, or what is below is not looked at.
const DEPTH_MAX: usize = 16;

#[pyclass(frozen, module = "eagleray._native.tune")]
#[derive(Default)]
pub(super) struct Summary {
    inner: Mutex<tune::summary::Summary>,
}

#[pymethods]
impl Summary {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// A trial has reported.
    fn note(&self, metrics: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut inner, metrics, "", DEPTH_MAX)
    }

    /// Largest, smallest, average and last value of a metric.
    fn get<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        let stat = self.inner.lock().unwrap_or_else(PoisonError::into_inner).get(name);
        stat.map(|stat| as_dict(py, &stat)).transpose()
    }

    /// The same of all metrics, by name.
    fn all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, stat) in inner.iter() {
            all.set_item(name, as_dict(py, stat)?)?;
        }
        Ok(all)
    }
}

fn as_dict<'py>(py: Python<'py>, stat: &Stat) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in [("max", stat.max), ("min", stat.min), ("avg", stat.avg), ("last", stat.last)] {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

fn note(
    summary: &mut tune::summary::Summary,
    metrics: &Bound<'_, PyDict>,
    prefix: &str,
    depth_left: usize,
) -> PyResult<()> {
    for (key, value) in metrics {
        let Ok(key) = key.cast::<PyString>() else { continue };
        let name = key.to_str()?;
        if let Ok(inner) = value.cast::<PyDict>() {
            if depth_left > 0 {
                note(summary, inner, &format!("{prefix}{name}/"), depth_left - 1)?;
            }
            continue;
        }
        let number = if let Ok(number) = value.cast_exact::<PyFloat>() {
            number.value()
        } else if value.is_exact_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
            match value.extract::<f64>() {
                Ok(number) => number,
                Err(_) => continue,
            }
        } else if value.is_exact_instance_of::<PyBool>() {
            f64::from(u8::from(value.is_truthy()?))
        } else if let Ok(number) = value.extract::<f64>() {
            // numpy's numbers.
            number
        } else {
            continue;
        };
        if !COUNTERS.contains(&name) {
            if prefix.is_empty() {
                summary.note(name, number);
            } else {
                summary.note(&format!("{prefix}{name}"), number);
            }
        }
    }
    Ok(())
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Summary>()
}
