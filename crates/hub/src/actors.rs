//! Carries the actor table's decisions out.

use control::{ActorState, ActorView, Actors};
use model::{ActorId, LeaseId, ProcId};
use rustc_hash::FxHashMap;
use wire::abroad::Between;
use wire::control::{ActorPlace, ActorRegistration, FromNodeOf, NamedActor, ToNodeOf};
use wire::members::Lodging;

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::members::HEAD;

#[derive(Default)]
pub(crate) struct ActorRoom {
    table: Actors,
    leases: ActorLeases,
    lease_next: u64,
    /// Who is told of an actor until it is dead.
    watchers: FxHashMap<ActorId, Vec<ProcId>>,
    /// Who asked for an actor and waits for the answer.
    creators: FxHashMap<ActorId, ProcId>,
}

/// Leases of actors, at most one of each: which life of which actor asked.
#[derive(Default)]
struct ActorLeases {
    lives: FxHashMap<LeaseId, (ActorId, u32)>,
    by_actor: FxHashMap<ActorId, LeaseId>,
}

impl ActorLeases {
    fn get(&self, lease: &LeaseId) -> Option<&(ActorId, u32)> {
        self.lives.get(lease)
    }

    /// The lease of the life before.
    fn insert(&mut self, lease: LeaseId, life: (ActorId, u32)) -> Option<LeaseId> {
        let before = self.remove(life.0);
        self.by_actor.insert(life.0, lease);
        self.lives.insert(lease, life);
        before
    }

    /// The lease that this very life asked for.
    fn of(&self, life: (ActorId, u32)) -> Option<LeaseId> {
        self.by_actor.get(&life.0).copied().filter(|lease| self.lives.get(lease) == Some(&life))
    }

    fn remove(&mut self, actor: ActorId) -> Option<LeaseId> {
        let lease = self.by_actor.remove(&actor)?;
        self.lives.remove(&lease);
        Some(lease)
    }
}

impl ActorRoom {
    pub(crate) fn table(&self) -> &Actors {
        &self.table
    }

    /// Which life of which actor asked for the lease; none: it is for tasks.
    pub(crate) fn life_of(&self, lease: &LeaseId) -> Option<(ActorId, u32)> {
        self.leases.get(lease).copied()
    }

    fn watch(&mut self, actor: ActorId, by: ProcId) {
        let watchers = self.watchers.entry(actor).or_default();
        if !watchers.contains(&by) {
            watchers.push(by);
        }
    }

    pub(crate) fn process_gone(&mut self, gone: ProcId) {
        self.watchers.retain(|_, watchers| {
            watchers.retain(|watcher| *watcher != gone);
            !watchers.is_empty()
        });
        self.creators.retain(|_, creator| *creator != gone);
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &ProcId> {
        self.watchers.values().flatten().chain(self.creators.values())
    }

    /// All actors are dead, and nobody waits for one.
    pub(crate) fn is_empty(&self) -> bool {
        self.watchers.is_empty()
            && self.creators.is_empty()
            && self.leases.lives.is_empty()
            && self.leases.by_actor.is_empty()
            && self.table.iter().all(|record| record.death().is_some())
    }
}

impl<B: Body> Hub<B> {
    /// Whether the lease is for an actor.
    #[must_use]
    pub fn is_of_actor(&self, lease: &LeaseId) -> bool {
        self.actors.life_of(lease).is_some()
    }

    /// Tells the actor table something and does what it says.
    pub(crate) fn act(&mut self, step: &mut Step<'_, B>, event: control::Event) {
        let mut effects = Vec::new();
        self.actors.table.step(step.now, event, &mut effects);
        for effect in effects {
            self.on_acted(step, effect);
        }
    }

    fn on_acted(&mut self, step: &mut Step<'_, B>, effect: control::Effect) {
        match effect {
            control::Effect::Answer { request, answer } => self.answer_creation(step, request, answer),
            control::Effect::Place { actor, incarnation } => self.place_actor(step, actor, incarnation),
            control::Effect::Unplace { actor, incarnation } => {
                if let Some(lease) = self.actors.leases.of((actor, incarnation)) {
                    self.actors.leases.remove(actor);
                    if !self.unlodge(step, lease) {
                        self.schedule(step, scheduler::Event::LeaseCancelled(lease));
                    }
                }
            }
            control::Effect::Build { actor, worker } => self.build_actor(step, actor, worker),
            control::Effect::Publish(view) => self.publish(step, &view),
            control::Effect::EndWorker { worker, gracefully } => {
                self.end_actor_worker(step, worker, gracefully);
            }
        }
    }

    /// tour(actor) 3: the node's table of actors takes it in, settles its name, and asks the scheduler for a worker.
    pub(crate) fn create_actor(&mut self, step: &mut Step<'_, B>, creation: control::Creation) {
        let (actor, creator) = (creation.actor, creation.owner);
        if !self.lives(creator) {
            return;
        }
        self.actors.creators.insert(actor, creator);
        self.actors.watch(actor, creator);
        self.act(step, control::Event::CreateRequested(creation));
        // A request that comes again may come when the actor is dead, of which its creator has heard.
        if matches!(self.actors.table.view(actor).state, ActorState::Dead(_)) {
            self.actors.watchers.remove(&actor);
        }
    }

    fn answer_creation(&mut self, step: &mut Step<'_, B>, request: ActorId, answer: control::Registered) {
        let Some(creator) = self.actors.creators.remove(&request) else { return };
        let answer = match answer {
            control::Registered::Created(_) => ActorRegistration::Created,
            control::Registered::Existing(actor) => match self.named(actor) {
                Some(named) => ActorRegistration::Existing(named),
                None => ActorRegistration::NameTaken,
            },
            control::Registered::NameTaken => ActorRegistration::NameTaken,
        };
        if !matches!(answer, ActorRegistration::Created) {
            self.actors.watchers.remove(&request);
        }
        self.tell(step, creator, FromNodeOf::ActorAnswer { request, answer });
    }

    /// What a handle on this actor is made of.
    pub(crate) fn named(&self, actor: ActorId) -> Option<NamedActor> {
        self.actors.table.get(actor).map(|record| NamedActor { actor, spec: record.creation.spec.to_vec() })
    }

    pub(crate) fn place_actor(&mut self, step: &mut Step<'_, B>, actor: ActorId, incarnation: u32) {
        let Some(record) = self.actors.table.get(actor) else { return };
        let (owner, job, need) = (record.creation.owner, record.creation.job, record.creation.options.need.clone());
        if let model::Where::Bundle(seat) = need.at
            && self.groups.table().state(seat.group) == control::GroupState::Removed
        {
            // No node would ever have its bundle.
            return self.displace(step, actor);
        }
        let need = self.settled(need);
        if let Some(why) = self.nowhere(&need.at) {
            let death = model::ActorDeath::Unschedulable(why);
            return self.act(step, control::Event::Displaced { actor, death });
        }
        // Actor leases have numbers of their own, beyond those that owners give out.
        self.actors.lease_next += 1;
        let lease = LeaseId { owner, number: (1 << 63) | self.actors.lease_next };
        if let Some(before) = self.actors.leases.insert(lease, (actor, incarnation)) {
            self.lodging_over(&before);
        }
        self.begin_life(step, Lodging { lease, actor, incarnation, need, job });
    }

    /// The same life, asked for once more.
    pub(crate) fn under_new_lease(&mut self, lodging: Lodging) -> Lodging {
        self.actors.lease_next += 1;
        let lease = LeaseId { owner: lodging.lease.owner, number: (1 << 63) | self.actors.lease_next };
        self.actors.leases.insert(lease, (lodging.actor, lodging.incarnation));
        Lodging { lease, ..lodging }
    }

    fn build_actor(&mut self, step: &mut Step<'_, B>, actor: ActorId, worker: ProcId) {
        let Some(record) = self.actors.table.get(actor) else { return };
        let creation = &record.creation;
        let message = FromNodeOf::BuildActor {
            actor,
            spec: creation.spec.to_vec(),
            options: creation.options.clone(),
            incarnation: record.incarnation,
        };
        if let Some(proc) = self.procs.get_mut(worker) {
            proc.show_as(creation.options.class_name.clone());
        }
        self.tell(step, worker, message);
    }

    fn publish(&mut self, step: &mut Step<'_, B>, view: &ActorView) {
        tracing::debug!(actor = %view.actor, incarnation = view.incarnation, state = ?view.state, "an actor has changed");
        for watcher in self.actors.watchers.get(&view.actor).cloned().unwrap_or_default() {
            self.tell_actor(step, watcher, view);
        }
        if matches!(view.state, ActorState::Dead(_)) {
            self.actors.watchers.remove(&view.actor);
            if let Some(lease) = self.actors.leases.remove(view.actor) {
                self.lodging_over(&lease);
            }
            self.count_home(view.actor, None);
            self.group_changed(step, control::GroupEvent::ActorDied(view.actor));
            if let Some(job) = self.actors.table.get(view.actor).map(|record| record.creation.job) {
                self.job_needs_less(step, job);
            }
        }
    }

    /// Tells one process where an actor is, and of rings to it if it is there.
    fn tell_actor(&mut self, step: &mut Step<'_, B>, to: ProcId, view: &ActorView) {
        let place = match &view.state {
            ActorState::Pending => ActorPlace::Pending,
            ActorState::Restarting => ActorPlace::Restarting,
            ActorState::Dead(death) => ActorPlace::Dead(death.clone()),
            // A restarted actor is on its way until its constructor has returned: calls without retries fail meanwhile.
            ActorState::Alive { .. } if view.incarnation > 0 && !self.is_built(view.actor) => ActorPlace::Restarting,
            ActorState::Alive { worker } => {
                let pid = self.pid_of(*worker);
                if self.link(step, to, *worker) {
                    ActorPlace::Alive { worker: *worker, pid }
                } else {
                    ActorPlace::Pending
                }
            }
        };
        self.tell(step, to, FromNodeOf::Actor { actor: view.actor, state: place, incarnation: view.incarnation });
    }

    fn is_built(&self, actor: ActorId) -> bool {
        self.actors.table.get(actor).is_some_and(|record| record.is_built)
    }

    /// A worker says that its actor's constructor has returned.
    ///
    /// tour(actor) 6: it is alive: all who watch it hear where it is.
    pub(crate) fn on_actor_built(
        &mut self,
        step: &mut Step<'_, B>,
        actor: ActorId,
        worker: ProcId,
        shown_as: Box<str>,
    ) {
        if let Some(proc) = self.procs.get_mut(worker) {
            proc.show_as(shown_as);
        }
        if self.lodgings.has_worker(worker) {
            let message = Box::new(ToNodeOf::ActorBuilt { actor, shown_as: "".into() });
            return step.body.send(HEAD, Between::Said { by: worker, message, home: None });
        }
        self.act(step, control::Event::Built { actor, worker });
        let view = self.actors.table.view(actor);
        if view.incarnation > 0 {
            self.publish(step, &view);
        }
    }

    pub(crate) fn watch_actor(&mut self, step: &mut Step<'_, B>, actor: ActorId, by: ProcId) {
        if !self.lives(by) {
            return;
        }
        let view = self.actors.table.view(actor);
        if !matches!(view.state, ActorState::Dead(_)) {
            self.actors.watch(actor, by);
        }
        self.tell_actor(step, by, &view);
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
