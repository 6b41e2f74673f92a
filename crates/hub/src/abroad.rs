//! Processes of other nodes, as they are seen from here: who hears of their deaths, what they say, and what is said to them.
//!
//! Whoever has had a message or rings from here is known to its node by that (MEET-1): only who comes across a name by another way has its
//! node ask for it.

use std::collections::{BTreeMap, BTreeSet};

use model::{Dead, JobId, LeaseId, ProcId, WorkerExit};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::abroad::{Between, Death};
use wire::control::{ActorPlace, FromNodeOf, ToNodeOf};
use wire::frame::Header;

use crate::body::{Asker, Body, Door, Step};
use crate::hub::Hub;

/// Nobody's connection: who asks from another node is answered by its name.
const NO_DOOR: Door = Door::MAX;

/// What a process of another node wrote last, and to whom here.
pub type LastFrames = Vec<(ProcId, Vec<(Header, Vec<u8>)>)>;

#[derive(Default)]
pub(crate) struct Abroad {
    nodes: BTreeSet<u32>,
    dead: Dead,
    /// Who here hears of whose death there.
    watched: FxHashMap<ProcId, FxHashSet<ProcId>>,
    /// The dead to whom somebody here still has rings.
    unburied: Vec<ProcId>,
}

/// A process of a node that is dead.
#[derive(Default)]
pub(crate) struct Gone {
    pub(crate) was_dead: bool,
    /// Who here has to hear of it.
    pub(crate) watchers: BTreeSet<ProcId>,
}

impl Abroad {
    /// The other nodes.
    pub(crate) fn nodes(&self) -> Vec<u32> {
        self.nodes.iter().copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.watched.is_empty() && self.unburied.is_empty()
    }

    /// A node is dead. Those of its processes that somebody here knows; whether they were known to be dead; and who hears of it.
    pub(crate) fn node_gone(&mut self, node: u32) -> BTreeMap<ProcId, Gone> {
        self.nodes.remove(&node);
        let watched = self.watched.extract_if(|peer, _| peer.node() == node);
        let gone: BTreeMap<ProcId, Gone> = watched
            .map(|(peer, watchers)| {
                (peer, Gone { was_dead: self.dead.has(peer), watchers: watchers.into_iter().collect() })
            })
            .collect();
        self.dead.note_node(node);
        gone
    }

    pub(crate) fn has_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    pub(crate) fn has(&self, node: u32) -> bool {
        self.nodes.contains(&node)
    }

    pub(crate) fn is_dead(&self, peer: ProcId) -> bool {
        self.dead.has(peer)
    }

    pub(crate) fn mourn(&mut self, peer: ProcId) {
        self.unburied.push(peer);
    }

    pub(crate) fn note_dead(&mut self, dead: ProcId) {
        self.dead.note(dead);
    }

    /// Those whose rings nobody holds any more are forgotten.
    pub(crate) fn forget(&mut self, mut is_over: impl FnMut(ProcId) -> bool) {
        self.unburied.retain(|dead| !is_over(*dead));
    }

    /// A process here is dead, and has to hear of nobody.
    pub(crate) fn process_gone(&mut self, gone: ProcId) {
        self.watched.retain(|_, watchers| {
            watchers.remove(&gone);
            !watchers.is_empty()
        });
    }
}

impl<B: Body> Hub<B> {
    /// A node belongs to the cluster from now on.
    pub fn node_joined(&mut self, node: u32) {
        self.abroad.nodes.insert(node);
    }

    /// A process of another node had died before this one came in. Workers that were started ahead count it like those that come later.
    pub(crate) fn heir_from_before(&mut self, step: &mut Step<'_, B>, dead: ProcId, heir: ProcId) {
        // It may count as dead since another one had its slot, of whose death this node has heard.
        if !self.estates.has_heir(dead) {
            self.abroad.note_dead(dead);
            self.estates.note_heir(dead, heir);
            for to in self.everyone_who_hears() {
                self.tell(step, to, FromNodeOf::PeerDied { peer: dead, exit: WorkerExit::Unknown, heir: Some(heir) });
            }
        }
    }

    /// Whether the process is one of this node.
    #[inline]
    pub(crate) fn is_here(&self, who: ProcId) -> bool {
        who.node() == self.options.number
    }

    /// Whether the process is not known to be dead, nor out of reach, which comes to the same for who asks it for something.
    pub(crate) fn lives(&self, who: ProcId) -> bool {
        if self.is_here(who) {
            return self.procs.get(who).is_some();
        }
        self.abroad.nodes.contains(&who.node())
            && !self.abroad.dead.has(who)
            && !self.members.is_out_of_reach(who.node())
    }

    /// Which other node this message is for.
    pub(crate) fn is_for(&self, who: ProcId, message: &ToNodeOf<B::Letter>) -> Option<u32> {
        if self.abroad.nodes.is_empty() || !self.is_here(who) {
            return None;
        }
        let node = match message {
            ToNodeOf::CreateActor { .. }
            | ToNodeOf::WatchActor { .. }
            | ToNodeOf::KillActor { .. }
            | ToNodeOf::ActorOutOfScope { .. }
            | ToNodeOf::WatchGroup { .. }
            | ToNodeOf::RemoveGroup(_) => self.head_elsewhere()?,
            // Its place is the head's to know; what it has printed, and how it ends, is known here as well.
            ToNodeOf::ActorBuildFailed { .. } if self.lodgings.has_worker(who) => self.head_elsewhere()?,
            ToNodeOf::KillWorker { worker } | ToNodeOf::Served { worker } => worker.node(),
            _ => return None,
        };
        (node != self.options.number).then_some(node)
    }

    pub(crate) fn tell_abroad(&self, step: &mut Step<'_, B>, to: ProcId, message: FromNodeOf<B::Letter>) {
        if self.lives(to) {
            step.body.send(to.node(), Between::Told { to, message: Box::new(message) });
        }
    }

    pub(crate) fn send_letter(&mut self, step: &mut Step<'_, B>, sender: ProcId, to: ProcId, message: B::Letter) {
        if self.lives(to) {
            self.meet(sender, to);
            step.body.send(to.node(), Between::Letter { sender, to, message });
        } else {
            self.tell(step, sender, FromNodeOf::Undeliverable { to, message });
        }
    }

    /// Whoever sent this from another node hears that its receiver is dead, and before that of the death.
    pub(crate) fn return_abroad(&mut self, step: &mut Step<'_, B>, sender: ProcId, to: ProcId, message: B::Letter) {
        self.say_dead(step, sender.node(), to);
        step.body.send(sender.node(), Between::Returned { sender, to, message });
    }

    fn say_dead(&self, step: &mut Step<'_, B>, node: u32, peer: ProcId) {
        let heir = self.estates.heir_of(peer);
        let death = Death { peer, exit: WorkerExit::Unknown, heir, job: None, calls: Vec::new(), is_old: true };
        step.body.send(node, Between::Died(death));
    }

    /// A process here and one there have to do with each other.
    pub(crate) fn meet_abroad(&mut self, here: ProcId, there: ProcId) {
        let Some(proc) = self.procs.get_mut(here) else { return };
        proc.is_met_by(there.node());
        if !self.abroad.dead.has(there) {
            self.abroad.watched.entry(there).or_default().insert(here);
        }
    }

    /// A process here has come across the name of one there.
    pub(crate) fn on_met_abroad(&mut self, step: &mut Step<'_, B>, who: ProcId, name: ProcId) {
        if self.lives(name) {
            let watchers = self.abroad.watched.entry(name).or_default();
            if watchers.is_empty() {
                step.body.send(name.node(), Between::Met { name });
            }
            watchers.insert(who);
        } else if !self.estates.has_heir(name) {
            self.warn_of_reach(step, who, name.node());
            self.tell(step, who, FromNodeOf::PeerDied { peer: name, exit: WorkerExit::Unknown, heir: None });
        }
    }

    /// A process here got a letter in the name of one that is dead, or that another node wrote for it: the one's own node may not know that
    /// somebody here has to hear of its death.
    fn meet_by_hearsay(&mut self, step: &mut Step<'_, B>, who: ProcId, name: ProcId) {
        if self.lives(name) {
            self.abroad.watched.entry(name).or_default().insert(who);
            step.body.send(name.node(), Between::Met { name });
        } else {
            self.on_met_abroad(step, who, name);
        }
    }

    /// A process here is dead: all nodes hear of it if all must count it, else those that have met it.
    pub(crate) fn tell_nodes_of_death(
        &mut self,
        step: &mut Step<'_, B>,
        dead: ProcId,
        exit: &WorkerExit,
        heir: Option<ProcId>,
        job: Option<JobId>,
    ) {
        self.abroad.process_gone(dead);
        step.body.process_died(dead, heir);
        // The carrier may have rings of its to the dead of a node that is dead, too.
        if self.abroad.nodes.is_empty() && self.abroad.is_empty() {
            return;
        }
        let met = self.procs.take_met_by_nodes(dead);
        let is_for_all = heir.is_some() || job.is_some();
        let nodes = if is_for_all { self.abroad.nodes() } else { met.into_iter().collect() };
        let death = Death { peer: dead, exit: exit.clone(), heir, job, calls: Vec::new(), is_old: false };
        step.body.tell_nodes(death, &nodes);
    }

    /// Another node says something.
    pub fn on_between(&mut self, step: &mut Step<'_, B>, node: u32, message: Between<B::Letter>) {
        match message {
            Between::Said { by, message, home } => {
                home.into_iter().for_each(|home| self.note_home(*home));
                self.on_message(step, Asker { door: NO_DOOR, who: Some(by) }, *message);
            }
            Between::Request { lease, job, need, name, waits, home } => {
                home.into_iter().for_each(|home| self.note_home(*home));
                let message = ToNodeOf::RequestLease { number: lease.number, job, need, name };
                self.on_message(step, Asker { door: NO_DOOR, who: Some(lease.owner) }, message);
                if !waits {
                    self.bounce_if_it_waits(step, lease, node);
                }
            }
            Between::Told { to, message } => self.on_told(step, node, to, *message),
            Between::Letter { sender, to, message } => {
                self.relay(step, sender, to, message);
                if self.is_here(to) && !(sender.node() == node && self.lives(sender)) {
                    self.meet_by_hearsay(step, to, sender);
                }
            }
            Between::Returned { sender, to, message } => {
                self.tell(step, sender, FromNodeOf::Undeliverable { to, message });
            }
            Between::Met { name } => match self.procs.get_mut(name) {
                Some(proc) => proc.is_met_by(node),
                None => self.say_dead(step, node, name),
            },
            // A carrier hands it over itself, with what else it has of the dead.
            Between::Died(death) => self.on_died_there(step, death, Vec::new()),
            Between::Testified { of, sent } => self.on_node_testified(step, node, of, sent),
            Between::Settle { of, reach } => self.on_settle_asked(step, of, &reach),
            Between::HasSettled { of, sent } => self.on_node_settled(step, node, of, sent),
            Between::Settled { of, serving } => {
                self.cut_is_made(of);
                self.note_serving(of.node(), serving);
                self.end_leases_of(step, of);
            }
            Between::Enters(info) => self.on_enters(step, node, *info),
            Between::Joined(info) => self.on_joined(step, *info),
            Between::Knows { node: newcomer, heirs } => self.on_knows(step, node, newcomer, heirs),
            Between::Members(membership) => self.on_members(step, *membership),
            Between::Lost { node, why } => self.on_lost(step, node, why),
            Between::Leaves { why } => self.node_lost(step, node, &why),
            Between::WantsJobNumbers => self.on_wants_job_numbers(step, node),
            Between::JobNumbers { above } => self.jobs.add_block(above),
            Between::Load(load) => self.on_load(step, node, load),
            Between::Offer { need, to, count, waits } => self.on_offer(step, &need, to, count, waits),
            Between::Bounced { lease, to } => self.on_bounced(step, node, lease, to),
            Between::Prepare { group, attempt, bundles, within_ms } => {
                self.prepare(step, group, attempt, bundles, within_ms);
            }
            Between::Prepared { group, attempt, is_held } => {
                self.reserve_news(step, scheduler::GroupNews::Prepared { group, attempt, node, is_held });
            }
            Between::Commit(group) => self.schedule(step, scheduler::Event::GroupCommitted(group)),
            Between::Abort(group) => self.schedule(step, scheduler::Event::GroupAborted(group)),
            Between::Dissolve(group) => self.on_dissolved(step, group),
            Between::Lodge { lodging, waits, home } => {
                home.into_iter().for_each(|home| self.note_home(*home));
                self.on_lodge(step, lodging, waits);
            }
            Between::Lodged { lodging, worker, pid } => self.on_lodged(step, node, &lodging, worker, pid),
            Between::Unlodge { lease } => self.on_unlodge(step, lease),
            Between::EndWorker { worker, gracefully, is_orphan } => {
                self.end_worker(step, worker, gracefully, "its actor was ended");
                if gracefully && is_orphan {
                    self.hurry(step, vec![worker]);
                }
            }
            Between::Asks { ticket, by, home, question } => {
                let job = home.as_ref().map(|home| home.job);
                home.into_iter().for_each(|home| self.note_home(*home));
                if let Some(answer) = self.answer_at_once(step, by, job, question) {
                    step.body.send(node, Between::Answers { ticket, to: by, answer: Box::new(answer) });
                }
            }
            Between::Answers { ticket, answer, .. } => self.on_answers(step, node, ticket, *answer),
            Between::Function { function, job, body, home } => {
                home.into_iter().for_each(|home| self.note_home(*home));
                self.on_function(step, function, job, body);
            }
            Between::WantsFunction { function, job } => self.on_wants_function(step, node, function, job),
            Between::WantsInventory { number, limit } => self.take_inventory_for(step, node, number, limit),
            Between::Inventory { number, inventory } => self.on_inventory(step, node, number, *inventory),
            Between::Depot(about) => step.body.about_values(node, about),
            // Between carriers, which do not hand them on.
            Between::Renews { .. } | Between::Renewed { .. } => {}
            Between::LogsTaken { driver, weight } => step.body.logs_taken(driver, weight),
        }
    }

    /// Another node has something to say to a process of this one. That may be of a worker whose death came first: nothing is sent to it then.
    fn on_told(&mut self, step: &mut Step<'_, B>, from: u32, to: ProcId, mut message: FromNodeOf<B::Letter>) {
        match &mut message {
            FromNodeOf::Granted { number, worker, .. } => {
                let (number, worker) = (*number, *worker);
                let lease = LeaseId { owner: to, number };
                // One that was asked for twice may be granted again when its first worker is dead, and nobody waits for it.
                if !self.is_elsewhere(&lease) || !self.link(step, to, worker) {
                    self.forget_lease(step, &lease);
                    if !self.return_elsewhere(step, lease) {
                        let message = Box::new(ToNodeOf::ReturnLease { number });
                        step.body.send(worker.node(), Between::Said { by: to, message, home: None });
                    }
                    return self.tell(step, to, FromNodeOf::Revoke { number });
                }
                self.granted_elsewhere(lease, worker);
            }
            FromNodeOf::LeaseRefused { number, .. } => {
                self.refused_elsewhere(step, &LeaseId { owner: to, number: *number });
            }
            FromNodeOf::BuildActor { options, .. } => {
                if let Some(proc) = self.procs.get_mut(to) {
                    proc.show_as(options.class_name.clone());
                }
            }
            FromNodeOf::LastWords => return self.on_last_words_there(step, from, to),
            FromNodeOf::Log(lines) => step.body.logs_sent(to, lines.weight(), from),
            FromNodeOf::Actor { state: state @ ActorPlace::Alive { .. }, .. } => {
                if let ActorPlace::Alive { worker, .. } = *state
                    && !self.link(step, to, worker)
                {
                    *state = ActorPlace::Pending;
                }
            }
            _ => {}
        }
        self.tell(step, to, message);
    }

    /// A process there is dead, and all that it had sent has come.
    pub fn on_died_there(&mut self, step: &mut Step<'_, B>, death: Death, last: LastFrames) {
        let Death { peer, exit, heir, job, is_old, .. } = death;
        if self.is_here(peer) {
            return;
        }
        step.body.process_died(peer, heir);
        let watchers = self.abroad.watched.remove(&peer).unwrap_or_default();
        if self.abroad.dead.has(peer) {
            // Told before, or known since another one has its slot. Whoever has come across its name since then waits for this.
            for to in watchers {
                self.tell(step, to, FromNodeOf::PeerDied { peer, exit: exit.clone(), heir });
            }
            return;
        }
        self.abroad.dead.note(peer);
        self.hand_over_last(step, peer, last);
        let told = match heir {
            Some(heir) => {
                self.estates.note_heir(peer, heir);
                self.everyone_who_hears()
            }
            None if job.is_some() => self.everyone_who_hears(),
            // The keeper waits for deaths, whoever dies.
            None => {
                let keeper = self.estates.keeper().filter(|keeper| !watchers.contains(keeper));
                watchers.into_iter().chain(keeper).collect()
            }
        };
        for to in &told {
            self.tell(step, *to, FromNodeOf::PeerDied { peer, exit: exit.clone(), heir });
        }
        match heir {
            // What was settled long ago needs no word any more.
            Some(_) if is_old => {}
            Some(heir) => self.await_testimony(step, peer, heir, told),
            None => self.end_leases_of(step, peer),
        }
        if let Some(job) = job {
            self.job_ended_there(step, job);
        }
        self.forget_there(step, peer, exit);
        self.abroad.mourn(peer);
        self.part_from(step, peer);
    }

    pub(crate) fn hand_over_last(&self, step: &mut Step<'_, B>, peer: ProcId, last: LastFrames) {
        for (to, frames) in last {
            self.tell(step, to, FromNodeOf::LastFrames { peer, frames });
        }
    }

    pub(crate) fn job_ended_there(&mut self, step: &mut Step<'_, B>, job: JobId) {
        self.act(step, control::Event::JobEnded(job));
        self.group_changed(step, control::GroupEvent::JobEnded(job));
        self.home_gone(step, job);
    }

    /// A process there is dead, and everyone who must know has heard: nothing of it is kept.
    pub(crate) fn forget_there(&mut self, step: &mut Step<'_, B>, peer: ProcId, exit: WorkerExit) {
        self.leases.process_gone(peer);
        for lease in self.overflow.process_gone(peer) {
            self.forget_lease(step, &lease);
        }
        self.act(step, control::Event::ProcessDied { process: peer, exit });
        self.actors.process_gone(peer);
        self.groups.process_gone(peer);
    }

    /// The carrier has something for a process here from one there, and no rings.
    pub fn want_link(&mut self, step: &mut Step<'_, B>, here: ProcId, there: ProcId) {
        if !self.link(step, here, there) && self.procs.get(here).is_none() {
            self.say_dead(step, there.node(), here);
        }
    }

    /// The carrier uses the rings of these two no more.
    pub fn carrier_let_go(&mut self, step: &mut Step<'_, B>, here: ProcId, there: ProcId) {
        self.on_link_closed(step, there, here);
    }
}
