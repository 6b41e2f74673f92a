//! Deaths of processes here, which other nodes hear of behind all that the dead had written; and of processes there.

use std::collections::{BTreeMap, BTreeSet};

use cluster::Fate;
use model::ProcId;
use wire::abroad::{Between, Death, FRAME};
use wire::frame::{self, CALL, GIFT, GIVEN_BACK, KNEW, REPLY, UNSTARTED};
use wire::peer::{Knew, Peer, Shares};

use crate::frames::{frame_of, unstarted};
use crate::{Body, Carrier, Frame, HEIRS_MAX, ToHub};

impl Carrier {
    /// A process here is dead: all that it had written goes out, then these nodes are told.
    pub fn on_died_here(&mut self, body: &mut impl Body, death: Death, nodes: &[u32]) {
        let here = death.peer;
        let peers: Vec<ProcId> = self.links_of(here);
        for there in &peers {
            while let Some(frame) = body.read(here, *there) {
                if !self.dead.has(*there) {
                    self.on_frame(body, here, *there, frame);
                } else if frame.0.kind == REPLY {
                    // It had not heard of that death, and cannot salvage this itself.
                    self.salvage(body, *there, here, frame);
                }
            }
        }
        self.dead.note(here);
        self.note_heir(&death);
        let mut calls: BTreeMap<u32, Vec<(ProcId, u64)>> = BTreeMap::new();
        for there in peers {
            let Some(link) = self.links.remove(&(here, there)) else { continue };
            if !self.dead.has(there) {
                calls.entry(there.node()).or_default().push((there, link.calls_came));
                // CARRY-2: those that had come.
                for request in body.unstarted(here, there) {
                    self.send_frame(here, there, &unstarted(request));
                }
            }
            for frame in body.unread(here, there) {
                self.on_unread(body, here, there, frame);
            }
            for held in link.held {
                self.let_go_of(here, there, held.length);
                self.on_unread(body, here, there, held.frame);
            }
            body.tell_hub(ToHub::LinkClosed { here, there });
        }
        for node in nodes {
            let calls = calls.remove(node).unwrap_or_default();
            self.send(*node, &Between::Died(Death { calls, ..death.clone() }));
        }
        self.look_at_positions(body);
    }

    fn note_heir(&mut self, death: &Death) {
        if let Some(heir) = death.heir {
            if self.latest.len() == HEIRS_MAX
                && let Some(oldest) = self.latest.pop_front()
            {
                self.heirs.remove(&oldest);
            }
            if self.heirs.insert(death.peer, heir).is_none() {
                self.latest.push_back(death.peer);
            }
        }
    }

    fn links_of(&self, here: ProcId) -> Vec<ProcId> {
        let all = self.links.range((here, ProcId::new(1, 0, 0))..);
        all.take_while(|((of, _), _)| *of == here).map(|((_, there), _)| *there).collect()
    }

    /// A process there is dead, and all that it had sent has come.
    pub(crate) fn on_died_there(&mut self, body: &mut impl Body, death: Death) {
        let there = death.peer;
        self.dead.note(there);
        self.note_heir(&death);
        let mut last = Vec::new();
        let linked: Vec<ProcId> = self.links.keys().filter(|(_, to)| *to == there).map(|(here, _)| *here).collect();
        for here in linked {
            // What lies in the ring is still to be read, or is salvaged if the one here dies before it has.
            let Some(link) = self.links.get_mut(&(here, there)) else { continue };
            let (held, under_way) = (std::mem::take(&mut link.held), std::mem::take(&mut link.under_way));
            if !link.is_linked {
                self.links.remove(&(here, there));
            }
            let mut frames: Vec<Frame> = Vec::new();
            for held in held {
                self.let_go_of(here, there, held.length);
                frames.push(held.frame);
            }
            // CARRY-2: those that had not come.
            let came = death.calls.iter().find(|(caller, _)| *caller == here).map_or(0, |(_, count)| *count);
            let mut lost: Vec<(u64, u64)> = under_way.into_iter().map(|(request, number)| (number, request)).collect();
            lost.sort_unstable();
            frames.extend(lost.into_iter().filter(|(number, _)| *number > came).map(|(_, request)| unstarted(request)));
            self.salvage_posted(body, here, there);
            if !frames.is_empty() {
                last.push((here, frames));
            }
        }
        // What waited behind frames for the dead waits no more.
        self.announce_again(there.node());
        body.tell_hub(ToHub::Died { death, last });
        self.look_at_positions(body);
        self.look_at_flushes(body);
    }

    /// A verdict: a node is dead, and all its processes are. The session with it ends, and nothing that waits here waits for it any more.
    pub fn remove_node(&mut self, body: &mut impl Body, node: u32) {
        let Some(mut peer) = self.peers.remove(&node) else { return };
        self.dead.note_node(node);
        self.heirs.retain(|dead, heir| dead.node() != node && heir.node() != node);
        self.latest.retain(|dead| self.heirs.contains_key(dead));
        let never_sent = peer.session.end().into_iter().filter(|item| item.kind == FRAME && item.channel.is_some());
        let mut never_sent: Vec<Vec<u8>> =
            never_sent.filter(|item| item.fate == Fate::NeverArrived).map(|item| item.bytes).collect();
        never_sent.extend(peer.post.frames().map(<[u8]>::to_vec));
        let mut unsent: BTreeSet<(ProcId, ProcId, u64)> = BTreeSet::new();
        for (here, there, frame) in never_sent.iter().filter_map(|bytes| frame_of(bytes)) {
            match frame.0.kind {
                CALL => drop(unsent.insert((there, here, frame.0.request))),
                REPLY if !self.dead.has(here) => self.salvage(body, there, here, frame),
                _ => {}
            }
        }
        let mut last: BTreeMap<ProcId, Vec<(ProcId, Vec<Frame>)>> = BTreeMap::new();
        let linked: Vec<(ProcId, ProcId)> = self.links.keys().filter(|(_, to)| to.node() == node).copied().collect();
        for (here, there) in linked {
            let Some(link) = self.links.get_mut(&(here, there)) else { continue };
            let (held, under_way) = (std::mem::take(&mut link.held), std::mem::take(&mut link.under_way));
            if !link.is_linked {
                self.links.remove(&(here, there));
            }
            let mut frames: Vec<Frame> = held.into_iter().map(|held| held.frame).collect();
            // CARRY-2: those that had not left.
            let mut kept: Vec<(u64, u64)> = under_way.into_iter().map(|(request, number)| (number, request)).collect();
            kept.sort_unstable();
            kept.retain(|(_, request)| unsent.contains(&(there, here, *request)));
            frames.extend(kept.into_iter().map(|(_, request)| unstarted(request)));
            if !frames.is_empty() {
                last.entry(there).or_default().push((here, frames));
            }
        }
        body.tell_hub(ToHub::Parted { node, last: last.into_iter().collect() });
        self.look_at_positions(body);
        self.look_at_flushes(body);
    }

    /// What waited for the session to take it to a process there, which is dead.
    fn salvage_posted(&mut self, body: &mut impl Body, here: ProcId, there: ProcId) {
        let Some(peer) = self.peers.get_mut(&there.node()) else { return };
        // The channel may be another one's by now, which has that slot.
        let is_for_it = |bytes: &[u8]| frame_of(bytes).is_some_and(|(_, to, _)| to == there);
        for bytes in peer.post.take(wire::abroad::frames(here, there), is_for_it) {
            if let Some((_, _, frame)) = frame_of(&bytes).filter(|(_, _, frame)| frame.0.kind == REPLY) {
                self.salvage(body, there, here, frame);
            }
        }
    }

    /// A process here has read all that one there, which is dead, had written to it.
    pub fn on_link_closed(&mut self, body: &mut impl Body, here: ProcId, there: ProcId) {
        if self.dead.has(there) && self.links.remove(&(here, there)).is_some() {
            body.tell_hub(ToHub::LinkClosed { here, there });
        }
    }

    /// The answer to a call whose caller is dead. As `party` does with what a dead caller of its own node has not read.
    pub(crate) fn salvage(&self, body: &mut impl Body, caller: ProcId, by: ProcId, (header, bytes): Frame) {
        let Ok((dead, reply)) = frame::split_list(header.flags, &bytes) else { return };
        if header.flags & UNSTARTED != 0 {
            return;
        }
        let flags = header.flags & !(GIFT | KNEW);
        match self.heirs.get(&caller) {
            Some(heir) => {
                let (request, knew) = (header.request, Knew::Dead(dead));
                self.letter(body, by, *heir, Peer::Reply { caller, request, flags, knew, body: reply.to_vec() });
            }
            None if flags & GIVEN_BACK != 0 => {}
            None => {
                for (object, owner, borrower) in frame::kept_in(reply).unwrap_or_default() {
                    self.letter(body, by, owner, Peer::Borrowed(vec![Shares { object, borrower, count: 1 }]));
                }
            }
        }
    }
}
