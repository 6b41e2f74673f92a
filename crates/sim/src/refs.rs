//! References that cross processes: inside arguments and values, kept beyond a call, read from afar.

use model::ProcId;
use owner::{Slot, Value};
use wire::frame;
pub(crate) use wire::journal::Ref;
use wire::peer::{Content, Peer};
use wire::value;

use crate::env::Env;
use crate::process::Process;

/// What a task computes: a number, and references that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) number: u64,
    pub(crate) refs: Vec<Ref>,
}

impl Number {
    /// As it lies in a frame, in memory or in a record: references first.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0];
        if !self.refs.is_empty() {
            bytes[0] = value::HAS_REFS;
            bytes.extend((self.refs.len() as u32).to_le_bytes());
            self.refs.iter().for_each(|(id, owner)| value::write_ref(&mut bytes, id, *owner));
        }
        bytes.extend(self.number.to_le_bytes());
        bytes
    }

    pub(crate) fn to_value(&self) -> Value {
        Value::Inline(owner::Packed::from(self.to_bytes()))
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let number = *bytes.last_chunk().expect("eight bytes");
        Self { number: u64::from_le_bytes(number), refs: value::refs_of(bytes) }
    }
}

impl Process {
    /// The reference will be named to another process.
    pub(crate) fn escape(&mut self, env: &mut Env, slot: Slot) -> Option<Ref> {
        let object = self.party.owner.object(slot)?;
        let reference = (object.id, object.owner.unwrap_or(self.pid.1));
        self.party.owner.on_given_away(slot, &mut self.party.effects);
        env.oracle.handled(self.pid, reference.0);
        Some(reference)
    }

    /// A reference came with a call: the caller holds it until the reply.
    pub(crate) fn borrow_for_call(&mut self, env: &mut Env, (id, owner): Ref) -> Slot {
        env.oracle.handled(self.pid, id);
        let owner = self.party.other_owner(owner);
        if let Some(owner) = owner {
            let (party, mut hands) = self.parts(env);
            party.meet(&mut hands, owner);
        }
        let slot = self.party.owner.on_borrowed(id, owner, 0);
        self.party.owner.on_call_begins(slot);
        slot
    }

    /// The references in these values, as they lie in a frame, are in this process's hands.
    pub(crate) fn note_values(&self, env: &mut Env, values: &[u8]) {
        for value in value::values_in(values) {
            match value {
                frame::Value::Inline(bytes) => self.note_refs(env, &value::refs_of(bytes)),
                frame::Value::Away { refs, .. } => self.note_refs(env, &value::refs_in_row(refs)),
                _ => {}
            }
        }
    }

    fn note_refs(&self, env: &mut Env, refs: &[Ref]) {
        refs.iter().for_each(|(id, _)| env.oracle.handled(self.pid, *id));
    }

    pub(crate) fn on_peer(&mut self, env: &mut Env, from: ProcId, message: Peer) {
        match &message {
            Peer::Settle { .. } => {
                self.drain(env);
                self.apply(env);
            }
            Peer::Have { content: Content::Inline(bytes), .. } => self.note_refs(env, &value::refs_of(bytes)),
            Peer::Have { refs, .. } => self.note_refs(env, refs),
            Peer::Reply { body, .. } => {
                self.note_values(env, body.get(4..).unwrap_or_default());
                env.counts.salvaged += 1;
            }
            _ => {}
        }
        let (party, mut hands) = self.parts(env);
        match party.on_peer(&mut hands, from, message) {
            None => {}
            Some(Peer::Missing { object, bulk }) => self.on_missing(env, from, object, bulk),
            Some(Peer::Interrupt { task, .. }) => self.on_interrupt(env, task),
            Some(other) => env.oracle.fail(format!("{:?} is told {other:?} by {from}", self.pid)),
        }
    }

    /// Reads all that lies in its rings.
    pub(crate) fn drain(&mut self, env: &mut Env) {
        for (from, frame) in env.queue.take_all_frames(self.pid) {
            self.on_frame(env, from.1, frame);
        }
    }
}
