//! How an encoded value begins: with the references it contains, so that they can be counted without Python.
//!
//! One byte of flags; if `HAS_REFS` is set, a count (4 bytes) and that many references (id: 28 bytes, owner: 8). What follows is the
//! face's own encoding.

use model::{Failure, ObjectId, ProcId};
use wire::{Reader, frame};

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

/// The references that an encoded value contains. Nothing if the bytes are no value.
#[must_use]
pub fn refs_of(value: &[u8]) -> Vec<(ObjectId, ProcId)> {
    if value.first().is_none_or(|flags| flags & HAS_REFS == 0) {
        return Vec::new();
    }
    let mut reader = Reader::new(&value[1..]);
    let Ok(count) = reader.u32() else { return Vec::new() };
    (0..count).map_while(|_| Some((ObjectId(reader.array().ok()?), ProcId::from_u64(reader.u64().ok()?)))).collect()
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
