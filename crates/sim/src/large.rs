//! Large values, as the real body handles them: who frees which bytes, what is moved to files, what a reader does who finds nothing where the
//! value should lie.
//!
//! - **SIM-10** nothing is read from room that was given to another value, nothing is freed twice, and what is said to be lost was lost.

use std::sync::Arc;

use model::{Bulk, Failure, FileId, ObjectId, Place, ProcId};
use owner::{Movable, Slot, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::env::Env;
use crate::keeper::Sent;
use crate::network::Item;
use crate::process::Process;
use crate::refs::{Number, Peer};

/// A value under way.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Small(Number),
    Large(Bulk),
}

/// What a process has of the node's memory.
#[derive(Default)]
pub(crate) struct Holdings {
    /// Values that are ours and lie in the extents of those who wrote them: we keep them pinned.
    pub(crate) elsewhere: FxHashMap<u64, ProcId>,
    /// Values that lie in our extents and are somebody else's.
    pub(crate) given: FxHashMap<u64, (ProcId, Place)>,
    /// Values of ours in each file.
    pub(crate) files: FxHashMap<FileId, u32>,
    /// What is being written to a file.
    moving: Vec<Movable>,
    pub(crate) gets: Vec<Get>,
    /// What a reader did not find, and has not said yet.
    pub(crate) missed: Vec<(Slot, Bulk)>,
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
        let memory = &mut env.memories[self.pid.0];
        match bulk {
            Bulk::Stored(place) => memory.pin(self.pid.1, place).map(|number| (number, Some(place))),
            Bulk::Filed(filed) => memory.map(&filed).map(|number| (number, None)),
        }
    }

    pub(crate) fn unpin(&self, env: &mut Env, place: Option<Place>) {
        if let Some(place) = place {
            let memory = &mut env.memories[self.pid.0];
            if memory.seen(self.pid.1, place).is_none() {
                env.oracle.fail(format!("SIM-10: {:?} looked at {place:?}, and something else lies there", self.pid));
            }
            env.memories[self.pid.0].unpin(self.pid.1, place);
        }
    }

    /// References in a value. None if it is not there.
    pub(crate) fn refs_in(&self, env: &mut Env, content: &Content) -> Vec<crate::refs::Ref> {
        match content {
            Content::Small(number) => number.refs.clone(),
            Content::Large(bulk) => self.look_at(env, *bulk).map_or_else(Vec::new, |(number, pin)| {
                self.unpin(env, pin);
                number.refs
            }),
        }
    }

    /// Keeps a value that this process made, for `owner`.
    pub(crate) fn write(&mut self, env: &mut Env, number: Number, owner: ProcId) -> Content {
        let bulk = env.memories[self.pid.0].write(self.pid.1, number, owner);
        env.short_of_room(self.pid.0);
        match bulk {
            Bulk::Stored(place) if owner != self.pid.1 => {
                self.holdings.given.insert(place.offset, (owner, place));
            }
            Bulk::Filed(filed) if owner == self.pid.1 => self.hold_file(filed.file),
            _ => {}
        }
        Content::Large(bulk)
    }

    /// A value came in a reply: it is ours from now on.
    pub(crate) fn take_value(
        &mut self,
        env: &mut Env,
        sent: Sent,
        answer: Result<Content, Failure>,
    ) -> (Value, SmallVec<[Slot; 0]>) {
        let from = sent.by;
        let content = match answer {
            Err(failure) => return (Value::Failed(Arc::new(failure)), SmallVec::new()),
            Ok(content) => content,
        };
        let (number, value) = match content {
            Content::Small(number) => {
                let value = number.to_value();
                (number, value)
            }
            Content::Large(Bulk::Stored(place)) => match env.memories[self.pid.0].pin(self.pid.1, place) {
                Some(number) => {
                    self.holdings.elsewhere.insert(place.offset, from);
                    (number, Value::bulk(Bulk::Stored(place)))
                }
                None => {
                    env.oracle.fail(format!("SIM-10: {from} answered {:?} with {place:?}, which is free", self.pid));
                    return (Value::Failed(Arc::new(Failure::Freed)), SmallVec::new());
                }
            },
            Content::Large(bulk @ Bulk::Filed(filed)) => {
                let memory = &mut env.memories[self.pid.0];
                let is_harmed = memory.is_harmed(bulk);
                let Some(filed) = memory.take_over(self.pid.1, filed) else {
                    if !is_harmed {
                        env.oracle
                            .fail(format!("SIM-10: {from} answered {:?} with {filed:?}, which is gone", self.pid));
                    }
                    return (Value::Failed(Arc::new(Failure::Lost("".into()))), SmallVec::new());
                };
                self.hold_file(filed.file);
                // One that is damaged names nothing that can be read.
                let number = memory_value(env, self.pid.0, filed);
                (number, Value::bulk(Bulk::Filed(filed)))
            }
        };
        let contains = self.take_contained(env, sent, &number.refs);
        (value, contains)
    }

    pub(crate) fn hold_file(&mut self, file: FileId) {
        *self.holdings.files.entry(file).or_default() += 1;
    }

    /// The bytes of a value of ours are free.
    pub(crate) fn free_bulk(&mut self, env: &mut Env, bulk: Bulk) {
        match bulk {
            Bulk::Stored(place) => match self.holdings.elsewhere.remove(&place.offset) {
                Some(holder) => {
                    self.unpin(env, Some(place));
                    if !self.dead.contains(&holder) {
                        self.relay(env, holder, Peer::FreePlace(place));
                    }
                }
                None => self.free_own(env, place),
            },
            Bulk::Filed(filed) => {
                let count = self.holdings.files.entry(filed.file).or_default();
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.holdings.files.remove(&filed.file);
                    env.memories[self.pid.0].remove_file(filed.file);
                }
            }
        }
    }

    fn free_own(&self, env: &mut Env, place: Place) {
        if let Err(why) = env.memories[self.pid.0].free(self.pid.1, place) {
            env.oracle.fail(format!("SIM-10: {why}"));
        }
    }

    pub(crate) fn free_given_place(&mut self, env: &mut Env, place: Place) {
        // What a dead process said may come after its death has freed the place.
        if self.holdings.given.get(&place.offset).is_some_and(|(_, given)| *given == place) {
            self.holdings.given.remove(&place.offset);
            self.free_own(env, place);
        }
    }

    /// Whoever our values were given to is dead.
    pub(crate) fn free_given(&mut self, env: &mut Env, dead: ProcId) {
        let given = self.holdings.given.values();
        let mut places: Vec<Place> = given.filter(|(to, _)| *to == dead).map(|(_, place)| *place).collect();
        places.sort_unstable();
        places.into_iter().for_each(|place| self.free_given_place(env, place));
    }

    /// Reads the object's value, as `get` does.
    pub(crate) fn find(&mut self, env: &mut Env, slot: Slot) -> Found {
        let Some(object) = self.owner.object(slot) else { return Found::NotYet };
        let bulk = match &object.value {
            None => return Found::NotYet,
            Some(Value::Inline(bytes)) => return Found::Value(Number::from_bytes(bytes), None),
            Some(Value::Failed(failure)) => return Found::Failed(failure.clone()),
            Some(Value::Bulk(bulk)) => **bulk,
        };
        self.owner.on_touched(slot);
        if let Some((number, pin)) = self.look_at(env, bulk) {
            return Found::Value(number, pin);
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
        for movable in self.owner.movable() {
            let own = u32::from(self.holdings.elsewhere.contains_key(&movable.place.offset));
            let memory = &mut env.memories[self.pid.0];
            if self.holdings.moving.len() < count
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
        filed.iter().for_each(|filed| self.hold_file(filed.file));
        let moved: Vec<_> = moving.into_iter().zip(filed).collect();
        self.owner.on_moved(&moved, &mut self.effects);
        self.apply(env);
    }

    /// The program waits for a value of its.
    pub(crate) fn begin_get(&mut self, slot: Slot) {
        let Some(id) = self.owner.object(slot).map(|object| object.id) else { return };
        self.owner.on_handle_added(slot);
        self.owner.on_needed(slot, &mut self.effects);
        self.holdings.gets.push(Get { slot, id });
    }

    /// Ends those gets whose value is there.
    pub(crate) fn look_at_gets(&mut self, env: &mut Env) {
        for get in std::mem::take(&mut self.holdings.gets) {
            match self.find(env, get.slot) {
                Found::NotYet => self.holdings.gets.push(get),
                Found::Failed(failure) => {
                    env.oracle.read_failure(self.pid, get.id, &failure);
                    self.owner.on_handle_dropped(get.slot, &mut self.effects);
                }
                Found::Value(number, pin) => {
                    env.oracle.read_value(self.pid, get.id, &number);
                    self.keep_some(env, &number.refs);
                    self.owner.on_handle_dropped(get.slot, &mut self.effects);
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
        let Holdings { elsewhere, given, files, moving, gets, missed } = &self.holdings;
        let has_places = !(elsewhere.is_empty() && given.is_empty() && files.is_empty());
        has_places || !(moving.is_empty() && gets.is_empty() && missed.is_empty())
    }
}

fn memory_value(env: &Env, node: usize, filed: model::Filed) -> Number {
    env.memories[node].map(&filed).unwrap_or_default()
}
