//! What the head knows of a node: what that has, what it said last, what was offered there since.

use std::collections::BTreeMap;

use model::{GroupId, Need, NodeId, Quantity, Resources, Tick, Where};

use crate::Demand;

/// A node that belongs to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: NodeId,
    /// What it has.
    pub total: Resources,
    /// Its labels.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// It has no workers: a driver's own.
    pub is_guest: bool,
}

impl Member {
    /// Which of the labels asked for it has: the place of the first alternative that it meets.
    #[must_use]
    pub fn rank(&self, need: &Need) -> Option<usize> {
        let Some(wish) = &need.wish else { return Some(0) };
        wish.rank(self.id, &self.labels)
    }

    /// Whether it could hold this if nothing else ran there.
    #[must_use]
    pub fn could_hold(&self, need: &Need) -> bool {
        !self.is_guest && holds(&self.total, need)
    }
}

pub(crate) fn holds(have: &Resources, need: &Need) -> bool {
    have.fits(&need.to_place) && have.fits(&need.to_hold)
}

/// A bundle of a group that lies there.
struct Aside {
    total: Resources,
    said: Resources,
    free: Resources,
}

/// A node, as the head knows it.
pub(crate) struct View {
    pub(crate) member: Member,
    /// As it said.
    said: Resources,
    /// Less what was offered since.
    pub(crate) free: Resources,
    pub(crate) demands: Vec<Demand>,
    bundles: BTreeMap<(GroupId, u16), Aside>,
    /// Actors that it was given and that live.
    pub(crate) actors: u32,
    /// Leases that were sent there to wait since it spoke last.
    sent_to_wait: u32,
    /// And when the last of them was.
    pub(crate) sent_at: Tick,
    /// When it was chosen last, by one that is to be on many nodes.
    pub(crate) spread_at: u64,
}

impl View {
    pub(crate) fn new(member: Member) -> Self {
        let (free, said) = (member.total.clone(), member.total.clone());
        let demands = Vec::new();
        Self {
            member,
            said,
            free,
            demands,
            bundles: BTreeMap::new(),
            actors: 0,
            sent_to_wait: 0,
            sent_at: Tick::default(),
            spread_at: 0,
        }
    }

    /// Bundles are told where they have changed.
    pub(crate) fn said(&mut self, free: Resources, demands: Vec<Demand>, bundles: Vec<(GroupId, u16, Resources)>) {
        (self.said, self.free, self.demands) = (free.clone(), free, demands);
        self.sent_to_wait = 0;
        for (group, index, free) in bundles {
            if let Some(aside) = self.bundles.get_mut(&(group, index)) {
                (aside.said, aside.free) = (free.clone(), free);
            }
        }
    }

    pub(crate) fn forget_offers(&mut self) {
        self.free.clone_from(&self.said);
        self.bundles.values_mut().for_each(|aside| aside.free.clone_from(&aside.said));
        self.sent_to_wait = 0;
    }

    fn seats(&self, need: &Need) -> Option<(GroupId, std::ops::RangeInclusive<u16>)> {
        match need.at {
            Where::Bundle(seat) => Some((seat.group, seat.bundle.map_or(0..=u16::MAX, |index| index..=index))),
            Where::Anywhere | Where::Node(_) => None,
        }
    }

    /// Whether there is room for it, as far as is known.
    pub(crate) fn has_room(&self, need: &Need) -> bool {
        match self.seats(need) {
            Some((group, seats)) => self.bundles.range(range(group, &seats)).any(|(_, aside)| holds(&aside.free, need)),
            None => !self.member.is_guest && holds(&self.free, need),
        }
    }

    /// Whether there would be if nothing else ran there.
    pub(crate) fn could_hold(&self, need: &Need) -> bool {
        match self.seats(need) {
            Some((group, seats)) => {
                self.bundles.range(range(group, &seats)).any(|(_, aside)| holds(&aside.total, need))
            }
            None => self.member.could_hold(need),
        }
    }

    /// It was offered there.
    pub(crate) fn take(&mut self, need: &Need) {
        let free = match self.seats(need) {
            Some((group, seats)) => {
                let mut among = self.bundles.range_mut(range(group, &seats));
                among.find(|(_, aside)| holds(&aside.free, need)).map(|(_, aside)| &mut aside.free)
            }
            None => Some(&mut self.free),
        };
        free.into_iter().for_each(|free| free.take(&need.to_hold));
    }

    pub(crate) fn wait_there(&mut self, now: Tick) {
        self.sent_at = now;
        self.sent_to_wait += 1;
    }

    /// What was sent there to wait a while ago does not any more, or its node has said so.
    pub(crate) fn forget_sent(&mut self, until: Tick) {
        if self.sent_at <= until {
            self.sent_to_wait = 0;
        }
    }

    /// Leases that wait there, for each thousand cores.
    pub(crate) fn backlog(&self) -> i64 {
        let waiting = self.demands.iter().filter(|demand| !demand.seeks).map(|demand| i64::from(demand.count));
        per_core(1_000 * (i64::from(self.sent_to_wait) + waiting.sum::<i64>()), &self.member.total)
    }

    /// Cores that are free, in thousandths of all.
    pub(crate) fn idleness(&self) -> i64 {
        self.free.cpu.0.max(0) * 1_000 / self.member.total.cpu.0.max(1)
    }

    /// Actors that hold no core while they wait take a place all the same, as far as where they go is concerned.
    pub(crate) fn crowd(&self) -> i64 {
        per_core(i64::from(self.actors), &self.member.total)
    }

    /// Something is set aside there, or is about to be. It is told later as what is not free.
    pub(crate) fn reserve(&mut self, resources: &Resources) {
        self.free.take(resources);
        self.said.take(resources);
    }

    pub(crate) fn unreserve(&mut self, resources: &Resources) {
        self.free.give(resources);
        self.said.give(resources);
    }

    pub(crate) fn set_aside(&mut self, group: GroupId, index: u16, resources: &Resources) {
        let [total, said, free] = [(); 3].map(|()| resources.clone());
        self.bundles.insert((group, index), Aside { total, said, free });
    }

    pub(crate) fn put_back(&mut self, group: GroupId) {
        for index in self.bundles.range(range(group, &(0..=u16::MAX))).map(|((_, index), _)| *index).collect::<Vec<_>>()
        {
            if let Some(aside) = self.bundles.remove(&(group, index)) {
                self.unreserve(&aside.total);
            }
        }
    }

    /// What would be free for groups if no task ran there.
    pub(crate) fn potential(&self) -> Resources {
        let mut left = self.member.total.clone();
        self.bundles.values().for_each(|aside| left.take(&aside.total));
        left
    }

    /// Of each bundle there, what it is made of, and what of that is free.
    pub(crate) fn bundles(&self) -> impl Iterator<Item = (GroupId, u16, &Resources, &Resources)> {
        self.bundles.iter().map(|((group, index), aside)| (*group, *index, &aside.total, &aside.said))
    }
}

fn per_core(count: i64, total: &Resources) -> i64 {
    count * Quantity::PARTS / total.cpu.0.max(Quantity::PARTS / 2)
}

fn range(group: GroupId, seats: &std::ops::RangeInclusive<u16>) -> std::ops::RangeInclusive<(GroupId, u16)> {
    (group, *seats.start())..=(group, *seats.end())
}
