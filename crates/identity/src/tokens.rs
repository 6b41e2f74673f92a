//! The tokens of a cluster: which are valid, and until when. To rotate is to add one and let the old expire.

use rustls::pki_types::UnixTime;
use wire::Reader;
use zeroize::Zeroizing;

use crate::error::{Error, Refusal};
use crate::name::ClusterId;
use crate::token::{Token, TokenId};

/// How many tokens a table holds.
pub const TOKENS_MAX: usize = 64;

const MAGIC: &[u8; 8] = b"ERTOKS\x00\x01";
const ENTRY_BYTES: usize = 32 + 8 + 8;
/// In place of a time, for one without an end.
const FOREVER: u64 = u64::MAX;

/// What may be shown of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub id: TokenId,
    /// When it was made.
    pub made: UnixTime,
    /// Until when it lets nodes in; for ever if nothing.
    pub until: Option<UnixTime>,
}

#[derive(Clone, Debug)]
struct Entry {
    token: Token,
    made_s: u64,
    until_s: u64,
}

/// All tokens of one cluster. Expired ones stay, so that who comes with one learns why it does not help.
#[derive(Clone, Debug)]
pub struct Tokens {
    cluster: ClusterId,
    entries: Vec<Entry>,
}

impl Tokens {
    /// A table without any: nobody gets in.
    #[must_use]
    pub fn new(cluster: ClusterId) -> Self {
        Self { cluster, entries: Vec::new() }
    }

    /// Makes a token. If there is no room, the longest expired one makes some.
    ///
    /// # Errors
    /// If there are as many as there may be, all valid.
    pub fn add(&mut self, now: UnixTime, until: Option<UnixTime>) -> Result<Token, Error> {
        if self.entries.len() == TOKENS_MAX {
            // If the one that ends first has not ended, none has.
            if self.first_to_end().is_none_or(|at| !is_over(&self.entries[at], now)) {
                return Err(Error::TooManyTokens(TOKENS_MAX));
            }
            self.make_room();
        }
        Ok(self.push(now, until.map_or(FOREVER, |until| until.as_secs())))
    }

    /// Makes a token in place of all others. Those are valid until `until`, so that nodes under way still get in. It
    /// always works: of a full table the one that ends first goes, and of those that end together the oldest.
    pub fn rotate(&mut self, now: UnixTime, until: UnixTime) -> Token {
        for entry in &mut self.entries {
            entry.until_s = entry.until_s.min(until.as_secs());
        }
        if self.entries.len() == TOKENS_MAX {
            self.make_room();
        }
        self.push(now, FOREVER)
    }

    fn push(&mut self, now: UnixTime, until_s: u64) -> Token {
        let token = Token::new(self.cluster);
        self.entries.push(Entry { token: token.clone(), made_s: now.as_secs(), until_s });
        token
    }

    fn first_to_end(&self) -> Option<usize> {
        (0..self.entries.len()).min_by_key(|at| self.entries[*at].until_s)
    }

    fn make_room(&mut self) {
        if let Some(at) = self.first_to_end() {
            self.entries.remove(at);
        }
    }

    /// Lets a token expire at once, and says whether there is one of that name.
    pub fn expire(&mut self, id: TokenId, now: UnixTime) -> bool {
        let entry = self.entries.iter_mut().find(|entry| entry.token.id() == id);
        entry.map(|entry| entry.until_s = entry.until_s.min(now.as_secs())).is_some()
    }

    /// All of them, the oldest first.
    pub fn list(&self) -> impl Iterator<Item = Listed> {
        let time = |s| UnixTime::since_unix_epoch(std::time::Duration::from_secs(s));
        self.entries.iter().map(move |entry| Listed {
            id: entry.token.id(),
            made: time(entry.made_s),
            until: (entry.until_s != FOREVER).then(|| time(entry.until_s)),
        })
    }

    /// The newest token that is valid now.
    #[must_use]
    pub fn newest(&self, now: UnixTime) -> Option<&Token> {
        self.entries.iter().rev().find(|entry| !is_over(entry, now)).map(|entry| &entry.token)
    }

    /// The token of that name, and whether it is valid. Names are no secret: they may be compared in any way.
    pub(crate) fn find(&self, id: TokenId, now: UnixTime) -> Result<(&Token, bool), Refusal> {
        let entry = self.entries.iter().find(|entry| entry.token.id() == id).ok_or(Refusal::UnknownToken)?;
        Ok((&entry.token, !is_over(entry, now)))
    }

    /// All of it, to be stored as a secret.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(8 + 16 + self.entries.len() * ENTRY_BYTES));
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.cluster.0);
        for entry in &self.entries {
            out.extend_from_slice(entry.token.secret());
            out.extend_from_slice(&entry.made_s.to_le_bytes());
            out.extend_from_slice(&entry.until_s.to_le_bytes());
        }
        out
    }

    /// What [`Tokens::to_bytes`] wrote.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let damaged = |_| Error::Damaged("table of tokens");
        let mut reader = Reader::new(bytes);
        let is_ours = reader.array::<8>().map_err(damaged)? == *MAGIC;
        let cluster = ClusterId(reader.array().map_err(damaged)?);
        let left = reader.rest().len();
        if !is_ours || left % ENTRY_BYTES != 0 || left / ENTRY_BYTES > TOKENS_MAX {
            return Err(Error::Damaged("table of tokens"));
        }
        let mut entries = Vec::with_capacity(TOKENS_MAX);
        while !reader.rest().is_empty() {
            let token = Token::from_secret(cluster, reader.array().map_err(damaged)?);
            let (made_s, until_s) = (reader.u64().map_err(damaged)?, reader.u64().map_err(damaged)?);
            entries.push(Entry { token, made_s, until_s });
        }
        Ok(Self { cluster, entries })
    }
}

fn is_over(entry: &Entry, now: UnixTime) -> bool {
    now.as_secs() >= entry.until_s
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(s: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(s))
    }

    #[test]
    fn a_table_that_was_stored_has_the_same_tokens() {
        let mut table = Tokens::new(ClusterId([3; 16]));
        let first = table.add(at(10), Some(at(20))).unwrap();
        let second = table.add(at(11), None).unwrap();
        let restored = Tokens::from_bytes(&table.to_bytes()).unwrap();
        assert!(restored.list().eq(table.list()));
        let shown: Vec<_> = restored.list().map(|listed| (listed.id, listed.until)).collect();
        assert_eq!(shown, [(first.id(), Some(at(20))), (second.id(), None)]);
        assert_eq!(restored.newest(at(12)).unwrap().secret(), second.secret());
    }

    #[test]
    fn a_full_table_drops_an_expired_token_for_a_new_one_and_never_a_valid_one() {
        let mut table = Tokens::new(ClusterId([3; 16]));
        let brief = table.add(at(0), Some(at(5))).unwrap();
        let others: Vec<_> = (1..TOKENS_MAX).map(|_| table.add(at(0), None).unwrap().id()).collect();
        assert!(matches!(table.add(at(4), None), Err(Error::TooManyTokens(TOKENS_MAX))));
        table.add(at(5), None).unwrap();
        assert_eq!(table.find(brief.id(), at(5)).unwrap_err(), Refusal::UnknownToken);
        assert!(others.iter().all(|id| table.find(*id, at(5)).unwrap().1));
    }

    #[test]
    fn a_full_table_is_rotated_too_and_drops_what_ends_first() {
        let mut table = Tokens::new(ClusterId([3; 16]));
        let ids: Vec<_> = (0..TOKENS_MAX).map(|_| table.add(at(0), None).unwrap().id()).collect();
        table.expire(ids[5], at(1));
        let new = table.rotate(at(2), at(9));
        assert_eq!(table.find(ids[5], at(2)).unwrap_err(), Refusal::UnknownToken, "it was over");
        assert!(table.find(ids[0], at(8)).unwrap().1 && !table.find(ids[0], at(9)).unwrap().1);
        let newer = table.rotate(at(3), at(9));
        assert_eq!(table.find(ids[0], at(3)).unwrap_err(), Refusal::UnknownToken, "the oldest of all that end at 9");
        assert_eq!(table.list().count(), TOKENS_MAX);
        assert!(table.find(new.id(), at(8)).unwrap().1 && !table.find(new.id(), at(9)).unwrap().1);
        assert!(table.find(newer.id(), at(9)).unwrap().1);
    }

    #[test]
    fn a_token_that_was_made_to_expire_is_over_at_once_and_not_revived() {
        let mut table = Tokens::new(ClusterId([3; 16]));
        let token = table.add(at(0), None).unwrap();
        assert!(table.expire(token.id(), at(7)));
        assert!(!table.find(token.id(), at(7)).unwrap().1);
        table.rotate(at(8), at(100));
        assert!(!table.find(token.id(), at(9)).unwrap().1);
        assert!(!table.expire(TokenId([0; 8]), at(9)));
    }
}
