//! What a process must leave behind should it die: records of the values and tasks that others may ask for.
//!
//! One sparse memfd per node, with a region for each process. Only the process itself writes there, a record at a time, into a *cell* of a
//! power of two of bytes; the node, and whoever takes over from a dead process, only read. All bookkeeping (which cells are free) lies in
//! the writer's own memory: the reader looks at every cell of every chunk that was ever begun.
//!
//! - **JOURNAL-1** a record exists once its cell says so, which is written last: a writer that dies before leaves nothing.
//! - **JOURNAL-2** a newer record of the same thing is written before the older one goes: the reader takes the newer of two.
//! - **JOURNAL-3** the reader takes no length on trust.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::FallocateFlags;

use crate::{Error, mapping};

/// What a process may leave behind. Nothing of it takes memory before it is written.
const REGION_BYTES: u64 = 1 << 30;
/// The unit in which a region is mapped; all cells of one chunk have one size.
const CHUNK_BYTES: u64 = 1 << 20;
/// Cells have 2^7 to 2^19 bytes.
const ORDER_MIN: u32 = 7;
const ORDER_MAX: u32 = 19;
const ORDERS: usize = (ORDER_MAX - ORDER_MIN + 1) as usize;
/// Before the first cell of each chunk.
const CHUNK_HEAD_BYTES: u64 = 128;

/// A record's cell in its process's region. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell(u32);

impl Cell {
    /// As a number that is not zero.
    #[must_use]
    pub fn to_u32(self) -> u32 {
        self.0
    }

    /// The inverse of `to_u32`.
    #[must_use]
    pub fn from_u32(number: u32) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }

    fn new(chunk: usize, index: u64) -> Self {
        Self(((chunk as u32) << 14) | (index as u32 + 1))
    }

    fn chunk(self) -> usize {
        (self.0 >> 14) as usize
    }

    fn index(self) -> u64 {
        u64::from(self.0 & 0x3fff) - 1
    }
}

#[repr(C)]
struct ChunkHead {
    /// The order of its cells; zero: the chunk was never begun.
    order: AtomicU32,
    /// Of the first chunk: how many records there are in the region.
    live: AtomicU32,
}

/// What lies before a record. May change while the record stands.
#[repr(C)]
struct CellHead {
    /// Zero: nothing lies here; else the bytes of the record and one more.
    length: AtomicU32,
    retries: AtomicI32,
    oom_retries: AtomicI32,
    _unused: u32,
    worker: AtomicU64,
    version: AtomicU64,
}

const HEAD_BYTES: u64 = size_of::<CellHead>() as u64;

/// What may change about a task while its record stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The process that it was sent to; zero: none.
    pub worker: u64,
    /// Runs that are left after a failure.
    pub retries: i32,
    /// Runs that are left after its worker was killed for want of memory.
    pub oom_retries: i32,
}

/// One record of a process that is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Later records have higher numbers.
    pub version: u64,
    /// How far it had come.
    pub progress: Progress,
    /// As it was written.
    pub body: Vec<u8>,
}

/// The journals of all processes of a node.
pub struct Journals {
    fd: OwnedFd,
    procs_max: u16,
}

impl Journals {
    /// Room for so many processes.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create(procs_max: u16) -> Result<Self, Error> {
        let fd = mapping::memfd("eagleray-journal", REGION_BYTES * u64::from(procs_max))?;
        Ok(Self { fd, procs_max })
    }

    /// Journals that a node made.
    ///
    /// # Errors
    /// If the descriptor is something else.
    pub fn attach(fd: OwnedFd) -> Result<Self, Error> {
        let procs_max = mapping::sealed_length(&fd)? / REGION_BYTES;
        let procs_max = u16::try_from(procs_max).map_err(|_| Error::BadArena("the journal is too large"))?;
        Ok(Self { fd, procs_max })
    }

    /// To be handed to processes.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// How many records the process in this slot has left.
    #[must_use]
    pub fn live(&self, slot: u16) -> u32 {
        let mut live = [0; 4];
        let at = region(slot) + std::mem::offset_of!(ChunkHead, live) as u64;
        if slot >= self.procs_max || rustix::io::pread(&self.fd, &mut live, at).is_err() {
            return 0;
        }
        u32::from_le_bytes(live)
    }

    /// All that the process in this slot has left, in the order of their versions. It must be dead.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self, slot: u16) -> Result<Vec<Left>, Error> {
        let mut left = Vec::new();
        let mut chunk = vec![0; CHUNK_BYTES as usize];
        for number in 0..REGION_BYTES / CHUNK_BYTES {
            let at = region(slot) + number * CHUNK_BYTES;
            let mut order = [0; 4];
            rustix::io::pread(&self.fd, &mut order, at).map_err(Error::os("pread"))?;
            let order = u32::from_le_bytes(order);
            if order == 0 {
                break;
            }
            if !(ORDER_MIN..=ORDER_MAX).contains(&order) {
                continue;
            }
            let mut filled = 0;
            while filled < chunk.len() {
                match rustix::io::pread(&self.fd, &mut chunk[filled..], at + filled as u64) {
                    Ok(0) => return Err(Error::BadArena("the journal is cut")),
                    Ok(more) => filled += more,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(errno) => return Err(Error::os("pread")(errno)),
                }
            }
            let cells = chunk[CHUNK_HEAD_BYTES as usize..].chunks_exact(1 << order);
            left.extend(cells.filter_map(parse));
        }
        left.sort_unstable_by_key(|left| left.version);
        Ok(left)
    }

    /// Empties the region of a slot whose process is gone, so that another can have it.
    pub fn clear(&self, slot: u16) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&self.fd, flags, region(slot), REGION_BYTES);
    }
}

fn region(slot: u16) -> u64 {
    u64::from(slot) * REGION_BYTES
}

/// JOURNAL-3.
fn parse(cell: &[u8]) -> Option<Left> {
    let number = |at: usize| Some(u32::from_le_bytes(cell.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(cell.get(at..at + 8)?.try_into().ok()?));
    let length = number(0)?.checked_sub(1)? as usize;
    let body = cell.get(HEAD_BYTES as usize..HEAD_BYTES as usize + length)?;
    let progress = Progress { worker: long(16)?, retries: number(4)? as i32, oom_retries: number(8)? as i32 };
    Some(Left { version: long(24)?, progress, body: body.to_vec() })
}

/// The journal of this process.
pub struct Journal {
    journals: Journals,
    slot: u16,
    chunks: Vec<Chunk>,
    free: [Vec<Cell>; ORDERS],
    version: u64,
}

struct Chunk {
    map: MmapRaw,
    order: u32,
}

// SAFETY: the mapping is of shared memory; `&mut self` is needed for every write.
unsafe impl Send for Journal {}

impl Journal {
    /// The journal of the process in this slot, which is this one. The region is empty.
    #[must_use]
    pub fn new(journals: Journals, slot: u16) -> Self {
        Self { journals, slot, chunks: Vec::new(), free: Default::default(), version: 0 }
    }

    /// Writes a record. None if it is too large, or there is no room: then it is not there, and nothing else has changed.
    pub fn write(&mut self, body: &[u8], progress: Progress) -> Option<Cell> {
        let length = u32::try_from(body.len()).ok()?;
        let order = (HEAD_BYTES + u64::from(length)).next_power_of_two().trailing_zeros().max(ORDER_MIN);
        if order > ORDER_MAX {
            return None;
        }
        let cell = match self.free[(order - ORDER_MIN) as usize].pop() {
            Some(cell) => cell,
            None => self.begin_chunk(order)?,
        };
        self.version += 1;
        let head = self.head(cell);
        head.worker.store(progress.worker, Ordering::Relaxed);
        head.retries.store(progress.retries, Ordering::Relaxed);
        head.oom_retries.store(progress.oom_retries, Ordering::Relaxed);
        head.version.store(self.version, Ordering::Relaxed);
        let at = std::ptr::from_ref(head).cast::<u8>().cast_mut();
        // SAFETY: a cell of this order has room for the head and `length` bytes; nobody else writes to this region, and the reader reads
        // it only when this process is dead.
        unsafe { std::ptr::copy_nonoverlapping(body.as_ptr(), at.add(HEAD_BYTES as usize), body.len()) };
        // JOURNAL-1.
        head.length.store(length + 1, Ordering::Release);
        self.chunk_head(0).live.fetch_add(1, Ordering::Relaxed);
        Some(cell)
    }

    /// Says how far the task has come.
    pub fn note(&mut self, cell: Cell, progress: Progress) {
        let head = self.head(cell);
        head.retries.store(progress.retries, Ordering::Relaxed);
        head.oom_retries.store(progress.oom_retries, Ordering::Relaxed);
        head.worker.store(progress.worker, Ordering::Release);
    }

    /// The record is not needed any more.
    pub fn erase(&mut self, cell: Cell) {
        self.head(cell).length.store(0, Ordering::Release);
        self.chunk_head(0).live.fetch_sub(1, Ordering::Relaxed);
        let order = self.chunks[cell.chunk()].order;
        self.free[(order - ORDER_MIN) as usize].push(cell);
    }

    #[cold]
    fn begin_chunk(&mut self, order: u32) -> Option<Cell> {
        let number = self.chunks.len();
        let offset = number as u64 * CHUNK_BYTES;
        if offset >= REGION_BYTES || self.slot >= self.journals.procs_max {
            return None;
        }
        let options = MmapOptions::new().offset(region(self.slot) + offset).len(CHUNK_BYTES as usize).to_owned();
        let map = options.map_raw(&self.journals.fd).ok()?;
        let _ = map.advise(memmap2::Advice::DontDump);
        self.chunks.push(Chunk { map, order });
        self.chunk_head(number).order.store(order, Ordering::Release);
        let count = (CHUNK_BYTES - CHUNK_HEAD_BYTES) >> order;
        let cells = (0..count).rev().map(|index| Cell::new(number, index));
        let free = &mut self.free[(order - ORDER_MIN) as usize];
        free.extend(cells);
        free.pop()
    }

    fn chunk_head(&self, number: usize) -> &ChunkHead {
        // SAFETY: a chunk starts with its head, is aligned to a page and mapped as long as `self` lives; all fields are atomic.
        unsafe { &*self.chunks[number].map.as_ptr().cast::<ChunkHead>() }
    }

    fn head(&self, cell: Cell) -> &CellHead {
        let chunk = &self.chunks[cell.chunk()];
        let offset = CHUNK_HEAD_BYTES + (cell.index() << chunk.order);
        assert!(offset + (1 << chunk.order) <= CHUNK_BYTES, "a cell lies in its chunk");
        // SAFETY: the cell lies in the mapping (asserted) and is aligned to 128 bytes; all fields that change are atomic.
        unsafe { &*chunk.map.as_ptr().add(offset as usize).cast::<CellHead>() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair() -> (Journals, Journal) {
        let node = Journals::create(4).expect("a memfd");
        let theirs = Journals::attach(node.fd().try_clone_to_owned().expect("a descriptor")).expect("attached");
        (node, Journal::new(theirs, 2))
    }

    #[test]
    fn journal_1_what_was_written_is_read_and_what_was_erased_is_not() {
        let (node, mut journal) = pair();
        assert_eq!(node.live(2), 0);
        let progress = Progress { worker: 7, retries: -1, oom_retries: 3 };
        let first = journal.write(b"first", progress).expect("room");
        let second = journal.write(&[9; 300], Progress::default()).expect("room");
        journal.note(first, Progress { worker: 8, ..progress });
        journal.erase(second);
        let third = journal.write(b"", Progress::default()).expect("room");
        assert_eq!(node.live(2), 2);
        let left = node.read(2).expect("readable");
        assert_eq!(left.len(), 2);
        assert_eq!(left[0].body, b"first");
        assert_eq!(left[0].progress, Progress { worker: 8, ..progress });
        assert_eq!((left[1].version, &left[1].body[..]), (3, &b""[..]));
        journal.erase(third);
        assert_eq!((node.live(1), node.live(2), node.live(9)), (0, 1, 0));
        drop(journal);
        node.clear(2);
        assert_eq!((node.live(2), node.read(2).expect("readable").len()), (0, 0));
    }

    #[test]
    fn journal_1_a_record_without_its_last_word_is_none() {
        let (node, mut journal) = pair();
        let cell = journal.write(b"torn", Progress::default()).expect("room");
        journal.head(cell).length.store(0, Ordering::Relaxed);
        assert!(node.read(2).expect("readable").is_empty());
    }

    #[test]
    fn journal_3_a_length_beyond_its_cell_is_refused() {
        let (node, mut journal) = pair();
        let cell = journal.write(b"long", Progress::default()).expect("room");
        journal.head(cell).length.store(1 << 20, Ordering::Relaxed);
        assert!(node.read(2).expect("readable").is_empty());
        assert!(journal.write(&vec![0; 1 << 20], Progress::default()).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
        /// Records of all sizes come and go; what is left is what a simple list says.
        #[test]
        fn journal_holds_what_a_list_would(moves in prop::collection::vec((any::<u16>(), 0_usize..40_000), 1..300)) {
            let (node, mut journal) = pair();
            let mut model: Vec<(Cell, Vec<u8>)> = Vec::new();
            for (number, (pick, length)) in moves.into_iter().enumerate() {
                if pick % 3 == 0 && !model.is_empty() {
                    let (cell, _) = model.swap_remove(usize::from(pick) % model.len());
                    journal.erase(cell);
                } else {
                    let body = vec![number as u8; length];
                    let cell = journal.write(&body, Progress::default()).expect("room");
                    prop_assert!(model.iter().all(|(other, _)| *other != cell));
                    model.push((cell, body));
                }
            }
            let mut expected: Vec<Vec<u8>> = model.into_iter().map(|(_, body)| body).collect();
            let mut found: Vec<Vec<u8>> = node.read(2).expect("readable").into_iter().map(|left| left.body).collect();
            expected.sort();
            found.sort();
            prop_assert_eq!(found, expected);
        }
    }
}
