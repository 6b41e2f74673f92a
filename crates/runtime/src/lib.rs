//! What every driver and every worker carries: submit, get, put, wait, execute.
//!
//! The thread that asks does the work: it records, writes the frame and drains replies itself. Two native threads stand by and never
//! take the interpreter's lock: `control` listens to the node, `pump` drains the rings when nobody else has done so for a while. What
//! only Python can do for them is an errand, which a thread of its own runs.
//!
//! - **RUN-1** the state's lock is never held while Python runs, and nothing blocks under it but a short write to the node and short steps in
//!   local folders: a file that comes with a reply is renamed and the list of references at its start read, one that goes is unlinked. No
//!   value is read or checked under it, and no network waited for (`lost.rs`).
//! - **RUN-2** whoever changes the state applies all effects before the lock is released.
//! - **RUN-3** at most one thread sleeps on the doorbell; when it leaves, another one that waits takes its place (`net::waiters`).

mod actors;
mod away;
mod body;
mod control;
mod effects;
mod errands;
mod error;
mod execute;
mod groups;
mod inbound;
mod inside;
mod lanes;
mod leases;
mod link;
mod linking;
mod links;
mod logs;
mod loops;
mod lost;
mod news;
mod notices;
mod objects;
mod pump;
mod records;
mod reply;
mod room;
mod serving;
mod spill;
mod stages;
mod start;
mod state;
mod stream;
mod submit;
mod waiting;
mod waits;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex};

use crossbeam_queue::SegQueue;
use model::{JobId, NodeId, ProcId, TaskId, WorkerId};
use net::{Bell, Cells, Segment, Spinner, Waiters};
use owner::Slot;

pub use actors::{ActorCreation, MadeActor, NamedHandle};
pub use errands::Errand;
pub use error::Error;
pub use execute::{Assignment, BadArgument, Build, CallArg, CallHandle, EventLoop, IncomingCall, Work};
pub use logs::LogEvent;
pub use objects::{Content, Got};
pub use owner::{GroupFacts, Next, Packed, Slot as ObjectSlot, StreamKey, Target};
pub use reply::Unsent;
pub use stages::{STAGES, Stage};
pub use start::{Connected, connect};
pub use store::Draft;
pub use stream::{Demand, UnsentItem};
pub use submit::{Returns, Submission};
pub use waiting::{Interrupts, NoInterrupts, Wait, Waited};
use wire::value;

use crate::state::State;

/// One process's part of the engine.
pub struct Runtime {
    /// This process.
    pub me: ProcId,
    /// The same, as users see it.
    pub worker_id: WorkerId,
    /// Its node.
    pub node_id: NodeId,
    /// Within what names of processes are one process's.
    pub realm: [u8; 16],
    /// The driver's job; a worker's changes with its lease.
    pub job: Mutex<JobId>,
    /// The driver's root task.
    pub root: TaskId,
    /// Namespace in force.
    pub namespace: Mutex<Box<str>>,
    /// The session's folder.
    pub session_dir: Box<str>,
    /// Where the node listens; empty if it does not.
    pub address: Box<str>,
    /// Workers give their CPU back while they wait; drivers have none.
    pub is_worker: bool,
    /// It takes over from processes that die.
    pub(crate) is_keeper: bool,
    pub(crate) segment: Arc<Segment>,
    pub(crate) bell: Bell,
    /// What wakes the carrier of this node, once there is one that stands for somebody whom we call.
    pub(crate) carrier: std::sync::OnceLock<Arc<OwnedFd>>,
    pub(crate) store: store::Client,
    pub(crate) files: store::Files,
    pub(crate) spill: spill::Spill,
    /// Until when room that comes free is given back at once.
    pub(crate) short_until_ns: AtomicU64,
    pub(crate) state: Mutex<State>,
    pub(crate) cells: Cells,
    /// Handles that Python dropped; taken up by the next thread that enters.
    pub(crate) dropped: SegQueue<Slot>,
    /// Streams that Python dropped.
    pub(crate) dropped_streams: SegQueue<StreamKey>,
    pub(crate) socket: OwnedFd,
    pub(crate) sending: Mutex<()>,
    pub(crate) spinner: Mutex<Spinner>,
    pub(crate) waiters: Waiters,
    pub(crate) naps: waiting::Naps,
    pub(crate) drains: AtomicU64,
    pub(crate) pump: pump::Pump,
    pub(crate) berth: Mutex<net::Berth>,
    pub(crate) room: Mutex<room::Answers>,
    pub(crate) room_answered: Condvar,
    pub(crate) away: away::Away,
    pub(crate) answers: control::Answers,
    pub(crate) logs: logs::Logs,
    pub(crate) waits: waits::Waits,
    pub(crate) errands: errands::Errands,
    pub(crate) has_held_back: AtomicBool,
    pub(crate) loops: Mutex<Vec<loops::LoopWatch>>,
    pub(crate) loops_count: std::sync::atomic::AtomicUsize,
    /// Values that all generators of this actor together may be ahead of who reads them; zero: any number.
    pub(crate) actor_ahead_max: std::sync::atomic::AtomicU32,
    pub(crate) interrupts: AtomicBool,
    pub(crate) fresh_interrupts: AtomicBool,
    /// Counts what readers of generators that run here have said: every event loop looks.
    pub(crate) readers_said: AtomicU64,
    /// Some ring is full: whoever sleeps looks up soon.
    pub(crate) has_stalled: AtomicBool,
    pub(crate) assignments: AtomicU64,
    pub(crate) closed: AtomicBool,
    pub(crate) threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}
