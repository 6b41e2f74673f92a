//! What was seen, kept to learn from again: plain, or the surprising more often.

use std::collections::{BTreeMap, VecDeque};

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
    /// By runner and environment: steps that stand for several and still wait for some of them.
    tails: BTreeMap<(u64, u32), Tail>,
}

/// The newest steps of one environment, which its next rollout goes on from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Tail {
    /// What is seen behind the last of them.
    open: Vec<f32>,
    /// How many steps its runner had made by then.
    ends_at: u64,
    steps: VecDeque<Step>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Step {
    observed: Vec<f32>,
    action: Vec<f32>,
    reward: f32,
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
            tails: BTreeMap::new(),
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
    /// steps of an episode stand for fewer. Those at the rollout's end wait for the next one of the same runner; if that begins elsewhere,
    /// they stand for what there is.
    pub fn add(&mut self, rollout: &Rollout, n: usize, gamma: f32) {
        let (envs, size, n) = (rollout.envs, self.observed_size, n.max(1));
        let cut: BTreeMap<u32, usize> = rollout.cut.iter().enumerate().map(|(index, row)| (*row, index)).collect();
        let observed = |row: usize| &rollout.observed[row * size..(row + 1) * size];
        let open = |env: usize| &rollout.open[env * size..(env + 1) * size];
        let mut tails: Vec<Tail> = (0..envs).map(|env| self.resumed(rollout, env, n, gamma)).collect();
        for row in 0..rollout.steps * envs {
            let (tail, env) = (&mut tails[row % envs], row % envs);
            let action = rollout.actions[row * self.action_size..(row + 1) * self.action_size].to_vec();
            tail.steps.push_back(Step { observed: observed(row).to_vec(), action, reward: rollout.rewards[row] });
            let has_ended = rollout.terminated[row] || rollout.truncated[row];
            let following = match cut.get(&(row as u32)) {
                _ if rollout.terminated[row] => observed(row),
                Some(index) => &rollout.last[index * size..(index + 1) * size],
                None if row / envs + 1 == rollout.steps => open(env),
                None => observed(row + envs),
            };
            let worth = if rollout.terminated[row] { 0.0 } else { gamma };
            let kept = if has_ended { 0 } else { n - 1 };
            self.settle(&mut tail.steps, kept, following, (gamma, worth));
        }
        for (env, mut tail) in tails.into_iter().enumerate().filter(|(_, tail)| !tail.steps.is_empty()) {
            tail.open.clear();
            tail.open.extend_from_slice(open(env));
            tail.ends_at = rollout.begins_at + rollout.steps as u64;
            self.tails.insert((rollout.source, env as u32), tail);
        }
    }

    /// What waits for this rollout. What waited for another that has not come is added as it is.
    fn resumed(&mut self, rollout: &Rollout, env: usize, n: usize, gamma: f32) -> Tail {
        let Some(mut tail) = self.tails.remove(&(rollout.source, env as u32)) else { return Tail::default() };
        let begin = env * self.observed_size;
        let goes_on = rollout.steps > 0
            && rollout.begins_at == tail.ends_at
            && rollout.observed[begin..begin + self.observed_size] == tail.open;
        let open = std::mem::take(&mut tail.open);
        // Where targets have begun to look less far ahead, some have waited for enough already.
        let kept = if goes_on { n - 1 } else { 0 };
        self.settle(&mut tail.steps, kept, &open, (gamma, gamma));
        tail
    }

    /// Adds the oldest of these steps, each standing for all behind it as well, until so many are left. `worth`: of what follows the last of
    /// them, in place of the discount.
    fn settle(&mut self, steps: &mut VecDeque<Step>, kept: usize, following: &[f32], (gamma, worth): (f32, f32)) {
        while steps.len() > kept {
            let (mut reward, mut factor) = (0.0, 1.0);
            for (at, step) in steps.iter().enumerate() {
                reward += factor * step.reward;
                factor *= if at + 1 == steps.len() { worth } else { gamma };
            }
            let Some(Step { observed, action, .. }) = steps.pop_front() else { return };
            self.push(Row { observed: &observed, action: &action, reward, following, discount: factor });
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

    /// Whether some rows are drawn more often than others.
    #[must_use]
    pub const fn is_prioritised(&self) -> bool {
        self.tree.is_some()
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
        all(&replay)
    }

    fn all(replay: &Replay) -> Vec<(f32, f32, f32, f32)> {
        let row = |row: u32| replay.row(row);
        let count = u32::try_from(replay.len()).unwrap();
        (0..count).map(|at| (row(at).observed[0], row(at).reward, row(at).following[0], row(at).discount)).collect()
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
    fn several_steps_add_up_until_the_episode_ends_and_wait_at_the_rollout_s_end() {
        let expected = [(10.0, 2.0, 10.0, 0.0), (0.0, 1.0 + 2.0, 1.5, 0.25), (1.0, 4.0, 1.5, 0.5)];
        assert_eq!(rows(3), expected);
    }

    /// A step of the second environment was once worth less than it brought whenever a rollout ended behind it, which with rollouts of one
    /// step was always.
    #[test]
    fn rollouts_of_one_step_bring_what_one_long_rollout_brings() {
        let (mut whole, mut cut) = (Replay::new(20, 1, 1, false), Replay::new(20, 1, 1, false));
        let long = rollout();
        whole.add(&long, 2, 0.5);
        for step in 0..3 {
            let at = 2 * step..2 * step + 2;
            let open = if step == 2 { long.open.clone() } else { long.observed[2 * step + 2..2 * step + 4].to_vec() };
            let is_cut = step == 1;
            cut.add(
                &Rollout {
                    steps: 1,
                    observed: long.observed[at.clone()].to_vec(),
                    actions: long.actions[at.clone()].to_vec(),
                    rewards: long.rewards[at.clone()].to_vec(),
                    terminated: long.terminated[at.clone()].to_vec(),
                    truncated: long.truncated[at].to_vec(),
                    cut: if is_cut { vec![0] } else { vec![] },
                    last: if is_cut { vec![1.5] } else { vec![] },
                    open,
                    begins_at: step as u64,
                    ..long.clone()
                },
                2,
                0.5,
            );
        }
        assert_eq!(all(&whole), all(&cut));
        assert_eq!(whole.len(), 4, "the last step of each waits");
    }

    #[test]
    fn what_waits_for_a_rollout_that_does_not_come_stands_for_what_there_is() {
        let elsewhere = Rollout { observed: vec![7.0, 8.0, 1.0, 20.0, 2.0, 21.0], begins_at: 3, ..rollout() };
        let later = Rollout { begins_at: 4, ..rollout() };
        for next in [elsewhere, later] {
            let mut replay = Replay::new(20, 1, 1, false);
            replay.add(&rollout(), 3, 0.5);
            replay.add(&next, 3, 0.5);
            let waited = [(2.0, 16.0, 3.0, 0.5), (20.0, 8.0 + 16.0, 22.0, 0.25), (21.0, 32.0, 22.0, 0.5)];
            assert_eq!(all(&replay)[3..6], waited);
        }
    }

    #[test]
    fn another_runner_s_rollout_ends_nobody_s_wait() {
        let mut replay = Replay::new(20, 1, 1, false);
        replay.add(&rollout(), 3, 0.5);
        replay.add(&Rollout { source: 9, ..rollout() }, 3, 0.5);
        assert_eq!(replay.len(), 6);
        let on = Rollout { observed: vec![3.0, 22.0, 1.0, 20.0, 2.0, 21.0], begins_at: 3, ..rollout() };
        replay.add(&on, 3, 0.5);
        let first = (2.0, 16.0 + 0.5 + 0.25 * 4.0, 1.5, 0.125);
        assert!(all(&replay).contains(&first), "{:?}", all(&replay));
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
