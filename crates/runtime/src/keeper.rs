//! The heir of every process that dies before its node: owns what they gave away, counts who holds it, gets the answers meant for them, and
//! runs again what nobody runs. It is a process like the others to all who talk to it, and lives beside the node.
//!
//! It hears of a death before any testimony, and reads the dead process's journal at once, so that all places are pinned before the node
//! gives the dead one's memory away. What it took over it holds until all have testified and settled (see `estate.rs`).

use std::sync::Arc;

use model::{Bulk, FileId, Filed, ObjectId, ProcId, TaskId, TaskKey};
use owner::{Bequest, Chore, Estate, Left, Packed, Target, Value, Will, Words};
use rustc_hash::FxHashMap;
use store::{Journals, Progress};
use wire::control::ToNode;
use wire::journal::{Payload, Record, TaskRecord};
use wire::peer::{Content, Peer, Testimony};

use crate::effects::failed;
use crate::inbound::Sent;
use crate::state::State;
use crate::{Runtime, value};

/// What was recorded last of everything.
#[derive(Default)]
struct Records {
    objects: FxHashMap<ObjectId, Option<Content>>,
    /// Those that have not ended first, in the order of submission.
    tasks: Vec<(TaskRecord, Progress)>,
}

impl Records {
    fn read(journals: &Journals, of: ProcId) -> Self {
        let mut objects: FxHashMap<ObjectId, Option<Content>> = FxHashMap::default();
        let mut tasks: FxHashMap<(TaskId, bool), (TaskRecord, Progress)> = FxHashMap::default();
        // The later record of two is the true one.
        for left in journals.read(of.slot()).unwrap_or_default() {
            match wire::decode(&left.body) {
                Ok(Record::Object { id, content }) => drop(objects.insert(id, content)),
                Ok(Record::Task(task)) => {
                    drop(tasks.insert((task.id, task.request.is_some()), (*task, left.progress)));
                }
                Err(_) => {}
            }
        }
        let mut tasks: Vec<(TaskRecord, Progress)> = tasks.into_values().collect();
        tasks.sort_by_key(|(task, _)| (task.request.is_none(), task.number));
        Self { objects, tasks }
    }
}

impl Runtime {
    /// A process is dead: takes over what it has left.
    pub(crate) fn inherit(&self, state: &mut State, of: ProcId, witnesses: Vec<ProcId>) {
        let Some(journals) = &state.journals else { return };
        let records = Records::read(journals, of);
        let mut files = FxHashMap::default();
        let objects = records.objects.into_iter();
        let objects = objects.map(|(id, content)| (id, self.inherit_content(state, of, content, &mut files))).collect();
        let State { owner, heirs, effects, .. } = state;
        let mut estate = Estate::new(Will { of, heir: self.me, objects }, heirs, owner, effects);
        for (task, progress) in records.tasks {
            if !estate.wants(task.request.is_some(), &task.returns, &state.owner) {
                continue;
            }
            if let Some(actor) = task.actor
                && state.watched.insert(actor)
            {
                self.send(&ToNode::WatchActor { actor });
            }
            let bequest = self.inherit_task(state, task, progress, &mut files);
            let State { owner, heirs, effects, .. } = state;
            estate.take(bequest, heirs, owner, effects);
        }
        estate.slots().for_each(|slot| {
            self.refresh(state, slot);
        });
        self.count_late(state);
        self.apply(state);
        self.send(&ToNode::Inherited { of });
        let State { keeping, owner, effects, .. } = state;
        let witnesses = witnesses.into_iter().filter(|process| *process != self.me);
        let chores = keeping.on_death(of, witnesses, estate, owner, effects);
        self.do_chores(state, chores);
    }

    fn inherit_content(
        &self,
        state: &mut State,
        of: ProcId,
        content: Option<Content>,
        files: &mut FxHashMap<FileId, Option<FileId>>,
    ) -> Left {
        match content {
            None => Left::Due,
            Some(Content::Inline(bytes)) => {
                let refs = value::refs_of(&bytes);
                Left::Value(Value::Inline(Packed::from(bytes)), refs)
            }
            Some(Content::Bulk(bulk @ Bulk::Stored(place))) => {
                // Whose memory it is in, if it is not the dead one's own, that process will say.
                let Ok(view) = self.store.pin_to_keep(place) else { return Left::Lost };
                let refs = value::refs_of(view.as_slice());
                state.stored_elsewhere.insert(place.offset, (of, view));
                Left::Value(Value::bulk(bulk), refs)
            }
            Some(Content::Bulk(Bulk::Filed(filed))) => match self.inherit_file(state, filed, files) {
                Some(filed) => Left::Value(Value::bulk(Bulk::Filed(filed)), self.refs_in(Bulk::Filed(filed))),
                None => Left::Lost,
            },
            Some(Content::Failed(failure)) => {
                let refs = value::refs_of_failure(&failure);
                Left::Value(failed(failure), refs)
            }
        }
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

    fn inherit_task(
        &self,
        state: &mut State,
        task: TaskRecord,
        progress: Progress,
        files: &mut FxHashMap<FileId, Option<FileId>>,
    ) -> Bequest {
        let (payload, filed) = match task.payload {
            Payload::Inline(bytes) => (bytes, None),
            // One that is not there any more is found to be lost when it is needed.
            Payload::Filed(filed) => (Vec::new(), Some(self.inherit_file(state, filed, files).unwrap_or(filed))),
        };
        Bequest {
            request: task.request,
            id: task.id,
            template: Arc::new(task.template),
            target: task.actor.map_or(Target::Pool, Target::Actor),
            is_ordered: task.is_ordered,
            payload,
            filed,
            deps: task.deps,
            contains: task.contains,
            returns: task.returns,
            retries_left: progress.retries,
            oom_retries_left: progress.oom_retries,
            sent_to: ProcId::from_u64(progress.worker),
        }
    }

    /// What the keeping asks for, once the owner's effects are applied.
    fn do_chores(&self, state: &mut State, chores: impl IntoIterator<Item = Chore>) {
        self.apply(state);
        for chore in chores {
            match chore {
                Chore::Settle { of, witnesses } => {
                    witnesses.into_iter().for_each(|witness| self.relay(witness, Peer::Settle { of }));
                }
                Chore::Settled { of, serving } => self.send(&ToNode::Settled { of, serving }),
                Chore::Served(worker) => self.send(&ToNode::Served { worker }),
            }
        }
    }

    pub(crate) fn on_testimony(&self, state: &mut State, from: ProcId, testimony: Testimony) {
        let Testimony { of, held, lent, serving, given, is_last } = testimony;
        for place in given {
            match state.stored_elsewhere.get_mut(&place.offset) {
                Some((holder, view)) if view.len() as u64 == place.length => *holder = from,
                _ => self.relay(from, Peer::FreePlace(place)),
            }
        }
        let is_dead = state.dead.has(from);
        let State { keeping, owner, effects, .. } = state;
        let words = Words { of, from, held: &held, lent: &lent, serving: &serving, is_last, is_dead };
        let chores = keeping.on_testimony(words, owner, effects);
        self.do_chores(state, chores);
    }

    pub(crate) fn on_settled(&self, state: &mut State, of: ProcId, from: ProcId) {
        let State { keeping, owner, effects, .. } = state;
        let chores = keeping.on_settled(of, from, owner, effects);
        self.do_chores(state, chores);
    }

    /// A process is dead that may be a witness, and may have had calls of the dead. What it had answered is read and pinned by now.
    pub(crate) fn witness_died(&self, state: &mut State, witness: ProcId) {
        if state.heirs.get(witness).is_none() {
            self.send(&ToNode::Inherited { of: witness });
        }
        let State { keeping, owner, effects, .. } = state;
        let chores = keeping.on_witness_died(witness, owner, effects);
        self.do_chores(state, chores);
    }

    /// An answer to a call of the dead process's.
    pub(crate) fn on_orphan_reply(&self, state: &mut State, sent: Sent, call: (ProcId, u64), flags: u8, body: &[u8]) {
        let from = sent.by;
        let State { keeping, owner, effects, .. } = &mut *state;
        let Some(key) = keeping.on_orphan_reply(call, from, owner, effects) else {
            // Nothing of it is kept.
            let nobody = TaskKey(u64::MAX);
            let _ = self.take_reply(state, nobody, sent, flags, body);
            return;
        };
        if self.take_reply(state, key, sent, flags, body).is_err() {
            self.send(&ToNode::KillWorker { worker: from });
        }
        let chore = state.keeping.on_orphan_answered(call, from);
        self.do_chores(state, chore);
    }
}
