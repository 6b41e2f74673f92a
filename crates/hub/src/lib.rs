//! What a node decides, without a clock, thread, socket or process of its own (decision 16).
//!
//! - `links`: which pairs of processes have rings.

pub mod links;
