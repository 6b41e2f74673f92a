//! What dead processes leave behind goes to one heir, the keeper: a runtime without Python that lives beside the node, and starts when the
//! first process dies that has left something.
//!
//! The node knows of a dead process only whether its journal is empty. If it is not, everyone hears of the heir together with the death.
//! Until the keeper has taken all over, the dead process's room is kept; until it knows what is still under way, the workers that the dead
//! one had leased go on.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use model::{JobId, LeaseId, ProcId, Tick};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::control::FromNode;

use crate::looped::Node;
use crate::procs::Kind;

/// A keeper that has not taken over, or not settled, by then never will.
const PATIENCE_MS: u64 = 20_000;

/// Dead processes that new ones are told of. Refs of earlier ones, should any still come to a new process, are not found there.
const HEIRS_MAX: usize = 8_192;

/// Starts a keeper that joins the node through this socket. Must not wait.
#[derive(Clone)]
pub struct StartKeeper(pub Arc<dyn Fn(OwnedFd) -> bool + Send + Sync>);

impl fmt::Debug for StartKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StartKeeper")
    }
}

#[derive(Default)]
pub(crate) struct Estates {
    keeper: Option<ProcId>,
    /// Counts dead processes that have left something. Everyone counts along.
    count: u16,
    /// Dead processes that have left something, and who has it.
    heirs: Vec<(ProcId, ProcId)>,
    /// Those whose journal, or whose last words, the keeper has not read, and until when that is waited for.
    unread: FxHashMap<ProcId, Tick>,
    /// Those of which it is not known what is still under way.
    unsettled: FxHashMap<ProcId, Tick>,
    /// Their jobs.
    jobs: FxHashMap<ProcId, JobId>,
    /// Workers that the scheduler ends because their owner is dead, while that is going on.
    ended: Option<Vec<ProcId>>,
    /// Workers that go on with what a dead process had sent them; and of those the ones that shall end then.
    serving: FxHashSet<ProcId>,
    ending: FxHashSet<ProcId>,
    /// For which job the keeper wants a worker.
    lease_jobs: FxHashMap<LeaseId, JobId>,
}

impl Estates {
    pub(crate) fn heirs(&self) -> Vec<(ProcId, ProcId)> {
        self.heirs.clone()
    }

    pub(crate) fn keeper(&self) -> Option<ProcId> {
        self.keeper
    }

    /// Whether somebody has what this process left.
    pub(crate) fn has_heir(&self, dead: ProcId) -> bool {
        self.heirs.iter().any(|(of, _)| *of == dead)
    }

    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    pub(crate) fn is_unread(&self, dead: ProcId) -> bool {
        self.unread.contains_key(&dead)
    }

    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.unread.values().chain(self.unsettled.values()).min().copied()
    }

    pub(crate) fn job_of(&self, lease: &LeaseId) -> Option<JobId> {
        self.lease_jobs.get(lease).copied()
    }

    pub(crate) fn lease_ended(&mut self, lease: &LeaseId) {
        self.lease_jobs.remove(lease);
    }
}

impl Node {
    /// Who takes over from this process, which has just died. Nobody if it has left nothing.
    pub(crate) fn find_heir(&mut self, dead: ProcId) -> Option<ProcId> {
        if Some(dead) == self.estates.keeper {
            self.estates.keeper = None;
            self.estates.heirs.clear();
            return None;
        }
        let until = net::clock::now().plus_ms(PATIENCE_MS);
        if self.journals.live(dead.slot()) == 0 {
            // It may have answered calls of the dead to the keeper, who reads that before it hears of this death.
            if self.estates.keeper.is_some() {
                self.estates.unread.insert(dead, until);
            }
            return None;
        }
        let keeper = self.keeper()?;
        self.estates.count = self.estates.count.wrapping_add(1);
        if self.estates.heirs.len() >= HEIRS_MAX {
            self.estates.heirs.drain(..HEIRS_MAX / 2);
        }
        self.estates.heirs.push((dead, keeper));
        self.estates.unread.insert(dead, until);
        self.estates.unsettled.insert(dead, until);
        if let Some(proc) = self.procs.any(dead) {
            self.estates.jobs.insert(dead, proc.job);
        }
        // Also those whose connection is closed: they are about to be found dead, and what they leave may name what this one has left.
        let joined = self.procs.iter().filter(|proc| proc.kind != Kind::Starting);
        let witnesses = joined.map(|proc| proc.id).collect();
        self.tell(keeper, &FromNode::Inherit { of: dead, witnesses });
        Some(keeper)
    }

    fn keeper(&mut self) -> Option<ProcId> {
        if let Some(keeper) = self.estates.keeper {
            return Some(keeper);
        }
        let StartKeeper(start) = self.options.keeper.clone()?;
        let memory = self.memory()?;
        let (ours, theirs) = net::unix::pair().ok()?;
        let id = self.add_proc(rustix::process::getpid().as_raw_nonzero().get(), Kind::Keeper)?;
        let conn = self.add_conn_at(ours, Some(id))?;
        if let Some(proc) = self.procs.get_mut(id) {
            proc.conn = Some(conn);
        }
        // Before it has said anything: what it is told next comes behind this.
        self.welcome(conn, id, JobId([0; 4]), "", memory);
        if !start(theirs) {
            self.conns.remove(conn);
            self.procs.forget(id);
            return None;
        }
        self.estates.keeper = Some(id);
        Some(id)
    }

    /// Whether the process's leases are left as they are until it is known what runs under them.
    pub(crate) fn is_unsettled(&self, dead: ProcId) -> bool {
        self.estates.unsettled.contains_key(&dead)
    }

    pub(crate) fn on_inherited(&mut self, of: ProcId) {
        self.estates.unread.remove(&of);
        self.bury();
    }

    pub(crate) fn on_settled(&mut self, of: ProcId, serving: Vec<ProcId>) {
        if self.estates.unsettled.remove(&of).is_some() {
            self.estates.jobs.remove(&of);
            self.estates.serving.extend(serving.into_iter().filter(|worker| self.procs.get(*worker).is_some()));
            self.estates.ended = Some(Vec::new());
            self.schedule(scheduler::Event::OwnerDied(of));
            for worker in self.estates.ended.take().unwrap_or_default() {
                self.release_lease(worker);
            }
        }
    }

    /// The worker serves nobody any more. It may live on for values that the keeper has now; what its lease held is free.
    fn release_lease(&mut self, worker: ProcId) {
        if let Some(proc) = self.procs.get_mut(worker) {
            proc.is_retiring = true;
            self.lease_of.remove(&worker);
            self.schedule(scheduler::Event::WorkerRetired(worker));
        }
    }

    /// Jobs that are over, but not for the keeper.
    pub(crate) fn jobs_kept(&self) -> impl Iterator<Item = JobId> {
        let serving = self.estates.serving.iter().filter_map(|worker| self.procs.get(*worker).map(|proc| proc.job));
        self.estates.jobs.values().copied().chain(self.estates.lease_jobs.values().copied()).chain(serving)
    }

    /// True if the worker is still at work for a dead process: it ends when it has answered.
    pub(crate) fn ends_later(&mut self, worker: ProcId) -> bool {
        let is_serving = self.estates.serving.contains(&worker);
        if is_serving {
            self.estates.ending.insert(worker);
        } else if let Some(ended) = &mut self.estates.ended {
            ended.push(worker);
        }
        is_serving
    }

    pub(crate) fn on_served(&mut self, worker: ProcId) {
        self.estates.serving.remove(&worker);
        if self.estates.ending.remove(&worker) {
            self.retire_worker(worker);
            self.release_lease(worker);
        }
    }

    /// The keeper wants a worker for a job that is not its own.
    pub(crate) fn note_lease_job(&mut self, lease: LeaseId, job: JobId) {
        if Some(lease.owner) == self.estates.keeper {
            self.estates.lease_jobs.insert(lease, job);
        }
    }

    pub(crate) fn estates_without(&mut self, dead: ProcId) {
        self.estates.serving.remove(&dead);
        self.estates.ending.remove(&dead);
    }

    pub(crate) fn end_late_estates(&mut self, now: Tick) {
        let late = |table: &FxHashMap<ProcId, Tick>| -> Vec<ProcId> {
            table.iter().filter(|(_, until)| **until <= now).map(|(dead, _)| *dead).collect()
        };
        for dead in late(&self.estates.unread) {
            tracing::warn!(process = %dead, "what a dead process left was not read in time");
            self.on_inherited(dead);
        }
        for dead in late(&self.estates.unsettled) {
            tracing::warn!(process = %dead, "not everyone has said in time what a dead process had lent and borrowed");
            self.on_settled(dead, Vec::new());
        }
    }
}
