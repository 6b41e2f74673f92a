//! Writes the owner's records into this process's journal, where whoever takes over finds them.

use model::TaskKey;
use owner::{Recorded, Slot, TaskFacts, Value};
use store::{Cell, Progress};
use wire::journal::{Payload, Record, Ref, TaskRecord};
use wire::peer::Content;

use crate::Runtime;
use crate::state::State;

impl Runtime {
    #[cold]
    pub(crate) fn record(&self, state: &mut State, what: Recorded) {
        // Gone again, or nothing that is recorded any more: somebody else has its slot.
        let Some(before) = state.owner.cell(what) else { return };
        let (body, progress) = match self.record_of(state, what) {
            Some(record) => record,
            None => return,
        };
        let Some(journal) = state.journal.as_mut() else { return };
        let cell = journal.write(&body, progress);
        // JOURNAL-2. A record that found no room must not leave an old one standing.
        if let Some(before) = before.and_then(Cell::from_u32) {
            journal.erase(before);
        }
        state.owner.on_recorded(what, cell.map(Cell::to_u32));
    }

    #[cold]
    pub(crate) fn erase_record(&self, state: &mut State, cell: u32) {
        if let (Some(journal), Some(cell)) = (state.journal.as_mut(), Cell::from_u32(cell)) {
            journal.erase(cell);
        }
    }

    /// Says in a task's record whether it was sent, and what runs are left.
    #[cold]
    pub(crate) fn note_progress(&self, state: &mut State, key: TaskKey) {
        let what = Recorded::Task(key);
        if let Some(Some(cell)) = state.owner.cell(what)
            && let Some(facts) = state.owner.task_facts(what)
            && let (Some(journal), Some(cell)) = (state.journal.as_mut(), Cell::from_u32(cell))
        {
            journal.note(cell, progress(&facts));
        }
    }

    fn record_of(&self, state: &State, what: Recorded) -> Option<(Vec<u8>, Progress)> {
        if let Recorded::Object(slot) = what {
            let object = state.owner.object(slot)?;
            let content = object.value.as_ref().map(|value| match value {
                Value::Inline(bytes) => Content::Inline(bytes.to_vec()),
                Value::Bulk(bulk) => Content::Bulk(**bulk),
                Value::Failed(failure) => Content::Failed((**failure).clone()),
            });
            let record = Record::Object { id: object.id, content };
            return Some((wire::encode(&record), Progress::default()));
        }
        let facts = state.owner.task_facts(what)?;
        let name = |slot: &Slot| -> Option<Ref> {
            let object = state.owner.object(*slot)?;
            Some((object.id, object.owner.unwrap_or(self.me)))
        };
        let spec = facts.spec;
        // The actor that we made ourselves dies with us: nothing is to hold it.
        let life = facts.life.filter(|slot| state.owner.object(*slot).is_some_and(|object| object.owner.is_some()));
        let record = TaskRecord {
            request: match what {
                Recorded::Task(key) => Some(key.0),
                Recorded::Object(_) | Recorded::Made(_) => None,
            },
            id: spec.id,
            template: (*spec.template).clone(),
            actor: match spec.target {
                owner::Target::Pool => None,
                owner::Target::Actor(actor) => Some(actor),
            },
            is_ordered: state.owner.is_ordered(spec),
            payload: facts.filed.map_or_else(|| Payload::Inline(spec.payload.clone()), Payload::Filed),
            deps: spec.deps.iter().filter_map(name).collect(),
            contains: spec.contains.iter().chain(&life).chain(facts.holds).filter_map(name).collect(),
            returns: facts.returns.iter().map(|slot| name(slot).map(|(id, _)| id)).collect(),
            number: facts.number,
        };
        Some((wire::encode(&Record::Task(Box::new(record))), progress(&facts)))
    }
}

fn progress(facts: &TaskFacts<'_>) -> Progress {
    Progress {
        worker: facts.worker.map_or(0, |worker| worker.to_u64()),
        retries: facts.retries_left,
        oom_retries: facts.oom_retries_left,
    }
}
