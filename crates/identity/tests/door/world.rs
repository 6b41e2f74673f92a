//! A cluster with a clock that a test sets, and two ends of a TLS connection that are pumped by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use identity::{
    Accepts, Admission, Authority, Binding, Door, Error, Join, JoinerClient, Joining, MemberClient, Membership,
    Progress, Refusal, Role, Step, Token, Tokens, Wish, for_door, for_joiner, server_name,
};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use wire::session::NodeLife;

/// Some moment of the year 2026.
pub(crate) const START_S: u64 = 1_780_000_000;

pub(crate) const PYTHON: identity::Python = identity::Python { major: 3, minor: 12 };

pub(crate) const MINUTE_S: u64 = 60;
pub(crate) const HOUR_S: u64 = 3600;

/// A clock that a test sets.
#[derive(Clone, Debug)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START_S)))
    }

    pub(crate) fn set(&self, s: u64) {
        self.0.store(s, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> UnixTime {
        moment(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn for_tls(&self) -> Arc<dyn TimeProvider> {
        Arc::new(self.clone())
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.now())
    }
}

pub(crate) fn moment(s: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(s))
}

/// Accepts whoever has a valid certificate.
pub(crate) fn anybody() -> Accepts {
    Accepts::new(|_| true)
}

/// A head and its clock; joiners have one of their own.
pub(crate) struct World {
    pub(crate) authority: Authority,
    pub(crate) tokens: Tokens,
    pub(crate) head: Membership,
    pub(crate) clock: Clock,
    pub(crate) joiner_clock: Clock,
    pub(crate) last_wish: Option<Wish>,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Clock::new();
        let authority = Authority::new(clock.now()).unwrap();
        let tokens = Tokens::new(authority.cluster());
        let head = authority.member(NodeLife { node: 0, life: 1 }, Role::Head, clock.now()).unwrap();
        Self { authority, tokens, head, clock, joiner_clock: Clock::new(), last_wish: None }
    }

    pub(crate) fn token(&mut self) -> Token {
        self.tokens.add(self.clock.now(), None).unwrap()
    }

    pub(crate) fn node(&self, node: u32) -> Membership {
        self.authority.member(NodeLife { node, life: 9 }, Role::Node, self.clock.now()).unwrap()
    }

    /// Both clocks.
    pub(crate) fn set_clocks(&self, s: u64) {
        self.clock.set(s);
        self.joiner_clock.set(s);
    }

    pub(crate) fn renew_head(&mut self) {
        self.head = self.authority.member(NodeLife { node: 0, life: 1 }, Role::Head, self.clock.now()).unwrap();
    }

    pub(crate) fn door(&self) -> Door<'_> {
        Door { authority: &self.authority, tokens: &self.tokens, head: self.head.member().who.node }
    }

    pub(crate) fn door_line(&self) -> Line {
        let server = for_door(&self.head, &self.clock.for_tls()).unwrap();
        Line::connect(&for_joiner(&self.joiner_clock.for_tls()).unwrap(), server).unwrap()
    }

    pub(crate) fn join_as(&self, line: &Line, token: &Token, former: Option<Membership>) -> (Join, Vec<u8>) {
        let joining = Joining {
            token: token.clone(),
            addresses: vec![
                identity::Address::parse("10.1.2.3").unwrap(),
                identity::Address::parse("::1").unwrap(),
                identity::Address::parse("node-7.example").unwrap(),
            ],
            life: 77,
            python: PYTHON,
            former,
        };
        Join::new(&line.client, joining, self.joiner_clock.now()).unwrap()
    }

    /// A whole conversation, in which the head gives the number 7 or the one that the node had.
    pub(crate) fn join(&mut self, token: &Token, former: Option<Membership>) -> Result<Membership, Error> {
        let line = self.door_line();
        let (join, first) = self.join_as(&line, token, former);
        let admission = Admission::new(Binding::of(&line.server).unwrap());
        self.converse(join, first, admission)
    }

    pub(crate) fn converse(
        &mut self,
        mut join: Join,
        first: Vec<u8>,
        mut admission: Admission,
    ) -> Result<Membership, Error> {
        let mut to_head = first;
        loop {
            let now = self.clock.now();
            let answer = match admission.input(&to_head, self.door(), now) {
                Ok(Step::Send(bytes)) => bytes,
                Ok(Step::Decide(wish)) => {
                    let node = wish.former.map_or(7, |former| former.who.node);
                    self.last_wish = Some(wish);
                    admission.grant(node, self.door(), now).unwrap().answer
                }
                Ok(Step::More) => panic!("the joiner sends whole messages"),
                Err(away) => away.answer,
            };
            match join.input(&answer, self.joiner_clock.now())? {
                Progress::Send(bytes) => to_head = bytes,
                Progress::Joined(membership) => return Ok(*membership),
                Progress::More => panic!("the head sends whole messages"),
            }
        }
    }

    /// Why somebody with this token is not let in, which it learns before the head has proved anything.
    pub(crate) fn refusal(&mut self, token: &Token) -> Refusal {
        match self.join(token, None) {
            Err(Error::RefusedUnproven(refusal)) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// What a test dials with.
pub(crate) trait Dial {
    fn dial(&self) -> ClientConnection;
}

impl Dial for MemberClient {
    fn dial(&self) -> ClientConnection {
        self.connect().unwrap()
    }
}

impl Dial for JoinerClient {
    fn dial(&self) -> ClientConnection {
        self.connect().unwrap()
    }
}

/// For clients that break rules.
impl Dial for ClientConfig {
    fn dial(&self) -> ClientConnection {
        ClientConnection::new(Arc::new(self.clone()), server_name()).unwrap()
    }
}

/// Two ends of a connection whose handshake is over.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) client: ClientConnection,
    pub(crate) server: ServerConnection,
}

impl Line {
    /// Shakes hands; the error is that of whoever finds fault first.
    pub(crate) fn connect(client: &impl Dial, server: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let mut line = Self { client: client.dial(), server: ServerConnection::new(server)? };
        for _ in 0..8 {
            let mut bytes = Vec::new();
            while line.client.wants_write() {
                line.client.write_tls(&mut bytes).unwrap();
            }
            feed(&bytes, |bytes| line.server.read_tls(bytes));
            line.server.process_new_packets()?;
            let mut bytes = Vec::new();
            while line.server.wants_write() {
                line.server.write_tls(&mut bytes).unwrap();
            }
            feed(&bytes, |bytes| line.client.read_tls(bytes));
            line.client.process_new_packets()?;
        }
        assert!(!line.client.is_handshaking() && !line.server.is_handshaking());
        Ok(line)
    }
}

fn feed(mut bytes: &[u8], mut read: impl FnMut(&mut &[u8]) -> std::io::Result<usize>) {
    while !bytes.is_empty() {
        read(&mut bytes).unwrap();
    }
}
