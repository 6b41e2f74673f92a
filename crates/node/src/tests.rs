//! The node without its loop: messages in, messages and tables out.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use model::{FunctionId, JobId, Need, NodeId, ProcId, Resources, WorkerExit};
use net::unix::{self, Inbox};
use wire::control::{FromNode, Hello, Question, Role, ToNode};

use crate::Options;
use crate::looped::Node;
use crate::procs::Kind;

const STORE_BYTES: u64 = 32 << 20;
const F: FunctionId = FunctionId([1; 16]);

pub(crate) struct Bench {
    pub(crate) node: Node,
    pub(crate) dir: PathBuf,
}

pub(crate) struct Driver {
    socket: OwnedFd,
    inbox: Inbox,
    pub(crate) conn: usize,
    pub(crate) id: ProcId,
    pub(crate) job: JobId,
}

impl Bench {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("eagleray-node-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        let options = Options {
            total: Resources::cpus(2),
            gpu_names: Vec::new(),
            store_bytes: STORE_BYTES,
            folders: Vec::new(),
            folders_full_at: 1_000,
            cores: 2,
            python: "3".into(),
            zygote: Vec::new(),
            zygote_env: Vec::new(),
            session_dir: dir.clone(),
            listen: None,
            must_listen: false,
            prestart: 0,
            idle_ms_max: 1_000,
            workers_max: 2,
            rings_max: net::segment::RINGS_MAX,
            link_idle_ms_max: 60_000,
            grace_ms_max: 1_000,
            lineage_bytes_max: 1 << 30,
            memory: crate::MemoryOptions { threshold: 0.95, refresh_ms: 0, task_retries: -1, meminfo: None },
            keeper: None,
            keep_session: false,
            number: 1,
            id: NodeId([7; 28]),
        };
        let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        Self { node: Node::new(options, wake, Arc::default()).unwrap(), dir }
    }

    pub(crate) fn join(&mut self) -> Driver {
        let (socket, theirs) = unix::pair().unwrap();
        let conn = self.node.add_conn_at(theirs, None).unwrap();
        let role = Role::Driver { namespace: "".into(), surroundings: wire::Surroundings::default(), logs: true };
        let pid = std::process::id() as i32;
        self.node.on_message(conn, ToNode::Hello(Hello { protocol: wire::PROTOCOL, python: "3".into(), pid, role }));
        let id = self.node.conns.get_mut(conn).unwrap().who.unwrap();
        let job = self.node.procs.get(id).unwrap().job;
        let mut driver = Driver { socket, inbox: Inbox::default(), conn, id, job };
        assert!(matches!(driver.heard()[..], [FromNode::Welcome(_)]));
        driver
    }

    /// A worker that has joined.
    pub(crate) fn add_worker(&mut self) -> Driver {
        let (socket, theirs) = unix::pair().unwrap();
        let id = self.node.add_proc(0, crate::procs::Kind::Worker).unwrap();
        let conn = self.node.add_conn_at(theirs, Some(id)).unwrap();
        self.node.procs.get_mut(id).unwrap().conn = Some(conn);
        Driver { socket, inbox: Inbox::default(), conn, id, job: JobId([0; 4]) }
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
            node.flush_to(self.conn);
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
    assert_eq!(bench.node.room.host.free(), 0);
    bench.says(&waits, ToNode::WantExtent { length: 1 << 20 });
    bench.leaves(&waits);
    bench.says(&full, ToNode::ReturnExtent { offset: 0, length: STORE_BYTES });
    assert_eq!(bench.node.room.host.free(), STORE_BYTES);
}

/// A daemon kept every body that any job had ever sent.
#[test]
fn a_jobs_functions_end_with_it_unless_another_has_them_too() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join(), bench.join());
    let only_a = FunctionId([2; 16]);
    bench.says(&a, export(F));
    bench.says(&b, export(F));
    bench.says(&a, export(only_a));
    assert_eq!(bench.node.functions.count(), 2);
    bench.leaves(&a);
    assert_eq!(bench.node.functions.count(), 1);
    let mut c = bench.join();
    bench.asks(&c, F);
    assert!(c.was_answered());
    bench.leaves(&b);
    assert_eq!(bench.node.functions.count(), 0);
}

/// The lease goes with its worker; its owner never gives it back.
#[test]
fn nothing_is_kept_of_a_lease_whose_worker_died() {
    let mut bench = Bench::new();
    let owner = bench.join();
    let worker = bench.node.add_proc(0, Kind::Worker).unwrap();
    bench.node.schedule(scheduler::Event::WorkerReady(worker));
    let need = Need::same(Resources::cpus(1));
    bench.says(&owner, ToNode::RequestLease { number: 1, job: owner.job, need, name: "f".into() });
    assert_eq!(bench.node.lease_of.len(), 1, "it is granted");
    bench.node.process_died(worker, WorkerExit::Signal(9, model::Remains::default()));
    assert_eq!((bench.node.lease_needs.len(), bench.node.lease_names.len()), (0, 0));
    assert_eq!(bench.node.procs.get(owner.id).unwrap().job, owner.job);
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
        bench.node.ask_function(driver.id, 0, id(number));
        let answer = driver.hears_all(&mut bench.node);
        let is_it = |message: &FromNode| matches!(message, FromNode::Answer { answer: wire::control::Answer::Function(Some(body)), .. } if *body == vec![number; 1 << 20]);
        assert!(answer.iter().any(is_it), "{number}");
    }
    let dir = bench.dir.clone();
    bench.leaves(&driver);
    assert_eq!((bench.node.functions.count(), std::fs::read_dir(dir.join("functions")).unwrap().count()), (0, 0));
}
