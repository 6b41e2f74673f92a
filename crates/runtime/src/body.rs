//! The real body of a party: the node's socket, the arena and the files, the links, the calls that are served, the journal.

use model::{Bulk, FileId, Filed, ObjectId, Place, ProcId, Tick, WorkerExit};
use net::Readiness;
use owner::{Slot, Value};
use party::{Body, NoPin, Party, Progress};
use store::View;
use wire::control::ToNode;
use wire::frame::Header;
use wire::journal::{Record, Ref};
use wire::peer::Peer;

use crate::link::{Fate, Link, WriteError};
use crate::links::Links;
use crate::news::News;
use crate::records::Records;
use crate::serving::{ReaderEnd, Serving};
use crate::state::State;
use crate::{Runtime, value};

/// What a party works with.
pub(crate) struct Hands<'a> {
    runtime: &'a Runtime,
    links: &'a mut Links,
    serving: &'a mut Serving,
    news: &'a mut News,
    records: &'a mut Records,
}

impl Runtime {
    /// The party, and what it works with.
    #[inline]
    pub(crate) fn parts<'a>(&'a self, state: &'a mut State) -> (&'a mut Party<View>, Hands<'a>) {
        let State { party, links, serving, news, records, .. } = state;
        (party, Hands { runtime: self, links, serving, news, records })
    }
}

fn to_store(progress: Progress) -> store::Progress {
    store::Progress {
        worker: progress.worker.map_or(0, ProcId::to_u64),
        retries: progress.retries,
        oom_retries: progress.oom_retries,
    }
}

impl Body for Hands<'_> {
    type Pin = View;
    type NoRoom = WriteError;

    #[inline]
    fn now(&self) -> Tick {
        net::clock::now()
    }

    fn tell_node(&mut self, message: ToNode) {
        self.runtime.send(&message);
    }

    fn pin(&mut self, place: Place) -> Result<View, NoPin> {
        self.runtime.store.pin_to_keep(place).map_err(|error| match error {
            store::Error::PinsFull { .. } => NoPin::Full(error.to_string().into()),
            _ => NoPin::Gone,
        })
    }

    fn unpin(&mut self, _place: Place, pin: View) {
        drop(pin);
    }

    fn refs_at(&mut self, _place: Place, pin: &View) -> Vec<Ref> {
        value::refs_of(pin.as_slice())
    }

    fn refs_in(&mut self, bulk: Bulk) -> Vec<Ref> {
        self.runtime.refs_in(bulk)
    }

    fn names_travel(&self) -> bool {
        true
    }

    fn copy_of(&mut self, bulk: Bulk) -> Option<Vec<u8>> {
        self.runtime.copy_of(bulk)
    }

    fn not_there(&mut self, wanted_by: ProcId, object: ObjectId, bulk: Bulk) {
        self.runtime.look_for_asker(wanted_by, object, bulk);
    }

    fn free(&mut self, place: Place) {
        crate::effects::free(&self.runtime.store, place);
        self.runtime.came_free();
    }

    fn take_over(&mut self, filed: Filed) -> Result<Filed, Box<str>> {
        self.runtime.files.take_over(filed).map_err(|error| error.to_string().into())
    }

    fn remove_file(&mut self, file: FileId) {
        self.runtime.files.remove(file);
    }

    fn has_link(&self, to: ProcId) -> bool {
        self.links.get(to).is_some()
    }

    fn is_linked(&self, to: ProcId) -> bool {
        self.links.get(to).is_some_and(|link| !link.is_dead())
    }

    #[inline]
    fn write(&mut self, to: ProcId, header: Header, bytes: &[u8]) -> Result<(), WriteError> {
        let Some((at, link)) = self.links.to(to) else { return Ok(()) };
        let written = link.write(&self.runtime.store, header, &[bytes]);
        self.links.note_unrung(at);
        written
    }

    fn write_gift(
        &mut self,
        to: ProcId,
        header: Header,
        bytes: &[u8],
        promises: impl FnOnce() -> Vec<(ProcId, Peer)>,
    ) -> Result<(), WriteError> {
        let Some((at, link)) = self.links.to(to) else { return Ok(()) };
        let promise = || self.runtime.send(&ToNode::RelayAll(promises()));
        let written = link.write_after(&self.runtime.store, header, &[bytes], promise);
        self.links.note_unrung(at);
        written
    }

    fn unread(&mut self, dead: ProcId) -> Vec<(Header, Vec<u8>)> {
        self.links.get(dead).map_or_else(Vec::new, |link| link.unread(&self.runtime.store))
    }

    fn may_have_run(&self, on: ProcId, ticket: u64) -> bool {
        // It may have had a lease or an actor of ours, and no link since all was quiet.
        let fate = self.links.get(on).map_or_else(|| Fate::without_link(ticket), |link| link.fate(ticket));
        fate.may_have_run()
    }

    fn close_link(&mut self, dead: ProcId) {
        self.links.take_waiting(dead);
        if let Some(mut link) = self.links.take(dead) {
            link.bury(&self.runtime.store);
            self.runtime.send(&ToNode::LinkClosed { peer: dead });
        }
    }

    fn claim_calls(&mut self, of: ProcId) {
        // Without a link nothing has come that was not claimed.
        if let Some(link) = self.links.get(of) {
            self.serving.claim(of, |claim| Link::start(link, claim));
        }
    }

    fn drop_calls(&mut self, of: ProcId) {
        self.serving.forget(of);
    }

    fn serving(&self, caller: ProcId) -> Vec<u64> {
        self.serving.requests_of(caller)
    }

    fn reader_died(&mut self, caller: ProcId, exit: &WorkerExit) {
        let end = if exit.is_own_will() { ReaderEnd::Left } else { ReaderEnd::Lost };
        if self.serving.reader_died(caller, end) {
            self.news.note();
            self.runtime.note_reader();
        }
    }

    fn read_records(&mut self, of: ProcId) -> Option<Vec<(Record, Progress)>> {
        self.records.read(of)
    }

    fn keeps_records(&self) -> bool {
        self.records.are_kept()
    }

    fn write_record(&mut self, record: &Record, progress: Progress) -> Option<u32> {
        self.records.write(&wire::encode(record), to_store(progress))
    }

    fn erase_record(&mut self, cell: u32) {
        self.records.erase(cell);
    }

    fn note_record(&mut self, cell: u32, progress: Progress) {
        self.records.note(cell, to_store(progress));
    }

    fn show(&mut self, slot: Slot, value: Option<&Value>) {
        self.runtime.note_away(value);
        self.runtime.cells.set(slot, readiness(value));
    }
}

/// How an object with this value looks to who waits for it.
pub(crate) fn readiness(value: Option<&Value>) -> Readiness {
    match value {
        None => Readiness::Pending,
        Some(Value::Failed(_)) => Readiness::Failed,
        Some(_) => Readiness::Value,
    }
}
