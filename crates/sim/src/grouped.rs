//! Placement groups: programs make them, run tasks in them and remove them; the node's tables are the real ones.
//!
//! What bundles hold is mostly seats, of which a node has few: so groups wait for each other. A program has one group at a time, so that none
//! holds what another waits for while it waits itself.
//!
//! - **SIM-11** a group has all its bundles or none, what runs in it fits into it, and all is given back when it is removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use control::GroupState;
use model::{Failure, GroupId, GroupOptions, Lifetime, Need, ObjectId, Quantity, Resources, Seat, Where};
use model::{Strategy, TaskId, Tick};
use owner::{Slot, Target, Value};
use wire::control::Question;

use crate::env::Env;
use crate::node::Node;
use crate::process::{Process, Role, ToNode};
use crate::work::cpu;

/// Seats that a node has.
pub(crate) const SEATS: i64 = 4;

/// A group that a program has made.
pub(crate) struct Made {
    id: GroupId,
    seats: Vec<i64>,
    /// The object that stands for its being there.
    ready: Slot,
    /// The head has heard of it: nobody has it in hand before.
    is_registered: bool,
}

fn seats(count: i64, parts: i64) -> Resources {
    let mut resources = cpu(parts);
    resources.set("seat", Quantity::whole(count));
    resources
}

fn seats_of(resources: &Resources) -> i64 {
    resources.amount("seat").0
}

pub(crate) fn with_seats(mut resources: Resources) -> Resources {
    resources.set("seat", Quantity::whole(SEATS));
    resources
}

impl Env {
    /// One by which so many bundles have room sometime. Where nodes die, a group that has lost some of its bundles keeps the others, and might
    /// wait by right for what another such group keeps: so there they lie together.
    fn strategy(&mut self, bundles: usize) -> Strategy {
        let are_all_in = self.now >= Tick(0).plus_ms(self.settings.enter_ms_max + 2_000);
        let nodes = if are_all_in { self.settings.nodes - self.settings.guests } else { 1 };
        match self.rng.below(4) {
            0 if self.settings.kill_node_every_ms == 0 => Strategy::Pack,
            1 if self.settings.kill_node_every_ms == 0 => Strategy::Spread,
            2 if self.settings.kill_node_every_ms == 0 && bundles <= nodes => Strategy::StrictSpread,
            _ => Strategy::StrictPack,
        }
    }
}

impl Process {
    /// Makes a group, or removes the one there is.
    pub(crate) fn change_group(&mut self, env: &mut Env, id: TaskId) {
        if self.group.is_some() {
            return self.remove_group(env);
        }
        let count = env.rng.between(1, 3);
        // At most as many seats as there are.
        let each = if count == 1 { 4 } else { 2 };
        let seats_each: Vec<i64> = (0..count).map(|_| env.rng.between(1, each.min(4 / count)) as i64).collect();
        let group = GroupId::of(id);
        let options = GroupOptions {
            name: "".into(),
            namespace: "".into(),
            lifetime: Lifetime::Owned,
            strategy: env.strategy(count as usize),
            bundles: seats_each.iter().map(|count| seats(*count, 100)).collect(),
            labels: Vec::new(),
        };
        let question = Question::CreateGroup { group, options };
        env.tell_node(self.pid, ToNode::Ask { request: 0, question });
        let ready = self.party.owner.on_promised(ObjectId::of(id, 1));
        env.tell_node(self.pid, ToNode::WatchGroup { group });
        self.group = Some(Made { id: group, seats: seats_each, ready, is_registered: false });
        env.counts.groups += 1;
    }

    pub(crate) fn group_made(&mut self, id: GroupId) {
        self.group.iter_mut().filter(|made| made.id == id).for_each(|made| made.is_registered = true);
    }

    /// Lets go of the group, if there is one.
    pub(crate) fn remove_group(&mut self, env: &mut Env) {
        if let Some(Made { id, ready, .. }) = self.group.take() {
            env.oracle.group_removed(id);
            env.tell_node(self.pid, ToNode::RemoveGroup(id));
            if self.party.owner.object(ready).is_some_and(|object| object.value.is_none()) {
                self.awaited.push((id, ready));
            }
            self.party.owner.on_handle_dropped(ready, &mut self.party.effects);
        }
    }

    /// What a task in the program's group needs.
    pub(crate) fn seat(&self, env: &mut Env) -> Option<Need> {
        let group = self.group.as_ref().filter(|made| made.is_registered)?;
        let at = env.rng.below(group.seats.len() as u64) as usize;
        let count = env.rng.between(1, group.seats[at] as u64) as i64;
        let bundle = env.rng.chance(600).then_some(at as u16);
        let at = Where::Bundle(Seat { group: group.id, bundle, captures: false });
        Some(Need { at, ..Need::same(seats(count, 0)) })
    }

    pub(crate) fn submit_seated(&mut self, env: &mut Env, id: TaskId) -> Option<Slot> {
        let need = self.seat(env)?;
        let plan = env.plans.seated(&mut env.rng, need);
        Some(self.submit(env, id, plan, Target::Pool, crate::process::Inputs::default()))
    }

    /// The node says that a group has its bundles, or is no more.
    pub(crate) fn on_group(&mut self, group: GroupId, is_there: bool) {
        let made = self.group.as_ref().filter(|made| made.id == group).map(|made| made.ready);
        let removed = self.awaited.iter().position(|(id, _)| *id == group);
        let Some(slot) = made.or_else(|| removed.map(|at| self.awaited.swap_remove(at).1)) else { return };
        let value = if is_there {
            Value::Inline(owner::Packed::from(&[][..]))
        } else {
            Value::Failed(Arc::new(Failure::GroupRemoved))
        };
        self.party.owner.on_promise_kept(slot, value, &mut self.party.effects);
    }

    /// The seats that it takes while it runs, and where.
    fn seated(&self, env: &Env) -> Option<(Seat, i64)> {
        let Role::Worker(worker) = &self.role else { return None };
        let need = &env.plans.get(worker.running_plan()?).template.need;
        match need.at {
            Where::Bundle(seat) => Some((seat, seats_of(&need.to_hold))),
            Where::Anywhere | Where::Node(_) => None,
        }
    }
}

impl Node {
    /// SIM-11: groups have their seats, and what runs in one fits into it. `groups`: the head's.
    pub(crate) fn check_groups<'a>(
        &self,
        env: &Env,
        groups: &control::Groups,
        processes: impl Iterator<Item = &'a Process>,
    ) -> Result<(), String> {
        let mut free: BTreeMap<GroupId, BTreeMap<u16, i64>> = BTreeMap::new();
        for (group, index, _) in self.hub.scheduler().bundles() {
            let record = groups.get(group).filter(|record| record.state != GroupState::Removed);
            // Word of its removal may be on its way.
            let Some(record) = record else { continue };
            let seats = seats_of(&record.creation.options.bundles[usize::from(index)]);
            free.entry(group).or_default().insert(index, seats);
        }
        let aside: i64 = free.values().flat_map(BTreeMap::values).sum();
        let left = seats_of(&self.hub.scheduler().available());
        if aside + left > seats_of(&self.hub.scheduler().total()) {
            return Err(format!("SIM-11: {aside} seats are set aside, and {left} are free"));
        }
        let mut anywhere: BTreeMap<GroupId, i64> = BTreeMap::new();
        for (seat, count) in processes.filter_map(|process| process.seated(env)) {
            let bundles = free.get_mut(&seat.group);
            match (bundles, seat.bundle) {
                (Some(bundles), Some(bundle)) if bundles.contains_key(&bundle) => {
                    *bundles.entry(bundle).or_default() -= count;
                }
                (Some(_), None) => *anywhere.entry(seat.group).or_default() += count,
                _ if groups.state(seat.group) == GroupState::Removed => {}
                _ => return Err(format!("SIM-11: a task runs in {seat:?}, which is not there")),
            }
        }
        for (group, bundles) in free {
            let rest: i64 = bundles.values().sum();
            if bundles.values().any(|left| *left < 0) || rest < anywhere.remove(&group).unwrap_or(0) {
                return Err(format!("SIM-11: more runs in {group} than it has room for: {bundles:?} left"));
            }
        }
        Ok(())
    }

    /// SIM-6: no group is left, and every seat is free.
    pub(crate) fn check_groups_at_rest(&self) -> Result<(), String> {
        if let Some(left) = self.hub.group_table().iter().find(|record| record.state != GroupState::Removed) {
            return Err(format!("SIM-6: a group is left: {left:?}"));
        }
        let (available, total) = (self.hub.scheduler().available(), self.hub.scheduler().total());
        if seats_of(&available) != seats_of(&total) || (self.hub.scheduler().is_at_rest() && available != total) {
            return Err(format!("SIM-6: of {total} only {available} are free"));
        }
        Ok(())
    }
}
