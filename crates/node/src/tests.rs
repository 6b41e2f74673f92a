//! The node without its loop: messages in, messages and tables out.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hub::Kind;
use model::{FunctionId, JobId, Need, NodeId, ProcId, Resources};
use net::unix::{self, Inbox};
use wire::control::{FromNode, Hello, Question, Role, ToNode};
use wire::waits::{Awaited, LeaseReason, WaitRecord};

use crate::Options;
use crate::looped::Node;

const STORE_BYTES: u64 = 32 << 20;
const F: FunctionId = FunctionId([1; 16]);

pub(crate) struct Bench {
    pub(crate) node: Node,
    pub(crate) dir: PathBuf,
    /// What the zygote is asked.
    forks: OwnedFd,
    leases: u64,
}

pub(crate) struct Driver {
    socket: OwnedFd,
    inbox: Inbox,
    pub(crate) conn: usize,
    pub(crate) job: JobId,
}

pub(crate) fn options(dir: &std::path::Path, workers_max: u32) -> Options {
    Options {
        total: Resources::cpus(2),
        gpu_names: Vec::new(),
        store_bytes: STORE_BYTES,
        folders: Vec::new(),
        folders_full_at: 1_000,
        cores: 2,
        python: "3".into(),
        zygote: Vec::new(),
        zygote_env: Vec::new(),
        session_dir: dir.to_path_buf(),
        listen: None,
        must_listen: false,
        prestart: 0,
        idle_ms_max: 1_000,
        workers_max,
        rings_max: net::segment::RINGS_MAX,
        link_idle_ms_max: 60_000,
        grace_ms_max: 1_000,
        lineage_bytes_max: 1 << 30,
        memory: crate::MemoryOptions { threshold: 0.95, refresh_ms: 0, task_retries: -1, meminfo: None },
        keeper: None,
        keep_session: false,
        number: 1,
        id: NodeId([7; 28]),
        cluster: None,
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_workers_max(1_000)
    }

    fn with_workers_max(workers_max: u32) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("eagleray-node-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        let options = options(&dir, workers_max);
        let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let mut node = Node::new(options, wake, Arc::default(), Arc::default()).unwrap();
        let forks = node.machine.zygote.pretend();
        Self { node, dir, forks, leases: 0 }
    }

    /// A worker that this driver has a lease of.
    pub(crate) fn lease(&mut self, driver: &Driver) -> ProcId {
        self.leases += 1;
        let need = Need::same(Resources::default());
        self.says(driver, ToNode::RequestLease { number: self.leases, job: driver.job, need, name: "f".into() });
        let mut packet = [0; wire::zygote::PACKET_BYTES];
        unix::receive_some(&self.forks, &mut packet, &mut Vec::new(), rustix::net::RecvFlags::DONTWAIT).unwrap();
        let id = self.node.hub.procs().find(|proc| *proc.kind() == Kind::Starting).unwrap().id();
        let pid = 1_000_000 + i32::from(id.slot());
        self.node.step(|hub, step| {
            assert!(hub.worker_forked(step, id, pid));
            hub.worker_joined(step, id, pid);
        });
        assert_eq!(self.node.hub.proc(id).unwrap().job(), driver.job);
        id
    }

    pub(crate) fn join(&mut self) -> Driver {
        let (socket, theirs) = unix::pair().unwrap();
        let conn = self.node.machine.conns.add(theirs, None).unwrap();
        let role = Role::Driver { namespace: "".into(), surroundings: wire::Surroundings::default(), logs: true };
        let pid = std::process::id() as i32;
        self.node.on_message(conn, ToNode::Hello(Hello { protocol: wire::PROTOCOL, python: "3".into(), pid, role }));
        let id = self.node.machine.conns.who(conn).unwrap();
        let job = self.node.hub.proc(id).unwrap().job();
        let mut driver = Driver { socket, inbox: Inbox::default(), conn, job };
        assert!(matches!(driver.heard()[..], [FromNode::Welcome(_)]));
        driver
    }

    pub(crate) fn says(&mut self, driver: &Driver, message: ToNode) {
        self.node.on_message(driver.conn, message);
    }

    fn asks(&mut self, driver: &Driver, function: FunctionId) {
        self.says(driver, ToNode::Ask { request: 0, question: Question::Function(function) });
    }

    fn leaves(&mut self, driver: &Driver) {
        self.says(driver, ToNode::Bye);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Driver {
    pub(crate) fn heard(&mut self) -> Vec<FromNode> {
        self.inbox.fill(&self.socket, false).unwrap();
        std::iter::from_fn(|| self.inbox.next_message().unwrap())
            .map(|bytes| wire::decode::<FromNode>(&bytes).unwrap())
            .collect()
    }

    /// Until nothing more comes: the socket has room for part of it only.
    pub(crate) fn hears_all(&mut self, node: &mut Node) -> Vec<FromNode> {
        let mut all = Vec::new();
        loop {
            node.machine.conns.flush(self.conn);
            if rustix::io::ioctl_fionread(&self.socket).unwrap() == 0 {
                return all;
            }
            all.extend(self.heard());
        }
    }

    fn was_answered(&mut self) -> bool {
        self.heard().iter().any(|message| matches!(message, FromNode::Answer { .. }))
    }
}

fn export(function: FunctionId) -> ToNode {
    ToNode::Export { function, body: vec![1, 2, 3] }
}

/// Requests were known by their connection's index. Requests are numbered from zero in each process, so whoever got that index next
/// took the body for an answer to a question of its own.
#[test]
fn a_body_that_a_dead_process_asked_for_goes_to_nobody_else() {
    let mut bench = Bench::new();
    let mut here = bench.join();
    let gone = bench.join();
    bench.asks(&gone, F);
    bench.leaves(&gone);
    let mut next = bench.join();
    assert_eq!(next.conn, gone.conn, "the index is used again");
    bench.says(&here, export(F));
    assert!(!next.was_answered());
    bench.asks(&here, F);
    assert!(here.was_answered());
}

#[test]
fn a_body_that_comes_late_is_passed_on_to_who_asked() {
    let mut bench = Bench::new();
    let (here, mut asker) = (bench.join(), bench.join());
    bench.asks(&asker, F);
    assert!(!asker.was_answered());
    bench.says(&here, export(F));
    assert!(asker.was_answered());
}

/// It was granted to the slot of the dead process, which nobody emptied any more.
#[test]
fn room_that_a_dead_process_waited_for_stays_free() {
    let mut bench = Bench::new();
    let (full, waits) = (bench.join(), bench.join());
    bench.says(&full, ToNode::WantExtent { length: STORE_BYTES });
    assert_eq!(bench.node.machine.shared.host.free(), 0);
    bench.says(&waits, ToNode::WantExtent { length: 1 << 20 });
    bench.leaves(&waits);
    bench.says(&full, ToNode::ReturnExtent { offset: 0, length: STORE_BYTES });
    assert_eq!(bench.node.machine.shared.host.free(), STORE_BYTES);
}

/// A driver that defines ever new functions grew with each of them.
#[test]
fn bodies_beyond_a_bound_lie_in_files_and_are_found_there() {
    let mut bench = Bench::new();
    let mut driver = bench.join();
    let id = |number: u8| FunctionId([number; 16]);
    for number in 0..20 {
        bench.says(&driver, ToNode::Export { function: id(number), body: vec![number; 1 << 20] });
    }
    let files = || std::fs::read_dir(bench.dir.join("functions")).unwrap().count();
    assert_eq!(files(), 12, "eight are in memory");
    for number in 0..20 {
        bench.asks(&driver, id(number));
        let answer = driver.hears_all(&mut bench.node);
        let is_it = |message: &FromNode| matches!(message, FromNode::Answer { answer: wire::control::Answer::Function(Some(body)), .. } if *body == vec![number; 1 << 20]);
        assert!(answer.iter().any(is_it), "{number}");
    }
    let dir = bench.dir.clone();
    bench.leaves(&driver);
    assert_eq!(std::fs::read_dir(dir.join("functions")).unwrap().count(), 0);
    assert_eq!(bench.node.hub.left(), [""; 0]);
}

/// The 961st actor waited for ever, and nothing was said.
#[test]
fn who_waits_because_there_are_no_more_workers_is_told_so() {
    let mut bench = Bench::with_workers_max(2);
    let mut driver = bench.join();
    let asks = |number| ToNode::RequestLease { number, job: driver.job, need: Need::default(), name: "".into() };
    let requests: Vec<ToNode> = (0..5).map(asks).collect();
    requests.into_iter().for_each(|request| bench.says(&driver, request));
    let later = net::clock::now().plus_ms(2_000);
    bench.node.hub.on_time(&mut hub::Step { now: later, body: &mut bench.node.machine });
    let is_told = |message: &FromNode| match message {
        FromNode::Notice { kind, text } => (&**kind == "worker_limit").then(|| text.to_string()),
        _ => None,
    };
    let told: Vec<String> = driver.heard().iter().filter_map(is_told).collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("2 worker processes") && told[0].contains("3 requests"), "{}", told[0]);
    bench.says(&driver, ToNode::Ask { request: 1, question: Question::Status });
    let waiting = driver.heard().into_iter().find_map(|message| match message {
        FromNode::Answer { answer: wire::control::Answer::Status(status), .. } => Some(status.waiting),
        _ => None,
    });
    let waiting = waiting.expect("it answers");
    let knows_why = |wait: &WaitRecord| matches!(wait.on, Awaited::Resources { why: LeaseReason::NoMoreWorkers, .. });
    assert_eq!(waiting.iter().filter(|wait| knows_why(wait)).count(), 3, "{waiting:?}");
}
