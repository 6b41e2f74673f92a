//! Nodes that form a cluster: the first is its head, the others come in one after the other, and some die as a whole.
//!
//! A node that dies says nothing of it: its processes are gone at once, and its lines are closed. The verdict follows after a while. Others end in
//! order, or are taken for dead while they live: what they do until they end concerns nobody.

use model::{NodeId, Resources};
use wire::members::NodeInfo;

use crate::abroad::life_of;
use crate::driver::Driver;
use crate::env::Env;
use crate::grouped::with_seats;
use crate::network::Item;
use crate::node::Node;
use crate::process::{Process, Role};
use crate::work::with_licence;
use crate::world::World;

/// The id of the node at this place.
pub(crate) fn id_of(node: usize) -> NodeId {
    NodeId([node as u8 + 1; 28])
}

/// The place of the node of this id.
pub(crate) fn index_of(id: NodeId) -> usize {
    usize::from(id.0[0]) - 1
}

/// The label by which tasks ask for nodes.
pub(crate) const ZONE: &str = "zone";

pub(crate) fn zone_of(node: usize) -> Box<str> {
    node.to_string().into()
}

impl Env {
    pub(crate) fn is_guest(&self, node: usize) -> bool {
        node > 0 && node + self.settings.guests >= self.settings.nodes
    }

    pub(crate) fn total_of(&self, node: usize) -> Resources {
        if self.is_guest(node) {
            return Resources::default();
        }
        with_seats(with_licence(Resources::cpus(self.settings.cpus)))
    }

    /// The node as it presents itself.
    pub(crate) fn info_of(&self, node: usize) -> NodeInfo {
        NodeInfo {
            number: node as u32 + 1,
            life: life_of(node).life,
            id: id_of(node),
            addresses: Vec::new(),
            name: "host".into(),
            pid: 1,
            is_guest: self.is_guest(node),
            total: self.total_of(node),
            labels: vec![(ZONE.into(), zone_of(node))],
        }
    }
}

impl World {
    /// The first node is the head, the others come later.
    pub(crate) fn found(&mut self) {
        let info = self.env.info_of(0);
        self.nodes[0].hub.found(info);
        for node in 1..self.env.settings.nodes {
            let us = self.env.rng.between(1, 1_000 * self.env.settings.enter_ms_max);
            self.env.later(us, Item::Enters { node });
        }
    }

    pub(crate) fn enter(&mut self, node: usize) {
        let (me, head) = (self.env.info_of(node), self.env.info_of(0));
        self.nodes[0].carrier.add_node(life_of(node));
        self.nodes[node].carrier.add_node(life_of(0));
        self.env.later(1, Item::Dial { from: 0, to: node });
        // Workers may come up before it is a member, programs may not.
        self.nodes[node].open(&mut self.env);
        self.nodes[node].step(&mut self.env, |hub, step| hub.enter(step, me, head));
    }

    /// Whoever belongs to the cluster lets its programs in.
    pub(crate) fn open_members(&mut self) {
        for index in 0..self.nodes.len() {
            let is_alone = self.env.settings.nodes == 1;
            if !self.nodes[index].is_open && (is_alone || self.nodes[index].hub.is_member()) {
                self.open(index);
            }
        }
    }

    fn open(&mut self, index: usize) {
        let Self { env, nodes, procs, .. } = self;
        let node = &mut nodes[index];
        node.is_open = true;
        if !env.is_guest(index) {
            env.plans.nodes.push(id_of(index));
        }
        if index == 0 {
            node.open(env);
        }
        for number in 0..env.settings.drivers {
            let (who, job) = node.add_driver(env, 1_000 + number as i32);
            env.oracle.job_began(job);
            let pid = (index, who);
            let driver = Driver::new(job, index, env.settings.steps);
            let process = Process::new(pid, job, Role::Driver(driver), node.hub.past());
            node.step(env, |hub, step| hub.tell_of_open_cuts(step, who));
            if env.settings.nodes > 1 {
                process.export(env);
            }
            env.programs.insert(job, pid);
            procs.insert(pid, process);
            env.later(1, Item::Step { process: pid });
        }
    }

    /// Whether all that is to come has come.
    pub(crate) fn have_all_come(&self) -> bool {
        self.nodes.iter().all(|node| node.is_open || self.env.dead_nodes.contains(&node.index))
    }

    /// A node other than the head dies, if somebody is left to tell. Or it ends in order, or is taken for dead while it lives.
    pub(crate) fn kill_node(&mut self) {
        let is_alive = |node: &usize| !self.env.oracle.is_lost(*node);
        let alive: Vec<usize> = (1..self.nodes.len()).filter(is_alive).collect();
        let Some(victim) = self.env.rng.pick(&alive).copied() else { return };
        let is_left =
            |process: &&Process| matches!(process.role, Role::Driver(_)) && !self.env.oracle.is_lost(process.pid.0);
        if !self.procs.values().filter(is_left).any(|process| process.pid.0 != victim) {
            return;
        }
        self.env.counts.nodes_killed += 1;
        self.lose_node(victim);
        let is_member = self.nodes[victim].hub.is_member();
        match self.env.rng.below(4) {
            0 if is_member => {
                self.nodes[victim].step(&mut self.env, |hub, step| hub.leave(step, "its program ended"));
                let us = self.env.rng.below(20_000);
                self.env.later(us, Item::EndNode { node: victim });
            }
            1 if is_member => {
                self.env.counts.taken_for_dead += 1;
                self.judge(victim);
                let us = self.env.rng.below(100_000);
                self.env.later(us, Item::EndNode { node: victim });
            }
            _ => self.end_node(victim),
        }
        let us = self.env.rng.between(1_000, 100_000);
        self.env.later(us, Item::Verdict { node: victim });
    }

    /// Whatever only it has may be lost from now on, and nobody needs to take up what it says.
    fn lose_node(&mut self, victim: usize) {
        let Self { env, procs, .. } = self;
        for (pid, process) in procs.iter().filter(|(pid, _)| pid.0 == victim) {
            env.oracle.died(*pid);
            if let Role::Worker(worker) = &process.role
                && let Some(task) = worker.running()
            {
                env.oracle.lost(task);
            }
        }
        env.oracle.node_lost(victim);
        env.plans.nodes.retain(|id| index_of(*id) != victim);
    }

    /// All of it is gone at once.
    pub(crate) fn end_node(&mut self, victim: usize) {
        let Self { env, procs, .. } = self;
        env.dead_nodes.insert(victim);
        procs.retain(|pid, _| pid.0 != victim);
        env.journals.retain(|pid, _| pid.0 != victim);
        env.asked.retain(|(pid, _)| pid.0 != victim);
        let lines = env.abroad.lines.keys().filter(|(one, other)| [*one, *other].contains(&victim));
        for key in lines.copied().collect::<Vec<(usize, usize)>>() {
            env.cut_at(key);
        }
    }

    /// The head finds that a node is dead.
    pub(crate) fn judge(&mut self, node: usize) {
        let (head, number) = (&mut self.nodes[0], node as u32 + 1);
        head.step(&mut self.env, |hub, step| hub.node_lost(step, number, "it does not answer"));
        if head.carrier.session(number).is_some() {
            // It has not said who it is, and may still: that may be on its way.
            self.env.later(50_000, Item::Verdict { node });
        }
    }

    /// A node dials another. That may be dead, or not know that there shall be a line.
    pub(crate) fn dial(&mut self, from: usize, to: usize) {
        let knows = |of: &mut Node, other: usize| of.carrier.session(other as u32 + 1).is_some();
        if !knows(&mut self.nodes[from], to) {
            return;
        }
        if self.env.dead_nodes.contains(&to) || !knows(&mut self.nodes[to], from) {
            let us = self.env.rng.between(1_000, 50_000);
            return self.env.later(us, Item::Dial { from, to });
        }
        self.nodes[from].dial(&mut self.env, to);
    }
}
