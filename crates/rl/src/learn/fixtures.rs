//! Gradients by hand against torch's, in double precision. `scripts/torch_fixtures.py` writes the files.
//!
//! Both sides compute in f64 what is the same on paper, so they differ by rounding only: some 1e-15 for each of a few hundred operations.
//! A wrong factor, a missing term or a swapped index is off by many orders more than the bound.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::descent::Columns;
use super::loss::{Loss, Plain, Room, Side, gradient};
use super::ppo::{Clipped, PpoSettings};
use crate::model::{Model, ModelSpec};
use crate::nn::Layout;

/// How near gradients and losses come.
pub(super) const NEAR: f64 = 1e-11;

/// Numbers by the names of their tensors or columns.
pub(super) type Named = BTreeMap<String, Vec<f64>>;

/// Tensors as the flat vector of a layout. Each must be there in its size, and no other.
pub(super) fn flat(layout: &Layout, named: &Named) -> Vec<f64> {
    assert_eq!(named.len(), layout.tensors().len(), "the same tensors");
    let mut numbers = vec![0.0; layout.len()];
    for tensor in layout.tensors() {
        let (given, into) = (&named[&tensor.name], &mut numbers[tensor.range()]);
        assert_eq!(given.len(), into.len(), "{}", tensor.name);
        let rows = if tensor.is_turned { tensor.shape[0] } else { 1 };
        let columns = given.len() / rows;
        given.iter().enumerate().for_each(|(at, number)| into[at % columns * rows + at / columns] = *number);
    }
    numbers
}

/// Compares with what torch found.
pub(super) fn close(what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < NEAR * (1.0 + expected.abs()), "{what}, {at}: {found}, torch {expected}");
    }
}

/// PPO's settings, as far as its loss goes by them.
pub(super) fn settings(said: &BTreeMap<String, f32>) -> PpoSettings {
    PpoSettings {
        gamma: 0.99,
        lambda: 0.95,
        rate: 1e-3,
        epochs: 1,
        minibatch: 12,
        clip: said["clip"],
        value_weight: said["value_weight"],
        value_clip: said["value_clip"],
        entropy_weight: said["entropy_weight"],
        uses_kl: true,
        kl_target: 0.01,
        gradient_max: None,
        scales_minibatches: false,
        threads: 1,
    }
}

#[derive(Deserialize)]
struct Case {
    spec: ModelSpec,
    loss: String,
    settings: BTreeMap<String, f32>,
    parameters: Named,
    columns: Named,
    parts: BTreeMap<String, f64>,
    gradients: Named,
}

impl Case {
    fn columns(&self, model: &Model) -> Columns<f64> {
        let column = |name: &str| self.columns[name].clone();
        let mut inputs = column("inputs");
        model.dist().normalise(&mut inputs);
        Columns {
            observed: column("observed"),
            actions: column("actions").into_iter().map(|number| number as f32).collect(),
            inputs,
            logp: column("logp"),
            advantages: column("advantages"),
            targets: column("targets"),
        }
    }

    /// Compares everything that this loss says.
    fn hold(&self, model: &Model, loss: &impl Loss) {
        let (parameters, columns) = (flat(model.layout(), &self.parameters), self.columns(model));
        let mut gradients = vec![0.0; parameters.len()];
        let weight = 1.0 / columns.logp.len() as f64;
        let sums =
            gradient((model, Side::Both), &parameters, &columns, (loss, weight), &mut Room::default(), &mut gradients);
        let found = [sums.loss, sums.policy_loss, sums.value_loss, sums.entropy, sums.kl].map(|sum| sum * weight);
        let expected = ["total", "choice", "value", "entropy", "kl"].map(|name| self.parts[name]);
        close(&self.loss, &found, &expected);
        close(&self.loss, &gradients, &flat(model.layout(), &self.gradients));
        assert!(gradients.iter().any(|gradient| gradient.abs() > 1e-3), "there is something to compare");
    }
}

#[test]
fn losses_of_policies_and_their_gradients_are_torch_s() {
    let text = include_str!("../../tests/fixtures/torch_policy_gradients.json");
    let cases: Vec<Case> = serde_json::from_str(text).expect("as it was written");
    assert_eq!(cases.len(), 8);
    for case in cases {
        let model = Model::new(case.spec.clone());
        if case.loss == "plain" {
            let [value_weight, entropy_weight] = ["value_weight", "entropy_weight"].map(|name| case.settings[name]);
            case.hold(&model, &Plain { value_weight, entropy_weight });
        } else {
            let settings = settings(&case.settings);
            case.hold(&model, &Clipped { settings: &settings, kl_weight: case.settings["kl_weight"] });
        }
    }
}
