//! A process that we had to do with is dead, and another one takes over what it has left: what that one must hear from us.
//!
//! Everyone testifies once for each dead process: what it holds of the dead one's objects, what it had lent to it, which of its calls it
//! will answer, which values lie in its memory. From then on the heir stands for the dead one, wherever that is named.
//!
//! A reference may be on its way while the two ends of its way testify. So the heir, when all have, asks everyone to take up what has come
//! in, and whoever finds such a reference claims a share of it; only then does the heir let go of what nobody holds.

use model::{ObjectId, ProcId};
use owner::Legacy;
use rustc_hash::{FxHashMap, FxHashSet};
use store::Place;
use wire::frame::{FAR, REPLY};
use wire::peer::{Peer, Shares, Testimony};

use crate::Runtime;
use crate::link::Link;
use crate::state::State;

/// References in one message.
const PART_MAX: usize = 50_000;

/// Who stands for whom.
#[derive(Default)]
pub(crate) struct Heirs {
    of: FxHashMap<ProcId, ProcId>,
    /// Dead processes of whose objects a share that comes in must be claimed.
    unsettled: FxHashSet<ProcId>,
    /// Replies of which not all went out, by caller and request: where their values lie.
    unsent: FxHashMap<(ProcId, u64), Vec<u64>>,
}

impl Heirs {
    pub(crate) fn new(of: impl IntoIterator<Item = (ProcId, ProcId)>) -> Self {
        Self { of: of.into_iter().collect(), ..Self::default() }
    }

    /// Who answers for this process: itself, if it lives or left nothing.
    #[inline]
    pub(crate) fn living(&self, process: ProcId) -> ProcId {
        if self.of.is_empty() { process } else { self.of.get(&process).copied().unwrap_or(process) }
    }

    pub(crate) fn get(&self, process: ProcId) -> Option<ProcId> {
        self.of.get(&process).copied()
    }

    pub(crate) fn insert(&mut self, of: ProcId, heir: ProcId) {
        self.of.insert(of, heir);
        self.unsettled.insert(of);
    }

    pub(crate) fn settle(&mut self, of: ProcId) {
        self.unsettled.remove(&of);
    }

    /// Whether a share of this process's object that comes in must be claimed: who sent it may have told nobody but the dead.
    pub(crate) fn must_claim(&self, owner: ProcId) -> bool {
        !self.unsettled.is_empty() && self.unsettled.contains(&owner)
    }

    /// A reply waits for room. What it says of values in the arena is still to come.
    pub(crate) fn reply_waits(&mut self, caller: ProcId, request: u64, offsets: Vec<u64>) {
        self.unsent.insert((caller, request), offsets);
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
            let (caller, request, flags) = (link.peer, header.request, header.flags & !FAR);
            self.relay(heir, Peer::Reply { caller, request, flags, body });
        }
        // Which references are kept stands in those replies.
        drop(link.take_untold());
    }

    /// Tells the heir all that we had to do with the dead.
    pub(crate) fn testify(&self, state: &mut State, of: ProcId, heir: ProcId) {
        state.heirs.insert(of, heir);
        let Legacy { held, lent } = state.owner.on_owner_replaced(of, heir, &mut state.effects);
        let running = state.running.values().filter(|(caller, _)| *caller == of);
        let mut serving: Vec<u64> = running.map(|(_, request)| *request).collect();
        serving.extend(state.incoming.iter().filter(|call| call.peer == of).map(|call| call.request));
        let unsent: Vec<(u64, Vec<u64>)> = state
            .heirs
            .unsent
            .iter()
            .filter(|((caller, _), _)| *caller == of)
            .map(|(key, at)| (key.1, at.clone()))
            .collect();
        serving.extend(unsent.iter().map(|(request, _)| *request));
        let mut given: Vec<Place> = Vec::new();
        for (offset, (to, place)) in &mut state.given {
            if *to == of {
                *to = heir;
                if !unsent.iter().any(|(_, offsets)| offsets.contains(offset)) {
                    given.push(*place);
                }
            }
        }
        let mut parts: Vec<Testimony> = Vec::new();
        let part = || Testimony { of, held: vec![], lent: vec![], serving: vec![], given: vec![], is_last: false };
        parts.extend(held.chunks(PART_MAX).map(|held| Testimony { held: held.to_vec(), ..part() }));
        parts.extend(lent.chunks(PART_MAX).map(|lent| Testimony { lent: lent.to_vec(), ..part() }));
        parts.extend(given.chunks(PART_MAX).map(|given| Testimony { given: given.to_vec(), ..part() }));
        parts.push(Testimony { serving, is_last: true, ..part() });
        parts.into_iter().for_each(|part| self.relay(heir, Peer::Testimony(part)));
    }

    /// All have testified. What was sent before that has come in by now; what is found there is claimed.
    pub(crate) fn on_settle(&self, state: &mut State, of: ProcId, heir: ProcId) {
        for at in 0..state.links.len() {
            if state.links[at].is_some() {
                self.drain_link(state, at);
            }
        }
        self.apply(state);
        state.heirs.settle(of);
        self.relay(heir, Peer::Settled { of });
    }

    /// A share of this object came in. If nobody but its dead owner was told of that, its heir is.
    pub(crate) fn claim_if_unsettled(&self, state: &State, id: ObjectId, owner: ProcId) {
        if state.heirs.must_claim(owner) {
            let heir = state.heirs.living(owner);
            self.relay(heir, Peer::Borrowed(vec![Shares { object: id, borrower: self.me, count: 1 }]));
        }
    }
}
