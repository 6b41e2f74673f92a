//! What can go wrong with a line, and with what is to be sent.

use wire::Malformed;
use wire::session::{Channel, NoHello, Refusal};

/// Why a line is over. The session is not: all that was under way goes by the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What came is not what a session says.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The peer has another protocol version.
    #[error("the peer has protocol version {0}")]
    Version(u32),
    /// The peer does not take the line.
    #[error("the peer refuses: {0}")]
    Refused(Refusal),
    /// Something is missing between what has come and what comes, or was asked for: one of the two sides is wrong.
    #[error("the peer does not go on behind byte {0}")]
    Gap(u64),
    /// The peer sends more on this channel than it was allowed to.
    #[error("more than was granted came from {} for {}", .0.from, .0.to)]
    Overrun(Channel),
}

impl Error {
    /// Whether another line may do better.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Refused(refusal) => !refusal.is_final(),
            Self::Malformed(_) => true,
            Self::Version(_) | Self::Gap(_) | Self::Overrun(_) => false,
        }
    }
}

impl From<NoHello> for Error {
    fn from(no_hello: NoHello) -> Self {
        match no_hello {
            NoHello::Malformed(malformed) => malformed.into(),
            NoHello::Version(version) => Self::Version(version),
        }
    }
}

/// Why something is not taken to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no room; `Notice::Room` comes when there may be.
    #[error("no room")]
    Full,
    /// It will never be taken.
    #[error("an item of {0} bytes")]
    TooLarge(usize),
    /// A verdict has ended the session.
    #[error("the session has ended")]
    Ended,
}
