//! What each move does to the owner, and to the model beside it.

use std::sync::Arc;

use model::{FunctionId, Need, ObjectId, ProcId, Resources, TaskKey, Template, WorkerExit};
use smallvec::SmallVec;

use super::Move;
use super::model::{Held, Pending};
use super::world::{ACTORS, World, actor_id, pick, stranger, value};
use crate::{Slot, Spec, Stage, Submitted, Target};

impl World {
    pub(super) fn play(&mut self, play: Move) {
        match play {
            Move::Submit { target, deps, names, retries, returns, holds_life } => {
                self.submit(target, &deps, &names, (retries, returns), holds_life);
            }
            Move::Put { names } => {
                let (id, names) = (ObjectId::of(self.next_id(), 1), self.objects(&names));
                let slot = self.owner.on_put(id, value(), &names);
                self.model.born(slot, Held { id: Some(id), handles: 1, is_there: true, names, ..Held::default() });
            }
            Move::AddHandle(number) => {
                let handled = self.model.objects.iter_mut().filter(|(_, held)| held.handles > 0);
                if let Some(slot) = pick(handled.map(|(slot, _)| *slot), number) {
                    self.model.objects.get_mut(&slot).expect("picked").handles += 1;
                    self.owner.on_handle_added(slot);
                }
            }
            Move::DropHandle(number) => {
                let handled = self.model.objects.iter().filter(|(_, held)| held.handles > 0 && held.actor.is_none());
                if let Some(slot) = pick(handled.map(|(slot, _)| *slot), number) {
                    self.drop_handle(slot);
                }
            }
            Move::Grant(number) => {
                if let Some(number) = pick(self.open.keys().copied(), number) {
                    self.grant(number);
                }
            }
            Move::GrantAgain(number) => {
                if let Some((number, worker)) = pick(self.grants.iter().copied(), number) {
                    self.step(|owner, now, out| owner.on_lease_granted(now, number, worker, out));
                }
            }
            Move::Revoke(number) => {
                let number = pick(self.leases.keys().chain(self.open.keys()).copied(), number).unwrap_or(77_777);
                self.open.remove(&number);
                self.step(|owner, now, out| owner.on_lease_revoked(now, number, out));
            }
            Move::CannotSendNext => self.cannot_send = true,
            Move::Start(number) => {
                if let Some(worker) = self.worker(number) {
                    self.start(worker);
                }
            }
            Move::Reply(number, answer) => {
                if let Some(worker) = self.worker(number) {
                    self.start(worker);
                    self.reply(worker, answer);
                }
            }
            Move::ReplyAgain(number) => {
                // A ring delivers once; what may come late is the answer to a call that ended or went elsewhere meanwhile.
                let late = self.replies.iter().copied().filter(|(key, from)| !self.owner.is_under(*key, *from));
                if let Some((key, from)) = pick(late, number) {
                    self.replied(key, from, value(), SmallVec::new());
                }
            }
            Move::GiveBack(number) => {
                if let Some(worker) = self.worker(number) {
                    let ring = self.workers.get_mut(&worker).expect("picked");
                    let back: Vec<TaskKey> =
                        ring.iter().filter(|sent| !sent.has_started).map(|sent| sent.key).collect();
                    ring.retain(|sent| sent.has_started);
                    for key in back {
                        self.step(|owner, now, out| owner.on_given_back(now, key, worker, out));
                    }
                }
            }
            Move::Die(number) => {
                if let Some(worker) = pick(self.workers.keys().copied(), number) {
                    self.die(worker);
                    self.after_death(worker);
                }
            }
            Move::DieAgain(number) => {
                if let Some(worker) = pick(self.dead.iter().copied(), number) {
                    self.step(|owner, _, out| owner.on_worker_died(worker, &WorkerExit::Unknown, |_| true, out));
                }
            }
            Move::PlaceActor(number) => self.place_actor(number % ACTORS),
            Move::KillActor { actor, for_good } => self.kill_actor(actor % ACTORS, for_good),
            Move::NewsAgain(number) => {
                if let Some((actor, life, news)) = (!self.news.is_empty()).then(|| &self.news[number % self.news.len()])
                {
                    let (actor, life, news) = (*actor, *life, news.clone());
                    self.step(|owner, _, out| owner.on_actor_news(actor_id(actor), life, news, out));
                }
            }
            Move::Free(number) => {
                let may_be = |held: &Held| held.is_there && !held.is_large && held.actor.is_none();
                let there = self.model.objects.iter().filter(|(_, held)| may_be(held));
                if let Some(slot) = pick(there.map(|(slot, _)| *slot), number) {
                    // It gets a second value, once: that it was freed.
                    let held = self.model.objects.get_mut(&slot).expect("picked");
                    held.is_there = false;
                    // Calls that are on their way with it may have read what it names.
                    let names = std::mem::take(&mut held.names);
                    for (key, pending) in &mut self.model.tasks {
                        let task = self.owner.task(*key).expect("the model knows what has not ended");
                        let is_away = matches!(task.stage, Stage::Under { .. } | Stage::Limbo { .. });
                        if is_away && task.spec.deps.contains(&slot) {
                            pending.uses.extend(&names);
                        }
                    }
                    self.step(|owner, _, out| owner.on_free(slot, out));
                }
            }
            Move::Cancel(number) => {
                if let Some(slot) = self.object(number) {
                    let maker = self.model.objects[&slot].maker;
                    if let Some(task) = maker.and_then(|key| self.model.tasks.get_mut(&key)) {
                        task.is_cancelled = true;
                    }
                    self.step(|owner, _, out| _ = owner.on_cancel(slot, false, true, out));
                }
            }
            Move::Lend { object, to, count } => {
                let ours = self.model.objects.iter().filter(|(_, held)| held.owner.is_none());
                if let Some(slot) = pick(ours.map(|(slot, _)| *slot), object) {
                    self.step(|owner, _, out| owner.on_given_away(slot, out));
                    let held = self.model.objects.get_mut(&slot).expect("picked");
                    *held.borrowers.entry(stranger(to)).or_default() += count;
                    let id = held.id.expect("every object has one");
                    self.step(|owner, _, out| owner.on_shares(&id, stranger(to), count, out));
                }
            }
            Move::BorrowerGone(number) | Move::OwnerGone(number) => self.process_gone(stranger(number)),
            Move::Wanted { object, by } => {
                let ours = self.model.objects.iter().filter(|(_, held)| held.owner.is_none());
                if let Some(slot) = pick(ours.map(|(slot, _)| *slot), object) {
                    self.step(|owner, _, out| owner.on_given_away(slot, out));
                    let held = self.model.objects.get_mut(&slot).expect("picked");
                    held.wanted_by.insert(stranger(by));
                    let id = held.id.expect("every object has one");
                    self.step(|owner, _, out| owner.on_wanted(&id, stranger(by), out));
                }
            }
            Move::Borrow { owner, shares } => {
                let (id, owner) = (ObjectId::of(self.next_id(), 1), Some(stranger(owner)));
                let slot = self.owner.on_borrowed(id, owner, shares);
                self.model.born(slot, Held { id: Some(id), owner, handles: 1, shares, ..Held::default() });
            }
            Move::BorrowAgain(number) => {
                if let Some(slot) = self.foreign(number) {
                    let held = self.model.objects.get_mut(&slot).expect("picked");
                    held.handles += 1;
                    held.shares += 1;
                    let (id, owner) = (held.id.expect("every object has one"), held.owner);
                    assert_eq!(self.owner.on_borrowed(id, owner, 1), slot);
                }
            }
            Move::Keep(number) => {
                if let Some(slot) = self.foreign(number) {
                    let is_used = self.model.is_used(slot);
                    self.model.objects.get_mut(&slot).expect("picked").shares += i32::from(is_used);
                    assert_eq!(self.owner.on_keep(slot).is_some(), is_used);
                }
            }
            Move::CallBegins(number) => {
                if let Some(slot) = self.foreign(number) {
                    let held = self.model.objects.get_mut(&slot).expect("picked");
                    (held.handles, held.guests) = (held.handles + 1, held.guests + 1);
                    let (id, owner) = (held.id.expect("every object has one"), held.owner);
                    assert_eq!(self.owner.on_borrowed(id, owner, 0), slot);
                    self.owner.on_call_begins(slot);
                }
            }
            Move::CallEnds(number) => self.call_ends(number),
            Move::KeptBy { object, by } => {
                if let Some(slot) = self.foreign(object) {
                    let held = self.model.objects.get_mut(&slot).expect("picked");
                    if held.guests > 0 {
                        held.lent.push(stranger(by));
                    }
                    let (id, owner) = (held.id.expect("every object has one"), held.owner);
                    self.step(|owners, _, out| owners.on_kept_by(&id, owner, stranger(by), out));
                }
            }
            Move::Need(number) => {
                if let Some(slot) = self.foreign(number) {
                    self.step(|owner, _, out| owner.on_needed(slot, out));
                }
            }
            Move::Have { object, names, is_large } => {
                if let Some(slot) = self.foreign(object) {
                    self.have(slot, &names, is_large);
                }
            }
            Move::Looked { call, has_changed } => {
                if !self.looks.is_empty() {
                    let key = self.looks.swap_remove(call % self.looks.len());
                    self.step(|owner, _, out| owner.on_arguments_looked(key, has_changed, "missed", out));
                }
            }
            Move::Wait(ms) => {
                self.now = self.now.plus_ms(ms);
                self.step(|owner, now, out| owner.on_tick(now, out));
            }
        }
    }

    /// OWN-2: whoever called is told of everyone who keeps what came with the call.
    pub(super) fn call_ends(&mut self, number: usize) {
        let guests = self.model.objects.iter().filter(|(_, held)| held.guests > 0);
        let Some(slot) = pick(guests.map(|(slot, _)| *slot), number) else { return };
        let (is_used, me) = (self.model.is_used(slot), ProcId::new(1, 800, 0));
        let held = self.model.objects.get_mut(&slot).expect("picked");
        held.guests -= 1;
        held.shares += i32::from(is_used);
        let told: Vec<ProcId> = is_used.then_some(me).into_iter().chain(std::mem::take(&mut held.lent)).collect();
        let mut kept = Vec::new();
        self.step(|owner, _, out| kept.extend(owner.on_call_ends(slot, me, out).into_iter().map(|kept| kept.borrower)));
        assert_eq!(kept, told);
    }

    fn submit(
        &mut self,
        target: usize,
        deps: &[usize],
        names: &[usize],
        (retries, returns): (i32, u32),
        holds_life: bool,
    ) {
        let id = self.next_id();
        let cpus = if target == 1 { 2 } else { 1 };
        let template = Template {
            language: model::Language::PYTHON,
            function: FunctionId([0; 16]),
            name: "f".into(),
            method: "".into(),
            need: Need::same(Resources::cpus(cpus)),
            returns,
            yields: model::Yields::Nothing,
            retries_max: retries,
            retry_exceptions: true,
            calls_max: 0,
            // Any rule that spreads calls over two groups of an actor's methods will do.
            group: if target < 2 { 0 } else { (deps.len() % 2) as u16 },
        };
        let actor = target.checked_sub(2);
        let (deps, contains) = (self.objects(deps), self.objects(names));
        let mut uses: Vec<Slot> = deps.iter().chain(&contains).copied().collect();
        let target = actor.map_or(Target::Pool, |index| Target::Actor(actor_id(index)));
        let (deps, contains) = (deps.into(), contains.into());
        let spec = Spec { id, template: Arc::new(template), target, payload: Vec::new(), deps, contains };
        let mut effects = Vec::new();
        let Submitted { key, returns: slots, .. } = self.owner.on_submitted(self.now, spec, &mut effects);
        for (index, slot) in slots.iter().enumerate() {
            let id = Some(ObjectId::of(id, index as u32 + 1));
            self.model.born(*slot, Held { id, handles: 1, maker: Some(key), ..Held::default() });
        }
        if let Some(life) = actor.filter(|_| holds_life).and_then(|index| self.actors[index].object) {
            self.owner.on_call_holds(key, life);
            uses.push(life);
        }
        let (number, returns) = (self.numbers, slots.to_vec());
        self.model.tasks.insert(
            key,
            Pending { number, actor, uses, returns, retries_max: retries, starts: 0, is_cancelled: false },
        );
        self.hear(effects);
    }
}
