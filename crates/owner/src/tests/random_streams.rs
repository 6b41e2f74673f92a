//! Random lives of one generator: its reader sees each value once and in order, then one failure at most, then the end.

use model::{Failure, ProcId, Yields};
use proptest::prelude::*;

use super::story::*;
use crate::{Effect, Next, StreamKey, Value};

#[derive(Clone, Debug)]
enum Move {
    /// The worker goes on: yields its next value, or ends.
    GoOn,
    Raise,
    RaiseRetryable,
    Die,
    /// A value and an answer of a run that is over.
    Late,
    Read,
    ReadAndKeep,
    Cancel,
    DropStream,
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        20 => Just(Move::GoOn),
        1 => Just(Move::Raise),
        3 => Just(Move::RaiseRetryable),
        3 => Just(Move::Die),
        2 => Just(Move::Late),
        10 => Just(Move::Read),
        5 => Just(Move::ReadAndKeep),
        1 => Just(Move::Cancel),
        1 => Just(Move::DropStream),
    ]
}

struct Life {
    process: Process,
    made: Made,
    stream: StreamKey,
    count: u8,
    retries_left: i32,
    worker: Option<ProcId>,
    workers: u16,
    yielded: u8,
    is_cancelled: bool,
    is_dropped: bool,
    /// How the last run ended: it was a success, or not.
    ended: Option<bool>,
    read: Vec<Value>,
    has_ended: bool,
    kept: Vec<u32>,
}

impl Life {
    fn new(count: u8, retries: i32, ahead_max: u32) -> Self {
        let mut process = Process::new();
        let made = process.submit(task().yields(Yields::Stream { ahead_max }).retries(retries));
        let stream = made.stream();
        let mut life = Self {
            process,
            made,
            stream,
            count,
            retries_left: retries,
            worker: None,
            workers: 0,
            yielded: 0,
            is_cancelled: false,
            is_dropped: false,
            ended: None,
            read: Vec::new(),
            has_ended: false,
            kept: Vec::new(),
        };
        life.find_worker();
        life
    }

    /// A run begins on a worker of its own.
    fn find_worker(&mut self) {
        let number = u64::from(self.workers);
        self.workers += 1;
        let to = worker(self.workers);
        let effects = self.process.granted(number, to);
        assert!(effects.contains(&push(&self.made, to)), "{effects:?}");
        (self.worker, self.yielded) = (Some(to), 0);
    }

    /// The run is over; `again`: unless it may not, the generator runs once more.
    fn run_ended(&mut self, is_success: bool, again: bool) -> bool {
        let runs_again = again && !is_success && self.retries_left != 0 && !self.is_cancelled;
        if runs_again {
            self.retries_left -= i32::from(self.retries_left > 0);
        } else {
            self.ended = Some(is_success && !self.is_cancelled);
            self.worker = None;
        }
        runs_again
    }

    fn play(&mut self, play: &Move) {
        match (play, self.worker) {
            (Move::GoOn, Some(from)) if self.yielded < self.count => {
                let effects = self.process.yielded(&self.made, from, value(self.yielded));
                assert!(effects.iter().all(|effect| matches!(effect, Effect::Resolved(_))), "{effects:?}");
                self.yielded += 1;
            }
            (Move::GoOn, Some(from)) => {
                self.process.replied(&self.made, from, value(0));
                self.run_ended(true, false);
            }
            (Move::Raise, Some(from)) => {
                self.process.replied(&self.made, from, failed(raised()));
                self.run_ended(false, false);
            }
            (Move::RaiseRetryable, Some(from)) => {
                self.process.replied(&self.made, from, retryable());
                if self.run_ended(false, true) {
                    self.yielded = 0;
                }
            }
            (Move::Die, Some(from)) => {
                let made = self.made.clone();
                self.process.died(from, &[&made]);
                if self.run_ended(false, true) {
                    self.find_worker();
                }
            }
            (Move::Late, _) => {
                let from = worker(999);
                assert_eq!(self.process.yielded(&self.made, from, value(77)), []);
                self.process.replied(&self.made, from, value(77));
            }
            (Move::Read, _) => self.read(false),
            (Move::ReadAndKeep, _) => self.read(true),
            (Move::Cancel, _) if self.ended.is_none() => {
                self.is_cancelled = true;
                self.process.cancelled(self.made.slot());
            }
            (Move::DropStream, _) => {
                let stream = self.stream;
                self.process.when(|owner, _, out| owner.on_stream_dropped(stream, out));
                self.is_dropped = true;
            }
            _ => {}
        }
    }

    fn read(&mut self, keep: bool) {
        let (stream, ahead) = (self.stream, self.process.owner.consumed(self.made.key));
        let mut next = Next::End;
        let effects = self.process.when(|owner, _, out| next = owner.on_next(stream, out));
        match next {
            Next::Item { slot, .. } => {
                assert!(!self.is_dropped && !self.has_ended, "STREAM-2: a value behind the end");
                self.read.push(self.process.value_of(slot).expect("STREAM-1: what is read has a value"));
                if keep {
                    self.kept.push(slot);
                } else {
                    self.process.dropped(slot);
                }
                for effect in effects {
                    let Effect::Consumed { count, worker, .. } = effect else { panic!("{effect:?}") };
                    assert!(Some(worker) == self.worker && ahead.is_none_or(|before| count == before + 1));
                }
            }
            Next::Pending(_) => assert!(self.ended.is_none(), "STREAM-2: the end never comes"),
            Next::End => {
                self.has_ended = true;
                assert!(self.ended.is_some() || self.is_dropped, "STREAM-2: the end before the generator's");
            }
        }
    }

    /// Faults stop: the generator ends, and what its reader saw is what it should be.
    fn settle(mut self) {
        while self.worker.is_some() {
            self.play(&Move::GoOn);
        }
        while !self.has_ended {
            self.read(false);
        }
        self.check_what_was_read();
        for slot in std::mem::take(&mut self.kept) {
            assert!(self.process.value_of(slot).is_some(), "STREAM-1: a value is gone while it is held");
            self.process.dropped(slot);
        }
        self.process.dropped(self.made.slot());
        let stream = self.stream;
        self.process.when(|owner, _, out| owner.on_stream_dropped(stream, out));
        assert_eq!((self.process.owner.objects_kept(), self.process.owner.tasks_pending()), (0, 0));
    }

    fn check_what_was_read(&self) {
        let is_failure = |value: &&Value| matches!(value, Value::Failed(_));
        let failures = self.read.iter().filter(is_failure).count();
        let values: Vec<Value> = self.read.iter().filter(|value| !is_failure(value)).cloned().collect();
        let expected: Vec<Value> = (0..values.len() as u8).map(value).collect();
        assert_eq!(values, expected, "STREAM-1: each value once and in order");
        if self.is_dropped {
            return;
        }
        match self.ended {
            Some(true) => assert_eq!((values.len(), failures), (usize::from(self.count), 0)),
            _ => assert_eq!(failures, 1, "STREAM-2: one failure"),
        }
        if self.is_cancelled {
            assert_eq!(self.read.last(), Some(&failed(Failure::Cancelled)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stream_1_and_2_hold_and_nothing_is_left(
        count in 0..12_u8,
        retries in -1..4_i32,
        ahead_max in 0..3_u32,
        plays in prop::collection::vec(moves(), 1..80),
    ) {
        let mut life = Life::new(count, retries, ahead_max);
        for play in &plays {
            life.play(play);
        }
        life.settle();
    }
}
