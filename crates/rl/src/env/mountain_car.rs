//! A car in a valley is too weak to climb out; it has to roll back and forth to gain speed (Moore 1990). Its engine knows three positions, or any.

use serde::{Deserialize, Serialize};

use super::{EnvError, Environment, Outcome, Settings, bounded, chosen};
use crate::chance::Chance;
use crate::space::{Acted, Spaces};

const PLACE_MIN: f64 = -1.2;
const PLACE_MAX: f64 = 0.6;
const SPEED_MAX: f64 = 0.07;
const GRAVITY: f64 = 0.0025;

/// The rules with three positions: back, nothing, ahead. Settings: `goal_velocity`.
#[derive(Clone, Debug, Default)]
pub struct MountainCar {
    /// How fast the car must at least be at its goal.
    pub goal_velocity: f64,
}

impl MountainCar {
    const GOAL: f64 = 0.5;
    const FORCE: f64 = 0.001;

    pub(super) fn configured(settings: &mut Settings<'_>) -> Result<Self, EnvError> {
        Ok(Self { goal_velocity: settings.number("goal_velocity", 0.0)? })
    }
}

impl Environment for MountainCar {
    /// Place and speed.
    type State = [f64; 2];

    fn spaces(&self) -> Spaces {
        Spaces { observed: seen(), acted: Acted::Discrete(3) }
    }

    fn reset(&self, chance: &mut Chance) -> Self::State {
        [chance.uniform(-0.6, -0.4), 0.0]
    }

    #[inline]
    fn step(&self, state: &mut Self::State, action: &[f32], _: &mut Chance) -> Outcome {
        let [place, speed] = *state;
        let force = (chosen(action, 3) as f64 - 1.0) * Self::FORCE;
        let mut speed = speed + (force + libm::cos(3.0 * place) * -GRAVITY);
        speed = speed.clamp(-SPEED_MAX, SPEED_MAX);
        let place = (place + speed).clamp(PLACE_MIN, PLACE_MAX);
        if place == PLACE_MIN && speed < 0.0 {
            speed = 0.0;
        }
        *state = [place, speed];
        Outcome { reward: -1.0, terminated: place >= Self::GOAL && speed >= self.goal_velocity }
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

/// The rules with an engine of any position from -1 to 1. Settings: `goal_velocity`.
#[derive(Clone, Debug, Default)]
pub struct MountainCarContinuous {
    /// How fast the car must at least be at its goal.
    pub goal_velocity: f64,
}

/// Where the car is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Car {
    place: f64,
    speed: f64,
    /// Gymnasium keeps the state in single precision from the first step on, and then computes so too.
    single: bool,
}

impl MountainCarContinuous {
    const GOAL: f64 = 0.45;
    const POWER: f64 = 0.0015;

    pub(super) fn configured(settings: &mut Settings<'_>) -> Result<Self, EnvError> {
        Ok(Self { goal_velocity: settings.number("goal_velocity", 0.0)? })
    }
}

impl Environment for MountainCarContinuous {
    type State = Car;

    fn spaces(&self) -> Spaces {
        Spaces { observed: seen(), acted: Acted::Box { low: vec![-1.0], high: vec![1.0] } }
    }

    fn reset(&self, chance: &mut Chance) -> Self::State {
        Car { place: chance.uniform(-0.6, -0.4), speed: 0.0, single: false }
    }

    #[inline]
    fn step(&self, state: &mut Self::State, action: &[f32], _: &mut Chance) -> Outcome {
        // One operation on two numbers of single precision is the same when done in double precision and rounded after.
        let rounded = |number: f64| f64::from(number as f32);
        let kept = |number: f64| if state.single { rounded(number) } else { number };
        let force = f64::from(action[0]);
        let slope = GRAVITY * libm::cos(kept(3.0 * state.place));
        let push = if force.abs() > 1.0 {
            // A force that had to be clipped is no number of the action's precision any more.
            force.signum() * Self::POWER - slope
        } else {
            rounded(rounded(force * rounded(Self::POWER)) - rounded(slope))
        };
        let mut speed = kept(state.speed + kept(push)).clamp(kept(-SPEED_MAX), kept(SPEED_MAX));
        let place = kept(state.place + speed).clamp(kept(PLACE_MIN), kept(PLACE_MAX));
        if place == kept(PLACE_MIN) && speed < 0.0 {
            speed = 0.0;
        }
        let terminated = place >= kept(Self::GOAL) && speed >= kept(self.goal_velocity);
        *state = Car { place: rounded(place), speed: rounded(speed), single: true };
        let reward = if terminated { 100.0 } else { 0.0 };
        Outcome { reward: reward - force * force * 0.1, terminated }
    }

    #[inline]
    fn observe(&self, state: &Self::State, into: &mut [f32]) {
        into.copy_from_slice(&[state.place as f32, state.speed as f32]);
    }

    fn numbers(&self, state: &Self::State) -> Vec<f64> {
        vec![state.place, state.speed, f64::from(u8::from(state.single))]
    }

    fn state(&self, numbers: &[f64]) -> Option<Self::State> {
        match *numbers {
            [place, speed, single @ (0.0 | 1.0)] => Some(Car { place, speed, single: single == 1.0 }),
            _ => None,
        }
    }
}

fn seen() -> crate::space::Observed {
    bounded(&[PLACE_MIN, -SPEED_MAX], &[PLACE_MAX, SPEED_MAX])
}
