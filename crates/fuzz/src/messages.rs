//! Messages that are decoded whole. What is read is written as something that reads alike.

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::abroad::Between;
use wire::control::{FromNode, Hello, ToNode};
use wire::peer::Peer;

fn decoded<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<T> {
    let message: T = wire::decode(bytes).ok()?;
    let again = wire::decode::<T>(&wire::encode(&message));
    assert_eq!(again.as_ref(), Ok(&message));
    Some(message)
}

/// From another node.
pub(crate) fn between(bytes: &[u8]) {
    let Some(message) = decoded::<Between<Peer>>(bytes) else { return };
    let _ = message.way();
    if let Between::Enters(info) | Between::Joined(info) = &message {
        let _ = info.check();
    }
}

/// Over a Unix socket, either way.
pub(crate) fn control(bytes: &[u8]) {
    let _ = (decoded::<ToNode>(bytes), decoded::<FromNode>(bytes), Hello::protocol_of(bytes));
}

/// From a member, on a line for large values.
pub(crate) fn values(bytes: &[u8]) {
    use wire::values::{Answer, Ask, Opening};
    let _ = (decoded::<Opening>(bytes), decoded::<Ask>(bytes), decoded::<Answer>(bytes));
}

/// Out of memory that others write, and between two processes.
pub(crate) fn journal(bytes: &[u8]) {
    let _ = (decoded::<wire::journal::Record>(bytes), decoded::<Peer>(bytes));
    let _ = (decoded::<wire::Surroundings>(bytes), decoded::<wire::logs::AboutLogs>(bytes));
    if let Some(packet) = bytes.first_chunk::<{ wire::zygote::PACKET_BYTES }>() {
        let read = wire::zygote::Packet::from_bytes(*packet).to_bytes();
        assert_eq!(wire::zygote::Packet::from_bytes(read).to_bytes(), read);
    }
}
