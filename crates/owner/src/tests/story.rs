//! A small process for stories: given calls, when an event, then exact effects.

use std::sync::Arc;

use model::{ActorDeath, ActorId, Failure, FunctionId, JobId, Need, ObjectId, ProcId, Resources};
use model::{TaskId, TaskKey, Template, Tick, Where, WorkerExit, Yields};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::{ActorNews, Effect, Next, Owner, Slot, Spec, StreamKey, Submitted, Target, Value};

pub(crate) const W1: ProcId = worker(1);
pub(crate) const W2: ProcId = worker(2);
pub(crate) const W3: ProcId = worker(3);
pub(crate) const ACTOR: ActorId = ActorId([7; 16]);

pub(crate) const fn worker(slot: u16) -> ProcId {
    ProcId::new(1, slot, 1)
}

/// What a user calls.
#[derive(Clone)]
pub(crate) struct Call {
    target: Target,
    at: Where,
    cpus: i64,
    returns: u32,
    yields: Yields,
    retries: i32,
    group: u16,
    deps: Vec<Slot>,
    contains: Vec<Slot>,
    payload: Vec<u8>,
}

pub(crate) fn task() -> Call {
    Call {
        target: Target::Pool,
        at: Where::Anywhere,
        cpus: 1,
        returns: 1,
        yields: Yields::Nothing,
        retries: 0,
        group: 0,
        deps: Vec::new(),
        contains: Vec::new(),
        payload: Vec::new(),
    }
}

pub(crate) fn call() -> Call {
    Call { target: Target::Actor(ACTOR), ..task() }
}

impl Call {
    pub(crate) fn on(self, actor: ActorId) -> Self {
        Self { target: Target::Actor(actor), ..self }
    }

    pub(crate) fn needs(mut self, dep: impl Into<Slot>) -> Self {
        self.deps.push(dep.into());
        self
    }

    pub(crate) fn names(mut self, inner: impl Into<Slot>) -> Self {
        self.contains.push(inner.into());
        self
    }

    pub(crate) fn at(self, at: Where) -> Self {
        Self { at, ..self }
    }

    pub(crate) fn cpus(self, cpus: i64) -> Self {
        Self { cpus, ..self }
    }

    pub(crate) fn returns(self, returns: u32) -> Self {
        Self { returns, ..self }
    }

    pub(crate) fn yields(self, yields: Yields) -> Self {
        Self { yields, ..self }
    }

    pub(crate) fn group(self, group: u16) -> Self {
        Self { group, ..self }
    }

    /// Arguments of so many bytes.
    pub(crate) fn given(self, bytes: usize) -> Self {
        Self { payload: vec![7; bytes], ..self }
    }

    pub(crate) fn retries(self, retries: i32) -> Self {
        Self { retries, ..self }
    }

    fn template(&self) -> Arc<Template> {
        Arc::new(Template {
            language: model::Language::PYTHON,
            function: FunctionId([0; 16]),
            name: "f".into(),
            method: "".into(),
            need: self.need(),
            returns: self.returns,
            yields: self.yields,
            retries_max: self.retries,
            retry_exceptions: false,
            calls_max: 0,
            group: self.group,
        })
    }

    fn need(&self) -> Need {
        Need { at: self.at, ..Need::same(Resources::cpus(self.cpus)) }
    }
}

/// What came of a call.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) key: TaskKey,
    pub(crate) slots: SmallVec<[Slot; 1]>,
    stream: Option<StreamKey>,
    pub(crate) effects: Vec<Effect>,
}

impl Made {
    pub(crate) fn slot(&self) -> Slot {
        self.slots[0]
    }

    /// What it yields.
    pub(crate) fn stream(&self) -> StreamKey {
        self.stream.expect("it yields")
    }
}

impl From<&Made> for Slot {
    fn from(made: &Made) -> Self {
        made.slot()
    }
}

impl From<&Made> for TaskKey {
    fn from(made: &Made) -> Self {
        made.key
    }
}

pub(crate) struct Process {
    pub(crate) owner: Owner,
    pub(crate) now: Tick,
    made: u64,
    tickets: FxHashMap<u64, TaskKey>,
}

impl Process {
    pub(crate) fn new() -> Self {
        Self { owner: Owner::new(), now: Tick(1_000_000), made: 0, tickets: FxHashMap::default() }
    }

    /// With a lease, number 0, on the first worker.
    pub(crate) fn leased() -> Self {
        let mut process = Self::new();
        let first = process.submit(task());
        process.granted(0, W1);
        process.replied(&first, W1, value(0));
        process.dropped(first.slot());
        process
    }

    /// That calls an actor on the first worker.
    pub(crate) fn calling() -> Self {
        let mut process = Self::new();
        process.owner.on_handle_made(ACTOR, true);
        process.news(0, ActorNews::Alive(W1));
        process
    }

    /// A worker could not have an argument of the call; then it is looked for, and nothing is found that was not known.
    pub(crate) fn missed(&mut self, key: impl Into<TaskKey>, by: ProcId, why: &str) -> Vec<Effect> {
        let key = key.into();
        let mut effects = self.when(|owner, now, out| owner.on_argument_lost(now, key, by, why, out));
        let look = Effect::LookForArguments { task: key, why: why.into() };
        if let Some(at) = effects.iter().position(|effect| *effect == look) {
            effects.remove(at);
            effects.extend(self.looked(key, false, why));
        }
        effects
    }

    /// The arguments of the call were looked at.
    pub(crate) fn looked(&mut self, key: impl Into<TaskKey>, has_changed: bool, why: &str) -> Vec<Effect> {
        let key = key.into();
        self.when(|owner, _, out| owner.on_arguments_looked(key, has_changed, why, out))
    }

    /// The effects of one event. What is to be sent is sent.
    pub(crate) fn when(&mut self, event: impl FnOnce(&mut Owner, Tick, &mut Vec<Effect>)) -> Vec<Effect> {
        let effects = self.when_unchecked(event);
        self.owner.check_invariants();
        effects
    }

    fn when_unchecked(&mut self, event: impl FnOnce(&mut Owner, Tick, &mut Vec<Effect>)) -> Vec<Effect> {
        let mut effects = Vec::new();
        event(&mut self.owner, self.now, &mut effects);
        for effect in &effects {
            if let Effect::Push { task, .. } = effect {
                let ticket = self.tickets.len() as u64 + 1;
                self.tickets.insert(ticket, *task);
                self.owner.on_pushed(*task, ticket);
            }
        }
        effects
    }

    pub(crate) fn next_id(&mut self) -> TaskId {
        self.made += 1;
        TaskId::root(JobId([1; 4]), [1; 16]).child(self.made)
    }

    pub(crate) fn submit(&mut self, call: Call) -> Made {
        let made = self.submit_unchecked(call);
        self.owner.check_invariants();
        made
    }

    /// For stories so long that looking at everything at each step would take its time.
    pub(crate) fn submit_unchecked(&mut self, call: Call) -> Made {
        let id = self.next_id();
        let template = call.template();
        let Call { target, deps, contains, payload, .. } = call;
        let spec = Spec { id, template, target, payload, deps: deps.into(), contains: contains.into() };
        let mut made = None;
        let effects = self.when_unchecked(|owner, now, out| made = Some(owner.on_submitted(now, spec, out)));
        let Submitted { key, returns: slots, stream } = made.expect("set above");
        Made { key, slots, stream, effects }
    }

    pub(crate) fn put(&mut self, contains: &[Slot]) -> Slot {
        self.put_value(value(1), contains)
    }

    pub(crate) fn put_value(&mut self, value: Value, contains: &[Slot]) -> Slot {
        let id = ObjectId::of(self.next_id(), 1);
        let slot = self.owner.on_put(id, value, contains);
        self.owner.check_invariants();
        slot
    }

    pub(crate) fn granted(&mut self, number: u64, worker: ProcId) -> Vec<Effect> {
        self.when(|owner, now, out| owner.on_lease_granted(now, number, worker, out))
    }

    pub(crate) fn revoked(&mut self, number: u64) -> Vec<Effect> {
        self.when(|owner, now, out| owner.on_lease_revoked(now, number, out))
    }

    pub(crate) fn replied(&mut self, task: impl Into<TaskKey>, from: ProcId, value: Value) -> Vec<Effect> {
        self.when(|owner, now, out| owner.on_replied(now, task.into(), from, smallvec![(value, smallvec![])], out))
    }

    pub(crate) fn yielded(&mut self, task: impl Into<TaskKey>, from: ProcId, value: Value) -> Vec<Effect> {
        self.when(|owner, _, out| owner.on_item(task.into(), from, value, smallvec![], out))
    }

    /// Takes the next value; `None`: it is not there yet.
    pub(crate) fn next(&mut self, stream: StreamKey) -> Option<Next> {
        let mut next = Next::End;
        self.when(|owner, _, out| next = owner.on_next(stream, out));
        (!matches!(next, Next::Pending(_))).then_some(next)
    }

    /// The values that can be read now, and whether the end came.
    pub(crate) fn read_all(&mut self, stream: StreamKey) -> (Vec<Value>, bool) {
        let mut values = Vec::new();
        loop {
            match self.next(stream) {
                Some(Next::Item { slot, .. }) => {
                    values.push(self.value_of(slot).expect("what is read has a value"));
                    self.dropped(slot);
                }
                Some(Next::End) => return (values, true),
                _ => return (values, false),
            }
        }
    }

    pub(crate) fn given_back(&mut self, task: impl Into<TaskKey>, from: ProcId) -> Vec<Effect> {
        self.when(|owner, now, out| owner.on_given_back(now, task.into(), from, out))
    }

    pub(crate) fn took_back(&mut self, task: impl Into<TaskKey>, from: ProcId) -> Vec<Effect> {
        self.when(|owner, now, out| owner.on_took_back(now, task.into(), from, out))
    }

    /// The worker is dead; these calls had started.
    pub(crate) fn died(&mut self, worker: ProcId, started: &[&Made]) -> Vec<Effect> {
        self.died_of(worker, &exit(), started)
    }

    pub(crate) fn died_of(&mut self, worker: ProcId, exit: &WorkerExit, started: &[&Made]) -> Vec<Effect> {
        let keys: Vec<TaskKey> = started.iter().map(|made| made.key).collect();
        let tickets = self.tickets.clone();
        let has_started = |ticket| tickets.get(&ticket).is_some_and(|key| keys.contains(key));
        self.when(|owner, _, out| {
            owner.on_worker_died(worker, exit, has_started, out);
            owner.on_process_gone(worker, out);
        })
    }

    pub(crate) fn news(&mut self, incarnation: u32, news: ActorNews) -> Vec<Effect> {
        self.when(|owner, _, out| owner.on_actor_news(ACTOR, incarnation, news, out))
    }

    pub(crate) fn cancelled(&mut self, slot: impl Into<Slot>) -> Vec<Effect> {
        self.when(|owner, _, out| _ = owner.on_cancel(slot.into(), false, false, out))
    }

    pub(crate) fn dropped(&mut self, slot: impl Into<Slot>) -> Vec<Effect> {
        self.when(|owner, _, out| owner.on_handle_dropped(slot.into(), out))
    }

    pub(crate) fn after_ms(&mut self, ms: u64) -> Vec<Effect> {
        self.now = self.now.plus_ms(ms);
        self.when(|owner, now, out| owner.on_tick(now, out))
    }

    pub(crate) fn value_of(&self, slot: impl Into<Slot>) -> Option<Value> {
        self.owner.object(slot.into()).and_then(|object| object.value.clone())
    }
}

/// What a call of another process's says.
pub(crate) fn template(target: Target, retries: i32) -> Arc<Template> {
    Call { target, ..task() }.retries(retries).template()
}

pub(crate) fn value(number: u8) -> Value {
    Value::Inline(crate::Packed::from([number].as_slice()))
}

pub(crate) fn stored(offset: u64, length: u64) -> Value {
    Value::bulk(model::Bulk::Stored(model::Place { offset, length, serial: 1 }))
}

pub(crate) fn failed(failure: Failure) -> Value {
    Value::Failed(Arc::new(failure))
}

pub(crate) fn raised() -> Failure {
    Failure::Raised([1].into())
}

pub(crate) fn retryable() -> Value {
    failed(Failure::Retryable([1].into()))
}

/// What an argument's failure does to the call that needs it.
pub(crate) fn argument(cause: Failure) -> Value {
    failed(Failure::Argument { task: "f".into(), cause: Arc::new(cause) })
}

pub(crate) fn exit() -> WorkerExit {
    WorkerExit::Signal(9, model::Remains::default())
}

pub(crate) fn crashed() -> ActorNews {
    ActorNews::Dead(ActorDeath::Crashed(exit()))
}

pub(crate) fn push(task: impl Into<TaskKey>, worker: ProcId) -> Effect {
    Effect::Push { task: task.into(), worker }
}

pub(crate) fn take_back(task: impl Into<TaskKey>, worker: ProcId) -> Effect {
    Effect::TakeBack { task: task.into(), worker }
}

pub(crate) fn interrupt(task: impl Into<TaskKey>, worker: ProcId) -> Effect {
    Effect::Interrupt { task: task.into(), worker, force: false, recursive: false }
}

/// A request for a worker with one core.
pub(crate) fn request(number: u64) -> Effect {
    Effect::RequestLease { number, need: task().need(), name: "f".into() }
}

pub(crate) fn give_lease_back(number: u64) -> Effect {
    Effect::ReturnLease { number }
}

pub(crate) fn resolved(slot: impl Into<Slot>) -> Effect {
    Effect::Resolved(slot.into())
}

pub(crate) fn freed(slot: impl Into<Slot>) -> Effect {
    Effect::Freed { slot: slot.into(), bulk: None }
}
