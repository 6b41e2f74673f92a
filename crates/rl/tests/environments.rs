//! What holds for every native environment, whatever is done with it.

use proptest::prelude::*;
use rl::chance::Chance;
use rl::env::{Config, EnvError, Setting, Stepped, Vector, make, misfit, names};
use rl::space::{Acted, Observed, Spaces};

fn made(name: &str, count: usize) -> Box<dyn Vector> {
    make(name, count, &Config::new()).unwrap_or_else(|error| panic!("{error}"))
}

fn with(name: &str, key: &str, setting: Setting) -> Result<Box<dyn Vector>, EnvError> {
    make(name, 2, &Config::from([(key.to_owned(), setting)]))
}

fn reset(vector: &mut dyn Vector, seed: Option<u64>) -> Vec<f32> {
    let mut observed = vec![f32::NAN; vector.count() * vector.spaces().observed.size()];
    vector.reset(seed, &mut observed);
    observed
}

/// Actions by chance, a few of them none that the space holds.
fn actions(spaces: &Spaces, count: usize, chance: &mut Chance) -> Vec<f32> {
    let mut choice = |choices: usize| match chance.integers(50) {
        0 => -1e30,
        1 => 1e30,
        2 => -0.75,
        _ => chance.integers(choices as u64) as f32,
    };
    let columns = (0..count * spaces.acted.size()).map(|at| at % spaces.acted.size());
    match &spaces.acted {
        Acted::Discrete(choices) => columns.map(|_| choice(*choices)).collect(),
        Acted::MultiDiscrete(choices) => columns.map(|column| choice(choices[column])).collect(),
        // Squares of actions are part of rewards: huge ones would make those huge too.
        Acted::Box { low, high } => {
            columns.map(|at| chance.uniform(2.0 * f64::from(low[at]), 2.0 * f64::from(high[at])) as f32).collect()
        }
        Acted::Mixed { .. } => unreachable!("no environment takes both"),
    }
}

#[track_caller]
fn assert_within(observed: &[f32], spaces: &Spaces, what: &str) {
    let is_within = observed.chunks_exact(spaces.observed.size()).all(|row| match &spaces.observed {
        Observed::Discrete(count) => row[0].fract() == 0.0 && row[0] >= 0.0 && (row[0] as usize) < *count,
        Observed::Box { low, high, .. } => row.iter().zip(low).zip(high).all(|((n, low), high)| low <= n && n <= high),
    });
    assert!(is_within, "{what}: {observed:?}");
}

fn any_name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(names().collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_done_stays_within_bounds(name in any_name(), seed: u64, count in 1_usize..5) {
        let mut vector = made(name, count);
        let spaces = vector.spaces().clone();
        let mut chance = Chance::seeded(seed);
        assert_within(&reset(&mut *vector, Some(seed)), &spaces, name);
        let mut stepped = Stepped::default();
        for _ in 0..300 {
            vector.step(&actions(&spaces, count, &mut chance), &mut stepped);
            assert_within(&stepped.observed, &spaces, name);
            assert!(stepped.rewards.iter().all(|reward| reward.is_finite()), "{name}: {:?}", stepped.rewards);
            let size = spaces.observed.size();
            for index in (0..count).filter(|&index| stepped.terminated[index] || stepped.truncated[index]) {
                assert_within(&stepped.last[index * size..][..size], &spaces, name);
            }
            let mut now = vec![0.0; count * size];
            vector.observe(&mut now);
            prop_assert_eq!(&now, &stepped.observed);
        }
    }

    #[test]
    fn each_environment_is_as_if_alone_with_its_seed(name in any_name(), seed in 0..u64::MAX - 3) {
        let mut together = made(name, 3);
        let mut alone: Vec<_> = (0..3).map(|_| made(name, 1)).collect();
        let mut chance = Chance::seeded(seed);
        let observed = reset(&mut *together, Some(seed));
        let separate: Vec<f32> = alone.iter_mut().zip(seed..).flat_map(|(one, seed)| reset(&mut **one, Some(seed))).collect();
        prop_assert_eq!(observed, separate);
        let (mut stepped, mut single) = (Stepped::default(), Stepped::default());
        let spaces = together.spaces().clone();
        for _ in 0..250 {
            let told = actions(&spaces, 3, &mut chance);
            together.step(&told, &mut stepped);
            for (index, one) in alone.iter_mut().enumerate() {
                let size = spaces.acted.size();
                one.step(&told[index * size..][..size], &mut single);
                prop_assert_eq!(one.state(0), together.state(index));
                prop_assert_eq!(single.rewards[0], stepped.rewards[index]);
                prop_assert_eq!(single.terminated[0], stepped.terminated[index]);
                prop_assert_eq!(single.truncated[0], stepped.truncated[index]);
            }
        }
    }

    #[test]
    fn what_was_saved_goes_on_bit_for_bit(name in any_name(), seed: u64, before in 0_usize..120) {
        let mut vector = made(name, 3);
        let spaces = vector.spaces().clone();
        let mut chance = Chance::seeded(seed);
        reset(&mut *vector, Some(seed));
        let (mut stepped, mut again) = (Stepped::default(), Stepped::default());
        for _ in 0..before {
            vector.step(&actions(&spaces, 3, &mut chance), &mut stepped);
        }
        let mut other = made(name, 3);
        other.restore(&vector.save()).unwrap();
        for _ in 0..250 {
            let told = actions(&spaces, 3, &mut chance);
            vector.step(&told, &mut stepped);
            other.step(&told, &mut again);
            prop_assert_eq!(&stepped.observed, &again.observed);
            prop_assert_eq!(&stepped.rewards, &again.rewards);
            prop_assert_eq!(&stepped.terminated, &again.terminated);
            prop_assert_eq!(&stepped.truncated, &again.truncated);
        }
        prop_assert_eq!(vector.save(), other.save());
    }

    #[test]
    fn damaged_bytes_are_refused_or_played_on(name in any_name(), seed: u64, at: prop::sample::Index, byte: u8, cut: bool) {
        let mut vector = made(name, 2);
        reset(&mut *vector, Some(seed));
        let mut saved = vector.save();
        let at = at.index(saved.len());
        if cut { saved.truncate(at) } else { saved[at] = byte }
        let before = vector.save();
        let is_refused = vector.restore(&saved).is_err();
        prop_assert!(is_refused || !cut);
        if is_refused {
            prop_assert_eq!(vector.save(), before);
        }
        let told = vec![0.0; 2 * vector.spaces().acted.size()];
        vector.step(&told, &mut Stepped::default());
    }

    #[test]
    fn an_episode_is_cut_off_at_its_limit_and_the_next_begins(name in any_name(), seed: u64, limit in 1_i64..40) {
        let mut vector = with(name, "max_episode_steps", Setting::Whole(limit)).unwrap();
        let spaces = vector.spaces().clone();
        let mut chance = Chance::seeded(seed);
        reset(&mut *vector, Some(seed));
        let mut stepped = Stepped::default();
        let mut steps = [0; 2];
        for _ in 0..100 {
            vector.step(&actions(&spaces, 2, &mut chance), &mut stepped);
            for (index, steps) in steps.iter_mut().enumerate() {
                *steps += 1;
                prop_assert_eq!(stepped.truncated[index], *steps == limit);
                if stepped.terminated[index] || stepped.truncated[index] {
                    *steps = 0;
                }
            }
        }
    }

    #[test]
    fn any_numbers_are_a_state_or_none(name in any_name(), numbers in prop::collection::vec(-20.0..600.0, 0..5), whole: bool) {
        let numbers: Vec<f64> = numbers.into_iter().map(|number: f64| if whole { number.floor() } else { number }).collect();
        let mut vector = made(name, 1);
        if vector.set_state(0, &numbers).is_ok() {
            prop_assert_eq!(vector.state(0), numbers);
        }
        let told = vec![0.0; vector.spaces().acted.size()];
        let mut stepped = Stepped::default();
        vector.step(&told, &mut stepped);
        prop_assert!(stepped.rewards[0].is_finite());
    }
}

#[test]
fn chance_goes_on_without_a_seed_and_begins_again_with_one() {
    for name in names().filter(|name| *name != "Corridor-v0" && !name.starts_with("FrozenLake")) {
        let mut vector = made(name, 4);
        let first = reset(&mut *vector, Some(5));
        let second = reset(&mut *vector, None);
        assert_ne!(first, second, "{name}");
        assert_eq!(reset(&mut *vector, Some(5)), first, "{name}");
        assert_eq!(reset(&mut *vector, None), second, "{name}");
        assert_eq!(reset(&mut *made(name, 4), None), reset(&mut *made(name, 4), None), "{name}");
    }
}

#[test]
fn environments_of_another_kind_or_number_are_not_restored() {
    let saved = made("CartPole-v1", 2).save();
    let kind = made("Pendulum-v1", 2).restore(&saved).unwrap_err();
    assert_eq!(kind.to_string(), "the saved environments do not fit: their spaces differ");
    let number = made("CartPole-v1", 3).restore(&saved).unwrap_err();
    assert_eq!(number.to_string(), "the saved environments do not fit: 2 were saved, 3 are here");
}

#[test]
fn names_and_settings_that_do_not_exist_name_the_nearest() {
    let error = |made: Result<Box<dyn Vector>, EnvError>| made.err().unwrap().to_string();
    let none = Config::new();
    assert_eq!(
        error(make("CartPole-v2", 1, &none)),
        "no native environment is named \"CartPole-v2\"; did you mean \"CartPole-v0\"?"
    );
    assert_eq!(
        error(make("mountaincar-v0", 1, &none)),
        "no native environment is named \"mountaincar-v0\"; did you mean \"MountainCar-v0\"?"
    );
    assert_eq!(error(make("Breakout", 1, &none)), "no native environment is named \"Breakout\"");
    assert_eq!(
        error(with("FrozenLake-v1", "is_slipery", Setting::Flag(false))),
        "FrozenLake-v1 has no setting \"is_slipery\"; did you mean \"is_slippery\"?"
    );
    assert_eq!(
        error(with("Corridor-v0", "corridor_length", Setting::Whole(0))),
        "Corridor-v0: corridor_length must be a whole number from 1 on, not 0"
    );
    assert_eq!(
        error(with("FrozenLake-v1", "map_name", Setting::Text("5x5".to_owned()))),
        "FrozenLake-v1: map_name must be \"4x4\" or \"8x8\", not \"5x5\""
    );
    let ragged = Setting::List(vec![Setting::Text("SF".to_owned()), Setting::Text("G".to_owned())]);
    assert!(error(with("FrozenLake-v1", "desc", ragged)).contains("rows of one length"));
    assert!(error(with("FrozenLake-v1", "map_name", Setting::Nothing)).contains("not null"));
    assert!(error(with("FrozenLake-v1", "success_rate", Setting::Real(1.5))).contains("between 0 and 1, not 1.5"));
    assert!(error(with("Pendulum-v1", "g", Setting::Real(f64::NAN))).contains("a finite number"));
    assert!(error(with("CartPole-v1", "max_episode_steps", Setting::Whole(0))).contains("or -1 for no end"));
    assert!(error(with("Taxi-v3", "is_rainy", Setting::Flag(true))).contains("no setting \"is_rainy\""));
}

#[test]
fn without_a_limit_an_episode_goes_on() {
    let mut vector = with("Pendulum-v1", "max_episode_steps", Setting::Whole(-1)).unwrap();
    let mut stepped = Stepped::default();
    for _ in 0..1000 {
        vector.step(&[0.0, 0.0], &mut stepped);
        assert_eq!(stepped.truncated, [false, false]);
    }
}

#[test]
fn settings_are_read_from_json() {
    let config: Config =
        serde_json::from_str(r#"{"desc": ["SFG"], "is_slippery": false, "reward_schedule": [2, 0, -0.5]}"#).unwrap();
    let mut vector = make("FrozenLake-v1", 1, &config).unwrap();
    assert_eq!(reset(&mut *vector, Some(0)), [0.0]);
    let mut stepped = Stepped::default();
    vector.step(&[2.0], &mut stepped);
    assert_eq!((stepped.observed[0], stepped.rewards[0], stepped.terminated[0]), (1.0, -0.5, false));
    vector.step(&[2.0], &mut stepped);
    assert_eq!(
        (stepped.last[0], stepped.observed[0], stepped.rewards[0], stepped.terminated[0]),
        (2.0, 0.0, 2.0, true)
    );
}

#[test]
fn the_end_of_the_corridor_is_its_only_reward() {
    let mut vector = with("Corridor-v0", "corridor_length", Setting::Whole(3)).unwrap();
    assert_eq!(reset(&mut *vector, Some(0)), [0.0, 0.0]);
    let mut stepped = Stepped::default();
    // The second one walks into the wall behind it first.
    for (step, told) in [[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]].iter().enumerate() {
        vector.step(told, &mut stepped);
        assert_eq!(stepped.terminated, [step == 2, false]);
    }
    assert_eq!((stepped.rewards[0], stepped.last[0], stepped.observed[0]), (1.0, 3.0, 0.0));
    assert_eq!((stepped.rewards[1], stepped.observed[1]), (0.0, 2.0));
}

#[test]
fn a_ball_under_which_the_paddle_stands_is_caught() {
    let mut vector = made("Catch-v0", 1);
    let mut stepped = Stepped::default();
    for (column, action, reward) in
        [(2.0, 1.0, 1.0), (0.0, 0.0, 1.0), (4.0, 2.0, 1.0), (0.0, 2.0, -1.0), (3.0, 1.0, -1.0)]
    {
        reset(&mut *vector, Some(0));
        vector.set_state(0, &[0.0, column, 2.0]).unwrap();
        for step in 1..=9 {
            vector.step(&[action], &mut stepped);
            assert_eq!(stepped.terminated[0], step == 9);
            assert_eq!(stepped.rewards[0], if step == 9 { reward } else { 0.0 });
            let seen = if step == 9 { &stepped.last } else { &stepped.observed };
            assert_eq!(seen[step * 5 + column as usize], 1.0);
            // Both in one pixel when it is caught.
            assert_eq!(seen.iter().sum::<f32>(), if step == 9 && reward > 0.0 { 1.0 } else { 2.0 });
        }
    }
}

#[test]
fn balls_fall_in_every_column() {
    let mut vector = made("Catch-v0", 50);
    let observed = reset(&mut *vector, Some(0));
    for column in 0..5 {
        assert!(observed.chunks_exact(50).any(|row| row[column] == 1.0));
    }
}

#[test]
fn actions_that_a_space_does_not_hold_are_found() {
    let cases: [(Acted, &[f32], Option<usize>); 8] = [
        (Acted::Discrete(3), &[0.0, 2.0, 1.0], None),
        (Acted::Discrete(3), &[0.0, 3.0], Some(1)),
        (Acted::Discrete(3), &[0.5], Some(0)),
        (Acted::Discrete(3), &[0.0, 0.0, f32::NAN], Some(2)),
        (Acted::MultiDiscrete(vec![2, 3]), &[1.0, 2.0, 2.0, 1.0], Some(1)),
        (Acted::Box { low: vec![-1.0], high: vec![1.0] }, &[3.0, f32::INFINITY], Some(1)),
        (Acted::Mixed { counts: vec![2], low: vec![-1.0], high: vec![1.0] }, &[1.0, 5.0, 0.0, f32::NAN], Some(1)),
        (Acted::Mixed { counts: vec![2], low: vec![-1.0], high: vec![1.0] }, &[0.0, 0.5, 2.0, 0.5], Some(1)),
    ];
    for (acted, actions, expected) in cases {
        assert_eq!(misfit(&acted, actions), expected, "{acted:?} {actions:?}");
    }
}
