//! A node for stories, with a body that writes down what it is told and answers what the story says.

#![allow(dead_code, reason = "each story uses its part")]

use std::collections::{BTreeMap, BTreeSet};

use hub::links::Level;
use hub::{Asker, Body, Dead, Door, Hub, Kind, Listening, NoRoom, Options, Past, Step, StoreUse};
use model::{
    ActorId, ActorOptions, FunctionId, JobId, Lifetime, Need, NodeId, ProcId, Resources, Tick, Where, WorkerExit,
};
use wire::abroad::{Between, Death, Membership};
use wire::control::{Answer, FromNodeOf, Question, Rings, ToNodeOf};
use wire::members::NodeInfo;

/// What processes say to each other in stories.
pub(crate) type Letter = u32;
pub(crate) type FromNode = FromNodeOf<Letter>;
pub(crate) type ToNode = ToNodeOf<Letter>;

/// Bytes of the arena.
pub(crate) const ROOM: u64 = 1_000;
pub(crate) const GRACE_MS: u64 = 500;

/// What was said, done and kept.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) told: Vec<(ProcId, FromNode)>,
    pub(crate) answers: Vec<(Door, u64, Answer)>,
    pub(crate) hung_up: Vec<Door>,
    /// Doors at which nobody reads.
    pub(crate) is_behind: BTreeSet<Door>,
    pub(crate) starting: Vec<ProcId>,
    pub(crate) killed: Vec<ProcId>,
    pub(crate) dead: Vec<ProcId>,
    pub(crate) buried: Vec<ProcId>,
    pub(crate) reset: Vec<u32>,
    pub(crate) keepers: Vec<(ProcId, Past)>,
    /// Processes that have recorded something.
    pub(crate) with_records: BTreeSet<ProcId>,
    pub(crate) needed: BTreeSet<ProcId>,
    pub(crate) extents: BTreeMap<ProcId, u64>,
    pub(crate) files: BTreeMap<FunctionId, Vec<u8>>,
    /// Nothing can be forked.
    pub(crate) cannot_fork: bool,
    /// What was said to other nodes, and of which deaths which of them were told.
    pub(crate) sent: Vec<(u32, Between<Letter>)>,
    pub(crate) deaths_sent: Vec<(ProcId, Vec<u32>)>,
    /// What was asked of the carrier.
    pub(crate) carrier_links: Vec<(ProcId, ProcId)>,
    pub(crate) flushes: Vec<u64>,
    pub(crate) reaches: Vec<(u64, Vec<(u32, u64)>)>,
    /// Nodes with which sessions were begun and ended, and why this one was told to end.
    pub(crate) met: Vec<u32>,
    pub(crate) parted: Vec<u32>,
    /// Nodes that were named as known, and what was said of processes that died and what they left.
    pub(crate) known: Vec<u32>,
    pub(crate) deaths: Vec<(ProcId, Option<ProcId>)>,
    pub(crate) settled: Vec<ProcId>,
    pub(crate) left: Option<String>,
}

impl Fake {
    fn used(&self) -> u64 {
        self.extents.values().sum()
    }
}

impl Body for Fake {
    type Letter = Letter;

    fn tell(&mut self, to: ProcId, message: FromNode) {
        assert!(!self.dead.contains(&to), "a dead process is told {message:?}");
        self.told.push((to, message));
    }

    fn answer(&mut self, to: Door, request: u64, answer: Answer) {
        self.answers.push((to, request, answer));
    }

    fn listening(&self, at: Door) -> Listening {
        if self.hung_up.contains(&at) {
            return Listening::Gone;
        }
        if self.is_behind.contains(&at) { Listening::IsBehind } else { Listening::Keeps }
    }

    fn hang_up(&mut self, at: Door) {
        self.hung_up.push(at);
    }

    fn logs_taken(&mut self, _: ProcId, _: u64) {}

    fn last_words_wanted(&mut self, _: ProcId, _: JobId, _: Vec<ProcId>) {}

    fn stop(&mut self) {}

    fn enter(&mut self, _: ProcId, _: i32) {}

    fn start_worker(&mut self, who: ProcId) -> Result<(), Box<str>> {
        if self.cannot_fork {
            return Err("no more processes".into());
        }
        self.starting.push(who);
        Ok(())
    }

    fn start_keeper(&mut self, who: ProcId, past: Past) -> bool {
        self.keepers.push((who, past));
        true
    }

    fn kill(&mut self, who: ProcId, _: i32) {
        self.killed.push(who);
    }

    fn is_needed(&self, who: ProcId) -> bool {
        self.needed.contains(&who)
    }

    fn assigned(&mut self, _: ProcId) {}

    fn label(&self, _: ProcId) -> Box<str> {
        "f".into()
    }

    fn last_errors(&self, _: ProcId) -> String {
        "its last line".into()
    }

    fn own_bytes(&self, _: i32) -> u64 {
        1
    }

    fn died(&mut self, dead: Dead) {
        self.dead.push(dead.id);
    }

    fn has_left(&self, dead: ProcId) -> bool {
        self.with_records.contains(&dead)
    }

    fn bury(&mut self, dead: ProcId) {
        assert!(self.dead.contains(&dead) && !self.buried.contains(&dead), "NODE-1: {dead} is buried once, and dead");
        self.extents.remove(&dead);
        self.buried.push(dead);
    }

    fn level(&self, _: u32) -> Level {
        Level { tail: 0, head: 0 }
    }

    fn reset_ring(&mut self, ring: u32) {
        self.reset.push(ring);
    }

    fn grant(&mut self, to: ProcId, length: u64) -> Result<(u64, u64), NoRoom> {
        assert!(!self.dead.contains(&to), "nobody would give back what the dead {to} is given");
        if length > ROOM {
            return Err(NoRoom::TooLarge);
        }
        let used = self.used();
        if used + length > ROOM {
            return Err(NoRoom::Full);
        }
        *self.extents.entry(to).or_default() += length;
        Ok((used, length))
    }

    fn take_back(&mut self, from: ProcId, _: u64, length: u64) {
        if let Some(held) = self.extents.get_mut(&from) {
            *held = held.saturating_sub(length);
        }
    }

    fn sweep(&mut self) {}

    fn store(&self) -> StoreUse {
        StoreUse { capacity: ROOM, used: self.used(), free: ROOM - self.used(), orphaned: 0, ..StoreUse::default() }
    }

    fn files(&self) -> (u64, u64) {
        (0, 0)
    }

    fn file_function(&mut self, function: FunctionId, bytes: &[u8]) -> bool {
        self.files.insert(function, bytes.to_vec());
        true
    }

    fn filed_function(&self, function: FunctionId) -> Option<Vec<u8>> {
        self.files.get(&function).cloned()
    }

    fn remove_function(&mut self, function: FunctionId) {
        self.files.remove(&function);
    }

    fn send(&mut self, node: u32, message: Between<Letter>) {
        self.sent.push((node, message));
    }

    fn tell_nodes(&mut self, death: Death, nodes: &[u32]) {
        self.deaths_sent.push((death.peer, nodes.to_vec()));
    }

    fn linked(&mut self, here: ProcId, there: ProcId, _: Rings) {
        self.carrier_links.push((here, there));
    }

    fn flush(&mut self, ticket: u64) {
        self.flushes.push(ticket);
    }

    fn reach(&mut self, ticket: u64, positions: &[(u32, u64)]) {
        self.reaches.push((ticket, positions.to_vec()));
    }

    fn meet(&mut self, node: &NodeInfo) {
        self.met.push(node.number);
    }

    fn known(&mut self, node: &NodeInfo) {
        self.known.push(node.number);
    }

    fn process_died(&mut self, peer: ProcId, heir: Option<ProcId>) {
        self.deaths.push((peer, heir));
    }

    fn settled_here(&mut self, of: ProcId) {
        self.settled.push(of);
    }

    fn part(&mut self, node: u32) {
        self.parted.push(node);
    }

    fn left_cluster(&mut self, why: &str) {
        self.left = Some(why.into());
    }
}

/// The node of a story.
pub(crate) struct Node {
    pub(crate) hub: Hub<Fake>,
    pub(crate) body: Fake,
    pub(crate) now: Tick,
}

pub(crate) fn killed() -> WorkerExit {
    WorkerExit::Signal(9, model::Remains::default())
}

pub(crate) fn one_cpu() -> Need {
    Need::same(Resources::cpus(1))
}

pub(crate) fn door_of(who: ProcId) -> Door {
    usize::from(who.slot())
}

/// A node as it presents itself.
pub(crate) fn info(number: u32, cpus: i64) -> NodeInfo {
    NodeInfo {
        number,
        life: 7,
        id: NodeId([number as u8; 28]),
        addresses: Vec::new(),
        name: format!("host{number}").into(),
        pid: 1,
        is_guest: cpus == 0,
        total: Resources::cpus(cpus),
        labels: Vec::new(),
    }
}

impl Node {
    pub(crate) fn with_cpus(cpus: i64) -> Self {
        Self::numbered(1, cpus)
    }

    /// The head, and these others, which have some CPUs.
    pub(crate) fn head(cpus: i64, others: &[(u32, i64)]) -> Self {
        let mut node = Self::numbered(1, cpus);
        node.hub.found(info(1, cpus));
        for (number, cpus) in others {
            node.hears(*number, Between::Enters(Box::new(info(*number, *cpus))));
            for (other, _) in others.iter().filter(|(other, _)| other < number) {
                node.hears(*other, Between::Knows { node: *number, heirs: Vec::new() });
            }
        }
        node.sent();
        node
    }

    /// A member of a cluster with this head and these others.
    pub(crate) fn member(number: u32, cpus: i64, others: &[u32]) -> Self {
        let mut node = Self::numbered(number, cpus);
        node.step(|hub, step| hub.enter(step, info(number, cpus), info(1, 2)));
        let nodes = [1].iter().chain(others).map(|other| info(*other, 2)).collect();
        node.hears(1, Between::Members(Box::new(Membership { nodes, heirs: Vec::new(), jobs_above: 1_000 })));
        node.sent();
        node
    }

    pub(crate) fn numbered(number: u32, cpus: i64) -> Self {
        let hub = Hub::new(Options {
            number,
            id: NodeId([number as u8; 28]),
            pid: 1,
            total: Resources::cpus(cpus),
            gpu_names: Vec::new(),
            procs_max: 60,
            workers_max: 30,
            starts_max: 8,
            prestart: 0,
            idle_ms_max: 10_000,
            rings_max: 4_000,
            link_idle_ms_max: 60_000,
            grace_ms_max: GRACE_MS,
        });
        Self { hub, body: Fake::default(), now: Tick(0) }
    }

    pub(crate) fn step<R>(&mut self, step: impl FnOnce(&mut Hub<Fake>, &mut Step<'_, Fake>) -> R) -> R {
        let result = step(&mut self.hub, &mut Step { now: self.now, body: &mut self.body });
        self.hub.check_invariants();
        result
    }

    pub(crate) fn driver(&mut self) -> (ProcId, JobId) {
        let joining =
            self.step(|hub, step| hub.driver_joined(step, 100, "".into(), wire::Surroundings::default(), true));
        let joining = joining.expect("there is room for a driver");
        (joining.id, joining.job)
    }

    /// The worker that was asked for longest ago joins.
    pub(crate) fn worker_joins(&mut self) -> ProcId {
        let worker = self.body.starting.remove(0);
        let pid = 1_000 + i32::from(worker.slot());
        self.step(|hub, step| {
            assert!(hub.worker_forked(step, worker, pid));
            hub.worker_joined(step, worker, pid);
        });
        worker
    }

    pub(crate) fn says(&mut self, who: ProcId, message: ToNode) {
        let from = Asker { door: door_of(who), who: Some(who) };
        self.step(|hub, step| hub.on_message(step, from, message));
    }

    pub(crate) fn asks(&mut self, who: ProcId, request: u64, question: Question) {
        self.says(who, ToNode::Ask { request, question });
    }

    /// A visitor at a door asks.
    pub(crate) fn visitor_asks(&mut self, door: Door, request: u64, question: Question) {
        let from = Asker { door, who: None };
        self.step(|hub, step| hub.on_message(step, from, ToNode::Ask { request, question }));
    }

    pub(crate) fn request_lease(&mut self, who: ProcId, number: u64) {
        self.request_lease_at(who, number, Where::Anywhere);
    }

    pub(crate) fn request_lease_at(&mut self, who: ProcId, number: u64, at: Where) {
        let job = self.hub.proc(who).expect("it lives").job();
        self.says(who, ToNode::RequestLease { number, job, need: Need { at, ..one_cpu() }, name: "f".into() });
    }

    /// A worker that the process has under this number.
    pub(crate) fn lease(&mut self, who: ProcId, number: u64) -> ProcId {
        self.request_lease(who, number);
        if !self.heard(who).iter().any(|message| is_grant(message, number)) {
            self.worker_joins();
        }
        self.granted(who, number).expect("it has its worker")
    }

    pub(crate) fn granted(&self, who: ProcId, number: u64) -> Option<ProcId> {
        self.heard(who).into_iter().rev().find_map(|message| match message {
            FromNode::Granted { number: other, worker, .. } if *other == number => Some(*worker),
            _ => None,
        })
    }

    /// Another node says something.
    pub(crate) fn hears(&mut self, node: u32, message: Between<Letter>) {
        self.step(|hub, step| hub.on_between(step, node, message));
    }

    /// What was said to other nodes since this was last asked.
    pub(crate) fn sent(&mut self) -> Vec<(u32, Between<Letter>)> {
        std::mem::take(&mut self.body.sent)
    }

    pub(crate) fn dies(&mut self, who: ProcId) {
        self.step(|hub, step| hub.process_died(step, who, killed()));
    }

    pub(crate) fn wait_ms(&mut self, ms: u64) {
        let end = self.now.plus_ms(ms);
        while let Some(at) = self.hub.next_deadline(self.now).filter(|at| *at <= end) {
            self.now = at.max(Tick(self.now.0 + 1));
            self.step(|hub, step| hub.on_time(step));
        }
        self.now = end;
    }

    pub(crate) fn heard(&self, who: ProcId) -> Vec<&FromNode> {
        self.body.told.iter().filter(|(to, _)| *to == who).map(|(_, message)| message).collect()
    }

    /// How often a process heard something of this kind.
    pub(crate) fn count(&self, who: ProcId, is_it: impl Fn(&FromNode) -> bool) -> usize {
        self.heard(who).into_iter().filter(|message| is_it(message)).count()
    }

    /// What came of a process's question.
    pub(crate) fn answers_to(&self, who: ProcId, request: u64) -> Vec<&Answer> {
        let told = self.body.told.iter().filter_map(|(to, message)| match message {
            FromNode::Answer { request: other, answer } if *to == who && *other == request => Some(answer),
            _ => None,
        });
        let at = door_of(who);
        let answered = self.body.answers.iter().filter(|(door, other, _)| (*door, *other) == (at, request));
        told.chain(answered.map(|(_, _, answer)| answer)).collect()
    }

    pub(crate) fn is_kind(&self, who: ProcId, kind: &Kind) -> bool {
        self.hub.proc(who).is_some_and(|proc| proc.kind() == kind)
    }
}

pub(crate) fn is_grant(message: &FromNode, number: u64) -> bool {
    matches!(message, FromNode::Granted { number: other, .. } if *other == number)
}

pub(crate) fn is_death_of(message: &FromNode, who: ProcId) -> bool {
    matches!(message, FromNode::PeerDied { peer, .. } if *peer == who)
}

pub(crate) fn actor_options(lifetime: Lifetime, name: &str) -> ActorOptions {
    ActorOptions {
        class_name: "A".into(),
        name: name.into(),
        namespace: "".into(),
        lifetime,
        restarts_max: 0,
        need: Need { to_place: Resources::cpus(1), ..Need::same(Resources::default()) },
        concurrency: 1,
        is_async: false,
    }
}

pub(crate) fn create(actor: u8, job: JobId, lifetime: Lifetime, name: &str) -> ToNode {
    let options = actor_options(lifetime, name);
    ToNode::CreateActor { actor: ActorId([actor; 16]), job, options, get_if_exists: false, spec: vec![actor] }
}
