//! What this process waits for. The node is told of whatever has waited for a second, so that "why does this hang" has an answer.
//!
//! None of this is on a fast path: a thread notes its wait after a second of it; tasks are looked at once a second by the pump.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{ProcId, Tick};
use owner::{Slot, Stage, Target, Task};
use wire::control::ToNode;
use wire::waits::{Awaited, ObjectName, Verb, WaitRecord, Waiter};

use crate::Runtime;
use crate::state::State;

/// A wait shorter than this is nobody's business.
pub(crate) const NOTED_AFTER_MS: u64 = 1_000;
/// Pending tasks that are looked at, and records that are said, at most.
const TASKS_MAX: usize = 10_000;
const RECORDS_MAX: usize = 100;
/// Objects that one record names.
const NAMED_MAX: usize = 3;

#[derive(Default)]
pub(crate) struct Waits {
    open: Mutex<Vec<Noted>>,
    /// What the node was told last, without the times: those it counts on by itself.
    said: Mutex<Vec<(Waiter, Awaited)>>,
    looked_at: AtomicU64,
}

struct Noted {
    number: u64,
    since: Tick,
    who: Verb,
    on: Awaited,
}

impl Runtime {
    /// A thread has waited for a second. Returns the number by which `forget_wait` knows it.
    pub(crate) fn note_wait(&self, since: Tick, who: Verb, on: Awaited) -> u64 {
        let number = {
            let mut open = self.waits.open.lock().expect("never poisoned");
            let number = open.last().map_or(1, |last| last.number + 1);
            open.push(Noted { number, since, who, on });
            number
        };
        self.say_waits();
        number
    }

    pub(crate) fn forget_wait(&self, number: u64) {
        self.waits.open.lock().expect("never poisoned").retain(|noted| noted.number != number);
        self.say_waits();
    }

    /// Looks at what waits here, once a second.
    pub(crate) fn say_waits_if_due(&self, now: Tick) {
        if now.ms_since(Tick(self.waits.looked_at.load(Ordering::Relaxed))) >= NOTED_AFTER_MS {
            self.say_waits();
        }
    }

    /// Tells the node what waits here, if that has changed.
    pub(crate) fn say_waits(&self) {
        if self.is_closed() {
            return;
        }
        let now = net::clock::now();
        self.waits.looked_at.store(now.0, Ordering::Relaxed);
        let mut records = self.pending_tasks(now);
        for noted in self.waits.open.lock().expect("never poisoned").iter().rev() {
            let waited_ms = now.ms_since(noted.since);
            records.insert(0, WaitRecord { who: Waiter::Thread(noted.who), on: noted.on.clone(), waited_ms });
        }
        records.truncate(RECORDS_MAX);
        let ageless: Vec<_> = records.iter().map(|record| (record.who.clone(), record.on.clone())).collect();
        let mut said = self.waits.said.lock().expect("never poisoned");
        if *said != ageless {
            *said = ageless;
            self.send(&ToNode::Waits(records));
        }
    }

    /// Whether the node was told of a wait, and not yet of its end.
    pub(crate) fn has_said_waits(&self) -> bool {
        !self.waits.said.lock().expect("never poisoned").is_empty()
    }

    /// Tasks of ours that have waited for a second; those of one function that wait for the same are one record.
    fn pending_tasks(&self, now: Tick) -> Vec<WaitRecord> {
        let state = self.state.lock().expect("never poisoned");
        let mut groups: Vec<(Box<str>, Awaited, u64, u32)> = Vec::new();
        for (_, task) in state.party.owner.tasks().take(TASKS_MAX) {
            let waited_ms = now.ms_since(task.since);
            if waited_ms < NOTED_AFTER_MS {
                continue;
            }
            let (name, on) = (&task.spec.template.name, self.waits_for(&state, task));
            match groups.iter().position(|group| group.0 == *name && group.1 == on) {
                Some(at) => (groups[at].2, groups[at].3) = (groups[at].2.max(waited_ms), groups[at].3 + 1),
                None if groups.len() < RECORDS_MAX => groups.push((name.clone(), on, waited_ms, 1)),
                None => {}
            }
        }
        drop(state);
        let record = |(name, on, waited_ms, count)| WaitRecord { who: Waiter::Tasks { name, count }, on, waited_ms };
        groups.into_iter().map(record).collect()
    }

    fn waits_for(&self, state: &State, task: &Task) -> Awaited {
        match (task.stage, task.spec.target) {
            (Stage::Waiting(_), _) => {
                let missing =
                    |slot: &&Slot| state.party.owner.object(**slot).is_some_and(|object| object.value.is_none());
                Awaited::Argument(task.spec.deps.iter().find(missing).map(|slot| self.name_object(state, *slot)))
            }
            (Stage::Queued, Target::Pool) => Awaited::Worker,
            (Stage::Queued, Target::Actor(actor)) => Awaited::Actor(actor),
            (Stage::Under { worker, ticket }, target) => Awaited::Process {
                pid: self.pid_of(state, worker),
                actor: match target {
                    Target::Pool => None,
                    Target::Actor(actor) => Some(actor),
                },
                has_started: has_started(state, worker, ticket),
            },
            (Stage::Limbo { .. }, _) => Awaited::Restart,
            (Stage::Looking, _) => Awaited::Look,
            (Stage::Reading, _) => Awaited::Arguments,
            (Stage::Orphan, _) => Awaited::Testimony,
        }
    }

    fn name_object(&self, state: &State, slot: Slot) -> ObjectName {
        let Some(object) = state.party.owner.object(slot) else {
            return ObjectName { object: None, task: None, owner_pid: None };
        };
        let maker = object.maker().and_then(|key| state.party.owner.task(key));
        ObjectName {
            object: Some(object.id),
            task: maker.map(|task| task.spec.template.name.clone()),
            owner_pid: object.owner.map(|owner| self.pid_of(state, owner)),
        }
    }

    /// Zero: it is not known here.
    fn pid_of(&self, state: &State, process: ProcId) -> i32 {
        if process.node() == self.me.node() {
            return self.segment.proc(process.slot()).pid.load(Ordering::Relaxed);
        }
        state.pids_there.get(&process).copied().unwrap_or(0)
    }

    pub(crate) fn note_pid(&self, state: &mut State, process: ProcId, pid: i32) {
        if process.node() != self.me.node() && !state.party.is_dead(process) {
            state.pids_there.insert(process, pid);
        }
    }

    /// What a `get` or `wait` for these objects waits for.
    #[must_use]
    pub fn explain(&self, slots: &[Slot]) -> Awaited {
        let state = self.state.lock().expect("never poisoned");
        let missing: Vec<Slot> = slots.iter().copied().filter(|slot| !self.is_ready(*slot)).collect();
        let named = |slot: &Slot| {
            let task = state.party.owner.object(*slot).and_then(|object| state.party.owner.task(object.maker()?));
            (self.name_object(&state, *slot), task.map(|task| self.waits_for(&state, task)))
        };
        let first = missing.iter().take(NAMED_MAX).map(named).collect();
        Awaited::Objects { missing: missing.len() as u32, of: slots.len() as u32, first }
    }
}

fn has_started(state: &State, worker: ProcId, ticket: u64) -> bool {
    state.links.get(worker).is_some_and(|link| link.fate(ticket).may_have_run())
}
