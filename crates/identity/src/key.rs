//! The key pair of an authority or a node: ECDSA over P-256.
//!
//! Ed25519 is simpler inside, but browsers take no such certificates, and the authority may one day sign for the
//! dashboard's port as well.

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm, SigningKey as _};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

use crate::error::Error;

/// Bytes of a public key: an uncompressed point.
pub(crate) const PUBLIC_BYTES: usize = 65;

/// A key pair. Only its public half is ever printed.
pub struct Key(KeyPair);

impl Key {
    /// A new one.
    ///
    /// # Errors
    /// If the operating system gives no random bytes.
    pub fn generate() -> Result<Self, Error> {
        Ok(Self(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?))
    }

    /// The one that [`Key::secret`] wrote.
    ///
    /// # Errors
    /// If it is anything else.
    pub(crate) fn restore(secret: &[u8]) -> Result<Self, Error> {
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(secret), &PKCS_ECDSA_P256_SHA256);
        Ok(Self(pair.map_err(|_| Error::Damaged("key"))?))
    }

    /// Both halves, to be stored.
    pub(crate) fn secret(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.0.serialize_der())
    }

    pub(crate) fn for_tls(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.0.serialize_der().into())
    }

    pub(crate) fn pair(&self) -> &KeyPair {
        &self.0
    }

    #[cfg(test)]
    pub(crate) fn into_pair(self) -> KeyPair {
        self.0
    }

    pub(crate) fn public(&self) -> PublicKey {
        PublicKey(self.0.public_key_raw().try_into().expect("a point of P-256 has 65 bytes"))
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.0.sign(message)?)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The half that others see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PublicKey(pub(crate) [u8; PUBLIC_BYTES]);

impl PublicKey {
    /// Whether whoever has the other half signed this message.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, self.0).verify(message, signature).is_ok()
    }
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}
