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
        for env in 0..envs {
            let at = step * envs + env;
            let is_end = rollout.terminated[at] || rollout.truncated[at];
            let next = match () {
                () if rollout.terminated[at] => 0.0,
                () if is_end || step + 1 == steps => rollout.following[at],
                () => rollout.values[at + envs],
            };
            let behind = if is_end { 0.0 } else { running[env] };
            let delta = rollout.rewards[at] + gamma * next - rollout.values[at];
            running[env] = delta + gamma * lambda * behind;
            advantages[at] = running[env];
        }
    }
    let targets = advantages.iter().zip(&rollout.values).map(|(advantage, value)| advantage + value).collect();
    Advantages { advantages, targets }
}
