//! Steps per second of every native environment, one core, actions drawn before: `cargo run --release --package eagleray-rl --example steps`.

use std::time::Instant;

use rl::chance::Chance;
use rl::env::{Config, Stepped, make, names};
use rl::space::Acted;

const ENVS: usize = 64;
const SECONDS: f64 = 1.0;
/// As many actions as are drawn before the clock starts; then they are told again.
const DRAWN: usize = 256;

fn main() {
    for name in names() {
        let mut vector = make(name, ENVS, &Config::new()).expect("every environment is made without settings");
        let mut chance = Chance::seeded(0);
        let mut draw = |acted: &Acted| match acted {
            Acted::Discrete(count) => chance.integers(*count as u64) as f32,
            _ => chance.uniform(-1.0, 1.0) as f32,
        };
        let size = ENVS * vector.spaces().acted.size();
        let actions: Vec<Vec<f32>> =
            (0..DRAWN).map(|_| (0..size).map(|_| draw(&vector.spaces().acted)).collect()).collect();
        let mut stepped = Stepped::default();
        let mut observed = vec![0.0; ENVS * vector.spaces().observed.size()];
        vector.reset(Some(0), &mut observed);
        let (mut steps, mut ends) = (0_u64, 0_u64);
        let start = Instant::now();
        while start.elapsed().as_secs_f64() < SECONDS {
            for actions in &actions {
                vector.step(actions, &mut stepped);
                ends += stepped.terminated.iter().zip(&stepped.truncated).filter(|(t, c)| **t || **c).count() as u64;
            }
            steps += (DRAWN * ENVS) as u64;
        }
        let rate = steps as f64 / start.elapsed().as_secs_f64();
        println!(
            "{name:28} {:10.2} M steps/s, {:8.1} steps per episode",
            rate / 1e6,
            steps as f64 / ends.max(1) as f64
        );
    }
}
