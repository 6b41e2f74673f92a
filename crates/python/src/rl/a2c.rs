//! A2C's learner.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rl::learn::a2c::{A2c, A2cSettings};
use rl::model::Model;

use super::parsed;
use super::runner::{Rollout, unpack};
use crate::door::enter;

/// Learns from rollouts by advantage actor-critic.
#[pyclass(module = "eagleray._native.rl")]
pub(super) struct A2cLearner {
    inner: A2c,
}

#[pymethods]
impl A2cLearner {
    /// `optimiser`: `{"adam": {"epsilon"}}` or `{"rmsprop": {"decay", "momentum", "epsilon", "is_tf_like"}}`.
    #[new]
    fn new(model: &str, optimiser: &str, seed: u64) -> PyResult<Self> {
        Ok(Self { inner: A2c::new(Model::new(parsed(model)?), &parsed(optimiser)?, seed) })
    }

    /// The weights, as a safetensors file.
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.layout().packed(self.inner.parameters()))
    }

    /// Takes over weights.
    fn set_weights(&mut self, weights: &[u8]) -> PyResult<()> {
        unpack(&self.inner.layout().clone(), weights, self.inner.parameters_mut())
    }

    /// All that its next updates depend on beside the parameters.
    fn save<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.save())
    }

    /// Goes on from what was saved.
    fn restore(&mut self, saved: &[u8]) -> PyResult<()> {
        if self.inner.restore(saved) {
            return Ok(());
        }
        Err(PyValueError::new_err("what was saved is of another learner"))
    }

    /// Learns from these rollouts; what it found, by name.
    fn update<'py>(
        &mut self,
        py: Python<'py>,
        rollouts: Vec<PyRef<'py, Rollout>>,
        settings: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let settings: A2cSettings = parsed(settings)?;
        let rollouts: Vec<&rl::rollout::Rollout> = rollouts.iter().map(|rollout| &rollout.inner).collect();
        let inner = &mut self.inner;
        let stats = enter(py, || inner.update(&rollouts, &settings));
        let found = PyDict::new(py);
        for (name, value) in [
            ("total_loss", stats.loss),
            ("policy_loss", stats.policy_loss),
            ("vf_loss", stats.value_loss),
            ("entropy", stats.entropy),
            ("vf_explained_var", stats.explained),
            ("gradient_norm", stats.gradient),
        ] {
            found.set_item(name, value)?;
        }
        Ok(found)
    }
}
