//! A new certificate for who has a valid one: the same node, the same life, a day more.
//!
//! It is asked for over a session, whose line has authenticated the node by a certificate. That certificate is checked
//! again when it asks, since lines outlive certificates; the request shows that its sender has the new key. Asking
//! twice gives two certificates for one node, so a thief can ask as well: see [`Fingerprint`](crate::Fingerprint).

use rustls::pki_types::{CertificateDer, UnixTime};
use wire::{Malformed, Reader};

use crate::authority::Authority;
use crate::certificate::{self, Usage};
use crate::error::{Error, Untrusted};
use crate::key::{Key, PublicKey};
use crate::membership::{Membership, counted};
use crate::message::MESSAGE_BYTES_MAX;
use crate::name::{Member, Role};

/// A renewal under way: the key that the next certificate is for.
#[derive(Debug)]
pub struct Renewal {
    key: Key,
    asks: Vec<u8>,
}

impl Renewal {
    /// Draws a new key, so that who has copied the old one has to be seen asking for a certificate of his own.
    ///
    /// # Errors
    /// If no key can be made.
    pub fn new(of: &Membership) -> Result<Self, Error> {
        let key = Key::generate()?;
        let mut asks = key.public().0.to_vec();
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
    /// Answers a request to renew that came over a line on which the peer has shown this certificate. Whether its
    /// bearer was expelled meanwhile, the caller knows and has closed the line.
    ///
    /// # Errors
    /// If the certificate is not valid now, whatever it was when the line began; if it is a head's; if the request is
    /// malformed, of somebody else, or for the key that the peer has already.
    pub fn renew(
        &self,
        peer: &CertificateDer<'_>,
        request: &[u8],
        now: UnixTime,
    ) -> Result<CertificateDer<'static>, Error> {
        let member = certificate::verify(peer, self.certificate(), Usage::Client, now)?;
        if member.role == Role::Head {
            return Err(Untrusted::IsHead.into());
        }
        if request.len() > MESSAGE_BYTES_MAX {
            return Err(Error::TooLong(request.len()));
        }
        let mut reader = Reader::new(request);
        let key = PublicKey(reader.array()?);
        let words = &request[..request.len() - reader.rest().len()];
        let signature = reader.counted()?;
        if !reader.rest().is_empty() || !key.verifies(&to_be_signed(&member, words), signature) {
            return Err(Malformed("request to renew").into());
        }
        if certificate::is_of_key(peer, &key) {
            return Err(Error::OldKey);
        }
        self.sign(key, member, now)
    }
}

fn to_be_signed(member: &Member, words: &[u8]) -> Vec<u8> {
    [b"eagleray renewal of ", member.to_uri().as_bytes(), b": ", words].concat()
}
