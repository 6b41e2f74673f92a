//! Measures put, get and free: `cargo run --release -p eagleray-store --example put`.
//!
//! Small objects one by one; a loop of large ones; and the design's own figure: objects of mixed size, sixteen of them
//! alive, put by one process and by four at once. Each asks the node for extents over a socket, and gives back what it
//! has too much of whenever it asks, so that the node can merge it.
#![expect(clippy::disallowed_methods, reason = "a measurement exits its forked processes")]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::Instant;

use store::{Client, Extent, Host, NeedExtent, Place, Reservation, copy_into};

const MIB: u64 = 1 << 20;
/// Idle memory that a process keeps when it asks for more.
const KEEP_BYTES: u64 = 64 * MIB;

fn main() {
    small();
    large();
    for processes in [1, 2, 4] {
        mixed(processes);
    }
}

fn small() {
    let mut host = Host::create(256 * MIB, 64).expect("an arena");
    let client = attach(&host, 0);
    client.add_extent(host.grant(0, 1).expect("room")).expect("ours");
    let rounds = 2_000_000;
    for bytes in [1_000, 200_000] {
        let one = |_| client.free(client.reserve(bytes).expect("room").seal()).expect("ours");
        report(&format!("reserve + seal + free, {bytes} bytes"), rounds, || (0..rounds).for_each(one));
    }
    let mut live: VecDeque<Place> = (0..500).map(|_| client.reserve(10_000).expect("room").seal()).collect();
    report("the same among 500 live objects", rounds, || {
        for round in 0..rounds {
            client.free(live.pop_front().expect("500 of them")).expect("ours");
            live.push_back(client.reserve(1_000 + round % 9_000).expect("room").seal());
        }
    });
    let readers: Vec<Client> = (1..17).map(|slot| attach(&host, slot)).collect();
    let views: Vec<_> = readers
        .iter()
        .flat_map(|reader| live.iter().take(10).map(|&place| reader.pin(place).expect("inside")))
        .collect();
    report("the same while 16 processes hold 10 pins each", rounds, || {
        for round in 0..rounds {
            client.free(live.pop_back().expect("500 of them")).expect("ours");
            live.push_back(client.reserve(1_000 + round % 9_000).expect("room").seal());
        }
    });
    let place = live[100];
    report("pin + drop the view", rounds, || {
        (0..rounds).for_each(|_| drop(readers[0].pin(place).expect("inside")));
    });
    let held = readers[0].pin(place).expect("inside");
    report("pin + drop another view of a pinned place", rounds, || {
        (0..rounds).for_each(|_| drop(readers[0].pin(place).expect("inside")));
    });
    report("clone + drop a view", rounds, || (0..rounds).for_each(|_| drop(held.clone())));
    drop(views);
}

fn report(what: &str, rounds: u64, work: impl FnOnce()) {
    let began = Instant::now();
    work();
    println!("{what:50} {:>8.0} ns", began.elapsed().as_secs_f64() * 1e9 / rounds as f64);
}

fn large() {
    let mut host = Host::create(512 * MIB, 1).expect("an arena");
    let client = attach(&host, 0);
    let source = vec![7; (100 * MIB) as usize];
    let mut rates = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        let mut room = reserve(&client, 100 * MIB, |length| host.grant(0, length).expect("room"));
        copy_into(room.as_mut_slice(), &source);
        client.free(room.seal()).expect("ours");
        rates.push(100.0 / 1024.0 / began.elapsed().as_secs_f64());
    }
    let warm = rates[1..].iter().sum::<f64>() / 19.0;
    println!("{:50} {:>8.1} GiB/s first, {warm:.1} GiB/s then", "put + free of 100 MiB", rates[0]);
}

/// Puts of 0.1 to 100 MiB, the sixteen newest alive, until 12 GiB are through after a warm-up of a third.
fn mixed(processes: u16) {
    let host = Mutex::new(Host::create(8 << 30, processes).expect("an arena"));
    let mut links = Vec::new();
    for slot in 0..processes {
        let (node_end, mut process_end) = UnixStream::pair().expect("a socket");
        // SAFETY: this process has one thread, so the child can do whatever its parent can.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork failed");
        if pid == 0 {
            let client = attach(&host.lock().expect("one thread"), slot);
            let rate = put_mixed(&client, slot.into(), 12_288 / u64::from(processes), &mut process_end);
            say(&mut process_end, [DONE, rate.to_bits(), 0]);
            std::process::exit(0);
        }
        links.push((pid, node_end));
    }
    let rates: Vec<f64> = std::thread::scope(|scope| {
        let serve = |(slot, (_, link)): (usize, &(i32, UnixStream))| {
            let (host, link) = (&host, link.try_clone().expect("a descriptor"));
            scope.spawn(move || serve(host, slot as u16, link))
        };
        let threads: Vec<_> = links.iter().enumerate().map(serve).collect();
        threads.into_iter().map(|thread| thread.join().expect("the node serves")).collect()
    });
    for (pid, _) in &links {
        // SAFETY: a child of ours that has not been waited for.
        unsafe { libc::waitpid(*pid, std::ptr::null_mut(), 0) };
    }
    let host = host.into_inner().expect("nobody serves any more");
    println!(
        "{:50} {:>8.1} GiB/s together; {:.1} GiB held, {:.1} GiB touched",
        format!("puts of 0.1 to 100 MiB, 16 alive, {processes} processes"),
        rates.iter().sum::<f64>(),
        host.used() as f64 / (1u64 << 30) as f64,
        host.resident().expect("fstat") as f64 / (1u64 << 30) as f64,
    );
}

/// The process: returns GiB/s.
fn put_mixed(client: &Client, seed: u64, mib_total: u64, node: &mut UnixStream) -> f64 {
    let source = vec![7; (100 * MIB) as usize];
    let mut live = VecDeque::new();
    let mut random = seed * 7_919 + 1;
    let (mut bytes, mut began, mut warmed_up) = (0, Instant::now(), false);
    while bytes < mib_total * MIB {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Between 2^17 and 2^26.6, every power of two as likely as the next.
        let length = (2f64.powf(17.0 + (random >> 40) as f64 / (1u64 << 24) as f64 * 9.6)) as u64;
        let mut room = reserve(client, length, |length| {
            for extent in client.idle_extents(KEEP_BYTES) {
                say(node, [GIVE_BACK, extent.offset, extent.length]);
            }
            say(node, [ASK, length, 0]);
            let [_, offset, length] = hear(node);
            Extent { offset, length }
        });
        copy_into(room.as_mut_slice(), &source[..length as usize]);
        live.push_back(room.seal());
        if live.len() > 16 {
            client.free(live.pop_front().expect("17 of them")).expect("ours");
        }
        bytes += length;
        if !warmed_up && bytes > mib_total * MIB / 3 {
            (bytes, began, warmed_up) = (0, Instant::now(), true);
        }
    }
    bytes as f64 / (1u64 << 30) as f64 / began.elapsed().as_secs_f64()
}

/// The node: serves the process until it is done, and returns the rate that it reports.
fn serve(host: &Mutex<Host>, slot: u16, mut link: UnixStream) -> f64 {
    loop {
        let [what, first, second] = hear(&mut link);
        let mut host = host.lock().expect("no panic");
        match what {
            ASK => {
                let extent = host.grant(slot, first).expect("room");
                say(&mut link, [ASK, extent.offset, extent.length]);
            }
            GIVE_BACK => host.take_back(slot, Extent { offset: first, length: second }).expect("a lease"),
            _ => return f64::from_bits(first),
        }
    }
}

const ASK: u64 = 1;
const GIVE_BACK: u64 = 2;
const DONE: u64 = 3;

fn say(link: &mut UnixStream, words: [u64; 3]) {
    link.write_all(words.map(u64::to_le_bytes).as_flattened()).expect("the other side listens");
}

fn hear(link: &mut UnixStream) -> [u64; 3] {
    let mut bytes = [[0; 8]; 3];
    link.read_exact(bytes.as_flattened_mut()).expect("the other side speaks");
    bytes.map(u64::from_le_bytes)
}

fn reserve(client: &Client, length: u64, ask: impl FnOnce(u64) -> Extent) -> Reservation {
    client.reserve(length).unwrap_or_else(|NeedExtent { length: need }| {
        client.add_extent(ask(need)).expect("an extent of ours");
        client.reserve(length).expect("room in a fresh extent")
    })
}

fn attach(host: &Host, slot: u16) -> Client {
    let (data, table) = (host.data_fd().try_clone_to_owned(), host.table_fd().try_clone_to_owned());
    Client::attach(data.expect("a descriptor"), table.expect("a descriptor"), slot).expect("a free slot")
}
