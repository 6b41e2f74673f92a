//! Functions' bodies, once per content. A worker may ask before the body is here: the two came by different sockets.

use model::{FunctionId, JobId, ProcId, Tick};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::control::{Answer, FromNode};

use crate::looped::Node;

/// A body that has not come by then never will.
const WAIT_MS: u64 = 10_000;

#[derive(Default)]
pub(crate) struct Functions {
    bodies: FxHashMap<FunctionId, Body>,
    /// Who asked for what has not come yet, until when. A process is known by its id: its connection's index is used again.
    waiting: Vec<(Tick, ProcId, u64, FunctionId)>,
}

struct Body {
    bytes: Vec<u8>,
    /// Who sent it.
    jobs: Vec<JobId>,
}

impl Functions {
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
        self.bodies.retain(|_, body| {
            body.jobs.retain(|job| jobs.contains(job));
            !body.jobs.is_empty()
        });
    }
}

impl Node {
    pub(crate) fn export(&mut self, who: ProcId, function: FunctionId, bytes: Vec<u8>) {
        let Some(job) = self.procs.get(who).map(|proc| proc.job) else { return };
        let body = self.functions.bodies.entry(function).or_insert(Body { bytes, jobs: Vec::new() });
        if !body.jobs.contains(&job) {
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
        let answer = Answer::Function(self.functions.bodies.get(&function).map(|body| body.bytes.clone()));
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
