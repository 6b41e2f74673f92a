//! A process is dead.

use model::{ProcId, WorkerExit};

use crate::{Body, Party};

impl<P> Party<P> {
    /// A process is gone; everything that it had published was taken up before, and the effects of that were applied. Its calls are lost now.
    ///
    /// `heir`: who takes over what it has left.
    ///
    /// tour(retry) 5: then what it never read is salvaged, and what it held is counted.
    pub fn on_peer_died(
        &mut self,
        body: &mut impl Body<Pin = P>,
        peer: ProcId,
        exit: &WorkerExit,
        heir: Option<ProcId>,
    ) {
        if !self.is_news(peer, heir) {
            return;
        }
        match heir {
            Some(_) => body.claim_calls(peer),
            None => body.drop_calls(peer),
        }
        self.giver_died(body, peer);
        body.reader_died(peer, exit);
        self.dead.note(peer);
        self.salvage(body, peer, heir);
        let unstarted = self.unstarted.remove(&peer).unwrap_or_default();
        let may_have_run = |ticket| !unstarted.contains(&ticket) && body.may_have_run(peer, ticket);
        self.owner.on_worker_died(peer, exit, may_have_run, &mut self.effects);
        body.close_link(peer);
        match heir {
            // What it had borrowed is held until all is settled.
            Some(heir) if heir == self.me => self.free_given(body, peer),
            Some(heir) => self.testify(body, peer, heir),
            None => {
                self.owner.on_process_gone(peer, &mut self.effects);
                self.free_given(body, peer);
            }
        }
        self.answer_count(body, peer);
        if self.is_keeper {
            self.witness_died(body, peer);
        }
    }
}
