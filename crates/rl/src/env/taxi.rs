//! A taxi fetches a passenger at one of four places and sets them down at another (Dietterich 2000).
//!
//! ```text
//! R . | . . G      | is a wall, the letters are the places 0 to 3: R, G, Y, B
//! . . | . . .
//! . . . . . .
//! . | . . | .
//! Y | . . | B .
//! ```

use serde::{Deserialize, Serialize};

use super::table::{Table, Way, index};
use super::{EnvError, Environment, Outcome, Settings, chosen};
use crate::chance::Chance;
use crate::space::{Acted, Observed, Spaces};

const SIDE: usize = 5;
const PLACES: [(usize, usize); 4] = [(0, 0), (0, 4), (4, 0), (4, 3)];
/// The passenger's place when they are in the taxi.
const ABOARD: usize = PLACES.len();
const STATES: usize = SIDE * SIDE * (PLACES.len() + 1) * PLACES.len();
/// South, north, east, west, fetch, set down.
const ACTIONS: usize = 6;
/// Left and right of each of the four directions.
const SIDES: [(usize, usize); 4] = [(2, 3), (3, 2), (1, 0), (0, 1)];

/// The rules. Settings from version 4 on: `is_rainy` with `rainy_probability` (that of going straight), `fickle_passenger` with
/// `fickle_probability`.
#[derive(Clone, Debug)]
pub struct Taxi {
    table: Table,
    /// How probable it is that the passenger of an episode changes their mind under way; nothing is drawn where nobody does.
    fickle: Option<f64>,
}

/// Where an episode stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ride {
    /// Taxi, passenger and destination in one number.
    at: usize,
    /// The passenger is going to change their mind.
    fickle: bool,
}

/// What the number of a ride says.
#[derive(Clone, Copy)]
struct Scene {
    row: usize,
    column: usize,
    passenger: usize,
    destination: usize,
}

impl Taxi {
    /// Dry streets and passengers who know what they want.
    pub(super) fn plain() -> Self {
        Self::new(None, None)
    }

    pub(super) fn configured(settings: &mut Settings<'_>) -> Result<Self, EnvError> {
        let is_rainy = settings.flag("is_rainy", false)?;
        let straight = settings.probability("rainy_probability", 0.8)?;
        let is_fickle = settings.flag("fickle_passenger", false)?;
        let fickle = settings.probability("fickle_probability", 0.3)?;
        Ok(Self::new(is_rainy.then_some(straight), is_fickle.then_some(fickle)))
    }

    fn new(straight: Option<f64>, fickle: Option<f64>) -> Self {
        let starting: Vec<bool> = (0..STATES)
            .map(|at| {
                let scene = Scene::of(at);
                scene.passenger != ABOARD && scene.passenger != scene.destination
            })
            .collect();
        let table = Table::new(&starting, ACTIONS, |at, action| Scene::of(at).ways(action, straight));
        Self { table, fickle }
    }
}

impl Environment for Taxi {
    type State = Ride;

    fn spaces(&self) -> Spaces {
        Spaces { observed: Observed::Discrete(STATES), acted: Acted::Discrete(ACTIONS) }
    }

    fn reset(&self, chance: &mut Chance) -> Self::State {
        let at = self.table.start(chance);
        Ride { at, fickle: self.fickle.is_some_and(|probability| chance.random() < probability) }
    }

    fn step(&self, state: &mut Self::State, action: &[f32], chance: &mut Chance) -> Outcome {
        let way = self.table.step(state.at, chosen(action, ACTIONS), chance);
        let (before, mut after) = (Scene::of(state.at), Scene::of(way.next));
        let has_moved = (before.row, before.column) != (after.row, after.column);
        if state.fickle && before.passenger == ABOARD && has_moved {
            state.fickle = false;
            // Any place but the one that was wanted.
            let other = chance.integers(PLACES.len() as u64 - 1) as usize;
            after.destination = other + usize::from(other >= before.destination);
        }
        state.at = after.number();
        Outcome { reward: way.reward, terminated: way.terminated }
    }

    fn observe(&self, state: &Self::State, into: &mut [f32]) {
        into[0] = state.at as f32;
    }

    fn numbers(&self, state: &Self::State) -> Vec<f64> {
        vec![state.at as f64, f64::from(u8::from(state.fickle))]
    }

    fn state(&self, numbers: &[f64]) -> Option<Self::State> {
        match *numbers {
            [at, fickle @ (0.0 | 1.0)] => Some(Ride { at: index(at, STATES)?, fickle: fickle == 1.0 }),
            _ => None,
        }
    }
}

impl Scene {
    fn of(at: usize) -> Self {
        let (at, destination) = (at / PLACES.len(), at % PLACES.len());
        let (at, passenger) = (at / (PLACES.len() + 1), at % (PLACES.len() + 1));
        Self { row: at / SIDE, column: at % SIDE, passenger, destination }
    }

    fn number(self) -> usize {
        ((self.row * SIDE + self.column) * (PLACES.len() + 1) + self.passenger) * PLACES.len() + self.destination
    }

    fn ways(self, action: usize, straight: Option<f64>) -> Vec<Way> {
        let way = |probability: f64, scene: Self, reward: f64| Way {
            probability,
            next: scene.number(),
            reward,
            terminated: reward > 0.0,
        };
        match (action, straight) {
            (0..4, None) => vec![way(1.0, self.moved(action), -1.0)],
            (0..4, Some(straight)) => {
                let ahead = self.moved(action);
                // Who cannot go ahead does not slide aside either.
                let can_go = ahead.number() != self.number();
                let aside = |direction| if can_go { self.moved(direction) } else { self };
                let ((left, right), drift) = (SIDES[action], (1.0 - straight) / 2.0);
                vec![way(straight, ahead, -1.0), way(drift, aside(left), -1.0), way(drift, aside(right), -1.0)]
            }
            (4, _) => {
                let is_there = self.place().is_some_and(|place| place == self.passenger);
                let passenger = if is_there { ABOARD } else { self.passenger };
                vec![way(1.0, Self { passenger, ..self }, if is_there { -1.0 } else { -10.0 })]
            }
            _ => match self.place().filter(|_| self.passenger == ABOARD) {
                None => vec![way(1.0, self, -10.0)],
                Some(place) => {
                    let reward = if place == self.destination { 20.0 } else { -1.0 };
                    vec![way(1.0, Self { passenger: place, ..self }, reward)]
                }
            },
        }
    }

    /// Which of the four places the taxi is at.
    fn place(self) -> Option<usize> {
        PLACES.iter().position(|place| *place == (self.row, self.column))
    }

    /// The taxi one cell on, unless a wall stands in its way.
    fn moved(self, direction: usize) -> Self {
        let Self { row, column, .. } = self;
        let (row, column) = match direction {
            0 => ((row + 1).min(SIDE - 1), column),
            1 => (row.saturating_sub(1), column),
            2 if column + 1 < SIDE && !has_wall(row, column) => (row, column + 1),
            3 if column > 0 && !has_wall(row, column - 1) => (row, column - 1),
            _ => (row, column),
        };
        Self { row, column, ..self }
    }
}

/// A wall stands east of this cell.
fn has_wall(row: usize, column: usize) -> bool {
    match row {
        0 | 1 => column == 1,
        2 => false,
        _ => column == 0 || column == 2,
    }
}
