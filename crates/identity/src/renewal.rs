//! A new certificate for who has a valid one: the same node, the same life and role, a day more.
//!
//! It is asked for over a session, whose line has authenticated the node already. So the answer is for whoever that is,
//! and the request need only show that its sender has the new key. Asking twice gives two certificates for one node.

use rustls::pki_types::{CertificateDer, UnixTime};
use wire::{Malformed, Reader};

use crate::address::Address;
use crate::authority::Authority;
use crate::certificate::{self, Usage};
use crate::error::{Error, Untrusted};
use crate::key::{Key, PublicKey};
use crate::membership::{Membership, counted};
use crate::message::{ADDRESSES_MAX, MESSAGE_BYTES_MAX, put_addresses, take_addresses};
use crate::name::Member;

/// A renewal under way: the key that the next certificate is for.
#[derive(Debug)]
pub struct Renewal {
    key: Key,
    asks: Vec<u8>,
}

impl Renewal {
    /// Draws a new key, so that an old one that somebody has copied ends with its certificate.
    ///
    /// # Errors
    /// If no key can be made, or there are more than 16 addresses.
    pub fn new(of: &Membership, addresses: &[Address]) -> Result<Self, Error> {
        if addresses.len() > ADDRESSES_MAX {
            return Err(Error::Library(format!("{} addresses are more than {ADDRESSES_MAX}", addresses.len())));
        }
        let key = Key::generate()?;
        let mut asks = key.public().0.to_vec();
        put_addresses(&mut asks, addresses);
        let signature = key.sign(&to_be_signed(&of.member(), &asks))?;
        counted(&mut asks, &signature);
        Ok(Self { key, asks })
    }

    /// What to send to the head.
    #[must_use]
    pub fn request(&self) -> &[u8] {
        &self.asks
    }

    /// Takes the head's answer.
    ///
    /// # Errors
    /// If it is no valid certificate for this node and key; the old membership still holds.
    pub fn finish(self, certificate: &[u8], of: &Membership, now: UnixTime) -> Result<Membership, Error> {
        let certificate = CertificateDer::from(certificate.to_vec());
        let member = certificate::verify(&certificate, &of.authority, Usage::Client, now)?;
        if member != of.member() {
            return Err(Untrusted::NotOurs.into());
        }
        Membership::new(self.key, certificate, of.authority.clone(), now)
    }
}

impl Authority {
    /// Answers a request to renew that came from `peer`, as its line has authenticated it.
    ///
    /// # Errors
    /// If the request is malformed, of somebody else, or the peer is of another cluster.
    pub fn renew(&self, peer: Member, request: &[u8], now: UnixTime) -> Result<CertificateDer<'static>, Error> {
        if peer.cluster != self.cluster() {
            return Err(Untrusted::OtherCluster { theirs: peer.cluster, ours: self.cluster() }.into());
        }
        if request.len() > MESSAGE_BYTES_MAX {
            return Err(Error::TooLong(request.len()));
        }
        let mut reader = Reader::new(request);
        let key = PublicKey(reader.array()?);
        let addresses = take_addresses(&mut reader)?;
        let words = &request[..request.len() - reader.rest().len()];
        let signature = reader.counted()?;
        if !reader.rest().is_empty() || !key.verifies(&to_be_signed(&peer, words), signature) {
            return Err(Malformed("request to renew").into());
        }
        self.sign(key, peer, &addresses, now)
    }
}

fn to_be_signed(member: &Member, words: &[u8]) -> Vec<u8> {
    [b"eagleray renewal of ", member.to_uri().as_bytes(), b": ", words].concat()
}
