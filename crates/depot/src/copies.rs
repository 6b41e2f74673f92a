//! Copies of others' values.

use std::collections::BTreeSet;

use model::{Bulk, ProcId, Tick};
use wire::abroad::AboutValues;
use wire::asking::NotFetched;

use crate::{Depot, Effect, Failed};

/// Whoever was told where a copy lies looks there within this time, or asks again.
const GRACE_MS: u64 = 1_000;

pub(crate) enum Copy<W> {
    /// On its way.
    Coming {
        waiters: Vec<W>,
        /// Its home is dead: these have not said whether they have a copy.
        asked: BTreeSet<u32>,
        /// Its home has said that it is of no use any more.
        is_gone: bool,
    },
    Here {
        at: Bulk,
        /// Its owner, or the node of that, as far as is known.
        of: ProcId,
        /// When somebody was told of it.
        touched: Tick,
    },
}

impl<W> Depot<W> {
    /// Somebody here wants a value that it does not find where its name says.
    pub fn wants(&mut self, now: Tick, bulk: Bulk, to: W, out: &mut Vec<Effect<W>>) {
        if bulk.node() == self.me {
            let found = self.kept_at(&bulk).ok_or(NotFetched::Moved);
            return out.push(Effect::Answer { to, found });
        }
        match self.copies.get_mut(&bulk) {
            Some(Copy::Here { at, touched, .. }) => {
                *touched = now;
                out.push(Effect::Answer { to, found: Ok(*at) });
            }
            Some(Copy::Coming { waiters, .. }) => waiters.push(to),
            None => self.begin(now, bulk, vec![to], out),
        }
    }

    /// Somebody here will want it.
    pub fn will_want(&mut self, now: Tick, bulk: Bulk, out: &mut Vec<Effect<W>>) {
        if bulk.node() != self.me && bulk.is_name() && !self.copies.contains_key(&bulk) {
            self.begin(now, bulk, Vec::new(), out);
        }
    }

    fn begin(&mut self, now: Tick, bulk: Bulk, waiters: Vec<W>, out: &mut Vec<Effect<W>>) {
        self.copies.insert(bulk, Copy::Coming { waiters, asked: BTreeSet::new(), is_gone: false });
        if self.nodes.contains_key(&bulk.node()) {
            out.push(Effect::Pull { bulk, from: bulk.node() });
        } else {
            self.ask_all(now, bulk, out);
        }
    }

    /// Its home is dead.
    fn ask_all(&mut self, now: Tick, bulk: Bulk, out: &mut Vec<Effect<W>>) {
        let Some(Copy::Coming { asked, .. }) = self.copies.get_mut(&bulk) else { return };
        asked.extend(self.nodes.keys());
        out.extend(asked.iter().map(|node| Effect::Say(*node, AboutValues::WhoHas(bulk))));
        if asked.is_empty() {
            self.came(now, bulk, Err(NotFetched::Lost(lost_with(bulk.node()))), out);
        }
    }

    pub(crate) fn on_have(&mut self, now: Tick, from: u32, bulk: Bulk, has: bool, out: &mut Vec<Effect<W>>) {
        let Some(Copy::Coming { asked, .. }) = self.copies.get_mut(&bulk) else { return };
        if !asked.remove(&from) {
            return;
        }
        if has {
            asked.clear();
            out.push(Effect::Pull { bulk, from });
        } else if asked.is_empty() {
            self.came(now, bulk, Err(NotFetched::Lost(lost_with(bulk.node()))), out);
        }
    }

    /// What came of a pull: where it lies, and whose it is.
    pub fn pulled(&mut self, now: Tick, bulk: Bulk, result: Result<(Bulk, ProcId), Failed>, out: &mut Vec<Effect<W>>) {
        match result {
            Ok(found) => self.came(now, bulk, Ok(found), out),
            Err(Failed::Moved) => self.came(now, bulk, Err(NotFetched::Moved), out),
            Err(Failed::Full(why)) => self.came(now, bulk, Err(NotFetched::Full(why)), out),
            Err(Failed::Later(why)) => self.came(now, bulk, Err(NotFetched::Later(why)), out),
            // If it was somebody else's copy that it was to come from, others may have one.
            Err(Failed::NodeDead) if self.nodes.contains_key(&bulk.node()) => {
                out.push(Effect::Pull { bulk, from: bulk.node() });
            }
            Err(Failed::NodeDead) => self.ask_all(now, bulk, out),
        }
    }

    fn came(&mut self, now: Tick, bulk: Bulk, found: Result<(Bulk, ProcId), NotFetched>, out: &mut Vec<Effect<W>>) {
        let Some(Copy::Coming { waiters, is_gone, .. }) = self.copies.remove(&bulk) else { return };
        let answer = match found {
            Ok((at, of)) if is_gone || self.nobody_frees(&bulk, of) => {
                out.push(Effect::Drop { bulk, at });
                Err(NotFetched::Moved)
            }
            Ok((at, of)) => {
                self.copies.insert(bulk, Copy::Here { at, of, touched: now });
                Ok(at)
            }
            Err(why) => Err(why),
        };
        out.extend(waiters.into_iter().map(|to| Effect::Answer { to, found: answer.clone() }));
    }

    pub(crate) fn copy_is_gone(&mut self, bulk: Bulk, out: &mut Vec<Effect<W>>) {
        match self.copies.get_mut(&bulk) {
            Some(Copy::Coming { is_gone, .. }) => *is_gone = true,
            Some(Copy::Here { at, .. }) => {
                out.push(Effect::Drop { bulk, at: *at });
                self.copies.remove(&bulk);
            }
            None => {}
        }
    }

    /// Neither its home is there, nor its owner.
    fn nobody_frees(&self, bulk: &Bulk, of: ProcId) -> bool {
        let is_dead = |node: u32| node != self.me && !self.nodes.contains_key(&node);
        is_dead(bulk.node()) && (is_dead(of.node()) || self.gone.has(of))
    }

    /// The owner of a value that lies here, or the node of that; none: it has not come yet.
    #[must_use]
    pub fn owner_of(&self, bulk: &Bulk) -> Option<ProcId> {
        match self.copies.get(bulk) {
            Some(Copy::Here { of, .. }) => Some(*of),
            Some(Copy::Coming { .. }) => None,
            None => {
                (bulk.node() == self.me).then(|| self.owner_of_ours(bulk).unwrap_or_else(|| ProcId::of_node(self.me)))
            }
        }
    }

    pub(crate) fn copy_is_inherited(&mut self, bulk: &Bulk, by: ProcId) {
        if let Some(Copy::Here { of, .. }) = self.copies.get_mut(bulk) {
            *of = by;
        }
    }

    pub(crate) fn has_copy(&self, bulk: &Bulk) -> bool {
        matches!(self.copies.get(bulk), Some(Copy::Here { .. }))
    }

    /// Where a copy lies, for who is about to send it on. `Err(true)`: it is on its way here.
    pub(crate) fn copy_to_send(&mut self, now: Tick, bulk: &Bulk) -> Result<Bulk, bool> {
        match self.copies.get_mut(bulk) {
            Some(Copy::Here { at, touched, .. }) => {
                *touched = now;
                Ok(*at)
            }
            Some(Copy::Coming { .. }) => Err(true),
            None => Err(false),
        }
    }

    /// There is want of room: copies in the arena that are dropped, the longest unused first. Those whose home is dead may be the last.
    pub fn make_room(&mut self, now: Tick, bytes: u64, is_looked_at: impl Fn(Bulk) -> bool, out: &mut Vec<Effect<W>>) {
        let mut candidates: Vec<(Tick, Bulk, Bulk)> = self
            .copies
            .iter()
            .filter_map(|(bulk, copy)| match copy {
                Copy::Here { at: at @ Bulk::Stored(_), touched, .. } => Some((*touched, *bulk, *at)),
                _ => None,
            })
            .filter(|(touched, bulk, _)| now.ms_since(*touched) >= GRACE_MS && self.nodes.contains_key(&bulk.node()))
            .collect();
        candidates.sort_unstable();
        let mut freed = 0;
        for (_, bulk, at) in candidates {
            if freed >= bytes {
                return;
            }
            if !is_looked_at(at) {
                freed += at.length();
                self.copies.remove(&bulk);
                out.push(Effect::Drop { bulk, at });
            }
        }
    }

    pub(crate) fn copies_without(&mut self, node: u32, out: &mut Vec<Effect<W>>) {
        let mut asked_in_vain: Vec<Bulk> = Vec::new();
        for (bulk, copy) in &mut self.copies {
            if let Copy::Coming { asked, .. } = copy
                && asked.contains(&node)
            {
                asked_in_vain.push(*bulk);
            }
        }
        asked_in_vain.sort_unstable();
        // Whoever is dead has none.
        asked_in_vain.into_iter().for_each(|bulk| self.on_have(Tick(0), node, bulk, false, out));
        self.drop_of_nobody(out);
    }

    /// Whoever would say that they are of no use any more is dead.
    pub(crate) fn drop_of_nobody(&mut self, out: &mut Vec<Effect<W>>) {
        let here = self.copies.iter().filter_map(|(bulk, copy)| match copy {
            Copy::Here { of, .. } if self.nobody_frees(bulk, *of) => Some(*bulk),
            _ => None,
        });
        let mut of_nobody: Vec<Bulk> = here.collect();
        of_nobody.sort_unstable();
        of_nobody.into_iter().for_each(|bulk| self.copy_is_gone(bulk, out));
    }
}

fn lost_with(node: u32) -> Box<str> {
    format!("it lay on node {node}, which is dead, and no other node has a copy").into()
}
