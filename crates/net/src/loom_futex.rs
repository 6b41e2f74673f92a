//! The kernel's part of a doorbell, for the model checker: looking at the word and falling asleep is one step, as it is under the lock of
//! the kernel's queue; waking takes the same lock.

use std::time::Duration;

use loom::sync::{Condvar, Mutex};

use crate::sync::{AtomicU32, Ordering};

loom::lazy_static! {
    static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

/// Sleeps while `word` is `value`. There is no time here: whoever is never woken is found by the checker.
pub fn futex_wait(word: &AtomicU32, value: u32, _limit: Option<Duration>) {
    let (lock, woken) = &*QUEUE;
    let queued = lock.lock().expect("never poisoned");
    if word.load(Ordering::Relaxed) == value {
        drop(woken.wait(queued).expect("never poisoned"));
    }
}

/// Wakes everyone who sleeps, on whatever word.
pub fn futex_wake(_word: &AtomicU32) -> usize {
    let (lock, woken) = &*QUEUE;
    let _queued = lock.lock().expect("never poisoned");
    woken.notify_all();
    1
}
