//! What others have asked of this process: calls that have come in, those that run, what they submitted, and who reads what they yield.

use model::{ProcId, TaskId, TaskKey};
use owner::Owner;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::execute::{CallHandle, Incoming};
use crate::lanes::Lanes;
use crate::link::Claim;

/// What a generator's worker knows of who reads its items.
pub(crate) struct Readership {
    /// How many were sent, as far as anybody had to know.
    yielded: u32,
    /// How many were read; `u32::MAX`: nobody reads any more.
    pub(crate) consumed: u32,
    /// The caller is dead.
    pub(crate) end: Option<ReaderEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderEnd {
    /// It left: what it started runs to its end.
    Left,
    /// It was killed or crashed: what it started is not wanted any more.
    Lost,
}

#[derive(Default)]
pub(crate) struct Serving {
    /// Calls that came in and have not started.
    incoming: Lanes,
    /// Tasks that run here now: for whom, and what that calls them.
    running: FxHashMap<TaskId, (ProcId, u64)>,
    /// Generators that run here, by caller and request.
    generating: FxHashMap<(ProcId, u64), Readership>,
    /// Tasks that others asked us to interrupt.
    interrupted: FxHashSet<TaskId>,
    /// Of each running task: what it submitted, for recursive cancelling.
    children: FxHashMap<TaskId, Vec<TaskKey>>,
}

impl Serving {
    /// A call has come in.
    #[inline]
    pub(crate) fn push(&mut self, incoming: Incoming) {
        self.incoming.push(incoming);
    }

    /// The next call for this group of methods.
    #[inline]
    pub(crate) fn front(&self, group: u16) -> Option<&Incoming> {
        self.incoming.front(group)
    }

    #[inline]
    pub(crate) fn pop(&mut self, group: u16) -> Option<Incoming> {
        self.incoming.pop(group)
    }

    /// All calls that have not started.
    pub(crate) fn take_incoming(&mut self) -> impl Iterator<Item = Incoming> + use<> {
        self.incoming.take()
    }

    /// Whether a call of this process has come in and not started.
    pub(crate) fn expects(&self, caller: ProcId) -> bool {
        self.incoming.iter().any(|incoming| incoming.peer == caller)
    }

    /// Whether the task runs here, or has come in.
    pub(crate) fn has(&self, task: TaskId) -> bool {
        self.is_running(task) || self.incoming.iter().any(|incoming| incoming.task == task)
    }

    #[inline]
    pub(crate) fn is_running(&self, task: TaskId) -> bool {
        self.running.contains_key(&task)
    }

    #[inline]
    pub(crate) fn runs_nothing(&self) -> bool {
        self.running.is_empty()
    }

    /// A call starts.
    #[inline]
    pub(crate) fn start(&mut self, incoming: &Incoming) {
        self.running.insert(incoming.task, (incoming.peer, incoming.request));
        if incoming.template.yields != model::Yields::Nothing {
            let readership = Readership { yielded: 0, consumed: incoming.consumed, end: None };
            self.generating.insert((incoming.peer, incoming.request), readership);
        }
    }

    /// It has ended. True if generators run or ran here.
    #[inline]
    pub(crate) fn end(&mut self, call: &CallHandle) -> bool {
        self.running.remove(&call.task);
        self.interrupted.remove(&call.task);
        self.children.remove(&call.task);
        let had_generators = !self.generating.is_empty();
        if had_generators {
            self.generating.remove(&(call.peer, call.request));
        }
        had_generators
    }

    /// The calls of this process that run here or have come in.
    pub(crate) fn requests_of(&self, caller: ProcId) -> Vec<u64> {
        let running = self.running.values().filter(|(of, _)| *of == caller).map(|(_, request)| *request);
        let incoming = self.incoming.iter().filter(|call| call.peer == caller).map(|call| call.request);
        running.chain(incoming).collect()
    }

    /// The calls of a dead process that have come in are claimed in its place; those that it had taken back are dropped.
    pub(crate) fn claim(&mut self, of: ProcId, start: impl Fn(Claim) -> bool) {
        self.incoming.retain_mut(|call| {
            if call.peer == of && !call.is_claimed {
                call.is_claimed = start(call.claim);
                return call.is_claimed;
            }
            true
        });
    }

    /// Nobody waits for the calls of this process that have come in.
    pub(crate) fn forget(&mut self, caller: ProcId) {
        self.incoming.retain(|incoming| incoming.peer != caller);
    }

    /// So many items of a call were read. True if it runs here, and somebody may wait for that.
    pub(crate) fn on_consumed(&mut self, caller: ProcId, request: u64, count: u32) -> bool {
        if let Some(readership) = self.generating.get_mut(&(caller, request)) {
            readership.consumed = readership.consumed.max(count);
            return true;
        }
        // One that was taken back and came again stands there twice.
        let is_it = |incoming: &&mut Incoming| incoming.peer == caller && incoming.request == request;
        for incoming in self.incoming.iter_mut().filter(is_it) {
            incoming.consumed = incoming.consumed.max(count);
        }
        false
    }

    /// A process is dead: generators that it called have no reader. True if there are such.
    pub(crate) fn reader_died(&mut self, caller: ProcId, end: ReaderEnd) -> bool {
        let mut has_found = false;
        for (_, readership) in self.generating.iter_mut().filter(|((of, _), _)| *of == caller) {
            readership.end = Some(end);
            has_found = true;
        }
        has_found
    }

    /// Who reads what this call yields.
    #[inline]
    pub(crate) fn readership(&self, call: &CallHandle) -> Option<&Readership> {
        self.generating.get(&(call.peer, call.request))
    }

    pub(crate) fn has_generators(&self) -> bool {
        !self.generating.is_empty()
    }

    /// How many values of all generators that run here nobody has read. This one has sent so many.
    #[cold]
    pub(crate) fn ahead_together(&mut self, call: &CallHandle, yielded: u32) -> u32 {
        if let Some(readership) = self.generating.get_mut(&(call.peer, call.request)) {
            readership.yielded = yielded;
        }
        let is_read = |readership: &&Readership| readership.end.is_none();
        let ahead = |readership: &Readership| readership.yielded.saturating_sub(readership.consumed);
        self.generating.values().filter(is_read).map(ahead).sum()
    }

    /// Somebody wants this task interrupted. Returns what it has submitted.
    pub(crate) fn interrupt(&mut self, task: TaskId, recursive: bool) -> Vec<TaskKey> {
        self.interrupted.insert(task);
        if recursive { self.children.remove(&task).unwrap_or_default() } else { Vec::new() }
    }

    pub(crate) fn is_interrupted(&self, task: &TaskId) -> bool {
        self.interrupted.contains(task)
    }

    /// Whether a task that runs here shall be interrupted.
    pub(crate) fn has_interrupted(&self) -> bool {
        !self.interrupted.is_empty()
    }

    /// A task, if it runs here, has submitted another one.
    pub(crate) fn note_child(&mut self, parent: TaskId, child: TaskKey, owner: &Owner) {
        if !self.is_running(parent) {
            return;
        }
        let of_parent = self.children.entry(parent).or_default();
        // A parent that runs for long does not keep the names of all it ever submitted: what has ended goes at each doubling.
        if of_parent.len() >= 64 && of_parent.len() == of_parent.capacity() {
            of_parent.retain(|key| owner.task(*key).is_some());
        }
        of_parent.push(child);
    }
}
