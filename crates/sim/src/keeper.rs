//! What becomes of what a dead process owned, as the real bodies do it: everyone who had to do with it tells its heir, the keeper; the keeper
//! reads its records, hears everyone, gets the answers meant for it and runs what nobody runs.
//!
//! - **SIM-12** what somebody holds outlives its owner, if nobody else on its way was killed; a task of the dead ends by its rules; and in the
//!   end the keeper keeps nothing.

use std::sync::Arc;

use model::{Bulk, Failure, FileId, ObjectId, Place, ProcId, TaskKey};
use owner::{Chore, Claim, Counts, Effect, Estate, Heard, Kept, Late, Left, Legacy, Target, Value, Will, Words};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::env::{Claim as Word, Env};
use crate::large::Content;
use crate::network::Pid;
use crate::process::{Call, Frame, Process, Role, ToNode};
use crate::refs::{Peer, Ref};

/// What a process had to do with one that is dead.
#[derive(Clone, Debug, Default)]
pub(crate) struct Testimony {
    pub(crate) held: Vec<ObjectId>,
    pub(crate) lent: Vec<(ObjectId, i32)>,
    /// Calls of the dead that it will answer.
    pub(crate) serving: Vec<u64>,
    /// Values in its memory that belonged to the dead.
    pub(crate) given: Vec<Place>,
    pub(crate) is_last: bool,
}

/// What came of a call.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    GivenBack,
    Replied { answer: Result<Content, Failure>, kept: Vec<Kept> },
}

/// Who sent something that gives references away, and what it knew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) by: ProcId,
    pub(crate) known: u16,
    /// It was meant for a process whose heir we are: references were registered for that one.
    pub(crate) is_to_the_dead: bool,
}

impl Process {
    /// The calls of a dead process that have come in: nobody can take them back any more. Those that were are dropped. What they name is
    /// known only when they run, and nobody holds it until then.
    pub(crate) fn claim_calls(&mut self, env: &mut Env, of: ProcId) {
        let Role::Worker(worker) = &mut self.role else { return };
        worker.incoming.retain_mut(|call| {
            if call.caller == of && !call.is_claimed {
                call.is_claimed = env.claim(call.ticket, Word::Started);
                let inside = call.args.iter().flat_map(|arg| match &arg.content {
                    Some(Content::Small(number)) => &number.refs[..],
                    Some(Content::Large(_)) | None => &[],
                });
                call.refs.iter().chain(inside).for_each(|reference| env.oracle.unheld(reference.id));
                return call.is_claimed;
            }
            true
        });
    }

    /// Replies that the dead process has never read: to its heir, or what they say of kept references to those who own them.
    pub(crate) fn salvage(&mut self, env: &mut Env, dead: ProcId, heir: Option<ProcId>) {
        let node = self.pid.0;
        for frame in env.take_unread(self.pid, (node, dead)) {
            let (key, known, answer) = match frame {
                Frame::Reply { key, answer, kept, known, .. } => (key, known, Answer::Replied { answer, kept }),
                Frame::GivenBack { key, known } => (key, known, Answer::GivenBack),
                Frame::Call(_) | Frame::Item { .. } | Frame::Consumed { .. } => continue,
            };
            match (heir, answer) {
                (Some(heir), answer) => self.relay(env, heir, Peer::Reply { caller: dead, key, known, answer }),
                (None, Answer::Replied { kept, .. }) => self.tell_owners(env, &kept),
                (None, Answer::GivenBack) => {}
            }
        }
    }

    /// Nobody else will: the caller is gone.
    pub(crate) fn tell_owners(&mut self, env: &mut Env, kept: &[Kept]) {
        for Kept { id, owner, borrower } in kept {
            self.lend(env, self.heirs.living(*owner), *id, *borrower, 1);
        }
    }

    /// Tells the heir all that we had to do with the dead.
    pub(crate) fn testify(&mut self, env: &mut Env, of: ProcId, heir: ProcId) {
        let Heard { counted, astray } = self.heirs.on_death(of, heir);
        let Legacy { held, lent } = self.owner.on_owner_replaced(of, heir, counted, &mut self.effects);
        let serving = match &self.role {
            Role::Worker(worker) => worker.calls().filter(|call| call.caller == of).map(|call| call.key.0).collect(),
            Role::Driver(_) | Role::Keeper => Vec::new(),
        };
        let mut given = Vec::new();
        for (to, place) in self.holdings.given.values_mut().filter(|(to, _)| *to == of) {
            *to = heir;
            given.push(*place);
        }
        given.sort_unstable();
        let testimony = Testimony { held, lent, serving, given, is_last: true };
        self.relay(env, heir, Peer::Testimony { of, testimony });
        for object in astray {
            self.relay(env, heir, Peer::Borrowed { object, borrower: self.pid.1, count: 1 });
        }
        self.count_late(env);
    }

    /// One more death is known: what was said by those who had heard of it before us may be counted now.
    fn count_late(&mut self, env: &mut Env) {
        for Late { known, kept, slot } in self.heirs.take_late() {
            self.note_kept(env, known, kept);
            slot.into_iter().for_each(|slot| self.owner.on_handle_dropped(slot, &mut self.effects));
        }
    }

    /// All have testified, so what was registered with the dead has come in by now.
    pub(crate) fn on_settle(&mut self, env: &mut Env, of: ProcId, heir: ProcId) {
        self.drain(env);
        self.apply(env);
        self.relay(env, heir, Peer::Settled { of });
    }

    /// Reads all that lies in its rings.
    fn drain(&mut self, env: &mut Env) {
        for (from, frame) in env.queue.take_all_frames(self.pid) {
            self.on_frame(env, from.1, frame);
        }
    }

    /// Somebody who knew of so many deaths keeps a reference beyond its call.
    pub(crate) fn note_kept(&mut self, env: &mut Env, known: u16, kept: Kept) {
        let Some(Kept { id, owner, borrower }) = self.heirs.on_kept(known, kept, &mut self.owner) else { return };
        self.meet(env, owner);
        self.meet(env, borrower);
        // Nobody would ever give back what is counted for the dead.
        if !self.dead.contains(&borrower) {
            self.owner.on_kept_by(&id, self.owner_named(owner), borrower, &mut self.effects);
        }
    }

    /// Somebody says that a process holds more or fewer shares of an object of ours. Returns for whom they count.
    pub(crate) fn on_told_of_shares(
        &mut self,
        env: &mut Env,
        sender: ProcId,
        object: ObjectId,
        borrower: ProcId,
        count: i32,
    ) -> Option<ProcId> {
        let claim = Claim { sender, object, borrower, is_dead: self.dead.contains(&borrower) };
        let borrower = match self.keeping.who_borrows(claim, self.pid.1, &self.heirs) {
            Counts::Nobody => return None,
            Counts::For(process) => process,
            Counts::ForHeir(heir) => {
                let testimony = Testimony { lent: vec![(object, count)], ..Testimony::default() };
                self.relay(env, heir, Peer::Testimony { of: borrower, testimony });
                heir
            }
        };
        self.owner.on_shares(&object, borrower, count, &mut self.effects);
        Some(borrower)
    }

    /// The keeper takes over what a dead process has left.
    pub(crate) fn on_inherit(&mut self, env: &mut Env, of: ProcId, witnesses: Vec<ProcId>) {
        let node = self.pid.0;
        let (objects, tasks) = env.journals.remove(&(node, of)).unwrap_or_default().read();
        let mut files: FxHashMap<FileId, Option<FileId>> = FxHashMap::default();
        let mut had_value = FxHashSet::default();
        let mut left = Vec::new();
        for (id, content) in objects {
            let content = content.map(|content| self.inherit_content(env, of, content, &mut files));
            if matches!(content, Some(Left::Value(..))) {
                had_value.insert(id);
            }
            if matches!(content, Some(Left::Lost)) {
                env.oracle.lost_with_its_owner(&id);
            }
            left.push((id, content.unwrap_or(Left::Due)));
        }
        let Self { owner, heirs, effects, .. } = self;
        let will = Will { of, heir: self.pid.1, objects: left };
        let mut estate = Estate::new(will, heirs, owner, effects);
        for task in tasks {
            if estate.wants(task.request.is_some(), &task.returns, owner) {
                if let Target::Actor(actor) = task.target {
                    env.tell_node(self.pid, ToNode::WatchActor { actor });
                }
                estate.take(task, heirs, owner, effects);
            }
        }
        for slot in estate.slots() {
            let id = self.owner.object(slot).expect("inherited").id;
            match env.oracle.maker_of(&id) {
                Some(task) => drop(self.maker.insert(slot, task)),
                None => drop(self.puts.insert(slot, id)),
            }
        }
        // They had their value before: nothing has become of them now.
        let is_old = |slot| self.owner.object(slot).is_some_and(|object| had_value.contains(&object.id));
        self.effects.retain(|effect| !matches!(effect, Effect::Resolved(slot) if is_old(*slot)));
        self.count_late(env);
        self.apply(env);
        env.tell_node(self.pid, ToNode::Inherited { of });
        let Self { keeping, owner, effects, .. } = self;
        let witnesses = witnesses.into_iter().filter(|witness| *witness != self.pid.1);
        let chores = keeping.on_death(of, witnesses, estate, owner, effects);
        self.do_chores(env, chores);
    }

    fn inherit_content(
        &mut self,
        env: &mut Env,
        of: ProcId,
        content: Result<Content, Failure>,
        files: &mut FxHashMap<FileId, Option<FileId>>,
    ) -> Left {
        let named = |refs: &[Ref]| refs.iter().map(|reference| (reference.id, reference.owner)).collect();
        match content {
            Err(failure) => Left::Value(Value::Failed(Arc::new(failure)), Vec::new()),
            Ok(Content::Small(number)) => Left::Value(number.to_value(), named(&number.refs)),
            Ok(Content::Large(bulk @ Bulk::Stored(place))) => {
                let Some(number) = env.memories[self.pid.0].pin(self.pid.1, place) else {
                    env.oracle.fail(format!("SIM-12: {of} has recorded {place:?}, where nothing is"));
                    return Left::Lost;
                };
                self.holdings.elsewhere.insert(place.offset, of);
                Left::Value(Value::bulk(bulk), named(&number.refs))
            }
            Ok(Content::Large(Bulk::Filed(filed))) => {
                let memory = &mut env.memories[self.pid.0];
                let me = self.pid.1;
                let is_harmed = memory.is_harmed(Bulk::Filed(filed));
                let mut take = || memory.take_over(me, filed).map(|filed| filed.file);
                let Some(file) = *files.entry(filed.file).or_insert_with(&mut take) else {
                    if !is_harmed {
                        env.oracle.fail(format!("SIM-12: {of} has recorded {filed:?}, which is gone"));
                    }
                    return Left::Lost;
                };
                let filed = model::Filed { file, ..filed };
                self.hold_file(file);
                let refs = env.memories[self.pid.0].map(&filed).map_or_else(Vec::new, |number| named(&number.refs));
                Left::Value(Value::bulk(Bulk::Filed(filed)), refs)
            }
        }
    }

    pub(crate) fn do_chores(&mut self, env: &mut Env, chores: impl IntoIterator<Item = Chore>) {
        self.apply(env);
        for chore in chores {
            match chore {
                Chore::Settle { of, witnesses } => {
                    witnesses.into_iter().for_each(|witness| self.relay(env, witness, Peer::Settle { of }));
                }
                Chore::Settled { of, serving } => env.tell_node(self.pid, ToNode::Settled { of, serving }),
                Chore::Served(worker) => env.tell_node(self.pid, ToNode::Served { worker }),
            }
        }
    }

    pub(crate) fn on_testimony(&mut self, env: &mut Env, from: ProcId, of: ProcId, testimony: Testimony) {
        let Testimony { held, lent, serving, given, is_last } = testimony;
        for place in given {
            match self.holdings.elsewhere.get_mut(&place.offset) {
                Some(holder) if env.memories[self.pid.0].seen(self.pid.1, place).is_some() => *holder = from,
                _ => self.relay(env, from, Peer::FreePlace(place)),
            }
        }
        let is_dead = self.dead.contains(&from);
        let Self { keeping, owner, effects, .. } = self;
        let words = Words { of, from, held: &held, lent: &lent, serving: &serving, is_last, is_dead };
        let chores = keeping.on_testimony(words, owner, effects);
        self.do_chores(env, chores);
    }

    pub(crate) fn on_settled(&mut self, env: &mut Env, from: ProcId, of: ProcId) {
        let Self { keeping, owner, effects, .. } = self;
        let chores = keeping.on_settled(of, from, owner, effects);
        self.do_chores(env, chores);
    }

    pub(crate) fn witness_died(&mut self, env: &mut Env, dead: ProcId) {
        let Self { keeping, owner, effects, .. } = self;
        let chores = keeping.on_witness_died(dead, owner, effects);
        self.do_chores(env, chores);
    }

    /// An answer to a call of a dead process's.
    pub(crate) fn on_orphan_reply(&mut self, env: &mut Env, sent: Sent, call: (ProcId, TaskKey), answer: Answer) {
        let (caller, request) = (call.0, call.1.0);
        match self.keeping.on_orphan_reply((caller, request), sent.by, &mut self.owner, &mut self.effects) {
            Some(key) => {
                env.counts.salvaged += 1;
                self.take_answer(env, key, sent, answer);
                let chore = self.keeping.on_orphan_answered((caller, request), sent.by);
                self.do_chores(env, chore);
            }
            None => self.take_answer(env, TaskKey(u64::MAX), sent, answer),
        }
    }

    /// What a worker says of a call, in a ring or by way of the node.
    pub(crate) fn take_answer(&mut self, env: &mut Env, key: TaskKey, sent: Sent, answer: Answer) {
        match answer {
            Answer::GivenBack => self.owner.on_given_back(env.now, key, sent.by, &mut self.effects),
            Answer::Replied { answer, kept } => self.take_reply(env, key, sent, answer, &kept),
        }
    }
}

/// Gives a call back that has not started.
pub(crate) fn give_back(process: &mut Process, env: &mut Env, call: &Call) {
    let from: Pid = process.pid;
    let (key, known) = (call.key, process.heirs.known());
    match process.heirs.get(call.caller) {
        Some(heir) => {
            process.relay(env, heir, Peer::Reply { caller: call.caller, key, known, answer: Answer::GivenBack });
        }
        None if env.claim(call.ticket, Word::Started) => {
            env.frame(from, (from.0, call.caller), Frame::GivenBack { key, known });
        }
        None => {}
    }
}
