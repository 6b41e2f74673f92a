//! Functions' bodies, once per content. A worker may ask before the body is here: the two came by different sockets.

use std::collections::VecDeque;

use model::{FunctionId, JobId, ProcId, Tick};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::control::{Answer, FromNodeOf};

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::procs::Proc;

/// A body that has not come by then never will.
const WAIT_MS: u64 = 10_000;
/// Bodies beyond this lie in files, the oldest first: a program may define ever new functions, and large ones.
const MEMORY_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct Functions {
    bodies: FxHashMap<FunctionId, Function>,
    /// Those that are in memory, the oldest first.
    in_memory: VecDeque<FunctionId>,
    memory_bytes: usize,
    waiting: Vec<Wait>,
}

/// Somebody asked for what has not come yet. It is known by its id: its connection is used again.
struct Wait {
    until: Tick,
    who: ProcId,
    request: u64,
    function: FunctionId,
}

struct Function {
    /// None: it lies in a file.
    bytes: Option<Vec<u8>>,
    /// Who sent it.
    jobs: Vec<JobId>,
}

impl Functions {
    fn add<B: Body>(&mut self, step: &mut Step<'_, B>, function: FunctionId, bytes: Vec<u8>) {
        self.memory_bytes += bytes.len();
        self.in_memory.push_back(function);
        self.bodies.insert(function, Function { bytes: Some(bytes), jobs: Vec::new() });
        while self.memory_bytes > MEMORY_BYTES_MAX
            && let Some(oldest) = self.in_memory.pop_front()
        {
            self.move_out(step, oldest);
        }
    }

    /// Where a disk does not take it, it stays in memory.
    fn move_out<B: Body>(&mut self, step: &mut Step<'_, B>, function: FunctionId) {
        let Some(Function { bytes: place @ Some(_), .. }) = self.bodies.get_mut(&function) else { return };
        let bytes = place.take().unwrap_or_default();
        self.memory_bytes -= bytes.len();
        if !step.body.file_function(function, &bytes) {
            *place = Some(bytes);
        }
    }

    fn get<B: Body>(&self, step: &Step<'_, B>, function: FunctionId) -> Option<Vec<u8>> {
        match &self.bodies.get(&function)?.bytes {
            Some(bytes) => Some(bytes.clone()),
            None => step.body.filed_function(function),
        }
    }

    /// Those who wait for what this says of.
    fn take_waiting(&mut self, is_over: impl Fn(&Wait) -> bool) -> Vec<Wait> {
        let (over, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(is_over);
        self.waiting = waiting;
        over
    }

    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.waiting.iter().map(|wait| wait.until).min()
    }

    pub(crate) fn process_gone(&mut self, id: ProcId) {
        self.waiting.retain(|wait| wait.who != id);
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &ProcId> {
        self.waiting.iter().map(|wait| &wait.who)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bodies.is_empty() && self.waiting.is_empty() && self.in_memory.is_empty() && self.memory_bytes == 0
    }

    /// Keeps what these jobs have sent.
    pub(crate) fn keep<B: Body>(&mut self, step: &mut Step<'_, B>, jobs: &FxHashSet<JobId>) {
        let mut gone = Vec::new();
        self.bodies.retain(|function, body| {
            body.jobs.retain(|job| jobs.contains(job));
            if body.jobs.is_empty() {
                gone.push((*function, body.bytes.take()));
            }
            !body.jobs.is_empty()
        });
        // What a disk did not take is in memory, and not counted there.
        let counted: FxHashSet<FunctionId> = self.in_memory.iter().copied().collect();
        for (function, bytes) in gone {
            match bytes {
                Some(bytes) if counted.contains(&function) => self.memory_bytes -= bytes.len(),
                Some(_) => {}
                None => step.body.remove_function(function),
            }
        }
        self.in_memory.retain(|function| self.bodies.contains_key(function));
    }
}

impl<B: Body> Hub<B> {
    pub(crate) fn export(&mut self, step: &mut Step<'_, B>, who: ProcId, function: FunctionId, bytes: Vec<u8>) {
        let Some(job) = self.procs.get(who).map(Proc::job) else { return };
        if !self.functions.bodies.contains_key(&function) {
            self.functions.add(step, function, bytes);
        }
        if let Some(body) = self.functions.bodies.get_mut(&function)
            && !body.jobs.contains(&job)
        {
            body.jobs.push(job);
        }
        for wait in self.functions.take_waiting(|wait| wait.function == function) {
            self.answer_function(step, wait.who, wait.request, function);
        }
    }

    pub(crate) fn ask_function(&mut self, step: &mut Step<'_, B>, who: ProcId, request: u64, function: FunctionId) {
        if self.functions.bodies.contains_key(&function) {
            self.answer_function(step, who, request, function);
        } else {
            let until = step.now.plus_ms(WAIT_MS);
            self.functions.waiting.push(Wait { until, who, request, function });
        }
    }

    fn answer_function(&self, step: &mut Step<'_, B>, who: ProcId, request: u64, function: FunctionId) {
        let answer = Answer::Function(self.functions.get(step, function));
        self.tell(step, who, FromNodeOf::Answer { request, answer });
    }

    pub(crate) fn expire_functions(&mut self, step: &mut Step<'_, B>) {
        for wait in self.functions.take_waiting(|wait| wait.until <= step.now) {
            self.answer_function(step, wait.who, wait.request, wait.function);
        }
    }
}
