//! The zygote's own loop: it waits for fork requests, reaps workers and says how they ended, and goes last.
//!
//! Runs in a single-threaded process that the node started by exec. When the node is gone it kills every descendant, also those that
//! users' code started in sessions of their own (it is their subreaper), and removes the session's folder.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use net::unix;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions};
use wire::zygote::{DIED, FORK, FORK_FAILED, FORKED, KILL, PACKET_BYTES, Packet, UP};

/// How long descendants may take to be gone, and how much longer for each of them: to take a process apart takes the system some
/// milliseconds.
const END_MS_MAX: u64 = 4_000;
const END_MS_EACH: u64 = 10;

/// How long so many workers, and what they have started, may take to be gone.
pub(crate) fn end_ms_max(workers: usize) -> u64 {
    END_MS_MAX + END_MS_EACH * workers as u64
}

/// The zygote's ends of everything.
pub struct Launcher {
    socket: OwnedFd,
    node: OwnedFd,
    children: OwnedFd,
    session_dir: PathBuf,
    keep_session: bool,
    /// Whoever has the session's folder locked keeps it from being tidied up.
    _held: Option<OwnedFd>,
}

/// What the zygote does next.
pub enum Next {
    /// Fork; the child joins through this socket.
    Fork {
        /// The worker's slot.
        slot: u16,
        /// The slot's epoch.
        epoch: u32,
        /// The worker's control socket.
        socket: OwnedFd,
    },
    /// The node is gone and so is everything it started.
    Exit,
}

impl Launcher {
    /// Takes over: `socket` leads to the node, which runs in process `node_pid`; `children` becomes readable when a child ends.
    ///
    /// # Errors
    /// If the node is gone already; then so is the session's folder, which nobody else would remove.
    pub fn new(
        socket: OwnedFd,
        node_pid: i32,
        children: OwnedFd,
        session_dir: PathBuf,
        keep_session: bool,
    ) -> rustix::io::Result<Self> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let node_pid = Pid::from_raw(node_pid).ok_or(rustix::io::Errno::SRCH)?;
        let node = rustix::process::pidfd_open(node_pid, PidfdFlags::empty());
        if node.is_err() {
            crate::folders::remove(&session_dir, keep_session, &[]);
        }
        let node = node?;
        let _held = crate::folders::hold(&session_dir);
        let launcher = Self { socket, node, children, session_dir, keep_session, _held };
        launcher.say(Packet { kind: UP, slot: 0, pid: 0, status: 0 });
        Ok(launcher)
    }

    fn say(&self, packet: Packet) {
        let _ = unix::send_some(&self.socket, &packet.to_bytes(), &[], SendFlags::empty());
    }

    /// Waits for something to do, reaping on the way.
    pub fn next(&self) -> Next {
        loop {
            let mut fds = [
                PollFd::new(&self.socket, PollFlags::IN),
                PollFd::new(&self.node, PollFlags::IN),
                PollFd::new(&self.children, PollFlags::IN),
            ];
            if poll(&mut fds, None).is_err() {
                continue;
            }
            let (from_node, node_gone, child_died) =
                (fds[0].revents(), !fds[1].revents().is_empty(), !fds[2].revents().is_empty());
            if child_died {
                let mut drained = [0; 256];
                let _ = rustix::io::read(&self.children, &mut drained);
                self.reap();
            }
            if !from_node.is_empty() {
                let mut bytes = [0; PACKET_BYTES];
                let mut passed = Vec::new();
                match unix::receive_some(&self.socket, &mut bytes, &mut passed, RecvFlags::DONTWAIT) {
                    Ok(PACKET_BYTES) => {
                        if let Some(next) = self.on_packet(Packet::from_bytes(bytes), passed) {
                            return next;
                        }
                    }
                    Err(rustix::io::Errno::AGAIN) => {}
                    _ => return self.end(),
                }
            } else if node_gone {
                return self.end();
            }
        }
    }

    fn on_packet(&self, packet: Packet, mut passed: Vec<OwnedFd>) -> Option<Next> {
        match packet.kind {
            FORK => passed.pop().map(|socket| Next::Fork { slot: packet.slot, epoch: packet.status as u32, socket }),
            KILL => {
                if let Some(pid) = Pid::from_raw(packet.pid).filter(|pid| is_child(*pid)) {
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                }
                None
            }
            _ => None,
        }
    }

    /// The fork made this child.
    pub fn forked(&self, slot: u16, epoch: u32, pid: i32) {
        self.say(Packet { kind: FORKED, slot, pid, status: epoch as i32 });
    }

    /// The fork failed.
    pub fn fork_failed(&self, slot: u16, errno: i32) {
        self.say(Packet { kind: FORK_FAILED, slot, pid: 0, status: errno });
    }

    fn reap(&self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let status = status.as_raw();
            self.say(Packet { kind: DIED, slot: 0, pid: pid.as_raw_nonzero().get(), status });
        }
    }

    /// Kills every descendant until none is left. Orphans become our children, so that none is missed; but a worker with much memory, or
    /// on a machine that stands still, may take longer to go than there is time, and nobody would kill what it has started after that.
    fn end(&self) -> Next {
        let start = net::clock::now();
        let limit_ms = end_ms_max(crate::family::children_of(rustix::process::getpid()).len());
        loop {
            crate::family::kill_descendants(rustix::process::getpid());
            // The list leaves children out while others end. That there are none is what `wait` says, and nothing else.
            let waited = loop {
                match rustix::process::wait(WaitOptions::NOHANG) {
                    Ok(Some(_)) => {}
                    other => break other,
                }
            };
            let are_gone = waited.is_err_and(|errno| errno == rustix::io::Errno::CHILD);
            if are_gone || net::clock::now().ms_since(start) >= limit_ms {
                break;
            }
            // What it says is known; left unread it would make this loop spin.
            let _ = rustix::io::read(&self.children, &mut [0; 256]);
            let mut fds = [PollFd::new(&self.children, PollFlags::IN)];
            let tick = rustix::event::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            let _ = poll(&mut fds, Some(&tick));
        }
        crate::folders::remove(&self.session_dir, self.keep_session, &[]);
        Next::Exit
    }
}

/// Whether this is a child that was not waited for yet: until then its number is nobody else's.
fn is_child(pid: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    rustix::process::waitid(WaitId::Pid(pid), look).is_ok()
}

/// Makes this process die with its parent. For workers: called right after the fork.
pub fn die_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
}

/// The descriptor of a socket handed over as standard input; standard input itself becomes nothing.
///
/// # Errors
/// If standard input is no descriptor.
pub fn socket_from_stdin() -> std::io::Result<OwnedFd> {
    let socket = rustix::io::fcntl_dupfd_cloexec(std::io::stdin().as_fd(), 3)?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::{KILL, Launcher, Packet, Pid, PidfdFlags, unix};

    fn launcher() -> Launcher {
        let (socket, children) = unix::packet_pair().unwrap();
        let node = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).unwrap();
        Launcher { socket, node, children, session_dir: "/nowhere".into(), keep_session: true, _held: None }
    }

    fn kill(launcher: &Launcher, pid: i32) {
        assert!(launcher.on_packet(Packet { kind: KILL, slot: 0, pid, status: 0 }, Vec::new()).is_none());
    }

    /// A worker that was waited for leaves its number to any process of the machine: a late order killed that one.
    #[test]
    fn only_a_child_is_killed() {
        let launcher = launcher();
        let mut shell =
            Command::new("sh").args(["-c", "sleep 60 & echo $!; wait"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 16];
        let length = shell.stdout.as_mut().unwrap().read(&mut said).unwrap();
        let stranger: i32 = std::str::from_utf8(&said[..length]).unwrap().trim().parse().unwrap();
        let pid = Pid::from_raw(stranger).unwrap();
        kill(&launcher, stranger);
        std::thread::sleep(std::time::Duration::from_millis(50));
        let state = std::fs::read_to_string(format!("/proc/{stranger}/stat")).unwrap();
        assert!(!state.contains(") Z"), "it is no child of ours: {state}");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        kill(&launcher, shell.id() as i32);
        shell.wait().unwrap();
    }
}
