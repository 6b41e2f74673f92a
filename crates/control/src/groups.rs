//! Placement groups: their names, how long they live, what is told of them.
//!
//! Beside the actors and apart from them: a group is registered at once, has its bundles when the scheduler says so, and
//! ends when somebody removes it or whoever it belongs to is gone.
//!
//! - **CTL-8** a group's name leads to it until it is removed; a removed group never comes back.
//! - **CTL-9** no group lives on after the job or the actor that it belongs to, unless it is detached.

use std::collections::{BTreeSet, VecDeque};

use model::{ActorId, GroupId, GroupOptions, JobId, Lifetime, Tick};
use rustc_hash::FxHashMap;

const REMOVED_MAX: usize = 1_000;

/// To whom a group belongs that is not detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// It ends with the driver.
    Job(JobId),
    /// It ends with this actor, which outlives the driver.
    Actor(ActorId),
}

/// A group to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCreation {
    /// Chosen by the creator.
    pub group: GroupId,
    /// To whom it belongs.
    pub maker: Maker,
    /// What it asked for.
    pub options: GroupOptions,
}

/// Where a group is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// Waits for its bundles.
    Pending,
    /// Has them.
    Created,
    /// Some of them were on a node that is dead: it waits for others.
    Rescheduling,
    /// For good.
    Removed,
}

/// What is known of a group.
#[derive(Clone, Debug)]
pub struct GroupRecord {
    /// As it was asked for.
    pub creation: GroupCreation,
    /// Where it is in its life.
    pub state: GroupState,
    /// When it was asked for.
    pub since: Tick,
    /// When it got its bundles.
    pub created_at: Option<Tick>,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum GroupEvent {
    /// `placement_group(...)`. Repeating it with the same id gives the first answer again.
    CreateRequested(GroupCreation),
    /// The scheduler has set its bundles aside.
    Placed(GroupId),
    /// A node is dead that had some of them.
    Broken(GroupId),
    /// `remove_placement_group`. Repeating it changes nothing.
    RemoveRequested(GroupId),
    /// A driver ended.
    JobEnded(JobId),
    /// An actor is dead for good.
    ActorDied(ActorId),
}

/// What shall be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEffect {
    /// Answer the creator: it is registered, or its name is taken.
    Answer {
        /// As requested.
        group: GroupId,
        /// Another one has the name.
        is_name_taken: bool,
    },
    /// Set its bundles aside as soon as there is room.
    Reserve(GroupId),
    /// Its bundles are free; whatever runs in them ends.
    Unreserve(GroupId),
    /// Tell everyone who asked.
    Publish(GroupId, GroupState),
}

/// The placement groups of a cluster: its head has the table.
#[derive(Default)]
pub struct Groups {
    records: FxHashMap<GroupId, GroupRecord>,
    names: FxHashMap<(Box<str>, Box<str>), GroupId>,
    by_job: BTreeSet<(JobId, GroupId)>,
    by_actor: BTreeSet<(ActorId, GroupId)>,
    /// For tables and late askers; oldest first.
    removed: VecDeque<GroupId>,
}

impl Groups {
    /// The only way to change the table. Same events, same effects.
    pub fn step(&mut self, now: Tick, event: GroupEvent, out: &mut Vec<GroupEffect>) {
        match event {
            GroupEvent::CreateRequested(creation) => self.on_create_requested(now, creation, out),
            GroupEvent::Placed(group) => self.on_placed(now, group, out),
            GroupEvent::Broken(group) => {
                if let Some(record) = self.records.get_mut(&group).filter(|one| one.state == GroupState::Created) {
                    record.state = GroupState::Rescheduling;
                }
            }
            GroupEvent::RemoveRequested(group) => self.remove(group, out),
            GroupEvent::JobEnded(job) => {
                let from = (job, GroupId([0; GroupId::LENGTH]));
                let of_job = self.by_job.range(from..).take_while(|(other, _)| *other == job);
                for group in of_job.map(|(_, group)| *group).collect::<Vec<_>>() {
                    self.remove(group, out);
                }
            }
            GroupEvent::ActorDied(actor) => {
                let from = (actor, GroupId([0; GroupId::LENGTH]));
                let of_actor = self.by_actor.range(from..).take_while(|(other, _)| *other == actor);
                for group in of_actor.map(|(_, group)| *group).collect::<Vec<_>>() {
                    self.remove(group, out);
                }
            }
        }
        if cfg!(debug_assertions) && self.records.len() <= 64 {
            self.check_invariants();
        }
    }

    fn on_create_requested(&mut self, now: Tick, creation: GroupCreation, out: &mut Vec<GroupEffect>) {
        let group = creation.group;
        if self.records.contains_key(&group) {
            return out.push(GroupEffect::Answer { group, is_name_taken: false });
        }
        let name = name_of(&creation.options);
        if name.as_ref().is_some_and(|name| self.names.contains_key(name)) {
            return out.push(GroupEffect::Answer { group, is_name_taken: true });
        }
        if let Some(name) = name {
            self.names.insert(name, group);
        }
        if creation.options.lifetime == Lifetime::Owned {
            match creation.maker {
                Maker::Job(job) => self.by_job.insert((job, group)),
                Maker::Actor(actor) => self.by_actor.insert((actor, group)),
            };
        }
        let record = GroupRecord { creation, state: GroupState::Pending, since: now, created_at: None };
        self.records.insert(group, record);
        out.push(GroupEffect::Answer { group, is_name_taken: false });
        out.push(GroupEffect::Reserve(group));
    }

    fn on_placed(&mut self, now: Tick, group: GroupId, out: &mut Vec<GroupEffect>) {
        let is_waiting = |state| matches!(state, GroupState::Pending | GroupState::Rescheduling);
        let Some(record) = self.records.get_mut(&group).filter(|record| is_waiting(record.state)) else { return };
        record.state = GroupState::Created;
        record.created_at.get_or_insert(now);
        out.push(GroupEffect::Publish(group, GroupState::Created));
    }

    fn remove(&mut self, group: GroupId, out: &mut Vec<GroupEffect>) {
        let Some(record) = self.records.get_mut(&group).filter(|record| record.state != GroupState::Removed) else {
            return;
        };
        record.state = GroupState::Removed;
        let creation = &record.creation;
        if let Some(name) = name_of(&creation.options) {
            self.names.remove(&name);
        }
        match creation.maker {
            Maker::Job(job) => self.by_job.remove(&(job, group)),
            Maker::Actor(actor) => self.by_actor.remove(&(actor, group)),
        };
        self.removed.push_back(group);
        if self.removed.len() > REMOVED_MAX {
            let oldest = self.removed.pop_front().expect("more than the bound");
            self.records.remove(&oldest);
        }
        out.push(GroupEffect::Unreserve(group));
        out.push(GroupEffect::Publish(group, GroupState::Removed));
    }

    /// What is known of a group. `None`: nobody made it, or it was removed long ago.
    #[must_use]
    pub fn get(&self, group: GroupId) -> Option<&GroupRecord> {
        self.records.get(&group)
    }

    /// What whoever holds it is to know. An unknown one is removed.
    #[must_use]
    pub fn state(&self, group: GroupId) -> GroupState {
        self.records.get(&group).map_or(GroupState::Removed, |record| record.state)
    }

    /// The group that has the name.
    #[must_use]
    pub fn by_name(&self, namespace: &str, name: &str) -> Option<&GroupRecord> {
        let group = self.names.get(&(namespace.into(), name.into()))?;
        self.records.get(group)
    }

    /// Every group that is known, removed ones too, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &GroupRecord> {
        self.records.values()
    }

    /// Panics if CTL-8 or CTL-9 does not hold.
    pub fn check_invariants(&self) {
        for (name, group) in &self.names {
            let record = &self.records[group];
            assert_eq!(
                name_of(&record.creation.options).as_ref(),
                Some(name),
                "CTL-8: {name:?} leads to another group"
            );
            assert_ne!(record.state, GroupState::Removed, "CTL-8: {name:?} leads to a group that is no more");
        }
        for (group, record) in &self.records {
            let is_there = record.state != GroupState::Removed;
            let name = name_of(&record.creation.options);
            let leads_here = name.as_ref().is_none_or(|name| self.names.get(name) == Some(group));
            assert!(!is_there || leads_here, "CTL-8: {group} lost its name");
            let is_owned = record.creation.options.lifetime == Lifetime::Owned;
            let is_known = match record.creation.maker {
                Maker::Job(job) => self.by_job.contains(&(job, *group)),
                Maker::Actor(actor) => self.by_actor.contains(&(actor, *group)),
            };
            assert_eq!(is_known, is_there && is_owned, "CTL-9: {group} and whom it belongs to");
        }
    }
}

fn name_of(options: &GroupOptions) -> Option<(Box<str>, Box<str>)> {
    (!options.name.is_empty()).then(|| (options.namespace.clone(), options.name.clone()))
}
