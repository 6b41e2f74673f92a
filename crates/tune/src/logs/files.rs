//! Files that are appended to in whole pieces, more of them than may be open at a time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::Error;

/// How many files all trials of this process together keep open.
pub(super) const OPEN_FILES_MAX: usize = 192;
/// A file's last line is looked for in steps of this size.
const STEP_BYTES: u64 = 1 << 16;

/// How a file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// What is there goes.
    Anew,
    /// Behind the last whole line of what is there.
    AtLastLine,
}

/// A file and what it still has to get.
#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    pub(super) buffer: Vec<u8>,
    pub(super) begin: Begin,
    number: u64,
    /// Where the next bytes go; known once it has been opened.
    end: Option<u64>,
}

impl LogFile {
    pub(super) fn new(path: PathBuf, begin: Begin) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self { path, buffer: Vec::new(), begin, number: COUNT.fetch_add(1, Ordering::Relaxed), end: None }
    }

    /// Writes the buffer. After an error the file is as it was, and so is the buffer.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut open = lock();
        let file = match open.get(self.number) {
            Some(file) => file,
            None => {
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(&self.path)
                    .map_err(|source| self.error("open", source))?;
                open.put(self.number, file)
            }
        };
        let end = match self.end {
            Some(end) => end,
            None => {
                let end = first_end(file, self.begin).map_err(|source| self.error("prepare", source))?;
                self.end = Some(end);
                end
            }
        };
        if let Err(source) = file.write_all_at(&self.buffer, end) {
            // LOG-2.
            let _ = file.set_len(end);
            return Err(self.error("write", source));
        }
        self.end = Some(end + self.buffer.len() as u64);
        self.buffer.clear();
        Ok(())
    }

    fn error(&self, doing: &'static str, source: io::Error) -> Error {
        Error { doing, path: self.path.clone(), source }
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        let _ = self.flush();
        lock().remove(self.number);
    }
}

/// Cuts off what does not belong to the file that is to be, and returns where it ends.
fn first_end(file: &File, begin: Begin) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let end = match begin {
        Begin::Anew => 0,
        Begin::AtLastLine => last_line_end(file, length)?,
    };
    if end != length {
        file.set_len(end)?;
    }
    Ok(end)
}

/// LOG-1: the end of the last whole line.
fn last_line_end(file: &File, length: u64) -> io::Result<u64> {
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(STEP_BYTES);
        let mut bytes = vec![0; (end - start) as usize];
        file.read_exact_at(&mut bytes, start)?;
        if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// LOG-3: the open files, at most `OPEN_FILES_MAX`; the one that was not used for longest is closed for another.
#[derive(Default)]
struct OpenFiles {
    files: Option<FxHashMap<u64, (File, u64)>>,
    uses: u64,
}

static OPEN: Mutex<OpenFiles> = Mutex::new(OpenFiles { files: None, uses: 0 });

fn lock() -> MutexGuard<'static, OpenFiles> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(super) fn open_count() -> usize {
    lock().files.as_ref().map_or(0, FxHashMap::len)
}

impl OpenFiles {
    fn get(&mut self, number: u64) -> Option<&File> {
        self.uses += 1;
        let (file, used) = self.files.as_mut()?.get_mut(&number)?;
        *used = self.uses;
        Some(file)
    }

    fn put(&mut self, number: u64, file: File) -> &File {
        let files = self.files.get_or_insert_default();
        if files.len() >= OPEN_FILES_MAX
            && let Some(oldest) = files.iter().min_by_key(|(_, (_, used))| *used).map(|(number, _)| *number)
        {
            files.remove(&oldest);
        }
        &files.entry(number).insert_entry((file, self.uses)).into_mut().0
    }

    fn remove(&mut self, number: u64) {
        if let Some(files) = &mut self.files {
            files.remove(&number);
        }
    }
}
