//! Rings, claim words and doorbells between real processes, one of which is killed at every step.
//!
//! The victim is stepped through its work one instruction at a time, by the kernel's tracing: the code is the product's, with nothing
//! built in. It is killed after each instruction that changed shared memory; between two of those a kill leaves the same. What is left
//! is then taken up by a survivor, as the runtime does it: the node says that the peer is dead, every ring from it is read to the
//! published tail, and claim words tell which calls never started.

mod common;

use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::{Child, Steps, Watched, body_of, header, journal, number_of};
use net::ring::RING_BYTES;
use net::{Bell, Duplex, RingReader, RingWriter, Segment, Word};
use wire::frame::Header;

const CALLER: u16 = 1;
const WORKER: u16 = 2;
const BIT: u16 = 5;
/// One whose bit lies behind a summary.
const FURTHER_BIT: u16 = 70;
/// One call fits before the end of the ring, a pad comes behind it.
const START: usize = RING_BYTES - 96;
/// A death that is noticed is noticed within this time.
const BOUND: Duration = Duration::from_secs(2);

/// A segment with two processes and, from the caller's side, the rings between them. Both rings are about to wrap.
fn scene() -> (Arc<Segment>, Duplex) {
    let segment = Arc::new(Segment::create().unwrap());
    segment.reset_proc(CALLER);
    segment.reset_proc(WORKER);
    let mut caller = segment.duplex(0, 1);
    let mut worker = segment.duplex(1, 0);
    for (writer, reader) in [(&mut caller.writer, &mut worker.reader), (&mut worker.writer, &mut caller.reader)] {
        common::fill(writer, START);
        while matches!(reader.pop(&mut Vec::new()), Ok(Some(_))) {}
    }
    (segment.clone(), segment.duplex(0, 1))
}

/// What the node does when the zygote's wait says that a process is dead.
fn node_notices(segment: &Arc<Segment>, dead: u16, told: u16) {
    segment.proc(dead).state.store(2, Ordering::Release);
    Bell::new(segment.clone(), told).wake();
}

/// Call `number` with its claim: index in the header, word and number in every byte of the body.
fn push_call(writer: &mut RingWriter, number: u64, (index, word): (u16, Word)) {
    let body = body_of(u64::from(word.0) << 32 | number, 40);
    let header = Header { claim: index, ..header(number, &body) };
    writer.push(header, &[&body[..7], &body[7..]]).unwrap();
}

/// The next call: its number and its claim. Panics if it is not whole.
fn pop_call(reader: &mut RingReader) -> Option<(u64, (u16, Word))> {
    let mut body = Vec::new();
    let header = reader.pop(&mut body).expect("RING-2: nobody lies here")?;
    let said = number_of(&body);
    assert_eq!(said as u32, header.request as u32, "RING-1: a body of another frame");
    Some((header.request, (header.claim, Word((said >> 32) as u32))))
}

/// A worker's loop over what is in its ring: start, run, reply, ring.
fn serve(rings: &mut Duplex, caller: &Bell, segment: &Segment) {
    while let Some((number, (index, word))) = pop_call(&mut rings.reader) {
        if !rings.their_claims.start(index, word) {
            continue;
        }
        journal(segment, number as usize).fetch_add(1, Ordering::Relaxed);
        let body = body_of(number, 40);
        rings.writer.push(header(number, &body), &[&body[..7], &body[7..]]).unwrap();
        caller.ring(BIT);
    }
}

/// Runs `victim` in a fresh scene again and again: to its first change of shared memory, to its second, and so on until it completes.
/// `then` gets each scene, the victim as it stands there, and whether it has completed. Returns how many there were; `None` if
/// processes cannot be traced here.
fn at_every_step(
    prepare: impl Fn(&mut Duplex),
    victim: impl Fn(Arc<Segment>),
    mut then: impl FnMut(&Arc<Segment>, Duplex, Steps, bool),
) -> Option<usize> {
    for changes in 0.. {
        let (segment, mut caller) = scene();
        prepare(&mut caller);
        let child = Child::fork(|| victim(common::attach(&segment)));
        let Some(mut steps) = child.steps() else {
            eprintln!("skipped: this system traces no processes");
            return None;
        };
        let mut watched = Watched::new(&segment, &[0, 1, 9], &[CALLER, WORKER]);
        let has_completed = !steps.run_to(changes, &mut watched);
        then(&segment, caller, steps, has_completed);
        if has_completed {
            return Some(changes);
        }
    }
    unreachable!("a count ends with its process")
}

#[test]
fn a_caller_killed_at_every_step_of_calling_leaves_whole_calls_that_start_once() {
    let mut by_count = [0; 4];
    let stepped = at_every_step(
        |_| {},
        |segment| {
            let (mut rings, bell) = (segment.duplex(0, 1), Bell::new(segment.clone(), WORKER));
            common::traced(|| {
                for number in 0..3 {
                    let claim = rings.claims.give().unwrap();
                    push_call(&mut rings.writer, number, claim);
                    journal(&segment, 0).store(number + 1, Ordering::Relaxed);
                    bell.ring(BIT);
                }
            });
        },
        |segment, _, victim, _| {
            victim.kill();
            node_notices(segment, CALLER, WORKER);
            let mut worker = segment.duplex(1, 0);
            let mut calls = Vec::new();
            while let Some((number, (index, word))) = pop_call(&mut worker.reader) {
                assert!(worker.their_claims.start(index, word), "a published call has its claim");
                assert!(!worker.their_claims.start(index, word), "CLAIM-1: started twice");
                calls.push(number);
            }
            let sure = journal(segment, 0).load(Ordering::Relaxed) as usize;
            assert_eq!(calls, (0..calls.len() as u64).collect::<Vec<_>>());
            assert!(sure <= calls.len(), "RING-1: {sure} calls were published, {} are seen", calls.len());
            assert!(!Bell::new(segment.clone(), CALLER).is_alive());
            by_count[calls.len()] += 1;
        },
    );
    let Some(steps) = stepped else { return };
    assert!(steps > 20 && by_count.iter().all(|count| *count > 0), "{steps} steps, {by_count:?}: it proves nothing");
}

/// Of four calls the second is taken back before. Every other one is answered once, or known to have started, or sent elsewhere.
#[test]
fn a_worker_killed_at_every_step_of_serving_never_runs_a_call_twice_or_loses_one() {
    const CALLS: u64 = 4;
    let claims = std::cell::RefCell::new(Vec::new());
    let (mut claimed_only, mut ran_unanswered, mut resent_all) = (0, 0, 0);
    let stepped = at_every_step(
        |caller| {
            let given: Vec<(u16, Word)> = (0..CALLS).map(|_| caller.claims.give().unwrap()).collect();
            for (number, claim) in given.iter().enumerate() {
                push_call(&mut caller.writer, number as u64, *claim);
            }
            assert!(caller.claims.take_back(given[1].0, given[1].1));
            *claims.borrow_mut() = given;
        },
        |segment| {
            let (mut rings, bell) = (segment.duplex(1, 0), Bell::new(segment.clone(), CALLER));
            common::traced(|| serve(&mut rings, &bell, &segment));
        },
        |segment, mut caller, victim, has_completed| {
            victim.kill();
            node_notices(segment, WORKER, CALLER);
            let runs = |number: u64| journal(segment, number as usize).load(Ordering::Relaxed);
            let mut answered = Vec::new();
            while let Some((number, _)) = pop_call(&mut caller.reader) {
                assert!(!answered.contains(&number) && runs(number) == 1, "call {number} is answered again, or unrun");
                answered.push(number);
            }
            assert!(answered.is_sorted());
            let mut elsewhere = segment.duplex(2, 3);
            for (number, (index, word)) in (0..).zip(claims.borrow().iter().copied()) {
                let has_started = caller.claims.has_started(index, word);
                if number == 1 {
                    assert!(!has_started && runs(1) == 0, "CLAIM-1: run though it was taken back");
                } else if answered.contains(&number) {
                    assert!(has_started);
                } else if has_started {
                    assert!(!caller.claims.take_back(index, word) && runs(number) <= 1);
                    claimed_only += u64::from(runs(number) == 0);
                    ran_unanswered += runs(number);
                } else {
                    assert_eq!(runs(number), 0, "CLAIM-2: a call that did not start has run");
                    assert!(caller.claims.take_back(index, word));
                    let claim = elsewhere.claims.give().unwrap();
                    push_call(&mut elsewhere.writer, number, claim);
                    resent_all += 1;
                }
            }
            let second = Bell::new(segment.clone(), CALLER);
            serve(&mut segment.duplex(3, 2), &second, segment);
            while let Some((number, _)) = pop_call(&mut elsewhere.reader) {
                answered.push(number);
            }
            for number in [0, 2, 3] {
                let (index, word) = claims.borrow()[number as usize];
                assert!(answered.contains(&number) || caller.claims.has_started(index, word), "call {number} is lost");
                assert!(runs(number) <= 1, "call {number} has run twice");
            }
            if has_completed {
                assert_eq!(answered, [0, 2, 3]);
            }
        },
    );
    let Some(steps) = stepped else { return };
    assert!(
        steps > 20 && claimed_only > 0 && ran_unanswered > 0 && resent_all > 0,
        "{steps} steps, {claimed_only} claimed, {ran_unanswered} ran, {resent_all} sent again: it proves nothing"
    );
}

/// The victim calls, takes the call back and, if it could, calls again with the same word.
fn change_its_mind(segment: &Arc<Segment>) {
    let (mut rings, bell) = (segment.duplex(0, 1), Bell::new(segment.clone(), WORKER));
    common::traced(|| {
        let (index, word) = rings.claims.give().unwrap();
        push_call(&mut rings.writer, 1, (index, word));
        bell.ring(BIT);
        let is_taken = rings.claims.take_back(index, word);
        journal(segment, 0).store(1 + u64::from(is_taken), Ordering::Relaxed);
        if is_taken {
            rings.claims.release(index);
            let claim = rings.claims.give().unwrap();
            assert!(claim.0 == index && claim.1 != word);
            push_call(&mut rings.writer, 2, claim);
            bell.ring(BIT);
        }
    });
}

fn start_all(worker: &mut Duplex) -> Vec<u64> {
    let mut started = Vec::new();
    while let Some((number, (index, word))) = pop_call(&mut worker.reader) {
        if worker.their_claims.start(index, word) {
            started.push(number);
        }
    }
    started
}

#[test]
fn claim_1_holds_if_the_caller_is_killed_at_every_step_of_taking_back() {
    let (mut taken_unsaid, mut seen) = (0, [0; 3]);
    let stepped = at_every_step(
        |_| {},
        |segment| change_its_mind(&segment),
        |segment, _, victim, has_completed| {
            victim.kill();
            node_notices(segment, CALLER, WORKER);
            let mut worker = segment.duplex(1, 0);
            let has_first = worker.reader.has_frame();
            let started = start_all(&mut worker);
            assert!(started.len() <= 1, "CLAIM-1: a call and what replaced it both start: {started:?}");
            let has_said = journal(segment, 0).load(Ordering::Relaxed) == 2;
            assert!(!has_said || started != [1], "CLAIM-1: started though it was taken back");
            taken_unsaid += u64::from(has_first && started.is_empty() && !has_said);
            seen[started.first().copied().unwrap_or(0) as usize] += 1;
            assert!(!has_completed || started == [2]);
        },
    );
    assert!(
        stepped.is_none() || taken_unsaid > 0 && seen.iter().all(|count| *count > 0),
        "{taken_unsaid}, {seen:?}: it proves nothing"
    );
}

/// Here the caller lives on, so reads count as well as writes: the worker starts after each single instruction.
#[test]
fn claim_1_holds_if_the_worker_starts_after_every_instruction_of_taking_back() {
    let (mut first, mut second) = (0, 0);
    for instructions in 0.. {
        let (segment, _) = scene();
        let child = Child::fork(|| {
            let segment = common::attach(&segment);
            let mut rings = segment.duplex(0, 1);
            let (index, word) = rings.claims.give().unwrap();
            push_call(&mut rings.writer, 1, (index, word));
            common::traced(|| {
                let is_taken = rings.claims.take_back(index, word);
                journal(&segment, 0).store(1 + u64::from(is_taken), Ordering::Relaxed);
            });
        });
        let Some(mut victim) = child.steps() else { return eprintln!("skipped: this system traces no processes") };
        let has_completed = !victim.run_for(instructions);
        let started = start_all(&mut segment.duplex(1, 0));
        if !has_completed {
            victim.run_on();
        }
        let is_taken = journal(&segment, 0).load(Ordering::Relaxed) == 2;
        assert_eq!(started.is_empty(), is_taken, "CLAIM-1: after {instructions} instructions");
        first += usize::from(!is_taken);
        second += usize::from(is_taken);
        if has_completed {
            break;
        }
    }
    assert!(first > 10 && second > 10, "{first} ran, {second} were taken back: it proves nothing");
}

/// The writer takes every byte that the reader lets go, at once. The reader is not killed: it must find its frame whole.
#[test]
fn ring_3_room_is_released_only_when_a_frame_was_read() {
    let (mut refused, mut taken) = (0, 0);
    let before = |caller: &mut Duplex| {
        for number in 0..2 {
            push_call(&mut caller.writer, number, (0, Word(0)));
        }
        while caller.writer.push(header(9, &[9; 8]), &[&[9; 8]]).is_ok() {}
    };
    let stepped = at_every_step(
        before,
        |segment| {
            let mut rings = segment.duplex(1, 0);
            common::traced(|| {
                assert_eq!(pop_call(&mut rings.reader).map(|call| call.0), Some(0));
                assert_eq!(pop_call(&mut rings.reader).map(|call| call.0), Some(1));
            });
        },
        |_, mut caller, mut victim, has_completed| {
            let mut sent = 0;
            while caller.writer.push(header(9, &[9; 8]), &[&[9; 8]]).is_ok() {
                sent += 1;
            }
            refused += usize::from(sent == 0);
            taken += sent;
            if !has_completed {
                victim.run_on();
            }
        },
    );
    assert!(stepped.is_none() || refused > 0 && taken > 0, "{refused} refused, {taken} taken: it proves nothing");
}

/// What a sleeper without a time limit does: it looks where bits are set, and everywhere once the node says that its peer is dead.
fn receive(segment: &Arc<Segment>, tell: &mpsc::SyncSender<u64>) {
    let (bell, peer) = (Bell::new(segment.clone(), WORKER), Bell::new(segment.clone(), CALLER));
    let mut rings = segment.duplex(1, 0);
    loop {
        let count = bell.count();
        let is_dead = !peer.is_alive();
        let mut is_rung = false;
        bell.take_ready(|bit| is_rung |= bit == BIT || bit == FURTHER_BIT);
        while (is_rung || is_dead)
            && let Some((number, _)) = pop_call(&mut rings.reader)
        {
            tell.send(number).unwrap();
        }
        if is_dead {
            return;
        }
        bell.sleep(count, None);
    }
}

#[test]
fn bell_1_a_sleeper_hears_of_every_published_frame_if_the_sender_is_killed_while_ringing() {
    killed_while_ringing(BIT);
}

#[test]
fn bell_1_the_same_holds_for_a_ring_whose_bit_lies_behind_a_summary() {
    killed_while_ringing(FURTHER_BIT);
}

fn killed_while_ringing(bit: u16) {
    let (mut heard_before, mut bit_without_wake, mut neither) = (0, 0, 0);
    for instructions in 0.. {
        let (segment, _) = scene();
        let (tell, told) = mpsc::sync_channel(8);
        let receiver = std::thread::spawn({
            let segment = segment.clone();
            move || receive(&segment, &tell)
        });
        common::until(|| segment.proc(WORKER).asleep.load(Ordering::SeqCst) == 1);
        let child = Child::fork(|| {
            let segment = common::attach(&segment);
            let (mut rings, bell) = (segment.duplex(0, 1), Bell::new(segment.clone(), WORKER));
            push_call(&mut rings.writer, 7, (0, Word(0)));
            common::traced(|| bell.ring(bit));
        });
        let victim = child.steps();
        let Some(mut victim) = victim else {
            node_notices(&segment, CALLER, WORKER);
            return eprintln!("skipped: this system traces no processes");
        };
        let has_completed = !victim.run_for(instructions);
        let entry = segment.proc(WORKER);
        let is_set = (entry.ready.load(Ordering::SeqCst) | entry.further.load(Ordering::SeqCst)) != 0;
        let before = if has_completed {
            // Nobody died: the frame is heard of by the bell alone.
            Some(told.recv_timeout(BOUND).expect("BELL-1: a sleeper is not woken"))
        } else {
            told.recv_timeout(Duration::from_millis(1)).ok()
        };
        victim.kill();
        node_notices(&segment, CALLER, WORKER);
        let number = before.or_else(|| told.recv_timeout(BOUND).ok());
        assert_eq!(number, Some(7), "after {instructions} instructions the frame is lost");
        assert_eq!(told.recv_timeout(BOUND), Err(RecvTimeoutError::Disconnected), "it is heard of twice, or hangs");
        receiver.join().unwrap();
        match (before, is_set) {
            (Some(_), _) => heard_before += 1,
            (None, true) => bit_without_wake += 1,
            (None, false) => neither += 1,
        }
        if has_completed {
            break;
        }
    }
    assert!(
        heard_before > 0 && bit_without_wake > 0 && neither > 0,
        "{heard_before} heard, {bit_without_wake} with the bit only, {neither} without: it proves nothing"
    );
}

#[test]
fn a_receiver_killed_at_every_step_of_sleeping_holds_up_neither_its_sender_nor_the_next_in_its_slot() {
    let mut asleep = 0;
    for is_rung in [false, true] {
        let stepped = at_every_step(
            |_| {},
            |segment| {
                let bell = Bell::new(segment.clone(), WORKER);
                if is_rung {
                    bell.ring(BIT);
                }
                common::traced(|| {
                    let count = bell.count();
                    bell.sleep(count, Some(Duration::from_millis(1)));
                    bell.take_ready(|bit| assert_eq!(bit, BIT));
                });
            },
            |segment, mut caller, victim, _| {
                victim.kill();
                asleep += segment.proc(WORKER).asleep.load(Ordering::Relaxed);
                let bell = Bell::new(segment.clone(), WORKER);
                bell.ring(BIT);
                segment.proc(WORKER).state.store(2, Ordering::Release);
                assert!(!bell.is_alive());
                segment.reset_proc(WORKER);
                assert!(!bell.is_ready() && segment.proc(WORKER).asleep.load(Ordering::Relaxed) == 0);
                let (tell, told) = mpsc::sync_channel(8);
                let next = std::thread::spawn({
                    let segment = segment.clone();
                    move || receive(&segment, &tell)
                });
                push_call(&mut caller.writer, 3, (0, Word(0)));
                bell.ring(BIT);
                assert_eq!(told.recv_timeout(BOUND), Ok(3));
                node_notices(segment, CALLER, WORKER);
                next.join().unwrap();
            },
        );
        if stepped.is_none() {
            return;
        }
    }
    assert!(asleep > 0, "nobody was killed asleep: it proves nothing");
}
