//! How a call's result goes back to who called.

use std::time::Duration;

use model::{Bulk, Failure, ProcId};
use owner::{Kept, Slot};
use wire::Reader;
use wire::frame::{self, Header, REPLY};
use wire::peer::Shares;

use crate::execute::CallHandle;
use crate::giving::Cargo;
use crate::link::WriteError;
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
    cargo: Cargo,
    /// Keep the references in the values until these have gone.
    held: Vec<Slot>,
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
        let heir = state.heirs.get(handle.peer);
        let is_expected = heir.is_some() || state.links.to(handle.peer).is_some_and(|(_, link)| !link.is_dead());
        let cargo = if is_expected { self.cargo_of(values_in_reply(&body)) } else { Cargo::default() };
        if !is_expected {
            self.discard(&body);
        }
        let mut held = self.hold_ours(&mut state, &cargo);
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
            self.reply_to_heir(&mut state, handle, heir, body, &cargo);
            self.let_go(&mut state, held);
            self.drain(&mut state);
            return None;
        }
        let written = self.write_reply(&mut state, handle, &body, &cargo);
        let unsent = match written {
            Ok(()) => {
                note_kept(&mut state, handle.peer, kept);
                self.let_go(&mut state, held);
                None
            }
            Err(why) => {
                state.heirs.reply_waits(handle.peer, handle.request);
                held.extend(self.hold_others(&mut state, &cargo));
                Some(Unsent { handle, body, kept, kept_at, cargo, held, why, is_refused: false })
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
                self.reply_to_heir(&mut state, unsent.handle, heir, unsent.body, &unsent.cargo);
                self.let_go(&mut state, unsent.held);
                return self.drain(&mut state);
            }
            // One that is dead has an heir, or none: that is not known before the node has spoken.
            if state.dead.contains_key(&peer) || state.links.to(peer).is_none() {
                state.heirs.reply_went(peer, unsent.handle.request);
                self.tell_owners(&state, &unsent.kept);
                self.discard_values(values_in_reply(&unsent.body[..unsent.kept_at]));
                self.let_go(&mut state, unsent.held);
                return self.drain(&mut state);
            }
            match self.write_reply(&mut state, unsent.handle, &unsent.body, &unsent.cargo) {
                Ok(()) => {
                    state.heirs.reply_went(peer, unsent.handle.request);
                    note_kept(&mut state, peer, std::mem::take(&mut unsent.kept));
                    self.let_go(&mut state, unsent.held);
                    return self.drain(&mut state);
                }
                Err(why) => {
                    self.ring_bells(&mut state);
                    unsent.why = why;
                }
            }
        }
    }

    fn write_reply(&self, state: &mut State, handle: CallHandle, body: &[u8], cargo: &Cargo) -> Result<(), WriteError> {
        let header = Header { length: 0, kind: REPLY, flags: 0, claim: 0, request: handle.request };
        self.write_values(state, handle.peer, header, body, cargo)
    }

    /// The store is full: the caller gets an error instead of the values, and the list of what is kept goes round it if need be.
    #[cold]
    fn refuse(&self, state: &mut State, unsent: &mut Unsent) {
        let Unsent { body, kept, kept_at, .. } = unsent;
        if unsent.is_refused {
            self.tell_owners(state, kept);
            kept.clear();
        } else {
            self.discard(&body[..*kept_at]);
            unsent.cargo = Cargo::default();
            self.let_go(state, std::mem::take(&mut unsent.held));
        }
        let why = "the object store has no room for what a task returned, and none came free";
        *body = 1_u32.to_le_bytes().to_vec();
        frame::Value::write_failure(&Failure::StoreFull(why.into()), body);
        *kept_at = body.len();
        write_kept(body, kept);
        unsent.is_refused = true;
    }

    /// The caller is dead: who has taken over from it waits for the reply.
    fn reply_to_heir(&self, state: &mut State, handle: CallHandle, heir: ProcId, body: Vec<u8>, cargo: &Cargo) {
        let CallHandle { peer: caller, request, .. } = handle;
        let known = state.heirs.known();
        self.relay_values(state, heir, wire::peer::Peer::Reply { caller, request, flags: 0, known, body }, cargo);
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
pub(crate) fn values_in(bytes: &[u8]) -> impl Iterator<Item = frame::Value<'_>> {
    let mut reader = Reader::new(bytes);
    std::iter::from_fn(move || if reader.rest().is_empty() { None } else { frame::Value::read(&mut reader).ok() })
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
        && let Some((_, link)) = state.links.to(caller)
    {
        link.note_kept(kept);
    }
}
