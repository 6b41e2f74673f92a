//! The worker's side: which call runs next, and its reply.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use model::{ActorId, ActorOptions, ObjectId, ProcId, TaskId, Template};
use net::Wants;
use owner::Slot;
use store::View;
use wire::control::ToNode;
use wire::frame;
use wire::{Malformed, Reader};

use crate::link::Claim;
use crate::stages::Stage;
use crate::state::State;
use crate::{Interrupts, Runtime, Wait, Waited};

/// A call that came in and has not started.
pub(crate) struct Incoming {
    pub(crate) peer: ProcId,
    pub(crate) request: u64,
    pub(crate) claim: Claim,
    pub(crate) task: TaskId,
    pub(crate) template: Arc<Template>,
    pub(crate) payload: Range<usize>,
    pub(crate) body: Vec<u8>,
    pub(crate) arrived: Option<u64>,
    /// Of a generator's items: how many were read, if it ran before.
    pub(crate) consumed: u32,
    /// Whoever called is dead, and had not taken it back.
    pub(crate) is_claimed: bool,
}

/// Where a reply goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHandle {
    /// Who called.
    pub peer: ProcId,
    pub(crate) request: u64,
    /// The task.
    pub task: TaskId,
}

/// A call to be run now.
pub struct IncomingCall {
    /// For the reply.
    pub handle: CallHandle,
    /// What to run.
    pub template: Arc<Template>,
    payload: Range<usize>,
    body: Vec<u8>,
}

/// A dependency's value.
pub enum CallArg<'a> {
    /// Encoded bytes.
    Inline(&'a [u8]),
    /// In the arena, pinned.
    Stored(View),
}

/// Why a call's arguments cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BadArgument {
    /// The caller sent nonsense.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A value does not lie where the call says.
    #[error("{0}")]
    Lost(String),
}

/// An actor to be built.
#[derive(Clone, Debug)]
pub struct Build {
    /// The actor.
    pub actor: ActorId,
    /// As its creator sent it.
    pub spec: Vec<u8>,
    /// What it asked for.
    pub options: ActorOptions,
    /// How often it was built before.
    pub incarnation: u32,
}

/// What a lease gave to this worker.
#[derive(Clone, Debug, Default)]
pub struct Assignment {
    /// GPUs by visible name.
    pub gpus: Vec<Box<str>>,
    /// By public name, in ten-thousandths.
    pub resources: Vec<(Box<str>, i64)>,
    /// The job's.
    pub surroundings: wire::Surroundings,
    /// Environment variables that it asked for, over those of the job.
    pub env: model::EnvVars,
    /// Counts assignments, so that a change is seen.
    pub serial: u64,
}

/// What a worker does next.
pub enum Work {
    /// Build the actor.
    Build(Box<Build>),
    /// Run a call.
    Call(IncomingCall),
    /// End; `true`: with exit handlers.
    Exit(bool),
}

impl IncomingCall {
    /// Arguments, encoded.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.body[self.payload.clone()]
    }

    /// Whether looking at its arguments may take as long as a network does.
    #[must_use]
    pub fn may_take_long(&self, runtime: &Runtime) -> bool {
        let deps = &self.body[self.payload.end..];
        !deps.is_empty()
            && wire::value::values_in(deps)
                .any(|value| matches!(value, frame::Value::Bulk(bulk) if runtime.may_take_long(bulk)))
    }

    /// The dependencies' values, in the order of the payload's placeholders.
    ///
    /// # Errors
    /// If the caller sent nonsense, or a failure instead of a value; or if a value is lost.
    pub fn args<'a>(&'a self, runtime: &Runtime) -> Result<Vec<CallArg<'a>>, BadArgument> {
        let mut reader = Reader::new(&self.body[self.payload.end..]);
        let mut args = Vec::new();
        while !reader.rest().is_empty() {
            if let Some(bytes) = frame::Value::read_inline(&mut reader)? {
                args.push(CallArg::Inline(bytes));
                continue;
            }
            args.push(match frame::Value::read(&mut reader)? {
                frame::Value::Inline(bytes) => CallArg::Inline(bytes),
                frame::Value::Bulk(bulk) => CallArg::Stored(
                    runtime.look_at_argument(bulk).map_err(|error| BadArgument::Lost(error.to_string()))?,
                ),
                // It was lost or freed between the decision to send the call and the sending.
                frame::Value::Failed(_) => return Err(BadArgument::Lost("it is not there any more".into())),
                frame::Value::Raised { .. } | frame::Value::Away { .. } => return Err(Malformed("argument").into()),
            });
        }
        Ok(args)
    }
}

/// What an event loop of this process waits for.
#[derive(Debug, Default)]
pub struct EventLoop {
    /// The group of methods whose calls it runs.
    pub group: u16,
    /// Under which number it watches objects; zero: none.
    pub watch: AtomicU64,
    /// Whether it takes calls now.
    pub takes: AtomicBool,
    nudged: AtomicBool,
    /// Of what readers of generators said: how much it has seen.
    readers_heard: AtomicU64,
}

impl EventLoop {
    /// One that takes nothing yet.
    #[must_use]
    pub fn new(group: u16) -> Self {
        Self { group, ..Self::default() }
    }

    /// The loop looks now: whoever nudged it before is heard.
    pub fn take_nudge(&self, runtime: &Runtime) {
        self.nudged.store(false, Ordering::SeqCst);
        self.readers_heard.store(runtime.readers_said.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

/// A call on an actor may overtake the order to build it: the two come by different ways.
fn is_next_runnable(state: &State, group: u16) -> bool {
    state.serving.front(group).is_some_and(|incoming| incoming.template.method.is_empty() || state.is_actor)
}

impl Runtime {
    /// tour(task) 6: the worker takes the next call, of this group of its actor's methods, that nobody took back.
    ///
    /// Without `takes` it takes no call, and still hears of the end.
    pub fn try_next_work(&self, group: u16, takes: bool) -> Option<Work> {
        let mut state = self.state.lock().expect("never poisoned");
        self.drain(&mut state);
        self.pop_work(&mut state, group, takes)
    }

    fn pop_work(&self, state: &mut State, group: u16, takes: bool) -> Option<Work> {
        if let Some(build) = state.build.take() {
            return Some(Work::Build(Box::new(build)));
        }
        if let Some(gracefully) = state.exit {
            return Some(Work::Exit(gracefully));
        }
        while takes && is_next_runnable(state, group) {
            let Some(incoming) = state.serving.pop(group) else { break };
            if !incoming.is_claimed {
                let Some((_, link)) = state.links.to(incoming.peer) else { continue };
                if !link.start(incoming.claim) {
                    state.recycle(incoming.body);
                    continue;
                }
            }
            Stage::Wake.add(incoming.arrived);
            state.serving.start(&incoming);
            state.last_caller = Some(incoming.peer);
            let handle = CallHandle { peer: incoming.peer, request: incoming.request, task: incoming.task };
            return Some(Work::Call(IncomingCall {
                handle,
                template: incoming.template,
                payload: incoming.payload,
                body: incoming.body,
            }));
        }
        None
    }

    /// Waits for something to do; for a call only while it `takes` any. `None`: interrupted, or the deadline passed. Must not be called with
    /// the interpreter's lock held.
    pub fn next_work(&self, group: u16, takes: &dyn Fn() -> bool, interrupts: &mut dyn Interrupts) -> Option<Work> {
        loop {
            if let Some(work) = self.try_next_work(group, takes()) {
                return Some(work);
            }
            if self.is_closed() {
                return Some(Work::Exit(false));
            }
            // Whether it takes calls may change until it sleeps, and nobody would wake it for one (SEAT-1).
            let took = takes();
            let serves = Some(if took { Wants::Call(group) } else { Wants::Nothing });
            let is_done = || self.has_work(group, takes()) || takes() != took;
            match self.wait_until(&Wait { serves, ..Wait::default() }, interrupts, is_done) {
                Ok(Waited::Done) => {}
                Ok(Waited::TimedOut) | Err(_) => return self.try_next_work(group, takes()),
            }
        }
    }

    /// For an event loop: waits until there may be something to do, an object it watches is ready, or somebody nudges it.
    ///
    /// # Errors
    /// If it was interrupted or the node is gone.
    pub fn wait_loop(
        &self,
        event_loop: &EventLoop,
        deadline_ns: Option<u64>,
        interrupts: &mut dyn Interrupts,
    ) -> Result<(), crate::Error> {
        let is_done = || self.is_loop_due(event_loop);
        let waited = self.wait_until(&Wait { deadline_ns, ..Wait::default() }, interrupts, is_done).map(drop);
        event_loop.take_nudge(self);
        waited
    }

    /// Whether the event loop has something to do.
    #[must_use]
    pub fn is_loop_due(&self, event_loop: &EventLoop) -> bool {
        let EventLoop { group, watch, takes, nudged, readers_heard } = event_loop;
        nudged.load(Ordering::SeqCst)
            || self.readers_said.load(Ordering::SeqCst) != readers_heard.load(Ordering::SeqCst)
            || self.has_interrupts()
            || self.has_ready(watch.load(Ordering::Relaxed))
            || (takes.load(Ordering::Relaxed) && self.has_work(*group, true))
    }

    /// The reader of a generator that runs here has said something, or is dead.
    pub(crate) fn note_reader(&self) {
        self.readers_said.fetch_add(1, Ordering::SeqCst);
    }

    /// Threads that wait for work look again whether they take calls now.
    pub fn tell_servers(&self) {
        self.tell_all();
    }

    /// Makes an event loop that waits here look.
    pub fn nudge(&self, event_loop: &EventLoop) {
        event_loop.nudged.store(true, Ordering::SeqCst);
        self.tell_all();
    }

    /// Whether somebody asked for an interrupt of anything that runs here.
    #[must_use]
    #[inline]
    pub fn has_interrupts(&self) -> bool {
        self.fresh_interrupts.load(Ordering::Relaxed)
    }

    /// Says that interrupts were looked at.
    pub fn take_interrupts(&self) {
        self.fresh_interrupts.store(false, Ordering::SeqCst);
    }

    /// Whether there is something to do.
    #[must_use]
    pub fn has_work(&self, group: u16, takes: bool) -> bool {
        let state = self.state.lock().expect("never poisoned");
        (takes && is_next_runnable(&state, group)) || state.build.is_some() || state.exit.is_some()
    }

    /// These references came with a call that is about to run: whoever called holds them until `reply`.
    pub fn came_with(&self, slots: &[Slot]) {
        if !slots.is_empty() {
            let mut state = self.state.lock().expect("never poisoned");
            slots.iter().for_each(|slot| state.party.owner.on_call_begins(*slot));
        }
    }

    pub(crate) fn ended(&self, state: &mut State, call: CallHandle) {
        if state.serving.end(&call) && self.actor_ahead_max.load(Ordering::Relaxed) > 0 {
            // What it had ahead counts no more against the others.
            state.news.note();
            self.note_reader();
        }
        if !state.is_actor {
            self.segment.proc(self.me.slot()).set_needed(state.party.owner.may_own_something());
        }
    }

    /// Somebody wants a task interrupted.
    pub(crate) fn on_interrupt(&self, state: &mut State, task: TaskId, recursive: bool) {
        self.drain(state);
        // One that has come but not started was not taken back: it has no claim word, and ends when its turn comes.
        if !state.serving.has(task) {
            return;
        }
        for child in state.serving.interrupt(task, recursive) {
            state.party.owner.on_cancel_task(child, false, true, &mut state.party.effects);
        }
        self.interrupts.store(true, Ordering::SeqCst);
        self.fresh_interrupts.store(true, Ordering::SeqCst);
        // A generator that waits for its reader must look.
        if state.serving.has_generators() {
            state.news.note();
        }
        if !state.is_actor {
            // Wakes the main thread out of whatever it waits for; its handler asks whether the task it runs is meant.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
            self.pump.jolt();
        }
    }

    /// Says what this process runs, for logs and status.
    pub fn set_label(&self, label: &str) {
        self.segment.proc(self.me.slot()).set_label(label);
    }

    /// Says whether this worker runs a task, and whether that is run again if the worker dies.
    #[inline]
    pub fn set_duty(&self, duty: net::Duty) {
        self.segment.proc(self.me.slot()).set_duty(duty);
    }

    /// Whether this running task was cancelled.
    #[must_use]
    pub fn is_interrupted(&self, task: &TaskId) -> bool {
        self.interrupts.load(Ordering::Relaxed)
            && self.state.lock().expect("never poisoned").serving.is_interrupted(task)
    }

    /// As `set_label`.
    #[must_use]
    pub fn label(&self) -> String {
        self.segment.proc(self.me.slot()).label()
    }

    /// Counts the leases that the node gave to this worker, so that a change is seen without a lock.
    #[must_use]
    #[inline]
    pub fn assignments(&self) -> u64 {
        self.segment.proc(self.me.slot()).assignments.load(Ordering::Acquire)
    }

    /// Waits until what the node gave with that lease is known here. Must not be called with the interpreter's lock held.
    #[cold]
    pub fn await_assignment(&self, count: u64) {
        while self.assignments.load(Ordering::Acquire) < count && !self.is_closed() {
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
    }

    /// What the lease in force gave to this worker.
    #[must_use]
    pub fn assignment(&self) -> Assignment {
        self.state.lock().expect("never poisoned").assigned.clone().unwrap_or_default()
    }

    /// The actor was built, and shows itself like this; or it was not: the error as a value.
    pub fn built(&self, actor: ActorId, result: Result<Box<str>, Vec<u8>>) {
        match result {
            Ok(shown_as) => self.send(&ToNode::ActorBuilt { actor, shown_as }),
            Err(error) => {
                // There is no actor here: calls that came early stay unstarted, and fail with the actor.
                self.state.lock().expect("never poisoned").is_actor = false;
                self.send(&ToNode::ActorBuildFailed { actor, error });
            }
        }
    }

    /// This worker is about to end on its own will.
    pub fn leaving(&self) {
        self.send(&ToNode::Leaving);
    }

    /// This worker takes no more calls: every thread that asks for work is told to end, with exit handlers.
    pub fn stop_serving(&self) {
        self.with_state(|state| {
            state.exit = Some(state.exit.unwrap_or(true));
            state.news.note_for_all();
        });
    }

    /// This worker has served as many calls as it may: what has not started is given back, and once nobody needs a value of its
    /// `next_work` says that it shall end.
    pub fn retire(&self) {
        self.send(&ToNode::Retiring);
        self.stand_aside();
        self.with_state(|state| {
            state.has_served_all = true;
            self.exit_if_retired(state);
        });
        self.pump.kick();
    }

    /// Whether no call is under way here.
    #[must_use]
    pub fn runs_nothing(&self) -> bool {
        self.state.lock().expect("never poisoned").serving.runs_nothing()
    }

    /// The ids and owners of objects.
    #[must_use]
    pub fn identities(&self, slots: &[Slot]) -> Vec<(ObjectId, ProcId)> {
        let state = self.state.lock().expect("never poisoned");
        let of =
            |slot: &Slot| state.party.owner.object(*slot).map(|object| (object.id, object.owner.unwrap_or(self.me)));
        slots.iter().filter_map(of).collect()
    }

    /// The id and owner of an object.
    #[must_use]
    pub fn identity(&self, slot: Slot) -> Option<(ObjectId, ProcId)> {
        let state = self.state.lock().expect("never poisoned");
        let object = state.party.owner.object(slot)?;
        Some((object.id, object.owner.unwrap_or(self.me)))
    }
}
