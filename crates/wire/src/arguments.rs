//! The arguments of a call as bytes: a call's payload, and part of an actor's spec.
//!
//! Counts of positional and of named arguments (4 bytes each), then the arguments, positional ones first. A named one begins with its name,
//! counted (4 bytes), in UTF-8. Each argument is one of these, told apart by its first byte:
//!
//! | first byte | what follows | who reads it |
//! |---|---|---|
//! | `DEPENDENCY` | its place among the values that the call depends on (4 bytes) | every language |
//! | `PICKLED` | counted (4 bytes): what follows the kind in a value that is a pickle | Python |
//! | any other | a plain value: see `value::plain` | every language |
//!
//! Positions in plain values count from the payload's first byte.

use crate::{Malformed, Reader};

/// The argument is a value of its own, beside the payload.
pub const DEPENDENCY: u8 = b'V';
/// The argument is a pickle.
pub const PICKLED: u8 = b'P';

/// How many arguments there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// By position.
    pub positional: u32,
    /// By name.
    pub named: u32,
}

impl Counts {
    /// Begins a payload.
    #[inline]
    pub fn write(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.positional.to_le_bytes());
        to.extend_from_slice(&self.named.to_le_bytes());
    }

    /// Reads how a payload begins.
    ///
    /// # Errors
    /// If it is cut off.
    #[inline]
    pub fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { positional: from.u32()?, named: from.u32()? })
    }
}

/// One argument, as its first bytes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'a> {
    /// The value at this place among those that the call depends on.
    Dependency(usize),
    /// A pickle, with its buffers.
    Pickled(&'a [u8]),
    /// A plain value, of which nothing was read yet.
    Plain,
}

impl<'a> Argument<'a> {
    /// Reads the next one, a plain value up to its first byte.
    ///
    /// # Errors
    /// If it is cut off.
    #[inline]
    pub fn read(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        match from.rest().first() {
            Some(&DEPENDENCY) => {
                from.u8()?;
                Ok(Self::Dependency(from.u32()? as usize))
            }
            Some(&PICKLED) => {
                from.u8()?;
                Ok(Self::Pickled(from.counted()?))
            }
            _ => Ok(Self::Plain),
        }
    }
}

/// Appends the name of the argument that comes next.
pub fn write_name(to: &mut Vec<u8>, name: &str) {
    to.extend_from_slice(&(name.len() as u32).to_le_bytes());
    to.extend_from_slice(name.as_bytes());
}

/// Reads the name of the argument that comes next.
///
/// # Errors
/// If it is cut off or no text.
#[inline]
pub fn read_name<'a>(from: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    std::str::from_utf8(from.counted()?).map_err(|_| Malformed("name of an argument"))
}

/// Appends an argument that is a value of its own.
#[inline]
pub fn write_dependency(to: &mut Vec<u8>, place: usize) {
    to.push(DEPENDENCY);
    to.extend_from_slice(&(place as u32).to_le_bytes());
}

/// Appends an argument that is a pickle; `write` appends that behind `to`, from the position that it is told.
#[inline]
pub fn write_pickled(to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>, usize)) {
    to.push(PICKLED);
    let length_at = to.len();
    to.extend_from_slice(&[0; 4]);
    let start = to.len();
    write(to, start);
    let length = (to.len() - start) as u32;
    to[length_at..start].copy_from_slice(&length.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::plain;

    fn payload() -> Vec<u8> {
        let mut bytes = Vec::new();
        Counts { positional: 2, named: 1 }.write(&mut bytes);
        write_dependency(&mut bytes, 3);
        bytes.push(plain::NONE);
        write_name(&mut bytes, "x");
        write_pickled(&mut bytes, |to, start| {
            assert_eq!(to.len(), start);
            to.extend_from_slice(b"pi");
        });
        bytes
    }

    #[test]
    fn a_payloads_bytes_are_fixed() {
        assert_eq!(
            payload(),
            [&[2, 0, 0, 0, 1, 0, 0, 0][..], b"V\x03\0\0\0", b"N", b"\x01\0\0\0x", b"P\x02\0\0\0pi"].concat()
        );
    }

    /// Where the bytes end, nothing says that the next argument is no plain value: reading that is refused then.
    fn expect(reader: &mut Reader<'_>, expected: Argument<'_>) -> Result<(), Malformed> {
        let found = Argument::read(reader)?;
        if found != expected {
            assert_eq!((found, reader.rest()), (Argument::Plain, &b""[..]));
            return reader.u8().map(drop);
        }
        Ok(())
    }

    #[test]
    fn arguments_survive_the_round_trip_and_every_cut_is_refused() {
        let read = |bytes: &[u8]| -> Result<(), Malformed> {
            let mut reader = Reader::new(bytes);
            assert_eq!(Counts::read(&mut reader)?, Counts { positional: 2, named: 1 });
            expect(&mut reader, Argument::Dependency(3))?;
            expect(&mut reader, Argument::Plain)?;
            assert_eq!(reader.u8()?, plain::NONE);
            assert_eq!(read_name(&mut reader)?, "x");
            expect(&mut reader, Argument::Pickled(b"pi"))
        };
        let whole = payload();
        assert_eq!(read(&whole), Ok(()));
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "{end} bytes were taken for a payload");
        }
    }
}
