//! Calls on actors: in order where the actor is ordered, kept while it is on its way, tried again by the rules when it restarts.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use model::{ActorDeath, ActorId, Failure, ProcId, TaskKey};
use smallvec::{SmallVec, smallvec};

use crate::tasks::Stage;
use crate::{Effect, Owner, Slot};

/// Calls sent ahead to one group of an actor's methods, beside those that it runs at once.
const CALLS_AHEAD_MAX: usize = 192;

/// What the node says about an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActorNews {
    /// Not there yet.
    Pending,
    /// There.
    Alive(ProcId),
    /// On its way back.
    Restarting,
    /// Gone.
    Dead(ActorDeath),
}

/// Where we think an actor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalleeState {
    /// Not there yet, or never heard of: calls wait.
    Awaited,
    /// Calls are sent.
    Alive(ProcId),
    /// Calls that may not be tried again fail at once; others wait.
    Restarting,
    /// Calls fail.
    Dead(ActorDeath),
}

/// One actor that we call.
#[derive(Debug)]
pub struct Callee {
    /// Where it is.
    pub state: CalleeState,
    /// The latest news: which life, and whether it was there. What comes again late is known by it.
    heard: (u32, bool),
    /// The object that stands for the actor, as it was last seen in this process; it may be gone since.
    life: Option<Held>,
    /// By the number of the group of methods; the default group is the first. A full one never holds up another.
    pub(crate) lanes: SmallVec<[Lane; 1]>,
}

/// A slot, and how often it had been given out.
#[derive(Clone, Copy, Debug)]
struct Held {
    slot: Slot,
    generation: u32,
    is_ours: bool,
}

/// What this process has of the object that stands for an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Something here holds it.
    Here(Slot),
    /// We made the actor, and nothing holds it any more: the node was told that it is out of scope.
    Over,
    /// It is somebody else's, or the actor lives by itself.
    Elsewhere,
}

/// Calls on one group of an actor's methods.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Whether calls must be sent in the order of submission.
    pub(crate) is_ordered: bool,
    /// Calls that may be there and have not ended.
    under_max: usize,
    pub(crate) queue: VecDeque<TaskKey>,
    /// Keys in the queue whose calls have ended: looking for each as it ends would take time by the square of their number.
    pub(crate) ended: usize,
    pub(crate) under: VecDeque<TaskKey>,
}

/// What is known of one group of an actor's methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupFacts {
    /// Whether its calls must be sent in the order of submission.
    pub is_ordered: bool,
    /// How many it runs at once.
    pub concurrency: usize,
}

impl Lane {
    fn new(is_ordered: bool) -> Self {
        Self { is_ordered, under_max: CALLS_AHEAD_MAX, queue: VecDeque::new(), ended: 0, under: VecDeque::new() }
    }
}

impl Callee {
    fn new(is_ordered: bool) -> Self {
        Self { state: CalleeState::Awaited, heard: (0, false), life: None, lanes: smallvec![Lane::new(is_ordered)] }
    }

    /// Calls that have not ended.
    #[must_use]
    pub fn calls_pending(&self) -> usize {
        self.lanes.iter().map(|lane| lane.queue.len() - lane.ended + lane.under.len()).sum()
    }

    fn lane_to_enter(&mut self, group: usize) -> &mut Lane {
        while self.lanes.len() <= group {
            self.lanes.push(Lane::new(true));
        }
        &mut self.lanes[group]
    }

    /// Whether calls on this group must be sent in the order of submission.
    #[must_use]
    pub(crate) fn is_ordered(&self, group: u16) -> bool {
        self.lanes.get(usize::from(group)).is_some_and(|lane| lane.is_ordered)
    }
}

impl Owner {
    /// We hold a handle.
    pub fn on_handle_made(&mut self, actor: ActorId, is_ordered: bool) {
        self.callees.entry(actor).or_insert_with(|| Callee::new(is_ordered));
    }

    /// A handle came to be that keeps the actor alive by this object: calls through any other handle of this process do so too.
    pub fn on_life_known(&mut self, actor: ActorId, life: Slot) {
        let Some(is_ours) = self.objects.get(life).map(|object| object.owner.is_none()) else { return };
        let held = Held { slot: life, generation: self.objects.generation(life), is_ours };
        if let Some(callee) = self.callees.get_mut(&actor) {
            callee.life = Some(held);
        }
    }

    /// What we have of the object that stands for the actor.
    #[must_use]
    pub fn hold_on(&self, actor: &ActorId) -> Hold {
        let Some(held) = self.callees.get(actor).and_then(|callee| callee.life) else { return Hold::Elsewhere };
        if self.objects.generation(held.slot) == held.generation {
            Hold::Here(held.slot)
        } else if held.is_ours {
            Hold::Over
        } else {
            Hold::Elsewhere
        }
    }

    /// The actor was never made: nobody has a handle.
    pub fn on_callee_unmade(&mut self, actor: &ActorId) {
        self.callees.remove(actor);
    }

    /// The actor runs this many calls at once: so many of ours may be there, since each may wait for a later one.
    pub fn on_concurrency_known(&mut self, actor: ActorId, calls: usize) {
        if let Some(callee) = self.callees.get_mut(&actor) {
            callee.lanes[0].under_max = calls.saturating_add(CALLS_AHEAD_MAX);
        }
    }

    /// The actor has groups of methods beside the default one; in the order of their numbers, from one on.
    pub fn on_groups_known(&mut self, actor: ActorId, groups: &[GroupFacts]) {
        let Some(callee) = self.callees.get_mut(&actor) else { return };
        for (at, facts) in groups.iter().enumerate() {
            let lane = callee.lane_to_enter(at + 1);
            lane.is_ordered = facts.is_ordered;
            lane.under_max = facts.concurrency.saturating_add(CALLS_AHEAD_MAX);
        }
    }

    /// Of an actor that is forgotten, or was never heard of, the node is asked.
    fn lane_to_enter(&mut self, actor: ActorId, group: usize, out: &mut Vec<Effect>) -> &mut Lane {
        let callee = match self.callees.entry(actor) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                out.push(Effect::AskActor(actor));
                unknown.insert(Callee::new(true))
            }
        };
        callee.lane_to_enter(group)
    }

    /// Which lane of its actor a call is in.
    #[inline]
    fn group_of(&self, key: TaskKey) -> usize {
        self.task(key).map_or(0, |task| usize::from(task.spec.template.group))
    }

    /// The lane that a call is in, once it has entered.
    #[inline]
    fn lane_of(&mut self, actor: ActorId, key: TaskKey) -> Option<&mut Lane> {
        let group = self.group_of(key);
        self.callees.get_mut(&actor)?.lanes.get_mut(group)
    }

    /// The call was made through a handle that keeps the actor alive: so does the call, until it ends.
    pub fn on_call_holds(&mut self, key: TaskKey, life: Slot) {
        if let Some(task) = self.task_mut(key) {
            task.life = Some(life);
            self.hold(life);
        }
    }

    /// The call was made through a handle that does not keep the actor alive. Where another one of this process does, so does the call: it
    /// was made while the actor could not end.
    pub fn on_weak_call(&mut self, key: TaskKey, actor: ActorId) {
        if let Hold::Here(life) = self.hold_on(&actor) {
            self.on_call_holds(key, life);
        }
    }

    /// What we know of an actor.
    #[must_use]
    pub fn callee(&self, actor: &ActorId) -> Option<&Callee> {
        self.callees.get(actor)
    }

    /// Every actor that we call.
    pub fn callees(&self) -> impl Iterator<Item = (&ActorId, &Callee)> {
        self.callees.iter()
    }

    pub(crate) fn enter_actor(&mut self, actor: ActorId, key: TaskKey, is_ready: bool, out: &mut Vec<Effect>) {
        let group = self.group_of(key);
        let lane = self.lane_to_enter(actor, group, out);
        if is_ready || lane.is_ordered {
            lane.queue.push_back(key);
        }
        if is_ready {
            self.actor_call_checked(actor, key, out);
        }
        self.send_lane(actor, group, out);
    }

    /// As `enter_actor`, for a call that has ended before: it goes before all that were submitted later, which may wait for what it makes.
    pub(crate) fn enter_actor_again(&mut self, actor: ActorId, key: TaskKey, is_ready: bool, out: &mut Vec<Effect>) {
        let group = self.group_of(key);
        let is_ordered = self.lane_to_enter(actor, group, out).is_ordered;
        if is_ready || is_ordered {
            self.insert_by_number(actor, key);
        }
        if is_ready {
            self.actor_call_checked(actor, key, out);
        }
        self.send_lane(actor, group, out);
    }

    pub(crate) fn actor_call_ready(&mut self, actor: ActorId, key: TaskKey, out: &mut Vec<Effect>) {
        let group = self.group_of(key);
        if let Some(lane) = self.lane_of(actor, key)
            && !lane.is_ordered
        {
            lane.queue.push_back(key);
        }
        self.actor_call_checked(actor, key, out);
        self.send_lane(actor, group, out);
    }

    /// An argument of a call that waits was lost.
    pub(crate) fn actor_call_unready(&mut self, actor: ActorId, key: TaskKey) {
        if let Some(lane) = self.lane_of(actor, key).filter(|lane| !lane.is_ordered) {
            lane.queue.retain(|waiting| *waiting != key);
        }
    }

    /// All arguments of the call are there: is there anything that ends it at once?
    fn actor_call_checked(&mut self, actor: ActorId, key: TaskKey, out: &mut Vec<Effect>) {
        if let Some(failure) = self.failed_argument(key) {
            self.leave_queue(actor, key);
            self.finish_failed(key, failure, out);
            return;
        }
        let Some(task) = self.task_mut(key) else { return };
        task.stage = Stage::Queued;
        let may_wait = task.may_wait_for_restart();
        match self.callees.get(&actor).map(|callee| &callee.state) {
            Some(CalleeState::Dead(death)) => {
                let failure = Failure::ActorDied(actor, death.clone());
                self.leave_queue(actor, key);
                self.finish_failed(key, failure, out);
            }
            Some(CalleeState::Restarting) if !may_wait => {
                self.leave_queue(actor, key);
                self.finish_failed(key, Failure::ActorUnavailable { actor, may_have_run: false }, out);
            }
            _ => {}
        }
    }

    /// Sends what may be sent (OWN-5).
    pub(crate) fn send_calls(&mut self, actor: ActorId, out: &mut Vec<Effect>) {
        let groups = self.callees.get(&actor).map_or(0, |callee| callee.lanes.len());
        for group in 0..groups {
            self.send_lane(actor, group, out);
        }
    }

    fn send_lane(&mut self, actor: ActorId, group: usize, out: &mut Vec<Effect>) {
        loop {
            let Some(callee) = self.callees.get(&actor) else { return };
            let CalleeState::Alive(worker) = callee.state else { return };
            let Some(lane) = callee.lanes.get(group) else { return };
            let Some(key) = lane.queue.front().copied() else { return };
            if lane.under.len() >= lane.under_max {
                return;
            }
            // What was sent to the life before, and whose worker has not been seen to end, goes first (OWN-5).
            let eldest = lane.under.front().and_then(|eldest| self.task(*eldest)).map(|task| task.stage);
            if eldest.is_some_and(|stage| !matches!(stage, Stage::Under { worker: on, .. } if on == worker)) {
                return;
            }
            match self.task(key).map(|task| task.stage) {
                Some(Stage::Queued) => {}
                Some(Stage::Waiting(_) | Stage::Looking) => return,
                // Ended meanwhile (cancelled): only its key is left.
                _ => {
                    let lane = &mut self.callees.get_mut(&actor).expect("seen above").lanes[group];
                    lane.queue.pop_front();
                    lane.ended -= 1;
                    continue;
                }
            }
            let lane = &mut self.callees.get_mut(&actor).expect("seen above").lanes[group];
            lane.queue.pop_front();
            lane.under.push_back(key);
            self.task_mut(key).expect("seen above").stage = Stage::Under { worker, ticket: 0 };
            out.push(Effect::Push { task: key, worker });
        }
    }

    pub(crate) fn actor_progressed(&mut self, actor: ActorId, key: TaskKey, out: &mut Vec<Effect>) {
        let group = self.group_of(key);
        let Some(lane) = self.lane_of(actor, key) else { return };
        if lane.under.front() == Some(&key) {
            lane.under.pop_front();
        } else {
            lane.under.retain(|under| *under != key);
        }
        self.send_lane(actor, group, out);
    }

    /// Why the actor will never run anything again, if the node has said so.
    pub(crate) fn death_of(&self, actor: ActorId) -> Option<ActorDeath> {
        match &self.callees.get(&actor)?.state {
            CalleeState::Dead(death) => Some(death.clone()),
            _ => None,
        }
    }

    /// A call of a dead process's is with the actor, and will be answered to us.
    pub(crate) fn orphan_under_actor(&mut self, actor: ActorId, worker: ProcId, key: TaskKey, out: &mut Vec<Effect>) {
        if let Some(death) = self.death_of(actor) {
            return self.end_for_dead_actor(actor, key, &death, out);
        }
        let group = self.group_of(key);
        self.lane_to_enter(actor, group, out).under.push_back(key);
        self.actor_of_worker.insert(worker, actor);
    }

    /// The call is no longer with the actor's worker.
    pub(crate) fn actor_forgets(&mut self, actor: ActorId, key: TaskKey) {
        if let Some(lane) = self.lane_of(actor, key) {
            lane.under.retain(|under| *under != key);
        }
    }

    /// The call did not run, and it is being looked for what it lacked. It keeps its place before all that were submitted later (OWN-5).
    pub(crate) fn actor_call_looks(&mut self, actor: ActorId, key: TaskKey) {
        if let Some(lane) = self.lane_of(actor, key) {
            lane.under.retain(|under| *under != key);
            if lane.is_ordered {
                self.insert_by_number(actor, key);
            }
        }
    }

    /// That is known: it leaves its place, and enters again or ends.
    pub(crate) fn actor_call_looked(&mut self, actor: ActorId, key: TaskKey) {
        if let Some(lane) = self.lane_of(actor, key).filter(|lane| lane.is_ordered) {
            lane.queue.retain(|queued| *queued != key);
        }
    }

    /// Whether a call that did not run can be sent again (OWN-5): not once later ones were sent behind it, which may have run, unless it may be
    /// tried again as any that fails.
    pub(crate) fn has_its_turn(&self, actor: ActorId, key: TaskKey) -> bool {
        let (Some(callee), Some(task)) = (self.callees.get(&actor), self.task(key)) else { return false };
        let Some(lane) = callee.lanes.get(usize::from(task.spec.template.group)) else { return false };
        let is_later = |other: &TaskKey| self.task(*other).is_some_and(|other| other.number > task.number);
        !lane.is_ordered || task.retries_left != 0 || !lane.under.iter().any(is_later)
    }

    /// A call in the queue is about to end: its key goes when it is the last or the next one, or with as many others as are left.
    pub(crate) fn leave_queue(&mut self, actor: ActorId, key: TaskKey) {
        let Some(lane) = self.lane_of(actor, key) else { return };
        if lane.queue.back() == Some(&key) {
            lane.queue.pop_back();
            return;
        }
        lane.ended += 1;
        if lane.ended > lane.queue.len() / 2 {
            let mut queue = std::mem::take(&mut lane.queue);
            queue.retain(|queued| *queued != key && self.task(*queued).is_some());
            let lane = self.lane_of(actor, key).expect("seen above");
            (lane.queue, lane.ended) = (queue, 0);
        }
    }

    /// A call that is to be tried again goes before all that were submitted later.
    pub(crate) fn reenter_actor(&mut self, actor: ActorId, key: TaskKey, out: &mut Vec<Effect>) {
        if let Some(death) = self.death_of(actor) {
            return self.end_for_dead_actor(actor, key, &death, out);
        }
        if self.queue_again(actor, key, out) {
            self.actor_call_checked(actor, key, out);
        }
        self.send_calls(actor, out);
    }

    /// False: it lacks an argument.
    fn queue_again(&mut self, actor: ActorId, key: TaskKey, out: &mut Vec<Effect>) -> bool {
        let is_ready = !self.awaits_arguments(key, out);
        if is_ready || self.lane_of(actor, key).is_some_and(|lane| lane.is_ordered) {
            self.insert_by_number(actor, key);
        }
        is_ready
    }

    fn insert_by_number(&mut self, actor: ActorId, key: TaskKey) {
        let (Some(callee), Some(task)) = (self.callees.get(&actor), self.task(key)) else { return };
        let Some(lane) = callee.lanes.get(usize::from(task.spec.template.group)) else { return };
        let is_later = |other: &TaskKey| self.task(*other).is_some_and(|other| other.number > task.number);
        let at = lane.queue.iter().position(is_later).unwrap_or(lane.queue.len());
        self.lane_of(actor, key).expect("seen above").queue.insert(at, key);
    }

    /// The actor's worker is dead; whether its calls fail depends on what the node says next.
    pub(crate) fn actor_worker_died(
        &mut self,
        worker: ProcId,
        mut started: impl FnMut(u64) -> bool,
        out: &mut Vec<Effect>,
    ) {
        let Some(actor) = self.actor_of_worker.remove(&worker) else { return };
        let Some(callee) = self.callees.get_mut(&actor) else { return };
        let is_news_to_come = callee.state == CalleeState::Alive(worker);
        if is_news_to_come {
            callee.state = CalleeState::Awaited;
        }
        let under: Vec<TaskKey> = callee.lanes.iter().flat_map(|lane| &lane.under).copied().collect();
        for key in under {
            if let Some(task) = self.task_mut(key)
                && let Stage::Under { worker: on, ticket } = task.stage
                && on == worker
            {
                task.stage = Stage::Limbo { started: started(ticket) };
            }
        }
        if let Some(death) = self.death_of(actor) {
            self.end_all_for_dead_actor(actor, &death, out);
        } else if !is_news_to_come {
            // The node spoke of the next life before this one's worker was seen to end.
            self.settle_limbo(actor, out);
            self.send_calls(actor, out);
        }
    }

    /// The node says where an actor is.
    ///
    /// tour(actor) 8: calls that waited for it are sent, each group's in order; if it died, they wait for its restart or fail by the
    /// rules.
    pub fn on_actor_news(&mut self, actor: ActorId, incarnation: u32, news: ActorNews, out: &mut Vec<Effect>) {
        if matches!(news, ActorNews::Dead(_)) && !self.callees.contains_key(&actor) {
            return; // it is forgotten, and nobody has called it since
        }
        self.on_handle_made(actor, true);
        let callee = self.callees.get_mut(&actor).expect("made above");
        let is_there = matches!(news, ActorNews::Alive(_));
        let is_old = (incarnation, is_there) < callee.heard || (is_there && (incarnation, true) == callee.heard);
        let is_death = matches!(news, ActorNews::Dead(_)) && incarnation >= callee.heard.0;
        if (is_old && !is_death) || matches!(callee.state, CalleeState::Dead(_)) {
            return;
        }
        callee.heard = callee.heard.max((incarnation, is_there));
        match news {
            ActorNews::Pending => {}
            ActorNews::Alive(worker) => {
                callee.state = CalleeState::Alive(worker);
                self.actor_of_worker.insert(worker, actor);
                self.settle_limbo(actor, out);
                self.send_calls(actor, out);
            }
            ActorNews::Restarting => {
                callee.state = CalleeState::Restarting;
                self.settle_limbo(actor, out);
                self.fail_unretryable(actor, out);
            }
            ActorNews::Dead(death) => {
                callee.state = CalleeState::Dead(death.clone());
                self.end_all_for_dead_actor(actor, &death, out);
                self.callee_died(actor);
            }
        }
    }

    /// Those that are with a worker that has not been seen to end may have their answers on the way: from another node these come by another
    /// way than the news. They end with the worker.
    fn end_all_for_dead_actor(&mut self, actor: ActorId, death: &ActorDeath, out: &mut Vec<Effect>) {
        let Some(callee) = self.callees.get_mut(&actor) else { return };
        let mut calls = Vec::new();
        for lane in &mut callee.lanes {
            // Taken, not drained: what the longest queue took goes too.
            calls.extend(std::mem::take(&mut lane.under).into_iter().chain(std::mem::take(&mut lane.queue)));
            lane.ended = 0;
        }
        for key in calls {
            match self.task(key).map(|task| (task.stage, task.cancelled)) {
                Some((Stage::Under { .. }, false)) => {
                    self.lane_of(actor, key).expect("it was there").under.push_back(key);
                }
                _ => self.end_for_dead_actor(actor, key, death, out),
            }
        }
    }

    fn end_for_dead_actor(&mut self, actor: ActorId, key: TaskKey, death: &ActorDeath, out: &mut Vec<Effect>) {
        match self.task(key).map(|task| (task.stage, task.cancelled)) {
            Some((_, true)) => self.finish_failed(key, Failure::Cancelled, out),
            // Its arguments may still fail by themselves, but the actor's death is the nearer cause.
            Some(_) => self.finish_failed(key, Failure::ActorDied(actor, death.clone()), out),
            None => {}
        }
    }

    /// Calls that were under way when the actor's worker died: tried again if they may be, else failed.
    fn settle_limbo(&mut self, actor: ActorId, out: &mut Vec<Effect>) {
        let Some(callee) = self.callees.get_mut(&actor) else { return };
        let limbo: Vec<TaskKey> = callee.lanes.iter_mut().flat_map(|lane| std::mem::take(&mut lane.under)).collect();
        let (mut again, mut failing) = (Vec::new(), Vec::new());
        for key in limbo {
            // An argument may have been freed meanwhile.
            let failed_argument = self.failed_argument(key);
            let Some(task) = self.task_mut(key) else { continue };
            let Stage::Limbo { started } = task.stage else {
                self.lane_of(actor, key).expect("it was there").under.push_back(key);
                continue;
            };
            if task.cancelled {
                failing.push((key, Failure::Cancelled));
            } else if !task.may_wait_for_restart() || (started && task.retries_left == 0) {
                failing.push((key, Failure::ActorUnavailable { actor, may_have_run: started }));
            } else if let Some(failure) = failed_argument {
                failing.push((key, failure));
            } else {
                // OWN-4: what did not start costs no retry.
                task.retries_left -= i32::from(started && task.retries_left > 0);
                task.stage = Stage::Queued;
                self.note(key, out);
                self.rewind_stream(key, out);
                again.push(key);
            }
        }
        for key in again.into_iter().rev() {
            self.queue_again(actor, key, out);
        }
        // Only now: what ends may let later calls go, and those before them must stand in the queue by then.
        for (key, failure) in failing {
            self.finish_failed(key, failure, out);
        }
    }

    /// While the actor restarts, calls that may not be tried again fail at once.
    fn fail_unretryable(&mut self, actor: ActorId, out: &mut Vec<Effect>) {
        let Some(callee) = self.callees.get_mut(&actor) else { return };
        let mut lanes = std::mem::take(&mut callee.lanes);
        let mut failing = Vec::new();
        for lane in &mut lanes {
            lane.queue.retain(|key| {
                let Some(task) = self.task(*key) else { return false };
                let fails = task.stage == Stage::Queued && !task.may_wait_for_restart();
                if fails {
                    failing.push(*key);
                }
                !fails
            });
            lane.ended = 0;
        }
        self.callees.get_mut(&actor).expect("seen above").lanes = lanes;
        for key in failing {
            self.finish_failed(key, Failure::ActorUnavailable { actor, may_have_run: false }, out);
        }
    }
}
