//! Carries the scheduler's decisions out.

use model::{JobId, LeaseId, ProcId};
use scheduler::LeaseKind;
use wire::control::FromNode;

use crate::looped::Node;
use crate::procs::Kind;

impl Node {
    /// Tells the scheduler something and does what it says.
    pub(crate) fn schedule(&mut self, event: scheduler::Event) {
        let mut effects = std::mem::take(&mut self.scheduled);
        self.scheduler.step(net::clock::now(), event, &mut effects);
        let done = std::mem::take(&mut effects);
        self.scheduled = effects;
        for effect in done {
            self.on_scheduled(effect);
        }
        if self.scheduler.has_all_workers() {
            self.note_full_node();
        }
    }

    fn on_scheduled(&mut self, effect: scheduler::Effect) {
        match effect {
            scheduler::Effect::StartWorker => self.fork_worker(),
            scheduler::Effect::Granted { lease, worker, grant } => self.on_granted(lease, worker, grant),
            scheduler::Effect::Revoke(lease) => {
                self.tell(lease.owner, &FromNode::Revoke { number: lease.number });
            }
            scheduler::Effect::EndWorker(worker) => self.retire_worker(worker),
            scheduler::Effect::Infeasible(lease) => self.on_infeasible(lease),
            scheduler::Effect::GroupPlaced(group) => {
                self.group_changed(control::GroupEvent::Placed(group));
            }
            scheduler::Effect::GroupInfeasible(group) => self.on_infeasible_group(group),
            scheduler::Effect::Refused(lease) => self.on_refused(lease),
            scheduler::Effect::KillWorker(worker) => {
                self.end_worker(worker, false, "its placement group was removed");
            }
        }
    }

    fn on_granted(&mut self, lease: LeaseId, worker: ProcId, grant: scheduler::Grant) {
        let life = self.actor_leases.get(&lease).copied();
        let job = match life {
            Some((actor, _)) => self.actors.get(actor).map(|record| record.creation.job),
            None => self.estates.job_of(&lease).or_else(|| self.procs.get(lease.owner).map(|proc| proc.job)),
        };
        let need = match life {
            Some((actor, _)) => self.actors.get(actor).map(|record| record.creation.options.need.clone()),
            None => self.lease_needs.get(&lease).cloned(),
        };
        let need = need.unwrap_or_default();
        if let Some(job) = job
            && self
                .procs
                .get(worker)
                .is_some_and(|proc| proc.job != JobId([0; 4]) && (proc.job != job || proc.env != need.env))
        {
            return self.pass_over(worker, lease, job);
        }
        // An actor may be killed at any time, and what its process owns would go with it.
        if let (Some(job), Some(_)) = (job, life)
            && self.segment.proc(worker.slot()).is_needed()
        {
            return self.pass_over(worker, lease, job);
        }
        self.assign(worker, job, &grant, need);
        if let Some((actor, incarnation)) = life {
            return self.act(control::Event::Placed { actor, worker, incarnation });
        }
        let pid = self.procs.get(worker).map_or(0, |proc| proc.pid);
        self.lease_of.insert(worker, lease);
        if self.link(lease.owner, worker) {
            self.tell(lease.owner, &FromNode::Granted { number: lease.number, worker, pid, gpus: grant.gpus });
        } else {
            self.schedule(scheduler::Event::LeaseReturned(lease));
            self.tell(lease.owner, &FromNode::Revoke { number: lease.number });
        }
    }

    /// A worker that has served another job, or one under other environment variables, keeps that job's modules and whatever was made of
    /// the variables; one that owns something lives on for that. Another one is found for the lease.
    fn pass_over(&mut self, worker: ProcId, lease: LeaseId, job: JobId) {
        self.retire_worker(worker);
        self.schedule(scheduler::Event::WorkerRetired(worker));
        match self.actor_leases.get(&lease).copied() {
            Some((actor, incarnation)) => self.place_actor(actor, incarnation),
            None => {
                let need = self.lease_needs.get(&lease).cloned().unwrap_or_default();
                self.schedule(scheduler::Event::LeaseRequested { lease, job, kind: LeaseKind::Tasks, need });
            }
        }
    }

    /// A worker has served as many calls as it may. For the scheduler it is gone; its lease's owner sends nothing more to it.
    pub(crate) fn on_retiring(&mut self, worker: ProcId) {
        let Some(proc) = self.procs.get_mut(worker) else { return };
        proc.is_retiring = true;
        proc.ending.get_or_insert_with(|| "it had served as many calls as it may (max_calls)".into());
        if let Some(lease) = self.lease_of.remove(&worker) {
            self.tell(lease.owner, &FromNode::Revoke { number: lease.number });
        }
        self.schedule(scheduler::Event::WorkerRetired(worker));
    }

    /// Tells a worker what its lease gives it and for whom it works.
    fn assign(&mut self, worker: ProcId, job: Option<JobId>, grant: &scheduler::Grant, need: model::Need) {
        let Some(job) = job else { return };
        let driver = self.procs.iter().find_map(|proc| match &proc.kind {
            Kind::Driver { namespace, surroundings, .. } if proc.job == job => {
                Some((namespace.clone(), surroundings.clone()))
            }
            _ => None,
        });
        let (namespace, surroundings) = driver.or_else(|| self.departed.get(&job).cloned()).unwrap_or_default();
        if let Some(proc) = self.procs.get_mut(worker) {
            (proc.job, proc.env, proc.assigned_at) = (job, need.env.clone(), net::clock::now());
        }
        let resources = need.to_hold.iter().map(|(name, amount)| (Box::from(name), amount.0)).collect();
        self.segment.proc(worker.slot()).assignments.fetch_add(1, std::sync::atomic::Ordering::Release);
        let (gpus, env) = (grant.gpus.clone(), need.env);
        self.tell(worker, &FromNode::Assigned { gpus, resources, job, namespace, surroundings, env });
    }
}
