//! What can go wrong for a caller.

/// Why a request could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The node refused the connection; the text says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// The node is gone, or this process was shut down.
    #[error("the node is gone or was shut down")]
    Closed,
    /// The store has no room.
    #[error("{0}")]
    StoreFull(String),
    /// The store has no room, and no folder takes the value either.
    #[error("{0}")]
    DiskFull(String),
    /// No answer within the time allowed.
    #[error("timed out: {0}")]
    TimedOut(&'static str),
    /// The user interrupted the wait.
    #[error("interrupted")]
    Interrupted,
    /// Another actor has the name.
    #[error("the name {name} (namespace={namespace}) is taken")]
    NameTaken {
        /// The name.
        name: Box<str>,
        /// The namespace that the name is taken in.
        namespace: Box<str>,
    },
    /// The actor has as many calls outstanding as it may.
    #[error("{call}: {pending} calls are outstanding, at most {limit} may be")]
    TooManyPending {
        /// Which actor.
        actor: model::ActorId,
        /// What was to be called.
        call: Box<str>,
        /// How many there are.
        pending: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A system call failed.
    #[error("{what}: {errno}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// What the system answered.
        errno: rustix::io::Errno,
    },
}
