//! PPO's loss behind a memory and its gradients back through time, against torch's; see `learn/fixtures.rs` for the bound.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Batch, Clipped, Room, gradient};
use crate::learn::fixtures::{Named, close, flat, settings};
use crate::recurrent::{RecurrentNet, RecurrentSpec};

#[derive(Deserialize)]
struct Case {
    spec: RecurrentSpec,
    settings: BTreeMap<String, f32>,
    parameters: Named,
    states: Vec<f64>,
    begins: Vec<bool>,
    columns: Named,
    parts: BTreeMap<String, f64>,
    gradients: Named,
}

#[test]
fn the_loss_behind_a_memory_and_its_gradients_are_torch_s() {
    let text = include_str!("../../../tests/fixtures/torch_memory.json");
    let case: Case = serde_json::from_str(text).expect("as it was written");
    assert!(case.begins.contains(&true), "an episode begins within a sequence");
    let column = |name: &str| case.columns[name].clone();
    let batch = Batch {
        states: case.states.clone(),
        begins: case.begins.clone(),
        observed: column("observed"),
        actions: column("actions").into_iter().map(|number| number as f32).collect(),
        inputs: column("inputs"),
        logp: column("logp"),
        advantages: column("advantages"),
        targets: column("targets"),
    };
    let net = RecurrentNet::new(case.spec);
    let (parameters, settings) = (flat(net.layout(), &case.parameters), settings(&case.settings));
    let loss = Clipped { settings: &settings, kl_weight: case.settings["kl_weight"] };
    let mut gradients = vec![0.0; parameters.len()];
    let stats = gradient(&net, &parameters, &batch, &loss, &mut Room::default(), &mut gradients);
    let found = [stats.loss, stats.policy_loss, stats.value_loss, stats.entropy, stats.kl];
    close("parts", &found, &["total", "choice", "value", "entropy", "kl"].map(|name| case.parts[name]));
    close("gradients", &gradients, &flat(net.layout(), &case.gradients));
    assert!(gradients.iter().any(|gradient| gradient.abs() > 1e-3), "there is something to compare");
}
