//! Which Python a node runs. Functions and values are pickled on one node and read on another, so all nodes of a cluster run the same.

use std::fmt;

/// The first two numbers of a version: nothing that is pickled depends on the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Python {
    /// The first.
    pub major: u8,
    /// The second.
    pub minor: u8,
}

impl Python {
    /// As a refusal carries it.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.major) << 8 | u64::from(self.minor)
    }

    pub(crate) fn of_number(number: u64) -> Option<Self> {
        let [major, minor] = u16::try_from(number).ok()?.to_be_bytes();
        Some(Self { major, minor })
    }
}

impl fmt::Display for Python {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
