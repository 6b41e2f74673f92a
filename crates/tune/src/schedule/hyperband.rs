//! HyperBand: brackets of many short and of few long trials, each cut in rounds. Whoever is through with a round waits for the rest of it.
//!
//! - **HB-1** a round ends when every trial that is still in it has reached its milestone; then the best `size / eta` go on.
//! - **HB-2** it never hangs: while a trial is neither ended nor stopped, somebody may run, or the last event has said what happens.
//! - **HB-3** a trial that was stopped or has ended is never resumed.

use serde::{Deserialize, Serialize};

use super::bracket::Bracket;
pub use super::bracket::Shape;
use super::{Decision, Mode, Trial};

/// In which order brackets are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Filling {
    /// The one with the fewest and longest trials first; a round ends although the bracket is not full.
    SmallestFirst,
    /// The one with the most and shortest trials first; trials wait until the bracket is full, so that a searcher such as BOHB's learns from whole
    /// rounds. Nobody waits for trials that do not come: see `Hyperband::settle`.
    LargestFirst,
}

/// How to cut.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// Which values are good.
    pub mode: Mode,
    /// Where trials are stopped at the latest.
    pub max_t: u64,
    /// One of how many goes on, and how much longer.
    pub eta: f64,
    /// Whether trials are stopped at the end of the last round.
    pub stop_last_trials: bool,
    /// Which bracket comes first.
    pub filling: Filling,
}

/// The scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hyperband {
    options: Options,
    /// How many brackets make a band.
    width: u32,
    brackets: Vec<Bracket>,
    /// The bracket of each trial.
    places: Vec<usize>,
    /// The next bracket's number within all bands, also of those too short to be run.
    next: u32,
    stopped: u64,
}

/// What an event means for the trial it came from, and for others.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// For the trial that reported.
    pub decision: Decision,
    /// Others, all paused, that are cut.
    pub stop: Vec<Trial>,
    /// Others, all paused, that may run again.
    pub resume: Vec<Trial>,
}

/// A bracket as people see it.
#[derive(Debug, PartialEq)]
pub struct View {
    /// Counted from 0.
    pub band: u32,
    /// Its present round.
    pub shape: Shape,
    /// 0 to 1.
    pub progress: f64,
    /// All that were ever in it.
    pub members: Vec<Trial>,
}

impl Hyperband {
    /// A scheduler that has seen nothing.
    pub fn new(options: Options) -> Self {
        let width = ((options.max_t as f64).ln() / options.eta.ln()).round() as u32 + 1;
        Self { options, width, brackets: Vec::new(), places: Vec::new(), next: 0, stopped: 0 }
    }

    /// A new trial: into the bracket that is being filled, or into the next one.
    pub fn add(&mut self) -> Trial {
        let trial = self.places.len() as Trial;
        if !self.brackets.last().is_some_and(Bracket::has_room) {
            let shape = self.next_shape();
            let Options { eta, max_t, stop_last_trials, .. } = self.options;
            self.brackets.push(Bracket::new(shape, eta, max_t, stop_last_trials));
        }
        let place = self.brackets.len() - 1;
        self.brackets[place].add(trial);
        self.places.push(place);
        trial
    }

    /// What a trial, and those who waited for it, do after it reported this.
    pub fn result(&mut self, trial: Trial, t: f64, value: f64) -> Outcome {
        let place = self.places[trial as usize];
        let bracket = &mut self.brackets[place];
        if !bracket.update(trial, t, self.options.mode.score(value)) {
            return Outcome::of(Decision::Stop); // HB-3: it was cut, and had not heard of it yet
        }
        let awaits_others = self.options.filling == Filling::LargestFirst && bracket.has_room();
        if awaits_others && bracket.live.iter().any(|entry| entry.trial == trial && !bracket.goes_on(entry)) {
            return Outcome::of(Decision::Pause);
        }
        self.turn(place, Some(trial))
    }

    /// A trial has ended, however: done, failed, taken away. Those who waited for it may be through with their round.
    pub fn end(&mut self, trial: Trial) -> Outcome {
        let place = self.places[trial as usize];
        self.brackets[place].remove(trial);
        match self.options.filling {
            Filling::SmallestFirst => self.turn(place, None),
            Filling::LargestFirst => Outcome::of(Decision::Continue), // somebody new may take its place
        }
    }

    /// Trials that have still to run in their round, the ones to run first in front, running ones among them. At most `count`.
    pub fn runnable(&self, count: usize) -> Vec<Trial> {
        let mut order: Vec<usize> = (0..self.brackets.len()).collect();
        if self.options.filling == Filling::SmallestFirst {
            let key = |place: &usize| (self.brackets[*place].shape.size, *place);
            // Earlier bands first, and in a band whoever is furthest behind.
            order.sort_by(|a, b| {
                let progress = |place: &usize| self.brackets[*place].progress();
                let band = |place: &usize| self.band(*place);
                band(a).cmp(&band(b)).then(progress(a).total_cmp(&progress(b))).then_with(|| key(a).cmp(&key(b)))
            });
        }
        let brackets = order.into_iter().map(|place| &self.brackets[place]);
        let open = brackets.flat_map(|bracket| {
            let running = bracket.live.iter().filter(|entry| bracket.goes_on(entry));
            running.map(|entry| entry.trial).collect::<Vec<_>>()
        });
        open.take(count).collect()
    }

    /// Nothing runs, nothing new has come and nobody is runnable: rounds that waited for more trials end without them (HB-2).
    pub fn settle(&mut self) -> Outcome {
        let mut all = Outcome::of(Decision::Continue);
        for place in 0..self.brackets.len() {
            if self.brackets[place].is_round_done() {
                let outcome = self.turn(place, None);
                all.stop.extend(outcome.stop);
                all.resume.extend(outcome.resume);
            }
        }
        all
    }

    /// Where the round of a trial ends.
    pub fn milestone(&self, trial: Trial) -> u64 {
        self.brackets[self.places[trial as usize]].shape.milestone
    }

    /// How many trials were cut.
    pub fn stopped(&self) -> u64 {
        self.stopped
    }

    /// All brackets, in the order in which they were opened.
    pub fn views(&self) -> Vec<View> {
        let view = |(place, bracket): (usize, &Bracket)| View {
            band: self.band(place),
            shape: bracket.shape,
            progress: bracket.progress(),
            members: bracket.members.clone(),
        };
        self.brackets.iter().enumerate().map(view).collect()
    }

    fn turn(&mut self, place: usize, reporting: Option<Trial>) -> Outcome {
        let bracket = &mut self.brackets[place];
        let was_done = bracket.is_round_done();
        let cut = bracket.turn();
        self.stopped += cut.dropped.len() as u64;
        let gone: Vec<Trial> = cut.dropped.into_iter().chain(cut.finished).collect();
        let runs = |trial| bracket.live.iter().any(|entry| entry.trial == trial && bracket.goes_on(entry));
        let decision = match reporting {
            Some(trial) if gone.contains(&trial) => Decision::Stop,
            Some(trial) if !runs(trial) => Decision::Pause,
            _ => Decision::Continue,
        };
        let others = |trial: &Trial| Some(*trial) != reporting;
        let resume = bracket.live.iter().map(|entry| entry.trial).filter(|trial| was_done && runs(*trial));
        Outcome {
            decision,
            resume: resume.filter(others).collect(),
            stop: gone.iter().copied().filter(others).collect(),
        }
    }

    /// Brackets of a band count from 0; s is how often the trials of one are cut.
    fn next_shape(&mut self) -> Shape {
        loop {
            let number = self.next % self.width;
            self.next += 1;
            let halvings = match self.options.filling {
                Filling::SmallestFirst => number,
                Filling::LargestFirst => self.width - 1 - number,
            };
            let eta = self.options.eta;
            let size = (f64::from(self.width) / f64::from(halvings + 1) * eta.powi(halvings as i32)).ceil() as usize;
            // The last digit of a power must not cost a whole step.
            let milestone = (self.options.max_t as f64 * eta.powi(-(halvings as i32)) + 1e-9) as u64;
            if milestone > 0 {
                return Shape { size, milestone, halvings };
            }
        }
    }

    fn band(&self, place: usize) -> u32 {
        let short =
            (0..self.width).filter(|s| (self.options.max_t as f64 * self.options.eta.powi(-(*s as i32)) + 1e-9) < 1.0);
        place as u32 / (self.width - short.count() as u32)
    }
}

impl Outcome {
    fn of(decision: Decision) -> Self {
        Self { decision, stop: Vec::new(), resume: Vec::new() }
    }
}

#[cfg(test)]
#[path = "hyperband_tests.rs"]
mod tests;
