//! Functions' bodies, once per content. A worker may ask before the body is here: the two came by different sockets.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use model::{FunctionId, JobId, ProcId, Tick};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::control::{Answer, FromNode};

use crate::looped::Node;

/// A body that has not come by then never will.
const WAIT_MS: u64 = 10_000;
/// Bodies beyond this lie in files, the oldest first: a program may define ever new functions, and large ones.
const MEMORY_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct Functions {
    bodies: FxHashMap<FunctionId, Body>,
    /// Those that are in memory, the oldest first.
    in_memory: VecDeque<FunctionId>,
    memory_bytes: usize,
    /// Where the others are.
    dir: PathBuf,
    /// Who asked for what has not come yet, until when. A process is known by its id: its connection's index is used again.
    waiting: Vec<(Tick, ProcId, u64, FunctionId)>,
}

struct Body {
    /// None: it lies in a file.
    bytes: Option<Vec<u8>>,
    /// Who sent it.
    jobs: Vec<JobId>,
}

impl Functions {
    pub(crate) fn new(session_dir: &Path) -> Self {
        Self { dir: session_dir.join("functions"), ..Self::default() }
    }

    fn path(&self, function: FunctionId) -> PathBuf {
        self.dir.join(function.to_string())
    }

    fn add(&mut self, function: FunctionId, bytes: Vec<u8>) {
        self.memory_bytes += bytes.len();
        self.in_memory.push_back(function);
        self.bodies.insert(function, Body { bytes: Some(bytes), jobs: Vec::new() });
        while self.memory_bytes > MEMORY_BYTES_MAX
            && let Some(oldest) = self.in_memory.pop_front()
        {
            self.move_out(oldest);
        }
    }

    /// Where a disk does not take it, it stays in memory.
    fn move_out(&mut self, function: FunctionId) {
        let path = self.path(function);
        let Some(Body { bytes: Some(bytes), .. }) = self.bodies.get(&function) else { return };
        let written = std::fs::create_dir_all(&self.dir).and_then(|()| std::fs::write(&path, bytes));
        self.memory_bytes -= bytes.len();
        if written.is_ok()
            && let Some(body) = self.bodies.get_mut(&function)
        {
            body.bytes = None;
        }
    }

    fn get(&self, function: FunctionId) -> Option<Vec<u8>> {
        match &self.bodies.get(&function)?.bytes {
            Some(bytes) => Some(bytes.clone()),
            None => std::fs::read(self.path(function)).ok(),
        }
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.bodies.len()
    }

    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.waiting.iter().map(|(deadline, ..)| *deadline).min()
    }

    pub(crate) fn process_gone(&mut self, id: ProcId) {
        self.waiting.retain(|(_, who, ..)| *who != id);
    }

    /// Keeps what these jobs have sent.
    pub(crate) fn keep(&mut self, jobs: &FxHashSet<JobId>) {
        let mut gone = Vec::new();
        self.bodies.retain(|function, body| {
            body.jobs.retain(|job| jobs.contains(job));
            if body.jobs.is_empty() {
                gone.push((*function, body.bytes.take()));
            }
            !body.jobs.is_empty()
        });
        for (function, bytes) in gone {
            match bytes {
                Some(bytes) => self.memory_bytes = self.memory_bytes.saturating_sub(bytes.len()),
                None => _ = std::fs::remove_file(self.path(function)),
            }
        }
        self.in_memory.retain(|function| self.bodies.contains_key(function));
    }
}

impl Node {
    pub(crate) fn export(&mut self, who: ProcId, function: FunctionId, bytes: Vec<u8>) {
        let Some(job) = self.procs.get(who).map(|proc| proc.job) else { return };
        if !self.functions.bodies.contains_key(&function) {
            self.functions.add(function, bytes);
        }
        if let Some(body) = self.functions.bodies.get_mut(&function)
            && !body.jobs.contains(&job)
        {
            body.jobs.push(job);
        }
        let waiting = std::mem::take(&mut self.functions.waiting);
        for (deadline, asker, request, wanted) in waiting {
            if wanted == function {
                self.answer_function(asker, request, wanted);
            } else {
                self.functions.waiting.push((deadline, asker, request, wanted));
            }
        }
    }

    pub(crate) fn ask_function(&mut self, who: ProcId, request: u64, function: FunctionId) {
        if self.functions.bodies.contains_key(&function) {
            self.answer_function(who, request, function);
        } else {
            let deadline = net::clock::now().plus_ms(WAIT_MS);
            self.functions.waiting.push((deadline, who, request, function));
        }
    }

    fn answer_function(&mut self, who: ProcId, request: u64, function: FunctionId) {
        let answer = Answer::Function(self.functions.get(function));
        self.tell(who, &FromNode::Answer { request, answer });
    }

    pub(crate) fn expire_functions(&mut self, now: Tick) {
        let waiting = std::mem::take(&mut self.functions.waiting);
        for (deadline, who, request, function) in waiting {
            if deadline <= now {
                self.answer_function(who, request, function);
            } else {
                self.functions.waiting.push((deadline, who, request, function));
            }
        }
    }
}
