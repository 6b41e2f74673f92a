//! Between two nodes, on a line that has nothing else to do: large values. Each message is its length, 4 bytes, and that many bytes of postcard.
//!
//! Whoever has called says `Opening`. Then one of the two asks and the other one answers, in turn; behind `Answer::Sending` come the value's bytes
//! from `offset` on, as they are.

use model::{Bulk, ProcId};
use serde::{Deserialize, Serialize};

/// What a caller says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opening {
    /// It will ask.
    Asks,
    /// It will answer: somebody who cannot call it has asked it to call.
    Answers {
        /// As in `AboutValues::CallMe`.
        ticket: u64,
    },
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The value's name.
    pub bulk: Bulk,
    /// From this byte on.
    pub offset: u64,
    /// Whoever answers may name another node that has it.
    pub may_be_sent_on: bool,
    /// Only whether it is there.
    pub is_probe: bool,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The rest of the value follows, unless it was a probe. If the line ends before, it may be asked for by another one.
    Sending {
        /// Its owner, or the node of that; none if that is not known yet.
        of: Option<ProcId>,
    },
    /// It is to be had from another node.
    SentOn {
        /// Which one.
        node: u32,
        /// Its owner, or the node of that.
        of: ProcId,
    },
    /// There is none here.
    Nothing,
}

/// No message is longer.
pub const MESSAGE_BYTES_MAX: usize = 1_024;
