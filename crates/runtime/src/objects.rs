//! `put`, `get`, `wait`: values in and out.

use std::sync::Arc;

use model::{Bulk, Failure, ObjectId, ProcId};
use owner::{Packed, Slot, Value};
use store::View;
use wire::peer::{Peer, Shares};

use crate::lost::lies_at;
use crate::state::State;
use crate::{Error, Runtime};
use party::Party;

/// What `get` finds.
pub enum Got {
    /// Encoded bytes.
    Inline(Packed),
    /// Encoded bytes in the arena, pinned while the view lives.
    Stored(View),
    /// Encoded bytes in a file, or on another node, to be had by `fetch`.
    Far(Bulk),
    /// Why there is no value.
    Failed(Arc<Failure>),
}

/// A value to be kept.
pub enum Content {
    /// Small.
    Inline(Vec<u8>),
    /// Large: where it was written.
    Bulk(Bulk),
}

impl Runtime {
    /// Keeps a value; returns its slot, with one handle.
    ///
    /// tour(object) 3: the owner counts it: one handle, and a place instead of bytes.
    pub fn put(&self, id: ObjectId, content: Content, contains: &[Slot]) -> Slot {
        let value = match content {
            Content::Inline(bytes) => Value::Inline(Packed::from(bytes)),
            Content::Bulk(bulk) => Value::bulk(bulk),
        };
        let mut state = self.state.lock().expect("never poisoned");
        if let Some(bulk) = value.as_bulk() {
            state.party.hold_file(bulk);
        }
        let slot = state.party.owner.on_put(id, value, contains);
        self.cells.set(slot, net::Readiness::Value);
        self.take_dropped(&mut state);
        self.apply(&mut state);
        slot
    }

    /// Keeps an error in a value's place, for who runs tasks in this very process; returns its slot, with one handle.
    pub fn put_failed(&self, id: ObjectId, failure: Failure, contains: &[Slot]) -> Slot {
        let mut state = self.state.lock().expect("never poisoned");
        let slot = state.party.owner.on_put(id, Value::Failed(Arc::new(failure)), contains);
        self.cells.set(slot, net::Readiness::Failed);
        self.take_dropped(&mut state);
        self.apply(&mut state);
        slot
    }

    /// Whether the object has its value. No lock.
    #[must_use]
    #[inline]
    pub fn is_ready(&self, slot: Slot) -> bool {
        self.cells.is_ready(slot)
    }

    /// Whether the object has failed. No lock.
    #[must_use]
    #[inline]
    pub fn is_failed(&self, slot: Slot) -> bool {
        self.cells.is_failed(slot)
    }

    /// Whether a call on an actor makes the object.
    #[must_use]
    pub fn is_actor_call(&self, slot: Slot) -> bool {
        let state = self.state.lock().expect("never poisoned");
        let maker = state.party.owner.object(slot).and_then(|object| object.maker());
        maker
            .and_then(|key| state.party.owner.task(key))
            .is_some_and(|task| matches!(task.spec.target, owner::Target::Actor(_)))
    }

    /// Nobody reads these values from now on, here or elsewhere; whoever reads one already goes on.
    pub fn free(&self, slots: &[Slot]) {
        self.with_state(|state| {
            self.drain(state);
            for slot in slots {
                state.party.owner.on_free(*slot, &mut state.party.effects);
            }
        });
    }

    /// Marks the object as seen by `wait` call number `call`; false if that call saw it before. No lock.
    #[must_use]
    #[inline]
    pub fn mark(&self, slot: Slot, call: u32) -> bool {
        self.cells.mark(slot, call)
    }

    /// Asks for the values of borrowed objects that are not here yet.
    pub fn need(&self, slots: impl Iterator<Item = Slot>) {
        let mut state = self.state.lock().expect("never poisoned");
        let Party { owner, effects, .. } = &mut state.party;
        for slot in slots {
            owner.on_needed(slot, effects);
        }
        self.apply(&mut state);
    }

    /// The object's value; `None` if it is not there yet, or not any more where its owner said: then its owner is asked again.
    #[must_use]
    #[inline]
    pub fn content(&self, slot: Slot) -> Option<Got> {
        let mut state = self.state.lock().expect("never poisoned");
        let object = state.party.owner.object(slot)?;
        match object.value.as_ref()? {
            Value::Inline(bytes) => Some(Got::Inline(bytes.clone())),
            Value::Bulk(bulk) => match **bulk {
                bulk if self.is_away(bulk) => Some(self.look_near(bulk).map_or(Got::Far(bulk), Got::Stored)),
                bulk @ Bulk::Filed(_) => Some(Got::Far(bulk)),
                bulk @ Bulk::Stored(place) => {
                    let is_kept_here = object.owner.is_some_and(|owner| owner.node() != self.me.node());
                    state.party.owner.on_touched(slot);
                    match self.store.pin(place) {
                        Ok(view) => Some(Got::Stored(view)),
                        // Its owner cannot know: where it is now is this node's affair.
                        Err(store::Error::Moved) if is_kept_here => Some(Got::Far(bulk)),
                        Err(why) => {
                            drop(state);
                            self.not_there(slot, Bulk::Stored(place), &why)
                        }
                    }
                }
            },
            Value::Failed(failure) => {
                let failure = failure.clone();
                state.party.owner.on_failure_read(slot);
                Some(Got::Failed(failure))
            }
        }
    }

    /// Reads a value that lies in a file; otherwise as `content`. Takes as long as the disk does, or, while `goes_on`, as an object store:
    /// so it must not be called with the interpreter's lock held.
    ///
    /// # Errors
    /// `TimedOut` if it did not go on.
    pub fn fetch(&self, slot: Slot, bulk: Bulk, goes_on: &mut dyn FnMut() -> bool) -> Result<Option<Got>, Error> {
        let found = match bulk {
            Bulk::Filed(filed) if !self.is_away(bulk) => match self.files.map_while(&filed, goes_on) {
                // Its owner cannot know: where it is now is this node's affair.
                Err(store::Error::Lost { .. }) if self.is_of_another_node(slot) => self.bring(bulk, goes_on),
                found => found,
            },
            _ => self.bring(bulk, goes_on),
        };
        match found {
            Ok(view) => Ok(Some(Got::Stored(view))),
            Err(store::Error::GivenUp(_)) => {
                Err(Error::TimedOut("Get timed out: the object store takes too long to give the object back."))
            }
            Err(store::Error::NotComing { .. }) => {
                Err(Error::TimedOut("Get timed out: the object does not come from the node that has it."))
            }
            Err(why @ store::Error::DiskFull { .. }) => Err(Error::DiskFull(why.to_string())),
            Err(why) => Ok(self.not_there(slot, bulk, &why)),
        }
    }

    fn is_of_another_node(&self, slot: Slot) -> bool {
        let state = self.state.lock().expect("never poisoned");
        let owner = state.party.owner.object(slot).and_then(|object| object.owner);
        owner.is_some_and(|owner| owner.node() != self.me.node())
    }

    /// A large value could not be looked at where it should lie. Its owner makes it again, or says where it is; else this is a failure.
    fn not_there(&self, slot: Slot, bulk: Bulk, why: &store::Error) -> Option<Got> {
        let mut state = self.state.lock().expect("never poisoned");
        if self.report_stale(&mut state, slot, bulk) {
            self.apply(&mut state);
            return None;
        }
        if (matches!(why, store::Error::Lost { .. }) || self.is_away(bulk)) && lies_at(&state, slot, bulk) {
            drop(state);
            let gone = self.files_gone();
            state = self.state.lock().expect("never poisoned");
            if self.report_lost(&mut state, slot, bulk, &why.to_string(), &gone) {
                self.apply(&mut state);
                return None;
            }
        }
        if !lies_at(&state, slot, bulk) {
            // It has moved while we looked.
            drop(state);
            return self.content(slot);
        }
        let why = why.to_string().into();
        let failure = if matches!(bulk, Bulk::Filed(_)) || self.is_away(bulk) {
            Failure::Lost(why)
        } else {
            Failure::StoreFull(why)
        };
        Some(Got::Failed(Arc::new(failure)))
    }

    /// One more handle.
    pub fn add_handle(&self, slot: Slot) {
        self.state.lock().expect("never poisoned").party.owner.on_handle_added(slot);
    }

    /// One handle fewer. Never blocks: the next thread that enters takes it up, or the pump if nobody comes.
    #[inline]
    pub fn drop_handle(&self, slot: Slot) {
        self.dropped.push(slot);
        self.pump.unpark();
    }

    /// The object will be named to another process; returns its owner.
    pub fn escape(&self, slot: Slot) -> ProcId {
        let mut state = self.state.lock().expect("never poisoned");
        let Party { owner, effects, .. } = &mut state.party;
        owner.on_given_away(slot, effects);
        self.apply(&mut state);
        state.party.owner.object(slot).and_then(|object| object.owner).unwrap_or(self.me)
    }

    /// As `escape`, for many.
    pub fn escape_all(&self, slots: &[Slot]) {
        let mut state = self.state.lock().expect("never poisoned");
        let Party { owner, effects, .. } = &mut state.party;
        slots.iter().for_each(|slot| owner.on_given_away(*slot, effects));
        self.apply(&mut state);
    }

    /// As `borrow_ref`, for many that no share was counted for.
    pub fn borrow_all(&self, refs: &[(ObjectId, ProcId)]) -> Vec<Slot> {
        let mut state = self.state.lock().expect("never poisoned");
        refs.iter().map(|(id, owner)| self.borrow_one(&mut state, *id, *owner, 0)).collect()
    }

    /// A reference arrived; adds a handle. `shares`: what its owner has counted for us.
    pub fn borrow_ref(&self, id: ObjectId, owner: ProcId, shares: i32) -> Slot {
        let mut state = self.state.lock().expect("never poisoned");
        self.borrow_one(&mut state, id, owner, shares)
    }

    fn borrow_one(&self, state: &mut State, id: ObjectId, owner: ProcId, shares: i32) -> Slot {
        let owner = state.party.other_owner(owner);
        if let Some(owner) = owner {
            let (party, mut hands) = self.parts(state);
            party.meet(&mut hands, owner);
        }
        let known = state.party.owner.objects_kept();
        let slot = state.party.owner.on_borrowed(id, owner, shares);
        if state.party.owner.objects_kept() > known {
            self.refresh(state, slot);
        }
        slot
    }

    /// Handles and uses of an object, as users count them.
    #[must_use]
    pub fn counts(&self, slot: Slot) -> (u32, u32) {
        let mut state = self.state.lock().expect("never poisoned");
        self.drain(&mut state);
        state.party.owner.object(slot).map_or((0, 0), owner::Object::counts)
    }

    /// Objects kept and tasks that have not ended.
    #[must_use]
    pub fn tally(&self) -> (usize, usize) {
        let mut state = self.state.lock().expect("never poisoned");
        self.drain(&mut state);
        (state.party.owner.objects_kept(), state.party.owner.tasks_pending())
    }
}

impl Runtime {
    /// A reference came by plain pickle: nobody has registered us with its owner yet.
    pub fn claim_share(&self, slot: Slot) {
        let mut state = self.state.lock().expect("never poisoned");
        if let Some((object, owner)) = state.party.owner.on_keep(slot) {
            drop(state);
            self.relay(owner, Peer::Borrowed(vec![Shares { object, borrower: self.me, count: 1 }]));
        }
    }
}
