//! HOT: tasks of one shape and the workers leased for them. A few calls are pushed ahead to each worker; what waits behind a slow call
//! is taken back as soon as another worker has nothing to do.

use std::collections::VecDeque;

use model::{Failure, GroupId, Need, ProcId, Seat, TaskKey, Tick, Where, WorkerExit};

use crate::tasks::Stage;
use crate::{Effect, Owner};

/// Calls pushed ahead to one worker, the running one included.
pub const PIPELINE_MAX: usize = 64;
/// Requests for leases that one shape has open at a time.
const REQUESTS_MAX: usize = 2;
/// A lease that had nothing to do for this long is given back.
pub const LEASE_IDLE_MS: u64 = 500;
/// How long a lease that is wanted back may still be used, counted from its grant: handing it over call by call would cost more than the calls.
pub(crate) const TURN_MS: u64 = 2;

pub(crate) struct Pool {
    need: Need,
    pub(crate) queue: VecDeque<TaskKey>,
    pub(crate) leases: Vec<Lease>,
    pub(crate) requested: Vec<u64>,
}

pub(crate) struct Lease {
    pub(crate) number: u64,
    pub(crate) worker: ProcId,
    /// In the order in which they were pushed.
    pub(crate) under: VecDeque<TaskKey>,
    /// Its running call waits for something: nothing is pushed behind it.
    blocked: bool,
    /// The node wants it back, when its turn is over or it has nothing to do.
    pub(crate) asked: bool,
    turn_until: Tick,
    /// It goes back as soon as it is empty.
    pub(crate) revoked: bool,
    idle_since: Tick,
}

impl Owner {
    pub(crate) fn enter_pool(&mut self, key: TaskKey, out: &mut Vec<Effect>) {
        let index = self.pool_for(key);
        self.pools[index].queue.push_back(key);
        self.dispatch(index, out);
    }

    pub(crate) fn enter_pool_front(&mut self, key: TaskKey, out: &mut Vec<Effect>) {
        let index = self.pool_for(key);
        self.pools[index].queue.push_front(key);
        self.dispatch(index, out);
    }

    fn pool_for(&mut self, key: TaskKey) -> usize {
        let need = &self.task(key).expect("not ended").spec.template.need;
        // Most programs have one shape: look there before hashing.
        if let Some(index) = self.pools.iter().take(2).position(|pool| pool.need == *need) {
            return index;
        }
        if let Some(index) = self.pool_of.get(need) {
            return *index;
        }
        let need = need.clone();
        let pool = Pool { need: need.clone(), queue: VecDeque::new(), leases: Vec::new(), requested: Vec::new() };
        let index = self.vacant_pools.pop().unwrap_or(self.pools.len());
        self.pool_of.insert(need, index);
        match self.pools.get_mut(index) {
            Some(vacant) => *vacant = pool,
            None => self.pools.push(pool),
        }
        index
    }

    /// Groups come and go, and each has needs of its own: a pool of theirs that is not used leaves its place to another.
    fn vacate_if_unused(&mut self, index: usize) {
        let pool = &mut self.pools[index];
        let is_of_group = matches!(pool.need.at, Where::Bundle(seat) if seat.group != GroupId::NIL);
        if !is_of_group || !pool.queue.is_empty() || !pool.leases.is_empty() || !pool.requested.is_empty() {
            return;
        }
        // No task has this need.
        let nowhere = Where::Bundle(Seat { group: GroupId::NIL, bundle: None, captures: false });
        let need = std::mem::replace(&mut pool.need, Need { at: nowhere, ..Need::default() });
        self.pool_of.remove(&need);
        self.vacant_pools.push(index);
    }

    /// The node will never have a worker for one of our requests: what waits for one like it fails.
    pub fn on_lease_refused(&mut self, number: u64, why: &Failure, out: &mut Vec<Effect>) {
        let Some(index) = self.leases.get(&number).copied() else { return };
        let pool = &mut self.pools[index];
        if !pool.requested.contains(&number) {
            return;
        }
        pool.requested.retain(|open| *open != number);
        self.leases.remove(&number);
        for key in std::mem::take(&mut self.pools[index].queue) {
            if matches!(self.task(key), Some(task) if task.stage == Stage::Queued) {
                self.finish_failed(key, why.clone(), out);
            }
        }
        self.vacate_if_unused(index);
    }

    /// A task ended while it waited for a worker: only its key is left here.
    pub(crate) fn left_queue(&mut self, need: &Need, out: &mut Vec<Effect>) {
        if let Some(index) = self.pool_of.get(need).copied() {
            self.dispatch(index, out);
        }
    }

    /// Pushes what can be pushed, and asks for more workers if there is more work than workers.
    fn dispatch(&mut self, index: usize, out: &mut Vec<Effect>) {
        while let Some(key) = self.pools[index].queue.front().copied() {
            // Cancelled tasks are finished where they are cancelled and only leave their key here.
            if !matches!(self.task(key), Some(task) if task.stage == Stage::Queued) {
                self.pools[index].queue.pop_front();
                continue;
            }
            let Some(at) = self.pools[index].best_lease() else { break };
            let pool = &mut self.pools[index];
            pool.queue.pop_front();
            let lease = &mut pool.leases[at];
            lease.under.push_back(key);
            let worker = lease.worker;
            let task = self.task_mut(key).expect("checked above");
            debug_assert_eq!(task.stage, Stage::Queued, "OWN-3: pushed while under way");
            task.stage = Stage::Under { worker, ticket: 0 };
            out.push(Effect::Push { task: key, worker });
        }
        self.request_leases(index, out);
    }

    fn request_leases(&mut self, index: usize, out: &mut Vec<Effect>) {
        let pool = &mut self.pools[index];
        let usable = pool.leases.iter().filter(|lease| lease.is_usable());
        let (usable, under) = usable.fold((0, 0), |(count, under), lease| (count + 1, under + lease.under.len()));
        let work = pool.queue.len() + under;
        let want = work.saturating_sub(usable + pool.requested.len());
        if want == 0 || pool.requested.len() >= REQUESTS_MAX {
            return;
        }
        let count = want.min(REQUESTS_MAX - pool.requested.len());
        let name: Box<str> = pool
            .queue
            .front()
            .or_else(|| pool.leases.iter().find_map(|lease| lease.under.front()))
            .copied()
            .and_then(|key| self.task(key))
            .map_or_else(|| Box::from(""), |task| task.spec.template.name.clone());
        for _ in 0..count {
            let number = self.lease_next;
            self.lease_next += 1;
            let pool = &mut self.pools[index];
            pool.requested.push(number);
            let need = pool.need.clone();
            self.leases.insert(number, index);
            out.push(Effect::RequestLease { number, need, name: name.clone() });
        }
    }

    /// The node found a worker for one of our requests.
    pub fn on_lease_granted(&mut self, now: Tick, number: u64, worker: ProcId, out: &mut Vec<Effect>) {
        let Some(index) = self.leases.get(&number).copied() else {
            // Taken back meanwhile; the node may not have known yet.
            out.push(Effect::ReturnLease { number });
            return;
        };
        let pool = &mut self.pools[index];
        if let Some(lease) = pool.leases.iter().find(|lease| lease.number == number) {
            // Another worker: the one before is dead, which is told by another way, and a request that came twice got this one.
            if lease.worker != worker {
                out.push(Effect::ReturnLease { number });
            }
            return;
        }
        pool.requested.retain(|open| *open != number);
        pool.leases.push(Lease {
            number,
            worker,
            under: VecDeque::new(),
            blocked: false,
            asked: false,
            turn_until: now.plus_ms(TURN_MS),
            revoked: false,
            idle_since: now,
        });
        self.lease_of_worker.insert(worker, number);
        self.dispatch(index, out);
        self.steal(index, out);
    }

    /// The node wants a lease back: it is returned once it has nothing to do, or after its turn.
    pub fn on_lease_revoked(&mut self, now: Tick, number: u64, out: &mut Vec<Effect>) {
        let Some(index) = self.leases.get(&number).copied() else { return };
        let Some(lease) = self.pools[index].leases.iter_mut().find(|lease| lease.number == number) else {
            // Never granted, as far as we know: the node has no rings for it. The next tick asks again if there is need.
            self.pools[index].requested.retain(|open| *open != number);
            self.leases.remove(&number);
            return;
        };
        lease.asked = true;
        lease.end_turn(now, out);
        self.return_if_done(index, number, out);
    }

    fn return_if_done(&mut self, index: usize, number: u64, out: &mut Vec<Effect>) {
        let pool = &mut self.pools[index];
        let is_done = |lease: &Lease| lease.under.is_empty() && (lease.revoked || lease.asked && pool.queue.is_empty());
        if let Some(at) = pool.leases.iter().position(|lease| lease.number == number && is_done(lease)) {
            let lease = pool.leases.swap_remove(at);
            self.forget_lease(&lease);
            out.push(Effect::ReturnLease { number });
            self.request_leases(index, out);
        }
    }

    fn forget_lease(&mut self, lease: &Lease) {
        self.leases.remove(&lease.number);
        if self.lease_of_worker.get(&lease.worker) == Some(&lease.number) {
            self.lease_of_worker.remove(&lease.worker);
        }
    }

    fn lease_of(&mut self, worker: ProcId) -> Option<(usize, usize)> {
        let number = *self.lease_of_worker.get(&worker)?;
        let index = *self.leases.get(&number)?;
        let at = self.pools[index].leases.iter().position(|lease| lease.number == number)?;
        Some((index, at))
    }

    /// A call came back from a leased worker: there is room for another one.
    pub(crate) fn lease_progressed(&mut self, now: Tick, worker: ProcId, key: TaskKey, out: &mut Vec<Effect>) {
        let Some((index, at)) = self.lease_of(worker) else { return };
        let lease = &mut self.pools[index].leases[at];
        if lease.under.front() == Some(&key) {
            lease.under.pop_front();
            lease.blocked = false;
        } else {
            lease.under.retain(|under| *under != key);
        }
        let (number, is_empty) = (lease.number, lease.under.is_empty());
        if is_empty {
            lease.idle_since = now;
        }
        lease.end_turn(now, out);
        let (is_asked, is_revoked) = (lease.asked, lease.revoked);
        if !is_revoked && !self.pools[index].queue.is_empty() {
            self.dispatch(index, out);
        } else if !is_asked && is_empty {
            self.steal(index, out);
        }
        if is_asked {
            self.return_if_done(index, number, out);
        }
    }

    /// A worker gave a call back: its running call waits, or it takes none any more. Nothing is pushed there until that call ends; if
    /// none runs there, the lease comes back by being revoked or by being idle for long.
    pub(crate) fn lease_gave_back(&mut self, now: Tick, worker: ProcId, key: TaskKey, out: &mut Vec<Effect>) {
        let Some((index, at)) = self.lease_of(worker) else { return };
        let lease = &mut self.pools[index].leases[at];
        lease.blocked = true;
        lease.under.retain(|under| *under != key);
        if lease.under.is_empty() {
            lease.idle_since = now;
        }
        lease.end_turn(now, out);
        let number = lease.number;
        self.return_if_done(index, number, out);
    }

    /// Somebody has nothing to do: asks for half of what waits behind the busiest worker.
    fn steal(&mut self, index: usize, out: &mut Vec<Effect>) {
        let pool = &self.pools[index];
        let idle = pool.leases.iter().filter(|lease| lease.under.is_empty() && lease.is_usable()).count();
        if idle == 0 || !pool.queue.is_empty() {
            return;
        }
        let Some(busiest) = pool.leases.iter().max_by_key(|lease| lease.under.len()) else { return };
        let waiting = busiest.under.len().saturating_sub(1);
        let take = waiting.div_ceil(2);
        out.extend(
            busiest.under.iter().rev().take(take).map(|task| Effect::TakeBack { task: *task, worker: busiest.worker }),
        );
    }

    /// A call was taken back before it started.
    pub fn on_took_back(&mut self, now: Tick, key: TaskKey, from: ProcId, out: &mut Vec<Effect>) {
        let Some(task) = self.task_mut(key) else { return };
        let target = task.spec.target;
        if !matches!(task.stage, Stage::Under { worker, .. } if worker == from) {
            return;
        }
        if let crate::Target::Actor(actor) = target {
            self.actor_forgets(actor, key);
            self.requeue(key, out);
            return self.send_calls(actor, out);
        }
        let Some((index, at)) = self.lease_of(from) else { return };
        let lease = &mut self.pools[index].leases[at];
        lease.under.retain(|under| *under != key);
        let (number, is_empty) = (lease.number, lease.under.is_empty());
        if is_empty {
            lease.idle_since = now;
        }
        self.requeue(key, out);
        // One that was cancelled ends, and leaves its room to others.
        self.dispatch(index, out);
        self.return_if_done(index, number, out);
        // From another node calls come back late, one that was wanted for several idle workers once for all of them.
        self.steal(index, out);
    }

    /// A leased worker is dead. `started` tells of a ticket whether its call had started.
    ///
    /// tour(retry) 7: a call that had not started is sent elsewhere for free; one that had costs a retry, or fails with code, signal and
    /// stack.
    pub fn on_worker_died(
        &mut self,
        worker: ProcId,
        exit: &WorkerExit,
        mut started: impl FnMut(u64) -> bool,
        out: &mut Vec<Effect>,
    ) {
        if let Some((index, at)) = self.lease_of(worker) {
            let lease = self.pools[index].leases.swap_remove(at);
            self.forget_lease(&lease);
            // The last one first: each goes to the front of the queue.
            for key in lease.under.iter().rev() {
                let ticket = match self.task(*key).map(|task| task.stage) {
                    Some(Stage::Under { ticket, .. }) => ticket,
                    _ => continue,
                };
                self.task_lost(*key, started(ticket), exit, out);
            }
            self.request_leases(index, out);
        }
        self.orphans_lost(worker, exit, out);
        self.actor_worker_died(worker, started, out);
    }

    /// Time passed: gives back what had nothing to do for long, asks again for what was not given.
    pub fn on_tick(&mut self, now: Tick, out: &mut Vec<Effect>) {
        for index in 0..self.pools.len() {
            let pool = &mut self.pools[index];
            let mut idle = Vec::new();
            pool.leases.retain_mut(|lease| {
                lease.end_turn(now, out);
                let keep = !lease.under.is_empty() || now.ms_since(lease.idle_since) < LEASE_IDLE_MS;
                if !keep {
                    idle.push((lease.number, lease.worker));
                }
                keep
            });
            let is_quiet = pool.queue.is_empty() && pool.leases.iter().all(|lease| lease.under.len() <= 1);
            let requested = if is_quiet { std::mem::take(&mut pool.requested) } else { Vec::new() };
            for (number, worker) in idle {
                self.leases.remove(&number);
                if self.lease_of_worker.get(&worker) == Some(&number) {
                    self.lease_of_worker.remove(&worker);
                }
                out.push(Effect::ReturnLease { number });
            }
            for number in requested {
                self.leases.remove(&number);
                out.push(Effect::ReturnLease { number });
            }
            self.request_leases(index, out);
            self.vacate_if_unused(index);
        }
    }

    /// Whether any lease is held or asked for: `on_tick` is needed.
    #[must_use]
    pub fn needs_tick(&self) -> bool {
        !self.leases.is_empty() || self.pools.iter().any(|pool| !pool.queue.is_empty())
    }
}

impl Lease {
    /// If it was asked for and its turn is over: nothing new goes there, and what has not started is taken back.
    fn end_turn(&mut self, now: Tick, out: &mut Vec<Effect>) {
        if self.asked && !self.revoked && (now >= self.turn_until || self.blocked) {
            self.revoked = true;
            let worker = self.worker;
            out.extend(self.under.iter().skip(1).map(|task| Effect::TakeBack { task: *task, worker }));
        }
    }

    fn is_usable(&self) -> bool {
        !self.blocked && !self.revoked
    }
}

impl Pool {
    /// An idle worker, the latest one first (it is warm and may still spin); else the least loaded one with room.
    pub(crate) fn best_lease(&self) -> Option<usize> {
        let mut best: Option<usize> = None;
        let mut least = (PIPELINE_MAX, Tick(0));
        for (at, lease) in self.leases.iter().enumerate().filter(|(_, lease)| lease.is_usable()) {
            let rank = (lease.under.len(), Tick(u64::MAX - lease.idle_since.0));
            if rank < least {
                least = rank;
                best = Some(at);
            }
        }
        best
    }
}
