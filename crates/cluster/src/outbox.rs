//! HOT: what goes to the peer, and in which order.
//!
//! An item goes straight onto the stream while nothing waits; else into the queue of its channel, and channels take turns, a piece each. News
//! have a queue of their own that goes first, except that news of a death wait until nothing of the dead one's waits (SESSION-2). The dead
//! one's items need no credit then: whoever does not read them must not hold up that others hear of the death.

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::FxHashMap;
use wire::Malformed;
use wire::session::{Channel, HEAD_BYTES, Part, What};

use crate::marks::{Marks, Position};
use crate::queue::{Entry, Put, Queue};
use crate::stream::{Purpose, Stream};
use crate::{Limits, SendError};

/// What an item costs of its channel's window. An empty one costs something too, so that their number is bounded.
#[inline]
pub(crate) fn charge(length: usize) -> u64 {
    (HEAD_BYTES + length) as u64
}

/// A channel that has something waiting, or something that the peer has not got rid of.
#[derive(Default)]
struct Outgoing {
    queue: Queue,
    /// What of it is on its way or held by the peer.
    outstanding: u64,
    /// Stands among those that take turns.
    is_ready: bool,
    /// Last words went beyond the window, and the peer has not got rid of enough yet.
    is_overdrawn: bool,
}

impl Outgoing {
    /// Whether the window permits one more item of this length.
    #[inline]
    fn has_credit(&self, length: usize, window: u64) -> bool {
        self.outstanding == 0 || self.outstanding + charge(length) <= window
    }
}

pub(crate) struct Outbox {
    limits: Limits,
    /// What the peer is ready to hold of each channel; unknown before the first hello.
    window: Option<u64>,
    channels: FxHashMap<u32, Outgoing>,
    /// Those that have something to send and may.
    ready: VecDeque<u32>,
    /// How many items of each sender wait.
    waiting: FxHashMap<u16, u32>,
    news: Queue,
    /// Whether some were told that there is no room, and whether there is some now.
    are_news_refused: bool,
    are_news_relieved: bool,
    /// Of whom there are news that were not sent whole.
    dying: Vec<u16>,
    queued_bytes: usize,
    accepted: u64,
    marks: Marks,
    /// Channels that were told that there is no room.
    refused: BTreeSet<u32>,
    /// Those of them that have room now, perhaps.
    relieved: Vec<Channel>,
    /// Items that went in several pieces and that the peer may not have: the offset behind each.
    large: VecDeque<(u64, Large)>,
}

/// What is remembered of an item whose first pieces the peer has acknowledged, perhaps.
pub(crate) struct Large {
    pub(crate) length: usize,
    pub(crate) beginning: Vec<u8>,
}

impl Outbox {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            window: None,
            channels: FxHashMap::default(),
            ready: VecDeque::new(),
            waiting: FxHashMap::default(),
            news: Queue::default(),
            are_news_refused: false,
            are_news_relieved: false,
            dying: Vec::new(),
            queued_bytes: 0,
            accepted: 0,
            marks: Marks::default(),
            refused: BTreeSet::new(),
            relieved: Vec::new(),
            large: VecDeque::new(),
        }
    }

    /// The peer says what it is ready to hold of each channel.
    pub(crate) fn set_window(&mut self, window: u32) {
        self.window = Some(u64::from(window));
        self.wake(|_| true);
    }

    /// Takes an item: onto the stream if nothing is before it, else into its queue.
    #[inline]
    pub(crate) fn send(
        &mut self,
        stream: &mut Stream,
        channel: Channel,
        kind: u8,
        bytes: &[u8],
    ) -> Result<(), SendError> {
        let is_next = self.ready.is_empty() && self.dying.is_empty() && stream.unsent() < self.limits.ahead_bytes;
        if is_next
            && bytes.len() <= self.limits.piece_bytes_max
            && stream.has_room(bytes.len(), Purpose::Item)
            && let Some(window) = self.window
            && let Some(outgoing) = self.channel_at(channel)
            && outgoing.queue.is_empty()
            && outgoing.has_credit(bytes.len(), window)
        {
            outgoing.outstanding += charge(bytes.len());
            self.accepted += 1;
            stream.append(What::Item(Part::Whole), channel, kind, [bytes, &[]]);
            return Ok(());
        }
        self.enqueue(channel, kind, bytes)
    }

    #[inline]
    fn channel_at(&mut self, channel: Channel) -> Option<&mut Outgoing> {
        let key = key(channel);
        if self.channels.len() >= self.limits.channels_max && !self.channels.contains_key(&key) {
            return None;
        }
        Some(self.channels.entry(key).or_default())
    }

    fn enqueue(&mut self, channel: Channel, kind: u8, bytes: &[u8]) -> Result<(), SendError> {
        if !self.has_room(channel, bytes.len()) {
            return Err(SendError::Full);
        }
        self.queue(channel, kind, bytes);
        Ok(())
    }

    /// Takes an item of a process that is dead, beyond the bounds of its channel.
    pub(crate) fn send_last(&mut self, channel: Channel, kind: u8, bytes: &[u8]) -> Result<(), SendError> {
        let is_overdrawn = self.channels.get(&key(channel)).is_some_and(|outgoing| outgoing.is_overdrawn);
        if is_overdrawn || self.dying.contains(&channel.from) {
            self.refused.insert(key(channel));
            return Err(SendError::Full);
        }
        self.queue(channel, kind, bytes);
        Ok(())
    }

    fn queue(&mut self, channel: Channel, kind: u8, bytes: &[u8]) {
        let (window, cost) = (self.window, Queue::cost(bytes.len()));
        self.accepted += 1;
        let entry = Entry { ticket: self.accepted, length: bytes.len() as u32, kind, behind: None };
        let outgoing = self.channels.entry(key(channel)).or_default();
        outgoing.queue.push(entry, bytes);
        if !outgoing.is_ready && window.is_some_and(|window| outgoing.may_start(window)) {
            outgoing.is_ready = true;
            self.ready.push_back(key(channel));
        }
        *self.waiting.entry(channel.from).or_default() += 1;
        self.marks.on_queued();
        self.queued_bytes += cost;
    }

    /// Whether an item of this length would be taken. If not, its channel is among the relieved when that may have changed.
    pub(crate) fn has_room(&mut self, channel: Channel, length: usize) -> bool {
        let cost = Queue::cost(length);
        let has_room = !self.dying.contains(&channel.from)
            && match self.channels.get(&key(channel)) {
                None => self.channels.len() < self.limits.channels_max,
                Some(outgoing) if outgoing.is_overdrawn => false,
                Some(outgoing) if outgoing.queue.is_empty() => true,
                Some(outgoing) => {
                    outgoing.queue.bytes() + cost <= self.limits.queue_bytes_max
                        && self.queued_bytes + cost <= self.limits.queued_bytes_max
                }
            };
        if !has_room {
            self.refused.insert(key(channel));
        }
        has_room
    }

    /// Takes news. Those that name a sender are about its death: they go behind all that it has sent.
    pub(crate) fn announce(&mut self, behind: Option<u16>, kind: u8, bytes: &[u8]) -> Result<(), SendError> {
        if !self.news.is_empty() && self.news.bytes() + Queue::cost(bytes.len()) > self.limits.news_bytes_max {
            self.are_news_refused = true;
            return Err(SendError::Full);
        }
        self.accepted += 1;
        self.news.push(Entry { ticket: self.accepted, length: bytes.len() as u32, kind, behind }, bytes);
        self.marks.on_queued();
        if let Some(from) = behind {
            self.dying.push(from);
            self.wake(|channel| channel.from == from);
        }
        Ok(())
    }

    /// The peer has got rid of bytes of a channel.
    pub(crate) fn on_credit(&mut self, channel: Channel, bytes: u64) -> Result<(), Malformed> {
        let window = self.window.unwrap_or_default();
        let outgoing = self.channels.get_mut(&key(channel)).filter(|outgoing| outgoing.outstanding >= bytes);
        let outgoing = outgoing.ok_or(Malformed("credit"))?;
        outgoing.outstanding -= bytes;
        if outgoing.is_overdrawn && (outgoing.outstanding == 0 || outgoing.outstanding <= window) {
            outgoing.is_overdrawn = false;
            self.relieve(channel);
        }
        let Some(outgoing) = self.channels.get_mut(&key(channel)) else { return Ok(()) };
        if outgoing.queue.is_empty() {
            if outgoing.outstanding == 0 {
                self.channels.remove(&key(channel));
                if self.channels.len() + 1 == self.limits.channels_max {
                    let all = std::mem::take(&mut self.refused);
                    self.relieved.extend(all.into_iter().map(channel_of));
                }
            }
        } else if !outgoing.is_ready && outgoing.may_start(window) {
            outgoing.is_ready = true;
            self.ready.push_back(key(channel));
        }
        Ok(())
    }

    /// How much was accepted; a mark will tell the peer once all of it is on the stream.
    pub(crate) fn position(&mut self) -> Position {
        let position = Position(self.accepted);
        self.marks.ask(position);
        position
    }

    /// Puts what may go onto the stream, until `about` bytes of it are unsent.
    pub(crate) fn pump(&mut self, stream: &mut Stream, about: usize) {
        while stream.unsent() < about {
            let has_moved = [self.put_news(stream), self.put_mark(stream), self.turn(stream)];
            if has_moved == [false; 3] {
                return;
            }
        }
    }

    /// A piece of the first news, if nothing has to go before it.
    fn put_news(&mut self, stream: &mut Stream) -> bool {
        let Some((entry, _)) = self.news.front() else { return false };
        if entry.behind.is_some_and(|from| self.waiting.contains_key(&from)) {
            return false;
        }
        let about = Channel { from: entry.behind.unwrap_or_default(), to: 0 };
        let put = self.news.put_piece(stream, about, What::News, self.limits.piece_bytes_max);
        if put == Put::All {
            self.large.extend(self.limits.large(&self.news).map(|large| (stream.end(), large)));
            self.news.pop();
            self.marks.on_sent(entry.ticket);
            if self.are_news_refused && self.news.bytes() <= self.limits.news_bytes_max / 2 {
                (self.are_news_refused, self.are_news_relieved) = (false, true);
            }
            if let Some(from) = entry.behind {
                let at = self.dying.iter().position(|dying| *dying == from);
                self.dying
                    .swap_remove(at.expect("SESSION-2: the news of a death hold its sender up until they are sent"));
                let waiting = key(Channel { from, to: 0 })..=key(Channel { from, to: u16::MAX });
                let waiting: Vec<_> = self.refused.range(waiting).copied().collect();
                waiting.into_iter().for_each(|key| self.relieve(channel_of(key)));
            }
        }
        put != Put::Full
    }

    fn put_mark(&mut self, stream: &mut Stream) -> bool {
        let Some(mark) = self.marks.ready().filter(|_| stream.has_room(8, Purpose::Control)) else { return false };
        stream.append(What::Mark, Channel::default(), 0, [&mark.0.to_le_bytes(), &[]]);
        self.marks.on_put(mark);
        true
    }

    /// The turn of a channel: a piece of a large item, or as many small ones.
    fn turn(&mut self, stream: &mut Stream) -> bool {
        let Some(key) = self.ready.front().copied() else { return false };
        let channel = channel_of(key);
        let end = stream.end() + self.limits.piece_bytes_max as u64;
        let before = stream.end();
        let is_ready = loop {
            if stream.end() >= end {
                break true;
            }
            match self.put_item(stream, channel) {
                None => break false,
                Some(Put::Full) => return stream.end() > before,
                Some(Put::Piece | Put::All) => {}
            }
        };
        self.ready.pop_front();
        if is_ready {
            self.ready.push_back(key);
        } else if let Some(outgoing) = self.channels.get_mut(&key) {
            outgoing.is_ready = false;
        }
        true
    }

    /// A piece of the channel's first item; nothing if there is none, or it must wait for credit.
    fn put_item(&mut self, stream: &mut Stream, channel: Channel) -> Option<Put> {
        let outgoing = self.channels.get_mut(&key(channel))?;
        let (entry, bytes) = outgoing.queue.front()?;
        let (length, is_first) = (bytes.len(), !outgoing.queue.has_begun());
        let has_credit = outgoing.has_credit(length, self.window.unwrap_or_default());
        if is_first && !has_credit && !self.dying.contains(&channel.from) {
            return None;
        }
        let is_overdraft = is_first && !has_credit;
        let what = if is_overdraft { What::LastWords } else { What::Item };
        let put = outgoing.queue.put_piece(stream, channel, what, self.limits.piece_bytes_max);
        if put != Put::Full && is_first {
            outgoing.outstanding += charge(length);
            outgoing.is_overdrawn |= is_overdraft;
        }
        if put == Put::All {
            self.large.extend(self.limits.large(&outgoing.queue).map(|large| (stream.end(), large)));
            outgoing.queue.pop();
            let has_room = outgoing.queue.bytes() <= self.limits.queue_bytes_max / 2;
            self.on_sent(channel, &entry);
            if has_room {
                self.relieve(channel);
            }
        }
        Some(put)
    }

    /// An item is on the stream, all of it, that had to wait.
    fn on_sent(&mut self, channel: Channel, entry: &Entry) {
        self.queued_bytes -= Queue::cost(entry.length as usize);
        self.marks.on_sent(entry.ticket);
        if let Some(count) = self.waiting.get_mut(&channel.from) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&channel.from);
            }
        }
    }

    /// Channels that wait for credit take turns again if they may.
    fn wake(&mut self, which: impl Fn(Channel) -> bool) {
        let Some(window) = self.window else { return };
        let mut woken = Vec::new();
        for (key, outgoing) in &mut self.channels {
            let channel = channel_of(*key);
            let may_start = outgoing.may_start(window) || self.dying.contains(&channel.from);
            if which(channel) && !outgoing.is_ready && !outgoing.queue.is_empty() && may_start {
                outgoing.is_ready = true;
                woken.push(*key);
            }
        }
        woken.sort_unstable();
        self.ready.extend(woken);
    }

    fn relieve(&mut self, channel: Channel) {
        if self.refused.remove(&key(channel)) {
            self.relieved.push(channel);
        }
    }

    /// Channels that were refused and may have room now.
    pub(crate) fn take_relieved(&mut self) -> Vec<Channel> {
        std::mem::take(&mut self.relieved)
    }

    /// Whether news were refused and there may be room for them now.
    pub(crate) fn take_news_relieved(&mut self) -> bool {
        std::mem::take(&mut self.are_news_relieved)
    }

    /// The peer has all before this.
    pub(crate) fn on_acknowledged(&mut self, tail: u64) {
        while self.large.front().is_some_and(|(end, _)| *end <= tail) {
            self.large.pop_front();
        }
    }

    /// The item in several pieces whose last one ends at this offset.
    pub(crate) fn large_until(&self, offset: u64) -> Option<&Large> {
        self.large.iter().find(|(end, _)| *end == offset).map(|(_, large)| large)
    }

    /// What was never sent whole, news last.
    pub(crate) fn unsent(&self) -> impl Iterator<Item = (Option<Channel>, Entry, &[u8])> {
        let mut keys: Vec<_> = self.channels.keys().copied().collect();
        keys.sort_unstable();
        let items = keys.into_iter().flat_map(|key| {
            self.channels[&key].queue.iter().map(move |(entry, bytes)| (Some(channel_of(key)), entry, bytes))
        });
        items.chain(self.news.iter().map(|(entry, bytes)| (None, entry, bytes)))
    }

    /// Bytes that wait, without news.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    pub(crate) fn channels(&self) -> usize {
        self.channels.len()
    }
}

impl Outgoing {
    /// Whether its first item may go, or go on.
    fn may_start(&self, window: u64) -> bool {
        self.queue.has_begun() || self.queue.front().is_some_and(|(_, bytes)| self.has_credit(bytes.len(), window))
    }
}

impl Limits {
    /// What to remember of the first item, which is on the stream, if it went in several pieces.
    fn large(&self, queue: &Queue) -> Option<Large> {
        let (_, bytes) = queue.front().filter(|(_, bytes)| bytes.len() > self.piece_bytes_max)?;
        Some(Large { length: bytes.len(), beginning: bytes[..self.piece_bytes_max].to_vec() })
    }
}

#[inline]
pub(crate) fn key(channel: Channel) -> u32 {
    u32::from(channel.from) << 16 | u32::from(channel.to)
}

#[inline]
pub(crate) fn channel_of(key: u32) -> Channel {
    Channel { from: (key >> 16) as u16, to: key as u16 }
}
