//! The changes of state that several events share.

use model::{ActorDeath, ActorId, JobId, Need, ProcId};

use crate::{ActorState, Actors, Effect, Record};

const STILLBORN_AT_ONCE: u32 = 2;
const BACK_OFF_MS_MIN: u64 = 100;
const BACK_OFF_MS_MAX: u64 = 10_000;

/// What becomes of the process of an actor that ends.
#[derive(Clone, Copy)]
pub(crate) enum Parting {
    /// It may run its exit handlers.
    Graceful,
    /// It ends at once.
    Abrupt,
    /// It is gone already.
    Gone,
}

/// What a `kill` means for an actor.
pub(crate) enum Kill {
    /// Ends this life and uses up a restart.
    Restart,
    /// Ends it.
    ForGood,
    /// It was dead before; only its name is free now.
    Again,
}

impl Kill {
    pub(crate) fn of(record: &Record, no_restart: bool) -> Self {
        match record.death() {
            Some(_) => Self::Again,
            None if no_restart => Self::ForGood,
            None => Self::Restart,
        }
    }
}

impl Actors {
    /// Ends this life and begins the next if a restart is left; else it is dead for the cause given.
    pub(crate) fn restart_or_die(
        &mut self,
        actor: ActorId,
        cause: ActorDeath,
        parting: Parting,
        out: &mut Vec<Effect>,
    ) {
        if self.records[&actor].restarts_left() == Some(0) {
            return self.die(actor, cause, parting, out);
        }
        self.end_life(actor, parting, out);
        let record = self.records.get_mut(&actor).expect("a known actor");
        record.state = ActorState::Restarting;
        record.incarnation += 1;
        record.stillborn += u32::from(!record.is_built && !matches!(cause, ActorDeath::Killed));
        (record.is_built, record.is_leaving) = (false, false);
        let (incarnation, wait_ms) = (record.incarnation, back_off_ms(record.stillborn));
        self.publish(actor, out);
        if wait_ms == 0 {
            out.push(Effect::Place { actor, incarnation });
        } else {
            self.postponed.insert((self.now.plus_ms(wait_ms), actor, incarnation));
        }
    }

    /// It is dead for good. Nothing happens to one that is dead already, or forgotten.
    pub(crate) fn die(&mut self, actor: ActorId, cause: ActorDeath, parting: Parting, out: &mut Vec<Effect>) {
        if self.records.get(&actor).is_none_or(|record| record.death().is_some()) {
            return;
        }
        self.end_life(actor, parting, out);
        let record = self.records.get_mut(&actor).expect("a known actor");
        // Who made it may want to see what became of it, and that it needs to be made anew.
        let keeps_name = record.holds_name && record.is_owned() && matches!(cause, ActorDeath::Crashed(_));
        record.state = ActorState::Dead(cause);
        // Nobody builds or places it again.
        record.creation.spec = Box::default();
        record.creation.options.need = Need::default();
        self.publish(actor, out);
        if !keeps_name {
            self.disown(actor);
        }
        self.bury(actor);
    }

    /// Nobody answers for a dead actor any more: its name is free.
    pub(crate) fn disown(&mut self, actor: ActorId) {
        self.release_name(actor);
        if let Some(record) = self.records.get(&actor) {
            self.by_owner.remove(&(record.creation.owner, actor));
            self.by_job.remove(&(record.creation.job, actor));
        }
    }

    pub(crate) fn release_name(&mut self, actor: ActorId) {
        if let Some(record) = self.records.get_mut(&actor).filter(|record| record.holds_name) {
            record.holds_name = false;
            let options = &record.creation.options;
            self.names.remove(&options.namespace, &options.name);
        }
    }

    pub(crate) fn publish(&self, actor: ActorId, out: &mut Vec<Effect>) {
        out.push(Effect::Publish(self.view(actor)));
    }

    pub(crate) fn owned_by(&self, owner: ProcId) -> Vec<ActorId> {
        let from = (owner, ActorId([0; ActorId::LENGTH]));
        self.by_owner.range(from..).take_while(|(other, _)| *other == owner).map(|(_, actor)| *actor).collect()
    }

    pub(crate) fn of_job(&self, job: JobId) -> Vec<ActorId> {
        let from = (job, ActorId([0; ActorId::LENGTH]));
        self.by_job.range(from..).take_while(|(other, _)| *other == job).map(|(_, actor)| *actor).collect()
    }

    /// Whether a detached actor made it, or one that such a one made: then it lives as long as its maker.
    pub(crate) fn outlives_job(&self, actor: ActorId) -> bool {
        let mut record = &self.records[&actor];
        // A maker is older than what it makes. The bound is for news that contradict this.
        for _ in 0..self.records.len() {
            if !record.is_owned() {
                return true;
            }
            let maker = self.by_worker.get(&record.creation.owner).and_then(|maker| self.records.get(maker));
            match maker.filter(|maker| maker.worker() == Some(record.creation.owner)) {
                Some(maker) => record = maker,
                None => return false,
            }
        }
        false
    }

    fn end_life(&mut self, actor: ActorId, parting: Parting, out: &mut Vec<Effect>) {
        let record = &self.records[&actor];
        let incarnation = record.incarnation;
        let before = self.postponed.len();
        self.postponed.retain(|(_, postponed, _)| *postponed != actor);
        if self.postponed.len() < before {
            return; // it had asked for no place yet
        }
        match (&record.state, parting) {
            (ActorState::Pending | ActorState::Restarting, _) => out.push(Effect::Unplace { actor, incarnation }),
            (ActorState::Alive { .. }, Parting::Gone) | (ActorState::Dead(_), _) => {}
            (&ActorState::Alive { worker }, Parting::Graceful | Parting::Abrupt) => {
                out.push(Effect::EndWorker { worker, gracefully: matches!(parting, Parting::Graceful) });
            }
        }
    }

    fn bury(&mut self, actor: ActorId) {
        self.dead.push_back(actor);
        if self.dead.len() > self.dead_max {
            let oldest = self.dead.pop_front().expect("more than the bound");
            self.disown(oldest);
            self.records.remove(&oldest);
        }
    }
}

/// How long the next life of an actor waits whose last ones ended in their constructor. The first two come at once: a worker may be
/// killed by anyone. After that each would cost a process for nothing.
fn back_off_ms(stillborn: u32) -> u64 {
    match stillborn.checked_sub(STILLBORN_AT_ONCE + 1) {
        None => 0,
        Some(more) => (BACK_OFF_MS_MIN << more.min(10)).min(BACK_OFF_MS_MAX),
    }
}
