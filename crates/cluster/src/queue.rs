//! HOT: items that wait to be sent, whole, one behind the other in one piece of memory; the first may have been sent in part.

use wire::session::{Channel, PIECE_BYTES_MAX, Part, What};

use crate::fifo::Fifo;
use crate::stream::{Purpose, Stream};

/// Bytes of what stands before an item: ticket, length, kind, whether it is about somebody, and about whom.
const ENTRY_BYTES: usize = 16;

/// What is known of an item beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Counts everything that was accepted.
    pub(crate) ticket: u64,
    pub(crate) length: u32,
    pub(crate) kind: u8,
    /// Of news: whose channels they come behind.
    pub(crate) behind: Option<u16>,
}

/// What came of an attempt to send a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// The stream has no room.
    Full,
    /// One that is not the item's last.
    Piece,
    /// The last: it may be removed.
    All,
}

#[derive(Default)]
pub(crate) struct Queue {
    items: Fifo,
    /// How much of the first one was sent.
    begun: usize,
}

impl Queue {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of all items, and of what stands before them.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.items.len()
    }

    /// What an item will take in a queue.
    #[inline]
    pub(crate) fn cost(length: usize) -> usize {
        ENTRY_BYTES + length
    }

    pub(crate) fn push(&mut self, entry: Entry, bytes: &[u8]) {
        let mut head = [0; ENTRY_BYTES];
        head[..8].copy_from_slice(&entry.ticket.to_le_bytes());
        head[8..12].copy_from_slice(&entry.length.to_le_bytes());
        head[12] = entry.kind;
        head[13] = u8::from(entry.behind.is_some());
        head[14..].copy_from_slice(&entry.behind.unwrap_or_default().to_le_bytes());
        self.items.append(&head);
        self.items.append(bytes);
    }

    /// The first item, and its bytes.
    #[inline]
    pub(crate) fn front(&self) -> Option<(Entry, &[u8])> {
        read(self.items.as_slice())
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun > 0
    }

    /// Puts the next piece of the first item on the stream. `what` says what its envelopes are.
    pub(crate) fn put_piece(
        &mut self,
        stream: &mut Stream,
        channel: Channel,
        what: fn(Part) -> What,
        piece_max: usize,
    ) -> Put {
        debug_assert!(piece_max <= PIECE_BYTES_MAX, "a piece fits into an envelope");
        let Some((entry, bytes)) = read(self.items.as_slice()) else { return Put::Full };
        let purpose = if what(Part::Whole) == What::News(Part::Whole) { Purpose::Control } else { Purpose::Item };
        let rest = &bytes[self.begun..];
        let length = entry.length.to_le_bytes();
        let (part, prefix) = match (self.begun, rest.len() <= piece_max) {
            (0, true) => (Part::Whole, &[][..]),
            (0, false) => (Part::First, &length[..]),
            (_, false) => (Part::More, &[][..]),
            (_, true) => (Part::Last, &[][..]),
        };
        let piece = &rest[..rest.len().min(piece_max - prefix.len())];
        if !stream.has_room(prefix.len() + piece.len(), purpose) {
            return Put::Full;
        }
        stream.append(what(part), channel, entry.kind, [prefix, piece]);
        self.begun += piece.len();
        if matches!(part, Part::Whole | Part::Last) { Put::All } else { Put::Piece }
    }

    /// Removes the first item.
    pub(crate) fn pop(&mut self) {
        let cost = self.front().map_or(0, |(_, bytes)| Self::cost(bytes.len()));
        self.items.drop_front(cost);
        self.begun = 0;
    }

    /// All items in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Entry, &[u8])> {
        let mut rest = self.items.as_slice();
        std::iter::from_fn(move || {
            let (entry, bytes) = read(rest)?;
            rest = &rest[Self::cost(bytes.len())..];
            Some((entry, bytes))
        })
    }
}

#[inline]
fn read(items: &[u8]) -> Option<(Entry, &[u8])> {
    let (head, rest) = items.split_first_chunk::<ENTRY_BYTES>()?;
    let ticket = u64::from_le_bytes(std::array::from_fn(|at| head[at]));
    let length = u32::from_le_bytes(std::array::from_fn(|at| head[8 + at]));
    let behind = (head[13] != 0).then_some(u16::from_le_bytes([head[14], head[15]]));
    Some((Entry { ticket, length, kind: head[12], behind }, &rest[..length as usize]))
}
