//! What is done when a process dies, or shall; and what is done once nobody needs anything of it any more (NODE-1).

use model::{JobId, ProcId, WorkerExit};
use wire::control::FromNodeOf;
use wire::members::JobHome;

use crate::body::{Body, Dead, Step};
use crate::hub::Hub;
use crate::procs::{Kind, Proc};

/// How long an actor of a driver that is gone may take to end.
const ORPHAN_GRACE_MS: u64 = 1_000;

impl<B: Body> Hub<B> {
    /// A process is dead, as those say who must know (NODE-2). Everyone who may care is told; its slot and rings are kept until they have read
    /// what it left.
    ///
    /// tour(retry) 2: the node tells whom it concerns, gives the lease back, and keeps rings and slot.
    pub fn process_died(&mut self, step: &mut Step<'_, B>, id: ProcId, exit: WorkerExit) {
        let Some(proc) = self.procs.get_mut(id) else { return };
        let (exit, kind) = proc.die(exit);
        tracing::info!(process = %id, pid = proc.pid(), ?kind, "a process has ended: {exit}");
        let job = proc.job();
        let shown_as = proc.shown_as().map(Box::from);
        let is_worker = kind == Kind::Worker;
        step.body.died(Dead { id, pid: proc.pid(), job, is_worker, shown_as, exit: exit.clone() });
        self.procs.mourn(id);
        self.inventories.asker_gone(id);
        self.watching.asker_gone(id);
        let heir = self.find_heir(step, id);
        for other in self.take_mourners(id, &kind, heir.is_some()) {
            self.tell(step, other, FromNodeOf::PeerDied { peer: id, exit: exit.clone(), heir });
        }
        self.tell_nodes_of_death(step, id, &exit, heir, matches!(kind, Kind::Driver { .. }).then_some(job));
        self.return_letters(step, id);
        if kind == Kind::Starting {
            self.warn_of_failed_start(step, id, &exit);
            self.schedule(step, scheduler::Event::WorkerNotStarted);
        } else {
            self.schedule(step, scheduler::Event::WorkerDied(id));
        }
        let orphans = if matches!(kind, Kind::Driver { .. }) { self.retiring_of(job) } else { Vec::new() };
        if !self.estates.is_unsettled(id) {
            self.end_leases_of(step, id);
        }
        if let Kind::Driver { namespace, surroundings, logs } = kind {
            self.act(step, control::Event::JobEnded(job));
            self.group_changed(step, control::GroupEvent::JobEnded(job));
            self.told.forget(job);
            self.driver_departed(step, JobHome { job, namespace, surroundings, driver: id, logs });
            self.end_orphans(step, job, orphans);
        }
        self.cuts_without(step, id);
        self.functions.process_gone(id);
        self.room_without(step, id);
        self.inventories_without(step, id);
        self.estates.process_gone(id);
        self.overflow.process_gone(id);
        self.lodgings.worker_gone(id);
        self.enquiries.process_gone(id);
        self.last_words.process_gone(id);
        if let Some(lease) = self.leases.process_gone(id) {
            self.estates.lease_ended(&lease);
        }
        self.act(step, control::Event::ProcessDied { process: id, exit });
        self.actors.process_gone(id);
        self.groups.process_gone(id);
        self.job_needs_less(step, job);
        // Last: nobody is linked to it, or hears of it, after this.
        self.part_from(step, id);
    }

    pub(crate) fn everyone_who_hears(&self) -> Vec<ProcId> {
        self.procs.iter().filter(|proc| proc.hears()).map(Proc::id).collect()
    }

    /// Workers of a job that live on for values of theirs.
    fn retiring_of(&self, job: JobId) -> Vec<ProcId> {
        let retiring = self.procs.iter().filter(|proc| proc.job() == job && proc.is_retiring());
        retiring.map(Proc::id).collect()
    }

    fn end_orphans(&mut self, step: &mut Step<'_, B>, job: JobId, retiring: Vec<ProcId>) {
        let ending = self.procs.iter().filter(|proc| proc.job() == job && proc.is_ending());
        let ending: Vec<ProcId> = ending.map(Proc::id).collect();
        if !ending.is_empty() {
            self.hurry(step, ending);
        }
        // Nobody had a lease on these any more: they would live on with whatever they still wait for.
        for worker in retiring {
            self.end_worker(step, worker, false, "its driver left");
        }
    }

    /// They may run their exit handlers, but nobody waits for what they compute.
    pub(crate) fn hurry(&mut self, step: &Step<'_, B>, ending: Vec<ProcId>) {
        self.procs.give_until(step.now.plus_ms(self.options.grace_ms_max.min(ORPHAN_GRACE_MS)), ending);
    }

    /// A connection ended. A driver's is a good-bye; a worker that closes its socket but lives is ended.
    pub fn connection_lost(&mut self, step: &mut Step<'_, B>, who: ProcId) {
        let Some(proc) = self.procs.get_mut(who) else { return };
        proc.stops_hearing();
        match proc.kind() {
            Kind::Driver { .. } => self.process_died(step, who, WorkerExit::Intended("its driver left".into())),
            Kind::Keeper => self.process_died(step, who, WorkerExit::Unknown),
            Kind::Starting | Kind::Worker => self.kill(step, who),
        }
    }

    fn kill(&self, step: &mut Step<'_, B>, who: ProcId) {
        if let Some(pid) = self.procs.get(who).map(Proc::pid).filter(|pid| *pid > 0) {
            step.body.kill(who, pid);
        }
    }

    /// Ends a worker at once, and says how that is to be told.
    pub fn kill_worker(&mut self, step: &mut Step<'_, B>, who: ProcId, verdict: WorkerExit) {
        self.condemn(who, verdict);
        self.kill(step, who);
    }

    /// NODE-1: gives back what dead processes had, once nobody needs it.
    ///
    /// tour(retry) 8: when every peer has let go, the slot and the rings may be used again (NODE-1).
    pub(crate) fn bury(&mut self, step: &mut Step<'_, B>) {
        for dead in self.procs.take_unburied() {
            if !self.estates.is_unread(dead) && self.links.forget(dead) {
                self.procs.forget(dead);
                step.body.bury(dead);
                self.note_orphans(step);
            } else {
                self.procs.mourn(dead);
            }
        }
        let Self { abroad, links, .. } = self;
        abroad.forget(|dead| links.forget(dead));
    }

    /// Ends a worker: with its exit handlers and a time limit, or at once.
    pub(crate) fn end_worker(&mut self, step: &mut Step<'_, B>, id: ProcId, gracefully: bool, why: &str) {
        let Some(proc) = self.procs.get_mut(id) else { return };
        proc.ends_because(why);
        if gracefully && *proc.kind() != Kind::Starting {
            self.tell(step, id, FromNodeOf::Exit { gracefully: true });
            self.give_time_to_end(step, id);
        } else {
            self.kill(step, id);
        }
    }

    /// A worker runs its exit handlers: it is killed if it takes too long.
    pub(crate) fn give_time_to_end(&mut self, step: &Step<'_, B>, id: ProcId) {
        self.procs.give_until(step.now.plus_ms(self.options.grace_ms_max), [id]);
    }

    /// The scheduler does not need this worker any more. It may own values that others do need, so it decides when to go.
    pub(crate) fn retire_worker(&mut self, step: &mut Step<'_, B>, id: ProcId) {
        if self.estates.ends_later(id) {
            return;
        }
        let Some(proc) = self.procs.get_mut(id) else { return };
        if *proc.kind() == Kind::Starting {
            return self.end_worker(step, id, false, "it was no longer needed");
        }
        proc.ends_because("it was no longer needed");
        self.tell(step, id, FromNodeOf::Retire);
    }

    pub(crate) fn end_overdue(&mut self, step: &mut Step<'_, B>) {
        for id in self.procs.take_overdue(step.now) {
            self.kill(step, id);
        }
    }
}
