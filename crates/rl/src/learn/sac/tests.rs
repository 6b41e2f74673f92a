//! Gradients against differences, targets, the temperature, threads, and what is saved.

use super::{Room, Rows, Sac, SacSettings, actor_gradient, critic_gradient};
use crate::chance::Chance;
use crate::dist::SdeSpec;
use crate::nn::{Activation, ImageSpec, Start};
use crate::replay::Replay;
use crate::rollout::Rollout;
use crate::soft::{Actor, Critics, SoftSpec};

fn spec(is_twin: bool) -> SoftSpec {
    SoftSpec {
        observed: 3,
        low: vec![-2.0, 0.0],
        high: vec![2.0, 1.0],
        hiddens: vec![5, 4],
        critic_hiddens: vec![6],
        activation: Activation::Tanh,
        is_twin,
        image: None,
        sde: None,
        start: Start::Uniform,
    }
}

fn rows(chance: &mut Chance, observed: usize, count: usize) -> Rows<f64> {
    let mut normal = |count: usize, by: f64| -> Vec<f64> { (0..count).map(|_| by * chance.normal()).collect() };
    Rows {
        observed: normal(count * observed, 1.0),
        following: normal(count * observed, 1.0),
        units: normal(count * 2, 1.0).into_iter().map(f64::tanh).collect(),
        rewards: normal(count, 2.0),
        discounts: (0..count).map(|at| if at % 4 == 0 { 0.0 } else { 0.9 }).collect(),
        weights: normal(count, 1.0).into_iter().map(f64::abs).collect(),
        mean: 1.0 / count as f64,
        noise: [normal(count * 2, 1.0), normal(count * 2, 1.0)],
    }
}

/// Holds gradients to what the loss changes by.
fn compare(parameters: &mut [f64], gradients: &[f64], mut loss: impl FnMut(&[f64]) -> f64) {
    for at in 0..parameters.len() {
        let before = parameters[at];
        let mut moved = |by: f64| {
            parameters[at] = before + by;
            loss(parameters)
        };
        let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
        parameters[at] = before;
        let found = gradients[at];
        assert!((found - difference).abs() < 1e-6 * (1.0 + difference.abs()), "{at}: {found} {difference}");
    }
    assert!(gradients.iter().any(|gradient| gradient.abs() > 1e-3));
}

#[test]
fn gradients_are_those_of_differences() {
    let of_state = Some(SdeSpec { every: None, log_std: -0.5 });
    let picture = ImageSpec::new([4, 3, 2], vec![[3, 2, 1]], false).ok();
    for (is_twin, sde, hiddens, image) in [
        (false, None, vec![5, 4], None),
        (true, None, vec![5, 4], None),
        (true, of_state, vec![5, 4], None),
        (true, of_state, vec![], None),
        (false, None, vec![], picture.clone()),
        (true, None, vec![4], picture.clone()),
        (true, of_state, vec![], picture),
    ] {
        let observed = image.as_ref().map_or(3, |_| 4 * 3 * 2);
        let spec = SoftSpec { observed, sde, hiddens, image, ..spec(is_twin) };
        let (actor, critics) = (Actor::new(&spec), Critics::new(&spec));
        let mut chance = Chance::seeded(5);
        let (mut chooses, mut values): (Vec<f64>, Vec<f64>) = (actor.init(&mut chance), critics.init(&mut chance));
        for value in chooses.iter_mut().chain(&mut values) {
            *value += 0.3 * chance.normal();
        }
        let older: Vec<f64> = values.iter().map(|value| value + 0.1).collect();
        let (rows, mut room) = (rows(&mut chance, observed, 20), Room::default());
        room.aim(&actor, &critics, (&chooses, &older), &rows, 0.3);

        let mut gradients = vec![0.0; values.len()];
        critic_gradient(&critics, &values, &rows, &mut room, &mut gradients);
        compare(&mut values, &gradients, |values| {
            critic_gradient(&critics, values, &rows, &mut room, &mut vec![0.0; values.len()]).critic_loss
        });

        let networks = (&actor, &critics);
        let mut gradients = vec![0.0; chooses.len()];
        actor_gradient(networks, (&chooses, &values), &rows, 0.3, &mut room, &mut gradients);
        compare(&mut chooses, &gradients, |chooses| {
            let mut ignored = vec![0.0; chooses.len()];
            actor_gradient(networks, (chooses, &values), &rows, 0.3, &mut room, &mut ignored).0
        });
    }
}

#[test]
fn targets_are_the_lower_word_less_what_being_decided_costs() {
    let spec = SoftSpec { observed: 1, low: vec![-1.0], high: vec![1.0], hiddens: vec![], ..spec(true) };
    let spec = SoftSpec { critic_hiddens: vec![], ..spec };
    let (actor, critics) = (Actor::new(&spec), Critics::new(&spec));
    // Weights and biases: a mean of 0 and a deviation of 1; critics that say 7 and 5.
    let (chooses, older) = ([0.0_f64; 4], [0.0, 0.0, 7.0, 0.0, 0.0, 5.0]);
    let rows = Rows {
        observed: vec![0.0; 2],
        following: vec![0.0; 2],
        units: vec![0.0; 2],
        rewards: vec![1.0, 2.0],
        discounts: vec![0.5, 0.0],
        weights: vec![1.0; 2],
        mean: 0.5,
        noise: [vec![0.0; 2], vec![0.0; 2]],
    };
    let mut room = Room::<f64>::default();
    room.aim(&actor, &critics, (&chooses, &older), &rows, 0.25);
    let logp = -0.918_938_533_204_672_7_f64;
    assert!((room.targets[0] - (1.0 + 0.5 * (5.0 - 0.25 * logp))).abs() < 1e-12);
    assert_eq!(room.targets[1], 2.0, "nothing follows an end");
}

fn settings() -> SacSettings {
    SacSettings {
        actor_rate: 1e-3,
        critic_rate: 1e-3,
        temperature_rate: 1e-2,
        batch: 16,
        tau: 0.005,
        temperature: None,
        target_entropy: None,
        gradient_max: None,
        alpha: 0.0,
        beta: 0.0,
        threads: 1,
    }
}

fn replay() -> Replay {
    let mut chance = Chance::seeded(9);
    let mut numbers = |count: usize| -> Vec<f32> { (0..count).map(|_| chance.normal() as f32).collect() };
    let rollout = Rollout {
        steps: 20,
        envs: 1,
        observed: numbers(60),
        actions: numbers(40),
        rewards: numbers(20),
        terminated: vec![false; 20],
        truncated: vec![false; 20],
        open: numbers(3),
        ..Rollout::default()
    };
    let mut replay = Replay::new(100, 3, 2, false);
    replay.add(&rollout, 1, 0.9);
    replay
}

#[test]
fn the_temperature_goes_to_where_the_policy_is_as_undecided_as_it_should_be() {
    for (target, is_colder) in [(-30.0, true), (30.0, false)] {
        let mut sac = Sac::new(&spec(true), 0.5, 1e-8, 1);
        let settings = SacSettings { target_entropy: Some(target), ..settings() };
        let mut replay = replay();
        let begun = sac.update(&mut replay, &settings).temperature;
        let ended = (0..20).map(|_| sac.update(&mut replay, &settings).temperature).last().unwrap();
        assert!((begun - 0.5).abs() < 1e-6);
        assert_eq!(ended < begun, is_colder, "{begun} {ended}");
    }
    let mut sac = Sac::new(&spec(true), 0.5, 1e-8, 1);
    let settings = SacSettings { temperature: Some(0.2), ..settings() };
    let mut replay = replay();
    assert!((0..5).all(|_| sac.update(&mut replay, &settings).temperature == f64::from(0.2_f32)));
}

/// With noise that is the same for all rows threads change nothing but the order of sums.
#[test]
fn threads_share_the_rows_of_a_step() {
    let settings = |threads| SacSettings { batch: 100, threads, ..settings() };
    let updated = |threads: usize| {
        let mut sac = Sac::new(&spec(true), 0.5, 1e-8, 1);
        let stats = sac.update(&mut replay(), &settings(threads));
        (stats, sac)
    };
    let ((one, _), (three, sac)) = (updated(1), updated(3));
    assert_eq!(sac.shares.iter().map(|share| share.rows.count()).collect::<Vec<_>>(), [33, 33, 34]);
    // The same rows are drawn, so that what they were thought to be worth is the same.
    assert!((one.mean_q - three.mean_q).abs() < 1e-5 && (one.max_q - three.max_q).abs() < 1e-5);
    assert_eq!(updated(3).1.parameters(), sac.parameters(), "the same again");
    // Together they are one gradient: the shares' own computed in one go.
    let (mut whole, mut parts) = (Rows::<f32>::default(), Rows::<f32>::default());
    let (actor, critics) = (Actor::new(&spec(true)), Critics::new(&spec(true)));
    let mut chance = Chance::seeded(3);
    let (chooses, values): (Vec<f32>, Vec<f32>) = (actor.init(&mut chance), critics.init(&mut chance));
    whole.gather(&replay(), &sac.drawn, 0..100, &actor, &mut Chance::seeded(4));
    whole.noise.iter_mut().for_each(|noise| noise.fill(0.5));
    let (mut room, mut expected) = (Room::default(), vec![0.0; values.len()]);
    room.aim(&actor, &critics, (&chooses, &values), &whole, 0.3);
    critic_gradient(&critics, &values, &whole, &mut room, &mut expected);
    let (mut found, mut one) = (vec![0.0; values.len()], vec![0.0; values.len()]);
    for part in [0..33, 33..100] {
        parts.gather(&replay(), &sac.drawn, part, &actor, &mut Chance::seeded(4));
        parts.noise.iter_mut().for_each(|noise| noise.fill(0.5));
        room.aim(&actor, &critics, (&chooses, &values), &parts, 0.3);
        critic_gradient(&critics, &values, &parts, &mut room, &mut one);
        found.iter_mut().zip(&one).for_each(|(sum, part)| *sum += part);
    }
    assert!(found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-4));
}

#[test]
fn what_was_saved_goes_on_bit_for_bit_and_only_where_it_fits() {
    let (mut replay, mut other_replay) = (replay(), replay());
    let mut sac = Sac::new(&spec(true), 1.0, 1e-8, 1);
    (0..3).for_each(|_| _ = sac.update(&mut replay, &settings()));
    let saved = sac.save();
    let mut other = Sac::new(&spec(true), 0.1, 1e-8, 2);
    other.parameters_mut().copy_from_slice(sac.parameters());
    assert!(other.restore(&saved));
    for _ in 0..3 {
        assert_eq!(sac.update(&mut replay, &settings()), other.update(&mut other_replay, &settings()));
    }
    assert_eq!(sac.parameters(), other.parameters());
    let mut unlike = Sac::new(&spec(false), 1.0, 1e-8, 1);
    let before = unlike.save();
    assert!(!unlike.restore(&saved) && !unlike.restore(&saved[..20]));
    assert_eq!(unlike.save(), before);
}
