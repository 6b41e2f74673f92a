//! The process table: who is here, and what is done when one dies.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use model::{JobId, ProcId, Tick, WorkerExit};
use net::segment::PROCS_MAX;
use rustc_hash::{FxHashMap, FxHashSet};
use wire::control::FromNode;
use wire::peer::Peer;
use wire::waits::WaitRecord;

use crate::looped::Node;
use crate::numbers::Numbers;

const _: () = assert!(PROCS_MAX <= ProcId::SLOT_MAX + 1);

#[derive(Default)]
pub(crate) struct Procs {
    table: FxHashMap<u16, Proc>,
    slots: Numbers,
    /// How often each slot was given out.
    epochs: Vec<u32>,
    /// Dead processes whose peers have not all said that they read everything.
    unburied: Vec<ProcId>,
    /// Workers that were told to end and are killed at that time.
    overdue: BTreeMap<Tick, Vec<ProcId>>,
}

/// What a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A user's program.
    Driver { namespace: Box<str>, surroundings: wire::Surroundings, logs: bool },
    /// Forked, not heard of yet.
    Starting,
    /// Serves tasks or an actor.
    Worker,
    /// Part of this process: takes over from others that die.
    Keeper,
}

pub(crate) struct Proc {
    pub(crate) id: ProcId,
    pub(crate) pid: i32,
    pub(crate) kind: Kind,
    pub(crate) conn: Option<usize>,
    pub(crate) job: JobId,
    /// The environment variables that its leases ask for, once it has had one.
    pub(crate) env: model::EnvVars,
    pub(crate) is_dead: bool,
    /// Why it is being ended, if it is.
    pub(crate) ending: Option<Box<str>>,
    /// How its end is to be told, where that is known better than by how the process ends: it is killed for want of memory, say.
    pub(crate) verdict: Option<WorkerExit>,
    /// When it was last given to somebody.
    pub(crate) assigned_at: Tick,
    /// It has served all it may and lives on for the values that it owns.
    pub(crate) is_retiring: bool,
    pub(crate) waits: Vec<WaitRecord>,
    /// When it said so.
    pub(crate) waits_said: Tick,
    /// Of one that serves an actor: what marks its output.
    pub(crate) shown_as: Option<Box<str>>,
    /// Who hears of its death.
    pub(crate) met: FxHashSet<ProcId>,
    pidfd: Option<OwnedFd>,
    /// What others had to say to it when it had closed its socket and was not known to be dead.
    pub(crate) undelivered: Vec<(ProcId, Peer)>,
}

impl Proc {
    /// What it said that it waits for, and for how long by now.
    pub(crate) fn waits_at(&self, now: Tick) -> Vec<WaitRecord> {
        let since = now.ms_since(self.waits_said);
        self.waits.iter().map(|wait| WaitRecord { waited_ms: wait.waited_ms + since, ..wait.clone() }).collect()
    }
}

/// How long an actor of a driver that is gone may take to end.
const ORPHAN_GRACE_MS: u64 = 1_000;

impl Procs {
    pub(crate) fn get(&self, id: ProcId) -> Option<&Proc> {
        self.table.get(&id.slot()).filter(|proc| proc.id == id && !proc.is_dead)
    }

    pub(crate) fn get_mut(&mut self, id: ProcId) -> Option<&mut Proc> {
        self.table.get_mut(&id.slot()).filter(|proc| proc.id == id && !proc.is_dead)
    }

    pub(crate) fn at_slot(&self, slot: u16) -> Option<&Proc> {
        self.table.get(&slot).filter(|proc| !proc.is_dead)
    }

    /// Dead or alive.
    pub(crate) fn any(&self, id: ProcId) -> Option<&Proc> {
        self.table.get(&id.slot()).filter(|proc| proc.id == id)
    }

    pub(crate) fn by_pid(&self, pid: i32) -> Option<ProcId> {
        self.table.values().find(|proc| proc.pid == pid && !proc.is_dead).map(|proc| proc.id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Proc> {
        self.table.values().filter(|proc| !proc.is_dead)
    }

    /// Dead or alive.
    pub(crate) fn any_mut(&mut self, id: ProcId) -> Option<&mut Proc> {
        self.table.get_mut(&id.slot()).filter(|proc| proc.id == id)
    }

    /// A slot that nobody has, and its next epoch; none if all are in use.
    fn take_slot(&mut self, node: u32) -> Option<ProcId> {
        let slot = self.slots.take(PROCS_MAX)?;
        let at = usize::from(slot);
        if self.epochs.len() <= at {
            self.epochs.resize(at + 1, 0);
        }
        self.epochs[at] += 1;
        Some(ProcId::new(node, slot, self.epochs[at]))
    }

    /// As if it had never been: its slot may be given out again.
    pub(crate) fn forget(&mut self, id: ProcId) {
        // NAME-1: one that has had all its epochs is never given out again.
        if self.table.remove(&id.slot()).is_some() && id.epoch() < ProcId::EPOCH_MAX {
            self.slots.give(id.slot());
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.overdue.keys().next().copied()
    }
}

impl Node {
    /// A slot for a new process; none if there are too many.
    pub(crate) fn add_proc(&mut self, pid: i32, kind: Kind) -> Option<ProcId> {
        let id = self.procs.take_slot(self.options.number)?;
        let slot = id.slot();
        self.segment.reset_proc(slot);
        self.segment.proc(slot).pid.store(pid, Ordering::Relaxed);
        let proc = Proc {
            id,
            pid,
            kind,
            conn: None,
            job: JobId([0; 4]),
            env: model::EnvVars::new(),
            is_dead: false,
            ending: None,
            verdict: None,
            assigned_at: Tick::default(),
            is_retiring: false,
            waits: Vec::new(),
            waits_said: Tick::default(),
            shown_as: None,
            met: FxHashSet::default(),
            pidfd: None,
            undelivered: Vec::new(),
        };
        self.procs.table.insert(slot, proc);
        Some(id)
    }

    /// Watches a driver's process: its death must not depend on its socket, which a forked child may hold open.
    pub(crate) fn watch_driver(&mut self, id: ProcId, pid: i32) {
        let Some(pid) = rustix::process::Pid::from_raw(pid) else { return };
        if pid == rustix::process::getpid() {
            return;
        }
        if let Ok(pidfd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            let _ = self.watch(pidfd.as_fd(), crate::looped::token::DRIVERS + u64::from(id.slot()));
            if let Some(proc) = self.procs.get_mut(id) {
                proc.pidfd = Some(pidfd);
            }
        }
    }

    pub(crate) fn on_driver_pidfd(&mut self, slot: u16) {
        if let Some(id) = self.procs.at_slot(slot).map(|proc| proc.id) {
            self.hear(id);
            self.process_died(id, WorkerExit::Unknown);
        }
    }

    /// A connection ended. A driver's is a good-bye; a worker that closes its socket but lives is ended.
    pub(crate) fn on_link_lost(&mut self, who: ProcId) {
        let Some(proc) = self.procs.get_mut(who) else { return };
        proc.conn = None;
        match proc.kind {
            Kind::Driver { .. } => self.process_died(who, WorkerExit::Intended("its driver left".into())),
            Kind::Keeper => self.process_died(who, WorkerExit::Unknown),
            Kind::Starting | Kind::Worker => {
                let pid = proc.pid;
                if pid > 0 {
                    self.zygote_kill(pid);
                }
            }
        }
    }

    /// A process is dead (NODE-2). Everyone who may care is told; its slot and rings are kept until they have read what it left.
    pub(crate) fn process_died(&mut self, id: ProcId, exit: WorkerExit) {
        let Some(proc) = self.procs.get_mut(id) else { return };
        let intended = proc.ending.take().map(WorkerExit::Intended);
        let exit = proc.verdict.take().or(intended).unwrap_or(exit);
        proc.is_dead = true;
        tracing::info!(process = %id, pid = proc.pid, kind = ?proc.kind, "a process has ended: {exit}");
        let (conn, job, kind) = (proc.conn.take(), proc.job, proc.kind.clone());
        let undelivered = std::mem::take(&mut proc.undelivered);
        if let Some(pidfd) = proc.pidfd.take() {
            let _ = rustix::event::epoll::delete(&self.epoll, pidfd);
        }
        if let Some(at) = conn {
            self.conns.remove(at);
        }
        self.segment.proc(id.slot()).state.store(2, Ordering::Release);
        self.segment.spin().clear(id.slot());
        self.procs.unburied.push(id);
        let heir = self.find_heir(id);
        for other in self.take_mourners(id, &kind, heir.is_some()) {
            self.tell(other, &FromNode::PeerDied { peer: id, exit: exit.clone(), heir });
        }
        for (sender, message) in undelivered {
            self.tell(sender, &FromNode::Undeliverable { to: id, message });
        }
        if kind == Kind::Starting {
            self.warn_of_failed_start(id, &exit);
        }
        self.logs_of_dead(id, &exit);
        if kind == Kind::Starting {
            self.schedule(scheduler::Event::WorkerNotStarted);
        } else {
            self.schedule(scheduler::Event::WorkerDied(id));
        }
        if !self.is_unsettled(id) {
            self.schedule(scheduler::Event::OwnerDied(id));
        }
        if let Kind::Driver { namespace, surroundings, .. } = kind {
            self.act(control::Event::JobEnded(job));
            self.group_changed(control::GroupEvent::JobEnded(job));
            self.told.forget(job);
            self.departed.insert(job, (namespace, surroundings));
            self.forget_departed();
            // Its actors may run their exit handlers, but nobody waits for what they compute.
            let at = net::clock::now().plus_ms(self.options.grace_ms_max.min(ORPHAN_GRACE_MS));
            let ending = self.procs.iter().filter(|proc| proc.ending.is_some() && proc.job == job);
            let ending: Vec<ProcId> = ending.map(|proc| proc.id).collect();
            self.procs.overdue.entry(at).or_default().extend(ending);
            // Nobody has a lease on these any more: they would live on with whatever they still wait for.
            let retiring = self.procs.iter().filter(|proc| proc.is_retiring && proc.job == job);
            for worker in retiring.map(|proc| proc.id).collect::<Vec<_>>() {
                self.end_worker(worker, false, "its driver left");
            }
        }
        self.functions.process_gone(id);
        self.room_without(id);
        self.inventories_without(id);
        self.estates_without(id);
        if let Some(lease) = self.lease_of.remove(&id) {
            self.lease_needs.remove(&lease);
            self.lease_names.remove(&lease);
        }
        self.lease_needs.retain(|lease, _| lease.owner != id);
        self.lease_names.retain(|lease, _| lease.owner != id);
        self.act(control::Event::ProcessDied { process: id, exit });
        for watchers in self.watchers.values_mut() {
            watchers.retain(|watcher| *watcher != id);
        }
        self.group_watchers.values_mut().for_each(|watchers| watchers.retain(|watcher| *watcher != id));
        // Last: nobody is linked to it, or hears of it, after this.
        self.part_from(id);
    }

    /// Jobs that are over and have no actor left need nothing any more.
    fn forget_departed(&mut self) {
        let is_dead = |record: &control::Record| matches!(record.state, control::ActorState::Dead(_));
        let of_actors = self.actors.iter().filter(|record| !is_dead(record)).map(|record| record.creation.job);
        let jobs: FxHashSet<JobId> = of_actors.chain(self.jobs_kept()).collect();
        self.departed.retain(|job, _| jobs.contains(job));
        let drivers = self.procs.iter().filter(|proc| matches!(proc.kind, Kind::Driver { .. })).map(|proc| proc.job);
        let alive = drivers.chain(self.departed.keys().copied()).collect();
        self.functions.keep(&alive);
    }

    /// NODE-1: gives back what dead processes had, once nobody needs it.
    pub(crate) fn bury(&mut self) {
        for dead in std::mem::take(&mut self.procs.unburied) {
            if !self.estates.is_unread(dead) && self.links.forget(dead) {
                self.journals.clear(dead.slot());
                self.procs.forget(dead);
                self.room.host.process_gone(dead.slot());
                store::remove_files_of(dead, &self.options.folders);
            } else {
                self.procs.unburied.push(dead);
            }
        }
    }

    /// Ends a worker: with its exit handlers and a time limit, or at once.
    pub(crate) fn end_worker(&mut self, id: ProcId, gracefully: bool, why: &str) {
        let Some(proc) = self.procs.get_mut(id) else { return };
        proc.ending.get_or_insert_with(|| why.into());
        let (pid, is_starting) = (proc.pid, proc.kind == Kind::Starting);
        if gracefully && !is_starting {
            self.tell(id, &FromNode::Exit { gracefully: true });
            self.give_time_to_end(id);
        } else if pid > 0 {
            self.zygote_kill(pid);
        }
    }

    /// A worker runs its exit handlers: it is killed if it takes too long.
    pub(crate) fn give_time_to_end(&mut self, id: ProcId) {
        let at = net::clock::now().plus_ms(self.options.grace_ms_max);
        self.procs.overdue.entry(at).or_default().push(id);
    }

    /// The scheduler does not need this worker any more. It may own values that others do need, so it decides when to go.
    pub(crate) fn retire_worker(&mut self, id: ProcId) {
        if self.ends_later(id) {
            return;
        }
        let Some(proc) = self.procs.get_mut(id) else { return };
        if proc.kind == Kind::Starting {
            return self.end_worker(id, false, "it was no longer needed");
        }
        proc.ending.get_or_insert_with(|| "it was no longer needed".into());
        self.tell(id, &FromNode::Retire);
    }

    pub(crate) fn end_overdue(&mut self, now: Tick) {
        while let Some(entry) = self.procs.overdue.first_entry().filter(|entry| *entry.key() <= now) {
            for id in entry.remove() {
                if let Some(pid) = self.procs.get(id).map(|proc| proc.pid) {
                    self.zygote_kill(pid);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::ProcId;

    use super::Kind;
    use crate::tests::Bench;

    #[test]
    fn name_1_a_slot_that_has_had_all_its_epochs_retires() {
        let mut bench = Bench::new();
        let mut add_and_end = || {
            let id = bench.node.add_proc(0, Kind::Worker).unwrap();
            bench.node.process_died(id, model::WorkerExit::Unknown);
            bench.node.procs.epochs[0] = bench.node.procs.epochs[0].max(ProcId::EPOCH_MAX - 2);
            id
        };
        assert_eq!(add_and_end(), ProcId::new(1, 0, 1));
        assert_eq!(add_and_end(), ProcId::new(1, 0, ProcId::EPOCH_MAX - 1));
        assert_eq!(add_and_end(), ProcId::new(1, 0, ProcId::EPOCH_MAX));
        assert_eq!(add_and_end(), ProcId::new(1, 1, 1), "the next slot");
        assert_eq!(add_and_end(), ProcId::new(1, 1, 2));
    }
}
