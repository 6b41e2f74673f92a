//! What the scheduler hears and what it wants done.

use model::{GroupId, JobId, LeaseId, Need, ProcId, Resources, Tick};

/// What a scheduler is told once.
#[derive(Clone, Debug)]
pub struct Options {
    /// What this node has.
    pub total: Resources,
    /// Visible names of the GPUs, in order (`"0"`, or UUIDs where the user preset them).
    pub gpu_names: Vec<Box<str>>,
    /// Workers to start before anyone asks; also how many idle ones are kept.
    pub prestart: u32,
    /// An idle worker beyond `prestart` is ended after this long.
    pub idle_ms_max: u64,
    /// Processes at most, over all kinds.
    pub workers_max: u32,
    /// Worker processes that start at the same time, at most: hundreds at once would only be in each other's way.
    pub starts_max: u32,
}

/// What the lease is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// Calls of plain functions; returned and handed on.
    Tasks,
    /// One actor for its life; the worker is never reused.
    Actor,
}

/// What a lease got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// GPUs assigned, by visible name.
    pub gpus: Vec<Box<str>>,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Somebody wants a worker. Repeating a `lease` gives the first answer again, or leaves it waiting.
    LeaseRequested {
        /// Chosen by the owner.
        lease: LeaseId,
        /// For fairness and clean-up.
        job: JobId,
        /// For whom and how long.
        kind: LeaseKind,
        /// How much.
        need: Need,
    },
    /// The owner no longer wants it, granted or not. Its worker, if any, is as good as returned.
    LeaseCancelled(LeaseId),
    /// Another node takes it over: if it still waits it is forgotten, and may be asked for again.
    LeaseMoved(LeaseId),
    /// The owner gives it back; the worker is idle. Unknown or repeated: nothing happens.
    LeaseReturned(LeaseId),
    /// A worker that `StartWorker` asked for is up.
    WorkerReady(ProcId),
    /// A `StartWorker` failed. Tried again later, with back-off.
    WorkerNotStarted,
    /// A worker is gone, for whatever reason. Its lease ends with it.
    WorkerDied(ProcId),
    /// A worker takes no more work. For its lease it is gone; what it asked for itself, and may still ask for, stands.
    WorkerRetired(ProcId),
    /// A leased worker waits for a value and lends its CPU out.
    WorkerBlocked(ProcId),
    /// It runs on and takes its CPU back, below zero if it must be.
    WorkerUnblocked(ProcId),
    /// A process that asked for leases is gone: forget its requests, end the workers it had leased
    /// for tasks (they may be in the middle of its work). Actor leases are left to the control tables.
    OwnerDied(ProcId),
    /// Set these bundles aside, all at once or not yet. Repeating it gives the first answer again, or leaves it waiting.
    GroupRequested {
        /// Which; used once.
        group: GroupId,
        /// What each bundle holds.
        bundles: Vec<Resources>,
        /// No two bundles may lie on one node.
        is_apart: bool,
    },
    /// Set these bundles of a group aside, all of them now or within the time, or none: others of the group shall lie on other nodes.
    GroupPart {
        /// The group.
        group: GroupId,
        /// Named in the answer; ends the one before.
        attempt: u32,
        /// Which of the group's bundles, and what each holds.
        bundles: Vec<(u16, Resources)>,
        /// Until when.
        until: Tick,
    },
    /// All bundles of the group are set aside: leases may take of those that were prepared here.
    GroupCommitted(GroupId),
    /// What was prepared here is not needed.
    GroupAborted(GroupId),
    /// The group ends: workers in it are killed, what waits for a place in it never gets one. Repeating it changes nothing.
    GroupRemoved(GroupId),
    /// The machine is low on memory, or no longer: meanwhile nothing is placed beside what runs.
    Pressure {
        /// Whether it is.
        is_low: bool,
    },
    /// Time passed. Needed at `Scheduler::next_tick`, harmless at any other time; the first starts the stock of workers.
    Tick,
}

/// What shall be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start one more worker; answered by `WorkerReady` or `WorkerNotStarted`.
    StartWorker,
    /// The lease has its worker.
    Granted {
        /// The lease.
        lease: LeaseId,
        /// Who runs.
        worker: ProcId,
        /// With what.
        grant: Grant,
    },
    /// Ask the owner to return this lease when nothing of its runs there: somebody else waits.
    /// Sent once per lease until it is returned.
    Revoke(LeaseId),
    /// End this worker (idle for too long, owner gone, no longer needed).
    EndWorker(ProcId),
    /// This node can never run it as it is; it goes on waiting. Said once per lease.
    Infeasible(LeaseId),
    /// The group has all its bundles.
    GroupPlaced(GroupId),
    /// Answers `GroupPart`.
    GroupPrepared {
        /// As asked.
        group: GroupId,
        /// As asked.
        attempt: u32,
        /// They are set aside until the group is committed, aborted or removed. False: there was no room.
        is_held: bool,
    },
    /// This node can never hold the group; it goes on waiting. Said once.
    GroupInfeasible(GroupId),
    /// The lease wants a place in a group that is no more: it is over, and its number is not used again.
    Refused(LeaseId),
    /// End this worker at once: its group was removed.
    KillWorker(ProcId),
}
