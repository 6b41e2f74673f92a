//! Gradients against differences, and samples against probabilities.

use proptest::prelude::*;

use super::{Dist, Terms};
use crate::chance::Chance;

fn dists() -> impl Strategy<Value = (Dist, Vec<f64>, Vec<f64>, Vec<f32>)> {
    let categorical = prop::collection::vec(2..5_usize, 1..4).prop_map(Dist::Categorical);
    let gaussian = (1..4_usize).prop_map(Dist::Gaussian);
    let mixed = (prop::collection::vec(2..5_usize, 1..3), 1..3_usize)
        .prop_map(|(counts, numbers)| Dist::Mixed { counts, numbers });
    prop_oneof![categorical, gaussian, mixed].prop_flat_map(|dist| {
        let row = prop::collection::vec(-2.0..2.0_f64, dist.inputs());
        let counts = match &dist {
            Dist::Categorical(counts) | Dist::Mixed { counts, .. } => &counts[..],
            Dist::Gaussian(_) => &[],
        };
        let choices = counts.iter().map(|count| (0..*count).prop_map(|at| at as f32).boxed());
        let numbers = (0..dist.deviations()).map(|_| (-2.0..2.0_f32).boxed());
        let actions: Vec<BoxedStrategy<f32>> = choices.chain(numbers).collect();
        (Just(dist), row.clone(), row, actions)
    })
}

proptest! {
    #[test]
    fn gradients_are_those_of_differences(
        (dist, inputs, older, action) in dists(),
        by in (-1.0..1.0_f64, -1.0..1.0_f64, -1.0..1.0_f64),
    ) {
        let by = Terms { logp: by.0, entropy: by.1, kl: by.2 };
        let loss = |inputs: &[f64]| {
            let terms = dist.terms(inputs, &action, &older);
            by.logp * terms.logp + by.entropy * terms.entropy + by.kl * terms.kl
        };
        let mut gradient = vec![0.0; inputs.len()];
        dist.gradient(&inputs, &action, &older, by, &mut gradient);
        for (index, gradient) in gradient.into_iter().enumerate() {
            let moved = |by: f64| {
                let mut moved = inputs.clone();
                moved[index] += by;
                loss(&moved)
            };
            let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            prop_assert!((gradient - difference).abs() < 1e-6 * (1.0 + difference.abs()), "{gradient} {difference}");
        }
    }

    #[test]
    fn a_row_is_not_apart_from_itself((dist, inputs, older, action) in dists()) {
        prop_assert!(dist.terms(&inputs, &action, &inputs).kl.abs() < 1e-12);
        prop_assert!(dist.terms(&inputs, &action, &older).kl > -1e-12);
    }

    #[test]
    fn the_best_action_is_the_likeliest((dist, inputs, _, action) in dists()) {
        let inputs: Vec<f32> = inputs.into_iter().map(|value| value as f32).collect();
        let mut best = vec![0.0; dist.actions()];
        let logp = dist.best(&inputs, &mut best);
        prop_assert!(logp >= dist.terms(&inputs, &action, &inputs).logp - 1e-6);
    }
}

#[test]
fn samples_come_as_often_as_they_should() {
    let dist = Dist::Categorical(vec![3, 2]);
    let inputs = [0.5_f32, -1.0, 1.5, 0.0, 0.3];
    let mut chance = Chance::seeded(1);
    let mut seen = [[0.0_f64; 2]; 3];
    const DRAWS: usize = 200_000;
    for _ in 0..DRAWS {
        let mut action = [0.0; 2];
        let logp = dist.sample(&inputs, &mut chance, &mut action);
        assert!((logp - dist.terms(&inputs, &action, &inputs).logp).abs() < 1e-5);
        seen[action[0] as usize][action[1] as usize] += 1.0 / DRAWS as f64;
    }
    for (first, row) in seen.iter().enumerate() {
        for (second, share) in row.iter().enumerate() {
            let p = f64::from(dist.terms(&inputs, &[first as f32, second as f32], &inputs).logp.exp());
            assert!((share - p).abs() < 5.0 * (p * (1.0 - p) / DRAWS as f64).sqrt(), "{share} {p}");
        }
    }
}

#[test]
fn numbers_are_drawn_with_their_mean_and_deviation() {
    let dist = Dist::Gaussian(2);
    let inputs = [1.0_f32, -3.0, 0.5, -1.0];
    let mut chance = Chance::seeded(2);
    const DRAWS: usize = 100_000;
    let drawn: Vec<[f32; 2]> = (0..DRAWS)
        .map(|_| {
            let mut action = [0.0; 2];
            let logp = dist.sample(&inputs, &mut chance, &mut action);
            assert!((logp - dist.terms(&inputs, &action, &inputs).logp).abs() < 1e-4);
            action
        })
        .collect();
    for index in 0..2 {
        let mean = drawn.iter().map(|row| f64::from(row[index])).sum::<f64>() / DRAWS as f64;
        let variance = drawn.iter().map(|row| (f64::from(row[index]) - mean).powi(2)).sum::<f64>() / DRAWS as f64;
        let deviation = f64::from(inputs[2 + index]).exp();
        assert!((mean - f64::from(inputs[index])).abs() < 5.0 * deviation / (DRAWS as f64).sqrt());
        assert!((variance.sqrt() / deviation - 1.0).abs() < 0.02);
    }
}

#[test]
fn choices_and_numbers_are_drawn_apart_from_each_other() {
    let (dist, choices, numbers) =
        (Dist::Mixed { counts: vec![2], numbers: 1 }, Dist::Categorical(vec![2]), Dist::Gaussian(1));
    let inputs = [0.4_f32, -0.2, 1.5, -0.7];
    let mut chance = Chance::seeded(3);
    const DRAWS: usize = 100_000;
    let mut of_choice = [(0.0_f64, 0.0_f64); 2];
    for _ in 0..DRAWS {
        let mut action = [0.0; 2];
        let logp = dist.sample(&inputs, &mut chance, &mut action);
        let apart = choices.terms(&inputs[..2], &action[..1], &inputs[..2]).logp
            + numbers.terms(&inputs[2..], &action[1..], &inputs[2..]).logp;
        assert!((logp - apart).abs() < 1e-4);
        let (count, sum) = &mut of_choice[action[0] as usize];
        *count += 1.0;
        *sum += f64::from(action[1]);
    }
    let p = f64::from(choices.terms(&inputs[..2], &[0.0], &inputs[..2]).logp.exp());
    assert!((of_choice[0].0 / DRAWS as f64 - p).abs() < 5.0 * (p * (1.0 - p) / DRAWS as f64).sqrt());
    for (count, sum) in of_choice {
        assert!((sum / count - 1.5).abs() < 5.0 * (-0.7_f64).exp() / count.sqrt(), "whatever was chosen");
    }
}
