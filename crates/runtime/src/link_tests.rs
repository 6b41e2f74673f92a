//! What users of a link may ask it.

use std::sync::Arc;

use model::{FunctionId, JobId, Need, ProcId, TaskId, TaskKey, Template};
use net::Segment;
use wire::Reader;
use wire::control::Rings;
use wire::frame::{self, CALL, Header, REPLY};

use super::{Fate, Link, Outgoing, TEMPLATES_MAX, TakeBack, Turn, WriteError};

fn template(name: String) -> Arc<Template> {
    Arc::new(Template {
        language: model::Language::PYTHON,
        function: FunctionId::NIL,
        name: name.into(),
        method: "".into(),
        need: Need::default(),
        returns: 1,
        yields: model::Yields::Nothing,
        retries_max: 0,
        retry_exceptions: false,
        calls_max: 0,
        group: 0,
    })
}

/// Both sides kept one template per call of a program that names its calls, for as long as the two were linked.
#[test]
fn templates_without_end_take_room_for_a_bounded_number() {
    let Pair { mut ours, mut theirs, store, .. } = pair();
    let often = template("often".into());
    let mut body = Vec::new();
    for call in 0..3 * TEMPLATES_MAX {
        let once = template(format!("call {call}"));
        for template in [&once, &often] {
            let number = ours.number_of(&store, template).ok().expect("there is room");
            while let Some(header) = {
                body.clear();
                theirs.receive(&store, &mut body).unwrap()
            } {
                let mut reader = Reader::new(&body[..header.length as usize]);
                let number = reader.u32().unwrap();
                theirs.define(number, wire::decode(reader.rest()).unwrap()).unwrap();
            }
            assert_eq!(theirs.theirs[number as usize], *template);
        }
        assert!(ours.kept.len() <= TEMPLATES_MAX && ours.numbers.len() <= TEMPLATES_MAX);
        assert!(theirs.theirs.len() <= TEMPLATES_MAX);
    }
}

/// Two ends of one link, and the arena between them.
struct Pair {
    ours: Link,
    theirs: Link,
    store: store::Client,
    _host: store::Host,
}

fn pair() -> Pair {
    let segment = Arc::new(Segment::create().unwrap());
    let host = store::Host::create(1 << 20, 4).unwrap();
    let copy = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().unwrap();
    let store = store::Client::attach(copy(host.data_fd()), copy(host.table_fd()), 1).unwrap();
    let peer = |slot| ProcId::new(1, slot, 1);
    let bell = |slot| net::Bell::new(Arc::clone(&segment), slot);
    let ours = Link::new(&segment, bell(1), peer(1), Rings { out: 0, out_bit: 0, inward: 1, in_bit: 0 });
    let theirs = Link::new(&segment, bell(0), peer(0), Rings { out: 1, out_bit: 0, inward: 0, in_bit: 0 });
    Pair { ours, theirs, store, _host: host }
}

impl Pair {
    fn call(&mut self, key: u64, may_go_unclaimed: bool) -> Result<u64, WriteError> {
        let template = template("called".into());
        let task = TaskId::root(JobId([1; 4]), [1; 16]).child(key);
        let call = Outgoing { key: TaskKey(key), task, template: &template, payload: &[7], may_go_unclaimed };
        self.ours.send_call(&self.store, &mut Vec::new(), &call, |_| ())
    }

    /// What the other end receives, templates left out.
    fn receive(&mut self) -> Option<(Header, Vec<u8>)> {
        loop {
            let mut body = Vec::new();
            let header = self.theirs.receive(&self.store, &mut body).unwrap()?;
            if header.kind != frame::DEFINE {
                body.truncate(header.length as usize);
                return Some((header, body));
            }
        }
    }

    fn receive_claim(&mut self) -> super::Claim {
        let (header, body) = self.receive().expect("a call was sent");
        assert_eq!(header.kind, CALL);
        Link::claim_of(&header, &frame::Call::read(&mut Reader::new(&body)).unwrap())
    }

    fn reply(&mut self, request: u64, body: &[u8]) -> Result<(), WriteError> {
        let header = Header { length: 0, kind: REPLY, flags: 0, claim: 0, request };
        self.theirs.write(&self.store, header, &[body])
    }
}

fn sent(result: Result<u64, WriteError>) -> u64 {
    result.ok().expect("there is room")
}

/// CLAIM-1, as users of a link see it.
#[test]
fn a_call_is_taken_back_or_started() {
    let mut pair = pair();
    let ticket = sent(pair.call(1, false));
    assert_eq!(pair.ours.fate(ticket), Fate::NotStarted);
    assert_eq!(pair.ours.take_back(ticket), TakeBack::Taken);
    let claim = pair.receive_claim();
    assert!(!pair.theirs.start(claim));

    let ticket = sent(pair.call(2, false));
    let claim = pair.receive_claim();
    assert!(pair.theirs.start(claim) && !pair.theirs.start(claim));
    assert_eq!(pair.ours.fate(ticket), Fate::Started);
    assert_eq!(pair.ours.take_back(ticket), TakeBack::Refused);
    assert!(pair.ours.is_in_use());
    pair.ours.on_answered(ticket);
    assert!(!pair.ours.is_in_use());
}

/// CLAIM-2: only what is known not to have started is run again for nothing.
#[test]
fn what_nobody_knows_counts_as_started() {
    let mut pair = pair();
    let words = (0..).map_while(|key| pair.call(key, false).ok()).count();
    assert_eq!(words, 256);
    // One that may go without a word goes, and cannot be taken back.
    let ticket = sent(pair.call(1_000, true));
    assert_eq!(pair.ours.fate(ticket), Fate::Unknown);
    assert_eq!(pair.ours.take_back(ticket), TakeBack::Refused);
    assert_eq!(pair.ours.fate(owner::ADOPTED), Fate::Unknown);
    assert_eq!(pair.ours.fate(0), Fate::NotStarted);
    let may_have_run = [Fate::Started, Fate::NotStarted, Fate::Unknown].map(Fate::may_have_run);
    assert_eq!(may_have_run, [true, false, true]);
    assert_eq!(Fate::without_link(owner::ADOPTED), Fate::Unknown);
    assert_eq!(Fate::without_link(0), Fate::NotStarted);
}

#[test]
fn calls_that_wait_go_in_order_and_none_overtakes_them() {
    let mut pair = pair();
    let [first, second] = [TaskKey(1), TaskKey(2)];
    assert_eq!(pair.ours.turn_of(first), Turn::Now);
    pair.ours.stall(first, Some(4096));
    assert_eq!(pair.ours.turn_of(second), Turn::Waits);
    // The first needs room in the arena: nothing is tried before that is there.
    assert_eq!(pair.ours.next_stalled(), None);
    assert!(!pair.ours.on_room(Some(8192)) && pair.ours.on_room(Some(4096)));
    assert_eq!(pair.ours.next_stalled(), Some(first));
    assert!(pair.ours.forget(first) && !pair.ours.forget(first));
    // LINK-2: what waits stays where it is until the link is reopened.
    pair.ours.hold();
    assert!(pair.ours.is_held() && pair.ours.next_stalled().is_none());
    assert!(pair.ours.reopen() && !pair.ours.reopen());
    assert_eq!(pair.ours.unstall(), Some(second));
    pair.ours.kill();
    assert_eq!(pair.ours.turn_of(first), Turn::Never);
}

#[test]
fn a_link_is_quiet_when_nothing_is_under_way_and_all_was_received() {
    let mut pair = pair();
    let at_first = pair.ours.quiet().expect("nothing has happened");
    assert_eq!((at_first.written, at_first.read), (0, 0));
    let ticket = sent(pair.call(1, false));
    assert!(pair.ours.quiet().is_none() && pair.theirs.quiet().is_none());
    let claim = pair.receive_claim();
    assert!(pair.theirs.start(claim));
    pair.reply(1, &[0; 4]).ok().expect("there is room");
    assert!(pair.ours.quiet().is_none());
    pair.ours.receive(&pair.store, &mut Vec::new()).unwrap().expect("the reply");
    pair.ours.on_answered(ticket);
    let (ours, theirs) = (pair.ours.quiet().expect("all is over"), pair.theirs.quiet().expect("all is over"));
    assert_eq!((ours.written, ours.read), (theirs.read, theirs.written));
}

/// What the peer never read is known to the end, in the order in which it was sent.
#[test]
fn what_the_dead_never_read_can_be_had_again() {
    let mut pair = pair();
    for request in [1, 2, 3] {
        pair.reply(request, &[request as u8; 100]).ok().expect("there is room");
    }
    pair.ours.receive(&pair.store, &mut Vec::new()).unwrap().expect("the first");
    let unread = pair.theirs.unread(&pair.store);
    assert_eq!(unread.iter().map(|(header, _)| header.request).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(unread[1].1, [3; 100]);
}
