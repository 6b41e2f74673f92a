//! What is kept of actors that are dead: a program may make any number of them.
//!
//! **OWN-6** a dead actor is known while a handle that keeps it alive is here or a call on it has not ended; of others, the latest deaths are
//! known. Whoever calls one that is forgotten has the node asked, which knows more of them.

use std::collections::VecDeque;

use model::ActorId;
use rustc_hash::FxHashSet;

use crate::{Hold, Owner, Target};

/// So many of those that nothing here refers to are known after they were gone through, and are gone through when twice as many are.
pub(crate) const DEAD_KEPT_MAX: usize = 512;

/// Actors that are dead and known.
#[derive(Default)]
pub(crate) struct Past {
    /// The latest death comes last.
    dead: VecDeque<ActorId>,
    /// Those of them that something referred to when they were gone through.
    needed: usize,
}

impl Past {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Owner {
    /// The actor has just died, and its calls have been told.
    pub(crate) fn callee_died(&mut self, actor: ActorId) {
        self.past.dead.push_back(actor);
        // Looking through all calls takes time by their number: not at each death, and the more rarely the more are needed.
        if self.past.dead.len() > 2 * (DEAD_KEPT_MAX + self.past.needed) {
            self.forget_dead();
        }
    }

    fn forget_dead(&mut self) {
        let called: FxHashSet<ActorId> = self
            .tasks()
            .filter_map(|(_, task)| match task.spec.target {
                Target::Actor(actor) => Some(actor),
                Target::Pool => None,
            })
            .collect();
        let is_needed = |actor: &ActorId| called.contains(actor) || matches!(self.hold_on(actor), Hold::Here(_));
        let (needed, others): (Vec<ActorId>, Vec<ActorId>) = self.past.dead.iter().partition(|actor| is_needed(actor));
        let (forgotten, kept) = others.split_at(others.len().saturating_sub(DEAD_KEPT_MAX));
        for actor in forgotten {
            self.callees.remove(actor);
        }
        // Those that were needed longest are the oldest, and stay in front.
        self.past = Past { needed: needed.len(), dead: needed.iter().chain(kept).copied().collect() };
        // Room for the most there ever were is worth more than what is in it.
        if self.callees.capacity() > 4 * (self.callees.len() + DEAD_KEPT_MAX) {
            self.callees.shrink_to(2 * self.callees.len());
        }
    }
}
