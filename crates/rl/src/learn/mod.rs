//! One learner per algorithm.

pub mod dqn;
pub mod ppo;
mod team;
