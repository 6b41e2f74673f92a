//! When a worker's own requests for leases go out.
//!
//! A task that calls others mostly waits for them next, and then lends its CPU to them. If its request came first, the node would look
//! for another CPU, and take the very lease back that this task runs under. So a request waits until the task does, or until the pump
//! looks: whichever comes first.

use std::sync::atomic::Ordering;

use wire::control::ToNode;

use crate::Runtime;
use crate::state::State;

impl Runtime {
    pub(crate) fn request_lease(&self, state: &mut State, number: u64, request: ToNode) {
        let runs_task = self.is_worker && !state.is_actor && state.blocked == 0 && !state.serving.runs_nothing();
        if !runs_task {
            return self.send(&request);
        }
        state.held_back.push((number, request));
        if !self.has_held_back.swap(true, Ordering::SeqCst) {
            // The pump may sleep at the doorbell.
            self.bell.wake();
        }
    }

    pub(crate) fn return_lease(&self, state: &mut State, number: u64) {
        let before = state.held_back.len();
        state.held_back.retain(|(held, _)| *held != number);
        if state.held_back.len() == before {
            self.send(&ToNode::ReturnLease { number });
        }
    }

    /// Whether a request for a lease has not gone out yet.
    #[inline]
    pub(crate) fn has_held_back(&self) -> bool {
        self.has_held_back.load(Ordering::Relaxed)
    }

    pub(crate) fn send_held_back(&self) {
        let mut state = self.state.lock().expect("never poisoned");
        self.has_held_back.store(false, Ordering::SeqCst);
        for (_, request) in std::mem::take(&mut state.held_back) {
            self.send(&request);
        }
    }
}
