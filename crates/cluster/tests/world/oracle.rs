//! What one end has sent, what the other has got, and whether the two agree.

use std::collections::BTreeMap;

use cluster::{Arrived, Channel, Fate, Hold, Position, Returned};
use seeded::mix;

/// What one end had sent at some moment.
#[derive(Clone, Debug, Default)]
struct Extent {
    items: BTreeMap<Channel, usize>,
    news: usize,
}

/// What an end has sent: lengths, from which the bytes follow.
#[derive(Default)]
pub(crate) struct Sent {
    items: BTreeMap<Channel, Vec<usize>>,
    /// With what the dead had sent, if they are of a death.
    news: Vec<(usize, BTreeMap<Channel, usize>)>,
    /// Who has died, and how often.
    died: BTreeMap<u16, usize>,
    positions: BTreeMap<Position, Extent>,
}

/// What has arrived, as it is compared.
pub(crate) enum Content {
    Item(Channel, u8, Vec<u8>),
    News(u8, Vec<u8>),
}

/// What an end has got.
#[derive(Default)]
pub(crate) struct Got {
    items: BTreeMap<Channel, usize>,
    news: usize,
    /// Items that their readers have not taken.
    kept: Vec<(Channel, usize)>,
    /// Readers take at once whatever comes.
    pub(crate) is_quick: bool,
}

pub(crate) fn content_of(arrived: Arrived<'_>) -> Content {
    match arrived {
        Arrived::Item { channel, kind, bytes } => Content::Item(channel, kind, bytes.to_vec()),
        Arrived::News { kind, bytes } => Content::News(kind, bytes.to_vec()),
    }
}

/// Bytes that no other item has.
fn bytes_of(name: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (mix(name * 4_096 + at / 8) >> (at % 8 * 8)) as u8).collect()
}

fn item_bytes(channel: Channel, number: usize, length: usize) -> Vec<u8> {
    let name = (u64::from(channel.from) << 8 | u64::from(channel.to)) << 24 | number as u64;
    bytes_of(name, length)
}

fn news_bytes(number: usize, length: usize) -> Vec<u8> {
    bytes_of(1 << 44 | number as u64, length)
}

impl Sent {
    pub(crate) fn next_item(&self, channel: Channel, length: usize) -> Vec<u8> {
        item_bytes(channel, self.items.get(&channel).map_or(0, Vec::len), length)
    }

    pub(crate) fn note_item(&mut self, channel: Channel, length: usize) {
        self.items.entry(channel).or_default().push(length);
    }

    pub(crate) fn next_news(&self, length: usize) -> Vec<u8> {
        news_bytes(self.news.len(), length)
    }

    pub(crate) fn note_news(&mut self, of: Option<u16>, length: usize) {
        let mut extent = self.extent().items;
        extent.retain(|channel, _| Some(channel.from) == of);
        self.news.push((length, extent));
        if let Some(of) = of {
            *self.died.entry(of).or_default() += 1;
        }
    }

    pub(crate) fn note_position(&mut self, position: Position) {
        let extent = self.extent();
        self.positions.entry(position).or_insert(extent);
    }

    pub(crate) fn last_position(&self) -> Position {
        self.positions.keys().next_back().copied().unwrap_or_default()
    }

    fn extent(&self) -> Extent {
        let items = self.items.iter().map(|(channel, items)| (*channel, items.len())).collect();
        Extent { items, news: self.news.len() }
    }
}

impl Got {
    pub(crate) fn total(&self) -> usize {
        self.news + self.items.values().sum::<usize>()
    }

    /// SESSION-1 and SESSION-2: the next of its channel, with all its bytes; news in order, and behind what the dead had sent.
    pub(crate) fn note(&mut self, sent: &Sent, content: Content, hold: Hold) {
        match content {
            Content::Item(channel, kind, bytes) => {
                let number = self.items.entry(channel).or_default();
                let expected = sent.items.get(&channel).and_then(|items| items.get(*number));
                assert_eq!(expected, Some(&bytes.len()), "SESSION-1: item {number} of {channel:?}");
                assert_eq!(bytes, item_bytes(channel, *number, bytes.len()), "SESSION-1: item {number} of {channel:?}");
                assert_eq!(kind, channel.from as u8, "SESSION-1: kind of item {number} of {channel:?}");
                *number += 1;
                if hold == Hold::Kept {
                    self.kept.push((channel, bytes.len()));
                }
            }
            Content::News(kind, bytes) => {
                let (length, before) = sent.news.get(self.news).expect("SESSION-1: news that were sent");
                assert_eq!(bytes, news_bytes(self.news, *length), "SESSION-2: news {}", self.news);
                assert_eq!(kind, 9, "SESSION-1: kind of news {}", self.news);
                for (channel, count) in before {
                    let got = self.items.get(channel).copied().unwrap_or_default();
                    assert_eq!(got, *count, "SESSION-2: items of the dead on {channel:?} before news {}", self.news);
                }
                self.news += 1;
            }
        }
    }

    /// An item that its reader takes now.
    pub(crate) fn take_kept(&mut self, may: impl Fn(Channel) -> bool) -> Option<(Channel, usize)> {
        let at = self.kept.iter().position(|(channel, _)| may(*channel))?;
        Some(self.kept.swap_remove(at))
    }

    /// SESSION-4.
    pub(crate) fn check_reached(&self, sent: &Sent, position: Position) {
        let extent = &sent.positions[&position];
        assert!(self.news >= extent.news, "SESSION-4: {} news of {} at {position:?}", self.news, extent.news);
        for (channel, count) in &extent.items {
            let got = self.items.get(channel).copied().unwrap_or_default();
            assert!(got >= *count, "SESSION-4: {got} items of {count} on {channel:?} at {position:?}");
        }
    }

    /// SESSION-3: a reader is not sent more than it has granted, unless it is one item, or last words.
    pub(crate) fn check_held(&self, sent: &Sent, window: usize, queue_max: usize) {
        let mut held = BTreeMap::<Channel, (usize, usize)>::new();
        for (channel, length) in &self.kept {
            let (count, bytes) = held.entry(*channel).or_default();
            *count += 1;
            *bytes += 16 + length;
        }
        for (channel, (count, bytes)) in held {
            let most =
                if sent.died.contains_key(&channel.from) { window.max(1_216) + queue_max.max(1_216) } else { window };
            assert!(count == 1 || bytes <= most, "SESSION-3: {bytes} bytes are held of {channel:?}");
        }
    }

    /// SESSION-5: all has arrived; of channels whose readers are stuck, what the dead had sent, since nobody may wait for their readers.
    pub(crate) fn check_complete(&self, sent: &Sent, is_stuck: impl Fn(Channel) -> bool) {
        assert_eq!(self.news, sent.news.len(), "SESSION-5: news have arrived");
        for (channel, items) in &sent.items {
            let got = self.items.get(channel).copied().unwrap_or_default();
            assert!(got == items.len() || is_stuck(*channel), "SESSION-5: {got} of {} on {channel:?}", items.len());
        }
    }

    /// SESSION-1: what is returned is the end of each channel, beginning not behind what has arrived; nothing that has is said not to have.
    pub(crate) fn check_returned(&self, sent: &Sent, returned: &[Returned]) {
        for (channel, items) in &sent.items {
            let back: Vec<_> = returned.iter().filter(|item| item.channel == Some(*channel)).collect();
            let got = self.items.get(channel).copied().unwrap_or_default();
            let first = items.len() - back.len();
            check_tail(got, first, &back, |number| (items[number], item_bytes(*channel, number, items[number])));
        }
        let back: Vec<_> = returned.iter().filter(|item| item.channel.is_none()).collect();
        let first = sent.news.len() - back.len();
        check_tail(self.news, first, &back, |number| (sent.news[number].0, news_bytes(number, sent.news[number].0)));
    }
}

fn check_tail(got: usize, first: usize, back: &[&Returned], expected: impl Fn(usize) -> (usize, Vec<u8>)) {
    assert!(first <= got, "SESSION-1: {first} are said to have arrived, {got} have");
    for (number, item) in (first..).zip(back) {
        let (length, bytes) = expected(number);
        assert_eq!(item.length, length, "SESSION-1: length of what is returned");
        assert!(bytes.starts_with(&item.bytes), "SESSION-1: bytes of what is returned");
        let has_all = item.bytes.len() == length || item.bytes.len() >= 8;
        assert!(has_all, "SESSION-1: too little is returned to know it by");
        assert!(item.fate == Fate::PerhapsArrived || number >= got, "SESSION-1: one that arrived is said not to have");
    }
}
