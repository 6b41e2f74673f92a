//! The body of a simulated process: messages become the owner's events, its effects become messages.

use std::collections::BTreeSet;

use hub::Past;
use model::{Failure, GroupId, JobId, ObjectId, ProcId, TaskId, TaskKey, Where, WorkerExit};
use owner::{ActorNews, Effect, Heirs, Keeping, Kept, Owner, Slot, Spec, Stage, Submitted, Target, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wire::control::ActorPlace;

use crate::driver::Driver;
use crate::env::{Claim, Env};
use crate::grouped::Made;
use crate::journal::Journal;
use crate::keeper::Sent;
use crate::large::{Content, Holdings};
use crate::looks::Look;
use crate::network::{Item, Pid};
use crate::oracle::{Submission, Task};
use crate::refs::{Number, Peer, Ref};
use crate::streams::Reading;
use crate::work::{PlanId, Plans, value_of};
use crate::worker::Worker;

const OWNER_TICK_MS: u64 = 100;

/// What a process says to its node.
pub(crate) type ToNode = wire::control::ToNodeOf<Peer>;

/// What a node says to a process.
pub(crate) type FromNode = wire::control::FromNodeOf<Peer>;

/// What one process writes into another's ring.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    Call(Call),
    /// `kept`: references of the call that the worker keeps beyond it. `known`: how many deaths it knew of when it registered what this
    /// gives away.
    Reply {
        key: TaskKey,
        answer: Result<Content, Failure>,
        kept: Vec<Kept>,
        is_gift: bool,
        known: u16,
        /// The task as it was first submitted.
        first: Task,
    },
    GivenBack {
        key: TaskKey,
        known: u16,
    },
    /// A value that a call yields.
    Item {
        key: TaskKey,
        answer: Number,
    },
    /// How many of a call's items were read.
    Consumed {
        key: TaskKey,
        count: u32,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) caller: ProcId,
    pub(crate) key: TaskKey,
    pub(crate) id: TaskId,
    pub(crate) plan: PlanId,
    pub(crate) ticket: u64,
    pub(crate) is_on_actor: bool,
    /// The task as it was first submitted: one that runs again has another key, and may have another owner.
    pub(crate) first: Task,
    /// Its caller is dead and cannot take it back any more.
    pub(crate) is_claimed: bool,
    pub(crate) args: Vec<Arg>,
    /// References inside the arguments.
    pub(crate) refs: Vec<Ref>,
    /// Of what it yields: how much was read already.
    pub(crate) consumed: u32,
}

/// A value that a call needs; `None`: it is not there any more.
#[derive(Clone, Debug)]
pub(crate) struct Arg {
    pub(crate) id: ObjectId,
    pub(crate) content: Option<Content>,
}

/// What a call is given: values of these, and references to those.
#[derive(Clone, Copy, Default)]
pub(crate) struct Inputs<'a> {
    pub(crate) deps: &'a [Slot],
    pub(crate) names: &'a [Slot],
}

/// What a process is for.
pub(crate) enum Role {
    Driver(Driver),
    Worker(Box<Worker>),
    /// Inherits from those that die.
    Keeper,
}

pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) job: JobId,
    pub(crate) owner: Owner,
    pub(crate) effects: Vec<Effect>,
    pub(crate) role: Role,
    /// The task that makes the object in a slot, as it was first submitted.
    pub(crate) maker: FxHashMap<Slot, Task>,
    /// Who stands for processes that are dead.
    pub(crate) heirs: Heirs,
    /// What the keeper keeps of those.
    pub(crate) keeping: Keeping,
    pub(crate) journal: Journal,
    /// The object in a slot, if it was put.
    pub(crate) puts: FxHashMap<Slot, ObjectId>,
    /// Generators that it reads.
    pub(crate) readings: Vec<Reading>,
    pub(crate) holdings: Holdings,
    /// The group that its program has, and objects that wait for the end of earlier ones.
    pub(crate) group: Option<Made>,
    pub(crate) awaited: Vec<(GroupId, Slot)>,
    submissions: u64,
    is_tick_planned: bool,
    /// Processes that it has rings to.
    linked: BTreeSet<ProcId>,
    /// It ends once nothing of its is left.
    is_retired: bool,
    /// Processes that it was told are gone.
    pub(crate) dead: BTreeSet<ProcId>,
    /// Those of whose death it will be told.
    pub(crate) met: BTreeSet<ProcId>,
    pub(crate) gifts: owner::Gifts,
    /// What came while it was stopped.
    pub(crate) stopped: Option<Vec<Item>>,
}

impl Process {
    pub(crate) fn new(pid: Pid, job: JobId, role: Role, past: Past) -> Self {
        let mut owner = Owner::new();
        if !matches!(role, Role::Keeper) {
            owner.set_mortal();
        }
        Self {
            pid,
            job,
            owner,
            heirs: Heirs::new(past.heirs, past.estates),
            keeping: Keeping::default(),
            journal: Journal::default(),
            effects: Vec::new(),
            role,
            maker: FxHashMap::default(),
            puts: FxHashMap::default(),
            readings: Vec::new(),
            holdings: Holdings::default(),
            group: None,
            awaited: Vec::new(),
            submissions: 0,
            is_tick_planned: false,
            linked: BTreeSet::new(),
            is_retired: false,
            dead: BTreeSet::new(),
            met: BTreeSet::new(),
            gifts: owner::Gifts::default(),
            stopped: None,
        }
    }

    pub(crate) fn on_message(&mut self, env: &mut Env, message: FromNode) {
        match message {
            FromNode::Granted { number, worker, .. } => {
                self.met.insert(worker);
                self.owner.on_lease_granted(env.now, number, worker, &mut self.effects);
            }
            FromNode::Revoke { number } => self.owner.on_lease_revoked(env.now, number, &mut self.effects),
            FromNode::LeaseRefused { number, why } => {
                self.owner.on_lease_refused(number, &why, &mut self.effects);
            }
            FromNode::Group { group, is_there } => self.on_group(group, is_there),
            FromNode::PeerDied { peer, exit, heir } => self.on_peer_died(env, peer, &exit, heir),
            FromNode::Inherit { of, witnesses } => self.on_inherit(env, of, witnesses),
            FromNode::ActorAnswer { request, answer } => self.on_actor_answer(request, &answer),
            FromNode::Actor { actor, state, incarnation } => {
                let news = news_of(state);
                if let ActorNews::Alive(worker) = news {
                    self.met.insert(worker);
                }
                self.owner.on_actor_news(actor, incarnation, news, &mut self.effects);
            }
            FromNode::BuildActor { actor, .. } => self.on_build(env, actor),
            FromNode::Relay { sender, message } => {
                self.met.insert(sender);
                self.on_peer(env, sender, message);
            }
            FromNode::Undeliverable { to, message } => self.on_undeliverable(to, &message),
            FromNode::Exit { .. } => self.on_exit(env),
            FromNode::Retire => self.on_retire(env),
            FromNode::Assigned { job, .. } => self.job = job,
            FromNode::Linked { peer, .. } => {
                self.linked.insert(peer);
            }
            // Links are never given back here; what then happens is run by the tests of `hub::links`.
            FromNode::MayUnlink { peer } => env.tell_node(self.pid, ToNode::Idle { peer, quiet: None }),
            FromNode::Notice { kind, text } if &*kind == "infeasible" => env.oracle.fail(text.into()),
            FromNode::Notice { .. } | FromNode::Answer { .. } => {}
            FromNode::Welcome(_)
            | FromNode::Refused(_)
            | FromNode::Keep { .. }
            | FromNode::Unlink { .. }
            | FromNode::Extent { .. }
            | FromNode::GiveBackRoom { .. }
            | FromNode::CollectGarbage
            | FromNode::TellHoldings { .. }
            | FromNode::Log(_)
            | FromNode::LastWords => env.oracle.fail("a node says what nobody asked for".into()),
        }
        self.apply(env);
    }

    pub(crate) fn on_frame(&mut self, env: &mut Env, from: ProcId, frame: Frame) {
        // Two that have a ring were told of each other when they got it.
        self.met.insert(from);
        match frame {
            Frame::Call(call) => self.on_call(env, call),
            Frame::Reply { key, answer, kept, known, is_gift, .. } => {
                if is_gift {
                    self.gifts.on_came(from);
                }
                let sent = Sent { by: from, known, is_to_the_dead: false };
                self.take_reply(env, key, sent, answer, &kept);
            }
            Frame::GivenBack { key, .. } => self.owner.on_given_back(env.now, key, from, &mut self.effects),
            Frame::Item { key, answer } => {
                self.owner.on_item(key, from, answer.to_value(), SmallVec::new(), &mut self.effects);
            }
            Frame::Consumed { key, count } => self.on_consumed(env, from, key, count),
        }
        self.apply(env);
    }

    pub(crate) fn take_reply(
        &mut self,
        env: &mut Env,
        key: TaskKey,
        sent: Sent,
        answer: Result<Content, Failure>,
        kept: &[Kept],
    ) {
        // The real body reads the value first, which says that it is not there, and then the list; both before our own hold ends.
        let lost = match answer {
            Err(Failure::ArgumentLost(why)) => Err(why),
            answer => Ok(self.take_value(env, sent, answer)),
        };
        kept.iter().for_each(|kept| self.note_kept(env, sent.known, *kept));
        match lost {
            Err(why) => self.owner.on_argument_lost(env.now, key, sent.by, &why, &mut self.effects),
            Ok(value) => {
                let is_lost = matches!(&value.0, Value::Failed(failure) if matches!(**failure, Failure::Lost(_)));
                if let Some(task) = self.owner.task(key).filter(|_| is_lost) {
                    env.oracle.reply_lost(self.maker[&task.returns[0]]);
                }
                let reply = SmallVec::from_iter([value]);
                self.owner.on_replied(env.now, key, sent.by, reply, &mut self.effects);
            }
        }
    }

    /// All that the dead one had written is read first; then its calls are lost. `heir`: who takes over what it has left.
    fn on_peer_died(&mut self, env: &mut Env, peer: ProcId, exit: &WorkerExit, heir: Option<ProcId>) {
        let has_met = self.met.remove(&peer);
        if !has_met && heir.is_none() && self.dead.contains(&peer) {
            return;
        }
        for frame in env.queue.take_frames((self.pid.0, peer), self.pid) {
            self.on_frame(env, peer, frame);
        }
        match (heir, &mut self.role) {
            (Some(_), _) => self.claim_calls(env, peer),
            (None, Role::Worker(worker)) => worker.incoming.retain(|call| call.caller != peer),
            (None, Role::Driver(_) | Role::Keeper) => {}
        }
        self.dead.insert(peer);
        self.salvage(env, peer, heir);
        let has_started = |ticket| ticket == owner::ADOPTED || env.has_started(ticket);
        self.owner.on_worker_died(peer, exit, has_started, &mut self.effects);
        match heir {
            // What it had borrowed is held until all is settled.
            Some(heir) if heir == self.pid.1 => self.free_given(env, peer),
            Some(heir) => self.testify(env, peer, heir),
            None => {
                self.owner.on_process_gone(peer, &mut self.effects);
                self.free_given(env, peer);
            }
        }
        self.giver_died(env, peer);
        self.reader_died(env, peer, exit);
        if self.linked.remove(&peer) {
            env.tell_node(self.pid, ToNode::LinkClosed { peer });
        }
        if let Role::Keeper = self.role {
            if heir.is_none() {
                env.tell_node(self.pid, ToNode::Inherited { of: peer });
            }
            self.witness_died(env, peer);
        }
    }

    pub(crate) fn on_tick(&mut self, env: &mut Env) {
        self.is_tick_planned = false;
        self.owner.on_tick(env.now, &mut self.effects);
        self.apply(env);
    }

    /// Submits a task and keeps one handle on its value.
    pub(crate) fn submit(&mut self, env: &mut Env, id: TaskId, plan: PlanId, call: Target, inputs: Inputs<'_>) -> Slot {
        let Inputs { deps, names } = inputs;
        let template = env.plans.get(plan).template.clone();
        let retries_max = template.retries_max;
        let group = if let Where::Bundle(seat) = template.need.at { Some(seat.group) } else { None };
        let id_of = |slot: &Slot| self.owner.object(*slot).expect("held").id;
        let (dep_ids, name_ids): (Vec<_>, Vec<_>) =
            (deps.iter().map(id_of).collect(), names.iter().map(id_of).collect());
        let payload = plan.to_le_bytes().to_vec();
        let spec = Spec { id, template, target: call, payload, deps: deps.into(), contains: names.into() };
        let Submitted { key, returns, stream } = self.owner.on_submitted(env.now, spec, &mut self.effects);
        if let Some(life) = self.actor_slot(call) {
            self.owner.on_call_holds(key, life);
        }
        self.maker.insert(returns[0], (self.pid, key));
        if let Some(stream) = stream {
            self.read_stream(env, stream, plan);
        }
        self.submissions += 1;
        let submission = Submission {
            plan,
            id: ObjectId::of(id, 1),
            children: env
                .plans
                .get(plan)
                .children
                .iter()
                .map(|child| {
                    let is_given = env.plans.get(*child).takes_refs;
                    let given: Vec<u64> =
                        name_ids.iter().filter(|_| is_given).map(|id| env.oracle.expected(id)).collect();
                    value_without_faults(&env.plans, *child, &given)
                })
                .collect(),
            deps: dep_ids,
            retries_max,
            is_generator: stream.is_some(),
            group,
            actor: if let Target::Actor(actor) = call { Some(actor) } else { None },
            index: self.submissions,
        };
        env.oracle.submitted((self.pid, key), submission);
        returns[0]
    }

    /// RUN-2 of the real body: does everything that the last events asked for.
    pub(crate) fn apply(&mut self, env: &mut Env) {
        while !self.effects.is_empty() {
            for effect in std::mem::take(&mut self.effects) {
                self.apply_one(env, effect);
            }
        }
        if self.owner.needs_tick() && !self.is_tick_planned {
            self.is_tick_planned = true;
            env.later(OWNER_TICK_MS * 1_000, Item::OwnerTick { process: self.pid });
        }
        self.look_at_children(env);
        self.look_at_gets(env);
        self.finish_program(env);
        self.look_at_what_it_owns(env);
        if !self.effects.is_empty() {
            self.apply(env);
        }
    }

    /// The node needs this worker no more: one that runs something ends at once, since whoever wanted that is gone.
    fn on_retire(&mut self, env: &mut Env) {
        if matches!(&self.role, Role::Worker(worker) if worker.running().is_some()) {
            return self.end(env, WorkerExit::Signal(9, model::Remains::default()));
        }
        self.is_retired = true;
    }

    /// A retired worker ends once no value and no task of its is left.
    fn look_at_what_it_owns(&mut self, env: &mut Env) {
        let Role::Worker(_) = self.role else { return };
        env.owns_something(self.pid, self.owner.may_own_something());
        if self.is_retired && self.holdings.given.is_empty() && !self.owner.owns_something() {
            self.is_retired = false;
            self.end(env, WorkerExit::Code(0, model::Remains::default()));
        }
    }

    fn apply_one(&mut self, env: &mut Env, effect: Effect) {
        match effect {
            Effect::Push { task, worker } => self.push(env, task, worker),
            Effect::TakeBack { task, worker } => {
                let stage = self.owner.task(task).map(|task| task.stage);
                if let Some(Stage::Under { worker: on, ticket }) = stage
                    && on == worker
                    && env.claim(ticket, Claim::TakenBack)
                {
                    self.owner.on_took_back(env.now, task, worker, &mut self.effects);
                }
            }
            Effect::RequestLease { number, need, name: _ } => {
                let is_keeper = matches!(self.role, Role::Keeper);
                let job = self.owner.job_waiting(&need).filter(|_| is_keeper).unwrap_or(self.job);
                env.tell_node(self.pid, ToNode::RequestLease { number, job, need, name: "f".into() });
            }
            Effect::ReturnLease { number } => env.tell_node(self.pid, ToNode::ReturnLease { number }),
            Effect::Resolved(slot) if !self.maker.contains_key(&slot) => self.put_resolved(env, slot),
            Effect::Resolved(slot) => {
                // One that nobody held may be gone, and its place be that of something that a generator yields.
                let object = self.owner.object(slot).filter(|object| object.id.index() == 1);
                let value = object.and_then(|object| object.value.as_ref());
                if let Some(key) = self.maker.get(&slot) {
                    env.oracle.resolved(*key, value);
                }
            }
            Effect::Unresolved(slot) => match self.maker.get(&slot) {
                Some(key) => {
                    // One that is gone by now may have been lost before.
                    let object = self.owner.object(slot).filter(|object| object.id.index() == 1);
                    let is_lost = object.is_none_or(|object| matches!(object.value, Some(Value::Failed(_))));
                    env.oracle.unresolved(*key, is_lost);
                }
                None => self.put_resolved(env, slot),
            },
            Effect::Discarded(bulk) => self.free_bulk(env, bulk),
            Effect::Freed { slot, bulk } => {
                self.maker.remove(&slot);
                self.puts.remove(&slot);
                if let Some(bulk) = bulk {
                    self.free_bulk(env, bulk);
                }
            }
            Effect::Consumed { task, worker, count } => {
                // One that has not been sent yet is told with the call.
                let stage = self.owner.task(task).map(|task| task.stage);
                if matches!(stage, Some(Stage::Under { worker: on, ticket }) if on == worker && ticket != 0) {
                    env.frame(self.pid, (self.pid.0, worker), Frame::Consumed { key: task, count });
                }
            }
            Effect::Interrupt { task, worker, .. } => {
                if self.owner.is_under(task, worker) {
                    self.relay(env, worker, Peer::Interrupt { key: task });
                }
            }
            Effect::Unread { .. } => {}
            Effect::AskFree { .. } | Effect::Unreadable { .. } => unreachable!("nobody frees here"),
            Effect::MoveLineage | Effect::ReadArguments { .. } => unreachable!("any amount is kept"),
            Effect::LookForArguments { task, why } => self.order_look(env, Look::Arguments { task, why }),
            Effect::Record(what) => self.record(what),
            Effect::Erase(cell) => self.journal.erase(cell),
            Effect::Note(key) => self.note_progress(key),
            Effect::AskActor(actor) => env.tell_node(self.pid, ToNode::WatchActor { actor }),
            Effect::ActorUnreachable(actor) => env.tell_node(self.pid, ToNode::ActorOutOfScope { actor }),
            Effect::Want { owner, object } => self.relay(env, owner, Peer::Want { object }),
            Effect::Have { to, object, value } => self.answer_want(env, to, object, &value),
            Effect::Borrowed { owner, object, borrower, count } => {
                let borrower = if count < 0 { self.pid.1 } else { borrower };
                self.lend(env, owner, object, borrower, count);
            }
        }
    }

    /// Something that no task makes changes: what was put is lost, or an owner has answered.
    fn put_resolved(&self, env: &mut Env, slot: Slot) {
        if let Some(id) = self.puts.get(&slot) {
            env.oracle.put_lost(id);
        }
    }

    fn push(&mut self, env: &mut Env, key: TaskKey, worker: ProcId) {
        let Some(task) = self.owner.task(key) else { return };
        let arg = |dep: &Slot| {
            let object = self.owner.object(*dep).expect("held by the task");
            Arg { id: object.id, content: object.value.as_ref().and_then(|value| Content::of(value).ok()) }
        };
        let args = task.spec.deps.iter().map(arg).collect();
        let first = self.maker[&task.returns[0]];
        let names = task.spec.contains.clone();
        let plan = PlanId::from_le_bytes(task.spec.payload[..].try_into().expect("a plan's number"));
        let ticket = env.new_claim();
        let is_on_actor = task.spec.target != Target::Pool;
        let id = task.spec.id;
        let refs: Vec<Ref> = names.into_iter().filter_map(|slot| self.escape(env, slot)).collect();
        let (caller, is_claimed, consumed) = (self.pid.1, false, 0);
        let call = Call { caller, key, first, is_claimed, id, plan, ticket, is_on_actor, args, refs, consumed };
        self.owner.on_pushed(key, ticket);
        if self.owner.is_recorded(key) {
            self.note_progress(key);
        }
        env.frame(self.pid, (self.pid.0, worker), Frame::Call(call));
        if let Some(count) = self.owner.consumed(key) {
            env.frame(self.pid, (self.pid.0, worker), Frame::Consumed { key, count });
        }
    }

    /// The process ends by itself.
    pub(crate) fn end(&mut self, env: &mut Env, exit: WorkerExit) {
        env.later(0, Item::Kill { process: self.pid, exit });
    }

    fn actor_slot(&self, call: Target) -> Option<Slot> {
        let (Target::Actor(actor), Role::Driver(driver)) = (call, &self.role) else { return None };
        driver.slot_of(actor)
    }
}

fn news_of(place: ActorPlace) -> ActorNews {
    match place {
        ActorPlace::Pending => ActorNews::Pending,
        ActorPlace::Alive { worker, .. } => ActorNews::Alive(worker),
        ActorPlace::Restarting => ActorNews::Restarting,
        ActorPlace::Dead(death) => ActorNews::Dead(death),
    }
}

/// The object that stands for an actor while a handle on it is held.
pub(crate) fn life_of(id: TaskId) -> ObjectId {
    ObjectId::of(id, 0)
}

fn value_without_faults(plans: &Plans, plan: PlanId, given: &[u64]) -> u64 {
    let children = plans.get(plan).children.iter().map(|child| value_without_faults(plans, *child, &[]));
    let inputs: Vec<u64> = given.iter().copied().chain(children).collect();
    value_of(plan, &inputs)
}
