//! What was seen, kept to learn from again: plain, or the surprising more often.

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::rollout::Rollout;

/// Steps of environments, each with what came of it; the oldest go first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replay {
    /// How many there may be.
    capacity: usize,
    observed_size: usize,
    action_size: usize,
    observed: Vec<f32>,
    actions: Vec<f32>,
    rewards: Vec<f32>,
    following: Vec<f32>,
    /// What the value behind is multiplied with: zero behind an episode's own end.
    discounts: Vec<f32>,
    /// Where the next one goes.
    at: usize,
    /// How often each is drawn, if not all equally.
    tree: Option<SumTree>,
    /// The largest priority so far: a new one is drawn at least once.
    most: f64,
}

/// Which rows were drawn, and how much each counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// Rows of the buffer.
    pub rows: Vec<u32>,
    /// How much each counts, at most one.
    pub weights: Vec<f32>,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// What was seen.
    pub observed: &'a [f32],
    /// What was done.
    pub action: &'a [f32],
    /// What it brought, over all steps that the row stands for.
    pub reward: f32,
    /// What was seen behind.
    pub following: &'a [f32],
    /// What the value behind is multiplied with.
    pub discount: f32,
}

impl Replay {
    /// Room for so many. `is_prioritised`: rows are drawn by their priorities.
    #[must_use]
    pub fn new(capacity: usize, observed_size: usize, action_size: usize, is_prioritised: bool) -> Self {
        let capacity = capacity.max(1);
        Self {
            capacity,
            observed_size,
            action_size,
            observed: Vec::new(),
            actions: Vec::new(),
            rewards: Vec::new(),
            following: Vec::new(),
            discounts: Vec::new(),
            at: 0,
            tree: is_prioritised.then(|| SumTree::new(capacity)),
            most: 1.0,
        }
    }

    /// Whether it is of these sizes.
    #[must_use]
    pub fn fits(&self, observed_size: usize, action_size: usize) -> bool {
        (self.observed_size, self.action_size) == (observed_size, action_size)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rewards.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rewards.is_empty()
    }

    /// Adds the steps of a rollout. Each stands for up to `n` steps: their rewards together, and what is seen behind the last of them. The last
    /// steps of an episode stand for fewer; so do those before the rollout's end.
    pub fn add(&mut self, rollout: &Rollout, n: usize, gamma: f32) {
        let (envs, size) = (rollout.envs, self.observed_size);
        let cut: std::collections::BTreeMap<u32, usize> =
            rollout.cut.iter().enumerate().map(|(index, row)| (*row, index)).collect();
        let observed = |row: usize| &rollout.observed[row * size..(row + 1) * size];
        for step in 0..rollout.steps {
            for env in 0..envs {
                let begin = step * envs + env;
                let (mut reward, mut factor, mut row) = (0.0, 1.0, begin);
                for ahead in 0..n.max(1) {
                    row = begin + ahead * envs;
                    reward += factor * rollout.rewards[row];
                    factor *= gamma;
                    let is_last = row / envs + 1 == rollout.steps;
                    if rollout.terminated[row] || rollout.truncated[row] || is_last {
                        break;
                    }
                }
                let (following, discount) = match cut.get(&(row as u32)) {
                    _ if rollout.terminated[row] => (observed(row), 0.0),
                    Some(index) => (&rollout.last[index * size..(index + 1) * size], factor),
                    None if row / envs + 1 == rollout.steps => (&rollout.open[env * size..(env + 1) * size], factor),
                    None => (observed(row + envs), factor),
                };
                let action = &rollout.actions[begin * self.action_size..(begin + 1) * self.action_size];
                self.push(Row { observed: observed(begin), action, reward, following, discount });
            }
        }
    }

    fn push(&mut self, row: Row<'_>) {
        let put = |column: &mut Vec<f32>, at: usize, values: &[f32]| {
            let begin = at * values.len();
            if begin == column.len() {
                column.extend_from_slice(values);
            } else {
                column[begin..begin + values.len()].copy_from_slice(values);
            }
        };
        put(&mut self.observed, self.at, row.observed);
        put(&mut self.actions, self.at, row.action);
        put(&mut self.rewards, self.at, &[row.reward]);
        put(&mut self.following, self.at, row.following);
        put(&mut self.discounts, self.at, &[row.discount]);
        if let Some(tree) = &mut self.tree {
            tree.set(self.at, self.most);
        }
        self.at = (self.at + 1) % self.capacity;
    }

    /// One of the rows.
    #[must_use]
    pub fn row(&self, row: u32) -> Row<'_> {
        let row = row as usize;
        Row {
            observed: &self.observed[row * self.observed_size..(row + 1) * self.observed_size],
            action: &self.actions[row * self.action_size..(row + 1) * self.action_size],
            reward: self.rewards[row],
            following: &self.following[row * self.observed_size..(row + 1) * self.observed_size],
            discount: self.discounts[row],
        }
    }

    /// Draws so many rows. `beta`: how far the weights make up for some being drawn more often.
    pub fn draw(&self, count: usize, beta: f64, chance: &mut Chance, into: &mut Drawn) {
        into.rows.clear();
        into.weights.clear();
        let len = self.len();
        if len == 0 {
            return;
        }
        let Some(tree) = &self.tree else {
            into.rows.extend((0..count).map(|_| chance.integers(len as u64) as u32));
            into.weights.resize(count, 1.0);
            return;
        };
        let (all, least) = (tree.sum(), tree.least());
        let weight = |priority: f64| (len as f64 * priority / all).powf(-beta);
        let most = weight(least);
        for _ in 0..count {
            let row = tree.find(chance.random() * all).min(len - 1);
            into.rows.push(row as u32);
            into.weights.push((weight(tree.get(row)) / most) as f32);
        }
    }

    /// How surprising these rows were when they were learned from.
    pub fn set_priorities(&mut self, rows: &[u32], surprises: &[f32], alpha: f64) {
        let Some(tree) = &mut self.tree else { return };
        for (row, surprise) in rows.iter().zip(surprises) {
            let priority = (f64::from(surprise.abs()) + 1e-6).powf(alpha);
            self.most = self.most.max(priority);
            tree.set(*row as usize, priority);
        }
    }
}

/// Sums and least values over halves, halves of halves and so on: finds the place of a share in the logarithm of the size.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SumTree {
    /// The root is at 1; the children of `i` at `2i` and `2i + 1`; the leaves are the second half.
    sums: Vec<f64>,
    /// Arranged as the sums. Of leaves that were never set: more than any.
    leasts: Vec<f64>,
}

impl SumTree {
    fn new(capacity: usize) -> Self {
        let len = 2 * capacity.next_power_of_two();
        Self { sums: vec![0.0; len], leasts: vec![f64::MAX; len] }
    }

    fn leaves(&self) -> usize {
        self.sums.len() / 2
    }

    fn sum(&self) -> f64 {
        self.sums[1]
    }

    fn get(&self, leaf: usize) -> f64 {
        self.sums[self.leaves() + leaf]
    }

    fn least(&self) -> f64 {
        self.leasts[1]
    }

    fn set(&mut self, leaf: usize, value: f64) {
        let mut at = self.leaves() + leaf;
        (self.sums[at], self.leasts[at]) = (value, value);
        while at > 1 {
            at /= 2;
            self.sums[at] = self.sums[2 * at] + self.sums[2 * at + 1];
            self.leasts[at] = self.leasts[2 * at].min(self.leasts[2 * at + 1]);
        }
    }

    /// The leaf at which the sum of all before and itself passes this.
    fn find(&self, mut share: f64) -> usize {
        let mut at = 1;
        while at < self.leaves() {
            at *= 2;
            // What rounding leaves at the end goes to the last that has any.
            if share >= self.sums[at] && self.sums[at + 1] > 0.0 {
                share -= self.sums[at];
                at += 1;
            }
        }
        at - self.leaves()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Drawn, Replay, SumTree};
    use crate::chance::Chance;
    use crate::rollout::Rollout;

    /// Two environments, three steps; the first is cut off behind its second step, the second ends by itself behind its first.
    fn rollout() -> Rollout {
        Rollout {
            steps: 3,
            envs: 2,
            observed: vec![0.0, 10.0, 1.0, 20.0, 2.0, 21.0],
            actions: vec![0.0, 1.0, 1.0, 0.0, 0.0, 1.0],
            rewards: vec![1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
            terminated: vec![false, true, false, false, false, false],
            truncated: vec![false, false, true, false, false, false],
            cut: vec![2],
            last: vec![1.5],
            open: vec![3.0, 22.0],
            ..Rollout::default()
        }
    }

    fn rows(n: usize) -> Vec<(f32, f32, f32, f32)> {
        let mut replay = Replay::new(10, 1, 1, false);
        replay.add(&rollout(), n, 0.5);
        let row = |row: u32| replay.row(row);
        (0..6).map(|at| (row(at).observed[0], row(at).reward, row(at).following[0], row(at).discount)).collect()
    }

    #[test]
    fn a_step_is_followed_by_the_next_observation_the_last_of_a_cut_episode_or_nothing() {
        let expected = [
            (0.0, 1.0, 1.0, 0.5),
            (10.0, 2.0, 10.0, 0.0),
            (1.0, 4.0, 1.5, 0.5),
            (20.0, 8.0, 21.0, 0.5),
            (2.0, 16.0, 3.0, 0.5),
            (21.0, 32.0, 22.0, 0.5),
        ];
        assert_eq!(rows(1), expected);
    }

    #[test]
    fn several_steps_add_up_until_the_episode_or_the_rollout_ends() {
        let expected = [
            (0.0, 1.0 + 2.0, 1.5, 0.25),
            (10.0, 2.0, 10.0, 0.0),
            (1.0, 4.0, 1.5, 0.5),
            (20.0, 8.0 + 16.0, 22.0, 0.25),
            (2.0, 16.0, 3.0, 0.5),
            (21.0, 32.0, 22.0, 0.5),
        ];
        assert_eq!(rows(3), expected);
    }

    #[test]
    fn the_oldest_go_first() {
        let mut replay = Replay::new(4, 1, 1, true);
        replay.add(&rollout(), 1, 0.5);
        assert_eq!(replay.len(), 4);
        let seen: Vec<f32> = (0..4).map(|row| replay.row(row).observed[0]).collect();
        assert_eq!(seen, [2.0, 21.0, 1.0, 20.0]);
    }

    #[test]
    fn the_surprising_are_drawn_more_often_and_count_less() {
        let mut replay = Replay::new(6, 1, 1, true);
        replay.add(&rollout(), 1, 0.5);
        replay.set_priorities(&[0, 1, 2, 3, 4, 5], &[1.0, 1.0, 4.0, 1.0, 1.0, 1.0], 1.0);
        let (mut drawn, mut chance) = (Drawn::default(), Chance::seeded(3));
        replay.draw(90_000, 1.0, &mut chance, &mut drawn);
        let share = drawn.rows.iter().filter(|row| **row == 2).count() as f64 / 90_000.0;
        assert!((share - 4.0 / 9.0).abs() < 0.01, "{share}");
        let of = |wanted: u32| drawn.rows.iter().position(|row| *row == wanted).map(|at| drawn.weights[at]).unwrap();
        assert!((of(2) - 0.25).abs() < 1e-5 && (of(0) - 1.0).abs() < 1e-5);
    }

    proptest! {
        #[test]
        fn a_share_is_found_where_the_sums_pass_it(values in prop::collection::vec(0.01..10.0_f64, 1..40), share in 0.0..1.0_f64) {
            let mut tree = SumTree::new(values.len());
            values.iter().enumerate().for_each(|(leaf, value)| tree.set(leaf, *value));
            let share = share * tree.sum();
            let found = tree.find(share);
            let before: f64 = values[..found].iter().sum();
            prop_assert!(found < values.len());
            prop_assert_eq!(tree.least(), values.iter().copied().fold(f64::MAX, f64::min));
            prop_assert!(before <= share + 1e-9 && share <= before + values[found] + 1e-9);
        }
    }
}
