//! PPO's learner for networks that remember.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rl::learn::ppo::PpoSettings;
use rl::learn::recurrent::RecurrentPpo;
use rl::recurrent::RecurrentNet;

use super::parsed;
use super::runner::{Rollout, unpack};
use crate::door::enter;

/// Learns from rollouts of a policy that remembers, by proximal policy optimisation.
#[pyclass(module = "eagleray._native.rl")]
pub(super) struct RecurrentPpoLearner {
    inner: RecurrentPpo,
}

#[pymethods]
impl RecurrentPpoLearner {
    #[new]
    fn new(model: &str, kl_weight: f32, adam_epsilon: f32, seed: u64) -> PyResult<Self> {
        let net = RecurrentNet::new(parsed(model)?);
        Ok(Self { inner: RecurrentPpo::new(net, kl_weight, adam_epsilon, seed) })
    }

    /// The weights, as a safetensors file.
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.layout().packed(self.inner.parameters()))
    }

    /// Takes over weights.
    fn set_weights(&mut self, weights: &[u8]) -> PyResult<()> {
        unpack(&self.inner.layout().clone(), weights, self.inner.parameters_mut())
    }

    /// All that its next updates depend on beside the weights.
    fn save<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.save())
    }

    /// Goes on from what was saved. False if that is of another learner: then nothing has changed.
    fn restore(&mut self, saved: &[u8]) -> bool {
        self.inner.restore(saved)
    }

    /// Learns from these rollouts; what it found, by name.
    fn update<'py>(
        &mut self,
        py: Python<'py>,
        rollouts: Vec<PyRef<'py, Rollout>>,
        settings: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let settings: PpoSettings = parsed(settings)?;
        let rollouts: Vec<&rl::rollout::Rollout> = rollouts.iter().map(|rollout| &rollout.inner).collect();
        if rollouts.iter().any(|rollout| rollout.steps > 0 && rollout.states.is_empty()) {
            return Err(PyValueError::new_err("the rollout is of a policy that remembers nothing"));
        }
        let inner = &mut self.inner;
        let stats = enter(py, || inner.update(&rollouts, &settings));
        let found = PyDict::new(py);
        for (name, value) in [
            ("total_loss", stats.loss),
            ("policy_loss", stats.policy_loss),
            ("vf_loss", stats.value_loss),
            ("entropy", stats.entropy),
            ("kl", stats.kl),
            ("kl_coeff", stats.kl_weight),
            ("vf_explained_var", stats.explained),
            ("gradient_norm", stats.gradient),
        ] {
            found.set_item(name, value)?;
        }
        Ok(found)
    }
}
