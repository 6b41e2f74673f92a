//! Amounts of CPU, GPU, memory and user-defined resources, in fixed point so that nothing drifts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Where, Wish};

/// An amount in ten-thousandths. May go below zero: a task that wakes takes its CPU back at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Quantity(pub i64);

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// How many parts make one.
    pub const PARTS: i64 = 10_000;

    /// A whole number of them.
    #[must_use]
    pub const fn whole(count: i64) -> Self {
        Self(count * Self::PARTS)
    }

    /// As users see it.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::PARTS as f64
    }
}

/// A set of amounts. The three that nearly every task names have a field; others are looked up by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resources {
    /// Cores.
    pub cpu: Quantity,
    /// Graphics processors; below one is a share of one device.
    pub gpu: Quantity,
    /// Bytes of heap that the user promises to stay within (whole bytes, not ten-thousandths).
    pub memory: Quantity,
    /// How deep in a nest of tasks whoever asks for this stands. No amount: it tells needs apart, so that workers that are blocked
    /// at one depth do not count against the next one.
    pub nesting: u16,
    /// User-defined, sorted by name, none of them zero.
    custom: Vec<(Box<str>, Quantity)>,
}

/// Environment variables by name.
pub type EnvVars = std::collections::BTreeMap<Box<str>, Box<str>>;

/// What a lease asks for. Kept apart from `Resources` because what places work (an actor's one CPU)
/// is not always what it holds while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Need {
    /// Must be free for the lease to be granted.
    pub to_place: Resources,
    /// Held from the grant to the return.
    pub to_hold: Resources,
    /// Where it may be placed.
    pub at: Where,
    /// No amount: it tells needs apart, since a process that has once seen these serves no others.
    pub env: EnvVars,
    /// What else it asks of its node; none for nearly all.
    pub wish: Option<Box<Wish>>,
}

impl Need {
    /// The same for placing and holding.
    #[must_use]
    pub fn same(resources: Resources) -> Self {
        Self { to_place: resources.clone(), to_hold: resources, ..Self::default() }
    }
}

impl Resources {
    /// Only cores.
    #[must_use]
    pub fn cpus(count: i64) -> Self {
        Self { cpu: Quantity::whole(count), ..Self::default() }
    }

    /// Sets a user-defined amount; zero removes it.
    pub fn set(&mut self, name: &str, amount: Quantity) {
        match name {
            "CPU" => self.cpu = amount,
            "GPU" => self.gpu = amount,
            "memory" => self.memory = amount,
            _ => match self.custom.binary_search_by(|(known, _)| (**known).cmp(name)) {
                Ok(at) if amount == Quantity::ZERO => drop(self.custom.remove(at)),
                Ok(at) => self.custom[at].1 = amount,
                Err(_) if amount == Quantity::ZERO => {}
                Err(at) => self.custom.insert(at, (name.into(), amount)),
            },
        }
    }

    /// The amount of a resource by its public name.
    #[must_use]
    pub fn amount(&self, name: &str) -> Quantity {
        match name {
            "CPU" => self.cpu,
            "GPU" => self.gpu,
            "memory" => self.memory,
            _ => self
                .custom
                .binary_search_by(|(known, _)| (**known).cmp(name))
                .map_or(Quantity::ZERO, |at| self.custom[at].1),
        }
    }

    /// Every amount that is not zero, by public name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        [("CPU", self.cpu), ("GPU", self.gpu), ("memory", self.memory)]
            .into_iter()
            .chain(self.custom.iter().map(|(name, amount)| (&**name, *amount)))
            .filter(|(_, amount)| *amount != Quantity::ZERO)
    }

    /// Whether names are in order, as `set` leaves them: of what comes from elsewhere that is not certain, and amounts would not be found.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        let is_listed = |name: &str| !matches!(name, "CPU" | "GPU" | "memory");
        self.custom.is_sorted_by(|(one, _), (next, _)| one < next)
            && self.custom.iter().all(|(name, _)| is_listed(name))
    }

    /// Whether `need` could be taken out of this and leave nothing below zero that `need` names.
    #[must_use]
    pub fn fits(&self, need: &Self) -> bool {
        let enough = |have: Quantity, want: Quantity| want == Quantity::ZERO || have >= want;
        enough(self.cpu, need.cpu)
            && enough(self.gpu, need.gpu)
            && enough(self.memory, need.memory)
            && need.custom.iter().all(|(name, want)| self.amount(name) >= *want)
    }

    /// Takes `need` out, below zero if it must be.
    pub fn take(&mut self, need: &Self) {
        self.shift(need, -1);
    }

    /// Puts `need` back.
    pub fn give(&mut self, need: &Self) {
        self.shift(need, 1);
    }

    fn shift(&mut self, by: &Self, sign: i64) {
        self.cpu.0 += sign * by.cpu.0;
        self.gpu.0 += sign * by.gpu.0;
        self.memory.0 += sign * by.memory.0;
        for (name, amount) in &by.custom {
            let now = self.amount(name).0 + sign * amount.0;
            self.set(name, Quantity(now));
        }
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (name, amount) in self.iter() {
            // Memory is counted in bytes, everything else in ten-thousandths.
            let shown = if name == "memory" { amount.0 as f64 } else { amount.as_f64() };
            write!(f, "{}{name}: {shown}", if first { "{" } else { ", " })?;
            first = false;
        }
        f.write_str(if first { "{}" } else { "}" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_and_giving_back_leaves_exactly_what_was_there() {
        let mut free = Resources::cpus(2);
        free.set("licence", Quantity::whole(1));
        let before = free.clone();
        let mut need = Resources { cpu: Quantity(3_333), ..Resources::default() };
        need.set("licence", Quantity(1));
        for _ in 0..3 {
            free.take(&need);
        }
        for _ in 0..3 {
            free.give(&need);
        }
        assert_eq!(free, before);
    }

    #[test]
    fn what_is_not_asked_for_may_be_overdrawn() {
        let overdrawn = Resources { cpu: Quantity(-1), gpu: Quantity::whole(1), ..Resources::default() };
        assert!(overdrawn.fits(&Resources { gpu: Quantity::whole(1), ..Resources::default() }));
        assert!(!overdrawn.fits(&Resources { cpu: Quantity(1), ..Resources::default() }));
    }
}
