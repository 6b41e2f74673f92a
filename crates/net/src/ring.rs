//! HOT: one ring of frames between two processes, single producer, single consumer.
//!
//! - **RING-1** a frame exists once the tail behind it is published; a writer that dies before that leaves nothing.
//! - **RING-2** the reader takes no length on trust: a frame that does not lie wholly between head and tail breaks the ring,
//!   which is a failure of the peer.
//! - **RING-3** a writer never overwrites what the reader has not released.
//!
//! Positions count bytes since the ring was made and never wrap in practice; a frame lies in one piece, the end of the
//! buffer is filled with a `PAD` frame where the next one would not fit.

use wire::frame::{HEADER_BYTES, Header, PAD};

use crate::claim::CLAIMS;
use crate::sync::{AtomicU32, AtomicU64, Byte, Ordering, copy_in, copy_out};

/// Bytes of frames that a ring holds. A power of two.
pub const RING_BYTES: usize = if cfg!(loom) { 64 } else { 64 * 1024 };

/// What lies before a ring's bytes in shared memory: writer's and reader's position, each on cache lines of its own.
#[repr(C, align(128))]
pub struct RingHead {
    /// Where the writer will write next. Written by the writer only.
    pub tail: AtomicU64,
    _line: [u64; 15],
    /// What the reader has released. Written by the reader only.
    pub head: AtomicU64,
    _line2: [u64; 15],
    /// How many bodies in the arena the reader has taken out. Written by the reader only.
    pub aside_read: AtomicU64,
    _line3: [u64; 15],
    /// See `claim`.
    pub claims: [AtomicU32; CLAIMS],
}

impl RingHead {
    /// A fresh head, for tests that make rings in private memory.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tail: AtomicU64::new(0),
            _line: [0; 15],
            head: AtomicU64::new(0),
            _line2: [0; 15],
            aside_read: AtomicU64::new(0),
            _line3: [0; 15],
            claims: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Makes a used ring fresh again. Nobody else may use it at that time.
    pub fn reset(&self) {
        self.tail.store(0, Ordering::Relaxed);
        self.head.store(0, Ordering::Relaxed);
        self.aside_read.store(0, Ordering::Relaxed);
        self.claims.iter().for_each(|claim| claim.store(0, Ordering::Relaxed));
    }
}

impl Default for RingHead {
    fn default() -> Self {
        Self::new()
    }
}

/// There is no room for the frame now; there may be once the reader has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The ring holds what no honest peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ring broken: {0}")]
pub struct Broken(pub &'static str);

/// The writing end.
pub struct RingWriter {
    shared: *const RingHead,
    bytes: *mut Byte,
    tail: u64,
    head_seen: u64,
}

/// The reading end.
pub struct RingReader {
    shared: *const RingHead,
    bytes: *const Byte,
    head: u64,
    tail_seen: u64,
}

// SAFETY: the pointers lead to memory shared between processes anyway; each end is used by one thread at a time (`&mut self`).
unsafe impl Send for RingWriter {}
// SAFETY: as above.
unsafe impl Send for RingReader {}

fn padded(body: usize) -> usize {
    (HEADER_BYTES + body + 7) & !7
}

impl RingWriter {
    /// Takes over the writing end of the ring at `shared` and `bytes`.
    ///
    /// # Safety
    /// Both point to a ring (`bytes`: `RING_BYTES` of them) that outlives the writer, and there is no other writer.
    #[must_use]
    pub unsafe fn new(shared: *const RingHead, bytes: *mut Byte) -> Self {
        // SAFETY: `shared` is valid by this function's contract.
        let (tail, head_seen) =
            unsafe { ((*shared).tail.load(Ordering::Relaxed), (*shared).head.load(Ordering::Acquire)) };
        Self { shared, bytes, tail, head_seen }
    }

    fn shared(&self) -> &RingHead {
        // SAFETY: valid by the contract of `new`.
        unsafe { &*self.shared }
    }

    /// Writes a frame whose body is `parts` one after the other, and publishes it. The receiver is not woken here.
    ///
    /// # Errors
    /// `Full` if the frame does not fit now.
    #[inline]
    pub fn push(&mut self, header: Header, parts: &[&[u8]]) -> Result<(), Full> {
        self.push_after(header, parts, || ())
    }

    /// As `push`; `before` runs once it is certain that the frame fits, and before anybody can read it.
    ///
    /// # Errors
    /// `Full` if the frame does not fit now: nothing was run.
    #[inline]
    pub fn push_after(&mut self, header: Header, parts: &[&[u8]], before: impl FnOnce()) -> Result<(), Full> {
        debug_assert_eq!(header.length as usize, parts.iter().map(|part| part.len()).sum::<usize>());
        let need = padded(header.length as usize) as u64;
        let at = (self.tail as usize) & (RING_BYTES - 1);
        let pad = if at as u64 + need > RING_BYTES as u64 { RING_BYTES - at } else { 0 };
        if !self.has_room(need + pad as u64) {
            return Err(Full);
        }
        before();
        let mut at = at;
        if pad > 0 {
            let fill =
                Header { length: (pad.saturating_sub(HEADER_BYTES)) as u32, kind: PAD, flags: 0, claim: 0, request: 0 };
            // A pad may be as short as 8 bytes: only the header's first half, which says that it is one.
            self.copy(at, &fill.to_bytes()[..8]);
            self.tail += pad as u64;
            at = 0;
        }
        self.copy(at, &header.to_bytes());
        at += HEADER_BYTES;
        for part in parts {
            self.copy(at, part);
            at += part.len();
        }
        self.tail += need;
        self.shared().tail.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Bytes written since the ring was made.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.tail
    }

    /// How many of them the reader has taken out.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.shared().head.load(Ordering::Acquire)
    }

    /// How many bodies in the arena the reader has taken out.
    #[must_use]
    pub fn aside_read(&self) -> u64 {
        self.shared().aside_read.load(Ordering::Acquire)
    }

    /// Frames that the reader has not taken out and, since it is dead, never will.
    #[must_use]
    pub fn unread(&self) -> Vec<(Header, Vec<u8>)> {
        let mut frames = Vec::new();
        let mut at = self.taken();
        while at < self.tail && self.tail - at <= RING_BYTES as u64 {
            let here = (at as usize) & (RING_BYTES - 1);
            let to_end = RING_BYTES - here;
            let mut raw = [0_u8; HEADER_BYTES];
            // SAFETY: the range lies inside the ring. Its bytes are our own: nobody else writes to it.
            unsafe { copy_out(self.bytes.add(here).cast_const(), raw.as_mut_ptr(), to_end.min(HEADER_BYTES)) };
            let header = Header::from_bytes(raw);
            let size = if header.kind == PAD { to_end } else { padded(header.length as usize) };
            if size > to_end {
                break;
            }
            if header.kind != PAD {
                let mut body = vec![0; header.length as usize];
                // SAFETY: as above; the frame ends before the ring does.
                unsafe { copy_out(self.bytes.add(here + HEADER_BYTES).cast_const(), body.as_mut_ptr(), body.len()) };
                frames.push((header, body));
            }
            at += size as u64;
        }
        frames
    }

    #[inline]
    fn has_room(&mut self, need: u64) -> bool {
        if self.tail + need - self.head_seen <= RING_BYTES as u64 {
            return true;
        }
        self.head_seen = self.shared().head.load(Ordering::Acquire);
        // A reader that claims to have read what was never written is lying; treat the ring as full for ever.
        self.head_seen <= self.tail && self.tail + need - self.head_seen <= RING_BYTES as u64
    }

    #[inline]
    fn copy(&self, at: usize, from: &[u8]) {
        debug_assert!(at + from.len() <= RING_BYTES);
        // SAFETY: `at + len <= RING_BYTES` by the arithmetic above, and RING-3 keeps the reader out of that range.
        unsafe { copy_in(from, self.bytes.add(at)) };
    }
}

impl RingReader {
    /// Takes over the reading end of the ring at `shared` and `bytes`.
    ///
    /// # Safety
    /// Both point to a ring (`bytes`: `RING_BYTES` of them) that outlives the reader, and there is no other reader.
    #[must_use]
    pub unsafe fn new(shared: *const RingHead, bytes: *const Byte) -> Self {
        // SAFETY: `shared` is valid by this function's contract.
        let head = unsafe { (*shared).head.load(Ordering::Relaxed) };
        Self { shared, bytes, head, tail_seen: head }
    }

    fn shared(&self) -> &RingHead {
        // SAFETY: valid by the contract of `new`.
        unsafe { &*self.shared }
    }

    /// The claim words of this ring.
    #[must_use]
    pub fn claims(&self) -> *const [AtomicU32; CLAIMS] {
        &raw const self.shared().claims
    }

    /// Copies the next frame's body behind what is in `body` already and returns its header; `None` if there is none yet.
    /// The frame's room is released at once.
    ///
    /// # Errors
    /// `Broken` if what lies there is no frame (RING-2); the ring must not be read any more.
    #[inline]
    pub fn pop(&mut self, body: &mut Vec<u8>) -> Result<Option<Header>, Broken> {
        loop {
            if self.head == self.tail_seen {
                self.tail_seen = self.shared().tail.load(Ordering::Acquire);
                if self.head == self.tail_seen {
                    return Ok(None);
                }
            }
            let there = self.tail_seen.wrapping_sub(self.head);
            if there > RING_BYTES as u64 || there < 8 {
                return Err(Broken("tail"));
            }
            let at = (self.head as usize) & (RING_BYTES - 1);
            let to_end = RING_BYTES - at;
            let mut raw = [0_u8; HEADER_BYTES];
            let known = to_end.min(HEADER_BYTES);
            // SAFETY: `at + known <= RING_BYTES`.
            unsafe { copy_out(self.bytes.add(at), raw.as_mut_ptr(), known) };
            let header = Header::from_bytes(raw);
            if header.kind == PAD {
                if to_end as u64 > there {
                    return Err(Broken("pad"));
                }
                self.head += to_end as u64;
                self.shared().head.store(self.head, Ordering::Release);
                continue;
            }
            let size = padded(header.length as usize);
            if size > to_end || size as u64 > there {
                return Err(Broken("length"));
            }
            let start = body.len();
            body.reserve(header.length as usize);
            // SAFETY: the range lies inside the ring (checked above) and inside the vector's reserved room.
            unsafe {
                let from = self.bytes.add(at + HEADER_BYTES);
                copy_out(from, body.as_mut_ptr().add(start), header.length as usize);
                body.set_len(start + header.length as usize);
            }
            self.head += size as u64;
            self.shared().head.store(self.head, Ordering::Release);
            return Ok(Some(header));
        }
    }

    /// A body that lay in the arena was taken out: the writer may free it.
    pub fn took_aside(&mut self) {
        self.shared().aside_read.fetch_add(1, Ordering::Release);
    }

    /// Bytes read since the ring was made.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.head
    }

    /// Whether a frame waits.
    #[must_use]
    #[inline]
    pub fn has_frame(&self) -> bool {
        self.head != self.shared().tail.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "ring_tests.rs"]
mod tests;
