//! Room in the arena: extents for processes that need some, and patience when there is none at the moment.

use model::{ProcId, Tick};
use wire::control::FromNode;

use crate::looped::Node;

/// How long a request waits for room that others may give back.
const PATIENCE_MS: u64 = 300;
/// Values that outlive the process that made them are looked after this often.
const SWEEP_MS: u64 = 1_000;

pub(crate) struct Room {
    pub(crate) host: store::Host,
    waiting: Vec<(Tick, ProcId, u64)>,
    swept: Tick,
}

impl Room {
    pub(crate) fn new(host: store::Host) -> Self {
        Self { host, waiting: Vec::new(), swept: Tick(0) }
    }

    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        let sweep = (self.host.orphaned() > 0).then(|| self.swept.plus_ms(SWEEP_MS));
        self.waiting.iter().map(|(deadline, ..)| *deadline).chain(sweep).min()
    }

    /// Nothing is granted to a process that is dead: nobody would give it back.
    pub(crate) fn process_gone(&mut self, id: ProcId) {
        self.waiting.retain(|(_, who, _)| *who != id);
    }
}

impl Node {
    pub(crate) fn want_extent(&mut self, who: ProcId, length: u64) {
        match self.room.host.grant(who.slot, length) {
            Ok(extent) => self.grant_extent(who, length, Ok((extent.offset, extent.length))),
            Err(store::Error::TooLarge { .. }) => self.refuse_extent(who, length),
            Err(_) => {
                self.room.waiting.push((net::clock::now().plus_ms(PATIENCE_MS), who, length));
                let others: Vec<ProcId> = self.procs.iter().map(|proc| proc.id).collect();
                for other in others {
                    self.tell(other, &FromNode::GiveBackRoom);
                }
            }
        }
    }

    pub(crate) fn return_extent(&mut self, who: ProcId, offset: u64, length: u64) {
        // A process can only give back what it was given; anything else is refused by the host and changes nothing.
        let _ = self.room.host.take_back(who.slot, store::Extent { offset, length });
        self.retry_room(Tick(0));
    }

    pub(crate) fn retry_room(&mut self, now: Tick) {
        if now.ms_since(self.room.swept) >= SWEEP_MS && self.room.host.orphaned() > 0 {
            self.room.swept = now;
            self.room.host.sweep();
        }
        if self.room.waiting.is_empty() {
            return;
        }
        self.room.host.sweep();
        for (deadline, who, length) in std::mem::take(&mut self.room.waiting) {
            match self.room.host.grant(who.slot, length) {
                Ok(extent) => self.grant_extent(who, length, Ok((extent.offset, extent.length))),
                Err(_) if deadline <= now => self.refuse_extent(who, length),
                Err(_) => self.room.waiting.push((deadline, who, length)),
            }
        }
    }

    fn refuse_extent(&mut self, who: ProcId, length: u64) {
        let (free, capacity) = (self.room.host.free(), self.room.host.capacity());
        let why = format!(
            "the object store is full: {length} bytes are needed, {free} of {capacity} are free. \
             Drop references that are no longer used, or pass a larger object_store_memory to init()."
        );
        self.grant_extent(who, length, Err(why.into()));
    }

    fn grant_extent(&mut self, who: ProcId, wanted: u64, granted: Result<(u64, u64), Box<str>>) {
        self.tell(who, &FromNode::Extent { granted, wanted });
    }
}
