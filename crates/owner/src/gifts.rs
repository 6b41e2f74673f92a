//! Whether what a process gave away has come, when it dies while it gives.
//!
//! A value that one process (the giver) puts into another one's ring (the taker) may name objects of a third. The giver tells that owner of the
//! taker's shares first, so that there is never a moment in which nobody is counted; and may die before the value is in the ring. The taker
//! would then be counted for shares that it never got.
//!
//! So a giver numbers its gifts to each taker, and the owner keeps the last one it heard of from each giver: all before it have come, since a
//! process gives one thing at a time. When the giver is dead, the owner asks the taker, who has emptied the dead one's ring by then, how
//! many have come.
//!
//! - **GIFT-1** a share is taken back if and only if the value that carried it never came.

use std::collections::VecDeque;

use model::{ObjectId, ProcId};
use rustc_hash::FxHashMap;

/// Givers whose gifts are remembered when they are dead. Owners ask at once.
const ENDED_MAX: usize = 4096;

/// Shares that go to somebody with one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gift {
    /// Who gets them.
    pub to: ProcId,
    /// Counts the gifts of the giver to this process.
    pub number: u64,
    /// One share of each.
    pub objects: Vec<ObjectId>,
}

/// What one process gave, got and has heard of.
#[derive(Default)]
pub struct Gifts {
    /// How many we gave to each.
    given: FxHashMap<ProcId, u64>,
    /// How many of each have come.
    come: FxHashMap<ProcId, u64>,
    /// The last that we heard of from each giver.
    last: FxHashMap<ProcId, Gift>,
    /// The same, of givers that are dead: the taker was asked.
    asked: FxHashMap<ProcId, Gift>,
    /// The latest dead.
    ended: VecDeque<ProcId>,
}

impl Gifts {
    /// The number of the next gift to this process.
    #[must_use]
    pub fn next(&self, to: ProcId) -> u64 {
        self.given.get(&to).copied().unwrap_or(0) + 1
    }

    /// We gave something.
    pub fn on_gave(&mut self, to: ProcId) {
        *self.given.entry(to).or_default() += 1;
    }

    /// Something has come from this process.
    pub fn on_came(&mut self, from: ProcId) {
        *self.come.entry(from).or_default() += 1;
    }

    /// A giver says that it is about to give shares of our objects away. A long list comes in several parts.
    pub fn on_given(&mut self, giver: ProcId, gift: Gift) {
        match self.last.get_mut(&giver) {
            Some(last) if (last.to, last.number) == (gift.to, gift.number) => last.objects.extend(gift.objects),
            _ => drop(self.last.insert(giver, gift)),
        }
    }

    /// A process is dead, and all that it had put into our ring has been taken up. Returns whom to ask how many gifts of its have come.
    pub fn on_process_gone(&mut self, gone: ProcId) -> Option<ProcId> {
        if self.ended.len() == ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.come.remove(&oldest);
        }
        self.ended.push_back(gone);
        self.given.remove(&gone);
        // Whatever was counted for it goes with it.
        self.last.retain(|_, gift| gift.to != gone);
        self.asked.retain(|_, gift| gift.to != gone);
        let gift = self.last.remove(&gone)?;
        let to = gift.to;
        self.asked.insert(gone, gift);
        Some(to)
    }

    /// How many gifts of this process, which is dead, have come. One that we have forgotten counts as if all had.
    #[must_use]
    pub fn count(&self, from: ProcId) -> u64 {
        if self.ended.contains(&from) { self.come.get(&from).copied().unwrap_or(0) } else { u64::MAX }
    }

    /// The taker has answered. Returns what it never got.
    pub fn on_counted(&mut self, from: ProcId, taker: ProcId, count: u64) -> Option<Gift> {
        if self.asked.get(&from)?.to != taker {
            return None;
        }
        self.asked.remove(&from).filter(|gift| gift.number > count)
    }

    /// Nothing is remembered of the living, and no question is open: so it is after a run in which all was taken up.
    #[cfg(test)]
    fn is_asking(&self) -> bool {
        !self.asked.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use model::{ObjectId, ProcId};
    use proptest::prelude::*;

    use super::{ENDED_MAX, Gift, Gifts};

    fn process(slot: u16) -> ProcId {
        ProcId::new(1, slot, 1)
    }

    fn object(number: u8) -> ObjectId {
        ObjectId([number; ObjectId::LENGTH])
    }

    const GIVER: u16 = 1;
    const TAKER: u16 = 2;

    fn gift(number: u64) -> Gift {
        Gift { to: process(TAKER), number, objects: vec![object(number as u8)] }
    }

    #[test]
    fn a_gift_that_came_is_kept_and_one_that_did_not_is_taken_back() {
        for come in [0, 1] {
            let (mut owner, mut taker) = (Gifts::default(), Gifts::default());
            owner.on_given(process(GIVER), gift(1));
            (0..come).for_each(|_| taker.on_came(process(GIVER)));
            assert_eq!(taker.on_process_gone(process(GIVER)), None);
            assert_eq!(owner.on_process_gone(process(GIVER)), Some(process(TAKER)));
            let count = taker.count(process(GIVER));
            let lost = owner.on_counted(process(GIVER), process(TAKER), count);
            assert_eq!(lost, (come == 0).then(|| gift(1)));
            assert!(!owner.is_asking());
        }
    }

    #[test]
    fn parts_of_one_gift_are_one() {
        let mut owner = Gifts::default();
        owner.on_given(process(GIVER), gift(7));
        owner.on_given(process(GIVER), Gift { objects: vec![object(9)], ..gift(7) });
        assert!(owner.on_process_gone(process(GIVER)).is_some());
        let lost = owner.on_counted(process(GIVER), process(TAKER), 6).expect("it never came");
        assert_eq!(lost.objects, [object(7), object(9)]);
    }

    #[test]
    fn a_taker_that_dies_is_not_waited_for() {
        let mut owner = Gifts::default();
        owner.on_given(process(GIVER), gift(1));
        assert!(owner.on_process_gone(process(GIVER)).is_some());
        assert_eq!(owner.on_process_gone(process(TAKER)), None);
        assert!(!owner.is_asking());
        assert_eq!(owner.on_counted(process(GIVER), process(TAKER), 0), None);
    }

    #[test]
    fn the_dead_are_forgotten_after_some_time_and_count_as_honest() {
        let mut taker = Gifts::default();
        taker.on_came(process(GIVER));
        taker.on_process_gone(process(GIVER));
        (0..ENDED_MAX as u16).for_each(|slot| assert!(taker.on_process_gone(process(100 + slot)).is_none()));
        assert!(taker.come.is_empty());
        assert_eq!(taker.count(process(GIVER)), u64::MAX);
    }

    proptest! {
        /// A giver gives to several takers, names objects of several owners, and dies somewhere: each owner's counts are the takers' own.
        #[test]
        fn counts_are_those_of_who_got_it(
            gives in prop::collection::vec((0_u16..3, prop::collection::vec((0_u16..3, 0_u8..4), 1..4)), 1..30),
            is_cut in any::<bool>(),
        ) {
            let giver = process(100);
            let mut owners: Vec<Gifts> = (0..3).map(|_| Gifts::default()).collect();
            let mut takers: Vec<Gifts> = (0..3).map(|_| Gifts::default()).collect();
            let (mut giving, mut counted, mut held) = (Gifts::default(), Vec::new(), Vec::new());
            let last = gives.len() - 1;
            for (at, (to, names)) in gives.into_iter().enumerate() {
                let number = giving.next(process(to));
                for (owner, name) in &names {
                    let gift = Gift { to: process(to), number, objects: vec![object(*name)] };
                    owners[usize::from(*owner)].on_given(giver, gift);
                    counted.push((*owner, to, *name));
                }
                if is_cut && at == last {
                    break;
                }
                giving.on_gave(process(to));
                takers[usize::from(to)].on_came(giver);
                held.extend(names.iter().map(|(owner, name)| (*owner, to, *name)));
            }
            takers.iter_mut().for_each(|taker| assert!(taker.on_process_gone(giver).is_none()));
            for (at, owner) in owners.iter_mut().enumerate() {
                let Some(to) = owner.on_process_gone(giver) else { continue };
                let count = takers[usize::from(to.slot())].count(giver);
                let Some(lost) = owner.on_counted(giver, to, count) else { continue };
                for name in lost.objects {
                    let gone = counted.iter().rposition(|share| *share == (at as u16, to.slot(), name.0[0]));
                    counted.remove(gone.expect("it was counted"));
                }
            }
            counted.sort_unstable();
            held.sort_unstable();
            prop_assert_eq!(counted, held);
        }
    }
}
