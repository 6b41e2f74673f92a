//! One of the places for files with values: a folder of this machine, or part of a bucket.
//!
//! A file in a bucket has a *stand-in* in a local folder: a sparse file of the same name and length that holds the references which the values
//! contain, at the values' offsets, and at its end the object's key. So whatever must not wait for a network (handing a file over, finding those
//! of a dead process, counting, looking for references) is done on local files, as for any folder. A stand-in is there before its object and
//! goes after it, so that no object is forgotten when its process dies in between.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Filed, ProcId};

use crate::remote::{Remote, Spawn};

/// Of a stand-in: the object's key.
const KEY_BYTES: u64 = 64;
/// Ends the name of a stand-in whose object is to be deleted.
const DOOMED: &str = ".gone";

/// How long the part at a value's start is that must be at hand without waiting.
pub type HeadBytes = fn(&[u8]) -> usize;

/// Where a node's processes keep values in files.
#[derive(Clone, Debug)]
pub struct Folders {
    /// Used in turn. None: no value goes to a file.
    pub list: Vec<Folder>,
    /// A file system that is filled to this part of it takes no more. A bucket is never full.
    pub full_at: f64,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Folder {
    name: PathBuf,
    path: PathBuf,
    pub(crate) remote: Option<Arc<Remote>>,
}

impl Folder {
    /// `name` is a path, or a URL; the stand-ins of the `at`-th one lie in the session's folder. Starts nothing.
    #[must_use]
    pub fn new(name: &Path, at: usize, session_dir: &Path, spawn: Spawn) -> Self {
        let url = name.to_str().filter(|name| name.contains("://"));
        let path = url.map_or_else(|| name.to_path_buf(), |_| session_dir.join("spill").join(at.to_string()));
        let remote = url.map(|url| Arc::new(Remote::new(url, spawn)));
        Self { name: name.to_path_buf(), path, remote }
    }

    /// A folder of this machine.
    #[must_use]
    pub fn local(path: PathBuf) -> Self {
        Self { name: path.clone(), path, remote: None }
    }

    #[cfg(test)]
    pub(crate) fn with_remote(path: PathBuf, remote: Remote) -> Self {
        Self { name: path.clone(), path, remote: Some(Arc::new(remote)) }
    }

    /// As it was given.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The object store, if it is one.
    #[must_use]
    pub fn remote(&self) -> Option<&Remote> {
        self.remote.as_deref()
    }

    /// Where its files or their stand-ins lie.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A new file with these values, in the bucket and as a stand-in. On an error there is neither.
    pub(crate) fn upload(
        &self,
        remote: &Remote,
        path: &Path,
        values: &[(Filed, &[u8])],
        head_bytes: HeadBytes,
    ) -> std::io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let file = create(path)?;
        let mut draft = Draft { folder: self, path, is_kept: false };
        let mut end = 0;
        for (filed, value) in values {
            file.write_all_at(&value[..head_bytes(value).min(value.len())], filed.offset)?;
            end = filed.offset + filed.length;
        }
        file.write_all_at(format!("{name:<width$}", width = KEY_BYTES as usize).as_bytes(), end)?;
        let values: Vec<&[u8]> = values.iter().map(|(_, value)| *value).collect();
        remote.put(&name, &values).map_err(std::io::Error::other)?;
        draft.is_kept = true;
        Ok(())
    }

    /// Removes a file, and the object behind it if there is one.
    pub(crate) fn remove(&self, path: &Path) {
        let Some(remote) = &self.remote else {
            let _ = std::fs::remove_file(path);
            return;
        };
        let Ok(key) = key_in(path) else { return };
        let doomed = match path.to_str() {
            Some(name) if !name.ends_with(DOOMED) => PathBuf::from(format!("{name}{DOOMED}")),
            _ => path.to_path_buf(),
        };
        if doomed == path || std::fs::rename(path, &doomed).is_ok() {
            remote.doom(&key, doomed);
        }
    }
}

/// Removes the files of a process that is gone.
pub fn remove_files_of(gone: ProcId, folders: &[Folder]) {
    let prefix = format!("{gone}-");
    for folder in folders {
        for entry in folder.path.read_dir().into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                folder.remove(&entry.path());
            }
        }
    }
}

/// How many files there are, and how many bytes they have.
#[must_use]
pub fn files_in(folders: &[Folder]) -> (u64, u64) {
    let entries = folders.iter().filter_map(|folder| folder.path.read_dir().ok()).flatten().flatten();
    entries.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.metadata().map_or(0, |data| data.len())))
}

/// The key of the object that a file stands for.
pub(crate) fn key_in(path: &Path) -> std::io::Result<String> {
    let file = File::open(path)?;
    let mut key = [0; KEY_BYTES as usize];
    let at = file.metadata()?.len().checked_sub(KEY_BYTES).ok_or(std::io::ErrorKind::UnexpectedEof)?;
    file.read_exact_at(&mut key, at)?;
    let key = std::str::from_utf8(&key).map_err(std::io::Error::other)?.trim_end();
    if key.is_empty() { Err(std::io::ErrorKind::InvalidData.into()) } else { Ok(key.into()) }
}

pub(crate) fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// A file that goes unless it is kept.
pub(crate) struct Draft<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) path: &'a Path,
    pub(crate) is_kept: bool,
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        self.folder.remove(self.path);
        // One without a key stands for nothing yet.
        let _ = std::fs::remove_file(self.path);
    }
}
