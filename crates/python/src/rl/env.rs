//! Native environments.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rl::chance::Chance;
use rl::env::{Adapted, Bounded, Columns, Stepped, Vector, make, misfit};
use rl::space::Acted;

use super::{columns, parsed};
use crate::door::enter;

/// Several native environments of one kind that take their steps together.
#[pyclass(module = "eagleray._native.rl")]
pub(super) struct VectorEnv {
    pub(super) inner: Box<dyn Vector>,
    pub(super) stepped: Stepped,
    actions: Vec<f32>,
}

#[pymethods]
impl VectorEnv {
    #[new]
    #[pyo3(signature = (name, count, config, form=""))]
    fn new(name: &str, count: usize, config: &str, form: &str) -> PyResult<Self> {
        let inner = make(name, count, &parsed(config)?).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let inner: Box<dyn Vector> = match form {
            "" => inner,
            "free" => Box::new(Adapted::new(inner, Bounded::Not)),
            "clipped" => Box::new(Adapted::new(inner, Bounded::Clipped)),
            "spread" => Box::new(Adapted::new(inner, Bounded::Spread)),
            _ => return Err(PyValueError::new_err(format!("environments have no form {form}"))),
        };
        Ok(Self { inner, stepped: Stepped::default(), actions: Vec::new() })
    }

    /// What they show and may be told, as JSON.
    #[getter]
    fn spaces(&self) -> String {
        serde_json::to_string(self.inner.spaces()).expect("plain data")
    }

    /// How many there are.
    #[getter]
    fn count(&self) -> usize {
        self.inner.count()
    }

    /// Begins a new episode everywhere.
    #[pyo3(signature = (seed, observed))]
    fn reset(&mut self, py: Python<'_>, seed: Option<u64>, observed: PyBuffer<f32>) -> PyResult<()> {
        let size = self.inner.count() * self.inner.spaces().observed.size();
        columns::check("observed", observed.item_count(), size)?;
        self.stepped.observed.resize(size, 0.0);
        self.inner.reset(seed, &mut self.stepped.observed);
        columns::write(py, "observed", &observed, &self.stepped.observed)
    }

    /// So many steps of each by actions that are drawn at random: what they can do by themselves.
    fn drive(&mut self, py: Python<'_>, steps: usize, seed: u64) {
        let Self { inner, stepped, actions } = self;
        let (mut chance, acted) = (Chance::seeded(seed), inner.spaces().acted.clone());
        enter(py, || {
            // A few thousand actions, again and again: drawing them is not what is asked for.
            let drawn: Vec<Vec<f32>> = (0..61).map(|_| random_actions(&acted, inner.count(), &mut chance)).collect();
            for step in 0..steps {
                actions.clone_from(&drawn[step % drawn.len()]);
                inner.step(actions, stepped);
            }
        });
    }

    /// What is seen now.
    fn observe(&mut self, py: Python<'_>, observed: PyBuffer<f32>) -> PyResult<()> {
        let size = self.inner.count() * self.inner.spaces().observed.size();
        columns::check("observed", observed.item_count(), size)?;
        self.stepped.observed.resize(size, 0.0);
        self.inner.observe(&mut self.stepped.observed);
        columns::write(py, "observed", &observed, &self.stepped.observed)
    }

    /// Everything that the steps to come depend on.
    fn save<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.save())
    }

    /// Goes back to what was saved.
    fn restore(&mut self, saved: &[u8]) -> PyResult<()> {
        self.inner.restore(saved).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The state of one environment as plain numbers.
    fn state(&self, index: usize) -> PyResult<Vec<f64>> {
        self.check(index)?;
        Ok(self.inner.state(index))
    }

    /// Puts one environment into a state.
    fn set_state(&mut self, index: usize, numbers: Vec<f64>) -> PyResult<()> {
        self.check(index)?;
        self.inner.set_state(index, &numbers).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// One step of each.
    #[expect(clippy::too_many_arguments, reason = "one per column")]
    fn step(
        &mut self,
        py: Python<'_>,
        actions: PyBuffer<f32>,
        mut observed: PyBuffer<f32>,
        mut rewards: PyBuffer<f32>,
        terminated: PyBuffer<u8>,
        truncated: PyBuffer<u8>,
        mut last: PyBuffer<f32>,
    ) -> PyResult<()> {
        columns::check("actions", actions.item_count(), self.inner.count() * self.inner.spaces().acted.size())?;
        columns::read(py, "actions", &actions, &mut self.actions)?;
        if let Some(row) = misfit(&self.inner.spaces().acted, &self.actions) {
            return Err(PyValueError::new_err(format!("the action of environment {row} is none of its actions")));
        }
        let Self { inner, stepped, actions } = self;
        let (count, size) = (inner.count(), inner.spaces().observed.size());
        // Before anything has happened.
        columns::check("terminated", terminated.item_count(), count)?;
        columns::check("truncated", truncated.item_count(), count)?;
        let [observed, rewards, last] = columns::writable([
            ("observed", &mut observed, count * size),
            ("rewards", &mut rewards, count),
            ("last", &mut last, count * size),
        ])?;
        let into = Columns { observed, rewards, last, ..stepped.columns(count, size) };
        enter(py, || inner.step_into(actions, into));
        columns::write_flags("terminated", &terminated, &stepped.terminated)?;
        columns::write_flags("truncated", &truncated, &stepped.truncated)
    }
}

impl VectorEnv {
    fn check(&self, index: usize) -> PyResult<()> {
        if index < self.inner.count() {
            return Ok(());
        }
        Err(PyIndexError::new_err(format!("there are {} environments", self.inner.count())))
    }
}

fn random_numbers(low: &[f32], high: &[f32], chance: &mut Chance) -> impl Iterator<Item = f32> {
    let finite = |bound: f32| f64::from(bound.clamp(-1e3, 1e3));
    low.iter().zip(high).map(move |(low, high)| chance.uniform(finite(*low), finite(*high)) as f32)
}

fn random_actions(acted: &Acted, count: usize, chance: &mut Chance) -> Vec<f32> {
    let mut actions = Vec::new();
    for _ in 0..count {
        match acted {
            Acted::Discrete(choices) => actions.push(chance.integers(*choices as u64) as f32),
            Acted::MultiDiscrete(counts) => {
                actions.extend(counts.iter().map(|choices| chance.integers(*choices as u64) as f32));
            }
            Acted::Box { low, high } => actions.extend(random_numbers(low, high, chance)),
            Acted::Mixed { counts, low, high } => {
                actions.extend(counts.iter().map(|choices| chance.integers(*choices as u64) as f32));
                actions.extend(random_numbers(low, high, chance));
            }
        }
    }
    actions
}
