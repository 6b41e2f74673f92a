//! HOT: what came of a call, on its way back to who called: into its ring, or to its heir.

use model::{Bulk, Failure, ProcId};
use owner::{Kept, Slot};
use wire::frame::{self, GIVEN_BACK, Header, REPLY};
use wire::peer::Peer;
use wire::value;

use crate::giving::Cargo;
use crate::{Body, Party};

/// A call that runs here: who called, and what that calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who called.
    pub caller: ProcId,
    /// What the reply repeats.
    pub request: u64,
}

/// A reply that found no room, to be sent by `reply_again`.
#[must_use = "its caller waits"]
pub struct Unsent<W> {
    call: Call,
    bytes: Vec<u8>,
    /// References that are kept beyond the call: listed behind the values, from here on.
    kept: Vec<Kept>,
    kept_at: usize,
    cargo: Cargo,
    /// Keep the references in the values until these have gone.
    held: Vec<Slot>,
    why: W,
    /// There was no room for the values, and there is none for the list either.
    is_refused: bool,
}

impl<W> Unsent<W> {
    /// Why it was not written.
    pub fn why(&self) -> &W {
        &self.why
    }
}

impl<P> Party<P> {
    /// A call has ended. `bytes` are its values as they lie in a frame, their number first; `came_with` are the references that came with it.
    /// Returns what found no room.
    pub fn reply<B: Body<Pin = P>>(
        &mut self,
        body: &mut B,
        call: Call,
        mut bytes: Vec<u8>,
        came_with: &[Slot],
    ) -> Option<Unsent<B::NoRoom>> {
        let heir = self.heirs.get(call.caller);
        let is_expected = heir.is_some() || body.is_linked(call.caller);
        let cargo = if is_expected { Cargo::of(body, values_in_reply(&bytes)) } else { Cargo::default() };
        if !is_expected {
            discard(body, values_in_reply(&bytes));
        }
        let mut held = self.hold_ours(&cargo);
        let Self { me, owner, effects, .. } = self;
        let kept: Vec<Kept> = came_with.iter().flat_map(|slot| owner.on_call_ends(*slot, *me, effects)).collect();
        if !is_expected {
            self.tell_owners(body, &kept);
            return None;
        }
        let kept_at = bytes.len();
        write_kept(&mut bytes, &kept);
        if let Some(heir) = heir {
            self.reply_to_heir(body, call, heir, bytes, &cargo);
            self.let_go(held);
            return None;
        }
        match self.write_reply(body, call, &bytes, &cargo) {
            Ok(()) => {
                self.let_go(held);
                None
            }
            Err(why) => {
                self.heirs.reply_waits(call.caller, call.request);
                held.extend(self.hold_others(body, &cargo));
                Some(Unsent { call, bytes, kept, kept_at, cargo, held, why, is_refused: false })
            }
        }
    }

    /// Tries again to send a reply that had found no room. `is_full`: the arena has none for its values, and gets none.
    pub fn reply_again<B: Body<Pin = P>>(
        &mut self,
        body: &mut B,
        mut unsent: Unsent<B::NoRoom>,
        is_full: bool,
    ) -> Option<Unsent<B::NoRoom>> {
        if is_full {
            self.refuse(body, &mut unsent);
        }
        self.drop_testified(&mut unsent);
        let Call { caller, request } = unsent.call;
        if let Some(heir) = self.heirs.get(caller) {
            self.reply_to_heir(body, unsent.call, heir, unsent.bytes, &unsent.cargo);
        } else if self.dead.has(caller) || !body.has_link(caller) {
            // One that is dead has an heir, or none: that is not known before the node has spoken.
            self.tell_owners(body, &unsent.kept);
            discard(body, values_in_reply(&unsent.bytes[..unsent.kept_at]));
        } else if let Err(why) = self.write_reply(body, unsent.call, &unsent.bytes, &unsent.cargo) {
            unsent.why = why;
            return Some(unsent);
        }
        self.heirs.reply_went(caller, request);
        self.let_go(unsent.held);
        None
    }

    /// Whoever keeps something whose owner died while the reply waited has testified so, or will: it is not said twice.
    fn drop_testified<W>(&self, unsent: &mut Unsent<W>) {
        let Unsent { bytes, kept, kept_at, .. } = unsent;
        let before = kept.len();
        kept.retain(|kept| self.heirs.get(kept.owner).is_none());
        if kept.len() < before {
            bytes.truncate(*kept_at);
            write_kept(bytes, kept);
        }
    }

    fn write_reply<B: Body<Pin = P>>(
        &mut self,
        body: &mut B,
        call: Call,
        bytes: &[u8],
        cargo: &Cargo,
    ) -> Result<(), B::NoRoom> {
        let header = Header { length: 0, kind: REPLY, flags: 0, claim: 0, request: call.request };
        self.write_values(body, call.caller, header, bytes, cargo)
    }

    /// The store is full: the caller gets an error instead of the values, and the list of what is kept goes round it if need be.
    #[cold]
    fn refuse<B: Body<Pin = P>>(&mut self, body: &mut B, unsent: &mut Unsent<B::NoRoom>) {
        let Unsent { bytes, kept, kept_at, .. } = unsent;
        if unsent.is_refused {
            self.tell_owners(body, kept);
            kept.clear();
        } else {
            discard(body, values_in_reply(&bytes[..*kept_at]));
            unsent.cargo = Cargo::default();
            self.let_go(std::mem::take(&mut unsent.held));
        }
        let why = "the object store has no room for what a task returned, and none came free";
        *bytes = 1_u32.to_le_bytes().to_vec();
        frame::Value::write_failure(&Failure::StoreFull(why.into()), bytes);
        *kept_at = bytes.len();
        write_kept(bytes, kept);
        unsent.is_refused = true;
    }

    /// The caller is dead: who has taken over from it waits for the reply.
    fn reply_to_heir(
        &mut self,
        body: &mut impl Body<Pin = P>,
        call: Call,
        heir: ProcId,
        mut bytes: Vec<u8>,
        cargo: &Cargo,
    ) {
        let Call { caller, request } = call;
        self.name_in_reply(body, heir, &mut bytes);
        let knew = self.knew(heir, &cargo.refs, Some(caller));
        self.relay_values(body, heir, Peer::Reply { caller, request, flags: 0, knew, body: bytes }, cargo);
    }

    /// A call of a process that we have no link to goes back unstarted: its heir hears of that, if there is one.
    pub fn give_back_to_heir(&self, body: &mut impl Body<Pin = P>, call: Call) {
        let Call { caller, request } = call;
        if let Some(heir) = self.heirs.get(caller) {
            let knew = self.knew(heir, &[], Some(caller));
            body.relay(heir, Peer::Reply { caller, request, flags: GIVEN_BACK, knew, body: Vec::new() });
        }
    }
}

/// Frees the room that these values take, which nobody gets.
pub fn discard(body: &mut impl Body, values: &[u8]) {
    for value in value::values_in(values) {
        match value {
            frame::Value::Bulk(Bulk::Stored(place)) => body.free(place),
            frame::Value::Bulk(Bulk::Filed(filed)) => body.remove_file(filed.file),
            _ => {}
        }
    }
}

/// A reply's values, behind their number. Nothing else has been written to it yet.
pub(crate) fn values_in_reply(bytes: &[u8]) -> &[u8] {
    bytes.get(4..).unwrap_or_default()
}

fn write_kept(bytes: &mut Vec<u8>, kept: &[Kept]) {
    for Kept { id, owner, borrower } in kept {
        value::write_ref(bytes, id, *owner);
        bytes.extend_from_slice(&borrower.to_u64().to_le_bytes());
    }
}
