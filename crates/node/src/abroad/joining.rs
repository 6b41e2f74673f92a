//! How a node gets into a cluster: it knocks at the head's port, proves that it knows the token, and leaves with a membership. It waits
//! meanwhile, and no longer than it is told: nothing of the node is there yet.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use identity::{Join, Joining, Membership, Progress, Token};

use super::belonging::{clock, now};
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
        /// Where.
        address: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// It takes too long.
    #[error("the head at {0} does not answer in time: is that its address, and can it be reached through firewalls?")]
    TooLate(String),
    /// Whoever answers is no head, or does not let it in.
    #[error(transparent)]
    Refused(#[from] identity::Error),
}

/// One whom the head has let in, and where the head is.
#[derive(Debug)]
pub struct Joined {
    /// Its key and certificates.
    pub membership: Membership,
    /// The head's.
    pub head: SocketAddr,
}

/// Joins the cluster whose head is there.
///
/// # Errors
/// If it does not get in within that time.
pub fn join(host: &str, port: u16, token: Token, patience: Duration) -> Result<Joined, JoinError> {
    let until = Instant::now() + patience;
    let name = |cause| JoinError::Name { host: host.into(), cause };
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(name)?.collect();
    let mut last = None;
    for address in addresses {
        match connect(address, until) {
            Ok(stream) => return talk(stream, address, token, until),
            Err(cause) => last = Some(JoinError::Unreachable { address: address.to_string(), cause }),
        }
    }
    Err(last.unwrap_or_else(|| name(std::io::Error::other("no address"))))
}

fn connect(address: SocketAddr, until: Instant) -> std::io::Result<TcpStream> {
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let stream = TcpStream::connect_timeout(&address, left)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn talk(mut stream: TcpStream, address: SocketAddr, token: Token, until: Instant) -> Result<Joined, JoinError> {
    let failed = |cause: std::io::Error| match cause.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => JoinError::TooLate(address.to_string()),
        _ => match cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => JoinError::Refused(error.clone().into()),
            None => JoinError::Unreachable { address: address.to_string(), cause },
        },
    };
    let limit = |stream: &TcpStream| {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left)).and_then(|()| stream.set_write_timeout(Some(left)))
    };
    let mut tls = identity::for_joiner(&clock())?.connect()?;
    while tls.is_handshaking() {
        limit(&stream).map_err(failed)?;
        if tls.complete_io(&mut stream).map_err(failed)? == (0, 0) {
            return Err(identity::Error::Ended.into());
        }
    }
    let joining = Joining { token, addresses: Vec::new(), life: chance()?, former: None };
    let (mut conversation, first) = Join::new(&tls, joining, now())?;
    let mut lines = rustls::Stream::new(&mut tls, &mut stream);
    lines.write_all(&first).map_err(failed)?;
    let mut bytes = vec![0; 16 * 1024];
    loop {
        limit(lines.sock).map_err(failed)?;
        let count = match lines.read(&mut bytes) {
            Ok(0) => return Err(identity::Error::Ended.into()),
            Ok(count) => count,
            Err(cause) if cause.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(identity::Error::Ended.into());
            }
            Err(cause) => return Err(failed(cause)),
        };
        match conversation.input(&bytes[..count], now())? {
            Progress::More => {}
            Progress::Send(answer) => lines.write_all(&answer).map_err(failed)?,
            Progress::Joined(membership) => {
                lines.conn.send_close_notify();
                let _ = lines.flush();
                return Ok(Joined { membership: *membership, head: address });
            }
        }
    }
}
