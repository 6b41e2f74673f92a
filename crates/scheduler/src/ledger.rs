//! Counts what the node has and what of it is free.
//!
//! The kinds of resource a node has are fixed when it starts. So an amount is a number in a short array,
//! a need is a list of (place in that array, amount), and comparing the two touches no string. Worker
//! processes are one more kind, of which every lease holds one: so `workers_max` is shared out, and
//! asked back, by the same rules as cores.

use model::{Need, Quantity, Resources};

const CPU: usize = 0;
const GPU: usize = 1;
const WORKERS: usize = 3;

/// What the node has, and what of it is free; free amounts may be below zero.
pub(crate) struct Ledger {
    names: Vec<Box<str>>,
    total: Vec<i64>,
    /// Indexed like `total`. Copies of it serve for "what if" questions.
    pub(crate) free: Vec<i64>,
}

/// A need in the ledger's terms.
pub(crate) struct Demand {
    /// The greater of what must be free and what will be held, per kind.
    fit: Vec<(usize, i64)>,
    hold: Vec<(usize, i64)>,
    /// Cores held; what a blocked worker lends out.
    pub(crate) cpu: i64,
    /// Whether the node has every kind that is asked for, and enough of it.
    pub(crate) is_feasible: bool,
}

impl Ledger {
    /// Whether more is held than there is: workers that waited run again.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.free.iter().any(|free| *free < 0)
    }

    pub(crate) fn new(total: &Resources, workers_max: u32) -> Self {
        let mut names: Vec<Box<str>> = vec!["CPU".into(), "GPU".into(), "memory".into(), "".into()];
        let mut amounts = vec![total.cpu.0, total.gpu.0, total.memory.0, i64::from(workers_max)];
        for (name, amount) in total.iter().filter(|(name, _)| !matches!(*name, "CPU" | "GPU" | "memory")) {
            names.push(name.into());
            amounts.push(amount.0);
        }
        Self { names, free: amounts.clone(), total: amounts }
    }

    pub(crate) fn demand(&self, need: &Need) -> Demand {
        let mut is_feasible = true;
        let mut known = |resources: &Resources| -> Vec<(usize, i64)> {
            let mut list = Vec::new();
            for (name, amount) in resources.iter().filter(|(_, amount)| *amount > Quantity::ZERO) {
                match self.names.iter().position(|known| &**known == name) {
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
        Demand { fit, hold, cpu: need.to_hold.cpu.0.max(0), is_feasible }
    }

    /// How many leases of this demand the node's cores hold at once; `None` if it holds no core.
    pub(crate) fn leases_per_cpus(&self, demand: &Demand) -> Option<u32> {
        (demand.cpu > 0).then(|| u32::try_from(self.total[CPU] / demand.cpu).unwrap_or(u32::MAX).max(1))
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

    pub(crate) fn free_gpu(&self) -> i64 {
        self.free[GPU]
    }

    fn resources(&self, amounts: &[i64]) -> Resources {
        let mut resources = Resources::default();
        for kind in (0..self.names.len()).filter(|kind| *kind != WORKERS) {
            resources.set(&self.names[kind], Quantity(amounts[kind]));
        }
        resources
    }
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
        free[CPU] += self.cpu;
    }

    pub(crate) fn reclaim_cpu(&self, free: &mut [i64]) {
        free[CPU] -= self.cpu;
    }

    /// Whether one lease of `other` less would bring `free` nearer to what this needs.
    pub(crate) fn is_helped_by(&self, other: &Self, free: &[i64]) -> bool {
        let lacks = |kind: usize| self.fit.iter().any(|&(wanted, amount)| wanted == kind && free[kind] < amount);
        other.hold.iter().any(|&(kind, _)| lacks(kind))
    }
}
