//! HOT: what comes from the peer: each counted envelope is taken up once and in order, whichever line it came by (SESSION-1).

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use wire::session::{Channel, Head, ITEM_BYTES_MAX, PIECE_BYTES_MAX, Part, What};
use wire::{Malformed, Reader};

use crate::outbox::{Outbox, channel_of, charge, key};
use crate::stream::{Purpose, Stream};
use crate::{Error, Limits, Position};

/// Bytes of one channel's credit.
const CREDIT_BYTES: usize = 8;
/// What is reserved at once for an item, whatever length it claims.
const TRUSTED_BYTES: usize = 1024 * 1024;

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived<'a> {
    /// An item of a channel.
    Item {
        /// The channel.
        channel: Channel,
        /// As it was sent.
        kind: u8,
        /// As it was sent.
        bytes: &'a [u8],
    },
    /// News.
    News {
        /// As it was sent.
        kind: u8,
        /// As it was sent.
        bytes: &'a [u8],
    },
}

/// What whoever gets an item does with it. Of news it makes no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It is where it belongs, and its channel may send as much more.
    Done,
    /// It takes room until `Session::taken`.
    Kept,
}

/// A channel of which something is held, or an item has come in part.
#[derive(Default)]
struct Incoming {
    /// What is held of it, or was and the peer does not know yet.
    held: u64,
    /// The part of that which is held no more.
    taken: u64,
    begun: Option<Box<Begun>>,
}

/// An item of which some pieces have come.
struct Begun {
    length: usize,
    kind: u8,
    bytes: Vec<u8>,
}

pub(crate) struct Inbox {
    limits: Limits,
    /// Bytes of the peer's counted envelopes that were taken up.
    received: u64,
    channels: FxHashMap<u32, Incoming>,
    begun_news: Option<Box<Begun>>,
    /// Channels of which something was taken that the peer does not know.
    owed: Vec<u32>,
    /// One of them has so much that the peer should know now.
    is_credit_due: bool,
    read: Position,
    /// Positions that somebody waits for.
    awaited: BTreeSet<Position>,
    duplicates: u64,
}

impl Inbox {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            received: 0,
            channels: FxHashMap::default(),
            begun_news: None,
            owed: Vec::new(),
            is_credit_due: false,
            read: Position::default(),
            awaited: BTreeSet::new(),
            duplicates: 0,
        }
    }

    #[inline]
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Takes up a counted envelope, unless it has come before.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        head: &Head,
        body: &[u8],
        outbox: &mut Outbox,
        deliver: &mut impl FnMut(Arrived<'_>) -> Hold,
    ) -> Result<(), Error> {
        let end = head.offset.checked_add(head.envelope_bytes() as u64).ok_or(Malformed("offset"))?;
        if head.offset != self.received {
            return if end <= self.received {
                self.duplicates += 1;
                Ok(())
            } else {
                Err(Error::Gap(self.received))
            };
        }
        match head.what {
            What::Item(part) => self.on_item(head, part, false, body, deliver)?,
            What::LastWords(part) => self.on_item(head, part, true, body, deliver)?,
            What::News(part) => self.on_news(head.kind, part, body, deliver)?,
            What::Mark => self.on_mark(body)?,
            What::Credit => {
                for (channel, bytes) in read_credit(body)? {
                    outbox.on_credit(channel, bytes)?;
                }
            }
            What::Received | What::Hello | What::Refused => return Err(Malformed("counted envelope").into()),
        }
        self.received = end;
        Ok(())
    }

    #[inline]
    fn on_item(
        &mut self,
        head: &Head,
        part: Part,
        is_overdraft: bool,
        body: &[u8],
        deliver: &mut impl FnMut(Arrived<'_>) -> Hold,
    ) -> Result<(), Error> {
        let (channel, kind) = (head.channel, head.kind);
        let window = u64::from(self.limits.window_bytes);
        let incoming = self.channels.entry(key(channel)).or_default();
        match part {
            Part::Whole | Part::First if incoming.begun.is_some() => return Err(Malformed("piece").into()),
            Part::Whole => {
                incoming.hold(channel, body.len(), window, is_overdraft)?;
                if deliver(Arrived::Item { channel, kind, bytes: body }) == Hold::Done {
                    self.taken(channel, body.len());
                }
            }
            Part::First => {
                let begun = Begun::new(kind, body)?;
                incoming.hold(channel, begun.length, window, is_overdraft)?;
                incoming.begun = Some(Box::new(begun));
            }
            Part::More | Part::Last => {
                if let Some(begun) = add_piece(&mut incoming.begun, part, body)?
                    && deliver(Arrived::Item { channel, kind: begun.kind, bytes: &begun.bytes }) == Hold::Done
                {
                    self.taken(channel, begun.length);
                }
            }
        }
        Ok(())
    }

    fn on_news(
        &mut self,
        kind: u8,
        part: Part,
        body: &[u8],
        deliver: &mut impl FnMut(Arrived<'_>) -> Hold,
    ) -> Result<(), Error> {
        match part {
            Part::Whole | Part::First if self.begun_news.is_some() => return Err(Malformed("piece").into()),
            Part::Whole => {
                deliver(Arrived::News { kind, bytes: body });
            }
            Part::First => self.begun_news = Some(Box::new(Begun::new(kind, body)?)),
            Part::More | Part::Last => {
                if let Some(begun) = add_piece(&mut self.begun_news, part, body)? {
                    deliver(Arrived::News { kind: begun.kind, bytes: &begun.bytes });
                }
            }
        }
        Ok(())
    }

    fn on_mark(&mut self, body: &[u8]) -> Result<(), Error> {
        let position = Position(Reader::new(body).u64()?);
        if position < self.read {
            return Err(Malformed("mark").into());
        }
        self.read = position;
        Ok(())
    }

    /// An item of this length is held no more.
    ///
    /// # Panics
    /// If none was held.
    #[inline]
    pub(crate) fn taken(&mut self, channel: Channel, length: usize) {
        let incoming = self.channels.get_mut(&key(channel)).expect("SESSION-3: only what was held is taken");
        if incoming.taken == 0 {
            self.owed.push(key(channel));
        }
        incoming.taken += charge(length);
        assert!(incoming.taken <= incoming.held, "SESSION-3: only what was held is taken");
        self.is_credit_due |= incoming.taken >= u64::from(self.limits.window_bytes) / 4;
    }

    /// Whether the peer could be told of credit.
    #[inline]
    pub(crate) fn owes_credit(&self) -> bool {
        !self.owed.is_empty()
    }

    /// It is told now, however little it is.
    pub(crate) fn hurry_credit(&mut self) {
        self.is_credit_due = !self.owed.is_empty();
    }

    /// Tells the peer of what was taken, if it is enough to be told.
    #[inline]
    pub(crate) fn put_credit(&mut self, stream: &mut Stream) {
        if self.is_credit_due {
            self.put_all_credit(stream);
        }
    }

    fn put_all_credit(&mut self, stream: &mut Stream) {
        let most = self.limits.piece_bytes_max.min(PIECE_BYTES_MAX) / CREDIT_BYTES;
        while !self.owed.is_empty() {
            let mut count = self.owed.len().min(most);
            while count > 0 && !stream.has_room(count * CREDIT_BYTES, Purpose::Control) {
                count /= 2;
            }
            if count == 0 {
                return;
            }
            let mut body = Vec::with_capacity(count * CREDIT_BYTES);
            for key in self.owed.drain(..count) {
                let Some(incoming) = self.channels.get_mut(&key) else { continue };
                let Channel { from, to } = channel_of(key);
                body.extend_from_slice(&from.to_le_bytes());
                body.extend_from_slice(&to.to_le_bytes());
                body.extend_from_slice(&(incoming.taken as u32).to_le_bytes());
                incoming.held -= incoming.taken;
                incoming.taken = 0;
                if incoming.held == 0 && incoming.begun.is_none() {
                    self.channels.remove(&key);
                }
            }
            stream.append(What::Credit, Channel::default(), 0, [&body, &[]]);
        }
        self.is_credit_due = false;
    }

    /// How far the peer had got when it last said so, and all before that has come.
    pub(crate) fn read(&self) -> Position {
        self.read
    }

    /// Whether all before a position has come; if not, it is remembered.
    pub(crate) fn await_position(&mut self, position: Position) -> bool {
        position <= self.read || {
            self.awaited.insert(position);
            false
        }
    }

    /// Positions that were waited for and are reached.
    pub(crate) fn take_reached(&mut self) -> BTreeSet<Position> {
        let later = self.awaited.split_off(&Position(self.read.0 + 1));
        std::mem::replace(&mut self.awaited, later)
    }

    /// What of all channels is held, as far as the peer knows.
    pub(crate) fn held(&self) -> u64 {
        self.channels.values().map(|incoming| incoming.held).sum()
    }
}

impl Incoming {
    /// An item begins. It is within the window, or the only one, or the last words of the dead, which wait for nobody.
    #[inline]
    fn hold(&mut self, channel: Channel, length: usize, window: u64, is_overdraft: bool) -> Result<(), Error> {
        let charge = charge(length);
        let most =
            if is_overdraft { window.max(self::charge(ITEM_BYTES_MAX)) + self::charge(ITEM_BYTES_MAX) } else { window };
        if self.held > 0 && self.held + charge > most {
            return Err(Error::Overrun(channel));
        }
        self.held += charge;
        Ok(())
    }
}

impl Begun {
    fn new(kind: u8, body: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(body);
        let length = from.u32()? as usize;
        let piece = from.rest();
        if length > ITEM_BYTES_MAX || piece.len() >= length || piece.is_empty() {
            return Err(Malformed("item's length"));
        }
        let mut bytes = Vec::with_capacity(length.min(TRUSTED_BYTES));
        bytes.extend_from_slice(piece);
        Ok(Self { length, kind, bytes })
    }
}

/// Adds a piece to what has come; the item, once it is whole.
fn add_piece(slot: &mut Option<Box<Begun>>, part: Part, piece: &[u8]) -> Result<Option<Box<Begun>>, Malformed> {
    let begun = slot.as_mut().ok_or(Malformed("piece"))?;
    let length = begun.bytes.len() + piece.len();
    if piece.is_empty() || length > begun.length || (length == begun.length) != (part == Part::Last) {
        return Err(Malformed("piece"));
    }
    begun.bytes.extend_from_slice(piece);
    Ok(if part == Part::Last { slot.take() } else { None })
}

/// The body of an envelope of credit.
fn read_credit(body: &[u8]) -> Result<impl Iterator<Item = (Channel, u64)>, Malformed> {
    let (entries, []) = body.as_chunks::<CREDIT_BYTES>() else { return Err(Malformed("credit")) };
    Ok(entries.iter().map(|entry| {
        let number = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        let bytes = u32::from(number(4)) | u32::from(number(6)) << 16;
        (Channel { from: number(0), to: number(2) }, u64::from(bytes))
    }))
}
