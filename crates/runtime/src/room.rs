//! Room in the arena: for values that are made here, and for calls and replies too large for a ring.

use std::sync::atomic::Ordering;
use std::time::Duration;

use model::Failure;
use rustc_hash::FxHashMap;
use store::{Draft, Reservation};
use wire::control::ToNode;
use wire::waits::{Awaited, Verb};

use crate::state::State;
use crate::waits::NOTED_AFTER_MS;
use crate::{Error, Runtime};

/// How long `put` waits for room before it gives up.
const ROOM_WAIT: Duration = Duration::from_secs(60);

/// Room that a process keeps for itself, free or not, when it asks for more.
const KEEP_BYTES: u64 = 64 << 20;

/// How long after the node was short of room everything that comes free is given back at once.
const SHORT_NS: u64 = 1_000_000_000;

/// Refusals that are remembered, so that whoever waits finds its own.
const REFUSALS_MAX: usize = 256;

/// What the node has answered.
#[derive(Default)]
pub(crate) struct Answers {
    /// Counts all of them.
    number: u64,
    /// The last one that gave something.
    granted: u64,
    /// The last one that gave nothing, and why, by what was asked for.
    refused: FxHashMap<u64, (u64, Box<str>)>,
}

impl Answers {
    fn add(&mut self, wanted: u64, refused: Option<&str>) {
        self.number += 1;
        match refused {
            None => self.granted = self.number,
            Some(why) => {
                if self.refused.len() >= REFUSALS_MAX {
                    let old = self.number - REFUSALS_MAX as u64 / 2;
                    self.refused.retain(|_, (number, _)| *number > old);
                }
                self.refused.insert(wanted, (self.number, why.into()));
            }
        }
    }

    /// Whether there is an answer to who asked for so much after answer number `since`.
    fn to(&self, wanted: u64, since: u64) -> Option<Result<(), Error>> {
        let refused = self.refused.get(&wanted).filter(|(number, _)| *number > since);
        match refused {
            Some((_, why)) => Some(Err(Error::StoreFull(why.to_string()))),
            None => (self.granted > since).then_some(Ok(())),
        }
    }
}

impl Runtime {
    /// Room in the arena. Asks the node for more of it where needed.
    pub(crate) fn reserve_arena(&self, length: u64) -> Result<Reservation, Error> {
        let mut noted = None;
        let reserved = self.reserve_noted(length, &mut noted);
        if let Some(number) = noted {
            self.forget_wait(number);
        }
        reserved
    }

    fn reserve_noted(&self, length: u64, noted: &mut Option<u64>) -> Result<Reservation, Error> {
        let since = net::clock::now();
        let deadline = net::clock::now_ns() + ROOM_WAIT.as_nanos() as u64;
        loop {
            // What the program dropped may be just what is needed.
            self.enter();
            let need = match self.store.reserve(length) {
                Ok(reservation) => return Ok(reservation),
                Err(need) => need.length,
            };
            self.give_back_room(KEEP_BYTES);
            let mut answers = self.room.lock().expect("never poisoned");
            let asked_at = answers.number;
            self.send(&ToNode::WantExtent { length: need });
            let answer = loop {
                if let Some(answer) = answers.to(need, asked_at) {
                    break answer;
                }
                if self.is_closed() {
                    return Err(Error::Closed);
                }
                if self.store.has_room(length) {
                    // Something of ours came free.
                    break Ok(());
                }
                if net::clock::now_ns() > deadline {
                    return Err(Error::TimedOut("no room in the object store came free"));
                }
                if noted.is_none() && net::clock::now().ms_since(since) >= NOTED_AFTER_MS {
                    drop(answers);
                    *noted = Some(self.note_wait(since, Verb::Put, Awaited::Room(length)));
                    answers = self.room.lock().expect("never poisoned");
                    continue;
                }
                answers =
                    self.room_answered.wait_timeout(answers, Duration::from_millis(100)).expect("never poisoned").0;
            };
            answer?;
        }
    }

    /// Gives back what we hold of the arena and do not use, beyond `keep_bytes`.
    pub(crate) fn give_back_room(&self, keep_bytes: u64) {
        self.enter();
        self.return_idle(keep_bytes);
    }

    fn return_idle(&self, keep_bytes: u64) {
        for store::Extent { offset, length } in self.store.idle_extents(keep_bytes) {
            self.send(&ToNode::ReturnExtent { offset, length });
        }
    }

    /// Others wait for room: for a while, what comes free here is given back at once.
    pub(crate) fn be_short(&self) {
        self.short_until_ns.store(net::clock::now_ns() + SHORT_NS, Ordering::Relaxed);
    }

    /// Whether the node has asked for room lately.
    pub(crate) fn is_short(&self) -> bool {
        self.short_until_ns.load(Ordering::Relaxed) > net::clock::now_ns()
    }

    /// A block of ours came free.
    pub(crate) fn came_free(&self) {
        self.room_answered.notify_all();
        if self.is_short() {
            self.return_idle(0);
        }
    }

    /// The node has answered a request for room.
    pub(crate) fn on_extent(&self, mut granted: Result<(u64, u64), Box<str>>, wanted: u64) {
        if let Ok((offset, length)) = granted
            && let Err(error) = self.store.add_extent(store::Extent { offset, length })
        {
            granted = Err(error.to_string().into());
        }
        let refused = granted.as_ref().err().map(|why| &**why);
        self.room.lock().expect("never poisoned").add(wanted, refused);
        self.room_answered.notify_all();
        self.with_state(|state| self.on_room(state, wanted, refused));
    }

    /// The node has given room in the arena, or none of so many bytes.
    fn on_room(&self, state: &mut State, wanted: u64, refused: Option<&str>) {
        for at in state.links.places() {
            let Some(link) = state.links.at(at) else { continue };
            if !link.on_room(refused.map(|_| wanted)) {
                continue;
            }
            if let Some(why) = refused
                && let Some(key) = link.unstall()
            {
                let failure = Failure::StoreFull(why.into());
                state.party.owner.on_cannot_send(net::clock::now(), key, failure, &mut state.party.effects);
            }
            self.push_stalled(state, at);
        }
    }

    /// Room for a large value, if there is some without asking anyone.
    #[must_use]
    pub fn try_reserve(&self, length: u64) -> Option<Draft> {
        self.enter();
        self.store.reserve(length).ok().map(Draft::Arena)
    }
}
