//! What `eagleray memory` shows: every process is asked what it holds, and whoever asked is told once all have answered, or the time is up.

use model::{ProcId, Tick};
use rustc_hash::FxHashSet;
use wire::control::{Answer, FromNodeOf};
use wire::status::{Holdings, Inventory};

use crate::body::{Asker, Body, Door, Step};
use crate::hub::Hub;
use crate::procs::Proc;

/// A process that does not answer for so long is stopped, or very busy.
const WAIT_MS: u64 = 3_000;
/// Questions at a time.
const ASKING_MAX: usize = 16;

#[derive(Default)]
pub(crate) struct Inventories {
    number: u64,
    asking: Vec<Asking>,
}

struct Asking {
    number: u64,
    asker: Asker,
    request: u64,
    until: Tick,
    awaited: FxHashSet<ProcId>,
    said: Vec<Holdings>,
}

impl Inventories {
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.asking.iter().map(|asking| asking.until).min()
    }

    /// Whoever asked has left; its door is used again.
    pub(crate) fn door_closed(&mut self, door: Door) {
        self.asking.retain(|asking| asking.asker.door != door);
    }

    /// Nobody hears an answer to what it asked.
    pub(crate) fn asker_gone(&mut self, who: ProcId) {
        self.asking.retain(|asking| asking.asker.who != Some(who));
    }

    pub(crate) fn awaited(&self) -> impl Iterator<Item = &ProcId> {
        self.asking.iter().flat_map(|asking| &asking.awaited)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.asking.is_empty()
    }
}

impl<B: Body> Hub<B> {
    pub(crate) fn take_inventory(&mut self, step: &mut Step<'_, B>, asker: Asker, request: u64, limit: u32) {
        let everyone = self.everyone_who_hears();
        self.inventories.number += 1;
        let number = self.inventories.number;
        let until = step.now.plus_ms(WAIT_MS);
        let awaited = everyone.iter().copied().collect();
        self.inventories.asking.push(Asking { number, asker, request, until, awaited, said: Vec::new() });
        for process in everyone {
            self.tell(step, process, FromNodeOf::TellHoldings { number, limit });
        }
        let surplus = self.inventories.asking.len().saturating_sub(ASKING_MAX);
        self.end_inventories(step, |at, asking| at < surplus || asking.awaited.is_empty());
    }

    pub(crate) fn on_holdings(&mut self, step: &mut Step<'_, B>, who: ProcId, number: u64, holdings: Holdings) {
        if let Some(asking) = self.inventories.asking.iter_mut().find(|asking| asking.number == number)
            && asking.awaited.remove(&who)
        {
            asking.said.push(Holdings { process: who, ..holdings });
            self.end_inventories(step, |_, asking| asking.awaited.is_empty());
        }
    }

    pub(crate) fn inventories_without(&mut self, step: &mut Step<'_, B>, gone: ProcId) {
        for asking in &mut self.inventories.asking {
            asking.awaited.remove(&gone);
        }
        self.end_inventories(step, |_, asking| asking.awaited.is_empty());
    }

    pub(crate) fn end_late_inventories(&mut self, step: &mut Step<'_, B>) {
        let now = step.now;
        self.end_inventories(step, |_, asking| asking.until <= now);
    }

    fn end_inventories(&mut self, step: &mut Step<'_, B>, is_over: impl Fn(usize, &Asking) -> bool) {
        let (over, open): (Vec<_>, Vec<_>) = std::mem::take(&mut self.inventories.asking)
            .into_iter()
            .enumerate()
            .partition(|(at, asking)| is_over(*at, asking));
        self.inventories.asking = open.into_iter().map(|(_, asking)| asking).collect();
        for (_, asking) in over {
            let inventory = self.inventory(step, asking.said, &asking.awaited);
            step.body.answer(asking.asker.door, asking.request, Answer::Inventory(Box::new(inventory)));
        }
    }

    fn inventory(&self, step: &Step<'_, B>, mut processes: Vec<Holdings>, silent: &FxHashSet<ProcId>) -> Inventory {
        for holdings in &mut processes {
            let process = self.procs.get(holdings.process);
            holdings.state = process.map(|proc| self.state_of(step, proc)).unwrap_or_default();
        }
        processes.sort_by_key(|holdings| holdings.pid);
        let scheduler = self.leases.scheduler();
        let free = scheduler.available();
        let free_of = |name: &str| free.iter().find(|(other, _)| *other == name).map_or(0, |(_, amount)| amount.0);
        let resources = scheduler.total().iter().map(|(name, total)| (name.into(), total.0, free_of(name))).collect();
        let store = step.body.store();
        Inventory {
            processes,
            silent: silent.iter().filter_map(|id| self.procs.get(*id).map(Proc::pid)).collect(),
            store: (store.used, store.capacity),
            orphaned: store.orphaned,
            files: step.body.files(),
            resources,
            leases_waiting: scheduler.waiting().count() as u64,
        }
    }
}
