//! A sealed object as its readers see it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::Place;
use crate::client::Inner;

/// The bytes of a pinned object, in situ. Reading takes no lock. Clones share the pin, which goes with the last of
/// them; until then the bytes stay, whoever frees the object and whoever dies (STORE-3).
#[derive(Clone)]
pub struct View {
    pin: Arc<Pin>,
}

pub(crate) struct Pin {
    pub(crate) inner: Arc<Inner>,
    pub(crate) key: u64,
    pub(crate) place: Place,
}

impl View {
    pub(crate) fn new(pin: Pin) -> Self {
        Self { pin: Arc::new(pin) }
    }

    /// Where the object lies.
    pub fn place(&self) -> Place {
        self.pin.place
    }

    /// The first byte; valid as long as this view or a clone of it lives.
    pub fn as_ptr(&self) -> *const u8 {
        self.pin.inner.data.at(self.pin.place.offset).as_ptr()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.pin.place.length as usize
    }

    /// True for an object of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The object.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `Client::pin` has checked that the place is inside the mapping, which `pin.inner` keeps. Its pages
        // are readable always. Nobody writes to a sealed object while it is pinned (STORE-3).
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len()) }
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
        f.debug_tuple("View").field(&self.pin.place).finish()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.inner.unpin(self.key);
    }
}
