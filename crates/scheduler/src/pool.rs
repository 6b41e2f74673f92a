//! The worker processes of the node: which are idle, how many are on their way, when to start more.

use std::collections::VecDeque;

use model::{EnvVars, JobId, ProcId, Tick};
use rustc_hash::FxHashMap;

use crate::table::At;
use crate::{Effect, Options};

const BACK_OFF_MS_MIN: u64 = 100;
const BACK_OFF_MS_MAX: u64 = 10_000;

/// Workers by what they do.
pub(crate) struct Pool {
    prestart: u32,
    workers_max: u32,
    starts_max: u32,
    idle_ms_max: u64,
    workers: FxHashMap<ProcId, Worker>,
    /// Least recently used first.
    idle: VecDeque<(ProcId, Tick)>,
    /// `StartWorker` without an answer yet.
    starting: u32,
    /// Starts that failed since the last worker got a lease.
    failures: u32,
    retry_at: Tick,
}

struct Worker {
    duty: Duty,
    /// For whom it has worked. One that dies before it ever had a lease is a failed start that came late.
    home: Option<Home>,
}

/// What a process has seen and does not forget: a job's modules, a set of environment variables.
struct Home {
    job: JobId,
    env: EnvVars,
}

impl Home {
    fn is(&self, job: JobId, env: &EnvVars) -> bool {
        self.job == job && self.env == *env
    }
}

/// What a worker is for at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    Idle,
    Leased(At),
    /// Told to end; the lease whose resources it still holds.
    Ending(Option<At>),
}

impl Pool {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            prestart: options.prestart,
            workers_max: options.workers_max,
            starts_max: options.starts_max.max(1),
            idle_ms_max: options.idle_ms_max,
            workers: FxHashMap::default(),
            idle: VecDeque::new(),
            starting: 0,
            failures: 0,
            retry_at: Tick::default(),
        }
    }

    pub(crate) fn duty(&self, worker: ProcId) -> Option<Duty> {
        self.workers.get(&worker).map(|worker| worker.duty)
    }

    /// A worker came up. False: there is no room for it, and nobody asked.
    pub(crate) fn add(&mut self, now: Tick, worker: ProcId) -> bool {
        if self.starting == 0 && self.room() == 0 {
            return false;
        }
        self.starting = self.starting.saturating_sub(1);
        self.workers.insert(worker, Worker { duty: Duty::Idle, home: None });
        self.idle.push_back((worker, now));
        true
    }

    pub(crate) fn start_failed(&mut self, now: Tick) {
        if self.starting > 0 {
            self.starting -= 1;
            self.back_off(now);
        }
    }

    /// The worker that worked last takes the lease, since its caches are warm: of those that have worked for the same, else of those that
    /// have worked for nobody. If there is neither, one of the others is given; the node ends it and asks again.
    pub(crate) fn lease(&mut self, lease: At, job: JobId, env: &EnvVars) -> Option<ProcId> {
        let home = |at: &(ProcId, Tick)| self.workers[&at.0].home.as_ref();
        let same = self.idle.iter().rposition(|at| home(at).is_some_and(|home| home.is(job, env)));
        let place = same.or_else(|| self.idle.iter().rposition(|at| home(at).is_none()));
        let place = place.or_else(|| self.idle.len().checked_sub(1))?;
        let (worker, _) = self.idle.remove(place)?;
        let entry = self.workers.get_mut(&worker).expect("an idle worker is known");
        entry.duty = Duty::Leased(lease);
        if same.is_none() {
            entry.home = Some(Home { job, env: env.clone() });
        }
        self.failures = 0;
        Some(worker)
    }

    pub(crate) fn make_idle(&mut self, now: Tick, worker: ProcId) {
        self.workers.get_mut(&worker).expect("a leased worker is known").duty = Duty::Idle;
        self.idle.push_back((worker, now));
    }

    /// Ends a leased worker. `holding`: the lease that lasts until the process is gone.
    pub(crate) fn end(&mut self, worker: ProcId, holding: Option<At>, out: &mut Vec<Effect>) {
        self.workers.get_mut(&worker).expect("a leased worker is known").duty = Duty::Ending(holding);
        out.push(Effect::EndWorker(worker));
    }

    /// As `end`, at once.
    pub(crate) fn kill(&mut self, worker: ProcId, holding: At, out: &mut Vec<Effect>) {
        self.workers.get_mut(&worker).expect("a leased worker is known").duty = Duty::Ending(Some(holding));
        out.push(Effect::KillWorker(worker));
    }

    /// The process is gone; what it did last.
    pub(crate) fn remove(&mut self, now: Tick, worker: ProcId) -> Option<Duty> {
        let gone = self.workers.remove(&worker)?;
        if gone.duty == Duty::Idle {
            self.idle.retain(|(idle, _)| *idle != worker);
            if gone.home.is_none() {
                self.back_off(now);
            }
        }
        Some(gone.duty)
    }

    /// Ends the workers beyond `prestart` that nobody has used for long.
    pub(crate) fn end_unused(&mut self, now: Tick, out: &mut Vec<Effect>) {
        while self.unused_until().is_some_and(|until| until <= now) {
            let (worker, _) = self.idle.pop_front().expect("more idle workers than are kept");
            self.end(worker, None, out);
        }
    }

    /// Starts what is missing for `unmanned` leases and for the stock of idle ones.
    pub(crate) fn start(&mut self, now: Tick, unmanned: u32, out: &mut Vec<Effect>) {
        let mut count = self.missing(unmanned);
        if self.failures > 0 {
            // One probe at a time while starting fails.
            count = if now < self.retry_at || self.starting > 0 { 0 } else { count.min(1) };
        }
        self.starting += count;
        out.extend((0..count).map(|_| Effect::StartWorker));
    }

    /// When `start` or `end_unused` will next have something to do by the clock alone.
    pub(crate) fn next_tick(&self, unmanned: u32) -> Option<Tick> {
        let start = match self.failures {
            _ if self.missing(unmanned) == 0 => None,
            0 => Some(Tick::default()),
            _ => (self.starting == 0).then_some(self.retry_at),
        };
        start.into_iter().chain(self.unused_until()).min()
    }

    pub(crate) fn idle_count(&self) -> usize {
        self.idle.len()
    }

    /// How many more processes there may be.
    pub(crate) fn room(&self) -> u32 {
        self.workers_max.saturating_sub(self.workers.len() as u32 + self.starting)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ProcId, Duty)> {
        self.workers.iter().map(|(worker, entry)| (*worker, entry.duty))
    }

    /// Panics unless the idle list and the bounds hold.
    pub(crate) fn check(&self) {
        let idle = self.iter().filter(|(_, duty)| *duty == Duty::Idle).count();
        assert_eq!(idle, self.idle.len(), "SCHED-7: idle workers");
        let known = self.idle.iter().all(|(worker, _)| self.duty(*worker) == Some(Duty::Idle));
        assert!(known, "SCHED-7: the idle list names a worker that is not idle");
        assert!(self.idle.iter().is_sorted_by_key(|(_, since)| *since), "SCHED-7: idle workers out of order");
        let processes = self.workers.len() as u32 + self.starting;
        assert!(processes <= self.workers_max, "SCHED-6: {processes} processes");
        assert!(self.starting <= self.starts_max, "SCHED-6: {} processes start at once", self.starting);
    }

    fn missing(&self, unmanned: u32) -> u32 {
        let spare = self.prestart.saturating_sub(self.idle.len() as u32);
        let may_start = self.room().min(self.starts_max.saturating_sub(self.starting));
        (unmanned + spare).saturating_sub(self.starting).min(may_start)
    }

    fn unused_until(&self) -> Option<Tick> {
        let (_, since) = self.idle.front()?;
        (self.idle.len() > self.prestart as usize).then(|| since.plus_ms(self.idle_ms_max))
    }

    fn back_off(&mut self, now: Tick) {
        let ms = (BACK_OFF_MS_MIN << self.failures.min(10)).min(BACK_OFF_MS_MAX);
        self.failures += 1;
        self.retry_at = now.plus_ms(ms);
    }
}
