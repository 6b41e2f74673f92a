//! What drives environments by a policy, and the rollouts that come of it.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rl::env::Stepped;
use rl::model::{ActorCritic, Model};
use rl::policy::Choice;

use super::env::VectorEnv;
use super::{columns, parsed};
use crate::door::enter;

/// Drives environments by a policy and keeps what happens.
#[pyclass(module = "eagleray._native.rl")]
pub(super) struct Runner {
    inner: rl::rollout::Runner,
    stepped: Stepped,
    observed: Vec<f32>,
    flags: Vec<u8>,
}

#[pymethods]
impl Runner {
    #[new]
    fn new(model: &str, envs: usize, seed: u64) -> PyResult<Self> {
        let inner = rl::rollout::Runner::new(Box::new(ActorCritic::new(Model::new(parsed(model)?))), envs, seed);
        Ok(Self { inner, stepped: Stepped::default(), observed: Vec::new(), flags: Vec::new() })
    }

    /// Takes over parameters, as floats one behind the other.
    fn set_weights(&mut self, weights: &[u8]) -> PyResult<()> {
        set_floats(self.inner.parameters_mut(), weights)
    }

    /// What is seen now, in all environments.
    fn see(&mut self, py: Python<'_>, observed: PyBuffer<f32>) -> PyResult<()> {
        columns::check("observed", observed.item_count(), self.inner.envs() * self.inner.policy().observed())?;
        columns::read(py, "observed", &observed, &mut self.observed)?;
        self.inner.see(&self.observed);
        Ok(())
    }

    /// Chooses an action for each environment.
    fn act(&mut self, py: Python<'_>, is_explored: bool, actions: PyBuffer<f32>) -> PyResult<()> {
        let choice = if is_explored { Choice::Drawn } else { Choice::Best };
        let inner = &mut self.inner;
        let chosen = enter(py, || inner.act(choice));
        columns::write(py, "actions", &actions, chosen)
    }

    /// What the actions brought.
    fn observe(
        &mut self,
        py: Python<'_>,
        rewards: PyBuffer<f32>,
        terminated: PyBuffer<u8>,
        truncated: PyBuffer<u8>,
        observed: PyBuffer<f32>,
        last: PyBuffer<f32>,
    ) -> PyResult<()> {
        let (envs, size) = (self.inner.envs(), self.inner.envs() * self.inner.policy().observed());
        for (name, found, expected) in [
            ("rewards", rewards.item_count(), envs),
            ("terminated", terminated.item_count(), envs),
            ("truncated", truncated.item_count(), envs),
            ("observed", observed.item_count(), size),
            ("last", last.item_count(), size),
        ] {
            columns::check(name, found, expected)?;
        }
        columns::read(py, "rewards", &rewards, &mut self.stepped.rewards)?;
        columns::read(py, "observed", &observed, &mut self.stepped.observed)?;
        columns::read(py, "last", &last, &mut self.stepped.last)?;
        for (name, column, into) in [
            ("terminated", terminated, &mut self.stepped.terminated),
            ("truncated", truncated, &mut self.stepped.truncated),
        ] {
            columns::read(py, name, &column, &mut self.flags)?;
            into.clear();
            into.extend(self.flags.iter().map(|flag| *flag != 0));
        }
        self.inner.observe(&self.stepped);
        Ok(())
    }

    /// So many steps of native environments.
    fn run(&mut self, py: Python<'_>, mut vector: PyRefMut<'_, VectorEnv>, steps: usize, choice: &str) -> PyResult<()> {
        let choice = chosen(choice)?;
        let VectorEnv { inner: vector, stepped, .. } = &mut *vector;
        let inner = &mut self.inner;
        enter(py, || inner.run(&mut **vector, steps, choice, stepped));
    }

    /// Ends the rollout and gives it away.
    fn take(&mut self, py: Python<'_>) -> Rollout {
        let inner = &mut self.inner;
        Rollout { inner: enter(py, || inner.take()) }
    }

    /// The rewards and lengths of episodes that have ended since this was last asked.
    fn take_episodes(&mut self) -> Vec<(f64, u32)> {
        self.inner.take_episodes().into_iter().map(|episode| (episode.reward, episode.length)).collect()
    }
}

/// What environments did under a policy.
#[pyclass(module = "eagleray._native.rl", frozen)]
pub(super) struct Rollout {
    pub(super) inner: rl::rollout::Rollout,
}

#[pymethods]
impl Rollout {
    /// Rows: steps times environments.
    fn __len__(&self) -> usize {
        self.inner.steps * self.inner.envs
    }

    /// As it travels to another process.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = postcard::to_stdvec(&self.inner).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((py.get_type::<Self>().getattr("from_bytes")?, (PyBytes::new(py, &bytes),)))
    }

    /// Reads one that travelled.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        let inner = postcard::from_bytes(bytes).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { inner })
    }
}

/// Takes over floats that lie one behind the other.
pub(super) fn set_floats(into: &mut [f32], bytes: &[u8]) -> PyResult<()> {
    columns::check("weights", bytes.len() / 4, into.len())?;
    for (value, bytes) in into.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *value = f32::from_le_bytes(*bytes);
    }
    Ok(())
}

/// Floats one behind the other.
pub(super) fn floats<'py>(py: Python<'py>, values: &[f32]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    PyBytes::new(py, &bytes)
}
