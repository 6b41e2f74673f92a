//! Under which addresses a node says that it can be reached.

use std::fmt;
use std::net::IpAddr;

use rustls::pki_types::DnsName;

/// A number or a name, without a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A number of either version.
    Ip(IpAddr),
    /// A name that a resolver knows.
    Name(DnsName<'static>),
}

impl Address {
    /// Reads what a user or a peer wrote; nothing if it is neither a number nor a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(ip) = text.parse() {
            return Some(Self::Ip(ip));
        }
        DnsName::try_from(text.to_owned()).ok().map(Self::Name)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Name(name) => f.write_str(name.as_ref()),
        }
    }
}
