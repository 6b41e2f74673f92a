//! Who is let in, and what is said to the others; bytes that no session says.

mod story;

use cluster::{
    Channel, Error, Hello, Hold, Limits, NodeLife, Refusal, SendError, Session, check, read_hello, refusal_of,
};
use model::Tick;
use seeded::{SplitMix64, below};
use story::{ALICE, BOB, Pair};
use wire::session::{HEAD_BYTES, Head, NoHello, Part, What};
use wire::{Malformed, PROTOCOL};

const A: Channel = Channel { from: 1, to: 7 };

fn first() -> Hello {
    Hello { from: ALICE, to: BOB, is_resumed: false, line: 1, received: 0, window: 1_000 }
}

fn bob() -> Session {
    Session::new(BOB, ALICE, Limits::default())
}

#[test]
fn a_hello_is_read_once_it_is_whole_and_what_comes_behind_it_is_left() {
    let bytes = [first().to_bytes(), b"more".into()].concat();
    assert!((0..bytes.len() - 4).all(|end| read_hello(&bytes[..end]) == Ok(None)));
    assert_eq!(read_hello(&bytes), Ok(Some((first(), bytes.len() - 4))));
}

#[test]
fn whoever_has_another_version_is_told_ours() {
    let mut bytes = first().to_bytes();
    bytes[HEAD_BYTES + 8] += 1;
    let no_hello = read_hello(&bytes).unwrap_err();
    assert_eq!(no_hello, NoHello::Version(PROTOCOL + 1));
    assert_eq!(refusal_of(no_hello), Some(Refusal::Version(PROTOCOL)));
}

#[test]
fn whoever_does_not_speak_this_is_not_answered() {
    let no_hello = read_hello(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap_err();
    assert_eq!(refusal_of(no_hello), None);
    let item = Head::plain(What::Item(Part::Whole), 0, 0).to_bytes();
    assert_eq!(read_hello(&item), Err(Malformed("hello").into()));
}

#[test]
fn a_hello_to_another_node_or_another_life_is_refused() {
    let other_node = Hello { to: NodeLife { node: 3, life: 22 }, ..first() };
    assert_eq!(check(&other_node, BOB), Err(Refusal::OtherNode(2)));
    let other_life = Hello { to: NodeLife { node: 2, life: 21 }, ..first() };
    assert_eq!(check(&other_life, BOB), Err(Refusal::OtherLife(22)));
    assert_eq!(bob().answer(Tick(0), &other_life), Err(Refusal::OtherLife(22)));
    let unknown = Hello { from: NodeLife { node: 1, life: 12 }, ..first() };
    assert_eq!(bob().answer(Tick(0), &unknown), Err(Refusal::Unknown));
}

#[test]
fn a_session_that_the_answering_side_has_forgotten_does_not_go_on() {
    let resumed = Hello { is_resumed: true, ..first() };
    assert_eq!(bob().answer(Tick(0), &resumed), Err(Refusal::Forgotten));
    let mut ended = bob();
    ended.end();
    assert_eq!(ended.answer(Tick(0), &first()), Err(Refusal::Ended));
}

/// The dialling side has lost what it knew, and counts from zero again: all that it sends would be taken for what has come before.
#[test]
fn session_1_a_session_that_the_dialling_side_has_forgotten_does_not_go_on() {
    let mut pair = Pair::met(Limits::default());
    pair.alice.send(A, b"x");
    pair.run();
    let received = pair.alice.session.counts().acknowledged;
    let afresh = Hello { line: 2, ..first() };
    assert_eq!(pair.bob.session.answer(pair.now, &afresh), Err(Refusal::Gap(received)));
}

#[test]
fn a_first_hello_whose_answer_was_lost_is_repeated() {
    let mut pair = Pair::new(Limits::default());
    pair.bob.send(A, b"x");
    let hello = pair.dial();
    pair.answer(&hello).unwrap();
    pair.bob.output(pair.now);
    pair.cut();
    pair.meet();
    assert_eq!(pair.alice.take_got(), [story::item(A, b"x")]);
}

#[test]
fn a_line_that_was_dialled_before_the_present_one_is_late() {
    let mut pair = Pair::new(Limits::default());
    let (one, two) = (pair.dial(), pair.dial());
    pair.answer(&two).unwrap();
    assert_eq!(pair.answer(&one), Err(Refusal::Late));
    assert_eq!(pair.answer(&two), Err(Refusal::Late));
    pair.run();
    assert_eq!(pair.alice.session.counts().lines, 1);
}

#[test]
fn what_is_asked_for_must_be_kept() {
    let mut pair = Pair::met(Limits::default());
    pair.bob.send(A, b"some bytes");
    pair.run();
    let kept = pair.bob.session.counts().acknowledged;
    for received in [0, kept - 1, kept + 1, u64::MAX] {
        let hello = Hello { received, is_resumed: true, line: 9, ..first() };
        assert_eq!(pair.bob.session.answer(pair.now, &hello), Err(Refusal::Gap(received)));
    }
    pair.bob.send(A, b"more bytes");
    pair.bob.output(pair.now);
    let inside = Hello { received: kept + 3, is_resumed: true, line: 9, ..first() };
    assert_eq!(pair.bob.session.answer(pair.now, &inside), Err(Refusal::Gap(kept + 3)), "between two envelopes only");
}

#[test]
fn a_refusal_reaches_the_dialling_side_and_says_whether_to_try_again() {
    for (refusal, is_retryable) in [(Refusal::Ended, false), (Refusal::Version(9), false), (Refusal::Unknown, true)] {
        let mut pair = Pair::new(Limits::default());
        pair.dial();
        let error = pair.alice.input(pair.now, &refusal.to_bytes()).unwrap_err();
        assert_eq!(error, Error::Refused(refusal));
        assert_eq!(error.is_retryable(), is_retryable);
        assert!(pair.alice.session.wake_at().is_none(), "the line is over");
    }
}

#[test]
fn an_answer_by_another_node_is_none() {
    let mut pair = Pair::new(Limits::default());
    pair.dial();
    let foreign = Hello { from: NodeLife { node: 3, life: 3 }, to: ALICE, ..first() };
    assert_eq!(pair.alice.input(pair.now, &foreign.to_bytes()), Err(Malformed("hello's names").into()));
    pair.dial();
    let mut later = Hello { from: BOB, to: ALICE, line: 2, ..first() }.to_bytes();
    later[HEAD_BYTES + 8] += 1;
    assert_eq!(pair.alice.input(pair.now, &later), Err(Error::Version(PROTOCOL + 1)));
}

/// What a peer that is wrong may send, each behind an orderly hello. `offset` is where its next envelope belongs.
#[test]
fn nonsense_ends_the_line_and_not_the_session() {
    let envelope = |what, length: u16, body: &[u8]| {
        [&Head { channel: A, ..Head::plain(what, 0, length) }.to_bytes()[..], body].concat()
    };
    let piece = |length: u32, body: &[u8]| [&length.to_le_bytes()[..], body].concat();
    let first = |length, body: &[u8]| envelope(What::Item(Part::First), 4 + body.len() as u16, &piece(length, body));
    let cases: [(&str, Vec<u8>); 12] = [
        ("an unknown kind", vec![0; 16]),
        ("a gap", Head::plain(What::Mark, 8, 8).to_bytes().into_iter().chain([0; 8]).collect()),
        ("an offset beyond all", Head::plain(What::Item(Part::Whole), u64::MAX, 0).to_bytes().into()),
        ("a further piece of nothing", envelope(What::Item(Part::More), 1, b"x")),
        ("a last piece of nothing", envelope(What::News(Part::Last), 1, b"x")),
        ("an item beyond the largest", first(u32::MAX, b"x")),
        ("a first piece that is all", first(1, b"x")),
        ("a first piece without its length", envelope(What::Item(Part::First), 2, b"xx")),
        ("credit that was not taken", envelope(What::Credit, 8, &[1, 0, 7, 0, 1, 0, 0, 0])),
        ("half of a credit", envelope(What::Credit, 4, &[1, 0, 7, 0])),
        ("a short mark", envelope(What::Mark, 4, &[0; 4])),
        ("word of what was never sent", Head::plain(What::Received, 999, 0).to_bytes().into()),
    ];
    for (name, bytes) in cases {
        let mut pair = Pair::met(Limits::default());
        let error = pair.bob.input(pair.now, &bytes);
        assert!(matches!(error, Err(Error::Malformed(_) | Error::Gap(0))), "{name}: {error:?}");
        assert!(!pair.bob.session.has_output(), "{name}: the line is over");
        assert_eq!(pair.bob.got, [], "{name}");
        pair.cut();
        pair.alice.send(A, b"x");
        pair.meet();
        assert_eq!(pair.bob.got.len(), 1, "{name}: the session goes on");
    }
}

/// Bytes of a busy session, some of them changed: the line may end, and nothing else happens.
#[test]
fn bytes_that_are_changed_at_random_end_the_line_at_most() {
    let limits = Limits { piece_bytes_max: 100, window_bytes: 400, ..Limits::default() };
    let mut ended = 0;
    for seed in 0..5_000 {
        let mut dice = SplitMix64::seeded(seed);
        let mut pair = Pair::met(limits);
        pair.alice.send(A, &[1; 250]);
        pair.alice.send(A, b"small");
        pair.bob.send(A, b"back");
        pair.bob_to_alice();
        pair.alice.session.announce(Some(1), 0, &[2; 150]).unwrap();
        pair.alice.session.sent();
        let mut bytes = pair.alice.output(pair.now);
        for _ in 0..=below(dice.bits(), 3) {
            let at = below(dice.bits(), bytes.len() as u64) as usize;
            bytes[at] = dice.bits() as u8;
        }
        let half = below(dice.bits(), bytes.len() as u64) as usize;
        let fed = pair.bob.input(pair.now, &bytes[..half]).and_then(|()| pair.bob.input(pair.now, &bytes[half..]));
        ended += u64::from(fed.is_err());
        pair.bob.output(pair.now);
    }
    assert!((1_000..5_000).contains(&ended), "{ended} of 5000");
}

#[test]
fn session_3_whoever_sends_more_than_was_granted_is_cut_off() {
    let limits = Limits { window_bytes: 300, ..Limits::default() };
    let mut pair = Pair::met(limits);
    let mut bytes = Vec::new();
    for number in 0..3 {
        let head = Head { channel: A, ..Head::plain(What::Item(Part::Whole), number * 116, 100) };
        bytes.extend_from_slice(&head.to_bytes());
        bytes.extend_from_slice(&[0; 100]);
    }
    let received = pair.bob.session.receive(pair.now, 1, &bytes, |_| Hold::Kept);
    assert_eq!(received, Err(Error::Overrun(A)));
}

#[test]
fn session_1_a_piece_that_does_not_fit_its_item_is_refused() {
    for (length, part, body) in
        [(10_u32, Part::More, 9_usize), (10, Part::Last, 8), (10, Part::Last, 10), (10, Part::More, 0)]
    {
        let mut pair = Pair::met(Limits::default());
        let mut bytes = Head::plain(What::Item(Part::First), 0, 5).to_bytes().to_vec();
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&Head::plain(What::Item(part), 21, body as u16).to_bytes());
        bytes.extend(std::iter::repeat_n(0, body));
        assert_eq!(pair.bob.input(pair.now, &bytes), Err(Malformed("piece").into()), "{part:?} with {body} bytes");
    }
}

#[test]
#[should_panic(expected = "SESSION-3: only what was held is taken")]
fn session_3_what_was_not_held_cannot_be_taken() {
    let mut session = bob();
    assert_eq!(session.send(A, 0, b"x"), Ok::<(), SendError>(()));
    session.taken(A, 1);
}
