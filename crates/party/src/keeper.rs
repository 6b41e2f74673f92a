//! The heir of every process that dies before its node: owns what they gave away, counts who holds it, gets the answers meant for them, and
//! runs again what nobody runs. It is a process like the others to all who talk to it, and lives beside the node.
//!
//! It hears of a death before any testimony, and reads the dead process's journal at once, so that all places are pinned before the node
//! gives the dead one's memory away. What it took over it holds until all have testified and settled (see `testimony`).

use std::sync::Arc;

use model::{Bulk, FileId, Filed, ObjectId, ProcId, TaskId, TaskKey};
use owner::{Bequest, Chore, Estate, Left, Packed, Target, Value, Will, Words};
use rustc_hash::FxHashMap;
use wire::control::ToNode;
use wire::journal::{Payload, Record, TaskRecord};
use wire::peer::{Content, Peer, Shares, Testimony};
use wire::value;

use crate::taking::{Sent, failed};
use crate::{Body, NoPin, Party, Progress};

/// What was recorded last of everything.
#[derive(Default)]
struct Records {
    objects: FxHashMap<ObjectId, Option<Content>>,
    /// Those that have not ended first, in the order of submission.
    tasks: Vec<(TaskRecord, Progress)>,
}

/// What became of files that the dead process had.
type Files = FxHashMap<FileId, Option<FileId>>;

/// What a dead process has left, taken over and not yet kept: see [`Party::keep`].
#[derive(Debug)]
pub struct Inherited {
    of: ProcId,
    estate: Estate,
}

impl Inherited {
    /// The objects that are ours now.
    pub fn slots(&self) -> impl Iterator<Item = owner::Slot> {
        self.estate.slots()
    }
}

impl Records {
    fn read(records: Vec<(Record, Progress)>) -> Self {
        let mut objects: FxHashMap<ObjectId, Option<Content>> = FxHashMap::default();
        let mut tasks: FxHashMap<(TaskId, bool), (TaskRecord, Progress)> = FxHashMap::default();
        // The later record of two is the true one.
        for (record, progress) in records {
            match record {
                Record::Object { id, content } => drop(objects.insert(id, content)),
                Record::Task(task) => drop(tasks.insert((task.id, task.request.is_some()), (*task, progress))),
            }
        }
        let mut tasks: Vec<(TaskRecord, Progress)> = tasks.into_values().collect();
        tasks.sort_by_key(|(task, _)| (task.request.is_none(), task.number));
        Self { objects, tasks }
    }
}

impl<P> Party<P> {
    /// A process is dead: takes over what it has left. Once the effects of that are applied, `keep` follows.
    pub fn inherit(&mut self, body: &mut impl Body<Pin = P>, of: ProcId) -> Option<Inherited> {
        let records = Records::read(body.read_records(of)?);
        let mut files = Files::default();
        let objects = records.objects.into_iter();
        let objects = objects.map(|(id, content)| (id, self.inherit_content(body, of, content, &mut files))).collect();
        let Self { me, owner, heirs, effects, .. } = self;
        let mut estate = Estate::new(Will { of, heir: *me, objects }, heirs, owner, effects);
        for (task, progress) in records.tasks {
            if !estate.wants(task.request.is_some(), &task.returns, &self.owner) {
                continue;
            }
            if let Some(actor) = task.actor
                && self.watched.insert(actor)
            {
                body.watch_actor(actor);
            }
            let bequest = self.inherit_task(body, task, progress, &mut files);
            let Self { owner, heirs, effects, .. } = self;
            estate.take(bequest, heirs, owner, effects);
        }
        for (heir, object) in estate.take_claims() {
            self.words.add_shares(heir, Shares { object, borrower: self.me, count: 1 });
        }
        estate.slots().for_each(|slot| self.show(body, slot));
        self.count_late(body);
        Some(Inherited { of, estate })
    }

    /// What was taken over is kept until these have been heard.
    pub fn keep(&mut self, body: &mut impl Body<Pin = P>, inherited: Inherited, witnesses: Vec<ProcId>) {
        let Inherited { of, estate } = inherited;
        body.tell_node(ToNode::Inherited { of });
        let Self { me, keeping, owner, effects, .. } = self;
        let witnesses = witnesses.into_iter().filter(|process| process != me);
        let chores = keeping.on_death(of, witnesses, estate, owner, effects);
        self.note_chores(chores);
    }

    fn inherit_content(
        &mut self,
        body: &mut impl Body<Pin = P>,
        of: ProcId,
        content: Option<Content>,
        files: &mut Files,
    ) -> Left {
        match content {
            None => Left::Due,
            Some(Content::Inline(bytes)) => {
                let refs = value::refs_of(&bytes);
                Left::Value(Value::Inline(Packed::from(bytes)), refs)
            }
            // It lies on another node, which keeps it for us from now on.
            Some(Content::Away(bulk, refs)) => {
                body.tell_node(ToNode::InheritAway(bulk));
                Left::Value(Value::bulk(bulk), refs)
            }
            Some(Content::Bulk(bulk @ Bulk::Stored(place))) => match body.pin(place) {
                // Whose memory it is in, if it is not the dead one's own, that process will say.
                Ok(pin) => {
                    let refs = body.refs_at(place, &pin);
                    self.places.keep(of, place, pin);
                    Left::Value(Value::bulk(bulk), refs)
                }
                Err(NoPin::Full(_) | NoPin::Gone) => Left::Lost,
            },
            Some(Content::Bulk(Bulk::Filed(filed))) => match self.inherit_file(body, filed, files) {
                Some(filed) => {
                    let bulk = Bulk::Filed(filed);
                    Left::Value(Value::bulk(bulk), body.refs_in(bulk))
                }
                None => Left::Lost,
            },
            Some(Content::Failed(failure)) => {
                let refs = value::refs_of_failure(&failure);
                Left::Value(failed(failure), refs)
            }
        }
    }

    /// The file is named after us from now on, and holds one thing more that is ours.
    fn inherit_file(&mut self, body: &mut impl Body<Pin = P>, filed: Filed, files: &mut Files) -> Option<Filed> {
        let take = || body.take_over(filed).ok().map(|filed| filed.file);
        let file = (*files.entry(filed.file).or_insert_with(take))?;
        let filed = Filed { file, ..filed };
        self.hold_file(Bulk::Filed(filed));
        Some(filed)
    }

    fn inherit_task(
        &mut self,
        body: &mut impl Body<Pin = P>,
        task: TaskRecord,
        progress: Progress,
        files: &mut Files,
    ) -> Bequest {
        let (payload, filed) = match task.payload {
            Payload::Inline(bytes) => (bytes, None),
            // One that is not there any more is found to be lost when it is needed.
            Payload::Filed(filed) => (Vec::new(), Some(self.inherit_file(body, filed, files).unwrap_or(filed))),
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
            sent_to: progress.worker,
        }
    }

    /// What the keeping asks for is said once the owner's effects are applied.
    fn note_chores(&mut self, chores: impl IntoIterator<Item = Chore>) {
        for chore in chores {
            match chore {
                Chore::Settle { of, witnesses } => {
                    let (nodes, here): (Vec<ProcId>, _) = witnesses.into_iter().partition(|witness| witness.is_node());
                    let ask = |to: ProcId| ToNode::Relay { to, message: Peer::Settle { of } };
                    here.into_iter().map(ask).for_each(|message| self.words.add(message));
                    if !nodes.is_empty() {
                        let nodes = nodes.into_iter().map(ProcId::node).collect();
                        self.words.add(ToNode::SettleAbroad { of, nodes });
                    }
                }
                Chore::Settled { of, serving } => self.words.add(ToNode::Settled { of, serving }),
                Chore::Served(worker) => self.words.add(ToNode::Served { worker }),
            }
        }
    }

    pub(crate) fn on_testimony(&mut self, body: &mut impl Body<Pin = P>, from: ProcId, testimony: Testimony) {
        let Testimony { of, held, lent, serving, given, is_last } = testimony;
        given.into_iter().for_each(|place| self.on_lies_with(body, from, place));
        let is_dead = self.dead.has(from);
        let Self { keeping, owner, effects, .. } = self;
        let words = Words { of, from, held: &held, lent: &lent, serving: &serving, is_last, is_dead };
        let chores = keeping.on_testimony(words, owner, effects);
        self.note_chores(chores);
    }

    /// All processes of another node have testified.
    pub fn on_node_testified(&mut self, of: ProcId, node: u32) {
        let Self { keeping, owner, effects, .. } = self;
        let chores = keeping.on_node_testified(of, node, owner, effects);
        self.note_chores(chores);
    }

    /// All processes of another node have taken up what had come in.
    pub fn on_node_settled(&mut self, of: ProcId, node: u32) {
        self.on_settled(of, ProcId::of_node(node));
    }

    pub(crate) fn on_settled(&mut self, of: ProcId, from: ProcId) {
        let Self { keeping, owner, effects, .. } = self;
        let chores = keeping.on_settled(of, from, owner, effects);
        self.note_chores(chores);
    }

    /// A process is dead that may be a witness, and may have had calls of the dead. What it had answered is read and pinned by now.
    pub(crate) fn witness_died(&mut self, body: &mut impl Body<Pin = P>, witness: ProcId) {
        if self.heirs.get(witness).is_none() {
            body.tell_node(ToNode::Inherited { of: witness });
        }
        let Self { keeping, owner, effects, .. } = self;
        let chores = keeping.on_witness_died(witness, owner, effects);
        self.note_chores(chores);
    }

    /// An answer to a call of the dead process's.
    pub(crate) fn on_orphan_reply(
        &mut self,
        body: &mut impl Body<Pin = P>,
        sent: Sent<'_>,
        call: (ProcId, u64),
        flags: u8,
        bytes: &[u8],
    ) {
        let from = sent.by;
        let Self { keeping, owner, effects, .. } = self;
        let Some(key) = keeping.on_orphan_reply(call, from, owner, effects) else {
            // Nothing of it is kept.
            let nobody = TaskKey(u64::MAX);
            let _ = self.take_reply(body, nobody, sent, flags, bytes);
            return;
        };
        if self.take_reply(body, key, sent, flags, bytes).is_err() {
            body.tell_node(ToNode::KillWorker { worker: from });
        }
        let chore = self.keeping.on_orphan_answered(call, from);
        self.note_chores(chore);
    }
}
