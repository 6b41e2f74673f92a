//! What a node keeps of its belonging: its key, its certificate and the authority's.

use rustls::pki_types::{CertificateDer, UnixTime};
use wire::Reader;
use zeroize::Zeroizing;

use crate::authority::LIFETIME_S;
use crate::certificate;
use crate::error::{Error, Untrusted};
use crate::key::Key;
use crate::name::Member;

/// More than any stored authority or membership has.
pub(crate) const STORED_BYTES: usize = 16 * 1024;

/// More than any certificate of ours has, and little enough for a request that shows it.
const CERTIFICATE_BYTES_MAX: usize = 2 * 1024;

const MAGIC: &[u8; 8] = b"ERMEMB\x00\x01";

/// A node's identity in one cluster. Stored as a secret.
#[derive(Debug)]
pub struct Membership {
    pub(crate) key: Key,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) authority: CertificateDer<'static>,
    member: Member,
    until: UnixTime,
}

impl Membership {
    /// Puts together what belongs together.
    pub(crate) fn new(
        key: Key,
        certificate: CertificateDer<'static>,
        authority: CertificateDer<'static>,
        now: UnixTime,
    ) -> Result<Self, Error> {
        // One that has expired is still a former one, by which its number is kept.
        let member = certificate::verify_former(&certificate, &authority, now)?;
        if certificate.len() > CERTIFICATE_BYTES_MAX || !certificate::is_of_key(&certificate, &key.public()) {
            return Err(Untrusted::NotOurs.into());
        }
        let until = certificate::valid_until(&certificate, &authority)?;
        Ok(Self { key, certificate, authority, member, until })
    }

    /// Who this is.
    #[must_use]
    pub fn member(&self) -> Member {
        self.member
    }

    /// Its certificate. No secret.
    #[must_use]
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The certificate of the cluster's authority. No secret.
    #[must_use]
    pub fn authority(&self) -> &CertificateDer<'static> {
        &self.authority
    }

    /// Until when it is valid.
    #[must_use]
    pub fn until(&self) -> UnixTime {
        self.until
    }

    /// Whether it is over, so that only a token helps.
    #[must_use]
    pub fn is_expired(&self, now: UnixTime) -> bool {
        now > self.until
    }

    /// Whether it is time to renew: a third of its life is left, so that a head may be away for hours.
    #[must_use]
    pub fn is_due(&self, now: UnixTime) -> bool {
        now.as_secs().saturating_add(LIFETIME_S / 3) >= self.until.as_secs()
    }

    /// All of it, to be stored as a secret.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        // Room for all of it, so that no copy stays behind when it grows.
        let mut out = Zeroizing::new(Vec::with_capacity(STORED_BYTES));
        out.extend_from_slice(MAGIC);
        counted(&mut out, &self.key.secret());
        counted(&mut out, &self.certificate);
        counted(&mut out, &self.authority);
        out
    }

    /// What [`Membership::to_bytes`] wrote, even if it has expired since.
    ///
    /// # Errors
    /// If it is anything else, or its parts do not belong together.
    pub fn from_bytes(bytes: &[u8], now: UnixTime) -> Result<Self, Error> {
        let damaged = |_| Error::Damaged("membership");
        let mut reader = Reader::new(bytes);
        let is_ours = reader.array::<8>().map_err(damaged)? == *MAGIC;
        let key = Key::restore(reader.counted().map_err(damaged)?)?;
        let certificate = CertificateDer::from(reader.counted().map_err(damaged)?.to_vec());
        let authority = CertificateDer::from(reader.counted().map_err(damaged)?.to_vec());
        if !is_ours || !reader.rest().is_empty() {
            return Err(Error::Damaged("membership"));
        }
        Self::new(key, certificate, authority, now)
    }
}

/// Bytes behind their length, as [`Reader::counted`] reads them.
pub(crate) fn counted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}
