//! Large values between nodes: what `depot::Depot` decides, carried out. Threads of their own bring them and give them away, by lines of their
//! own, so that nothing else waits for them; there are none while nothing moves.
//!
//! `line` is one such line, `pulling` and `serving` are its two ends, `growing` is what comes in and goes on at the same time.

mod growing;
mod line;
mod pulling;
mod serving;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use depot::{Depot, Effect, Given};
use model::{Bulk, Place, ProcId, Tick};
use net::Bell;
use net::clock::now;
use rustc_hash::FxHashMap;
use store::{Extent, View};
use wire::abroad::AboutValues;
use wire::asking::NotFetched;
use wire::session::NodeLife;

use self::growing::Growing;
pub(crate) use self::line::Line;
use crate::abroad::{Belonging, Queue, Told};

/// Room that is kept for the next values, and what part of the arena that is at most.
const KEEP_BYTES: u64 = 64 << 20;
const KEEP_SHARE: u64 = 8;
/// How often is looked whether what was freed is looked at by nobody any more.
const SWEEP_MS: u64 = 500;

/// Who waits for a value here, and how its request was numbered.
type Waiter = (ProcId, u64);

/// What the node's own thread is to do.
pub(crate) enum Order {
    /// Answer a process.
    Answer { to: ProcId, request: u64, found: Result<Bulk, NotFetched> },
    /// Tell who wrote a value that nobody needs it.
    FreePlace { holder: ProcId, place: Place },
    /// Say whether there is room in the arena.
    Room { length: u64, to: SyncSender<Option<(u64, u64)>> },
    /// Take room back.
    Return(Vec<Extent>),
    /// What was kept for other nodes has left the arena, as far as it does.
    Moved { round: u64, bytes: u64 },
}

pub(crate) struct Values {
    number: u32,
    /// This node takes calls.
    is_callable: bool,
    belonging: Arc<Belonging>,
    store: store::Client,
    files: Arc<store::Files>,
    told: Queue<Told>,
    wake: OwnedFd,
    asks: Queue<crate::abroad::Ask>,
    bell: Bell,
    state: Mutex<State>,
    has_jobs: Condvar,
    is_stopping: AtomicBool,
}

struct State {
    depot: Depot<Waiter>,
    /// What is coming in.
    growing: FxHashMap<Bulk, Arc<Growing>>,
    /// Keep what is kept for other nodes, whoever dies.
    kept: FxHashMap<Bulk, View>,
    nodes: FxHashMap<u32, (NodeLife, Option<SocketAddr>)>,
    /// What is to be pulled, and from where. Each value once (DEPOT-2).
    jobs: VecDeque<(Bulk, u32)>,
    pullers: usize,
    idle_pullers: usize,
    servers: usize,
    /// Who waits for calls.
    tickets: FxHashMap<u64, SyncSender<Line>>,
    last_ticket: u64,
    /// What was freed while somebody looked at it is looked at again then.
    sweep_at: Option<Tick>,
}

/// What it needs of its node.
pub(crate) struct Parts {
    pub(crate) number: u32,
    pub(crate) is_callable: bool,
    pub(crate) belonging: Arc<Belonging>,
    pub(crate) store: store::Client,
    pub(crate) files: Arc<store::Files>,
    pub(crate) told: Queue<Told>,
    pub(crate) wake: OwnedFd,
    pub(crate) asks: Queue<crate::abroad::Ask>,
    pub(crate) bell: Bell,
}

impl Values {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { number, is_callable, belonging, store, files, told, wake, asks, bell } = parts;
        let state = State {
            depot: Depot::new(number),
            growing: FxHashMap::default(),
            kept: FxHashMap::default(),
            nodes: FxHashMap::default(),
            jobs: VecDeque::new(),
            pullers: 0,
            idle_pullers: 0,
            servers: 0,
            tickets: FxHashMap::default(),
            last_ticket: 0,
            sweep_at: None,
        };
        Self {
            number,
            is_callable,
            belonging,
            store,
            files,
            told,
            wake,
            asks,
            bell,
            state: Mutex::new(state),
            has_jobs: Condvar::new(),
            is_stopping: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_jobs<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> (MutexGuard<'a, State>, bool) {
        let (state, waited) = self.has_jobs.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner);
        (state, waited.timed_out())
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// The node ends: nothing comes and nothing goes any more.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.lock().growing.values().for_each(|growing| growing.break_off());
        self.has_jobs.notify_all();
    }

    fn is_member(&self, node: u32) -> bool {
        self.lock().nodes.contains_key(&node)
    }

    /// Lets the brain decide, and does what it says.
    fn with_depot<R>(self: &Arc<Self>, decide: impl FnOnce(&mut Depot<Waiter>, &mut Vec<Effect<Waiter>>) -> R) -> R {
        let mut out = Vec::new();
        let mut state = self.lock();
        let result = decide(&mut state.depot, &mut out);
        let (mut pulls, mut has_freed) = (0, false);
        for effect in out {
            match effect {
                Effect::Answer { to: (to, request), found } => self.order(Order::Answer { to, request, found }),
                Effect::Pull { bulk, from } => {
                    state.jobs.push_back((bulk, from));
                    pulls += 1;
                }
                Effect::Drop { at, .. } => {
                    self.discard(at);
                    has_freed = true;
                }
                Effect::LetGo { bulk, at, holder } => {
                    state.kept.remove(&bulk);
                    match (bulk, at) {
                        (Bulk::Stored(place), Bulk::Stored(_)) => self.order(Order::FreePlace { holder, place }),
                        (_, at) => self.discard(at),
                    }
                }
                Effect::Say(node, about) => self.say(node, about),
            }
        }
        drop(state);
        (0..pulls).for_each(|_| self.wake_puller());
        if has_freed {
            self.give_back_idle();
        }
        result
    }

    /// Room that nothing lies in is the node's again, but for some.
    pub(crate) fn give_back_idle(&self) {
        let idle = self.store.idle_extents(KEEP_BYTES.min(self.store.capacity() / KEEP_SHARE));
        if !idle.is_empty() {
            self.order(Order::Return(idle));
        }
        // Nobody says when whoever looks at the rest does so no more.
        self.lock().sweep_at = self.store.keeps_freed().then(|| now().plus_ms(SWEEP_MS));
    }

    /// A value in this thread's own part of the arena, or in a file of its own.
    fn discard(&self, at: Bulk) {
        match at {
            Bulk::Stored(place) => {
                let freed = self.store.free(place);
                debug_assert!(freed.is_ok(), "freed what is not ours: {place:?}: {freed:?}");
            }
            Bulk::Filed(filed) => self.files.remove(filed.file),
        }
    }

    fn order(&self, order: Order) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push_back(Told::Values(order));
        let _ = rustix::io::write(self.wake.as_fd(), &1_u64.to_ne_bytes());
    }

    pub(crate) fn node_joined(&self, life: NodeLife, address: Option<SocketAddr>) {
        let mut state = self.lock();
        state.nodes.insert(life.node, (life, address));
        state.depot.node_joined(life.node, address.is_some());
    }

    pub(crate) fn node_gone(self: &Arc<Self>, node: u32) {
        self.lock().nodes.remove(&node);
        self.with_depot(|depot, out| depot.node_gone(node, out));
    }

    pub(crate) fn fetch(self: &Arc<Self>, to: ProcId, request: u64, bulk: Bulk, is_probe: bool) {
        if !is_probe || bulk.node() == self.number {
            return self.with_depot(|depot, out| depot.wants(now(), bulk, (to, request), out));
        }
        if !self.is_member(bulk.node()) {
            // Somebody else may have a copy: then it is brought.
            return self.with_depot(|depot, out| depot.wants(now(), bulk, (to, request), out));
        }
        let values = self.clone();
        let probe = move || {
            let found = match values.probe(bulk) {
                Ok(true) => Ok(bulk),
                Ok(false) => Err(NotFetched::Moved),
                Err(error) => Err(NotFetched::Later(error.to_string().into())),
            };
            values.order(Order::Answer { to, request, found });
        };
        if let Err(error) = spawn("eagleray-probe", probe) {
            let found = Err(NotFetched::Later(error.to_string().into()));
            self.order(Order::Answer { to, request, found });
        }
    }

    /// What will be needed here soon.
    pub(crate) fn will_want(self: &Arc<Self>, bulks: impl IntoIterator<Item = Bulk>) {
        self.with_depot(|depot, out| bulks.into_iter().for_each(|bulk| depot.will_want(now(), bulk, out)));
    }

    pub(crate) fn free(self: &Arc<Self>, bulk: Bulk) {
        self.with_depot(|depot, out| depot.free(bulk, out));
    }

    /// A value of this node's is one's of another node from now on. `view` keeps it.
    pub(crate) fn keep(self: &Arc<Self>, given: Given, view: Option<View>) {
        if let Some(view) = view {
            self.lock().kept.insert(given.bulk, view);
        }
        self.with_depot(|depot, out| depot.keep(now(), given, out));
    }

    /// As `keep`, for what goes by way of the node. None of those that are not there.
    pub(crate) fn keep_for(self: &Arc<Self>, holder: ProcId, owner: ProcId, bulks: Vec<Bulk>) {
        for bulk in bulks {
            let (at, view) = match bulk {
                Bulk::Stored(place) => (bulk, self.store.pin_to_keep(place).ok()),
                // Named after its writer it would go with that one.
                Bulk::Filed(filed) => (self.files.take_over(filed).map_or(bulk, Bulk::Filed), None),
            };
            self.keep(Given { bulk, at, owner, holder }, view);
        }
    }

    pub(crate) fn inherit(self: &Arc<Self>, bulk: Bulk, by: ProcId) {
        self.with_depot(|depot, out| depot.inherit(bulk, by, out));
    }

    pub(crate) fn process_died(self: &Arc<Self>, peer: ProcId, heir: Option<ProcId>) {
        self.with_depot(|depot, out| depot.process_died(peer, heir, out));
    }

    pub(crate) fn settled_here(self: &Arc<Self>, of: ProcId) {
        self.with_depot(|depot, out| depot.settled_here(of, out));
    }

    pub(crate) fn on_word(self: &Arc<Self>, from: u32, about: AboutValues) {
        match about {
            AboutValues::CallMe { ticket } => self.call_for(from, ticket),
            about => self.with_depot(|depot, out| depot.on_word(now(), from, about, out)),
        }
    }

    /// Copies of others' values, and values that are kept for others.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let (copies, kept) = self.lock().depot.counts();
        (copies as u64, kept as u64)
    }

    pub(crate) fn next_look(&self) -> Option<Tick> {
        let state = self.lock();
        state.depot.next_look().into_iter().chain(state.sweep_at).min()
    }

    /// What others have copies of may have been freed.
    pub(crate) fn on_time(self: &Arc<Self>, now: Tick) {
        if self.lock().sweep_at.is_some_and(|at| at <= now) {
            self.give_back_idle();
        }
        if self.next_look().is_some_and(|at| at <= now) {
            let is_there = |bulk| match bulk {
                Bulk::Stored(place) => self.store.pin(place).is_ok(),
                Bulk::Filed(filed) => self.files.is_there(&filed),
            };
            self.with_depot(|depot, out| depot.look(now, is_there, out));
        }
    }

    /// Somebody needs room: drops copies, and gives back what is not used.
    pub(crate) fn make_room(self: &Arc<Self>, bytes: u64) -> Vec<Extent> {
        let is_looked_at = |at| matches!(at, Bulk::Stored(place) if self.store.is_looked_at(place, 0));
        self.with_depot(|depot, out| depot.make_room(now(), bytes, is_looked_at, out));
        self.store.idle_extents(0)
    }

    /// Somebody needs room: writes what is kept for other nodes to files. False: there is none.
    pub(crate) fn move_kept(self: &Arc<Self>, round: u64, bytes: u64) -> bool {
        let is_looked_at = |bulk| matches!(bulk, Bulk::Stored(place) if self.store.is_looked_at(place, 1));
        let movable = self.lock().depot.movable(bytes, is_looked_at);
        if movable.is_empty() || !self.files.is_on() {
            return false;
        }
        let values = self.clone();
        let work = move || {
            let moved = movable.iter().filter_map(|bulk| values.move_one(*bulk)).sum();
            values.order(Order::Moved { round, bytes: moved });
        };
        spawn("eagleray-move", work).is_ok()
    }

    fn move_one(self: &Arc<Self>, bulk: Bulk) -> Option<u64> {
        let Bulk::Stored(place) = bulk else { return None };
        let view = self.store.pin(place).ok()?;
        let filed = *self.files.write(&[view.as_slice()]).ok()?.first()?;
        drop(view);
        let mut state = self.lock();
        match state.depot.moved(bulk, Bulk::Filed(filed)) {
            Some(holder) => {
                state.kept.remove(&bulk);
                self.order(Order::FreePlace { holder, place });
                Some(place.length)
            }
            // It was freed meanwhile.
            None => {
                self.files.remove(filed.file);
                None
            }
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    net::without_signals(|| std::thread::Builder::new().name(name.into()).spawn(run)).map(drop)
}
