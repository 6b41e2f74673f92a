//! Gradients of losses against differences, in double precision.

use super::descent::Columns;
use super::loss::{Loss, Room, Side, gradient};
use crate::chance::Chance;
use crate::model::{Model, ModelSpec};
use crate::nn::Activation;
use crate::space::Acted;

const ROWS: usize = 24;

fn columns(model: &Model, chance: &mut Chance) -> Columns<f64> {
    let mut normal = |count: usize, by: f64| -> Vec<f64> { (0..count).map(|_| by * chance.normal()).collect() };
    let mut inputs: Vec<f64> = normal(ROWS * model.dist().inputs(), 0.3);
    let (observed, targets) = (normal(ROWS * model.spec().observed, 1.0), normal(ROWS, 1.5));
    let (advantages, logp) = (normal(ROWS, 1.0), normal(ROWS, 0.2));
    let (numbers, width) = (model.dist().deviations(), model.dist().actions());
    let mut actions: Vec<f32> = (0..ROWS * width).map(|at| (at % 2) as f32).collect();
    for row in actions.chunks_exact_mut(width) {
        row[width - numbers..].iter_mut().zip(normal(numbers, 1.0)).for_each(|(action, drawn)| *action = drawn as f32);
    }
    model.dist().normalise(&mut inputs);
    let mut columns = Columns { observed, actions, inputs, logp, advantages, targets };
    // Near the older policy, so that some ratios are bounded and some are not.
    for row in 0..ROWS {
        let width = model.dist().inputs();
        let acted = model.dist().actions();
        let older = &columns.inputs[row * width..(row + 1) * width];
        let action = &columns.actions[row * acted..(row + 1) * acted];
        columns.logp[row] += model.dist().terms(older, action, older).logp;
    }
    columns
}

/// Whether the gradient of a loss is what differences say, for all kinds of networks and actions.
pub(super) fn hold(loss: &impl Loss) {
    let spaces = [
        Acted::Discrete(3),
        Acted::MultiDiscrete(vec![2, 3]),
        Acted::Box { low: vec![-1.0; 2], high: vec![1.0; 2] },
        Acted::Mixed { counts: vec![2, 3], low: vec![-1.0; 2], high: vec![1.0; 2] },
    ];
    for (index, acted) in spaces.into_iter().enumerate() {
        for (is_shared, free_log_std, activation) in [
            (false, false, Activation::Tanh),
            (true, false, Activation::Tanh),
            (false, true, Activation::Relu),
            (true, true, Activation::Relu),
        ] {
            let spec = ModelSpec {
                observed: 3,
                acted: acted.clone(),
                hiddens: vec![5, 4],
                activation,
                is_shared,
                free_log_std,
                ..ModelSpec::default()
            };
            let model = Model::new(spec);
            let mut chance = Chance::seeded(index as u64);
            let mut parameters: Vec<f64> = model.init(&mut chance);
            parameters.iter_mut().for_each(|value| *value += 0.2 * chance.normal());
            let columns = columns(&model, &mut chance);
            let mut room = Room::default();
            let weight = 1.0 / ROWS as f64;
            let mut lost = |parameters: &[f64]| {
                let mut ignored = vec![0.0; parameters.len()];
                gradient((&model, Side::Both), parameters, &columns, (loss, weight), &mut room, &mut ignored).loss
                    * weight
            };
            let mut gradients = vec![0.0; parameters.len()];
            gradient((&model, Side::Both), &parameters, &columns, (loss, weight), &mut Room::default(), &mut gradients);
            for at in 0..parameters.len() {
                let before = parameters[at];
                parameters[at] = before + 1e-6;
                let more = lost(&parameters);
                parameters[at] = before - 1e-6;
                let less = lost(&parameters);
                parameters[at] = before;
                let difference = (more - less) / 2e-6;
                let found = gradients[at];
                assert!((found - difference).abs() < 1e-6 * (1.0 + difference.abs()), "{at}: {found} {difference}");
            }
        }
    }
}
