//! Of whose deaths the node tells us (MEET-1).

use model::ProcId;
use wire::control::ToNode;

use crate::{Body, Party};

impl<P> Party<P> {
    /// We have come across a process. The node knows of those that it links us to and whose messages it brings us; of others it is told
    /// once, so that we hear of their deaths. One that has left something when it died was told of to all.
    #[inline]
    pub fn meet(&mut self, body: &mut impl Body<Pin = P>, name: ProcId) {
        if name != self.me && !self.met.contains(&name) {
            self.meet_first(body, name);
        }
    }

    #[cold]
    fn meet_first(&mut self, body: &mut impl Body<Pin = P>, name: ProcId) {
        if !self.dead.has(name) && self.heirs.get(name).is_none() {
            self.met.insert(name);
            body.tell_node(ToNode::Met { name });
        }
    }

    /// The node itself has brought the two of us together.
    pub fn has_met(&mut self, name: ProcId) {
        self.met.insert(name);
    }

    /// A death is told. False: it was told before, in answer to our saying that we know the name.
    pub(crate) fn is_news(&mut self, dead: ProcId, heir: Option<ProcId>) -> bool {
        let has_met = self.met.remove(&dead);
        has_met || heir.is_some() || !self.dead.has(dead)
    }
}
