//! HOT: one peer of this process: the rings to and from it, the calls under way there, the templates each side knows.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{ProcId, TaskKey, Template};
use net::{Bell, Duplex, Segment};
use owner::Kept;
use rustc_hash::FxHashMap;
use store::Place;
use wire::Malformed;
use wire::control::Rings;
use wire::frame::{CONSUMED, DEFINE, FAR, FRAME_BYTES_MAX, GIVEN_BACK, Header, REPLY};

/// Templates that each side of a ring keeps. A program that gives each call a name of its own would fill both with them: beyond this
/// many, numbering begins anew.
const TEMPLATES_MAX: usize = 4096;

pub(crate) struct Link {
    pub(crate) peer: ProcId,
    pub(crate) in_bit: u16,
    out_bit: u16,
    pub(crate) rings: Duplex,
    pub(crate) bell: Bell,
    /// Numbers that we gave to templates on this ring, by address. The templates are kept, so that an address means one for good.
    numbers: FxHashMap<usize, u32>,
    /// The same by content: a program may make equal ones again and again.
    kept: FxHashMap<Arc<Template>, u32>,
    /// Templates that the peer numbered.
    pub(crate) theirs: Vec<Arc<Template>>,
    /// Calls that found the ring full or no room in the arena, in order: none overtakes the first of them.
    pub(crate) stalled: VecDeque<TaskKey>,
    /// The first of them waits for so much room in the arena.
    pub(crate) needs_room: Option<u64>,
    /// Calls of the peer's that go back to it and found the ring full: claim and request.
    pub(crate) going_back: VecDeque<(u16, u64)>,
    /// How far the readers of the peer's generators are, where the ring was full: request and count.
    consumed: VecDeque<(u64, u32)>,
    /// References that are kept beyond calls of the peer's, as replies said which it has perhaps not read yet: where each ends in the ring.
    untold: VecDeque<(u64, Vec<Kept>)>,
    /// Bodies in the arena that the peer may not have read yet, in order, and how many it had read before these.
    far: VecDeque<Place>,
    far_freed: u64,
    /// Something was written since the bell was rung.
    pub(crate) unrung: bool,
    pub(crate) gate: Gate,
}

/// Whether calls are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// We said that nothing is under way, and the node has not said yet whether the link is closed: calls wait in `stalled`.
    Held,
    /// The peer broke the ring or died: nothing goes there any more.
    Dead,
}

impl Link {
    pub(crate) fn new(segment: &Arc<Segment>, peer: ProcId, rings: Rings) -> Self {
        Self {
            peer,
            in_bit: rings.in_bit,
            out_bit: rings.out_bit,
            rings: segment.duplex(rings.out, rings.inward),
            bell: Bell::new(segment.clone(), peer.slot()),
            numbers: FxHashMap::default(),
            kept: FxHashMap::default(),
            theirs: Vec::new(),
            stalled: VecDeque::new(),
            needs_room: None,
            going_back: VecDeque::new(),
            consumed: VecDeque::new(),
            untold: VecDeque::new(),
            far: VecDeque::new(),
            far_freed: 0,
            unrung: false,
            gate: Gate::Open,
        }
    }

    /// The number of a template on this ring; the peer is told first if it is new.
    #[inline]
    pub(crate) fn number_of(&mut self, store: &store::Client, template: &Arc<Template>) -> Result<u32, WriteError> {
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
        self.write_far(store, header, parts, length, before)
    }

    #[cold]
    fn write_far(
        &mut self,
        store: &store::Client,
        mut header: Header,
        parts: &[&[u8]],
        length: usize,
        before: impl FnOnce(),
    ) -> Result<(), WriteError> {
        self.free_far(store);
        let mut block = store.reserve(length as u64).map_err(|need| WriteError::NeedExtent(need.length))?;
        let mut at = 0;
        for part in parts {
            block.as_mut_slice()[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        let place = block.seal();
        header.flags |= FAR;
        let mut body = Vec::with_capacity(24);
        wire::frame::write_place(place, &mut body);
        header.length = body.len() as u32;
        match self.rings.writer.push_after(header, &[&body], before) {
            Ok(()) => {
                self.far.push_back(place);
                self.unrung = true;
                Ok(())
            }
            Err(_) => {
                crate::effects::free(store, place);
                Err(WriteError::Busy)
            }
        }
    }

    /// The reply that was just written says that these references are kept.
    pub(crate) fn note_kept(&mut self, kept: Vec<Kept>) {
        self.forget_told();
        self.untold.push_back((self.rings.writer.written(), kept));
    }

    fn forget_told(&mut self) {
        let taken = self.rings.writer.taken();
        while self.untold.front().is_some_and(|(end, _)| *end <= taken) {
            self.untold.pop_front();
        }
    }

    /// The peer is dead: what is kept and it has never read of.
    pub(crate) fn take_untold(&mut self) -> impl Iterator<Item = Kept> + use<> {
        self.forget_told();
        std::mem::take(&mut self.untold).into_iter().flat_map(|(_, kept)| kept)
    }

    /// Frees the bodies in the arena that the peer has read.
    pub(crate) fn free_far(&mut self, store: &store::Client) {
        let read = if self.gate == Gate::Dead { u64::MAX } else { self.rings.writer.far_read() };
        while self.far_freed < read
            && let Some(place) = self.far.pop_front()
        {
            crate::effects::free(store, place);
            self.far_freed += 1;
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

    /// Gives the peer's calls back, and says how far its generators' readers are, as far as there is room in the ring.
    pub(crate) fn send_back(&mut self, store: &store::Client) {
        while let Some((claim, request)) = self.going_back.front().copied() {
            let header = Header { length: 0, kind: REPLY, flags: GIVEN_BACK, claim, request };
            if self.write(store, header, &[]).is_err() {
                return;
            }
            self.going_back.pop_front();
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

    /// Whether something waits until the peer has read.
    pub(crate) fn is_stalled(&self) -> bool {
        !self.stalled.is_empty() || self.owes_words()
    }

    /// Whether something that is no call waits until the peer has read.
    pub(crate) fn owes_words(&self) -> bool {
        !self.going_back.is_empty() || !self.consumed.is_empty()
    }

    pub(crate) fn peer_is_alive(&self) -> bool {
        self.bell.is_alive()
    }
}

/// Why a frame was not written.
pub(crate) enum WriteError {
    Busy,
    /// Room in the arena is needed first.
    NeedExtent(u64),
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{FunctionId, Need, ProcId, Template};
    use net::Segment;
    use wire::Reader;
    use wire::control::Rings;

    use super::{Link, TEMPLATES_MAX};

    fn template(name: String) -> Arc<Template> {
        Arc::new(Template {
            language: model::Language::PYTHON,
            function: FunctionId::NIL,
            name: name.into(),
            method: "".into(),
            need: Need::default(),
            returns: 1,
            yields: model::Yields::Nothing,
            retries_max: 0,
            retry_exceptions: false,
            calls_max: 0,
            group: 0,
        })
    }

    /// Both sides kept one template per call of a program that names its calls, for as long as the two were linked.
    #[test]
    fn templates_without_end_take_room_for_a_bounded_number() {
        let segment = Arc::new(Segment::create().unwrap());
        let host = store::Host::create(1 << 20, 4).unwrap();
        let copy = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().unwrap();
        let store = store::Client::attach(copy(host.data_fd()), copy(host.table_fd()), 1).unwrap();
        let peer = |slot| ProcId::new(1, slot, 1);
        let mut ours = Link::new(&segment, peer(1), Rings { out: 0, out_bit: 0, inward: 1, in_bit: 0 });
        let mut theirs = Link::new(&segment, peer(0), Rings { out: 1, out_bit: 0, inward: 0, in_bit: 0 });
        let often = template("often".into());
        let mut body = Vec::new();
        for call in 0..3 * TEMPLATES_MAX {
            let once = template(format!("call {call}"));
            for template in [&once, &often] {
                let number = ours.number_of(&store, template).ok().expect("there is room");
                while let Some(header) = {
                    body.clear();
                    theirs.rings.reader.pop(&mut body).unwrap()
                } {
                    let mut reader = Reader::new(&body[..header.length as usize]);
                    let number = reader.u32().unwrap();
                    theirs.define(number, wire::decode(reader.rest()).unwrap()).unwrap();
                }
                assert_eq!(theirs.theirs[number as usize], *template);
            }
            assert!(ours.kept.len() <= TEMPLATES_MAX && ours.numbers.len() <= TEMPLATES_MAX);
            assert!(theirs.theirs.len() <= TEMPLATES_MAX);
        }
    }
}
