//! Reinforcement learning: environments, networks, advantages, replay and learners.
//!
//! Everything that is done per step of an environment or per sample of a batch is here, and nothing else: no clock, file or Python.
//! Whoever calls gives the seeds; the same seeds and the same number of threads give the same numbers, bit for bit.

pub mod advantage;
pub mod chance;
pub mod dist;
pub mod env;
pub mod filter;
pub mod learn;
pub mod model;
pub mod nn;
pub mod policy;
pub mod q;
pub mod recurrent;
pub mod replay;
pub mod rollout;
pub mod soft;
pub mod space;
