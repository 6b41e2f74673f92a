//! The head's end of the conversation at the door.

use rustls::pki_types::UnixTime;
use wire::session::NodeLife;

use crate::address::Address;
use crate::authority::{Authority, SKEW_S};
use crate::certificate;
use crate::error::{Error, Refusal};
use crate::message::{self, Hello, Inbox, Kind, Request, Welcome};
use crate::name::{Member, Role};
use crate::proof::{Binding, Side};
use crate::token::TokenId;
use crate::tokens::Tokens;

/// Who asks to be let in. It has proved that it knows a token and has its key; the head decides, and gives a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The token that it knows.
    pub token: TokenId,
    /// What tells this life of it from others.
    pub life: u64,
    /// Where it can be reached, as it says.
    pub addresses: Vec<Address>,
    /// What it was before: it has the key of that certificate, which may have expired.
    pub former: Option<Member>,
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
    /// Let in.
    pub tokens: &'a Tokens,
}

#[derive(Debug)]
enum State {
    Waiting,
    Welcomed(TokenId),
    Deciding(Request),
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

    /// Lets it in under this number: the last bytes to send.
    ///
    /// # Errors
    /// If nobody waits for that.
    pub fn grant(&mut self, node: u32, authority: &Authority, now: UnixTime) -> Result<Vec<u8>, Error> {
        let State::Deciding(request) = std::mem::replace(&mut self.state, State::Over) else {
            return Err(Error::OutOfTurn);
        };
        // Never a head: a token lets nodes in, and no more.
        let who = NodeLife { node, life: request.life };
        let member = Member { cluster: authority.cluster(), who, role: Role::Node };
        let certificate = authority.sign(request.key, member, &request.addresses, now)?;
        Ok(message::encode_granted(&certificate))
    }

    /// Does not let it in, for a reason of the head's own: the last bytes to send.
    pub fn refuse(&mut self, refusal: Refusal) -> TurnedAway {
        self.state = State::Over;
        refusal.into()
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
                let (request, signature) = Request::decode(reader).map_err(malformed)?;
                self.on_request(request, &signature, token, door.authority, now)
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

    fn on_request(
        &mut self,
        request: Request,
        signature: &[u8],
        token: TokenId,
        authority: &Authority,
        now: UnixTime,
    ) -> Result<Step, Refusal> {
        let bad = |what: &str| Refusal::BadRequest(what.to_owned());
        if !request.key.verifies(&self.binding.to_be_signed(&request.words()), signature) {
            return Err(bad("its signature does not fit its key"));
        }
        let former = match &request.former {
            None => None,
            Some(former) if !certificate::is_of_key(former, &request.key) => {
                return Err(bad("the former certificate is for another key"));
            }
            Some(former) => {
                let verdict = certificate::verify_former(former, authority.certificate(), now);
                Some(verdict.map_err(|untrusted| Refusal::BadRequest(untrusted.to_string()))?)
            }
        };
        let wish = Wish { token, life: request.life, addresses: request.addresses.clone(), former };
        self.state = State::Deciding(request);
        Ok(Step::Decide(wish))
    }
}
