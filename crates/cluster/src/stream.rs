//! HOT: the counted envelopes that the peer may not have: as they travel, so that sending them again is copying them again.
//!
//! Three offsets move over them: the peer has all below `tail`, which are forgotten; those up to `cursor` were put on the present line.

use wire::Malformed;
use wire::session::{Channel, HEAD_BYTES, Head, What};

use crate::fifo::Fifo;

/// Whether an envelope may use the last of the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// An item of a channel.
    Item,
    /// What must not wait until items have gone: news, credit, marks.
    Control,
}

pub(crate) struct Stream {
    kept: Fifo,
    tail: u64,
    cursor: u64,
    /// How far any line has got: what is acknowledged was sent.
    sent_max: u64,
    bytes_max: usize,
    reserve: usize,
    resent: u64,
}

impl Stream {
    pub(crate) fn new(bytes_max: usize, reserve: usize) -> Self {
        Self { kept: Fifo::default(), tail: 0, cursor: 0, sent_max: 0, bytes_max, reserve, resent: 0 }
    }

    /// The offset behind the last envelope.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.tail + self.kept.len() as u64
    }

    /// The peer has all before this.
    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }

    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn resent(&self) -> u64 {
        self.resent
    }

    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        (self.end() - self.cursor) as usize
    }

    #[inline]
    pub(crate) fn has_room(&self, body: usize, purpose: Purpose) -> bool {
        let free = self.bytes_max - self.kept.len();
        let reserve = if purpose == Purpose::Item { self.reserve } else { 0 };
        HEAD_BYTES + body + reserve <= free
    }

    /// Adds an envelope, whose body is given in two parts.
    #[inline]
    pub(crate) fn append(&mut self, what: What, channel: Channel, kind: u8, body: [&[u8]; 2]) {
        let length = (body[0].len() + body[1].len()) as u16;
        let head = Head { offset: self.end(), channel, length, what, kind };
        self.kept.append(&head.to_bytes());
        self.kept.append(body[0]);
        self.kept.append(body[1]);
        debug_assert!(self.kept.len() <= self.bytes_max, "SESSION-3: more is kept than there is room for");
    }

    /// Copies whole envelopes that were not sent on this line, `about` bytes of them.
    pub(crate) fn copy_unsent(&mut self, about: usize, out: &mut Vec<u8>) {
        let unsent = &self.kept.as_slice()[(self.cursor - self.tail) as usize..];
        let mut count = unsent.len();
        if count > about {
            count = 0;
            while count < about {
                count += head_at(unsent, count).map_or(unsent.len() - count, |head| head.envelope_bytes());
            }
        }
        out.extend_from_slice(&unsent[..count]);
        let cursor = self.cursor + count as u64;
        self.resent += self.sent_max.min(cursor).saturating_sub(self.cursor);
        self.sent_max = self.sent_max.max(cursor);
        self.cursor = cursor;
    }

    /// The peer has all before `offset`. An old word changes nothing.
    pub(crate) fn acknowledge(&mut self, offset: u64) -> Result<(), Malformed> {
        if offset <= self.tail {
            return Ok(());
        }
        if offset > self.sent_max || !self.is_boundary(offset) {
            return Err(Malformed("count of what has come"));
        }
        self.kept.drop_front((offset - self.tail) as usize);
        self.tail = offset;
        self.cursor = self.cursor.max(offset);
        Ok(())
    }

    /// A new line goes on behind `offset`, if what comes there is still kept.
    pub(crate) fn resume(&mut self, offset: u64) -> bool {
        let is_kept = offset >= self.tail && self.acknowledge(offset).is_ok();
        if is_kept {
            self.cursor = offset;
        }
        is_kept
    }

    /// What the peer has not acknowledged, in order: each envelope's head, body and the offset behind it.
    pub(crate) fn envelopes(&self) -> impl Iterator<Item = (Head, &[u8], u64)> {
        let bytes = self.kept.as_slice();
        let mut at = 0;
        std::iter::from_fn(move || {
            let head = head_at(bytes, at)?;
            let end = at + head.envelope_bytes();
            let body = bytes.get(at + HEAD_BYTES..end)?;
            at = end;
            Some((head, body, self.tail + end as u64))
        })
    }

    /// Gives memory back while nothing is kept.
    pub(crate) fn shrink(&mut self) {
        self.kept.shrink();
    }

    /// Envelopes say at which offset they begin.
    fn is_boundary(&self, offset: u64) -> bool {
        offset == self.end()
            || head_at(self.kept.as_slice(), (offset - self.tail) as usize).is_some_and(|head| head.offset == offset)
    }
}

#[inline]
fn head_at(bytes: &[u8], at: usize) -> Option<Head> {
    Head::from_bytes(*bytes.get(at..)?.first_chunk()?).ok()
}
