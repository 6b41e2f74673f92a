//! Identifiers. The public ones have the byte lengths that programs written for Ray expect.
//!
//! Task ids derive from (parent, index). Each run of a parent begins to count its children elsewhere, so that what it makes has names of its
//! own: somebody may still hold what an earlier run made. An object's id is its task's id and the index of the return value.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ProcId;

/// Bytes of the wrong length were offered as an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdLength {
    /// What the id needs.
    pub need: usize,
    /// What was given.
    pub got: usize,
}

impl fmt::Display for IdLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "id needs to have length {}, got {}", self.need, self.got)
    }
}

impl std::error::Error for IdLength {}

const HEX: &[u8; 16] = b"0123456789abcdef";

macro_rules! byte_id {
    ($(#[$doc:meta])* $name:ident, $length:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $length]);

        impl $name {
            /// Length in bytes.
            pub const LENGTH: usize = $length;
            /// The id that names nothing.
            pub const NIL: Self = Self([0xff; $length]);

            /// The id with exactly these bytes.
            ///
            /// # Errors
            /// If there are not exactly `LENGTH` of them.
            pub fn from_slice(bytes: &[u8]) -> Result<Self, IdLength> {
                bytes.try_into().map(Self).map_err(|_| IdLength { need: $length, got: bytes.len() })
            }

            /// The id that `Display` shows like this.
            #[must_use]
            pub fn from_hex(text: &str) -> Option<Self> {
                let digit = |at: usize| char::from(*text.as_bytes().get(at)?).to_digit(16);
                let mut id = Self([0; $length]);
                for (at, byte) in id.0.iter_mut().enumerate() {
                    *byte = (digit(2 * at)? * 16 + digit(2 * at + 1)?) as u8;
                }
                (text.len() == 2 * $length).then_some(id)
            }

            /// Whether this is `NIL`.
            #[must_use]
            pub fn is_nil(&self) -> bool {
                *self == Self::NIL
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut text = [0; 2 * $length];
                for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
                    pair[0] = HEX[usize::from(byte >> 4)];
                    pair[1] = HEX[usize::from(byte & 15)];
                }
                f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(&self.0[..], to)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let bytes = <&[u8]>::deserialize(from)?;
                Self::from_slice(bytes).map_err(serde::de::Error::custom)
            }
        }
    };
}

byte_id!(
    /// One driver's program.
    JobId, 4
);
byte_id!(
    /// One node.
    NodeId, 28
);
byte_id!(
    /// One worker or driver process, as users see it.
    WorkerId, 28
);
byte_id!(
    /// One actor, over all its restarts.
    ActorId, 16
);
byte_id!(
    /// One task, over all its attempts.
    TaskId, 24
);
byte_id!(
    /// One immutable value.
    ObjectId, 28
);
byte_id!(
    /// One placement group.
    GroupId, 18
);
byte_id!(
    /// A function's or class's body, by content.
    FunctionId, 16
);

impl TaskId {
    /// The first task of a job: the driver's own program.
    #[must_use]
    pub fn root(job: JobId, seed: [u8; 16]) -> Self {
        let mut id = [0; 24];
        id[..16].copy_from_slice(&seed);
        id[20..].copy_from_slice(&job.0);
        Self(id)
    }

    /// The id of the `index`-th thing (task, put or actor) that this task makes.
    #[must_use]
    pub fn child(&self, index: u64) -> Self {
        let low = u64::from_le_bytes(self.0[0..8].try_into().expect("eight bytes"));
        let high = u64::from_le_bytes(self.0[8..16].try_into().expect("eight bytes"));
        let mut id = self.0;
        id[0..8].copy_from_slice(&fold(low ^ index, 0x9e37_79b9_7f4a_7c15 ^ high).to_le_bytes());
        id[8..16].copy_from_slice(&fold(high ^ 0xd6e8_feb8_6659_fd93, index.wrapping_add(low) | 1).to_le_bytes());
        Self(id)
    }

    /// The job this task belongs to.
    #[must_use]
    pub fn job(&self) -> JobId {
        JobId([self.0[20], self.0[21], self.0[22], self.0[23]])
    }
}

/// A 64-bit mix whose every output bit depends on every input bit.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a.wrapping_add(0xa076_1d64_78bd_642f)) * u128::from(b ^ 0xe703_7ed1_a0b4_28db);
    let mixed = (product as u64) ^ ((product >> 64) as u64);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0x9fb2_1c65_1e98_df25);
    mixed ^ (mixed >> 28)
}

impl ObjectId {
    /// The `index`-th return value of `task`; index 0 names a put.
    #[must_use]
    pub fn of(task: TaskId, index: u32) -> Self {
        let mut id = [0; 28];
        id[..24].copy_from_slice(&task.0);
        id[24..].copy_from_slice(&index.to_le_bytes());
        Self(id)
    }

    /// The task that makes this object.
    #[must_use]
    pub fn task(&self) -> TaskId {
        TaskId(self.0[..24].try_into().expect("24 bytes"))
    }

    /// Which of its task's values this is.
    #[must_use]
    pub fn index(&self) -> u32 {
        u32::from_le_bytes(self.0[24..].try_into().expect("four bytes"))
    }
}

impl GroupId {
    /// The placement group that `creation` makes.
    #[must_use]
    pub fn of(creation: TaskId) -> Self {
        let mut id = [0; 18];
        id[..14].copy_from_slice(&creation.0[..14]);
        id[14..].copy_from_slice(&creation.0[20..]);
        Self(id)
    }
}

impl ActorId {
    /// The actor that `creation` creates.
    #[must_use]
    pub fn of(creation: TaskId) -> Self {
        let mut id = [0; 16];
        id[..12].copy_from_slice(&creation.0[..12]);
        id[12..].copy_from_slice(&creation.0[20..]);
        Self(id)
    }
}

/// A lease as its owner names it: unique per owner, chosen by the owner, so that a repeat is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseId {
    /// Who asked.
    pub owner: ProcId,
    /// The owner's own number for it.
    pub number: u64,
}

/// A task in its owner's table: slot and generation. It travels in frames as the request id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskKey(pub u64);

impl TaskKey {
    /// From slot and generation.
    #[must_use]
    pub fn new(slot: u32, generation: u32) -> Self {
        Self((u64::from(generation) << 32) | u64::from(slot))
    }

    /// Index into the owner's table.
    #[must_use]
    pub fn slot(self) -> u32 {
        self.0 as u32
    }

    /// Tells one user of the slot from the next.
    #[must_use]
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_one_parent_have_distinct_and_repeatable_ids() {
        let parent = TaskId::root(JobId([1, 0, 0, 0]), [7; 16]);
        let mut seen: Vec<_> = (0..10_000).map(|index| parent.child(index)).collect();
        assert_eq!(seen[5], parent.child(5));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 10_000);
        assert_eq!(seen[0].job(), JobId([1, 0, 0, 0]));
    }

    #[test]
    fn object_id_names_its_task_and_index() {
        let task = TaskId::root(JobId([2, 0, 0, 0]), [3; 16]).child(9);
        let object = ObjectId::of(task, 4);
        assert_eq!((object.task(), object.index()), (task, 4));
        assert_eq!(ObjectId::from_slice(&[0; 27]), Err(IdLength { need: 28, got: 27 }));
    }
}
