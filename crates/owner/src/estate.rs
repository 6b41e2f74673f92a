//! What becomes of a dead process's objects and tasks: an heir takes them over, and everyone who borrowed turns to the heir.
//!
//! The heir reads the dead process's records and holds all of it until everyone has said what they hold, run and lent; then counting goes
//! on as for objects of its own.

use model::{Failure, Filed, JobId, Need, ObjectId, ProcId, TaskKey, WorkerExit};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::lineage::Made;
use crate::objects::Object;
use crate::replay::Items;
use crate::tasks::{Spec, Stage, Target, Task};
use crate::{Effect, Owner, Slot, Value};

/// The ticket of a call that the owner before us sent: there is no claim word of ours to find by it, and it may have started.
pub const ADOPTED: u64 = u64::MAX;

/// What we had to do with a dead process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Legacy {
    /// Its objects that we hold.
    pub held: Vec<ObjectId>,
    /// Shares of our objects that it held.
    pub lent: Vec<(ObjectId, i32)>,
}

/// A task of a dead process's, as it is recorded.
#[derive(Debug)]
pub struct Heirloom {
    /// As it was submitted.
    pub spec: Spec,
    /// Where its arguments lie, if not in its spec.
    pub filed: Option<Filed>,
    /// The objects that it makes; those beyond the table are gone.
    pub returns: SmallVec<[Slot; 1]>,
    /// Runs that are left after a failure.
    pub retries_left: i32,
    /// Runs that are left after its worker was killed for want of memory.
    pub oom_retries_left: i32,
}

impl Owner {
    /// A process is gone, and an heir has taken over: what we borrowed from it we have from the heir, and what it borrowed from us the
    /// heir has. To be told to the heir as it is returned, before anything else is.
    ///
    /// `counted` says of which objects the heir has counted shares for us already, and how many.
    pub fn on_owner_replaced(
        &mut self,
        gone: ProcId,
        heir: ProcId,
        mut counted: FxHashMap<ObjectId, i32>,
        out: &mut Vec<Effect>,
    ) -> Legacy {
        let mut legacy = Legacy::default();
        for slot in self.by_id.values() {
            let Some(object) = self.objects.get_mut(*slot) else { continue };
            let Some(rare) = object.rare_mut() else { continue };
            rare.wanted_by.retain(|who| *who != gone);
            rare.told_where.retain(|who| *who != gone);
            if let Some(at) = rare.borrowers.iter().position(|(who, _)| *who == gone) {
                let (_, count) = rare.borrowers.swap_remove(at);
                if count > 0 {
                    rare.lend(heir, count);
                    legacy.lent.push((object.id, count));
                }
            }
            if object.owner == Some(gone) {
                object.owner = Some(heir);
                // Whoever keeps it after a call of ours has said so to the dead, and says so to the heir.
                object.lent.clear();
                object.shares = match counted.remove(&object.id) {
                    Some(shares) => shares,
                    None if object.is_used() => {
                        legacy.held.push(object.id);
                        1
                    }
                    None => 0,
                };
                if object.asked && object.value.is_none() {
                    out.push(Effect::Want { owner: heir, object: object.id });
                }
            }
        }
        for (object, count) in counted {
            out.push(Effect::Borrowed { owner: heir, object, borrower: heir, count: -count });
        }
        let unheld: Vec<Slot> = self.by_id.values().copied().collect();
        unheld.into_iter().for_each(|slot| self.free_if_unheld(slot, out));
        legacy
    }

    /// We are the heir: an object of the dead process's is ours from now on. Adds a handle, to be dropped when all have said what they
    /// hold.
    pub fn on_inherited(&mut self, id: ObjectId) -> Slot {
        let slot = match self.by_id.get(&id).copied() {
            Some(slot) => {
                // We may have borrowed it. Tasks that have ended hold what others own, and trace what is ours.
                let is_borrowed = self.object(slot).is_some_and(|object| object.owner.is_some());
                let made = self.made.iter().map(|(_, _, made)| &made.spec).filter(|_| is_borrowed);
                let arguments = made.flat_map(|spec| spec.deps.iter().chain(&spec.contains));
                let traced = arguments.filter(|argument| **argument == slot).count() as u32;
                let object = self.objects.get_mut(slot).expect("named");
                (object.owner, object.shares, object.asked) = (None, 0, false);
                object.uses -= traced;
                object.traced += traced;
                slot
            }
            None => {
                let slot = self.objects.insert(Object::new(id, None)).0;
                self.by_id.insert(id, slot);
                slot
            }
        };
        let object = self.objects.get_mut(slot).expect("found or made above");
        object.handles += 1;
        // Whoever made it is gone: there is nobody to tell of an error that is not read.
        object.is_read = true;
        slot
    }

    /// The value of an inherited object. A copy that we had borrowed gives way to it.
    pub fn on_value_inherited(
        &mut self,
        slot: Slot,
        value: Value,
        contains: SmallVec<[Slot; 0]>,
        out: &mut Vec<Effect>,
    ) {
        if let Some(object) = self.objects.get_mut(slot).filter(|object| object.value.is_some()) {
            object.value = None;
            let copied = std::mem::take(&mut object.contains);
            copied.into_iter().for_each(|inner| self.release(inner, out));
        }
        self.set_value(slot, value, contains, out);
    }

    /// An object that an inherited task names. Nothing holds it by that. `claimed`: so many shares of it are claimed of its owner.
    pub fn on_named(&mut self, id: ObjectId, owner: Option<ProcId>, claimed: i32) -> Slot {
        let slot = self.foreign_slot(id, owner);
        if let Some(object) = self.objects.get_mut(slot).filter(|object| claimed != 0 && object.owner.is_some()) {
            object.shares += claimed;
        }
        slot
    }

    /// Shares of another process's object, which it had counted for the dead, count for us.
    pub fn on_lent(&mut self, id: ObjectId, owner: ProcId, count: i32, out: &mut Vec<Effect>) {
        let slot = self.foreign_slot(id, Some(owner));
        if let Some(object) = self.objects.get_mut(slot).filter(|object| object.owner.is_some()) {
            object.shares += count;
        }
        self.free_if_unheld(slot, out);
    }

    /// Whether it is not known that anybody runs the task.
    #[must_use]
    pub fn is_orphan_idle(&self, key: TaskKey) -> bool {
        self.task(key).is_some_and(|task| task.stage == Stage::Orphan)
    }

    /// The job of a task that waits for a worker with so much.
    #[must_use]
    pub fn job_waiting(&self, need: &Need) -> Option<JobId> {
        let mut waiting =
            self.tasks().filter(|(_, task)| task.stage == Stage::Queued && task.spec.template.need == *need);
        waiting.next().map(|(_, task)| task.spec.id.job())
    }

    /// Who runs the task, if its owner before us had sent it there.
    #[must_use]
    pub fn adopted_by(&self, key: TaskKey) -> Option<ProcId> {
        match self.task(key)?.stage {
            Stage::Under { worker, ticket: ADOPTED } => Some(worker),
            _ => None,
        }
    }

    /// A task of the dead process's that has not ended. It waits until it is known whether somebody runs it.
    pub fn on_task_inherited(&mut self, heirloom: Heirloom) -> TaskKey {
        let Heirloom { spec, filed, returns, retries_left, oom_retries_left } = heirloom;
        for argument in spec.deps.iter().chain(&spec.contains) {
            self.hold(*argument);
        }
        let made = self.inherited(spec, filed, returns.clone(), retries_left, oom_retries_left);
        // What its call was told of files is not so any more: they have our name now.
        let task = Task { stage: Stage::Orphan, is_outdated: true, ..Task::again(made) };
        let (slot, generation) = self.tasks.insert(task);
        let key = TaskKey::new(slot, generation);
        self.arguments_lie_in(key, filed);
        for slot in returns {
            if let Some(object) = self.objects.get_mut(slot) {
                object.set_maker(Some(key));
            }
        }
        key
    }

    /// A task of the dead process's that has ended and can make its large values again.
    pub fn on_made_inherited(&mut self, heirloom: Heirloom, out: &mut Vec<Effect>) {
        let Heirloom { spec, filed, returns, retries_left, oom_retries_left } = heirloom;
        for argument in spec.deps.iter().chain(&spec.contains) {
            if let Some(object) = self.objects.get_mut(*argument) {
                match object.owner {
                    None => object.traced += 1,
                    Some(_) => object.uses += 1,
                }
            }
        }
        let made = self.inherited(spec, filed, returns.clone(), retries_left, oom_retries_left);
        let key = self.shelve(made);
        for slot in returns {
            if let Some(object) = self.objects.get_mut(slot) {
                object.lineage = Some(key);
            }
        }
        self.bound_lineage(out);
    }

    fn inherited(
        &mut self,
        spec: Spec,
        filed: Option<Filed>,
        returns: SmallVec<[Slot; 1]>,
        retries_left: i32,
        oom_retries_left: i32,
    ) -> Made {
        let number = self.submitted;
        self.submitted += 1;
        Made { spec, filed, returns, items: Items::default(), retries_left, oom_retries_left, number, cell: 0 }
    }

    /// This process runs the task, or has it in its queue, and will answer us. A call on an actor that is dead ends with it.
    pub fn on_orphan_runs(&mut self, key: TaskKey, worker: ProcId, out: &mut Vec<Effect>) {
        let Some(task) = self.task_mut(key) else { return };
        task.stage = Stage::Under { worker, ticket: ADOPTED };
        match task.spec.target {
            Target::Actor(actor) => self.orphan_under_actor(actor, worker, key, out),
            Target::Pool => {
                self.orphans.retain(|orphan| self.tasks.get(orphan.slot()).is_some());
                self.orphans.push(key);
            }
        }
    }

    /// Nobody runs the task. `may_have_run`: it was sent to somebody, whose answer died with who sent it.
    pub fn on_orphan_idle(&mut self, key: TaskKey, may_have_run: bool, out: &mut Vec<Effect>) {
        let Some(task) = self.task_mut(key) else { return };
        if task.cancelled {
            return self.finish_failed(key, Failure::Cancelled, out);
        }
        if may_have_run && task.retries_left == 0 {
            return self.finish_failed(key, Failure::OwnerDied, out);
        }
        task.retries_left -= i32::from(may_have_run && task.retries_left > 0);
        self.enter_again(key, out);
    }

    /// Ends the task if nobody holds anything that it makes or needs it to make something again, and we do not run it ourselves by now. True if so.
    pub fn on_orphan_unwanted(&mut self, key: TaskKey, out: &mut Vec<Effect>) -> bool {
        let is_theirs = |task: &&Task| matches!(task.stage, Stage::Orphan | Stage::Under { ticket: ADOPTED, .. });
        let Some(task) = self.task(key).filter(is_theirs) else { return false };
        let is_wanted = |slot: &Slot| {
            let is_held = |object: &Object| object.is_used() || object.borrowers_count() > 0 || object.traced > 0;
            self.objects.get(*slot).is_some_and(is_held)
        };
        if task.returns.iter().any(is_wanted) {
            return false;
        }
        if let Target::Actor(actor) = task.spec.target {
            self.actor_forgets(actor, key);
        }
        self.finish_failed(key, Failure::Cancelled, out);
        true
    }

    /// An object that was inherited without a value, and that no task makes, never gets one.
    pub fn on_nothing_makes(&mut self, slot: Slot, out: &mut Vec<Effect>) {
        let object = self.objects.get(slot);
        let is_made = |object: &Object| object.maker().is_some() || object.lineage.is_some();
        if object.is_some_and(|object| object.value.is_none() && !is_made(object)) {
            let failure = Value::Failed(std::sync::Arc::new(Failure::OwnerDied));
            self.resolve(slot, failure, SmallVec::new(), out);
        }
    }

    pub(crate) fn orphans_lost(&mut self, worker: ProcId, exit: &WorkerExit, out: &mut Vec<Effect>) {
        if self.orphans.is_empty() {
            return;
        }
        let is_there = |key: &TaskKey| {
            self.task(*key)
                .is_some_and(|task| matches!(task.stage, Stage::Under { worker: on, ticket: ADOPTED } if on == worker))
        };
        let lost: Vec<TaskKey> = self.orphans.iter().copied().filter(is_there).collect();
        self.orphans.retain(|key| !lost.contains(key));
        lost.into_iter().for_each(|key| self.task_lost(key, true, exit, out));
    }
}
