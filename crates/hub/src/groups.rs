//! Carries out what the table of placement groups decides.

use control::{GroupCreation, GroupEffect, GroupEvent, GroupState, Groups, Maker};
use model::{ActorDeath, ActorId, Failure, GroupId, GroupOptions, JobId, LeaseId, Lifetime, ProcId, Strategy, Where};
use rustc_hash::FxHashMap;
use scheduler::GroupNews;
use wire::control::FromNodeOf;
use wire::groups::{GroupMade, GroupStatus, WhichGroups};
use wire::waits::{Awaited, WaitRecord, Waiter};

use crate::body::{Body, Step};
use crate::hub::Hub;

#[derive(Default)]
pub(crate) struct GroupRoom {
    table: Groups,
    /// Who waits for a group.
    watchers: FxHashMap<GroupId, Vec<ProcId>>,
}

impl GroupRoom {
    pub(crate) fn table(&self) -> &Groups {
        &self.table
    }

    fn watch(&mut self, group: GroupId, by: ProcId) {
        let watchers = self.watchers.entry(group).or_default();
        if !watchers.contains(&by) {
            watchers.push(by);
        }
    }

    pub(crate) fn process_gone(&mut self, gone: ProcId) {
        self.watchers.retain(|_, watchers| {
            watchers.retain(|watcher| *watcher != gone);
            !watchers.is_empty()
        });
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &ProcId> {
        self.watchers.values().flatten()
    }

    /// All groups are removed, and nobody waits for one.
    pub(crate) fn is_empty(&self) -> bool {
        self.watchers.is_empty() && self.table.iter().all(|record| record.state == GroupState::Removed)
    }
}

impl<B: Body> Hub<B> {
    /// Registers a group. Whoever hears that it is there hears, too, when it is no more.
    pub(crate) fn create_group(
        &mut self,
        step: &mut Step<'_, B>,
        by: Option<(ProcId, JobId)>,
        group: GroupId,
        options: GroupOptions,
    ) -> GroupMade {
        let Some((by, job)) = by else {
            return GroupMade { group, is_registered: false, is_there: false };
        };
        let maker = self.actors.table().lasting_actor_of(by).map_or(Maker::Job(job), Maker::Actor);
        // What a task asks for whose driver has left meanwhile would be set aside for ever: its job does not end again.
        let is_late = options.lifetime == Lifetime::Owned && maker == Maker::Job(job) && !self.has_driver(job);
        if is_late {
            return GroupMade { group, is_registered: false, is_there: false };
        }
        let creation = GroupCreation { group, maker, options };
        let is_registered = self.group_changed(step, GroupEvent::CreateRequested(creation));
        let is_anonymous = self.groups.table.get(group).is_some_and(|record| record.creation.options.name.is_empty());
        let is_there = is_registered && is_anonymous && self.groups.table.state(group) == GroupState::Created;
        if is_there {
            self.groups.watch(group, by);
        }
        GroupMade { group, is_registered, is_there }
    }

    pub(crate) fn remove_group(&mut self, step: &mut Step<'_, B>, by: Option<ProcId>, group: GroupId) {
        // Who removes it knows. One that still waits for the group is told, whoever removed it.
        if self.groups.table.state(group) == GroupState::Created
            && let Some(watchers) = self.groups.watchers.get_mut(&group)
        {
            watchers.retain(|watcher| Some(*watcher) != by);
        }
        self.group_changed(step, GroupEvent::RemoveRequested(group));
    }

    /// Tells the table something and does what it says. False: what was asked for was refused.
    pub(crate) fn group_changed(&mut self, step: &mut Step<'_, B>, event: GroupEvent) -> bool {
        let mut effects = Vec::new();
        self.groups.table.step(step.now, event, &mut effects);
        let mut is_taken = false;
        for effect in effects {
            match effect {
                GroupEffect::Answer { is_name_taken, .. } => is_taken |= is_name_taken,
                GroupEffect::Reserve(group) => self.reserve(step, group),
                GroupEffect::Unreserve(group) => self.unreserve(step, group),
                GroupEffect::Publish(group, state) => self.publish_group(step, group, state),
            }
        }
        !is_taken
    }

    fn reserve(&mut self, step: &mut Step<'_, B>, group: GroupId) {
        let Some(record) = self.groups.table.get(group) else { return };
        let GroupOptions { bundles, strategy, labels, .. } = &record.creation.options;
        let (bundles, strategy, labels) = (bundles.clone(), *strategy, labels.clone());
        if self.is_head() {
            return self.reserve_news(step, GroupNews::Wanted { group, bundles, labels, strategy });
        }
        let is_apart = strategy == Strategy::StrictSpread;
        self.schedule(step, scheduler::Event::GroupRequested { group, bundles, is_apart });
    }

    /// Actors first: their death has a cause, where their workers would only be gone.
    fn unreserve(&mut self, step: &mut Step<'_, B>, group: GroupId) {
        let is_inside = |record: &&control::Record| match record.creation.options.need.at {
            Where::Bundle(seat) => seat.group == group && record.death().is_none(),
            Where::Anywhere | Where::Node(_) => false,
        };
        let inside = self.actors.table().iter().filter(is_inside).map(|record| record.creation.actor);
        for actor in inside.collect::<Vec<ActorId>>() {
            self.displace(step, actor);
        }
        if self.is_head() {
            self.dissolve(step, group);
        } else {
            self.schedule(step, scheduler::Event::GroupRemoved(group));
        }
    }

    pub(crate) fn displace(&mut self, step: &mut Step<'_, B>, actor: ActorId) {
        let record = self.actors.table().get(actor);
        let was_placed = record.is_some_and(|record| record.worker().is_some() || record.incarnation > 0);
        self.act(step, control::Event::Displaced { actor, death: ActorDeath::GroupRemoved { was_placed } });
    }

    /// The scheduler knows no such group any more.
    pub(crate) fn on_refused(&mut self, step: &mut Step<'_, B>, lease: LeaseId) {
        match self.actors.life_of(&lease) {
            Some((actor, _)) => self.displace(step, actor),
            None if self.lodgings.refused_here(&lease) => {}
            None => self.refuse(step, lease, Failure::GroupRemoved),
        }
    }

    /// Why nothing that asks for this place can ever run here.
    pub(crate) fn never_here(&self, at: &Where) -> Option<Box<str>> {
        match at {
            Where::Node(node) if *node != self.options.id => Some(
                format!("The node specified via NodeAffinitySchedulingStrategy doesn't exist any more or is infeasible, and soft=False was specified. It asked for node {node}, this one is {}.", self.options.id).into(),
            ),
            Where::Anywhere | Where::Node(_) | Where::Bundle(_) => None,
        }
    }

    /// The same of here and all other nodes.
    pub(crate) fn nowhere(&self, at: &Where) -> Option<Box<str>> {
        match at {
            Where::Node(id) if self.node_by_id(*id).is_some() => None,
            at => self.never_here(at),
        }
    }

    pub(crate) fn watch_group(&mut self, step: &mut Step<'_, B>, group: GroupId, by: ProcId) {
        match self.groups.table.state(group) {
            GroupState::Pending | GroupState::Rescheduling if self.lives(by) => self.groups.watch(group, by),
            state => self.tell_group(step, by, group, state),
        }
    }

    fn publish_group(&mut self, step: &mut Step<'_, B>, group: GroupId, state: GroupState) {
        for watcher in self.groups.watchers.remove(&group).unwrap_or_default() {
            self.tell_group(step, watcher, group, state);
        }
    }

    fn tell_group(&self, step: &mut Step<'_, B>, to: ProcId, group: GroupId, state: GroupState) {
        self.tell(step, to, FromNodeOf::Group { group, is_there: state == GroupState::Created });
    }

    pub(crate) fn list_groups(&self, which: &WhichGroups) -> Vec<GroupStatus> {
        let found: Vec<&control::GroupRecord> = match which {
            WhichGroups::All => self.groups.table.iter().collect(),
            WhichGroups::One(group) => self.groups.table.get(*group).into_iter().collect(),
            WhichGroups::Named { namespace, name } => self.groups.table.by_name(namespace, name).into_iter().collect(),
        };
        let status = |record: &control::GroupRecord| {
            let options = &record.creation.options;
            let amounts =
                |bundle: &model::Resources| bundle.iter().map(|(name, amount)| (name.into(), amount.0)).collect();
            GroupStatus {
                group: record.creation.group,
                name: options.name.clone(),
                strategy: options.strategy.as_str().into(),
                state: state_name(record.state).into(),
                bundles: options.bundles.iter().map(amounts).collect(),
                nodes: self.homes_of(record.creation.group, options.bundles.len()),
                created_after_us: record.created_at.map(|at| at.0.saturating_sub(record.since.0)),
            }
        };
        found.into_iter().map(status).collect()
    }

    /// Groups that wait, for `status`.
    pub(crate) fn waiting_groups(&self, now: model::Tick) -> impl Iterator<Item = WaitRecord> {
        let is_waiting =
            |record: &&control::GroupRecord| matches!(record.state, GroupState::Pending | GroupState::Rescheduling);
        let pending = self.groups.table.iter().filter(is_waiting);
        pending.map(move |record| WaitRecord {
            who: Waiter::Group(record.creation.group),
            on: Awaited::Bundles(record.creation.options.bundles.clone()),
            waited_ms: now.ms_since(record.since),
        })
    }
}

fn state_name(state: GroupState) -> &'static str {
    match state {
        GroupState::Pending => "PENDING",
        GroupState::Created => "CREATED",
        GroupState::Rescheduling => "RESCHEDULING",
        GroupState::Removed => "REMOVED",
    }
}
