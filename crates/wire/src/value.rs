//! A value as bytes, whoever wrote it. It begins with the references in it, so that they can be counted by processes that do not know its
//! language: one byte, the kind, in which `HAS_REFS` may be set; if so, a count (4 bytes) and that many references (id: 28 bytes, owner: 8).
//! Then, by kind:
//!
//! | kind | what follows | who reads it |
//! |---|---|---|
//! | `PLAIN` | one plain value, see `plain` | every language |
//! | `PLAIN_COPY` | the same, laid out as in the arena, of which it is a copy | every language |
//! | `REFS` | one byte, `OF_LIST` or `OF_TUPLE`: its items are the references, in their order | every language |
//! | `PICKLE` | count of buffers (4 bytes), length of the pickle (8), then per buffer its position and length (8 each), the pickle, the buffers | Python |
//!
//! Numbers are little-endian. Positions count from the value's first byte. Buffers and arrays are aligned to `STORED_ALIGNMENT` in the arena and
//! to `INLINE_ALIGNMENT` elsewhere.

use crate::{Reader, frame};
use model::{Failure, ObjectId, ProcId};

/// Kind: see `plain`.
pub const PLAIN: u8 = 1;
/// Kind: what Python's pickle wrote.
pub const PICKLE: u8 = 2;
/// Kind: references and nothing else.
pub const REFS: u8 = 3;
/// Kind: a plain value that was copied out of the arena, and is laid out as there.
pub const PLAIN_COPY: u8 = 4;
/// In a list.
pub const OF_LIST: u8 = b'l';
/// In a tuple.
pub const OF_TUPLE: u8 = b't';

/// What arrays and buffers of a value in the arena are aligned to.
pub const STORED_ALIGNMENT: usize = 64;
/// The same in frames and with owners.
pub const INLINE_ALIGNMENT: usize = 8;

/// How a plain value begins. Texts and bytes are counted (4 bytes), containers too, by items; an entry of a mapping is key, then value.
pub mod plain {
    /// Nothing.
    pub const NONE: u8 = b'N';
    /// Yes.
    pub const TRUE: u8 = b'T';
    /// No.
    pub const FALSE: u8 = b'F';
    /// A whole number of 64 bits.
    pub const INT: u8 = b'i';
    /// A number of 64 bits.
    pub const FLOAT: u8 = b'd';
    /// A text in UTF-8.
    pub const STR: u8 = b's';
    /// Bytes.
    pub const BYTES: u8 = b'b';
    /// A sequence that cannot be changed.
    pub const TUPLE: u8 = b't';
    /// A sequence that can.
    pub const LIST: u8 = b'l';
    /// A mapping.
    pub const DICT: u8 = b'm';
    /// Numbers of one type: counted name of the type as numpy writes it (1 byte), count of dimensions (1), each dimension (8 each), length in
    /// bytes (8); the numbers follow at the next multiple of the alignment.
    pub const ARRAY: u8 = b'A';
}

/// Flag in a value's first byte: references follow.
pub const HAS_REFS: u8 = 0x80;
/// Bytes of one reference.
pub const REF_BYTES: usize = 36;

/// Bytes that say how many references there are.
pub const HEAD_BYTES: usize = 5;

/// How long the part of a value is that lists its references, as its first bytes say; zero if it has none.
#[must_use]
pub fn refs_bytes(head: &[u8]) -> usize {
    match head {
        [flags, count @ ..] if flags & HAS_REFS != 0 => {
            let count: Result<[u8; 4], _> = count.get(..4).unwrap_or_default().try_into();
            count.map_or(0, |count| HEAD_BYTES + REF_BYTES * u32::from_le_bytes(count) as usize)
        }
        _ => 0,
    }
}

/// A value that was copied out of the arena or a file, for somebody who cannot read it there.
#[must_use]
pub fn copied(mut value: Vec<u8>) -> Vec<u8> {
    if let Some(kind) = value.first_mut().filter(|kind| **kind & !HAS_REFS == PLAIN) {
        *kind = PLAIN_COPY | (*kind & HAS_REFS);
    }
    value
}

/// The references that an encoded value contains. Nothing if the bytes are no value.
#[must_use]
pub fn refs_of(value: &[u8]) -> Vec<(ObjectId, ProcId)> {
    if value.first().is_none_or(|flags| flags & HAS_REFS == 0) {
        return Vec::new();
    }
    let mut reader = Reader::new(&value[1..]);
    let Ok(count) = reader.u32() else { return Vec::new() };
    refs_from(reader, count as usize)
}

/// The references that were written one behind the other.
#[must_use]
pub fn refs_in_row(bytes: &[u8]) -> Vec<(ObjectId, ProcId)> {
    refs_from(Reader::new(bytes), bytes.len() / REF_BYTES)
}

fn refs_from(mut reader: Reader<'_>, count: usize) -> Vec<(ObjectId, ProcId)> {
    (0..count).map_while(|_| Some((ObjectId(reader.array().ok()?), reader.process().ok()?))).collect()
}

/// The references in what somebody's code raised, also where that is why something else failed. Those in the error of an actor's
/// constructor are not counted: it comes by way of the node, from a process that ends.
#[must_use]
pub fn refs_of_failure(failure: &Failure) -> Vec<(ObjectId, ProcId)> {
    match failure {
        Failure::Raised(error) | Failure::Retryable(error) => refs_of(error),
        Failure::Argument { cause, .. } => refs_of_failure(cause),
        _ => Vec::new(),
    }
}

/// Appends one reference.
pub fn write_ref(to: &mut Vec<u8>, id: &ObjectId, owner: ProcId) {
    to.extend_from_slice(&id.0);
    to.extend_from_slice(&owner.to_u64().to_le_bytes());
}

/// The values that follow one another in these bytes of a frame, as far as they are whole.
pub fn values_in(bytes: &[u8]) -> impl Iterator<Item = frame::Value<'_>> {
    let mut reader = Reader::new(bytes);
    std::iter::from_fn(move || if reader.rest().is_empty() { None } else { frame::Value::read(&mut reader).ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_in_front_of_a_value_are_found_and_measured() {
        let refs = [(ObjectId([7; 28]), ProcId::new(1, 2, 3)), (ObjectId([9; 28]), ProcId::new(1, 4, 5))];
        let mut value = vec![PICKLE | HAS_REFS, 2, 0, 0, 0];
        refs.iter().for_each(|(id, owner)| write_ref(&mut value, id, *owner));
        let length = value.len();
        value.extend_from_slice(b"the rest");
        assert_eq!(length, HEAD_BYTES + 2 * REF_BYTES);
        assert_eq!(refs_bytes(&value[..HEAD_BYTES]), length);
        assert_eq!(refs_of(&value), refs);
    }

    #[test]
    fn a_count_beyond_the_bytes_gives_the_references_that_are_there() {
        let mut value = vec![PLAIN | HAS_REFS, 0xff, 0xff, 0xff, 0xff];
        write_ref(&mut value, &ObjectId([1; 28]), ProcId::new(1, 4, 5));
        assert_eq!(refs_of(&value).len(), 1);
        assert_eq!(refs_of(&[PLAIN]), []);
        assert_eq!(refs_bytes(&[]), 0);
    }
}
