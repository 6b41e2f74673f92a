//! HOT: a small value's bytes. Most are a number or a short text, for which a pointer and an allocation of its own would be most of the cost.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// So many bytes lie in place.
const FEW_MAX: usize = 22;

/// Bytes: a few in place, more behind a pointer that clones share.
#[derive(Clone)]
pub enum Packed {
    /// How many, and they.
    Few(u8, [u8; FEW_MAX]),
    /// Shared.
    Many(Arc<[u8]>),
}

impl From<&[u8]> for Packed {
    #[inline]
    fn from(bytes: &[u8]) -> Self {
        if bytes.len() > FEW_MAX {
            return Self::Many(Arc::from(bytes));
        }
        let mut few = [0; FEW_MAX];
        few[..bytes.len()].copy_from_slice(bytes);
        Self::Few(bytes.len() as u8, few)
    }
}

impl From<Vec<u8>> for Packed {
    #[inline]
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.len() > FEW_MAX { Self::Many(Arc::from(bytes)) } else { Self::from(&bytes[..]) }
    }
}

impl Deref for Packed {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Few(count, bytes) => &bytes[..usize::from(*count)],
            Self::Many(bytes) => bytes,
        }
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Packed {}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
