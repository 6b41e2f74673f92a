//! References that cross processes, as the real body sends them: inside arguments and values, kept beyond a call, read from afar.
//! What one process says to another about them goes through the node, beside the rings and slower.

use std::sync::Arc;

use model::{Bulk, Failure, ObjectId, Place, ProcId, TaskKey};
use owner::{Gift, Slot, Value};
use smallvec::SmallVec;

use crate::env::Env;
use crate::keeper::{Answer, Sent, Testimony};
use crate::large::Content;
use crate::process::{Process, Role, ToNode};

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
        /// See `Frame::Reply`.
        known: u16,
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
    /// To a worker: nobody wants this call of the sender's any more.
    Interrupt {
        key: TaskKey,
    },
    /// To the heir of a dead process: what came of a call of its.
    Reply {
        caller: ProcId,
        key: TaskKey,
        known: u16,
        answer: Answer,
    },
    Testimony {
        of: ProcId,
        testimony: Testimony,
    },
    Settle {
        of: ProcId,
    },
    Settled {
        of: ProcId,
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
            let owner = ProcId::from_u64(u64::from_le_bytes(owner.try_into().expect("eight bytes"))).expect("a name");
            Ref { id: ObjectId(id.try_into().expect("an id")), owner }
        };
        Self { number: u64::from_le_bytes(*number), refs: rest.chunks_exact(REF_BYTES).map(to_ref).collect() }
    }
}

impl Process {
    /// A name that the node may not know that this process knows.
    pub(crate) fn meet(&mut self, env: &mut Env, name: ProcId) {
        let is_known = name == self.pid.1 || self.dead.contains(&name) || self.heirs.get(name).is_some();
        if !is_known && self.met.insert(name) {
            env.tell_node(self.pid, ToNode::Met { name });
        }
    }

    /// The reference will be named to another process.
    pub(crate) fn escape(&mut self, env: &mut Env, slot: Slot) -> Option<Ref> {
        let object = self.owner.object(slot)?;
        let reference = Ref { id: object.id, owner: object.owner.unwrap_or(self.pid.1) };
        self.owner.on_given_away(slot, &mut self.effects);
        env.oracle.handled(self.pid, reference.id);
        Some(reference)
    }

    /// A reference came with a call: the caller holds it until the reply.
    pub(crate) fn borrow_for_call(&mut self, env: &mut Env, reference: &Ref) -> Slot {
        env.oracle.handled(self.pid, reference.id);
        self.meet(env, self.heirs.living(reference.owner));
        let slot = self.owner.on_borrowed(reference.id, self.owner_named(reference.owner), 0);
        self.owner.on_call_begins(slot);
        slot
    }

    /// A value goes into another process's ring. Returns whether it is a gift.
    pub(crate) fn give_shares(&mut self, env: &mut Env, refs: &[Ref], to: ProcId) -> bool {
        if self.dead.contains(&to) {
            return false;
        }
        let is_ours = |reference: &&Ref| self.owner_named(reference.owner).is_none();
        let (ours, others): (Vec<Ref>, Vec<Ref>) = refs.iter().partition(is_ours);
        for Ref { id, .. } in ours {
            self.owner.on_shares(&id, to, 1, &mut self.effects);
        }
        let number = self.gifts.next(to);
        for Ref { id, owner } in &others {
            self.relay(env, self.heirs.living(*owner), Peer::Given(Gift { to, number, objects: vec![*id] }));
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
            self.lend(env, self.heirs.living(*owner), *id, to, 1);
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

    /// References inside a value that is ours from now on; whoever sent it has registered a share of each for us.
    pub(crate) fn take_contained(&mut self, env: &mut Env, sent: Sent, refs: &[Ref]) -> SmallVec<[Slot; 0]> {
        let mut slots = SmallVec::new();
        for Ref { id, owner } in refs {
            env.oracle.handled(self.pid, *id);
            self.meet(env, self.heirs.living(*owner));
            let living = self.owner_named(*owner);
            let slot = self.owner.on_contained(*id, living, i32::from(!sent.is_to_the_dead));
            slots.push(slot);
            // What was registered for a dead process its owner tells the heir of.
            if sent.is_to_the_dead {
                continue;
            }
            // We may know it under the name of an owner that the sender knew to be dead.
            match self.owner.object(slot).and_then(|object| object.owner) {
                Some(named) => {
                    if let Some(heir) = self.heirs.on_share((*id, named), *owner, sent.known) {
                        self.relay(env, heir, Peer::Borrowed { object: *id, borrower: self.pid.1, count: 1 });
                    }
                }
                None if self.heirs.is_outdated(*owner, sent.known) => {}
                None => self.owner.on_shares(id, self.pid.1, -1, &mut self.effects),
            }
        }
        slots
    }

    /// A value of ours that somebody wanted.
    pub(crate) fn answer_want(&mut self, env: &mut Env, to: ProcId, object: ObjectId, value: &Value) {
        let answer = Content::of(value);
        let refs = answer.as_ref().map_or_else(|_| Vec::new(), |content| self.refs_in(env, content));
        self.register_shares(env, &refs, to);
        self.relay(env, to, Peer::Have { object, answer, refs, known: self.heirs.known() });
    }

    pub(crate) fn relay(&self, env: &mut Env, to: ProcId, message: Peer) {
        env.tell_node(self.pid, ToNode::Relay { to, message });
    }

    pub(crate) fn on_peer(&mut self, env: &mut Env, from: ProcId, message: Peer) {
        match message {
            Peer::Want { object } if matches!(self.role, Role::Keeper) && self.owner.slot_of(&object).is_none() => {
                let (answer, known) = (Err(Failure::OwnerDied), self.heirs.known());
                self.relay(env, from, Peer::Have { object, answer, refs: Vec::new(), known });
            }
            Peer::Want { object } => self.owner.on_wanted(&object, from, &mut self.effects),
            Peer::Have { object, answer, refs, known } => {
                let sent = Sent { by: from, known, is_to_the_dead: false };
                let (value, contains) = match answer {
                    Ok(content) => (content.to_value(), self.take_contained(env, sent, &refs)),
                    Err(failure) => (Value::Failed(Arc::new(failure)), SmallVec::new()),
                };
                self.owner.on_have(&object, value, contains, &mut self.effects);
            }
            Peer::Missing { object, bulk } => self.on_missing(env, from, object, bulk),
            Peer::Interrupt { key } => self.on_interrupt(env, from, key),
            Peer::FreePlace(place) => self.free_given_place(env, place),
            Peer::Given(gift) => {
                let to = gift.to;
                self.meet(env, to);
                let is_counted = |id: &ObjectId| self.on_told_of_shares(env, from, *id, to, 1) == Some(to);
                let objects: Vec<ObjectId> = gift.objects.into_iter().filter(is_counted).collect();
                if !objects.is_empty() {
                    self.gifts.on_given(from, Gift { objects, ..gift });
                }
            }
            Peer::CountGifts { from: giver } => {
                let count = self.gifts.count(giver);
                self.relay(env, from, Peer::GiftsCounted { from: giver, count });
            }
            Peer::GiftsCounted { from: giver, count } => self.on_counted(giver, from, count),
            Peer::Borrowed { object, borrower, count } => {
                self.meet(env, borrower);
                self.on_told_of_shares(env, from, object, borrower, count);
            }
            Peer::Reply { caller, key, known, answer } => {
                let is_to_the_dead = self.heirs.is_outdated(caller, known);
                let sent = Sent { by: from, known, is_to_the_dead };
                self.on_orphan_reply(env, sent, (caller, key), answer);
            }
            Peer::Testimony { of, testimony } => self.on_testimony(env, from, of, testimony),
            Peer::Settle { of } => self.on_settle(env, of, from),
            Peer::Settled { of } => self.on_settled(env, from, of),
        }
    }

    /// The node knows no such process any more.
    pub(crate) fn on_undeliverable(&mut self, to: ProcId, message: &Peer) {
        self.dead.insert(to);
        // What we hold and want we have told its heir already.
        if self.heirs.get(to).is_some() {
            return;
        }
        if let Peer::Want { .. } | Peer::Missing { .. } = message {
            self.owner.on_process_gone(to, &mut self.effects);
        }
    }
}
