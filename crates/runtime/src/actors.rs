//! Handles on actors, as far as they concern one process.

use std::time::Duration;

use model::{ActorId, ActorOptions, ObjectId};
use owner::{CalleeState, GroupFacts, Hold, Slot};
use wire::control::{ActorRegistration, Answer, NamedActor, Question, ToNode};

use crate::state::State;
use crate::{Error, Runtime};

/// An actor to be made.
pub struct ActorCreation {
    /// Derived from its creation task.
    pub actor: ActorId,
    /// Names the object that stands for the actor: it lives while that is held.
    pub life: ObjectId,
    /// What it asked for.
    pub options: ActorOptions,
    /// Take the one that has the name already.
    pub get_if_exists: bool,
    /// What a worker needs to build it.
    pub spec: Vec<u8>,
    /// References inside the spec: held as long as the actor may restart.
    pub contains: Vec<Slot>,
}

/// What became of the wish for an actor.
pub enum MadeActor {
    /// It is new: the slot of the object that stands for it, with one handle.
    New(Slot),
    /// One has the name already. Where this process holds the object that stands for it: its slot, with one handle more, and its id.
    Found(NamedHandle, Option<(Slot, ObjectId)>),
    /// The one that has the name was ours, and nobody holds it any more. It gives its name back: ask again.
    Ending,
}

/// A handle on an actor that somebody else made.
pub struct NamedHandle {
    /// The actor.
    pub actor: ActorId,
    /// As its creator sent it.
    pub spec: Vec<u8>,
}

impl Runtime {
    /// Makes an actor, or under `get_if_exists` finds the one that has the name.
    ///
    /// Waits for the node only if the actor has a name. Must then not be called with the interpreter's lock held.
    ///
    /// # Errors
    /// If the name is taken or the node is gone.
    ///
    /// tour(actor) 2: an object stands for the actor as long as somebody holds a handle; the node is told, and waited for only if a name
    /// may be taken.
    pub fn create_actor(&self, creation: ActorCreation) -> Result<MadeActor, Error> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let ActorCreation { actor, life, options, get_if_exists, spec, contains } = creation;
        let (name, namespace) = (options.name.clone(), options.namespace.clone());
        let has_name = !name.is_empty();
        let is_detached = options.lifetime == model::Lifetime::Detached;
        let concurrency = options.concurrency;
        let is_ordered = !options.is_async && concurrency <= 1;
        if has_name {
            self.expect_registration(actor);
        }
        let slot = {
            let mut state = self.state.lock().expect("never poisoned");
            let slot = state.party.owner.on_actor_made(life, actor);
            state.party.owner.on_contains_set(slot, &contains);
            if is_detached {
                state.party.owner.on_actor_not_made(slot);
                if !contains.is_empty() {
                    // No handle holds its arguments, and it may be built again at any time.
                    state.party.owner.on_handle_added(slot);
                    state.detached_args.insert(actor, slot);
                }
            }
            self.cells.set(slot, net::Readiness::Value);
            state.party.owner.on_handle_made(actor, is_ordered);
            state.party.owner.on_concurrency_known(actor, concurrency as usize);
            if !is_detached {
                state.party.owner.on_life_known(actor, slot);
            }
            state.party.watch(actor);
            slot
        };
        let job = *self.job.lock().expect("never poisoned");
        self.send(&ToNode::CreateActor { actor, job, options, get_if_exists, spec });
        if !has_name {
            return Ok(MadeActor::New(slot));
        }
        let answer = self.await_registration(actor)?;
        if matches!(answer, ActorRegistration::Created) {
            return Ok(MadeActor::New(slot));
        }
        self.with_state(|state| {
            state.party.owner.on_actor_not_made(slot);
            state.party.owner.on_callee_unmade(&actor);
            state.party.unwatch(&actor);
            self.release_args(state, actor);
        });
        self.drop_handle(slot);
        match answer {
            ActorRegistration::Existing(NamedActor { actor, spec }) => Ok(self.found(NamedHandle { actor, spec })),
            _ => Err(Error::NameTaken { name, namespace }),
        }
    }

    fn found(&self, named: NamedHandle) -> MadeActor {
        self.with_state(|state| {
            self.take_dropped(state);
            match state.party.owner.hold_on(&named.actor) {
                Hold::Over => MadeActor::Ending,
                Hold::Elsewhere => MadeActor::Found(named, None),
                Hold::Here(life) => {
                    state.party.owner.on_handle_added(life);
                    let id = state.party.owner.object(life).expect("it is held").id;
                    MadeActor::Found(named, Some((life, id)))
                }
            }
        })
    }

    /// The actor is dead: it will not be built again, and the node has no more news of it.
    pub(crate) fn on_actor_dead(&self, state: &mut State, actor: ActorId) {
        state.party.unwatch(&actor);
        state.calls_told.remove(&actor);
        self.release_args(state, actor);
    }

    /// The actor will not be built again.
    fn release_args(&self, state: &mut State, actor: ActorId) {
        if let Some(slot) = state.detached_args.remove(&actor) {
            self.drop_handle(slot);
        }
    }

    /// We hold a handle on this actor: its whereabouts are asked for, once.
    ///
    /// `groups`: of its methods, the default one first. `life`: the object by which the handle keeps the actor alive, if it does.
    pub fn watch_actor(&self, actor: ActorId, groups: &[GroupFacts], life: Option<Slot>) {
        let mut state = self.state.lock().expect("never poisoned");
        if let &[GroupFacts { is_ordered, concurrency }, ref others @ ..] = groups {
            state.party.owner.on_handle_made(actor, is_ordered);
            state.party.owner.on_concurrency_known(actor, concurrency);
            state.party.owner.on_groups_known(actor, others);
        }
        if let Some(life) = life {
            state.party.owner.on_life_known(actor, life);
        }
        let is_dead = |callee: &owner::Callee| matches!(callee.state, CalleeState::Dead(_));
        if !state.party.owner.callee(&actor).is_some_and(is_dead) && state.party.watch(actor) {
            drop(state);
            self.send(&ToNode::WatchActor { actor });
        }
    }

    /// `kill`. For this process the actor is dead at once, unless it may restart: no later call of ours reaches it.
    pub fn kill_actor(&self, actor: ActorId, no_restart: bool) {
        self.send(&ToNode::KillActor { actor, no_restart });
        if no_restart {
            self.with_state(|state| {
                self.drain(state);
                let dead = owner::ActorNews::Dead(model::ActorDeath::Killed);
                state.party.owner.on_actor_news(actor, u32::MAX, dead, &mut state.party.effects);
                self.on_actor_dead(state, actor);
            });
        }
    }

    /// An actor by name. Must not be called with the interpreter's lock held.
    ///
    /// # Errors
    /// If the node is gone.
    pub fn actor_by_name(&self, namespace: &str, name: &str) -> Result<Option<NamedHandle>, Error> {
        let question = Question::ActorByName { namespace: namespace.into(), name: name.into() };
        match self.ask(question, Duration::from_secs(30))? {
            Answer::Actor(found) => Ok(found.map(|NamedActor { actor, spec }| NamedHandle { actor, spec })),
            _ => Err(Error::Closed),
        }
    }

    /// Makes a function's body known to the node.
    pub fn export(&self, function: model::FunctionId, body: Vec<u8>) {
        self.send(&ToNode::Export { function, body });
    }
}
