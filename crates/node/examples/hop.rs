//! What a sync call between nodes cannot do without, whatever the engine does: its hand-overs between processes, its way over TCP and its
//! TLS, each alone. `benches/cluster.py` adds the work of a call on one node to it, and holds a call between nodes against the sum.
//!
//! `cargo run --release -p eagleray-node --example hop` prints microseconds per call as JSON. Both ends are processes and asleep while
//! the other one works; one is on the first core that there is and one on the last, so that a core is woken each time unless there is
//! but one (`taskset -c 0`). Of several turns the median counts.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use identity::{Accepts, Authority, Expected, Role, for_dialler, for_members};
use net::segment::{CARRIER_SLOT, Segment};
use net::{Bell, unix};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustls::pki_types::UnixTime;
use rustls::time_provider::DefaultTimeProvider;
use rustls::{Connection, ServerConnection};
use wire::session::NodeLife;

const TURNS: usize = 5;
const ROUNDS: u32 = 4_000;
const WARM_UP_ROUNDS: u32 = 400;
/// A call on an actor without arguments and its reply as they lie on the line, by `ss -ti`: records of TLS, which adds 22 bytes.
const CALL_BYTES: usize = 130;
const REPLY_BYTES: usize = 105;
const TLS_BYTES: usize = 22;
const CALLER_SLOT: u16 = 1;
/// What wakes the other end once who measures has ended.
const PARENT: u64 = 1;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (role, core) = (arguments.next(), arguments.next());
    if let Some(core) = core {
        pin(core.parse().expect("a number"));
    }
    match role.as_deref() {
        Some("carrier") => carrier(),
        Some("node") => node(),
        _ => {
            let cores = cores();
            let (first, last) = (cores[0], cores[cores.len() - 1]);
            pin(first);
            // A call is handed over four times: to the carrier and to the callee, and the same on its way back.
            let hand_overs = 2.0 * hand_over_and_back(last);
            println!("{{\"hand_overs\": {hand_overs:.2}, \"tcp\": {:.2}, \"tls\": {:.2}}}", tcp(last), tls());
        }
    }
}

/// From a process to its carrier, which sleeps at an epoll, and from that to the process, which sleeps at its bell.
fn hand_over_and_back(last_core: usize) -> f64 {
    let segment = Arc::new(Segment::create().expect("memory"));
    segment.reset_proc(CALLER_SLOT);
    segment.reset_proc(CARRIER_SLOT);
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor");
    let (ours, theirs) = unix::pair().expect("descriptors");
    let mut child = other_end("carrier", last_core, theirs);
    unix::send(&ours, b"", &[segment.fd(), event.as_fd()]).expect("it listens");
    let there = Bell::at_event(segment.clone(), CARRIER_SLOT, Arc::new(event));
    let here = Bell::new(segment, CALLER_SLOT);
    let us = median_us(|| {
        there.ring(0);
        while !here.is_ready() {
            here.sleep(here.count(), None);
        }
        here.take_ready(|_| ());
    });
    end(&mut child);
    us
}

/// The other end of that, in a process of its own.
fn carrier() {
    let mut inbox = unix::Inbox::default();
    inbox.receive(std::io::stdin()).expect("a socket").expect("a message");
    let [segment, event]: [OwnedFd; 2] = std::mem::take(&mut inbox.fds).try_into().expect("two descriptors");
    let (segment, event) = (Arc::new(Segment::attach(segment).expect("a segment")), Arc::new(event));
    let poll = epoll_of(&event);
    epoll::add(&poll, std::io::stdin(), EventData::new_u64(PARENT), EventFlags::IN).expect("a socket");
    let here = Bell::at_event(segment.clone(), CARRIER_SLOT, event.clone());
    let there = Bell::new(segment, CALLER_SLOT);
    let mut events: Vec<epoll::Event> = Vec::with_capacity(2);
    loop {
        // As the carrier's own loop does it.
        let timeout = if here.doze() { None } else { Some(Timespec::default()) };
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()).expect("an epoll");
        here.rouse();
        for woken_by in &events {
            if woken_by.data.u64() == PARENT {
                return;
            }
            let _ = rustix::io::read(&event, &mut [0; 8]);
        }
        here.take_ready(|bit| there.ring(bit));
    }
}

/// From one node to another and back, over loopback.
fn tcp(last_core: usize) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().expect("descriptors");
    let mut child = other_end("node", last_core, theirs.into());
    ours.write_all(&address.port().to_le_bytes()).expect("it listens");
    let (socket, _) = listener.accept().expect("it calls");
    let mut line = Line::new(socket);
    let us = median_us(|| {
        line.write(CALL_BYTES);
        assert!(line.wait_for(REPLY_BYTES), "the other end is gone");
    });
    end(&mut child);
    us
}

/// The other end of that.
fn node() {
    let mut port = [0; 2];
    std::io::stdin().read_exact(&mut port).expect("a port");
    let mut line = Line::new(TcpStream::connect(("127.0.0.1", u16::from_le_bytes(port))).expect("it listens"));
    while line.wait_for(CALL_BYTES) {
        line.write(REPLY_BYTES);
    }
}

/// One end of a connection, whose thread sleeps at an epoll.
struct Line {
    socket: TcpStream,
    poll: OwnedFd,
}

impl Line {
    fn new(socket: TcpStream) -> Self {
        socket.set_nodelay(true).expect("a socket");
        socket.set_nonblocking(true).expect("a socket");
        Self { poll: epoll_of(&socket), socket }
    }

    fn write(&mut self, count: usize) {
        self.socket.write_all(&[7; CALL_BYTES][..count]).expect("room for a record");
    }

    /// False: the other end is gone.
    fn wait_for(&mut self, count: usize) -> bool {
        let (mut bytes, mut came) = ([0; CALL_BYTES], 0);
        let mut events = Vec::with_capacity(1);
        while came < count {
            events.clear();
            epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), None).expect("an epoll");
            match self.socket.read(&mut bytes) {
                Ok(0) => return false,
                Ok(read) => came += read,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
        true
    }
}

/// A call and its reply are sealed and opened, all on this thread, with the configurations of members.
fn tls() -> f64 {
    let now = UnixTime::since_unix_epoch(SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock"));
    let authority = Authority::new(now).expect("a key");
    let head = authority.member(NodeLife { node: 1, life: 1 }, Role::Head, now).expect("a certificate");
    let node = authority.member(NodeLife { node: 2, life: 1 }, Role::Node, now).expect("a certificate");
    let (anybody, clock) = (Accepts::new(|_| true), Arc::new(DefaultTimeProvider) as Arc<_>);
    let dialler = for_dialler(&node, Expected::Head, &anybody, &clock).expect("a configuration");
    let members = for_members(&head, &anybody, &clock).expect("a configuration");
    let mut near = Connection::Client(dialler.connect().expect("a client"));
    let mut far = Connection::Server(ServerConnection::new(members).expect("a server"));
    let mut bytes = Vec::new();
    while near.is_handshaking() || far.is_handshaking() {
        pass(&mut near, &mut far, &mut bytes);
        pass(&mut far, &mut near, &mut bytes);
    }
    let mut plain = [7; CALL_BYTES];
    let mut say = |from: &mut Connection, to: &mut Connection, count: usize| {
        let plain = &mut plain[..count - TLS_BYTES];
        from.writer().write_all(plain).expect("memory");
        assert_eq!(pass(from, to, &mut bytes), count);
        to.reader().read_exact(plain).expect("all of it has come");
    };
    median_us(|| {
        say(&mut near, &mut far, CALL_BYTES);
        say(&mut far, &mut near, REPLY_BYTES);
    })
}

/// What one end has to say goes to the other one; how many bytes that were.
fn pass(from: &mut Connection, to: &mut Connection, bytes: &mut Vec<u8>) -> usize {
    bytes.clear();
    while from.wants_write() {
        from.write_tls(bytes).expect("memory");
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).expect("memory");
        to.process_new_packets().expect("both ends are right");
    }
    bytes.len()
}

fn epoll_of(what: &impl AsFd) -> OwnedFd {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor");
    epoll::add(&poll, what, EventData::new_u64(0), EventFlags::IN).expect("a descriptor");
    poll
}

fn other_end(role: &str, last_core: usize, socket: OwnedFd) -> Child {
    let program = std::env::current_exe().expect("a path");
    let mut command = Command::new(program);
    command.args([role, &last_core.to_string()]).stdin(Stdio::from(socket)).spawn().expect("a process")
}

/// Those that this process may use.
fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).expect("a set");
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
}

fn pin(core: usize) {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).expect("a core that there is");
}

fn end(child: &mut Child) {
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
}

fn median_us(mut round: impl FnMut()) -> f64 {
    (0..WARM_UP_ROUNDS).for_each(|_| round());
    let mut turns: Vec<f64> = (0..TURNS)
        .map(|_| {
            let began = Instant::now();
            (0..ROUNDS).for_each(|_| round());
            began.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
        })
        .collect();
    turns.sort_by(f64::total_cmp);
    turns[TURNS / 2]
}
