//! Workers' output: each writes to files of its own in the session's folder, so that a crash loses nothing; new lines are passed on to
//! the driver they belong to, as fast as that takes them. The files go with their worker, except for those of the last few that crashed
//! or said more than anybody could read.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use model::{JobId, ProcId, Tick};
use rustc_hash::FxHashMap;
use rustix::fs::{FallocateFlags, inotify};

use crate::lines::{Lines, Said};

/// Beyond so much that its driver has not taken, the older part of a file is left out, and a line says so.
const UNREAD_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A file gives its older parts back beyond this.
const KEPT_BYTES_MAX: u64 = 2 * UNREAD_BYTES_MAX;
/// At a time.
const GIVEN_BACK_BYTES: u64 = 8 * 1024 * 1024;
/// Read at a time, so that one noisy worker does not hold everyone up.
const READ_BYTES: u64 = 256 * 1024;
/// Workers whose files are kept when they are dead.
const KEPT_MAX: usize = 10;
/// After a look at what has changed the folder is left alone for so long: whoever prints without a pause is read in large parts.
pub(crate) const REST_MS: u64 = 10;
/// What has no line's end is passed on when its writer has been silent for so long,
const SILENT_MS: u64 = 200;
/// or has not ended it for so long.
const OPEN_MS_MAX: u64 = 1_000;

pub(crate) const STREAMS: [&str; 2] = ["out", "err"];

pub(crate) struct Logs {
    dir: PathBuf,
    inotify: OwnedFd,
    files: FxHashMap<Box<str>, Follow>,
    /// Files with more in them than was read: nothing may tell of the rest, so they are looked at again at once.
    behind: Vec<Box<str>>,
    /// Files whose driver has to take what it got first.
    held: Vec<Box<str>>,
    /// Files that end in a line without an end.
    open: Vec<Box<str>>,
    /// Until when the folder is left alone.
    pub(crate) rests_until: Option<Tick>,
    /// Drivers that want all that was printed so far.
    pub(crate) awaited: Vec<Awaited>,
    /// Files of dead workers that are kept, the latest last.
    kept: VecDeque<Vec<Box<str>>>,
}

/// A driver that wants all that was printed so far.
pub(crate) struct Awaited {
    pub(crate) driver: ProcId,
    /// Its workers' files, up to where.
    files: Vec<(Box<str>, u64)>,
}

#[derive(Default)]
struct Follow {
    offset: u64,
    /// The file's room was given back up to here.
    given_back: u64,
    lines: Lines,
    /// Since when a line waits for its end, and when it last grew.
    open: Option<(Tick, Tick)>,
    /// Whose file it is, if that one is dead: nobody else knows any more.
    of_dead: Option<Source>,
    /// Some of it was never passed on.
    is_kept: bool,
}

/// Whose output a file holds.
#[derive(Clone)]
pub(crate) struct Source {
    /// If it lives.
    pub(crate) id: Option<ProcId>,
    pub(crate) pid: i32,
    pub(crate) job: JobId,
    /// Instead of who says that it speaks.
    pub(crate) shown_as: Option<Box<str>>,
    /// Where nobody says who speaks.
    pub(crate) label: Box<str>,
}

/// How far a file was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadTo {
    /// There is more.
    Somewhere,
    /// Everything that is there now.
    End,
}

pub(crate) fn of_worker(id: ProcId, stream: &str) -> Box<str> {
    format!("worker-{}-{}.{stream}", id.slot(), id.epoch()).into()
}

/// Where a worker's faulthandler writes: beside its output, so that the stack is told once, in the error.
fn of_fault(id: ProcId) -> Box<str> {
    format!("fault-{}-{}", id.slot(), id.epoch()).into()
}

fn of_crashed(pid: i32, stream: &str) -> Box<str> {
    format!("crashed-{pid}.{stream}").into()
}

/// Which worker of this node a log file is of.
pub(crate) fn parse(name: &str, node: u32) -> Option<ProcId> {
    let (stem, _) = name.strip_prefix("worker-")?.rsplit_once('.')?;
    let (slot, epoch) = stem.split_once('-')?;
    ProcId::checked(node, slot.parse().ok()?, epoch.parse().ok()?)
}

pub(crate) fn is_error(name: &str) -> bool {
    name.ends_with(".err")
}

fn note(names: &mut Vec<Box<str>>, name: &str) {
    if !names.iter().any(|known| **known == *name) {
        names.push(name.into());
    }
}

impl Logs {
    pub(crate) fn new(dir: PathBuf) -> rustix::io::Result<Self> {
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        inotify::add_watch(&inotify, &dir, inotify::WatchFlags::MODIFY)?;
        Ok(Self {
            dir,
            inotify,
            files: FxHashMap::default(),
            behind: Vec::new(),
            held: Vec::new(),
            open: Vec::new(),
            rests_until: None,
            awaited: Vec::new(),
            kept: VecDeque::new(),
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// When to look again, if nothing happens.
    pub(crate) fn next_look(&self) -> Option<Tick> {
        let open = self.open.iter().filter_map(|name| self.files.get(name)?.piece_at());
        open.chain(self.rests_until).min()
    }

    pub(crate) fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// This file has more in it.
    pub(crate) fn note_behind(&mut self, name: &str) {
        note(&mut self.behind, name);
    }

    /// Files that may have more in them; who looks at them notes those that do.
    pub(crate) fn take_behind(&mut self) -> Vec<Box<str>> {
        std::mem::take(&mut self.behind)
    }

    /// Notes the files that have changed.
    pub(crate) fn note_changed(&mut self) {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut space);
        let mut has_missed = false;
        while let Ok(event) = reader.next() {
            has_missed |= event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW);
            if let Some(name) = event.file_name().and_then(|name| name.to_str().ok()) {
                note(&mut self.behind, name);
            }
        }
        if has_missed && let Ok(entries) = std::fs::read_dir(&self.dir) {
            for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
                note(&mut self.behind, &name);
            }
        }
    }

    /// Its driver takes nothing right now.
    pub(crate) fn hold(&mut self, name: &str) {
        // It may grow meanwhile, but not for ever.
        let _ = self.look_at(name);
        note(&mut self.held, name);
    }

    /// A driver has taken something, or is gone: those who waited for one go on.
    pub(crate) fn resume(&mut self) {
        for name in std::mem::take(&mut self.held) {
            note(&mut self.behind, &name);
        }
    }

    /// Files that end in a line which has waited for its end long enough.
    pub(crate) fn take_overdue(&mut self, now: Tick) -> Vec<Box<str>> {
        let is_due = |name: &str| self.files.get(name).and_then(Follow::piece_at).is_none_or(|at| at <= now);
        let (due, open) = std::mem::take(&mut self.open).into_iter().partition(|name| is_due(name));
        self.open = open;
        due
    }

    /// Opens a file and says how long it is. What is too old in it is left out, or given back.
    fn look_at(&mut self, name: &str) -> Option<(File, u64)> {
        let file = File::options().read(true).write(true).open(self.dir.join(name)).ok()?;
        let length = file.metadata().ok()?.len();
        let follow = self.files.entry(name.into()).or_default();
        if length < follow.offset {
            // Somebody has cut it.
            (follow.offset, follow.given_back) = (0, 0);
        }
        if length - follow.offset > UNREAD_BYTES_MAX {
            let resumed = length - READ_BYTES;
            follow.lines.skip(resumed - follow.offset);
            (follow.offset, follow.is_kept) = (resumed, true);
        }
        let old = length.saturating_sub(KEPT_BYTES_MAX);
        if old > follow.given_back + GIVEN_BACK_BYTES {
            // Where the file system cannot do that the file just grows.
            let _ = rustix::fs::fallocate(
                &file,
                FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                follow.given_back,
                old - follow.given_back,
            );
            follow.given_back = old;
        }
        Some((file, length))
    }

    /// New whole lines of a file.
    pub(crate) fn read(&mut self, name: &str, now: Tick) -> (Vec<Said>, ReadTo) {
        let Some((file, length)) = self.look_at(name) else { return (Vec::new(), ReadTo::End) };
        let path = self.dir.join(name);
        let Some(follow) = self.files.get_mut(name) else { return (Vec::new(), ReadTo::End) };
        let mut bytes = vec![0; READ_BYTES.min(length - follow.offset) as usize];
        if file.read_exact_at(&mut bytes, follow.offset).is_err() {
            return (Vec::new(), ReadTo::End);
        }
        follow.offset += bytes.len() as u64;
        let mut said = follow.lines.feed(&bytes);
        if let Some(skipped) = follow.lines.take_skipped() {
            let text = format!(
                "... {skipped} bytes of output are left out here: they came faster than this program could print them. {} has them",
                path.display()
            );
            said.insert(0, Said { speaker: "".into(), lines: vec![text] });
        }
        if !follow.lines.is_open() {
            follow.open = None;
        } else if !bytes.is_empty() {
            let since = follow.open.filter(|_| said.is_empty()).map_or(now, |(since, _)| since);
            follow.open = Some((since, now));
        }
        if follow.open.is_some() {
            note(&mut self.open, name);
        }
        (said, if length > follow.offset { ReadTo::Somewhere } else { ReadTo::End })
    }

    /// What a file ends with and has no line's end, if it has waited for one long enough.
    pub(crate) fn piece(&mut self, name: &str, now: Tick) -> Vec<Said> {
        let Some(follow) = self.files.get_mut(name) else { return Vec::new() };
        if follow.piece_at().is_none_or(|at| at > now) {
            return Vec::new();
        }
        follow.open = None;
        follow.lines.piece()
    }

    /// What a file ends with: nothing will follow, or nobody will hear it.
    pub(crate) fn end(&mut self, name: &str) -> Vec<Said> {
        self.files.get_mut(name).map_or_else(Vec::new, |follow| {
            follow.open = None;
            follow.lines.end()
        })
    }

    /// Whose output a file holds, if that is known without the table of processes.
    pub(crate) fn of_dead(&self, name: &str) -> Option<Source> {
        self.files.get(name)?.of_dead.clone()
    }

    /// Whether its writer is dead.
    pub(crate) fn is_of_dead(&self, name: &str) -> bool {
        self.files.get(name).is_some_and(|follow| follow.of_dead.is_some())
    }

    /// Its writer has died, and nobody else knows whose it was. Its files are kept under its pid if it crashed: that is what people know
    /// of it. Returns their names now.
    pub(crate) fn writer_died(&mut self, id: ProcId, source: &Source, has_crashed: bool) -> [Box<str>; 2] {
        let mut is_silent = true;
        let names = STREAMS.map(|stream| {
            let name = of_worker(id, stream);
            let mut follow = self.files.remove(&name).unwrap_or_default();
            follow.of_dead = Some(source.clone());
            let crashed = of_crashed(source.pid, stream);
            let path = self.dir.join(&*name);
            let is_moved = has_crashed
                && std::fs::metadata(&path).is_ok_and(|data| data.len() > 0)
                && std::fs::rename(&path, self.dir.join(&*crashed)).is_ok();
            is_silent &= !is_moved;
            follow.is_kept |= is_moved;
            let now = if is_moved { crashed } else { name.clone() };
            for (awaited, _) in self.awaited.iter_mut().flat_map(|awaited| &mut awaited.files) {
                if *awaited == name {
                    awaited.clone_from(&now);
                }
            }
            self.files.insert(now.clone(), follow);
            note(&mut self.behind, &now);
            now
        });
        let stack = self.keep_stack(id, source.pid);
        if !is_silent || stack.is_some() {
            self.keep(names.iter().cloned().chain(stack).collect());
        }
        names
    }

    /// All of a dead worker's file was passed on.
    pub(crate) fn finish(&mut self, name: &str) {
        let Some(follow) = self.files.remove(name) else { return };
        if !follow.is_kept {
            let _ = std::fs::remove_file(self.dir.join(name));
        } else if !self.kept.iter().flatten().any(|known| **known == *name) {
            self.keep(vec![name.into()]);
        }
    }

    fn keep(&mut self, names: Vec<Box<str>>) {
        self.kept.retain(|known| *known != names);
        self.kept.push_back(names);
        if self.kept.len() > KEPT_MAX
            && let Some(at) = self.kept.iter().position(|names| !names.iter().any(|name| self.files.contains_key(name)))
            && let Some(oldest) = self.kept.remove(at)
        {
            oldest.iter().for_each(|name| {
                let _ = std::fs::remove_file(self.dir.join(&**name));
            });
        }
    }

    /// A driver wants all that is in these files now, and in those of its workers that are dead.
    pub(crate) fn await_all(&mut self, driver: ProcId, job: JobId, alive: impl Iterator<Item = ProcId>) {
        let dead = self.files.iter().filter(|(_, follow)| follow.of_dead.as_ref().is_some_and(|of| of.job == job));
        let dead: Vec<Box<str>> = dead.map(|(name, _)| name.clone()).collect();
        let alive = alive.flat_map(|id| STREAMS.map(|stream| of_worker(id, stream)));
        let lengths = alive.chain(dead).filter_map(|name| {
            let length = std::fs::metadata(self.dir.join(&*name)).ok()?.len();
            Some((name, length))
        });
        let files: Vec<(Box<str>, u64)> = lengths.collect();
        files.iter().for_each(|(name, _)| note(&mut self.behind, name));
        self.awaited.push(Awaited { driver, files });
    }

    /// Files that somebody waits for and that were read as far as they were long then.
    pub(crate) fn take_reached(&mut self) -> Vec<Box<str>> {
        let mut reached = Vec::new();
        for awaited in &mut self.awaited {
            awaited.files.retain(|(name, length)| {
                let has_more = self.files.get(name).is_some_and(|follow| follow.offset < *length);
                if !has_more {
                    note(&mut reached, name);
                }
                has_more
            });
        }
        reached
    }

    /// Drivers that have got all that they wanted.
    pub(crate) fn take_served(&mut self) -> Vec<ProcId> {
        let (served, waiting) = std::mem::take(&mut self.awaited).into_iter().partition(|one| one.files.is_empty());
        self.awaited = waiting;
        let served: Vec<Awaited> = served;
        served.into_iter().map(|awaited| awaited.driver).collect()
    }

    /// All files that are followed.
    pub(crate) fn names(&self) -> Vec<Box<str>> {
        self.files.keys().cloned().collect()
    }

    /// The Python stack that faulthandler wrote when the worker crashed.
    pub(crate) fn crash_stack(&self, id: ProcId) -> String {
        self.tail(&of_fault(id)).trim_end().to_string()
    }

    /// Whether there is anything to keep of what a worker has printed, or its faulthandler.
    pub(crate) fn has_output(&self, id: ProcId) -> bool {
        let mut names = STREAMS.map(|stream| of_worker(id, stream)).into_iter().chain([of_fault(id)]);
        names.any(|name| std::fs::metadata(self.dir.join(&*name)).is_ok_and(|file| file.len() > 0))
    }

    /// A worker is dead: what its faulthandler has written is kept under its pid, if it has.
    fn keep_stack(&self, id: ProcId, pid: i32) -> Option<Box<str>> {
        let (path, kept) = (self.dir.join(&*of_fault(id)), of_crashed(pid, "stack"));
        if std::fs::metadata(&path).is_ok_and(|file| file.len() > 0) {
            return std::fs::rename(&path, self.dir.join(&*kept)).is_ok().then_some(kept);
        }
        let _ = std::fs::remove_file(path);
        None
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

impl Follow {
    /// When what waits for its line's end has waited long enough.
    fn piece_at(&self) -> Option<Tick> {
        self.open.map(|(since, grown)| grown.plus_ms(SILENT_MS).min(since.plus_ms(OPEN_MS_MAX)))
    }
}
