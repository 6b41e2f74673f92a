//! Large values between nodes: which of others' lie here as copies, which of this node's are known elsewhere, and who is told of what.
//!
//! A value's name is where it was first (`Bulk::is_name`); the node in that name is its *home*. Whoever wants it asks the home, and has one copy
//! for all processes of its node. The home sends large ones on: who comes later gets it from who came before, which may not have all of it
//! yet, so that a chain forms and the home sends it once. A value whose owner is a process of another node is kept at its home for that one.
//! That one may die without a word of it. Whoever inherits from it says of what; what nobody has inherited then is needed no more.
//!
//! Pure: it asks for pulls and is told what came of them. `W` is who waits here.
//!
//! - **DEPOT-1** whoever waits gets one answer.
//! - **DEPOT-2** of a value there is at most one copy on a node that is not its home, and at most one pull.
//! - **DEPOT-3** what was kept for a process of another node is let go of once: when that needs it no more, or is dead and nobody has inherited
//!   it, or its node is dead.
//! - **DEPOT-4** a copy of which the home is alive is dropped when there is want of room, but not in the moment after somebody was told of it.

mod copies;
mod ours;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use model::{Bulk, Dead, ProcId, Tick};
use rustc_hash::FxHashMap;
use wire::abroad::AboutValues;
use wire::asking::NotFetched;

use crate::copies::Copy;
use crate::ours::Ours;
pub use crate::ours::{Asked, Given};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<W> {
    /// Somebody here has waited for it.
    Answer {
        /// As it named itself.
        to: W,
        /// Where it lies here.
        found: Result<Bulk, NotFetched>,
    },
    /// Bring it here; say `came` then.
    Pull {
        /// Its name.
        bulk: Bulk,
        /// From that node.
        from: u32,
    },
    /// A copy is of no use any more.
    Drop {
        /// Its name.
        bulk: Bulk,
        /// Where it lies here.
        at: Bulk,
    },
    /// What was kept here for another node is needed no more.
    LetGo {
        /// Its name.
        bulk: Bulk,
        /// Where it lies.
        at: Bulk,
        /// Who wrote it.
        holder: ProcId,
    },
    /// Say something to another node.
    Say(u32, AboutValues),
}

/// Why a pull came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It is not there any more.
    Moved,
    /// The node that it was to come from is dead.
    NodeDead,
    /// There is no room for it here.
    Full(Box<str>),
    /// There is no way to it now, or it takes too long.
    Later(Box<str>),
}

/// See the crate's documentation.
pub struct Depot<W> {
    me: u32,
    /// Other nodes of the cluster, and whether they can be called.
    nodes: BTreeMap<u32, bool>,
    copies: FxHashMap<Bulk, Copy<W>>,
    ours: FxHashMap<Bulk, Ours>,
    /// What owners here need no more, and the home, which lives, has not confirmed. It may die over it.
    freed: BTreeSet<Bulk>,
    /// Processes that are dead, and of which nobody inherits anything any more.
    gone: Dead,
    /// Values of this node's processes that others have taken are looked at again then.
    look_at: Option<Tick>,
}

impl<W> Depot<W> {
    /// Of this node.
    #[must_use]
    pub fn new(me: u32) -> Self {
        Self {
            me,
            nodes: BTreeMap::new(),
            copies: FxHashMap::default(),
            ours: FxHashMap::default(),
            freed: BTreeSet::new(),
            gone: Dead::default(),
            look_at: None,
        }
    }

    /// A node belongs to the cluster.
    pub fn node_joined(&mut self, node: u32, is_callable: bool) {
        self.nodes.insert(node, is_callable);
    }

    /// It does no longer.
    pub fn node_gone(&mut self, node: u32, out: &mut Vec<Effect<W>>) {
        self.nodes.remove(&node);
        self.ours_without(node, out);
        let of_it: Vec<Bulk> = self.freed.iter().copied().filter(|bulk| bulk.node() == node).collect();
        for bulk in of_it {
            self.freed.remove(&bulk);
            self.free_copies(bulk, out);
        }
        self.copies_without(node, out);
    }

    /// A node says something of large values. What it says of calls is the body's.
    pub fn on_word(&mut self, now: Tick, from: u32, about: AboutValues, out: &mut Vec<Effect<W>>) {
        match about {
            AboutValues::Free(bulk) => {
                self.free(bulk, out);
                out.push(Effect::Say(from, AboutValues::Gone(vec![bulk])));
            }
            AboutValues::Inherited(bulk, by) if bulk.node() == self.me => self.is_inherited(bulk, by, out),
            AboutValues::Inherited(bulk, by) => self.copy_is_inherited(&bulk, by),
            AboutValues::Settled(of) => self.nobody_inherits(of, out),
            AboutValues::Gone(bulks) => {
                for bulk in bulks {
                    self.freed.remove(&bulk);
                    self.copy_is_gone(bulk, out);
                }
            }
            AboutValues::WhoHas(bulk) => out.push(Effect::Say(from, AboutValues::Have(bulk, self.has_copy(&bulk)))),
            AboutValues::Have(bulk, has) => self.on_have(now, from, bulk, has, out),
            AboutValues::CallMe { .. } => {}
        }
    }

    /// A process here has inherited a value of another node.
    pub fn inherit(&mut self, bulk: Bulk, by: ProcId, out: &mut Vec<Effect<W>>) {
        self.copy_is_inherited(&bulk, by);
        let inherited = |node: u32| Effect::Say(node, AboutValues::Inherited(bulk, by));
        if self.nodes.contains_key(&bulk.node()) {
            out.push(inherited(bulk.node()));
        } else {
            out.extend(self.nodes.keys().map(|node| inherited(*node)));
        }
    }

    /// It is known what a dead process of this node has left: what others keep for it they need not keep any more.
    pub fn settled_here(&mut self, of: ProcId, out: &mut Vec<Effect<W>>) {
        self.nobody_inherits(of, out);
        out.extend(self.nodes.keys().map(|node| Effect::Say(*node, AboutValues::Settled(of))));
    }

    /// A process of this node or another one is dead. If it has an heir, it is settled what that has inherited.
    pub fn process_died(&mut self, peer: ProcId, heir: Option<ProcId>, out: &mut Vec<Effect<W>>) {
        if heir.is_none() {
            self.nobody_inherits(peer, out);
        }
    }

    /// The owner of a large value needs it no more.
    pub fn free(&mut self, bulk: Bulk, out: &mut Vec<Effect<W>>) {
        let home = bulk.node();
        if home == self.me {
            self.free_ours(bulk, out);
        } else if self.nodes.contains_key(&home) {
            self.freed.insert(bulk);
            out.push(Effect::Say(home, AboutValues::Free(bulk)));
        } else {
            self.free_copies(bulk, out);
        }
    }

    /// Its home is dead: whoever has a copy would keep it for ever.
    fn free_copies(&mut self, bulk: Bulk, out: &mut Vec<Effect<W>>) {
        out.extend(self.nodes.keys().map(|node| Effect::Say(*node, AboutValues::Gone(vec![bulk]))));
        self.copy_is_gone(bulk, out);
    }

    /// What it has, for who finds that this should be nothing: copies, what is kept for others, and what was freed elsewhere a moment ago.
    pub fn names(&self) -> impl Iterator<Item = Bulk> {
        let kept = self.ours.iter().filter(|(_, ours)| ours.kept.is_some()).map(|(bulk, _)| *bulk);
        self.copies.keys().copied().chain(kept).chain(self.freed.iter().copied())
    }

    /// How many copies of others' values are here or on their way, and how many values are kept for others.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.copies.len(), self.ours.values().filter(|ours| ours.kept.is_some()).count())
    }
}
