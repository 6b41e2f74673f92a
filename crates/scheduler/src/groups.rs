//! Placement groups: bundles that are set aside together, and given back together.
//!
//! A group waits until all its bundles fit at one moment; groups that wait are looked at before leases, in order of
//! arrival. What a bundle sets aside becomes amounts of its own (see `ledger`), which only leases that name the bundle, or
//! any bundle of the group, may take. A group that is removed keeps what it has until the last process in it is gone.
//!
//! Leases are asked back for a group that waits, but one by one, and others want them too. So for a moment after that, and
//! again at most once a second, nothing that drivers ask for is placed: what comes back is there for the group. Nested
//! tasks go on, since the leases that the group waits for may wait for them.

use model::{GroupId, LeaseId, Need, Resources, Tick, Where};
use rustc_hash::FxHashMap;

use crate::devices::{self, Ask, Devices};
use crate::ledger::{Demand, Ledger};
use crate::pool::Duty;
use crate::shape::{Choices, Shape};
use crate::table::{At, State};
use crate::{Effect, Scheduler};

/// How often leases are asked back for groups.
const ASK_MS: u64 = 10;
/// How long what comes back is kept for them, and how often.
const SAVE_MS: u64 = 50;
const SAVE_AGAIN_MS: u64 = 1_000;

/// Part of a group.
pub(crate) struct Bundle {
    /// What it takes of the node.
    pub(crate) demand: Demand,
    pub(crate) gpu: Ask,
    /// The node's devices that it holds.
    pub(crate) gpus: Vec<u16>,
    /// The same amounts under numbers of their own, by public name.
    pub(crate) kinds: Vec<(Box<str>, usize)>,
    /// The same devices under numbers of their own.
    pub(crate) devices: Box<[u16]>,
}

pub(crate) struct Group {
    pub(crate) bundles: Vec<Bundle>,
    pub(crate) standing: Standing,
    /// Leases that hold something of it.
    pub(crate) held: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There is not enough room, now or ever.
    Waiting,
    Placed,
    /// It was removed, and processes in it have not ended yet.
    Leaving,
}

#[derive(Default)]
pub(crate) struct Groups {
    pub(crate) table: FxHashMap<GroupId, Group>,
    /// Those that fit into an empty node and have no room yet, first come first.
    pub(crate) waiting: Vec<GroupId>,
    ask_at: Tick,
    /// Until when drivers' leases stand back.
    saving_until: Option<Tick>,
    save_again_at: Tick,
}

impl Groups {
    /// What leases of this need may choose from; none while their group waits.
    pub(crate) fn choices(&self, need: &Need, ledger: &Ledger, devices: &Devices) -> Option<Choices> {
        let gpu = Ask::new(need.to_hold.gpu);
        let is_feasible = |demand: &Demand| demand.is_feasible && devices.is_feasible(&demand.among, gpu);
        let Where::Bundle(seat) = need.at else {
            let demand = ledger.demand(need, devices);
            let soft_max = ledger.leases_per_cpus(&demand);
            return Some(Choices { is_feasible: is_feasible(&demand), demands: vec![demand], soft_max });
        };
        let group = self.table.get(&seat.group).filter(|group| group.standing == Standing::Placed)?;
        let bundles = group.bundles.iter().enumerate();
        let wanted = bundles.filter(|(index, _)| seat.bundle.is_none_or(|bundle| usize::from(bundle) == *index));
        let demands = wanted.map(|(_, bundle)| ledger.demand_in(need, bundle)).filter(is_feasible);
        let demands: Vec<Demand> = demands.collect();
        let soft_max = demands.iter().map(|demand| ledger.leases_per_cpus(demand)).sum();
        Some(Choices { is_feasible: !demands.is_empty(), demands, soft_max })
    }

    /// Whether a lease may ask for a place there, now or later.
    pub(crate) fn is_there(&self, group: GroupId) -> bool {
        self.table.get(&group).is_some_and(|group| group.standing != Standing::Leaving)
    }

    pub(crate) fn joined(&mut self, group: Option<GroupId>) {
        if let Some(group) = group {
            self.table.get_mut(&group).expect("a group with leases is known").held += 1;
        }
    }
}

impl Group {
    /// Takes all its bundles out of what is free, if they fit.
    pub(crate) fn take(&self, free: &mut [i64], gpus: &mut [i64]) -> bool {
        self.bundles.iter().all(|bundle| {
            let fits = bundle.demand.fits(free) && devices::fits(gpus, &bundle.demand.among, bundle.gpu);
            if fits {
                bundle.demand.take(free);
                devices::take(gpus, &bundle.demand.among, bundle.gpu);
            }
            fits
        })
    }

    /// Whether a lease less would bring `free` nearer to what this needs.
    pub(crate) fn is_helped_by(&self, held: &Demand, held_gpu: Ask, free: &[i64]) -> bool {
        let mut left = free.to_vec();
        self.bundles.iter().for_each(|bundle| bundle.demand.take(&mut left));
        let needs_gpu = held_gpu != Ask::Nothing && self.bundles.iter().any(|bundle| bundle.gpu != Ask::Nothing);
        needs_gpu || self.bundles.iter().any(|bundle| bundle.demand.is_short_of(held, &left))
    }
}

impl Scheduler {
    pub(crate) fn on_group_requested(
        &mut self,
        id: GroupId,
        bundles: &[Resources],
        is_apart: bool,
        out: &mut Vec<Effect>,
    ) {
        if let Some(group) = self.groups.table.get(&id) {
            if group.standing == Standing::Placed {
                out.push(Effect::GroupPlaced(id));
            }
            return;
        }
        let bundle = |resources: &Resources| Bundle {
            demand: self.ledger.demand_aside(resources, &self.devices),
            gpu: Ask::new(resources.gpu),
            gpus: Vec::new(),
            kinds: Vec::new(),
            devices: Box::default(),
        };
        let bundles: Vec<Bundle> = bundles.iter().map(bundle).collect();
        let is_known = bundles.iter().all(|bundle| bundle.demand.is_feasible) && !(is_apart && bundles.len() > 1);
        let group = Group { bundles, standing: Standing::Waiting, held: 0 };
        let is_feasible = is_known && group.take(&mut self.ledger.totals(), &mut self.devices.sizes());
        self.groups.table.insert(id, group);
        if is_feasible {
            self.groups.waiting.push(id);
            self.place_from(0, out);
        } else {
            out.push(Effect::GroupInfeasible(id));
        }
    }

    pub(crate) fn on_group_removed(&mut self, id: GroupId, out: &mut Vec<Effect>) {
        let Some(group) = self.groups.table.get_mut(&id).filter(|group| group.standing != Standing::Leaving) else {
            return;
        };
        if group.standing == Standing::Waiting {
            self.groups.waiting.retain(|waiting| *waiting != id);
            group.bundles.clear();
        }
        group.standing = Standing::Leaving;
        let in_group = |(at, lease): (At, &crate::table::Lease)| {
            (self.shapes.get(lease.shape).group == Some(id)).then_some((at, lease.id, lease.state))
        };
        let leases: Vec<(At, LeaseId, State)> = self.leases.iter().filter_map(in_group).collect();
        for (at, lease, state) in leases {
            match state {
                State::Waiting | State::Placed => {
                    self.end_unmanned(at);
                    self.refuse(lease, out);
                }
                State::Granted(granted) => {
                    self.end_granted(at, granted);
                    self.pool.kill(granted.worker, at, out);
                }
                State::Ending { .. } => {
                    let of_lease = |(_, duty): &(_, Duty)| *duty == Duty::Ending(Some(at));
                    out.extend(self.pool.iter().find(of_lease).map(|(worker, _)| Effect::KillWorker(worker)));
                }
            }
        }
        self.dissolve_if_empty(id);
        self.place_from(0, out);
    }

    /// The lease is over before it began.
    pub(crate) fn refuse(&mut self, lease: LeaseId, out: &mut Vec<Effect>) {
        // Of a process that is gone nothing comes again, and its successor's leases have the same places in that memory.
        if !self.gone.has(lease.owner) {
            self.ended.note(lease);
        }
        out.push(Effect::Refused(lease));
    }

    /// A lease in the group holds nothing of it any more.
    #[cold]
    pub(crate) fn left_group(&mut self, id: GroupId) {
        self.groups.table.get_mut(&id).expect("a group with leases is known").held -= 1;
        self.dissolve_if_empty(id);
    }

    fn dissolve_if_empty(&mut self, id: GroupId) {
        let is_over = |group: &Group| group.standing == Standing::Leaving && group.held == 0;
        if !self.groups.table.get(&id).is_some_and(is_over) {
            return;
        }
        for bundle in self.groups.table.remove(&id).expect("seen above").bundles {
            self.ledger.put_back(&bundle.demand, &bundle.kinds);
            self.devices.put_back(&bundle.devices);
            self.devices.give(bundle.gpu, &bundle.gpus);
        }
    }

    /// Places every group that has room.
    #[cold]
    pub(crate) fn place_groups(&mut self, out: &mut Vec<Effect>) {
        self.groups.saving_until = self.groups.saving_until.filter(|until| *until > self.now);
        if let Some(until) = self.groups.saving_until {
            // Whatever else was to be looked at sooner has taken this one's place.
            self.look_again(until);
        }
        let mut position = 0;
        while let Some(&id) = self.groups.waiting.get(position) {
            if self.group_fits(id) {
                self.groups.waiting.remove(position);
                self.place_group(id);
                out.push(Effect::GroupPlaced(id));
                self.open_shapes(id, out);
            } else {
                position += 1;
            }
        }
    }

    pub(crate) fn group_fits(&self, id: GroupId) -> bool {
        self.groups.table[&id].take(&mut self.ledger.free.clone(), &mut self.devices.free.clone())
    }

    fn place_group(&mut self, id: GroupId) {
        let group = self.groups.table.get_mut(&id).expect("a group that waits is known");
        group.standing = Standing::Placed;
        for bundle in &mut group.bundles {
            bundle.gpus = self.devices.take(&bundle.demand.among, bundle.gpu);
            bundle.devices = self.devices.set_aside(&bundle.gpus, bundle.gpu);
            bundle.kinds = self.ledger.set_aside(&bundle.demand);
        }
    }

    /// What waited for the group may be placed.
    fn open_shapes(&mut self, id: GroupId, out: &mut Vec<Effect>) {
        let is_closed = |(index, shape): (u32, &Shape)| (shape.group == Some(id) && !shape.is_open).then_some(index);
        let closed: Vec<u32> = self.shapes.iter().filter_map(is_closed).collect();
        for index in closed {
            let need = &self.shapes.get(index).need;
            let choices = self.groups.choices(need, &self.ledger, &self.devices).expect("it was placed just now");
            let shape = self.shapes.get_mut(index);
            shape.open(choices);
            if !shape.is_feasible {
                let waiting = shape.waiting_leases(&self.leases);
                out.extend(waiting.into_iter().map(|at| Effect::Infeasible(self.leases.get(at).id)));
            } else if shape.waiting > 0 {
                self.queue.push(index);
            }
        }
    }

    /// Whether a shape stands back for a group that waits.
    pub(crate) fn stands_back(&self, shape: &Shape) -> bool {
        !self.groups.waiting.is_empty()
            && self.groups.saving_until.is_some()
            && shape.group.is_none()
            && shape.depth() == 0
    }

    /// Asks leases back for groups that wait: for each as many as it takes, or none.
    #[cold]
    pub(crate) fn revoke_for_groups(&mut self, free: &mut Vec<i64>, gpus: &mut Vec<i64>, out: &mut Vec<Effect>) {
        for id in self.groups.waiting.clone() {
            let (mut free_then, mut gpus_then) = (free.clone(), gpus.clone());
            if self.groups.table[&id].take(&mut free_then, &mut gpus_then) {
                (*free, *gpus) = (free_then, gpus_then);
            } else if self.now >= self.groups.ask_at {
                self.ask_for_group(id, free, gpus, out);
            } else {
                self.look_again(self.groups.ask_at);
            }
        }
    }

    fn ask_for_group(&mut self, id: GroupId, free: &mut Vec<i64>, gpus: &mut Vec<i64>, out: &mut Vec<Effect>) {
        let mut picked: Vec<At> = Vec::new();
        let (mut free_now, mut gpus_now) = (free.clone(), gpus.clone());
        loop {
            let (mut free_then, mut gpus_then) = (free_now.clone(), gpus_now.clone());
            if self.groups.table[&id].take(&mut free_then, &mut gpus_then) {
                (*free, *gpus) = (free_then, gpus_then);
                break;
            }
            let Some(at) = self.candidate_for_group(id, &free_now) else {
                picked.into_iter().rev().for_each(|at| self.set_asked(at, false));
                return;
            };
            let lease = self.leases.get(at);
            let shape = self.shapes.get(lease.shape);
            shape.demand_at(lease.choice).give(&mut free_now);
            devices::give(&mut gpus_now, shape.gpu, &lease.gpus);
            self.set_asked(at, true);
            picked.push(at);
        }
        self.groups.ask_at = self.now.plus_ms(ASK_MS);
        if self.now >= self.groups.save_again_at {
            let until = self.now.plus_ms(SAVE_MS);
            self.groups.saving_until = Some(until);
            self.groups.save_again_at = self.now.plus_ms(SAVE_AGAIN_MS);
            self.look_again(until);
        }
        out.extend(picked.into_iter().map(|at| Effect::Revoke(self.leases.get(at).id)));
    }

    fn candidate_for_group(&self, id: GroupId, free: &[i64]) -> Option<At> {
        let group = &self.groups.table[&id];
        let of_shape = |(index, shape): (u32, &Shape)| {
            let (count, at) = shape.most_revocable(None)?;
            let held = self.demand_held(shape, at);
            group.is_helped_by(held, shape.gpu, free).then_some((count, std::cmp::Reverse(index), at))
        };
        self.shapes.iter().filter_map(of_shape).max().map(|(_, _, at)| at)
    }
}
