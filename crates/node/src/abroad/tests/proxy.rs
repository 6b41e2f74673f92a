//! A network between two nodes that cuts.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Enough for a whole conversation at the door.
const RECORDED_MAX: usize = 64 * 1024;

#[derive(Default)]
struct State {
    /// Raised to cut all connections by a reset.
    cuts: AtomicU64,
    /// What the dialled side says does not come through.
    is_deaf: AtomicBool,
    is_over: AtomicBool,
    /// What has come from those who dial.
    up: std::sync::Mutex<Vec<u8>>,
}

pub(super) struct Proxy {
    state: Arc<State>,
    pub(super) address: SocketAddr,
}

impl Proxy {
    pub(super) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = state.clone();
        std::thread::spawn(move || {
            while !shared.is_over.load(Ordering::Relaxed) {
                if let Ok((stream, _)) = listener.accept() {
                    let state = shared.clone();
                    std::thread::spawn(move || carry(&state, stream, target));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Self { state, address }
    }

    pub(super) fn cut(&self) {
        self.state.cuts.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_deaf(&self, is_deaf: bool) {
        self.state.is_deaf.store(is_deaf, Ordering::Relaxed);
    }

    pub(super) fn came_up(&self) -> Vec<u8> {
        self.state.up.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
    }
}

fn carry(state: &State, mut down: TcpStream, target: SocketAddr) {
    let Ok(mut up) = TcpStream::connect(target) else { return };
    for stream in [&down, &up] {
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        // Closed, they are reset.
        rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
    }
    let cuts = state.cuts.load(Ordering::Relaxed);
    let mut buffer = vec![0; 64 * 1024];
    while state.cuts.load(Ordering::Relaxed) == cuts && !state.is_over.load(Ordering::Relaxed) {
        let Some(came) = step(&mut down, &mut up, &mut buffer, false) else { return };
        let mut recorded = state.up.lock().unwrap();
        if recorded.len() < RECORDED_MAX {
            recorded.extend_from_slice(&buffer[..came]);
        }
        drop(recorded);
        let Some(went) = step(&mut up, &mut down, &mut buffer, state.is_deaf.load(Ordering::Relaxed)) else { return };
        if came + went == 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn step(from: &mut TcpStream, to: &mut TcpStream, buffer: &mut [u8], is_swallowed: bool) -> Option<usize> {
    let count = match from.read(buffer) {
        Ok(0) => return None,
        Ok(count) => count,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(0),
        Err(_) => return None,
    };
    let mut left = if is_swallowed { &[][..] } else { &buffer[..count] };
    while !left.is_empty() {
        match to.write(left) {
            Ok(written) => left = &left[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_micros(100)),
            Err(_) => return None,
        }
    }
    Some(count)
}
