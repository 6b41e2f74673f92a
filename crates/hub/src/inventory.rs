//! What `eagleray memory` shows: every process is asked what it holds, and so is every other node, which asks its own. Whoever asked is told once
//! all have answered, or the time is up.

use std::collections::{BTreeMap, BTreeSet};

use model::{ProcId, Tick};
use rustc_hash::FxHashSet;
use wire::abroad::Between;
use wire::control::{Answer, FromNodeOf};
use wire::status::{ClusterInventory, Holdings, Inventory, NodeInventory};

use crate::body::{Asker, Body, Door, Step};
use crate::hub::Hub;
use crate::procs::Proc;

/// A process that does not answer for so long is stopped, or very busy.
const WAIT_MS: u64 = 3_000;
/// So much longer other nodes have, which may wait that long for processes of theirs.
const NODES_MS: u64 = 1_000;
/// Questions at a time.
const ASKING_MAX: usize = 16;

#[derive(Default)]
pub(crate) struct Inventories {
    number: u64,
    asking: Vec<Asking>,
}

struct Asking {
    number: u64,
    whom: Whom,
    /// Processes are waited for until then.
    until: Tick,
    awaited: FxHashSet<ProcId>,
    said: Vec<Holdings>,
    awaited_nodes: BTreeSet<u32>,
    said_by_nodes: BTreeMap<u32, Inventory>,
}

/// Who is told.
#[derive(Clone, Copy)]
enum Whom {
    /// Somebody here, of all nodes.
    Asker(Asker, u64),
    /// Another node, of this one alone, by the number that it gave the question.
    Node(u32, u64),
}

impl Asking {
    fn has_all(&self) -> bool {
        self.awaited.is_empty() && self.awaited_nodes.is_empty()
    }

    fn deadline(&self) -> Tick {
        if self.awaited_nodes.is_empty() { self.until } else { self.until.plus_ms(NODES_MS) }
    }

    /// Processes may be out of time when the last node answers.
    fn is_over(&self, now: Tick) -> bool {
        self.has_all() || self.deadline() <= now
    }
}

impl Inventories {
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.asking.iter().map(Asking::deadline).min()
    }

    /// Whoever asked has left; its door is used again.
    pub(crate) fn door_closed(&mut self, door: Door) {
        self.asking.retain(|asking| !matches!(asking.whom, Whom::Asker(asker, _) if asker.door == door));
    }

    /// Nobody hears an answer to what it asked.
    pub(crate) fn asker_gone(&mut self, who: ProcId) {
        self.asking.retain(|asking| !matches!(asking.whom, Whom::Asker(asker, _) if asker.who == Some(who)));
    }

    pub(crate) fn awaited(&self) -> impl Iterator<Item = &ProcId> {
        self.asking.iter().flat_map(|asking| &asking.awaited)
    }

    pub(crate) fn awaited_nodes(&self) -> impl Iterator<Item = u32> {
        self.asking.iter().flat_map(|asking| &asking.awaited_nodes).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.asking.is_empty()
    }
}

impl<B: Body> Hub<B> {
    /// Somebody here asks for the inventory of the cluster. Guests are asked as well: their drivers hold objects.
    pub(crate) fn take_inventory_of_all(&mut self, step: &mut Step<'_, B>, asker: Asker, request: u64, limit: u32) {
        let nodes = self.members.nodes().map(|info| info.number).collect();
        self.take_inventory(step, Whom::Asker(asker, request), nodes, limit);
    }

    /// Another node asks for what is here.
    pub(crate) fn take_inventory_for(&mut self, step: &mut Step<'_, B>, node: u32, number: u64, limit: u32) {
        self.take_inventory(step, Whom::Node(node, number), BTreeSet::new(), limit);
    }

    fn take_inventory(&mut self, step: &mut Step<'_, B>, whom: Whom, nodes: BTreeSet<u32>, limit: u32) {
        let everyone = self.everyone_who_hears();
        self.inventories.number += 1;
        let number = self.inventories.number;
        for node in &nodes {
            step.body.send(*node, Between::WantsInventory { number, limit });
        }
        self.inventories.asking.push(Asking {
            number,
            whom,
            until: step.now.plus_ms(WAIT_MS),
            awaited: everyone.iter().copied().collect(),
            said: Vec::new(),
            awaited_nodes: nodes,
            said_by_nodes: BTreeMap::new(),
        });
        for process in everyone {
            self.tell(step, process, FromNodeOf::TellHoldings { number, limit });
        }
        let surplus = self.inventories.asking.len().saturating_sub(ASKING_MAX);
        self.end_inventories(step, |at, asking| at < surplus || asking.has_all());
    }

    pub(crate) fn on_holdings(&mut self, step: &mut Step<'_, B>, who: ProcId, number: u64, holdings: Holdings) {
        if let Some(asking) = self.inventories.asking.iter_mut().find(|asking| asking.number == number)
            && asking.awaited.remove(&who)
        {
            asking.said.push(Holdings { process: who, ..holdings });
            self.end_inventories_that_are_over(step);
        }
    }

    /// Another node has answered.
    pub(crate) fn on_inventory(&mut self, step: &mut Step<'_, B>, node: u32, number: u64, inventory: Inventory) {
        if let Some(asking) = self.inventories.asking.iter_mut().find(|asking| asking.number == number)
            && asking.awaited_nodes.remove(&node)
        {
            asking.said_by_nodes.insert(node, inventory);
            self.end_inventories_that_are_over(step);
        }
    }

    pub(crate) fn inventories_without(&mut self, step: &mut Step<'_, B>, gone: ProcId) {
        for asking in &mut self.inventories.asking {
            asking.awaited.remove(&gone);
        }
        self.end_inventories_that_are_over(step);
    }

    /// That node is dead: it asks nothing any more, and holds nothing.
    pub(crate) fn inventories_without_node(&mut self, step: &mut Step<'_, B>, gone: u32) {
        self.inventories.asking.retain(|asking| !matches!(asking.whom, Whom::Node(node, _) if node == gone));
        for asking in &mut self.inventories.asking {
            asking.awaited_nodes.remove(&gone);
            asking.said_by_nodes.remove(&gone);
        }
        self.end_inventories_that_are_over(step);
    }

    pub(crate) fn end_inventories_that_are_over(&mut self, step: &mut Step<'_, B>) {
        let now = step.now;
        self.end_inventories(step, |_, asking| asking.is_over(now));
    }

    fn end_inventories(&mut self, step: &mut Step<'_, B>, is_over: impl Fn(usize, &Asking) -> bool) {
        let (over, open): (Vec<_>, Vec<_>) = std::mem::take(&mut self.inventories.asking)
            .into_iter()
            .enumerate()
            .partition(|(at, asking)| is_over(*at, asking));
        self.inventories.asking = open.into_iter().map(|(_, asking)| asking).collect();
        for (_, asking) in over {
            let inventory = self.inventory(step, asking.said, &asking.awaited);
            match asking.whom {
                Whom::Node(node, number) => {
                    step.body.send(node, Between::Inventory { number, inventory: Box::new(inventory) });
                }
                Whom::Asker(asker, request) => {
                    let others = asking.said_by_nodes.into_iter();
                    let inventory = ClusterInventory {
                        own: self.of_node(self.options.number, inventory),
                        others: others.map(|(node, inventory)| self.of_node(node, inventory)).collect(),
                        silent: asking.awaited_nodes.into_iter().collect(),
                    };
                    step.body.answer(asker.door, request, Answer::Inventory(Box::new(inventory)));
                }
            }
        }
    }

    fn of_node(&self, node: u32, inventory: Inventory) -> NodeInventory {
        NodeInventory { node, name: self.members.name_of(node).unwrap_or_default().into(), inventory }
    }

    fn inventory(&self, step: &Step<'_, B>, mut processes: Vec<Holdings>, silent: &FxHashSet<ProcId>) -> Inventory {
        for holdings in &mut processes {
            let process = self.procs.get(holdings.process);
            holdings.state = process.map(|proc| self.state_of(step, proc)).unwrap_or_default();
        }
        processes.sort_by_key(|holdings| holdings.pid);
        let scheduler = self.leases.scheduler();
        let free = scheduler.available();
        let free_of = |name: &str| free.iter().find(|(other, _)| *other == name).map_or(0, |(_, amount)| amount.0);
        let resources = scheduler.total().iter().map(|(name, total)| (name.into(), total.0, free_of(name))).collect();
        let store = step.body.store();
        Inventory {
            processes,
            silent: silent.iter().filter_map(|id| self.procs.get(*id).map(Proc::pid)).collect(),
            store: (store.used, store.capacity),
            orphaned: store.orphaned,
            files: step.body.files(),
            resources,
            leases_waiting: scheduler.waiting().count() as u64,
        }
    }
}
