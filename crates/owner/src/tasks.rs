//! A task's way from submission to its end.

use std::sync::Arc;

use model::{ActorId, Failure, ObjectId, ProcId, TaskId, TaskKey, Template, Tick, WorkerExit, Yields};
use smallvec::SmallVec;

use crate::lineage::Made;
use crate::objects::Object;
use crate::records::erase;
use crate::replay::Items;
use crate::stream::StreamKey;
use crate::{Effect, Owner, Slot, Value};

/// Where a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// On any worker that a lease gives.
    Pool,
    /// On this actor.
    Actor(ActorId),
}

/// What the caller says about one call.
#[derive(Debug)]
pub struct Spec {
    /// Derived from its parent.
    pub id: TaskId,
    /// What it shares with other calls.
    pub template: Arc<Template>,
    /// Where it runs.
    pub target: Target,
    /// Arguments, encoded.
    pub payload: Vec<u8>,
    /// Arguments that are references: their values are sent along.
    pub deps: SmallVec<[Slot; 2]>,
    /// References inside arguments: sent as references.
    pub contains: SmallVec<[Slot; 0]>,
}

/// What a task is known by once it is submitted. It may have ended already.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// Its name in the owner's table.
    pub key: TaskKey,
    /// The objects it makes, each with one handle.
    pub returns: SmallVec<[Slot; 1]>,
    /// What it yields.
    pub stream: Option<StreamKey>,
}

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waits for this many arguments.
    Waiting(u32),
    /// Waits for a worker.
    Queued,
    /// Was sent to a worker. The ticket is the body's: it finds the call's claim word by it.
    Under {
        /// Which worker.
        worker: ProcId,
        /// The body's.
        ticket: u64,
    },
    /// Was under way on an actor whose worker died; what becomes of it depends on the actor.
    Limbo {
        /// Whether it may have run.
        started: bool,
    },
    /// Was inherited from a dead process, and it is not known yet whether somebody runs it.
    Orphan,
    /// Runs again, and its arguments are being read from a file.
    Reading,
    /// Came back without having run, since its worker lacked an argument: whether that is lost is being looked for.
    Looking,
}

/// One task that has not ended.
#[derive(Debug)]
pub struct Task {
    /// As submitted.
    pub spec: Spec,
    /// Where it is.
    pub stage: Stage,
    /// When it was submitted.
    pub since: Tick,
    /// Its number among the tasks of its owner.
    pub(crate) number: u64,
    /// The objects it makes.
    pub returns: SmallVec<[Slot; 1]>,
    /// Runs that are left after a failure; below zero: any number.
    pub retries_left: i32,
    /// Runs that are left after its worker was killed for want of memory; below zero: any number.
    pub(crate) oom_retries_left: i32,
    /// An argument does not lie any more where the call that is on its way says.
    pub(crate) is_outdated: bool,
    /// Somebody cancelled it: it is never tried again.
    pub cancelled: bool,
    /// The object that stands for the actor it calls, held until it ends.
    pub(crate) life: Option<Slot>,
    /// The first task that waits for its one value. Most have no other, and chains of tasks are long: the object need not know.
    pub(crate) waiter: Option<TaskKey>,
    /// What else is held until it ends: it may have read of these in an argument that is gone since.
    pub(crate) holds: SmallVec<[Slot; 0]>,
    /// What it yields.
    pub stream: Option<StreamKey>,
    /// Where it is recorded; see `records.rs`.
    pub(crate) cell: u32,
}

/// Tasks that are named between one that could not run and the first cause.
const HOPS_MAX: usize = 32;

/// Each hop of a failing chain names its task; a longer chain leaves out the nearest.
fn shortened(cause: Arc<Failure>) -> Arc<Failure> {
    let mut hops = 0;
    let mut at = &cause;
    while let Failure::Argument { cause, .. } = &**at {
        (hops, at) = (hops + 1, cause);
    }
    match &*cause {
        Failure::Argument { cause, .. } if hops >= HOPS_MAX => cause.clone(),
        _ => cause,
    }
}

impl Task {
    /// One that has ended before.
    pub(crate) fn again(made: Made) -> Self {
        Self {
            spec: made.spec,
            stage: Stage::Waiting(0),
            since: Tick::default(),
            number: made.number,
            returns: made.returns,
            retries_left: made.retries_left,
            oom_retries_left: made.oom_retries_left,
            is_outdated: false,
            cancelled: false,
            life: None,
            waiter: None,
            holds: SmallVec::new(),
            stream: None,
            cell: 0,
        }
    }

    /// Whether a call on an actor waits while the actor restarts. One whose last retry is charged already was promised that run.
    pub(crate) fn may_wait_for_restart(&self) -> bool {
        self.spec.template.retries_max != 0
    }
}

impl Owner {
    /// tour(task) 4: the owner records the task and, once its arguments are there, finds it a worker.
    #[inline]
    pub fn on_submitted(&mut self, now: Tick, spec: Spec, out: &mut Vec<Effect>) -> Submitted {
        let mut missing = 0;
        for dep in &spec.deps {
            if let Some(object) = self.objects.get_mut(*dep) {
                object.uses += 1;
                // A failure of it becomes the task's own.
                object.is_read = true;
                missing += u32::from(object.value.is_none());
            }
        }
        for inner in &spec.contains {
            self.hold(*inner);
        }
        let (id, count, retries_left) = (spec.id, spec.template.returns, spec.template.retries_max);
        let yields = spec.template.yields;
        let target = spec.target;
        let has_deps = !spec.deps.is_empty();
        let task = Task {
            spec,
            stage: Stage::Waiting(missing),
            since: now,
            number: self.submitted,
            returns: SmallVec::new(),
            retries_left,
            oom_retries_left: if retries_left == 0 { 0 } else { self.oom_retries_max },
            is_outdated: false,
            cancelled: false,
            life: None,
            waiter: None,
            holds: SmallVec::new(),
            stream: None,
            cell: 0,
        };
        self.submitted += 1;
        let (slot, generation) = self.tasks.insert(task);
        let key = TaskKey::new(slot, generation);
        let mut returns = SmallVec::new();
        for index in 0..count {
            let mut object = Object::new(ObjectId::of(id, index + 1), None);
            object.handles = 1;
            object.set_maker(Some(key));
            returns.push(self.objects.insert(object).0);
        }
        self.tasks.get_mut(slot).expect("inserted above").returns.clone_from(&returns);
        let stream = if yields == Yields::Nothing { None } else { self.open_stream(key, id, yields) };
        if has_deps {
            self.watch_dependencies(key, out);
        }
        match target {
            Target::Actor(actor) => self.enter_actor(actor, key, missing == 0, out),
            Target::Pool if missing == 0 => self.task_ready(key, out),
            Target::Pool => {}
        }
        Submitted { key, returns, stream }
    }

    /// Whoever makes what the task lacks tells it. Returns how much that is.
    pub(crate) fn watch_dependencies(&mut self, key: TaskKey, out: &mut Vec<Effect>) -> u32 {
        let deps = self.task(key).map(|task| task.spec.deps.clone()).unwrap_or_default();
        let mut missing = 0;
        for dep in deps {
            if let Some(object) = self.objects.get_mut(dep)
                && object.value.is_none()
            {
                missing += 1;
                if !self.waits_by_maker(dep, key) {
                    self.objects.get_mut(dep).expect("seen above").waiting.push(key);
                }
                self.on_needed(dep, out);
            }
        }
        missing
    }

    /// Asks for what a task needs before it is counted how much of that is missing: what was let go of and cannot be made again fails at once.
    pub(crate) fn need_arguments(&mut self, key: TaskKey, out: &mut Vec<Effect>) {
        let deps = self.task(key).map(|task| task.spec.deps.clone()).unwrap_or_default();
        deps.into_iter().for_each(|dep| self.on_needed(dep, out));
    }

    /// A task that was under way is to run again. If an argument was lost meanwhile, it waits for that.
    pub(crate) fn awaits_arguments(&mut self, key: TaskKey, out: &mut Vec<Effect>) -> bool {
        let missing = self.watch_dependencies(key, out);
        if missing > 0
            && let Some(task) = self.task_mut(key)
        {
            task.stage = Stage::Waiting(missing);
        }
        missing > 0
    }

    /// Notes with the task that makes the object that `key` waits for it. False if that knows of another, or makes more than this.
    fn waits_by_maker(&mut self, slot: Slot, key: TaskKey) -> bool {
        let maker = self.objects.get(slot).and_then(|object| object.maker());
        let maker = maker.and_then(|maker| self.task_mut(maker));
        match maker.filter(|maker| maker.waiter.is_none() && maker.stream.is_none() && maker.returns.len() == 1) {
            Some(maker) => {
                maker.waiter = Some(key);
                true
            }
            None => false,
        }
    }

    /// The object has its value, although the task that was to make it goes on.
    pub(crate) fn tell_waiter(&mut self, maker: TaskKey, out: &mut Vec<Effect>) {
        if let Some(waiter) = self.task_mut(maker).and_then(|maker| maker.waiter.take()) {
            self.readied.push_back(waiter);
            self.tell_readied(out);
        }
    }

    pub(crate) fn on_dependency_ready(&mut self, key: TaskKey, out: &mut Vec<Effect>) {
        let Some(task) = self.task_mut(key) else { return };
        let Stage::Waiting(missing) = &mut task.stage else { return };
        *missing = missing.saturating_sub(1);
        if *missing == 0 {
            match task.spec.target {
                Target::Pool => self.task_ready(key, out),
                Target::Actor(actor) => self.actor_call_ready(actor, key, out),
            }
        }
    }

    /// All arguments are there: it can run, unless one of them is a failure.
    pub(crate) fn task_ready(&mut self, key: TaskKey, out: &mut Vec<Effect>) {
        match self.failed_argument(key) {
            Some(failure) => self.finish_failed(key, failure, out),
            None => {
                self.task_mut(key).expect("not ended").stage = Stage::Queued;
                self.enter_pool(key, out);
            }
        }
    }

    pub(crate) fn failed_argument(&self, key: TaskKey) -> Option<Failure> {
        let task = self.task(key)?;
        if task.spec.deps.is_empty() {
            return None;
        }
        let cause = task.spec.deps.iter().find_map(|dep| match self.objects.get(*dep)?.value.as_ref()? {
            Value::Failed(failure) => Some(failure.clone()),
            _ => None,
        })?;
        Some(Failure::Argument { task: task.spec.template.name.clone(), cause: shortened(cause) })
    }

    /// What the failure of an argument names, held once more: it goes on as the task's own failure.
    fn contained_in_failed_argument(&mut self, task: &Task) -> SmallVec<[Slot; 0]> {
        let failed = task.spec.deps.iter().find_map(|dep| {
            let object = self.objects.get(*dep)?;
            matches!(object.value, Some(Value::Failed(_))).then(|| object.contains.clone())
        });
        self.share(&failed.unwrap_or_default())
    }

    /// The same objects, held once more.
    pub(crate) fn share(&mut self, contains: &[Slot]) -> SmallVec<[Slot; 0]> {
        contains.iter().for_each(|slot| self.hold(*slot));
        contains.into()
    }

    /// A task that has not ended.
    #[must_use]
    #[inline]
    pub fn task(&self, key: TaskKey) -> Option<&Task> {
        let task = self.tasks.get(key.slot())?;
        (self.tasks.generation(key.slot()) == key.generation()).then_some(task)
    }

    #[inline]
    pub(crate) fn task_mut(&mut self, key: TaskKey) -> Option<&mut Task> {
        self.tasks.get_at(key.slot(), key.generation())
    }

    /// Every task that has not ended.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskKey, &Task)> {
        self.tasks.iter().map(|(slot, generation, task)| (TaskKey::new(slot, generation), task))
    }

    /// The body has sent the task; the ticket finds its claim word.
    #[inline]
    pub fn on_pushed(&mut self, key: TaskKey, new_ticket: u64) {
        if let Some(Task { stage: Stage::Under { ticket, .. }, .. }) = self.task_mut(key) {
            *ticket = new_ticket;
        }
    }

    /// tour(task) 9: the owner takes the reply, keeps the values, and tells who waits for them.
    ///
    /// One value per return; or one failure for all of them. An answer to a task that has ended, or that was sent elsewhere
    /// meanwhile, is ignored (OWN-1).
    pub fn on_replied(
        &mut self,
        now: Tick,
        key: TaskKey,
        from: ProcId,
        reply: SmallVec<[(Value, SmallVec<[Slot; 0]>); 1]>,
        out: &mut Vec<Effect>,
    ) {
        let is_under = |task: &Task| matches!(task.stage, Stage::Under { worker, .. } if worker == from);
        let Some(task) = self.task_mut(key).filter(|task| is_under(task)) else {
            reply.into_iter().for_each(|(value, contains)| self.discard(Some(&value), contains, out));
            return;
        };
        let target = task.spec.target;
        if task.retries_left != 0 && !task.cancelled && self.wants_retry(key, &reply) {
            let task = self.task_mut(key).expect("seen above");
            task.retries_left -= i32::from(task.retries_left > 0);
            reply.into_iter().for_each(|(value, contains)| self.discard(Some(&value), contains, out));
            self.left_worker(now, key, from, target, out);
            self.requeue(key, out);
            return;
        }
        // The worker is free before what waited for this value becomes ready: it is warm, and may take just that.
        self.left_worker(now, key, from, target, out);
        self.finish(key, reply, out);
    }

    /// Whether the call asks to be run again. A generator may have given some of its values before it raised.
    fn wants_retry(&self, key: TaskKey, reply: &[(Value, SmallVec<[Slot; 0]>)]) -> bool {
        // A worker says of no value that it is lost: this one was before it could be taken up, and is made again as any that is lost later.
        let is_retryable = |value: &Value| matches!(value, Value::Failed(failure) if matches!(**failure, Failure::Retryable(_) | Failure::Lost(_)));
        reply.iter().any(|(value, _)| is_retryable(value)) || self.stream_wants_retry(key)
    }

    pub(crate) fn left_worker(&mut self, now: Tick, key: TaskKey, from: ProcId, target: Target, out: &mut Vec<Effect>) {
        match target {
            Target::Pool => self.lease_progressed(now, from, key, out),
            Target::Actor(actor) => self.actor_progressed(actor, key, out),
        }
    }

    /// The worker gave the call back without having started it: it is about to wait for something.
    pub fn on_given_back(&mut self, now: Tick, key: TaskKey, from: ProcId, out: &mut Vec<Effect>) {
        let Some(task) = self.task_mut(key) else { return };
        if !matches!(task.stage, Stage::Under { worker, .. } if worker == from) {
            return;
        }
        if let Target::Actor(actor) = task.spec.target {
            self.actor_forgets(actor, key);
        }
        self.lease_gave_back(now, from, key, out);
        self.requeue(key, out);
    }

    /// Puts a task that is no longer under way back to where it waits for a worker, or ends it if it was cancelled.
    pub(crate) fn requeue(&mut self, key: TaskKey, out: &mut Vec<Effect>) {
        let Some(task) = self.task_mut(key) else { return };
        if task.cancelled {
            self.finish_failed(key, Failure::Cancelled, out);
            return;
        }
        (task.stage, task.is_outdated) = (Stage::Queued, false);
        let target = task.spec.target;
        self.note(key, out);
        self.rewind_stream(key, out);
        self.need_arguments(key, out);
        if let (Target::Pool, Some(failure)) = (target, self.failed_argument(key)) {
            // It was freed while the task was under way.
            return self.finish_failed(key, failure, out);
        }
        match target {
            Target::Pool if self.awaits_arguments(key, out) => {}
            Target::Pool => self.enter_pool_front(key, out),
            Target::Actor(actor) => self.reenter_actor(actor, key, out),
        }
    }

    /// The worker of a pool task is dead (OWN-4).
    pub(crate) fn task_lost(&mut self, key: TaskKey, started: bool, exit: &WorkerExit, out: &mut Vec<Effect>) {
        let Some(task) = self.task_mut(key) else { return };
        // One that was killed beside others may get along without them. One that ran alone spends what any lost run does.
        let left = match exit {
            WorkerExit::OutOfMemory { is_alone: false, .. } => &mut task.oom_retries_left,
            _ => &mut task.retries_left,
        };
        if task.cancelled {
            self.finish_failed(key, Failure::Cancelled, out);
        } else if !started {
            self.requeue(key, out);
        } else if *left != 0 {
            *left -= i32::from(*left > 0);
            self.requeue(key, out);
        } else {
            self.finish_failed(key, Failure::WorkerDied(exit.clone()), out);
        }
    }

    pub(crate) fn finish_failed(&mut self, key: TaskKey, failure: Failure, out: &mut Vec<Effect>) {
        let mut reply = SmallVec::new();
        reply.push((Value::Failed(Arc::new(failure)), SmallVec::new()));
        self.finish(key, reply, out);
    }

    /// Ends the task: the only place where one ends (OWN-1).
    fn finish(&mut self, key: TaskKey, reply: SmallVec<[(Value, SmallVec<[Slot; 0]>); 1]>, out: &mut Vec<Effect>) {
        let Some(mut task) = self.tasks.remove(key.slot()) else { return };
        // Whoever waited for its values may end at once, and let go of one: it is known before how that can be made again.
        let was_telling = std::mem::replace(&mut self.is_telling, true);
        let mut reply = self.checked_end(&task, reply, out);
        if let [(Value::Failed(failure), contains)] = &mut reply[..]
            && matches!(**failure, Failure::Argument { .. })
        {
            *contains = self.contained_in_failed_argument(&task);
        }
        let mut replayed = Items::default();
        if let Some(stream) = task.stream {
            let failure = reply.iter().find(|(value, _)| matches!(value, Value::Failed(_)));
            let failure = failure.map(|(value, contains)| (value.clone(), self.share(contains)));
            if failure.is_some() && self.is_stream_read(stream) {
                // It is the last thing that the stream's reader gets: whether it goes unread is seen there.
                task.returns.iter().for_each(|slot| self.on_failure_read(*slot));
            }
            replayed = self.end_stream(stream, failure, out);
        }
        // Until it is known how they can be made again: a kept task may need what nobody holds.
        let is_traced = |slot: &&Slot| self.objects.get(**slot).is_some_and(|object| object.traced > 0);
        let traced: SmallVec<[Slot; 1]> = task.returns.iter().filter(is_traced).copied().collect();
        traced.iter().for_each(|slot| self.hold(*slot));
        if reply.len() == task.returns.len() {
            for (slot, (value, contains)) in task.returns.iter().zip(reply) {
                self.resolve(*slot, value, contains, out);
            }
        } else {
            // One failure stands for all; anything else is no answer to this task.
            let (value, contains) = match reply.first() {
                Some((value @ Value::Failed(_), contains)) => (value.clone(), &contains[..]),
                _ => (Value::Failed(Arc::new(Failure::WorkerDied(WorkerExit::Unknown))), &[][..]),
            };
            for slot in &task.returns {
                let contains = self.share(contains);
                self.resolve(*slot, value.clone(), contains, out);
            }
            reply.into_iter().for_each(|(value, contains)| self.discard(Some(&value), contains, out));
        }
        self.readied.extend(task.waiter);
        let (life, cell, holds) = (task.life.take(), task.cell, std::mem::take(&mut task.holds));
        let filed = self.take_arguments_filed(key);
        for slot in
            self.keep_lineage(task, replayed.clone(), filed, out).into_iter().chain(life).chain(traced).chain(holds)
        {
            self.release(slot, out);
        }
        // After the records of what it has made.
        erase(cell, out);
        if !replayed.is_empty() {
            self.settle_replay(replayed, out);
        }
        self.bound_lineage(out);
        self.is_telling = was_telling;
        self.tell_readied(out);
    }
}
