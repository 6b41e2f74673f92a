//! Placement groups over nodes: carries out what `scheduler::Reserve` orders at the head, and what the head orders elsewhere.

use std::collections::{BTreeSet, VecDeque};

use control::{GroupEvent, GroupState};
use model::{Failure, GroupId, NodeId, Resources, Tick, Where};
use scheduler::{GroupNews, GroupOrder, LeaseKind, Reserve};
use wire::abroad::Between;

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::members::HEAD;

#[derive(Default)]
pub(crate) struct Reserving {
    reserve: Reserve,
    /// Orders in the order in which they were given: one that is carried out here may lead to more.
    orders: VecDeque<GroupOrder>,
    is_at_work: bool,
}

impl Reserving {
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.reserve.next_deadline()
    }

    /// Whether a group is not whole.
    pub(crate) fn is_waiting(&self) -> bool {
        self.reserve.is_waiting()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.reserve.is_empty()
    }

    pub(crate) fn reserve(&self) -> &Reserve {
        &self.reserve
    }
}

impl<B: Body> Hub<B> {
    /// At the head.
    pub(crate) fn reserve_news(&mut self, step: &mut Step<'_, B>, news: GroupNews) {
        self.note_own_load();
        let mut orders = Vec::new();
        self.reserving.reserve.step(step.now, news, &mut self.overflow.global, &mut orders);
        self.reserving.orders.extend(orders);
        if self.reserving.is_at_work {
            return;
        }
        self.reserving.is_at_work = true;
        while let Some(order) = self.reserving.orders.pop_front() {
            self.on_group_order(step, order);
        }
        self.reserving.is_at_work = false;
    }

    fn on_group_order(&mut self, step: &mut Step<'_, B>, order: GroupOrder) {
        match order {
            GroupOrder::Prepare { node: HEAD, group, attempt, bundles, within_ms } => {
                self.prepare(step, group, attempt, bundles, within_ms);
            }
            GroupOrder::Commit(HEAD, group) => self.schedule(step, scheduler::Event::GroupCommitted(group)),
            GroupOrder::Abort(HEAD, group) => self.schedule(step, scheduler::Event::GroupAborted(group)),
            GroupOrder::Dissolve(HEAD, group) => self.schedule(step, scheduler::Event::GroupRemoved(group)),
            GroupOrder::Prepare { node, group, attempt, bundles, within_ms } => {
                step.body.send(node, Between::Prepare { group, attempt, bundles, within_ms });
            }
            GroupOrder::Commit(node, group) => step.body.send(node, Between::Commit(group)),
            GroupOrder::Abort(node, group) => step.body.send(node, Between::Abort(group)),
            GroupOrder::Dissolve(node, group) => step.body.send(node, Between::Dissolve(group)),
            GroupOrder::Whole(group) => {
                self.group_changed(step, GroupEvent::Placed(group));
                // What waits for a place in it may have one.
                self.overflow.say_now(step.now);
            }
            GroupOrder::Broken(group) => {
                self.group_changed(step, GroupEvent::Broken(group));
            }
            GroupOrder::Infeasible(group) => self.on_infeasible_group(step, group),
        }
    }

    /// From the head: bundles shall lie here.
    pub(crate) fn prepare(
        &mut self,
        step: &mut Step<'_, B>,
        group: GroupId,
        attempt: u32,
        bundles: Vec<(u16, Resources)>,
        within_ms: u64,
    ) {
        let until = step.now.plus_ms(within_ms);
        self.schedule(step, scheduler::Event::GroupPart { group, attempt, bundles, until });
    }

    /// The scheduler has set bundles aside, or has not.
    pub(crate) fn on_prepared_here(&mut self, step: &mut Step<'_, B>, group: GroupId, attempt: u32, is_held: bool) {
        if self.is_head() {
            return self.reserve_news(step, GroupNews::Prepared { group, attempt, node: HEAD, is_held });
        }
        if !is_held {
            // The head thinks that there is room.
            self.overflow.has_changed();
            self.overflow.say_now(step.now);
        }
        step.body.send(HEAD, Between::Prepared { group, attempt, is_held });
    }

    /// At the head: the group is no more. Whoever has some of it, or waits for that, hears.
    pub(crate) fn dissolve(&mut self, step: &mut Step<'_, B>, group: GroupId) {
        let homes = self.reserving.reserve.homes(group).unwrap_or_default();
        let told: BTreeSet<u32> = homes.iter().flatten().copied().chain([HEAD]).collect();
        let others: Vec<u32> = self.overflow.global.seekers_of(group).filter(|node| !told.contains(node)).collect();
        self.reserve_news(step, GroupNews::Removed(group));
        for node in others {
            step.body.send(node, Between::Dissolve(group));
        }
        self.seekers_without(step, group);
    }

    /// From the head.
    pub(crate) fn on_dissolved(&mut self, step: &mut Step<'_, B>, group: GroupId) {
        self.schedule(step, scheduler::Event::GroupRemoved(group));
        self.seekers_without(step, group);
    }

    fn seekers_without(&mut self, step: &mut Step<'_, B>, group: GroupId) {
        for seeker in self.overflow.seekers.take_of_group(group) {
            match seeker.kind {
                LeaseKind::Tasks => self.refuse(step, seeker.lease, Failure::GroupRemoved),
                LeaseKind::Actor => self.on_refused(step, seeker.lease),
            }
        }
    }

    /// At the head: that node's leases wait for places in groups, some of which may be no more.
    pub(crate) fn tell_of_groups_gone(&mut self, step: &mut Step<'_, B>, node: u32) {
        let demands = self.overflow.global.view(node).map(|(_, demands)| demands).unwrap_or_default();
        let groups = demands.iter().filter_map(|demand| match demand.need.at {
            Where::Bundle(seat) => Some(seat.group),
            Where::Anywhere | Where::Node(_) => None,
        });
        let gone: BTreeSet<GroupId> = groups.filter(|group| self.is_group_gone(*group)).collect();
        gone.into_iter().for_each(|group| step.body.send(node, Between::Dissolve(group)));
    }

    /// At the head: nobody has made it, or it was removed.
    pub(crate) fn is_group_gone(&self, group: GroupId) -> bool {
        self.is_head() && self.groups.table().state(group) == GroupState::Removed
    }

    /// On which node each bundle of a group lies.
    pub(crate) fn homes_of(&self, group: GroupId, count: usize) -> Vec<Option<NodeId>> {
        if self.is_head() {
            let homes = self.reserving.reserve.homes(group).unwrap_or_default();
            let id_of = |node: &Option<u32>| node.and_then(|node| self.members.id_of(node));
            return (0..count).map(|at| homes.get(at).and_then(id_of)).collect();
        }
        let is_here = self.groups.table().state(group) == GroupState::Created;
        vec![is_here.then_some(self.options.id); count]
    }
}
