//! The secret that lets a node into a cluster, and how it is written.
//!
//! `eagleray1-` and 88 letters of base32: 16 bytes of cluster, 32 of secret, 7 of checksum. No letter is left over, so
//! that one cut short or copied twice has another length; any other slip fails the checksum.

use std::fmt;

use ring::{digest, hmac};
use zeroize::Zeroizing;

use crate::error::TokenError;
use crate::name::ClusterId;
use crate::{hex, random, unhex};

/// What every token begins with. The number counts the ways of writing one.
pub(crate) const PREFIX: &str = "eagleray1-";
/// How many letters follow.
pub(crate) const LETTERS: usize = 88;

const CHECK_BYTES: usize = 7;
const BYTES: usize = 16 + 32 + CHECK_BYTES;
const _: () = assert!(BYTES * 8 == LETTERS * 5);

/// Crockford's: without i, l, o and u, which are mistaken for others.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Names a token without giving it away.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(pub [u8; 8]);

impl TokenId {
    /// The id as [`Display`](fmt::Display) writes it; nothing if it is anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        unhex(text).map(Self)
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenId({self})")
    }
}

/// 256 random bits that the nodes of one cluster may know. It can be written in one way only, [`Token::to_text`], and
/// compared in none: whoever has to know proves it over a connection.
#[derive(Clone)]
pub struct Token {
    cluster: ClusterId,
    secret: Zeroizing<[u8; 32]>,
}

impl Token {
    /// A new one.
    #[must_use]
    pub fn new(cluster: ClusterId) -> Self {
        Self { cluster, secret: Zeroizing::new(random()) }
    }

    pub(crate) fn from_secret(cluster: ClusterId, secret: [u8; 32]) -> Self {
        Self { cluster, secret: Zeroizing::new(secret) }
    }

    /// Reads the content of a file or a variable, or a line of stdin. Space around it and capital letters do no harm.
    ///
    /// # Errors
    /// If it is no token; the error shows nothing of it.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(TokenError::Missing);
        }
        let prefix = text.get(..PREFIX.len()).filter(|prefix| prefix.eq_ignore_ascii_case(PREFIX));
        let letters = &text[prefix.ok_or(TokenError::Prefix)?.len()..];
        let count = letters.chars().count();
        if count != LETTERS {
            return Err(TokenError::Length(count));
        }
        let bytes = decode(letters)?;
        let (body, check) = bytes.split_at(BYTES - CHECK_BYTES);
        if checksum(body) != check {
            return Err(TokenError::Checksum);
        }
        let (cluster, secret) = body.split_first_chunk().expect("a token is longer than its cluster");
        let mut token = Self { cluster: ClusterId(*cluster), secret: Zeroizing::new([0; 32]) };
        token.secret.copy_from_slice(secret);
        Ok(token)
    }

    /// The text that lets nodes in. For a file of mode 0600, and nothing else.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new([0; BYTES]);
        bytes[..16].copy_from_slice(&self.cluster.0);
        bytes[16..48].copy_from_slice(self.secret.as_slice());
        let check = checksum(&bytes[..48]);
        bytes[48..].copy_from_slice(&check);
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + LETTERS));
        text.push_str(PREFIX);
        for eight in 0..BYTES / 5 {
            let five = bytes[eight * 5..][..5].iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
            text.extend((0..8).rev().map(|at| char::from(ALPHABET[(five >> (5 * at)) as usize & 31])));
        }
        text
    }

    /// The cluster that it lets into.
    #[must_use]
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Its name. It follows from the secret, which does not follow from it.
    #[must_use]
    pub fn id(&self) -> TokenId {
        let tag = hmac::sign(&self.hmac(), b"eagleray token id");
        TokenId(*tag.as_ref().first_chunk().expect("a tag has 32 bytes"))
    }

    /// For proofs.
    pub(crate) fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_slice())
    }

    /// For the table, which is stored as a secret.
    pub(crate) fn secret(&self) -> &[u8; 32] {
        &self.secret
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.id())
    }
}

fn checksum(body: &[u8]) -> [u8; CHECK_BYTES] {
    let digest = digest::digest(&digest::SHA256, body);
    *digest.as_ref().first_chunk().expect("a digest has 32 bytes")
}

fn decode(letters: &str) -> Result<Zeroizing<[u8; BYTES]>, TokenError> {
    let mut bytes = Zeroizing::new([0; BYTES]);
    let (mut bits, mut count, mut filled) = (0_u32, 0, 0);
    for (at, letter) in letters.chars().enumerate() {
        // What people write for others, as Crockford has it.
        let letter = match letter.to_ascii_lowercase() {
            'o' => '0',
            'i' | 'l' => '1',
            other => other,
        };
        let value = ALPHABET.iter().position(|known| char::from(*known) == letter);
        bits = bits << 5 | value.ok_or(TokenError::Character(at + 1))? as u32;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes[filled] = (bits >> count) as u8;
            filled += 1;
            bits &= (1 << count) - 1;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
