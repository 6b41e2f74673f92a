//! What every searcher promises, and that those that learn do.

use proptest::prelude::*;

use super::*;
use crate::rng::Rng;
use crate::space::{Condition, Domain, Param, Value};

const KINDS: [&str; 7] = ["random", "sobol", "tpe", "tpe-univariate", "tpe-at-once", "cma", "gp"];

fn make(kind: &str, space: Space, seed: u64) -> Box<dyn Search> {
    match kind {
        "random" => Box::new(Random::new(space, seed)),
        "sobol" => Box::new(Sobol::new(space, seed)),
        "tpe" => Box::new(Tpe::new(space, seed, TpeOptions::default())),
        "tpe-univariate" => {
            Box::new(Tpe::new(space, seed, TpeOptions { multivariate: false, ..TpeOptions::default() }))
        }
        // BOHB's: others choose what it begins with.
        "tpe-at-once" => Box::new(Tpe::new(space, seed, TpeOptions { startup_trials: 0, ..TpeOptions::default() })),
        "cma" => Box::new(Cma::new(space, seed, CmaOptions::default())),
        "gp" => Box::new(Gp::new(space, seed, GpOptions { startup_trials: 5, trials_max: 24 })),
        _ => unreachable!("no such kind"),
    }
}

fn param(name: &str, domain: Domain) -> Param {
    Param { name: name.into(), domain, when: Vec::new() }
}

fn floats(count: usize, low: f64, high: f64) -> Space {
    let domain = Domain::Float { low, high, log: false, step: None };
    Space::new((0..count).map(|at| param(&format!("x{at}"), domain.clone())).collect()).unwrap()
}

fn number(value: Option<Value>) -> f64 {
    match value {
        Some(Value::Float(x)) => x,
        Some(Value::Int(x)) => x as f64,
        Some(Value::Choice(x)) => f64::from(x),
        None => 0.0,
    }
}

/// The best value after some trials, one after the other.
fn best_of(kind: &str, space: &Space, seed: u64, trials: u64, mut objective: impl FnMut(&Point) -> f64) -> f64 {
    let mut search = make(kind, space.clone(), seed);
    let mut best = f64::INFINITY;
    for trial in 0..trials {
        let point = search.ask(trial).unwrap();
        let value = objective(&point);
        best = best.min(value);
        search.tell(trial, Outcome::Value(value));
    }
    best
}

fn domains() -> impl Strategy<Value = Domain> {
    prop_oneof![
        (-10.0..10.0_f64, 0.0..5.0_f64).prop_map(|(low, width)| Domain::Float {
            low,
            high: low + width,
            log: false,
            step: None
        }),
        (1e-6..1.0_f64, 1.0..1e4_f64).prop_map(|(low, times)| Domain::Float {
            low,
            high: low * times,
            log: true,
            step: None
        }),
        (-5..5_i32, 0..9_i32).prop_map(|(low, count)| Domain::Float {
            low: f64::from(low) * 0.5,
            high: f64::from(low + count) * 0.5,
            log: false,
            step: Some(0.5)
        }),
        (1..5_i32, 0..9_i32).prop_map(|(low, count)| Domain::Float {
            low: f64::from(low) * 0.1,
            high: f64::from(low + count) * 0.1,
            log: true,
            step: Some(0.1)
        }),
        (-20..20_i64, 0..50_i64, 1..7_i64).prop_map(|(low, count, step)| Domain::Int {
            low,
            high: low + count * step,
            log: false,
            step
        }),
        (1..20_i64, 0..500_i64, 1..3_i64).prop_map(|(low, count, step)| Domain::Int {
            low,
            high: low + count * step,
            log: true,
            step
        }),
        (-5.0..5.0_f64, 0.1..3.0_f64, proptest::option::of(0.1..1.0_f64))
            .prop_map(|(mean, deviation, step)| Domain::Normal { mean, deviation, step }),
        (1..5_u32).prop_map(|count| Domain::Choice { count }),
    ]
}

/// Spaces in which some parameters depend on a choice before them.
fn spaces() -> impl Strategy<Value = Space> {
    (proptest::collection::vec((domains(), any::<u32>()), 1..7)).prop_map(|parts| {
        let mut params: Vec<Param> = Vec::new();
        for (at, (domain, luck)) in parts.into_iter().enumerate() {
            let choices: Vec<usize> = (0..at).filter(|&before| params[before].domain.is_choice()).collect();
            let when = match choices.get(luck as usize % (choices.len() + 1)) {
                Some(&parent) if luck % 3 != 0 => vec![Condition { param: parent, values: vec![0, luck % 4] }],
                _ => Vec::new(),
            };
            params.push(Param { name: format!("p{at}"), domain, when });
        }
        Space::new(params).unwrap()
    })
}

fn outcome(luck: u64, value: f64) -> Outcome {
    match luck % 12 {
        0 => Outcome::Failed,
        1 => Outcome::Value(f64::NAN),
        2 => Outcome::Value(f64::INFINITY),
        3 => Outcome::Value(f64::NEG_INFINITY),
        4 => Outcome::Pruned,
        5 => Outcome::Value(1e300 * value),
        6 => Outcome::Value(0.0),
        _ => Outcome::Value(value),
    }
}

/// What an ask was answered with, and left behind.
type Answer = (Point, Vec<f64>);

/// Asks, reports and tells in an order that the seed decides, with some trials always under way, and some points of others'
/// choice. What is known already is not asked for. Returns all answers.
fn story(kind: &str, space: &Space, seed: u64, trials: u64, known: &[Answer]) -> Vec<Answer> {
    let mut search = make(kind, space.clone(), seed);
    let mut chance = Rng::seeded(seed ^ 0xabc);
    let mut running: Vec<(u64, f64)> = Vec::new();
    let mut answers = Vec::new();
    for trial in 0..trials {
        let point = if let Some((point, residue)) = known.get(trial as usize) {
            search.retrace(trial, point.clone(), residue);
            point.clone()
        } else {
            search.ask(trial).unwrap()
        };
        assert!(space.contains(&point), "SEARCH-1: {kind} left the space: {point:?} in {space:?}");
        let value_of = |point: &Point| point.iter().map(|value| number(*value)).sum::<f64>().sin();
        running.push((trial, value_of(&point)));
        answers.push((point, search.residue()));
        if chance.below(4) == 0 {
            let point = space.sample(&mut chance);
            running.push((1_000_000 + trial, value_of(&point)));
            search.adopt(1_000_000 + trial, point);
        }
        while running.len() > 3 || !running.is_empty() && chance.below(2) == 0 {
            let (done, value) = running.swap_remove(chance.below(running.len() as u64) as usize);
            search.report(done, 1.0, if chance.below(5) == 0 { f64::NAN } else { value });
            search.tell(done, outcome(chance.bits(), value));
            search.tell(done, Outcome::Value(7.0));
        }
        search.tell(9_999_999, Outcome::Value(1.0));
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn search_1_2_3_points_lie_in_their_space_and_follow_from_the_seed(space in spaces(), seed in 0..1000_u64) {
        for kind in KINDS {
            let answers = story(kind, &space, seed, 26, &[]);
            prop_assert_eq!(&answers, &story(kind, &space, seed, 26, &[]), "SEARCH-2: {}", kind);
        }
    }

    #[test]
    fn search_4_what_is_retraced_changes_nothing_about_what_comes(
        space in spaces(), seed in 0..1000_u64, known in 1..26_usize
    ) {
        for kind in KINDS {
            let answers = story(kind, &space, seed, 26, &[]);
            let retraced = story(kind, &space, seed, 26, &answers[..known]);
            prop_assert_eq!(&answers, &retraced, "SEARCH-4: {}, {} known", kind, known);
        }
    }

    #[test]
    fn coordinates_and_values_are_two_ways_to_say_the_same(space in spaces(), seed in 0..1000_u64) {
        let mut rng = Rng::seeded(seed);
        let point = space.sample(&mut rng);
        prop_assert!(space.contains(&point));
        let coordinates = space.encode(&point);
        let back = space.build(|at, _| coordinates[at]);
        for (old, new) in point.iter().zip(&back) {
            let (old, new) = (number(*old), number(*new));
            prop_assert!((old - new).abs() <= 1e-6 * (1.0 + old.abs()), "{old} {new}");
        }
    }

    #[test]
    fn any_coordinate_becomes_a_value(domain in domains(), x in proptest::num::f64::ANY) {
        prop_assert!(domain.contains(domain.decode(x)), "{domain:?} {x}");
    }
}

#[test]
fn points_that_others_chose_are_learned_from() {
    let space = floats(2, -5.0, 5.0);
    let bowl = |point: &Point| (number(point[0]) - 3.0).powi(2) + (number(point[1]) + 2.0).powi(2);
    for kind in ["tpe", "gp", "cma"] {
        let mut search = make(kind, space.clone(), 1);
        let mut rng = Rng::seeded(8);
        let mut by_chance = 0.0;
        for trial in 0..40 {
            let point = space.sample(&mut rng);
            by_chance += bowl(&point) / 40.0;
            search.adopt(trial, point.clone());
            search.tell(trial, Outcome::Value(bowl(&point)));
        }
        let asked: f64 = (40..50).map(|trial| bowl(&search.ask(trial).unwrap()) / 10.0).sum();
        assert!(asked < 0.6 * by_chance, "{kind}: {asked} against {by_chance}");
    }
}

#[test]
fn a_kernel_that_came_a_long_way_is_taken_up_as_it_was() {
    // Beyond 76 trials it is fitted ever more rarely, each time from the one before.
    let space = floats(3, -5.0, 5.0);
    let bowl = |point: &Point| point.iter().map(|x| (number(*x) - 1.3).powi(2)).sum::<f64>();
    let run = |known: &[Answer]| -> Vec<Answer> {
        let mut search = Gp::new(space.clone(), 5, GpOptions::default());
        let step = |trial: u64| {
            let point = if let Some((point, residue)) = known.get(trial as usize) {
                search.retrace(trial, point.clone(), residue);
                point.clone()
            } else {
                search.ask(trial).unwrap()
            };
            search.tell(trial, Outcome::Value(bowl(&point)));
            (point, search.residue())
        };
        (0..110).map(step).collect()
    };
    let answers = run(&[]);
    assert_eq!(answers, run(&answers[..100]));
    let without = answers[..100].iter().map(|(point, _)| (point.clone(), Vec::new())).collect::<Vec<_>>();
    assert_ne!(answers[100..], run(&without)[100..], "the residue says nothing");
}

#[test]
fn those_that_learn_beat_chance() {
    let space = floats(4, -5.0, 5.0);
    let bowl = |point: &Point| point.iter().map(|x| (number(*x) - 1.3).powi(2)).sum::<f64>();
    let median = |kind: &str| {
        let mut bests: Vec<f64> = (0..5).map(|seed| best_of(kind, &space, seed, 60, bowl)).collect();
        bests.sort_by(f64::total_cmp);
        bests[2]
    };
    let chance = median("random");
    for kind in ["tpe", "tpe-univariate", "cma"] {
        assert!(median(kind) < 0.6 * chance, "{kind}: {} against {chance}", median(kind));
    }
    let mut bests: Vec<f64> = (0..3)
        .map(|seed| {
            let mut search = Gp::new(space.clone(), seed, GpOptions::default());
            (0..40).fold(f64::INFINITY, |best, trial| {
                let value = bowl(&search.ask(trial).unwrap());
                search.tell(trial, Outcome::Value(value));
                best.min(value)
            })
        })
        .collect();
    bests.sort_by(f64::total_cmp);
    assert!(bests[1] < 0.01 * chance, "gp: {bests:?} against {chance}");
}

#[test]
fn choices_are_learned_too() {
    let space = Space::new(vec![
        param("kind", Domain::Choice { count: 5 }),
        param("x", Domain::Float { low: -3.0, high: 3.0, log: false, step: None }),
    ])
    .unwrap();
    for kind in ["tpe", "cma", "gp"] {
        let mut search = make(kind, space.clone(), 3);
        let (mut hits, mut best) = (0, f64::INFINITY);
        for trial in 0..80 {
            let point = search.ask(trial).unwrap();
            let is_hit = point[0] == Some(Value::Choice(3));
            hits += usize::from(is_hit && trial >= 40);
            let value = number(point[1]).powi(2) + if is_hit { 0.0 } else { 5.0 };
            best = f64::min(best, value);
            search.tell(trial, Outcome::Value(value));
        }
        // Who has found the bottom exactly may look elsewhere.
        assert!(hits > 20 || best < 1e-6, "{kind}: {hits} of 40, best {best}");
        assert!(best < 0.1, "{kind}: {best}");
    }
}

#[test]
fn trials_under_way_keep_others_away() {
    let space = floats(1, 0.0, 1.0);
    let mut search = Gp::new(space, 1, GpOptions::default());
    for trial in 0..12 {
        let x = number(search.ask(trial).unwrap()[0]);
        search.tell(trial, Outcome::Value((x - 0.4).powi(2)));
    }
    let asked: Vec<f64> = (12..16).map(|trial| number(search.ask(trial).unwrap()[0])).collect();
    for (at, x) in asked.iter().enumerate() {
        assert!(asked[..at].iter().all(|other| (x - other).abs() > 1e-6), "{asked:?}");
    }
}

#[test]
fn what_contradicts_itself_is_no_space() {
    let float = |low, high, log| param("lr", Domain::Float { low, high, log, step: None });
    let error = |param: Param| Space::new(vec![param]).unwrap_err().to_string();
    assert_eq!(error(float(2.0, 1.0, false)), "parameter lr: lower bound 2 and upper bound 1 contradict each other");
    assert_eq!(error(float(0.0, 1.0, true)), "parameter lr: a logarithmic scale needs a lower bound above 0, not 0");
    assert_eq!(error(param("k", Domain::Choice { count: 0 })), "parameter k: there is nothing to choose from");
    let mut late = param("x", Domain::Choice { count: 2 });
    late.when = vec![Condition { param: 0, values: vec![1] }];
    assert_eq!(error(late), "parameter x: its condition is not on a choice that comes before it");
}
