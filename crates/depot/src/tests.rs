use model::{Bulk, FileId, Filed, Place, ProcId, Tick};
use proptest::prelude::*;
use wire::abroad::AboutValues;
use wire::asking::NotFetched;

use crate::{Asked, Depot, Effect, Failed, Given};

const MIB: u64 = 1 << 20;
const NOW: Tick = Tick(0);

fn value(node: u32, number: u64) -> Bulk {
    Bulk::Stored(Place { offset: number * MIB, length: MIB, serial: Place::serials_of(node) | (number + 1) })
}

/// A process of that node.
fn process(node: u32) -> ProcId {
    ProcId::new(node, 5, 1)
}

/// Who wrote what this node keeps.
const HOLDER: ProcId = ProcId::new(1, 4, 1);

fn given(bulk: Bulk, owner: ProcId) -> Given {
    Given { bulk, at: bulk, owner, holder: HOLDER }
}

fn let_go(bulk: Bulk, at: Bulk) -> Effect<u32> {
    Effect::LetGo { bulk, at, holder: HOLDER }
}

fn depot(others: &[u32]) -> Depot<u32> {
    let mut depot = Depot::new(1);
    others.iter().for_each(|node| depot.node_joined(*node, true));
    depot
}

fn filed(number: u32) -> Filed {
    Filed { file: FileId { by: HOLDER, number, folder: 0 }, offset: 0, length: MIB, check: 0 }
}

fn did(act: impl FnOnce(&mut Vec<Effect<u32>>)) -> Vec<Effect<u32>> {
    let mut out = Vec::new();
    act(&mut out);
    out
}

#[test]
fn all_who_want_a_value_wait_for_one_pull() {
    let mut depot = depot(&[2]);
    let (name, here) = (value(2, 0), value(1, 7));
    let first = did(|out| depot.wants(NOW, name, 10, out));
    assert_eq!(first, [Effect::Pull { bulk: name, from: 2 }]);
    assert_eq!(did(|out| depot.wants(NOW, name, 11, out)), [], "DEPOT-2");
    assert_eq!(did(|out| depot.will_want(NOW, name, out)), []);
    let came = did(|out| depot.pulled(NOW, name, Ok((here, process(2))), out));
    let answer = |to| Effect::Answer { to, found: Ok(here) };
    assert_eq!(came, [answer(10), answer(11)]);
    assert_eq!(did(|out| depot.wants(NOW, name, 12, out)), [answer(12)]);
}

#[test]
fn who_comes_later_is_sent_to_who_came_before() {
    let mut home = depot(&[2, 3, 4]);
    home.node_joined(5, false);
    let name = value(1, 0);
    assert_eq!(home.asked(NOW, 2, name, true), Asked::At(name));
    assert_eq!(home.asked(NOW, 5, name, true), Asked::SentOn(2));
    assert_eq!(home.asked(NOW, 3, name, true), Asked::SentOn(2), "nobody can call 5");
    assert_eq!(home.asked(NOW, 4, name, true), Asked::SentOn(3));
    assert_eq!(home.asked(NOW, 4, name, false), Asked::At(name), "3 did not have it");
    let mut out = Vec::new();
    home.node_gone(3, &mut out);
    assert_eq!(home.asked(NOW, 2, name, true), Asked::SentOn(4));
    let mut second = depot(&[4]);
    second.wants(NOW, value(4, 0), 0, &mut out);
    assert_eq!(second.asked(NOW, 4, value(4, 0), false), Asked::Coming);
    assert_eq!(second.asked(NOW, 4, value(4, 1), false), Asked::Nothing);
}

#[test]
fn copies_of_what_was_freed_go() {
    let mut home = depot(&[2, 3]);
    let name = value(1, 0);
    home.asked(NOW, 2, name, true);
    home.asked(NOW, 3, name, true);
    let at = home.next_look().unwrap();
    assert_eq!(did(|out| home.look(at, |_| true, out)), []);
    let gone = |node| Effect::Say(node, AboutValues::Gone(vec![name]));
    assert_eq!(did(|out| home.look(at.plus_ms(1_000), |_| false, out)), [gone(2), gone(3)]);
    assert_eq!(home.next_look(), None);

    let mut taker = depot(&[2]);
    let (name, here) = (value(2, 0), value(1, 7));
    let mut out = Vec::new();
    taker.wants(NOW, name, 0, &mut out);
    taker.pulled(NOW, name, Ok((here, process(2))), &mut out);
    let gone = did(|out| taker.on_word(NOW, 2, AboutValues::Gone(vec![name]), out));
    assert_eq!(gone, [Effect::Drop { bulk: name, at: here }]);
    taker.wants(NOW, name, 0, &mut out);
    taker.on_word(NOW, 2, AboutValues::Gone(vec![name]), &mut out);
    let came = did(|out| taker.pulled(NOW, name, Ok((here, process(2))), out));
    let moved = Effect::Answer { to: 0, found: Err(NotFetched::Moved) };
    assert_eq!(came, [Effect::Drop { bulk: name, at: here }, moved], "it went while it came");
}

#[test]
fn what_is_kept_for_another_node_goes_with_its_owners_word_or_node() {
    let mut home = depot(&[2, 3]);
    let (first, second) = (value(1, 0), value(1, 1));
    let kept = did(|out| {
        home.keep(NOW, given(first, process(2)), out);
        home.keep(NOW, given(second, process(2)), out);
    });
    assert_eq!(kept, []);
    home.asked(NOW, 3, first, true);
    assert_eq!(did(|out| home.look(Tick(u64::MAX), |_| false, out)), [], "its place is no proof");
    let file = value(1, 9);
    assert_eq!(home.movable(1, |_| false), [first.min(second)]);
    assert_eq!(home.moved(second, file), Some(HOLDER));
    let freed = did(|out| home.on_word(NOW, 2, AboutValues::Free(first), out));
    let gone = |node| Effect::Say(node, AboutValues::Gone(vec![first]));
    assert_eq!(freed, [gone(3), let_go(first, first), gone(2)], "who frees it hears of that");
    assert_eq!(did(|out| home.node_gone(2, out)), [let_go(second, file)], "DEPOT-3");
    let too_late = did(|out| home.keep(NOW, given(first, process(2)), out));
    assert_eq!(too_late, [let_go(first, first)], "its owner is dead already");
}

/// Two shortages, one behind the other, wrote a value twice, and nobody removed the first file.
#[test]
fn what_is_in_a_file_moves_no_more() {
    let mut home = depot(&[2]);
    let (name, other) = (value(1, 0), value(1, 1));
    let in_file = |number| Bulk::Filed(filed(number));
    let mut out = Vec::new();
    home.keep(NOW, given(name, process(2)), &mut out);
    assert_eq!(home.moved(name, in_file(1)), Some(HOLDER));
    assert_eq!(home.moved(name, in_file(2)), None);
    assert_eq!(home.lies_at(name), in_file(1));
    home.keep(NOW, Given { at: in_file(3), ..given(other, process(2)) }, &mut out);
    assert_eq!(did(|out| home.node_gone(2, out)), [let_go(name, in_file(1)), let_go(other, in_file(3))]);
}

/// An owner that was killed frees nothing: what was kept for it stayed until its whole node died.
#[test]
fn what_was_kept_for_a_dead_process_is_its_heirs_or_nobodys() {
    let mut home = depot(&[2, 3]);
    let (heir, names) = (ProcId::new(2, 9, 1), [value(1, 0), value(1, 1), value(1, 2)]);
    let mut out = Vec::new();
    names.iter().for_each(|name| home.keep(NOW, given(*name, process(2)), &mut out));
    home.asked(NOW, 3, names[0], true);
    assert_eq!(did(|out| home.process_died(process(2), Some(heir), out)), [], "it is not known who has it");
    let inherited = did(|out| home.on_word(NOW, 2, AboutValues::Inherited(names[0], heir), out));
    assert_eq!(inherited, [Effect::Say(3, AboutValues::Inherited(names[0], heir))]);
    let settled = did(|out| home.on_word(NOW, 2, AboutValues::Settled(process(2)), out));
    assert_eq!(settled, [let_go(names[1], names[1]), let_go(names[2], names[2])], "DEPOT-3");
    assert_eq!(did(|out| home.process_died(heir, None, out)).len(), 2, "nobody inherits from it");
    let too_late = did(|out| home.keep(NOW, given(names[1], heir), out));
    assert_eq!(too_late, [let_go(names[1], names[1])]);
}

/// A copy of what a dead node had stayed for ever if its owner was there, too, or died soon.
#[test]
fn a_copy_goes_with_the_last_who_could_say_that_it_is_of_no_use() {
    let mut depot = depot(&[2, 3]);
    let mut out = Vec::new();
    let owners = [process(2), process(3), ProcId::new(3, 6, 1), ProcId::of_node(3)];
    for (number, owner) in (0..).zip(owners) {
        depot.will_want(NOW, value(2, number), &mut out);
        depot.pulled(NOW, value(2, number), Ok((value(1, number), owner)), &mut out);
        assert_eq!(depot.owner_of(&value(2, number)), Some(owner));
    }
    let drop = |number| Effect::Drop { bulk: value(2, number), at: value(1, number) };
    assert_eq!(did(|out| depot.process_died(process(2), None, out)), [], "its home says so");
    assert_eq!(did(|out| depot.node_gone(2, out)), [drop(0)]);
    let heir = ProcId::new(3, 9, 1);
    assert_eq!(did(|out| depot.process_died(process(3), Some(heir), out)), []);
    assert_eq!(did(|out| depot.on_word(NOW, 3, AboutValues::Inherited(value(2, 1), heir), out)), []);
    assert_eq!(did(|out| depot.on_word(NOW, 3, AboutValues::Settled(process(3)), out)), []);
    assert_eq!(did(|out| depot.process_died(owners[2], None, out)), [drop(2)]);
    assert_eq!(did(|out| depot.node_gone(3, out)), [drop(1), drop(3)]);
}

/// The home died before it had told those with copies.
#[test]
fn what_a_dead_node_was_told_to_free_is_freed_by_who_said_so() {
    let mut depot = depot(&[2, 3]);
    let (first, second) = (value(2, 0), value(2, 1));
    let free = |bulk| Effect::Say(2, AboutValues::Free(bulk));
    assert_eq!(
        did(|out| [first, second].into_iter().for_each(|bulk| depot.free(bulk, out))),
        [free(first), free(second)]
    );
    assert_eq!(did(|out| depot.on_word(NOW, 2, AboutValues::Gone(vec![first]), out)), []);
    let gone = |node| Effect::Say(node, AboutValues::Gone(vec![second]));
    assert_eq!(did(|out| depot.node_gone(2, out)), [gone(3)]);
    assert_eq!(depot.names().count(), 0);
}

#[test]
fn whoever_inherits_tells_the_home_or_all_if_that_is_dead() {
    let mut depot = depot(&[2, 3]);
    let (name, heir) = (value(2, 0), process(1));
    let say = |node| Effect::Say(node, AboutValues::Inherited(name, heir));
    assert_eq!(did(|out| depot.inherit(name, heir, out)), [say(2)]);
    let settled = |node| Effect::Say(node, AboutValues::Settled(heir));
    assert_eq!(did(|out| depot.settled_here(heir, out)), [settled(2), settled(3)]);
    depot.node_gone(2, &mut Vec::new());
    assert_eq!(did(|out| depot.inherit(name, heir, out)), [say(3)]);
}

#[test]
fn a_value_whose_home_is_dead_comes_from_who_has_a_copy_or_is_lost() {
    let mut depot = depot(&[3, 4]);
    let name = value(2, 0);
    let who_has = |node| Effect::Say(node, AboutValues::WhoHas(name));
    assert_eq!(did(|out| depot.wants(NOW, name, 10, out)), [who_has(3), who_has(4)]);
    assert_eq!(did(|out| depot.on_word(NOW, 3, AboutValues::Have(name, false), out)), []);
    let found = did(|out| depot.on_word(NOW, 4, AboutValues::Have(name, true), out));
    assert_eq!(found, [Effect::Pull { bulk: name, from: 4 }]);
    let mut out = Vec::new();
    depot.node_gone(4, &mut out);
    assert_eq!(did(|out| depot.pulled(NOW, name, Err(Failed::NodeDead), out)), [who_has(3)]);
    let lost = did(|out| depot.node_gone(3, out));
    assert!(
        matches!(&lost[..], [Effect::Answer { to: 10, found: Err(NotFetched::Lost(why)) }] if why.contains("node 2"))
    );
}

#[test]
fn want_of_room_drops_what_nobody_was_told_of_lately() {
    let mut depot = depot(&[2]);
    let mut out = Vec::new();
    for number in 0..3 {
        depot.wants(NOW, value(2, number), 0, &mut out);
        depot.pulled(Tick(0).plus_ms(number), value(2, number), Ok((value(1, number), process(2))), &mut out);
    }
    let soon = Tick(0).plus_ms(500);
    assert_eq!(did(|out| depot.make_room(soon, MIB, |_| false, out)), [], "DEPOT-4");
    let later = Tick(0).plus_ms(5_000);
    depot.wants(later, value(2, 0), 0, &mut out);
    let dropped = did(|out| depot.make_room(later, MIB, |at| at == value(1, 1), out));
    assert_eq!(dropped, [Effect::Drop { bulk: value(2, 2), at: value(1, 2) }]);
    depot.node_gone(2, &mut out);
    let much_later = Tick(0).plus_ms(50_000);
    assert_eq!(did(|out| depot.make_room(much_later, 9 * MIB, |_| false, out)), [], "they may be the last");
}

#[derive(Clone, Debug)]
enum Happens {
    Wants(u64),
    WillWant(u64),
    Pulled(u64, u8),
    Gone(u64),
    Have(u32, u64, bool),
    NodeGone(u32),
    MakeRoom,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (0_u64..4).prop_map(Happens::Wants),
        1 => (0_u64..4).prop_map(Happens::WillWant),
        4 => (0_u64..4, 0_u8..4).prop_map(|(number, how)| Happens::Pulled(number, how)),
        1 => (0_u64..4).prop_map(Happens::Gone),
        2 => (3_u32..5, 0_u64..4, any::<bool>()).prop_map(|(node, number, has)| Happens::Have(node, number, has)),
        1 => (2_u32..5).prop_map(Happens::NodeGone),
        1 => Just(Happens::MakeRoom),
    ]
}

proptest! {
    /// DEPOT-1, DEPOT-2: whatever happens, nobody is answered twice, nothing is pulled twice at a time, and when all pulls have ended and all
    /// nodes have answered nobody waits.
    #[test]
    fn everyone_is_answered_once(steps in prop::collection::vec(happens(), 1..60)) {
        let mut depot = depot(&[2, 3, 4]);
        let (mut open, mut answered, mut pulls) = (0_u32, 0, std::collections::BTreeSet::new());
        let mut asked: std::collections::BTreeSet<(u32, Bulk)> = std::collections::BTreeSet::new();
        let mut living: std::collections::BTreeSet<u32> = [2, 3, 4].into();
        let mut waiting = std::collections::BTreeSet::new();
        let mut here = std::collections::BTreeSet::new();
        let mut steps: std::collections::VecDeque<Happens> = steps.into();
        let mut now = 0;
        loop {
            now += 700;
            let at = Tick(0).plus_ms(now);
            let mut out = Vec::new();
            // In the end what is under way ends.
            let step = steps.pop_front().or_else(|| {
                if let Some(Bulk::Stored(place)) = pulls.first() {
                    return Some(Happens::Pulled(place.offset / MIB, 3));
                }
                let (node, bulk) = asked.first()?;
                let Bulk::Stored(place) = bulk else { return None };
                Some(Happens::Have(*node, place.offset / MIB, false))
            });
            let Some(step) = step else { break };
            match step {
                Happens::Wants(number) => {
                    open += 1;
                    waiting.insert(open);
                    depot.wants(at, value(2, number), open, &mut out);
                }
                Happens::WillWant(number) => depot.will_want(at, value(2, number), &mut out),
                Happens::Pulled(number, how) => {
                    let name = value(2, number);
                    if !pulls.remove(&name) {
                        continue;
                    }
                    let result = match how {
                        0 => Ok((value(1, number), process(2))),
                        1 => Err(Failed::NodeDead),
                        2 => Err(Failed::Moved),
                        _ => Err(Failed::Later("".into())),
                    };
                    if let Ok((at, _)) = result {
                        prop_assert!(here.insert(at), "DEPOT-2");
                    }
                    depot.pulled(at, name, result, &mut out);
                }
                Happens::Gone(number) => depot.on_word(at, 2, AboutValues::Gone(vec![value(2, number)]), &mut out),
                Happens::Have(node, number, has) => {
                    if asked.remove(&(node, value(2, number))) {
                        depot.on_word(at, node, AboutValues::Have(value(2, number), has), &mut out);
                    }
                }
                Happens::NodeGone(node) => {
                    living.remove(&node);
                    asked.retain(|(other, _)| *other != node);
                    depot.node_gone(node, &mut out);
                }
                Happens::MakeRoom => depot.make_room(at, u64::MAX, |_| false, &mut out),
            }
            for effect in out {
                match effect {
                    Effect::Answer { to, .. } => {
                        prop_assert!(waiting.remove(&to), "DEPOT-1: {to} twice");
                        answered += 1;
                    }
                    Effect::Pull { bulk, .. } => prop_assert!(pulls.insert(bulk), "DEPOT-2: {bulk:?}"),
                    Effect::Drop { at, .. } => prop_assert!(here.remove(&at), "dropped twice: {at:?}"),
                    Effect::Say(node, AboutValues::WhoHas(bulk)) => {
                        prop_assert!(living.contains(&node));
                        asked.insert((node, bulk));
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }
        prop_assert_eq!(answered, open, "DEPOT-1: somebody waits");
    }
}
