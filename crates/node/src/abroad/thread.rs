//! HOT: the carrier's loop. It reads rings and sockets, lets `carrier::Carrier` decide, and sleeps at one epoll.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use carrier::Carrier;
use cluster::Limits;
use identity::{Accepts, Admission, Binding, Expected, Usage, peer_of};
use model::Tick;
use net::Bell;
use net::clock::now;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustls::Connection;
use wire::members::NodeInfo;
use wire::session::NodeLife;

use super::belonging::{self, Belonging, HEAD, clock};
use super::line::{Configs, Line, Over, Stage};
use super::neighbours::{Due, Neighbours};
use super::rings::{Pair, RingEnds};
use super::{Ask, ClusterOptions, Queue, Told};
use crate::Error;

/// A call that has not become a line by then never will.
const SHAKE_MS: u64 = 10_000;
/// Callers who have not proved who they are, at most: the one who has taken longest makes room for the next.
const STRANGERS_MAX: usize = 256;
/// Whoever reads its ring does not say so: a full one is looked at again after this long.
const FULL_LOOK_US: u64 = 500;
/// Frames of one ring at a time: others have their turn then.
const FRAMES_MAX: usize = 512;
/// Bytes that are taken from a session at a time.
const TAKE_BYTES: usize = 128 * 1024;
/// How long what is left goes out when the node ends.
const STOP_MS: u64 = 300;

const EVENT: u64 = 0;
const LISTENER: u64 = 1;
const LINES: u64 = 2;

/// Where the node's own thread and this one leave things for each other.
pub(crate) struct Desk {
    pub(crate) asks: Queue<Ask>,
    pub(crate) told: Queue<Told>,
    /// Wakes the node.
    pub(crate) wake: OwnedFd,
}

pub(crate) struct Thread {
    me: NodeLife,
    belonging: Arc<Belonging>,
    carrier: Carrier,
    rings: RingEnds,
    bell: Bell,
    event: Arc<OwnedFd>,
    desk: Desk,
    poll: OwnedFd,
    listener: Option<OwnedFd>,
    configs: Configs,
    lines: Vec<Option<Line>>,
    neighbours: Neighbours,
    /// Numbers that the head has given out; the next is one more.
    last_number: u32,
    /// Rings that have something, and may be read.
    ready: Vec<Pair>,
    /// Rings that have something, of which a frame waits for its session.
    paused: Vec<Pair>,
    full_look: Option<Tick>,
    /// The node was asked for room in the arena and has not answered.
    awaits_room: bool,
    told: VecDeque<Told>,
    stops_at: Option<Tick>,
    buffer: Vec<u8>,
}

fn setting_up(error: identity::Error) -> Error {
    Error::Io { what: "preparing TLS", cause: std::io::Error::other(error) }
}

impl Thread {
    pub(crate) fn new(
        cluster: &ClusterOptions,
        listener: Option<OwnedFd>,
        rings: RingEnds,
        bell: Bell,
        event: Arc<OwnedFd>,
        desk: Desk,
    ) -> Result<Self, Error> {
        let io = |what: &'static str| move |errno: rustix::io::Errno| Error::Io { what, cause: errno.into() };
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io("making an epoll"))?;
        let watch = |fd: &OwnedFd, token| epoll::add(&poll, fd, EventData::new_u64(token), EventFlags::IN);
        watch(&event, EVENT).map_err(io("watching"))?;
        if let Some(listener) = &listener {
            watch(listener, LISTENER).map_err(io("watching"))?;
        }
        let belonging = cluster.belonging.clone();
        let me = belonging.life();
        let mut neighbours = Neighbours::new(belonging.is_head());
        if let Some(head) = cluster.head {
            neighbours.add(now(), HEAD, None, Some(head), true);
        }
        Ok(Self {
            me,
            configs: configs(&belonging).map_err(setting_up)?,
            belonging,
            carrier: Carrier::new(me, Limits::default()),
            rings,
            bell,
            event,
            desk,
            poll,
            listener,
            lines: Vec::new(),
            neighbours,
            last_number: HEAD,
            ready: Vec::new(),
            paused: Vec::new(),
            full_look: None,
            awaits_room: false,
            told: VecDeque::new(),
            stops_at: None,
            buffer: Vec::new(),
        })
    }

    pub(crate) fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        loop {
            let mut has_moved = self.take_asks();
            has_moved |= self.read_rings();
            self.look_at_full_rings();
            self.look_at_time();
            self.send_all();
            self.rings.ring_all();
            self.tell_node();
            if self.stops_at.is_some_and(|at| at <= now() || self.has_sent_all()) {
                return;
            }
            let may_sleep = !has_moved && self.ready.is_empty() && self.bell.doze();
            let is_asked = || !self.desk.asks.lock().expect("never poisoned").is_empty();
            let timeout = if may_sleep && !is_asked() { self.timeout() } else { Some(Timespec::default()) };
            events.clear();
            let waited = epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref());
            self.bell.rouse();
            if waited.is_err_and(|errno| errno != rustix::io::Errno::INTR) {
                return;
            }
            for event in &events {
                match event.data.u64() {
                    EVENT => {
                        let _ = rustix::io::read(&self.event, &mut [0; 8]);
                    }
                    LISTENER => self.on_callers(),
                    line => self.on_line((line - LINES) as usize),
                }
            }
        }
    }

    fn timeout(&mut self) -> Option<Timespec> {
        let now = now();
        let lines = self.lines.iter().flatten().filter_map(|line| line.until).min();
        let nodes: Vec<u32> = self.carrier.nodes().collect();
        let sessions = nodes.into_iter().filter_map(|node| self.carrier.session(node)?.wake_at()).min();
        let next = [lines, sessions, self.neighbours.next_look(), self.full_look, self.stops_at];
        let next = next.into_iter().flatten().min()?;
        let wait_us = next.0.saturating_sub(now.0).min(60_000_000);
        Some(Timespec { tv_sec: (wait_us / 1_000_000) as i64, tv_nsec: (wait_us % 1_000_000 * 1_000) as i64 })
    }

    /// What the node's thread wants. True: there was something.
    fn take_asks(&mut self) -> bool {
        let asks = std::mem::take(&mut *self.desk.asks.lock().expect("never poisoned"));
        let is_some = !asks.is_empty();
        for ask in asks {
            match ask {
                Ask::Send(node, message) => self.carrier.send(node, &message),
                Ask::Died(death, nodes) => self.carrier.on_died_here(&mut self.rings, death, &nodes),
                Ask::Linked(here, there, rings) => {
                    self.rings.add(here, there, rings);
                    self.carrier.on_linked(&mut self.rings, here, there);
                    // What was rung before the ring was known was not heard.
                    self.ready.push((here, there));
                }
                Ask::Unlinked(here, there) => self.carrier.on_link_closed(&mut self.rings, here, there),
                Ask::Flush(ticket) => self.carrier.flush(&mut self.rings, ticket),
                Ask::Reach(ticket, positions) => self.carrier.reach(&mut self.rings, ticket, &positions),
                Ask::Meet(info) => self.meet(&info),
                Ask::Part(node) => self.part(node),
                Ask::Extent(granted) => {
                    self.awaits_room = false;
                    if let Some((offset, length)) = granted {
                        self.rings.add_extent(offset, length);
                    }
                }
                Ask::Stop => self.stops_at = Some(now().plus_ms(STOP_MS)),
            }
        }
        is_some
    }

    /// A node belongs to the cluster from now on.
    fn meet(&mut self, info: &NodeInfo) {
        let life = NodeLife { node: info.number, life: info.life };
        let address = info.addresses.iter().find_map(|address| address.parse::<SocketAddr>().ok());
        let dials = address.is_some() && (self.listener.is_none() || self.me.node > life.node);
        let is_known = self.neighbours.get(life.node).is_some();
        self.neighbours.add(now(), life.node, Some(life), address, dials);
        if !is_known {
            self.carrier.add_node(life);
        }
    }

    /// A verdict.
    fn part(&mut self, node: u32) {
        for at in self.neighbours.remove(node) {
            self.drop_line(at);
        }
        self.carrier.remove_node(&mut self.rings, node);
    }

    /// Reads what lies in rings, if it may be sent. True: there was something.
    fn read_rings(&mut self) -> bool {
        let mut pairs = std::mem::take(&mut self.ready);
        self.rings.take_ready(&self.bell, &mut pairs);
        let has_some = !pairs.is_empty();
        for pair in pairs {
            let (here, there) = pair;
            for _ in 0..FRAMES_MAX {
                if !self.carrier.reads(here, there) {
                    break;
                }
                let Some(frame) = carrier::Body::read(&mut self.rings, here, there) else { break };
                self.carrier.on_frame(&mut self.rings, here, there, frame);
            }
            if self.rings.has_frame(&pair) {
                let list = if self.carrier.reads(here, there) { &mut self.ready } else { &mut self.paused };
                if !list.contains(&pair) {
                    list.push(pair);
                }
            }
        }
        has_some
    }

    fn look_at_full_rings(&mut self) {
        if self.rings.full.is_empty() {
            self.full_look = None;
            return;
        }
        let now = now();
        if self.full_look.is_some_and(|at| at > now) {
            return;
        }
        for (here, there) in std::mem::take(&mut self.rings.full) {
            self.carrier.on_room(&mut self.rings, here, there);
        }
        self.full_look = (!self.rings.full.is_empty()).then(|| Tick(now.0 + FULL_LOOK_US));
    }

    fn look_at_time(&mut self) {
        let now = now();
        let nodes: Vec<u32> = self.carrier.nodes().collect();
        for node in nodes {
            let Some(session) = self.carrier.session(node) else { continue };
            if session.wake_at().is_none_or(|at| at > now) {
                continue;
            }
            session.tick(now);
            // Nothing has come by it for too long.
            let is_silent = session.wake_at().is_none();
            if is_silent && let Some(at) = self.neighbours.get(node).and_then(|known| known.line) {
                tracing::warn!(node, "nothing has come by the line to a node; it is given up");
                self.close_line(at, false);
            }
            self.carrier.look_at_notices(&mut self.rings, node);
        }
        let late = |line: &Option<Line>| line.as_ref().is_some_and(|line| line.until.is_some_and(|until| until <= now));
        let late: Vec<usize> = (0..self.lines.len()).filter(|at| late(&self.lines[*at])).collect();
        late.into_iter().for_each(|at| self.close_line(at, false));
        for due in self.neighbours.look(now) {
            match due {
                Due::Dial(node, address) => self.call(node, address, Stage::Connecting),
                Due::Probe(node, address) => self.call(node, address, Stage::Probing),
                Due::Gone(HEAD, why) if !self.belonging.is_head() => self.told.push_back(Told::HeadLost(why)),
                Due::Gone(node, why) => self.told.push_back(Told::Lost(node, why)),
            }
        }
    }

    fn call(&mut self, node: u32, address: SocketAddr, stage: Stage) {
        let attempt = Line::dial(address, node, stage, now().plus_ms(SHAKE_MS));
        let attempt = attempt.ok().and_then(|line| self.add_line(line));
        match (attempt, self.neighbours.get(node)) {
            (Some(at), Some(known)) => known.attempt = Some(at),
            (None, Some(known)) => {
                known.attempt = Some(usize::MAX);
                self.neighbours.down(now(), node, usize::MAX, false);
            }
            _ => {}
        }
    }

    fn add_line(&mut self, line: Line) -> Option<usize> {
        let at = self.lines.iter().position(Option::is_none).unwrap_or(self.lines.len());
        epoll::add(&self.poll, line.fd(), EventData::new_u64(LINES + at as u64), line.first_watch()).ok()?;
        if at == self.lines.len() {
            self.lines.push(None);
        }
        self.lines[at] = Some(line);
        Some(at)
    }

    /// Without a word to anybody.
    fn drop_line(&mut self, at: usize) -> Option<Line> {
        let line = self.lines.get_mut(at)?.take()?;
        let _ = epoll::delete(&self.poll, line.fd());
        Some(line)
    }

    /// It is over; what was under way goes by the next one.
    fn close_line(&mut self, at: usize, refused: bool) {
        let Some(line) = self.drop_line(at) else { return };
        if let Stage::Open(node, number) = line.stage {
            if let Some(session) = self.carrier.session(node) {
                session.closed(number);
            }
            self.neighbours.down(now(), node, at, refused);
        } else if let Some(node) = line.to {
            self.neighbours.down(now(), node, at, refused);
        }
    }

    fn on_callers(&mut self) {
        while let Some(listener) = &self.listener {
            let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
            let Ok(socket) = rustix::net::accept_with(listener, flags) else { return };
            let is_stranger = |line: &Line| line.to.is_none() && !matches!(line.stage, Stage::Open(..));
            let strangers = self.lines.iter().flatten().filter(|line| is_stranger(line)).count();
            if strangers >= STRANGERS_MAX {
                let strangers = (0..self.lines.len()).filter(|at| self.lines[*at].as_ref().is_some_and(is_stranger));
                let oldest = strangers.min_by_key(|at| self.lines[*at].as_ref().and_then(|line| line.until));
                oldest.into_iter().for_each(|at| drop(self.drop_line(at)));
            }
            self.add_line(Line::answer(socket, now().plus_ms(SHAKE_MS)));
        }
    }

    fn on_line(&mut self, at: usize) {
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return };
        if matches!(line.stage, Stage::Connecting | Stage::Probing) {
            return self.on_taken(at);
        }
        let mut plain = std::mem::take(&mut self.buffer);
        plain.clear();
        let read = line.read(&self.configs, &mut plain);
        let said = self.on_plain(at, &plain);
        self.buffer = plain;
        if let Err(over) = read.and(said) {
            self.on_over(at, &over);
        } else {
            self.flush(at);
        }
    }

    fn on_over(&mut self, at: usize, over: &Over) {
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return };
        let _ = line.flush();
        match line.to {
            _ if matches!(over, Over::Closed | Over::Io(_)) => {}
            Some(HEAD) if !self.belonging.is_head() => {
                // Another line would end in the same way.
                self.told.push_back(Told::HeadLost(over.to_string()));
            }
            to => tracing::warn!(node = to, "a line to or from another node is over: {over}"),
        }
        self.close_line(at, false);
    }

    /// The system knows whether somebody takes the call.
    fn on_taken(&mut self, at: usize) {
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
        let membership = self.belonging.membership();
        let accepts = Accepts::new(|_| true);
        let tls = identity::for_dialler(&membership, expected, &accepts, &clock()).and_then(|client| client.connect());
        match tls {
            Ok(mut tls) => {
                tls.set_buffer_limit(None);
                if line.shake(tls).is_ok() {
                    return self.flush(at);
                }
            }
            Err(error) => tracing::warn!(node, "TLS cannot begin: {error}"),
        }
        self.close_line(at, false);
    }

    /// Something has come by a line, or its handshake has got further.
    fn on_plain(&mut self, at: usize, plain: &[u8]) -> Result<(), Over> {
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return Ok(()) };
        if matches!(line.stage, Stage::Shaking) {
            if !line.is_shaken() {
                return Ok(());
            }
            self.on_shaken(at)?;
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
            Stage::Greeting(_, came) => {
                came.extend_from_slice(plain);
                self.on_greeting(at)
            }
            Stage::Door(_) => {
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
        received.map_err(|error| Over::Io(std::io::Error::other(error)))
    }

    /// Who is at the other end is proved, or wants to be let in.
    fn on_shaken(&mut self, at: usize) -> Result<(), Over> {
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return Ok(()) };
        if line.is_at_door() {
            let binding = line.server().map(|server| Binding::of(server)).transpose().map_err(Over::Tls)?;
            if let Some(binding) = binding {
                line.stage = Stage::Door(Box::new(Admission::new(binding)));
            }
            return Ok(());
        }
        let Some(tls) = line.tls() else { return Ok(()) };
        let membership = self.belonging.membership();
        let usage = match tls {
            Connection::Client(_) => Usage::Server,
            Connection::Server(_) => Usage::Client,
        };
        let member = peer_of(membership.authority(), tls.peer_certificates(), usage, belonging::now())
            .map_err(|untrusted| Over::Tls(untrusted.into()))?;
        let Some(node) = line.to else {
            if !self.neighbours.expects(member.who) {
                // It may be that we hear of it next.
                return Err(Over::Closed);
            }
            line.stage = Stage::Greeting(member.who, Vec::new());
            return Ok(());
        };
        let Some(known) = self.neighbours.get(node) else { return Err(Over::Closed) };
        if known.life.is_none() {
            known.life = Some(member.who);
            self.carrier.add_node(member.who);
            self.told.push_back(Told::HeadUp(member.who));
        } else if known.life != Some(member.who) {
            return Err(Over::Tls(identity::Error::Untrusted(identity::Untrusted::Unexpected(member.who))));
        }
        let number = self.carrier.session(node).and_then(|session| session.dial(now()).ok());
        let number = number.ok_or(Over::Closed)?;
        self.open(at, node, number);
        Ok(())
    }

    fn open(&mut self, at: usize, node: u32, number: u64) {
        if let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) {
            (line.stage, line.until) = (Stage::Open(node, number), None);
        }
        tracing::info!(node, line = number, "a line to a node is open");
        if let Some(before) = self.neighbours.up(node, at) {
            self.drop_line(before);
        }
    }

    /// A member that has called says hello.
    fn on_greeting(&mut self, at: usize) -> Result<(), Over> {
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return Ok(()) };
        let Stage::Greeting(who, came) = &mut line.stage else { return Ok(()) };
        let who = *who;
        let refuse = |line: &mut Line, refusal: wire::session::Refusal| {
            line.write(&refusal.to_bytes());
            line.stage = Stage::Closing;
            Ok(())
        };
        let (hello, rest) = match cluster::read_hello(came) {
            Ok(None) => return Ok(()),
            Ok(Some((hello, length))) => (hello, came.split_off(length)),
            Err(no_hello) => match cluster::refusal_of(no_hello) {
                Some(refusal) => return refuse(line, refusal),
                None => return Err(Over::Closed),
            },
        };
        if hello.from != who {
            return Err(Over::Closed);
        }
        let answered = match (cluster::check(&hello, self.me), self.carrier.session(who.node)) {
            (Ok(()), Some(session)) => session.answer(now(), &hello),
            (Ok(()), None) => Err(wire::session::Refusal::Unknown),
            (Err(refusal), _) => Err(refusal),
        };
        match answered {
            Ok(number) => {
                self.open(at, who.node, number);
                self.receive(who.node, number, &rest)
            }
            Err(refusal) => refuse(line, refusal),
        }
    }

    /// The conversation with somebody who wants to be let in.
    fn at_door(&mut self, at: usize, bytes: &[u8]) {
        let belonging = self.belonging.clone();
        let Some(desk) = &belonging.desk else { return self.close_line(at, false) };
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return };
        let Stage::Door(admission) = &mut line.stage else { return };
        let tokens = match desk.tokens() {
            Ok(tokens) => tokens,
            Err(error) => {
                tracing::error!("the tokens cannot be read: {error}");
                return self.close_line(at, false);
            }
        };
        let door = identity::Door { authority: &desk.authority, tokens: &tokens, head: HEAD };
        let now_s = belonging::now();
        let turned_away = match admission.input(bytes, door, now_s) {
            Ok(identity::Step::More) => return,
            Ok(identity::Step::Send(answer)) => return line.write(&answer),
            Ok(identity::Step::Decide(wish)) => {
                let number = self.last_number + 1;
                match admission.grant(number, door, now_s) {
                    Ok(granted) => {
                        tracing::info!(node = number, token = %wish.token, "a node is let in");
                        line.write(&granted.answer);
                        line.stage = Stage::Closing;
                        self.last_number = number;
                        let life = NodeLife { node: number, life: wish.life };
                        self.neighbours.add(now(), number, Some(life), None, false);
                        self.carrier.add_node(life);
                        return;
                    }
                    Err(turned_away) => turned_away,
                }
            }
            Err(turned_away) => turned_away,
        };
        tracing::warn!("{turned_away}");
        line.write(&turned_away.answer);
        line.stage = Stage::Closing;
    }

    /// Sends what sessions have, as far as their lines take it.
    fn send_all(&mut self) {
        let open = self.neighbours.table.iter().filter_map(|(node, known)| Some((*node, known.line?)));
        for (node, at) in open.collect::<Vec<_>>() {
            self.send_to(node, at);
        }
    }

    fn send_to(&mut self, node: u32, at: usize) {
        let mut bytes = std::mem::take(&mut self.buffer);
        let mut has_written = false;
        loop {
            let Some(session) = self.carrier.session(node) else { break };
            let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { break };
            if !line.has_room() || !session.has_output() {
                break;
            }
            bytes.clear();
            session.take(now(), TAKE_BYTES, &mut bytes);
            line.write(&bytes);
            has_written = true;
            if line.flush().is_err() {
                break;
            }
            // What a session had no room for may go now.
            self.carrier.look_at_notices(&mut self.rings, node);
        }
        self.buffer = bytes;
        if has_written {
            self.ready.append(&mut self.paused);
            self.flush(at);
        }
    }

    fn flush(&mut self, at: usize) {
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return };
        match line.flush() {
            Ok(is_flushed) => {
                if let Some(watch) = line.new_watch(is_flushed) {
                    let _ = epoll::modify(&self.poll, line.fd(), EventData::new_u64(LINES + at as u64), watch);
                }
                if is_flushed && matches!(line.stage, Stage::Closing) {
                    self.close_line(at, false);
                }
            }
            Err(over) => self.on_over(at, &over),
        }
    }

    fn has_sent_all(&mut self) -> bool {
        let nodes: Vec<u32> =
            self.neighbours.table.iter().filter(|(_, known)| known.line.is_some()).map(|(node, _)| *node).collect();
        nodes.into_iter().all(|node| self.carrier.session(node).is_none_or(|session| session.counts().kept == 0))
    }

    /// What is to be heard on the node's own thread, in order.
    fn tell_node(&mut self) {
        if let Some(length) = self.rings.needs_room.take()
            && !std::mem::replace(&mut self.awaits_room, true)
        {
            self.told.push_back(Told::WantExtent(length));
        }
        self.told.extend(self.rings.told.drain(..).map(Told::Hub));
        self.told.extend(self.rings.broken.drain(..).map(Told::Broken));
        if self.told.is_empty() {
            return;
        }
        self.desk.told.lock().expect("never poisoned").append(&mut self.told);
        let _ = rustix::io::write(self.desk.wake.as_fd(), &1_u64.to_ne_bytes());
    }
}

fn configs(belonging: &Belonging) -> Result<Configs, identity::Error> {
    let membership = belonging.membership();
    let accepts = Accepts::new(|_| true);
    let door = if belonging.is_head() { Some(identity::for_door(&membership, &clock())?) } else { None };
    Ok(Configs { members: identity::for_members(&membership, &accepts, &clock())?, door })
}
