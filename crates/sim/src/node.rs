//! A simulated node: the real core, `hub::Hub`, with a body of queues and dice. It decides nothing.

use carrier::Carrier;
use hub::links::Level;
use hub::{Asker, Body, Dead, Door, Hub, Listening, NoRoom, Options, Past, Step, StoreUse};
use model::{Bulk, FunctionId, JobId, ProcId, Tick, WorkerExit};
use wire::abroad::{AboutValues, Between, Death};
use wire::control::{Answer, Rings};
use wire::members::NodeInfo;
use wire::peer::Peer;

use crate::abroad::{Ask, pid_of as place_of};
use crate::env::Env;
use crate::members::id_of;
use crate::network::{Item, Pid};
use crate::process::{FromNode, ToNode};
use crate::values::on_word;

const GRACE_MS: u64 = 2_000;
const LINK_IDLE_MS: u64 = 60_000;
const WORKERS_MAX: u16 = 64;
/// Drivers, the keeper, and the dead that are not buried.
const OTHERS_MAX: u16 = 192;
/// How long it takes until a signal has ended a process.
const KILL_US: u64 = 100;

pub(crate) struct Node {
    pub(crate) index: usize,
    pub(crate) hub: Hub<Env>,
    pub(crate) carrier: Carrier,
    /// It has let its programs in.
    pub(crate) is_open: bool,
    tick_at: Option<Tick>,
}

/// Stands for the connection of a process: each has one.
fn door_of(who: ProcId) -> Door {
    usize::try_from(who.to_u64()).expect("a word")
}

/// What the system calls a simulated process.
fn pid_of(who: ProcId) -> i32 {
    i32::from(who.slot() as i16) + 1
}

impl Node {
    pub(crate) fn new(index: usize, env: &Env, carrier: Carrier) -> Self {
        let is_guest = env.is_guest(index);
        let hub = Hub::new(Options {
            number: index as u32 + 1,
            id: id_of(index),
            pid: i32::MAX,
            total: env.total_of(index),
            gpu_names: Vec::new(),
            procs_max: WORKERS_MAX + OTHERS_MAX,
            workers_max: if is_guest { 0 } else { u32::from(WORKERS_MAX) },
            starts_max: 3,
            prestart: u32::from(!is_guest),
            idle_ms_max: 1_000,
            rings_max: u32::MAX,
            link_idle_ms_max: LINK_IDLE_MS,
            grace_ms_max: GRACE_MS,
        });
        Self { index, hub, carrier, is_open: false, tick_at: None }
    }

    pub(crate) fn step<R>(&mut self, env: &mut Env, step: impl FnOnce(&mut Hub<Env>, &mut Step<'_, Env>) -> R) -> R {
        let result = self.step_hub(env, step);
        self.go_round(env);
        result
    }

    pub(crate) fn step_hub<R>(
        &mut self,
        env: &mut Env,
        step: impl FnOnce(&mut Hub<Env>, &mut Step<'_, Env>) -> R,
    ) -> R {
        env.stepping = self.index;
        let now = env.now;
        let result = step(&mut self.hub, &mut Step { now, body: env });
        if let Some(at) = self.hub.next_deadline(now)
            && self.tick_at.is_none_or(|planned| at < planned)
        {
            let at = at.max(now);
            self.tick_at = Some(at);
            env.queue.at(at, Item::NodeTick { node: self.index });
        }
        result
    }

    pub(crate) fn open(&mut self, env: &mut Env) {
        self.step(env, |hub, step| hub.open(step));
    }

    pub(crate) fn add_driver(&mut self, env: &mut Env, pid: i32) -> (ProcId, JobId) {
        let joining =
            self.step(env, |hub, step| hub.driver_joined(step, pid, "".into(), wire::Surroundings::default(), true));
        let joining = joining.expect("a free slot");
        (joining.id, joining.job)
    }

    /// A worker was forked: it joins, with what it is told of the dead, or nobody needs it any more.
    pub(crate) fn worker_up(&mut self, env: &mut Env, who: ProcId) -> Option<Past> {
        let is_wanted = self.step(env, |hub, step| hub.worker_forked(step, who, pid_of(who)));
        if !is_wanted {
            self.ended(env, who, WorkerExit::Signal(9, model::Remains::default()));
            return None;
        }
        let past = self.hub.past();
        self.step(env, |hub, step| hub.worker_joined(step, who, pid_of(who)));
        Some(past)
    }

    pub(crate) fn on_message(&mut self, env: &mut Env, who: ProcId, message: ToNode) {
        let from = Asker { door: door_of(who), who: Some(who) };
        self.step(env, |hub, step| hub.on_message(step, from, message));
    }

    /// A process has let go of its connection: it is about to end.
    pub(crate) fn hung_up(&mut self, env: &mut Env, who: ProcId) {
        self.step(env, |hub, step| hub.connection_lost(step, who));
    }

    pub(crate) fn ended(&mut self, env: &mut Env, who: ProcId, exit: WorkerExit) {
        self.step(env, |hub, step| hub.process_died(step, who, exit));
    }

    pub(crate) fn on_tick(&mut self, env: &mut Env) {
        // An earlier one has come, and planned the next.
        if self.tick_at == Some(env.now) {
            self.tick_at = None;
            self.step(env, |hub, step| hub.on_time(step));
        }
    }
}

/// The body of the node that is stepping.
impl Body for Env {
    type Letter = Peer;

    fn send(&mut self, node: u32, message: Between<Peer>) {
        if self.settings.is_printed {
            println!("{} {} to {node}: {message:?}", self.now.0, self.stepping + 1);
        }
        let counts = &mut self.counts;
        match &message {
            Between::Request { .. } => counts.abroad += 1,
            // As above: whoever called it may hear that it is dead before it is.
            Between::EndWorker { worker, .. } => self.oracle.died(place_of(*worker)),
            Between::Bounced { .. } => counts.bounced += 1,
            Between::Lodged { .. } => counts.lodged += 1,
            Between::Offer { count, .. } => counts.offered += u64::from(*count),
            _ => {}
        }
        self.abroad.asked.push_back(Ask::Send(node, message));
    }

    fn tell_nodes(&mut self, death: Death, nodes: &[u32]) {
        self.abroad.asked.push_back(Ask::Died(death, nodes.to_vec()));
    }

    fn linked(&mut self, here: ProcId, there: ProcId, _: Rings) {
        self.abroad.asked.push_back(Ask::Linked(here, there));
    }

    fn unlinked(&mut self, here: ProcId, there: ProcId) {
        self.abroad.asked.push_back(Ask::Unlinked(here, there));
    }

    fn flush(&mut self, ticket: u64) {
        self.abroad.asked.push_back(Ask::Flush(ticket));
    }

    fn reach(&mut self, ticket: u64, positions: &[(u32, u64)]) {
        self.abroad.asked.push_back(Ask::Reach(ticket, positions.to_vec()));
    }

    fn meet(&mut self, node: &NodeInfo) {
        self.abroad.asked.push_back(Ask::Meet(node.number));
    }

    fn known(&mut self, node: &NodeInfo) {
        self.values_know(node.number, !node.is_guest);
    }

    fn fetch(&mut self, by: ProcId, request: u64, bulk: Bulk, is_probe: bool) {
        self.fetch_value(by, request, bulk, is_probe);
    }

    fn prefetch(&mut self, bulks: Vec<Bulk>) {
        self.prefetch_values(bulks);
    }

    fn free_away(&mut self, bulk: Bulk) {
        self.with_depot(self.stepping, |depot, out| depot.free(bulk, out));
    }

    fn keep_for(&mut self, by: ProcId, to: ProcId, bulks: Vec<Bulk>) {
        self.keep_values_for(by, to, bulks);
    }

    fn inherit_away(&mut self, by: ProcId, bulk: Bulk) {
        self.with_depot(self.stepping, |depot, out| depot.inherit(bulk, by, out));
    }

    fn process_died(&mut self, peer: ProcId, heir: Option<ProcId>) {
        self.with_depot(self.stepping, |depot, out| depot.process_died(peer, heir, out));
    }

    fn settled_here(&mut self, of: ProcId) {
        self.with_depot(self.stepping, |depot, out| depot.settled_here(of, out));
    }

    fn about_values(&mut self, from: u32, about: AboutValues) {
        on_word(self, from, about);
    }

    fn part(&mut self, node: u32) {
        self.values_without(node);
        self.abroad.asked.push_back(Ask::Part(node));
    }

    fn left_cluster(&mut self, why: &str) {
        if !self.oracle.is_lost(self.stepping) {
            self.oracle.fail(format!("node {} is told to leave: {why}", self.stepping));
        }
        self.later(1, Item::EndNode { node: self.stepping });
    }

    fn tell(&mut self, to: ProcId, message: FromNode) {
        let process: Pid = (self.stepping, to);
        match &message {
            // Whoever called it may hear that it is dead, and let go, before it is.
            FromNode::Exit { .. } => self.oracle.died(process),
            FromNode::Inherit { .. } => self.counts.estates += 1,
            _ => {}
        }
        self.tell_process(process, message);
    }

    fn answer(&mut self, to: Door, request: u64, answer: Answer) {
        let to = ProcId::from_u64(to as u64).expect("a door is named after its process");
        self.tell(to, FromNode::Answer { request, answer });
    }

    fn listening(&self, _: Door) -> Listening {
        Listening::Keeps
    }

    fn hang_up(&mut self, _: Door) {}

    fn logs_taken(&mut self, _: ProcId, _: u64) {}

    fn last_words_wanted(&mut self, _: ProcId, _: JobId, _: Vec<ProcId>) {}

    fn stop(&mut self) {}

    fn enter(&mut self, who: ProcId, _: i32) {
        self.owns_something((self.stepping, who), false);
    }

    fn start_worker(&mut self, who: ProcId) -> Result<(), Box<str>> {
        let is_up = !(self.has_faults() && self.rng.chance(self.settings.start_fails));
        self.counts.not_started += u64::from(!is_up);
        let us = self.rng.between(2_000, 8_000);
        self.later(us, Item::Forked { process: (self.stepping, who), is_up });
        Ok(())
    }

    fn start_keeper(&mut self, who: ProcId, past: Past) -> bool {
        self.queue.at_once(self.now, Item::KeeperStarted { process: (self.stepping, who), past });
        true
    }

    fn kill(&mut self, who: ProcId, _: i32) {
        let process: Pid = (self.stepping, who);
        self.oracle.died(process);
        self.later(KILL_US, Item::Kill { process, exit: WorkerExit::Signal(9, model::Remains::default()) });
    }

    fn is_needed(&self, who: ProcId) -> bool {
        self.needed.contains(&(self.stepping, who))
    }

    fn assigned(&mut self, _: ProcId) {}

    fn label(&self, _: ProcId) -> Box<str> {
        "".into()
    }

    fn last_errors(&self, _: ProcId) -> String {
        String::new()
    }

    fn own_bytes(&self, _: i32) -> u64 {
        0
    }

    fn died(&mut self, _: Dead) {}

    fn has_left(&self, dead: ProcId) -> bool {
        self.journals.contains_key(&(self.stepping, dead))
    }

    fn bury(&mut self, dead: ProcId) {
        self.memories[self.stepping].bury(dead);
    }

    fn level(&self, _: u32) -> Level {
        Level { tail: 0, head: 0 }
    }

    fn reset_ring(&mut self, _: u32) {}

    fn grant(&mut self, _: ProcId, _: u64) -> Result<(u64, u64), NoRoom> {
        Err(NoRoom::TooLarge)
    }

    fn take_back(&mut self, _: ProcId, _: u64, _: u64) {}

    fn sweep(&mut self) {}

    fn store(&self) -> StoreUse {
        StoreUse::default()
    }

    fn files(&self) -> (u64, u64) {
        (0, 0)
    }

    fn file_function(&mut self, _: FunctionId, _: &[u8]) -> bool {
        false
    }

    fn filed_function(&self, _: FunctionId) -> Option<Vec<u8>> {
        None
    }

    fn remove_function(&mut self, _: FunctionId) {}
}
