//! Leases of tasks that other nodes give, and what nodes tell the head so that it knows which.
//!
//! A lease is asked for where its owner is. What waits there, and may be had anywhere, is said to the head, which offers room on another node;
//! that node grants the lease or sends it back at once (`Bounced`), so that nothing waits where nobody counts it. A lease that asks for one
//! node goes there, and waits there.

use model::{LeaseId, Need, NodeId, ProcId, Tick, Where};
use rustc_hash::FxHashMap;
use scheduler::{Demand, Global, LeaseKind};
use wire::abroad::Between;
use wire::control::ToNodeOf;
use wire::members::Load;

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::leases::Wanted;
use crate::members::HEAD;

/// How long after a change the head hears of it, so that it hears of many at once.
const SAY_AFTER_MS: u64 = 10;
/// The same of what this node alone can never give.
const SAY_SOON_MS: u64 = 1;
/// What was offered counts as taken for so long, unless its node speaks.
const OFFER_MS: u64 = 250;

#[derive(Default)]
pub(crate) struct Overflow {
    /// Leases of owners here that another node gives.
    routes: FxHashMap<LeaseId, Route>,
    /// What the head was told last.
    said: Option<Load>,
    say_at: Option<Tick>,
    /// At the head: all nodes.
    pub(crate) global: Global,
    forget_offers_at: Option<Tick>,
}

struct Route {
    node: u32,
    wanted: Wanted,
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

    /// How things stand has to be said again.
    pub(crate) fn has_changed(&mut self) {
        self.said = None;
    }

    /// A process is dead: what it had asked for is over, and so are these, which had it as their worker.
    pub(crate) fn process_gone(&mut self, gone: ProcId) -> Vec<LeaseId> {
        self.routes.retain(|lease, _| lease.owner != gone);
        self.routes.extract_if(|_, route| route.worker == Some(gone)).map(|(lease, _)| lease).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.routes.is_empty()
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

    /// Whether another node could hold this, if nothing else ran there.
    pub(crate) fn is_feasible_elsewhere(&self, need: &Need) -> bool {
        let mut others = self.members.nodes().filter(|info| !info.is_guest);
        self.members.has_begun() && others.any(|info| info.total.fits(&need.to_place) && info.total.fits(&need.to_hold))
    }

    /// Another node gives this lease if it can be had there only. None: this one does, as far as is known.
    pub(crate) fn lease_goes_to(&self, lease: &LeaseId, need: &Need) -> Option<u32> {
        // A worker that was started ahead may serve others before its node is a member.
        if !self.members.has_begun() || !self.is_here(lease.owner) {
            return None;
        }
        if let Some(route) = self.overflow.routes.get(lease) {
            return Some(route.node);
        }
        match need.at {
            Where::Node(id) => self.node_by_id(id),
            Where::Bundle(_) => self.head_elsewhere(),
            Where::Anywhere => None,
        }
    }

    /// Another node is asked for the lease.
    pub(crate) fn send_lease(&mut self, step: &mut Step<'_, B>, lease: LeaseId, node: u32, wanted: Wanted) {
        // What that keeps of the owner ends with it.
        let Some(owner) = self.procs.get_mut(lease.owner) else { return };
        owner.is_met_by(node);
        let Wanted { job, need, name } = wanted.clone();
        let message = Box::new(ToNodeOf::RequestLease { number: lease.number, job, need, name });
        let home = self.home_of(job).map(Box::new);
        let worker = self.overflow.routes.get(&lease).and_then(|route| route.worker);
        self.overflow.routes.insert(lease, Route { node, wanted, worker });
        step.body.send(node, Between::Said { by: lease.owner, message, home });
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
        let may_go = self.leases.need(&lease).is_some_and(|need| need.at == Where::Anywhere);
        if !is_elsewhere || !may_go || !self.leases.scheduler().lacks_room(&lease) {
            return;
        }
        self.schedule(step, scheduler::Event::LeaseMoved(lease));
        self.forget_lease(step, &lease);
        // The head thinks that there is room.
        self.overflow.said = None;
        step.body.send(from, Between::Bounced { lease });
    }

    pub(crate) fn on_bounced(&mut self, step: &mut Step<'_, B>, from: u32, lease: LeaseId) {
        self.overflow.said = None;
        if self.lodging_bounced(step, from, lease) {
            return;
        }
        let is_of_route = |route: &Route| route.node == from && route.worker.is_none();
        if self.overflow.routes.get(&lease).is_some_and(is_of_route)
            && let Some(Route { wanted, .. }) = self.overflow.routes.remove(&lease)
        {
            self.request_lease(step, lease, wanted.job, wanted.need, wanted.name);
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

    fn load(&self) -> Load {
        let scheduler = self.leases.scheduler();
        let tasks = scheduler.demands().filter(|demand| demand.kind == LeaseKind::Tasks);
        let demands = tasks.map(|demand| (demand.need, demand.count)).collect();
        Load { free: scheduler.available(), demands }
    }

    pub(crate) fn look_at_load(&mut self, step: &mut Step<'_, B>) {
        if self.overflow.forget_offers_at.is_some_and(|at| at <= step.now) {
            self.overflow.forget_offers_at = None;
            self.overflow.global.forget_offers();
            self.overflow.say_by(step.now);
        }
        if self.overflow.say_at.is_none_or(|at| step.now < at) {
            return;
        }
        self.overflow.say_at = None;
        if self.is_head() {
            self.note_own_load();
            return self.offer(step);
        }
        let load = self.load();
        if self.members.is_member() && self.overflow.said.as_ref() != Some(&load) {
            step.body.send(HEAD, Between::Load(load.clone()));
            self.overflow.said = Some(load);
        }
    }

    /// At the head.
    pub(crate) fn note_own_load(&mut self) {
        let scheduler = self.leases.scheduler();
        self.overflow.global.said(HEAD, scheduler.available(), scheduler.demands().collect());
    }

    /// At the head: a node has said what is free there and what waits.
    pub(crate) fn on_load(&mut self, step: &mut Step<'_, B>, node: u32, load: Load) {
        let tasks = |(need, count)| Demand { need, kind: LeaseKind::Tasks, count };
        self.overflow.global.said(node, load.free, load.demands.into_iter().map(tasks).collect());
        self.offer(step);
    }

    fn offer(&mut self, step: &mut Step<'_, B>) {
        if !self.abroad.has_nodes() {
            return;
        }
        for scheduler::Offer { from, to, demand } in self.overflow.global.offers() {
            let Demand { need, kind, count } = demand;
            self.overflow.forget_offers_at.get_or_insert_with(|| step.now.plus_ms(OFFER_MS));
            match (from, kind) {
                (HEAD, LeaseKind::Actor) => self.lodge_waiting(step, &need, to, count),
                (HEAD, LeaseKind::Tasks) => self.on_offer(step, &need, to, count),
                _ => step.body.send(from, Between::Offer { need, to, count }),
            }
        }
    }

    /// So many leases that wait here may be had there.
    pub(crate) fn on_offer(&mut self, step: &mut Step<'_, B>, need: &Need, to: u32, count: u32) {
        self.overflow.said = None;
        self.load_changed(step.now);
        if !self.abroad.has(to) {
            return;
        }
        let waiting = self.leases.scheduler().waiting_for(LeaseKind::Tasks, need);
        let ours: Vec<LeaseId> =
            waiting.into_iter().filter(|lease| self.is_here(lease.owner)).take(count as usize).collect();
        for lease in ours {
            if let Some(wanted) = self.leases.take_wanted(&lease) {
                self.schedule(step, scheduler::Event::LeaseMoved(lease));
                self.send_lease(step, lease, to, wanted);
            }
        }
    }
}
