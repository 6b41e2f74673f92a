//! IMPALA: actor-critic from steps of older policies, made up for by V-trace.

use serde::{Deserialize, Serialize};

use super::descent::{Columns, Descent, Passes, Scaling, explained};
use super::loss::Plain;
use crate::advantage::{Anew, VTrace, v_trace};
use crate::chance::Chance;
use crate::model::{Model, ModelTape};
use crate::nn::{Layout, Optimiser, OptimiserSpec};
use crate::rollout::Rollout;

/// How it learns. What is left out is as RLlib has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImpalaSettings {
    /// Worth of the next step's rewards.
    pub gamma: f32,
    /// How far targets look ahead.
    pub lambda: f32,
    /// The most that a ratio of probabilities counts in a step's own surprise.
    pub rho_max: f32,
    /// The most that it counts in an advantage.
    pub rho_max_choice: f32,
    /// The most that it counts for what lies behind its step.
    pub c_max: f32,
    /// Step size.
    pub rate: f32,
    /// Passes over the batch.
    pub epochs: usize,
    /// Rows per step of the optimiser; none: the whole batch.
    pub minibatch: Option<usize>,
    /// Weight of half the square of the values' error.
    pub value_weight: f32,
    /// Weight of the entropy.
    pub entropy_weight: f32,
    /// The most that the gradient may be long.
    pub gradient_max: Option<f32>,
    /// Threads that share the rows of each step.
    pub threads: usize,
}

impl Default for ImpalaSettings {
    fn default() -> Self {
        Self {
            gamma: 0.99,
            lambda: 1.0,
            rho_max: 1.0,
            rho_max_choice: 1.0,
            c_max: 1.0,
            rate: 5e-4,
            epochs: 1,
            minibatch: None,
            value_weight: 0.5,
            entropy_weight: 0.01,
            gradient_max: Some(40.0),
            threads: 1,
        }
    }
}

/// What an update found. Means over its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImpalaStats {
    /// The whole loss.
    pub loss: f64,
    /// Its part for the choice of actions.
    pub policy_loss: f64,
    /// Its part for the values, unweighted.
    pub value_loss: f64,
    /// How undecided the policy is.
    pub entropy: f64,
    /// The distance to the policies that acted.
    pub kl: f64,
    /// How much likelier the actions were than when they were chosen, before anything was learned.
    pub ratio: f64,
    /// How much of the targets' variance the values explain.
    pub explained: f64,
    /// Length of the gradient.
    pub gradient: f64,
    /// Rows of the batch.
    pub rows: usize,
}

/// Learns from rollouts of older policies.
pub struct Impala {
    descent: Descent,
    tape: ModelTape<f32>,
}

impl Impala {
    /// A learner whose parameters begin as the seed says.
    #[must_use]
    pub fn new(model: Model, optimiser: &OptimiserSpec, seed: u64) -> Self {
        Self { descent: Descent::new(model, optimiser, seed), tape: ModelTape::default() }
    }

    /// The parameters as they are.
    #[must_use]
    pub fn parameters(&self) -> &[f32] {
        &self.descent.parameters
    }

    /// The parameters, to be set.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.descent.parameters
    }

    /// Where the parameters lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        self.descent.model.layout()
    }

    /// All that its next updates depend on beside the parameters.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let Descent { optimiser, chance, .. } = &self.descent;
        postcard::to_stdvec(&(optimiser, chance)).expect("plain data")
    }

    /// Goes on from what was saved. False if that is of another learner: then nothing has changed.
    pub fn restore(&mut self, saved: &[u8]) -> bool {
        postcard::from_bytes::<(Optimiser, Chance)>(saved)
            .is_ok_and(|(optimiser, chance)| self.descent.resume(optimiser, chance))
    }

    /// Learns from these rollouts. What they say of values is not used: the networks value their states anew.
    pub fn update(&mut self, rollouts: &[&Rollout], settings: &ImpalaSettings) -> ImpalaStats {
        let ImpalaSettings { gamma, lambda, rho_max, rho_max_choice, c_max, .. } = *settings;
        let trace = VTrace { gamma, lambda, rho_max, rho_max_choice, c_max };
        let mut columns = Columns::default();
        let (mut values, mut ratio) = (Vec::new(), 0.0);
        for rollout in rollouts {
            let (logp, valued) = self.descent.judge(rollout, settings.threads);
            let ratios: Vec<f32> = logp.iter().zip(&rollout.logp).map(|(logp, older)| (logp - older).exp()).collect();
            let last: Vec<f32> = rollout.last.iter().chain(&rollout.open).copied().collect();
            let Descent { model, parameters, .. } = &self.descent;
            let following = rollout.following(model.value_only(parameters, &last, &mut self.tape));
            let anew = Anew { ratios: &ratios, values: &valued, following: &following };
            columns.extend(rollout, v_trace(rollout, anew, &trace), model.dist());
            ratio += ratios.iter().map(|ratio| f64::from(*ratio)).sum::<f64>();
            values.extend(valued);
        }
        let passes = Passes {
            epochs: settings.epochs,
            minibatch: settings.minibatch.unwrap_or(usize::MAX),
            rate: settings.rate,
            gradient_max: settings.gradient_max,
            scaling: Scaling::None,
            threads: settings.threads,
        };
        let loss = Plain { value_weight: settings.value_weight, entropy_weight: settings.entropy_weight };
        let means = self.descent.run(&columns, &loss, &passes);
        let rows = columns.logp.len();
        ImpalaStats {
            loss: means.loss,
            policy_loss: means.policy_loss,
            value_loss: means.value_loss,
            entropy: means.entropy,
            kl: means.kl,
            ratio: ratio / rows.max(1) as f64,
            explained: explained(&values, &columns.targets),
            gradient: means.gradient,
            rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Impala, ImpalaSettings};
    use crate::env::{Config, Setting, Stepped, make};
    use crate::learn::a2c::{A2c, A2cSettings};
    use crate::model::{ActorCritic, Model, ModelSpec};
    use crate::nn::{Activation, OptimiserSpec};
    use crate::policy::Choice;
    use crate::rollout::{Rollout, Runner};
    use crate::space::Acted;

    const ADAM: OptimiserSpec = OptimiserSpec::Adam { epsilon: 1e-5 };

    fn model(is_shared: bool) -> Model {
        Model::new(ModelSpec {
            observed: 4,
            acted: Acted::Discrete(2),
            hiddens: vec![8],
            activation: Activation::Tanh,
            is_shared,
            free_log_std: false,
            ..ModelSpec::default()
        })
    }

    /// Steps of `CartPole` by these parameters, with episodes that end, are cut off and stay open.
    fn rollout(model: Model, parameters: &[f32]) -> Rollout {
        let config = Config::from([("max_episode_steps".to_owned(), Setting::Whole(13))]);
        let mut vector = make("CartPole-v1", 3, &config).expect("it is known");
        let mut runner = Runner::new(Box::new(ActorCritic::new(model)), 3, 5);
        runner.parameters_mut().copy_from_slice(parameters);
        let mut observed = vec![0.0; 12];
        vector.reset(Some(4), &mut observed);
        runner.see(&observed);
        runner.run(&mut *vector, 200, Choice::Drawn, &mut Stepped::default());
        let rollout = runner.take();
        assert!(!rollout.cut.is_empty() && rollout.terminated.contains(&true));
        rollout
    }

    fn close(one: &[f32], other: &[f32]) -> bool {
        one.iter().zip(other).all(|(one, other)| (one - other).abs() < 1e-4)
    }

    #[test]
    fn steps_of_the_newest_policy_are_learned_from_as_a2c_does() {
        for is_shared in [false, true] {
            let mut impala = Impala::new(model(is_shared), &ADAM, 1);
            let mut a2c = A2c::new(model(is_shared), &ADAM, 1);
            let rollout = rollout(model(is_shared), a2c.parameters());
            let before = a2c.parameters().to_vec();
            let settings = ImpalaSettings { rate: 1e-2, threads: 2, ..ImpalaSettings::default() };
            let stats = impala.update(&[&rollout, &rollout], &settings);
            let other =
                a2c.update(&[&rollout, &rollout], &A2cSettings { rate: 1e-2, threads: 2, ..A2cSettings::default() });
            assert!(!close(&before, a2c.parameters()), "something was learned");
            assert!(close(impala.parameters(), a2c.parameters()));
            assert!((stats.ratio - 1.0).abs() < 1e-5 && stats.kl.abs() < 1e-5, "{stats:?}");
            assert!((stats.loss - other.loss).abs() < 1e-3 * other.loss.abs(), "{stats:?} {other:?}");
            assert_eq!(stats.rows, 1200);
        }
    }

    #[test]
    fn values_of_older_networks_do_not_count() {
        let first = Impala::new(model(false), &ADAM, 1);
        let seen = rollout(model(false), first.parameters());
        let mut other = seen.clone();
        other.values.iter_mut().chain(&mut other.following).for_each(|value| *value = 100.0);
        let learned = [seen, other].map(|rollout| {
            let mut learner = Impala::new(model(false), &ADAM, 2);
            let stats = learner.update(&[&rollout], &ImpalaSettings::default());
            assert!((stats.ratio - 1.0).abs() > 1e-6, "the policy is another");
            learner.parameters().to_vec()
        });
        assert_eq!(learned[0], learned[1]);
    }

    #[test]
    fn the_number_of_threads_changes_rounding_only() {
        let mut learned = Vec::new();
        for threads in [1, 3] {
            let mut learner = Impala::new(model(false), &ADAM, 1);
            let rollout = rollout(model(false), Impala::new(model(false), &ADAM, 9).parameters());
            learner.update(&[&rollout], &ImpalaSettings { threads, rate: 1e-2, ..ImpalaSettings::default() });
            learned.push(learner.parameters().to_vec());
        }
        assert!(close(&learned[0], &learned[1]));
    }

    #[test]
    fn settings_that_are_left_out_are_the_usual_and_unknown_ones_are_refused() {
        let read = |text: &str| serde_json::from_str::<ImpalaSettings>(text);
        assert_eq!(read("{}").unwrap(), ImpalaSettings::default());
        let settings = read(r#"{"rate": 0.5, "minibatch": 32, "gradient_max": null}"#).unwrap();
        assert_eq!((settings.rate, settings.minibatch, settings.gradient_max), (0.5, Some(32), None));
        assert!(read(r#"{"rates": 0.5}"#).is_err());
        let text = r#"{"rmsprop": {"decay": 0.99, "momentum": 0, "epsilon": 0.1, "is_tf_like": false}}"#;
        let rms_prop = OptimiserSpec::RmsProp { decay: 0.99, momentum: 0.0, epsilon: 0.1, is_tf_like: false };
        assert_eq!(serde_json::from_str::<OptimiserSpec>(text).unwrap(), rms_prop);
    }

    #[test]
    fn what_was_saved_goes_on_as_it_would_have() {
        let settings = ImpalaSettings { minibatch: Some(100), ..ImpalaSettings::default() };
        let mut first = Impala::new(model(false), &ADAM, 1);
        let rollout = rollout(model(false), first.parameters());
        first.update(&[&rollout], &settings);
        let mut second = Impala::new(model(false), &ADAM, 2);
        second.parameters_mut().copy_from_slice(first.parameters());
        assert!(second.restore(&first.save()));
        for learner in [&mut first, &mut second] {
            learner.update(&[&rollout], &settings);
        }
        assert_eq!(first.parameters(), second.parameters());
        let rms_prop = OptimiserSpec::RmsProp { decay: 0.99, momentum: 0.0, epsilon: 0.1, is_tf_like: false };
        assert!(!Impala::new(model(false), &rms_prop, 1).restore(&first.save()));
    }
}
