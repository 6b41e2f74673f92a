//! What `eagleray memory` shows: every process is asked what it holds, and whoever asked is told once all have answered, or the time is up.

use model::{ProcId, Tick};
use rustc_hash::FxHashSet;
use wire::control::{Answer, FromNode};
use wire::status::{Holdings, Inventory};

use crate::looped::Node;
use crate::procs::Kind;

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
    conn: usize,
    request: u64,
    until: Tick,
    awaited: FxHashSet<ProcId>,
    said: Vec<Holdings>,
}

impl Inventories {
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.asking.iter().map(|asking| asking.until).min()
    }

    /// Whoever asked has left; its connection's index is used again.
    pub(crate) fn conn_closed(&mut self, conn: usize) {
        self.asking.retain(|asking| asking.conn != conn);
    }
}

impl Node {
    pub(crate) fn take_inventory(&mut self, conn: usize, request: u64, limit: u32) {
        let can_answer = |proc: &&crate::procs::Proc| proc.kind != Kind::Starting && proc.conn.is_some();
        let everyone: Vec<ProcId> = self.procs.iter().filter(can_answer).map(|proc| proc.id).collect();
        self.inventories.number += 1;
        let number = self.inventories.number;
        let until = net::clock::now().plus_ms(WAIT_MS);
        let awaited = everyone.iter().copied().collect();
        self.inventories.asking.push(Asking { number, conn, request, until, awaited, said: Vec::new() });
        for process in everyone {
            self.tell(process, &FromNode::TellHoldings { number, limit });
        }
        let surplus = self.inventories.asking.len().saturating_sub(ASKING_MAX);
        self.end_inventories(|at, asking| at < surplus || asking.awaited.is_empty());
    }

    pub(crate) fn on_holdings(&mut self, who: ProcId, number: u64, holdings: Holdings) {
        if let Some(asking) = self.inventories.asking.iter_mut().find(|asking| asking.number == number)
            && asking.awaited.remove(&who)
        {
            asking.said.push(Holdings { process: who, ..holdings });
            self.end_inventories(|_, asking| asking.awaited.is_empty());
        }
    }

    pub(crate) fn inventories_without(&mut self, gone: ProcId) {
        for asking in &mut self.inventories.asking {
            asking.awaited.remove(&gone);
        }
        self.end_inventories(|_, asking| asking.awaited.is_empty());
    }

    pub(crate) fn end_late_inventories(&mut self, now: Tick) {
        self.end_inventories(|_, asking| asking.until <= now);
    }

    fn end_inventories(&mut self, is_over: impl Fn(usize, &Asking) -> bool) {
        let (over, open): (Vec<_>, Vec<_>) = std::mem::take(&mut self.inventories.asking)
            .into_iter()
            .enumerate()
            .partition(|(at, asking)| is_over(*at, asking));
        self.inventories.asking = open.into_iter().map(|(_, asking)| asking).collect();
        for (_, asking) in over {
            let inventory = self.inventory(asking.said, &asking.awaited);
            let answer = Answer::Inventory(Box::new(inventory));
            self.tell_conn(asking.conn, &FromNode::Answer { request: asking.request, answer }, Vec::new());
        }
    }

    fn inventory(&self, mut processes: Vec<Holdings>, silent: &FxHashSet<ProcId>) -> Inventory {
        for holdings in &mut processes {
            holdings.state = self.procs.get(holdings.process).map(|proc| self.state_of(proc)).unwrap_or_default();
        }
        processes.sort_by_key(|holdings| holdings.pid);
        let free = self.scheduler.available();
        let free_of = |name: &str| free.iter().find(|(other, _)| *other == name).map_or(0, |(_, amount)| amount.0);
        Inventory {
            processes,
            silent: silent.iter().filter_map(|id| Some(self.procs.get(*id)?.pid)).collect(),
            store: (self.room.host.used(), self.room.host.capacity()),
            orphaned: self.room.host.orphaned(),
            files: store::files_in(&self.options.folders),
            resources: self
                .scheduler
                .total()
                .iter()
                .map(|(name, total)| (name.into(), total.0, free_of(name)))
                .collect(),
            leases_waiting: self.scheduler.waiting().count() as u64,
        }
    }
}
