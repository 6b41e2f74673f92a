//! What goes wrong at the door of a cluster, in words that say what to do about it.

use wire::Malformed;
use wire::session::NodeLife;

use crate::name::ClusterId;
use crate::python::Python;
use crate::token::{LETTERS, PREFIX};

/// What can go wrong here.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The token cannot be read.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A certificate does not do.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// The head said no.
    #[error("the cluster does not let this node in: {0}")]
    Refused(Refusal),
    /// Somebody said no before it had proved that it is the head: it may be anybody, and may lie about the reason.
    #[error("whoever answers at that address has not proved to be the head, and does not let this node in: {0}")]
    RefusedUnproven(Refusal),
    /// The other side did not prove that it knows the token.
    #[error("whoever answers at that address does not know the token: check the address; somebody may stand between")]
    Unproven,
    /// What came is no message of the door.
    #[error("{0} came where this version of eagleray expected a message: is that the address of a head?")]
    Malformed(#[from] Malformed),
    /// A message is longer than any may be.
    #[error("a message of {0} bytes came, more than any has: is that the address of a head?")]
    TooLong(usize),
    /// A message came that is not expected now, or more than one.
    #[error("a message came out of turn")]
    OutOfTurn,
    /// The connection ended before the last message.
    #[error("the connection ended before this node was let in: try again")]
    Ended,
    /// A request to renew for the key of the old certificate.
    #[error("the request is for the key that the old certificate has: a new certificate takes a new key")]
    OldKey,
    /// A file or folder of secrets that cannot be used.
    #[error("{path}: {what}")]
    File {
        /// Where it lies.
        path: std::path::PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A stored authority, membership or table of tokens that is not what was stored.
    #[error("the stored {0} is damaged: restore it, or start the cluster anew")]
    Damaged(&'static str),
    /// More tokens than a table holds.
    #[error("there are {0} tokens already: remove one first")]
    TooManyTokens(usize),
    /// A library that makes certificates or speaks TLS refused what it was given.
    #[error("{0}")]
    Library(String),
}

impl From<rcgen::Error> for Error {
    fn from(error: rcgen::Error) -> Self {
        Self::Library(error.to_string())
    }
}

impl From<rustls::Error> for Error {
    fn from(error: rustls::Error) -> Self {
        match Untrusted::in_tls(&error) {
            Some(untrusted) => Self::Untrusted(untrusted),
            None => Self::Library(error.to_string()),
        }
    }
}

/// Why a text is no token. None of these shows any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Nothing there.
    #[error("the token is missing: its text stands in the file that `eagleray start --head` names")]
    Missing,
    /// It begins with something else.
    #[error("this is no token: one begins with {PREFIX}")]
    Prefix,
    /// Cut off, or something follows.
    #[error("the token has {0} characters after its prefix and should have {LETTERS}: copy the whole of it")]
    Length(usize),
    /// A character that no token has.
    #[error("character {0} of the token is none that tokens have: copy it again")]
    Character(usize),
    /// A character was changed.
    #[error("the token is mistyped: copy it again")]
    Checksum,
}

/// Why a certificate does not make its bearer a member of this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// None was shown, or it cannot be read.
    #[error("the peer has no certificate that can be read")]
    Unreadable,
    /// It does not name one node of one cluster.
    #[error("the certificate does not name exactly one node of an eagleray cluster")]
    Nameless,
    /// Another cluster.
    #[error("the certificate is of cluster {theirs}; this one is {ours}: check the address")]
    OtherCluster {
        /// The certificate's.
        theirs: ClusterId,
        /// Ours.
        ours: ClusterId,
    },
    /// It names our cluster, but our authority has not signed it.
    #[error("the certificate names this cluster, but its authority has not signed it")]
    Forged,
    /// Too old.
    #[error(
        "the certificate expired {0} s ago: join again with the token; if it is new, check the clocks of both machines"
    )]
    Expired(u64),
    /// From the future.
    #[error("the certificate is valid only in {0} s: check the clocks of both machines")]
    NotYet(u64),
    /// It was given to this node, but is for another.
    #[error("the head gave this node a certificate that is for another: tell who runs the head, and join again")]
    NotOurs,
    /// Its bearer is not the head.
    #[error("the certificate is not a head's: check the head's address")]
    NotHead,
    /// Its bearer is the head, which asks nobody to renew it: it has the authority.
    #[error("the certificate is a head's, which is made anew on the head and not over a line")]
    IsHead,
    /// It is of another node or life than the one that was dialled.
    #[error("node {} answers in its life {:016x}, and another was dialled: addresses may have moved", .0.node, .0.life)]
    Unexpected(NodeLife),
    /// It is valid, but its bearer was expelled or declared dead.
    #[error("node {} does not belong to the cluster any more in its life {:016x}: start it anew", .0.node, .0.life)]
    Expelled(NodeLife),
}

impl Untrusted {
    /// The reason that one of our verifiers gave, if that is why a TLS connection failed.
    #[must_use]
    pub fn in_tls(error: &rustls::Error) -> Option<Self> {
        match error {
            rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)) => {
                other.0.downcast_ref::<Self>().copied()
            }
            _ => None,
        }
    }
}

impl From<Untrusted> for rustls::Error {
    fn from(untrusted: Untrusted) -> Self {
        rustls::CertificateError::Other(rustls::OtherError(std::sync::Arc::new(untrusted))).into()
    }
}

/// Why the head does not let a node in, as it tells the node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another version of the protocol.
    #[error("this node speaks version {theirs} of the protocol, the head {ours}: install the same eagleray on both")]
    Version {
        /// The head's.
        ours: u32,
        /// The node's.
        theirs: u32,
    },
    /// Another version of Python.
    #[error(
        "this node runs Python {theirs}, the head {ours}: run the same on both, since what one pickles the other reads"
    )]
    Python {
        /// The head's.
        ours: Python,
        /// The node's.
        theirs: Python,
    },
    /// A token of another cluster.
    #[error("the token is of another cluster: the one at this address is {0}")]
    OtherCluster(ClusterId),
    /// A token that was removed, or never was.
    #[error("the head does not know the token: `eagleray token list` there shows which are valid")]
    UnknownToken,
    /// A token that is past its time.
    #[error("the token has expired: take a new one from `eagleray token list` on the head")]
    ExpiredToken,
    /// The proof does not fit token and connection.
    #[error("the proof does not fit the token and this connection: the token is wrong, or somebody stands between")]
    WrongProof,
    /// The clocks differ too much for certificates.
    #[error("the clocks differ too much: this node's says {theirs} s since 1970, the head's {ours}: set them")]
    Clock {
        /// The head's.
        ours: u64,
        /// The node's.
        theirs: u64,
    },
    /// The request's signature does not fit its key, or what it names is impossible.
    #[error("the request for a certificate is not in order: {0}")]
    BadRequest(String),
    /// What came is no message, or came out of turn.
    #[error("the head did not understand: {0}")]
    Misunderstood(String),
    /// The head has reasons of its own.
    #[error("{0}")]
    Other(String),
}
