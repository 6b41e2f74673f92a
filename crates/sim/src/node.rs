//! The body of a simulated node: messages become events of the scheduler and the actor table, their
//! effects become messages. It does what the real node does, in the same order.

use std::collections::{BTreeMap, BTreeSet};

use control::{ActorState, ActorView, Actors, GroupEvent, Groups};
use model::{ActorId, GroupId, JobId, LeaseId, ProcId, Tick, WorkerExit};
use owner::{ActorNews, Heirs};
use rustc_hash::FxHashMap;
use scheduler::{LeaseKind, Options, Scheduler};

use crate::env::Env;
use crate::grouped::with_seats;
use crate::network::{Item, Pid};
use crate::process::{FromNode, ToNode};
use crate::work::with_licence;

const GRACE_MS: u64 = 2_000;
const WORKERS_MAX: u32 = 64;

pub(crate) struct Node {
    index: usize,
    pub(crate) scheduler: Scheduler,
    pub(crate) actors: Actors,
    pub(crate) groups: Groups,
    pub(crate) group_watchers: FxHashMap<GroupId, Vec<ProcId>>,
    /// Processes that are not known to be dead, and the job of each driver.
    procs: BTreeMap<ProcId, Option<JobId>>,
    /// Told to end.
    ending: BTreeSet<ProcId>,
    epochs: Vec<u32>,
    actor_leases: FxHashMap<LeaseId, (ActorId, u32)>,
    actor_lease_next: u64,
    creators: FxHashMap<ActorId, ProcId>,
    watchers: FxHashMap<ActorId, BTreeSet<ProcId>>,
    /// Who hears of whose death.
    met: BTreeSet<(ProcId, ProcId)>,
    tick_at: Option<Tick>,
    /// Who takes over from the dead.
    keeper: Option<ProcId>,
    /// Who was taken over from, in this order.
    heirs: Vec<(ProcId, ProcId)>,
    /// Those of which it is not known what is still under way.
    unsettled: BTreeSet<ProcId>,
    /// Workers that go on with what a dead process had sent them; and of those the ones that shall end then.
    serving: BTreeSet<ProcId>,
    ending_later: BTreeSet<ProcId>,
}

impl Node {
    pub(crate) fn new(index: usize, cpus: i64) -> Self {
        let options = Options {
            total: with_seats(with_licence(model::Resources::cpus(cpus))),
            gpu_names: Vec::new(),
            prestart: 1,
            idle_ms_max: 1_000,
            workers_max: WORKERS_MAX,
            starts_max: 3,
        };
        Self {
            index,
            scheduler: Scheduler::new(options),
            actors: Actors::new(),
            groups: Groups::default(),
            group_watchers: FxHashMap::default(),
            procs: BTreeMap::new(),
            ending: BTreeSet::new(),
            epochs: Vec::new(),
            actor_leases: FxHashMap::default(),
            actor_lease_next: 0,
            creators: FxHashMap::default(),
            watchers: FxHashMap::default(),
            met: BTreeSet::new(),
            tick_at: None,
            keeper: None,
            heirs: Vec::new(),
            unsettled: BTreeSet::new(),
            serving: BTreeSet::new(),
            ending_later: BTreeSet::new(),
        }
    }

    pub(crate) fn add_keeper(&mut self) -> ProcId {
        let keeper = self.add_process(None);
        self.keeper = Some(keeper);
        keeper
    }

    /// What a new process is told of the dead.
    pub(crate) fn heirs(&self) -> Heirs {
        Heirs::new(self.heirs.iter().copied(), self.heirs.len() as u16)
    }

    /// The keeper knows what a dead process has left: its leases end, and with them the workers that do not answer calls of its.
    fn on_settled(&mut self, env: &mut Env, of: ProcId, serving: Vec<ProcId>) {
        if self.unsettled.remove(&of) {
            self.serving.extend(serving.into_iter().filter(|worker| self.procs.contains_key(worker)));
            self.schedule(env, scheduler::Event::OwnerDied(of));
        }
    }

    fn on_served(&mut self, env: &mut Env, worker: ProcId) {
        self.serving.remove(&worker);
        if self.ending_later.remove(&worker) {
            self.end_worker(env, worker, false);
        }
    }

    fn watch_actor(&mut self, env: &mut Env, actor: ActorId, by: ProcId) {
        let view = self.actors.view(actor);
        if !matches!(view.state, ActorState::Dead(_)) {
            self.watchers.entry(actor).or_default().insert(by);
        }
        self.meet_actor(&view, by);
        self.tell(env, by, FromNode::Actor { actor, news: news_of(&view), incarnation: view.incarnation });
    }

    /// Whoever is told where an actor is may call it.
    fn meet_actor(&mut self, view: &ActorView, by: ProcId) {
        if let ActorState::Alive { worker } = view.state {
            self.meet(worker, by);
        }
    }

    /// Each of the two hears of the other's death.
    fn meet(&mut self, one: ProcId, other: ProcId) {
        if self.procs.contains_key(&one) && self.procs.contains_key(&other) {
            self.met.insert((one.min(other), one.max(other)));
        }
    }

    /// A process of this node; slots are used again, with another epoch.
    pub(crate) fn add_process(&mut self, job: Option<JobId>) -> ProcId {
        let slot = (0..).find(|slot| self.procs.keys().all(|other| other.slot() != *slot)).expect("a free slot");
        let at = usize::from(slot);
        self.epochs.resize(self.epochs.len().max(at + 1), 0);
        self.epochs[at] += 1;
        let process = ProcId::new(self.index as u32 + 1, slot, self.epochs[at]);
        self.procs.insert(process, job);
        process
    }

    pub(crate) fn on_message(&mut self, env: &mut Env, who: ProcId, message: ToNode) {
        let lease = |number| LeaseId { owner: who, number };
        match message {
            ToNode::RequestLease { number, need } => {
                let event = scheduler::Event::LeaseRequested {
                    lease: lease(number),
                    job: JobId([0; 4]),
                    kind: LeaseKind::Tasks,
                    need,
                };
                self.schedule(env, event);
            }
            ToNode::ReturnLease { number } => self.schedule(env, scheduler::Event::LeaseReturned(lease(number))),
            ToNode::Blocked(true) => self.schedule(env, scheduler::Event::WorkerBlocked(who)),
            ToNode::Blocked(false) => self.schedule(env, scheduler::Event::WorkerUnblocked(who)),
            ToNode::CreateActor(creation) => {
                self.creators.insert(creation.actor, who);
                self.watchers.entry(creation.actor).or_default().insert(who);
                self.act(env, control::Event::CreateRequested(*creation));
            }
            ToNode::KillActor { actor, no_restart } => {
                self.act(env, control::Event::KillRequested { actor, no_restart });
            }
            ToNode::OutOfScope(actor) => self.act(env, control::Event::OutOfScope(actor)),
            ToNode::Met(name) if self.procs.contains_key(&name) => self.meet(who, name),
            ToNode::Met(name) => {
                if !self.heirs.iter().any(|(dead, _)| *dead == name) {
                    let exit = WorkerExit::Unknown;
                    self.tell(env, who, FromNode::PeerDied { peer: name, exit, heir: None });
                }
            }
            ToNode::Relay { to, message } if self.procs.contains_key(&to) => {
                self.meet(who, to);
                self.tell(env, to, FromNode::Relay { from: who, message });
            }
            ToNode::Relay { to, message } => self.tell(env, who, FromNode::Undeliverable { to, message }),
            ToNode::CreateGroup { group, options } => self.create_group(env, who, group, *options),
            ToNode::RemoveGroup(group) => self.group_changed(env, GroupEvent::RemoveRequested(group)),
            ToNode::WatchGroup(group) => self.watch_group(env, who, group),
            ToNode::WatchActor(actor) => self.watch_actor(env, actor, who),
            ToNode::Settled { of, serving } => self.on_settled(env, of, serving),
            ToNode::Served(worker) => self.on_served(env, worker),
            ToNode::Built(actor) => self.act(env, control::Event::Built { actor, worker: who }),
            ToNode::BuildFailed(actor) => {
                self.act(env, control::Event::BuildFailed { actor, worker: who, error: [1].into() });
            }
            ToNode::Leaving => self.act(env, control::Event::Leaving { worker: who }),
        }
    }

    /// A process is dead: everyone who may care is told.
    pub(crate) fn process_died(&mut self, env: &mut Env, dead: ProcId, exit: WorkerExit) {
        let Some(job) = self.procs.remove(&dead) else { return };
        let exit = if self.ending.remove(&dead) { WorkerExit::Intended("ended".into()) } else { exit };
        let heir = self.keeper.filter(|_| env.journals.contains_key(&(self.index, dead)));
        env.memories[self.index].died(dead, self.keeper, self.procs.keys().copied());
        if let Some(keeper) = heir {
            env.counts.estates += 1;
            self.heirs.push((dead, keeper));
            self.unsettled.insert(dead);
            let witnesses = self.procs.keys().copied().filter(|process| *process != keeper).collect();
            self.tell(env, keeper, FromNode::Inherit { of: dead, witnesses });
        }
        // Those who left something are counted by all, and the keeper waits for every death.
        let is_for_all = heir.is_some() || job.is_some();
        let must_hear = |other: &&ProcId| {
            is_for_all || self.keeper == Some(**other) || self.met.contains(&(dead.min(**other), dead.max(**other)))
        };
        for other in self.procs.keys().filter(must_hear) {
            env.tell_process((self.index, *other), FromNode::PeerDied { peer: dead, exit: exit.clone(), heir });
        }
        self.met.retain(|(one, other)| *one != dead && *other != dead);
        self.schedule(env, scheduler::Event::WorkerDied(dead));
        if heir.is_none() {
            self.schedule(env, scheduler::Event::OwnerDied(dead));
        }
        self.serving.remove(&dead);
        self.ending_later.remove(&dead);
        if let Some(job) = job {
            self.act(env, control::Event::JobEnded(job));
            self.group_changed(env, GroupEvent::JobEnded(job));
        }
        self.act(env, control::Event::ProcessDied { process: dead, exit });
        self.watchers.values_mut().for_each(|watchers| watchers.retain(|watcher| *watcher != dead));
    }

    pub(crate) fn on_tick(&mut self, env: &mut Env) {
        self.tick_at = None;
        self.act(env, control::Event::Tick);
        self.schedule(env, scheduler::Event::Tick);
    }

    pub(crate) fn schedule(&mut self, env: &mut Env, event: scheduler::Event) {
        let mut effects = Vec::new();
        self.scheduler.step(env.now, event, &mut effects);
        for effect in effects {
            self.on_scheduled(env, effect);
        }
        self.plan_tick(env);
    }

    fn plan_tick(&mut self, env: &mut Env) {
        if let Some(at) = self.scheduler.next_tick(env.now).into_iter().chain(self.actors.next_tick()).min()
            && self.tick_at.is_none_or(|planned| at < planned)
        {
            self.tick_at = Some(at);
            env.queue.at(at, Item::NodeTick { node: self.index });
        }
    }

    fn on_scheduled(&mut self, env: &mut Env, effect: scheduler::Effect) {
        match effect {
            scheduler::Effect::StartWorker => {
                let is_up = !(env.has_faults() && env.rng.chance(env.settings.start_fails));
                env.counts.not_started += u64::from(!is_up);
                let us = env.rng.between(2_000, 8_000);
                env.later(us, Item::Forked { node: self.index, is_up });
            }
            scheduler::Effect::Granted { lease, worker, grant: _ } => match self.actor_leases.get(&lease).copied() {
                Some((actor, incarnation)) => self.act(env, control::Event::Placed { actor, incarnation, worker }),
                None => {
                    self.meet(lease.owner, worker);
                    self.tell(env, lease.owner, FromNode::Granted { number: lease.number, worker });
                }
            },
            scheduler::Effect::Revoke(lease) => {
                self.tell(env, lease.owner, FromNode::Revoke { number: lease.number });
            }
            scheduler::Effect::EndWorker(worker) if self.serving.contains(&worker) => {
                self.ending_later.insert(worker);
            }
            scheduler::Effect::EndWorker(worker) => self.end_worker(env, worker, false),
            scheduler::Effect::Infeasible(lease) => env.oracle.fail(format!("{lease:?} is infeasible")),
            scheduler::Effect::GroupPlaced(group) => self.group_changed(env, GroupEvent::Placed(group)),
            scheduler::Effect::GroupInfeasible(group) => env.oracle.fail(format!("{group:?} is infeasible")),
            scheduler::Effect::Refused(lease) => {
                self.tell(env, lease.owner, FromNode::LeaseRefused { number: lease.number });
            }
            scheduler::Effect::KillWorker(worker) => self.end_worker(env, worker, false),
        }
    }

    fn act(&mut self, env: &mut Env, event: control::Event) {
        let mut effects = Vec::new();
        self.actors.step(env.now, event, &mut effects);
        for effect in effects {
            self.on_acted(env, effect);
        }
        self.plan_tick(env);
    }

    fn on_acted(&mut self, env: &mut Env, effect: control::Effect) {
        match effect {
            control::Effect::Answer { request, answer } => {
                if let Some(creator) = self.creators.remove(&request) {
                    self.tell(env, creator, FromNode::ActorAnswer { request, answer });
                }
            }
            control::Effect::Place { actor, incarnation } => self.place_actor(env, actor, incarnation),
            control::Effect::Unplace { actor, incarnation } => {
                let is_it =
                    |(lease, life): (&LeaseId, &(ActorId, u32))| (*life == (actor, incarnation)).then_some(*lease);
                if let Some(lease) = self.actor_leases.iter().find_map(is_it) {
                    self.actor_leases.remove(&lease);
                    self.schedule(env, scheduler::Event::LeaseCancelled(lease));
                }
            }
            control::Effect::Build { actor, worker } => self.tell(env, worker, FromNode::BuildActor { actor }),
            control::Effect::Publish(view) => self.publish(env, &view),
            control::Effect::EndWorker { worker, gracefully } => self.end_worker(env, worker, gracefully),
        }
    }

    fn place_actor(&mut self, env: &mut Env, actor: ActorId, incarnation: u32) {
        let Some(record) = self.actors.get(actor) else { return };
        let (owner, job, need) = (record.creation.owner, record.creation.job, record.creation.options.need.clone());
        self.actor_lease_next += 1;
        let lease = LeaseId { owner, number: (1 << 63) | self.actor_lease_next };
        self.actor_leases.retain(|_, life| life.0 != actor);
        self.actor_leases.insert(lease, (actor, incarnation));
        self.schedule(env, scheduler::Event::LeaseRequested { lease, job, kind: LeaseKind::Actor, need });
    }

    fn publish(&mut self, env: &mut Env, view: &ActorView) {
        let (actor, incarnation, news) = (view.actor, view.incarnation, news_of(view));
        for watcher in self.watchers.get(&actor).cloned().into_iter().flatten() {
            self.meet_actor(view, watcher);
        }
        for watcher in self.watchers.get(&actor).into_iter().flatten() {
            self.tell(env, *watcher, FromNode::Actor { actor, news: news.clone(), incarnation });
        }
        if matches!(view.state, ActorState::Dead(_)) {
            self.watchers.remove(&actor);
            self.actor_leases.retain(|_, life| life.0 != actor);
        }
    }

    fn end_worker(&mut self, env: &mut Env, worker: ProcId, gracefully: bool) {
        if !self.procs.contains_key(&worker) {
            return;
        }
        self.ending.insert(worker);
        let process: Pid = (self.index, worker);
        // Whoever called it may hear that it is dead, and let go, before it is.
        env.oracle.died(process);
        let exit = WorkerExit::Signal(9, model::Remains::default());
        if gracefully {
            self.tell(env, worker, FromNode::Exit);
            env.later(GRACE_MS * 1_000, Item::Kill { process, exit });
        } else {
            env.later(100, Item::Kill { process, exit });
        }
    }

    /// The job of a driver that is not known to be dead.
    pub(crate) fn job_of(&self, process: ProcId) -> Option<Option<JobId>> {
        self.procs.get(&process).copied()
    }

    pub(crate) fn tell(&self, env: &mut Env, to: ProcId, message: FromNode) {
        if self.procs.contains_key(&to) {
            env.tell_process((self.index, to), message);
        }
    }
}

fn news_of(view: &ActorView) -> ActorNews {
    match &view.state {
        ActorState::Pending => ActorNews::Pending,
        ActorState::Alive { worker } => ActorNews::Alive(*worker),
        ActorState::Restarting => ActorNews::Restarting,
        ActorState::Dead(death) => ActorNews::Dead(death.clone()),
    }
}
