//! The head's end of the conversation at the door.

use rustls::pki_types::{CertificateDer, UnixTime};
use wire::session::NodeLife;

use crate::address::Address;
use crate::authority::{Authority, SKEW_S};
use crate::certificate::{self, Fingerprint};
use crate::error::{Error, Refusal};
use crate::message::{self, Hello, Inbox, Kind, Request, Signatures, Welcome};
use crate::name::{Member, Role};
use crate::proof::{Binding, Side};
use crate::python::Python;
use crate::token::TokenId;
use crate::tokens::Tokens;

/// Who asks to be let in. It has proved that it knows a token and has its key; the head decides, and gives a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The token that it knows.
    pub token: TokenId,
    /// What tells this life of it from others.
    pub life: u64,
    /// Which Python it runs, as it says.
    pub python: Python,
    /// Where it can be reached, as it says. Nobody has checked that, and its certificate does not say it.
    pub addresses: Vec<Address>,
    /// What it was before: it has the key of that certificate, which may have expired. Never the head.
    pub former: Option<Member>,
    /// The certificate that says so: whether it was the last of its life, the head knows.
    pub shown: Option<Fingerprint>,
}

/// What came of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait for more.
    More,
    /// Send these.
    Send(Vec<u8>),
    /// Call [`Admission::grant`] or [`Admission::refuse`].
    Decide(Wish),
}

/// Somebody is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The last bytes to send.
    pub answer: Vec<u8>,
    /// The certificate in them, for its [`Fingerprint`](crate::Fingerprint).
    pub certificate: CertificateDer<'static>,
}

/// Somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("somebody is not let in: {refusal}")]
pub struct TurnedAway {
    /// Why it is not.
    pub refusal: Refusal,
    /// What to send before the connection is closed.
    pub answer: Vec<u8>,
}

impl From<Refusal> for TurnedAway {
    fn from(refusal: Refusal) -> Self {
        let answer = message::encode_refused(&refusal);
        Self { refusal, answer }
    }
}

/// What the head looks things up in.
#[derive(Clone, Copy, Debug)]
pub struct Door<'a> {
    /// Signs.
    pub authority: &'a Authority,
    /// Let in, as they are at this moment.
    pub tokens: &'a Tokens,
    /// The head's own number, which nobody gets by token.
    pub head: u32,
}

#[derive(Debug)]
enum State {
    Waiting,
    Welcomed(TokenId),
    Deciding(TokenId, Request),
    Over,
}

/// The conversation as the head has it. It keeps a few KiB at most.
#[derive(Debug)]
pub struct Admission {
    state: State,
    inbox: Inbox,
    binding: Binding,
}

impl Admission {
    /// Waits for the first words on a connection.
    #[must_use]
    pub fn new(binding: Binding) -> Self {
        Self { state: State::Waiting, inbox: Inbox::default(), binding }
    }

    /// Takes bytes that came.
    ///
    /// # Errors
    /// If whoever sent them is not let in: send the answer and close.
    pub fn input(&mut self, bytes: &[u8], door: Door<'_>, now: UnixTime) -> Result<Step, TurnedAway> {
        self.step(bytes, door, now).map_err(|refusal| {
            self.state = State::Over;
            refusal.into()
        })
    }

    /// Lets it in under this number.
    ///
    /// # Errors
    /// If its token is not valid any more, the number is the head's, or nobody waits for that: send the answer and
    /// close.
    pub fn grant(&mut self, node: u32, door: Door<'_>, now: UnixTime) -> Result<Granted, TurnedAway> {
        self.sign(node, door, now).map_err(TurnedAway::from)
    }

    /// Does not let it in, for a reason of the head's own: the last bytes to send.
    pub fn refuse(&mut self, refusal: Refusal) -> TurnedAway {
        self.state = State::Over;
        refusal.into()
    }

    fn sign(&mut self, node: u32, door: Door<'_>, now: UnixTime) -> Result<Granted, Refusal> {
        let State::Deciding(token, request) = std::mem::replace(&mut self.state, State::Over) else {
            return Err(Refusal::Misunderstood(Error::OutOfTurn.to_string()));
        };
        still_valid(token, door, now)?;
        if node == door.head {
            return Err(bad("the number is the head's"));
        }
        // Never a head: a token lets nodes in, and no more.
        let who = NodeLife { node, life: request.life };
        let member = Member { cluster: door.authority.cluster(), who, role: Role::Node };
        let signed = door.authority.sign(request.key, member, now);
        let certificate = signed.map_err(|error| Refusal::Other(format!("the head cannot sign: {error}")))?;
        Ok(Granted { answer: message::encode_granted(&certificate), certificate })
    }

    fn step(&mut self, bytes: &[u8], door: Door<'_>, now: UnixTime) -> Result<Step, Refusal> {
        let misunderstood = |error: Error| Refusal::Misunderstood(error.to_string());
        let Some(message) = self.inbox.take(bytes).map_err(misunderstood)? else { return Ok(Step::More) };
        let malformed = |error: wire::Malformed| Refusal::Misunderstood(error.to_string());
        let (kind, reader) = message::open(&message).map_err(malformed)?;
        match (kind, std::mem::replace(&mut self.state, State::Over)) {
            (Kind::Hello, State::Waiting) => {
                let theirs = Hello::version(&mut reader.clone()).map_err(malformed)?;
                if theirs != wire::PROTOCOL {
                    return Err(Refusal::Version { ours: wire::PROTOCOL, theirs });
                }
                let (hello, proof) = Hello::decode(reader).map_err(malformed)?;
                self.on_hello(&hello, &proof, door, now)
            }
            (Kind::Request, State::Welcomed(token)) => {
                let (request, signatures) = Request::decode(reader).map_err(malformed)?;
                still_valid(token, door, now)?;
                let former = self.prove_keys(&request, &signatures, door, now)?;
                let wish = Wish {
                    token,
                    life: request.life,
                    python: request.python,
                    addresses: request.addresses.clone(),
                    former,
                    shown: request.former.as_ref().map(Fingerprint::of),
                };
                self.state = State::Deciding(token, request);
                Ok(Step::Decide(wish))
            }
            _ => Err(misunderstood(Error::OutOfTurn)),
        }
    }

    fn on_hello(&mut self, hello: &Hello, proof: &[u8; 32], door: Door<'_>, now: UnixTime) -> Result<Step, Refusal> {
        if hello.cluster != door.authority.cluster() {
            return Err(Refusal::OtherCluster(door.authority.cluster()));
        }
        let (token, is_valid) = door.tokens.find(hello.token, now)?;
        let words = hello.words();
        if !self.binding.is_proof(proof, token, Side::Joiner, &[&words]) {
            return Err(Refusal::WrongProof);
        }
        if !is_valid {
            return Err(Refusal::ExpiredToken);
        }
        // Otherwise it would be let in, and then find its certificate, or ours, not yet or no longer valid.
        if hello.clock_s.abs_diff(now.as_secs()) > SKEW_S {
            return Err(Refusal::Clock { ours: now.as_secs(), theirs: hello.clock_s });
        }
        self.state = State::Welcomed(hello.token);
        let authority = door.authority.certificate().clone();
        let proof = self.binding.prove(token, Side::Head, &[&words, &authority]);
        Ok(Step::Send(Welcome { proof, authority }.encode()))
    }

    /// Whether it has the keys that it speaks of: the new one, and the one of whom it was before.
    fn prove_keys(
        &self,
        request: &Request,
        signatures: &Signatures,
        door: Door<'_>,
        now: UnixTime,
    ) -> Result<Option<Member>, Refusal> {
        let words = request.words();
        if !request.key.verifies(&self.binding.to_be_signed(&words), &signatures.new) {
            return Err(bad("its signature does not fit its key"));
        }
        let Some(former) = &request.former else { return Ok(None) };
        if certificate::is_of_key(former, &request.key) {
            return Err(bad("it is for the key of the former certificate: draw a new one"));
        }
        let verdict = certificate::verify_former(former, door.authority.certificate(), now);
        let member = verdict.map_err(|untrusted| Refusal::BadRequest(untrusted.to_string()))?;
        if !certificate::has_signed(former, &self.binding.to_be_signed_by_former(&words), &signatures.former) {
            return Err(bad("its signature does not fit the key of the former certificate"));
        }
        if member.role == Role::Head || member.who.node == door.head {
            return Err(bad("the former number is the head's"));
        }
        Ok(Some(member))
    }
}

fn bad(what: &str) -> Refusal {
    Refusal::BadRequest(what.to_owned())
}

/// Whether a token lets nodes in at this moment. A conversation takes a while, and tables change.
fn still_valid(token: TokenId, door: Door<'_>, now: UnixTime) -> Result<(), Refusal> {
    let (_, is_valid) = door.tokens.find(token, now)?;
    is_valid.then_some(()).ok_or(Refusal::ExpiredToken)
}
