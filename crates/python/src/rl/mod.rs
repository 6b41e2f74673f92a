//! `eagleray._native.rl`: faces of the `rl` crate. They hold `inner`, copy columns and let the interpreter's lock go, nothing more.
//!
//! Columns are anything with a buffer of the right type (numpy arrays), row by row; flags are bytes. What has many settings comes as JSON.

mod columns;
mod dqn;
mod env;
mod es;
mod filter;
mod on_policy;
mod runner;
mod sac;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let rl = PyModule::new(module.py(), "rl")?;
    rl.add_class::<env::VectorEnv>()?;
    rl.add_class::<filter::Filter>()?;
    rl.add_class::<runner::Runner>()?;
    rl.add_class::<runner::Rollout>()?;
    rl.add_class::<runner::NativePolicy>()?;
    rl.add_class::<on_policy::PpoLearner>()?;
    rl.add_class::<dqn::DqnLearner>()?;
    rl.add_class::<sac::SacLearner>()?;
    rl.add_class::<on_policy::RecurrentPpoLearner>()?;
    rl.add_class::<on_policy::A2cLearner>()?;
    rl.add_class::<on_policy::ImpalaLearner>()?;
    rl.add_class::<es::EsLearner>()?;
    rl.add_function(wrap_pyfunction!(es::perturbed, &rl)?)?;
    rl.add_function(wrap_pyfunction!(environments, &rl)?)?;
    rl.add_function(wrap_pyfunction!(is_finite, &rl)?)?;
    // Pickles of rollouts name it.
    module.py().import("sys")?.getattr("modules")?.set_item("eagleray._native.rl", &rl)?;
    module.add_submodule(&rl)
}

/// The names of native environments.
#[pyfunction]
fn environments() -> Vec<&'static str> {
    rl::env::names().collect()
}

/// Whether each number of a column is one, and finite.
#[pyfunction]
fn is_finite(column: PyBuffer<f32>) -> PyResult<bool> {
    columns::is_finite(&column)
}

/// Reads settings that came as JSON.
fn parsed<'a, T: serde::Deserialize<'a>>(text: &'a str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))
}
