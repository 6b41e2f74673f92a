//! The body of a simulated process: messages become the owner's events, its effects become messages.

use std::collections::BTreeSet;

use hub::Past;
use model::{Bulk, GroupId, JobId, ObjectId, ProcId, TaskId, TaskKey, Where, WorkerExit};
use owner::{ActorNews, Effect, Heirs, Slot, Spec, Stage, Submitted, Target, Value};
use party::{Party, Sent, view};
use rustc_hash::FxHashMap;
use wire::control::ActorPlace;
use wire::frame::{CONSUMED, GIFT, Header, ITEM, REPLY, TAKE_BACK};
use wire::peer::Peer;
use wire::{Malformed, Reader};

use crate::abroad::pid_of;
use crate::body::send_frame;
use crate::driver::Driver;
use crate::env::{Claim, Env};
use crate::grouped::Made;
use crate::journal::Journal;
use crate::large::{Content, Holdings};
use crate::looks::Look;
use crate::members::index_of;
use crate::network::{Item, Pid};
use crate::oracle::{Submission, Task};
use crate::refs::Ref;
use crate::streams::Reading;
use crate::work::{PlanId, Plans, value_of};
use crate::worker::Worker;

const OWNER_TICK_MS: u64 = 100;

/// What a process says to its node.
pub(crate) type ToNode = wire::control::ToNode;

/// What a node says to a process.
pub(crate) type FromNode = wire::control::FromNode;

/// What one process writes into another's ring.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    Call(Call),
    /// As it lies in the ring.
    Written {
        header: Header,
        body: Vec<u8>,
        /// Of what a task has made: the task, as it was first submitted.
        first: Option<Task>,
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

impl Call {
    /// Large values that it needs.
    pub(crate) fn named(&self) -> Vec<Bulk> {
        let large = |arg: &Arg| if let Some(Content::Large(bulk)) = arg.content { Some(bulk) } else { None };
        self.args.iter().filter_map(large).collect()
    }
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
    /// What it decides, and for its tasks and objects the owner.
    pub(crate) party: Party<()>,
    pub(crate) role: Role,
    /// The task that makes the object in a slot, as it was first submitted.
    pub(crate) maker: FxHashMap<Slot, Task>,
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
    /// Processes that it was told are dead: it has no ring with them any more.
    pub(crate) buried: BTreeSet<ProcId>,
    /// What came while it was stopped.
    pub(crate) stopped: Option<Vec<Item>>,
}

impl Process {
    pub(crate) fn new(pid: Pid, job: JobId, role: Role, past: Past) -> Self {
        let is_keeper = matches!(role, Role::Keeper);
        let mut party = Party::new(pid.1, is_keeper, Heirs::new(past.heirs, past.estates));
        if !is_keeper {
            party.owner.set_mortal();
        }
        Self {
            pid,
            job,
            party,
            journal: Journal::default(),
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
            buried: BTreeSet::new(),
            stopped: None,
        }
    }

    pub(crate) fn on_message(&mut self, env: &mut Env, message: FromNode) {
        match message {
            FromNode::Granted { number, worker, .. } => {
                self.party.has_met(worker);
                self.party.owner.on_lease_granted(env.now, number, worker, &mut self.party.effects);
            }
            FromNode::Revoke { number } => self.party.owner.on_lease_revoked(env.now, number, &mut self.party.effects),
            FromNode::LeaseRefused { number, why } => {
                self.party.owner.on_lease_refused(number, &why, &mut self.party.effects);
            }
            FromNode::Group { group, is_there } => self.on_group(group, is_there),
            FromNode::PeerDied { peer, exit, heir } => self.on_peer_died(env, peer, &exit, heir),
            FromNode::Inherit { of, witnesses } => self.on_inherit(env, of, witnesses),
            FromNode::NodeTestified { of, node } => self.party.on_node_testified(of, node),
            FromNode::NodeSettled { of, node } => self.party.on_node_settled(of, node),
            FromNode::Testify { of, heir } => {
                let (party, mut hands) = self.parts(env);
                party.testify_for_nothing(&mut hands, of, heir);
            }
            FromNode::Settle { of } => {
                self.drain(env);
                self.apply(env);
                self.party.on_settle_abroad(of);
            }
            FromNode::LastFrames { peer, frames } => {
                self.drain_from(env, peer);
                for frame in frames {
                    let frame = env.unpack(self.pid.1, peer, frame);
                    self.on_frame(env, peer, frame);
                }
            }
            FromNode::ActorAnswer { request, answer } => self.on_actor_answer(request, &answer),
            FromNode::Actor { actor, state, incarnation } => {
                let news = news_of(state);
                if let ActorNews::Alive(worker) = news {
                    self.party.has_met(worker);
                }
                self.party.owner.on_actor_news(actor, incarnation, news, &mut self.party.effects);
            }
            FromNode::BuildActor { actor, .. } => self.on_build(env, actor),
            FromNode::Relay { sender, message } => {
                self.party.has_met(sender);
                self.on_peer(env, sender, message);
            }
            FromNode::Undeliverable { to, message } => {
                let (party, mut hands) = self.parts(env);
                party.on_undeliverable(&mut hands, to, message);
            }
            FromNode::Exit { .. } => self.on_exit(env),
            FromNode::Retire => self.on_retire(env),
            FromNode::Assigned { job, .. } => self.on_assigned(env, job),
            FromNode::Linked { peer, .. } => {
                self.party.has_met(peer);
                self.linked.insert(peer);
            }
            // Links are never given back here; what then happens is run by the tests of `hub::links`.
            FromNode::MayUnlink { peer } => env.tell_node(self.pid, ToNode::Idle { peer, quiet: None }),
            FromNode::Notice { kind, text } if &*kind == "infeasible" => env.oracle.fail(text.into()),
            FromNode::Answer { request, answer } => self.on_answered(env, request, &answer),
            FromNode::Notice { .. } => {}
            FromNode::Welcome(_)
            | FromNode::Refused(_)
            | FromNode::Keep { .. }
            | FromNode::Unlink { .. }
            | FromNode::Extent { .. }
            | FromNode::GiveBackRoom { .. }
            | FromNode::CollectGarbage
            | FromNode::TellHoldings { .. }
            | FromNode::Log(_)
            | FromNode::LastWords
            | FromNode::Carrier => {
                env.oracle.fail("a node says what nobody asked for".into());
            }
        }
        self.apply(env);
    }

    pub(crate) fn on_frame(&mut self, env: &mut Env, from: ProcId, frame: Frame) {
        // Two that have a ring were told of each other when they got it.
        self.party.has_met(from);
        match frame {
            Frame::Call(call) => self.on_call(env, call),
            Frame::Written { header, body, .. } => {
                if self.on_written_frame(env, from, header, &body).is_err() {
                    env.oracle.fail(format!("{from} writes {header:?} {body:?}"));
                }
            }
        }
        self.apply(env);
    }

    fn on_written_frame(&mut self, env: &mut Env, from: ProcId, header: Header, body: &[u8]) -> Result<(), Malformed> {
        let key = TaskKey(header.request);
        let (knew, body) = self.party.read_known(from, &header, body)?;
        let sent = Sent::now(from, view(&knew));
        if header.flags & GIFT != 0 {
            self.party.on_gift_came(from);
        }
        match header.kind {
            REPLY => {
                self.note_values(env, body.get(4..).unwrap_or_default());
                let (party, mut hands) = self.parts(env);
                party.take_reply(&mut hands, key, sent, header.flags, body)
            }
            ITEM => {
                let (party, mut hands) = self.parts(env);
                party.take_item(&mut hands, key, sent, body)
            }
            CONSUMED => {
                let count = Reader::new(body).u32()?;
                self.on_consumed(env, from, key, count);
                Ok(())
            }
            _ => Err(Malformed("kind")),
        }
    }

    /// All that the dead one had written is read first; then its calls are lost. `heir`: who takes over what it has left.
    fn on_peer_died(&mut self, env: &mut Env, peer: ProcId, exit: &WorkerExit, heir: Option<ProcId>) {
        self.drain_from(env, peer);
        if env.oracle.is_lost(pid_of(peer).0) {
            self.note_calls_on(env, peer);
        }
        let (party, mut hands) = self.parts(env);
        party.on_peer_died(&mut hands, peer, exit, heir);
        self.reader_died(env, peer, exit);
        if self.linked.remove(&peer) {
            env.tell_node(self.pid, ToNode::LinkClosed { peer });
        }
    }

    /// What this process had sent to one of a node that is dead, and what has not come back.
    fn note_calls_on(&self, env: &mut Env, peer: ProcId) {
        let is_there = |stage: Stage| matches!(stage, Stage::Under { worker, .. } if worker == peer);
        for (_, task) in self.party.owner.tasks().filter(|(_, task)| is_there(task.stage)) {
            if let Some(first) = self.maker.get(&task.returns[0]) {
                env.oracle.lay_with_the_dead(*first, pid_of(peer));
            }
        }
    }

    /// Reads what a process had written into its ring.
    fn drain_from(&mut self, env: &mut Env, peer: ProcId) {
        for frame in env.queue.take_frames(pid_of(peer), self.pid) {
            self.on_frame(env, peer, frame);
        }
    }

    pub(crate) fn on_tick(&mut self, env: &mut Env) {
        self.is_tick_planned = false;
        self.party.owner.on_tick(env.now, &mut self.party.effects);
        self.apply(env);
    }

    /// Submits a task and keeps one handle on its value.
    pub(crate) fn submit(&mut self, env: &mut Env, id: TaskId, plan: PlanId, call: Target, inputs: Inputs<'_>) -> Slot {
        let Inputs { deps, names } = inputs;
        let template = env.plans.get(plan).template.clone();
        let retries_max = template.retries_max;
        let (group, at) = match template.need.at {
            Where::Bundle(seat) => (Some(seat.group), None),
            Where::Node(id) => (None, Some(index_of(id))),
            Where::Anywhere => (None, None),
        };
        let id_of = |slot: &Slot| self.party.owner.object(*slot).expect("held").id;
        let (dep_ids, name_ids): (Vec<_>, Vec<_>) =
            (deps.iter().map(id_of).collect(), names.iter().map(id_of).collect());
        let payload = plan.to_le_bytes().to_vec();
        let spec = Spec { id, template, target: call, payload, deps: deps.into(), contains: names.into() };
        let Submitted { key, returns, stream } = self.party.owner.on_submitted(env.now, spec, &mut self.party.effects);
        if let Some(life) = self.actor_slot(call) {
            self.party.owner.on_call_holds(key, life);
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
            at,
            actor: if let Target::Actor(actor) = call { Some(actor) } else { None },
            index: self.submissions,
        };
        env.oracle.submitted((self.pid, key), submission);
        returns[0]
    }

    /// RUN-2 of the real body: does everything that the last events asked for.
    pub(crate) fn apply(&mut self, env: &mut Env) {
        while !self.party.effects.is_empty() {
            for effect in std::mem::take(&mut self.party.effects) {
                let (party, mut hands) = self.parts(env);
                if let Some(effect) = party.on_effect(&mut hands, effect) {
                    self.apply_one(env, effect);
                }
            }
        }
        if self.party.has_to_say() {
            let (party, mut hands) = self.parts(env);
            party.say(&mut hands);
        }
        if self.party.owner.needs_tick() && !self.is_tick_planned {
            self.is_tick_planned = true;
            env.later(OWNER_TICK_MS * 1_000, Item::OwnerTick { process: self.pid });
        }
        self.look_at_children(env);
        self.look_at_gets(env);
        self.finish_program(env);
        self.look_at_what_it_owns(env);
        if !self.party.effects.is_empty() {
            self.apply(env);
        }
    }

    /// The node needs this worker no more: one that runs something ends at once, since whoever wanted that is gone.
    fn on_retire(&mut self, env: &mut Env) {
        if matches!(&self.role, Role::Worker(worker) if worker.running().or_else(|| worker.beginning()).is_some()) {
            return self.end(env, WorkerExit::Signal(9, model::Remains::default()));
        }
        self.is_retired = true;
    }

    /// A retired worker ends once no value and no task of its is left.
    fn look_at_what_it_owns(&mut self, env: &mut Env) {
        let Role::Worker(_) = self.role else { return };
        env.owns_something(self.pid, self.party.owner.may_own_something());
        if self.is_retired && !self.party.has_given_places() && !self.party.owner.owns_something() {
            self.is_retired = false;
            self.end(env, WorkerExit::Code(0, model::Remains::default()));
        }
    }

    fn apply_one(&mut self, env: &mut Env, effect: Effect) {
        match effect {
            Effect::Push { task, worker } => self.push(env, task, worker),
            Effect::TakeBack { task, worker } => {
                let stage = self.party.owner.task(task).map(|task| task.stage);
                if let Some(Stage::Under { worker: on, ticket }) = stage
                    && on == worker
                {
                    if env.claim(ticket, Claim::TakenBack) {
                        self.party.owner.on_took_back(env.now, task, worker, &mut self.party.effects);
                    } else if pid_of(worker).0 != self.pid.0 {
                        let header = Header { length: 0, kind: TAKE_BACK, flags: 0, claim: 0, request: task.0 };
                        let frame = Frame::Written { header, body: Vec::new(), first: None };
                        send_frame(env, self.pid, worker, frame);
                    }
                }
            }
            Effect::RequestLease { number, need, name: _ } => {
                let is_keeper = matches!(self.role, Role::Keeper);
                let job = self.party.owner.job_waiting(&need).filter(|_| is_keeper).unwrap_or(self.job);
                env.tell_node(self.pid, ToNode::RequestLease { number, job, need, name: "f".into() });
            }
            Effect::ReturnLease { number } => env.tell_node(self.pid, ToNode::ReturnLease { number }),
            Effect::Resolved(slot) if !self.maker.contains_key(&slot) => self.put_resolved(env, slot),
            Effect::Resolved(slot) => {
                // One that nobody held may be gone, and its place be that of something that a generator yields.
                let object = self.party.owner.object(slot).filter(|object| object.id.index() == 1);
                let value = object.and_then(|object| object.value.as_ref());
                if let Some(key) = self.maker.get(&slot) {
                    env.oracle.resolved(*key, value);
                }
            }
            Effect::Unresolved(slot) => match self.maker.get(&slot) {
                Some(key) => {
                    // One that is gone by now may have been lost before.
                    let object = self.party.owner.object(slot).filter(|object| object.id.index() == 1);
                    let is_lost = object.is_none_or(|object| matches!(object.value, Some(Value::Failed(_))));
                    env.oracle.unresolved(*key, is_lost);
                }
                None => self.put_resolved(env, slot),
            },
            Effect::Freed { slot, bulk } => {
                self.maker.remove(&slot);
                self.puts.remove(&slot);
                if let Some(bulk) = bulk {
                    let (party, mut hands) = self.parts(env);
                    party.free_bulk(&mut hands, bulk);
                }
            }
            Effect::Consumed { task, worker, count } => {
                // One that has not been sent yet is told with the call.
                let stage = self.party.owner.task(task).map(|task| task.stage);
                if matches!(stage, Some(Stage::Under { worker: on, ticket }) if on == worker && ticket != 0) {
                    self.tell_consumed(env, worker, task, count);
                }
            }
            Effect::Interrupt { task, worker, recursive, .. } => {
                if let Some(id) = self.party.owner.task(task).map(|task| task.spec.id)
                    && self.party.owner.is_under(task, worker)
                {
                    let message = Peer::Interrupt { task: id, recursive };
                    env.tell_node(self.pid, ToNode::Relay { to: worker, message });
                }
            }
            Effect::Unread { .. } => {}
            Effect::MoveLineage | Effect::ReadArguments { .. } => unreachable!("any amount is kept"),
            Effect::LookForArguments { task, why } => self.order_look(env, Look::Arguments { task, why }),
            effect => unreachable!("the party does that: {effect:?}"),
        }
    }

    pub(crate) fn relay(&self, env: &mut Env, to: ProcId, message: Peer) {
        env.tell_node(self.pid, ToNode::Relay { to, message });
    }

    fn tell_consumed(&self, env: &mut Env, worker: ProcId, key: TaskKey, count: u32) {
        let body = count.to_le_bytes().to_vec();
        let header = Header { length: body.len() as u32, kind: CONSUMED, flags: 0, claim: 0, request: key.0 };
        send_frame(env, self.pid, worker, Frame::Written { header, body, first: None });
    }

    /// Something that no task makes changes: what was put is lost, or an owner has answered.
    fn put_resolved(&self, env: &mut Env, slot: Slot) {
        if let Some(id) = self.puts.get(&slot) {
            env.oracle.put_lost(id);
        }
    }

    fn push(&mut self, env: &mut Env, key: TaskKey, worker: ProcId) {
        let Some(task) = self.party.owner.task(key) else { return };
        let arg = |dep: &Slot| {
            let object = self.party.owner.object(*dep).expect("held by the task");
            Arg { id: object.id, content: object.value.as_ref().and_then(|value| Content::of(value).ok()) }
        };
        let args: Vec<Arg> = task.spec.deps.iter().map(arg).collect();
        let first = self.maker[&task.returns[0]];
        let names = task.spec.contains.clone();
        let plan = PlanId::from_le_bytes(task.spec.payload[..].try_into().expect("a plan's number"));
        let ticket = env.new_claim();
        let is_on_actor = task.spec.target != Target::Pool;
        let id = task.spec.id;
        let refs: Vec<Ref> = names.into_iter().filter_map(|slot| self.escape(env, slot)).collect();
        let (caller, is_claimed, consumed) = (self.pid.1, false, 0);
        let call = Call { caller, key, first, is_claimed, id, plan, ticket, is_on_actor, args, refs, consumed };
        self.party.owner.on_pushed(key, ticket);
        if self.party.owner.is_recorded(key) {
            let (party, mut hands) = self.parts(env);
            party.note_progress(&mut hands, key);
        }
        send_frame(env, self.pid, worker, Frame::Call(call));
        if let Some(count) = self.party.owner.consumed(key) {
            self.tell_consumed(env, worker, key, count);
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
