//! A sealed object as its readers see it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use memmap2::Mmap;

use crate::Place;
use crate::client::Inner;

/// The bytes of an object, in situ: pinned in the arena, or mapped from a file. Reading takes no lock. Clones share the pin, which goes with
/// the last of them; until then the bytes stay, whoever frees the object and whoever dies (STORE-3).
#[derive(Clone)]
pub struct View {
    bytes: Bytes,
}

#[derive(Clone)]
enum Bytes {
    Pinned(Arc<Pin>),
    Filed(Arc<Mmap>),
}

pub(crate) struct Pin {
    pub(crate) inner: Arc<Inner>,
    pub(crate) key: u64,
    pub(crate) place: Place,
}

impl View {
    pub(crate) fn new(pin: Pin) -> Self {
        Self { bytes: Bytes::Pinned(Arc::new(pin)) }
    }

    pub(crate) fn filed(map: Arc<Mmap>) -> Self {
        Self { bytes: Bytes::Filed(map) }
    }

    /// Where in the arena the object lies, if it lies there.
    pub fn place(&self) -> Option<Place> {
        match &self.bytes {
            Bytes::Pinned(pin) => Some(pin.place),
            Bytes::Filed(_) => None,
        }
    }

    /// The first byte; valid as long as this view or a clone of it lives.
    pub fn as_ptr(&self) -> *const u8 {
        match &self.bytes {
            Bytes::Pinned(pin) => pin.inner.data.at(pin.place.offset).as_ptr(),
            Bytes::Filed(map) => map.as_ptr(),
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        match &self.bytes {
            Bytes::Pinned(pin) => pin.place.length as usize,
            Bytes::Filed(map) => map.len(),
        }
    }

    /// True for an object of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The object.
    pub fn as_slice(&self) -> &[u8] {
        match &self.bytes {
            // SAFETY: `Client::pin` has checked that the place is inside the mapping, which `pin.inner` keeps. Its pages
            // are readable always. Nobody writes to a sealed object while it is pinned (STORE-3).
            Bytes::Pinned(_) => unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len()) },
            Bytes::Filed(map) => map,
        }
    }
}

impl Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("bytes", &self.len()).finish()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.inner.unpin(self.key);
    }
}
