//! HOT: generators. The worker's side sends each value as it is yielded and waits where its reader is too far behind; the caller's side
//! takes them up and reads them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use model::{ObjectId, ProcId, TaskKey, Yields};
use owner::{Next, Slot, StreamKey};
use wire::frame::{Header, ITEM};
use wire::waits::{Awaited, Verb};
use wire::{Malformed, Reader};

use crate::effects::ticket_of;
use crate::execute::CallHandle;
use crate::link::WriteError;
use crate::serving::{ReaderEnd, Readership};
use crate::state::State;
use crate::{Error, Interrupts, Runtime, Wait, Waited};
use party::{Cargo, Party, Sent, view};

/// Whether a generator that has yielded a value goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// It does.
    Wanted,
    /// Its reader is too far behind.
    Full,
    /// The call was cancelled.
    Cancelled,
    /// Whoever called is dead, and not by its own will.
    Orphaned,
}

/// An item that found no room, to be sent by `item_slowly`.
#[must_use = "the next item must not overtake it"]
pub struct UnsentItem {
    why: WriteError,
    cargo: Cargo,
    /// Keep the references in it until it has gone.
    held: Vec<Slot>,
}

fn item_header(handle: &CallHandle) -> Header {
    Header { length: 0, kind: ITEM, flags: 0, claim: 0, request: handle.request }
}

impl Runtime {
    /// Sends one value that a call yields; `body` is that value as it lies in a frame.
    ///
    /// # Errors
    /// If there is no room: `item_slowly` sends it.
    #[inline]
    pub fn item(&self, handle: CallHandle, body: &[u8]) -> Result<(), UnsentItem> {
        let mut state = self.state.lock().expect("never poisoned");
        if state.links.to(handle.peer).is_none_or(|(_, link)| link.is_dead()) {
            party::discard(&mut self.parts(&mut state).1, body);
            return Ok(());
        }
        let (party, mut hands) = self.parts(&mut state);
        let cargo = Cargo::of(&mut hands, body);
        let written = party.write_values(&mut hands, handle.peer, item_header(&handle), body, &cargo);
        let unsent = written.map_err(|why| {
            let mut held = party.hold_ours(&cargo);
            held.extend(party.hold_others(&mut hands, &cargo));
            UnsentItem { why, cargo, held }
        });
        if state.party.effects.is_empty() {
            self.ring_bells(&mut state);
        } else {
            self.apply(&mut state);
        }
        unsent
    }

    /// Sends an item as soon as there is room in the ring and in the arena. Waits, so it must not be called with the interpreter's lock
    /// held.
    ///
    /// # Errors
    /// If the store has no room for it, or the node is gone.
    pub fn item_slowly(&self, handle: CallHandle, body: &[u8], unsent: UnsentItem) -> Result<(), Error> {
        let UnsentItem { mut why, cargo, held } = unsent;
        loop {
            let room = match why {
                WriteError::Busy => {
                    std::thread::sleep(Duration::from_micros(50));
                    Ok(())
                }
                WriteError::NeedExtent(length) => self.reserve(length).map(drop),
            };
            let mut state = self.state.lock().expect("never poisoned");
            self.drain(&mut state);
            let is_gone = !state.links.to(handle.peer).is_some_and(|(_, link)| !link.is_dead() && link.peer_is_alive());
            if is_gone || room.is_err() {
                party::discard(&mut self.parts(&mut state).1, body);
                state.party.let_go(held);
                self.apply(&mut state);
                return if is_gone { Ok(()) } else { room };
            }
            let (party, mut hands) = self.parts(&mut state);
            match party.write_values(&mut hands, handle.peer, item_header(&handle), body, &cargo) {
                Ok(()) => {
                    party.let_go(held);
                    self.drain(&mut state);
                    return Ok(());
                }
                Err(still) => {
                    self.ring_bells(&mut state);
                    why = still;
                }
            }
        }
    }

    /// Whether a generator that has yielded `yielded` values goes on now.
    #[must_use]
    #[inline]
    pub fn demand(&self, handle: &CallHandle, yields: Yields, yielded: u32) -> Demand {
        if self.is_interrupted(&handle.task) {
            return Demand::Cancelled;
        }
        let ahead_max = match yields {
            Yields::Stream { ahead_max } if ahead_max > 0 => ahead_max,
            _ => u32::MAX,
        };
        let mut state = self.state.lock().expect("never poisoned");
        let together_max = self.actor_ahead_max.load(Ordering::Relaxed);
        let is_full = together_max > 0 && state.serving.ahead_together(handle, yielded) >= together_max;
        match state.serving.readership(handle) {
            Some(Readership { end: Some(ReaderEnd::Lost), .. }) => Demand::Orphaned,
            Some(Readership { consumed, end: None, .. }) => {
                let ahead = yielded.saturating_sub(*consumed);
                // One whose values were all read goes on: whoever reads it may read the others only afterwards.
                if ahead >= ahead_max || (is_full && ahead > 0) { Demand::Full } else { Demand::Wanted }
            }
            _ => Demand::Wanted,
        }
    }

    /// All generators of this actor together may be so many values ahead of who reads them.
    pub fn set_actor_ahead_max(&self, most: u32) {
        self.actor_ahead_max.store(most, Ordering::Relaxed);
    }

    /// Whether somebody reads what this call yields.
    #[must_use]
    pub fn is_read(&self, handle: &CallHandle) -> bool {
        let state = self.state.lock().expect("never poisoned");
        let readership = state.serving.readership(handle);
        readership.is_some_and(|readership| readership.consumed != u32::MAX && readership.end.is_none())
    }

    /// Waits until the generator may go on, or has to end. Must not be called with the interpreter's lock held.
    ///
    /// # Errors
    /// If it was interrupted or the node is gone.
    pub fn await_demand(
        &self,
        handle: &CallHandle,
        yields: Yields,
        yielded: u32,
        interrupts: &mut dyn Interrupts,
    ) -> Result<Demand, Error> {
        let what = || Awaited::Reader(yielded);
        let wait = Wait { deadline_ns: None, in_task: true, explain: Some((Verb::Yield, &what)), ..Wait::default() };
        let waited = self.wait_until(&wait, interrupts, || self.demand(handle, yields, yielded) != Demand::Full)?;
        debug_assert_eq!(waited, Waited::Done, "it waits without a limit");
        Ok(self.demand(handle, yields, yielded))
    }

    /// The caller says how far the reader of a generator's items is.
    pub(crate) fn on_consumed(
        &self,
        state: &mut State,
        at: usize,
        header: Header,
        body: &[u8],
    ) -> Result<(), Malformed> {
        let count = Reader::new(body).u32()?;
        let peer = state.links.at(at).ok_or(Malformed("link"))?.peer();
        if state.serving.on_consumed(peer, header.request, count) {
            state.news.note();
            self.note_reader();
        }
        Ok(())
    }

    /// A worker yields a value.
    #[inline]
    pub(crate) fn on_item(&self, state: &mut State, at: usize, header: Header, body: &[u8]) -> Result<(), Malformed> {
        let peer = state.links.at(at).ok_or(Malformed("link"))?.peer();
        let (party, mut hands) = self.parts(state);
        let (knew, body) = party.read_known(peer, &header, body)?;
        party.take_item(&mut hands, TaskKey(header.request), Sent::now(peer, view(&knew)), body)
    }

    /// Tells a worker how many of its generator's items were read. One that has not got the call yet is told with it.
    pub(crate) fn tell_consumed(&self, state: &mut State, key: TaskKey, worker: ProcId, count: u32) {
        if ticket_of(state, key, worker).is_none_or(|ticket| ticket == 0) {
            return;
        }
        let Some((at, link)) = state.links.to(worker) else { return };
        link.tell_consumed(&self.store, key.0, count);
        let is_full = link.owes_words();
        state.links.note_unrung(at);
        if is_full {
            state.links.note_stalled(at);
            self.has_stalled.store(true, Ordering::Relaxed);
        }
    }

    /// Takes the next value of a stream.
    #[inline]
    pub fn next_item(&self, stream: StreamKey) -> Next {
        let mut state = self.state.lock().expect("never poisoned");
        let Party { owner, effects, .. } = &mut state.party;
        let mut next = owner.on_next(stream, effects);
        if let Next::Pending(_) = next {
            // It may have come.
            self.drain(&mut state);
            let Party { owner, effects, .. } = &mut state.party;
            next = owner.on_next(stream, effects);
        }
        if !state.party.effects.is_empty() {
            self.apply(&mut state);
        }
        next
    }

    /// The object that the stream's reader gets next, or that stands for the end; with a handle more.
    #[must_use]
    pub fn hold_front(&self, stream: StreamKey) -> Option<Slot> {
        let mut state = self.state.lock().expect("never poisoned");
        self.drain(&mut state);
        let slot = state.party.owner.stream_front(stream)?;
        state.party.owner.on_handle_added(slot);
        Some(slot)
    }

    /// What the stream's reader gets next, each with a handle more: as many as have come, but no more than `most`; and what comes behind
    /// them, or none if that is the end.
    #[must_use]
    pub fn hold_items(&self, stream: StreamKey, most: usize) -> (Vec<(Slot, ObjectId)>, Option<Slot>) {
        let mut state = self.state.lock().expect("never poisoned");
        self.drain(&mut state);
        let (slots, next) = state.party.owner.stream_items(stream, most);
        let hold = |slot: Slot| {
            state.party.owner.on_handle_added(slot);
            (slot, state.party.owner.object(slot).expect("held by the stream").id)
        };
        (slots.into_iter().map(hold).collect(), next)
    }

    /// Whether the stream has nothing more to read.
    #[must_use]
    pub fn is_stream_over(&self, stream: StreamKey) -> bool {
        let mut state = self.state.lock().expect("never poisoned");
        self.drain(&mut state);
        state.party.owner.is_stream_over(stream)
    }

    /// A value that a call yielded, which belongs to its caller: adds a handle. The caller holds it until the reply.
    pub fn borrow_item(&self, id: ObjectId, caller: ProcId) -> Slot {
        if caller == self.me {
            // It may still lie in the ring.
            self.enter();
        }
        self.borrow_ref(id, caller, 0)
    }

    /// Nobody reads the stream any more. Never blocks, as `drop_handle`.
    pub fn drop_stream(&self, stream: StreamKey) {
        self.dropped_streams.push(stream);
        self.pump.unpark();
    }
}
