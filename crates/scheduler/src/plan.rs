//! On which nodes the bundles of a placement group lie.
//!
//! Pure: the same amounts, the same plan. A plan never takes more of a node than it has, and keeps the strict rules: `STRICT_PACK` all on one
//! node, `STRICT_SPREAD` each on another one. How few nodes `PACK` takes, and how many `SPREAD`, is a matter of a first look; but where there is
//! any plan for a few bundles one is found.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::{Resources, Strategy};

/// More bundles are planned by a first look only.
const SEARCHED_MAX: usize = 24;
/// So often a bundle is tried on a node before a search is given up.
const STEPS_MAX: u32 = 20_000;

/// A node that a plan may use.
#[derive(Clone, Debug)]
pub struct Spot {
    /// The number of the node.
    pub node: u32,
    /// What of it may be taken.
    pub free: Resources,
    /// Bundles of the group that lie there by now.
    pub has: u32,
}

/// A node for each of `bundles`. None: there is no such plan, or it was not found.
#[must_use]
pub fn plan(spots: &[Spot], bundles: &[&Resources], strategy: Strategy) -> Option<Vec<u32>> {
    match strategy {
        Strategy::StrictPack => on_one(spots, bundles),
        Strategy::StrictSpread => on_another_each(spots, bundles),
        Strategy::Pack => {
            let alone = spots.iter().all(|spot| spot.has == 0).then(|| on_one(spots, bundles)).flatten();
            alone.or_else(|| Search::new(spots, bundles, true).run())
        }
        Strategy::Spread => Search::new(spots, bundles, false).run(),
    }
}

/// The larger first: what is left of a node then is used by the smaller ones.
fn weight(resources: &Resources) -> (i64, i64, i64, i64) {
    let others: i64 = resources.iter().map(|(_, amount)| amount.0).fold(0, i64::saturating_add);
    (resources.gpu.0, resources.cpu.0, resources.memory.0, others)
}

fn on_one(spots: &[Spot], bundles: &[&Resources]) -> Option<Vec<u32>> {
    let sum = bundles.iter().fold(Resources::default(), |mut sum, bundle| {
        sum.give(bundle);
        sum
    });
    let is_elsewhere = |spot: &Spot| spots.iter().any(|other| other.has > 0 && other.node != spot.node);
    let fitting = spots.iter().filter(|spot| spot.free.fits(&sum) && !is_elsewhere(spot));
    // What is left over elsewhere is worth more where it is much.
    let spot = fitting.min_by_key(|spot| (Reverse(spot.has), spare(spot, &sum), spot.node))?;
    Some(vec![spot.node; bundles.len()])
}

/// Kinds that the bundle does not ask for and the node has, GPUs say, should stay free for others.
fn spare(spot: &Spot, bundle: &Resources) -> (bool, Reverse<i64>) {
    (bundle.gpu.0 == 0 && spot.free.gpu.0 > 0, Reverse(spot.free.cpu.0))
}

/// Each on a node of its own: a matching, by paths that make room.
fn on_another_each(spots: &[Spot], bundles: &[&Resources]) -> Option<Vec<u32>> {
    let spots: Vec<&Spot> = spots.iter().filter(|spot| spot.has == 0).collect();
    if bundles.len() > spots.len() {
        return None;
    }
    let candidates = |bundle: &Resources| {
        let mut fitting: Vec<usize> = (0..spots.len()).filter(|at| spots[*at].free.fits(bundle)).collect();
        fitting.sort_by_key(|at| (spare(spots[*at], bundle), spots[*at].node));
        fitting
    };
    let candidates: Vec<Vec<usize>> = bundles.iter().map(|bundle| candidates(bundle)).collect();
    let mut taken_by: Vec<Option<usize>> = vec![None; spots.len()];
    for bundle in 0..bundles.len() {
        // From the bundle to a spot that is free, over spots whose bundles can go elsewhere; nearest first.
        let mut reached_from: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = std::collections::VecDeque::from([bundle]);
        let mut free = None;
        'search: while let Some(from) = queue.pop_front() {
            for &at in &candidates[from] {
                if reached_from.contains_key(&at) {
                    continue;
                }
                reached_from.insert(at, from);
                match taken_by[at] {
                    Some(other) => queue.push_back(other),
                    None => {
                        free = Some(at);
                        break 'search;
                    }
                }
            }
        }
        let mut at = free?;
        loop {
            let from = reached_from[&at];
            let before = taken_by.iter().position(|by| *by == Some(from));
            taken_by[at] = Some(from);
            match before {
                Some(before) => at = before,
                None => break,
            }
        }
    }
    let node_of = |bundle| taken_by.iter().position(|by| *by == Some(bundle)).map(|at| spots[at].node);
    (0..bundles.len()).map(node_of).collect()
}

/// One bundle after the other, each where it does best; if that leads nowhere and they are few, elsewhere.
struct Search<'a> {
    bundles: &'a [&'a Resources],
    /// The larger first.
    order: Vec<usize>,
    spots: Vec<Spot>,
    packs: bool,
    steps: u32,
}

impl<'a> Search<'a> {
    fn new(spots: &[Spot], bundles: &'a [&'a Resources], packs: bool) -> Self {
        let mut order: Vec<usize> = (0..bundles.len()).collect();
        order.sort_by_key(|at| (Reverse(weight(bundles[*at])), *at));
        Self { bundles, order, spots: spots.to_vec(), packs, steps: 0 }
    }

    fn run(mut self) -> Option<Vec<u32>> {
        let mut chosen = vec![0; self.bundles.len()];
        if self.bundles.len() <= SEARCHED_MAX {
            return self.place(0, &mut chosen).then_some(chosen);
        }
        for bundle in self.order.clone() {
            let at = self.candidates(bundle).first().copied()?;
            self.take(at, bundle);
            chosen[bundle] = self.spots[at].node;
        }
        Some(chosen)
    }

    fn place(&mut self, position: usize, chosen: &mut [u32]) -> bool {
        let Some(&bundle) = self.order.get(position) else { return true };
        let mut tried: Vec<Spot> = Vec::new();
        for at in self.candidates(bundle) {
            let spot = &self.spots[at];
            // Of two nodes that are alike one is enough.
            if tried.iter().any(|other| other.free == spot.free && (other.has > 0) == (spot.has > 0)) {
                continue;
            }
            if self.steps >= STEPS_MAX {
                return false;
            }
            self.steps += 1;
            tried.push(spot.clone());
            self.take(at, bundle);
            chosen[bundle] = self.spots[at].node;
            if self.place(position + 1, chosen) {
                return true;
            }
            self.spots[at].free.give(self.bundles[bundle]);
            self.spots[at].has -= 1;
        }
        false
    }

    fn take(&mut self, at: usize, bundle: usize) {
        self.spots[at].free.take(self.bundles[bundle]);
        self.spots[at].has += 1;
    }

    /// Where it fits, the best first.
    fn candidates(&self, bundle: usize) -> Vec<usize> {
        let bundle = self.bundles[bundle];
        let mut fitting: Vec<usize> = (0..self.spots.len()).filter(|at| self.spots[*at].free.fits(bundle)).collect();
        fitting.sort_by_key(|at| {
            let spot = &self.spots[*at];
            let used = if self.packs { u32::from(spot.has == 0) } else { spot.has };
            (used, spare(spot, bundle), spot.node)
        });
        fitting
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use model::{Quantity, Strategy};
    use proptest::prelude::*;

    use super::*;

    fn amounts((cpu, gpu): (i64, i64)) -> Resources {
        let mut amounts = Resources::cpus(cpu);
        amounts.gpu = Quantity::whole(gpu);
        amounts
    }

    fn spots(free: &[(i64, i64)]) -> Vec<Spot> {
        (1..).zip(free).map(|(node, free)| Spot { node, free: amounts(*free), has: 0 }).collect()
    }

    /// Whether each spot has enough for what lies there.
    fn fits(spots: &[Spot], bundles: &[Resources], plan: &[u32]) -> bool {
        spots.iter().all(|spot| {
            let mut sum = Resources::default();
            let here = bundles.iter().zip(plan).filter(|(_, node)| **node == spot.node);
            here.for_each(|(bundle, _)| sum.give(bundle));
            spot.free.fits(&sum)
        })
    }

    fn is_strict(strategy: Strategy, plan: &[u32]) -> bool {
        let nodes: BTreeSet<u32> = plan.iter().copied().collect();
        match strategy {
            Strategy::StrictPack => nodes.len() == 1,
            Strategy::StrictSpread => nodes.len() == plan.len(),
            Strategy::Pack | Strategy::Spread => true,
        }
    }

    /// Every way to lay bundles on spots.
    fn exists(spots: &[Spot], bundles: &[Resources], strategy: Strategy) -> bool {
        let ways = spots.len().pow(bundles.len() as u32);
        (0..ways).any(|way| {
            let at = |bundle: usize| spots[way / spots.len().pow(bundle as u32) % spots.len()].node;
            let plan: Vec<u32> = (0..bundles.len()).map(at).collect();
            fits(spots, bundles, &plan) && is_strict(strategy, &plan)
        })
    }

    fn planned(free: &[(i64, i64)], bundles: &[(i64, i64)], strategy: Strategy) -> Option<Vec<u32>> {
        let bundles: Vec<Resources> = bundles.iter().map(|bundle| amounts(*bundle)).collect();
        plan(&spots(free), &bundles.iter().collect::<Vec<_>>(), strategy)
    }

    #[test]
    fn a_pack_takes_few_nodes_and_a_spread_many() {
        let (free, bundles) = ([(4, 0), (4, 0), (4, 0)], [(1, 0); 3]);
        assert_eq!(planned(&free, &bundles, Strategy::Pack), Some(vec![1; 3]));
        let spread: BTreeSet<u32> = planned(&free, &bundles, Strategy::Spread).unwrap().into_iter().collect();
        assert_eq!(spread.len(), 3);
        assert_eq!(planned(&[(2, 0), (2, 0)], &bundles, Strategy::Pack), Some(vec![1, 1, 2]));
        assert_eq!(planned(&[(2, 0), (2, 0)], &bundles, Strategy::StrictSpread), None);
        assert_eq!(planned(&[(2, 0), (2, 0)], &bundles, Strategy::StrictPack), None);
    }

    #[test]
    fn what_needs_no_gpu_leaves_the_node_that_has_one_alone() {
        assert_eq!(planned(&[(8, 1), (2, 0)], &[(1, 0)], Strategy::Pack), Some(vec![2]));
        assert_eq!(planned(&[(8, 1), (2, 0)], &[(1, 1)], Strategy::Spread), Some(vec![1]));
    }

    #[test]
    fn what_lies_somewhere_already_counts() {
        let mut known = spots(&[(4, 0), (4, 0)]);
        known[0].has = 1;
        let bundle = amounts((1, 0));
        assert_eq!(plan(&known, &[&bundle], Strategy::StrictSpread), Some(vec![2]));
        assert_eq!(plan(&known, &[&bundle], Strategy::StrictPack), Some(vec![1]));
        assert_eq!(plan(&known, &[&bundle], Strategy::Pack), Some(vec![1]));
        assert_eq!(plan(&known, &[&bundle], Strategy::Spread), Some(vec![2]));
    }

    #[test]
    fn many_bundles_take_little_time() {
        let free = vec![(64, 0); 100];
        assert!(planned(&free, &vec![(1, 0); 6_400], Strategy::Spread).is_some());
        assert!(planned(&free, &vec![(3, 0); 24], Strategy::Pack).is_some());
        assert!(planned(&vec![(1, 0); 300], &vec![(1, 0); 300], Strategy::StrictSpread).is_some());
    }

    proptest! {
        /// PLAN-1, PLAN-2: never over capacity, strict rules hold; and where brute force finds a plan there is one.
        #[test]
        fn plans_are_as_good_as_they_can_be(
            free in prop::collection::vec((0_i64..6, 0_i64..3), 1..5),
            bundles in prop::collection::vec((0_i64..4, 0_i64..2), 1..6),
        ) {
            for strategy in [Strategy::Pack, Strategy::Spread, Strategy::StrictPack, Strategy::StrictSpread] {
                let all: Vec<Resources> = bundles.iter().map(|bundle| amounts(*bundle)).collect();
                let found = planned(&free, &bundles, strategy);
                prop_assert_eq!(found.is_some(), exists(&spots(&free), &all, strategy), "{:?}", strategy);
                if let Some(plan) = found {
                    prop_assert!(fits(&spots(&free), &all, &plan) && is_strict(strategy, &plan), "{:?}: {:?}", strategy, plan);
                }
            }
        }
    }
}
