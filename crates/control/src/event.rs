//! What the actor table hears and what it wants done.

use model::{ActorDeath, ActorId, ActorOptions, JobId, ProcId, WorkerExit};

/// An actor to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    /// Chosen by the creator.
    pub actor: ActorId,
    /// Who made it; it dies with this process unless it is detached.
    pub owner: ProcId,
    /// Its job.
    pub job: JobId,
    /// What it asked for.
    pub options: ActorOptions,
    /// Take the actor that has the name already, instead of failing.
    pub get_if_exists: bool,
    /// Class, arguments: what a worker needs to build it, now and at each restart. Opaque here.
    pub spec: Box<[u8]>,
}

/// Where an actor is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActorState {
    /// Waits for a worker.
    Pending,
    /// Has a worker, its constructor runs or ran there. Calls may be sent.
    Alive {
        /// The worker.
        worker: ProcId,
    },
    /// Its worker is gone and a new one is on its way.
    Restarting,
    /// For good.
    Dead(ActorDeath),
}

/// What everyone who holds a handle is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorView {
    /// The actor.
    pub actor: ActorId,
    /// Where it is in its life.
    pub state: ActorState,
    /// Counts restarts; a caller drops what it knew of a lower incarnation.
    pub incarnation: u32,
}

/// The answer to a registration or look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registered {
    /// It is new.
    Created(ActorId),
    /// `get_if_exists` found this one.
    Existing(ActorId),
    /// Another one has the name.
    NameTaken,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// `Class.remote()`. Repeating it with the same actor id gives the first answer again.
    CreateRequested(Creation),
    /// The scheduler found a worker. One for an older life is ignored: its `Unplace` has ended it.
    Placed {
        /// Which actor.
        actor: ActorId,
        /// Which life, as in `Place`.
        incarnation: u32,
        /// On which worker.
        worker: ProcId,
    },
    /// There is no place for the actor, now or later, or not any more: it is dead for this cause, whatever restarts are left.
    Displaced {
        /// Which actor.
        actor: ActorId,
        /// The cause of its death.
        death: ActorDeath,
    },
    /// The constructor returned.
    Built {
        /// Which actor.
        actor: ActorId,
        /// On which worker (an answer of an older incarnation is ignored).
        worker: ProcId,
    },
    /// The constructor raised (error as a value). No restart: the same arguments would raise again,
    /// unless this was a restart, which uses up restarts until none is left.
    BuildFailed {
        /// Which actor.
        actor: ActorId,
        /// On which worker.
        worker: ProcId,
        /// The error as a value.
        error: Box<[u8]>,
    },
    /// The actor is about to leave on its own will (`exit_actor`); the process will end.
    Leaving {
        /// On which worker.
        worker: ProcId,
    },
    /// A process is gone: as a worker of an actor, as an owner of actors, or both.
    ProcessDied {
        /// The process.
        process: ProcId,
        /// How it ended.
        exit: WorkerExit,
    },
    /// `kill(actor, no_restart)`.
    KillRequested {
        /// The actor.
        actor: ActorId,
        /// False: it may restart, which uses up a restart.
        no_restart: bool,
    },
    /// Its creator says that the last handle is gone and all its calls are done.
    OutOfScope(ActorId),
    /// A driver ended: its actors die, detached ones stay.
    JobEnded(JobId),
    /// Time passed. Needed at `Actors::next_tick`, harmless at any other time.
    Tick,
}

/// What shall be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Answer the creator.
    Answer {
        /// The creator's actor id, as in its request.
        request: ActorId,
        /// What came of it.
        answer: Registered,
    },
    /// Ask the scheduler for a worker for this actor (its incarnation makes the request unique).
    Place {
        /// The actor.
        actor: ActorId,
        /// Which life.
        incarnation: u32,
    },
    /// It needs no place any more (killed while waiting).
    Unplace {
        /// The actor.
        actor: ActorId,
        /// Which life.
        incarnation: u32,
    },
    /// Send the spec to the worker.
    Build {
        /// The actor.
        actor: ActorId,
        /// The worker.
        worker: ProcId,
    },
    /// Tell everyone who holds a handle.
    Publish(ActorView),
    /// End this process: with a chance to clean up, or at once.
    EndWorker {
        /// The worker.
        worker: ProcId,
        /// Let it run its exit handlers first.
        gracefully: bool,
    },
}
