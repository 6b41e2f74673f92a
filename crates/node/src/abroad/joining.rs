//! How a node gets into a cluster: it knocks at the head's port, proves that it knows the token, and leaves with a membership. It waits
//! meanwhile, and no longer than it is told: nothing of the node is there yet.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use identity::{Join, Joining, Membership, Progress, Python, Token};

use super::belonging::{Belonging, Clock};
use super::chance;

/// Why a node does not get in.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The name of the head's machine is not known.
    #[error("{host}: the name does not resolve: {cause}")]
    Name {
        /// The name.
        host: String,
        /// What the resolver says.
        cause: std::io::Error,
    },
    /// Nobody takes the call.
    #[error("no head answers at {address}: {cause}")]
    Unreachable {
        /// The address.
        address: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// It takes too long.
    #[error("the head at {0} does not answer in time: is that its address, and can it be reached through firewalls?")]
    TooLate(String),
    /// Somebody does, in another language.
    #[error("no head of a cluster answers at {address}, but something else: {cause}")]
    NoHead {
        /// The address.
        address: String,
        /// What TLS says.
        cause: String,
    },
    /// Whoever answers is no head, or does not let it in.
    #[error(transparent)]
    Refused(#[from] identity::Error),
}

/// One whom the head has let in, and where the head is.
#[derive(Debug)]
pub struct Joined {
    /// Its place in the cluster.
    pub belonging: Belonging,
    /// The head's.
    pub head: SocketAddr,
}

/// Joins the cluster whose head is there.
///
/// # Errors
/// If it does not get in within that time.
pub fn join(host: &str, port: u16, token: Token, python: Python, patience: Duration) -> Result<Joined, JoinError> {
    let until = Instant::now() + patience;
    let name = |cause| JoinError::Name { host: host.into(), cause };
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(name)?.collect();
    let clock = Clock::default();
    let mut last = None;
    for (at, address) in addresses.iter().copied().enumerate() {
        // Behind an address that swallows everything another one may answer.
        let share = until.saturating_duration_since(Instant::now()) / (addresses.len() - at) as u32;
        match connect(address, share) {
            Ok(stream) => {
                let joining =
                    Joining { token: token.clone(), addresses: Vec::new(), life: chance()?, python, former: None };
                let membership = talk(stream, address, joining, &clock, until)?;
                let belonging = Belonging::of_member(membership, Some(token), python, clock);
                return Ok(Joined { belonging, head: address });
            }
            Err(cause) => last = Some(JoinError::Unreachable { address: address.to_string(), cause }),
        }
    }
    Err(last.unwrap_or_else(|| name(std::io::Error::other("no address"))))
}

/// A certificate for who has slept too long: it proves that it knows the token, and that it has the key of its old one.
pub(crate) fn join_again(belonging: &Belonging, head: SocketAddr, patience: Duration) -> Result<Membership, JoinError> {
    let (until, clock) = (Instant::now() + patience, &belonging.clock);
    let token = belonging.token.clone().ok_or(identity::Error::Token(identity::TokenError::Missing))?;
    let present = belonging.membership();
    let former = Membership::from_bytes(&present.to_bytes(), clock.now())?;
    let life = former.member().who.life;
    let unreachable = |cause| JoinError::Unreachable { address: head.to_string(), cause };
    let stream = connect(head, patience).map_err(unreachable)?;
    let joining = Joining { token, addresses: Vec::new(), life, python: belonging.python, former: Some(former) };
    let membership = talk(stream, head, joining, clock, until)?;
    if membership.member().who != present.member().who {
        return Err(identity::Error::Untrusted(identity::Untrusted::NotOurs).into());
    }
    Ok(membership)
}

fn connect(address: SocketAddr, patience: Duration) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, patience.max(Duration::from_millis(1)))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A socket that is over at a certain moment, however many bytes have come now and then until then.
struct Patient {
    socket: TcpStream,
    until: Instant,
}

impl Patient {
    fn left(&self) -> std::io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl std::io::Read for Patient {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.read(into)
    }
}

impl std::io::Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn talk(
    socket: TcpStream,
    address: SocketAddr,
    joining: Joining,
    clock: &Clock,
    until: Instant,
) -> Result<Membership, JoinError> {
    let failed = |cause: std::io::Error| match cause.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => JoinError::TooLate(address.to_string()),
        _ => match cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => match identity::Error::from(error.clone()) {
                identity::Error::Library(cause) => JoinError::NoHead { address: address.to_string(), cause },
                error => error.into(),
            },
            None => JoinError::Unreachable { address: address.to_string(), cause },
        },
    };
    let mut stream = Patient { socket, until };
    let mut tls = identity::for_joiner(&clock.for_tls())?.connect()?;
    while tls.is_handshaking() {
        if tls.complete_io(&mut stream).map_err(failed)? == (0, 0) {
            return Err(identity::Error::Ended.into());
        }
    }
    let (mut conversation, first) = Join::new(&tls, joining, clock.now())?;
    let mut lines = rustls::Stream::new(&mut tls, &mut stream);
    lines.write_all(&first).map_err(failed)?;
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let count = match lines.read(&mut bytes) {
            Ok(0) => return Err(identity::Error::Ended.into()),
            Ok(count) => count,
            Err(cause) if cause.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(identity::Error::Ended.into());
            }
            Err(cause) => return Err(failed(cause)),
        };
        match conversation.input(&bytes[..count], clock.now())? {
            Progress::More => {}
            Progress::Send(answer) => lines.write_all(&answer).map_err(failed)?,
            Progress::Joined(membership) => {
                lines.conn.send_close_notify();
                let _ = lines.flush();
                return Ok(*membership);
            }
        }
    }
}
