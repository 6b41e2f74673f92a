//! The control tables of one node: actors, their names, their lives.
//!
//! Pure: events in, effects out; no clock, thread, socket or random source. Same events, same effects.

mod event;

pub use event::{ActorState, ActorView, Creation, Effect, Event, Registered};
