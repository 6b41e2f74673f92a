//! A pole stands on a cart; push the cart left or right so that it does not fall (Barto, Sutton and Anderson 1983).

use std::f64::consts::PI;

use super::{EnvError, Environment, Outcome, Settings, chosen, symmetric};
use crate::chance::Chance;
use crate::space::{Acted, Spaces};

const GRAVITY: f64 = 9.8;
const POLE_MASS: f64 = 0.1;
const MASS: f64 = POLE_MASS + 1.0;
/// From the joint to the pole's centre.
const LENGTH: f64 = 0.5;
const POLE_MOMENT: f64 = POLE_MASS * LENGTH;
const FORCE: f64 = 10.0;
const SECONDS: f64 = 0.02;
/// The pole has fallen beyond this angle.
const ANGLE_MAX: f64 = 12.0 * 2.0 * PI / 360.0;
/// The cart has left its track beyond this place.
const PLACE_MAX: f64 = 2.4;

/// The rules. Settings: `sutton_barto_reward`.
#[derive(Clone, Debug, Default)]
pub struct CartPole {
    /// Nothing for a pole that stands and -1 for its fall, instead of 1 for every step.
    pub sutton_barto_reward: bool,
}

impl CartPole {
    pub(super) fn configured(settings: &mut Settings<'_>) -> Result<Self, EnvError> {
        Ok(Self { sutton_barto_reward: settings.flag("sutton_barto_reward", false)? })
    }
}

impl Environment for CartPole {
    /// The cart's place and speed, the pole's angle and its speed.
    type State = [f64; 4];

    fn spaces(&self) -> Spaces {
        // Twice as wide as an episode gets, so that its last observation is within.
        let observed = symmetric(&[2.0 * PLACE_MAX, f64::INFINITY, 2.0 * ANGLE_MAX, f64::INFINITY]);
        Spaces { observed, acted: Acted::Discrete(2) }
    }

    #[inline]
    fn reset(&self, chance: &mut Chance) -> Self::State {
        [(); 4].map(|()| chance.uniform(-0.05, 0.05))
    }

    #[inline]
    fn step(&self, state: &mut Self::State, action: &[f32], _: &mut Chance) -> Outcome {
        let [place, speed, angle, turning] = *state;
        let force = if chosen(action, 2) == 1 { FORCE } else { -FORCE };
        let (sine, cosine) = libm::sincos(angle);
        let push = (force + POLE_MOMENT * (turning * turning) * sine) / MASS;
        let turned = (GRAVITY * sine - cosine * push) / (LENGTH * (4.0 / 3.0 - POLE_MASS * (cosine * cosine) / MASS));
        let pushed = push - POLE_MOMENT * turned * cosine / MASS;
        *state =
            [place + SECONDS * speed, speed + SECONDS * pushed, angle + SECONDS * turning, turning + SECONDS * turned];
        let terminated = state[0].abs() > PLACE_MAX || state[2].abs() > ANGLE_MAX;
        let reward = match (self.sutton_barto_reward, terminated) {
            (false, _) => 1.0,
            (true, false) => 0.0,
            (true, true) => -1.0,
        };
        Outcome { reward, terminated }
    }

    #[inline]
    fn observe(&self, state: &Self::State, into: &mut [f32]) {
        into.copy_from_slice(&state.map(|number| number as f32));
    }

    fn numbers(&self, state: &Self::State) -> Vec<f64> {
        state.to_vec()
    }

    fn state(&self, numbers: &[f64]) -> Option<Self::State> {
        numbers.try_into().ok()
    }
}
