//! Where secrets lie on disk: files of mode 0600 in a folder of mode 0700, each whole or as it was before.
//!
//! A file is written beside its place, made durable and then moved there. Writers of one folder take turns by a lock on
//! it, so what lies beside a place when one comes is left from somebody who died, and goes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

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
        Ok(Self { path, handle })
    }

    /// The whole content of a file; nothing if there is none.
    ///
    /// # Errors
    /// If it cannot be read, is a link or too large, belongs to somebody else, or others can read it.
    pub fn read(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let path = self.path.join(name);
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
    /// If it cannot be written; then it is as it was.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let (path, beside) = (self.path.join(name), self.beside(name));
        let failed = |error: io::Error| at(&path, error.to_string());
        flock(&self.handle, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let written = self.replace(&path, &beside, bytes).map_err(failed);
        flock(&self.handle, FlockOperation::Unlock).map_err(|error| failed(error.into()))?;
        written
    }

    fn replace(&self, path: &Path, beside: &Path, bytes: &[u8]) -> io::Result<()> {
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
