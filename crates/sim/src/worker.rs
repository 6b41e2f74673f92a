//! What a worker does: builds an actor, runs calls one by one, waits for what they submit.

use std::collections::VecDeque;

use model::{ActorId, Failure, ObjectId, Place, ProcId, TaskKey, WorkerExit};
use owner::{Slot, Target};

use crate::env::{Claim, Env};
use crate::large::{Content, Found};
use crate::network::{Item, Pid};
use crate::oracle::Task;
use crate::process::{Arg, Call, Frame, Inputs, Process, Role, ToNode};
use crate::refs::{Number, Ref};
use crate::work::{Ending, PlanId, value_of};

#[derive(Default)]
pub(crate) struct Worker {
    pub(crate) incoming: VecDeque<Call>,
    pub(crate) duty: Duty,
    pub(crate) actor: Option<ActorId>,
    is_exiting: bool,
    serial: u64,
}

#[derive(Default)]
pub(crate) enum Duty {
    #[default]
    Nothing,
    Builds(ActorId),
    /// Waits for the tasks that the call submitted, and for what it reads.
    Waits(Run, Vec<Slot>),
    Computes(Run),
    /// Has yielded as much as it may before its reader reads.
    Full(Run),
}

pub(crate) struct Run {
    pub(crate) call: Call,
    /// The how-manieth run of the task.
    pub(crate) attempt: u32,
    /// Items that it has yielded, and that were read.
    pub(crate) yielded: u32,
    pub(crate) consumed: u32,
    pub(crate) is_interrupted: bool,
    /// Values of its children, or that one of them has none.
    children: Result<Vec<u64>, Failure>,
    /// Its arguments.
    args: Vec<u64>,
    /// The references that came with it, as they came and as they are held.
    came: Vec<Ref>,
    refs: Vec<Slot>,
    /// What it looks at until it ends.
    pins: Vec<Place>,
}

impl Worker {
    /// The task it runs.
    pub(crate) fn running(&self, node: usize) -> Option<Task> {
        match &self.duty {
            Duty::Waits(run, _) | Duty::Computes(run) | Duty::Full(run) => Some(task_of(node, &run.call)),
            Duty::Nothing | Duty::Builds(_) => None,
        }
    }

    /// The plan that it runs.
    pub(crate) fn running_plan(&self) -> Option<PlanId> {
        match &self.duty {
            Duty::Waits(run, _) | Duty::Computes(run) | Duty::Full(run) => Some(run.call.plan),
            Duty::Nothing | Duty::Builds(_) => None,
        }
    }

    fn is_waiting(&self) -> bool {
        matches!(self.duty, Duty::Waits(..) | Duty::Full(_))
    }
}

fn task_of(node: usize, call: &Call) -> Task {
    ((node, call.caller), call.first)
}

impl Process {
    fn worker(&mut self) -> Option<&mut Worker> {
        match &mut self.role {
            Role::Worker(worker) => Some(worker),
            Role::Driver(_) => None,
        }
    }

    pub(crate) fn on_call(&mut self, env: &mut Env, call: Call) {
        let pid = self.pid;
        let Some(worker) = self.worker() else { return };
        if worker.is_waiting() && worker.actor.is_none() {
            return give_back(env, pid, &call);
        }
        worker.incoming.push_back(call);
        self.start_next(env);
    }

    pub(crate) fn on_build(&mut self, env: &mut Env, actor: ActorId) {
        let Some(worker) = self.worker() else { return };
        worker.actor = Some(actor);
        worker.duty = Duty::Builds(actor);
        self.compute(env, 300);
    }

    pub(crate) fn on_exit(&mut self, env: &mut Env) {
        if let Some(worker) = self.worker() {
            worker.is_exiting = true;
            self.start_next(env);
        }
    }

    /// Ends a call that nobody wants any more.
    pub(crate) fn give_up(&mut self, env: &mut Env, run: Run) {
        self.answer(env, run, Err(Failure::Cancelled));
    }

    pub(crate) fn on_interrupt(&mut self, env: &mut Env, caller: ProcId, key: TaskKey) {
        let pid = self.pid;
        let Some(worker) = self.worker() else { return };
        match &worker.duty {
            Duty::Computes(run) if run.call.caller == caller && run.call.key == key => {
                let Duty::Computes(run) = std::mem::take(&mut worker.duty) else { unreachable!("seen above") };
                self.give_up(env, run);
            }
            Duty::Full(run) if run.call.caller == caller && run.call.key == key => {
                let Duty::Full(run) = std::mem::take(&mut worker.duty) else { unreachable!("seen above") };
                env.tell_node(pid, ToNode::Blocked(false));
                self.give_up(env, run);
            }
            _ => {}
        }
        // What waits is interrupted too in the real world; here it runs on, which is allowed, until it would wait for its reader.
        if let Some(Worker { duty: Duty::Waits(run, _), .. }) = self.worker() {
            run.is_interrupted |= run.call.caller == caller && run.call.key == key;
        }
    }

    /// Takes the next call that nobody took back.
    fn start_next(&mut self, env: &mut Env) {
        let pid = self.pid;
        let Some(worker) = self.worker() else { return };
        if !matches!(worker.duty, Duty::Nothing) {
            return;
        }
        if worker.is_exiting {
            return self.end(env, WorkerExit::Code(0));
        }
        // A real worker hears of its caller's ring only after it heard what to build.
        let is_early = |call: &Call| call.is_on_actor && worker.actor.is_none();
        if worker.incoming.front().is_some_and(is_early) {
            return;
        }
        while let Some(call) = worker.incoming.pop_front() {
            if !env.claim(call.ticket, Claim::Started) {
                continue;
            }
            let Some((args, pins)) = self.read_arguments(env, &call) else {
                // Its owner finds out which one.
                let answer = Err(Failure::ArgumentLost("".into()));
                env.oracle.argument_lost(task_of(pid.0, &call));
                env.frame(
                    pid,
                    (pid.0, call.caller),
                    Frame::Reply { key: call.key, answer, kept: Vec::new(), is_gift: false },
                );
                return self.start_next(env);
            };
            let attempt = env.oracle.started(task_of(pid.0, &call), pid);
            let inside = args.iter().flat_map(|arg| &arg.refs);
            let came: Vec<Ref> = call.refs.iter().chain(inside).copied().collect();
            let refs = came.iter().map(|reference| self.borrow_for_call(env, reference)).collect();
            let args = args.iter().map(|arg| arg.number).collect();
            let consumed = call.consumed;
            let children = Ok(Vec::new());
            let run =
                Run { call, attempt, yielded: 0, consumed, is_interrupted: false, children, args, came, refs, pins };
            return self.start(env, run);
        }
    }

    /// The values that the call needs, and what is pinned for it; `None` if one of them is not there.
    fn read_arguments(&mut self, env: &mut Env, call: &Call) -> Option<(Vec<Number>, Vec<Place>)> {
        let (mut values, mut pins) = (Vec::new(), Vec::new());
        for Arg { id, content } in &call.args {
            let found = match content {
                None => None,
                Some(Content::Small(number)) => Some((number.clone(), None)),
                Some(Content::Large(bulk)) => self.look_at(env, *bulk),
            };
            let Some((number, pin)) = found else {
                pins.into_iter().for_each(|pin| self.unpin(env, Some(pin)));
                return None;
            };
            env.oracle.read_value(self.pid, *id, &number);
            values.push(number);
            pins.extend(pin);
        }
        Some((values, pins))
    }

    fn start(&mut self, env: &mut Env, run: Run) {
        let plan = env.plans.get(run.call.plan);
        let (plans, us, with_refs) = (plan.children.clone(), plan.us, plan.with_refs);
        let is_reading = with_refs.reads && !run.refs.is_empty();
        if plans.is_empty() && !is_reading {
            self.worker().expect("only workers run").duty = Duty::Computes(run);
            return self.compute(env, us);
        }
        let id = run.call.id;
        let names: &[Slot] = if with_refs.forwards { &run.refs } else { &[] };
        let given = &run.refs[..run.call.refs.len()];
        let submit = |(index, plan)| {
            let deps: &[Slot] = if env.plans.get(plan).takes_refs { given } else { &[] };
            self.submit(env, id.child(index), plan, Target::Pool, Inputs { deps, names })
        };
        let children = (0..).zip(plans).map(submit).collect();
        if is_reading {
            run.refs.iter().for_each(|slot| self.owner.on_needed(*slot, &mut self.effects));
        }
        let pid = self.pid;
        let worker = self.worker().expect("only workers run");
        worker.duty = Duty::Waits(run, children);
        env.tell_node(pid, ToNode::Blocked(true));
        if worker.actor.is_none() {
            for call in std::mem::take(&mut worker.incoming) {
                give_back(env, pid, &call);
            }
        }
    }

    /// Runs on once all children have ended.
    pub(crate) fn look_at_children(&mut self, env: &mut Env) {
        let Role::Worker(worker) = &mut self.role else { return };
        let Duty::Waits(run, children) = &worker.duty else { return };
        let value = |slot: &Slot| self.owner.object(*slot).and_then(|object| object.value.as_ref());
        let reads: &[Slot] = if env.plans.get(run.call.plan).with_refs.reads { &run.refs } else { &[] };
        if children.iter().chain(reads).any(|slot| value(slot).is_none()) {
            return;
        }
        let (children, reads) = (children.clone(), reads.to_vec());
        let ids: Vec<ObjectId> = run.came.iter().map(|reference| reference.id).collect();
        let (mut values, mut pins) = (Ok(Vec::new()), Vec::new());
        for (at, slot) in reads.iter().chain(&children).enumerate() {
            let read = ids.get(at).filter(|_| at < reads.len());
            match self.find(env, *slot) {
                Found::NotYet => return pins.into_iter().for_each(|pin| self.unpin(env, Some(pin))),
                Found::Value(number, pin) => {
                    pins.extend(pin);
                    match (read, &mut values) {
                        (Some(id), _) => env.oracle.read_value(self.pid, *id, &number),
                        (None, Ok(values)) => values.push(number.number),
                        (None, Err(_)) => {}
                    }
                }
                Found::Failed(failure) => match read {
                    Some(id) => env.oracle.read_failure(self.pid, *id, &failure),
                    None => values = Err(Failure::Raised([2].into())),
                },
            }
        }
        let Role::Worker(worker) = &mut self.role else { unreachable!("seen above") };
        let Duty::Waits(mut run, children) = std::mem::take(&mut worker.duty) else { unreachable!("seen above") };
        let us = env.plans.get(run.call.plan).us;
        run.pins.extend(pins);
        worker.duty = Duty::Computes(Run { children: values, ..run });
        for child in children {
            self.owner.on_handle_dropped(child, &mut self.effects);
        }
        env.tell_node(self.pid, ToNode::Blocked(false));
        self.compute(env, us);
    }

    pub(crate) fn compute(&mut self, env: &mut Env, us: u64) {
        let pid = self.pid;
        let worker = self.worker().expect("only workers compute");
        worker.serial += 1;
        env.later(us, Item::Computed { process: pid, serial: worker.serial });
    }

    pub(crate) fn on_computed(&mut self, env: &mut Env, serial: u64) {
        let pid = self.pid;
        let Some(worker) = self.worker().filter(|worker| worker.serial == serial) else { return };
        match std::mem::take(&mut worker.duty) {
            Duty::Computes(mut run) => {
                if self.yield_next(env, &mut run) {
                    self.go_on(env, run);
                } else {
                    self.finish_run(env, run);
                }
            }
            Duty::Builds(actor) => match env.rng.below(100) {
                0..3 if env.has_faults() => env.tell_node(pid, ToNode::BuildFailed(actor)),
                3..6 if env.has_faults() => self.end(env, WorkerExit::Code(1)),
                _ => {
                    env.tell_node(pid, ToNode::Built(actor));
                    self.start_next(env);
                }
            },
            // Interrupted meanwhile.
            duty => worker.duty = duty,
        }
        self.apply(env);
    }

    fn finish_run(&mut self, env: &mut Env, run: Run) {
        let (plan, attempt) = (env.plans.get(run.call.plan), run.attempt);
        let answer = match (plan.ending, &run.children) {
            (Ending::CrashesFirst(count), _) if attempt <= count => return self.crash(env, run),
            (Ending::Leaves, _) => {
                env.tell_node(self.pid, ToNode::Leaving);
                return self.crash(env, run);
            }
            (Ending::Raises, _) => Err(Failure::Raised([1].into())),
            (Ending::RaisesFirst(count), _) if attempt <= count => Err(Failure::Retryable([attempt as u8].into())),
            (_, Err(failure)) => Err(failure.clone()),
            (_, Ok(children)) => {
                let inputs: Vec<u64> = run.args.iter().chain(children).copied().collect();
                let returned = if plan.with_refs.returns { run.came.clone() } else { Vec::new() };
                Ok(Number { number: value_of(run.call.plan, &inputs), refs: returned })
            }
        };
        if let Ok(number) = &answer
            && !number.refs.is_empty()
            && env.settings.die_giving > 0
            && env.has_faults()
            && env.rng.chance(env.settings.die_giving)
        {
            // It has told the owners, and never gets to the ring.
            env.counts.gifts_cut += u64::from(self.give_shares(env, &number.refs, run.call.caller));
            return self.crash(env, run);
        }
        self.answer(env, run, answer);
    }

    /// The process ends in the middle of the call.
    fn crash(&mut self, env: &mut Env, run: Run) {
        self.worker().expect("only workers run").duty = Duty::Computes(run);
        self.end(env, WorkerExit::Code(1));
    }

    /// As the real body: shares for what the value names, then what is kept, then the reply.
    fn answer(&mut self, env: &mut Env, run: Run, answer: Result<Number, Failure>) {
        let Run { call, refs, pins, .. } = run;
        env.oracle.answered(task_of(self.pid.0, &call), &answer);
        let is_large = env.plans.get(call.plan).is_large && !self.dead.contains(&call.caller);
        let is_gift = answer.as_ref().is_ok_and(|number| self.give_shares(env, &number.refs, call.caller));
        if is_gift {
            self.gifts.on_gave(call.caller);
        }
        let answer = answer.map(|number| match number {
            number if is_large => self.write(env, number, call.caller),
            number => Content::Small(number),
        });
        pins.into_iter().for_each(|pin| self.unpin(env, Some(pin)));
        let keeps_us = env.plans.get(call.plan).with_refs.keeps_us;
        for slot in &refs {
            if keeps_us > 0 {
                env.later(keeps_us, Item::LetGo { process: self.pid, slot: *slot });
            } else {
                self.owner.on_handle_dropped(*slot, &mut self.effects);
            }
        }
        let mut kept = Vec::new();
        for slot in refs {
            kept.extend(self.owner.on_call_ends(slot, self.pid.1, &mut self.effects));
        }
        env.frame(self.pid, (self.pid.0, call.caller), Frame::Reply { key: call.key, answer, kept, is_gift });
        // What was let go is gone before its place is given to another.
        self.apply(env);
        self.start_next(env);
    }

    pub(crate) fn on_let_go(&mut self, env: &mut Env, slot: Slot) {
        // Where it lay when it was last heard of may be long ago.
        if let Some(id) = self.owner.object(slot).map(|object| object.id)
            && let Found::Value(number, pin) = self.find(env, slot)
        {
            env.oracle.read_value(self.pid, id, &number);
            self.unpin(env, pin);
        }
        self.owner.on_handle_dropped(slot, &mut self.effects);
        self.apply(env);
    }
}

/// Gives a call back that has not started.
pub(crate) fn give_back(env: &mut Env, from: Pid, call: &Call) {
    if env.claim(call.ticket, Claim::Started) {
        env.frame(from, (from.0, call.caller), Frame::GivenBack { key: call.key });
    }
}
