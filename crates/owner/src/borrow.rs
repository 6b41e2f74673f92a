//! Objects that cross processes. An owner counts shares per borrower; whoever hands a reference on registers the receiver before its own
//! hold ends, so that there is never a moment in which nobody holds the object.

use model::{Failure, ObjectId, ProcId};
use smallvec::SmallVec;

use crate::objects::Object;
use crate::{Effect, Owner, Slot, Value};

/// A reference that somebody keeps beyond the call it came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The object.
    pub id: ObjectId,
    /// The owner of the object.
    pub owner: ProcId,
    /// Who keeps it.
    pub borrower: ProcId,
}

impl Owner {
    /// The object will be named to another process: it must be found by its id from now on.
    pub fn on_escape(&mut self, slot: Slot) {
        if let Some(object) = self.objects.get(slot) {
            self.by_id.insert(object.id, slot);
        }
    }

    /// As `on_escape`, of an object that must outlive this process if others do.
    pub fn on_given_away(&mut self, slot: Slot, out: &mut Vec<Effect>) {
        self.on_escape(slot);
        if self.is_mortal {
            self.record(slot, out);
        }
    }

    /// An object by the id that another process used.
    #[must_use]
    pub fn slot_of(&self, id: &ObjectId) -> Option<Slot> {
        self.by_id.get(id).copied()
    }

    /// A reference arrived in a value or an argument. Adds a handle. `shares`: how many shares the owner has counted for us for it
    /// (one for a returned value, none for an argument, which the caller holds until the reply).
    pub fn on_borrowed(&mut self, id: ObjectId, owner: Option<ProcId>, shares: i32) -> Slot {
        let slot = self.foreign_slot(id, owner);
        if let Some(object) = self.objects.get_mut(slot) {
            object.handles += 1;
            if object.owner.is_some() {
                object.shares += shares;
            }
        }
        slot
    }

    pub(crate) fn foreign_slot(&mut self, id: ObjectId, owner: Option<ProcId>) -> Slot {
        if let Some(slot) = self.by_id.get(&id) {
            return *slot;
        }
        let mut object = Object::new(id, owner);
        if owner.is_none() {
            // Ours, and gone: nobody held it when its name came back.
            object.value = Some(Value::Failed(std::sync::Arc::new(Failure::Freed)));
        }
        let slot = self.objects.insert(object).0;
        self.by_id.insert(id, slot);
        slot
    }

    /// A reference arrived inside a value that we keep as bytes: the value holds it. Returns what to put into `contains`.
    pub fn on_contained(&mut self, id: ObjectId, owner: Option<ProcId>, shares: i32) -> Slot {
        let slot = self.foreign_slot(id, owner);
        if let Some(object) = self.objects.get_mut(slot) {
            object.uses += 1;
            if object.owner.is_some() {
                object.shares += shares;
            }
        }
        slot
    }

    /// This process, or one that it passed the reference on to, keeps it beyond the call that it ran for us.
    pub fn on_kept_by(&mut self, id: &ObjectId, owner: Option<ProcId>, borrower: ProcId, out: &mut Vec<Effect>) {
        let Some(owner) = owner else { return self.on_shares(id, borrower, 1, out) };
        let object = self.by_id.get(id).copied().and_then(|slot| self.objects.get_mut(slot));
        match object.filter(|object| object.guests > 0) {
            Some(guest) => guest.lent.push(borrower),
            None => out.push(Effect::Borrowed { owner, object: *id, borrower, count: 1 }),
        }
    }

    /// A reference came with a call that is about to run here. Once for each `on_borrowed` without a share.
    pub fn on_call_begins(&mut self, slot: Slot) {
        if let Some(object) = self.objects.get_mut(slot) {
            object.guests += 1;
        }
    }

    /// That call is about to be answered by `me`. Returns who keeps the reference, with its owner: whoever called counts a share for each.
    pub fn on_call_ends(&mut self, slot: Slot, me: ProcId, out: &mut Vec<Effect>) -> SmallVec<[Kept; 1]> {
        let mut kept = SmallVec::new();
        let Some(object) = self.objects.get_mut(slot) else { return kept };
        object.guests = object.guests.saturating_sub(1);
        let (id, lent) = (object.id, std::mem::take(&mut object.lent));
        if let Some(owner) = object.owner {
            if object.is_used() {
                object.shares += 1;
                kept.push(Kept { id, owner, borrower: me });
            }
            kept.extend(lent.into_iter().map(|borrower| Kept { id, owner, borrower }));
        }
        self.free_if_unheld(slot, out);
        kept
    }

    /// We keep a reference that nobody has counted a share for: we ask for one ourselves. Returns it and its owner, or `None` if we do
    /// not keep it (or own it).
    pub fn on_keep(&mut self, slot: Slot) -> Option<(ObjectId, ProcId)> {
        let object = self.objects.get_mut(slot)?;
        let owner = object.owner?;
        if !object.is_used() {
            return None;
        }
        object.shares += 1;
        Some((object.id, owner))
    }

    /// Whether anything of ours is still under way, or held by another process.
    #[must_use]
    pub fn is_needed_by_others(&self) -> bool {
        let is_borrowed = |object: &Object| object.borrowers.iter().any(|(_, shares)| *shares > 0);
        self.tasks_pending() > 0 || self.objects().any(|(_, object)| object.owner.is_none() && is_borrowed(object))
    }

    /// A borrower of our object holds more or fewer shares.
    pub fn on_shares(&mut self, id: &ObjectId, borrower: ProcId, count: i32, out: &mut Vec<Effect>) {
        let Some(slot) = self.by_id.get(id).copied() else { return self.on_early_shares(id, borrower, count) };
        // One that we have borrowed ourselves may have been taken to be ours: its owner died and had not recorded it.
        let Some(object) = self.objects.get_mut(slot).filter(|object| object.owner.is_none()) else { return };
        object.lend(borrower, count);
        object.borrowers.retain(|(_, shares)| *shares != 0);
        self.free_if_unheld(slot, out);
    }

    /// Somebody wants the value of our object.
    pub fn on_wanted(&mut self, id: &ObjectId, by: ProcId, out: &mut Vec<Effect>) {
        let object = self.by_id.get(id).copied().and_then(|slot| self.objects.get_mut(slot));
        let value = match object {
            None => Value::Failed(std::sync::Arc::new(Failure::Freed)),
            Some(object) => match object.value.clone() {
                Some(value) => {
                    object.is_read = true;
                    if !object.told_where.contains(&by) {
                        object.told_where.push(by);
                    }
                    value
                }
                None => {
                    if !object.wanted_by.contains(&by) {
                        object.wanted_by.push(by);
                    }
                    return self.on_needed_by_id(id, out);
                }
            },
        };
        out.push(Effect::Have { to: by, object: *id, value });
    }

    /// We need the value of an object: asks the owner of a borrowed one, once; makes one of ours again that was let go of.
    pub fn on_needed(&mut self, slot: Slot, out: &mut Vec<Effect>) {
        let Some(object) = self.objects.get_mut(slot).filter(|object| object.value.is_none()) else { return };
        match object.owner {
            Some(owner) if !object.asked => {
                object.asked = true;
                out.push(Effect::Want { owner, object: object.id });
            }
            None if object.maker().is_none() && object.lineage.is_some() => {
                self.make_again(slot, "it was let go of", out);
            }
            _ => {}
        }
    }

    fn on_needed_by_id(&mut self, id: &ObjectId, out: &mut Vec<Effect>) {
        if let Some(slot) = self.by_id.get(id) {
            self.on_needed(*slot, out);
        }
    }

    /// An owner answered.
    pub fn on_have(&mut self, id: &ObjectId, value: Value, contains: SmallVec<[Slot; 0]>, out: &mut Vec<Effect>) {
        match self.by_id.get(id).copied() {
            Some(slot) => self.resolve(slot, value, contains, out),
            None => contains.into_iter().for_each(|inner| self.release(inner, out)),
        }
    }

    /// A process is gone: what it borrowed is released, what it owned and we wait for will not come.
    pub fn on_process_gone(&mut self, gone: ProcId, out: &mut Vec<Effect>) {
        let touched: Vec<Slot> = self
            .by_id
            .values()
            .copied()
            .filter(|slot| {
                self.objects.get(*slot).is_some_and(|object| {
                    object.owner == Some(gone)
                        || object.borrowers.iter().any(|(who, _)| *who == gone)
                        || object.wanted_by.contains(&gone)
                        || object.told_where.contains(&gone)
                })
            })
            .collect();
        // First all counts, then what follows from them: nobody tells a dead owner that its object is let go.
        for slot in &touched {
            let Some(object) = self.objects.get_mut(*slot) else { continue };
            object.borrowers.retain(|(who, _)| *who != gone);
            object.wanted_by.retain(|who| *who != gone);
            object.told_where.retain(|who| *who != gone);
            if object.owner == Some(gone) {
                object.shares = 0;
            }
        }
        let mut inside = Vec::new();
        for slot in touched {
            let Some(object) = self.objects.get_mut(slot) else { continue };
            if object.owner == Some(gone) {
                if matches!(object.value, Some(Value::Bulk(_))) {
                    // Its place in the arena is given to others now, or its file removed.
                    object.value = None;
                    inside.extend(std::mem::take(&mut object.contains));
                }
                if object.value.is_none() {
                    let failure = Value::Failed(std::sync::Arc::new(Failure::OwnerDied));
                    self.resolve(slot, failure, SmallVec::new(), out);
                    continue;
                }
            }
            self.free_if_unheld(slot, out);
        }
        inside.into_iter().for_each(|inner| self.release(inner, out));
    }
}
