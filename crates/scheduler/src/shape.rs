//! Leases that ask for the same: one queue per shape, and in it one per owner.
//!
//! HOT: once per lease. Who is next among the owners, and who holds most, are kept sorted; both change
//! only in `Shape::update`.

use std::collections::BTreeSet;

use model::{GroupId, Need, ProcId, Tick, Where};
use rustc_hash::FxHashMap;

use crate::LeaseKind;
use crate::devices::{self, Ask};
use crate::ledger::Demand;
use crate::table::{At, List, Table};

const SHAPES_SWEEP_MIN: usize = 256;

/// All leases of one kind and need that are asked for at the same depth.
pub(crate) struct Shape {
    pub(crate) kind: LeaseKind,
    /// 0: asked for by a driver; one more than that of the lease on whose worker the asker runs, up to 255.
    depth: u8,
    pub(crate) need: Need,
    /// The group that it wants a place in.
    pub(crate) group: Option<GroupId>,
    /// What it asks for; of a place in any bundle, what it asks for of the first.
    pub(crate) demand: Demand,
    /// The same, of the other bundles that it may be in.
    others: Vec<Demand>,
    pub(crate) gpu: Ask,
    pub(crate) is_feasible: bool,
    /// False: its group waits for its bundles.
    pub(crate) is_open: bool,
    /// More than this only one by one, with back-off. `None`: no bound.
    pub(crate) soft_max: Option<u32>,
    /// When one more than `soft_max` may be placed.
    pub(crate) capped_until: Option<Tick>,
    /// When leases may be asked back again of which one alone is not enough.
    pub(crate) ask_again_at: Tick,
    /// Leases that hold resources.
    pub(crate) held: u32,
    pub(crate) waiting: u32,
    shares: FxHashMap<ProcId, Share>,
    /// Owners that wait: fewest held first, then who came first.
    next: BTreeSet<(u32, u64, ProcId)>,
    /// Owners with leases that could be asked back, by how many.
    revocable: BTreeSet<(u32, ProcId)>,
}

/// What one owner has of a shape.
#[derive(Default)]
struct Share {
    held: u32,
    waiting: List,
    /// Granted for tasks, running, not asked back yet.
    revocable: List,
}

impl Share {
    fn next_key(&self, table: &Table) -> Option<(u32, u64)> {
        self.waiting.first().map(|at| (self.held, table.get(at).arrival))
    }

    fn is_empty(&self) -> bool {
        self.held == 0 && self.waiting.len() == 0
    }
}

impl Shape {
    pub(crate) fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    /// How long one more than `soft_max` has to wait: 1 s, doubled for each one that is there already.
    pub(crate) fn cap_back_off_ms(&self) -> u64 {
        let beyond = self.held.saturating_sub(self.soft_max.unwrap_or(u32::MAX));
        (1_000u64 << beyond.min(4)).min(10_000)
    }

    /// What a lease that made this choice asks for.
    #[inline]
    pub(crate) fn demand_at(&self, choice: u16) -> &Demand {
        match choice {
            0 => &self.demand,
            other => &self.others[usize::from(other) - 1],
        }
    }

    /// Whether one of the places that it may have is such.
    #[inline]
    pub(crate) fn has_choice(&self, is_such: impl Fn(&Demand) -> bool) -> bool {
        is_such(&self.demand) || self.others.iter().any(is_such)
    }

    /// Whether all its leases hold the same.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        self.others.is_empty()
    }

    /// The first choice that fits.
    #[inline]
    pub(crate) fn choose(&self, free: &[i64], gpus: &[i64]) -> Option<u16> {
        let fits = |demand: &Demand| demand.fits(free) && devices::fits(gpus, &demand.among, self.gpu);
        if fits(&self.demand) {
            return Some(0);
        }
        self.others.iter().position(fits).map(|at| at as u16 + 1)
    }

    /// Its group has its bundles, or it is new.
    pub(crate) fn open(&mut self, options: Choices) {
        let Choices { mut demands, is_feasible, soft_max } = options;
        self.demand = if demands.is_empty() { Demand::default() } else { demands.remove(0) };
        (self.others, self.is_feasible, self.soft_max, self.is_open) = (demands, is_feasible, soft_max, true);
    }

    /// May it be placed as soon as there is room?
    pub(crate) fn is_placeable(&self) -> bool {
        self.is_open && self.is_feasible
    }

    /// Every lease that waits.
    pub(crate) fn waiting_leases(&self, table: &Table) -> Vec<At> {
        self.shares.values().flat_map(|share| share.waiting.iter(table)).collect()
    }

    /// 0: asked for by a driver.
    pub(crate) fn depth(&self) -> u8 {
        self.depth
    }

    pub(crate) fn is_full(&self) -> bool {
        self.soft_max.is_some_and(|most| self.held >= most)
    }

    pub(crate) fn enqueue(&mut self, table: &mut Table, at: At) {
        self.waiting += 1;
        self.update(table, owner(table, at), |share, table| share.waiting.push(table, at));
    }

    pub(crate) fn dequeue(&mut self, table: &mut Table, at: At) {
        self.waiting -= 1;
        self.update(table, owner(table, at), |share, table| share.waiting.remove(table, at));
        if self.waiting == 0 {
            self.capped_until = None;
        }
    }

    /// Who is next: of the owners that hold fewest, the one that has waited longest.
    pub(crate) fn first(&self) -> Option<At> {
        let (_, _, owner) = self.next.first()?;
        self.shares[owner].waiting.first()
    }

    /// Waiting owners in the order in which they are served, with (held, waiting). `after`: where to go on.
    pub(crate) fn next_owner(&self, after: Option<(u32, u64, ProcId)>) -> Option<(u32, u64, ProcId)> {
        match after {
            None => self.next.first().copied(),
            Some(key) => self.next.range((std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded)).next().copied(),
        }
    }

    pub(crate) fn waiting_of(&self, owner: ProcId) -> u32 {
        self.shares.get(&owner).map_or(0, |share| share.waiting.len())
    }

    pub(crate) fn hold(&mut self, table: &mut Table, at: At) {
        self.held += 1;
        self.update(table, owner(table, at), |share, _| share.held += 1);
    }

    pub(crate) fn release(&mut self, table: &mut Table, at: At) {
        self.held -= 1;
        self.update(table, owner(table, at), |share, _| share.held -= 1);
    }

    pub(crate) fn add_revocable(&mut self, table: &mut Table, at: At) {
        self.update(table, owner(table, at), |share, table| share.revocable.push(table, at));
    }

    pub(crate) fn remove_revocable(&mut self, table: &mut Table, at: At) {
        self.update(table, owner(table, at), |share, table| share.revocable.remove(table, at));
    }

    /// The owner with most leases that could be asked back, leaving out `except`; how many; which first.
    pub(crate) fn most_revocable(&self, except: Option<ProcId>) -> Option<(u32, At)> {
        let last = self.revocable.last()?;
        let (count, owner) = match except {
            Some(except) if last.1 == except => self.revocable.iter().rev().find(|(_, owner)| *owner != except)?,
            _ => last,
        };
        // The youngest: what has run for long is nearer to its end.
        self.shares[owner].revocable.last().map(|at| (*count, at))
    }

    /// Panics unless the sorted sets say what the shares say.
    pub(crate) fn check(&self, table: &Table) {
        let next = self.shares.iter().filter_map(|(owner, share)| {
            let (held, arrival) = share.next_key(table)?;
            Some((held, arrival, *owner))
        });
        assert_eq!(next.collect::<BTreeSet<_>>(), self.next, "SCHED-7: order of owners");
        let some = self.shares.iter().filter(|(_, share)| share.revocable.len() > 0);
        let revocable = some.map(|(owner, share)| (share.revocable.len(), *owner));
        assert_eq!(revocable.collect::<BTreeSet<_>>(), self.revocable, "SCHED-7: order of holders");
        let held: u32 = self.shares.values().map(|share| share.held).sum();
        let waiting: u32 = self.shares.values().map(|share| share.waiting.len()).sum();
        assert_eq!((held, waiting), (self.held, self.waiting), "SCHED-7: counts of a shape");
    }

    fn update(&mut self, table: &mut Table, owner: ProcId, change: impl FnOnce(&mut Share, &mut Table)) {
        let share = self.shares.entry(owner).or_default();
        let (next_before, revocable_before) = (share.next_key(table), share.revocable.len());
        change(share, table);
        let (next_after, revocable_after) = (share.next_key(table), share.revocable.len());
        if share.is_empty() {
            self.shares.remove(&owner);
        }
        if next_before != next_after {
            next_before.map(|(held, arrival)| self.next.remove(&(held, arrival, owner)));
            next_after.map(|(held, arrival)| self.next.insert((held, arrival, owner)));
        }
        if revocable_before != revocable_after {
            self.revocable.remove(&(revocable_before, owner));
            if revocable_after > 0 {
                self.revocable.insert((revocable_after, owner));
            }
        }
    }
}

fn owner(table: &Table, at: At) -> ProcId {
    table.get(at).id.owner
}

/// Every shape that has leases, and some that had.
#[derive(Default)]
pub(crate) struct Shapes {
    slots: Vec<Option<Shape>>,
    vacant: Vec<u32>,
    /// By depth.
    for_tasks: Vec<FxHashMap<Need, u32>>,
    for_actors: Vec<FxHashMap<Need, u32>>,
    sweep_at: usize,
}

/// What a shape is made of.
pub(crate) struct Ingredients {
    pub(crate) kind: LeaseKind,
    pub(crate) need: Need,
    /// The shape of the lease on whose worker the asker runs; none for a driver.
    pub(crate) asked_within: Option<u32>,
}

/// What leases of a shape may choose from.
pub(crate) struct Choices {
    /// Where each can be, if it is feasible there.
    pub(crate) demands: Vec<Demand>,
    pub(crate) is_feasible: bool,
    pub(crate) soft_max: Option<u32>,
}

impl Shapes {
    /// The shape that these make, made if there is none. Nested calls have shapes of their own, so that those that wait
    /// for others, and count until these are done, do not stand in their way.
    ///
    /// `choices`: none while its group waits for its bundles.
    pub(crate) fn intern(&mut self, of: Ingredients, choices: impl FnOnce(&Need) -> Option<Choices>) -> u32 {
        let Ingredients { kind, need, asked_within } = of;
        let depth = asked_within.map_or(0, |within| self.get(within).depth.saturating_add(1));
        if let Some(found) = self.by_need(kind, depth).get(&need) {
            return *found;
        }
        self.sweep();
        let group = match need.at {
            Where::Bundle(seat) => Some(seat.group),
            Where::Anywhere | Where::Node(_) => None,
        };
        let mut shape = Shape {
            kind,
            depth,
            need: need.clone(),
            group,
            gpu: Ask::new(need.to_hold.gpu),
            demand: Demand::default(),
            others: Vec::new(),
            is_feasible: true,
            is_open: false,
            soft_max: None,
            capped_until: None,
            ask_again_at: Tick::default(),
            held: 0,
            waiting: 0,
            shares: FxHashMap::default(),
            next: BTreeSet::new(),
            revocable: BTreeSet::new(),
        };
        if let Some(choices) = choices(&need) {
            shape.open(choices);
        }
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer shapes than u32 counts")
        });
        self.slots[index as usize] = Some(shape);
        self.by_need(kind, depth).insert(need, index);
        index
    }

    pub(crate) fn get(&self, index: u32) -> &Shape {
        self.slots[index as usize].as_ref().expect("a shape in use")
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Shape {
        self.slots[index as usize].as_mut().expect("a shape in use")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Shape)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| Some((index as u32, slot.as_ref()?)))
    }

    fn by_need(&mut self, kind: LeaseKind, depth: u8) -> &mut FxHashMap<Need, u32> {
        let by_depth = match kind {
            LeaseKind::Tasks => &mut self.for_tasks,
            LeaseKind::Actor => &mut self.for_actors,
        };
        let depth = usize::from(depth);
        if by_depth.len() <= depth {
            by_depth.resize_with(depth + 1, FxHashMap::default);
        }
        &mut by_depth[depth]
    }

    /// Forgets unused shapes once there are twice as many as were in use last time.
    #[cold]
    fn sweep(&mut self) {
        if self.slots.len() - self.vacant.len() < self.sweep_at.max(SHAPES_SWEEP_MIN) {
            return;
        }
        for index in 0..self.slots.len() {
            if let Some(shape) = self.slots[index].take_if(|shape| shape.is_empty()) {
                self.by_need(shape.kind, shape.depth).remove(&shape.need);
                self.vacant.push(index as u32);
            }
        }
        self.sweep_at = 2 * (self.slots.len() - self.vacant.len());
    }
}
