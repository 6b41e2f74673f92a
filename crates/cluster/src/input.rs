//! HOT: envelopes out of bytes that come in chunks of any size.

use wire::Malformed;
use wire::session::{HEAD_BYTES, Head, Hello, NoHello, What};

/// What has come of an envelope that is not whole.
#[derive(Default)]
pub(crate) struct Input {
    partial: Vec<u8>,
}

impl Input {
    /// Forgets what came by an earlier line.
    pub(crate) fn clear(&mut self) {
        self.partial.clear();
    }

    /// Calls `each` with every envelope that is whole now. The first error ends it.
    #[inline]
    pub(crate) fn feed<E: From<Malformed>>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Head, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while !self.partial.is_empty() {
            let Some(head) = self.partial.first_chunk::<HEAD_BYTES>() else {
                if !self.fill(HEAD_BYTES, &mut bytes) {
                    return Ok(());
                }
                continue;
            };
            let head = Head::from_bytes(*head)?;
            if !self.fill(head.envelope_bytes(), &mut bytes) {
                return Ok(());
            }
            each(head, &self.partial[HEAD_BYTES..])?;
            self.partial.clear();
        }
        while let Some(head) = bytes.first_chunk::<HEAD_BYTES>() {
            let head = Head::from_bytes(*head)?;
            let Some((envelope, rest)) = bytes.split_at_checked(head.envelope_bytes()) else { break };
            each(head, &envelope[HEAD_BYTES..])?;
            bytes = rest;
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    /// Moves bytes over until there are `count`; says whether there are.
    fn fill(&mut self, count: usize, bytes: &mut &[u8]) -> bool {
        let (head, rest) = bytes.split_at(bytes.len().min(count.saturating_sub(self.partial.len())));
        self.partial.extend_from_slice(head);
        *bytes = rest;
        self.partial.len() >= count
    }
}

/// The hello in what has come by a line that no session has yet, and how many bytes it takes; nothing while it is not whole. What comes behind it
/// belongs to the session.
///
/// # Errors
/// If it is no hello. Where that can be told, the dialling side is answered with [`refusal_of`].
pub fn read_hello(bytes: &[u8]) -> Result<Option<(Hello, usize)>, NoHello> {
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let head = Head::from_bytes(*head)?;
    if head.what != What::Hello {
        return Err(Malformed("hello").into());
    }
    let end = head.envelope_bytes();
    bytes.get(HEAD_BYTES..end).map(|body| Hello::read(body).map(|hello| (hello, end))).transpose()
}
