//! The heir of every process that dies before its node: owns what they gave away, counts who holds it, gets the answers meant for them, and
//! runs again what nobody runs. It is a process like the others to all who talk to it, and lives beside the node.
//!
//! It hears of a death before any testimony, and reads the dead process's journal at once, so that all places are pinned before the node
//! gives the dead one's memory away. What it took over it holds until all have testified and settled (see `estate.rs`).

use std::sync::Arc;

use model::{Bulk, FileId, Filed, ObjectId, ProcId, TaskKey};
use owner::{Heirloom, Packed, Slot, Spec, Target, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use store::{Journals, Progress};
use wire::control::ToNode;
use wire::journal::{Payload, Record, Ref, TaskRecord};
use wire::peer::{Content, Peer, Testimony};

use crate::effects::failed;
use crate::inbound::Sent;
use crate::state::State;
use crate::{Runtime, value};

/// What a dead process has left, until all is settled.
#[derive(Default)]
struct Estate {
    /// All objects of it, each with a handle of ours.
    slots: FxHashSet<Slot>,
    /// Its tasks that had not ended, in the order of submission: what it called them, and where it had sent them.
    tasks: Vec<(u64, TaskKey, Option<ProcId>)>,
    /// Who has not testified yet; or who has not settled yet.
    awaited: FxHashSet<ProcId>,
    /// Who will settle: all witnesses, until all have testified.
    witnesses: Vec<ProcId>,
    has_all_testimonies: bool,
}

/// What only the heir has.
#[derive(Default)]
pub(crate) struct Keeping {
    journals: Option<Journals>,
    estates: FxHashMap<ProcId, Estate>,
    /// Calls of the dead that somebody will answer, by who called and what that called them.
    calls: FxHashMap<(ProcId, u64), TaskKey>,
    /// How many of those each process has.
    serving: FxHashMap<ProcId, usize>,
}

impl Keeping {
    pub(crate) fn new(journals: Journals) -> Self {
        Self { journals: Some(journals), ..Self::default() }
    }
}

/// What was recorded last of everything.
#[derive(Default)]
struct Will {
    objects: Vec<(ObjectId, Option<Content>)>,
    pending: Vec<(TaskRecord, Progress)>,
    made: Vec<(TaskRecord, Progress)>,
}

impl Will {
    fn read(journals: &Journals, of: ProcId) -> Self {
        let mut objects: FxHashMap<ObjectId, Option<Content>> = FxHashMap::default();
        let mut tasks: FxHashMap<(model::TaskId, bool), (TaskRecord, Progress)> = FxHashMap::default();
        // The later record of two is the true one.
        for left in journals.read(of.slot).unwrap_or_default() {
            match wire::decode(&left.body) {
                Ok(Record::Object { id, content }) => drop(objects.insert(id, content)),
                Ok(Record::Task(task)) => {
                    drop(tasks.insert((task.id, task.request.is_some()), (*task, left.progress)));
                }
                Err(_) => {}
            }
        }
        let (mut pending, made): (Vec<_>, Vec<_>) = tasks.into_values().partition(|(task, _)| task.request.is_some());
        let is_due = |id: &Option<ObjectId>| id.is_some_and(|id| matches!(objects.get(&id), Some(None)));
        pending.retain(|(task, _)| task.returns.iter().any(is_due));
        pending.sort_by_key(|(task, _)| task.number);
        Self { objects: objects.into_iter().collect(), pending, made }
    }
}

impl Runtime {
    /// A process is dead: takes over what it has left.
    pub(crate) fn inherit(&self, state: &mut State, of: ProcId, witnesses: Vec<ProcId>) {
        let Some(journals) = &state.keeping.journals else { return };
        let will = Will::read(journals, of);
        // From now on its name means us.
        state.heirs.insert(of, self.me);
        let witnesses: Vec<ProcId> = witnesses.into_iter().filter(|process| *process != self.me).collect();
        let awaited = witnesses.iter().copied().collect();
        let mut estate = Estate { awaited, witnesses, ..Estate::default() };
        let mut slots: FxHashMap<ObjectId, Slot> = FxHashMap::default();
        // First their names: values and tasks speak of each other.
        for (id, _) in &will.objects {
            slots.insert(*id, self.inherit_object(state, &mut estate, *id));
        }
        let mut files = FxHashMap::default();
        for (id, content) in will.objects {
            if let Some(content) = content
                && let Some((value, contains)) = self.inherit_content(state, of, content, &mut files)
            {
                state.owner.on_value_inherited(slots[&id], value, contains, &mut state.effects);
            }
        }
        for (task, progress) in will.pending {
            let Some(request) = task.request else { continue };
            let returns = task.returns.iter().flatten().map(|id| match slots.get(id) {
                Some(slot) => *slot,
                None => self.inherit_object(state, &mut estate, *id),
            });
            let returns: SmallVec<[Slot; 1]> = returns.collect();
            let is_ordered = task.is_ordered;
            let (spec, filed) = self.inherit_spec(state, task, &mut files);
            if let Target::Actor(actor) = spec.target {
                state.owner.on_handle_made(actor, is_ordered);
                if state.watched.insert(actor) {
                    self.send(&ToNode::WatchActor { actor });
                }
            }
            let (retries_left, oom_retries_left) = (progress.retries, progress.oom_retries);
            let heirloom = Heirloom { spec, filed, returns, retries_left, oom_retries_left };
            let key = state.owner.on_task_inherited(heirloom);
            let sent_to = (progress.worker != 0).then(|| ProcId::from_u64(progress.worker));
            estate.tasks.push((request, key, sent_to));
            state.keeping.calls.insert((of, request), key);
        }
        for (task, progress) in will.made {
            let gone = Slot::MAX;
            let is_large = |slot: &Slot| {
                let value = state.owner.object(*slot).and_then(|object| object.value.as_ref());
                value.is_none_or(|value| value.as_bulk().is_some())
            };
            let find =
                |id: &Option<ObjectId>| id.and_then(|id| slots.get(&id).copied()).filter(is_large).unwrap_or(gone);
            let returns: SmallVec<[Slot; 1]> = task.returns.iter().map(find).collect();
            if returns.iter().any(|slot| *slot != gone) {
                let (spec, filed) = self.inherit_spec(state, task, &mut files);
                let (retries_left, oom_retries_left) = (progress.retries, progress.oom_retries);
                let heirloom = Heirloom { spec, filed, returns, retries_left, oom_retries_left };
                state.owner.on_made_inherited(heirloom, &mut state.effects);
            }
        }
        state.keeping.estates.insert(of, estate);
        self.apply(state);
        self.send(&ToNode::Inherited { of });
        self.settle_if_all_did(state, of);
    }

    fn inherit_object(&self, state: &mut State, estate: &mut Estate, id: ObjectId) -> Slot {
        let slot = state.owner.on_inherited(id);
        self.refresh(state, slot);
        estate.slots.insert(slot);
        slot
    }

    fn inherit_content(
        &self,
        state: &mut State,
        of: ProcId,
        content: Content,
        files: &mut FxHashMap<FileId, Option<FileId>>,
    ) -> Option<(Value, SmallVec<[Slot; 0]>)> {
        match content {
            Content::Inline(bytes) => {
                let contains = self.inherit_refs(state, value::refs_of(&bytes));
                Some((Value::Inline(Packed::from(bytes)), contains))
            }
            Content::Bulk(bulk @ Bulk::Stored(place)) => {
                // Whose memory it is in, if it is not the dead one's own, that process will say.
                let view = self.store.pin_to_keep(place).ok()?;
                let contains = self.inherit_refs(state, value::refs_of(view.as_slice()));
                state.stored_elsewhere.insert(place.offset, (of, view));
                Some((Value::bulk(bulk), contains))
            }
            Content::Bulk(Bulk::Filed(filed)) => {
                let bulk = Bulk::Filed(self.inherit_file(state, filed, files)?);
                let contains = self.inherit_refs(state, self.refs_in(bulk));
                Some((Value::bulk(bulk), contains))
            }
            Content::Failed(failure) => {
                let contains = self.inherit_refs(state, value::refs_of_failure(&failure));
                Some((failed(failure), contains))
            }
        }
    }

    /// References in a value that is ours now. Shares of those that others own were counted for the dead, and will be told of.
    fn inherit_refs(&self, state: &mut State, refs: Vec<Ref>) -> SmallVec<[Slot; 0]> {
        let take = |(id, owner): Ref| {
            let owner = state.heirs.living(owner);
            state.owner.on_contained(id, (owner != self.me).then_some(owner), 0)
        };
        refs.into_iter().map(take).collect()
    }

    /// The file is named after us from now on, and holds one thing more that is ours.
    fn inherit_file(
        &self,
        state: &mut State,
        filed: Filed,
        files: &mut FxHashMap<FileId, Option<FileId>>,
    ) -> Option<Filed> {
        let take = || self.files.take_over(filed).ok().map(|filed| filed.file);
        let file = (*files.entry(filed.file).or_insert_with(take))?;
        let filed = Filed { file, ..filed };
        state.hold_file(Bulk::Filed(filed));
        Some(filed)
    }

    fn inherit_spec(
        &self,
        state: &mut State,
        task: TaskRecord,
        files: &mut FxHashMap<FileId, Option<FileId>>,
    ) -> (Spec, Option<Filed>) {
        let (payload, filed) = match task.payload {
            Payload::Inline(bytes) => (bytes, None),
            // One that is not there any more is found to be lost when it is needed.
            Payload::Filed(filed) => (Vec::new(), Some(self.inherit_file(state, filed, files).unwrap_or(filed))),
        };
        let mut name = |(id, owner): Ref| {
            let owner = state.heirs.living(owner);
            state.owner.on_named(id, (owner != self.me).then_some(owner))
        };
        let spec = Spec {
            id: task.id,
            template: Arc::new(task.template),
            target: task.actor.map_or(Target::Pool, Target::Actor),
            payload,
            deps: task.deps.into_iter().map(&mut name).collect(),
            contains: task.contains.into_iter().map(&mut name).collect(),
        };
        (spec, filed)
    }

    pub(crate) fn on_testimony(&self, state: &mut State, from: ProcId, testimony: Testimony) {
        let Testimony { of, held, lent, serving, given, is_last } = testimony;
        let held = if state.dead.contains_key(&from) { Vec::new() } else { held };
        for id in held {
            state.owner.on_shares(&id, from, 1, &mut state.effects);
        }
        for (id, count) in lent {
            state.owner.on_lent(id, from, count, &mut state.effects);
        }
        for request in serving {
            self.await_answer(state, (of, request), from);
        }
        for place in given {
            match state.stored_elsewhere.get_mut(&place.offset) {
                Some((holder, view)) if view.len() as u64 == place.length => *holder = from,
                _ => self.relay(from, Peer::FreePlace(place)),
            }
        }
        if is_last {
            self.no_longer_awaited(state, of, from);
        }
    }

    /// Somebody runs a call of the dead process's, and will answer us.
    fn await_answer(&self, state: &mut State, call: (ProcId, u64), from: ProcId) {
        if let Some(key) = state.keeping.calls.get(&call).copied() {
            state.owner.on_orphan_runs(key, from);
            *state.keeping.serving.entry(from).or_default() += 1;
        }
    }

    /// An answer to a call of the dead process's.
    pub(crate) fn on_orphan_reply(&self, state: &mut State, sent: Sent, call: (ProcId, u64), flags: u8, body: &[u8]) {
        let from = sent.by;
        let Some(key) = state.keeping.calls.get(&call).copied() else {
            // Nobody has ever asked for what it makes: nothing of it is kept.
            let nobody = TaskKey(u64::MAX);
            let _ = self.take_reply(state, nobody, sent, flags, body);
            return;
        };
        if !state.owner.is_under(key, from) {
            self.await_answer(state, call, from);
        }
        if self.take_reply(state, key, sent, flags, body).is_err() {
            self.send(&ToNode::KillWorker { worker: from });
        }
        state.keeping.calls.remove(&call);
        self.served(state, from);
    }

    fn served(&self, state: &mut State, worker: ProcId) {
        if let Some(count) = state.keeping.serving.get_mut(&worker) {
            *count -= 1;
            if *count == 0 {
                state.keeping.serving.remove(&worker);
                self.send(&ToNode::Served { worker });
            }
        }
    }

    pub(crate) fn on_settled(&self, state: &mut State, of: ProcId, from: ProcId) {
        if state.keeping.estates.get(&of).is_some_and(|estate| estate.has_all_testimonies) {
            self.no_longer_awaited(state, of, from);
        }
    }

    /// Whether what this process says of the object's shares is old: it will testify, or has done so since.
    pub(crate) fn will_testify(&self, state: &State, from: ProcId, object: &ObjectId) -> bool {
        let mut open = state.keeping.estates.values().filter(|estate| !estate.has_all_testimonies);
        let is_of = |estate: &Estate| {
            let slot = state.owner.slot_of(object);
            slot.is_some_and(|slot| estate.slots.contains(&slot))
        };
        open.any(|estate| estate.awaited.contains(&from) && is_of(estate))
    }

    /// Whether it is not known yet what this dead process has left.
    pub(crate) fn is_open_estate(&self, state: &State, of: ProcId) -> bool {
        state.keeping.estates.contains_key(&of)
    }

    /// A witness is dead: it says nothing more, and answers nothing.
    pub(crate) fn witness_died(&self, state: &mut State, witness: ProcId) {
        state.keeping.serving.remove(&witness);
        let concerned: Vec<ProcId> = state.keeping.estates.keys().copied().collect();
        concerned.into_iter().for_each(|of| self.no_longer_awaited(state, of, witness));
    }

    fn no_longer_awaited(&self, state: &mut State, of: ProcId, witness: ProcId) {
        if let Some(estate) = state.keeping.estates.get_mut(&of) {
            estate.awaited.remove(&witness);
            if estate.awaited.is_empty() && estate.has_all_testimonies {
                self.finish_estate(state, of);
            } else {
                self.settle_if_all_did(state, of);
            }
        }
    }

    /// All have testified: has everything that was on its way been taken up?
    fn settle_if_all_did(&self, state: &mut State, of: ProcId) {
        let State { keeping, dead, .. } = state;
        let Some(estate) = keeping.estates.get_mut(&of) else { return };
        if estate.has_all_testimonies || !estate.awaited.is_empty() {
            return;
        }
        estate.has_all_testimonies = true;
        let witnesses = std::mem::take(&mut estate.witnesses);
        estate.awaited = witnesses.into_iter().filter(|witness| !dead.contains_key(witness)).collect();
        if estate.awaited.is_empty() {
            return self.finish_estate(state, of);
        }
        for witness in &estate.awaited {
            self.relay(*witness, Peer::Settle { of });
        }
    }

    /// It is known who holds what: what nobody holds goes, what nobody runs is run.
    fn finish_estate(&self, state: &mut State, of: ProcId) {
        let Some(estate) = state.keeping.estates.remove(&of) else { return };
        // What others had registered for it they have taken up by now, and so have we.
        state.owner.on_process_gone(of, &mut state.effects);
        let State { owner, effects, keeping, .. } = state;
        for slot in &estate.slots {
            owner.on_nothing_makes(*slot, effects);
        }
        for slot in &estate.slots {
            owner.on_handle_dropped(*slot, effects);
        }
        // The last one first: what it needs is wanted no longer than it is itself.
        let mut unwanted = Vec::new();
        for (request, key, _) in estate.tasks.iter().rev() {
            let worker = owner.worker_of(*key);
            if owner.on_orphan_unwanted(*key, effects) {
                keeping.calls.remove(&(of, *request));
                unwanted.extend(worker);
            }
        }
        for (request, key, sent_to) in &estate.tasks {
            if owner.is_orphan_idle(*key) {
                keeping.calls.remove(&(of, *request));
                owner.on_orphan_idle(*key, sent_to.is_some(), effects);
            }
        }
        self.apply(state);
        unwanted.into_iter().for_each(|worker| self.served(state, worker));
        let answering = state.keeping.calls.iter().filter(|((caller, _), _)| *caller == of);
        let serving: FxHashSet<ProcId> = answering.filter_map(|(_, key)| state.owner.worker_of(*key)).collect();
        self.send(&ToNode::Settled { of, serving: serving.into_iter().collect() });
    }
}
