//! Two ends of a session and a line between them that does what a test says.
#![allow(dead_code, reason = "each test file uses some of it")]

use cluster::{Arrived, Channel, Error, Hello, Hold, Limits, NodeLife, Notice, Refusal, Session, read_hello};
use model::Tick;

pub(crate) const ALICE: NodeLife = NodeLife { node: 1, life: 11 };
pub(crate) const BOB: NodeLife = NodeLife { node: 2, life: 22 };

/// Something that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    Item(Channel, u8, Vec<u8>),
    News(u8, Vec<u8>),
}

/// What whoever gets items does with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Quick,
    Stuck,
}

/// One end, and what has arrived there.
pub(crate) struct End {
    pub(crate) session: Session,
    pub(crate) got: Vec<Got>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) reader: Reader,
    line: u64,
}

/// Alice dials, Bob answers.
pub(crate) struct Pair {
    pub(crate) alice: End,
    pub(crate) bob: End,
    pub(crate) now: Tick,
}

pub(crate) fn channel(from: u16, to: u16) -> Channel {
    Channel { from, to }
}

pub(crate) fn item(channel: Channel, bytes: &[u8]) -> Got {
    Got::Item(channel, 0, bytes.to_vec())
}

pub(crate) fn news(bytes: &[u8]) -> Got {
    Got::News(0, bytes.to_vec())
}

impl End {
    fn new(me: NodeLife, peer: NodeLife, limits: Limits) -> Self {
        let session = Session::new(me, peer, limits);
        Self { session, got: Vec::new(), notices: Vec::new(), reader: Reader::Quick, line: 0 }
    }

    pub(crate) fn send(&mut self, channel: Channel, bytes: &[u8]) {
        self.session.send(channel, 0, bytes).expect("there is room");
    }

    pub(crate) fn die(&mut self, from: u16, bytes: &[u8]) {
        self.session.announce(Some(from), 0, bytes).expect("there is room");
    }

    /// All that is to be sent now.
    pub(crate) fn output(&mut self, now: Tick) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.session.has_output() {
            self.session.take(now, 1_000, &mut bytes);
        }
        self.notices.extend(std::iter::from_fn(|| self.session.next_notice()));
        bytes
    }

    pub(crate) fn input(&mut self, now: Tick, bytes: &[u8]) -> Result<(), Error> {
        let (got, reader) = (&mut self.got, self.reader);
        let received = self.session.receive(now, self.line, bytes, |arrived| {
            got.push(match arrived {
                Arrived::Item { channel, kind, bytes } => Got::Item(channel, kind, bytes.to_vec()),
                Arrived::News { kind, bytes } => Got::News(kind, bytes.to_vec()),
            });
            if reader == Reader::Quick { Hold::Done } else { Hold::Kept }
        });
        self.notices.extend(std::iter::from_fn(|| self.session.next_notice()));
        received
    }

    pub(crate) fn take_got(&mut self) -> Vec<Got> {
        std::mem::take(&mut self.got)
    }

    /// The line is closed, as this end sees it.
    pub(crate) fn cut(&mut self) {
        self.session.closed(self.line);
    }
}

impl Pair {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { alice: End::new(ALICE, BOB, limits), bob: End::new(BOB, ALICE, limits), now: Tick(1_000_000) }
    }

    /// Both have said hello.
    pub(crate) fn met(limits: Limits) -> Self {
        let mut pair = Self::new(limits);
        pair.meet();
        pair
    }

    pub(crate) fn dial(&mut self) -> Hello {
        self.alice.line = self.alice.session.dial(self.now).expect("not ended");
        let mut bytes = Vec::new();
        self.alice.session.take(self.now, 1_000, &mut bytes);
        let (hello, length) = read_hello(&bytes).expect("a hello").expect("all of it");
        assert_eq!(length, bytes.len(), "nothing is sent before the answer");
        hello
    }

    pub(crate) fn answer(&mut self, hello: &Hello) -> Result<(), Refusal> {
        self.bob.line = self.bob.session.answer(self.now, hello)?;
        Ok(())
    }

    pub(crate) fn meet(&mut self) {
        let hello = self.dial();
        self.answer(&hello).expect("it is taken");
        self.run();
    }

    pub(crate) fn alice_to_bob(&mut self) -> usize {
        let bytes = self.alice.output(self.now);
        self.bob.input(self.now, &bytes).expect("bob understands");
        bytes.len()
    }

    pub(crate) fn bob_to_alice(&mut self) -> usize {
        let bytes = self.bob.output(self.now);
        self.alice.input(self.now, &bytes).expect("alice understands");
        bytes.len()
    }

    /// Until nothing moves any more, also not after a while.
    pub(crate) fn run(&mut self) {
        for _ in 0..3 {
            while self.alice_to_bob() + self.bob_to_alice() > 0 {}
            self.now = self.now.plus_ms(100);
            self.alice.session.tick(self.now);
            self.bob.session.tick(self.now);
        }
    }

    /// The line is closed and what was on it lost.
    pub(crate) fn cut(&mut self) {
        self.alice.cut();
        self.bob.cut();
    }
}
