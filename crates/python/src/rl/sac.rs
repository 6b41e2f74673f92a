//! Soft actor-critic's learner, with its buffer.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rl::learn::sac::{Sac, SacSettings, SacStats};
use rl::replay::Replay;
use rl::soft::SoftSpec;

use super::parsed;
use super::runner::{Rollout, restored, unpack, whole};
use crate::door::enter;

/// Learns to choose numbers between bounds from replayed steps. Its weights are those of what chooses; what values choices is in what it saves.
#[pyclass(module = "eagleray._native.rl")]
pub(super) struct SacLearner {
    inner: Sac,
    replay: Replay,
    observed: usize,
    actions: usize,
}

#[pymethods]
impl SacLearner {
    #[new]
    fn new(
        model: &str,
        temperature: f32,
        adam_epsilon: f32,
        seed: u64,
        capacity: usize,
        is_prioritised: bool,
    ) -> PyResult<Self> {
        let spec: SoftSpec = parsed(model)?;
        if spec.low.len() != spec.high.len() {
            return Err(PyValueError::new_err("as many lower bounds of actions as upper ones are needed"));
        }
        if temperature <= 0.0 {
            return Err(PyValueError::new_err(format!("a temperature to begin with is above 0, not {temperature}")));
        }
        let (observed, actions) = (spec.observed, spec.low.len());
        let replay = Replay::new(capacity, observed, actions, is_prioritised);
        Ok(Self { inner: Sac::new(&spec, temperature, adam_epsilon, seed), replay, observed, actions })
    }

    /// The weights of what chooses, as a safetensors file.
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.layout().packed(self.inner.parameters()))
    }

    /// The weights as they lie, for runners.
    fn flat_weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.layout().flat(self.inner.parameters()))
    }

    /// Takes over weights of what chooses.
    fn set_weights(&mut self, weights: &[u8]) -> PyResult<()> {
        unpack(&self.inner.layout().clone(), weights, self.inner.parameters_mut())
    }

    /// All that its next updates depend on beside the weights; with the steps that it keeps, or without.
    fn save<'py>(&self, py: Python<'py>, is_whole: bool) -> Bound<'py, PyBytes> {
        let replay = is_whole.then_some(&self.replay);
        PyBytes::new(py, &postcard::to_stdvec(&(self.inner.save(), replay)).expect("plain data"))
    }

    /// Goes on from what was saved.
    fn restore(&mut self, saved: &[u8]) -> PyResult<()> {
        let (inner, replay): (Vec<u8>, Option<Replay>) =
            postcard::from_bytes(saved).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let fits = replay.as_ref().is_none_or(|replay| replay.fits(self.observed, self.actions));
        restored(fits && self.inner.restore(&inner), "learner")?;
        if let Some(replay) = replay {
            self.replay = replay;
        }
        Ok(())
    }

    /// Keeps the steps of a rollout, each standing for up to `n`.
    fn add(&mut self, py: Python<'_>, rollout: PyRef<'_, Rollout>, n: usize, gamma: f32) -> PyResult<()> {
        let (replay, rollout) = (&mut self.replay, &rollout.inner);
        whole(rollout)?;
        enter(py, || replay.add(rollout, n, gamma));
        Ok(())
    }

    /// Steps that are kept.
    fn __len__(&self) -> usize {
        self.replay.len()
    }

    /// So many steps of the optimisers; what the last found, by name.
    fn update<'py>(&mut self, py: Python<'py>, settings: &str, times: usize) -> PyResult<Bound<'py, PyDict>> {
        let settings: SacSettings = parsed(settings)?;
        if self.replay.is_empty() {
            return Err(PyValueError::new_err("there is nothing to learn from"));
        }
        let (inner, replay) = (&mut self.inner, &mut self.replay);
        let stats = enter(py, || (0..times).fold(SacStats::default(), |_, _| inner.update(replay, &settings)));
        let found = PyDict::new(py);
        for (name, value) in [
            ("total_loss", stats.actor_loss + stats.critic_loss + stats.temperature_loss),
            ("actor_loss", stats.actor_loss),
            ("critic_loss", stats.critic_loss),
            ("alpha_loss", stats.temperature_loss),
            ("alpha_value", stats.temperature),
            ("entropy", stats.entropy),
            ("qf_mean", stats.mean_q),
            ("qf_max", stats.max_q),
            ("qf_min", stats.min_q),
            ("td_error_mean", stats.surprise),
            ("actor_gradient_norm", stats.actor_gradient),
            ("critic_gradient_norm", stats.critic_gradient),
        ] {
            found.set_item(name, value)?;
        }
        Ok(found)
    }
}
