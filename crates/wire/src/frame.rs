//! HOT: the frames that travel in rings, once per call and once per reply.
//!
//! A frame is a 16-byte header and a body, padded to 8 bytes. Bodies larger than `FRAME_BYTES_MAX` lie in the
//! arena; the frame then holds only their place (`ASIDE`).
//!
//! | kind | body |
//! |---|---|
//! | `DEFINE` | `number: u32`, then a postcard `Template`: later calls on this ring name it by number. Numbers count up; zero forgets those before |
//! | `CALL` | `claim word: u32`, `template: u32`, `task id: 24`, counted payload, then values, one per dependency |
//! | `REPLY` | `count: u32`, that many values, then references that the worker keeps (id: 28, owner: 8, borrower: 8 bytes each) |
//! | `ITEM` | one value that the call has yielded; they come in order, all before the reply |
//! | `CONSUMED` | `count: u32`: so many of the request's items were read; the most there can be: nobody reads any more |
//! | `TAKE_BACK` | none: the call is wanted back, if it has not started. Only to processes of other nodes, whose claim words cannot be reached |
//!
//! A value is one byte of kind. Behind it: counted bytes if it is inline, an error or a failure; a place if it lies in the arena; and if it lies
//! in a file, who wrote that file, its number and folder, then offset, length and checksum. A place is offset, length and serial, 8 bytes each.
//! One that lies on another node is said as that node would say it, followed by the references in it, counted by their bytes.

use model::{Bulk, Failure, FileId, Filed, ObjectId, Place, ProcId, TaskId};
use serde::{Deserialize, Serialize};

use crate::{Malformed, Reader};

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 16;
/// A body larger than this goes through the arena, so that a ring always holds several frames.
pub const FRAME_BYTES_MAX: usize = 12 * 1024;

/// Fills the end of the ring when the next frame would not fit there in one piece.
pub const PAD: u8 = 1;
/// Names a template.
pub const DEFINE: u8 = 2;
/// Runs something.
pub const CALL: u8 = 3;
/// What came of a call.
pub const REPLY: u8 = 4;
/// One value that a call yields while it runs.
pub const ITEM: u8 = 5;
/// How far the reader of a call's items is.
pub const CONSUMED: u8 = 6;
/// Asks for a call back.
pub const TAKE_BACK: u8 = 7;

/// Flag: the body is the place in the arena where the real body lies.
pub const ASIDE: u8 = 1;

/// Flag of a reply: the worker has not started the call and gives it back, since it is about to wait for something.
pub const GIVEN_BACK: u8 = 2;

/// Flag of a reply or an item: its sender has counted it among what it gives to this receiver (`Peer::Given`).
pub const GIFT: u8 = 4;

/// Flag of what goes to another node: the body begins with a list of processes (`count: u32`, then 8 bytes each). These the sender knew to be
/// dead when it registered what the frame gives away, of all that the frame names.
pub const KNEW: u8 = 8;

/// Flag of a reply from another node: whoever was called is dead, of which the caller hears next, and has certainly not started this call.
pub const UNSTARTED: u8 = 16;

/// Flag of a reply that gives a call back, from another node: its caller had asked for it. Its worker takes others.
pub const WANTED_BACK: u8 = 32;

/// What stands before every body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Bytes of the body.
    pub length: u32,
    /// One of the kinds above.
    pub kind: u8,
    /// `ASIDE`, `GIVEN_BACK`, `GIFT`, `KNEW`, `UNSTARTED`, `WANTED_BACK`.
    pub flags: u8,
    /// Of a call: the index of its claim word in its ring. Of a reply or item to a process of the same node: how many processes that left
    /// something the sender knew to be dead when it registered what the frame gives away.
    pub claim: u16,
    /// The sender's id for the request; a reply repeats it.
    pub request: u64,
}

impl Header {
    /// As it lies in the ring.
    #[must_use]
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4] = self.kind;
        bytes[5] = self.flags;
        bytes[6..8].copy_from_slice(&self.claim.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.request.to_le_bytes());
        bytes
    }

    /// The inverse of `to_bytes`.
    #[must_use]
    #[inline]
    pub fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Self {
        Self {
            length: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            kind: bytes[4],
            flags: bytes[5],
            claim: u16::from_le_bytes([bytes[6], bytes[7]]),
            request: u64::from_le_bytes([
                bytes[8], bytes[9], bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15],
            ]),
        }
    }
}

/// Puts such a list before a body (see `KNEW`).
#[must_use]
pub fn with_list(dead: &[ProcId], body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + 8 * dead.len() + body.len());
    bytes.extend_from_slice(&(dead.len() as u32).to_le_bytes());
    dead.iter().for_each(|process| bytes.extend_from_slice(&process.to_u64().to_le_bytes()));
    bytes.extend_from_slice(body);
    bytes
}

/// Such a list, if there is one, and the body behind it.
///
/// # Errors
/// If there should be one and is none.
pub fn split_list(flags: u8, body: &[u8]) -> Result<(Vec<ProcId>, &[u8]), Malformed> {
    if flags & KNEW == 0 {
        return Ok((Vec::new(), body));
    }
    let mut reader = Reader::new(body);
    let count = reader.u32()? as usize;
    if count > reader.rest().len() / 8 {
        return Err(Malformed("list of the dead"));
    }
    let dead = (0..count).map(|_| reader.process()).collect::<Result<_, _>>()?;
    Ok((dead, reader.rest()))
}

/// The references that a reply says are kept beyond its call: which, who owns it, who keeps it.
///
/// # Errors
/// If the bytes are no reply.
pub fn kept_in(reply: &[u8]) -> Result<Vec<(ObjectId, ProcId, ProcId)>, Malformed> {
    let mut reader = Reader::new(reply);
    for _ in 0..reader.u32()? {
        Value::read(&mut reader)?;
    }
    let mut kept = Vec::new();
    while !reader.rest().is_empty() {
        kept.push((ObjectId(reader.array()?), reader.process()?, reader.process()?));
    }
    Ok(kept)
}

/// One value inside a call or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The value itself, encoded.
    Inline(&'a [u8]),
    /// Where it lies, in the arena or in a file.
    Bulk(Bulk),
    /// Where it lies on another node, which keeps it for the receiver; and the references in it, one behind the other.
    Away {
        /// Its name, wherever it is by now.
        bulk: Bulk,
        /// As `value::write_ref` writes them.
        refs: &'a [u8],
    },
    /// The user's code raised; the error as a value. The flag: the call wants it tried again.
    Raised {
        /// The error, encoded as a value.
        error: &'a [u8],
        /// Whether the call's filter of exceptions to retry matched.
        retry: bool,
    },
    /// The system failed; a postcard `Failure`.
    Failed(&'a [u8]),
}

const INLINE: u8 = 0;
const STORED: u8 = 1;
const RAISED: u8 = 2;
const RAISED_RETRY: u8 = 3;
const FAILED: u8 = 4;
const FILED: u8 = 5;
const AWAY: u8 = 6;

impl<'a> Value<'a> {
    /// Appends the value to a body.
    #[inline]
    pub fn write(self, body: &mut Vec<u8>) {
        match self {
            Self::Inline(bytes) => put_counted(body, INLINE, bytes),
            Self::Bulk(Bulk::Stored(place)) => {
                body.push(STORED);
                write_place(place, body);
            }
            Self::Bulk(Bulk::Filed(Filed { file, offset, length, check })) => {
                body.push(FILED);
                body.extend_from_slice(&file.by.to_u64().to_le_bytes());
                body.extend_from_slice(&file.number.to_le_bytes());
                body.extend_from_slice(&u32::from(file.folder).to_le_bytes());
                [offset, length].into_iter().for_each(|number| body.extend_from_slice(&number.to_le_bytes()));
                body.extend_from_slice(&check.to_le_bytes());
            }
            Self::Away { bulk, refs } => {
                body.push(AWAY);
                Self::Bulk(bulk).write(body);
                body.extend_from_slice(&(refs.len() as u32).to_le_bytes());
                body.extend_from_slice(refs);
            }
            Self::Raised { error, retry } => put_counted(body, if retry { RAISED_RETRY } else { RAISED }, error),
            Self::Failed(bytes) => put_counted(body, FAILED, bytes),
        }
    }

    /// Appends a small value, which `write` appends to the body; nothing if that says no.
    #[inline]
    pub fn write_inline(body: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let start = body.len();
        body.push(INLINE);
        body.extend_from_slice(&[0; 4]);
        let is_written = write(body);
        if is_written {
            let length = (body.len() - start - 5) as u32;
            body[start + 1..start + 5].copy_from_slice(&length.to_le_bytes());
        } else {
            body.truncate(start);
        }
        is_written
    }

    /// Appends a failure of the system.
    pub fn write_failure(failure: &Failure, body: &mut Vec<u8>) {
        Value::Failed(&crate::encode(failure)).write(body);
    }

    /// The next value of a body if it is an inline one, as most are: `read` takes any, through a larger result.
    ///
    /// # Errors
    /// If the bytes are no value.
    #[inline]
    pub fn read_inline(from: &mut Reader<'a>) -> Result<Option<&'a [u8]>, Malformed> {
        if from.rest().first() != Some(&INLINE) {
            return Ok(None);
        }
        from.u8()?;
        from.counted().map(Some)
    }

    /// The next value of a body.
    ///
    /// # Errors
    /// If the bytes are no value.
    #[inline]
    pub fn read(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            INLINE => Self::Inline(from.counted()?),
            STORED => Self::Bulk(Bulk::Stored(read_place(from)?)),
            FILED => {
                let by = from.process()?;
                let (number, folder) = (from.u32()?, from.u32()?);
                let folder = u16::try_from(folder).map_err(|_| Malformed("folder"))?;
                let file = FileId { by, number, folder };
                Self::Bulk(Bulk::Filed(Filed { file, offset: from.u64()?, length: from.u64()?, check: from.u32()? }))
            }
            AWAY => {
                // No deeper than this: whoever sends nonsense does not choose how far this recurses.
                let is_bulk = matches!(from.rest().first(), Some(&(STORED | FILED)));
                match if is_bulk { Self::read(from)? } else { return Err(Malformed("value of another node")) } {
                    Self::Bulk(bulk) => Self::Away { bulk, refs: from.counted()? },
                    _ => return Err(Malformed("value of another node")),
                }
            }
            RAISED => Self::Raised { error: from.counted()?, retry: false },
            RAISED_RETRY => Self::Raised { error: from.counted()?, retry: true },
            FAILED => Self::Failed(from.counted()?),
            _ => return Err(Malformed("value")),
        })
    }
}

/// Appends where something lies in the arena.
#[inline]
pub fn write_place(place: Place, body: &mut Vec<u8>) {
    for number in [place.offset, place.length, place.serial] {
        body.extend_from_slice(&number.to_le_bytes());
    }
}

/// The inverse of `write_place`.
///
/// # Errors
/// If there are not enough bytes.
#[inline]
pub fn read_place(from: &mut Reader<'_>) -> Result<Place, Malformed> {
    Ok(Place { offset: from.u64()?, length: from.u64()?, serial: from.u64()? })
}

#[inline]
fn put_counted(body: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    body.push(kind);
    body.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    body.extend_from_slice(bytes);
}

/// The fixed part of a call's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// What the claim word holds while the call waits; see `net::claim`.
    pub claim_word: u32,
    /// A template that was defined on this ring.
    pub template: u32,
    /// The task.
    pub task: TaskId,
    /// Arguments, encoded; opaque here.
    pub payload: &'a [u8],
}

impl<'a> Call<'a> {
    /// Where in a call's body its payload begins: behind claim word, template, task and the payload's length.
    pub const PAYLOAD_AT: usize = 4 + 4 + TaskId::LENGTH + 4;

    /// Appends everything but the dependencies.
    #[inline]
    pub fn write(&self, body: &mut Vec<u8>) {
        body.reserve(Self::PAYLOAD_AT + self.payload.len());
        body.extend_from_slice(&self.claim_word.to_le_bytes());
        body.extend_from_slice(&self.template.to_le_bytes());
        body.extend_from_slice(&self.task.0);
        body.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        body.extend_from_slice(self.payload);
    }

    /// Reads it; what is left in the reader are the dependencies' values.
    ///
    /// # Errors
    /// If the bytes are no call.
    #[inline]
    pub fn read(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            claim_word: from.u32()?,
            template: from.u32()?,
            task: TaskId(from.array()?),
            payload: from.counted()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn header_survives_the_round_trip_and_its_bytes_are_fixed() {
        let header =
            Header { length: 0x0102_0304, kind: CALL, flags: ASIDE, claim: 0x0506, request: 0x0708_090a_0b0c_0d0e };
        let bytes = header.to_bytes();
        assert_eq!(bytes, [4, 3, 2, 1, 3, 1, 6, 5, 14, 13, 12, 11, 10, 9, 8, 7]);
        assert_eq!(Header::from_bytes(bytes), header);
    }

    #[test]
    fn call_and_values_survive_the_round_trip() {
        let mut body = Vec::new();
        let call = Call { claim_word: 5, template: 7, task: TaskId([9; 24]), payload: b"args" };
        call.write(&mut body);
        let values = [
            Value::Inline(b"one"),
            Value::Bulk(Bulk::Stored(Place { offset: 64, length: 1 << 40, serial: 3 })),
            Value::Bulk(Bulk::Filed(Filed {
                file: FileId { by: ProcId::new(1, 1023, 9), number: 77, folder: 2 },
                offset: 4096,
                length: 1 << 40,
                check: 0xdead_beef,
            })),
            Value::Away {
                bulk: Bulk::Stored(Place { offset: 64, length: 1 << 20, serial: 9 << 40 }),
                refs: &[7; value::REF_BYTES],
            },
            Value::Raised { error: b"boom", retry: true },
        ];
        values.iter().for_each(|value| value.write(&mut body));
        let mut reader = Reader::new(&body);
        assert_eq!(Call::read(&mut reader), Ok(call));
        for value in values {
            let inline = Value::read_inline(&mut reader).expect("values");
            match inline {
                Some(bytes) => assert_eq!(Value::Inline(bytes), value),
                None => assert_eq!(Value::read(&mut reader), Ok(value)),
            }
            assert_eq!(inline.is_some(), matches!(value, Value::Inline(_)));
        }
        assert_eq!(reader.rest(), b"");
    }

    #[test]
    fn truncated_bytes_are_refused_at_every_length() {
        let mut body = Vec::new();
        Call { claim_word: 1, template: 2, task: TaskId([3; 24]), payload: b"payload" }.write(&mut body);
        for end in 0..body.len() {
            assert!(Call::read(&mut Reader::new(&body[..end])).is_err(), "{end} bytes were taken for a call");
        }
    }
}
