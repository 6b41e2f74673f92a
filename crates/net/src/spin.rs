//! Whether a waiter may spin instead of sleeping.
//!
//! Waking a sleeper on an idle core costs some 27 us on a virtual machine; spinning on a core that somebody else needs costs a whole time
//! slice. So a waiter spins only while no more threads want to run than there are cores (it is one of them), only if it gets one of
//! the node's tokens, and only as long as spinning has paid off lately. What runs is sampled by waiters themselves: nothing is
//! sampled while nobody waits.
//!
//! The system counts the threads of the whole machine that want to run, also for processes that affinity or a container limits to a
//! few of its cores. So they are held against all cores that are online: that says whether the machine has room, and no more can be
//! known of a few of its cores. As many waiters spin as there are tokens, one per core that the node may use; one that is often put
//! off its core spins less. Who is told that a call is on its way (`bell`) spins until it is there, whatever paid off lately: that says nothing
//! about spinning for calls of which nobody tells.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use crate::clock::now_ns;
use crate::segment::Segment;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Tokens at most, whatever the number of cores.
const TOKENS_MAX: usize = 64;
/// A sample is believed for so long.
const SAMPLE_NS: u64 = 500_000;
/// Longest spin for one wait.
const SPIN_NS_MAX: u64 = 100_000;
/// The same where a call is announced, however often.
const SPIN_ANNOUNCED_NS_MAX: u64 = 300_000;
/// Shortest, once spinning has not paid off: enough to notice when it would again.
const SPIN_NS_MIN: u64 = 3_000;

/// The first page of the segment.
#[repr(C)]
pub struct SpinPage {
    /// Cores that this node's processes may use.
    pub cores: AtomicU32,
    /// Threads that wanted to run at the last sample, smoothed, in sixteenths.
    runnable_x16: AtomicU32,
    /// When that was.
    sampled_ns: AtomicU64,
    /// Who spins: process slot + 1, or zero. A dead holder's slots are cleared by the node.
    tokens: [AtomicU32; TOKENS_MAX],
}

impl SpinPage {
    /// Whether more threads wanted to run than there are cores when a waiter last looked.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        is_crowd(self.runnable_x16.load(Ordering::Relaxed), self.cores.load(Ordering::Relaxed), cores_online())
    }

    /// Whether a waiter whom somebody wakes ahead of time has a core to spin on.
    #[must_use]
    pub fn has_room_to_spin(&self) -> bool {
        self.cores.load(Ordering::Relaxed) > 1 && !self.is_crowded()
    }

    /// Frees the tokens of a dead process.
    pub fn clear(&self, slot: u16) {
        for token in &self.tokens {
            let _ = token.compare_exchange(u32::from(slot) + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Whether so many sixteenths of threads are too many for a machine with this many cores, of which the node may use some.
fn is_crowd(runnable_x16: u32, usable: u32, online: u32) -> bool {
    runnable_x16 > usable.max(online) * 16 + 6
}

/// Whether a waiter spins on after so long, with so much that it may and a limit set by its caller.
fn goes_on(spun_ns: u64, budget_ns: u64, limit_ns: u64, is_announced: impl Fn() -> bool) -> bool {
    spun_ns <= budget_ns.min(limit_ns) || (spun_ns <= SPIN_ANNOUNCED_NS_MAX.min(limit_ns) && is_announced())
}

/// The machine's cores, whatever this process is limited to.
fn cores_online() -> u32 {
    static CORES: OnceLock<u32> = OnceLock::new();
    // SAFETY: no arguments that could be wrong.
    *CORES.get_or_init(|| u32::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(0))
}

/// What waiters do, for benchmarks that compare: `EAGLERAY_SPIN`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// As this module says.
    Auto,
    /// Sleep at once.
    Never,
    /// Spin as long as one may, whoever else wants to run.
    Always,
}

impl Policy {
    fn from_env() -> Self {
        match std::env::var("EAGLERAY_SPIN").as_deref() {
            Ok("never") => Self::Never,
            Ok("always") => Self::Always,
            _ => Self::Auto,
        }
    }
}

/// One waiter's judgement. Kept per thread that waits.
pub struct Spinner {
    loadavg: Option<File>,
    slot: u16,
    budget_ns: u64,
    involuntary: i64,
    cores: usize,
    policy: Policy,
}

impl Spinner {
    /// For the process in `slot`.
    #[must_use]
    pub fn new(segment: &Segment, slot: u16) -> Self {
        let cores = segment.spin().cores.load(Ordering::Relaxed).max(1) as usize;
        let loadavg = File::open("/proc/loadavg").ok();
        Self { loadavg, slot, budget_ns: SPIN_NS_MAX / 2, involuntary: 0, cores, policy: Policy::from_env() }
    }

    /// Spins until `done` says so, `limit_ns` is over or spinning is no longer worth it, which it is as long as what is waited for
    /// `is_announced`. Returns whether it is done.
    pub fn spin(
        &mut self,
        page: &SpinPage,
        limit_ns: u64,
        is_announced: impl Fn() -> bool,
        mut done: impl FnMut() -> bool,
    ) -> bool {
        if done() {
            return true;
        }
        if self.policy == Policy::Always {
            let start = now_ns();
            while now_ns() - start < SPIN_NS_MAX.min(limit_ns) {
                if done() {
                    return true;
                }
                std::hint::spin_loop();
            }
            return false;
        }
        if self.cores < 2 || !self.machine_has_room(page) || self.policy == Policy::Never {
            return false;
        }
        let Some(token) = self.take_token(page) else { return false };
        let start = now_ns();
        let (mut won, mut was_announced) = (false, false);
        'spinning: loop {
            for _ in 0..32 {
                if done() {
                    won = true;
                    break 'spinning;
                }
                std::hint::spin_loop();
            }
            let spun_ns = now_ns() - start;
            if !goes_on(spun_ns, self.budget_ns, limit_ns, &is_announced) {
                break;
            }
            was_announced = spun_ns > self.budget_ns;
        }
        token.store(0, Ordering::Release);
        // A spin cut short by its caller says nothing about spinning.
        if !was_announced && (won || self.budget_ns <= limit_ns) {
            self.learn(won);
        }
        won
    }

    fn learn(&mut self, won: bool) {
        if won {
            self.budget_ns = (self.budget_ns * 2).min(SPIN_NS_MAX);
        } else {
            self.budget_ns = (self.budget_ns * 3 / 4).max(SPIN_NS_MIN);
        }
    }

    fn take_token<'a>(&self, page: &'a SpinPage) -> Option<&'a AtomicU32> {
        // As many as cores: the one waited for lets its token go only when it has seen the answer.
        let tokens = &page.tokens[..self.cores.clamp(1, TOKENS_MAX)];
        let mine = u32::from(self.slot) + 1;
        tokens.iter().find(|token| {
            token.load(Ordering::Relaxed) == 0
                && token.compare_exchange(0, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Whether everyone who wants to run, this waiter included, has a core.
    fn machine_has_room(&mut self, page: &SpinPage) -> bool {
        let now = now_ns();
        let sampled = page.sampled_ns.load(Ordering::Relaxed);
        if now.saturating_sub(sampled) > SAMPLE_NS
            && page.sampled_ns.compare_exchange(sampled, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            && let Some(running) = self.runnable()
        {
            let old = page.runnable_x16.load(Ordering::Relaxed);
            // A first sample counts in full; later ones move the average by a quarter.
            let new =
                if old == 0 || now - sampled > 50 * SAMPLE_NS { running * 16 } else { (old * 3 + running * 16) / 4 };
            page.runnable_x16.store(new, Ordering::Relaxed);
            let involuntary = involuntary_switches();
            if involuntary - self.involuntary > 1 {
                self.learn(false);
            }
            self.involuntary = involuntary;
        }
        !page.is_crowded()
    }

    fn runnable(&self) -> Option<u32> {
        let mut text = [0_u8; 64];
        let length = self.loadavg.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        text.split(' ').nth(3)?.split('/').next()?.parse().ok()
    }
}

fn involuntary_switches() -> i64 {
    // SAFETY: plain data; getrusage fills it or fails.
    unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        if libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) == 0 { usage.ru_nivcsw } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::{SPIN_ANNOUNCED_NS_MAX, cores_online, goes_on, is_crowd};

    #[test]
    fn as_many_threads_as_cores_are_no_crowd() {
        assert!(!is_crowd(2 * 16 + 6, 2, 2));
        assert!(is_crowd(2 * 16 + 7, 2, 2), "a third one wants to run for a good part of the time");
    }

    /// Thirty busy cores elsewhere on the machine kept a container of four from ever spinning.
    #[test]
    fn what_runs_on_the_machines_other_cores_is_no_crowd() {
        assert!(!is_crowd(30 * 16, 4, 64));
        assert!(is_crowd(65 * 16, 4, 64));
    }

    /// A worker used to fall asleep while its caller copied a megabyte: spinning had not paid off, for it had been too short each time.
    #[test]
    fn who_is_told_of_a_call_spins_beyond_its_budget() {
        let (budget, none) = (3_000, u64::MAX);
        assert!(goes_on(budget, budget, none, || false));
        assert!(!goes_on(budget + 1, budget, none, || false));
        assert!(goes_on(budget + 1, budget, none, || true));
    }

    #[test]
    fn announcements_neither_lift_the_callers_limit_nor_last_for_ever() {
        assert!(!goes_on(20_001, 3_000, 20_000, || true), "the interpreter's lock is held");
        assert!(!goes_on(SPIN_ANNOUNCED_NS_MAX + 1, 3_000, u64::MAX, || true), "each new one would prolong it");
    }

    #[test]
    fn the_machine_has_at_least_the_cores_that_this_process_may_use() {
        assert!(cores_online() as usize >= std::thread::available_parallelism().unwrap().get());
    }
}
