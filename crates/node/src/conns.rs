//! Sockets: reading and writing without waiting for anyone.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use model::ProcId;
use net::unix::{Arrived, Inbox, Outbox};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use wire::control::{FromNode, Hello, ToNode};

use crate::looped::{Node, token};
use crate::procs::Kind;

/// Messages that a process may leave unread. What workers print waits before it comes to that.
const UNREAD_MAX: usize = 100_000;

#[derive(Default)]
pub(crate) struct Conns {
    table: Vec<Option<Conn>>,
    free: Vec<usize>,
}

pub(crate) struct Conn {
    socket: OwnedFd,
    inbox: Inbox,
    pub(crate) outbox: Outbox,
    /// Who is at the other end, once it has said hello. A worker's is known before.
    pub(crate) who: Option<ProcId>,
    is_waiting_to_write: bool,
    /// A driver's: the weight of lines that it was sent and has not said to have taken.
    pub(crate) logs_ahead: usize,
}

impl Conns {
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Conn> {
        self.table.get_mut(at)?.as_mut()
    }

    fn insert(&mut self, conn: Conn) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.table.push(None);
            self.table.len() - 1
        });
        self.table[at] = Some(conn);
        at
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<Conn> {
        let conn = self.table.get_mut(at)?.take()?;
        self.free.push(at);
        Some(conn)
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
    pub(crate) fn add_conn(&mut self, socket: OwnedFd, who: Option<ProcId>) {
        let _ = self.add_conn_at(socket, who);
    }

    pub(crate) fn add_conn_at(&mut self, socket: OwnedFd, who: Option<ProcId>) -> Option<usize> {
        let conn = Conn {
            socket,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            who,
            is_waiting_to_write: false,
            logs_ahead: 0,
        };
        let at = self.conns.insert(conn);
        let socket = &self.conns.get_mut(at)?.socket;
        if epoll::add(&self.epoll, socket, EventData::new_u64(token::CONNS + at as u64), EventFlags::IN).is_err() {
            self.conns.remove(at);
            return None;
        }
        Some(at)
    }

    pub(crate) fn on_conn(&mut self, at: usize, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            self.flush(at);
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
        let Some(conn) = self.conns.get_mut(at) else { return Arrived::Open };
        let arrived = conn.inbox.fill(&conn.socket, false).unwrap_or(Arrived::Closed);
        loop {
            let Some(conn) = self.conns.get_mut(at) else { return Arrived::Open };
            match conn.inbox.next_message() {
                Ok(Some(bytes)) => match wire::decode::<ToNode>(&bytes) {
                    Ok(message) => self.on_message(at, message),
                    Err(_) => {
                        if let Some(theirs) = Hello::protocol_of(&bytes).filter(|theirs| *theirs != wire::PROTOCOL) {
                            self.refuse_protocol(at, theirs);
                        }
                        return Arrived::Closed;
                    }
                },
                Ok(None) => return arrived,
                Err(_) => return Arrived::Closed,
            }
        }
    }

    /// Handles everything that a process has said so far. What else is known of it (its death, its output) came by another way, and
    /// must not overtake what it said before.
    pub(crate) fn hear(&mut self, who: ProcId) {
        while let Some(at) = self.procs.get(who).and_then(|proc| proc.conn)
            && let Some(conn) = self.conns.get_mut(at)
            && rustix::io::ioctl_fionread(&conn.socket).is_ok_and(|unread| unread > 0)
            && self.take_messages(at) == Arrived::Open
        {}
    }

    pub(crate) fn on_conn_closed(&mut self, at: usize) {
        let Some(conn) = self.conns.remove(at) else { return };
        self.inventories.conn_closed(at);
        self.watching.conn_closed(at);
        let _ = epoll::delete(&self.epoll, &conn.socket);
        if let Some(who) = conn.who {
            self.on_link_lost(who);
        }
    }

    /// Says something to a process that has joined. Never waits: what does not go out now goes out later.
    pub(crate) fn tell(&mut self, to: ProcId, message: &FromNode) {
        if let Some(at) = self.procs.get(to).filter(|proc| proc.kind != Kind::Starting).and_then(|proc| proc.conn) {
            self.tell_conn(at, message, Vec::new());
        }
    }

    pub(crate) fn tell_conn(&mut self, at: usize, message: &FromNode, fds: Vec<OwnedFd>) {
        let Some(conn) = self.conns.get_mut(at) else { return };
        conn.outbox.push(&wire::encode(message), fds);
        if conn.outbox.len() > UNREAD_MAX {
            tracing::warn!(process = ?conn.who, "a process reads nothing of what it is told; its connection is closed");
            return self.on_conn_closed(at);
        }
        self.flush(at);
    }

    #[cfg(test)]
    pub(crate) fn flush_to(&mut self, at: usize) {
        self.flush(at);
    }

    fn flush(&mut self, at: usize) {
        let Some(conn) = self.conns.get_mut(at) else { return };
        let Ok(is_empty) = conn.outbox.flush(&conn.socket) else { return };
        if is_empty == conn.is_waiting_to_write {
            conn.is_waiting_to_write = !is_empty;
            let want = if is_empty { EventFlags::IN } else { EventFlags::IN | EventFlags::OUT };
            let _ = epoll::modify(&self.epoll, conn.socket.as_fd(), EventData::new_u64(token::CONNS + at as u64), want);
        }
    }
}
