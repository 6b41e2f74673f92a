//! HOT: values that go to another process for good: it gets a share of every reference in them, and their owners are told first.
//!
//! This process may die at any point. What goes through the node goes with the word to the owners in one message. What goes through a ring is
//! a gift, see `owner::Gifts`: nothing is said of it before it is certain that it fits into the ring.

use model::{Bulk, Failure, ObjectId, Place, ProcId};
use owner::{Slot, Value};
use smallvec::SmallVec;
use wire::control::ToNode;
use wire::frame::{self, GIFT, Header};
use wire::journal::Ref;
use wire::peer::{Content, Peer};
use wire::{Reader, value};

use crate::sharing::{REFS_MAX, borrowed};
use crate::{Body, Party};

/// A copy for another node is no larger.
const LETTER_BYTES_MAX: usize = wire::session::ITEM_BYTES_MAX - 64 * 1024;

fn too_large(bytes: usize) -> Failure {
    let mib = bytes >> 20;
    Failure::StoreFull(
        format!("a value of {mib} MiB cannot be copied to another node: at most {} MiB can", LETTER_BYTES_MAX >> 20)
            .into(),
    )
}

/// What goes to another process with values.
#[derive(Default)]
pub struct Cargo {
    pub(crate) refs: Vec<Ref>,
    /// Values in our part of the arena, which are the receiver's from then on.
    places: SmallVec<[Place; 1]>,
}

impl Cargo {
    /// What these values, as they lie in a frame, carry.
    #[inline]
    pub fn of(body: &mut impl Body, values: &[u8]) -> Self {
        let mut cargo = Self::default();
        for value in value::values_in(values) {
            match value {
                frame::Value::Inline(bytes) | frame::Value::Raised { error: bytes, .. }
                    if bytes.first().is_some_and(|flags| flags & value::HAS_REFS != 0) =>
                {
                    cargo.refs.extend(value::refs_of(bytes));
                }
                frame::Value::Bulk(bulk) => {
                    cargo.refs.extend(body.refs_in(bulk));
                    if let Bulk::Stored(place) = bulk {
                        cargo.places.push(place);
                    }
                }
                _ => {}
            }
        }
        cargo
    }
}

impl<P> Party<P> {
    /// Writes a frame of values into the ring to this process. Whatever they carry is the receiver's from then on.
    ///
    /// # Errors
    /// If there is no room. Nothing was given then.
    ///
    /// tour(object) 4: its place goes to another process in a frame; references inside it are counted for the receiver first.
    #[inline]
    pub fn write_values<B: Body<Pin = P>>(
        &mut self,
        body: &mut B,
        to: ProcId,
        mut header: Header,
        bytes: &[u8],
        cargo: &Cargo,
    ) -> Result<(), B::NoRoom> {
        let said = self.say_known(to, &mut header, bytes, &cargo.refs);
        let bytes = said.as_deref().unwrap_or(bytes);
        if cargo.refs.is_empty() {
            body.write(to, header, bytes)?;
        } else {
            self.write_gift(body, to, header, bytes, &cargo.refs)?;
        }
        self.places.give(to, &cargo.places);
        Ok(())
    }

    fn write_gift<B: Body<Pin = P>>(
        &mut self,
        body: &mut B,
        to: ProcId,
        mut header: Header,
        bytes: &[u8],
        refs: &[Ref],
    ) -> Result<(), B::NoRoom> {
        let sharing = self.sharing(refs);
        let number = self.gifts.next(to);
        if sharing.has_others() {
            header.flags |= GIFT;
            let given = |objects: &[ObjectId]| Peer::Given { to, number, objects: objects.to_vec() };
            body.write_gift(to, header, bytes, || sharing.messages(given))?;
            self.gifts.on_gave(to);
        } else {
            body.write(to, header, bytes)?;
        }
        self.lend_ours(&sharing, to);
        Ok(())
    }

    /// As `write_values`, by way of the node and with a message of its own.
    pub(crate) fn relay_values(&mut self, body: &mut impl Body<Pin = P>, to: ProcId, message: Peer, cargo: &Cargo) {
        self.relay_with_refs(body, to, message, &cargo.refs);
        self.places.give(to, &cargo.places);
    }

    fn relay_with_refs(&mut self, body: &mut impl Body<Pin = P>, to: ProcId, message: Peer, refs: &[Ref]) {
        // A question may outlive who asked it. Nobody would ever give back what is counted for the dead.
        if refs.is_empty() || self.dead.has(to) {
            return body.relay(to, message);
        }
        let sharing = self.sharing(refs);
        self.lend_ours(&sharing, to);
        let mut messages = sharing.messages(|objects| borrowed(objects, to));
        if refs.len() > REFS_MAX {
            // More than one message holds.
            messages.into_iter().for_each(|(owner, said)| body.relay(owner, said));
            return body.relay(to, message);
        }
        messages.push((to, message));
        body.tell_node(ToNode::RelayAll(messages));
    }

    /// Somebody wanted a value of ours.
    pub(crate) fn answer_want(&mut self, body: &mut impl Body<Pin = P>, to: ProcId, object: ObjectId, value: &Value) {
        let (content, refs) = match value {
            Value::Inline(bytes) => (Content::Inline(bytes.to_vec()), value::refs_of(bytes)),
            Value::Bulk(bulk) if self.is_away(**bulk) && body.names_travel() => {
                (Content::Bulk(**bulk), self.refs_kept_of(object))
            }
            // Whoever cannot look there asks its node.
            Value::Bulk(bulk) if to.node() != self.me.node() && !(bulk.is_name() && body.names_travel()) => match body
                .copy_of(**bulk)
            {
                // It has no name by which it could be asked for there.
                Some(bytes) if bytes.len() > LETTER_BYTES_MAX => (Content::Failed(too_large(bytes.len())), Vec::new()),
                Some(bytes) => {
                    let refs = value::refs_of(&bytes);
                    (Content::Inline(bytes), refs)
                }
                None => return body.not_there(to, object, **bulk),
            },
            Value::Bulk(bulk) => (Content::Bulk(**bulk), body.refs_in(**bulk)),
            Value::Failed(failure) => (Content::Failed((**failure).clone()), value::refs_of_failure(failure)),
        };
        let named = if matches!(content, Content::Bulk(_)) { refs.clone() } else { Vec::new() };
        let knew = self.knew(to, &refs, None);
        let message = Peer::Have { object, content, refs: named, knew };
        self.relay_with_refs(body, to, message, &refs);
    }

    /// The references in a value of ours that we cannot look at.
    pub(crate) fn refs_kept_of(&self, object: ObjectId) -> Vec<Ref> {
        let Some(kept) = self.owner.slot_of(&object).and_then(|slot| self.owner.object(slot)) else {
            return Vec::new();
        };
        let name = |slot: &Slot| {
            let object = self.owner.object(*slot)?;
            Some((object.id, object.owner.unwrap_or(self.me)))
        };
        kept.contained().iter().filter_map(name).collect()
    }

    /// A reply that goes to a process of another node by way of ours, which keeps its large values for that one: it gets their names.
    pub(crate) fn name_in_reply(&mut self, body: &mut impl Body<Pin = P>, to: ProcId, reply: &mut Vec<u8>) {
        if to.node() == self.me.node() || !body.names_travel() {
            return;
        }
        let (mut named, mut kept) = (reply.get(..4).unwrap_or_default().to_vec(), Vec::new());
        let mut reader = Reader::new(reply);
        for _ in 0..reader.u32().unwrap_or(0) {
            match frame::Value::read(&mut reader) {
                Ok(frame::Value::Bulk(bulk)) if bulk.is_name() => {
                    let mut refs = Vec::new();
                    body.refs_in(bulk).iter().for_each(|(id, owner)| value::write_ref(&mut refs, id, *owner));
                    frame::Value::Away { bulk, refs: &refs }.write(&mut named);
                    kept.push(bulk);
                }
                Ok(value) => value.write(&mut named),
                // Nonsense, of which its reader is the judge.
                Err(_) => return,
            }
        }
        named.extend_from_slice(reader.rest());
        if kept.is_empty() {
            return;
        }
        for bulk in &kept {
            if let Bulk::Stored(place) = bulk {
                self.keep_given(*place);
            }
        }
        body.tell_node(ToNode::Depute { to, bulks: kept });
        *reply = named;
    }

    /// Keeps what is ours of the references in a value until that has gone.
    pub fn hold_ours(&mut self, cargo: &Cargo) -> Vec<Slot> {
        if cargo.refs.is_empty() {
            return Vec::new();
        }
        let ours = self.sharing(&cargo.refs).ours;
        ours.into_iter().map(|id| self.owner.on_borrowed(id, None, 0)).collect()
    }

    /// A value has to wait before it goes: the references in it that others own are kept by us until then. Whatever else kept them here may
    /// be about to be told that it does so no more.
    #[cold]
    pub fn hold_others(&mut self, body: &mut impl Body<Pin = P>, cargo: &Cargo) -> Vec<Slot> {
        let sharing = self.sharing(&cargo.refs);
        let mut held = Vec::new();
        for (owner, objects) in sharing.others() {
            held.extend(objects.iter().map(|id| self.owner.on_borrowed(*id, Some(owner), 1)));
        }
        let me = self.me;
        sharing.messages(|objects| borrowed(objects, me)).into_iter().for_each(|(to, said)| body.relay(to, said));
        held
    }

    /// What was held until a value had gone.
    pub fn let_go(&mut self, held: Vec<Slot>) {
        let Self { owner, effects, .. } = self;
        held.into_iter().for_each(|slot| owner.on_handle_dropped(slot, effects));
    }
}
