//! One node: its worker pool, local scheduler, control tables and store, in one thread.
//!
//! The same node runs inside a driver (`init()`) or as a daemon (`eagleray start`). It decides nothing: `looped` turns sockets, deaths and
//! time into steps of the core (`hub::Hub`), and `machine` does what that asks for (`hub::Body`). No Python here.
//!
//! - **NODE-1** a dead process's rings, slot and extents are reused only after every peer has read what it published: see `hub`.
//! - **NODE-2** a worker's death is what the zygote's wait says, never a closed socket alone.
//! - **NODE-3** nothing outlives the node: workers, zygote, session folder.

pub mod abroad;
mod conns;
mod family;
mod folders;
mod handshake;
pub mod launcher;
mod lines;
mod logs;
mod looped;
mod machine;
mod memory;
mod output;
#[cfg(test)]
mod output_tests;
mod poll;
#[cfg(test)]
mod tests;
mod values;
mod zygote;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

pub use folders::remove_session;
pub use handshake::StartKeeper;
pub use memory::MemoryOptions;
use model::{NodeId, Resources};
use net::unix;

/// What a node is told once.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it has.
    pub total: Resources,
    /// Visible names of its GPUs.
    pub gpu_names: Vec<Box<str>>,
    /// Bytes of the arena.
    pub store_bytes: u64,
    /// Where values go that the arena has no room for; of this session alone, and removed with it. None: they go nowhere.
    pub folders: Vec<store::Folder>,
    /// A file system that is filled to so many thousandths takes no more of them.
    pub folders_full_at: u32,
    /// Cores that waiters may count on.
    pub cores: u32,
    /// Version of the interpreter that its workers run; drivers of another one are refused.
    pub python: Box<str>,
    /// Starts a zygote: program and arguments.
    pub zygote: Vec<OsString>,
    /// More environment for the zygote.
    pub zygote_env: Vec<(OsString, OsString)>,
    /// Its folder; made by the node.
    pub session_dir: PathBuf,
    /// Where drivers of other processes knock.
    pub listen: Option<PathBuf>,
    /// Whether it is of no use if they cannot: a daemon. A program does without them.
    pub must_listen: bool,
    /// Workers to start before anyone asks.
    pub prestart: u32,
    /// An idle worker beyond those is ended after this long.
    pub idle_ms_max: u64,
    /// Workers that there may be at once; no more than the segment has room for, and some for drivers.
    pub workers_max: u32,
    /// Rings that there may be at once; a pair of processes uses two.
    pub rings_max: u32,
    /// The rings of a pair that had nothing to say for this long are taken back.
    pub link_idle_ms_max: u64,
    /// How long an ending worker may take for its exit handlers before it is killed.
    pub grace_ms_max: u64,
    /// How many bytes of ended tasks each process keeps in memory, to run them again.
    pub lineage_bytes_max: u64,
    /// How memory is watched.
    pub memory: MemoryOptions,
    /// Starts who takes over from processes that die. None: nobody does, and what they owned is lost.
    pub keeper: Option<StartKeeper>,
    /// Whether the session's folder stays when the node ends.
    pub keep_session: bool,
    /// Its number in its cluster, from one on: part of the name of each of its processes, and never used again. One for a node alone.
    pub number: u32,
    /// Its id, and the seed for jobs' root tasks.
    pub id: NodeId,
    /// Its cluster. None: it is alone, and there is nobody who could reach it from elsewhere.
    pub cluster: Option<abroad::ClusterOptions>,
}

/// Why a node could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{what}: {cause}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system answered.
        cause: std::io::Error,
    },
    /// The store could not be made.
    #[error("cannot make the object store: {0}")]
    Store(#[from] store::Error),
}

/// What is said where something needs a descriptor of the node.
pub(crate) const NO_DESCRIPTORS: &str = "the node has no file descriptors left: raise its limit (`ulimit -n`)";

/// What the handle asks the loop for.
pub(crate) enum Command {
    Connect(OwnedFd),
    Stop,
}

/// A running node, in the hands of the process that hosts it.
pub struct Handle {
    commands: Arc<Mutex<VecDeque<Command>>>,
    wake: OwnedFd,
    thread: Mutex<Option<std::thread::JoinHandle<Option<String>>>>,
    /// The node has heard that it is to stop.
    is_stopping: Arc<AtomicBool>,
    membership: Arc<Standing>,
    address: Option<Box<str>>,
}

/// How far a node is on its way into its cluster.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// None: on its way. Else whether it got in, or why it did not, or is not in it any more.
    state: Mutex<Option<Result<(), String>>>,
    changed: Condvar,
}

impl Standing {
    pub(crate) fn is(&self, state: Result<(), String>) {
        let mut known = self.state.lock().expect("never poisoned");
        // The first reason why it is out counts.
        if !matches!(*known, Some(Err(_))) {
            *known = Some(state);
        }
        self.changed.notify_all();
    }
}

/// Starts a node.
///
/// # Errors
/// If the system refuses what it needs.
pub fn start(options: Options) -> Result<Handle, Error> {
    let io = |what: &'static str| move |errno: rustix::io::Errno| Error::Io { what, cause: errno.into() };
    let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK)
        .map_err(io("making an eventfd"))?;
    let commands = Arc::new(Mutex::new(VecDeque::new()));
    let node_wake = wake.try_clone().map_err(|cause| Error::Io { what: "cloning an eventfd", cause })?;
    let membership = Arc::new(Standing::default());
    let node = looped::Node::new(options, node_wake, commands.clone(), membership.clone())?;
    let address = node.machine.abroad.as_ref().and_then(|abroad| abroad.address().map(Box::from));
    let is_stopping = Arc::new(AtomicBool::new(false));
    let stops = is_stopping.clone();
    let run = move || {
        // A bug in the node fails the node, never the user's program.
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| node.run(&stops))) {
            Ok(()) => None,
            Err(panic) => Some(
                panic
                    .downcast_ref::<&str>()
                    .map(ToString::to_string)
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "unknown".into()),
            ),
        }
    };
    let thread = net::without_signals(|| std::thread::Builder::new().name("eagleray-node".into()).spawn(run))
        .map_err(|cause| Error::Io { what: "starting the node's thread", cause })?;
    Ok(Handle { commands, wake, thread: Mutex::new(Some(thread)), is_stopping, membership, address })
}

/// A node that has not begun to end by then never will,
const STOP_MS_MAX: u64 = 15_000;
/// and one that has, not after this long: with thousands of workers that takes a while.
const END_MS_MAX: u64 = 120_000;

impl Handle {
    /// A new connection to the node, for a driver in this process.
    ///
    /// # Errors
    /// If the system has no more descriptors.
    pub fn connect(&self) -> Result<OwnedFd, Error> {
        let (ours, theirs) =
            unix::pair().map_err(|errno| Error::Io { what: "making a socket pair", cause: errno.into() })?;
        self.command(Command::Connect(theirs));
        Ok(ours)
    }

    /// Where other nodes reach it; nothing if they do not.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// Waits until the node belongs to its cluster.
    ///
    /// # Errors
    /// Why it does not.
    pub fn await_member(&self, patience: Duration) -> Result<(), String> {
        let until = Instant::now() + patience;
        let mut state = self.membership.state.lock().expect("never poisoned");
        loop {
            if let Some(state) = &*state {
                return state.clone();
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("the head has let this node in, and does not answer it now".into());
            }
            if !self.is_running() {
                return Err("the node has ended".into());
            }
            let slice = left.min(Duration::from_millis(100));
            state = self.membership.changed.wait_timeout(state, slice).expect("never poisoned").0;
        }
    }

    /// Why the node does not belong to its cluster any more, if that is so.
    #[must_use]
    pub fn left_because(&self) -> Option<String> {
        match &*self.membership.state.lock().expect("never poisoned") {
            Some(Err(why)) => Some(why.clone()),
            Some(Ok(())) | None => None,
        }
    }

    fn command(&self, command: Command) {
        self.commands.lock().expect("never poisoned").push_back(command);
        let _ = rustix::io::write(self.wake.as_fd(), &1_u64.to_ne_bytes());
    }

    /// Ends the node and everything it started; waits until that is done. Returns what went wrong in it, if anything did.
    pub fn stop(&self) -> Option<String> {
        self.command(Command::Stop);
        let start = net::clock::now();
        while self.is_running() {
            let limit_ms = if self.is_stopping.load(Ordering::Relaxed) { END_MS_MAX } else { STOP_MS_MAX };
            if net::clock::now().ms_since(start) > limit_ms {
                // A program that closes descriptors that are not its own takes away what the node is woken by.
                return Some("it does not answer; were its file descriptors closed?".into());
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.join()
    }

    /// Waits until the node ends by itself (somebody asked the daemon to stop).
    pub fn join(&self) -> Option<String> {
        let thread = self.thread.lock().expect("never poisoned").take()?;
        thread.join().ok().flatten()
    }

    /// Whether the node still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.lock().expect("never poisoned").as_ref().is_some_and(|thread| !thread.is_finished())
    }
}
