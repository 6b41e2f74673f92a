//! Environments, and many of one kind side by side.

use crate::space::Spaces;

/// What one step of all environments of a vector has brought. Columns are by environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stepped {
    /// The newest observations: of an episode that has ended, the first of the next.
    pub observed: Vec<f32>,
    /// Rewards.
    pub rewards: Vec<f32>,
    /// The episode has come to its end: nothing would have followed.
    pub terminated: Vec<bool>,
    /// The episode was cut off: something would have followed.
    pub truncated: Vec<bool>,
    /// Of episodes that have ended: their last observations. Elsewhere whatever was there.
    pub last: Vec<f32>,
}

/// Several environments of one kind that take their steps together. An episode that ends is followed by the next at once.
pub trait Vector: Send {
    /// How many there are.
    fn count(&self) -> usize;

    /// What they show and may be told.
    fn spaces(&self) -> &Spaces;

    /// Begins a new episode everywhere. The environment with index `i` is seeded with `seed + i`; without a seed its chance goes on.
    fn reset(&mut self, seed: Option<u64>, observed: &mut [f32]);

    /// One step of each.
    fn step(&mut self, actions: &[f32], into: &mut Stepped);
}
