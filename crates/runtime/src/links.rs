//! The links of this process, by peer, by place in the table and by the bit that their peers ring; which of them are to be rung, which wait
//! for room, and which calls wait for a link.

use std::collections::VecDeque;

use model::{ProcId, TaskKey};
use rustc_hash::FxHashMap;

use crate::link::Link;

const NONE: u32 = u32::MAX;

#[derive(Default)]
pub(crate) struct Links {
    table: Vec<Option<Link>>,
    of: FxHashMap<ProcId, usize>,
    of_bit: Vec<u32>,
    /// Those that were written to since their bell was rung.
    unrung: Vec<usize>,
    /// Those whose ring was full: something waits for room there.
    stalled: Vec<usize>,
    /// Calls for processes that we have no link to, in order. The node was asked for one.
    unlinked: FxHashMap<ProcId, VecDeque<TaskKey>>,
}

impl Links {
    /// The link to this process, and its place.
    #[inline]
    pub(crate) fn to(&mut self, peer: ProcId) -> Option<(usize, &mut Link)> {
        let at = *self.of.get(&peer)?;
        Some((at, self.table[at].as_mut()?))
    }

    pub(crate) fn get(&self, peer: ProcId) -> Option<&Link> {
        self.table[*self.of.get(&peer)?].as_ref()
    }

    #[inline]
    pub(crate) fn place_of(&self, peer: ProcId) -> Option<usize> {
        self.of.get(&peer).copied()
    }

    #[inline]
    pub(crate) fn at(&mut self, at: usize) -> Option<&mut Link> {
        self.table[at].as_mut()
    }

    /// Whose peer rings this bit.
    #[inline]
    pub(crate) fn ringing(&self, bit: u16) -> Option<usize> {
        // A sender may ring and die before it says for whom.
        let at = self.of_bit.get(usize::from(bit)).copied().unwrap_or(NONE);
        (at != NONE).then_some(at as usize)
    }

    /// Places up to here may have a link.
    pub(crate) fn places(&self) -> std::ops::Range<usize> {
        0..self.table.len()
    }

    pub(crate) fn add(&mut self, link: Link) -> usize {
        let at = self.table.iter().position(Option::is_none).unwrap_or(self.table.len());
        self.of.insert(link.peer(), at);
        let bit = usize::from(link.in_bit());
        if self.of_bit.len() <= bit {
            self.of_bit.resize(bit + 1, NONE);
        }
        self.of_bit[bit] = at as u32;
        if at == self.table.len() {
            self.table.push(None);
        }
        self.table[at] = Some(link);
        at
    }

    pub(crate) fn take(&mut self, peer: ProcId) -> Option<Link> {
        let at = self.of.remove(&peer)?;
        let link = self.table[at].take()?;
        self.of_bit[usize::from(link.in_bit())] = NONE;
        Some(link)
    }

    /// Something was written: its peer is rung with the next `ring_all`.
    #[inline]
    pub(crate) fn note_unrung(&mut self, at: usize) {
        self.unrung.push(at);
    }

    /// Wakes every peer that something was written to.
    #[inline]
    pub(crate) fn ring_all(&mut self) {
        while let Some(at) = self.unrung.pop() {
            if let Some(link) = &mut self.table[at] {
                link.ring();
            }
        }
    }

    /// Its ring was full: it is to be looked at again.
    pub(crate) fn note_stalled(&mut self, at: usize) {
        self.stalled.push(at);
    }

    /// Those to be looked at again.
    pub(crate) fn take_stalled(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.stalled)
    }

    /// It was looked at; it stays among those to be looked at if something waits there still.
    pub(crate) fn keep_stalled(&mut self, at: usize) {
        if self.table[at].as_ref().is_some_and(Link::is_stalled) && !self.stalled.contains(&at) {
            self.stalled.push(at);
        }
    }

    pub(crate) fn has_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// A call waits for a link. True if it is the first for this process.
    pub(crate) fn wait_for(&mut self, peer: ProcId, key: TaskKey) -> bool {
        let waiting = self.unlinked.entry(peer).or_default();
        waiting.push_back(key);
        waiting.len() == 1
    }

    /// The calls that waited for a link to this process, in order.
    pub(crate) fn take_waiting(&mut self, peer: ProcId) -> VecDeque<TaskKey> {
        self.unlinked.remove(&peer).unwrap_or_default()
    }

    /// Forgets a call that waits for a link or for room in its ring; false if it does not.
    pub(crate) fn forget_unsent(&mut self, key: TaskKey, to: ProcId) -> bool {
        if let Some(at) = self.of.get(&to) {
            return self.table[*at].as_mut().is_some_and(|link| link.forget(key));
        }
        self.unlinked.get_mut(&to).is_some_and(|queue| {
            let before = queue.len();
            queue.retain(|waiting| *waiting != key);
            queue.len() < before
        })
    }
}
