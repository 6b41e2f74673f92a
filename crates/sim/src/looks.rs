//! Values that somebody did not find where they should lie, as the real body looks for them: off its lock, so that anything may happen before
//! the look and before what it found is said.

use model::{Bulk, ObjectId, ProcId, TaskKey};
use owner::{Slot, Value};
use wire::peer::Peer;

use crate::env::Env;
use crate::network::Item;
use crate::process::Process;

/// What a look is for.
#[derive(Clone, Debug)]
pub(crate) enum Look {
    /// A program reads a value.
    Get,
    /// A borrower asks where a value of ours is.
    Missing { from: ProcId, object: ObjectId, bulk: Bulk },
    /// A worker did not find an argument of our call.
    Arguments { task: TaskKey, why: Box<str> },
}

/// What a look has found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Looked for, and not there.
    lost: Vec<(Slot, Bulk)>,
    /// Values of ours whose files are not there either.
    gone: Vec<(Slot, Bulk)>,
}

impl Process {
    pub(crate) fn lies_at(&self, slot: Slot, bulk: Bulk) -> bool {
        self.party.owner.object(slot).and_then(|object| object.value.as_ref()) == Some(&Value::bulk(bulk))
    }

    /// Whether a large value can be had.
    fn is_found(&self, env: &mut Env, bulk: Bulk) -> bool {
        match self.look_at(env, bulk) {
            Some((_, pin)) => {
                self.unpin(env, pin);
                true
            }
            None => false,
        }
    }

    fn files_gone(&self, env: &Env) -> Vec<(Slot, Bulk)> {
        let memory = &env.memories[self.pid.0];
        let ours = self.party.owner.objects().filter(|(_, object)| object.owner.is_none());
        ours.filter_map(|(slot, object)| match object.value.as_ref()?.as_bulk()? {
            bulk @ Bulk::Filed(filed) if !self.is_away(bulk) => (!memory.is_there(&filed)).then_some((slot, bulk)),
            Bulk::Filed(_) | Bulk::Stored(_) => None,
        })
        .collect()
    }

    pub(crate) fn order_look(&self, env: &mut Env, look: Look) {
        let us = env.rng.between(1, 20_000);
        env.later(us, Item::Look { process: self.pid, look });
    }

    pub(crate) fn seen(&self, env: &mut Env, look: Look, lost: Vec<(Slot, Bulk)>) {
        let gone = if lost.is_empty() { Vec::new() } else { self.files_gone(env) };
        let us = env.rng.between(1, 20_000);
        env.later(us, Item::Looked { process: self.pid, look, seen: Seen { lost, gone } });
    }

    /// A reader finds nothing where the object's value should lie.
    pub(crate) fn not_found(&mut self, env: &mut Env, slot: Slot, bulk: Bulk) {
        if self.report_stale(env, slot, bulk) || self.holdings.missed.contains(&(slot, bulk)) {
            return;
        }
        if self.lies_at(slot, bulk) {
            self.holdings.missed.push((slot, bulk));
            self.seen(env, Look::Get, vec![(slot, bulk)]);
        }
    }

    /// A borrower finds nothing where we said that our value lies.
    pub(crate) fn on_missing(&mut self, env: &mut Env, from: ProcId, object: ObjectId, bulk: Bulk) {
        env.counts.stale += 1;
        let is_so = self.party.owner.slot_of(&object).is_some_and(|slot| self.lies_at(slot, bulk));
        let is_here = matches!(bulk, Bulk::Stored(_)) && !self.is_away(bulk);
        if !is_so || is_here && self.is_found(env, bulk) {
            return self.party.owner.on_wanted(&object, from, &mut self.party.effects);
        }
        self.order_look(env, Look::Missing { from, object, bulk });
    }

    /// The thread for it has come to this look.
    pub(crate) fn on_look(&mut self, env: &mut Env, look: Look) {
        let mut named = match &look {
            Look::Get => unreachable!("who reads has looked"),
            Look::Missing { object, bulk, .. } => {
                self.party.owner.slot_of(object).map(|slot| (slot, *bulk)).into_iter().collect()
            }
            Look::Arguments { task, .. } => self.party.owner.arguments_to_look_at(*task),
        };
        named.retain(|(slot, bulk)| self.lies_at(*slot, *bulk));
        let (away, mut here): (Vec<_>, Vec<_>) = named.into_iter().partition(|(_, bulk)| self.is_away(*bulk));
        here.retain(|(_, bulk)| !self.is_found(env, *bulk));
        self.probe(env, look, here, away);
    }

    /// What it has found is said.
    pub(crate) fn on_looked(&mut self, env: &mut Env, look: Look, seen: &Seen) {
        let mut has_changed = false;
        for (slot, bulk) in &seen.lost {
            self.holdings.missed.retain(|missed| *missed != (*slot, *bulk));
            has_changed |= !self.lies_at(*slot, *bulk);
            if !self.report_stale(env, *slot, *bulk) {
                self.report_lost(env, *slot, *bulk, &seen.gone);
            }
        }
        match look {
            Look::Get => {}
            Look::Missing { from, .. } if self.party.is_dead(from) => {}
            Look::Missing { from, object, .. } => self.party.owner.on_wanted(&object, from, &mut self.party.effects),
            Look::Arguments { task, why } => {
                self.party.owner.on_arguments_looked(task, has_changed, &why, &mut self.party.effects);
            }
        }
        self.apply(env);
    }

    /// A borrowed value does not lie where its owner said, who is asked. False if that is no news.
    fn report_stale(&mut self, env: &mut Env, slot: Slot, bulk: Bulk) -> bool {
        let object = self.party.owner.object(slot).map(|object| (object.id, object.owner));
        let Some((object, Some(owner))) = object else { return false };
        let is_news = self.party.owner.on_stale(slot, bulk, &mut self.party.effects);
        if is_news {
            self.relay(env, owner, Peer::Missing { object, bulk });
        }
        is_news
    }

    /// A value of ours is lost, and with it perhaps others.
    fn report_lost(&mut self, env: &mut Env, slot: Slot, bulk: Bulk, gone: &[(Slot, Bulk)]) {
        let mut lost = vec![(slot, bulk)];
        lost.extend(gone.iter().filter(|(other, _)| *other != slot));
        let is_news = |(slot, bulk): &&(Slot, Bulk)| {
            let is_ours = self.party.owner.object(*slot).is_some_and(|object| object.owner.is_none());
            is_ours && self.lies_at(*slot, *bulk)
        };
        let mut news = lost.iter().filter(is_news);
        env.counts.lost += news.clone().count() as u64;
        if let Some((_, bulk)) = news.find(|(_, bulk)| !env.may_be_lost(*bulk)) {
            env.oracle.fail(format!("SIM-10: {:?} says that {bulk:?} is lost, but nothing happened to it", self.pid));
        }
        self.party.owner.on_lost(&lost, "lost", &mut self.party.effects);
    }
}
