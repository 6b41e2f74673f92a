//! The process's title, which `ps` and `top` show: a worker's says what it runs.
//!
//! The kernel shows the memory in which a program found its arguments. A title is written over them: a few bytes are compared at each
//! call and copied where they differ. If the last byte of that memory is not zero, the kernel takes what stands there up to the first
//! zero for a title, and shows nothing of the old arguments behind it.
//!
//! The kernel's short name of the process says the same, but begins otherwise: `ray stop` of a Ray on the same machine ends every process
//! whose short name has `ray::` in it.

use std::fs;
use std::sync::{LazyLock, Mutex};

const PREFIX: &[u8] = b"ray::";
const SHORT_PREFIX: &[u8] = b"er::";
/// The kernel keeps that many bytes of a short name.
const SHORT_MAX: usize = 15;
/// Of a worker that waits for calls and is no actor.
const IDLE: &str = "IDLE";

static TITLE: LazyLock<Mutex<Title>> = LazyLock::new(|| Mutex::new(Title { area: area(), idle: IDLE.into() }));

struct Title {
    /// Where the arguments stand and how many bytes they take.
    area: Option<(usize, usize)>,
    idle: Box<str>,
}

/// Shows what this process runs now.
#[inline]
pub(crate) fn set(name: &str) {
    TITLE.lock().expect("never poisoned").write(name);
}

/// Shows that this process waits for calls.
pub(crate) fn set_idle() {
    let title = TITLE.lock().expect("never poisoned");
    title.write(&title.idle);
}

/// From now on an idle process shows this: an actor's class.
pub(crate) fn name_idle(name: &str) {
    TITLE.lock().expect("never poisoned").idle = name.into();
}

impl Title {
    fn write(&self, name: &str) {
        let Some((start, length)) = self.area else { return };
        // SAFETY: `area` found these bytes: they belong to this process as long as it lives, and are written here only, under a lock.
        let room = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, length) };
        // Two bytes are taken: the zero after the title and the last one.
        let name = cut(name, length - PREFIX.len() - 2);
        let (head, rest) = room.split_at_mut(PREFIX.len());
        if head == PREFIX && rest.starts_with(name) && rest[name.len()] == 0 {
            return;
        }
        head.copy_from_slice(PREFIX);
        rest[..name.len()].copy_from_slice(name);
        rest[name.len()] = 0;
        rest[rest.len() - 1] = b'.';
        let shown: Vec<u8> = SHORT_PREFIX.iter().chain(name).copied().take(SHORT_MAX).collect();
        if let Ok(shown) = std::ffi::CString::new(shown) {
            let _ = rustix::thread::set_name(&shown);
        }
    }
}

/// The longest beginning that fits, whole characters only, without a zero.
fn cut(name: &str, bytes_max: usize) -> &[u8] {
    let name = name.split('\0').next().unwrap_or("");
    let end = (0..=name.len().min(bytes_max)).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    &name.as_bytes()[..end]
}

/// The memory of the arguments, as the kernel knows it; none if it does not say or there is too little of it.
fn area() -> Option<(usize, usize)> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets and may hold anything; `arg_start` and `arg_end` are the 48th and 49th.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(45);
    let (start, end): (usize, usize) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let length = end.checked_sub(start)?;
    (start > 0 && length >= 32).then_some((start, length))
}
