//! What stands between nodes: real carriers and real sessions, with rings of queues, and lines that a seed cuts.
//!
//! A frame to a process of another node lies in a ring to the carrier until that reads it (`Item::Outward`). What comes from there is a
//! frame like any other. Lines lose what is on them when they are cut, and are dialled again after a while.

use std::collections::{BTreeMap, VecDeque};

use carrier::{Body, Carrier, Frame as Parcel, ToHub};
use cluster::{Limits, NodeLife};
use model::{ProcId, Tick};
use rustc_hash::FxHashMap;
use wire::abroad::{Between, Death};
use wire::frame::{CALL, Header, ITEM, REPLY};
use wire::peer::Peer;

use crate::env::{Claim, Env};
use crate::network::{Item, Order, Pid};
use crate::node::Node;
use crate::oracle::Task;
use crate::process::{Call, Frame};
use crate::rng::Rng;
use crate::world::World;

/// What a hub asks of its carrier.
pub(crate) enum Ask {
    Send(u32, Between<Peer>),
    Died(Death, Vec<u32>),
    Linked(ProcId, ProcId),
    Unlinked(ProcId, ProcId),
    Flush(u64),
    Reach(u64, Vec<(u32, u64)>),
    Meet(u32),
    Part(u32),
}

/// A connection between two nodes; the one with the lower index dials.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    number: u64,
    is_cut: bool,
    /// What has come of the hello.
    hello: Vec<u8>,
    is_answered: bool,
}

/// All that nodes have with each other.
#[derive(Default)]
pub(crate) struct Abroad {
    pub(crate) asked: VecDeque<Ask>,
    pub(crate) said: VecDeque<ToHub>,
    /// By the process here, then the one there: frames that the carrier has not read.
    rings: BTreeMap<(ProcId, ProcId), VecDeque<Frame>>,
    /// Calls on their way.
    calls: Vec<Call>,
    /// What answers are of, by who answers, whom, and what that calls it.
    firsts: FxHashMap<(ProcId, ProcId, u64), Task>,
    /// Claims of calls that came from other nodes, by who runs them, who called, and what that calls it.
    came: BTreeMap<(ProcId, ProcId, u64), u64>,
    /// By the index of the node that dials, then the other one's.
    pub(crate) lines: BTreeMap<(usize, usize), Line>,
    /// When sessions are looked at next.
    ticks: BTreeMap<(usize, u32), Tick>,
}

/// A process as the simulator names it.
pub(crate) fn pid_of(process: ProcId) -> Pid {
    (process.node() as usize - 1, process)
}

/// The node as sessions know it.
pub(crate) fn life_of(index: usize) -> NodeLife {
    NodeLife { node: index as u32 + 1, life: index as u64 + 77 }
}

/// Bounds that a run meets.
fn limits(rng: &mut Rng) -> Limits {
    if rng.chance(300) {
        return Limits::default();
    }
    Limits {
        piece_bytes_max: rng.between(40, 400) as usize,
        window_bytes: rng.between(100, 4_000) as u32,
        queue_bytes_max: rng.between(100, 4_000) as usize,
        resend_bytes_max: rng.between(2_000, 20_000) as usize,
        reserve_bytes: 600,
        ahead_bytes: rng.between(50, 2_000) as usize,
        unacknowledged_bytes: 500,
        news_bytes_max: rng.between(0, 2_000) as usize,
        ..Limits::default()
    }
}

/// The carrier of a node that knows no other yet.
pub(crate) fn carrier_of(index: usize, rng: &mut Rng) -> Carrier {
    Carrier::new(life_of(index), limits(rng))
}

impl Env {
    /// A frame is in the ring to another node's process.
    pub(crate) fn frame_outward(&mut self, from: Pid, to: ProcId, frame: Frame) {
        self.send(Order::Kept, false, Item::Outward { from, to, frame });
    }

    fn pack(&mut self, here: ProcId, there: ProcId, frame: Frame) -> Parcel {
        match frame {
            Frame::Call(call) => {
                let header = Header { length: 8, kind: CALL, flags: 0, claim: 0, request: call.key.0 };
                self.abroad.calls.push(call);
                (header, (self.abroad.calls.len() as u64 - 1).to_le_bytes().to_vec())
            }
            Frame::Written { header, body, first } => {
                let body = match header.kind {
                    REPLY | ITEM => self.name_values(here, there, header.flags, header.kind, body),
                    _ => body,
                };
                let header = Header { length: body.len() as u32, ..header };
                if let Some(first) = first {
                    self.abroad.firsts.insert((here, there, header.request), first);
                }
                (header, body)
            }
        }
    }

    fn parcel_call(&self, (_, body): &Parcel) -> usize {
        u64::from_le_bytes(body[..].try_into().expect("a call's number")) as usize
    }

    /// What came from `there` for `here`.
    pub(crate) fn unpack(&mut self, here: ProcId, there: ProcId, parcel: Parcel) -> Frame {
        if parcel.0.kind == CALL {
            let ticket = self.new_claim();
            let call = Call { ticket, ..self.abroad.calls[self.parcel_call(&parcel)].clone() };
            self.abroad.came.insert((here, there, call.key.0), ticket);
            return Frame::Call(call);
        }
        let (header, body) = parcel;
        let first = self.abroad.firsts.get(&(there, here, header.request)).copied();
        Frame::Written { header: Header { length: body.len() as u32, ..header }, body, first }
    }

    /// What a process wrote into the ring to one of another node, and the carrier has not read.
    pub(crate) fn take_outward(&mut self, here: Pid, there: ProcId) -> Vec<Frame> {
        let mut frames: Vec<Frame> = self.abroad.rings.remove(&(here.1, there)).unwrap_or_default().into();
        frames.extend(self.queue.take_outward(here, there));
        frames
    }

    fn wake_session(&mut self, node: usize, peer: u32, at: Tick) {
        let planned = self.abroad.ticks.entry((node, peer)).or_insert(Tick(u64::MAX));
        if at < *planned {
            *planned = at;
            self.queue.at(at.max(self.now), Item::SessionTick { node, peer });
        }
    }
}

/// The body of the carrier of the node that is stepping.
impl Body for Env {
    fn published(&mut self, here: ProcId, there: ProcId) -> usize {
        let frames = self.queue.take_outward(pid_of(here), there);
        if frames.is_empty() {
            return self.abroad.rings.get(&(here, there)).map_or(0, VecDeque::len);
        }
        let ring = self.abroad.rings.entry((here, there)).or_default();
        ring.extend(frames);
        ring.len()
    }

    fn read(&mut self, here: ProcId, there: ProcId) -> Option<Parcel> {
        let published = self.queue.take_outward(pid_of(here), there);
        let ring = self.abroad.rings.entry((here, there)).or_default();
        ring.extend(published);
        let frame = ring.pop_front();
        if frame.is_none() {
            self.abroad.rings.remove(&(here, there));
        }
        frame.map(|frame| self.pack(here, there, frame))
    }

    fn start(&mut self, _: ProcId, _: ProcId, frame: &Parcel) -> bool {
        let ticket = self.abroad.calls[self.parcel_call(frame)].ticket;
        self.claim(ticket, Claim::Started)
    }

    fn write(&mut self, here: ProcId, there: ProcId, frame: Parcel) -> Option<Parcel> {
        if frame.0.kind == CALL {
            let named = self.abroad.calls[self.parcel_call(&frame)].named();
            self.prefetch_values(named);
        }
        let full = self.settings.full;
        if full > 0 && self.has_faults() && self.rng.chance(full) {
            self.counts.full += 1;
            let us = self.rng.between(1, 10_000);
            self.later(us, Item::Room { here, there });
            return Some(frame);
        }
        let frame = self.unpack(here, there, frame);
        self.frame(pid_of(there), pid_of(here), frame);
        None
    }

    fn take_back(&mut self, here: ProcId, there: ProcId, request: u64) -> bool {
        let ticket = self.abroad.came.get(&(here, there, request)).copied();
        let is_taken = ticket.is_some_and(|ticket| self.claim(ticket, Claim::TakenBack));
        self.counts.taken_back += u64::from(is_taken);
        is_taken
    }

    fn unstarted(&mut self, here: ProcId, there: ProcId) -> Vec<u64> {
        let came = (here, there, 0)..=(here, there, u64::MAX);
        let all: Vec<(u64, u64)> =
            self.abroad.came.range(came).map(|((.., request), ticket)| (*request, *ticket)).collect();
        all.into_iter()
            .filter(|(_, ticket)| self.claim(*ticket, Claim::TakenBack))
            .map(|(request, _)| request)
            .collect()
    }

    fn unread(&mut self, here: ProcId, there: ProcId) -> Vec<Parcel> {
        let frames = self.take_unread(pid_of(there), pid_of(here));
        let written = frames.into_iter().filter_map(|frame| match frame {
            Frame::Written { header, body, .. } => Some((header, body)),
            Frame::Call(_) => None,
        });
        written.collect()
    }

    fn tell_hub(&mut self, message: ToHub) {
        self.abroad.said.push_back(message);
    }
}

impl Node {
    /// Hub and carrier hear each other until neither has anything to say; then sessions send what they have.
    pub(crate) fn go_round(&mut self, env: &mut Env) {
        loop {
            env.stepping = self.index;
            if let Some(ask) = env.abroad.asked.pop_front() {
                self.ask_carrier(env, ask);
            } else if let Some(said) = env.abroad.said.pop_front() {
                self.hear_carrier(env, said);
            } else if !self.read_rings(env) {
                break;
            }
        }
        self.send_all(env);
    }

    fn ask_carrier(&mut self, env: &mut Env, ask: Ask) {
        let carrier = &mut self.carrier;
        match ask {
            Ask::Send(node, message) => carrier.send(node, &message),
            Ask::Died(death, nodes) => carrier.on_died_here(env, death, &nodes),
            Ask::Linked(here, there) => carrier.on_linked(env, here, there),
            Ask::Unlinked(here, there) => carrier.on_link_closed(env, here, there),
            Ask::Flush(ticket) => carrier.flush(env, ticket),
            Ask::Reach(ticket, positions) => carrier.reach(env, ticket, &positions),
            Ask::Meet(node) => self.meet(env, node as usize - 1),
            Ask::Part(node) => self.part(env, node as usize - 1),
        }
    }

    /// There is a session with another node from now on; of two the first dials.
    fn meet(&mut self, env: &mut Env, other: usize) {
        self.carrier.add_node(life_of(other));
        if self.index < other {
            env.later(1, Item::Dial { from: self.index, to: other });
        }
    }

    /// A verdict: what is on the line is lost.
    fn part(&mut self, env: &mut Env, other: usize) {
        if let Some(line) = env.abroad.lines.remove(&(self.index.min(other), self.index.max(other))) {
            env.queue.cut(other, self.index, line.number, 0);
            let us = env.rng.between(1_000, 60_000);
            env.later(us, Item::Closed { node: other, other: self.index, line: line.number });
        }
        self.carrier.remove_node(env, other as u32 + 1);
    }

    fn hear_carrier(&mut self, env: &mut Env, said: ToHub) {
        self.step_hub(env, |hub, step| match said {
            ToHub::Said { node, message } => hub.on_between(step, node, message),
            ToHub::Died { death, last } => hub.on_died_there(step, death, last),
            ToHub::WantLink { here, there } => hub.want_link(step, here, there),
            ToHub::LinkClosed { here, there } => hub.carrier_let_go(step, here, there),
            ToHub::Flushed { ticket, sent } => hub.flushed(step, ticket, sent),
            ToHub::Reached { ticket } => hub.reached(step, ticket),
            ToHub::Parted { node, last } => hub.parted(step, node, last),
        });
    }

    /// Reads what lies in rings, if it may be sent. True: there was something.
    fn read_rings(&mut self, env: &mut Env) -> bool {
        let of_this = |(here, _): &&(ProcId, ProcId)| pid_of(*here).0 == self.index;
        let rings: Vec<(ProcId, ProcId)> = env.abroad.rings.keys().filter(of_this).copied().collect();
        let mut has_read = false;
        for (here, there) in rings {
            while self.carrier.reads(here, there) {
                let Some(ring) = env.abroad.rings.get_mut(&(here, there)) else { break };
                let Some(frame) = ring.pop_front() else {
                    env.abroad.rings.remove(&(here, there));
                    break;
                };
                let frame = env.pack(here, there, frame);
                self.carrier.on_frame(env, here, there, frame);
                has_read = true;
            }
        }
        has_read
    }

    pub(crate) fn on_outward(&mut self, env: &mut Env, from: Pid, to: ProcId, frame: Frame) {
        env.abroad.rings.entry((from.1, to)).or_default().push_back(frame);
        self.go_round(env);
    }

    pub(crate) fn on_room(&mut self, env: &mut Env, here: ProcId, there: ProcId) {
        env.stepping = self.index;
        self.carrier.on_room(env, here, there);
        self.go_round(env);
    }

    fn send_all(&mut self, env: &mut Env) {
        let nodes: Vec<u32> = self.carrier.nodes().collect();
        for peer in nodes {
            let other = peer as usize - 1;
            let now = env.now;
            let Some(session) = self.carrier.session(peer) else { continue };
            let key = (self.index.min(other), self.index.max(other));
            while session.has_output() {
                let mut bytes = Vec::new();
                session.take(now, env.rng.between(100, 5_000) as usize, &mut bytes);
                // Whoever has not been asked yet still speaks on the line before, which is gone.
                let is_on = |line: &&Line| !line.is_cut && (self.index < other || line.is_answered);
                let Some(line) = env.abroad.lines.get(&key).filter(is_on) else { continue };
                let line = line.number;
                let us = env.rng.between(20, 200) + if env.rng.chance(30) { env.rng.between(500, 20_000) } else { 0 };
                let item = Item::Bytes { from: self.index, to: other, line, bytes };
                env.queue.send(Tick(now.0 + us), Order::Kept, item);
            }
            if let Some(at) = session.wake_at() {
                env.wake_session(self.index, peer, at);
            }
            self.carrier.look_at_notices(env, peer);
        }
        if !env.abroad.asked.is_empty() || !env.abroad.said.is_empty() {
            self.go_round(env);
        }
    }

    pub(crate) fn on_session_tick(&mut self, env: &mut Env, peer: u32) {
        env.abroad.ticks.remove(&(self.index, peer));
        env.stepping = self.index;
        if let Some(session) = self.carrier.session(peer) {
            session.tick(env.now);
        }
        self.carrier.look_at_notices(env, peer);
        self.go_round(env);
    }

    pub(crate) fn dial(&mut self, env: &mut Env, other: usize) {
        let Some(session) = self.carrier.session(other as u32 + 1) else { return };
        let number = session.dial(env.now).expect("no verdict was given");
        env.abroad.lines.insert((self.index, other), Line { number, ..Line::default() });
        self.go_round(env);
    }

    pub(crate) fn on_closed(&mut self, env: &mut Env, other: usize, line: u64) {
        let Some(session) = self.carrier.session(other as u32 + 1) else { return };
        session.closed(line);
        if self.index < other {
            let us = if env.has_faults() { env.rng.between(100, 200_000) } else { env.rng.between(100, 5_000) };
            env.later(us, Item::Dial { from: self.index, to: other });
        }
        self.go_round(env);
    }

    pub(crate) fn on_bytes(&mut self, env: &mut Env, from: usize, line: u64, bytes: &[u8]) {
        let peer = from as u32 + 1;
        env.stepping = self.index;
        let mut rest = bytes.to_vec();
        if self.carrier.session(peer).is_none() {
            return;
        }
        if from < self.index {
            let Some(known) = env.abroad.lines.get_mut(&(from, self.index)) else { return };
            if known.number != line {
                return;
            }
            if !known.is_answered {
                known.hello.extend_from_slice(bytes);
                let Ok(Some((hello, length))) = cluster::read_hello(&known.hello) else { return };
                rest = known.hello.split_off(length);
                known.is_answered = true;
                let session = self.carrier.session(peer).expect("seen above");
                session.answer(env.now, &hello).expect("an honest hello is taken");
            }
        }
        self.carrier.receive(env.now, env, peer, line, &rest).expect("honest bytes");
        self.go_round(env);
    }
}

impl World {
    /// One line is cut: of what is on it, in either direction, some still arrives.
    pub(crate) fn cut_line(&mut self) {
        let up: Vec<(usize, usize)> =
            self.env.abroad.lines.iter().filter(|(_, line)| !line.is_cut).map(|(key, _)| *key).collect();
        let Some(key) = self.env.rng.pick(&up).copied() else { return };
        self.env.counts.cut += 1;
        self.env.cut_at(key);
    }
}

impl Env {
    /// The line between these two is cut, if it was not.
    pub(crate) fn cut_at(&mut self, key: (usize, usize)) {
        let Some(line) = self.abroad.lines.get_mut(&key).filter(|line| !line.is_cut) else { return };
        line.is_cut = true;
        let number = line.number;
        for (from, to) in [key, (key.1, key.0)] {
            let arriving = self.rng.below(4) as usize;
            self.queue.cut(from, to, number, arriving);
            let us = self.rng.between(1_000, 60_000);
            self.later(us, Item::Closed { node: to, other: from, line: number });
        }
    }
}
