//! One learner per algorithm.

pub mod a2c;
mod descent;
#[cfg(test)]
mod differences;
pub mod dqn;
pub mod es;
#[cfg(test)]
mod fixtures;
pub mod impala;
mod loss;
pub mod ppo;
pub mod recurrent;
pub mod sac;
mod team;
