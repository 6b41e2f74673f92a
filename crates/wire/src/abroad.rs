//! What nodes say to each other, beyond the frames of their processes. Carried by a session (see `session`), as items of channels or as news.

use model::{Bulk, FunctionId, GroupId, JobId, LeaseId, Need, ProcId, Resources, WorkerExit};
use serde::{Deserialize, Serialize};

use crate::control::{Answer, FromNodeOf, Question, ToNodeOf};
use crate::members::{JobHome, Load, Lodging, NodeInfo};
use crate::session::Channel;
use crate::status::Inventory;

/// Kind of an item: a frame. Its bytes: who wrote it and for whom, 8 bytes each, then the frame's header and body.
pub const FRAME: u8 = 0;
/// Kind of an item, and of news: a `Between`.
pub const BETWEEN: u8 = 1;

/// Marks the end of a channel that takes messages instead of frames: whoever does not read its rings still gets them.
const MESSAGES: u16 = 1 << 15;
/// The node itself as an end of a channel: the slot that no process has.
const NODE: u16 = ProcId::SLOT_MAX;

/// So many numbers of jobs are given to a node at a time.
pub const JOBS_A_BLOCK: u32 = 1_000;

/// What a mark in a session is about: all that a node had sent so far.
pub type Sent = u64;

/// One message; `M` is what processes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Between<M> {
    /// A process of the sending node says this to the receiving node, as if it were its own.
    Said {
        /// The process.
        by: ProcId,
        /// The message.
        message: Box<ToNodeOf<M>>,
        /// What the receiving node must know of the job that it is about.
        home: Option<Box<JobHome>>,
    },
    /// The sending node says this to a process of the receiving one, as if it were its own.
    Told {
        /// The process.
        to: ProcId,
        /// The message.
        message: Box<FromNodeOf<M>>,
    },
    /// From a process of the sending node to one of the receiving node.
    Letter {
        /// Who says it.
        sender: ProcId,
        /// To whom.
        to: ProcId,
        /// The message.
        message: M,
    },
    /// News: the letter was not delivered, its receiver is gone.
    Returned {
        /// Who had said it.
        sender: ProcId,
        /// To whom.
        to: ProcId,
        /// The message.
        message: M,
    },
    /// News: somebody at the sending node has come across a process of the receiving one, and wants to hear of its death.
    Met {
        /// The process.
        name: ProcId,
    },
    /// News: a process of the sending node is dead. Behind all that it had sent.
    Died(Death),
    /// News: all processes of the sending node have testified.
    Testified {
        /// Who is dead.
        of: ProcId,
        /// How much the sending node had sent to each other node by then, frames that lay in rings included.
        sent: Vec<(u32, Sent)>,
    },
    /// News: all nodes have testified. Once so much of theirs has come, all that came in is to be taken up.
    Settle {
        /// Who is dead.
        of: ProcId,
        /// How much of which node.
        reach: Vec<(u32, Sent)>,
    },
    /// News: answers `Settle`.
    HasSettled {
        /// Who is dead.
        of: ProcId,
        /// How much the sending node had sent to the receiving one by then.
        sent: Sent,
    },
    /// News: it is known who answers calls of a dead process of the sending node. Other workers that it had leased end.
    Settled {
        /// Who is dead.
        of: ProcId,
        /// Who answers.
        serving: Vec<ProcId>,
    },
    /// News, to the head: the sending node wants to belong to the cluster. Answered by `Members`.
    Enters(Box<NodeInfo>),
    /// News, from the head: this node is about to belong to the cluster. Answered by `Knows`.
    Joined(Box<NodeInfo>),
    /// News, to the head: whatever the sending node says from now on, that one may hear.
    Knows {
        /// The node that is about to belong to the cluster.
        node: u32,
        /// Dead processes of the sending node that have left something, and who has it.
        heirs: Vec<(ProcId, ProcId)>,
    },
    /// News, from the head: all nodes know the receiving one, which belongs to the cluster from now on.
    Members(Box<Membership>),
    /// News, from the head: this node is dead, or has left. If it is the receiving one, or the head, the receiving one ends.
    Lost {
        /// The node.
        node: u32,
        /// For people.
        why: Box<str>,
    },
    /// News, to the head: the sending node ends.
    Leaves {
        /// For people.
        why: Box<str>,
    },
    /// News, to the head: all numbers that the sending node may give to jobs will soon be given. Answered by `JobNumbers`.
    WantsJobNumbers,
    /// News, from the head: a block of numbers for jobs.
    JobNumbers {
        /// They are above this one.
        above: u32,
    },
    /// To the head: what is free on the sending node, and what waits there, where that has changed.
    Load(Load),
    /// From the head: so many leases of tasks that wait on the receiving node and ask for this may be had on that one, as far as is known.
    Offer {
        /// What each asks for.
        need: Need,
        /// The node; it may be the receiving one.
        to: u32,
        /// How many.
        count: u32,
        /// There is no room now, neither there nor elsewhere: they are to wait there.
        waits: bool,
    },
    /// A process of the sending node asks for a lease. Answered as if it were one of the receiving node, or by `Bounced`.
    Request {
        /// The lease.
        lease: LeaseId,
        /// The job that it is for.
        job: JobId,
        /// What it asks for.
        need: Need,
        /// The function that waits, for people.
        name: Box<str>,
        /// It does not come back if there is no room.
        waits: bool,
        /// What the receiving node must know of the job.
        home: Option<Box<JobHome>>,
    },
    /// A lease that another node was to give has no room there now.
    Bounced {
        /// The lease.
        lease: LeaseId,
        /// This node may have some.
        to: Option<u32>,
    },
    /// From the head: bundles of a group shall lie on the receiving node. Answered by `Prepared`.
    Prepare {
        /// Which group.
        group: GroupId,
        /// Named in the answer.
        attempt: u32,
        /// Which of its bundles, and what each holds.
        bundles: Vec<(u16, Resources)>,
        /// How long room may be waited for, in milliseconds.
        within_ms: u64,
    },
    /// To the head: they are set aside, or not.
    Prepared {
        /// As asked.
        group: GroupId,
        /// As asked.
        attempt: u32,
        /// They are.
        is_held: bool,
    },
    /// From the head: all bundles of the group are set aside, and may be used.
    Commit(GroupId),
    /// From the head: what was prepared last of this group is not needed.
    Abort(GroupId),
    /// From the head: the group is no more. What runs in its bundles on the receiving node is killed, and nothing waits for a place in it.
    Dissolve(GroupId),
    /// From the head: an actor is to live on the receiving node. Answered by `Lodged`, or by `Bounced`.
    Lodge {
        /// The actor, and what it asks for.
        lodging: Lodging,
        /// It does not come back if there is no room.
        waits: bool,
        /// What the receiving node must know of its job.
        home: Option<Box<JobHome>>,
    },
    /// To the head: an actor has its worker.
    Lodged {
        /// As in `Lodge`.
        lodging: Lodging,
        /// The worker.
        worker: ProcId,
        /// Its pid, for errors.
        pid: i32,
    },
    /// From the head: an actor needs no place there any more.
    Unlodge {
        /// As in `Lodge`.
        lease: LeaseId,
    },
    /// From the head: end the worker of an actor.
    EndWorker {
        /// The worker.
        worker: ProcId,
        /// It may run its exit handlers.
        gracefully: bool,
        /// Whoever made it has ended, so that nobody waits for what it computes: it gets less time for that.
        is_orphan: bool,
    },
    /// To the head: a question that somebody has asked the sending node. Answered by `Answers`.
    Asks {
        /// Names it.
        ticket: u64,
        /// The process that asks; none: a visitor.
        by: Option<ProcId>,
        /// What the head must know of its job.
        home: Option<Box<JobHome>>,
        /// The question.
        question: Question,
    },
    /// The answer.
    Answers {
        /// As asked.
        ticket: u64,
        /// Who asked.
        to: Option<ProcId>,
        /// The answer.
        answer: Box<Answer>,
    },
    /// A function's body: to the head from where it was made, and from there to who wants it. None: nobody has it.
    Function {
        /// Hash of the body.
        function: FunctionId,
        /// The job that has it.
        job: JobId,
        /// The body.
        #[serde(with = "serde_bytes")]
        body: Option<Vec<u8>>,
        /// What the receiving node must know of the job.
        home: Option<Box<JobHome>>,
    },
    /// A driver of the sending node has taken so much of what the receiving one had to say of its workers' output.
    LogsTaken {
        /// The driver.
        driver: ProcId,
        /// How much.
        weight: u64,
    },
    /// To the head: somebody needs this function's body. Answered by `Function`.
    WantsFunction {
        /// Hash of the body.
        function: FunctionId,
        /// For this job.
        job: JobId,
    },
    /// News, to the head: the sending node asks for its next certificate. Answered by `Renewed`. Between the carriers of both.
    Renews {
        /// What `identity` has written.
        request: Vec<u8>,
    },
    /// News, from the head: the certificate, or why there is none.
    Renewed {
        /// As `identity` reads it.
        certificate: Result<Vec<u8>, Box<str>>,
    },
    /// What nodes say to each other of large values.
    Depot(AboutValues),
    /// Somebody at the sending node asks which objects there are in the cluster. Answered by `Inventory`.
    WantsInventory {
        /// Names it.
        number: u64,
        /// So many of each process, the largest first.
        limit: u32,
    },
    /// What the processes of the sending node hold.
    Inventory {
        /// As asked.
        number: u64,
        /// What they said in time.
        inventory: Box<Inventory>,
    },
}

/// Of large values that lie on one node and are known on others. Each is named by where it was first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AboutValues {
    /// To the node where it lies: its owner needs it no more.
    Free(Bulk),
    /// It was kept for a process that is dead, and this one has inherited it. To the node where it is kept, which says so to those with copies.
    Inherited(Bulk, ProcId),
    /// It is known what this process, which is dead, has left: what is still kept for it nobody has inherited.
    Settled(ProcId),
    /// Copies of these are of no use any more.
    Gone(Vec<Bulk>),
    /// The sending node cannot be called: the receiver, which can, is to expect no call from it, but to call it. `ticket` names who waits.
    CallMe {
        /// As the caller is to say.
        ticket: u64,
    },
    /// The node where it lay is dead: who has a copy? Answered by `Have`.
    WhoHas(Bulk),
    /// Whether the sending node has a copy.
    Have(Bulk, bool),
}

/// What a node is told when it belongs to a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// All other nodes, the head among them.
    pub nodes: Vec<NodeInfo>,
    /// Dead processes of theirs that have left something, and who has it.
    pub heirs: Vec<(ProcId, ProcId)>,
    /// Its jobs get numbers above this one, up to `JOBS_A_BLOCK` of them.
    pub jobs_above: u32,
}

/// The death of a process, as other nodes hear of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// Who is dead.
    pub peer: ProcId,
    /// How it ended.
    pub exit: WorkerExit,
    /// Who takes over what it has left.
    pub heir: Option<ProcId>,
    /// If it was a driver, its job, which is over.
    pub job: Option<JobId>,
    /// How many calls of each process of the receiving node had come for it. Others have certainly not started.
    pub calls: Vec<(ProcId, u64)>,
    /// It is long dead, and has sent the receiving node nothing that is still on its way.
    pub is_old: bool,
}

/// By which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As an item of this channel.
    Channel(Channel),
    /// As news, behind all of this slot's if it is of a death.
    News(Option<u16>),
}

/// The channel of frames from one process to another.
#[must_use]
#[inline]
pub fn frames(from: ProcId, to: ProcId) -> Channel {
    Channel { from: from.slot(), to: to.slot() }
}

impl<M> Between<M> {
    /// By which way it goes.
    #[must_use]
    pub fn way(&self) -> Way {
        let (from, to) = match self {
            Self::Said { by, .. } => (by.slot(), NODE),
            Self::Request { lease, .. } => (lease.owner.slot(), NODE),
            Self::Told { to, .. } => (NODE, to.slot()),
            Self::Letter { sender, to, .. } => (sender.slot(), to.slot()),
            // Whoever had asked for it hears of it in order with what it is told of others.
            Self::Bounced { lease, .. } => (NODE, lease.owner.slot()),
            // What a process says and what it asks comes in order, and so does what it is told: a name is looked up behind the kill.
            Self::Asks { by: Some(by), .. } => (by.slot(), NODE),
            Self::Answers { to: Some(to), .. } => (NODE, to.slot()),
            // Its death comes behind this.
            Self::Lodged { worker, .. } => (worker.slot(), NODE),
            Self::Load(_)
            | Self::Offer { .. }
            | Self::Prepare { .. }
            | Self::Prepared { .. }
            | Self::Commit(_)
            | Self::Abort(_)
            | Self::Dissolve(_)
            | Self::Lodge { .. }
            | Self::LogsTaken { .. }
            | Self::Unlodge { .. }
            | Self::EndWorker { .. }
            | Self::Asks { .. }
            | Self::Answers { .. }
            | Self::Function { .. }
            | Self::WantsFunction { .. }
            | Self::WantsInventory { .. }
            | Self::Depot(_)
            | Self::Inventory { .. } => (NODE, NODE),
            Self::Died(death) => return Way::News((!death.is_old).then_some(death.peer.slot())),
            // Behind the death that is the reason.
            Self::Returned { .. }
            | Self::Met { .. }
            | Self::Testified { .. }
            | Self::Settle { .. }
            | Self::HasSettled { .. }
            | Self::Settled { .. }
            | Self::Enters(_)
            | Self::Joined(_)
            | Self::Knows { .. }
            | Self::Members(_)
            | Self::Lost { .. }
            | Self::Leaves { .. }
            | Self::WantsJobNumbers
            | Self::Renews { .. }
            | Self::Renewed { .. }
            | Self::JobNumbers { .. } => return Way::News(None),
        };
        Way::Channel(Channel { from, to: to | MESSAGES })
    }
}
