//! What is said to a node that dials, before there is a session with it.

use wire::PROTOCOL;
use wire::session::{Hello, NoHello, NodeLife, Refusal};

/// Whether a hello is meant for this node. Whether its sender belongs to the cluster is for others to say (`Refusal::Unknown`).
///
/// # Errors
/// What the dialling side is to be told.
pub fn check(hello: &Hello, me: NodeLife) -> Result<(), Refusal> {
    if hello.to.node != me.node {
        return Err(Refusal::OtherNode(me.node));
    }
    if hello.to.life != me.life {
        return Err(Refusal::OtherLife(me.life));
    }
    Ok(())
}

/// What to tell whoever sent this instead of a hello; nothing if it does not speak this language at all.
#[must_use]
pub fn refusal_of(no_hello: NoHello) -> Option<Refusal> {
    match no_hello {
        NoHello::Malformed(_) => None,
        NoHello::Version(_) => Some(Refusal::Version(PROTOCOL)),
    }
}
