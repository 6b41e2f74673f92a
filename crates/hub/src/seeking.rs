//! Leases for which the head has to find a node: those that ask for labels, or are to be on many nodes, or want a bundle that is not here.
//!
//! They lie beside the scheduler, which would give them what is free here, and are said to the head with what else waits.

use std::collections::BTreeMap;

use model::{GroupId, JobId, LeaseId, Need, ProcId, Tick, Where};
use rustc_hash::FxHashMap;
use scheduler::{Demand, LeaseKind};
use wire::waits::{Awaited, LeaseReason, WaitRecord, Waiter};

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::procs::Proc;

#[derive(Default)]
pub(crate) struct Seekers {
    /// In order of arrival.
    waiting: BTreeMap<u64, Seeker>,
    by_lease: FxHashMap<LeaseId, u64>,
    arrivals: u64,
}

#[derive(Clone)]
pub(crate) struct Seeker {
    pub(crate) lease: LeaseId,
    pub(crate) kind: LeaseKind,
    pub(crate) need: Need,
    pub(crate) job: JobId,
    since: Tick,
}

impl Seekers {
    fn add(&mut self, seeker: Seeker) {
        if !self.by_lease.contains_key(&seeker.lease) {
            self.arrivals += 1;
            self.by_lease.insert(seeker.lease, self.arrivals);
            self.waiting.insert(self.arrivals, seeker);
        }
    }

    /// It needs none any more, or has one. False: it is not here.
    pub(crate) fn take(&mut self, lease: &LeaseId) -> bool {
        self.by_lease.remove(lease).is_some_and(|arrival| self.waiting.remove(&arrival).is_some())
    }

    fn take_all(&mut self, is_it: impl Fn(&Seeker) -> bool, count: usize) -> Vec<Seeker> {
        let found: Vec<Seeker> = self.waiting.values().filter(|seeker| is_it(seeker)).take(count).cloned().collect();
        found.iter().for_each(|seeker| {
            self.take(&seeker.lease);
        });
        found
    }

    /// So many that ask for this, those that have waited longest.
    pub(crate) fn take_like(&mut self, kind: LeaseKind, need: &Need, count: usize) -> Vec<Seeker> {
        self.take_all(|seeker| seeker.kind == kind && seeker.need == *need, count)
    }

    pub(crate) fn take_of_group(&mut self, group: GroupId) -> Vec<Seeker> {
        let is_of = |seeker: &Seeker| matches!(seeker.need.at, Where::Bundle(seat) if seat.group == group);
        self.take_all(is_of, usize::MAX)
    }

    /// What it had asked for is over, but for actors, on which others decide.
    pub(crate) fn process_gone(&mut self, gone: ProcId) {
        if !self.waiting.is_empty() {
            self.take_all(|seeker| seeker.kind == LeaseKind::Tasks && seeker.lease.owner == gone, usize::MAX);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn demands(&self) -> Vec<Demand> {
        let mut demands: Vec<Demand> = Vec::new();
        let mut known: FxHashMap<(bool, &Need), usize> = FxHashMap::default();
        for Seeker { kind, need, .. } in self.waiting.values() {
            let at = *known.entry((*kind == LeaseKind::Actor, need)).or_insert_with(|| {
                demands.push(Demand { need: need.clone(), kind: *kind, count: 0, seeks: true });
                demands.len() - 1
            });
            demands[at].count += 1;
        }
        demands
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Seeker> {
        self.waiting.values()
    }
}

impl<B: Body> Hub<B> {
    /// Whether the head has to say which node gives this, and be it this one.
    pub(crate) fn seeks(&self, need: &Need) -> bool {
        if !self.members.has_begun() {
            return false;
        }
        match need.at {
            Where::Node(_) => false,
            Where::Bundle(seat) => !self.leases.scheduler().has_bundle(seat.group, seat.bundle),
            Where::Anywhere => need.wish.is_some(),
        }
    }

    /// The same need without what makes no difference: in a node that is alone, where whoever asks has looked at the labels; and once the node
    /// that was to be rather than others is dead, or too small.
    pub(crate) fn settled(&self, mut need: Need) -> Need {
        let Some(wish) = &mut need.wish else { return need };
        if !self.members.has_begun() {
            need.wish = None;
            return need;
        }
        if let Some(id) = wish.rather
            && !self.members.could_hold(id, &need.to_place, &need.to_hold)
        {
            wish.rather = None;
        }
        if wish.rather.is_none() && !wish.spread && wish.labels.is_empty() {
            need.wish = None;
        }
        need
    }

    /// It waits here until the head knows a node.
    pub(crate) fn seek(&mut self, step: &mut Step<'_, B>, lease: LeaseId, kind: LeaseKind, need: Need, job: JobId) {
        if matches!(need.at, Where::Anywhere) && !self.is_feasible_anywhere(&need) {
            self.tell_infeasible_need(step, job, &need);
        }
        self.overflow.seekers.add(Seeker { lease, kind, need, job, since: step.now });
        self.overflow.say_now(step.now);
    }

    /// Leases that seek a node, for `status`.
    pub(crate) fn seeking(&self, now: Tick) -> impl Iterator<Item = WaitRecord> {
        self.overflow.seekers.iter().map(move |seeker| {
            let is_infeasible = matches!(seeker.need.at, Where::Anywhere) && !self.is_feasible_anywhere(&seeker.need);
            let why = if is_infeasible { LeaseReason::Infeasible } else { LeaseReason::InUse };
            WaitRecord {
                who: match self.actors.life_of(&seeker.lease) {
                    Some((actor, _)) => Waiter::Actor(actor),
                    None => Waiter::Lease {
                        name: self.leases.name(&seeker.lease),
                        pid: self.procs.get(seeker.lease.owner).map_or(0, Proc::pid),
                    },
                },
                on: Awaited::Resources { why, need: seeker.need.to_place.clone() },
                waited_ms: now.ms_since(seeker.since),
            }
        })
    }
}
