//! Functions' bodies, once per content. A worker may ask before the body is here: the two came by different sockets.

use std::collections::VecDeque;

use model::{FunctionId, JobId, ProcId, Tick};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::abroad::Between;
use wire::control::{Answer, FromNodeOf};

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::members::HEAD;
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
    who: Waiting,
    function: FunctionId,
}

#[derive(Clone, Copy, PartialEq)]
enum Waiting {
    /// A process here, and what it calls its question.
    Process(ProcId, u64),
    /// A node, for the head.
    Node(u32, JobId),
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
        self.waiting.retain(|wait| !matches!(wait.who, Waiting::Process(who, _) if who == id));
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &ProcId> {
        self.waiting.iter().filter_map(|wait| match &wait.who {
            Waiting::Process(who, _) => Some(who),
            Waiting::Node(..) => None,
        })
    }

    pub(crate) fn node_gone(&mut self, node: u32) {
        self.waiting.retain(|wait| !matches!(wait.who, Waiting::Node(who, _) if who == node));
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
        if self.head_elsewhere().is_some() {
            let home = self.home_of(job).map(Box::new);
            step.body.send(HEAD, Between::Function { function, job, body: Some(bytes.clone()), home });
        }
        self.keep_function(step, function, job, bytes);
    }

    fn keep_function(&mut self, step: &mut Step<'_, B>, function: FunctionId, job: JobId, bytes: Vec<u8>) {
        if !self.functions.bodies.contains_key(&function) {
            self.functions.add(step, function, bytes);
        }
        if let Some(body) = self.functions.bodies.get_mut(&function)
            && !body.jobs.contains(&job)
        {
            body.jobs.push(job);
        }
        for wait in self.functions.take_waiting(|wait| wait.function == function) {
            self.answer_function(step, wait.who, function);
        }
    }

    /// From the head, which was asked, or to it, from where the function was made.
    pub(crate) fn on_function(
        &mut self,
        step: &mut Step<'_, B>,
        function: FunctionId,
        job: JobId,
        body: Option<Vec<u8>>,
    ) {
        if let Some(bytes) = body {
            return self.keep_function(step, function, job, bytes);
        }
        for wait in self.functions.take_waiting(|wait| wait.function == function) {
            self.answer_function(step, wait.who, function);
        }
    }

    /// At the head.
    pub(crate) fn on_wants_function(&mut self, step: &mut Step<'_, B>, node: u32, function: FunctionId, job: JobId) {
        self.want_function(step, Waiting::Node(node, job), function);
    }

    pub(crate) fn ask_function(&mut self, step: &mut Step<'_, B>, who: ProcId, request: u64, function: FunctionId) {
        self.want_function(step, Waiting::Process(who, request), function);
    }

    fn want_function(&mut self, step: &mut Step<'_, B>, who: Waiting, function: FunctionId) {
        if self.functions.bodies.contains_key(&function) {
            return self.answer_function(step, who, function);
        }
        let is_asked = self.functions.waiting.iter().any(|wait| wait.function == function);
        let mut until = step.now.plus_ms(WAIT_MS);
        if let Waiting::Process(process, _) = who
            && let Some(head) = self.head_elsewhere()
        {
            // The head waits as long as this; its word takes a moment.
            until = until.plus_ms(WAIT_MS);
            if let Some(job) = self.procs.get(process).map(Proc::job).filter(|_| !is_asked) {
                step.body.send(head, Between::WantsFunction { function, job });
            }
        }
        self.functions.waiting.push(Wait { until, who, function });
    }

    fn answer_function(&self, step: &mut Step<'_, B>, who: Waiting, function: FunctionId) {
        let body = self.functions.get(step, function);
        match who {
            Waiting::Process(who, request) => {
                self.tell(step, who, FromNodeOf::Answer { request, answer: Answer::Function(body) });
            }
            Waiting::Node(node, job) => {
                let home = self.home_of(job).map(Box::new);
                step.body.send(node, Between::Function { function, job, body, home });
            }
        }
    }

    pub(crate) fn expire_functions(&mut self, step: &mut Step<'_, B>) {
        for wait in self.functions.take_waiting(|wait| wait.until <= step.now) {
            self.answer_function(step, wait.who, wait.function);
        }
    }
}
