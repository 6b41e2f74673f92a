//! What is said at the door, in bytes.
//!
//! `length: u16, kind: u8`, then the body; numbers are little-endian, `[..]` stands behind its length as u32.
//!
//! | kind | from | body |
//! |---|---|---|
//! | 1 hello | joiner | `magic: 8, version: u32, cluster: 16, token id: 8, clock: u64, proof: 32` |
//! | 2 welcome | head | `proof: 32, [authority's certificate]` |
//! | 3 request | joiner | `public key: 65, life: u64, python: 2, [former certificate], count: u8, count x [address]`, then |
//! | | | `[signature], [signature by the former key]` |
//! | 4 granted | head | `[certificate]` |
//! | 5 refused | head | `reason: u8, number: u64, number: u64, [text]` |
//!
//! Python's version is its first two numbers, a byte each. Hello's first twelve bytes mean the same in every version. Each proof covers all of hello before the proofs; the
//! head's also covers the certificate that it hands over. Both signatures cover all of request before them. Addresses
//! are what the joiner says of itself: no certificate has them.

use rustls::pki_types::CertificateDer;
use wire::{Malformed, Reader};

use crate::address::Address;
use crate::error::{Error, Refusal};
use crate::key::{PUBLIC_BYTES, PublicKey};
use crate::membership::counted;
use crate::name::ClusterId;
use crate::proof::PROOF_BYTES;
use crate::python::Python;
use crate::token::TokenId;

/// No message is longer, head included. An end of a conversation keeps at most this much.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// How many addresses a node may have.
pub(crate) const ADDRESSES_MAX: usize = 16;
/// How much a refusal may say in words.
const TEXT_BYTES_MAX: usize = 512;

const HEAD_BYTES: usize = 3;
const MAGIC: &[u8; 8] = b"ERDOOR\r\n";

/// How a message begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hello = 1,
    Welcome = 2,
    Request = 3,
    Granted = 4,
    Refused = 5,
}

/// Puts a message together again whose bytes come in any portions.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Vec<u8>);

impl Inbox {
    /// Takes what came, and gives the message if it is whole. Nobody has reason to send two: each waits for an answer.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if self.0.len() + bytes.len() > MESSAGE_BYTES_MAX {
            return Err(Error::TooLong(self.0.len() + bytes.len()));
        }
        self.0.extend_from_slice(bytes);
        let Some(length) = self.0.first_chunk() else { return Ok(None) };
        let length = usize::from(u16::from_le_bytes(*length));
        match self.0.len() {
            _ if length < HEAD_BYTES => Err(Malformed("length").into()),
            _ if length > MESSAGE_BYTES_MAX => Err(Error::TooLong(length)),
            came if came < length => Ok(None),
            came if came > length => Err(Error::OutOfTurn),
            _ => Ok(Some(std::mem::take(&mut self.0))),
        }
    }
}

/// A message's kind, and its body.
pub(crate) fn open(message: &[u8]) -> Result<(Kind, Reader<'_>), Malformed> {
    let mut reader = Reader::new(message);
    reader.bytes(2)?;
    let kind = match reader.u8()? {
        1 => Kind::Hello,
        2 => Kind::Welcome,
        3 => Kind::Request,
        4 => Kind::Granted,
        5 => Kind::Refused,
        _ => return Err(Malformed("kind of message")),
    };
    Ok((kind, reader))
}

fn begin(kind: Kind) -> Vec<u8> {
    vec![0, 0, kind as u8]
}

/// Writes the length, which is known last.
fn finish(mut message: Vec<u8>) -> Vec<u8> {
    debug_assert!(message.len() <= MESSAGE_BYTES_MAX, "a message of {} bytes", message.len());
    let length = message.len() as u16;
    message[..2].copy_from_slice(&length.to_le_bytes());
    message
}

fn end(reader: &Reader<'_>) -> Result<(), Malformed> {
    reader.rest().is_empty().then_some(()).ok_or(Malformed("end of a message"))
}

/// The joiner's first words, but for its proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: u32,
    pub(crate) cluster: ClusterId,
    pub(crate) token: TokenId,
    pub(crate) clock_s: u64,
}

impl Hello {
    /// What proofs are about.
    pub(crate) fn words(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.cluster.0);
        out.extend_from_slice(&self.token.0);
        out.extend_from_slice(&self.clock_s.to_le_bytes());
        out
    }

    pub(crate) fn encode(&self, proof: &[u8; PROOF_BYTES]) -> Vec<u8> {
        let mut out = begin(Kind::Hello);
        out.extend_from_slice(&self.words());
        out.extend_from_slice(proof);
        finish(out)
    }

    /// Of another version there is the version alone.
    pub(crate) fn version(reader: &mut Reader<'_>) -> Result<u32, Malformed> {
        if reader.array::<8>()? != *MAGIC {
            return Err(Malformed("greeting"));
        }
        reader.u32()
    }

    pub(crate) fn decode(mut reader: Reader<'_>) -> Result<(Self, [u8; PROOF_BYTES]), Malformed> {
        let version = Self::version(&mut reader)?;
        let cluster = ClusterId(reader.array()?);
        let token = TokenId(reader.array()?);
        let clock_s = reader.u64()?;
        let proof = reader.array()?;
        end(&reader)?;
        Ok((Self { version, cluster, token, clock_s }, proof))
    }
}

/// The head's proof, and the authority that it vouches for.
pub(crate) struct Welcome<'a> {
    pub(crate) proof: [u8; PROOF_BYTES],
    pub(crate) authority: CertificateDer<'a>,
}

impl<'a> Welcome<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = begin(Kind::Welcome);
        out.extend_from_slice(&self.proof);
        counted(&mut out, &self.authority);
        finish(out)
    }

    pub(crate) fn decode(mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let proof = reader.array()?;
        let authority = CertificateDer::from(reader.counted()?);
        end(&reader)?;
        Ok(Self { proof, authority })
    }
}

/// That the joiner has the keys that it speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signatures {
    /// By the new key.
    pub(crate) new: Vec<u8>,
    /// By the key of the former certificate; empty if there is none.
    pub(crate) former: Vec<u8>,
}

/// What the joiner wants to have signed, but for its signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// A new one, which no certificate has yet.
    pub(crate) key: PublicKey,
    pub(crate) life: u64,
    pub(crate) python: Python,
    /// What it had before, expired or not, so that it keeps its number.
    pub(crate) former: Option<CertificateDer<'static>>,
    pub(crate) addresses: Vec<Address>,
}

impl Request {
    /// What is signed.
    pub(crate) fn words(&self) -> Vec<u8> {
        let mut out = self.key.0.to_vec();
        out.extend_from_slice(&self.life.to_le_bytes());
        out.extend_from_slice(&[self.python.major, self.python.minor]);
        counted(&mut out, self.former.as_deref().unwrap_or_default());
        put_addresses(&mut out, &self.addresses);
        out
    }

    pub(crate) fn encode(&self, signatures: &Signatures) -> Vec<u8> {
        let mut out = begin(Kind::Request);
        out.extend_from_slice(&self.words());
        counted(&mut out, &signatures.new);
        counted(&mut out, &signatures.former);
        finish(out)
    }

    pub(crate) fn decode(mut reader: Reader<'_>) -> Result<(Self, Signatures), Malformed> {
        let key = PublicKey(reader.array::<PUBLIC_BYTES>()?);
        let life = reader.u64()?;
        let python = Python { major: reader.u8()?, minor: reader.u8()? };
        let former = reader.counted()?;
        let former = (!former.is_empty()).then(|| CertificateDer::from(former.to_vec()));
        let addresses = take_addresses(&mut reader)?;
        let signatures = Signatures { new: reader.counted()?.to_vec(), former: reader.counted()?.to_vec() };
        end(&reader)?;
        if former.is_none() != signatures.former.is_empty() {
            return Err(Malformed("signature by a former key"));
        }
        Ok((Self { key, life, python, former, addresses }, signatures))
    }
}

fn put_addresses(out: &mut Vec<u8>, addresses: &[Address]) {
    out.push(addresses.len() as u8);
    for address in addresses {
        counted(out, address.to_string().as_bytes());
    }
}

fn take_addresses(reader: &mut Reader<'_>) -> Result<Vec<Address>, Malformed> {
    let count = usize::from(reader.u8()?);
    if count > ADDRESSES_MAX {
        return Err(Malformed("count of addresses"));
    }
    let mut address = || {
        let text = std::str::from_utf8(reader.counted()?).ok();
        text.and_then(Address::parse).ok_or(Malformed("address"))
    };
    (0..count).map(|_| address()).collect()
}

pub(crate) fn encode_granted(certificate: &CertificateDer<'_>) -> Vec<u8> {
    let mut out = begin(Kind::Granted);
    counted(&mut out, certificate);
    finish(out)
}

pub(crate) fn decode_granted(mut reader: Reader<'_>) -> Result<CertificateDer<'static>, Malformed> {
    let certificate = CertificateDer::from(reader.counted()?.to_vec());
    end(&reader)?;
    Ok(certificate)
}

pub(crate) fn encode_refused(refusal: &Refusal) -> Vec<u8> {
    let (reason, numbers, text): (u8, (u64, u64), &str) = match refusal {
        Refusal::Version { ours, theirs } => (1, ((*ours).into(), (*theirs).into()), ""),
        Refusal::OtherCluster(cluster) => {
            let (high, low) = cluster.0.split_at(8);
            let number = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("half of 16 bytes"));
            (2, (number(high), number(low)), "")
        }
        Refusal::UnknownToken => (3, (0, 0), ""),
        Refusal::ExpiredToken => (4, (0, 0), ""),
        Refusal::WrongProof => (5, (0, 0), ""),
        Refusal::Clock { ours, theirs } => (6, (*ours, *theirs), ""),
        Refusal::BadRequest(what) => (7, (0, 0), what),
        Refusal::Misunderstood(what) => (8, (0, 0), what),
        Refusal::Other(what) => (9, (0, 0), what),
        Refusal::Python { ours, theirs } => (10, (ours.number(), theirs.number()), ""),
    };
    let mut out = begin(Kind::Refused);
    out.push(reason);
    out.extend_from_slice(&numbers.0.to_le_bytes());
    out.extend_from_slice(&numbers.1.to_le_bytes());
    counted(&mut out, &text.as_bytes()[..text.floor_char_boundary(TEXT_BYTES_MAX)]);
    finish(out)
}

pub(crate) fn decode_refused(mut reader: Reader<'_>) -> Result<Refusal, Malformed> {
    let reason = reader.u8()?;
    let (first, second) = (reader.u64()?, reader.u64()?);
    let text = std::str::from_utf8(reader.counted()?).map_err(|_| Malformed("text of a refusal"))?;
    end(&reader)?;
    if text.len() > TEXT_BYTES_MAX {
        return Err(Malformed("text of a refusal"));
    }
    // It ends on a terminal and may come from somebody who has proved nothing.
    let text = || text.chars().map(|letter| if is_shown(letter) { letter } else { ' ' }).collect();
    let version = |number: u64| u32::try_from(number).map_err(|_| Malformed("version"));
    let python = |number: u64| Python::of_number(number).ok_or(Malformed("version of Python"));
    Ok(match reason {
        1 => Refusal::Version { ours: version(first)?, theirs: version(second)? },
        2 => {
            let bytes = [first.to_le_bytes(), second.to_le_bytes()].concat();
            Refusal::OtherCluster(ClusterId(bytes.try_into().expect("twice 8 bytes")))
        }
        3 => Refusal::UnknownToken,
        4 => Refusal::ExpiredToken,
        5 => Refusal::WrongProof,
        6 => Refusal::Clock { ours: first, theirs: second },
        7 => Refusal::BadRequest(text()),
        8 => Refusal::Misunderstood(text()),
        9 => Refusal::Other(text()),
        10 => Refusal::Python { ours: python(first)?, theirs: python(second)? },
        _ => return Err(Malformed("reason of a refusal")),
    })
}

/// Whether a letter stands for itself alone: it neither controls a terminal, nor turns or hides what stands around it.
fn is_shown(letter: char) -> bool {
    let hides = matches!(letter,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !hides && !letter.is_control()
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
