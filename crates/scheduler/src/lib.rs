//! Decides which waiting lease runs next on this node, on which worker, with which devices.
//!
//! Pure: events in, effects out; no clock, thread, socket or random source. Same events, same effects.
//!
//! A lease waits in the queue of its shape (kind, need, and how deeply nested its asker is) and of its
//! owner; it is *placed* when its resources are taken, and *granted* when it has a worker too. One blocked
//! shape never hides another; shapes take turns; inside a shape the owner that holds fewest is next, and
//! an owner's own leases are served in order of arrival.
//!
//! Invariants, checked by [`Scheduler::check_invariants`] and by the tests that bear their names:
//!
//! - **SCHED-1** resources are conserved: what is free and what is held make up the total.
//! - **SCHED-2** a lease has one worker and a worker one lease; a lease that its owner gave back is not
//!   granted again.
//! - **SCHED-3** no GPU is given out twice: whole ones to one lease, shares up to one.
//! - **SCHED-4** nothing waits that could be placed, except for the back-off of a capped shape, behind a group that waits, and
//!   while memory is low.
//! - **SCHED-5** no placed lease waits for a worker while one is idle.
//! - **SCHED-6** there are never more processes than `workers_max`, and never more on their way than
//!   placed leases and the stock of idle workers lack, nor than `starts_max`.
//! - **SCHED-7** indexes say what the tables say.
//! - **SCHED-8** a placement group has all its bundles or none, and a lease in it takes of them and of nothing else.
//!
//! Map: `scheduler` has the handlers, `place` the order of service, `revoke` the rule for asking leases
//! back, `groups` what placement groups add to all of it; below them are `shape` (queues), `table` (leases), `ledger` (amounts), `devices` (GPUs), `pool`
//! (workers), `memory` (what is over); `view` is for readers. `pressure`, `global` and `reserve` are brains
//! of their own: what to do when memory runs low, which node takes what another one has no room for (`known` is what it knows of them,
//! `decisions` what it remembers, `nearest` what it says where none can), and how the bundles of a group come to lie on several (`plan`).

mod decisions;
mod devices;
mod event;
mod global;
mod groups;
mod known;
mod ledger;
mod memory;
mod nearest;
mod place;
mod plan;
mod pool;
mod pressure;
mod reserve;
mod revoke;
mod scheduler;
mod shape;
mod table;
mod view;

pub use decisions::{Decision, Subject, Why};
pub use event::{Effect, Event, Grant, LeaseKind, Options};
pub use global::{Demand, Global, Home, Offer};
pub use known::Member;
pub use nearest::{Lack, in_words, nearest};
pub use plan::{Spot, plan};
pub use pressure::{Busy, Look, Relief, Verdict, Watch, Work};
pub use reserve::{GroupNews, GroupOrder, Reserve};
pub use scheduler::Scheduler;
pub use view::{Wait, WaitReason, may_move};

/// The head's number.
pub const HEAD: u32 = 1;
