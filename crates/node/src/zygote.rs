//! The process that forks workers: starts it, asks it, believes what it says about deaths.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use model::{ProcId, Remains, Tick, WorkerExit};
use net::unix;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{RecvFlags, SendFlags};
use wire::zygote::{DIED, FORK, FORK_FAILED, FORKED, KILL, PACKET_BYTES, Packet, UP};

use crate::NO_DESCRIPTORS;
use crate::looped::{Node, token};
use crate::procs::Kind;

/// It is waited for so much longer than it waits for its descendants.
const ZYGOTE_SLACK_MS: u64 = 1_000;

#[derive(Default)]
pub(crate) struct Zygote {
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
    pub(crate) fn next_start(&self) -> Option<Tick> {
        self.restart_at
    }
}

impl Node {
    /// Starts the zygote. It gets its socket as standard input and finds everything else in its arguments.
    pub(crate) fn start_zygote(&mut self) {
        self.zygote.restart_at = None;
        if let Err(error) = self.spawn_zygote() {
            self.zygote_failed(&format!("cannot start the worker launcher: {error}"));
        }
    }

    fn spawn_zygote(&mut self) -> std::io::Result<()> {
        let (ours, theirs) = unix::packet_pair()?;
        let log = |name: &str| {
            std::fs::OpenOptions::new().create(true).append(true).open(self.options.session_dir.join("logs").join(name))
        };
        let child = Command::new(&self.options.zygote[0])
            .args(&self.options.zygote[1..])
            .envs(self.options.zygote_env.iter().cloned())
            .stdin(Stdio::from(theirs))
            .stdout(log("zygote.out")?)
            .stderr(log("zygote.err")?)
            .spawn()?;
        let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a pid is not zero");
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        self.watch(ours.as_fd(), token::ZYGOTE)?;
        self.watch(pidfd.as_fd(), token::ZYGOTE_PID)?;
        self.zygote.child = Some(child);
        self.zygote.socket = Some(ours);
        self.zygote.pidfd = Some(pidfd);
        (self.zygote.is_up, self.zygote.is_waiting_to_write) = (false, false);
        Ok(())
    }

    fn zygote_failed(&mut self, why: &str) {
        self.zygote.failures += 1;
        let wait_ms = 100 << self.zygote.failures.min(6);
        self.zygote.restart_at = Some(net::clock::now().plus_ms(wait_ms));
        if self.zygote.failures == 3 {
            let tail = self.logs.tail("zygote.err");
            let text = format!("no worker can be started: {why}\n{tail}");
            self.notice_all("worker_not_started", &text);
        }
    }

    /// Asks for one more worker.
    pub(crate) fn fork_worker(&mut self) {
        let Some(id) = self.add_proc(0, Kind::Starting) else {
            return self.schedule(scheduler::Event::WorkerNotStarted);
        };
        let Ok((ours, theirs)) = unix::pair() else {
            return self.process_died(id, WorkerExit::NotStarted(NO_DESCRIPTORS.into()));
        };
        let forked = self.add_conn_at(ours, Some(id)).and_then(|at| {
            self.procs.get_mut(id)?.conn = Some(at);
            let packet = Packet { kind: FORK, slot: id.slot(), pid: 0, status: id.epoch() as i32 };
            let socket = self.zygote.socket.as_ref()?;
            unix::send_some(socket, &packet.to_bytes(), &[theirs.as_fd()], SendFlags::DONTWAIT).ok()
        });
        if forked.is_none() {
            self.process_died(id, WorkerExit::NotStarted("the node's launcher of workers is gone or busy".into()));
        }
    }

    pub(crate) fn zygote_kill(&mut self, pid: i32) {
        self.zygote.kills.push_back(pid);
        if self.zygote.kills.len() == 1 {
            self.send_kills();
        }
    }

    fn send_kills(&mut self) {
        let Zygote { kills, socket: Some(socket), is_waiting_to_write, .. } = &mut self.zygote else {
            return self.zygote.kills.clear();
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
            let _ = epoll::modify(&self.epoll, &*socket, EventData::new_u64(token::ZYGOTE), want);
        }
    }

    pub(crate) fn on_zygote(&mut self) {
        if !self.zygote.kills.is_empty() {
            self.send_kills();
        }
        loop {
            let Some(socket) = &self.zygote.socket else { return };
            let mut bytes = [0; PACKET_BYTES];
            match unix::receive_some(socket, &mut bytes, &mut Vec::new(), RecvFlags::DONTWAIT) {
                Ok(PACKET_BYTES) => self.on_packet(Packet::from_bytes(bytes)),
                Ok(0) => {
                    // Its end is told by its pidfd; until then there is nothing more to read.
                    let _ = rustix::event::epoll::delete(&self.epoll, socket);
                    return;
                }
                _ => return,
            }
        }
    }

    fn on_packet(&mut self, packet: Packet) {
        match packet.kind {
            UP => {
                tracing::info!("workers can be forked");
                self.zygote.is_up = true;
                self.zygote.failures = 0;
            }
            FORKED => {
                let epoch = packet.status as u32;
                let id = ProcId::checked(self.options.number, packet.slot, epoch);
                if let Some(proc) = id.and_then(|id| self.procs.get_mut(id)) {
                    proc.pid = packet.pid;
                    let is_unwanted = proc.ending.is_some();
                    self.segment.proc(packet.slot).pid.store(packet.pid, std::sync::atomic::Ordering::Relaxed);
                    if is_unwanted {
                        self.zygote_kill(packet.pid);
                    }
                } else {
                    self.zygote_kill(packet.pid);
                }
            }
            FORK_FAILED => {
                let why = why_not_forked(packet.status);
                tracing::warn!("a worker could not be forked: {why}");
                if let Some(id) = self.procs.at_slot(packet.slot).map(|proc| proc.id) {
                    self.process_died(id, WorkerExit::NotStarted(why.into()));
                }
            }
            DIED => {
                if let Some(id) = self.procs.by_pid(packet.pid) {
                    self.hear(id);
                    let exit = self.exit_of(id, packet.pid, packet.status);
                    let exit = self.name_kernel_kill(exit);
                    self.process_died(id, exit);
                }
            }
            _ => {}
        }
    }

    /// What a wait status says; for a fatal signal, with the Python stack that faulthandler wrote.
    fn exit_of(&self, id: ProcId, pid: i32, status: i32) -> WorkerExit {
        let mut remains = Remains { pid, has_output: self.logs.has_output(id), ..Remains::default() };
        let signal = status & 0x7f;
        if signal == 0 {
            return WorkerExit::Code((status >> 8) & 0xff, remains);
        }
        remains.stack = self.logs.crash_stack(id).into();
        WorkerExit::Signal(signal, remains)
    }

    /// The zygote is dead, and every worker with it (they are killed with their parent).
    pub(crate) fn on_zygote_died(&mut self) {
        self.on_zygote();
        let Some(mut child) = self.zygote.child.take() else { return };
        let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        tracing::warn!("the process that workers are forked from has ended, and all workers with it: {how}");
        if let Some(pidfd) = self.zygote.pidfd.take() {
            let _ = rustix::event::epoll::delete(&self.epoll, pidfd);
        }
        self.zygote.socket = None;
        self.zygote.kills.clear();
        let workers: Vec<ProcId> = self
            .procs
            .iter()
            .filter(|proc| !matches!(proc.kind, Kind::Driver { .. } | Kind::Keeper))
            .map(|proc| proc.id)
            .collect();
        self.zygote_failed(&format!("the worker launcher ended ({how})"));
        for id in workers {
            let pid = self.procs.get(id).map_or(0, |proc| proc.pid);
            let remains = Remains { pid, has_output: self.logs.has_output(id), ..Remains::default() };
            self.process_died(id, WorkerExit::Signal(9, remains));
        }
    }

    /// NODE-3: ends everything this node started.
    pub(crate) fn end_all(mut self) {
        // Nobody comes in any more, and who has just knocked is told so.
        self.listener = None;
        if let Some(path) = &self.options.listen {
            let _ = std::fs::remove_file(path);
        }
        // Drivers of other processes see the end of their streams.
        self.zygote.socket = None;
        if let Some(mut child) = self.zygote.child.take() {
            let workers = self.procs.iter().filter(|proc| matches!(proc.kind, Kind::Starting | Kind::Worker)).count();
            let patience_ms = crate::launcher::end_ms_max(workers) + ZYGOTE_SLACK_MS;
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
        crate::folders::remove(&self.options.session_dir, self.options.keep_session, &self.options.folders);
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
        bench.node.watch(ours.as_fd(), token::ZYGOTE).unwrap();
        bench.node.zygote.socket = Some(ours);
        (1..=KILLS).for_each(|pid| bench.node.zygote_kill(pid));
        assert!(!bench.node.zygote.kills.is_empty(), "the socket has room for all: this proves nothing");
        let mut killed = Vec::new();
        while !bench.node.zygote.kills.is_empty() || killed.len() < KILLS as usize {
            let mut bytes = [0; PACKET_BYTES];
            while unix::receive_some(&theirs, &mut bytes, &mut Vec::new(), RecvFlags::DONTWAIT) == Ok(PACKET_BYTES) {
                let packet = Packet::from_bytes(bytes);
                assert_eq!(packet.kind, KILL);
                killed.push(packet.pid);
            }
            bench.node.on_zygote();
        }
        assert!(killed.into_iter().eq(1..=KILLS));
        assert!(!bench.node.zygote.is_waiting_to_write, "it would be woken again and again");
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
