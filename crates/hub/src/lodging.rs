//! Actors that live on other nodes than the head, whose table they are in.
//!
//! The head decides on which node a life of an actor begins and asks that to house it; the node has a worker for it, or sends it back at once
//! (`Bounced`). What is built there, and when it ends, the head decides on, as on a worker of its own.

use model::{ActorDeath, ActorId, LeaseId, Need, ProcId, Where, WorkerExit};
use rustc_hash::FxHashMap;
use scheduler::{Home, LeaseKind};
use wire::abroad::Between;
use wire::members::Lodging;

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::members::HEAD;
use crate::procs::Proc;
use crate::seeking::Seeker;

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
    /// It waits there for room.
    waits: bool,
    /// Once it has one, and its pid.
    worker: Option<(ProcId, i32)>,
}

impl Lodgings {
    /// A group is no more in which one was to live: the head hears of that by itself.
    pub(crate) fn refused_here(&mut self, lease: &LeaseId) -> bool {
        self.here.remove(lease).is_some()
    }

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
    /// At the head: the node that a life of an actor begins on, this one as any other. None: nowhere is room now, as far as is known.
    fn actor_goes_to(&mut self, step: &Step<'_, B>, need: &Need, creator: ProcId) -> Option<Home> {
        match need.at {
            Where::Node(id) => self.node_by_id(id).map(|node| Home { node, waits: true }),
            Where::Anywhere | Where::Bundle(_) => {
                self.note_own_load();
                self.overflow.global.place_actor(step.now, need, creator.node())
            }
        }
    }

    /// A life of an actor begins: where there is room, or else where it waits for some.
    pub(crate) fn begin_life(&mut self, step: &mut Step<'_, B>, lodging: Lodging) {
        let is_led = self.is_head() && (self.has_others() || self.seeks(&lodging.need));
        let home = if is_led { self.actor_goes_to(step, &lodging.need, lodging.lease.owner) } else { None };
        match home {
            Some(Home { node, waits }) if node != HEAD => self.lodge(step, node, lodging, waits),
            None if is_led && self.seeks(&lodging.need) => {
                self.seek(step, lodging.lease, LeaseKind::Actor, lodging.need, lodging.job);
            }
            home => self.live_here(step, lodging, home.is_none_or(|home| home.waits)),
        }
    }

    /// At the head, or in a node that is alone: a life begins here, or waits here.
    fn live_here(&mut self, step: &mut Step<'_, B>, lodging: Lodging, waits: bool) {
        let Lodging { lease, actor, need, job, .. } = lodging;
        self.count_home(actor, Some(self.options.number));
        let kind = LeaseKind::Actor;
        self.schedule(step, scheduler::Event::LeaseRequested { lease, job, kind, need: need.clone() });
        if !waits && need.wish.is_some() && self.leases.scheduler().lacks_room(&lease) {
            self.schedule(step, scheduler::Event::LeaseMoved(lease));
            self.count_home(actor, None);
            self.seek(step, lease, kind, need, job);
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
    fn lodge(&mut self, step: &mut Step<'_, B>, node: u32, lodging: Lodging, waits: bool) {
        self.count_home(lodging.actor, Some(node));
        let home = self.home_of(lodging.job).map(Box::new);
        self.lodgings.out.insert(lodging.lease, Guest { node, lodging: lodging.clone(), waits, worker: None });
        step.body.send(node, Between::Lodge { lodging, waits, home });
    }

    /// At the head: lives that wait here may begin there.
    pub(crate) fn lodge_waiting(&mut self, step: &mut Step<'_, B>, need: &Need, to: u32, count: u32, waits: bool) {
        if to != HEAD && !self.abroad.has(to) {
            return;
        }
        let seekers = self.overflow.seekers.take_like(LeaseKind::Actor, need, count as usize);
        let left = count as usize - seekers.len();
        for Seeker { lease, job, .. } in seekers {
            let Some((actor, incarnation)) = self.actors.life_of(&lease) else { continue };
            let lodging = Lodging { lease, actor, incarnation, need: need.clone(), job };
            match to {
                HEAD => self.live_here(step, lodging, waits),
                _ => self.lodge(step, to, lodging, waits),
            }
        }
        if to == HEAD {
            return;
        }
        for lease in self.leases.scheduler().waiting_for(LeaseKind::Actor, need).into_iter().take(left) {
            let Some((actor, incarnation)) = self.actors.life_of(&lease) else { continue };
            let Some(job) = self.actors.table().get(actor).map(|record| record.creation.job) else { continue };
            self.schedule(step, scheduler::Event::LeaseMoved(lease));
            self.lodge(step, to, Lodging { lease, actor, incarnation, need: need.clone(), job }, waits);
        }
    }

    /// At the head: lives that wait on a node may begin on another one.
    pub(crate) fn move_lodgers(&mut self, step: &mut Step<'_, B>, from: u32, need: &Need, to: u32, count: u32) {
        let waits_there =
            |guest: &&Guest| guest.node == from && guest.waits && guest.worker.is_none() && guest.lodging.need == *need;
        let mut found: Vec<Lodging> =
            self.lodgings.out.values().filter(waits_there).map(|guest| guest.lodging.clone()).collect();
        found.sort_unstable_by_key(|lodging| (lodging.lease.owner, lodging.lease.number));
        found.truncate(count as usize);
        for lodging in found {
            if to != HEAD && !self.abroad.has(to) {
                return;
            }
            self.unlodge(step, lodging.lease);
            // A node to which it comes back would take the lease from before for over.
            let lodging = self.under_new_lease(lodging);
            match to {
                HEAD => self.live_here(step, lodging, false),
                _ => self.lodge(step, to, lodging, false),
            }
        }
    }

    /// From the head.
    pub(crate) fn on_lodge(&mut self, step: &mut Step<'_, B>, lodging: Lodging, waits: bool) {
        let Lodging { lease, job, need, .. } = lodging.clone();
        self.lodgings.here.insert(lease, lodging);
        let event = scheduler::Event::LeaseRequested { lease, job, kind: LeaseKind::Actor, need: need.clone() };
        self.schedule(step, event);
        if !waits && scheduler::may_move(&need) && self.leases.scheduler().lacks_room(&lease) {
            self.schedule(step, scheduler::Event::LeaseMoved(lease));
            self.lodgings.here.remove(&lease);
            self.overflow.has_changed();
            step.body.send(HEAD, Between::Bounced { lease, to: None });
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
        if self.seeks(&lodging.need) {
            self.seek(step, lease, LeaseKind::Actor, lodging.need, lodging.job);
        } else {
            self.live_here(step, lodging, true);
        }
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

    /// At the head: the life needs no place any more. False: it is not elsewhere, nor looked for.
    pub(crate) fn unlodge(&mut self, step: &mut Step<'_, B>, lease: LeaseId) -> bool {
        if self.overflow.seekers.take(&lease) {
            return true;
        }
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
        self.overflow.seekers.take(lease);
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
