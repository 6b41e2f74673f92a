//! A process that we had to do with is dead, and another one takes over what it has left: what that one must hear from us.
//!
//! Everyone testifies once for each dead process: what it holds of the dead one's objects, what it had lent to it, which of its calls it
//! will answer, which values lie in its memory. From then on the heir stands for the dead one, wherever that is named.
//!
//! A reference may be on its way while the two ends of its way testify. So the heir, when all have, asks everyone to take up what has come
//! in, and whoever finds such a reference claims a share of it; only then does the heir let go of what nobody holds.

use model::ProcId;
use owner::{Claim, Counts, Heard, Kept, Late, Legacy};
use store::Place;
use wire::frame::{GIFT, REPLY};
use wire::journal::Ref;
use wire::peer::{Peer, Shares, Testimony};

use crate::Runtime;
use crate::link::Link;
use crate::state::State;

/// References in one message.
const PART_MAX: usize = 50_000;

impl Runtime {
    /// The calls of a dead process that have come in: nobody can take them back any more. Those that were are dropped.
    pub(crate) fn claim_calls(&self, state: &mut State, of: ProcId) {
        let State { incoming, links, .. } = state;
        let Some(link) = links.get(of) else { return };
        incoming.retain_mut(|call| {
            if call.peer == of && !call.is_claimed {
                call.is_claimed = link.start(call.claim);
                return call.is_claimed;
            }
            true
        });
    }

    /// Replies that the dead process has never read go to its heir.
    pub(crate) fn salvage(&self, link: &mut Link, heir: ProcId) {
        for (header, body) in link.unread(&self.store) {
            if header.kind != REPLY {
                continue;
            }
            let (caller, request, flags, known) = (link.peer(), header.request, header.flags & !GIFT, header.claim);
            self.relay(heir, Peer::Reply { caller, request, flags, known, body });
        }
        // Which references are kept stands in those replies.
        drop(link.take_untold());
    }

    /// Tells the heir all that we had to do with the dead.
    pub(crate) fn testify(&self, state: &mut State, of: ProcId, heir: ProcId) {
        let Heard { counted, astray } = state.heirs.on_death(of, heir);
        let Legacy { held, lent } = state.owner.on_owner_replaced(of, heir, counted, &mut state.effects);
        let running = state.running.values().filter(|(caller, _)| *caller == of);
        let mut serving: Vec<u64> = running.map(|(_, request)| *request).collect();
        serving.extend(state.incoming.iter().filter(|call| call.peer == of).map(|call| call.request));
        serving.extend(state.heirs.replies_waiting(of));
        let mut given: Vec<Place> = Vec::new();
        for (to, place) in state.given.values_mut() {
            if *to == of {
                *to = heir;
                given.push(*place);
            }
        }
        let mut parts: Vec<Testimony> = Vec::new();
        let part = || Testimony { of, held: vec![], lent: vec![], serving: vec![], given: vec![], is_last: false };
        parts.extend(held.chunks(PART_MAX).map(|held| Testimony { held: held.to_vec(), ..part() }));
        parts.extend(lent.chunks(PART_MAX).map(|lent| Testimony { lent: lent.to_vec(), ..part() }));
        parts.extend(given.chunks(PART_MAX).map(|given| Testimony { given: given.to_vec(), ..part() }));
        parts.push(Testimony { serving, is_last: true, ..part() });
        parts.into_iter().for_each(|part| self.relay(heir, Peer::Testimony(part)));
        for object in astray {
            self.relay(heir, Peer::Borrowed(vec![Shares { object, borrower: self.me, count: 1 }]));
        }
        self.count_late(state);
    }

    /// One more death is known: what was said by those who had heard of it before us may be counted now.
    pub(crate) fn count_late(&self, state: &mut State) {
        for Late { known, kept, slot } in state.heirs.take_late() {
            self.note_kept(state, known, kept);
            slot.into_iter().for_each(|slot| state.owner.on_handle_dropped(slot, &mut state.effects));
        }
    }

    /// All have testified, so what was registered with the dead has come in by now. What is found there is claimed.
    pub(crate) fn on_settle(&self, state: &mut State, of: ProcId, heir: ProcId) {
        for at in state.links.places() {
            self.drain_link(state, at);
        }
        self.apply(state);
        self.relay(heir, Peer::Settled { of });
    }

    /// A share of another process's object came in, from somebody who knew of so many deaths. `owner`: whom the sender took for its owner,
    /// which may be the heir of whom we take for it.
    #[inline]
    pub(crate) fn note_share(&self, state: &mut State, share: Ref, owner: ProcId, known: u16) {
        if let Some(heir) = state.heirs.on_share(share, owner, known) {
            self.relay(heir, Peer::Borrowed(vec![Shares { object: share.0, borrower: self.me, count: 1 }]));
        }
    }

    /// Somebody who knew of so many deaths keeps a reference beyond its call.
    pub(crate) fn note_kept(&self, state: &mut State, known: u16, kept: Kept) {
        let Some(Kept { id, owner, borrower }) = state.heirs.on_kept(known, kept, &mut state.owner) else { return };
        if !state.dead.contains_key(&borrower) {
            state.owner.on_kept_by(&id, (owner != self.me).then_some(owner), borrower, &mut state.effects);
        }
    }

    /// For whom a share of our object counts that was registered for this borrower.
    pub(crate) fn who_borrows(&self, state: &State, sender: ProcId, shares: Shares) -> Option<ProcId> {
        let Shares { object, borrower, count } = shares;
        let claim = Claim { sender, object, borrower, is_dead: state.dead.contains_key(&borrower) };
        match state.keeping.who_borrows(claim, self.me, &state.heirs) {
            Counts::Nobody => None,
            Counts::For(process) => Some(process),
            Counts::ForHeir(heir) => {
                let (of, lent) = (borrower, vec![(object, count)]);
                let more = Testimony { of, held: vec![], lent, serving: vec![], given: vec![], is_last: false };
                self.relay(heir, Peer::Testimony(more));
                Some(heir)
            }
        }
    }
}
