//! What processes say to each other by way of the node, which carries it unread.

use model::ProcId;
use rustc_hash::FxHashMap;
use wire::control::FromNodeOf;

use crate::body::{Body, Step};
use crate::hub::Hub;

/// What others had to say to processes that have not joined yet, or that have let go of their end and are not known to be dead: who hears of
/// their death first knows whom to turn to.
pub(crate) struct Post<M> {
    held: FxHashMap<ProcId, Vec<(ProcId, M)>>,
}

impl<M> Default for Post<M> {
    fn default() -> Self {
        Self { held: FxHashMap::default() }
    }
}

impl<M> Post<M> {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn held_for(&self) -> impl Iterator<Item = &ProcId> {
        self.held.keys()
    }
}

impl<B: Body> Hub<B> {
    pub(crate) fn relay(&mut self, step: &mut Step<'_, B>, sender: ProcId, to: ProcId, message: B::Letter) {
        if !self.is_here(to) {
            return self.send_letter(step, sender, to, message);
        }
        match self.procs.get(to) {
            Some(proc) if proc.hears() => {
                self.meet(sender, to);
                step.body.tell(to, FromNodeOf::Relay { sender, message });
            }
            Some(_) => {
                self.meet(sender, to);
                self.post.held.entry(to).or_default().push((sender, message));
            }
            None => self.undeliverable(step, sender, to, message),
        }
    }

    fn undeliverable(&mut self, step: &mut Step<'_, B>, sender: ProcId, to: ProcId, message: B::Letter) {
        if self.is_here(sender) {
            self.tell(step, sender, FromNodeOf::Undeliverable { to, message });
        } else {
            self.return_abroad(step, sender, to, message);
        }
    }

    /// A process has joined.
    pub(crate) fn deliver_letters(&mut self, step: &mut Step<'_, B>, to: ProcId) {
        for (sender, message) in self.post.held.remove(&to).unwrap_or_default() {
            self.tell(step, to, FromNodeOf::Relay { sender, message });
        }
    }

    /// A process is dead, and everyone knows.
    pub(crate) fn return_letters(&mut self, step: &mut Step<'_, B>, to: ProcId) {
        for (sender, message) in self.post.held.remove(&to).unwrap_or_default() {
            self.undeliverable(step, sender, to, message);
        }
    }
}
