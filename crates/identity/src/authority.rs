//! The cluster's own certificate authority: made once, kept by the head, signs for a day at a time.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType, SerialNumber, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use wire::Reader;
use wire::session::NodeLife;
use zeroize::Zeroizing;

use crate::error::Error;
use crate::key::{Key, PublicKey};
use crate::membership::{Membership, STORED_BYTES, counted};
use crate::name::{ClusterId, Member, Role};
use crate::{certificate, random};

/// How long a node's certificate is valid. Nothing is revoked, so a stolen one is of use until it ends, and longer if
/// the thief renews it: the head finds that out by the [`Fingerprint`](crate::Fingerprint) of what it issued last.
pub const LIFETIME_S: u64 = 24 * 3600;
/// How far a clock may be behind ours: certificates are valid from that long before they were made.
pub const SKEW_S: u64 = 3600;
/// The authority outlives any cluster; a cluster that outlived it would have to be started anew.
const AUTHORITY_LIFETIME_S: u64 = 20 * 365 * 24 * 3600;

/// The last second of the year 9998: certificates end with the year 9999.
const SECONDS_MAX: u64 = 253_370_764_799;

const MAGIC: &[u8; 8] = b"ERAUTH\x00\x01";

/// Signs for one cluster. Whoever has it can let anybody in: it is stored as a secret and never sent.
#[derive(Debug)]
pub struct Authority {
    cluster: ClusterId,
    key: Key,
    certificate: CertificateDer<'static>,
}

impl Authority {
    /// Makes a cluster.
    ///
    /// # Errors
    /// If no key can be made.
    pub fn new(now: UnixTime) -> Result<Self, Error> {
        let key = Key::generate()?;
        let cluster = ClusterId::of(&key.public().subject_public_key_info());
        let mut params = params_of(cluster);
        valid(&mut params, now, AUTHORITY_LIFETIME_S);
        params.serial_number = Some(serial());
        let certificate = params.self_signed(key.pair())?.der().clone();
        Ok(Self { cluster, key, certificate })
    }

    /// Its cluster.
    #[must_use]
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Its own certificate, by which members know each other. No secret.
    #[must_use]
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    #[cfg(test)]
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// A membership for a node on this machine: the head's own, for which nobody is asked.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn member(&self, who: NodeLife, role: Role, now: UnixTime) -> Result<Membership, Error> {
        let key = Key::generate()?;
        let member = Member { cluster: self.cluster, who, role };
        let certificate = self.sign(key.public(), member, now)?;
        Membership::new(key, certificate, self.certificate.clone(), now)
    }

    /// A certificate for who has this key. It says who that is and nothing else: no name of the peer's choice.
    pub(crate) fn sign(&self, key: PublicKey, member: Member, now: UnixTime) -> Result<CertificateDer<'static>, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(&format!("eagleray node {}", member.who.node));
        params.subject_alt_names = vec![SanType::URI(member.to_uri().try_into()?)];
        valid(&mut params, now, LIFETIME_S);
        params.serial_number = Some(serial());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Every node both dials and listens.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let issuer: Issuer<'_, &KeyPair> = Issuer::new(params_of(self.cluster), self.key.pair());
        Ok(params.signed_by(&key, &issuer)?.der().clone())
    }

    /// All of it, to be stored as a secret.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        // Room for all of it, so that no copy stays behind when it grows.
        let mut out = Zeroizing::new(Vec::with_capacity(STORED_BYTES));
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.cluster.0);
        counted(&mut out, &self.key.secret());
        counted(&mut out, &self.certificate);
        out
    }

    /// What [`Authority::to_bytes`] wrote.
    ///
    /// # Errors
    /// If it is anything else, or key, certificate and cluster do not belong together.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let damaged = |_| Error::Damaged("authority");
        let mut reader = Reader::new(bytes);
        let is_ours = reader.array::<8>().map_err(damaged)? == *MAGIC;
        let cluster = ClusterId(reader.array().map_err(damaged)?);
        let key = Key::restore(reader.counted().map_err(damaged)?)?;
        let certificate = CertificateDer::from(reader.counted().map_err(damaged)?.to_vec());
        let fits = certificate::is_of_key(&certificate, &key.public())
            && certificate::cluster_of_authority(&certificate) == Some(cluster);
        if !is_ours || !reader.rest().is_empty() || !fits {
            return Err(Error::Damaged("authority"));
        }
        Ok(Self { cluster, key, certificate })
    }
}

/// The authority's parameters, but for its time: all that its certificate says follows from the cluster.
pub(crate) fn params_of(cluster: ClusterId) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(&format!("eagleray cluster {cluster}"));
    params.subject_alt_names =
        vec![SanType::URI(authority_uri(cluster).try_into().expect("hexadecimal digits are ASCII"))];
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

/// Names the cluster in its authority's certificate, beside the subject, where libraries read it more easily.
pub(crate) fn authority_uri(cluster: ClusterId) -> String {
    format!("{}{cluster}", crate::name::SCHEME)
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "eagleray");
    name.push(DnType::CommonName, common);
    name
}

/// Sets from when and until when. A clock that is far beyond what certificates can say is taken as the last such moment.
fn valid(params: &mut CertificateParams, now: UnixTime, lifetime_s: u64) {
    let latest_s = SECONDS_MAX - lifetime_s;
    let now_s = now.as_secs().clamp(SKEW_S, latest_s);
    let start = date_time_ymd(1970, 1, 1);
    params.not_before = start + Duration::from_secs(now_s - SKEW_S);
    params.not_after = start + Duration::from_secs(now_s + lifetime_s);
}

/// By chance, so that two certificates for one key differ.
fn serial() -> SerialNumber {
    let mut bytes: [u8; 16] = random();
    // It is a positive number and begins with no zero byte.
    bytes[0] = bytes[0] & 0x3f | 0x40;
    SerialNumber::from_slice(&bytes)
}
