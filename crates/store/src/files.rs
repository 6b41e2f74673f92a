//! Values in files: what the arena has no room for.
//!
//! A file is written once, by one process, and never changes. Each value in it starts at a page, so that it can be read in place like one
//! in the arena: the kernel's page cache is the memory, and gives it up by itself when something else needs it. A value is compared with its
//! checksum before it is first used. Nothing here waits for room in the arena, so a full arena can always be emptied into files.
//!
//! A folder may be part of a bucket (`folder.rs`, `remote.rs`). Then a value is not read in place but fetched into memory of its own, and
//! compared each time.
//!
//! - **FILE-1** a value that is found is byte for byte what was written; one that is not is an error, never another value.
//! - **FILE-2** a write that fails leaves no file behind.
//! - **FILE-3** no folder is filled beyond its limit by us.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use memmap2::{Mmap, MmapMut, MmapOptions};
use model::{FileId, Filed, ProcId};
use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::Error;
use crate::folder::{Draft, Folder, Folders, HeadBytes, create, key_in};
use crate::remote::Remote;
use crate::view::View;

const PAGE_BYTES: u64 = 4096;
/// Values whose checksums were compared and found right; more are forgotten and compared again.
const CHECKED_MAX: usize = 65_536;
/// Values from object stores that somebody may look at; beyond that those that nobody does are forgotten.
const FETCHED_MAX: usize = 1_024;

/// One process's access to files with values.
pub struct Files {
    folders: Folders,
    by: ProcId,
    head_bytes: HeadBytes,
    made: AtomicU32,
    checked: Mutex<HashSet<(FileId, u64)>>,
    /// By the object's key and the value's offset: who asks while another looks shares its memory.
    fetched: Mutex<HashMap<(String, u64), Weak<Mmap>>>,
}

/// Room in a file for one value that is being written.
pub struct FileReservation {
    map: MmapMut,
    folder: Folder,
    path: PathBuf,
    file: FileId,
    head_bytes: HeadBytes,
    is_sealed: bool,
}

/// Bytes between a value's end and the next page, where the next one starts.
pub(crate) fn padding_after(length: u64) -> u64 {
    length.next_multiple_of(PAGE_BYTES) - length
}

impl Files {
    /// For the process `by`. The first `head_bytes` of a value can be read at once, wherever it lies.
    #[must_use]
    pub fn new(folders: Folders, by: ProcId, head_bytes: HeadBytes) -> Self {
        let made = AtomicU32::new(0);
        Self { folders, by, head_bytes, made, checked: Mutex::default(), fetched: Mutex::default() }
    }

    /// Whether values may go to files at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.folders.list.is_empty()
    }

    /// Whether looking at a value may take as long as a network does.
    #[must_use]
    pub fn is_far(&self) -> bool {
        self.folders.list.iter().any(|folder| folder.remote().is_some())
    }

    /// The session ends: nobody waits for an object store any more.
    pub fn close(&self) {
        self.folders.list.iter().filter_map(Folder::remote).for_each(Remote::close);
    }

    /// Writes values side by side into one new file. Returns where each lies.
    ///
    /// # Errors
    /// If no folder takes it.
    pub fn write(&self, values: &[&[u8]]) -> Result<Vec<Filed>, Error> {
        let bytes = values.iter().map(|value| (value.len() as u64).next_multiple_of(PAGE_BYTES)).sum();
        self.in_some_folder(bytes, |id, folder, path| {
            let mut at = 0;
            let filed = values.iter().map(|value| {
                let (offset, length) = (at, value.len() as u64);
                at += length + padding_after(length);
                (Filed { file: id, offset, length, check: crc32c::crc32c(value) }, *value)
            });
            let filed: Vec<(Filed, &[u8])> = filed.collect();
            if let Some(remote) = folder.remote() {
                folder.upload(remote, path, &filed, self.head_bytes)?;
            } else {
                let file = create(path)?;
                let mut draft = Draft { folder, path, is_kept: false };
                filed.iter().try_for_each(|(filed, value)| file.write_all_at(value, filed.offset))?;
                draft.is_kept = true;
            }
            Ok(filed.into_iter().map(|(filed, _)| filed).collect())
        })
    }

    /// Writes short pieces into one new file without gaps: `bytes`, cut into pieces of these lengths. Nobody reads them in place; see `load`.
    ///
    /// # Errors
    /// If no folder takes it.
    pub fn write_pieces(&self, bytes: &[u8], lengths: &[usize]) -> Result<Vec<Filed>, Error> {
        self.in_some_folder(bytes.len() as u64, |file, folder, path| {
            if let Some(remote) = folder.remote() {
                let whole = Filed { file, offset: 0, length: bytes.len() as u64, check: 0 };
                folder.upload(remote, path, &[(whole, bytes)], |_| 0)?;
            } else {
                let mut draft = Draft { folder, path, is_kept: false };
                create(path)?.write_all_at(bytes, 0)?;
                draft.is_kept = true;
            }
            let mut at = 0;
            let place = |length: &usize| {
                let (offset, piece) = (at as u64, &bytes[at..at + length]);
                at += length;
                Filed { file, offset, length: *length as u64, check: crc32c::crc32c(piece) }
            };
            Ok(lengths.iter().map(place).collect())
        })
    }

    /// A copy of a piece. Of an object store it is waited for.
    ///
    /// # Errors
    /// If it is not there any more as it was written (FILE-1).
    pub fn load(&self, filed: &Filed) -> Result<Vec<u8>, Error> {
        if filed.length == 0 {
            return Ok(Vec::new());
        }
        if self.folder(filed.file).and_then(Folder::remote).is_some() {
            return Ok(self.map(filed)?.as_slice().to_vec());
        }
        let bytes = self.read(filed, filed.length)?;
        if crc32c::crc32c(&bytes) != filed.check {
            let why = format!("{} is damaged", self.path(filed.file).display());
            return Err(Error::Lost { file: filed.file, why });
        }
        Ok(bytes)
    }

    /// Room for a value of `length` bytes, to be written in place. For an object store that is memory until it is sealed.
    ///
    /// # Errors
    /// If no folder has so much.
    pub fn reserve(&self, length: u64) -> Result<FileReservation, Error> {
        self.in_some_folder(length, |id, folder, path| {
            let map = if folder.remote().is_some() {
                MmapMut::map_anon(length as usize)?
            } else {
                let file = create(path)?;
                let mut draft = Draft { folder, path, is_kept: false };
                // Blocks are set aside now: a full disk must be an error here and not a signal on a later write.
                fallocate(&file, FallocateFlags::empty(), 0, length.max(1))?;
                // SAFETY: the file was made just now and nobody else knows it; it does not shrink.
                let map = unsafe { MmapOptions::new().len(length as usize).map_mut(&file)? };
                draft.is_kept = true;
                map
            };
            let (folder, path, head_bytes) = (folder.clone(), path.to_path_buf(), self.head_bytes);
            Ok(FileReservation { map, folder, path, file: id, head_bytes, is_sealed: false })
        })
    }

    /// Tries one folder after the other.
    fn in_some_folder<T>(
        &self,
        bytes: u64,
        mut write: impl FnMut(FileId, &Folder, &Path) -> std::io::Result<T>,
    ) -> Result<T, Error> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let count = self.folders.list.len();
        let mut why = "there is no folder for them".to_string();
        for turn in 0..count {
            let at = (number as usize + turn) % count;
            let folder = &self.folders.list[at];
            let file = FileId { by: self.by, number, folder: at as u16 };
            match self.check_room(folder, bytes).and_then(|()| write(file, folder, &self.path(file))) {
                Ok(done) => return Ok(done),
                Err(error) if folder.remote().is_some() => why = error.to_string(),
                Err(error) => why = format!("{}: {error}", folder.name().display()),
            }
        }
        Err(Error::DiskFull { need: bytes, why })
    }

    /// FILE-3.
    fn check_room(&self, folder: &Folder, bytes: u64) -> std::io::Result<()> {
        if folder.remote().is_some() {
            return Ok(());
        }
        let stat = statvfs(folder.path())?;
        let (total, free) = (stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize);
        let left = free.saturating_sub(((1.0 - self.folders.full_at) * total as f64) as u64);
        if bytes <= left {
            return Ok(());
        }
        let part = 100.0 * self.folders.full_at;
        Err(std::io::Error::other(format!("{free} of {total} bytes are free, and it is filled to {part} % only")))
    }

    fn folder(&self, file: FileId) -> Option<&Folder> {
        self.folders.list.get(usize::from(file.folder))
    }

    fn path(&self, file: FileId) -> PathBuf {
        self.folder(file).map_or_else(PathBuf::new, |folder| folder.path().join(file.to_string()))
    }

    /// Whether the file is long enough to hold the value: much cheaper than `map`, and says less. Of an object store nothing is asked.
    #[must_use]
    pub fn is_there(&self, filed: &Filed) -> bool {
        std::fs::metadata(self.path(filed.file)).is_ok_and(|data| data.len() >= filed.offset + filed.length)
    }

    /// Up to `count` bytes from the start of a value, unchecked; never waits for a network. Of a value in an object store there are as many
    /// as `head_bytes` said, and zeros behind them.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn read(&self, filed: &Filed, count: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; count.min(filed.length) as usize];
        let read = File::open(self.path(filed.file)).and_then(|file| file.read_exact_at(&mut bytes, filed.offset));
        read.map_err(|error| Error::Lost { file: filed.file, why: error.to_string() })?;
        Ok(bytes)
    }

    /// A value in place; one from an object store in memory of its own.
    ///
    /// # Errors
    /// If it is not there any more as it was written (FILE-1).
    pub fn map(&self, filed: &Filed) -> Result<View, Error> {
        self.map_while(filed, &mut || true)
    }

    /// As `map`; an object store is waited for only while `goes_on`, which is asked now and then.
    ///
    /// # Errors
    /// As `map`; `GivenUp` if it did not go on.
    pub fn map_while(&self, filed: &Filed, goes_on: &mut dyn FnMut() -> bool) -> Result<View, Error> {
        let lost = |why: String| Error::Lost { file: filed.file, why };
        let path = self.path(filed.file);
        if let Some(remote) = self.folder(filed.file).and_then(Folder::remote) {
            return self.fetch(remote, &path, filed, goes_on);
        }
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
        if !lock(&self.checked).contains(&key) {
            if crc32c::crc32c(&map) != filed.check {
                return Err(lost(format!("{} is damaged", path.display())));
            }
            let mut checked = lock(&self.checked);
            if checked.len() >= CHECKED_MAX {
                checked.clear();
            }
            checked.insert(key);
        }
        Ok(View::filed(Arc::new(map)))
    }

    fn fetch(
        &self,
        remote: &Remote,
        path: &Path,
        filed: &Filed,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<View, Error> {
        let lost = |why: String| Error::Lost { file: filed.file, why };
        let key = key_in(path).map_err(|error| lost(format!("{}: {error}", path.display())))?;
        let known = (key, filed.offset);
        if let Some(map) = lock(&self.fetched).get(&known).and_then(Weak::upgrade) {
            return Ok(View::filed(map));
        }
        let got = remote.get(&known.0, filed.offset, filed.length, goes_on);
        let map = got.ok_or(Error::GivenUp(filed.file))?.map_err(lost)?;
        if crc32c::crc32c(&map) != filed.check {
            return Err(lost(format!("{} is damaged", known.0)));
        }
        let map = Arc::new(map);
        let mut fetched = lock(&self.fetched);
        if fetched.len() >= FETCHED_MAX {
            fetched.retain(|_, map| map.strong_count() > 0);
        }
        fetched.insert(known, Arc::downgrade(&map));
        Ok(View::filed(map))
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

    /// Nobody needs a value of the file any more. Whoever looks at one goes on. Never waits for a network.
    pub fn remove(&self, file: FileId) {
        if let Some(folder) = self.folder(file) {
            folder.remove(&self.path(file));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for FileReservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FileReservation").field(&self.file).finish()
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

    /// Ends the writing. An object store gets the value now.
    ///
    /// # Errors
    /// If it does not take it.
    pub fn seal(mut self) -> Result<Filed, Error> {
        let length = self.map.len() as u64;
        let filed = Filed { file: self.file, offset: 0, length, check: crc32c::crc32c(&self.map) };
        if let Some(remote) = self.folder.remote() {
            let values = [(filed, &self.map[..])];
            let done = self.folder.upload(remote, &self.path, &values, self.head_bytes);
            done.map_err(|error| Error::DiskFull { need: length, why: error.to_string() })?;
        }
        self.is_sealed = true;
        Ok(filed)
    }
}

impl Drop for FileReservation {
    fn drop(&mut self) {
        if !self.is_sealed && self.folder.remote().is_none() {
            self.folder.remove(&self.path);
        }
    }
}
