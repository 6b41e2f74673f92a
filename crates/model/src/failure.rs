//! How a task can end without a value. One enum per question, so that nonsense does not compile.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ActorId;

/// What is known of a process that ended by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remains {
    /// Its pid; zero where nobody knows.
    pub pid: i32,
    /// What it printed is kept, in files that bear its pid.
    pub has_output: bool,
    /// Who has most likely ended it, if there is a guess.
    pub guess: Box<str>,
    /// The Python stack that faulthandler wrote, if it did.
    pub stack: Box<str>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerExit {
    /// It called exit with this code.
    Code(i32, Remains),
    /// A signal ended it.
    Signal(i32, Remains),
    /// Its node could not start it.
    NotStarted(Box<str>),
    /// It said that it would leave, or the node ended it on purpose.
    Intended(Box<str>),
    /// The node ended it because the machine ran low on memory.
    OutOfMemory {
        /// Who used how much.
        report: Box<str>,
        /// Nothing else ran: the same is to be expected of another run.
        is_alone: bool,
    },
    /// Its node is gone; the text says which, and why.
    NodeDied(Box<str>),
    /// It went away and nobody could say how.
    Unknown,
}

/// Why an actor is no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ActorDeath {
    /// `kill`.
    Killed,
    /// `exit_actor`, `__ray_terminate__` or `sys.exit(0)`.
    Exited,
    /// Its process ended by itself and no restart was left.
    Crashed(WorkerExit),
    /// Its constructor raised; the bytes are the error as a value.
    InitFailed(Box<[u8]>),
    /// The process that made it ended.
    OwnerDied,
    /// Its last handle went out of scope.
    OutOfScope,
    /// Nobody here knows such an actor.
    NeverExisted,
    /// Its node went away.
    NodeDied,
    /// Its placement group was removed; the flag: after it had been started.
    GroupRemoved {
        /// False: it still waited for a place.
        was_placed: bool,
    },
    /// There can be no place for it; the text says why.
    Unschedulable(Box<str>),
}

/// Why there is no value. The owner turns it into the error that `get` raises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// The user's code raised; the bytes are the error as a value.
    Raised(Box<[u8]>),
    /// As `Raised`, and the call asked for exceptions like this one to be tried again.
    Retryable(Box<[u8]>),
    /// An argument could not be computed, so the task did not run.
    Argument {
        /// The task that did not run.
        task: Box<str>,
        /// Why its argument is missing.
        cause: Arc<Failure>,
    },
    /// The worker ended while it ran the task.
    WorkerDied(WorkerExit),
    /// Somebody cancelled it.
    Cancelled,
    /// The actor is gone.
    ActorDied(ActorId, ActorDeath),
    /// The actor is starting again; whether the call ran is told by the flag.
    ActorUnavailable {
        /// The actor.
        actor: ActorId,
        /// False: it certainly did not run.
        may_have_run: bool,
    },
    /// The process that owns the value is gone.
    OwnerDied,
    /// The value was freed.
    Freed,
    /// The placement group that it was to run in, or that it stands for, was removed.
    GroupRemoved,
    /// There can be no place for it; the text says why.
    Unschedulable(Box<str>),
    /// The node is gone, or was shut down.
    NodeDied,
    /// The value does not fit into the store; the text says what was needed and what there is.
    StoreFull(Box<str>),
    /// The value is lost, and cannot be made again; the text says why.
    Lost(Box<str>),
    /// From a worker to who called: an argument does not lie any more where the call says, so the task did not run.
    ArgumentLost(Box<str>),
    /// A generator that ran again ended after fewer values than it had given before.
    Replay {
        /// How many it yielded this time.
        produced: u32,
        /// How many there were.
        expected: u32,
    },
}

impl WorkerExit {
    /// Whether the process left because its own program wanted to, and said so. A code of zero alone says nothing: `os._exit(0)` is a
    /// crash too.
    #[must_use]
    pub fn is_own_will(&self) -> bool {
        matches!(self, Self::Intended(why) if why.contains("INTENDED_USER_EXIT"))
    }

    /// What is known of it, if it ended by itself.
    #[must_use]
    pub fn remains(&self) -> Option<&Remains> {
        match self {
            Self::Code(_, remains) | Self::Signal(_, remains) => Some(remains),
            Self::NotStarted(_) | Self::Intended(_) | Self::OutOfMemory { .. } | Self::NodeDied(_) | Self::Unknown => {
                None
            }
        }
    }
}

/// Without the stack, which has many lines: whoever wants it finds it in the remains.
impl fmt::Display for WorkerExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code, _) => write!(f, "exit code {code}"),
            Self::Signal(signal, remains) => {
                write!(f, "signal {signal} ({})", signal_name(*signal))?;
                if remains.guess.is_empty() { Ok(()) } else { write!(f, "\n{}", remains.guess) }
            }
            Self::NotStarted(why) => write!(f, "it could not be started: {why}"),
            Self::Intended(why) | Self::NodeDied(why) => f.write_str(why),
            Self::OutOfMemory { report, .. } => f.write_str(report),
            Self::Unknown => f.write_str("an unknown cause"),
        }
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => "signal",
    }
}
