//! Two carriers with one session between them, rings that are queues, and hubs that write down what they are told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use carrier::{Body, Carrier, Frame, ToHub};
use cluster::{Limits, NodeLife, read_hello};
use model::{ProcId, Tick, WorkerExit};
use wire::abroad::Death;
use wire::frame::{CALL, Header, REPLY};

pub(crate) const CALLER: ProcId = ProcId::new(1, 1, 1);
pub(crate) const WORKER: ProcId = ProcId::new(2, 7, 1);

/// Rings of one node, and what its hub hears.
#[derive(Default)]
pub(crate) struct Rings {
    /// Written by processes here, not read by the carrier.
    pub(crate) outward: BTreeMap<(ProcId, ProcId), VecDeque<Frame>>,
    /// Written by the carrier, not read by processes here.
    pub(crate) inward: BTreeMap<(ProcId, ProcId), VecDeque<Frame>>,
    /// Calls that processes here have started.
    pub(crate) started: BTreeSet<u64>,
    /// Calls that were taken back in the ring, here or there.
    pub(crate) taken_back: BTreeSet<u64>,
    /// How many frames a ring to a process here has room for.
    pub(crate) room: usize,
    pub(crate) told: Vec<ToHub>,
}

impl Body for Rings {
    fn published(&mut self, here: ProcId, there: ProcId) -> usize {
        self.outward.get(&(here, there)).map_or(0, VecDeque::len)
    }

    fn read(&mut self, here: ProcId, there: ProcId) -> Option<Frame> {
        self.outward.get_mut(&(here, there))?.pop_front()
    }

    fn start(&mut self, _: ProcId, _: ProcId, frame: &Frame) -> bool {
        !self.taken_back.contains(&frame.0.request)
    }

    fn write(&mut self, here: ProcId, there: ProcId, frame: Frame) -> Option<Frame> {
        let ring = self.inward.entry((here, there)).or_default();
        if ring.len() == self.room {
            return Some(frame);
        }
        ring.push_back(frame);
        None
    }

    fn take_back(&mut self, _: ProcId, _: ProcId, request: u64) -> bool {
        !self.started.contains(&request) && self.taken_back.insert(request)
    }

    fn unstarted(&mut self, here: ProcId, there: ProcId) -> Vec<u64> {
        let ring = self.inward.get(&(here, there)).into_iter().flatten();
        let calls = ring.filter(|(header, _)| header.kind == CALL).map(|(header, _)| header.request);
        calls.filter(|request| !self.started.contains(request)).collect()
    }

    fn unread(&mut self, here: ProcId, there: ProcId) -> Vec<Frame> {
        let ring = self.inward.remove(&(here, there)).unwrap_or_default();
        ring.into_iter().filter(|(header, _)| header.kind != CALL).collect()
    }

    fn tell_hub(&mut self, message: ToHub) {
        self.told.push(message);
    }
}

/// One node.
pub(crate) struct End {
    pub(crate) carrier: Carrier,
    pub(crate) rings: Rings,
}

/// Node 1 and node 2, of which the first dials.
pub(crate) struct Pair {
    pub(crate) ends: [End; 2],
    line: u64,
    /// What has come of the hello.
    hello: Option<Vec<u8>>,
    now: Tick,
}

fn life(at: usize) -> NodeLife {
    NodeLife { node: at as u32 + 1, life: at as u64 + 7 }
}

pub(crate) fn call(request: u64) -> Frame {
    (Header { length: 1, kind: CALL, flags: 0, claim: 0, request }, vec![request as u8])
}

pub(crate) fn reply(request: u64) -> Frame {
    (Header { length: 5, kind: REPLY, flags: 0, claim: 0, request }, vec![0, 0, 0, 0])
}

pub(crate) fn exit() -> WorkerExit {
    WorkerExit::Code(1, model::Remains::default())
}

pub(crate) fn death_of(peer: ProcId, heir: Option<ProcId>) -> Death {
    Death { peer, exit: exit(), heir, job: None, calls: Vec::new(), is_old: false }
}

impl Pair {
    pub(crate) fn new(limits: Limits) -> Self {
        let ends = [0, 1].map(|at| {
            let mut carrier = Carrier::new(life(at), limits);
            carrier.add_node(life(1 - at));
            End { carrier, rings: Rings { room: usize::MAX, ..Rings::default() } }
        });
        let mut pair = Self { ends, line: 0, hello: None, now: Tick(1) };
        pair.dial();
        pair
    }

    /// A new line takes the place of the last one.
    pub(crate) fn dial(&mut self) {
        let session = self.ends[0].carrier.session(2).expect("known");
        self.line = session.dial(self.now).expect("no verdict");
        self.hello = Some(Vec::new());
    }

    /// Writes a frame into the ring from `from` to `to`, and has it read.
    pub(crate) fn write(&mut self, from: ProcId, to: ProcId, frame: Frame) {
        let End { carrier, rings } = &mut self.ends[from.node() as usize - 1];
        rings.outward.entry((from, to)).or_default().push_back(frame);
        while carrier.reads(from, to)
            && let Some(frame) = rings.read(from, to)
        {
            carrier.on_frame(rings, from, to, frame);
        }
    }

    /// A process is dead; the other node hears of it.
    pub(crate) fn kill(&mut self, death: Death) {
        let at = death.peer.node() as usize - 1;
        let End { carrier, rings } = &mut self.ends[at];
        carrier.on_died_here(rings, death, &[2 - at as u32]);
    }

    pub(crate) fn link(&mut self, here: ProcId, there: ProcId) {
        let End { carrier, rings } = &mut self.ends[here.node() as usize - 1];
        carrier.on_linked(rings, here, there);
    }

    /// What an end has to send, as it would go on the line.
    pub(crate) fn take(&mut self, at: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let session = self.ends[at].carrier.session(2 - at as u32).expect("known");
        while session.has_output() {
            session.take(self.now, 1 << 16, &mut bytes);
        }
        bytes
    }

    pub(crate) fn give(&mut self, at: usize, bytes: &[u8]) {
        let peer = 2 - at as u32;
        let mut rest = bytes.to_vec();
        if at == 1
            && let Some(hello) = &mut self.hello
        {
            hello.extend_from_slice(bytes);
            let Some((read, length)) = read_hello(hello).expect("a hello") else { return };
            rest = hello.split_off(length);
            self.hello = None;
            self.ends[1].carrier.session(peer).expect("known").answer(self.now, &read).expect("taken");
        }
        let End { carrier, rings } = &mut self.ends[at];
        carrier.receive(self.now, rings, peer, self.line, &rest).expect("honest bytes");
    }

    /// All that is to be sent arrives, until nothing is.
    pub(crate) fn settle(&mut self) {
        loop {
            let bytes = [0, 1].map(|at| self.take(at));
            if bytes.iter().all(Vec::is_empty) {
                return;
            }
            self.give(1, &bytes[0]);
            self.give(0, &bytes[1]);
        }
    }

    /// What `to` finds in its ring from `from`.
    pub(crate) fn ring(&self, from: ProcId, to: ProcId) -> Vec<Frame> {
        let rings = &self.ends[to.node() as usize - 1].rings;
        rings.inward.get(&(to, from)).into_iter().flatten().cloned().collect()
    }

    /// The requests of the frames in a ring.
    pub(crate) fn requests(&self, from: ProcId, to: ProcId) -> Vec<u64> {
        self.ring(from, to).iter().map(|(header, _)| header.request).collect()
    }

    /// What the hub of this end was told since this was last asked.
    pub(crate) fn told(&mut self, at: usize) -> Vec<ToHub> {
        std::mem::take(&mut self.ends[at].rings.told)
    }
}
