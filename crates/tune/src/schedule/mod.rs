//! Who goes on, pauses or stops.
//!
//! Every scheduler here is a state machine over events of the form (trial, time, value): no clock, no file, and chance only from a seed. The same
//! events in the same order give the same decisions, so that an experiment's journal rebuilds its scheduler.
//!
//! - `asha`: halving without waiting. `hyperband`: halving in rounds, also for BOHB. `median`: worse than half of the others.
//! - `pbt`: bad trials go on from good ones with changed parameters. `pb2`: which parameters, by a model of what has paid so far.
//!
//! A trial is a number here, counted up from 0 by each scheduler's `add`. Whoever holds the trials keeps the way back.
//!
//! - **SCHED-T1** a value that is not finite is worse than every finite one, whatever the mode.

pub mod asha;
mod bracket;
mod chance;
mod gp;
pub mod hyperband;
pub mod median;
pub mod pb2;
pub mod pbt;

use serde::{Deserialize, Serialize};

/// A trial, by the order in which the scheduler got it.
pub type Trial = u32;

/// What a trial that has just reported does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It trains on.
    Continue,
    /// It gives its place up and may go on later.
    Pause,
    /// It has ended.
    Stop,
}

/// Which end of the metric is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Small values are good.
    Min,
    /// Large values are good.
    Max,
}

impl Mode {
    /// The value as a score, of which more is always better. SCHED-T1: what is not finite is the worst.
    pub fn score(self, value: f64) -> f64 {
        match self {
            _ if !value.is_finite() => f64::NEG_INFINITY,
            Mode::Min => -value,
            Mode::Max => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mode;

    #[test]
    fn sched_t1_what_is_not_finite_is_worst_in_both_modes() {
        for mode in [Mode::Min, Mode::Max] {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                assert!(mode.score(value) < mode.score(1e300) && mode.score(value) < mode.score(-1e300));
            }
        }
        assert!(Mode::Min.score(1.0) > Mode::Min.score(2.0));
        assert!(Mode::Max.score(1.0) < Mode::Max.score(2.0));
    }
}
