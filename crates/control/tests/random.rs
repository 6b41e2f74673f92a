//! Random events, with repeats and late ones: the invariants hold after each, and what is said fits
//! together.

mod story;

use std::collections::{BTreeMap, BTreeSet};

use control::{ActorState, Actors, Creation, Effect, Event, Registered};
use model::{ActorId, JobId, Lifetime, ProcId, Tick, WorkerExit};
use proptest::prelude::*;
use story::{creation, id};

#[derive(Clone, Debug)]
enum Move {
    Create { number: u8, name: usize, owner: u16, is_detached: bool, restarts: i32, get_if_exists: bool },
    Placed { number: u8, incarnation_back: u32, slot: u16 },
    Built { number: u8, slot: u16 },
    BuildFailed { number: u8, slot: u16 },
    Leaving { slot: u16 },
    Died { slot: u16, code: i32 },
    Kill { number: u8, no_restart: bool },
    OutOfScope { number: u8 },
    JobEnded { job: u8 },
    Wait(u64),
    Again(usize),
}

fn moves() -> impl Strategy<Value = Move> {
    let (number, slot) = (0..8_u8, 0..6_u16);
    let create = (number.clone(), 0..3_usize, slot.clone(), any::<bool>(), -1..3_i32, any::<bool>()).prop_map(
        |(number, name, owner, is_detached, restarts, get_if_exists)| Move::Create {
            number,
            name,
            owner,
            is_detached,
            restarts,
            get_if_exists,
        },
    );
    let placed = (number.clone(), prop_oneof![4 => Just(0), 1 => 1..3_u32], slot.clone())
        .prop_map(|(number, incarnation_back, slot)| Move::Placed { number, incarnation_back, slot });
    prop_oneof![
        6 => create,
        10 => placed,
        2 => (number.clone(), slot.clone()).prop_map(|(number, slot)| Move::Built { number, slot }),
        2 => (number.clone(), slot.clone()).prop_map(|(number, slot)| Move::BuildFailed { number, slot }),
        1 => slot.clone().prop_map(|slot| Move::Leaving { slot }),
        4 => (slot, 0..2_i32).prop_map(|(slot, code)| Move::Died { slot, code }),
        3 => (number.clone(), any::<bool>()).prop_map(|(number, no_restart)| Move::Kill { number, no_restart }),
        1 => number.prop_map(|number| Move::OutOfScope { number }),
        1 => (0..2_u8).prop_map(|job| Move::JobEnded { job }),
        4 => (0..30_usize).prop_map(Move::Again),
        2 => (0..500_u64).prop_map(Move::Wait),
    ]
}

struct World {
    actors: Actors,
    now: Tick,
    /// The process in each slot.
    epochs: [u32; 6],
    past: Vec<Event>,
    answers: BTreeMap<ActorId, Registered>,
    incarnations: BTreeMap<ActorId, u32>,
    dead: BTreeSet<ActorId>,
    ended: BTreeSet<ProcId>,
}

impl World {
    fn new() -> Self {
        Self {
            actors: Actors::new(),
            now: Tick(0),
            epochs: [0; 6],
            past: Vec::new(),
            answers: BTreeMap::new(),
            incarnations: BTreeMap::new(),
            dead: BTreeSet::new(),
            ended: BTreeSet::new(),
        }
    }

    fn process(&self, slot: u16) -> ProcId {
        ProcId::new(1, slot, self.epochs[usize::from(slot)])
    }

    fn event(&mut self, play: Move) -> Option<Event> {
        Some(match play {
            Move::Create { number, name, owner, is_detached, restarts, get_if_exists } => {
                let mut wanted = Creation { get_if_exists, owner: self.process(owner), ..creation(number) };
                wanted.job = JobId([number % 2; 4]);
                wanted.options.name = ["", "bob", "eve"][name].into();
                wanted.options.restarts_max = restarts;
                wanted.options.lifetime = if is_detached { Lifetime::Detached } else { Lifetime::Owned };
                Event::CreateRequested(wanted)
            }
            Move::Placed { number, incarnation_back, slot } => {
                let incarnation = self.actors.view(id(number)).incarnation.saturating_sub(incarnation_back);
                Event::Placed { actor: id(number), incarnation, worker: self.process(slot) }
            }
            Move::Built { number, slot } => Event::Built { actor: id(number), worker: self.process(slot) },
            Move::BuildFailed { number, slot } => {
                Event::BuildFailed { actor: id(number), worker: self.process(slot), error: [1].into() }
            }
            Move::Leaving { slot } => Event::Leaving { worker: self.process(slot) },
            Move::Died { slot, code } => {
                let process = self.process(slot);
                self.epochs[usize::from(slot)] += 1;
                Event::ProcessDied { process, exit: WorkerExit::Code(code, model::Remains::default()) }
            }
            Move::Kill { number, no_restart } => Event::KillRequested { actor: id(number), no_restart },
            Move::OutOfScope { number } => Event::OutOfScope(id(number)),
            Move::JobEnded { job } => Event::JobEnded(JobId([job; 4])),
            Move::Wait(ms) => {
                self.now = self.now.plus_ms(ms);
                Event::Tick
            }
            Move::Again(back) => self.past.iter().rev().nth(back)?.clone(),
        })
    }

    fn play(&mut self, play: Move) {
        let Some(event) = self.event(play) else { return };
        self.past.push(event.clone());
        let mut effects = Vec::new();
        self.actors.step(self.now, event.clone(), &mut effects);
        self.actors.check_invariants();
        if let Event::CreateRequested(creation) = &event {
            let answered = matches!(&effects[..], [Effect::Answer { request, .. }, ..] if *request == creation.actor);
            assert!(answered, "a request is always answered");
        }
        for effect in effects {
            self.hear(effect);
        }
    }

    fn hear(&mut self, effect: Effect) {
        match effect {
            Effect::Answer { request, answer } => {
                let first = self.answers.entry(request).or_insert_with(|| answer.clone());
                assert_eq!(*first, answer, "a repeat gets the first answer");
            }
            Effect::Publish(view) => {
                assert!(!self.dead.contains(&view.actor), "CTL-2: {} came back", view.actor);
                let before = self.incarnations.insert(view.actor, view.incarnation).unwrap_or(0);
                assert!(before <= view.incarnation, "CTL-4: {} went back to an older life", view.actor);
                if matches!(view.state, ActorState::Dead(_)) {
                    self.dead.insert(view.actor);
                }
            }
            Effect::Place { actor, .. } | Effect::Build { actor, .. } => {
                assert!(!self.dead.contains(&actor), "CTL-2: {actor} is dead and wants a place");
            }
            Effect::Unplace { actor, .. } => assert!(!self.dead.contains(&actor), "CTL-2: {actor} had no place"),
            Effect::EndWorker { worker, .. } => {
                assert!(self.ended.insert(worker), "CTL-3: {worker} is ended twice");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_whatever_is_heard(plays in prop::collection::vec(moves(), 1..200)) {
        let mut world = World::new();
        for play in plays {
            world.play(play);
        }
    }
}
