//! Environments, and many of one kind side by side.
//!
//! A kind of environment is an [`Environment`]: its rules, and the state of one episode. [`Vectored`] takes the steps of many, and is what
//! everything else sees, as a [`Vector`]. [`make`] builds those that we have by name. They are gymnasium's, written anew: the same seed gives the
//! same start, and from the same state a step gives the same state within 1e-9.

pub mod acrobot;
mod adapted;
pub mod cart_pole;
pub mod catch;
pub mod corridor;
pub mod frozen_lake;
pub mod mountain_car;
pub mod pendulum;
mod registry;
mod settings;
mod table;
pub mod taxi;
mod vectored;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use adapted::{Adapted, Bounded};
pub use registry::{make, names};
pub use settings::{Config, Setting, Settings};
pub use vectored::Vectored;

use crate::chance::Chance;
use crate::space::{Acted, Observed, Spaces};

/// The rules of one kind of environment. What changes from step to step is in the state.
pub trait Environment: Send + Sync {
    /// Where one episode stands.
    type State: Clone + Send + Sync + Serialize + DeserializeOwned;

    /// What it shows and may be told.
    fn spaces(&self) -> Spaces;

    /// The start of an episode.
    fn reset(&self, chance: &mut Chance) -> Self::State;

    /// One step. An action is as many numbers as the space says; one that the space does not hold does the nearest thing that it does.
    fn step(&self, state: &mut Self::State, action: &[f32], chance: &mut Chance) -> Outcome;

    /// What is seen in a state.
    fn observe(&self, state: &Self::State, into: &mut [f32]);

    /// A state as plain numbers.
    fn numbers(&self, state: &Self::State) -> Vec<f64>;

    /// The state that is these numbers, unless none is.
    fn state(&self, numbers: &[f64]) -> Option<Self::State>;
}

/// What a step has brought, besides the state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The reward.
    pub reward: f64,
    /// The episode has come to its end.
    pub terminated: bool,
}

/// What one step of all environments of a vector has brought. Columns are by environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stepped {
    /// The newest observations: of an episode that has ended, the first of the next.
    pub observed: Vec<f32>,
    /// Rewards.
    pub rewards: Vec<f32>,
    /// The episode has come to its end: nothing would have followed.
    pub terminated: Vec<bool>,
    /// The episode was cut off: something would have followed. Both are said of an end in the last step that the limit allows.
    pub truncated: Vec<bool>,
    /// Of episodes that have ended: their last observations. Elsewhere whatever was there.
    pub last: Vec<f32>,
}

impl Stepped {
    /// Room for so many environments with observations of this size.
    pub fn columns(&mut self, count: usize, size: usize) -> Columns<'_> {
        self.observed.resize(count * size, 0.0);
        self.rewards.resize(count, 0.0);
        self.terminated.resize(count, false);
        self.truncated.resize(count, false);
        self.last.resize(count * size, 0.0);
        let Self { observed, rewards, terminated, truncated, last } = self;
        Columns { observed, rewards, terminated, truncated, last }
    }
}

/// As [`Stepped`], in memory of somebody else.
pub struct Columns<'a> {
    /// The newest observations.
    pub observed: &'a mut [f32],
    /// Rewards.
    pub rewards: &'a mut [f32],
    /// Whose episode has come to its end.
    pub terminated: &'a mut [bool],
    /// Whose episode was cut off.
    pub truncated: &'a mut [bool],
    /// The last observations of those.
    pub last: &'a mut [f32],
}

/// Several environments of one kind that take their steps together. An episode that ends is followed by the next at once.
pub trait Vector: Send + Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// What they show and may be told.
    fn spaces(&self) -> &Spaces;

    /// Begins a new episode everywhere. The environment with index `i` is seeded with `seed + i`; without a seed its chance goes on. One that was
    /// never seeded is as if seeded with 0.
    fn reset(&mut self, seed: Option<u64>, observed: &mut [f32]);

    /// One step of each, written to where there is room for all of it.
    fn step_into(&mut self, actions: &[f32], into: Columns<'_>);

    /// One step of each.
    fn step(&mut self, actions: &[f32], into: &mut Stepped) {
        let (count, size) = (self.count(), self.spaces().observed.size());
        self.step_into(actions, into.columns(count, size));
    }

    /// What is seen now.
    fn observe(&self, observed: &mut [f32]);

    /// The state of one environment as plain numbers, which ones its kind says.
    fn state(&self, index: usize) -> Vec<f64>;

    /// Puts one environment into a state. Its count of steps and its chance stay.
    fn set_state(&mut self, index: usize, numbers: &[f64]) -> Result<(), EnvError>;

    /// Everything that the steps to come depend on.
    fn save(&self) -> Vec<u8>;

    /// Goes back to what was saved: the same actions then bring the same, bit for bit. What does not fit changes nothing.
    fn restore(&mut self, saved: &[u8]) -> Result<(), EnvError>;
}

/// Why there is no such environment, or no such state of it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EnvError {
    /// No environment has that name.
    #[error("no native environment is named {name:?}{}", suggestion(.nearest.as_deref()))]
    Unknown {
        /// The name.
        name: String,
        /// The name that is most like it.
        nearest: Option<String>,
    },
    /// The environment has no such setting.
    #[error("{name} has no setting {key:?}{}", suggestion(.nearest.as_deref()))]
    Setting {
        /// The environment.
        name: String,
        /// The setting.
        key: String,
        /// The setting that is most like it.
        nearest: Option<String>,
    },
    /// The environment has that setting, but not with that value.
    #[error("{name}: {key} must be {expected}, not {found}")]
    Value {
        /// The environment.
        name: String,
        /// The setting.
        key: String,
        /// What it may be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// These numbers are no state of the environment.
    #[error("{0:?} is no state of this environment")]
    NoState(Vec<f64>),
    /// What was saved is of other environments, or damaged.
    #[error("the saved environments do not fit: {0}")]
    Unfit(String),
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest:?}?"))
}

/// Which environment's action is none of its space: an index that is not there, or a number that is none. Numbers beyond their bounds pass, because
/// environments clip them.
#[must_use]
pub fn misfit(acted: &Acted, actions: &[f32]) -> Option<usize> {
    // So far from zero a float has no places behind the point: what comes back from there is whole. Counts are smaller than that, and this
    // is done for several numbers at once, as a conversion is not.
    const FAR: f32 = 8_388_608.0;
    let is_index =
        |number: f32, count: usize| (number >= 0.0) & (number < count as f32) & ((number + FAR) - FAR == number);
    if let Acted::Discrete(count) = acted
        && actions.iter().fold(true, |all, number| all & is_index(*number, *count))
    {
        // Without a branch per action: where all fit, as they should, that is much faster.
        return None;
    }
    actions.chunks(acted.size().max(1)).position(|action| match acted {
        Acted::Discrete(count) => !is_index(action[0], *count),
        Acted::MultiDiscrete(counts) => {
            action.len() != counts.len() || action.iter().zip(counts).any(|(&number, &count)| !is_index(number, count))
        }
        Acted::Box { low, .. } => action.len() != low.len() || action.iter().any(|number| !number.is_finite()),
        Acted::Mixed { counts, .. } => {
            action.len() != acted.size()
                || action.iter().zip(counts).any(|(&number, &count)| !is_index(number, count))
                || action[counts.len()..].iter().any(|number| !number.is_finite())
        }
    })
}

/// The choice that an action is.
fn chosen(action: &[f32], count: usize) -> usize {
    (action[0] as usize).min(count - 1)
}

/// Bounds that are the same on both sides of zero.
fn symmetric(high: &[f64]) -> Observed {
    let low: Vec<f64> = high.iter().map(|high| -high).collect();
    bounded(&low, high)
}

/// A row of numbers between bounds.
fn bounded(low: &[f64], high: &[f64]) -> Observed {
    let single = |numbers: &[f64]| numbers.iter().map(|&number| number as f32).collect();
    Observed::Box { shape: vec![low.len()], low: single(low), high: single(high) }
}
