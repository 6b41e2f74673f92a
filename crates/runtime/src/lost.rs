//! Values that do not lie where they should: whoever says so is not taken at its word, they are looked for.
//!
//! A look takes as long as a disk or an object store does, so none is made with the state's lock held (RUN-1). What a borrower or a worker
//! misses, the thread that empties the arena looks for; what a `get` misses, the thread that gets. Meanwhile the value may have moved, been
//! made again or been freed: what was found counts only if it lies where it was looked for still.

use model::{Bulk, Failure, ObjectId, ProcId, TaskKey};
use owner::{Slot, Value};
use wire::peer::{Content, Knew, Peer};

use crate::Runtime;
use crate::spill::Order;
use crate::state::State;

/// How long an object store may take to confirm that a value is lost, besides a second for each 32 MiB of it.
const LOOK_AGAIN_NS_MAX: u64 = 3_000_000_000;

/// Said of what cannot be looked for, which is rather given up than taken for lost.
const NO_THREAD: &str = "no thread could be started to look for it";

impl Runtime {
    /// A borrower does not find a value of ours where it was told.
    pub(crate) fn on_missing(&self, state: &mut State, from: ProcId, object: ObjectId, bulk: Bulk) {
        // It may have moved; what is still there according to us is looked for. In the arena that is done at once.
        let slot = state.party.owner.slot_of(&object).filter(|slot| lies_at(state, *slot, bulk));
        let is_here = || matches!(bulk, Bulk::Stored(place) if !self.is_away(bulk) && self.store.pin(place).is_ok());
        if slot.is_none() || is_here() {
            return state.party.owner.on_wanted(&object, from, &mut state.party.effects);
        }
        self.look_for_asker(from, object, bulk);
    }

    /// A value of ours is not where it should be, and this process wants it.
    pub(crate) fn look_for_asker(&self, from: ProcId, object: ObjectId, bulk: Bulk) {
        if !self.order(Order::Missing { from, object, bulk }) {
            // To be told the same place again, it would ask for ever.
            let content = Content::Failed(Failure::Lost(NO_THREAD.into()));
            // It gives nothing away.
            self.relay(from, Peer::Have { object, content, refs: Vec::new(), knew: Knew::Dead(Vec::new()) });
        }
    }

    /// Looks for what a borrower misses, and answers it.
    pub(crate) fn look_for_missing(&self, from: ProcId, object: ObjectId, bulk: Bulk) {
        // Others may have asked for it before, and it was found to be lost.
        let is_news = {
            let state = self.state.lock().expect("never poisoned");
            state.party.owner.slot_of(&object).is_some_and(|slot| lies_at(&state, slot, bulk))
        };
        let lost = if is_news { self.look_again(bulk).err() } else { None };
        let gone = if lost.is_some() { self.files_gone() } else { Vec::new() };
        self.with_state(|state| {
            if let (Some(slot), Some(why)) = (state.party.owner.slot_of(&object), lost) {
                self.report_lost(state, slot, bulk, &why.to_string(), &gone);
            }
            // Nothing is kept for the dead; who has inherited its question asks by itself.
            if !state.party.is_dead(from) {
                state.party.owner.on_wanted(&object, from, &mut state.party.effects);
            }
        });
    }

    /// A worker did not find an argument of a call.
    #[cold]
    pub(crate) fn order_look(&self, state: &mut State, task: TaskKey, why: Box<str>) {
        let words = format!("{why}; {NO_THREAD}");
        if !self.order(Order::LookForArguments { task, why }) {
            state.party.owner.on_arguments_looked(task, false, &words, &mut state.party.effects);
        }
    }

    /// Looks at the large arguments of a call, and says which are lost, or not any more where their owners said.
    pub(crate) fn look_for_arguments(&self, task: TaskKey, why: &str) {
        let named = self.state.lock().expect("never poisoned").party.owner.arguments_to_look_at(task);
        let look = |(slot, bulk): (Slot, Bulk)| Some((slot, bulk, self.look_again(bulk).err()?.to_string()));
        let lost: Vec<(Slot, Bulk, String)> = named.into_iter().filter_map(look).collect();
        let gone = if lost.is_empty() { Vec::new() } else { self.files_gone() };
        self.with_state(|state| {
            let mut has_changed = false;
            for (slot, bulk, why) in &lost {
                has_changed |= !lies_at(state, *slot, *bulk);
                let _ = self.report_stale(state, *slot, *bulk) || self.report_lost(state, *slot, *bulk, why, &gone);
            }
            state.party.owner.on_arguments_looked(task, has_changed, why, &mut state.party.effects);
        });
    }

    /// A value does not lie where we were told. If it is borrowed and that is news, its owner is asked where it is.
    pub(crate) fn report_stale(&self, state: &mut State, slot: Slot, bulk: Bulk) -> bool {
        let object = state.party.owner.object(slot).map(|object| (object.id, object.owner));
        let Some((object, Some(owner))) = object else { return false };
        let is_news = state.party.owner.on_stale(slot, bulk, &mut state.party.effects);
        if is_news {
            self.cells.set(slot, net::Readiness::Pending);
            self.relay(owner, Peer::Missing { object, bulk });
        }
        is_news
    }

    /// A value of ours is lost, and with it perhaps others, which `files_gone` has found: all are named at once, so that what made several
    /// runs once. False if that is no news.
    pub(crate) fn report_lost(
        &self,
        state: &mut State,
        slot: Slot,
        bulk: Bulk,
        why: &str,
        gone: &[(Slot, Bulk)],
    ) -> bool {
        let others = gone.iter().copied().filter(|(other, _)| *other != slot);
        let lost: Vec<(Slot, Bulk)> = std::iter::once((slot, bulk)).chain(others).collect();
        state.party.owner.on_lost(&lost, why, &mut state.party.effects)
    }

    /// Our values whose files are not there. Asks the file system of each, so it must not be called with the lock held.
    pub(crate) fn files_gone(&self) -> Vec<(Slot, Bulk)> {
        let filed: Vec<_> = {
            let state = self.state.lock().expect("never poisoned");
            let ours = state.party.owner.objects().filter(|(_, object)| object.owner.is_none());
            let place = |(slot, object): (Slot, &owner::Object)| match object.value.as_ref()?.as_bulk()? {
                Bulk::Filed(filed) if filed.file.node() == self.me.node() => Some((slot, filed)),
                Bulk::Filed(_) | Bulk::Stored(_) => None,
            };
            ours.filter_map(place).collect()
        };
        let gone = filed.into_iter().filter(|(_, filed)| !self.files.is_there(filed));
        gone.map(|(slot, filed)| (slot, Bulk::Filed(filed))).collect()
    }

    /// As `look`, for who has been told that the value is lost: an object store does not get long to answer, since others wait to be
    /// looked for, and for room.
    fn look_again(&self, bulk: Bulk) -> Result<(), store::Error> {
        let end_ns = net::clock::now_ns() + LOOK_AGAIN_NS_MAX + 30 * bulk.length();
        let mut goes_on = || net::clock::now_ns() < end_ns && !self.is_closed();
        match bulk {
            _ if self.is_away(bulk) => self.is_there(bulk, &mut goes_on),
            Bulk::Stored(place) => self.store.pin(place).map(drop),
            Bulk::Filed(filed) => self.files.map_while(&filed, &mut goes_on).map(drop),
        }
    }
}

/// Whether this is where the object's value lies, as far as we know.
pub(crate) fn lies_at(state: &State, slot: Slot, bulk: Bulk) -> bool {
    state.party.owner.object(slot).and_then(|object| object.value.as_ref()) == Some(&Value::bulk(bulk))
}
