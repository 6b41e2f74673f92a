//! A value that comes in, and goes on to others as far as it has come.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::Bulk;
use store::{Draft, View};

/// How long somebody waits for more of it.
const MORE_WAIT: Duration = Duration::from_secs(10);

enum Bytes {
    Draft(Draft),
    Whole(View),
    Broken,
}

struct State {
    bytes: Bytes,
    filled: usize,
}

pub(super) struct Growing {
    length: usize,
    state: Mutex<State>,
    grown: Condvar,
}

impl Growing {
    pub(super) fn new(draft: Draft, length: u64) -> Self {
        let state = Mutex::new(State { bytes: Bytes::Draft(draft), filled: 0 });
        Self { length: length as usize, state, grown: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn filled(&self) -> usize {
        self.lock().filled
    }

    pub(super) fn is_full(&self) -> bool {
        self.filled() == self.length
    }

    /// Puts more behind what is there; `read` says how much. It does not wait for anyone.
    pub(super) fn fill(&self, read: impl FnOnce(&mut [u8]) -> std::io::Result<usize>) -> std::io::Result<usize> {
        let mut state = self.lock();
        let State { bytes: Bytes::Draft(draft), filled } = &mut *state else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        let count = read(&mut draft.as_mut_slice()[*filled..])?;
        *filled += count;
        drop(state);
        self.grown.notify_all();
        Ok(count)
    }

    /// Copies what there is from `at` on, once there is something. None: there will be no more.
    pub(super) fn read_at(&self, at: usize, into: &mut [u8]) -> Option<usize> {
        let wanted = |state: &mut State| state.filled <= at && !matches!(state.bytes, Bytes::Broken);
        let (mut state, _) =
            self.grown.wait_timeout_while(self.lock(), MORE_WAIT, wanted).unwrap_or_else(PoisonError::into_inner);
        let filled = state.filled;
        let bytes = match &mut state.bytes {
            Bytes::Draft(draft) => draft.as_mut_slice(),
            Bytes::Whole(view) => view.as_slice(),
            Bytes::Broken => return None,
        };
        let some = bytes[..filled].get(at..).filter(|some| !some.is_empty())?;
        let count = some.len().min(into.len());
        into[..count].copy_from_slice(&some[..count]);
        Some(count)
    }

    /// All of it has come. Who reads it goes on.
    pub(super) fn seal(&self, look: impl FnOnce(Bulk) -> Result<View, store::Error>) -> Result<Bulk, store::Error> {
        let mut state = self.lock();
        let Bytes::Draft(draft) = std::mem::replace(&mut state.bytes, Bytes::Broken) else {
            return Err(store::Error::Moved);
        };
        let bulk = draft.seal()?;
        // What lies there now belongs to whoever keeps the book of copies, found or not.
        if let Ok(view) = look(bulk) {
            state.bytes = Bytes::Whole(view);
        }
        drop(state);
        self.grown.notify_all();
        Ok(bulk)
    }

    /// It is not wanted any more, or will never be whole.
    pub(super) fn break_off(&self) {
        self.lock().bytes = Bytes::Broken;
        self.grown.notify_all();
    }
}
