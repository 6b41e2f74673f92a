//! What dead processes leave behind goes to one heir, the keeper: a runtime without Python that lives beside the node, and starts when the
//! first process dies that has left something.
//!
//! The node knows of a dead process only whether it has recorded anything. If it has, everyone hears of the heir together with the death.
//! Until the keeper has taken all over, the dead process's room is kept; until it knows what is still under way, the workers that the dead
//! one had leased go on.

use std::collections::BTreeSet;

use model::{JobId, LeaseId, ProcId, Tick};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::control::FromNodeOf;

use crate::body::{Body, Past, Step};
use crate::hub::Hub;
use crate::procs::{Kind, Proc};

/// A keeper that has not taken over, or not settled, by then never will.
const PATIENCE_MS: u64 = 20_000;

/// Dead processes that new ones are told of. Refs of earlier ones, should any still come to a new process, are not found there.
const HEIRS_MAX: usize = 8_192;

#[derive(Default)]
pub(crate) struct Estates {
    keeper: Option<ProcId>,
    /// Counts dead processes that have left something. Everyone counts along.
    count: u16,
    /// Dead processes that have left something, and who has it.
    heirs: Vec<(ProcId, ProcId)>,
    /// Those whose journal, or whose last words, the keeper has not read, and until when that is waited for.
    unread: FxHashMap<ProcId, Tick>,
    /// Those of which it is not known what is still under way, until when that is waited for, and their jobs. Other nodes are waited for until
    /// they have answered, or are dead.
    unsettled: FxHashMap<ProcId, (Option<Tick>, JobId)>,
    /// Workers that the scheduler ends because their owner is dead, while that is going on.
    ended: Option<Vec<ProcId>>,
    /// Workers that go on with what a dead process had sent them, and its node; and of those the ones that shall end then.
    serving: FxHashMap<ProcId, u32>,
    ending: FxHashSet<ProcId>,
    /// For which job the keeper wants a worker.
    lease_jobs: FxHashMap<LeaseId, JobId>,
}

impl Estates {
    pub(crate) fn past(&self) -> Past {
        Past { heirs: self.heirs.clone(), estates: self.count }
    }

    pub(crate) fn keeper(&self) -> Option<ProcId> {
        self.keeper
    }

    /// Whether somebody has what this process left.
    pub(crate) fn has_heir(&self, dead: ProcId) -> bool {
        self.heir_of(dead).is_some()
    }

    /// Whether the keeper has still to read what this dead process left, or said.
    pub(crate) fn is_unread(&self, dead: ProcId) -> bool {
        self.unread.contains_key(&dead)
    }

    /// Whether the process's leases are left as they are until it is known what runs under them.
    pub(crate) fn is_unsettled(&self, dead: ProcId) -> bool {
        self.unsettled.contains_key(&dead)
    }

    /// Those of this node of which it is not known what is still under way.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = ProcId> {
        self.unsettled.keys().copied()
    }

    /// Whoever was to take over is dead. Returns those.
    pub(crate) fn heirs_gone(&mut self, node: u32) -> BTreeSet<ProcId> {
        let gone = self.heirs.extract_if(.., |(_, heir)| heir.node() == node);
        gone.map(|(_, heir)| heir).collect()
    }

    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.unread.values().chain(self.unsettled.values().filter_map(|(until, _)| until.as_ref())).min().copied()
    }

    /// The keeper wants a worker for a job that is not its own.
    pub(crate) fn lease_wanted(&mut self, lease: LeaseId, job: JobId) {
        if Some(lease.owner) == self.keeper {
            self.lease_jobs.insert(lease, job);
        }
    }

    /// For which job it was, if the keeper had it.
    pub(crate) fn lease_ended(&mut self, lease: &LeaseId) -> Option<JobId> {
        self.lease_jobs.remove(lease)
    }

    /// True if the worker is still at work for a dead process: it ends when it has answered.
    pub(crate) fn ends_later(&mut self, worker: ProcId) -> bool {
        let is_serving = self.serving.contains_key(&worker);
        if is_serving {
            self.ending.insert(worker);
        } else if let Some(ended) = &mut self.ended {
            ended.push(worker);
        }
        is_serving
    }

    pub(crate) fn process_gone(&mut self, dead: ProcId) {
        self.serving.remove(&dead);
        self.ending.remove(&dead);
        self.lease_jobs.retain(|lease, _| lease.owner != dead);
    }

    pub(crate) fn at_work(&self) -> impl Iterator<Item = &ProcId> {
        self.serving.keys().chain(&self.ending)
    }

    /// Nothing is under way. The keeper, and who it stands for, stay known.
    pub(crate) fn is_empty(&self) -> bool {
        self.unread.is_empty()
            && self.unsettled.is_empty()
            && self.serving.is_empty()
            && self.ending.is_empty()
            && self.lease_jobs.is_empty()
    }

    fn begin(&mut self, dead: ProcId, keeper: ProcId, until: Tick, job: JobId, is_alone: bool) {
        self.note_heir(dead, keeper);
        self.unread.insert(dead, until);
        self.unsettled.insert(dead, (is_alone.then_some(until), job));
    }

    /// Somebody has what a process left, which is dead.
    pub(crate) fn note_heir(&mut self, dead: ProcId, heir: ProcId) {
        self.count = self.count.wrapping_add(1);
        if self.heirs.len() >= HEIRS_MAX {
            self.heirs.drain(..HEIRS_MAX / 2);
        }
        self.heirs.push((dead, heir));
    }

    /// Who has what this process left.
    pub(crate) fn heir_of(&self, dead: ProcId) -> Option<ProcId> {
        self.heirs.iter().find(|(of, _)| *of == dead).map(|(_, heir)| *heir)
    }

    /// These workers of ours answer calls of a dead process.
    pub(crate) fn note_serving(&mut self, workers: impl Iterator<Item = ProcId>, node: u32) {
        self.serving.extend(workers.map(|worker| (worker, node)));
    }

    /// Workers that go on for dead processes of this node.
    pub(crate) fn serving_for(&self, node: u32) -> BTreeSet<ProcId> {
        self.serving.iter().filter(|(_, of)| **of == node).map(|(worker, _)| *worker).collect()
    }
}

impl<B: Body> Hub<B> {
    /// Who takes over from this process, which has just died. Nobody if it has left nothing.
    pub(crate) fn find_heir(&mut self, step: &mut Step<'_, B>, dead: ProcId) -> Option<ProcId> {
        if Some(dead) == self.estates.keeper {
            self.estates.keeper = None;
            self.estates.heirs.clear();
            return None;
        }
        let until = step.now.plus_ms(PATIENCE_MS);
        if !step.body.has_left(dead) {
            // It may have answered calls of the dead to the keeper, who reads that before it hears of this death.
            if self.estates.keeper.is_some() {
                self.estates.unread.insert(dead, until);
            }
            return None;
        }
        let keeper = self.keeper(step)?;
        let job = self.procs.any(dead)?.job();
        let nodes = self.abroad.nodes();
        self.estates.begin(dead, keeper, until, job, nodes.is_empty());
        // Also those whose connection is closed: they are about to be found dead, and what they leave may name what this one has left.
        let joined = self.procs.iter().filter(|proc| *proc.kind() != Kind::Starting);
        let witnesses = joined.map(Proc::id).chain(nodes.iter().copied().map(ProcId::of_node)).collect();
        self.tell(step, keeper, FromNodeOf::Inherit { of: dead, witnesses });
        Some(keeper)
    }

    fn keeper(&mut self, step: &mut Step<'_, B>) -> Option<ProcId> {
        if self.estates.keeper.is_none() {
            self.estates.keeper = self.add_keeper(step);
        }
        self.estates.keeper
    }

    pub(crate) fn on_inherited(&mut self, step: &mut Step<'_, B>, of: ProcId) {
        self.estates.unread.remove(&of);
        self.bury(step);
    }

    pub(crate) fn on_settled(&mut self, step: &mut Step<'_, B>, of: ProcId, serving: Vec<ProcId>) {
        if let Some((_, job)) = self.estates.unsettled.remove(&of) {
            self.note_serving(of.node(), serving);
            self.end_leases_of(step, of);
            self.job_needs_less(step, job);
            self.newcomers_wait_less(step, of);
        }
    }

    /// These answer calls of a dead process; those of other nodes are those nodes' matter.
    pub(crate) fn note_serving(&mut self, node: u32, serving: Vec<ProcId>) {
        let Self { estates, procs, .. } = self;
        estates.note_serving(serving.into_iter().filter(|worker| procs.get(*worker).is_some()), node);
    }

    /// Nothing runs any more under what a dead process had leased. Its workers end when nobody needs a value of theirs, which may be long, and
    /// whoever does may wait for their cores: so the leases are over at once.
    pub(crate) fn end_leases_of(&mut self, step: &mut Step<'_, B>, dead: ProcId) {
        let outer = self.estates.ended.replace(Vec::new());
        self.schedule(step, scheduler::Event::OwnerDied(dead));
        for worker in std::mem::replace(&mut self.estates.ended, outer).unwrap_or_default() {
            self.release_lease(step, worker);
        }
    }

    /// The worker serves nobody any more. It may live on for values that the keeper has now; what its lease held is free.
    fn release_lease(&mut self, step: &mut Step<'_, B>, worker: ProcId) {
        if let Some(proc) = self.procs.get_mut(worker) {
            proc.retire();
            self.leases.worker_retired(worker);
            self.schedule(step, scheduler::Event::WorkerRetired(worker));
        }
    }

    /// Jobs that are over, but not for the keeper.
    pub(crate) fn jobs_kept(&self) -> impl Iterator<Item = JobId> {
        let Estates { serving, unsettled, lease_jobs, .. } = &self.estates;
        let of_serving = serving.keys().filter_map(|worker| self.procs.get(*worker).map(Proc::job));
        unsettled.values().map(|(_, job)| *job).chain(lease_jobs.values().copied()).chain(of_serving)
    }

    pub(crate) fn on_served(&mut self, step: &mut Step<'_, B>, worker: ProcId) {
        if self.estates.serving.remove(&worker).is_none() {
            return;
        }
        if self.estates.ending.remove(&worker) {
            self.retire_worker(step, worker);
            self.release_lease(step, worker);
        }
        if let Some(job) = self.procs.get(worker).map(Proc::job) {
            self.job_needs_less(step, job);
        }
    }

    pub(crate) fn end_late_estates(&mut self, step: &mut Step<'_, B>) {
        let is_late = |until: &Tick| *until <= step.now;
        let unread = self.estates.unread.iter().filter(|(_, until)| is_late(until)).map(|(dead, _)| *dead);
        let unread: Vec<ProcId> = unread.collect();
        let unsettled = self.estates.unsettled.iter().filter(|(_, (until, _))| until.as_ref().is_some_and(is_late));
        let unsettled = unsettled.map(|(dead, _)| *dead);
        let unsettled: Vec<ProcId> = unsettled.collect();
        for dead in unread {
            tracing::warn!(process = %dead, "what a dead process left was not read in time");
            self.on_inherited(step, dead);
        }
        for dead in unsettled {
            tracing::warn!(process = %dead, "not everyone has said in time what a dead process had lent and borrowed");
            self.on_settled(step, dead, Vec::new());
        }
    }
}
