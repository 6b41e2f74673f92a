//! What a carrier can do: read and write rings, settle claims in them, tell its node's hub.
//!
//! *Here* is a process of this node, *there* one of another, for which the carrier stands in.

use model::ProcId;
use wire::abroad::{Between, Death};
use wire::frame::Header;
use wire::peer::Peer;

/// A frame's header and body.
pub type Frame = (Header, Vec<u8>);
/// Frames of one process for others, by receiver.
pub type FramesByReceiver = Vec<(ProcId, Vec<Frame>)>;

/// What a carrier says to the hub of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToHub {
    /// Another node says this.
    Said {
        /// The node.
        node: u32,
        /// What it says.
        message: Between<Peer>,
    },
    /// A process there is dead.
    Died {
        /// As its node says it.
        death: Death,
        /// The last that it wrote to processes here, and what was sent to it and has not started: for them to read before they hear of the
        /// death.
        last: FramesByReceiver,
    },
    /// A frame has come for a process here from one there, and there are no rings for it.
    WantLink {
        /// The one here.
        here: ProcId,
        /// The one there.
        there: ProcId,
    },
    /// The carrier uses the rings of these two no more.
    LinkClosed {
        /// The one here.
        here: ProcId,
        /// The one there.
        there: ProcId,
    },
    /// Answers `Carrier::flush`: how much has been sent to each node.
    Flushed {
        /// As asked.
        ticket: u64,
        /// How much, by node.
        sent: Vec<(u32, u64)>,
    },
    /// Answers `Carrier::remove_node`.
    Parted {
        /// The node.
        node: u32,
        /// The last that its processes wrote to those here, and what was sent to them and certainly has not started: to be read before they
        /// are dead.
        last: Vec<(ProcId, FramesByReceiver)>,
    },
    /// Answers `Carrier::reach`.
    Reached {
        /// As asked.
        ticket: u64,
    },
}

/// See the module's documentation.
pub trait Body {
    /// How many frames lie in the ring from `here` to `there`.
    fn published(&mut self, here: ProcId, there: ProcId) -> usize;
    /// The next frame in the ring from `here` to `there`.
    fn read(&mut self, here: ProcId, there: ProcId) -> Option<Frame>;
    /// A call has come out of a ring and is about to be sent: it cannot be taken back in the ring any more. False: it was.
    fn start(&mut self, here: ProcId, there: ProcId, frame: &Frame) -> bool;
    /// Writes into the ring to `here`, in the name of `there`. None: it is written; else there was no room.
    fn write(&mut self, here: ProcId, there: ProcId, frame: Frame) -> Option<Frame>;
    /// Takes a call back that was written into the ring to `here`. False: it has started, or was answered.
    fn take_back(&mut self, here: ProcId, there: ProcId, request: u64) -> bool;
    /// `here` is dead: the calls written into its ring that it has not started.
    fn unstarted(&mut self, here: ProcId, there: ProcId) -> Vec<u64>;
    /// `here` is dead: the frames written into its ring that it has not read, other than calls.
    fn unread(&mut self, here: ProcId, there: ProcId) -> Vec<Frame>;
    /// Says something to the hub. What is said first arrives first.
    fn tell_hub(&mut self, message: ToHub);
}
