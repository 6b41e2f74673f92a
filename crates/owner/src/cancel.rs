//! Cancelling: what has not started never does; what runs is interrupted.

use model::{Failure, ProcId, TaskKey, Tick};

use crate::tasks::{Stage, Target};
use crate::{Effect, Owner, Slot};

impl Owner {
    /// Cancels the task that makes this object, if it has not ended. Returns whether there was one.
    pub fn on_cancel(&mut self, slot: Slot, force: bool, recursive: bool, out: &mut Vec<Effect>) -> bool {
        let Some(key) = self.objects.get(slot).and_then(|object| object.maker()) else { return false };
        self.on_cancel_task(key, force, recursive, out)
    }

    /// As `on_cancel`, by task.
    pub fn on_cancel_task(&mut self, key: TaskKey, force: bool, recursive: bool, out: &mut Vec<Effect>) -> bool {
        let Some(task) = self.task_mut(key) else { return false };
        task.cancelled = true;
        let target = task.spec.target;
        let is_ready = task.stage == Stage::Queued;
        let stage = task.stage;
        self.mute_stream(key, out);
        self.forget_generator(key, out);
        match stage {
            Stage::Waiting(_) | Stage::Queued | Stage::Looking => {
                let template = self.task(key).expect("seen above").spec.template.clone();
                if let Target::Actor(actor) = target
                    && (is_ready || self.callee(&actor).is_some_and(|callee| callee.is_ordered(template.group)))
                {
                    self.leave_queue(actor, key);
                }
                self.finish_failed(key, Failure::Cancelled, out);
                match target {
                    // It may have been what others behind it waited for.
                    Target::Actor(actor) => self.send_calls(actor, out),
                    Target::Pool => self.left_queue(&template.need, out),
                }
            }
            Stage::Under { worker, .. } => {
                out.push(Effect::TakeBack { task: key, worker });
                // If it has started, taking it back fails and this is what is left to do.
                out.push(Effect::Interrupt { task: key, worker, force, recursive });
            }
            Stage::Reading => self.finish_failed(key, Failure::Cancelled, out),
            Stage::Limbo { .. } | Stage::Orphan => {}
        }
        true
    }

    /// The node is gone: nothing that is under way can end any more.
    pub fn on_node_gone(&mut self, out: &mut Vec<Effect>) {
        let keys: Vec<TaskKey> = self.tasks().map(|(key, _)| key).collect();
        for key in keys {
            self.finish_failed(key, Failure::NodeDied, out);
        }
        self.forget_workers();
        for slot in std::mem::take(&mut self.promised) {
            self.resolve(slot, crate::Value::Failed(Failure::NodeDied.into()), smallvec::SmallVec::new(), out);
            self.release(slot, out);
        }
        let slots: Vec<Slot> =
            self.objects().filter(|(_, object)| object.value.is_none()).map(|(slot, _)| slot).collect();
        for slot in slots {
            self.resolve(
                slot,
                crate::Value::Failed(std::sync::Arc::new(Failure::NodeDied)),
                smallvec::SmallVec::new(),
                out,
            );
        }
        out.retain(|effect| matches!(effect, Effect::Resolved(_) | Effect::Freed { .. } | Effect::Discarded { .. }));
    }

    fn forget_workers(&mut self) {
        self.pools.clear();
        self.pool_of.clear();
        self.vacant_pools.clear();
        self.leases.clear();
        self.lease_of_worker.clear();
        self.callees.clear();
        self.past.clear();
        self.actor_of_worker.clear();
    }

    /// The task cannot be sent at all. One that was sent elsewhere meanwhile, or waits for another worker, is left alone.
    pub fn on_cannot_send(&mut self, now: Tick, key: TaskKey, failure: Failure, out: &mut Vec<Effect>) {
        let Some(task) = self.task(key) else { return };
        let target = task.spec.target;
        let Stage::Under { worker, ticket: 0 } = task.stage else { return };
        match target {
            Target::Actor(actor) => self.actor_progressed(actor, key, out),
            Target::Pool => self.lease_progressed(now, worker, key, out),
        }
        self.finish_failed(key, failure, out);
    }

    /// Whether a task that was sent to this worker is still there: an interrupt is only worth sending then.
    #[must_use]
    pub fn is_under(&self, key: TaskKey, on: ProcId) -> bool {
        matches!(self.task(key).map(|task| task.stage), Some(Stage::Under { worker, .. }) if worker == on)
    }
}
