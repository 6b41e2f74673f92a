//! Carries the actor table's decisions out.

use model::{ActorId, LeaseId, ProcId};
use scheduler::LeaseKind;
use wire::control::{ActorPlace, ActorRegistration, FromNode, NamedActor};

use rustc_hash::FxHashMap;

use crate::looped::Node;

/// Leases of actors, at most one of each: which life of which actor asked.
#[derive(Default)]
pub(crate) struct ActorLeases {
    lives: FxHashMap<LeaseId, (ActorId, u32)>,
    by_actor: FxHashMap<ActorId, LeaseId>,
}

impl ActorLeases {
    pub(crate) fn get(&self, lease: &LeaseId) -> Option<&(ActorId, u32)> {
        self.lives.get(lease)
    }

    fn insert(&mut self, lease: LeaseId, life: (ActorId, u32)) {
        self.remove(life.0);
        self.by_actor.insert(life.0, lease);
        self.lives.insert(lease, life);
    }

    /// The lease that this very life asked for.
    fn of(&self, life: (ActorId, u32)) -> Option<LeaseId> {
        self.by_actor.get(&life.0).copied().filter(|lease| self.lives.get(lease) == Some(&life))
    }

    fn remove(&mut self, actor: ActorId) {
        if let Some(lease) = self.by_actor.remove(&actor) {
            self.lives.remove(&lease);
        }
    }
}

impl Node {
    /// Tells the actor table something and does what it says.
    pub(crate) fn act(&mut self, event: control::Event) {
        let mut effects = std::mem::take(&mut self.acted);
        self.actors.step(net::clock::now(), event, &mut effects);
        let done = std::mem::take(&mut effects);
        self.acted = effects;
        for effect in done {
            self.on_acted(effect);
        }
    }

    fn on_acted(&mut self, effect: control::Effect) {
        match effect {
            control::Effect::Answer { request, answer } => self.answer_creation(request, answer),
            control::Effect::Place { actor, incarnation } => self.place_actor(actor, incarnation),
            control::Effect::Unplace { actor, incarnation } => {
                if let Some(lease) = self.actor_leases.of((actor, incarnation)) {
                    self.actor_leases.remove(actor);
                    self.schedule(scheduler::Event::LeaseCancelled(lease));
                }
            }
            control::Effect::Build { actor, worker } => self.build_actor(actor, worker),
            control::Effect::Publish(view) => self.publish(&view),
            control::Effect::EndWorker { worker, gracefully } => {
                self.end_worker(worker, gracefully, "its actor was ended");
            }
        }
    }

    fn answer_creation(&mut self, request: ActorId, answer: control::Registered) {
        let Some(creator) = self.creators.remove(&request) else { return };
        let answer = match answer {
            control::Registered::Created(_) => ActorRegistration::Created,
            control::Registered::Existing(actor) => match self.named(actor) {
                Some(named) => ActorRegistration::Existing(named),
                None => ActorRegistration::NameTaken,
            },
            control::Registered::NameTaken => ActorRegistration::NameTaken,
        };
        if !matches!(answer, ActorRegistration::Created) {
            self.watchers.remove(&request);
        }
        self.tell(creator, &FromNode::ActorAnswer { request, answer });
    }

    pub(crate) fn named(&self, actor: ActorId) -> Option<NamedActor> {
        self.actors.get(actor).map(|record| NamedActor { actor, spec: record.creation.spec.to_vec() })
    }

    pub(crate) fn place_actor(&mut self, actor: ActorId, incarnation: u32) {
        let Some(record) = self.actors.get(actor) else { return };
        let (owner, job, need) = (record.creation.owner, record.creation.job, record.creation.options.need.clone());
        if let Some(why) = self.never_here(&need.at) {
            return self.act(control::Event::Displaced { actor, death: model::ActorDeath::Unschedulable(why) });
        }
        // Actor leases have numbers of their own, beyond those that owners give out.
        self.actor_lease_next += 1;
        let lease = LeaseId { owner, number: (1 << 63) | self.actor_lease_next };
        self.actor_leases.insert(lease, (actor, incarnation));
        self.schedule(scheduler::Event::LeaseRequested { lease, job, kind: LeaseKind::Actor, need });
    }

    fn build_actor(&mut self, actor: ActorId, worker: ProcId) {
        let Some(record) = self.actors.get(actor) else { return };
        let creation = &record.creation;
        let incarnation = record.incarnation;
        let message = FromNode::BuildActor {
            actor,
            spec: creation.spec.to_vec(),
            options: creation.options.clone(),
            incarnation,
        };
        let class_name = creation.options.class_name.clone();
        if let Some(proc) = self.procs.get_mut(worker) {
            proc.shown_as = Some(class_name);
        }
        self.tell(worker, &message);
    }

    fn publish(&mut self, view: &control::ActorView) {
        tracing::debug!(actor = %view.actor, incarnation = view.incarnation, state = ?view.state, "an actor has changed");
        for watcher in self.watchers.get(&view.actor).cloned().unwrap_or_default() {
            self.tell_actor(watcher, view);
        }
        if matches!(view.state, control::ActorState::Dead(_)) {
            self.watchers.remove(&view.actor);
            self.actor_leases.remove(view.actor);
            self.group_changed(control::GroupEvent::ActorDied(view.actor));
        }
    }

    /// Tells one process where an actor is, and of rings to it if it is there.
    pub(crate) fn tell_actor(&mut self, to: ProcId, view: &control::ActorView) {
        let place = match &view.state {
            control::ActorState::Pending => ActorPlace::Pending,
            control::ActorState::Restarting => ActorPlace::Restarting,
            control::ActorState::Dead(death) => ActorPlace::Dead(death.clone()),
            // A restarted actor is on its way until its constructor has returned: calls without retries fail meanwhile.
            control::ActorState::Alive { .. } if view.incarnation > 0 && !self.is_built(view.actor) => {
                ActorPlace::Restarting
            }
            control::ActorState::Alive { worker } => {
                let pid = self.procs.get(*worker).map_or(0, |proc| proc.pid);
                if self.link(to, *worker) { ActorPlace::Alive { worker: *worker, pid } } else { ActorPlace::Pending }
            }
        };
        self.tell(to, &FromNode::Actor { actor: view.actor, state: place, incarnation: view.incarnation });
    }

    fn is_built(&self, actor: ActorId) -> bool {
        self.actors.get(actor).is_some_and(|record| record.is_built)
    }

    /// A worker says that its actor's constructor has returned.
    pub(crate) fn on_actor_built(&mut self, actor: ActorId, worker: ProcId) {
        self.act(control::Event::Built { actor, worker });
        let view = self.actors.view(actor);
        if view.incarnation > 0 {
            self.publish(&view);
        }
    }

    pub(crate) fn watch_actor(&mut self, actor: ActorId, by: ProcId) {
        let view = self.actors.view(actor);
        if !matches!(view.state, control::ActorState::Dead(_)) {
            let watchers = self.watchers.entry(actor).or_default();
            if !watchers.contains(&by) {
                watchers.push(by);
            }
        }
        self.tell_actor(by, &view);
    }
}

#[cfg(test)]
mod tests {
    use model::{ActorId, LeaseId, ProcId};

    use super::ActorLeases;

    #[test]
    fn an_actor_has_the_lease_of_its_latest_life_only() {
        let lease = |number| LeaseId { owner: ProcId::new(1, 0, 1), number };
        let (a, b) = (ActorId([1; 16]), ActorId([2; 16]));
        let mut leases = ActorLeases::default();
        leases.insert(lease(1), (a, 0));
        leases.insert(lease(2), (b, 0));
        leases.insert(lease(3), (a, 1));
        assert_eq!((leases.of((a, 0)), leases.of((a, 1)), leases.of((b, 0))), (None, Some(lease(3)), Some(lease(2))));
        assert_eq!((leases.get(&lease(1)), leases.get(&lease(3))), (None, Some(&(a, 1))));
        leases.remove(a);
        assert_eq!((leases.lives.len(), leases.by_actor.len(), leases.of((a, 1))), (1, 1, None));
    }
}
