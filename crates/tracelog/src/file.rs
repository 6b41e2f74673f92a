//! The file that lines go to.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A file of this length makes place for the next.
const BYTES_MAX: u64 = 8 << 20;

static OUTPUT: Mutex<Option<Output>> = Mutex::new(None);

struct Output {
    folder: PathBuf,
    /// With the process that opened it: a forked child has a file of its own.
    open: Option<(u32, File, u64)>,
}

/// Where lines go from now on.
pub(crate) fn turn_to(folder: Option<&Path>) {
    let mut output = OUTPUT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if output.as_ref().map(|output| &*output.folder) != folder {
        *output = folder.map(|folder| Output { folder: folder.into(), open: None });
    }
}

/// Takes one line after the other.
pub(crate) fn writer() -> Lines {
    Lines
}

pub(crate) struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // LOG-1. A full disk must not end the process either: what cannot be written is not there.
        if let Ok(mut output) = OUTPUT.try_lock()
            && let Some(output) = output.as_mut()
        {
            let _ = output.write(line, std::process::id());
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    fn write(&mut self, line: &[u8], pid: u32) -> io::Result<()> {
        let path = self.folder.join(format!("core-{pid}.log"));
        if let Some((_, _, written)) = self.open.take_if(|(opener, _, written)| *opener != pid || *written >= BYTES_MAX)
            && written >= BYTES_MAX
        {
            std::fs::rename(&path, self.folder.join(format!("core-{pid}.old.log")))?;
        }
        if self.open.is_none() {
            let file = OpenOptions::new().append(true).create(true).open(&path)?;
            let written = file.metadata()?.len();
            self.open = Some((pid, file, written));
        }
        let Some((_, file, written)) = &mut self.open else { return Ok(()) };
        file.write_all(line)?;
        *written += line.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Output};

    #[test]
    fn lines_without_end_take_the_room_of_two_files_and_the_latest_are_there() {
        let folder = std::env::temp_dir().join(format!("eagleray-tracelog-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut output = Output { folder: folder.clone(), open: None };
        let line = [b'x'; 64 * 1024];
        for _ in 0..5 * BYTES_MAX / line.len() as u64 {
            output.write(&line, 1).unwrap();
        }
        output.write(b"the last", 1).unwrap();
        output.write(b"of a forked child", 2).unwrap();
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        let (new, old) = (read("core-1.log"), read("core-1.old.log"));
        assert!(new.ends_with(b"the last"));
        assert!(new.len() as u64 <= BYTES_MAX + line.len() as u64 && old.len() as u64 <= BYTES_MAX + line.len() as u64);
        assert_eq!(read("core-2.log"), b"of a forked child");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
