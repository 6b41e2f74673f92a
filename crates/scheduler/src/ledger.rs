//! Counts what the node has and what of it is free.
//!
//! The kinds of resource a node has are fixed when it starts. So an amount is a number in a short array,
//! a need is a list of (place in that array, amount), and comparing the two touches no string. Worker
//! processes are one more kind, of which every lease holds one: so `workers_max` is shared out, and
//! asked back, by the same rules as cores.
//!
//! What a placement group's bundle sets aside is taken from the node's kinds and becomes kinds of its own: a lease in the
//! bundle asks for those, and everything else is as for any lease.

use model::{Need, Quantity, Resources};

use crate::devices::Devices;
use crate::groups::Bundle;

const CPU: usize = 0;
const GPU: usize = 1;
const WORKERS: usize = 3;

/// What the node has, and what of it is free; free amounts may be below zero.
pub(crate) struct Ledger {
    names: Vec<Box<str>>,
    total: Vec<i64>,
    /// Indexed like `total`. Copies of it serve for "what if" questions.
    pub(crate) free: Vec<i64>,
    /// The node's own kinds come first; those behind them are bundles'.
    own: usize,
    /// Of bundles that are no more.
    vacant: Vec<usize>,
}

/// A need in the ledger's terms.
#[derive(Default)]
pub(crate) struct Demand {
    /// The greater of what must be free and what will be held, per kind.
    fit: Vec<(usize, i64)>,
    hold: Vec<(usize, i64)>,
    /// Cores held; what a blocked worker lends out.
    pub(crate) cpu: i64,
    /// Which cores these are: the node's or a bundle's.
    cpu_kind: usize,
    /// The GPUs that it may have.
    pub(crate) among: Box<[u16]>,
    /// Whether the node has every kind that is asked for, and enough of it.
    pub(crate) is_feasible: bool,
}

impl Ledger {
    /// Whether more is held than there is, of the cores that this asks for: workers that waited run again.
    pub(crate) fn is_overdrawn(&self, demand: &Demand) -> bool {
        self.free[demand.cpu_kind] < 0
    }

    pub(crate) fn new(total: &Resources, workers_max: u32) -> Self {
        let mut names: Vec<Box<str>> = vec!["CPU".into(), "GPU".into(), "memory".into(), "".into()];
        let mut amounts = vec![total.cpu.0, total.gpu.0, total.memory.0, i64::from(workers_max)];
        for (name, amount) in total.iter().filter(|(name, _)| !matches!(*name, "CPU" | "GPU" | "memory")) {
            names.push(name.into());
            amounts.push(amount.0);
        }
        Self { own: names.len(), names, free: amounts.clone(), total: amounts, vacant: Vec::new() }
    }

    /// What a lease anywhere on the node asks for.
    pub(crate) fn demand(&self, need: &Need, devices: &Devices) -> Demand {
        let own = |name: &str| self.names[..self.own].iter().position(|known| &**known == name);
        let among = if need.to_hold.gpu > Quantity::ZERO { devices.own() } else { Box::default() };
        self.demand_of(need, CPU, among, own)
    }

    /// What a lease in a bundle asks for.
    pub(crate) fn demand_in(&self, need: &Need, bundle: &Bundle) -> Demand {
        let within = |name: &str| bundle.kinds.iter().find(|(known, _)| &**known == name).map(|(_, kind)| *kind);
        let cpu_kind = within("CPU").unwrap_or(CPU);
        self.demand_of(need, cpu_kind, bundle.devices.clone(), within)
    }

    fn demand_of(
        &self,
        need: &Need,
        cpu_kind: usize,
        among: Box<[u16]>,
        find: impl Fn(&str) -> Option<usize>,
    ) -> Demand {
        let mut is_feasible = true;
        let mut known = |resources: &Resources| -> Vec<(usize, i64)> {
            let mut list = Vec::new();
            for (name, amount) in resources.iter().filter(|(_, amount)| *amount > Quantity::ZERO) {
                match find(name) {
                    Some(kind) if kind != WORKERS => list.push((kind, amount.0)),
                    _ => is_feasible = false,
                }
            }
            list
        };
        let mut hold = known(&need.to_hold);
        hold.push((WORKERS, 1));
        let mut fit = known(&need.to_place);
        for &(kind, amount) in &hold {
            match fit.iter_mut().find(|(other, _)| *other == kind) {
                Some((_, most)) => *most = amount.max(*most),
                None => fit.push((kind, amount)),
            }
        }
        is_feasible &= fit.iter().all(|&(kind, amount)| self.total[kind] >= amount);
        Demand { fit, hold, cpu: need.to_hold.cpu.0.max(0), cpu_kind, among, is_feasible }
    }

    /// What setting this aside takes of the node: no worker.
    pub(crate) fn demand_aside(&self, resources: &Resources, devices: &Devices) -> Demand {
        let mut demand = self.demand(&Need::same(resources.clone()), devices);
        demand.fit.retain(|(kind, _)| *kind != WORKERS);
        demand.hold.retain(|(kind, _)| *kind != WORKERS);
        demand
    }

    /// Sets aside what `demand`, which fits, asks for: kinds of their own, all free.
    pub(crate) fn set_aside(&mut self, demand: &Demand) -> Vec<(Box<str>, usize)> {
        demand.take(&mut self.free);
        let mut kinds = Vec::with_capacity(demand.hold.len());
        for &(of, amount) in &demand.hold {
            let kind = self.vacant.pop().unwrap_or_else(|| {
                self.names.push("".into());
                self.total.push(0);
                self.free.push(0);
                self.names.len() - 1
            });
            self.names[kind] = self.names[of].clone();
            (self.total[kind], self.free[kind]) = (amount, amount);
            kinds.push((self.names[of].clone(), kind));
        }
        kinds
    }

    /// The inverse of `set_aside`; nobody holds any of it.
    pub(crate) fn put_back(&mut self, demand: &Demand, kinds: &[(Box<str>, usize)]) {
        for (name, kind) in kinds {
            assert_eq!(self.free[*kind], self.total[*kind], "SCHED-1: {name} of a bundle is put back while it is held");
            self.names[*kind] = "".into();
            (self.total[*kind], self.free[*kind]) = (0, 0);
            self.vacant.push(*kind);
        }
        demand.give(&mut self.free);
    }

    /// How many leases of this demand its cores hold at once; `None` if it holds no core.
    pub(crate) fn leases_per_cpus(&self, demand: &Demand) -> Option<u32> {
        (demand.cpu > 0).then(|| u32::try_from(self.total[demand.cpu_kind] / demand.cpu).unwrap_or(u32::MAX).max(1))
    }

    /// What the node has, as an array. For "what if" questions.
    pub(crate) fn totals(&self) -> Vec<i64> {
        self.total.clone()
    }

    pub(crate) fn total(&self) -> Resources {
        self.resources(&self.total)
    }

    pub(crate) fn available(&self) -> Resources {
        self.resources(&self.free)
    }

    /// Panics unless `held` and what is free make up the total.
    pub(crate) fn check_conserved(&self, held: &[i64]) {
        for (kind, name) in self.names.iter().enumerate() {
            let sum = self.free[kind] + held[kind];
            assert_eq!(sum, self.total[kind], "SCHED-1: {name}: free and held do not make up the total");
        }
    }

    /// Whether only the number of processes stands in the way.
    pub(crate) fn lacks_only_workers(&self, demand: &Demand) -> bool {
        let mut lacking = demand.fit.iter().filter(|&&(kind, amount)| self.free[kind] < amount);
        lacking.all(|&(kind, _)| kind == WORKERS)
    }

    /// Whether no lease more can have a worker.
    pub(crate) fn has_all_workers(&self) -> bool {
        self.free[WORKERS] <= 0
    }

    /// Free GPUs, of the node or of a bundle.
    pub(crate) fn free_gpu(&self, of: Option<&Bundle>) -> i64 {
        let kind = match of {
            None => Some(GPU),
            Some(bundle) => bundle.kinds.iter().find(|(name, _)| &**name == "GPU").map(|(_, kind)| *kind),
        };
        kind.map_or(0, |kind| self.free[kind])
    }

    /// What of a bundle is free.
    pub(crate) fn free_of(&self, bundle: &Bundle) -> Resources {
        amounts_of(bundle, &self.free)
    }

    pub(crate) fn total_of(&self, bundle: &Bundle) -> Resources {
        amounts_of(bundle, &self.total)
    }

    fn resources(&self, amounts: &[i64]) -> Resources {
        let mut resources = Resources::default();
        for kind in (0..self.own).filter(|kind| *kind != WORKERS) {
            resources.set(&self.names[kind], Quantity(amounts[kind]));
        }
        resources
    }
}

fn amounts_of(bundle: &Bundle, amounts: &[i64]) -> Resources {
    let mut resources = Resources::default();
    bundle.kinds.iter().for_each(|(name, kind)| resources.set(name, Quantity(amounts[*kind])));
    resources
}

impl Demand {
    pub(crate) fn fits(&self, free: &[i64]) -> bool {
        self.fit.iter().all(|&(kind, amount)| free[kind] >= amount)
    }

    /// Whether this fits once a lease of `other` is back.
    pub(crate) fn fits_with(&self, free: &[i64], other: &Self) -> bool {
        let back = |kind: usize| other.hold.iter().find(|held| held.0 == kind).map_or(0, |held| held.1);
        self.fit.iter().all(|&(kind, amount)| free[kind] + back(kind) >= amount)
    }

    pub(crate) fn take(&self, free: &mut [i64]) {
        self.hold.iter().for_each(|&(kind, amount)| free[kind] -= amount);
    }

    pub(crate) fn give(&self, free: &mut [i64]) {
        self.hold.iter().for_each(|&(kind, amount)| free[kind] += amount);
    }

    /// A blocked worker's cores, and nothing else of it, are free for others.
    pub(crate) fn lend_cpu(&self, free: &mut [i64]) {
        free[self.cpu_kind] += self.cpu;
    }

    pub(crate) fn reclaim_cpu(&self, free: &mut [i64]) {
        free[self.cpu_kind] -= self.cpu;
    }

    /// Whether `other` holds something that this asks for and that is below zero in `left`.
    pub(crate) fn is_short_of(&self, other: &Self, left: &[i64]) -> bool {
        let is_short = |kind: usize| left[kind] < 0 && self.hold.iter().any(|held| held.0 == kind);
        other.hold.iter().any(|&(kind, _)| is_short(kind))
    }

    /// Whether one lease of `other` less would bring `free` nearer to what this needs.
    pub(crate) fn is_helped_by(&self, other: &Self, free: &[i64]) -> bool {
        let lacks = |kind: usize| self.fit.iter().any(|&(wanted, amount)| wanted == kind && free[kind] < amount);
        other.hold.iter().any(|&(kind, _)| lacks(kind))
    }
}
