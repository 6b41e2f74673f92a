//! A process that we had to do with is dead, and another one takes over what it has left: what that one must hear from us.
//!
//! Everyone testifies once for each dead process: what it holds of the dead one's objects, what it had lent to it, which of its calls it
//! will answer, which values lie in its memory. From then on the heir stands for the dead one, wherever that is named.
//!
//! A reference may be on its way while the two ends of its way testify. So the heir, when all have, asks everyone to take up what has come
//! in, and whoever finds such a reference claims a share of it; only then does the heir let go of what nobody holds.

use model::{ObjectId, ProcId};
use owner::{Kept, Legacy};
use rustc_hash::{FxHashMap, FxHashSet};
use store::Place;
use wire::frame::{FAR, GIFT, REPLY};
use wire::journal::Ref;
use wire::peer::{Peer, Shares, Testimony};

use crate::Runtime;
use crate::link::Link;
use crate::state::State;

/// What differs between two who know of different deaths is settled with the next one: older entries are of no use.
const ASTRAY_MAX: usize = 4096;

/// References in one message.
const PART_MAX: usize = 50_000;

/// Who stands for whom.
///
/// Everyone counts the processes that have died and left something, and says with each message that gives references away how many it knew
/// of: whoever gets the message can tell whether the sender had registered those references with the dead owner or with its heir.
#[derive(Default)]
pub(crate) struct Heirs {
    /// Who stands for it, and the how-manieth death it was.
    of: FxHashMap<ProcId, (ProcId, u16)>,
    pub(crate) known: u16,
    /// References from senders who knew of more deaths than we did: they may have been registered with an heir.
    early: Vec<(u16, ProcId, ObjectId)>,
    /// References that we hold under an heir's name, from senders who took another process for their owner.
    astray: Vec<(u16, ProcId, ObjectId)>,
    /// References that others keep, who knew of more deaths than we did.
    late: Vec<(u16, Kept)>,
    /// Replies that wait for room, by caller and request.
    unsent: FxHashSet<(ProcId, u64)>,
}

/// Whether one count of deaths is older than another. They wrap round.
fn is_older(one: u16, other: u16) -> bool {
    (one.wrapping_sub(other) as i16) < 0
}

impl Heirs {
    pub(crate) fn new(of: impl IntoIterator<Item = (ProcId, ProcId)>, known: u16) -> Self {
        Self { of: of.into_iter().map(|(of, heir)| (of, (heir, known))).collect(), known, ..Self::default() }
    }

    /// Who answers for this process: itself, if it lives or left nothing.
    #[inline]
    pub(crate) fn living(&self, process: ProcId) -> ProcId {
        if self.of.is_empty() { process } else { self.of.get(&process).map_or(process, |(heir, _)| *heir) }
    }

    #[inline]
    pub(crate) fn get(&self, process: ProcId) -> Option<ProcId> {
        if self.of.is_empty() { None } else { self.of.get(&process).map(|(heir, _)| *heir) }
    }

    pub(crate) fn insert(&mut self, of: ProcId, heir: ProcId) {
        self.known = self.known.wrapping_add(1);
        self.of.insert(of, (heir, self.known));
    }

    /// Whether somebody who knew of so many deaths took this process to be alive, which is dead.
    #[inline]
    pub(crate) fn is_outdated(&self, process: ProcId, known: u16) -> bool {
        !self.of.is_empty() && self.of.get(&process).is_some_and(|(_, number)| is_older(known, *number))
    }

    /// A share of this object came from somebody who knew of so many deaths.
    #[inline]
    fn note_early(&mut self, owner: ProcId, id: ObjectId, known: u16) {
        if is_older(self.known, known) {
            self.early.push((known, owner, id));
        }
    }

    /// Which shares of this process's objects, which has just died, were registered with its heir.
    fn take_early(&mut self, of: ProcId) -> FxHashMap<ObjectId, i32> {
        let mut counted = FxHashMap::default();
        let number = self.known;
        for (known, owner, id) in &self.early {
            if *owner == of && !is_older(*known, number) {
                *counted.entry(*id).or_default() += 1;
            }
        }
        self.early.retain(|(known, owner, _)| *owner != of && is_older(number, *known));
        counted
    }

    fn note_astray(&mut self, owner: ProcId, id: ObjectId, known: u16) {
        if self.astray.len() == ASTRAY_MAX {
            self.astray.drain(..ASTRAY_MAX / 2);
        }
        self.astray.push((known, owner, id));
    }

    /// Which shares of this process's objects, which has just died, we hold under its heir's name and nobody has told the heir of.
    fn take_astray(&mut self, of: ProcId) -> Vec<ObjectId> {
        let number = self.known;
        let is_lost = |(known, owner, _): &(u16, ProcId, ObjectId)| *owner == of && is_older(*known, number);
        let lost = self.astray.iter().filter(|entry| is_lost(entry)).map(|(_, _, id)| *id).collect();
        self.astray.retain(|(_, owner, _)| *owner != of);
        lost
    }

    /// A reply waits for room.
    pub(crate) fn reply_waits(&mut self, caller: ProcId, request: u64) {
        self.unsent.insert((caller, request));
    }

    pub(crate) fn reply_went(&mut self, caller: ProcId, request: u64) {
        self.unsent.remove(&(caller, request));
    }
}

impl Runtime {
    /// The calls of a dead process that have come in: nobody can take them back any more. Those that were are dropped.
    pub(crate) fn claim_calls(&self, state: &mut State, of: ProcId) {
        let State { incoming, link_of, links, .. } = state;
        let Some(link) = link_of.get(&of).and_then(|at| links[*at].as_mut()) else { return };
        incoming.retain_mut(|call| {
            if call.peer == of && !call.is_claimed {
                call.is_claimed = link.rings.their_claims.start(call.claim, call.word);
                return call.is_claimed;
            }
            true
        });
    }

    /// Replies that the dead process has never read go to its heir.
    pub(crate) fn salvage(&self, link: &mut Link, heir: ProcId) {
        for (header, mut body) in link.rings.writer.unread() {
            if header.kind != REPLY {
                continue;
            }
            if header.flags & FAR != 0 {
                let place = wire::frame::read_place(&mut wire::Reader::new(&body));
                let Some(view) = place.ok().and_then(|place| self.store.pin(place).ok()) else { continue };
                body = view.as_slice().to_vec();
            }
            let (caller, request, flags, known) =
                (link.peer, header.request, header.flags & !(FAR | GIFT), header.claim);
            self.relay(heir, Peer::Reply { caller, request, flags, known, body });
        }
        // Which references are kept stands in those replies.
        drop(link.take_untold());
    }

    /// Tells the heir all that we had to do with the dead.
    pub(crate) fn testify(&self, state: &mut State, of: ProcId, heir: ProcId) {
        state.heirs.insert(of, heir);
        let counted = state.heirs.take_early(of);
        let Legacy { held, lent } = state.owner.on_owner_replaced(of, heir, counted, &mut state.effects);
        let running = state.running.values().filter(|(caller, _)| *caller == of);
        let mut serving: Vec<u64> = running.map(|(_, request)| *request).collect();
        serving.extend(state.incoming.iter().filter(|call| call.peer == of).map(|call| call.request));
        let unsent = state.heirs.unsent.iter().filter(|(caller, _)| *caller == of);
        serving.extend(unsent.map(|(_, request)| *request));
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
        for object in state.heirs.take_astray(of) {
            self.relay(heir, Peer::Borrowed(vec![Shares { object, borrower: self.me, count: 1 }]));
        }
        for (known, kept) in std::mem::take(&mut state.heirs.late) {
            self.note_kept(state, known, kept);
        }
    }

    /// All have testified, so what was registered with the dead has come in by now. What is found there is claimed.
    pub(crate) fn on_settle(&self, state: &mut State, of: ProcId, heir: ProcId) {
        for at in 0..state.links.len() {
            if state.links[at].is_some() {
                self.drain_link(state, at);
            }
        }
        self.apply(state);
        self.relay(heir, Peer::Settled { of });
    }

    /// A share of another process's object came in, from somebody who knew of so many deaths. If it was registered with nobody but the dead
    /// owner, the heir is told. `owner`: whom the sender took for its owner, which may be the heir of whom we take for it.
    #[inline]
    pub(crate) fn note_share(&self, state: &mut State, (id, named): Ref, owner: ProcId, known: u16) {
        if state.heirs.is_outdated(owner, known) {
            let heir = state.heirs.living(owner);
            self.relay(heir, Peer::Borrowed(vec![Shares { object: id, borrower: self.me, count: 1 }]));
        }
        state.heirs.note_early(named, id, known);
        // They differ only while one of us has not heard of a death.
        if named != state.heirs.living(owner) {
            state.heirs.note_astray(owner, id, known);
        }
    }

    /// Somebody who knew of so many deaths keeps a reference beyond its call. If its owner is dead since, it has testified itself.
    pub(crate) fn note_kept(&self, state: &mut State, known: u16, kept: Kept) {
        if is_older(state.heirs.known, known) {
            return state.heirs.late.push((known, kept));
        }
        if state.heirs.is_outdated(kept.owner, known) || state.dead.contains_key(&kept.borrower) {
            return;
        }
        let owner = state.heirs.living(kept.owner);
        state.owner.on_kept_by(&kept.id, (owner != self.me).then_some(owner), kept.borrower, &mut state.effects);
    }

    /// For whom a share of our object counts that was registered for this borrower. Nobody, if that is dead and left nothing.
    pub(crate) fn who_borrows(&self, state: &State, sender: ProcId, shares: Shares) -> Option<ProcId> {
        let Shares { object, borrower, count } = shares;
        if self.is_keeper && self.will_testify(state, sender, &object) {
            return None;
        }
        match state.heirs.get(borrower) {
            // We hold for it what it held, until all is settled.
            Some(heir) if heir == self.me => self.is_open_estate(state, borrower).then_some(borrower),
            Some(heir) => {
                // Too late for our testimony.
                let of = borrower;
                let lent = vec![(object, count)];
                let more = Testimony { of, held: vec![], lent, serving: vec![], given: vec![], is_last: false };
                self.relay(heir, Peer::Testimony(more));
                Some(heir)
            }
            None => (!state.dead.contains_key(&borrower)).then_some(borrower),
        }
    }
}
