//! How bytes get from one process to another: rings in shared memory with doorbells, and Unix sockets.
//!
//! - `segment`: the shared memory of one node: process table, rings, spin page.
//! - `ring`: one single-producer single-consumer ring of frames, with its crash rules.
//! - `claim`: who may run a queued call: the worker that starts it or the caller that takes it back.
//! - `bell`: how a process sleeps and is woken, one doorbell for all its rings.
//! - `spin`: whether a waiter may spin instead of sleeping.
//! - `unix`: length-prefixed messages and descriptors over a Unix socket.
//!
//! Nothing above this crate knows that a peer is on the same machine.

pub mod bell;
pub mod claim;
pub mod clock;
pub mod ring;
pub mod segment;
pub mod spin;
mod sync;
pub mod unix;

pub use bell::Bell;
pub use claim::{Claims, Word};
pub use ring::{Broken, Full, RingReader, RingWriter};
pub use segment::{ProcEntry, Segment};
pub use spin::Spinner;
