//! What is under way between processes and nodes, and everything else that happens later.
//!
//! A link keeps the order of what is sent over it, as rings and streams do. Losing a message delays it
//! and all behind it. Requests that carry their sender's id for them may overtake others and may arrive
//! twice.

use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher};
use std::mem;

use hub::Past;
use model::{Bulk, Place, ProcId, Tick, WorkerExit};
use rustc_hash::FxHashMap;

use crate::abroad::pid_of;
use crate::looks::{Look, Seen};
use crate::process::{Frame, FromNode, ToNode};
use crate::refs::Number;
use crate::values::{Pull, Waiter};

/// A process of a node of this run.
pub(crate) type Pid = (usize, ProcId);

/// What happens when its time comes.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    ToNode {
        from: Pid,
        message: Box<ToNode>,
    },
    FromNode {
        to: Pid,
        message: Box<FromNode>,
    },
    Frame {
        from: Pid,
        to: Pid,
        frame: Frame,
    },
    /// A frame to a process of another node, on its way into the carrier's ring.
    Outward {
        from: Pid,
        to: ProcId,
        frame: Frame,
    },
    /// There may be room in the ring from a carrier to a process.
    Room {
        here: ProcId,
        there: ProcId,
    },
    /// Bytes on a line between two nodes.
    Bytes {
        from: usize,
        to: usize,
        line: u64,
        bytes: Vec<u8>,
    },
    /// A node dials another.
    Dial {
        from: usize,
        to: usize,
    },
    /// A node finds that its line to another is closed.
    Closed {
        node: usize,
        other: usize,
        line: u64,
    },
    /// A node looks after its session with another.
    SessionTick {
        node: usize,
        peer: u32,
    },
    /// A node wants to belong to the cluster.
    Enters {
        node: usize,
    },
    /// A node that is to end does.
    EndNode {
        node: usize,
    },
    /// A node that is dead is found to be.
    Verdict {
        node: usize,
    },
    /// A worker that was asked for is up, or failed to start.
    Forked {
        process: Pid,
        is_up: bool,
    },
    /// A node has started the process that takes over from the dead.
    KeeperStarted {
        process: Pid,
        past: Past,
    },
    /// A process ends, if it still lives.
    Kill {
        process: Pid,
        exit: WorkerExit,
    },
    /// Its node sees the end of a process's connection.
    HungUp {
        process: Pid,
    },
    /// Its node sees that a process has ended.
    Ended {
        process: Pid,
        exit: WorkerExit,
    },
    /// What a worker computes is computed.
    Computed {
        process: Pid,
        serial: u64,
    },
    /// A worker looks whether there is room for its answer.
    Answer {
        process: Pid,
    },
    /// A worker lets go of a reference that it kept beyond the call.
    LetGo {
        process: Pid,
        slot: owner::Slot,
    },
    /// A process reads a generator that it called.
    Read {
        process: Pid,
        stream: owner::StreamKey,
    },
    /// A process is asked to move values to files.
    MakeRoom {
        process: Pid,
    },
    /// The file that a process writes is written.
    Written {
        process: Pid,
    },
    /// A process looks for a value that somebody did not find.
    Look {
        process: Pid,
        look: Look,
    },
    /// What it has found is known.
    Looked {
        process: Pid,
        look: Look,
        seen: Seen,
    },
    /// A node asks another for a value.
    Pull {
        node: usize,
        pull: Pull,
    },
    /// A value has come to a node.
    Pulled {
        node: usize,
        pull: Pull,
        number: Number,
    },
    /// A node asks another whether a value is there.
    Probe {
        node: usize,
        to: Waiter,
        bulk: Bulk,
    },
    /// A node is to drop copies, and to move what it keeps for others.
    NodeRoom {
        node: usize,
    },
    /// What it keeps for others is written to files.
    KeptWritten {
        node: usize,
        bulks: Vec<Bulk>,
    },
    /// A node looks whether what others have copies of is there still.
    LookAtValues {
        node: usize,
    },
    /// A process asks again for what could not be had.
    AskAgain {
        process: Pid,
        request: u64,
    },
    /// A program lets go of a value that it looked at.
    Unpin {
        process: Pid,
        place: Place,
    },
    /// A program takes its next step.
    Step {
        process: Pid,
    },
    /// An owner looks at the clock.
    OwnerTick {
        process: Pid,
    },
    /// A scheduler looks at the clock.
    NodeTick {
        node: usize,
    },
    /// A stopped process runs on.
    Resume {
        process: Pid,
    },
    /// Faults are over: programs that have nothing left to do may end.
    Healed,
    /// A fault of this kind happens, and the next is planned.
    Fault(Fault),
}

impl Item {
    /// The node that it concerns.
    pub(crate) fn node(&self) -> Option<usize> {
        match self {
            Self::ToNode { from: process, .. }
            | Self::FromNode { to: process, .. }
            | Self::Frame { to: process, .. }
            | Self::Outward { from: process, .. }
            | Self::Forked { process, .. }
            | Self::KeeperStarted { process, .. }
            | Self::Kill { process, .. }
            | Self::HungUp { process }
            | Self::Ended { process, .. }
            | Self::Computed { process, .. }
            | Self::LetGo { process, .. }
            | Self::Read { process, .. }
            | Self::MakeRoom { process }
            | Self::Written { process }
            | Self::Look { process, .. }
            | Self::Looked { process, .. }
            | Self::Unpin { process, .. }
            | Self::AskAgain { process, .. }
            | Self::Answer { process }
            | Self::Step { process }
            | Self::OwnerTick { process }
            | Self::Resume { process } => Some(process.0),
            Self::Room { here, .. } => Some(pid_of(*here).0),
            Self::Bytes { to: node, .. }
            | Self::Dial { from: node, .. }
            | Self::Closed { node, .. }
            | Self::SessionTick { node, .. }
            | Self::Enters { node }
            | Self::EndNode { node }
            | Self::Pull { node, .. }
            | Self::Pulled { node, .. }
            | Self::Probe { node, .. }
            | Self::NodeRoom { node }
            | Self::KeptWritten { node, .. }
            | Self::LookAtValues { node }
            | Self::NodeTick { node } => Some(*node),
            Self::Verdict { .. } | Self::Healed | Self::Fault(_) => None,
        }
    }

    /// What tells it from other items, as far as the order of a run is concerned.
    pub(crate) fn trace(&self, hasher: &mut impl Hasher) {
        mem::discriminant(self).hash(hasher);
        match self {
            Self::ToNode { from, message } => (from, mem::discriminant(&**message)).hash(hasher),
            Self::FromNode { to, message } => (to, mem::discriminant(&**message)).hash(hasher),
            Self::Frame { from, to, frame } => (from, to, mem::discriminant(frame)).hash(hasher),
            Self::Outward { from, to, frame } => (from, to, mem::discriminant(frame)).hash(hasher),
            Self::Room { here, there } => (here, there).hash(hasher),
            Self::Bytes { from, to, line, bytes } => (from, to, line, bytes).hash(hasher),
            Self::Dial { from, to } => (from, to).hash(hasher),
            Self::Closed { node, other, line } => (node, other, line).hash(hasher),
            Self::SessionTick { node, peer } => (node, peer).hash(hasher),
            Self::Forked { process, .. }
            | Self::KeeperStarted { process, .. }
            | Self::Kill { process, .. }
            | Self::HungUp { process }
            | Self::Ended { process, .. }
            | Self::Computed { process, .. }
            | Self::LetGo { process, .. }
            | Self::Read { process, .. }
            | Self::MakeRoom { process }
            | Self::Written { process }
            | Self::Look { process, .. }
            | Self::Looked { process, .. }
            | Self::Unpin { process, .. }
            | Self::AskAgain { process, .. }
            | Self::Answer { process, .. }
            | Self::Step { process }
            | Self::OwnerTick { process }
            | Self::Resume { process } => process.hash(hasher),
            Self::Pull { node, .. }
            | Self::Pulled { node, .. }
            | Self::Probe { node, .. }
            | Self::NodeRoom { node }
            | Self::KeptWritten { node, .. }
            | Self::LookAtValues { node }
            | Self::NodeTick { node }
            | Self::Enters { node }
            | Self::EndNode { node }
            | Self::Verdict { node } => node.hash(hasher),
            Self::Healed => {}
            Self::Fault(fault) => mem::discriminant(fault).hash(hasher),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    KillWorker,
    /// A worker that owns what others may hold.
    KillOwner,
    KillDriver,
    Pause,
    /// A file vanishes, or a value in it is damaged.
    HarmFile,
    /// Somebody needs room in the arena.
    Shortage,
    /// A line between two nodes is cut.
    CutLine,
    /// A whole node dies.
    KillNode,
}

/// Whether what is sent later may arrive sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Kept,
    Loose,
}

/// What keeps its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Link {
    /// Of a node: from whom to whom; `None` is the node itself.
    Within(usize, Option<ProcId>, Option<ProcId>),
    /// A ring to a carrier.
    Outward(ProcId, ProcId),
    /// One direction of a line.
    Line(usize, usize, u64),
}

/// Everything that is still to happen, in order of time; at one time in order of planning, except for
/// what was held back: that comes first.
#[derive(Default)]
pub(crate) struct Queue {
    items: BTreeMap<(Tick, bool, u64), Item>,
    planned: u64,
    latest: FxHashMap<Link, Tick>,
}

impl Queue {
    pub(crate) fn at(&mut self, when: Tick, item: Item) {
        self.planned += 1;
        self.items.insert((when, true, self.planned), item);
    }

    /// Before all else that is planned for this moment.
    pub(crate) fn at_once(&mut self, now: Tick, item: Item) {
        self.planned += 1;
        self.items.insert((now, false, self.planned), item);
    }

    /// Plans the arrival of a message, and returns when that is.
    pub(crate) fn send(&mut self, arrival: Tick, order: Order, item: Item) -> Tick {
        let when = match (order, link_of(&item)) {
            (Order::Kept, Some(link)) => {
                let latest = self.latest.entry(link).or_default();
                *latest = arrival.max(Tick(latest.0 + 1));
                *latest
            }
            _ => arrival,
        };
        self.at(when, item);
        when
    }

    pub(crate) fn next(&mut self) -> Option<(Tick, Item)> {
        self.items.pop_first().map(|((when, _, _), item)| (when, item))
    }

    /// All that lies in a process's rings.
    pub(crate) fn take_all_frames(&mut self, reader: Pid) -> Vec<(Pid, Frame)> {
        let taken = self.items.extract_if(.., |_, item| matches!(item, Item::Frame { to, .. } if *to == reader));
        taken
            .filter_map(|(_, item)| match item {
                Item::Frame { from, frame, .. } => Some((from, frame)),
                _ => None,
            })
            .collect()
    }

    /// A line loses what is on it in this direction, but for so many pieces.
    pub(crate) fn cut(&mut self, from: usize, to: usize, line: u64, arriving: usize) {
        let mut left = arriving;
        let is_lost = |item: &Item| match item {
            Item::Bytes { from: by, to: at, line: on, .. } if (*by, *at, *on) == (from, to, line) => {
                let is_lost = left == 0;
                left = left.saturating_sub(1);
                is_lost
            }
            _ => false,
        };
        let mut is_lost = is_lost;
        self.items.extract_if(.., |_, item| is_lost(item)).for_each(drop);
    }

    /// What a process wrote for one of another node, and is not in the carrier's hands.
    pub(crate) fn take_outward(&mut self, here: Pid, there: ProcId) -> Vec<Frame> {
        let is_theirs = |item: &Item| matches!(item, Item::Outward { from, to, .. } if *from == here && *to == there);
        let taken = self.items.extract_if(.., |_, item| is_theirs(item));
        taken
            .filter_map(|(_, item)| match item {
                Item::Outward { frame, .. } => Some(frame),
                _ => None,
            })
            .collect()
    }

    /// What lies in rings of which this is one end, and somebody who is not alive the other. A carrier stands for those of other nodes.
    pub(crate) fn take_lost(&mut self, dead: Pid, is_alive: impl Fn(&Pid) -> bool) -> Vec<Frame> {
        let is_lost = |item: &Item| {
            matches!(item, Item::Frame { from, to, .. }
                if from.0 == to.0 && ((*from == dead && !is_alive(to)) || (*to == dead && !is_alive(from))))
        };
        let taken = self.items.extract_if(.., |_, item| is_lost(item));
        taken
            .filter_map(|(_, item)| match item {
                Item::Frame { frame, .. } => Some(frame),
                _ => None,
            })
            .collect()
    }

    /// What a dead process had written into its ring to another: that is read before its death is.
    pub(crate) fn take_frames(&mut self, writer: Pid, reader: Pid) -> Vec<Frame> {
        let is_theirs = |item: &Item| matches!(item, Item::Frame { from, to, .. } if *from == writer && *to == reader);
        let taken = self.items.extract_if(.., |_, item| is_theirs(item));
        taken
            .filter_map(|(_, item)| match item {
                Item::Frame { frame, .. } => Some(frame),
                _ => None,
            })
            .collect()
    }
}

fn link_of(item: &Item) -> Option<Link> {
    match item {
        Item::ToNode { from, .. } | Item::HungUp { process: from } | Item::Ended { process: from, .. } => {
            Some(Link::Within(from.0, Some(from.1), None))
        }
        Item::FromNode { to, .. } => Some(Link::Within(to.0, None, Some(to.1))),
        Item::Frame { from, to, .. } => Some(Link::Within(to.0, Some(from.1), Some(to.1))),
        Item::Outward { from, to, .. } => Some(Link::Outward(from.1, *to)),
        Item::Bytes { from, to, line, .. } => Some(Link::Line(*from, *to, *line)),
        _ => None,
    }
}
