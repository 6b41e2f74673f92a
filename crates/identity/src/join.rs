//! The joiner's end of the conversation at the door.
//!
//! Its TLS connection has accepted whatever certificate the server showed. That is safe only because nothing is taken
//! from the server, the authority's certificate least of all, before it has proved on this very connection that it
//! knows the token (ID-1). Afterwards the server's certificate is checked as any other.

use rustls::ClientConnection;
use rustls::pki_types::{CertificateDer, UnixTime};

use crate::address::Address;
use crate::certificate::{self, Usage};
use crate::error::{Error, Untrusted};
use crate::key::Key;
use crate::membership::Membership;
use crate::message::{self, ADDRESSES_MAX, Hello, Inbox, Kind, Request, Signatures, Welcome};
use crate::name::Role;
use crate::proof::{Binding, Side};
use crate::python::Python;
use crate::token::Token;

/// Who joins.
#[derive(Debug)]
pub struct Joining {
    /// By which it wants to get in.
    pub token: Token,
    /// Where it can be reached, for the head to know. They do not get into its certificate.
    pub addresses: Vec<Address>,
    /// What tells this life of the node from others.
    pub life: u64,
    /// Which Python the node runs.
    pub python: Python,
    /// What it was before, perhaps expired: then it asks for its number. Its key is drawn anew all the same.
    pub former: Option<Membership>,
}

/// What came of some bytes.
#[derive(Debug)]
pub enum Progress {
    /// Wait for more.
    More,
    /// Send these.
    Send(Vec<u8>),
    /// It is over, and this node belongs to the cluster. The connection has served its purpose.
    Joined(Box<Membership>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeted,
    Asked,
    Over,
}

/// The conversation as the joiner has it. After an error it is over.
#[derive(Debug)]
pub struct Join {
    state: State,
    inbox: Inbox,
    binding: Binding,
    server: CertificateDer<'static>,
    token: Token,
    hello: Hello,
    key: Option<Key>,
    former: Option<Key>,
    request: Request,
    authority: Option<CertificateDer<'static>>,
}

impl Join {
    /// Begins on a connection whose handshake is over, and gives the first bytes to send there.
    ///
    /// # Errors
    /// If the handshake is not over, no key can be made, or there are more than 16 addresses.
    pub fn new(connection: &ClientConnection, joining: Joining, now: UnixTime) -> Result<(Self, Vec<u8>), Error> {
        let binding = Binding::of(connection)?;
        let server = connection.peer_certificates().and_then(<[_]>::first).ok_or(Untrusted::Unreadable)?;
        Self::over(binding, server.clone(), joining, now)
    }

    /// As [`Join::new`], with what it takes from the connection.
    pub(crate) fn over(
        binding: Binding,
        server: CertificateDer<'static>,
        joining: Joining,
        now: UnixTime,
    ) -> Result<(Self, Vec<u8>), Error> {
        let Joining { token, addresses, life, python, former } = joining;
        if addresses.len() > ADDRESSES_MAX {
            return Err(Error::Library(format!("{} addresses are more than {ADDRESSES_MAX}", addresses.len())));
        }
        let key = Key::generate()?;
        let (former, shown) = match former {
            // Of another cluster it would help nothing, and tell this one about it.
            Some(former) if former.member().cluster == token.cluster() => (Some(former.key), Some(former.certificate)),
            _ => (None, None),
        };
        let hello =
            Hello { version: wire::PROTOCOL, cluster: token.cluster(), token: token.id(), clock_s: now.as_secs() };
        let first = hello.encode(&binding.prove(&token, Side::Joiner, &[&hello.words()]));
        let request = Request { key: key.public(), life, python, former: shown, addresses };
        let inbox = Inbox::default();
        let join = Self {
            state: State::Greeted,
            inbox,
            binding,
            server,
            token,
            hello,
            key: Some(key),
            former,
            request,
            authority: None,
        };
        Ok((join, first))
    }

    /// Takes bytes that came.
    ///
    /// # Errors
    /// If the server refuses, has not proved itself, or says what it should not.
    pub fn input(&mut self, bytes: &[u8], now: UnixTime) -> Result<Progress, Error> {
        let progress = self.step(bytes, now);
        if progress.is_err() {
            self.state = State::Over;
        }
        progress
    }

    /// Whether the conversation may end here.
    ///
    /// # Errors
    /// If it may not.
    pub fn ended(&self) -> Result<(), Error> {
        if self.state == State::Over { Ok(()) } else { Err(Error::Ended) }
    }

    fn step(&mut self, bytes: &[u8], now: UnixTime) -> Result<Progress, Error> {
        if self.state == State::Over {
            return Err(Error::OutOfTurn);
        }
        let Some(message) = self.inbox.take(bytes)? else { return Ok(Progress::More) };
        let (kind, reader) = message::open(&message)?;
        match (kind, self.state) {
            (Kind::Welcome, State::Greeted) => self.on_welcome(&Welcome::decode(reader)?, now),
            (Kind::Granted, State::Asked) => self.on_granted(message::decode_granted(reader)?, now),
            (Kind::Refused, State::Greeted) => Err(Error::RefusedUnproven(message::decode_refused(reader)?)),
            (Kind::Refused, _) => Err(Error::Refused(message::decode_refused(reader)?)),
            (Kind::Hello | Kind::Welcome | Kind::Request | Kind::Granted, _) => Err(Error::OutOfTurn),
        }
    }

    fn on_welcome(&mut self, welcome: &Welcome<'_>, now: UnixTime) -> Result<Progress, Error> {
        let words = self.hello.words();
        if !self.binding.is_proof(&welcome.proof, &self.token, Side::Head, &[&words, &welcome.authority]) {
            return Err(Error::Unproven);
        }
        let member = certificate::verify(&self.server, &welcome.authority, Usage::Server, now)?;
        if member.cluster != self.token.cluster() {
            return Err(Untrusted::OtherCluster { theirs: member.cluster, ours: self.token.cluster() }.into());
        }
        if member.role != Role::Head {
            return Err(Untrusted::NotHead.into());
        }
        self.authority = Some(welcome.authority.clone().into_owned());
        self.state = State::Asked;
        let key = self.key.as_ref().ok_or(Error::OutOfTurn)?;
        let words = self.request.words();
        let new = key.sign(&self.binding.to_be_signed(&words))?;
        let former = self.former.take().map(|key| key.sign(&self.binding.to_be_signed_by_former(&words)));
        let former = former.transpose()?.unwrap_or_default();
        Ok(Progress::Send(self.request.encode(&Signatures { new, former })))
    }

    fn on_granted(&mut self, certificate: CertificateDer<'static>, now: UnixTime) -> Result<Progress, Error> {
        self.state = State::Over;
        let (Some(key), Some(authority)) = (self.key.take(), self.authority.take()) else {
            return Err(Error::OutOfTurn);
        };
        let member = certificate::verify(&certificate, &authority, Usage::Client, now)?;
        if member.who.life != self.request.life || member.role != Role::Node {
            return Err(Untrusted::NotOurs.into());
        }
        let membership = Membership::new(key, certificate, authority, now)?;
        Ok(Progress::Joined(Box::new(membership)))
    }
}
