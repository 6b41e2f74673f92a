//! What a large value between two nodes cannot do without: its bytes, sealed, sent over loopback, opened, and copied to where they shall lie.
//! `benches/cluster.py` holds transfers against it.
//!
//! `cargo run --release -p eagleray-node --example stream` prints GiB/s as JSON: the median of several turns by one line that is open.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use identity::{Accepts, Authority, Expected, Role, for_values, for_values_dialler};
use rustls::pki_types::UnixTime;
use rustls::time_provider::DefaultTimeProvider;
use rustls::{Connection, ServerConnection};
use wire::session::NodeLife;

const BYTES: usize = 256 << 20;
const TURNS: usize = 7;
/// As the engine's own ends do.
const PART_BYTES: usize = 256 * 1024;

fn main() {
    let now = UnixTime::since_unix_epoch(SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock"));
    let authority = Authority::new(now).expect("a key");
    let head = authority.member(NodeLife { node: 1, life: 1 }, Role::Head, now).expect("a certificate");
    let node = authority.member(NodeLife { node: 2, life: 1 }, Role::Node, now).expect("a certificate");
    let (anybody, clock) = (Accepts::new(|_| true), Arc::new(DefaultTimeProvider) as Arc<_>);
    let dialler = for_values_dialler(&node, Expected::Head, &anybody, &clock).expect("a configuration");
    let answerer = for_values(&head, &anybody, &clock).expect("a configuration");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("a port");
    let (ask, asked) = sync_channel(1);
    let giver = std::thread::spawn(move || {
        let (socket, _) = listener.accept().expect("a caller");
        let tls = Connection::Server(ServerConnection::new(answerer).expect("a server"));
        give(socket, tls, &asked);
    });
    let socket = TcpStream::connect(address).expect("a listener");
    let mut rates = take(socket, Connection::Client(dialler.connect().expect("a client")), &ask);
    giver.join().expect("it ends");
    rates.sort_by(f64::total_cmp);
    println!("{{\"stream\": {:.3}}}", rates[TURNS / 2]);
}

fn shake(socket: &mut TcpStream, tls: &mut Connection) {
    socket.set_nodelay(true).expect("a socket");
    tls.set_buffer_limit(None);
    while tls.is_handshaking() {
        tls.complete_io(socket).expect("both ends are right");
    }
}

/// As often as it is asked to.
fn give(mut socket: TcpStream, mut tls: Connection, asked: &Receiver<()>) {
    shake(&mut socket, &mut tls);
    let value = vec![7_u8; BYTES];
    for _ in 0..=TURNS {
        asked.recv().expect("a question");
        for part in value.chunks(PART_BYTES) {
            tls.writer().write_all(part).expect("memory");
            while tls.wants_write() {
                tls.write_tls(&mut socket).expect("somebody reads");
            }
        }
    }
}

fn take(mut socket: TcpStream, mut tls: Connection, ask: &SyncSender<()>) -> Vec<f64> {
    shake(&mut socket, &mut tls);
    let (mut value, mut raw) = (vec![0_u8; BYTES], vec![0_u8; PART_BYTES]);
    let mut turn = || {
        ask.send(()).expect("a listener");
        let began = Instant::now();
        let mut filled = 0;
        while filled < BYTES {
            let count = socket.read(&mut raw).expect("bytes");
            let mut unread = &raw[..count];
            while !unread.is_empty() {
                tls.read_tls(&mut unread).expect("memory");
                tls.process_new_packets().expect("both ends are right");
                while let Ok(read) = tls.reader().read(&mut value[filled..])
                    && read > 0
                {
                    filled += read;
                }
            }
        }
        BYTES as f64 / f64::from(1 << 30) / began.elapsed().as_secs_f64()
    };
    // The first one touches the memory.
    turn();
    (0..TURNS).map(|_| turn()).collect()
}
