//! What `eagleray status` shows: the node at a glance, and who waits for what.

use wire::status::{ActorPhase, ActorStatus, ProcessState, ProcessStatus, Status};
use wire::waits::{Awaited, LeaseReason, WaitRecord, Waiter};

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::procs::{Kind, Proc};

impl<B: Body> Hub<B> {
    pub(crate) fn state_of(&self, step: &Step<'_, B>, proc: &Proc) -> ProcessState {
        match proc.kind() {
            Kind::Driver { .. } => ProcessState::Driver,
            Kind::Starting => ProcessState::Starting,
            Kind::Keeper => ProcessState::Keeper,
            Kind::Worker => {
                let label = step.body.label(proc.id());
                if label.is_empty() { ProcessState::Idle } else { ProcessState::Busy(label) }
            }
        }
    }

    pub(crate) fn status(&self, step: &Step<'_, B>) -> Status {
        let list =
            |resources: model::Resources| resources.iter().map(|(name, amount)| (Box::from(name), amount.0)).collect();
        let (now, store) = (step.now, step.body.store());
        let mut processes: Vec<ProcessStatus> = self
            .procs
            .iter()
            // It is no process of its own.
            .filter(|proc| *proc.kind() != Kind::Keeper)
            .map(|proc| ProcessStatus {
                pid: proc.pid(),
                state: self.state_of(step, proc),
                own_bytes: step.body.own_bytes(proc.pid()),
                waits: proc.waits_at(now),
            })
            .collect();
        processes.sort_by_key(|process| process.pid);
        let actors = self
            .actors
            .table()
            .iter()
            .filter_map(|record| {
                let actor = record.creation.actor;
                let (phase, pid) = match record.state {
                    control::ActorState::Pending => (ActorPhase::Pending, 0),
                    control::ActorState::Alive { worker } => (ActorPhase::Alive, self.pid_of(worker)),
                    control::ActorState::Restarting => (ActorPhase::Restarting, 0),
                    control::ActorState::Dead(_) => return None,
                };
                let options = &record.creation.options;
                Some(ActorStatus {
                    actor,
                    class_name: options.class_name.clone(),
                    name: options.name.clone(),
                    phase,
                    pid,
                })
            })
            .collect();
        Status {
            total: list(self.leases.scheduler().total()),
            free: list(self.leases.scheduler().available()),
            store: (store.used, store.capacity),
            values: (store.copies, store.kept),
            pid: self.options.pid,
            processes,
            actors,
            waiting: self.waiting_here(now),
        }
    }

    /// Leases, actors and placement groups that wait.
    pub(crate) fn waiting_here(&self, now: model::Tick) -> Vec<WaitRecord> {
        self.leases
            .scheduler()
            .waiting()
            .map(|wait| WaitRecord {
                who: match self.actors.life_of(&wait.lease) {
                    Some((actor, _)) => Waiter::Actor(actor),
                    None => Waiter::Lease {
                        name: self.leases.name(&wait.lease),
                        pid: self.procs.get(wait.lease.owner).map_or(0, Proc::pid),
                    },
                },
                on: Awaited::Resources { why: reason(wait.reason), need: wait.need.to_place.clone() },
                waited_ms: now.ms_since(wait.since),
            })
            .chain(self.seeking(now))
            .chain(self.waiting_groups(now))
            .collect()
    }
}

fn reason(reason: scheduler::WaitReason) -> LeaseReason {
    match reason {
        scheduler::WaitReason::NoResources => LeaseReason::InUse,
        scheduler::WaitReason::NoWorker => LeaseReason::Starting,
        scheduler::WaitReason::NoMoreWorkers => LeaseReason::NoMoreWorkers,
        scheduler::WaitReason::Infeasible => LeaseReason::Infeasible,
        scheduler::WaitReason::LowMemory => LeaseReason::LowMemory,
        scheduler::WaitReason::Capped => LeaseReason::Capped,
    }
}
