//! The process that forks workers: starts it, asks it, believes what it says about deaths.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use model::{ProcId, Remains, Tick, WorkerExit};
use net::unix;
use rustix::event::epoll::EventFlags;
use rustix::net::{RecvFlags, SendFlags};
use wire::zygote::{DIED, FORK, FORK_FAILED, FORKED, KILL, PACKET_BYTES, Packet, UP};

use crate::NO_DESCRIPTORS;
use crate::conns::Conns;
use crate::looped::Node;
use crate::poll::{Poll, token};

/// It is waited for so much longer than it waits for its descendants.
const ZYGOTE_SLACK_MS: u64 = 1_000;

pub(crate) struct Zygote {
    poll: Poll,
    child: Option<Child>,
    socket: Option<OwnedFd>,
    pidfd: Option<OwnedFd>,
    is_up: bool,
    /// Whom it is to kill, where its socket had no room. It may wait for room in ours at that moment, so nobody waits for it.
    kills: VecDeque<i32>,
    is_waiting_to_write: bool,
    /// It died; when it is started again, and how often that failed.
    restart_at: Option<Tick>,
    failures: u32,
}

impl Zygote {
    pub(crate) fn new(poll: Poll) -> Self {
        Self {
            poll,
            child: None,
            socket: None,
            pidfd: None,
            is_up: false,
            kills: VecDeque::new(),
            is_waiting_to_write: false,
            restart_at: None,
            failures: 0,
        }
    }

    pub(crate) fn next_start(&self) -> Option<Tick> {
        self.restart_at
    }

    /// Somebody else answers for it: what it is asked comes out at the other end.
    #[cfg(test)]
    pub(crate) fn pretend(&mut self) -> OwnedFd {
        let (ours, theirs) = unix::packet_pair().expect("descriptors are there");
        self.socket = Some(ours);
        theirs
    }

    fn spawn(&mut self, options: &crate::Options) -> std::io::Result<()> {
        let (ours, theirs) = unix::packet_pair()?;
        let log = |name: &str| {
            std::fs::OpenOptions::new().create(true).append(true).open(options.session_dir.join("logs").join(name))
        };
        let child = Command::new(&options.zygote[0])
            .args(&options.zygote[1..])
            .envs(options.zygote_env.iter().cloned())
            .stdin(Stdio::from(theirs))
            .stdout(log("zygote.out")?)
            .stderr(log("zygote.err")?)
            .spawn()?;
        let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a pid is not zero");
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        self.poll.watch(ours.as_fd(), token::ZYGOTE)?;
        self.poll.watch(pidfd.as_fd(), token::ZYGOTE_PID)?;
        self.child = Some(child);
        self.socket = Some(ours);
        self.pidfd = Some(pidfd);
        (self.is_up, self.is_waiting_to_write) = (false, false);
        Ok(())
    }

    /// Asks for one more worker.
    pub(crate) fn fork(&mut self, id: ProcId, conns: &mut Conns) -> Result<(), Box<str>> {
        let Ok((ours, theirs)) = unix::pair() else { return Err(NO_DESCRIPTORS.into()) };
        let forked = conns.add(ours, Some(id)).and_then(|_| {
            let packet = Packet { kind: FORK, slot: id.slot(), pid: 0, status: id.epoch() as i32 };
            let socket = self.socket.as_ref()?;
            unix::send_some(socket, &packet.to_bytes(), &[theirs.as_fd()], SendFlags::DONTWAIT).ok()
        });
        forked.map(|_| ()).ok_or_else(|| "the node's launcher of workers is gone or busy".into())
    }

    pub(crate) fn kill(&mut self, pid: i32) {
        self.kills.push_back(pid);
        if self.kills.len() == 1 {
            self.send_kills();
        }
    }

    fn send_kills(&mut self) {
        let Self { kills, socket: Some(socket), is_waiting_to_write, .. } = self else {
            return self.kills.clear();
        };
        while let Some(pid) = kills.front().copied() {
            let packet = Packet { kind: KILL, slot: 0, pid, status: 0 };
            match unix::send_some(&*socket, &packet.to_bytes(), &[], SendFlags::DONTWAIT) {
                Err(rustix::io::Errno::AGAIN) => break,
                // Whatever else is wrong with it: its workers die with it.
                _ => drop(kills.pop_front()),
            }
        }
        if *is_waiting_to_write == kills.is_empty() {
            *is_waiting_to_write = !kills.is_empty();
            let want = if kills.is_empty() { EventFlags::IN } else { EventFlags::IN | EventFlags::OUT };
            self.poll.change(socket.as_fd(), token::ZYGOTE, want);
        }
    }
}

impl Node {
    /// Starts the zygote. It gets its socket as standard input and finds everything else in its arguments.
    pub(crate) fn start_zygote(&mut self) {
        self.machine.zygote.restart_at = None;
        if let Err(error) = self.machine.zygote.spawn(&self.machine.options) {
            self.zygote_failed(&format!("cannot start the worker launcher: {error}"));
        }
    }

    fn zygote_failed(&mut self, why: &str) {
        self.machine.zygote.failures += 1;
        let wait_ms = 100 << self.machine.zygote.failures.min(6);
        self.machine.zygote.restart_at = Some(net::clock::now().plus_ms(wait_ms));
        if self.machine.zygote.failures == 3 {
            let tail = self.machine.logs.tail("zygote.err");
            let text = format!("no worker can be started: {why}\n{tail}");
            self.step(|hub, step| hub.notice_all(step, "worker_not_started", &text));
        }
    }

    pub(crate) fn on_zygote(&mut self) {
        if !self.machine.zygote.kills.is_empty() {
            self.machine.zygote.send_kills();
        }
        loop {
            let Some(socket) = &self.machine.zygote.socket else { return };
            let mut bytes = [0; PACKET_BYTES];
            match unix::receive_some(socket, &mut bytes, &mut Vec::new(), RecvFlags::DONTWAIT) {
                Ok(PACKET_BYTES) => self.on_packet(Packet::from_bytes(bytes)),
                Ok(0) => {
                    // Its end is told by its pidfd; until then there is nothing more to read.
                    self.machine.poll.forget(socket);
                    return;
                }
                _ => return,
            }
        }
    }

    /// tour(retry) 1: a worker that runs a task is killed; the zygote's wait says so (NODE-2), whatever its socket does.
    fn on_packet(&mut self, packet: Packet) {
        match packet.kind {
            UP => {
                tracing::info!("workers can be forked");
                self.machine.zygote.is_up = true;
                self.machine.zygote.failures = 0;
            }
            FORKED => {
                let id = ProcId::checked(self.machine.options.number, packet.slot, packet.status as u32);
                let is_wanted = match id {
                    Some(id) => self.step(|hub, step| hub.worker_forked(step, id, packet.pid)),
                    None => false,
                };
                if is_wanted {
                    let entry = self.machine.shared.segment.proc(packet.slot);
                    entry.pid.store(packet.pid, std::sync::atomic::Ordering::Relaxed);
                }
            }
            FORK_FAILED => {
                let why = why_not_forked(packet.status);
                tracing::warn!("a worker could not be forked: {why}");
                if let Some(id) = self.hub.at_slot(packet.slot) {
                    self.step(|hub, step| hub.process_died(step, id, WorkerExit::NotStarted(why.into())));
                }
            }
            DIED => {
                if let Some(id) = self.hub.by_pid(packet.pid) {
                    self.hear(id);
                    let exit = self.exit_of(id, packet.pid, packet.status);
                    let exit = self.name_kernel_kill(exit);
                    self.step(|hub, step| hub.process_died(step, id, exit));
                }
            }
            _ => {}
        }
    }

    /// What a wait status says; for a fatal signal, with the Python stack that faulthandler wrote.
    fn exit_of(&self, id: ProcId, pid: i32, status: i32) -> WorkerExit {
        let mut remains = Remains { pid, has_output: self.machine.logs.has_output(id), ..Remains::default() };
        let signal = status & 0x7f;
        if signal == 0 {
            return WorkerExit::Code((status >> 8) & 0xff, remains);
        }
        remains.stack = self.machine.logs.crash_stack(id).into();
        WorkerExit::Signal(signal, remains)
    }

    /// The zygote is dead, and every worker with it (they are killed with their parent).
    pub(crate) fn on_zygote_died(&mut self) {
        self.on_zygote();
        let Some(mut child) = self.machine.zygote.child.take() else { return };
        let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        tracing::warn!("the process that workers are forked from has ended, and all workers with it: {how}");
        if let Some(pidfd) = self.machine.zygote.pidfd.take() {
            self.machine.poll.forget(pidfd);
        }
        self.machine.zygote.socket = None;
        let is_forked = |proc: &&hub::Proc| matches!(proc.kind(), hub::Kind::Starting | hub::Kind::Worker);
        let workers: Vec<(ProcId, i32)> =
            self.hub.procs().filter(is_forked).map(|proc| (proc.id(), proc.pid())).collect();
        self.zygote_failed(&format!("the worker launcher ended ({how})"));
        for (id, pid) in workers {
            let remains = Remains { pid, has_output: self.machine.logs.has_output(id), ..Remains::default() };
            self.step(|hub, step| hub.process_died(step, id, WorkerExit::Signal(9, remains)));
        }
    }

    /// NODE-3: ends everything this node started.
    pub(crate) fn end_all(mut self) {
        // Nobody comes in any more, and who has just knocked is told so.
        self.close_doors();
        // Drivers of other processes see the end of their streams.
        self.machine.zygote.socket = None;
        if let Some(mut child) = self.machine.zygote.child.take() {
            let is_worker = |proc: &&hub::Proc| matches!(proc.kind(), hub::Kind::Starting | hub::Kind::Worker);
            let patience_ms = crate::launcher::end_ms_max(self.hub.procs().filter(is_worker).count()) + ZYGOTE_SLACK_MS;
            let deadline = net::clock::now_ns() + Duration::from_millis(patience_ms).as_nanos() as u64;
            while matches!(child.try_wait(), Ok(None)) {
                if net::clock::now_ns() > deadline {
                    // Its workers die with it; what they have started would not.
                    if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
                        crate::family::kill_descendants(pid);
                    }
                    let _ = child.kill();
                    let _ = child.wait();
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        self.flush_logs();
        let options = &self.machine.options;
        crate::folders::remove(&options.session_dir, options.keep_session, &options.folders);
    }
}

/// What a fork failed for, and what to do about it.
fn why_not_forked(errno: i32) -> String {
    let what = match rustix::io::Errno::from_raw_os_error(errno) {
        rustix::io::Errno::AGAIN => {
            "this user or container may have no more processes (`ulimit -u`, or the container's limit of pids): "
        }
        rustix::io::Errno::NOMEM => "the system has no memory for one more process: ",
        _ => "",
    };
    format!("{what}{}", std::io::Error::from_raw_os_error(errno))
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::{AsFd, KILL, PACKET_BYTES, Packet, RecvFlags, token, unix, why_not_forked};
    use crate::tests::Bench;

    /// With hundreds of deaths at a time, each of the two waited for room in the other one's socket: for ever.
    #[test]
    fn a_launcher_that_reads_nothing_does_not_hold_up_its_node_and_hears_all_later() {
        const KILLS: i32 = 3_000;
        let (ours, theirs) = unix::packet_pair().unwrap();
        let mut bench = Bench::new();
        bench.node.machine.poll.watch(ours.as_fd(), token::ZYGOTE).unwrap();
        bench.node.machine.zygote.socket = Some(ours);
        (1..=KILLS).for_each(|pid| bench.node.machine.zygote.kill(pid));
        assert!(!bench.node.machine.zygote.kills.is_empty(), "the socket has room for all: this proves nothing");
        let mut killed = Vec::new();
        while !bench.node.machine.zygote.kills.is_empty() || killed.len() < KILLS as usize {
            let mut bytes = [0; PACKET_BYTES];
            while unix::receive_some(&theirs, &mut bytes, &mut Vec::new(), RecvFlags::DONTWAIT) == Ok(PACKET_BYTES) {
                let packet = Packet::from_bytes(bytes);
                assert_eq!(packet.kind, KILL);
                killed.push(packet.pid);
            }
            bench.node.on_zygote();
        }
        assert!(killed.into_iter().eq(1..=KILLS));
        assert!(!bench.node.machine.zygote.is_waiting_to_write, "it would be woken again and again");
    }

    #[test]
    fn what_a_machine_has_no_more_of_is_named() {
        assert!(
            why_not_forked(Errno::AGAIN.raw_os_error())
                .starts_with("this user or container may have no more processes")
        );
        assert!(why_not_forked(Errno::NOMEM.raw_os_error()).contains("memory for one more process"));
    }
}
