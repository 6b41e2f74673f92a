use model::{Bulk, Place, ProcId, Tick};
use proptest::prelude::*;
use wire::abroad::AboutValues;
use wire::asking::NotFetched;

use crate::{Asked, Depot, Effect, Failed};

const MIB: u64 = 1 << 20;
const NOW: Tick = Tick(0);
const OWNER: ProcId = ProcId::new(2, 3, 1);

fn value(node: u32, number: u64) -> Bulk {
    Bulk::Stored(Place { offset: number * MIB, length: MIB, serial: Place::serials_of(node) | (number + 1) })
}

fn depot(others: &[u32]) -> Depot<u32> {
    let mut depot = Depot::new(1);
    others.iter().for_each(|node| depot.node_joined(*node, true));
    depot
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
    let came = did(|out| depot.pulled(NOW, name, Ok(here), out));
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
    taker.pulled(NOW, name, Ok(here), &mut out);
    let gone = did(|out| taker.on_word(NOW, 2, AboutValues::Gone(vec![name]), out));
    assert_eq!(gone, [Effect::Drop { bulk: name, at: here }]);
    taker.wants(NOW, name, 0, &mut out);
    taker.on_word(NOW, 2, AboutValues::Gone(vec![name]), &mut out);
    let came = did(|out| taker.pulled(NOW, name, Ok(here), out));
    let moved = Effect::Answer { to: 0, found: Err(NotFetched::Moved) };
    assert_eq!(came, [Effect::Drop { bulk: name, at: here }, moved], "it went while it came");
}

#[test]
fn what_is_kept_for_another_node_goes_with_its_owners_word_or_node() {
    let mut home = depot(&[2, 3]);
    let holder = ProcId::new(1, 4, 1);
    let (first, second) = (value(1, 0), value(1, 1));
    let kept = did(|out| {
        home.keep(NOW, first, OWNER, holder, out);
        home.keep(NOW, second, OWNER, holder, out);
    });
    assert_eq!(kept, []);
    home.asked(NOW, 3, first, true);
    assert_eq!(did(|out| home.look(Tick(u64::MAX), |_| false, out)), [], "its place is no proof");
    let file = value(1, 9);
    assert_eq!(home.movable(1, |_| false), [first.min(second)]);
    assert_eq!(home.moved(second, file), Some(holder));
    let let_go = |bulk, at| Effect::LetGo { bulk, at, holder };
    let freed = did(|out| home.on_word(NOW, 2, AboutValues::Free(first), out));
    assert_eq!(freed, [Effect::Say(3, AboutValues::Gone(vec![first])), let_go(first, first)]);
    assert_eq!(did(|out| home.node_gone(2, out)), [let_go(second, file)], "DEPOT-3");
    assert_eq!(did(|out| home.keep(NOW, first, OWNER, holder, out)), [let_go(first, first)], "its owner is dead already");
}

#[test]
fn what_was_kept_for_the_dead_is_their_heirs_or_nobodys() {
    let mut home = depot(&[2]);
    let (holder, heir) = (ProcId::new(1, 4, 1), ProcId::new(2, 9, 1));
    let (first, second, late) = (value(1, 0), value(1, 1), value(1, 2));
    let other = ProcId::new(2, 5, 1);
    let mut out = Vec::new();
    home.keep(NOW, first, OWNER, holder, &mut out);
    home.keep(NOW, second, other, holder, &mut out);
    let passed = did(|out| home.owner_died(OWNER, Some(heir), out));
    assert_eq!(passed, [Effect::PassOn { heir, bulks: vec![first] }]);
    let passed = did(|out| home.keep(NOW, late, OWNER, holder, out));
    assert_eq!(passed, [Effect::PassOn { heir, bulks: vec![late] }], "it was on its way");
    let let_go = |bulk| Effect::LetGo { bulk, at: bulk, holder };
    assert_eq!(did(|out| home.owner_died(other, None, out)), [let_go(second)], "it has left nothing");
    assert_eq!(did(|out| home.free(first, out)), [let_go(first)]);
    assert_eq!(did(|out| home.node_gone(2, out)), [let_go(late)]);
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
        depot.pulled(Tick(0).plus_ms(number), value(2, number), Ok(value(1, number)), &mut out);
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
                        0 => Ok(value(1, number)),
                        1 => Err(Failed::NodeDead),
                        2 => Err(Failed::Moved),
                        _ => Err(Failed::Later("".into())),
                    };
                    if let Ok(at) = result {
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
