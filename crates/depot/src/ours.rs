//! Values of this node that others know.

use model::{Bulk, ProcId, Tick};
use wire::abroad::AboutValues;

use crate::{Depot, Effect};

/// A value of at least this length is sent on by who has got it, or is getting it.
const SEND_ON_BYTES: u64 = 1 << 20;
/// How often is looked whether what others have copies of is there still.
const LOOK_MS: u64 = 200;
/// What is on its way to the dead is given to their heirs as long as they are known.
const DEAD_MAX: usize = 1_024;

pub(crate) struct Ours {
    /// Where it lies now.
    at: Bulk,
    /// It is kept for a process of another node.
    pub(crate) kept: Option<Kept>,
    /// Nodes that have taken it or are taking it, in order.
    takers: Vec<u32>,
}

pub(crate) struct Kept {
    /// Its owner.
    owner: ProcId,
    /// Who wrote it, and frees it when it is told to.
    holder: ProcId,
    /// When somebody asked for it last.
    touched: Tick,
}

/// What another node is to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// What lies there.
    At(Bulk),
    /// As much as has come, and the rest as it comes.
    Coming,
    /// It is to ask that node, which was given it before.
    SentOn(u32),
    /// There is none here.
    Nothing,
}

impl<W> Depot<W> {
    /// A value of this node's is a process's of another node from now on, and is kept here for it.
    pub fn keep(&mut self, now: Tick, bulk: Bulk, owner: ProcId, holder: ProcId, out: &mut Vec<Effect<W>>) {
        let kept = Some(Kept { owner, holder, touched: now });
        self.ours.insert(bulk, Ours { at: bulk, kept, takers: Vec::new() });
        if !self.nodes.contains_key(&owner.node()) {
            // It died before this was said.
            self.free_ours(bulk, out);
        } else if let Some((_, heir)) = self.dead_owners.iter().find(|(of, _)| *of == owner) {
            let heir = *heir;
            self.pass_on(vec![bulk], heir, out);
        }
    }

    /// An owner on another node is dead. What was kept for it is its heir's, which says what of it it does not need.
    pub fn owner_died(&mut self, of: ProcId, heir: Option<ProcId>, out: &mut Vec<Effect<W>>) {
        if self.dead_owners.len() == DEAD_MAX {
            self.dead_owners.pop_front();
        }
        self.dead_owners.push_back((of, heir));
        let its = self.ours.iter().filter(|(_, ours)| ours.kept.as_ref().is_some_and(|kept| kept.owner == of));
        let mut its: Vec<Bulk> = its.map(|(bulk, _)| *bulk).collect();
        its.sort_unstable();
        self.pass_on(its, heir, out);
    }

    fn pass_on(&mut self, bulks: Vec<Bulk>, heir: Option<ProcId>, out: &mut Vec<Effect<W>>) {
        let Some(heir) = heir else {
            return bulks.into_iter().for_each(|bulk| self.free_ours(bulk, out));
        };
        for bulk in &bulks {
            if let Some(Ours { kept: Some(kept), .. }) = self.ours.get_mut(bulk) {
                kept.owner = heir;
            }
        }
        if !bulks.is_empty() {
            out.push(Effect::PassOn { heir, bulks });
        }
    }

    /// Where a value of this node lies now, as far as is known.
    #[must_use]
    pub fn lies_at(&self, bulk: Bulk) -> Bulk {
        self.ours.get(&bulk).map_or(bulk, |ours| ours.at)
    }

    pub(crate) fn kept_at(&self, bulk: &Bulk) -> Option<Bulk> {
        self.ours.get(bulk).filter(|ours| ours.kept.is_some()).map(|ours| ours.at)
    }

    /// Another node wants a value that lies here, as far as that knows. `may_be_sent_on`: it has not been sent on before.
    pub fn asked(&mut self, now: Tick, by: u32, bulk: Bulk, may_be_sent_on: bool) -> Asked {
        if bulk.node() != self.me {
            return match self.copy_to_send(now, &bulk) {
                Ok(at) => Asked::At(at),
                Err(true) => Asked::Coming,
                Err(false) => Asked::Nothing,
            };
        }
        let ours = self.ours.entry(bulk).or_insert_with(|| Ours { at: bulk, kept: None, takers: Vec::new() });
        if let Some(kept) = &mut ours.kept {
            kept.touched = now;
        } else {
            self.look_at.get_or_insert(now.plus_ms(LOOK_MS));
        }
        let nodes = &self.nodes;
        let before = ours.takers.iter().rev().find(|taker| **taker != by && nodes.get(taker) == Some(&true)).copied();
        if !ours.takers.contains(&by) {
            ours.takers.push(by);
        }
        match before {
            Some(before) if may_be_sent_on && bulk.length() >= SEND_ON_BYTES => Asked::SentOn(before),
            _ => Asked::At(ours.at),
        }
    }

    /// It was not there after all.
    pub fn is_not_there(&mut self, bulk: Bulk, out: &mut Vec<Effect<W>>) {
        if self.ours.get(&bulk).is_some_and(|ours| ours.kept.is_none()) {
            self.free_ours(bulk, out);
        }
    }

    /// When to look next whether what others have copies of is there still.
    #[must_use]
    pub fn next_look(&self) -> Option<Tick> {
        self.look_at
    }

    /// Nobody says when a value that a process here owns is freed: this is found out, so that its copies go.
    pub fn look(&mut self, now: Tick, is_there: impl Fn(Bulk) -> bool, out: &mut Vec<Effect<W>>) {
        if self.look_at.is_none_or(|at| now < at) {
            return;
        }
        let of_processes = self.ours.iter().filter(|(_, ours)| ours.kept.is_none());
        let (there, mut gone): (Vec<Bulk>, Vec<Bulk>) =
            of_processes.map(|(bulk, _)| *bulk).partition(|bulk| is_there(*bulk));
        gone.sort_unstable();
        gone.into_iter().for_each(|bulk| self.free_ours(bulk, out));
        self.look_at = (!there.is_empty()).then(|| now.plus_ms(LOOK_MS));
    }

    pub(crate) fn free_ours(&mut self, bulk: Bulk, out: &mut Vec<Effect<W>>) {
        let Some(Ours { at, kept, takers }) = self.ours.remove(&bulk) else { return };
        out.extend(takers.into_iter().map(|node| Effect::Say(node, AboutValues::Gone(vec![bulk]))));
        if let Some(Kept { holder, .. }) = kept {
            out.push(Effect::LetGo { bulk, at, holder });
        }
    }

    /// There is want of room: values in the arena that are kept for others and may go to files, the longest unused first.
    pub fn movable(&self, bytes: u64, is_looked_at: impl Fn(Bulk) -> bool) -> Vec<Bulk> {
        let kept = self.ours.iter().filter_map(|(bulk, ours)| {
            let kept = ours.kept.as_ref().filter(|_| matches!(ours.at, Bulk::Stored(_)))?;
            Some((kept.touched, *bulk))
        });
        let mut kept: Vec<(Tick, Bulk)> = kept.collect();
        kept.sort_unstable();
        let mut freed = 0;
        let mut chosen = Vec::new();
        for (_, bulk) in kept {
            if freed >= bytes {
                break;
            }
            if !is_looked_at(bulk) {
                freed += bulk.length();
                chosen.push(bulk);
            }
        }
        chosen
    }

    /// A value that is kept for another node was written to a file. Returns who has it in its part of the arena; none: it is not kept any more.
    pub fn moved(&mut self, bulk: Bulk, to: Bulk) -> Option<ProcId> {
        let ours = self.ours.get_mut(&bulk)?;
        let holder = ours.kept.as_ref()?.holder;
        ours.at = to;
        Some(holder)
    }

    pub(crate) fn ours_without(&mut self, node: u32, out: &mut Vec<Effect<W>>) {
        let of_it = self.ours.iter().filter(|(_, ours)| ours.kept.as_ref().is_some_and(|kept| kept.owner.node() == node));
        let mut of_it: Vec<Bulk> = of_it.map(|(bulk, _)| *bulk).collect();
        of_it.sort_unstable();
        of_it.into_iter().for_each(|bulk| self.free_ours(bulk, out));
        self.ours.values_mut().for_each(|ours| ours.takers.retain(|taker| *taker != node));
    }
}
