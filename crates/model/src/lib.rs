//! The words every crate uses: ids, resources, what a task asks for, how it can fail.
//!
//! Nothing here does I/O, reads a clock or draws a random number: ids are derived or made from bytes
//! that a body passes in.

mod failure;
mod group;
mod id;
mod place;
mod process;
mod resources;
mod task;
mod time;
mod wish;

pub use failure::{ActorDeath, Failure, Remains, WorkerExit};
pub use group::{GroupOptions, Seat, Strategy, Where};
pub use id::{ActorId, FunctionId, GroupId, IdLength, JobId, LeaseId, NodeId, ObjectId, TaskId, TaskKey, WorkerId};
pub use place::{Bulk, FileId, Filed, Place};
pub use process::{Dead, ProcId};
pub use resources::{EnvVars, Need, Quantity, Resources};
pub use task::{ActorOptions, Language, Lifetime, Template, Yields};
pub use time::Tick;
pub use wish::{Labels, Match, Wish};
