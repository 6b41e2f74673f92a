//! What a node decides, without a clock, thread, socket or process of its own (decision 16).
//!
//! Messages and what happened to processes come in; the core tells brains of it and works through a [`Body`]: the node's with epoll, sockets
//! and a zygote, or the simulator's. Both run this code as it is. What it keeps lies in rooms, each in the file of its name, with fields that
//! no other file sees:
//!
//! - `procs`: who is here. `death`: what is done when one dies, and when nobody needs anything of it any more. `post`: what processes say to
//!   each other.
//! - `meeting`: who hears of whose death. `numbers`: slots and bits that are given out and come back.
//! - `links`: which pairs have rings; `linking` carries that out.
//! - `leases`, `actors`, `groups`: carry out what the brains of those names decide. `jobs`: what is kept of drivers that left.
//! - `abroad`: processes of other nodes, as they are seen from here. `cuts`: when all of several nodes have been heard.
//! - `members`: which nodes belong to the cluster. `parting`: what is done when one is dead.
//! - `overflow`: leases that other nodes give. `lodging`: actors that live on other nodes than the head, whose table they are in.
//!   `enquiries`: questions that the head answers for all. `last_words`: what workers elsewhere have printed.
//! - `estates`: who testifies when somebody died, and until when that is waited for.
//! - `functions`: who has, who asks, who waits. `room`: rounds of giving room in the arena back.
//! - `notices`, `inventory`, `watching`, `status`: what people are told.
//!
//! Invariants:
//!
//! - **NODE-1** a dead process's rings, slot and extents are reused only after every peer has read what it published, and the keeper has read
//!   what it left.
//! - **NODE-4** whoever asks is answered once, or is dead; of what is over nothing is kept in any table.
//! - **LINK-1..3**: see `links`.

mod abroad;
mod actors;
mod body;
mod cuts;
mod death;
mod enquiries;
mod estates;
mod functions;
mod groups;
mod hub;
mod inventory;
mod jobs;
mod last_words;
mod leases;
mod linking;
pub mod links;
mod lodging;
mod meeting;
pub mod members;
mod messages;
mod notices;
mod numbers;
mod overflow;
mod parting;
mod post;
mod procs;
mod questions;
mod reserving;
mod room;
mod seeking;
mod status;
mod watching;

pub use abroad::LastFrames;
pub use body::{Asker, Body, Dead, Door, Listening, NoRoom, Past, Step, StoreUse};
pub use hub::{Hub, Options};
pub use procs::{Joining, Kind, Proc};
