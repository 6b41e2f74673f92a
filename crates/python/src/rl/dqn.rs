//! DQN's learner, with its buffer.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rl::learn::dqn::{Dqn, DqnSettings, DqnStats};
use rl::q::QModel;
use rl::replay::Replay;

use super::parsed;
use super::runner::{Rollout, floats, set_floats};
use crate::door::enter;

/// Learns what actions are worth from replayed steps.
#[pyclass(module = "eagleray._native.rl")]
pub(super) struct DqnLearner {
    inner: Dqn,
    replay: Replay,
}

#[pymethods]
impl DqnLearner {
    #[new]
    fn new(model: &str, adam_epsilon: f32, seed: u64, capacity: usize, is_prioritised: bool) -> PyResult<Self> {
        let model = QModel::new(parsed(model)?);
        let replay = Replay::new(capacity, model.spec().observed, 1, is_prioritised);
        Ok(Self { inner: Dqn::new(model, adam_epsilon, seed), replay })
    }

    /// The parameters, as floats one behind the other.
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        floats(py, self.inner.parameters())
    }

    /// Takes over parameters; the older networks get them as well.
    fn set_weights(&mut self, weights: &[u8]) -> PyResult<()> {
        set_floats(self.inner.parameters_mut(), weights)?;
        self.inner.follow(1.0);
        Ok(())
    }

    /// Keeps the steps of a rollout, each standing for up to `n`.
    fn add(&mut self, py: Python<'_>, rollout: PyRef<'_, Rollout>, n: usize, gamma: f32) {
        let (replay, rollout) = (&mut self.replay, &rollout.inner);
        enter(py, || replay.add(rollout, n, gamma));
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
        let stats = enter(py, || (0..times).fold(DqnStats::default(), |_, _| inner.update(replay, &settings)));
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
