//! Turns the owner's effects into frames, messages and wake-ups.

use std::sync::atomic::Ordering;

use model::{Failure, ProcId, TaskKey};
use net::Readiness;
use owner::{Effect, Stage as TaskStage, Value};
use party::Party;
use wire::control::ToNode;
use wire::frame;
use wire::peer::Peer;

use crate::Runtime;
use crate::body::readiness;
use crate::errands::Errand;
use crate::link::{Link, Outgoing, TakeBack, Turn, WriteError};
use crate::stages::Stage;
use crate::state::State;

impl Runtime {
    /// RUN-2: does everything that the last events asked for, and rings the bells.
    #[inline]
    pub(crate) fn apply(&self, state: &mut State) {
        while !state.party.effects.is_empty() {
            let mut effects = std::mem::take(&mut state.party.effects);
            for effect in effects.drain(..) {
                self.apply_one(state, effect);
            }
            if state.party.effects.is_empty() {
                state.party.effects = effects;
            }
        }
        if state.party.has_to_say() {
            let (party, mut hands) = self.parts(state);
            party.say(&mut hands);
        }
        self.ring_bells(state);
        self.pump.set_outstanding(state.party.owner.tasks_pending());
    }

    pub(crate) fn ring_bells(&self, state: &mut State) {
        state.links.ring_all();
        state.news.tell(|news| self.waiters.tell(&self.bell, news));
    }

    fn apply_one(&self, state: &mut State, effect: Effect) {
        match effect {
            Effect::Push { task, worker } => self.push(state, task, worker),
            Effect::TakeBack { task, worker } => self.take_back(state, task, worker),
            Effect::RequestLease { number, need, name } => {
                let ours = *self.job.lock().expect("never poisoned");
                let job = if self.is_keeper { state.party.owner.job_waiting(&need).unwrap_or(ours) } else { ours };
                self.request_lease(state, number, ToNode::RequestLease { number, job, need, name });
            }
            Effect::ReturnLease { number } => self.return_lease(state, number),
            Effect::Resolved(slot) => {
                let has_failed = self.refresh(state, slot) == Readiness::Failed;
                state.news.note_resolved(slot, has_failed);
                if self.is_watched(slot) {
                    self.tell_loops_if_near(state, slot);
                }
            }
            Effect::Unresolved(slot) => self.cells.set(slot, Readiness::Pending),
            Effect::Freed { slot, bulk } => {
                if !state.sites.is_empty() {
                    state.sites.remove(&slot);
                }
                self.cells.set(slot, Readiness::Pending);
                if let Some(bulk) = bulk {
                    let (party, mut hands) = self.parts(state);
                    party.free_bulk(&mut hands, bulk);
                }
            }
            Effect::Consumed { task, worker, count } => self.tell_consumed(state, task, worker, count),
            Effect::Unread { object, failure } => self.run_errand(Errand::Unread { object, failure }),
            Effect::Interrupt { task, worker, force, recursive } => {
                self.interrupt(state, task, worker, force, recursive)
            }
            Effect::MoveLineage => self.order_lineage(state),
            Effect::ReadArguments { task, filed } => self.order_arguments(state, task, filed),
            Effect::LookForArguments { task, why } => self.order_look(state, task, why),
            Effect::Discarded(_)
            | Effect::Want { .. }
            | Effect::Have { .. }
            | Effect::Borrowed { .. }
            | Effect::AskFree { .. }
            | Effect::Unreadable { .. }
            | Effect::Record(_)
            | Effect::Erase(_)
            | Effect::Note(_)
            | Effect::AskActor(_)
            | Effect::ActorUnreachable(_) => {
                let (party, mut hands) = self.parts(state);
                party.on_effect(&mut hands, effect);
            }
        }
    }

    /// What comes from another node is told of when it is here: the loop would wait for it, and all that it runs with it.
    fn tell_loops_if_near(&self, state: &State, slot: owner::Slot) {
        let value = state.party.owner.object(slot).and_then(|object| object.value.as_ref());
        if value.and_then(owner::Value::as_bulk).is_none_or(|bulk| self.is_near_at(slot, bulk)) {
            self.tell_loops(slot);
        }
    }

    /// Makes the object's readiness visible without the lock.
    pub(crate) fn refresh(&self, state: &State, slot: owner::Slot) -> Readiness {
        let value = state.party.owner.object(slot).and_then(|object| object.value.as_ref());
        self.note_away(value);
        let readiness = readiness(value);
        self.cells.set(slot, readiness);
        readiness
    }

    pub(crate) fn relay(&self, to: ProcId, message: Peer) {
        self.send(&ToNode::Relay { to, message });
    }

    /// tour(task) 5: the call becomes a frame in the worker's ring.
    #[inline]
    pub(crate) fn push(&self, state: &mut State, key: TaskKey, worker: ProcId) {
        let clock = Stage::clock();
        let Some(at) = state.links.place_of(worker) else { return self.want_link(state, key, worker) };
        let State { party: Party { owner, .. }, links, scratch, .. } = state;
        let Some(link) = links.at(at) else { return };
        if link.turn_of(key) != Turn::Now {
            return;
        }
        let (mut is_sent, mut is_full) = (false, false);
        match write_call(&self.store, owner, link, scratch, key) {
            Ok(Some(ticket)) => {
                owner.on_pushed(key, ticket);
                is_sent = true;
            }
            Ok(None) => {}
            Err(error) => {
                self.wait_for_room(link, key, &error);
                is_full = true;
            }
        }
        is_full |= link.owes_words();
        if link.is_unrung() {
            links.note_unrung(at);
        }
        if is_full {
            links.note_stalled(at);
            self.has_stalled.store(true, Ordering::Relaxed);
        }
        if is_sent && state.party.owner.is_recorded(key) {
            self.note_progress(state, key);
        }
        Stage::Ring.add(clock);
    }

    /// A call found no room. If it is the arena that has none, nothing on its link moves before the node has answered.
    #[cold]
    fn wait_for_room(&self, link: &mut Link, key: TaskKey, error: &WriteError) {
        match *error {
            WriteError::Busy => link.stall(key, None),
            WriteError::NeedExtent(length) => {
                link.stall(key, Some(length));
                self.send(&ToNode::WantExtent { length });
            }
        }
    }

    /// Sends what found the ring full before.
    pub(crate) fn push_stalled(&self, state: &mut State, at: usize) {
        let State { party: Party { owner, .. }, links, scratch, .. } = state;
        let Some(link) = links.at(at).filter(|link| !link.is_dead()) else { return };
        let mut sent = Vec::new();
        link.send_back(&self.store);
        while let Some(key) = link.next_stalled() {
            match write_call(&self.store, owner, link, scratch, key) {
                Ok(ticket) => {
                    link.unstall();
                    if let Some(ticket) = ticket {
                        owner.on_pushed(key, ticket);
                        sent.push(key);
                    }
                }
                Err(error) => {
                    self.wait_for_room(link, key, &error);
                    break;
                }
            }
        }
        if link.is_unrung() {
            links.note_unrung(at);
        }
        if state.records.are_kept() {
            sent.into_iter().for_each(|key| self.note_progress(state, key));
        }
    }

    /// Looks whether full rings have room again: their readers do not say so, and may have no reply to send before more calls come.
    #[cold]
    pub(crate) fn push_all_stalled(&self, state: &mut State) {
        for at in state.links.take_stalled() {
            self.push_stalled(state, at);
            state.links.keep_stalled(at);
        }
        self.has_stalled.store(state.links.has_stalled(), Ordering::Relaxed);
    }

    #[cold]
    fn note_progress(&self, state: &mut State, key: TaskKey) {
        let (party, mut hands) = self.parts(state);
        party.note_progress(&mut hands, key);
    }

    fn take_back(&self, state: &mut State, key: TaskKey, worker: ProcId) {
        let Some(ticket) = ticket_of(state, key, worker) else { return };
        let now = net::clock::now();
        let taken = match ticket {
            0 => state.links.forget_unsent(key, worker),
            _ => self.take_back_sent(state, key, worker, ticket),
        };
        if taken {
            state.party.owner.on_took_back(now, key, worker, &mut state.party.effects);
        }
    }

    /// True: it will never run there. One that another node has is asked for, and comes back or is answered.
    fn take_back_sent(&self, state: &mut State, key: TaskKey, worker: ProcId, ticket: u64) -> bool {
        let Some((at, link)) = state.links.to(worker) else { return false };
        if link.take_back(ticket) == TakeBack::Taken {
            return true;
        }
        link.want_back(&self.store, key.0);
        let owes_words = link.owes_words();
        if link.is_unrung() {
            state.links.note_unrung(at);
        }
        if owes_words {
            state.links.note_stalled(at);
            self.has_stalled.store(true, Ordering::Relaxed);
        }
        false
    }

    fn interrupt(&self, state: &mut State, key: TaskKey, worker: ProcId, force: bool, recursive: bool) {
        if !state.party.owner.is_under(key, worker) {
            return;
        }
        let Some(task) = state.party.owner.task(key).map(|task| task.spec.id) else { return };
        if force {
            self.send(&ToNode::KillWorker { worker });
        } else {
            self.relay(worker, Peer::Interrupt { task, recursive });
        }
    }
}

pub(crate) fn ticket_of(state: &State, key: TaskKey, on: ProcId) -> Option<u64> {
    match state.party.owner.task(key)?.stage {
        TaskStage::Under { worker, ticket } if worker == on => Some(ticket),
        _ => None,
    }
}

/// Writes a call's frame; returns its ticket, or nothing if the task has ended meanwhile.
#[inline]
fn write_call(
    store: &store::Client,
    owner: &owner::Owner,
    link: &mut Link,
    scratch: &mut Vec<u8>,
    key: TaskKey,
) -> Result<Option<u64>, WriteError> {
    let Some(task) = owner.task(key) else { return Ok(None) };
    if !matches!(task.stage, TaskStage::Under { worker, ticket: 0 } if worker == link.peer()) {
        return Ok(None);
    }
    let call = Outgoing {
        key,
        task: task.spec.id,
        template: &task.spec.template,
        payload: &task.spec.payload,
        // An actor may serve more calls at once than there are words; the last one may be what all others wait for.
        may_go_unclaimed: matches!(task.spec.target, owner::Target::Actor(_)),
    };
    let ticket = link.send_call(store, scratch, &call, |body| {
        for dep in &task.spec.deps {
            match owner.object(*dep).and_then(|object| object.value.as_ref()) {
                Some(Value::Inline(bytes)) => frame::Value::Inline(bytes).write(body),
                Some(Value::Bulk(bulk)) => frame::Value::Bulk(**bulk).write(body),
                Some(Value::Failed(failure)) => frame::Value::write_failure(failure, body),
                None => frame::Value::write_failure(&Failure::Freed, body),
            }
        }
    })?;
    if task.stream.is_some()
        && let Some(count) = owner.consumed(key)
    {
        link.tell_consumed(store, key.0, count);
    }
    Ok(Some(ticket))
}

/// Frees a block of ours. A place that is none of ours is a bug here, and harmless: the store refuses it.
pub(crate) fn free(store: &store::Client, place: store::Place) {
    let freed = store.free(place);
    debug_assert!(freed.is_ok(), "freed what is not ours: {place:?}: {freed:?}");
}
