//! HOT: reads what came in, replies and calls alike, and lets the owner decide.

use model::{Bulk, Failure, ObjectId, ProcId, TaskKey};
use owner::{Kept, Packed, Slot, Value};
use smallvec::SmallVec;
use wire::frame::{self, CALL, CONSUMED, DEFINE, GIFT, GIVEN_BACK, Header, ITEM, REPLY};
use wire::peer::Peer;
use wire::{Malformed, Reader};

use crate::effects::failed;
use crate::execute::Incoming;
use crate::link::{Fate, Link};
use crate::stages::Stage;
use crate::state::State;
use crate::{Runtime, value};

/// Who sent something that gives references away, and what it knew.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) by: ProcId,
    /// How many processes that left something it knew to be dead.
    pub(crate) known: u16,
    /// It was meant for a process whose heir we are: references were registered for that one.
    pub(crate) is_to_the_dead: bool,
}

impl Sent {
    #[inline]
    pub(crate) fn now(by: ProcId, known: u16) -> Self {
        Self { by, known, is_to_the_dead: false }
    }
}

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
            state.owner.on_handle_dropped(slot, &mut state.effects);
        }
        // Rare, and to look for one costs a fence.
        if !self.dropped_streams.is_empty() {
            while let Some(stream) = self.dropped_streams.pop() {
                state.owner.on_stream_dropped(stream, &mut state.effects);
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
            state.gifts.on_came(peer);
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
            CALL => self.on_call(state, at, header, body),
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

    fn on_call(&self, state: &mut State, at: usize, header: Header, body: Vec<u8>) -> Result<(), Malformed> {
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
            is_claimed: false,
        };
        if state.blocked > 0 && !state.is_actor {
            self.give_back(state, &incoming);
        } else {
            // A thread that takes calls may be about to sleep, while another one has taken the bell's bit: it must look.
            state.called.push(incoming.template.group);
            state.incoming.push(incoming);
        }
        Ok(())
    }

    /// Gives a call back that has not started, because this worker waits for something.
    pub(crate) fn give_back(&self, state: &mut State, incoming: &Incoming) {
        let Some((at, link)) = state.links.to(incoming.peer) else {
            if let Some(heir) = state.heirs.get(incoming.peer) {
                let (caller, request) = (incoming.peer, incoming.request);
                let known = state.heirs.known();
                self.relay(heir, Peer::Reply { caller, request, flags: GIVEN_BACK, known, body: Vec::new() });
            }
            return;
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
        if let Some(owner::Stage::Under { worker, ticket }) = state.owner.task(key).map(|task| task.stage)
            && worker == peer
        {
            link.on_answered(ticket);
        }
        self.take_reply(state, key, Sent::now(peer, header.claim), header.flags, body)
    }

    /// What came of a call, wherever it was sent from.
    #[inline]
    pub(crate) fn take_reply(
        &self,
        state: &mut State,
        key: TaskKey,
        sent: Sent,
        flags: u8,
        body: &[u8],
    ) -> Result<(), Malformed> {
        let peer = sent.by;
        let now = net::clock::now();
        if flags & GIVEN_BACK != 0 {
            state.owner.on_given_back(now, key, peer, &mut state.effects);
            return Ok(());
        }
        let mut reader = Reader::new(body);
        let count = reader.u32()?;
        let mut reply = SmallVec::new();
        for _ in 0..count {
            reply.push(self.read_value(state, sent, &mut reader)?);
        }
        // References that the worker, or one that it passed them on to, keeps beyond the call: before our own hold on them ends.
        while !reader.rest().is_empty() {
            let (id, owner) = (ObjectId(reader.array()?), ProcId::from_u64(reader.u64()?));
            let borrower = ProcId::from_u64(reader.u64()?);
            self.note_kept(state, sent.known, Kept { id, owner, borrower });
        }
        if let [(Value::Failed(failure), _)] = &reply[..]
            && let Failure::ArgumentLost(why) = &**failure
        {
            state.owner.on_argument_lost(now, key, peer, why, &mut state.effects);
        } else {
            state.owner.on_replied(now, key, peer, reply, &mut state.effects);
        }
        Ok(())
    }

    pub(crate) fn read_value(
        &self,
        state: &mut State,
        sent: Sent,
        reader: &mut Reader<'_>,
    ) -> Result<(Value, SmallVec<[Slot; 0]>), Malformed> {
        let from = sent.by;
        Ok(match frame::Value::read(reader)? {
            frame::Value::Inline(bytes) => {
                let contains = self.take_contained(state, sent, value::refs_of(bytes));
                (Value::Inline(Packed::from(bytes)), contains)
            }
            frame::Value::Bulk(Bulk::Filed(filed)) => match self.files.take_over(filed) {
                Ok(filed) => {
                    let bulk = Bulk::Filed(filed);
                    state.hold_file(bulk);
                    let contains = self.take_contained(state, sent, self.refs_in(bulk));
                    (Value::bulk(bulk), contains)
                }
                Err(error) => (failed(Failure::Lost(error.to_string().into())), SmallVec::new()),
            },
            frame::Value::Bulk(bulk @ Bulk::Stored(place)) => {
                // The pin keeps the bytes even if the process that wrote them dies.
                match self.store.pin_to_keep(place) {
                    Ok(view) => {
                        let contains = self.take_contained(state, sent, value::refs_of(view.as_slice()));
                        state.stored_elsewhere.insert(place.offset, (from, view));
                        (Value::bulk(bulk), contains)
                    }
                    Err(error @ store::Error::PinsFull { .. }) => {
                        let view = self.store.pin(place).map_err(|_| Malformed("place"))?;
                        let contains = self.take_contained(state, sent, value::refs_of(view.as_slice()));
                        self.relay(from, wire::peer::Peer::FreePlace(place));
                        (failed(Failure::StoreFull(error.to_string().into())), contains)
                    }
                    Err(_) => return Err(Malformed("place")),
                }
            }
            frame::Value::Raised { error, retry } => {
                let contains = self.take_contained(state, sent, value::refs_of(error));
                let error = error.into();
                (failed(if retry { Failure::Retryable(error) } else { Failure::Raised(error) }), contains)
            }
            frame::Value::Failed(bytes) => (failed(wire::decode(bytes)?), SmallVec::new()),
        })
    }

    /// References inside a value that is ours from now on; whoever sent it has registered a share of each for us.
    pub(crate) fn take_contained(
        &self,
        state: &mut State,
        sent: Sent,
        refs: Vec<(ObjectId, ProcId)>,
    ) -> SmallVec<[Slot; 0]> {
        refs.into_iter()
            .map(|(id, owner)| {
                let living = state.heirs.living(owner);
                // What was registered for a dead process its owner tells the heir of.
                let shares = i32::from(!sent.is_to_the_dead);
                let slot = state.owner.on_contained(id, (living != self.me).then_some(living), shares);
                // We may know it under the name of an owner that the sender knew to be dead.
                match state.owner.object(slot).and_then(|object| object.owner) {
                    _ if sent.is_to_the_dead => {}
                    Some(named) => self.note_share(state, (id, named), owner, sent.known),
                    None if state.heirs.is_outdated(owner, sent.known) => {}
                    None => state.owner.on_shares(&id, self.me, -1, &mut state.effects),
                }
                if living != self.me {
                    self.refresh(state, slot);
                }
                slot
            })
            .collect()
    }

    /// A peer is gone: everything it published is taken first, then its calls are lost.
    ///
    /// `heir`: who takes over what it has left.
    pub(crate) fn on_peer_died(&self, state: &mut State, peer: ProcId, exit: model::WorkerExit, heir: Option<ProcId>) {
        if let Some(at) = state.links.place_of(peer) {
            self.drain_link(state, at);
            self.apply(state);
        }
        match heir {
            Some(_) => self.claim_calls(state, peer),
            None => state.incoming.retain(|incoming| incoming.peer != peer),
        }
        self.giver_died(state, peer);
        self.reader_died(state, peer, &exit);
        state.dead.insert(peer);
        state.links.take_waiting(peer);
        if let Some(mut link) = state.links.take(peer) {
            if let Some(heir) = heir {
                self.salvage(&mut link, heir);
            }
            link.bury(&self.store);
            self.tell_owners(state, &link.take_untold().collect::<Vec<_>>());
            let started = |ticket| link.fate(ticket).may_have_run();
            state.owner.on_worker_died(peer, &exit, started, &mut state.effects);
            self.send(&wire::control::ToNode::LinkClosed { peer });
        } else {
            // It may have had a lease or an actor of ours, and no link since all was quiet.
            let started = |ticket| Fate::without_link(ticket).may_have_run();
            state.owner.on_worker_died(peer, &exit, started, &mut state.effects);
        }
        match heir {
            // What it had borrowed is held until all is settled.
            Some(heir) if heir == self.me => self.free_given(state, peer),
            Some(heir) => self.testify(state, peer, heir),
            None => {
                state.owner.on_process_gone(peer, &mut state.effects);
                self.free_given(state, peer);
            }
        }
        if self.is_keeper {
            self.witness_died(state, peer);
        }
        self.apply(state);
    }
}
