//! A node and its processes, as small as a test needs them.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::{Client, Extent, Host, Place, View};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;

pub fn attach(host: &Host, slot: u16) -> Client {
    let (data, table) = (host.data_fd().try_clone_to_owned(), host.table_fd().try_clone_to_owned());
    Client::attach(data.unwrap(), table.unwrap(), slot).unwrap()
}

/// A client that holds one extent.
pub fn attach_with(host: &mut Host, slot: u16, length: u64) -> (Client, Extent) {
    let client = attach(host, slot);
    let extent = host.grant(slot, length).unwrap();
    client.add_extent(extent).unwrap();
    (client, extent)
}

pub fn put(client: &Client, length: u64, fill: u8) -> Place {
    let mut reservation = client.reserve(length).unwrap();
    reservation.as_mut_slice().fill(fill);
    reservation.seal()
}

pub fn holds(view: &View, length: u64, fill: u8) -> bool {
    view.len() as u64 == length && view.iter().all(|&byte| byte == fill)
}

/// Tests that fork run one at a time: a child must not inherit a lock that another test holds, nor its links.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A forked process that has run up to the point where it says so.
pub struct Child {
    /// 0 once it has been waited for.
    pid: i32,
    link: UnixStream,
}

/// Forks. The child runs `work`, to which it gives its end of a link, and exits with 0, or with 101 if it panics.
pub fn fork(work: impl FnOnce(&mut UnixStream)) -> Child {
    let (link, mut childs_end) = UnixStream::pair().unwrap();
    // SAFETY: glibc makes malloc usable in the child; the child takes no lock that another thread may have held, and
    // leaves by _exit, without running the test harness's own clean-up.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        // Its own copy of our end would keep it from hearing that we are gone.
        drop(link);
        let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a plain system call with a pointer to a live struct.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &no_core) };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut childs_end)));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if ended.is_ok() { 0 } else { 101 }) };
    }
    Child { pid, link }
}

impl Child {
    /// Waits for twenty-four bytes from the child: a place, or whatever it wants to say.
    pub fn hears(&mut self) -> Place {
        let mut bytes = [0; 24];
        self.link.read_exact(&mut bytes).expect("the child speaks before it ends");
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        Place { offset: word(0), length: word(8), serial: word(16) }
    }

    pub fn tell(&mut self) {
        self.link.write_all(&[0]).unwrap();
    }

    pub fn kill(self) -> Ended {
        // SAFETY: the pid is a child of ours that has not been waited for.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        self.wait()
    }

    pub fn wait(mut self) -> Ended {
        let pid = std::mem::take(&mut self.pid);
        let mut status = 0;
        // SAFETY: as above, with a pointer to a live integer.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        if libc::WIFSIGNALED(status) {
            Ended::Signal(libc::WTERMSIG(status))
        } else {
            Ended::Code(libc::WEXITSTATUS(status))
        }
    }
}

/// A test that fails leaves no child behind.
impl Drop for Child {
    fn drop(&mut self) {
        if self.pid != 0 {
            // SAFETY: the pid is a child of ours that has not been waited for.
            unsafe {
                libc::kill(self.pid, libc::SIGKILL);
                libc::waitpid(self.pid, std::ptr::null_mut(), 0);
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    Signal(i32),
}

/// In the child: says twenty-four bytes.
pub fn say(link: &mut UnixStream, place: Place) {
    link.write_all(&place.offset.to_le_bytes()).unwrap();
    link.write_all(&place.length.to_le_bytes()).unwrap();
    link.write_all(&place.serial.to_le_bytes()).unwrap();
}

/// In the child: waits to be told to go on, or to be killed.
pub fn listen(link: &mut UnixStream) {
    let _ = link.read_exact(&mut [0]);
}
