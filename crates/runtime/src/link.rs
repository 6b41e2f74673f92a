//! HOT: one peer of this process. What lies behind it is nobody else's business: rings, claim words and places in the arena stay in here.
//!
//! Whoever uses a link sends and receives frames, takes a call back, asks what became of a call, and how far the peer has read. A peer on
//! another machine would be another kind of link with the same answers.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{ProcId, TaskId, TaskKey, Template};
use net::{Bell, Duplex, Segment, Word};
use rustc_hash::FxHashMap;
use store::Place;
use wire::control::{Quiet, Rings};
use wire::frame::{self, ASIDE, CALL, CONSUMED, DEFINE, FRAME_BYTES_MAX, GIVEN_BACK, Header, REPLY, TAKE_BACK};
use wire::{Malformed, Reader};

/// Templates that each side of a ring keeps. A program that gives each call a name of its own would fill both with them: beyond this
/// many, numbering begins anew.
const TEMPLATES_MAX: usize = 4096;

pub(crate) struct Link {
    peer: ProcId,
    in_bit: u16,
    out_bit: u16,
    rings: Duplex,
    bell: Bell,
    /// Numbers that we gave to templates on this ring, by address. The templates are kept, so that an address means one for good.
    numbers: FxHashMap<usize, u32>,
    /// The same by content: a program may make equal ones again and again.
    kept: FxHashMap<Arc<Template>, u32>,
    /// Templates that the peer numbered.
    theirs: Vec<Arc<Template>>,
    /// Calls that found the ring full or no room in the arena, in order: none overtakes the first of them.
    stalled: VecDeque<TaskKey>,
    /// The first of them waits for so much room in the arena.
    needs_room: Option<u64>,
    /// Calls of the peer's that go back to it and found the ring full, by request.
    going_back: VecDeque<u64>,
    /// How far the readers of the peer's generators are, where the ring was full: request and count.
    consumed: VecDeque<(u64, u32)>,
    /// Bodies in the arena that the peer may not have read yet, in order, and how many it had read before these.
    aside: VecDeque<Place>,
    aside_freed: u64,
    /// Calls of ours that we want back from another node, by request: whoever has them is asked.
    wanted_back: VecDeque<u64>,
    /// Something was written since the bell was rung.
    unrung: bool,
    gate: Gate,
}

/// Whether calls are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// We said that nothing is under way, and the node has not said yet whether the link is closed: calls wait in `stalled`.
    Held,
    /// The peer broke the ring or died: nothing goes there any more.
    Dead,
}

/// Whether a call may go out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    /// It is in the queue.
    Waits,
    /// Nothing goes there any more.
    Never,
}

/// What came of taking a call back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeBack {
    /// It will never run there (CLAIM-1).
    Taken,
    /// It has started, or nobody can know: it will be answered.
    Refused,
}

/// What is known of a call that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Started,
    /// CLAIM-2: it has not, and if the peer is dead it never did.
    NotStarted,
    /// It went without a claim word, or its owner before us had sent it.
    Unknown,
}

impl Fate {
    /// What is known of a call to a process that we have no link to.
    pub(crate) fn without_link(ticket: u64) -> Self {
        if ticket == owner::ADOPTED { Self::Unknown } else { Self::NotStarted }
    }

    /// After the peer's death: whether to run it again costs a retry.
    pub(crate) fn may_have_run(self) -> bool {
        self != Self::NotStarted
    }
}

/// The peer's right to take back a call that it has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    index: u16,
    word: Word,
}

/// A call to be sent.
pub(crate) struct Outgoing<'a> {
    /// The owner's name for it; the reply repeats it.
    pub(crate) key: TaskKey,
    pub(crate) task: TaskId,
    pub(crate) template: &'a Arc<Template>,
    pub(crate) payload: &'a [u8],
    /// It may go without a claim word, if all are in use.
    pub(crate) may_go_unclaimed: bool,
}

impl Link {
    /// `bell`: what wakes the peer, or the carrier that stands for it.
    pub(crate) fn new(segment: &Arc<Segment>, bell: Bell, peer: ProcId, rings: Rings) -> Self {
        Self {
            peer,
            in_bit: rings.in_bit,
            out_bit: rings.out_bit,
            rings: segment.duplex(rings.out, rings.inward),
            bell,
            numbers: FxHashMap::default(),
            kept: FxHashMap::default(),
            theirs: Vec::new(),
            stalled: VecDeque::new(),
            needs_room: None,
            going_back: VecDeque::new(),
            consumed: VecDeque::new(),
            aside: VecDeque::new(),
            aside_freed: 0,
            wanted_back: VecDeque::new(),
            unrung: false,
            gate: Gate::Open,
        }
    }

    #[inline]
    pub(crate) fn peer(&self) -> ProcId {
        self.peer
    }

    /// The bit by which the peer says that it has written.
    pub(crate) fn in_bit(&self) -> u16 {
        self.in_bit
    }

    pub(crate) fn peer_is_alive(&self) -> bool {
        self.bell.is_alive()
    }

    /// Whether nothing goes to the peer any more.
    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.gate == Gate::Dead
    }

    /// The peer broke the ring or died, or the link is closed: nothing goes there any more.
    pub(crate) fn kill(&mut self) {
        self.gate = Gate::Dead;
    }

    /// The peer has died or read everything: bodies in the arena that were for it are free.
    pub(crate) fn bury(&mut self, store: &store::Client) {
        self.gate = Gate::Dead;
        self.free_aside(store);
    }

    /// LINK-2: sends no calls until `reopen`.
    pub(crate) fn hold(&mut self) {
        self.gate = Gate::Held;
    }

    /// The link stays. True if calls have waited for that.
    pub(crate) fn reopen(&mut self) -> bool {
        if self.gate != Gate::Held {
            return false;
        }
        self.gate = Gate::Open;
        !self.stalled.is_empty()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.gate == Gate::Held
    }

    /// How far both ends are, if nothing is under way as far as we know, and calls may be sent.
    pub(crate) fn quiet(&self) -> Option<Quiet> {
        let is_idle = self.gate == Gate::Open && !self.is_stalled() && !self.is_in_use();
        is_idle.then(|| Quiet { written: self.rings.writer.written(), read: self.rings.reader.read() })
    }

    /// Whether a call of ours is under way, or something has come that was not received.
    pub(crate) fn is_in_use(&self) -> bool {
        self.rings.claims.in_use() > 0 || self.rings.reader.has_frame()
    }

    /// A call wants to go out. If others wait before it, it waits behind them.
    #[inline]
    pub(crate) fn turn_of(&mut self, key: TaskKey) -> Turn {
        match self.gate {
            Gate::Open if self.stalled.is_empty() => Turn::Now,
            Gate::Open | Gate::Held => {
                self.stalled.push_back(key);
                Turn::Waits
            }
            Gate::Dead => Turn::Never,
        }
    }

    /// The call whose turn it is among those that wait, if it may be tried now.
    pub(crate) fn next_stalled(&self) -> Option<TaskKey> {
        let may_go = self.gate == Gate::Open && self.needs_room.is_none();
        self.stalled.front().filter(|_| may_go).copied()
    }

    /// A call found no room: it waits, and all others behind it. `needs_room`: for so much in the arena.
    pub(crate) fn stall(&mut self, key: TaskKey, needs_room: Option<u64>) {
        if self.stalled.front() != Some(&key) {
            self.stalled.push_back(key);
        }
        self.needs_room = needs_room;
    }

    /// The first of those that wait does not any more.
    pub(crate) fn unstall(&mut self) -> Option<TaskKey> {
        self.stalled.pop_front()
    }

    /// Takes a call out of the queue; false if it is not there.
    pub(crate) fn forget(&mut self, key: TaskKey) -> bool {
        if self.stalled.front() == Some(&key) {
            self.needs_room = None;
        }
        let before = self.stalled.len();
        self.stalled.retain(|waiting| *waiting != key);
        self.stalled.len() < before
    }

    /// All that wait, in order.
    pub(crate) fn take_stalled(&mut self) -> VecDeque<TaskKey> {
        std::mem::take(&mut self.stalled)
    }

    /// There is room in the arena again, or none of `refused` bytes. True if that is what the first call has waited for.
    pub(crate) fn on_room(&mut self, refused: Option<u64>) -> bool {
        let is_it = self.needs_room.is_some_and(|length| refused.is_none_or(|refused| refused == length));
        if is_it {
            self.needs_room = None;
        }
        is_it
    }

    /// Sends a call; `write_arguments` appends its values to the frame. Returns the ticket by which it is asked for.
    #[inline]
    pub(crate) fn send_call(
        &mut self,
        store: &store::Client,
        scratch: &mut Vec<u8>,
        call: &Outgoing<'_>,
        write_arguments: impl FnOnce(&mut Vec<u8>),
    ) -> Result<u64, WriteError> {
        let number = self.number_of(store, call.template)?;
        let (index, word) = match self.rings.claims.give() {
            Some(claim) => claim,
            None if call.may_go_unclaimed => self.rings.claims.give_none(),
            None => return Err(WriteError::Busy),
        };
        scratch.clear();
        frame::Call { claim_word: word.0, template: number, task: call.task, payload: call.payload }.write(scratch);
        write_arguments(scratch);
        let header = Header { length: 0, kind: CALL, flags: 0, claim: index, request: call.key.0 };
        match self.write(store, header, &[scratch]) {
            Ok(()) => Ok(ticket(index, word)),
            Err(error) => {
                self.rings.claims.release(index);
                Err(error)
            }
        }
    }

    /// Takes a call of ours back, if it has not started.
    pub(crate) fn take_back(&mut self, ticket: u64) -> TakeBack {
        let (index, word) = split_ticket(ticket);
        if !self.rings.claims.take_back(index, word) {
            return TakeBack::Refused;
        }
        self.rings.claims.release(index);
        TakeBack::Taken
    }

    /// Asks for a call of ours that was sent to another node. If it comes back it comes as one that its worker has given back.
    pub(crate) fn want_back(&mut self, store: &store::Client, request: u64) {
        if self.bell.is_at_event() {
            self.wanted_back.push_back(request);
            self.send_back(store);
        }
    }

    /// What became of a call of ours.
    ///
    /// tour(retry) 6: whether a call had started stands in its claim word, which no death can change (CLAIM-2).
    pub(crate) fn fate(&self, ticket: u64) -> Fate {
        let (index, word) = split_ticket(ticket);
        match index {
            _ if ticket == 0 => Fate::NotStarted,
            net::UNCLAIMED => Fate::Unknown,
            _ if self.rings.claims.has_started(index, word) => Fate::Started,
            _ => Fate::NotStarted,
        }
    }

    /// The peer has answered a call of ours.
    #[inline]
    pub(crate) fn on_answered(&mut self, ticket: u64) {
        if ticket != 0 && ticket != owner::ADOPTED {
            self.rings.claims.release(split_ticket(ticket).0);
        }
    }

    /// Starts a call of the peer's. False: it has taken it back.
    #[inline]
    pub(crate) fn start(&self, claim: Claim) -> bool {
        self.rings.their_claims.start(claim.index, claim.word)
    }

    /// The next frame from the peer, its body wherever it lies.
    #[inline]
    pub(crate) fn receive(&mut self, store: &store::Client, body: &mut Vec<u8>) -> Result<Option<Header>, Malformed> {
        let header = self.rings.reader.pop(body).map_err(|broken| Malformed(broken.0))?;
        if header.is_some_and(|header| header.flags & ASIDE != 0) {
            self.fetch_aside(store, body)?;
        }
        Ok(header)
    }

    #[cold]
    fn fetch_aside(&mut self, store: &store::Client, body: &mut Vec<u8>) -> Result<(), Malformed> {
        let place = frame::read_place(&mut Reader::new(body))?;
        let view = store.pin(place).map_err(|_| Malformed("place"))?;
        body.clear();
        body.extend_from_slice(view.as_slice());
        self.rings.reader.took_aside();
        Ok(())
    }

    /// What a call's frame says of how it may be taken back.
    #[inline]
    pub(crate) fn claim_of(header: &Header, call: &frame::Call<'_>) -> Claim {
        Claim { index: header.claim, word: Word(call.claim_word) }
    }

    /// The template that the peer gave this number.
    #[inline]
    pub(crate) fn template(&self, number: u32) -> Result<Arc<Template>, Malformed> {
        self.theirs.get(number as usize).cloned().ok_or(Malformed("template"))
    }

    /// The peer is dead: the frames that it has not read, and never will, without those whose bodies are gone.
    pub(crate) fn unread(&self, store: &store::Client) -> Vec<(Header, Vec<u8>)> {
        let fetch = |(mut header, mut body): (Header, Vec<u8>)| {
            if header.flags & ASIDE != 0 {
                let place = frame::read_place(&mut Reader::new(&body)).ok()?;
                body = store.pin(place).ok()?.as_slice().to_vec();
                header.flags &= !ASIDE;
            }
            Some((header, body))
        };
        self.rings.writer.unread().into_iter().filter_map(fetch).collect()
    }

    /// The number of a template on this ring; the peer is told first if it is new.
    #[inline]
    fn number_of(&mut self, store: &store::Client, template: &Arc<Template>) -> Result<u32, WriteError> {
        let address = Arc::as_ptr(template) as usize;
        if let Some(number) = self.numbers.get(&address) {
            return Ok(*number);
        }
        self.number_of_new(store, template, address)
    }

    #[cold]
    fn number_of_new(
        &mut self,
        store: &store::Client,
        template: &Arc<Template>,
        address: usize,
    ) -> Result<u32, WriteError> {
        if let Some(number) = self.kept.get(template) {
            return Ok(*number);
        }
        let begins_anew = self.kept.len() >= TEMPLATES_MAX;
        let number = if begins_anew { 0 } else { self.kept.len() as u32 };
        let body = wire::encode(&**template);
        let header = Header { length: 0, kind: DEFINE, flags: 0, claim: 0, request: u64::from(number) };
        self.write(store, header, &[&number.to_le_bytes(), &body])?;
        if begins_anew {
            self.kept.clear();
            self.numbers.clear();
        }
        self.kept.insert(template.clone(), number);
        self.numbers.insert(address, number);
        Ok(number)
    }

    /// The peer numbered a template. Calls before this one have theirs by now, so the first number may begin a new count.
    pub(crate) fn define(&mut self, number: u32, template: Template) -> Result<(), Malformed> {
        if number == 0 {
            self.theirs.clear();
        }
        if number as usize != self.theirs.len() {
            return Err(Malformed("template number"));
        }
        self.theirs.push(Arc::new(template));
        Ok(())
    }

    /// Writes one frame. A body too large for the ring goes through the arena.
    #[inline]
    pub(crate) fn write(&mut self, store: &store::Client, header: Header, parts: &[&[u8]]) -> Result<(), WriteError> {
        self.write_after(store, header, parts, || ())
    }

    /// As `write`; `before` runs once it is certain that the frame will be written, and before the peer can read it.
    #[inline]
    pub(crate) fn write_after(
        &mut self,
        store: &store::Client,
        mut header: Header,
        parts: &[&[u8]],
        before: impl FnOnce(),
    ) -> Result<(), WriteError> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length <= FRAME_BYTES_MAX {
            header.length = length as u32;
            self.rings.writer.push_after(header, parts, before).map_err(|_| WriteError::Busy)?;
            self.unrung = true;
            return Ok(());
        }
        self.write_aside(store, header, parts, length, before)
    }

    #[cold]
    fn write_aside(
        &mut self,
        store: &store::Client,
        mut header: Header,
        parts: &[&[u8]],
        length: usize,
        before: impl FnOnce(),
    ) -> Result<(), WriteError> {
        self.free_aside(store);
        let mut block = store.reserve(length as u64).map_err(|need| WriteError::NeedExtent(need.length))?;
        let mut at = 0;
        for part in parts {
            block.as_mut_slice()[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        let place = block.seal();
        header.flags |= ASIDE;
        let mut body = Vec::with_capacity(24);
        wire::frame::write_place(place, &mut body);
        header.length = body.len() as u32;
        match self.rings.writer.push_after(header, &[&body], before) {
            Ok(()) => {
                self.aside.push_back(place);
                self.unrung = true;
                Ok(())
            }
            Err(_) => {
                crate::effects::free(store, place);
                Err(WriteError::Busy)
            }
        }
    }

    /// Frees the bodies in the arena that the peer has read.
    fn free_aside(&mut self, store: &store::Client) {
        let read = if self.gate == Gate::Dead { u64::MAX } else { self.rings.writer.aside_read() };
        while self.aside_freed < read
            && let Some(place) = self.aside.pop_front()
        {
            crate::effects::free(store, place);
            self.aside_freed += 1;
        }
    }

    /// Wakes the peer if anything was written since the last time.
    #[inline]
    pub(crate) fn ring(&mut self) {
        if self.unrung {
            self.unrung = false;
            self.bell.ring(self.out_bit);
        }
    }

    /// A call of the peer's, which we have started, goes back to it.
    pub(crate) fn give_back(&mut self, store: &store::Client, request: u64) {
        self.going_back.push_back(request);
        self.send_back(store);
    }

    /// Gives the peer's calls back, and says how far its generators' readers are, as far as there is room in the ring.
    pub(crate) fn send_back(&mut self, store: &store::Client) {
        while let Some(request) = self.going_back.front().copied() {
            let header = Header { length: 0, kind: REPLY, flags: GIVEN_BACK, claim: 0, request };
            if self.write(store, header, &[]).is_err() {
                return;
            }
            self.going_back.pop_front();
        }
        while self.gate == Gate::Open
            && let Some(request) = self.wanted_back.front().copied()
        {
            let header = Header { length: 0, kind: TAKE_BACK, flags: 0, claim: 0, request };
            if self.write(store, header, &[]).is_err() {
                return;
            }
            self.wanted_back.pop_front();
        }
        while self.gate == Gate::Open
            && let Some((request, count)) = self.consumed.front().copied()
        {
            let header = Header { length: 0, kind: CONSUMED, flags: 0, claim: 0, request };
            if self.write(store, header, &[&count.to_le_bytes()]).is_err() {
                return;
            }
            self.consumed.pop_front();
        }
    }

    /// So many items of the peer's generator were read. A later count stands for the earlier ones.
    pub(crate) fn tell_consumed(&mut self, store: &store::Client, request: u64, count: u32) {
        match self.consumed.iter_mut().find(|(known, _)| *known == request) {
            Some((_, waiting)) => *waiting = count,
            None => self.consumed.push_back((request, count)),
        }
        self.send_back(store);
    }

    /// Something was written since the bell was rung.
    #[inline]
    pub(crate) fn is_unrung(&self) -> bool {
        self.unrung
    }

    /// A call is about to be made: the peer may wake up meanwhile.
    pub(crate) fn announce(&self) {
        if !self.bell.is_at_event() {
            self.bell.announce();
        }
    }

    /// Whether something waits until the peer has read.
    pub(crate) fn is_stalled(&self) -> bool {
        !self.stalled.is_empty() || self.owes_words()
    }

    /// Whether something that is no call waits until the peer has read.
    pub(crate) fn owes_words(&self) -> bool {
        !self.going_back.is_empty() || !self.consumed.is_empty() || !self.wanted_back.is_empty()
    }
}

/// Why a frame was not written.
pub(crate) enum WriteError {
    Busy,
    /// Room in the arena is needed first.
    NeedExtent(u64),
}

fn ticket(index: u16, word: Word) -> u64 {
    (u64::from(word.0) << 16) | u64::from(index)
}

fn split_ticket(ticket: u64) -> (u16, Word) {
    (ticket as u16, Word((ticket >> 16) as u32))
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
