//! One connection: bytes in and out of TLS, without waiting for anyone. What they mean is up to `thread`.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use identity::{Admission, Purpose};
use model::Tick;
use rustix::event::epoll::EventFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustls::server::Acceptor;
use rustls::{Connection, ServerConfig, ServerConnection};
use wire::session::NodeLife;

/// What is taken from a session before what was taken has gone out.
const UNSENT_MAX: usize = 256 * 1024;
/// Bytes that one look at a socket takes: others have their turn then.
const READ_MAX: usize = 1024 * 1024;

/// Bytes of a whole handshake, at most: ours take less than 4 KiB.
const SHAKE_BYTES_MAX: usize = 32 * 1024;
/// "No application protocol", in the clear: TLS has not begun, and whoever has called is to know why it does not.
const NOTHING_HERE: [u8; 7] = [21, 3, 3, 0, 2, 2, 120];

/// How far a line is.
pub(crate) enum Stage {
    /// The system has not said yet whether anybody takes the call.
    Connecting,
    /// Only that was to be known.
    Probing,
    /// Who is there is not proved yet.
    Shaking,
    /// A member has called, and has not said hello; what has come of that.
    Greeting(NodeLife, Vec<u8>),
    /// This side has said hello for a session: whose, what that calls the line, and how many it had had. The answer may be a refusal.
    Hailing(u32, u64, u64),
    /// It is a session's: whose, and what that calls it.
    Open(u32, u64),
    /// Somebody wants to join; in how many portions that has come.
    Door(Box<Admission>, u32),
    /// What was written goes out, then it is closed.
    Closing,
}

enum Tls {
    None,
    /// What a caller wants stands in its first message.
    Choosing(Box<Acceptor>),
    Spoken(Box<Connection>),
}

/// See the module's documentation.
pub(crate) struct Line {
    socket: TcpStream,
    tls: Tls,
    pub(crate) stage: Stage,
    /// It is closed then, unless it has got further.
    pub(crate) until: Option<Tick>,
    /// Whom it was dialled for.
    pub(crate) to: Option<u32>,
    /// Tells it from one that had its place in the table before.
    pub(crate) serial: u32,
    unsent: usize,
    /// Before it was known who calls.
    came: usize,
    is_watched_for_room: bool,
    is_watched_for_bytes: bool,
}

/// Why a line is over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Over {
    #[error("it was closed")]
    Closed,
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Tls(identity::Error),
    #[error("the other end refuses the handshake: {0}")]
    Alert(String),
    #[error("the caller wants nothing that there is here")]
    Purpose,
    #[error("the handshake has no end")]
    Endless,
    #[error(transparent)]
    Session(#[from] cluster::Error),
}

impl From<rustls::Error> for Over {
    fn from(error: rustls::Error) -> Self {
        match error {
            rustls::Error::AlertReceived(alert) => Self::Alert(format!("{alert:?}")),
            error => Self::Tls(error.into()),
        }
    }
}

/// For those who have called: one for members, and the head's for who wants in.
pub(crate) struct Configs {
    pub(crate) members: Arc<ServerConfig>,
    pub(crate) door: Option<Arc<ServerConfig>>,
    /// For members, of large values.
    pub(crate) values: Arc<ServerConfig>,
}

/// Takes up what was read.
fn process(tls: &mut Connection, socket: &mut TcpStream, plain: &mut Vec<u8>) -> Result<(), Over> {
    let processed = tls.process_new_packets();
    if processed.is_err() {
        // The other side is told why.
        let _ = tls.write_tls(socket);
    }
    let state = processed?;
    let before = plain.len();
    plain.resize(before + state.plaintext_bytes_to_read(), 0);
    tls.reader().read_exact(&mut plain[before..])?;
    Ok(())
}

/// A socket that listens there.
///
/// # Errors
/// As the system says.
pub(crate) fn listen(address: SocketAddr) -> rustix::io::Result<(OwnedFd, SocketAddr)> {
    let socket = socket_for(address)?;
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, 1024)?;
    let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?).map_err(|_| rustix::io::Errno::AFNOSUPPORT)?;
    Ok((socket, bound))
}

fn socket_for(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

impl Line {
    /// Begins to call.
    pub(crate) fn dial(address: SocketAddr, to: u32, stage: Stage, until: Tick) -> rustix::io::Result<Self> {
        let socket = socket_for(address)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno),
        }
        Ok(Self {
            socket: TcpStream::from(socket),
            tls: Tls::None,
            stage,
            until: Some(until),
            to: Some(to),
            serial: 0,
            unsent: 0,
            came: 0,
            is_watched_for_room: true,
            is_watched_for_bytes: true,
        })
    }

    /// Somebody has called.
    pub(crate) fn answer(socket: OwnedFd, until: Tick) -> Self {
        let socket = TcpStream::from(socket);
        let _ = socket.set_nodelay(true);
        Self {
            socket,
            tls: Tls::Choosing(Box::default()),
            stage: Stage::Shaking,
            until: Some(until),
            to: None,
            serial: 0,
            unsent: 0,
            came: 0,
            is_watched_for_room: false,
            is_watched_for_bytes: true,
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What the loop is to wait for.
    pub(crate) fn watch(&self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, self.is_watched_for_bytes);
        flags.set(EventFlags::OUT, self.is_watched_for_room);
        flags
    }

    /// Whether somebody takes the call: none while that is not known.
    pub(crate) fn taken(&self) -> std::io::Result<()> {
        match self.socket.take_error()? {
            Some(error) => Err(error),
            // A port that nobody listens at may be the very one that this call was given: then it has called itself.
            None if self.socket.peer_addr()? == self.socket.local_addr()? => Err(ErrorKind::ConnectionRefused.into()),
            None => Ok(()),
        }
    }

    /// The call is taken: TLS begins.
    pub(crate) fn shake(&mut self, tls: rustls::ClientConnection) -> std::io::Result<()> {
        self.socket.set_nodelay(true)?;
        self.tls = Tls::Spoken(Box::new(Connection::Client(tls)));
        self.stage = Stage::Shaking;
        Ok(())
    }

    /// The connection, once TLS has begun.
    pub(crate) fn tls(&self) -> Option<&Connection> {
        match &self.tls {
            Tls::Spoken(tls) => Some(tls),
            Tls::None | Tls::Choosing(_) => None,
        }
    }

    pub(crate) fn is_shaken(&self) -> bool {
        self.tls().is_some_and(|tls| !tls.is_handshaking())
    }

    /// The server's end, for the conversation at the door.
    pub(crate) fn server(&self) -> Option<&ServerConnection> {
        match self.tls()? {
            Connection::Server(server) => Some(server),
            Connection::Client(_) => None,
        }
    }

    /// What a caller wanted. Members and joiners are told apart by their first message, so this holds from then on.
    pub(crate) fn is_at_door(&self) -> bool {
        self.server().is_some_and(|server| server.alpn_protocol().is_some_and(|name| name.ends_with(b"-join/1")))
    }

    /// Whether it is for large values, and none of this thread's once it is known who has called.
    pub(crate) fn is_for_values(&self) -> bool {
        self.server().is_some_and(|server| server.alpn_protocol().is_some_and(|name| name.ends_with(b"-values/1")))
    }

    /// For somebody who waits for it.
    pub(crate) fn into_parts(self) -> Option<(TcpStream, Box<Connection>)> {
        match self.tls {
            Tls::Spoken(tls) => Some((self.socket, tls)),
            Tls::None | Tls::Choosing(_) => None,
        }
    }

    /// Reads what there is, and puts what it says into `plain`.
    ///
    /// # Errors
    /// If the line is over. What came before that is in `plain`.
    pub(crate) fn read(&mut self, configs: &Configs, plain: &mut Vec<u8>) -> Result<(), Over> {
        let mut count = 0;
        loop {
            if let Tls::Choosing(acceptor) = &mut self.tls {
                match acceptor.read_tls(&mut self.socket) {
                    Ok(0) => return Err(Over::Closed),
                    Ok(read) => {
                        self.came += read;
                        self.choose(configs)?;
                        if let Tls::Spoken(tls) = &mut self.tls {
                            // What came behind the first message, which says no more than that.
                            process(tls, &mut self.socket, plain)?;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
                continue;
            }
            let Tls::Spoken(tls) = &mut self.tls else { return Ok(()) };
            match tls.read_tls(&mut self.socket) {
                Ok(0) => return Err(Over::Closed),
                Ok(read) => count += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            process(tls, &mut self.socket, plain)?;
            if tls.is_handshaking() {
                self.came += std::mem::take(&mut count);
                self.check_came()?;
            }
            if count >= READ_MAX {
                return Ok(());
            }
        }
    }

    fn check_came(&self) -> Result<(), Over> {
        if self.came <= SHAKE_BYTES_MAX { Ok(()) } else { Err(Over::Endless) }
    }

    /// Begins TLS as the caller wants it, once that has come.
    fn choose(&mut self, configs: &Configs) -> Result<(), Over> {
        let Tls::Choosing(acceptor) = &mut self.tls else { return Ok(()) };
        let accepted = match acceptor.accept() {
            Ok(Some(accepted)) => accepted,
            Ok(None) => return self.check_came(),
            Err((error, mut alert)) => {
                let _ = alert.write(&mut self.socket);
                return Err(error.into());
            }
        };
        let config = match (Purpose::of(&accepted.client_hello()), &configs.door) {
            (Some(Purpose::Member), _) => &configs.members,
            (Some(Purpose::Values), _) => &configs.values,
            (Some(Purpose::Join), Some(door)) => door,
            (Some(Purpose::Join), None) | (None, _) => {
                let _ = self.socket.write(&NOTHING_HERE);
                return Err(Over::Purpose);
            }
        };
        match accepted.into_connection(config.clone()) {
            Ok(mut tls) => {
                tls.set_buffer_limit(None);
                self.tls = Tls::Spoken(Box::new(Connection::Server(tls)));
                Ok(())
            }
            Err((error, mut alert)) => {
                let _ = alert.write(&mut self.socket);
                Err(error.into())
            }
        }
    }

    /// Whether more may be written now.
    pub(crate) fn has_room(&self) -> bool {
        self.unsent < UNSENT_MAX
    }

    /// Puts bytes on the line; they go out with `flush`.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if let Tls::Spoken(tls) = &mut self.tls {
            // There is no limit to what it takes; see `has_room`.
            let _ = tls.writer().write_all(bytes);
            self.unsent += bytes.len();
        }
    }

    /// Sends what goes out without waiting. True: all of it has.
    ///
    /// # Errors
    /// If the line is over.
    pub(crate) fn flush(&mut self) -> Result<bool, Over> {
        let Tls::Spoken(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            match tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.unsent = 0;
        Ok(true)
    }

    /// What the loop is to wait for from now on, if that has changed. Of who is only told something nothing is read any more.
    pub(crate) fn new_watch(&mut self, is_flushed: bool) -> Option<EventFlags> {
        let before = self.watch();
        self.is_watched_for_room = !is_flushed;
        self.is_watched_for_bytes = !matches!(self.stage, Stage::Closing);
        Some(self.watch()).filter(|watch| *watch != before)
    }

    /// Whether it is a caller's that has not proved who it is.
    pub(crate) fn is_strangers(&self) -> bool {
        self.to.is_none() && !matches!(self.stage, Stage::Open(..))
    }

    /// Whether TLS has begun. It costs this side some work.
    pub(crate) fn has_begun(&self) -> bool {
        self.tls().is_some()
    }
}
