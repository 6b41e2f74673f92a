//! How many items a session moves per second on one core: taken to be sent, made bytes, read from them, delivered and acknowledged.
//! Both ends run on that core, so that one of them alone is about twice as fast.
//!
//! `cargo run --release -p eagleray-cluster --example items`

use std::time::Instant;

use cluster::{Arrived, Channel, Hold, Limits, NodeLife, Session};
use model::Tick;

/// A load: items of so many bytes, on so many channels in turn, so many between two looks at the line.
struct Load {
    name: &'static str,
    bytes: usize,
    channels: u16,
    burst: u64,
    items: u64,
}

fn main() {
    let loads = [
        Load { name: "100 bytes, one channel", bytes: 100, channels: 1, burst: 500, items: 10_000_000 },
        Load { name: "100 bytes, 64 channels", bytes: 100, channels: 64, burst: 500, items: 10_000_000 },
        Load { name: "100 bytes, 1,000 channels", bytes: 100, channels: 1_000, burst: 500, items: 10_000_000 },
        Load { name: "100 bytes, one by one", bytes: 100, channels: 1, burst: 1, items: 5_000_000 },
        Load {
            name: "100 bytes, more than goes straight on",
            bytes: 100,
            channels: 64,
            burst: 10_000,
            items: 10_000_000,
        },
        Load { name: "1 MiB, in pieces", bytes: 1024 * 1024, channels: 4, burst: 4, items: 10_000 },
    ];
    for load in &loads {
        let best = (0..3).map(|_| items_per_second(load)).fold(0.0, f64::max);
        let gigabytes = best * load.bytes as f64 / 1e9;
        println!("{best:>12.0} items/s {gigabytes:>6.2} GB/s  {}", load.name);
    }
}

fn items_per_second(load: &Load) -> f64 {
    let (one, two) = (NodeLife { node: 1, life: 1 }, NodeLife { node: 2, life: 2 });
    let limits = Limits { window_bytes: 4 * 1024 * 1024, ..Limits::default() };
    let mut ends = [Session::new(one, two, limits), Session::new(two, one, limits)];
    let now = Tick(1);
    let mut bytes = Vec::new();
    ends[0].dial(now).expect("not ended");
    ends[0].take(now, 0, &mut bytes);
    let (hello, _) = cluster::read_hello(&bytes).expect("a hello").expect("all of it");
    ends[1].answer(now, &hello).expect("it is taken");

    let item = vec![7; load.bytes];
    let (mut sent, mut got) = (0, 0);
    let begin = Instant::now();
    while got < load.items {
        for _ in 0..load.burst {
            let channel = Channel { from: 1, to: (sent % u64::from(load.channels)) as u16 };
            if ends[0].send(channel, 1, &item).is_err() {
                break;
            }
            sent += 1;
        }
        for (from, to) in [(0, 1), (1, 0)] {
            while ends[from].has_output() {
                bytes.clear();
                ends[from].take(now, 128 * 1024, &mut bytes);
                let received = ends[to].receive(now, 1, &bytes, |what| {
                    got += u64::from(matches!(what, Arrived::Item { .. }));
                    Hold::Done
                });
                received.expect("both ends are right");
            }
        }
        while ends[0].next_notice().is_some() {}
    }
    got as f64 / begin.elapsed().as_secs_f64()
}
