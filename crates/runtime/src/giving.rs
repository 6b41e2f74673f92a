//! Values that go to another process for good: it gets a share of every reference in them, and their owners are told first.
//!
//! This process may die at any point. What goes through the node goes with the word to the owners in one message. What goes through a ring is
//! a gift, see `owner::Gifts`: nothing is said of it before it is certain that it fits into the ring.

use model::{Bulk, ObjectId, Place, ProcId};
use owner::{Gift, Slot, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wire::control::ToNode;
use wire::frame::{self, GIFT, Header};
use wire::journal::Ref;
use wire::peer::{Content, Peer, Shares};

use crate::link::WriteError;
use crate::state::State;
use crate::{Runtime, value};

/// References in one message.
const REFS_MAX: usize = 1_000_000;

/// What goes to another process with values.
#[derive(Default)]
pub(crate) struct Cargo {
    pub(crate) refs: Vec<Ref>,
    /// Values in our part of the arena, which are the receiver's from then on.
    places: SmallVec<[Place; 1]>,
}

/// Who is to be told of the references that go with a value.
#[derive(Default)]
struct Sharing {
    ours: Vec<ObjectId>,
    others: FxHashMap<ProcId, Vec<ObjectId>>,
}

impl Sharing {
    /// What the owners are told, in messages of a bearable length.
    fn messages(&self, say: impl Fn(&[ObjectId]) -> Peer) -> Vec<(ProcId, Peer)> {
        let parts = self.others.iter().flat_map(|(owner, objects)| objects.chunks(REFS_MAX).map(|part| (*owner, part)));
        parts.map(|(owner, objects)| (owner, say(objects))).collect()
    }
}

fn borrowed(objects: &[ObjectId], borrower: ProcId) -> Peer {
    Peer::Borrowed(objects.iter().map(|object| Shares { object: *object, borrower, count: 1 }).collect())
}

impl Runtime {
    /// What these values, as they lie in a frame, carry.
    #[inline]
    pub(crate) fn cargo_of(&self, values: &[u8]) -> Cargo {
        let mut cargo = Cargo::default();
        for value in crate::reply::values_in(values) {
            match value {
                frame::Value::Inline(bytes) | frame::Value::Raised { error: bytes, .. }
                    if bytes.first().is_some_and(|flags| flags & value::HAS_REFS != 0) =>
                {
                    cargo.refs.extend(value::refs_of(bytes));
                }
                frame::Value::Bulk(bulk) => {
                    cargo.refs.extend(self.refs_in(bulk));
                    if let Bulk::Stored(place) = bulk {
                        cargo.places.push(place);
                    }
                }
                _ => {}
            }
        }
        cargo
    }

    fn sharing(&self, state: &State, refs: &[Ref]) -> Sharing {
        let mut sharing = Sharing::default();
        for (object, owner) in refs {
            let owner = state.heirs.living(*owner);
            if owner == self.me {
                sharing.ours.push(*object);
            } else {
                sharing.others.entry(owner).or_default().push(*object);
            }
        }
        sharing
    }

    /// Writes a frame of values into the ring to this process. Whatever they carry is the receiver's from then on.
    #[inline]
    pub(crate) fn write_values(
        &self,
        state: &mut State,
        to: ProcId,
        mut header: Header,
        body: &[u8],
        cargo: &Cargo,
    ) -> Result<(), WriteError> {
        header.claim = state.heirs.known();
        if cargo.refs.is_empty() {
            let Some((at, link)) = state.links.to(to) else { return Ok(()) };
            let written = link.write(&self.store, header, &[body]);
            state.links.note_unrung(at);
            written?;
        } else {
            self.write_gift(state, to, header, body, &cargo.refs)?;
        }
        for place in &cargo.places {
            state.given.insert(place.offset, (to, *place));
        }
        Ok(())
    }

    fn write_gift(
        &self,
        state: &mut State,
        to: ProcId,
        mut header: Header,
        body: &[u8],
        refs: &[Ref],
    ) -> Result<(), WriteError> {
        let sharing = self.sharing(state, refs);
        let number = state.gifts.next(to);
        let is_gift = !sharing.others.is_empty();
        if is_gift {
            header.flags |= GIFT;
        }
        let Some((at, link)) = state.links.to(to) else { return Ok(()) };
        let written = link.write_after(&self.store, header, &[body], || {
            if is_gift {
                let given = |objects: &[ObjectId]| Peer::Given { to, number, objects: objects.to_vec() };
                self.send(&ToNode::RelayAll(sharing.messages(given)));
            }
        });
        state.links.note_unrung(at);
        written?;
        if is_gift {
            state.gifts.on_gave(to);
        }
        self.lend_ours(state, &sharing, to);
        Ok(())
    }

    fn lend_ours(&self, state: &mut State, sharing: &Sharing, to: ProcId) {
        let State { owner, effects, .. } = state;
        sharing.ours.iter().for_each(|object| owner.on_shares(object, to, 1, effects));
    }

    /// As `write_values`, by way of the node and with a message of its own.
    pub(crate) fn relay_values(&self, state: &mut State, to: ProcId, message: Peer, cargo: &Cargo) {
        self.relay_with_refs(state, to, message, &cargo.refs);
        for place in &cargo.places {
            state.given.insert(place.offset, (to, *place));
        }
    }

    fn relay_with_refs(&self, state: &mut State, to: ProcId, message: Peer, refs: &[Ref]) {
        // A question may outlive who asked it. Nobody would ever give back what is counted for the dead.
        if refs.is_empty() || state.dead.contains_key(&to) {
            return self.relay(to, message);
        }
        let sharing = self.sharing(state, refs);
        self.lend_ours(state, &sharing, to);
        let mut messages = sharing.messages(|objects| borrowed(objects, to));
        if refs.len() > REFS_MAX {
            // More than one message holds.
            messages.into_iter().for_each(|(owner, said)| self.relay(owner, said));
            return self.relay(to, message);
        }
        messages.push((to, message));
        self.send(&ToNode::RelayAll(messages));
    }

    /// Somebody wanted a value of ours.
    pub(crate) fn answer_want(&self, state: &mut State, to: ProcId, object: ObjectId, value: &Value) {
        let (content, refs) = match value {
            Value::Inline(bytes) => (Content::Inline(bytes.to_vec()), value::refs_of(bytes)),
            Value::Bulk(bulk) => (Content::Bulk(**bulk), self.refs_in(**bulk)),
            Value::Failed(failure) => (Content::Failed((**failure).clone()), value::refs_of_failure(failure)),
        };
        let named = if matches!(content, Content::Bulk(_)) { refs.clone() } else { Vec::new() };
        let message = Peer::Have { object, content, refs: named, known: state.heirs.known() };
        self.relay_with_refs(state, to, message, &refs);
    }

    /// Keeps what is ours of the references in a value until that has gone.
    pub(crate) fn hold_ours(&self, state: &mut State, cargo: &Cargo) -> Vec<Slot> {
        if cargo.refs.is_empty() {
            return Vec::new();
        }
        let ours = self.sharing(state, &cargo.refs).ours;
        ours.into_iter().map(|id| state.owner.on_borrowed(id, None, 0)).collect()
    }

    /// A value has to wait before it goes: the references in it that others own are kept by us until then. Whatever else kept them here may
    /// be about to be told that it does so no more.
    #[cold]
    pub(crate) fn hold_others(&self, state: &mut State, cargo: &Cargo) -> Vec<Slot> {
        let sharing = self.sharing(state, &cargo.refs);
        let mut held = Vec::new();
        for (owner, objects) in &sharing.others {
            held.extend(objects.iter().map(|id| state.owner.on_borrowed(*id, Some(*owner), 1)));
        }
        sharing.messages(|objects| borrowed(objects, self.me)).into_iter().for_each(|(to, said)| self.relay(to, said));
        held
    }

    pub(crate) fn let_go(&self, state: &mut State, held: Vec<Slot>) {
        let State { owner, effects, .. } = state;
        held.into_iter().for_each(|slot| owner.on_handle_dropped(slot, effects));
    }

    /// A giver says what it is about to give to somebody.
    pub(crate) fn on_given(&self, state: &mut State, giver: ProcId, mut gift: Gift) {
        let to = gift.to;
        gift.objects.retain(|object| {
            let shares = Shares { object: *object, borrower: to, count: 1 };
            let Some(borrower) = self.who_borrows(state, giver, shares) else { return false };
            state.owner.on_shares(object, borrower, 1, &mut state.effects);
            borrower == to
        });
        if !gift.objects.is_empty() {
            state.gifts.on_given(giver, gift);
        }
    }

    /// A process is dead. What it told us that it would give it may not have given.
    pub(crate) fn giver_died(&self, state: &mut State, giver: ProcId) {
        match state.gifts.on_process_gone(giver) {
            None => {}
            Some(taker) if taker == self.me => self.on_counted(state, giver, taker, state.gifts.count(giver)),
            Some(taker) => self.relay(taker, Peer::CountGifts { from: giver }),
        }
    }

    /// The taker says how many gifts of a dead process have come.
    pub(crate) fn on_counted(&self, state: &mut State, giver: ProcId, taker: ProcId, count: u64) {
        let Some(lost) = state.gifts.on_counted(giver, taker, count) else { return };
        let State { owner, effects, .. } = state;
        lost.objects.iter().for_each(|object| owner.on_shares(object, taker, -1, effects));
    }
}
