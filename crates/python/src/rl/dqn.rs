//! DQN's learner, with its buffer.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rl::learn::dqn::{Dqn, DqnSettings};
use rl::q::QModel;
use rl::replay::Replay;

use super::parsed;
use super::runner::{Rollout, restored, unpack, whole};
use crate::door::enter;

/// Learns what actions are worth from replayed steps.
#[pyclass(module = "eagleray._native.rl")]
pub(super) struct DqnLearner {
    inner: Dqn,
    replay: Replay,
    observed: usize,
}

#[pymethods]
impl DqnLearner {
    #[new]
    fn new(model: &str, adam_epsilon: f32, seed: u64, capacity: usize, is_prioritised: bool) -> PyResult<Self> {
        let model = QModel::new(parsed(model)?);
        let observed = model.spec().observed;
        let replay = Replay::new(capacity, observed, 1, is_prioritised);
        Ok(Self { inner: Dqn::new(model, adam_epsilon, seed), replay, observed })
    }

    /// The weights, as a safetensors file.
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.layout().packed(self.inner.parameters()))
    }

    /// The weights as they lie, for runners.
    fn flat_weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.layout().flat(self.inner.parameters()))
    }

    /// Takes over weights; the older networks get them as well.
    fn set_weights(&mut self, weights: &[u8]) -> PyResult<()> {
        let layout = self.inner.layout().clone();
        unpack(&layout, weights, self.inner.parameters_mut())?;
        self.inner.follow(1.0);
        Ok(())
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
        let fits = replay.as_ref().is_none_or(|replay| replay.fits(self.observed, 1));
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

    /// The older networks move this far towards the learning ones.
    fn follow(&mut self, share: f32) {
        self.inner.follow(share);
    }

    /// So many steps of the optimiser; what the last found, by name.
    fn update<'py>(&mut self, py: Python<'py>, settings: &str, times: usize) -> PyResult<Bound<'py, PyDict>> {
        let settings: DqnSettings = parsed(settings)?;
        if self.replay.is_empty() {
            return Err(PyValueError::new_err("there is nothing to learn from"));
        }
        let (inner, replay) = (&mut self.inner, &mut self.replay);
        let stats = enter(py, || inner.update(replay, &settings, times));
        let found = PyDict::new(py);
        for (name, value) in [
            ("total_loss", stats.loss),
            ("qf_mean", stats.mean_q),
            ("qf_max", stats.max_q),
            ("qf_min", stats.min_q),
            ("td_error_mean", stats.surprise),
            ("gradient_norm", stats.gradient),
        ] {
            found.set_item(name, value)?;
        }
        Ok(found)
    }
}
