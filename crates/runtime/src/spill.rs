//! Empties the arena into files when the node is short of room.
//!
//! The owner of a value moves it: it alone knows who may still ask for it. A thread of its own does so, which starts with the first
//! shortage and never takes the interpreter's lock. It waits for nothing but the disk or object store, so room is always made in the end.
//! The same thread moves the arguments of tasks that are kept to be run again, where those are too much for memory, and reads them back; and it
//! looks for values that somebody did not find (`lost.rs`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, Weak};

use model::{Bulk, Filed, ObjectId, ProcId, TaskKey};
use owner::Movable;
use store::{Draft, View};
use wire::control::ToNode;

use crate::state::State;
use crate::{Error, Runtime, value};

/// Small values are written side by side until a file is this long.
const FILE_BYTES: u64 = 64 << 20;

/// Rounds that wait: the node asks again only after it was answered, or tired of waiting.
const ROUNDS_MAX: usize = 4;

/// The thread that writes, once there is one.
pub(crate) struct Spill {
    of: Weak<Runtime>,
    orders: Mutex<Option<Sender<Order>>>,
    /// Rounds that wait.
    rounds: AtomicUsize,
}

pub(crate) enum Order {
    /// Make room in the arena.
    Room { round: u64, bytes: u64 },
    /// Move what the owner says of its lineage. One at a time.
    Lineage,
    /// Read the arguments of a task. As many as there are such tasks.
    Arguments { task: TaskKey, filed: Filed },
    /// Look for a value that a borrower did not find. As many as there are borrowers.
    Missing { from: ProcId, object: ObjectId, bulk: Bulk },
    /// Look for the arguments of a task whose worker did not find one. As many as there are such tasks.
    LookForArguments { task: TaskKey, why: Box<str> },
}

impl Spill {
    pub(crate) fn new(of: Weak<Runtime>) -> Self {
        Self { of, orders: Mutex::default(), rounds: AtomicUsize::new(0) }
    }
}

impl Runtime {
    /// The node is short of room: gives back what is not used, and moves what is, so many bytes of it. Answers when that is done.
    pub(crate) fn make_room(&self, round: u64, bytes: u64) {
        self.be_short();
        self.give_back_room(0);
        self.collect_for_room();
        if !self.files.is_on() || bytes == 0 || self.is_closed() {
            return self.send(&ToNode::GaveBack { round, bytes: 0 });
        }
        let has_place = self.spill.rounds.fetch_add(1, Ordering::Relaxed) < ROUNDS_MAX;
        if !has_place || !self.order(Order::Room { round, bytes }) {
            self.spill.rounds.fetch_sub(1, Ordering::Relaxed);
            self.send(&ToNode::GaveBack { round, bytes: 0 });
        }
    }

    /// Starts the thread if there is none yet. False if it cannot be.
    pub(crate) fn order(&self, order: Order) -> bool {
        let mut orders = self.spill.orders.lock().expect("never poisoned");
        if let Some(orders) = orders.as_ref() {
            return orders.send(order).is_ok();
        }
        if self.is_closed() {
            return false;
        }
        #[expect(clippy::disallowed_methods, reason = "as long as tasks wait for it, which are counted elsewhere")]
        let (sender, receiver) = channel();
        let runtime = self.spill.of.clone();
        let Ok(thread) = crate::start::spawn("eagleray-spill", move || run(&runtime, &receiver)) else { return false };
        let is_sent = sender.send(order).is_ok();
        *orders = Some(sender);
        self.threads.lock().expect("never poisoned").push(thread);
        is_sent
    }

    /// The owner keeps more lineage than it may.
    #[cold]
    pub(crate) fn order_lineage(&self, state: &mut State) {
        if !self.order(Order::Lineage) {
            state.party.owner.on_lineage_stays(&mut state.party.effects);
        }
    }

    /// A task that runs again needs its arguments.
    #[cold]
    pub(crate) fn order_arguments(&self, state: &mut State, task: TaskKey, filed: Filed) {
        if !self.order(Order::Arguments { task, filed }) {
            let why = Err("no thread could read them".to_string());
            state.party.owner.on_arguments_read(task, why, &mut state.party.effects);
        }
    }

    fn move_lineage(&self) {
        let leaving = self.state.lock().expect("never poisoned").party.owner.lineage_to_move();
        let written = match leaving.lengths.is_empty() {
            true => Ok(Vec::new()),
            false => self.files.write_pieces(&leaving.bytes, &leaving.lengths),
        };
        self.with_state(|state| match written {
            Ok(filed) => {
                filed.iter().for_each(|filed| state.party.hold_file(Bulk::Filed(*filed)));
                state.party.owner.on_lineage_moved(&leaving, &filed, &mut state.party.effects);
            }
            Err(_) => state.party.owner.on_lineage_stays(&mut state.party.effects),
        });
    }

    fn read_arguments(&self, task: TaskKey, filed: Filed) {
        let read = self.files.load(&filed).map_err(|error| error.to_string());
        self.with_state(|state| state.party.owner.on_arguments_read(task, read, &mut state.party.effects));
    }

    /// The session ends: the thread does too, after the file that it writes.
    pub(crate) fn stop_spilling(&self) {
        self.spill.orders.lock().expect("never poisoned").take();
    }

    /// Moves values that nobody looks at, the longest unused first, until `wanted` bytes are free. Returns how many are.
    ///
    /// tour(object) 7: somebody needs room: what nobody looks at moves into a file, and is read in place there.
    fn spill(&self, wanted: u64) -> u64 {
        let candidates = {
            let mut state = self.state.lock().expect("never poisoned");
            self.drain(&mut state);
            let movable = state.party.owner.movable().into_iter();
            let held = |movable: &Movable| u32::from(state.party.lies_elsewhere(movable.place.offset));
            movable.map(|movable| (movable, held(&movable))).collect::<Vec<_>>()
        };
        let (mut freed, mut batch_bytes) = (0, 0);
        let mut batch: Vec<(Movable, View)> = Vec::new();
        for (movable, own_views) in candidates {
            if freed + batch_bytes >= wanted || self.is_closed() {
                break;
            }
            if self.is_away(Bulk::Stored(movable.place)) || self.store.is_looked_at(movable.place, own_views) {
                continue;
            }
            let Ok(view) = self.store.pin(movable.place) else { continue };
            batch.push((movable, view));
            batch_bytes += movable.place.length;
            if batch_bytes >= FILE_BYTES {
                let Ok(bytes) = self.write_out(std::mem::take(&mut batch)) else { return freed };
                freed += bytes;
                batch_bytes = 0;
            }
        }
        freed + self.write_out(batch).unwrap_or(0)
    }

    /// Writes values into one file, and lets go of where they lay.
    fn write_out(&self, batch: Vec<(Movable, View)>) -> Result<u64, store::Error> {
        if batch.is_empty() {
            return Ok(0);
        }
        let slices: Vec<&[u8]> = batch.iter().map(|(_, view)| view.as_slice()).collect();
        let filed = self.files.write(&slices)?;
        // Our own look must have ended when the place is freed, or it would be kept for us.
        let moved: Vec<(Movable, Filed)> = batch.into_iter().map(|(movable, _)| movable).zip(filed).collect();
        let bytes = self.with_state(|state| {
            moved.iter().for_each(|(_, filed)| state.party.hold_file(Bulk::Filed(*filed)));
            state.party.owner.on_moved(&moved, &mut state.party.effects)
        });
        self.give_back_room(0);
        Ok(bytes)
    }

    /// Room for a large value: in the arena, or in a file if there is none. Asks the node for more of the arena where needed, so it must
    /// not be called with the interpreter's lock held.
    ///
    /// # Errors
    /// If neither has room.
    ///
    /// tour(object) 2: room for it: in an extent that the process has, in one that the node gives, or in a file.
    pub fn reserve(&self, length: u64) -> Result<Draft, Error> {
        match self.reserve_arena(length) {
            Ok(block) => Ok(Draft::Arena(block)),
            Err(Error::StoreFull(_) | Error::TimedOut(_)) if self.files.is_on() => match self.files.reserve(length) {
                Ok(block) => Ok(Draft::File(block)),
                Err(error) => Err(Error::DiskFull(error.to_string())),
            },
            Err(error) => Err(error),
        }
    }

    /// The references in a large value. Of one in a file only the part that lists them is read.
    pub(crate) fn refs_in(&self, bulk: Bulk) -> Vec<(ObjectId, ProcId)> {
        debug_assert!(!self.is_away(bulk), "cannot be looked at: {bulk:?}");
        match bulk {
            Bulk::Stored(place) => {
                self.store.pin(place).map(|view| value::refs_of(view.as_slice())).unwrap_or_default()
            }
            Bulk::Filed(filed) => {
                let head = self.files.read(&filed, value::HEAD_BYTES as u64).unwrap_or_default();
                let bytes = value::refs_bytes(&head);
                if bytes == 0 {
                    return Vec::new();
                }
                value::refs_of(&self.files.read(&filed, bytes as u64).unwrap_or_default())
            }
        }
    }
}

impl Runtime {
    /// The bytes of a large value. None if they are not there.
    pub(crate) fn copy_of(&self, bulk: Bulk) -> Option<Vec<u8>> {
        let bytes = match bulk {
            Bulk::Stored(place) => self.store.pin(place).ok().map(|view| view.as_slice().to_vec()),
            Bulk::Filed(filed) => self.files.read(&filed, filed.length).ok(),
        };
        bytes.map(value::copied)
    }
}

fn run(runtime: &Weak<Runtime>, orders: &Receiver<Order>) {
    while let Ok(order) = orders.recv() {
        let Some(runtime) = runtime.upgrade().filter(|runtime| !runtime.is_closed()) else { return };
        match order {
            Order::Room { round, bytes } => {
                let bytes = runtime.spill(bytes);
                runtime.spill.rounds.fetch_sub(1, Ordering::Relaxed);
                runtime.send(&ToNode::GaveBack { round, bytes });
            }
            Order::Lineage => runtime.move_lineage(),
            Order::Arguments { task, filed } => runtime.read_arguments(task, filed),
            Order::Missing { from, object, bulk } => runtime.look_for_missing(from, object, bulk),
            Order::LookForArguments { task, why } => runtime.look_for_arguments(task, &why),
        }
    }
}
