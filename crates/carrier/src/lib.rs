//! What stands between the rings of a node and its sessions with other nodes. To a process here the carrier is whoever it calls there, and
//! whoever calls it from there: it reads the ring that is meant for that one, and writes the one that comes from it.
//!
//! Pure: it works through a [`Body`] for rings and the hub, and through `cluster::Session` for what crosses the network.
//!
//! - `frames`: out of rings into sessions, and the other way round. `post`: what a session refuses for now.
//! - `deaths`: of processes here and there. `positions`: whoever must know that all has come.
//!
//! Invariants:
//!
//! - **CARRY-1** a frame goes on once and in the order of its ring, or its receiver is dead.
//! - **CARRY-2** of a call that certainly has not started on a process there that died, its caller is told so before it is told of the death.
//! - **CARRY-3** what came for a process here before the death of its sender is handed over before that death.
//! - **CUT-1** a position is told only when all that lay in rings or waited before it has been sent; it is reached only when all that came
//!   before it lies in rings or with the hub.

mod body;
mod deaths;
mod frames;
mod positions;
mod post;

use std::collections::{BTreeMap, VecDeque};

use cluster::{Limits, NodeLife, Notice, Session};
use model::{Dead, ProcId, Tick};
use rustc_hash::FxHashMap;
use wire::abroad::{Between, Way};
use wire::peer::Peer;

pub use body::{Body, Frame, FramesByReceiver, ToHub};

use crate::frames::Link;
use crate::positions::Waits;
use crate::post::Post;

/// How many dead processes are known with their heirs: what is on its way to them comes soon or never.
const HEIRS_MAX: usize = 8_192;

/// One node's carrier.
pub struct Carrier {
    me: NodeLife,
    limits: Limits,
    peers: BTreeMap<u32, Neighbour>,
    /// By the process here, then the one there.
    links: BTreeMap<(ProcId, ProcId), Link>,
    dead: Dead,
    /// Of processes that are dead: who has what they left.
    heirs: FxHashMap<ProcId, ProcId>,
    /// Those, in the order of their deaths.
    latest: VecDeque<ProcId>,
    waits: Waits,
    /// Numbers what waits, in the order of its coming.
    serial: u64,
}

/// A node that there is a session with.
struct Neighbour {
    session: Session,
    post: Post,
}

impl Carrier {
    /// Of a node that knows no other yet.
    #[must_use]
    pub fn new(me: NodeLife, limits: Limits) -> Self {
        Self {
            me,
            limits,
            peers: BTreeMap::new(),
            links: BTreeMap::new(),
            dead: Dead::default(),
            heirs: FxHashMap::default(),
            latest: VecDeque::new(),
            waits: Waits::default(),
            serial: 0,
        }
    }

    /// A node belongs to the cluster.
    pub fn add_node(&mut self, node: NodeLife) {
        let session = Session::new(self.me, node, self.limits);
        self.peers.insert(node.node, Neighbour { session, post: Post::default() });
    }

    /// The nodes that there are sessions with.
    pub fn nodes(&self) -> impl Iterator<Item = u32> {
        self.peers.keys().copied()
    }

    /// The session with a node, for lines that come and go.
    pub fn session(&mut self, node: u32) -> Option<&mut Session> {
        self.peers.get_mut(&node).map(|peer| &mut peer.session)
    }

    /// Says something to another node.
    pub fn send(&mut self, node: u32, message: &Between<Peer>) {
        let bytes = wire::encode(message);
        match message.way() {
            Way::Channel(channel) => self.send_item(node, channel, wire::abroad::BETWEEN, bytes),
            Way::News(of) => self.announce(node, of, bytes),
        }
    }

    /// Bytes have come by a line.
    ///
    /// # Errors
    /// If the line is over.
    pub fn receive(
        &mut self,
        now: Tick,
        body: &mut impl Body,
        node: u32,
        line: u64,
        bytes: &[u8],
    ) -> Result<(), cluster::Error> {
        let Some(peer) = self.peers.get_mut(&node) else { return Ok(()) };
        let mut came = Vec::new();
        let result = peer.session.receive(now, line, bytes, |arrived| frames::take_up(arrived, &mut came));
        for arrival in came {
            self.on_arrival(body, node, arrival);
        }
        self.look_at_notices(body, node);
        result
    }

    /// After time has passed, a line has come up, or something was taken from a session: what waited goes on.
    pub fn look_at_notices(&mut self, body: &mut impl Body, node: u32) {
        while let Some(notice) = self.peers.get_mut(&node).and_then(|peer| peer.session.next_notice()) {
            match notice {
                Notice::Room(channel) => self.post_again(node, channel),
                Notice::RoomForNews => self.announce_again(node),
                Notice::Reached(_) => self.look_at_positions(body),
                Notice::Up | Notice::Silent(_) => {}
            }
        }
        self.look_at_flushes(body);
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Nothing is under way: all that came lies in rings, every call is answered, and nobody waits for a position.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.links.values().all(Link::is_idle)
            && self.waits.is_empty()
            && self.peers.values().all(|peer| peer.post.is_empty())
    }
}
