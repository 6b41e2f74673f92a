//! Length-prefixed messages over a Unix stream socket, with descriptors where a message carries some.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::{Errno, Result};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use wire::CONTROL_BYTES_MAX;

const FDS_MAX: usize = 4;
const READ_BYTES: usize = 64 * 1024;

/// Two connected sockets.
///
/// # Errors
/// If the system has no more descriptors.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// A socket's path as the system takes it.
pub struct At {
    /// To bind or connect to.
    pub address: SocketAddrUnix,
    /// Keeps the way to it open.
    _folder: Option<OwnedFd>,
}

/// The system takes some hundred bytes. A longer path goes by way of its folder, which is opened for that.
///
/// # Errors
/// If the path names no file, or there is no such folder.
pub fn at(path: &Path) -> Result<At> {
    match SocketAddrUnix::new(path) {
        Ok(address) => Ok(At { address, _folder: None }),
        Err(Errno::NAMETOOLONG) => {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
            let folder = rustix::fs::open(
                folder,
                OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                rustix::fs::Mode::empty(),
            )?;
            let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
            Ok(At { address: SocketAddrUnix::new(&short)?, _folder: Some(folder) })
        }
        Err(errno) => Err(errno),
    }
}

/// Two connected sockets that keep packets whole.
///
/// # Errors
/// If the system has no more descriptors.
pub fn packet_pair() -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends some bytes and descriptors; returns how many bytes went out.
///
/// # Errors
/// As the system call.
pub fn send_some(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>], flags: SendFlags) -> Result<usize> {
    let mut space = [MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | flags) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Receives some bytes into `into`, and descriptors behind those in `fds`. Zero bytes: the peer is gone.
///
/// # Errors
/// As the system call.
pub fn receive_some(socket: impl AsFd, into: &mut [u8], fds: &mut Vec<OwnedFd>, flags: RecvFlags) -> Result<usize> {
    let mut space = [MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        match recvmsg(&socket, &mut [IoSliceMut::new(into)], &mut control, RecvFlags::CMSG_CLOEXEC | flags) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
            Ok(received) => {
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(passed) = message {
                        fds.extend(passed);
                    }
                }
                return Ok(received.bytes);
            }
        }
    }
}

/// Puts a length before a message.
#[must_use]
pub fn framed(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + message.len());
    bytes.extend_from_slice(&(message.len() as u32).to_le_bytes());
    bytes.extend_from_slice(message);
    bytes
}

/// Sends one message and waits until it is out.
///
/// # Errors
/// If the peer is gone.
pub fn send(socket: impl AsFd, message: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
    let bytes = framed(message);
    let mut sent = send_some(&socket, &bytes, fds, SendFlags::empty())?;
    while sent < bytes.len() {
        sent += send_some(&socket, &bytes[sent..], &[], SendFlags::empty())?;
    }
    Ok(())
}

/// Turns a stream of bytes back into messages.
#[derive(Default)]
pub struct Inbox {
    /// Room that is made once and used again; what came lies between `start` and `end`.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Descriptors that came along, in order.
    pub fds: Vec<OwnedFd>,
}

/// What one read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Something, or nothing for now.
    Open,
    /// The peer is gone.
    Closed,
}

impl Inbox {
    /// Reads once. With `wait` it blocks until something comes.
    ///
    /// # Errors
    /// As the system call. "Would block" is no error, except for who waits: then the socket has a time limit.
    pub fn fill(&mut self, socket: impl AsFd, wait: bool) -> Result<Arrived> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.bytes.len() < self.end + READ_BYTES {
            self.bytes.resize(self.end + READ_BYTES, 0);
        }
        let flags = if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        let room = &mut self.bytes[self.end..self.end + READ_BYTES];
        let result = receive_some(socket, room, &mut self.fds, flags);
        self.end += result.unwrap_or(0);
        match result {
            Ok(0) => Ok(Arrived::Closed),
            Ok(_) => Ok(Arrived::Open),
            Err(Errno::AGAIN) if !wait => Ok(Arrived::Open),
            Err(Errno::CONNRESET) => Ok(Arrived::Closed),
            Err(error) => Err(error),
        }
    }

    /// The next whole message.
    ///
    /// # Errors
    /// If the peer announces a message beyond all limits.
    pub fn next_message(&mut self) -> std::result::Result<Option<Vec<u8>>, wire::Malformed> {
        let rest = &self.bytes[self.start..self.end];
        let Some(length) = rest.first_chunk::<4>().map(|raw| u32::from_le_bytes(*raw) as usize) else {
            return Ok(None);
        };
        if length > CONTROL_BYTES_MAX {
            return Err(wire::Malformed("length of a control message"));
        }
        let Some(message) = rest.get(4..4 + length) else { return Ok(None) };
        let message = message.to_vec();
        self.start += 4 + length;
        if self.start > 1 << 20 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        Ok(Some(message))
    }

    /// Waits for the next message; `None` if the peer is gone.
    ///
    /// # Errors
    /// As `fill` and `next_message`.
    pub fn receive(&mut self, socket: impl AsFd) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(message) = self.next_message().map_err(|_| Errno::PROTO)? {
                return Ok(Some(message));
            }
            if self.fill(&socket, true)? == Arrived::Closed {
                return Ok(None);
            }
        }
    }
}

/// What could not be sent yet without waiting.
#[derive(Default)]
pub struct Outbox {
    waiting: VecDeque<(Vec<u8>, usize, Vec<OwnedFd>)>,
}

impl Outbox {
    /// Queues one message.
    pub fn push(&mut self, message: &[u8], fds: Vec<OwnedFd>) {
        self.waiting.push_back((framed(message), 0, fds));
    }

    /// Sends as much as goes out without waiting; true when nothing is left.
    ///
    /// # Errors
    /// If the peer is gone.
    pub fn flush(&mut self, socket: impl AsFd) -> Result<bool> {
        while let Some((bytes, sent, fds)) = self.waiting.front_mut() {
            let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            match send_some(&socket, &bytes[*sent..], &borrowed, SendFlags::DONTWAIT) {
                Ok(count) => {
                    *sent += count;
                    fds.clear();
                    if *sent == bytes.len() {
                        self.waiting.pop_front();
                    }
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// How many messages wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{Inbox, READ_BYTES, pair, send};

    #[test]
    fn messages_of_any_size_come_out_as_they_went_in() {
        let (ours, theirs) = pair().unwrap();
        let sizes = [0, 1, 5, READ_BYTES - 4, READ_BYTES, 3 * READ_BYTES + 1, 7, 0, 2 << 20, 9];
        let message = |number: usize, size: usize| (0..size).map(|at| (at + number) as u8).collect::<Vec<u8>>();
        let sender = std::thread::spawn(move || {
            for (number, size) in sizes.into_iter().enumerate() {
                send(&theirs, &message(number, size), &[]).unwrap();
            }
        });
        let mut inbox = Inbox::default();
        for (number, size) in sizes.into_iter().enumerate() {
            assert!(inbox.receive(&ours).unwrap() == Some(message(number, size)), "message {number} of {size} bytes");
        }
        sender.join().unwrap();
        assert_eq!(inbox.receive(&ours).unwrap(), None);
    }

    /// Each read cleared sixty-four kibibytes first, for messages of some fifty bytes.
    #[test]
    fn room_is_cleared_when_it_is_made_and_not_before_each_read() {
        let (ours, theirs) = pair().unwrap();
        let mut inbox = Inbox::default();
        send(&theirs, &[7; 100], &[]).unwrap();
        inbox.receive(&ours).unwrap();
        send(&theirs, &[8; 10], &[]).unwrap();
        inbox.receive(&ours).unwrap();
        assert_eq!((inbox.bytes.len(), inbox.bytes[50]), (READ_BYTES, 7), "what was there before is written over");
    }
}
