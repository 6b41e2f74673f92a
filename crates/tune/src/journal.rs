//! The append-only, checksummed file of one experiment: everything that decides its future, in the order in which it happened.
//!
//! ```text
//! header   "eagleray" | version u32 | pid of the writer u32, 0 if it has closed the file
//! frame    length of kind and payload u32 | crc32c of length, kind and payload u32 | kind u8 | payload
//! ```
//!
//! All numbers are little-endian. A payload is JSON text; that of a result has the trial's number before it, that of an event whose kind
//! has no number has its name. The pid helps people to find who holds the file; no checksum covers it, since it changes with every writer.
//!
//! - **TJ-1** a reader sees a prefix of what was appended, whole frames only, wherever the writer was killed.
//! - **TJ-2** a byte that changed is noticed. At the end of the file it cannot be told from a write that was cut short, and is cut off; before
//!   that it is an error that names the place.
//! - **TJ-3** a failed write leaves whole frames behind, and what was to be written can be written again.
//! - **TJ-4** there is one writer at a time.
//! - **TJ-5** a repair keeps the whole frames before the damage and the file as it was.

mod repair;
mod writer;

#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use self::repair::{Repair, repair};
pub use self::writer::Writer;

/// What the file starts with.
const MAGIC: [u8; 8] = *b"eagleray";
/// How the frames are to be read.
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;
/// Where in the header the writer's pid is.
const PID_AT: usize = 12;
/// Length and checksum.
const FRAME_HEAD_BYTES: usize = 8;
/// A frame beyond this is refused when it is written, and taken for damage when it is read.
pub const FRAME_BYTES_MAX: usize = 64 << 20;
/// How much is summed in search of a whole frame behind a bad one. Beyond it, there is taken to be one: nothing is cut off.
const SEARCH_BYTES_MAX: usize = 1 << 30;

/// The kinds of frames that have a number of their own. Numbers are never reused; from `OWN` on they are the caller's.
pub mod kind {
    /// An event whose name comes first in its payload, behind a byte with the name's length.
    pub const NAMED: u8 = 0;
    /// What was asked for.
    pub const EXPERIMENT: u8 = 1;
    /// A trial was made.
    pub const TRIAL: u8 = 2;
    /// A trial started, paused or ended.
    pub const STATUS: u8 = 3;
    /// A trial reported: its number, then the result.
    pub const RESULT: u8 = 4;
    /// A checkpoint was kept.
    pub const CHECKPOINT: u8 = 5;
    /// The first number that has no meaning here.
    pub const OWN: u8 = 32;

    const NAMES: [(u8, &str); 5] = [
        (EXPERIMENT, "experiment"),
        (TRIAL, "trial"),
        (STATUS, "status"),
        (RESULT, "result"),
        (CHECKPOINT, "checkpoint"),
    ];

    /// The name of a kind that has a number.
    #[must_use]
    pub fn name(kind: u8) -> Option<&'static str> {
        NAMES.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
    }

    /// The number of a kind that has a name.
    #[must_use]
    pub fn number(name: &str) -> Option<u8> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
    }
}

/// Why a journal could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else writes it. Retry when that program has ended.
    #[error("another program{} works on this experiment ({})", who(*pid), path.display())]
    Locked {
        /// The journal.
        path: PathBuf,
        /// Who, if known.
        pid: Option<u32>,
    },
    /// The file is something else. Do not retry.
    #[error("{} is not a journal of an experiment", .0.display())]
    NotAJournal(PathBuf),
    /// A later version of this library wrote it. Do not retry.
    #[error("{} has version {found}; this library reads version {VERSION}", path.display())]
    Version {
        /// The journal.
        path: PathBuf,
        /// What it says.
        found: u32,
    },
    /// Bytes in the middle are not what was written; what is before them can be read. Do not retry.
    #[error(
        "{} is damaged at byte {offset}: {frames} whole events are before it, and there are more behind. \
         `eagleray tune repair {}` keeps a copy of it and cuts it there; then the experiment goes on from those {frames} events",
        path.display(), folder(path)
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Where the first bad frame starts.
        offset: u64,
        /// How many can be read.
        frames: usize,
    },
    /// One event is too large. Do not retry.
    #[error("an event of {bytes} bytes is too large for the journal; the limit is {FRAME_BYTES_MAX}")]
    TooLarge {
        /// What it takes.
        bytes: usize,
    },
    /// It was closed. Do not retry.
    #[error("{} is closed", .0.display())]
    Closed(PathBuf),
    /// The operating system said no: no room, no permission. Retry when that is mended.
    #[error("cannot {doing} {} at byte {offset}: {source}", path.display())]
    Os {
        /// What was tried.
        doing: &'static str,
        /// The journal.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What it said.
        source: io::Error,
    },
}

fn folder(path: &Path) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or_else(|| Path::new(".")).display().to_string()
}

fn who(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(", pid {pid},"))
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// One of `kind`.
    pub kind: u8,
    /// What belongs to it.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The trial's number and the JSON text of a result.
    #[must_use]
    pub fn result(&self) -> Option<(u32, &'a [u8])> {
        let (number, json) = self.payload.split_first_chunk::<4>()?;
        (self.kind == kind::RESULT).then_some((u32::from_le_bytes(*number), json))
    }

    /// The name and the JSON text of an event whose kind has no number.
    #[must_use]
    pub fn named(&self) -> Option<(&'a str, &'a [u8])> {
        let (length, rest) = self.payload.split_first()?;
        let (name, json) = rest.split_at_checked(usize::from(*length))?;
        (self.kind == kind::NAMED).then_some((str::from_utf8(name).ok()?, json))
    }
}

/// A journal in memory.
#[derive(Debug)]
pub struct Contents {
    bytes: Vec<u8>,
    /// The kind and the payload of each frame.
    frames: Vec<(u8, Range<usize>)>,
    /// Where the last whole frame ends; 0 if there is not even a header.
    pub end: u64,
    /// What lies behind the end: the beginning of something that was never finished.
    pub torn_bytes: u64,
    /// Where the first bad frame starts, if whole ones follow it; nothing from there on was read.
    pub damage: Option<u64>,
}

impl Contents {
    /// The pid of the one who writes it, or did when it was killed.
    #[must_use]
    pub fn writer(&self) -> Option<u32> {
        u32_at(&self.bytes, PID_AT).filter(|pid| *pid != 0)
    }

    /// How many whole frames there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The frame of this number.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Frame<'_>> {
        let (kind, place) = self.frames.get(index)?;
        Some(Frame { kind: *kind, payload: &self.bytes[place.clone()] })
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = Frame<'_>> {
        self.frames.iter().map(|(kind, place)| Frame { kind: *kind, payload: &self.bytes[place.clone()] })
    }
}

/// Reads a journal, whoever writes it now. Damage in the middle is an error.
pub fn read(path: &Path) -> Result<Contents, Error> {
    let contents = read_until_damage(path)?;
    match contents.damage {
        Some(offset) => Err(Error::Damaged { path: path.to_path_buf(), offset, frames: contents.len() }),
        None => Ok(contents),
    }
}

/// Reads a journal up to the first bad frame; `Contents::damage` says where that was.
pub fn read_until_damage(path: &Path) -> Result<Contents, Error> {
    let bytes = fs::read(path).map_err(|source| os("read", path, 0, source))?;
    scan(bytes, path)
}

fn os(doing: &'static str, path: &Path, offset: u64, source: io::Error) -> Error {
    Error::Os { doing, path: path.to_path_buf(), offset, source }
}

fn header(pid: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[PID_AT..].copy_from_slice(&pid.to_le_bytes());
    bytes
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

/// Appends a frame whose payload is that of `parts` one behind the other.
fn encode(kind: u8, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), Error> {
    let bytes = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    if bytes > FRAME_BYTES_MAX {
        return Err(Error::TooLarge { bytes });
    }
    let length = (bytes as u32).to_le_bytes();
    let start = out.len();
    out.extend_from_slice(&length);
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
    for part in parts {
        out.extend_from_slice(part);
    }
    let check = crc32c::crc32c_append(crc32c::crc32c(&length), &out[start + FRAME_HEAD_BYTES..]);
    out[start + 4..start + FRAME_HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
    Ok(())
}

/// The end of the frame at `at`, if there is a whole one. No length is taken on trust.
fn frame_end(bytes: &[u8], at: usize, summed: &mut usize) -> Option<usize> {
    let length = u32_at(bytes, at)? as usize;
    if length == 0 || length > FRAME_BYTES_MAX {
        return None;
    }
    let check = u32_at(bytes, at + 4)?;
    let body = bytes.get(at + FRAME_HEAD_BYTES..at + FRAME_HEAD_BYTES + length)?;
    *summed += length;
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[at..at + 4]), body);
    (sum == check).then_some(at + FRAME_HEAD_BYTES + length)
}

/// Whether a whole frame starts anywhere behind `at`: then what is at `at` is damage and no write that was cut short.
fn has_frame_behind(bytes: &[u8], at: usize) -> bool {
    let mut summed = 0;
    (at + 1..bytes.len()).any(|place| summed > SEARCH_BYTES_MAX || frame_end(bytes, place, &mut summed).is_some())
}

fn scan(bytes: Vec<u8>, path: &Path) -> Result<Contents, Error> {
    let expected = header(0);
    let fixed = bytes.len().min(PID_AT);
    if bytes[..fixed.min(8)] != expected[..fixed.min(8)] {
        return Err(Error::NotAJournal(path.to_path_buf()));
    }
    if bytes[..fixed] != expected[..fixed] {
        return Err(Error::Version { path: path.to_path_buf(), found: u32_at(&bytes, 8).unwrap_or_default() });
    }
    let mut frames = Vec::new();
    let mut at = HEADER_BYTES.min(bytes.len());
    if bytes.len() < HEADER_BYTES {
        let torn_bytes = bytes.len() as u64;
        return Ok(Contents { bytes, frames, end: 0, torn_bytes, damage: None });
    }
    while let Some(end) = frame_end(&bytes, at, &mut 0) {
        frames.push((bytes[at + FRAME_HEAD_BYTES], at + FRAME_HEAD_BYTES + 1..end));
        at = end;
    }
    let damage = (at < bytes.len() && has_frame_behind(&bytes, at)).then_some(at as u64);
    let torn_bytes = if damage.is_some() { 0 } else { (bytes.len() - at) as u64 };
    Ok(Contents { bytes, frames, end: at as u64, torn_bytes, damage })
}
