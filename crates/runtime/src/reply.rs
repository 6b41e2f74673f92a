//! How a call's result goes back to who called.

use std::time::Duration;

use model::{Bulk, Failure, ProcId};
use owner::{Kept, Slot};
use wire::Reader;
use wire::frame::{self, Header, REPLY};
use wire::peer::Shares;

use crate::execute::CallHandle;
use crate::link::{Gate, WriteError};
use crate::stages::Stage;
use crate::state::State;
use crate::{Error, Runtime, value};

/// A reply that found no room, to be sent by `reply_slowly`.
#[must_use = "its caller waits"]
pub struct Unsent {
    handle: CallHandle,
    body: Vec<u8>,
    /// References that are kept beyond the call: listed behind the values, from here on.
    kept: Vec<Kept>,
    kept_at: usize,
    /// See `Header::claim`.
    known: u16,
    why: WriteError,
    /// There was no room for the values, and there is none for the list either.
    is_refused: bool,
}

impl Runtime {
    /// tour(task) 8: the result goes back to the caller's ring. `values` are encoded by the caller of this function into `body`
    /// (count first); `came_with` are the references that came with the call.
    pub fn reply(&self, handle: CallHandle, mut body: Vec<u8>, came_with: &[Slot]) -> Option<Unsent> {
        let clock = Stage::clock();
        let mut state = self.state.lock().expect("never poisoned");
        self.take_dropped(&mut state);
        let (heir, known) = (state.heirs.get(handle.peer), state.heirs.known);
        let is_expected = heir.is_some() || state.link(handle.peer).is_some_and(|(_, link)| link.gate != Gate::Dead);
        if is_expected {
            self.register_returned(&mut state, &body, heir.unwrap_or(handle.peer), 1);
        } else {
            self.discard(&body);
        }
        let State { owner, effects, .. } = &mut *state;
        let kept: Vec<Kept> = came_with.iter().flat_map(|slot| owner.on_call_ends(*slot, self.me, effects)).collect();
        self.ended(&mut state, handle);
        if !is_expected {
            self.tell_owners(&state, &kept);
            self.drain(&mut state);
            return None;
        }
        let kept_at = body.len();
        write_kept(&mut body, &kept);
        if let Some(heir) = heir {
            self.reply_to_heir(handle, heir, known, body);
            self.drain(&mut state);
            return None;
        }
        let written = self.write_reply(&mut state, handle, known, &body);
        let unsent = match written {
            Ok(()) => {
                note_kept(&mut state, handle.peer, kept);
                None
            }
            Err(why) => {
                state.heirs.reply_waits(handle.peer, handle.request, places_in(&body[..kept_at]));
                Some(Unsent { handle, body, kept, kept_at, known, why, is_refused: false })
            }
        };
        self.drain(&mut state);
        Stage::Reply.add(clock);
        unsent
    }

    /// Sends a reply as soon as there is room in the ring and in the arena. Waits, so it must not be called with the interpreter's
    /// lock held.
    pub fn reply_slowly(&self, mut unsent: Unsent) {
        loop {
            let is_full = match unsent.why {
                WriteError::Busy => {
                    std::thread::sleep(Duration::from_micros(50));
                    false
                }
                WriteError::NeedExtent(length) => match self.reserve_arena(length) {
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
            if is_full {
                self.refuse(&mut state, &mut unsent);
            }
            let peer = unsent.handle.peer;
            if let Some(heir) = state.heirs.get(peer) {
                state.heirs.reply_went(peer, unsent.handle.request);
                return self.reply_to_heir(unsent.handle, heir, unsent.known, unsent.body);
            }
            // One that is dead has an heir, or none: that is not known before the node has spoken.
            if state.dead.contains_key(&peer) || state.link(peer).is_none() {
                state.heirs.reply_went(peer, unsent.handle.request);
                self.tell_owners(&state, &unsent.kept);
                return;
            }
            match self.write_reply(&mut state, unsent.handle, unsent.known, &unsent.body) {
                Ok(()) => {
                    state.heirs.reply_went(peer, unsent.handle.request);
                    note_kept(&mut state, peer, std::mem::take(&mut unsent.kept));
                    return self.drain(&mut state);
                }
                Err(why) => {
                    self.ring_bells(&mut state);
                    unsent.why = why;
                }
            }
        }
    }

    fn write_reply(&self, state: &mut State, handle: CallHandle, known: u16, body: &[u8]) -> Result<(), WriteError> {
        let header = Header { length: 0, kind: REPLY, flags: 0, claim: known, request: handle.request };
        let Some((at, link)) = state.link(handle.peer) else { return Ok(()) };
        let written = link.write(&self.store, header, &[body]);
        state.unrung.push(at);
        written
    }

    /// The store is full: the caller gets an error instead of the values, and the list of what is kept goes round it if need be.
    #[cold]
    fn refuse(&self, state: &mut State, unsent: &mut Unsent) {
        let Unsent { handle, body, kept, kept_at, .. } = unsent;
        if unsent.is_refused {
            self.tell_owners(state, kept);
            kept.clear();
        } else {
            self.register_returned(state, &body[..*kept_at], handle.peer, -1);
        }
        let why = "the object store has no room for what a task returned, and none came free";
        *body = 1_u32.to_le_bytes().to_vec();
        frame::Value::write_failure(&Failure::StoreFull(why.into()), body);
        *kept_at = body.len();
        write_kept(body, kept);
        unsent.is_refused = true;
    }

    /// The caller is dead: who has taken over from it waits for the reply.
    fn reply_to_heir(&self, handle: CallHandle, heir: ProcId, known: u16, body: Vec<u8>) {
        let CallHandle { peer: caller, request, .. } = handle;
        self.relay(heir, wire::peer::Peer::Reply { caller, request, flags: 0, known, body });
    }

    /// Nobody else will: the caller is gone, or cannot be told.
    pub(crate) fn tell_owners(&self, state: &State, kept: &[Kept]) {
        for Kept { id, owner, borrower } in kept {
            self.relay(
                state.heirs.living(*owner),
                wire::peer::Peer::Borrowed(vec![Shares { object: *id, borrower: *borrower, count: 1 }]),
            );
        }
    }

    /// Values in a reply are the caller's from now on, and so are shares of the references in them (`count` is one); or they are not
    /// any more (minus one). Values in the arena stay allocated until the caller frees them or dies.
    fn register_returned(&self, state: &mut State, body: &[u8], caller: ProcId, count: i32) {
        self.register_values(state, values_in_reply(body), caller, count);
    }

    /// As `register_returned`, for values without their number before them.
    pub(crate) fn register_values(&self, state: &mut State, values: &[u8], caller: ProcId, count: i32) {
        for value in values_in(values) {
            match value {
                frame::Value::Inline(bytes) | frame::Value::Raised { error: bytes, .. }
                    if bytes.first().is_some_and(|flags| flags & value::HAS_REFS != 0) =>
                {
                    self.register_shares(state, &value::refs_of(bytes), caller, count);
                }
                frame::Value::Bulk(bulk) => {
                    self.register_shares(state, &self.refs_in(bulk), caller, count);
                    match bulk {
                        Bulk::Stored(place) if count > 0 => drop(state.given.insert(place.offset, (caller, place))),
                        Bulk::Stored(place) => self.free_given_place(state, place),
                        Bulk::Filed(filed) if count < 0 => self.files.remove(filed.file),
                        Bulk::Filed(_) => {}
                    }
                }
                _ => {}
            }
        }
    }

    /// Frees the room that the values in an unsent reply take.
    pub fn discard(&self, body: &[u8]) {
        self.discard_values(values_in_reply(body));
    }

    pub(crate) fn discard_values(&self, values: &[u8]) {
        for value in values_in(values) {
            match value {
                frame::Value::Bulk(Bulk::Stored(place)) => crate::effects::free(&self.store, place),
                frame::Value::Bulk(Bulk::Filed(filed)) => self.files.remove(filed.file),
                _ => {}
            }
        }
    }
}

/// The values that follow one another in these bytes, as far as they are whole.
fn values_in(bytes: &[u8]) -> impl Iterator<Item = frame::Value<'_>> {
    let mut reader = Reader::new(bytes);
    std::iter::from_fn(move || if reader.rest().is_empty() { None } else { frame::Value::read(&mut reader).ok() })
}

/// Where in the arena the values of a reply lie.
fn places_in(body: &[u8]) -> Vec<u64> {
    let offset = |value: frame::Value<'_>| match value {
        frame::Value::Bulk(Bulk::Stored(place)) => Some(place.offset),
        _ => None,
    };
    values_in(values_in_reply(body)).filter_map(offset).collect()
}

/// A reply's body behind the number of its values. Nothing else has been written to it yet.
fn values_in_reply(body: &[u8]) -> &[u8] {
    body.get(4..).unwrap_or_default()
}

fn write_kept(body: &mut Vec<u8>, kept: &[Kept]) {
    for Kept { id, owner, borrower } in kept {
        value::write_ref(body, id, *owner);
        body.extend_from_slice(&borrower.to_u64().to_le_bytes());
    }
}

/// The caller is told by the reply that these references are kept. Should it die before it has read that, their owners are told by us.
fn note_kept(state: &mut State, caller: ProcId, kept: Vec<Kept>) {
    if !kept.is_empty()
        && let Some((_, link)) = state.link(caller)
    {
        link.note_kept(kept);
    }
}
