//! The control tables of one node: actors and placement groups, their names, their lives.
//!
//! Pure: events in, effects out; no clock, thread, socket or random source. Same events, same effects.
//!
//! ```text
//! Pending ──Placed──▶ Alive ──crash, kill(no_restart=false)──▶ Restarting ──Placed──▶ Alive ...
//!    └─────────────────┴───────── kill, exit, no restart left, owner or scope gone ───┴──▶ Dead
//! ```
//!
//! Invariants, checked by [`Actors::check_invariants`] and by the tests that bear their names:
//!
//! - **CTL-1** a name has one actor, and every living actor with a name has it.
//! - **CTL-2** a dead actor never comes back, and is said to be dead once.
//! - **CTL-3** a worker serves one life of one actor.
//! - **CTL-4** an actor is not started again more often than `restarts_max` allows; lives count upwards.
//! - **CTL-5** no owned actor lives on after the process that made it.
//! - **CTL-6** no more than `dead_max` dead actors are remembered.
//! - **CTL-7** a life is postponed only while its actor waits for it; an actor whose constructors keep failing is
//!   started again ever more rarely.
//!
//! Map: `actors` has the handlers, `life` the changes of state they share; `names` and `memory` are the
//! tables beside the actors; `view` is for readers. `groups` is a table of its own: placement groups.

mod actors;
mod event;
mod groups;
mod jobs;
mod life;
mod memory;
mod names;
mod record;
mod view;

pub use actors::Actors;
pub use event::{ActorState, ActorView, Creation, Effect, Event, Registered};
pub use groups::{GroupCreation, GroupEffect, GroupEvent, GroupRecord, GroupState, Groups, Maker};
pub use jobs::Jobs;
pub use record::Record;
