//! Which nodes belong to the cluster: the head lets them in, and its word that one is dead counts for all.
//!
//! A node comes in when every other one knows it: nobody can hear of a process of a node that it does not know, which would count as dead.
//! Estates that were begun without the newcomer as a witness are settled before it is let in, since it is not asked for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::{GroupId, NodeId, ProcId, Quantity, Resources, Tick, WorkerExit};
use wire::abroad::{Between, JOBS_A_BLOCK, Membership};
use wire::members::{ClusterStatus, Decided, NodeInfo, NodeStatus};

use crate::body::{Body, Step};
use crate::hub::Hub;

/// The head's number.
pub const HEAD: u32 = 1;
/// So many nodes that are gone are remembered.
const LOST_MAX: usize = 100;

#[derive(Default)]
pub(crate) struct Members {
    me: Option<NodeInfo>,
    is_member: bool,
    /// The other nodes.
    nodes: BTreeMap<u32, NodeInfo>,
    /// At the head: those that some do not know yet.
    entering: BTreeMap<u32, Entering>,
    /// Those that this node knows, once these estates are settled.
    known_later: BTreeMap<u32, BTreeSet<ProcId>>,
    /// Verdicts that the body has not carried out.
    parting: BTreeMap<u32, Box<str>>,
    /// At the head: how many blocks of numbers for jobs were given.
    blocks: u32,
    lost: VecDeque<(NodeInfo, Box<str>)>,
}

#[derive(Default)]
struct Entering {
    /// Who does not know it yet.
    awaited: BTreeSet<u32>,
    heirs: Vec<(ProcId, ProcId)>,
}

impl Members {
    pub(crate) fn is_member(&self) -> bool {
        self.is_member
    }

    /// Whether this node has founded a cluster, or asked to belong to one.
    pub(crate) fn has_begun(&self) -> bool {
        self.me.is_some()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodeInfo> {
        self.nodes.values()
    }

    /// This node and all others.
    pub(crate) fn all(&self) -> impl Iterator<Item = &NodeInfo> {
        self.me.iter().chain(self.nodes.values())
    }

    pub(crate) fn id_of(&self, node: u32) -> Option<NodeId> {
        self.all().find(|info| info.number == node).map(|info| info.id)
    }

    /// Whether the node of this id lives, and has as much.
    pub(crate) fn could_hold(&self, id: NodeId, to_place: &Resources, to_hold: &Resources) -> bool {
        let mut those = self.all().filter(|info| info.id == id && !info.is_guest);
        those.any(|info| info.total.fits(to_place) && info.total.fits(to_hold))
    }

    /// The host of a node of the cluster.
    pub(crate) fn name_of(&self, node: u32) -> Option<&str> {
        self.me.iter().chain(self.nodes()).find(|info| info.number == node).map(|info| &*info.name)
    }

    /// Two guests dial, and neither takes a call: there is never a line between them.
    pub(crate) fn is_out_of_reach(&self, node: u32) -> bool {
        self.me.as_ref().is_some_and(|me| me.is_guest) && self.nodes.get(&node).is_some_and(|info| info.is_guest)
    }

    pub(crate) fn lost(&self) -> impl Iterator<Item = &(NodeInfo, Box<str>)> {
        self.lost.iter()
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        self.entering.is_empty() && self.known_later.is_empty() && self.parting.is_empty()
    }

    fn next_block(&mut self) -> u32 {
        self.blocks += 1;
        self.blocks * JOBS_A_BLOCK
    }
}

/// What a bundle is made of, under the names by which Ray shows it: of the bundle, and of any of its group.
fn add_of_bundle(sum: &mut Resources, group: GroupId, index: u16, of: &Resources) {
    for (name, amount) in of.iter() {
        for name in [format!("{name}_group_{index}_{group}"), format!("{name}_group_{group}")] {
            let so_far = sum.amount(&name);
            sum.set(&name, Quantity(so_far.0 + amount.0));
        }
    }
}

/// What the head's scheduling knows of a node.
pub(crate) fn member(info: &NodeInfo) -> scheduler::Member {
    let NodeInfo { id, total, labels, is_guest, .. } = info.clone();
    scheduler::Member { id, total, labels, is_guest }
}

impl<B: Body> Hub<B> {
    /// This node is the head of a cluster from now on.
    pub fn found(&mut self, me: NodeInfo) {
        self.overflow.global.joined(HEAD, member(&me));
        (self.members.me, self.members.is_member) = (Some(me), true);
        self.jobs.number_block(0);
    }

    /// This node wants to belong to the cluster of this head, with which the body has a session. Before it is a member the body lets no process
    /// in, and opens nothing.
    pub fn enter(&mut self, step: &mut Step<'_, B>, me: NodeInfo, head: NodeInfo) {
        self.members.me = Some(me.clone());
        step.body.known(&head);
        self.know(head);
        step.body.send(HEAD, Between::Enters(Box::new(me)));
    }

    /// Whether the node belongs to a cluster, all nodes of which know it.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.members.is_member
    }

    /// Whether this node is the head of a cluster.
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.members.is_member && self.options.number == HEAD
    }

    /// The other nodes of the cluster.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeInfo> {
        self.members.nodes()
    }

    /// At the head: a node is dead, as its body judges.
    pub fn node_lost(&mut self, step: &mut Step<'_, B>, node: u32, why: &str) {
        if self.is_head() && self.members.nodes.contains_key(&node) {
            for other in self.abroad.nodes() {
                step.body.send(other, Between::Lost { node, why: why.into() });
            }
            self.on_lost(step, node, why.into());
        }
    }

    /// This node ends, in order. What was said before is to be sent first.
    pub fn leave(&mut self, step: &mut Step<'_, B>, why: &str) {
        if self.is_head() {
            for other in self.abroad.nodes() {
                step.body.send(other, Between::Lost { node: HEAD, why: why.into() });
            }
        } else if self.members.me.is_some() {
            step.body.send(HEAD, Between::Leaves { why: why.into() });
        }
    }

    /// The head is gone, as the body judges: there is no cluster any more.
    pub fn head_lost(&mut self, step: &mut Step<'_, B>, why: &str) {
        if self.members.me.is_some() && !self.is_head() {
            step.body.left_cluster(why);
        }
    }

    /// False: it was known.
    fn know(&mut self, info: NodeInfo) -> bool {
        let number = info.number;
        self.node_joined(number);
        self.members.nodes.insert(number, info).is_none()
    }

    /// At the head.
    pub(crate) fn on_enters(&mut self, step: &mut Step<'_, B>, node: u32, info: NodeInfo) {
        if !self.is_head() || info.number != node || self.members.nodes.contains_key(&node) {
            return;
        }
        let others = self.abroad.nodes();
        for other in &others {
            step.body.send(*other, Between::Joined(Box::new(info.clone())));
        }
        // Lines begin at once: what others say to a node that does not know them would hold up what they say to everyone.
        for other in self.members.nodes() {
            step.body.send(node, Between::Joined(Box::new(other.clone())));
        }
        let awaited = others.into_iter().chain([HEAD]).collect();
        self.members.entering.insert(node, Entering { awaited, heirs: Vec::new() });
        step.body.known(&info);
        self.know(info);
        self.say_known_later(step, node);
    }

    /// From the head.
    pub(crate) fn on_joined(&mut self, step: &mut Step<'_, B>, info: NodeInfo) {
        let node = info.number;
        step.body.known(&info);
        if self.know(info.clone()) {
            step.body.meet(&info);
        }
        self.say_known_later(step, node);
    }

    /// This node knows another one: it says so when nothing is under way of which that one will not be asked.
    fn say_known_later(&mut self, step: &mut Step<'_, B>, node: u32) {
        let unsettled: BTreeSet<ProcId> = self.estates.unsettled().collect();
        if unsettled.is_empty() {
            return self.say_known(step, node);
        }
        self.members.known_later.insert(node, unsettled);
    }

    fn say_known(&mut self, step: &mut Step<'_, B>, node: u32) {
        // For those that are not settled it is a witness, which hears of them as of any death.
        let is_told = |of: ProcId| self.is_here(of) && !self.estates.is_unsettled(of);
        let heirs = self.estates.past().heirs.into_iter().filter(|(of, _)| is_told(*of)).collect();
        if self.options.number == HEAD {
            return self.on_knows(step, HEAD, node, heirs);
        }
        step.body.send(HEAD, Between::Knows { node, heirs });
    }

    /// An estate of this node's is settled.
    pub(crate) fn newcomers_wait_less(&mut self, step: &mut Step<'_, B>, of: ProcId) {
        if self.members.known_later.is_empty() {
            return;
        }
        for awaited in self.members.known_later.values_mut() {
            awaited.remove(&of);
        }
        let known = self.members.known_later.extract_if(.., |_, awaited| awaited.is_empty());
        for node in known.map(|(node, _)| node).collect::<Vec<u32>>() {
            self.say_known(step, node);
        }
    }

    /// At the head: one more knows a newcomer.
    pub(crate) fn on_knows(&mut self, step: &mut Step<'_, B>, by: u32, node: u32, heirs: Vec<(ProcId, ProcId)>) {
        if let Some(entering) = self.members.entering.get_mut(&node) {
            entering.awaited.remove(&by);
            entering.heirs.extend(heirs);
            self.look_at_entering(step, node);
        }
    }

    fn look_at_entering(&mut self, step: &mut Step<'_, B>, node: u32) {
        if self.members.entering.get(&node).is_some_and(|entering| entering.awaited.is_empty())
            && let Some(Entering { heirs, .. }) = self.members.entering.remove(&node)
        {
            let others = self.members.nodes().filter(|info| info.number != node);
            let nodes = self.members.me.iter().chain(others).cloned().collect();
            if let Some(info) = self.members.nodes.get(&node) {
                self.overflow.global.joined(node, member(info));
            }
            self.overflow.say_now(step.now);
            let jobs_above = self.members.next_block();
            step.body.send(node, Between::Members(Box::new(Membership { nodes, heirs, jobs_above })));
        }
    }

    /// From the head: all know this node.
    pub(crate) fn on_members(&mut self, step: &mut Step<'_, B>, membership: Membership) {
        let Membership { nodes, heirs, jobs_above } = membership;
        for info in nodes {
            step.body.known(&info);
            if self.know(info.clone()) {
                step.body.meet(&info);
            }
        }
        for (dead, heir) in heirs {
            self.heir_from_before(step, dead, heir);
        }
        self.jobs.number_block(jobs_above);
        self.members.is_member = true;
        self.load_changed(step.now);
    }

    pub(crate) fn on_wants_job_numbers(&mut self, step: &mut Step<'_, B>, node: u32) {
        if self.is_head() {
            let above = self.members.next_block();
            step.body.send(node, Between::JobNumbers { above });
        }
    }

    /// More numbers are asked for in good time.
    pub(crate) fn look_at_job_numbers(&mut self, step: &mut Step<'_, B>) {
        if !self.members.is_member || !self.jobs.wants_block() {
            return;
        }
        if self.is_head() {
            let above = self.members.next_block();
            self.jobs.add_block(above);
        } else {
            step.body.send(HEAD, Between::WantsJobNumbers);
        }
    }

    /// What all nodes have, and what of it is free, as far as is known here.
    pub(crate) fn resources_of_all(&mut self) -> (Resources, Resources) {
        let scheduler = self.leases.scheduler();
        let (mut total, mut free) = (scheduler.total(), scheduler.available());
        for info in self.members.nodes() {
            total.give(&info.total);
            if let Some((free_there, _)) = self.overflow.global.view(info.number) {
                free.give(free_there);
            }
        }
        let of_bundles: Vec<(GroupId, u16, Resources, Resources)> = if self.is_head() {
            self.note_own_load();
            let known = self.overflow.global.bundles();
            known.map(|(group, index, total, free)| (group, index, total.clone(), free.clone())).collect()
        } else {
            self.leases.scheduler().whole_bundles().collect()
        };
        for (group, index, all, left) in of_bundles {
            add_of_bundle(&mut total, group, index, &all);
            add_of_bundle(&mut free, group, index, &left);
        }
        (total, free)
    }

    /// At the head: the cluster. A node alone has nothing to tell.
    pub(crate) fn cluster_status(&mut self, now: Tick) -> ClusterStatus {
        let nodes = self.list_nodes();
        let global = &self.overflow.global;
        let decided = |decision: &scheduler::Decision| Decided {
            ago_ms: now.ms_since(decision.at),
            what: decision.what.to_string().into(),
            count: decision.count,
            from: decision.from,
            to: decision.to,
            why: decision.why.to_string().into(),
        };
        let decisions = global.decisions().map(decided).collect();
        ClusterStatus { asked: self.options.number, nodes, infeasible: self.infeasible_in_words(), decisions }
    }

    /// All nodes, those that are gone behind the others.
    fn list_nodes(&mut self) -> Vec<NodeStatus> {
        if self.is_head() {
            self.note_own_load();
        }
        let status = |info: &NodeInfo, gone: Option<&Box<str>>| {
            let view = self.overflow.global.view(info.number).filter(|_| gone.is_none());
            NodeStatus {
                info: info.clone(),
                free: view.map(|(free, _)| free.clone()).unwrap_or_default(),
                waiting: view
                    .iter()
                    .flat_map(|(_, waiting)| *waiting)
                    .map(|wait| (wait.need.clone(), wait.count))
                    .collect(),
                gone: gone.cloned(),
            }
        };
        let alive = self.members.me.iter().chain(self.members.nodes()).map(|info| status(info, None));
        alive.chain(self.members.lost().map(|(info, why)| status(info, Some(why)))).collect()
    }

    /// A verdict.
    pub(crate) fn on_lost(&mut self, step: &mut Step<'_, B>, node: u32, why: Box<str>) {
        if node == self.options.number || (node == HEAD && !self.is_head()) {
            return step.body.left_cluster(&why);
        }
        let Some(info) = self.members.nodes.remove(&node) else { return };
        if self.members.lost.len() == LOST_MAX {
            self.members.lost.pop_front();
        }
        self.members.lost.push_back((info, why.clone()));
        self.members.known_later.remove(&node);
        self.members.entering.remove(&node);
        self.members.parting.insert(node, why);
        step.body.part(node);
        let entering: Vec<u32> = self.members.entering.keys().copied().collect();
        for newcomer in entering {
            self.on_knows(step, node, newcomer, Vec::new());
        }
    }

    /// How the end of a process of that node is told, of which there was a verdict. None: there was none.
    pub(crate) fn take_verdict(&mut self, node: u32) -> Option<WorkerExit> {
        let why = self.members.parting.remove(&node)?;
        let lost = self.members.lost.iter().rev().find(|(info, _)| info.number == node).map(|(info, _)| info);
        let name = lost.map_or("?", |info| &*info.name);
        let address = lost.and_then(|info| info.addresses.first()).map(|address| format!(" at {address}"));
        let address = address.unwrap_or_default();
        Some(WorkerExit::NodeDied(format!("node {node}{address} ({name}) is gone: {why}").into()))
    }
}
