//! Two links hang from a bar, with a motor in the joint between them; swing the lower end above the bar (Sutton 1996).

use std::f64::consts::{FRAC_PI_2, PI};

use super::{Environment, Outcome, chosen, symmetric};
use crate::chance::Chance;
use crate::space::{Acted, Spaces};

const GRAVITY: f64 = 9.8;
const SECONDS: f64 = 0.2;
const SPEEDS_MAX: [f64; 2] = [4.0 * PI, 9.0 * PI];
/// From a link's upper end to its centre. Its length, mass and moment of inertia are one.
const CENTRE: f64 = 0.5;

/// The rules, with the equations of Sutton and Barto's book.
#[derive(Clone, Debug, Default)]
pub struct Acrobot;

impl Environment for Acrobot {
    /// The angle of the upper link from hanging, that of the lower from the upper, and their speeds.
    type State = [f64; 4];

    fn spaces(&self) -> Spaces {
        Spaces { observed: symmetric(&[1.0, 1.0, 1.0, 1.0, SPEEDS_MAX[0], SPEEDS_MAX[1]]), acted: Acted::Discrete(3) }
    }

    fn reset(&self, chance: &mut Chance) -> Self::State {
        // Gymnasium rounds the start, and only the start, to single precision.
        [(); 4].map(|()| f64::from(chance.uniform(-0.1, 0.1) as f32))
    }

    fn step(&self, state: &mut Self::State, action: &[f32], _: &mut Chance) -> Outcome {
        let torque = chosen(action, 3) as f64 - 1.0;
        let [upper, lower, upper_speed, lower_speed] = integrated(*state, torque);
        *state = [
            wrapped(upper),
            wrapped(lower),
            upper_speed.clamp(-SPEEDS_MAX[0], SPEEDS_MAX[0]),
            lower_speed.clamp(-SPEEDS_MAX[1], SPEEDS_MAX[1]),
        ];
        let terminated = -libm::cos(state[0]) - libm::cos(state[1] + state[0]) > 1.0;
        Outcome { reward: if terminated { 0.0 } else { -1.0 }, terminated }
    }

    fn observe(&self, state: &Self::State, into: &mut [f32]) {
        let ((upper_sine, upper_cosine), (lower_sine, lower_cosine)) = (libm::sincos(state[0]), libm::sincos(state[1]));
        let seen = [upper_cosine, upper_sine, lower_cosine, lower_sine, state[2], state[3]];
        into.copy_from_slice(&seen.map(|number| number as f32));
    }

    fn numbers(&self, state: &Self::State) -> Vec<f64> {
        state.to_vec()
    }

    fn state(&self, numbers: &[f64]) -> Option<Self::State> {
        numbers.try_into().ok()
    }
}

/// One step of the classic Runge-Kutta method.
fn integrated(state: [f64; 4], torque: f64) -> [f64; 4] {
    let ahead =
        |seconds: f64, slope: [f64; 4]| -> [f64; 4] { std::array::from_fn(|at| state[at] + seconds * slope[at]) };
    let first = slope(state, torque);
    let second = slope(ahead(SECONDS / 2.0, first), torque);
    let third = slope(ahead(SECONDS / 2.0, second), torque);
    let fourth = slope(ahead(SECONDS, third), torque);
    ahead(SECONDS / 6.0, std::array::from_fn(|at| first[at] + 2.0 * second[at] + 2.0 * third[at] + fourth[at]))
}

/// How fast the state changes.
fn slope([upper, lower, upper_speed, lower_speed]: [f64; 4], torque: f64) -> [f64; 4] {
    let (sine, cosine) = libm::sincos(lower);
    let d1 = CENTRE * CENTRE + (1.0 + CENTRE * CENTRE + 2.0 * CENTRE * cosine) + 2.0;
    let d2 = CENTRE * CENTRE + CENTRE * cosine + 1.0;
    let phi2 = CENTRE * GRAVITY * libm::cos(upper + lower - FRAC_PI_2);
    let phi1 = -CENTRE * (lower_speed * lower_speed) * sine - 2.0 * CENTRE * lower_speed * upper_speed * sine
        + (CENTRE + 1.0) * GRAVITY * libm::cos(upper - FRAC_PI_2)
        + phi2;
    let lower_pull = (torque + d2 / d1 * phi1 - CENTRE * (upper_speed * upper_speed) * sine - phi2)
        / (CENTRE * CENTRE + 1.0 - d2 * d2 / d1);
    let upper_pull = -(d2 * lower_pull + phi1) / d1;
    [upper_speed, lower_speed, upper_pull, lower_pull]
}

/// The same angle, from -pi to pi.
fn wrapped(mut angle: f64) -> f64 {
    if !angle.is_finite() || angle.abs() > 1e3 {
        // No step leads there from a state of its own; and a loop must end.
        return (angle + PI).rem_euclid(2.0 * PI) - PI;
    }
    while angle > PI {
        angle -= 2.0 * PI;
    }
    while angle < -PI {
        angle += 2.0 * PI;
    }
    angle
}
