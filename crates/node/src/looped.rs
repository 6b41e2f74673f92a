//! The node's one loop: waits for sockets, the zygote, log files and time, and hands each to its room.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use model::{ProcId, Tick};
use net::Segment;
use net::clock::now;
use rustc_hash::FxHashMap;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::actors::ActorLeases;
use crate::conns::Conns;
use crate::functions::Functions;
use crate::inventory::Inventories;
use crate::keeper::Estates;
use crate::links::Links;
use crate::logs::Logs;
use crate::memory::Memory;
use crate::notices::Told;
use crate::procs::Procs;
use crate::room::Room;
use crate::watching::Watching;
use crate::zygote::Zygote;
use crate::{Command, Error, Options};

/// What a readiness event is about.
pub(crate) mod token {
    pub(crate) const WAKE: u64 = 0;
    pub(crate) const LISTEN: u64 = 1;
    pub(crate) const ZYGOTE: u64 = 2;
    pub(crate) const ZYGOTE_PID: u64 = 3;
    pub(crate) const LOGS: u64 = 4;
    /// Connections from here on.
    pub(crate) const CONNS: u64 = 1 << 32;
    /// Drivers' pidfds from here on.
    pub(crate) const DRIVERS: u64 = 1 << 33;
}

pub(crate) struct Node {
    pub(crate) options: Options,
    pub(crate) epoll: OwnedFd,
    wake: OwnedFd,
    commands: Arc<Mutex<VecDeque<Command>>>,
    pub(crate) listener: Option<OwnedFd>,
    pub(crate) segment: Arc<Segment>,
    pub(crate) conns: Conns,
    pub(crate) procs: Procs,
    pub(crate) links: Links,
    pub(crate) zygote: Zygote,
    pub(crate) scheduler: scheduler::Scheduler,
    pub(crate) scheduled: Vec<scheduler::Effect>,
    pub(crate) actors: control::Actors,
    pub(crate) acted: Vec<control::Effect>,
    pub(crate) groups: control::Groups,
    /// Who waits for a placement group.
    pub(crate) group_watchers: FxHashMap<model::GroupId, Vec<ProcId>>,
    pub(crate) watchers: FxHashMap<model::ActorId, Vec<ProcId>>,
    pub(crate) actor_leases: ActorLeases,
    pub(crate) actor_lease_next: u64,
    /// Who asked for an actor and waits for the answer.
    pub(crate) creators: FxHashMap<model::ActorId, ProcId>,
    /// The last lease of tasks that each worker had.
    pub(crate) lease_of: FxHashMap<ProcId, model::LeaseId>,
    /// What each lease of tasks asks for.
    pub(crate) lease_needs: FxHashMap<model::LeaseId, model::Need>,
    /// Which function each is for.
    pub(crate) lease_names: FxHashMap<model::LeaseId, Box<str>>,
    /// Namespace and surroundings of drivers that left while actors of theirs live on.
    pub(crate) departed: FxHashMap<model::JobId, (Box<str>, wire::Surroundings)>,
    pub(crate) told: Told,
    pub(crate) functions: Functions,
    pub(crate) room: Room,
    /// What processes leave behind when they die.
    pub(crate) journals: store::Journals,
    pub(crate) estates: Estates,
    pub(crate) inventories: Inventories,
    pub(crate) watching: Watching,
    pub(crate) logs: Logs,
    pub(crate) memory: Memory,
    pub(crate) stopping: bool,
    pub(crate) jobs: control::Jobs,
}

/// Workers that start at the same time: more would not be up any sooner, and each takes descriptors.
const STARTS_PER_CORE: u32 = 2;
const STARTS_MIN: u32 = 8;
/// The rest is for drivers, the keeper, and processes that are dead and have been read by few.
const WORKERS_MAX: u32 = net::segment::PROCS_MAX as u32 - 64;

impl Node {
    pub(crate) fn new(
        mut options: Options,
        wake: OwnedFd,
        commands: Arc<Mutex<VecDeque<Command>>>,
    ) -> Result<Self, Error> {
        let io = |what: &'static str| move |errno: rustix::io::Errno| Error::Io { what, cause: errno.into() };
        let logs_dir = options.session_dir.join("logs");
        std::fs::create_dir_all(&logs_dir).map_err(|cause| Error::Io { what: "making the session's folder", cause })?;
        options.workers_max = options.workers_max.min(WORKERS_MAX);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io("making an epoll"))?;
        let segment = Arc::new(Segment::create().map_err(io("making the shared segment"))?);
        segment.spin().cores.store(options.cores, Ordering::Relaxed);
        let rings = options.rings_max.min(segment.rings());
        let room = Room::new(store::Host::create_on(options.number, options.store_bytes, net::segment::PROCS_MAX)?);
        let journals = store::Journals::create(net::segment::PROCS_MAX)?;
        let logs = Logs::new(logs_dir).map_err(io("watching the log folder"))?;
        let listener = match options.listen.as_deref().map(crate::conns::listen) {
            None => None,
            Some(Ok(listener)) => Some(listener),
            Some(Err(cause)) if options.must_listen => return Err(Error::Io { what: "listening", cause }),
            Some(Err(_)) => {
                options.listen = None;
                None
            }
        };
        let scheduler = scheduler::Scheduler::new(scheduler::Options {
            total: options.total.clone(),
            gpu_names: options.gpu_names.clone(),
            prestart: options.prestart,
            idle_ms_max: options.idle_ms_max,
            workers_max: options.workers_max,
            starts_max: (STARTS_PER_CORE * options.cores).max(STARTS_MIN),
        });
        let node = Self {
            epoll,
            wake,
            commands,
            listener,
            segment,
            conns: Conns::default(),
            procs: Procs::default(),
            links: Links::new(rings, options.link_idle_ms_max),
            zygote: Zygote::default(),
            scheduler,
            scheduled: Vec::new(),
            actors: control::Actors::new(),
            acted: Vec::new(),
            groups: control::Groups::default(),
            group_watchers: FxHashMap::default(),
            watchers: FxHashMap::default(),
            actor_leases: ActorLeases::default(),
            actor_lease_next: 0,
            creators: FxHashMap::default(),
            lease_of: FxHashMap::default(),
            lease_needs: FxHashMap::default(),
            lease_names: FxHashMap::default(),
            departed: FxHashMap::default(),
            told: Told::default(),
            functions: Functions::new(&options.session_dir),
            room,
            journals,
            estates: Estates::default(),
            inventories: Inventories::default(),
            watching: Watching::default(),
            logs,
            memory: Memory::new(&options.memory),
            stopping: false,
            jobs: control::Jobs::default(),
            options,
        };
        node.watch(&node.wake, token::WAKE).map_err(io("watching"))?;
        node.watch(node.logs.fd(), token::LOGS).map_err(io("watching"))?;
        if let Some(listener) = &node.listener {
            node.watch(listener, token::LISTEN).map_err(io("watching"))?;
        }
        Ok(node)
    }

    pub(crate) fn watch(&self, fd: impl AsFd, token: u64) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(token), EventFlags::IN)
    }

    /// Serves until it is told to stop; then ends everything it started.
    pub(crate) fn run(mut self, is_stopping: &AtomicBool) {
        self.start_zygote();
        self.schedule(scheduler::Event::Tick);
        let mut events = Vec::with_capacity(256);
        while !self.stopping {
            let timeout = self.timeout();
            events.clear();
            let waited = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref());
            if let Err(errno) = waited
                && errno != rustix::io::Errno::INTR
            {
                break;
            }
            for event in &events {
                let flags = event.flags;
                self.on_event(event.data.u64(), flags);
            }
            self.on_time(now());
        }
        is_stopping.store(true, Ordering::Relaxed);
        self.end_all();
    }

    fn on_event(&mut self, what: u64, flags: EventFlags) {
        match what {
            token::WAKE => self.on_commands(),
            token::LISTEN => self.on_knock(),
            token::ZYGOTE => self.on_zygote(),
            token::ZYGOTE_PID => self.on_zygote_died(),
            token::LOGS => self.on_logs(),
            driver if driver >= token::DRIVERS => self.on_driver_pidfd((driver - token::DRIVERS) as u16),
            conn => self.on_conn((conn - token::CONNS) as usize, flags),
        }
    }

    fn on_commands(&mut self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
        loop {
            let command = self.commands.lock().expect("never poisoned").pop_front();
            match command {
                Some(Command::Connect(socket)) => self.add_conn(socket, None),
                Some(Command::Stop) => self.stopping = true,
                None => return,
            }
        }
    }

    fn on_knock(&mut self) {
        loop {
            let Some(listener) = &self.listener else { return };
            let socket = match rustix::net::accept_with(listener, rustix::net::SocketFlags::CLOEXEC) {
                Ok(socket) => socket,
                Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                    // Whoever knocks goes on knocking: without a pause this loop would do nothing else.
                    return std::thread::sleep(std::time::Duration::from_millis(5));
                }
                Err(_) => return,
            };
            let is_ours =
                rustix::net::sockopt::socket_peercred(&socket).is_ok_and(|peer| peer.uid == rustix::process::geteuid());
            if is_ours {
                self.add_conn(socket, None);
            }
        }
    }

    /// Nothing is polled while nothing waits.
    fn timeout(&self) -> Option<Timespec> {
        if self.logs.is_behind() {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let now = now();
        let next = [
            self.scheduler.next_tick(now),
            self.actors.next_tick(),
            self.functions.next_deadline(),
            self.room.next_deadline(),
            self.inventories.next_deadline(),
            self.watching.next_look(),
            self.estates.next_deadline(),
            self.procs.next_deadline(),
            self.links.next_look(),
            self.next_memory_look(),
            self.zygote.next_start(),
            self.logs.next_look(),
            self.told.next_look(),
        ]
        .into_iter()
        .flatten()
        .min()?;
        let wait_us = next.0.saturating_sub(now.0).clamp(1_000, 60_000_000);
        Some(Timespec { tv_sec: (wait_us / 1_000_000) as i64, tv_nsec: (wait_us % 1_000_000 * 1_000) as i64 })
    }

    fn on_time(&mut self, now: Tick) {
        self.look_after_logs(now);
        if self.scheduler.next_tick(now).is_some_and(|next| next <= now) {
            self.schedule(scheduler::Event::Tick);
        }
        if self.actors.next_tick().is_some_and(|next| next <= now) {
            self.act(control::Event::Tick);
        }
        self.expire_functions(now);
        self.look_after_room(now);
        self.end_late_inventories(now);
        self.look_at_waits(now);
        self.end_late_estates(now);
        self.end_overdue(now);
        self.look_for_idle_links(now);
        self.look_at_memory(now);
        self.warn_of_full_node(now);
        if self.zygote.next_start().is_some_and(|next| next <= now) {
            self.start_zygote();
        }
    }
}
