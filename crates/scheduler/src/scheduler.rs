//! The state machine: one handler per event.
//!
//! HOT: `LeaseRequested` and `LeaseReturned`, once per lease; budget 1 us for both together and no
//! allocation in the steady state: `cargo run --release -p eagleray-scheduler --example decisions`.

use model::{Dead, JobId, LeaseId, Need, ProcId, Tick, Where};
use rustc_hash::FxHashMap;

use crate::devices::Devices;
use crate::groups::{AskedPart, Groups};
use crate::ledger::Ledger;
use crate::memory::Ended;
use crate::pool::{Duty, Pool};
use crate::revoke::Outlook;
use crate::shape::{Ingredients, Shapes};
use crate::table::{At, Granted, List, Request, State, Table};
use crate::{Effect, Event, LeaseKind, Options};

/// The scheduler of one node.
pub struct Scheduler {
    pub(crate) ledger: Ledger,
    pub(crate) devices: Devices,
    pub(crate) leases: Table,
    pub(crate) shapes: Shapes,
    pub(crate) pool: Pool,
    pub(crate) groups: Groups,
    /// The machine is low on memory.
    is_low: bool,
    /// Feasible shapes with waiting leases, least recently served first.
    pub(crate) queue: Vec<u32>,
    /// Placed leases without a worker, first placed first.
    pub(crate) unmanned: List,
    /// Leases that were asked back and run on.
    pub(crate) asked: List,
    /// Leases that could be asked back.
    pub(crate) revocable_count: u32,
    /// Live leases for tasks, per owner.
    pub(crate) owners: FxHashMap<ProcId, u32>,
    pub(crate) ended: Ended,
    pub(crate) gone: Dead,
    /// No later than the first moment at which a waiting shape may do what it may not do yet: be placed
    /// beyond its soft bound, or ask for leases back once more.
    pub(crate) look_at: Option<Tick>,
    /// Kept for its memory.
    pub(crate) outlook: Outlook,
    arrivals: u64,
    pub(crate) now: Tick,
}

impl Scheduler {
    /// A scheduler that knows of no worker yet. The first step, best a `Tick`, starts `prestart` of them.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            ledger: Ledger::new(&options.total, options.workers_max),
            devices: Devices::new(options.total.gpu, &options.gpu_names),
            leases: Table::default(),
            shapes: Shapes::default(),
            pool: Pool::new(&options),
            groups: Groups::default(),
            is_low: false,
            queue: Vec::new(),
            unmanned: List::default(),
            asked: List::default(),
            revocable_count: 0,
            owners: FxHashMap::default(),
            ended: Ended::new(),
            gone: Dead::default(),
            look_at: None,
            outlook: Outlook::default(),
            arrivals: 0,
            now: Tick::default(),
        }
    }

    /// The only way to change a scheduler. Same events, same effects.
    pub fn step(&mut self, now: Tick, event: Event, out: &mut Vec<Effect>) {
        self.now = now.max(self.now);
        match event {
            Event::LeaseRequested { lease, job, kind, need } => {
                self.on_lease_requested(Wish { lease, job, kind, need }, out);
            }
            Event::LeaseCancelled(lease) => self.on_lease_cancelled(lease, out),
            Event::LeaseMoved(lease) => self.on_lease_moved(lease, out),
            Event::LeaseReturned(lease) => self.on_lease_returned(lease, out),
            Event::WorkerReady(worker) => self.on_worker_ready(worker, out),
            Event::WorkerNotStarted => self.pool.start_failed(self.now),
            Event::WorkerDied(worker) => {
                self.gone.note(worker);
                self.on_worker_lost(worker, out);
            }
            Event::WorkerRetired(worker) => self.on_worker_lost(worker, out),
            Event::WorkerBlocked(worker) => self.on_worker_blocked(worker, out),
            Event::WorkerUnblocked(worker) => self.on_worker_unblocked(worker),
            Event::OwnerDied(owner) => self.on_owner_died(owner, out),
            Event::GroupRequested { group, bundles, is_apart } => {
                self.on_group_requested(group, &bundles, is_apart, out);
            }
            Event::GroupPart { group, attempt, bundles, until } => {
                self.on_group_part(group, AskedPart { attempt, bundles, until }, out);
            }
            Event::GroupCommitted(group) => self.on_group_committed(group, out),
            Event::GroupAborted(group) => self.on_group_aborted(group, out),
            Event::GroupRemoved(group) => self.on_group_removed(group, out),
            Event::Pressure { is_low } => {
                self.is_low = is_low;
                self.place_from(0, out);
            }
            Event::Tick => self.on_tick(out),
        }
        self.revoke(out);
        self.pool.start(self.now, self.unmanned.len(), out);
        // Looking at everything after each step is quadratic; small tables show the same bugs.
        if cfg!(debug_assertions) && self.leases.len() <= 64 {
            self.check_invariants();
        }
    }

    fn on_lease_requested(&mut self, wish: Wish, out: &mut Vec<Effect>) {
        let Wish { lease: id, job, kind, need } = wish;
        if let Some(at) = self.leases.find(id) {
            return self.answer_again(at, out);
        }
        // An actor's lease outlives the process that asked for it.
        if self.ended.has(id) || (kind == LeaseKind::Tasks && self.gone.has(id.owner)) {
            return;
        }
        if let Where::Bundle(seat) = need.at
            && !self.groups.is_there(seat.group)
        {
            return self.refuse(id, out);
        }
        let asked_within = match self.pool.duty(id.owner) {
            Some(Duty::Leased(at) | Duty::Ending(Some(at))) => Some(self.leases.get(at).shape),
            Some(Duty::Idle | Duty::Ending(None)) | None => None,
        };
        let Self { shapes, groups, ledger, devices, .. } = self;
        let index =
            shapes.intern(Ingredients { kind, need, asked_within }, |need| groups.choices(need, ledger, devices));
        self.arrivals += 1;
        let at = self.leases.insert(Request { id, job, shape: index, since: self.now, arrival: self.arrivals });
        if kind == LeaseKind::Tasks {
            *self.owners.entry(id.owner).or_default() += 1;
        }
        let shape = self.shapes.get_mut(index);
        shape.enqueue(&mut self.leases, at);
        if !shape.is_feasible {
            out.push(Effect::Infeasible(id));
        } else if shape.waiting == 1 && shape.is_open {
            self.queue.push(index);
            self.place_from(self.queue.len() - 1, out);
        }
    }

    fn on_lease_cancelled(&mut self, id: LeaseId, out: &mut Vec<Effect>) {
        self.on_lease_returned(id, out);
    }

    fn on_lease_moved(&mut self, id: LeaseId, out: &mut Vec<Effect>) {
        if let Some(at) = self.leases.find(id).filter(|at| self.leases.get(*at).state == State::Waiting) {
            self.end_unmanned(at);
            self.place_from(0, out);
        }
    }

    fn on_lease_returned(&mut self, id: LeaseId, out: &mut Vec<Effect>) {
        self.ended.note(id);
        let Some(at) = self.leases.find(id) else { return };
        self.let_go(at, Leftover::Reuse, out);
        self.place_from(0, out);
    }

    fn on_worker_ready(&mut self, worker: ProcId, out: &mut Vec<Effect>) {
        if self.pool.duty(worker).is_some() {
            return;
        }
        if self.gone.has(worker) {
            return self.pool.start_failed(self.now);
        }
        if !self.pool.add(self.now, worker) {
            return out.push(Effect::EndWorker(worker));
        }
        self.man(out);
        if self.is_low {
            // An actor that has its worker does not stand in the way of the next.
            self.place_from(0, out);
        }
    }

    fn on_worker_lost(&mut self, worker: ProcId, out: &mut Vec<Effect>) {
        let lease = match self.pool.remove(self.now, worker) {
            Some(Duty::Leased(at) | Duty::Ending(Some(at))) => at,
            Some(Duty::Idle | Duty::Ending(None)) | None => return,
        };
        self.remove_held(lease);
        self.place_from(0, out);
    }

    fn on_worker_blocked(&mut self, worker: ProcId, out: &mut Vec<Effect>) {
        if let Some(at) = self.ending_with(worker, false) {
            self.leases.get_mut(at).state = State::Ending { is_blocked: true };
            let lease = self.leases.get(at);
            self.shapes.get(lease.shape).demand_at(lease.choice).lend_cpu(&mut self.ledger.free);
            return self.place_from(0, out);
        }
        let Some((at, granted)) = self.granted_to(worker).filter(|(_, granted)| !granted.is_blocked) else { return };
        self.unlist_granted(at, granted);
        self.leases.get_mut(at).state = State::Granted(Granted { is_blocked: true, ..granted });
        let lease = self.leases.get(at);
        self.shapes.get(lease.shape).demand_at(lease.choice).lend_cpu(&mut self.ledger.free);
        self.place_from(0, out);
    }

    fn on_worker_unblocked(&mut self, worker: ProcId) {
        if let Some(at) = self.ending_with(worker, true) {
            self.leases.get_mut(at).state = State::Ending { is_blocked: false };
            let lease = self.leases.get(at);
            return self.shapes.get(lease.shape).demand_at(lease.choice).reclaim_cpu(&mut self.ledger.free);
        }
        let Some((at, granted)) = self.granted_to(worker).filter(|(_, granted)| granted.is_blocked) else { return };
        let granted = Granted { is_blocked: false, ..granted };
        let lease = self.leases.get_mut(at);
        lease.state = State::Granted(granted);
        self.shapes.get(lease.shape).demand_at(lease.choice).reclaim_cpu(&mut self.ledger.free);
        self.list_granted(at, granted);
    }

    fn on_owner_died(&mut self, owner: ProcId, out: &mut Vec<Effect>) {
        self.gone.note(owner);
        if !self.owners.contains_key(&owner) {
            return;
        }
        let of_owner = |(at, lease): (At, &crate::table::Lease)| {
            let is_tasks = self.shapes.get(lease.shape).kind == LeaseKind::Tasks;
            (lease.id.owner == owner && is_tasks).then_some(at)
        };
        let leases: Vec<At> = self.leases.iter().filter_map(of_owner).collect();
        for at in leases {
            self.let_go(at, Leftover::End, out);
        }
        self.place_from(0, out);
    }

    fn on_tick(&mut self, out: &mut Vec<Effect>) {
        if self.look_at.is_some_and(|at| at <= self.now) {
            self.look_at = None;
            self.place_from(0, out);
        }
        self.pool.end_unused(self.now, out);
    }

    /// The owner has no more use for the lease.
    fn let_go(&mut self, at: At, leftover: Leftover, out: &mut Vec<Effect>) {
        let lease = self.leases.get(at);
        match lease.state {
            State::Waiting | State::Placed => self.end_unmanned(at),
            State::Granted(granted) => match (leftover, self.shapes.get(lease.shape).kind) {
                (Leftover::Reuse, LeaseKind::Tasks) => {
                    self.remove_held(at);
                    self.pool.make_idle(self.now, granted.worker);
                    self.man(out);
                }
                (Leftover::End, _) | (_, LeaseKind::Actor) => {
                    self.end_granted(at, granted);
                    self.pool.end(granted.worker, Some(at), out);
                }
            },
            State::Ending { .. } => {}
        }
    }

    /// Forgets a lease that has no worker.
    pub(crate) fn end_unmanned(&mut self, at: At) {
        let lease = self.leases.get(at);
        if lease.state == State::Waiting {
            self.shapes.get_mut(lease.shape).dequeue(&mut self.leases, at);
            self.forget(at);
        } else {
            self.unmanned.remove(&mut self.leases, at);
            self.remove_held(at);
        }
    }

    /// The worker of a lease is told to end. What it holds, a GPU's memory say, is free only when the process is gone.
    pub(crate) fn end_granted(&mut self, at: At, granted: Granted) {
        self.unlist_granted(at, granted);
        self.leases.get_mut(at).state = State::Ending { is_blocked: granted.is_blocked };
    }

    /// Frees what a lease holds, and forgets it.
    fn remove_held(&mut self, at: At) {
        let is_blocked = match self.leases.get(at).state {
            State::Granted(granted) => {
                self.unlist_granted(at, granted);
                granted.is_blocked
            }
            State::Ending { is_blocked } => is_blocked,
            State::Waiting | State::Placed => false,
        };
        if is_blocked {
            let lease = self.leases.get(at);
            self.shapes.get(lease.shape).demand_at(lease.choice).reclaim_cpu(&mut self.ledger.free);
        }
        let gpus = std::mem::take(&mut self.leases.get_mut(at).gpus);
        let lease = self.leases.get(at);
        let shape = self.shapes.get_mut(lease.shape);
        shape.demand_at(lease.choice).give(&mut self.ledger.free);
        self.devices.give(shape.gpu, &gpus);
        shape.release(&mut self.leases, at);
        let group = shape.group;
        self.forget(at);
        if let Some(group) = group {
            self.left_group(group);
        }
    }

    fn forget(&mut self, at: At) {
        let lease = self.leases.remove(at);
        if self.shapes.get(lease.shape).kind == LeaseKind::Tasks {
            let count = self.owners.get_mut(&lease.id.owner).expect("an owner with a lease is known");
            *count -= 1;
            if *count == 0 {
                self.owners.remove(&lease.id.owner);
            }
        }
    }

    /// Whether memory is low and something runs that may give some back: nothing is placed then.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.is_low && self.has_running()
    }

    #[cold]
    fn has_running(&self) -> bool {
        self.leases.iter().any(|(_, lease)| match lease.state {
            State::Granted(granted) => !granted.is_blocked && self.shapes.get(lease.shape).kind == LeaseKind::Tasks,
            State::Placed | State::Ending { .. } => true,
            State::Waiting => false,
        })
    }

    fn granted_to(&self, worker: ProcId) -> Option<(At, Granted)> {
        let Some(Duty::Leased(at)) = self.pool.duty(worker) else { return None };
        match self.leases.get(at).state {
            State::Granted(granted) => Some((at, granted)),
            State::Waiting | State::Placed | State::Ending { .. } => None,
        }
    }

    /// The lease whose worker this is, if that was told to end, and is blocked or not.
    fn ending_with(&self, worker: ProcId, is_blocked: bool) -> Option<At> {
        let Some(Duty::Ending(Some(at))) = self.pool.duty(worker) else { return None };
        (self.leases.get(at).state == State::Ending { is_blocked }).then_some(at)
    }
}

/// What `LeaseRequested` says.
struct Wish {
    lease: LeaseId,
    job: JobId,
    kind: LeaseKind,
    need: Need,
}

/// What becomes of the worker of a lease that ends.
#[derive(Clone, Copy)]
enum Leftover {
    /// Idle, if it served tasks.
    Reuse,
    /// It may be in the middle of something.
    End,
}
