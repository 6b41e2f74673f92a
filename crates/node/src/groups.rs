//! Carries out what the table of placement groups decides.

use control::{GroupCreation, GroupEffect, GroupEvent, GroupState, Maker};
use model::{ActorDeath, ActorId, Failure, GroupId, GroupOptions, LeaseId, ProcId, Strategy, Where};
use wire::control::FromNode;
use wire::groups::{GroupMade, GroupStatus, WhichGroups};
use wire::waits::{Awaited, WaitRecord, Waiter};

use crate::looped::Node;

impl Node {
    /// Registers a group. Whoever hears that it is there hears, too, when it is no more.
    pub(crate) fn create_group(&mut self, by: Option<ProcId>, group: GroupId, options: GroupOptions) -> GroupMade {
        let Some((by, job)) = by.and_then(|by| Some((by, self.procs.get(by)?.job))) else {
            return GroupMade { group, is_registered: false, is_there: false };
        };
        let maker = self.actors.lasting_actor_of(by).map_or(Maker::Job(job), Maker::Actor);
        let is_registered = self.group_changed(GroupEvent::CreateRequested(GroupCreation { group, maker, options }));
        let is_anonymous = self.groups.get(group).is_some_and(|record| record.creation.options.name.is_empty());
        let is_there = is_registered && is_anonymous && self.groups.state(group) == GroupState::Created;
        if is_there {
            self.add_group_watcher(group, by);
        }
        GroupMade { group, is_registered, is_there }
    }

    pub(crate) fn remove_group(&mut self, by: Option<ProcId>, group: GroupId) {
        // Who removes it knows. One that still waits for the group is told, whoever removed it.
        if self.groups.state(group) == GroupState::Created
            && let Some(watchers) = self.group_watchers.get_mut(&group)
        {
            watchers.retain(|watcher| Some(*watcher) != by);
        }
        self.group_changed(GroupEvent::RemoveRequested(group));
    }

    /// Tells the table something and does what it says. False: what was asked for was refused.
    pub(crate) fn group_changed(&mut self, event: GroupEvent) -> bool {
        let mut effects = Vec::new();
        self.groups.step(net::clock::now(), event, &mut effects);
        let mut is_taken = false;
        for effect in effects {
            match effect {
                GroupEffect::Answer { is_name_taken, .. } => is_taken |= is_name_taken,
                GroupEffect::Reserve(group) => self.reserve(group),
                GroupEffect::Unreserve(group) => self.unreserve(group),
                GroupEffect::Publish(group, state) => self.publish_group(group, state),
            }
        }
        !is_taken
    }

    fn reserve(&mut self, group: GroupId) {
        let Some(record) = self.groups.get(group) else { return };
        let GroupOptions { bundles, strategy, .. } = &record.creation.options;
        let (bundles, is_apart) = (bundles.clone(), *strategy == Strategy::StrictSpread);
        self.schedule(scheduler::Event::GroupRequested { group, bundles, is_apart });
    }

    /// Actors first: their death has a cause, where their workers would only be gone.
    fn unreserve(&mut self, group: GroupId) {
        let is_inside = |record: &&control::Record| match record.creation.options.need.at {
            Where::Bundle(seat) => seat.group == group && record.death().is_none(),
            Where::Anywhere | Where::Node(_) => false,
        };
        let inside: Vec<ActorId> = self.actors.iter().filter(is_inside).map(|record| record.creation.actor).collect();
        for actor in inside {
            self.displace(actor);
        }
        self.schedule(scheduler::Event::GroupRemoved(group));
    }

    fn displace(&mut self, actor: ActorId) {
        let was_placed =
            self.actors.get(actor).is_some_and(|record| record.worker().is_some() || record.incarnation > 0);
        self.act(control::Event::Displaced { actor, death: ActorDeath::GroupRemoved { was_placed } });
    }

    /// The scheduler knows no such group any more.
    pub(crate) fn on_refused(&mut self, lease: LeaseId) {
        match self.actor_leases.get(&lease).copied() {
            Some((actor, _)) => self.displace(actor),
            None => self.refuse(lease, Failure::GroupRemoved),
        }
    }

    /// There will be no worker for this lease.
    pub(crate) fn refuse(&mut self, lease: LeaseId, why: Failure) {
        self.lease_needs.remove(&lease);
        self.lease_names.remove(&lease);
        self.tell(lease.owner, &FromNode::LeaseRefused { number: lease.number, why });
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

    pub(crate) fn watch_group(&mut self, group: GroupId, by: ProcId) {
        match self.groups.state(group) {
            GroupState::Pending => self.add_group_watcher(group, by),
            state @ (GroupState::Created | GroupState::Removed) => self.tell_group(by, group, state),
        }
    }

    fn add_group_watcher(&mut self, group: GroupId, by: ProcId) {
        let watchers = self.group_watchers.entry(group).or_default();
        if !watchers.contains(&by) {
            watchers.push(by);
        }
    }

    fn publish_group(&mut self, group: GroupId, state: GroupState) {
        for watcher in self.group_watchers.remove(&group).unwrap_or_default() {
            self.tell_group(watcher, group, state);
        }
    }

    fn tell_group(&mut self, to: ProcId, group: GroupId, state: GroupState) {
        self.tell(to, &FromNode::Group { group, is_there: state == GroupState::Created });
    }

    pub(crate) fn list_groups(&self, which: &WhichGroups) -> Vec<GroupStatus> {
        let found: Vec<&control::GroupRecord> = match which {
            WhichGroups::All => self.groups.iter().collect(),
            WhichGroups::One(group) => self.groups.get(*group).into_iter().collect(),
            WhichGroups::Named { namespace, name } => self.groups.by_name(namespace, name).into_iter().collect(),
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
                created_after_us: record.created_at.map(|at| at.0.saturating_sub(record.since.0)),
            }
        };
        found.into_iter().map(status).collect()
    }

    /// Groups that wait, for `status`.
    pub(crate) fn waiting_groups(&self, now: model::Tick) -> impl Iterator<Item = WaitRecord> {
        let pending = self.groups.iter().filter(|record| record.state == GroupState::Pending);
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
        GroupState::Removed => "REMOVED",
    }
}
