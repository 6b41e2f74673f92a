//! Measures how a large object is best copied into the arena: `cargo run --release -p eagleray-store --example copy`.
//!
//! Every way copies from memory that is in no cache into warm pages that are in no cache ("fresh"), and the same bytes
//! to the same place again and again ("same"). Then the arena's own cost: cold pages, pages that only another process
//! has mapped, pages that are mapped. The tables in `src/copy.rs` and `src/mapping.rs` come from here.

use std::time::Instant;

use store::{Client, Host, copy_into};

const MIB: usize = 1 << 20;
const SPAN: usize = 512 * MIB;

type Copy = fn(&mut [u8], &[u8]);

fn main() {
    let source: Vec<u8> = vec![7; SPAN];
    let mut target: Vec<u8> = vec![1; SPAN];
    let ways: [(&str, Copy); 4] = [
        ("memcpy", <[u8]>::copy_from_slice),
        ("copy_into", copy_into),
        ("memcpy, 2 threads", |to, from| in_two(to, from, <[u8]>::copy_from_slice)),
        ("copy_into, 2 threads", |to, from| in_two(to, from, copy_into)),
    ];
    println!("{:>10}  {:22} {:>12} {:>12}", "KiB", "way", "fresh GiB/s", "same GiB/s");
    for bytes in [MIB / 4, MIB, 4 * MIB, 16 * MIB, 100 * MIB] {
        for (name, way) in ways {
            let places = SPAN / bytes;
            let fresh = best_of(3, || {
                for place in 0..places {
                    let range = place * bytes..(place + 1) * bytes;
                    way(&mut target[range.clone()], &source[range]);
                }
            });
            let same = best_of(3, || (0..places).for_each(|_| way(&mut target[..bytes], &source[..bytes])));
            let rate = |seconds| gib(places * bytes) / seconds;
            println!("{:>10}  {name:22} {:>12.1} {:>12.1}", bytes >> 10, rate(fresh), rate(same));
        }
    }
    drop(target);
    arena(&source);
}

/// The same object by three processes in turn, as the pages become warmer.
fn arena(source: &[u8]) {
    let bytes = 100 * MIB;
    let mut host = Host::create(256 << 20, 2).expect("an arena");
    println!("\n{:34} {:>12} {:>12}", "100 MiB into the arena", "reserve ms", "GiB/s in all");
    for (slot, first) in [(0, "never touched by anybody"), (1, "touched by another process")] {
        let client = attach(&host, slot);
        let extent = host.grant(slot, bytes as u64).expect("room");
        client.add_extent(extent).expect("an extent of ours");
        for story in [first, "mapped here", "mapped here"] {
            let began = Instant::now();
            let mut reservation = client.reserve(bytes as u64).expect("room");
            let reserved = began.elapsed();
            copy_into(reservation.as_mut_slice(), &source[..bytes]);
            let seconds = began.elapsed().as_secs_f64();
            println!("{story:34} {:>12.2} {:>12.2}", reserved.as_secs_f64() * 1e3, gib(bytes) / seconds);
            client.free(reservation.seal()).expect("it was sealed here");
        }
        drop(client);
        host.process_gone(slot);
    }
}

fn attach(host: &Host, slot: u16) -> Client {
    let (data, table) = (host.data_fd().try_clone_to_owned(), host.table_fd().try_clone_to_owned());
    Client::attach(data.expect("a descriptor"), table.expect("a descriptor"), slot).expect("a free slot")
}

fn in_two(to: &mut [u8], from: &[u8], way: Copy) {
    let half = to.len() / 2;
    let ((to, to_rest), (from, from_rest)) = (to.split_at_mut(half), from.split_at(half));
    std::thread::scope(|scope| {
        scope.spawn(move || way(to_rest, from_rest));
        way(to, from);
    });
}

fn best_of(times: usize, mut work: impl FnMut()) -> f64 {
    let run = |_| {
        let began = Instant::now();
        work();
        began.elapsed().as_secs_f64()
    };
    (0..times).map(run).fold(f64::MAX, f64::min)
}

fn gib(bytes: usize) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}
