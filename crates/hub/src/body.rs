//! What a node can do, as its core asks for it: speak to processes, start and end them, hand out rings and room.
//!
//! A step is generic over the body, so that the real one compiles to plain calls. A body does what it is told and answers what it is asked;
//! it never calls back. What it learns meanwhile (a connection that broke, a fork that failed) it says with a step of its own.

use model::{Bulk, FunctionId, JobId, ProcId, Tick, WorkerExit};
use wire::abroad::{AboutValues, Between, Death};
use wire::control::{Answer, FromNodeOf, Rings};
use wire::members::NodeInfo;

use crate::links::Level;

/// What one step gets: when it happens, and the body to work through.
pub struct Step<'a, B> {
    /// The moment of the step.
    pub now: Tick,
    /// Through whom.
    pub body: &'a mut B,
}

/// Names a connection while it lasts.
pub type Door = usize;

/// Who asks a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Where the answer goes.
    pub door: Door,
    /// None: a visitor, who is no part of the session.
    pub who: Option<ProcId>,
}

/// Whether somebody takes what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listening {
    /// All that was said has gone out.
    Keeps,
    /// Some of it has not.
    IsBehind,
    /// Nobody is there.
    Gone,
}

/// Why there is no room now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// There may be some later.
    Full,
    /// There never will be.
    TooLarge,
}

/// Bytes of the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUse {
    /// In all.
    pub capacity: u64,
    /// In use.
    pub used: u64,
    /// Free.
    pub free: u64,
    /// In use, left behind by processes that are gone.
    pub orphaned: u64,
    /// Not bytes: values of other nodes that have a copy here.
    pub copies: u64,
    /// Not bytes: values that are kept here for processes of other nodes.
    pub kept: u64,
}

/// A process that has just died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    /// The process that died.
    pub id: ProcId,
    /// Its pid.
    pub pid: i32,
    /// Its job.
    pub job: JobId,
    /// Whether it was a worker that had joined.
    pub is_worker: bool,
    /// What marks its output, if it served an actor.
    pub shown_as: Option<Box<str>>,
    /// How it ended.
    pub exit: WorkerExit,
}

/// What a new process is told of those that have died.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Those that have left something, and who has it.
    pub heirs: Vec<(ProcId, ProcId)>,
    /// How many there were.
    pub estates: u16,
}

/// See the module's documentation.
pub trait Body {
    /// What processes say to each other by way of the node, which does not read it.
    type Letter;

    /// Says something to a process that has joined and whose connection is open. Never waits.
    fn tell(&mut self, to: ProcId, message: FromNodeOf<Self::Letter>);
    /// Answers a question, if who asked is still there.
    fn answer(&mut self, to: Door, request: u64, answer: Answer);
    /// Whether what was said there has gone out.
    fn listening(&self, at: Door) -> Listening;
    /// Ends a connection.
    fn hang_up(&mut self, at: Door);
    /// A driver has taken so much of what its workers print.
    fn logs_taken(&mut self, by: ProcId, weight: u64);
    /// A driver wants to hear when it has got all that its `colleagues`, the other processes of its job, have printed so far.
    fn last_words_wanted(&mut self, by: ProcId, job: JobId, colleagues: Vec<ProcId>);
    /// The node shall end.
    fn stop(&mut self);

    /// What is shared about a process is made fresh for a new one.
    fn enter(&mut self, who: ProcId, pid: i32);
    /// Forks a worker, which joins later.
    ///
    /// # Errors
    /// Why it cannot.
    fn start_worker(&mut self, who: ProcId) -> Result<(), Box<str>>;
    /// Starts the keeper, which hears what it is told from now on. False: it cannot.
    fn start_keeper(&mut self, who: ProcId, past: Past) -> bool;
    /// Ends a process at once. Its death is said when it is known.
    fn kill(&mut self, who: ProcId, pid: i32);
    /// Whether something that it owns may be needed by others.
    fn is_needed(&self, who: ProcId) -> bool;
    /// A worker is given to somebody else.
    fn assigned(&mut self, worker: ProcId);
    /// What a worker runs; empty if nothing.
    fn label(&self, who: ProcId) -> Box<str>;
    /// The end of what a worker wrote to its standard error.
    fn last_errors(&self, who: ProcId) -> String;
    /// Memory that a process shares with nobody; zero if it cannot be measured.
    fn own_bytes(&self, pid: i32) -> u64;

    /// A process is dead: its connection is of no use, what it has printed is read to the end.
    fn died(&mut self, dead: Dead);
    /// Whether it has recorded anything for an heir.
    fn has_left(&self, dead: ProcId) -> bool;
    /// NODE-1: nobody needs anything of it any more. Its journal, extents and files are free.
    fn bury(&mut self, dead: ProcId);

    /// How far a ring is.
    fn level(&self, ring: u32) -> Level;
    /// Nobody uses the ring any more: it is made fresh.
    fn reset_ring(&mut self, ring: u32);

    /// An extent of at least so many bytes: its offset and length.
    ///
    /// # Errors
    /// If there is none.
    fn grant(&mut self, to: ProcId, length: u64) -> Result<(u64, u64), NoRoom>;
    /// Takes an extent back; anything that was not granted changes nothing.
    fn take_back(&mut self, from: ProcId, offset: u64, length: u64);
    /// Looks for values that outlived the process that made them and that nobody reads any more.
    fn sweep(&mut self);
    /// How full the arena is.
    fn store(&self) -> StoreUse;
    /// Files with values, and their bytes.
    fn files(&self) -> (u64, u64);

    /// Keeps a function's body in a file. False: the disk does not take it.
    fn file_function(&mut self, function: FunctionId, bytes: &[u8]) -> bool;
    /// What was filed.
    fn filed_function(&self, function: FunctionId) -> Option<Vec<u8>>;
    /// Removes what was filed.
    fn remove_function(&mut self, function: FunctionId);

    // What follows is asked of a body whose node was told of others (`Hub::node_joined`): one that is alone has no use for it.

    /// Says something to another node.
    fn send(&mut self, _node: u32, _message: Between<Self::Letter>) {}
    /// A process is dead: these nodes hear of it behind all that it had sent.
    fn tell_nodes(&mut self, _death: Death, _nodes: &[u32]) {}
    /// There are rings between a process here and the carrier, which stands for one there. As the carrier sees them.
    fn linked(&mut self, _here: ProcId, _there: ProcId, _rings: Rings) {}
    /// A process here uses the rings in which one there wrote, which is dead, no more.
    fn unlinked(&mut self, _here: ProcId, _there: ProcId) {}
    /// All that lies in rings to other nodes is to be sent; `Hub::flushed` follows.
    fn flush(&mut self, _ticket: u64) {}
    /// Once so much of these nodes has come, `Hub::reached` follows.
    fn reach(&mut self, _ticket: u64, _positions: &[(u32, u64)]) {}
    /// Another node has sent a driver here so much of what its workers there print.
    fn logs_sent(&mut self, _to: ProcId, _weight: usize, _from: u32) {}
    /// A node is about to belong to the cluster, or this one does from now on: a session with it begins, whoever dials.
    fn meet(&mut self, _node: &NodeInfo) {}
    /// A node belongs to the cluster, or is about to, and is where this says. Perhaps not for the first time.
    fn known(&mut self, _node: &NodeInfo) {}
    /// A verdict: the session with that node ends. `Hub::parted` follows, behind all that it had said.
    fn part(&mut self, _node: u32) {}
    /// A process wants a large value that lies elsewhere, or only to know whether it is there; `Answer::Fetched` answers it.
    fn fetch(&mut self, _by: ProcId, _request: u64, _bulk: Bulk, _is_probe: bool) {}
    /// Large values of other nodes will be needed here soon.
    fn prefetch(&mut self, _bulks: Vec<Bulk>) {}
    /// The owner of a large value needs it no more, which lies on another node, or was kept there.
    fn free_away(&mut self, _bulk: Bulk) {}
    /// Values that this process wrote are one's of another node from now on.
    fn keep_for(&mut self, _by: ProcId, _to: ProcId, _bulks: Vec<Bulk>) {}
    /// A large value of another node was kept there for a process that is dead, and is this one's now.
    fn inherit_away(&mut self, _by: ProcId, _bulk: Bulk) {}
    /// A process of this node or another one is dead; `heir` has what it has left.
    fn process_died(&mut self, _peer: ProcId, _heir: Option<ProcId>) {}
    /// A process of this node is dead, and whoever has inherited from it has said of what.
    fn settled_here(&mut self, _of: ProcId) {}
    /// Another node says something of large values.
    fn about_values(&mut self, _from: u32, _about: AboutValues) {}
    /// What is kept for other nodes is to leave the arena, so many bytes of it. True: `Hub::kept_for_others_moved` follows.
    fn move_kept(&mut self, _round: u64, _bytes: u64) -> bool {
        false
    }
    /// This node does not belong to the cluster any more, or there is none: it is to end.
    fn left_cluster(&mut self, _why: &str) {}
}
