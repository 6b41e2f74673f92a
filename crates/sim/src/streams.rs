//! Generators: a worker yields item by item and may have to wait for its reader; the process that called it reads now and then, and
//! sometimes loses interest.
//!
//! - **SIM-9** the reader of a generator gets each value once and in order, whatever became of its runs, then at most one failure, then the end.

use model::{ProcId, TaskKey, WorkerExit, Yields};
use owner::{Next, StreamKey, Value};
use party::Cargo;
use wire::frame::{self, Header, ITEM};

use crate::env::Env;
use crate::network::Item;
use crate::process::{Process, Role, ToNode};
use crate::refs::Number;
use crate::work::{Ending, PlanId, value_of};
use crate::worker::{Duty, Run};

/// A generator that this process called and reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    stream: StreamKey,
    plan: PlanId,
    /// Values that it has seen.
    seen: u32,
    has_failed: bool,
}

/// The value that a generator yields at an index.
fn item_of(plan: PlanId, index: u32) -> Number {
    Number { number: value_of(plan, &[u64::from(index)]), refs: Vec::new() }
}

impl Process {
    /// The task yields: this process reads it from now on.
    pub(crate) fn read_stream(&mut self, env: &mut Env, stream: StreamKey, plan: PlanId) {
        self.readings.push(Reading { stream, plan, seen: 0, has_failed: false });
        self.plan_reading(env, stream);
    }

    fn plan_reading(&mut self, env: &mut Env, stream: StreamKey) {
        let us = if env.rng.chance(700) { env.rng.between(1, 2_000) } else { env.rng.between(1, 60_000) };
        env.later(us, Item::Read { process: self.pid, stream });
    }

    /// Reads a little of a stream, or lets it go.
    pub(crate) fn on_read(&mut self, env: &mut Env, stream: StreamKey) {
        let Some(at) = self.readings.iter().position(|reading| reading.stream == stream) else { return };
        let mut is_over = env.rng.chance(20);
        for _ in 0..env.rng.between(1, 4) {
            match self.party.owner.on_next(stream, &mut self.party.effects) {
                Next::Item { slot, .. } => {
                    let value = self.party.owner.object(slot).and_then(|object| object.value.clone());
                    self.check_item(env, at, value.as_ref());
                    self.party.owner.on_handle_dropped(slot, &mut self.party.effects);
                }
                Next::Pending(_) => break,
                Next::End => {
                    self.check_end(env, at);
                    is_over = true;
                    break;
                }
            }
        }
        if is_over {
            self.readings.swap_remove(at);
            self.party.owner.on_stream_dropped(stream, &mut self.party.effects);
        } else {
            self.plan_reading(env, stream);
        }
        self.apply(env);
    }

    fn check_item(&mut self, env: &mut Env, at: usize, value: Option<&Value>) {
        let reading = &mut self.readings[at];
        let Reading { plan, seen, has_failed, .. } = *reading;
        match value {
            _ if has_failed => env.oracle.fail(format!("SIM-9: {reading:?} goes on behind its failure: {value:?}")),
            Some(Value::Failed(_)) => reading.has_failed = true,
            Some(Value::Inline(bytes)) if Number::from_bytes(bytes) == item_of(plan, seen) => reading.seen += 1,
            _ => env.oracle.fail(format!("SIM-9: {reading:?} reads {value:?}")),
        }
    }

    fn check_end(&mut self, env: &mut Env, at: usize) {
        let reading = &self.readings[at];
        let items = env.plans.get(reading.plan).items;
        if !reading.has_failed && reading.seen != items {
            env.oracle.fail(format!("SIM-9: {reading:?} ends, but there are {items} values"));
        }
    }

    /// What a running generator does next: true if it does not end now.
    pub(crate) fn yield_next(&mut self, env: &mut Env, run: &mut Run) -> bool {
        let plan = env.plans.get(run.call.plan);
        let is_crashing = matches!(plan.ending, Ending::CrashesFirst(count) if run.attempt <= count);
        if run.yielded >= plan.items || (is_crashing && run.yielded > plan.items / 2) {
            return false;
        }
        let answer = item_of(run.call.plan, run.yielded);
        run.yielded += 1;
        let mut body = Vec::new();
        frame::Value::Inline(&answer.to_bytes()).write(&mut body);
        let header = Header { length: 0, kind: ITEM, flags: 0, claim: 0, request: run.call.key.0 };
        let (party, mut hands) = self.parts(env);
        let cargo = Cargo::of(&mut hands, &body);
        party.write_values(&mut hands, run.call.caller, header, &body, &cargo).expect("items find room");
        true
    }

    /// Whether the generator is as far ahead of its reader as it may be.
    fn is_full(env: &Env, run: &Run) -> bool {
        match env.plans.get(run.call.plan).template.yields {
            Yields::Stream { ahead_max } if ahead_max > 0 => run.yielded.saturating_sub(run.consumed) >= ahead_max,
            _ => false,
        }
    }

    /// A generator that has yielded goes on, or waits for its reader as for anything else.
    pub(crate) fn go_on(&mut self, env: &mut Env, run: Run) {
        let us = env.plans.get(run.call.plan).us;
        let (pid, is_full) = (self.pid, Self::is_full(env, &run));
        let Role::Worker(worker) = &mut self.role else { return };
        if !is_full {
            worker.duty = Duty::Computes(run);
            return self.compute(env, us);
        }
        if run.is_interrupted || self.party.is_dead(run.call.caller) {
            return self.give_up(env, run);
        }
        worker.duty = Duty::Full(run);
        env.tell_node(pid, ToNode::Blocked { blocked: true });
        if worker.actor.is_none() {
            for call in std::mem::take(&mut worker.incoming) {
                self.give_back(env, &call);
            }
        }
    }

    /// The caller says how far the reader of a call's items is.
    pub(crate) fn on_consumed(&mut self, env: &mut Env, caller: ProcId, key: TaskKey, count: u32) {
        let pid = self.pid;
        let Role::Worker(worker) = &mut self.role else { return };
        // One that was taken back and came again stands there twice.
        let begun = if let Duty::Brings(call) = &mut worker.duty { Some(call) } else { None };
        let calls = begun.into_iter().chain(&mut worker.incoming);
        for call in calls.filter(|call| call.caller == caller && call.key == key) {
            call.consumed = call.consumed.max(count);
        }
        let (Duty::Full(run) | Duty::Waits(run, _) | Duty::Computes(run)) = &mut worker.duty else { return };
        if (run.call.caller, run.call.key) != (caller, key) {
            return;
        }
        run.consumed = run.consumed.max(count);
        if matches!(&worker.duty, Duty::Full(run) if !Self::is_full(env, run)) {
            let Duty::Full(run) = std::mem::take(&mut worker.duty) else { unreachable!("seen above") };
            env.tell_node(pid, ToNode::Blocked { blocked: false });
            self.go_on(env, run);
        }
    }

    /// Whoever reads what this worker yields is dead.
    pub(crate) fn reader_died(&mut self, env: &mut Env, peer: ProcId, exit: &WorkerExit) {
        let pid = self.pid;
        let Role::Worker(worker) = &mut self.role else { return };
        if !matches!(&worker.duty, Duty::Full(run) if run.call.caller == peer) {
            return;
        }
        let Duty::Full(mut run) = std::mem::take(&mut worker.duty) else { unreachable!("seen above") };
        env.tell_node(pid, ToNode::Blocked { blocked: false });
        if exit.is_own_will() {
            run.consumed = u32::MAX;
            self.go_on(env, run);
        } else {
            self.give_up(env, run);
        }
    }
}
