//! What lies in rings: frames, and the values and arguments in them.

use wire::Reader;
use wire::actor_spec::ActorSpec;
use wire::arguments::{Argument, Counts, read_name};
use wire::frame::{self, Call, HEADER_BYTES, Header, Value};

/// A header, then a body of any kind.
pub(crate) fn frames(bytes: &[u8]) {
    let (flags, body) = match bytes.split_first_chunk::<HEADER_BYTES>() {
        Some((header, body)) => (Header::from_bytes(*header).flags, body),
        None => (0, bytes),
    };
    let mut reader = Reader::new(body);
    if Call::read(&mut reader).is_ok() {
        values(reader);
    }
    if let Ok((_, rest)) = frame::split_list(flags, body) {
        values(Reader::new(rest));
    }
    let _ = (frame::kept_in(body), frame::read_place(&mut Reader::new(body)));
    values(Reader::new(body));
}

fn values(mut reader: Reader<'_>) {
    let whole = reader.rest();
    while !reader.rest().is_empty() {
        let left = reader.rest().len();
        match Value::read(&mut reader) {
            Ok(Value::Inline(value)) => value_of(value),
            Ok(_) => {}
            Err(_) => break,
        }
        assert!(reader.rest().len() < left, "a value has some bytes");
    }
    assert!(wire::value::values_in(whole).count() <= whole.len());
}

fn value_of(value: &[u8]) {
    let _ = (wire::value::refs_bytes(value), wire::value::refs_of(value), wire::value::copied(value.to_vec()));
}

/// What a call carries, and what makes an actor.
pub(crate) fn arguments(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    if Counts::read(&mut reader).is_ok() {
        loop {
            let left = reader.rest().len();
            // What a plain value has behind its first byte is not read here.
            let is_over = Argument::read(&mut reader)
                .map_or(true, |argument| argument == Argument::Plain && reader.u8().is_err());
            if is_over {
                break;
            }
            assert!(reader.rest().len() < left, "an argument has some bytes");
            let _ = read_name(&mut reader.clone());
        }
    }
    if let Ok(spec) = ActorSpec::read(bytes) {
        assert!(spec.dependencies().count() <= bytes.len());
    }
    value_of(bytes);
}
