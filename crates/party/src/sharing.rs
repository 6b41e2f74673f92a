//! Who is counted for shares of which objects: what is told to their owners, and what they are told.

use model::{ObjectId, ProcId};
use owner::{Claim, Counts, Gift, Kept, Known};
use rustc_hash::FxHashMap;
use wire::journal::Ref;
use wire::peer::{Peer, Shares, Testimony};

use crate::{Body, Party};

/// References in one message.
pub(crate) const REFS_MAX: usize = 1_000_000;

/// Who is to be told of the references that go with a value.
#[derive(Default)]
pub(crate) struct Sharing {
    pub(crate) ours: Vec<ObjectId>,
    others: FxHashMap<ProcId, Vec<ObjectId>>,
}

impl Sharing {
    pub(crate) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = (ProcId, &[ObjectId])> {
        self.others.iter().map(|(owner, objects)| (*owner, &objects[..]))
    }

    /// What the owners are told, in messages of a bearable length.
    pub(crate) fn messages(&self, say: impl Fn(&[ObjectId]) -> Peer) -> Vec<(ProcId, Peer)> {
        let parts = self.others.iter().flat_map(|(owner, objects)| objects.chunks(REFS_MAX).map(|part| (*owner, part)));
        parts.map(|(owner, objects)| (owner, say(objects))).collect()
    }
}

pub(crate) fn borrowed(objects: &[ObjectId], borrower: ProcId) -> Peer {
    Peer::Borrowed(objects.iter().map(|object| Shares { object: *object, borrower, count: 1 }).collect())
}

impl<P> Party<P> {
    pub(crate) fn sharing(&self, refs: &[Ref]) -> Sharing {
        let mut sharing = Sharing::default();
        for (object, owner) in refs {
            match self.other_owner(*owner) {
                None => sharing.ours.push(*object),
                Some(owner) => sharing.others.entry(owner).or_default().push(*object),
            }
        }
        sharing
    }

    pub(crate) fn lend_ours(&mut self, sharing: &Sharing, to: ProcId) {
        let Self { owner, effects, .. } = self;
        sharing.ours.iter().for_each(|object| owner.on_shares(object, to, 1, effects));
    }

    /// The owner, which may be this process, is told that somebody holds more or fewer shares.
    pub(crate) fn tell_of_shares(&mut self, owner: ProcId, object: ObjectId, borrower: ProcId, count: i32) {
        let borrower = if count < 0 { self.me } else { borrower };
        if owner == self.me {
            self.owner.on_shares(&object, borrower, count, &mut self.effects);
        } else {
            self.words.add_shares(owner, Shares { object, borrower, count });
        }
    }

    /// A process says who holds more or fewer shares of our objects.
    pub(crate) fn on_borrowed(&mut self, body: &mut impl Body<Pin = P>, sender: ProcId, shares: Vec<Shares>) {
        for shares in shares {
            self.meet(body, shares.borrower);
            if let Some(borrower) = self.who_borrows(body, sender, shares) {
                self.owner.on_shares(&shares.object, borrower, shares.count, &mut self.effects);
            }
        }
    }

    /// For whom a share of our object counts that was registered for this borrower.
    fn who_borrows(&self, body: &mut impl Body<Pin = P>, sender: ProcId, shares: Shares) -> Option<ProcId> {
        let Shares { object, borrower, count } = shares;
        let claim = Claim { sender, object, borrower, is_dead: self.dead.has(borrower) };
        match self.keeping.who_borrows(claim, self.me, &self.heirs) {
            Counts::Nobody => None,
            Counts::For(process) => Some(process),
            Counts::ForHeir(heir) => {
                let (of, lent) = (borrower, vec![(object, count)]);
                let more = Testimony { of, held: vec![], lent, serving: vec![], given: vec![], is_last: false };
                body.relay(heir, Peer::Testimony(more));
                Some(heir)
            }
        }
    }

    /// A giver says what it is about to give to somebody.
    pub(crate) fn on_given(&mut self, body: &mut impl Body<Pin = P>, giver: ProcId, mut gift: Gift) {
        let to = gift.to;
        self.meet(body, to);
        gift.objects.retain(|object| {
            let shares = Shares { object: *object, borrower: to, count: 1 };
            let Some(borrower) = self.who_borrows(body, giver, shares) else { return false };
            self.owner.on_shares(object, borrower, 1, &mut self.effects);
            borrower == to
        });
        if !gift.objects.is_empty() {
            self.gifts.on_given(giver, gift);
        }
    }

    /// A process is dead. What it told us that it would give it may not have given.
    pub(crate) fn giver_died(&mut self, body: &mut impl Body<Pin = P>, giver: ProcId) {
        match self.gifts.on_process_gone(giver) {
            None => {}
            Some(taker) if taker == self.me => self.on_counted(giver, taker, self.gifts.count(giver)),
            Some(taker) => body.relay(taker, Peer::CountGifts { from: giver }),
        }
    }

    /// The taker says how many gifts of a dead process have come.
    pub(crate) fn on_counted(&mut self, giver: ProcId, taker: ProcId, count: u64) {
        let Some(lost) = self.gifts.on_counted(giver, taker, count) else { return };
        let Self { owner, effects, .. } = self;
        lost.objects.iter().for_each(|object| owner.on_shares(object, taker, -1, effects));
    }

    /// The taker is asked how many gifts of a dead process have come. One that has not heard of that death may not have got all of them: it
    /// answers when it has.
    pub(crate) fn count_gifts(&mut self, body: &mut impl Body<Pin = P>, asker: ProcId, from: ProcId) {
        if self.dead.has(from) {
            body.relay(asker, Peer::GiftsCounted { from, count: self.gifts.count(from) });
        } else {
            self.meet(body, from);
            self.asked_too_early.push((asker, from));
        }
    }

    /// A process is dead, and all its gifts have come: whoever has asked how many is told.
    pub(crate) fn answer_count(&mut self, body: &mut impl Body<Pin = P>, from: ProcId) {
        for (asker, _) in self.asked_too_early.extract_if(.., |(_, of)| *of == from) {
            body.relay(asker, Peer::GiftsCounted { from, count: self.gifts.count(from) });
        }
    }

    /// A gift has come out of this process's ring.
    #[inline]
    pub fn on_gift_came(&mut self, from: ProcId) {
        self.gifts.on_came(from);
    }

    /// Somebody who knew this of its owner keeps a reference beyond its call.
    pub(crate) fn note_kept(&mut self, body: &mut impl Body<Pin = P>, known: Known, kept: Kept) {
        let Some(Kept { id, owner, borrower }) = self.heirs.on_kept(known, kept, &mut self.owner) else { return };
        self.meet(body, owner);
        self.meet(body, borrower);
        // Nobody would ever give back what is counted for the dead.
        if !self.dead.has(borrower) {
            let owner = (owner != self.me).then_some(owner);
            self.owner.on_kept_by(&id, owner, borrower, &mut self.effects);
        }
    }

    /// Nobody else will: who was to be told that these are kept is gone, or cannot be told.
    pub(crate) fn tell_owners(&self, body: &mut impl Body<Pin = P>, kept: &[Kept]) {
        for Kept { id, owner, borrower } in kept {
            let shares = Shares { object: *id, borrower: *borrower, count: 1 };
            body.relay(self.heirs.living(*owner), Peer::Borrowed(vec![shares]));
        }
    }
}
