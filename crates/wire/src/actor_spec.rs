//! What makes an actor, as its creator wrote it: kept by the node for restarts, and read by the worker that builds the actor.

use model::{FunctionId, Language, ObjectId, ProcId, TaskId};

use crate::value::{REF_BYTES, write_ref};
use crate::{Malformed, Reader};

/// An actor's spec. In bytes: language (1), facts for handles and their length (4 in front), class (16), task (24), arguments and their
/// length (4 in front), and a reference for each value that those depend on, up to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActorSpec<'a> {
    /// What its class and the facts for its handles are written in.
    pub language: Language,
    /// What a handle needs to know, in that language.
    pub meta: &'a [u8],
    /// Its class.
    pub class: FunctionId,
    /// The task that builds it.
    pub creation: TaskId,
    /// What its constructor is called with: see `arguments`.
    pub arguments: &'a [u8],
    refs: &'a [u8],
}

impl<'a> ActorSpec<'a> {
    /// One without dependencies; they are appended to the bytes that `write` makes.
    #[must_use]
    pub fn new(language: Language, meta: &'a [u8], class: FunctionId, creation: TaskId, arguments: &'a [u8]) -> Self {
        Self { language, meta, class, creation, arguments, refs: &[] }
    }

    /// As bytes, with a reference for each value that the arguments depend on.
    #[must_use]
    pub fn write(&self, dependencies: impl IntoIterator<Item = (ObjectId, ProcId)>) -> Vec<u8> {
        let mut to = Vec::with_capacity(self.meta.len() + self.arguments.len() + 64);
        to.push(self.language.0);
        put_counted(&mut to, self.meta);
        to.extend_from_slice(&self.class.0);
        to.extend_from_slice(&self.creation.0);
        put_counted(&mut to, self.arguments);
        to.extend_from_slice(self.refs);
        for (id, owner) in dependencies {
            write_ref(&mut to, &id, owner);
        }
        to
    }

    /// Reads one.
    ///
    /// # Errors
    /// If the bytes are no spec.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let spec = Self {
            language: Language(reader.u8()?),
            meta: reader.counted()?,
            class: FunctionId(reader.array()?),
            creation: TaskId(reader.array()?),
            arguments: reader.counted()?,
            refs: reader.rest(),
        };
        if spec.refs.len().is_multiple_of(REF_BYTES) { Ok(spec) } else { Err(Malformed("references of an actor")) }
    }

    /// The values that the arguments depend on, in their order.
    pub fn dependencies(&self) -> impl Iterator<Item = (ObjectId, ProcId)> + use<'a> {
        self.refs.chunks_exact(REF_BYTES).map_while(|raw| {
            let mut reader = Reader::new(raw);
            Some((ObjectId(reader.array().ok()?), reader.process().ok()?))
        })
    }
}

fn put_counted(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    to.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_survives_the_round_trip_names_its_language_and_every_cut_is_refused() {
        let spec = ActorSpec::new(Language::PYTHON, b"facts", FunctionId([3; 16]), TaskId([4; 24]), b"arguments");
        let dependencies = [(ObjectId([5; 28]), ProcId::new(1, 2, 3)), (ObjectId([7; 28]), ProcId::new(1, 4, 5))];
        let bytes = spec.write(dependencies);
        assert_eq!(bytes[0], 1, "a language's number never changes");
        let read = ActorSpec::read(&bytes).unwrap();
        assert_eq!((read.language, read.meta, read.class), (Language::PYTHON, &b"facts"[..], spec.class));
        assert_eq!((read.creation, read.arguments), (spec.creation, &b"arguments"[..]));
        assert_eq!(read.dependencies().collect::<Vec<_>>(), dependencies);
        for end in (0..bytes.len()).filter(|end| !(bytes.len() - end).is_multiple_of(REF_BYTES)) {
            assert!(ActorSpec::read(&bytes[..end]).is_err(), "{end} bytes were taken for a spec");
        }
    }
}
