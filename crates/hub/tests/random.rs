//! Processes that do anything at any time, and answer late: the core's invariants hold after each step, and in the end everyone was answered
//! once and nothing is left.
//!
//! Processes are honest: they say that a link is closed once they were told so or know that the peer is dead, and end when they shall.

mod bench;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bench::{FromNode, Node, ToNode, create, killed, one_cpu};
use hub::Kind;
use model::{ActorId, FunctionId, GroupId, GroupOptions, Lifetime, Need, ProcId, Resources, Seat, Strategy, Where};
use model::{JobId, WorkerExit};
use seeded::SplitMix64;
use wire::control::{Answer, Question, Quiet, Rings};
use wire::status::{Holdings, ProcessState};

const MOVES: usize = 400;
const DRIVERS_MAX: usize = 4;

struct Chance(SplitMix64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        seeded::below(self.0.bits(), count as u64) as usize
    }

    fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.below(of.len())])
    }
}

/// What a process has heard and not read, and what it is about to do.
#[derive(Default)]
struct Mind {
    inbox: VecDeque<FromNode>,
    /// Things that it says later.
    due: VecDeque<ToNode>,
    leases: BTreeSet<u64>,
    /// It was told to end.
    is_ending: bool,
}

struct World {
    node: Node,
    chance: Chance,
    minds: BTreeMap<ProcId, Mind>,
    /// Rings as processes were told of them, until they let go.
    open: BTreeMap<(ProcId, ProcId), Rings>,
    /// Who heard of which death.
    mourned: BTreeSet<(ProcId, ProcId)>,
    deaths_seen: usize,
    buried_seen: usize,
    /// Questions, and how often each was answered.
    asked: BTreeMap<(ProcId, u64), usize>,
    /// How often each wanted room, and was told of some, or that there is none.
    wants: BTreeMap<ProcId, (usize, usize)>,
    /// Letters: who sent them, and how often they arrived or came back.
    letters: Vec<(ProcId, usize)>,
    numbers: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            node: Node::with_cpus(2),
            chance: Chance(SplitMix64::seeded(seed)),
            minds: BTreeMap::new(),
            open: BTreeMap::new(),
            mourned: BTreeSet::new(),
            deaths_seen: 0,
            buried_seen: 0,
            asked: BTreeMap::new(),
            wants: BTreeMap::new(),
            letters: Vec::new(),
            numbers: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn is_alive(&self, who: ProcId) -> bool {
        self.node.hub.proc(who).is_some()
    }

    fn those(&self, is_it: impl Fn(&Kind) -> bool) -> Vec<ProcId> {
        let mut found: Vec<ProcId> =
            self.node.hub.procs().filter(|proc| proc.hears() && is_it(proc.kind())).map(hub::Proc::id).collect();
        found.sort_unstable();
        found
    }

    fn drivers(&self) -> Vec<ProcId> {
        self.those(|kind| matches!(kind, Kind::Driver { .. }))
    }

    fn workers(&self) -> Vec<ProcId> {
        self.those(|kind| *kind == Kind::Worker)
    }

    /// One step, and all that must hold of it.
    fn step(&mut self, step: impl FnOnce(&mut Node)) {
        let heard_before: Vec<ProcId> = self.those(|_| true);
        step(&mut self.node);
        for (to, message) in std::mem::take(&mut self.node.body.told) {
            self.note(to, &message);
            self.minds.entry(to).or_default().inbox.push_back(message);
        }
        for (door, request, _) in std::mem::take(&mut self.node.body.answers) {
            let asker =
                self.asked.iter_mut().find(|((who, number), _)| (bench::door_of(*who), *number) == (door, request));
            *asker.expect("somebody asked").1 += 1;
        }
        let dead: Vec<ProcId> = self.node.body.dead[self.deaths_seen..].to_vec();
        self.deaths_seen += dead.len();
        for dead in dead {
            self.open.retain(|(who, _), _| *who != dead);
            for other in &heard_before {
                let is_here = self.node.hub.proc(*other).is_some_and(hub::Proc::hears);
                // Others may hear of it; those with rings must.
                let has_rings = self.open.contains_key(&(*other, dead));
                assert!(
                    !is_here || !has_rings || self.mourned.contains(&(*other, dead)),
                    "MEET-1: {other} does not hear that {dead} is dead"
                );
            }
        }
        let buried: Vec<ProcId> = self.node.body.buried[self.buried_seen..].to_vec();
        self.buried_seen += buried.len();
        for dead in buried {
            let reader = self.open.keys().find(|(_, peer)| *peer == dead);
            assert!(reader.is_none(), "NODE-1: {dead} is buried, and {reader:?} may still read");
        }
        for ring in std::mem::take(&mut self.node.body.reset) {
            let user = self.open.iter().find(|(_, rings)| rings.out == ring || rings.inward == ring);
            assert!(user.is_none(), "LINK-1: ring {ring} is made fresh under {user:?}");
        }
    }

    fn note(&mut self, to: ProcId, message: &FromNode) {
        match message {
            FromNode::PeerDied { peer, .. } => {
                assert!(self.mourned.insert((to, *peer)), "{to} hears twice that {peer} is dead");
            }
            FromNode::Linked { peer, rings } => {
                assert!(!self.mourned.contains(&(to, *peer)), "{to} is linked to {peer}, of whose death it has heard");
                let is_theirs = |pair: &(ProcId, ProcId)| *pair == (to, *peer) || *pair == (*peer, to);
                let other = self.open.iter().find(|(pair, open)| {
                    !is_theirs(pair)
                        && [open.out, open.inward].iter().any(|ring| [rings.out, rings.inward].contains(ring))
                });
                assert!(other.is_none(), "LINK-1: {to} gets rings of {other:?}");
                assert!(self.open.insert((to, *peer), *rings).is_none(), "LINK-1: {to} has rings to {peer} already");
            }
            FromNode::Answer { request, .. } => {
                *self.asked.get_mut(&(to, *request)).expect("it has asked") += 1;
            }
            FromNode::Extent { .. } => self.wants.entry(to).or_default().1 += 1,
            FromNode::Relay { message, .. } => self.letters[*message as usize].1 += 1,
            FromNode::Undeliverable { message, .. } => {
                assert_eq!(self.letters[*message as usize].0, to, "a letter comes back to who sent it");
                self.letters[*message as usize].1 += 1;
            }
            _ => {}
        }
    }

    fn says(&mut self, who: ProcId, message: ToNode) {
        match &message {
            ToNode::LinkClosed { peer } => drop(self.open.remove(&(who, *peer))),
            ToNode::Ask { request, .. } => drop(self.asked.insert((who, *request), 0)),
            ToNode::WantExtent { .. } => self.wants.entry(who).or_default().0 += 1,
            _ => {}
        }
        self.step(|node| node.says(who, message));
    }

    fn asks(&mut self, who: ProcId, question: Question) {
        let request = self.number();
        self.says(who, ToNode::Ask { request, question });
    }

    fn dies(&mut self, who: ProcId) {
        if self.chance.happens(40) {
            self.node.body.with_records.insert(who);
        }
        self.step(|node| node.step(|hub, step| hub.process_died(step, who, killed())));
    }

    fn reads(&mut self, who: ProcId) {
        let Some(message) = self.minds.get_mut(&who).and_then(|mind| mind.inbox.pop_front()) else { return };
        let is_keeper = self.node.is_kind(who, &Kind::Keeper);
        let mut due = Vec::new();
        match message {
            FromNode::PeerDied { peer, heir, .. } => {
                if self.open.contains_key(&(who, peer)) {
                    due.push(ToNode::LinkClosed { peer });
                }
                if is_keeper && heir.is_none() {
                    due.push(ToNode::Inherited { of: peer });
                }
            }
            FromNode::Inherit { of, .. } => {
                let workers = self.workers();
                let serving: Vec<ProcId> = workers.into_iter().filter(|_| self.chance.happens(30)).collect();
                due.push(ToNode::Inherited { of });
                due.push(ToNode::Settled { of, serving: serving.clone() });
                due.extend(serving.into_iter().map(|worker| ToNode::Served { worker }));
            }
            FromNode::Granted { number, .. } => drop(self.mind(who).leases.insert(number)),
            FromNode::Revoke { number } => {
                self.mind(who).leases.remove(&number);
                due.push(ToNode::ReturnLease { number });
            }
            FromNode::MayUnlink { peer } => {
                let quiet = self.chance.happens(60).then_some(Quiet { written: 0, read: 0 });
                due.push(ToNode::Idle { peer, quiet });
            }
            FromNode::Unlink { peer } => due.push(ToNode::LinkClosed { peer }),
            FromNode::GiveBackRoom { round, .. } if self.chance.happens(90) => {
                due.push(ToNode::GaveBack { round, bytes: 1 });
            }
            FromNode::TellHoldings { number, .. } if self.chance.happens(90) => {
                due.push(ToNode::Holdings { number, holdings: holdings(who) });
            }
            FromNode::BuildActor { actor, .. } if self.chance.happens(80) => {
                due.push(ToNode::ActorBuilt { actor, shown_as: "A".into() });
            }
            FromNode::BuildActor { actor, .. } => due.push(ToNode::ActorBuildFailed { actor, error: vec![1] }),
            FromNode::Retire | FromNode::Exit { .. } => self.mind(who).is_ending = true,
            _ => {}
        }
        let late = self.chance.happens(50);
        for message in due {
            // What was put off is said first.
            if late || !self.mind(who).due.is_empty() {
                self.mind(who).due.push_back(message);
            } else {
                self.says(who, message);
            }
        }
    }

    fn mind(&mut self, who: ProcId) -> &mut Mind {
        self.minds.entry(who).or_default()
    }

    fn says_what_is_due(&mut self, who: ProcId) {
        if let Some(message) = self.mind(who).due.pop_front() {
            self.says(who, message);
        }
    }

    fn fork(&mut self) {
        if self.node.body.starting.is_empty() {
            return;
        }
        let worker = self.node.body.starting.remove(0);
        if self.chance.happens(10) {
            let exit = WorkerExit::NotStarted("no luck".into());
            return self.step(|node| node.step(|hub, step| hub.process_died(step, worker, exit)));
        }
        let pid = 1_000 + i32::from(worker.slot());
        self.step(|node| {
            node.step(|hub, step| {
                if hub.worker_forked(step, worker, pid) {
                    hub.worker_joined(step, worker, pid);
                }
            });
        });
    }

    /// Signals do their work.
    fn end_killed(&mut self) {
        for who in std::mem::take(&mut self.node.body.killed) {
            if self.is_alive(who) {
                self.dies(who);
            }
        }
    }

    fn act(&mut self) {
        let all = self.those(|kind| *kind != Kind::Keeper);
        let (drivers, workers) = (self.drivers(), self.workers());
        let what = self.chance.below(100);
        let Some(who) = self.chance.pick(&all).filter(|_| !drivers.is_empty()) else {
            return self.step(|node| _ = node.driver());
        };
        let job = self.node.hub.proc(who).map_or(JobId([0; 4]), hub::Proc::job);
        // Also one that has hung up, and does not hear what it is told.
        let mut others: Vec<ProcId> = self.node.hub.procs().map(hub::Proc::id).collect();
        others.sort_unstable();
        let other = self.chance.pick(&others).expect("there is one");
        let actor = ActorId([self.chance.below(6) as u8; 16]);
        let function = FunctionId([self.chance.below(5) as u8; 16]);
        let group = GroupId([self.chance.below(3) as u8; 18]);
        match what {
            0..5 if drivers.len() < DRIVERS_MAX => self.step(|node| _ = node.driver()),
            5..20 => self.fork(),
            20..35 => {
                let number = self.number();
                let at = if self.chance.happens(15) {
                    Where::Bundle(Seat { group, bundle: None, captures: false })
                } else {
                    Where::Anywhere
                };
                self.says(who, ToNode::RequestLease { number, job, need: Need { at, ..one_cpu() }, name: "f".into() });
            }
            35..45 => {
                if let Some(number) = self.mind(who).leases.pop_first() {
                    self.says(who, ToNode::ReturnLease { number });
                }
            }
            45..49 => {
                let lifetime = if self.chance.happens(30) { Lifetime::Detached } else { Lifetime::Owned };
                let name = if self.chance.happens(30) { "bob" } else { "" };
                self.says(who, create(actor.0[0], job, lifetime, name));
            }
            49..52 => self.says(who, ToNode::WatchActor { actor }),
            52..54 => self.says(who, ToNode::KillActor { actor, no_restart: true }),
            54..56 => self.says(who, ToNode::ActorOutOfScope { actor }),
            56..60 => self.asks(who, Question::Function(function)),
            60..63 => self.says(who, ToNode::Export { function, body: vec![1] }),
            63..68 => self.says(who, ToNode::WantExtent { length: 400 }),
            68..71 => self.says(who, ToNode::ReturnExtent { offset: 0, length: 400 }),
            71..73 => self.asks(who, Question::Inventory { limit: 1 }),
            73..78 => {
                let letter = self.letters.len() as u32;
                self.letters.push((who, 0));
                self.says(who, ToNode::Relay { to: other, message: letter });
            }
            78..81 => {
                let options = GroupOptions {
                    name: "".into(),
                    namespace: "".into(),
                    lifetime: Lifetime::Owned,
                    strategy: Strategy::Pack,
                    bundles: vec![Resources::cpus(1)],
                    labels: Vec::new(),
                };
                self.asks(who, Question::CreateGroup { group, options });
            }
            81..83 => self.says(who, ToNode::WatchGroup { group }),
            83..85 => self.says(who, ToNode::RemoveGroup(group)),
            85..87 => self.says(who, ToNode::WantLink { peer: other }),
            87..89 => self.says(who, ToNode::Blocked { blocked: what == 87 }),
            89 => self.says(who, ToNode::Retiring),
            90 if workers.contains(&who) => self.says(who, ToNode::Leaving),
            91..94 => self.dies(who),
            94 => {
                // It is killed for that, which takes a while.
                if let Some(worker) = self.chance.pick(&workers) {
                    self.step(|node| node.step(|hub, step| hub.connection_lost(step, worker)));
                }
            }
            95..97 => self.end_killed(),
            _ => {
                let ms = self.chance.below(2_000) as u64;
                self.step(|node| node.wait_ms(ms));
            }
        }
    }

    /// Everyone reads all, says all and ends if it shall.
    fn settle(&mut self) {
        loop {
            let before = self.minds.values().map(|mind| mind.inbox.len() + mind.due.len()).sum::<usize>();
            let all = self.those(|_| true);
            for who in all.iter().copied() {
                while !self.mind(who).inbox.is_empty() && self.is_alive(who) {
                    self.reads(who);
                }
                while !self.mind(who).due.is_empty() && self.is_alive(who) {
                    self.says_what_is_due(who);
                }
            }
            self.minds.retain(|who, _| self.node.hub.proc(*who).is_some());
            self.end_killed();
            for who in all {
                if self.mind(who).is_ending && self.is_alive(who) {
                    self.dies(who);
                }
            }
            if before == 0 {
                return;
            }
        }
    }

    fn check_answers(&self) {
        for ((who, request), count) in &self.asked {
            assert!(*count <= 1, "NODE-4: {who} is answered {count} times to {request}");
            assert!(*count == 1 || !self.is_alive(*who), "NODE-4: {who} is never answered to {request}");
        }
        for (who, (wants, told)) in &self.wants {
            assert!(told <= wants, "NODE-4: {who} wanted room {wants} times and heard of some {told} times");
            assert!(told == wants || !self.is_alive(*who), "NODE-4: {who} waits for room for ever");
        }
        for (sender, count) in &self.letters {
            assert!(*count <= 1, "a letter of {sender} arrives {count} times");
            assert!(*count == 1 || !self.is_alive(*sender), "a letter of {sender} is lost");
        }
    }
}

fn holdings(process: ProcId) -> Holdings {
    Holdings {
        process,
        pid: 1,
        state: ProcessState::Starting,
        objects: Vec::new(),
        objects_count: 0,
        tasks: 0,
        pins: 0,
        store_bytes: 0,
        files: 0,
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..MOVES {
        for _ in 0..world.chance.below(4) {
            let all = world.those(|_| true);
            if let Some(who) = world.chance.pick(&all) {
                world.reads(who);
            }
            if let Some(who) = world.chance.pick(&all).filter(|who| world.is_alive(*who)) {
                world.says_what_is_due(who);
            }
        }
        world.act();
    }
    // Nobody waits for ever.
    world.settle();
    world.step(|node| node.wait_ms(60_000));
    while !world.node.body.starting.is_empty() {
        world.fork();
    }
    world.settle();
    world.check_answers();
    // Nothing is left of anybody.
    while let Some(who) = world.drivers().first().copied() {
        world.dies(who);
        world.settle();
    }
    for _ in 0..40 {
        while !world.node.body.starting.is_empty() {
            world.fork();
        }
        let workers = world.workers();
        workers.into_iter().for_each(|who| world.dies(who));
        world.settle();
        world.step(|node| node.wait_ms(30_000));
        world.settle();
    }
    for keeper in world.those(|_| true) {
        world.step(|node| node.dies(keeper));
    }
    world.step(|node| node.wait_ms(60_000));
    assert_eq!(world.node.hub.left(), [""; 0]);
}

#[test]
fn node_4_everyone_is_answered_once_and_nothing_is_left() {
    for seed in 0..300 {
        let result = std::panic::catch_unwind(|| run(seed));
        assert!(result.is_ok(), "seed {seed}");
    }
}

/// What the invariants above say of answers holds for what the body is told, not only for what it is asked.
#[test]
fn an_answer_names_its_question() {
    let mut node = Node::with_cpus(1);
    let (a, _) = node.driver();
    node.asks(a, 77, Question::Resources);
    assert!(matches!(node.answers_to(a, 77)[..], [Answer::Resources { .. }]));
}
