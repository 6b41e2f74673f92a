//! Large values between nodes: which of others' lie here as copies, which of this node's are known elsewhere, and who is told of what.
//!
//! A value's name is where it was first (`Bulk::is_name`); the node in that name is its *home*. Whoever wants it asks the home, and has one copy
//! for all processes of its node. The home sends large ones on: who comes later gets it from who came before, which may not have all of it
//! yet, so that a chain forms and the home sends it once. A value whose owner is a process of another node is kept at its home for that one.
//!
//! Pure: it asks for pulls and is told what came of them. `W` is who waits here.
//!
//! - **DEPOT-1** whoever waits gets one answer.
//! - **DEPOT-2** of a value there is at most one copy on a node that is not its home, and at most one pull.
//! - **DEPOT-3** what was kept for a process of another node is let go of once: when that or its heir needs it no more, or its node is dead.
//! - **DEPOT-4** a copy of which the home is alive is dropped when there is want of room, but not in the moment after somebody was told of it.

mod copies;
mod ours;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use model::{Bulk, ProcId, Tick};
use rustc_hash::FxHashMap;
use wire::abroad::AboutValues;
use wire::asking::NotFetched;

use crate::copies::Copy;
pub use crate::ours::Asked;
use crate::ours::Ours;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<W> {
    /// Somebody here has waited for it.
    Answer {
        /// Who.
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
    /// What was kept for a process that is dead is this one's, which is to be told so.
    PassOn {
        /// Who.
        heir: ProcId,
        /// The values.
        bulks: Vec<Bulk>,
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
    /// Owners elsewhere that died lately, and their heirs.
    dead_owners: VecDeque<(ProcId, Option<ProcId>)>,
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
            dead_owners: VecDeque::new(),
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
        self.copies_without(node, out);
    }

    /// A node says something of large values. What it says of calls is the body's.
    pub fn on_word(&mut self, now: Tick, from: u32, about: AboutValues, out: &mut Vec<Effect<W>>) {
        match about {
            AboutValues::Free(bulk) => self.free(bulk, out),
            AboutValues::Gone(bulks) => bulks.into_iter().for_each(|bulk| self.copy_is_gone(bulk, out)),
            AboutValues::WhoHas(bulk) => out.push(Effect::Say(from, AboutValues::Have(bulk, self.has_copy(&bulk)))),
            AboutValues::Have(bulk, has) => self.on_have(now, from, bulk, has, out),
            AboutValues::CallMe { .. } => {}
        }
    }

    /// The owner of a large value needs it no more.
    pub fn free(&mut self, bulk: Bulk, out: &mut Vec<Effect<W>>) {
        let home = bulk.node();
        if home == self.me {
            self.free_ours(bulk, out);
        } else if self.nodes.contains_key(&home) {
            out.push(Effect::Say(home, AboutValues::Free(bulk)));
        } else {
            // Whoever has a copy would keep it for ever.
            out.extend(self.nodes.keys().map(|node| Effect::Say(*node, AboutValues::Gone(vec![bulk]))));
            self.copy_is_gone(bulk, out);
        }
    }

    /// How many copies of others' values are here or on their way, and how many values are kept for others.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.copies.len(), self.ours.values().filter(|ours| ours.kept.is_some()).count())
    }
}
