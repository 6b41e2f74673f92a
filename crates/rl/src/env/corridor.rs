//! Walk along a corridor to its end. The only reward is at the end.

use super::table::index;
use super::{EnvError, Environment, Outcome, Settings, bounded, chosen};
use crate::chance::Chance;
use crate::space::{Acted, Spaces};

/// Beyond this a place could not be told from its neighbour in single precision.
const LENGTH_MAX: u64 = 1 << 24;

/// The rules. Settings: `corridor_length`.
#[derive(Clone, Debug)]
pub struct Corridor {
    length: u64,
}

impl Corridor {
    pub(super) fn configured(settings: &mut Settings<'_>) -> Result<Self, EnvError> {
        const KEY: &str = "corridor_length";
        let length = settings.count(KEY, 10)?;
        match settings.get(KEY) {
            Some(setting) if length > LENGTH_MAX => Err(settings.refuse(KEY, "at most 16777216", setting)),
            _ => Ok(Self { length }),
        }
    }
}

impl Environment for Corridor {
    /// Steps from the entrance.
    type State = u64;

    fn spaces(&self) -> Spaces {
        Spaces { observed: bounded(&[0.0], &[self.length as f64]), acted: Acted::Discrete(2) }
    }

    fn reset(&self, _: &mut Chance) -> Self::State {
        0
    }

    fn step(&self, state: &mut Self::State, action: &[f32], _: &mut Chance) -> Outcome {
        *state = if chosen(action, 2) == 1 { *state + 1 } else { state.saturating_sub(1) };
        let terminated = *state >= self.length;
        Outcome { reward: f64::from(u8::from(terminated)), terminated }
    }

    fn observe(&self, state: &Self::State, into: &mut [f32]) {
        into[0] = *state as f32;
    }

    fn numbers(&self, state: &Self::State) -> Vec<f64> {
        vec![*state as f64]
    }

    fn state(&self, numbers: &[f64]) -> Option<Self::State> {
        match *numbers {
            [place] => index(place, self.length as usize).map(|place| place as u64),
            _ => None,
        }
    }
}
