//! What naive carriers get wrong, one story each.

mod pair;

use carrier::ToHub;
use cluster::Limits;
use model::ProcId;
use pair::{CALLER, Pair, WORKER, call, death_of, reply};
use seeded::{SplitMix64, below};
use wire::abroad::Between;
use wire::frame::{GIVEN_BACK, Header, REPLY, TAKE_BACK, UNSTARTED, WANTED_BACK};
use wire::peer::{Knew, Peer};

/// A pair whose two processes have rings on both nodes.
fn linked() -> Pair {
    linked_with(Limits::default())
}

/// Bounds that a few frames meet.
fn narrow() -> Limits {
    Limits { window_bytes: 100, queue_bytes_max: 100, ..Limits::default() }
}

fn linked_with(limits: Limits) -> Pair {
    let mut pair = Pair::new(limits);
    pair.link(CALLER, WORKER);
    pair.link(WORKER, CALLER);
    pair.settle();
    pair
}

/// A session is reset while calls are under way: they go on by the next line, in their order, and none twice.
#[test]
fn carry_1_a_line_that_is_cut_loses_repeats_and_reorders_nothing() {
    let mut pair = linked();
    (0..10).for_each(|request| pair.write(CALLER, WORKER, call(request)));
    let _lost_on_the_way = pair.take(0);
    pair.dial();
    (10..20).for_each(|request| pair.write(CALLER, WORKER, call(request)));
    pair.settle();
    assert_eq!(pair.requests(CALLER, WORKER), (0..20).collect::<Vec<_>>());
}

/// What was read by the peer, whose acknowledgement was lost, comes a second time by the next line.
#[test]
fn carry_1_what_comes_twice_is_delivered_once() {
    let mut pair = linked();
    pair.write(CALLER, WORKER, call(1));
    let bytes = pair.take(0);
    pair.give(1, &bytes);
    let _acknowledgement_lost = pair.take(1);
    let before = pair.ends[1].carrier.session(1).expect("known").counts().duplicates;
    // The dialling side has not heard how far the other one is: its hello says so, and nothing is sent again for nothing.
    pair.dial();
    pair.settle();
    assert_eq!(pair.requests(CALLER, WORKER), [1]);
    assert_eq!(pair.ends[1].carrier.session(1).expect("known").counts().duplicates, before);
}

/// A worker dies just after its reply: the reply is in the caller's ring before the caller's node hears of the death.
#[test]
fn carry_3_a_reply_comes_before_the_death_of_who_sent_it() {
    let mut pair = linked();
    pair.write(CALLER, WORKER, call(1));
    pair.settle();
    pair.ends[1].rings.started.insert(1);
    // Written, and not read by the carrier when the worker dies.
    pair.ends[1].rings.outward.entry((WORKER, CALLER)).or_default().push_back(reply(1));
    pair.kill(death_of(WORKER, None));
    assert!(pair.told(0).is_empty());
    pair.settle();
    assert_eq!(pair.ring(WORKER, CALLER), [reply(1)]);
    let told = pair.told(0);
    let [ToHub::Died { death, last }] = &told[..] else { panic!("{told:?}") };
    assert_eq!((death.peer, &last[..]), (WORKER, &[][..]), "nothing else is to be said of that call");
}

/// What found no room in its reader's ring is handed over with the death, not lost with it.
#[test]
fn carry_3_what_has_no_room_when_its_sender_dies_goes_with_the_death() {
    let mut pair = linked();
    pair.ends[0].rings.room = 1;
    [1, 2].into_iter().for_each(|request| pair.write(CALLER, WORKER, call(request)));
    pair.settle();
    pair.ends[1].rings.started.extend([1, 2]);
    [1, 2].into_iter().for_each(|request| pair.write(WORKER, CALLER, reply(request)));
    pair.kill(death_of(WORKER, None));
    pair.settle();
    assert_eq!(pair.requests(WORKER, CALLER), [1]);
    let told = pair.told(0);
    let [ToHub::Died { last, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(last[..], [(CALLER, vec![reply(2)])]);
}

/// Of three calls one has started, one lies in the dead worker's ring, and one had not come: only the first may have run.
#[test]
fn carry_2_calls_that_certainly_have_not_started_are_named_before_the_death() {
    let mut pair = linked();
    [1, 2].into_iter().for_each(|request| pair.write(CALLER, WORKER, call(request)));
    pair.settle();
    pair.ends[1].rings.started.insert(1);
    pair.kill(death_of(WORKER, None));
    let death = pair.take(1);
    pair.write(CALLER, WORKER, call(3));
    pair.give(0, &death);
    let unstarted = |request| (Header { length: 0, kind: REPLY, flags: UNSTARTED, claim: 0, request }, Vec::new());
    assert_eq!(pair.ring(WORKER, CALLER), [unstarted(2)]);
    let told = pair.told(0);
    let [ToHub::Died { last, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(last[..], [(CALLER, vec![unstarted(3)])]);
}

/// The last call that came had started: it may have run.
#[test]
fn carry_2_a_call_that_has_started_is_not_named() {
    let mut pair = linked();
    pair.write(CALLER, WORKER, call(1));
    pair.settle();
    pair.ends[1].rings.started.insert(1);
    pair.kill(death_of(WORKER, None));
    pair.settle();
    assert!(pair.ring(WORKER, CALLER).is_empty());
    let told = pair.told(0);
    let [ToHub::Died { last, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(last[..], []);
}

/// A caller wants its call back while the worker is about to start it, ten thousand times: either it runs or it is given back.
#[test]
fn claim_1_a_call_that_is_wanted_back_runs_or_comes_back_never_both() {
    let mut pair = linked();
    let mut random = SplitMix64::seeded(9);
    let mut dice = |count: u64| below(random.bits(), count);
    let take_back = |request| (Header { length: 0, kind: TAKE_BACK, flags: 0, claim: 0, request }, Vec::new());
    let (mut ran, mut came_back) = (0, 0);
    for request in 0..10_000 {
        pair.write(CALLER, WORKER, call(request));
        if dice(2) == 0 {
            pair.settle();
        }
        // It may have come, and the worker may have started it, before or after it is wanted back.
        let starts_early = dice(2) == 0;
        let start = |pair: &mut Pair| {
            let has_come = pair.requests(CALLER, WORKER).contains(&request);
            let rings = &mut pair.ends[1].rings;
            if has_come && !rings.taken_back.contains(&request) {
                rings.started.insert(request);
            }
        };
        if starts_early {
            start(&mut pair);
        }
        pair.write(CALLER, WORKER, take_back(request));
        pair.settle();
        start(&mut pair);
        let has_started = pair.ends[1].rings.started.contains(&request);
        let back = (Header { length: 0, kind: REPLY, flags: GIVEN_BACK | WANTED_BACK, claim: 0, request }, Vec::new());
        let is_back = pair.ring(WORKER, CALLER) == [back];
        assert!(has_started != is_back, "call {request}: started {has_started}, given back {is_back}");
        (ran, came_back) = (ran + u32::from(has_started), came_back + u32::from(is_back));
        pair.ends.iter_mut().for_each(|end| end.rings.inward.clear());
    }
    assert!(ran > 1_000 && came_back > 1_000, "{ran} ran, {came_back} came back");
}

/// An answer comes when its caller is dead: the heir gets it, as it would on one node.
#[test]
fn an_answer_to_a_dead_caller_goes_to_its_heir() {
    let heir = ProcId::new(1, 3, 1);
    let mut pair = linked();
    pair.write(CALLER, WORKER, call(1));
    pair.settle();
    pair.kill(death_of(CALLER, Some(heir)));
    pair.told(0);
    // The worker has not heard of that.
    pair.write(WORKER, CALLER, reply(1));
    pair.settle();
    let message = Peer::Reply { caller: CALLER, request: 1, flags: 0, knew: Knew::Dead(vec![]), body: reply(1).1 };
    let letter = Between::Letter { sender: WORKER, to: heir, message };
    assert_eq!(pair.told(0), [ToHub::Said { node: 2, message: letter }]);
}

/// A call is delayed until its receiver is dead and three others have had its slot: none of them gets it.
#[test]
fn name_1_what_comes_late_is_not_taken_for_somebody_elses() {
    let mut pair = linked();
    pair.write(CALLER, WORKER, call(1));
    let late = pair.take(0);
    pair.kill(death_of(WORKER, None));
    let successors: Vec<ProcId> = (2..5).map(|epoch| ProcId::new(2, WORKER.slot(), epoch)).collect();
    for successor in &successors {
        pair.link(*successor, CALLER);
    }
    pair.told(1);
    pair.give(1, &late);
    assert!(successors.iter().all(|successor| pair.ring(CALLER, *successor).is_empty()));
    let asked = Between::Met { name: WORKER };
    assert_eq!(pair.told(1), [ToHub::Said { node: 1, message: asked }], "the hub says that it is dead");
}

/// CUT-1: a reference that lies in a ring, or waits for room, is under way.
#[test]
fn cut_1_a_position_is_reached_when_all_before_it_lies_in_rings() {
    let mut pair = linked();
    pair.ends[1].rings.room = 1;
    pair.write(CALLER, WORKER, call(1));
    // Published, and not read yet.
    pair.ends[0].rings.outward.entry((CALLER, WORKER)).or_default().push_back(call(2));
    let pair::End { carrier, rings } = &mut pair.ends[0];
    carrier.flush(rings, 5);
    let told = pair.told(0);
    let [ToHub::Flushed { ticket: 5, sent }] = &told[..] else { panic!("{told:?}") };
    let [(2, position)] = sent[..] else { panic!("{sent:?}") };
    assert!(pair.ends[0].rings.outward[&(CALLER, WORKER)].is_empty(), "what lay in the ring is sent first");

    let pair::End { carrier, rings } = &mut pair.ends[1];
    carrier.reach(rings, 6, &[(1, position)]);
    pair.settle();
    assert!(pair.told(1).is_empty(), "the second call has come, and is in no ring");
    let pair::End { carrier, rings } = &mut pair.ends[1];
    rings.inward.clear();
    carrier.on_room(rings, WORKER, CALLER);
    assert_eq!(pair.told(1), [ToHub::Reached { ticket: 6 }]);
    assert_eq!(pair.requests(CALLER, WORKER), [2]);
}

/// A reader that does not read holds up nobody but itself, not even when who wrote to it dies: the others hear of that.
#[test]
fn session_2_what_waits_for_a_slow_reader_does_not_hold_up_the_news_of_a_death() {
    let mut pair = linked_with(narrow());
    pair.ends[0].rings.room = 0;
    (0..20).for_each(|request| pair.write(WORKER, CALLER, reply(request)));
    pair.settle();
    assert!(!pair.ends[1].carrier.reads(WORKER, CALLER), "more waits than the session takes");
    pair.kill(death_of(WORKER, None));
    pair.settle();
    let told = pair.told(0);
    let [ToHub::Died { last, .. }] = &told[..] else { panic!("{told:?}") };
    let frames: Vec<_> = last.iter().flat_map(|(_, frames)| frames.iter().map(|(header, _)| header.request)).collect();
    assert_eq!(frames, (0..20).collect::<Vec<_>>(), "all that was written before");
    assert!(pair.ends.iter().all(|end| end.carrier.is_at_rest()));
}

/// A caller dies while answers to it wait for the session: its heir gets them, or nobody would.
#[test]
fn an_answer_that_waits_for_the_session_goes_to_the_heir_of_its_caller() {
    let heir = ProcId::new(1, 3, 1);
    let mut pair = linked_with(narrow());
    pair.ends[0].rings.room = 0;
    (0..20).for_each(|request| pair.write(WORKER, CALLER, reply(request)));
    pair.settle();
    pair.kill(death_of(CALLER, Some(heir)));
    pair.settle();
    let mut answered = Vec::new();
    for message in pair.told(0).into_iter().chain(pair.told(1)) {
        if let ToHub::Said { message: Between::Letter { to, message: Peer::Reply { request, .. }, .. }, .. } = message {
            assert_eq!(to, heir);
            answered.push(request);
        }
    }
    // What lies in the worker's own ring is salvaged by the worker.
    answered.extend(pair.ends[1].rings.outward.values().flatten().map(|(header, _)| header.request));
    answered.sort_unstable();
    assert_eq!(answered, (0..20).collect::<Vec<_>>());
}

#[test]
fn cut_1_a_position_is_reached_also_if_what_was_held_is_taken_back() {
    let mut pair = linked();
    pair.ends[1].rings.room = 0;
    pair.write(CALLER, WORKER, call(1));
    pair.settle();
    let pair::End { carrier, rings } = &mut pair.ends[0];
    carrier.flush(rings, 1);
    let told = pair.told(0);
    let [ToHub::Flushed { sent, .. }] = &told[..] else { panic!("{told:?}") };
    let position = sent[0].1;
    let pair::End { carrier, rings } = &mut pair.ends[1];
    carrier.reach(rings, 6, &[(1, position)]);
    pair.settle();
    assert!(pair.told(1).is_empty());
    let take_back = (Header { length: 0, kind: TAKE_BACK, flags: 0, claim: 0, request: 1 }, Vec::new());
    pair.write(CALLER, WORKER, take_back);
    pair.settle();
    assert_eq!(pair.told(1), [ToHub::Reached { ticket: 6 }]);
}

/// An item of a session has a bound; a call beyond it fails with a reason, and does not count as sent.
#[test]
fn a_call_that_is_too_large_for_one_piece_fails_and_says_why() {
    let mut pair = linked();
    let (header, _) = call(1);
    pair.write(CALLER, WORKER, (header, vec![0; (1 << 30) + 1]));
    pair.settle();
    assert!(pair.requests(CALLER, WORKER).is_empty());
    let [(header, body)] = &pair.ring(WORKER, CALLER)[..] else { panic!("one answer") };
    assert_eq!((header.kind, header.request), (REPLY, 1));
    assert!(String::from_utf8_lossy(body).contains("split what is larger"));
    assert!(pair.ends[0].carrier.is_at_rest());
}

/// Of what was under way to a node that is dead, what had not left it certainly has not started; and what came from it before is read.
#[test]
fn a_verdict_ends_all_that_waits_for_a_node() {
    let mut pair = linked_with(narrow());
    pair.write(CALLER, WORKER, call(1));
    pair.settle();
    pair.ends[0].rings.room = 0;
    pair.write(WORKER, CALLER, reply(9));
    pair.settle();
    (2..9).for_each(|request| pair.write(CALLER, WORKER, call(request)));
    let end = &mut pair.ends[0];
    end.carrier.flush(&mut end.rings, 5);
    end.carrier.reach(&mut end.rings, 6, &[(2, 1_000_000)]);
    end.rings.told.clear();
    end.carrier.remove_node(&mut end.rings, 2);
    let told = pair.told(0);
    let [ToHub::Parted { node: 2, last }, ToHub::Reached { ticket: 6 }, ToHub::Flushed { ticket: 5, .. }] = &told[..]
    else {
        panic!("{told:?}")
    };
    let [(WORKER, frames)] = &last[..] else { panic!("{last:?}") };
    let [(CALLER, frames)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(frames[0].0.request, 9, "what it had said comes first");
    let unstarted = frames[1..].iter().filter(|(header, _)| header.flags & UNSTARTED != 0);
    let unstarted: Vec<u64> = unstarted.map(|(header, _)| header.request).collect();
    assert_eq!(unstarted, (4..9).collect::<Vec<_>>(), "the first may have");
    assert!(!pair.ends[0].carrier.reads(CALLER, WORKER));
    let end = &mut pair.ends[0];
    end.carrier.on_link_closed(&mut end.rings, CALLER, WORKER);
    assert!(pair.ends[0].carrier.is_at_rest());
}
