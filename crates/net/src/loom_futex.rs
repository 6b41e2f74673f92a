//! The kernel's part of a doorbell, for the model checker: looking at the word and falling asleep is one step, as it is under the lock of
//! the kernel's queue; waking takes the same lock, and wakes those that sleep on that very word.

use std::time::Duration;

use loom::sync::{Condvar, Mutex};

use crate::sync::{AtomicU32, Ordering};

/// Who sleeps on which word, and who was woken since.
#[derive(Default)]
struct Queue {
    asleep: Vec<(u64, usize)>,
    next: u64,
}

loom::lazy_static! {
    static ref QUEUE: (Mutex<Queue>, Condvar) = (Mutex::new(Queue::default()), Condvar::new());
}

/// Sleeps while `word` is `value`. There is no time here: whoever is never woken is found by the checker.
pub fn futex_wait(word: &AtomicU32, value: u32, _limit: Option<Duration>) -> bool {
    let (lock, woken) = &*QUEUE;
    let mut queue = lock.lock().expect("never poisoned");
    if word.load(Ordering::Relaxed) == value {
        let number = queue.next;
        queue.next += 1;
        queue.asleep.push((number, std::ptr::from_ref(word) as usize));
        while queue.asleep.iter().any(|(other, _)| *other == number) {
            queue = woken.wait(queue).expect("never poisoned");
        }
    }
    true
}

/// Wakes everyone who sleeps on `word`.
pub fn futex_wake(word: &AtomicU32) -> usize {
    let (lock, woken) = &*QUEUE;
    let mut queue = lock.lock().expect("never poisoned");
    let before = queue.asleep.len();
    queue.asleep.retain(|(_, address)| *address != std::ptr::from_ref(word) as usize);
    let count = before - queue.asleep.len();
    if count > 0 {
        woken.notify_all();
    }
    count
}
