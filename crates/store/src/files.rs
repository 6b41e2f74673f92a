//! Values in files: what the arena has no room for.
//!
//! A file is written once, by one process, and never changes. Each value in it starts at a page, so that it can be read in place like one
//! in the arena: the kernel's page cache is the memory, and gives it up by itself when something else needs it. A value is compared with its
//! checksum before it is first used. Nothing here waits for room in the arena, so a full arena can always be emptied into files.
//!
//! - **FILE-1** a value that is found is byte for byte what was written; one that is not is an error, never another value.
//! - **FILE-2** a write that fails leaves no file behind.
//! - **FILE-3** no folder is filled beyond its limit by us.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{MmapMut, MmapOptions};
use model::{FileId, Filed, ProcId};
use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::Error;
use crate::view::View;

const PAGE_BYTES: u64 = 4096;
/// Values whose checksums were compared and found right; more are forgotten and compared again.
const CHECKED_MAX: usize = 65_536;

/// Where a node's processes keep values in files.
#[derive(Clone, Debug, PartialEq)]
pub struct Folders {
    /// Used in turn. None: no value goes to a file.
    pub paths: Vec<PathBuf>,
    /// A file system that is filled to this part of it takes no more.
    pub full_at: f64,
}

/// Removes the files of a process that is gone.
pub fn remove_files_of(gone: ProcId, folders: &[PathBuf]) {
    let prefix = format!("{gone}-");
    for entry in folders.iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// How many files there are, and how many bytes they have.
#[must_use]
pub fn files_in(folders: &[PathBuf]) -> (u64, u64) {
    let entries = folders.iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    entries.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.metadata().map_or(0, |data| data.len())))
}

/// One process's access to them.
pub struct Files {
    folders: Folders,
    by: ProcId,
    made: AtomicU32,
    checked: Mutex<HashSet<(FileId, u64)>>,
}

/// Room in a file for one value that is being written.
pub struct FileReservation {
    map: MmapMut,
    path: PathBuf,
    file: FileId,
}

/// A file that goes unless it is kept.
struct Draft<'a> {
    path: &'a PathBuf,
    is_kept: bool,
}

impl Files {
    /// For the process `by`.
    #[must_use]
    pub fn new(folders: Folders, by: ProcId) -> Self {
        Self { folders, by, made: AtomicU32::new(0), checked: Mutex::default() }
    }

    /// Whether values may go to files at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.folders.paths.is_empty()
    }

    /// Writes values side by side into one new file. Returns where each lies.
    ///
    /// # Errors
    /// If no folder takes it.
    pub fn write(&self, values: &[&[u8]]) -> Result<Vec<Filed>, Error> {
        let bytes = values.iter().map(|value| (value.len() as u64).next_multiple_of(PAGE_BYTES)).sum();
        self.in_some_folder(bytes, |id, path, file| {
            let mut draft = Draft { path, is_kept: false };
            let mut at = 0;
            let mut filed = Vec::with_capacity(values.len());
            for value in values {
                file.write_all_at(value, at)?;
                let (length, check) = (value.len() as u64, crc32c::crc32c(value));
                filed.push(Filed { file: id, offset: at, length, check });
                at += length.next_multiple_of(PAGE_BYTES);
            }
            draft.is_kept = true;
            Ok(filed)
        })
    }

    /// Room for a value of `length` bytes, to be written in place.
    ///
    /// # Errors
    /// If no folder has so much.
    pub fn reserve(&self, length: u64) -> Result<FileReservation, Error> {
        self.in_some_folder(length, |id, path, file| {
            let mut draft = Draft { path, is_kept: false };
            // Blocks are set aside now: a full disk must be an error here and not a signal on a later write.
            fallocate(file, FallocateFlags::empty(), 0, length.max(1))?;
            // SAFETY: the file was made just now and nobody else knows it; it does not shrink.
            let map = unsafe { MmapOptions::new().len(length as usize).map_mut(file)? };
            draft.is_kept = true;
            Ok(FileReservation { map, path: path.clone(), file: id })
        })
    }

    /// Tries one folder after the other.
    fn in_some_folder<T>(
        &self,
        bytes: u64,
        mut write: impl FnMut(FileId, &PathBuf, &File) -> std::io::Result<T>,
    ) -> Result<T, Error> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let count = self.folders.paths.len();
        let mut why = "there is no folder for them".to_string();
        for turn in 0..count {
            let folder = (number as usize + turn) % count;
            let file = FileId { by: self.by, number, folder: folder as u16 };
            let path = self.path(file);
            let made = self.check_room(folder, bytes).and_then(|()| {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create_new(true).mode(0o600).open(&path)
            });
            match made.and_then(|made| write(file, &path, &made)) {
                Ok(done) => return Ok(done),
                Err(error) => why = format!("{}: {error}", self.folders.paths[folder].display()),
            }
        }
        Err(Error::DiskFull { need: bytes, why })
    }

    /// FILE-3.
    fn check_room(&self, folder: usize, bytes: u64) -> std::io::Result<()> {
        let stat = statvfs(&self.folders.paths[folder])?;
        let (total, free) = (stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize);
        let left = free.saturating_sub(((1.0 - self.folders.full_at) * total as f64) as u64);
        if bytes <= left {
            return Ok(());
        }
        let part = 100.0 * self.folders.full_at;
        Err(std::io::Error::other(format!("{free} of {total} bytes are free, and it is filled to {part} % only")))
    }

    fn path(&self, file: FileId) -> PathBuf {
        let folder = self.folders.paths.get(usize::from(file.folder));
        folder.map_or_else(PathBuf::new, |folder| folder.join(file.to_string()))
    }

    /// Whether the file is long enough to hold the value: much cheaper than `map`, and says less.
    #[must_use]
    pub fn is_there(&self, filed: &Filed) -> bool {
        std::fs::metadata(self.path(filed.file)).is_ok_and(|data| data.len() >= filed.offset + filed.length)
    }

    /// Up to `count` bytes from the start of a value, unchecked.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn read(&self, filed: &Filed, count: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; count.min(filed.length) as usize];
        let read = File::open(self.path(filed.file)).and_then(|file| file.read_exact_at(&mut bytes, filed.offset));
        read.map_err(|error| Error::Lost { file: filed.file, why: error.to_string() })?;
        Ok(bytes)
    }

    /// A value in place.
    ///
    /// # Errors
    /// If it is not there any more as it was written (FILE-1).
    pub fn map(&self, filed: &Filed) -> Result<View, Error> {
        let lost = |why: String| Error::Lost { file: filed.file, why };
        let path = self.path(filed.file);
        let file = File::open(&path).map_err(|error| lost(format!("{}: {error}", path.display())))?;
        let there = file.metadata().map_or(0, |data| data.len());
        if filed.offset.checked_add(filed.length).is_none_or(|end| end > there) {
            return Err(lost(format!("{} has {there} bytes only", path.display())));
        }
        let mut options = MmapOptions::new();
        options.offset(filed.offset).len(filed.length as usize).populate();
        // SAFETY: the file lies in a folder of this session, is written once and never shortened by us.
        let map = unsafe { options.map(&file) }.map_err(Error::os("mmap"))?;
        let key = (filed.file, filed.offset);
        if !self.checked().contains(&key) {
            if crc32c::crc32c(&map) != filed.check {
                return Err(lost(format!("{} is damaged", path.display())));
            }
            let mut checked = self.checked();
            if checked.len() >= CHECKED_MAX {
                checked.clear();
            }
            checked.insert(key);
        }
        Ok(View::filed(Arc::new(map)))
    }

    fn checked(&self) -> std::sync::MutexGuard<'_, HashSet<(FileId, u64)>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another process wrote the file for us: it is named after us from now on, so that it goes with us and not with its writer.
    ///
    /// # Errors
    /// If it is not there.
    pub fn take_over(&self, filed: Filed) -> Result<Filed, Error> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let ours = FileId { by: self.by, number, folder: filed.file.folder };
        std::fs::rename(self.path(filed.file), self.path(ours))
            .map_err(|error| Error::Lost { file: filed.file, why: error.to_string() })?;
        Ok(Filed { file: ours, ..filed })
    }

    /// Nobody needs a value of the file any more. Whoever looks at one goes on.
    pub fn remove(&self, file: FileId) {
        let _ = std::fs::remove_file(self.path(file));
    }
}

impl FileReservation {
    /// The bytes to write.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.map
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// True for a value of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Ends the writing.
    #[must_use]
    pub fn seal(mut self) -> Filed {
        self.path = PathBuf::new();
        Filed { file: self.file, offset: 0, length: self.map.len() as u64, check: crc32c::crc32c(&self.map) }
    }
}

impl Drop for FileReservation {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_file(self.path);
        }
    }
}
