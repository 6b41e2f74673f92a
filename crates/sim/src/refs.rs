//! References that cross processes, as the real body sends them: inside arguments and values, kept beyond a call, read from afar.
//! What one process says to another about them goes through the node, beside the rings and slower.

use std::sync::Arc;

use model::{Bulk, Failure, ObjectId, Place, ProcId};
use owner::{Gift, Kept, Slot, Value};
use smallvec::SmallVec;

use crate::env::Env;
use crate::large::Content;
use crate::process::{Process, ToNode};

/// A reference under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ref {
    pub(crate) id: ObjectId,
    pub(crate) owner: ProcId,
}

/// What one process says to another by way of the node.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    Want {
        object: ObjectId,
    },
    Have {
        object: ObjectId,
        answer: Result<Content, Failure>,
        /// What it names. It may not lie there any more when this is read.
        refs: Vec<Ref>,
    },
    /// It does not lie where its owner said.
    Missing {
        object: ObjectId,
        bulk: Bulk,
    },
    /// Room that was given to us is free.
    FreePlace(Place),
    Borrowed {
        object: ObjectId,
        borrower: ProcId,
        count: i32,
    },
    /// The sender is about to put a value into its ring to `gift.to`, with shares of these.
    Given(Gift),
    CountGifts {
        from: ProcId,
    },
    GiftsCounted {
        from: ProcId,
        count: u64,
    },
}

/// What a task computes: a number, and references that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) number: u64,
    pub(crate) refs: Vec<Ref>,
}

const REF_BYTES: usize = ObjectId::LENGTH + 8;

impl Number {
    pub(crate) fn to_value(&self) -> Value {
        let mut bytes = self.number.to_le_bytes().to_vec();
        for Ref { id, owner } in &self.refs {
            bytes.extend(id.0);
            bytes.extend(owner.to_u64().to_le_bytes());
        }
        Value::Inline(owner::Packed::from(bytes))
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let (number, rest) = bytes.split_first_chunk().expect("eight bytes");
        let to_ref = |bytes: &[u8]| {
            let (id, owner) = bytes.split_at(ObjectId::LENGTH);
            let owner = ProcId::from_u64(u64::from_le_bytes(owner.try_into().expect("eight bytes")));
            Ref { id: ObjectId(id.try_into().expect("an id")), owner }
        };
        Self { number: u64::from_le_bytes(*number), refs: rest.chunks_exact(REF_BYTES).map(to_ref).collect() }
    }
}

impl Process {
    fn owner_of(&self, reference: &Ref) -> Option<ProcId> {
        (reference.owner != self.pid.1).then_some(reference.owner)
    }

    /// The reference will be named to another process.
    pub(crate) fn escape(&mut self, env: &mut Env, slot: Slot) -> Option<Ref> {
        let object = self.owner.object(slot)?;
        let reference = Ref { id: object.id, owner: object.owner.unwrap_or(self.pid.1) };
        self.owner.on_escape(slot);
        env.oracle.handled(self.pid, reference.id);
        Some(reference)
    }

    /// A reference came with a call: the caller holds it until the reply.
    pub(crate) fn borrow_for_call(&mut self, env: &mut Env, reference: &Ref) -> Slot {
        env.oracle.handled(self.pid, reference.id);
        let slot = self.owner.on_borrowed(reference.id, self.owner_of(reference), 0);
        self.owner.on_call_begins(slot);
        slot
    }

    /// A value goes into another process's ring. Returns whether it is a gift.
    pub(crate) fn give_shares(&mut self, env: &mut Env, refs: &[Ref], to: ProcId) -> bool {
        if self.dead.contains(&to) {
            return false;
        }
        let (ours, others): (Vec<Ref>, Vec<Ref>) = refs.iter().partition(|reference| reference.owner == self.pid.1);
        for Ref { id, .. } in ours {
            self.owner.on_shares(&id, to, 1, &mut self.effects);
        }
        let number = self.gifts.next(to);
        for Ref { id, owner } in &others {
            self.relay(env, *owner, Peer::Given(Gift { to, number, objects: vec![*id] }));
        }
        !others.is_empty()
    }

    /// A process is dead: perhaps it never gave what it said that it would.
    pub(crate) fn giver_died(&mut self, env: &mut Env, giver: ProcId) {
        match self.gifts.on_process_gone(giver) {
            None => {}
            Some(taker) if taker == self.pid.1 => self.on_counted(giver, taker, self.gifts.count(giver)),
            Some(taker) => self.relay(env, taker, Peer::CountGifts { from: giver }),
        }
    }

    fn on_counted(&mut self, giver: ProcId, taker: ProcId, count: u64) {
        for object in self.gifts.on_counted(giver, taker, count).into_iter().flat_map(|gift| gift.objects) {
            self.owner.on_shares(&object, taker, -1, &mut self.effects);
        }
    }

    /// A value goes to another process for good: that one gets a share of every reference in it.
    pub(crate) fn register_shares(&mut self, env: &mut Env, refs: &[Ref], to: ProcId) {
        // A question may outlive who asked it. Nobody would ever give back what is counted for the dead.
        if self.dead.contains(&to) {
            return;
        }
        for Ref { id, owner } in refs {
            self.lend(env, *owner, *id, to, 1);
        }
    }

    /// Tells an owner, which may be this process, that somebody holds more or fewer shares.
    pub(crate) fn lend(&mut self, env: &mut Env, owner: ProcId, object: ObjectId, borrower: ProcId, count: i32) {
        if owner == self.pid.1 {
            self.owner.on_shares(&object, borrower, count, &mut self.effects);
        } else {
            self.relay(env, owner, Peer::Borrowed { object, borrower, count });
        }
    }

    /// References inside a value that is ours from now on.
    pub(crate) fn take_contained(&mut self, env: &mut Env, refs: &[Ref]) -> SmallVec<[Slot; 0]> {
        let mut slots = SmallVec::new();
        for reference in refs {
            env.oracle.handled(self.pid, reference.id);
            slots.push(self.owner.on_contained(reference.id, self.owner_of(reference), 1));
            if reference.owner == self.pid.1 {
                self.owner.on_shares(&reference.id, self.pid.1, -1, &mut self.effects);
            }
        }
        slots
    }

    /// References of our call that somebody keeps.
    pub(crate) fn on_kept(&mut self, kept: &[Kept]) {
        for Kept { id, owner, borrower } in kept {
            let owner = (*owner != self.pid.1).then_some(*owner);
            // Nobody would ever give back what is counted for the dead.
            if !self.dead.contains(borrower) {
                self.owner.on_kept_by(id, owner, *borrower, &mut self.effects);
            }
        }
    }

    /// A value of ours that somebody wanted.
    pub(crate) fn answer_want(&mut self, env: &mut Env, to: ProcId, object: ObjectId, value: &Value) {
        let answer = Content::of(value);
        let refs = answer.as_ref().map_or_else(|_| Vec::new(), |content| self.refs_in(env, content));
        self.register_shares(env, &refs, to);
        self.relay(env, to, Peer::Have { object, answer, refs });
    }

    pub(crate) fn relay(&self, env: &mut Env, to: ProcId, message: Peer) {
        env.tell_node(self.pid, ToNode::Relay { to, message });
    }

    pub(crate) fn on_peer(&mut self, env: &mut Env, from: ProcId, message: Peer) {
        match message {
            Peer::Want { object } => self.owner.on_wanted(&object, from, &mut self.effects),
            Peer::Have { object, answer, refs } => {
                let (value, contains) = match answer {
                    Ok(content) => (content.to_value(), self.take_contained(env, &refs)),
                    Err(failure) => (Value::Failed(Arc::new(failure)), SmallVec::new()),
                };
                self.owner.on_have(&object, value, contains, &mut self.effects);
            }
            Peer::Missing { object, bulk } => self.on_missing(env, from, &object, bulk),
            Peer::FreePlace(place) => self.free_given_place(env, place),
            Peer::Given(gift) => {
                if !self.dead.contains(&gift.to) {
                    gift.objects.iter().for_each(|id| self.owner.on_shares(id, gift.to, 1, &mut self.effects));
                    self.gifts.on_given(from, gift);
                }
            }
            Peer::CountGifts { from: giver } => {
                let count = self.gifts.count(giver);
                self.relay(env, from, Peer::GiftsCounted { from: giver, count });
            }
            Peer::GiftsCounted { from: giver, count } => self.on_counted(giver, from, count),
            Peer::Borrowed { object, borrower, count } => {
                if !self.dead.contains(&borrower) {
                    self.owner.on_shares(&object, borrower, count, &mut self.effects);
                }
            }
        }
    }

    /// The node knows no such process any more.
    pub(crate) fn on_undeliverable(&mut self, to: ProcId, message: &Peer) {
        self.dead.insert(to);
        if let Peer::Want { .. } | Peer::Missing { .. } = message {
            self.owner.on_process_gone(to, &mut self.effects);
        }
    }
}
