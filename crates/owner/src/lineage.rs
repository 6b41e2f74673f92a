//! How a large value was made, kept so that it can be made again.
//!
//! Small values live in the owner's own memory and cannot be lost without it; so only tasks that made a large value are kept, for as long as
//! one of those is. Their arguments are kept as well, but thinly: a small one with its value, a large one without, if it can be made
//! again itself. How much memory they may take is in `shelf.rs`.
//!
//! - **LIN-1** what is lost is made again if its task may run again, and fails otherwise: nobody waits for it in vain.
//! - **LIN-2** a task is kept as long as one of its large values, and an argument as long as a task that needs it.

use std::sync::Arc;

use model::{Bulk, Failure, Filed, ObjectId, ProcId, TaskKey, Tick};
use smallvec::SmallVec;

use crate::objects::Object;
use crate::records::erase;
use crate::replay::{Items, index_of};
use crate::shelf::{EVICTED, WHY_EVICTED};
use crate::tasks::{Spec, Stage, Target, Task};
use crate::{Effect, Owner, Slot, Value};

/// Stands for a value of a task that nobody holds any more, or that cannot be lost.
pub(crate) const GONE: Slot = Slot::MAX;

/// A task that has ended, and can run again.
pub(crate) struct Made {
    pub(crate) spec: Spec,
    /// Where its arguments lie, if not in its spec.
    pub(crate) filed: Option<Filed>,
    /// The objects that it made: `GONE` for those that do not matter any more.
    pub(crate) returns: SmallVec<[Slot; 1]>,
    /// Of a generator: its large values that somebody holds.
    pub(crate) items: Items,
    pub(crate) retries_left: i32,
    pub(crate) oom_retries_left: i32,
    /// Its number among the tasks of its owner.
    pub(crate) number: u64,
    /// Where it is recorded; see `records.rs`.
    pub(crate) cell: u32,
}

impl Made {
    /// The objects that it made and that matter.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let returns = self.returns.iter().copied().filter(|slot| *slot != GONE);
        let mut items: Vec<Slot> = self.items.values().copied().collect();
        items.sort_unstable();
        returns.chain(items).collect()
    }
}

impl Owner {
    /// Keeps a task that has ended, if it has made a large value that somebody holds. `items` are those of a generator; `filed`: where its
    /// arguments lie as well. Returns which of its arguments it no longer holds.
    pub(crate) fn keep_lineage(
        &mut self,
        task: Task,
        mut items: Items,
        filed: Option<Filed>,
        out: &mut Vec<Effect>,
    ) -> SmallVec<[Slot; 2]> {
        let is_bulky = |object: &Object| matches!(object.value, Some(Value::Bulk(_)));
        let matters = |slot: &Slot| self.objects.get(*slot).is_some_and(is_bulky);
        // Of a generator's values some may have been lost behind the run that was to bring them.
        items
            .retain(|_, slot| self.objects.get(*slot).is_some_and(|object| object.value.is_none() || is_bulky(object)));
        let is_wanted = task.returns.iter().any(matters) || !items.is_empty();
        if task.cancelled || task.spec.template.retries_max == 0 || !is_wanted {
            out.extend(filed.map(|filed| Effect::Discarded(Bulk::Filed(filed))));
            return arguments(&task.spec).collect();
        }
        let returns: SmallVec<[Slot; 1]> =
            task.returns.iter().map(|slot| if matters(slot) { *slot } else { GONE }).collect();
        // A borrowed argument is held as before: its owner knows nothing of what we may need again.
        let is_ours = |slot: &Slot| self.objects.get(*slot).is_some_and(|object| object.owner.is_none());
        let ours: SmallVec<[Slot; 2]> = arguments(&task.spec).filter(is_ours).collect();
        for argument in &ours {
            self.objects.get_mut(*argument).expect("ours").traced += 1;
        }
        let made = Made {
            spec: task.spec,
            filed,
            returns,
            items,
            retries_left: task.retries_left,
            oom_retries_left: task.oom_retries_left,
            number: task.number,
            cell: 0,
        };
        let slots = made.slots();
        let key = self.shelve(made);
        for slot in slots {
            let object = self.objects.get_mut(slot).expect("it matters");
            object.lineage = Some(key);
            if object.cell != 0 {
                self.record_changed(slot, out);
            }
        }
        ours
    }

    /// A value that a kept task made is gone for good.
    pub(crate) fn forget_made(
        &mut self,
        key: u32,
        (slot, id): (Slot, ObjectId),
        freeing: &mut Vec<Slot>,
        out: &mut Vec<Effect>,
    ) {
        let Some(made) = self.made.get_mut(key) else { return };
        made.returns.iter_mut().filter(|made| **made == slot).for_each(|made| *made = GONE);
        if let Some(index) = index_of(id).filter(|index| made.items.get(index) == Some(&slot)) {
            made.items.remove(&index);
        }
        if !made.items.is_empty() || made.returns.iter().any(|made| *made != GONE) {
            return;
        }
        self.forget(key, freeing, out);
    }

    /// A kept task goes, and what only it held is named.
    pub(crate) fn forget(&mut self, key: u32, freeing: &mut Vec<Slot>, out: &mut Vec<Effect>) {
        let Some(made) = self.unshelve(key) else { return };
        erase(made.cell, out);
        out.extend(made.filed.map(|filed| Effect::Discarded(Bulk::Filed(filed))));
        for argument in arguments(&made.spec) {
            let Some(object) = self.objects.get_mut(argument) else { continue };
            if object.owner.is_none() {
                object.traced = object.traced.saturating_sub(1);
            } else {
                object.uses = object.uses.saturating_sub(1);
            }
            if !object.is_held() {
                freeing.push(argument);
            }
        }
    }

    /// Nobody holds the object, but a kept task needs it to run again: its bytes go, unless they are few.
    pub(crate) fn thin(&mut self, slot: Slot, freeing: &mut Vec<Slot>, out: &mut Vec<Effect>) {
        let Some(object) = self.objects.get_mut(slot) else { return };
        let Some(bulk) = object.value.as_ref().and_then(Value::as_bulk) else { return };
        out.extend([Effect::Discarded(bulk), Effect::Unresolved(slot)]);
        let is_recorded = object.cell != 0;
        object.value = match object.lineage {
            Some(EVICTED) => Some(lost(WHY_EVICTED)),
            Some(_) => None,
            None => Some(lost("it was put, or made by a task that may not run again, and then let go of")),
        };
        for inner in std::mem::take(&mut object.contains) {
            if let Some(held) = self.objects.get_mut(inner) {
                held.uses = held.uses.saturating_sub(1);
                if !held.is_held() {
                    freeing.push(inner);
                }
            }
        }
        if is_recorded {
            self.record_changed(slot, out);
        }
    }

    /// The bytes of these values of ours are lost. All that are known to be are named at once, so that no task runs twice for them. False if
    /// that is no news.
    pub fn on_lost(&mut self, lost: &[(Slot, Bulk)], why: &str, out: &mut Vec<Effect>) -> bool {
        let (mut news, mut named) = (Vec::new(), Vec::new());
        for (slot, bulk) in lost {
            let object = self.objects.get_mut(*slot).filter(|object| object.owner.is_none());
            let Some(object) = object.filter(|object| object.value == Some(Value::bulk(*bulk))) else { continue };
            object.value = None;
            let contains = std::mem::take(&mut object.contains);
            self.hold_for_calls(*slot, &contains);
            out.push(Effect::Unresolved(*slot));
            out.push(Effect::Discarded(*bulk));
            named.extend(contains);
            self.await_again(*slot);
            news.push(*slot);
        }
        news.iter().for_each(|slot| self.make_again(*slot, why, out));
        // Not before: what a lost value named may be what it is made of, and held by nothing else.
        named.into_iter().for_each(|slot| self.release(slot, out));
        !news.is_empty()
    }

    /// Makes a value again that is not there (LIN-1), and first whatever that needs.
    pub(crate) fn make_again(&mut self, slot: Slot, why: &str, out: &mut Vec<Effect>) {
        let mut lacking = vec![slot];
        let mut ready = Vec::new();
        while let Some(slot) = lacking.pop() {
            let Some(object) = self.objects.get(slot) else { continue };
            if object.value.is_some() || object.maker().is_some() || object.owner.is_some() {
                continue;
            }
            match self.run_again(slot, out) {
                Err(because) => self.resolve(slot, lost(&format!("{why}; {because}")), SmallVec::new(), out),
                Ok(key) => {
                    let Some(task) = self.task(key) else { continue };
                    lacking.extend(task.spec.deps.iter().chain(&task.spec.contains));
                    ready.push(key);
                }
            }
        }
        ready.into_iter().for_each(|key| self.enter_again(key, out));
    }

    /// The task that made the object is under way again; or why it cannot be.
    fn run_again(&mut self, slot: Slot, out: &mut Vec<Effect>) -> Result<TaskKey, &'static str> {
        let key = self.objects.get(slot).and_then(|object| object.lineage).ok_or("no task can make it again")?;
        if key == EVICTED {
            return Err(WHY_EVICTED);
        }
        let made = self.made.get(key).ok_or("no task can make it again")?;
        if made.retries_left == 0 {
            return Err("its task has no retries left");
        }
        let mut made = self.unshelve(key).expect("found above");
        made.retries_left -= i32::from(made.retries_left > 0);
        let (cell, filed) = (made.cell, made.filed);
        for argument in arguments(&made.spec) {
            if let Some(object) = self.objects.get_mut(argument).filter(|object| object.owner.is_none()) {
                object.traced = object.traced.saturating_sub(1);
                object.uses += 1;
            }
        }
        let (slots, items) = (made.slots(), std::mem::take(&mut made.items));
        let (id, yields) = (made.spec.id, made.spec.template.yields);
        let task = Task::again(made);
        let (at, generation) = self.tasks.insert(task);
        let key = TaskKey::new(at, generation);
        self.arguments_lie_in(key, filed);
        if !items.is_empty() {
            self.open_replay(key, id, yields, items);
        }
        for slot in slots {
            let object = self.objects.get_mut(slot).expect("LIN-2: it matters");
            object.set_maker(Some(key));
            object.lineage = None;
            if object.cell != 0 {
                self.record_changed(slot, out);
            }
        }
        // Its new record is written first.
        erase(cell, out);
        Ok(key)
    }

    /// A task that runs again, or whose argument is gone, waits for what it lacks, or for a worker; first for what is in a file.
    pub(crate) fn enter_again(&mut self, key: TaskKey, out: &mut Vec<Effect>) {
        if self.read_arguments(key, out) {
            return;
        }
        self.need_arguments(key, out);
        let missing = self.watch_dependencies(key, out);
        let Some(task) = self.task_mut(key) else { return };
        (task.stage, task.is_outdated) = (Stage::Waiting(missing), false);
        match task.spec.target {
            Target::Actor(actor) => self.enter_actor_again(actor, key, missing == 0, out),
            Target::Pool if missing == 0 => self.task_ready(key, out),
            Target::Pool => {}
        }
    }

    /// A worker could not have an argument that its call named, and did not run it. The body looks which one is lost, since that may take
    /// long; the worker has others to serve meanwhile.
    pub fn on_argument_lost(&mut self, now: Tick, key: TaskKey, from: ProcId, why: &str, out: &mut Vec<Effect>) {
        let is_under = |task: &Task| matches!(task.stage, Stage::Under { worker, .. } if worker == from);
        let Some(task) = self.task_mut(key).filter(|task| is_under(task)) else { return };
        let (target, is_cancelled) = (task.spec.target, task.cancelled);
        let is_over = match target {
            _ if is_cancelled => Some(Failure::Cancelled),
            Target::Actor(actor) if let Some(death) = self.death_of(actor) => Some(Failure::ActorDied(actor, death)),
            // Seen now: those that were sent behind it may have run by the time that all is known.
            Target::Actor(actor) if !self.has_its_turn(actor, key) => Some(Failure::Lost(why.into())),
            Target::Pool | Target::Actor(_) => None,
        };
        match target {
            // Before any other call is sent: it goes first.
            Target::Actor(actor) if is_over.is_none() => self.actor_call_looks(actor, key),
            Target::Actor(_) | Target::Pool => self.left_worker(now, key, from, target, out),
        }
        if let Some(failure) = is_over {
            return self.finish_failed(key, failure, out);
        }
        self.task_mut(key).expect("seen above").stage = Stage::Looking;
        // Its heir must not take it for one that may have run.
        self.note(key, out);
        if self.arguments_to_look_at(key).is_empty() {
            self.on_arguments_looked(key, false, why, out);
        } else {
            out.push(Effect::LookForArguments { task: key, why: why.into() });
        }
    }

    /// Where the large arguments of a task lie whose worker says that one does not; none if it does not wait for a look any more.
    #[must_use]
    pub fn arguments_to_look_at(&self, key: TaskKey) -> Vec<(Slot, Bulk)> {
        let Some(task) = self.task(key).filter(|task| task.stage == Stage::Looking) else { return Vec::new() };
        let place = |slot: &Slot| Some((*slot, self.objects.get(*slot)?.value.as_ref()?.as_bulk()?));
        task.spec.deps.iter().filter_map(place).collect()
    }

    /// The arguments of a task were looked at, and all that are lost were named. `has_changed`: one is not there, and lies elsewhere by now.
    /// If there was nothing to be found, the worker's word counts.
    pub fn on_arguments_looked(&mut self, key: TaskKey, has_changed: bool, why: &str, out: &mut Vec<Effect>) {
        let Some(task) = self.task_mut(key).filter(|task| task.stage == Stage::Looking) else { return };
        task.is_outdated |= has_changed;
        let target = task.spec.target;
        if let Target::Actor(actor) = target {
            self.actor_call_looked(actor, key);
        }
        let is_there = |object: &Object| matches!(object.value, Some(Value::Inline(_) | Value::Bulk(_)));
        let lacks = |slot: &Slot| self.objects.get(*slot).is_some_and(|object| !is_there(object));
        if self.task(key).is_some_and(|task| task.is_outdated || task.spec.deps.iter().any(lacks)) {
            return self.enter_again(key, out);
        }
        self.finish_failed(key, Failure::Lost(why.into()), out);
        if let Target::Actor(actor) = target {
            self.send_calls(actor, out);
        }
    }

    /// A value goes whose references calls on their way may have read out of it already: those hold them from now on.
    pub(crate) fn hold_for_calls(&mut self, argument: Slot, named: &[Slot]) {
        if named.is_empty() {
            return;
        }
        let is_away = |task: &Task| matches!(task.stage, Stage::Under { .. } | Stage::Limbo { .. } | Stage::Orphan);
        let calls = self.tasks().filter(|(_, task)| is_away(task) && task.spec.deps.contains(&argument));
        for key in calls.map(|(key, _)| key).collect::<Vec<_>>() {
            self.task_mut(key).expect("found above").holds.extend_from_slice(named);
            named.iter().for_each(|slot| self.hold(*slot));
        }
    }

    /// Whoever was ready to use the object waits for it again. What is on its way with it may come back without having run.
    pub(crate) fn await_again(&mut self, lost: Slot) {
        let concerned: Vec<TaskKey> =
            self.tasks().filter(|(_, task)| task.spec.deps.contains(&lost)).map(|(key, _)| key).collect();
        for key in concerned {
            let Some(task) = self.task_mut(key) else { continue };
            let uses = task.spec.deps.iter().filter(|dep| **dep == lost).count() as u32;
            let (was_queued, before) = match task.stage {
                Stage::Waiting(missing) => (false, missing),
                Stage::Queued => (true, 0),
                // It looks for itself when it has its own arguments.
                Stage::Reading => continue,
                Stage::Under { .. } | Stage::Limbo { .. } | Stage::Orphan | Stage::Looking => {
                    task.is_outdated = true;
                    continue;
                }
            };
            task.stage = Stage::Waiting(before + uses);
            let target = task.spec.target;
            if let Some(object) = self.objects.get_mut(lost) {
                object.waiting.extend(std::iter::repeat_n(key, uses as usize));
            }
            match target {
                Target::Pool if was_queued => {
                    self.pools.iter_mut().for_each(|pool| pool.queue.retain(|other| *other != key))
                }
                Target::Pool => {}
                Target::Actor(actor) => self.actor_call_unready(actor, key),
            }
        }
    }
}

pub(crate) fn lost(why: &str) -> Value {
    Value::Failed(Arc::new(Failure::Lost(why.into())))
}

pub(crate) fn arguments(spec: &Spec) -> impl Iterator<Item = Slot> {
    spec.deps.iter().chain(&spec.contains).copied()
}
