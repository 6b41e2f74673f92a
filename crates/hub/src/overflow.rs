//! Leases of tasks that other nodes give, and what nodes tell the head so that it knows which.
//!
//! A lease is asked for where its owner is. What waits there, and may be had anywhere, is said to the head, which offers room on another node;
//! that node grants the lease or sends it back at once (`Bounced`), so that nothing waits where nobody counts it. A lease that asks for one
//! node goes there, and waits there; and so does one for which there is no room anywhere, if it can never be had where it was asked for.

use model::{GroupId, LeaseId, Need, NodeId, ProcId, Resources, Tick, Where};
use rustc_hash::FxHashMap;
use scheduler::{Demand, Global, GroupNews, LeaseKind};
use wire::abroad::Between;
use wire::control::ToNodeOf;
use wire::members::{Load, Waiting};

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::leases::Wanted;
use crate::members::HEAD;
use crate::seeking::{Seeker, Seekers};

/// How long after a change the head hears of it, so that it hears of many at once.
const SAY_AFTER_MS: u64 = 10;
/// The same of what this node alone can never give.
const SAY_SOON_MS: u64 = 1;
/// What was offered counts as taken for so long, unless its node speaks.
const OFFER_MS: u64 = 250;
/// The head hears of so many kinds of leases that wait, of each node. Others have their turn when these have been served.
const DEMANDS_MAX: usize = 256;

#[derive(Default)]
pub(crate) struct Overflow {
    /// Leases of owners here that another node gives.
    routes: FxHashMap<LeaseId, Route>,
    /// Leases of owners here, and at the head of actors, for which a node has to be found.
    pub(crate) seekers: Seekers,
    /// What the head was told last, but for bundles.
    said: Option<Load>,
    said_bundles: FxHashMap<(GroupId, u16), Resources>,
    say_at: Option<Tick>,
    /// When it was told last.
    said_at: Tick,
    /// At the head: all nodes.
    pub(crate) global: Global,
    forget_offers_at: Option<Tick>,
}

struct Route {
    node: u32,
    wanted: Wanted,
    /// It does not come back for want of room.
    waits: bool,
    /// Once it is granted.
    worker: Option<ProcId>,
}

impl Overflow {
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.say_at.into_iter().chain(self.forget_offers_at).min()
    }

    fn say_by(&mut self, at: Tick) {
        self.say_at = Some(self.say_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// As soon as may be: at once, if nothing was said just now.
    pub(crate) fn say_now(&mut self, now: Tick) {
        self.say_by(now.max(self.said_at.plus_ms(SAY_SOON_MS)));
    }

    /// How things stand has to be said again.
    pub(crate) fn has_changed(&mut self) {
        self.said = None;
        self.said_bundles.clear();
    }

    /// A process is dead: what it had asked for is over, and so are these, which had it as their worker.
    pub(crate) fn process_gone(&mut self, gone: ProcId) -> Vec<LeaseId> {
        self.seekers.process_gone(gone);
        self.routes.retain(|lease, _| lease.owner != gone);
        self.routes.extract_if(|_, route| route.worker == Some(gone)).map(|(lease, _)| lease).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.routes.is_empty() && self.seekers.is_empty()
    }
}

impl<B: Body> Hub<B> {
    /// Whether there are others that may take what does not fit here.
    pub(crate) fn has_others(&self) -> bool {
        self.members.is_member() && self.abroad.has_nodes()
    }

    /// The head, if this node is another one. It answers before this one is a member: workers that were started ahead may ask by then.
    pub(crate) fn head_elsewhere(&self) -> Option<u32> {
        (self.members.has_begun() && self.options.number != HEAD).then_some(HEAD)
    }

    /// The living node of this id, if it is another one.
    pub(crate) fn node_by_id(&self, id: NodeId) -> Option<u32> {
        self.members.nodes().find(|info| info.id == id).map(|info| info.number)
    }

    /// Another node gives this lease if it can be had there only, and whether it waits there. None: this one does, as far as is known.
    fn lease_goes_to(&self, lease: &LeaseId, need: &Need) -> Option<(u32, bool)> {
        // A worker that was started ahead may serve others before its node is a member.
        if !self.members.has_begun() || !self.is_here(lease.owner) {
            return None;
        }
        if let Some(route) = self.overflow.routes.get(lease) {
            return Some((route.node, route.waits));
        }
        let rather = need.wish.as_ref().and_then(|wish| wish.rather);
        match need.at {
            Where::Node(id) => self.node_by_id(id),
            Where::Anywhere => rather.and_then(|id| self.node_by_id(id)),
            Where::Bundle(_) => None,
        }
        .map(|node| (node, true))
    }

    /// A process here asks for a lease. False: it is for this node's scheduler to give.
    pub(crate) fn is_for_others(&mut self, step: &mut Step<'_, B>, lease: LeaseId, wanted: &Wanted) -> bool {
        if let Some((node, waits)) = self.lease_goes_to(&lease, &wanted.need) {
            self.send_lease(step, lease, node, wanted.clone(), waits);
            return true;
        }
        if !self.is_here(lease.owner) || !self.seeks(&wanted.need) {
            return false;
        }
        if let Where::Bundle(seat) = wanted.need.at
            && self.is_group_gone(seat.group)
        {
            self.refuse(step, lease, model::Failure::GroupRemoved);
            return true;
        }
        if wanted.need.wish.as_ref().is_some_and(|wish| wish.rather == Some(self.options.id)) {
            return false;
        }
        self.leases.note_wanted(lease, wanted.clone());
        self.seek(step, lease, LeaseKind::Tasks, wanted.need.clone(), wanted.job);
        true
    }

    /// Another node is asked for the lease.
    fn send_lease(&mut self, step: &mut Step<'_, B>, lease: LeaseId, node: u32, wanted: Wanted, waits: bool) {
        // What that keeps of the owner ends with it.
        let Some(owner) = self.procs.get_mut(lease.owner) else { return };
        owner.is_met_by(node);
        let Wanted { job, need, name } = wanted.clone();
        let home = self.home_of(job).map(Box::new);
        let worker = self.overflow.routes.get(&lease).and_then(|route| route.worker);
        self.overflow.routes.insert(lease, Route { node, wanted, waits, worker });
        step.body.send(node, Between::Request { lease, job, need, name, waits, home });
    }

    /// A lease that another node gives is not needed any more. False: it is none of those.
    pub(crate) fn return_elsewhere(&mut self, step: &mut Step<'_, B>, lease: LeaseId) -> bool {
        let Some(route) = self.overflow.routes.remove(&lease) else { return false };
        let message = Box::new(ToNodeOf::ReturnLease { number: lease.number });
        step.body.send(route.node, Between::Said { by: lease.owner, message, home: None });
        true
    }

    /// Whether another node is to give this lease, or has.
    pub(crate) fn is_elsewhere(&self, lease: &LeaseId) -> bool {
        self.overflow.routes.contains_key(lease)
    }

    pub(crate) fn granted_elsewhere(&mut self, lease: LeaseId, worker: ProcId) {
        if let Some(route) = self.overflow.routes.get_mut(&lease) {
            route.worker = Some(worker);
        }
    }

    /// There will be no worker for a lease that another node was to give.
    pub(crate) fn refused_elsewhere(&mut self, step: &mut Step<'_, B>, lease: &LeaseId) {
        if self.overflow.routes.remove(lease).is_some() {
            self.return_lease(step, *lease);
        }
    }

    /// What another node has asked for waits elsewhere, unless it is to be had here only.
    pub(crate) fn bounce_if_it_waits(&mut self, step: &mut Step<'_, B>, lease: LeaseId, from: u32) {
        let is_elsewhere = from != self.options.number && self.members.is_member();
        let may_go = self.leases.need(&lease).is_some_and(scheduler::may_move);
        if !is_elsewhere || !may_go || !self.leases.scheduler().lacks_room(&lease) {
            return;
        }
        self.schedule(step, scheduler::Event::LeaseMoved(lease));
        self.forget_lease(step, &lease);
        // The head thinks that there is room.
        self.overflow.has_changed();
        step.body.send(from, Between::Bounced { lease, to: None });
    }

    pub(crate) fn on_bounced(&mut self, step: &mut Step<'_, B>, from: u32, lease: LeaseId, to: Option<u32>) {
        self.overflow.said = None;
        if self.lodging_bounced(step, from, lease) {
            return;
        }
        let is_of_route = |route: &Route| route.node == from && route.worker.is_none();
        if self.overflow.routes.get(&lease).is_some_and(is_of_route)
            && let Some(Route { wanted, .. }) = self.overflow.routes.remove(&lease)
        {
            match to {
                Some(to) if self.abroad.has(to) => self.send_lease(step, lease, to, wanted, false),
                Some(to) if to == self.options.number => self.give_here(step, lease, wanted, false),
                _ => self.request_lease(step, lease, wanted.job, wanted.need, wanted.name),
            }
        }
    }

    /// The head has said that this node gives a lease of its own.
    fn give_here(&mut self, step: &mut Step<'_, B>, lease: LeaseId, wanted: Wanted, waits: bool) {
        let Wanted { need, job, .. } = wanted.clone();
        self.leases.note_wanted(lease, wanted);
        let event = scheduler::Event::LeaseRequested { lease, job, kind: LeaseKind::Tasks, need: need.clone() };
        self.schedule(step, event);
        if !self.leases.scheduler().has_lease(&lease) {
            self.forget_lease(step, &lease);
        } else if !waits && self.leases.scheduler().lacks_room(&lease) {
            self.schedule(step, scheduler::Event::LeaseMoved(lease));
            self.seek(step, lease, LeaseKind::Tasks, need, job);
        }
    }

    /// That node is dead: what it had not granted is asked for again.
    pub(crate) fn routes_without(&mut self, step: &mut Step<'_, B>, node: u32) {
        let gone = self.overflow.routes.extract_if(|_, route| route.node == node);
        let mut gone: Vec<(LeaseId, Route)> = gone.collect();
        gone.sort_unstable_by_key(|(lease, _)| (lease.owner, lease.number));
        for (lease, Route { wanted, worker, .. }) in gone {
            if worker.is_none() {
                self.request_lease(step, lease, wanted.job, wanted.need, wanted.name);
            }
        }
    }

    /// Something was scheduled: the head will hear how things stand.
    #[inline]
    pub(crate) fn load_changed(&mut self, now: Tick) {
        if self.members.is_member() {
            self.overflow.say_by(now.plus_ms(SAY_AFTER_MS));
        }
    }

    /// Something can never be had here.
    pub(crate) fn wants_others(&mut self, now: Tick) {
        if self.members.is_member() {
            self.overflow.say_by(now.plus_ms(SAY_SOON_MS));
        }
    }

    fn demands(&self) -> impl Iterator<Item = Demand> {
        self.leases.scheduler().demands().chain(self.overflow.seekers.demands()).take(DEMANDS_MAX)
    }

    fn load(&self) -> Load {
        let waiting = |demand: Demand| {
            let Demand { need, kind, count, seeks } = demand;
            Waiting { need, count, is_actor: kind == LeaseKind::Actor, seeks }
        };
        let demands = self.demands().map(waiting).collect();
        Load { free: self.leases.scheduler().available(), demands, bundles: Vec::new() }
    }

    /// Bundles of which something else is free than was said last.
    fn changed_bundles(&mut self) -> Vec<(GroupId, u16, Resources)> {
        let now: FxHashMap<(GroupId, u16), Resources> =
            self.leases.scheduler().bundles().map(|(group, index, free)| ((group, index), free)).collect();
        let said = std::mem::take(&mut self.overflow.said_bundles);
        let has_changed = |(bundle, free): &(&(GroupId, u16), &Resources)| said.get(*bundle) != Some(*free);
        let mut changed: Vec<(GroupId, u16, Resources)> =
            now.iter().filter(has_changed).map(|((group, index), free)| (*group, *index, free.clone())).collect();
        changed.sort_unstable_by_key(|(group, index, _)| (*group, *index));
        self.overflow.said_bundles = now;
        changed
    }

    pub(crate) fn look_at_load(&mut self, step: &mut Step<'_, B>) {
        if self.is_head() && self.reserving.next_deadline().is_some_and(|at| at <= step.now) {
            self.reserve_news(step, GroupNews::Changed);
        }
        if self.overflow.forget_offers_at.is_some_and(|at| at <= step.now) {
            self.overflow.forget_offers_at = None;
            self.overflow.global.forget_offers();
            self.overflow.say_by(step.now);
        }
        if self.overflow.say_at.is_none_or(|at| step.now < at) {
            return;
        }
        self.overflow.say_at = None;
        self.overflow.said_at = step.now;
        if self.is_head() {
            return self.look_at_all(step);
        }
        if !self.members.is_member() {
            return;
        }
        let (load, bundles) = (self.load(), self.changed_bundles());
        if self.overflow.said.as_ref() != Some(&load) || !bundles.is_empty() {
            step.body.send(HEAD, Between::Load(Load { bundles, ..load.clone() }));
            self.overflow.said = Some(load);
        }
    }

    /// At the head: something has changed here or elsewhere. Groups come first: they need much at once.
    fn look_at_all(&mut self, step: &mut Step<'_, B>) {
        if self.reserving.is_waiting() {
            self.reserve_news(step, GroupNews::Changed);
        }
        self.note_own_load();
        self.offer(step);
    }

    /// At the head.
    pub(crate) fn note_own_load(&mut self) {
        let scheduler = self.leases.scheduler();
        let demands = self.demands().collect();
        self.overflow.global.said(HEAD, scheduler.available(), demands, scheduler.bundles().collect());
    }

    /// At the head: a node has said what is free there and what waits.
    pub(crate) fn on_load(&mut self, step: &mut Step<'_, B>, node: u32, load: Load) {
        let demand = |waiting: Waiting| {
            let Waiting { need, count, is_actor, seeks } = waiting;
            let kind = if is_actor { LeaseKind::Actor } else { LeaseKind::Tasks };
            Demand { need, kind, count, seeks }
        };
        self.overflow.global.said(node, load.free, load.demands.into_iter().map(demand).collect(), load.bundles);
        self.tell_of_groups_gone(step, node);
        self.look_at_all(step);
    }

    fn offer(&mut self, step: &mut Step<'_, B>) {
        if !self.abroad.has_nodes() && self.overflow.seekers.is_empty() {
            return;
        }
        for scheduler::Offer { from, to, demand, waits } in self.overflow.global.offers(step.now) {
            let Demand { need, kind, count, .. } = demand;
            self.overflow.forget_offers_at.get_or_insert_with(|| step.now.plus_ms(OFFER_MS));
            match (from, kind) {
                (HEAD, LeaseKind::Actor) => self.lodge_waiting(step, &need, to, count, waits),
                (HEAD, LeaseKind::Tasks) => self.on_offer(step, &need, to, count, waits),
                (_, LeaseKind::Actor) => self.move_lodgers(step, from, &need, to, count),
                (_, LeaseKind::Tasks) => step.body.send(from, Between::Offer { need, to, count, waits }),
            }
        }
    }

    /// So many leases that wait here may be had there.
    pub(crate) fn on_offer(&mut self, step: &mut Step<'_, B>, need: &Need, to: u32, count: u32, waits: bool) {
        self.overflow.said = None;
        self.load_changed(step.now);
        let is_here = to == self.options.number;
        if !is_here && !self.abroad.has(to) {
            return;
        }
        let seekers = self.overflow.seekers.take_like(LeaseKind::Tasks, need, count as usize);
        let left = count as usize - seekers.len();
        for Seeker { lease, .. } in seekers {
            match self.leases.take_wanted(&lease) {
                Some(wanted) if is_here => self.give_here(step, lease, wanted, waits),
                Some(wanted) => self.send_lease(step, lease, to, wanted, waits),
                None => {}
            }
        }
        if is_here {
            return;
        }
        // One of another node's for which there is room here has its turn here: else two nodes would send it to each other for ever.
        let may_go = |lease: &LeaseId| self.is_here(lease.owner) || self.leases.scheduler().lacks_room(lease);
        let waiting = self.leases.scheduler().waiting_for(LeaseKind::Tasks, need);
        let waiting: Vec<LeaseId> = waiting.into_iter().filter(may_go).take(left).collect();
        for lease in waiting {
            self.schedule(step, scheduler::Event::LeaseMoved(lease));
            match self.leases.take_wanted(&lease) {
                Some(wanted) if self.is_here(lease.owner) => self.send_lease(step, lease, to, wanted, waits),
                _ => {
                    // Its own node sends it there.
                    self.forget_lease(step, &lease);
                    step.body.send(lease.owner.node(), Between::Bounced { lease, to: Some(to) });
                }
            }
        }
    }
}
