//! Who stands for whom: what everyone must know of processes that have died and left something.
//!
//! On one node everyone hears of such deaths in the same order, counts them, and says with each message that gives references away how many it
//! knew of. Nodes hear of them in different orders: so what goes from one to another says which of the owners that it names its sender knew to
//! be dead. Either way whoever gets the message can tell whether the sender had registered those references with the dead owner or with its
//! heir.

use model::{ObjectId, ProcId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{Kept, Owner, Ref, Slot};

/// What differs between two who know of different deaths is settled with the next one: older entries are of no use.
const ASTRAY_MAX: usize = 4096;

/// What the sender of a message knew of the deaths of those that left something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knew<'a> {
    /// It is of our node, and had heard of so many.
    Count(u16),
    /// It is of another node. Of all whom the message names it knew these to be dead.
    Dead(&'a [ProcId]),
}

/// The same, of the death of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It had heard of so many deaths.
    Count(u16),
    /// It had heard of this one, or not.
    Heard(bool),
}

impl Knew<'_> {
    /// What the sender knew of this process.
    #[must_use]
    #[inline]
    pub fn of(self, process: ProcId) -> Known {
        match self {
            Self::Count(count) => Known::Count(count),
            Self::Dead(dead) => Known::Heard(dead.contains(&process)),
        }
    }
}

impl Known {
    /// Whether it had heard of the death with this number.
    #[inline]
    fn had_heard(self, number: u16) -> bool {
        match self {
            Self::Count(count) => !is_older(count, number),
            Self::Heard(had_heard) => had_heard,
        }
    }
}

/// The dead who have left something, and what came from those who had heard of a death sooner or later than we have.
#[derive(Debug, Default)]
pub struct Heirs {
    /// The process that stands for it, and the number of its death among all deaths.
    of: FxHashMap<ProcId, (ProcId, u16)>,
    known: u16,
    /// References from senders who knew of more deaths than we did: they may have been registered with an heir.
    early: Vec<(Known, ProcId, ObjectId)>,
    /// References that we hold under an heir's name, from senders who took another process for their owner.
    astray: Vec<(Known, ProcId, ObjectId)>,
    late: Vec<Late>,
    /// Replies that wait for room, by caller and request.
    unsent: FxHashSet<(ProcId, u64)>,
}

/// What the news of a death means for the shares of the dead one's objects that we were given.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Those that are registered with the heir already, and how many.
    pub counted: FxHashMap<ObjectId, i32>,
    /// Those that we hold under the heir's name, and nobody has told the heir of.
    pub astray: Vec<ObjectId>,
}

/// A reference that somebody keeps, told of by one who knew of more deaths than we did.
#[derive(Debug, PartialEq, Eq)]
pub struct Late {
    /// Of which.
    pub known: Known,
    /// What is kept, and by whom.
    pub kept: Kept,
    /// We hold it until that is counted. To be dropped then.
    pub slot: Option<Slot>,
}

/// Whether one count of deaths is older than another. They wrap round.
fn is_older(one: u16, other: u16) -> bool {
    (one.wrapping_sub(other) as i16) < 0
}

impl Heirs {
    /// Who stands for whom already, after so many deaths.
    pub fn new(of: impl IntoIterator<Item = (ProcId, ProcId)>, known: u16) -> Self {
        Self { of: of.into_iter().map(|(of, heir)| (of, (heir, known))).collect(), known, ..Self::default() }
    }

    /// How many deaths we know of: to be said with what gives references away.
    #[must_use]
    #[inline]
    pub fn known(&self) -> u16 {
        self.known
    }

    /// Who answers for this process: itself, if it lives or left nothing.
    #[must_use]
    #[inline]
    pub fn living(&self, process: ProcId) -> ProcId {
        self.get(process).unwrap_or(process)
    }

    /// Who stands for this process.
    #[must_use]
    #[inline]
    pub fn get(&self, process: ProcId) -> Option<ProcId> {
        if self.of.is_empty() { None } else { self.of.get(&process).map(|(heir, _)| *heir) }
    }

    /// A process has died, and this one takes over.
    pub fn on_death(&mut self, of: ProcId, heir: ProcId) -> Heard {
        self.known = self.known.wrapping_add(1);
        self.of.insert(of, (heir, self.known));
        let mut counted: FxHashMap<ObjectId, i32> = FxHashMap::default();
        let number = self.known;
        for (known, owner, id) in &self.early {
            if *owner == of && known.had_heard(number) {
                *counted.entry(*id).or_default() += 1;
            }
        }
        let is_open = |known: &Known| if let Known::Count(count) = known { is_older(number, *count) } else { true };
        self.early.retain(|(known, owner, _)| *owner != of && is_open(known));
        let is_lost = |(known, owner, _): &&(Known, ProcId, ObjectId)| *owner == of && !known.had_heard(number);
        let astray = self.astray.iter().filter(is_lost).map(|(_, _, id)| *id).collect();
        self.astray.retain(|(_, owner, _)| *owner != of);
        Heard { counted, astray }
    }

    /// What was said by those who had heard of a death that we have heard of by now: to be looked at again.
    pub fn take_late(&mut self) -> Vec<Late> {
        std::mem::take(&mut self.late)
    }

    /// Whether somebody who knew this of it took this process to be alive, which is dead.
    #[must_use]
    #[inline]
    pub fn is_outdated(&self, process: ProcId, known: Known) -> bool {
        !self.of.is_empty() && self.of.get(&process).is_some_and(|(_, number)| !known.had_heard(*number))
    }

    /// We got a share of another process's object, named as we know it, from somebody who took `owner` for its owner and knew this of it.
    /// Returns the heir that must be told of it: the share was registered with nobody but the dead owner.
    #[inline]
    pub fn on_share(&mut self, (id, named): Ref, owner: ProcId, known: Known) -> Option<ProcId> {
        match known {
            Known::Count(count) if is_older(self.known, count) => self.early.push((known, named, id)),
            Known::Count(_) => {}
            // It was registered with the heir, of whom we have not heard; or named after the heir.
            Known::Heard(true) if named == owner && !self.of.contains_key(&owner) => self.note_early(named, id),
            Known::Heard(false) if named != owner && !self.of.contains_key(&owner) => self.note_early(named, id),
            Known::Heard(_) => {}
        }
        // They differ only while one of us has not heard of a death.
        if named != self.living(owner) {
            if self.astray.len() == ASTRAY_MAX {
                self.astray.drain(..ASTRAY_MAX / 2);
            }
            self.astray.push((known, owner, id));
        }
        if self.is_outdated(owner, known) { self.get(owner) } else { None }
    }

    #[cold]
    fn note_early(&mut self, named: ProcId, id: ObjectId) {
        if self.early.len() >= ASTRAY_MAX {
            self.early.drain(..ASTRAY_MAX / 2);
        }
        self.early.push((Known::Heard(true), named, id));
    }

    /// Somebody who knew this of its owner says that a reference is kept beyond its call. Returns it with who owns it now. Nothing if its
    /// owner is dead since, because whoever keeps it has testified itself; and nothing yet if the sender knew more than we do: then we hold
    /// it ourselves, because the hold that the call had on it ends.
    pub fn on_kept(&mut self, known: Known, kept: Kept, owner: &mut Owner) -> Option<Kept> {
        let knows_more = match known {
            Known::Count(count) => is_older(self.known, count),
            Known::Heard(had_heard) => had_heard && !self.of.contains_key(&kept.owner),
        };
        if knows_more {
            let slot = owner.slot_of(&kept.id);
            slot.into_iter().for_each(|slot| owner.on_handle_added(slot));
            self.late.push(Late { known, kept, slot });
            return None;
        }
        let owner = self.living(kept.owner);
        (!self.is_outdated(kept.owner, known)).then_some(Kept { owner, ..kept })
    }

    /// A reply waits for room.
    pub fn reply_waits(&mut self, caller: ProcId, request: u64) {
        self.unsent.insert((caller, request));
    }

    /// It has gone out, or nobody waits for it any more.
    pub fn reply_went(&mut self, caller: ProcId, request: u64) {
        self.unsent.remove(&(caller, request));
    }

    /// The replies to this caller that wait.
    pub fn replies_waiting(&self, caller: ProcId) -> impl Iterator<Item = u64> {
        self.unsent.iter().filter(move |(to, _)| *to == caller).map(|(_, request)| *request)
    }
}
