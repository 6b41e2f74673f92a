//! What workers print, on its way to their driver.

use serde::{Deserialize, Serialize};

/// A driver gets no more output while it has not taken so much of what it got. The rest waits in the workers' files.
pub const LOGS_BYTES_AHEAD: usize = 1024 * 1024;

/// Lines that one worker printed to one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLines {
    /// What names its node for people, if that is not the driver's.
    pub node: Box<str>,
    /// Of the worker.
    pub pid: i32,
    /// What it was running: a function's or class's name.
    pub name: Box<str>,
    /// Whether it was standard error.
    pub is_error: bool,
    /// Without line ends.
    pub lines: Vec<String>,
}

impl LogLines {
    /// What it counts for in `LOGS_BYTES_AHEAD`.
    #[must_use]
    pub fn weight(&self) -> usize {
        64 + self.lines.iter().map(|line| line.len() + 32).sum::<usize>()
    }
}

/// What a driver says about the output that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AboutLogs {
    /// It has taken lines of so much weight.
    Taken(u64),
    /// It wants all that its workers have printed so far, lines without an end too. `FromNode::LastWords` comes behind it.
    LastWords,
}
