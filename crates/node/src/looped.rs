//! The node's one loop: waits for sockets, the zygote, log files and time, and hands each to its room, or to the core.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use carrier::ToHub;
use hub::{Hub, Step};
use model::{ProcId, Tick};
use net::clock::now;
use rustix::event::Timespec;
use rustix::event::epoll::EventFlags;
use wire::control::{Answer, FromNode};
use wire::peer::Peer;

use crate::abroad::{Ask, Told};
use crate::machine::Machine;
use crate::memory::Memory;
use crate::poll::token;
use crate::values::Order;
use crate::{Command, Error, Options, Standing};

pub(crate) struct Node {
    /// What is decided.
    pub(crate) hub: Hub<Machine>,
    /// What is done.
    pub(crate) machine: Machine,
    pub(crate) memory: Memory,
    wake: OwnedFd,
    commands: Arc<Mutex<VecDeque<Command>>>,
    /// The carrier's want of room is looked at again then.
    room_look: Option<Tick>,
}

/// The carrier finds room in the arena some time after there was none.
const ROOM_LOOK_MS: u64 = 20;
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
        standing: Arc<Standing>,
    ) -> Result<Self, Error> {
        options.workers_max = options.workers_max.min(WORKERS_MAX);
        if options.cluster.as_ref().is_some_and(|cluster| cluster.is_guest) {
            // Its driver's tasks run where there are cores.
            (options.workers_max, options.prestart) = (0, 0);
        }
        let machine = Machine::new(options, &wake, standing)?;
        let options = &machine.options;
        let hub = Hub::new(hub::Options {
            number: options.number,
            id: options.id,
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            total: options.total.clone(),
            gpu_names: options.gpu_names.clone(),
            procs_max: net::segment::CARRIER_SLOT,
            workers_max: options.workers_max,
            starts_max: (STARTS_PER_CORE * options.cores).max(STARTS_MIN),
            prestart: options.prestart,
            idle_ms_max: options.idle_ms_max,
            rings_max: options.rings_max.min(machine.shared.segment.rings()),
            link_idle_ms_max: options.link_idle_ms_max,
            grace_ms_max: options.grace_ms_max,
        });
        machine.poll.watch(&wake, token::WAKE).map_err(|errno| Error::Io { what: "watching", cause: errno.into() })?;
        let memory = Memory::new(&options.memory);
        Ok(Self { hub, machine, memory, wake, commands, room_look: None })
    }

    /// One step of the core, and then what its body has learnt meanwhile.
    pub(crate) fn step<R>(&mut self, step: impl FnOnce(&mut Hub<Machine>, &mut Step<'_, Machine>) -> R) -> R {
        let result = step(&mut self.hub, &mut Step { now: now(), body: &mut self.machine });
        while let Some((dead, label)) = self.machine.deaths.pop_front() {
            self.logs_of_dead(&dead, label);
        }
        while let Some(at) = self.machine.conns.take_broken() {
            self.on_conn_closed(at);
        }
        result
    }

    /// Serves until it is told to stop; then ends everything it started.
    pub(crate) fn run(mut self, is_stopping: &AtomicBool) {
        self.start_zygote();
        self.step(|hub, step| hub.open(step));
        self.enter_cluster();
        let mut events = Vec::with_capacity(256);
        while !self.machine.is_stopping {
            let timeout = self.timeout();
            events.clear();
            let waited = self.machine.poll.wait(&mut events, timeout.as_ref());
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
        self.leave_cluster();
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
                Some(Command::Connect(socket)) => _ = self.machine.conns.add(socket, None),
                Some(Command::Stop) => self.machine.is_stopping = true,
                None => break,
            }
        }
        self.hear_carrier();
    }

    fn on_knock(&mut self) {
        loop {
            let Some(listener) = &self.machine.listener else { return };
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
                self.machine.conns.add(socket, None);
            }
        }
    }

    /// Nothing is polled while nothing waits.
    fn timeout(&self) -> Option<Timespec> {
        if self.machine.logs.is_behind() {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let now = now();
        let next = [
            self.hub.next_deadline(now),
            self.next_memory_look(),
            self.machine.zygote.next_start(),
            self.machine.logs.next_look(),
            self.room_look,
            self.machine.abroad.as_ref().and_then(|abroad| abroad.values.next_look()),
        ];
        let next = next.into_iter().flatten().min()?;
        let wait_us = next.0.saturating_sub(now.0).clamp(1_000, 60_000_000);
        Some(Timespec { tv_sec: (wait_us / 1_000_000) as i64, tv_nsec: (wait_us % 1_000_000 * 1_000) as i64 })
    }

    fn on_time(&mut self, now: Tick) {
        self.look_after_logs(now);
        self.step(|hub, step| hub.on_time(step));
        self.look_at_memory(now);
        if self.room_look.is_some_and(|at| at <= now) {
            self.room_look = None;
            self.find_room_for_carrier();
        }
        if let Some(abroad) = &self.machine.abroad {
            abroad.values.on_time(now);
        }
        if self.machine.zygote.next_start().is_some_and(|next| next <= now) {
            self.start_zygote();
        }
    }

    /// The node says who it is, if it is to belong to a cluster.
    fn enter_cluster(&mut self) {
        let Some(abroad) = &self.machine.abroad else { return };
        if abroad.head.is_none() {
            let info = abroad.info.clone();
            self.hub.found(info);
            self.machine.standing.is(Ok(()));
        }
    }

    /// Others hear that the node goes because somebody wants it to.
    fn leave_cluster(&mut self) {
        if self.machine.abroad.is_none() {
            return;
        }
        self.step(|hub, step| hub.leave(step, "it was stopped"));
        if let Some(mut abroad) = self.machine.abroad.take() {
            abroad.stop();
        }
    }

    fn hear_carrier(&mut self) {
        let Some(abroad) = &self.machine.abroad else { return };
        for told in abroad.take_told() {
            self.on_told(told);
        }
    }

    fn on_told(&mut self, told: Told) {
        match told {
            Told::Hub(said) => self.step(|hub, step| match said {
                ToHub::Said { node, message } => hub.on_between(step, node, message),
                ToHub::Died { death, last } => hub.on_died_there(step, death, last),
                ToHub::WantLink { here, there } => hub.want_link(step, here, there),
                ToHub::LinkClosed { here, there } => hub.carrier_let_go(step, here, there),
                ToHub::Flushed { ticket, sent } => hub.flushed(step, ticket, sent),
                ToHub::Reached { ticket } => hub.reached(step, ticket),
                ToHub::Parted { node, last } => hub.parted(step, node, last),
            }),
            Told::HeadUp(head) => {
                let Some(abroad) = &self.machine.abroad else { return };
                let (me, head) = (abroad.info.clone(), abroad.head_info(head));
                self.step(|hub, step| hub.enter(step, me, head));
            }
            Told::HeadLost(why) => self.step(|hub, step| hub.head_lost(step, &why)),
            // One that was let in and has not come is no member that the hub could part from.
            Told::Lost(node, _) if self.hub.nodes().all(|info| info.number != node) => {
                self.machine.ask(Ask::Part(node))
            }
            Told::Lost(node, why) => self.step(|hub, step| hub.node_lost(step, node, &why)),
            Told::Failed(why) => self.step(|_, step| hub::Body::left_cluster(step.body, &why)),
            Told::WantExtent(length) => {
                self.machine.carrier_wants = Some(length);
                self.find_room_for_carrier();
            }
            Told::Unreached(why) => self.step(|hub, step| hub.notice_all(step, "node_unreachable", &why)),
            Told::Values(order) => self.on_values(order),
            Told::Broken(who) => {
                let verdict = model::WorkerExit::Intended("what it wrote for other nodes was nonsense".into());
                self.step(|hub, step| hub.kill_worker(step, who, verdict));
            }
        }
        if self.hub.is_member() && !self.machine.is_open() {
            self.machine.open_doors();
        }
    }

    /// What the threads that move large values want.
    fn on_values(&mut self, order: Order) {
        match order {
            Order::Answer { to, request, found } => {
                let answer = Answer::Fetched(found);
                hub::Body::tell(&mut self.machine, to, FromNode::Answer { request, answer });
            }
            Order::FreePlace { holder, place } => {
                let sender = ProcId::of_node(self.machine.options.number);
                let message = Peer::FreePlace(place);
                hub::Body::tell(&mut self.machine, holder, FromNode::Relay { sender, message });
                // If its writer is dead, what keeps it was all that kept it.
                self.step(|hub, step| hub.note_orphans(step));
            }
            Order::Room { length, to } => {
                let carrier = ProcId::new(self.machine.options.number, net::segment::CARRIER_SLOT, 0);
                // Whoever has asked may have given up.
                let _ = to.try_send(hub::Body::grant(&mut self.machine, carrier, length).ok());
            }
            Order::Return(extents) => {
                let carrier = ProcId::new(self.machine.options.number, net::segment::CARRIER_SLOT, 0);
                for store::Extent { offset, length } in extents {
                    self.step(|hub, step| hub.return_extent(step, carrier, offset, length));
                }
            }
            Order::Moved { round, bytes } => self.step(|hub, step| hub.kept_for_others_moved(step, round, bytes)),
        }
    }

    fn find_room_for_carrier(&mut self) {
        let Some(length) = self.machine.carrier_wants else { return };
        match self.machine.shared.host.grant(net::segment::CARRIER_SLOT, length) {
            Ok(extent) => {
                self.machine.carrier_wants = None;
                self.machine.ask(Ask::Extent(Some((extent.offset, extent.length))));
            }
            Err(_) => self.room_look = Some(now().plus_ms(ROOM_LOOK_MS)),
        }
    }

    /// A driver's process has ended: its death must not depend on its socket, which a forked child may hold open.
    fn on_driver_pidfd(&mut self, slot: u16) {
        if let Some(id) = self.hub.at_slot(slot) {
            self.hear(id);
            self.step(|hub, step| hub.process_died(step, id, model::WorkerExit::Unknown));
        }
    }

    /// Listens no more; drivers that knock are told so.
    pub(crate) fn close_doors(&mut self) {
        self.machine.listener = None;
        if let Some(path) = &self.machine.options.listen {
            let _ = std::fs::remove_file(path);
        }
    }
}
