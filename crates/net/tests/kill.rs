//! Rings between real processes, one of which is killed: at random moments, and after each single instruction.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{Chance, Child, Snapshot, body_of, expect_frames, header, number_of};
use net::{Full, Segment};

const ROUNDS: u64 = 300;

#[test]
fn ring_1_a_writer_killed_at_any_moment_leaves_whole_frames_and_nothing_else() {
    let segment = Arc::new(Segment::create().unwrap());
    let mut chance = Chance(1);
    let (mut frames, mut waiting) = (0, 0);
    for round in 0..ROUNDS {
        segment.reset_ring(0);
        segment.reset_ring(1);
        let mut rings = segment.duplex(1, 0);
        let child = Child::fork(|| {
            let mut rings = common::attach(&segment).duplex(0, 1);
            let mut chance = Chance(round);
            for request in 0.. {
                let body = body_of(request, chance.below(3_000));
                while rings.writer.push(header(request, &body), &[&body[..body.len() / 3], &body[body.len() / 3..]])
                    == Err(Full)
                {
                    std::hint::spin_loop();
                }
            }
        });
        common::until(|| rings.reader.has_frame());
        let end = Instant::now() + Duration::from_micros(chance.below(1_500) as u64);
        let mut next = 0;
        let reads = chance.below(4) > 0;
        while Instant::now() < end {
            if reads {
                next = expect_frames(&mut rings.reader, next, 1);
            }
        }
        child.kill();
        let before = next;
        next = expect_frames(&mut rings.reader, next, u64::MAX);
        assert!(!rings.reader.has_frame(), "it is read to the published tail");
        frames += next;
        waiting += next - before;
    }
    assert!(frames > 10 * ROUNDS && waiting > ROUNDS, "{frames} frames, {waiting} after the death: it proves nothing");
}

#[test]
fn ring_3_a_dead_reader_never_blocks_its_writer() {
    let segment = Arc::new(Segment::create().unwrap());
    let mut chance = Chance(2);
    let (mut sent_all, mut left_all) = (0, 0);
    for _ in 0..ROUNDS {
        segment.reset_ring(0);
        segment.reset_ring(1);
        let mut rings = segment.duplex(0, 1);
        let child = Child::fork(|| {
            let mut rings = common::attach(&segment).duplex(1, 0);
            let mut next = 0;
            loop {
                next = expect_frames(&mut rings.reader, next, 1);
            }
        });
        let body = body_of(0, 8);
        rings.writer.push(header(0, &body), &[&body]).unwrap();
        common::until(|| Snapshot::of(&segment, 0).frames().1 == 0);
        let end = Instant::now() + Duration::from_micros(chance.below(1_500) as u64);
        let mut sent = 1;
        while Instant::now() < end {
            let body = body_of(sent, chance.below(3_000));
            sent += u64::from(rings.writer.push(header(sent, &body), &[&body]).is_ok());
        }
        child.kill();
        // The ring takes what fits, then says that it is full, as often as it is asked.
        let body = body_of(0, 1_000);
        let more = (0..200).filter(|more| rings.writer.push(header(sent + more, &body), &[&body]).is_ok()).count();
        assert!(more <= 64 && rings.writer.push(header(0, &body), &[&body]) == Err(Full));
        // What the dead one had not released is whole: it was not overwritten.
        let mut left = Snapshot::of(&segment, 0);
        let (first, count) = left.frames();
        assert_eq!(first + count, sent + more as u64, "frames between head and tail");
        sent_all += sent;
        left_all += count;
    }
    assert!(sent_all > 10 * ROUNDS && left_all > ROUNDS, "{sent_all} sent, {left_all} left: it proves nothing");
}

/// What is in shared memory between two instructions of the real `push` is what a kill there would leave.
#[test]
fn ring_1_between_any_two_instructions_of_a_push_there_is_a_whole_frame_or_none() {
    // In the middle of the ring; where only a pad fits before its end; where the end is exactly full.
    for before in [1_000, net::ring::RING_BYTES - 40, net::ring::RING_BYTES - 48] {
        let segment = Arc::new(Segment::create().unwrap());
        let mut rings = segment.duplex(1, 0);
        let child = Child::fork(|| {
            let mut rings = common::attach(&segment).duplex(0, 1);
            common::fill(&mut rings.writer, before);
            let body = body_of(77, 32);
            common::traced(|| rings.writer.push(header(77, &body), &[&body[..5], &body[5..]])).unwrap();
        });
        let Some(mut steps) = child.steps() else { return eprintln!("skipped: this system traces no processes") };
        let mut count = 0;
        while matches!(rings.reader.pop(&mut Vec::new()), Ok(Some(_))) {}
        let (mut seen, mut unseen) = (0, 0);
        while steps.next() {
            count += 1;
            match Snapshot::of(&segment, 0).frames() {
                (_, 0) => unseen += 1,
                (77, 1) => seen += 1,
                other => panic!("RING-1: after {count} instructions there is {other:?}"),
            }
        }
        assert!(seen > 0 && unseen > 50, "{seen} with the frame, {unseen} without: it proves nothing");
        let mut body = Vec::new();
        assert_eq!(rings.reader.pop(&mut body).unwrap().map(|header| header.request), Some(77));
        assert_eq!(number_of(&body), 77);
    }
}

#[test]
fn ring_3_between_any_two_instructions_of_a_pop_a_frame_is_there_or_released() {
    for before in [1_000, net::ring::RING_BYTES - 40] {
        let segment = Arc::new(Segment::create().unwrap());
        let mut rings = segment.duplex(0, 1);
        let mut body = Vec::with_capacity(4_096);
        let child = Child::fork(|| {
            let mut rings = common::attach(&segment).duplex(1, 0);
            while rings.reader.pop(&mut body).unwrap().is_none_or(|header| header.request != 76) {}
            body.clear();
            let got = common::traced(|| rings.reader.pop(&mut body)).unwrap();
            assert_eq!((got.map(|header| header.request), number_of(&body)), (Some(77), 77));
        });
        common::fill(&mut rings.writer, before);
        for request in 76..79 {
            let body = body_of(request, 32);
            // The child makes room, up to the frame that it is stepped through.
            while rings.writer.push(header(request, &body), &[&body]) == Err(Full) {
                std::thread::yield_now();
            }
        }
        let Some(mut steps) = child.steps() else { return eprintln!("skipped: this system traces no processes") };
        let (mut there, mut released, mut count) = (0, 0, 0);
        while steps.next() {
            count += 1;
            match Snapshot::of(&segment, 0).frames() {
                (77, 2) => there += 1,
                (78, 1) => released += 1,
                other => panic!("RING-3: after {count} instructions there is {other:?}"),
            }
        }
        assert!(there > 50 && released > 0, "{there} before, {released} after: it proves nothing");
    }
}

/// The dead one may have been asleep, or about to be: ringing it does no harm, and the next user of its slot starts afresh.
#[test]
fn bell_1_a_receiver_killed_in_its_sleep_leaves_a_bell_that_can_be_rung() {
    let segment = Arc::new(Segment::create().unwrap());
    let mut chance = Chance(3);
    let mut asleep = 0;
    for _ in 0..ROUNDS / 3 {
        segment.reset_proc(5);
        let bell = net::Bell::new(segment.clone(), 5);
        let child = Child::fork(|| {
            let bell = net::Bell::new(common::attach(&segment), 5);
            loop {
                let count = bell.count();
                bell.sleep(count, Some(Duration::from_micros(50)));
                bell.take_ready(|bit| assert_eq!(bit, 9));
            }
        });
        let sleepers = || segment.proc(5).asleep.load(Ordering::Relaxed);
        common::until(|| sleepers() > 0);
        let end = Instant::now() + Duration::from_micros(chance.below(2_000) as u64);
        while Instant::now() < end {
            bell.ring(9);
        }
        child.kill();
        asleep += sleepers();
        bell.ring(9);
        bell.wake();
        assert!(bell.is_alive(), "the node has not said so yet");
        segment.reset_proc(5);
        assert!(!bell.is_ready());
        assert_eq!(sleepers(), 0);
    }
    assert!(asleep > 0, "nobody was ever killed asleep: it proves nothing");
}
