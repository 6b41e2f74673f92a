//! What a session has no room for now, in order. Bounded by those it comes from: a ring is read no further while a frame of its waits.

use std::collections::{BTreeMap, VecDeque};

use cluster::{Channel, SendError};
use wire::abroad::FRAME;

use crate::{Carrier, Neighbour};

/// An item that waits.
struct Waiting {
    serial: u64,
    kind: u8,
    bytes: Vec<u8>,
}

#[derive(Default)]
pub(crate) struct Post {
    items: BTreeMap<Channel, VecDeque<Waiting>>,
    /// News that wait: whose death, and what is said.
    news: VecDeque<(u64, Option<u16>, Vec<u8>)>,
}

impl Post {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.news.is_empty()
    }

    /// The number of what has waited longest.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let items = self.items.values().filter_map(|queue| queue.front()).map(|waiting| waiting.serial);
        items.chain(self.news.front().map(|(serial, ..)| *serial)).min()
    }

    pub(crate) fn has_waiting(&self, channel: Channel) -> bool {
        self.items.contains_key(&channel)
    }

    /// All frames that wait.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        let all = self.items.values().flatten().filter(|waiting| waiting.kind == FRAME);
        all.map(|waiting| &waiting.bytes[..])
    }

    /// Takes out the frames of a channel for which this says so.
    pub(crate) fn take(&mut self, channel: Channel, mut is_it: impl FnMut(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let Some(queue) = self.items.get_mut(&channel) else { return Vec::new() };
        let mut taken = Vec::new();
        queue.retain_mut(|waiting| {
            let is_taken = waiting.kind == FRAME && is_it(&waiting.bytes);
            if is_taken {
                taken.push(std::mem::take(&mut waiting.bytes));
            }
            !is_taken
        });
        if queue.is_empty() {
            self.items.remove(&channel);
        }
        taken
    }
}

/// SESSION-2: what a dead process has left goes before the news of its death, whether its readers read or not. False: not yet, since one that
/// had its slot before is dying.
fn send_last_words(peer: &mut Neighbour, slot: u16, until: u64) -> bool {
    let Neighbour { session, post } = peer;
    let mut is_done = true;
    post.items.retain(|channel, queue| {
        while channel.from == slot
            && let Some(Waiting { kind, bytes, .. }) = queue.front().filter(|waiting| waiting.serial < until)
        {
            if session.send_last(*channel, *kind, bytes) == Err(SendError::Full) {
                is_done = false;
                break;
            }
            queue.pop_front();
        }
        !queue.is_empty()
    });
    is_done
}

impl Carrier {
    /// At once, or behind what waits for this channel. Frames that are too large have been refused before; a hub's message that is, is lost.
    pub(crate) fn send_item(&mut self, node: u32, channel: Channel, kind: u8, bytes: Vec<u8>) {
        let serial = self.next_serial();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if !peer.post.has_waiting(channel) {
            match peer.session.send(channel, kind, &bytes) {
                Ok(()) | Err(SendError::Ended | SendError::TooLarge(_)) => return,
                Err(SendError::Full) => {}
            }
        }
        peer.post.items.entry(channel).or_default().push_back(Waiting { serial, kind, bytes });
    }

    /// Behind what waits, of whose death it is.
    pub(crate) fn announce(&mut self, node: u32, of: Option<u16>, bytes: Vec<u8>) {
        let serial = self.next_serial();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.post.news.push_back((serial, of, bytes));
        self.announce_again(node);
    }

    pub(crate) fn announce_again(&mut self, node: u32) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        while let Some((serial, of, _)) = peer.post.news.front() {
            let (serial, of) = (*serial, *of);
            if of.is_some_and(|of| !send_last_words(peer, of, serial)) {
                return;
            }
            let Some((_, _, bytes)) = peer.post.news.front() else { return };
            match peer.session.announce(of, wire::abroad::BETWEEN, bytes) {
                Ok(()) | Err(SendError::Ended | SendError::TooLarge(_)) => drop(peer.post.news.pop_front()),
                Err(SendError::Full) => return,
            }
        }
    }

    pub(crate) fn post_again(&mut self, node: u32, channel: Channel) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let mut queue = peer.post.items.remove(&channel).unwrap_or_default();
        while let Some(Waiting { kind, bytes, .. }) = queue.front() {
            match peer.session.send(channel, *kind, bytes) {
                Ok(()) | Err(SendError::Ended | SendError::TooLarge(_)) => drop(queue.pop_front()),
                Err(SendError::Full) => break,
            }
        }
        if !queue.is_empty() {
            peer.post.items.insert(channel, queue);
        }
        self.announce_again(node);
    }
}
