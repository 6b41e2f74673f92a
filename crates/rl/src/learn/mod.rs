//! One learner per algorithm.

pub mod ppo;
mod team;
