//! The one who appends.
//!
//! `append` only encodes. `flush` hands all that was appended to the operating system in one write, after which the death of this process
//! loses nothing of it. A thread has the disk take it over at most every 100 ms, so that the death of the machine loses little.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Contents, Error, HEADER_BYTES, PID_AT, encode, header, kind, os, read, u32_at};

/// How long the disk is left alone after it was asked to take something over.
const SYNC_REST: Duration = Duration::from_millis(100);
/// A buffer that grew beyond this is not kept.
const BUFFER_KEPT_BYTES: usize = 1 << 20;

/// The only writer of a journal.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: Arc<File>,
    /// Where the last whole frame in the file ends.
    end: u64,
    pending: Vec<u8>,
    torn_bytes: u64,
    /// Bytes may lie behind `end` that could not be removed.
    is_dirty: bool,
    is_closed: bool,
    disk: Arc<Disk>,
}

impl Writer {
    /// Opens or makes the journal at `path`, locks it, and cuts off what was never finished.
    pub fn open(path: &Path, is_created: bool) -> Result<Self, Error> {
        let file = locked(path, is_created)?;
        let before = read(path)?;
        let mut writer = Self {
            path: path.to_path_buf(),
            file: Arc::new(file),
            end: before.end,
            pending: Vec::new(),
            torn_bytes: before.torn_bytes,
            is_dirty: before.torn_bytes > 0,
            is_closed: false,
            disk: Arc::default(),
        };
        writer.cut()?;
        let head = header(std::process::id());
        writer.file.write_all_at(&head, 0).map_err(|source| os("write", path, 0, source))?;
        if writer.end == 0 {
            writer.end = HEADER_BYTES as u64;
            // A new file is only there for good once its folder is on disk.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let _ = File::open(folder.unwrap_or_else(|| Path::new("."))).and_then(|folder| folder.sync_all());
        }
        writer.start_thread()?;
        Ok(writer)
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was cut off when it was opened.
    #[must_use]
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// Bytes in the file and on their way to it.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.end + self.pending.len() as u64
    }

    /// Adds an event of a kind that has a number.
    pub fn append(&mut self, kind: u8, json: &[u8]) -> Result<(), Error> {
        self.check_open()?;
        encode(kind, &[json], &mut self.pending)
    }

    /// Adds an event of a kind that has a name of at most 255 bytes.
    pub fn append_named(&mut self, name: &str, json: &[u8]) -> Result<(), Error> {
        if let Some(kind) = kind::number(name) {
            return self.append(kind, json);
        }
        self.check_open()?;
        let length = u8::try_from(name.len()).map_err(|_| Error::TooLarge { bytes: name.len() })?;
        encode(kind::NAMED, &[&[length], name.as_bytes(), json], &mut self.pending)
    }

    /// Adds a trial's result.
    pub fn append_result(&mut self, trial: u32, json: &[u8]) -> Result<(), Error> {
        self.check_open()?;
        encode(kind::RESULT, &[&trial.to_le_bytes(), json], &mut self.pending)
    }

    /// Hands everything to the operating system. After an error the file has whole frames only, and a later flush tries again.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.check_open()?;
        if let Some(source) = self.disk.take_failure() {
            return Err(os("save to disk", &self.path, self.end, source));
        }
        if self.pending.is_empty() {
            return Ok(());
        }
        self.cut()?;
        if let Err(source) = self.file.write_all_at(&self.pending, self.end) {
            let failure = os("write", &self.path, self.end, source);
            self.is_dirty = true;
            // TJ-3. Should the file not get shorter either, the next flush and the next reader cut it.
            let _ = self.cut();
            return Err(failure);
        }
        self.end += self.pending.len() as u64;
        self.pending.clear();
        self.pending.shrink_to(BUFFER_KEPT_BYTES);
        self.disk.wrote(self.end);
        Ok(())
    }

    /// Returns when the disk has everything.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.file.sync_data().map_err(|source| os("save to disk", &self.path, self.end, source))?;
        self.disk.saved(self.end);
        Ok(())
    }

    /// What is in the file, without what has not been flushed.
    pub fn read(&self) -> Result<Contents, Error> {
        read(&self.path)
    }

    /// Writes what is left and lets others in. A second call does nothing.
    pub fn close(&mut self) -> Result<(), Error> {
        if self.is_closed {
            return Ok(());
        }
        let result = self.sync();
        let _ = self.file.write_all_at(&[0; 4], PID_AT as u64);
        self.let_go();
        result
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.is_closed { Err(Error::Closed(self.path.clone())) } else { Ok(()) }
    }

    fn cut(&mut self) -> Result<(), Error> {
        if self.is_dirty {
            self.file.set_len(self.end).map_err(|source| os("shorten", &self.path, self.end, source))?;
            self.is_dirty = false;
        }
        Ok(())
    }

    fn let_go(&mut self) {
        self.is_closed = true;
        self.disk.close();
        // The thread may still hold the file for a moment; the lock must not wait for that.
        let _ = self.file.unlock();
    }

    /// Nobody waits for the thread's end: in a forked child it does not exist.
    fn start_thread(&self) -> Result<(), Error> {
        let (disk, file) = (Arc::clone(&self.disk), Arc::clone(&self.file));
        thread::Builder::new()
            .name("tune-journal".into())
            .spawn(move || disk.run(&file))
            .map(drop)
            .map_err(|source| os("start the thread of", &self.path, 0, source))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_closed {
            let _ = self.flush();
            self.let_go();
        }
    }
}

/// The file, opened for writing by nobody else.
pub(super) fn locked(path: &Path, is_created: bool) -> Result<File, Error> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(is_created)
        .truncate(false)
        .open(path)
        .map_err(|source| os("open", path, 0, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_path_buf(), pid: last_writer(&file) }),
        Err(TryLockError::Error(source)) => Err(os("lock", path, 0, source)),
    }
}

fn last_writer(file: &File) -> Option<u32> {
    let mut head = [0; HEADER_BYTES];
    file.read_exact_at(&mut head, 0).ok()?;
    u32_at(&head, PID_AT).filter(|pid| *pid != 0)
}

/// What the writer and its thread tell each other.
#[derive(Debug, Default)]
struct Disk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    written: u64,
    saved: u64,
    failure: Option<io::Error>,
    is_closed: bool,
}

impl Disk {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrote(&self, end: u64) {
        let mut state = self.lock();
        let was_idle = state.written == state.saved;
        state.written = end;
        drop(state);
        if was_idle {
            self.changed.notify_one();
        }
    }

    fn saved(&self, end: u64) {
        let mut state = self.lock();
        state.saved = state.saved.max(end);
    }

    fn take_failure(&self) -> Option<io::Error> {
        self.lock().failure.take()
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    fn run(&self, file: &File) {
        let mut state = self.lock();
        loop {
            while !state.is_closed && state.written <= state.saved {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_closed {
                return;
            }
            let end = state.written;
            drop(state);
            let result = file.sync_data();
            state = self.lock();
            state.saved = state.saved.max(end);
            state.failure = result.err().or_else(|| state.failure.take());
            let (rested, _) = self
                .changed
                .wait_timeout_while(state, SYNC_REST, |state| !state.is_closed)
                .unwrap_or_else(PoisonError::into_inner);
            state = rested;
        }
    }
}
