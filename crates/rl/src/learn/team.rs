//! Threads that do one small thing after the other together, thousands of times in a second.
//!
//! They are made once per update of a learner, not per step, and watch a counter between two steps: a step takes about as long as waking a
//! thread does.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Says that there will be no more rounds.
const OVER: usize = usize::MAX;

/// How often a waiting thread looks before it lets others have its core.
const LOOKS: u32 = 4_000;

/// Rows times passes over them times parameters below which threads take longer to start than they save; tests share out the least.
const WORK_MIN: usize = if cfg!(test) { 1 } else { 4_000_000 };

/// How many of these threads are worth starting for so much work in all.
pub(crate) fn worth_it(threads: usize, work: usize) -> usize {
    if work < WORK_MIN { 1 } else { threads.max(1) }
}

/// Runs `lead` with a function that makes `size` threads, this one as number 0, do `work` with their numbers, and waits for all.
pub(crate) fn with_team<R>(size: usize, work: impl Fn(usize) + Sync, lead: impl FnOnce(&dyn Fn()) -> R) -> R {
    if size <= 1 {
        return lead(&|| work(0));
    }
    let (round, done, has_failed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for number in 1..size {
            let (round, done, has_failed, work) = (&round, &done, &has_failed, &work);
            scope.spawn(move || {
                let mut seen = 0;
                loop {
                    until(|| round.load(Ordering::Acquire) != seen);
                    seen = round.load(Ordering::Acquire);
                    if seen == OVER {
                        return;
                    }
                    let told = Told { done, has_failed };
                    work(number);
                    drop(told);
                }
            });
        }
        let _over = Over(&round);
        lead(&|| {
            done.store(0, Ordering::Relaxed);
            round.fetch_add(1, Ordering::Release);
            work(0);
            until(|| done.load(Ordering::Acquire) == size - 1);
            assert!(!has_failed.load(Ordering::Relaxed), "a thread of the team has failed");
        })
    })
}

/// Tells that a thread's part is done, even if by a panic.
struct Told<'a> {
    done: &'a AtomicUsize,
    has_failed: &'a AtomicBool,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        self.done.fetch_add(1, Ordering::Release);
    }
}

/// Ends the other threads, even if the lead panics.
struct Over<'a>(&'a AtomicUsize);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(OVER, Ordering::Release);
    }
}

fn until(is_so: impl Fn() -> bool) {
    let mut looks = 0;
    while !is_so() {
        looks += 1;
        if looks < LOOKS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::with_team;

    #[test]
    fn each_thread_does_its_part_once_per_round() {
        for size in 1..4 {
            let counts: Vec<AtomicUsize> = (0..size).map(|_| AtomicUsize::new(0)).collect();
            let work = |number: usize| _ = counts[number].fetch_add(1, Ordering::Relaxed);
            with_team(size, work, |go| {
                for round in 1..=1_000 {
                    go();
                    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == round));
                }
            });
        }
    }

    #[test]
    #[should_panic(expected = "a thread of the team has failed")]
    fn a_failing_thread_fails_the_whole() {
        with_team(2, |number| assert!(number == 0, "on purpose"), |go| go());
    }

    #[test]
    #[should_panic(expected = "the lead itself")]
    fn a_failing_lead_leaves_no_thread_behind() {
        with_team(3, |_| {}, |_| panic!("the lead itself"));
    }
}
