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

use crate::devices;
use crate::shape::Shape;
use crate::table::{At, Granted, State};
use crate::{Effect, LeaseKind, Scheduler};

const ASK_MS: u64 = 10;

/// What would be free if all leases that were asked for came back.
#[derive(Default)]
pub(crate) struct Outlook {
    free: Vec<i64>,
    gpus: Vec<i64>,
}

impl Outlook {
    fn fits(&self, shape: &Shape) -> bool {
        shape.demand.fits(&self.free) && devices::fits(&self.gpus, shape.gpu)
    }

    fn take(&mut self, shape: &Shape) {
        shape.demand.take(&mut self.free);
        devices::take(&mut self.gpus, shape.gpu);
    }

    fn give(&mut self, shape: &Shape, gpus: &[u16]) {
        shape.demand.give(&mut self.free);
        devices::give(&mut self.gpus, shape.gpu, gpus);
    }

    /// The inverse of `give`.
    fn take_back(&mut self, shape: &Shape, gpus: &[u16]) {
        shape.demand.take(&mut self.free);
        gpus.iter().for_each(|&gpu| self.gpus[usize::from(gpu)] -= shape.gpu.parts());
    }

    fn is_helped(&self, waiting: &Shape, held: &Shape) -> bool {
        let gpu_helps = held.gpu != devices::Ask::Nothing && !devices::fits(&self.gpus, waiting.gpu);
        gpu_helps || waiting.demand.is_helped_by(&held.demand, &self.free)
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
        if self.revocable_count == 0 || self.queue.is_empty() {
            return;
        }
        let mut outlook = std::mem::take(&mut self.outlook);
        outlook.free.clone_from(&self.ledger.free);
        outlook.gpus.clone_from(&self.devices.free);
        for at in self.asked.iter(&self.leases) {
            let lease = self.leases.get(at);
            outlook.give(self.shapes.get(lease.shape), &lease.gpus);
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
                if self.ledger.is_overdrawn() && !picked.is_empty() {
                    // Workers that waited run again, more than there is room for. What others hold without using it must come back
                    // first, or everyone waits for that.
                    break;
                }
                for at in picked.into_iter().rev() {
                    let lease = self.leases.get(at);
                    outlook.take_back(self.shapes.get(lease.shape), &lease.gpus);
                    self.set_asked(at, false);
                }
                let again_at = self.shapes.get(waiter.shape).ask_again_at;
                if again_at > self.now {
                    self.look_again(again_at);
                }
                return false;
            };
            let lease = self.leases.get(at);
            outlook.give(self.shapes.get(lease.shape), &lease.gpus);
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
        let held = &self.shapes.get(self.leases.get(at).shape).demand;
        self.shapes.get(waiting).demand.fits_with(&self.ledger.free, held)
    }

    fn candidate(&self, waiter: Waiter, outlook: &Outlook) -> Option<At> {
        let waiting = self.shapes.get(waiter.shape);
        let is_overdrawn = self.ledger.is_overdrawn();
        let yields = |count: u32| count > waiter.held + 1 || waiter.held == 0 || is_overdrawn;
        let of_shape = |index: u32, shape: &Shape| {
            let except = (index == waiter.shape).then_some(waiter.owner);
            shape
                .most_revocable(except)
                .filter(|(count, _)| yields(*count) && outlook.is_helped(waiting, shape))
                .map(|(count, at)| (count, std::cmp::Reverse(index), at))
        };
        of_shape(waiter.shape, waiting)
            .or_else(|| self.shapes.iter().filter_map(|(index, shape)| of_shape(index, shape)).max())
            .map(|(_, _, at)| at)
    }

    fn set_asked(&mut self, at: At, is_asked: bool) {
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
