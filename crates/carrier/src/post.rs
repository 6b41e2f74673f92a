//! What a session has no room for now, in order. Bounded by those it comes from: a ring is read no further while a frame of its waits.

use std::collections::{BTreeMap, VecDeque};

use cluster::{Channel, SendError};

use crate::Carrier;

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

    /// Whether anything of this slot's waits: news of its death come behind it.
    fn has_waiting_of(&self, slot: u16) -> bool {
        self.items.keys().any(|channel| channel.from == slot)
    }

    /// Its receiver is dead.
    pub(crate) fn drop_channel(&mut self, channel: Channel) {
        self.items.remove(&channel);
    }
}

impl Carrier {
    /// False: it waits.
    pub(crate) fn send_item(&mut self, node: u32, channel: Channel, kind: u8, bytes: Vec<u8>) -> bool {
        let serial = self.next_serial();
        let Some(peer) = self.peers.get_mut(&node) else { return true };
        if !peer.post.has_waiting(channel) {
            match peer.session.send(channel, kind, &bytes) {
                Ok(()) | Err(SendError::Ended | SendError::TooLarge(_)) => return true,
                Err(SendError::Full) => {}
            }
        }
        peer.post.items.entry(channel).or_default().push_back(Waiting { serial, kind, bytes });
        false
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
        while let Some((_, of, bytes)) = peer.post.news.front() {
            if of.is_some_and(|of| peer.post.has_waiting_of(of)) {
                return;
            }
            match peer.session.announce(*of, wire::abroad::BETWEEN, bytes) {
                Ok(()) | Err(SendError::Ended | SendError::TooLarge(_)) => drop(peer.post.news.pop_front()),
                Err(SendError::Full) => return,
            }
        }
    }

    pub(crate) fn post_again(&mut self, node: u32, channel: Channel) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let Some(queue) = peer.post.items.get_mut(&channel) else { return };
        while let Some(Waiting { kind, bytes, .. }) = queue.front() {
            match peer.session.send(channel, *kind, bytes) {
                Ok(()) | Err(SendError::Ended | SendError::TooLarge(_)) => drop(queue.pop_front()),
                Err(SendError::Full) => return,
            }
        }
        peer.post.items.remove(&channel);
        self.announce_again(node);
    }
}
