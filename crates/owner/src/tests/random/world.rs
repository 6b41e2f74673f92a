//! The owner's surroundings: a node that grants workers, workers that run calls, processes that borrow and lend.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use model::{ActorDeath, ActorId, Failure, JobId, Need, ObjectId, ProcId};
use model::{TaskId, TaskKey, Tick, WorkerExit};
use smallvec::SmallVec;

use super::model::{Held, Model, Pending};
use super::{Answer, Move};
use crate::{ActorNews, Effect, Owner, Recorded, Slot, Stage, Value};

pub(super) const ACTORS: usize = 3;

pub(super) struct Sent {
    pub(super) key: TaskKey,
    ticket: u64,
    pub(super) has_started: bool,
}

#[derive(Default)]
pub(super) struct Actor {
    life: u32,
    worker: Option<ProcId>,
    is_dead: bool,
    pub(super) object: Option<Slot>,
}

pub(super) struct World {
    pub(super) owner: Owner,
    pub(super) model: Model,
    pub(super) now: Tick,
    pub(super) numbers: u64,
    tickets: u64,
    processes: u32,
    pub(super) open: BTreeMap<u64, Need>,
    pub(super) leases: BTreeMap<u64, ProcId>,
    pub(super) workers: BTreeMap<ProcId, VecDeque<Sent>>,
    pub(super) actors: [Actor; ACTORS],
    pub(super) grants: Vec<(u64, ProcId)>,
    pub(super) news: Vec<(usize, u32, ActorNews)>,
    pub(super) replies: Vec<(TaskKey, ProcId)>,
    pub(super) dead: Vec<ProcId>,
    pub(super) cannot_send: bool,
    /// Calls whose arguments are looked at.
    pub(super) looks: Vec<TaskKey>,
    /// The journal: what each cell is a record of.
    cells: BTreeMap<u32, Recorded>,
    cells_made: u32,
    /// What the body has to say to the owner next.
    next: VecDeque<Said>,
}

enum Said {
    TookBack(TaskKey, ProcId),
    CannotSend(TaskKey),
}

pub(super) fn actor_id(index: usize) -> ActorId {
    ActorId([index as u8 + 1; 16])
}

pub(super) fn stranger(pick: usize) -> ProcId {
    ProcId::new(1, 900 + (pick % 3) as u16, 0)
}

pub(super) fn pick<T: Copy>(from: impl Iterator<Item = T>, pick: usize) -> Option<T> {
    let all: Vec<T> = from.collect();
    (!all.is_empty()).then(|| all[pick % all.len()])
}

impl World {
    pub(super) fn new() -> Self {
        let mut world = Self {
            owner: Owner::new(),
            model: Model::default(),
            now: Tick(1),
            numbers: 0,
            tickets: 0,
            processes: 0,
            open: BTreeMap::new(),
            leases: BTreeMap::new(),
            workers: BTreeMap::new(),
            actors: Default::default(),
            grants: Vec::new(),
            news: Vec::new(),
            replies: Vec::new(),
            dead: Vec::new(),
            cannot_send: false,
            looks: Vec::new(),
            cells: BTreeMap::new(),
            cells_made: 0,
            next: VecDeque::new(),
        };
        world.owner.set_mortal();
        for index in 0..ACTORS {
            let id = ObjectId::of(world.next_id(), 0);
            let slot = world.owner.on_actor_made(id, actor_id(index));
            world.owner.on_handle_made(actor_id(index), index != 1);
            let actor = Some(actor_id(index));
            world.model.born(slot, Held { id: Some(id), handles: 1, is_there: true, actor, ..Held::default() });
            world.actors[index].object = Some(slot);
        }
        world
    }

    pub(super) fn next_id(&mut self) -> TaskId {
        self.numbers += 1;
        TaskId::root(JobId([1; 4]), [1; 16]).child(self.numbers)
    }

    fn new_worker(&mut self) -> ProcId {
        self.processes += 1;
        let worker = ProcId::new(1, 1, self.processes);
        self.workers.insert(worker, VecDeque::new());
        worker
    }

    pub(super) fn object(&self, number: usize) -> Option<Slot> {
        pick(self.model.objects.keys().copied(), number)
    }

    pub(super) fn worker(&self, number: usize) -> Option<ProcId> {
        pick(self.workers.iter().filter(|(_, ring)| !ring.is_empty()).map(|(worker, _)| *worker), number)
    }

    pub(super) fn objects(&self, picks: &[usize]) -> Vec<Slot> {
        picks.iter().filter_map(|number| self.object(*number)).collect()
    }

    /// Objects that the value of one born then may name.
    pub(super) fn older(&self, picks: &[usize], birth: u64) -> Vec<Slot> {
        let older = |number| {
            pick(self.model.objects.iter().filter(|(_, held)| held.birth < birth).map(|(slot, _)| *slot), number)
        };
        picks.iter().filter_map(|number| older(*number)).collect()
    }

    /// What a value that comes from elsewhere names: the owner counts each for the value.
    pub(super) fn contained(&mut self, slots: &[Slot]) -> SmallVec<[Slot; 0]> {
        for slot in slots {
            let held = self.model.objects.get_mut(slot).expect("picked from the living");
            let id = held.id.expect("every object has one");
            self.owner.on_escape(*slot);
            held.shares += i32::from(held.owner.is_some());
            assert_eq!(self.owner.on_contained(id, held.owner, 1), *slot);
        }
        slots.into()
    }

    pub(super) fn foreign(&self, number: usize) -> Option<Slot> {
        let foreign = self.model.objects.iter().filter(|(_, held)| held.owner.is_some());
        pick(foreign.map(|(slot, _)| *slot), number)
    }

    pub(super) fn drop_handle(&mut self, slot: Slot) {
        self.model.objects.get_mut(&slot).expect("picked").handles -= 1;
        self.step(|owner, _, out| owner.on_handle_dropped(slot, out));
    }

    pub(super) fn grant(&mut self, number: u64) {
        self.open.remove(&number);
        let worker = self.new_worker();
        self.leases.insert(number, worker);
        self.grants.push((number, worker));
        self.step(|owner, now, out| owner.on_lease_granted(now, number, worker, out));
    }

    pub(super) fn start(&mut self, worker: ProcId) {
        let ring = self.workers.get_mut(&worker).expect("picked");
        let Some(first) = ring.front_mut().filter(|sent| !sent.has_started) else { return };
        first.has_started = true;
        if let Some(task) = self.model.tasks.get_mut(&first.key) {
            task.starts += 1;
            let is_right = task.retries_max < 0 || task.starts <= task.retries_max + 1;
            assert!(is_right, "OWN-4: starts {} times with {} retries", task.starts, task.retries_max);
        }
    }

    pub(super) fn reply(&mut self, worker: ProcId, answer: Answer) {
        let sent = self.workers.get_mut(&worker).expect("picked").pop_front().expect("picked");
        if let Answer::Missed = answer {
            return self.missed(sent.key, worker);
        }
        let born = |task: &Pending| self.model.objects[&task.returns[0]].birth;
        let birth = self.model.tasks.get(&sent.key).map_or(0, born);
        let (value, names) = match answer {
            Answer::Value => (value(), Vec::new()),
            Answer::Names(number) => (value(), self.older(&[number], birth)),
            Answer::Raised => (failed(Failure::Raised([1].into())), Vec::new()),
            Answer::Retryable => (failed(Failure::Retryable([1].into())), Vec::new()),
            Answer::Missed => unreachable!("seen above"),
        };
        let contains = self.contained(&names);
        self.replies.push((sent.key, worker));
        self.replied(sent.key, worker, value, contains);
    }

    /// OWN-4: the call has not run.
    fn missed(&mut self, key: TaskKey, worker: ProcId) {
        if let Some(task) = self.model.tasks.get_mut(&key) {
            task.starts -= 1;
        }
        self.step(|owner, now, out| owner.on_argument_lost(now, key, worker, "missed", out));
    }

    pub(super) fn replied(&mut self, key: TaskKey, from: ProcId, value: Value, contains: SmallVec<[Slot; 0]>) {
        let returns = self.model.tasks.get(&key).map_or(0, |task| task.returns.len());
        let is_failed = matches!(value, Value::Failed(_));
        let mut reply = SmallVec::new();
        reply.push((value.clone(), contains.clone()));
        if !is_failed {
            (1..returns).for_each(|_| reply.push((value.clone(), SmallVec::new())));
        }
        if let Some(task) = self.model.tasks.get(&key).filter(|_| self.owner.is_under(key, from)) {
            let first = self.model.objects.get_mut(&task.returns[0]).expect("its task has not ended");
            if !first.is_there {
                first.names = contains.to_vec();
            }
        }
        self.step(|owner, now, out| owner.on_replied(now, key, from, reply, out));
    }

    pub(super) fn die(&mut self, worker: ProcId) {
        let ring = self.workers.remove(&worker).expect("picked");
        let started: BTreeSet<u64> = ring.iter().filter(|sent| sent.has_started).map(|sent| sent.ticket).collect();
        self.leases.retain(|_, leased| *leased != worker);
        self.dead.push(worker);
        let exit = WorkerExit::Signal(9, model::Remains::default());
        self.step(|owner, _, out| owner.on_worker_died(worker, &exit, |ticket| started.contains(&ticket), out));
        self.process_gone(worker);
    }

    /// The node says what becomes of the actor whose worker died.
    pub(super) fn after_death(&mut self, worker: ProcId) {
        if let Some(index) = self.actors.iter().position(|actor| actor.worker == Some(worker)) {
            self.actors[index].worker = None;
            self.actors[index].life += 1;
            let (life, is_last) = (self.actors[index].life, self.numbers.is_multiple_of(5));
            self.actors[index].is_dead = is_last;
            let death = ActorNews::Dead(ActorDeath::Killed);
            self.tell(index, life, if is_last { death } else { ActorNews::Restarting });
        }
    }

    pub(super) fn process_gone(&mut self, gone: ProcId) {
        for held in self.model.objects.values_mut() {
            held.borrowers.remove(&gone);
            held.wanted_by.remove(&gone);
            if held.owner == Some(gone) {
                held.shares = 0;
                // Whoever asks later gets the same answer.
                held.is_asked = true;
                if std::mem::take(&mut held.is_large) {
                    // Its bytes go with their owner.
                    (held.is_there, held.names) = (false, Vec::new());
                }
            }
        }
        self.step(|owner, _, out| owner.on_process_gone(gone, out));
    }

    pub(super) fn place_actor(&mut self, index: usize) {
        if self.actors[index].is_dead || self.actors[index].worker.is_some() {
            return;
        }
        let worker = self.new_worker();
        self.actors[index].worker = Some(worker);
        self.tell(index, self.actors[index].life, ActorNews::Alive(worker));
    }

    pub(super) fn kill_actor(&mut self, index: usize, for_good: bool) {
        let actor = &mut self.actors[index];
        if actor.is_dead {
            return;
        }
        actor.life += 1;
        actor.is_dead = for_good;
        // Its worker lives on for a while; `Die` ends it.
        actor.worker = None;
        let life = actor.life;
        let death = ActorNews::Dead(ActorDeath::Killed);
        self.tell(index, life, if for_good { death } else { ActorNews::Restarting });
    }

    fn tell(&mut self, index: usize, life: u32, news: ActorNews) {
        self.news.push((index, life, news.clone()));
        self.step(|owner, _, out| owner.on_actor_news(actor_id(index), life, news, out));
    }

    pub(super) fn have(&mut self, slot: Slot, names: &[usize], is_large: bool) {
        let held = &self.model.objects[&slot];
        let (id, is_there) = (held.id.expect("every object has one"), held.is_there);
        let names = self.older(names, held.birth);
        let contains = self.contained(&names);
        if !is_there {
            let held = self.model.objects.get_mut(&slot).expect("seen above");
            (held.names, held.is_large) = (names, is_large);
        }
        let value = if is_large { super::super::story::stored(0, 1 << 20) } else { value() };
        self.step(|owner, _, out| owner.on_have(&id, value, contains, out));
    }

    pub(super) fn step(&mut self, event: impl FnOnce(&mut Owner, Tick, &mut Vec<Effect>)) {
        let mut effects = Vec::new();
        event(&mut self.owner, self.now, &mut effects);
        self.hear(effects);
        while let Some(said) = self.next.pop_front() {
            let mut effects = Vec::new();
            match said {
                Said::TookBack(key, worker) => self.owner.on_took_back(self.now, key, worker, &mut effects),
                Said::CannotSend(key) => {
                    self.owner.on_cannot_send(self.now, key, Failure::StoreFull("full".into()), &mut effects);
                }
            }
            self.hear(effects);
        }
    }

    fn record(&mut self, what: Recorded) {
        let Some(before) = self.owner.cell(what) else { return };
        if let Some(cell) = before {
            assert_eq!(self.cells.remove(&cell), Some(what), "the record is of something else");
        }
        self.cells_made += 1;
        self.cells.insert(self.cells_made, what);
        self.owner.on_recorded(what, Some(self.cells_made));
    }

    pub(super) fn hear(&mut self, effects: Vec<Effect>) {
        let mut freed = Vec::new();
        for effect in effects {
            match effect {
                Effect::Push { task, worker } => self.push(task, worker),
                Effect::TakeBack { task, worker } => {
                    let Some(ring) = self.workers.get_mut(&worker) else { continue };
                    if let Some(at) = ring.iter().position(|sent| sent.key == task && !sent.has_started) {
                        ring.remove(at);
                        self.next.push_back(Said::TookBack(task, worker));
                    }
                }
                Effect::Interrupt { .. } | Effect::Unread { .. } => {}
                Effect::Consumed { .. } => unreachable!("nothing yields here"),
                Effect::RequestLease { number, need, .. } => {
                    assert!(self.open.values().filter(|open| **open == need).count() < 2, "too many requests");
                    let old = self.open.insert(number, need);
                    assert!(old.is_none() && !self.leases.contains_key(&number), "{number} is not new");
                }
                Effect::ReturnLease { number } => {
                    self.open.remove(&number);
                    if let Some(worker) = self.leases.remove(&number) {
                        let ring = self.workers.remove(&worker).unwrap_or_default();
                        assert!(ring.is_empty(), "OWN-3: {number} is given back with calls under way");
                    }
                }
                Effect::Resolved(slot) => {
                    let value = self.owner.object(slot).map(|object| object.value.as_ref().expect("it is resolved"));
                    self.model.resolved(slot, value);
                }
                Effect::Unresolved(_) | Effect::Discarded(_) => unreachable!("every value is small here"),
                Effect::Freed { slot, bulk } => {
                    assert_eq!(bulk, None);
                    freed.push(slot);
                }
                Effect::Want { owner, object } => {
                    let held = self.by_id(object);
                    assert_eq!((held.owner, held.is_asked), (Some(owner), false), "asked in vain, or twice");
                    held.is_asked = true;
                }
                Effect::Have { to, object, .. } => {
                    assert!(self.by_id(object).wanted_by.remove(&to), "{to} did not ask");
                }
                Effect::Borrowed { owner, object, count, .. } => {
                    let held = self.by_id(object);
                    let (is_lent, shares) = (count > 0, held.shares);
                    assert_eq!(held.owner, Some(owner));
                    assert!(if is_lent { held.guests == 0 } else { shares == -count }, "{shares} shares, {count}");
                }
                Effect::AskFree { owner, object } => assert_eq!(self.by_id(object).owner, Some(owner)),
                Effect::Unreadable { object, .. } => assert_eq!(self.by_id(object).owner, None),
                Effect::MoveLineage | Effect::ReadArguments { .. } => panic!("there is room for everything"),
                Effect::LookForArguments { task, .. } => self.looks.push(task),
                Effect::Record(what) => self.record(what),
                Effect::Erase(cell) => assert!(self.cells.remove(&cell).is_some(), "a record is erased twice"),
                Effect::Note(task) => {
                    assert!(
                        self.owner.task(task).is_none() || self.owner.is_recorded(task),
                        "{task:?} is not recorded"
                    );
                }
                Effect::AskActor(_) => {}
                Effect::ActorUnreachable(actor) => {
                    assert!(self.model.objects.values().any(|held| held.actor == Some(actor)));
                }
            }
        }
        self.model.compare(&self.owner, &freed);
        self.owner.check_invariants();
    }

    fn by_id(&mut self, id: ObjectId) -> &mut Held {
        self.model.objects.values_mut().find(|held| held.id == Some(id)).expect("an object that is held")
    }

    fn push(&mut self, key: TaskKey, worker: ProcId) {
        let is_twice = self.workers.values().flatten().any(|sent| sent.key == key);
        assert!(!is_twice, "OWN-3: pushed while under way");
        let Some(Stage::Under { worker: on, ticket: 0 }) = self.owner.task(key).map(|task| task.stage) else {
            // It ended, or went on, in the same breath.
            return;
        };
        assert_eq!(on, worker, "OWN-3: on another worker than it is pushed to");
        let pushed = &self.model.tasks[&key];
        if let Some(actor) = pushed.actor.filter(|actor| *actor != 1) {
            let earlier = self.model.tasks.iter().filter(|(_, other)| other.actor == Some(actor));
            let group = |key| self.owner.task(key).map(|task| task.spec.template.group);
            for (other, _) in earlier.filter(|(_, other)| other.number < pushed.number) {
                if group(*other) != group(key) {
                    continue;
                }
                let stage = self.owner.task(*other).map(|task| task.stage);
                let is_sent = matches!(stage, None | Some(Stage::Under { .. }));
                assert!(is_sent, "OWN-5: pushed before an earlier call, which is {stage:?}");
            }
        }
        if std::mem::take(&mut self.cannot_send) {
            self.next.push_back(Said::CannotSend(key));
            return;
        }
        self.tickets += 1;
        self.owner.on_pushed(key, self.tickets);
        // A worker that is dead, and not yet known to be, loses it with all else.
        let ring = self.workers.get_mut(&worker).expect("OWN-1: pushed to a worker that was seen to end");
        ring.push_back(Sent { key, ticket: self.tickets, has_started: false });
    }

    /// Faults stop: every call ends. Then everybody lets go: nothing is kept.
    pub(super) fn settle(&mut self) {
        self.cannot_send = false;
        for _ in 0..500 {
            if self.owner.tasks_pending() == 0 {
                break;
            }
            self.settle_a_little();
        }
        assert_eq!(self.owner.tasks_pending(), 0, "OWN-1: something never ends");
        while let Some(slot) = self.model.objects.iter().find(|(_, held)| held.handles > 0).map(|(slot, _)| *slot) {
            self.drop_handle(slot);
        }
        while self.model.objects.values().any(|held| held.guests > 0) {
            self.call_ends(0);
        }
        (0..3).for_each(|number| self.process_gone(stranger(number)));
        self.play(Move::Wait(1_000));
        self.play(Move::Wait(1_000));
        assert_eq!(self.owner.objects_kept(), 0, "OWN-2: something is kept for nobody");
        assert!(self.cells.is_empty(), "records are left: {:?}", self.cells);
        assert!(self.open.is_empty() && self.leases.is_empty() && !self.owner.needs_tick(), "a lease is kept");
    }

    fn settle_a_little(&mut self) {
        for number in self.open.keys().copied().collect::<Vec<_>>() {
            self.grant(number);
        }
        let serving: Vec<ProcId> = self.actors.iter().filter_map(|actor| actor.worker).collect();
        let leased: Vec<ProcId> = self.leases.values().copied().collect();
        for worker in self.workers.keys().copied().collect::<Vec<_>>() {
            if !serving.contains(&worker) && !leased.contains(&worker) {
                self.die(worker);
                continue;
            }
            while self.workers.get(&worker).is_some_and(|ring| !ring.is_empty()) {
                self.start(worker);
                self.reply(worker, Answer::Value);
            }
        }
        (0..ACTORS).for_each(|index| self.place_actor(index));
        let missing = self.model.objects.iter().filter(|(_, held)| held.owner.is_some() && !held.is_there);
        for slot in missing.map(|(slot, _)| *slot).collect::<Vec<_>>() {
            if self.model.objects.contains_key(&slot) {
                self.have(slot, &[], false);
            }
        }
        while !self.looks.is_empty() {
            self.play(Move::Looked { call: 0, has_changed: false });
        }
        self.play(Move::Wait(100));
    }
}

pub(super) fn value() -> Value {
    Value::Inline(crate::Packed::from([1].as_slice()))
}

fn failed(failure: Failure) -> Value {
    Value::Failed(Arc::new(failure))
}
