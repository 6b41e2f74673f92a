//! Learners that take rollouts as they come: PPO, with a memory or without, A2C and IMPALA.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rl::learn::a2c::{A2c, A2cSettings};
use rl::learn::impala::{Impala, ImpalaSettings};
use rl::learn::ppo::{Ppo, PpoSettings};
use rl::learn::recurrent::RecurrentPpo;
use rl::model::Model;
use rl::recurrent::RecurrentNet;

use super::parsed;
use super::runner::{Rollout, restored, unpack, whole};
use crate::door::enter;

/// The face of one such learner: how it is made, its settings, what rollouts it refuses, and what it finds by name.
macro_rules! face {
    (
        $(#[$about:meta])*
        $name:ident: $inner:ty, $settings:ty;
        new($($argument:ident: $kind:ty),*) $make:block
        refuses $refuses:expr;
        finds $($found:literal: $field:ident),*
    ) => {
        $(#[$about])*
        #[pyclass(module = "eagleray._native.rl")]
        pub(super) struct $name {
            inner: $inner,
        }

        #[pymethods]
        impl $name {
            #[new]
            fn new($($argument: $kind),*) -> PyResult<Self> {
                Ok(Self { inner: $make })
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
                let settings: $settings = parsed(settings)?;
                let rollouts: Vec<&rl::rollout::Rollout> = rollouts.iter().map(|rollout| &rollout.inner).collect();
                rollouts.iter().try_for_each(|rollout| whole(rollout))?;
                let refuses: fn(&rl::rollout::Rollout) -> Option<&'static str> = $refuses;
                if let Some(why) = rollouts.iter().find_map(|rollout| refuses(rollout)) {
                    return Err(PyValueError::new_err(why));
                }
                let inner = &mut self.inner;
                let stats = enter(py, || inner.update(&rollouts, &settings));
                let found = PyDict::new(py);
                $(found.set_item($found, stats.$field)?;)*
                Ok(found)
            }
        }
    };
}

face! {
    /// Learns from rollouts by proximal policy optimisation.
    PpoLearner: Ppo, PpoSettings;
    new(model: &str, kl_weight: f32, adam_epsilon: f32, seed: u64) {
        Ppo::new(Model::new(parsed(model)?), kl_weight, adam_epsilon, seed)
    }
    refuses |_| None;
    finds "total_loss": loss, "policy_loss": policy_loss, "vf_loss": value_loss, "entropy": entropy, "kl": kl,
        "kl_coeff": kl_weight, "vf_explained_var": explained, "gradient_norm": gradient
}

face! {
    /// Learns from rollouts of a policy that remembers, by proximal policy optimisation.
    RecurrentPpoLearner: RecurrentPpo, PpoSettings;
    new(model: &str, kl_weight: f32, adam_epsilon: f32, seed: u64) {
        RecurrentPpo::new(RecurrentNet::new(parsed(model)?), kl_weight, adam_epsilon, seed)
    }
    refuses |rollout| {
        let is_without = rollout.steps > 0 && rollout.states.is_empty();
        is_without.then_some("the rollout is of a policy that remembers nothing")
    };
    finds "total_loss": loss, "policy_loss": policy_loss, "vf_loss": value_loss, "entropy": entropy, "kl": kl,
        "kl_coeff": kl_weight, "vf_explained_var": explained, "gradient_norm": gradient
}

face! {
    /// Learns from rollouts by advantage actor-critic.
    ///
    /// `optimiser`: `{"adam": {"epsilon"}}` or `{"rmsprop": {"decay", "momentum", "epsilon", "is_tf_like"}}`.
    A2cLearner: A2c, A2cSettings;
    new(model: &str, optimiser: &str, seed: u64) { A2c::new(Model::new(parsed(model)?), &parsed(optimiser)?, seed) }
    refuses |_| None;
    finds "total_loss": loss, "policy_loss": policy_loss, "vf_loss": value_loss, "entropy": entropy,
        "vf_explained_var": explained, "gradient_norm": gradient
}

face! {
    /// Learns from rollouts of older policies by V-trace. `optimiser` as A2C's.
    ImpalaLearner: Impala, ImpalaSettings;
    new(model: &str, optimiser: &str, seed: u64) { Impala::new(Model::new(parsed(model)?), &parsed(optimiser)?, seed) }
    refuses |_| None;
    finds "total_loss": loss, "policy_loss": policy_loss, "vf_loss": value_loss, "entropy": entropy, "kl": kl,
        "mean_ratio": ratio, "vf_explained_var": explained, "gradient_norm": gradient
}
