//! Where secrets lie on disk: files of mode 0600 in a folder of mode 0700, each whole or as it was before.
//!
//! A file is written beside its place, made durable and then moved there. Writers of one folder take turns, threads by
//! a mutex and processes by a lock on the folder, so what lies beside a place when one comes is left from somebody who
//! died, and goes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, OFlags, flock};
use zeroize::Zeroizing;

use crate::error::Error;

/// No file of ours is larger.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A folder that only this user can look into.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    handle: File,
    /// Threads that share a handle share its lock: it keeps out other handles only.
    turn: Mutex<()>,
}

/// One writer's turn. It ends with the value.
struct Turn<'a> {
    handle: &'a File,
    _threads: MutexGuard<'a, ()>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // It cannot fail for a lock that is held, and would end with the handle.
        let _ = flock(self.handle, FlockOperation::Unlock);
    }
}

impl Folder {
    /// Opens it, and makes it if it is not there.
    ///
    /// # Errors
    /// If it cannot be made or opened, is a link, belongs to somebody else, or others can look into it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let failed = |error: io::Error| at(&path, error.to_string());
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        let flags = (OFlags::NOFOLLOW | OFlags::DIRECTORY).bits() as i32;
        let handle = OpenOptions::new().read(true).custom_flags(flags).open(&path).map_err(failed)?;
        only_ours(&path, &handle, "700")?;
        Ok(Self { path, handle, turn: Mutex::new(()) })
    }

    /// The whole content of a file; nothing if there is none.
    ///
    /// # Errors
    /// If it cannot be read, is a link or too large, belongs to somebody else, or others can read it; or if the name is
    /// none of a file in this folder.
    pub fn read(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let path = self.place(name)?;
        let failed = |error: io::Error| at(&path, error.to_string());
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        only_ours(&path, &file, "600")?;
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() || meta.len() > FILE_BYTES_MAX {
            return Err(at(&path, format!("this is no file of at most {FILE_BYTES_MAX} bytes: remove it")));
        }
        // Room for all of it, so that no copy stays behind when it grows.
        let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX as usize + 1));
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
        Ok(Some(bytes))
    }

    /// Replaces the content of a file, or makes it.
    ///
    /// # Errors
    /// If it cannot be written; then it is as it was. Or if the name is none of a file in this folder.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.place(name)?;
        let turn = self.turn()?;
        self.replace(&turn, &path, &self.beside(name), bytes).map_err(|error| at(&path, error.to_string()))
    }

    /// Replaces the content of a file by what `change` makes of it, and no other writer comes between. `change` gets
    /// nothing if there is no file yet; it gives the new content, and what the caller wants to know. It must not write
    /// to this folder itself: it would wait for its own end.
    ///
    /// # Errors
    /// As [`Folder::read`] and [`Folder::write`], and what `change` fails with; then the file is as it was.
    pub fn update<T>(
        &self,
        name: &str,
        change: impl FnOnce(Option<&[u8]>) -> Result<(Zeroizing<Vec<u8>>, T), Error>,
    ) -> Result<T, Error> {
        let path = self.place(name)?;
        let turn = self.turn()?;
        let old = self.read(name)?;
        let (new, told) = change(old.as_ref().map(|old| old.as_slice()))?;
        self.replace(&turn, &path, &self.beside(name), &new).map_err(|error| at(&path, error.to_string()))?;
        Ok(told)
    }

    /// Waits until no thread and no process writes.
    fn turn(&self) -> Result<Turn<'_>, Error> {
        // Who panicked in its turn has left files whole.
        let threads = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let locked = flock(&self.handle, FlockOperation::LockExclusive);
        locked.map_err(|error| at(&self.path, io::Error::from(error).to_string()))?;
        Ok(Turn { handle: &self.handle, _threads: threads })
    }

    fn replace(&self, _turn: &Turn<'_>, path: &Path, beside: &Path, bytes: &[u8]) -> io::Result<()> {
        match fs::remove_file(beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(beside, path)?;
        self.handle.sync_all()
    }

    /// Where a file of this name lies. Names with a dot in front are for what lies beside.
    fn place(&self, name: &str) -> Result<PathBuf, Error> {
        if name.is_empty() || name.starts_with('.') || name.contains('/') || name.contains("..") {
            return Err(at(&self.path, format!("{name:?} is no name for a file in it")));
        }
        Ok(self.path.join(name))
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.path.join(format!(".{name}.new"))
    }
}

fn only_ours(path: &Path, handle: &File, mode: &str) -> Result<(), Error> {
    let meta = handle.metadata().map_err(|error| at(path, error.to_string()))?;
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(at(path, format!("it belongs to user {}: choose another folder", meta.uid())));
    }
    if meta.mode() & 0o077 != 0 {
        let what =
            format!("others may look into it (mode {:o}): chmod {mode} it, and rotate tokens", meta.mode() & 0o777);
        return Err(at(path, what));
    }
    Ok(())
}

fn at(path: &Path, what: String) -> Error {
    Error::File { path: path.to_owned(), what }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
