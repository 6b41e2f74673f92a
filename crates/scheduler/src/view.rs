//! What others may read of a scheduler, and what must always hold in it.

use model::{GroupId, JobId, LeaseId, Need, ProcId, Resources, Tick, Where};
use rustc_hash::FxHashMap;

use crate::devices;
use crate::groups::{Bundle, Standing};
use crate::pool::Duty;
use crate::shape::Shape;
use crate::table::{Granted, Lease, State};
use crate::{Demand, LeaseKind, Scheduler};

/// Why a lease has no worker yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// Others hold what it needs.
    NoResources,
    /// It has its resources; a worker is being started.
    NoWorker,
    /// There are as many workers as there may be.
    NoMoreWorkers,
    /// This node can never hold it.
    Infeasible,
    /// Blocked workers of its shape hold it up; one more is let through after a back-off.
    Capped,
    /// The machine is low on memory, and others run.
    LowMemory,
}

/// A lease that waits.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// The lease.
    pub lease: LeaseId,
    /// The job that the lease is for.
    pub job: JobId,
    /// What for.
    pub kind: LeaseKind,
    /// How much it asks for.
    pub need: &'a Need,
    /// Since when.
    pub since: Tick,
    /// What it waits for.
    pub reason: WaitReason,
}

/// Whether another node may give what asks for this.
#[must_use]
pub fn may_move(need: &Need) -> bool {
    match need.at {
        Where::Anywhere => need.wish.as_ref().is_none_or(|wish| wish.rather.is_none()),
        Where::Bundle(seat) => seat.bundle.is_none(),
        Where::Node(_) => false,
    }
}

impl Scheduler {
    /// What the node has.
    #[must_use]
    pub fn total(&self) -> Resources {
        self.ledger.total()
    }

    /// What of it is free. May be below zero after a blocked worker ran on.
    #[must_use]
    pub fn available(&self) -> Resources {
        self.ledger.available()
    }

    /// Every lease that has no worker yet.
    pub fn waiting(&self) -> impl Iterator<Item = Wait<'_>> {
        self.leases.iter().filter_map(|(_, lease)| {
            let shape = self.shapes.get(lease.shape);
            let reason = match lease.state {
                State::Placed => WaitReason::NoWorker,
                State::Waiting if !shape.is_feasible => WaitReason::Infeasible,
                State::Waiting if !shape.is_open => WaitReason::NoResources,
                State::Waiting if self.is_closed() && self.fits(lease.shape) => WaitReason::LowMemory,
                State::Waiting if shape.capped_until.is_some() && self.fits(lease.shape) => WaitReason::Capped,
                State::Waiting if self.has_all_workers() && self.lacks_only_workers(lease.shape) => {
                    WaitReason::NoMoreWorkers
                }
                State::Waiting if self.lacks_only_workers(lease.shape) => WaitReason::NoWorker,
                State::Waiting => WaitReason::NoResources,
                State::Granted(_) | State::Ending { .. } => return None,
            };
            let Lease { id, job, since, .. } = *lease;
            Some(Wait { lease: id, job, kind: shape.kind, need: &shape.need, since, reason })
        })
    }

    /// Whether as many leases are placed as there may be workers: whoever comes next waits for one of them to end.
    #[must_use]
    pub fn has_all_workers(&self) -> bool {
        self.ledger.has_all_workers()
    }

    /// Every granted lease and its worker.
    pub fn granted(&self) -> impl Iterator<Item = (LeaseId, ProcId)> {
        self.leases.iter().filter_map(|(_, lease)| match lease.state {
            State::Granted(Granted { worker, .. }) => Some((lease.id, worker)),
            State::Waiting | State::Placed | State::Ending { .. } => None,
        })
    }

    /// The lease that a worker serves.
    #[must_use]
    pub fn lease_of(&self, worker: ProcId) -> Option<LeaseId> {
        match self.pool.duty(worker)? {
            Duty::Leased(at) => Some(self.leases.get(at).id),
            Duty::Idle | Duty::Ending(_) => None,
        }
    }

    /// Whether the lease has been asked for and is not over.
    #[must_use]
    pub fn has_lease(&self, lease: &LeaseId) -> bool {
        self.leases.find(*lease).is_some()
    }

    /// Whether its owner has given it back: it is not granted again.
    #[must_use]
    pub fn was_returned(&self, lease: &LeaseId) -> bool {
        self.ended.has(*lease)
    }

    /// Who has leases for tasks, or waits for some.
    pub fn owners(&self) -> impl Iterator<Item = ProcId> {
        self.owners.keys().copied()
    }

    /// Whether the lease waits for its resources.
    #[must_use]
    pub fn is_waiting(&self, lease: &LeaseId) -> bool {
        self.leases.find(*lease).is_some_and(|at| self.leases.get(at).state == State::Waiting)
    }

    /// Whether there is no room for the lease. One that waits though there is has its turn here, after a while if too many like it run.
    pub fn lacks_room(&self, lease: &LeaseId) -> bool {
        self.leases.find(*lease).map(|at| self.leases.get(at)).is_some_and(|lease| {
            let shape = self.shapes.get(lease.shape);
            lease.state == State::Waiting && shape.choose(&self.ledger.free, &self.devices.free).is_none()
        })
    }

    /// What waits for resources and may be had on other nodes, by kind and need.
    pub fn demands(&self) -> impl Iterator<Item = Demand> {
        let waiting = self.shapes.iter().map(|(_, shape)| shape).filter(|shape| shape.waiting > 0);
        let movable = waiting.filter(|shape| may_move(&shape.need));
        let demand = |shape: &Shape| {
            let seeks = !shape.is_feasible;
            Demand { need: shape.need.clone(), kind: shape.kind, count: shape.waiting, seeks }
        };
        movable.map(demand)
    }

    /// Bundles of groups that leases may take of, and what of each is free.
    pub fn bundles(&self) -> impl Iterator<Item = (GroupId, u16, Resources)> {
        let placed = self.groups.table.iter().filter(|(_, group)| group.standing == Standing::Placed);
        placed
            .flat_map(|(id, group)| group.bundles.iter().map(|bundle| (*id, bundle.index, self.ledger.free_of(bundle))))
    }

    /// The same, with what each is made of.
    pub fn whole_bundles(&self) -> impl Iterator<Item = (GroupId, u16, Resources, Resources)> {
        let placed = self.groups.table.iter().filter(|(_, group)| group.standing == Standing::Placed);
        placed.flat_map(|(id, group)| {
            let both = |bundle: &Bundle| (*id, bundle.index, self.ledger.total_of(bundle), self.ledger.free_of(bundle));
            group.bundles.iter().map(both)
        })
    }

    /// Whether the bundle, or one of the group, is set aside here.
    #[must_use]
    pub fn has_bundle(&self, group: GroupId, bundle: Option<u16>) -> bool {
        self.groups.table.get(&group).is_some_and(|group| {
            let is_it = |one: &Bundle| bundle.is_none_or(|index| index == one.index);
            group.standing == Standing::Placed && group.bundles.iter().any(is_it)
        })
    }

    /// Leases that wait for resources and ask for just this, those that have waited longest first.
    #[must_use]
    pub fn waiting_for(&self, kind: LeaseKind, need: &Need) -> Vec<LeaseId> {
        let shapes = self.shapes.iter().map(|(_, shape)| shape);
        let alike = shapes.filter(|shape| shape.waiting > 0 && shape.kind == kind && shape.need == *need);
        let mut leases: Vec<&Lease> =
            alike.flat_map(|shape| shape.waiting_leases(&self.leases)).map(|at| self.leases.get(at)).collect();
        leases.sort_unstable_by_key(|lease| lease.arrival);
        leases.into_iter().map(|lease| lease.id).collect()
    }

    /// Workers without a lease.
    #[must_use]
    pub fn idle_count(&self) -> usize {
        self.pool.idle_count()
    }

    /// Whether no worker has a lease.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.leases.len() == 0
    }

    /// When a `Tick` is needed next. `None`: the clock alone changes nothing, so nobody need look at it.
    #[must_use]
    pub fn next_tick(&self, now: Tick) -> Option<Tick> {
        let look_at = self.look_at.filter(|_| !self.queue.is_empty() || !self.groups.waiting.is_empty());
        self.pool.next_tick(self.unmanned.len()).into_iter().chain(look_at).min().map(|at| at.max(now))
    }

    /// Panics if one of the invariants listed in the crate's documentation does not hold. For tests and
    /// the simulator: it looks at everything.
    pub fn check_invariants(&self) {
        self.check_resources();
        self.check_workers();
        for (index, shape) in self.shapes.iter() {
            shape.check(&self.leases);
            let is_queued = self.queue.contains(&index);
            assert_eq!(is_queued, shape.is_placeable() && shape.waiting > 0, "SCHED-7: queue of shapes");
            let is_held_back =
                (shape.is_full() && shape.capped_until.is_some()) || self.stands_back(shape) || self.is_closed();
            assert!(!is_queued || !self.fits(index) || is_held_back, "SCHED-4: {:?} could be placed", shape.need);
        }
        let fits = self.groups.waiting.iter().find(|group| self.group_fits(**group));
        assert!(fits.is_none(), "SCHED-4: group {fits:?} could be placed");
        let is_short = self.unmanned.len() > 0 && self.pool.idle_count() > 0;
        assert!(!is_short, "SCHED-5: a lease waits for a worker while one is idle");
        self.pool.check();
    }

    fn check_resources(&self) {
        let mut held = vec![0; self.ledger.free.len()];
        let mut gpus = Vec::new();
        let mut in_groups: FxHashMap<GroupId, u32> = FxHashMap::default();
        for (_, lease) in self.leases.iter() {
            let shape = self.shapes.get(lease.shape);
            let demand = shape.demand_at(lease.choice);
            match lease.state {
                State::Waiting => continue,
                State::Granted(Granted { is_blocked: true, .. }) | State::Ending { is_blocked: true } => {
                    demand.give(&mut held);
                    demand.reclaim_cpu(&mut held);
                }
                State::Placed | State::Granted(_) | State::Ending { .. } => demand.give(&mut held),
            }
            shape.group.into_iter().for_each(|group| *in_groups.entry(group).or_default() += 1);
            let is_inside = lease.gpus.iter().all(|gpu| demand.among.contains(gpu));
            assert!(is_inside, "SCHED-8: {:?} has a device of another bundle", lease.id);
            gpus.push((shape.gpu, &lease.gpus[..]));
        }
        for (id, group) in &self.groups.table {
            assert_eq!(in_groups.remove(id).unwrap_or(0), group.held, "SCHED-8: leases in {id}");
            let is_waiting = group.standing == Standing::Waiting;
            for bundle in group.held_bundles() {
                bundle.demand.give(&mut held);
                gpus.push((bundle.gpu, &bundle.gpus[..]));
                let free = self.devices.free_among(&bundle.devices);
                assert_eq!(free, self.ledger.free_gpu(Some(bundle)), "SCHED-3: free devices and GPUs of {id} differ");
            }
            assert!(!is_waiting || group.held == 0, "SCHED-8: {id} is used before it has its bundles");
        }
        assert!(in_groups.is_empty(), "SCHED-8: leases in groups that are no more: {in_groups:?}");
        self.ledger.check_conserved(&held);
        self.devices.check(gpus.into_iter());
        let free = self.devices.free_among(&self.devices.own());
        assert_eq!(free, self.ledger.free_gpu(None), "SCHED-3: free devices and free GPUs differ");
    }

    fn check_workers(&self) {
        let granted = self.granted().count();
        let leased = self.pool.iter().filter(|(_, duty)| matches!(duty, Duty::Leased(_))).count();
        assert_eq!(granted, leased, "SCHED-2: leases and workers are not paired");
        for (lease, worker) in self.granted() {
            assert_eq!(self.lease_of(worker), Some(lease), "SCHED-2: {worker} serves another lease");
        }
    }

    fn lacks_only_workers(&self, index: u32) -> bool {
        let shape = self.shapes.get(index);
        shape.has_choice(|demand| {
            let has_gpus = devices::fits(&self.devices.free, &demand.among, shape.gpu);
            has_gpus && self.ledger.lacks_only_workers(demand)
        })
    }

    fn fits(&self, index: u32) -> bool {
        self.shapes.get(index).choose(&self.ledger.free, &self.devices.free).is_some()
    }
}
