//! HOT: a session with another node: what a body does with it, and when it wants to be called.

use std::collections::VecDeque;

use model::Tick;
use wire::Malformed;
use wire::session::{Channel, Head, Hello, ITEM_BYTES_MAX, NodeLife, Part, Refusal, What};

use crate::inbox::{Arrived, Hold, Inbox};
use crate::input::Input;
use crate::outbox::Outbox;
use crate::stream::Stream;
use crate::{Error, Limits, Position, SendError};

/// Something that a body may have waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// There may be room for this channel, which was refused before.
    Room(Channel),
    /// There may be room for news, which were refused before.
    RoomForNews,
    /// All that the peer had accepted up to this position has come.
    Reached(Position),
    /// The dialled line is taken by the peer.
    Up,
    /// Nothing has come by this line for too long: it is given up, and should be closed.
    Silent(u64),
}

/// What became of something that was to be sent when the session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was sent whole and not acknowledged: the peer may have got it.
    PerhapsArrived,
    /// It was not sent whole: the peer has not got it.
    NeverArrived,
}

/// Something of which it is not known that the peer has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Its channel; none of news.
    pub channel: Option<Channel>,
    /// As it was sent.
    pub kind: u8,
    /// Whether it may have arrived.
    pub fate: Fate,
    /// How long it is.
    pub length: usize,
    /// The item; of one that went in several pieces its beginning.
    pub bytes: Vec<u8>,
}

/// What has happened so far, for those who look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines by which both sides have said hello.
    pub lines: u64,
    /// Envelopes that came a second time, and were dropped.
    pub duplicates: u64,
    /// Bytes that were sent a second time.
    pub resent: u64,
    /// Bytes of counted envelopes that the peer has said it has.
    pub acknowledged: u64,
    /// Bytes behind those: sent, or about to be, and kept until then.
    pub kept: u64,
    /// Bytes that wait to be sent, without news.
    pub queued: u64,
    /// Bytes of items that this side holds, as far as the peer knows.
    pub held: u64,
    /// Channels that have something waiting or on its way.
    pub channels: u64,
}

/// How far a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is none.
    Down,
    /// The hello is said, and not answered.
    Dialled,
    /// Both have said hello.
    Open,
}

/// One end of a session, over all its lines.
pub struct Session {
    me: NodeLife,
    peer: NodeLife,
    limits: Limits,
    stage: Stage,
    /// Counts what the dialling side has dialled.
    line: u64,
    /// What has to be said before anything else on this line.
    greeting: Vec<u8>,
    input: Input,
    stream: Stream,
    outbox: Outbox,
    inbox: Inbox,
    /// What the peer was told that it need not keep.
    acknowledged: u64,
    /// It is told now.
    must_acknowledge: bool,
    /// When it is told, and of credit, at the latest.
    due_at: Option<Tick>,
    now: Tick,
    last_in: Tick,
    last_out: Tick,
    notices: VecDeque<Notice>,
    lines: u64,
    is_ended: bool,
}

impl Session {
    /// The end of a session of which nothing has been heard yet.
    ///
    /// # Panics
    /// If the limits contradict each other.
    #[must_use]
    pub fn new(me: NodeLife, peer: NodeLife, limits: Limits) -> Self {
        limits.check();
        Self {
            me,
            peer,
            limits,
            stage: Stage::Down,
            line: 0,
            greeting: Vec::new(),
            input: Input::default(),
            stream: Stream::new(limits.resend_bytes_max, limits.reserve_bytes),
            outbox: Outbox::new(limits),
            inbox: Inbox::new(limits),
            acknowledged: 0,
            must_acknowledge: false,
            due_at: None,
            now: Tick::default(),
            last_in: Tick::default(),
            last_out: Tick::default(),
            notices: VecDeque::new(),
            lines: 0,
            is_ended: false,
        }
    }

    /// Who is at the other end.
    #[must_use]
    pub fn peer(&self) -> NodeLife {
        self.peer
    }

    /// A line has been dialled, which takes the place of any other; says how to call it. Its hello is the first that is to be sent.
    ///
    /// # Errors
    /// If a verdict has ended the session.
    pub fn dial(&mut self, now: Tick) -> Result<u64, SendError> {
        if self.is_ended {
            return Err(SendError::Ended);
        }
        self.begin_line(now, self.line + 1, Stage::Dialled);
        Ok(self.line)
    }

    /// The peer has dialled a line and said hello (see [`crate::read_hello`] and [`crate::check`]). It takes the place of any earlier one; says
    /// how to call it.
    ///
    /// # Errors
    /// What the peer is to be told.
    pub fn answer(&mut self, now: Tick, hello: &Hello) -> Result<u64, Refusal> {
        crate::check(hello, self.me)?;
        if self.is_ended {
            return Err(Refusal::Ended);
        }
        if hello.from != self.peer {
            return Err(Refusal::Unknown);
        }
        if hello.is_resumed && self.lines == 0 {
            return Err(Refusal::Forgotten);
        }
        if hello.line <= self.line {
            return Err(Refusal::Late);
        }
        // Whoever has not heard of us has sent nothing. If we have got something, its numbers begin anew and ours do not.
        if !hello.is_resumed && self.inbox.received() > 0 {
            return Err(Refusal::Gap(self.inbox.received()));
        }
        if !self.stream.resume(hello.received) {
            return Err(Refusal::Gap(hello.received));
        }
        self.begin_line(now, hello.line, Stage::Open);
        self.on_open(hello);
        Ok(self.line)
    }

    /// A line is closed. That means nothing but that another one is needed.
    pub fn closed(&mut self, line: u64) {
        if line == self.line {
            self.stage = Stage::Down;
        }
    }

    /// Bytes have come by a line, as many as there were. What comes by another line than the latest is dropped: it will come again.
    ///
    /// # Errors
    /// If they say what a session does not say, or that the peer does not take the line. The line is over and should be closed.
    pub fn receive(
        &mut self,
        now: Tick,
        line: u64,
        bytes: &[u8],
        mut deliver: impl FnMut(Arrived<'_>) -> Hold,
    ) -> Result<(), Error> {
        if line != self.line || self.stage == Stage::Down {
            return Ok(());
        }
        (self.now, self.last_in) = (now, now);
        let mut input = std::mem::take(&mut self.input);
        let fed = input.feed(bytes, |head, body| self.on_envelope(&head, body, &mut deliver));
        self.input = input;
        if fed.is_err() {
            self.stage = Stage::Down;
        }
        let unacknowledged = self.inbox.received() - self.acknowledged;
        self.must_acknowledge |= unacknowledged >= self.limits.unacknowledged_bytes;
        self.note_due();
        self.note_relieved();
        fed
    }

    /// Whether there is something to send.
    pub fn has_output(&mut self) -> bool {
        if self.stage == Stage::Down {
            return false;
        }
        if !self.greeting.is_empty() || self.stage == Stage::Dialled {
            return !self.greeting.is_empty();
        }
        if self.must_acknowledge || self.stream.unsent() > 0 {
            return true;
        }
        self.pump(1);
        self.stream.unsent() > 0
    }

    /// Adds what is to be sent, some `about` bytes of it; more by an envelope at most. What was taken belongs on the present line.
    pub fn take(&mut self, now: Tick, about: usize, out: &mut Vec<u8>) {
        self.now = now;
        let before = out.len();
        if self.stage != Stage::Down {
            out.append(&mut self.greeting);
        }
        if self.stage == Stage::Open {
            self.pump(about);
            let received = self.inbox.received();
            if self.must_acknowledge || (self.stream.unsent() > 0 && received > self.acknowledged) {
                out.extend_from_slice(&Head::plain(What::Received, received, 0).to_bytes());
                (self.acknowledged, self.must_acknowledge) = (received, false);
            }
            self.stream.copy_unsent(about, out);
            self.note_due();
        }
        if out.len() > before {
            self.last_out = now;
        }
    }

    /// When to call `tick`, if nothing happens before.
    #[must_use]
    pub fn wake_at(&self) -> Option<Tick> {
        let idle =
            (self.stage == Stage::Open && !self.must_acknowledge).then(|| self.last_out.plus_ms(self.limits.idle_ms));
        let silent = (self.stage != Stage::Down).then(|| self.last_in.plus_ms(self.limits.silent_ms));
        [self.due_at.filter(|_| self.stage == Stage::Open), idle, silent].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Tick) {
        self.now = now;
        if self.stage == Stage::Down {
            return;
        }
        if now >= self.last_in.plus_ms(self.limits.silent_ms) {
            self.stage = Stage::Down;
            self.notices.push_back(Notice::Silent(self.line));
            return;
        }
        if self.due_at.is_some_and(|due| due <= now) {
            self.must_acknowledge |= self.inbox.received() > self.acknowledged;
            self.inbox.hurry_credit();
            self.due_at = None;
        }
        if self.stage == Stage::Open && now >= self.last_out.plus_ms(self.limits.idle_ms) {
            self.must_acknowledge = true;
            self.stream.shrink();
        }
    }

    /// Whether an item of this length would be taken. If not, `Notice::Room` comes when it may be.
    pub fn has_room(&mut self, channel: Channel, length: usize) -> bool {
        !self.is_ended && length <= ITEM_BYTES_MAX && self.outbox.has_room(channel, length)
    }

    /// Takes an item to be sent: once, and behind all that was taken for this channel before (SESSION-1).
    ///
    /// # Errors
    /// If it is not taken.
    #[inline]
    pub fn send(&mut self, channel: Channel, kind: u8, bytes: &[u8]) -> Result<(), SendError> {
        self.check_sendable(bytes)?;
        self.outbox.send(&mut self.stream, channel, kind, bytes)
    }

    /// As `send`, of a process that is dead: it is taken however much waits for this channel. Bounded by what its node had kept.
    ///
    /// # Errors
    /// If another one that had its slot is dying: its last words go first.
    pub fn send_last(&mut self, channel: Channel, kind: u8, bytes: &[u8]) -> Result<(), SendError> {
        self.check_sendable(bytes)?;
        self.outbox.send_last(channel, kind, bytes)
    }

    /// Takes news, which need no credit and arrive in this order. Of a death: behind all that was taken from the dead one (SESSION-2), of whom
    /// nothing more is taken before the news are sent.
    ///
    /// # Errors
    /// If they are not taken.
    pub fn announce(&mut self, death_of: Option<u16>, kind: u8, bytes: &[u8]) -> Result<(), SendError> {
        self.check_sendable(bytes)?;
        self.outbox.announce(death_of, kind, bytes)
    }

    /// An item of this length, which came by this channel and was `Hold::Kept`, takes no room any more.
    ///
    /// # Panics
    /// If none was kept.
    #[inline]
    pub fn taken(&mut self, channel: Channel, length: usize) {
        if !self.is_ended {
            self.inbox.taken(channel, length);
            self.note_due();
        }
    }

    /// How much was taken to be sent. The peer is told as soon as it has all of that, news too.
    pub fn sent(&mut self) -> Position {
        self.outbox.position()
    }

    /// The furthest position that the peer has named, and before which all has come.
    #[must_use]
    pub fn read(&self) -> Position {
        self.inbox.read()
    }

    /// Whether all that the peer had taken up to a position of its has come. If not, `Notice::Reached` comes when it has.
    pub fn has_reached(&mut self, position: Position) -> bool {
        self.inbox.await_position(position)
    }

    /// What a body may have waited for.
    pub fn next_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// A verdict: the peer is dead, or the session must not go on. Nothing is delivered or sent after it. Returned is what the peer
    /// perhaps has not got, in the order in which it was sent or would have been.
    pub fn end(&mut self) -> Vec<Returned> {
        let mut returned = Vec::new();
        for (head, body, end) in self.stream.envelopes() {
            let (What::Item(part) | What::LastWords(part) | What::News(part)) = head.what else { continue };
            let channel = (!matches!(head.what, What::News(_))).then_some(head.channel);
            let (length, bytes) = match part {
                Part::Whole => (body.len(), body),
                Part::First | Part::More => continue,
                Part::Last => match self.outbox.large_until(end) {
                    Some(large) => (large.length, &large.beginning[..]),
                    None => continue,
                },
            };
            returned.push(Returned {
                channel,
                kind: head.kind,
                fate: Fate::PerhapsArrived,
                length,
                bytes: bytes.to_vec(),
            });
        }
        returned.extend(self.outbox.unsent().map(|(channel, entry, bytes)| {
            let beginning = bytes[..bytes.len().min(self.limits.piece_bytes_max)].to_vec();
            Returned { channel, kind: entry.kind, fate: Fate::NeverArrived, length: bytes.len(), bytes: beginning }
        }));
        let lines = (self.line, self.lines);
        *self = Self::new(self.me, self.peer, self.limits);
        (self.line, self.lines) = lines;
        self.is_ended = true;
        returned
    }

    /// What has happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            lines: self.lines,
            duplicates: self.inbox.duplicates(),
            resent: self.stream.resent(),
            acknowledged: self.stream.tail(),
            kept: self.stream.kept() as u64,
            queued: self.outbox.queued_bytes() as u64,
            held: self.inbox.held(),
            channels: self.outbox.channels() as u64,
        }
    }

    fn check_sendable(&self, bytes: &[u8]) -> Result<(), SendError> {
        if self.is_ended {
            return Err(SendError::Ended);
        }
        if bytes.len() > ITEM_BYTES_MAX {
            return Err(SendError::TooLarge(bytes.len()));
        }
        Ok(())
    }

    fn begin_line(&mut self, now: Tick, line: u64, stage: Stage) {
        (self.line, self.stage) = (line, stage);
        (self.now, self.last_in, self.last_out) = (now, now, now);
        self.input.clear();
        let hello = Hello {
            from: self.me,
            to: self.peer,
            is_resumed: self.lines > 0,
            line,
            received: self.inbox.received(),
            window: self.limits.window_bytes,
        };
        self.greeting = hello.to_bytes();
    }

    /// Both have said hello.
    fn on_open(&mut self, hello: &Hello) {
        self.stage = Stage::Open;
        self.lines += 1;
        self.acknowledged = self.inbox.received();
        self.must_acknowledge = false;
        self.outbox.set_window(hello.window);
        self.outbox.on_acknowledged(self.stream.tail());
        self.note_due();
    }

    #[inline]
    fn on_envelope(
        &mut self,
        head: &Head,
        body: &[u8],
        deliver: &mut impl FnMut(Arrived<'_>) -> Hold,
    ) -> Result<(), Error> {
        if self.stage != Stage::Open {
            return self.on_greeting(head, body);
        }
        if head.what.is_counted() {
            self.inbox.accept(head, body, &mut self.outbox, deliver)?;
            if head.what == What::Mark {
                self.notices.extend(self.inbox.take_reached().into_iter().map(Notice::Reached));
            }
            return Ok(());
        }
        if head.what != What::Received {
            return Err(Malformed("second hello").into());
        }
        self.stream.acknowledge(head.offset)?;
        self.outbox.on_acknowledged(self.stream.tail());
        Ok(())
    }

    /// The first envelope on a dialled line.
    fn on_greeting(&mut self, head: &Head, body: &[u8]) -> Result<(), Error> {
        let hello = match head.what {
            What::Hello => Hello::read(body)?,
            What::Refused => return Err(Error::Refused(Refusal::read(body)?)),
            _ => return Err(Malformed("hello").into()),
        };
        if (hello.from, hello.to, hello.line) != (self.peer, self.me, self.line) {
            return Err(Malformed("hello's names").into());
        }
        if !self.stream.resume(hello.received) {
            return Err(Error::Gap(hello.received));
        }
        self.on_open(&hello);
        self.notices.push_back(Notice::Up);
        Ok(())
    }

    fn pump(&mut self, about: usize) {
        self.inbox.put_credit(&mut self.stream);
        self.outbox.pump(&mut self.stream, about);
        self.note_relieved();
    }

    /// What the peer is not told yet is told after a while.
    #[inline]
    fn note_due(&mut self) {
        let owes = self.inbox.owes_credit() || (self.inbox.received() > self.acknowledged && !self.must_acknowledge);
        if owes != self.due_at.is_some() {
            self.due_at = owes.then(|| self.now.plus_ms(self.limits.acknowledge_ms));
        }
    }

    #[inline]
    fn note_relieved(&mut self) {
        self.notices.extend(self.outbox.take_relieved().into_iter().map(Notice::Room));
        if self.outbox.take_news_relieved() {
            self.notices.push_back(Notice::RoomForNews);
        }
    }
}
