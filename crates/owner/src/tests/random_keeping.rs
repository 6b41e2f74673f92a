//! Deaths in random order: a process dies and leaves values and tasks; witnesses testify, give references to each other, settle, answer
//! and die, one of them with an estate of its own.
//!
//! What it holds the heir to: KEEP-1, KEEP-2 and KEEP-3.

use std::collections::{BTreeMap, BTreeSet};

use model::{ObjectId, ProcId};
use proptest::prelude::*;

use super::keeping::{GONE, Heir, ME, pending, small};
use super::story::{W1, exit, value, worker};
use crate::{Bequest, Chore, Claim, Counts, Left, Ref, Stage, Words};

/// It may die too and leave something.
const SECOND: ProcId = worker(7);
const WITNESSES: [ProcId; 4] = [SECOND, worker(20), worker(21), worker(22)];

/// One of the objects that a dead process has left.
#[derive(Clone, Debug)]
enum Thing {
    /// A value that names earlier ones.
    Put(Vec<usize>),
    /// Made by a task that needs earlier ones. `runs_on`: the witness that will answer, if that lives.
    Due { deps: Vec<usize>, was_sent: bool, runs_on: Option<usize> },
}

#[derive(Clone, Debug)]
enum Move {
    Testify(usize),
    Settle(usize),
    Die(usize),
    Give { from: usize, to: usize, object: usize },
    Deliver(usize),
    LetGo { who: usize, object: usize },
    Answer(usize),
}

const PICK: std::ops::Range<usize> = 0..1_000;

fn things() -> impl Strategy<Value = Vec<Thing>> {
    let some = || prop::collection::vec(PICK, 0..3);
    let due = (some(), any::<bool>(), prop::option::of(0..WITNESSES.len()))
        .prop_map(|(deps, was_sent, runs_on)| Thing::Due { deps, was_sent: was_sent || runs_on.is_some(), runs_on });
    prop::collection::vec(prop_oneof![some().prop_map(Thing::Put), due], 0..8)
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => PICK.prop_map(Move::Testify),
        4 => PICK.prop_map(Move::Settle),
        1 => PICK.prop_map(Move::Die),
        6 => (PICK, PICK, PICK).prop_map(|(from, to, object)| Move::Give { from, to, object }),
        4 => PICK.prop_map(Move::Deliver),
        3 => (PICK, PICK).prop_map(|(who, object)| Move::LetGo { who, object }),
        3 => PICK.prop_map(Move::Answer),
    ]
}

/// A death, and how far the witnesses are with it.
struct Death {
    of: ProcId,
    objects: Vec<ObjectId>,
    /// Who runs which of its calls.
    running: Vec<(u64, ProcId)>,
    untestified: BTreeSet<ProcId>,
    unsettled: BTreeSet<ProcId>,
    is_asked: bool,
    is_finished: bool,
}

/// What the witnesses know, counted apart from the heir.
struct World {
    heir: Heir,
    deaths: Vec<Death>,
    alive: BTreeSet<ProcId>,
    /// What each holds, and how many shares of it the heir has counted for it.
    holds: BTreeMap<(ProcId, ObjectId), i32>,
    /// References under way: to whom, which, and whether the giver knew of its owner's death.
    gifts: Vec<(ProcId, ObjectId)>,
    names: BTreeMap<ObjectId, Vec<ObjectId>>,
    /// What the second one will leave.
    second: Vec<Thing>,
}

impl World {
    fn new(first: &[Thing], second: Vec<Thing>, held: Vec<(usize, usize)>) -> Self {
        let heir = Heir::new();
        let alive = WITNESSES.into_iter().collect();
        let (holds, names) = (BTreeMap::new(), BTreeMap::new());
        let mut world = Self { heir, deaths: Vec::new(), alive, holds, gifts: Vec::new(), names, second };
        world.dies_and_leaves(GONE, first);
        for (who, object) in held {
            if let Some(id) = pick(&world.deaths[0].objects, object) {
                world.holds.insert((WITNESSES[who % WITNESSES.len()], id), 0);
            }
        }
        world
    }

    fn dies_and_leaves(&mut self, of: ProcId, things: &[Thing]) {
        let (mut objects, mut tasks, mut running) = (Vec::new(), Vec::new(), Vec::new());
        // What it holds of another's objects may stand in its values.
        let theirs: Vec<ObjectId> = self.holds.keys().filter(|(who, _)| *who == of).map(|(_, id)| *id).collect();
        let mut known: Vec<ObjectId> = theirs.clone();
        let owner_of = |id: &ObjectId| if theirs.contains(id) { GONE } else { of };
        for (request, thing) in (0..).zip(things) {
            let id = self.heir.next_id();
            let refs = |picks: &[usize]| -> Vec<Ref> {
                let ids = picks.iter().filter_map(|at| pick(&known, *at));
                ids.map(|id| (id, owner_of(&id))).collect()
            };
            match thing {
                Thing::Put(names) => {
                    let names = refs(names);
                    self.names.insert(id, names.iter().map(|(id, _)| *id).collect());
                    let left = if names.is_empty() { small() } else { Left::Value(value(2), names) };
                    objects.push((id, left));
                }
                Thing::Due { deps, was_sent, runs_on } => {
                    let worker = runs_on.map(|at| WITNESSES[at]).filter(|worker| self.alive.contains(worker));
                    running.extend(worker.map(|worker| (request, worker)));
                    let sent_to = was_sent.then_some(worker.unwrap_or(W1));
                    tasks.push(Bequest { sent_to, ..pending(request, id, &refs(deps), None) });
                    objects.push((id, Left::Due));
                }
            }
            known.push(id);
        }
        let ids = objects.iter().map(|(id, _)| *id).collect();
        self.alive.remove(&of);
        let (untestified, unsettled) = (self.alive.clone(), self.alive.clone());
        let witnesses: Vec<ProcId> = self.alive.iter().copied().collect();
        let (is_asked, is_finished) = (false, false);
        self.deaths.push(Death { of, objects: ids, running, untestified, unsettled, is_asked, is_finished });
        let chores = self.heir.inherits_from(of, objects, tasks, &witnesses);
        self.note(chores);
    }

    fn is_idle(&self) -> bool {
        self.deaths.iter().all(|death| death.is_finished)
    }

    fn testify(&mut self, at: usize, who: ProcId) {
        let death = &mut self.deaths[at];
        if !death.untestified.remove(&who) {
            return;
        }
        let is_of = |id: &ObjectId| death.objects.contains(id);
        let mut held = Vec::new();
        for ((_, id), shares) in self.holds.iter_mut().filter(|((holder, id), _)| *holder == who && is_of(id)) {
            if *shares == 0 {
                *shares = 1;
                held.push(*id);
            }
        }
        let running = death.running.iter().filter(|(_, worker)| *worker == who);
        let serving: Vec<u64> = running.map(|(request, _)| *request).collect();
        let (of, lent) = (death.of, &[][..]);
        let words = Words { of, from: who, held: &held, lent, serving: &serving, is_last: true, is_dead: false };
        let chores = self.heir.says(words);
        self.note(chores);
    }

    fn settle(&mut self, at: usize, who: ProcId) {
        if !self.deaths[at].is_asked || !self.deaths[at].unsettled.contains(&who) {
            return;
        }
        for (to, id) in std::mem::take(&mut self.gifts) {
            if to == who { self.take_up(to, id) } else { self.gifts.push((to, id)) }
        }
        self.deaths[at].unsettled.remove(&who);
        let chores = self.heir.settles_for(self.deaths[at].of, who);
        self.note(chores);
    }

    fn die(&mut self, who: ProcId) {
        if !self.alive.contains(&who) {
            return;
        }
        self.gifts.retain(|(to, _)| *to != who);
        if who == SECOND {
            self.heir.process.when(|owner, _, out| owner.on_worker_died(who, &exit(), |_| true, out));
            let things = std::mem::take(&mut self.second);
            self.dies_and_leaves(who, &things);
        } else {
            self.alive.remove(&who);
            self.heir.process.died(who, &[]);
        }
        self.holds.retain(|(holder, _), _| *holder != who);
        for death in &mut self.deaths {
            death.untestified.remove(&who);
            death.unsettled.remove(&who);
            death.running.retain(|(_, worker)| *worker != who);
        }
        let chores = self.heir.is_told_of(who);
        self.note(chores);
    }

    /// Whoever has testified registers the share with the heir; whoever has not, with the dead.
    fn give(&mut self, from: ProcId, to: ProcId, object: usize) {
        let held: Vec<ObjectId> = self.holds.keys().filter(|(who, _)| *who == from).map(|(_, id)| *id).collect();
        let Some(id) = pick(&held, object).filter(|_| from != to && self.alive.contains(&to)) else { return };
        let has_testified = |death: &&Death| death.objects.contains(&id) && !death.untestified.contains(&from);
        if self.deaths.iter().any(|death| has_testified(&death)) {
            self.register(from, to, id);
            *self.holds.entry((to, id)).or_default() += 1;
        } else {
            self.gifts.push((to, id));
        }
    }

    /// A reference comes that was registered with nobody but the dead.
    fn take_up(&mut self, to: ProcId, id: ObjectId) {
        let death = self.deaths.iter().find(|death| death.objects.contains(&id)).expect("of somebody dead");
        let is_claimed = !death.untestified.contains(&to);
        if is_claimed {
            self.register(to, to, id);
        }
        *self.holds.entry((to, id)).or_default() += i32::from(is_claimed);
    }

    fn register(&mut self, sender: ProcId, borrower: ProcId, object: ObjectId) {
        let claim = Claim { sender, object, borrower, is_dead: !self.alive.contains(&borrower) };
        let counts = self.heir.keeping.who_borrows(claim, ME, &self.heir.heirs);
        assert_eq!(counts, Counts::For(borrower), "KEEP-2: a share is not counted");
        self.heir.process.when(|owner, _, out| owner.on_shares(&object, borrower, 1, out));
    }

    /// Whoever has not testified lets go by a word to the dead.
    fn let_go(&mut self, who: ProcId, object: usize) {
        let held: Vec<ObjectId> = self.holds.keys().filter(|(holder, _)| *holder == who).map(|(_, id)| *id).collect();
        let Some(id) = pick(&held, object) else { return };
        let death = self.deaths.iter().find(|death| death.objects.contains(&id)).expect("of somebody dead");
        let is_known = !death.untestified.contains(&who);
        // What the heir has counted for one that has not heard of the death stays counted until that one has.
        if let Some(shares) = self.holds.get(&(who, id)).copied().filter(|shares| is_known || *shares == 0) {
            self.holds.remove(&(who, id));
            if shares > 0 {
                self.heir.process.when(|owner, _, out| owner.on_shares(&id, who, -shares, out));
            }
        }
    }

    fn answer(&mut self, at: usize) {
        let all = self.deaths.iter().flat_map(|death| death.running.iter().map(|call| (death.of, *call)));
        let Some((of, (request, worker))) = pick(&all.collect::<Vec<_>>(), at) else { return };
        let death = self.deaths.iter_mut().find(|death| death.of == of).expect("found above");
        death.running.retain(|(other, _)| *other != request);
        let chore = self.heir.is_answered_for((of, request), worker);
        self.note(chore);
    }

    /// KEEP-1: it is finished once, when nobody is left to be heard.
    fn note(&mut self, chores: impl IntoIterator<Item = Chore>) {
        for chore in chores {
            let (Chore::Settle { of, .. } | Chore::Settled { of, .. }) = &chore else { continue };
            let death = self.deaths.iter_mut().find(|death| death.of == *of).expect("of somebody dead");
            assert!(death.untestified.is_empty(), "KEEP-1: somebody has not testified");
            if let Chore::Settle { witnesses, .. } = chore {
                assert!(!death.is_asked && witnesses.iter().all(|who| self.alive.contains(who)), "KEEP-1: asked twice");
                death.is_asked = true;
            } else {
                assert!(!death.is_finished && death.unsettled.is_empty(), "KEEP-1: finished twice, or too soon");
                death.is_finished = true;
            }
        }
    }

    fn check(&self) {
        for death in self.deaths.iter().filter(|death| !death.is_finished) {
            assert!(death.objects.iter().all(|id| self.heir.keeps(id)), "KEEP-2: let go of before it is settled");
        }
        for (who, id) in self.holds.keys() {
            assert!(self.heir.keeps(id), "KEEP-2: {who} holds {id}, which is gone");
        }
    }

    fn play(&mut self, play: Move) {
        let who = |at: usize| WITNESSES[at % WITNESSES.len()];
        let deaths = 0..self.deaths.len();
        match play {
            Move::Testify(at) => deaths.for_each(|death| self.testify(death, who(at))),
            Move::Settle(at) => deaths.for_each(|death| self.settle(death, who(at))),
            Move::Die(at) => self.die(who(at)),
            Move::Give { from, to, object } => self.give(who(from), who(to), object),
            Move::Deliver(at) => {
                if !self.gifts.is_empty() {
                    let (to, id) = self.gifts.swap_remove(at % self.gifts.len());
                    self.take_up(to, id);
                }
            }
            Move::LetGo { who: at, object } => self.let_go(who(at), object),
            Move::Answer(at) => self.answer(at),
        }
        self.check();
    }

    /// Everyone says what is left to say; tasks run to their end. Then what is held is all that is kept.
    fn rest(mut self) {
        for at in 0..self.deaths.len() {
            for who in self.alive.clone() {
                self.testify(at, who);
            }
            for who in self.alive.clone() {
                self.settle(at, who);
            }
        }
        assert!(self.is_idle(), "KEEP-1: an estate is never finished");
        while self.deaths.iter().any(|death| !death.running.is_empty()) {
            self.answer(0);
        }
        while let Some(key) = self.next_running() {
            self.heir.process.replied(key, W1, value(1));
        }
        self.check();
        assert_eq!(self.heir.process.owner.tasks_pending(), 0, "KEEP-3: a task never ends");
        let mut expected = BTreeSet::new();
        let mut found: Vec<ObjectId> = self.holds.keys().map(|(_, id)| *id).collect();
        while let Some(id) = found.pop() {
            if expected.insert(id) {
                found.extend(self.names.get(&id).into_iter().flatten());
            }
        }
        let kept: BTreeSet<ObjectId> = self.heir.process.owner.objects().map(|(_, object)| object.id).collect();
        assert_eq!(kept, expected, "KEEP-2: what is kept is not what is held");
        for who in self.alive.clone() {
            while self.holds.keys().any(|(holder, _)| *holder == who) {
                self.let_go(who, 0);
            }
        }
        assert_eq!(self.heir.process.owner.objects_kept(), 0, "KEEP-2: something is kept for nobody");
        assert!(self.heir.keeping.is_idle(), "KEEP-3: an answer is awaited that never comes");
    }

    fn next_running(&self) -> Option<model::TaskKey> {
        let is_running = |stage| matches!(stage, Stage::Under { worker: W1, .. });
        self.heir.process.owner.tasks().find(|(_, task)| is_running(task.stage)).map(|(key, _)| key)
    }
}

fn pick<T: Clone>(from: &[T], at: usize) -> Option<T> {
    if from.is_empty() { None } else { Some(from[at % from.len()].clone()) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keep_1_to_3_hold_in_any_order(
        first in things(),
        second in things(),
        held in prop::collection::vec((PICK, PICK), 0..8),
        plays in prop::collection::vec(moves(), 0..60),
    ) {
        let mut world = World::new(&first, second, held);
        world.check();
        for play in plays {
            world.play(play);
        }
        world.rest();
    }
}
