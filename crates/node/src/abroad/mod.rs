//! Other nodes: the thread that has the lines to them, and what the node's own thread has of it.
//!
//! A node that is alone has neither: no thread, no port, no descriptor. `rings` are the ends that the carrier has in this node's memory, `line`
//! is one connection, `thread` the loop around both; `belonging` says who this node is to others, and `joining` how it became that.

mod belonging;
mod certificates;
mod door;
mod issued;
mod joining;
mod knocking;
mod line;
mod linger;
mod meeting;
mod neighbours;
mod rings;
mod thread;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use carrier::ToHub;
use model::ProcId;
use net::Bell;
use wire::abroad::{Between, Death};
use wire::control::Rings;
use wire::members::NodeInfo;
use wire::peer::Peer;
use wire::session::NodeLife;

pub use belonging::{Belonging, HEAD, list_tokens, rotate_token};
pub use identity::{Error as IdentityError, Listed, Python, Token};
pub use joining::{JoinError, Joined, join};
pub(crate) use thread::address_of;

use crate::Error;
use crate::values::Values;

/// What a node of a cluster is told once.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Who it is.
    pub belonging: Arc<Belonging>,
    /// Where the head is; the head itself has none.
    pub head: Option<SocketAddr>,
    /// Where it listens. None: it only dials.
    pub listen: Option<SocketAddr>,
    /// Where others reach it, if that is not where it listens.
    pub advertised: Option<std::net::IpAddr>,
    /// Of its machine, for people.
    pub name: Box<str>,
    /// Its labels.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// It is a driver's own, and has no resources.
    pub is_guest: bool,
}

/// What the node's thread asks of the carrier's.
pub(crate) enum Ask {
    Send(u32, Between<Peer>),
    Died(Death, Vec<u32>),
    Linked(ProcId, ProcId, Rings),
    Unlinked(ProcId, ProcId),
    Flush(u64),
    Reach(u64, Vec<(u32, u64)>),
    Meet(Box<NodeInfo>),
    Part(u32),
    /// Room in the arena, or none now.
    Extent(Option<(u64, u64)>),
    /// What came of this node's visit to the head's door.
    Renewed(Box<Result<identity::Membership, JoinError>>),
    Stop,
}

/// What the carrier's thread says.
pub(crate) enum Told {
    Hub(ToHub),
    /// There is a session with the head.
    HeadUp(NodeLife),
    /// The head is gone, or will have nothing to do with this node.
    HeadLost(String),
    /// At the head: a node is gone.
    Lost(u32, String),
    /// There is no line to a node that may be there for others.
    Unreached(String),
    WantExtent(u64),
    /// A process here writes nonsense.
    Broken(ProcId),
    /// What the threads that move large values want.
    Values(crate::values::Order),
    /// The thread has ended, which it should not.
    Failed(String),
}

/// A queue between two threads. Bounded by what is under way between nodes and processes, which is.
pub(crate) type Queue<T> = Arc<Mutex<VecDeque<T>>>;

/// Leaves something for the carrier's thread, and wakes it.
pub(crate) fn ask_by(asks: &Queue<Ask>, bell: &Bell, ask: Ask) {
    asks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push_back(ask);
    bell.wake();
}

/// The carrier's thread, as the node's own sees it.
pub(crate) struct Abroad {
    asks: Queue<Ask>,
    told: Queue<Told>,
    bell: Bell,
    event: Arc<OwnedFd>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// Large values that come and go.
    pub(crate) values: Arc<Values>,
    /// What others are told of this node.
    pub(crate) info: NodeInfo,
    pub(crate) head: Option<SocketAddr>,
}

/// Eight bytes that nobody else has.
pub(crate) fn chance() -> Result<u64, identity::Error> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| identity::Error::Library(errno.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}

impl Abroad {
    /// Starts the thread; `wake` is the node's own.
    pub(crate) fn start(
        options: &crate::Options,
        cluster: &ClusterOptions,
        shared: &crate::machine::Shared,
        wake: OwnedFd,
    ) -> Result<Self, Error> {
        let io = |what: &'static str| move |errno: rustix::io::Errno| Error::Io { what, cause: errno.into() };
        let listening = cluster.listen.map(line::listen).transpose().map_err(io("listening for other nodes"))?;
        let (listener, bound) = listening.unzip();
        let address =
            bound.map(|bound| SocketAddr::new(cluster.advertised.unwrap_or_else(|| bound.ip()), bound.port()));
        let life = cluster.belonging.life();
        let info = NodeInfo {
            number: life.node,
            life: life.life,
            id: options.id,
            addresses: address.iter().map(|address| address.to_string().into()).collect(),
            name: cluster.name.clone(),
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            is_guest: cluster.is_guest,
            total: options.total.clone(),
            labels: cluster.labels.clone(),
        };
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let event = Arc::new(rustix::event::eventfd(0, flags).map_err(io("making an eventfd"))?);
        let bell = rings::carrier_bell(&shared.segment, event.clone());
        let me = ProcId::new(life.node, net::segment::CARRIER_SLOT, 0);
        let store = store::Client::attach(
            clone(shared.host.data_fd())?,
            clone(shared.host.table_fd())?,
            net::segment::CARRIER_SLOT,
        )?;
        let folders =
            store::Folders { list: options.folders.clone(), full_at: f64::from(options.folders_full_at) / 1_000.0 };
        let files = Arc::new(store::Files::new(folders, me, wire::value::refs_bytes));
        let (asks, told) = (Queue::default(), Queue::default());
        let wake_too = clone(wake.as_fd())?;
        let values = Arc::new(Values::new(crate::values::Parts {
            number: life.node,
            is_callable: address.is_some(),
            belonging: cluster.belonging.clone(),
            store: store.clone(),
            files: files.clone(),
            told: told.clone(),
            wake: clone(wake.as_fd())?,
            asks: asks.clone(),
            bell: bell.clone(),
        }));
        let rings = rings::RingEnds::new(shared.segment.clone(), store, files, values.clone());
        let desk = thread::Desk { asks: asks.clone(), told: told.clone(), wake };
        let thread = thread::Thread::new(cluster, listener, rings, bell.clone(), event.clone(), desk)?;
        let (failures, wakes) = (told.clone(), wake_too);
        let run = move || {
            // Without it nobody hears of other nodes: whoever waits for them is told.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| thread.run())).is_err() {
                let why = Told::Failed("the thread that talks to other nodes has failed".into());
                failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push_back(why);
                let _ = rustix::io::write(wakes.as_fd(), &1_u64.to_ne_bytes());
            }
        };
        let thread = net::without_signals(|| std::thread::Builder::new().name("eagleray-carrier".into()).spawn(run))
            .map_err(|cause| Error::Io { what: "starting the carrier's thread", cause })?;
        Ok(Self { asks, told, bell, event, thread: Some(thread), values, info, head: cluster.head })
    }

    pub(crate) fn ask(&self, ask: Ask) {
        ask_by(&self.asks, &self.bell, ask);
    }

    /// What the carrier has said since.
    pub(crate) fn take_told(&self) -> VecDeque<Told> {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// What wakes the carrier, for a process that is to write to it.
    pub(crate) fn event(&self) -> Option<OwnedFd> {
        self.event.try_clone().ok()
    }

    /// Where others reach this node.
    pub(crate) fn address(&self) -> Option<&str> {
        self.info.addresses.first().map(|address| &**address)
    }

    /// What tells lines of this node's workers from others' on a driver's terminal.
    pub(crate) fn shown(&self) -> Box<str> {
        let ip = self.address().and_then(|address| address.parse::<SocketAddr>().ok()).map(|address| address.ip());
        let number = self.info.number;
        match ip {
            Some(ip) if ip.is_loopback() => format!("ip={ip}, node={number}").into(),
            Some(ip) => format!("ip={ip}").into(),
            None => format!("node={number}").into(),
        }
    }

    /// The head, as far as a node knows it that has only just got through to it.
    pub(crate) fn head_info(&self, head: NodeLife) -> NodeInfo {
        NodeInfo {
            number: head.node,
            life: head.life,
            id: model::NodeId([0; 28]),
            addresses: self.head.iter().map(|address| address.to_string().into()).collect(),
            name: "".into(),
            pid: 0,
            is_guest: false,
            total: model::Resources::default(),
            labels: Vec::new(),
        }
    }

    /// What was asked before goes out, as far as it does within a moment; then the thread ends.
    pub(crate) fn stop(&mut self) {
        self.values.stop();
        self.ask(Ask::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn clone(fd: std::os::fd::BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    fd.as_fd().try_clone_to_owned().map_err(|cause| Error::Io { what: "cloning a descriptor", cause })
}

#[cfg(test)]
mod tests;
