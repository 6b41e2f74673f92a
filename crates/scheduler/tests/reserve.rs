//! Groups over nodes: a head, nodes that run the shipped scheduler, and messages between them that take their time. Whatever dies meanwhile,
//! nothing stays reserved for a group that is not there, and a group that is whole has all its bundles where the head says.

mod story;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::{GroupId, NodeId, Resources, Strategy, Tick};
use proptest::prelude::*;
use proptest::strategy::Strategy as _;
use scheduler::{Effect, Event, Global, GroupNews, GroupOrder, Member, Reserve, Scheduler};
use story::{cpus, options};

#[derive(Clone, Debug)]
enum Move {
    Want {
        number: u8,
        bundles: Vec<i64>,
        strategy: usize,
    },
    Remove(u8),
    /// One message to, or from, this node arrives.
    Deliver(u32),
    Answer(u32),
    Die(u32),
    Wait(u64),
    /// The node says what is free.
    Say(u32),
}

const STRATEGIES: [Strategy; 4] = [Strategy::Pack, Strategy::Spread, Strategy::StrictPack, Strategy::StrictSpread];
const NODES: u32 = 4;

fn moves() -> impl proptest::strategy::Strategy<Value = Move> {
    let node = 1..=NODES;
    prop_oneof![
        3 => (0..6_u8, prop::collection::vec(1_i64..4, 1..5), 0..4_usize)
            .prop_map(|(number, bundles, strategy)| Move::Want { number, bundles, strategy }),
        2 => (0..6_u8).prop_map(Move::Remove),
        8 => node.clone().prop_map(Move::Deliver),
        8 => node.clone().prop_map(Move::Answer),
        1 => (2..=NODES).prop_map(Move::Die),
        2 => (0..200_u64).prop_map(Move::Wait),
        2 => node.prop_map(Move::Say),
    ]
}

struct World {
    now: Tick,
    reserve: Reserve,
    global: Global,
    nodes: BTreeMap<u32, Scheduler>,
    orders: BTreeMap<u32, VecDeque<GroupOrder>>,
    answers: BTreeMap<u32, VecDeque<GroupNews>>,
    wanted: BTreeMap<GroupId, Vec<i64>>,
    strategies: BTreeMap<GroupId, Strategy>,
    used: BTreeSet<GroupId>,
    whole: BTreeSet<GroupId>,
}

fn id(number: u8) -> GroupId {
    GroupId([number; 18])
}

fn node_of(order: &GroupOrder) -> Option<u32> {
    match order {
        GroupOrder::Prepare { node, .. }
        | GroupOrder::Commit(node, _)
        | GroupOrder::Abort(node, _)
        | GroupOrder::Dissolve(node, _) => Some(*node),
        GroupOrder::Whole(_) | GroupOrder::Broken(_) | GroupOrder::Infeasible(_) => None,
    }
}

impl World {
    fn new() -> Self {
        let (mut global, mut nodes) = (Global::default(), BTreeMap::new());
        for node in 1..=NODES {
            let total = cpus(2 + i64::from(node));
            nodes.insert(node, Scheduler::new(options(total.clone())));
            let member = Member { id: NodeId([node as u8; 28]), total, labels: Vec::new(), is_guest: false };
            global.joined(node, member);
        }
        Self {
            now: Tick(1_000),
            reserve: Reserve::default(),
            global,
            nodes,
            orders: BTreeMap::new(),
            answers: BTreeMap::new(),
            wanted: BTreeMap::new(),
            strategies: BTreeMap::new(),
            used: BTreeSet::new(),
            whole: BTreeSet::new(),
        }
    }

    fn news(&mut self, news: GroupNews) {
        let mut out = Vec::new();
        self.reserve.step(self.now, news, &mut self.global, &mut out);
        for order in out {
            match (&order, node_of(&order)) {
                (_, Some(node)) => {
                    assert!(self.nodes.contains_key(&node), "the dead are asked for nothing: {order:?}");
                    self.orders.entry(node).or_default().push_back(order);
                }
                (GroupOrder::Whole(group), _) => assert!(self.whole.insert(*group), "it is whole"),
                (GroupOrder::Broken(group), _) => assert!(self.whole.remove(group), "RES-3: it was whole"),
                _ => {}
            }
        }
    }

    fn tell(&mut self, node: u32, event: Event) {
        let Some(scheduler) = self.nodes.get_mut(&node) else { return };
        let mut effects = Vec::new();
        scheduler.step(self.now, event, &mut effects);
        scheduler.check_invariants();
        for effect in effects {
            if let Effect::GroupPrepared { group, attempt, is_held } = effect {
                let answer = GroupNews::Prepared { group, attempt, node, is_held };
                self.answers.entry(node).or_default().push_back(answer);
            }
        }
    }

    fn play(&mut self, play: Move) {
        match play {
            Move::Want { number, bundles, strategy } => {
                if self.used.insert(id(number)) {
                    self.wanted.insert(id(number), bundles.clone());
                    self.strategies.insert(id(number), STRATEGIES[strategy]);
                    let bundles = bundles.into_iter().map(cpus).collect();
                    let (group, labels, strategy) = (id(number), Vec::new(), STRATEGIES[strategy]);
                    self.news(GroupNews::Wanted { group, bundles, labels, strategy });
                }
            }
            Move::Remove(number) => {
                self.wanted.remove(&id(number));
                self.whole.remove(&id(number));
                self.news(GroupNews::Removed(id(number)));
            }
            Move::Deliver(node) => {
                let Some(order) = self.orders.get_mut(&node).and_then(VecDeque::pop_front) else { return };
                match order {
                    GroupOrder::Prepare { group, attempt, bundles, within_ms, .. } => {
                        let until = self.now.plus_ms(within_ms);
                        self.tell(node, Event::GroupPart { group, attempt, bundles, until });
                    }
                    GroupOrder::Commit(_, group) => self.tell(node, Event::GroupCommitted(group)),
                    GroupOrder::Abort(_, group) => self.tell(node, Event::GroupAborted(group)),
                    GroupOrder::Dissolve(_, group) => self.tell(node, Event::GroupRemoved(group)),
                    GroupOrder::Whole(_) | GroupOrder::Broken(_) | GroupOrder::Infeasible(_) => {}
                }
            }
            Move::Answer(node) => {
                if let Some(answer) = self.answers.get_mut(&node).and_then(VecDeque::pop_front) {
                    self.news(answer);
                }
            }
            Move::Die(node) => {
                if self.nodes.remove(&node).is_some() {
                    self.orders.remove(&node);
                    self.answers.remove(&node);
                    self.global.gone(node);
                    self.news(GroupNews::NodeGone(node));
                }
            }
            Move::Wait(ms) => {
                self.now = self.now.plus_ms(ms);
                for node in 1..=NODES {
                    self.tell(node, Event::Tick);
                }
                self.news(GroupNews::Changed);
            }
            Move::Say(node) => {
                if let Some(scheduler) = self.nodes.get(&node) {
                    let (free, bundles) = (scheduler.available(), scheduler.bundles().collect());
                    self.global.said(node, free, Vec::new(), bundles);
                    self.news(GroupNews::Changed);
                }
            }
        }
    }

    /// All that is under way arrives, and time goes on.
    fn settle(&mut self) {
        for _ in 0..200 {
            for node in 1..=NODES {
                for _ in 0..50 {
                    self.play(Move::Deliver(node));
                    self.play(Move::Answer(node));
                }
                self.play(Move::Say(node));
            }
            self.play(Move::Wait(100));
        }
    }

    fn check(&self) {
        let mut lies: BTreeMap<(GroupId, u16), u32> = BTreeMap::new();
        for (node, scheduler) in &self.nodes {
            for (group, index, _) in scheduler.bundles() {
                assert!(self.wanted.contains_key(&group), "RES-1: {group} is no more");
                assert!(lies.insert((group, index), *node).is_none(), "RES-1: a bundle lies twice");
            }
        }
        for (group, bundles) in &self.wanted {
            let homes = self.reserve.homes(*group).expect("it is wanted");
            assert_eq!(self.whole.contains(group), homes.iter().all(Option::is_some), "RES-3");
            for (index, home) in (0..).zip(homes) {
                assert_eq!(lies.get(&(*group, index)), home.as_ref(), "RES-1: {group} {index}");
            }
            let nodes: BTreeSet<u32> = homes.iter().flatten().copied().collect();
            match self.strategies[group] {
                Strategy::StrictPack => assert!(nodes.len() <= 1, "{nodes:?}"),
                Strategy::StrictSpread => {
                    assert_eq!(nodes.len(), homes.iter().flatten().count(), "{nodes:?}");
                }
                Strategy::Pack | Strategy::Spread => {}
            }
            let fits_alone = self.nodes.values().any(|node| node.total().fits(&cpus(bundles.iter().sum())));
            let is_alone = self.wanted.len() == 1;
            let needs_one = matches!(self.strategies[group], Strategy::Pack | Strategy::StrictPack);
            // What was broken may be held where the rest does not fit.
            let is_stuck = !self.whole.contains(group) && nodes.is_empty();
            assert!(!(is_alone && fits_alone && needs_one && is_stuck), "there is room, but it waits");
        }
        for (node, scheduler) in &self.nodes {
            let mut used = Resources::default();
            for ((group, index), _) in lies.iter().filter(|(_, home)| *home == node) {
                used.give(&cpus(self.wanted[group][usize::from(*index)]));
            }
            used.give(&scheduler.available());
            assert_eq!(used, scheduler.total(), "RES-1: something stays reserved on node {node}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// RES-1, RES-2, RES-3.
    #[test]
    fn nothing_stays_reserved_for_what_is_not_whole(plays in prop::collection::vec(moves(), 1..120)) {
        let mut world = World::new();
        for play in plays {
            world.play(play);
        }
        world.settle();
        world.check();
        for number in 0..6 {
            world.play(Move::Remove(number));
        }
        world.settle();
        world.check();
        prop_assert!(world.reserve.is_empty() && !world.reserve.is_waiting());
        for node in world.nodes.values() {
            prop_assert_eq!(node.available(), node.total());
        }
    }
}
