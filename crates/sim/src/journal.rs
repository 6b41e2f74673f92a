//! What a simulated process has recorded, for whoever takes over from it: what the real journal holds, without the bytes.

use std::collections::BTreeMap;

use model::{Failure, ObjectId, ProcId, TaskKey};
use owner::{Bequest, Recorded, Ref, Slot, TaskFacts};

use crate::large::Content;
use crate::process::Process;

/// One record.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// `None`: it has no value yet.
    Object(ObjectId, Option<Result<Content, Failure>>),
    /// With its number among the tasks of its owner.
    Task(Box<Bequest>, u64),
}

/// The records of one process.
#[derive(Default)]
pub(crate) struct Journal {
    cells: BTreeMap<u32, Entry>,
    written: u32,
}

impl Journal {
    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    pub(crate) fn erase(&mut self, cell: u32) {
        self.cells.remove(&cell);
    }

    fn write(&mut self, entry: Entry) -> u32 {
        self.written += 1;
        self.cells.insert(self.written, entry);
        self.written
    }

    /// Everything, tasks that have not ended before those that have, each in the order of submission.
    #[expect(clippy::type_complexity, reason = "used once")]
    pub(crate) fn read(self) -> (Vec<(ObjectId, Option<Result<Content, Failure>>)>, Vec<Bequest>) {
        let (mut objects, mut tasks) = (Vec::new(), Vec::new());
        for entry in self.cells.into_values() {
            match entry {
                Entry::Object(id, content) => objects.push((id, content)),
                Entry::Task(task, number) => tasks.push((task.request.is_none(), number, *task)),
            }
        }
        tasks.sort_by_key(|(has_ended, number, _)| (*has_ended, *number));
        (objects, tasks.into_iter().map(|(_, _, task)| task).collect())
    }
}

impl Process {
    pub(crate) fn record(&mut self, what: Recorded) {
        // Gone again: somebody else may have its slot.
        let Some(before) = self.owner.cell(what) else { return };
        let Some(entry) = self.entry_of(what) else { return };
        let cell = self.journal.write(entry);
        if let Some(before) = before {
            self.journal.erase(before);
        }
        self.owner.on_recorded(what, Some(cell));
    }

    /// Says in a task's record whether it was sent, and what runs are left.
    pub(crate) fn note_progress(&mut self, key: TaskKey) {
        let what = Recorded::Task(key);
        if let Some(Some(cell)) = self.owner.cell(what)
            && let Some(facts) = self.owner.task_facts(what)
            && let Some(Entry::Task(task, _)) = self.journal.cells.get_mut(&cell)
        {
            (task.retries_left, task.oom_retries_left) = (facts.retries_left, facts.oom_retries_left);
            task.sent_to = facts.worker;
        }
    }

    fn entry_of(&self, what: Recorded) -> Option<Entry> {
        if let Recorded::Object(slot) = what {
            let object = self.owner.object(slot)?;
            return Some(Entry::Object(object.id, object.value.as_ref().map(Content::of)));
        }
        let facts = self.owner.task_facts(what)?;
        let TaskFacts { spec, returns, retries_left, oom_retries_left, number, .. } = facts;
        let name = |slot: &Slot| -> Option<Ref> {
            let object = self.owner.object(*slot)?;
            Some((object.id, object.owner.unwrap_or(self.pid.1)))
        };
        // The actor that we made ourselves dies with us: nothing is to hold it.
        let life = facts.life.filter(|slot| self.owner.object(*slot).is_some_and(|object| object.owner.is_some()));
        let task = Bequest {
            request: match what {
                Recorded::Task(key) => Some(key.0),
                Recorded::Object(_) | Recorded::Made(_) => None,
            },
            id: spec.id,
            template: spec.template.clone(),
            target: spec.target,
            is_ordered: self.owner.is_ordered(spec),
            payload: spec.payload.clone(),
            filed: None,
            deps: spec.deps.iter().filter_map(name).collect(),
            contains: spec.contains.iter().chain(&life).chain(facts.holds).filter_map(name).collect(),
            returns: returns.iter().map(|slot| name(slot).map(|(id, _)| id)).collect(),
            retries_left,
            oom_retries_left,
            sent_to: facts.worker,
        };
        Some(Entry::Task(Box::new(task), number))
    }

    /// Who owns what this process named: nobody but itself, if that is `None`.
    pub(crate) fn owner_named(&self, owner: ProcId) -> Option<ProcId> {
        let living = self.heirs.living(owner);
        (living != self.pid.1).then_some(living)
    }
}
