//! What is done to processes: they are killed, stopped and let run on.

use model::WorkerExit;

use crate::env::Env;
use crate::network::{Fault, Item, Order, Pid};
use crate::process::{Frame, Role};
use crate::world::World;

impl World {
    /// What concerns a stopped process waits until it runs on.
    pub(crate) fn held_back(&mut self, item: Item) -> Option<Item> {
        let concerned = match &item {
            Item::FromNode { to, .. } | Item::Frame { to, .. } => to,
            Item::Computed { process, .. }
            | Item::Answer { process }
            | Item::LetGo { process, .. }
            | Item::MakeRoom { process }
            | Item::Written { process }
            | Item::Look { process, .. }
            | Item::Looked { process, .. }
            | Item::AskAgain { process, .. }
            | Item::Unpin { process, .. }
            | Item::Step { process }
            | Item::Read { process, .. }
            | Item::OwnerTick { process } => process,
            _ => return Some(item),
        };
        match self.procs.get_mut(concerned).and_then(|process| process.stopped.as_mut()) {
            Some(held) => {
                held.push(item);
                None
            }
            None => Some(item),
        }
    }

    pub(crate) fn resume(&mut self, process: Pid) {
        let held = self.procs.get_mut(&process).and_then(|process| process.stopped.take());
        for item in held.into_iter().flatten() {
            self.env.queue.at_once(self.env.now, item);
        }
    }

    /// The process is gone at once; what it sent is under way; its node sees it a little later.
    pub(crate) fn kill(&mut self, pid: Pid, exit: WorkerExit) {
        let Some(process) = self.procs.remove(&pid) else { return };
        self.env.oracle.died(pid);
        let is_lost = self.env.oracle.is_lost(pid.0);
        if let Role::Worker(worker) = &process.role
            && let Some(task) = worker.running().filter(|_| !is_lost)
        {
            self.env.oracle.lost(task);
        }
        if let Role::Worker(worker) = &process.role
            && let Some(task) = worker.beginning().filter(|_| !is_lost)
        {
            self.env.oracle.never_began(task);
        }
        if let Role::Worker(worker) = &process.role
            && let Some(task) = worker.unanswered().filter(|_| !is_lost)
        {
            // It had an answer, and nobody got it.
            self.env.oracle.lost(task);
            self.env.oracle.reply_lost(task);
        }
        // What lay unread in its rings, others may still want back.
        for item in process.stopped.into_iter().flatten() {
            match item {
                Item::Frame { from, to, frame } if from.0 != to.0 || self.procs.contains_key(&from) => {
                    self.env.not_read(from, to, frame)
                }
                Item::Frame { frame: Frame::Written { first: Some(first), .. }, .. } => {
                    self.env.oracle.reply_lost(first)
                }
                _ => {}
            }
        }
        let Self { env, procs, .. } = self;
        env.lose_unread(pid, |other| procs.contains_key(other));
        if !process.journal.is_empty() {
            self.env.journals.insert(pid, process.journal);
        }
        let us = self.env.rng.between(10, 2_000);
        // The end of its stream comes behind all that it said, and is mostly seen before its death is.
        let when = model::Tick(self.env.now.0 + us);
        let us = self.env.rng.below(500);
        if us > 100 {
            self.env.queue.send(when, Order::Kept, Item::HungUp { process: pid });
        }
        let when = model::Tick(when.0 + us);
        self.env.queue.send(when, Order::Kept, Item::Ended { process: pid, exit });
    }

    /// Everyone is asked to move some of its values to files.
    fn make_room(&mut self) {
        let pids: Vec<Pid> = self.procs.keys().copied().collect();
        for process in pids {
            if self.env.rng.chance(700) {
                let us = self.env.rng.between(1, 3_000);
                self.env.later(us, Item::MakeRoom { process });
            }
        }
        for node in 0..self.nodes.len() {
            let us = self.env.rng.between(1, 3_000);
            self.env.later(us, Item::NodeRoom { node });
        }
        if !std::mem::take(&mut self.env.is_short) && self.env.has_faults() {
            self.env.plan_fault(Fault::Shortage);
        }
    }

    pub(crate) fn inject(&mut self, fault: Fault) {
        if fault == Fault::Shortage {
            return self.make_room();
        }
        if !self.env.has_faults() {
            return;
        }
        let of_role = |is_it: fn(&Role) -> bool| -> Vec<Pid> {
            self.procs.values().filter(|process| is_it(&process.role)).map(|process| process.pid).collect()
        };
        let drivers = of_role(|role| matches!(role, Role::Driver(_)));
        let workers = of_role(|role| matches!(role, Role::Worker(_)));
        let killed = WorkerExit::Signal(9, model::Remains::default());
        let counts = &mut self.env.counts;
        match fault {
            Fault::KillWorker => {
                if let Some(victim) = self.env.rng.pick(&workers).copied() {
                    counts.workers_killed += 1;
                    self.kill(victim, killed);
                }
            }
            Fault::KillOwner => {
                let is_owner = |pid: &&Pid| self.procs.get(*pid).is_some_and(|process| !process.journal.is_empty());
                let owners: Vec<Pid> = workers.iter().filter(is_owner).copied().collect();
                if let Some(victim) = self.env.rng.pick(&owners).copied() {
                    counts.workers_killed += 1;
                    self.kill(victim, killed);
                }
            }
            // Somebody must be left to tell.
            Fault::KillDriver => {
                if let Some(victim) = self.env.rng.pick(&drivers).copied().filter(|_| drivers.len() > 1) {
                    counts.drivers_killed += 1;
                    self.kill(victim, killed);
                }
            }
            Fault::HarmFile => {
                let Env { memories, rng, .. } = &mut self.env;
                let node = rng.below(memories.len() as u64) as usize;
                let harmed = memories[node].harm(|most| rng.below(most));
                self.env.counts.harmed += u64::from(harmed.is_some());
                harmed.into_iter().for_each(|file| self.env.file_harmed(node, file));
            }
            Fault::CutLine => self.cut_line(),
            Fault::KillNode => self.kill_node(),
            Fault::Shortage => unreachable!("seen above"),
            Fault::Pause => {
                let all: Vec<Pid> = self.procs.keys().copied().collect();
                if let Some(victim) = self.env.rng.pick(&all).copied() {
                    counts.paused += 1;
                    let process = self.procs.get_mut(&victim).expect("picked from the living");
                    if process.stopped.is_none() {
                        process.stopped = Some(Vec::new());
                        let us = self.env.rng.between(100, 100_000);
                        self.env.later(us, Item::Resume { process: victim });
                    }
                }
            }
        }
        self.env.plan_fault(fault);
    }
}
