//! What a worker does: builds an actor, runs calls one by one, waits for what they submit.

use std::collections::VecDeque;

use model::{ActorId, Bulk, Failure, ObjectId, Place, TaskId, WorkerExit};
use owner::{Slot, Target};
use party::Unsent;
use wire::frame::{self, GIVEN_BACK, Header, REPLY};

use crate::body::{Full, send_frame};
use crate::env::{Claim, Env};
use crate::large::{Content, Found};
use crate::network::Item;
use crate::oracle::Task;
use crate::process::{Arg, Call, Frame, Inputs, Process, Role, ToNode};
use crate::refs::{Number, Ref};
use crate::work::{Ending, PlanId, Put, value_of};

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
    /// Waits for the arguments of a call that it has begun.
    Brings(Call),
    /// Waits for the tasks that the call submitted, and for what it reads.
    Waits(Run, Vec<Slot>),
    Computes(Run),
    /// Has yielded as much as it may before its reader reads.
    Full(Run),
    /// Has an answer to this task that found no room.
    Answers(Task, Unsent<Full>),
}

/// What a call is to start with.
enum Arguments {
    There(Vec<Number>, Vec<Place>),
    /// Some are on other nodes.
    Coming,
    /// One is not there any more.
    Lost,
}

pub(crate) struct Run {
    pub(crate) call: Call,
    /// Counts the runs of the task.
    pub(crate) attempt: u32,
    /// Items that it has yielded, and that were read.
    pub(crate) yielded: u32,
    pub(crate) consumed: u32,
    pub(crate) is_interrupted: bool,
    /// Values of its children, or that one of them has none.
    children: Result<Vec<u64>, Failure>,
    /// The objects that those made, if its value names them.
    made: Vec<Slot>,
    /// Its arguments.
    args: Vec<u64>,
    /// The references that came with it, as they came and as they are held.
    came: Vec<Ref>,
    refs: Vec<Slot>,
    /// What it looks at until it ends.
    pins: Vec<Place>,
}

impl Worker {
    fn run(&self) -> Option<&Run> {
        match &self.duty {
            Duty::Waits(run, _) | Duty::Computes(run) | Duty::Full(run) => Some(run),
            Duty::Nothing | Duty::Builds(_) | Duty::Brings(_) | Duty::Answers(..) => None,
        }
    }

    /// The task it runs.
    pub(crate) fn running(&self) -> Option<Task> {
        self.run().map(|run| run.call.first)
    }

    /// The task that waits for its arguments.
    pub(crate) fn beginning(&self) -> Option<Task> {
        if let Duty::Brings(call) = &self.duty { Some(call.first) } else { None }
    }

    /// The plan that it runs.
    pub(crate) fn running_plan(&self) -> Option<PlanId> {
        self.run().map(|run| run.call.plan)
    }

    /// All calls that it has not answered.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        let begun = if let Duty::Brings(call) = &self.duty { Some(call) } else { None };
        begun.into_iter().chain(self.run().map(|run| &run.call)).chain(&self.incoming)
    }

    /// A task whose answer found no room.
    pub(crate) fn unanswered(&self) -> Option<Task> {
        if let Duty::Answers(first, _) = &self.duty { Some(*first) } else { None }
    }

    fn is_waiting(&self) -> bool {
        matches!(self.duty, Duty::Waits(..) | Duty::Full(_))
    }
}

impl Process {
    fn worker(&mut self) -> Option<&mut Worker> {
        match &mut self.role {
            Role::Worker(worker) => Some(worker),
            Role::Driver(_) | Role::Keeper => None,
        }
    }

    pub(crate) fn on_call(&mut self, env: &mut Env, call: Call) {
        let Some(worker) = self.worker() else { return };
        if worker.is_waiting() && worker.actor.is_none() {
            return self.give_back(env, &call);
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

    pub(crate) fn on_interrupt(&mut self, env: &mut Env, task: TaskId) {
        let pid = self.pid;
        let Some(worker) = self.worker() else { return };
        match &worker.duty {
            Duty::Computes(run) if run.call.id == task => {
                let Duty::Computes(run) = std::mem::take(&mut worker.duty) else { unreachable!("seen above") };
                self.give_up(env, run);
            }
            Duty::Full(run) if run.call.id == task => {
                let Duty::Full(run) = std::mem::take(&mut worker.duty) else { unreachable!("seen above") };
                env.tell_node(pid, ToNode::Blocked { blocked: false });
                self.give_up(env, run);
            }
            _ => {}
        }
        // What waits is interrupted too in the real world; here it runs on, which is allowed, until it would wait for its reader.
        if let Some(Worker { duty: Duty::Waits(run, _), .. }) = self.worker() {
            run.is_interrupted |= run.call.id == task;
        }
    }

    /// Takes the next call that nobody took back.
    fn start_next(&mut self, env: &mut Env) {
        let Some(worker) = self.worker() else { return };
        if !matches!(worker.duty, Duty::Nothing) {
            return;
        }
        if worker.is_exiting {
            return self.end(env, WorkerExit::Intended("it was told to end".into()));
        }
        // A real worker hears of its caller's ring only after it heard what to build.
        let is_early = |call: &Call| call.is_on_actor && worker.actor.is_none();
        if worker.incoming.front().is_some_and(is_early) {
            return;
        }
        while let Some(call) = worker.incoming.pop_front() {
            if !call.is_claimed && !env.claim(call.ticket, Claim::Started) {
                continue;
            }
            return self.begin(env, call);
        }
    }

    /// The call has begun: it starts once its arguments are there.
    fn begin(&mut self, env: &mut Env, call: Call) {
        match self.read_arguments(env, &call) {
            Arguments::There(args, pins) => self.start_with(env, call, &args, pins),
            Arguments::Coming => self.worker().expect("only workers run").duty = Duty::Brings(call),
            Arguments::Lost => self.argument_lost(env, &call),
        }
    }

    fn argument_lost(&mut self, env: &mut Env, call: &Call) {
        // Its owner finds out which one.
        let answer = Err(Failure::ArgumentLost("".into()));
        env.oracle.argument_lost(call.first, self.pid);
        self.send_reply(env, call, answer, &[]);
        self.start_next(env);
    }

    /// A value has come that the call may wait for, or will not come.
    pub(crate) fn go_on_with_arguments(&mut self, env: &mut Env, bulk: Bulk, is_here: bool) {
        let Some(worker) = self.worker() else { return };
        if !matches!(&worker.duty, Duty::Brings(call) if call.named().contains(&bulk)) {
            return;
        }
        let Duty::Brings(call) = std::mem::take(&mut worker.duty) else { unreachable!("seen above") };
        if is_here { self.begin(env, call) } else { self.argument_lost(env, &call) }
    }

    fn start_with(&mut self, env: &mut Env, call: Call, args: &[Number], pins: Vec<Place>) {
        let attempt = env.oracle.started(call.first, self.pid);
        let inside = args.iter().flat_map(|arg| &arg.refs);
        let came: Vec<Ref> = call.refs.iter().chain(inside).copied().collect();
        let refs = came.iter().map(|reference| self.borrow_for_call(env, *reference)).collect();
        let args = args.iter().map(|arg| arg.number).collect();
        let consumed = call.consumed;
        let (yielded, is_interrupted, children, made) = (0, false, Ok(Vec::new()), Vec::new());
        let run = Run { call, attempt, yielded, consumed, is_interrupted, children, made, args, came, refs, pins };
        self.start(env, run);
    }

    /// The values that the call needs, and what is pinned for it.
    fn read_arguments(&mut self, env: &mut Env, call: &Call) -> Arguments {
        let (mut values, mut pins, mut is_coming) = (Vec::new(), Vec::new(), false);
        for Arg { id, content } in &call.args {
            let found = match content {
                None => None,
                Some(Content::Small(number)) => Some((number.clone(), None)),
                Some(Content::Large(bulk)) => match self.look_near(env, *bulk) {
                    // It may be kept here for a process of another node, and have been moved.
                    None if self.is_away(*bulk) || matches!(bulk, Bulk::Stored(_)) => {
                        self.bring(env, *bulk, None);
                        is_coming = true;
                        continue;
                    }
                    found => found,
                },
            };
            let Some((number, pin)) = found else {
                pins.into_iter().for_each(|pin| self.unpin(env, Some(pin)));
                return Arguments::Lost;
            };
            env.oracle.read_value(self.pid, *id, &number);
            values.push(number);
            pins.extend(pin);
        }
        if is_coming {
            pins.into_iter().for_each(|pin| self.unpin(env, Some(pin)));
            return Arguments::Coming;
        }
        Arguments::There(values, pins)
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
        let mut names: Vec<Slot> = if with_refs.forwards { run.refs.clone() } else { Vec::new() };
        let given = &run.refs[..run.call.refs.len()];
        // Each run makes things of its own.
        let first = env.new_run() << 8;
        let mut children = Vec::new();
        for (index, plan) in (first..).zip(plans) {
            let deps: &[Slot] = if env.plans.get(plan).takes_refs { given } else { &[] };
            let child = self.submit(env, id.child(index), plan, Target::Pool, Inputs { deps, names: &names });
            children.push(child);
            // Those that come later hear of those before them.
            if with_refs.introduces {
                names.push(child);
            }
        }
        if is_reading {
            run.refs.iter().for_each(|slot| self.party.owner.on_needed(*slot, &mut self.party.effects));
        }
        let pid = self.pid;
        let worker = self.worker().expect("only workers run");
        worker.duty = Duty::Waits(run, children);
        env.tell_node(pid, ToNode::Blocked { blocked: true });
        if worker.actor.is_none() {
            for call in std::mem::take(&mut worker.incoming) {
                self.give_back(env, &call);
            }
        }
    }

    /// Runs on once all children have ended.
    pub(crate) fn look_at_children(&mut self, env: &mut Env) {
        let Role::Worker(worker) = &mut self.role else { return };
        let Duty::Waits(run, children) = &worker.duty else { return };
        let value = |slot: &Slot| self.party.owner.object(*slot).and_then(|object| object.value.as_ref());
        let reads: &[Slot] = if env.plans.get(run.call.plan).with_refs.reads { &run.refs } else { &[] };
        if children.iter().chain(reads).any(|slot| value(slot).is_none()) {
            return;
        }
        let (children, reads) = (children.clone(), reads.to_vec());
        let ids: Vec<ObjectId> = run.came.iter().map(|(id, _)| *id).collect();
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
        let plan = env.plans.get(run.call.plan);
        let us = plan.us;
        run.pins.extend(pins);
        let (made, dropped) = if plan.with_refs.returns { (children, Vec::new()) } else { (Vec::new(), children) };
        worker.duty = Duty::Computes(Run { children: values, made, ..run });
        for child in dropped {
            self.party.owner.on_handle_dropped(child, &mut self.party.effects);
        }
        env.tell_node(self.pid, ToNode::Blocked { blocked: false });
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
                0..3 if env.has_faults() => env.tell_node(pid, ToNode::ActorBuildFailed { actor, error: vec![1] }),
                3..6 if env.has_faults() => self.end(env, WorkerExit::Code(1, model::Remains::default())),
                _ => {
                    env.tell_node(pid, ToNode::ActorBuilt { actor, shown_as: "A".into() });
                    self.start_next(env);
                }
            },
            // Interrupted meanwhile.
            duty => worker.duty = duty,
        }
        self.apply(env);
    }

    /// Puts a value whose owner this worker is.
    fn put_in_run(&mut self, env: &mut Env, run: &Run, put: Put) -> Slot {
        let id = ObjectId::of(run.call.id.child(env.new_run() << 8), 1);
        let names: &[Slot] = if put.names { &run.refs } else { &[] };
        let refs = names.iter().filter_map(|slot| self.escape(env, *slot)).collect();
        let number = Number { number: env.rng.next(), refs };
        env.oracle.put(self.pid, id, number.number);
        let content = if put.is_large { self.write(env, number, self.pid.1) } else { Content::Small(number) };
        let slot = self.party.owner.on_put(id, content.to_value(), names);
        self.puts.insert(slot, id);
        slot
    }

    fn finish_run(&mut self, env: &mut Env, mut run: Run) {
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
                let number = value_of(run.call.plan, &inputs);
                let mut refs = if plan.with_refs.returns { run.came.clone() } else { Vec::new() };
                if let Some(put) = plan.with_refs.puts {
                    let slot = self.put_in_run(env, &run, put);
                    run.made.push(slot);
                }
                refs.extend(run.made.iter().filter_map(|slot| self.escape(env, *slot)));
                Ok(Number { number, refs })
            }
        };
        if let Ok(number) = &answer
            && !number.refs.is_empty()
            && env.settings.die_giving > 0
            && env.has_faults()
            && self.party.heir_of(run.call.caller).is_none()
            && env.rng.chance(env.settings.die_giving)
        {
            // It has told the owners, and never gets to the ring.
            let bytes = reply_of(&Ok(Content::Small(number.clone())));
            let (party, hands) = self.parts(env);
            let call = party::Call { caller: run.call.caller, request: run.call.key.0 };
            let _nothing = party.reply(&mut hands.dying(), call, bytes, &[]);
            return self.crash(env, run);
        }
        self.answer(env, run, answer);
    }

    /// The process ends in the middle of the call.
    fn crash(&mut self, env: &mut Env, run: Run) {
        self.worker().expect("only workers run").duty = Duty::Computes(run);
        self.end(env, WorkerExit::Code(1, model::Remains::default()));
    }

    /// As the real body: shares for what the value names, then what is kept, then the reply.
    fn answer(&mut self, env: &mut Env, run: Run, answer: Result<Number, Failure>) {
        let Run { call, refs, pins, made, .. } = run;
        env.oracle.answered(call.first, &answer, self.pid);
        let to = self.party.living(call.caller);
        let is_large = env.plans.get(call.plan).is_large && !self.party.is_dead(to);
        let answer = answer.map(|number| match number {
            number if is_large => self.write(env, number, to),
            number => Content::Small(number),
        });
        if let Ok(Content::Large(Bulk::Filed(filed))) = &answer {
            env.sent_in(filed.file, call.first);
        }
        pins.into_iter().for_each(|pin| self.unpin(env, Some(pin)));
        let keeps_us = env.plans.get(call.plan).with_refs.keeps_us;
        for slot in &refs {
            if keeps_us > 0 {
                env.later(keeps_us, Item::LetGo { process: self.pid, slot: *slot });
            } else {
                self.party.owner.on_handle_dropped(*slot, &mut self.party.effects);
            }
        }
        self.send_reply(env, &call, answer, &refs);
        for slot in made {
            self.party.owner.on_handle_dropped(slot, &mut self.party.effects);
        }
        // What was let go is gone before its place is given to another.
        self.apply(env);
        self.start_next(env);
    }

    /// To who called, or to its heir. `came_with`: the references that came with the call.
    fn send_reply(&mut self, env: &mut Env, call: &Call, answer: Result<Content, Failure>, came_with: &[Slot]) {
        let (party, hands) = self.parts(env);
        let to = party::Call { caller: call.caller, request: call.key.0 };
        let unsent = party.reply(&mut hands.answering(call.first), to, reply_of(&answer), came_with);
        self.note_unsent(env, call.first, unsent);
    }

    fn note_unsent(&mut self, env: &mut Env, first: Task, unsent: Option<Unsent<Full>>) {
        let pid = self.pid;
        let worker = self.worker().expect("only workers answer");
        worker.duty = Duty::Nothing;
        if let Some(unsent) = unsent {
            worker.duty = Duty::Answers(first, unsent);
            let us = env.rng.between(1, 10_000);
            env.later(us, Item::Answer { process: pid });
        }
    }

    /// Looks whether there is room for its answer now.
    pub(crate) fn on_answer(&mut self, env: &mut Env) {
        let Some(worker) = self.worker() else { return };
        let Duty::Answers(first, unsent) = std::mem::take(&mut worker.duty) else { unreachable!("it waits for that") };
        let (party, hands) = self.parts(env);
        let unsent = party.reply_again(&mut hands.answering(first), unsent, false);
        self.note_unsent(env, first, unsent);
        self.apply(env);
        self.start_next(env);
    }

    /// Gives a call back that has not started.
    pub(crate) fn give_back(&mut self, env: &mut Env, call: &Call) {
        if self.buried.contains(&call.caller) {
            let to = party::Call { caller: call.caller, request: call.key.0 };
            let (party, mut hands) = self.parts(env);
            party.give_back_to_heir(&mut hands, to);
        } else if env.claim(call.ticket, Claim::Started) {
            let header = Header { length: 0, kind: REPLY, flags: GIVEN_BACK, claim: 0, request: call.key.0 };
            let frame = Frame::Written { header, body: Vec::new(), first: None };
            send_frame(env, self.pid, call.caller, frame);
        }
    }

    pub(crate) fn on_let_go(&mut self, env: &mut Env, slot: Slot) {
        // Where it lay when it was last heard of may be long ago.
        if let Some(id) = self.party.owner.object(slot).map(|object| object.id)
            && let Found::Value(number, pin) = self.find(env, slot)
        {
            env.oracle.read_value(self.pid, id, &number);
            self.unpin(env, pin);
        }
        self.party.owner.on_handle_dropped(slot, &mut self.party.effects);
        self.apply(env);
    }
}

/// A reply's body, but for what is kept beyond the call.
fn reply_of(answer: &Result<Content, Failure>) -> Vec<u8> {
    let mut body = 1_u32.to_le_bytes().to_vec();
    match answer {
        Ok(Content::Small(number)) => frame::Value::Inline(&number.to_bytes()).write(&mut body),
        Ok(Content::Large(bulk)) => frame::Value::Bulk(*bulk).write(&mut body),
        Err(Failure::Raised(error)) => frame::Value::Raised { error, retry: false }.write(&mut body),
        Err(Failure::Retryable(error)) => frame::Value::Raised { error, retry: true }.write(&mut body),
        Err(failure) => frame::Value::write_failure(failure, &mut body),
    }
    body
}
