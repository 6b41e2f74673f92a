//! Two ends of a session, a network that a seed decides, and an oracle that knows what was sent.
//!
//! The network hands bytes over in chunks of any size, keeps lines that were given up alive for a while, so that what is on them comes late
//! and between what comes by others, and cuts lines at any byte. It also makes ends forget what they had not acknowledged yet, so that
//! envelopes are sent twice.

mod network;
mod oracle;

use std::collections::BTreeSet;

use cluster::{Channel, Limits, NodeLife, Notice, Position, SendError, Session};
use model::Tick;
use network::Line;
use oracle::{Got, Sent};
use seeded::{SplitMix64, below};

pub(crate) const SENDERS: u16 = 3;
pub(crate) const READERS: u16 = 3;

/// Chance, drawn from a seed.
pub(crate) struct Dice(SplitMix64);

impl Dice {
    pub(crate) fn below(&mut self, count: usize) -> usize {
        below(self.0.bits(), count.max(1) as u64) as usize
    }

    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// One end: its session, what it has sent, what has come.
pub(crate) struct End {
    pub(crate) session: Session,
    limits: Limits,
    pub(crate) sent: Sent,
    pub(crate) got: Got,
    /// The line that its session uses, as an index.
    line: Option<usize>,
    /// Readers that take nothing until the end.
    stuck: [bool; READERS as usize],
    refused: BTreeSet<Channel>,
    are_news_refused: bool,
}

pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) now: Tick,
    /// The one that dials, and the one that answers.
    pub(crate) ends: [End; 2],
    lines: Vec<Line>,
}

impl World {
    pub(crate) fn seeded(seed: u64) -> Self {
        let mut dice = Dice(SplitMix64::seeded(seed));
        let lives = [NodeLife { node: 1, life: 1 }, NodeLife { node: 2, life: 2 }];
        let ends = [0, 1].map(|at| {
            let limits = limits(&mut dice);
            let stuck = std::array::from_fn(|_| dice.one_in(3));
            End {
                session: Session::new(lives[at], lives[1 - at], limits),
                limits,
                sent: Sent::default(),
                got: Got::default(),
                line: None,
                stuck,
                refused: BTreeSet::new(),
                are_news_refused: false,
            }
        });
        Self { dice, now: Tick(1), ends, lines: Vec::new() }
    }

    /// Something happens.
    pub(crate) fn step(&mut self) {
        let at = self.dice.below(2);
        match self.dice.below(40) {
            0..=9 => self.send(at),
            10 => self.announce(at),
            11 => {
                let position = self.ends[at].session.sent();
                self.ends[at].sent.note_position(position);
                if self.ends[1 - at].session.has_reached(position) {
                    self.check_reached(1 - at, position);
                }
            }
            12..=14 => self.take_kept(at),
            15..=23 => {
                self.flush(at);
            }
            24..=33 => self.deliver_some(),
            34 => self.cut_some(),
            35..=36 => self.notice_cuts(),
            37..=38 => {
                if self.ends[0].line.is_none() || self.dice.one_in(8) {
                    self.dial();
                }
            }
            _ => {
                let ms = if self.dice.one_in(50) { 9_000 } else { 7 };
                let ms = self.dice.below(ms) as u64;
                self.pass(self.now.plus_ms(ms));
            }
        }
        self.check_bounds();
    }

    fn send(&mut self, at: usize) {
        let channel = Channel {
            from: self.dice.below(usize::from(SENDERS)) as u16,
            to: self.dice.below(usize::from(READERS)) as u16,
        };
        for _ in 0..=self.dice.below(3) {
            let most = if self.dice.one_in(10) { 1_200 } else { 60 };
            let length = self.dice.below(most);
            let end = &mut self.ends[at];
            let bytes = end.sent.next_item(channel, length);
            match end.session.send(channel, channel.from as u8, &bytes) {
                Ok(()) => end.sent.note_item(channel, length),
                Err(SendError::Full) => {
                    end.refused.insert(channel);
                }
                Err(error) => panic!("{error}"),
            }
        }
        self.notices(at);
    }

    fn announce(&mut self, at: usize) {
        let of = (!self.dice.one_in(4)).then_some(self.dice.below(usize::from(SENDERS)) as u16);
        let most = if self.dice.one_in(8) { 400 } else { 40 };
        let length = self.dice.below(most);
        let end = &mut self.ends[at];
        let bytes = end.sent.next_news(length);
        match end.session.announce(of, 9, &bytes) {
            Ok(()) => end.sent.note_news(of, length),
            Err(SendError::Full) => end.are_news_refused = true,
            Err(error) => panic!("{error}"),
        }
    }

    /// Readers take what is kept for them, or some of it.
    fn take_kept(&mut self, at: usize) {
        let count = self.dice.below(8);
        let end = &mut self.ends[at];
        for _ in 0..count {
            let stuck = end.stuck;
            let Some((channel, length)) = end.got.take_kept(|channel| !stuck[usize::from(channel.to)]) else { break };
            end.session.taken(channel, length);
        }
    }

    fn pass(&mut self, now: Tick) {
        self.now = now;
        for at in [0, 1] {
            self.ends[at].session.tick(now);
            self.notices(at);
        }
    }

    /// Acts on what a session has noticed.
    fn notices(&mut self, at: usize) {
        while let Some(notice) = self.ends[at].session.next_notice() {
            match notice {
                Notice::Room(channel) => {
                    assert!(self.ends[at].refused.remove(&channel), "SESSION-5: {channel:?} was not refused");
                }
                Notice::RoomForNews => {
                    assert!(std::mem::take(&mut self.ends[at].are_news_refused), "SESSION-5: news were not refused");
                }
                Notice::Reached(position) => self.check_reached(at, position),
                Notice::Up => {}
                Notice::Silent(_) => self.close(at),
            }
        }
    }

    fn check_reached(&self, at: usize, position: Position) {
        self.ends[at].got.check_reached(&self.ends[1 - at].sent, position);
    }

    fn check_bounds(&self) {
        for (at, end) in self.ends.iter().enumerate() {
            let (counts, limits) = (end.session.counts(), end.limits);
            assert!(counts.kept <= limits.resend_bytes_max as u64, "SESSION-3: {} bytes are kept", counts.kept);
            assert!(counts.channels <= limits.channels_max as u64, "SESSION-3: {} channels", counts.channels);
            let queued_max = limits.queued_bytes_max as u64 + counts.channels * 1_216;
            assert!(counts.queued <= queued_max, "SESSION-3: {} bytes are queued", counts.queued);
            let queue_max = self.ends[1 - at].limits.queue_bytes_max;
            end.got.check_held(&self.ends[1 - at].sent, limits.window_bytes as usize, queue_max);
        }
    }

    /// From now on the network loses nothing. Until nothing moves any more.
    pub(crate) fn calm(&mut self) {
        let mut quiet = 0;
        let mut before = None;
        while quiet < 8 {
            self.settle_lines();
            self.let_readers_take();
            let after = self.ends.each_ref().map(|end| (end.session.counts(), end.got.total()));
            quiet = if before == Some(after) { quiet + 1 } else { 0 };
            before = Some(after);
            let next = self.ends.iter().filter_map(|end| end.session.wake_at()).min();
            self.pass(next.expect("a line wants to be looked at").max(self.now));
        }
    }

    /// All that does not depend on readers has arrived: the news, and what came before deaths.
    pub(crate) fn check_all_but_stuck(&self) {
        for at in [0, 1] {
            let end = &self.ends[at];
            let is_stuck = |channel: Channel| end.stuck[usize::from(channel.to)];
            end.got.check_complete(&self.ends[1 - at].sent, is_stuck);
        }
    }

    /// Readers take everything, and will.
    pub(crate) fn free_readers(&mut self) {
        for end in &mut self.ends {
            end.stuck = [false; READERS as usize];
            end.got.is_quick = true;
        }
        self.let_readers_take();
    }

    /// Those that are not stuck take everything.
    fn let_readers_take(&mut self) {
        for end in &mut self.ends {
            let stuck = end.stuck;
            while let Some((channel, length)) = end.got.take_kept(|channel| !stuck[usize::from(channel.to)]) {
                end.session.taken(channel, length);
            }
        }
    }

    pub(crate) fn check_all(&self) {
        for at in [0, 1] {
            let end = &self.ends[at];
            end.got.check_complete(&self.ends[1 - at].sent, |_| false);
            let counts = end.session.counts();
            let left = (counts.kept, counts.queued, counts.held, counts.channels);
            assert_eq!(left, (0, 0, 0, 0), "SESSION-5: something is left");
            assert!(end.refused.is_empty(), "SESSION-5: {:?} were refused and never told", end.refused);
            assert!(!end.are_news_refused, "SESSION-5: news were refused and nobody was told");
            let last = self.ends[1 - at].sent.last_position();
            assert_eq!(self.ends[at].session.read(), last, "SESSION-5: every position that was asked for is reached");
        }
    }

    /// A verdict: all that has not arrived comes back, and nothing arrives any more.
    pub(crate) fn end_session(&mut self) {
        for at in [0, 1] {
            let returned = self.ends[at].session.end();
            self.ends[1 - at].got.check_returned(&self.ends[at].sent, &returned);
        }
        let before = self.ends.each_ref().map(|end| end.got.total());
        (0..200).for_each(|_| self.deliver_some());
        assert_eq!(
            self.ends.each_ref().map(|end| end.got.total()),
            before,
            "SESSION-1: something came after the verdict"
        );
    }
}

/// Bounds that a few hundred bytes meet.
fn limits(dice: &mut Dice) -> Limits {
    let piece_bytes_max = 8 + dice.below(120);
    let reserve_bytes = 48 + dice.below(100);
    let resend_bytes_max = 16 + piece_bytes_max + reserve_bytes + dice.below(800);
    Limits {
        piece_bytes_max,
        window_bytes: 40 + dice.below(600) as u32,
        queue_bytes_max: dice.below(800),
        queued_bytes_max: dice.below(2_000),
        news_bytes_max: dice.below(300),
        channels_max: if dice.one_in(3) { 1 + dice.below(9) } else { 100 },
        resend_bytes_max,
        reserve_bytes,
        ahead_bytes: 1 + dice.below(300),
        unacknowledged_bytes: dice.below(resend_bytes_max) as u64,
        ..Limits::default()
    }
}
