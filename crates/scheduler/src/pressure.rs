//! What to do when the machine runs low on memory: start nothing new, make room, then end one worker after the other.
//!
//! Pure: looks in, verdicts out. Who is looked at and how memory is measured is the body's business.
//!
//! - **MEM-1** nobody is killed by the first look that finds memory low: making room comes first.
//! - **MEM-2** one at a time: the next one is killed only after a look that did not find the last one any more.
//! - **MEM-3** what can be run again goes before what cannot, tasks go before actors, and of equals the newest goes.
//! - **MEM-4** what has begun since the last look is spared: it has hardly used anything yet.
//!
//! The newest has done least, and what was there before it got along without it.

use model::ProcId;
use rustc_hash::FxHashMap;

/// Memory counts as low this much earlier if programs already stand still for want of it.
const STALLED_SHARE: f64 = 0.95;
/// Percent of the time in which all of them did.
const STALLED_PERCENT: f64 = 10.0;

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// A task that may be run again.
    Retriable,
    /// A task that may not.
    Final,
    /// An actor.
    Actor,
}

/// One worker that does something.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    /// The worker.
    pub worker: ProcId,
    /// The work that it does.
    pub work: Work,
    /// Another number for each thing that it does.
    pub number: u32,
}

/// The machine at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// Bytes that cannot be had without taking them from somebody.
    pub used: u64,
    /// Bytes that there are.
    pub total: u64,
    /// Percent of the last seconds in which everyone waited for memory, where that is known.
    pub stalled_percent: Option<f64>,
    /// Who works, those that were leased first first.
    pub busy: &'a [Busy],
}

/// What shall be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    /// Nothing.
    Nothing,
    /// Give back and write out whatever can be.
    MakeRoom,
    /// End this worker.
    Kill {
        /// The worker.
        worker: ProcId,
        /// Nothing else worked: it would be no better the next time.
        is_alone: bool,
    },
}

/// What a look came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Nothing new may start.
    pub is_low: bool,
    /// What shall be done.
    pub relief: Relief,
}

/// Watches the memory of one node.
pub struct Watch {
    threshold: f64,
    was_low: bool,
    victim: Option<ProcId>,
    /// What each worker did when it was last looked at, and its place in the order of beginnings.
    begun: FxHashMap<ProcId, (u32, u64)>,
    beginnings: u64,
}

impl Watch {
    /// Memory is low when this share of it is used.
    #[must_use]
    pub fn new(threshold: f64) -> Self {
        Self { threshold, was_low: false, victim: None, begun: FxHashMap::default(), beginnings: 0 }
    }

    /// The only way to change a watch. Same looks, same verdicts.
    pub fn look(&mut self, look: &Look<'_>) -> Verdict {
        let known = self.beginnings;
        self.note_beginnings(look.busy);
        let is_low = self.is_low(look);
        let relief = match is_low {
            false => Relief::Nothing,
            true if !self.was_low => Relief::MakeRoom,
            true if self.victim.is_some_and(|victim| self.begun.contains_key(&victim)) => Relief::Nothing,
            true => self.pick(look.busy, known),
        };
        self.was_low = is_low;
        if let Relief::Kill { worker, .. } = relief {
            self.victim = Some(worker);
        }
        Verdict { is_low, relief }
    }

    fn is_low(&self, look: &Look<'_>) -> bool {
        let share = look.used as f64 / look.total.max(1) as f64;
        let is_stalled = look.stalled_percent.is_some_and(|percent| percent >= STALLED_PERCENT);
        share >= self.threshold || (is_stalled && share >= self.threshold * STALLED_SHARE)
    }

    fn note_beginnings(&mut self, busy: &[Busy]) {
        let mut begun = FxHashMap::default();
        for one in busy {
            let known = self.begun.get(&one.worker).copied().filter(|(number, _)| *number == one.number);
            let entry = known.unwrap_or_else(|| {
                self.beginnings += 1;
                (one.number, self.beginnings)
            });
            begun.insert(one.worker, entry);
        }
        self.begun = begun;
    }

    /// Of those that began before the last look.
    fn pick(&self, busy: &[Busy], known: u64) -> Relief {
        let order = |one: &&Busy| (std::cmp::Reverse(one.work), self.begun[&one.worker].1);
        match busy.iter().filter(|one| self.begun[&one.worker].1 <= known).max_by_key(order) {
            Some(one) => Relief::Kill { worker: one.worker, is_alone: busy.len() == 1 },
            None => Relief::Nothing,
        }
    }
}
