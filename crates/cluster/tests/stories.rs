//! What is promised of a session, rule by rule.

mod story;

use cluster::{Fate, Limits, Notice, Position, Returned, SendError};
use story::{Got, Pair, Reader, channel, item, news};

const A: cluster::Channel = cluster::Channel { from: 1, to: 7 };
const B: cluster::Channel = cluster::Channel { from: 2, to: 7 };

/// Small enough that a few hundred bytes meet every bound.
fn small() -> Limits {
    Limits {
        piece_bytes_max: 100,
        window_bytes: 300,
        queue_bytes_max: 500,
        queued_bytes_max: 2_000,
        news_bytes_max: 200,
        channels_max: 4,
        resend_bytes_max: 600,
        reserve_bytes: 64,
        ahead_bytes: 200,
        unacknowledged_bytes: 200,
        ..Limits::default()
    }
}

#[test]
fn items_arrive_in_order_with_their_channels_and_kinds() {
    let mut pair = Pair::met(Limits::default());
    pair.alice.session.send(A, 3, b"one").unwrap();
    pair.alice.session.send(B, 4, b"").unwrap();
    pair.alice.session.announce(None, 5, b"three").unwrap();
    pair.run();
    assert_eq!(
        pair.bob.take_got(),
        [Got::Item(A, 3, b"one".into()), Got::Item(B, 4, vec![]), Got::News(5, b"three".into())]
    );
    let counts = pair.alice.session.counts();
    assert_eq!((counts.kept, counts.queued, counts.channels), (0, 0, 0), "nothing is kept of what has arrived");
}

#[test]
fn what_was_taken_before_the_first_hello_goes_behind_it() {
    let mut pair = Pair::new(Limits::default());
    pair.alice.send(A, b"early");
    pair.bob.send(B, b"early too");
    assert!(!pair.alice.session.has_output());
    pair.meet();
    assert_eq!(pair.bob.take_got(), [item(A, b"early")]);
    assert_eq!(pair.alice.take_got(), [item(B, b"early too")]);
}

#[test]
fn envelopes_are_put_together_from_chunks_of_any_size() {
    let mut pair = Pair::met(small());
    pair.alice.send(A, &[7; 250]);
    pair.alice.send(B, b"small");
    let bytes = pair.alice.output(pair.now);
    for byte in bytes {
        pair.bob.input(pair.now, &[byte]).unwrap();
    }
    assert_eq!(pair.bob.take_got(), [item(B, b"small"), item(A, &[7; 250])]);
}

/// A busy session whose line is reset: it goes on by the next one, and nobody notices.
#[test]
fn session_1_a_cut_line_loses_and_repeats_nothing() {
    let mut pair = Pair::met(Limits::default());
    (0..10).for_each(|number| pair.alice.send(A, &[number]));
    let bytes = pair.alice.output(pair.now);
    pair.bob.input(pair.now, &bytes[..bytes.len() / 2 + 3]).unwrap();
    pair.cut();
    (10..20).for_each(|number| pair.alice.send(A, &[number]));
    pair.meet();
    let expected: Vec<_> = (0..20).map(|number| item(A, &[number])).collect();
    assert_eq!(pair.bob.take_got(), expected);
    assert!(pair.alice.session.counts().resent > 0);
    assert_eq!(pair.bob.session.counts().duplicates, 0, "the hello has said what need not come again");
}

/// An item arrives, the word that it did is lost, and the peer that dials again has only what was acknowledged to go by: it comes
/// again and is dropped.
#[test]
fn session_1_what_comes_again_is_dropped_and_counted() {
    let mut pair = Pair::met(Limits::default());
    pair.bob.send(A, b"once");
    let bytes = pair.bob.output(pair.now);
    pair.alice.input(pair.now, &bytes).unwrap();
    pair.cut();
    let mut hello = pair.dial();
    assert!(hello.received > 0);
    hello.received = pair.bob.session.counts().acknowledged;
    pair.answer(&hello).unwrap();
    pair.bob.send(A, b"twice");
    pair.run();
    assert_eq!(pair.alice.take_got(), [item(A, b"once"), item(A, b"twice")]);
    assert_eq!(pair.alice.session.counts().duplicates, 1);
}

#[test]
fn session_1_pieces_that_came_by_an_earlier_line_are_not_asked_for_again() {
    let mut pair = Pair::met(small());
    let large: Vec<u8> = (0..250).collect();
    pair.alice.send(A, &large);
    let bytes = pair.alice.output(pair.now);
    pair.bob.input(pair.now, &bytes[..bytes.len() - 20]).unwrap();
    pair.cut();
    pair.meet();
    assert_eq!(pair.bob.take_got(), [item(A, &large)]);
    assert!(pair.alice.session.counts().resent < 100, "the last piece only");
}

#[test]
fn what_comes_by_an_earlier_line_is_ignored() {
    let mut pair = Pair::met(Limits::default());
    pair.alice.send(A, b"late");
    let bytes = pair.alice.output(pair.now);
    let hello = pair.dial();
    pair.bob.input(pair.now, &bytes[..5]).unwrap();
    pair.answer(&hello).unwrap();
    assert_eq!(pair.bob.session.receive(pair.now, 1, &bytes[5..], |_| panic!("an item of line 1")), Ok(()));
    pair.bob.session.closed(1);
    pair.run();
    assert_eq!(pair.bob.take_got(), [item(A, b"late")], "line 2 is not closed");
}

#[test]
fn small_items_pass_a_large_one_of_another_channel_and_none_of_their_own() {
    let mut pair = Pair::met(Limits::default());
    pair.alice.send(A, &[1; 1_000_000]);
    pair.alice.send(B, b"small");
    pair.alice.send(A, b"behind");
    pair.run();
    assert_eq!(pair.bob.take_got(), [item(B, b"small"), item(A, &[1; 1_000_000]), item(A, b"behind")]);
}

/// A worker replies and dies: if its caller heard of the death first, it would run the call again.
#[test]
fn session_2_a_death_comes_behind_the_reply_and_so_does_what_is_next_in_that_slot() {
    let mut pair = Pair::met(small());
    pair.alice.send(A, &[1; 250]);
    pair.alice.send(A, b"reply");
    pair.alice.die(A.from, b"dead");
    assert_eq!(pair.alice.session.send(A, 0, b"next user"), Err(SendError::Full));
    pair.run();
    assert_eq!(pair.bob.take_got(), [item(A, &[1; 250]), item(A, b"reply"), news(b"dead")]);
    assert!(pair.alice.notices.contains(&Notice::Room(A)));
    pair.alice.send(A, b"next user");
    pair.run();
    assert_eq!(pair.bob.take_got(), [item(A, b"next user")]);
}

/// Whoever does not read what the dead has sent must not hold up that others hear of the death.
#[test]
fn session_2_the_last_words_of_the_dead_need_no_credit() {
    let mut pair = Pair::met(small());
    pair.bob.reader = Reader::Stuck;
    (0..5).for_each(|number| pair.alice.send(A, &[number; 90]));
    pair.run();
    assert_eq!(pair.bob.take_got().len(), 2, "the window");
    pair.alice.die(A.from, b"dead");
    pair.run();
    let got = pair.bob.take_got();
    assert_eq!(got[2..], [item(A, &[4; 90]), news(b"dead")]);
    assert!(!pair.alice.session.has_room(A, 1), "SESSION-3: whoever gets that slot must wait until they are read");
    (0..5).for_each(|_| pair.bob.session.taken(A, 90));
    pair.run();
    assert!(pair.alice.notices.contains(&Notice::Room(A)));
    assert!(pair.alice.session.has_room(A, 1));
}

#[test]
fn session_2_news_keep_their_order_and_pass_items_of_others() {
    let mut pair = Pair::met(small());
    pair.bob.reader = Reader::Stuck;
    (0..5).for_each(|number| pair.alice.send(B, &[number; 90]));
    pair.alice.send(A, &[9; 250]);
    pair.alice.die(A.from, b"first");
    pair.alice.session.announce(None, 0, b"second").unwrap();
    pair.run();
    let got = pair.bob.take_got();
    assert_eq!(got.iter().filter(|got| matches!(got, Got::News(..))).count(), 2);
    assert_eq!(got[got.len() - 3..], [item(A, &[9; 250]), news(b"first"), news(b"second")]);
    assert_eq!(got.len(), 2 + 3, "B waits for its reader");
}

#[test]
fn session_3_a_channel_without_credit_waits_and_holds_up_no_other() {
    let mut pair = Pair::met(small());
    pair.bob.reader = Reader::Stuck;
    (0..4).for_each(|number| pair.alice.send(A, &[number; 90]));
    pair.run();
    assert_eq!(pair.bob.take_got(), [item(A, &[0; 90]), item(A, &[1; 90])], "two fit into the window");
    pair.alice.send(B, b"other");
    pair.run();
    assert_eq!(pair.bob.take_got(), [item(B, b"other")]);
    pair.bob.session.taken(A, 90);
    pair.run();
    assert_eq!(pair.bob.take_got(), [item(A, &[2; 90])]);
}

#[test]
fn session_3_an_item_that_is_larger_than_the_window_goes_alone() {
    let mut pair = Pair::met(small());
    pair.bob.reader = Reader::Stuck;
    pair.alice.send(A, b"before");
    pair.alice.send(A, &[1; 1_000]);
    pair.run();
    assert_eq!(pair.bob.take_got(), [item(A, b"before")]);
    pair.bob.session.taken(A, 6);
    pair.run();
    assert_eq!(pair.bob.take_got(), [item(A, &[1; 1_000])]);
}

#[test]
fn session_3_full_is_an_answer_and_room_is_told() {
    let mut pair = Pair::met(small());
    pair.bob.reader = Reader::Stuck;
    let taken = (0..100).take_while(|_| pair.alice.session.send(A, 0, &[1; 90]).is_ok()).count();
    assert!((5..10).contains(&taken), "{taken} were taken");
    assert!(pair.alice.session.has_room(B, 90), "another channel has room of its own");
    pair.run();
    assert!(pair.alice.notices.iter().all(|notice| *notice != Notice::Room(A)));
    for _ in 0..taken {
        let held = pair.bob.take_got().len();
        (0..held).for_each(|_| pair.bob.session.taken(A, 90));
        pair.run();
    }
    assert!(pair.alice.notices.contains(&Notice::Room(A)));
    assert!(pair.alice.session.has_room(A, 90));
}

#[test]
fn session_3_no_more_channels_and_news_are_taken_than_there_is_room_for() {
    let mut pair = Pair::new(small());
    (0..4).for_each(|number| pair.alice.send(channel(number, 0), b"x"));
    assert_eq!(pair.alice.session.send(A, 0, b"x"), Err(SendError::Full));
    (0..2).for_each(|_| pair.alice.session.announce(None, 0, &[0; 80]).unwrap());
    assert_eq!(pair.alice.session.announce(None, 0, &[0; 80]), Err(SendError::Full));
    // Never touched, so it takes no memory.
    let huge = vec![0; wire::session::ITEM_BYTES_MAX + 1];
    assert_eq!(pair.alice.session.send(A, 0, &huge), Err(SendError::TooLarge(huge.len())));
    pair.meet();
    assert_eq!(pair.alice.notices, [Notice::Up, Notice::RoomForNews, Notice::Room(A)]);
}

/// Both are full of items that the other does not acknowledge, because it has not been heard: what says so must still get through.
#[test]
fn session_5_two_that_are_full_in_both_directions_go_on() {
    let mut pair = Pair::met(small());
    for end in [&mut pair.alice, &mut pair.bob] {
        for from in 0..4 {
            while end.session.send(channel(from, 0), 0, &[1; 90]).is_ok() {}
        }
    }
    let (from_alice, from_bob) = (pair.alice.output(pair.now), pair.bob.output(pair.now));
    assert!(!pair.alice.session.has_output() && !pair.bob.session.has_output(), "nothing more may be kept");
    pair.bob.input(pair.now, &from_alice).unwrap();
    pair.alice.input(pair.now, &from_bob).unwrap();
    pair.run();
    for end in [&pair.alice, &pair.bob] {
        let counts = end.session.counts();
        assert_eq!((counts.kept, counts.queued, counts.held), (0, 0, 0));
        assert!(end.got.len() > 16);
    }
}

/// The peer is slow to acknowledge, and all that items may use is in use.
#[test]
fn session_5_news_marks_and_credit_find_room_when_items_have_filled_theirs() {
    let mut pair = Pair::met(small());
    pair.bob.send(A, &[2; 10]);
    pair.bob_to_alice();
    (0..4).for_each(|from| while pair.alice.session.send(channel(from, 0), 0, &[1; 90]).is_ok() {});
    pair.alice.output(pair.now);
    assert!(!pair.alice.session.has_output());
    pair.alice.session.announce(None, 0, b"news").unwrap();
    assert_eq!(pair.alice.output(pair.now).len(), 16 + 4);
    pair.now = pair.now.plus_ms(5);
    pair.alice.session.tick(pair.now);
    let credit = pair.alice.output(pair.now).len();
    assert_eq!(credit, 16 + 8, "what bob sent was taken");
}

#[test]
fn session_4_a_position_is_reached_when_all_before_it_has_come() {
    let mut pair = Pair::met(small());
    assert_eq!(pair.alice.session.sent(), Position(0));
    assert!(pair.bob.session.has_reached(Position(0)), "nothing came before it");
    pair.bob.reader = Reader::Stuck;
    (0..3).for_each(|number| pair.alice.send(A, &[number; 90]));
    let early = pair.alice.session.sent();
    pair.alice.send(B, b"other");
    pair.alice.die(A.from, b"news");
    pair.alice.send(B, b"behind");
    let late = pair.alice.session.sent();
    assert!(!pair.bob.session.has_reached(late) && !pair.bob.session.has_reached(early));
    pair.run();
    assert_eq!(pair.bob.notices, [Notice::Reached(early), Notice::Reached(late)]);
    assert_eq!((pair.bob.got.len(), pair.bob.session.read()), (6, late));
    assert!(pair.bob.session.has_reached(early));
}

#[test]
fn session_4_a_ref_that_waits_for_credit_is_under_way() {
    let mut pair = Pair::met(small());
    pair.bob.reader = Reader::Stuck;
    (0..3).for_each(|number| pair.alice.send(A, &[number; 90]));
    let position = pair.alice.session.sent();
    pair.run();
    assert!(!pair.bob.session.has_reached(position));
    pair.bob.session.taken(A, 90);
    pair.run();
    assert_eq!(pair.bob.notices, [Notice::Reached(position)]);
}

#[test]
fn session_1_a_verdict_ends_it_and_names_what_perhaps_has_not_arrived() {
    let mut pair = Pair::met(Limits { ahead_bytes: 20, ..small() });
    pair.alice.send(A, b"arrived");
    pair.run();
    pair.alice.send(A, b"sent");
    pair.alice.send(B, &[5; 250]);
    let bytes = pair.alice.output(pair.now);
    pair.bob.reader = Reader::Stuck;
    pair.alice.session.send(A, 0, &[6; 400]).unwrap();
    pair.alice.session.announce(None, 9, b"news").unwrap();
    let returned = pair.alice.session.end();
    let back =
        |channel, kind, fate, length, bytes: &[u8]| Returned { channel, kind, fate, length, bytes: bytes.into() };
    assert_eq!(
        returned,
        [
            back(Some(A), 0, Fate::PerhapsArrived, 4, b"sent"),
            back(Some(B), 0, Fate::PerhapsArrived, 250, &[5; 100]),
            back(Some(A), 0, Fate::NeverArrived, 400, &[6; 100]),
            back(None, 9, Fate::NeverArrived, 4, b"news"),
        ]
    );
    pair.bob.session.end();
    pair.bob.take_got();
    pair.bob.input(pair.now, &bytes).unwrap();
    assert_eq!(pair.bob.take_got(), []);
    assert_eq!(pair.alice.session.send(A, 0, b"more"), Err(SendError::Ended));
    assert_eq!(pair.alice.session.dial(pair.now), Err(SendError::Ended));
    assert!(!pair.alice.session.has_output() && pair.alice.session.wake_at().is_none());
    assert_eq!(pair.alice.session.end(), []);
}

#[test]
fn an_idle_line_is_used_now_and_then_and_a_silent_one_given_up() {
    let mut pair = Pair::met(Limits::default());
    let start = pair.now;
    for _ in 0..20 {
        pair.now = pair.alice.session.wake_at().unwrap().min(pair.bob.session.wake_at().unwrap());
        pair.alice.session.tick(pair.now);
        pair.bob.session.tick(pair.now);
        pair.alice_to_bob();
        pair.bob_to_alice();
    }
    assert!(pair.now.ms_since(start) >= 15_000, "some two seconds between two signs of life");
    assert_eq!(pair.alice.notices, [Notice::Up]);
    let silence = pair.now;
    while pair.alice.session.wake_at().is_some() {
        pair.now = pair.alice.session.wake_at().unwrap();
        pair.alice.session.tick(pair.now);
        pair.alice.output(pair.now);
    }
    assert_eq!(pair.alice.notices, [Notice::Up, Notice::Silent(1)]);
    assert!(pair.now.ms_since(silence) <= 10_000);
}

#[test]
fn what_has_come_is_acknowledged_soon_though_nothing_goes_the_other_way() {
    let mut pair = Pair::met(Limits::default());
    pair.alice.send(A, b"x");
    pair.alice_to_bob();
    assert!(!pair.bob.session.has_output(), "something may go that way in a moment");
    let due = pair.bob.session.wake_at().unwrap();
    assert!(due.ms_since(pair.now) <= 5);
    pair.now = due;
    pair.bob.session.tick(pair.now);
    assert!(pair.bob_to_alice() > 0);
    assert_eq!(pair.alice.session.counts().kept, 0);
}
