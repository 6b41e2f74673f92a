//! What others may read of the actors, and what must always hold of them.

use model::{ActorDeath, ActorId, ProcId, Tick};

use crate::{ActorState, ActorView, Actors, Record};

impl Actors {
    /// What is known of an actor. `None`: nobody made it, or it died long ago.
    #[must_use]
    pub fn get(&self, actor: ActorId) -> Option<&Record> {
        self.records.get(&actor)
    }

    /// What a holder of a handle is to know. An unknown actor is dead and never existed.
    #[must_use]
    pub fn view(&self, actor: ActorId) -> ActorView {
        match self.records.get(&actor) {
            Some(record) => ActorView { actor, state: record.state.clone(), incarnation: record.incarnation },
            None => ActorView { actor, state: ActorState::Dead(ActorDeath::NeverExisted), incarnation: 0 },
        }
    }

    /// The actor that has the name. It may be dead: see `Record::death`.
    #[must_use]
    pub fn by_name(&self, namespace: &str, name: &str) -> Option<ActorId> {
        self.names.get(namespace, name)
    }

    /// (namespace, name, actor) of all that are not dead, in one namespace or in all; names in order.
    pub fn names<'a>(&'a self, namespace: Option<&'a str>) -> impl Iterator<Item = (&'a str, &'a str, ActorId)> {
        self.names.iter(namespace).filter(|(_, _, actor)| self.records[actor].death().is_none())
    }

    /// The actor that this process serves, if it lives on after its job.
    #[must_use]
    pub fn lasting_actor_of(&self, worker: ProcId) -> Option<ActorId> {
        let actor = *self.by_worker.get(&worker)?;
        let serves = self.records.get(&actor).is_some_and(|record| record.worker() == Some(worker));
        (serves && self.outlives_job(actor)).then_some(actor)
    }

    /// When a `Tick` is needed next, if nothing else happens.
    #[must_use]
    pub fn next_tick(&self) -> Option<Tick> {
        self.postponed.first().map(|(at, ..)| *at)
    }

    /// Every actor that is known, dead ones too, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Panics if one of the invariants listed in the crate's documentation does not hold. For tests and
    /// the simulator: it looks at everything.
    pub fn check_invariants(&self) {
        for record in self.records.values() {
            self.check_record(record);
        }
        for (namespace, name, actor) in self.names.iter(None) {
            let options = &self.records[&actor].creation.options;
            assert_eq!((&*options.namespace, &*options.name), (namespace, name), "CTL-1: {name} leads to another");
        }
        self.check_postponed();
        let dead = self.records.values().filter(|record| record.death().is_some()).count();
        assert_eq!(dead, self.dead.len(), "CTL-6: a dead actor is not counted");
        assert!(dead <= self.dead_max, "CTL-6: {dead} dead actors are remembered");
        let owned: std::collections::BTreeSet<_> = self.by_owner.iter().map(|(_, actor)| *actor).collect();
        assert!(self.by_job.iter().all(|(_, actor)| owned.contains(actor)), "CTL-5: indexes differ");
        assert_eq!(self.by_job.len(), self.by_owner.len(), "CTL-5: indexes differ");
    }

    fn check_postponed(&self) {
        for (_, actor, incarnation) in &self.postponed {
            let waits = self.records.get(actor).is_some_and(|record| {
                record.incarnation == *incarnation && matches!(record.state, ActorState::Restarting)
            });
            assert!(waits, "CTL-7: life {incarnation} of {actor} is postponed and does not wait");
        }
    }

    fn check_record(&self, record: &Record) {
        let actor = record.creation.actor;
        let options = &record.creation.options;
        let is_alive = record.death().is_none();
        let is_holder = !options.name.is_empty() && self.by_name(&options.namespace, &options.name) == Some(actor);
        assert_eq!(is_holder, record.holds_name, "CTL-1: {actor} and its name");
        assert!(!is_alive || is_holder || options.name.is_empty(), "CTL-1: {actor} lives without its name");
        if let Some(worker) = record.worker() {
            assert_eq!(self.by_worker.get(&worker), Some(&actor), "CTL-3: {worker} serves another");
        }
        let is_over = u32::try_from(options.restarts_max).is_ok_and(|most| record.incarnation > most);
        assert!(!is_over, "CTL-4: {actor} was started {} times more", record.incarnation);
        if record.is_owned() {
            let is_orphan = is_alive && self.gone.has(record.creation.owner);
            assert!(!is_orphan, "CTL-5: {actor} outlives the process that made it");
            let is_known = self.by_owner.contains(&(record.creation.owner, actor));
            assert!(is_known || !is_alive, "CTL-5: {actor} is not found by its owner");
        }
    }
}
