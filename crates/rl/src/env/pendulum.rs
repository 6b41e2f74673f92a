//! A pendulum hangs from a motor that is too weak to lift it in one go; swing it up and hold it there.

use std::f64::consts::PI;

use super::{EnvError, Environment, Outcome, Settings, symmetric};
use crate::chance::Chance;
use crate::space::{Acted, Spaces};

const SPEED_MAX: f64 = 8.0;
const TORQUE_MAX: f32 = 2.0;
const SECONDS: f64 = 0.05;

/// The rules. Settings: `g`.
#[derive(Clone, Debug)]
pub struct Pendulum {
    /// Gravity.
    pub g: f64,
}

impl Default for Pendulum {
    fn default() -> Self {
        Self { g: 10.0 }
    }
}

impl Pendulum {
    pub(super) fn configured(settings: &mut Settings<'_>) -> Result<Self, EnvError> {
        Ok(Self { g: settings.number("g", Self::default().g)? })
    }
}

impl Environment for Pendulum {
    /// The angle from upright, which turns on beyond a circle, and its speed.
    type State = [f64; 2];

    fn spaces(&self) -> Spaces {
        let acted = Acted::Box { low: vec![-TORQUE_MAX], high: vec![TORQUE_MAX] };
        Spaces { observed: symmetric(&[1.0, 1.0, SPEED_MAX]), acted }
    }

    fn reset(&self, chance: &mut Chance) -> Self::State {
        [PI, 1.0].map(|reach| chance.uniform(-reach, reach))
    }

    #[inline]
    fn step(&self, state: &mut Self::State, action: &[f32], _: &mut Chance) -> Outcome {
        let [angle, speed] = *state;
        // The torque is of single precision, and so is whatever gymnasium multiplies it with.
        let torque = action[0].clamp(-TORQUE_MAX, TORQUE_MAX);
        let effort = f64::from(0.001 * (torque * torque));
        let tilt = (angle + PI).rem_euclid(2.0 * PI) - PI;
        let cost = tilt * tilt + 0.1 * (speed * speed) + effort;

        let pull = 3.0 * self.g / 2.0 * libm::sin(angle) + f64::from(3.0 * torque);
        let speed = (speed + pull * SECONDS).clamp(-SPEED_MAX, SPEED_MAX);
        *state = [angle + speed * SECONDS, speed];
        Outcome { reward: -cost, terminated: false }
    }

    #[inline]
    fn observe(&self, state: &Self::State, into: &mut [f32]) {
        let (sine, cosine) = libm::sincos(state[0]);
        into.copy_from_slice(&[cosine, sine, state[1]].map(|number| number as f32));
    }

    fn numbers(&self, state: &Self::State) -> Vec<f64> {
        state.to_vec()
    }

    fn state(&self, numbers: &[f64]) -> Option<Self::State> {
        numbers.try_into().ok()
    }
}
