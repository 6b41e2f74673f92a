//! Every order in which two or three threads can run this crate's code, on a memory as weak as the language allows. `make loom`.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use wire::frame::{CALL, Header};

use crate::claim::{Claims, TheirClaims, Word};
use crate::ring::{RING_BYTES, RingHead, RingReader, RingWriter};
use crate::segment::{Further, ProcEntry};
use crate::sync::Byte;
use crate::waiters::{News, Waiters, Wants};

/// Runs `test` in every order. Ends are made before threads are: loom remembers one last access per word, and a second look by the same
/// thread hides the first one of another. So each test also says how many orders there are at least.
fn explore(orders_min: usize, preemptions_max: Option<usize>, test: impl Fn() + Sync + Send + 'static) {
    let orders = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions_max;
    model.check({
        let orders = orders.clone();
        move || {
            orders.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            test();
        }
    });
    let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
    assert!(orders >= orders_min, "only {orders} orders were tried");
}

/// A ring in private memory; both ends keep it.
struct Ring {
    head: RingHead,
    bytes: Box<[Byte]>,
}

// SAFETY: as in a segment: atomics, and bytes whose use the ends order. That they do is what is tested here.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    fn new() -> Arc<Self> {
        Arc::new(Self { head: RingHead::new(), bytes: (0..RING_BYTES).map(|_| Byte::new(0)).collect() })
    }

    fn writer(&self) -> RingWriter {
        // SAFETY: each test makes one writer, and keeps the ring while it uses it.
        unsafe { RingWriter::new(&raw const self.head, self.bytes.as_ptr().cast_mut()) }
    }

    fn reader(&self) -> RingReader {
        // SAFETY: each test makes one reader, and keeps the ring while it uses it.
        unsafe { RingReader::new(&raw const self.head, self.bytes.as_ptr()) }
    }

    fn claims(&self) -> (Claims, TheirClaims) {
        let words = &raw const self.head.claims;
        // SAFETY: each test makes one pair, and keeps the ring while it uses it.
        unsafe { (Claims::new(words), TheirClaims::new(words)) }
    }
}

/// A frame that says its number three times.
fn push(writer: &mut RingWriter, request: u64) -> bool {
    let header = Header { length: 8, kind: CALL, flags: 0, claim: request as u16, request };
    let body = request.to_le_bytes();
    writer.push(header, &[&body[..3], &body[3..]]).is_ok()
}

fn pop(reader: &mut RingReader) -> Option<u64> {
    let mut body = Vec::new();
    let header = reader.pop(&mut body).expect("RING-1: half a frame is seen")?;
    assert_eq!((header.claim, &body[..]), (header.request as u16, &header.request.to_le_bytes()[..]));
    Some(header.request)
}

#[test]
fn loom_ring_1_and_3_frames_come_whole_and_in_order_across_the_wrap() {
    explore(500, None, || {
        let ring = Ring::new();
        let (mut reader, mut writer) = (ring.reader(), ring.writer());
        let sender = thread::spawn({
            let _ring = ring.clone();
            // Two fit; the third does not fit at the end either, and goes behind a pad if there is room by then.
            move || (1..=4).filter(|request| push(&mut writer, *request)).collect::<Vec<u64>>()
        });
        let mut got: Vec<u64> = (0..3).filter_map(|_| pop(&mut reader)).collect();
        let sent = sender.join().expect("it does not panic");
        got.extend(std::iter::from_fn(|| pop(&mut reader)));
        assert!(sent.len() >= 2, "an empty ring refuses");
        assert_eq!(got, sent);
    });
}

#[test]
fn loom_a_body_in_the_arena_is_freed_after_it_was_read() {
    explore(20, None, || {
        let ring = Ring::new();
        let arena = Arc::new(UnsafeCell::new(7_u8));
        let (mut reader, mut writer) = (ring.reader(), ring.writer());
        let worker = thread::spawn({
            let (_ring, arena) = (ring.clone(), arena.clone());
            move || {
                if pop(&mut reader).is_some() {
                    // SAFETY: the checker looks whether the other thread keeps its hands off.
                    arena.with(|byte| assert_eq!(unsafe { *byte }, 7));
                    reader.took_aside();
                }
            }
        });
        assert!(push(&mut writer, 1));
        if writer.aside_read() == 1 {
            // SAFETY: as above.
            arena.with_mut(|byte| unsafe { *byte = 0 });
        }
        worker.join().expect("it does not panic");
    });
}

#[test]
fn loom_claim_1_a_call_is_run_or_taken_back_never_both() {
    explore(4, None, || {
        let ring = Ring::new();
        let (mut claims, theirs) = ring.claims();
        let (index, word) = claims.give().expect("a fresh ring has words");
        let worker = thread::spawn({
            let _ring = ring.clone();
            move || theirs.start(index, word)
        });
        let is_taken = claims.take_back(index, word);
        let has_run = worker.join().expect("it does not panic");
        assert!(is_taken != has_run, "taken back: {is_taken}, run: {has_run}");
        assert_eq!(claims.has_started(index, word), has_run);
    });
}

/// Takes one call back and sends another with the same word while the worker is at it.
#[test]
fn loom_claim_1_an_old_frame_never_starts_a_new_call() {
    explore(50, None, || {
        let ring = Ring::new();
        let (mut claims, theirs) = ring.claims();
        let (mut reader, mut writer) = (ring.reader(), ring.writer());
        let mut send = |index: u16, word: Word| {
            let header = Header { length: 0, kind: CALL, flags: 0, claim: index, request: u64::from(word.0) };
            writer.push(header, &[]).is_ok()
        };
        let worker = thread::spawn({
            let _ring = ring.clone();
            move || (run_all(&mut reader, theirs), reader)
        });
        let (index, old) = claims.give().expect("a fresh ring has words");
        assert!(send(index, old));
        let is_taken = claims.take_back(index, old);
        let mut expected = vec![old.0];
        if is_taken {
            claims.release(index);
            let (again, new) = claims.give().expect("it was released");
            assert_eq!(again, index);
            assert!(new != old && send(again, new));
            expected = vec![new.0];
        }
        let (mut ran, mut reader) = worker.join().expect("it does not panic");
        ran.extend(run_all(&mut reader, theirs));
        assert_eq!(ran, expected);
    });
}

fn run_all(reader: &mut RingReader, theirs: TheirClaims) -> Vec<u32> {
    let mut ran = Vec::new();
    while let Ok(Some(header)) = reader.pop(&mut Vec::new()) {
        if theirs.start(header.claim, Word(header.request as u32)) {
            ran.push(header.request as u32);
        }
    }
    ran
}

/// A process's doorbell in private memory, with the whole of its ready map.
struct Door {
    entry: ProcEntry,
    further: Further,
}

impl Door {
    fn new() -> Self {
        Self { entry: ProcEntry::new(), further: Further::new() }
    }

    fn ring(&self, bit: u16) {
        self.entry.ring(&self.further, bit);
    }

    fn take_ready(&self, each: impl FnMut(u16)) {
        self.entry.take_ready(&self.further, each);
    }
}

/// A receiver that reads until it has so many frames, and sleeps when there is none. One that is never woken is a deadlock, which the
/// checker reports.
fn receive(door: &Door, readers: &mut [(u16, RingReader)], count: usize) {
    let mut got = 0;
    loop {
        door.take_ready(|bit| {
            let reader = readers.iter_mut().find(|(of, _)| *of == bit);
            got += usize::from(reader.is_some_and(|(_, reader)| pop(reader).is_some()));
        });
        if got == count {
            return;
        }
        let seen = door.entry.count();
        door.entry.sleep(seen, None);
    }
}

/// Rings below 64 and beyond are told of in words of their own.
fn falls_asleep(bit: u16) {
    explore(100, None, move || {
        let (door, ring) = (Arc::new(Door::new()), Ring::new());
        let (reader, mut writer) = (ring.reader(), ring.writer());
        let sender = thread::spawn({
            let (door, _ring) = (door.clone(), ring.clone());
            move || {
                assert!(push(&mut writer, 1));
                door.ring(bit);
            }
        });
        receive(&door, &mut [(bit, reader)], 1);
        sender.join().expect("it does not panic");
    });
}

#[test]
fn loom_bell_1_a_frame_published_while_its_receiver_falls_asleep_wakes_it() {
    falls_asleep(0);
}

#[test]
fn loom_bell_1_a_frame_in_a_further_ring_wakes_it_as_well() {
    falls_asleep(64);
}

fn two_senders(bits: [u16; 2]) {
    explore(10_000, Some(3), move || {
        let (door, rings) = (Arc::new(Door::new()), [Ring::new(), Ring::new()]);
        let mut readers = [0, 1].map(|at: usize| (bits[at], rings[at].reader()));
        let senders = [0, 1].map(|at: usize| {
            let ring = rings[at].clone();
            let (door, mut writer) = (door.clone(), ring.writer());
            thread::spawn(move || {
                let _ring = ring;
                assert!(push(&mut writer, 1));
                door.ring(bits[at]);
            })
        });
        receive(&door, &mut readers, 2);
        for sender in senders {
            sender.join().expect("it does not panic");
        }
    });
}

#[test]
fn loom_bell_1_holds_for_one_doorbell_and_two_senders() {
    two_senders([0, 1]);
}

/// Both set bits in one word behind one bit of the summary: who takes the summary between the two finds the second by its own.
#[test]
fn loom_bell_1_holds_for_two_senders_in_one_further_word() {
    two_senders([64, 65]);
}

#[test]
fn loom_bell_1_holds_for_a_sender_below_64_and_one_beyond() {
    two_senders([0, 64]);
}

#[test]
fn loom_bell_1_a_wake_without_a_frame_is_not_lost_either() {
    explore(50, None, || {
        let (entry, news) = (Arc::new(ProcEntry::new()), Arc::new(AtomicU32::new(0)));
        let teller = thread::spawn({
            let (entry, news) = (entry.clone(), news.clone());
            move || {
                news.store(1, Ordering::Relaxed);
                entry.wake();
            }
        });
        loop {
            let seen = entry.count();
            if news.load(Ordering::Relaxed) == 1 {
                break;
            }
            entry.sleep(seen, None);
        }
        teller.join().expect("it does not panic");
    });
}

const NO_NEWS: News<'static> = News { objects: &[], calls: &[], has_failed: false, is_for_all: false };

/// A process of several threads: each waits for one object, and whoever is awake takes replies up for all.
struct Process {
    door: Door,
    waiters: Waiters,
    reader: loom::sync::Mutex<RingReader>,
    ready: [AtomicU32; 2],
}

impl Process {
    /// As the state's lock is held while a process drains: what came in is shown, then told of.
    fn drain(&self) {
        let mut reader = self.reader.lock().expect("never poisoned");
        let mut objects = Vec::new();
        self.door.take_ready(|_| objects.extend(std::iter::from_fn(|| pop(&mut reader)).map(|request| request as u32)));
        objects.iter().for_each(|object| self.ready[*object as usize].store(1, Ordering::Release));
        if !objects.is_empty() {
            self.waiters.tell_at(&self.door.entry, News { objects: &objects, ..NO_NEWS });
        }
    }

    fn wait_for(&self, object: u32) {
        let is_done = || self.ready[object as usize].load(Ordering::Acquire) == 1;
        loop {
            self.drain();
            if is_done() {
                return self.waiters.pass_on();
            }
            self.waiters.sleep_at(&self.door.entry, Wants::Object(object), None, is_done);
        }
    }
}

/// Two threads wait for one object each. The other process answers both calls: whoever takes the replies up wakes the other one if it
/// sleeps, and whoever leaves leaves nobody behind whom no doorbell wakes.
fn two_wait(preemptions_max: usize, orders_min: usize, replies: &'static [&'static [u64]]) {
    explore(orders_min, Some(preemptions_max), move || {
        let ring = Ring::new();
        let mut writer = ring.writer();
        let process = Arc::new(Process {
            door: Door::new(),
            waiters: Waiters::default(),
            reader: loom::sync::Mutex::new(ring.reader()),
            ready: [AtomicU32::new(0), AtomicU32::new(0)],
        });
        let other = thread::spawn({
            let process = process.clone();
            move || process.wait_for(1)
        });
        let worker = thread::spawn({
            let (process, _ring) = (process.clone(), ring.clone());
            move || {
                for together in replies {
                    assert!(together.iter().all(|request| push(&mut writer, *request)));
                    process.door.ring(0);
                }
            }
        });
        process.wait_for(0);
        other.join().expect("it does not panic");
        worker.join().expect("it does not panic");
    });
}

#[test]
fn loom_seat_1_who_waits_beside_the_listener_is_woken_by_its_reply() {
    two_wait(2, 1_000, &[&[0, 1]]);
}

#[test]
fn loom_seat_2_a_listener_that_leaves_leaves_another_one() {
    two_wait(2, 1_000, &[&[0], &[1]]);
}

/// Threads of an actor: each takes one call, and is busy for good then. Whoever is awake takes calls up for all.
struct Servers {
    door: Door,
    waiters: Waiters,
    lane: loom::sync::Mutex<(RingReader, u32)>,
}

impl Servers {
    fn take(&self) -> bool {
        let mut lane = self.lane.lock().expect("never poisoned");
        let mut calls = Vec::new();
        self.door.take_ready(|_| calls.extend(std::iter::from_fn(|| pop(&mut lane.0)).map(|_| 0)));
        lane.1 += calls.len() as u32;
        if !calls.is_empty() {
            self.waiters.tell_at(&self.door.entry, News { calls: &calls, ..NO_NEWS });
        }
        let has_one = lane.1 > 0;
        lane.1 -= u32::from(has_one);
        has_one
    }

    fn serve_one(&self) {
        while !self.take() {
            let has_call = || self.lane.lock().expect("never poisoned").1 > 0;
            self.waiters.sleep_at(&self.door.entry, Wants::Call(0), None, has_call);
        }
        self.waiters.pass_on();
    }
}

/// Each of two calls is taken by one of two threads: no call finds only a thread that was woken for another one.
fn two_serve(preemptions_max: usize, orders_min: usize, calls: &'static [&'static [u64]]) {
    explore(orders_min, Some(preemptions_max), move || {
        let ring = Ring::new();
        let mut writer = ring.writer();
        let servers = Arc::new(Servers {
            door: Door::new(),
            waiters: Waiters::default(),
            lane: loom::sync::Mutex::new((ring.reader(), 0)),
        });
        let other = thread::spawn({
            let servers = servers.clone();
            move || servers.serve_one()
        });
        let caller = thread::spawn({
            let (servers, _ring) = (servers.clone(), ring.clone());
            move || {
                for together in calls {
                    assert!(together.iter().all(|request| push(&mut writer, *request)));
                    servers.door.ring(0);
                }
            }
        });
        servers.serve_one();
        other.join().expect("it does not panic");
        caller.join().expect("it does not panic");
    });
}

#[test]
fn loom_seat_1_two_calls_that_come_together_are_taken_by_two_threads() {
    two_serve(2, 1_000, &[&[0, 1]]);
}

#[test]
fn loom_seat_2_who_takes_a_call_leaves_another_one_that_listens() {
    two_serve(2, 1_000, &[&[0], &[1]]);
}
