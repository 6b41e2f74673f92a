//! Who is told of what waits, whenever that has changed (`Question::WatchWaits`): the dashboard, and `eagleray status --watch`.

use model::{ProcId, Tick};
use wire::control::Answer;
use wire::waits::{WaitRecord, Waits};

use crate::body::{Asker, Body, Door, Listening, Step};
use crate::hub::Hub;
use crate::procs::Kind;

/// How often it is looked whether something has changed, while somebody wants to know.
const LOOK_MS: u64 = 250;
const SUBSCRIBERS_MAX: usize = 16;

#[derive(Default)]
pub(crate) struct Watching {
    subscribers: Vec<Subscriber>,
    looked_at: Tick,
}

struct Subscriber {
    asker: Asker,
    request: u64,
    /// What it was told last, without ages, which it can count itself.
    told: Option<Vec<u8>>,
}

impl Watching {
    pub(crate) fn next_look(&self) -> Option<Tick> {
        (!self.subscribers.is_empty()).then(|| self.looked_at.plus_ms(LOOK_MS))
    }

    /// Whoever subscribed has left; its door is used again.
    pub(crate) fn door_closed(&mut self, door: Door) {
        self.subscribers.retain(|subscriber| subscriber.asker.door != door);
    }

    pub(crate) fn asker_gone(&mut self, who: ProcId) {
        self.subscribers.retain(|subscriber| subscriber.asker.who != Some(who));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.subscribers.is_empty()
    }
}

impl<B: Body> Hub<B> {
    /// The first answer comes at once. Beyond a bound the oldest subscriber makes room: its connection is closed, so that it knows.
    pub(crate) fn watch_waits(&mut self, step: &mut Step<'_, B>, asker: Asker, request: u64) {
        if self.watching.subscribers.len() == SUBSCRIBERS_MAX {
            let oldest = self.watching.subscribers.remove(0);
            step.body.hang_up(oldest.asker.door);
        }
        self.watching.subscribers.push(Subscriber { asker, request, told: None });
        self.tell_waits(step);
    }

    pub(crate) fn look_at_waits(&mut self, step: &mut Step<'_, B>) {
        if self.watching.next_look().is_some_and(|next| next <= step.now) {
            self.tell_waits(step);
        }
    }

    fn tell_waits(&mut self, step: &mut Step<'_, B>) {
        let waits = self.waits(step.now);
        let ageless = wire::encode(&waits.ageless());
        self.watching.looked_at = step.now;
        self.watching.subscribers.retain_mut(|subscriber| {
            let listening = step.body.listening(subscriber.asker.door);
            // Who has not read the last answer gets the next one when it has, and those between never.
            if listening == Listening::Keeps && subscriber.told.as_ref() != Some(&ageless) {
                subscriber.told = Some(ageless.clone());
                step.body.answer(subscriber.asker.door, subscriber.request, Answer::Waits(Box::new(waits.clone())));
            }
            listening != Listening::Gone
        });
    }

    /// All that waits, here and in processes, as they said.
    fn waits(&self, now: Tick) -> Waits {
        let mut processes: Vec<(i32, Vec<WaitRecord>)> = self
            .procs
            .iter()
            .filter(|proc| *proc.kind() != Kind::Keeper)
            .map(|proc| (proc.pid(), proc.waits_at(now)))
            .filter(|(_, waits)| !waits.is_empty())
            .collect();
        processes.sort_by_key(|(pid, _)| *pid);
        Waits { processes, node: self.waiting_here(now) }
    }

    /// A connection is closed, whosever it was; its number is used again.
    pub fn door_closed(&mut self, door: Door) {
        self.inventories.door_closed(door);
        self.enquiries.door_closed(door);
        self.watching.door_closed(door);
    }
}
