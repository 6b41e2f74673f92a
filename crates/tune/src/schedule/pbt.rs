//! Population based training: at intervals, a trial of the lower quantile goes on from one of the upper, with changed parameters.
//!
//! - **PBT-1** only trials of the lower quantile exploit, and always one of the upper, never themselves, never one whose score is not finite.
//! - **PBT-2** before the burn-in and within an interval nothing happens.
//! - **PBT-3** in step with each other, a round begins when all live trials wait for it, also when the last one ends instead of reporting.
//! - **PBT-4** what an exploit draws depends on the seed and on the exploit's number alone, so that leaving one out changes no other.

use serde::{Deserialize, Serialize};

use super::chance::Chance;
use super::{Mode, Trial};

/// How to train a population.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// Which values are good.
    pub mode: Mode,
    /// After how much time a trial is looked at again.
    pub perturbation_interval: f64,
    /// Before this time nobody is looked at.
    pub burn_in_period: f64,
    /// Which share of the population is the upper and the lower one; at most a half.
    pub quantile_fraction: f64,
    /// How often a parameter is drawn afresh instead of changed a little.
    pub resample_probability: f64,
    /// What numbers are multiplied with, one of these.
    pub perturbation_factors: Vec<f64>,
    /// Whether all trials wait for each other at each interval.
    pub is_synchronous: bool,
    /// All chance comes from here.
    pub seed: u64,
}

/// The scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pbt {
    options: Options,
    members: Vec<Member>,
    chance: Chance,
    exploits: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Member {
    score: Option<f64>,
    perturbed_at: f64,
    trained_to: f64,
    /// It has reported and waits for the others; in step only.
    waits: bool,
    has_ended: bool,
}

/// What a result means.
#[derive(Clone, Debug, PartialEq)]
pub enum Advice {
    /// The trial trains on.
    Continue,
    /// It is time: this is done with the trial. It makes room if others wait.
    Look(Step),
    /// In step: the trial waits for the others.
    Wait,
    /// In step: all are there, and this is done with each. Then all may run again.
    Round(Vec<Step>),
}

/// What is done with one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whom it is done with.
    pub trial: Trial,
    /// It is one of the best: its state is kept for others to go on from.
    pub save: bool,
    /// It is one of the worst: it goes on from another.
    pub exploit: Option<Exploit>,
}

/// From whom to go on, and which number the exploit has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exploit {
    /// One of the best.
    pub donor: Trial,
    /// For `Pbt::explore`.
    pub draw: u64,
}

/// A parameter that may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gene {
    /// One of a list, in its order.
    Listed {
        /// How many there are.
        count: usize,
        /// Which one it is; none if it is not in the list.
        at: Option<usize>,
    },
    /// A number, from a domain or a function.
    Drawn,
    /// Something from a domain or a function that cannot be multiplied.
    Word,
}

/// What happens to a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// It becomes this one of its list.
    Pick(usize),
    /// It becomes its neighbour in the list; at the ends it may stay what it is.
    Shift {
        /// Which one it becomes.
        to: usize,
        /// Whether it was to go right.
        is_right: bool,
    },
    /// It is drawn afresh, with this seed.
    Resample(u64),
    /// It is multiplied.
    Scale(f64),
}

impl Pbt {
    /// A population of none.
    pub fn new(options: Options) -> Self {
        Self { members: Vec::new(), chance: Chance::seeded(options.seed), exploits: 0, options }
    }

    /// A new trial.
    pub fn add(&mut self) -> Trial {
        self.members.push(Member::default());
        (self.members.len() - 1) as Trial
    }

    /// What is done after a trial reported this.
    pub fn result(&mut self, trial: Trial, t: f64, value: f64) -> Advice {
        let score = self.options.mode.score(value);
        let member = &mut self.members[trial as usize];
        let is_due = t >= self.options.burn_in_period && t - member.perturbed_at >= self.options.perturbation_interval;
        if !is_due {
            return Advice::Continue; // PBT-2
        }
        member.score = Some(score);
        member.trained_to = t;
        if !self.options.is_synchronous {
            member.perturbed_at = t;
            let (lower, upper) = self.quantiles();
            return Advice::Look(self.step(trial, &lower, &upper));
        }
        member.waits = true;
        match self.round() {
            Some(steps) => Advice::Round(steps),
            None => Advice::Wait,
        }
    }

    /// A trial has ended, however. PBT-3: if all others wait for it, their round begins.
    pub fn end(&mut self, trial: Trial) -> Option<Vec<Step>> {
        let member = &mut self.members[trial as usize];
        member.has_ended = true;
        member.waits = false;
        self.round()
    }

    /// An exploit took place: the trial is now as old as the one it goes on from.
    pub fn exploited(&mut self, trial: Trial, donor: Trial) {
        let Member { perturbed_at, trained_to, .. } = self.members[donor as usize];
        let member = &mut self.members[trial as usize];
        member.perturbed_at = perturbed_at;
        member.trained_to = trained_to;
    }

    /// Whether a trial may run, and how far it has come: who is furthest behind runs first.
    pub fn turn(&self, trial: Trial) -> Option<f64> {
        let member = &self.members[trial as usize];
        (!member.waits && !member.has_ended).then_some(member.trained_to)
    }

    /// How far up a trial is: its last score when it was looked at.
    pub fn score(&self, trial: Trial) -> Option<f64> {
        self.members[trial as usize].score
    }

    /// The worst and the best, worst first. Empty with fewer than two to compare.
    pub fn quantiles(&self) -> (Vec<Trial>, Vec<Trial>) {
        let live = self.members.iter().enumerate().filter(|(_, member)| !member.has_ended);
        let mut ranked: Vec<(f64, Trial)> =
            live.filter_map(|(number, member)| Some((member.score?, number as Trial))).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let share = (ranked.len() as f64 * self.options.quantile_fraction).ceil() as usize;
        let count = share.min(ranked.len() / 2);
        let trials = |part: &[(f64, Trial)]| part.iter().map(|(_, trial)| *trial).collect::<Vec<_>>();
        let upper = &ranked[ranked.len() - count..];
        // Nobody learns from what is not a number.
        let finite = upper.iter().position(|(score, _)| score.is_finite()).unwrap_or(count);
        (trials(&ranked[..count]), trials(&upper[finite..]))
    }

    /// What an exploit changes (PBT-4).
    pub fn explore(&self, draw: u64, genes: &[Gene]) -> Vec<Change> {
        let mut chance = Chance::keyed(self.options.seed, draw);
        genes.iter().map(|gene| self.mutate(*gene, &mut chance)).collect()
    }

    /// The seed for the first values of a trial that came without some of its parameters.
    pub fn birth(&self, trial: Trial) -> u64 {
        Chance::keyed(!self.options.seed, u64::from(trial)).next()
    }

    fn mutate(&self, gene: Gene, chance: &mut Chance) -> Change {
        let is_fresh = chance.unit() < self.options.resample_probability;
        match gene {
            Gene::Listed { count, at: Some(at) } if !is_fresh => {
                let is_right = chance.below(2) == 1;
                let to = if is_right { (at + 1).min(count - 1) } else { at.saturating_sub(1) };
                Change::Shift { to, is_right }
            }
            Gene::Listed { count, .. } => Change::Pick(chance.below(count)),
            Gene::Drawn if !is_fresh && !self.options.perturbation_factors.is_empty() => {
                let factors = &self.options.perturbation_factors;
                Change::Scale(factors[chance.below(factors.len())])
            }
            Gene::Drawn | Gene::Word => Change::Resample(chance.next()),
        }
    }

    /// The steps of a round, if everybody waits for it: the best first, so that they are saved before others go on from them.
    fn round(&mut self) -> Option<Vec<Step>> {
        let mut live = self.members.iter().filter(|member| !member.has_ended).peekable();
        if !self.options.is_synchronous || live.peek().is_none() || !live.all(|member| member.waits) {
            return None;
        }
        let (lower, upper) = self.quantiles();
        let waiting: Vec<Trial> =
            (0..self.members.len() as Trial).filter(|trial| self.members[*trial as usize].waits).collect();
        let middle = waiting.into_iter().filter(|trial| !lower.contains(trial) && !upper.contains(trial));
        let order: Vec<Trial> = upper.iter().copied().chain(middle).chain(lower.iter().copied()).collect();
        let now = order.iter().map(|trial| self.members[*trial as usize].trained_to).fold(0.0, f64::max);
        for &trial in &order {
            let member = &mut self.members[trial as usize];
            member.perturbed_at = now;
            member.waits = false;
        }
        Some(order.iter().map(|trial| self.step(*trial, &lower, &upper)).collect())
    }

    fn step(&mut self, trial: Trial, lower: &[Trial], upper: &[Trial]) -> Step {
        let save = upper.contains(&trial);
        let exploit = (lower.contains(&trial) && !upper.is_empty()).then(|| {
            let donor = upper[self.chance.below(upper.len())];
            assert_ne!(donor, trial, "PBT-1: a trial goes on from itself");
            self.exploits += 1;
            Exploit { donor, draw: self.exploits }
        });
        Step { trial, save, exploit }
    }
}

#[cfg(test)]
#[path = "pbt_tests.rs"]
mod tests;
