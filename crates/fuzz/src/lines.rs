//! What comes by a line between two nodes.

use carrier::{Body, Carrier, Frame, ToHub};
use cluster::{Hold, Limits, Session};
use model::{ProcId, Tick};
use wire::abroad::Death;
use wire::session::{HEAD_BYTES, Head, Hello, NodeLife, Refusal};

pub(crate) const ME: NodeLife = NodeLife { node: 1, life: 3 };
pub(crate) const PEER: NodeLife = NodeLife { node: 2, life: 4 };

/// The first bytes of a line, and the envelopes that there are besides.
pub(crate) fn hellos(bytes: &[u8]) {
    if let Ok(Some((hello, length))) = cluster::read_hello(bytes) {
        assert!(length <= bytes.len());
        let _ = cluster::check(&hello, ME);
        let _ = Session::new(ME, PEER, Limits::default()).answer(Tick(1), &hello);
    }
    let _ = (Hello::read(bytes), Refusal::read(bytes));
    if let Some(head) = bytes.first_chunk::<HEAD_BYTES>()
        && let Ok(head) = Head::from_bytes(*head)
    {
        assert!(head.envelope_bytes() >= HEAD_BYTES);
    }
    // The answer to one's own hello.
    let mut dialled = Session::new(ME, PEER, Limits::default());
    let line = dialled.dial(Tick(1)).expect("the session goes on");
    let _ = dialled.receive(Tick(2), line, bytes, |_| Hold::Done);
}

/// Rings with room for everything, and a hub that only counts.
#[derive(Default)]
struct Rings {
    told: usize,
}

impl Body for Rings {
    fn published(&mut self, _: ProcId, _: ProcId) -> usize {
        0
    }

    fn read(&mut self, _: ProcId, _: ProcId) -> Option<Frame> {
        None
    }

    fn start(&mut self, _: ProcId, _: ProcId, _: &Frame) -> bool {
        true
    }

    fn write(&mut self, _: ProcId, _: ProcId, frame: Frame) -> Option<Frame> {
        if frame.1.len().is_multiple_of(2) { None } else { Some(frame) }
    }

    fn take_back(&mut self, _: ProcId, _: ProcId, request: u64) -> bool {
        request.is_multiple_of(2)
    }

    fn unstarted(&mut self, _: ProcId, _: ProcId) -> Vec<u64> {
        vec![1]
    }

    fn unread(&mut self, _: ProcId, _: ProcId) -> Vec<Frame> {
        Vec::new()
    }

    fn tell_hub(&mut self, _: ToHub) {
        self.told += 1;
    }
}

/// Envelopes of a member, all that they carry, and the end of two who hear of them.
pub(crate) fn carrier(bytes: &[u8]) {
    let (mut carrier, mut rings) = (Carrier::new(ME, Limits::default()), Rings::default());
    carrier.add_node(PEER);
    let (here, there) = (ProcId::new(1, 1, 0), ProcId::new(2, 1, 0));
    carrier.on_linked(&mut rings, here, there);
    let hello = Hello { from: PEER, to: ME, is_resumed: false, line: 1, received: 0, window: 1 << 20 };
    let line = carrier.session(2).expect("it was added").answer(Tick(1), &hello).expect("a hello that is right");
    let (one, other) = bytes.split_at(bytes.len() / 3);
    for (at, bytes) in [one, other].into_iter().enumerate() {
        if carrier.receive(Tick(2 + at as u64), &mut rings, 2, line, bytes).is_err() {
            break;
        }
    }
    let mut out = Vec::new();
    if let Some(session) = carrier.session(2) {
        session.take(Tick(9), 1 << 20, &mut out);
    }
    let exit = model::WorkerExit::Unknown;
    let death = Death { peer: here, exit, heir: None, job: None, calls: Vec::new(), is_old: false };
    carrier.on_died_here(&mut rings, death, &[2]);
    carrier.remove_node(&mut rings, 2);
}
