//! Sockets: reading and writing without waiting for anyone.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use hub::{Asker, Listening};
use model::ProcId;
use net::unix::{Arrived, Inbox, Outbox};
use rustc_hash::FxHashMap;
use rustix::event::epoll::EventFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use wire::control::{FromNode, Hello, ToNode};

use crate::looped::Node;
use crate::poll::{Poll, token};

/// Messages that a process may leave unread. What workers print waits before it comes to that.
const UNREAD_MAX: usize = 100_000;

pub(crate) struct Conns {
    poll: Poll,
    table: Vec<Option<Conn>>,
    /// Places in the table that nobody has.
    free: Vec<usize>,
    /// Where processes that are not dead are, as long as their connection is open.
    of: FxHashMap<ProcId, usize>,
    /// Connections that shall be closed, and whose processes have not been taken for lost yet.
    broken: VecDeque<usize>,
}

pub(crate) struct Conn {
    socket: OwnedFd,
    inbox: Inbox,
    outbox: Outbox,
    /// Who is at the other end, once it has said hello. A worker's is known before.
    who: Option<ProcId>,
    is_waiting_to_write: bool,
    /// It has what wakes the carrier.
    knows_carrier: bool,
    /// A driver's: the weight of lines that it was sent and has not said to have taken.
    logs_ahead: usize,
    /// Of that what other nodes have sent, which hear when it was taken; with what of this node's lies between.
    logs_under_way: VecDeque<(Option<u32>, usize)>,
}

impl Conns {
    pub(crate) fn new(poll: Poll) -> Self {
        Self { poll, table: Vec::new(), free: Vec::new(), of: FxHashMap::default(), broken: VecDeque::new() }
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut Conn> {
        self.table.get_mut(at)?.as_mut()
    }

    pub(crate) fn add(&mut self, socket: OwnedFd, who: Option<ProcId>) -> Option<usize> {
        let at = self.free.last().copied().unwrap_or(self.table.len());
        self.poll.watch(&socket, token::CONNS + at as u64).ok()?;
        if self.free.pop().is_none() {
            self.table.push(None);
        }
        let (inbox, outbox) = (Inbox::default(), Outbox::default());
        self.table[at] = Some(Conn {
            socket,
            inbox,
            outbox,
            who,
            is_waiting_to_write: false,
            knows_carrier: false,
            logs_ahead: 0,
            logs_under_way: VecDeque::new(),
        });
        if let Some(who) = who {
            self.of.insert(who, at);
        }
        Some(at)
    }

    /// Who is there has said who it is.
    pub(crate) fn is_of(&mut self, at: usize, who: ProcId) {
        if let Some(conn) = self.get_mut(at) {
            conn.who = Some(who);
            self.of.insert(who, at);
        }
    }

    pub(crate) fn who(&self, at: usize) -> Option<ProcId> {
        self.table.get(at)?.as_ref()?.who
    }

    /// Whose connection this was, if that is still open.
    fn remove(&mut self, at: usize) -> Option<Conn> {
        let conn = self.table.get_mut(at)?.take()?;
        self.free.push(at);
        self.broken.retain(|broken| *broken != at);
        self.poll.forget(&conn.socket);
        if let Some(who) = conn.who
            && self.of.get(&who) == Some(&at)
        {
            self.of.remove(&who);
        }
        Some(conn)
    }

    /// The process is dead, or could not be started.
    pub(crate) fn remove_of(&mut self, who: ProcId) {
        if let Some(at) = self.of.get(&who).copied() {
            self.remove(at);
        }
    }

    /// Says something. Never waits: what does not go out now goes out later.
    pub(crate) fn tell(&mut self, to: ProcId, message: &FromNode) {
        if let Some(at) = self.of.get(&to).copied() {
            self.tell_at(at, message, Vec::new());
        }
    }

    /// Before it is told of the first link to another node.
    pub(crate) fn introduce_carrier(&mut self, to: ProcId, event: OwnedFd) {
        let Some(at) = self.of.get(&to).copied() else { return };
        let Some(conn) = self.get_mut(at) else { return };
        if !std::mem::replace(&mut conn.knows_carrier, true) {
            self.tell_at(at, &FromNode::Carrier, vec![event]);
        }
    }

    pub(crate) fn tell_at(&mut self, at: usize, message: &FromNode, fds: Vec<OwnedFd>) {
        let Some(conn) = self.get_mut(at) else { return };
        conn.outbox.push(&wire::encode(message), fds);
        if conn.outbox.len() > UNREAD_MAX {
            tracing::warn!(process = ?conn.who, "a process reads nothing of what it is told; its connection is closed");
            return self.hang_up(at);
        }
        self.flush(at);
    }

    /// Nobody is heard or told anything there; whose it was is taken for lost after this step.
    pub(crate) fn hang_up(&mut self, at: usize) {
        if !self.broken.contains(&at) {
            self.broken.push_back(at);
        }
    }

    pub(crate) fn take_broken(&mut self) -> Option<usize> {
        self.broken.pop_front()
    }

    pub(crate) fn flush(&mut self, at: usize) {
        let Some(conn) = self.table.get_mut(at).and_then(Option::as_mut) else { return };
        let Ok(is_empty) = conn.outbox.flush(&conn.socket) else { return };
        if is_empty == conn.is_waiting_to_write {
            conn.is_waiting_to_write = !is_empty;
            let want = if is_empty { EventFlags::IN } else { EventFlags::IN | EventFlags::OUT };
            self.poll.change(conn.socket.as_fd(), token::CONNS + at as u64, want);
        }
    }

    pub(crate) fn listening(&self, at: usize) -> Listening {
        match self.table.get(at).and_then(Option::as_ref) {
            _ if self.broken.contains(&at) => Listening::Gone,
            Some(conn) if conn.outbox.is_empty() => Listening::Keeps,
            Some(_) => Listening::IsBehind,
            None => Listening::Gone,
        }
    }

    /// A driver was sent output of this weight, from another node or from here.
    pub(crate) fn logs_sent(&mut self, to: ProcId, weight: usize, from: Option<u32>) {
        let Some(conn) = self.of.get(&to).copied().and_then(|at| self.get_mut(at)) else { return };
        conn.logs_ahead += weight;
        match conn.logs_under_way.back_mut() {
            Some((last, sum)) if *last == from => *sum += weight,
            None if from.is_none() => {}
            _ => conn.logs_under_way.push_back((from, weight)),
        }
    }

    /// A driver has taken so much of it. What of that was whose on other nodes.
    pub(crate) fn logs_taken(&mut self, by: ProcId, mut weight: usize) -> Vec<(u32, usize)> {
        let mut of_others = Vec::new();
        let Some(conn) = self.of.get(&by).copied().and_then(|at| self.get_mut(at)) else { return of_others };
        // What was under way before the first of another node's is not listed.
        let listed: usize = conn.logs_under_way.iter().map(|(_, sum)| sum).sum();
        weight = weight.min(conn.logs_ahead);
        let unlisted = conn.logs_ahead.saturating_sub(listed).min(weight);
        conn.logs_ahead -= weight;
        weight -= unlisted;
        while weight > 0
            && let Some((node, sum)) = conn.logs_under_way.front_mut()
        {
            let part = weight.min(*sum);
            of_others.extend(node.map(|node| (node, part)));
            (*sum, weight) = (*sum - part, weight - part);
            if *sum == 0 {
                conn.logs_under_way.pop_front();
            }
        }
        of_others
    }

    /// The weight of what it has not taken.
    pub(crate) fn logs_ahead(&self, of: ProcId) -> usize {
        let conn = self.of.get(&of).and_then(|at| self.table.get(*at)?.as_ref());
        conn.map_or(0, |conn| conn.logs_ahead)
    }

    fn has_unread(&self, at: usize) -> bool {
        let conn = self.table.get(at).and_then(Option::as_ref);
        conn.is_some_and(|conn| rustix::io::ioctl_fionread(&conn.socket).is_ok_and(|unread| unread > 0))
    }
}

/// Listens at a path that only this user can reach.
pub(crate) fn listen(path: &Path) -> std::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let at = net::unix::at(path)?;
    if rustix::net::bind(&socket, &at.address).is_err() {
        // A socket that nobody answers at is left over from a node that was killed.
        let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        if rustix::net::connect(&probe, &at.address).is_ok() {
            return Err(std::io::Error::new(std::io::ErrorKind::AddrInUse, "a node is running here already"));
        }
        std::fs::remove_file(path)?;
        rustix::net::bind(&socket, &at.address)?;
    }
    rustix::fs::chmod(path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    rustix::net::listen(&socket, 128)?;
    Ok(socket)
}

impl Node {
    pub(crate) fn on_conn(&mut self, at: usize, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            self.machine.conns.flush(at);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return;
        }
        if self.take_messages(at) == Arrived::Closed {
            self.on_conn_closed(at);
        }
    }

    /// Reads once, and handles every message that is whole.
    fn take_messages(&mut self, at: usize) -> Arrived {
        let Some(conn) = self.machine.conns.get_mut(at) else { return Arrived::Open };
        let arrived = conn.inbox.fill(&conn.socket, false).unwrap_or(Arrived::Closed);
        loop {
            let Some(conn) = self.machine.conns.get_mut(at) else { return Arrived::Open };
            match conn.inbox.next_message() {
                Ok(Some(bytes)) => match wire::decode::<ToNode>(&bytes) {
                    Ok(message) => self.on_message(at, message),
                    Err(_) => {
                        if let Some(theirs) = Hello::protocol_of(&bytes).filter(|theirs| *theirs != wire::PROTOCOL) {
                            self.machine.refuse_protocol(at, theirs);
                        }
                        return Arrived::Closed;
                    }
                },
                Ok(None) => return arrived,
                Err(_) => return Arrived::Closed,
            }
        }
    }

    pub(crate) fn on_message(&mut self, at: usize, message: ToNode) {
        match message {
            ToNode::Hello(hello) => self.on_hello(at, hello),
            message => {
                let from = Asker { door: at, who: self.machine.conns.who(at) };
                self.step(|hub, step| hub.on_message(step, from, message));
            }
        }
    }

    /// Handles everything that a process has said so far. What else is known of it (its death, its output) came by another way, and
    /// must not overtake what it said before.
    pub(crate) fn hear(&mut self, who: ProcId) {
        while let Some(at) = self.machine.conns.of.get(&who).copied()
            && self.machine.conns.has_unread(at)
            && self.take_messages(at) == Arrived::Open
        {}
    }

    pub(crate) fn on_conn_closed(&mut self, at: usize) {
        let Some(conn) = self.machine.conns.remove(at) else { return };
        self.step(|hub, step| {
            hub.door_closed(at);
            if let Some(who) = conn.who {
                hub.connection_lost(step, who);
            }
        });
    }
}
