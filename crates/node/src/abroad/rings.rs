//! HOT: the ends of rings that the carrier has, for processes of other nodes: what lies behind `carrier::Body`.
//!
//! Large values lie in this node's arena, and only their names leave: whoever reads one has its node bring it. What a reply gives away is kept
//! here for its receiver from then on. Values that have no name, or are not worth a second way, leave as copies inside their frame. A frame
//! that is too large for a ring goes aside in the arena, as between two processes of one node.

use std::collections::VecDeque;
use std::sync::Arc;

use carrier::{Frame, ToHub};
use depot::Given;
use model::{Bulk, Filed, Place, ProcId};
use net::segment::CARRIER_SLOT;
use net::{Bell, Duplex, Segment, UNCLAIMED, Word};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::Reader;
use wire::abroad::Between;
use wire::control::Rings;
use wire::frame::{self, ASIDE, CALL, FRAME_BYTES_MAX, Header, ITEM, REPLY, Value};
use wire::peer::Peer;
use wire::value;

use crate::values::Values;

/// A value that is given away and is no longer than this goes with its frame: its receiver need not ask for it.
const COPY_BYTES_MAX: u64 = 256 << 10;

/// A process here and one there.
pub(crate) type Pair = (ProcId, ProcId);

/// The rings of a pair, as the one there would see them.
struct End {
    rings: Duplex,
    /// Of the one here.
    bell: Bell,
    out_bit: u16,
    in_bit: u16,
    /// Calls that were written and not answered, by request: their claim words.
    claims: FxHashMap<u64, (u16, Word)>,
    /// Bodies in the arena that the one here may not have read yet, in order, and how many it had read before these.
    aside: VecDeque<Place>,
    aside_freed: u64,
    /// What was taken out of its ring and not handed on.
    taken: VecDeque<Frame>,
    is_unrung: bool,
    /// What lay in the ring was no frame: it is read no more.
    is_broken: bool,
}

/// See the module's documentation.
pub(crate) struct RingEnds {
    segment: Arc<Segment>,
    store: store::Client,
    files: Arc<store::Files>,
    pub(super) values: Arc<Values>,
    ends: FxHashMap<Pair, End>,
    /// Which pairs ring which bit.
    of_bit: Vec<Vec<Pair>>,
    unrung: Vec<Pair>,
    /// Pairs whose ring here had no room for something.
    pub(crate) full: FxHashSet<Pair>,
    /// What the hub is to hear.
    pub(crate) told: Vec<ToHub>,
    /// Something was written aside since that was last looked at.
    pub(crate) has_aside: bool,
    /// Room in the arena that is needed.
    pub(crate) needs_room: Option<u64>,
    /// Processes here that wrote nonsense.
    pub(crate) broken: Vec<ProcId>,
}

impl RingEnds {
    pub(crate) fn new(
        segment: Arc<Segment>,
        store: store::Client,
        files: Arc<store::Files>,
        values: Arc<Values>,
    ) -> Self {
        Self {
            segment,
            store,
            files,
            values,
            ends: FxHashMap::default(),
            of_bit: Vec::new(),
            unrung: Vec::new(),
            full: FxHashSet::default(),
            told: Vec::new(),
            has_aside: false,
            needs_room: None,
            broken: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, here: ProcId, there: ProcId, rings: Rings) {
        let end = End {
            rings: self.segment.duplex(rings.out, rings.inward),
            bell: Bell::new(self.segment.clone(), here.slot()),
            out_bit: rings.out_bit,
            in_bit: rings.in_bit,
            claims: FxHashMap::default(),
            aside: VecDeque::new(),
            aside_freed: 0,
            taken: VecDeque::new(),
            is_unrung: false,
            is_broken: false,
        };
        let bit = usize::from(rings.in_bit);
        if self.of_bit.len() <= bit {
            self.of_bit.resize_with(bit + 1, Vec::new);
        }
        self.of_bit[bit].push((here, there));
        self.ends.insert((here, there), end);
    }

    /// The rings may be another pair's next.
    fn remove(&mut self, pair: Pair) {
        let Some(mut end) = self.ends.remove(&pair) else { return };
        self.of_bit[usize::from(end.in_bit)].retain(|other| *other != pair);
        self.full.remove(&pair);
        end.aside.drain(..).for_each(|place| free(&self.store, place));
    }

    /// Those that have something in their rings, as they said by the bell.
    pub(crate) fn take_ready(&self, bell: &Bell, into: &mut Vec<Pair>) {
        bell.take_ready(|bit| {
            into.extend(self.of_bit.get(usize::from(bit)).into_iter().flatten());
        });
    }

    /// Whether something lies there to be read.
    pub(crate) fn has_frame(&self, pair: &Pair) -> bool {
        self.ends.get(pair).is_some_and(|end| !end.taken.is_empty() || (!end.is_broken && end.rings.reader.has_frame()))
    }

    /// Wakes all that something was written for.
    pub(crate) fn ring_all(&mut self) {
        for pair in self.unrung.drain(..) {
            if let Some(end) = self.ends.get_mut(&pair) {
                end.is_unrung = false;
                end.bell.ring(end.out_bit);
            }
        }
    }

    pub(crate) fn add_extent(&self, offset: u64, length: u64) {
        if let Err(error) = self.store.add_extent(store::Extent { offset, length }) {
            tracing::warn!("room in the arena is not taken: {error}");
        }
    }

    /// One frame out of the ring.
    fn pop(&mut self, pair: Pair) -> Option<Frame> {
        let end = self.ends.get_mut(&pair)?;
        if end.is_broken {
            return None;
        }
        let mut body = Vec::new();
        let header = match end.rings.reader.pop(&mut body) {
            Ok(header) => header?,
            Err(_) => return self.broke(pair),
        };
        let Some(frame) = self.whole(pair, header, body) else { return self.broke(pair) };
        Some(frame)
    }

    fn broke(&mut self, pair: Pair) -> Option<Frame> {
        if let Some(end) = self.ends.get_mut(&pair) {
            end.is_broken = true;
        }
        self.broken.push(pair.0);
        None
    }

    /// The frame with all that belongs to it: nothing of it lies in the arena.
    fn whole(&mut self, pair: Pair, mut header: Header, mut body: Vec<u8>) -> Option<Frame> {
        if header.flags & ASIDE != 0 {
            let place = frame::read_place(&mut Reader::new(&body)).ok()?;
            let view = self.store.pin(place).ok()?;
            body = view.as_slice().to_vec();
            self.ends.get_mut(&pair)?.rings.reader.took_aside();
            header.flags &= !ASIDE;
        }
        match header.kind {
            CALL => {
                let mut reader = Reader::new(&body);
                frame::Call::read(&mut reader).ok()?;
                let at = body.len() - reader.rest().len();
                self.inline(pair, &mut body, at, usize::MAX, false)?;
            }
            REPLY | ITEM => {
                let (_, rest) = frame::split_list(header.flags, &body).ok()?;
                let mut at = body.len() - rest.len();
                let mut count = 1;
                if header.kind == REPLY && !rest.is_empty() {
                    count = Reader::new(rest).u32().ok()? as usize;
                    at += 4;
                }
                if !rest.is_empty() {
                    self.inline(pair, &mut body, at, count, true)?;
                }
                if header.kind == REPLY
                    && let Some(end) = self.ends.get_mut(&pair)
                    && let Some((index, _)) = end.claims.remove(&header.request)
                {
                    end.rings.claims.release(index);
                }
            }
            _ => {}
        }
        header.length = body.len() as u32;
        Some((header, body))
    }

    /// Puts large values, of `count` that begin at `at`, into the body. `is_given`: their bytes are the receiver's from then on, and it
    /// has its copy now.
    fn inline(&mut self, pair: Pair, body: &mut Vec<u8>, at: usize, count: usize, is_given: bool) -> Option<()> {
        if !has_bulk(&body[at..], count)? {
            return Some(());
        }
        let mut whole = body[..at].to_vec();
        let mut reader = Reader::new(&body[at..]);
        for _ in 0..count {
            if reader.rest().is_empty() {
                break;
            }
            match Value::read(&mut reader).ok()? {
                Value::Bulk(bulk) if bulk.is_name() && !is_given => Value::Bulk(bulk).write(&mut whole),
                Value::Bulk(bulk) if bulk.is_name() && bulk.length() > COPY_BYTES_MAX => match self.keep(pair, bulk) {
                    Ok((bulk, refs)) => Value::Away { bulk, refs: &refs }.write(&mut whole),
                    Err(why) => {
                        Value::write_failure(&model::Failure::Lost(why.to_string().into()), &mut whole);
                        self.give_back(pair, bulk);
                    }
                },
                Value::Bulk(bulk) => {
                    match self.copy_of(bulk) {
                        Ok(bytes) => Value::Inline(&bytes).write(&mut whole),
                        Err(why) => Value::write_failure(&model::Failure::Lost(why.into()), &mut whole),
                    }
                    if is_given {
                        self.give_back(pair, bulk);
                    }
                }
                value => value.write(&mut whole),
            }
        }
        whole.extend_from_slice(reader.rest());
        *body = whole;
        Some(())
    }

    /// The value is the receiver's from now on, and kept here. Returns its name, and the references in it.
    fn keep(&mut self, (here, there): Pair, bulk: Bulk) -> Result<(Bulk, Vec<u8>), store::Error> {
        let (bulk, view, refs) = match bulk {
            Bulk::Stored(place) => {
                let view = self.store.pin_to_keep(place)?;
                let message = Between::Letter { sender: there, to: here, message: Peer::KeepPlace(place) };
                self.told.push(ToHub::Said { node: there.node(), message });
                let refs = refs_of(&view);
                (bulk, Some(view), refs)
            }
            Bulk::Filed(filed) => {
                let filed = self.files.take_over(filed)?;
                let refs = self.refs_in(&filed).inspect_err(|_| self.files.remove(filed.file))?;
                (Bulk::Filed(filed), None, refs)
            }
        };
        self.values.keep(Given { bulk, at: bulk, owner: there, holder: here }, view);
        Ok((bulk, refs))
    }

    fn refs_in(&self, filed: &Filed) -> Result<Vec<u8>, store::Error> {
        let head = self.files.read(filed, value::HEAD_BYTES as u64)?;
        Ok(refs_of(&self.files.read(filed, value::refs_bytes(&head) as u64)?))
    }

    /// Calls that came name values of other nodes: they are brought here.
    fn bring_arguments(&self, body: &[u8]) {
        let mut reader = Reader::new(body);
        if frame::Call::read(&mut reader).is_err() || reader.rest().is_empty() {
            return;
        }
        let names = value::values_in(reader.rest()).filter_map(|value| match value {
            Value::Bulk(bulk) => Some(bulk),
            _ => None,
        });
        let names: Vec<Bulk> = names.collect();
        if !names.is_empty() {
            self.values.will_want(names);
        }
    }

    fn copy_of(&self, bulk: Bulk) -> Result<Vec<u8>, String> {
        let bytes = match bulk {
            Bulk::Stored(place) => {
                self.store.pin(place).map(|view| view.as_slice().to_vec()).map_err(|error| error.to_string())
            }
            Bulk::Filed(filed) => self.files.read(&filed, filed.length).map_err(|error| error.to_string()),
        };
        bytes.map(value::copied)
    }

    /// As the receiver would say that it needs the bytes no more.
    fn give_back(&mut self, (here, there): Pair, bulk: Bulk) {
        match bulk {
            Bulk::Stored(place) => {
                let message = Between::Letter { sender: there, to: here, message: Peer::FreePlace(place) };
                self.told.push(ToHub::Said { node: there.node(), message });
            }
            Bulk::Filed(filed) => self.files.remove(filed.file),
        }
    }

    /// Frees what lay aside and was read, and gives the room back. True: something still lies there.
    pub(crate) fn reclaim_aside(&mut self) -> bool {
        let mut has_some = false;
        for end in self.ends.values_mut().filter(|end| !end.aside.is_empty()) {
            let read = end.rings.writer.aside_read();
            while end.aside_freed < read
                && let Some(place) = end.aside.pop_front()
            {
                free(&self.store, place);
                end.aside_freed += 1;
            }
            has_some |= !end.aside.is_empty();
        }
        self.values.give_back_idle();
        has_some
    }

    fn write_aside(&mut self, pair: Pair, mut header: Header, body: &[u8]) -> bool {
        let mut reserved = self.store.reserve(body.len() as u64);
        if reserved.is_err() {
            // Others may have read what was written for them.
            self.reclaim_aside();
            reserved = self.store.reserve(body.len() as u64);
        }
        let mut block = match reserved {
            Ok(block) => block,
            Err(need) => {
                self.needs_room.get_or_insert(need.length);
                return false;
            }
        };
        let Some(end) = self.ends.get_mut(&pair) else { return false };
        self.has_aside = true;
        block.as_mut_slice()[..body.len()].copy_from_slice(body);
        let place = block.seal();
        header.flags |= ASIDE;
        let mut named = Vec::with_capacity(24);
        frame::write_place(place, &mut named);
        header.length = named.len() as u32;
        let is_written = end.rings.writer.push(header, &[&named]).is_ok();
        if is_written {
            end.aside.push_back(place);
        } else {
            free(&self.store, place);
        }
        is_written
    }
}

/// The part of a value that lists its references, without their number.
fn refs_of(value: &[u8]) -> Vec<u8> {
    let end = value::refs_bytes(&value[..value.len().min(value::HEAD_BYTES)]);
    value.get(value::HEAD_BYTES.min(end)..end).unwrap_or_default().to_vec()
}

fn free(store: &store::Client, place: Place) {
    let freed = store.free(place);
    debug_assert!(freed.is_ok(), "freed what is not ours: {place:?}: {freed:?}");
}

/// Whether one of so many values lies elsewhere. None: these are no values.
fn has_bulk(values: &[u8], count: usize) -> Option<bool> {
    let mut reader = Reader::new(values);
    for _ in 0..count {
        if reader.rest().is_empty() {
            break;
        }
        if let Value::Bulk(_) = Value::read(&mut reader).ok()? {
            return Some(true);
        }
    }
    Some(false)
}

fn claim_word(body: &[u8]) -> Word {
    Word(body.first_chunk::<4>().map_or(0, |raw| u32::from_le_bytes(*raw)))
}

impl carrier::Body for RingEnds {
    fn published(&mut self, here: ProcId, there: ProcId) -> usize {
        while let Some(frame) = self.pop((here, there)) {
            if let Some(end) = self.ends.get_mut(&(here, there)) {
                end.taken.push_back(frame);
            }
        }
        self.ends.get(&(here, there)).map_or(0, |end| end.taken.len())
    }

    fn read(&mut self, here: ProcId, there: ProcId) -> Option<Frame> {
        let taken = self.ends.get_mut(&(here, there))?.taken.pop_front();
        taken.or_else(|| self.pop((here, there)))
    }

    fn start(&mut self, here: ProcId, there: ProcId, frame: &Frame) -> bool {
        let Some(end) = self.ends.get(&(here, there)) else { return false };
        end.rings.their_claims.start(frame.0.claim, claim_word(&frame.1))
    }

    fn write(&mut self, here: ProcId, there: ProcId, mut frame: Frame) -> Option<Frame> {
        let pair = (here, there);
        if frame.0.kind == CALL {
            self.bring_arguments(&frame.1);
        }
        let Some(end) = self.ends.get_mut(&pair) else { return Some(frame) };
        let mut given = None;
        if frame.0.kind == CALL {
            let claim =
                if frame.0.claim == UNCLAIMED { Some(end.rings.claims.give_none()) } else { end.rings.claims.give() };
            let Some((index, word)) = claim else {
                self.full.insert(pair);
                return Some(frame);
            };
            frame.0.claim = index;
            frame.1[..4].copy_from_slice(&word.0.to_le_bytes());
            given = Some((index, word));
        }
        frame.0.length = frame.1.len() as u32;
        let is_written = if frame.1.len() <= FRAME_BYTES_MAX {
            end.rings.writer.push(frame.0, &[&frame.1]).is_ok()
        } else {
            self.write_aside(pair, frame.0, &frame.1)
        };
        let Some(end) = self.ends.get_mut(&pair) else { return Some(frame) };
        if !is_written {
            given.into_iter().for_each(|(index, _)| end.rings.claims.release(index));
            self.full.insert(pair);
            return Some(frame);
        }
        if let Some(claim) = given {
            end.claims.insert(frame.0.request, claim);
        }
        if !std::mem::replace(&mut end.is_unrung, true) {
            self.unrung.push(pair);
        }
        None
    }

    fn take_back(&mut self, here: ProcId, there: ProcId, request: u64) -> bool {
        let Some(end) = self.ends.get_mut(&(here, there)) else { return false };
        let Some((index, word)) = end.claims.get(&request).copied() else { return false };
        let is_taken = end.rings.claims.take_back(index, word);
        if is_taken {
            end.claims.remove(&request);
            end.rings.claims.release(index);
        }
        is_taken
    }

    fn unstarted(&mut self, here: ProcId, there: ProcId) -> Vec<u64> {
        let Some(end) = self.ends.get(&(here, there)) else { return Vec::new() };
        let unstarted = end.claims.iter().filter(|(_, (index, word))| !end.rings.claims.has_started(*index, *word));
        let mut unstarted: Vec<u64> = unstarted.map(|(request, _)| *request).collect();
        unstarted.sort_unstable();
        unstarted
    }

    fn unread(&mut self, here: ProcId, there: ProcId) -> Vec<Frame> {
        let Some(end) = self.ends.get(&(here, there)) else { return Vec::new() };
        let fetch = |(mut header, mut body): Frame| {
            if header.flags & ASIDE != 0 {
                let place = frame::read_place(&mut Reader::new(&body)).ok()?;
                body = self.store.pin(place).ok()?.as_slice().to_vec();
                header.flags &= !ASIDE;
            }
            (header.kind != CALL).then_some((header, body))
        };
        end.rings.writer.unread().into_iter().filter_map(fetch).collect()
    }

    fn tell_hub(&mut self, message: ToHub) {
        if let ToHub::LinkClosed { here, there } = &message {
            self.remove((*here, *there));
        }
        self.told.push(message);
    }
}

/// The bell of the carrier of this node.
pub(crate) fn carrier_bell(segment: &Arc<Segment>, event: Arc<std::os::fd::OwnedFd>) -> Bell {
    segment.reset_proc(CARRIER_SLOT);
    Bell::at_event(segment.clone(), CARRIER_SLOT, event)
}
