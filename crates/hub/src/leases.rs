//! Carries the scheduler's decisions out.

use model::{JobId, LeaseId, Need, ProcId};
use rustc_hash::FxHashMap;
use scheduler::{LeaseKind, Scheduler};
use wire::control::FromNodeOf;

use crate::body::{Body, Step};
use crate::hub::{Hub, Options};
use crate::procs::Proc;

pub(crate) struct Leases {
    scheduler: Scheduler,
    /// Leases of tasks, from their request to their end.
    of_tasks: FxHashMap<LeaseId, Wanted>,
    /// The last of those that each worker had.
    of_worker: FxHashMap<ProcId, LeaseId>,
}

/// What a lease of tasks is for.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) need: Need,
    pub(crate) job: JobId,
    /// The function that waits, for people.
    pub(crate) name: Box<str>,
}

impl Leases {
    pub(crate) fn new(options: &Options) -> Self {
        let scheduler = Scheduler::new(scheduler::Options {
            total: options.total.clone(),
            gpu_names: options.gpu_names.clone(),
            prestart: options.prestart,
            idle_ms_max: options.idle_ms_max,
            workers_max: options.workers_max,
            starts_max: options.starts_max,
        });
        Self { scheduler, of_tasks: FxHashMap::default(), of_worker: FxHashMap::default() }
    }

    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    pub(crate) fn need(&self, lease: &LeaseId) -> Option<&Need> {
        self.of_tasks.get(lease).map(|wanted| &wanted.need)
    }

    fn job(&self, lease: &LeaseId) -> Option<JobId> {
        self.of_tasks.get(lease).map(|wanted| wanted.job)
    }

    /// Another node takes it over.
    pub(crate) fn take_wanted(&mut self, lease: &LeaseId) -> Option<Wanted> {
        self.of_tasks.remove(lease)
    }

    pub(crate) fn note_wanted(&mut self, lease: LeaseId, wanted: Wanted) {
        self.of_tasks.insert(lease, wanted);
    }

    pub(crate) fn name(&self, lease: &LeaseId) -> Box<str> {
        self.of_tasks.get(lease).map(|wanted| wanted.name.clone()).unwrap_or_default()
    }

    pub(crate) fn worker_retired(&mut self, worker: ProcId) -> Option<LeaseId> {
        self.of_worker.remove(&worker)
    }

    /// The leases that it had asked for are over, and so is the one that it served: its owner never gives that back.
    pub(crate) fn process_gone(&mut self, gone: ProcId) -> Option<LeaseId> {
        self.of_tasks.retain(|lease, _| lease.owner != gone);
        let served = self.of_worker.remove(&gone)?;
        self.of_tasks.remove(&served);
        Some(served)
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = &ProcId> {
        self.of_tasks.keys().map(|lease| &lease.owner).chain(self.of_worker.keys())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.of_tasks.is_empty() && self.of_worker.is_empty() && self.scheduler.is_at_rest()
    }
}

impl<B: Body> Hub<B> {
    /// Tells the scheduler something and does what it says.
    pub(crate) fn schedule(&mut self, step: &mut Step<'_, B>, event: scheduler::Event) {
        let mut effects = Vec::new();
        self.leases.scheduler.step(step.now, event, &mut effects);
        for effect in effects {
            self.on_scheduled(step, effect);
        }
        if self.leases.scheduler.has_all_workers() {
            self.note_full_node(step.now);
        }
        self.load_changed(step.now);
    }

    fn on_scheduled(&mut self, step: &mut Step<'_, B>, effect: scheduler::Effect) {
        match effect {
            scheduler::Effect::StartWorker => self.start_worker(step),
            scheduler::Effect::Granted { lease, worker, grant } => self.on_granted(step, lease, worker, grant),
            scheduler::Effect::Revoke(lease) => {
                self.tell(step, lease.owner, FromNodeOf::Revoke { number: lease.number });
            }
            scheduler::Effect::EndWorker(worker) => self.retire_worker(step, worker),
            scheduler::Effect::Infeasible(lease) => self.on_infeasible(step, lease),
            scheduler::Effect::GroupPlaced(group) => {
                self.group_changed(step, control::GroupEvent::Placed(group));
            }
            scheduler::Effect::GroupPrepared { group, attempt, is_held } => {
                self.on_prepared_here(step, group, attempt, is_held);
            }
            scheduler::Effect::GroupInfeasible(group) => self.on_infeasible_group(step, group),
            scheduler::Effect::Refused(lease) => self.on_refused(step, lease),
            scheduler::Effect::KillWorker(worker) => {
                self.end_worker(step, worker, false, "its placement group was removed");
            }
        }
    }

    pub(crate) fn request_lease(
        &mut self,
        step: &mut Step<'_, B>,
        lease: LeaseId,
        job: JobId,
        need: Need,
        name: Box<str>,
    ) {
        // A request that comes late, behind the lease's return, asks for nothing.
        if !self.lives(lease.owner) || self.leases.scheduler().was_returned(&lease) {
            return;
        }
        self.estates.lease_wanted(lease, job);
        let wanted = Wanted { need: self.settled(need), job, name };
        if self.is_for_others(step, lease, &wanted) {
            return;
        }
        let Wanted { need, job, name } = wanted;
        if let Some(why) = self.never_here(&need.at) {
            return self.refuse(step, lease, model::Failure::Unschedulable(why));
        }
        self.leases.of_tasks.insert(lease, Wanted { need: need.clone(), job, name });
        self.schedule(step, scheduler::Event::LeaseRequested { lease, job, kind: LeaseKind::Tasks, need });
        // The owner may be known to be dead by now, or the lease be refused.
        if !self.leases.scheduler.has_lease(&lease) {
            self.forget_lease(step, &lease);
        }
    }

    pub(crate) fn return_lease(&mut self, step: &mut Step<'_, B>, lease: LeaseId) {
        self.forget_lease(step, &lease);
        self.return_elsewhere(step, lease);
        self.overflow.seekers.take(&lease);
        self.schedule(step, scheduler::Event::LeaseReturned(lease));
    }

    pub(crate) fn forget_lease(&mut self, step: &mut Step<'_, B>, lease: &LeaseId) {
        self.leases.of_tasks.remove(lease);
        if let Some(job) = self.estates.lease_ended(lease) {
            self.job_needs_less(step, job);
        }
    }

    /// There will be no worker for this lease.
    pub(crate) fn refuse(&mut self, step: &mut Step<'_, B>, lease: LeaseId, why: model::Failure) {
        self.forget_lease(step, &lease);
        self.tell(step, lease.owner, FromNodeOf::LeaseRefused { number: lease.number, why });
    }

    /// tour(actor) 4: a worker is there: it gets the spec, and whoever made the actor gets rings to it.
    fn on_granted(&mut self, step: &mut Step<'_, B>, lease: LeaseId, worker: ProcId, grant: scheduler::Grant) {
        let life = self.actors.life_of(&lease);
        let creation = life.and_then(|(actor, _)| self.actors.table().get(actor)).map(|record| &record.creation);
        let lodging = self.lodgings.here(&lease);
        let (job, need) = match (life, creation, lodging) {
            (Some(_), creation, _) => {
                (creation.map(|creation| creation.job), creation.map(|creation| &creation.options.need))
            }
            (None, _, Some(lodging)) => (Some(lodging.job), Some(&lodging.need)),
            (None, _, None) => (self.leases.job(&lease), self.leases.need(&lease)),
        };
        let is_for_actor = life.is_some() || lodging.is_some();
        let need = need.cloned().unwrap_or_default();
        if let Some(job) = job {
            // One that owns something lives on for that; an actor may be killed at any time, and what its process owns would go with it.
            let is_spoilt = self.procs.get(worker).is_some_and(|proc| proc.is_spoilt_for(job, &need.env));
            if is_spoilt || (is_for_actor && step.body.is_needed(worker)) {
                return self.pass_over(step, worker, lease, job);
            }
        }
        self.assign(step, worker, job, &grant, need);
        if let Some((actor, incarnation)) = life {
            return self.act(step, control::Event::Placed { actor, worker, incarnation });
        }
        if self.say_lodged(step, lease, worker) {
            return;
        }
        let pid = self.procs.get(worker).map_or(0, Proc::pid);
        if self.link(step, lease.owner, worker) {
            self.leases.of_worker.insert(worker, lease);
            self.tell(step, lease.owner, FromNodeOf::Granted { number: lease.number, worker, pid, gpus: grant.gpus });
        } else {
            self.forget_lease(step, &lease);
            self.schedule(step, scheduler::Event::LeaseReturned(lease));
            self.tell(step, lease.owner, FromNodeOf::Revoke { number: lease.number });
        }
    }

    /// Another worker is found for the lease.
    fn pass_over(&mut self, step: &mut Step<'_, B>, worker: ProcId, lease: LeaseId, job: JobId) {
        self.retire_worker(step, worker);
        self.schedule(step, scheduler::Event::WorkerRetired(worker));
        match self.actors.life_of(&lease) {
            Some((actor, incarnation)) => self.place_actor(step, actor, incarnation),
            None => {
                let lodging = self.lodgings.here(&lease).map(|lodging| &lodging.need);
                let kind = if lodging.is_some() { LeaseKind::Actor } else { LeaseKind::Tasks };
                let need = lodging.or_else(|| self.leases.need(&lease)).cloned().unwrap_or_default();
                self.schedule(step, scheduler::Event::LeaseRequested { lease, job, kind, need });
            }
        }
    }

    /// A worker has served as many calls as it may. For the scheduler it is gone; its lease's owner sends nothing more to it.
    pub(crate) fn on_retiring(&mut self, step: &mut Step<'_, B>, worker: ProcId) {
        let Some(proc) = self.procs.get_mut(worker) else { return };
        proc.retire();
        proc.ends_because("it had served as many calls as it may (max_calls)");
        if let Some(lease) = self.leases.worker_retired(worker) {
            self.tell(step, lease.owner, FromNodeOf::Revoke { number: lease.number });
        }
        self.schedule(step, scheduler::Event::WorkerRetired(worker));
    }

    /// Tells a worker what its lease gives it and for whom it works.
    fn assign(
        &mut self,
        step: &mut Step<'_, B>,
        worker: ProcId,
        job: Option<JobId>,
        grant: &scheduler::Grant,
        need: Need,
    ) {
        let Some(job) = job else { return };
        let (namespace, surroundings) = self.surroundings_of(job);
        if let Some(proc) = self.procs.get_mut(worker) {
            proc.assign(step.now, job, need.env.clone());
        }
        let resources = need.to_hold.iter().map(|(name, amount)| (Box::from(name), amount.0)).collect();
        step.body.assigned(worker);
        let (gpus, env) = (grant.gpus.clone(), need.env);
        self.tell(step, worker, FromNodeOf::Assigned { gpus, resources, job, namespace, surroundings, env });
    }

    /// Memory runs low, or does no longer.
    pub fn pressure_changed(&mut self, step: &mut Step<'_, B>, is_low: bool) {
        self.schedule(step, scheduler::Event::Pressure { is_low });
    }
}
