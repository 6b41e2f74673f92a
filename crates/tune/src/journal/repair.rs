//! Cuts a damaged journal where the damage begins. What was there is kept beside it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::writer::locked;
use super::{Error, frame_end, os, read_until_damage};

/// How much is summed in search of the events that go. Beyond it they are no longer counted.
const COUNT_BYTES_MAX: usize = 1 << 30;

/// What a repair has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// Where the file ends now.
    pub offset: u64,
    /// How many events are left.
    pub kept: usize,
    /// How many whole ones stood behind the damage, at least. What the damage itself hit is not among them.
    pub dropped: usize,
    /// How many bytes went.
    pub bytes: u64,
    /// Where the file lies as it was.
    pub backup: PathBuf,
}

/// Cuts the journal at its first bad frame. None if nothing is wrong with it: half a frame at the end is no damage.
pub fn repair(path: &Path) -> Result<Option<Repair>, Error> {
    let file = locked(path, false)?;
    let contents = read_until_damage(path)?;
    let Some(offset) = contents.damage else { return Ok(None) };
    let backup = back_up(path)?;
    file.set_len(offset).and_then(|()| file.sync_all()).map_err(|source| os("shorten", path, offset, source))?;
    let bytes = contents.bytes.len() as u64 - offset;
    let dropped = count_behind(&contents.bytes, offset as usize);
    Ok(Some(Repair { offset, kept: contents.len(), dropped, bytes, backup }))
}

/// A copy that is on disk when this returns. None that is there is written over.
fn back_up(path: &Path) -> Result<PathBuf, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for number in 1_u32.. {
        let backup = path.with_file_name(format!("{name}.damaged-{number}"));
        match File::create_new(&backup) {
            Ok(copy) => {
                let copied = fs::copy(path, &backup).and_then(|_| copy.sync_all());
                copied.map_err(|source| os("copy to", &backup, 0, source))?;
                let folder = backup.parent().filter(|folder| !folder.as_os_str().is_empty());
                let _ = File::open(folder.unwrap_or_else(|| Path::new("."))).and_then(|folder| folder.sync_all());
                return Ok(backup);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(os("create", &backup, 0, source)),
        }
    }
    unreachable!("there are not as many copies")
}

fn count_behind(bytes: &[u8], damage: usize) -> usize {
    let (mut count, mut at, mut summed) = (0, damage + 1, 0);
    while at < bytes.len() && summed < COUNT_BYTES_MAX {
        match frame_end(bytes, at, &mut summed) {
            Some(end) => {
                count += 1;
                at = end;
            }
            None => at += 1,
        }
    }
    count
}
