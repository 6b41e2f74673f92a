//! One owner, its workers, and the bytes that large values take.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use model::{Bulk, Failure, FileId, Filed, FunctionId, JobId, Need, ObjectId, Place, ProcId, Resources};
use model::{TaskId, TaskKey, Template, Tick, WorkerExit, Yields};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::{Answer, Move};
use crate::{Effect, Movable, Owner, Slot, Spec, Stage, Target, Value};

const WORKERS_MAX: usize = 3;

/// What the model knows of one object.
struct Item {
    slot: Slot,
    /// Older ones have smaller numbers.
    number: u64,
    /// `None`: it was put.
    task: Option<usize>,
    is_held: bool,
    is_freed: bool,
    /// When its value came or was last looked at.
    touched: u64,
}

/// What the model knows of one task.
struct Known {
    id: TaskId,
    key: TaskKey,
    deps: Vec<ObjectId>,
    retries_max: i32,
    /// Retries that were spent.
    charges: i32,
    is_cancelled: bool,
    has_raised: bool,
    /// A worker could not have an argument that lay where the call said.
    has_missed: bool,
}

#[derive(Default)]
pub(super) struct World {
    owner: Owner,
    now: Tick,
    made: u64,
    items: BTreeMap<ObjectId, Item>,
    tasks: Vec<Known>,
    /// Bytes that are taken, and by what.
    live: BTreeMap<Bulk, ObjectId>,
    serials: u64,
    touches: u64,
    /// The calls that each leased worker has; the first one runs.
    workers: BTreeMap<ProcId, (u64, VecDeque<TaskKey>)>,
    workers_made: u16,
    requests: VecDeque<u64>,
    copies: Vec<(Movable, Filed)>,
    /// What was lost and cannot be made again.
    doomed: Vec<ObjectId>,
    tickets: BTreeMap<u64, TaskKey>,
    /// Calls whose arguments are being looked at, and where those were.
    looks: Vec<(TaskKey, Vec<(Slot, Bulk)>)>,
}

impl World {
    pub(super) fn new() -> Self {
        Self { owner: Owner::new(), now: Tick(1_000_000), ..Self::default() }
    }

    pub(super) fn play(&mut self, play: Move) {
        match play {
            Move::Submit { deps, names, retries, returns } => self.submit(&deps, &names, retries, returns),
            Move::Put { is_large, names } => self.put(is_large, &names),
            Move::Drop(pick) => {
                if let Some((id, slot)) = self.held(pick) {
                    self.items.get_mut(&id).expect("it is held").is_held = false;
                    self.when(|owner, _, out| owner.on_handle_dropped(slot, out));
                }
            }
            Move::Reply(pick, answer) => self.reply(pick, &answer),
            Move::MissArgument(pick) => self.miss_argument(pick),
            Move::Looked(pick, count) => self.looked(pick, count),
            Move::GiveBack(pick) => {
                if let Some((worker, key)) = self.running(pick) {
                    self.workers.get_mut(&worker).expect("it runs").1.pop_front();
                    self.when(|owner, now, out| owner.on_given_back(now, key, worker, out));
                }
            }
            Move::Die(pick) => self.die(pick),
            Move::Lose(picks) => self.lose(&picks),
            Move::Touch(pick) => {
                if let Some((id, slot)) = self.held(pick) {
                    self.touches += 1;
                    self.items.get_mut(&id).expect("it is held").touched = self.touches;
                    self.owner.on_touched(slot);
                }
            }
            Move::Copy(count) => self.copy(count),
            Move::Copied => self.copied(),
            Move::Cancel(pick) => {
                if let Some((id, slot)) = self.held(pick) {
                    if let Some(task) = self.items[&id].task.filter(|_| self.is_pending(slot)) {
                        self.tasks[task].is_cancelled = true;
                    }
                    self.when(|owner, _, out| _ = owner.on_cancel(slot, false, false, out));
                }
            }
            Move::Free(pick) => {
                if let Some((id, slot)) = self.held(pick) {
                    self.items.get_mut(&id).expect("it is held").is_freed = true;
                    self.when(|owner, _, out| owner.on_free(slot, out));
                }
            }
            Move::Wait(ms) => {
                self.now = self.now.plus_ms(ms);
                self.when(|owner, now, out| owner.on_tick(now, out));
            }
        }
    }

    /// Nothing is lost any more: whatever was submitted ends, and then nothing is kept.
    pub(super) fn settle(&mut self) {
        self.copied();
        while !self.looks.is_empty() {
            self.looked(0, 0);
        }
        while self.owner.tasks_pending() > 0 {
            let before = self.owner.tasks_pending();
            // A worker that gave a call back takes none until its lease was idle for long.
            self.play(Move::Wait(1_000));
            for pick in 0..self.workers.len() {
                self.reply(pick, &Answer::Values { large: 1, names: None });
            }
            let is_moving = self.workers.values().any(|(_, calls)| !calls.is_empty());
            assert!(is_moving || self.owner.tasks_pending() < before, "LIN-1: a task waits in vain");
        }
        let held: Vec<Slot> = self.items.values().filter(|item| item.is_held).map(|item| item.slot).collect();
        for id in std::mem::take(&mut self.doomed) {
            let object = self.owner.object(self.items[&id].slot).filter(|object| object.id == id);
            let is_failed = object.is_none_or(|object| matches!(object.value, Some(Value::Failed(_))));
            assert!(is_failed, "LIN-1: {id} is there, and could not be made again: {object:?}");
        }
        for slot in held {
            assert!(self.value(slot).is_some(), "LIN-1: nobody makes what is held");
            self.when(|owner, _, out| owner.on_handle_dropped(slot, out));
        }
        let kept: Vec<_> = self.owner.objects().collect();
        assert!(kept.is_empty() && self.owner.made.len() == 0, "LIN-2: kept for nothing: {kept:?}");
        assert!(self.live.is_empty(), "OWN-2: bytes are left: {:?}", self.live);
    }

    fn next_id(&mut self) -> TaskId {
        self.made += 1;
        TaskId::root(JobId([1; 4]), [1; 16]).child(self.made)
    }

    /// One of the objects that the program holds.
    fn held(&self, pick: usize) -> Option<(ObjectId, Slot)> {
        let held: Vec<_> = self.items.iter().filter(|(_, item)| item.is_held).collect();
        (!held.is_empty()).then(|| (*held[pick % held.len()].0, held[pick % held.len()].1.slot))
    }

    fn slots(&self, picks: &[usize]) -> SmallVec<[Slot; 2]> {
        picks.iter().filter_map(|pick| self.held(*pick)).map(|(_, slot)| slot).collect()
    }

    fn value(&self, slot: Slot) -> Option<Value> {
        self.owner.object(slot).and_then(|object| object.value.clone())
    }

    fn is_pending(&self, slot: Slot) -> bool {
        self.owner.object(slot).is_some_and(|object| object.maker().is_some())
    }

    /// A worker's first call, which runs.
    fn running(&self, pick: usize) -> Option<(ProcId, TaskKey)> {
        let busy: Vec<_> = self.workers.iter().filter_map(|(id, (_, calls))| Some((*id, *calls.front()?))).collect();
        (!busy.is_empty()).then(|| busy[pick % busy.len()])
    }

    fn known(&mut self, key: TaskKey) -> Option<&mut Known> {
        self.tasks.iter_mut().find(|known| known.key == key)
    }

    fn large(&mut self, id: ObjectId) -> Bulk {
        self.serials += 1;
        let bulk = Bulk::Stored(Place { offset: self.serials << 20, length: 1 << 20, serial: self.serials });
        self.live.insert(bulk, id);
        bulk
    }

    fn submit(&mut self, deps: &[usize], names: &[usize], retries_max: i32, returns: u32) {
        let (deps, names) = (self.slots(deps), self.slots(names));
        let id = self.next_id();
        let template = Arc::new(Template {
            language: model::Language::PYTHON,
            function: FunctionId([0; 16]),
            name: "f".into(),
            method: "".into(),
            need: Need::same(Resources::cpus(1)),
            returns,
            yields: Yields::Nothing,
            retries_max,
            retry_exceptions: true,
            calls_max: 0,
            group: 0,
        });
        let contains = names.iter().copied().collect();
        let dep_ids = deps.iter().map(|slot| self.owner.object(*slot).expect("held").id).collect();
        let spec = Spec { id, template, target: Target::Pool, payload: Vec::new(), deps, contains };
        let mut out = Vec::new();
        let submitted = self.owner.on_submitted(self.now, spec, &mut out);
        let known = Known {
            id,
            key: submitted.key,
            deps: dep_ids,
            retries_max,
            charges: 0,
            is_cancelled: false,
            has_raised: false,
            has_missed: false,
        };
        self.tasks.push(known);
        for (index, slot) in (1..).zip(submitted.returns) {
            let task = Some(self.tasks.len() - 1);
            let item = Item { slot, number: self.made, task, is_held: true, is_freed: false, touched: 0 };
            self.items.insert(ObjectId::of(id, index), item);
        }
        self.apply(out);
    }

    fn put(&mut self, is_large: bool, names: &[usize]) {
        let names = self.slots(names);
        let id = ObjectId::of(self.next_id(), 1);
        let value = if is_large { Value::bulk(self.large(id)) } else { super::super::story::value(1) };
        let slot = self.owner.on_put(id, value, &names);
        self.items.insert(
            id,
            Item { slot, number: self.made, task: None, is_held: true, is_freed: false, touched: self.touches },
        );
        self.owner.check_invariants();
    }

    fn reply(&mut self, pick: usize, answer: &Answer) {
        let Some((worker, key)) = self.running(pick) else { return };
        self.workers.get_mut(&worker).expect("it runs").1.pop_front();
        let task = self.owner.task(key).map(|task| (task.spec.id, task.returns.len() as u32));
        let mut reply = SmallVec::new();
        match answer {
            Answer::Values { large, names } => {
                // A call that was cancelled and not taken back may answer although nobody asks any more.
                let (id, count) = task.unwrap_or_else(|| (self.next_id(), 1));
                for index in 1..=count {
                    let id = ObjectId::of(id, index);
                    let is_large = large >> (index - 1) & 1 == 1;
                    let value = if is_large { Value::bulk(self.large(id)) } else { super::super::story::value(1) };
                    let mut contains = SmallVec::new();
                    // Values name older ones only: what names itself is kept for ever, by right.
                    let is_older = |(inner, _): &(ObjectId, Slot)| {
                        self.items.get(&id).is_some_and(|item| self.items[inner].number < item.number)
                    };
                    if let Some((inner, slot)) = names.and_then(|pick| self.held(pick)).filter(is_older) {
                        self.owner.on_escape(slot);
                        contains.push(self.owner.on_contained(inner, None, 0));
                    }
                    reply.push((value, contains));
                }
            }
            Answer::Retryable | Answer::Raised => {
                let is_retryable = matches!(answer, Answer::Retryable);
                let error = Box::from([1]);
                let failure = if is_retryable { Failure::Retryable(error) } else { Failure::Raised(error) };
                if let Some(known) = self.known(key) {
                    known.has_raised = true;
                    known.charges += i32::from(is_retryable && known.may_retry());
                }
                reply.push((super::super::story::failed(failure), SmallVec::new()));
            }
        }
        self.when(|owner, now, out| owner.on_replied(now, key, worker, reply, out));
    }

    fn miss_argument(&mut self, pick: usize) {
        let Some((worker, key)) = self.running(pick) else { return };
        let Some(task) = self.owner.task(key).filter(|task| !task.spec.deps.is_empty()) else { return };
        let is_there = |slot: &Slot| matches!(self.value(*slot), Some(Value::Inline(_) | Value::Bulk(_)));
        let is_news = !task.is_outdated && task.spec.deps.iter().all(is_there);
        if let Some(known) = self.known(key).filter(|_| is_news) {
            known.has_missed = true;
        }
        self.workers.get_mut(&worker).expect("it runs").1.pop_front();
        self.when(|owner, now, out| owner.on_argument_lost(now, key, worker, "missed", out));
        if !is_news && let Some(stage) = self.owner.task(key).map(|task| task.stage) {
            assert!(!matches!(stage, Stage::Limbo { .. }), "LIN-1: it waits, or is sent again");
        }
    }

    /// The look for what a call lacks ends. Meanwhile the call may have ended, and what it needs may have moved or be made anew.
    fn looked(&mut self, pick: usize, count: usize) {
        if self.looks.is_empty() {
            return;
        }
        let (key, mut named) = self.looks.swap_remove(pick % self.looks.len());
        named.truncate(count);
        named.sort_unstable();
        named.dedup();
        let is_so = |(slot, bulk): &(Slot, Bulk)| self.value(*slot) == Some(Value::bulk(*bulk));
        let lost: Vec<(Slot, Bulk)> = named.iter().copied().filter(is_so).collect();
        let has_changed = lost.len() < named.len();
        let id_of = |slot| self.owner.object(slot).expect("it has a value").id;
        self.lose_these(lost.into_iter().map(|(slot, bulk)| (id_of(slot), slot, bulk)).collect());
        let looking = self.owner.task(key).filter(|task| task.stage == Stage::Looking);
        let returns = looking.map(|task| task.returns.clone()).unwrap_or_default();
        self.when(|owner, _, out| owner.on_arguments_looked(key, has_changed, "missed", out));
        let is_given_up = |slot: &Slot| matches!(self.value(*slot), Some(Value::Failed(failure)) if *failure == Failure::Lost("missed".into()));
        assert!(named.is_empty() || !returns.iter().any(is_given_up), "LIN-1: it was found what is lost");
    }

    fn die(&mut self, pick: usize) {
        let Some(worker) = self.workers.keys().copied().nth(pick % self.workers.len().max(1)) else { return };
        let (_, calls) = self.workers.remove(&worker).expect("picked from them");
        let started = calls.front().copied();
        if let Some(known) = started.and_then(|key| self.known(key)) {
            known.charges += i32::from(known.may_retry());
        }
        let tickets = self.tickets.clone();
        self.when(|owner, _, out| {
            let exit = WorkerExit::Signal(9, model::Remains::default());
            owner.on_worker_died(worker, &exit, |ticket| tickets.get(&ticket).copied() == started, out);
            owner.on_process_gone(worker, out);
        });
    }

    fn lose(&mut self, picks: &[usize]) {
        let stored: Vec<(ObjectId, Slot, Bulk)> = self
            .owner
            .objects()
            .filter_map(|(slot, object)| Some((object.id, slot, object.value.as_ref()?.as_bulk()?)))
            .filter(|(id, ..)| self.items.contains_key(id))
            .collect();
        if stored.is_empty() {
            return;
        }
        let mut lost: Vec<_> = picks.iter().map(|pick| stored[pick % stored.len()]).collect();
        lost.sort_unstable();
        lost.dedup();
        self.lose_these(lost);
    }

    fn lose_these(&mut self, lost: Vec<(ObjectId, Slot, Bulk)>) {
        if lost.is_empty() {
            return;
        }
        let gone: FxHashSet<ObjectId> = lost.iter().map(|(id, ..)| *id).collect();
        let hopes: Vec<Option<bool>> = lost.iter().map(|(id, ..)| self.is_recoverable(id, &gone)).collect();
        let named: Vec<(Slot, Bulk)> = lost.iter().map(|(_, slot, bulk)| (*slot, *bulk)).collect();
        self.when(|owner, _, out| assert!(owner.on_lost(&named, "the disk broke", out)));
        for ((id, slot, _), hope) in lost.into_iter().zip(hopes) {
            let Some(object) = self.owner.object(slot).filter(|object| object.id == id) else { continue };
            match hope {
                // What held it may be lost as well.
                Some(true) => {
                    let is_made = object.maker().is_some() || !object.is_held();
                    assert!(is_made, "LIN-1: {id} can be made again, and is not: {object:?}");
                }
                // Perhaps not yet: its task waits until each of its arguments is there or has failed.
                Some(false) => {
                    let is_over = object.maker().is_some() || matches!(object.value, Some(Value::Failed(_)));
                    assert!(is_over, "LIN-1: {id} cannot be made again: {object:?}");
                    self.doomed.push(id);
                }
                None => {}
            }
        }
    }

    /// Whether the object can be made again when these are lost; `None` if that depends on what is under way.
    fn is_recoverable(&self, id: &ObjectId, lost: &FxHashSet<ObjectId>) -> Option<bool> {
        let item = &self.items[id];
        let object = self.owner.object(item.slot).filter(|object| object.id == *id);
        let object = object.unwrap_or_else(|| panic!("LIN-2: {id} is gone although something needs it"));
        match &object.value {
            Some(Value::Failed(_)) => return Some(false),
            Some(_) if !lost.contains(id) => return Some(true),
            // It is being made, perhaps for another value of the same task.
            _ if object.maker().is_some() => return None,
            _ => {}
        }
        let Some(known) = item.task.map(|task| &self.tasks[task]) else { return Some(false) };
        if !known.may_retry() {
            return Some(false);
        }
        let deps: Vec<Option<bool>> = known.deps.iter().map(|dep| self.is_recoverable(dep, lost)).collect();
        if deps.contains(&Some(false)) {
            Some(false)
        } else {
            deps.into_iter().all(|dep| dep.is_some()).then_some(true)
        }
    }

    /// Begins to copy values to files: the longest unused first, and none that a call on its way names.
    fn copy(&mut self, count: usize) {
        let movable = self.owner.movable();
        let calls = self.workers.values().flat_map(|(_, calls)| calls);
        let named: FxHashSet<Slot> =
            calls.filter_map(|key| self.owner.task(*key)).flat_map(|task| task.spec.deps.iter().copied()).collect();
        let is_stored = |value: &Option<Value>| matches!(value.as_ref().and_then(Value::as_bulk), Some(Bulk::Stored(place)) if place.serial != 0);
        let mut expected: Vec<Slot> =
            self.owner.objects().filter(|(_, object)| is_stored(&object.value)).map(|(slot, _)| slot).collect();
        expected.retain(|slot| !named.contains(slot));
        let mut offered: Vec<Slot> = movable.iter().map(|movable| movable.slot).collect();
        offered.sort_unstable();
        expected.sort_unstable();
        assert_eq!(offered, expected, "what no call names may be moved, and nothing else");
        let touched = |movable: &Movable| {
            let id = self.owner.object(movable.slot).expect("it is offered").id;
            self.items.get(&id).map(|item| item.touched)
        };
        let order: Vec<u64> = movable.iter().filter_map(touched).collect();
        assert!(order.is_sorted(), "the longest unused goes first: {order:?}");
        for movable in movable.into_iter().take(count) {
            self.serials += 1;
            let file = FileId { by: ProcId::new(1, 9, 1), number: self.serials as u32, folder: 0 };
            self.copies.push((movable, Filed { file, offset: 0, length: movable.place.length, check: 0 }));
        }
    }

    fn copied(&mut self) {
        let copies = std::mem::take(&mut self.copies);
        for (movable, filed) in &copies {
            let id = self.live.get(&Bulk::Stored(movable.place)).copied();
            self.live.insert(Bulk::Filed(*filed), id.unwrap_or(ObjectId([0; ObjectId::LENGTH])));
        }
        self.when(|owner, _, out| _ = owner.on_moved(&copies, out));
    }

    fn when(&mut self, event: impl FnOnce(&mut Owner, Tick, &mut Vec<Effect>)) {
        let mut out = Vec::new();
        event(&mut self.owner, self.now, &mut out);
        self.apply(out);
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        let mut effects = VecDeque::from(effects);
        loop {
            while let Some(effect) = effects.pop_front() {
                let mut out = Vec::new();
                self.apply_one(effect, &mut out);
                effects.extend(out);
            }
            let Some(number) = self.requests.pop_front_if(|_| self.workers.len() < WORKERS_MAX) else { break };
            self.workers_made += 1;
            let worker = ProcId::new(1, self.workers_made, 1);
            self.workers.insert(worker, (number, VecDeque::new()));
            let mut out = Vec::new();
            self.owner.on_lease_granted(self.now, number, worker, &mut out);
            effects.extend(out);
        }
        self.owner.check_invariants();
        self.check_bytes();
    }

    fn apply_one(&mut self, effect: Effect, out: &mut Vec<Effect>) {
        match effect {
            Effect::Push { task, worker } => self.pushed(task, worker),
            Effect::TakeBack { task, worker } => {
                let Some((_, calls)) = self.workers.get_mut(&worker) else { return };
                let is_waiting = calls.iter().skip(1).any(|key| *key == task);
                if is_waiting {
                    calls.retain(|key| *key != task);
                    self.owner.on_took_back(self.now, task, worker, out);
                }
            }
            Effect::RequestLease { number, .. } => self.requests.push_back(number),
            Effect::ReturnLease { number } => {
                self.requests.retain(|open| *open != number);
                self.workers.retain(|_, (lease, _)| *lease != number);
            }
            Effect::Resolved(slot) => self.resolved(slot),
            Effect::Freed { bulk, .. } => bulk.into_iter().for_each(|bulk| self.freed(bulk)),
            Effect::Discarded(bulk) => self.freed(bulk),
            Effect::LookForArguments { task, .. } => self.looks.push((task, self.owner.arguments_to_look_at(task))),
            Effect::Unresolved(_) | Effect::Unread { .. } | Effect::Interrupt { .. } => {}
            other => panic!("nobody else is here: {other:?}"),
        }
    }

    fn pushed(&mut self, key: TaskKey, worker: ProcId) {
        let task = self.owner.task(key).expect("it is pushed");
        let (id, left, is_cancelled) = (task.spec.id, task.retries_left, task.cancelled);
        let ticket = self.tickets.len() as u64 + 1;
        let known = self.tasks.iter_mut().find(|known| known.id == id).expect("submitted");
        if known.key != key {
            // It has ended before, and runs again for a value that is lost.
            assert!(known.may_retry(), "LIN-1: {id:?} is made again without a retry");
            (known.key, known.charges) = (key, known.charges + 1);
        }
        let expected = if known.retries_max < 0 { known.retries_max } else { known.retries_max - known.charges };
        assert_eq!(left, expected, "OWN-4: {id:?} was tried again {} times", known.charges);
        assert!(!is_cancelled, "OWN-1: {id:?} was cancelled, and is sent");
        self.tickets.insert(ticket, key);
        self.owner.on_pushed(key, ticket);
        self.workers.get_mut(&worker).expect("a leased worker").1.push_back(key);
    }

    /// Each failure has its reason.
    fn resolved(&mut self, slot: Slot) {
        let Some((id, value)) = self.owner.object(slot).map(|object| (object.id, object.value.clone())) else { return };
        let touches = self.touches;
        let Some(item) = self.items.get_mut(&id) else { return };
        item.touched = touches;
        let (item, Some(Value::Failed(failure))) = (&self.items[&id], value) else { return };
        let known = item.task.map(|task| &self.tasks[task]);
        let is_over = known.is_none_or(|known| !known.may_retry());
        let has_failed = |dep: &ObjectId| {
            let object = self.owner.object(self.items[dep].slot).filter(|object| object.id == *dep);
            object.is_none_or(|object| matches!(object.value, Some(Value::Failed(_))))
        };
        let lacks_argument = known.is_some_and(|known| known.deps.iter().any(has_failed));
        let is_explained = match &*failure {
            Failure::Freed => item.is_freed,
            Failure::Cancelled => known.is_some_and(|known| known.is_cancelled),
            Failure::Raised(_) => known.is_some_and(|known| known.has_raised),
            Failure::Retryable(_) => known.is_some_and(|known| known.has_raised) && is_over,
            Failure::WorkerDied(_) => is_over,
            Failure::Argument { .. } => lacks_argument,
            // The retry may have gone into a run that ended for want of an argument: it would not do so less the next time.
            Failure::Lost(_) => is_over || lacks_argument || known.is_some_and(|known| known.has_missed),
            _ => false,
        };
        assert!(is_explained, "OWN-1: {id} fails with {failure:?}");
    }

    fn freed(&mut self, bulk: Bulk) {
        assert!(self.live.remove(&bulk).is_some(), "OWN-2: {bulk:?} is freed twice");
    }

    /// OWN-2: what an object says to be its value is there, and is what its task made.
    fn check_bytes(&self) {
        for (_, object) in self.owner.objects() {
            if let Some(bulk) = object.value.as_ref().and_then(Value::as_bulk) {
                let of = self.live.get(&bulk).unwrap_or_else(|| panic!("OWN-2: {} was freed", object.id));
                // The bytes of a freed object belong to one that nobody can name.
                assert_eq!(of.task(), object.id.task(), "OWN-1: {} has the value of another", object.id);
            }
        }
    }
}

impl Known {
    fn may_retry(&self) -> bool {
        !self.is_cancelled && (self.retries_max < 0 || self.charges < self.retries_max)
    }
}
