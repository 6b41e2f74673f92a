//! Which leases are asked back because somebody else waits.
//!
//! For each waiting lease that would fit if leases that run tasks came back, the fewest that are needed
//! are asked for, and none if even all would not do (unless more is held than there is: then every lease that comes back helps). What was
//! asked for before counts as if it were back.
//!
//! The waiting owner holds `h` leases of the shape that waits; another (owner, shape) that holds `k`
//! which could be asked back gives one up if `k > h + 1`, or if `h` is zero, or if more is held than there is. So owners come to hold
//! about the same, and where there are more owners than places they take turns. An actor stays, so it
//! never takes turns: for it `h` counts as zero. The same shape is asked first, then the one that holds
//! most; of its leases the youngest.
//!
//! One that needs several leases back may see the first of them taken by a smaller one before the last
//! is there. So that this does not go round and round, a shape asks for leases of which one alone is not
//! enough at most every ten milliseconds.

use model::ProcId;

use crate::devices::{self, Ask};
use crate::ledger::Demand;
use crate::shape::Shape;
use crate::table::{At, Granted, Lease, State};
use crate::{Effect, LeaseKind, Scheduler};

const ASK_MS: u64 = 10;

/// What would be free if all leases that were asked for came back.
#[derive(Default)]
pub(crate) struct Outlook {
    free: Vec<i64>,
    gpus: Vec<i64>,
}

impl Outlook {
    #[inline]
    fn fits(&self, shape: &Shape) -> bool {
        shape.choose(&self.free, &self.gpus).is_some()
    }

    /// Takes what a lease of the shape, which fits, would take.
    fn take(&mut self, shape: &Shape) {
        let demand = shape.demand_at(shape.choose(&self.free, &self.gpus).unwrap_or(0));
        demand.take(&mut self.free);
        devices::take(&mut self.gpus, &demand.among, shape.gpu);
    }

    fn give(&mut self, shape: &Shape, lease: &Lease) {
        shape.demand_at(lease.choice).give(&mut self.free);
        devices::give(&mut self.gpus, shape.gpu, &lease.gpus);
    }

    /// The inverse of `give`.
    fn take_back(&mut self, shape: &Shape, lease: &Lease) {
        shape.demand_at(lease.choice).take(&mut self.free);
        lease.gpus.iter().for_each(|&gpu| self.gpus[usize::from(gpu)] -= shape.gpu.parts());
    }

    #[inline]
    fn is_helped(&self, waiting: &Shape, held_gpu: Ask, held: &Demand) -> bool {
        let lacks_gpu = |demand: &Demand| !devices::fits(&self.gpus, &demand.among, waiting.gpu);
        let gpu_helps = held_gpu != Ask::Nothing && waiting.has_choice(lacks_gpu);
        gpu_helps || waiting.has_choice(|demand| demand.is_helped_by(held, &self.free))
    }
}

/// On whose behalf a lease is asked back.
#[derive(Clone, Copy)]
struct Waiter {
    owner: ProcId,
    shape: u32,
    held: u32,
}

impl Scheduler {
    /// Asks for leases back on behalf of what waits.
    pub(crate) fn revoke(&mut self, out: &mut Vec<Effect>) {
        let has_groups = !self.groups.waiting.is_empty();
        if self.revocable_count == 0 || (self.queue.is_empty() && !has_groups) {
            return;
        }
        let mut outlook = std::mem::take(&mut self.outlook);
        outlook.free.clone_from(&self.ledger.free);
        outlook.gpus.clone_from(&self.devices.free);
        for at in self.asked.iter(&self.leases) {
            let lease = self.leases.get(at);
            outlook.give(self.shapes.get(lease.shape), lease);
        }
        if has_groups {
            self.revoke_for_groups(&mut outlook.free, &mut outlook.gpus, out);
        }
        for position in 0..self.queue.len() {
            self.revoke_for_shape(self.queue[position], &mut outlook, out);
        }
        self.outlook = outlook;
    }

    fn revoke_for_shape(&mut self, index: u32, outlook: &mut Outlook, out: &mut Vec<Effect>) {
        let shape = self.shapes.get(index);
        if shape.is_full() && shape.capped_until.is_some_and(|until| until > self.now) {
            return;
        }
        let takes_turns = shape.kind == LeaseKind::Tasks;
        let mut key = None;
        loop {
            key = self.shapes.get(index).next_owner(key);
            let Some((held, _, owner)) = key else { return };
            let mut waiter = Waiter { owner, shape: index, held: if takes_turns { held } else { 0 } };
            for _ in 0..self.shapes.get(index).waiting_of(owner) {
                if !outlook.fits(self.shapes.get(index)) && !self.ask_enough(waiter, outlook, out) {
                    return;
                }
                outlook.take(self.shapes.get(index));
                waiter.held += u32::from(takes_turns);
            }
        }
    }

    /// Asks for as many as it takes for the waiter to fit, or for none.
    fn ask_enough(&mut self, waiter: Waiter, outlook: &mut Outlook, out: &mut Vec<Effect>) -> bool {
        let mut picked: Vec<At> = Vec::new();
        while !outlook.fits(self.shapes.get(waiter.shape)) {
            let Some(at) = self.candidate(waiter, outlook).filter(|&at| self.may_ask(waiter.shape, at)) else {
                if self.is_overdrawn_for(waiter.shape) && !picked.is_empty() {
                    // Workers that waited run again, more than there is room for. What others hold without using it must come back
                    // first, or everyone waits for that.
                    break;
                }
                for at in picked.into_iter().rev() {
                    let lease = self.leases.get(at);
                    outlook.take_back(self.shapes.get(lease.shape), lease);
                    self.set_asked(at, false);
                }
                let again_at = self.shapes.get(waiter.shape).ask_again_at;
                if again_at > self.now {
                    self.look_again(again_at);
                }
                return false;
            };
            let lease = self.leases.get(at);
            outlook.give(self.shapes.get(lease.shape), lease);
            self.set_asked(at, true);
            picked.push(at);
        }
        if picked.iter().any(|&at| !self.is_enough(waiter.shape, at)) {
            self.shapes.get_mut(waiter.shape).ask_again_at = self.now.plus_ms(ASK_MS);
        }
        out.extend(picked.into_iter().map(|at| Effect::Revoke(self.leases.get(at).id)));
        outlook.fits(self.shapes.get(waiter.shape))
    }

    fn may_ask(&self, waiting: u32, at: At) -> bool {
        self.now >= self.shapes.get(waiting).ask_again_at || self.is_enough(waiting, at)
    }

    /// Whether a lease of the shape fits as soon as this one is back.
    fn is_enough(&self, waiting: u32, at: At) -> bool {
        let held = self.demand_held(self.shapes.get(self.leases.get(at).shape), at);
        self.shapes.get(waiting).has_choice(|demand| demand.fits_with(&self.ledger.free, held))
    }

    /// What a lease of the shape holds.
    pub(crate) fn demand_held<'a>(&self, shape: &'a Shape, at: At) -> &'a Demand {
        if shape.is_single() { &shape.demand } else { shape.demand_at(self.leases.get(at).choice) }
    }

    /// Whether more cores are held than there are where a lease of the shape may be.
    fn is_overdrawn_for(&self, index: u32) -> bool {
        self.shapes.get(index).has_choice(|demand| self.ledger.is_overdrawn(demand))
    }

    fn candidate(&self, waiter: Waiter, outlook: &Outlook) -> Option<At> {
        let waiting = self.shapes.get(waiter.shape);
        let is_overdrawn = self.is_overdrawn_for(waiter.shape);
        let yields = |count: u32| count > waiter.held + 1 || waiter.held == 0 || is_overdrawn;
        if let Some((count, at)) = waiting.most_revocable(Some(waiter.owner))
            && yields(count)
            && outlook.is_helped(waiting, waiting.gpu, self.demand_held(waiting, at))
        {
            return Some(at);
        }
        let mut best = None;
        let mut most = 0;
        for (index, shape) in self.shapes.iter() {
            if let Some((count, at)) = shape.most_revocable(None)
                && count > most
                && yields(count)
                && index != waiter.shape
                && outlook.is_helped(waiting, shape.gpu, self.demand_held(shape, at))
            {
                (best, most) = (Some(at), count);
            }
        }
        best
    }

    pub(crate) fn set_asked(&mut self, at: At, is_asked: bool) {
        let State::Granted(granted) = self.leases.get(at).state else { unreachable!("only a granted lease is asked") };
        self.unlist_granted(at, granted);
        let granted = Granted { is_asked, ..granted };
        self.leases.get_mut(at).state = State::Granted(granted);
        self.list_granted(at, granted);
    }

    /// Puts a granted lease into the list that its state says.
    pub(crate) fn list_granted(&mut self, at: At, granted: Granted) {
        let shape = self.shapes.get_mut(self.leases.get(at).shape);
        if granted.is_blocked || shape.kind == LeaseKind::Actor {
            return;
        }
        if granted.is_asked {
            self.asked.push(&mut self.leases, at);
        } else {
            shape.add_revocable(&mut self.leases, at);
            self.revocable_count += 1;
        }
    }

    /// Takes it out again.
    pub(crate) fn unlist_granted(&mut self, at: At, granted: Granted) {
        let shape = self.shapes.get_mut(self.leases.get(at).shape);
        if granted.is_blocked || shape.kind == LeaseKind::Actor {
            return;
        }
        if granted.is_asked {
            self.asked.remove(&mut self.leases, at);
        } else {
            shape.remove_revocable(&mut self.leases, at);
            self.revocable_count -= 1;
        }
    }
}
