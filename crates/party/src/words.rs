//! What is said once the owner's effects are applied: shares that changed, then what is true only now.

use model::ProcId;
use rustc_hash::FxHashMap;
use wire::control::ToNode;
use wire::peer::{Peer, Shares};

use crate::Body;

/// Shares told of in one message.
const SHARES_MAX: usize = 50_000;

#[derive(Default)]
pub(crate) struct Words {
    /// There are some. Looked at after each event, so it is one look.
    has_some: bool,
    /// Shares that changed, by owner.
    shares: FxHashMap<ProcId, Vec<Shares>>,
    /// What is said behind that.
    behind: Vec<ToNode>,
}

impl Words {
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.has_some
    }

    pub(crate) fn add_shares(&mut self, owner: ProcId, shares: Shares) {
        self.has_some = true;
        self.shares.entry(owner).or_default().push(shares);
    }

    pub(crate) fn add(&mut self, message: ToNode) {
        self.has_some = true;
        self.behind.push(message);
    }

    /// Each owner is told of all shares that changed in one message.
    pub(crate) fn say(&mut self, body: &mut impl Body) {
        self.has_some = false;
        for (owner, shares) in self.shares.drain() {
            shares.chunks(SHARES_MAX).for_each(|shares| body.relay(owner, Peer::Borrowed(shares.to_vec())));
        }
        self.behind.drain(..).for_each(|message| body.tell_node(message));
    }
}
