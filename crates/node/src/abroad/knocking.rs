//! How often strangers may knock, and what is said of them. Pure.

use model::Tick;

/// What a caller costs, in parts of which there are so many a millisecond. To be taken is cheap; a handshake is a signature and two
/// multiplications on a curve.
const PER_MS: i64 = 4;
const CALL: i64 = 1;
const HANDSHAKE: i64 = 16;
/// What nobody has used is kept up to here.
const KEPT_MAX: i64 = 4_096;
/// Once it is used up the system holds callers back until there is so much again.
const ENOUGH: i64 = 256;

/// What callers may cost, together. Over a long time some 4,000 calls a second, or 250 handshakes: a small part of a core.
pub(crate) struct Knocking {
    left: i64,
    at: Tick,
    /// Nobody is taken before.
    pub(crate) closed_until: Option<Tick>,
}

impl Knocking {
    pub(crate) fn new(now: Tick) -> Self {
        Self { left: KEPT_MAX, at: now, closed_until: None }
    }

    /// Whether one more may be taken; if not, nobody is for a while.
    pub(crate) fn may_come(&mut self, now: Tick) -> bool {
        let passed_ms = now.ms_since(self.at);
        self.left = self.left.saturating_add(PER_MS.saturating_mul(passed_ms as i64)).min(KEPT_MAX);
        self.at = self.at.plus_ms(passed_ms);
        if self.left > 0 {
            self.left -= CALL;
            return true;
        }
        self.close(now, ((ENOUGH - self.left) / PER_MS) as u64);
        false
    }

    pub(crate) fn shakes_hands(&mut self) {
        self.left -= HANDSHAKE;
    }

    pub(crate) fn close(&mut self, now: Tick, for_ms: u64) {
        self.closed_until = Some(now.plus_ms(for_ms));
    }

    /// Whether the time has come to take callers again.
    pub(crate) fn opens(&mut self, now: Tick) -> bool {
        self.closed_until.take_if(|until| *until <= now).is_some()
    }
}

/// Warnings of which strangers could cause any number.
const WARNINGS: u64 = 10;
/// One more is said after so long.
const WARNING_MS: u64 = 5_000;

pub(crate) struct Warnings {
    left: u64,
    at: Tick,
    unsaid: u64,
}

impl Warnings {
    pub(crate) fn new(now: Tick) -> Self {
        Self { left: WARNINGS, at: now, unsaid: 0 }
    }

    /// If one may be said: how many were not since the last.
    pub(crate) fn say(&mut self, now: Tick) -> Option<u64> {
        let more = now.ms_since(self.at) / WARNING_MS;
        self.left = (self.left + more).min(WARNINGS);
        self.at = self.at.plus_ms(more * WARNING_MS);
        if self.left == 0 {
            self.unsaid += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::{Knocking, Warnings};
    use model::Tick;

    fn ms(ms: u64) -> Tick {
        Tick(0).plus_ms(ms)
    }

    /// Takes whoever comes in that time; how many.
    fn taken(knocking: &mut Knocking, span_ms: std::ops::Range<u64>, handshakes: bool) -> u64 {
        let mut count = 0;
        for now in span_ms {
            if knocking.closed_until.is_some() && !knocking.opens(ms(now)) {
                continue;
            }
            while knocking.may_come(ms(now)) {
                count += 1;
                if handshakes {
                    knocking.shakes_hands();
                }
            }
        }
        count
    }

    #[test]
    fn a_flood_is_held_back_and_who_comes_later_is_taken() {
        let mut knocking = Knocking::new(ms(0));
        let count = taken(&mut knocking, 0..10_000, false);
        assert!((40_000..50_000).contains(&count), "{count} in ten seconds");
        let mut knocking = Knocking::new(ms(0));
        let count = taken(&mut knocking, 0..10_000, true);
        assert!((2_000..3_000).contains(&count), "{count} handshakes in ten seconds");
        assert!(knocking.may_come(ms(20_000)));
    }

    #[test]
    fn what_is_not_said_is_counted_and_told_with_the_next() {
        let mut warnings = Warnings::new(ms(0));
        let said = (0..1_000).filter(|_| warnings.say(ms(1)).is_some()).count();
        assert_eq!(said, 10);
        assert_eq!(warnings.say(ms(5_001)), Some(990));
        assert_eq!(warnings.say(ms(5_002)), None);
        assert_eq!((0..100).filter(|_| warnings.say(ms(10_000_000)).is_some()).count(), 10);
    }
}
