//! What is recorded of our objects and tasks, where whoever takes over from us finds it.

use model::TaskKey;
use owner::{Recorded, Slot, TaskFacts, Value};
use wire::journal::{Payload, Record, Ref, TaskRecord};
use wire::peer::Content;

use crate::{Body, Party, Progress};

impl<P> Party<P> {
    #[cold]
    pub(crate) fn record(&mut self, body: &mut impl Body<Pin = P>, what: Recorded) {
        // Gone again, or nothing that is recorded any more: somebody else has its slot.
        let Some(before) = self.owner.cell(what) else { return };
        let Some((record, progress)) = self.record_of(what).filter(|_| body.keeps_records()) else { return };
        let cell = body.write_record(&record, progress);
        // JOURNAL-2. A record that found no room must not leave an old one standing.
        if let Some(before) = before {
            body.erase_record(before);
        }
        self.owner.on_recorded(what, cell);
    }

    /// Says in a task's record whether it was sent, and what runs are left.
    #[cold]
    pub fn note_progress(&mut self, body: &mut impl Body<Pin = P>, key: TaskKey) {
        let what = Recorded::Task(key);
        if let Some(Some(cell)) = self.owner.cell(what)
            && let Some(facts) = self.owner.task_facts(what)
        {
            body.note_record(cell, progress(&facts));
        }
    }

    fn record_of(&self, what: Recorded) -> Option<(Record, Progress)> {
        if let Recorded::Object(slot) = what {
            let object = self.owner.object(slot)?;
            let content = object.value.as_ref().map(|value| match value {
                Value::Inline(bytes) => Content::Inline(bytes.to_vec()),
                Value::Bulk(bulk) if self.is_away(**bulk) => Content::Away(**bulk, self.refs_kept_of(object.id)),
                Value::Bulk(bulk) => Content::Bulk(**bulk),
                Value::Failed(failure) => Content::Failed((**failure).clone()),
            });
            return Some((Record::Object { id: object.id, content }, Progress::default()));
        }
        let facts = self.owner.task_facts(what)?;
        let name = |slot: &Slot| -> Option<Ref> {
            let object = self.owner.object(*slot)?;
            Some((object.id, object.owner.unwrap_or(self.me)))
        };
        let spec = facts.spec;
        // The actor that we made ourselves dies with us: nothing is to hold it.
        let life = facts.life.filter(|slot| self.owner.object(*slot).is_some_and(|object| object.owner.is_some()));
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
            is_ordered: self.owner.is_ordered(spec),
            payload: facts.filed.map_or_else(|| Payload::Inline(spec.payload.clone()), Payload::Filed),
            deps: spec.deps.iter().filter_map(name).collect(),
            contains: spec.contains.iter().chain(&life).chain(facts.holds).filter_map(name).collect(),
            returns: facts.returns.iter().map(|slot| name(slot).map(|(id, _)| id)).collect(),
            number: facts.number,
        };
        Some((Record::Task(Box::new(record)), progress(&facts)))
    }
}

fn progress(facts: &TaskFacts<'_>) -> Progress {
    Progress { worker: facts.worker, retries: facts.retries_left, oom_retries: facts.oom_retries_left }
}
