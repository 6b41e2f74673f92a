//! PPO's learner.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rl::learn::ppo::{Ppo, PpoSettings};
use rl::model::Model;

use super::parsed;
use super::runner::{Rollout, restored, unpack};
use crate::door::enter;

/// Learns from rollouts by proximal policy optimisation.
#[pyclass(module = "eagleray._native.rl")]
pub(super) struct PpoLearner {
    inner: Ppo,
}

#[pymethods]
impl PpoLearner {
    #[new]
    fn new(model: &str, kl_weight: f32, adam_epsilon: f32, seed: u64) -> PyResult<Self> {
        Ok(Self { inner: Ppo::new(Model::new(parsed(model)?), kl_weight, adam_epsilon, seed) })
    }

    /// The weights, as a safetensors file.
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.layout().packed(self.inner.parameters()))
    }

    /// Takes over weights.
    fn set_weights(&mut self, weights: &[u8]) -> PyResult<()> {
        let layout = self.inner.layout().clone();
        unpack(&layout, weights, self.inner.parameters_mut())
    }

    /// All that its next updates depend on beside the weights.
    fn save<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.save())
    }

    /// Goes on from what was saved.
    fn restore(&mut self, saved: &[u8]) -> PyResult<()> {
        restored(self.inner.restore(saved), "learner")
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
