//! A whole cluster in one thread from one seed.
//!
//! What decides is the code that is shipped: `hub::Hub` with its brains in each node, `party::Party` with its owner in each process, and
//! both speak `wire`. What is simulated is their surroundings: the clock, the network, the bodies and what users' programs do. The
//! simulator decides nothing that a brain or a core decides, and has no message of its own for what a node or a party says.
//!
//! A run has two halves. While faults last, messages are lost (and sent again), repeated, delayed and
//! overtaken, rings are full, processes are killed and paused, workers fail to start. Then faults stop, and whatever is
//! still to be done must be done before a deadline.
//!
//! What must hold (`oracle`):
//!
//! - **SIM-1** each task of a living owner ends exactly once, in a way that its history explains.
//! - **SIM-2** a value is the one that a run without faults gives.
//! - **SIM-3** a task starts at most once more than its retries allow, and never after its value was sent.
//! - **SIM-4** calls of one caller start on an actor in the order of submission.
//! - **SIM-5** once faults stop, nothing waits for ever.
//! - **SIM-6** at rest nothing is held: no lease, no object, no actor out of scope, no room in memory, no file, no pin.
//! - **SIM-8** an object that somebody holds, wherever, is there, unless somebody on its way was killed (OWN-2).
//! - **SIM-9** whoever reads a generator gets each value once and in order, then at most one failure, then the end (STREAM-1, STREAM-2).
//! - **SIM-10** nothing is read from room that was given to another value, nothing is freed twice, and what is said to be lost was lost.
//! - **SIM-11** a placement group has all its bundles or none, what runs in it fits into it, and all is given back when it is removed.
//! - **SIM-12** what somebody holds outlives its owner, if nobody else on its way was killed; a task of the dead ends by its rules; and in the
//!   end the keeper keeps nothing.
//! - **SIM-7** the same seed gives the same run.
//!
//! The brains' own invariants are checked all along: after each step in a debug build, else now and then.
//!
//! Several nodes form a cluster (`members`): the first is its head, the others come in, and some die as a whole. They have real carriers and
//! sessions (`abroad`), over lines that are cut. What waits on one node goes to another, and some tasks and actors ask for a certain node, so
//! that calls, values, references, gifts, deaths and estates cross nodes all the time.

mod abroad;
mod away;
mod body;
mod driver;
mod env;
mod faults;
mod grouped;
mod journal;
mod keeper;
mod large;
mod looks;
mod members;
mod memory;
mod network;
mod node;
mod oracle;
mod process;
mod questions;
mod refs;
mod rng;
mod settings;
mod streams;
mod values;
mod work;
mod worker;
mod world;

pub use env::Counts;
pub use settings::Settings;
pub use world::{Broken, Report, run};
