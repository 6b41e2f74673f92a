//! Which node takes what another one has no room for: the part of scheduling that one node, the head, does for all.
//!
//! It knows of each node what that last said: what is free, and what waits there. So what it offers is a guess; the node that is offered
//! something grants it at once or sends it back. Nothing waits here: what waits lies where it was asked for, and is said again.
//!
//! Pure, as `Scheduler`: same events, same offers.
//!
//! - **GLOBAL-1** nothing is offered to a node that has no room for it as far as is known, nor to one that takes nothing.
//! - **GLOBAL-2** what was offered counts as taken until the node speaks again, and is not offered twice.

use std::collections::BTreeMap;

use model::{Need, Quantity, Resources};

use crate::LeaseKind;

/// Leases of one kind that wait on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// What each asks for.
    pub need: Need,
    /// What they are for.
    pub kind: LeaseKind,
    /// How many.
    pub count: u32,
}

/// So many leases of a node may be had at another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Where they wait.
    pub from: u32,
    /// Where there is room.
    pub to: u32,
    /// What they ask for, and how many they are.
    pub demand: Demand,
}

/// What is known of a node.
struct View {
    total: Resources,
    /// As it said.
    said: Resources,
    /// Less what was offered since.
    free: Resources,
    demands: Vec<Demand>,
    /// Actors that it was given and that live.
    actors: u32,
    /// It has no workers: a driver's own.
    is_guest: bool,
}

impl View {
    fn has_room(&self, need: &Need) -> bool {
        !self.is_guest && self.free.fits(&need.to_place) && self.free.fits(&need.to_hold)
    }

    fn could_hold(&self, need: &Need) -> bool {
        !self.is_guest && self.total.fits(&need.to_place) && self.total.fits(&need.to_hold)
    }

    /// Cores that are free, in thousandths of all.
    fn idleness(&self) -> i64 {
        self.free.cpu.0.max(0) * 1_000 / self.total.cpu.0.max(1)
    }

    /// Actors that hold no core while they wait take a place all the same, as far as where they go is concerned.
    fn crowd(&self) -> i64 {
        i64::from(self.actors) * Quantity::PARTS / self.total.cpu.0.max(Quantity::PARTS / 2)
    }
}

/// The nodes, as the head knows them.
#[derive(Default)]
pub struct Global {
    nodes: BTreeMap<u32, View>,
    /// Who was served last: the next one has its turn.
    turn: u32,
}

impl Global {
    /// A node belongs to the cluster.
    pub fn joined(&mut self, node: u32, total: Resources, is_guest: bool) {
        let (free, said) = (total.clone(), total.clone());
        let view = View { total, said, free, demands: Vec::new(), actors: 0, is_guest };
        self.nodes.insert(node, view);
    }

    /// It does no longer.
    pub fn gone(&mut self, node: u32) {
        self.nodes.remove(&node);
    }

    /// A node says what is free and what waits.
    pub fn said(&mut self, node: u32, free: Resources, demands: Vec<Demand>) {
        if let Some(view) = self.nodes.get_mut(&node) {
            (view.said, view.free, view.demands) = (free.clone(), free, demands);
        }
    }

    /// What was offered a while ago was taken up, of which its node has spoken, or never will be: it counts as free again.
    pub fn forget_offers(&mut self) {
        for view in self.nodes.values_mut() {
            view.free.clone_from(&view.said);
        }
    }

    /// What is free there, as far as is known, and how many leases wait.
    #[must_use]
    pub fn view(&self, node: u32) -> Option<(&Resources, &[Demand])> {
        self.nodes.get(&node).map(|view| (&view.free, &view.demands[..]))
    }

    /// Whether a node has enough of everything, free or not.
    #[must_use]
    pub fn is_feasible(&self, need: &Need) -> bool {
        self.nodes.values().any(|view| view.could_hold(need))
    }

    /// What can go elsewhere now.
    pub fn offers(&mut self) -> Vec<Offer> {
        let mut offers = Vec::new();
        let behind = self.nodes.range(self.turn + 1..).map(|(node, _)| *node);
        let order: Vec<u32> = behind.chain(self.nodes.range(..=self.turn).map(|(node, _)| *node)).collect();
        for from in order {
            let Some(view) = self.nodes.get_mut(&from).filter(|view| !view.demands.is_empty()) else { continue };
            let mut demands = std::mem::take(&mut view.demands);
            for demand in &mut demands {
                let found = self.find(from, demand);
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

    fn find(&mut self, from: u32, demand: &mut Demand) -> Vec<Offer> {
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        while demand.count > 0 {
            let others = self.nodes.iter_mut().filter(|(node, view)| **node != from && view.has_room(&demand.need));
            let Some((to, view)) = others.max_by_key(|(node, view)| (view.idleness(), std::cmp::Reverse(**node)))
            else {
                break;
            };
            view.free.take(&demand.need.to_hold);
            demand.count -= 1;
            let count = counts.entry(*to).or_default();
            *count += 1;
            // What holds nothing fits for ever.
            if *count == u32::MAX || demand.need.to_hold == Resources::default() && *count >= EVEN_MAX {
                break;
            }
        }
        let offer = |(to, count)| Offer { from, to, demand: Demand { count, ..demand.clone() } };
        counts.into_iter().map(offer).collect()
    }

    /// Where an actor goes that may go anywhere: to its creator's node while there is a core for each actor, then where there are fewest for
    /// each core. None: nowhere is room now.
    pub fn place_actor(&mut self, need: &Need, creator: u32) -> Option<u32> {
        let fitting = self.nodes.iter().filter(|(_, view)| view.has_room(need));
        let (node, _) = fitting.min_by_key(|(node, view)| (view.crowd(), **node != creator, **node))?;
        let node = *node;
        if let Some(view) = self.nodes.get_mut(&node) {
            view.free.take(&need.to_hold);
        }
        Some(node)
    }

    /// An actor has gone there, or has left.
    pub fn count_actor(&mut self, node: u32, has_come: bool) {
        if let Some(view) = self.nodes.get_mut(&node) {
            view.actors = if has_come { view.actors + 1 } else { view.actors.saturating_sub(1) };
        }
    }
}

/// Leases that hold nothing and are offered to one node at a time.
const EVEN_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cpus(count: i64) -> Resources {
        Resources::cpus(count)
    }

    fn tasks(cpus_each: i64, count: u32) -> Demand {
        Demand { need: Need::same(cpus(cpus_each)), kind: LeaseKind::Tasks, count }
    }

    fn three() -> Global {
        let mut global = Global::default();
        global.joined(1, cpus(4), false);
        global.joined(2, cpus(4), false);
        global.joined(3, Resources::default(), true);
        global
    }

    fn counts(offers: &[Offer]) -> Vec<(u32, u32, u32)> {
        offers.iter().map(|offer| (offer.from, offer.to, offer.demand.count)).collect()
    }

    #[test]
    fn what_a_guest_wants_is_shared_out_among_those_that_have_room() {
        let mut global = three();
        global.said(3, Resources::default(), vec![tasks(1, 6)]);
        assert_eq!(counts(&global.offers()), [(3, 1, 3), (3, 2, 3)]);
        global.said(3, Resources::default(), vec![tasks(1, 6)]);
        assert_eq!(counts(&global.offers()), [(3, 1, 1), (3, 2, 1)], "GLOBAL-2: the rest counts as taken");
        assert_eq!(counts(&global.offers()), []);
        global.said(2, cpus(3), vec![]);
        assert_eq!(counts(&global.offers()), [(3, 2, 3)], "it still waits");
    }

    #[test]
    fn nothing_goes_to_who_is_gone_or_has_no_workers() {
        let mut global = three();
        global.gone(2);
        global.said(1, cpus(0), vec![tasks(1, 2), tasks(0, 2)]);
        assert_eq!(counts(&global.offers()), [], "GLOBAL-1");
        assert!(global.is_feasible(&Need::same(cpus(4))) && !global.is_feasible(&Need::same(cpus(5))));
    }

    #[test]
    fn actors_go_to_their_creators_node_until_each_core_has_one() {
        let mut global = three();
        let need = Need { to_place: cpus(1), ..Need::default() };
        let mut homes = Vec::new();
        for _ in 0..10 {
            let node = global.place_actor(&need, 2).unwrap();
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
                global.joined(index as u32 + 1, cpus(6), false);
            }
            for (index, free) in free.iter().enumerate() {
                let of_this = wants.iter().filter(|(node, ..)| *node == index);
                let demands = of_this.map(|(_, cpus, count)| tasks(*cpus, *count)).collect();
                global.said(index as u32 + 1, cpus(*free), demands);
            }
            let offers = global.offers();
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
            prop_assert!(global.offers().is_empty(), "GLOBAL-2: {:?}", global.offers());
        }
    }
}
