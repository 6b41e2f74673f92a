//! What an environment shows and what it may be told to do.

use serde::{Deserialize, Serialize};

/// What an environment shows. In columns it is `size()` numbers, an index as one number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Observed {
    /// Numbers between bounds, of any shape.
    Box {
        /// How they are arranged, the last varying fastest.
        shape: Vec<usize>,
        /// The least that each may be.
        low: Vec<f32>,
        /// The most that each may be.
        high: Vec<f32>,
    },
    /// One of so many.
    Discrete(usize),
}

/// What an environment may be told to do. In columns it is `size()` numbers, an index as one number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Acted {
    /// One of so many.
    Discrete(usize),
    /// Several choices at once, each of so many.
    MultiDiscrete(Vec<usize>),
    /// Numbers between bounds.
    Box {
        /// The least that each may be.
        low: Vec<f32>,
        /// The most that each may be.
        high: Vec<f32>,
    },
    /// Choices and then numbers at once.
    Mixed {
        /// Of how many each choice is.
        counts: Vec<usize>,
        /// The least that each number may be.
        low: Vec<f32>,
        /// The most that each number may be.
        high: Vec<f32>,
    },
}

/// Both spaces of an environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spaces {
    /// What it shows.
    pub observed: Observed,
    /// What it may be told.
    pub acted: Acted,
}

impl Observed {
    /// Numbers per observation.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Box { shape, .. } => shape.iter().product(),
            Self::Discrete(_) => 1,
        }
    }
}

impl Acted {
    /// Numbers per action.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Discrete(_) => 1,
            Self::MultiDiscrete(counts) => counts.len(),
            Self::Box { low, .. } => low.len(),
            Self::Mixed { counts, low, .. } => counts.len() + low.len(),
        }
    }
}
