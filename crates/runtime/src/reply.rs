//! How a call's result goes back to who called.

use std::time::Duration;

use owner::Slot;
use party::Call;

use crate::execute::CallHandle;
use crate::link::WriteError;
use crate::stages::Stage;
use crate::{Error, Runtime};

/// A reply that found no room, to be sent by `reply_slowly`.
#[must_use = "its caller waits"]
pub struct Unsent(party::Unsent<WriteError>);

impl Runtime {
    /// tour(task) 8: the result goes back to the caller's ring. `values` are encoded by the caller of this function into `body`
    /// (count first); `came_with` are the references that came with the call.
    pub fn reply(&self, handle: CallHandle, body: Vec<u8>, came_with: &[Slot]) -> Option<Unsent> {
        let clock = Stage::clock();
        let mut state = self.state.lock().expect("never poisoned");
        self.take_dropped(&mut state);
        let call = Call { caller: handle.peer, request: handle.request };
        let (party, mut hands) = self.parts(&mut state);
        let unsent = party.reply(&mut hands, call, body, came_with);
        self.ended(&mut state, handle);
        self.drain(&mut state);
        Stage::Reply.add(clock);
        unsent.map(Unsent)
    }

    /// Sends a reply as soon as there is room in the ring and in the arena. Waits, so it must not be called with the interpreter's
    /// lock held.
    pub fn reply_slowly(&self, unsent: Unsent) {
        let mut unsent = unsent.0;
        loop {
            let is_full = match unsent.why() {
                WriteError::Busy => {
                    std::thread::sleep(Duration::from_micros(50));
                    false
                }
                WriteError::NeedExtent(length) => match self.reserve_arena(*length) {
                    Ok(room) => {
                        drop(room);
                        false
                    }
                    Err(Error::Closed) => return,
                    Err(_) => true,
                },
            };
            let mut state = self.state.lock().expect("never poisoned");
            self.drain(&mut state);
            let (party, mut hands) = self.parts(&mut state);
            match party.reply_again(&mut hands, unsent, is_full) {
                None => return self.drain(&mut state),
                Some(still) => {
                    self.ring_bells(&mut state);
                    unsent = still;
                }
            }
        }
    }

    /// Frees the room that the values in an unsent reply take.
    pub fn discard(&self, body: &[u8]) {
        let mut state = self.state.lock().expect("never poisoned");
        party::discard(&mut self.parts(&mut state).1, body.get(4..).unwrap_or_default());
    }
}
