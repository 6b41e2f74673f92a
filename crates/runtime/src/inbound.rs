//! HOT: reads what came in, replies and calls alike, and lets the owner decide.

use model::{ProcId, TaskKey};
use party::{Call, Sent, view};
use wire::frame::{self, CALL, CONSUMED, DEFINE, GIFT, Header, ITEM, REPLY};
use wire::{Malformed, Reader};

use crate::Runtime;
use crate::execute::Incoming;
use crate::link::Link;
use crate::stages::Stage;
use crate::state::State;

impl Runtime {
    /// Drains every ring that has frames, and handles whatever handles Python dropped.
    pub(crate) fn drain(&self, state: &mut State) {
        self.drains.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.take_dropped(state);
        if self.bell.is_ready() {
            self.bell.take_ready(|bit| {
                if let Some(at) = state.links.ringing(bit) {
                    self.drain_link(state, at);
                }
            });
        }
        if self.has_stalled.load(std::sync::atomic::Ordering::Relaxed) {
            self.push_all_stalled(state);
        }
        self.apply(state);
    }

    pub(crate) fn take_dropped(&self, state: &mut State) {
        while let Some(slot) = self.dropped.pop() {
            state.party.owner.on_handle_dropped(slot, &mut state.party.effects);
        }
        // Rare, and to look for one costs a fence.
        if !self.dropped_streams.is_empty() {
            while let Some(stream) = self.dropped_streams.pop() {
                state.party.owner.on_stream_dropped(stream, &mut state.party.effects);
            }
        }
    }

    pub(crate) fn drain_link(&self, state: &mut State, at: usize) {
        loop {
            let mut body = state.body();
            let Some(link) = state.links.at(at) else { return };
            let (peer, received) = (link.peer(), link.receive(&self.store, &mut body));
            let header = match received {
                Ok(Some(header)) => header,
                Ok(None) => {
                    state.recycle(body);
                    break;
                }
                Err(_) => return self.peer_broke(state, peer),
            };
            if self.on_frame(state, at, header, body).is_err() {
                return self.peer_broke(state, peer);
            }
        }
        if state.links.at(at).is_some_and(|link| link.is_stalled()) {
            self.push_stalled(state, at);
        }
    }

    /// What lies in a ring is nonsense: the peer failed, and is ended as if it had died.
    #[cold]
    fn peer_broke(&self, state: &mut State, peer: ProcId) {
        if let Some((_, link)) = state.links.to(peer) {
            link.kill();
        }
        self.send(&wire::control::ToNode::KillWorker { worker: peer });
    }

    #[inline]
    fn on_frame(&self, state: &mut State, at: usize, header: Header, body: Vec<u8>) -> Result<(), Malformed> {
        if header.flags & GIFT != 0 {
            let peer = state.links.at(at).ok_or(Malformed("link"))?.peer();
            state.party.on_gift_came(peer);
        }
        match header.kind {
            REPLY => {
                let result = self.on_reply(state, at, header, &body);
                state.recycle(body);
                result
            }
            ITEM => {
                let result = self.on_item(state, at, header, &body);
                state.recycle(body);
                result
            }
            CALL => self.on_call(state, at, header, body, false),
            CONSUMED => self.on_consumed(state, at, header, &body),
            DEFINE => {
                let mut reader = Reader::new(&body);
                let number = reader.u32()?;
                let template = wire::decode(reader.rest())?;
                let link = state.links.at(at).ok_or(Malformed("link"))?;
                link.define(number, template)
            }
            _ => Err(Malformed("kind")),
        }
    }

    /// `is_claimed`: who called cannot take it back, and no claim word is its.
    fn on_call(
        &self,
        state: &mut State,
        at: usize,
        header: Header,
        body: Vec<u8>,
        is_claimed: bool,
    ) -> Result<(), Malformed> {
        let mut reader = Reader::new(&body);
        let call = frame::Call::read(&mut reader)?;
        let link = state.links.at(at).ok_or(Malformed("link"))?;
        let template = link.template(call.template)?;
        let incoming = Incoming {
            peer: link.peer(),
            request: header.request,
            claim: Link::claim_of(&header, &call),
            task: call.task,
            template,
            payload: frame::Call::PAYLOAD_AT..frame::Call::PAYLOAD_AT + call.payload.len(),
            body,
            arrived: Stage::clock(),
            consumed: 0,
            is_claimed,
        };
        if state.blocked > 0 && !state.is_actor {
            self.give_back(state, &incoming);
        } else {
            // A thread that takes calls may be about to sleep, while another one has taken the bell's bit: it must look.
            state.news.note_call(incoming.template.group);
            state.serving.push(incoming);
        }
        Ok(())
    }

    /// Gives a call back that has not started, because this worker waits for something.
    pub(crate) fn give_back(&self, state: &mut State, incoming: &Incoming) {
        let Some((at, link)) = state.links.to(incoming.peer) else {
            let call = Call { caller: incoming.peer, request: incoming.request };
            let (party, mut hands) = self.parts(state);
            return party.give_back_to_heir(&mut hands, call);
        };
        if !link.start(incoming.claim) {
            return;
        }
        link.give_back(&self.store, incoming.request);
        if link.owes_words() {
            state.links.note_stalled(at);
            self.has_stalled.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        state.links.note_unrung(at);
    }

    #[inline]
    fn on_reply(&self, state: &mut State, at: usize, header: Header, body: &[u8]) -> Result<(), Malformed> {
        let key = TaskKey(header.request);
        let link = state.links.at(at).ok_or(Malformed("link"))?;
        let peer = link.peer();
        // The claim is free again, whatever becomes of the reply: the worker has answered this call.
        if let Some(owner::Stage::Under { worker, ticket }) = state.party.owner.task(key).map(|task| task.stage)
            && worker == peer
        {
            link.on_answered(ticket);
        }
        let (party, mut hands) = self.parts(state);
        let (knew, body) = party.read_known(peer, &header, body)?;
        party.take_reply(&mut hands, key, Sent::now(peer, view(&knew)), header.flags, body)
    }

    /// The last that a dead process of another node wrote to us.
    pub(crate) fn on_last_frames(&self, state: &mut State, peer: ProcId, frames: Vec<(Header, Vec<u8>)>) {
        let Some(at) = state.links.place_of(peer) else { return };
        self.drain_link(state, at);
        for (header, body) in frames {
            let taken = match header.kind {
                CALL => self.on_call(state, at, header, body, true),
                _ => self.on_frame(state, at, header, body),
            };
            if taken.is_err() {
                return self.peer_broke(state, peer);
            }
        }
    }

    /// A peer is gone: everything it published is taken first, then its calls are lost.
    ///
    /// `heir`: who takes over what it has left.
    ///
    /// tour(retry) 4: the caller first takes all that the dead one had published: a reply that came is a reply.
    pub(crate) fn on_peer_died(&self, state: &mut State, peer: ProcId, exit: &model::WorkerExit, heir: Option<ProcId>) {
        if let Some(at) = state.links.place_of(peer) {
            self.drain_link(state, at);
            self.apply(state);
        }
        let (party, mut hands) = self.parts(state);
        party.on_peer_died(&mut hands, peer, exit, heir);
        self.apply(state);
    }
}
