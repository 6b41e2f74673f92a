//! Measures memory, and ends workers when the machine runs low; `scheduler::Watch` decides whom and when.
//!
//! Nothing is measured while no worker works.

use std::path::{Path, PathBuf};

use model::{ProcId, Remains, Tick, WorkerExit};
use scheduler::{Busy, Look, Relief, Watch, Work};
use wire::control::FromNode;

use hub::Kind;

use crate::looped::Node;

/// Processes that a report names.
const NAMED_MAX: usize = 10;
const GB: f64 = 1e9;

/// How memory is watched.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// Share of the memory that may be used.
    pub threshold: f64,
    /// How often it is looked at; zero: never.
    pub refresh_ms: u64,
    /// How often a task that was killed for want of memory is run again; below zero: any number of times.
    pub task_retries: i32,
    /// Read instead of what the system says, in tests: a file like `/proc/meminfo`.
    pub meminfo: Option<PathBuf>,
}

pub(crate) struct Memory {
    watch: Watch,
    look_at: Tick,
    is_low: bool,
    killed: u32,
    /// Kills by the kernel for want of memory that are known of.
    kernel_kills: u64,
}

impl Memory {
    pub(crate) fn new(options: &MemoryOptions) -> Self {
        let watch = Watch::new(options.threshold);
        Self { watch, look_at: Tick::default(), is_low: false, killed: 0, kernel_kills: kernel_kills() }
    }
}

/// How much is used, of how much.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    used: u64,
    total: u64,
}

impl Reading {
    fn share(self) -> f64 {
        self.used as f64 / self.total.max(1) as f64
    }
}

/// No round of requests for room has this number: nobody waits for the answers.
const UNASKED: u64 = 0;
/// What each process moves to disk at a time.
const MOVED_BYTES: u64 = 256 << 20;

impl Node {
    pub(crate) fn next_memory_look(&self) -> Option<Tick> {
        let is_watched =
            self.machine.options.memory.refresh_ms > 0 && (self.memory.is_low || !self.hub.scheduler().is_at_rest());
        is_watched.then_some(self.memory.look_at)
    }

    pub(crate) fn look_at_memory(&mut self, now: Tick) {
        if self.next_memory_look().is_none_or(|at| at > now) {
            return;
        }
        self.memory.look_at = now.plus_ms(self.machine.options.memory.refresh_ms);
        let Some(reading) = read(self.machine.options.memory.meminfo.as_deref()) else { return };
        let stalled_percent = if self.machine.options.memory.meminfo.is_none() { stalled_percent() } else { None };
        let busy = self.busy_workers();
        let look = Look { used: reading.used, total: reading.total, stalled_percent, busy: &busy };
        let verdict = self.memory.watch.look(&look);
        if verdict.is_low != self.memory.is_low {
            self.memory.is_low = verdict.is_low;
            self.step(|hub, step| hub.pressure_changed(step, verdict.is_low));
        }
        match verdict.relief {
            Relief::Nothing => {}
            Relief::MakeRoom => self.make_room(),
            Relief::Kill { worker, is_alone } => self.kill_for_memory(worker, is_alone, reading),
        }
    }

    /// The store's processes give back what they do not use and move some of what they own to disk; what is free then goes back to the system.
    fn make_room(&mut self) {
        for process in self.hub.procs().filter(|proc| proc.hears()).map(hub::Proc::id) {
            self.machine.conns.tell(process, &FromNode::GiveBackRoom { round: UNASKED, bytes: MOVED_BYTES });
        }
        self.machine.shared.host.cool();
    }

    /// Workers that do something, in the order of their leases.
    fn busy_workers(&self) -> Vec<Busy> {
        let mut leased: Vec<_> = self.hub.scheduler().granted().collect();
        leased.sort_by_key(|(_, worker)| self.hub.proc(*worker).map_or_else(Tick::default, hub::Proc::assigned_at));
        let busy = |(lease, worker): (model::LeaseId, ProcId)| {
            let (number, duty) = self.machine.shared.segment.proc(worker.slot()).duty();
            let work = match duty {
                _ if self.hub.is_of_actor(&lease) => Work::Actor,
                net::Duty::Idle => return None,
                net::Duty::Retriable => Work::Retriable,
                net::Duty::Final => Work::Final,
            };
            self.hub.proc(worker).is_some_and(|proc| *proc.kind() == Kind::Worker).then_some(Busy {
                worker,
                work,
                number,
            })
        };
        leased.into_iter().filter_map(busy).collect()
    }

    fn kill_for_memory(&mut self, worker: ProcId, is_alone: bool, reading: Reading) {
        tracing::warn!(process = %worker, used = reading.used, total = reading.total, "memory is low: a worker is killed");
        let Some(pid) = self.hub.proc(worker).map(hub::Proc::pid) else { return };
        self.memory.killed += 1;
        let report = self.memory_report(worker, pid, reading);
        let verdict = WorkerExit::OutOfMemory { report: report.into(), is_alone };
        self.step(|hub, step| hub.kill_worker(step, worker, verdict));
    }

    fn memory_report(&self, worker: ProcId, pid: i32, reading: Reading) -> String {
        let label = self.machine.shared.segment.proc(worker.slot()).label();
        let killed = self.memory.killed;
        let mut report = format!(
            "Memory on the node (IP: 127.0.0.1, ID: {}) where {label} (pid={pid}, using {:.2} GB) ran was {:.2} GB / {:.2} GB \
             ({:.4}), which exceeds the memory usage threshold of {}. {killed} worker(s) were killed due to the node running low on \
             memory.\nThe {NAMED_MAX} largest processes, by memory of their own:\nPID\tMEM(GB)\tCOMMAND",
            self.machine.options.id,
            own_bytes(pid).unwrap_or(0) as f64 / GB,
            reading.used as f64 / GB,
            reading.total as f64 / GB,
            reading.share(),
            self.machine.options.memory.threshold,
        );
        for (bytes, pid, command) in largest() {
            report.push_str(&format!("\n{pid}\t{:.2}\t{command}", bytes as f64 / GB));
        }
        report.push_str(
            "\nGive tasks fewer CPUs to run on, or let each ask for the memory it needs (memory=...), so that fewer run at once. \
             RAY_memory_usage_threshold and RAY_memory_monitor_refresh_ms change the rule; 0 for the latter turns it off.",
        );
        report
    }

    /// What ended a worker that got a SIGKILL from somebody: the kernel, if it has killed for want of memory since.
    pub(crate) fn name_kernel_kill(&mut self, exit: WorkerExit) -> WorkerExit {
        if !matches!(exit, WorkerExit::Signal(9, _)) {
            return exit;
        }
        let kills = kernel_kills();
        let is_kernel = kills > std::mem::replace(&mut self.memory.kernel_kills, kills);
        if is_kernel { by_kernel(exit) } else { exit }
    }
}

fn by_kernel(exit: WorkerExit) -> WorkerExit {
    let WorkerExit::Signal(signal, remains) = exit else { return exit };
    let guess = "The kernel's out-of-memory killer ended a process of this machine or container at that time: it was most likely this \
                one.";
    WorkerExit::Signal(signal, Remains { guess: guess.into(), ..remains })
}

/// What is used of what there is: of the machine or of the container, whichever is nearer to its end.
fn read(meminfo: Option<&Path>) -> Option<Reading> {
    let text = std::fs::read_to_string(meminfo.unwrap_or_else(|| Path::new("/proc/meminfo"))).ok()?;
    let machine = parse_meminfo(&text)?;
    let container = if meminfo.is_none() { read_cgroup() } else { None };
    let container = container.filter(|reading| reading.total < machine.total && reading.share() > machine.share());
    Some(container.unwrap_or(machine))
}

fn parse_meminfo(text: &str) -> Option<Reading> {
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
    };
    let (total, available) = (bytes("MemTotal:")?, bytes("MemAvailable:")?);
    Some(Reading { used: total.saturating_sub(available), total })
}

/// The limit of the control group that this process is in, where it has one: version 2, else 1.
fn read_cgroup() -> Option<Reading> {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let reading = |used: &str, limit: &str, stat: &str, cache: &str| {
        // The kernel gives the page cache back before it lets anyone starve.
        let text = std::fs::read_to_string(stat).ok()?;
        let cached = text.lines().find_map(|line| line.strip_prefix(cache)?.trim().parse::<u64>().ok()).unwrap_or(0);
        Some(Reading { used: number(used)?.saturating_sub(cached), total: number(limit)? })
    };
    let v2 = "/sys/fs/cgroup";
    let v1 = "/sys/fs/cgroup/memory";
    reading(
        &format!("{v2}/memory.current"),
        &format!("{v2}/memory.max"),
        &format!("{v2}/memory.stat"),
        "inactive_file ",
    )
    .or_else(|| {
        reading(
            &format!("{v1}/memory.usage_in_bytes"),
            &format!("{v1}/memory.limit_in_bytes"),
            &format!("{v1}/memory.stat"),
            "total_inactive_file ",
        )
    })
}

/// Percent of the last ten seconds in which all programs waited for memory, where the kernel counts that.
fn stalled_percent() -> Option<f64> {
    parse_pressure(&std::fs::read_to_string("/proc/pressure/memory").ok()?)
}

fn parse_pressure(text: &str) -> Option<f64> {
    let full = text.lines().find_map(|line| line.strip_prefix("full "))?;
    full.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
}

/// How often the kernel has killed for want of memory, as far as this process can see.
fn kernel_kills() -> u64 {
    let files = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control", "/proc/vmstat"];
    let count = |path: &&str| parse_kills(&std::fs::read_to_string(path).ok()?);
    files.iter().filter_map(count).sum()
}

fn parse_kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// Memory that a process shares with nobody, nearly: pages of files and of shared memory are left out.
pub(crate) fn own_bytes(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut pages = text.split_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// The processes that use most: bytes, pid, command.
fn largest() -> Vec<(u64, i32, String)> {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut found: Vec<(u64, i32)> = pids.filter_map(|pid| Some((own_bytes(pid)?, pid))).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.truncate(NAMED_MAX);
    found.into_iter().map(|(bytes, pid)| (bytes, pid, command(pid))).collect()
}

fn command(pid: i32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    line.trim().chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_use_is_what_is_not_available() {
        let text = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    250 kB\n";
        assert_eq!(parse_meminfo(text), Some(Reading { used: 750 * 1024, total: 1000 * 1024 }));
        assert_eq!(parse_meminfo("MemTotal: 1000 kB\n"), None);
    }

    #[test]
    fn stalls_and_kills_are_read_where_the_kernel_counts_them() {
        let text = "some avg10=1.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=12.50 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(parse_pressure(text), Some(12.5));
        assert_eq!(parse_kills("low 0\noom 3\noom_kill 2\noom_group_kill 0\n"), Some(2));
        assert_eq!(parse_kills("nr_free_pages 1\n"), None);
    }

    #[test]
    fn a_kill_by_the_kernel_is_named_as_such() {
        let text = by_kernel(WorkerExit::Signal(9, model::Remains::default())).to_string();
        assert!(text.starts_with("signal 9 (SIGKILL)\nThe kernel's out-of-memory killer"), "{text}");
    }

    #[test]
    fn this_machine_and_this_process_can_be_measured() {
        let reading = read(None).unwrap();
        assert!(reading.used > 0 && reading.used < reading.total, "{reading:?}");
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        assert!(own_bytes(pid).unwrap() > 0 && own_bytes(0).is_none());
        assert!(largest().len() <= NAMED_MAX && !largest().is_empty());
    }
}
