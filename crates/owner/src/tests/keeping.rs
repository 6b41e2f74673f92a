//! The heir's side of a death: whom it waits for, what it lets go of, what it runs, who answers it.

use model::{Failure, ObjectId, ProcId};

use super::story::{Process, W1, W2, W3, failed, push, template, value, worker};
use crate::{Bequest, Chore, Claim, Counts, Estate, Heirs, Keeping, Left, Ref, Slot, Target, Value, Will, Words};

pub(super) const ME: ProcId = worker(9);
pub(super) const GONE: ProcId = worker(8);

/// The heir, and what one dead process has left.
pub(super) struct Heir {
    pub(super) process: Process,
    pub(super) keeping: Keeping,
    pub(super) heirs: Heirs,
}

impl Heir {
    pub(super) fn new() -> Self {
        Self { process: Process::leased(), keeping: Keeping::default(), heirs: Heirs::default() }
    }

    fn inherits(&mut self, objects: Vec<(ObjectId, Left)>, tasks: Vec<Bequest>, witnesses: &[ProcId]) -> Vec<Chore> {
        self.inherits_from(GONE, objects, tasks, witnesses)
    }

    pub(super) fn inherits_from(
        &mut self,
        of: ProcId,
        objects: Vec<(ObjectId, Left)>,
        tasks: Vec<Bequest>,
        witnesses: &[ProcId],
    ) -> Vec<Chore> {
        let Self { process, keeping, heirs } = self;
        let mut chores = Vec::new();
        process.when(|owner, _, out| {
            let mut estate = Estate::new(Will { of, heir: ME, objects }, heirs, owner, out);
            for task in tasks {
                if estate.wants(task.request.is_some(), &task.returns, owner) {
                    estate.take(task, heirs, owner, out);
                }
            }
            chores = keeping.on_death(of, witnesses.iter().copied(), estate, owner, out);
        });
        chores
    }

    fn testifies(&mut self, from: ProcId, held: &[ObjectId], serving: &[u64]) -> Vec<Chore> {
        let (of, lent) = (GONE, &[][..]);
        self.says(Words { of, from, held, lent, serving, is_last: true, is_dead: false })
    }

    pub(super) fn says(&mut self, words: Words<'_>) -> Vec<Chore> {
        let Self { process, keeping, .. } = self;
        let mut chores = Vec::new();
        process.when(|owner, _, out| chores = keeping.on_testimony(words, owner, out));
        chores
    }

    fn settles(&mut self, from: ProcId) -> Vec<Chore> {
        self.settles_for(GONE, from)
    }

    pub(super) fn settles_for(&mut self, of: ProcId, from: ProcId) -> Vec<Chore> {
        let Self { process, keeping, .. } = self;
        let mut chores = Vec::new();
        process.when(|owner, _, out| chores = keeping.on_settled(of, from, owner, out));
        chores
    }

    /// A process that left nothing dies.
    fn loses(&mut self, dead: ProcId) -> Vec<Chore> {
        self.process.died(dead, &[]);
        self.is_told_of(dead)
    }

    /// Its owner's brain has heard of the death.
    pub(super) fn is_told_of(&mut self, dead: ProcId) -> Vec<Chore> {
        let Self { process, keeping, .. } = self;
        let mut chores = Vec::new();
        process.when(|owner, _, out| chores = keeping.on_witness_died(dead, owner, out));
        chores
    }

    fn is_answered(&mut self, request: u64, from: ProcId) -> Option<Chore> {
        self.is_answered_for((GONE, request), from)
    }

    pub(super) fn is_answered_for(&mut self, call: (ProcId, u64), from: ProcId) -> Option<Chore> {
        let Self { process, keeping, .. } = self;
        let mut key = None;
        process.when(|owner, _, out| key = keeping.on_orphan_reply(call, from, owner, out));
        let key = key?;
        self.process.replied(key, from, value(1));
        self.keeping.on_orphan_answered(call, from)
    }

    fn who_borrows(&self, sender: ProcId, object: ObjectId, borrower: ProcId) -> Counts {
        let claim = Claim { sender, object, borrower, is_dead: false };
        self.keeping.who_borrows(claim, ME, &self.heirs)
    }

    pub(super) fn keeps(&self, id: &ObjectId) -> bool {
        self.process.owner.slot_of(id).is_some()
    }

    fn value_of(&self, id: &ObjectId) -> Option<Value> {
        let slot: Slot = self.process.owner.slot_of(id)?;
        self.process.value_of(slot)
    }

    pub(super) fn next_id(&mut self) -> ObjectId {
        ObjectId::of(self.process.next_id(), 1)
    }
}

pub(super) fn small() -> Left {
    Left::Value(value(7), Vec::new())
}

/// A task that has not ended, which makes this object.
pub(super) fn pending(request: u64, makes: ObjectId, deps: &[Ref], sent_to: Option<ProcId>) -> Bequest {
    Bequest {
        request: Some(request),
        id: makes.task(),
        template: template(Target::Pool, 0),
        target: Target::Pool,
        is_ordered: false,
        payload: Vec::new(),
        filed: None,
        deps: deps.to_vec(),
        contains: Vec::new(),
        returns: vec![Some(makes)],
        retries_left: 0,
        oom_retries_left: 0,
        sent_to,
    }
}

fn settle(witnesses: &[ProcId]) -> Chore {
    Chore::Settle { of: GONE, witnesses: witnesses.to_vec() }
}

fn settled(serving: &[ProcId]) -> Chore {
    Chore::Settled { of: GONE, serving: serving.to_vec() }
}

#[test]
fn keep_1_all_testify_then_all_settle_then_it_is_finished() {
    let mut heir = Heir::new();
    assert_eq!(heir.inherits(Vec::new(), Vec::new(), &[W1, W2]), []);
    assert_eq!(heir.testifies(W2, &[], &[]), []);
    assert_eq!(heir.testifies(W1, &[], &[]), [settle(&[W1, W2])]);
    assert_eq!(heir.settles(W1), []);
    assert_eq!(heir.settles(W1), [], "once more");
    assert_eq!(heir.settles(W2), [settled(&[])]);
    assert!(heir.keeping.is_idle());
}

#[test]
fn keep_1_without_a_witness_it_is_finished_at_once() {
    let mut heir = Heir::new();
    let id = heir.next_id();
    assert_eq!(heir.inherits(vec![(id, small())], Vec::new(), &[]), [settled(&[])]);
    assert!(!heir.keeps(&id));
}

#[test]
fn keep_1_a_witness_that_dies_is_not_waited_for() {
    let mut heir = Heir::new();
    heir.inherits(Vec::new(), Vec::new(), &[W1, W2, W3]);
    heir.testifies(W1, &[], &[]);
    assert_eq!(heir.loses(W1), [], "it has testified, and is not asked to settle");
    heir.testifies(W2, &[], &[]);
    assert_eq!(heir.loses(W3), [settle(&[W2])]);
    assert_eq!(heir.loses(W2), [settled(&[])]);
}

#[test]
fn a_part_of_a_testimony_is_not_the_whole() {
    let mut heir = Heir::new();
    let id = heir.next_id();
    heir.inherits(vec![(id, small())], Vec::new(), &[W1]);
    let part = Words { of: GONE, from: W1, held: &[id], lent: &[], serving: &[], is_last: false, is_dead: false };
    assert_eq!(heir.says(part), []);
    assert_eq!(heir.testifies(W1, &[], &[]), [settle(&[W1])]);
    heir.settles(W1);
    assert!(heir.keeps(&id));
}

#[test]
fn keep_2_what_is_held_stays_until_it_is_let_go_of() {
    let mut heir = Heir::new();
    let (held, unheld) = (heir.next_id(), heir.next_id());
    heir.inherits(vec![(held, small()), (unheld, small())], Vec::new(), &[W1]);
    heir.testifies(W1, &[held], &[]);
    assert!(heir.keeps(&unheld), "somebody may still be given it");
    heir.settles(W1);
    assert!(heir.keeps(&held) && !heir.keeps(&unheld));
    heir.process.when(|owner, _, out| owner.on_shares(&held, W1, -1, out));
    assert!(!heir.keeps(&held));
}

#[test]
fn keep_2_what_a_dead_witness_held_does_not_count() {
    let mut heir = Heir::new();
    let id = heir.next_id();
    heir.inherits(vec![(id, small())], Vec::new(), &[W1, W2]);
    heir.testifies(W2, &[], &[]);
    heir.loses(W1);
    let words = Words { of: GONE, from: W1, held: &[id], lent: &[], serving: &[], is_last: true, is_dead: true };
    heir.says(words);
    heir.settles(W2);
    assert!(!heir.keeps(&id));
}

#[test]
fn keep_2_what_a_kept_value_names_is_kept_with_it() {
    let mut heir = Heir::new();
    let (outer, inner) = (heir.next_id(), heir.next_id());
    let names = Left::Value(value(1), vec![(inner, GONE)]);
    heir.inherits(vec![(outer, names), (inner, small())], Vec::new(), &[W1]);
    heir.testifies(W1, &[outer], &[]);
    heir.settles(W1);
    assert!(heir.keeps(&outer) && heir.keeps(&inner));
    heir.process.when(|owner, _, out| owner.on_shares(&outer, W1, -1, out));
    assert_eq!(heir.process.owner.objects_kept(), 0);
}

/// Its word was on its way when its owner died: the testimony that follows says it all.
#[test]
fn shares_told_of_before_the_testimony_do_not_count_twice() {
    let mut heir = Heir::new();
    let (id, other) = (heir.next_id(), heir.next_id());
    heir.inherits(vec![(id, small())], Vec::new(), &[W1, W2]);
    assert_eq!(heir.who_borrows(W1, id, W3), Counts::Nobody);
    assert_eq!(heir.who_borrows(W1, other, W3), Counts::For(W3), "that was not the dead one's");
    heir.testifies(W1, &[id], &[]);
    assert_eq!(heir.who_borrows(W1, id, W3), Counts::For(W3));
    heir.testifies(W2, &[], &[]);
    assert_eq!(heir.who_borrows(W2, id, W3), Counts::For(W3), "all have testified");
}

#[test]
fn what_is_registered_for_the_dead_counts_for_it_while_its_estate_is_open() {
    let mut heir = Heir::new();
    let id = heir.next_id();
    heir.inherits(vec![(id, small())], Vec::new(), &[W1]);
    heir.testifies(W1, &[], &[]);
    assert_eq!(heir.who_borrows(W1, id, GONE), Counts::For(GONE));
    heir.settles(W1);
    assert_eq!(heir.who_borrows(W1, id, GONE), Counts::Nobody);
}

/// Everyone else counts for the heir what was registered for the dead, and says so.
#[test]
fn others_tell_the_heir_of_what_they_lent_the_dead_too_late_for_their_testimony() {
    let mut heirs = Heirs::default();
    heirs.on_death(GONE, ME);
    let id = ObjectId::of(Process::new().next_id(), 1);
    let claim = Claim { sender: W2, object: id, borrower: GONE, is_dead: true };
    assert_eq!(Keeping::default().who_borrows(claim, W1, &heirs), Counts::ForHeir(ME));
    let dead = Claim { borrower: W3, ..claim };
    assert_eq!(Keeping::default().who_borrows(dead, W1, &heirs), Counts::Nobody, "it has left nothing");
}

#[test]
fn keep_3_who_runs_a_call_answers_it() {
    let mut heir = Heir::new();
    let id = heir.next_id();
    heir.inherits(vec![(id, Left::Due)], vec![pending(4, id, &[], Some(W2))], &[W2]);
    heir.testifies(W2, &[id], &[4]);
    assert_eq!(heir.settles(W2), [settled(&[W2])]);
    assert_eq!(heir.is_answered(4, W2), Some(Chore::Served(W2)));
    assert_eq!(heir.value_of(&id), Some(value(1)));
    assert_eq!(heir.is_answered(4, W2), None, "nobody waits for it any more");
}

#[test]
fn keep_3_an_answer_may_come_before_any_testimony() {
    let mut heir = Heir::new();
    let id = heir.next_id();
    heir.inherits(vec![(id, Left::Due)], vec![pending(4, id, &[], Some(W2))], &[W2]);
    assert_eq!(heir.is_answered(4, W2), Some(Chore::Served(W2)));
    heir.testifies(W2, &[id], &[]);
    assert_eq!(heir.settles(W2), [settled(&[])]);
    assert_eq!(heir.value_of(&id), Some(value(1)));
}

#[test]
fn a_worker_has_served_when_it_has_answered_all() {
    let mut heir = Heir::new();
    let (a, b) = (heir.next_id(), heir.next_id());
    let tasks = vec![pending(1, a, &[], Some(W2)), pending(2, b, &[], Some(W2))];
    heir.inherits(vec![(a, Left::Due), (b, Left::Due)], tasks, &[W2]);
    heir.testifies(W2, &[a, b], &[1, 2]);
    heir.settles(W2);
    assert_eq!(heir.is_answered(2, W2), None);
    assert_eq!(heir.is_answered(1, W2), Some(Chore::Served(W2)));
}

#[test]
fn keep_3_what_nobody_runs_is_run_if_it_cannot_have_run() {
    let mut heir = Heir::new();
    let (a, b) = (heir.next_id(), heir.next_id());
    let tasks = vec![pending(1, a, &[], None), pending(2, b, &[], Some(W3))];
    heir.inherits(vec![(a, Left::Due), (b, Left::Due)], tasks, &[W2]);
    heir.testifies(W2, &[a, b], &[]);
    let Heir { process, keeping, .. } = &mut heir;
    let effects = process.when(|owner, _, out| drop(keeping.on_settled(GONE, W2, owner, out)));
    let runs = |key| effects.contains(&push(key, W1));
    assert!(process.owner.tasks().all(|(key, task)| task.spec.id == a.task() && runs(key)));
    assert_eq!(heir.value_of(&b), Some(failed(Failure::OwnerDied)), "it was sent, and its answer is lost");
}

#[test]
fn keep_3_a_call_whose_worker_dies_is_not_answered_by_it() {
    let mut heir = Heir::new();
    let id = heir.next_id();
    let again = Bequest { retries_left: 1, template: template(Target::Pool, 1), ..pending(4, id, &[], Some(W2)) };
    heir.inherits(vec![(id, Left::Due)], vec![again], &[W2, W3]);
    heir.testifies(W3, &[id], &[]);
    heir.testifies(W2, &[], &[4]);
    assert_eq!(heir.loses(W2), []);
    assert_eq!(heir.is_answered(4, W2), None, "it runs elsewhere by now");
    // The worker that it runs on again is ours, and none that still answers for the dead.
    assert_eq!(heir.settles(W3), [settled(&[])]);
    assert_eq!(heir.process.owner.tasks_pending(), 1);
}

#[test]
fn a_task_that_nobody_wants_ends_and_so_does_what_it_needs() {
    let mut heir = Heir::new();
    let (a, b) = (heir.next_id(), heir.next_id());
    let tasks = vec![pending(1, a, &[], Some(W2)), pending(2, b, &[(a, GONE)], None)];
    heir.inherits(vec![(a, Left::Due), (b, Left::Due)], tasks, &[W2]);
    heir.testifies(W2, &[], &[1]);
    assert_eq!(heir.settles(W2), [Chore::Served(W2), settled(&[])]);
    assert_eq!((heir.process.owner.tasks_pending(), heir.process.owner.objects_kept()), (0, 0));
    assert!(heir.keeping.is_idle());
}

#[test]
fn a_record_of_a_task_that_is_older_than_its_value_does_not_count() {
    let mut heir = Heir::new();
    let id = heir.next_id();
    heir.inherits(vec![(id, small())], vec![pending(1, id, &[], None)], &[W2]);
    assert_eq!(heir.process.owner.tasks_pending(), 0);
    heir.testifies(W2, &[id], &[]);
    heir.settles(W2);
    assert_eq!(heir.value_of(&id), Some(value(7)));
}

#[test]
fn an_object_without_a_value_and_without_a_task_fails() {
    let mut heir = Heir::new();
    let (due, lost) = (heir.next_id(), heir.next_id());
    heir.inherits(vec![(due, Left::Due), (lost, Left::Lost)], Vec::new(), &[W2]);
    heir.testifies(W2, &[due, lost], &[]);
    heir.settles(W2);
    assert_eq!(heir.value_of(&due), Some(failed(Failure::OwnerDied)));
    assert_eq!(heir.value_of(&lost), Some(failed(Failure::OwnerDied)));
}

/// A task that runs again is recorded before its old record is erased. Kept twice, it was kept for nothing once it had ended.
#[test]
fn a_task_that_runs_again_is_not_kept_beside_itself() {
    let mut heir = Heir::new();
    let id = heir.next_id();
    let runs = pending(1, id, &[], Some(W2));
    let made = Bequest { request: None, sent_to: None, ..runs.clone() };
    heir.inherits(vec![(id, Left::Due)], vec![runs, made], &[W2]);
    heir.testifies(W2, &[id], &[1]);
    heir.settles(W2);
    heir.is_answered(1, W2);
    heir.process.owner.check_invariants();
    assert_eq!(heir.value_of(&id), Some(value(1)));
}

#[test]
fn two_estates_are_settled_each_by_itself() {
    let mut heir = Heir::new();
    heir.inherits(Vec::new(), Vec::new(), &[W1]);
    let other = worker(7);
    let Heir { process, keeping, heirs } = &mut heir;
    let will = Will { of: other, heir: ME, objects: Vec::new() };
    let estate = Estate::new(will, heirs, &mut process.owner, &mut Vec::new());
    assert_eq!(keeping.on_death(other, [W1, W2], estate, &mut process.owner, &mut Vec::new()), []);
    assert_eq!(heir.testifies(W1, &[], &[]), [settle(&[W1])]);
    assert_eq!(heir.loses(W1), [settled(&[])], "the other one waits for somebody else");
    assert_eq!(heir.loses(W2), [Chore::Settled { of: other, serving: Vec::new() }]);
}

/// Somebody who had heard of the death before the heir gave it a share, and registered that with the heir for the heir.
#[test]
fn what_was_counted_for_the_heir_itself_before_it_knew_is_taken_back() {
    let mut heir = Heir::new();
    let id = heir.next_id();
    let slot = heir.process.owner.on_borrowed(id, Some(GONE), 1);
    heir.heirs.on_share((id, GONE), GONE, crate::Known::Count(1));
    heir.inherits(vec![(id, small())], Vec::new(), &[W1]);
    heir.testifies(W1, &[], &[]);
    assert_eq!(heir.who_borrows(W1, id, ME), Counts::For(ME));
    heir.process.when(|owner, _, out| owner.on_shares(&id, ME, 1, out));
    heir.settles(W1);
    assert!(heir.keeps(&id), "it has a handle on it");
    heir.process.dropped(slot);
    assert!(!heir.keeps(&id));
}
