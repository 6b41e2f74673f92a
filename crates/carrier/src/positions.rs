//! CUT-1: when all that was under way has been sent, and when all that was sent has come.

use cluster::Position;
use model::ProcId;

use crate::{Body, Carrier, ToHub};

#[derive(Default)]
pub(crate) struct Waits {
    flushes: Vec<Flush>,
    reaches: Vec<Reach>,
}

/// Somebody wants to know how much was sent once nothing from before waits.
struct Flush {
    ticket: u64,
    /// What waited then has lower numbers.
    serial: u64,
}

/// Somebody wants to know when so much has come.
struct Reach {
    ticket: u64,
    positions: Vec<(u32, Position)>,
    /// Once it has: what came then and is not in its ring has lower numbers.
    serial: Option<u64>,
}

impl Waits {
    pub(crate) fn is_empty(&self) -> bool {
        self.flushes.is_empty() && self.reaches.is_empty()
    }
}

impl Carrier {
    /// All that lies in rings now is to be sent. Answered by `Flushed`.
    pub fn flush(&mut self, body: &mut impl Body, ticket: u64) {
        let links: Vec<(ProcId, ProcId)> = self.links.keys().copied().collect();
        for (here, there) in links {
            if self.dead.has(there) {
                continue;
            }
            // Not what is written meanwhile.
            for _ in 0..body.published(here, there) {
                let Some(frame) = body.read(here, there) else { break };
                self.on_frame(body, here, there, frame);
            }
        }
        let serial = self.serial;
        self.waits.flushes.push(Flush { ticket, serial });
        self.look_at_flushes(body);
    }

    pub(crate) fn look_at_flushes(&mut self, body: &mut impl Body) {
        if self.waits.flushes.is_empty() {
            return;
        }
        let oldest = self.peers.values().filter_map(|peer| peer.post.oldest()).min().unwrap_or(u64::MAX);
        let done: Vec<Flush> = self.waits.flushes.extract_if(.., |flush| flush.serial < oldest).collect();
        for Flush { ticket, .. } in done {
            let sent = self.peers.iter_mut().map(|(node, peer)| (*node, peer.session.sent().0)).collect();
            body.tell_hub(ToHub::Flushed { ticket, sent });
        }
    }

    /// Answered by `Reached` once so much of each of these nodes has come, and lies where it belongs.
    pub fn reach(&mut self, body: &mut impl Body, ticket: u64, positions: &[(u32, u64)]) {
        let positions = positions.iter().map(|(node, position)| (*node, Position(*position))).collect();
        self.waits.reaches.push(Reach { ticket, positions, serial: None });
        self.look_at_positions(body);
    }

    pub(crate) fn look_at_positions(&mut self, body: &mut impl Body) {
        if self.waits.reaches.is_empty() {
            return;
        }
        let oldest = self.links.values().filter_map(|link| link.held.front()).map(|held| held.serial).min();
        let (serial, peers) = (self.serial, &mut self.peers);
        let mut has_come = |reach: &mut Reach| {
            if reach.serial.is_none() {
                let is_there = |(node, position): &(u32, Position)| {
                    peers.get_mut(node).is_none_or(|peer| peer.session.has_reached(*position))
                };
                if !reach.positions.iter().all(is_there) {
                    return false;
                }
                reach.serial = Some(serial);
            }
            reach.serial.is_some_and(|serial| oldest.is_none_or(|oldest| oldest > serial))
        };
        let done: Vec<Reach> = self.waits.reaches.extract_if(.., |reach| has_come(reach)).collect();
        done.into_iter().for_each(|reach| body.tell_hub(ToHub::Reached { ticket: reach.ticket }));
    }
}
