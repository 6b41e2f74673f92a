//! HOT: what comes by lines: who is at the other end, their hellos, and then what sessions say.
//!
//! A line counts once both ends have said hello. Until then it is an attempt, which may end in a refusal however well TLS went.

use identity::{Admission, Binding, Expected, Fingerprint, Untrusted, Usage, peer_of};
use net::clock::now;
use rustls::Connection;
use wire::session::Refusal;

use super::Told;
use super::belonging::HEAD;
use super::line::{Line, Over, Stage};
use super::thread::Thread;
use crate::values;

impl Thread {
    pub(super) fn on_over(&mut self, at: usize, over: &Over) {
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return };
        let _ = line.flush();
        let to = line.to;
        let node = match line.stage {
            Stage::Open(node, _) | Stage::Hailing(node, ..) => Some(node),
            _ => to,
        };
        match over {
            Over::Closed | Over::Io(_) => {}
            _ if node == Some(HEAD) && !self.belonging.is_head() => self.on_head_over(at, over),
            Over::Session(error) if self.belonging.is_head() && !error.is_retryable() => {
                self.told.extend(node.map(|node| Told::Lost(node, format!("its session cannot go on: {error}"))));
            }
            _ => self.warn(|| match node {
                Some(node) => format!("a line to or from node {node} is over: {over}"),
                None => format!("somebody who called is turned away: {over}"),
            }),
        }
        self.close_line(at, false);
    }

    /// Whether another line may do better, is not always known: then the next ones are tried until patience is over.
    fn on_head_over(&mut self, at: usize, over: &Over) {
        let is_hailing =
            self.lines.get(at).and_then(Option::as_ref).is_some_and(|line| matches!(line.stage, Stage::Hailing(..)));
        let Some(head) = self.neighbours.get(HEAD) else { return };
        match over {
            // It has proved that it is the head, and does not take this node's certificate: it tells why at its door.
            Over::Alert(_) if is_hailing => {
                head.problem = Some(over.to_string());
                self.knock();
            }
            Over::Session(error) if !error.is_retryable() => self.told.push_back(Told::HeadLost(over.to_string())),
            // Somebody else answers there; once there was a head it may come back.
            Over::Tls(_) | Over::Alert(_) if !head.has_been_up => self.told.push_back(Told::HeadLost(over.to_string())),
            _ => head.problem = Some(over.to_string()),
        }
    }

    /// The system knows whether somebody takes the call.
    pub(super) fn on_taken(&mut self, at: usize) {
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return };
        let (Some(node), is_probe) = (line.to, matches!(line.stage, Stage::Probing)) else { return };
        if let Err(error) = line.taken() {
            return self.close_line(at, error.kind() == std::io::ErrorKind::ConnectionRefused);
        }
        if is_probe {
            self.drop_line(at);
            return self.neighbours.probed(now(), node);
        }
        let expected = match self.neighbours.get(node).and_then(|known| known.life) {
            Some(life) if node != HEAD => Expected::Node(life),
            _ => Expected::Head,
        };
        let (membership, accepts, clock) =
            (self.belonging.membership(), self.belonging.accepts(), self.belonging.clock.for_tls());
        let tls = identity::for_dialler(&membership, expected, &accepts, &clock).and_then(|client| client.connect());
        match tls {
            Ok(mut tls) => {
                tls.set_buffer_limit(None);
                if line.shake(tls).is_ok() {
                    return self.flush(at);
                }
            }
            Err(error) => self.warn(|| format!("TLS cannot begin: {error}")),
        }
        self.close_line(at, false);
    }

    /// Something has come by a line, or its handshake has got further.
    pub(super) fn on_plain(&mut self, at: usize, plain: &[u8]) -> Result<(), Over> {
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return Ok(()) };
        if matches!(line.stage, Stage::Shaking) {
            if !line.is_shaken() {
                return Ok(());
            }
            self.on_shaken(at)?;
            if self.lines.get(at).and_then(Option::as_ref).is_some_and(Line::is_for_values) {
                self.hand_over(at, plain);
                return Ok(());
            }
        }
        if plain.is_empty() {
            return Ok(());
        }
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return Ok(()) };
        match &mut line.stage {
            Stage::Open(node, number) => {
                let (node, number) = (*node, *number);
                self.receive(node, number, plain)
            }
            Stage::Hailing(node, number, lines) => {
                let (node, number, lines) = (*node, *number, *lines);
                self.receive(node, number, plain)?;
                if self.carrier.session(node).is_some_and(|session| session.counts().lines > lines) {
                    self.open(at, node, number);
                }
                Ok(())
            }
            Stage::Greeting(_, came) => {
                came.extend_from_slice(plain);
                self.on_greeting(at)
            }
            Stage::Door(..) => {
                self.at_door(at, plain);
                Ok(())
            }
            Stage::Connecting | Stage::Probing | Stage::Shaking | Stage::Closing => Ok(()),
        }
    }

    fn receive(&mut self, node: u32, number: u64, bytes: &[u8]) -> Result<(), Over> {
        let received = self.carrier.receive(now(), &mut self.rings, node, number, bytes);
        // There may be credit again.
        self.ready.append(&mut self.paused);
        Ok(received?)
    }

    /// Who is at the other end is proved, or wants to be let in.
    fn on_shaken(&mut self, at: usize) -> Result<(), Over> {
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return Ok(()) };
        if line.is_at_door() {
            let binding = line.server().map(|server| Binding::of(server)).transpose().map_err(Over::Tls)?;
            if let Some(binding) = binding {
                line.stage = Stage::Door(Box::new(Admission::new(binding)), 0);
            }
            return Ok(());
        }
        let Some(tls) = line.tls() else { return Ok(()) };
        let membership = self.belonging.membership();
        let usage = match tls {
            Connection::Client(_) => Usage::Server,
            Connection::Server(_) => Usage::Client,
        };
        let shown = tls.peer_certificates();
        let print = shown.and_then(<[_]>::first).map(Fingerprint::of);
        let member = peer_of(membership.authority(), shown, usage, self.belonging.clock.now())
            .map_err(|untrusted| Over::Tls(untrusted.into()))?;
        let Some(node) = line.to else {
            line.stage = Stage::Greeting(member.who, Vec::new());
            let is_its_own = print.is_some_and(|print| self.certificates.issued.comes_with(member.who, print));
            if self.belonging.is_head() && self.neighbours.expects(member.who) && !is_its_own {
                self.expel(member.who);
                return Err(Over::Tls(Untrusted::Expelled(member.who).into()));
            }
            return Ok(());
        };
        let Some(known) = self.neighbours.get(node) else { return Err(Over::Closed) };
        if known.life.is_none() {
            known.life = Some(member.who);
            self.carrier.add_node(member.who);
        } else if known.life != Some(member.who) {
            return Err(Over::Tls(Untrusted::Unexpected(member.who).into()));
        }
        let session = self.carrier.session(node).ok_or(Over::Closed)?;
        let lines = session.counts().lines;
        let number = session.dial(now()).map_err(|_| Over::Closed)?;
        line.stage = Stage::Hailing(node, number, lines);
        // Whatever came by the line before is not taken any more.
        if let Some(before) = self.neighbours.lose(now(), node) {
            self.drop_line(before);
        }
        self.send_to(node, at);
        Ok(())
    }

    /// A line for large values is another thread's from now on.
    fn hand_over(&mut self, at: usize, early: &[u8]) {
        let Some(line) = self.drop_line(at) else { return };
        let Stage::Greeting(who, _) = line.stage else { return };
        if self.neighbours.get(who.node).is_none_or(|known| known.life != Some(who)) {
            return;
        }
        let Some((socket, tls)) = line.into_parts() else { return };
        match values::Line::new(socket, tls, early.to_vec()) {
            Ok(line) => self.rings.values.answer_call(who.node, line),
            Err(error) => self.warn(|| format!("a line for values cannot be used: {error}")),
        }
    }

    /// Both have said hello.
    fn open(&mut self, at: usize, node: u32, number: u64) {
        if let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) {
            (line.stage, line.until) = (Stage::Open(node, number), None);
        }
        tracing::info!(node, line = number, "a line to a node is open");
        let is_first = self.neighbours.get(node).is_some_and(|known| !known.has_been_up);
        if let Some(before) = self.neighbours.up(now(), node, at) {
            self.drop_line(before);
        }
        if node == HEAD && !self.belonging.is_head() {
            self.certificates.is_shown();
            let head = self.neighbours.get(HEAD).and_then(|head| head.life);
            self.told.extend(head.filter(|_| is_first).map(Told::HeadUp));
        }
    }

    /// A member that has called says hello.
    fn on_greeting(&mut self, at: usize) -> Result<(), Over> {
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return Ok(()) };
        let Stage::Greeting(who, came) = &mut line.stage else { return Ok(()) };
        let who = *who;
        let refuse = |line: &mut Line, refusal: Refusal| {
            line.write(&refusal.to_bytes());
            line.stage = Stage::Closing;
            Ok(())
        };
        let (hello, rest) = match cluster::read_hello(came) {
            Ok(None) => return Ok(()),
            Ok(Some((hello, length))) => (hello, came.split_off(length)),
            Err(no_hello) => match cluster::refusal_of(no_hello) {
                Some(refusal) => return refuse(line, refusal),
                None => return Err(Over::Session(no_hello.into())),
            },
        };
        if hello.from != who {
            return Err(Over::Tls(Untrusted::Unexpected(who).into()));
        }
        let answered = match (cluster::check(&hello, self.me), self.carrier.session(who.node)) {
            (Err(refusal), _) => Err(refusal),
            _ if self.neighbours.is_gone(who.node) => Err(Refusal::Ended),
            (Ok(()), Some(session)) if self.neighbours.expects(who) => session.answer(now(), &hello),
            // It may be that we hear of it next.
            (Ok(()), _) => Err(Refusal::Unknown),
        };
        match answered {
            Ok(number) => {
                self.open(at, who.node, number);
                self.receive(who.node, number, &rest)
            }
            Err(refusal) => refuse(line, refusal),
        }
    }
}
