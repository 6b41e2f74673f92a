//! What `eagleray status` shows: the node at a glance, and who waits for what.

use wire::status::{ActorPhase, ActorStatus, ProcessState, ProcessStatus, Status};
use wire::waits::{Awaited, LeaseReason, WaitRecord, Waiter};

use crate::looped::Node;
use crate::procs::{Kind, Proc};

impl Node {
    pub(crate) fn state_of(&self, proc: &Proc) -> ProcessState {
        match &proc.kind {
            Kind::Driver { .. } => ProcessState::Driver,
            Kind::Starting => ProcessState::Starting,
            Kind::Keeper => ProcessState::Keeper,
            Kind::Worker => {
                let label = self.segment.proc(proc.id.slot()).label();
                if label.is_empty() { ProcessState::Idle } else { ProcessState::Busy(label.into()) }
            }
        }
    }

    pub(crate) fn status(&self) -> Status {
        let list =
            |resources: model::Resources| resources.iter().map(|(name, amount)| (Box::from(name), amount.0)).collect();
        let now = net::clock::now();
        let mut processes: Vec<ProcessStatus> = self
            .procs
            .iter()
            // It is no process of its own.
            .filter(|proc| proc.kind != Kind::Keeper)
            .map(|proc| ProcessStatus {
                pid: proc.pid,
                state: self.state_of(proc),
                own_bytes: crate::memory::own_bytes(proc.pid).unwrap_or(0),
                waits: proc.waits_at(now),
            })
            .collect();
        processes.sort_by_key(|process| process.pid);
        let actors = self
            .actors
            .iter()
            .filter_map(|record| {
                let actor = record.creation.actor;
                let (phase, pid) = match record.state {
                    control::ActorState::Pending => (ActorPhase::Pending, 0),
                    control::ActorState::Alive { worker } => {
                        (ActorPhase::Alive, self.procs.get(worker).map_or(0, |proc| proc.pid))
                    }
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
            total: list(self.scheduler.total()),
            free: list(self.scheduler.available()),
            store: (self.room.host.used(), self.room.host.capacity()),
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            processes,
            actors,
            waiting: self.waiting_here(now),
        }
    }

    /// Leases, actors and placement groups that wait.
    pub(crate) fn waiting_here(&self, now: model::Tick) -> Vec<WaitRecord> {
        self.scheduler
            .waiting()
            .map(|wait| WaitRecord {
                who: match self.actor_leases.get(&wait.lease) {
                    Some((actor, _)) => Waiter::Actor(*actor),
                    None => Waiter::Lease {
                        name: self.lease_names.get(&wait.lease).cloned().unwrap_or_default(),
                        pid: self.procs.get(wait.lease.owner).map_or(0, |proc| proc.pid),
                    },
                },
                on: Awaited::Resources { why: reason(wait.reason), need: wait.need.to_place.clone() },
                waited_ms: now.ms_since(wait.since),
            })
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
