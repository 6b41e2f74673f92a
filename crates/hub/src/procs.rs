//! The process table: who is here, what each of them is, and how it comes in.

use std::collections::{BTreeMap, BTreeSet};

use model::{EnvVars, JobId, ProcId, Tick, WorkerExit};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::Surroundings;
use wire::waits::WaitRecord;

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::numbers::Numbers;

pub(crate) struct Procs {
    node: u32,
    procs_max: u16,
    table: FxHashMap<u16, Proc>,
    slots: Numbers,
    /// How often each slot was given out.
    epochs: Vec<u32>,
    /// Dead processes that somebody has not read to the end.
    unburied: Vec<ProcId>,
    /// Workers that were told to end and are killed at that time.
    overdue: BTreeMap<Tick, Vec<ProcId>>,
}

/// What a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A user's program.
    Driver {
        /// Namespace of its actors' names.
        namespace: Box<str>,
        /// For its workers.
        surroundings: Surroundings,
        /// Whether workers' output is sent to it.
        logs: bool,
    },
    /// Forked, not heard of yet.
    Starting,
    /// Serves tasks or an actor.
    Worker,
    /// Part of the node's own process: takes over from others that die.
    Keeper,
}

/// A driver that has come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joining {
    /// The process from now on.
    pub id: ProcId,
    /// Its job.
    pub job: JobId,
}

/// What is known of a process.
#[derive(Debug)]
pub struct Proc {
    id: ProcId,
    pid: i32,
    kind: Kind,
    /// It has joined, and its connection is open.
    hears: bool,
    job: JobId,
    /// The environment variables that its leases ask for, once it has had one.
    env: EnvVars,
    is_dead: bool,
    /// Why it is being ended, if it is.
    ending: Option<Box<str>>,
    /// How its end is to be told, where that is known better than by how the process ends: it is killed for want of memory, say.
    verdict: Option<WorkerExit>,
    /// When it was last given to somebody.
    assigned_at: Tick,
    /// It has served all it may and lives on for the values that it owns.
    is_retiring: bool,
    waits: Vec<WaitRecord>,
    /// When it said so.
    waits_said: Tick,
    /// Of one that serves an actor: what marks its output.
    shown_as: Option<Box<str>>,
    /// Who hears of its death.
    met: FxHashSet<ProcId>,
    /// Other nodes that do.
    met_by_nodes: BTreeSet<u32>,
}

/// No job yet.
pub(crate) const NO_JOB: JobId = JobId([0; 4]);

impl Proc {
    fn new(id: ProcId, pid: i32, kind: Kind) -> Self {
        Self {
            id,
            pid,
            kind,
            hears: false,
            job: NO_JOB,
            env: EnvVars::new(),
            is_dead: false,
            ending: None,
            verdict: None,
            assigned_at: Tick::default(),
            is_retiring: false,
            waits: Vec::new(),
            waits_said: Tick::default(),
            shown_as: None,
            met: FxHashSet::default(),
            met_by_nodes: BTreeSet::new(),
        }
    }

    /// Its name among processes.
    #[must_use]
    pub fn id(&self) -> ProcId {
        self.id
    }

    /// Its pid; zero if it is not known yet.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Whether it is a user's program.
    #[must_use]
    pub fn is_driver(&self) -> bool {
        matches!(self.kind, Kind::Driver { .. })
    }

    /// Whether it can be told things.
    #[must_use]
    pub fn hears(&self) -> bool {
        self.hears
    }

    /// For whom it works.
    #[must_use]
    pub fn job(&self) -> JobId {
        self.job
    }

    /// When it was last given to somebody.
    #[must_use]
    pub fn assigned_at(&self) -> Tick {
        self.assigned_at
    }

    /// What marks its output, if it serves an actor.
    #[must_use]
    pub fn shown_as(&self) -> Option<&str> {
        self.shown_as.as_deref()
    }

    /// What it said that it waits for, and for how long by now.
    pub(crate) fn waits_at(&self, now: Tick) -> Vec<WaitRecord> {
        let since = now.ms_since(self.waits_said);
        self.waits.iter().map(|wait| WaitRecord { waited_ms: wait.waited_ms + since, ..wait.clone() }).collect()
    }

    pub(crate) fn says_waits(&mut self, now: Tick, waits: Vec<WaitRecord>) {
        (self.waits, self.waits_said) = (waits, now);
    }

    /// Whether the process cannot serve this job: one that has served another, or under other environment variables, keeps that job's modules
    /// and whatever was made of the variables.
    pub(crate) fn is_spoilt_for(&self, job: JobId, env: &EnvVars) -> bool {
        self.job != NO_JOB && (self.job != job || self.env != *env)
    }

    pub(crate) fn assign(&mut self, now: Tick, job: JobId, env: EnvVars) {
        (self.job, self.env, self.assigned_at) = (job, env, now);
    }

    pub(crate) fn show_as(&mut self, name: Box<str>) {
        self.shown_as = Some(name);
    }

    /// It has to hear of the other's death. False: it had to before.
    pub(crate) fn meets(&mut self, other: ProcId) -> bool {
        self.met.insert(other)
    }

    pub(crate) fn met(&self) -> impl Iterator<Item = &ProcId> {
        self.met.iter()
    }

    /// Somebody of that node has to hear of its death.
    pub(crate) fn is_met_by(&mut self, node: u32) {
        self.met_by_nodes.insert(node);
    }

    pub(crate) fn forgets(&mut self, other: ProcId) {
        self.met.remove(&other);
    }

    /// It is being ended. The first reason counts.
    pub(crate) fn ends_because(&mut self, why: &str) {
        self.ending.get_or_insert_with(|| why.into());
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    pub(crate) fn retire(&mut self) {
        self.is_retiring = true;
    }

    pub(crate) fn is_retiring(&self) -> bool {
        self.is_retiring
    }

    pub(crate) fn stops_hearing(&mut self) {
        self.hears = false;
    }

    /// It is dead from now on. Returns how its end is told, and what it was.
    pub(crate) fn die(&mut self, exit: WorkerExit) -> (WorkerExit, Kind) {
        let intended = self.ending.take().map(WorkerExit::Intended);
        (self.is_dead, self.hears) = (true, false);
        (self.verdict.take().or(intended).unwrap_or(exit), self.kind.clone())
    }
}

impl Procs {
    pub(crate) fn new(node: u32, procs_max: u16) -> Self {
        assert!(procs_max <= ProcId::SLOT_MAX, "each has a name, and the last slot stands for the node");
        Self {
            node,
            procs_max,
            table: FxHashMap::default(),
            slots: Numbers::default(),
            epochs: Vec::new(),
            unburied: Vec::new(),
            overdue: BTreeMap::new(),
        }
    }

    pub(crate) fn get(&self, id: ProcId) -> Option<&Proc> {
        self.table.get(&id.slot()).filter(|proc| proc.id == id && !proc.is_dead)
    }

    pub(crate) fn get_mut(&mut self, id: ProcId) -> Option<&mut Proc> {
        self.table.get_mut(&id.slot()).filter(|proc| proc.id == id && !proc.is_dead)
    }

    pub(crate) fn at_slot(&self, slot: u16) -> Option<&Proc> {
        self.table.get(&slot).filter(|proc| !proc.is_dead)
    }

    /// Dead or alive.
    pub(crate) fn any(&self, id: ProcId) -> Option<&Proc> {
        self.table.get(&id.slot()).filter(|proc| proc.id == id)
    }

    pub(crate) fn by_pid(&self, pid: i32) -> Option<ProcId> {
        self.iter().find(|proc| proc.pid == pid).map(|proc| proc.id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Proc> {
        self.table.values().filter(|proc| !proc.is_dead)
    }

    /// As if it had never been: its slot may be given out again.
    pub(crate) fn forget(&mut self, id: ProcId) {
        // NAME-1: one that has had all its epochs is never given out again.
        if self.table.remove(&id.slot()).is_some() && id.epoch() < ProcId::EPOCH_MAX {
            self.slots.give(id.slot());
        }
    }

    /// Nobody has to hear of its death any more. Returns who had to.
    pub(crate) fn take_met(&mut self, dead: ProcId) -> FxHashSet<ProcId> {
        let proc = self.table.get_mut(&dead.slot()).filter(|proc| proc.id == dead);
        proc.map(|proc| std::mem::take(&mut proc.met)).unwrap_or_default()
    }

    /// The same of other nodes.
    pub(crate) fn take_met_by_nodes(&mut self, dead: ProcId) -> BTreeSet<u32> {
        let proc = self.table.get_mut(&dead.slot()).filter(|proc| proc.id == dead);
        proc.map(|proc| std::mem::take(&mut proc.met_by_nodes)).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty() && self.unburied.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.overdue.keys().next().copied()
    }

    /// Whoever of these is here at that time is killed.
    pub(crate) fn give_until(&mut self, at: Tick, ids: impl IntoIterator<Item = ProcId>) {
        self.overdue.entry(at).or_default().extend(ids);
    }

    pub(crate) fn take_overdue(&mut self, now: Tick) -> Vec<ProcId> {
        let mut due = Vec::new();
        while let Some(entry) = self.overdue.first_entry().filter(|entry| *entry.key() <= now) {
            due.extend(entry.remove());
        }
        due
    }

    pub(crate) fn mourn(&mut self, dead: ProcId) {
        self.unburied.push(dead);
    }

    pub(crate) fn take_unburied(&mut self) -> Vec<ProcId> {
        std::mem::take(&mut self.unburied)
    }

    /// A slot for a new process; none if there are too many.
    fn add(&mut self, pid: i32, kind: Kind) -> Option<ProcId> {
        let slot = self.slots.take(self.procs_max)?;
        let at = usize::from(slot);
        if self.epochs.len() <= at {
            self.epochs.resize(at + 1, 0);
        }
        self.epochs[at] += 1;
        let id = ProcId::new(self.node, slot, self.epochs[at]);
        self.table.insert(slot, Proc::new(id, pid, kind));
        Some(id)
    }
}

impl<B: Body> Hub<B> {
    fn add_proc(&mut self, step: &mut Step<'_, B>, pid: i32, kind: Kind) -> Option<ProcId> {
        let id = self.procs.add(pid, kind)?;
        step.body.enter(id, pid);
        Some(id)
    }

    /// A driver comes in; it can be told things as soon as the body has welcomed it. None: there are as many processes as there can be.
    pub fn driver_joined(
        &mut self,
        step: &mut Step<'_, B>,
        pid: i32,
        namespace: Box<str>,
        surroundings: Surroundings,
        logs: bool,
    ) -> Option<Joining> {
        let job = self.jobs.next()?;
        self.look_at_job_numbers(step);
        let id = self.add_proc(step, pid, Kind::Driver { namespace, surroundings, logs })?;
        let proc = self.procs.get_mut(id)?;
        (proc.hears, proc.job) = (true, job);
        Some(Joining { id, job })
    }

    /// Forks one more worker.
    pub(crate) fn start_worker(&mut self, step: &mut Step<'_, B>) {
        let Some(id) = self.add_proc(step, 0, Kind::Starting) else {
            return self.schedule(step, scheduler::Event::WorkerNotStarted);
        };
        if let Err(why) = step.body.start_worker(id) {
            self.process_died(step, id, WorkerExit::NotStarted(why));
        }
    }

    /// A worker is forked, and has this pid. False: it is not needed any more, and was killed.
    pub fn worker_forked(&mut self, step: &mut Step<'_, B>, id: ProcId, pid: i32) -> bool {
        let is_wanted = self.procs.get_mut(id).is_some_and(|proc| {
            proc.pid = pid;
            proc.ending.is_none()
        });
        if !is_wanted {
            step.body.kill(id, pid);
        }
        is_wanted
    }

    /// A worker has joined, and was welcomed.
    pub fn worker_joined(&mut self, step: &mut Step<'_, B>, id: ProcId, pid: i32) {
        let Some(proc) = self.procs.get_mut(id).filter(|proc| proc.kind == Kind::Starting) else { return };
        (proc.kind, proc.hears) = (Kind::Worker, true);
        if proc.pid == 0 {
            proc.pid = pid;
        }
        self.tell_of_open_cuts(step, id);
        self.deliver_letters(step, id);
        self.schedule(step, scheduler::Event::WorkerReady(id));
        self.warn_of_large_pool(step);
    }

    /// The process that takes over from those that die.
    pub(crate) fn add_keeper(&mut self, step: &mut Step<'_, B>) -> Option<ProcId> {
        let id = self.add_proc(step, self.options.pid, Kind::Keeper)?;
        if !step.body.start_keeper(id, self.estates.past()) {
            self.procs.forget(id);
            return None;
        }
        self.procs.get_mut(id)?.hears = true;
        self.tell_of_open_cuts(step, id);
        Some(id)
    }

    /// How the end of this process is to be told, whatever its wait status says. The first word counts.
    pub fn condemn(&mut self, id: ProcId, verdict: WorkerExit) {
        if let Some(proc) = self.procs.get_mut(id) {
            proc.verdict.get_or_insert(verdict);
        }
    }
}

#[cfg(test)]
mod tests {
    use model::ProcId;

    use super::{Kind, Procs};

    #[test]
    fn name_1_a_slot_that_has_had_all_its_epochs_retires() {
        let mut procs = Procs::new(1, 4);
        let mut add_and_end = || {
            let id = procs.add(0, Kind::Worker).unwrap();
            procs.forget(id);
            procs.epochs[0] = procs.epochs[0].max(ProcId::EPOCH_MAX - 2);
            id
        };
        assert_eq!(add_and_end(), ProcId::new(1, 0, 1));
        assert_eq!(add_and_end(), ProcId::new(1, 0, ProcId::EPOCH_MAX - 1));
        assert_eq!(add_and_end(), ProcId::new(1, 0, ProcId::EPOCH_MAX));
        assert_eq!(add_and_end(), ProcId::new(1, 1, 1), "the next slot");
        assert_eq!(add_and_end(), ProcId::new(1, 1, 2));
    }
}
