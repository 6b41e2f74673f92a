//! Random events, with repeats and late ones: the invariants hold after each, nobody is answered twice,
//! and once faults stop everything that fits runs.

mod story;

use std::collections::{BTreeMap, BTreeSet};

use model::{GroupId, JobId, LeaseId, Need, ProcId, Resources, Seat, Tick, Where};
use proptest::prelude::*;
use scheduler::{Effect, Event, LeaseKind, Options, Scheduler, WaitReason};
use story::{cpus, options, with};

#[derive(Clone, Debug)]
enum Move {
    Request {
        owner: u16,
        number: u64,
        need: usize,
        is_actor: bool,
        seat: Option<(u8, Option<u16>)>,
    },
    Group {
        number: u8,
        bundles: usize,
        is_apart: bool,
    },
    RemoveGroup(u8),
    /// Bundles of a group of which others lie elsewhere.
    Prepare {
        number: u8,
        bundles: usize,
        first: u16,
        within_ms: u64,
    },
    Commit(u8),
    Abort(u8),
    Pressure(bool),
    Cancel {
        owner: u16,
        number: u64,
    },
    Return {
        owner: u16,
        number: u64,
    },
    Ready,
    ReadyAgain(usize),
    NotStarted,
    Die(usize),
    Block(usize),
    Unblock(usize),
    OwnerDied(u16),
    Wait(u64),
}

fn moves() -> impl Strategy<Value = Move> {
    let (owner, number) = (0..4_u16, 0..6_u64);
    prop_oneof![
        8 => (owner.clone(), number.clone(), 0..needs().len(), prop::bool::weighted(0.2), seats())
            .prop_map(|(owner, number, need, is_actor, seat)| Move::Request { owner, number, need, is_actor, seat }),
        2 => (0..3_u8, 0..bundles().len(), prop::bool::weighted(0.1))
            .prop_map(|(number, bundles, is_apart)| Move::Group { number, bundles, is_apart }),
        1 => (0..3_u8).prop_map(Move::RemoveGroup),
        2 => (0..3_u8, 0..bundles().len(), 0..2_u16, prop_oneof![Just(0), 0..100_u64])
            .prop_map(|(number, bundles, first, within_ms)| Move::Prepare { number, bundles, first, within_ms }),
        2 => (0..3_u8).prop_map(Move::Commit),
        1 => (0..3_u8).prop_map(Move::Abort),
        1 => any::<bool>().prop_map(Move::Pressure),
        1 => (owner.clone(), number.clone()).prop_map(|(owner, number)| Move::Cancel { owner, number }),
        5 => (owner.clone(), number).prop_map(|(owner, number)| Move::Return { owner, number }),
        6 => Just(Move::Ready),
        1 => (0..8_usize).prop_map(Move::ReadyAgain),
        1 => Just(Move::NotStarted),
        2 => (0..8_usize).prop_map(Move::Die),
        3 => (0..8_usize).prop_map(Move::Block),
        2 => (0..8_usize).prop_map(Move::Unblock),
        1 => owner.prop_map(Move::OwnerDied),
        3 => (0..3_000_u64).prop_map(Move::Wait),
    ]
}

/// Most leases are in no group; others in one bundle, or in any.
fn seats() -> impl Strategy<Value = Option<(u8, Option<u16>)>> {
    let seat = (0..3_u8, prop::option::of(0..3_u16));
    prop::option::weighted(0.4, seat)
}

fn bundles() -> Vec<Vec<Resources>> {
    vec![
        vec![cpus(1)],
        vec![cpus(1), cpus(1)],
        vec![cpus(2)],
        vec![with(cpus(1), "GPU", 10_000), with(cpus(0), "GPU", 5_000)],
        vec![with(cpus(0), "licence", 6_000), cpus(1)],
        vec![cpus(2), cpus(1)],
    ]
}

fn needs() -> Vec<Need> {
    vec![
        Need::same(cpus(1)),
        Need::same(cpus(2)),
        Need::same(cpus(0)),
        Need { to_place: cpus(1), ..Need::same(cpus(0)) },
        Need::same(with(cpus(1), "GPU", 10_000)),
        Need::same(with(cpus(0), "GPU", 20_000)),
        Need::same(with(cpus(0), "GPU", 4_000)),
        Need::same(with(cpus(0), "licence", 6_000)),
        Need::same(cpus(99)),
    ]
}

/// The node's surroundings: who lives, who was told what.
struct World {
    scheduler: Scheduler,
    prestart: u32,
    now: Tick,
    epochs: BTreeMap<u16, u32>,
    workers: Vec<ProcId>,
    started: u16,
    starting: u32,
    blocked: BTreeSet<ProcId>,
    ending: BTreeSet<ProcId>,
    live: BTreeMap<LeaseId, Told>,
    given_back: BTreeSet<LeaseId>,
    /// How often each number was used for a group that is no more.
    groups: [u8; 3],
    placed: BTreeSet<GroupId>,
    /// Those that were asked for as a whole.
    asked: BTreeSet<GroupId>,
    /// Attempts without an answer, and groups of which some was prepared.
    open: BTreeMap<GroupId, u32>,
    prepared: BTreeSet<GroupId>,
    attempt: u32,
}

#[derive(Default)]
struct Told {
    worker: Option<ProcId>,
    revoked: bool,
    infeasible: bool,
}

impl World {
    fn new(prestart: u32, workers_max: u32, starts_max: u32) -> Self {
        let total = with(with(cpus(2), "GPU", 20_000), "licence", 10_000);
        let options = Options { prestart, workers_max, starts_max, ..options(total) };
        Self {
            scheduler: Scheduler::new(options),
            prestart,
            now: Tick(0),
            epochs: BTreeMap::new(),
            workers: Vec::new(),
            started: 0,
            starting: 0,
            blocked: BTreeSet::new(),
            ending: BTreeSet::new(),
            live: BTreeMap::new(),
            given_back: BTreeSet::new(),
            groups: [0; 3],
            placed: BTreeSet::new(),
            asked: BTreeSet::new(),
            open: BTreeMap::new(),
            prepared: BTreeSet::new(),
            attempt: 0,
        }
    }

    fn lease(&self, owner: u16, number: u64) -> LeaseId {
        let slot = 1_000 + owner;
        LeaseId { owner: ProcId::new(1, slot, self.epochs.get(&slot).copied().unwrap_or(0)), number }
    }

    fn group(&self, number: u8) -> GroupId {
        let mut id = [number; 18];
        id[0] = self.groups[usize::from(number)];
        GroupId(id)
    }

    fn worker(&self, pick: usize) -> ProcId {
        self.workers.get(pick % self.workers.len().max(1)).copied().unwrap_or(ProcId::new(1, 999, 0))
    }

    fn play(&mut self, play: Move) {
        match play {
            Move::Group { number, bundles: which, is_apart } => {
                let bundles = bundles()[which].clone();
                let group = self.group(number);
                if !self.open.contains_key(&group) && !self.prepared.contains(&group) {
                    self.asked.insert(group);
                    self.step(Event::GroupRequested { group, bundles, is_apart });
                }
            }
            Move::Pressure(is_low) => self.step(Event::Pressure { is_low }),
            Move::Prepare { number, bundles: which, first, within_ms } => {
                let group = self.group(number);
                // A group is of one kind or the other, and a bundle lies in one place.
                let of_this = |(other, ..): (GroupId, u16, Resources)| other == group;
                if self.placed.contains(&group) || self.asked.contains(&group) || self.scheduler.bundles().any(of_this)
                {
                    return;
                }
                let bundles = (first..).zip(bundles()[which].clone()).collect();
                let until = self.now.plus_ms(within_ms);
                self.attempt += 1;
                self.open.insert(group, self.attempt);
                self.step(Event::GroupPart { group, attempt: self.attempt, bundles, until });
            }
            Move::Commit(number) => self.step(Event::GroupCommitted(self.group(number))),
            Move::Abort(number) => {
                self.open.remove(&self.group(number));
                self.step(Event::GroupAborted(self.group(number)));
            }
            Move::RemoveGroup(number) => {
                let group = self.group(number);
                self.step(Event::GroupRemoved(group));
                self.step(Event::GroupRemoved(group));
                self.groups[usize::from(number)] += 1;
            }
            Move::Request { owner, number, need, is_actor, seat } => {
                let lease = self.lease(owner, number);
                if !self.given_back.contains(&lease) {
                    self.live.entry(lease).or_default();
                }
                let kind = if is_actor { LeaseKind::Actor } else { LeaseKind::Tasks };
                let mut need = needs()[need].clone();
                if let Some((group, bundle)) = seat {
                    need.at = Where::Bundle(Seat { group: self.group(group), bundle, captures: false });
                }
                self.step(Event::LeaseRequested { lease, job: JobId([0; 4]), kind, need });
            }
            Move::Cancel { owner, number } => {
                let lease = self.lease(owner, number);
                self.give_back(lease);
                self.step(Event::LeaseCancelled(lease));
            }
            Move::Return { owner, number } => {
                let lease = self.lease(owner, number);
                self.give_back(lease);
                self.step(Event::LeaseReturned(lease));
            }
            Move::Ready if self.starting > 0 => {
                self.starting -= 1;
                self.started += 1;
                let worker = ProcId::new(1, self.started, 0);
                self.workers.push(worker);
                self.step(Event::WorkerReady(worker));
            }
            Move::NotStarted if self.starting > 0 => {
                self.starting -= 1;
                self.step(Event::WorkerNotStarted);
            }
            Move::Ready | Move::NotStarted => {}
            Move::ReadyAgain(pick) if !self.workers.is_empty() => self.step(Event::WorkerReady(self.worker(pick))),
            Move::ReadyAgain(_) => {}
            Move::Die(pick) => self.die(self.worker(pick)),
            Move::Block(pick) => {
                self.blocked.insert(self.worker(pick));
                self.step(Event::WorkerBlocked(self.worker(pick)));
            }
            Move::Unblock(pick) => self.step(Event::WorkerUnblocked(self.worker(pick))),
            Move::OwnerDied(owner) => {
                let process = self.lease(owner, 0).owner;
                self.epochs.insert(process.slot(), process.epoch() + 1);
                self.step(Event::OwnerDied(process));
            }
            Move::Wait(ms) => {
                self.now = self.now.plus_ms(ms);
                self.step(Event::Tick);
            }
        }
    }

    fn give_back(&mut self, lease: LeaseId) {
        self.live.remove(&lease);
        self.given_back.insert(lease);
    }

    fn die(&mut self, worker: ProcId) {
        self.workers.retain(|other| *other != worker);
        self.live.values_mut().filter(|told| told.worker == Some(worker)).for_each(|told| *told = Told::default());
        self.step(Event::WorkerDied(worker));
    }

    fn step(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.scheduler.step(self.now, event, &mut effects);
        self.scheduler.check_invariants();
        for effect in effects {
            self.hear(effect);
        }
    }

    fn hear(&mut self, effect: Effect) {
        match effect {
            Effect::StartWorker => {
                self.starting += 1;
                let lacks_worker = |reason| matches!(reason, WaitReason::NoWorker | WaitReason::NoMoreWorkers);
                let lacking = self.scheduler.waiting().filter(|wait| lacks_worker(wait.reason)).count();
                let spare = (self.prestart as usize).saturating_sub(self.scheduler.idle_count());
                assert!(self.starting as usize <= lacking + spare, "SCHED-6: too many are on their way");
            }
            Effect::Granted { lease, worker, .. } => {
                assert!(!self.given_back.contains(&lease), "SCHED-2: {lease:?} was given back");
                assert!(self.workers.contains(&worker), "SCHED-2: {worker} is dead");
                let told = self.live.entry(lease).or_default();
                assert!(told.worker.is_none_or(|first| first == worker), "SCHED-2: {lease:?} has two workers");
                told.worker = Some(worker);
            }
            Effect::Revoke(lease) => {
                let told = self.live.entry(lease).or_default();
                assert!(told.worker.is_some() && !told.revoked, "{lease:?} is asked for twice, or not granted");
                told.revoked = true;
            }
            Effect::Infeasible(lease) => {
                let told = self.live.entry(lease).or_default();
                assert!(!told.infeasible, "{lease:?} is said to be infeasible twice");
                told.infeasible = true;
            }
            Effect::Refused(lease) => self.give_back(lease),
            Effect::GroupPlaced(group) => {
                self.placed.insert(group);
            }
            Effect::GroupPrepared { group, attempt, .. } => {
                // The one before may have ended just now, when it was too late.
                assert!(self.open.get(&group).is_none_or(|open| attempt <= *open), "an answer to nothing");
                self.prepared.insert(group);
                self.open.remove(&group);
            }
            Effect::GroupInfeasible(group) => assert!(!self.placed.contains(&group), "SCHED-8: {group} was placed"),
            Effect::KillWorker(worker) => {
                assert!(self.workers.contains(&worker), "{worker} is dead already");
                self.ending.insert(worker);
            }
            Effect::EndWorker(worker) => {
                assert!(self.workers.contains(&worker), "{worker} is dead already");
                assert!(self.ending.insert(worker), "{worker} is ended twice");
            }
        }
    }

    /// Faults stop, time goes on, owners give back what they get: in the end nothing waits that could run.
    fn settle(&mut self) {
        self.play(Move::Pressure(false));
        for number in 0..3 {
            self.play(Move::RemoveGroup(number));
        }
        for _ in 0..2_000 {
            for worker in std::mem::take(&mut self.blocked) {
                self.step(Event::WorkerUnblocked(worker));
            }
            while self.starting > 0 {
                self.play(Move::Ready);
            }
            let granted: Vec<_> = self.scheduler.granted().collect();
            for (lease, _) in granted {
                self.give_back(lease);
                self.step(Event::LeaseReturned(lease));
            }
            let ending: Vec<_> = self.ending.intersection(&self.workers.iter().copied().collect()).copied().collect();
            for worker in ending {
                self.die(worker);
            }
            match self.scheduler.next_tick(self.now) {
                Some(at) => self.now = at,
                None if self.starting == 0 && self.scheduler.granted().next().is_none() => break,
                None => {}
            }
            self.step(Event::Tick);
        }
        for worker in self.workers.clone() {
            self.die(worker);
        }
        let stuck: Vec<_> = self.scheduler.waiting().filter(|wait| wait.reason != WaitReason::Infeasible).collect();
        assert!(stuck.is_empty(), "could run, but waits: {stuck:?}");
        assert_eq!(self.scheduler.available(), self.scheduler.total(), "SCHED-1: at rest all is free");
        assert_ne!(self.scheduler.total(), Resources::default());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_and_nothing_is_stuck(
        prestart in 0..3_u32,
        workers_max in 1..8_u32,
        starts_max in 1..4_u32,
        plays in prop::collection::vec(moves(), 1..150),
    ) {
        let mut world = World::new(prestart, workers_max, starts_max);
        for play in plays {
            world.play(play);
        }
        world.settle();
    }
}
