//! Reads fixed fields and counted slices out of a byte slice, with every length checked.

use model::ProcId;

/// The bytes are not what they should be; the name says which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0}")]
pub struct Malformed(pub &'static str);

/// A cursor over bytes that came from another process.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// If there are fewer.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(Malformed("length"))?;
        self.rest = rest;
        Ok(head)
    }

    /// The next bytes as an array.
    ///
    /// # Errors
    /// If there are fewer.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed("length"))?;
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    ///
    /// # Errors
    /// If none is left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// A process's name.
    ///
    /// # Errors
    /// If the bytes end before it, or are none.
    #[inline]
    pub fn process(&mut self) -> Result<ProcId, Malformed> {
        ProcId::from_u64(self.u64()?).ok_or(Malformed("process"))
    }

    /// A little-endian number.
    ///
    /// # Errors
    /// If the bytes end before it.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// A little-endian number.
    ///
    /// # Errors
    /// If the bytes end before it.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A counted slice: four bytes of length, then the bytes.
    ///
    /// # Errors
    /// If the bytes end before it.
    #[inline]
    pub fn counted(&mut self) -> Result<&'a [u8], Malformed> {
        let count = self.u32()? as usize;
        self.bytes(count)
    }
}
