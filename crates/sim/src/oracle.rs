//! The history of a run, and whether it makes sense.

use std::collections::BTreeSet;

use model::{ActorId, Failure, GroupId, JobId, ObjectId, TaskKey};
use owner::Value;
use rustc_hash::FxHashMap;

use crate::network::Pid;
use crate::refs::Number;
use crate::work::PlanId;

/// A task as its owner names it.
pub(crate) type Task = (Pid, TaskKey);

/// What happened to one task.
#[derive(Debug)]
struct History {
    id: ObjectId,
    /// The value of a run without faults.
    expected: u64,
    deps: Vec<ObjectId>,
    retries_max: i32,
    is_generator: bool,
    actor: Option<ActorId>,
    group: Option<GroupId>,
    /// The only node that it may run on, if there is one.
    at: Option<usize>,
    /// Counts the submissions of its owner.
    index: u64,
    starts: u32,
    /// Who runs it.
    runs_on: Option<Pid>,
    /// The node that answered last.
    answered_on: Option<usize>,
    /// A node that was taken for dead has answered.
    may_be_answered: bool,
    /// Calls that lay on a node when that died, and may have run for all that others know.
    perhaps: u32,
    /// Runs that ended with their process.
    lost: u32,
    is_cancelled: bool,
    /// Failures that were sent as an answer.
    raised: Vec<Failure>,
    has_sent_value: bool,
    /// It is made again, or was lost on its way: its turn among calls on its actor is over.
    is_late: bool,
    /// Runs that did not begin, because an argument was not where the call said.
    arguments_lost: u32,
    outcome: Option<Outcome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Value,
    Failure,
    /// Nobody held the value, so it was gone at once.
    Unseen,
    /// There was a value. It was lost, or nobody needed it for a while.
    Gone,
}

/// What is known of a task when it is submitted.
pub(crate) struct Submission {
    pub(crate) id: ObjectId,
    pub(crate) plan: PlanId,
    pub(crate) children: Vec<u64>,
    pub(crate) deps: Vec<ObjectId>,
    pub(crate) retries_max: i32,
    pub(crate) is_generator: bool,
    pub(crate) actor: Option<ActorId>,
    pub(crate) group: Option<GroupId>,
    pub(crate) at: Option<usize>,
    pub(crate) index: u64,
}

/// What is known of an object.
struct Known {
    number: u64,
    owner: Pid,
    /// `None`: it was put.
    task: Option<Task>,
    is_lost: bool,
}

/// Everything that happened, and the first thing that should not have.
#[derive(Default)]
pub(crate) struct Oracle {
    tasks: FxHashMap<Task, History>,
    values: FxHashMap<ObjectId, Known>,
    /// Last start on an actor's worker, per caller.
    last_start: FxHashMap<(Pid, Pid), u64>,
    /// Who had a reference to an object in hands.
    handled: FxHashMap<ObjectId, BTreeSet<Pid>>,
    dead: BTreeSet<Pid>,
    /// Nodes that are dead, or are taken for it.
    lost_nodes: BTreeSet<usize>,
    jobs: BTreeSet<JobId>,
    /// Objects that calls name whose callers are dead, and that have not started: nobody holds them for those.
    unheld: BTreeSet<ObjectId>,
    /// Groups that were removed.
    removed: BTreeSet<GroupId>,
    pub(crate) broken: Option<String>,
}

impl Oracle {
    pub(crate) fn fail(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    pub(crate) fn submitted(&mut self, task: Task, submission: Submission) {
        let Submission { id, plan, children, deps, retries_max, is_generator, actor, group, at, index } = submission;
        let inputs: Vec<u64> = deps.iter().map(|dep| self.expected(dep)).chain(children).collect();
        let expected = crate::work::value_of(plan, &inputs);
        let history = History {
            id,
            expected,
            deps,
            retries_max,
            is_generator,
            actor,
            group,
            at,
            index,
            starts: 0,
            runs_on: None,
            answered_on: None,
            may_be_answered: false,
            perhaps: 0,
            lost: 0,
            is_cancelled: false,
            raised: Vec::new(),
            has_sent_value: false,
            is_late: false,
            arguments_lost: 0,
            outcome: None,
        };
        self.tasks.insert(task, history);
        self.values.insert(id, Known { number: expected, owner: task.0, task: Some(task), is_lost: false });
    }

    /// The number that the object stands for.
    pub(crate) fn expected(&self, id: &ObjectId) -> u64 {
        self.values[id].number
    }

    pub(crate) fn put(&mut self, owner: Pid, id: ObjectId, number: u64) {
        self.values.insert(id, Known { number, owner, task: None, is_lost: false });
    }

    /// A value that was put is no more.
    pub(crate) fn put_lost(&mut self, id: &ObjectId) {
        if let Some(known) = self.values.get_mut(id) {
            known.is_lost = true;
        }
    }

    /// The value of a task is no more. It may be made again, or is lost for good.
    pub(crate) fn unresolved(&mut self, task: Task, is_lost: bool) {
        let history = self.history(task);
        (history.has_sent_value, history.is_late) = (false, true);
        let has_failed = history.outcome == Some(Outcome::Failure);
        history.outcome = if has_failed { history.outcome } else { Some(Outcome::Gone) };
        let id = history.id;
        if is_lost {
            self.put_lost(&id);
        } else if has_failed && !self.is_lost(task.0.0) {
            self.fail(format!("SIM-1: {task:?} failed, and is not failed any more"));
        }
    }

    /// The value that was sent is lost before its owner could take it up.
    pub(crate) fn reply_lost(&mut self, task: Task) {
        let history = self.history(task);
        (history.has_sent_value, history.is_late) = (false, true);
        history.outcome.get_or_insert(Outcome::Gone);
    }

    pub(crate) fn argument_lost(&mut self, task: Task, by: Pid) {
        let is_lost = self.is_lost(by.0);
        let history = self.history(task);
        history.arguments_lost += 1;
        if is_lost {
            return;
        }
        history.runs_on = None;
        // One that may be tried again is sent again behind those that are under way; any other only if there are none.
        history.is_late |= history.retries_max != 0;
    }

    /// Whoever was to run the task died before it had all arguments: for all that others know it may have run.
    pub(crate) fn never_began(&mut self, task: Task) {
        let history = self.history(task);
        history.perhaps += 1;
        history.lost += 1;
        history.is_late |= history.retries_max != 0;
    }

    /// Somebody reads the value of an object (SIM-2, SIM-10).
    pub(crate) fn read_value(&mut self, by: Pid, object: ObjectId, number: &Number) {
        let Some(known) = self.values.get(&object) else { return };
        if known.number != number.number {
            self.fail(format!("SIM-2, SIM-10: {by:?} reads {number:?} as {object}, which is {}", known.number));
        }
    }

    /// Somebody reads that an object has no value.
    pub(crate) fn read_failure(&mut self, by: Pid, object: ObjectId, failure: &Failure) {
        if *failure == Failure::Freed && !self.is_excused(&object) && !self.is_lost(by.0) {
            self.fail(format!("SIM-8: {by:?} holds {object}, and reads that it was freed"));
        }
        let is_explained = self.values.contains_key(&object) && self.may_lack(&object);
        if !is_explained && !self.is_lost(by.0) {
            self.fail(format!("SIM-1: {by:?} reads {failure:?} as {object}, which nothing explains"));
        }
    }

    /// Whether there may be no value of the object.
    fn may_lack(&self, object: &ObjectId) -> bool {
        let Known { task, is_lost, .. } = &self.values[object];
        let has_failed = |task: &Task| matches!(self.tasks[task].outcome, Some(Outcome::Failure | Outcome::Unseen));
        *is_lost || task.as_ref().is_some_and(has_failed) || self.is_excused(object)
    }

    pub(crate) fn cancelled(&mut self, task: Task) {
        self.history(task).is_cancelled = true;
    }

    /// A worker starts the task. Returns how often it was started by now.
    pub(crate) fn started(&mut self, task: Task, worker: Pid) -> u32 {
        if self.is_lost(worker.0) {
            let history = self.history(task);
            history.perhaps += 1;
            return history.starts + history.perhaps;
        }
        let is_lost = self.is_lost_on_its_way(task);
        let history = self.history(task);
        history.starts += 1;
        history.runs_on = Some(worker);
        if is_lost {
            (history.has_sent_value, history.is_late) = (false, true);
        }
        let (starts, retries_max, index) = (history.starts, history.retries_max, history.index);
        let (is_actor, is_late, has_sent_value) = (history.actor.is_some(), history.is_late, history.has_sent_value);
        if has_sent_value {
            self.fail(format!("SIM-3: {task:?} runs again after its value was sent"));
        }
        if retries_max >= 0 && starts > retries_max.unsigned_abs() + 1 {
            self.fail(format!("SIM-3: {task:?} starts {starts} times with {retries_max} retries"));
        }
        if is_actor && !is_late {
            let last = self.last_start.insert((worker, task.0), index);
            if last.is_some_and(|last| last >= index) {
                self.fail(format!("SIM-4: call {index} of {:?} starts after call {last:?}", task.0));
            }
        }
        starts
    }

    pub(crate) fn lost(&mut self, task: Task) {
        self.history(task).lost += 1;
    }

    pub(crate) fn handled(&mut self, by: Pid, object: ObjectId) {
        self.handled.entry(object).or_default().insert(by);
    }

    pub(crate) fn group_removed(&mut self, group: GroupId) {
        self.removed.insert(group);
    }

    pub(crate) fn died(&mut self, pid: Pid) {
        self.dead.insert(pid);
    }

    pub(crate) fn is_dead(&self, pid: Pid) -> bool {
        self.dead.contains(&pid)
    }

    pub(crate) fn node_lost(&mut self, node: usize) {
        self.lost_nodes.insert(node);
    }

    /// Whether this node is dead, or is taken for it.
    pub(crate) fn is_lost(&self, node: usize) -> bool {
        self.lost_nodes.contains(&node)
    }

    /// NAME-1: no job has the number of another.
    pub(crate) fn job_began(&mut self, job: JobId) {
        if !self.jobs.insert(job) {
            self.fail(format!("two jobs are {job:?}"));
        }
    }

    /// A call lay with a process of a node that is dead, and nothing has come of it. Whoever called cannot know whether it ran.
    pub(crate) fn lay_with_the_dead(&mut self, task: Task, worker: Pid) {
        let history = self.history(task);
        history.perhaps += u32::from(history.runs_on != Some(worker));
    }

    /// It was answered by a node that is dead, and nobody has taken that up.
    fn is_lost_on_its_way(&self, task: Task) -> bool {
        let History { has_sent_value, answered_on, .. } = &self.tasks[&task];
        *has_sent_value && answered_on.is_some_and(|node| self.is_lost(node))
    }

    /// The task that makes the object; `None`: it was put.
    pub(crate) fn maker_of(&self, object: &ObjectId) -> Option<Task> {
        self.values.get(object).and_then(|known| known.task)
    }

    /// The value was gone when its owner's heir looked for it.
    pub(crate) fn lost_with_its_owner(&mut self, object: &ObjectId) {
        match self.maker_of(object) {
            Some(task) => self.unresolved(task, true),
            None => self.put_lost(object),
        }
    }

    /// Whether somebody who had the reference in hands, and does not own it, is dead: what it was to pass on may have died with it.
    pub(crate) fn is_excused(&self, object: &ObjectId) -> bool {
        let owner = self.values.get(object).map(|known| known.owner);
        let is_gone = |pid: &Pid| (self.dead.contains(pid) || self.is_lost(pid.0)) && Some(*pid) != owner;
        let is_gone_whole = owner.is_some_and(|owner| self.is_lost(owner.0));
        is_gone_whole
            || self.unheld.contains(object)
            || self.handled.get(object).is_some_and(|by| by.iter().any(is_gone))
    }

    /// A call that has not started names it, and whoever called is dead.
    pub(crate) fn unheld(&mut self, object: ObjectId) {
        self.unheld.insert(object);
    }

    pub(crate) fn answered(&mut self, task: Task, answer: &Result<Number, Failure>, by: Pid) {
        if self.is_lost(by.0) {
            // Whoever has not heard the verdict takes it up.
            let history = self.history(task);
            history.may_be_answered = true;
            history.raised.extend(answer.as_ref().err().cloned());
            return;
        }
        let history = self.history(task);
        (history.runs_on, history.answered_on) = (None, Some(by.0));
        match answer {
            Ok(_) => history.has_sent_value = true,
            Err(failure) => history.raised.push(failure.clone()),
        }
    }

    pub(crate) fn resolved(&mut self, task: Task, value: Option<&Value>) {
        let history = &self.tasks[&task];
        let starts = history.starts + history.perhaps;
        let is_spent = history.retries_max >= 0 && starts > history.retries_max.unsigned_abs();
        let is_orphan = self.dead.contains(&task.0) && history.retries_max >= 0;
        let has_sent_value = history.has_sent_value || history.may_be_answered;
        let (outcome, is_explained) = match value {
            None => (Outcome::Unseen, true),
            Some(Value::Inline(bytes)) => {
                (Outcome::Value, Number::from_bytes(bytes).number == history.expected && has_sent_value)
            }
            // Its number is seen by whoever reads it.
            Some(Value::Bulk(_)) => (Outcome::Value, has_sent_value),
            Some(Value::Failed(failure)) => {
                let is_explained = match &**failure {
                    Failure::Raised(_) => history.raised.contains(failure),
                    Failure::Retryable(_) => history.raised.contains(failure) && (is_spent || history.is_cancelled),
                    Failure::Argument { .. } => history.deps.iter().any(|dep| self.may_lack(dep)),
                    // What waited with its worker when its owner died may have run, for all that its heir knows. And if it did not begin for
                    // want of an argument, nobody knows that before the answer has gone.
                    Failure::WorkerDied(_) => {
                        let runs = starts + history.arguments_lost;
                        let may_be_spent = history.retries_max >= 0 && runs > history.retries_max.unsigned_abs();
                        (history.lost + history.perhaps > 0 && may_be_spent) || is_orphan
                    }
                    Failure::Cancelled => history.is_cancelled,
                    Failure::ActorDied(actor, _) => history.actor == Some(*actor),
                    Failure::ActorUnavailable { actor, .. } => {
                        history.actor == Some(*actor) && (is_spent || history.retries_max == 0 || is_orphan)
                    }
                    Failure::GroupRemoved => {
                        // It is removed with its program.
                        let is_removed = |group| self.removed.contains(&group) || self.dead.contains(&task.0);
                        history.group.is_some_and(is_removed)
                    }
                    Failure::Lost(_) => {
                        let was_there = history.outcome == Some(Outcome::Gone) || history.has_sent_value;
                        let is_over = is_spent || history.is_cancelled;
                        (was_there && is_over) || (history.actor.is_some() && history.arguments_lost > 0)
                    }
                    // Its heir runs no generator, nothing that its files lost, and nothing that may have run once too often.
                    Failure::OwnerDied => {
                        let is_lost = self.values[&history.id].is_lost;
                        is_orphan || (self.dead.contains(&task.0) && (is_lost || history.is_generator))
                    }
                    Failure::Unschedulable(_) => history.at.is_some_and(|node| self.is_lost(node)),
                    Failure::Freed
                    | Failure::NodeDied
                    | Failure::StoreFull(_)
                    | Failure::ArgumentLost(_)
                    | Failure::Replay { .. } => false,
                };
                (Outcome::Failure, is_explained)
            }
        };
        let first = history.outcome;
        if first.is_some_and(|first| first != Outcome::Gone) && !self.is_lost(task.0.0) {
            self.fail(format!("SIM-1: {task:?} ends twice: {first:?}, then {value:?}"));
        } else if !is_explained && !self.is_lost(task.0.0) {
            let history = &self.tasks[&task];
            self.fail(format!("SIM-1, SIM-2: {task:?} ends with {value:?}, which {history:?} does not explain"));
        }
        self.history(task).outcome = Some(outcome);
    }

    /// Tasks of these owners that have not ended.
    pub(crate) fn unended(&self, is_alive: impl Fn(Pid) -> bool) -> Vec<String> {
        let open = self.tasks.iter().filter(|(task, history)| history.outcome.is_none() && is_alive(task.0));
        open.map(|(task, history)| format!("{task:?}: {history:?}")).collect()
    }

    /// (submitted, ended with a value, ended with a failure).
    pub(crate) fn totals(&self) -> (usize, usize, usize) {
        let count = |outcome| self.tasks.values().filter(|history| history.outcome == Some(outcome)).count();
        (self.tasks.len(), count(Outcome::Value), count(Outcome::Failure))
    }

    /// Runs that began though none before them had been lost with its process, had raised, or had made what was lost later.
    pub(crate) fn reruns(&self) -> usize {
        let unexplained = |history: &History| {
            let explained = history.lost as usize + history.raised.len() + usize::from(history.is_late);
            (history.starts as usize).saturating_sub(1 + explained)
        };
        self.tasks.values().map(unexplained).sum()
    }

    fn history(&mut self, task: Task) -> &mut History {
        self.tasks.get_mut(&task).expect("a task that was submitted")
    }
}
