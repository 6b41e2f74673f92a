//! HOT: values that come from other nodes.

use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use depot::Failed;
use identity::Expected;
use model::{Bulk, ProcId};
use rustc_hash::FxHashMap;
use store::Draft;
use wire::abroad::{AboutValues, Between};
use wire::values::{Answer, Ask, Opening};

use super::growing::Growing;
use super::line::Line;
use super::{Order, Values, spawn};
use crate::abroad;

/// Values that come at the same time.
const PULLERS_MAX: usize = 4;
/// How long a thread that has pulled waits for the next value, with its lines open. Less than the other end's patience.
const LINGER: Duration = Duration::from_secs(4);
/// Attempts that brought nothing, one after the other.
const FAILURES_MAX: u32 = 6;
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// How long the node's own thread takes to say whether there is room.
const ROOM_WAIT: Duration = Duration::from_secs(5);
/// Who is asked to call has called by then.
const CALL_WAIT: Duration = Duration::from_secs(5);

/// Lines that one thread has, by node.
type Lines = FxHashMap<u32, Line>;

/// What an attempt came to.
enum Came {
    /// All of it has come; whose it is.
    Whole(Option<ProcId>),
    SentOn(u32, ProcId),
    Nothing,
}

impl Values {
    /// There is something to pull.
    pub(super) fn wake_puller(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.idle_pullers > 0 || state.pullers >= PULLERS_MAX || self.is_stopping() {
            return self.has_jobs.notify_one();
        }
        state.pullers += 1;
        drop(state);
        let values = self.clone();
        if spawn("eagleray-pull", move || values.pull_all()).is_err() {
            self.lock().pullers -= 1;
        }
    }

    fn pull_all(self: &Arc<Self>) {
        let mut lines = Lines::default();
        let mut state = self.lock();
        while !self.is_stopping() {
            if let Some((bulk, from)) = state.jobs.pop_front() {
                drop(state);
                let result = self.pull(&mut lines, bulk, from);
                self.lock().growing.remove(&bulk);
                self.with_depot(|depot, out| depot.pulled(net::clock::now(), bulk, result, out));
                state = self.lock();
                continue;
            }
            state.idle_pullers += 1;
            let (locked, waited) = self.wait_for_jobs(state, LINGER);
            state = locked;
            state.idle_pullers -= 1;
            if waited && state.jobs.is_empty() {
                break;
            }
        }
        state.pullers -= 1;
    }

    fn pull(self: &Arc<Self>, lines: &mut Lines, bulk: Bulk, from: u32) -> std::result::Result<(Bulk, ProcId), Failed> {
        let full = |error: store::Error| Failed::Full(error.to_string().into());
        let draft = self.draft(bulk.length()).map_err(full)?;
        let growing = Arc::new(Growing::new(draft, bulk.length()));
        self.lock().growing.insert(bulk, growing.clone());
        let come = self.pull_into(lines, bulk, from, &growing);
        let sealed = come.and_then(|of| Ok((growing.seal(|at| self.look(at)).map_err(full)?, of)));
        if sealed.is_err() {
            growing.break_off();
        }
        sealed
    }

    fn pull_into(
        self: &Arc<Self>,
        lines: &mut Lines,
        bulk: Bulk,
        from: u32,
        growing: &Growing,
    ) -> std::result::Result<ProcId, Failed> {
        let (mut source, mut may_be_sent_on, mut failures) = (from, from == bulk.node(), 0);
        let mut owner = ProcId::of_node(bulk.node());
        loop {
            let before = growing.filled();
            let why = match self.attempt(lines, source, bulk, growing, may_be_sent_on) {
                Ok(Came::Whole(of)) => return Ok(of.unwrap_or(owner)),
                Ok(Came::SentOn(node, of)) => {
                    (source, may_be_sent_on, owner) = (node, false, of);
                    continue;
                }
                Ok(Came::Nothing) if source == from => return Err(Failed::Moved),
                Ok(Came::Nothing) => None,
                Err(error) => Some(error),
            };
            if source != from {
                // Whoever had it before is of no help: the one that has it for certain is.
                (source, may_be_sent_on) = (from, false);
                continue;
            }
            if !self.is_member(from) {
                return Err(Failed::NodeDead);
            }
            failures = if growing.filled() > before { 0 } else { failures + 1 };
            if failures >= FAILURES_MAX || self.is_stopping() {
                let why = why.map_or_else(String::new, |error| format!(": {error}"));
                return Err(Failed::Later(why.into()));
            }
            std::thread::sleep(AGAIN_AFTER * (1 << failures));
        }
    }

    /// Asks that node for what is missing. A line that was open before may have been closed meanwhile.
    fn attempt(
        self: &Arc<Self>,
        lines: &mut Lines,
        source: u32,
        bulk: Bulk,
        growing: &Growing,
        may_be_sent_on: bool,
    ) -> Result<Came> {
        if let Some(mut line) = lines.remove(&source) {
            let before = growing.filled();
            match ask_for(&mut line, bulk, growing, may_be_sent_on) {
                Ok(came) => {
                    lines.insert(source, line);
                    return Ok(came);
                }
                Err(error) if growing.filled() > before => return Err(error),
                Err(_) => {}
            }
        }
        let mut line = self.connect(source)?;
        let came = ask_for(&mut line, bulk, growing, may_be_sent_on)?;
        lines.insert(source, line);
        Ok(came)
    }

    /// Whether a value that lies on another node is there still.
    pub(super) fn probe(self: &Arc<Self>, bulk: Bulk) -> Result<bool> {
        let mut line = self.connect(bulk.node())?;
        line.send(&Ask { bulk, offset: 0, may_be_sent_on: false, is_probe: true })?;
        Ok(line.receive::<Answer>()? != Answer::Nothing)
    }

    fn connect(self: &Arc<Self>, node: u32) -> Result<Line> {
        let address = self.lock().nodes.get(&node).ok_or(ErrorKind::NotFound)?.1;
        if address.is_some() {
            let mut line = self.dial(node)?;
            line.send(&Opening::Asks)?;
            return Ok(line);
        }
        if !self.is_callable {
            return Err(Error::other("neither this machine nor that one takes calls"));
        }
        // It listens nowhere.
        let (give, take) = sync_channel(1);
        let ticket = {
            let mut state = self.lock();
            state.last_ticket += 1;
            let ticket = state.last_ticket;
            state.tickets.insert(ticket, give);
            ticket
        };
        self.say(node, AboutValues::CallMe { ticket });
        let line = take.recv_timeout(CALL_WAIT);
        self.lock().tickets.remove(&ticket);
        line.map_err(|_| ErrorKind::TimedOut.into())
    }

    pub(super) fn dial(&self, node: u32) -> Result<Line> {
        let (life, address) = self.lock().nodes.get(&node).copied().ok_or(ErrorKind::NotFound)?;
        let address = address.ok_or(ErrorKind::NotConnected)?;
        let (membership, accepts, clock) =
            (self.belonging.membership(), self.belonging.accepts(), self.belonging.clock.for_tls());
        let client = identity::for_values_dialler(&membership, Expected::Node(life), &accepts, &clock);
        let tls = client.and_then(|client| client.connect()).map_err(Error::other)?;
        Line::dial(address, tls)
    }

    /// Somebody who was asked to call has called.
    pub(super) fn came_for(&self, ticket: u64, line: Line) {
        let waiting = self.lock().tickets.remove(&ticket);
        if let Some(waiting) = waiting {
            let _ = waiting.try_send(line);
        }
    }

    /// Room for a value: in the arena, or in a file if there is none. So pulls never wait for each other.
    fn draft(&self, length: u64) -> std::result::Result<Draft, store::Error> {
        for _ in 0..2 {
            let need = match self.store.reserve(length) {
                Ok(block) => return Ok(Draft::Arena(block)),
                Err(need) => need.length,
            };
            let (give, take) = sync_channel(1);
            self.order(Order::Room { length: need, to: give });
            let Ok(Some((offset, length))) = take.recv_timeout(ROOM_WAIT) else { break };
            self.store.add_extent(store::Extent { offset, length })?;
        }
        self.files.reserve(length).map(Draft::File)
    }

    pub(super) fn say(&self, node: u32, about: AboutValues) {
        abroad::ask_by(&self.asks, &self.bell, abroad::Ask::Send(node, Between::Depot(about)));
    }
}

fn ask_for(line: &mut Line, bulk: Bulk, growing: &Growing, may_be_sent_on: bool) -> Result<Came> {
    // One that was sent on and cut is not asked for by the same way again.
    let offset = growing.filled() as u64;
    line.send(&Ask { bulk, offset, may_be_sent_on, is_probe: false })?;
    let of = match line.receive()? {
        Answer::Nothing => return Ok(Came::Nothing),
        Answer::SentOn { node, of } => return Ok(Came::SentOn(node, of)),
        Answer::Sending { of } => of,
    };
    while !growing.is_full() {
        line.read_some(|reader| growing.fill(|into| reader.read(into)))?;
    }
    Ok(Came::Whole(of))
}
