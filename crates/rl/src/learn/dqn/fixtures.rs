//! Targets, losses and gradients of Q values against torch's; see `learn/fixtures.rs` for the bound.

use serde::Deserialize;

use super::{Room, Rows};
use crate::learn::fixtures::{Named, close, flat};
use crate::q::{QModel, QSpec, QTape, best};

#[derive(Deserialize)]
struct Case {
    spec: QSpec,
    is_double: bool,
    parameters: Named,
    older: Named,
    columns: Named,
    targets: Vec<f64>,
    loss: f64,
    gradients: Named,
}

#[test]
fn losses_of_q_values_and_their_gradients_are_torch_s() {
    let text = include_str!("../../../tests/fixtures/torch_q_learning.json");
    let cases: Vec<Case> = serde_json::from_str(text).expect("as it was written");
    assert!(cases.iter().any(|case| case.spec.image.is_some()), "pictures too");
    for case in cases {
        let model = QModel::new(case.spec.clone());
        let column = |name: &str| case.columns[name].clone();
        let rows = Rows {
            observed: column("observed"),
            actions: column("actions").into_iter().map(|action| action as usize).collect(),
            rewards: column("rewards"),
            discounts: column("discounts"),
            weights: column("weights"),
        };
        let (parameters, older) = (flat(model.layout(), &case.parameters), flat(model.layout(), &case.older));
        let (mut room, mut gradients) = (Room::default(), vec![0.0; parameters.len()]);
        let (following, mut behind) = (column("following"), QTape::default());
        if case.is_double {
            let worth = model.forward(&parameters, &following, &mut room.tape);
            room.chosen = worth.chunks_exact(case.spec.actions).map(best).collect();
        }
        let valued = model.forward(&older, &following, &mut behind);
        let worth = model.forward(&parameters, &rows.observed, &mut room.tape).to_vec();
        let stats = room.gradient(&model, &parameters, &rows, valued, &mut gradients);
        let chosen = rows.actions.iter().enumerate().map(|(row, action)| worth[row * case.spec.actions + action]);
        let targets: Vec<f64> = chosen.zip(&room.surprises).map(|(worth, error)| worth - f64::from(*error)).collect();
        // Surprises are kept in f32.
        assert!(targets.iter().zip(&case.targets).all(|(found, expected)| (found - expected).abs() < 1e-6));
        close("loss", &[stats.loss], &[case.loss]);
        close("gradients", &gradients, &flat(model.layout(), &case.gradients));
        assert!(gradients.iter().any(|gradient| gradient.abs() > 1e-3), "there is something to compare");
    }
}
