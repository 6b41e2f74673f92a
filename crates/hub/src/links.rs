//! Which pairs of processes have rings, and how idle pairs give theirs back. Pure: who wants, who died and what ends say comes in; what is to
//! be said comes out.
//!
//! A link is closed in three steps. The node asks both ends. An end that has nothing under way sends no call from then on and says how far it
//! has written and read. If both did and the numbers match, both are told to let go, and the rings are free once both have; else whoever
//! held back goes on. An end without a link that has a call asks for a new one.
//!
//! A process that calls itself (an actor through its own handle) has one ring for both directions, and keeps it.
//!
//! - **LINK-1** a ring belongs to one pair until each of its ends has let go or is dead.
//! - **LINK-2** a link between two that live is closed only if each has read all that the other ever wrote on it.
//! - **LINK-3** whoever wants a link gets one as soon as there are rings, in the order of asking; while somebody waits, idle pairs are asked.

use std::collections::VecDeque;

use model::{ProcId, Tick};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::control::{Quiet, Rings};

use crate::numbers::Numbers;

/// While somebody waits for rings, idle pairs are looked for this often.
const RETRY_MS: u64 = 10;
/// Pairs asked at a time.
const ASKED_MAX: usize = 256;
/// So many more pairs are asked than rings are wanted: who asks next finds some.
const SPARE: usize = 32;

/// What is to be said or done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// `to` has rings to `peer`.
    Linked {
        /// Who is told.
        to: ProcId,
        /// The other end.
        peer: ProcId,
        /// As `to` sees them.
        rings: Rings,
    },
    /// May the link be closed?
    Ask {
        /// Who is told.
        to: ProcId,
        /// The other end.
        peer: ProcId,
    },
    /// It stays.
    Keep {
        /// Who is told.
        to: ProcId,
        /// The other end.
        peer: ProcId,
    },
    /// It is closed: let go of it.
    Unlink {
        /// Who is told.
        to: ProcId,
        /// The other end.
        peer: ProcId,
    },
    /// Nobody uses the ring any more: it must be fresh before it is given out again.
    Reset(u32),
}

/// How far a ring is: written and read, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Bytes written.
    pub tail: u64,
    /// Bytes read.
    pub head: u64,
}

/// All pairs that have rings, and those that wait for some.
pub struct Links {
    /// Processes of other nodes have their ends at the carrier of this one.
    node: u32,
    rings_max: u32,
    /// A pair on whose rings nothing moved for so long is asked.
    idle_ms_max: u64,
    free: Vec<u32>,
    made: u32,
    pairs: FxHashMap<(ProcId, ProcId), Pair>,
    ends: FxHashMap<ProcId, Ends>,
    carrier: CarrierBits,
    dead: FxHashSet<ProcId>,
    /// Pairs that want rings, in order.
    waiting: VecDeque<(ProcId, ProcId)>,
    looked: Tick,
}

/// One process's side of all its links.
#[derive(Default)]
struct Ends {
    peers: FxHashSet<ProcId>,
    /// Of its ready map: which are in use.
    bits: Numbers,
}

/// The lower id is end 0.
struct Pair {
    /// Written by end 0, by end 1.
    rings: [u32; 2],
    /// In the ready map of end 0, of end 1.
    bits: [u16; 2],
    /// Whether the end may still use the rings.
    holds: [bool; 2],
    stage: Stage,
    /// Somebody wanted this link while it was being closed.
    is_wanted: bool,
    /// Bytes written on both when last looked at, and since when it is so many.
    written: u64,
    quiet_since: Tick,
}

#[derive(Clone, Copy)]
enum Stage {
    Open,
    /// Both were asked; what they said.
    Asked([Option<Option<Quiet>>; 2]),
    /// Whoever holds it lets go.
    Closing,
}

impl Links {
    /// For so many rings; a pair on which nothing moved for `idle_ms_max` is asked whether it still needs its own.
    #[must_use]
    pub fn new(node: u32, rings_max: u32, idle_ms_max: u64) -> Self {
        Self {
            node,
            rings_max,
            idle_ms_max,
            free: Vec::new(),
            made: 0,
            pairs: FxHashMap::default(),
            ends: FxHashMap::default(),
            carrier: CarrierBits::default(),
            dead: FxHashSet::default(),
            waiting: VecDeque::new(),
            looked: Tick::default(),
        }
    }

    /// `a` is going to call `b`. Wanting again changes nothing.
    pub fn want(&mut self, now: Tick, a: ProcId, b: ProcId, out: &mut Vec<Effect>) {
        if self.dead.contains(&a) || self.dead.contains(&b) {
            return;
        }
        if let Some(pair) = self.pairs.get_mut(&key(a, b)) {
            // One that was asked whether it is idle may say so although it is wanted; it is asked for again then.
            pair.is_wanted |= matches!(pair.stage, Stage::Closing);
            return;
        }
        if !self.waiting.iter().any(|waiting| key(waiting.0, waiting.1) == key(a, b)) {
            self.waiting.push_back((a, b));
            self.serve(now, out);
        }
    }

    /// No pair has rings, wants some, or is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
            && self.waiting.is_empty()
            && self.dead.is_empty()
            && self.free.len() == self.made as usize
            && self.ends.values().all(|ends| ends.peers.is_empty())
    }

    /// Whether somebody waits for rings.
    #[must_use]
    pub fn is_short(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn serve(&mut self, now: Tick, out: &mut Vec<Effect>) {
        while let Some((a, b)) = self.waiting.front().copied()
            && let Some(rings) = self.take_rings(if a == b { 1 } else { 2 })
        {
            self.waiting.pop_front();
            let key = key(a, b);
            let first = self.take_bit(key.0);
            let bits = [first, if a == b { first } else { self.take_bit(key.1) }];
            let pair = Pair {
                rings,
                bits,
                holds: [true; 2],
                stage: Stage::Open,
                is_wanted: false,
                written: 0,
                quiet_since: now,
            };
            self.ends.entry(a).or_default().peers.insert(b);
            self.ends.entry(b).or_default().peers.insert(a);
            // Whoever is called hears of it first: it is told once, the caller may have more to hear.
            for (to, peer) in [(b, a), (a, b)].into_iter().take(if a == b { 1 } else { 2 }) {
                out.push(Effect::Linked { to, peer, rings: pair.seen_by(end_of(to, peer)) });
            }
            self.pairs.insert(key, pair);
        }
    }

    /// Whether the carrier has the process's end.
    fn is_carried(&self, end: ProcId) -> bool {
        end.node() != self.node
    }

    fn take_bit(&mut self, end: ProcId) -> u16 {
        if self.is_carried(end) { self.carrier.take() } else { self.ends.entry(end).or_default().take_bit() }
    }

    /// Two rings, or one for both directions.
    fn take_rings(&mut self, count: usize) -> Option<[u32; 2]> {
        let left = self.free.len() + (self.rings_max - self.made) as usize;
        (left >= count).then(|| {
            let first = self.take_ring();
            [first, if count == 1 { first } else { self.take_ring() }]
        })
    }

    fn take_ring(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.made += 1;
            self.made - 1
        })
    }

    /// An end says whether it has anything under way.
    pub fn answered(&mut self, now: Tick, by: ProcId, peer: ProcId, quiet: Option<Quiet>, out: &mut Vec<Effect>) {
        let Some(pair) = self.pairs.get_mut(&key(by, peer)) else { return };
        let Stage::Asked(said) = &mut pair.stage else { return };
        said[end_of(by, peer)] = Some(quiet);
        let [Some(first), Some(second)] = *said else { return };
        let is_over = first
            .zip(second)
            .is_some_and(|(first, second)| first.written == second.read && second.written == first.read);
        let (low, high) = key(by, peer);
        if is_over {
            pair.stage = Stage::Closing;
            out.extend([Effect::Unlink { to: low, peer: high }, Effect::Unlink { to: high, peer: low }]);
        } else {
            pair.stage = Stage::Open;
            // Others are asked before it is again.
            pair.quiet_since = now;
            out.extend(first.map(|_| Effect::Keep { to: low, peer: high }));
            out.extend(second.map(|_| Effect::Keep { to: high, peer: low }));
        }
    }

    /// `by` uses the rings to `peer` no more. Believed only where it was told so, or where `peer` is dead.
    pub fn let_go(&mut self, now: Tick, by: ProcId, peer: ProcId, out: &mut Vec<Effect>) {
        let key = key(by, peer);
        if let Some(pair) = self.pairs.get_mut(&key)
            && matches!(pair.stage, Stage::Closing)
        {
            pair.holds[end_of(by, peer)] = false;
            self.free_if_unheld(now, key, out);
        }
    }

    /// A process is dead: its peers read what it published, then let go.
    pub fn died(&mut self, now: Tick, who: ProcId, out: &mut Vec<Effect>) {
        self.dead.insert(who);
        self.waiting.retain(|(a, b)| *a != who && *b != who);
        let peers: Vec<ProcId> =
            self.ends.get(&who).map(|ends| ends.peers.iter().copied().collect()).unwrap_or_default();
        for peer in peers {
            let key = key(who, peer);
            let Some(pair) = self.pairs.get_mut(&key) else { continue };
            // The carrier may be about to look into rings of its dead: it says when it does not any more.
            if who.node() == self.node {
                pair.holds[end_of(who, peer)] = false;
            }
            if who == peer {
                pair.holds = [false; 2];
            }
            pair.stage = Stage::Closing;
            pair.is_wanted = false;
            self.free_if_unheld(now, key, out);
        }
    }

    /// Whether nobody holds a ring of this dead process any more. If so it is forgotten.
    pub fn forget(&mut self, dead: ProcId) -> bool {
        let is_free = self.ends.get(&dead).is_none_or(|ends| ends.peers.is_empty());
        if is_free {
            self.ends.remove(&dead);
            self.dead.remove(&dead);
        }
        is_free
    }

    fn free_if_unheld(&mut self, now: Tick, key: (ProcId, ProcId), out: &mut Vec<Effect>) {
        if self.pairs.get(&key).is_none_or(|pair| pair.holds != [false; 2]) {
            return;
        }
        let Some(pair) = self.pairs.remove(&key) else { return };
        for (end, peer) in [key, (key.1, key.0)] {
            if let Some(ends) = self.ends.get_mut(&end) {
                ends.peers.remove(&peer);
            }
        }
        let ends = [(key.0, pair.bits[0]), (key.1, pair.bits[1])];
        for (end, bit) in ends.into_iter().take(if key.0 == key.1 { 1 } else { 2 }) {
            if self.is_carried(end) {
                self.carrier.give(bit);
            } else if let Some(ends) = self.ends.get_mut(&end) {
                ends.bits.give(bit);
            }
        }
        let count = if key.0 == key.1 { 1 } else { 2 };
        for ring in pair.rings.into_iter().take(count) {
            debug_assert!(!self.free.contains(&ring), "LINK-1: ring {ring} is freed twice");
            self.free.push(ring);
            out.push(Effect::Reset(ring));
        }
        if pair.is_wanted {
            self.waiting.push_back(key);
        }
        self.serve(now, out);
    }

    /// When to look for idle pairs next.
    #[must_use]
    pub fn next_look(&self) -> Option<Tick> {
        let pause_ms = if self.is_short() { RETRY_MS } else { self.idle_ms_max / 2 };
        (self.is_short() || !self.pairs.is_empty()).then(|| self.looked.plus_ms(pause_ms))
    }

    /// Asks pairs that have long been idle and, while somebody waits for rings, as many more as are needed: those first on whose rings
    /// nothing has moved for longest. `level` says how far a ring is.
    pub fn look(&mut self, now: Tick, level: impl Fn(u32) -> Level, out: &mut Vec<Effect>) {
        self.looked = now;
        let mut idle = Vec::new();
        let mut to_come = 0;
        for (key, pair) in &mut self.pairs {
            if key.0 == key.1 {
                continue;
            }
            if !matches!(pair.stage, Stage::Open) {
                to_come += 1;
                continue;
            }
            let levels = pair.rings.map(&level);
            let written = levels[0].tail.wrapping_add(levels[1].tail);
            if written != pair.written {
                (pair.written, pair.quiet_since) = (written, now);
            }
            if levels.iter().all(|level| level.tail == level.head) {
                idle.push((pair.quiet_since, *key));
            }
        }
        idle.sort_unstable();
        let needed = if self.is_short() { (self.waiting.len() + SPARE).saturating_sub(to_come) } else { 0 };
        for (nth, (quiet_since, key)) in idle.into_iter().take(ASKED_MAX).enumerate() {
            if nth >= needed && now.ms_since(quiet_since) < self.idle_ms_max {
                break;
            }
            if let Some(pair) = self.pairs.get_mut(&key) {
                pair.stage = Stage::Asked([None; 2]);
            }
            out.extend([Effect::Ask { to: key.0, peer: key.1 }, Effect::Ask { to: key.1, peer: key.0 }]);
        }
    }
}

/// Bits of the carrier's ready map, which all links to other nodes share: each has one of its own as long as there are some.
#[derive(Default)]
struct CarrierBits {
    /// How many links have each.
    uses: Vec<u32>,
    next: u16,
}

/// As many as a process can have peers on its node.
const CARRIER_BITS: u16 = 4096;

impl CarrierBits {
    fn take(&mut self) -> u16 {
        let bit = self.uses.iter().position(|uses| *uses == 0).unwrap_or(self.uses.len()) as u16;
        let bit = if bit < CARRIER_BITS {
            bit
        } else {
            self.next = (self.next + 1) % CARRIER_BITS;
            self.next
        };
        if self.uses.len() <= usize::from(bit) {
            self.uses.resize(usize::from(bit) + 1, 0);
        }
        self.uses[usize::from(bit)] += 1;
        bit
    }

    fn give(&mut self, bit: u16) {
        self.uses[usize::from(bit)] -= 1;
    }
}

impl Ends {
    /// The lowest that is free: there are never more in use than there are other processes, and a map has a bit for each.
    fn take_bit(&mut self) -> u16 {
        self.bits.take(u16::MAX).expect("there are fewer processes")
    }
}

impl Pair {
    fn seen_by(&self, end: usize) -> Rings {
        let other = 1 - end;
        Rings { out: self.rings[end], out_bit: self.bits[other], inward: self.rings[other], in_bit: self.bits[end] }
    }
}

fn key(a: ProcId, b: ProcId) -> (ProcId, ProcId) {
    (a.min(b), a.max(b))
}

fn end_of(who: ProcId, peer: ProcId) -> usize {
    usize::from(who > peer)
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
