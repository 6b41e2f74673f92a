//! How much a session keeps, and how long it waits.

use wire::session::{HEAD_BYTES, ITEM_BYTES_MAX, PIECE_BYTES_MAX};

/// The bounds of a session. Both ends may have different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// An item larger than this is sent in pieces.
    pub piece_bytes_max: usize,
    /// What of a channel may be on its way to us or held by us, if it is more than one item. The peer is told.
    pub window_bytes: u32,
    /// What of a channel may wait to be sent, if it is more than one item.
    pub queue_bytes_max: usize,
    /// What of all channels may wait, except for the first item of each.
    pub queued_bytes_max: usize,
    /// What news may wait.
    pub news_bytes_max: usize,
    /// Channels that have something waiting or on its way.
    pub channels_max: usize,
    /// What is kept until the peer has it.
    pub resend_bytes_max: usize,
    /// That part of it which items do not use, but news, credit and marks.
    pub reserve_bytes: usize,
    /// What is taken out of its queue before the line asks for it. The more, the longer a small item waits behind others.
    pub ahead_bytes: usize,
    /// What may come before the peer is told at once that it has.
    pub unacknowledged_bytes: u64,
    /// When it is told at the latest.
    pub acknowledge_ms: u64,
    /// A line on which nothing was sent for so long is used, so that the peer knows it works.
    pub idle_ms: u64,
    /// A line on which nothing has come for so long is given up.
    pub silent_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            piece_bytes_max: PIECE_BYTES_MAX,
            window_bytes: 1024 * 1024,
            queue_bytes_max: 1024 * 1024,
            queued_bytes_max: 64 * 1024 * 1024,
            news_bytes_max: 4 * 1024 * 1024,
            channels_max: 64 * 1024,
            resend_bytes_max: 8 * 1024 * 1024,
            reserve_bytes: 128 * 1024,
            ahead_bytes: 256 * 1024,
            unacknowledged_bytes: 256 * 1024,
            acknowledge_ms: 5,
            idle_ms: 2_000,
            silent_ms: 8_000,
        }
    }
}

impl Limits {
    /// # Panics
    /// If a session with these could not go on.
    pub(crate) fn check(&self) {
        assert!(
            (8..=PIECE_BYTES_MAX).contains(&self.piece_bytes_max),
            "a piece fits into an envelope, and holds something"
        );
        assert!(self.queue_bytes_max <= ITEM_BYTES_MAX, "the peer expects no more last words");
        let piece = HEAD_BYTES + self.piece_bytes_max;
        assert!(piece + self.reserve_bytes <= self.resend_bytes_max, "a piece fits into what is kept");
        assert!(self.reserve_bytes >= 2 * HEAD_BYTES + 16, "a mark and an entry of credit fit into the reserve");
        assert!(
            self.unacknowledged_bytes < self.resend_bytes_max as u64,
            "what is kept is acknowledged before it is full"
        );
        assert!(self.idle_ms < self.silent_ms, "a line that is used is not given up");
    }
}
