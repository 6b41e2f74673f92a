//! What is over but may still be heard of: answers given. They are bounded.

use std::collections::VecDeque;

use model::ActorId;
use rustc_hash::FxHashMap;

use crate::Registered;

const ANSWERS_MAX: usize = 10_000;

/// Answers to requests that made no actor, so that a repeat gets the same: the name may be free by now,
/// and the actor that a repeat would make would belong to nobody.
#[derive(Default)]
pub(crate) struct Answers {
    by_request: FxHashMap<ActorId, Registered>,
    oldest_first: VecDeque<ActorId>,
}

impl Answers {
    pub(crate) fn get(&self, request: ActorId) -> Option<&Registered> {
        self.by_request.get(&request)
    }

    pub(crate) fn note(&mut self, request: ActorId, answer: Registered) {
        if self.by_request.insert(request, answer).is_some() {
            return;
        }
        self.oldest_first.push_back(request);
        if self.oldest_first.len() > ANSWERS_MAX {
            let oldest = self.oldest_first.pop_front().expect("more than the bound");
            self.by_request.remove(&oldest);
        }
    }
}
