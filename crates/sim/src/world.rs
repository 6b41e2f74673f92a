//! The loop: one thing after the other, each at its time, until all is done or the deadline has passed.

use std::collections::BTreeMap;
use std::fmt;

use model::{JobId, Tick, WorkerExit};
use owner::Value;

use crate::Settings;
use crate::abroad::{carrier_of, pid_of};
use crate::env::{Counts, Env};
use crate::members::index_of;
use crate::network::{Fault, Item, Pid};
use crate::node::Node;
use crate::process::{Process, Role};

/// After the last program is done, this long until nothing may be held any more: leases and workers are
/// kept for a while.
const REST_MS: u64 = 20_000;
/// Rooms of a node's core that are empty then, though programs and workers are still there.
const OVER_AT_REST: [&str; 9] =
    ["letters", "estates", "groups", "cuts", "members", "leases of other nodes", "lodgings", "enquiries", "last words"];
const EVENTS_MAX: u64 = 2_000_000;
const CHECK_EVERY: u64 = 32;

/// How a run went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which run.
    pub seed: u64,
    /// Faults that landed.
    pub faults: Counts,
    /// Tasks submitted, also those whose owner was killed.
    pub tasks: usize,
    /// Tasks that gave a value.
    pub ok: usize,
    /// Tasks that ended otherwise.
    pub failed: usize,
    /// Runs that began again for no reason.
    pub reruns: usize,
    /// Things that happened.
    pub events: u64,
    /// Virtual time.
    pub ms: u64,
    /// Hash of all that happened.
    pub trace: u64,
}

/// What should not have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which run.
    pub seed: u64,
    /// Nodes in it.
    pub nodes: usize,
    /// When, in virtual time.
    pub at: Tick,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, nodes, at, what } = self;
        writeln!(f, "at {} us: {what}", at.0)?;
        write!(f, "replay: cargo run -p eagleray-sim -- --seed {seed} --nodes {nodes}")
    }
}

pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) nodes: Vec<Node>,
    pub(crate) procs: BTreeMap<Pid, Process>,
    events: u64,
}

/// Runs a whole cluster to its end.
///
/// # Errors
/// If something should not have been. A bug in a brain may also panic.
pub fn run(settings: Settings) -> Result<Report, Broken> {
    let (seed, nodes) = (settings.seed, settings.nodes);
    let mut world = World::new(settings);
    let result = world.run_to_rest();
    let at = world.env.now;
    result.map_err(|what| Broken { seed, nodes, at, what })?;
    let (tasks, ok, failed) = world.env.oracle.totals();
    let faults = world.env.counts;
    let (reruns, events) = (world.env.oracle.reruns(), world.events);
    let report = Report { seed, faults, tasks, ok, failed, reruns, events, ms: at.0 / 1_000, trace: world.env.trace };
    if faults.sum() == 0 || ok * 20 < tasks || ok == 0 {
        return Err(Broken { seed, nodes, at, what: format!("it proves nothing: {report:?}") });
    }
    Ok(report)
}

impl World {
    fn new(settings: Settings) -> Self {
        let mut env = Env::new(settings);
        env.plans.elsewhere = env.settings.elsewhere;
        let mut nodes = Vec::new();
        for index in 0..env.settings.nodes {
            let carrier = carrier_of(index, &mut env.rng);
            nodes.push(Node::new(index, &env, carrier));
        }
        let mut world = Self { env, nodes, procs: BTreeMap::new(), events: 0 };
        if world.env.settings.nodes > 1 {
            world.found();
        }
        world.open_members();
        let env = &mut world.env;
        for fault in [
            Fault::KillWorker,
            Fault::KillOwner,
            Fault::KillDriver,
            Fault::Pause,
            Fault::HarmFile,
            Fault::Shortage,
            Fault::CutLine,
            Fault::KillNode,
        ] {
            env.plan_fault(fault);
        }
        let healed_at = Tick(0).plus_ms(env.settings.faults_ms);
        env.queue.at(healed_at, Item::Healed);
        world
    }

    fn run_to_rest(&mut self) -> Result<(), String> {
        let deadline = Tick(0).plus_ms(self.env.settings.faults_ms + self.env.settings.heal_ms_max);
        let mut rest_at = None;
        while let Some((when, item)) = self.env.queue.next() {
            self.env.now = when;
            self.events += 1;
            self.env.record(&item);
            if item.node().is_none_or(|node| !self.env.dead_nodes.contains(&node)) {
                self.handle(item);
                self.open_members();
            }
            if let Some(what) = self.env.oracle.broken.take() {
                return Err(what);
            }
            if self.events.is_multiple_of(CHECK_EVERY) {
                self.check_brains();
                self.check_borrowed()?;
                self.check_groups()?;
            }
            if self.events > EVENTS_MAX {
                return Err(format!("SIM-5: {EVENTS_MAX} events without an end"));
            }
            if rest_at.is_none() && !self.env.has_faults() && self.are_programs_done() {
                rest_at = Some(self.env.now.plus_ms(REST_MS));
            }
            if rest_at.is_some_and(|at| self.env.now >= at) {
                break;
            }
            if self.env.now > deadline {
                return Err(format!("SIM-5: still waiting: {}", self.waits()));
            }
        }
        if !self.are_programs_done() {
            return Err(format!("SIM-5: nothing happens any more: {}", self.waits()));
        }
        self.check_rest()
    }

    fn handle(&mut self, item: Item) {
        let item = match self.held_back(item) {
            Some(item) => item,
            None => return,
        };
        let env = &mut self.env;
        match item {
            Item::ToNode { from, message } => self.nodes[from.0].on_message(env, from.1, *message),
            Item::FromNode { to, message } => {
                if let Some(process) = self.procs.get_mut(&to) {
                    process.on_message(env, *message);
                }
            }
            Item::Outward { from, to, frame } => self.nodes[from.0].on_outward(env, from, to, frame),
            Item::Room { here, there } => self.nodes[pid_of(here).0].on_room(env, here, there),
            Item::Bytes { from, to, line, bytes } => self.nodes[to].on_bytes(env, from, line, &bytes),
            Item::Dial { from, to } => self.dial(from, to),
            Item::Enters { node } => self.enter(node),
            Item::EndNode { node } => self.end_node(node),
            Item::Verdict { node } => self.judge(node),
            Item::Closed { node, other, line } => self.nodes[node].on_closed(env, other, line),
            Item::SessionTick { node, peer } => self.nodes[node].on_session_tick(env, peer),
            Item::Frame { from, to, frame } => {
                // A carrier stands for those of other nodes.
                let is_salvaged = from.0 != to.0 || self.procs.contains_key(&from);
                match self.procs.get_mut(&to) {
                    Some(process) => process.on_frame(env, from.1, frame),
                    None if is_salvaged => env.not_read(from, to, frame),
                    None => {}
                }
            }
            Item::Forked { process, is_up: false } => {
                self.nodes[process.0].ended(env, process.1, WorkerExit::NotStarted("it could not be forked".into()));
            }
            Item::Forked { process, is_up: true } => {
                if let Some(past) = self.nodes[process.0].worker_up(env, process.1) {
                    let (job, role) = (JobId([0; 4]), Role::Worker(Box::default()));
                    self.procs.insert(process, Process::new(process, job, role, past));
                }
            }
            Item::KeeperStarted { process, past } => {
                self.procs.insert(process, Process::new(process, JobId([0; 4]), Role::Keeper, past));
            }
            Item::Kill { process, exit } => self.kill(process, exit),
            Item::HungUp { process } => self.nodes[process.0].hung_up(env, process.1),
            Item::Ended { process, exit } => self.nodes[process.0].ended(env, process.1, exit),
            Item::Computed { process, serial } => {
                if let Some(process) = self.procs.get_mut(&process) {
                    process.on_computed(env, serial);
                }
            }
            Item::Answer { process } => {
                if let Some(process) = self.procs.get_mut(&process) {
                    process.on_answer(env);
                }
            }
            Item::LetGo { process, slot } => {
                if let Some(process) = self.procs.get_mut(&process) {
                    process.on_let_go(env, slot);
                }
            }
            Item::MakeRoom { process } => {
                if let Some(process) = self.procs.get_mut(&process) {
                    process.on_make_room(env);
                }
            }
            Item::Written { process } => {
                if let Some(process) = self.procs.get_mut(&process) {
                    process.on_written(env);
                }
            }
            Item::Look { process, look } => {
                if let Some(process) = self.procs.get_mut(&process) {
                    process.on_look(env, look);
                }
            }
            Item::Looked { process, look, seen } => {
                if let Some(process) = self.procs.get_mut(&process) {
                    process.on_looked(env, look, &seen);
                }
            }
            Item::Pull { node, pull } => self.on_pull(node, pull),
            Item::Pulled { node, pull, number } => self.on_pulled(node, pull, number),
            Item::Probe { node, to, bulk } => self.on_probe(node, to, bulk),
            Item::NodeRoom { node } => self.on_node_room(node),
            Item::KeptWritten { node, bulks } => self.on_kept_written(node, bulks),
            Item::LookAtValues { node } => self.on_look_at_values(node),
            Item::AskAgain { process, request } => {
                if let Some(process) = self.procs.get_mut(&process) {
                    process.on_ask_again(env, request);
                }
            }
            Item::Unpin { process, place } => {
                if let Some(process) = self.procs.get(&process) {
                    process.unpin(env, Some(place));
                }
            }
            Item::Read { process, stream } => {
                if let Some(process) = self.procs.get_mut(&process) {
                    process.on_read(env, stream);
                }
            }
            Item::Step { process } => {
                if let Some(process) = self.procs.get_mut(&process) {
                    process.on_step(env);
                }
            }
            Item::OwnerTick { process } => {
                if let Some(process) = self.procs.get_mut(&process) {
                    process.on_tick(env);
                }
            }
            Item::NodeTick { node } => self.nodes[node].on_tick(env),
            Item::Resume { process } => self.resume(process),
            Item::Healed => self.procs.values_mut().for_each(|process| process.apply(env)),
            Item::Fault(fault) => self.inject(fault),
        }
    }

    fn are_programs_done(&self) -> bool {
        let is_done = |process: &Process| match &process.role {
            Role::Driver(driver) => driver.is_done,
            Role::Worker(_) | Role::Keeper => true,
        };
        self.have_all_come() && self.procs.values().all(is_done)
    }

    fn waits(&self) -> String {
        let mut waits = self.env.oracle.unended(|pid| self.procs.contains_key(&pid));
        for node in self.living_nodes() {
            waits.extend(node.hub.scheduler().waiting().map(|wait| format!("{wait:?}")));
            waits.extend(node.hub.scheduler().granted().map(|(lease, worker)| format!("{lease:?} has {worker}")));
            waits.push(format!("available {}", node.hub.scheduler().available()));
        }
        waits.join("\n  ")
    }

    fn check_brains(&self) {
        for node in self.living_nodes() {
            node.hub.check_invariants();
        }
        for process in self.procs.values() {
            process.party.owner.check_invariants();
        }
    }

    /// SIM-8: what somebody holds is there.
    fn check_borrowed(&self) -> Result<(), String> {
        for process in self.procs.values().filter(|process| !self.env.oracle.is_lost(process.pid.0)) {
            for (_, object) in process.party.owner.objects() {
                let Some(owner) = object.owner.and_then(|owner| self.procs.get(&pid_of(owner))) else {
                    continue;
                };
                // The keeper may not have read yet what it inherits.
                if matches!(owner.role, Role::Keeper) && self.env.journals.keys().any(|of| of.0 == owner.pid.0) {
                    continue;
                }
                let is_gone = owner.party.owner.slot_of(&object.id).is_none();
                let has_copy = matches!(object.value, Some(Value::Inline(_) | Value::Failed(_)));
                if is_gone && !has_copy && !self.env.oracle.is_excused(&object.id) {
                    let (holder, owner) = (process.pid.1, owner.pid.1);
                    return Err(format!("SIM-8: {holder} holds {}, which {owner} has freed: {object:?}", object.id));
                }
            }
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<(), String> {
        self.living_nodes().try_for_each(|node| {
            let groups = self.nodes[0].hub.group_table();
            node.check_groups(&self.env, groups, self.procs.values().filter(|process| process.pid.0 == node.index))
        })
    }

    /// SIM-6: nobody holds anything, except for detached actors.
    fn check_rest(&self) -> Result<(), String> {
        let unended = self.env.oracle.unended(|pid| self.procs.contains_key(&pid));
        if !unended.is_empty() {
            return Err(format!("SIM-1: tasks have not ended: {}", unended.join("\n  ")));
        }
        let mut kept_by = Vec::new();
        for process in self.procs.values() {
            let (tasks, objects) = (process.party.owner.tasks_pending(), process.party.owner.objects_kept());
            if (tasks, objects) != (0, 0) {
                let kept: Vec<_> = process.party.owner.objects().collect();
                let pending: Vec<_> = process.party.owner.tasks().map(|(key, task)| (key, task.stage)).collect();
                let (pid, keeping) = (process.pid, &process.party.keeping());
                kept_by.push(format!(
                    "{pid:?} keeps {tasks} tasks and {objects} objects: {pending:?} {kept:?} {keeping:?}"
                ));
            }
        }
        if !kept_by.is_empty() {
            return Err(format!("SIM-6: {}", kept_by.join("\n  ")));
        }
        if let Some(process) = self.procs.values().find(|process| !process.party.keeping().is_idle()) {
            return Err(format!("SIM-12: an estate is never settled: {:?}", process.party.keeping()));
        }
        if let Some(process) = self.procs.values().find(|process| process.holds_memory()) {
            return Err(format!("SIM-6: {:?} holds memory", process.pid));
        }
        let values = self.living_nodes().map(|node| (node.index, self.env.values[node.index].left()));
        if let Some((node, left)) = values.into_iter().find(|(_, left)| !left.is_empty()) {
            return Err(format!("SIM-6: at rest node {node} still has {left}"));
        }
        let memories = self.living_nodes().map(|node| self.env.memories[node.index].left());
        if let Some(left) = memories.into_iter().find(|left| !left.is_empty()) {
            return Err(format!("SIM-6: at rest there is still {left}"));
        }
        if let Some((process, request)) = self.env.asked.iter().find(|(process, _)| self.procs.contains_key(process)) {
            return Err(format!("NODE-4: question {request} of {process:?} is not answered"));
        }
        self.check_brains();
        self.check_nodes_at_rest()
    }

    fn living_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !self.env.dead_nodes.contains(&node.index))
    }

    /// Of what is over no node keeps anything; what detached actors have is in the table of the first.
    fn check_nodes_at_rest(&self) -> Result<(), String> {
        let records = self.living_nodes().flat_map(|node| node.hub.actor_table().iter());
        let alive: Vec<_> = records.filter(|record| record.death().is_none()).collect();
        if let Some(left) = alive.iter().find(|record| record.is_owned() || record.worker().is_none()) {
            return Err(format!("SIM-6: an actor is left: {left:?}"));
        }
        let workers: Vec<_> = alive.iter().filter_map(|record| record.worker()).collect();
        for node in self.living_nodes() {
            if !node.carrier.is_at_rest() {
                return Err(format!("SIM-6: the carrier of node {} is not at rest", node.index));
            }
            let waiting: Vec<_> = node.hub.scheduler().waiting().collect();
            if !waiting.is_empty() {
                return Err(format!("SIM-6: at rest somebody waits: {waiting:?}"));
            }
            node.check_groups_at_rest()?;
            if let Some((lease, worker)) = node.hub.scheduler().granted().find(|(_, worker)| !workers.contains(worker))
            {
                return Err(format!("SIM-6: {lease:?} is still held by {worker}"));
            }
            let left = node.hub.left();
            let kept_by_actors = ["lodgings", "jobs", "actors"];
            let is_over =
                |room: &&&str| OVER_AT_REST.contains(room) && (alive.is_empty() || !kept_by_actors.contains(room));
            if let Some(room) = left.iter().find(is_over) {
                return Err(format!("SIM-6: node {} keeps {room}", node.index));
            }
            if let Some(known) = node.hub.nodes().find(|info| self.env.dead_nodes.contains(&index_of(info.id))) {
                return Err(format!("SIM-6: node {} takes {known:?} for alive", node.index));
            }
        }
        Ok(())
    }
}
