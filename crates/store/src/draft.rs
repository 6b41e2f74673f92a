//! Room for one value that is being written, wherever there was some.

use model::Bulk;

use crate::{Error, FileReservation, Reservation};

/// Sealing makes it a value; dropping it gives the room back.
#[derive(Debug)]
pub enum Draft {
    /// In the arena.
    Arena(Reservation),
    /// In a file.
    File(FileReservation),
}

impl Draft {
    /// The bytes to write.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Arena(block) => block.as_mut_slice(),
            Self::File(block) => block.as_mut_slice(),
        }
    }

    /// Ends the writing. May take as long as a network does.
    ///
    /// # Errors
    /// If an object store does not take it.
    pub fn seal(self) -> Result<Bulk, Error> {
        match self {
            Self::Arena(block) => Ok(Bulk::Stored(block.seal())),
            Self::File(block) => block.seal().map(Bulk::Filed),
        }
    }
}
