//! Large values, as the real body handles them: who frees which bytes, what is moved to files, what a reader does who finds nothing where the
//! value should lie.
//!
//! - **SIM-10** nothing is read from room that was given to another value, nothing is freed twice, and what is said to be lost was lost.

use std::sync::Arc;

use model::{Bulk, Failure, ObjectId, Place, ProcId};
use owner::{Movable, Slot, Value};

use crate::away::Away;
use crate::env::Env;
use crate::network::Item;
use crate::process::Process;
use crate::refs::Number;

/// A value under way.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Small(Number),
    Large(Bulk),
}

/// What a process has of the node's memory.
#[derive(Default)]
pub(crate) struct Holdings {
    /// What is being written to a file.
    moving: Vec<Movable>,
    pub(crate) gets: Vec<Get>,
    /// What a reader did not find, and has not said yet.
    pub(crate) missed: Vec<(Slot, Bulk)>,
    pub(crate) away: Away,
}

/// A program waits for the value of an object.
#[derive(Clone, Copy)]
pub(crate) struct Get {
    pub(crate) slot: Slot,
    pub(crate) id: ObjectId,
}

/// What a reader finds.
pub(crate) enum Found {
    /// The value, and where it is pinned.
    Value(Number, Option<Place>),
    Failed(Arc<Failure>),
    /// Not there yet, or not any more: somebody was asked.
    NotYet,
}

impl Content {
    pub(crate) fn of(value: &Value) -> Result<Self, Failure> {
        match value {
            Value::Inline(bytes) => Ok(Self::Small(Number::from_bytes(bytes))),
            Value::Bulk(bulk) => Ok(Self::Large(**bulk)),
            Value::Failed(failure) => Err((**failure).clone()),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Small(number) => number.to_value(),
            Self::Large(bulk) => Value::bulk(*bulk),
        }
    }
}

impl Process {
    /// Looks at a large value, wherever it lies. A place in the arena is pinned.
    pub(crate) fn look_at(&self, env: &mut Env, bulk: Bulk) -> Option<(Number, Option<Place>)> {
        env.look_at(self.pid, bulk)
    }

    pub(crate) fn unpin(&self, env: &mut Env, place: Option<Place>) {
        if let Some(place) = place {
            env.unpin(self.pid, place);
        }
    }

    /// Keeps a value that this process made, for `owner`.
    pub(crate) fn write(&mut self, env: &mut Env, number: Number, owner: ProcId) -> Content {
        let bulk = env.memories[self.pid.0].write(self.pid.1, number, owner);
        env.short_of_room(self.pid.0);
        if owner == self.pid.1 {
            self.party.hold_file(bulk);
        }
        Content::Large(bulk)
    }

    /// Reads the object's value, as `get` does.
    pub(crate) fn find(&mut self, env: &mut Env, slot: Slot) -> Found {
        let Some(object) = self.party.owner.object(slot) else { return Found::NotYet };
        let bulk = match &object.value {
            None => return Found::NotYet,
            Some(Value::Inline(bytes)) => return Found::Value(Number::from_bytes(bytes), None),
            Some(Value::Failed(failure)) => return Found::Failed(failure.clone()),
            Some(Value::Bulk(bulk)) => **bulk,
        };
        self.party.owner.on_touched(slot);
        if let Some((number, pin)) = self.look_near(env, bulk) {
            return Found::Value(number, pin);
        }
        if self.may_be_brought(slot, bulk) {
            self.bring(env, bulk, Some(slot));
            return Found::NotYet;
        }
        self.not_found(env, slot, bulk);
        Found::NotYet
    }

    /// The node is short of room: some values go to a file, the longest unused first, if nobody looks at them.
    pub(crate) fn on_make_room(&mut self, env: &mut Env) {
        if !self.holdings.moving.is_empty() {
            return;
        }
        let count = env.rng.between(1, 4) as usize;
        for movable in self.party.owner.movable() {
            let own = u32::from(self.party.lies_elsewhere(movable.place.offset));
            let memory = &mut env.memories[self.pid.0];
            if self.holdings.moving.len() < count
                && movable.place.node() == self.pid.1.node()
                && !memory.is_looked_at(self.pid.1, movable.place, own)
                && memory.pin(self.pid.1, movable.place).is_some()
            {
                self.holdings.moving.push(movable);
            }
        }
        if !self.holdings.moving.is_empty() {
            let us = env.rng.between(10, 20_000);
            env.later(us, Item::Written { process: self.pid });
        }
    }

    /// The file is written, or the disk is full.
    pub(crate) fn on_written(&mut self, env: &mut Env) {
        let moving = std::mem::take(&mut self.holdings.moving);
        let memory = &env.memories[self.pid.0];
        let contents: Option<Vec<Number>> =
            moving.iter().map(|movable| memory.seen(self.pid.1, movable.place).cloned()).collect();
        moving.iter().for_each(|movable| self.unpin(env, Some(movable.place)));
        let Some(contents) = contents else { return };
        if env.rng.chance(50) {
            return;
        }
        env.counts.moved += moving.len() as u64;
        let filed = env.memories[self.pid.0].write_file(self.pid.1, contents);
        filed.iter().for_each(|filed| self.party.hold_file(Bulk::Filed(*filed)));
        let moved: Vec<_> = moving.into_iter().zip(filed).collect();
        self.party.owner.on_moved(&moved, &mut self.party.effects);
        self.apply(env);
    }

    /// The program waits for a value of its.
    pub(crate) fn begin_get(&mut self, slot: Slot) {
        let Some(id) = self.party.owner.object(slot).map(|object| object.id) else { return };
        self.party.owner.on_handle_added(slot);
        self.party.owner.on_needed(slot, &mut self.party.effects);
        self.holdings.gets.push(Get { slot, id });
    }

    /// Ends those gets whose value is there.
    pub(crate) fn look_at_gets(&mut self, env: &mut Env) {
        for get in std::mem::take(&mut self.holdings.gets) {
            match self.find(env, get.slot) {
                Found::NotYet => self.holdings.gets.push(get),
                Found::Failed(failure) => {
                    env.oracle.read_failure(self.pid, get.id, &failure);
                    self.party.owner.on_handle_dropped(get.slot, &mut self.party.effects);
                }
                Found::Value(number, pin) => {
                    env.oracle.read_value(self.pid, get.id, &number);
                    self.keep_some(env, &number.refs);
                    self.party.owner.on_handle_dropped(get.slot, &mut self.party.effects);
                    if let Some(place) = pin {
                        let us = env.rng.between(1, 60_000);
                        env.later(us, Item::Unpin { process: self.pid, place });
                    }
                }
            }
        }
    }

    /// SIM-6: at rest it has nothing.
    pub(crate) fn holds_memory(&self) -> bool {
        let Holdings { moving, gets, missed, away } = &self.holdings;
        self.party.holds_places() || !(moving.is_empty() && gets.is_empty() && missed.is_empty() && away.is_idle())
    }
}
