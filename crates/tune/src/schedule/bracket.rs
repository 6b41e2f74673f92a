//! One bracket of HyperBand: so many trials, run to a milestone, of which the best go on to the next.

use serde::{Deserialize, Serialize};

use super::Trial;

/// The shape of a bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// How many trials it takes in its present round.
    pub size: usize,
    /// Where that round ends.
    pub milestone: u64,
    /// How often it is still cut.
    pub halvings: u32,
}

/// A bracket with its trials.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Bracket {
    pub(super) shape: Shape,
    pub(super) live: Vec<Entry>,
    /// All trials that were ever in it.
    pub(super) members: Vec<Trial>,
    /// The last round is over; it takes no more trials.
    pub(super) is_closed: bool,
    eta: f64,
    max_t: u64,
    stop_last: bool,
    work_done: f64,
    work: f64,
}

/// A trial that is still in the race.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) trial: Trial,
    pub(super) t: f64,
    pub(super) score: f64,
}

/// What ending a round did to those in it.
#[derive(Debug, Default)]
pub(super) struct Cut {
    pub(super) dropped: Vec<Trial>,
    /// The bracket is over: its last trials have run their time.
    pub(super) finished: Vec<Trial>,
}

impl Bracket {
    pub(super) fn new(shape: Shape, eta: f64, max_t: u64, stop_last: bool) -> Self {
        let mut work = 0.0;
        let (mut step, mut reached) = (shape, 0);
        for _ in 0..=shape.halvings {
            work += step.size as f64 * (step.milestone - reached) as f64;
            reached = step.milestone;
            step = next_round(step, eta, max_t);
        }
        Self {
            shape,
            live: Vec::new(),
            members: Vec::new(),
            is_closed: false,
            eta,
            max_t,
            stop_last,
            work_done: 0.0,
            work,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        !self.is_closed && self.live.len() < self.shape.size
    }

    /// Also into a later round: who comes late catches up.
    pub(super) fn add(&mut self, trial: Trial) {
        self.live.push(Entry { trial, t: 0.0, score: f64::NEG_INFINITY });
        self.members.push(trial);
    }

    /// False if the trial is no longer in the race.
    pub(super) fn update(&mut self, trial: Trial, t: f64, score: f64) -> bool {
        let Some(entry) = self.live.iter_mut().find(|entry| entry.trial == trial) else { return false };
        self.work_done += (t - entry.t).max(0.0);
        entry.t = t;
        entry.score = score;
        true
    }

    pub(super) fn remove(&mut self, trial: Trial) {
        self.live.retain(|entry| entry.trial != trial);
    }

    /// Whether this one has still to run in this round.
    pub(super) fn goes_on(&self, entry: &Entry) -> bool {
        // A time that is no number counts as through, so that it cannot hold up the others for ever.
        let is_behind = entry.t < self.shape.milestone as f64;
        is_behind || (!self.stop_last && self.shape.halvings == 0)
    }

    pub(super) fn is_round_done(&self) -> bool {
        !self.live.is_empty() && !self.live.iter().any(|entry| self.goes_on(entry))
    }

    /// Ends rounds until somebody has to run again or nobody is left.
    pub(super) fn turn(&mut self) -> Cut {
        let mut cut = Cut::default();
        while self.is_round_done() {
            if self.shape.halvings == 0 {
                cut.finished.extend(self.live.drain(..).map(|entry| entry.trial));
                self.is_closed = true;
                break;
            }
            self.shape = next_round(self.shape, self.eta, self.max_t);
            // Best first; of equals the one that came first stays.
            self.live.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.trial.cmp(&b.trial)));
            let keep = self.shape.size.min(self.live.len());
            cut.dropped.extend(self.live.drain(keep..).map(|entry| entry.trial));
        }
        cut
    }

    /// How much of its work is done, 0 to 1. Trials that end early leave it below 1.
    pub(super) fn progress(&self) -> f64 {
        if self.is_closed { 1.0 } else { (self.work_done / self.work).min(1.0) }
    }
}

fn next_round(shape: Shape, eta: f64, max_t: u64) -> Shape {
    Shape {
        size: (shape.size as f64 / eta).ceil() as usize,
        milestone: ((shape.milestone as f64 * eta) as u64).min(max_t),
        halvings: shape.halvings.saturating_sub(1),
    }
}
