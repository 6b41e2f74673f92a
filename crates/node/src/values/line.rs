//! HOT: one line for large values. Unlike a session's, it may wait for the other end, as a thread does nothing else.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustls::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::values::MESSAGE_BYTES_MAX;

/// Bytes that are taken from the socket at a time: each call of the system costs more than it copies.
const TAKE_BYTES: usize = 256 * 1024;
/// Bytes that are encrypted before they go out.
pub(super) const GIVE_BYTES: usize = 256 * 1024;
/// How long a line may be silent.
const SILENT_MAX: Duration = Duration::from_secs(10);
const CONNECT_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Line {
    socket: TcpStream,
    tls: Box<Connection>,
    /// What has come, as it came, and how much of it TLS has not had.
    raw: Box<[u8]>,
    unread: std::ops::Range<usize>,
    /// What was said on the line before it was this one's.
    early: Vec<u8>,
}

impl Line {
    /// Who is at the other end is proved.
    pub(crate) fn new(socket: TcpStream, mut tls: Box<Connection>, early: Vec<u8>) -> Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENT_MAX))?;
        socket.set_write_timeout(Some(SILENT_MAX))?;
        tls.set_buffer_limit(None);
        Ok(Self { socket, tls, raw: vec![0; TAKE_BYTES].into(), unread: 0..0, early })
    }

    pub(super) fn dial(address: SocketAddr, tls: rustls::ClientConnection) -> Result<Self> {
        let mut socket = TcpStream::connect_timeout(&address, CONNECT_MAX)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENT_MAX))?;
        socket.set_write_timeout(Some(SILENT_MAX))?;
        let mut tls = Box::new(Connection::Client(tls));
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Self::new(socket, tls, Vec::new())
    }

    /// Waits until there is more to be read in the clear, as far as one look at what came goes.
    fn hear(&mut self) -> Result<()> {
        if self.unread.is_empty() {
            let count = loop {
                match self.socket.read(&mut self.raw) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.unread = 0..count;
        }
        let mut unread = &self.raw[self.unread.clone()];
        let taken = self.tls.read_tls(&mut unread)?;
        self.unread.start += taken;
        self.tls.process_new_packets().map_err(Error::other)?;
        Ok(())
    }

    /// Lets `read` have what has come, once something has.
    pub(super) fn read_some(&mut self, mut read: impl FnMut(&mut dyn Read) -> Result<usize>) -> Result<usize> {
        if !self.early.is_empty() {
            let mut early = &self.early[..];
            let count = read(&mut early)?;
            self.early.drain(..count);
            return Ok(count);
        }
        loop {
            match read(&mut self.tls.reader()) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.hear()?,
                other => return other,
            }
        }
    }

    fn read_exact(&mut self, mut into: &mut [u8]) -> Result<()> {
        while !into.is_empty() {
            let count = self.read_some(|reader| reader.read(into))?;
            into = &mut into[count..];
        }
        Ok(())
    }

    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut length = [0; 4];
        self.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; length];
        self.read_exact(&mut bytes)?;
        wire::decode(&bytes).map_err(Error::other)
    }

    pub(super) fn send<T: Serialize>(&mut self, message: &T) -> Result<()> {
        let message = wire::encode(message);
        let mut bytes = (message.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&message);
        self.write_all(&bytes)
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        for part in bytes.chunks(GIVE_BYTES) {
            self.tls.writer().write_all(part)?;
            while self.tls.wants_write() {
                match self.tls.write_tls(&mut self.socket) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}
