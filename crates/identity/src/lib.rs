//! Who may belong to a cluster, and the TLS configurations that follow from it.
//!
//! A cluster has one [`Authority`], made with it. What it signs belongs to the cluster: a [`Membership`] is a node's
//! key, its certificate and the authority's, and two nodes that have one speak TLS 1.3 with each other. A node that
//! has none knows a [`Token`]: it opens a connection on which it trusts nothing yet, both ends prove on it that they
//! know the token, and it leaves with a membership. Certificates last a day and are renewed by whoever still has a
//! valid one; who has slept too long comes by token again and keeps its number. Every certificate has a key of its own.
//!
//! Nothing here opens a socket, starts a thread or reads a clock: bytes come in and go out, and time is passed in.
//! Files are touched by `folder.rs` alone.
//!
//! | file | decides |
//! |---|---|
//! | `name.rs` | how cluster, node and role stand in a certificate |
//! | `key.rs`, `authority.rs`, `membership.rs` | keys, what signs, what a node keeps |
//! | `certificate.rs` | whether a certificate belongs to a cluster, and to whom; what tells one from another |
//! | `token.rs`, `tokens.rs` | the secret that lets nodes in; which ones are valid, and until when |
//! | `tls.rs` | configurations for members and for the door; whom a dialler expects, and whom nobody accepts |
//! | `proof.rs` | how knowledge of a token is bound to one connection |
//! | `message.rs`, `join.rs`, `admission.rs` | the conversation at the door, and its two ends |
//! | `python.rs` | which Python a node says that it runs |
//! | `renewal.rs` | a new certificate for who has a valid one |
//! | `folder.rs` | files that only their owner can read and that are whole or old; one writer at a time |
//!
//! Tests are named by behaviour. What they defend:
//!
//! - **ID-1** nothing that a peer says is believed before it has proved that it belongs.
//! - **ID-2** a proof holds for the connection, the direction and the token that it was made for, and for no other.
//! - **ID-3** whatever bytes come in, the answer is a typed error and memory stays bounded.
//! - **ID-4** no secret is printed, logged, or readable by another user.
//! - **ID-5** what was proved is proved for now: a certificate or token that ended meanwhile gives nothing.

mod address;
mod admission;
mod authority;
mod certificate;
mod error;
mod folder;
mod join;
mod key;
mod membership;
mod message;
mod name;
mod proof;
mod python;
mod renewal;
mod tls;
mod token;
mod tokens;

pub use address::Address;
pub use admission::{Admission, Door, Granted, Step, TurnedAway, Wish};
pub use authority::{Authority, LIFETIME_S, SKEW_S};
pub use certificate::{Fingerprint, Usage, peer_of, valid_until};
pub use error::{Error, Refusal, TokenError, Untrusted};
pub use folder::Folder;
pub use join::{Join, Joining, Progress};
pub use key::Key;
pub use membership::Membership;
pub use message::MESSAGE_BYTES_MAX;
pub use name::{ClusterId, Member, Role};
pub use proof::Binding;
pub use python::Python;
pub use renewal::Renewal;
pub use tls::{
    Accepts, Expected, JoinerClient, MemberClient, Purpose, for_dialler, for_door, for_joiner, for_members, for_values,
    for_values_dialler, server_name,
};
pub use token::{Token, TokenId};
pub use tokens::{Listed, TOKENS_MAX, Tokens};

/// Chance comes from the operating system and from nowhere else.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let filled = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    filled.expect("the operating system gives random bytes");
    bytes
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[digit as usize]))
        .collect()
}

/// The opposite of [`hex`]; nothing if it is anything else.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}
