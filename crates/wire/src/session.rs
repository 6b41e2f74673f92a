//! HOT: what travels between two nodes: envelopes, one behind the other, on a stream of bytes that may be cut and begun again.
//!
//! An envelope is a 16-byte head and a body of at most `PIECE_BYTES_MAX`. All numbers are little-endian.
//!
//! | bytes | of the head |
//! |---|---|
//! | 0..8 | *counted* kinds: how many bytes of counted envelopes came before this one; `RECEIVED`: how many the sender has taken up |
//! | 8..10, 10..12 | channel: who sends, who gets it |
//! | 12..14 | length of the body |
//! | 14 | what it is, see below |
//! | 15 | kind of the item; means nothing to the session |
//!
//! | what | counted | body |
//! |---|---|---|
//! | `0x10` item, `0x20` last words, `0x30` news | yes | plus 0: all of it; plus 1: `whole length: u32`, then its first piece; plus 2: a further piece; plus 3: the last one |
//! | `0x40` credit | yes | entries of `from: u16, to: u16, bytes: u32` |
//! | `0x41` mark | yes | `position: u64` |
//! | `0x50` received | no | none |
//! | `0x51` hello | no | see `Hello` |
//! | `0x52` refused | no | see `Refusal` |

use crate::{Malformed, PROTOCOL, Reader};

/// Bytes of an envelope's head.
pub const HEAD_BYTES: usize = 16;
/// The largest body of an envelope: with its head 64 KiB.
pub const PIECE_BYTES_MAX: usize = 64 * 1024 - HEAD_BYTES;
/// The largest item.
pub const ITEM_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// What one process of the sending node sends to one of the receiving node. The numbers are slots; which one stands for the node itself is
/// up to those who use the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel {
    /// Who sends.
    pub from: u16,
    /// Who gets it.
    pub to: u16,
}

/// Which part of an item an envelope has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// Its length and its beginning.
    First,
    /// Something in the middle.
    More,
    /// Its end.
    Last,
}

/// What an envelope is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An item of a channel.
    Item(Part),
    /// The same, begun without credit: its sender is dead, and there will not be more.
    LastWords(Part),
    /// An item of no channel, which needs no credit.
    News(Part),
    /// Bytes of channels that the receiver has got rid of.
    Credit,
    /// All that was accepted up to a position came before.
    Mark,
    /// How much has come.
    Received,
    /// The first one on a line, either way.
    Hello,
    /// Instead of an answering hello.
    Refused,
}

impl What {
    /// Whether it is counted, kept until the peer has it, and sent again on the next line.
    #[must_use]
    #[inline]
    pub fn is_counted(self) -> bool {
        !matches!(self, Self::Received | Self::Hello | Self::Refused)
    }

    #[inline]
    fn to_byte(self) -> u8 {
        match self {
            Self::Item(part) => 0x10 | part as u8,
            Self::LastWords(part) => 0x20 | part as u8,
            Self::News(part) => 0x30 | part as u8,
            Self::Credit => 0x40,
            Self::Mark => 0x41,
            Self::Received => 0x50,
            Self::Hello => 0x51,
            Self::Refused => 0x52,
        }
    }

    #[inline]
    fn from_byte(byte: u8) -> Result<Self, Malformed> {
        let part = match byte & 0x0f {
            0 => Part::Whole,
            1 => Part::First,
            2 => Part::More,
            _ => Part::Last,
        };
        Ok(match byte {
            0x10..=0x13 => Self::Item(part),
            0x20..=0x23 => Self::LastWords(part),
            0x30..=0x33 => Self::News(part),
            0x40 => Self::Credit,
            0x41 => Self::Mark,
            0x50 => Self::Received,
            0x51 => Self::Hello,
            0x52 => Self::Refused,
            _ => return Err(Malformed("envelope's kind")),
        })
    }
}

/// What stands before every body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of counted envelopes before this one; of `Received`: those taken up.
    pub offset: u64,
    /// Of an item.
    pub channel: Channel,
    /// Bytes of the body.
    pub length: u16,
    /// What it is.
    pub what: What,
    /// Of an item: what it is to those who use the session.
    pub kind: u8,
}

impl Head {
    /// A head that says nothing but what it is, and how long its body.
    #[must_use]
    pub fn plain(what: What, offset: u64, length: u16) -> Self {
        Self { offset, channel: Channel::default(), length, what, kind: 0 }
    }

    /// As it travels.
    #[must_use]
    #[inline]
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let low = u64::from(self.channel.from)
            | u64::from(self.channel.to) << 16
            | u64::from(self.length) << 32
            | u64::from(self.what.to_byte()) << 48
            | u64::from(self.kind) << 56;
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..].copy_from_slice(&low.to_le_bytes());
        bytes
    }

    /// The inverse of `to_bytes`.
    ///
    /// # Errors
    /// If there is no such kind of envelope, or none of this length.
    #[inline]
    pub fn from_bytes(bytes: [u8; HEAD_BYTES]) -> Result<Self, Malformed> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        let (offset, low) = (word(0), word(8));
        let length = (low >> 32) as u16;
        if usize::from(length) > PIECE_BYTES_MAX {
            return Err(Malformed("envelope's length"));
        }
        let channel = Channel { from: low as u16, to: (low >> 16) as u16 };
        let what = What::from_byte((low >> 48) as u8)?;
        Ok(Self { offset, channel, length, what, kind: (low >> 56) as u8 })
    }

    /// Bytes of the envelope with this head.
    #[must_use]
    #[inline]
    pub fn envelope_bytes(&self) -> usize {
        HEAD_BYTES + usize::from(self.length)
    }
}

/// One life of a node: its number in the cluster, and what tells one process that has this number from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeLife {
    /// Given out by the head, never twice.
    pub node: u32,
    /// Chosen by the node when it starts.
    pub life: u64,
}

/// The first envelope on a line, either way: who I am, whom I mean, and how much of yours I have.
///
/// `magic: 8, version: u32, is_resumed: u32`, then of the sender and of the receiver `node: u32, life: u64`, then
/// `line: u64, received: u64, window: u32`. The first twelve bytes mean the same in every version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who says it.
    pub from: NodeLife,
    /// Who is meant.
    pub to: NodeLife,
    /// Whether the sender has heard from the receiver's session before.
    pub is_resumed: bool,
    /// Counts the lines that the dialling side has begun; an answer repeats it.
    pub line: u64,
    /// Bytes of the receiver's counted envelopes that have come.
    pub received: u64,
    /// Bytes of each channel that the sender is ready to hold.
    pub window: u32,
}

const MAGIC: [u8; 8] = *b"eagleray";

impl Hello {
    /// Bytes of its body.
    pub const BYTES: usize = 60;

    /// The envelope.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Head::plain(What::Hello, 0, Self::BYTES as u16).to_bytes().to_vec();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&PROTOCOL.to_le_bytes());
        bytes.extend_from_slice(&u32::from(self.is_resumed).to_le_bytes());
        for who in [self.from, self.to] {
            bytes.extend_from_slice(&who.node.to_le_bytes());
            bytes.extend_from_slice(&who.life.to_le_bytes());
        }
        [self.line, self.received].into_iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes.extend_from_slice(&self.window.to_le_bytes());
        bytes
    }

    /// Reads the body.
    ///
    /// # Errors
    /// If it is no hello, or one of another version.
    pub fn read(body: &[u8]) -> Result<Self, NoHello> {
        let mut from = Reader::new(body);
        if from.array::<8>()? != MAGIC {
            return Err(Malformed("hello").into());
        }
        match from.u32()? {
            PROTOCOL => {}
            other => return Err(NoHello::Version(other)),
        }
        let is_resumed = from.u32()? != 0;
        let mut who = || Ok::<_, Malformed>(NodeLife { node: from.u32()?, life: from.u64()? });
        let (sender, to) = (who()?, who()?);
        let (line, received, window) = (from.u64()?, from.u64()?, from.u32()?);
        if !from.rest().is_empty() {
            return Err(Malformed("hello's length").into());
        }
        Ok(Self { from: sender, to, is_resumed, line, received, window })
    }
}

/// Why bytes are no hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoHello {
    /// Whoever sent them does not speak this.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Its sender has another protocol version.
    #[error("protocol version {0} instead of {PROTOCOL}")]
    Version(u32),
}

/// Why a line is not taken. `code: u32, detail: u64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The refusing side has this protocol version. Final until one of the two is another program.
    #[error("its protocol version is {0}, ours is {PROTOCOL}")]
    Version(u32),
    /// The refusing side is another node, with this number.
    #[error("it is node {0}")]
    OtherNode(u32),
    /// The refusing side is this later or earlier life of the node that was meant.
    #[error("it is life {0} of that node")]
    OtherLife(u64),
    /// The refusing side has not heard of a node with the sender's number and life, which may change.
    #[error("it does not know us")]
    Unknown,
    /// The session was ended by a verdict, and nothing that was under way in it will be taken. Final.
    #[error("it has ended the session")]
    Ended,
    /// The sender goes on with a session of which the refusing side has nothing. Final.
    #[error("it knows nothing of the session that was to go on")]
    Forgotten,
    /// The refusing side has got a later line. Nothing needs to be done.
    #[error("it has a later line")]
    Late,
    /// What the sender has received is not among what the refusing side has kept: one of the two is wrong. Final.
    #[error("it cannot go on behind byte {0}")]
    Gap(u64),
}

impl Refusal {
    /// Bytes of its body.
    pub const BYTES: usize = 12;

    /// The envelope.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let (code, detail) = match self {
            Self::Version(version) => (1_u32, u64::from(version)),
            Self::OtherNode(node) => (2, u64::from(node)),
            Self::OtherLife(life) => (3, life),
            Self::Unknown => (4, 0),
            Self::Ended => (5, 0),
            Self::Forgotten => (6, 0),
            Self::Late => (7, 0),
            Self::Gap(offset) => (8, offset),
        };
        let mut bytes = Head::plain(What::Refused, 0, Self::BYTES as u16).to_bytes().to_vec();
        bytes.extend_from_slice(&code.to_le_bytes());
        bytes.extend_from_slice(&detail.to_le_bytes());
        bytes
    }

    /// Reads the body. What a later version adds behind it is not read.
    ///
    /// # Errors
    /// If it is no refusal that this version knows.
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(body);
        let (code, detail) = (from.u32()?, from.u64()?);
        Ok(match code {
            1 => Self::Version(detail as u32),
            2 => Self::OtherNode(detail as u32),
            3 => Self::OtherLife(detail),
            4 => Self::Unknown,
            5 => Self::Ended,
            6 => Self::Forgotten,
            7 => Self::Late,
            8 => Self::Gap(detail),
            _ => return Err(Malformed("refusal")),
        })
    }

    /// Whether dialling again cannot help.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Unknown | Self::Late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_survives_the_round_trip_and_its_bytes_are_fixed() {
        let channel = Channel { from: 0x0908, to: 0x0b0a };
        let head = Head {
            offset: 0x0706_0504_0302_0100,
            channel,
            length: 0x0d0c,
            what: What::LastWords(Part::Last),
            kind: 15,
        };
        let bytes = head.to_bytes();
        assert_eq!(bytes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0x23, 15]);
        assert_eq!(Head::from_bytes(bytes), Ok(head));
        assert_eq!(head.envelope_bytes(), 16 + 0x0d0c);
    }

    #[test]
    fn every_kind_of_envelope_has_its_byte_and_no_other_byte_is_taken_for_one() {
        let known: Vec<u8> = (0..=255).filter(|byte| What::from_byte(*byte).is_ok()).collect();
        let expected =
            [0x10, 0x11, 0x12, 0x13, 0x20, 0x21, 0x22, 0x23, 0x30, 0x31, 0x32, 0x33, 0x40, 0x41, 0x50, 0x51, 0x52];
        assert_eq!(known, expected);
        assert!(known.iter().all(|byte| What::from_byte(*byte).map(What::to_byte) == Ok(*byte)));
    }

    #[test]
    fn an_envelope_is_never_longer_than_a_piece() {
        let mut bytes = Head::plain(What::Credit, 0, PIECE_BYTES_MAX as u16).to_bytes();
        assert!(Head::from_bytes(bytes).is_ok());
        bytes[12] += 1;
        assert_eq!(Head::from_bytes(bytes), Err(Malformed("envelope's length")));
    }

    fn hello() -> Hello {
        Hello {
            from: NodeLife { node: 1, life: 2 },
            to: NodeLife { node: 3, life: 4 },
            is_resumed: true,
            line: 5,
            received: 6,
            window: 7,
        }
    }

    #[test]
    fn hello_survives_the_round_trip_and_its_bytes_are_fixed() {
        let bytes = hello().to_bytes();
        let numbers: [&[u8]; 10] = [
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0x51, 0],
            b"eagleray",
            &PROTOCOL.to_le_bytes(),
            &[1, 0, 0, 0],
            &[1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
            &[3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0],
            &[5, 0, 0, 0, 0, 0, 0, 0],
            &[6, 0, 0, 0, 0, 0, 0, 0],
            &[7, 0, 0, 0],
            &[],
        ];
        assert_eq!(bytes, numbers.concat());
        assert_eq!(Hello::read(&bytes[HEAD_BYTES..]), Ok(hello()));
    }

    #[test]
    fn a_hello_that_is_cut_grown_or_foreign_is_refused() {
        let bytes = &hello().to_bytes()[HEAD_BYTES..];
        assert!((0..bytes.len()).all(|end| Hello::read(&bytes[..end]).is_err()));
        assert_eq!(Hello::read(&[bytes, &[0]].concat()), Err(Malformed("hello's length").into()));
        let foreign = [b"GET / HT", &bytes[8..]].concat();
        assert_eq!(Hello::read(&foreign), Err(Malformed("hello").into()));
    }

    /// A later version may have a longer hello: its version is read before anything else, so that the refusal names it.
    #[test]
    fn another_version_is_named_whatever_follows_it() {
        let later = [&MAGIC[..], &(PROTOCOL + 1).to_le_bytes(), &[9; 100]].concat();
        assert_eq!(Hello::read(&later), Err(NoHello::Version(PROTOCOL + 1)));
    }

    #[test]
    fn refusals_survive_the_round_trip_and_their_bytes_are_fixed() {
        let all = [
            Refusal::Version(9),
            Refusal::OtherNode(9),
            Refusal::OtherLife(9),
            Refusal::Unknown,
            Refusal::Ended,
            Refusal::Forgotten,
            Refusal::Late,
            Refusal::Gap(9),
        ];
        for (refusal, code) in all.into_iter().zip(1_u8..) {
            let bytes = refusal.to_bytes();
            assert_eq!(bytes[12..20], [12, 0, 0x52, 0, code, 0, 0, 0]);
            assert_eq!(Refusal::read(&bytes[HEAD_BYTES..]), Ok(refusal));
        }
        assert_eq!(Refusal::read(&[9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed("refusal")));
    }
}
