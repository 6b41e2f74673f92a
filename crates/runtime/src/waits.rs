//! What this process waits for. The node is told of whatever has waited for a second, so that "why does this hang" has an answer.
//!
//! None of this is on a fast path: a thread notes its wait after a second of it; tasks are looked at once a second by the pump.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use model::Tick;
use owner::{Slot, Stage, Target, Task};
use wire::control::ToNode;
use wire::status::WaitRecord;

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
    said: Mutex<Vec<(Box<str>, Box<str>)>>,
    looked_at: AtomicU64,
}

struct Noted {
    number: u64,
    since: Tick,
    who: &'static str,
    what: Box<str>,
}

impl Runtime {
    /// A thread has waited for a second. Returns the number by which `forget_wait` knows it.
    pub(crate) fn note_wait(&self, since: Tick, who: &'static str, what: String) -> u64 {
        let number = {
            let mut open = self.waits.open.lock().expect("never poisoned");
            let number = open.last().map_or(1, |last| last.number + 1);
            open.push(Noted { number, since, who, what: what.into() });
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
            records.insert(0, WaitRecord { who: noted.who.into(), what: noted.what.clone(), waited_ms });
        }
        records.truncate(RECORDS_MAX);
        let texts: Vec<_> = records.iter().map(|record| (record.who.clone(), record.what.clone())).collect();
        let mut said = self.waits.said.lock().expect("never poisoned");
        if *said != texts {
            *said = texts;
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
        let mut groups: Vec<(Box<str>, String, u64, usize)> = Vec::new();
        for (_, task) in state.owner.tasks().take(TASKS_MAX) {
            let waited_ms = now.ms_since(task.since);
            if waited_ms < NOTED_AFTER_MS {
                continue;
            }
            let (name, what) = (&task.spec.template.name, self.waits_for(&state, task));
            match groups.iter().position(|group| group.0 == *name && group.1 == what) {
                Some(at) => (groups[at].2, groups[at].3) = (groups[at].2.max(waited_ms), groups[at].3 + 1),
                None if groups.len() < RECORDS_MAX => groups.push((name.clone(), what, waited_ms, 1)),
                None => {}
            }
        }
        drop(state);
        groups
            .into_iter()
            .map(|(name, what, waited_ms, count)| {
                let who = if count == 1 { format!("task {name}") } else { format!("{count} tasks {name}") };
                WaitRecord { who: who.into(), what: what.into(), waited_ms }
            })
            .collect()
    }

    fn waits_for(&self, state: &State, task: &Task) -> String {
        match (task.stage, task.spec.target) {
            (Stage::Waiting(_), _) => {
                let missing = |slot: &&Slot| state.owner.object(**slot).is_some_and(|object| object.value.is_none());
                let first = task.spec.deps.iter().find(missing);
                first.map_or_else(
                    || "an argument".into(),
                    |slot| format!("its argument {}", self.name_object(state, *slot)),
                )
            }
            (Stage::Queued, Target::Pool) => "a worker".into(),
            (Stage::Queued, Target::Actor(actor)) => format!("actor {actor}, which is not there yet or busy"),
            (Stage::Under { worker, ticket }, target) => {
                let what = if has_started(state, worker, ticket) { "its end" } else { "its turn" };
                let pid = self.pid_of(worker);
                match target {
                    Target::Pool => format!("{what} in process {pid}"),
                    Target::Actor(actor) => format!("{what} on actor {actor} in process {pid}"),
                }
            }
            (Stage::Limbo { .. }, _) => "its actor, whose process died".into(),
            (Stage::Looking, _) => "a look for an argument that its worker did not find".into(),
            (Stage::Reading, _) => "its arguments, which are being read from a file".into(),
            (Stage::Orphan, _) => "word from others: the process that submitted it died".into(),
        }
    }

    fn name_object(&self, state: &State, slot: Slot) -> String {
        let Some(object) = state.owner.object(slot) else { return "an object that is gone".into() };
        let id = object.id;
        match (object.maker().and_then(|key| state.owner.task(key)), object.owner) {
            (Some(task), _) => format!("{id} of task {}", task.spec.template.name),
            (None, Some(owner)) => format!("{id}, owned by process {}", self.pid_of(owner)),
            (None, None) => id.to_string(),
        }
    }

    fn pid_of(&self, process: model::ProcId) -> i32 {
        self.segment.proc(process.slot).pid.load(Ordering::Relaxed)
    }

    /// What a `get` or `wait` for these objects waits for, for people.
    #[must_use]
    pub fn explain(&self, slots: &[Slot]) -> String {
        let state = self.state.lock().expect("never poisoned");
        let missing: Vec<Slot> = slots.iter().copied().filter(|slot| !self.is_ready(*slot)).collect();
        let mut named: Vec<String> = Vec::new();
        for slot in missing.iter().take(NAMED_MAX) {
            let task = state.owner.object(*slot).and_then(|object| state.owner.task(object.maker()?));
            let stage = task.map(|task| format!(", which waits for {}", self.waits_for(&state, task)));
            named.push(format!("{}{}", self.name_object(&state, *slot), stage.unwrap_or_default()));
        }
        if missing.len() > NAMED_MAX {
            named.push(format!("{} more", missing.len() - NAMED_MAX));
        }
        format!("{} of {}: {}", missing.len(), slots.len(), named.join("; "))
    }
}

fn has_started(state: &State, worker: model::ProcId, ticket: u64) -> bool {
    let link = state.link_of.get(&worker).and_then(|at| state.links[*at].as_ref());
    let (index, word) = crate::effects::split_ticket(ticket);
    ticket != 0 && link.is_some_and(|link| link.rings.claims.has_started(index, word))
}
