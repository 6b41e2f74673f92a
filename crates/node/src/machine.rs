//! What a node does, as its core asks for it (see `hub::Body`): the rooms with sockets, memory, files and processes in them.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hub::links::Level;
use hub::{Body, Dead, Door, Listening, NoRoom, Past, StoreUse};
use model::{Bulk, FunctionId, JobId, ProcId};
use net::Segment;
use rustc_hash::FxHashMap;
use wire::abroad::{AboutValues, Between, Death};
use wire::asking::NotFetched;
use wire::control::{Answer, FromNode, Rings};
use wire::members::NodeInfo;
use wire::peer::Peer;
use wire::session::NodeLife;

use crate::abroad::{Abroad, Ask};
use crate::conns::Conns;
use crate::logs::Logs;
use crate::poll::{Poll, token};
use crate::zygote::Zygote;
use crate::{Error, Options, Standing};

pub(crate) struct Machine {
    pub(crate) options: Options,
    pub(crate) poll: Poll,
    pub(crate) listener: Option<OwnedFd>,
    pub(crate) conns: Conns,
    pub(crate) zygote: Zygote,
    pub(crate) shared: Shared,
    pub(crate) drivers: Drivers,
    pub(crate) logs: Logs,
    /// What drivers of other nodes were sent of them.
    pub(crate) logs_abroad: LogsAbroad,
    functions: FunctionFiles,
    /// Processes that have died in this step and of whose output the rest is to be read, and what they ran.
    pub(crate) deaths: VecDeque<(Dead, Box<str>)>,
    pub(crate) is_stopping: bool,
    /// Other nodes, if there may be some.
    pub(crate) abroad: Option<Abroad>,
    /// Programs may come in.
    is_open: bool,
    pub(crate) standing: Arc<Standing>,
    /// The carrier needs so much room in the arena, and there was none.
    pub(crate) carrier_wants: Option<u64>,
}

/// What every process of the node maps.
pub(crate) struct Shared {
    pub(crate) segment: Arc<Segment>,
    pub(crate) host: store::Host,
    /// What processes leave behind when they die.
    pub(crate) journals: store::Journals,
}

impl Shared {
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        let segment =
            Segment::create().map_err(|errno| Error::Io { what: "making the shared segment", cause: errno.into() })?;
        segment.spin().cores.store(options.cores, Ordering::Relaxed);
        Ok(Self {
            segment: Arc::new(segment),
            host: store::Host::create_on(options.number, options.store_bytes, net::segment::PROCS_MAX)?,
            journals: store::Journals::create(net::segment::PROCS_MAX)?,
        })
    }

    /// To be handed over to a process; none if there are no descriptors left.
    pub(crate) fn descriptors(&self) -> Option<Vec<OwnedFd>> {
        let shared = [self.segment.fd(), self.host.data_fd(), self.host.table_fd(), self.journals.fd()];
        shared.iter().map(|fd| fd.try_clone_to_owned().ok()).collect()
    }
}

/// How much of what workers here have printed drivers of other nodes were sent and have not said to have taken.
#[derive(Default)]
pub(crate) struct LogsAbroad(FxHashMap<ProcId, usize>);

impl LogsAbroad {
    pub(crate) fn sent(&mut self, driver: ProcId, weight: usize) {
        *self.0.entry(driver).or_default() += weight;
    }

    fn taken(&mut self, driver: ProcId, weight: usize) {
        if let Some(ahead) = self.0.get_mut(&driver) {
            *ahead = ahead.saturating_sub(weight);
            if *ahead == 0 {
                self.0.remove(&driver);
            }
        }
    }

    pub(crate) fn ahead(&self, driver: ProcId) -> usize {
        self.0.get(&driver).copied().unwrap_or(0)
    }

    fn node_gone(&mut self, node: u32) {
        self.0.retain(|driver, _| driver.node() != node);
    }
}

/// Processes that were not started here and may end without a word.
pub(crate) struct Drivers {
    poll: Poll,
    pidfds: FxHashMap<ProcId, OwnedFd>,
}

impl Drivers {
    /// Says when this process ends.
    pub(crate) fn watch(&mut self, id: ProcId, pid: i32) {
        let Some(pid) = rustix::process::Pid::from_raw(pid) else { return };
        if pid == rustix::process::getpid() {
            return;
        }
        if let Ok(pidfd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            let _ = self.poll.watch(pidfd.as_fd(), token::DRIVERS + u64::from(id.slot()));
            self.pidfds.insert(id, pidfd);
        }
    }

    fn forget(&mut self, id: ProcId) {
        if let Some(pidfd) = self.pidfds.remove(&id) {
            self.poll.forget(pidfd);
        }
    }
}

/// Functions' bodies for which there is no room in memory.
struct FunctionFiles(PathBuf);

impl FunctionFiles {
    fn path(&self, function: FunctionId) -> PathBuf {
        self.0.join(function.to_string())
    }
}

impl Machine {
    pub(crate) fn new(mut options: Options, wake: &OwnedFd, standing: Arc<Standing>) -> Result<Self, Error> {
        let io = |what: &'static str| move |errno: rustix::io::Errno| Error::Io { what, cause: errno.into() };
        let logs_dir = options.session_dir.join("logs");
        std::fs::create_dir_all(&logs_dir).map_err(|cause| Error::Io { what: "making the session's folder", cause })?;
        let poll = Poll::new().map_err(io("making an epoll"))?;
        let shared = Shared::new(&options)?;
        let logs = Logs::new(logs_dir).map_err(io("watching the log folder"))?;
        poll.watch(logs.fd(), token::LOGS).map_err(io("watching"))?;
        let listener = match options.listen.as_deref().map(crate::conns::listen) {
            None => None,
            Some(Ok(listener)) => Some(listener),
            Some(Err(cause)) if options.must_listen => return Err(Error::Io { what: "listening", cause }),
            Some(Err(_)) => {
                options.listen = None;
                None
            }
        };
        let abroad = match &options.cluster {
            None => None,
            Some(cluster) => {
                let wake = wake.try_clone().map_err(|cause| Error::Io { what: "cloning an eventfd", cause })?;
                Some(Abroad::start(&options, cluster, &shared, wake)?)
            }
        };
        // Whoever comes in before the node belongs to its cluster would hear of others too early.
        let is_open = abroad.as_ref().is_none_or(|abroad| abroad.head.is_none());
        if let Some(listener) = listener.as_ref().filter(|_| is_open) {
            poll.watch(listener, token::LISTEN).map_err(io("watching"))?;
        }
        Ok(Self {
            abroad,
            is_open,
            standing,
            carrier_wants: None,
            conns: Conns::new(poll.clone()),
            zygote: Zygote::new(poll.clone()),
            drivers: Drivers { poll: poll.clone(), pidfds: FxHashMap::default() },
            functions: FunctionFiles(options.session_dir.join("functions")),
            deaths: VecDeque::new(),
            is_stopping: false,
            shared,
            logs,
            logs_abroad: LogsAbroad::default(),
            listener,
            poll,
            options,
        })
    }

    fn write_function(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.functions.0)?;
        std::fs::write(path, bytes)
    }
}

impl Body for Machine {
    type Letter = Peer;

    fn tell(&mut self, to: ProcId, message: FromNode) {
        if let (FromNode::Linked { peer, .. }, Some(abroad)) = (&message, &self.abroad)
            && peer.node() != self.options.number
            && let Some(event) = abroad.event()
        {
            self.conns.introduce_carrier(to, event);
        }
        self.conns.tell(to, &message);
    }

    fn answer(&mut self, to: Door, request: u64, answer: Answer) {
        self.conns.tell_at(to, &FromNode::Answer { request, answer }, Vec::new());
    }

    fn listening(&self, at: Door) -> Listening {
        self.conns.listening(at)
    }

    fn hang_up(&mut self, at: Door) {
        self.conns.hang_up(at);
    }

    fn logs_taken(&mut self, by: ProcId, weight: u64) {
        let weight = usize::try_from(weight).unwrap_or(usize::MAX);
        if by.node() == self.options.number {
            for (node, weight) in self.conns.logs_taken(by, weight) {
                self.ask(Ask::Send(node, Between::LogsTaken { driver: by, weight: weight as u64 }));
            }
        } else {
            self.logs_abroad.taken(by, weight);
        }
        self.logs.resume();
    }

    fn last_words_wanted(&mut self, by: ProcId, job: JobId, colleagues: Vec<ProcId>) {
        self.logs.await_all(by, job, colleagues.into_iter());
        self.logs.resume();
    }

    fn stop(&mut self) {
        self.is_stopping = true;
    }

    fn enter(&mut self, who: ProcId, pid: i32) {
        self.shared.segment.reset_proc(who.slot());
        self.shared.segment.proc(who.slot()).pid.store(pid, Ordering::Relaxed);
    }

    fn start_worker(&mut self, who: ProcId) -> Result<(), Box<str>> {
        self.zygote.fork(who, &mut self.conns)
    }

    fn start_keeper(&mut self, who: ProcId, past: Past) -> bool {
        self.start_keeper_thread(who, past).is_some()
    }

    fn kill(&mut self, _: ProcId, pid: i32) {
        self.zygote.kill(pid);
    }

    fn is_needed(&self, who: ProcId) -> bool {
        self.shared.segment.proc(who.slot()).is_needed()
    }

    fn assigned(&mut self, worker: ProcId) {
        self.shared.segment.proc(worker.slot()).assignments.fetch_add(1, Ordering::Release);
    }

    fn label(&self, who: ProcId) -> Box<str> {
        self.shared.segment.proc(who.slot()).label().into()
    }

    fn last_errors(&self, who: ProcId) -> String {
        self.logs.tail(&crate::logs::of_worker(who, "err"))
    }

    fn own_bytes(&self, pid: i32) -> u64 {
        crate::memory::own_bytes(pid).unwrap_or(0)
    }

    fn died(&mut self, dead: Dead) {
        self.conns.remove_of(dead.id);
        self.drivers.forget(dead.id);
        self.shared.segment.proc(dead.id.slot()).state.store(2, Ordering::Release);
        self.shared.segment.spin().clear(dead.id.slot());
        let label = self.label(dead.id);
        self.deaths.push_back((dead, label));
    }

    fn has_left(&self, dead: ProcId) -> bool {
        self.shared.journals.live(dead.slot()) > 0
    }

    fn bury(&mut self, dead: ProcId) {
        self.shared.journals.clear(dead.slot());
        self.shared.host.process_gone(dead.slot());
        store::remove_files_of(dead, &self.options.folders);
    }

    fn level(&self, ring: u32) -> Level {
        let (tail, head) = self.shared.segment.ring_level(ring);
        Level { tail, head }
    }

    fn reset_ring(&mut self, ring: u32) {
        self.shared.segment.reset_ring(ring);
    }

    fn grant(&mut self, to: ProcId, length: u64) -> Result<(u64, u64), NoRoom> {
        let mut granted = self.shared.host.grant(to.slot(), length);
        if let (Err(store::Error::Full { .. }), Some(abroad)) = (&granted, &self.abroad) {
            // Copies of what others have go first.
            let freed = abroad.values.make_room(length);
            let host = &mut self.shared.host;
            if freed.into_iter().filter(|extent| host.take_back(net::segment::CARRIER_SLOT, *extent).is_ok()).count()
                > 0
            {
                granted = host.grant(to.slot(), length);
            }
        }
        match granted {
            Ok(extent) => Ok((extent.offset, extent.length)),
            Err(store::Error::TooLarge { .. }) => Err(NoRoom::TooLarge),
            Err(_) => Err(NoRoom::Full),
        }
    }

    fn take_back(&mut self, from: ProcId, offset: u64, length: u64) {
        // A process can only give back what it was given; anything else is refused by the host and changes nothing.
        let _ = self.shared.host.take_back(from.slot(), store::Extent { offset, length });
    }

    fn sweep(&mut self) {
        self.shared.host.sweep();
    }

    fn store(&self) -> StoreUse {
        let host = &self.shared.host;
        let (copies, kept) = self.abroad.as_ref().map_or((0, 0), |abroad| abroad.values.counts());
        StoreUse {
            capacity: host.capacity(),
            used: host.used(),
            free: host.free(),
            orphaned: host.orphaned(),
            copies,
            kept,
        }
    }

    fn files(&self) -> (u64, u64) {
        store::files_in(&self.options.folders)
    }

    fn file_function(&mut self, function: FunctionId, bytes: &[u8]) -> bool {
        self.write_function(&self.functions.path(function), bytes).is_ok()
    }

    fn filed_function(&self, function: FunctionId) -> Option<Vec<u8>> {
        std::fs::read(self.functions.path(function)).ok()
    }

    fn remove_function(&mut self, function: FunctionId) {
        let _ = std::fs::remove_file(self.functions.path(function));
    }

    fn send(&mut self, node: u32, message: Between<Peer>) {
        self.ask(Ask::Send(node, message));
    }

    fn tell_nodes(&mut self, death: Death, nodes: &[u32]) {
        self.ask(Ask::Died(death, nodes.to_vec()));
    }

    fn linked(&mut self, here: ProcId, there: ProcId, rings: Rings) {
        self.ask(Ask::Linked(here, there, rings));
    }

    fn unlinked(&mut self, here: ProcId, there: ProcId) {
        self.ask(Ask::Unlinked(here, there));
    }

    fn flush(&mut self, ticket: u64) {
        self.ask(Ask::Flush(ticket));
    }

    fn reach(&mut self, ticket: u64, positions: &[(u32, u64)]) {
        self.ask(Ask::Reach(ticket, positions.to_vec()));
    }

    fn logs_sent(&mut self, to: ProcId, weight: usize, from: u32) {
        self.conns.logs_sent(to, weight, Some(from));
    }

    fn fetch(&mut self, by: ProcId, request: u64, bulk: Bulk, is_probe: bool) {
        match &self.abroad {
            Some(abroad) => abroad.values.fetch(by, request, bulk, is_probe),
            None => {
                let answer = Answer::Fetched(Err(NotFetched::Moved));
                self.conns.tell(by, &FromNode::Answer { request, answer });
            }
        }
    }

    fn prefetch(&mut self, bulks: Vec<Bulk>) {
        if let Some(abroad) = &self.abroad {
            abroad.values.will_want(bulks);
        }
    }

    fn free_away(&mut self, bulk: Bulk) {
        if let Some(abroad) = &self.abroad {
            abroad.values.free(bulk);
        }
    }

    fn keep_for(&mut self, by: ProcId, to: ProcId, bulks: Vec<Bulk>) {
        if let Some(abroad) = &self.abroad {
            abroad.values.keep_for(by, to, bulks);
        }
    }

    fn inherit_away(&mut self, by: ProcId, bulk: Bulk) {
        if let Some(abroad) = &self.abroad {
            abroad.values.inherit(bulk, by);
        }
    }

    fn process_died(&mut self, peer: ProcId, heir: Option<ProcId>) {
        if let Some(abroad) = &self.abroad {
            abroad.values.process_died(peer, heir);
        }
    }

    fn settled_here(&mut self, of: ProcId) {
        if let Some(abroad) = &self.abroad {
            abroad.values.settled_here(of);
        }
    }

    fn about_values(&mut self, from: u32, about: AboutValues) {
        if let Some(abroad) = &self.abroad {
            abroad.values.on_word(from, about);
        }
    }

    fn move_kept(&mut self, round: u64, bytes: u64) -> bool {
        self.abroad.as_ref().is_some_and(|abroad| abroad.values.move_kept(round, bytes))
    }

    fn known(&mut self, node: &NodeInfo) {
        if let Some(abroad) = self.abroad.as_ref().filter(|_| node.number != self.options.number) {
            let life = NodeLife { node: node.number, life: node.life };
            abroad.values.node_joined(life, crate::abroad::address_of(node));
        }
    }

    fn meet(&mut self, node: &NodeInfo) {
        self.ask(Ask::Meet(Box::new(node.clone())));
    }

    fn part(&mut self, node: u32) {
        self.logs_abroad.node_gone(node);
        if let Some(abroad) = &self.abroad {
            abroad.values.node_gone(node);
        }
        self.ask(Ask::Part(node));
    }

    fn left_cluster(&mut self, why: &str) {
        tracing::error!("this node does not belong to its cluster any more: {why}");
        self.standing.is(Err(why.into()));
        self.is_stopping = true;
    }
}

impl Machine {
    /// Whether programs may come in.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The node belongs to its cluster: programs may come in.
    pub(crate) fn open_doors(&mut self) {
        self.is_open = true;
        if let Some(listener) = &self.listener {
            let _ = self.poll.watch(listener, token::LISTEN);
        }
        self.standing.is(Ok(()));
    }

    pub(crate) fn ask(&self, ask: Ask) {
        if let Some(abroad) = &self.abroad {
            abroad.ask(ask);
        }
    }
}
