//! Who is told of what waits, whenever that has changed (`Question::WatchWaits`): the dashboard, and `eagleray status --watch`.

use model::Tick;
use wire::control::{Answer, FromNode};
use wire::waits::{WaitRecord, Waits};

use crate::looped::Node;
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
    conn: usize,
    request: u64,
    /// What it was told last, without ages, which it can count itself.
    told: Option<Vec<u8>>,
}

impl Watching {
    pub(crate) fn next_look(&self) -> Option<Tick> {
        (!self.subscribers.is_empty()).then(|| self.looked_at.plus_ms(LOOK_MS))
    }

    /// Whoever subscribed has left; its connection's index is used again.
    pub(crate) fn conn_closed(&mut self, conn: usize) {
        self.subscribers.retain(|subscriber| subscriber.conn != conn);
    }
}

impl Node {
    /// The first answer comes at once. Beyond a bound the oldest subscriber makes room: its connection is closed, so that it knows.
    pub(crate) fn watch_waits(&mut self, conn: usize, request: u64) {
        if self.watching.subscribers.len() == SUBSCRIBERS_MAX {
            let oldest = self.watching.subscribers[0].conn;
            self.on_conn_closed(oldest);
        }
        self.watching.subscribers.push(Subscriber { conn, request, told: None });
        self.tell_waits(net::clock::now());
    }

    pub(crate) fn look_at_waits(&mut self, now: Tick) {
        if self.watching.next_look().is_some_and(|next| next <= now) {
            self.tell_waits(now);
        }
    }

    fn tell_waits(&mut self, now: Tick) {
        self.watching.looked_at = now;
        let waits = self.waits(now);
        let ageless = wire::encode(&waits.ageless());
        let mut subscribers = std::mem::take(&mut self.watching.subscribers);
        for subscriber in &mut subscribers {
            // Who has not read the last answer gets the next one when it has, and those between never.
            let is_reading = self.conns.get_mut(subscriber.conn).is_some_and(|conn| conn.outbox.is_empty());
            if is_reading && subscriber.told.as_ref() != Some(&ageless) {
                subscriber.told = Some(ageless.clone());
                let answer = Answer::Waits(Box::new(waits.clone()));
                self.tell_conn(subscriber.conn, &FromNode::Answer { request: subscriber.request, answer }, Vec::new());
            }
        }
        // Those whose connection broke meanwhile are out.
        subscribers.retain(|subscriber| self.conns.get_mut(subscriber.conn).is_some());
        self.watching.subscribers = subscribers;
    }

    /// All that waits, here and in processes, as they said.
    pub(crate) fn waits(&self, now: Tick) -> Waits {
        let mut processes: Vec<(i32, Vec<WaitRecord>)> = self
            .procs
            .iter()
            .filter(|proc| proc.kind != Kind::Keeper && !proc.waits.is_empty())
            .map(|proc| (proc.pid, proc.waits_at(now)))
            .collect();
        processes.sort_by_key(|(pid, _)| *pid);
        Waits { processes, node: self.waiting_here(now) }
    }
}
