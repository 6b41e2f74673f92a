//! Whatever chooses actions: one face of all networks for those who act by them.

use crate::chance::Chance;
use crate::nn::Layout;

/// How actions are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// By chance, as likely as the policy says.
    Drawn,
    /// The likeliest or best.
    Best,
    /// At random this often, otherwise the best.
    Astray(f32),
}

/// What was chosen for the rows of one step. Columns that a policy has no use for stay as they are.
#[derive(Debug)]
pub struct Chosen<'a> {
    /// The actions, row by row.
    pub actions: &'a mut [f32],
    /// What they were chosen from is added behind this.
    pub inputs: &'a mut Vec<f32>,
    /// The logarithms of their probabilities are added behind this.
    pub logp: &'a mut Vec<f32>,
    /// What the rows are thought to be worth is added behind this, if that falls out of choosing; others say it of all rows at once when asked.
    pub values: &'a mut Vec<f32>,
}

/// What a policy keeps of an episode between its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Numbers per environment.
    pub numbers: usize,
    /// Steps after which learners need to know it again.
    pub steps: usize,
}

/// Something that chooses actions by parameters.
pub trait Policy: Send + Sync {
    /// Where the parameters lie.
    fn layout(&self) -> &Layout;

    /// Numbers per observation.
    fn observed(&self) -> usize;

    /// Numbers per action.
    fn actions(&self) -> usize;

    /// Parameters before training.
    fn init(&self, chance: &mut Chance) -> Vec<f32>;

    /// Chooses for these rows.
    fn act(&mut self, parameters: &[f32], observed: &[f32], choice: Choice, chance: &mut Chance, into: Chosen<'_>);

    /// Takes actions that somebody else chose: `into.actions` has them already.
    fn told(&mut self, parameters: &[f32], observed: &[f32], into: Chosen<'_>);

    /// What each of these rows is worth; nothing if it does not know.
    fn values(&mut self, parameters: &[f32], observed: &[f32]) -> Option<&[f32]>;

    /// A rollout has ended: noise that was kept for it is forgotten.
    fn rest(&mut self) {}

    /// What it keeps of episodes between steps, if anything. The following are for those that do.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// What it has kept, by environment.
    fn states(&self) -> &[f32] {
        &[]
    }

    /// Goes on with this.
    fn set_states(&mut self, _: &[f32]) {}

    /// The environment's episode has ended.
    fn forget(&mut self, _env: usize) {}

    /// What each of these rows is worth after what was kept; nothing if it does not know.
    fn values_after(&mut self, parameters: &[f32], observed: &[f32], _states: &[f32]) -> Option<&[f32]> {
        self.values(parameters, observed)
    }
}
