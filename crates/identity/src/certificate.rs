//! Whether a certificate belongs to a cluster, and whom it names.
//!
//! All reading is done by webpki, which rustls checks certificates with: there is no second parser to differ from it.

use std::fmt;
use std::time::Duration;

use ring::digest;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert, ring as algorithms};

use crate::authority::authority_uri;
use crate::error::Untrusted;
use crate::hex;
use crate::key::PublicKey;
use crate::name::{ClusterId, Member, SCHEME};

/// What the bearer of a certificate does on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// It dials.
    Client,
    /// It is dialled.
    Server,
}

/// Tells one certificate from any other. No secret.
///
/// A head that keeps the one of what it issued last for a life notices when somebody comes with another: then two have
/// the same name, and one of them has stolen it. An answer may have been lost on its way, so the one before is still
/// good until the last one has been seen.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Of this certificate.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let digest = digest::digest(&digest::SHA256, certificate);
        Self(*digest.as_ref().first_chunk().expect("a digest has 32 bytes"))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Checks a certificate and says whose it is.
pub(crate) fn verify(
    certificate: &CertificateDer<'_>,
    authority: &CertificateDer<'_>,
    usage: Usage,
    now: UnixTime,
) -> Result<Member, Untrusted> {
    let ours = cluster_of_authority(authority).ok_or(Untrusted::Forged)?;
    // First the name, so that a wrong address reads as one. It decides nothing yet.
    let member = named(certificate)?;
    if member.cluster != ours {
        return Err(Untrusted::OtherCluster { theirs: member.cluster, ours });
    }
    check(certificate, authority, usage, now)?;
    Ok(member)
}

/// As [`verify`], for one that may have expired: whose it was.
pub(crate) fn verify_former(
    certificate: &CertificateDer<'_>,
    authority: &CertificateDer<'_>,
    now: UnixTime,
) -> Result<Member, Untrusted> {
    match verify(certificate, authority, Usage::Client, now) {
        Err(Untrusted::Expired(ago_s)) => {
            let end = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs().saturating_sub(ago_s)));
            verify(certificate, authority, Usage::Client, end)
        }
        verdict => verdict,
    }
}

/// Who the peer of a connection is, by the certificates that it has shown. They are checked here, whatever verifier the
/// connection had: one for joiners, say, which trusts nobody and takes anything.
///
/// # Errors
/// If it has shown none, or none that is valid now.
pub fn peer_of(
    authority: &CertificateDer<'_>,
    certificates: Option<&[CertificateDer<'_>]>,
    usage: Usage,
    now: UnixTime,
) -> Result<Member, Untrusted> {
    verify(certificates.and_then(<[_]>::first).ok_or(Untrusted::Unreadable)?, authority, usage, now)
}

/// Until when a certificate is valid, seconds since 1970.
///
/// # Errors
/// If it was not signed by that authority, or names nobody.
pub fn valid_until(certificate: &CertificateDer<'_>, authority: &CertificateDer<'_>) -> Result<UnixTime, Untrusted> {
    // webpki keeps the dates to itself, but says by how much one is late: ask at the end of time.
    let late = UnixTime::since_unix_epoch(Duration::from_secs(u64::from(u32::MAX) * 64));
    let end = match check(certificate, authority, Usage::Client, late) {
        Err(Untrusted::Expired(ago_s)) => UnixTime::since_unix_epoch(Duration::from_secs(late.as_secs() - ago_s)),
        Err(other) => return Err(other),
        Ok(()) => late,
    };
    // It looks at dates before it looks at signatures.
    verify(certificate, authority, Usage::Client, end)?;
    Ok(end)
}

/// Whether the certificate is for this key.
pub(crate) fn is_of_key(certificate: &CertificateDer<'_>, key: &PublicKey) -> bool {
    let info = rcgen::PublicKeyData::subject_public_key_info(key);
    EndEntityCert::try_from(certificate).is_ok_and(|parsed| *parsed.subject_public_key_info() == *info)
}

/// Whether whoever has the key of this certificate signed this message. The certificate itself is not checked.
pub(crate) fn has_signed(certificate: &CertificateDer<'_>, message: &[u8], signature: &[u8]) -> bool {
    EndEntityCert::try_from(certificate)
        .is_ok_and(|parsed| parsed.verify_signature(algorithms::ECDSA_P256_SHA256, message, signature).is_ok())
}

/// The cluster whose authority this is. Its name follows from its key, so that it is the only one.
pub(crate) fn cluster_of_authority(certificate: &CertificateDer<'_>) -> Option<ClusterId> {
    let parsed = EndEntityCert::try_from(certificate).ok()?;
    let cluster = ClusterId::parse(parsed.valid_uri_names().next()?.strip_prefix(SCHEME)?)?;
    let is_its_name = cluster == ClusterId::of(&parsed.subject_public_key_info());
    (is_its_name && parsed.valid_uri_names().eq([authority_uri(cluster)])).then_some(cluster)
}

/// The one member that it names.
fn named(certificate: &CertificateDer<'_>) -> Result<Member, Untrusted> {
    let parsed = EndEntityCert::try_from(certificate).map_err(|_| Untrusted::Unreadable)?;
    let mut uris = parsed.valid_uri_names();
    let member = uris.next().and_then(Member::from_uri).ok_or(Untrusted::Nameless)?;
    uris.next().is_none().then_some(member).ok_or(Untrusted::Nameless)
}

fn check(
    certificate: &CertificateDer<'_>,
    authority: &CertificateDer<'_>,
    usage: Usage,
    now: UnixTime,
) -> Result<(), Untrusted> {
    let parsed = EndEntityCert::try_from(certificate).map_err(|_| Untrusted::Unreadable)?;
    let anchor = anchor_from_trusted_cert(authority).map_err(|_| Untrusted::Forged)?;
    let usage = match usage {
        Usage::Client => KeyUsage::client_auth(),
        Usage::Server => KeyUsage::server_auth(),
    };
    let anchors = [anchor];
    let verdict = parsed.verify_for_usage(&[algorithms::ECDSA_P256_SHA256], &anchors, &[], now, usage, None, None);
    match verdict {
        Ok(_) => Ok(()),
        Err(webpki::Error::CertExpired { time, not_after }) => {
            Err(Untrusted::Expired(time.as_secs().saturating_sub(not_after.as_secs())))
        }
        Err(webpki::Error::CertNotValidYet { time, not_before }) => {
            Err(Untrusted::NotYet(not_before.as_secs().saturating_sub(time.as_secs())))
        }
        Err(_) => Err(Untrusted::Forged),
    }
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
mod tests;
