//! Advantages and optimisers against torch's. `scripts/torch_fixtures.py` writes the files.
//!
//! These run in single precision here and in double there: what is left is the rounding of some ten operations in f32.

use std::collections::BTreeMap;

use rl::advantage::{Anew, VTrace, generalised, v_trace};
use rl::nn::{Adam, RmsProp};
use rl::rollout::Rollout;
use serde::Deserialize;

const NEAR: f64 = 5e-6;

fn close(what: &str, found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let apart = (f64::from(*found) - expected).abs();
        assert!(apart < NEAR * (1.0 + expected.abs()), "{what}, {at}: {found}, torch {expected}");
    }
}

fn narrow(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|number| *number as f32).collect()
}

type Named = BTreeMap<String, Vec<f64>>;

#[derive(Deserialize)]
struct Traces {
    steps: usize,
    envs: usize,
    gamma: f32,
    lambda: f32,
    rho_max: f32,
    rho_max_choice: f32,
    columns: Named,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    gae: Named,
    v_trace: Named,
}

#[test]
fn advantages_and_targets_are_the_sums_that_torch_adds_up() {
    let traces: Traces = serde_json::from_str(include_str!("fixtures/torch_advantages.json")).expect("as written");
    let [rewards, values, following, ratios] =
        ["rewards", "values", "following", "ratios"].map(|name| narrow(&traces.columns[name]));
    assert!(traces.terminated.contains(&true) && traces.truncated.contains(&true));
    let rollout = Rollout {
        steps: traces.steps,
        envs: traces.envs,
        rewards,
        values,
        following,
        terminated: traces.terminated,
        truncated: traces.truncated,
        ..Rollout::default()
    };
    let found = generalised(&rollout, traces.gamma, traces.lambda);
    close("GAE", &found.advantages, &traces.gae["advantages"]);
    close("GAE", &found.targets, &traces.gae["targets"]);
    let settings = VTrace {
        gamma: traces.gamma,
        lambda: 1.0,
        rho_max: traces.rho_max,
        rho_max_choice: traces.rho_max_choice,
        c_max: 1.0,
    };
    let anew = Anew { ratios: &ratios, values: &rollout.values, following: &rollout.following };
    let found = v_trace(&rollout, anew, &settings);
    close("V-trace", &found.advantages, &traces.v_trace["advantages"]);
    close("V-trace", &found.targets, &traces.v_trace["targets"]);
}

#[derive(Deserialize)]
struct Steps {
    name: String,
    settings: BTreeMap<String, f32>,
    rate: f32,
    begin: Vec<f64>,
    gradients: Vec<Vec<f64>>,
    after: Vec<Vec<f64>>,
}

#[test]
fn optimisers_step_as_torch_s_do() {
    let cases: Vec<Steps> = serde_json::from_str(include_str!("fixtures/torch_optimisers.json")).expect("as written");
    assert_eq!(cases.len(), 3);
    for case in cases {
        let mut parameters = narrow(&case.begin);
        let len = parameters.len();
        let said = |name: &str| case.settings.get(name).copied().unwrap_or_default();
        let mut adam = Adam::new(len, said("eps"));
        let mut rms_prop = RmsProp::new(len, said("alpha"), said("momentum"), said("eps"), false);
        for (gradients, after) in case.gradients.iter().zip(&case.after) {
            let gradients = narrow(gradients);
            if case.name == "adam" {
                adam.step(&mut parameters, &gradients, case.rate);
            } else {
                rms_prop.step(&mut parameters, &gradients, case.rate);
            }
            close(&case.name, &parameters, after);
        }
    }
}
