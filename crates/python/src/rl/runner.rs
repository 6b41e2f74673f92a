//! What drives environments by a policy, and the rollouts that come of it.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rl::chance::Chance;
use rl::env::Stepped;
use rl::model::{ActorCritic, Model};
use rl::nn::Layout;
use rl::policy::{Choice, Chosen, Policy};
use rl::q::{QModel, QPolicy};
use rl::recurrent::{RecurrentNet, RecurrentPolicy};
use rl::soft::{Actor, SoftPolicy};

use super::env::VectorEnv;
use super::{columns, filter, parsed};
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
    fn new(kind: &str, model: &str, envs: usize, seed: u64) -> PyResult<Self> {
        let inner = rl::rollout::Runner::new(policy(kind, model)?, envs, seed);
        Ok(Self { inner, stepped: Stepped::default(), observed: Vec::new(), flags: Vec::new() })
    }

    /// Takes over weights.
    fn set_weights(&mut self, weights: &[u8]) -> PyResult<()> {
        self.inner.set_weights(weights).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Brings observations and rewards to one scale, or not any more. Before anything is seen.
    #[pyo3(signature = (spec))]
    fn set_filter(&mut self, spec: Option<&str>) -> PyResult<()> {
        self.inner.set_filter(spec.map(parsed).transpose()?);
        Ok(())
    }

    /// Whether what its filter sees from now on counts.
    fn set_filter_learning(&mut self, is_learning: bool) {
        if let Some(filter) = self.inner.filter_mut() {
            filter.set_learning(is_learning);
        }
    }

    /// What its filter has seen since this was last asked; nothing if it has none.
    fn take_filter_delta<'py>(&mut self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.inner.filter_mut().map(|filter| filter::written(py, &filter.take_delta()))
    }

    /// What all runners' filters have seen together.
    fn set_filter_moments(&mut self, moments: &[u8]) -> PyResult<()> {
        let moments = filter::read(moments)?;
        let fits = self.inner.filter_mut().is_none_or(|filter| filter.set_moments(&moments));
        if fits { Ok(()) } else { Err(filter::misfit()) }
    }

    /// What is seen now, in all environments.
    fn see(&mut self, py: Python<'_>, observed: PyBuffer<f32>) -> PyResult<()> {
        columns::check("observed", observed.item_count(), self.inner.envs() * self.inner.policy().observed())?;
        columns::read(py, "observed", &observed, &mut self.observed)?;
        self.inner.look(&self.observed);
        Ok(())
    }

    /// Chooses an action for each environment: "drawn", "best", or "astray" with how often.
    fn act(&mut self, py: Python<'_>, choice: &str, share: f32, actions: PyBuffer<f32>) -> PyResult<()> {
        let choice = chosen(choice, share)?;
        let inner = &mut self.inner;
        let chosen = enter(py, || inner.act(choice));
        columns::write(py, "actions", &actions, chosen)
    }

    /// Takes actions that somebody else chose.
    fn told(&mut self, py: Python<'_>, actions: PyBuffer<f32>) -> PyResult<()> {
        columns::check("actions", actions.item_count(), self.inner.envs() * self.inner.policy().actions())?;
        columns::read(py, "actions", &actions, &mut self.observed)?;
        self.inner.told(&self.observed);
        Ok(())
    }

    /// All that its next steps depend on beside the weights.
    fn save<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.save())
    }

    /// Goes on from what was saved.
    fn restore(&mut self, saved: &[u8]) -> PyResult<()> {
        restored(self.inner.restore(saved), "runner")
    }

    /// What the actions brought.
    #[expect(clippy::too_many_arguments, reason = "one per column")]
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
    fn run(
        &mut self,
        py: Python<'_>,
        mut vector: PyRefMut<'_, VectorEnv>,
        steps: usize,
        choice: &str,
        share: f32,
    ) -> PyResult<()> {
        let choice = chosen(choice, share)?;
        let VectorEnv { inner: vector, stepped, .. } = &mut *vector;
        let inner = &mut self.inner;
        enter(py, || inner.run(&mut **vector, steps, choice, stepped));
        Ok(())
    }

    /// Ends the rollout and gives it away.
    fn take(&mut self, py: Python<'_>) -> Rollout {
        let inner = &mut self.inner;
        Rollout { inner: enter(py, || inner.take()) }
    }

    /// Forgets the rollout that was begun, and the episodes in it.
    fn forget(&mut self) {
        self.inner.forget();
    }

    /// The rewards and lengths of episodes that have ended since this was last asked.
    fn take_episodes(&mut self) -> Vec<(f64, u32)> {
        self.inner.take_episodes().into_iter().map(|episode| (episode.reward, episode.length)).collect()
    }
}

/// Refuses rollouts that would break whoever learns from them.
pub(super) fn whole(rollout: &rl::rollout::Rollout) -> PyResult<()> {
    if rollout.is_whole() {
        return Ok(());
    }
    Err(PyValueError::new_err("a rollout has steps of which it is not known what they led to"))
}

/// The policy of a kind: "actor_critic", "recurrent", "q" or "soft".
fn policy(kind: &str, model: &str) -> PyResult<Box<dyn Policy>> {
    match kind {
        "actor_critic" => Ok(Box::new(ActorCritic::new(Model::new(parsed(model)?)))),
        "recurrent" => Ok(Box::new(RecurrentPolicy::new(RecurrentNet::new(parsed(model)?)))),
        "q" => Ok(Box::new(QPolicy::new(QModel::new(parsed(model)?)))),
        "soft" => Ok(Box::new(SoftPolicy::new(Actor::new(&parsed(model)?)))),
        _ => Err(PyValueError::new_err(format!("no policy is of kind {kind}"))),
    }
}

fn chosen(choice: &str, share: f32) -> PyResult<Choice> {
    match choice {
        "drawn" => Ok(Choice::Drawn),
        "best" => Ok(Choice::Best),
        "astray" => Ok(Choice::Astray(share)),
        _ => Err(PyValueError::new_err(format!("actions are not chosen by {choice}"))),
    }
}

/// A policy without environments: what it would do.
#[pyclass(name = "Policy", module = "eagleray._native.rl")]
pub(super) struct NativePolicy {
    inner: Box<dyn Policy>,
    parameters: Vec<f32>,
    chance: Chance,
    observed: Vec<f32>,
}

#[pymethods]
impl NativePolicy {
    #[new]
    fn new(kind: &str, model: &str, seed: u64) -> PyResult<Self> {
        let (inner, mut chance) = (policy(kind, model)?, Chance::seeded(seed));
        let parameters = inner.init(&mut chance);
        Ok(Self { inner, parameters, chance, observed: Vec::new() })
    }

    /// Names, shapes and places of the parameters.
    fn layout(&self) -> Vec<(String, Vec<usize>, usize)> {
        let tensors = self.inner.layout().tensors().iter();
        tensors.map(|tensor| (tensor.name.clone(), tensor.shape.clone(), tensor.offset)).collect()
    }

    /// The weights, as a safetensors file.
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.layout().packed(&self.parameters))
    }

    /// Takes over weights.
    fn set_weights(&mut self, weights: &[u8]) -> PyResult<()> {
        unpack(self.inner.layout(), weights, &mut self.parameters)
    }

    /// Numbers that it remembers per row between two calls; none if it remembers nothing.
    #[getter]
    fn state_size(&self) -> usize {
        self.inner.memory().map_or(0, |memory| memory.numbers)
    }

    /// What it remembers, as floats one behind the other, row by row.
    fn states<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        floats(py, self.inner.states())
    }

    /// The rows of the next call go on with this.
    fn set_states(&mut self, states: &[u8]) -> PyResult<()> {
        let size = 4 * self.state_size().max(1);
        columns::check("states", states.len() / 4, states.len() / size * size / 4)?;
        let read: Vec<f32> = states.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        self.inner.set_states(&read);
        Ok(())
    }

    /// What it chooses for these rows; with it, as floats: what that was chosen from, its log-probabilities and the rows' values.
    fn act<'py>(
        &mut self,
        py: Python<'py>,
        observed: PyBuffer<f32>,
        choice: &str,
        share: f32,
        actions: PyBuffer<f32>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let (choice, size) = (chosen(choice, share)?, self.inner.observed().max(1));
        let rows = observed.item_count() / size;
        columns::check("observed", observed.item_count(), rows * size)?;
        columns::read(py, "observed", &observed, &mut self.observed)?;
        let mut taken = vec![0.0; rows * self.inner.actions()];
        let (mut inputs, mut logp, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let into = Chosen { actions: &mut taken, inputs: &mut inputs, logp: &mut logp, values: &mut values };
        self.inner.act(&self.parameters, &self.observed, choice, &mut self.chance, into);
        columns::write(py, "actions", &actions, &taken)?;
        if values.is_empty() {
            values.extend_from_slice(self.inner.values(&self.parameters, &self.observed).unwrap_or(&[]));
        }
        Ok((floats(py, &inputs), floats(py, &logp), floats(py, &values)))
    }
}

/// What environments did under a policy.
#[pyclass(module = "eagleray._native.rl", frozen)]
pub(super) struct Rollout {
    pub(super) inner: rl::rollout::Rollout,
}

#[pymethods]
impl Rollout {
    /// Steps in it, over all its environments.
    #[getter]
    fn steps(&self) -> usize {
        self.inner.steps * self.inner.envs
    }

    /// The same.
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

/// Reads weights, or says why they do not fit.
pub(super) fn unpack(layout: &Layout, weights: &[u8], into: &mut [f32]) -> PyResult<()> {
    layout.unpack(weights, into).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Says that what was saved does not fit.
pub(super) fn restored(fits: bool, what: &str) -> PyResult<()> {
    if fits { Ok(()) } else { Err(PyValueError::new_err(format!("what was saved is of another {what}"))) }
}

/// Floats one behind the other.
fn floats<'py>(py: Python<'py>, values: &[f32]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    PyBytes::new(py, &bytes)
}
