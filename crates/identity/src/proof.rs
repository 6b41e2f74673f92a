//! How knowledge of a token is bound to one TLS connection.
//!
//! Both ends take two values from the connection's exporter (RFC 8446, 7.5), one for each direction. They depend on
//! every byte of the handshake, the server's certificate among them, and nobody else can know them. A proof is an HMAC of
//! one of them under the token. Somebody who stands between has two connections with different values, an old
//! connection had others, and one's own proof sent back is of the other direction (ID-2). The token has 256 random
//! bits, so a proof may be shown to anybody: it helps nobody to guess.

use ring::hmac;
use rustls::ConnectionCommon;

use crate::error::Error;
use crate::membership::counted;
use crate::token::Token;

const LABEL: &[u8] = b"EXPORTER-eagleray-join";

/// Bytes of a proof.
pub(crate) const PROOF_BYTES: usize = 32;

/// Who proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Joiner,
    Head,
}

impl Side {
    fn context(self) -> &'static [u8] {
        match self {
            Self::Joiner => b"joiner",
            Self::Head => b"head",
        }
    }
}

/// What one connection has that no other has. Its handshake must be over.
#[derive(Clone)]
pub struct Binding {
    joiner: [u8; 32],
    head: [u8; 32],
}

impl Binding {
    /// Takes it from a connection.
    ///
    /// # Errors
    /// If the handshake is not over.
    pub fn of<D>(connection: &ConnectionCommon<D>) -> Result<Self, Error> {
        Self::exported(|context| connection.export_keying_material([0; 32], LABEL, Some(context)))
    }

    fn exported(export: impl Fn(&[u8]) -> Result<[u8; 32], rustls::Error>) -> Result<Self, Error> {
        Ok(Self { joiner: export(Side::Joiner.context())?, head: export(Side::Head.context())? })
    }

    /// The proof of one side that it knows the token and says these words.
    pub(crate) fn prove(&self, token: &Token, side: Side, words: &[&[u8]]) -> [u8; PROOF_BYTES] {
        let tag = hmac::sign(&token.hmac(), &self.statement(side, words));
        *tag.as_ref().first_chunk().expect("a tag has 32 bytes")
    }

    /// Whether this is that proof. Takes as long whatever is wrong with it.
    pub(crate) fn is_proof(&self, proof: &[u8; PROOF_BYTES], token: &Token, side: Side, words: &[&[u8]]) -> bool {
        hmac::verify(&token.hmac(), &self.statement(side, words), proof).is_ok()
    }

    /// What the joiner's new key signs, to show on this connection that it has the private half.
    pub(crate) fn to_be_signed(&self, words: &[u8]) -> Vec<u8> {
        [b"eagleray join: request for a certificate", &self.joiner[..], words].concat()
    }

    /// What its former key signs over the same words, to show whom it was. Its statement is never taken for the other.
    pub(crate) fn to_be_signed_by_former(&self, words: &[u8]) -> Vec<u8> {
        [b"eagleray join: the former key of who requests", &self.joiner[..], words].concat()
    }

    fn statement(&self, side: Side, words: &[&[u8]]) -> Vec<u8> {
        let exported = match side {
            Side::Joiner => &self.joiner,
            Side::Head => &self.head,
        };
        let mut statement = [b"eagleray join: proof of the ", side.context(), exported].concat();
        for word in words {
            // Behind its length, so that no two lists of words read alike.
            counted(&mut statement, word);
        }
        statement
    }

    /// For tests of what is said on a connection without one.
    #[cfg(test)]
    pub(crate) fn fixed(byte: u8) -> Self {
        Self { joiner: [byte; 32], head: [!byte; 32] }
    }
}

impl std::fmt::Debug for Binding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Binding(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClusterId;

    fn is_proof(made: (&Binding, Side, &[&[u8]]), checked: (&Binding, Side, &[&[u8]])) -> bool {
        let token = Token::from_secret(ClusterId([0; 16]), [5; 32]);
        let proof = made.0.prove(&token, made.1, made.2);
        checked.0.is_proof(&proof, &token, checked.1, checked.2)
    }

    #[test]
    fn a_proof_holds_for_its_connection_its_direction_and_its_words() {
        let (here, there) = (Binding::fixed(1), Binding::fixed(2));
        let words: &[&[u8]] = &[b"ab", b"c"];
        let made = (&here, Side::Joiner, words);
        assert!(is_proof(made, made));
        assert!(!is_proof(made, (&there, Side::Joiner, words)));
        assert!(!is_proof(made, (&here, Side::Head, words)));
        assert!(!is_proof(made, (&here, Side::Joiner, &[b"a", b"bc"])));
        assert!(!is_proof(made, (&here, Side::Joiner, &[b"ab"])));
    }

    #[test]
    fn what_two_keys_sign_of_one_request_differs_and_is_of_one_connection() {
        let (here, there) = (Binding::fixed(1), Binding::fixed(2));
        assert_ne!(here.to_be_signed(b"words"), here.to_be_signed_by_former(b"words"));
        assert_ne!(here.to_be_signed(b"words"), there.to_be_signed(b"words"));
        assert_ne!(here.to_be_signed_by_former(b"words"), there.to_be_signed_by_former(b"words"));
    }

    #[test]
    fn a_proof_under_another_token_is_none() {
        let binding = Binding::fixed(1);
        let [ours, other] = [[5; 32], [6; 32]].map(|secret| Token::from_secret(ClusterId([0; 16]), secret));
        let proof = binding.prove(&other, Side::Head, &[]);
        assert!(!binding.is_proof(&proof, &ours, Side::Head, &[]));
    }

    /// Either alone keeps the directions apart.
    #[test]
    fn directions_differ_in_what_is_exported_and_in_what_is_said_about_it() {
        let exported = |context: &[u8]| Ok(if context == b"head" { [1; 32] } else { [2; 32] });
        let binding = Binding::exported(exported).unwrap();
        assert_eq!((binding.head, binding.joiner), ([1; 32], [2; 32]));
        let same = Binding { joiner: [3; 32], head: [3; 32] };
        assert!(!is_proof((&same, Side::Joiner, &[]), (&same, Side::Head, &[])));
        let statements = [Side::Joiner, Side::Head].map(|side| binding.statement(side, &[]));
        assert!(statements[0].ends_with(&[2; 32]) && statements[1].ends_with(&[1; 32]));
    }
}
