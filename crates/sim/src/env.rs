//! What every simulated process and node shares: clock, chance, network, history.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};

use model::{Bulk, FileId, JobId, Place, ProcId, Tick, Where};
use rustc_hash::{FxHashMap, FxHasher};
use wire::control::Question;

use crate::Settings;
use crate::abroad::Abroad;
use crate::journal::Journal;
use crate::memory::Memory;
use crate::network::{Fault, Item, Order, Pid, Queue};
use crate::oracle::{Oracle, Task};
use crate::process::{Frame, FromNode, ToNode};
use crate::refs::Number;
use crate::rng::Rng;
use crate::values::Values;
use crate::work::Plans;

/// What was really done to the cluster: a run in which nothing happened proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages lost and sent again.
    pub dropped: u64,
    /// Messages that arrived twice.
    pub repeated: u64,
    /// Messages that took very long.
    pub delayed: u64,
    /// Workers that failed to start.
    pub not_started: u64,
    /// Workers killed.
    pub workers_killed: u64,
    /// Drivers killed.
    pub drivers_killed: u64,
    /// Processes stopped for a while.
    pub paused: u64,
    /// Files that vanished or were damaged.
    pub harmed: u64,
    /// Values that were found to be lost.
    pub lost: u64,
    /// Values that were moved to files.
    pub moved: u64,
    /// Borrowers that found nothing where they were told to look.
    pub stale: u64,
    /// Placement groups made.
    pub groups: u64,
    /// Processes that died between telling owners of shares and giving them.
    pub gifts_cut: u64,
    /// Replies that found no room in their ring.
    pub full: u64,
    /// Deaths of processes that left something.
    pub estates: u64,
    /// Calls of the dead that were answered to their heir.
    pub salvaged: u64,
    /// Lines between nodes that were cut.
    pub cut: u64,
    /// Calls that were taken back on another node.
    pub taken_back: u64,
    /// Leases that other nodes were asked for.
    pub abroad: u64,
    /// Leases that waited and were offered room on other nodes.
    pub offered: u64,
    /// Leases and actors that had no room where they were sent.
    pub bounced: u64,
    /// Lives of actors that began on other nodes than the head.
    pub lodged: u64,
    /// Functions that workers asked for.
    pub functions: u64,
    /// Nodes that died or ended.
    pub nodes_killed: u64,
    /// Of those, nodes that lived when they were taken for dead.
    pub taken_for_dead: u64,
    /// Values that were kept for processes of other nodes.
    pub kept: u64,
    /// Of those, values that moved to files.
    pub kept_moved: u64,
    /// Values that processes had their nodes bring.
    pub fetched: u64,
    /// Copies that nodes asked others for.
    pub pulled: u64,
    /// Pulls that were sent on to who had it before.
    pub sent_on: u64,
}

impl Counts {
    /// All of them.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let messages = self.dropped + self.repeated + self.delayed;
        let processes = self.not_started + self.workers_killed + self.drivers_killed + self.paused;
        messages + processes + self.harmed + self.cut + self.nodes_killed
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            dropped: self.dropped + other.dropped,
            repeated: self.repeated + other.repeated,
            delayed: self.delayed + other.delayed,
            not_started: self.not_started + other.not_started,
            workers_killed: self.workers_killed + other.workers_killed,
            drivers_killed: self.drivers_killed + other.drivers_killed,
            paused: self.paused + other.paused,
            harmed: self.harmed + other.harmed,
            lost: self.lost + other.lost,
            moved: self.moved + other.moved,
            stale: self.stale + other.stale,
            groups: self.groups + other.groups,
            gifts_cut: self.gifts_cut + other.gifts_cut,
            full: self.full + other.full,
            estates: self.estates + other.estates,
            salvaged: self.salvaged + other.salvaged,
            cut: self.cut + other.cut,
            taken_back: self.taken_back + other.taken_back,
            abroad: self.abroad + other.abroad,
            offered: self.offered + other.offered,
            bounced: self.bounced + other.bounced,
            lodged: self.lodged + other.lodged,
            functions: self.functions + other.functions,
            nodes_killed: self.nodes_killed + other.nodes_killed,
            taken_for_dead: self.taken_for_dead + other.taken_for_dead,
            kept: self.kept + other.kept,
            kept_moved: self.kept_moved + other.kept_moved,
            fetched: self.fetched + other.fetched,
            pulled: self.pulled + other.pulled,
            sent_on: self.sent_on + other.sent_on,
        }
    }
}

/// Whether a call was started by the worker or taken back by its owner: a word in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Open,
    Started,
    TakenBack,
}

pub(crate) struct Env {
    pub(crate) now: Tick,
    pub(crate) rng: Rng,
    pub(crate) queue: Queue,
    pub(crate) settings: Settings,
    pub(crate) counts: Counts,
    pub(crate) oracle: Oracle,
    pub(crate) plans: Plans,
    /// The node that takes a step.
    pub(crate) stepping: usize,
    /// What lies between nodes.
    pub(crate) abroad: Abroad,
    /// Nodes that are dead.
    pub(crate) dead_nodes: BTreeSet<usize>,
    /// The program of each job.
    pub(crate) programs: FxHashMap<JobId, Pid>,
    /// Who waits for the answer to which question.
    pub(crate) asked: BTreeSet<(Pid, u64)>,
    /// Of each node.
    pub(crate) memories: Vec<Memory>,
    /// What each node has of others' values, and keeps for them.
    pub(crate) values: Vec<Values>,
    /// Workers that own something that others may need: a word in shared memory.
    pub(crate) needed: BTreeSet<Pid>,
    /// Somebody is going to be asked to make room.
    pub(crate) is_short: bool,
    /// What the dead have recorded, until their heir has read it.
    pub(crate) journals: BTreeMap<Pid, Journal>,
    /// Frames whose readers were dead when they came, by writer and reader.
    unread: BTreeMap<(Pid, Pid), Vec<Frame>>,
    claims: FxHashMap<u64, Claim>,
    /// Which task's value each file was written for.
    sent_in: FxHashMap<FileId, Task>,
    tickets: u64,
    runs: u64,
    /// Hash of all that happened.
    pub(crate) trace: u64,
}

impl Env {
    pub(crate) fn new(settings: Settings) -> Self {
        let memories = (0..settings.nodes).map(|node| Memory::new(node as u32 + 1, settings.blocks_max)).collect();
        let values = (0..settings.nodes).map(Values::new).collect();
        Self {
            now: Tick(0),
            rng: Rng::new(settings.seed),
            queue: Queue::default(),
            settings,
            counts: Counts::default(),
            oracle: Oracle::default(),
            plans: Plans::default(),
            stepping: 0,
            abroad: Abroad::default(),
            dead_nodes: BTreeSet::new(),
            programs: FxHashMap::default(),
            asked: BTreeSet::new(),
            memories,
            values,
            needed: BTreeSet::new(),
            is_short: false,
            journals: BTreeMap::new(),
            unread: BTreeMap::new(),
            claims: FxHashMap::default(),
            sent_in: FxHashMap::default(),
            tickets: 0,
            runs: 0,
            trace: 0,
        }
    }

    /// Whether the program of this job lives.
    pub(crate) fn has_program(&self, job: JobId) -> bool {
        self.programs.get(&job).is_some_and(|program| !self.oracle.is_dead(*program))
    }

    pub(crate) fn has_faults(&self) -> bool {
        self.now < Tick(0).plus_ms(self.settings.faults_ms)
    }

    /// What happens becomes part of the run's hash: when, what and to whom. What it says shows in what comes of it.
    pub(crate) fn record(&mut self, item: &Item) {
        if self.settings.is_printed {
            println!("{} {item:?}", self.now.0);
        }
        let mut hasher = FxHasher::default();
        (self.trace, self.now).hash(&mut hasher);
        item.trace(&mut hasher);
        self.trace = hasher.finish();
    }

    pub(crate) fn later(&mut self, us: u64, item: Item) {
        self.queue.at(Tick(self.now.0 + us), item);
    }

    pub(crate) fn tell_node(&mut self, from: Pid, message: ToNode) {
        let (order, may_repeat) = match message {
            // A lease in a group that nobody has heard of yet would be refused.
            ToNode::RequestLease { ref need, .. } if matches!(need.at, Where::Bundle(_)) => (Order::Kept, true),
            ToNode::RequestLease { .. } | ToNode::ReturnLease { .. } => (Order::Loose, true),
            ToNode::CreateActor { .. } | ToNode::KillActor { .. } | ToNode::ActorOutOfScope { .. } => {
                (Order::Kept, true)
            }
            ToNode::Ask { question: Question::Function(_) | Question::Fetch { .. }, .. } => (Order::Kept, false),
            ToNode::Ask { .. } | ToNode::RemoveGroup(_) | ToNode::Met { .. } => (Order::Kept, true),
            _ => (Order::Kept, false),
        };
        self.send(order, may_repeat, Item::ToNode { from, message: Box::new(message) });
    }

    pub(crate) fn tell_process(&mut self, to: Pid, message: FromNode) {
        let may_repeat = matches!(message, FromNode::Granted { .. } | FromNode::Revoke { .. });
        self.send(Order::Kept, may_repeat, Item::FromNode { to, message: Box::new(message) });
    }

    /// Whether the process owns something that others may need.
    pub(crate) fn owns_something(&mut self, process: Pid, is_needed: bool) {
        if is_needed {
            self.needed.insert(process);
        } else {
            self.needed.remove(&process);
        }
    }

    /// From a process to another of its node, or from a carrier, which stands for one of another node.
    pub(crate) fn frame(&mut self, from: Pid, to: Pid, frame: Frame) {
        self.send(Order::Kept, false, Item::Frame { from, to, frame });
    }

    pub(crate) fn send(&mut self, order: Order, may_repeat: bool, item: Item) {
        let mut us = self.rng.between(1, 40);
        let mut again = None;
        if self.has_faults() {
            while self.rng.chance(self.settings.drop) {
                self.counts.dropped += 1;
                us += self.rng.between(1_000, 20_000);
            }
            if self.rng.chance(self.settings.delay) {
                self.counts.delayed += 1;
                us += self.rng.between(1_000, 50_000);
            }
            if may_repeat && self.rng.chance(self.settings.repeat) {
                self.counts.repeated += 1;
                again = Some((self.rng.between(1, 100_000), item.clone()));
            }
        }
        let arrival = self.queue.send(Tick(self.now.0 + us), order, item);
        if let Some((us, item)) = again {
            self.queue.at(Tick(arrival.0 + us), item);
        }
    }

    /// Plans the next fault of this kind, if there are any.
    pub(crate) fn plan_fault(&mut self, fault: Fault) {
        let every_ms = match fault {
            Fault::KillWorker => self.settings.kill_worker_every_ms,
            Fault::KillOwner => self.settings.kill_owner_every_ms,
            Fault::KillDriver => self.settings.kill_driver_every_ms,
            Fault::Pause => self.settings.pause_every_ms,
            Fault::HarmFile => self.settings.harm_every_ms,
            Fault::Shortage => self.settings.shortage_every_ms,
            Fault::CutLine => self.settings.cut_every_ms,
            Fault::KillNode => self.settings.kill_node_every_ms,
        };
        if every_ms > 0 {
            let us = self.rng.between(1, 2_000 * every_ms);
            self.later(us, Item::Fault(fault));
        }
    }

    /// If a node's arena is full, somebody is asked to make room there.
    pub(crate) fn short_of_room(&mut self, node: usize) {
        if self.memories[node].is_full() && !self.is_short {
            self.is_short = true;
            let us = self.rng.between(10, 2_000);
            self.later(us, Item::Fault(Fault::Shortage));
        }
    }

    /// Nobody is there any more to read this.
    pub(crate) fn not_read(&mut self, from: Pid, to: Pid, frame: Frame) {
        self.unread.entry((from, to)).or_default().push(frame);
    }

    /// What a process had written to others that are dead dies with it, and so does what others who are dead had written to it.
    pub(crate) fn lose_unread(&mut self, dead: Pid, is_alive: impl Fn(&Pid) -> bool) {
        let written = (dead, (0, ProcId::new(1, 0, 0)))
            ..=(dead, (usize::MAX, ProcId::new(ProcId::NODE_MAX, ProcId::SLOT_MAX, ProcId::EPOCH_MAX)));
        let unread = self.unread.extract_if(written, |(from, to), _| from.0 == to.0).flat_map(|(_, frames)| frames);
        let mut lost: Vec<Frame> = unread.collect();
        lost.extend(self.queue.take_lost(dead, is_alive));
        for frame in lost {
            if let Frame::Written { first: Some(first), .. } = frame {
                self.oracle.reply_lost(first);
            }
        }
    }

    /// What a process had written to one that is dead and has not read it.
    pub(crate) fn take_unread(&mut self, from: Pid, to: Pid) -> Vec<Frame> {
        let mut frames = self.unread.remove(&(from, to)).unwrap_or_default();
        frames.extend(self.queue.take_frames(from, to));
        frames
    }

    /// Looks at a large value, wherever it lies. A place in the arena is pinned.
    pub(crate) fn look_at(&mut self, by: Pid, bulk: Bulk) -> Option<(Number, Option<Place>)> {
        let memory = &mut self.memories[by.0];
        match bulk {
            Bulk::Stored(place) => memory.pin(by.1, place).map(|number| (number, Some(place))),
            Bulk::Filed(filed) => memory.map(&filed).map(|number| (number, None)),
        }
    }

    pub(crate) fn unpin(&mut self, by: Pid, place: Place) {
        let memory = &mut self.memories[by.0];
        if memory.seen(by.1, place).is_none() {
            self.oracle.fail(format!("SIM-10: {by:?} looked at {place:?}, and something else lies there"));
        }
        self.memories[by.0].unpin(by.1, place);
    }

    /// A task's value goes to its owner in a file.
    pub(crate) fn sent_in(&mut self, file: FileId, task: Task) {
        self.sent_in.insert(file, task);
    }

    /// It did not come there.
    pub(crate) fn lost_on_its_way(&mut self, file: FileId) {
        if let Some(task) = self.sent_in.remove(&file) {
            self.oracle.reply_lost(task);
        }
    }

    /// A number for a run of a task.
    pub(crate) fn new_run(&mut self) -> u64 {
        self.runs += 1;
        self.runs
    }

    pub(crate) fn new_claim(&mut self) -> u64 {
        self.tickets += 1;
        self.claims.insert(self.tickets, Claim::Open);
        self.tickets
    }

    /// Sets an open claim; false: the other side was faster.
    pub(crate) fn claim(&mut self, ticket: u64, to: Claim) -> bool {
        match self.claims.get_mut(&ticket) {
            Some(claim) if *claim == Claim::Open => {
                *claim = to;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn has_started(&self, ticket: u64) -> bool {
        self.claims.get(&ticket) == Some(&Claim::Started)
    }
}
