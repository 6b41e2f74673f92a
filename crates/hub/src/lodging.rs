//! Actors that live on other nodes than the head, whose table they are in.
//!
//! The head decides on which node a life of an actor begins and asks that to house it; the node has a worker for it, or sends it back at once
//! (`Bounced`). What is built there, and when it ends, the head decides on, as on a worker of its own.

use model::{ActorDeath, ActorId, LeaseId, Need, ProcId, Where, WorkerExit};
use rustc_hash::FxHashMap;
use scheduler::LeaseKind;
use wire::abroad::Between;
use wire::members::Lodging;

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::members::HEAD;
use crate::procs::Proc;

#[derive(Default)]
pub(crate) struct Lodgings {
    /// At the head: lives that other nodes house, or are to.
    out: FxHashMap<LeaseId, Guest>,
    /// At the head: where the latest life of an actor is.
    homes: FxHashMap<ActorId, u32>,
    /// Of the head's actors, those that this node houses, or is to.
    here: FxHashMap<LeaseId, Lodging>,
    workers: FxHashMap<ProcId, LeaseId>,
}

struct Guest {
    node: u32,
    lodging: Lodging,
    /// Once it has one, and its pid.
    worker: Option<(ProcId, i32)>,
}

impl Lodgings {
    pub(crate) fn here(&self, lease: &LeaseId) -> Option<&Lodging> {
        self.here.get(lease)
    }

    /// Whether this worker of this node serves an actor of the head's.
    pub(crate) fn has_worker(&self, who: ProcId) -> bool {
        self.workers.contains_key(&who)
    }

    pub(crate) fn worker_gone(&mut self, worker: ProcId) {
        if let Some(lease) = self.workers.remove(&worker) {
            self.here.remove(&lease);
        }
    }

    /// Which actor a worker of another node serves.
    pub(crate) fn actor_of(&self, worker: ProcId) -> Option<ActorId> {
        let is_it = |guest: &&Guest| guest.worker.is_some_and(|(who, _)| who == worker);
        self.out.values().find(is_it).map(|guest| guest.lodging.actor)
    }

    /// The pid of a worker of another node.
    pub(crate) fn pid_of(&self, worker: ProcId) -> Option<i32> {
        self.out.values().filter_map(|guest| guest.worker).find(|(who, _)| *who == worker).map(|(_, pid)| pid)
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = model::JobId> {
        self.here.values().map(|lodging| lodging.job)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.homes.is_empty() && self.here.is_empty() && self.workers.is_empty()
    }
}

impl<B: Body> Hub<B> {
    /// At the head: the node that a life of an actor begins on. None: this one, as far as is known.
    pub(crate) fn actor_goes_to(&mut self, need: &Need, creator: ProcId) -> Option<u32> {
        if !self.is_head() || !self.has_others() {
            return None;
        }
        match need.at {
            Where::Node(id) => self.node_by_id(id),
            Where::Bundle(_) => None,
            Where::Anywhere => {
                self.note_own_load();
                self.overflow.global.place_actor(need, creator.node()).filter(|node| *node != HEAD)
            }
        }
    }

    /// Where a life of an actor is from now on, so that the next one may go elsewhere. None: nowhere.
    pub(crate) fn count_home(&mut self, actor: ActorId, node: Option<u32>) {
        if !self.has_others() && self.lodgings.homes.is_empty() {
            return;
        }
        let before = match node {
            Some(node) => self.lodgings.homes.insert(actor, node),
            None => self.lodgings.homes.remove(&actor),
        };
        before.into_iter().for_each(|node| self.overflow.global.count_actor(node, false));
        node.into_iter().for_each(|node| self.overflow.global.count_actor(node, true));
    }

    /// At the head: another node is asked to house it.
    pub(crate) fn lodge(&mut self, step: &mut Step<'_, B>, node: u32, lodging: Lodging) {
        self.count_home(lodging.actor, Some(node));
        let home = self.home_of(lodging.job).map(Box::new);
        self.lodgings.out.insert(lodging.lease, Guest { node, lodging: lodging.clone(), worker: None });
        step.body.send(node, Between::Lodge { lodging, home });
    }

    /// At the head: lives that wait here may begin there.
    pub(crate) fn lodge_waiting(&mut self, step: &mut Step<'_, B>, need: &Need, to: u32, count: u32) {
        if !self.abroad.has(to) {
            return;
        }
        for lease in self.leases.scheduler().waiting_for(LeaseKind::Actor, need).into_iter().take(count as usize) {
            let Some((actor, incarnation)) = self.actors.life_of(&lease) else { continue };
            let Some(job) = self.actors.table().get(actor).map(|record| record.creation.job) else { continue };
            self.schedule(step, scheduler::Event::LeaseMoved(lease));
            self.lodge(step, to, Lodging { lease, actor, incarnation, need: need.clone(), job });
        }
    }

    /// From the head.
    pub(crate) fn on_lodge(&mut self, step: &mut Step<'_, B>, lodging: Lodging) {
        let Lodging { lease, job, need, .. } = lodging.clone();
        self.lodgings.here.insert(lease, lodging);
        let event = scheduler::Event::LeaseRequested { lease, job, kind: LeaseKind::Actor, need: need.clone() };
        self.schedule(step, event);
        // What asks for this very node waits here.
        if need.at == Where::Anywhere && self.leases.scheduler().lacks_room(&lease) {
            self.schedule(step, scheduler::Event::LeaseMoved(lease));
            self.lodgings.here.remove(&lease);
            self.overflow.has_changed();
            step.body.send(HEAD, Between::Bounced { lease });
        }
    }

    /// At the head: there was no room. It waits here. False: it is no actor's.
    pub(crate) fn lodging_bounced(&mut self, step: &mut Step<'_, B>, from: u32, lease: LeaseId) -> bool {
        let Some(guest) = self.lodgings.out.get(&lease) else { return false };
        if guest.node != from || guest.worker.is_some() {
            return true;
        }
        let lodging = guest.lodging.clone();
        self.lodgings.out.remove(&lease);
        self.count_home(lodging.actor, None);
        let Lodging { job, need, .. } = lodging;
        self.schedule(step, scheduler::Event::LeaseRequested { lease, job, kind: LeaseKind::Actor, need });
        true
    }

    /// A worker was found for an actor of the head's. False: the lease is no such one's.
    pub(crate) fn say_lodged(&mut self, step: &mut Step<'_, B>, lease: LeaseId, worker: ProcId) -> bool {
        let Some(lodging) = self.lodgings.here(&lease).cloned() else { return false };
        self.lodgings.workers.insert(worker, lease);
        let Some(proc) = self.procs.get_mut(worker) else { return true };
        proc.is_met_by(HEAD);
        let pid = proc.pid();
        step.body.send(HEAD, Between::Lodged { lodging, worker, pid });
        true
    }

    /// At the head: the life has its worker.
    pub(crate) fn on_lodged(&mut self, step: &mut Step<'_, B>, node: u32, lodging: &Lodging, worker: ProcId, pid: i32) {
        let Lodging { lease, actor, incarnation, .. } = *lodging;
        let Some(guest) = self.lodgings.out.get_mut(&lease).filter(|guest| guest.node == node) else {
            return step.body.send(node, Between::Unlodge { lease });
        };
        guest.worker = Some((worker, pid));
        self.act(step, control::Event::Placed { actor, worker, incarnation });
        if !self.lives(worker) {
            self.act(step, control::Event::ProcessDied { process: worker, exit: WorkerExit::Unknown });
        }
    }

    /// At the head: the life needs no place any more. False: it is not elsewhere.
    pub(crate) fn unlodge(&mut self, step: &mut Step<'_, B>, lease: LeaseId) -> bool {
        let Some(Guest { node, .. }) = self.lodgings.out.remove(&lease) else { return false };
        step.body.send(node, Between::Unlodge { lease });
        true
    }

    /// From the head.
    pub(crate) fn on_unlodge(&mut self, step: &mut Step<'_, B>, lease: LeaseId) {
        if self.lodgings.here.remove(&lease).is_some() {
            self.lodgings.workers.retain(|_, of| *of != lease);
            self.schedule(step, scheduler::Event::LeaseCancelled(lease));
        }
    }

    /// At the head: the latest life of an actor is over, or its lease is another one.
    pub(crate) fn lodging_over(&mut self, lease: &LeaseId) {
        self.lodgings.out.remove(lease);
    }

    /// At the head: that node is dead. Lives that had no worker there yet begin elsewhere; the others end with their workers.
    pub(crate) fn lodgings_without(&mut self, step: &mut Step<'_, B>, node: u32) {
        let gone = self.lodgings.out.extract_if(|_, guest| guest.node == node && guest.worker.is_none());
        let mut gone: Vec<Lodging> = gone.map(|(_, guest)| guest.lodging).collect();
        gone.sort_unstable_by_key(|lodging| (lodging.lease.owner, lodging.lease.number));
        for Lodging { actor, incarnation, .. } in gone {
            self.count_home(actor, None);
            self.place_actor(step, actor, incarnation);
        }
    }

    /// Ends the worker of an actor, wherever it is.
    pub(crate) fn end_actor_worker(&mut self, step: &mut Step<'_, B>, worker: ProcId, gracefully: bool) {
        if self.is_here(worker) {
            return self.end_worker(step, worker, gracefully, "its actor was ended");
        }
        if self.lives(worker) {
            let actor = self.lodgings.actor_of(worker);
            let death = actor.and_then(|actor| self.actors.table().get(actor)).and_then(control::Record::death);
            let is_orphan = matches!(death, Some(ActorDeath::OwnerDied));
            step.body.send(worker.node(), Between::EndWorker { worker, gracefully, is_orphan });
        }
    }

    /// The pid of an actor's worker, for people.
    pub(crate) fn pid_of(&self, worker: ProcId) -> i32 {
        self.procs.get(worker).map(Proc::pid).or_else(|| self.lodgings.pid_of(worker)).unwrap_or(0)
    }
}
