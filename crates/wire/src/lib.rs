//! Every message between processes, defined once: what it says, how it is laid out, which version it has.
//!
//! - `frame`: the fixed header of a frame in a ring, and the bodies of calls and replies (hot).
//! - `abroad`: what nodes say to each other.
//! - `actor_spec`: what makes an actor; `arguments`: what a call carries; `value`: what they and answers are made of. For all languages.
//! - `asking`: questions to a node, and its answers; part of `control`.
//! - `control`: between a process and its node, over a Unix socket (cold, postcard).
//! - `groups`: what a node says about placement groups.
//! - `journal`: what a process leaves behind for who takes over when it dies.
//! - `logs`: what workers print, on its way to their driver.
//! - `peer`: between two processes that hold each other's values, carried by the node (cold, postcard).
//! - `session`: between two nodes, over a network (hot).
//! - `status`: what a node says about itself to people.
//! - `surroundings`: what a driver's workers take over from it.
//! - `waits`: what is not going on, and what would end it; `words`: that as sentences.
//! - `zygote`: between a node and the process that forks its workers.

pub mod abroad;
pub mod actor_spec;
pub mod arguments;
pub mod asking;
pub mod control;
pub mod frame;
pub mod groups;
pub mod journal;
pub mod logs;
pub mod members;
pub mod peer;
mod reader;
pub mod session;
pub mod status;
mod surroundings;
pub mod value;
pub mod values;
pub mod waits;
mod words;
pub mod zygote;

pub use reader::{Malformed, Reader};
pub use surroundings::Surroundings;

/// Raised whenever bytes change their meaning. Peers of another version are refused at the handshake.
pub const PROTOCOL: u32 = 18;

/// Values up to this size travel inside frames and live with their owner; larger ones are in the store.
pub const INLINE_BYTES_MAX: usize = 100 * 1024;

/// Control messages above this are refused: a function body plus room for its envelope.
pub const CONTROL_BYTES_MAX: usize = ITEM_ROOM + session::ITEM_BYTES_MAX;

/// What stands around the largest item of a session when a process gets it.
const ITEM_ROOM: usize = 1024 * 1024;

/// Encodes a cold message.
///
/// # Panics
/// Never for the messages of this crate: all of them can be encoded.
#[must_use]
pub fn encode<T: serde::Serialize>(message: &T) -> Vec<u8> {
    postcard::to_stdvec(message).expect("every wire message can be encoded")
}

/// Decodes a cold message.
///
/// # Errors
/// If the bytes are no such message.
pub fn decode<'a, T: serde::Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Malformed> {
    postcard::from_bytes(bytes).map_err(|_| Malformed("control message"))
}
