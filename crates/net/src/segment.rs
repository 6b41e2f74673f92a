//! The shared memory of one node: a page about spinning, the process table, the rings.
//!
//! One memfd, mapped once by each process. It is sparse: what nobody touched costs nothing. Rings are named by number, so that giving a
//! pair of processes its rings is a message and neither a descriptor nor a mapping.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::claim::{Claims, TheirClaims};
use crate::ring::{RING_BYTES, RingHead, RingReader, RingWriter};
use crate::spin::SpinPage;
use crate::sync::{AtomicI32, AtomicU32, AtomicU64, Byte, Ordering};

/// Processes at once.
pub const PROCS_MAX: u16 = 4096;
/// In the process table: what stands for all processes of other nodes, and is rung for them. No process has it.
pub const CARRIER_SLOT: u16 = PROCS_MAX - 1;
/// Rings at once: two for each pair of processes that there can be, one for each that calls itself. So nobody ever has to wait for rings.
pub const RINGS_MAX: u32 = PROCS_MAX as u32 * PROCS_MAX as u32;
/// Where address space is limited (`ulimit -v`, or by what the processor can address) there are fewer, but not less than these.
const RINGS_LEAST: u32 = 1024;
/// One part in so many of the address space is for rings, where that is limited. A driver with a node inside maps them twice.
const SHARE_OF_ADDRESSES: u64 = 16;
/// Rings that one process can read: the bits of its ready map. One for every other process there can be.
pub const RINGS_PER_PROC: u16 = if cfg!(loom) { 128 } else { PROCS_MAX };
/// The words of a ready map behind the first one, each of which has a bit in the entry's summary.
const FURTHER_WORDS: usize = RINGS_PER_PROC as usize / 64 - 1;

const HEAD_BYTES: usize = 4096;
const PROC_BYTES: usize = 256;
const FURTHER_BYTES: usize = 512;
const RING_STRIDE: usize = RING_BYTES + 4096;
const FURTHER_AT: usize = HEAD_BYTES + PROC_BYTES * PROCS_MAX as usize;
const RINGS_AT: usize = FURTHER_AT + FURTHER_BYTES * PROCS_MAX as usize;

#[cfg(not(loom))]
const _: () = assert!(size_of::<ProcEntry>() == PROC_BYTES && size_of::<RingHead>() <= 4096);
#[cfg(not(loom))]
const _: () = assert!(size_of::<SpinPage>() <= HEAD_BYTES && size_of::<Further>() == FURTHER_BYTES);
const _: () = assert!(FURTHER_WORDS < 64 && RINGS_AT.is_multiple_of(4096));

/// One process, as its peers see it.
///
/// Which of its rings have frames stands in the first words, set by senders and swapped to zero by the process: the rings below 64
/// in `ready`, and in `further` which words of its `Further` to look at. A look costs one cache line.
#[repr(C, align(128))]
pub struct ProcEntry {
    /// Of the rings below 64: which have frames.
    pub ready: AtomicU64,
    /// Of the others: which words of their map have bits.
    pub further: AtomicU64,
    /// Counts rings of the doorbell; the process sleeps on it.
    pub bell: AtomicU32,
    /// Non-zero: somebody in the process sleeps and wants to be woken.
    pub asleep: AtomicU32,
    /// 0 free, 1 alive, 2 dead.
    pub state: AtomicU32,
    /// Of the process.
    pub pid: AtomicI32,
    /// Counts the leases that its node gave to this worker; written by the node before the lease's owner hears of it. What a lease
    /// gives comes by the socket, and the first call through a ring may overtake it.
    pub assignments: AtomicU64,
    /// The core, counted from one, on which a thread of the process last waited for calls of its own while none was idle.
    pub waits_on: AtomicU32,
    /// What a worker does, see `Duty`; written by the process.
    duty: AtomicU32,
    /// Non-zero: others would lose something with the process; written by the process when it has run a task.
    is_needed: AtomicU32,
    /// Until when a call is announced, in the low bits of microseconds; written by callers. See `bell`.
    pub(crate) announced: AtomicU32,
    /// What the process runs, for people; written by the process.
    label: [AtomicU64; LABEL_WORDS],
}

const LABEL_WORDS: usize = 11;

/// The ready map of a process from ring 64 on. It lies apart from the entry: few processes have so many peers, and what nobody touched
/// takes no memory.
#[repr(C, align(128))]
pub struct Further {
    pub(crate) words: [AtomicU64; FURTHER_WORDS],
}

impl Further {
    /// An empty one, for tests that sleep and ring in private memory.
    #[cfg(all(test, loom))]
    pub(crate) fn new() -> Self {
        Self { words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

/// What a worker of tasks does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Nothing.
    Idle = 0,
    /// A task that is not run again if its worker dies.
    Final = 1,
    /// One that is.
    Retriable = 2,
}

impl ProcEntry {
    /// A fresh entry, for tests that sleep and ring in private memory.
    #[cfg(all(test, loom))]
    pub(crate) fn new() -> Self {
        Self {
            ready: AtomicU64::new(0),
            further: AtomicU64::new(0),
            bell: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
            state: AtomicU32::new(1),
            pid: AtomicI32::new(0),
            assignments: AtomicU64::new(0),
            waits_on: AtomicU32::new(0),
            duty: AtomicU32::new(0),
            is_needed: AtomicU32::new(0),
            announced: AtomicU32::new(0),
            label: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Says what kind of thing the process does from now on. Only the process itself may.
    #[inline]
    pub fn set_duty(&self, duty: Duty) {
        let begun = (self.duty.load(Ordering::Relaxed) >> 2).wrapping_add(u32::from(duty != Duty::Idle));
        self.duty.store((begun << 2) | duty as u32, Ordering::Relaxed);
    }

    /// How many things it has begun, modulo some, and what kind of thing it does.
    #[must_use]
    pub fn duty(&self) -> (u32, Duty) {
        let word = self.duty.load(Ordering::Relaxed);
        let duty = match word & 3 {
            0 => Duty::Idle,
            1 => Duty::Final,
            _ => Duty::Retriable,
        };
        (word >> 2, duty)
    }

    /// Says whether others would lose something with this process. Only the process itself may.
    #[inline]
    pub fn set_needed(&self, is_needed: bool) {
        self.is_needed.store(u32::from(is_needed), Ordering::Relaxed);
    }

    /// What the process last said about that.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.is_needed.load(Ordering::Relaxed) != 0
    }

    /// Says what the process runs. Cut to what fits.
    pub fn set_label(&self, label: &str) {
        let bytes = label.as_bytes();
        for (index, word) in self.label.iter().enumerate() {
            let mut raw = [0_u8; 8];
            let rest = bytes.get(index * 8..).unwrap_or_default();
            let count = rest.len().min(8);
            raw[..count].copy_from_slice(&rest[..count]);
            word.store(u64::from_le_bytes(raw), Ordering::Relaxed);
            if count < 8 {
                return;
            }
        }
    }

    /// What the process runs.
    #[must_use]
    pub fn label(&self) -> String {
        let bytes: Vec<u8> = self
            .label
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// This process's ends of the two rings between it and a peer.
pub struct Duplex {
    /// To the peer.
    pub writer: RingWriter,
    /// From the peer.
    pub reader: RingReader,
    /// For calls to the peer.
    pub claims: Claims,
    /// For calls from the peer.
    pub their_claims: TheirClaims,
    _mapped: Arc<Segment>,
}

/// A mapping of the segment.
pub struct Segment {
    base: NonNull<u8>,
    rings: u32,
    fd: OwnedFd,
}

// SAFETY: the mapping is shared memory made of atomics and of ring bytes whose use the ring ends order.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// A new, empty segment.
    ///
    /// # Errors
    /// If the system gives no memory.
    pub fn create() -> rustix::io::Result<Self> {
        Self::create_within(rings_within(address_space_max()), Self::create_with)
    }

    /// With so many rings, or as many as there are addresses for: that is known once it was tried.
    fn create_within(rings_max: u32, create: impl Fn(u32) -> rustix::io::Result<Self>) -> rustix::io::Result<Self> {
        let mut rings = rings_max;
        loop {
            match create(rings) {
                Err(rustix::io::Errno::NOMEM | rustix::io::Errno::FBIG | rustix::io::Errno::INVAL)
                    if rings > RINGS_LEAST =>
                {
                    rings = (rings / 4).max(RINGS_LEAST);
                }
                tried => return tried,
            }
        }
    }

    fn create_with(rings: u32) -> rustix::io::Result<Self> {
        let fd = memfd_create("eagleray-segment", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, bytes_with(rings) as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        // A driver with a node inside maps it twice: that must be possible, too.
        drop(Self::attach(fd.try_clone().map_err(|_| rustix::io::Errno::MFILE)?)?);
        Self::attach(fd)
    }

    /// Maps the segment behind `fd`.
    ///
    /// # Errors
    /// If it is no segment of this version.
    pub fn attach(fd: OwnedFd) -> rustix::io::Result<Self> {
        let bytes = rustix::fs::fstat(&fd)?.st_size as usize;
        let rings = (bytes.saturating_sub(RINGS_AT) / RING_STRIDE) as u32;
        if rings == 0 || rings > RINGS_MAX || bytes_with(rings) != bytes {
            return Err(rustix::io::Errno::INVAL);
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base =
            unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &fd, 0)? };
        // A forked child of the user's must not write into our rings, and a core file need not go through them.
        // SAFETY: the range was mapped just now.
        let _ = unsafe {
            (libc::madvise(base, bytes, libc::MADV_DONTFORK), libc::madvise(base, bytes, libc::MADV_DONTDUMP))
        };
        Ok(Self { base: NonNull::new(base.cast()).expect("mmap never returns null"), rings, fd })
    }

    /// How many rings it has.
    #[must_use]
    pub fn rings(&self) -> u32 {
        self.rings
    }

    /// To be handed to other processes.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < bytes_with(self.rings));
        // SAFETY: inside the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// The page about spinning.
    #[must_use]
    pub fn spin(&self) -> &SpinPage {
        // SAFETY: page aligned, zero-initialised, made of atomics, lives as long as the mapping.
        unsafe { &*self.at(0).cast::<SpinPage>() }
    }

    /// The entry of the process in `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    #[must_use]
    pub fn proc(&self, slot: u16) -> &ProcEntry {
        assert!(slot < PROCS_MAX, "no such process slot: {slot}");
        // SAFETY: in range, aligned, zero-initialised, made of atomics, lives as long as the mapping.
        unsafe { &*self.at(HEAD_BYTES + PROC_BYTES * slot as usize).cast::<ProcEntry>() }
    }

    /// The ready map of the process in `slot`, from ring 64 on.
    ///
    /// # Panics
    /// If there is no such slot.
    #[must_use]
    pub(crate) fn further(&self, slot: u16) -> &Further {
        assert!(slot < PROCS_MAX, "no such process slot: {slot}");
        // SAFETY: in range, aligned, zero-initialised, made of atomics, lives as long as the mapping.
        unsafe { &*self.at(FURTHER_AT + FURTHER_BYTES * slot as usize).cast::<Further>() }
    }

    /// Head and bytes of ring `number`.
    ///
    /// # Panics
    /// If there is no such ring.
    #[must_use]
    pub fn ring(&self, number: u32) -> (*const RingHead, *mut Byte) {
        assert!(number < self.rings, "no such ring: {number}");
        let at = RINGS_AT + RING_STRIDE * number as usize;
        (self.at(at).cast(), self.at(at + 4096).cast())
    }

    /// This process's ends of a pair of rings that the node gave to it and a peer, and to nobody else.
    #[must_use]
    pub fn duplex(self: &Arc<Self>, out: u32, inward: u32) -> Duplex {
        let (out_head, out_bytes) = self.ring(out);
        let (in_head, in_bytes) = self.ring(inward);
        // SAFETY: both rings lie in the mapping, which the result keeps; the node gives a ring to one pair at a time.
        unsafe {
            let reader = RingReader::new(in_head, in_bytes);
            Duplex {
                writer: RingWriter::new(out_head, out_bytes),
                their_claims: TheirClaims::new(reader.claims()),
                reader,
                claims: Claims::new(&raw const (*out_head).claims),
                _mapped: self.clone(),
            }
        }
    }

    /// How far ring `number` is written and read, in bytes, as anyone may see.
    #[must_use]
    pub fn ring_level(&self, number: u32) -> (u64, u64) {
        let (head, _) = self.ring(number);
        // SAFETY: in range; atomics that live as long as the mapping.
        let head = unsafe { &*head };
        (head.tail.load(Ordering::Relaxed), head.head.load(Ordering::Relaxed))
    }

    /// Makes ring `number` fresh and gives its pages back. Nobody may use it at that time.
    pub fn reset_ring(&self, number: u32) {
        let (head, _) = self.ring(number);
        // SAFETY: in range; only atomics are written, and the caller says that nobody uses the ring. A removed page reads as zeros, which
        // is what a fresh head is made of.
        unsafe {
            (*head).reset();
            let _ = libc::madvise(head.cast_mut().cast(), RING_STRIDE, libc::MADV_REMOVE);
        }
    }

    /// Makes a process slot fresh for its next user.
    pub fn reset_proc(&self, slot: u16) {
        let entry = self.proc(slot);
        // A word without a bit in the summary is left as it is, since to look at it would take memory. Should its last sender have died
        // while it rang, the next user of the slot finds a ring that has no frame.
        entry.take_ready(self.further(slot), |_| ());
        entry.asleep.store(0, Ordering::Relaxed);
        entry.pid.store(0, Ordering::Relaxed);
        entry.assignments.store(0, Ordering::Relaxed);
        entry.waits_on.store(0, Ordering::Relaxed);
        entry.set_needed(false);
        entry.announced.store(0, Ordering::Relaxed);
        entry.set_label("");
        entry.duty.store(0, Ordering::Relaxed);
        entry.state.store(1, Ordering::Release);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by `attach`, with that length; borrows of the segment have ended.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), bytes_with(self.rings)) };
    }
}

const fn bytes_with(rings: u32) -> usize {
    RINGS_AT + RING_STRIDE * rings as usize
}

/// Rings for a process that may have so much address space.
fn rings_within(bytes_max: Option<u64>) -> u32 {
    let fitting = bytes_max.map_or(RINGS_MAX.into(), |bytes| bytes / SHARE_OF_ADDRESSES / RING_STRIDE as u64);
    fitting.clamp(RINGS_LEAST.into(), RINGS_MAX.into()) as u32
}

fn address_space_max() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes one struct of the caller's.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) } == 0;
    (is_known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn there_are_rings_for_every_pair_unless_addresses_are_scarce() {
        let pairs = u32::from(PROCS_MAX) * (u32::from(PROCS_MAX) - 1) / 2;
        assert_eq!(rings_within(None), 2 * pairs + u32::from(PROCS_MAX));
        assert_eq!(rings_within(Some(u64::MAX)), RINGS_MAX);
        assert!(rings_within(None) > rings_within(Some(1 << 40)));
        let few = rings_within(Some(16 << 30));
        assert!(bytes_with(few) <= (1 << 30) + RINGS_AT, "{few} rings are more than a sixteenth");
        assert_eq!(rings_within(Some(1 << 20)), RINGS_LEAST);
    }

    /// A processor with few bits for addresses refuses what no limit forbids.
    #[test]
    fn a_quarter_is_tried_where_the_system_refuses_addresses() {
        let tried = std::cell::RefCell::new(Vec::new());
        let create = |most: u32| {
            let tried = &tried;
            move |rings| {
                tried.borrow_mut().push(rings);
                if rings > most { Err(rustix::io::Errno::NOMEM) } else { Segment::create_with(rings) }
            }
        };
        assert_eq!(Segment::create_within(RINGS_MAX, create(RINGS_MAX)).unwrap().rings(), RINGS_MAX);
        assert_eq!(Segment::create_within(RINGS_MAX, create(2_000_000)).unwrap().rings(), RINGS_MAX / 16);
        assert_eq!(tried.take(), [RINGS_MAX, RINGS_MAX, RINGS_MAX / 4, RINGS_MAX / 16]);
        assert!(Segment::create_within(RINGS_LEAST * 2, create(0)).is_err(), "there is an end to it");
        assert_eq!(tried.take(), [RINGS_LEAST * 2, RINGS_LEAST]);
    }

    /// Whatever of it is in memory.
    fn resident_bytes(segment: &Segment) -> u64 {
        rustix::fs::fstat(segment.fd()).unwrap().st_blocks as u64 * 512
    }

    #[test]
    fn a_process_with_few_rings_takes_the_room_of_its_entry() {
        let segment = Segment::create().unwrap();
        (0..16).for_each(|slot| segment.reset_proc(slot));
        let few = resident_bytes(&segment);
        assert!(few <= 4096, "{few} bytes for sixteen processes");
        segment.proc(3).ring(segment.further(3), 63);
        segment.proc(3).take_ready(segment.further(3), |_| ());
        assert_eq!(resident_bytes(&segment), few);
        segment.proc(3).ring(segment.further(3), 64);
        assert!(resident_bytes(&segment) > few, "otherwise this measures nothing");
    }

    #[test]
    fn every_ring_that_was_rung_is_found_once_and_a_new_process_finds_none() {
        let segment = Segment::create().unwrap();
        let (entry, further) = (segment.proc(9), segment.further(9));
        for bits in [vec![0, 63], vec![64], vec![0, 64, 127, 128, 2000, RINGS_PER_PROC - 1]] {
            bits.iter().for_each(|bit| entry.ring(further, *bit));
            assert!(entry.is_ready());
            let mut found = Vec::new();
            entry.take_ready(further, |bit| found.push(bit));
            assert_eq!(found, bits);
            assert!(!entry.is_ready());
            entry.take_ready(further, |bit| panic!("{bit} is found again"));
        }
        [7, 4000].into_iter().for_each(|bit| entry.ring(further, bit));
        segment.reset_proc(9);
        assert!(!entry.is_ready());
        segment.further(9).words.iter().for_each(|word| assert_eq!(word.load(Ordering::Relaxed), 0));
    }
}
