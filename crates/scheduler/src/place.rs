//! Who is placed next, and who gets the next idle worker.
//!
//! HOT: once per lease.

use model::Tick;

use crate::table::{At, Granted, State};
use crate::{Effect, Grant, Scheduler};

impl Scheduler {
    /// Places all that fits, beginning with the `from`-th shape of the queue. A shape that got something
    /// goes to the end, so that shapes take turns.
    pub(crate) fn place_from(&mut self, from: usize, out: &mut Vec<Effect>) {
        if from == 0 && !self.groups.waiting.is_empty() {
            self.place_groups(out);
        }
        let mut position = from;
        while position < self.queue.len() {
            let index = self.queue[position];
            let shape = self.shapes.get(index);
            if shape.waiting == 0 {
                self.queue.remove(position);
            } else if self.is_closed() {
                position += 1;
            } else if let Some(choice) = shape.choose(&self.ledger.free, &self.devices.free)
                && !self.stands_back(shape)
                && self.may_have_one_more(index)
            {
                self.place_first(index, choice);
                self.man(out);
                let index = self.queue.remove(position);
                if self.shapes.get(index).waiting > 0 {
                    self.queue.push(index);
                }
            } else {
                position += 1;
            }
        }
    }

    /// The soft bound on workers per shape: blocked ones count, so that nested calls do not fill the
    /// node with processes; one more is let through after a while, so that they do not lock up either.
    fn may_have_one_more(&mut self, index: u32) -> bool {
        let shape = self.shapes.get_mut(index);
        let is_due = shape.capped_until.is_some_and(|until| until <= self.now);
        if is_due || !shape.is_full() {
            shape.capped_until = None;
            return true;
        }
        let back_off_ms = shape.cap_back_off_ms();
        let until = *shape.capped_until.get_or_insert_with(|| self.now.plus_ms(back_off_ms));
        self.look_again(until);
        false
    }

    pub(crate) fn look_again(&mut self, at: Tick) {
        self.look_at = Some(self.look_at.map_or(at, |sooner| sooner.min(at)));
    }

    fn place_first(&mut self, index: u32, choice: u16) {
        let shape = self.shapes.get_mut(index);
        let at = shape.first().expect("a shape in the queue has a lease that waits");
        shape.dequeue(&mut self.leases, at);
        shape.hold(&mut self.leases, at);
        let demand = shape.demand_at(choice);
        demand.take(&mut self.ledger.free);
        let gpus = self.devices.take(&demand.among, shape.gpu);
        self.groups.joined(shape.group);
        let lease = self.leases.get_mut(at);
        (lease.state, lease.choice, lease.gpus) = (State::Placed, choice, gpus);
        self.unmanned.push(&mut self.leases, at);
    }

    /// Gives idle workers to placed leases.
    pub(crate) fn man(&mut self, out: &mut Vec<Effect>) {
        while let Some(at) = self.unmanned.first() {
            let lease = self.leases.get(at);
            let env = &self.shapes.get(lease.shape).need.env;
            let Some(worker) = self.pool.lease(at, lease.job, env) else { return };
            self.unmanned.remove(&mut self.leases, at);
            let granted = Granted { worker, is_blocked: false, is_asked: false };
            self.leases.get_mut(at).state = State::Granted(granted);
            self.list_granted(at, granted);
            self.answer_again(at, out);
        }
    }

    pub(crate) fn answer_again(&self, at: At, out: &mut Vec<Effect>) {
        let lease = self.leases.get(at);
        if let State::Granted(Granted { worker, .. }) = lease.state {
            let grant = Grant { gpus: self.devices.names(&lease.gpus) };
            out.push(Effect::Granted { lease: lease.id, worker, grant });
        }
    }
}
