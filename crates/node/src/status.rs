//! What `eagleray status` shows: the node at a glance, and who waits for what.

use wire::status::{ActorStatus, ProcessStatus, Status, WaitRecord};

use crate::looped::Node;
use crate::procs::{Kind, Proc};

impl Node {
    /// What a process is, for people.
    pub(crate) fn role_of(&self, proc: &Proc) -> Box<str> {
        match &proc.kind {
            Kind::Driver { .. } => "driver".into(),
            Kind::Starting => "starting".into(),
            Kind::Keeper => "keeper".into(),
            Kind::Worker => {
                let label = self.segment.proc(proc.id.slot).label();
                if label.is_empty() { "idle".into() } else { label.into() }
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
                role: self.role_of(proc),
                own_bytes: crate::memory::own_bytes(proc.pid).unwrap_or(0),
                waits: proc
                    .waits
                    .iter()
                    .map(|wait| WaitRecord {
                        waited_ms: wait.waited_ms + now.ms_since(proc.waits_said),
                        ..wait.clone()
                    })
                    .collect(),
            })
            .collect();
        processes.sort_by_key(|process| process.pid);
        let actors = self
            .actors
            .iter()
            .filter_map(|record| {
                let actor = record.creation.actor;
                let (state, pid) = match record.state {
                    control::ActorState::Pending => ("PENDING", 0),
                    control::ActorState::Alive { worker } => {
                        ("ALIVE", self.procs.get(worker).map_or(0, |proc| proc.pid))
                    }
                    control::ActorState::Restarting => ("RESTARTING", 0),
                    control::ActorState::Dead(_) => return None,
                };
                let options = &record.creation.options;
                Some(ActorStatus {
                    actor,
                    class_name: options.class_name.clone(),
                    name: options.name.clone(),
                    state: state.into(),
                    pid,
                })
            })
            .collect();
        let waiting = self
            .scheduler
            .waiting()
            .map(|wait| WaitRecord {
                who: match self.actor_leases.get(&wait.lease) {
                    Some((actor, _)) => format!("actor {actor}").into(),
                    None => {
                        let name = self.lease_names.get(&wait.lease).map_or("", |name| name);
                        let pid = self.procs.get(wait.lease.owner).map_or(0, |proc| proc.pid);
                        format!("task {name} of process {pid}").into()
                    }
                },
                what: format!("{} to get {}", reason(wait.reason), wait.need.to_place).into(),
                waited_ms: now.ms_since(wait.since),
            })
            .chain(self.waiting_groups())
            .collect();
        Status {
            total: list(self.scheduler.total()),
            free: list(self.scheduler.available()),
            store: (self.room.host.used(), self.room.host.capacity()),
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            processes,
            actors,
            waiting,
        }
    }
}

fn reason(reason: scheduler::WaitReason) -> &'static str {
    match reason {
        scheduler::WaitReason::NoResources => "for others",
        scheduler::WaitReason::NoWorker => "for a worker to start,",
        scheduler::WaitReason::Infeasible => "for a node that has enough",
        scheduler::WaitReason::LowMemory => "until memory is no longer low",
        scheduler::WaitReason::Capped => "behind blocked tasks of its kind",
    }
}
