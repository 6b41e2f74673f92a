//! Placement groups over nodes: planned by the head, prepared on each node, then committed or aborted everywhere.
//!
//! A node that is asked to prepare sets its bundles aside at once, or within a deadline, or not at all; it never waits for other nodes. Two
//! groups may each get half of what they need, but only until the deadline: then both let go, and only one at a time has leases asked back for it.
//!
//! - **RES-1** a group has all its bundles or is not whole: what is prepared for one that cannot be is aborted on every node.
//! - **RES-2** a node is asked for no more than it is known to have, less what other groups have of it.
//! - **RES-3** what lies on a node that is dead is planned again, and the group is not whole meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use model::{GroupId, Labels, Quantity, Resources, Strategy, Tick};

use crate::decisions::{Subject, Why};
use crate::plan::{Spot, plan};
use crate::{Decision, Global};

/// How long leases are asked back for what is prepared on several nodes. Nobody else has what is held meanwhile.
const ASK_MS: u64 = 50;
/// The same where one node has all of it, so that nothing is held.
const ASK_ONE_MS: u64 = 1_000;
/// How long until leases are asked back once more, at first and at most.
const AGAIN_MS: u64 = 20;
const AGAIN_MAX_MS: u64 = 1_000;
/// An answer that is later than this is not waited for.
const ANSWER_MS: u64 = 5_000;

/// What happened.
#[derive(Clone, Debug)]
pub enum GroupNews {
    /// Somebody wants a group.
    Wanted {
        /// Which; used once.
        group: GroupId,
        /// What each bundle holds.
        bundles: Vec<Resources>,
        /// What must hold of the labels of each one's node; none at all: nothing.
        labels: Vec<Labels>,
        /// How they lie on nodes.
        strategy: Strategy,
    },
    /// It is not wanted any more.
    Removed(GroupId),
    /// A node answers.
    Prepared {
        /// Which group.
        group: GroupId,
        /// As asked.
        attempt: u32,
        /// Who answers.
        node: u32,
        /// It has set them aside.
        is_held: bool,
    },
    /// A node is dead, and the nodes are told without it.
    NodeGone(u32),
    /// A node has come, or said something; or time has passed.
    Changed,
}

/// What shall be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupOrder {
    /// Ask a node to set bundles aside; answered by `Prepared`.
    Prepare {
        /// The node.
        node: u32,
        /// Which group.
        group: GroupId,
        /// Named in the answer.
        attempt: u32,
        /// Which bundles, and what each holds.
        bundles: Vec<(u16, Resources)>,
        /// How long it may wait for room.
        within_ms: u64,
    },
    /// What it has prepared may be used.
    Commit(u32, GroupId),
    /// What it has prepared is not needed.
    Abort(u32, GroupId),
    /// The group is no more: what runs in it there is killed.
    Dissolve(u32, GroupId),
    /// All bundles are set aside.
    Whole(GroupId),
    /// Some of its bundles were on a node that is dead. They are planned again.
    Broken(GroupId),
    /// All nodes together can never hold it; it goes on waiting. Said once.
    Infeasible(GroupId),
}

/// The groups of a cluster, and where their bundles lie.
#[derive(Default)]
pub struct Reserve {
    table: BTreeMap<GroupId, Entry>,
    /// Those that are not whole, first come first.
    waiting: Vec<GroupId>,
    /// For which leases are asked back.
    asking: Option<GroupId>,
    attempts: u32,
}

struct Entry {
    bundles: Vec<Resources>,
    labels: Vec<Labels>,
    strategy: Strategy,
    homes: Vec<Option<u32>>,
    attempt: Option<Attempt>,
    /// Where it was tried in vain since there was a plan without such nodes.
    avoided: BTreeSet<u32>,
    tries: u32,
    /// Not before this it is planned with what is free, after that was wrong.
    try_at: Tick,
    /// The same of asking leases back.
    ask_at: Tick,
    is_told_infeasible: bool,
}

struct Attempt {
    number: u32,
    plan: Vec<(u16, u32)>,
    awaited: BTreeSet<u32>,
    held: BTreeSet<u32>,
    until: Tick,
    /// Leases are asked back for it.
    asks: bool,
}

impl Reserve {
    /// The only way to change it. Same events and nodes, same orders.
    pub fn step(&mut self, now: Tick, news: GroupNews, global: &mut Global, out: &mut Vec<GroupOrder>) {
        match news {
            GroupNews::Wanted { group, bundles, labels, strategy } => {
                if let std::collections::btree_map::Entry::Vacant(vacant) = self.table.entry(group) {
                    vacant.insert(Entry::new(bundles, labels, strategy));
                    self.waiting.push(group);
                }
            }
            GroupNews::Removed(group) => self.on_removed(group, global, out),
            GroupNews::Prepared { group, attempt, node, is_held } => {
                self.on_prepared(now, group, attempt, node, is_held, global, out);
            }
            GroupNews::NodeGone(node) => self.on_node_gone(now, node, global, out),
            GroupNews::Changed => {}
        }
        self.end_late(now, global, out);
        self.try_all(now, global, out);
    }

    /// When `Changed` is to be said, if nothing else happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        let of = |group: &GroupId| {
            let entry = &self.table[group];
            match &entry.attempt {
                Some(attempt) => Some(attempt.until),
                None => [entry.try_at, entry.ask_at].into_iter().filter(|at| *at > Tick::default()).min(),
            }
        };
        self.waiting.iter().filter_map(of).min()
    }

    /// On which node each bundle of a group lies, as far as it lies anywhere.
    #[must_use]
    pub fn homes(&self, group: GroupId) -> Option<&[Option<u32>]> {
        self.table.get(&group).map(|entry| &entry.homes[..])
    }

    /// Groups that no nodes together could ever hold.
    pub fn infeasible(&self) -> impl Iterator<Item = (GroupId, &[Resources], Strategy)> {
        let waiting = self.waiting.iter().map(|group| (*group, &self.table[group]));
        let infeasible = waiting.filter(|(_, entry)| entry.is_told_infeasible);
        infeasible.map(|(group, entry)| (group, &entry.bundles[..], entry.strategy))
    }

    /// Whether a group is not whole.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether nothing is known of any group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    fn on_removed(&mut self, group: GroupId, global: &mut Global, out: &mut Vec<GroupOrder>) {
        self.end_attempt(group, None, global, out);
        let Some(entry) = self.table.remove(&group) else { return };
        self.waiting.retain(|waiting| *waiting != group);
        let homes: BTreeSet<u32> = entry.homes.into_iter().flatten().collect();
        for node in homes {
            if let Some(view) = global.nodes.get_mut(&node) {
                view.put_back(group);
            }
            out.push(GroupOrder::Dissolve(node, group));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "an answer has that many parts")]
    fn on_prepared(
        &mut self,
        now: Tick,
        group: GroupId,
        attempt: u32,
        node: u32,
        is_held: bool,
        global: &mut Global,
        out: &mut Vec<GroupOrder>,
    ) {
        let Some(entry) = self.table.get_mut(&group) else { return };
        let Some(open) = entry.attempt.as_mut().filter(|open| open.number == attempt) else { return };
        if !open.awaited.remove(&node) {
            return;
        }
        if !is_held {
            entry.avoided.insert(node);
            return self.fail(now, group, Some(node), global, out);
        }
        open.held.insert(node);
        if open.awaited.is_empty() {
            self.commit(now, group, global, out);
        }
    }

    fn commit(&mut self, now: Tick, group: GroupId, global: &mut Global, out: &mut Vec<GroupOrder>) {
        let Some(entry) = self.table.get_mut(&group) else { return };
        let Some(attempt) = entry.attempt.take() else { return };
        for (index, node) in &attempt.plan {
            let bundle = &entry.bundles[usize::from(*index)];
            entry.homes[usize::from(*index)] = Some(*node);
            if let Some(view) = global.nodes.get_mut(node) {
                view.set_aside(group, *index, bundle);
            }
        }
        for node in &attempt.held {
            let count = attempt.plan.iter().filter(|(_, other)| other == node).count() as u32;
            let (what, why) = (Subject::Bundles(group), Why::Planned);
            global.note(Decision { at: now, what, count, from: crate::HEAD, to: *node, why });
        }
        (entry.tries, entry.try_at, entry.ask_at) = (0, Tick::default(), Tick::default());
        entry.avoided.clear();
        self.asking.take_if(|asking| *asking == group);
        out.extend(attempt.held.iter().map(|node| GroupOrder::Commit(*node, group)));
        // Another node may have died meanwhile that had some.
        if entry.homes.iter().all(Option::is_some) {
            self.waiting.retain(|waiting| *waiting != group);
            out.push(GroupOrder::Whole(group));
        }
    }

    /// It cannot be as planned: after a while leases are asked back once more.
    fn fail(&mut self, now: Tick, group: GroupId, except: Option<u32>, global: &mut Global, out: &mut Vec<GroupOrder>) {
        let has_asked = self.table.get(&group).and_then(|entry| entry.attempt.as_ref()).is_some_and(|open| open.asks);
        self.end_attempt(group, except, global, out);
        if let Some(entry) = self.table.get_mut(&group) {
            let again = now.plus_ms((AGAIN_MS << entry.tries.min(8)).min(AGAIN_MAX_MS));
            *(if has_asked { &mut entry.ask_at } else { &mut entry.try_at }) = again;
            entry.tries += 1;
        }
        // Another one's turn to have leases asked back.
        if let Some(at) = self.waiting.iter().position(|waiting| *waiting == group)
            && self.waiting.len() > 1
            && self.table[&group].tries > 3
        {
            let group = self.waiting.remove(at);
            self.waiting.push(group);
        }
    }

    /// Everyone who was asked lets go, but one that has nothing.
    fn end_attempt(&mut self, group: GroupId, except: Option<u32>, global: &mut Global, out: &mut Vec<GroupOrder>) {
        self.asking.take_if(|asking| *asking == group);
        let Some(entry) = self.table.get_mut(&group) else { return };
        let Some(attempt) = entry.attempt.take() else { return };
        for (index, node) in &attempt.plan {
            if let Some(view) = global.nodes.get_mut(node) {
                view.unreserve(&entry.bundles[usize::from(*index)]);
            }
        }
        let asked: BTreeSet<u32> = attempt.plan.iter().map(|(_, node)| *node).collect();
        let asked = asked.into_iter().filter(|node| Some(*node) != except && global.nodes.contains_key(node));
        out.extend(asked.map(|node| GroupOrder::Abort(node, group)));
    }

    fn on_node_gone(&mut self, now: Tick, node: u32, global: &mut Global, out: &mut Vec<GroupOrder>) {
        let groups: Vec<GroupId> = self.table.keys().copied().collect();
        for group in groups {
            let entry = self.table.get_mut(&group).expect("listed just now");
            let was_whole = entry.homes.iter().all(Option::is_some);
            entry.homes.iter_mut().for_each(|home| *home = home.filter(|home| *home != node));
            if was_whole && entry.homes.iter().any(Option::is_none) {
                self.waiting.push(group);
                out.push(GroupOrder::Broken(group));
            }
            let is_asked = |attempt: &Attempt| attempt.plan.iter().any(|(_, asked)| *asked == node);
            if self.table[&group].attempt.as_ref().is_some_and(is_asked) {
                self.fail(now, group, Some(node), global, out);
            }
        }
    }

    fn end_late(&mut self, now: Tick, global: &mut Global, out: &mut Vec<GroupOrder>) {
        let is_late = |group: &&GroupId| self.table[group].attempt.as_ref().is_some_and(|open| open.until <= now);
        let late: Vec<GroupId> = self.waiting.iter().filter(is_late).copied().collect();
        for group in late {
            let entry = self.table.get_mut(&group).expect("it waits");
            let silent = entry.attempt.as_ref().map(|open| open.awaited.clone()).unwrap_or_default();
            entry.avoided.extend(silent);
            self.fail(now, group, None, global, out);
        }
    }

    /// Plans every group that waits, as far as there is room.
    fn try_all(&mut self, now: Tick, global: &mut Global, out: &mut Vec<GroupOrder>) {
        for group in self.waiting.clone() {
            let entry = self.table.get_mut(&group).expect("it waits");
            if entry.attempt.is_some() {
                continue;
            }
            for at in [&mut entry.try_at, &mut entry.ask_at] {
                *at = Some(*at).filter(|at| *at > now).unwrap_or_default();
            }
            let may_try = entry.try_at == Tick::default();
            let may_ask = self.asking.is_none() && entry.ask_at == Tick::default();
            let now_free = may_try.then(|| entry.plan(global, Look::Free)).flatten().map(|plan| (plan, 0));
            let found = match now_free {
                Some(found) => Some(found),
                None if may_ask => entry.plan_to_ask(global).map(|plan| {
                    let is_one = plan.iter().all(|(_, node)| *node == plan[0].1);
                    self.asking = Some(group);
                    (plan, if is_one { ASK_ONE_MS } else { ASK_MS })
                }),
                None => None,
            };
            let entry = self.table.get_mut(&group).expect("it waits");
            let Some((plan, within_ms)) = found else {
                let is_infeasible = entry.plan(global, Look::All).is_none();
                if is_infeasible && !entry.is_told_infeasible {
                    out.push(GroupOrder::Infeasible(group));
                }
                // Looked at again when somebody says something, or another one has stopped to ask.
                entry.is_told_infeasible = is_infeasible;
                continue;
            };
            entry.is_told_infeasible = false;
            self.attempts += 1;
            self.begin(now, group, (plan, within_ms), global, out);
        }
    }

    fn begin(
        &mut self,
        now: Tick,
        group: GroupId,
        (plan, within_ms): (Vec<(u16, u32)>, u64),
        global: &mut Global,
        out: &mut Vec<GroupOrder>,
    ) {
        let (attempt, entry) = (self.attempts, self.table.get_mut(&group).expect("it waits"));
        let awaited: BTreeSet<u32> = plan.iter().map(|(_, node)| *node).collect();
        for (index, node) in &plan {
            if let Some(view) = global.nodes.get_mut(node) {
                view.reserve(&entry.bundles[usize::from(*index)]);
            }
        }
        for node in &awaited {
            let of_node = plan.iter().filter(|(_, other)| other == node);
            let bundles = of_node.map(|(index, _)| (*index, entry.bundles[usize::from(*index)].clone())).collect();
            out.push(GroupOrder::Prepare { node: *node, group, attempt, bundles, within_ms });
        }
        let until = now.plus_ms(within_ms + ANSWER_MS);
        entry.attempt =
            Some(Attempt { number: attempt, plan, awaited, held: BTreeSet::new(), until, asks: within_ms > 0 });
    }
}

/// What of a node counts as there to be taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// What is free.
    Free,
    /// What tasks have, too.
    Potential,
    /// All that nodes have.
    All,
}

impl Entry {
    fn new(bundles: Vec<Resources>, labels: Vec<Labels>, strategy: Strategy) -> Self {
        Self {
            homes: vec![None; bundles.len()],
            bundles,
            labels,
            strategy,
            attempt: None,
            avoided: BTreeSet::new(),
            tries: 0,
            try_at: Tick::default(),
            ask_at: Tick::default(),
            is_told_infeasible: false,
        }
    }

    /// A node for each bundle that has none.
    fn plan(&self, global: &Global, look: Look) -> Option<Vec<(u16, u32)>> {
        self.plan_without(global, look, &BTreeSet::new())
    }

    /// Nodes that have not let go in time are left out, as long as it can be without them.
    fn plan_to_ask(&mut self, global: &Global) -> Option<Vec<(u16, u32)>> {
        let found = self.plan_without(global, Look::Potential, &self.avoided);
        if found.is_some() || self.avoided.is_empty() {
            return found;
        }
        self.avoided.clear();
        self.plan(global, Look::Potential)
    }

    fn plan_without(&self, global: &Global, look: Look, avoided: &BTreeSet<u32>) -> Option<Vec<(u16, u32)>> {
        let usable = global.nodes.iter().filter(|(node, view)| !view.member.is_guest && !avoided.contains(node));
        let mut spots: Vec<Spot> = usable
            .map(|(node, view)| {
                let free = match look {
                    Look::Free => view.free.clone(),
                    Look::Potential => view.potential(),
                    Look::All => view.member.total.clone(),
                };
                let has = self.homes.iter().filter(|home| **home == Some(*node)).count() as u32;
                Spot { node: *node, free, has }
            })
            .collect();
        let missing: Vec<u16> = (0..).zip(&self.homes).filter(|(_, home)| home.is_none()).map(|(at, _)| at).collect();
        let mut bundles: Vec<Resources> = missing.iter().map(|at| self.bundles[usize::from(*at)].clone()).collect();
        self.ask_for_labels(global, &missing, &mut bundles, &mut spots);
        let nodes = plan(&spots, &bundles.iter().collect::<Vec<_>>(), self.strategy)?;
        Some(missing.into_iter().zip(nodes).collect())
    }

    /// Labels as a plan sees them: one of something that nodes with them have, and others have not.
    fn ask_for_labels(&self, global: &Global, missing: &[u16], bundles: &mut [Resources], spots: &mut [Spot]) {
        for (index, bundle) in missing.iter().zip(bundles) {
            let Some(labels) = self.labels.get(usize::from(*index)).filter(|labels| !labels.0.is_empty()) else {
                continue;
            };
            let name = format!("label of {index}");
            bundle.set(&name, Quantity(1));
            for spot in &mut *spots {
                let member = global.nodes.get(&spot.node).map(|view| &view.member);
                if member.is_some_and(|member| labels.fit(member.id, &member.labels)) {
                    spot.free.set(&name, Quantity(1));
                }
            }
        }
    }
}
