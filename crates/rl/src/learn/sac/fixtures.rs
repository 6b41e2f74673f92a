//! Targets, losses and gradients of soft actor-critic against torch's; see `learn/fixtures.rs` for the bound.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Room, Rows, actor_gradient, critic_gradient};
use crate::learn::fixtures::{Named, close, flat};
use crate::nn::{Activation, Start};
use crate::soft::{Actor, Critics, SoftSpec};

#[derive(Deserialize)]
struct Case {
    is_twin: bool,
    temperature: f32,
    target_entropy: f64,
    actor: Named,
    critics: Named,
    older: Named,
    columns: Named,
    targets: Vec<f64>,
    losses: BTreeMap<String, f64>,
    critic_gradients: Named,
    actor_gradients: Named,
    alpha_gradient: f64,
}

#[test]
fn losses_of_soft_actor_critic_and_their_gradients_are_torch_s() {
    let text = include_str!("../../../tests/fixtures/torch_soft.json");
    let cases: Vec<Case> = serde_json::from_str(text).expect("as it was written");
    for case in cases {
        let spec = SoftSpec {
            observed: 3,
            low: vec![-1.0; 2],
            high: vec![1.0; 2],
            hiddens: vec![5],
            critic_hiddens: vec![6],
            activation: Activation::Tanh,
            is_twin: case.is_twin,
            image: None,
            sde: None,
            start: Start::Uniform,
        };
        let (actor, critics) = (Actor::new(&spec), Critics::new(&spec));
        let column = |name: &str| case.columns[name].clone();
        let noise = column("noise");
        let (here, behind) = noise.split_at(noise.len() / 2);
        let rewards = column("rewards");
        let rows = Rows {
            observed: column("observed"),
            following: column("following"),
            units: column("units"),
            mean: 1.0 / rewards.len() as f64,
            rewards,
            discounts: column("discounts"),
            weights: column("weights"),
            noise: [here.to_vec(), behind.to_vec()],
        };
        let chooses = flat(actor.layout(), &case.actor);
        let (values, older) = (flat(critics.layout(), &case.critics), flat(critics.layout(), &case.older));
        let mut room = Room::default();
        room.aim(&actor, &critics, (&chooses, &older), &rows, case.temperature);
        close("targets", &room.targets, &case.targets);

        let mut gradients = vec![0.0; values.len()];
        let stats = critic_gradient(&critics, &values, &rows, &mut room, &mut gradients);
        close("critics", &[stats.critic_loss], &[case.losses["critic"]]);
        close("critics", &gradients, &flat(critics.layout(), &case.critic_gradients));

        let mut gradients = vec![0.0; chooses.len()];
        let networks = (&actor, &critics);
        let (loss, entropy) =
            actor_gradient(networks, (&chooses, &values), &rows, case.temperature, &mut room, &mut gradients);
        close("actor", &[loss], &[case.losses["actor"]]);
        close("actor", &gradients, &flat(actor.layout(), &case.actor_gradients));

        // What `Sac::warm` moves the temperature's logarithm by, and what it says is lost.
        let above = entropy - case.target_entropy;
        close("temperature", &[above], &[case.alpha_gradient]);
        close("temperature", &[f64::from(case.temperature).ln() * above], &[case.losses["alpha"]]);
    }
}
