//! What the heir of dead processes decides: who must still be heard, when it is known who holds what, and who still answers the calls of the
//! dead.
//!
//! An estate goes through three times. First every witness testifies: what it holds, what it had lent, which calls it will answer. A
//! reference may be on its way meanwhile; so, when all have, everyone is asked to take up what has come in, and says so. Then what nobody
//! holds goes, and what nobody runs is run. A witness that dies is not waited for.
//!
//! - **KEEP-1** an estate is finished exactly once, as soon as every witness has testified and settled or is dead.
//! - **KEEP-2** what somebody holds outlives its owner; what nobody holds is kept no longer than the estate is open.
//! - **KEEP-3** a call of the dead is answered by who runs it, or is run again by the rules of OWN-4, never both.

use std::collections::BTreeSet;

use model::{ObjectId, ProcId, TaskKey};
use rustc_hash::FxHashMap;

use crate::will::{Estate, Orphan};
use crate::{Effect, Heirs, Owner, Slot};

/// What the heir's body shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Ask these to take up what has come in, and to say `on_settled`.
    Settle {
        /// Who is dead.
        of: ProcId,
        /// The processes that are asked.
        witnesses: Vec<ProcId>,
    },
    /// Tell the node that it is known what a dead process has left.
    Settled {
        /// Who is dead.
        of: ProcId,
        /// Who still answers calls of its.
        serving: Vec<ProcId>,
    },
    /// Tell the node that this worker has answered all calls of the dead.
    Served(ProcId),
}

/// What a witness says of a dead process, or a part of it.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// Who is dead.
    pub of: ProcId,
    /// Who says it.
    pub from: ProcId,
    /// Objects of the dead that it holds.
    pub held: &'a [ObjectId],
    /// Shares of its objects that counted for the dead, and count for the heir now.
    pub lent: &'a [(ObjectId, i32)],
    /// Calls of the dead that it will answer.
    pub serving: &'a [u64],
    /// Nothing comes behind this.
    pub is_last: bool,
    /// The witness has died since: it holds nothing any more.
    pub is_dead: bool,
}

/// Somebody says that a process holds more or fewer shares of an object of ours.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Who says it.
    pub sender: ProcId,
    /// Of which object.
    pub object: ObjectId,
    /// Who holds them.
    pub borrower: ProcId,
    /// The borrower is known to be dead.
    pub is_dead: bool,
}

/// For whom such shares count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// They do not.
    Nobody,
    /// For this process.
    For(ProcId),
    /// For the heir of whom they were registered for. It must be told: our testimony said nothing of them.
    ForHeir(ProcId),
}

/// A call of the dead: who called, and what that called it.
type Call = (ProcId, u64);

/// What is awaited of the witnesses.
#[derive(Debug)]
enum Stage {
    Testimony,
    Settling,
}

#[derive(Debug)]
struct Open {
    estate: Estate,
    stage: Stage,
    /// Who has not said yet what this stage asks for.
    awaited: BTreeSet<ProcId>,
    /// All witnesses that live. Processes of another node are one, named after that node, which says when all of them have been heard.
    witnesses: BTreeSet<ProcId>,
    /// Those of other nodes that have testified, while their node has not said so.
    spoke: BTreeSet<ProcId>,
    /// Held until it is finished, though nothing is known that names them: what does may still be on its way.
    lent: Vec<Slot>,
}

/// All estates that are not settled, and the calls of the dead that somebody will answer. Empty in all processes but the heir.
#[derive(Debug, Default)]
pub struct Keeping {
    estates: FxHashMap<ProcId, Open>,
    calls: FxHashMap<Call, TaskKey>,
    /// How many of those each process answers.
    serving: FxHashMap<ProcId, usize>,
}

impl Keeping {
    /// A process is dead, and this is what it has left. All witnesses will testify.
    pub fn on_death(
        &mut self,
        of: ProcId,
        witnesses: impl IntoIterator<Item = ProcId>,
        estate: Estate,
        owner: &mut Owner,
        out: &mut Vec<Effect>,
    ) -> Vec<Chore> {
        let witnesses: BTreeSet<ProcId> = witnesses.into_iter().collect();
        for slot in estate.slots() {
            owner.on_nothing_makes(slot, out);
        }
        self.calls.extend(estate.tasks.iter().map(|task| ((of, task.request), task.key)));
        let spoke = BTreeSet::new();
        let open =
            Open { estate, stage: Stage::Testimony, awaited: witnesses.clone(), witnesses, spoke, lent: Vec::new() };
        self.estates.insert(of, open);
        self.go_on(of, owner, out)
    }

    /// A witness testifies.
    pub fn on_testimony(&mut self, words: Words<'_>, owner: &mut Owner, out: &mut Vec<Effect>) -> Vec<Chore> {
        let Words { of, from, held, lent, serving, is_last, is_dead } = words;
        for id in held.iter().filter(|_| !is_dead) {
            owner.on_shares(id, from, 1, out);
        }
        let open = self.estates.get_mut(&of);
        let mut held = open.map(|open| &mut open.lent);
        for (id, count) in lent {
            // What names it comes by another way, and may come later.
            let slot = owner.on_named(*id, Some(from), 0);
            if let Some(held) = &mut held {
                owner.on_handle_added(slot);
                held.push(slot);
            }
            owner.on_lent(*id, from, *count, out);
        }
        for request in serving {
            if let Some(key) = self.calls.get(&(of, *request)).copied() {
                self.runs((of, *request), key, from, owner, out);
            }
        }
        let Some(open) = self.estates.get_mut(&of).filter(|open| is_last && matches!(open.stage, Stage::Testimony))
        else {
            return Vec::new();
        };
        if open.awaited.contains(&ProcId::of_node(from.node())) {
            open.spoke.insert(from);
        }
        self.was_heard(of, from, owner, out)
    }

    /// All processes of another node have testified, and what they said has come.
    pub fn on_node_testified(&mut self, of: ProcId, node: u32, owner: &mut Owner, out: &mut Vec<Effect>) -> Vec<Chore> {
        let is_awaited = self.estates.get(&of).is_some_and(|open| matches!(open.stage, Stage::Testimony));
        if is_awaited { self.was_heard(of, ProcId::of_node(node), owner, out) } else { Vec::new() }
    }

    /// A witness has taken up what had come in.
    pub fn on_settled(&mut self, of: ProcId, from: ProcId, owner: &mut Owner, out: &mut Vec<Effect>) -> Vec<Chore> {
        let is_awaited = self.estates.get(&of).is_some_and(|open| matches!(open.stage, Stage::Settling));
        if is_awaited { self.was_heard(of, from, owner, out) } else { Vec::new() }
    }

    /// A process is dead: it says nothing more, and answers nothing. After the owner has heard of it.
    pub fn on_witness_died(&mut self, dead: ProcId, owner: &mut Owner, out: &mut Vec<Effect>) -> Vec<Chore> {
        self.serving.remove(&dead);
        // What ran there is run again, or has failed.
        self.calls.retain(|_, key| owner.is_orphan_idle(*key) || owner.adopted_by(*key).is_some());
        let concerned: Vec<ProcId> = self.estates.keys().copied().collect();
        let mut chores = Vec::new();
        for of in concerned {
            if let Some(open) = self.estates.get_mut(&of) {
                open.witnesses.remove(&dead);
            }
            chores.extend(self.was_heard(of, dead, owner, out));
        }
        chores
    }

    fn was_heard(&mut self, of: ProcId, who: ProcId, owner: &mut Owner, out: &mut Vec<Effect>) -> Vec<Chore> {
        let was_awaited = self.estates.get_mut(&of).is_some_and(|open| open.awaited.remove(&who));
        if was_awaited { self.go_on(of, owner, out) } else { Vec::new() }
    }

    /// If nobody is awaited any more, the next time begins.
    fn go_on(&mut self, of: ProcId, owner: &mut Owner, out: &mut Vec<Effect>) -> Vec<Chore> {
        let Some(open) = self.estates.get_mut(&of).filter(|open| open.awaited.is_empty()) else { return Vec::new() };
        if matches!(open.stage, Stage::Testimony) && !open.witnesses.is_empty() {
            open.spoke.clear();
            open.stage = Stage::Settling;
            open.awaited.clone_from(&open.witnesses);
            return vec![Chore::Settle { of, witnesses: open.witnesses.iter().copied().collect() }];
        }
        self.finish(of, owner, out)
    }

    /// It is known who holds what: what nobody holds goes, what nobody runs is run.
    fn finish(&mut self, of: ProcId, owner: &mut Owner, out: &mut Vec<Effect>) -> Vec<Chore> {
        let Some(Open { estate, lent, .. }) = self.estates.remove(&of) else { return Vec::new() };
        // What others had registered for it they have taken up by now, and so have we.
        owner.on_process_gone(of, out);
        for slot in estate.slots().chain(lent) {
            owner.on_handle_dropped(slot, out);
        }
        // The last one first: what it needs is wanted no longer than it is itself.
        let mut unwanted = Vec::new();
        for Orphan { request, key, .. } in estate.tasks.iter().rev() {
            let worker = owner.adopted_by(*key);
            if owner.on_orphan_unwanted(*key, out) {
                self.calls.remove(&(of, *request));
                unwanted.extend(worker);
            }
        }
        for Orphan { request, key, is_sent } in estate.tasks {
            if owner.is_orphan_idle(key) {
                self.calls.remove(&(of, request));
                owner.on_orphan_idle(key, is_sent, out);
            }
        }
        let mut chores: Vec<Chore> = unwanted.into_iter().filter_map(|worker| self.served(worker)).collect();
        let answering = self.calls.iter().filter(|((caller, _), _)| *caller == of);
        let serving: BTreeSet<ProcId> = answering.filter_map(|(_, key)| owner.adopted_by(*key)).collect();
        chores.push(Chore::Settled { of, serving: serving.into_iter().collect() });
        chores
    }

    /// Somebody runs a call of the dead process's, and will answer us. Nobody waits for that if the actor that it calls is dead.
    fn runs(&mut self, call: Call, key: TaskKey, worker: ProcId, owner: &mut Owner, out: &mut Vec<Effect>) {
        owner.on_orphan_runs(key, worker, out);
        if owner.is_under(key, worker) {
            *self.serving.entry(worker).or_default() += 1;
        } else {
            self.calls.remove(&call);
        }
    }

    /// An answer to a call of a dead process's comes. Returns which task it is of; nothing if nobody has ever asked for what it makes, or
    /// nobody waits any more.
    pub fn on_orphan_reply(
        &mut self,
        call: Call,
        from: ProcId,
        owner: &mut Owner,
        out: &mut Vec<Effect>,
    ) -> Option<TaskKey> {
        let key = self.calls.get(&call).copied()?;
        if !owner.is_under(key, from) {
            self.runs(call, key, from, owner, out);
        }
        owner.is_under(key, from).then_some(key)
    }

    /// That answer was taken.
    pub fn on_orphan_answered(&mut self, call: Call, from: ProcId) -> Option<Chore> {
        self.calls.remove(&call);
        self.served(from)
    }

    fn served(&mut self, worker: ProcId) -> Option<Chore> {
        let count = self.serving.get_mut(&worker)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        self.serving.remove(&worker);
        Some(Chore::Served(worker))
    }

    /// For whom shares count that somebody tells us of; `me` is this process.
    #[must_use]
    pub fn who_borrows(&self, claim: Claim, me: ProcId, heirs: &Heirs) -> Counts {
        let Claim { sender, object, borrower, is_dead } = claim;
        if self.will_testify(sender, &object) {
            return Counts::Nobody;
        }
        match heirs.get(borrower) {
            // We hold for it what it held, until all is settled.
            Some(heir) if heir == me && self.estates.contains_key(&borrower) => Counts::For(borrower),
            Some(heir) if heir == me => Counts::Nobody,
            Some(heir) => Counts::ForHeir(heir),
            None if is_dead => Counts::Nobody,
            None => Counts::For(borrower),
        }
    }

    /// Whether what this process says of the object's shares is old: it has not testified yet.
    fn will_testify(&self, from: ProcId, object: &ObjectId) -> bool {
        let mut open = self.estates.values().filter(|open| matches!(open.stage, Stage::Testimony));
        let is_awaited = |open: &Open| {
            let is_abroad = open.awaited.contains(&ProcId::of_node(from.node())) && !open.spoke.contains(&from);
            open.awaited.contains(&from) || is_abroad
        };
        open.any(|open| open.estate.slots.contains_key(object) && is_awaited(open))
    }

    /// Whether no estate is open, and nobody is to answer a call of the dead.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.estates.is_empty() && self.calls.is_empty() && self.serving.is_empty()
    }
}
