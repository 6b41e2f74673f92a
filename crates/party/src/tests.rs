//! A step at a time: what is said, and when, where the simulator sees only what comes of it.

use model::{Bulk, FileId, FunctionId, JobId, Need, ObjectId, Place, ProcId, TaskId, Template, Tick, WorkerExit};
use owner::{Heirs, Slot, Value};
use std::sync::Arc;
use wire::control::ToNode;
use wire::frame::{self, GIFT, Header, REPLY};
use wire::journal::{Record, Ref};
use wire::peer::{Peer, Shares};
use wire::value;

use crate::{Body, Call, NoPin, Party, Progress, discard};

const ME: ProcId = ProcId::new(1, 1, 1);
const CALLER: ProcId = ProcId::new(1, 2, 1);
const OWNER: ProcId = ProcId::new(1, 3, 1);
const HEIR: ProcId = ProcId::new(1, 0, 1);

/// A body that writes down what it is told.
#[derive(Default)]
struct Script {
    said: Vec<ToNode>,
    written: Vec<(ProcId, Header, Vec<u8>)>,
    is_full: bool,
    unread: Vec<(Header, Vec<u8>)>,
    buried: Vec<ProcId>,
    freed: Vec<Place>,
    removed: Vec<FileId>,
    /// What lies in the arena, for who asks for a copy of it.
    copy: Option<Vec<u8>>,
    may_have_run: bool,
    not_there: Vec<ProcId>,
}

/// The ring is full.
#[derive(Debug, PartialEq, Eq)]
struct Full;

impl Body for Script {
    type Pin = ();
    type NoRoom = Full;

    fn now(&self) -> Tick {
        Tick(0)
    }

    fn tell_node(&mut self, message: ToNode) {
        self.said.push(message);
    }

    fn pin(&mut self, _: Place) -> Result<(), NoPin> {
        Err(NoPin::Full("as many as it may".into()))
    }

    fn unpin(&mut self, _: Place, (): ()) {}

    fn refs_at(&mut self, _: Place, (): &()) -> Vec<Ref> {
        Vec::new()
    }

    fn refs_in(&mut self, _: Bulk) -> Vec<Ref> {
        vec![(object(9), OWNER)]
    }

    fn names_travel(&self) -> bool {
        false
    }

    fn copy_of(&mut self, _: Bulk) -> Option<Vec<u8>> {
        self.copy.clone()
    }

    fn not_there(&mut self, wanted_by: ProcId, _: ObjectId, _: Bulk) {
        self.not_there.push(wanted_by);
    }

    fn free(&mut self, place: Place) {
        self.freed.push(place);
    }

    fn take_over(&mut self, _: model::Filed) -> Result<model::Filed, Box<str>> {
        Err("gone".into())
    }

    fn remove_file(&mut self, file: FileId) {
        self.removed.push(file);
    }

    fn has_link(&self, to: ProcId) -> bool {
        !self.buried.contains(&to)
    }

    fn is_linked(&self, to: ProcId) -> bool {
        self.has_link(to)
    }

    fn write(&mut self, to: ProcId, header: Header, bytes: &[u8]) -> Result<(), Full> {
        if self.is_full {
            return Err(Full);
        }
        self.written.push((to, header, bytes.to_vec()));
        Ok(())
    }

    fn write_gift(
        &mut self,
        to: ProcId,
        header: Header,
        bytes: &[u8],
        promises: impl FnOnce() -> Vec<(ProcId, Peer)>,
    ) -> Result<(), Full> {
        if !self.is_full {
            self.said.push(ToNode::RelayAll(promises()));
        }
        self.write(to, header, bytes)
    }

    fn unread(&mut self, _: ProcId) -> Vec<(Header, Vec<u8>)> {
        std::mem::take(&mut self.unread)
    }

    fn may_have_run(&self, _: ProcId, _: u64) -> bool {
        self.may_have_run
    }

    fn close_link(&mut self, dead: ProcId) {
        self.buried.push(dead);
    }

    fn claim_calls(&mut self, _: ProcId) {}

    fn drop_calls(&mut self, _: ProcId) {}

    fn serving(&self, _: ProcId) -> Vec<u64> {
        Vec::new()
    }

    fn reader_died(&mut self, _: ProcId, _: &WorkerExit) {}

    fn read_records(&mut self, _: ProcId) -> Option<Vec<(Record, Progress)>> {
        None
    }

    fn keeps_records(&self) -> bool {
        false
    }

    fn write_record(&mut self, _: &Record, _: Progress) -> Option<u32> {
        None
    }

    fn erase_record(&mut self, _: u32) {}

    fn note_record(&mut self, _: u32, _: Progress) {}

    fn show(&mut self, _: Slot, _: Option<&Value>) {}
}

impl Script {
    /// What was relayed to whom since this was last asked, one by one.
    fn relayed(&mut self) -> Vec<(ProcId, Peer)> {
        let said = std::mem::take(&mut self.said).into_iter();
        let relayed = said.flat_map(|message| match message {
            ToNode::Relay { to, message } => vec![(to, message)],
            ToNode::RelayAll(messages) => messages,
            _ => Vec::new(),
        });
        relayed.collect()
    }
}

fn object(number: u8) -> ObjectId {
    ObjectId::of(TaskId::root(JobId([1; 4]), [number; 16]), 1)
}

fn party() -> Party<()> {
    Party::new(ME, false, Heirs::default())
}

/// Applies the owner's effects, and says what is to be said then.
fn apply(party: &mut Party<()>, body: &mut Script) {
    while !party.effects.is_empty() {
        for effect in std::mem::take(&mut party.effects) {
            let _left = party.on_effect(body, effect);
        }
    }
    party.say(body);
}

/// A reply whose one value names these objects of `OWNER`'s.
fn naming(objects: &[ObjectId]) -> Vec<u8> {
    let mut bytes = vec![value::HAS_REFS];
    bytes.extend((objects.len() as u32).to_le_bytes());
    objects.iter().for_each(|object| value::write_ref(&mut bytes, object, OWNER));
    let mut body = 1_u32.to_le_bytes().to_vec();
    frame::Value::Inline(&bytes).write(&mut body);
    body
}

const CALL: Call = Call { caller: CALLER, request: 7 };

fn exit() -> WorkerExit {
    WorkerExit::Signal(9, model::Remains::default())
}

/// GIFT-1: what was promised for a frame that found no room would never be given.
#[test]
fn nothing_is_promised_before_the_frame_fits() {
    let (mut party, mut body) = (party(), Script { is_full: true, ..Script::default() });
    let unsent = party.reply(&mut body, CALL, naming(&[object(1)]), &[]).expect("the ring is full");
    // We hold it ourselves until then, and have said so.
    let shares = Shares { object: object(1), borrower: ME, count: 1 };
    assert_eq!(body.relayed(), [(OWNER, Peer::Borrowed(vec![shares]))]);
    assert_eq!(*unsent.why(), Full);

    body.is_full = false;
    assert!(party.reply_again(&mut body, unsent, false).is_none());
    let promise = Peer::Given { to: CALLER, number: 1, objects: vec![object(1)] };
    assert_eq!(body.relayed(), [(OWNER, promise)]);
    let [(to, header, _)] = &body.written[..] else { panic!("one frame") };
    assert_eq!((*to, header.kind, header.flags, header.request), (CALLER, REPLY, GIFT, 7));
    // What we held for it we give back.
    apply(&mut party, &mut body);
    let shares = Shares { object: object(1), borrower: ME, count: -1 };
    assert_eq!(body.relayed(), [(OWNER, Peer::Borrowed(vec![shares]))]);
}

/// The caller dies while its reply waits for room: its heir gets it, with shares counted for the heir.
#[test]
fn a_reply_that_waits_goes_to_the_heir() {
    let (mut party, mut body) = (party(), Script { is_full: true, ..Script::default() });
    let unsent = party.reply(&mut body, CALL, naming(&[object(1)]), &[]).expect("the ring is full");
    body.relayed();
    party.on_peer_died(&mut body, CALLER, &exit(), Some(HEIR));
    apply(&mut party, &mut body);
    // The heir hears that this call will be answered.
    let testified = body.relayed();
    let is_told = |(to, message): &(ProcId, Peer)| {
        *to == HEIR && matches!(message, Peer::Testimony(part) if part.serving == [7] && part.is_last)
    };
    assert!(testified.iter().any(is_told), "{testified:?}");

    assert!(party.reply_again(&mut body, unsent, false).is_none());
    assert!(body.written.is_empty());
    let relayed = body.relayed();
    let shares = Shares { object: object(1), borrower: HEIR, count: 1 };
    assert_eq!(relayed[0], (OWNER, Peer::Borrowed(vec![shares])));
    assert!(matches!(&relayed[1], (HEIR, Peer::Reply { caller: CALLER, request: 7, .. })), "{relayed:?}");
}

/// The caller leaves nothing and has not read that a reference is kept beyond its call: its owner hears of that from us.
#[test]
fn what_a_caller_without_an_heir_never_read_is_told_to_the_owners() {
    let (mut party, mut body) = (party(), Script::default());
    let mut reply = naming(&[object(1)]);
    value::write_ref(&mut reply, &object(2), OWNER);
    reply.extend(ME.to_u64().to_le_bytes());
    let header = Header { length: reply.len() as u32, kind: REPLY, flags: GIFT, claim: 0, request: 7 };
    body.unread = vec![(header, reply)];
    party.on_peer_died(&mut body, CALLER, &exit(), None);
    let shares = Shares { object: object(2), borrower: ME, count: 1 };
    assert_eq!(body.relayed(), [(OWNER, Peer::Borrowed(vec![shares]))]);
    assert_eq!(body.buried, [CALLER]);
    assert!(party.is_dead(CALLER) && party.heir_of(CALLER).is_none());
}

/// Without room for what a task returned the caller gets an error, and the room that its values had taken is free.
#[test]
fn values_for_which_there_is_no_room_give_way_to_an_error() {
    let (mut party, mut body) = (party(), Script { is_full: true, ..Script::default() });
    let place = Place { offset: 64, length: 1 << 20, serial: 1 };
    let mut bytes = 1_u32.to_le_bytes().to_vec();
    frame::Value::Bulk(Bulk::Stored(place)).write(&mut bytes);
    let unsent = party.reply(&mut body, CALL, bytes, &[]).expect("the ring is full");
    body.is_full = false;
    assert!(party.reply_again(&mut body, unsent, true).is_none());
    assert_eq!(body.freed, [place]);
    assert!(!party.has_given_places());
    let [(_, _, bytes)] = &body.written[..] else { panic!("one frame") };
    assert!(matches!(value::values_in(&bytes[4..]).next(), Some(frame::Value::Failed(_))));
}

/// What is thrown away takes no room, wherever it lies.
#[test]
fn values_that_nobody_gets_take_no_room() {
    let mut body = Script::default();
    let place = Place { offset: 0, length: 8, serial: 3 };
    let file = FileId { by: ME, number: 4, folder: 0 };
    let filed = model::Filed { file, offset: 0, length: 8, check: 0 };
    let mut bytes = Vec::new();
    [Bulk::Stored(place), Bulk::Filed(filed)].into_iter().for_each(|bulk| frame::Value::Bulk(bulk).write(&mut bytes));
    discard(&mut body, &bytes);
    assert_eq!((&body.freed[..], &body.removed[..]), (&[place][..], &[file][..]));
}

/// A task without arguments; the number tells one from another.
fn task(party: &mut Party<()>, number: u8) -> owner::Submitted {
    let template = Template {
        language: model::Language::PYTHON,
        function: FunctionId::NIL,
        name: "task".into(),
        method: "".into(),
        need: Need::default(),
        returns: 1,
        yields: model::Yields::Nothing,
        retries_max: 0,
        retry_exceptions: false,
        calls_max: 0,
        group: 0,
    };
    let spec = owner::Spec {
        id: TaskId::root(JobId([1; 4]), [number; 16]),
        template: Arc::new(template),
        target: owner::Target::Pool,
        payload: Vec::new(),
        deps: Default::default(),
        contains: Default::default(),
    };
    party.owner.on_submitted(Tick(0), spec, &mut party.effects)
}

/// The lease that was asked for is granted.
fn grant(party: &mut Party<()>, worker: ProcId) {
    let number = party.effects.iter().find_map(|effect| match effect {
        owner::Effect::RequestLease { number, .. } => Some(*number),
        _ => None,
    });
    party.effects.clear();
    party.owner.on_lease_granted(Tick(0), number.expect("it asks for a worker"), worker, &mut party.effects);
}

/// A value that cannot be kept where it is fails with the reason; what it names is counted all the same, and its room goes back.
#[test]
fn a_value_that_cannot_be_kept_fails_and_goes_back() {
    let (mut party, mut body) = (party(), Script::default());
    let submitted = task(&mut party, 1);
    grant(&mut party, CALLER);
    party.owner.on_pushed(submitted.key, 1);
    party.effects.clear();

    let place = Place { offset: 64, length: 1 << 20, serial: 1 };
    let mut bytes = 1_u32.to_le_bytes().to_vec();
    frame::Value::Bulk(Bulk::Stored(place)).write(&mut bytes);
    party
        .take_reply(&mut body, submitted.key, crate::Sent::now(CALLER, owner::Knew::Count(0)), 0, &bytes)
        .expect("a reply");
    assert_eq!(body.relayed(), [(CALLER, Peer::FreePlace(place))]);
    let value = party.owner.object(submitted.returns[0]).and_then(|object| object.value.clone());
    assert!(matches!(value, Some(Value::Failed(failure)) if matches!(*failure, model::Failure::StoreFull(_))));
    // It named an object of which a share was counted for us.
    assert!(party.owner.slot_of(&object(9)).is_some());
}

/// Of another node.
const ELSEWHERE: ProcId = ProcId::new(2, 4, 1);

/// Scenario: a giver dies between telling the owner and the taker, and the owner's question overtakes the news of that death. What the taker
/// had got by then is not all that will come.
#[test]
fn gift_1_who_has_not_heard_of_the_death_says_how_many_came_once_it_has() {
    let (mut party, mut body) = (party(), Script::default());
    party.on_gift_came(CALLER);
    party.on_peer(&mut body, ELSEWHERE, Peer::CountGifts { from: CALLER });
    assert_eq!(body.said, [ToNode::Met { name: CALLER }], "it must hear of that death, and does not know yet");
    party.on_gift_came(CALLER);
    party.on_peer_died(&mut body, CALLER, &exit(), None);
    assert_eq!(body.relayed(), [(ELSEWHERE, Peer::GiftsCounted { from: CALLER, count: 2 })]);
    party.on_peer(&mut body, OWNER, Peer::CountGifts { from: CALLER });
    assert_eq!(body.relayed(), [(OWNER, Peer::GiftsCounted { from: CALLER, count: 2 })]);
}

#[test]
fn what_goes_to_another_node_says_whom_it_names_and_knows_to_be_dead() {
    let (mut party, mut body) = (party(), Script::default());
    party.on_peer_died(&mut body, OWNER, &exit(), Some(HEIR));
    let values = naming(&[object(9)]).split_off(4);
    let header = Header { length: 0, kind: frame::ITEM, flags: 0, claim: 0, request: 1 };
    let cargo = crate::Cargo::of(&mut body, &values);
    for to in [CALLER, ELSEWHERE] {
        assert_eq!(party.write_values(&mut body, to, header, &values, &cargo), Ok(()));
    }
    let [(_, here, at_home), (_, there, abroad)] = &body.written[..] else { panic!("{:?}", body.written) };
    assert_eq!((here.flags & frame::KNEW, here.claim, at_home), (0, 1, &values), "all of a node count alike");
    assert_eq!(there.flags & frame::KNEW, frame::KNEW);
    assert_eq!(frame::split_list(there.flags, abroad), Ok((vec![OWNER], &values[..])));
}

#[test]
fn a_large_value_goes_to_another_node_as_a_copy() {
    let place = Place { offset: 64, length: 8, serial: 1 };
    let mut party = party();
    let mut body = Script { copy: Some(vec![0, 7]), ..Script::default() };
    let slot = party.owner.on_put(object(3), Value::bulk(Bulk::Stored(place)), &[]);
    party.owner.on_escape(slot);
    for asker in [ELSEWHERE, CALLER] {
        party.on_peer(&mut body, asker, Peer::Want { object: object(3) });
        let effects = std::mem::take(&mut party.effects);
        effects.into_iter().for_each(|effect| drop(party.on_effect(&mut body, effect)));
    }
    let contents = body.relayed().into_iter().filter_map(|(to, message)| match message {
        Peer::Have { content, .. } => Some((to, content)),
        _ => None,
    });
    let contents: Vec<_> = contents.collect();
    let expected = [
        (ELSEWHERE, wire::peer::Content::Inline(vec![0, 7])),
        (CALLER, wire::peer::Content::Bulk(Bulk::Stored(place))),
    ];
    assert_eq!(contents, expected);
    body.copy = None;
    party.on_peer(&mut body, ELSEWHERE, Peer::Want { object: object(3) });
    let effects = std::mem::take(&mut party.effects);
    effects.into_iter().for_each(|effect| drop(party.on_effect(&mut body, effect)));
    assert_eq!(body.not_there, [ELSEWHERE], "it is looked for as if the asker had not found it");
}

/// What is kept on another node for a process that died stays there only for who says that it has inherited it.
#[test]
fn what_was_kept_for_the_dead_is_claimed_where_it_lies() {
    let bulk = Bulk::Stored(Place { offset: 64, length: 8, serial: Place::serials_of(2) | 1 });
    let mut reply = Vec::new();
    frame::Value::Away { bulk, refs: &[] }.write(&mut reply);
    let reply = [&1_u32.to_le_bytes()[..], &reply].concat();
    for (is_to_the_dead, claims) in [(true, vec![ToNode::InheritAway(bulk)]), (false, vec![])] {
        let (mut party, mut body) = (party(), Script::default());
        let sent = crate::Sent { is_to_the_dead, ..crate::Sent::now(ELSEWHERE, owner::Knew::Dead(&[])) };
        let key = task(&mut party, 1).key;
        assert_eq!(party.take_reply(&mut body, key, sent, 0, &reply), Ok(()));
        assert_eq!(body.said, claims);
    }
}

/// A call to a process of another node that certainly has not started is not lost with that process.
#[test]
fn claim_2_a_call_that_did_not_reach_a_dead_process_of_another_node_costs_no_retry() {
    let (mut party, mut body) = (party(), Script { may_have_run: true, ..Script::default() });
    let keys = [1, 2].map(|number| task(&mut party, number).key);
    grant(&mut party, ELSEWHERE);
    (1..).zip(keys).for_each(|(ticket, key)| party.owner.on_pushed(key, ticket));
    let sent = crate::Sent::now(ELSEWHERE, owner::Knew::Dead(&[]));
    assert_eq!(party.take_reply(&mut body, keys[1], sent, frame::UNSTARTED, &[]), Ok(()));
    party.on_peer_died(&mut body, ELSEWHERE, &exit(), None);
    let stages = keys.map(|key| party.owner.task(key).map(|task| task.stage));
    assert_eq!(stages, [None, Some(owner::Stage::Queued)], "the first may have run, and has no retry");
}
