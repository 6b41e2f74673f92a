//! Cross a frozen lake to the goal without falling into a hole. The ice is slippery: one may slide to either side of where one wants to go.

use super::table::{Table, Way, index};
use super::{EnvError, Environment, Outcome, Setting, Settings, chosen};
use crate::chance::Chance;
use crate::space::{Acted, Observed, Spaces};

const SMALL: [&str; 4] = ["SFFF", "FHFH", "FFFH", "HFFG"];
const LARGE: [&str; 8] =
    ["SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"];
/// Left, down, right, up.
const ACTIONS: usize = 4;

/// The rules. Settings: `map_name` (4x4 or 8x8), `desc` (rows of S, F, H and G), `is_slippery`, `success_rate`, `reward_schedule` (for the goal, a
/// hole and ice).
#[derive(Clone, Debug)]
pub struct FrozenLake {
    table: Table,
}

/// What a lake is made of.
struct Lake {
    /// Letters, row by row.
    cells: Vec<u8>,
    columns: usize,
    is_slippery: bool,
    success_rate: f64,
    /// For the goal, a hole and ice.
    rewards: [f64; 3],
}

impl FrozenLake {
    pub(super) fn configured(settings: &mut Settings<'_>, map_name: &str) -> Result<Self, EnvError> {
        let rows = match (settings.get("map_name"), settings.get("desc")) {
            (_, Some(desc)) => drawn(desc).ok_or_else(|| {
                settings.refuse("desc", "rows of one length, of the letters S, F, H and G, with at least one S", desc)
            })?,
            (None, None) if settings.is_nothing("map_name") => {
                return Err(settings.refuse("map_name", "\"4x4\" or \"8x8\"", &Setting::Nothing));
            }
            (None, None) => named(map_name).unwrap_or_default(),
            (Some(name), None) => match name {
                Setting::Text(text) => named(text),
                _ => None,
            }
            .ok_or_else(|| settings.refuse("map_name", "\"4x4\" or \"8x8\"", name))?,
        };
        let rewards = match settings.get("reward_schedule") {
            None => [1.0, 0.0, 0.0],
            Some(schedule) => {
                three(schedule).ok_or_else(|| settings.refuse("reward_schedule", "three finite numbers", schedule))?
            }
        };
        let lake = Lake {
            columns: rows[0].len(),
            cells: rows.concat().into_bytes(),
            is_slippery: settings.flag("is_slippery", true)?,
            success_rate: settings.probability("success_rate", 1.0 / 3.0)?,
            rewards,
        };
        let starting: Vec<bool> = lake.cells.iter().map(|cell| *cell == b'S').collect();
        Ok(Self { table: Table::new(&starting, ACTIONS, |cell, action| lake.ways(cell, action)) })
    }
}

impl Environment for FrozenLake {
    /// The cell, counted row by row.
    type State = usize;

    fn spaces(&self) -> Spaces {
        Spaces { observed: Observed::Discrete(self.table.states()), acted: Acted::Discrete(ACTIONS) }
    }

    fn reset(&self, chance: &mut Chance) -> Self::State {
        self.table.start(chance)
    }

    fn step(&self, state: &mut Self::State, action: &[f32], chance: &mut Chance) -> Outcome {
        let way = self.table.step(*state, chosen(action, ACTIONS), chance);
        *state = way.next;
        Outcome { reward: way.reward, terminated: way.terminated }
    }

    fn observe(&self, state: &Self::State, into: &mut [f32]) {
        into[0] = *state as f32;
    }

    fn numbers(&self, state: &Self::State) -> Vec<f64> {
        vec![*state as f64]
    }

    fn state(&self, numbers: &[f64]) -> Option<Self::State> {
        match *numbers {
            [number] => index(number, self.table.states()),
            _ => None,
        }
    }
}

impl Lake {
    fn ways(&self, cell: usize, action: usize) -> Vec<Way> {
        if matches!(self.cells[cell], b'G' | b'H') {
            return vec![Way { probability: 1.0, next: cell, reward: 0.0, terminated: true }];
        }
        if !self.is_slippery {
            return vec![self.way(cell, action, 1.0)];
        }
        let aside = (1.0 - self.success_rate) / 2.0;
        vec![
            self.way(cell, (action + ACTIONS - 1) % ACTIONS, aside),
            self.way(cell, action, self.success_rate),
            self.way(cell, (action + 1) % ACTIONS, aside),
        ]
    }

    fn way(&self, cell: usize, direction: usize, probability: f64) -> Way {
        let (row, column) = (cell / self.columns, cell % self.columns);
        let rows = self.cells.len() / self.columns;
        let (row, column) = match direction {
            0 => (row, column.saturating_sub(1)),
            1 => ((row + 1).min(rows - 1), column),
            2 => (row, (column + 1).min(self.columns - 1)),
            _ => (row.saturating_sub(1), column),
        };
        let next = row * self.columns + column;
        let (reward, terminated) = match self.cells[next] {
            b'G' => (self.rewards[0], true),
            b'H' => (self.rewards[1], true),
            _ => (self.rewards[2], false),
        };
        Way { probability, next, reward, terminated }
    }
}

fn named(name: &str) -> Option<Vec<String>> {
    let rows: &[&str] = match name {
        "4x4" => &SMALL,
        "8x8" => &LARGE,
        _ => return None,
    };
    Some(rows.iter().map(|&row| row.to_owned()).collect())
}

/// The rows that a user drew.
fn drawn(desc: &Setting) -> Option<Vec<String>> {
    let Setting::List(rows) = desc else { return None };
    let rows = rows.iter().map(|row| if let Setting::Text(row) = row { Some(row.clone()) } else { None });
    let rows: Vec<String> = rows.collect::<Option<_>>()?;
    let columns = rows.first()?.len();
    let is_whole = columns > 0 && rows.iter().all(|row| row.len() == columns);
    let is_lake = rows.iter().flat_map(|row| row.bytes()).all(|cell| b"SFHG".contains(&cell));
    let has_start = rows.iter().any(|row| row.contains('S'));
    (is_whole && is_lake && has_start).then_some(rows)
}

fn three(schedule: &Setting) -> Option<[f64; 3]> {
    let Setting::List(numbers) = schedule else { return None };
    let numbers: Vec<f64> = numbers.iter().map(Setting::number).collect::<Option<_>>()?;
    numbers.try_into().ok()
}
