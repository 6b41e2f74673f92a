//! Cancelling: what has not started never does; what runs is interrupted.

use model::{Failure, ProcId, TaskKey};

use crate::tasks::{Stage, Target};
use crate::{Effect, Owner, Slot};

impl Owner {
    /// Cancels the task that makes this object, if it has not ended. Returns whether there was one.
    pub fn on_cancel(&mut self, slot: Slot, force: bool, recursive: bool, out: &mut Vec<Effect>) -> bool {
        let Some(key) = self.objects.get(slot).and_then(|object| object.maker) else { return false };
        self.cancel_task(key, force, recursive, out)
    }

    fn cancel_task(&mut self, key: TaskKey, force: bool, recursive: bool, out: &mut Vec<Effect>) -> bool {
        let Some(task) = self.task_mut(key) else { return false };
        task.cancelled = true;
        let target = task.spec.target;
        match task.stage {
            Stage::Waiting(_) | Stage::Queued => {
                if let Target::Actor(actor) = target {
                    self.actor_forgets(actor, key);
                }
                self.finish_failed(key, Failure::Cancelled, out);
            }
            Stage::Under { worker, .. } => {
                out.push(Effect::TakeBack { task: key, worker });
                // If it has started, taking it back fails and this is what is left to do.
                out.push(Effect::Interrupt { task: key, worker, force, recursive });
            }
            Stage::Limbo { .. } => {}
        }
        true
    }

    /// Whether a task that was sent to this worker is still there: an interrupt is only worth sending then.
    #[must_use]
    pub fn is_under(&self, key: TaskKey, on: ProcId) -> bool {
        matches!(self.task(key).map(|task| task.stage), Some(Stage::Under { worker, .. }) if worker == on)
    }
}
