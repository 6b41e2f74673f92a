//! One dispatcher, one handler per message.

use model::{LeaseId, ProcId, WorkerExit};
use wire::abroad::Between;
use wire::control::{FromNodeOf, ToNodeOf};
use wire::logs::AboutLogs;

use crate::body::{Asker, Body, Step};
use crate::hub::Hub;
use crate::members::HEAD;
use crate::procs::{Kind, Proc};

impl<B: Body> Hub<B> {
    /// A process says something. `ToNodeOf::Hello` is the body's: who may come in, and what it maps, is no matter of the core; questions come
    /// with [`Hub::on_ask`], since visitors have some, too.
    pub fn on_message(&mut self, step: &mut Step<'_, B>, from: Asker, message: ToNodeOf<B::Letter>) {
        if let ToNodeOf::Ask { request, question } = message {
            return self.on_ask(step, from, request, question);
        }
        let Some(who) = from.who.filter(|who| self.lives(*who)) else { return };
        if let Some(node) = self.is_for(who, &message) {
            // What that keeps of it ends with it.
            if let Some(proc) = self.procs.get_mut(who) {
                proc.is_met_by(node);
            }
            let job = match &message {
                ToNodeOf::CreateActor { job, .. } => Some(*job),
                _ => None,
            };
            let home = job.and_then(|job| self.home_of(job)).map(Box::new);
            return step.body.send(node, Between::Said { by: who, message: Box::new(message), home });
        }
        match message {
            ToNodeOf::Hello(_) | ToNodeOf::Ask { .. } => {}
            ToNodeOf::RequestLease { number, job, need, name } => {
                self.request_lease(step, LeaseId { owner: who, number }, job, need, name);
            }
            ToNodeOf::ReturnLease { number } => self.return_lease(step, LeaseId { owner: who, number }),
            ToNodeOf::Blocked { blocked: true } => self.schedule(step, scheduler::Event::WorkerBlocked(who)),
            ToNodeOf::Blocked { blocked: false } => self.schedule(step, scheduler::Event::WorkerUnblocked(who)),
            ToNodeOf::CreateActor { actor, job, options, get_if_exists, spec } => {
                let spec = spec.into();
                self.create_actor(step, control::Creation { actor, owner: who, job, options, get_if_exists, spec });
            }
            ToNodeOf::WatchActor { actor } => self.watch_actor(step, actor, who),
            ToNodeOf::WatchGroup { group } => self.watch_group(step, group, who),
            ToNodeOf::RemoveGroup(group) => self.remove_group(step, Some(who), group),
            ToNodeOf::KillActor { actor, no_restart } => {
                self.act(step, control::Event::KillRequested { actor, no_restart });
            }
            ToNodeOf::ActorOutOfScope { actor } => self.act(step, control::Event::OutOfScope(actor)),
            ToNodeOf::ActorBuilt { actor, shown_as } => self.on_actor_built(step, actor, who, shown_as),
            ToNodeOf::ActorBuildFailed { actor, error } => {
                self.act(step, control::Event::BuildFailed { actor, worker: who, error: error.into() });
            }
            ToNodeOf::Leaving => self.on_leaving(step, who),
            ToNodeOf::Retiring => self.on_retiring(step, who),
            ToNodeOf::Export { function, body } => self.export(step, who, function, body),
            ToNodeOf::WantExtent { length } => self.want_extent(step, who, length),
            ToNodeOf::ReturnExtent { offset, length } => self.return_extent(step, who, offset, length),
            ToNodeOf::Holdings { number, holdings } => self.on_holdings(step, who, number, holdings),
            ToNodeOf::GaveBack { round, bytes } => self.on_gave_back(step, who, round, bytes),
            ToNodeOf::Prefetch(bulks) => step.body.prefetch(bulks),
            ToNodeOf::FreeAway(bulk) => step.body.free_away(bulk),
            ToNodeOf::InheritAway(bulk) => step.body.inherit_away(who, bulk),
            ToNodeOf::Depute { to, bulks } => step.body.keep_for(who, to, bulks),
            ToNodeOf::LinkClosed { peer } => self.on_link_closed(step, who, peer),
            ToNodeOf::WantLink { peer } => {
                if !self.link(step, who, peer) {
                    self.on_met(step, who, peer);
                }
            }
            ToNodeOf::Idle { peer, quiet } => self.on_idle(step, who, peer, quiet),
            ToNodeOf::Met { name } => self.on_met(step, who, name),
            ToNodeOf::Relay { to, message } => self.relay(step, who, to, message),
            ToNodeOf::RelayAll(messages) => {
                messages.into_iter().for_each(|(to, message)| self.relay(step, who, to, message));
            }
            ToNodeOf::KillWorker { worker } => {
                if self.procs.get(worker).is_some_and(|proc| *proc.kind() == Kind::Worker) {
                    self.end_worker(step, worker, false, "its caller ended it (a forced cancel)");
                }
            }
            ToNodeOf::Waits(waits) => {
                if let Some(proc) = self.procs.get_mut(who) {
                    proc.says_waits(step.now, waits);
                }
            }
            ToNodeOf::Logs(AboutLogs::Taken(weight)) => step.body.logs_taken(who, weight),
            ToNodeOf::Logs(AboutLogs::LastWords) => self.want_last_words(step, who),
            ToNodeOf::Notice { kind, text } => self.on_notice(step, who, &kind, &text),
            ToNodeOf::CollectGarbage => {
                for process in self.everyone_who_hears() {
                    self.tell(step, process, FromNodeOf::CollectGarbage);
                }
            }
            ToNodeOf::SettleAbroad { of, nodes } => self.settle_abroad(step, of, nodes),
            ToNodeOf::Testified { of } | ToNodeOf::HasSettled { of } => self.was_heard(step, who, of),
            ToNodeOf::Inherited { of } => self.on_inherited(step, of),
            ToNodeOf::Settled { of, serving } => {
                step.body.settled_here(of);
                self.tell_nodes_settled(step, of, &serving);
                self.on_settled(step, of, serving);
            }
            ToNodeOf::Served { worker } => self.on_served(step, worker),
            ToNodeOf::Bye => {
                if self.procs.get(who).is_some_and(Proc::is_driver) {
                    let exit = WorkerExit::Intended("its driver left (INTENDED_USER_EXIT)".into());
                    self.process_died(step, who, exit);
                }
            }
        }
    }

    fn on_leaving(&mut self, step: &mut Step<'_, B>, who: ProcId) {
        if self.lodgings.has_worker(who) {
            step.body.send(HEAD, Between::Said { by: who, message: Box::new(ToNodeOf::Leaving), home: None });
        }
        self.act(step, control::Event::Leaving { worker: who });
        let Some(proc) = self.procs.get_mut(who) else { return };
        proc.ends_because("it left by itself (INTENDED_USER_EXIT)");
        if proc.shown_as().is_some() {
            self.give_time_to_end(step, who);
        }
    }
}
