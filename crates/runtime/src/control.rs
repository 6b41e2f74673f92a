//! The thread that listens to the node, and everything that is said to the node.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use model::{ActorId, ProcId};
use net::unix::{self, Inbox};
use owner::ActorNews;
use rustc_hash::FxHashMap;
use rustix::io::Errno;
use wire::control::{ActorPlace, ActorRegistration, Answer, FromNode, Question, ToNode};
use wire::peer::Peer;

use crate::errands::Errand;
use crate::execute::{Assignment, Build};
use crate::logs::LogEvent;
use crate::state::State;
use crate::{Error, Runtime};
use party::Party;

#[derive(Default)]
pub(crate) struct Answers {
    next: AtomicU64,
    table: Mutex<FxHashMap<u64, Option<Answer>>>,
    registrations: Mutex<FxHashMap<ActorId, Option<ActorRegistration>>>,
    arrived: Condvar,
}

impl Answers {
    /// For a question.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

impl Runtime {
    /// Says something to the node. If the node is gone, the control thread notices.
    pub(crate) fn send(&self, message: &ToNode) {
        let bytes = wire::encode(message);
        let _whole = self.sending.lock().expect("never poisoned");
        // Any other error: the control thread sees the end of the stream, and fails whatever waits.
        if let Err(Errno::BADF | Errno::NOTSOCK) = unix::send(&self.socket, &bytes, &[])
            && self.is_worker
        {
            // That thread sleeps in a read, which a close by the user's code does not end: nobody else would ever notice.
            eprintln!("eagleray: this worker's connection was closed by the code it ran (os.closerange?); it ends");
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }

    /// Asks the node and waits for the answer. Must not be called with the interpreter's lock held.
    ///
    /// # Errors
    /// If the node is gone or does not answer in time.
    pub fn ask(&self, question: Question, limit: Duration) -> Result<Answer, Error> {
        let deadline = net::clock::now_ns() + limit.as_nanos() as u64;
        self.ask_until(question, Some(deadline), &mut || true)
    }

    /// As `ask`, while `goes_on`, which is asked every now and then.
    pub(crate) fn ask_while(&self, question: Question, goes_on: &mut dyn FnMut() -> bool) -> Result<Answer, Error> {
        self.ask_until(question, None, goes_on)
    }

    fn ask_until(
        &self,
        question: Question,
        deadline: Option<u64>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Answer, Error> {
        let request = self.answers.number();
        self.answers.table.lock().expect("never poisoned").insert(request, None);
        self.send(&ToNode::Ask { request, question });
        let mut table = self.answers.table.lock().expect("never poisoned");
        loop {
            if let Some(Some(_)) = table.get(&request) {
                return Ok(table.remove(&request).flatten().expect("seen just now"));
            }
            let left_ns = deadline.map_or(u64::MAX, |deadline| deadline.saturating_sub(net::clock::now_ns()));
            if self.is_closed() || left_ns == 0 || !goes_on() {
                table.remove(&request);
                return Err(if self.is_closed() { Error::Closed } else { Error::TimedOut("the node did not answer") });
            }
            let left = Duration::from_nanos(left_ns).min(Duration::from_millis(100));
            table = self.answers.arrived.wait_timeout(table, left).expect("never poisoned").0;
        }
    }

    pub(crate) fn expect_registration(&self, actor: ActorId) {
        self.answers.registrations.lock().expect("never poisoned").insert(actor, None);
    }

    pub(crate) fn await_registration(&self, actor: ActorId) -> Result<ActorRegistration, Error> {
        let mut table = self.answers.registrations.lock().expect("never poisoned");
        loop {
            if let Some(Some(_)) = table.get(&actor) {
                return Ok(table.remove(&actor).flatten().expect("seen just now"));
            }
            if self.is_closed() {
                return Err(Error::Closed);
            }
            table = self.answers.arrived.wait_timeout(table, Duration::from_millis(100)).expect("never poisoned").0;
        }
    }

    pub(crate) fn run_control(self: &Arc<Self>, mut inbox: Inbox) {
        while let Ok(Some(message)) = inbox.receive(&self.socket) {
            let Ok(message) = wire::decode::<FromNode>(&message) else { break };
            if message == FromNode::Carrier {
                if let Some(event) = inbox.fds.pop() {
                    let _ = self.carrier.set(Arc::new(event));
                }
                continue;
            }
            self.on_message(message);
            if self.is_closed() {
                break;
            }
        }
        self.node_gone();
    }

    fn node_gone(&self) {
        if self.is_worker && !self.is_closed() {
            // A worker without its node has nobody to work for; its zygote would end it next.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        self.end_without_node();
        self.answers.arrived.notify_all();
        self.room_answered.notify_all();
        self.logs.wake();
        self.tell_all();
        self.pump.kick();
    }

    /// Nothing is heard of the node any more: what is under way fails, and only then is it said that this process is on its own. The other
    /// way round a thread that waits for a result would take it for a call that came too late.
    pub(crate) fn end_without_node(&self) {
        let mut state = self.state.lock().expect("never poisoned");
        let Party { owner, effects, .. } = &mut state.party;
        owner.on_node_gone(effects);
        self.apply(&mut state);
        drop(state);
        self.closed.store(true, Ordering::Release);
    }

    fn on_message(self: &Arc<Self>, message: FromNode) {
        match message {
            FromNode::Welcome(_) | FromNode::Refused(_) | FromNode::Carrier => {}
            FromNode::Granted { number, worker, pid, .. } => self.with_state(|state| {
                state.party.has_met(worker);
                self.note_pid(state, worker, pid);
                state.party.owner.on_lease_granted(net::clock::now(), number, worker, &mut state.party.effects);
            }),
            FromNode::LeaseRefused { number, why } => {
                self.with_state(|state| state.party.owner.on_lease_refused(number, &why, &mut state.party.effects))
            }
            FromNode::Group { group, is_there } => self.with_state(|state| self.on_group(state, group, is_there)),
            FromNode::Revoke { number } => self.with_state(|state| {
                state.party.owner.on_lease_revoked(net::clock::now(), number, &mut state.party.effects)
            }),
            FromNode::Linked { peer, rings } => self.with_state(|state| self.on_linked(state, peer, rings)),
            FromNode::MayUnlink { peer } => self.with_state(|state| self.on_may_unlink(state, peer)),
            FromNode::Keep { peer } => self.with_state(|state| self.on_keep(state, peer)),
            FromNode::Unlink { peer } => self.with_state(|state| self.on_unlink(state, peer)),
            FromNode::Assigned { gpus, resources, job, namespace, surroundings, env } => self.with_state(|state| {
                *self.job.lock().expect("never poisoned") = job;
                *self.namespace.lock().expect("never poisoned") = namespace;
                let serial = state.assigned.as_ref().map_or(0, |assigned| assigned.serial) + 1;
                state.assigned = Some(Assignment { gpus, resources, surroundings, env, serial });
                self.assignments.store(serial, Ordering::Release);
            }),
            FromNode::PeerDied { peer, exit, heir } => {
                self.with_state(|state| {
                    state.pids_there.remove(&peer);
                    self.on_peer_died(state, peer, &exit, heir);
                });
            }
            FromNode::Inherit { of, witnesses } => self.with_state(|state| self.on_inherit(state, of, witnesses)),
            FromNode::NodeTestified { of, node } => self.with_state(|state| state.party.on_node_testified(of, node)),
            FromNode::NodeSettled { of, node } => self.with_state(|state| state.party.on_node_settled(of, node)),
            FromNode::Testify { of, heir } => self.with_state(|state| {
                let (party, mut hands) = self.parts(state);
                party.testify_for_nothing(&mut hands, of, heir);
            }),
            FromNode::Settle { of } => self.with_state(|state| {
                self.drain_all(state);
                state.party.on_settle_abroad(of);
            }),
            FromNode::LastFrames { peer, frames } => {
                self.with_state(|state| self.on_last_frames(state, peer, frames));
            }
            FromNode::ActorAnswer { request, answer } => {
                let mut table = self.answers.registrations.lock().expect("never poisoned");
                if let Some(open) = table.get_mut(&request) {
                    *open = Some(answer);
                    self.answers.arrived.notify_all();
                }
            }
            FromNode::Actor { actor, state: place, incarnation } => self.with_state(|state| {
                let news = match place {
                    ActorPlace::Pending => ActorNews::Pending,
                    ActorPlace::Alive { worker, pid } => {
                        state.party.has_met(worker);
                        self.note_pid(state, worker, pid);
                        ActorNews::Alive(worker)
                    }
                    ActorPlace::Restarting => ActorNews::Restarting,
                    ActorPlace::Dead(death) => {
                        self.on_actor_dead(state, actor);
                        ActorNews::Dead(death)
                    }
                };
                state.party.owner.on_actor_news(actor, incarnation, news, &mut state.party.effects);
            }),
            FromNode::BuildActor { actor, spec, options, incarnation } => self.with_state(|state| {
                state.is_actor = true;
                state.build = Some(Build { actor, spec, options, incarnation });
                state.news.note_for_all();
            }),
            FromNode::Extent { granted, wanted } => self.on_extent(granted, wanted),
            FromNode::GiveBackRoom { round, bytes } => self.make_room(round, bytes),
            FromNode::TellHoldings { number, limit } => self.tell_holdings(number, limit),
            FromNode::CollectGarbage => self.run_errand(Errand::CollectGarbage { wait: std::time::Duration::ZERO }),
            FromNode::Relay { sender, message } => self.with_state(|state| self.on_peer(state, sender, message)),
            FromNode::Undeliverable { to, message } => {
                self.with_state(|state| {
                    let (party, mut hands) = self.parts(state);
                    party.on_undeliverable(&mut hands, to, message);
                });
            }
            FromNode::Answer { request, answer } => {
                // Here, where messages come in order: the next one may say that it is no more.
                if let Answer::GroupMade(made) = &answer
                    && made.is_there
                {
                    let mut state = self.state.lock().expect("never poisoned");
                    state.groups.on_made(made.group);
                }
                if matches!(answer, Answer::Fetched(_)) && self.on_fetched(request, &answer) {
                    return self.with_state(|_| ());
                }
                if let Some(open) = self.answers.table.lock().expect("never poisoned").get_mut(&request) {
                    *open = Some(answer);
                }
                self.answers.arrived.notify_all();
            }
            FromNode::Log(lines) => self.log(LogEvent::Lines(lines)),
            FromNode::LastWords => self.log(LogEvent::Mark),
            FromNode::Notice { kind, text } => self.log(LogEvent::Notice { kind, text }),
            FromNode::Retire => self.with_state(|state| {
                if !state.serving.runs_nothing() {
                    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
                }
                state.is_retired = true;
                self.exit_if_retired(state);
                self.pump.kick();
            }),
            FromNode::Exit { gracefully } => self.with_state(|state| {
                state.exit = Some(gracefully);
                state.news.note_for_all();
            }),
        }
    }

    /// A retired worker ends once no value and no task of its is left; what it borrows goes with it.
    pub(crate) fn exit_if_retired(&self, state: &mut State) {
        // Values that it gave away may hold it only while its process costs nobody anything; whoever got them has pinned them.
        let is_free = state.has_served_all && !state.party.owner.is_needed_by_others();
        if is_free || (state.is_retired && !state.party.has_given_places() && !state.party.owner.owns_something()) {
            state.exit = Some(true);
            state.news.note_for_all();
        }
    }

    /// Changes the state, applies the effects, and wakes whoever sleeps: it may wait for just this.
    pub(crate) fn with_state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock().expect("never poisoned");
        let result = change(&mut state);
        self.apply(&mut state);
        drop(state);
        if self.waiters.has_listener() {
            self.bell.wake();
        }
        result
    }

    /// Takes up all that has come in.
    fn drain_all(&self, state: &mut State) {
        for at in state.links.places() {
            self.drain_link(state, at);
        }
        self.apply(state);
    }

    fn on_peer(&self, state: &mut State, sender: ProcId, message: Peer) {
        if let Peer::Settle { .. } = message {
            self.drain_all(state);
        }
        state.party.has_met(sender);
        let (party, mut hands) = self.parts(state);
        match party.on_peer(&mut hands, sender, message) {
            Some(Peer::Missing { object, bulk }) => self.on_missing(state, sender, object, bulk),
            Some(Peer::Interrupt { task, recursive }) => self.on_interrupt(state, task, recursive),
            _ => {}
        }
        self.exit_if_retired(state);
    }

    /// What a dead process has left is ours now.
    fn on_inherit(&self, state: &mut State, of: ProcId, witnesses: Vec<ProcId>) {
        let (party, mut hands) = self.parts(state);
        let Some(inherited) = party.inherit(&mut hands, of) else { return };
        self.apply(state);
        let (party, mut hands) = self.parts(state);
        party.keep(&mut hands, inherited, witnesses);
    }
}
