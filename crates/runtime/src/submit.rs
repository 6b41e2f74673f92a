//! HOT: `.remote()` from the face to the owner. Budget: 0.5 us beside the face's own work.

use std::sync::Arc;

use model::{ActorId, ObjectId, TaskId, Template};
use owner::{CalleeState, Slot, Spec, StreamKey, Target};
use smallvec::SmallVec;

use crate::state::State;
use crate::{Error, Runtime};
use party::Party;

/// One call, ready to go.
pub struct Submission {
    /// What it shares with other calls.
    pub template: Arc<Template>,
    /// Where it runs.
    pub target: Target,
    /// Derived from its parent.
    pub id: TaskId,
    /// The task that submits it, if that runs on a worker: cancelling it cancels this one.
    pub parent: Option<TaskId>,
    /// Arguments, encoded.
    pub payload: Vec<u8>,
    /// Arguments that are references, in the order of the payload's placeholders.
    pub deps: SmallVec<[Slot; 2]>,
    /// References inside arguments.
    pub contains: SmallVec<[Slot; 0]>,
    /// Calls that the actor may have outstanding; zero: any number.
    pub pending_max: usize,
    /// Stands for the actor that is called, if the handle keeps it alive.
    pub life: Option<Slot>,
}

/// What a call makes.
pub struct Returns {
    /// Slot and id of every object it returns, each with one handle.
    pub objects: SmallVec<[(Slot, ObjectId); 1]>,
    /// What it yields.
    pub stream: Option<StreamKey>,
}

impl Runtime {
    /// tour(task) 3: the call enters the owner's tables under the lock, and what came in meanwhile is taken up on the way.
    ///
    /// # Errors
    /// If the node is gone or the actor has too many calls outstanding.
    #[inline]
    pub fn submit(&self, call: Submission) -> Result<Returns, Error> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let id = call.id;
        let mut state = self.state.lock().expect("never poisoned");
        if call.pending_max > 0
            && let Target::Actor(actor) = call.target
        {
            self.drain(&mut state);
            let pending = state.party.owner.callee(&actor).map_or(0, owner::Callee::calls_pending);
            if pending >= call.pending_max {
                let (call, limit) = (call.template.name.clone(), call.pending_max);
                return Err(Error::TooManyPending { actor, call, pending, limit });
            }
        }
        let spec = Spec {
            id,
            template: call.template,
            target: call.target,
            payload: call.payload,
            deps: call.deps,
            contains: call.contains,
        };
        let Party { owner, effects, .. } = &mut state.party;
        let owner::Submitted { key, returns: slots, stream } = owner.on_submitted(net::clock::now(), spec, effects);
        match (call.life, call.target) {
            (Some(life), _) => owner.on_call_holds(key, life),
            (None, Target::Actor(actor)) => owner.on_weak_call(key, actor),
            (None, Target::Pool) => {}
        }
        for slot in &slots {
            self.cells.set(*slot, net::Readiness::Pending);
        }
        if let Some(next) = stream.and_then(|stream| owner.stream_front(stream)) {
            self.refresh(&state, next);
        }
        if let Some(parent) = call.parent {
            let State { serving, party, .. } = &mut *state;
            serving.note_child(parent, key, &party.owner);
        }
        self.drain(&mut state);
        drop(state);
        let objects = slots.into_iter().enumerate().map(|(index, slot)| (slot, ObjectId::of(id, index as u32 + 1)));
        Ok(Returns { objects: objects.collect(), stream })
    }

    /// A call on this actor will be submitted in a moment: its worker may wake up meanwhile.
    pub fn announce(&self, actor: &ActorId) {
        if !self.segment.spin().has_room_to_spin() {
            return;
        }
        let mut state = self.state.lock().expect("never poisoned");
        if let Some(CalleeState::Alive(worker)) = state.party.owner.callee(actor).map(|callee| callee.state.clone())
            && let Some((_, link)) = state.links.to(worker)
        {
            link.announce();
        }
    }

    /// Cancels the task that makes this object.
    pub fn cancel(&self, slot: Slot, force: bool, recursive: bool) {
        self.with_state(|state| {
            let Some(object) = state.party.owner.object(slot) else { return };
            match object.owner {
                Some(owner) => {
                    let object = object.id;
                    self.relay(owner, wire::peer::Peer::CancelObject { object, force, recursive });
                }
                None => {
                    state.party.owner.on_cancel(slot, force, recursive, &mut state.party.effects);
                }
            }
        });
    }
}
