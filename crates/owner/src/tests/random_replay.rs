//! Random lives of a generator with large values that are lost: whoever holds one gets the one with its index, or hears that it is lost; all bytes
//! are let go of once, and nothing is left.

use std::collections::{HashMap, HashSet};

use model::{Bulk, Failure, Place, TaskKey, Yields};
use proptest::prelude::*;

use super::story::*;
use crate::{Effect, Next, Slot, Stage, Value};

#[derive(Clone, Debug)]
enum Move {
    /// One of the runs goes on: yields its next value, or ends.
    GoOn(usize),
    Fail {
        run: usize,
        is_retryable: bool,
    },
    Read,
    Lose(Vec<usize>),
    Drop(usize),
    /// A task that needs a value makes a large one.
    Use(usize),
    Cancel(usize),
    DropStream,
}

const PICK: std::ops::Range<usize> = 0..1_000;

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        20 => PICK.prop_map(Move::GoOn),
        2 => (PICK, any::<bool>()).prop_map(|(run, is_retryable)| Move::Fail { run, is_retryable }),
        8 => Just(Move::Read),
        6 => prop::collection::vec(PICK, 1..4).prop_map(Move::Lose),
        3 => PICK.prop_map(Move::Drop),
        2 => PICK.prop_map(Move::Use),
        1 => PICK.prop_map(Move::Cancel),
        1 => Just(Move::DropStream),
    ]
}

struct Life {
    process: Process,
    made: Made,
    /// How many values the runs yield, in turn; and how many of each small ones lie between.
    counts: Vec<u32>,
    runs: usize,
    /// Of each run: how many it has yielded, and will.
    progress: HashMap<TaskKey, (u32, u32)>,
    held: Vec<Slot>,
    users: Vec<Slot>,
    places: HashSet<Bulk>,
    serial: u64,
}

impl Life {
    fn new(counts: Vec<u32>, retries: i32, yields: Yields) -> Self {
        let mut process = Process::leased();
        let made = process.submit(task().yields(yields).retries(retries));
        let (progress, held, users, places) = (HashMap::new(), Vec::new(), Vec::new(), HashSet::new());
        Self { process, made, counts, runs: 0, progress, held, users, places, serial: 0 }
    }

    fn large(&mut self, index: u32) -> Value {
        self.serial += 1;
        let bulk = Bulk::Stored(Place { offset: 64 * u64::from(index), length: 8, serial: self.serial });
        self.places.insert(bulk);
        Value::bulk(bulk)
    }

    fn heard(&mut self, effects: Vec<Effect>) {
        let mut back = Vec::new();
        for effect in effects {
            match effect {
                Effect::Discarded(bulk) | Effect::Freed { bulk: Some(bulk), .. } => {
                    assert!(self.places.remove(&bulk), "{bulk:?} is let go of twice");
                }
                Effect::TakeBack { task, .. } => back.push(task),
                // A run begins.
                Effect::Push { task, .. } => drop(self.progress.remove(&task)),
                _ => {}
            }
        }
        // What was cancelled is taken back: none of them has looked at it.
        for key in back {
            let effects = self.process.took_back(key, W1);
            self.heard(effects);
        }
    }

    fn under(&self, at: usize) -> Option<TaskKey> {
        let is_under = |stage: Stage| matches!(stage, Stage::Under { .. });
        let tasks = self.process.owner.tasks().filter(|(_, task)| is_under(task.stage));
        let mut keys: Vec<TaskKey> = tasks.map(|(key, _)| key).collect();
        keys.sort_unstable_by_key(|key| key.0);
        (!keys.is_empty()).then(|| keys[at % keys.len()])
    }

    fn go_on(&mut self, at: usize) {
        let Some(key) = self.under(at) else { return };
        let effects = if self.process.owner.task(key).unwrap().stream.is_none() {
            // One that uses a value.
            let value = self.large(999);
            self.process.replied(key, W1, value)
        } else {
            let next = self.counts[self.runs % self.counts.len()];
            let (runs, progress) = (&mut self.runs, &mut self.progress);
            let (yielded, count) = progress.entry(key).or_insert_with(|| {
                *runs += 1;
                (0, next)
            });
            if yielded == count {
                self.process.replied(key, W1, value(0))
            } else {
                let index = *yielded;
                *yielded += 1;
                // Every third value is small.
                let value = if index % 3 == 2 { value(index as u8) } else { self.large(index) };
                self.process.yielded(key, W1, value)
            }
        };
        self.heard(effects);
    }

    fn pick(&self, at: usize) -> Option<Slot> {
        (!self.held.is_empty()).then(|| self.held[at % self.held.len()])
    }

    fn play(&mut self, play: &Move) {
        let stream = self.made.stream();
        let effects = match play {
            Move::GoOn(at) => return self.go_on(*at),
            Move::Fail { run, is_retryable } => {
                let Some(key) = self.under(*run) else { return };
                self.process.replied(key, W1, if *is_retryable { retryable() } else { failed(raised()) })
            }
            Move::Read => {
                let mut next = Next::End;
                let effects = self.process.when(|owner, _, out| next = owner.on_next(stream, out));
                if let Next::Item { slot, .. } = next {
                    self.held.push(slot);
                }
                effects
            }
            Move::Lose(picks) => {
                // Also what was not read yet.
                let objects = self.process.owner.objects();
                let all = objects.filter_map(|(slot, object)| Some((slot, object.value.as_ref()?.as_bulk()?)));
                let all: Vec<(Slot, Bulk)> = all.collect();
                let mut at: Vec<usize> = picks.iter().map(|at| at % all.len().max(1)).collect();
                at.sort_unstable();
                at.dedup();
                let lost: Vec<(Slot, Bulk)> = at.into_iter().filter_map(|at| all.get(at).copied()).collect();
                self.process.when(|owner, _, out| _ = owner.on_lost(&lost, "the disk broke", out))
            }
            Move::Drop(at) => {
                let Some(slot) = self.pick(*at) else { return };
                self.held.retain(|held| *held != slot);
                self.process.dropped(slot)
            }
            Move::Use(at) => {
                let Some(slot) = self.pick(*at) else { return };
                let user = self.process.submit(task().needs(slot).retries(3));
                self.users.push(user.slot());
                user.effects
            }
            Move::Cancel(at) => {
                let Some(slot) = self.pick(*at) else { return };
                self.process.cancelled(slot)
            }
            Move::DropStream => self.process.when(|owner, _, out| owner.on_stream_dropped(stream, out)),
        };
        self.heard(effects);
        self.check_places();
    }

    /// What an object has is what was yielded with its index.
    fn check_places(&self) {
        for slot in &self.held {
            let object = self.process.owner.object(*slot).expect("OWN-2: it is held");
            if let Some(Bulk::Stored(place)) = object.value.as_ref().and_then(Value::as_bulk) {
                assert_eq!(place.offset / 64, u64::from(object.id.index() - 2), "another value than its own");
            }
        }
    }

    fn settle(mut self) {
        for turn in 0.. {
            if self.process.owner.tasks_pending() == 0 {
                break;
            }
            assert!(turn < 10_000, "LIN-1: somebody waits in vain");
            self.go_on(turn);
        }
        self.check_places();
        for slot in std::mem::take(&mut self.held).into_iter().chain(std::mem::take(&mut self.users)) {
            match self.process.value_of(slot) {
                Some(Value::Failed(failure)) => {
                    let is_replay = matches!(*failure, Failure::Replay { .. });
                    let is_own = matches!(*failure, Failure::Raised(_) | Failure::Retryable(_) | Failure::Cancelled);
                    let is_lost = matches!(*failure, Failure::Lost(_) | Failure::Argument { .. });
                    assert!(is_replay || is_own || is_lost, "{failure:?}");
                }
                Some(_) => {}
                None => panic!("LIN-1: {slot} never comes"),
            }
            let effects = self.process.dropped(slot);
            self.heard(effects);
        }
        let stream = self.made.stream();
        let effects = self.process.when(|owner, _, out| owner.on_stream_dropped(stream, out));
        self.heard(effects);
        let effects = self.process.dropped(self.made.slot());
        self.heard(effects);
        assert_eq!(self.process.owner.objects_kept(), 0);
        assert!(self.places.is_empty(), "never let go of: {:?}", self.places);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lin_1_and_2_hold_for_values_of_generators(
        counts in prop::collection::vec(0..10_u32, 1..4),
        retries in 0..4_i32,
        ahead_max in 0..3_u32,
        bytes_max in prop_oneof![Just(u64::MAX), 0..2_000_u64],
        plays in prop::collection::vec(moves(), 1..150),
    ) {
        let mut life = Life::new(counts, retries, Yields::Stream { ahead_max });
        life.process.owner.set_lineage_max(bytes_max, false);
        for play in &plays {
            life.play(play);
        }
        life.settle();
    }
}
