//! How much better each action was than expected.

use crate::rollout::Rollout;

/// Advantages and what values should have been, per step and environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advantages {
    /// How much better the action was.
    pub advantages: Vec<f32>,
    /// What the value should have been.
    pub targets: Vec<f32>,
}

/// Generalised advantages. What a cut-off episode would have brought is estimated by its last observation's value; an episode that came to its end
/// brings nothing more.
#[must_use]
pub fn generalised(rollout: &Rollout, gamma: f32, lambda: f32) -> Advantages {
    let (steps, envs) = (rollout.steps, rollout.envs);
    let mut advantages = vec![0.0; steps * envs];
    let mut running = vec![0.0_f32; envs];
    for step in (0..steps).rev() {
        for (env, running) in running.iter_mut().enumerate() {
            let at = step * envs + env;
            let is_end = rollout.terminated[at] || rollout.truncated[at];
            let next = match () {
                () if rollout.terminated[at] => 0.0,
                () if is_end || step + 1 == steps => rollout.following[at],
                () => rollout.values[at + envs],
            };
            let behind = if is_end { 0.0 } else { *running };
            let delta = rollout.rewards[at] + gamma * next - rollout.values[at];
            *running = delta + gamma * lambda * behind;
            advantages[at] = *running;
        }
    }
    let targets = advantages.iter().zip(&rollout.values).map(|(advantage, value)| advantage + value).collect();
    Advantages { advantages, targets }
}

/// How far V-trace trusts what an older policy did (Espeholt and others, 2018).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VTrace {
    /// Worth of the next step's rewards.
    pub gamma: f32,
    /// How far targets look ahead.
    pub lambda: f32,
    /// The most that a ratio counts in a step's own surprise: it says which policy's values are found.
    pub rho_max: f32,
    /// The most that a ratio counts in an advantage.
    pub rho_max_choice: f32,
    /// The most that a ratio counts for what lies behind its step.
    pub c_max: f32,
}

/// What the newest networks say of a rollout.
#[derive(Clone, Copy, Debug)]
pub struct Anew<'a> {
    /// How much likelier each action is now than when it was chosen.
    pub ratios: &'a [f32],
    /// What each state is worth.
    pub values: &'a [f32],
    /// As the rollout's own column of that name.
    pub following: &'a [f32],
}

/// Advantages and targets from steps of an older policy. Ends of episodes count as in [`generalised`].
#[must_use]
pub fn v_trace(rollout: &Rollout, anew: Anew<'_>, settings: &VTrace) -> Advantages {
    let (steps, envs) = (rollout.steps, rollout.envs);
    let VTrace { gamma, lambda, rho_max, rho_max_choice, c_max } = *settings;
    let mut found = Advantages { advantages: vec![0.0; steps * envs], targets: vec![0.0; steps * envs] };
    // Of the step behind: how far its target is from its value.
    let mut running = vec![0.0_f32; envs];
    for step in (0..steps).rev() {
        for (env, running) in running.iter_mut().enumerate() {
            let at = step * envs + env;
            let is_end = rollout.terminated[at] || rollout.truncated[at];
            let next = match () {
                () if rollout.terminated[at] => 0.0,
                () if is_end || step + 1 == steps => anew.following[at],
                () => anew.values[at + envs],
            };
            let behind = if is_end { 0.0 } else { *running };
            let (ratio, value, reward) = (anew.ratios[at], anew.values[at], rollout.rewards[at]);
            let delta = ratio.min(rho_max) * (reward + gamma * next - value);
            *running = delta + gamma * lambda * ratio.min(c_max) * behind;
            found.targets[at] = value + *running;
            found.advantages[at] = ratio.min(rho_max_choice) * (reward + gamma * (next + behind) - value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Advantages, Anew, VTrace, generalised, v_trace};
    use crate::chance::Chance;
    use crate::rollout::Rollout;

    fn rollout(steps: usize, envs: usize, chance: &mut Chance) -> Rollout {
        let rows = steps * envs;
        let terminated: Vec<bool> = (0..rows).map(|_| chance.random() < 0.15).collect();
        let truncated: Vec<bool> = (0..rows).map(|_| chance.random() < 0.15).collect();
        let mut following = vec![0.0; rows];
        for at in 0..rows {
            if !terminated[at] && (truncated[at] || at + envs >= rows) {
                following[at] = chance.normal() as f32;
            }
        }
        let mut normal = || (0..rows).map(|_| chance.normal() as f32).collect::<Vec<f32>>();
        let (values, rewards) = (normal(), normal());
        Rollout { steps, envs, values, rewards, terminated, truncated, following, ..Rollout::default() }
    }

    /// The sums as the paper writes them: from each state over the steps of its episode that were seen.
    fn literal(rollout: &Rollout, anew: Anew<'_>, settings: &VTrace) -> Advantages {
        let envs = rollout.envs;
        let gamma = f64::from(settings.gamma);
        let bounded = |at: usize, most: f32| f64::from(anew.ratios[at].min(most));
        let value = |at: usize| f64::from(anew.values[at]);
        let is_end = |at: usize| rollout.terminated[at] || rollout.truncated[at] || at + envs >= rollout.rewards.len();
        let next = |at: usize| match () {
            () if rollout.terminated[at] => 0.0,
            () if is_end(at) => f64::from(anew.following[at]),
            () => value(at + envs),
        };
        let target = |from: usize| {
            let (mut sum, mut at, mut product, mut power) = (value(from), from, 1.0, 1.0);
            loop {
                let delta = f64::from(rollout.rewards[at]) + gamma * next(at) - value(at);
                sum += power * product * bounded(at, settings.rho_max) * delta;
                if is_end(at) {
                    return sum;
                }
                product *= f64::from(settings.lambda) * bounded(at, settings.c_max);
                power *= gamma;
                at += envs;
            }
        };
        let rows = 0..rollout.rewards.len();
        let advantage = |at: usize| {
            let behind = if is_end(at) { next(at) } else { target(at + envs) };
            let better = f64::from(rollout.rewards[at]) + gamma * behind - value(at);
            (bounded(at, settings.rho_max_choice) * better) as f32
        };
        Advantages {
            advantages: rows.clone().map(advantage).collect(),
            targets: rows.map(|at| target(at) as f32).collect(),
        }
    }

    fn close(found: &[f32], expected: &[f32]) -> Result<(), TestCaseError> {
        prop_assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            prop_assert!((found - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{found} {expected}");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn v_trace_is_as_the_paper_defines_it(
            seed: u64, steps in 1_usize..20, envs in 1_usize..4,
            gamma in 0.5_f32..1.0, lambda in 0.0_f32..=1.0,
            bars in (0.3_f32..2.0, 0.3_f32..2.0, 0.3_f32..1.5),
        ) {
            let mut chance = Chance::seeded(seed);
            let rollout = rollout(steps, envs, &mut chance);
            let ratios: Vec<f32> = rollout.values.iter().map(|_| (0.7 * chance.normal()).exp() as f32).collect();
            let (rho_max, rho_max_choice, c_max) = bars;
            let settings = VTrace { gamma, lambda, rho_max, rho_max_choice, c_max };
            let anew = Anew { ratios: &ratios, values: &rollout.values, following: &rollout.following };
            let (found, expected) = (v_trace(&rollout, anew, &settings), literal(&rollout, anew, &settings));
            close(&found.targets, &expected.targets)?;
            close(&found.advantages, &expected.advantages)?;
        }

        /// With the policy that acted, targets are the rewards to come and advantages those of GAE, both as far as can be seen.
        #[test]
        fn v_trace_of_the_policy_that_acted_is_plain(
            seed: u64, steps in 1_usize..20, envs in 1_usize..4, gamma in 0.5_f32..1.0,
        ) {
            let rollout = rollout(steps, envs, &mut Chance::seeded(seed));
            let ratios = vec![1.0; steps * envs];
            let settings = VTrace { gamma, lambda: 1.0, rho_max: 1.0, rho_max_choice: 1.0, c_max: 1.0 };
            let anew = Anew { ratios: &ratios, values: &rollout.values, following: &rollout.following };
            let (found, plain) = (v_trace(&rollout, anew, &settings), generalised(&rollout, gamma, 1.0));
            close(&found.advantages, &plain.advantages)?;
            close(&found.targets, &plain.targets)?;
            // The rewards to come, added up from behind.
            let mut returns = rollout.following.clone();
            for at in (0..steps * envs).rev() {
                let is_end = rollout.terminated[at] || rollout.truncated[at] || at + envs >= steps * envs;
                let behind = if is_end { rollout.following[at] } else { returns[at + envs] };
                returns[at] = rollout.rewards[at] + gamma * behind;
            }
            close(&found.targets, &returns)?;
        }
    }
}
