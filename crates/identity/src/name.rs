//! How a cluster, a node and its role are written into a certificate: one URI among its alternative names.
//!
//! `eagleray://CLUSTER/node/NUMBER/life/LIFE/role/ROLE`, cluster and life in hexadecimal. One spelling each, so that two
//! readers never see two nodes in one certificate.

use std::fmt;

use ring::digest;
use wire::session::NodeLife;

use crate::{hex, unhex};

/// What all names begin with.
pub(crate) const SCHEME: &str = "eagleray://";

/// Which cluster: a digest of its authority's public key. No secret.
///
/// So nobody else can have an authority of that name, and who has the name from a token knows the authority when it
/// sees it, even if others know the token too.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClusterId(pub [u8; 16]);

impl ClusterId {
    /// The cluster whose authority has this key, as certificates write keys.
    pub(crate) fn of(key: &[u8]) -> Self {
        let digest = digest::digest(&digest::SHA256, key);
        Self(*digest.as_ref().first_chunk().expect("a digest has 32 bytes"))
    }

    /// The id as [`Display`](fmt::Display) writes it; nothing if it is anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        unhex(text).map(Self)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterId({self})")
    }
}

/// What a node is to its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Has the authority: lets others in and renews them.
    Head,
    /// Any other.
    Node,
}

impl Role {
    /// Its word in a name.
    fn word(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Node => "node",
        }
    }
}

/// Whom a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The cluster it belongs to.
    pub cluster: ClusterId,
    /// Its number there, and which life of it.
    pub who: NodeLife,
    /// What it is there.
    pub role: Role,
}

impl Member {
    /// The URI that stands in the certificate.
    #[must_use]
    pub fn to_uri(self) -> String {
        let NodeLife { node, life } = self.who;
        format!("{SCHEME}{}/node/{node}/life/{life:016x}/role/{}", self.cluster, self.role.word())
    }

    /// Reads such a URI; nothing if it is written in any other way.
    #[must_use]
    pub fn from_uri(uri: &str) -> Option<Self> {
        let mut parts = uri.strip_prefix(SCHEME)?.split('/');
        let cluster = ClusterId::parse(parts.next()?)?;
        let mut after = |word| (parts.next() == Some(word)).then(|| parts.next()).flatten();
        let node = after("node")?.parse().ok()?;
        let life = u64::from_be_bytes(unhex(after("life")?)?);
        let role = match after("role")? {
            "head" => Role::Head,
            "node" => Role::Node,
            _ => return None,
        };
        let member = Self { cluster, who: NodeLife { node, life }, role };
        // Numbers can be spelt in several ways (+7, 07), and something may follow.
        (member.to_uri() == uri).then_some(member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBER: Member =
        Member { cluster: ClusterId([0xa5; 16]), who: NodeLife { node: 7, life: 0xbeef }, role: Role::Node };

    #[test]
    fn a_name_is_read_back_as_it_was_written() {
        let head = Member { role: Role::Head, ..MEMBER };
        assert_eq!(Member::from_uri(&MEMBER.to_uri()), Some(MEMBER));
        assert_eq!(Member::from_uri(&head.to_uri()), Some(head));
    }

    #[test]
    fn a_name_in_another_spelling_is_none() {
        let uri = MEMBER.to_uri();
        for (old, new) in [
            ("/7/", "/07/"),
            ("/7/", "/+7/"),
            ("a5a5", "A5A5"),
            ("role/node", "role/king"),
            ("role/node", "role/node/"),
        ] {
            assert_eq!(Member::from_uri(&uri.replacen(old, new, 1)), None, "{new}");
        }
    }
}
