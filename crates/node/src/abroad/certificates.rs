//! Certificates, which last a day: this node's own is renewed over its session with the head in good time, and by token if that is too late.
//! At the head: who gets which, and that no two have one name.
//!
//! A new certificate is shown in new handshakes. The line with the head is one of them: it is dialled anew at once, so that the next renewal
//! is asked for with the certificate that is valid then. What was under way goes by the new line.

use std::time::Duration;

use identity::{Error, Fingerprint, Membership, Renewal, Role};
use model::Tick;
use net::clock::now;
use wire::abroad::Between;
use wire::session::NodeLife;

use super::belonging::{Desk, HEAD};
use super::door::configs;
use super::issued::Issued;
use super::joining::{JoinError, join_again};
use super::line::Stage;
use super::thread::Thread;
use super::{Ask, Told};

/// What did not work is tried again after this long,
const AGAIN_MS: u64 = 60_000;
/// and where nothing goes on without it, after this long.
const SOON_MS: u64 = 1_000;
/// How long the head may take to answer at its door.
const DOOR_MS: u64 = 10_000;

#[derive(Default)]
pub(crate) struct Certificates {
    /// At the head.
    pub(super) issued: Issued,
    /// Asked for over the session, and not answered.
    asked: Option<Renewal>,
    /// Somebody is at the head's door for one.
    is_at_door: bool,
    /// Nothing is tried before.
    next: Tick,
    /// The line with the head shows the certificate before; another one is dialled then.
    redial: Option<Tick>,
}

impl Certificates {
    /// When to look again, beside once in a while.
    pub(super) fn next_look(&self) -> Option<Tick> {
        self.redial
    }

    /// The head has a line that shows the present certificate.
    pub(super) fn is_shown(&mut self) {
        self.redial = None;
    }
}

impl Thread {
    pub(super) fn look_at_certificates(&mut self) {
        let now = now();
        if self.certificates.redial.is_some_and(|at| at <= now) {
            self.certificates.redial = Some(now.plus_ms(AGAIN_MS));
            self.redial_head();
        }
        let (belonging, wall) = (self.belonging.clone(), self.belonging.clock.now());
        let membership = belonging.membership();
        if !membership.is_due(wall) || now < self.certificates.next {
            return;
        }
        if let Some(desk) = &belonging.desk {
            match desk.authority.member(membership.member().who, Role::Head, wall) {
                Ok(renewed) => self.show(renewed),
                Err(error) => self.cannot_renew(now, &error),
            }
        } else if membership.is_expired(wall) {
            self.knock();
        } else if self.certificates.asked.is_none() && self.neighbours.get(HEAD).is_some_and(|head| head.line.is_some())
        {
            match Renewal::new(&membership) {
                Ok(renewal) => {
                    self.carrier.send(HEAD, &Between::Renews { request: renewal.request().to_vec() });
                    self.certificates.asked = Some(renewal);
                }
                Err(error) => self.cannot_renew(now, &error),
            }
        }
    }

    fn cannot_renew(&mut self, now: Tick, error: &dyn std::fmt::Display) {
        self.certificates.next = now.plus_ms(AGAIN_MS);
        self.warn(|| format!("this node's certificate is not renewed, and ends in some hours: {error}"));
    }

    /// From now on handshakes show this one.
    fn show(&mut self, renewed: Membership) {
        tracing::info!(until = renewed.until().as_secs(), "this node has a new certificate");
        self.belonging.renewed(renewed);
        match configs(&self.belonging) {
            Ok(configs) => self.configs = configs,
            Err(error) => tracing::error!("TLS does not take the new certificate: {error}"),
        }
        self.certificates.asked = None;
        if !self.belonging.is_head() {
            // One that is under way shows the old one.
            let attempt = self.neighbours.get(HEAD).and_then(|head| head.attempt);
            attempt.into_iter().for_each(|at| self.close_line(at, false));
            self.certificates.redial = Some(now());
        }
    }

    fn redial_head(&mut self) {
        let head = self.neighbours.get(HEAD).filter(|head| head.line.is_some() && head.attempt.is_none());
        if let Some(address) = head.and_then(|head| head.address) {
            self.call(HEAD, address, Stage::Connecting);
        }
    }

    /// At the head's door this node proves by its token, and by the key of the certificate that has expired, who it is. On a thread that lives
    /// as long as that takes.
    pub(super) fn knock(&mut self) {
        let now = now();
        let Some(head) = self.neighbours.get(HEAD).and_then(|head| head.address) else { return };
        if self.certificates.is_at_door || now < self.certificates.next {
            return;
        }
        self.certificates.asked = None;
        let (belonging, asks, bell) = (self.belonging.clone(), self.desk.asks.clone(), self.bell.clone());
        let run = move || {
            let came = join_again(&belonging, head, Duration::from_millis(DOOR_MS));
            asks.lock().expect("never poisoned").push_back(Ask::Renewed(Box::new(came)));
            bell.wake();
        };
        let thread = net::without_signals(|| std::thread::Builder::new().name("eagleray-renews".into()).spawn(run));
        match thread {
            Ok(_) => self.certificates.is_at_door = true,
            Err(error) => self.cannot_renew(now, &error),
        }
    }

    /// What came of that.
    pub(super) fn on_knocked(&mut self, came: Result<Membership, JoinError>) {
        self.certificates.is_at_door = false;
        let error = match came {
            Ok(renewed) => return self.show(renewed),
            Err(error) => error,
        };
        let is_final = matches!(&error, JoinError::Refused(why) if !matches!(why, Error::Ended | Error::Library(_)));
        let Some(head) = self.neighbours.get(HEAD) else { return };
        let why = format!("its certificate is not valid any more, and it gets no other: {error}");
        if head.line.is_some() {
            return self.cannot_renew(now(), &why);
        }
        self.certificates.next = now().plus_ms(SOON_MS);
        if is_final {
            self.told.push_back(Told::HeadLost(why));
        } else {
            head.problem = Some(why);
        }
    }

    /// At the head: a node asks for its next certificate.
    pub(super) fn on_renews(&mut self, node: u32, request: &[u8]) {
        let belonging = self.belonging.clone();
        let Some(desk) = &belonging.desk else { return };
        let certificate = self.renew(desk, node, request).map_err(Into::into);
        self.carrier.send(node, &Between::Renewed { certificate });
    }

    fn renew(&mut self, desk: &Desk, node: u32, request: &[u8]) -> Result<Vec<u8>, String> {
        let known = self.neighbours.get(node).and_then(|known| Some((known.life?, known.line?)));
        let (who, at) = known.ok_or("its line is cut")?;
        let line = self.lines.get(at).and_then(Option::as_ref).and_then(|line| line.tls());
        let shown = line.and_then(|tls| tls.peer_certificates()?.first()).ok_or("its line is cut")?;
        let print = Fingerprint::of(shown);
        let renewed = desk.authority.renew(shown, request, self.belonging.clock.now());
        if !self.certificates.issued.comes_with(who, print) {
            self.expel(who);
            return Err(identity::Untrusted::Expelled(who).to_string());
        }
        let renewed = renewed.map_err(|error| error.to_string())?;
        self.certificates.issued.give(who, Fingerprint::of(&renewed), Some(print));
        Ok(renewed.to_vec())
    }

    /// At the head: two have one name, so one of them has stolen it, and neither goes on under it.
    pub(super) fn expel(&mut self, who: NodeLife) {
        self.belonging.expel(who);
        self.certificates.issued.forget(who);
        let why =
            "its certificate was copied: two nodes have come with different ones under its name, and it was expelled";
        tracing::error!(node = who.node, "{why}");
        self.told.push_back(Told::Lost(who.node, why.into()));
    }

    /// The head's answer.
    pub(super) fn on_renewed(&mut self, certificate: Result<Vec<u8>, Box<str>>) {
        let Some(asked) = self.certificates.asked.take() else { return };
        let (present, wall) = (self.belonging.membership(), self.belonging.clock.now());
        let renewed = match certificate {
            Ok(certificate) => asked.finish(&certificate, &present, wall).map_err(|error| error.to_string()),
            Err(why) => Err(why.into()),
        };
        match renewed {
            Ok(renewed) => self.show(renewed),
            // It may be late by the head's clock, of which the token knows.
            Err(why) => {
                self.warn(|| format!("the head does not renew this node's certificate: {why}"));
                self.knock();
            }
        }
    }
}
