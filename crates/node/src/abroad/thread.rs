//! HOT: the carrier's loop. It reads rings and sockets, lets `carrier::Carrier` decide, and sleeps at one epoll.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use carrier::{Carrier, ToHub};
use cluster::Limits;
use model::Tick;
use net::Bell;
use net::clock::now;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use wire::abroad::Between;
use wire::members::NodeInfo;
use wire::session::NodeLife;

use super::belonging::{Belonging, HEAD};
use super::certificates::Certificates;
use super::door::configs;
use super::knocking::{Knocking, Warnings};
use super::line::{Configs, Line, Stage};
use super::linger::Linger;
use super::neighbours::{Due, Neighbours};
use super::rings::{Pair, RingEnds};
use super::{Ask, ClusterOptions, Queue, Told};
use crate::Error;

/// A call that has not become a line by then never will.
pub(super) const SHAKE_MS: u64 = 10_000;
/// Whoever reads its ring does not say so: a full one is looked at again after this long.
const FULL_LOOK_US: u64 = 500;
/// The same of what lies in the arena, which nobody waits for.
const ASIDE_LOOK_MS: u64 = 200;
/// Frames of one ring at a time: others have their turn then.
const FRAMES_MAX: usize = 512;
/// Bytes that are taken from a session at a time.
const TAKE_BYTES: usize = 128 * 1024;
/// How long what is left goes out when the node ends.
const STOP_MS: u64 = 300;
/// How long the loop sleeps at most.
const LOOK_US: u64 = 60_000_000;
/// What the node may leave unheard before this thread waits for it,
const TOLD_MAX: usize = 64 * 1024;
/// for so long at a time.
const TOLD_WAIT_MS: u64 = 100;

const EVENT: u64 = 0;
pub(super) const LISTENER: u64 = 1;
const LINES: u64 = 2;

/// Where the node's own thread and this one leave things for each other.
pub(crate) struct Desk {
    pub(crate) asks: Queue<Ask>,
    pub(crate) told: Queue<Told>,
    /// Wakes the node.
    pub(crate) wake: OwnedFd,
}

pub(crate) struct Thread {
    pub(super) me: NodeLife,
    pub(super) belonging: Arc<Belonging>,
    pub(super) carrier: Carrier,
    pub(super) rings: RingEnds,
    pub(super) bell: Bell,
    pub(super) event: Arc<OwnedFd>,
    pub(super) desk: Desk,
    pub(super) poll: OwnedFd,
    pub(super) listener: Option<OwnedFd>,
    pub(super) configs: Configs,
    pub(super) lines: Vec<Option<Line>>,
    pub(super) neighbours: Neighbours,
    /// Numbers that the head has given out; the next is one more.
    pub(super) last_number: u32,
    /// Rings that have something, and may be read.
    pub(super) ready: Vec<Pair>,
    /// Rings that have something, of which a frame waits for its session.
    pub(super) paused: Vec<Pair>,
    pub(super) full_look: Option<Tick>,
    /// What lies aside may have been read by then.
    aside_look: Option<Tick>,
    /// The node was asked for room in the arena and has not answered.
    pub(super) awaits_room: bool,
    pub(super) told: VecDeque<Told>,
    pub(super) stops_at: Option<Tick>,
    pub(super) buffer: Vec<u8>,
    /// Bytes that have come or gone by lines since that was last looked at.
    moved_bytes: usize,
    last_serial: u32,
    pub(super) certificates: Certificates,
    pub(super) knocking: Knocking,
    pub(super) warnings: Warnings,
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
            aside_look: None,
            awaits_room: false,
            told: VecDeque::new(),
            stops_at: None,
            buffer: Vec::new(),
            moved_bytes: 0,
            last_serial: 0,
            certificates: Certificates::default(),
            knocking: Knocking::new(now()),
            warnings: Warnings::new(now()),
        })
    }

    pub(crate) fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        let mut linger = Linger::default();
        loop {
            let mut has_moved = self.take_asks();
            has_moved |= self.read_rings();
            self.look_at_full_rings();
            self.look_at_what_lies_aside();
            self.look_at_time();
            self.look_at_listener();
            self.look_at_certificates();
            self.send_all();
            self.rings.ring_all();
            has_moved |= self.hear();
            self.tell_node();
            if self.stops_at.is_some_and(|at| at <= now() || self.has_sent_all()) {
                return;
            }
            let before = now();
            if has_moved || self.moved_bytes > 0 {
                linger.moved(before, std::mem::take(&mut self.moved_bytes));
            }
            let is_idle = !has_moved && self.ready.is_empty();
            let stays = is_idle && linger.stays(before);
            if stays {
                rustix::thread::sched_yield();
                linger.let_run(before, now());
            }
            let may_sleep = is_idle && !stays && self.bell.doze();
            let is_asked = || !self.desk.asks.lock().expect("never poisoned").is_empty();
            let timeout = if may_sleep && !is_asked() { self.timeout() } else { Some(Timespec::default()) };
            events.clear();
            let waited = epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref());
            self.bell.rouse();
            if let Err(errno) = waited
                && errno != rustix::io::Errno::INTR
            {
                self.told.push_back(Told::Failed(format!("waiting for other nodes: {errno}")));
                return self.tell_node();
            }
            for event in &events {
                match event.data.u64() {
                    EVENT => {
                        let _ = rustix::io::read(&self.event, &mut [0; 8]);
                    }
                    LISTENER => self.on_callers(),
                    line => self.on_line((line as u32 - LINES as u32) as usize, (line >> 32) as u32),
                }
            }
        }
    }

    fn timeout(&mut self) -> Option<Timespec> {
        let now = now();
        let lines = self.lines.iter().flatten().filter_map(|line| line.until).min();
        let nodes: Vec<u32> = self.carrier.nodes().collect();
        let sessions = nodes.into_iter().filter_map(|node| self.carrier.session(node)?.wake_at()).min();
        let (listener, certificates) = (self.knocking.closed_until, self.certificates.next_look());
        let next = [
            lines,
            sessions,
            self.neighbours.next_look(),
            self.full_look,
            self.aside_look,
            self.stops_at,
            listener,
            certificates,
        ];
        // Once in a while in any case: the other clock, by which certificates end, may go ahead.
        let wait_us =
            next.into_iter().flatten().min().map_or(LOOK_US, |next| next.0.saturating_sub(now.0).min(LOOK_US));
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
                Ask::Renewed(came) => self.on_knocked(*came),
                Ask::Stop => self.stops_at = Some(now().plus_ms(STOP_MS)),
            }
        }
        is_some
    }

    /// A node belongs to the cluster from now on.
    fn meet(&mut self, info: &NodeInfo) {
        let life = NodeLife { node: info.number, life: info.life };
        let address = address_of(info);
        let dials = address.is_some() && (self.listener.is_none() || self.me.node > life.node);
        let is_known = self.neighbours.get(life.node).is_some();
        self.neighbours.add(now(), life.node, Some(life), address, dials);
        if !is_known {
            self.carrier.add_node(life);
        }
    }

    /// A verdict.
    fn part(&mut self, node: u32) {
        if let Some(life) = self.neighbours.get(node).and_then(|known| known.life) {
            self.belonging.expel(life);
            self.certificates.issued.forget(life);
        }
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

    /// Whoever has read something large says no word of it.
    fn look_at_what_lies_aside(&mut self) {
        if std::mem::take(&mut self.rings.has_aside) {
            self.aside_look.get_or_insert_with(|| now().plus_ms(ASIDE_LOOK_MS));
        }
        if self.aside_look.is_some_and(|at| at <= now()) {
            self.aside_look = self.rings.reclaim_aside().then(|| now().plus_ms(ASIDE_LOOK_MS));
        }
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
                Due::Unreached(node, why) => {
                    tracing::warn!(node, "{why}");
                    self.told.push_back(Told::Unreached(why));
                }
            }
        }
    }

    pub(super) fn call(&mut self, node: u32, address: SocketAddr, stage: Stage) {
        let attempt = match stage {
            // Nobody would take it. Another one is on its way.
            Stage::Connecting if self.belonging.membership().is_expired(self.belonging.clock.now()) => None,
            stage => Line::dial(address, node, stage, now().plus_ms(SHAKE_MS)).ok(),
        };
        let attempt = attempt.and_then(|line| self.add_line(line));
        match (attempt, self.neighbours.get(node)) {
            (Some(at), Some(known)) => known.attempt = Some(at),
            (None, Some(known)) => {
                known.attempt = Some(usize::MAX);
                self.neighbours.down(now(), node, usize::MAX, false);
            }
            _ => {}
        }
    }

    pub(super) fn add_line(&mut self, mut line: Line) -> Option<usize> {
        let at = self.lines.iter().position(Option::is_none).unwrap_or(self.lines.len());
        self.last_serial = self.last_serial.wrapping_add(1);
        line.serial = self.last_serial;
        epoll::add(&self.poll, line.fd(), event_data(at, &line), line.watch()).ok()?;
        if at == self.lines.len() {
            self.lines.push(None);
        }
        self.lines[at] = Some(line);
        Some(at)
    }

    /// Without a word to anybody.
    pub(super) fn drop_line(&mut self, at: usize) -> Option<Line> {
        let line = self.lines.get_mut(at)?.take()?;
        let _ = epoll::delete(&self.poll, line.fd());
        Some(line)
    }

    /// It is over; what was under way goes by the next one.
    pub(super) fn close_line(&mut self, at: usize, refused: bool) {
        let Some(line) = self.drop_line(at) else { return };
        if let Stage::Open(node, number) | Stage::Hailing(node, number, _) = line.stage {
            if let Some(session) = self.carrier.session(node) {
                session.closed(number);
            }
            self.neighbours.down(now(), node, at, refused);
        } else if let Some(node) = line.to {
            self.neighbours.down(now(), node, at, refused);
        }
    }

    /// Something has happened to the line that had this serial number.
    fn on_line(&mut self, at: usize, serial: u32) {
        // One that was closed a moment ago may have another one in its place.
        let line = self.lines.get_mut(at).and_then(Option::as_mut).filter(|line| line.serial == serial);
        let Some(line) = line else { return };
        match line.stage {
            Stage::Connecting | Stage::Probing => return self.on_taken(at),
            Stage::Closing => return self.flush(at),
            _ => {}
        }
        let had_begun = line.has_begun();
        let mut plain = std::mem::take(&mut self.buffer);
        plain.clear();
        let read = line.read(&self.configs, &mut plain);
        if !had_begun && line.has_begun() {
            self.knocking.shakes_hands();
        }
        self.moved_bytes += plain.len();
        let said = self.on_plain(at, &plain);
        self.buffer = plain;
        if let Err(over) = read.and(said) {
            self.on_over(at, &over);
        } else {
            self.flush(at);
        }
    }

    /// Sends what sessions have, as far as their lines take it.
    fn send_all(&mut self) {
        let open = self.neighbours.table.iter().filter_map(|(node, known)| Some((*node, known.line?)));
        for (node, at) in open.collect::<Vec<_>>() {
            self.send_to(node, at);
        }
    }

    pub(super) fn send_to(&mut self, node: u32, at: usize) {
        let mut bytes = std::mem::take(&mut self.buffer);
        let mut has_written = false;
        while let Some(session) = self.carrier.session(node) {
            let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { break };
            if !line.has_room() || !session.has_output() {
                break;
            }
            bytes.clear();
            session.take(now(), TAKE_BYTES, &mut bytes);
            line.write(&bytes);
            self.moved_bytes += bytes.len();
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

    pub(super) fn flush(&mut self, at: usize) {
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return };
        match line.flush() {
            Ok(is_flushed) => {
                if let Some(watch) = line.new_watch(is_flushed) {
                    let _ = epoll::modify(&self.poll, line.fd(), event_data(at, line), watch);
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

    /// What the carrier has heard. Some of it is this thread's own affair, the rest goes to the node's, in order. True: something is to be sent.
    fn hear(&mut self) -> bool {
        let mut answers = false;
        let mut told = std::mem::take(&mut self.rings.told);
        for said in told.drain(..) {
            match said {
                ToHub::Said { node, message: Between::Renews { request } } => {
                    self.on_renews(node, &request);
                    answers = true;
                }
                ToHub::Said { message: Between::Renewed { certificate }, .. } => self.on_renewed(certificate),
                ToHub::Said { node, message: Between::Enters(info) } => match self.check_entering(node, &info) {
                    Ok(()) => self.told.push_back(Told::Hub(ToHub::Said { node, message: Between::Enters(info) })),
                    Err(why) => {
                        self.warn(|| format!("node {node} cannot belong to the cluster: {why}"));
                        let why = format!("the head refuses this node: {why}").into();
                        self.carrier.send(node, &Between::Lost { node, why });
                        answers = true;
                    }
                },
                said => self.told.push_back(Told::Hub(said)),
            }
        }
        self.rings.told = told;
        answers
    }

    /// What a node says of itself when it comes in, and where it can be reached from now on.
    fn check_entering(&mut self, node: u32, info: &NodeInfo) -> Result<(), String> {
        info.check()?;
        let (life, now) = (NodeLife { node: info.number, life: info.life }, now());
        if life.node != node || self.neighbours.get(node).is_none_or(|known| known.life != Some(life)) {
            return Err("its number or its life are not those of its certificate".into());
        }
        self.neighbours.add(now, node, Some(life), address_of(info), false);
        Ok(())
    }

    /// What is to be heard on the node's own thread, in order.
    fn tell_node(&mut self) {
        if let Some(length) = self.rings.needs_room.take()
            && !std::mem::replace(&mut self.awaits_room, true)
        {
            self.told.push_back(Told::WantExtent(length));
        }
        self.told.extend(self.rings.broken.drain(..).map(Told::Broken));
        if self.told.is_empty() {
            return;
        }
        self.desk.told.lock().expect("never poisoned").append(&mut self.told);
        let _ = rustix::io::write(self.desk.wake.as_fd(), &1_u64.to_ne_bytes());
        // What has not been read holds its senders up: they have credit for no more.
        let until = now().plus_ms(TOLD_WAIT_MS);
        while self.desk.told.lock().expect("never poisoned").len() > TOLD_MAX && now() < until {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

fn event_data(at: usize, line: &Line) -> EventData {
    EventData::new_u64(u64::from(line.serial) << 32 | (LINES + at as u64))
}

pub(crate) fn address_of(info: &NodeInfo) -> Option<SocketAddr> {
    info.addresses.iter().find_map(|address| address.parse().ok())
}
