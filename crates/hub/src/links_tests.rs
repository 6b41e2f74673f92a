//! A few processes that call each other through links that are always short, in any order of messages, with deaths in the middle.
//!
//! The ends follow the rules of the runtime's `linking`; rings and sockets are queues that a random scheduler moves. Nothing may be lost,
//! run twice or read by the wrong process, nobody waits for ever, and in the end every ring is free.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % bound
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    Call(u64),
    Reply(u64),
}

#[derive(Clone, Copy, Debug)]
enum Said {
    Want { peer: ProcId },
    Idle { peer: ProcId, quiet: Option<Quiet> },
    Closed { peer: ProcId },
}

#[derive(Clone, Copy, Debug)]
enum Heard {
    Effect(Effect),
    Died(ProcId),
}

/// A ring in shared memory: who uses it is up to the ends, as there.
#[derive(Default)]
struct Ring {
    frames: VecDeque<Frame>,
    tail: u64,
    head: u64,
}

struct Link {
    rings: Rings,
    is_held: bool,
    under_way: BTreeSet<u64>,
    stalled: VecDeque<u64>,
    written: u64,
    read: u64,
}

#[derive(Default)]
struct Process {
    links: BTreeMap<ProcId, Link>,
    unlinked: BTreeMap<ProcId, VecDeque<u64>>,
    /// Calls of others that came in, and those that run here.
    incoming: VecDeque<(ProcId, u64)>,
    running: Vec<(ProcId, u64)>,
    inbox: VecDeque<Heard>,
    outbox: VecDeque<Said>,
    is_dead: bool,
}

#[derive(Default)]
struct Call {
    runs: u32,
    answers: u32,
    /// Taken back by its caller before it started.
    is_taken: bool,
    /// One of the two is dead.
    is_lost: bool,
}

impl Call {
    fn has_ended(&self) -> bool {
        self.answers == 1 || self.is_taken || self.is_lost
    }
}

struct World {
    links: Links,
    rings: Vec<Ring>,
    procs: Vec<Process>,
    calls: Vec<Call>,
    chance: Chance,
    now: Tick,
    closed: usize,
    kept: usize,
}

fn id(slot: usize) -> ProcId {
    ProcId::new(1, slot as u16, 1)
}

impl World {
    fn new(seed: u64, procs: usize, rings_max: u32, idle_ms_max: u64) -> Self {
        Self {
            links: Links::new(1, rings_max, idle_ms_max),
            rings: (0..rings_max).map(|_| Ring::default()).collect(),
            procs: (0..procs).map(|_| Process::default()).collect(),
            calls: Vec::new(),
            chance: Chance(seed),
            now: Tick(1_000_000),
            closed: 0,
            kept: 0,
        }
    }

    fn node(&mut self, change: impl FnOnce(&mut Links, Tick, &[Ring], &mut Vec<Effect>)) {
        let mut out = Vec::new();
        change(&mut self.links, self.now, &self.rings, &mut out);
        for effect in out {
            let to = match effect {
                Effect::Linked { to, .. } | Effect::Ask { to, .. } | Effect::Unlink { to, .. } => to,
                Effect::Keep { to, .. } => {
                    self.kept += 1;
                    to
                }
                Effect::Reset(ring) => {
                    self.closed += 1;
                    // LINK-1: nobody alive uses it.
                    let users = self.procs.iter().filter(|process| !process.is_dead);
                    let users = users.flat_map(|process| process.links.values());
                    assert!(users.into_iter().all(|link| link.rings.out != ring && link.rings.inward != ring));
                    self.rings[ring as usize] = Ring::default();
                    continue;
                }
            };
            self.procs[usize::from(to.slot())].inbox.push_back(Heard::Effect(effect));
        }
    }

    fn call(&mut self, from: usize, to: usize) {
        let call = self.calls.len() as u64;
        self.calls.push(Call::default());
        self.send_call(from, id(to), call);
    }

    fn send_call(&mut self, from: usize, peer: ProcId, call: u64) {
        let process = &mut self.procs[from];
        match process.links.get_mut(&peer) {
            Some(link) if link.is_held => link.stalled.push_back(call),
            Some(link) => {
                link.under_way.insert(call);
                self.write(from, peer, Frame::Call(call));
            }
            None => {
                let waiting = process.unlinked.entry(peer).or_default();
                waiting.push_back(call);
                if waiting.len() == 1 {
                    process.outbox.push_back(Said::Want { peer });
                }
            }
        }
    }

    fn write(&mut self, from: usize, peer: ProcId, frame: Frame) {
        let link = self.procs[from].links.get_mut(&peer).expect("LINK-2: a link with a call on it is closed");
        let ring = &mut self.rings[link.rings.out as usize];
        assert_eq!(link.written, ring.tail, "LINK-1: somebody else writes this ring");
        link.written += 16;
        ring.tail += 16;
        ring.frames.push_back(frame);
    }

    fn read(&mut self, at: usize, peer: ProcId) {
        while let Some(link) = self.procs[at].links.get_mut(&peer)
            && let ring = &mut self.rings[link.rings.inward as usize]
            && let Some(frame) = ring.frames.pop_front()
        {
            assert_eq!(link.read, ring.head, "LINK-1: somebody else reads this ring");
            link.read += 16;
            ring.head += 16;
            match frame {
                Frame::Call(call) => self.procs[at].incoming.push_back((peer, call)),
                Frame::Reply(call) => {
                    assert!(link.under_way.remove(&call), "a reply to somebody else's call");
                    self.calls[call as usize].answers += 1;
                }
            }
        }
    }

    fn hear(&mut self, at: usize) {
        match self.procs[at].inbox.pop_front() {
            None => {}
            Some(Heard::Died(peer)) => {
                self.read(at, peer);
                let process = &mut self.procs[at];
                process.incoming.retain(|(caller, _)| *caller != peer);
                process.running.retain(|(caller, _)| *caller != peer);
                let mut lost: Vec<u64> = process.unlinked.remove(&peer).into_iter().flatten().collect();
                if let Some(link) = process.links.remove(&peer) {
                    lost.extend(link.under_way.iter().chain(&link.stalled));
                    process.outbox.push_back(Said::Closed { peer });
                }
                lost.iter().for_each(|call| self.calls[*call as usize].is_lost = true);
            }
            Some(Heard::Effect(Effect::Linked { peer, rings, .. })) => {
                let link = Link {
                    rings,
                    is_held: false,
                    under_way: BTreeSet::new(),
                    stalled: VecDeque::new(),
                    written: 0,
                    read: 0,
                };
                let process = &mut self.procs[at];
                assert!(process.links.insert(peer, link).is_none(), "linked twice");
                for call in process.unlinked.remove(&peer).unwrap_or_default() {
                    self.send_call(at, peer, call);
                }
            }
            Some(Heard::Effect(Effect::Ask { peer, .. })) => {
                self.read(at, peer);
                let process = &mut self.procs[at];
                let is_expected = process.incoming.iter().any(|(caller, _)| *caller == peer);
                let quiet = process.links.get_mut(&peer).and_then(|link| {
                    let is_idle = link.under_way.is_empty() && link.stalled.is_empty() && !is_expected;
                    link.is_held = is_idle;
                    is_idle.then_some(Quiet { written: link.written, read: link.read })
                });
                process.outbox.push_back(Said::Idle { peer, quiet });
            }
            Some(Heard::Effect(Effect::Keep { peer, .. })) => {
                let Some(link) = self.procs[at].links.get_mut(&peer) else { return };
                link.is_held = false;
                for call in std::mem::take(&mut link.stalled) {
                    self.send_call(at, peer, call);
                }
            }
            Some(Heard::Effect(Effect::Unlink { peer, .. })) => {
                let process = &mut self.procs[at];
                let Some(link) = process.links.remove(&peer) else { return };
                assert!(link.under_way.is_empty() && link.is_held, "LINK-2: closed while a call is under way");
                let here = process.incoming.iter().chain(&process.running);
                assert!(here.into_iter().all(|(caller, _)| *caller != peer), "LINK-2: closed while one is here");
                process.outbox.push_back(Said::Closed { peer });
                for call in link.stalled {
                    self.send_call(at, peer, call);
                }
            }
            Some(Heard::Effect(Effect::Reset(_))) => unreachable!("said to nobody"),
        }
    }

    fn say(&mut self, at: usize) {
        let who = id(at);
        let Some(said) = self.procs[at].outbox.pop_front() else { return };
        let is_alive = |world: &Self, peer: ProcId| !world.procs[usize::from(peer.slot())].is_dead;
        match said {
            Said::Want { peer } if is_alive(self, peer) => {
                self.node(|links, now, _, out| links.want(now, who, peer, out))
            }
            Said::Want { .. } => {}
            Said::Idle { peer, quiet } => self.node(|links, now, _, out| links.answered(now, who, peer, quiet, out)),
            Said::Closed { peer } => self.node(|links, now, _, out| links.let_go(now, who, peer, out)),
        }
    }

    fn look(&mut self) {
        if self.links.next_look().is_some_and(|next| next <= self.now) {
            self.node(|links, now, rings, out| {
                let level = |ring: u32| Level { tail: rings[ring as usize].tail, head: rings[ring as usize].head };
                links.look(now, level, out);
            });
        }
    }

    fn kill(&mut self, at: usize) {
        self.procs[at].is_dead = true;
        self.procs[at].inbox.clear();
        self.procs[at].outbox.clear();
        for other in self.procs.iter_mut().filter(|process| !process.is_dead) {
            other.inbox.push_back(Heard::Died(id(at)));
        }
        self.node(|links, now, _, out| links.died(now, id(at), out));
    }

    /// One thing happens somewhere.
    fn step(&mut self) {
        let at = self.chance.below(self.procs.len());
        if self.procs[at].is_dead {
            return;
        }
        match self.chance.below(6) {
            0 => self.hear(at),
            1 => self.say(at),
            2 => {
                let peers: Vec<ProcId> = self.procs[at].links.keys().copied().collect();
                if !peers.is_empty() {
                    let peer = peers[self.chance.below(peers.len())];
                    self.read(at, peer);
                }
            }
            3 => match self.procs[at].incoming.pop_front() {
                Some((caller, call)) => {
                    let record = &mut self.calls[call as usize];
                    if !record.is_taken {
                        record.runs += 1;
                        self.procs[at].running.push((caller, call));
                    }
                }
                None => {
                    if let Some((caller, call)) = self.procs[at].running.pop() {
                        self.write(at, caller, Frame::Reply(call));
                    }
                }
            },
            4 => {
                self.now = Tick(self.now.0 + self.chance.below(2_000) as u64);
                self.look();
            }
            _ => self.take_back(at),
        }
    }

    /// Takes one call back, if it has not started.
    fn take_back(&mut self, at: usize) {
        if self.chance.below(8) > 0 {
            return;
        }
        for link in self.procs[at].links.values_mut() {
            if let Some(call) = link.under_way.iter().copied().find(|call| self.calls[*call as usize].runs == 0) {
                link.under_way.remove(&call);
                self.calls[call as usize].is_taken = true;
                return;
            }
        }
    }

    fn settle(&mut self) {
        for _ in 0..200_000 {
            let is_done = self.calls.iter().all(Call::has_ended);
            let is_quiet = self.procs.iter().all(|process| process.inbox.is_empty() && process.outbox.is_empty());
            if is_done && is_quiet {
                return;
            }
            self.step();
        }
        let open = self.calls.iter().filter(|call| !call.has_ended()).count();
        panic!("LINK-3: {open} calls wait for ever");
    }
}

fn run(seed: u64, may_die: bool) -> (usize, usize) {
    let mut chance = Chance(seed ^ 0xabcd);
    let procs = 3 + chance.below(4);
    // From one pair at a time to nearly enough.
    let rings_max = 2 + 2 * chance.below(4) as u32;
    let mut world = World::new(seed, procs, rings_max, 1 + chance.below(20) as u64);
    for _ in 0..3_000 {
        let (from, to) = (chance.below(procs), chance.below(procs));
        let live = world.procs.iter().filter(|process| !process.is_dead).count();
        match chance.below(60) {
            0..6 if from != to && !world.procs[from].is_dead && !world.procs[to].is_dead => world.call(from, to),
            6 if may_die && live > 2 && chance.below(10) == 0 => {
                // What the dead one had under way ends with it.
                world.kill(from);
            }
            _ => world.step(),
        }
    }
    for process in world.procs.iter().filter(|process| process.is_dead) {
        let under_way = process.links.values().flat_map(|link| link.under_way.iter().chain(&link.stalled));
        for call in under_way.chain(process.unlinked.values().flatten()) {
            world.calls[*call as usize].is_lost = true;
        }
    }
    world.settle();
    for (number, call) in world.calls.iter().enumerate() {
        assert!(call.runs <= 1 && call.answers <= 1, "call {number} has run {} times", call.runs);
        assert!(call.runs == 1 || call.is_taken || call.is_lost, "call {number} never ran");
        assert!(!call.is_taken || call.runs == 0, "call {number} has run though it was taken back");
    }
    let counts = (world.closed, world.kept);
    for at in 0..procs {
        if !world.procs[at].is_dead {
            world.kill(at);
        }
        assert!(at + 1 < procs || world.links.pairs.is_empty());
    }
    for at in 0..procs {
        assert!(world.links.forget(id(at)), "NODE-1: {at} is held after everybody's death");
    }
    assert_eq!(world.links.free.len(), world.links.made as usize, "a ring is lost");
    assert!(world.links.dead.is_empty() && world.links.ends.is_empty() && world.links.waiting.is_empty());
    counts
}

#[test]
fn link_1_to_3_hold_in_any_order_of_messages() {
    let (mut closed, mut kept) = (0, 0);
    for seed in 0..300 {
        let counts = run(seed, false);
        closed += counts.0;
        kept += counts.1;
    }
    assert!(closed > 5_000 && kept > 300, "{closed} rings freed, {kept} ends told to go on: it proves nothing");
}

#[test]
fn link_1_to_3_hold_if_ends_die_at_any_moment() {
    for seed in 1_000..1_300 {
        run(seed, true);
    }
}

fn linked(out: &[Effect]) -> Vec<(ProcId, ProcId)> {
    out.iter()
        .filter_map(|effect| match effect {
            Effect::Linked { to, peer, .. } => Some((*to, *peer)),
            _ => None,
        })
        .collect()
}

const LEVEL: fn(u32) -> Level = |_| Level { tail: 0, head: 0 };

#[test]
fn link_3_a_pair_without_rings_gets_those_of_an_idle_one() {
    let (a, b, c) = (id(1), id(2), id(3));
    let mut links = Links::new(1, 2, 60_000);
    let mut out = Vec::new();
    links.want(Tick(0), a, b, &mut out);
    assert_eq!(linked(&out), [(b, a), (a, b)]);
    out.clear();
    links.want(Tick(0), a, c, &mut out);
    links.want(Tick(0), c, a, &mut out);
    assert!(out.is_empty() && links.is_short());
    links.look(Tick(1), LEVEL, &mut out);
    assert_eq!(out, [Effect::Ask { to: a, peer: b }, Effect::Ask { to: b, peer: a }]);
    out.clear();
    let quiet = Some(Quiet { written: 0, read: 0 });
    links.answered(Tick(2), a, b, quiet, &mut out);
    assert!(out.is_empty());
    links.answered(Tick(2), b, a, quiet, &mut out);
    assert_eq!(out, [Effect::Unlink { to: a, peer: b }, Effect::Unlink { to: b, peer: a }]);
    out.clear();
    links.let_go(Tick(3), a, b, &mut out);
    // A wants it again before the other has let go.
    links.want(Tick(3), a, b, &mut out);
    assert!(out.is_empty());
    links.let_go(Tick(3), b, a, &mut out);
    assert_eq!(linked(&out), [(c, a), (a, c)]);
    assert!(matches!(out[..2], [Effect::Reset(_), Effect::Reset(_)]) && links.is_short());
}

#[test]
fn link_2_a_call_that_crosses_the_agreement_keeps_the_link() {
    let (a, b) = (id(1), id(2));
    let mut links = Links::new(1, 2, 1);
    let mut out = Vec::new();
    links.want(Tick(0), a, b, &mut out);
    links.look(Tick(5_000), LEVEL, &mut out);
    out.clear();
    links.answered(Tick(5_000), a, b, Some(Quiet { written: 0, read: 0 }), &mut out);
    // B had called since, got its answer, and was idle again when it was asked.
    links.answered(Tick(5_000), b, a, Some(Quiet { written: 48, read: 32 }), &mut out);
    assert_eq!(out, [Effect::Keep { to: a, peer: b }, Effect::Keep { to: b, peer: a }]);
    out.clear();
    links.let_go(Tick(5_000), a, b, &mut out);
    assert!(out.is_empty(), "nobody was told to let go");
}

#[test]
fn link_1_an_end_that_dies_after_letting_go_leaves_the_rings_to_the_other_until_it_does() {
    let (a, b) = (id(1), id(2));
    let mut links = Links::new(1, 2, 1);
    let mut out = Vec::new();
    links.want(Tick(0), a, b, &mut out);
    links.look(Tick(5_000), LEVEL, &mut out);
    for (by, peer) in [(a, b), (b, a)] {
        links.answered(Tick(5_000), by, peer, Some(Quiet { written: 0, read: 0 }), &mut out);
    }
    links.let_go(Tick(5_000), a, b, &mut out);
    out.clear();
    links.died(Tick(6_000), a, &mut out);
    assert!(out.is_empty() && !links.forget(a));
    links.let_go(Tick(6_000), b, a, &mut out);
    assert!(matches!(out[..], [Effect::Reset(_), Effect::Reset(_)]) && links.forget(a));
}

#[test]
fn a_process_that_calls_itself_has_one_ring_until_it_dies() {
    let mut links = Links::new(1, 4, 1);
    let mut out = Vec::new();
    links.want(Tick(0), id(1), id(1), &mut out);
    let [Effect::Linked { to, peer, rings }] = out[..] else { panic!("{out:?}") };
    assert_eq!((to, peer, rings.out, rings.out_bit), (id(1), id(1), rings.inward, rings.in_bit));
    out.clear();
    links.look(Tick(10_000_000), |_| Level { tail: 0, head: 0 }, &mut out);
    assert_eq!(out, [], "it is not asked whether it is idle");
    links.died(Tick(10_000_000), id(1), &mut out);
    assert_eq!(out, [Effect::Reset(rings.out)]);
    assert!(links.forget(id(1)));
}
