//! A small table for stories: given events, when an event, then exact effects.

#![allow(dead_code, reason = "each story uses its part")]

use control::{ActorState, ActorView, Actors, Creation, Effect, Event, Registered};
use model::{ActorDeath, ActorId, ActorOptions, JobId, Lifetime, Need, ProcId, Tick, WorkerExit};

pub(crate) const DRIVER: ProcId = ProcId::new(1, 9_999, 0);
pub(crate) const JOB: JobId = JobId([7, 0, 0, 0]);
pub(crate) const CRASH: WorkerExit = WorkerExit::Unknown;

pub(crate) fn id(number: u8) -> ActorId {
    ActorId([number; 16])
}

pub(crate) fn worker(slot: u16) -> ProcId {
    ProcId::new(1, slot, 0)
}

/// An owned, unnamed actor without restarts.
pub(crate) fn creation(number: u8) -> Creation {
    let options = ActorOptions {
        class_name: "Counter".into(),
        name: "".into(),
        namespace: "ns".into(),
        lifetime: Lifetime::Owned,
        restarts_max: 0,
        need: Need::default(),
        concurrency: 1,
        is_async: false,
    };
    Creation { actor: id(number), owner: DRIVER, job: JOB, options, get_if_exists: false, spec: [1, 2, 3].into() }
}

pub(crate) fn named(number: u8, name: &str) -> Creation {
    let mut creation = creation(number);
    creation.options.name = name.into();
    creation
}

pub(crate) fn restarting(number: u8, restarts_max: i32) -> Creation {
    let mut creation = creation(number);
    creation.options.restarts_max = restarts_max;
    creation
}

pub(crate) fn detached(mut creation: Creation) -> Creation {
    creation.options.lifetime = Lifetime::Detached;
    creation
}

pub(crate) fn if_none(mut creation: Creation) -> Creation {
    creation.get_if_exists = true;
    creation
}

pub(crate) fn create(creation: &Creation) -> Event {
    Event::CreateRequested(creation.clone())
}

pub(crate) fn placed(number: u8, incarnation: u32, slot: u16) -> Event {
    Event::Placed { actor: id(number), incarnation, worker: worker(slot) }
}

pub(crate) fn built(number: u8, slot: u16) -> Event {
    Event::Built { actor: id(number), worker: worker(slot) }
}

pub(crate) fn build_failed(number: u8, slot: u16) -> Event {
    Event::BuildFailed { actor: id(number), worker: worker(slot), error: [9].into() }
}

pub(crate) fn died(process: ProcId, exit: WorkerExit) -> Event {
    Event::ProcessDied { process, exit }
}

pub(crate) fn kill(number: u8, no_restart: bool) -> Event {
    Event::KillRequested { actor: id(number), no_restart }
}

pub(crate) fn answer(number: u8, answer: Registered) -> Effect {
    Effect::Answer { request: id(number), answer }
}

pub(crate) fn place(number: u8, incarnation: u32) -> Effect {
    Effect::Place { actor: id(number), incarnation }
}

pub(crate) fn unplace(number: u8, incarnation: u32) -> Effect {
    Effect::Unplace { actor: id(number), incarnation }
}

pub(crate) fn build(number: u8, slot: u16) -> Effect {
    Effect::Build { actor: id(number), worker: worker(slot) }
}

pub(crate) fn end(slot: u16, gracefully: bool) -> Effect {
    Effect::EndWorker { worker: worker(slot), gracefully }
}

pub(crate) fn alive(number: u8, incarnation: u32, slot: u16) -> Effect {
    publish(number, incarnation, ActorState::Alive { worker: worker(slot) })
}

pub(crate) fn restarts(number: u8, incarnation: u32) -> Effect {
    publish(number, incarnation, ActorState::Restarting)
}

pub(crate) fn dead(number: u8, incarnation: u32, death: ActorDeath) -> Effect {
    publish(number, incarnation, ActorState::Dead(death))
}

fn publish(number: u8, incarnation: u32, state: ActorState) -> Effect {
    Effect::Publish(ActorView { actor: id(number), state, incarnation })
}

pub(crate) struct Table {
    pub(crate) actors: Actors,
    pub(crate) now: Tick,
}

impl Table {
    pub(crate) fn given(events: impl IntoIterator<Item = Event>) -> Self {
        let mut table = Self { actors: Actors::new(), now: Tick(0) };
        for event in events {
            table.when(event);
        }
        table
    }

    pub(crate) fn when(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.actors.step(self.now, event, &mut effects);
        self.actors.check_invariants();
        effects
    }

    pub(crate) fn given_more(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.when(event);
        }
    }

    pub(crate) fn after_ms(&mut self, ms: u64) -> Vec<Effect> {
        self.now = self.now.plus_ms(ms);
        self.when(Event::Tick)
    }

    pub(crate) fn death(&self, number: u8) -> Option<&ActorDeath> {
        self.actors.get(id(number)).and_then(|record| record.death())
    }
}
