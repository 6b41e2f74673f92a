//! `free`: a value becomes unreadable although references to it live on.
//!
//! Its bytes may still be read for a moment: by processes that were told where they lie, and by calls that are on their way with them. So
//! the bytes pass to an object of their own, which nobody can name, and which those readers hold until each has let go.

use std::sync::Arc;

use model::{Failure, ObjectId, ProcId, TaskKey, Template};
use smallvec::SmallVec;

use crate::objects::Object;
use crate::tasks::{Stage, Target};
use crate::{Effect, Owner, Slot, Value};

/// Marks the id of an object that holds the bytes of a freed one.
const BYTES_OF: u32 = 1 << 31;

fn bytes_of(id: ObjectId) -> ObjectId {
    ObjectId::of(id.task(), id.index() ^ BYTES_OF)
}

impl Owner {
    /// Nobody reads this value from now on: whoever asks for it hears that it was freed. A value that has not come yet never does.
    pub fn on_free(&mut self, slot: Slot, out: &mut Vec<Effect>) {
        let Some(object) = self.objects.get_mut(slot) else { return };
        if object.actor.is_some() {
            return;
        }
        let id = object.id;
        if let Some(owner) = object.owner {
            out.push(Effect::AskFree { owner, object: id });
            // Where the bytes lie stays true until the owner says otherwise: calls that are on their way with them may go on.
            return self.make_unreadable(slot, None, out);
        }
        let mut told: SmallVec<[ProcId; 4]> = std::mem::take(&mut object.told_where).into_iter().collect();
        told.extend(object.borrowers.iter().map(|(borrower, _)| *borrower));
        told.sort_unstable();
        told.dedup();
        let bytes = match &object.value {
            Some(value @ Value::Bulk(_)) => {
                let mut bytes = Object::new(bytes_of(id), None);
                bytes.handles = 1;
                bytes.borrowers = told.iter().map(|borrower| (*borrower, 1)).collect();
                bytes.value = Some(value.clone());
                let bytes = self.objects.insert(bytes).0;
                self.on_given_away(bytes, out);
                Some(bytes)
            }
            _ => None,
        };
        self.make_unreadable(slot, bytes, out);
        for to in told {
            out.push(Effect::Unreadable { to, object: id, bytes: bytes_of(id) });
        }
        if let Some(bytes) = bytes {
            self.on_handle_dropped(bytes, out);
        }
    }

    /// Somebody who borrows our object wants it freed.
    pub fn on_free_asked(&mut self, id: &ObjectId, out: &mut Vec<Effect>) {
        if let Some(slot) = self.slot_of(id) {
            self.on_free(slot, out);
        }
    }

    /// The owner of a borrowed object freed it, and has counted a share of its bytes for us.
    pub fn on_unreadable(&mut self, id: &ObjectId, owner: ProcId, bytes: ObjectId, out: &mut Vec<Effect>) {
        let bytes = self.on_borrowed(bytes, Some(owner), 1);
        if let Some(slot) = self.slot_of(id).filter(|slot| self.object(*slot).is_some_and(|it| it.owner == Some(owner)))
        {
            self.make_unreadable(slot, Some(bytes), out);
        }
        self.on_handle_dropped(bytes, out);
    }

    /// The object is a failure from now on. Calls that are on their way with its bytes hold those; calls that wait for a worker end.
    fn make_unreadable(&mut self, slot: Slot, bytes: Option<Slot>, out: &mut Vec<Effect>) {
        let Some(object) = self.objects.get_mut(slot) else { return };
        object.value = None;
        let contains = std::mem::take(&mut object.contains);
        self.hold_for_calls(slot, &contains);
        let Some(object) = self.objects.get(slot) else { return };
        let maker = object.maker();
        let users: Vec<(TaskKey, Stage)> = if object.uses == 0 {
            Vec::new()
        } else {
            let uses = self.tasks().filter(|(_, task)| task.spec.deps.contains(&slot));
            uses.map(|(key, task)| (key, task.stage)).collect()
        };
        if let Some(bytes) = bytes {
            for (key, _) in users.iter().filter(|(_, stage)| matches!(stage, Stage::Under { .. } | Stage::Limbo { .. }))
            {
                self.task_mut(*key).expect("found above").holds.push(bytes);
                self.hold(bytes);
            }
        }
        self.set_value(slot, Value::Failed(Arc::new(Failure::Freed)), SmallVec::new(), out);
        if let Some(maker) = maker {
            self.tell_waiter(maker, out);
        }
        contains.into_iter().for_each(|inner| self.release(inner, out));
        let queued = users.into_iter().filter(|(_, stage)| *stage == Stage::Queued);
        self.end_without_argument(queued.map(|(key, _)| key).collect(), out);
    }

    /// These calls wait for a worker, and an argument of theirs is gone.
    fn end_without_argument(&mut self, keys: Vec<TaskKey>, out: &mut Vec<Effect>) {
        // The end of one may let others go, but none of these.
        for key in &keys {
            self.task_mut(*key).expect("it waits").stage = Stage::Waiting(u32::MAX);
        }
        let mut left: Vec<(Target, Arc<Template>)> = Vec::new();
        for key in keys {
            let Some(failure) = self.failed_argument(key) else { continue };
            let spec = &self.task(key).expect("not ended").spec;
            let (target, template) = (spec.target, spec.template.clone());
            if let Target::Actor(actor) = target {
                self.leave_queue(actor, key);
            }
            left.push((target, template));
            self.finish_failed(key, failure, out);
        }
        for (target, template) in left {
            match target {
                Target::Actor(actor) => self.send_calls(actor, out),
                Target::Pool => self.left_queue(&template.need, out),
            }
        }
    }
}
