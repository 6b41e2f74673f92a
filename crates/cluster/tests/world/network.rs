//! Lines between the two ends, and what happens to bytes on them.

use std::collections::VecDeque;

use cluster::{Arrived, Hello, Hold, check, read_hello};
use wire::session::{HEAD_BYTES, Head, What};

use super::World;
use super::oracle::content_of;

/// What may be under way on a line in one direction.
const UNDER_WAY_MAX: usize = 400;

/// A connection. Index 0 is the end that has dialled.
pub(crate) struct Line {
    /// What the sessions call it.
    number: u64,
    /// Bytes under way, by who has sent them.
    bytes: [VecDeque<u8>; 2],
    /// Which ends have not closed it.
    is_open: [bool; 2],
    /// What is under way will arrive, and nothing more.
    is_cut: bool,
    /// What has come of the dialling end's hello.
    hello: Vec<u8>,
    is_answered: bool,
}

impl World {
    pub(crate) fn dial(&mut self) {
        self.close(0);
        let number = self.ends[0].session.dial(self.now).expect("not ended");
        let line = Line {
            number,
            bytes: Default::default(),
            is_open: [true; 2],
            is_cut: false,
            hello: Vec::new(),
            is_answered: false,
        };
        self.ends[0].line = Some(self.lines.len());
        self.lines.push(line);
    }

    /// An end closes its line. What it has sent still arrives.
    pub(crate) fn close(&mut self, at: usize) {
        if let Some(index) = self.ends[at].line.take() {
            let line = &mut self.lines[index];
            (line.is_open[at], line.is_cut) = (false, true);
            self.ends[at].session.closed(line.number);
        }
    }

    /// An end writes as much as its socket takes.
    pub(crate) fn flush(&mut self, at: usize) -> bool {
        let Some(index) = self.ends[at].line else { return false };
        let line = &self.lines[index];
        if !self.ends[at].session.has_output() || line.bytes[at].len() > UNDER_WAY_MAX {
            self.notices(at);
            return false;
        }
        let (about, mut bytes) = (1 + self.dice.below(300), Vec::new());
        self.ends[at].session.take(self.now, about, &mut bytes);
        assert!(!bytes.is_empty(), "SESSION-5: it has something to send, and sends nothing");
        if at == 1 && self.dice.one_in(2) {
            let known = self.ends[0].session.counts().acknowledged;
            forget(&mut bytes, known);
        }
        // What is written to a line that was cut is lost.
        let line = &mut self.lines[index];
        if !line.is_cut {
            line.bytes[at].extend(bytes);
        }
        self.notices(at);
        true
    }

    pub(crate) fn deliver_some(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        // Mostly by a recent line, sometimes by an old one.
        let back = if self.dice.one_in(4) { self.dice.below(self.lines.len()) } else { self.dice.below(2) };
        let index = self.lines.len().saturating_sub(1 + back);
        let from = self.dice.below(2);
        let most = self.lines[index].bytes[from].len();
        let count = if self.dice.one_in(3) { most } else { self.dice.below(most + 1) };
        self.deliver(index, from, count);
    }

    fn deliver(&mut self, index: usize, from: usize, count: usize) {
        let line = &mut self.lines[index];
        let bytes: Vec<u8> = line.bytes[from].drain(..count).collect();
        let at = 1 - from;
        if bytes.is_empty() || !line.is_open[at] {
            return;
        }
        if at == 1 && !line.is_answered {
            line.hello.extend_from_slice(&bytes);
            self.answer(index);
        } else {
            self.receive(index, at, &bytes);
        }
    }

    /// The answering end looks whether a hello is whole.
    fn answer(&mut self, index: usize) {
        let Some((mut hello, length)) = read_hello(&self.lines[index].hello).expect("a hello") else { return };
        check(&hello, hello.to).expect("it is meant");
        if self.dice.one_in(2) {
            hello.received = self.ends[1].session.counts().acknowledged;
        }
        let answered = self.ends[1].session.answer(self.now, &hello);
        let line = &mut self.lines[index];
        line.is_answered = true;
        match answered {
            Ok(number) => {
                assert_eq!(number, line.number);
                let rest = line.hello.split_off(length);
                if let Some(old) = self.ends[1].line.replace(index) {
                    (self.lines[old].is_open[1], self.lines[old].is_cut) = (false, true);
                }
                self.receive(index, 1, &rest);
            }
            Err(refusal) => {
                line.bytes[1].extend(refusal.to_bytes());
                (line.is_open[1], line.is_cut) = (false, true);
            }
        }
    }

    fn receive(&mut self, index: usize, at: usize, bytes: &[u8]) {
        let number = self.lines[index].number;
        let mut arrived = Vec::new();
        let end = &mut self.ends[at];
        let (stuck, dice) = (end.stuck, &mut self.dice);
        let is_quick = end.got.is_quick;
        let received = end.session.receive(self.now, number, bytes, |what| {
            let hold = match what {
                Arrived::Item { channel, .. } if stuck[usize::from(channel.to)] => Hold::Kept,
                Arrived::Item { .. } if is_quick || dice.one_in(2) => Hold::Done,
                Arrived::Item { .. } => Hold::Kept,
                Arrived::News { .. } => Hold::Done,
            };
            arrived.push((content_of(what), hold));
            hold
        });
        assert_eq!(received, Ok(()), "both ends are right");
        let [first, second] = &mut self.ends;
        let (end, other) = if at == 0 { (first, second) } else { (second, first) };
        for (content, hold) in arrived {
            end.got.note(&other.sent, content, hold);
        }
        self.notices(at);
    }

    pub(crate) fn cut_some(&mut self) {
        let Some(index) = self.lines.len().checked_sub(1 + self.dice.below(2)) else { return };
        let line = &mut self.lines[index];
        line.is_cut = true;
        for bytes in &mut line.bytes {
            bytes.truncate(self.dice.below(bytes.len() + 1));
        }
    }

    /// Ends see that their line is closed once all has come that was under way.
    pub(crate) fn notice_cuts(&mut self) {
        for at in [0, 1] {
            if let Some(index) = self.ends[at].line
                && self.lines[index].is_cut
                && self.lines[index].bytes[1 - at].is_empty()
            {
                self.close(at);
            }
        }
    }

    /// Everything that is under way arrives, and everything that is to be sent.
    pub(crate) fn settle_lines(&mut self) {
        loop {
            let mut has_moved = false;
            for index in 0..self.lines.len() {
                for from in [0, 1] {
                    let count = self.lines[index].bytes[from].len();
                    has_moved |= count > 0;
                    self.deliver(index, from, count);
                }
            }
            self.notice_cuts();
            if self.ends[0].line.is_none() {
                self.dial();
            }
            has_moved |= self.flush(0);
            has_moved |= self.flush(1);
            if !has_moved {
                return;
            }
        }
    }
}

/// Makes the hello at the beginning of these bytes say that no more has come than was acknowledged.
fn forget(bytes: &mut [u8], acknowledged: u64) {
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>().and_then(|head| Head::from_bytes(*head).ok()) else { return };
    if head.what == What::Hello {
        let (body, _) = bytes[HEAD_BYTES..].split_at(Hello::BYTES);
        let hello = Hello { received: acknowledged, ..Hello::read(body).expect("a hello") };
        let forgetful = hello.to_bytes();
        bytes[..forgetful.len()].copy_from_slice(&forgetful);
    }
}
