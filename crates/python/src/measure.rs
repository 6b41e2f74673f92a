//! For benches: where a call's time goes, and what the machine allows.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use runtime::{STAGES, Stage};

/// Starts measuring the stages of calls in this process, from zero.
#[pyfunction]
fn stage_times_start() {
    Stage::start_all();
}

/// Mean microseconds per stage since `stage_times_start`, of the stages that this process takes part in.
#[pyfunction]
fn stage_times(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, stage) in STAGES {
        let (mean_ns, count) = stage.mean_ns();
        if count > 0 {
            dict.set_item(name, mean_ns / 1_000.0)?;
        }
    }
    Ok(dict)
}

/// Stops measuring.
#[pyfunction]
fn stage_times_stop() {
    Stage::stop_all();
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(stage_times_start, module)?)?;
    module.add_function(wrap_pyfunction!(stage_times, module)?)?;
    module.add_function(wrap_pyfunction!(stage_times_stop, module)?)
}
