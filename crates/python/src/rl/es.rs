//! The learner of evolution strategies.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rl::learn::es::{Es, EsSettings, Trial, perturb};
use rl::model::Model;

use super::runner::unpack;
use super::{columns, parsed};
use crate::door::enter;

/// Learns from what whole episodes brought.
#[pyclass(module = "eagleray._native.rl")]
pub(super) struct EsLearner {
    inner: Es,
}

#[pymethods]
impl EsLearner {
    #[new]
    fn new(model: &str, seed: u64) -> PyResult<Self> {
        Ok(Self { inner: Es::new(Model::new(parsed(model)?), seed) })
    }

    /// The weights, as a safetensors file.
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.layout().packed(self.inner.parameters()))
    }

    /// The weights as they lie, for runners.
    fn flat_weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.layout().flat(self.inner.parameters()))
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

    /// Seeds of so many pairs to try.
    fn ask(&mut self, count: usize) -> Vec<u64> {
        self.inner.ask(count)
    }

    /// One of a pair: the parameters with the noise of this seed added, or, as the other, taken off.
    fn candidate<'py>(
        &self,
        py: Python<'py>,
        seed: u64,
        is_other: bool,
        settings: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let candidate = self.inner.candidate(seed, is_other, &parsed(settings)?);
        Ok(PyBytes::new(py, &self.inner.layout().packed(&candidate)))
    }

    /// Learns what became of pairs: their seeds; returns and lengths of the one and the other, pair by pair.
    fn tell<'py>(
        &mut self,
        py: Python<'py>,
        seeds: Vec<u64>,
        returns: Vec<f64>,
        lengths: Vec<u32>,
        settings: &str,
    ) -> PyResult<Bound<'py, PyDict>> {
        let settings: EsSettings = parsed(settings)?;
        columns::check("returns", returns.len(), 2 * seeds.len())?;
        columns::check("lengths", lengths.len(), 2 * seeds.len())?;
        if returns.iter().any(|value| value.is_nan()) {
            return Err(PyValueError::new_err("a return is no number"));
        }
        let pairs = returns.as_chunks().0.iter().zip(lengths.as_chunks().0);
        let trial = |(seed, (returns, lengths)): (_, (&[f64; 2], &[u32; 2]))| Trial {
            seed,
            returns: *returns,
            lengths: *lengths,
        };
        let trials: Vec<Trial> = seeds.into_iter().zip(pairs).map(trial).collect();
        let inner = &mut self.inner;
        let stats = enter(py, || inner.tell(&trials, &settings));
        let found = PyDict::new(py);
        for (name, value) in [
            ("episode_reward_mean", stats.mean),
            ("episode_reward_max", stats.max),
            ("episode_reward_min", stats.min),
            ("episode_len_mean", stats.length),
            ("grad_norm", stats.gradient),
            ("weights_norm", stats.weights),
            ("update_ratio", stats.moved),
        ] {
            found.set_item(name, value)?;
        }
        found.set_item("episodes_this_iter", stats.episodes)?;
        found.set_item("timesteps_this_iter", stats.steps)?;
        Ok(found)
    }
}

/// What [`EsLearner::candidate`] gives, made from the learner's weights elsewhere.
#[pyfunction]
pub(super) fn perturbed<'py>(
    py: Python<'py>,
    model: &str,
    weights: &[u8],
    seed: u64,
    times: f32,
) -> PyResult<Bound<'py, PyBytes>> {
    let model = Model::new(parsed(model)?);
    let mut parameters = vec![0.0; model.layout().len()];
    unpack(model.layout(), weights, &mut parameters)?;
    perturb(model.layout(), &mut parameters, seed, times);
    Ok(PyBytes::new(py, &model.layout().packed(&parameters)))
}
