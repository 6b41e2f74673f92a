//! Decides where in its extents a process puts an object.
//!
//! HOT: once per put and once per free. Budget 100 ns each, no allocation once warm: `--example put`.
//!
//! A TLSF-like allocator whose bookkeeping lies in private memory, never beside the data: free blocks wait in lists by
//! size, sixteen to a power of two, the most recently freed first (STORE-8); neighbours merge at once. An extent that
//! is wholly free leaves the lists and is *idle*: the next object of its size takes it whole, a much smaller one does
//! not break it up, and it can be given back to the node.

use std::collections::{BTreeMap, HashMap};

use crate::pins::OffsetHash;
use crate::{ALIGN_BYTES, EXTENT_BYTES_MAX, Error, Extent, LARGE_BYTES, Place};

const PAGE_BYTES: u64 = 4096;
/// Blocks of one list that are tried before the next list is.
const LOOKS_MAX: u32 = 16;
/// An idle extent this many times larger than the object is left whole.
const IDLE_TIMES_MAX: u64 = 8;
const BINS: usize = 896;
const NIL: u32 = u32::MAX;

/// What a request for `length` bytes becomes: `None` if no arena could ever hold it.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) size: u64,
    align: u64,
}

impl Shape {
    pub(crate) fn of(length: u64) -> Option<Self> {
        let align = if length >= LARGE_BYTES { PAGE_BYTES } else { ALIGN_BYTES };
        let size = length.max(1).checked_next_multiple_of(align).filter(|&size| size <= i64::MAX as u64)?;
        Some(Self { size, align })
    }
}

/// A block in use. Valid until it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockId(u32);

pub(crate) struct Blocks {
    nodes: Vec<Node>,
    vacant: Vec<u32>,
    heads: [u32; BINS],
    filled: [u64; BINS / 64],
    /// Idle extents, the most recently freed last.
    idle: Vec<u32>,
    /// Blocks in use by the offset of their first byte.
    in_use: HashMap<u64, u32, OffsetHash>,
    extents: BTreeMap<u64, u64>,
    used_bytes: u64,
    held_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the list of its size.
    Free,
    /// A whole extent, in `idle`; `fresh` until something has been placed in it.
    Idle { fresh: bool },
    /// An object of `length` bytes, reserved or sealed.
    Used { length: u64 },
    /// Freed while pinned.
    Kept,
    /// The node stands for nothing.
    Vacant,
}

struct Node {
    offset: u64,
    size: u64,
    state: State,
    /// Neighbours in the extent.
    before: u32,
    after: u32,
    /// Neighbours in the list.
    newer: u32,
    older: u32,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            vacant: Vec::new(),
            heads: [NIL; BINS],
            filled: [0; BINS / 64],
            idle: Vec::new(),
            in_use: HashMap::default(),
            extents: BTreeMap::new(),
            used_bytes: 0,
            held_bytes: 0,
        }
    }

    /// Bytes in blocks that are reserved, sealed, or freed while pinned.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Bytes in extents.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// True if `extent` overlaps none that is held already.
    pub(crate) fn has_room_for(&self, extent: Extent) -> bool {
        let before = self.extents.range(..extent.end()).next_back();
        before.is_none_or(|(&offset, &length)| offset + length <= extent.offset)
    }

    /// Adds an extent.
    pub(crate) fn add(&mut self, extent: Extent) {
        assert!(self.has_room_for(extent), "STORE-1: {extent:?} is held already");
        self.extents.insert(extent.offset, extent.length);
        self.held_bytes += extent.length;
        let id = self.new_node(extent.offset, extent.length);
        self.nodes[id as usize].state = State::Idle { fresh: true };
        self.idle.push(id);
    }

    /// Places an object of `length` bytes; `shape` is what [`Shape::of`] made of it. `None`: another extent is needed.
    pub(crate) fn reserve(&mut self, length: u64, shape: Shape) -> Option<(BlockId, u64)> {
        let id = match self.find_free(shape) {
            Some(id) => {
                self.unlist(id);
                id
            }
            None => self.take_idle(shape)?,
        };
        let id = self.cut(id, shape);
        let node = &mut self.nodes[id as usize];
        node.state = State::Used { length };
        let offset = node.offset;
        let earlier = self.in_use.insert(offset, id);
        assert!(earlier.is_none(), "STORE-1: {offset} is in use already");
        self.used_bytes += shape.size;
        Some((BlockId(id), offset))
    }

    /// Whether `reserve` would find room.
    pub(crate) fn has_room(&self, shape: Shape) -> bool {
        self.find_free(shape).is_some() || self.find_idle(shape).is_some()
    }

    /// The block of a sealed place, and the bytes that it covers.
    pub(crate) fn find(&self, place: Place) -> Result<(BlockId, u64, u64), Error> {
        let &id = self.in_use.get(&place.offset).ok_or(Error::BadPlace(place))?;
        let node = &self.nodes[id as usize];
        if node.state != (State::Used { length: place.length }) {
            return Err(Error::BadPlace(place));
        }
        Ok((BlockId(id), node.offset, node.offset + node.size))
    }

    /// Sets a freed block aside because somebody looks at it.
    pub(crate) fn keep(&mut self, BlockId(id): BlockId) {
        self.nodes[id as usize].state = State::Kept;
    }

    /// The bytes of a block in use.
    pub(crate) fn span(&self, BlockId(id): BlockId) -> (u64, u64) {
        let node = &self.nodes[id as usize];
        (node.offset, node.offset + node.size)
    }

    /// Makes a block in use free again.
    pub(crate) fn release(&mut self, BlockId(id): BlockId) {
        let node = &self.nodes[id as usize];
        assert!(matches!(node.state, State::Used { .. } | State::Kept), "STORE-1: {} freed twice", node.offset);
        self.used_bytes -= node.size;
        self.in_use.remove(&node.offset);
        let (before, after) = (node.before, node.after);
        let mut id = id;
        if self.is_free(before) {
            self.unlist(before);
            self.merge(before, id);
            id = before;
        }
        if self.is_free(after) {
            self.unlist(after);
            self.merge(id, after);
        }
        let node = &mut self.nodes[id as usize];
        if node.before == NIL && node.after == NIL {
            node.state = State::Idle { fresh: false };
            self.idle.push(id);
        } else {
            self.list(id);
        }
    }

    /// Gives up idle extents, the longest unused first, but keeps up to `keep_bytes` of them.
    pub(crate) fn give_up_idle(&mut self, keep_bytes: u64) -> Vec<Extent> {
        let mut kept_bytes = 0;
        let mut given = Vec::new();
        for position in (0..self.idle.len()).rev() {
            let id = self.idle[position];
            let Node { offset, size: length, .. } = self.nodes[id as usize];
            if kept_bytes + length <= keep_bytes {
                kept_bytes += length;
                continue;
            }
            self.idle.remove(position);
            self.extents.remove(&offset);
            self.held_bytes -= length;
            self.drop_node(id);
            given.push(Extent { offset, length });
        }
        given
    }

    /// The tightest free block within a few looks, the most recently freed of its size.
    fn find_free(&self, shape: Shape) -> Option<u32> {
        let mut bin = bin_of(shape.size);
        while let Some(filled) = self.next_filled(bin) {
            let mut id = self.heads[filled];
            for _ in 0..LOOKS_MAX {
                if id == NIL {
                    break;
                }
                let node = &self.nodes[id as usize];
                if fits(node, shape) {
                    return Some(id);
                }
                id = node.older;
            }
            bin = filled + 1;
        }
        None
    }

    /// Takes the tightest idle extent that is not too good for this object; among equals the most recently freed, and
    /// one that has been used before.
    fn take_idle(&mut self, shape: Shape) -> Option<u32> {
        self.find_idle(shape).map(|position| self.idle.remove(position))
    }

    fn find_idle(&self, shape: Shape) -> Option<usize> {
        let size_max = shape.size.saturating_mul(IDLE_TIMES_MAX).max(EXTENT_BYTES_MAX);
        let usable = self.idle.iter().enumerate().rev().filter(|&(_, &id)| {
            let node = &self.nodes[id as usize];
            node.size >= shape.size && (node.size <= size_max || node.state == State::Idle { fresh: true })
        });
        let (position, _) = usable.min_by_key(|&(_, &id)| {
            let node = &self.nodes[id as usize];
            (node.size, node.state == State::Idle { fresh: true })
        })?;
        Some(position)
    }

    /// Cuts a block that has left its list to `shape`, and lists what is left before and behind.
    fn cut(&mut self, id: u32, shape: Shape) -> u32 {
        let node = &self.nodes[id as usize];
        let start = node.offset.next_multiple_of(shape.align);
        let gap = start - node.offset;
        assert!(gap + shape.size <= node.size, "STORE-1: block at {} is too short", node.offset);
        let id = if gap > 0 {
            let rest = self.split(id, gap);
            self.list(id);
            rest
        } else {
            id
        };
        if self.nodes[id as usize].size > shape.size {
            let rest = self.split(id, shape.size);
            self.list(rest);
        }
        id
    }

    /// Makes the bytes of `id` beyond `size` a node of their own.
    fn split(&mut self, id: u32, size: u64) -> u32 {
        let node = &mut self.nodes[id as usize];
        let (offset, rest_size, after) = (node.offset + size, node.size - size, node.after);
        node.size = size;
        let rest = self.new_node(offset, rest_size);
        self.nodes[id as usize].after = rest;
        self.nodes[rest as usize].before = id;
        self.nodes[rest as usize].after = after;
        if after != NIL {
            self.nodes[after as usize].before = rest;
        }
        rest
    }

    /// Adds the bytes of `second` to `first`, its neighbour before.
    fn merge(&mut self, first: u32, second: u32) {
        let Node { size, after, .. } = self.nodes[second as usize];
        self.nodes[first as usize].size += size;
        self.nodes[first as usize].after = after;
        if after != NIL {
            self.nodes[after as usize].before = first;
        }
        self.drop_node(second);
    }

    fn is_free(&self, id: u32) -> bool {
        id != NIL && self.nodes[id as usize].state == State::Free
    }

    fn list(&mut self, id: u32) {
        let bin = bin_of(self.nodes[id as usize].size);
        let head = self.heads[bin];
        let node = &mut self.nodes[id as usize];
        node.state = State::Free;
        (node.newer, node.older) = (NIL, head);
        if head != NIL {
            self.nodes[head as usize].newer = id;
        }
        self.heads[bin] = id;
        self.filled[bin / 64] |= 1 << (bin % 64);
    }

    fn unlist(&mut self, id: u32) {
        let Node { newer, older, size, .. } = self.nodes[id as usize];
        if older != NIL {
            self.nodes[older as usize].newer = newer;
        }
        if newer != NIL {
            self.nodes[newer as usize].older = older;
            return;
        }
        let bin = bin_of(size);
        self.heads[bin] = older;
        if older == NIL {
            self.filled[bin / 64] &= !(1 << (bin % 64));
        }
    }

    fn next_filled(&self, bin: usize) -> Option<usize> {
        let mut word = bin / 64;
        let mut bits = self.filled.get(word)? & (u64::MAX << (bin % 64));
        while bits == 0 {
            word += 1;
            bits = *self.filled.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    fn new_node(&mut self, offset: u64, size: u64) -> u32 {
        let node = Node { offset, size, state: State::Vacant, before: NIL, after: NIL, newer: NIL, older: NIL };
        match self.vacant.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                let id = u32::try_from(self.nodes.len()).ok().filter(|&id| id != NIL);
                self.nodes.push(node);
                id.expect("fewer than 2^32 blocks")
            }
        }
    }

    fn drop_node(&mut self, id: u32) {
        self.nodes[id as usize].state = State::Vacant;
        self.vacant.push(id);
    }
}

fn fits(node: &Node, shape: Shape) -> bool {
    let gap = node.offset.next_multiple_of(shape.align) - node.offset;
    gap + shape.size <= node.size
}

/// The list for blocks of `size`: exact up to 1 KiB, then sixteen to a power of two.
fn bin_of(size: u64) -> usize {
    let granules = size / ALIGN_BYTES;
    if granules < 16 {
        return granules as usize;
    }
    let top = granules.ilog2();
    ((top as usize - 3) << 4) | ((granules >> (top - 4)) as usize & 15)
}

#[cfg(test)]
mod tests;
