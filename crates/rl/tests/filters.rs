//! What a runner with a filter keeps is what the filter makes of what one without it keeps.

use rl::env::{Stepped, make};
use rl::filter::{Filter, FilterSpec};
use rl::nn::{Activation, Start};
use rl::policy::Choice;
use rl::rollout::{Rollout, Runner};
use rl::soft::{Actor, SoftPolicy, SoftSpec};

const ENVS: usize = 3;
const STEPS: usize = 450;

fn filter_spec() -> FilterSpec {
    FilterSpec { observes: true, rewards: true, observed_max: 2.0, reward_max: 10.0, gamma: 0.9 }
}

fn runner(seed: u64) -> Runner {
    let spec = SoftSpec {
        observed: 3,
        low: vec![-2.0],
        high: vec![2.0],
        hiddens: vec![4],
        critic_hiddens: vec![4],
        activation: Activation::Relu,
        is_twin: true,
        image: None,
        sde: None,
        start: Start::Uniform,
    };
    Runner::new(Box::new(SoftPolicy::new(Actor::new(&spec))), ENVS, seed)
}

/// All actions are drawn blindly, so that both do the same.
fn run(runner: &mut Runner, halves: bool) -> Vec<Rollout> {
    let mut vector = make("Pendulum-v1", ENVS, &Default::default()).expect("it is known");
    let mut observed = vec![0.0; 3 * ENVS];
    vector.reset(Some(3), &mut observed);
    runner.see(&observed);
    let parts = if halves { 2 } else { 1 };
    let mut one = |_| {
        runner.run(&mut *vector, STEPS / parts, Choice::Astray(1.0), &mut Stepped::default());
        runner.take()
    };
    (0..parts).map(&mut one).collect()
}

#[test]
fn rollouts_hold_what_the_filter_makes_of_them() {
    let (mut plain, mut filtered) = (runner(1), runner(1));
    filtered.set_filter(Some(filter_spec()));
    let (plain, found) = (run(&mut plain, false).remove(0), run(&mut filtered, false).remove(0));
    assert_eq!(plain.actions, found.actions);
    assert_eq!((&plain.cut, plain.cut.len()), (&found.cut, 2 * ENVS), "episodes of 200 steps");

    let mut filter = Filter::new(filter_spec(), 3, ENVS);
    let (mut cut, mut last) = (0, Vec::new());
    for step in 0..STEPS {
        let rows = step * ENVS..(step + 1) * ENVS;
        let mut observed = plain.observed[3 * rows.start..3 * rows.end].to_vec();
        filter.observe(&mut observed);
        assert_eq!(observed, found.observed[3 * rows.start..3 * rows.end]);
        while plain.cut.get(cut).is_some_and(|row| rows.contains(&(*row as usize))) {
            let mut row = plain.last[3 * cut..3 * (cut + 1)].to_vec();
            filter.scale(&mut row);
            last.extend(row);
            cut += 1;
        }
        let mut rewards = plain.rewards[rows.clone()].to_vec();
        filter.reward(&mut rewards, plain.truncated[rows.clone()].iter().copied());
        assert_eq!(rewards, found.rewards[rows]);
    }
    assert_eq!(last, found.last);
    let mut open = plain.open.clone();
    filter.observe(&mut open);
    assert_eq!(open, found.open);
    assert!(found.observed.iter().all(|value| value.abs() <= 2.0));
}

#[test]
fn a_runner_s_filter_is_saved_with_it() {
    let mut first = runner(1);
    first.set_filter(Some(filter_spec()));
    run(&mut first, true);
    let mut second = runner(2);
    assert!(second.restore(&first.save()));
    let moments = first.filter_mut().expect("it was set").moments();
    assert_eq!(second.filter_mut().expect("it was saved").moments(), moments);
    assert_eq!(moments.observed.count, ((STEPS + 1) * ENVS) as f64);
}

#[test]
fn episodes_are_told_with_their_own_rewards() {
    let (mut plain, mut filtered) = (runner(1), runner(1));
    filtered.set_filter(Some(filter_spec()));
    run(&mut plain, false);
    run(&mut filtered, false);
    let episodes = plain.take_episodes();
    assert_eq!(episodes.len(), 2 * ENVS);
    assert_eq!(filtered.take_episodes(), episodes);
}

#[test]
fn what_is_acted_on_again_counts_once() {
    let mut runner = runner(1);
    runner.set_filter(Some(filter_spec()));
    let mut counted = |look: bool, observed: &[f32]| {
        if look {
            runner.look(observed);
        } else {
            runner.see(observed);
        }
        runner.filter_mut().expect("it has one").moments()
    };
    let first = counted(false, &[0.5; 3 * ENVS]);
    assert_eq!(counted(true, &[0.5; 3 * ENVS]), first);
    let second = counted(true, &[0.75; 3 * ENVS]);
    assert_ne!(second, first);
    assert_ne!(counted(false, &[0.75; 3 * ENVS]), second, "seen anew");
}
