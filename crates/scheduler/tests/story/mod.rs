//! A small node for stories: given leases, when an event, then exact effects.

#![allow(dead_code, reason = "each story uses its part")]

use model::{JobId, LeaseId, Need, ProcId, Quantity, Resources, Tick};
use scheduler::{Effect, Event, Grant, LeaseKind, Options, Scheduler, WaitReason};

pub(crate) const A: ProcId = ProcId::new(1, 100, 0);
pub(crate) const B: ProcId = ProcId::new(1, 101, 0);

pub(crate) fn lease(owner: ProcId, number: u64) -> LeaseId {
    LeaseId { owner, number }
}

pub(crate) fn worker(slot: u16) -> ProcId {
    ProcId::new(1, slot, 0)
}

pub(crate) fn options(total: Resources) -> Options {
    Options { total, gpu_names: Vec::new(), prestart: 0, idle_ms_max: 1_000, workers_max: 1_000, starts_max: 1_000 }
}

pub(crate) fn cpus(count: i64) -> Resources {
    Resources::cpus(count)
}

pub(crate) fn with(mut resources: Resources, name: &str, parts: i64) -> Resources {
    resources.set(name, Quantity(parts));
    resources
}

pub(crate) fn tasks(lease: LeaseId, resources: Resources) -> Event {
    Event::LeaseRequested { lease, job: JobId([1; 4]), kind: LeaseKind::Tasks, need: Need::same(resources) }
}

/// One core to place, none to hold: what an actor asks for by default.
pub(crate) fn actor(lease: LeaseId) -> Event {
    let need = Need { to_place: cpus(1), ..Need::same(cpus(0)) };
    Event::LeaseRequested { lease, job: JobId([1; 4]), kind: LeaseKind::Actor, need }
}

pub(crate) fn granted(lease: LeaseId, slot: u16) -> Effect {
    Effect::Granted { lease, worker: worker(slot), grant: Grant::default() }
}

pub(crate) struct Node {
    pub(crate) scheduler: Scheduler,
    pub(crate) now: Tick,
    workers: u16,
}

impl Node {
    pub(crate) fn new(options: Options) -> Self {
        Self { scheduler: Scheduler::new(options), now: Tick(1_000_000), workers: 0 }
    }

    pub(crate) fn cpus(count: i64) -> Self {
        Self::new(options(cpus(count)))
    }

    /// The effects of one event.
    pub(crate) fn when(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.scheduler.step(self.now, event, &mut effects);
        self.scheduler.check_invariants();
        effects
    }

    /// The effects of events whose wishes for workers are granted at once; workers count from one.
    pub(crate) fn given(&mut self, events: impl IntoIterator<Item = Event>) -> Vec<Effect> {
        let mut seen = Vec::new();
        for event in events {
            let mut effects = std::collections::VecDeque::from(self.when(event));
            while let Some(effect) = effects.pop_front() {
                if effect == Effect::StartWorker {
                    self.workers += 1;
                    effects.extend(self.when(Event::WorkerReady(worker(self.workers))));
                } else {
                    seen.push(effect);
                }
            }
        }
        seen
    }

    pub(crate) fn after_ms(&mut self, ms: u64) -> Vec<Effect> {
        self.now = self.now.plus_ms(ms);
        self.when(Event::Tick)
    }

    pub(crate) fn reasons(&self) -> Vec<(LeaseId, WaitReason)> {
        self.scheduler.waiting().map(|wait| (wait.lease, wait.reason)).collect()
    }

    pub(crate) fn free_cpus(&self) -> f64 {
        self.scheduler.available().cpu.as_f64()
    }
}
