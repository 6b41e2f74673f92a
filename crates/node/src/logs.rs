//! Workers' output: each writes to files of its own in the session's folder, so that a crash loses nothing; new lines are passed on to
//! the driver they belong to. The files go with their worker, except for those of the last few that crashed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use model::{JobId, ProcId, WorkerExit};
use rustc_hash::FxHashMap;
use rustix::fs::inotify;
use wire::control::{FromNode, LogLines};

use crate::conns::UNREAD_LOGS_MAX;
use crate::looped::Node;
use crate::procs::Kind;

/// A log file longer than this starts again from nothing; what nobody has read of it by then is lost.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Read at a time, so that one noisy worker does not hold everyone up.
const READ_BYTES: usize = 256 * 1024;
/// A line longer than this is cut in pieces.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Crashed workers whose files are kept.
const CRASHED_MAX: usize = 10;
/// Between these two a worker writes whose output follows: `eagleray._worker.streams`.
const SPEAKER: (u8, u8) = (0x1e, 0x1f);

pub(crate) struct Logs {
    dir: PathBuf,
    inotify: OwnedFd,
    files: FxHashMap<Box<str>, Follow>,
    /// Files with more in them than was read at a time: nothing may tell of the rest, so they are looked at again at once.
    behind: Vec<Box<str>>,
    /// Pids of workers that crashed and whose files are kept, the latest last.
    crashed: VecDeque<i32>,
}

#[derive(Default)]
struct Follow {
    offset: u64,
    partial: Vec<u8>,
    /// Whose output is being read.
    speaker: Box<str>,
}

/// Lines that one speaker printed.
struct Said {
    speaker: Box<str>,
    lines: Vec<String>,
}

impl Follow {
    /// Takes the whole lines out of what was read; the last one too if nothing follows it.
    fn take_lines(&mut self, is_last: bool) -> Vec<Said> {
        let bytes = std::mem::take(&mut self.partial);
        let mut said: Vec<Said> = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (line, after) = match rest.iter().position(|byte| *byte == b'\n') {
                Some(end) if end <= LINE_BYTES_MAX => (&rest[..end], &rest[end + 1..]),
                None if rest.len() <= LINE_BYTES_MAX && is_last => (rest, &rest[..0]),
                None if rest.len() <= LINE_BYTES_MAX => break,
                _ => rest.split_at(LINE_BYTES_MAX),
            };
            rest = after;
            let line = self.hear_speaker(line);
            match said.last_mut().filter(|last| last.speaker == self.speaker) {
                Some(last) => last.lines.push(line),
                None => said.push(Said { speaker: self.speaker.clone(), lines: vec![line] }),
            }
        }
        self.partial = rest.to_vec();
        said
    }

    /// The line without the marks in it; the last of them says who speaks.
    fn hear_speaker(&mut self, line: &[u8]) -> String {
        let Some(start) = line.iter().position(|byte| *byte == SPEAKER.0) else { return clean(line) };
        let Some(length) = line[start..].iter().position(|byte| *byte == SPEAKER.1) else { return clean(line) };
        self.speaker = String::from_utf8_lossy(&line[start + 1..start + length]).into();
        let without = [&line[..start], &line[start + length + 1..]].concat();
        self.hear_speaker(&without)
    }
}

const STREAMS: [&str; 2] = ["out", "err"];

fn of_worker(id: ProcId, stream: &str) -> String {
    format!("worker-{}-{}.{stream}", id.slot, id.epoch)
}

fn of_crashed(pid: i32, stream: &str) -> String {
    format!("crashed-{pid}.{stream}")
}

/// Which worker and stream a log file is of.
fn parse(name: &str) -> Option<(ProcId, bool)> {
    let (stem, stream) = name.strip_prefix("worker-")?.rsplit_once('.')?;
    let (slot, epoch) = stem.split_once('-')?;
    Some((ProcId { slot: slot.parse().ok()?, epoch: epoch.parse().ok()? }, stream == "err"))
}

impl Logs {
    pub(crate) fn new(dir: PathBuf) -> rustix::io::Result<Self> {
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        inotify::add_watch(&inotify, &dir, inotify::WatchFlags::MODIFY)?;
        Ok(Self { dir, inotify, files: FxHashMap::default(), behind: Vec::new(), crashed: VecDeque::new() })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    pub(crate) fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    fn changed(&self) -> Vec<Box<str>> {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut space);
        let mut names: Vec<Box<str>> = Vec::new();
        while let Ok(event) = reader.next() {
            if let Some(name) = event.file_name().and_then(|name| name.to_str().ok())
                && !names.iter().any(|known| **known == *name)
            {
                names.push(name.into());
            }
            if names.len() > 256 {
                break;
            }
        }
        names
    }

    /// New whole lines of a file, and whether there is more to read than was read at a time.
    fn read(&mut self, name: &str, is_last: bool) -> (Vec<Said>, bool) {
        let nothing = (Vec::new(), false);
        let Ok(mut file) = File::options().read(true).write(true).open(self.dir.join(name)) else { return nothing };
        let length = file.metadata().map_or(0, |data| data.len());
        let follow = self.files.entry(name.into()).or_default();
        if length < follow.offset {
            follow.offset = 0;
        }
        let mut bytes = vec![0; READ_BYTES.min((length - follow.offset) as usize)];
        if file.seek(SeekFrom::Start(follow.offset)).is_err() || file.read_exact(&mut bytes).is_err() {
            return nothing;
        }
        follow.offset += bytes.len() as u64;
        follow.partial.extend_from_slice(&bytes);
        let mut said = follow.take_lines(is_last);
        if length > FILE_BYTES_MAX {
            // Its writer appends, so it goes on at the start.
            let _ = file.set_len(0);
            let skipped = length - follow.offset;
            follow.offset = 0;
            if skipped > 0 {
                follow.partial.clear();
                let lines = vec![format!(
                    "... {skipped} bytes of output were skipped: they came faster than they could be read"
                )];
                said.push(Said { speaker: follow.speaker.clone(), lines });
            }
            return (said, false);
        }
        (said, length > follow.offset)
    }

    /// The Python stack that faulthandler wrote when the worker crashed.
    pub(crate) fn crash_stack(&self, id: ProcId) -> String {
        let text = self.tail(&of_worker(id, "err"));
        text.find("Fatal Python error").map_or_else(String::new, |at| text[at..].to_string())
    }

    /// Keeps a crashed worker's files, under its pid: that is what people know of it.
    fn keep_crashed(&mut self, id: ProcId, pid: i32) {
        let mut is_silent = true;
        for stream in STREAMS {
            let (from, to) = (self.dir.join(of_worker(id, stream)), self.dir.join(of_crashed(pid, stream)));
            if std::fs::metadata(&from).is_ok_and(|data| data.len() > 0) {
                is_silent &= std::fs::rename(from, to).is_err();
            }
        }
        if is_silent {
            return;
        }
        self.crashed.retain(|known| *known != pid);
        self.crashed.push_back(pid);
        if self.crashed.len() > CRASHED_MAX {
            let oldest = self.crashed.pop_front().expect("there are several");
            STREAMS.iter().for_each(|stream| drop(std::fs::remove_file(self.dir.join(of_crashed(oldest, stream)))));
        }
    }

    /// The end of a log file.
    pub(crate) fn tail(&self, name: &str) -> String {
        let Ok(mut file) = File::open(self.dir.join(name)) else { return String::new() };
        let length = file.metadata().map_or(0, |data| data.len());
        let mut bytes = Vec::new();
        let _ = file.seek(SeekFrom::Start(length.saturating_sub(8_192)));
        let _ = file.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn clean(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(line).into_owned()
}

impl Node {
    pub(crate) fn on_logs(&mut self) {
        for name in self.logs.changed() {
            self.pass_on(&name, false);
        }
    }

    /// Goes on with files that had more in them, each as much again.
    pub(crate) fn catch_up(&mut self) {
        for name in std::mem::take(&mut self.logs.behind) {
            self.pass_on(&name, false);
        }
    }

    fn pass_on(&mut self, name: &str, is_last: bool) {
        let Some((id, is_error)) = parse(name) else { return };
        loop {
            let (said, has_more) = self.logs.read(name, is_last);
            if !said.is_empty() {
                // What marks these lines may have been said before they were printed.
                self.hear(id);
            }
            for Said { speaker, lines } in said {
                self.send_lines(id, is_error, speaker, lines);
            }
            if !has_more {
                return;
            }
            if !is_last {
                if !self.logs.behind.iter().any(|known| **known == *name) {
                    self.logs.behind.push(name.into());
                }
                return;
            }
        }
    }

    fn send_lines(&mut self, id: ProcId, is_error: bool, speaker: Box<str>, lines: Vec<String>) {
        let Some(proc) = self.procs.any(id) else { return };
        let (pid, job) = (proc.pid, proc.job);
        let speaker = if speaker.is_empty() { self.segment.proc(id.slot).label().into() } else { speaker };
        let name = proc.shown_as.clone().unwrap_or(speaker);
        let message = FromNode::Log(LogLines { pid, name, is_error, lines });
        for (driver, conn) in self.listeners(Some(job)) {
            if self.conns.get_mut(conn).is_some_and(|conn| conn.outbox.len() < UNREAD_LOGS_MAX) {
                self.tell(driver, &message);
            }
        }
    }

    pub(crate) fn listeners(&self, job: Option<JobId>) -> Vec<(ProcId, usize)> {
        self.procs
            .iter()
            .filter(|proc| matches!(proc.kind, Kind::Driver { logs, .. } if logs || job.is_none()))
            .filter(|proc| job.is_none_or(|job| proc.job == job))
            .filter_map(|proc| Some((proc.id, proc.conn?)))
            .collect()
    }

    /// A worker died: its last words are passed on, and its job is told if that was not intended.
    pub(crate) fn logs_of_dead(&mut self, id: ProcId, exit: &WorkerExit) {
        let is_unexpected = !matches!(exit, WorkerExit::Intended(_) | WorkerExit::Code(0));
        let about = self.procs.any(id).map(|proc| (proc.pid, proc.job, proc.kind == Kind::Worker));
        let crashed = about.filter(|(_, _, is_worker)| *is_worker && is_unexpected);
        let names = STREAMS.map(|stream| of_worker(id, stream));
        for name in &names {
            self.pass_on(name, true);
            self.logs.files.remove(&**name);
        }
        if let Some((pid, ..)) = crashed {
            self.logs.keep_crashed(id, pid);
        }
        for name in &names {
            let _ = std::fs::remove_file(self.logs.dir.join(name));
        }
        if let Some((pid, job, _)) = crashed {
            let text = format!("A worker died or was killed while executing a task or actor: pid={pid}, {exit}");
            self.notice_job(job, "worker_died", &text);
        }
    }

    /// Passes on whatever is left, lines without an end too.
    pub(crate) fn flush_logs(&mut self) {
        self.on_logs();
        let names: Vec<_> = self.logs.files.keys().cloned().collect();
        for name in names {
            self.pass_on(&name, true);
        }
    }
}
