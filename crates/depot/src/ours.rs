//! Values of this node that others know.

use model::{Bulk, ProcId, Tick};
use wire::abroad::AboutValues;

use crate::{Depot, Effect};

/// A value of at least this length is sent on by who has got it, or is getting it.
const SEND_ON_BYTES: u64 = 1 << 20;
/// How often is looked whether what others have copies of is there still.
const LOOK_MS: u64 = 200;

pub(crate) struct Ours {
    /// Where it lies now.
    at: Bulk,
    /// It is kept for a process of another node.
    pub(crate) kept: Option<Kept>,
    /// Nodes that have taken it or are taking it, in order.
    takers: Vec<u32>,
}

/// A value of this node's that is given to a process of another one, and stays here.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Its name.
    pub bulk: Bulk,
    /// Where it lies by now.
    pub at: Bulk,
    /// Whose it is from now on.
    pub owner: ProcId,
    /// Who wrote it.
    pub holder: ProcId,
}

pub(crate) struct Kept {
    /// Its owner, a process of another node.
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
    /// A value of this node's is kept here for a process of another one.
    pub fn keep(&mut self, now: Tick, given: Given, out: &mut Vec<Effect<W>>) {
        let Given { bulk, at, owner, holder } = given;
        let kept = Some(Kept { owner, holder, touched: now });
        self.ours.insert(bulk, Ours { at, kept, takers: Vec::new() });
        if !self.nodes.contains_key(&owner.node()) || self.gone.has(owner) {
            // It died before this was said.
            self.free_ours(bulk, out);
        }
    }

    /// It is this process's from now on.
    pub(crate) fn is_inherited(&mut self, bulk: Bulk, by: ProcId, out: &mut Vec<Effect<W>>) {
        if let Some(ours) = self.ours.get_mut(&bulk)
            && let Some(kept) = &mut ours.kept
        {
            kept.owner = by;
            out.extend(ours.takers.iter().map(|node| Effect::Say(*node, AboutValues::Inherited(bulk, by))));
        }
    }

    /// A process is dead, and whatever is still its nobody needs.
    pub(crate) fn nobody_inherits(&mut self, of: ProcId, out: &mut Vec<Effect<W>>) {
        self.gone.note(of);
        self.free_all(|owner| owner == of, out);
        self.drop_of_nobody(out);
    }

    fn free_all(&mut self, is_gone: impl Fn(ProcId) -> bool, out: &mut Vec<Effect<W>>) {
        let of_it = self.ours.iter().filter(|(_, ours)| ours.kept.as_ref().is_some_and(|kept| is_gone(kept.owner)));
        let mut of_it: Vec<Bulk> = of_it.map(|(bulk, _)| *bulk).collect();
        of_it.sort_unstable();
        of_it.into_iter().for_each(|bulk| self.free_ours(bulk, out));
    }

    /// Where a value of this node lies now, as far as is known.
    #[must_use]
    pub fn lies_at(&self, bulk: Bulk) -> Bulk {
        self.ours.get(&bulk).map_or(bulk, |ours| ours.at)
    }

    pub(crate) fn kept_at(&self, bulk: &Bulk) -> Option<Bulk> {
        self.ours.get(bulk).filter(|ours| ours.kept.is_some()).map(|ours| ours.at)
    }

    pub(crate) fn owner_of_ours(&self, bulk: &Bulk) -> Option<ProcId> {
        self.ours.get(bulk)?.kept.as_ref().map(|kept| kept.owner)
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
            self.look_at.get_or_insert_with(|| now.plus_ms(LOOK_MS));
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

    /// A value that is kept for another node was written to a file. Returns who has it in its part of the arena; none: it is not kept there any
    /// more, or was in a file before.
    pub fn moved(&mut self, bulk: Bulk, to: Bulk) -> Option<ProcId> {
        let ours = self.ours.get_mut(&bulk).filter(|ours| matches!(ours.at, Bulk::Stored(_)))?;
        let holder = ours.kept.as_ref()?.holder;
        ours.at = to;
        Some(holder)
    }

    pub(crate) fn ours_without(&mut self, node: u32, out: &mut Vec<Effect<W>>) {
        self.free_all(|owner| owner.node() == node, out);
        self.ours.values_mut().for_each(|ours| ours.takers.retain(|taker| *taker != node));
    }
}
