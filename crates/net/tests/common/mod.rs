//! Children that are killed, stopped and stepped through, and looks at what they leave.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use net::ring::{RING_BYTES, RingHead};
use net::{RingReader, RingWriter, Segment};
use wire::frame::{CALL, HEADER_BYTES, Header};

/// SplitMix64: the same moments are chosen each time.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % bound
    }
}

pub(crate) fn header(request: u64, body: &[u8]) -> Header {
    Header { length: body.len() as u32, kind: CALL, flags: 0, claim: request as u16, request }
}

/// A body that says its number with every byte.
pub(crate) fn body_of(request: u64, length: usize) -> Vec<u8> {
    // A few instructions: children make bodies while they are stepped through.
    let mut body = request.to_le_bytes().repeat(length.max(8).div_ceil(8));
    body.truncate(length.max(8));
    body
}

pub(crate) fn number_of(body: &[u8]) -> u64 {
    let request = u64::from_le_bytes(body[..8].try_into().unwrap());
    assert_eq!(body, body_of(request, body.len()), "RING-1: half a frame");
    request
}

/// Reads frames, at most so many; each is whole and the next in order. Returns the number of the next.
pub(crate) fn expect_frames(reader: &mut RingReader, mut next: u64, count_max: u64) -> u64 {
    let mut body = Vec::new();
    let end = next.saturating_add(count_max);
    while next < end {
        body.clear();
        let Some(header) = reader.pop(&mut body).expect("RING-2: nobody lies here") else { break };
        assert_eq!((header.request, header.claim, number_of(&body)), (next, next as u16, next));
        next += 1;
    }
    next
}

/// Frames that bring the writer to this place in a fresh ring.
pub(crate) fn fill(writer: &mut RingWriter, to: usize) {
    let mut left = to;
    while left > 0 {
        let size = left.min(1_000);
        let size = if left - size > 0 && left - size < 24 { size - 24 } else { size };
        let body = body_of(0, size - HEADER_BYTES);
        writer.push(header(0, &body), &[&body]).unwrap();
        left -= size;
    }
}

/// Waits for a child to get going.
pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "the child does nothing");
        std::thread::yield_now();
    }
}

/// A mapping of its own: a fork does not inherit the one of its parent.
pub(crate) fn attach(segment: &Segment) -> Arc<Segment> {
    Arc::new(Segment::attach(segment.fd().try_clone_to_owned().unwrap()).unwrap())
}

/// Runs `run` between two stops, so that whoever traces this process can go through it step by step.
pub(crate) fn traced<R>(run: impl FnOnce() -> R) -> R {
    // SAFETY: plain system calls.
    unsafe {
        libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
        libc::raise(libc::SIGSTOP);
        let result = run();
        libc::raise(libc::SIGSTOP);
        result
    }
}

pub(crate) struct Child(libc::pid_t);

impl Child {
    pub(crate) fn fork(run: impl FnOnce()) -> Self {
        // SAFETY: the child runs `run` and ends without unwinding into its parent's frames.
        match unsafe { libc::fork() } {
            -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
            0 => {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
                // SAFETY: ends the child without running its parent's exit handlers.
                unsafe { libc::_exit(if result.is_ok() { 0 } else { 101 }) }
            }
            pid => Self(pid),
        }
    }

    /// Kills it, unless it has failed before.
    pub(crate) fn kill(self) {
        let child = std::mem::ManuallyDrop::new(self);
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(child.0, libc::SIGKILL) };
        let status = child.wait();
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL, "it failed by itself: {status}");
    }

    fn wait(&self) -> i32 {
        let mut status = 0;
        // SAFETY: our own child; the status lies on the stack.
        let pid = unsafe { libc::waitpid(self.0, &raw mut status, libc::WUNTRACED) };
        assert_eq!(pid, self.0, "{}", std::io::Error::last_os_error());
        status
    }

    /// Waits for the child's first stop; `None` if processes cannot be traced here.
    pub(crate) fn steps(self) -> Option<Steps> {
        let status = self.wait();
        assert!(libc::WIFSTOPPED(status), "it ended before it began: {status}");
        let steps = Steps(self);
        steps.request(libc::PTRACE_SINGLESTEP).then_some(steps)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: our own child, not yet waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// Goes through a stopped child one instruction at a time.
pub(crate) struct Steps(Child);

impl Steps {
    fn request(&self, request: libc::c_uint) -> bool {
        // SAFETY: our own child, stopped; no address or data is used.
        unsafe { libc::ptrace(request, self.0.0, 0, 0) == 0 }
    }

    /// Waits for the step under way and begins the next; false: the child is at its second stop, or has ended.
    pub(crate) fn next(&mut self) -> bool {
        let status = self.0.wait();
        let is_step = libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGTRAP;
        let is_stop = libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGSTOP;
        assert!(is_step || is_stop, "the child failed: {status}");
        is_step && self.request(libc::PTRACE_SINGLESTEP)
    }

    /// Goes on until the child has changed what is watched so many times, and leaves it stopped there. False: it came to its second stop.
    pub(crate) fn run_to(&mut self, changes: usize, watched: &mut Watched) -> bool {
        let mut seen = 0;
        loop {
            let status = self.0.wait();
            assert!(libc::WIFSTOPPED(status), "the child failed: {status}");
            if libc::WSTOPSIG(status) != libc::SIGTRAP {
                return false;
            }
            seen += usize::from(watched.has_changed());
            if seen >= changes {
                return true;
            }
            assert!(self.request(libc::PTRACE_SINGLESTEP));
        }
    }

    /// Goes through so many instructions, and leaves the child stopped there. False: it came to its second stop.
    pub(crate) fn run_for(&mut self, instructions: usize) -> bool {
        for done in 0.. {
            let status = self.0.wait();
            assert!(libc::WIFSTOPPED(status), "the child failed: {status}");
            if libc::WSTOPSIG(status) != libc::SIGTRAP {
                return false;
            }
            if done == instructions {
                break;
            }
            assert!(self.request(libc::PTRACE_SINGLESTEP));
        }
        true
    }

    /// Lets it go on after `run_to` or `run_for`, until it ends or reaches its second stop.
    pub(crate) fn run_on(&mut self) {
        assert!(self.request(libc::PTRACE_CONT));
        let status = self.0.wait();
        assert!(libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGSTOP, "the child failed: {status}");
    }

    /// Kills it where it stands.
    pub(crate) fn kill(self) {
        self.0.kill();
    }
}

/// The words of shared memory that a scenario uses. Between two changes of them a kill leaves the same as at the first of the two.
pub(crate) struct Watched {
    spans: Vec<(*const u64, usize)>,
    last: Vec<u64>,
}

impl Watched {
    /// Heads, first claim words, and the bytes at both ends of these rings; the entries of these processes.
    pub(crate) fn new(segment: &Segment, rings: &[u32], procs: &[u16]) -> Self {
        let mut spans = Vec::new();
        for ring in rings {
            let (head, bytes) = segment.ring(*ring);
            // SAFETY: all three lie in the ring, whose bytes are aligned as pages are.
            unsafe {
                spans.push((head.cast::<u64>(), 56));
                spans.push((bytes.cast::<u64>(), 64));
                spans.push((bytes.add(RING_BYTES - 512).cast::<u64>(), 64));
            }
        }
        spans.extend(procs.iter().map(|slot| (std::ptr::from_ref(segment.proc(*slot)).cast::<u64>(), 20)));
        let mut watched = Self { spans, last: Vec::new() };
        watched.has_changed();
        watched
    }

    /// Whether anything has since it was last asked.
    pub(crate) fn has_changed(&mut self) -> bool {
        let mut now = Vec::with_capacity(self.last.len());
        for (from, count) in &self.spans {
            // SAFETY: inside the mapping, which every test keeps; whoever writes there is stopped.
            now.extend_from_slice(unsafe { std::slice::from_raw_parts(*from, *count) });
        }
        let has_changed = now != self.last;
        self.last = now;
        has_changed
    }
}

/// Counters that the dead leave behind, in the bytes of a ring that nobody else uses.
pub(crate) fn journal(segment: &Segment, line: usize) -> &AtomicU64 {
    let (_, bytes) = segment.ring(9);
    assert!(line < 64);
    // SAFETY: aligned, inside the mapping that the borrow keeps, zero at first.
    unsafe { &*bytes.cast::<AtomicU64>().add(line) }
}

/// What lies in a ring at one moment.
pub(crate) struct Snapshot {
    head: Box<RingHead>,
    bytes: Vec<u64>,
}

impl Snapshot {
    pub(crate) fn of(segment: &Segment, number: u32) -> Self {
        let (shared, bytes) = segment.ring(number);
        let head = Box::new(RingHead::new());
        let mut copy = vec![0_u64; RING_BYTES / 8];
        // SAFETY: both lie in the mapping; whoever else uses the ring is stopped or dead.
        unsafe {
            head.head.store((*shared).head.load(Ordering::Acquire), Ordering::Relaxed);
            head.tail.store((*shared).tail.load(Ordering::Acquire), Ordering::Relaxed);
            std::ptr::copy_nonoverlapping(bytes, copy.as_mut_ptr().cast::<u8>(), RING_BYTES);
        }
        Self { head, bytes: copy }
    }

    /// The first frame that is not released, and how many there are; each is whole.
    pub(crate) fn frames(&mut self) -> (u64, u64) {
        // SAFETY: the snapshot outlives its reader, and there is no other.
        let mut reader = unsafe { RingReader::new(&raw const *self.head, self.bytes.as_ptr().cast()) };
        let (mut first, mut count, mut body) = (0, 0, Vec::new());
        while let Some(header) = reader.pop(&mut body).expect("RING-2: nobody lies here") {
            number_of(&body);
            body.clear();
            if count == 0 {
                first = header.request;
            }
            count += 1;
        }
        (first, count)
    }
}
