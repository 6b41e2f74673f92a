//! Whether the carrier's thread stays awake for a moment after something has happened. Pure.
//!
//! Most of what a call between nodes takes is waking threads on cores that sleep. Whoever has just passed something on is often needed again at
//! once, so it looks around a little longer, and lets others run meanwhile. Where one of those needs the core for itself this costs more than
//! it gives: then the thread sleeps as others do, for a while.

use model::Tick;

/// How long it stays awake.
const LINGER_US: u64 = 60;
/// What a call without much to carry takes.
const LITTLE_BYTES: usize = 4 * 1024;
/// Whoever kept the core for so long did not just pass something on.
const BUSY_US: u64 = 100;
/// After that it does not stay awake for so long, and twice as long each time that it happens again
const REST_US: u64 = 5_000;
const REST_US_MAX: u64 = 1_000_000;
/// within this time.
const CALM_US: u64 = 2_000_000;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Linger {
    moved: Option<Tick>,
    /// When somebody kept the core, and how long this rested after that.
    kept: Option<(Tick, u64)>,
}

impl Linger {
    /// Something has happened, and so many bytes have come or gone. Of many, more are taken at a time by who comes later.
    pub(crate) fn moved(&mut self, now: Tick, bytes: usize) {
        self.moved = (bytes <= LITTLE_BYTES).then_some(now);
    }

    /// Whether to look around once more before sleeping.
    pub(crate) fn stays(&self, now: Tick) -> bool {
        let is_recent = self.moved.is_some_and(|moved| now.0 < moved.0 + LINGER_US);
        is_recent && self.kept.is_none_or(|(kept, rest_us)| now.0 >= kept.0 + rest_us)
    }

    /// Others were let run.
    pub(crate) fn let_run(&mut self, before: Tick, after: Tick) {
        if after.0.saturating_sub(before.0) >= BUSY_US {
            let again = self.kept.filter(|(kept, rest_us)| after.0 < kept.0 + rest_us + CALM_US);
            self.kept = Some((after, again.map_or(REST_US, |(_, rest_us)| (2 * rest_us).min(REST_US_MAX))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_for_a_moment_after_something_has_happened() {
        let mut linger = Linger::default();
        assert!(!linger.stays(Tick(1_000)), "nothing has");
        linger.moved(Tick(1_000), LITTLE_BYTES);
        assert!(linger.stays(Tick(1_000 + LINGER_US - 1)) && !linger.stays(Tick(1_000 + LINGER_US)));
        linger.moved(Tick(2_000), LITTLE_BYTES + 1);
        assert!(!linger.stays(Tick(2_000)), "more of it comes together");
    }

    #[test]
    fn it_does_not_beside_others_that_need_the_core_and_ever_less_often() {
        let mut linger = Linger::default();
        let (mut now, mut rests) = (Tick(1_000), Vec::new());
        for _ in 0..10 {
            linger.moved(now, 0);
            assert!(linger.stays(now));
            let kept = Tick(now.0 + BUSY_US);
            linger.let_run(now, kept);
            now = kept;
            while !linger.stays(now) {
                now = Tick(now.0 + 1_000);
                linger.moved(now, 0);
            }
            rests.push((now.0 - kept.0) / 1_000);
        }
        assert_eq!(rests, [5, 10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        now = Tick(now.0 + CALM_US);
        linger.let_run(now, Tick(now.0 + BUSY_US));
        assert_eq!(linger.kept.unwrap().1, REST_US, "it has been calm since");
        linger.let_run(now, Tick(now.0 + BUSY_US - 1));
        assert_eq!(linger.kept.unwrap().0, Tick(now.0 + BUSY_US), "who only passes something on is no reason");
    }
}
