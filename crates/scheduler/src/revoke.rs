//! Which leases are asked back because somebody else waits.
//!
//! For each waiting lease that would fit if leases that run tasks came back, the fewest that are needed
//! are asked for, and none if even all would not do. What was asked for before counts as if it were back.
//! The waiting owner holds `h` leases of the shape that waits; another (owner, shape) that holds `k`
//! which could be asked back gives one up if `k > h + 1`, or if `h` is zero. So owners come to hold
//! about the same, and where there are more owners than places they take turns. An actor stays, so it
//! never takes turns: for it `h` counts as zero. The same shape is asked first, then the one that holds
//! most; of its leases the youngest.

use model::ProcId;

use crate::devices;
use crate::shape::Shape;
use crate::table::{At, Granted, State};
use crate::{Effect, LeaseKind, Scheduler};

/// What would be free if all leases that were asked for came back.
struct Outlook {
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
        if self.revocable_count == 0 || (self.queue.is_empty() && self.unmanned.len() == 0) {
            return;
        }
        if !self.queue.is_empty() {
            let mut outlook = self.outlook();
            for position in 0..self.queue.len() {
                self.revoke_for_shape(self.queue[position], &mut outlook, out);
            }
        }
        self.revoke_for_unmanned(out);
    }

    fn outlook(&self) -> Outlook {
        let mut outlook = Outlook { free: self.ledger.free.clone(), gpus: self.devices.free.clone() };
        for at in self.asked.iter(&self.leases) {
            let lease = self.leases.get(at);
            outlook.give(self.shapes.get(lease.shape), &lease.gpus);
        }
        outlook
    }

    fn revoke_for_shape(&mut self, index: u32, outlook: &mut Outlook, out: &mut Vec<Effect>) {
        let mut key = None;
        let mut promised = 0;
        loop {
            let shape = self.shapes.get(index);
            key = shape.next_owner(key);
            let Some((mut held, _, owner)) = key else { return };
            if shape.kind == LeaseKind::Actor {
                held = 0;
            }
            for _ in 0..shape.waiting_of(owner) {
                let shape = self.shapes.get(index);
                if shape.soft_max.is_some_and(|most| shape.held + promised >= most) {
                    return;
                }
                let waiter = Waiter { owner, shape: index, held };
                if !outlook.fits(shape) && !self.ask_enough(waiter, outlook, out) {
                    return;
                }
                outlook.take(self.shapes.get(index));
                promised += 1;
                held += u32::from(self.shapes.get(index).kind == LeaseKind::Tasks);
            }
        }
    }

    /// Asks for as many as it takes for the waiter to fit, or for none.
    fn ask_enough(&mut self, waiter: Waiter, outlook: &mut Outlook, out: &mut Vec<Effect>) -> bool {
        let mut picked: Vec<At> = Vec::new();
        while !outlook.fits(self.shapes.get(waiter.shape)) {
            let Some(at) = self.candidate(waiter, outlook) else {
                for at in picked.into_iter().rev() {
                    let lease = self.leases.get(at);
                    let shape = self.shapes.get(lease.shape);
                    shape.demand.take(&mut outlook.free);
                    lease.gpus.iter().for_each(|&gpu| outlook.gpus[usize::from(gpu)] -= shape.gpu.parts());
                    self.set_asked(at, false);
                }
                return false;
            };
            let lease = self.leases.get(at);
            outlook.give(self.shapes.get(lease.shape), &lease.gpus);
            self.set_asked(at, true);
            picked.push(at);
        }
        out.extend(picked.into_iter().map(|at| Effect::Revoke(self.leases.get(at).id)));
        true
    }

    fn candidate(&self, waiter: Waiter, outlook: &Outlook) -> Option<At> {
        let waiting = self.shapes.get(waiter.shape);
        let yields = |count: u32| count > waiter.held + 1 || waiter.held == 0;
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

    /// Where no process may be added, a placed lease gets its worker from another lease.
    fn revoke_for_unmanned(&mut self, out: &mut Vec<Effect>) {
        let coming = self.pool.starting() + self.asked.len();
        if self.pool.room() > 0 || self.unmanned.len() <= coming {
            return;
        }
        for _ in coming..self.unmanned.len() {
            let most = self.shapes.iter().filter_map(|(_, shape)| shape.most_revocable(None)).max();
            let Some((_, at)) = most else { return };
            self.set_asked(at, true);
            out.push(Effect::Revoke(self.leases.get(at).id));
        }
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
