//! Large values between nodes: the real brain, `depot::Depot`, of each node, and a body of dice for what it asks for.
//!
//! A pull asks the node that has the value, is sent on, finds nothing or a node that is dead, and takes its time, as `node::values` does. What
//! has come lies in the memory of the node that wanted it. Values that are kept for other nodes move to files when there is want of room.

use std::collections::{BTreeMap, BTreeSet};

use carrier::ToHub;
use depot::{Asked, Depot, Effect, Failed, Given};
use model::{Bulk, FileId, Place, ProcId, Tick};
use wire::abroad::{AboutValues, Between};
use wire::asking::NotFetched;
use wire::control::Answer;
use wire::frame::{REPLY, Value};
use wire::journal::Ref;
use wire::peer::Peer;
use wire::{Reader, value};

use crate::abroad::Ask;
use crate::env::Env;
use crate::network::Item;
use crate::process::FromNode;
use crate::refs::Number;
use crate::world::World;

/// Attempts that brought nothing, one after the other.
const FAILURES_MAX: u32 = 6;
/// How often somebody looks who waits for a value to come to who is to send it on.
const LOOKS_MAX: u32 = 200;

/// Who waits for a value, and how its request was numbered.
pub(crate) type Waiter = (ProcId, u64);

/// What a node has of others' values, and keeps for them.
pub(crate) struct Values {
    pub(crate) depot: Depot<Waiter>,
    /// Other nodes that it knows.
    members: BTreeSet<u32>,
    /// What is kept in the arena for other nodes, and pinned.
    kept: BTreeSet<Bulk>,
    /// What was kept in a file: its name.
    named: BTreeMap<FileId, Bulk>,
    /// Names of what was kept here in a file, and harmed.
    harmed: BTreeSet<Bulk>,
    look_at: Option<Tick>,
}

/// A value on its way to a node.
#[derive(Clone, Debug)]
pub(crate) struct Pull {
    bulk: Bulk,
    /// Who has it for certain, and who is asked.
    from: u32,
    source: u32,
    may_be_sent_on: bool,
    failures: u32,
    looks: u32,
    /// Whose it is, once that is known.
    of: Option<ProcId>,
}

/// What an attempt came to.
enum Came {
    Whole(Number),
    SentOn(u32),
    /// It is on its way to who was asked.
    Coming,
    Nothing,
    Broken,
}

impl Values {
    /// Of the node with this index.
    pub(crate) fn new(index: usize) -> Self {
        Self {
            depot: Depot::new(index as u32 + 1),
            members: BTreeSet::new(),
            kept: BTreeSet::new(),
            named: BTreeMap::new(),
            harmed: BTreeSet::new(),
            look_at: None,
        }
    }

    /// What is left; empty if nothing is.
    pub(crate) fn left(&self) -> String {
        let (copies, kept) = self.depot.counts();
        let pinned = self.kept.len();
        let names: Vec<Bulk> = self.depot.names().collect();
        if names.is_empty() && pinned == 0 {
            return String::new();
        }
        format!("{copies} copies, {kept} values kept for others, {pinned} of them pinned: {names:?}")
    }
}

/// The node at this place, as it holds memory.
fn holder_of(node: usize) -> ProcId {
    ProcId::of_node(node as u32 + 1)
}

/// A pull that begins.
fn pull_of(bulk: Bulk, from: u32) -> Pull {
    Pull { bulk, from, source: from, may_be_sent_on: from == bulk.node(), failures: 0, looks: 0, of: None }
}

impl Env {
    /// Lets the brain of a node, which takes a step, decide, and does what it says.
    pub(crate) fn with_depot<R>(
        &mut self,
        node: usize,
        decide: impl FnOnce(&mut Depot<Waiter>, &mut Vec<Effect<Waiter>>) -> R,
    ) -> R {
        let mut out = Vec::new();
        let result = decide(&mut self.values[node].depot, &mut out);
        for effect in out {
            self.do_for_depot(node, effect);
        }
        let values = &mut self.values[node];
        if let Some(at) = values.depot.next_look().filter(|at| values.look_at.is_none_or(|planned| *at < planned)) {
            values.look_at = Some(at);
            self.queue.at(at.max(self.now), Item::LookAtValues { node });
        }
        result
    }

    fn do_for_depot(&mut self, node: usize, effect: Effect<Waiter>) {
        debug_assert_eq!(self.stepping, node, "{effect:?}");
        match effect {
            Effect::Answer { to, found } => self.answer_fetch(node, to, found),
            Effect::Pull { bulk, from } => {
                self.counts.pulled += 1;
                let us = self.rng.between(20, 2_000);
                self.later(us, Item::Pull { node, pull: pull_of(bulk, from) });
            }
            Effect::Drop { at, .. } => self.discard(node, at),
            Effect::LetGo { bulk, at, holder } => {
                self.unpin_kept(node, bulk);
                match (bulk, at) {
                    (Bulk::Stored(place), Bulk::Stored(_)) => self.free_place(node, holder, place),
                    (_, at) => self.discard(node, at),
                }
            }
            Effect::Say(to, about) => self.abroad.asked.push_back(Ask::Send(to, Between::Depot(about))),
        }
    }

    fn answer_fetch(&mut self, node: usize, (to, request): Waiter, found: Result<Bulk, NotFetched>) {
        let answer = Answer::Fetched(found);
        self.tell_process((node, to), FromNode::Answer { request, answer });
    }

    fn free_place(&mut self, node: usize, holder: ProcId, place: Place) {
        let (sender, message) = (holder_of(node), Peer::FreePlace(place));
        self.tell_process((node, holder), FromNode::Relay { sender, message });
    }

    fn unpin_kept(&mut self, node: usize, bulk: Bulk) {
        if let Bulk::Stored(place) = bulk
            && self.values[node].kept.remove(&bulk)
        {
            self.unpin((node, holder_of(node)), place);
        }
    }

    /// A value in the node's own part of the arena, or in a file of its own.
    fn discard(&mut self, node: usize, at: Bulk) {
        match at {
            Bulk::Stored(place) => {
                if let Err(why) = self.memories[node].free(holder_of(node), place) {
                    self.oracle.fail(format!("SIM-10: {why}"));
                }
            }
            Bulk::Filed(filed) => self.memories[node].remove_file(filed.file),
        }
    }

    /// Another node is known.
    pub(crate) fn values_know(&mut self, number: u32, is_callable: bool) {
        let node = self.stepping;
        if number as usize != node + 1 {
            self.values[node].members.insert(number);
            self.values[node].depot.node_joined(number, is_callable);
        }
    }

    /// It is dead.
    pub(crate) fn values_without(&mut self, number: u32) {
        let node = self.stepping;
        self.values[node].members.remove(&number);
        self.with_depot(node, |depot, out| depot.node_gone(number, out));
    }

    /// A process wants a value, or only to know whether it is there.
    pub(crate) fn fetch_value(&mut self, by: ProcId, request: u64, bulk: Bulk, is_probe: bool) {
        let (node, now) = (self.stepping, self.now);
        if is_probe && bulk.node() as usize != node + 1 && self.values[node].members.contains(&bulk.node()) {
            let us = self.rng.between(50, 5_000);
            return self.later(us, Item::Probe { node, to: (by, request), bulk });
        }
        self.with_depot(node, |depot, out| depot.wants(now, bulk, (by, request), out));
    }

    /// What will be needed here soon.
    pub(crate) fn prefetch_values(&mut self, bulks: impl IntoIterator<Item = Bulk>) {
        let (node, now) = (self.stepping, self.now);
        self.with_depot(node, |depot, out| bulks.into_iter().for_each(|bulk| depot.will_want(now, bulk, out)));
    }

    fn keep_value(&mut self, given: Given) {
        let (node, now) = (self.stepping, self.now);
        self.counts.kept += 1;
        if let Bulk::Filed(filed) = given.at {
            self.values[node].named.insert(filed.file, given.bulk);
        }
        self.with_depot(node, |depot, out| depot.keep(now, given, out));
    }

    fn pin_to_keep(&mut self, bulk: Bulk) -> Option<Number> {
        let (Bulk::Stored(place), node) = (bulk, self.stepping) else { return None };
        let number = self.memories[node].pin(holder_of(node), place)?;
        self.values[node].kept.insert(bulk);
        Some(number)
    }

    /// Values that a process has given away by way of its node.
    pub(crate) fn keep_values_for(&mut self, holder: ProcId, owner: ProcId, bulks: Vec<Bulk>) {
        let node = self.stepping;
        for bulk in bulks {
            let at = match bulk {
                Bulk::Stored(_) => {
                    self.pin_to_keep(bulk);
                    bulk
                }
                // Its writer may die before its reader comes.
                Bulk::Filed(filed) => self.memories[node].take_over(holder_of(node), filed).map_or(bulk, Bulk::Filed),
            };
            self.keep_value(Given { bulk, at, owner, holder });
        }
    }

    /// What is written in a reply or is yielded, as it crosses: what is large gets a name and stays, or goes as a copy.
    pub(crate) fn name_values(&mut self, here: ProcId, there: ProcId, flags: u8, kind: u8, body: Vec<u8>) -> Vec<u8> {
        let Ok((_, rest)) = wire::frame::split_list(flags, &body) else { return body };
        let is_reply = kind == REPLY;
        if rest.is_empty() {
            return body;
        }
        let mut reader = Reader::new(rest);
        let count = if is_reply { reader.u32().expect("an honest reply") } else { 1 };
        let mut whole = body[..body.len() - reader.rest().len()].to_vec();
        for _ in 0..count {
            match Value::read(&mut reader).expect("an honest value") {
                Value::Bulk(bulk) => self.name_one(here, there, bulk, &mut whole),
                value => value.write(&mut whole),
            }
        }
        whole.extend_from_slice(reader.rest());
        whole
    }

    fn name_one(&mut self, here: ProcId, there: ProcId, bulk: Bulk, whole: &mut Vec<u8>) {
        let is_copied = self.rng.chance(self.settings.copied);
        let kept = if is_copied { None } else { self.keep_for(here, there, bulk) };
        match kept {
            Some((bulk, refs)) => {
                let mut bytes = Vec::new();
                refs.iter().for_each(|(id, owner)| value::write_ref(&mut bytes, id, *owner));
                Value::Away { bulk, refs: &bytes }.write(whole);
            }
            None => {
                let copy = if is_copied { self.look_at((self.stepping, holder_of(self.stepping)), bulk) } else { None };
                match copy {
                    Some((number, pin)) => {
                        pin.into_iter().for_each(|place| self.unpin((self.stepping, holder_of(self.stepping)), place));
                        Value::Inline(&number.to_bytes()).write(whole);
                    }
                    None => {
                        self.note_unsent_value(bulk);
                        Value::write_failure(&model::Failure::Lost("it is gone".into()), whole);
                    }
                }
                self.give_back(here, there, bulk);
            }
        }
    }

    /// A value does not cross: its file was harmed, or something is wrong.
    fn note_unsent_value(&mut self, bulk: Bulk) {
        match bulk {
            Bulk::Filed(filed) => self.lost_on_its_way(filed.file),
            Bulk::Stored(place) => self.oracle.fail(format!("SIM-10: nothing lies at {place:?}, which is given away")),
        }
    }

    /// As the carrier's body: the value is the receiver's from now on, and kept here.
    fn keep_for(&mut self, here: ProcId, there: ProcId, bulk: Bulk) -> Option<(Bulk, Vec<Ref>)> {
        let node = self.stepping;
        let (bulk, refs) = match bulk {
            Bulk::Stored(place) => {
                let number = self.pin_to_keep(bulk)?;
                self.say_in_the_name_of(there, here, Peer::KeepPlace(place));
                (bulk, number.refs)
            }
            Bulk::Filed(filed) => {
                let filed = self.memories[node].take_over(holder_of(node), filed)?;
                let refs = self.memories[node].map(&filed).map_or_else(Vec::new, |number| number.refs);
                (Bulk::Filed(filed), refs)
            }
        };
        self.keep_value(Given { bulk, at: bulk, owner: there, holder: here });
        Some((bulk, refs))
    }

    fn say_in_the_name_of(&mut self, sender: ProcId, to: ProcId, message: Peer) {
        let message = Between::Letter { sender, to, message };
        self.abroad.said.push_back(ToHub::Said { node: sender.node(), message });
    }

    /// As the receiver would say that it needs the bytes no more.
    fn give_back(&mut self, here: ProcId, there: ProcId, bulk: Bulk) {
        match bulk {
            Bulk::Stored(place) => self.say_in_the_name_of(there, here, Peer::FreePlace(place)),
            Bulk::Filed(filed) => self.memories[self.stepping].remove_file(filed.file),
        }
    }

    /// Something was done to a file.
    pub(crate) fn file_harmed(&mut self, node: usize, file: FileId) {
        if let Some(name) = self.values[node].named.get(&file).copied() {
            self.values[node].harmed.insert(name);
        }
    }

    /// Whether it can be that nobody has this value any more.
    pub(crate) fn may_be_lost(&self, bulk: Bulk) -> bool {
        let home = bulk.node() as usize - 1;
        self.oracle.is_lost(home) || self.memories[home].is_harmed(bulk) || self.values[home].harmed.contains(&bulk)
    }

    /// Somebody asks the node for a value.
    fn asked_for(&mut self, source: usize, by: usize, pull: &mut Pull) -> Came {
        let now = self.now;
        self.stepping = source;
        if !self.values[source].members.contains(&(by as u32 + 1)) {
            return Came::Broken;
        }
        let asked = self.values[source].depot.asked(now, by as u32 + 1, pull.bulk, pull.may_be_sent_on);
        self.with_depot(source, |_, _| {});
        pull.of = self.values[source].depot.owner_of(&pull.bulk).or(pull.of);
        match asked {
            Asked::At(at) => match self.seen_at(source, at) {
                Some(number) => Came::Whole(number),
                None => {
                    self.with_depot(source, |depot, out| depot.is_not_there(pull.bulk, out));
                    Came::Nothing
                }
            },
            Asked::SentOn(node) => Came::SentOn(node),
            Asked::Coming if pull.looks < LOOKS_MAX => Came::Coming,
            Asked::Coming | Asked::Nothing => Came::Nothing,
        }
    }

    fn seen_at(&mut self, node: usize, at: Bulk) -> Option<Number> {
        let by = (node, holder_of(node));
        let (number, pin) = self.look_at(by, at)?;
        pin.into_iter().for_each(|place| self.unpin(by, place));
        Some(number)
    }

    fn pull_later(&mut self, node: usize, us: u64, pull: Pull) {
        let us = us + self.rng.between(20, 2_000);
        self.later(us, Item::Pull { node, pull });
    }

    /// An attempt came to nothing.
    fn pull_failed(&mut self, node: usize, came: &Came, pull: Pull) {
        let from = pull.from;
        match came {
            Came::SentOn(source) => {
                self.counts.sent_on += 1;
                self.pull_later(node, 0, Pull { source: *source, may_be_sent_on: false, ..pull });
            }
            Came::Coming => self.pull_later(node, 1_000, Pull { looks: pull.looks + 1, ..pull }),
            Came::Nothing if pull.source == from => self.end_pull(node, pull.bulk, Err(Failed::Moved)),
            // Whoever had it before is of no help: the one that has it for certain is.
            _ if pull.source != from => self.pull_later(node, 0, Pull { source: from, may_be_sent_on: false, ..pull }),
            _ if !self.values[node].members.contains(&from) => self.end_pull(node, pull.bulk, Err(Failed::NodeDead)),
            _ => {
                let failures = pull.failures + 1;
                if failures >= FAILURES_MAX {
                    return self.end_pull(node, pull.bulk, Err(Failed::Later("it does not answer".into())));
                }
                self.pull_later(node, 20_000 << failures, Pull { failures, ..pull });
            }
        }
    }

    fn end_pull(&mut self, node: usize, bulk: Bulk, result: Result<(Bulk, ProcId), Failed>) {
        let now = self.now;
        self.with_depot(node, |depot, out| depot.pulled(now, bulk, result, out));
    }

    /// There is want of room: copies go, and what is kept for others is written to files.
    fn make_room_of_values(&mut self, node: usize) {
        let (now, bytes) = (self.now, self.rng.between(1, 4) << 20);
        let by = holder_of(node);
        // Both look at the memory, and the brain is lent meanwhile.
        let looked_at: BTreeSet<u64> = self.memories[node].offsets_looked_at(by);
        let is_looked_at = |bulk: Bulk| matches!(bulk, Bulk::Stored(place) if looked_at.contains(&place.offset));
        self.with_depot(node, |depot, out| depot.make_room(now, bytes, is_looked_at, out));
        let movable = self.values[node].depot.movable(bytes, is_looked_at);
        if !movable.is_empty() {
            let us = self.rng.between(10, 20_000);
            self.later(us, Item::KeptWritten { node, bulks: movable });
        }
    }

    fn kept_written(&mut self, node: usize, bulk: Bulk) {
        let (Bulk::Stored(place), Some(number)) = (bulk, self.seen_at(node, bulk)) else { return };
        let filed = self.memories[node].write_file(holder_of(node), vec![number])[0];
        match self.values[node].depot.moved(bulk, Bulk::Filed(filed)) {
            Some(holder) => {
                self.counts.kept_moved += 1;
                self.values[node].named.insert(filed.file, bulk);
                self.unpin_kept(node, bulk);
                self.free_place(node, holder, place);
            }
            // It was freed meanwhile.
            None => self.memories[node].remove_file(filed.file),
        }
    }

    fn look_at_values(&mut self, node: usize) {
        let now = self.now;
        self.values[node].look_at = None;
        let memory = &self.memories[node];
        let there: BTreeSet<Bulk> = memory.all_there();
        self.with_depot(node, |depot, out| depot.look(now, |bulk| there.contains(&bulk), out));
    }
}

impl World {
    /// What concerns the values of a node, which takes a step.
    pub(crate) fn on_values(&mut self, node: usize, step: impl FnOnce(&mut Env)) {
        self.env.stepping = node;
        step(&mut self.env);
        self.nodes[node].go_round(&mut self.env);
    }

    /// A node asks another for a value.
    pub(crate) fn on_pull(&mut self, node: usize, mut pull: Pull) {
        let source = pull.source as usize - 1;
        let env = &mut self.env;
        let is_known = env.values[node].members.contains(&pull.source);
        let is_broken = env.has_faults() && env.rng.chance(env.settings.lines_fail);
        let came = if !is_known || is_broken || env.dead_nodes.contains(&source) {
            Came::Broken
        } else {
            let came = env.asked_for(source, node, &mut pull);
            self.nodes[source].go_round(env);
            came
        };
        let env = &mut self.env;
        env.stepping = node;
        if let Came::Whole(number) = came {
            let us = env.rng.between(50, 5_000) + if env.rng.chance(50) { env.rng.between(1_000, 50_000) } else { 0 };
            return env.later(us, Item::Pulled { node, pull, number });
        }
        self.on_values(node, |env| env.pull_failed(node, &came, pull));
    }

    /// A value has come, unless who sent it died over it.
    pub(crate) fn on_pulled(&mut self, node: usize, pull: Pull, number: Number) {
        let source = pull.source as usize - 1;
        self.on_values(node, |env| {
            if env.dead_nodes.contains(&source) && env.rng.chance(500) {
                return env.pull_failed(node, &Came::Broken, pull);
            }
            let at = env.memories[node].write_copy(holder_of(node), number);
            env.short_of_room(node);
            let of = pull.of.unwrap_or_else(|| ProcId::of_node(pull.bulk.node()));
            env.end_pull(node, pull.bulk, Ok((at, of)));
        });
    }

    /// Whether a value that lies on another node is there still.
    pub(crate) fn on_probe(&mut self, node: usize, to: Waiter, bulk: Bulk) {
        let home = bulk.node() as usize - 1;
        let is_broken = self.env.has_faults() && self.env.rng.chance(self.env.settings.lines_fail);
        let is_known = self.env.values[node].members.contains(&bulk.node());
        let found = if !is_known || is_broken || self.env.dead_nodes.contains(&home) {
            Err(NotFetched::Later("it does not answer".into()))
        } else {
            let mut is_there = false;
            self.on_values(home, |env| {
                let at = env.values[home].depot.lies_at(bulk);
                is_there = env.seen_at(home, at).is_some();
                if !is_there {
                    env.with_depot(home, |depot, out| depot.is_not_there(bulk, out));
                }
            });
            if is_there { Ok(bulk) } else { Err(NotFetched::Moved) }
        };
        self.on_values(node, |env| env.answer_fetch(node, to, found));
    }

    pub(crate) fn on_node_room(&mut self, node: usize) {
        self.on_values(node, |env| env.make_room_of_values(node));
    }

    pub(crate) fn on_kept_written(&mut self, node: usize, bulks: Vec<Bulk>) {
        self.on_values(node, |env| bulks.into_iter().for_each(|bulk| env.kept_written(node, bulk)));
    }

    pub(crate) fn on_look_at_values(&mut self, node: usize) {
        self.on_values(node, |env| env.look_at_values(node));
    }
}

/// What another node says of large values, for the brain of the one that steps.
pub(crate) fn on_word(env: &mut Env, from: u32, about: AboutValues) {
    let (node, now) = (env.stepping, env.now);
    env.with_depot(node, |depot, out| depot.on_word(now, from, about, out));
}
