//! A ball falls from the top of a picture; catch it with the paddle at the bottom. One pixel each, in a picture of ten rows and five columns.

use serde::{Deserialize, Serialize};

use super::table::index;
use super::{Environment, Outcome, chosen};
use crate::chance::Chance;
use crate::space::{Acted, Observed, Spaces};

const ROWS: usize = 10;
const COLUMNS: usize = 5;
const PIXELS: usize = ROWS * COLUMNS;

/// The rules: left, nothing or right; 1 for a ball that is caught and -1 for one that is not, both at the end.
#[derive(Clone, Debug, Default)]
pub struct Catch;

/// Where the ball and the paddle are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fall {
    row: usize,
    column: usize,
    paddle: usize,
}

impl Environment for Catch {
    type State = Fall;

    fn spaces(&self) -> Spaces {
        // An image of one channel, the channel last.
        let observed = Observed::Box { shape: vec![ROWS, COLUMNS, 1], low: vec![0.0; PIXELS], high: vec![1.0; PIXELS] };
        Spaces { observed, acted: Acted::Discrete(3) }
    }

    fn reset(&self, chance: &mut Chance) -> Self::State {
        Fall { row: 0, column: chance.integers(COLUMNS as u64) as usize, paddle: COLUMNS / 2 }
    }

    fn step(&self, state: &mut Self::State, action: &[f32], _: &mut Chance) -> Outcome {
        state.paddle = (state.paddle + chosen(action, 3)).saturating_sub(1).min(COLUMNS - 1);
        state.row += 1;
        let terminated = state.row == ROWS - 1;
        let reward = match (terminated, state.column == state.paddle) {
            (false, _) => 0.0,
            (true, true) => 1.0,
            (true, false) => -1.0,
        };
        Outcome { reward, terminated }
    }

    fn observe(&self, state: &Self::State, into: &mut [f32]) {
        into.fill(0.0);
        into[state.row * COLUMNS + state.column] = 1.0;
        into[(ROWS - 1) * COLUMNS + state.paddle] = 1.0;
    }

    /// The ball's row and column, the paddle's column.
    fn numbers(&self, state: &Self::State) -> Vec<f64> {
        [state.row, state.column, state.paddle].map(|number| number as f64).to_vec()
    }

    fn state(&self, numbers: &[f64]) -> Option<Self::State> {
        match *numbers {
            [row, column, paddle] => Some(Fall {
                // In the last row it has ended.
                row: index(row, ROWS - 1)?,
                column: index(column, COLUMNS)?,
                paddle: index(paddle, COLUMNS)?,
            }),
            _ => None,
        }
    }
}
