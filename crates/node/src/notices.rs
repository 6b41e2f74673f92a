//! What drivers should read once: warnings with a kind that programs know, and a text for people.

use model::{JobId, LeaseId, Quantity};
use rustc_hash::FxHashSet;
use wire::control::FromNode;

use crate::looped::Node;
use crate::procs::Kind;

/// Workers per CPU from which on the user is told.
const POOL_LARGE: u32 = 3;

/// What was told already.
#[derive(Default)]
pub(crate) struct Told {
    /// Workers per CPU.
    pool: u32,
    /// Needs that no node can meet.
    infeasible: FxHashSet<(JobId, String)>,
}

impl Told {
    pub(crate) fn forget(&mut self, job: JobId) {
        self.infeasible.retain(|(other, _)| *other != job);
    }
}

impl Node {
    /// Something every driver should read.
    pub(crate) fn notice_all(&mut self, kind: &str, text: &str) {
        for (driver, _) in self.listeners(None) {
            self.tell(driver, &FromNode::Notice { kind: kind.into(), text: text.into() });
        }
    }

    /// Something one job's driver should read.
    pub(crate) fn notice_job(&mut self, job: JobId, kind: &str, text: &str) {
        for (driver, _) in self.listeners(Some(job)) {
            self.tell(driver, &FromNode::Notice { kind: kind.into(), text: text.into() });
        }
    }

    /// One more worker is up: are very many of them in use? Told at three and four per CPU, then at each doubling.
    pub(crate) fn warn_of_large_pool(&mut self) {
        let cpus = u32::try_from(self.options.total.cpu.0 / Quantity::PARTS).unwrap_or(1).max(1);
        let workers = self.procs.iter().filter(|proc| proc.kind == Kind::Worker).count();
        let workers = workers.saturating_sub(self.scheduler.idle_count());
        let per_cpu = workers as u32 / cpus;
        let is_step = per_cpu == POOL_LARGE || per_cpu.is_power_of_two();
        if per_cpu < POOL_LARGE || per_cpu <= self.told.pool || !is_step {
            return;
        }
        self.told.pool = per_cpu;
        let text = format!(
            "Warning: {workers} worker processes are in use on this node, which has {cpus} CPUs. Each takes memory. Many actors make \
             that many, and so do many tasks that wait for other tasks."
        );
        self.notice_all("worker_pool_large", &text);
    }

    /// This node can never run what the lease is for; told once for each job and need.
    pub(crate) fn on_infeasible(&mut self, lease: LeaseId) {
        let actor = self.actor_leases.get(&lease).and_then(|(actor, _)| self.actors.get(*actor));
        let (job, need) = match actor {
            Some(record) => (Some(record.creation.job), Some(record.creation.options.need.to_place.to_string())),
            None => {
                let need = self.lease_needs.get(&lease).map(|need| need.to_place.to_string());
                (self.procs.get(lease.owner).map(|proc| proc.job), need)
            }
        };
        let (Some(job), Some(need)) = (job, need) else { return };
        if !self.told.infeasible.insert((job, need.clone())) {
            return;
        }
        let text = format!(
            "(autoscaler) No available node types can fulfill resource request {need}. This node has {}; it waits until a node \
             that can is added.",
            self.scheduler.total()
        );
        self.notice_job(job, "infeasible", &text);
    }
}
