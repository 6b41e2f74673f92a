//! Links that come and go: rings to a peer are made when one of the two is going to call, and taken back when nothing moves on them.
//!
//! - **LINK-2**, this side: an end says that nothing is under way only if none of its calls is, and sends none from then on until the node
//!   has decided. It goes on reading and replying: if the peer sent a call meanwhile, the two ends' counts differ and the link stays.

use std::sync::atomic::Ordering;

use model::{ProcId, TaskKey};
use wire::control::{Quiet, Rings, ToNode};

use crate::Runtime;
use crate::link::{Gate, Link};
use crate::state::State;

impl Runtime {
    /// A call for a process that we have no link to waits for one.
    #[cold]
    pub(crate) fn want_link(&self, state: &mut State, key: TaskKey, peer: ProcId) {
        if state.dead.has(peer) {
            return;
        }
        let waiting = state.unlinked.entry(peer).or_default();
        waiting.push_back(key);
        if waiting.len() == 1 {
            self.send(&ToNode::WantLink { peer });
        }
    }

    /// We have come across a process. The node knows of those that it links us to and whose messages it brings us; of others it is told
    /// once, so that we hear of their deaths. One that has left something when it died was told of to all.
    #[inline]
    pub(crate) fn meet(&self, state: &mut State, name: ProcId) {
        if name != self.me && !state.met.contains(&name) {
            self.meet_first(state, name);
        }
    }

    #[cold]
    fn meet_first(&self, state: &mut State, name: ProcId) {
        if !state.dead.has(name) && state.heirs.get(name).is_none() {
            state.met.insert(name);
            self.send(&ToNode::Met { name });
        }
    }

    pub(crate) fn on_linked(&self, state: &mut State, peer: ProcId, rings: Rings) {
        state.met.insert(peer);
        if state.link_of.contains_key(&peer) {
            return;
        }
        let at = state.add_link(Link::new(&self.segment, peer, rings));
        // First: what comes in may lead to calls that were made later.
        for key in state.unlinked.remove(&peer).unwrap_or_default() {
            self.push(state, key, peer);
        }
        // Frames may have come before we knew the ring; their bit was cleared unseen.
        self.drain_link(state, at);
    }

    /// The node asks whether the link may be closed.
    pub(crate) fn on_may_unlink(&self, state: &mut State, peer: ProcId) {
        let quiet = self.quiet(state, peer);
        if quiet.is_some()
            && let Some((_, link)) = state.link(peer)
        {
            link.gate = Gate::Held;
        }
        self.send(&ToNode::Idle { peer, quiet });
    }

    /// How far the link is, if nothing is under way on it as far as we know. A call of the peer's that runs here is known to the peer.
    fn quiet(&self, state: &mut State, peer: ProcId) -> Option<Quiet> {
        let (at, _) = state.link(peer)?;
        // What came in may lead to more calls.
        self.drain_link(state, at);
        self.apply(state);
        let is_expected = state.incoming.iter().any(|incoming| incoming.peer == peer);
        let (_, link) = state.link(peer)?;
        let is_idle = link.gate == Gate::Open
            && !link.is_stalled()
            && link.rings.claims.in_use() == 0
            && !link.rings.reader.has_frame();
        (is_idle && !is_expected)
            .then(|| Quiet { written: link.rings.writer.written(), read: link.rings.reader.read() })
    }

    /// The link stays: what waited for the node's word goes out.
    pub(crate) fn on_keep(&self, state: &mut State, peer: ProcId) {
        let Some((at, link)) = state.link(peer) else { return };
        if link.gate != Gate::Held {
            return;
        }
        link.gate = Gate::Open;
        if !link.stalled.is_empty() {
            state.stalled.push(at);
            self.has_stalled.store(true, Ordering::Relaxed);
            self.push_all_stalled(state);
        }
    }

    /// The link is closed. Whatever was to be sent waits for the next one.
    pub(crate) fn on_unlink(&self, state: &mut State, peer: ProcId) {
        let Some(mut link) = state.take_link(peer) else { return };
        debug_assert!(
            link.gate == Gate::Held && link.rings.claims.in_use() == 0 && !link.rings.reader.has_frame(),
            "LINK-2: a link that is in use is closed"
        );
        // The peer has read everything.
        link.gate = Gate::Dead;
        link.free_far(&self.store);
        self.send(&ToNode::LinkClosed { peer });
        for key in std::mem::take(&mut link.stalled) {
            self.want_link(state, key, peer);
        }
    }
}
