//! HOT: values that come in, and the references inside them.

use std::sync::Arc;

use model::{Bulk, Failure, ObjectId, ProcId, TaskKey};
use owner::{Kept, Knew, Known, Packed, Slot, Stage, Value};
use smallvec::SmallVec;
use wire::control::ToNode;
use wire::frame::{self, GIVEN_BACK, UNSTARTED, WANTED_BACK};
use wire::journal::Ref;
use wire::peer::{Peer, Shares};
use wire::value;
use wire::{Malformed, Reader};

use crate::{Body, NoPin, Party};

/// Who sent something that gives references away, and what it knew.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    pub(crate) by: ProcId,
    /// Which processes that left something it knew to be dead.
    pub(crate) knew: Knew<'a>,
    /// It was meant for a process whose heir we are: references were registered for that one.
    pub(crate) is_to_the_dead: bool,
}

impl<'a> Sent<'a> {
    /// To us.
    #[must_use]
    #[inline]
    pub fn now(by: ProcId, knew: Knew<'a>) -> Self {
        Self { by, knew, is_to_the_dead: false }
    }
}

impl<P> Party<P> {
    /// What came of a call, wherever it was sent from.
    ///
    /// # Errors
    /// If the bytes are no reply.
    #[inline]
    pub fn take_reply(
        &mut self,
        body: &mut impl Body<Pin = P>,
        key: TaskKey,
        sent: Sent<'_>,
        flags: u8,
        bytes: &[u8],
    ) -> Result<(), Malformed> {
        let (peer, now) = (sent.by, body.now());
        if flags & UNSTARTED != 0 {
            self.note_unstarted(peer, key);
            return Ok(());
        }
        if flags & WANTED_BACK != 0 {
            self.owner.on_took_back(now, key, peer, &mut self.effects);
            return Ok(());
        }
        if flags & GIVEN_BACK != 0 {
            self.owner.on_given_back(now, key, peer, &mut self.effects);
            return Ok(());
        }
        let mut reader = Reader::new(bytes);
        let count = reader.u32()?;
        let mut reply = SmallVec::new();
        for _ in 0..count {
            reply.push(self.read_value(body, sent, &mut reader)?);
        }
        // References that the worker, or one that it passed them on to, keeps beyond the call: before our own hold on them ends.
        while !reader.rest().is_empty() {
            let kept = read_kept(&mut reader)?;
            self.note_kept(body, sent.knew.of(kept.owner), kept);
        }
        if let [(Value::Failed(failure), _)] = &reply[..]
            && let Failure::ArgumentLost(why) = &**failure
        {
            self.owner.on_argument_lost(now, key, peer, why, &mut self.effects);
        } else {
            self.owner.on_replied(now, key, peer, reply, &mut self.effects);
        }
        Ok(())
    }

    /// A process of another node is dead, of which we hear next, and has not started this call.
    #[cold]
    fn note_unstarted(&mut self, peer: ProcId, key: TaskKey) {
        if let Some(Stage::Under { worker, ticket }) = self.owner.task(key).map(|task| task.stage)
            && worker == peer
        {
            self.unstarted.entry(peer).or_default().push(ticket);
        }
    }

    /// A call of ours has yielded a value.
    ///
    /// # Errors
    /// If the bytes are no value.
    #[inline]
    pub fn take_item(
        &mut self,
        body: &mut impl Body<Pin = P>,
        key: TaskKey,
        sent: Sent<'_>,
        bytes: &[u8],
    ) -> Result<(), Malformed> {
        let (value, contains) = self.read_value(body, sent, &mut Reader::new(bytes))?;
        self.owner.on_item(key, sent.by, value, contains, &mut self.effects);
        Ok(())
    }

    /// tour(object) 5: the receiver pins it, so that it lies where it is even if its writer dies.
    fn read_value(
        &mut self,
        body: &mut impl Body<Pin = P>,
        sent: Sent<'_>,
        reader: &mut Reader<'_>,
    ) -> Result<(Value, SmallVec<[Slot; 0]>), Malformed> {
        Ok(match frame::Value::read(reader)? {
            frame::Value::Inline(bytes) => {
                let contains = self.take_contained(body, sent, value::refs_of(bytes));
                (Value::Inline(Packed::from(bytes)), contains)
            }
            frame::Value::Bulk(Bulk::Filed(filed)) => match body.take_over(filed) {
                Ok(filed) => {
                    let bulk = Bulk::Filed(filed);
                    self.hold_file(bulk);
                    let refs = body.refs_in(bulk);
                    (Value::bulk(bulk), self.take_contained(body, sent, refs))
                }
                Err(why) => (failed(Failure::Lost(why)), SmallVec::new()),
            },
            frame::Value::Bulk(bulk @ Bulk::Stored(place)) => {
                // The pin keeps the bytes even if the process that wrote them dies.
                match body.pin(place) {
                    Ok(pin) => {
                        let refs = body.refs_at(place, &pin);
                        let contains = self.take_contained(body, sent, refs);
                        self.places.keep(sent.by, place, pin);
                        (Value::bulk(bulk), contains)
                    }
                    Err(NoPin::Full(why)) => {
                        let refs = body.refs_in(bulk);
                        let contains = self.take_contained(body, sent, refs);
                        body.relay(sent.by, Peer::FreePlace(place));
                        (failed(Failure::StoreFull(why)), contains)
                    }
                    Err(NoPin::Gone) => return Err(Malformed("place")),
                }
            }
            frame::Value::Away { bulk, refs } => {
                if sent.is_to_the_dead {
                    body.tell_node(ToNode::InheritAway(bulk));
                }
                let contains = self.take_contained(body, sent, value::refs_in_row(refs));
                (Value::bulk(bulk), contains)
            }
            frame::Value::Raised { error, retry } => {
                let contains = self.take_contained(body, sent, value::refs_of(error));
                let error = error.into();
                (failed(if retry { Failure::Retryable(error) } else { Failure::Raised(error) }), contains)
            }
            frame::Value::Failed(bytes) => (failed(wire::decode(bytes)?), SmallVec::new()),
        })
    }

    /// References inside a value that is ours from now on; whoever sent it has registered a share of each for us.
    pub(crate) fn take_contained(
        &mut self,
        body: &mut impl Body<Pin = P>,
        sent: Sent<'_>,
        refs: Vec<Ref>,
    ) -> SmallVec<[Slot; 0]> {
        refs.into_iter().map(|(id, owner)| self.take_one(body, sent, id, owner)).collect()
    }

    fn take_one(&mut self, body: &mut impl Body<Pin = P>, sent: Sent<'_>, id: ObjectId, owner: ProcId) -> Slot {
        let living = self.other_owner(owner);
        if let Some(living) = living {
            self.meet(body, living);
        }
        // What was registered for a dead process its owner tells the heir of, unless it is dead too: then we claim it of its own heir.
        let is_claimed = sent.is_to_the_dead && self.heirs.is_outdated(owner, sent.knew.of(owner));
        let slot = self.owner.on_contained(id, living, i32::from(!sent.is_to_the_dead || is_claimed));
        // We may know it under the name of an owner that the sender knew to be dead.
        match self.owner.object(slot).and_then(|object| object.owner) {
            Some(named) if is_claimed => {
                let shares = vec![Shares { object: id, borrower: self.me, count: 1 }];
                body.relay(named, Peer::Borrowed(shares));
            }
            _ if sent.is_to_the_dead => {}
            Some(named) => self.note_share(body, (id, named), owner, sent.knew.of(owner)),
            None if self.heirs.is_outdated(owner, sent.knew.of(owner)) => {}
            None => self.owner.on_shares(&id, self.me, -1, &mut self.effects),
        }
        if living.is_some() {
            self.show(body, slot);
        }
        slot
    }

    /// A share of another process's object came in. `owner`: whom the sender took for its owner, of whose death it knew this; it may be the
    /// heir of whom we take for it.
    #[inline]
    fn note_share(&mut self, body: &mut impl Body<Pin = P>, share: Ref, owner: ProcId, known: Known) {
        if let Some(heir) = self.heirs.on_share(share, owner, known) {
            body.relay(heir, Peer::Borrowed(vec![Shares { object: share.0, borrower: self.me, count: 1 }]));
        }
    }

    /// Makes an object's value visible to who looks without asking.
    pub(crate) fn show(&self, body: &mut impl Body<Pin = P>, slot: Slot) {
        body.show(slot, self.owner.object(slot).and_then(|object| object.value.as_ref()));
    }
}

/// One of the references that are kept beyond a call, as they stand behind the values of a reply.
pub(crate) fn read_kept(reader: &mut Reader<'_>) -> Result<Kept, Malformed> {
    Ok(Kept { id: ObjectId(reader.array()?), owner: reader.process()?, borrower: reader.process()? })
}

/// A failure as a value.
pub(crate) fn failed(failure: Failure) -> Value {
    Value::Failed(Arc::new(failure))
}
