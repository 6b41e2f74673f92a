//! The leases this node knows, and lists threaded through them.
//!
//! HOT: once per lease. A lease is in at most one list at a time, so the links live in the lease:
//! queueing, cancelling and granting cost no allocation and no search.

use model::{JobId, LeaseId, ProcId, Tick};
use rustc_hash::FxHashMap;

/// Place in the table. Not kept across events by anyone outside this crate.
pub(crate) type At = u32;

const NONE: At = At::MAX;

/// One lease, from its request to its end.
pub(crate) struct Lease {
    pub(crate) id: LeaseId,
    pub(crate) job: JobId,
    pub(crate) shape: u32,
    /// Which of the shape's demands it holds, once placed.
    pub(crate) choice: u16,
    pub(crate) since: Tick,
    /// Order of arrival.
    pub(crate) arrival: u64,
    pub(crate) state: State,
    /// Devices it holds, once placed.
    pub(crate) gpus: Vec<u16>,
    before: At,
    after: At,
}

/// Where a lease is in its life. The list it is in follows from this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// In its owner's queue.
    Waiting,
    /// Holds its resources, in the list of those without a worker.
    Placed,
    /// Has a worker.
    Granted(Granted),
    /// Its worker was told to end; it holds its resources until the process is gone. In no list. It may have something to finish first, and
    /// lends its cores out while it is blocked, as before.
    Ending { is_blocked: bool },
}

/// How a granted lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) worker: ProcId,
    /// Its cores are lent out. In no list: a blocked worker cannot be given back soon.
    pub(crate) is_blocked: bool,
    /// `Revoke` was sent.
    pub(crate) is_asked: bool,
}

/// Slots of leases, found by place or by id.
#[derive(Default)]
pub(crate) struct Table {
    slots: Vec<Option<Lease>>,
    vacant: Vec<At>,
    by_id: FxHashMap<LeaseId, At>,
}

/// What a lease starts with.
pub(crate) struct Request {
    pub(crate) id: LeaseId,
    pub(crate) job: JobId,
    pub(crate) shape: u32,
    pub(crate) since: Tick,
    pub(crate) arrival: u64,
}

impl Table {
    pub(crate) fn insert(&mut self, request: Request) -> At {
        let Request { id, job, shape, since, arrival } = request;
        let state = State::Waiting;
        let lease =
            Lease { id, job, shape, choice: 0, since, arrival, state, gpus: Vec::new(), before: NONE, after: NONE };
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            At::try_from(self.slots.len() - 1).expect("fewer leases than u32 counts")
        });
        self.slots[at as usize] = Some(lease);
        self.by_id.insert(id, at);
        at
    }

    pub(crate) fn remove(&mut self, at: At) -> Lease {
        let lease = self.slots[at as usize].take().expect("a live lease");
        self.by_id.remove(&lease.id);
        self.vacant.push(at);
        lease
    }

    pub(crate) fn find(&self, id: LeaseId) -> Option<At> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn get(&self, at: At) -> &Lease {
        self.slots[at as usize].as_ref().expect("a live lease")
    }

    pub(crate) fn get_mut(&mut self, at: At) -> &mut Lease {
        self.slots[at as usize].as_mut().expect("a live lease")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (At, &Lease)> {
        self.slots.iter().enumerate().filter_map(|(at, slot)| Some((at as At, slot.as_ref()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }
}

/// First in, first out; removal from the middle is as cheap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: At,
    last: At,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE, len: 0 }
    }
}

impl List {
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn first(&self) -> Option<At> {
        (self.first != NONE).then_some(self.first)
    }

    pub(crate) fn last(&self) -> Option<At> {
        (self.last != NONE).then_some(self.last)
    }

    pub(crate) fn push(&mut self, table: &mut Table, at: At) {
        let lease = table.get_mut(at);
        (lease.before, lease.after) = (self.last, NONE);
        match self.last {
            NONE => self.first = at,
            last => table.get_mut(last).after = at,
        }
        self.last = at;
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, table: &mut Table, at: At) {
        let lease = table.get_mut(at);
        let (before, after) = (lease.before, lease.after);
        (lease.before, lease.after) = (NONE, NONE);
        match before {
            NONE => self.first = after,
            before => table.get_mut(before).after = after,
        }
        match after {
            NONE => self.last = before,
            after => table.get_mut(after).before = before,
        }
        self.len -= 1;
    }

    pub(crate) fn iter<'a>(&self, table: &'a Table) -> impl Iterator<Item = At> + 'a {
        std::iter::successors(self.first(), |&at| {
            let after = table.get(at).after;
            (after != NONE).then_some(after)
        })
    }
}
