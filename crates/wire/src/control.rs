//! Between a process (driver or worker) and its node, over one Unix socket, in order both ways.
//!
//! A request carries an id chosen by its sender and may arrive twice: the node answers a repeat as it answered the first.

use model::{
    ActorId, ActorOptions, Bulk, EnvVars, Failure, FunctionId, GroupId, JobId, Need, NodeId, ProcId, TaskId,
    WorkerExit, WorkerId,
};
use serde::{Deserialize, Serialize};

pub use crate::asking::{ActorPlace, ActorRegistration, Answer, NamedActor, Question};
use crate::frame::Header;
use crate::logs::{AboutLogs, LogLines};
use crate::peer::Peer;
use crate::status::Holdings;
use crate::surroundings::Surroundings;
use crate::waits::WaitRecord;

/// Who knocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Must equal the node's.
    pub protocol: u32,
    /// Must equal the node's: both ends of a call unpickle what the other one pickled.
    pub python: Box<str>,
    /// Of the process.
    pub pid: i32,
    /// What it is.
    pub role: Role,
}

impl Hello {
    /// The protocol that these bytes speak if they are a hello, of whatever version: what stands behind it may have changed its form.
    #[must_use]
    pub fn protocol_of(bytes: &[u8]) -> Option<u32> {
        const HELLO: u32 = 0;
        let (kind, rest) = postcard::take_from_bytes::<u32>(bytes).ok()?;
        let (protocol, _) = postcard::take_from_bytes::<u32>(rest).ok()?;
        (kind == HELLO).then_some(protocol)
    }
}

/// What a process is to its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// A user's program.
    Driver {
        /// Namespace of its actors' names; empty: one of its own.
        namespace: Box<str>,
        /// For its workers.
        surroundings: Surroundings,
        /// Whether workers' output is sent to it.
        logs: bool,
    },
    /// A worker in the slot the node reserved for it.
    Worker {
        /// Index in the segment's process table.
        slot: u16,
    },
    /// Takes over from processes that die. Part of the node's own process; welcomed before it says hello.
    Keeper,
    /// A command line that asks a question and leaves.
    Visitor,
}

/// What the node says to who may come in. The segment's and the arena's descriptors come with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The process from now on.
    pub process: ProcId,
    /// The same, as users see it.
    pub worker: WorkerId,
    /// The node.
    pub node: NodeId,
    /// Within what names of processes are one process's: the cluster, or a node that is alone.
    pub realm: [u8; 16],
    /// The driver's job; for a worker, none yet.
    pub job: JobId,
    /// The driver's root task.
    pub root: TaskId,
    /// Namespace in force.
    pub namespace: Box<str>,
    /// Name of the session's folder.
    pub session_dir: Box<str>,
    /// Where the node listens; empty if it does not.
    pub address: Box<str>,
    /// Cores that waiters may count on.
    pub cores: u32,
    /// Where values go that the arena has no room for.
    pub folders: Vec<Box<str>>,
    /// A file system that is filled to so many thousandths takes no more of them.
    pub folders_full_at: u32,
    /// How often a task is run again after its worker was killed for want of memory; below zero: any number of times.
    pub oom_retries: i32,
    /// How many bytes of ended tasks a process keeps in memory, to run them again.
    pub lineage_bytes_max: u64,
    /// Whether the process can die without its node: then it keeps a journal of what it gives away.
    pub is_mortal: bool,
    /// Processes that died before and left something, and who has taken over.
    pub heirs: Vec<(ProcId, ProcId)>,
    /// How many there were.
    pub estates: u16,
}

/// Rings between two processes of one node, as one of them sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    /// The ring I write.
    pub out: u32,
    /// The bit in the peer's ready map that stands for it.
    pub out_bit: u16,
    /// The ring I read.
    pub inward: u32,
    /// The bit in my ready map that stands for it.
    pub in_bit: u16,
}

/// How far a process has come on a link on which it has nothing under way, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quiet {
    /// Written by it.
    pub written: u64,
    /// Read by it.
    pub read: u64,
}

/// From a process to its node.
pub type ToNode = ToNodeOf<Peer>;

/// From a process to its node; `M` is what processes say to each other, which the node carries unread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToNodeOf<M> {
    /// First on every connection.
    Hello(Hello),
    /// Wants a worker. Answered by `Granted`, or by `LeaseRefused`.
    RequestLease {
        /// The sender's number for it.
        number: u64,
        /// For fairness.
        job: JobId,
        /// How much.
        need: Need,
        /// Which function waits, for people.
        name: Box<str>,
    },
    /// Does not need it any more, granted or not.
    ReturnLease {
        /// As requested.
        number: u64,
    },
    /// Waits for a value (or no longer): lends its CPU out.
    Blocked {
        /// False: runs on.
        blocked: bool,
    },
    /// Make an actor. Answered by `ActorAnswer`, then `Actor` whenever its state changes.
    CreateActor {
        /// Chosen by the creator.
        actor: ActorId,
        /// Its job.
        job: JobId,
        /// What it asked for.
        options: ActorOptions,
        /// Take the one that has the name already.
        get_if_exists: bool,
        /// What a worker needs to build it; opaque to the node.
        #[serde(with = "serde_bytes")]
        spec: Vec<u8>,
    },
    /// Holds a handle: tell me where it is, now and whenever that changes.
    WatchActor {
        /// The actor.
        actor: ActorId,
    },
    /// Waits for a placement group. Answered by `Group` once it has its bundles, or is no more.
    WatchGroup {
        /// The placement group.
        group: GroupId,
    },
    /// `kill`.
    KillActor {
        /// The actor.
        actor: ActorId,
        /// Or let it restart.
        no_restart: bool,
    },
    /// The last handle is gone and its calls are done.
    ActorOutOfScope {
        /// The actor.
        actor: ActorId,
    },
    /// A worker built its actor.
    ActorBuilt {
        /// The actor.
        actor: ActorId,
        /// Its class, or what its `__repr__` says: marks its output.
        shown_as: Box<str>,
    },
    /// A worker could not build its actor; the error as a value.
    ActorBuildFailed {
        /// The actor.
        actor: ActorId,
        /// What its constructor raised.
        error: Vec<u8>,
    },
    /// A worker is about to end on its own will.
    Leaving,
    /// A worker has served as many calls as it may: its lease ends now, it itself once nobody needs a value of its.
    Retiring,
    /// A function's body, once per content.
    Export {
        /// Hash of the body.
        function: FunctionId,
        /// The body, pickled.
        #[serde(with = "serde_bytes")]
        body: Vec<u8>,
    },
    /// More room in the arena; answered by `Extent`.
    WantExtent {
        /// Bytes at least.
        length: u64,
    },
    /// Room that the sender no longer uses.
    ReturnExtent {
        /// Offset in the arena.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Large values of other nodes that will be needed here soon.
    Prefetch(Vec<Bulk>),
    /// A large value of ours that lies on another node is needed no more.
    FreeAway(Bulk),
    /// A large value on another node, which was kept there for a process that is dead, is ours now.
    InheritAway(Bulk),
    /// These are for a process of another node, which knows them by their names: they are kept here until it needs them no more.
    Depute {
        /// The process.
        to: ProcId,
        /// The values.
        bulks: Vec<Bulk>,
    },
    /// Answers `GiveBackRoom`.
    GaveBack {
        /// As asked.
        round: u64,
        /// Bytes that were moved out of the arena.
        bytes: u64,
    },
    /// The sender uses the rings to this peer no more: it was told so, or the peer is dead and all it had published was read.
    LinkClosed {
        /// To whom.
        peer: ProcId,
    },
    /// Has calls for a process that it has no rings to. Answered by `Linked`, now or when there are some; repeating changes nothing.
    WantLink {
        /// The process that the calls are for.
        peer: ProcId,
    },
    /// Answers `MayUnlink`.
    Idle {
        /// Whose link it is about.
        peer: ProcId,
        /// How far it is, if nothing is under way; no call is sent until `Keep` or `Unlink` comes. None: it is in use.
        quiet: Option<Quiet>,
    },
    /// For another process.
    Relay {
        /// To whom.
        to: ProcId,
        /// The message.
        message: M,
    },
    /// For other processes: all of it is passed on, or nothing if the sender dies while it says so.
    RelayAll(Vec<(ProcId, M)>),
    /// End this worker at once (a forced cancel).
    KillWorker {
        /// The worker.
        worker: ProcId,
    },
    /// A question; answered by `Answer` with the same id.
    Ask {
        /// The sender's id for it.
        request: u64,
        /// The question.
        question: Question,
    },
    /// How far a driver is with what workers print.
    Logs(AboutLogs),
    /// What this process waits for right now; replaces what it said before.
    Waits(Vec<WaitRecord>),
    /// Everybody shall collect garbage: references that hang in cycles keep values alive.
    CollectGarbage,
    /// Answers `TellHoldings`.
    Holdings {
        /// As asked.
        number: u64,
        /// What the sender holds.
        holdings: Holdings,
    },
    /// From the keeper: all that the dead process has left is taken over, or will never be.
    Inherited {
        /// Who is dead.
        of: ProcId,
    },
    /// The sender has testified for a dead process of another node: all that it has to say of it went before this.
    Testified {
        /// Who is dead.
        of: ProcId,
    },
    /// From the keeper: all have testified; these other nodes shall have all that is under way between them taken up. Answered by
    /// `NodeSettled` for each.
    SettleAbroad {
        /// Who is dead.
        of: ProcId,
        /// The nodes.
        nodes: Vec<u32>,
    },
    /// Answers `FromNode::Settle`: what was found is claimed.
    HasSettled {
        /// Who is dead.
        of: ProcId,
    },
    /// From the keeper: it is known which calls of a dead process's are still under way. Other workers that it had leased end.
    Settled {
        /// Who is dead.
        of: ProcId,
        /// Who runs those calls.
        serving: Vec<ProcId>,
    },
    /// From the keeper: a worker has answered the last call that it ran for a dead process.
    Served {
        /// The worker.
        worker: ProcId,
    },
    /// The driver shuts down; its connection ends next.
    Bye,
    /// Something that the sender's driver should read once.
    Notice {
        /// As in `FromNode::Notice`.
        kind: Box<str>,
        /// For people.
        text: Box<str>,
    },
    /// Removes a placement group. As the question, for who waits for nothing: nothing can be in the group.
    RemoveGroup(GroupId),
    /// The sender has come across a process that it was not linked to and has had no message from: it wants to hear of its death. Answered
    /// by `PeerDied`, now or then. Saying so again changes nothing.
    Met {
        /// The process.
        name: ProcId,
    },
}

/// From a node to a process.
pub type FromNode = FromNodeOf<Peer>;

/// From a node to a process; `M` is what processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromNodeOf<M> {
    /// May come in.
    Welcome(Welcome),
    /// May not; the text says why and what to do.
    Refused(Box<str>),
    /// A lease has its worker.
    Granted {
        /// As requested.
        number: u64,
        /// Who runs.
        worker: ProcId,
        /// Its pid, for errors.
        pid: i32,
        /// GPUs assigned.
        gpus: Vec<Box<str>>,
    },
    /// There will never be a worker for this lease.
    LeaseRefused {
        /// As requested.
        number: u64,
        /// What becomes of the tasks that wait for it.
        why: Failure,
    },
    /// A placement group that the receiver waits for has its bundles, or is no more.
    Group {
        /// The placement group.
        group: GroupId,
        /// It has them.
        is_there: bool,
    },
    /// Give this lease back as soon as nothing of yours runs there.
    Revoke {
        /// As requested.
        number: u64,
    },
    /// What wakes the carrier comes with this, an eventfd: links to processes of other nodes come next.
    Carrier,
    /// Rings to somebody whom you call or who calls you.
    Linked {
        /// The process at the other end.
        peer: ProcId,
        /// The rings.
        rings: Rings,
    },
    /// Is anything under way between you and this peer? Answered by `Idle`.
    MayUnlink {
        /// The process at the other end.
        peer: ProcId,
    },
    /// The link to this peer stays: go on.
    Keep {
        /// The process at the other end.
        peer: ProcId,
    },
    /// The link to this peer is closed: let go of its rings, and say `LinkClosed`.
    Unlink {
        /// The process at the other end.
        peer: ProcId,
    },
    /// To a worker: what the lease that starts now gives you.
    Assigned {
        /// GPUs by visible name.
        gpus: Vec<Box<str>>,
        /// By public name, in ten-thousandths.
        resources: Vec<(Box<str>, i64)>,
        /// The job that the lease is for.
        job: JobId,
        /// Its namespace.
        namespace: Box<str>,
        /// The job's.
        surroundings: Surroundings,
        /// Environment variables that the lease asked for, over those of the job.
        env: EnvVars,
    },
    /// A process is gone. Told to those that have met it; to everyone, if it was a driver or a keeper, or has an heir (MEET-1). Whoever has rings
    /// with it drains what it published, then answers `LinkClosed`.
    PeerDied {
        /// The process that is gone.
        peer: ProcId,
        /// How it ended.
        exit: WorkerExit,
        /// Who takes over what it has left. Is told what you had to do with it: see `Peer::Testimony`.
        heir: Option<ProcId>,
    },
    /// To the keeper: take over what this process has left.
    Inherit {
        /// Who is dead.
        of: ProcId,
        /// Who will testify.
        witnesses: Vec<ProcId>,
    },
    /// To the keeper: all processes of this node have testified, and what they said has come.
    NodeTestified {
        /// Who is dead.
        of: ProcId,
        /// The node.
        node: u32,
    },
    /// To the keeper: answers `SettleAbroad` for one node.
    NodeSettled {
        /// Who is dead.
        of: ProcId,
        /// The node.
        node: u32,
    },
    /// To a process that comes in while others still testify for a dead process of another node: say that you have nothing to say, so that what
    /// you say from now on is known to be new.
    Testify {
        /// Who is dead.
        of: ProcId,
        /// Who wants to know.
        heir: ProcId,
    },
    /// What was registered with a dead process of another node, and was under way, has come in: take it up, claim of its heir what is found,
    /// and say `HasSettled`.
    Settle {
        /// Who is dead.
        of: ProcId,
    },
    /// The last that a dead process of another node wrote into the ring to the receiver, which had no room for it: as if read from there.
    LastFrames {
        /// Who is dead.
        peer: ProcId,
        /// The frames, in order.
        frames: Vec<(Header, Vec<u8>)>,
    },
    /// What came of `CreateActor`.
    ActorAnswer {
        /// As requested.
        request: ActorId,
        /// What came of it.
        answer: ActorRegistration,
    },
    /// Where an actor is.
    Actor {
        /// The actor.
        actor: ActorId,
        /// The state that the actor is in.
        state: ActorPlace,
        /// Counts restarts.
        incarnation: u32,
    },
    /// To a worker: build this actor, then serve its calls for life.
    BuildActor {
        /// The actor.
        actor: ActorId,
        /// As its creator sent it.
        #[serde(with = "serde_bytes")]
        spec: Vec<u8>,
        /// What it asked for.
        options: ActorOptions,
        /// How often it was built before.
        incarnation: u32,
    },
    /// Room in the arena, or none.
    Extent {
        /// Offset and length, or why not.
        granted: Result<(u64, u64), Box<str>>,
        /// What was asked for.
        wanted: u64,
    },
    /// Somebody needs room in the arena: give back what you hold and do not use, and move so much of what is yours. Answered by `GaveBack`.
    GiveBackRoom {
        /// Names this request.
        round: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Collect garbage.
    CollectGarbage,
    /// Say what you hold. Answered by `Holdings`.
    TellHoldings {
        /// Names this request.
        number: u64,
        /// So many objects, the largest first.
        limit: u32,
    },
    /// From another process.
    Relay {
        /// Who sent it.
        sender: ProcId,
        /// The message.
        message: M,
    },
    /// A relay could not be delivered: its receiver is gone.
    Undeliverable {
        /// To whom.
        to: ProcId,
        /// The message.
        message: M,
    },
    /// The answer to a question.
    Answer {
        /// As asked.
        request: u64,
        /// The answer.
        answer: Answer,
    },
    /// Lines that a worker printed.
    Log(LogLines),
    /// All that was printed before `AboutLogs::LastWords` came has been passed on.
    LastWords,
    /// Something the user should read once.
    Notice {
        /// Kind, as programs that subscribe know it: `worker_died`, `worker_pool_large`, ...
        kind: Box<str>,
        /// For people.
        text: Box<str>,
    },
    /// You are not needed any more: end yourself once nobody needs a value of yours; at once if you run something, since whoever wanted it
    /// is gone.
    Retire,
    /// End yourself: after the current call and your exit handlers, or at once.
    Exit {
        /// Run exit handlers.
        gracefully: bool,
    },
}
