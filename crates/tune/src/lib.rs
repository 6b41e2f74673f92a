//! Hyper-parameter search at native speed.
//!
//! - `space`: what may be chosen, `search`: who proposes (ask and tell), `schedule`: who goes on, pauses or stops. Pure: no clock, no file, no
//!   random source but a seeded one; the same events give the same decisions, so that an experiment's journal can be replayed.
//! - `journal`: the append-only file that an experiment is resumed from. `logs`: the files that other tools read.

pub mod journal;
pub mod logs;
pub mod normal;
pub mod rng;
pub mod schedule;
pub mod search;
pub mod space;
pub mod summary;
mod triangle;
