//! Native environments against what gymnasium's did: the same starts from the same seeds, the same steps from the same states.
//!
//! `scripts/gym_fixtures.py` writes the files.

use std::collections::BTreeMap;

use rl::chance::Chance;
use rl::env::mountain_car::MountainCarContinuous;
use rl::env::pendulum::Pendulum;
use rl::env::{Config, Environment, Stepped, Vector, make};
use rl::space::{Acted, Observed};
use serde::Deserialize;

#[derive(Deserialize)]
struct Record {
    name: String,
    config: Config,
    limit: u64,
    spaces: BTreeMap<String, Space>,
    episodes: Vec<Episodes>,
    /// State, action, state after it, and the reward with whether it was the end.
    probes: Vec<[Vec<f64>; 4]>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Space {
    Discrete {
        n: usize,
    },
    /// As Python writes numbers, because JSON has no infinity.
    Box {
        low: Vec<String>,
        high: Vec<String>,
    },
}

#[derive(Deserialize)]
struct Episodes {
    seed: u64,
    start: Vec<f64>,
    begun: Vec<f64>,
    /// Action, reward, and the state after it.
    steps: Vec<Vec<f64>>,
    ends: BTreeMap<usize, End>,
    /// Observations after some of the steps.
    shown: BTreeMap<usize, Vec<f64>>,
}

#[derive(Deserialize)]
struct End {
    terminated: bool,
    truncated: bool,
    /// The start of the next episode.
    next: Vec<f64>,
}

/// How near a step comes. Only sines and cosines may be rounded otherwise than numpy does; an operation in the wrong precision is seen.
const STEP: f64 = 1e-13;

/// Within a tolerance, of the number itself where that is above one.
#[track_caller]
fn assert_near(ours: &[f64], theirs: &[f64], tolerance: f64, what: &str) {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= tolerance * b.abs().max(1.0);
    assert!(ours.len() == theirs.len() && ours.iter().zip(theirs).all(near), "{what}: {ours:?} instead of {theirs:?}");
}

fn read(text: &str) -> Record {
    serde_json::from_str(text).expect("a file that the script wrote")
}

fn made(record: &Record) -> Box<dyn Vector> {
    make(&record.name, 1, &record.config).expect("an environment that gymnasium has too")
}

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&number| f64::from(number)).collect()
}

/// Every step begins in the state that gymnasium was in.
fn steps_agree(record: &Record) {
    for episodes in &record.episodes {
        let mut env = made(record);
        let mut observed = vec![0.0; env.spaces().observed.size()];
        let mut stepped = Stepped::default();
        env.reset(Some(episodes.seed), &mut observed);
        assert_eq!(env.state(0), episodes.start, "{} seed {}", record.name, episodes.seed);
        assert_near(&wide(&observed), &episodes.begun, 3e-7, "first observation");
        for (index, step) in episodes.steps.iter().enumerate() {
            let what = format!("{} seed {} step {index}", record.name, episodes.seed);
            let [action, reward, after @ ..] = step.as_slice() else { panic!("{what}: too short") };
            env.step(&[*action as f32], &mut stepped);
            // Rewards travel in single precision.
            assert_near(&wide(&stepped.rewards), &[*reward], 1e-7, &what);
            let end = episodes.ends.get(&index);
            assert_eq!(stepped.terminated[0], end.is_some_and(|end| end.terminated), "{what}");
            assert_eq!(stepped.truncated[0], end.is_some_and(|end| end.truncated), "{what}");
            if let Some(shown) = episodes.shown.get(&index) {
                let seen = if end.is_some() { &stepped.last } else { &stepped.observed };
                assert_near(&wide(seen), shown, 3e-7, &what);
            }
            if let Some(end) = end {
                assert_eq!(env.state(0), end.next, "{what}");
            } else {
                assert_near(&env.state(0), after, STEP, &what);
                env.set_state(0, after).expect("a state of gymnasium's");
            }
        }
    }
}

/// Errors of single steps do not build up either: nothing is set right on the way.
fn episodes_agree(record: &Record) {
    for episodes in &record.episodes {
        let mut env = made(record);
        let mut observed = vec![0.0; env.spaces().observed.size()];
        let mut stepped = Stepped::default();
        env.reset(Some(episodes.seed), &mut observed);
        for (index, step) in episodes.steps.iter().enumerate() {
            let what = format!("{} seed {} step {index}", record.name, episodes.seed);
            env.step(&[step[0] as f32], &mut stepped);
            let expected = episodes.ends.get(&index).map_or(&step[2..], |end| &end.next);
            assert_near(&env.state(0), expected, 1e-9, &what);
        }
    }
}

/// Steps from states all over the place.
fn probes_agree(record: &Record) {
    let mut env = made(record);
    let mut stepped = Stepped::default();
    for (index, [before, action, after, outcome]) in record.probes.iter().enumerate() {
        let what = format!("{} probe {index}, {action:?} in {before:?}", record.name);
        env.reset(Some(0), &mut vec![0.0; env.spaces().observed.size()]);
        env.set_state(0, before).expect("a state of gymnasium's");
        assert_eq!(env.state(0), *before, "{what}");
        env.step(&[action[0] as f32], &mut stepped);
        assert_near(&wide(&stepped.rewards), &outcome[..1], 1e-7, &what);
        assert_eq!(stepped.terminated[0], outcome[1] != 0.0, "{what}");
        if !stepped.terminated[0] {
            assert_near(&env.state(0), after, STEP, &what);
        }
    }
}

/// Rewards before they are rounded to single precision, where they are not whole. In one of a thousand squares numpy's power is off by the last bit
/// of single precision, which is 3e-10 of Pendulum's reward.
fn rewards_agree<E: Environment>(rules: &E, record: &Record) {
    let check = |before: &[f64], action: f64, reward: f64| {
        let mut state = rules.state(before).expect("a state of gymnasium's");
        let outcome = rules.step(&mut state, &[action as f32], &mut Chance::seeded(0));
        assert_near(&[outcome.reward], &[reward], 3e-10, &format!("{}, {action} in {before:?}", record.name));
    };
    for episodes in &record.episodes {
        let mut before = episodes.start.as_slice();
        for (index, step) in episodes.steps.iter().enumerate() {
            check(before, step[0], step[1]);
            before = episodes.ends.get(&index).map_or(&step[2..], |end| &end.next);
        }
    }
    for [before, action, _, outcome] in &record.probes {
        check(before, action[0], outcome[0]);
    }
}

#[test]
fn rewards_agree_in_double_precision() {
    rewards_agree(&Pendulum::default(), &pendulum::record());
    rewards_agree(&MountainCarContinuous::default(), &mountain_car_continuous::record());
}

fn spaces_agree(record: &Record) {
    let parsed = |texts: &[String]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<f32>>();
    let env = made(record);
    match (&env.spaces().observed, &record.spaces["observed"]) {
        (Observed::Discrete(ours), Space::Discrete { n }) => assert_eq!(ours, n),
        (Observed::Box { shape, low: our_low, high: our_high }, Space::Box { low, high }) => {
            assert_eq!((our_low, our_high), (&parsed(low), &parsed(high)));
            assert_eq!(*shape, [low.len()]);
        }
        (ours, _) => panic!("{}: {ours:?}", record.name),
    }
    match (&env.spaces().acted, &record.spaces["acted"]) {
        (Acted::Discrete(ours), Space::Discrete { n }) => assert_eq!(ours, n),
        (Acted::Box { low: our_low, high: our_high }, Space::Box { low, high }) => {
            assert_eq!((our_low, our_high), (&parsed(low), &parsed(high)));
        }
        (ours, _) => panic!("{}: {ours:?}", record.name),
    }
}

/// An episode that is always put back to its start is cut off at the limit, and not before.
fn limits_agree(record: &Record) {
    let mut env = made(record);
    let mut stepped = Stepped::default();
    env.reset(Some(1), &mut vec![0.0; env.spaces().observed.size()]);
    let start = env.state(0);
    for step in 1..=record.limit + 1 {
        env.set_state(0, &start).unwrap();
        env.step(&[0.0], &mut stepped);
        assert!(!stepped.terminated[0], "{}", record.name);
        assert_eq!(stepped.truncated[0], step == record.limit, "{} after {step} steps", record.name);
    }
}

macro_rules! environments {
    ($($name:ident)*) => {$(
        mod $name {
            pub(crate) fn record() -> super::Record {
                super::read(include_str!(concat!("fixtures/", stringify!($name), ".json")))
            }

            #[test]
            fn steps_from_the_same_state_agree() {
                super::steps_agree(&record());
            }

            #[test]
            fn episodes_from_the_same_seed_agree() {
                super::episodes_agree(&record());
            }

            #[test]
            fn steps_from_any_state_agree() {
                super::probes_agree(&record());
            }

            #[test]
            fn spaces_and_limit_agree() {
                super::spaces_agree(&record());
                super::limits_agree(&record());
            }
        }
    )*};
}

environments! {
    acrobot
    cart_pole
    cart_pole_sutton
    frozen_lake
    frozen_lake_8x8
    frozen_lake_custom
    frozen_lake_dry
    mountain_car
    mountain_car_continuous
    pendulum
    pendulum_gravity
    taxi
    taxi_fickle
    taxi_rain
}
