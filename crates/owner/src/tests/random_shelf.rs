//! Random lives of tasks with large values, which are lost, let go of, moved and forgotten: whoever holds one gets it, or hears that it is lost;
//! every file is let go of once, and nothing is left.

use std::collections::{HashMap, HashSet};

use model::{Bulk, Failure, FileId, Filed, Place, TaskKey};
use proptest::prelude::*;

use super::story::*;
use crate::{Effect, Leaving, Slot, Stage, Value};

#[derive(Clone, Debug)]
enum Move {
    Submit {
        needs: Vec<usize>,
        bytes: usize,
        retries: i32,
    },
    Reply(usize),
    Raise(usize),
    /// The call wants to be tried again, or its worker found an argument of it lost.
    Again {
        at: usize,
        is_lost: bool,
    },
    Lose(Vec<usize>),
    Drop(usize),
    Cancel(usize),
    /// The body takes what is to be moved.
    Take,
    Moved {
        works: bool,
    },
    Read {
        at: usize,
        works: bool,
    },
    Need(usize),
    /// The look for an argument that a worker did not find ends.
    Looked {
        at: usize,
        finds: bool,
    },
}

const PICK: std::ops::Range<usize> = 0..1_000;

fn moves() -> impl Strategy<Value = Move> {
    let submit = (prop::collection::vec(PICK, 0..3), 0..900_usize, 0..3_i32);
    prop_oneof![
        8 => submit.prop_map(|(needs, bytes, retries)| Move::Submit { needs, bytes, retries }),
        12 => PICK.prop_map(Move::Reply),
        1 => PICK.prop_map(Move::Raise),
        2 => (PICK, any::<bool>()).prop_map(|(at, is_lost)| Move::Again { at, is_lost }),
        4 => prop::collection::vec(PICK, 1..4).prop_map(Move::Lose),
        4 => PICK.prop_map(Move::Drop),
        1 => PICK.prop_map(Move::Cancel),
        3 => Just(Move::Take),
        3 => prop::bool::weighted(0.8).prop_map(|works| Move::Moved { works }),
        6 => (PICK, prop::bool::weighted(0.9)).prop_map(|(at, works)| Move::Read { at, works }),
        2 => PICK.prop_map(Move::Need),
        3 => (PICK, any::<bool>()).prop_map(|(at, finds)| Move::Looked { at, finds }),
    ]
}

struct Life {
    process: Process,
    held: Vec<Slot>,
    /// Values that lie somewhere.
    places: HashSet<Bulk>,
    /// Arguments that lie in files: what they are.
    files: HashMap<Filed, Vec<u8>>,
    asked_to_move: bool,
    taken: Option<Leaving>,
    reading: Vec<(TaskKey, Filed)>,
    looking: Vec<(TaskKey, Vec<(Slot, Bulk)>)>,
    serial: u64,
}

impl Life {
    fn new(bytes_max: u64, can_move: bool) -> Self {
        let mut process = Process::leased();
        process.owner.set_lineage_max(bytes_max, can_move);
        let (held, places, files, reading) = (Vec::new(), HashSet::new(), HashMap::new(), Vec::new());
        let looking = Vec::new();
        Self { process, held, places, files, asked_to_move: false, taken: None, reading, looking, serial: 0 }
    }

    fn heard(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Discarded(Bulk::Filed(filed)) => {
                    assert!(self.files.remove(&filed).is_some(), "{filed:?} is let go of twice");
                }
                Effect::Discarded(bulk) | Effect::Freed { bulk: Some(bulk), .. } => {
                    assert!(self.places.remove(&bulk), "{bulk:?} is let go of twice");
                }
                Effect::MoveLineage => {
                    assert!(!self.asked_to_move, "it was asked already");
                    self.asked_to_move = true;
                }
                Effect::Push { task, .. } => {
                    let deps = self.process.owner.task(task).map(|task| task.spec.deps.clone()).unwrap_or_default();
                    let is_there = |slot: &Slot| matches!(self.process.value_of(*slot), Some(Value::Bulk(_)));
                    assert!(deps.iter().all(is_there), "LIN-1: it is sent without its arguments");
                }
                Effect::ReadArguments { task, filed } => self.reading.push((task, filed)),
                Effect::LookForArguments { task, .. } => {
                    self.looking.push((task, self.process.owner.arguments_to_look_at(task)));
                }
                _ => {}
            }
        }
    }

    fn pick(&self, at: usize) -> Option<Slot> {
        (!self.held.is_empty()).then(|| self.held[at % self.held.len()])
    }

    fn under(&self) -> Vec<TaskKey> {
        let is_under = |stage: Stage| matches!(stage, Stage::Under { .. });
        let mut keys: Vec<TaskKey> =
            self.process.owner.tasks().filter(|(_, task)| is_under(task.stage)).map(|(key, _)| key).collect();
        keys.sort_by_key(|key| key.0);
        keys
    }

    fn reply(&mut self, at: usize) {
        let under = self.under();
        if under.is_empty() {
            return;
        }
        let key = under[at % under.len()];
        let spec = &self.process.owner.task(key).unwrap().spec;
        assert!(spec.payload.iter().all(|byte| *byte == 7), "LIN-3: these are not its arguments");
        self.serial += 1;
        let bulk = Bulk::Stored(Place { offset: 64 * self.serial, length: 8, serial: self.serial });
        self.places.insert(bulk);
        let effects = self.process.replied(key, W1, Value::bulk(bulk));
        self.heard(effects);
    }

    fn play(&mut self, play: &Move) {
        let effects = match play {
            Move::Submit { needs, bytes, retries } => {
                let needs: Vec<Slot> = needs.iter().filter_map(|at| self.pick(*at)).collect();
                let call = needs.into_iter().fold(task(), |call, slot| call.needs(slot));
                let made = self.process.submit(call.given(*bytes).retries(*retries));
                self.held.push(made.slot());
                made.effects
            }
            Move::Reply(at) => return self.reply(*at),
            Move::Raise(at) => {
                let under = self.under();
                let Some(key) = (!under.is_empty()).then(|| under[at % under.len()]) else { return };
                self.process.replied(key, W1, failed(raised()))
            }
            Move::Again { at, is_lost } => {
                let under = self.under();
                let Some(key) = (!under.is_empty()).then(|| under[at % under.len()]) else { return };
                if *is_lost {
                    self.process.when(|owner, now, out| owner.on_argument_lost(now, key, W1, "not there", out))
                } else {
                    self.process.replied(key, W1, retryable())
                }
            }
            Move::Lose(picks) => {
                let slots: HashSet<Slot> = picks.iter().filter_map(|at| self.pick(*at)).collect();
                let place = |slot: &Slot| Some((*slot, self.process.value_of(*slot)?.as_bulk()?));
                let mut lost: Vec<(Slot, Bulk)> = slots.iter().filter_map(place).collect();
                lost.sort_unstable_by_key(|(slot, _)| *slot);
                self.process.when(|owner, _, out| _ = owner.on_lost(&lost, "the disk broke", out))
            }
            Move::Drop(at) => {
                let Some(slot) = self.pick(*at) else { return };
                self.held.retain(|held| *held != slot);
                self.process.dropped(slot)
            }
            Move::Cancel(at) => {
                let Some(slot) = self.pick(*at) else { return };
                let effects = self.process.cancelled(slot);
                // What runs is taken back: none of them looks at it.
                let back: Vec<TaskKey> = effects
                    .iter()
                    .filter_map(|effect| match effect {
                        Effect::TakeBack { task, .. } => Some(*task),
                        _ => None,
                    })
                    .collect();
                self.heard(effects);
                let effects: Vec<Vec<Effect>> = back.into_iter().map(|key| self.process.took_back(key, W1)).collect();
                effects.into_iter().flatten().collect()
            }
            Move::Take => {
                if self.asked_to_move && self.taken.is_none() {
                    self.taken = Some(self.process.owner.lineage_to_move());
                }
                return;
            }
            Move::Moved { works } => {
                let Some(leaving) = self.taken.take() else { return };
                self.asked_to_move = false;
                if *works {
                    self.move_all(&leaving)
                } else {
                    self.process.when(|owner, _, out| owner.on_lineage_stays(out))
                }
            }
            Move::Read { at, works } => {
                if self.reading.is_empty() {
                    return;
                }
                let (key, filed) = self.reading.swap_remove(at % self.reading.len());
                // Of one that has ended meanwhile the file may be gone.
                let read = self.files.get(&filed).cloned().ok_or_else(|| "gone".to_string());
                let read = if *works { read } else { Err("the disk broke as well".into()) };
                self.process.when(|owner, _, out| owner.on_arguments_read(key, read, out))
            }
            Move::Need(at) => {
                let Some(slot) = self.pick(*at) else { return };
                self.process.when(|owner, _, out| owner.on_needed(slot, out))
            }
            Move::Looked { at, finds } => {
                if self.looking.is_empty() {
                    return;
                }
                let (key, mut gone) = self.looking.swap_remove(at % self.looking.len());
                gone.truncate(usize::from(!finds));
                let mut is_news = false;
                let effects = self.process.when(|owner, _, out| is_news = owner.on_lost(&gone, "the disk broke", out));
                self.heard(effects);
                self.process.looked(key, !gone.is_empty() && !is_news, "not there")
            }
        };
        self.heard(effects);
    }

    fn move_all(&mut self, leaving: &Leaving) -> Vec<Effect> {
        let mut at = 0;
        let mut files = Vec::new();
        for length in &leaving.lengths {
            self.serial += 1;
            let file = FileId { by: W1, number: self.serial as u32, folder: 0 };
            let filed = Filed { file, offset: at as u64, length: *length as u64, check: 0 };
            self.files.insert(filed, leaving.bytes[at..at + length].to_vec());
            files.push(filed);
            at += length;
        }
        self.process.when(|owner, _, out| owner.on_lineage_moved(leaving, &files, out))
    }

    fn settle(mut self) {
        for turn in 0.. {
            if self.process.owner.tasks_pending() == 0 && !self.asked_to_move {
                break;
            }
            assert!(turn < 10_000, "LIN-1: somebody waits in vain");
            self.play(&Move::Take);
            self.play(&Move::Moved { works: true });
            self.play(&Move::Read { at: 0, works: true });
            self.play(&Move::Looked { at: 0, finds: false });
            self.reply(0);
        }
        for slot in std::mem::take(&mut self.held) {
            match self.process.value_of(slot) {
                Some(Value::Failed(failure)) => assert!(
                    matches!(
                        *failure,
                        Failure::Lost(_)
                            | Failure::Argument { .. }
                            | Failure::Raised(_)
                            | Failure::Retryable(_)
                            | Failure::Cancelled
                    ),
                    "{failure:?}"
                ),
                Some(Value::Bulk(_)) => {}
                other => panic!("LIN-1: {slot} is {other:?}"),
            }
            let effects = self.process.dropped(slot);
            self.heard(effects);
        }
        assert_eq!(self.process.owner.objects_kept(), 0);
        assert!(self.places.is_empty() && self.files.is_empty(), "{:?} {:?}", self.places, self.files);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lin_1_to_4_hold_and_nothing_is_left(
        bytes_max in prop_oneof![Just(1_u64), 0..10_000_u64],
        can_move in prop::bool::weighted(0.7),
        plays in prop::collection::vec(moves(), 1..150),
    ) {
        let mut life = Life::new(bytes_max, can_move);
        for play in &plays {
            life.play(play);
        }
        life.settle();
    }
}
