//! Links that come and go: rings to a peer are made when one of the two is going to call, and taken back when nothing moves on them.
//!
//! - **LINK-2**, this side: an end says that nothing is under way only if none of its calls is, and sends none from then on until the node
//!   has decided. It goes on reading and replying: if the peer sent a call meanwhile, the two ends' counts differ and the link stays.

use std::sync::atomic::Ordering;

use model::{ProcId, TaskKey};
use net::Bell;
use net::segment::CARRIER_SLOT;
use wire::control::{Quiet, Rings, ToNode};

use crate::Runtime;
use crate::link::Link;
use crate::state::State;

impl Runtime {
    /// A call for a process that we have no link to waits for one.
    #[cold]
    pub(crate) fn want_link(&self, state: &mut State, key: TaskKey, peer: ProcId) {
        if state.party.is_dead(peer) {
            return;
        }
        if state.links.wait_for(peer, key) {
            self.send(&ToNode::WantLink { peer });
        }
    }

    /// What is rung when something was written for this process. Those of other nodes have one bell, the carrier's.
    fn bell_of(&self, peer: ProcId) -> Bell {
        if peer.node() == self.me.node() {
            return Bell::new(self.segment.clone(), peer.slot());
        }
        match self.carrier.get() {
            Some(event) => Bell::at_event(self.segment.clone(), CARRIER_SLOT, event.clone()),
            None => Bell::new(self.segment.clone(), CARRIER_SLOT),
        }
    }

    pub(crate) fn on_linked(&self, state: &mut State, peer: ProcId, rings: Rings) {
        state.party.has_met(peer);
        if state.links.get(peer).is_some() {
            return;
        }
        let at = state.links.add(Link::new(&self.segment, self.bell_of(peer), peer, rings));
        // First: what comes in may lead to calls that were made later.
        for key in state.links.take_waiting(peer) {
            self.push(state, key, peer);
        }
        // Frames may have come before we knew the ring; their bit was cleared unseen.
        self.drain_link(state, at);
    }

    /// The node asks whether the link may be closed.
    pub(crate) fn on_may_unlink(&self, state: &mut State, peer: ProcId) {
        let quiet = self.quiet(state, peer);
        if quiet.is_some()
            && let Some((_, link)) = state.links.to(peer)
        {
            link.hold();
        }
        self.send(&ToNode::Idle { peer, quiet });
    }

    /// How far the link is, if nothing is under way on it as far as we know. A call of the peer's that runs here is known to the peer.
    fn quiet(&self, state: &mut State, peer: ProcId) -> Option<Quiet> {
        let at = state.links.place_of(peer)?;
        // What came in may lead to more calls.
        self.drain_link(state, at);
        self.apply(state);
        let is_expected = state.serving.expects(peer);
        if is_expected { None } else { state.links.get(peer)?.quiet() }
    }

    /// The link stays: what waited for the node's word goes out.
    pub(crate) fn on_keep(&self, state: &mut State, peer: ProcId) {
        let Some((at, link)) = state.links.to(peer) else { return };
        if link.reopen() {
            state.links.note_stalled(at);
            self.has_stalled.store(true, Ordering::Relaxed);
            self.push_all_stalled(state);
        }
    }

    /// The link is closed. Whatever was to be sent waits for the next one.
    pub(crate) fn on_unlink(&self, state: &mut State, peer: ProcId) {
        let Some(mut link) = state.links.take(peer) else { return };
        debug_assert!(link.is_held() && !link.is_in_use(), "LINK-2: a link that is in use is closed");
        // The peer has read everything.
        link.bury(&self.store);
        self.send(&ToNode::LinkClosed { peer });
        for key in link.take_stalled() {
            self.want_link(state, key, peer);
        }
    }
}
