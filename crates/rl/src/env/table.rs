//! Worlds that are a table: of every state and action, the ways that it may go, and how probable each is.

use crate::chance::Chance;

/// One way that an action may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Way {
    pub(super) probability: f64,
    pub(super) next: usize,
    pub(super) reward: f64,
    pub(super) terminated: bool,
}

/// The ways of all states and actions.
#[derive(Clone, Debug)]
pub(super) struct Table {
    actions: usize,
    /// How probable a start in this state or one before it is.
    starts: Vec<f64>,
    ways: Vec<Way>,
    /// Where the ways of a state and action begin; one more at the end.
    begins: Vec<usize>,
}

impl Table {
    /// A table where an episode begins in each of some states alike. `starting` says which; one state at least.
    pub(super) fn new(starting: &[bool], actions: usize, ways: impl Fn(usize, usize) -> Vec<Way>) -> Self {
        let share = 1.0 / starting.iter().filter(|starting| **starting).count() as f64;
        let sums = starting.iter().scan(0.0, |sum, &starting| {
            *sum += if starting { share } else { 0.0 };
            Some(*sum)
        });
        let mut table = Self { actions, starts: sums.collect(), ways: Vec::new(), begins: vec![0] };
        for state in 0..starting.len() {
            for action in 0..actions {
                table.ways.extend(ways(state, action));
                table.begins.push(table.ways.len());
            }
        }
        table
    }

    pub(super) fn states(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn start(&self, chance: &mut Chance) -> usize {
        let drawn = chance.random();
        let state = self.starts.partition_point(|&sum| sum <= drawn);
        if state < self.starts.len() { state } else { 0 }
    }

    /// The way that it goes. Chance is asked also where there is one way only, as gymnasium does.
    pub(super) fn step(&self, state: usize, action: usize, chance: &mut Chance) -> Way {
        let at = state * self.actions + action;
        let ways = &self.ways[self.begins[at]..self.begins[at + 1]];
        ways[chance.choice(ways.iter().map(|way| way.probability))]
    }
}

/// The index that one number is, below a count.
pub(super) fn index(number: f64, count: usize) -> Option<usize> {
    (number >= 0.0 && number.fract() == 0.0 && number < count as f64).then_some(number as usize)
}
