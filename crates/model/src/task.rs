//! What a remote function, actor class or method says about every one of its calls.

use serde::{Deserialize, Serialize};

use crate::{FunctionId, Need};

/// What a function, a class or a value is written in. A number keeps its meaning for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Language(pub u8);

impl Language {
    /// Python: bodies are pickles of functions and classes.
    pub const PYTHON: Self = Self(1);
}

/// What all calls of one function under one set of options share. Made once, pointed to by each call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Template {
    /// What the function is written in.
    pub language: Language,
    /// Body to run; for an actor's method, the actor's class, or the exceptions that a call's own options want to retry.
    pub function: FunctionId,
    /// Shown in errors, logs and status: `f`, `Class.method`.
    pub name: Box<str>,
    /// Method to call on the actor; empty for a plain function.
    pub method: Box<str>,
    /// Resources; unused for calls on actors.
    pub need: Need,
    /// How many values come back.
    pub returns: u32,
    /// Whether values come back one by one beside those, while the call runs.
    pub yields: Yields,
    /// Runs again after a system failure at most this often; below zero: for ever.
    pub retries_max: i32,
    /// Whether a user's exception also counts as a failure worth another run. Which exceptions do is
    /// decided in the worker, which answers with `Failure::Retryable`.
    pub retry_exceptions: bool,
    /// The worker ends after this many calls of the function; zero: never.
    pub calls_max: u32,
    /// Which group of its actor's methods the call runs in, with threads or a loop of its own; zero: the default one.
    pub group: u16,
}

/// What becomes of the values that a generator yields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Yields {
    /// It yields none of its own: all values come back with its end.
    #[default]
    Nothing,
    /// Each goes to the caller at once, who reads them in order. The one return value says how the generator ended.
    Stream {
        /// How many the generator may be ahead of who reads them; zero: any number.
        ahead_max: u32,
    },
    /// Each goes to the caller at once. The one return value names them all.
    List,
}

/// Whether an actor dies with the program that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    /// Dies with its last handle or its job.
    #[default]
    Owned,
    /// Lives until it is killed.
    Detached,
}

/// What an actor's creation says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorOptions {
    /// Class name, for people.
    pub class_name: Box<str>,
    /// Registered name; empty for none.
    pub name: Box<str>,
    /// Where the name is unique.
    pub namespace: Box<str>,
    /// See `Lifetime`.
    pub lifetime: Lifetime,
    /// Restarts at most this often; below zero: for ever.
    pub restarts_max: i32,
    /// Resources.
    pub need: Need,
    /// Calls that run at once.
    pub concurrency: u32,
    /// Whether calls are coroutines on one event loop.
    pub is_async: bool,
}
