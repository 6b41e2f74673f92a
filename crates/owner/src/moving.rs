//! Large values that leave the arena for a file, or do not lie any more where we were told.

use model::{Bulk, Filed, Place, TaskKey};
use rustc_hash::FxHashSet;

use crate::{Effect, Owner, Slot, Value};

/// A value in the arena that may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Movable {
    /// Whose it is.
    pub slot: Slot,
    /// Where it lies.
    pub place: Place,
    /// When it was last looked at: a larger number is later.
    pub touched: u64,
}

impl Owner {
    /// Our values in the arena, the longest unused first. Not those that a call on its way names by their place.
    #[must_use]
    pub fn movable(&self) -> Vec<Movable> {
        let named = self.named_by_calls();
        let mut movable: Vec<Movable> = self
            .objects()
            .filter_map(|(slot, object)| match object.value.as_ref().and_then(Value::as_bulk) {
                Some(Bulk::Stored(place)) if object.owner.is_none() && place.serial != 0 => {
                    Some(Movable { slot, place, touched: object.touched })
                }
                _ => None,
            })
            .filter(|movable| !named.contains(&movable.slot))
            .collect();
        movable.sort_unstable_by_key(|movable| movable.touched);
        movable
    }

    /// Arguments of calls on their way: whoever runs one has perhaps not pinned them yet.
    fn named_by_calls(&self) -> FxHashSet<Slot> {
        let leases = self.pools.iter().flat_map(|pool| &pool.leases);
        let lanes = self.callees.values().flat_map(|callee| &callee.lanes);
        let under = leases.flat_map(|lease| &lease.under).chain(lanes.flat_map(|lane| &lane.under));
        let tasks = under.filter_map(|key: &TaskKey| self.task(*key));
        tasks.flat_map(|task| task.spec.deps.iter().copied()).collect()
    }

    /// Somebody looks at a large value of ours.
    #[inline]
    pub fn on_touched(&mut self, slot: Slot) {
        self.touches += 1;
        if let Some(object) = self.objects.get_mut(slot) {
            object.touched = self.touches;
        }
    }

    /// Copies of values that lie in the arena were written to files. Where it is still the object's value, and no call has named its
    /// place meanwhile, the file takes its place; else nobody needs the copy. Returns how many bytes of the arena that frees.
    pub fn on_moved(&mut self, moved: &[(Movable, Filed)], out: &mut Vec<Effect>) -> u64 {
        let named = self.named_by_calls();
        let mut freed = 0;
        for (Movable { slot, place, .. }, filed) in moved {
            let from = Value::bulk(Bulk::Stored(*place));
            let object = self.objects.get_mut(*slot).filter(|object| object.owner.is_none() && !named.contains(slot));
            match object.filter(|object| object.value.as_ref() == Some(&from)) {
                Some(object) => {
                    object.value = Some(Value::bulk(Bulk::Filed(*filed)));
                    freed += place.length;
                    if object.cell != 0 {
                        self.record_changed(*slot, out);
                    }
                    out.push(Effect::Discarded(Bulk::Stored(*place)));
                }
                None => out.push(Effect::Discarded(Bulk::Filed(*filed))),
            }
        }
        freed
    }

    /// A borrowed value does not lie where its owner said, and the owner is told so. False if that is no news.
    pub fn on_stale(&mut self, slot: Slot, bulk: Bulk, out: &mut Vec<Effect>) -> bool {
        let object = self.objects.get_mut(slot).filter(|object| object.owner.is_some());
        let Some(object) = object.filter(|object| object.value == Some(Value::bulk(bulk))) else { return false };
        (object.value, object.asked) = (None, true);
        // The owner's answer names them once more.
        let contains = std::mem::take(&mut object.contains);
        self.await_again(slot);
        contains.into_iter().for_each(|inner| self.release(inner, out));
        true
    }
}
