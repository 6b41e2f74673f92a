//! Thousands of networks that delay, cut and repeat: whatever they do, both ends agree with the oracle.
//!
//! A failure names its seed; `SEED=n cargo test -p eagleray-cluster --test random` runs that one alone, `SEEDS=n` as many.

mod world;

use world::World;

/// How many, if nothing else is said.
const SEEDS: u64 = 10_000;

/// Says which seed it was, when a test fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("SEED={}", self.0);
        }
    }
}

fn each_seed(run: impl Fn(u64)) {
    let asked = |name| std::env::var(name).ok().map(|number| number.parse().expect("a number"));
    let all = 0..asked("SEEDS").unwrap_or(SEEDS);
    for seed in asked("SEED").map_or(all, |seed: u64| seed..seed + 1) {
        let _seed = Seed(seed);
        run(seed);
    }
}

fn chaos(seed: u64) -> World {
    let mut world = World::seeded(seed);
    let steps = 100 + world.dice.below(600);
    (0..steps).for_each(|_| world.step());
    world
}

#[test]
fn session_1_to_5_hold_over_any_network() {
    each_seed(|seed| {
        let mut world = chaos(seed);
        world.calm();
        world.check_all_but_stuck();
        world.free_readers();
        world.calm();
        world.check_all();
    });
}

#[test]
fn session_1_a_verdict_at_any_moment_returns_what_has_not_arrived() {
    each_seed(|seed| chaos(seed).end_session());
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for seed in 0..200 {
        let counts = || chaos(seed).ends.map(|end| (end.session.counts(), end.got.total()));
        assert_eq!(counts(), counts(), "seed {seed}");
    }
}

/// The property is worth nothing if what it is about does not happen.
#[test]
fn the_networks_cut_repeat_and_send_again() {
    let (mut lines, mut duplicates, mut resent) = (0, 0, 0);
    for seed in 0..200 {
        let world = chaos(seed);
        for counts in world.ends.iter().map(|end| end.session.counts()) {
            lines += counts.lines;
            duplicates += counts.duplicates;
            resent += counts.resent;
        }
    }
    assert!(lines > 600 && duplicates > 150 && resent > 50_000, "{lines} {duplicates} {resent}");
}
