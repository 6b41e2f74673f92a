//! Which node takes what another one has no room for: the part of scheduling that one node, the head, does for all.
//!
//! It knows of each node what that last said: what is free, and what waits there. So what it offers is a guess; the node that is offered
//! something grants it at once or sends it back. Nothing waits here: what waits lies where it was asked for, and is said again. If it can never be
//! had there, it is sent to wait where it can be, so that leases are asked back for it.
//!
//! Pure, as `Scheduler`: same events, same offers.
//!
//! - **GLOBAL-1** nothing is offered to a node that has no room for it as far as is known, nor to one that takes nothing; what is sent somewhere
//!   to wait goes where it could be held.
//! - **GLOBAL-2** what was offered counts as taken until the node speaks again, and is not offered twice.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::{GroupId, Need, Resources, Tick, Where};

use crate::decisions::{Decisions, Why};
use crate::known::{Member, View};
use crate::{Decision, LeaseKind};

/// Leases of one kind that wait on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// What each asks for.
    pub need: Need,
    /// What they are for.
    pub kind: LeaseKind,
    /// How many.
    pub count: u32,
    /// They are not to be had where they wait unless the head says so.
    pub seeks: bool,
}

/// So many leases of a node may be had at another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Where they wait.
    pub from: u32,
    /// Where there is room; the same, if that was for the head to say.
    pub to: u32,
    /// What they ask for, and how many they are.
    pub demand: Demand,
    /// There is no room anywhere: they wait there from now on, so that leases are asked back for them.
    pub waits: bool,
}

/// Where an actor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// The node.
    pub node: u32,
    /// There is no room: it waits there.
    pub waits: bool,
}

/// The nodes, as the head knows them.
#[derive(Default)]
pub struct Global {
    pub(crate) nodes: BTreeMap<u32, View>,
    /// Who was served last: the next one has its turn.
    turn: u32,
    /// How often something was given to the node that had waited longest for it.
    spread: u64,
    decisions: Decisions,
}

impl Global {
    /// A node belongs to the cluster.
    pub fn joined(&mut self, node: u32, member: Member) {
        self.nodes.insert(node, View::new(member));
    }

    /// It does no longer.
    pub fn gone(&mut self, node: u32) {
        self.nodes.remove(&node);
    }

    /// A node says what is free, what waits, and what is free of bundles of which that has changed.
    pub fn said(&mut self, node: u32, free: Resources, demands: Vec<Demand>, bundles: Vec<(GroupId, u16, Resources)>) {
        if let Some(view) = self.nodes.get_mut(&node) {
            view.said(free, demands, bundles);
        }
    }

    /// What was offered a while ago was taken up, of which its node has spoken, or never will be: it counts as free again.
    pub fn forget_offers(&mut self) {
        self.nodes.values_mut().for_each(View::forget_offers);
    }

    fn forget_sent(&mut self, now: Tick) {
        let until = Tick(now.0.saturating_sub(1_000 * PATIENCE_MS));
        self.nodes.values_mut().for_each(|view| view.forget_sent(until));
    }

    /// What is free there, as far as is known, and how many leases wait.
    #[must_use]
    pub fn view(&self, node: u32) -> Option<(&Resources, &[Demand])> {
        self.nodes.get(&node).map(|view| (&view.free, &view.demands[..]))
    }

    /// The nodes whose leases wait for a place in this group.
    pub fn seekers_of(&self, group: GroupId) -> impl Iterator<Item = u32> {
        let is_of = move |demand: &Demand| matches!(demand.need.at, Where::Bundle(seat) if seat.group == group);
        let wants = self.nodes.iter().filter(move |(_, view)| view.demands.iter().any(is_of));
        wants.map(|(node, _)| *node)
    }

    /// Every bundle of every group that lies somewhere: of which group, which one, what it is made of, and what of that is free.
    pub fn bundles(&self) -> impl Iterator<Item = (GroupId, u16, &Resources, &Resources)> {
        self.nodes.values().flat_map(View::bundles)
    }

    /// Whether a node has enough of everything, free or not, and is as the need says.
    #[must_use]
    pub fn is_feasible(&self, need: &Need) -> bool {
        self.nodes.values().any(|view| view.could_hold(need) && view.member.rank(need).is_some())
    }

    /// What was decided lately, the oldest first.
    pub fn decisions(&self) -> impl Iterator<Item = &Decision> {
        self.decisions.iter()
    }

    pub(crate) fn note(&mut self, decision: Decision) {
        self.decisions.push(decision);
    }

    /// What can go elsewhere now, and what has to wait elsewhere.
    pub fn offers(&mut self, now: Tick) -> Vec<Offer> {
        self.forget_sent(now);
        let mut offers = Vec::new();
        let behind = self.nodes.range(self.turn + 1..).map(|(node, _)| *node);
        let order: Vec<u32> = behind.chain(self.nodes.range(..=self.turn).map(|(node, _)| *node)).collect();
        for from in order {
            let Some(view) = self.nodes.get_mut(&from).filter(|view| !view.demands.is_empty()) else { continue };
            let mut demands = std::mem::take(&mut view.demands);
            for demand in &mut demands {
                let found = self.find(now, from, demand);
                if !found.is_empty() {
                    self.turn = from;
                }
                offers.extend(found);
            }
            demands.retain(|demand| demand.count > 0);
            if let Some(view) = self.nodes.get_mut(&from) {
                view.demands = demands;
            }
        }
        offers
    }

    fn find(&mut self, now: Tick, from: u32, demand: &mut Demand) -> Vec<Offer> {
        let mut counts: BTreeMap<(u32, bool), (u32, Why)> = BTreeMap::new();
        let spreads = demand.need.wish.as_ref().is_some_and(|wish| wish.spread);
        while demand.count > 0 {
            let found = if spreads && demand.seeks { self.next_in_turn(&demand.need) } else { None };
            let found = match found.or_else(|| self.with_room(now, from, demand).map(|(to, why)| (to, false, why))) {
                Some(found) => Some(found),
                None if demand.seeks => self.to_wait_at(&demand.need).map(|to| (to, true, Why::FewestWait)),
                None if demand.count > 1 => self.idle_bundle(from, &demand.need).map(|to| (to, true, Why::FewestWait)),
                None => None,
            };
            let Some((to, waits, why)) = found else { break };
            self.give(now, to, waits, &demand.need);
            demand.count -= 1;
            let (count, _) = counts.entry((to, waits)).or_insert((0, why));
            *count += 1;
            // What holds nothing fits for ever.
            if *count == u32::MAX || demand.need.to_hold == Resources::default() && *count >= EVEN_MAX {
                break;
            }
        }
        let mut offers = Vec::with_capacity(counts.len());
        for ((to, waits), (count, why)) in counts {
            let demand = Demand { count, ..demand.clone() };
            self.note(Decision::of(now, &demand, from, to, why));
            offers.push(Offer { from, to, demand, waits });
        }
        offers
    }

    /// Where there is room for one that waits on `from`, and why there.
    fn with_room(&self, now: Tick, from: u32, demand: &Demand) -> Option<(u32, Why)> {
        let Demand { need, seeks, .. } = demand;
        let fitting = self.nodes.iter().filter(|(node, view)| (*seeks || **node != from) && view.has_room(need));
        let spreads = need.wish.as_ref().is_some_and(|wish| wish.spread);
        // It was sent there just now, and idle leases are on their way back.
        if spreads && !seeks && self.nodes.get(&from).is_some_and(|view| now < view.sent_at.plus_ms(PATIENCE_MS)) {
            return None;
        }
        let ranked = fitting.filter_map(|(node, view)| Some((view.member.rank(need)?, *node, view)));
        let order = |(rank, node, view): &(usize, u32, &View)| {
            let spread_at = if spreads { view.spread_at } else { 0 };
            // Where it waits it costs no hop.
            let is_far = !spreads && *node != from;
            (*rank, spread_at, is_far, Reverse(view.idleness()), *node)
        };
        let (_, to, _) = ranked.min_by_key(order)?;
        Some((to, self.why(from, to, need, spreads)))
    }

    /// For one of those that are to be on many nodes. One on which fewer wait than it has cores is taken for one with room: idle leases come back
    /// when somebody waits; and if they do not, it is offered another node.
    fn next_in_turn(&self, need: &Need) -> Option<(u32, bool, Why)> {
        let feasible = self.nodes.iter().filter(|(_, view)| view.could_hold(need));
        let open = feasible.filter(|(_, view)| view.has_room(need) || view.backlog() < 1_000);
        let ranked = open.filter_map(|(node, view)| Some((view.member.rank(need)?, *node, view)));
        let (_, to, view) = ranked.min_by_key(|(rank, node, view)| (*rank, view.spread_at, *node))?;
        Some((to, !view.has_room(need), Why::Spread))
    }

    fn why(&self, from: u32, to: u32, need: &Need, spreads: bool) -> Why {
        let feasible = self.nodes.values().filter(|view| view.could_hold(need) && view.member.rank(need).is_some());
        match need.at {
            Where::Bundle(_) => Why::Bundle,
            _ if feasible.count() == 1 => Why::Only,
            _ if spreads => Why::Spread,
            _ if from == to => Why::RoomAtHome,
            _ if need.wish.is_some() => Why::Labels,
            _ => Why::MostIdle,
        }
    }

    /// Where one waits for which there is no room anywhere: where fewest do, of those that could hold it.
    fn to_wait_at(&self, need: &Need) -> Option<u32> {
        let feasible = self.nodes.iter().filter(|(_, view)| view.could_hold(need));
        let ranked = feasible.filter_map(|(node, view)| Some((view.member.rank(need)?, *node, view)));
        ranked.min_by_key(|(rank, node, view)| (*rank, view.backlog(), view.spread_at, *node)).map(|(_, to, _)| to)
    }

    /// For one of several that wait for any bundle of a group: another node that has one, and where nobody waits. Leases of other bundles of the
    /// same group, which are idle, come back if somebody waits there.
    fn idle_bundle(&self, from: u32, need: &Need) -> Option<u32> {
        if !matches!(need.at, Where::Bundle(_)) {
            return None;
        }
        let others = self.nodes.iter().filter(|(node, view)| **node != from && view.could_hold(need));
        others.filter(|(_, view)| view.backlog() == 0).map(|(node, _)| *node).next()
    }

    fn give(&mut self, now: Tick, to: u32, waits: bool, need: &Need) {
        let Some(view) = self.nodes.get_mut(&to) else { return };
        if waits {
            view.wait_there(now);
        } else {
            view.take(need);
        }
        if need.wish.as_ref().is_some_and(|wish| wish.spread) {
            self.spread += 1;
            view.spread_at = self.spread;
        }
    }

    /// Where an actor goes that may go anywhere: to its creator's node while there is a core for each actor, then where there are fewest for
    /// each core. None: nowhere is room now, nor is there a node where it must wait.
    pub fn place_actor(&mut self, now: Tick, need: &Need, creator: u32) -> Option<Home> {
        self.forget_sent(now);
        let rather = need.wish.as_ref().and_then(|wish| wish.rather);
        let at_home = rather.and_then(|id| self.nodes.iter().find(|(_, view)| view.member.id == id));
        let home = match at_home.filter(|(_, view)| view.could_hold(need)) {
            Some((node, view)) => Some((Home { node: *node, waits: !view.has_room(need) }, Why::Affinity)),
            None if need.wish.as_ref().is_some_and(|wish| wish.spread) => {
                let next = self.next_in_turn(need).map(|(node, waits, why)| (Home { node, waits }, why));
                next.or_else(|| self.home_with_room(need, creator))
            }
            None => self.home_with_room(need, creator),
        };
        let (home, why) = home?;
        self.give(now, home.node, home.waits, need);
        let demand = Demand { need: need.clone(), kind: LeaseKind::Actor, count: 1, seeks: true };
        self.note(Decision::of(now, &demand, creator, home.node, why));
        Some(home)
    }

    fn home_with_room(&self, need: &Need, creator: u32) -> Option<(Home, Why)> {
        let spreads = need.wish.as_ref().is_some_and(|wish| wish.spread);
        let fitting = self.nodes.iter().filter(|(_, view)| view.has_room(need));
        let ranked = fitting.filter_map(|(node, view)| Some((view.member.rank(need)?, *node, view)));
        let order = |(rank, node, view): &(usize, u32, &View)| {
            let spread_at = if spreads { view.spread_at } else { 0 };
            (*rank, spread_at, view.crowd(), *node != creator, *node)
        };
        let (_, node, _) = ranked.min_by_key(order)?;
        let why = match self.why(creator, node, need, spreads) {
            Why::MostIdle => Why::FewestActors,
            why => why,
        };
        Some((Home { node, waits: false }, why))
    }

    /// An actor has gone there, or has left.
    pub fn count_actor(&mut self, node: u32, has_come: bool) {
        if let Some(view) = self.nodes.get_mut(&node) {
            view.actors = if has_come { view.actors + 1 } else { view.actors.saturating_sub(1) };
        }
    }

    /// All nodes, for whoever asks which comes nearest to something.
    pub fn members(&self) -> impl Iterator<Item = (u32, &Member)> {
        self.nodes.iter().map(|(node, view)| (*node, &view.member))
    }
}

/// Leases that hold nothing and are offered to one node at a time.
const EVEN_MAX: u32 = 64;
/// How long one that is to be on many nodes waits on the one whose turn it was.
const PATIENCE_MS: u64 = 50;

#[cfg(test)]
mod tests {
    use model::{NodeId, Quantity};
    use proptest::prelude::*;

    use super::*;

    fn cpus(count: i64) -> Resources {
        Resources::cpus(count)
    }

    fn tasks(cpus_each: i64, count: u32) -> Demand {
        Demand { need: Need::same(cpus(cpus_each)), kind: LeaseKind::Tasks, count, seeks: false }
    }

    fn member(number: u8, count: i64) -> Member {
        Member { id: NodeId([number; 28]), total: cpus(count), labels: Vec::new(), is_guest: false }
    }

    const NOW: Tick = Tick(0);

    fn three() -> Global {
        let mut global = Global::default();
        global.joined(1, member(1, 4));
        global.joined(2, member(2, 4));
        global.joined(3, Member { is_guest: true, ..member(3, 0) });
        global
    }

    fn counts(offers: &[Offer]) -> Vec<(u32, u32, u32)> {
        offers.iter().map(|offer| (offer.from, offer.to, offer.demand.count)).collect()
    }

    #[test]
    fn what_a_guest_wants_is_shared_out_among_those_that_have_room() {
        let mut global = three();
        global.said(3, Resources::default(), vec![tasks(1, 6)], Vec::new());
        assert_eq!(counts(&global.offers(NOW)), [(3, 1, 3), (3, 2, 3)]);
        global.said(3, Resources::default(), vec![tasks(1, 6)], Vec::new());
        assert_eq!(counts(&global.offers(NOW)), [(3, 1, 1), (3, 2, 1)], "GLOBAL-2: the rest counts as taken");
        assert_eq!(counts(&global.offers(NOW)), []);
        global.said(2, cpus(3), vec![], Vec::new());
        assert_eq!(counts(&global.offers(NOW)), [(3, 2, 3)], "it still waits");
    }

    #[test]
    fn nothing_goes_to_who_is_gone_or_has_no_workers() {
        let mut global = three();
        global.gone(2);
        global.said(1, cpus(0), vec![tasks(1, 2), tasks(0, 2)], Vec::new());
        assert_eq!(counts(&global.offers(NOW)), [], "GLOBAL-1");
        assert!(global.is_feasible(&Need::same(cpus(4))) && !global.is_feasible(&Need::same(cpus(5))));
    }

    #[test]
    fn actors_go_to_their_creators_node_until_each_core_has_one() {
        let mut global = three();
        let need = Need { to_place: cpus(1), ..Need::default() };
        let mut homes = Vec::new();
        for _ in 0..10 {
            let node = global.place_actor(NOW, &need, 2).unwrap().node;
            global.count_actor(node, true);
            homes.push(node);
        }
        assert_eq!(homes, [2, 2, 2, 2, 1, 1, 1, 1, 2, 2], "{homes:?}");
    }

    proptest! {
        /// GLOBAL-1, GLOBAL-2: whatever was said, no node is offered more than it has free, and nobody more than it wants.
        #[test]
        fn offers_stay_within_what_was_said(
            free in prop::collection::vec(0_i64..6, 1..6),
            wants in prop::collection::vec((0_usize..6, 1_i64..4, 1_u32..9), 0..12),
        ) {
            let mut global = Global::default();
            for (index, _) in free.iter().enumerate() {
                global.joined(index as u32 + 1, member(index as u8 + 1, 6));
            }
            for (index, free) in free.iter().enumerate() {
                let of_this = wants.iter().filter(|(node, ..)| *node == index);
                let demands = of_this.map(|(_, cpus, count)| tasks(*cpus, *count)).collect();
                global.said(index as u32 + 1, cpus(*free), demands, Vec::new());
            }
            let offers = global.offers(NOW);
            for (index, free) in free.iter().enumerate() {
                let node = index as u32 + 1;
                let to_it = offers.iter().filter(|offer| offer.to == node);
                let taken: i64 = to_it.map(|offer| i64::from(offer.demand.count) * offer.demand.need.to_hold.cpu.0).sum();
                prop_assert!(taken <= free * Quantity::PARTS, "{offers:?}");
            }
            prop_assert!(offers.iter().all(|offer| offer.from != offer.to));
            let offered: u32 = offers.iter().map(|offer| offer.demand.count).sum();
            let wanted: u32 = wants.iter().filter(|(node, ..)| *node < free.len()).map(|(.., count)| count).sum();
            prop_assert!(offered <= wanted);
            prop_assert!(global.offers(NOW).is_empty(), "GLOBAL-2: {:?}", global.offers(NOW));
        }
    }
}
