//! The simulated body of a party: what the real one has in shared memory lies in tables here, and what it sends may be delayed.
//!
//! A ring may be full when a reply is to go there. A process may die between its promise of a gift and the gift (`dies_giving`).

use std::collections::BTreeSet;

use model::{Bulk, FileId, Filed, ObjectId, Place, ProcId, Tick, WorkerExit};
use owner::{Slot, Value};
use party::{Body, NoPin, Party, Progress};
use wire::control::ToNode;
use wire::frame::Header;
use wire::journal::{Record, Ref};
use wire::peer::Peer;

use crate::abroad::pid_of;
use crate::env::{Claim, Env};
use crate::journal::Journal;
use crate::large::Content;
use crate::network::{Item, Pid};
use crate::oracle::Task;
use crate::process::{Frame, FromNode, Process, Role};

/// There is no room in a ring.
#[derive(Debug)]
pub(crate) struct Full;

/// What a party works with.
pub(crate) struct Hands<'a> {
    pid: Pid,
    env: &'a mut Env,
    role: &'a mut Role,
    journal: &'a mut Journal,
    buried: &'a mut BTreeSet<ProcId>,
    /// The task that is being answered, as it was first submitted. There may be no room for that.
    first: Option<Task>,
    /// The process ends when it has said what it is about to give.
    dies_giving: bool,
}

impl Process {
    /// The party, and what it works with.
    pub(crate) fn parts<'a>(&'a mut self, env: &'a mut Env) -> (&'a mut Party<()>, Hands<'a>) {
        let Self { pid, party, role, journal, buried, .. } = self;
        (party, Hands { pid: *pid, env, role, journal, buried, first: None, dies_giving: false })
    }
}

/// Into the ring to this process, or to the carrier.
pub(crate) fn send_frame(env: &mut Env, from: Pid, to: ProcId, frame: Frame) {
    if pid_of(to).0 == from.0 {
        env.frame(from, pid_of(to), frame);
    } else {
        env.frame_outward(from, to, frame);
    }
}

impl Hands<'_> {
    /// It answers this task.
    pub(crate) fn answering(self, first: Task) -> Self {
        Self { first: Some(first), ..self }
    }

    /// It dies before it gives anything.
    pub(crate) fn dying(self) -> Self {
        Self { dies_giving: true, ..self }
    }

    fn frame(&mut self, to: ProcId, header: Header, bytes: &[u8]) {
        if !self.dies_giving && !self.buried.contains(&to) {
            let header = Header { length: bytes.len() as u32, ..header };
            let frame = Frame::Written { header, body: bytes.to_vec(), first: self.first };
            send_frame(self.env, self.pid, to, frame);
        }
    }

    fn find_room(&mut self) -> Result<(), Full> {
        let env = &mut *self.env;
        let full = env.settings.full;
        if self.first.is_some() && full > 0 && env.has_faults() && env.rng.chance(full) {
            env.counts.full += 1;
            return Err(Full);
        }
        Ok(())
    }

    fn note(&mut self, refs: Vec<Ref>) -> Vec<Ref> {
        refs.iter().for_each(|(id, _)| self.env.oracle.handled(self.pid, *id));
        refs
    }
}

impl Body for Hands<'_> {
    /// Who keeps what is known to the memory.
    type Pin = ();
    type NoRoom = Full;

    fn now(&self) -> Tick {
        self.env.now
    }

    fn tell_node(&mut self, message: ToNode) {
        match message {
            // Each letter takes its own time.
            ToNode::RelayAll(messages) => {
                messages.into_iter().for_each(|(to, message)| self.tell_node(ToNode::Relay { to, message }));
            }
            message => self.env.tell_node(self.pid, message),
        }
    }

    fn pin(&mut self, place: Place) -> Result<(), NoPin> {
        match self.env.memories[self.pid.0].pin(self.pid.1, place) {
            Some(_) => Ok(()),
            None => {
                self.env.oracle.fail(format!("SIM-10, SIM-12: {:?} is to keep {place:?}, where nothing is", self.pid));
                Err(NoPin::Gone)
            }
        }
    }

    fn unpin(&mut self, place: Place, (): ()) {
        self.env.unpin(self.pid, place);
    }

    fn refs_at(&mut self, place: Place, (): &()) -> Vec<Ref> {
        let number = self.env.memories[self.pid.0].seen(self.pid.1, place).cloned();
        self.note(number.map_or_else(Vec::new, |number| number.refs))
    }

    fn refs_in(&mut self, bulk: Bulk) -> Vec<Ref> {
        let Some((number, pin)) = self.env.look_at(self.pid, bulk) else { return Vec::new() };
        pin.into_iter().for_each(|place| self.env.unpin(self.pid, place));
        self.note(number.refs)
    }

    fn names_travel(&self) -> bool {
        true
    }

    fn copy_of(&mut self, bulk: Bulk) -> Option<Vec<u8>> {
        let (number, pin) = self.env.look_at(self.pid, bulk)?;
        pin.into_iter().for_each(|place| self.env.unpin(self.pid, place));
        self.note(number.refs.clone());
        Some(number.to_bytes())
    }

    fn not_there(&mut self, wanted_by: ProcId, object: ObjectId, bulk: Bulk) {
        let message = Box::new(FromNode::Relay { sender: wanted_by, message: Peer::Missing { object, bulk } });
        self.env.queue.at_once(self.env.now, Item::FromNode { to: self.pid, message });
    }

    fn free(&mut self, place: Place) {
        if let Err(why) = self.env.memories[self.pid.0].free(self.pid.1, place) {
            self.env.oracle.fail(format!("SIM-10: {why}"));
        }
    }

    fn take_over(&mut self, filed: Filed) -> Result<Filed, Box<str>> {
        let memory = &mut self.env.memories[self.pid.0];
        let is_harmed = memory.is_harmed(Bulk::Filed(filed));
        if let Some(taken) = memory.take_over(self.pid.1, filed) {
            return Ok(taken);
        }
        if !is_harmed {
            self.env.oracle.fail(format!("SIM-10, SIM-12: {:?} is to have {filed:?}, which is gone", self.pid));
        }
        self.env.lost_on_its_way(filed.file);
        Err("".into())
    }

    fn remove_file(&mut self, file: FileId) {
        self.env.memories[self.pid.0].remove_file(file);
    }

    fn has_link(&self, to: ProcId) -> bool {
        !self.buried.contains(&to)
    }

    fn is_linked(&self, to: ProcId) -> bool {
        self.has_link(to)
    }

    fn write(&mut self, to: ProcId, header: Header, bytes: &[u8]) -> Result<(), Full> {
        self.find_room()?;
        self.frame(to, header, bytes);
        Ok(())
    }

    fn write_gift(
        &mut self,
        to: ProcId,
        header: Header,
        bytes: &[u8],
        promises: impl FnOnce() -> Vec<(ProcId, Peer)>,
    ) -> Result<(), Full> {
        self.find_room()?;
        self.tell_node(ToNode::RelayAll(promises()));
        self.env.counts.gifts_cut += u64::from(self.dies_giving);
        self.frame(to, header, bytes);
        Ok(())
    }

    fn unread(&mut self, dead: ProcId) -> Vec<(Header, Vec<u8>)> {
        let frames = if pid_of(dead).0 == self.pid.0 {
            self.env.take_unread(self.pid, pid_of(dead)).into_iter()
        } else {
            self.env.take_outward(self.pid, dead).into_iter()
        };
        let written = frames.filter_map(|frame| match frame {
            Frame::Written { header, body, .. } => Some((header, body)),
            Frame::Call(_) => None,
        });
        written.collect()
    }

    fn may_have_run(&self, _on: ProcId, ticket: u64) -> bool {
        ticket == owner::ADOPTED || self.env.has_started(ticket)
    }

    fn close_link(&mut self, dead: ProcId) {
        self.buried.insert(dead);
    }

    /// What they name is known only when they run, and nobody holds it until then.
    fn claim_calls(&mut self, of: ProcId) {
        let (Role::Worker(worker), env) = (&mut *self.role, &mut *self.env) else { return };
        worker.incoming.retain_mut(|call| {
            if call.caller == of && !call.is_claimed {
                call.is_claimed = env.claim(call.ticket, Claim::Started);
                let inside = call.args.iter().flat_map(|arg| match &arg.content {
                    Some(Content::Small(number)) => &number.refs[..],
                    Some(Content::Large(_)) | None => &[],
                });
                call.refs.iter().chain(inside).for_each(|(id, _)| env.oracle.unheld(*id));
                return call.is_claimed;
            }
            true
        });
    }

    fn drop_calls(&mut self, of: ProcId) {
        if let Role::Worker(worker) = &mut *self.role {
            worker.incoming.retain(|call| call.caller != of);
        }
    }

    fn serving(&self, caller: ProcId) -> Vec<u64> {
        match &*self.role {
            Role::Worker(worker) => {
                worker.calls().filter(|call| call.caller == caller).map(|call| call.key.0).collect()
            }
            Role::Driver(_) | Role::Keeper => Vec::new(),
        }
    }

    /// The worker sees to that when all else is done.
    fn reader_died(&mut self, _caller: ProcId, _exit: &WorkerExit) {}

    fn read_records(&mut self, of: ProcId) -> Option<Vec<(Record, Progress)>> {
        Some(self.env.journals.remove(&(self.pid.0, of)).unwrap_or_default().read())
    }

    fn keeps_records(&self) -> bool {
        !matches!(self.role, Role::Keeper)
    }

    fn write_record(&mut self, record: &Record, progress: Progress) -> Option<u32> {
        Some(self.journal.write(record.clone(), progress))
    }

    fn erase_record(&mut self, cell: u32) {
        self.journal.erase(cell);
    }

    fn note_record(&mut self, cell: u32, progress: Progress) {
        self.journal.note(cell, progress);
    }

    /// Everybody asks the owner here.
    fn show(&mut self, _slot: Slot, _value: Option<&Value>) {}
}
