//! HOT: frames between rings and sessions.

use std::collections::VecDeque;

use cluster::{Arrived, Channel, Hold};
use model::ProcId;
use rustc_hash::FxHashMap;
use wire::Reader;
use wire::abroad::{BETWEEN, Between, FRAME, frames};
use wire::frame::{CALL, GIVEN_BACK, HEADER_BYTES, Header, REPLY, TAKE_BACK, UNSTARTED, Value, WANTED_BACK};
use wire::peer::Peer;
use wire::session::ITEM_BYTES_MAX;

use crate::{Body, Carrier, Frame, ToHub};

/// A frame larger than this does not fit into an item of a session.
const FRAME_BYTES_MAX: usize = ITEM_BYTES_MAX - 16 - HEADER_BYTES;

/// What two processes have with each other, one of them here and one there.
#[derive(Default)]
pub(crate) struct Link {
    /// There are rings.
    pub(crate) is_linked: bool,
    /// The hub was asked for some.
    is_wanted: bool,
    /// Calls of the one here that were sent and not answered: which number each had.
    pub(crate) under_way: FxHashMap<u64, u64>,
    /// How many calls were sent.
    calls_sent: u64,
    /// How many calls came.
    pub(crate) calls_came: u64,
    /// What came and is not in the ring.
    pub(crate) held: VecDeque<Held>,
}

impl Link {
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.held.is_empty()
    }
}

/// A frame that came and does not fit into its ring yet.
pub(crate) struct Held {
    pub(crate) serial: u64,
    pub(crate) frame: Frame,
    /// Bytes that it had in the session.
    pub(crate) length: usize,
}

/// What has come from another node.
pub(crate) enum Arrival {
    Frame { from: ProcId, to: ProcId, frame: Frame, channel: Channel, length: usize },
    Message(Between<Peer>),
}

/// Decodes what has come. What makes no sense is dropped: it would come again by every line.
pub(crate) fn take_up(arrived: Arrived<'_>, came: &mut Vec<Arrival>) -> Hold {
    match arrived {
        Arrived::Item { channel, kind: FRAME, bytes } => {
            let Some((from, to, frame)) = frame_of(bytes) else { return Hold::Done };
            came.push(Arrival::Frame { from, to, frame, channel, length: bytes.len() });
            Hold::Kept
        }
        Arrived::Item { kind: BETWEEN, bytes, .. } | Arrived::News { bytes, .. } => {
            came.extend(wire::decode(bytes).ok().map(Arrival::Message));
            Hold::Done
        }
        Arrived::Item { .. } => Hold::Done,
    }
}

pub(crate) fn frame_of(bytes: &[u8]) -> Option<(ProcId, ProcId, Frame)> {
    let mut reader = Reader::new(bytes);
    let (from, to) = (reader.process().ok()?, reader.process().ok()?);
    let header = Header::from_bytes(reader.array::<HEADER_BYTES>().ok()?);
    Some((from, to, (header, reader.rest().to_vec())))
}

fn bytes_of(from: ProcId, to: ProcId, (header, body): &Frame) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + HEADER_BYTES + body.len());
    bytes.extend_from_slice(&from.to_u64().to_le_bytes());
    bytes.extend_from_slice(&to.to_u64().to_le_bytes());
    bytes.extend_from_slice(&header.to_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// What comes of a call or answer that is larger than a session takes in one piece.
fn too_large(header: Header) -> Frame {
    let why = "a call to another node, its answer and each value in them can have 1 GiB: split what is larger";
    let mut body = 1_u32.to_le_bytes().to_vec();
    Value::write_failure(&model::Failure::StoreFull(why.into()), &mut body);
    (Header { length: body.len() as u32, kind: REPLY, flags: 0, ..header }, body)
}

/// A call that was taken back.
fn given_back(request: u64) -> Frame {
    (Header { length: 0, kind: REPLY, flags: GIVEN_BACK | WANTED_BACK, claim: 0, request }, Vec::new())
}

/// A call that has not started and never will, since whoever was called is dead.
pub(crate) fn unstarted(request: u64) -> Frame {
    (Header { length: 0, kind: REPLY, flags: UNSTARTED, claim: 0, request }, Vec::new())
}

impl Carrier {
    /// Whether the ring of these two is to be read on: nothing that came out of it waits.
    #[must_use]
    pub fn reads(&self, here: ProcId, there: ProcId) -> bool {
        let peer = self.peers.get(&there.node());
        !self.dead.has(there) && peer.is_some_and(|peer| !peer.post.has_waiting(frames(here, there)))
    }

    /// A frame has come out of a ring. Only if `reads`, or if what was published is to be sent whatever waits: at a death and for a position.
    pub fn on_frame(&mut self, body: &mut impl Body, here: ProcId, there: ProcId, frame: Frame) {
        let link = self.links.entry((here, there)).or_default();
        link.is_linked = true;
        let frame = if frame.1.len() > FRAME_BYTES_MAX {
            match frame.0.kind {
                CALL => {
                    if body.start(here, there, &frame) {
                        let lost = too_large(frame.0);
                        self.keep_or_write(body, here, there, lost, 0);
                    }
                    return;
                }
                _ => too_large(frame.0),
            }
        } else {
            frame
        };
        if frame.0.kind == CALL {
            if !body.start(here, there, &frame) {
                return;
            }
            link.calls_sent += 1;
            link.under_way.insert(frame.0.request, link.calls_sent);
        }
        self.send_frame(here, there, &frame);
    }

    pub(crate) fn send_frame(&mut self, here: ProcId, there: ProcId, frame: &Frame) {
        let bytes = bytes_of(here, there, frame);
        self.send_item(there.node(), frames(here, there), FRAME, bytes);
    }

    /// There are rings for these two.
    pub fn on_linked(&mut self, body: &mut impl Body, here: ProcId, there: ProcId) {
        if self.dead.has(here) || self.dead.has(there) {
            return body.tell_hub(ToHub::LinkClosed { here, there });
        }
        let link = self.links.entry((here, there)).or_default();
        (link.is_linked, link.is_wanted) = (true, false);
        self.on_room(body, here, there);
    }

    /// There may be room in the ring to the one here.
    pub fn on_room(&mut self, body: &mut impl Body, here: ProcId, there: ProcId) {
        let Some(link) = self.links.get_mut(&(here, there)).filter(|link| link.is_linked) else { return };
        let mut taken = Vec::new();
        while let Some(held) = link.held.pop_front() {
            if let Some(frame) = body.write(here, there, held.frame) {
                link.held.push_front(Held { frame, ..held });
                break;
            }
            taken.push(held.length);
        }
        let has_taken = !taken.is_empty();
        taken.into_iter().for_each(|length| self.let_go_of(here, there, length));
        if has_taken {
            self.look_at_positions(body);
        }
    }

    /// What came takes no room any more.
    pub(crate) fn let_go_of(&mut self, here: ProcId, there: ProcId, length: usize) {
        // What the carrier says itself has taken no room.
        if length > 0
            && let Some(peer) = self.peers.get_mut(&there.node())
        {
            peer.session.taken(frames(there, here), length);
        }
    }

    pub(crate) fn on_arrival(&mut self, body: &mut impl Body, node: u32, arrival: Arrival) {
        match arrival {
            Arrival::Frame { from, to, frame, channel, length } => {
                // A node speaks for its own processes, by their channels. What it says in others' names would be let go of by channels of theirs.
                let is_its_own = (from.node(), to.node()) == (node, self.me.node) && frames(from, to) == channel;
                if !(is_its_own && self.on_arrived(body, to, from, frame, length))
                    && let Some(peer) = self.peers.get_mut(&node)
                {
                    peer.session.taken(channel, length);
                }
            }
            Arrival::Message(Between::Died(death)) if death.peer.node() != node => {}
            Arrival::Message(Between::Died(death)) => self.on_died_there(body, death),
            Arrival::Message(message) => body.tell_hub(ToHub::Said { node, message }),
        }
    }

    /// True: it is kept.
    fn on_arrived(&mut self, body: &mut impl Body, here: ProcId, there: ProcId, frame: Frame, length: usize) -> bool {
        let (kind, request) = (frame.0.kind, frame.0.request);
        if self.dead.has(there) {
            return false;
        }
        if self.dead.has(here) {
            match kind {
                // It is not said in the name of the dead: who called hears of the death, and that this did not come before.
                CALL => body.tell_hub(ToHub::Said { node: there.node(), message: Between::Met { name: here } }),
                REPLY => self.salvage(body, here, there, frame),
                _ => {}
            }
            return false;
        }
        let link = self.links.entry((here, there)).or_default();
        match kind {
            REPLY => drop(link.under_way.remove(&request)),
            CALL => link.calls_came += 1,
            TAKE_BACK => {
                self.on_take_back(body, here, there, request);
                return false;
            }
            _ => {}
        }
        self.keep_or_write(body, here, there, frame, length)
    }

    /// True: it is kept.
    fn keep_or_write(
        &mut self,
        body: &mut impl Body,
        here: ProcId,
        there: ProcId,
        frame: Frame,
        length: usize,
    ) -> bool {
        let serial = self.next_serial();
        let link = self.links.entry((here, there)).or_default();
        let refused = if link.is_linked && link.held.is_empty() { body.write(here, there, frame) } else { Some(frame) };
        let Some(frame) = refused else { return false };
        link.held.push_back(Held { serial, frame, length });
        if !link.is_linked && !std::mem::replace(&mut link.is_wanted, true) {
            body.tell_hub(ToHub::WantLink { here, there });
        }
        true
    }

    /// A caller there wants its call back.
    fn on_take_back(&mut self, body: &mut impl Body, here: ProcId, there: ProcId, request: u64) {
        let is_it = |held: &Held| held.frame.0.kind == CALL && held.frame.0.request == request;
        let held = self.links.get_mut(&(here, there)).and_then(|link| {
            let at = link.held.iter().position(is_it)?;
            link.held.remove(at)
        });
        let is_taken = match &held {
            Some(held) => {
                self.let_go_of(here, there, held.length);
                true
            }
            None => body.take_back(here, there, request),
        };
        if is_taken {
            self.send_frame(here, there, &given_back(request));
        }
        // Somebody may wait for what was held.
        self.look_at_positions(body);
    }

    /// Nobody will read it. What came of a call goes to the heir of who called; a call goes back.
    pub(crate) fn on_unread(&mut self, body: &mut impl Body, here: ProcId, there: ProcId, frame: Frame) {
        match frame.0.kind {
            CALL => self.send_frame(here, there, &unstarted(frame.0.request)),
            REPLY => self.salvage(body, here, there, frame),
            _ => {}
        }
    }

    /// Says something to a process, wherever it is, in the name of one there.
    pub(crate) fn letter(&self, body: &mut impl Body, sender: ProcId, to: ProcId, message: Peer) {
        let message = Between::Letter { sender, to, message };
        body.tell_hub(ToHub::Said { node: sender.node(), message });
    }
}
