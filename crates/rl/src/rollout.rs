//! What environments did under a policy, as columns.

use serde::{Deserialize, Serialize};

use crate::chance::Chance;
use crate::env::{Stepped, Vector};
use crate::filter::{Filter, FilterSpec};
use crate::nn::WeightsError;
use crate::policy::{Choice, Chosen, Policy};

/// Steps of environments side by side. Columns have a row per step and environment, by step first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// Steps of each environment.
    pub steps: usize,
    /// Environments.
    pub envs: usize,
    /// What was seen before each step.
    pub observed: Vec<f32>,
    /// What was done.
    pub actions: Vec<f32>,
    /// What that was chosen from.
    pub inputs: Vec<f32>,
    /// The logarithm of its probability.
    pub logp: Vec<f32>,
    /// What the state was thought to be worth.
    pub values: Vec<f32>,
    /// What it brought.
    pub rewards: Vec<f32>,
    /// The episode came to its end.
    pub terminated: Vec<bool>,
    /// The episode was cut off.
    pub truncated: Vec<bool>,
    /// Of steps that no other of this rollout follows: what the state behind is worth. Zero behind an episode's own end.
    pub following: Vec<f32>,
    /// Rows at which an episode was cut off.
    pub cut: Vec<u32>,
    /// What was seen last of each of those.
    pub last: Vec<f32>,
    /// What is seen behind the last step, by environment.
    pub open: Vec<f32>,
    /// Of a policy that remembers: what it did before the first step and then every so many, by environment.
    pub states: Vec<f32>,
    /// Which runner made it: rollouts of one follow each other.
    pub source: u64,
    /// Steps of each environment that this runner had made before.
    pub begins_at: u64,
}

impl Rollout {
    /// Whether it is known of each step what it led to, and nothing is there beside.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let rows = self.steps * self.envs;
        let is_column = |numbers: usize| numbers == 0 || numbers == rows;
        let ends = [self.rewards.len(), self.terminated.len(), self.truncated.len()];
        ends == [rows; 3]
            && self.observed.len() == self.steps * self.open.len()
            && is_column(self.logp.len())
            && is_column(self.values.len())
            && is_column(self.following.len())
    }

    /// The column of what follows, given what the states of `last` and then those of `open` are worth.
    #[must_use]
    pub fn following(&self, values: &[f32]) -> Vec<f32> {
        let mut following = vec![0.0; self.rewards.len()];
        let (of_cut, of_open) = values.split_at(self.cut.len());
        for (at, value) in self.cut.iter().zip(of_cut) {
            following[*at as usize] = *value;
        }
        let last = self.rewards.len().saturating_sub(self.envs);
        for (at, value) in (last..self.rewards.len()).zip(of_open) {
            if !self.terminated[at] && !self.truncated[at] {
                following[at] = *value;
            }
        }
        following
    }
}

/// An episode that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// All its rewards together.
    pub reward: f64,
    /// Its steps.
    pub length: u32,
}

/// So many rows are valued at once where the policy did not on its way: enough for full speed, few enough to stay near.
const ROWS_VALUED: usize = 256;

/// Drives environments by a policy and keeps what happens.
pub struct Runner {
    policy: Box<dyn Policy>,
    parameters: Vec<f32>,
    chance: Chance,
    rollout: Rollout,
    observed: Vec<f32>,
    /// With a filter: what that was made of.
    raw: Vec<f32>,
    filter: Option<Filter>,
    /// What the policy remembered when episodes were cut off.
    cut_states: Vec<f32>,
    /// Of each environment: what its episode has brought so far.
    running: Vec<Episode>,
    ended: Vec<Episode>,
}

impl Runner {
    /// For so many environments.
    #[must_use]
    pub fn new(mut policy: Box<dyn Policy>, envs: usize, seed: u64) -> Self {
        let mut chance = Chance::seeded(seed);
        // Runners that share a seed would do the same anyway.
        let source = seed;
        let parameters = policy.init(&mut chance);
        if let Some(memory) = policy.memory() {
            policy.set_states(&vec![0.0; envs * memory.numbers]);
        }
        let rollout = Rollout { envs, source, ..Rollout::default() };
        let running = vec![Episode { reward: 0.0, length: 0 }; envs];
        Self {
            policy,
            parameters,
            chance,
            rollout,
            observed: Vec::new(),
            raw: Vec::new(),
            filter: None,
            cut_states: Vec::new(),
            running,
            ended: Vec::new(),
        }
    }

    /// Episodes that have ended since this was last asked.
    pub fn take_episodes(&mut self) -> Vec<Episode> {
        std::mem::take(&mut self.ended)
    }

    /// How many environments there are.
    #[must_use]
    pub fn envs(&self) -> usize {
        self.rollout.envs
    }

    /// The policy that it acts by.
    #[must_use]
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// Takes over weights: a safetensors file.
    pub fn set_weights(&mut self, weights: &[u8]) -> Result<(), WeightsError> {
        self.policy.layout().unpack(weights, &mut self.parameters)
    }

    /// The parameters that it acts by.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }

    /// What it brings observations and rewards to one scale by; rollouts then hold what comes of that. Before anything is seen.
    pub fn set_filter(&mut self, spec: Option<FilterSpec>) {
        self.filter = spec.map(|spec| Filter::new(spec, self.policy.observed(), self.envs()));
    }

    /// What it brings observations and rewards to one scale by.
    pub fn filter_mut(&mut self) -> Option<&mut Filter> {
        self.filter.as_mut()
    }

    /// All that its next steps depend on beside the parameters. Between rollouts only.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let Self { chance, observed, raw, running, filter, policy, rollout, .. } = self;
        let (seen, place) = ((observed, raw), (rollout.source, rollout.begins_at));
        postcard::to_stdvec(&(chance, seen, running, filter, policy.states(), place)).expect("plain data")
    }

    /// Goes on from what was saved. False if that is of another runner: then nothing has changed.
    pub fn restore(&mut self, saved: &[u8]) -> bool {
        type Saved = (Chance, (Vec<f32>, Vec<f32>), Vec<Episode>, Option<Filter>, Vec<f32>, (u64, u64));
        let Ok((chance, (observed, raw), running, filter, states, place)) = postcard::from_bytes::<Saved>(saved) else {
            return false;
        };
        let seen = self.envs() * self.policy.observed();
        if states.len() != self.policy.states().len() {
            return false;
        }
        if running.len() != self.envs() || !(observed.is_empty() || observed.len() == seen) {
            return false;
        }
        if filter.as_ref().is_some_and(|filter| !filter.fits(self.policy.observed(), self.envs())) {
            return false;
        }
        (self.chance, self.observed, self.running, self.filter) = (chance, observed, running, filter);
        self.raw = raw;
        // Its rollouts follow those of whoever was saved.
        (self.rollout.source, self.rollout.begins_at) = place;
        self.policy.set_states(&states);
        true
    }

    /// What is seen now, in all environments.
    pub fn see(&mut self, observed: &[f32]) {
        self.observed.clear();
        self.observed.extend_from_slice(observed);
        if let Some(filter) = &mut self.filter {
            self.raw.clone_from(&self.observed);
            filter.observe(&mut self.observed);
        }
    }

    /// What is acted on now. If that is what was seen last it counts no second time.
    pub fn look(&mut self, observed: &[f32]) {
        if self.filter.is_none() || self.raw != observed {
            self.see(observed);
        }
    }

    /// Chooses an action for each environment, by what was seen last.
    pub fn act(&mut self, choice: Choice) -> &[f32] {
        self.note_seen();
        let Self { policy, parameters, chance, rollout, observed, .. } = self;
        let begin = rollout.actions.len();
        rollout.actions.resize(begin + rollout.envs * policy.actions(), 0.0);
        let Rollout { actions, inputs, logp, values, .. } = rollout;
        policy.act(
            parameters,
            observed,
            choice,
            chance,
            Chosen { actions: &mut actions[begin..], inputs, logp, values },
        );
        &self.rollout.actions[begin..]
    }

    /// Writes down what was seen last, and now and then what the policy remembers.
    fn note_seen(&mut self) {
        let Self { policy, rollout, observed, .. } = self;
        if policy.memory().is_some_and(|memory| rollout.steps.is_multiple_of(memory.steps)) {
            rollout.states.extend_from_slice(policy.states());
        }
        rollout.observed.extend_from_slice(observed);
    }

    /// Takes actions that somebody else chose, by what was seen last.
    pub fn told(&mut self, actions: &[f32]) {
        self.note_seen();
        let Self { policy, parameters, rollout, observed, .. } = self;
        let begin = rollout.actions.len();
        rollout.actions.extend_from_slice(actions);
        let Rollout { actions, inputs, logp, values, .. } = rollout;
        policy.told(parameters, observed, Chosen { actions: &mut actions[begin..], inputs, logp, values });
    }

    /// What the actions brought.
    pub fn observe(&mut self, stepped: &Stepped) {
        let rollout = &mut self.rollout;
        let begin = rollout.rewards.len();
        rollout.rewards.extend_from_slice(&stepped.rewards);
        rollout.terminated.extend_from_slice(&stepped.terminated);
        rollout.truncated.extend_from_slice(&stepped.truncated);
        rollout.steps += 1;
        let size = self.policy.observed();
        let memory = self.policy.memory().map(|memory| memory.numbers);
        for env in 0..rollout.envs {
            let running = &mut self.running[env];
            running.reward += f64::from(stepped.rewards[env]);
            running.length += 1;
            if stepped.truncated[env] || stepped.terminated[env] {
                self.ended.push(std::mem::replace(running, Episode { reward: 0.0, length: 0 }));
            }
            if stepped.truncated[env] && !stepped.terminated[env] {
                rollout.cut.push((begin + env) as u32);
                let kept = rollout.last.len();
                rollout.last.extend_from_slice(&stepped.last[env * size..(env + 1) * size]);
                if let Some(filter) = &self.filter {
                    filter.scale(&mut rollout.last[kept..]);
                }
                if let Some(size) = memory {
                    self.cut_states.extend_from_slice(&self.policy.states()[env * size..(env + 1) * size]);
                }
            }
            if memory.is_some() && (stepped.truncated[env] || stepped.terminated[env]) {
                self.policy.forget(env);
            }
        }
        if let Some(filter) = &mut self.filter {
            let ends = stepped.terminated.iter().zip(&stepped.truncated).map(|(end, cut)| *end || *cut);
            filter.reward(&mut rollout.rewards[begin..], ends);
        }
        self.see(&stepped.observed);
    }

    /// So many steps of native environments.
    pub fn run(&mut self, vector: &mut dyn Vector, steps: usize, choice: Choice, stepped: &mut Stepped) {
        for _ in 0..steps {
            let begin = self.rollout.actions.len();
            self.act(choice);
            vector.step(&self.rollout.actions[begin..], stepped);
            self.observe(stepped);
        }
    }

    /// Forgets the rollout that was begun, and the episodes in it: what comes is of others.
    pub fn forget(&mut self) {
        let Rollout { envs, source, begins_at, steps, .. } = self.rollout;
        // Behind a gap, so that nobody takes what comes for what followed.
        let begins_at = begins_at + steps as u64 + 1;
        self.rollout = Rollout { envs, source, begins_at, ..Rollout::default() };
        self.cut_states.clear();
        self.ended.clear();
        self.running.fill(Episode { reward: 0.0, length: 0 });
        (0..envs).for_each(|env| self.policy.forget(env));
        self.policy.rest();
    }

    /// Ends the rollout and gives it away; the next begins where this ends.
    pub fn take(&mut self) -> Rollout {
        let Rollout { envs, source, begins_at, steps, .. } = self.rollout;
        self.policy.rest();
        let begins_at = begins_at + steps as u64;
        let next = Rollout { envs, source, begins_at, ..Rollout::default() };
        let mut rollout = std::mem::replace(&mut self.rollout, next);
        rollout.open.clone_from(&self.observed);
        if rollout.values.is_empty() {
            for rows in rollout.observed.chunks(ROWS_VALUED * self.policy.observed().max(1)) {
                rollout.values.extend_from_slice(self.policy.values(&self.parameters, rows).unwrap_or(&[]));
            }
        }
        let rows: Vec<f32> = rollout.last.iter().chain(&rollout.open).copied().collect();
        let mut states = std::mem::take(&mut self.cut_states);
        states.extend_from_slice(self.policy.states());
        if let Some(values) = self.policy.values_after(&self.parameters, &rows, &states) {
            rollout.following = rollout.following(values);
        }
        rollout
    }
}
