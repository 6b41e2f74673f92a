//! Who may run a queued call. Each call in a ring has a claim word beside the ring: the worker swaps it to *running* before it
//! starts the call, the caller swaps it to *taken back* to cancel the call or to give it to somebody else. Neither needs an answer
//! from the other.
//!
//! - **CLAIM-1** a call is either run or taken back, never both.
//! - **CLAIM-2** after a worker's death a word that still says *queued* proves that the call never started.
//!
//! The words order nothing but themselves, so every access is relaxed: what a call needs is published by the ring, and news of a death
//! come through the kernel.

use crate::sync::{AtomicU32, Ordering};

/// Calls that one ring can have under way.
pub const CLAIMS: usize = if cfg!(loom) { 2 } else { 256 };

/// In place of an index: a call without a word. It cannot be taken back, and after its worker's death nobody knows whether it ran. For
/// calls on actors that serve more at once than a ring has words.
pub const UNCLAIMED: u16 = u16::MAX;

const QUEUED: u32 = 1;
const RUNNING: u32 = 2;
const TAKEN: u32 = 3;
const STATE: u32 = 3;

/// The value of a claim word while its call waits: tells this use of the slot from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u32);

/// The caller's side: gives out the claim words of one ring.
pub struct Claims {
    words: *const [AtomicU32; CLAIMS],
    free: Vec<u16>,
    uses: u32,
    /// Calls under way without a word.
    unclaimed: usize,
}

// SAFETY: the words are atomics in shared memory; everything else is owned.
unsafe impl Send for Claims {}

impl Claims {
    /// All words free.
    ///
    /// # Safety
    /// `words` points to the claim words of a ring that outlives this, and nobody else gives them out.
    #[must_use]
    pub unsafe fn new(words: *const [AtomicU32; CLAIMS]) -> Self {
        Self { words, free: (0..CLAIMS as u16).rev().collect(), uses: 0, unclaimed: 0 }
    }

    fn word(&self, index: u16) -> &AtomicU32 {
        // SAFETY: valid by the contract of `new`.
        unsafe { &(&*self.words)[usize::from(index)] }
    }

    /// A word for one call, set to *queued*; `None` if all are in use.
    pub fn give(&mut self) -> Option<(u16, Word)> {
        let index = self.free.pop()?;
        self.uses = self.uses.wrapping_add(1) & (u32::MAX >> 2);
        let word = Word((self.uses << 2) | QUEUED);
        // The worker hears of the word from the frame: the ring's tail publishes both.
        self.word(index).store(word.0, Ordering::Relaxed);
        Some((index, word))
    }

    /// For a call that goes without a word.
    pub fn give_none(&mut self) -> (u16, Word) {
        self.unclaimed += 1;
        (UNCLAIMED, Word(0))
    }

    /// The call is over (answered, taken back, or its worker is dead): its word may be used again.
    pub fn release(&mut self, index: u16) {
        if index == UNCLAIMED {
            self.unclaimed = self.unclaimed.saturating_sub(1);
            return;
        }
        debug_assert!(!self.free.contains(&index), "CLAIM-1: a word is let go twice");
        self.free.push(index);
    }

    /// Takes a queued call back. True: it will never run there (CLAIM-1).
    #[must_use]
    pub fn take_back(&self, index: u16, word: Word) -> bool {
        let taken = (word.0 & !STATE) | TAKEN;
        index != UNCLAIMED
            && self.word(index).compare_exchange(word.0, taken, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether the worker has started the call, as far as one can know (CLAIM-2).
    #[must_use]
    pub fn has_started(&self, index: u16, word: Word) -> bool {
        index == UNCLAIMED || self.word(index).load(Ordering::Relaxed) == (word.0 & !STATE) | RUNNING
    }

    /// Calls under way: given a word, or none, and not released.
    #[must_use]
    pub fn in_use(&self) -> usize {
        CLAIMS - self.free.len() + self.unclaimed
    }
}

/// The worker's side: the claim words of a ring that somebody else writes.
#[derive(Clone, Copy)]
pub struct TheirClaims(*const [AtomicU32; CLAIMS]);

// SAFETY: atomics in shared memory; see `new`.
unsafe impl Send for TheirClaims {}
// SAFETY: as above.
unsafe impl Sync for TheirClaims {}

impl TheirClaims {
    /// The words of one ring.
    ///
    /// # Safety
    /// `words` points to the claim words of a ring that outlives this.
    #[must_use]
    pub unsafe fn new(words: *const [AtomicU32; CLAIMS]) -> Self {
        Self(words)
    }

    /// May this call run? At most once, and not if the caller took it back.
    #[must_use]
    #[inline]
    pub fn start(self, index: u16, word: Word) -> bool {
        if index == UNCLAIMED {
            return true;
        }
        let running = (word.0 & !STATE) | RUNNING;
        // SAFETY: valid by the contract of `new`.
        let words = unsafe { &*self.0 };
        words.get(usize::from(index)).is_some_and(|atomic| {
            atomic.compare_exchange(word.0, running, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn words() -> Box<[AtomicU32; CLAIMS]> {
        Box::new(std::array::from_fn(|_| AtomicU32::new(0)))
    }

    #[test]
    fn claim_1_a_call_is_run_or_taken_back_never_both() {
        let words = words();
        // SAFETY: the words outlive both sides.
        let (mut claims, theirs) = unsafe { (Claims::new(&raw const *words), TheirClaims::new(&raw const *words)) };
        let (index, word) = claims.give().unwrap();
        assert!(claims.take_back(index, word));
        assert!(!theirs.start(index, word));
        claims.release(index);
        let (again, word2) = claims.give().unwrap();
        assert_eq!(again, index);
        assert!(!theirs.start(index, word), "an old frame started a new call");
        assert!(theirs.start(index, word2));
        assert!(!claims.take_back(index, word2));
        assert!(claims.has_started(index, word2));
    }

    #[test]
    fn a_call_without_a_word_runs_and_cannot_be_taken_back() {
        let words = words();
        // SAFETY: the words outlive both sides.
        let (mut claims, theirs) = unsafe { (Claims::new(&raw const *words), TheirClaims::new(&raw const *words)) };
        assert!(!claims.take_back(UNCLAIMED, Word(0)));
        assert!(theirs.start(UNCLAIMED, Word(0)));
        assert!(claims.has_started(UNCLAIMED, Word(0)));
        assert_eq!((claims.give_none(), claims.in_use()), ((UNCLAIMED, Word(0)), 1));
        claims.release(UNCLAIMED);
        assert_eq!(claims.in_use(), 0);
    }

    #[test]
    fn an_index_from_a_broken_frame_starts_nothing() {
        let words = words();
        // SAFETY: the words are alive.
        assert!(!unsafe { TheirClaims::new(&raw const *words) }.start(9_999, Word(5)));
    }
}
