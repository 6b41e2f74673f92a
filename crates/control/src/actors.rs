//! The state machine: one handler per event.

use std::collections::{BTreeSet, VecDeque};

use model::{ActorDeath, ActorId, Dead, JobId, ProcId, Tick, WorkerExit};
use rustc_hash::FxHashMap;

use crate::life::{Kill, Parting};
use crate::memory::Answers;
use crate::names::Names;
use crate::{ActorState, Creation, Effect, Event, Record, Registered};

/// Each takes half a kilobyte. Who holds a handle knows by itself; this is for handles that come late, and for weak ones.
const DEAD_MAX: usize = 2_000;

/// The actors of a cluster, wherever they live: its head has the table. A node that is alone is its own head.
pub struct Actors {
    pub(crate) records: FxHashMap<ActorId, Record>,
    pub(crate) names: Names,
    /// Processes that serve or served an actor, until they are gone.
    pub(crate) by_worker: FxHashMap<ProcId, ActorId>,
    /// Owned actors that live or hold a name.
    pub(crate) by_owner: BTreeSet<(ProcId, ActorId)>,
    /// The same, by job.
    pub(crate) by_job: BTreeSet<(JobId, ActorId)>,
    /// Dead ones, for error texts; oldest death first.
    pub(crate) dead: VecDeque<ActorId>,
    pub(crate) dead_max: usize,
    answers: Answers,
    pub(crate) gone: Dead,
    /// Lives that begin later: when, and which.
    pub(crate) postponed: BTreeSet<(Tick, ActorId, u32)>,
    pub(crate) now: Tick,
}

impl Default for Actors {
    fn default() -> Self {
        Self::new()
    }
}

impl Actors {
    /// No actors yet; the last 2,000 dead ones will be remembered.
    #[must_use]
    pub fn new() -> Self {
        Self::with_dead_max(DEAD_MAX)
    }

    /// As `new`, with another bound on the dead ones that are remembered.
    #[must_use]
    pub fn with_dead_max(dead_max: usize) -> Self {
        Self {
            records: FxHashMap::default(),
            names: Names::default(),
            by_worker: FxHashMap::default(),
            by_owner: BTreeSet::new(),
            by_job: BTreeSet::new(),
            dead: VecDeque::new(),
            dead_max,
            answers: Answers::default(),
            gone: Dead::default(),
            postponed: BTreeSet::new(),
            now: Tick::default(),
        }
    }

    /// The only way to change the table. Same events, same effects.
    pub fn step(&mut self, now: Tick, event: Event, out: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        match event {
            Event::CreateRequested(creation) => self.on_create_requested(creation, out),
            Event::Placed { actor, incarnation, worker } => self.on_placed(actor, incarnation, worker, out),
            Event::Displaced { actor, death } => self.die(actor, death, Parting::Abrupt, out),
            Event::Built { actor, worker } => self.on_built(actor, worker),
            Event::BuildFailed { actor, worker, error } => self.on_build_failed(actor, worker, error, out),
            Event::Leaving { worker } => self.on_leaving(worker),
            Event::ProcessDied { process, exit } => self.on_process_died(process, exit, out),
            Event::KillRequested { actor, no_restart } => self.on_kill_requested(actor, no_restart, out),
            Event::OutOfScope(actor) => self.on_out_of_scope(actor, out),
            Event::JobEnded(job) => self.on_job_ended(job, out),
            Event::Tick => self.on_tick(out),
        }
        // Looking at everything after each step is quadratic; small tables show the same bugs.
        if cfg!(debug_assertions) && self.records.len() <= 64 {
            self.check_invariants();
        }
    }

    fn on_create_requested(&mut self, creation: Creation, out: &mut Vec<Effect>) {
        let request = creation.actor;
        let is_known = self.records.contains_key(&request);
        let answer = self.answer(&creation);
        out.push(Effect::Answer { request, answer: answer.clone() });
        if answer != Registered::Created(request) {
            self.answers.note(request, answer);
        } else if !is_known {
            self.register(creation, out);
        }
    }

    fn register(&mut self, creation: Creation, out: &mut Vec<Effect>) {
        let (actor, owner, job) = (creation.actor, creation.owner, creation.job);
        let record = Record::new(creation);
        let is_owned = record.is_owned();
        if record.holds_name {
            let options = &record.creation.options;
            self.names.insert(&options.namespace, &options.name, actor);
        }
        if is_owned {
            self.by_owner.insert((owner, actor));
            self.by_job.insert((job, actor));
        }
        self.records.insert(actor, record);
        out.push(Effect::Place { actor, incarnation: 0 });
        if is_owned && self.gone.has(owner) {
            self.die(actor, ActorDeath::OwnerDied, Parting::Abrupt, out);
        }
    }

    fn answer(&self, creation: &Creation) -> Registered {
        if self.records.contains_key(&creation.actor) {
            return Registered::Created(creation.actor);
        }
        if let Some(answer) = self.answers.get(creation.actor) {
            return answer.clone();
        }
        let options = &creation.options;
        match self.names.get(&options.namespace, &options.name).filter(|_| !options.name.is_empty()) {
            None => Registered::Created(creation.actor),
            // One that crashed may still hold its name; nobody is helped by a handle on it.
            Some(holder) if creation.get_if_exists && self.records[&holder].death().is_none() => {
                Registered::Existing(holder)
            }
            Some(_) => Registered::NameTaken,
        }
    }

    fn on_placed(&mut self, actor: ActorId, incarnation: u32, worker: ProcId, out: &mut Vec<Effect>) {
        let Some(record) = self.records.get_mut(&actor) else { return };
        let waits = matches!(record.state, ActorState::Pending | ActorState::Restarting);
        // A life that is postponed has asked for no place.
        let is_postponed = self.postponed.iter().any(|(_, postponed, _)| *postponed == actor);
        if !waits || is_postponed || record.incarnation != incarnation || self.by_worker.contains_key(&worker) {
            return;
        }
        if self.gone.has(worker) {
            // It died on the way: no constructor ran, so this costs no restart.
            return out.push(Effect::Place { actor, incarnation });
        }
        record.state = ActorState::Alive { worker };
        self.by_worker.insert(worker, actor);
        out.push(Effect::Build { actor, worker });
        self.publish(actor, out);
    }

    fn on_built(&mut self, actor: ActorId, worker: ProcId) {
        if let Some(record) = self.records.get_mut(&actor).filter(|record| record.worker() == Some(worker)) {
            (record.is_built, record.stillborn) = (true, 0);
        }
    }

    fn on_build_failed(&mut self, actor: ActorId, worker: ProcId, error: Box<[u8]>, out: &mut Vec<Effect>) {
        let Some(record) = self.records.get(&actor).filter(|record| record.worker() == Some(worker)) else { return };
        let death = ActorDeath::InitFailed(error);
        if record.incarnation == 0 {
            self.die(actor, death, Parting::Graceful, out);
        } else {
            self.restart_or_die(actor, death, Parting::Graceful, out);
        }
    }

    fn on_leaving(&mut self, worker: ProcId) {
        let actor = self.by_worker.get(&worker).copied();
        if let Some(record) = actor.and_then(|actor| self.records.get_mut(&actor)) {
            // Of an older life, the word has no weight any more.
            record.is_leaving |= record.worker() == Some(worker);
        }
    }

    /// tour(actor) 9: its process is dead: it is restarted as often as it may be, or dead for good.
    fn on_process_died(&mut self, process: ProcId, exit: WorkerExit, out: &mut Vec<Effect>) {
        self.gone.note(process);
        if let Some(actor) = self.by_worker.remove(&process) {
            self.worker_died(actor, process, exit, out);
        }
        for actor in self.owned_by(process) {
            self.die(actor, ActorDeath::OwnerDied, Parting::Abrupt, out);
            self.disown(actor);
        }
    }

    fn worker_died(&mut self, actor: ActorId, worker: ProcId, exit: WorkerExit, out: &mut Vec<Effect>) {
        let Some(record) = self.records.get(&actor).filter(|record| record.worker() == Some(worker)) else { return };
        if record.is_leaving {
            self.die(actor, ActorDeath::Exited, Parting::Gone, out);
        } else {
            self.restart_or_die(actor, ActorDeath::Crashed(exit), Parting::Gone, out);
        }
    }

    fn on_kill_requested(&mut self, actor: ActorId, no_restart: bool, out: &mut Vec<Effect>) {
        let Some(record) = self.records.get(&actor) else { return };
        match Kill::of(record, no_restart) {
            Kill::Restart => self.restart_or_die(actor, ActorDeath::Killed, Parting::Abrupt, out),
            Kill::ForGood => self.die(actor, ActorDeath::Killed, Parting::Abrupt, out),
            Kill::Again => self.release_name(actor),
        }
    }

    fn on_out_of_scope(&mut self, actor: ActorId, out: &mut Vec<Effect>) {
        if self.records.get(&actor).is_some_and(Record::is_owned) {
            self.die(actor, ActorDeath::OutOfScope, Parting::Graceful, out);
            self.disown(actor);
        }
    }

    fn on_job_ended(&mut self, job: JobId, out: &mut Vec<Effect>) {
        for actor in self.of_job(job) {
            if !self.outlives_job(actor) {
                self.die(actor, ActorDeath::OwnerDied, Parting::Graceful, out);
                self.disown(actor);
            }
        }
    }

    fn on_tick(&mut self, out: &mut Vec<Effect>) {
        while let Some((_, actor, incarnation)) = self.postponed.first().copied().filter(|(at, ..)| *at <= self.now) {
            self.postponed.pop_first();
            out.push(Effect::Place { actor, incarnation });
        }
    }
}
