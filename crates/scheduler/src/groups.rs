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
    /// Which of the group's.
    pub(crate) index: u16,
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
    /// Bundles of it that this node shall have if other nodes can have the others.
    pub(crate) part: Option<Part>,
    /// Leases that hold something of it.
    pub(crate) held: u32,
}

/// Bundles that are prepared: set aside, but nobody's yet.
pub(crate) struct Part {
    pub(crate) bundles: Vec<Bundle>,
    /// Until when room for them is waited for.
    until: Tick,
    /// Named in the answer.
    attempt: u32,
    /// They are set aside.
    pub(crate) is_held: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There is not enough room, now or ever; or what is set aside is nobody's yet.
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
        let wanted = group.bundles.iter().filter(|bundle| seat.bundle.is_none_or(|index| index == bundle.index));
        let demands = wanted.map(|bundle| ledger.demand_in(need, bundle)).filter(is_feasible);
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
    /// What it waits for.
    fn awaited(&self) -> &[Bundle] {
        self.part.as_ref().map_or(&self.bundles, |part| &part.bundles)
    }

    /// What it has, as far as there is.
    pub(crate) fn held_bundles(&self) -> impl Iterator<Item = &Bundle> {
        let own = if self.standing == Standing::Waiting { &[] } else { &self.bundles[..] };
        let part = self.part.as_ref().filter(|part| part.is_held).map_or(&[][..], |part| &part.bundles);
        own.iter().chain(part)
    }

    /// Takes all that it waits for out of what is free, if that fits.
    pub(crate) fn take(&self, free: &mut [i64], gpus: &mut [i64]) -> bool {
        self.awaited().iter().all(|bundle| {
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
        self.awaited().iter().for_each(|bundle| bundle.demand.take(&mut left));
        let needs_gpu = held_gpu != Ask::Nothing && self.awaited().iter().any(|bundle| bundle.gpu != Ask::Nothing);
        needs_gpu || self.awaited().iter().any(|bundle| bundle.demand.is_short_of(held, &left))
    }
}

/// What `GroupPart` says.
pub(crate) struct AskedPart {
    pub(crate) attempt: u32,
    pub(crate) bundles: Vec<(u16, Resources)>,
    pub(crate) until: Tick,
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
        let bundles: Vec<Bundle> = (0..).zip(bundles).map(|(index, bundle)| self.bundle(index, bundle)).collect();
        let is_known = bundles.iter().all(|bundle| bundle.demand.is_feasible) && !(is_apart && bundles.len() > 1);
        let group = Group { bundles, standing: Standing::Waiting, part: None, held: 0 };
        let is_feasible = is_known && group.take(&mut self.ledger.totals(), &mut self.devices.sizes());
        self.groups.table.insert(id, group);
        if is_feasible {
            self.groups.waiting.push(id);
            self.place_from(0, out);
        } else {
            out.push(Effect::GroupInfeasible(id));
        }
    }

    fn bundle(&self, index: u16, resources: &Resources) -> Bundle {
        Bundle {
            index,
            demand: self.ledger.demand_aside(resources, &self.devices),
            gpu: Ask::new(resources.gpu),
            gpus: Vec::new(),
            kinds: Vec::new(),
            devices: Box::default(),
        }
    }

    /// Some bundles of a group shall lie here. They are set aside now or within the time, or not at all; either way that is said.
    pub(crate) fn on_group_part(&mut self, id: GroupId, asked: AskedPart, out: &mut Vec<Effect>) {
        let AskedPart { attempt, bundles, until } = asked;
        self.on_group_aborted(id, out);
        let bundles: Vec<Bundle> = bundles.iter().map(|(index, bundle)| self.bundle(*index, bundle)).collect();
        let is_known = bundles.iter().all(|bundle| bundle.demand.is_feasible);
        let vacant = Group { bundles: Vec::new(), standing: Standing::Waiting, part: None, held: 0 };
        let group = self.groups.table.entry(id).or_insert(vacant);
        group.part = Some(Part { bundles, until, attempt, is_held: false });
        let is_feasible = is_known
            && group.standing != Standing::Leaving
            && group.take(&mut self.ledger.totals(), &mut self.devices.sizes());
        if !is_feasible {
            return self.give_part_up(id, out);
        }
        self.groups.waiting.push(id);
        self.place_from(0, out);
    }

    /// The other bundles of a group are set aside, too: leases may take of these.
    pub(crate) fn on_group_committed(&mut self, id: GroupId, out: &mut Vec<Effect>) {
        let Some(group) = self.groups.table.get_mut(&id) else { return };
        let Some(part) = group.part.take_if(|part| part.is_held) else { return };
        // Behind those that it has: leases know them by their place in the list.
        group.bundles.extend(part.bundles);
        group.standing = Standing::Placed;
        self.open_shapes(id, out);
        self.place_from(0, out);
    }

    /// The bundles that were prepared last are not needed.
    pub(crate) fn on_group_aborted(&mut self, id: GroupId, out: &mut Vec<Effect>) {
        self.drop_part(id);
        self.forget_if_nothing(id, out);
        self.place_from(0, out);
    }

    fn drop_part(&mut self, id: GroupId) {
        let Some(part) = self.groups.table.get_mut(&id).and_then(|group| group.part.take()) else { return };
        if part.is_held {
            part.bundles.into_iter().for_each(|bundle| self.put_back(bundle));
        } else {
            self.groups.waiting.retain(|waiting| *waiting != id);
        }
    }

    fn give_part_up(&mut self, id: GroupId, out: &mut Vec<Effect>) {
        let attempt = self.groups.table[&id].part.as_ref().map_or(0, |part| part.attempt);
        self.drop_part(id);
        out.push(Effect::GroupPrepared { group: id, attempt, is_held: false });
        self.forget_if_nothing(id, out);
    }

    /// A group of which nothing is here and nothing will be. What waits for a place in it has come too early or too late.
    fn forget_if_nothing(&mut self, id: GroupId, out: &mut Vec<Effect>) {
        let is_nothing = |group: &Group| {
            group.standing == Standing::Waiting && group.part.is_none() && group.bundles.is_empty() && group.held == 0
        };
        if self.groups.table.get(&id).is_some_and(is_nothing) {
            self.on_group_removed(id, out);
        }
    }

    fn put_back(&mut self, bundle: Bundle) {
        self.ledger.put_back(&bundle.demand, &bundle.kinds);
        self.devices.put_back(&bundle.devices);
        self.devices.give(bundle.gpu, &bundle.gpus);
    }

    pub(crate) fn on_group_removed(&mut self, id: GroupId, out: &mut Vec<Effect>) {
        if self.groups.table.get(&id).is_some_and(|group| group.standing != Standing::Leaving) {
            self.drop_part(id);
        }
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
            self.put_back(bundle);
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
                match &self.groups.table[&id].part {
                    Some(part) => {
                        out.push(Effect::GroupPrepared { group: id, attempt: part.attempt, is_held: true });
                    }
                    None => {
                        out.push(Effect::GroupPlaced(id));
                        self.open_shapes(id, out);
                    }
                }
            } else if let Some(part) = self.groups.table[&id].part.as_ref()
                && part.until <= self.now
            {
                self.give_part_up(id, out);
            } else {
                if let Some(part) = &self.groups.table[&id].part {
                    self.look_again(part.until);
                }
                position += 1;
            }
        }
    }

    pub(crate) fn group_fits(&self, id: GroupId) -> bool {
        self.groups.table[&id].take(&mut self.ledger.free.clone(), &mut self.devices.free.clone())
    }

    fn place_group(&mut self, id: GroupId) {
        let group = self.groups.table.get_mut(&id).expect("a group that waits is known");
        let bundles = match &mut group.part {
            Some(part) => {
                part.is_held = true;
                &mut part.bundles
            }
            None => {
                group.standing = Standing::Placed;
                &mut group.bundles
            }
        };
        for bundle in bundles {
            bundle.gpus = self.devices.take(&bundle.demand.among, bundle.gpu);
            bundle.devices = self.devices.set_aside(&bundle.gpus, bundle.gpu);
            bundle.kinds = self.ledger.set_aside(&bundle.demand);
        }
    }

    /// What waited for the group may be placed, and what has found no bundle that is large enough may find one.
    fn open_shapes(&mut self, id: GroupId, out: &mut Vec<Effect>) {
        let of_group = |(index, shape): (u32, &Shape)| (shape.group == Some(id)).then_some(index);
        let of_group: Vec<u32> = self.shapes.iter().filter_map(of_group).collect();
        for index in of_group {
            let (was_open, was_placeable) = (self.shapes.get(index).is_open, self.shapes.get(index).is_placeable());
            let need = &self.shapes.get(index).need;
            let choices = self.groups.choices(need, &self.ledger, &self.devices).expect("it was placed just now");
            let shape = self.shapes.get_mut(index);
            shape.open(choices);
            if !shape.is_feasible && was_open {
                continue;
            }
            if !shape.is_feasible {
                let waiting = shape.waiting_leases(&self.leases);
                out.extend(waiting.into_iter().map(|at| Effect::Infeasible(self.leases.get(at).id)));
            } else if shape.waiting > 0 && !was_placeable {
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
